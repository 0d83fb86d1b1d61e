"""The name under which tracebacks, reprs and pickles show a public class: `pyproducer.X`, wherever it is written.

Road:    beside it.
Thread:  any.
Source:  ours.
"""

from __future__ import annotations

from typing import TypeVar

_Class = TypeVar("_Class", bound=type)


def public(cls: _Class) -> _Class:
    """Give a class its public name; for those of `pyproducer` that are loaded when asked for."""
    cls.__module__ = "pyproducer"
    return cls
