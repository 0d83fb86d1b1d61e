"""The command of pyproducer.spark: `python -m pyproducer.spark pack dep.tar.gz`.

Road:    [command] -> packing
Thread:  the command's.
Source:  ours.
"""

from __future__ import annotations

from pathlib import Path

import click

from pyproducer.common.errors import ConfigError
from pyproducer.spark.packing import pack


@click.group()
def main() -> None:
    """Help for pyproducer on a Spark cluster."""


@main.command("pack")
@click.argument("archive", type=click.Path(dir_okay=False, path_type=Path))
@click.option("--with", "also", multiple=True, metavar="NAME", help="Another installed package that the workers need.")
def pack_command(archive: Path, also: tuple[str, ...]) -> None:
    """Put pyproducer and what it requires, as they are installed here, into ARCHIVE for spark.archives."""
    try:
        names = pack(archive, also)
    except (ConfigError, OSError) as error:
        raise click.ClickException(str(error)) from error
    click.echo(f"{archive}: {', '.join(names)}")
    click.echo(f"spark-submit --archives {archive}#dep --conf spark.executorEnv.PYTHONPATH=dep ...")


if __name__ == "__main__":
    main(prog_name="python -m pyproducer.spark")
