"""What the doctor found: a line for each step, as text, as JSON and as an exit status.

    ok    TLS              kafka-1:9093: TLSv1.3, TLS_AES_256_GCM_SHA384; CN=kafka-1, until Nov 24 10:00:00 2026 GMT
    fail  topic            orders: there is no such topic
                           -> create it: kafka-topics --create --topic orders

Road:    steps -> [report] -> terminal
Thread:  the main thread.
Source:  ours.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from enum import Enum

from pyproducer.common.printable import printable

EXIT_OK, EXIT_BROKEN = 0, 1
_STEP_WIDTH = 16
_INDENT = " " * (6 + _STEP_WIDTH + 1)


class Status(str, Enum):
    """How a step ended; equal to its lower-case name."""

    OK = "ok"
    WARN = "warn"  # works, and will or may not
    FAIL = "fail"
    SKIP = "skip"  # not asked for, or nothing to ask


@dataclass(frozen=True)
class Line:
    """One step at one place.

    Attributes:
        step: Which.
        status: How it ended.
        detail: What was found; brokers' words in it are printable.
        change: What to change; empty where nothing is to be.
    """

    step: str
    status: Status
    detail: str
    change: str = ""

    def text(self) -> str:
        """Return it for a terminal."""
        more = f"\n{_INDENT}-> {self.change}" if self.change else ""
        return f"{self.status.value:<5} {self.step:<{_STEP_WIDTH}} {self.detail}{more}"


class Report:
    """All lines.

    Args:
        tell: Given each line as it comes.
    """

    def __init__(self, tell: Callable[[Line], None] = lambda _line: None) -> None:
        self.lines: list[Line] = []
        self._tell = tell

    def add(self, step: str, status: Status, detail: str, change: str = "") -> None:
        """Add what was found."""
        line = Line(step, status, printable(detail), printable(change))
        self.lines.append(line)
        self._tell(line)

    def ok(self, step: str, detail: str) -> None:
        """Add a step that went well."""
        self.add(step, Status.OK, detail)

    def warn(self, step: str, detail: str, change: str = "") -> None:
        """Add a step that went well this time."""
        self.add(step, Status.WARN, detail, change)

    def fail(self, step: str, detail: str, change: str = "") -> None:
        """Add a step that stops a producer."""
        self.add(step, Status.FAIL, detail, change)

    def skip(self, step: str, detail: str) -> None:
        """Add a step that was left out."""
        self.add(step, Status.SKIP, detail)

    @property
    def exit_status(self) -> int:
        """0 where nothing stops a producer, else 1."""
        return EXIT_BROKEN if any(line.status is Status.FAIL for line in self.lines) else EXIT_OK

    def json(self) -> str:
        """Return everything as one JSON object: `ok`, and `steps` with the fields of Line."""
        return json.dumps({"ok": self.exit_status == EXIT_OK, "steps": [asdict(line) for line in self.lines]}, indent=2)
