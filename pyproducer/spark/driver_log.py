"""Lines that an operator is to see, also out of the processes that Spark starts, where nobody set logging up.

Road:    datasource, task numbers -> [driver log] -> log, or stderr: Spark keeps it with the driver's or the executor's
Thread:  any.
Source:  ours.
"""

from __future__ import annotations

import functools
import logging
import sys

log: logging.Logger = logging.getLogger("pyproducer.spark")


def say(level: int, text: str, *arguments: object) -> None:
    """Write to the log, and where nobody set one up, as in the processes that Spark starts, to stderr."""
    (log if log.hasHandlers() else _on_stderr()).log(level, text, *arguments)


@functools.cache
def _on_stderr() -> logging.Logger:
    """Return a logger of these lines alone: with a handler of the other's, all that modules log would be written."""
    logger = logging.Logger(log.name, logging.INFO)
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    logger.addHandler(handler)
    return logger
