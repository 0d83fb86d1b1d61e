"""Swarm mode: a thread may lose the baton, or be struck by an exception, at any line of the package.

Source:  ours.
"""

from __future__ import annotations

import linecache
import random
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pyproducer
from tests.simulation.faults import Faults
from tests.simulation.plan import Parameters
from tests.simulation.schedule import Scheduler

_PACKAGE = Path(pyproducer.__file__).parent
# Not protocol/ and record/: no other thread sees what they work on; and what they keep compiled from one seed to the
# next would change how many lines the next one has.
_TRACED = tuple(str(_PACKAGE / folder) for folder in (
    "accumulator", "client", "common", "hotpath", "network", "producer", "sender", "transaction"))
Tracer = Callable[[FrameType, str, Any], Any]


def _is_with(frame: FrameType) -> bool:
    """Whether the line is that of a `with`: it comes again at the end, before __exit__, where no signal arrives."""
    return linecache.getline(frame.f_code.co_filename, frame.f_lineno).lstrip().startswith("with ")


class LineTracer:
    """Counts lines down to the next switch.

    Args:
        chance: Its own stream.
        scheduler: Whose threads.
        faults: Asked for exceptions.
        parameters: How far switches are apart.
    """

    def __init__(self, chance: random.Random, scheduler: Scheduler, faults: Faults, parameters: Parameters) -> None:
        self._chance = chance
        self._scheduler = scheduler
        self._faults = faults
        self._longest = parameters.trace_lines
        self._is_ours: dict[str, bool] = {}
        self._left = self._draw()

    def _draw(self) -> int:
        low, high = self._longest
        return 1 + int(self._chance.random() * (low if self._chance.random() < 0.5 else high))

    def install(self) -> None:
        """Trace the current thread from its next call on."""
        sys.settrace(self._on_call)

    def _on_call(self, frame: FrameType, _event: str, _arg: Any) -> Tracer | None:
        name = frame.f_code.co_filename
        is_ours = self._is_ours.get(name)
        if is_ours is None:
            is_ours = self._is_ours[name] = name.startswith(_TRACED)
        return self._on_line if is_ours else None

    def _on_line(self, frame: FrameType, event: str, _arg: Any) -> Tracer:
        self._left -= 1
        if self._left <= 0 and event == "line":
            self._left = self._draw()
            self._strike(frame)
        return self._on_line

    def _strike(self, frame: FrameType) -> None:
        scheduler = self._scheduler
        if scheduler.failure is not None or scheduler._is_in_event:
            return
        if scheduler.current.is_interruptible and not _is_with(frame) and self._faults.fires("strike"):
            from tests.simulation.workload import FromOutside

            scheduler.tell(f"is struck at {Path(frame.f_code.co_filename).name}:{frame.f_lineno}")
            raise FromOutside
        scheduler.switch()
