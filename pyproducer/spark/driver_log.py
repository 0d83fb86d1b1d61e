"""Lines that an operator is to see, also out of the processes that Spark starts, where nobody set logging up.

Road:    datasource, task numbers -> [driver log] -> log, or stderr: Spark keeps it with the driver's or the executor's
Thread:  any.
Source:  ours.
"""

from __future__ import annotations

import logging
import sys

log: logging.Logger = logging.getLogger("pyproducer.spark")


def say(level: int, text: str, *arguments: object) -> None:
    """Write to the log, and where nobody set one up, as in the processes that Spark starts, to stderr."""
    if not log.hasHandlers():
        handler = logging.StreamHandler(sys.stderr)
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
        log.addHandler(handler)
        log.setLevel(logging.INFO)
    log.log(level, text, *arguments)
