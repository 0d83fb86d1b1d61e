"""pyproducer.fork=rebuild, in the one process that there is: what ends half way, and who comes at the same time.

tests/embedded/test_fork.py forks for real.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from pyproducer import (
    ConfigError,
    ForkedProducerError,
    IllegalStateError,
    KafkaProducer,
    KafkaTimeoutError,
    ProducerClosedError,
)
from pyproducer.accumulator.life import Life
from pyproducer.producer import process_life, wiring
from pyproducer.producer.wiring import ProducerRuntime, build_runtime
from pyproducer.sender.io_thread import IoThread
from tests.support.patience import GIVE_UP_S


class Part:
    """An interceptor that was given as an instance, and so is the same after the fork."""

    def __init__(self) -> None:
        self.closed = 0

    def on_send(self, record: object) -> object:
        return record

    def close(self) -> None:
        self.closed += 1


class Fork:
    """A producer as a child sees it, where none of the parent's threads is."""

    def __init__(self, **props: object) -> None:
        self.part = Part()
        self.producer = KafkaProducer({"bootstrap.servers": "127.0.0.1:1", "client.id": "c",
                                       "pyproducer.fork": "rebuild", "interceptor.classes": [self.part], **props})
        self.before = self.producer._runtime
        process_life.mark_forked()

    @property
    def is_rebuilt(self) -> bool:
        return self.producer._runtime is not self.before

    def use(self) -> None:
        """Use it, without a word to a broker."""
        assert self.producer.metrics()["buffer-total-bytes"]
        assert self.is_rebuilt

    def end(self) -> None:
        runtime = self.producer._runtime
        if runtime.life.is_forked:
            runtime.wire.close()
        elif runtime.life.sender_ident:
            self.producer.close()
        else:
            runtime.io_thread.abandon()


@pytest.fixture
def fork(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Fork]]:
    """Makes them, without a thread; those that are made anew have one where `has_thread` is said."""
    start = IoThread.start
    made: list[Fork] = []

    def make(*, has_thread: bool = False, **props: object) -> Fork:
        monkeypatch.setattr(IoThread, "start", lambda _self: None)
        made.append(Fork(**props))
        if has_thread:
            monkeypatch.setattr(IoThread, "start", start)
        return made[-1]

    yield make
    for one in made:
        one.end()


def on_build(monkeypatch: pytest.MonkeyPatch, happen: Callable[[], object]) -> list[ProducerRuntime]:
    """Have something happen after the next runtime was made, once; return all that are made."""
    made: list[ProducerRuntime] = []
    happens = [happen]

    def build(*arguments: Any, **named: Any) -> ProducerRuntime:
        made.append(build_runtime(*arguments, **named))
        if happens:
            happens.pop()()
        return made[-1]

    monkeypatch.setattr(process_life, "build_runtime", build)
    return made


def ask_in_vain(producer: KafkaProducer) -> None:
    with pytest.raises(KafkaTimeoutError):
        producer.partitions_for("t")


def raise_interrupt() -> None:
    raise KeyboardInterrupt


def test_use_when_nobody_uses_it_then_it_is_not_made(fork: Callable[..., Fork]) -> None:
    forked = fork()
    assert "c forked" in repr(forked.producer)
    assert forked.producer.client_id == "c"
    assert not forked.is_rebuilt
    assert forked.before.wire.client._is_closed  # type: ignore[attr-defined]


@pytest.mark.parametrize("use", [
    lambda producer: producer.send("t", b"v"), lambda producer: producer.send_batch("t", [b"v"]),
    lambda producer: producer.flush(GIVE_UP_S), lambda producer: producer.metrics(),
    lambda producer: ask_in_vain(producer)])
def test_use_when_it_is_the_first_then_the_producer_is_made_once(
        fork: Callable[..., Fork], use: Callable[[KafkaProducer], object]) -> None:
    forked = fork(**{"max.block.ms": 0})
    use(forked.producer)
    assert forked.is_rebuilt
    made = forked.producer._runtime
    use(forked.producer)
    assert forked.producer._runtime is made
    assert made.client_id == "c"
    assert made.life.client_id.startswith("c-")
    assert list(made.record_sender.interceptors._interceptors) == [forked.part]


def test_threads_when_they_use_it_at_the_same_time_then_there_is_one(
        fork: Callable[..., Fork], monkeypatch: pytest.MonkeyPatch) -> None:
    forked = fork()
    others: list[threading.Thread] = []

    def come() -> None:
        others.extend(threading.Thread(target=forked.use) for _ in range(5))
        for thread in others:
            thread.start()

    made = on_build(monkeypatch, come)
    forked.use()
    for thread in others:
        thread.join(GIVE_UP_S)
    assert len(made) == 1


def test_rebuilding_when_its_thread_cannot_be_started_then_the_next_use_makes_another(
        fork: Callable[..., Fork], monkeypatch: pytest.MonkeyPatch) -> None:
    forked = fork(has_thread=True)
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", lambda _thread: raise_interrupt())
        with pytest.raises(KeyboardInterrupt):
            forked.producer.send("t", b"v")
    assert not forked.is_rebuilt
    assert forked.part.closed == 0, "the next one is made of it"
    forked.use()
    forked.end()
    assert forked.part.closed == 1


def test_rebuilding_when_it_cannot_be_made_yet_then_the_applications_parts_stay_for_the_next_use(
        fork: Callable[..., Fork], monkeypatch: pytest.MonkeyPatch) -> None:
    """Its serializer was closed with what could not be made: a file of certificates was not there for a moment."""
    forked = fork(has_thread=True)
    with monkeypatch.context() as patch:
        patch.setattr(wiring, "client_channel_builder", lambda *_: raise_interrupt())
        with pytest.raises(KeyboardInterrupt):
            forked.producer.send("t", b"v")
    assert not forked.is_rebuilt
    assert forked.part.closed == 0
    forked.use()
    forked.end()
    assert forked.part.closed == 1


def test_rebuilding_when_interrupted_after_its_thread_was_started_then_that_ends_and_the_next_use_makes_another(
        fork: Callable[..., Fork], monkeypatch: pytest.MonkeyPatch) -> None:
    forked = fork(has_thread=True)
    threads = threading.active_count()
    with monkeypatch.context() as patch:
        patch.setattr(KafkaProducer, "_pave", lambda _producer, _road: raise_interrupt())
        with pytest.raises(KeyboardInterrupt):
            forked.producer.send("t", b"v")
    assert not forked.is_rebuilt
    left = [thread for thread in threading.enumerate() if "| c-" in thread.name]
    for thread in left:
        thread.join(GIVE_UP_S)
    assert threading.active_count() == threads
    assert forked.part.closed == 0
    forked.use()


def test_rebuilding_when_a_setting_does_not_work_any_more_then_the_call_says_so(
        fork: Callable[..., Fork], monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker that runs as another user may not read the key of its master."""
    def refuse(*_arguments: object, **_named: object) -> ProducerRuntime:
        raise ConfigError("ssl.keystore.location", "/secret", "it cannot be read")

    forked = fork()
    with monkeypatch.context() as patch:
        patch.setattr(process_life, "build_runtime", refuse)
        for call in (lambda: forked.producer.send("t", b"v"), forked.producer.flush):
            with pytest.raises(ConfigError, match="cannot be read"):
                call()
    forked.use()


def test_rebuilding_when_a_signals_handler_sends_in_the_middle_then_it_is_refused(
        fork: Callable[..., Fork], monkeypatch: pytest.MonkeyPatch) -> None:
    forked = fork()

    def handle() -> None:
        with pytest.raises(IllegalStateError, match="in the middle of another call"):
            forked.producer.send("t", b"v")

    made = on_build(monkeypatch, handle)
    forked.use()
    assert len(made) == 1


def test_rebuilding_when_a_signals_handler_forks_in_the_middle_then_the_child_shares_nothing_with_its_parent(
        fork: Callable[..., Fork], monkeypatch: pytest.MonkeyPatch) -> None:
    forked = fork()
    made = on_build(monkeypatch, process_life.mark_forked)
    forked.use()
    shared, own = made
    assert shared.wire.client._is_closed  # type: ignore[attr-defined]
    assert forked.producer._runtime is own
    assert shared.life not in process_life.runtimes


def test_thread_when_the_process_forked_before_it_ran_then_it_does_nothing(
        fork: Callable[..., Fork], monkeypatch: pytest.MonkeyPatch) -> None:
    """A signal's handler forked in the last moment: the child's thread would be the parent's producer's."""
    forked = fork()
    started: list[ProducerRuntime] = []

    def fork_first(thread: IoThread) -> None:
        process_life.mark_forked()
        thread._run()

    with monkeypatch.context() as patch:
        patch.setattr(IoThread, "start", fork_first)
        started.append(forked.producer._present())
    assert started[0].life.is_forked
    assert not started[0].life.is_over, "what it has is the parent's"
    forked.use()
    assert forked.producer._runtime is not started[0]


def test_close_when_another_thread_makes_it_then_that_one_is_closed(
        fork: Callable[..., Fork], monkeypatch: pytest.MonkeyPatch) -> None:
    forked = fork(has_thread=True)
    closing = threading.Thread(target=forked.producer.close, name="the-closer")

    def close() -> None:
        closing.start()
        closing.join(GIVE_UP_S)

    on_build(monkeypatch, close)
    with pytest.raises(ProducerClosedError, match="the-closer"):
        forked.producer.send("t", b"v")
    assert forked.producer._runtime.life.await_end(GIVE_UP_S)


def test_close_when_it_was_made_anew_in_the_middle_of_it_then_it_is_closed(fork: Callable[..., Fork]) -> None:
    """Another thread had just made it, and looked before this one said that it closes: it stayed open."""
    forked = fork(has_thread=True)
    life = forked.before.life
    close_in_child = life.close_in_child

    def close_late(by: str) -> None:
        forked.use()
        close_in_child(by)

    life.close_in_child = close_late  # type: ignore[method-assign]
    forked.producer.close()
    assert forked.producer._runtime.life.is_over
    with pytest.raises(ProducerClosedError):
        forked.producer.send("t", b"v")


@pytest.mark.parametrize("mode", ["refuse", "rebuild"])
def test_fork_when_a_closing_producer_is_in_its_last_act_then_the_child_does_not_wait_for_its_end(
        monkeypatch: pytest.MonkeyPatch, mode: str) -> None:
    """Its thread had said that nobody need know of it any more, and not yet that it is over: close() in the child
    waited for that for ever.
    """
    forgotten: list[bool] = []
    forget = process_life.forget

    def forget_late(life: Life) -> None:
        forget(life)
        forgotten.append(life.is_over)

    monkeypatch.setattr(process_life, "forget", forget_late)
    producer = KafkaProducer({"bootstrap.servers": "127.0.0.1:1", "pyproducer.fork": mode})
    producer.close()
    deadline_s = time.monotonic() + GIVE_UP_S
    while not forgotten:
        assert time.monotonic() < deadline_s, "the thread did not end"
        time.sleep(0.001)
    assert forgotten == [True]
    process_life.runtimes[producer._runtime.life] = producer._runtime  # and a fork between the two
    process_life.mark_forked()
    producer.close()
    with pytest.raises(ProducerClosedError):
        producer.send("t", b"v")


def test_fork_when_a_child_that_used_it_forks_then_its_child_makes_another(fork: Callable[..., Fork]) -> None:
    forked = fork()
    forked.use()
    child = forked.producer._runtime
    process_life.mark_forked()
    forked.use()
    assert forked.producer._runtime not in (child, forked.before)


def test_fork_when_nothing_is_said_then_it_is_refused(fork: Callable[..., Fork]) -> None:
    forked = fork(**{"pyproducer.fork": "refuse"})
    with pytest.raises(ForkedProducerError, match=r"or set pyproducer\.fork = rebuild"):
        forked.producer.send("t", b"v")
    assert not forked.is_rebuilt
    assert not forked.before.wire.client._is_closed  # type: ignore[attr-defined]
