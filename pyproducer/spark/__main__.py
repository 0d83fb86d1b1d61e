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
@click.option("--platform", metavar="NAME", help="Of the workers, where it is another: manylinux_2_17_x86_64. pip "
                                                 "fetches wheels.")
@click.option("--python", metavar="VERSION", help="Of the workers, where it is another: 3.11.")
@click.option("--wheels", type=click.Path(exists=True, file_okay=False, path_type=Path), metavar="DIR",
              help="A folder with more wheels for these, as `make wheels` fills one.")
def pack_command(archive: Path, also: tuple[str, ...], platform: str | None, python: str | None,
                 wheels: Path | None) -> None:
    """Put pyproducer and what it requires into ARCHIVE for spark.archives: as installed here, or for other workers.

    \b
    python -m pyproducer.spark pack dep.tar.gz
    python -m pyproducer.spark pack dep.tar.gz --platform manylinux_2_17_x86_64 --python 3.11 --wheels dist
    """  # noqa: D301 - click reads the backspace
    try:
        names = pack(archive, also, platform=platform, python=python, wheels=wheels)
    except (ConfigError, OSError) as error:
        raise click.ClickException(str(error)) from error
    click.echo(f"{archive}: {', '.join(names)}")
    click.echo(f"spark-submit --archives {archive}#dep --conf spark.executorEnv.PYTHONPATH=dep ...")


if __name__ == "__main__":
    main(prog_name="python -m pyproducer.spark")
