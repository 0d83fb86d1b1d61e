"""A process that imported the simulation and the package as it lies in its folder, warmed up, and forks for seeds.

Road:    score -> [{"seeds": [...]}, a line of JSON on stdin] -> a fork that runs them -> [a line for each on stdout]
Shape:   it says {"is": "imported"}, {"is": "warm"}; {"seed": ..., "wrong": [...]} for each seed, until the first that
         finds something; {"ended": status} when a fork ended. With --watch there are no forks, and it goes on behind
         what finds something; at the end it says which lines of `--watch FOLDER ...` each seed ran.
         A seed of the power "forks" has children of its own; what they run is watched, too.
Source:  ours. A fork finds what Python keeps from one seed to the next as warm as `python -m tests.simulation` does.
"""

from __future__ import annotations

import gc
import json
import os
import resource
import signal
import sys
import threading
import time
from pathlib import Path
from types import FrameType
from typing import Any

MEMORY_LIMIT_BYTES = 6 << 30  # a mutant that never stops appending must not end the machine
WARM_UP = range(-4, 0)
WARM = "warm"  # what runs when modules are imported, or in the seeds before the first


def main() -> int:
    """Serve until stdin ends."""
    cpu_s = float(sys.argv[1])
    folders = sys.argv[3:] if sys.argv[2:3] == ["--watch"] else []
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_LIMIT_BYTES, MEMORY_LIMIT_BYTES))
    measuring: Any = None
    children = ChildLines([str(Path.cwd() / folder) for folder in folders])
    if folders:
        os.register_at_fork(after_in_child=children.begin)  # before the package does: what it does there is watched
        import coverage

        measuring = coverage.Coverage(data_file=None, source=[str(Path.cwd() / folder) for folder in folders],
                                      config_file=False)
        measuring.start()
        measuring.switch_context(WARM)
    from tests.simulation import forks, schedule, world  # noqa: F401 - all that a mutant may break on import

    _say({"is": "imported"})
    if measuring is not None:
        # Threads of the simulation are none of the module threading, whose hook coverage uses.
        begin = schedule.Scheduler._run

        def traced(self: Any, *given: Any) -> None:
            sys.settrace(threading.gettrace())
            begin(self, *given)

        schedule.Scheduler._run = traced  # type: ignore[method-assign, assignment]  # only here
        forks.lines_of_child = children.told
    signal.setitimer(signal.ITIMER_PROF, cpu_s)  # for all of them together
    for seed in WARM_UP:
        run_seed(seed)
    signal.setitimer(signal.ITIMER_PROF, 0)
    _say({"is": WARM})
    for line in sys.stdin:
        seeds = json.loads(line)["seeds"]
        if measuring is not None:
            by_children: dict[int, Any] = {}
            for seed in seeds:
                measuring.switch_context(str(seed))
                _say(run_seed(seed))
                by_children[seed] = list(forks.lines_of_children)
                forks.lines_of_children.clear()
            measuring.stop()
            _say({"lines": _with_children(_lines(measuring), by_children)})
            sys.stdout.flush()
            os._exit(0)  # threads of a failed simulation stand still for ever
        gc.collect()  # a producer of the seeds before is none of a fork's
        pid = os.fork()
        if not pid:
            _run_until_found(seeds, cpu_s)
        _say({"ended": os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])})
    return 0


def run_seed(seed: int) -> dict[str, Any]:
    """Run one seed."""
    from tests.simulation.plan import Plan
    from tests.simulation.world import run

    began = time.process_time()
    try:
        report = run(Plan(seed))
    except Exception as error:  # the world could not even be made
        wrong, pauses, is_empty = [f"{error!r} ended the simulation"], 0, False
    else:
        wrong, pauses, is_empty = report.wrong, report.pauses, report.is_empty
    return {"seed": seed, "wrong": wrong, "pauses": pauses, "empty": is_empty,
            "cpu_s": round(time.process_time() - began, 3)}


def _run_until_found(seeds: list[int], cpu_s: float) -> None:
    status = 70
    try:
        for seed in seeds:
            # Its signal ends this process: a seed that takes so long turns in a circle without a pause.
            signal.setitimer(signal.ITIMER_PROF, cpu_s)
            found = run_seed(seed)
            _say(found)
            if found["wrong"]:
                break
        status = 0
    finally:
        os._exit(status)  # threads of a failed simulation stand still for ever


def _lines(measuring: Any) -> dict[str, dict[str, list[int | str]]]:
    """Return, by file and line, the seeds that ran it."""
    root, data = Path.cwd(), measuring.get_data()
    return {Path(path).relative_to(root).as_posix(): {
        str(line): sorted((context if context == WARM else int(context) for context in contexts if context), key=str)
        for line, contexts in data.contexts_by_lineno(path).items()} for path in data.measured_files()}


def _with_children(lines: dict[str, dict[str, list[int | str]]], by_children: dict[int, Any],
                   ) -> dict[str, dict[str, list[int | str]]]:
    """Add what children of the seeds ran, which nobody else saw."""
    for seed, told in by_children.items():
        for of_child in told:
            for path, numbers in of_child.items():
                of_file = lines.setdefault(path, {})
                for number in numbers:
                    seeds = of_file.setdefault(str(number), [])
                    if seed not in seeds:
                        seeds.append(seed)
    return lines


class ChildLines:
    """What a child process runs, from its first step on.

    Args:
        folders: Only what lies in these.
    """

    def __init__(self, folders: list[str]) -> None:
        self._folders = tuple(folder + os.sep for folder in folders)
        self._lines: dict[str, set[int]] = {}

    def begin(self) -> None:
        """Watch the thread that forked, also where it was before."""
        frame: FrameType | None = sys._getframe()
        while frame is not None:
            if frame.f_code.co_filename.startswith(self._folders):
                frame.f_trace = self._on_line
            frame = frame.f_back
        sys.settrace(self._on_call)

    def told(self) -> dict[str, list[int]]:
        """Return the lines by file, and watch no more."""
        sys.settrace(None)
        return {Path(path).relative_to(Path.cwd()).as_posix(): sorted(lines) for path, lines in self._lines.items()}

    def _on_call(self, frame: FrameType, _event: str, _arg: Any) -> Any:
        return self._on_line(frame, "line", None) if frame.f_code.co_filename.startswith(self._folders) else None

    def _on_line(self, frame: FrameType, _event: str, _arg: Any) -> Any:
        self._lines.setdefault(frame.f_code.co_filename, set()).add(frame.f_lineno)
        return self._on_line


def _say(what: dict[str, Any]) -> None:
    os.write(1, (json.dumps(what) + "\n").encode())  # at once, and no more of it in a fork


if __name__ == "__main__":
    sys.exit(main())
