"""The thread that loops, and what becomes of records when it is told to end."""

from __future__ import annotations

import errno
import logging
import threading
from typing import Any

import pytest

from pyproducer.accumulator.life import LifeState
from pyproducer.client.network_client import NetworkClient
from pyproducer.common.error_codes import ErrorCode
from pyproducer.common.errors import AuthorizationError, KafkaError, ProducerClosedError
from pyproducer.common.waiting import Cell
from pyproducer.protocol.apis import ApiKeys
from pyproducer.sender.io_thread import IoThread
from tests.support.clock import ManualClock
from tests.support.patience import GIVE_UP_S
from tests.unit.sender.stepped_producer import SteppedProducer


class Hasty(ManualClock):
    """The thread does not pause after a failed turn."""

    def wait(self, cell: Cell, timeout_s: float | None) -> bool:
        return False


class Thread:
    """A sender thread over a stepped producer, with the life of both."""

    def __init__(self, producer: SteppedProducer, clock: ManualClock | None = None) -> None:
        self.life = producer.life
        self.io_thread = IoThread(producer.sender, producer.wire, producer.accumulator, producer.life,
                                  clock or producer.clock, producer.accumulator.close)

    def run_to_the_end(self, timeout_s: float | None = None) -> None:
        """Begin to close, then run the thread until it ends by itself."""
        self.io_thread.close("the test", timeout_s)
        self.io_thread.start()
        assert self.life.await_end(GIVE_UP_S), "the thread did not end"


def test_close_when_records_are_left_then_they_are_sent_before_the_connections_are_closed() -> None:
    producer = SteppedProducer(idempotent=False, linger=10_000)
    for name in "abc":
        producer.append_told(name)

    def answer() -> None:
        while producer.client.in_flight:
            producer.answer_all(base_offset=len(producer.told))

    producer.client.on_poll = answer
    thread = Thread(producer)
    thread.run_to_the_end()
    assert producer.told == [("a", 0, None), ("b", 1, None), ("c", 2, None)]
    assert producer.client.closed
    assert thread.life.state is LifeState.CLOSED
    with pytest.raises(ProducerClosedError):
        producer.append()


def test_close_when_acks_is_0_then_the_thread_ends_when_brokers_have_what_was_written() -> None:
    """A close that cuts off an answer under way has the system throw away what it has not sent."""
    producer = SteppedProducer(idempotent=False, acks=0)
    producer.append_told("a")
    producer.client.confirmation_ms = 20_000
    waits: list[int] = []

    def poll() -> None:
        while producer.client.in_flight:
            producer.client.answer(None)
        waits.append(producer.client.poll_timeouts[-1])
        if len(waits) == 4:
            producer.client.confirmation_ms = 0

    producer.client.on_poll = poll
    thread = Thread(producer)
    thread.run_to_the_end()
    assert producer.told_names() == ["a"]
    assert len(waits) == 4
    assert 0 < waits[-1] <= 20_000, "it sleeps meanwhile"
    assert thread.life.state is LifeState.CLOSED


def test_close_when_acks_is_0_and_its_time_is_over_then_the_thread_ends() -> None:
    producer = SteppedProducer(idempotent=False, acks=0)
    producer.client.confirmation_ms = 20_000

    def sleep() -> None:
        producer.clock.advance(producer.client.poll_timeouts[-1])

    producer.client.on_poll = sleep
    thread = Thread(producer)
    thread.run_to_the_end(5)
    assert max(producer.client.poll_timeouts) <= 5_000
    assert thread.life.state is LifeState.CLOSED


@pytest.mark.parametrize("what", ["say_goodbye", "ms_to_go_on"])
def test_close_when_something_raises_as_all_is_delivered_then_it_ends_well_all_the_same(
        what: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """No memory for the last metrics of a producer that had delivered all: it was dead."""
    producer = SteppedProducer(idempotent=False)
    producer.append_told("a")

    def answer() -> None:
        while producer.client.in_flight:
            producer.answer_all(base_offset=0)

    def fail_once(_now_ms: int) -> None:
        monkeypatch.undo()
        raise MemoryError

    producer.client.on_poll = answer
    monkeypatch.setattr(producer.sender, what, fail_once)
    thread = Thread(producer)
    thread.run_to_the_end()
    assert producer.told_names() == ["a"]
    assert thread.life.state is LifeState.CLOSED
    assert producer.client.closed
    assert "Uncaught error in the sender thread" in caplog.text


def test_close_when_a_turn_raises_then_the_thread_goes_on_with_the_next(caplog: pytest.LogCaptureFixture) -> None:
    producer = SteppedProducer(idempotent=False)
    producer.append_told("a")
    producer.append_told("b", 1)

    def answer() -> None:
        producer.clock.advance(100)  # the backoff of what was on its way
        while producer.client.in_flight:
            producer.answer_all(base_offset=0)

    def fail_once() -> None:
        producer.client.on_poll = answer
        raise RuntimeError("a bug")

    producer.client.on_poll = fail_once
    thread = Thread(producer)
    thread.run_to_the_end()
    assert sorted(producer.told_names()) == ["a", "b"]
    assert "Uncaught error in the sender thread" in caplog.text


@pytest.mark.parametrize("good_turns", [0, 1, 2])
def test_turns_when_ten_in_a_row_raise_then_the_producer_is_dead_however_many_did_well_before(good_turns: int) -> None:
    producer = SteppedProducer(idempotent=False)
    turns: list[str] = []

    class Failing:
        """Nine turns raise, then one or more do well, and from then on each raises."""

        def say_goodbye(self, now_ms: int) -> None:
            pass

        def run_once(self, now_ms: int, longest_wait_ms: int = 0) -> None:
            is_good = 9 <= len(turns) < 9 + good_turns
            turns.append("good" if is_good else "bad")
            if not is_good:
                raise RuntimeError("a bug")

        def recover(self, now_ms: int) -> None:
            """Nothing is on its way."""

        def abort(self, error: KafkaError) -> int:
            return 0

        def ms_to_go_on(self, now_ms: int) -> int:
            return 0

    failing: Any = Failing()
    IoThread(failing, producer.wire, producer.accumulator, producer.life, Hasty(), producer.accumulator.close).start()
    assert producer.life.await_end(GIVE_UP_S), "the thread did not end"
    assert producer.life.state is LifeState.DEAD
    assert turns == ["bad"] * 9 + (["good"] * good_turns + ["bad"] * 10 if good_turns else ["bad"])


@pytest.mark.parametrize(("count", "is_dead"), [(10, False), (100, True)])
def test_recovery_when_the_system_has_no_descriptor_then_it_is_tried_again_as_often_as_a_turn(
        monkeypatch: pytest.MonkeyPatch, count: int, is_dead: bool) -> None:
    """A process that had used up its descriptors for a moment lost its producer."""
    producer, clock = SteppedProducer(idempotent=False), Hasty()
    producer.append_told("a")
    make_client, refusals = producer.wire._make_client, [OSError(errno.EMFILE, "Too many open files")] * count

    def refused() -> NetworkClient:
        clock.advance(100)
        if refusals:
            raise refusals.pop()
        return make_client()

    monkeypatch.setattr(producer.wire, "_make_client", refused)
    failures = [RuntimeError("a bug")]

    def fail_once() -> None:
        if failures:
            raise failures.pop()
        clock.advance(100)
        while producer.client.in_flight:
            producer.answer_all(base_offset=0)

    producer.client.on_poll = fail_once
    Thread(producer, clock).run_to_the_end()
    assert producer.told_names() == ["a"]
    assert (producer.life.state is LifeState.DEAD) is is_dead
    assert (producer.told[0][2] is not None) is is_dead


def test_forced_close_when_records_are_left_then_the_outcome_of_each_says_whether_it_may_be_in_the_log() -> None:
    """Given up at close, a record that was on the wire was told as not_sent, or one that never was as unknown."""
    producer = SteppedProducer(idempotent=False, partitions=5)
    producer.append_told("lost", 1)
    producer.append_told("refused", 2)
    producer.turn()
    rows = producer.produce_body(code=ErrorCode.NOT_ENOUGH_REPLICAS, partitions=[2])
    producer.client.answer(rows)
    producer.append_told("in flight", 0)
    producer.turn()
    producer.append_told("behind it", 0)
    producer.append_told("never left", 3)
    thread = Thread(producer)
    thread.run_to_the_end(0)
    outcomes = {name: producer.error_of(name).outcome for name in producer.told_names()}
    assert outcomes == {"lost": "unknown", "refused": "not_sent", "in flight": "unknown", "behind it": "not_sent",
                        "never left": "not_sent"}
    assert {type(producer.error_of(name)) for name in outcomes} == {ProducerClosedError}
    assert len(producer.told) == 5
    assert producer.held_bytes == 0
    assert not producer.accumulator.has_incomplete()
    assert producer.client.closed


def test_forced_close_when_records_are_left_then_each_error_says_what_they_waited_for() -> None:
    """Who closed with a timeout learned that the producer was closed, and nothing of the broker that refused them."""
    producer = SteppedProducer(idempotent=False, partitions=5)
    producer.append_told("refused", 2)
    producer.turn()
    producer.answer_all(code=ErrorCode.NOT_ENOUGH_REPLICAS)
    producer.append_told("in flight", 0)
    producer.turn()
    producer.append_told("never left", 3)
    waiting = producer.enter(topic="u")
    producer.metadata.note_failure("127.0.0.1:9092", "connect: Connection refused")
    Thread(producer).run_to_the_end(0)
    refused = producer.error_of("refused")
    assert ("closed before the record was acknowledged, after 1 failed attempts; the last attempt failed with: "
            "NOT_ENOUGH_REPLICAS: t-2: ") in str(refused)
    assert ".. " not in str(refused)
    assert refused.__cause__.code == ErrorCode.NOT_ENOUGH_REPLICAS
    assert str(producer.error_of("in flight")).endswith(", while its first request was not answered")
    assert str(producer.error_of("never left")).endswith(
        ", before it could be sent. topic 't' is known, with 5 partitions (metadata version 1); "
        "127.0.0.1:9092: connect: Connection refused")
    error = waiting.exception(0)
    assert type(error) is ProducerClosedError
    assert ("acknowledged: no answer so far tells of topic 'u' (metadata version 1); 127.0.0.1:9092: connect: "
            "Connection refused") in str(error)


def test_forced_close_when_no_producer_id_came_then_the_errors_say_why() -> None:
    producer = SteppedProducer()
    producer.append_told("a")
    producer.turn()
    producer.lose()
    Thread(producer).run_to_the_end(0)
    assert ", before it could be sent; InitProducerId failed 1 times, the last time: node 1: no answer" in str(
        producer.error_of("a"))


def test_forced_close_when_callbacks_raise_then_all_are_told_in_order() -> None:
    producer = SteppedProducer(idempotent=False, batch_size=1000)
    for name in "abc":
        producer.append_told(name, 0, raising=RuntimeError("the user's bug"))
    producer.append_told("d", 1, raising=RuntimeError("the user's bug"))
    thread = Thread(producer)
    thread.run_to_the_end(0)
    assert producer.told_names() == list("abcd")
    assert producer.held_bytes == 0


def test_producer_id_when_it_is_refused_for_good_then_a_record_that_may_be_in_the_log_is_not_told_as_rejected() -> None:
    """After the last epoch a new producer id is asked for; when it was refused, records that waited were aborted.

    One of them whose first attempt had no answer may be in the log, and was told as rejected.
    """
    producer = SteppedProducer()
    producer.append_told("a")
    producer.append_told("b", 1)
    producer.turn()
    producer.client.answer({"throttle_time_ms": 0, "error_code": 0, "producer_id": 7, "producer_epoch": 32766})
    assert producer.manager is not None
    producer.manager.on_producer_id(7, 32767)  # as if one partition had started again meanwhile
    producer.append_told("c", 1)
    producer.turn()
    body = producer.produce_body(code=ErrorCode.INVALID_RECORD, partitions=[1])
    producer.client.answer(body, received_ms=producer.clock.now_ms())
    assert producer.told_names() == ["b"]
    producer.turn()
    (request,) = producer.client.in_flight
    assert request.api_key is ApiKeys.INIT_PRODUCER_ID
    producer.client.answer({"throttle_time_ms": 0, "error_code": ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
                            "producer_id": -1, "producer_epoch": -1})
    producer.turn()
    assert [(type(producer.error_of(name)), producer.error_of(name).outcome) for name in "ac"] == [
        (AuthorizationError, "unknown"), (AuthorizationError, "not_sent")]
    assert producer.held_bytes == 0


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_end_when_a_handler_of_the_log_raises_then_the_producer_is_dead_and_everything_is_closed() -> None:
    """The error was logged first: the thread ended, and close() waited for it for ever."""
    producer = SteppedProducer(idempotent=False)
    producer.append_told("a")
    closed: list[str] = []
    is_over = threading.Event()

    def end(_life: object) -> None:
        closed.append("end")
        is_over.set()

    io_thread = IoThread(producer.sender, producer.wire, producer.accumulator, producer.life, producer.clock,
                         producer.accumulator.close, lambda: closed.append("parts"), end)

    class Raising(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            raise RuntimeError("the user's bug")

    def fail() -> None:
        raise ValueError("a bug")

    producer.client.on_poll = fail
    handler = Raising()
    logging.getLogger("pyproducer").addHandler(handler)
    try:
        io_thread.start()
        assert producer.life.await_end(GIVE_UP_S), "close() would wait for ever"
        assert is_over.wait(GIVE_UP_S)
    finally:
        logging.getLogger("pyproducer").removeHandler(handler)
    assert producer.life.state is LifeState.DEAD
    assert producer.told_names() == ["a"]
    assert producer.client.closed
    assert closed == ["parts", "end"]


def test_closing_when_it_takes_many_turns_then_the_roads_are_closed_once() -> None:
    """Each turn took every partition's lock, while records were on their way."""
    producer = SteppedProducer(idempotent=False)
    producer.append_told("a")
    refused: list[int] = []
    io_thread = IoThread(producer.sender, producer.wire, producer.accumulator, producer.life, producer.clock,
                         lambda: refused.append(producer.clock.now_ms()))
    io_thread.begin_close("the test", None)
    for _ in range(5):
        assert io_thread.take_turn()
    assert len(refused) == 1
