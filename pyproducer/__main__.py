"""python -m pyproducer COMMAND.

Road:    beside it.
Thread:  the main thread.
Source:  ours.
"""

from __future__ import annotations

from pyproducer.cli.main import main

if __name__ == "__main__":
    main(prog_name="python -m pyproducer")
