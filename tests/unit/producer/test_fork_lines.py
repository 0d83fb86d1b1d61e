"""A signal's handler that forks before any line of a call: in the child, which has one thread, the call comes back."""

from __future__ import annotations

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
from pyproducer.common.waiting import Cell
from tests.support.patience import GIVE_UP_S
from tests.unit.producer.facade import Facade, Facades, ScriptedBroker

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="processes do not fork here")
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


def cases() -> Iterator[Any]:
    """Yield names of calls and what a fork makes of the producer; a child's millisecond is one of the system's."""
    for name in ("result", "rows' result", "flush", "send", "close"):
        yield name, "refuse"
    for name in ("exception", "rows' exceptions", "send_batch", "send to an unknown topic", "partitions_for",
                 "add_done_callback"):
        yield pytest.param(name, "refuse", marks=pytest.mark.soak)
    yield "close", "rebuild"
    for name in ("result", "rows' result", "flush", "send", "send_batch"):
        yield pytest.param(name, "rebuild", marks=pytest.mark.soak)


@pytest.mark.parametrize(("name", "fork"), list(cases()))
def test_call_when_the_process_is_forked_before_any_of_its_lines_then_it_comes_back_in_the_child(
        facades: Facades, name: str, fork: str) -> None:
    """One that was about to wait, and had seen that this is no child, waited there for a thread of the parent's."""
    facade = facades(**{"linger.ms": 0, "buffer.memory": 20_000, "batch.size": 1000, "max.block.ms": 10_000_000,
                        "pyproducer.fork": fork})
    facade.know()
    facade.broker.holds = True
    facade.broker.topics["u"] = 1
    call = dict(waiting_calls(facade))[name]
    forking = ForkingCall(call, facade.broker)
    forking.await_wait()
    facade.broker.holds = False
    facade.broker.wakeup()
    forking.join()
    assert forking.wrong == []
    assert len(forking.lines) > 5


@pytest.mark.parametrize("is_over", [False, True])
def test_wait_for_the_end_when_forked_as_the_sender_thread_rings_then_the_child_goes_on(
        facades: Facades, is_over: bool) -> None:
    """The sender's thread had taken the cell out, and was to open it: in the child it is not there any more."""
    facade = facades()
    life, wait = facade.producer._runtime.life, facade.producer._runtime.clock.wait
    children: list[int] = []

    def forking_wait(cell: Cell, timeout_s: float | None) -> bool:
        life._over._cells.clear()
        life.is_over = is_over
        children.append(os.fork())
        if not children[0]:
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.alarm(int(GIVE_UP_S))
            os._exit(CAME_BACK if wait(cell, timeout_s) else WRONG_END)
        life.is_over = False
        return True

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(life._clock, "wait", forking_wait)
        assert life.await_end(None)
    _, status = os.waitpid(children[0], 0)
    assert os.waitstatus_to_exitcode(status) == CAME_BACK
