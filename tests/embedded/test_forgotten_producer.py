"""A broker forgets a producer id, after a day's silence for one; records are stored once and in order all the same.

To a broker that does not know a producer id, any number is the first: what stands behind a refused batch is stored,
where a broker that knows the id would refuse it, too. So "refused, hence all behind it are not in the log" is false
just then, and a record that is numbered anew on that ground is stored twice.

What a producer can know of it is how long its partition was silent, and that the topic or its leader changed. The tests
set the silence after which it must be careful to a moment (`noticed`), or leave it at its minutes (`unnoticed`), where
the broker forgets earlier than any Kafka does by itself: then order may change, and nothing may be doubled or lost.
"""

from __future__ import annotations

import logging
import time
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from pyproducer import ErrorCode, KafkaError, KafkaProducer, RecordTooLargeError
from pyproducer.accumulator import transaction_manager
from tests.simulation.model_broker import ModelParameters
from tests.support.scripted_broker import GIVE_UP_S, Rule, ScriptedBroker, kafka_2_3

TOPIC = "orders"
SILENCE_MS = 20
DAY_MS = 86_400_000
FOLLOWER_S = 0.5  # how long a batch may take to follow another one, where it may rightly not come at all
NEVER_IN_THE_LOG = ("not_sent", "rejected")

SETTINGS: dict[str, Any] = {
    "linger.ms": 0,
    "batch.size": 1,  # a batch for each record
    "retry.backoff.ms": 10,
    "retry.backoff.max.ms": 20,
    "reconnect.backoff.ms": 5,
    "reconnect.backoff.max.ms": 10,
    "delivery.timeout.ms": 60_000,
}
# Many records in a batch that waits for flush(), compressed by zlib: a level is zlib's, whatever else is installed.
IN_ONE_BATCH: dict[str, Any] = {
    "linger.ms": 60_000,
    "delivery.timeout.ms": 120_000,
    "batch.size": 100_000,
    "compression.type": "gzip",
    "compression.gzip.level": 6,
}


class Story:
    """A producer, a broker, and the records of one partition in the order in which they were sent."""

    def __init__(self, broker: ScriptedBroker, producer: KafkaProducer) -> None:
        self.broker = broker
        self.producer = producer
        self.futures: dict[bytes, Any] = {}

    def send(self, *values: bytes, timestamp: int | None = None) -> None:
        for value in values:
            self.futures[value] = self.producer.send(TOPIC, value, partition=0, timestamp=timestamp)

    def deliver(self, *values: bytes, partition: int = 0, timestamp: int | None = None) -> None:
        """Send one after another, each when the one before was stored."""
        for value in values:
            future = self.producer.send(TOPIC, value, partition=partition, timestamp=timestamp)
            if partition == 0:
                self.futures[value] = future
            assert self.error_of(future) is None

    def send_behind(self, first: Rule, *values: bytes, timestamp: int | None = None) -> None:
        """Send records of which the first is held by a rule; let it go when the next is there, or does not come."""
        before = len(self.broker.arrived_of(TOPIC))
        self.send(*values, timestamp=timestamp)
        first.await_count()
        until = time.monotonic() + FOLLOWER_S
        while len(self.broker.arrived_of(TOPIC)) < before + 2 and time.monotonic() < until:
            time.sleep(0.001)
        first.release()

    def fall_silent(self) -> None:
        """Let so much time pass that the silence may be noticed."""
        time.sleep(5 * SILENCE_MS / 1000)

    def error_of(self, future: Any) -> Any:
        """Wait until a record is decided; return its error or None."""
        self.broker.await_true(future.done, "the outcome of a record")
        return future.exception(GIVE_UP_S)

    def decided(self) -> dict[bytes, Any]:
        """Wait until all records are decided; return the errors, None where there is none."""
        return {value: self.error_of(future) for value, future in self.futures.items()}

    def check_once(self) -> None:
        """What was told is true: acknowledged records are there once, failed ones as their outcome says."""
        errors = self.decided()
        self.broker.await_quiet()
        log = self.broker.log(TOPIC)
        counts = Counter(record.value for record in log)
        for value, error in errors.items():
            if error is None:
                assert counts[value] == 1, f"{value!r} was acknowledged, and the log is {log}"
                offset = self.futures[value].result(GIVE_UP_S).offset
                assert offset in (-1, next(record.offset for record in log if record.value == value))
            elif error.outcome in NEVER_IN_THE_LOG:
                assert counts[value] == 0, f"{value!r} failed as {error.outcome}, and the log is {log}"
            else:
                assert counts[value] <= 1, f"{value!r} is unknown, and the log is {log}"

    def check(self, *values: bytes) -> None:
        """The log has these records in this order and no others, and what was told is true."""
        self.decided()
        self.broker.await_quiet()
        assert self.broker.values(TOPIC) == list(values)
        self.check_once()


@pytest.fixture
def noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A partition that was silent for a moment is as one that was silent for a day."""
    monkeypatch.setattr(transaction_manager, "SILENCE_LIMIT_MS", SILENCE_MS, raising=False)


Tell = Callable[..., Story]


@pytest.fixture
def tell() -> Iterator[Tell]:
    """Begin a story: `tell(parameters=..., linger_ms=10)`; the end of the test ends producer and broker."""
    stories: list[Story] = []

    def begin(*, node_count: int = 1, parameters: ModelParameters | None = None, **props: Any) -> Story:
        broker = ScriptedBroker({TOPIC: 2}, node_count=node_count, parameters=parameters)
        broker.__enter__()
        producer = KafkaProducer({"bootstrap.servers": broker.bootstrap_servers, **SETTINGS,
                                  **{name.replace("_", "."): value for name, value in props.items()}})
        stories.append(Story(broker, producer))
        if "linger.ms" in props:  # records that wait for their topic may come into their batches between two turns
            producer.partitions_for(TOPIC)
        return stories[-1]

    yield begin
    try:
        for story in stories:
            story.producer.close(0)
    finally:
        for story in stories:
            story.broker.close()
    for story in stories:
        story.broker.check()


# ---- doubled

@pytest.mark.usefixtures("noticed")
@pytest.mark.parametrize("code", [ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.INVALID_RECORD,
                                  ErrorCode.NOT_ENOUGH_REPLICAS])
def test_record_when_the_one_before_is_refused_after_silence_and_its_answer_is_lost_then_it_is_stored_once(
        tell: Tell, code: ErrorCode) -> None:
    """A service sent nothing for a day, then two records: the log had the second one twice, and nobody was told.

    The broker had forgotten the producer id. It refused the first batch, for good or for a moment, and stored the
    second by a number that it took for the first; the answer was lost with the connection. The producer held that all
    behind a refused batch is refused, too, numbered the second one anew in the next epoch and sent it again.
    """
    story = tell()
    story.deliver(b"warm")
    story.fall_silent()
    assert story.broker.forget_producer(TOPIC)
    refused = story.broker.on_batch(TOPIC, holding=b"first").hold().refuse(code)
    story.broker.on_batch(TOPIC, holding=b"second").lose_answer()
    story.send_behind(refused, b"first", b"second")
    if code is ErrorCode.NOT_ENOUGH_REPLICAS:
        story.check(b"warm", b"first", b"second")
        assert not any(story.decided().values())
    else:
        story.check(b"warm", b"second")
        assert story.decided()[b"first"].outcome == "rejected"
        assert story.decided()[b"second"] is None


@pytest.mark.parametrize("code", [ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.INVALID_RECORD,
                                  ErrorCode.NOT_ENOUGH_REPLICAS])
def test_record_when_the_broker_forgets_within_minutes_and_its_answer_is_lost_then_it_is_stored_once(
        tell: Tell, code: ErrorCode) -> None:
    """The same, where the broker forgot earlier than the producer fears: an id that expires within minutes, or a log
    made anew under the same name. Both records are on their way then, and what may be in the log must keep its
    numbers until they decide it: by these the broker knew the second record again. Their order may change.
    """
    story = tell()
    story.deliver(b"warm")
    assert story.broker.forget_producer(TOPIC)
    refused = story.broker.on_batch(TOPIC, holding=b"first").hold().refuse(code)
    story.broker.on_batch(TOPIC, holding=b"second").lose_answer()
    story.send_behind(refused, b"first", b"second")
    errors = story.decided()
    story.check_once()
    assert errors[b"second"] is None
    if code is ErrorCode.NOT_ENOUGH_REPLICAS:
        assert errors[b"first"] is None
    else:
        assert errors[b"first"].outcome == "rejected"


def test_records_when_the_refused_one_has_several_behind_it_in_doubt_then_each_is_stored_once(tell: Tell) -> None:
    """Four records behind the refused one were stored, and all their answers lost: each was in the log twice."""
    story = tell()
    story.deliver(b"warm")
    assert story.broker.forget_producer(TOPIC)
    refused = story.broker.on_batch(TOPIC, holding=b"0").hold().refuse(ErrorCode.INVALID_RECORD)
    last = story.broker.on_batch(TOPIC, holding=b"1").hold_answer()
    story.broker.on_batch(TOPIC, holding=b"4").lose_answer()
    story.send_behind(refused, *[b"%d" % number for number in range(5)])
    # What follows is stored while the answer of "1" waits; then the connection ends instead of it.
    last.await_count()
    time.sleep(FOLLOWER_S)
    story.broker.cut()
    last.release()
    story.check_once()
    assert [value for value, error in story.decided().items() if error is not None] == [b"0"]


# ---- reordered

@pytest.mark.usefixtures("noticed")
@pytest.mark.parametrize("code", [ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.KAFKA_STORAGE_ERROR])
def test_records_when_the_first_after_silence_is_refused_for_a_moment_then_they_are_in_order(
        tell: Tell, code: ErrorCode) -> None:
    """A service sent nothing for a day, then two records: the log had them the other way round, and no answer was lost.

    The broker had forgotten the producer id, refused the first batch for a moment and took the second one's number for
    the first. The retry of the first was out of order, and was stored in a new epoch, behind the second. The producer
    sent two batches at once, which it never does with the first ones of all, for this very reason.
    """
    story = tell()
    story.deliver(b"warm")
    story.fall_silent()
    assert story.broker.forget_producer(TOPIC)
    refused = story.broker.on_batch(TOPIC, holding=b"first").hold().refuse(code)
    story.send_behind(refused, b"first", b"second", b"third")
    story.check(b"warm", b"first", b"second", b"third")


@pytest.mark.parametrize("code", [ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.KAFKA_STORAGE_ERROR])
def test_records_when_the_broker_forgets_within_minutes_then_none_is_lost_or_stored_twice(
        tell: Tell, code: ErrorCode) -> None:
    """The same, where the silence is too short to be feared: their order may change, and nothing else.

    After KAFKA_STORAGE_ERROR a leader may have the records, so they are told as unknown and not sent in a new epoch.
    """
    story = tell()
    story.deliver(b"warm")
    assert story.broker.forget_producer(TOPIC)
    refused = story.broker.on_batch(TOPIC, holding=b"first").hold().refuse(code)
    story.send_behind(refused, b"first", b"second", b"third")
    story.check_once()
    failed = {value: error.outcome for value, error in story.decided().items() if error is not None}
    assert failed == ({b"first": "unknown"} if code is ErrorCode.KAFKA_STORAGE_ERROR else {})


def test_records_when_the_topic_was_made_anew_then_the_first_goes_alone(tell: Tell) -> None:
    """A topic was deleted and made anew, and the producer knew its new id: the log had two records the other way round.

    The new log knows nobody, so it took the second batch as the first one, when that was refused for a moment.
    """
    story = tell()
    story.deliver(b"warm")
    story.deliver(b"beside", partition=1)
    story.broker.recreate_topic(TOPIC)
    story.deliver(b"it learns the new id here", partition=1)
    refused = story.broker.on_batch(TOPIC, holding=b"first").hold().refuse(ErrorCode.NOT_ENOUGH_REPLICAS)
    del story.futures[b"warm"]  # it was in the old log
    story.send_behind(refused, b"first", b"second")
    story.check(b"first", b"second")


def test_records_when_another_node_leads_that_forgot_the_producer_then_the_first_goes_alone(tell: Tell) -> None:
    """A replica whose snapshot of producers was lost became the leader: two records were stored the other way round.

    The producer saw the new leader and its epoch, and yet sent two batches at once to a broker that did not know it.
    """
    story = tell(node_count=2, parameters=ModelParameters(hints_leaders=False))
    story.deliver(b"warm")
    story.deliver(b"beside", partition=1)
    assert story.broker.forget_producer(TOPIC, node_id=1)
    story.broker.move_leader(TOPIC, 0, to=1)
    story.broker.move_leader(TOPIC, 1, to=0)
    story.deliver(b"it asks for metadata here", partition=1)
    refused = story.broker.on_batch(TOPIC, holding=b"first").hold().refuse(ErrorCode.NOT_ENOUGH_REPLICAS)
    story.send_behind(refused, b"first", b"second")
    assert {batch.node_id for batch in story.broker.arrived_of(TOPIC)[1:]} == {1}
    story.check(b"warm", b"first", b"second")


def test_records_when_those_before_had_old_timestamps_then_the_next_goes_alone(tell: Tell) -> None:
    """A backfill wrote last week's records, and two of them were stored the other way round.

    A broker tells the age of a producer id by the newest timestamp of its last batch, which is the producer's own: it
    forgets who writes the past as soon as it looks, however lately he wrote.
    """
    story = tell()
    long_ago = story.broker.now_ms - 10 * DAY_MS
    story.deliver(b"warm", timestamp=long_ago)
    assert story.broker.expire_producers(DAY_MS) == 1
    refused = story.broker.on_batch(TOPIC, holding=b"first").hold().refuse(ErrorCode.NOT_ENOUGH_REPLICAS)
    story.send_behind(refused, b"first", b"second", timestamp=long_ago)
    story.check(b"warm", b"first", b"second")


# ---- a codec that fails

class FailingZlib:
    """zlib.compressobj that has no memory: on some of its calls, or for bytes that hold a mark."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, calls: tuple[int, ...] = (),
                 mark: bytes | None = None) -> None:
        self.count = 0
        self.failed = 0
        self._calls = calls
        self._mark = mark
        self._real = zlib.compressobj
        monkeypatch.setattr(zlib, "compressobj", self)

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        return _FailingCompressor(self, self._real(*arguments, **named))

    def may_fail(self, data: bytes) -> None:
        self.count += 1
        if self.count in self._calls or (self._mark is not None and self._mark in data):
            self.failed += 1
            raise MemoryError("no memory for the codec")


class _FailingCompressor:
    def __init__(self, owner: FailingZlib, real: Any) -> None:
        self._owner = owner
        self.flush = real.flush
        self._compress = real.compress

    def compress(self, data: Any) -> bytes:
        self._owner.may_fail(bytes(data))
        return bytes(self._compress(data))


def warnings_of(caplog: pytest.LogCaptureFixture, word: str) -> list[str]:
    return [record.getMessage() for record in caplog.records
            if record.levelno >= logging.WARNING and record.name.startswith("pyproducer")
            and word in record.getMessage()]


def test_parts_when_the_codec_fails_on_one_then_it_goes_out_uncompressed_and_each_record_is_stored_once(
        tell: Tell, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """A batch that was too large was split, the codec had no memory for the first part, and the second was doubled.

    The parts have their numbers already. The first one failed and left a hole in them; the second went out behind the
    hole, to a broker that did not know the producer yet and took it as the first; its answer was lost, and it was sent
    again in the new epoch that the hole asked for. (Seed 901688 of the simulation.)
    """
    story = tell(**IN_ONE_BATCH)
    codec = FailingZlib(monkeypatch, calls=(2,))
    story.broker.on_batch(TOPIC).refuse(ErrorCode.MESSAGE_TOO_LARGE)
    story.broker.on_batch(TOPIC).lose_answer()  # the first part that comes
    values = [b"%d" % number for number in range(4)]
    with caplog.at_level(logging.WARNING, "pyproducer"):
        story.send(*values)
        story.producer.flush(GIVE_UP_S)
        story.check(*values)
    assert codec.failed == 1
    assert not any(story.decided().values())
    codecs = [record.codec for record in story.broker.log(TOPIC)]
    assert codecs[0] == 0
    assert codecs[-1] == 1
    assert len(warnings_of(caplog, "gzip")) == 1, caplog.text


def test_batch_when_the_codec_fails_then_it_goes_out_uncompressed(
        tell: Tell, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """A moment without memory for the codec lost the records of a batch, which could have been sent as they were."""
    story = tell(**IN_ONE_BATCH)
    FailingZlib(monkeypatch, calls=(1,))
    with caplog.at_level(logging.WARNING, "pyproducer"):
        story.send(b"0", b"1")
        story.producer.flush(GIVE_UP_S)
        story.send(b"2")
        story.producer.flush(GIVE_UP_S)
        story.check(b"0", b"1", b"2")
    assert [record.codec for record in story.broker.log(TOPIC)] == [0, 0, 1]
    assert len(warnings_of(caplog, "gzip")) == 1, caplog.text


def test_part_when_it_is_too_large_without_its_codec_then_it_is_split_again_by_its_numbers(
        tell: Tell, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """What the codec cannot compress may be too large for the topic: it is split like any other batch, its numbers
    kept, so that the broker sees them whole."""
    story = tell(**IN_ONE_BATCH)
    FailingZlib(monkeypatch, calls=(2,))
    values = [b"%d" % number + b"." * 1000 for number in range(8)]
    story.broker.set_max_message_bytes(1500)  # eight records of dots, compressed, are far below it
    story.broker.on_batch(TOPIC).refuse(ErrorCode.MESSAGE_TOO_LARGE)
    with caplog.at_level(logging.WARNING, "pyproducer"):
        story.send(*values)
        story.producer.flush(GIVE_UP_S)
        story.check(*values)
    assert not any(story.decided().values())
    assert [record.sequence for record in story.broker.log(TOPIC)] == list(range(8))
    assert story.broker.epochs(TOPIC) == [(1000, 0)]
    assert len(warnings_of(caplog, "gzip")) == 1, caplog.text


def test_record_when_it_is_too_large_without_its_codec_then_it_alone_is_rejected(
        tell: Tell, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """A codec that never takes a record: what it stands among is split until it stands alone, and it is rejected."""
    story = tell(**IN_ONE_BATCH)
    FailingZlib(monkeypatch, mark=b"poison")
    values = [(b"poison" if number == 2 else b"%d" % number) + b"." * 1000 for number in range(5)]
    story.broker.set_max_message_bytes(800)
    with caplog.at_level(logging.WARNING, "pyproducer"):
        story.send(*values)
        story.producer.flush(GIVE_UP_S)
        story.check(*values[:2], *values[3:])
    errors = story.decided()
    assert isinstance(errors[values[2]], RecordTooLargeError)
    assert errors[values[2]].outcome == "rejected"
    assert [value for value, error in errors.items() if error is not None] == [values[2]]
    assert warnings_of(caplog, "gzip")


# ---- acknowledged, and lost

def test_record_when_an_old_broker_does_not_know_the_producer_then_a_new_epoch_begins_and_none_is_lost(
        tell: Tell) -> None:
    """On brokers before 2.5 a record was acknowledged with an offset, and is nowhere.

    The new leader did not know the producer and answered 59, its log empty by retention. The producer began at 0 again
    in the same epoch. The old leader, a replica meanwhile, still knew the numbers of that epoch: when it led again, it
    took the next record for the one that it had under its number, and answered with that one's offset. Java begins a
    new epoch; no (epoch, sequence) may stand for two records.
    """
    story = tell(node_count=2, parameters=kafka_2_3(blames_reused_numbers=False))
    old = [b"old 0", b"old 1", b"old 2"]
    story.deliver(*old)
    story.broker.delete_records(TOPIC)
    assert story.broker.forget_producer(TOPIC, node_id=1)
    story.broker.move_leader(TOPIC, to=1)
    story.deliver(b"new 0")
    story.broker.move_leader(TOPIC, to=0)
    story.deliver(b"new 1", b"new 2", b"new 3")
    story.check(*old, b"new 0", b"new 1", b"new 2", b"new 3")
    numbers = [(record.producer_id, record.producer_epoch, record.sequence) for record in story.broker.log(TOPIC)]
    assert len(set(numbers)) == len(numbers), "a number stands for two records"


# ---- 45 for a batch that may be in the log

@pytest.mark.usefixtures("noticed")
def test_record_when_it_is_stored_and_then_out_of_order_after_silence_then_it_is_unknown_and_says_why(
        tell: Tell) -> None:
    """The broker stored a record and lost what it knew of its producer; the retry was out of order, and was stored
    again in a new epoch.

    After silence nothing proves that the broker knows the producer, so 45 does not say that the record is not there.
    Whoever gets an "unknown" must be told enough to ask the broker's logs: which producer id, and what was refused.
    """
    story = tell()
    story.deliver(b"warm")
    story.fall_silent()
    story.broker.on_batch(TOPIC, holding=b"first").lose_answer()
    story.broker.on_batch(TOPIC, holding=b"first").refuse(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    story.send(b"first")
    error = story.decided()[b"first"]
    story.check(b"warm", b"first")
    assert isinstance(error, KafkaError)
    assert error.outcome == "unknown"
    assert "1000" in str(error), "the producer id"
    assert "OUT_OF_ORDER_SEQUENCE_NUMBER" in str(error) or "45" in str(error)
    story.deliver(b"second")
    story.check(b"warm", b"first", b"second")


def test_record_when_it_is_out_of_order_and_the_broker_knew_the_producer_then_it_is_stored_in_a_new_epoch(
        tell: Tell) -> None:
    """A request was lost on its way, and its retry is out of order for a broker that acknowledged a record of this
    epoch just before: that broker would know the record again, so it has not got it. It must not fail."""
    story = tell()
    story.deliver(b"before")
    story.broker.on_batch(TOPIC, holding=b"lost").lose_request()
    story.broker.on_batch(TOPIC, holding=b"lost").refuse(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    story.deliver(b"lost", b"after")
    story.check(b"before", b"lost", b"after")
    assert story.broker.epochs(TOPIC) == [(1000, 0), (1000, 1)]


def test_first_record_of_all_when_it_is_stored_and_then_out_of_order_then_it_is_not_stored_twice(tell: Tell) -> None:
    """Nothing was acknowledged before, so nothing proves that the broker would know the record again."""
    story = tell()
    story.broker.on_batch(TOPIC, holding=b"first").lose_answer()
    story.broker.on_batch(TOPIC, holding=b"first").refuse(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    story.send(b"first")
    assert story.decided()[b"first"].outcome == "unknown"
    story.check(b"first")


# ---- epochs

def test_epoch_when_a_record_is_unknown_and_those_behind_it_were_acknowledged_then_no_new_one_begins(
        tell: Tell) -> None:
    """Each record that was given up as unknown cost an epoch, though the broker had acknowledged the one behind it.

    The sequence is whole then: a broker that stores a number has all before it. 32,767 epochs are an id's life, and
    each new one lets the partition wait until nothing is on its way.
    """
    story = tell(delivery_timeout_ms=2000, request_timeout_ms=1500, retry_backoff_ms=60_000,
                 retry_backoff_max_ms=60_000)
    for number in range(20):  # on a slow machine others may expire, too
        before, unknown, behind, after = (b"%d %d" % (number, which) for which in range(4))
        story.send(before)
        if story.decided()[before] is not None:
            continue
        held = story.broker.on_batch(TOPIC, holding=unknown).hold().refuse_after(ErrorCode.REQUEST_TIMED_OUT)
        story.send_behind(held, unknown, behind)
        story.decided()
        story.send(after)
        errors = story.decided()
        if errors[unknown] is not None and errors[behind] is None and errors[after] is None:
            break
    assert errors[unknown].outcome == "unknown"
    story.check_once()
    log = {record.value: record for record in story.broker.log(TOPIC)}
    epoch, sequence = log[before].producer_epoch, log[before].sequence
    assert [(log[value].producer_epoch, log[value].sequence) for value in (unknown, behind, after)] == [
        (epoch, sequence + 1), (epoch, sequence + 2), (epoch, sequence + 3)]
