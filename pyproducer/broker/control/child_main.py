"""The other side of child_process.py: a cluster that does what its parent says, and ends with it.

Road:    child_process.py -> [child] -> InProcessCluster
Thread:  the main thread reads commands.
Source:  ours.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
from types import FrameType
from typing import Any, TextIO

from pyproducer.broker.control.child_process import STOP, parsed
from pyproducer.broker.control.commands import run_command
from pyproducer.broker.control.in_process import ClusterOptions, InProcessCluster
from pyproducer.broker.control.observations import from_json, to_json
from pyproducer.common.errors import ConfigError, KafkaError

_ENDS = ("", STOP)


def main() -> int:
    """Run until stdin ends, an empty line or SIGTERM comes; return the exit code."""
    # Whatever prints must not come between the answers.
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    signal.signal(signal.SIGTERM, _on_terminate)
    first = sys.stdin.readline()
    if first in _ENDS:
        return 0
    options = json.loads(first)
    number = options.pop("number")
    options["node_config"] = {int(node_id): settings for node_id, settings in options["node_config"].items()}
    try:
        cluster = InProcessCluster(ClusterOptions(**options))
        cluster.start()
    except KafkaError as error:
        _answer(answers, number, _failure(error))
        return 1
    try:
        _answer(answers, number, {"result": {"addresses": cluster.addresses(), "data_dir": str(cluster.data_dir)}})
        while (line := sys.stdin.readline()) not in _ENDS:
            command = parsed(line)
            if command is not None:
                _answer(answers, command["number"], _run(cluster, command))
    except BrokenPipeError:
        pass  # the parent stops, or has ended, and reads no answer
    finally:
        cluster.stop()
        with contextlib.suppress(OSError):
            answers.close()
    return 0


def _on_terminate(_number: int, _frame: FrameType | None) -> None:
    raise SystemExit(0)


def _run(cluster: InProcessCluster, command: dict[str, Any]) -> dict[str, Any]:
    try:
        return {"result": to_json(run_command(cluster, command["command"], from_json(command["arguments"])))}
    except KafkaError as error:
        return _failure(error)


def _failure(error: KafkaError) -> dict[str, Any]:
    if isinstance(error, ConfigError):
        return {"config_error": [error.key, str(error.value), error.why]}
    return {"error": str(error)}


def _answer(answers: TextIO, number: int, answer: dict[str, Any]) -> None:
    # The parent may have lost the end of the answer before, so this one begins a line.
    answers.write("\n" + json.dumps({**answer, "number": number}) + "\n")
    answers.flush()


if __name__ == "__main__":
    raise SystemExit(main())
