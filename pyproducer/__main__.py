"""python -m pyproducer COMMAND: the embedded broker from a shell.

Road:    beside it.
Thread:  the main thread.
Source:  ours.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from pyproducer import IMPL, __version__
from pyproducer.broker import cli

_USAGE = """usage: python -m pyproducer COMMAND

  broker      run the embedded broker; `python -m pyproducer broker --help` lists its options
  version     print the version and which twin of the per-record code runs
"""


def main(argv: Sequence[str]) -> int:
    """Run a command.

    Args:
        argv: The command and its options, without the program's name.

    Returns:
        The exit status: 0 done, 2 the command line is wrong.
    """
    if argv and argv[0] == "broker":
        return cli.main(list(argv[1:]))
    if list(argv) == ["version"]:
        print(f"pyproducer {__version__} ({IMPL})")
        return 0
    wants_help = list(argv) in (["--help"], ["-h"])
    print(_USAGE, end="", file=sys.stdout if wants_help else sys.stderr)
    return 0 if wants_help else 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
