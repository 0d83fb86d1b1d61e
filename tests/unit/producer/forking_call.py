"""Forks before any line of a call, in a process of its own: a fork costs what its parent has in memory.

    python -m tests.unit.producer.forking_call flush rebuild      # the call, and what a fork makes of the producer

It prints, as JSON, before which lines a child did not end well and how, and how many lines there were.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

import pytest

from pyproducer import IllegalStateError
from tests.support.patience import GIVE_UP_S
from tests.unit.producer.facade import Facade, Facades, ScriptedBroker

LARGE = b"v" * 15_000  # of two of them one waits for memory
CAME_BACK, WRONG_END = 0, 3
QUIET_S = 0.05  # a call that runs no line for so long waits, most probably; its test is weaker where it does not


class ForkingCall:
    """Runs a call on a thread of its own, and forks before each of the package's lines the first time that it runs.

    A child goes on with the call, without more forks, and ends when that came back. The parent waits for it, and goes
    on itself.

    Args:
        call: The call.
        broker: What a child must not wait for.
    """

    def __init__(self, call: Callable[[], object], broker: ScriptedBroker) -> None:
        self.wrong: list[tuple[tuple[str, int], int]] = []  # before which line was forked, how the child ended
        self.lines: set[tuple[str, int]] = set()
        self.count = 0  # of lines that ran, a fork's among them
        self._call = call
        self._broker = broker
        self._is_forking = False
        self._parent = os.getpid()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def await_wait(self) -> None:
        """Wait until it waits itself, or is over."""
        seen = -1
        while self._thread.is_alive() and (self.count != seen or self._is_forking):
            seen = self.count
            time.sleep(QUIET_S)

    def join(self) -> None:
        self._thread.join(GIVE_UP_S)
        assert not self._thread.is_alive()

    def _run(self) -> None:
        code = WRONG_END
        sys.settrace(self._trace)
        try:
            self._call()
            code = CAME_BACK
        except IllegalStateError:  # ForkedProducerError and ProducerClosedError are among them
            code = CAME_BACK
        finally:
            sys.settrace(None)
            if os.getpid() != self._parent:
                os._exit(code)

    def _trace(self, frame: FrameType, event: str, _argument: object) -> Any:
        file = frame.f_code.co_filename.replace(os.sep, "/")
        if "/pyproducer/" not in file:
            return None
        if event == "line":
            line = (file[file.rindex("/pyproducer/"):], frame.f_lineno)
            if line not in self.lines:
                self.lines.add(line)
                self._is_forking = True
                self._fork(line)
                self._is_forking = False
            self.count += 1
        return self._trace

    def _fork(self, line: tuple[str, int]) -> None:
        child = os.fork()
        if not child:
            sys.settrace(None)
            self._broker.on_forked()
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.alarm(int(GIVE_UP_S))
            return
        _, status = os.waitpid(child, 0)
        if status:
            self.wrong.append((line, os.waitstatus_to_exitcode(status)))


def waiting_calls(facade: Facade) -> Iterator[tuple[str, Callable[[], object]]]:
    """Yield calls that wait for an answer of the broker, which holds it; memory is used up."""
    producer = facade.producer
    record = producer.send("t", LARGE, partition=0)
    rows = producer.send_batch("t", [b"row"], partitions=[1])
    facade.broker.await_requests(1)
    yield "result", record.result
    yield "exception", lambda: record.exception(GIVE_UP_S)
    yield "rows' result", rows.result
    yield "rows' exceptions", lambda: rows.exception(GIVE_UP_S)
    yield "flush", producer.flush
    yield "send", lambda: producer.send("t", LARGE, partition=1)
    yield "send_batch", lambda: producer.send_batch("t", [LARGE], partitions=[1])
    yield "send to an unknown topic", lambda: producer.send("u", b"v" * 4000)
    yield "partitions_for", lambda: producer.partitions_for("u")
    yield "add_done_callback", lambda: record.add_done_callback(bool)
    yield "close", producer.close


def main(name: str, fork: str) -> None:
    """Make a producer, fork in the call of that name, and print what came of it."""
    with pytest.MonkeyPatch.context() as patch:
        facades = Facades(patch)
        facade = facades(**{"linger.ms": 0, "buffer.memory": 20_000, "batch.size": 1000, "max.block.ms": 10_000_000,
                            "pyproducer.fork": fork})
        facade.know()
        facade.broker.holds = True
        facade.broker.topics["u"] = 1
        forking = ForkingCall(dict(waiting_calls(facade))[name], facade.broker)
        forking.await_wait()
        facade.broker.holds = False
        facade.broker.wakeup()
        forking.join()
        facades.close()
    print(json.dumps({"wrong": forking.wrong, "lines": len(forking.lines)}))


if __name__ == "__main__":
    main(*sys.argv[1:])
