"""What send() and send_batch() refuse, wait for and hand over, on each road that a record may take."""

from __future__ import annotations

import enum
import itertools
import threading
from collections.abc import Callable
from typing import Any

import pytest

from pyproducer import (
    BufferExhaustedError,
    InvalidTopicError,
    KafkaTimeoutError,
    PartitionerError,
    ProducerInterceptor,
    ProducerRecord,
    RecordTooLargeError,
    SerializationError,
    StringSerializer,
    UnknownTopicOrPartitionError,
)
from pyproducer.hotpath import record_size_upper_bound
from pyproducer.producer.partitioners import partition_for
from tests.support.clock import ManualClock
from tests.support.patience import GIVE_UP_S
from tests.unit.producer.facade import MESSAGE_TOO_LARGE, NOT_ENOUGH_REPLICAS, CallerWaits, Facade, Facades

LONG_MS = 10_000_000


def passing(_topic: str, _headers: object, data: Any) -> Any:
    """A serializer that is there, so that records go row by row."""
    return data


def send_plain(facade: Facade, value: bytes) -> BaseException | None:
    return facade.producer.send("t", value).exception(GIVE_UP_S)


def send_record(facade: Facade, value: bytes) -> BaseException | None:
    return facade.producer.send(ProducerRecord("t", value, headers=[("h", b"1")])).exception(GIVE_UP_S)


def send_rows(facade: Facade, value: bytes) -> BaseException | None:
    return facade.producer.send_batch("t", [value]).exception(GIVE_UP_S)


SENDS = pytest.mark.parametrize("send", [send_plain, send_record, send_rows])
Send = Callable[[Facade, Any], "BaseException | None"]


def error_of(send: Send, facade: Facade, value: Any) -> BaseException | None:
    """The error of a send, raised or told by its future."""
    try:
        return send(facade, value)
    except Exception as error:
        return error


def in_manual_time(facades: Facades, **props: Any) -> tuple[Facade, CallerWaits]:
    """A producer that knows topic t, whose broker holds all; callers' waits move its clock."""
    clock = ManualClock()
    serializers = props.pop("serializers", (None, None))
    facade = facades(clock, serializers=serializers, **{"linger.ms": 0, "max.block.ms": 1000, **props})
    facade.know()
    facade.broker.holds = facade.broker.holds_metadata = True
    return facade, CallerWaits(clock, facade.broker.wakeup)


def pass_time(facade: Facade, ms: int) -> None:
    """Move the clock, and let the sender see it."""
    facade.clock.advance(ms)
    facade.broker.take_turns()


def fill_memory(facade: Facade) -> None:
    """Take all of buffer.memory; the batch waits for its answer."""
    facade.producer.send("t", b"first", partition=0)
    assert facade.free_bytes() == 0
    facade.broker.await_requests(1)


FULL = {"buffer.memory": 20_000, "batch.size": 20_000}


# Partitions ----------------------------------------------------------------------------------------------------------

class Raising:
    """Looks like a number, as an array of several does, which is none; and its text cannot be had."""

    def __index__(self) -> int:
        raise TypeError("only integer scalar arrays can be converted to a scalar index")

    def __repr__(self) -> str:
        raise ZeroDivisionError


@SENDS
@pytest.mark.parametrize(("given", "words"), [
    (2, "gave partition 2 for topic 't': the topic has 2 partitions, so it must be from 0 to 1"),
    (-1, "gave partition -1"), (2**40, f"gave partition {2**40}"),
    ("1", "gave '1'"), (1.0, "gave 1.0"), (None, "gave None"), (int, "gave <class 'int'>"),
    (Raising(), "gave <Raising instance at "),
])
def test_send_when_the_partitioner_gives_no_partition_of_the_topic_then_refused_and_nothing_is_kept(
        facades: Facades, send: Send, given: object, words: str) -> None:
    """It was a ValueError or TypeError, in futures and `errors`, too, where all others are KafkaErrors."""
    facade = facades(**{"partitioner.class": lambda *_arguments: given})
    error = error_of(send, facade, b"v")
    assert type(error) is PartitionerError
    assert words in str(error)
    facade.producer.flush(GIVE_UP_S)
    assert facade.broker.sent == []
    facade.await_whole_memory()


@SENDS
@pytest.mark.parametrize("given", [0, 1])
def test_send_when_the_partitioner_gives_the_first_or_the_last_partition_then_it_goes_there(
        facades: Facades, send: Send, given: int) -> None:
    class Index:
        def __index__(self) -> int:
            return given

    for answer in (given, Index()):
        facade = facades(**{"partitioner.class": lambda *_arguments, answer=answer: answer})
        assert error_of(send, facade, b"v") is None
        assert facade.broker.sent == [("t", given, [b"v"])]


def test_send_when_records_have_keys_then_a_partitioner_of_the_applications_is_asked_for_each(
        facades: Facades) -> None:
    asked: list[bytes] = []

    def choose(_topic: str, key: bytes, *_arguments: object) -> int:
        asked.append(key)
        return 1 - partition_for(key, 2)  # never where the hash of the key would lead

    facade = facades(**{"partitioner.class": choose})
    facade.know()
    keys = [b"key-%d" % number for number in range(6)]
    sends = [lambda key: facade.producer.send("t", b"v", key=key),
             lambda key: facade.producer.send(ProducerRecord("t", b"v", key, headers=[("h", b"1")])),
             lambda key: facade.producer.send_batch("t", [b"v"], keys=[key])]
    for send in sends:
        asked.clear()
        facade.broker.records.clear()
        facade.broker.sent.clear()
        for key in keys:
            send(key).result(GIVE_UP_S)
        assert asked == keys
        assert [record.key for record in facade.broker.records] == keys
        assert [partition for _, partition, _ in facade.broker.sent] == [1 - partition_for(key, 2) for key in keys]


def test_send_batch_when_the_partitioner_fails_for_one_row_then_the_others_are_sent(facades: Facades) -> None:
    facade = facades(**{"partitioner.class": lambda _topic, key, *_arguments: int(key)})
    metadata = facade.producer.send_batch("t", [b"a", b"b", b"c"], keys=[b"1", b"2", b"0"]).result(GIVE_UP_S)
    assert {row: type(error) for row, error in metadata.errors.items()} == {1: PartitionerError}
    assert list(metadata.partitions) == [1, -1, 0]
    assert sorted(facade.broker.sent) == [("t", 0, [b"c"]), ("t", 1, [b"a"])]


def test_send_when_a_partitioner_wants_to_know_then_it_is_told_of_each_append(facades: Facades) -> None:
    class Watching:
        def __init__(self) -> None:
            self.told: list[tuple[Any, ...]] = []

        def partition(self, *_arguments: object) -> int:
            return 1

        def on_append(self, topic: str, partition: int, size_bytes: int, _cluster: object, is_full: bool) -> None:
            self.told.append((topic, partition, size_bytes, is_full))

    watching = Watching()
    facade = facades(**{"partitioner.class": watching, "linger.ms": LONG_MS, "delivery.timeout.ms": 2 * LONG_MS,
                        "batch.size": 200})
    facade.know()
    size_bytes = record_size_upper_bound(None, b"v" * 60, ()) - 61
    for _ in range(2):
        facade.producer.send("t", b"v" * 60)
    assert watching.told[0] == ("t", 1, size_bytes, False)
    facade.producer.send("t", b"v" * 150)
    assert watching.told[2][3] is True


@pytest.mark.parametrize("partition", [2, 3])
def test_send_when_the_caller_names_a_partition_that_is_not_there_then_it_fails_after_one_refresh(
        facades: Facades, partition: int) -> None:
    """It failed after max.block.ms, a minute, although the first answer said how many partitions there are."""
    facade, _ = in_manual_time(facades)
    facade.producer.send("t", b"v", partition=1)  # the topic is in use, so send() looks no further than it must
    facade.broker.await_requests(1)
    facade.broker.answer()
    told: list[Any] = []
    future = facade.producer.send("t", b"v", partition=partition, on_completion=lambda *what: told.append(what))
    facade.broker.take_turns()
    assert not future.done(), "brokers are asked once"
    facade.broker.tell_topics()
    error = future.exception(GIVE_UP_S)
    assert isinstance(error, UnknownTopicOrPartitionError)
    assert (error.outcome, error.retriable, error.code) == ("not_sent", False, 3)
    assert f"Topic 't' has no partition {partition}: the index must be from 0 to 1, or None" in str(error)
    assert [(metadata, type(exception)) for metadata, exception in told] == [(None, UnknownTopicOrPartitionError)]
    facade.await_whole_memory()


def test_send_when_no_broker_answers_for_a_partition_that_is_not_there_then_it_fails_after_the_whole_wait(
        facades: Facades) -> None:
    facade, _ = in_manual_time(facades)
    future = facade.producer.send("t", b"v", partition=2)
    pass_time(facade, 999)
    assert not future.done()
    pass_time(facade, 1)
    error = future.exception(0)
    assert isinstance(error, KafkaTimeoutError)
    assert (error.phase, error.outcome) == ("metadata", "not_sent")
    assert "the topic has 2 partitions, so the index must be from 0 to 1" in str(error)


def test_send_batch_when_rows_name_a_partition_that_is_not_there_then_only_those_fail(facades: Facades) -> None:
    facade, _ = in_manual_time(facades)
    facade.broker.holds = False
    future = facade.producer.send_batch("t", [b"a", b"b", b"c"], partitions=[1, 2, 0])
    facade.broker.take_turns()
    facade.broker.tell_topics()
    metadata = future.result(GIVE_UP_S)
    assert {row: type(error) for row, error in metadata.errors.items()} == {1: UnknownTopicOrPartitionError}
    assert sorted(facade.broker.sent) == [("t", 0, [b"c"]), ("t", 1, [b"a"])]


def test_send_when_the_named_partition_appears_during_the_wait_then_it_goes_there(facades: Facades) -> None:
    facade, _ = in_manual_time(facades)
    facade.broker.holds = False
    future = facade.producer.send("t", b"v", partition=2)
    pass_time(facade, 300)
    facade.broker.tell_topics(t=3)
    assert future.result(GIVE_UP_S).partition == 2


# Partitions that are missing between others ---------------------------------------------------------------------------

SPARSE = (0, 60)  # two partitions; keys are hashed over 61
KEYS = [b"%d" % number for number in range(200)]
HIT = {key: partition_for(key, 61) for key in KEYS}
KEY_OF_0 = next(key for key in KEYS if HIT[key] == 0)
KEY_OF_60 = next(key for key in KEYS if HIT[key] == 60)
KEY_OF_A_HOLE = next(key for key in KEYS if HIT[key] not in SPARSE)
HOLE = HIT[KEY_OF_A_HOLE]


def sparse(facades: Facades, serializer: Any = None, **props: Any) -> Facade:
    facade = facades(ManualClock(), serializers=(None, serializer), **{"max.block.ms": 1000, **props})
    facade.broker.topics["t"] = SPARSE
    facade.know()
    return facade


def answered_in_vain(facade: Facade) -> CallerWaits:
    """Within it who waits is there when the brokers have answered, and then when max.block.ms is over."""
    waits = CallerWaits(facade.clock, facade.broker.wakeup)
    for ms in (0, 1000):
        waits.at(facade.clock.now_ms() + ms, facade.broker.take_turns)
    return waits


def assert_no_such_partition(error: BaseException | None, partition: int) -> None:
    assert isinstance(error, KafkaTimeoutError)
    assert (error.phase, error.outcome) == ("metadata", "not_sent")
    assert f"Partition {partition} of topic 't' was not known within max.block.ms = " in str(error)
    assert "tell of 2 partitions of it, from 0 to 60, and not of this one" in str(error)


@pytest.mark.parametrize("serializer", [None, passing])
def test_send_when_partitions_are_missing_then_records_without_a_key_go_over_those_that_are_there(
        facades: Facades, serializer: Any) -> None:
    """The index of a partition was taken for its place among them: the process died of it (SIGSEGV)."""
    facade = sparse(facades, serializer)
    for _ in range(6):
        assert error_of(send_plain, facade, b"v") is None
    places = [partition for _, partition, _ in facade.broker.sent]
    assert sorted(set(places)) == [0, 60]
    assert all(first != second for first, second in itertools.pairwise(places))


def test_send_when_partitions_are_missing_and_none_has_a_leader_then_those_that_are_there_are_used(
        facades: Facades) -> None:
    facade = facades(**{"linger.ms": 0})
    facade.broker.topics["t"] = SPARSE
    facade.broker.has_leaders = False
    facade.know()
    # No leader, no answer: where each record waits is all that there is to see.
    places = {facade.producer.send("t", b"v")._result.topic_partition.partition for _ in range(6)}
    assert places == {0, 60}


@pytest.mark.parametrize("serializer", [None, passing])
def test_send_when_partitions_are_missing_then_keys_are_hashed_as_if_they_were_there(
        facades: Facades, serializer: Any) -> None:
    facade = sparse(facades, serializer)
    for key, partition in ((KEY_OF_0, 0), (KEY_OF_60, 60)) * 3:
        assert facade.producer.send("t", b"v", key=key).result(GIVE_UP_S).partition == partition


@pytest.mark.parametrize("serializer", [None, passing])
def test_send_when_a_record_is_for_a_partition_that_is_missing_then_it_fails_as_for_one_that_never_was(
        facades: Facades, serializer: Any) -> None:
    facade = sparse(facades, serializer)
    told: list[Any] = []
    for _ in range(3):
        with answered_in_vain(facade):
            error = facade.producer.send("t", b"v", key=KEY_OF_A_HOLE, on_completion=lambda *what: told.append(what)
                                         ).exception(GIVE_UP_S)
        assert_no_such_partition(error, HOLE)
    with answered_in_vain(facade):
        assert_no_such_partition(facade.producer.send("t", b"v", partition=HOLE).exception(GIVE_UP_S), HOLE)
    assert [(metadata, type(error)) for metadata, error in told] == [(None, KafkaTimeoutError)] * 3
    assert facade.broker.sent == []
    facade.await_whole_memory()
    assert error_of(send_plain, facade, b"v") is None


@SENDS
def test_send_when_the_partitioner_gives_a_partition_that_is_missing_then_it_fails_as_for_one_that_never_was(
        facades: Facades, send: Send) -> None:
    facade = sparse(facades, **{"partitioner.class": lambda *_arguments: HOLE})
    with answered_in_vain(facade):
        assert_no_such_partition(error_of(send, facade, b"v"), HOLE)
    assert facade.broker.sent == []
    facade.await_whole_memory()


@pytest.mark.parametrize("serializer", [None, passing])
def test_send_batch_when_partitions_are_missing_then_only_rows_for_those_fail(
        facades: Facades, serializer: Any) -> None:
    """Such rows were dropped without a word, and the future was never done."""
    facade = sparse(facades, serializer)
    keys = [KEY_OF_60, KEY_OF_A_HOLE, None, KEY_OF_0, None, None, None]
    places = [None, None, None, None, 60, 7, 99]
    with answered_in_vain(facade):
        metadata = facade.producer.send_batch("t", [b"%d" % row for row in range(7)], keys=keys, partitions=places
                                              ).result(GIVE_UP_S)
    assert sorted(metadata.errors) == [1, 5, 6]
    for row, partition in ((1, HOLE), (5, 7)):
        assert_no_such_partition(metadata.errors[row], partition)
    assert "has no partition 99: the index must be from 0 to 60" in str(metadata.errors[6])
    stored = {value: partition for _, partition, values in facade.broker.sent for value in values}
    assert set(stored) == {b"0", b"2", b"3", b"4"}
    assert (stored[b"0"], stored[b"3"], stored[b"4"]) == (60, 0, 60)
    assert stored[b"2"] in SPARSE
    assert [metadata.partitions[row] for row in (0, 3, 4)] == [60, 0, 60]
    facade.await_whole_memory()


@pytest.mark.parametrize("as_rows", [False, True])
@pytest.mark.parametrize("serializer", [None, passing])
def test_send_when_the_missing_partition_appears_during_the_wait_then_it_goes_there(
        facades: Facades, serializer: Any, *, as_rows: bool) -> None:
    facade, _ = in_manual_time(facades, serializers=(None, serializer))
    facade.broker.tell_topics(t=SPARSE)
    facade.broker.holds = False
    future: Any = (facade.producer.send_batch("t", [b"v"], keys=[KEY_OF_A_HOLE]) if as_rows
                   else facade.producer.send("t", b"v", key=KEY_OF_A_HOLE))
    pass_time(facade, 300)
    assert not future.done()
    facade.broker.tell_topics(t=(0, HOLE, 60))
    assert future.exception(GIVE_UP_S) is None
    assert facade.broker.sent == [("t", HOLE, [b"v"])]


# Sizes ---------------------------------------------------------------------------------------------------------------

@SENDS
@pytest.mark.parametrize(("props", "limit_bytes", "words"), [
    ({"buffer.memory": 50_000}, 50_000, "buffer.memory = 50000"),
    ({"max.request.size": 40_000}, 40_000, "max.request.size = 40000"),
    ({"max.request.size": 40_000, "buffer.memory": 50_000}, 40_000, "max.request.size = 40000"),
    ({"max.request.size": 60_000, "buffer.memory": 50_000}, 50_000, "buffer.memory = 50000"),
])
@pytest.mark.parametrize("with_serializer", [False, True])
def test_send_when_the_record_is_above_the_limit_then_refused_at_once_and_nothing_is_kept(
        facades: Facades, send: Send, props: dict[str, object], limit_bytes: int, words: str,
        *, with_serializer: bool) -> None:
    """A record that no amount of waiting makes room for: buffer.memory would never have it, the broker refuses it."""
    clock = ManualClock()
    for facade in (facades(serializers=(None, passing if with_serializer else None), **props), facades(clock, **props)):
        headers = (("h", b"1"),) if send is send_record else ()
        room_bytes = limit_bytes - record_size_upper_bound(None, b"", headers)
        facade.know()
        assert error_of(send, facade, b"v" * room_bytes) is None, "exactly the limit is allowed"
        error = error_of(send, facade, b"v" * (room_bytes + 1))
        assert type(error) is RecordTooLargeError
        assert (error.outcome, error.code) == ("not_sent", 10)
        assert f"takes {limit_bytes + 1} bytes with its batch header, which is above {words}" in str(error)
        facade.await_whole_memory()  # the first one's comes back after its future is told
        assert len(facade.broker.sent) == 1
    assert clock.now_ms() == 0


@pytest.mark.parametrize("with_serializer", [False, True])
def test_send_batch_when_one_row_is_above_the_limit_then_no_row_is_sent(
        facades: Facades, *, with_serializer: bool) -> None:
    facade = facades(serializers=(None, passing if with_serializer else None), **{"buffer.memory": 50_000})
    with pytest.raises(RecordTooLargeError, match=r"^Row 1: The record for topic 't'.*buffer\.memory = 50000"):
        facade.producer.send_batch("t", [b"a", b"v" * 50_000, b"c"])
    facade.producer.flush(GIVE_UP_S)
    assert facade.broker.sent == []
    facade.await_whole_memory()


@pytest.mark.parametrize("with_serializer", [False, True])
def test_send_batch_when_headers_make_a_row_too_large_then_refused(facades: Facades, *, with_serializer: bool) -> None:
    facade = facades(serializers=(None, passing if with_serializer else None), **{"buffer.memory": 50_000})
    with pytest.raises(RecordTooLargeError, match=r"^Row 1: "):
        facade.producer.send_batch("t", [b"a", b"b"], headers=[None, [("h", b"v" * 50_000)]])
    facade.await_whole_memory()


# Waiting: max.block.ms -----------------------------------------------------------------------------------------------

def test_send_when_the_topic_stays_unknown_then_it_fails_after_max_block_ms(facades: Facades) -> None:
    facade, _ = in_manual_time(facades)
    told: list[Any] = []
    future = facade.producer.send("other", b"v", on_completion=lambda *what: told.append(what))
    pass_time(facade, 999)
    assert not future.done()
    pass_time(facade, 1)
    error = future.exception(0)
    assert isinstance(error, KafkaTimeoutError)
    assert (error.phase, error.outcome) == ("metadata", "not_sent")
    assert "Topic 'other' was not known within max.block.ms = 1000 ms" in str(error)
    assert [(metadata, type(exception)) for metadata, exception in told] == [(None, KafkaTimeoutError)]


@pytest.mark.parametrize("with_serializer", [False, True])
def test_send_batch_when_the_topic_stays_unknown_then_every_row_fails_after_max_block_ms(
        facades: Facades, *, with_serializer: bool) -> None:
    facade, _ = in_manual_time(facades, serializers=(None, passing if with_serializer else None))
    future = facade.producer.send_batch("other", [b"a", b"b"])
    pass_time(facade, 999)
    assert not future.done()
    pass_time(facade, 1)
    metadata = future.result(0)
    assert {row: type(error) for row, error in metadata.errors.items()} == dict.fromkeys((0, 1), KafkaTimeoutError)
    assert list(metadata.partitions) == list(metadata.offsets) == [-1, -1]
    facade.await_whole_memory()


def test_partitions_for_when_the_topic_stays_unknown_then_it_raises_after_max_block_ms(facades: Facades) -> None:
    facade, waits = in_manual_time(facades)
    with waits, pytest.raises(KafkaTimeoutError) as caught:
        facade.producer.partitions_for("other")
    assert (caught.value.phase, facade.clock.now_ms()) == ("metadata", 1000)


def test_send_when_the_broker_refuses_the_topic_for_good_then_it_fails_at_once(facades: Facades) -> None:
    facade = facades()
    facade.broker.topic_errors["odd"] = 17
    error = facade.producer.send("odd", b"v").exception(GIVE_UP_S)
    assert isinstance(error, InvalidTopicError)
    assert error.outcome == "not_sent"
    with pytest.raises(InvalidTopicError):
        facade.producer.partitions_for("odd")


@pytest.mark.parametrize("with_serializer", [False, True])
@pytest.mark.parametrize("name", ["x" * 40_000, "bad\ud800", "a b"], ids=lambda name: ascii(name[:5]))
def test_send_when_the_name_of_the_topic_is_not_allowed_then_it_fails_without_a_request(
        facades: Facades, name: str, *, with_serializer: bool) -> None:
    facade = facades(serializers=(None, passing if with_serializer else None))
    future = facade.producer.send(name, b"v")
    rows = facade.producer.send_batch(name, [b"a"])
    with pytest.raises(InvalidTopicError) as caught:
        facade.producer.partitions_for(name)
    for error in (future.exception(0), rows.exception(0), caught.value):
        assert type(error) is InvalidTopicError
        assert (error.outcome, error.code, error.retriable) == ("not_sent", 17, False)
    facade.know()
    assert facade.broker.asked == {"t"}
    facade.await_whole_memory()


class Topics(str, enum.Enum):
    """Names as applications keep them; str() of one is not its value."""

    T = "t"
    UNKNOWN = "unknown"


def parts_of_topic(topic: str) -> tuple[type, str]:
    return type(topic), topic


@pytest.mark.parametrize("with_serializer", [False, True])
def test_send_when_the_topic_is_of_a_subclass_of_str_then_it_is_the_topic_of_that_name(
        facades: Facades, *, with_serializer: bool) -> None:
    """send() raised after the record was accepted, where the compiled road was there: who tried again had it twice."""
    facade = facades(serializers=(None, passing if with_serializer else None), **{"max.block.ms": 0})
    facade.know()
    told: list[Any] = []
    for number in range(2):  # the first opens a batch, the second finds it
        metadata = facade.producer.send(Topics.T, b"plain %d" % number, partition=0,
                                        on_completion=lambda *what: told.append(what)).result(GIVE_UP_S)
        assert parts_of_topic(metadata.topic) == (str, "t")
    record = ProducerRecord(Topics.T, b"record", partition=0)
    assert parts_of_topic(record.topic) == (str, "t")
    assert parts_of_topic(facade.producer.send(record).result(GIVE_UP_S).topic) == (str, "t")
    assert parts_of_topic(facade.producer.send_batch(Topics.T, [b"row"], partitions=[0]).result(GIVE_UP_S).topic) == (
        str, "t")
    assert [parts_of_topic(info.topic) for info in facade.producer.partitions_for(Topics.T)] == [(str, "t")] * 2
    assert [values for _, _, values in facade.broker.sent] == [[b"plain 0"], [b"plain 1"], [b"record"], [b"row"]]
    assert [parts_of_topic(metadata.topic) for metadata, _ in told] == [(str, "t")] * 2
    assert "'unknown'" in str(facade.producer.send(Topics.UNKNOWN, b"v").exception(0))


def test_send_when_an_interceptor_gives_a_topic_of_a_subclass_of_str_then_it_is_the_topic_of_that_name(
        facades: Facades) -> None:
    class Rerouting(ProducerInterceptor):
        def on_send(self, record: ProducerRecord) -> ProducerRecord:
            return ProducerRecord(Topics.T, record.value)

    facade = facades(**{"interceptor.classes": [Rerouting()]})
    assert parts_of_topic(facade.producer.send("other", b"v").result(GIVE_UP_S).topic) == (str, "t")
    rows = facade.producer.send_batch("other", [b"row"])
    assert rows.exception(GIVE_UP_S) is None
    assert {parts_of_topic(topic) for topic, _, _ in facade.broker.sent} == {(str, "t")}


@pytest.mark.parametrize(("topic", "error_type", "words"), [
    (5, TypeError, "topic must be str, got int: 5"), ("", ValueError, "topic must not be empty")])
def test_topic_when_it_is_none_then_every_call_says_so(
        facades: Facades, topic: Any, error_type: type[Exception], words: str) -> None:
    producer = facades().producer
    for call in (lambda: producer.send(topic, b"v"), lambda: producer.send_batch(topic, [b"v"]),
                 lambda: producer.partitions_for(topic), lambda: ProducerRecord(topic, b"v")):
        with pytest.raises(error_type, match=words):
            call()


@pytest.mark.parametrize("max_block_ms", [0, 1, 1000])
def test_send_when_memory_stays_exhausted_then_it_fails_after_max_block_ms(facades: Facades,
                                                                           max_block_ms: int) -> None:
    facade, waits = in_manual_time(facades, **FULL, **{"max.block.ms": max_block_ms})
    fill_memory(facade)
    told: list[Any] = []
    with waits:
        future = facade.producer.send("t", b"v", partition=1, on_completion=lambda *what: told.append(what))
    error = future.exception(0)
    assert isinstance(error, BufferExhaustedError)
    assert (error.phase, error.outcome) == ("buffer", "not_sent")
    assert facade.clock.now_ms() == max_block_ms
    assert [(metadata, type(exception)) for metadata, exception in told] == [(None, BufferExhaustedError)]
    facade.broker.answer()
    facade.await_whole_memory()


def test_send_when_memory_stays_exhausted_then_its_error_says_why_no_record_was_stored(facades: Facades) -> None:
    """How many bytes were held and how many callers waited was all; not that no broker could be reached."""
    facade, waits = in_manual_time(facades, **FULL, **{"retry.backoff.ms": 10_000, "retry.backoff.max.ms": 10_000})
    fill_memory(facade)
    facade.broker.answer(NOT_ENOUGH_REPLICAS)
    facade.producer._runtime.metadata.note_failure("broker:9092", "connect: Connection refused")
    with waits:
        for future in (facade.producer.send("t", b"v", partition=1), facade.producer.send("unknown", b"v")):
            error = str(future.exception(0))
            assert "acknowledged yet, and 1 callers wait; the last attempt failed with: NOT_ENOUGH_REPLICAS: " in error
            assert "; broker:9092: connect: Connection refused. Send more slowly, or raise buffer.memory" in error


@pytest.mark.parametrize("with_serializer", [False, True])
@pytest.mark.parametrize("as_rows", [False, True])
def test_send_when_it_waits_for_memory_and_then_for_metadata_then_both_share_max_block_ms(
        facades: Facades, *, as_rows: bool, with_serializer: bool) -> None:
    facade, waits = in_manual_time(facades, **FULL, serializers=(None, passing if with_serializer else None))
    fill_memory(facade)
    waits.at(600, facade.broker.answer)
    with waits:
        future: Any = (facade.producer.send_batch("late", [b"v"]) if as_rows else facade.producer.send("late", b"v"))
    assert facade.clock.now_ms() == 600
    pass_time(facade, 399)
    assert not future.done()
    pass_time(facade, 1)
    assert future.exception(0).phase == "metadata"
    facade.await_whole_memory()


@pytest.mark.parametrize("with_serializer", [False, True])
def test_send_batch_when_several_rows_wait_for_memory_then_all_share_max_block_ms(
        facades: Facades, *, with_serializer: bool) -> None:
    facade, waits = in_manual_time(facades, **FULL, serializers=(None, passing if with_serializer else None))
    fill_memory(facade)
    waits.at(700, lambda: facade.broker.answer(only=0))
    with waits:
        future = facade.producer.send_batch("t", [b"a", b"b"], partitions=[0, 1])
    assert facade.clock.now_ms() == 1000
    facade.broker.await_requests(2)
    facade.broker.answer()
    metadata = future.result(GIVE_UP_S)
    assert {row: type(error) for row, error in metadata.errors.items()} == {1: BufferExhaustedError}
    assert facade.broker.sent[1:] == [("t", 0, [b"a"])]


def test_send_batch_when_rows_find_no_memory_then_partitions_are_told_as_far_as_they_were_chosen(
        facades: Facades) -> None:
    facade, waits = in_manual_time(facades, **FULL, **{"partitioner.class": lambda *_arguments: 1})
    fill_memory(facade)
    with waits:
        metadata = facade.producer.send_batch("t", [b"a", b"b", b"c"], partitions=[None, None, 0]).result(0)
    assert list(metadata.errors) == [0, 1, 2]
    assert list(metadata.partitions) == [1, -1, 0], "no partition is chosen for rows behind the one that waited"


def test_send_batch_when_a_later_chunk_names_an_unknown_partition_and_memory_is_full_then_each_row_fails_once(
        facades: Facades) -> None:
    """Rows of unknown partitions need memory to wait in; the others that had been handed over failed twice."""
    pyarrow = pytest.importorskip(
        "pyarrow", reason="the package pyarrow is not installed: pip install -e '.[spark,test]'")
    facade, waits = in_manual_time(facades, **FULL)
    fill_memory(facade)
    values = pyarrow.chunked_array([[b"a"], [b"b", b"c"], [b"d"]], pyarrow.binary())
    with waits:
        future = facade.producer.send_batch("t", values, partitions=[0, 5, 1, 6])
    assert {row: type(error) for row, error in future.result(0).errors.items()} == dict.fromkeys(
        range(4), BufferExhaustedError)
    assert facade.clock.now_ms() == 1000


def test_send_when_memory_comes_back_during_the_wait_then_it_is_accepted_at_that_moment(facades: Facades) -> None:
    facade, waits = in_manual_time(facades, **FULL)
    fill_memory(facade)
    waits.at(400, facade.broker.answer)
    with waits:
        future = facade.producer.send("t", b"second", partition=1)
    assert facade.clock.now_ms() == 400
    assert facade.producer.metrics()["bufferpool-wait-time-ns-total"] == 400_000_000
    facade.broker.await_requests(2)
    facade.broker.answer()
    assert future.result(GIVE_UP_S).offset == 100


# Memory --------------------------------------------------------------------------------------------------------------

@SENDS
@pytest.mark.parametrize("error_code", [0, MESSAGE_TOO_LARGE])
def test_send_when_the_record_is_done_then_its_memory_is_back(facades: Facades, send: Send, error_code: int) -> None:
    facade = facades()
    facade.broker.error_code = error_code
    assert (error_of(send, facade, b"v" * 1000) is None) == (error_code == 0)
    facade.producer.flush(GIVE_UP_S)
    facade.broker.take_turns()
    facade.await_whole_memory()


@SENDS
def test_send_when_a_serializer_fails_then_nothing_is_kept(facades: Facades, send: Send) -> None:
    def failing(_topic: str, _headers: object, _data: object) -> bytes:
        raise LookupError("no schema")

    facade = facades(serializers=(None, failing))
    error = error_of(send, facade, b"v")
    assert type(error) is SerializationError
    assert isinstance(error.__cause__, LookupError)
    assert error.outcome == "not_sent"
    facade.await_whole_memory()
    facade.producer.flush(GIVE_UP_S)
    assert facade.broker.sent == []


# When the sender is woken --------------------------------------------------------------------------------------------

@pytest.mark.parametrize("with_serializer", [False, True])
def test_send_when_a_batch_is_full_then_it_is_sent_without_lingering(facades: Facades, *,
                                                                     with_serializer: bool) -> None:
    facade = facades(serializers=(None, passing if with_serializer else None),
                     **{"linger.ms": LONG_MS, "delivery.timeout.ms": 2 * LONG_MS, "batch.size": 400})
    facade.know()
    facade.producer.send("t", b"v" * 100, partition=0)
    facade.broker.take_turns()
    assert facade.broker.sent == [], "it lingers for company"
    for _ in range(4):
        facade.producer.send("t", b"v" * 100, partition=0)
    facade.broker.await_requests(1)
    assert len(facade.broker.sent[0][2]) < 5


@pytest.mark.parametrize("with_serializer", [False, True])
def test_send_when_one_record_is_a_full_batch_then_it_is_sent_without_lingering(facades: Facades, *,
                                                                                with_serializer: bool) -> None:
    facade = facades(serializers=(None, passing if with_serializer else None),
                     **{"linger.ms": LONG_MS, "delivery.timeout.ms": 2 * LONG_MS, "batch.size": 400})
    facade.know()
    facade.broker.take_turns()  # then the sender sleeps until it is woken
    facade.producer.send("t", b"v" * 500, partition=0)
    facade.broker.await_requests(1)


def test_send_batch_when_rows_fill_a_batch_then_it_is_sent_without_lingering(facades: Facades) -> None:
    facade = facades(**{"linger.ms": LONG_MS, "delivery.timeout.ms": 2 * LONG_MS, "batch.size": 400})
    facade.producer.send_batch("t", [b"v" * 100] * 5, partitions=[0] * 5)
    facade.broker.await_requests(1)


# Topics in use -------------------------------------------------------------------------------------------------------

def test_send_when_a_topic_is_in_use_then_metadata_goes_on_asking_for_it(facades: Facades) -> None:
    """Nobody reports each record; which topics were sent to since the last request is asked when the next is made."""
    clock = ManualClock()
    facade = facades(clock, **{"metadata.max.idle.ms": 5000, "metadata.max.age.ms": 4000})
    facade.know()
    metadata = facade.producer._runtime.metadata
    for _ in range(6):
        facade.producer.send("t", b"v", partition=0)
        clock.advance(4000)
        assert metadata.next_request(clock.now_ms()).topics == ["t"]
    clock.advance(4999)
    assert metadata.next_request(clock.now_ms()).topics == ["t"]
    clock.advance(1)
    assert metadata.next_request(clock.now_ms()).topics == []


def test_send_when_no_partition_has_a_leader_then_records_wait_for_one_in_turn(facades: Facades) -> None:
    facade = facades(**{"linger.ms": 0})
    facade.broker.has_leaders = False
    futures = [facade.producer.send("t", b"v") for _ in range(4)]
    facade.broker.take_turns()
    assert facade.broker.sent == []
    facade.broker.has_leaders = True
    facade.broker.tell_topics()
    assert sorted(future.result(GIVE_UP_S).partition for future in futures) == [0, 0, 1, 1]


# The shape of the call -----------------------------------------------------------------------------------------------

def test_send_when_given_a_record_or_its_parts_then_the_same_is_sent(facades: Facades) -> None:
    facade = facades()
    told: list[Any] = []
    parts = facade.producer.send("t", b"value", key=b"key", partition=1, timestamp=123, headers=[("h", None)],
                                 on_completion=lambda *what: told.append(what))
    whole = facade.producer.send(ProducerRecord("t", b"value", b"key", partition=1, timestamp=123,
                                                headers=[("h", None)]), lambda *what: told.append(what))
    results = [future.result(GIVE_UP_S) for future in (parts, whole)]
    assert [(row.partition, row.timestamp, row.serialized_key_size, row.serialized_value_size)
            for row in results] == [(1, 123, 3, 5)] * 2
    assert [row.offset for row in results] == [100, 101]
    assert told == [(results[0], None), (results[1], None)]


@pytest.mark.parametrize(("arguments", "named", "words"), [
    ((ProducerRecord("t", b"v"), b"value"), {}, "takes a callable as its second argument, got bytes"),
    ((ProducerRecord("t", b"v"), print), {"on_completion": print}, "takes a callable as its second argument"),
    ((ProducerRecord("t", b"v"),), {"key": b"k"}, "takes key, partition, timestamp and headers from the"),
    ((ProducerRecord("t", b"v"),), {"partition": 0}, "takes key, partition, timestamp and headers from the"),
    ((ProducerRecord("t", b"v"),), {"timestamp": 0}, "takes key, partition, timestamp and headers from the"),
    ((ProducerRecord("t", b"v"),), {"headers": [("h", b"")]}, "takes key, partition, timestamp and headers from the"),
    ((5,), {}, "topic must be"),
])
def test_send_when_its_arguments_make_no_sense_then_type_error(
        facades: Facades, arguments: tuple[Any, ...], named: dict[str, Any], words: str) -> None:
    with pytest.raises(TypeError, match=words):
        facades().producer.send(*arguments, **named)


@pytest.mark.parametrize("named", [{"partition": -1}, {"timestamp": -1}])
def test_send_when_a_number_is_out_of_range_then_value_error(facades: Facades, named: dict[str, int]) -> None:
    facade = facades()
    with pytest.raises(ValueError, match=str(*named)):
        facade.producer.send("t", b"v", **named)


def test_send_when_there_is_no_timestamp_then_it_is_the_time_of_the_call(facades: Facades) -> None:
    clock = ManualClock(timestamp_ms=1_234_567_890_123)
    facade = facades(clock, **{"linger.ms": 0})
    assert facade.producer.send("t", b"v").result(GIVE_UP_S).timestamp == 1_234_567_890_123
    assert facade.producer.send("t", b"v", timestamp=0).result(GIVE_UP_S).timestamp == 0
    for serializers in ((None, None), (None, passing)):
        rows = facades(clock, serializers=serializers, **{"linger.ms": 0}).producer.send_batch(
            "t", [b"v"] * 2, timestamps=[0, None])
        assert list(rows.result(GIVE_UP_S).timestamps) == [0, 1_234_567_890_123]
        refusing = facades(clock, serializers=serializers, **{"linger.ms": 0})
        refusing.broker.error_code = 17
        failed = refusing.producer.send_batch("t", [b"v"] * 2, timestamps=[0, None]).result(GIVE_UP_S)
        assert (len(failed.errors), list(failed.timestamps)) == (2, [0, 1_234_567_890_123])


def test_send_when_a_serializer_is_asked_then_it_gets_topic_headers_and_data(facades: Facades) -> None:
    asked: list[Any] = []

    def writing(topic: str, headers: Any, data: Any) -> bytes:
        asked.append((topic, headers, data))
        return repr(data).encode()

    facade = facades(serializers=(writing, writing))
    facade.producer.send("t", 5, key=6, partition=0, headers=[("h", b"1")]).result(GIVE_UP_S)
    facade.producer.send_batch("t", [7], keys=[8], partitions=[0], headers=[[("h", b"2")]]).result(GIVE_UP_S)
    assert [(topic, tuple(map(tuple, headers)), data) for topic, headers, data in asked] == [
        ("t", (("h", b"1"),), 6), ("t", (("h", b"1"),), 5), ("t", (("h", b"2"),), 8), ("t", (("h", b"2"),), 7)]
    assert [(record.key, record.value) for record in facade.broker.records] == [(b"6", b"5"), (b"8", b"7")]


def test_send_when_a_serializer_replaces_a_header_then_the_record_has_the_new_one(facades: Facades) -> None:
    """As one that keeps the id of a schema there does: there are as many as before."""
    def writing(_topic: str, headers: Any, data: Any) -> bytes:
        headers[0] = ("schema", b"new")
        return bytes(data)

    facade = facades(serializers=(None, writing))
    facade.producer.send("t", b"5", partition=0, headers=[("schema", b"old"), ("h", b"1")]).result(GIVE_UP_S)
    facade.producer.send_batch("t", [b"7"], partitions=[0], headers=[[("schema", b"old")]]).result(GIVE_UP_S)
    assert [record.headers for record in facade.broker.records] == [
        (("schema", b"new"), ("h", b"1")), (("schema", b"new"),)]


def test_send_when_a_record_has_all_parts_then_they_come_to_the_broker_on_every_road(facades: Facades) -> None:
    headers = [("h", b"1"), ("n", None), ("h", b"")]
    facade = facades()
    facade.producer.send("t", b"v", key=b"k", partition=0, timestamp=5, headers=headers).result(GIVE_UP_S)
    facade.producer.send_batch("t", [b"v"] * 3, keys=[b"k"] * 3, partitions=[0] * 3, timestamps=[5] * 3,
                               headers=[headers, None, headers[:1]]).result(GIVE_UP_S)
    rows = facades(serializers=(None, passing))
    rows.producer.send_batch("t", [b"v"], keys=[b"k"], partitions=[0], timestamps=[5], headers=[headers]).result(
        GIVE_UP_S)
    records = facade.broker.records + rows.broker.records
    assert [(record.key, record.value, record.timestamp) for record in records] == [(b"k", b"v", 5)] * 5
    assert [[tuple(header) for header in record.headers] for record in records] == [
        headers, headers, [], headers[:1], headers]


@pytest.mark.parametrize(("value", "words"), [
    ("text", "value.serializer .for example 'string'."), ({"a": 1}, "value.serializer .for example 'json'."),
])
def test_send_when_there_is_no_serializer_and_the_value_is_not_bytes_then_it_says_what_to_set(
        facades: Facades, value: Any, words: str) -> None:
    with pytest.raises(SerializationError, match=f"The value is a {type(value).__name__}.*{words}"):
        facades().producer.send("t", value)


@pytest.mark.parametrize("value", [b"v", bytearray(b"v"), memoryview(b"v")])
def test_send_when_the_value_is_like_bytes_then_those_are_sent(facades: Facades, value: Any) -> None:
    facade = facades()
    facade.producer.send("t", value, partition=0).result(GIVE_UP_S)
    assert facade.broker.sent == [("t", 0, [b"v"])]


class Other(bytes):
    """Bytes whose length, and bytes, are others."""

    def __len__(self) -> int:
        return 1

    def __bytes__(self) -> bytes:
        return Other(b"other")


@pytest.mark.parametrize("serializers", [(None, None), (None, lambda _topic, _headers, data: data)],
                         ids=["none", "own"])
def test_send_when_key_and_value_are_of_subclasses_of_bytes_then_their_bytes_are_sent(
        facades: Facades, serializers: Any) -> None:
    """`bytes()` asked the subclass, which may give another: the record was one that no broker reads."""
    facade = facades(serializers=serializers)
    headers = [("h", Other(b"header"))]
    future = facade.producer.send("t", Other(b"value"), key=Other(b"key"), partition=0, headers=headers)
    metadata = future.result(GIVE_UP_S)
    assert (metadata.serialized_key_size, metadata.serialized_value_size) == (3, 5)
    facade.producer.send_batch("t", [Other(b"value")], keys=[Other(b"key")], partitions=[0]).result(GIVE_UP_S)
    assert facade.broker.sent == [("t", 0, [b"value"])] * 2


# Interceptors --------------------------------------------------------------------------------------------------------

class Seeing(ProducerInterceptor):
    """Writes down what it is told, among the events of the application."""

    def __init__(self, events: list[Any]) -> None:
        self.events = events

    def on_acknowledgement(self, metadata: Any, exception: BaseException | None) -> None:
        place = None if metadata is None else (metadata.topic, metadata.partition, metadata.offset)
        self.events.append(("interceptor", place, type(exception)))


def calling_back(events: list[Any]) -> Callable[[Any, Any], None]:
    def on_completion(metadata: Any, exception: BaseException | None) -> None:
        place = None if metadata is None else (metadata.topic, metadata.partition, metadata.offset)
        events.append(("callback", place, type(exception)))
    return on_completion


NOTHING = type(None)


def test_interceptor_when_a_record_is_stored_then_it_is_told_before_the_callback(facades: Facades) -> None:
    events: list[Any] = []
    facade = facades(**{"interceptor.classes": [Seeing(events)]})
    facade.producer.send("t", b"v", partition=1, on_completion=calling_back(events)).result(GIVE_UP_S)
    facade.producer.flush()  # who asks when it has just been decided does not wait for those who are told
    assert events == [("interceptor", ("t", 1, 100), NOTHING), ("callback", ("t", 1, 100), NOTHING)]


def test_interceptor_when_the_broker_refuses_a_record_then_it_is_told_before_the_callback(facades: Facades) -> None:
    events: list[Any] = []
    facade = facades(**{"interceptor.classes": [Seeing(events)]})
    facade.broker.error_code = MESSAGE_TOO_LARGE
    future = facade.producer.send("t", b"v", partition=1, on_completion=calling_back(events))
    assert type(future.exception(GIVE_UP_S)) is RecordTooLargeError
    facade.producer.flush()
    assert events == [("interceptor", ("t", 1, -1), RecordTooLargeError), ("callback", None, RecordTooLargeError)]


def test_interceptor_when_the_topic_stays_unknown_then_it_is_told_before_the_callback(facades: Facades) -> None:
    events: list[Any] = []
    facade, _ = in_manual_time(facades, **{"interceptor.classes": [Seeing(events)]})
    facade.producer.send("other", b"v", on_completion=calling_back(events))
    assert events == []
    pass_time(facade, 1000)
    assert events == [("interceptor", ("other", -1, -1), KafkaTimeoutError), ("callback", None, KafkaTimeoutError)]


def test_interceptor_when_send_raises_then_it_is_told_and_the_callback_is_not_called(facades: Facades) -> None:
    events: list[Any] = []
    facade = facades(**{"interceptor.classes": [Seeing(events)], "max.request.size": 5000})
    for value, error_type in ((b"v" * 6000, RecordTooLargeError), ("text", SerializationError)):
        with pytest.raises(error_type):
            facade.producer.send("t", value, partition=1, on_completion=calling_back(events))
        assert events == [("interceptor", ("t", 1, -1), error_type)]
        events.clear()


def test_interceptor_when_rows_are_sent_then_it_is_told_of_each_before_the_future_is_done(facades: Facades) -> None:
    events: list[Any] = []
    facade = facades(**{"interceptor.classes": [Seeing(events)]})
    facade.know()
    facade.broker.holds = True
    future = facade.producer.send_batch("t", [b"a", b"b"], partitions=[0, 0])
    future.add_done_callback(lambda _: events.append("done"))
    facade.producer.send("t", b"v", partition=1)
    facade.broker.holds = False
    facade.producer.flush(GIVE_UP_S)
    assert [event for event in events if event == "done" or event[1][1] == 0] == [
        ("interceptor", ("t", 0, 100), NOTHING), ("interceptor", ("t", 0, 101), NOTHING), "done"]


def test_interceptor_when_a_row_cannot_be_sent_then_it_is_told_of_that_and_of_the_rows_before(facades: Facades) -> None:
    events: list[Any] = []
    facade = facades(**{"interceptor.classes": [Seeing(events)]})
    with pytest.raises(SerializationError):
        facade.producer.send_batch("t", [b"a", "text", b"c"], partitions=[0, 1, 0])
    assert events == [("interceptor", ("t", partition, -1), SerializationError) for partition in (0, 1)]


def test_interceptor_when_rows_find_no_memory_then_it_is_told_of_each(facades: Facades) -> None:
    events: list[Any] = []
    facade, waits = in_manual_time(facades, **FULL, **{"interceptor.classes": [Seeing(events)]})
    fill_memory(facade)
    with waits:
        future = facade.producer.send_batch("t", [b"a", b"b"], partitions=[1, 1])
    assert len(future.result(0).errors) == 2
    assert events == [("interceptor", ("t", 1, -1), BufferExhaustedError)] * 2


def test_interceptor_when_the_partitioner_fails_for_a_row_then_it_is_told_of_an_unknown_partition(
        facades: Facades) -> None:
    def choose(*_arguments: object) -> int:
        raise LookupError("nowhere")

    events: list[Any] = []
    facade = facades(**{"interceptor.classes": [Seeing(events)], "partitioner.class": choose})
    facade.know()
    metadata = facade.producer.send_batch("t", [b"a", b"b"]).result(GIVE_UP_S)
    assert {row: type(error) for row, error in metadata.errors.items()} == {0: PartitionerError, 1: PartitionerError}
    assert {type(error.__cause__) for error in metadata.errors.values()} == {LookupError}
    assert events == [("interceptor", ("t", -1, -1), PartitionerError)] * 2


def test_interceptor_when_it_changes_the_record_then_that_is_sent(facades: Facades) -> None:
    class Moving(ProducerInterceptor):
        def on_send(self, record: ProducerRecord) -> ProducerRecord:
            return ProducerRecord("other", b"changed", partition=0)

    facade = facades(**{"interceptor.classes": [Moving()]})
    facade.broker.topics["other"] = 1
    facade.producer.send("t", b"v", partition=1).result(GIVE_UP_S)
    facade.producer.send_batch("t", [b"v"]).result(GIVE_UP_S)
    assert facade.broker.sent == [("other", 0, [b"changed"])] * 2


# What wiring hands on ------------------------------------------------------------------------------------------------

@pytest.mark.parametrize(("codec", "fast", "small"), [("gzip", 1, 9), ("zstd", -5, 19), ("lz4", 9, 12)])
def test_compression_level_when_set_then_the_bytes_on_the_wire_are_fewer(
        facades: Facades, codec: str, fast: int, small: int) -> None:
    text = b" ".join(b"%d bottles of %d" % (number * number % 977, number % 31) for number in range(4000))
    sizes = {}
    for level in (None, fast, small):
        props = {} if level is None else {f"compression.{codec}.level": level}
        facade = facades(**{"compression.type": codec, **props})
        facade.producer.send("t", text, partition=0).result(GIVE_UP_S)
        sizes[level] = facade.broker.payload_sizes[0]
    assert sizes[small] < sizes[fast] < len(text)
    assert sizes[small] <= sizes[None] <= sizes[fast]


# What is the application's ------------------------------------------------------------------------------------------

@pytest.mark.parametrize(("encoding", "words"), [("utf-9", "unknown encoding: utf-9"), ("\0", "null"), (None, "str")])
def test_send_when_the_serializers_encoding_is_none_then_send_says_so(
        facades: Facades, encoding: Any, words: str) -> None:
    """The constructor looked it up and raised LookupError; nobody closed the interceptors that it had configured."""
    facade = facades(serializers=(None, StringSerializer(encoding)))
    facade.know()
    with pytest.raises(SerializationError, match=words):
        facade.producer.send("t", "text", partition=0)


def test_send_when_a_signals_handler_sends_in_the_middle_of_a_switch_then_it_does_not_wait_for_itself(
        facades: Facades) -> None:
    """The sticky partition's lock was one that its owner cannot take again: the main thread stood still for ever."""
    facade = facades(**{"partitioner.class": "uniform_sticky", "batch.size": 100})
    facade.know()
    facade.producer.send("t", b"v").result(GIVE_UP_S)
    partitioner = facade.producer._runtime.record_sender.partitioning.partitioner
    sent: list[Any] = []

    def handle() -> None:
        with partitioner._of_topic("t")._lock:  # type: ignore[attr-defined]  # as if it came in the middle
            sent.extend(facade.producer.send("t", b"v" * 60) for _ in range(10))

    thread = threading.Thread(target=handle, daemon=True)
    thread.start()
    thread.join(GIVE_UP_S)
    assert len(sent) == 10
    for future in sent:
        future.result(GIVE_UP_S)
