"""Calls in a signal's handler, or a finalizer, that comes in the middle of another call of the same thread."""

from __future__ import annotations

import concurrent.futures
import contextlib
import os
import sys
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

import pytest

from pyproducer import BufferExhaustedError, IllegalStateError, ProducerClosedError
from tests.support.patience import GIVE_UP_S
from tests.unit.producer.facade import Facade, Facades

LARGE = b"v" * 15_000  # of two of them one waits for memory
REFUSALS = (IllegalStateError, BufferExhaustedError)  # ProducerClosedError is one of the first


class Strike:
    """Runs a call on a thread of its own, and a handler in the middle of it.

    Args:
        call: The call.
        handler: The handler.
        at: Before which of the package's lines, counted as they run, the handler comes.
    """

    def __init__(self, call: Callable[[], object], handler: Callable[[], object], at: int) -> None:
        self.lines: list[tuple[str, int]] = []
        self.ends: list[object] = []  # of the handler and of the call: what they returned or raised
        self.has_come = threading.Event()
        self._call = call
        self._handler = handler
        self._at = at
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def join(self) -> None:
        self._thread.join(GIVE_UP_S)
        assert not self._thread.is_alive(), f"stands still after a handler came before {self.lines[self._at - 1]}"

    def _run(self) -> None:
        sys.settrace(self._trace)
        try:
            self._note_end(self._call)
        finally:
            sys.settrace(None)
            self.has_come.set()

    def _trace(self, frame: FrameType, event: str, _argument: object) -> Any:
        file = frame.f_code.co_filename.replace(os.sep, "/")
        if "/pyproducer/" not in file:
            return None
        if event == "line":
            self.lines.append((file, frame.f_lineno))
            if len(self.lines) == self._at:
                self._note_end(self._handler)
                self.has_come.set()
        return self._trace

    def _note_end(self, call: Callable[[], object]) -> None:
        try:
            self.ends.append(call())
        except Exception as error:
            self.ends.append(error)


def calls(facade: Facade, first: Any) -> dict[str, Callable[[], object]]:
    producer = facade.producer
    return {
        "send": lambda: producer.send("t", LARGE, partition=0),
        "send to another partition": lambda: producer.send("t", LARGE, partition=1),
        "send to an unknown topic": lambda: producer.send("u", b"v" * 4000),
        "send_batch": lambda: producer.send_batch("t", [LARGE], partitions=[1]),
        "partitions_for": lambda: producer.partitions_for("u"),
        "add_done_callback": lambda: first.add_done_callback(bool),
        "small send": lambda: producer.send("t", b"v", partition=0),
        "check": producer.check,
        "result": first.result,
        "flush": producer.flush,
        "close": producer.close,
    }


def _soaked(call: str, *handlers: str) -> list[Any]:
    return [pytest.param(call, handler, marks=pytest.mark.soak) for handler in handlers]


def waiting_for_memory(facades: Facades) -> tuple[Facade, dict[str, Callable[[], object]]]:
    """A producer whose memory is used up, and whose broker does not answer yet; and calls to it."""
    facade = facades(**{"linger.ms": 0, "buffer.memory": 20_000, "batch.size": 1000, "max.block.ms": 10_000_000})
    facade.know()
    facade.broker.holds = True
    facade.broker.topics["u"] = 1
    first = facade.producer.send("t", LARGE, partition=0)
    facade.broker.await_requests(1)
    return facade, calls(facade, first)


def strike(facades: Facades, call: str, handler: str, at: int) -> Strike:
    """Have a handler come into a call; the broker answers from then on, and in the end nothing is lost."""
    facade, both = waiting_for_memory(facades)
    struck = Strike(both[call], both[handler], at)
    struck.has_come.wait(0.02 if at else 0.3)  # where the call waits before that, for the answer
    facade.broker.holds = False
    facade.broker.wakeup()
    struck.join()
    producer = facade.producer
    if facade.life.is_open:
        producer.flush(GIVE_UP_S)
        assert producer.send("t", b"after", partition=0).result(GIVE_UP_S).offset >= 100
    producer.close(GIVE_UP_S)
    assert facade.is_memory_whole()
    assert producer._runtime.accumulator.waiting.held_bytes() == 0
    for end in struck.ends:
        if hasattr(end, "done"):
            assert end.done()
            error = end.exception(0)
            assert error is None or isinstance(error, REFUSALS), error
        else:
            assert not isinstance(end, Exception) or isinstance(end, (*REFUSALS, ProducerClosedError)), end
    return struck


def each_line_once(facades: Facades, call: str, handler: str) -> Iterator[int]:
    """Yield where a handler is to come: before each line of a call that runs, the first time that it does."""
    seen: set[tuple[str, int]] = set()
    at = 0
    while True:
        lines = strike(facades, call, handler, at).lines  # they may be others each time, as who waits is rung
        seen.update(lines[:at])
        at = next((number for number, line in enumerate(lines, 1) if number > at and line not in seen), 0)
        if not at:
            return
        yield at


@pytest.mark.parametrize(("call", "handler"), [
    ("send", "send to another partition"), ("partitions_for", "send"), ("partitions_for", "flush"),
    ("add_done_callback", "send"), *_soaked("send", "send to an unknown topic", "send_batch", "flush"),
    *_soaked("send to an unknown topic", "send"), *_soaked("send_batch", "send", "flush")])
def test_call_when_a_handler_comes_before_any_of_its_lines_then_nobody_stands_still(
        facades: Facades, call: str, handler: str) -> None:
    """A handler's send() waited for memory, max.block.ms long, with a lock or before its own interrupted caller in the
    line: nobody could go on meanwhile."""
    assert len(list(each_line_once(facades, call, handler))) > 5


@pytest.mark.parametrize("call", [
    "add_done_callback", "partitions_for", "flush", "close",
    *(pytest.param(call, marks=pytest.mark.soak) for call in ("send", "send to an unknown topic", "send_batch"))])
def test_close_when_a_handler_calls_it_before_any_line_of_another_call_then_nobody_stands_still(
        facades: Facades, call: str) -> None:
    """It waited for ever for the sender thread, which waited for a lock of the call that was interrupted."""
    assert len(list(each_line_once(facades, call, "close"))) > 5


@pytest.mark.parametrize("handler", ["send", "small send", "send to another partition", "send to an unknown topic",
                                     "send_batch", "partitions_for", "check", "flush", "result"])
@pytest.mark.parametrize("call", ["send", "result", "flush", "close"])
def test_call_when_its_thread_waits_in_another_already_then_it_is_refused(
        facades: Facades, monkeypatch: pytest.MonkeyPatch, call: str, handler: str) -> None:
    """Each of these would wait for what it interrupted; which did, and which did not, was decided by chance."""
    facade, both = waiting_for_memory(facades)
    error = interrupt_wait(facade, monkeypatch, both[call], both[handler])
    assert isinstance(error, ProducerClosedError if call == "close" and handler not in ("flush", "result")
                      else IllegalStateError), error
    assert call == "close" or "in the middle of another call of this producer" in str(error)
    assert facade.producer.metrics()["waiting-threads"] == 0
    facade.producer.close(GIVE_UP_S)
    assert facade.is_memory_whole()


@pytest.mark.parametrize("call", ["send", "close"])
def test_close_when_its_thread_waits_already_then_it_only_begins_to_close(
        facades: Facades, monkeypatch: pytest.MonkeyPatch, call: str) -> None:
    facade, both = waiting_for_memory(facades)

    def close() -> str:
        facade.producer.close()
        return repr(facade.producer)

    assert "closing" in interrupt_wait(facade, monkeypatch, both[call], close)
    assert "closed" in repr(facade.producer) or call == "send"


def interrupt_wait(facade: Facade, monkeypatch: pytest.MonkeyPatch, call: Callable[[], Any],
                   handler: Callable[[], Any]) -> Any:
    """Have a handler come while a call waits and the broker is silent; return what it returned."""
    clock, thread = facade.producer._runtime.clock, threading.get_ident()
    real, handlers, told = clock.wait, [handler], []

    def wait(cell: Any, timeout_s: float | None) -> bool:
        if threading.get_ident() == thread and handlers:
            try:
                told.append(handlers.pop()())
            except IllegalStateError as error:
                told.append(error)
            facade.broker.holds = False
            facade.broker.wakeup()
        return real(cell, timeout_s)

    monkeypatch.setattr(clock, "wait", wait)
    with contextlib.suppress(ProducerClosedError):
        call()
    (one,) = told
    return one


@pytest.mark.parametrize("call", ["send", "send to an unknown topic", "close"])
def test_close_when_a_wait_was_interrupted_twice_and_its_traceback_is_kept_then_it_waits(
        facades: Facades, monkeypatch: pytest.MonkeyPatch, call: str) -> None:
    """The second Ctrl-C came while the first one's call was left. As long as the traceback was there, as an interactive
    interpreter keeps it, the thread counted as inside that call: its close() did not wait, its send() did not either.
    """
    kept = []
    for at in range(1, 40):
        facade, both = waiting_for_memory(facades)
        interrupt = InterruptTwice(facade, monkeypatch, at)
        try:
            both[call]()
        except KeyboardInterrupt as error:
            kept.append(error)
        finally:
            sys.settrace(None)
        facade.broker.holds = False
        facade.broker.wakeup()
        assert not facade.life.calls.is_nested
        facade.producer.close(GIVE_UP_S)
        assert "closed" in repr(facade.producer)
        if interrupt.calls_left:
            break
    assert kept


def test_send_when_a_handler_calls_it_in_the_middle_of_a_done_callback_then_what_is_refused_is_not_sent(
        facades: Facades) -> None:
    """The record was in its batch when it was refused: the sticky partition had got enough, and was to be left."""
    facade = facades(**{"partitioner.class": "org.apache.kafka.clients.producer.UniformStickyPartitioner",
                        "batch.size": 1000, "linger.ms": 0})
    facade.know()
    facade.broker.holds = True
    taken, refused = [], []
    for number in range(100):
        plain, in_handler = b"%d" % number, b"%d" % number + b"v" * 400
        facade.producer.send("t", plain)
        taken.append(plain)
        try:
            with facade.life.futures_lock:  # where add_done_callback() is
                facade.producer.send("t", in_handler)
            taken.append(in_handler)
        except IllegalStateError:
            refused.append(in_handler)
    facade.broker.holds = False
    facade.producer.flush(GIVE_UP_S)
    assert sorted(record.value or b"" for record in facade.broker.records) == sorted(taken)
    assert refused


@pytest.mark.parametrize("kind", ["record", "columns"])
def test_wait_for_several_when_a_handler_calls_it_in_the_middle_of_a_call_then_it_is_refused_and_no_lock_stays(
        facades: Facades, kind: str) -> None:
    """wait() acquires a lock of each future: who is refused while it does so would leave those of others locked."""
    facade = facades(**{"linger.ms": 0})
    facade.know()
    facade.broker.holds = True
    future: Any = (facade.producer.send("t", b"v", partition=0) if kind == "record"
                   else facade.producer.send_batch("t", [b"v"], partitions=[0]))
    other: concurrent.futures.Future[None] = concurrent.futures.Future()
    told: list[Any] = []

    def handle() -> None:
        with pytest.raises(IllegalStateError, match="in the middle of another call"):
            concurrent.futures.wait([other, future], 0)
        future.add_done_callback(told.append)

    facade.life.calls.run("send()", handle)
    thread = threading.Thread(target=other.set_result, args=(None,))
    thread.start()
    thread.join(GIVE_UP_S)
    assert other.done()
    assert concurrent.futures.wait([future], 0).not_done == {future}
    facade.broker.holds = False
    facade.broker.wakeup()
    assert concurrent.futures.wait([future], GIVE_UP_S).done == {future}
    facade.producer.flush(GIVE_UP_S)
    assert told == [future]


class InterruptTwice:
    """Interrupts the test's thread in its first wait, and again at the so-manieth of the calls that follow,
    where a signal may come; before a line that releases a lock it does not."""

    def __init__(self, facade: Facade, monkeypatch: pytest.MonkeyPatch, at: int) -> None:
        self.calls_left = at
        self._has_come = False
        self._thread = threading.get_ident()
        clock = facade.producer._runtime.clock
        self._wait = clock.wait
        monkeypatch.setattr(clock, "wait", self._interrupted_wait)
        sys.settrace(self._trace)

    def _interrupted_wait(self, cell: Any, timeout_s: float | None) -> bool:
        if threading.get_ident() == self._thread and not self._has_come:
            self._has_come = True
            raise KeyboardInterrupt
        return self._wait(cell, timeout_s)

    def _trace(self, frame: FrameType, event: str, _argument: object) -> Any:
        if "/pyproducer/" not in frame.f_code.co_filename.replace(os.sep, "/"):
            return None
        if self._has_come and event == "call":
            self.calls_left -= 1
            if not self.calls_left:
                raise KeyboardInterrupt
        return None
