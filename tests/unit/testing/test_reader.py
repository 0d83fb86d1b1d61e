"""What read_topic() promises of what it yields: batches whose bytes are as they were stored, up to the end at the call.

The brokers' answers are the test's; that the requests are Kafka's is shown by tests/embedded/test_read_topic.py.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from pyproducer.client.blocking_client import Answer
from pyproducer.common.errors import ApiError, CorruptRecordError, KafkaTimeoutError
from pyproducer.protocol.apis import ApiKeys
from pyproducer.protocol.types import ZERO_UUID
from pyproducer.record.batch_reader import read_batches
from pyproducer.record.batch_writer import build_batch, build_control_batch
from pyproducer.record.control import ControlRecordType
from pyproducer.testing import read_topic, reader
from tests.support.clock import ManualClock

FETCH_VERSION = 12
ANSWER_MS = 10  # so long an answer takes, by the clock that the reader reads
MOST_REQUESTS = 1000  # who asks more often would ask for ever


class Logs:
    """Partitions of a topic, and a BlockingClient that answers from them.

    Attributes:
        batches: By partition; tests add, damage and cut them.
        asked: The requests that came, in order; of a Fetch with its partition and offset.
        before: Called before each answer, with the API.
        batches_in_an_answer: Of one Fetch, at most.
        is_closed: Whether the reader has closed its connections.
    """

    def __init__(self, partition_count: int = 1) -> None:
        self.batches: list[list[bytearray]] = [[] for _ in range(partition_count)]
        self.start_offsets = [0] * partition_count
        self.asked: list[tuple[Any, ...]] = []
        self.clock = ManualClock()
        self.before: Callable[[ApiKeys], None] = lambda _api: None
        self.batches_in_an_answer = 100
        self.is_closed = False
        self.aborted: list[dict[str, int]] = []

    def end_offset(self, partition: int) -> int:
        batches = self.batches[partition]
        return next(read_batches(batches[-1])).last_offset + 1 if batches else self.start_offsets[partition]

    def append(self, partition: int, *values: bytes, compression: str = "none", **fields: Any) -> bytearray:
        records = [(1000, None, value, ()) for value in values]
        return self._store(partition, build_batch(records, compression=compression, partition_leader_epoch=0,
                                                  base_offset=self.end_offset(partition), **fields))

    def append_control(self, partition: int, control_type: ControlRecordType = ControlRecordType.COMMIT,
                       producer_id: int = 1) -> bytearray:
        return self._store(partition, build_control_batch(
            control_type, producer_id=producer_id, producer_epoch=0, coordinator_epoch=0, timestamp=1000,
            base_offset=self.end_offset(partition), partition_leader_epoch=0))

    def append_transaction(self, *values: bytes, producer_id: int, is_committed: bool) -> None:
        """Append one batch of a transaction, and how it ended."""
        if not is_committed:
            self.aborted.append({"producer_id": producer_id, "first_offset": self.end_offset(0)})
        self.append(0, *values, producer_id=producer_id, producer_epoch=0, base_sequence=0, is_transactional=True)
        self.append_control(0, ControlRecordType(int(is_committed)), producer_id)

    def _store(self, partition: int, batch: bytes) -> bytearray:
        self.batches[partition].append(bytearray(batch))
        return self.batches[partition][-1]

    # What the reader uses of a BlockingClient.

    def __enter__(self) -> Logs:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.is_closed = True

    def connect_to_any(self, _addresses: object) -> str:
        return "any"

    def connect(self, _host: str, _port: int) -> str:
        return "leader"

    def ask(self, _connection: str, api_key: ApiKeys, build: Callable[[int], Mapping[str, Any]], *,
            max_version: int | None = None) -> Answer:
        assert len(self.asked) < MOST_REQUESTS, "it asks for ever"
        self.clock.advance(ANSWER_MS)
        self.before(api_key)
        body = build(FETCH_VERSION)
        if api_key is ApiKeys.METADATA:
            self.asked.append((api_key,))
            return Answer(FETCH_VERSION, self._metadata(body["topics"][0]["name"]))  # type: ignore[arg-type]
        (topic,) = body["topics"]
        (wanted,) = topic["partitions"]
        if api_key is ApiKeys.LIST_OFFSETS:
            partition = wanted["partition_index"]
            offset = self.start_offsets[partition] if wanted["timestamp"] == -2 else self.end_offset(partition)
            self.asked.append((api_key, partition, wanted["timestamp"]))
            answer: Any = {"topics": [{"partitions": [{"error_code": 0, "offset": offset}]}]}
        else:
            assert api_key is ApiKeys.FETCH
            self.asked.append((api_key, wanted["partition"], wanted["fetch_offset"]))
            answer = self._fetched(wanted["partition"], wanted["fetch_offset"])
        return Answer(FETCH_VERSION, answer)

    def _metadata(self, topic: str) -> Any:
        return {"brokers": [{"node_id": 1, "host": "broker", "port": 9092}], "topics": [{
            "error_code": 0, "name": topic, "topic_id": ZERO_UUID, "partitions": [
                {"error_code": 0, "partition_index": index, "leader_id": 1} for index in range(len(self.batches))]}]}

    def _fetched(self, partition: int, offset: int) -> Any:
        error_code = 0 if self.start_offsets[partition] <= offset <= self.end_offset(partition) else 1
        found = [batch for batch in self.batches[partition] if next(read_batches(batch)).last_offset >= offset]
        return {"error_code": 0, "throttle_time_ms": 0, "responses": [{"partitions": [
            {"error_code": error_code, "high_watermark": -1, "last_stable_offset": -1,
             "records": b"".join(found[:self.batches_in_an_answer]),
             "aborted_transactions": self._aborted_of(found[:self.batches_in_an_answer])}]}]}

    def _aborted_of(self, batches: list[bytearray]) -> list[dict[str, int]] | None:
        """What a broker tells of a span: all transactions that reach into it."""
        if not self.aborted or not batches:
            return None
        last_offset = next(read_batches(batches[-1])).last_offset
        return [each for each in reversed(self.aborted) if each["first_offset"] <= last_offset]

    def fetches(self) -> list[tuple[int, int]]:
        """Partition and offset of each Fetch."""
        return [(partition, offset) for api, partition, offset in self.asked[1:] if api is ApiKeys.FETCH]


@pytest.fixture
def logs(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Logs]:
    """Make the topic that read_topic() reads."""
    def make(partition_count: int = 1) -> Logs:
        made = Logs(partition_count)
        monkeypatch.setattr(reader.BlockingClient, "of", lambda *_arguments, **_settings: made)
        monkeypatch.setattr(reader, "SystemClock", lambda: made.clock)
        return made
    return make


def read(**how: Any) -> Any:
    return read_topic("broker:9092", "t", **how)


def values(**how: Any) -> list[bytes | None]:
    return [record.value for record in read(**how)]


def test_settings_when_they_have_librdkafkas_names_then_the_argument_names_the_brokers(
        logs: Callable[..., Logs]) -> None:
    logs().append(0, b"a")
    assert values(settings={"metadata.broker.list": "other:1", "queue.buffering.max.ms": 5}) == [b"a"]


# ---- the checksum

@pytest.mark.parametrize("compression", ["none", "gzip"])
@pytest.mark.parametrize("position", [-1, -5, 21, 23, 40, 57])
def test_read_when_a_byte_of_a_batch_is_not_as_it_was_stored_then_corrupt_and_nothing_of_that_batch_is_given(
        logs: Callable[..., Logs], compression: str, position: int) -> None:
    """Who checks what a producer wrote took a damaged log for a good one: other values came, and no error."""
    made = logs()
    made.append(0, b"first")
    damaged = made.append(0, b"second" * 10, b"third" * 10, compression=compression)
    made.append(0, b"fourth")
    damaged[position] ^= 0x40
    records = read()
    assert next(records).value == b"first"
    with pytest.raises(CorruptRecordError, match=r"Record is corrupt \(stored crc = \d+, computed crc = \d+\), in the "
                                                 r"batch of offset 1 "):
        next(records)
    assert list(records) == []  # it is over


def test_read_when_the_checksum_itself_is_damaged_then_corrupt(logs: Callable[..., Logs]) -> None:
    """The records are good, but nobody can know: a batch that says otherwise was changed after it was written."""
    made = logs()
    made.append(0, b"v")[17] ^= 1
    with pytest.raises(CorruptRecordError):
        values()


def test_read_when_a_control_batch_is_damaged_then_corrupt(logs: Callable[..., Logs]) -> None:
    """It gives no records, but it says whether the others count."""
    made = logs()
    made.append(0, b"v")
    made.append_control(0)[-1] ^= 1
    with pytest.raises(CorruptRecordError, match="batch of offset 1"):
        values()


def test_read_when_the_base_offset_was_assigned_by_the_broker_then_the_checksum_fits_all_the_same(
        logs: Callable[..., Logs]) -> None:
    """Offset and leader epoch are the broker's, written after the checksum was."""
    made = logs()
    for number in range(3):
        made.append(0, b"%d" % number, b"x")
    made.append_control(0)
    assert [(record.offset, record.value) for record in read()] == [
        (0, b"0"), (1, b"x"), (2, b"1"), (3, b"x"), (4, b"2"), (5, b"x")]


# ---- the end

def appending(made: Logs, when: ApiKeys, *partitions: int) -> None:
    """From now on, records come before each answer to such a request."""
    def before(api_key: ApiKeys) -> None:
        if api_key is when:
            for partition in partitions:
                made.append(partition, b"late")
    made.before = before


@pytest.mark.parametrize("batches_in_an_answer", [1, 2, 100])
def test_read_when_records_come_before_the_first_fetch_is_answered_then_they_are_not_given(
        logs: Callable[..., Logs], batches_in_an_answer: int) -> None:
    """A test that counted its records found some that were sent later: a Fetch brings all that there is by then."""
    made = logs()
    made.batches_in_an_answer = batches_in_an_answer
    for number in range(4):
        made.append(0, b"%d" % number)
    appending(made, ApiKeys.FETCH, 0)
    assert values() == [b"0", b"1", b"2", b"3"]


def test_read_when_records_come_between_the_call_and_the_first_record_that_is_taken_then_they_are_not_given(
        logs: Callable[..., Logs]) -> None:
    """The end was asked for when the first record was taken: who prepared two readings and sent in between read both
    times the same."""
    made = logs(2)
    made.append(0, b"a")
    records = read()
    made.append(0, b"late")
    made.append(1, b"late")
    assert [record.value for record in records] == [b"a"]
    assert [api for api, *_ in made.asked[1:5]] == [ApiKeys.LIST_OFFSETS] * 4
    assert made.fetches() == [(0, 0)]


def test_read_when_no_record_is_taken_then_the_connections_are_closed_all_the_same(
        logs: Callable[..., Logs]) -> None:
    """They are opened by the call, so there is something to close before the first record."""
    made = logs()
    made.append(0, b"a")
    records = read()
    assert not made.is_closed
    records.close()
    assert made.is_closed
    assert list(records) == []
    lost = logs()
    read()  # nobody holds it
    gc.collect()
    assert lost.is_closed


@pytest.mark.parametrize("batches_in_an_answer", [1, 2, 100])
def test_read_when_a_producer_goes_on_writing_then_the_reading_ends(
        logs: Callable[..., Logs], batches_in_an_answer: int) -> None:
    """A reader that runs after a busy producer never came to an end; here each answer would bring one record more."""
    made = logs(2)
    made.batches_in_an_answer = batches_in_an_answer
    for partition in range(2):
        made.append(partition, b"a%d" % partition, b"b%d" % partition)
        made.append(partition, b"c%d" % partition)
    appending(made, ApiKeys.FETCH, 0, 1)
    assert values() == [b"a0", b"b0", b"c0", b"a1", b"b1", b"c1"]
    assert len(made.fetches()) == 2 * -(-2 // batches_in_an_answer)


def test_read_when_a_later_partition_grows_while_an_earlier_one_is_read_then_it_ends_where_it_ended_before(
        logs: Callable[..., Logs]) -> None:
    """The end of each partition is that of the call, and not of when it has its turn."""
    made = logs(2)
    made.append(0, b"a")
    made.append(1, b"b")
    records = read()
    first = next(records)
    made.append(0, b"late")
    made.append(1, b"late")
    assert [record.value for record in (first, *records)] == [b"a", b"b"]
    assert [api for api, *_ in made.asked[1:5]] == [ApiKeys.LIST_OFFSETS] * 4


def test_read_when_a_partition_was_empty_at_the_call_then_nothing_of_it_is_asked_for(
        logs: Callable[..., Logs]) -> None:
    """An empty topic that a producer then began to fill gave records, or made the reader wait for them."""
    made = logs()
    made.start_offsets[0] = 7
    appending(made, ApiKeys.FETCH, 0)
    assert values() == []
    assert made.fetches() == []


def test_read_when_a_compacted_batch_reaches_from_before_the_end_to_behind_it_then_only_what_is_before_is_given(
        logs: Callable[..., Logs]) -> None:
    """A log that was cut and written anew between two answers has batches with other borders."""
    made = logs()
    made.append(0, b"0", b"1")

    def before(api_key: ApiKeys) -> None:
        if api_key is ApiKeys.FETCH:
            made.batches[0].clear()
            made.append(0, b"0", b"1", b"late")

    made.before = before
    assert values() == [b"0", b"1"]


def test_read_when_the_first_batch_begins_before_the_start_of_the_log_then_deleted_records_are_not_given(
        logs: Callable[..., Logs]) -> None:
    """DeleteRecords in the middle of a batch: brokers send it whole, and who reads skips what is deleted."""
    made = logs()
    made.append(0, b"0", b"1", b"2")
    made.append(0, b"3")
    made.start_offsets[0] = 2
    assert values() == [b"2", b"3"]


def test_read_when_control_records_are_last_then_the_reading_ends_behind_them(logs: Callable[..., Logs]) -> None:
    """It asked again and again for an offset that held no record for it, until its timeout."""
    made = logs()
    made.append(0, b"v")
    made.append_control(0)
    assert values() == [b"v"]
    assert made.fetches() == [(0, 0)]


# ---- no progress, errors

def test_read_when_a_partition_gives_nothing_although_it_should_then_it_is_given_up_after_the_timeout(
        logs: Callable[..., Logs]) -> None:
    """A leader that lost its log's end: the reader asked for ever."""
    made = logs()
    made.append(0, b"v")
    made.batches_in_an_answer = 0
    with pytest.raises(KafkaTimeoutError, match=r"t-0 gave nothing from offset 0 for 2\.0 s, although it ends at 1"):
        values(timeout=2)
    assert len(made.fetches()) == 2000 / ANSWER_MS + 1


def test_read_when_the_records_are_deleted_while_they_are_read_then_the_brokers_error_is_raised(
        logs: Callable[..., Logs]) -> None:
    """A gap in what is read is no end."""
    made = logs()
    made.append(0, b"0")
    made.append(0, b"1")
    made.batches_in_an_answer = 1
    records = read()
    assert next(records).value == b"0"
    made.start_offsets[0] = 2
    with pytest.raises(ApiError, match="Fetch of t-0 at offset 1"):
        next(records)


# Committed records ---------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("batches_in_an_answer", [100, 2, 1])
def test_read_committed_when_transactions_are_aborted_then_their_records_alone_are_left_out(
        logs: Callable[..., Logs], batches_in_an_answer: int) -> None:
    made = logs()
    made.batches_in_an_answer = batches_in_an_answer
    made.append(0, b"plain 1")
    made.append_transaction(b"committed 1", producer_id=1, is_committed=True)
    made.append_transaction(b"aborted 1", b"aborted 2", producer_id=1, is_committed=False)
    made.append_transaction(b"committed 2", producer_id=1, is_committed=True)
    made.append_transaction(b"aborted 3", producer_id=2, is_committed=False)
    made.append(0, b"plain 2")
    if batches_in_an_answer == 1:  # a broker tells only of those that have not ended before
        made._aborted_of = lambda batches: [  # type: ignore[method-assign]
            each for each in made.aborted
            if each["first_offset"] <= next(read_batches(batches[0])).base_offset <= each["first_offset"] + 2 - (
                each["producer_id"] == 2)]
    assert values(isolation_level="read_committed") == [b"plain 1", b"committed 1", b"committed 2", b"plain 2"]


def test_read_committed_when_two_transactions_are_open_at_a_time_then_each_is_judged_by_itself(
        logs: Callable[..., Logs]) -> None:
    made = logs()
    made.aborted.append({"producer_id": 1, "first_offset": 0})
    for value, producer_id in ((b"a1", 1), (b"c1", 2), (b"a2", 1), (b"c2", 2)):
        made.append(0, value, producer_id=producer_id, producer_epoch=0, base_sequence=0, is_transactional=True)
    made.append_control(0, ControlRecordType.COMMIT, 2)
    made.append_control(0, ControlRecordType.ABORT, 1)
    made.append(0, b"c3", producer_id=1, producer_epoch=0, base_sequence=0, is_transactional=True)
    assert values(isolation_level="read_committed") == [b"c1", b"c2", b"c3"]


def test_read_committed_when_the_producer_also_wrote_without_a_transaction_then_those_are_given(
        logs: Callable[..., Logs]) -> None:
    made = logs()
    made.aborted.append({"producer_id": 1, "first_offset": 0})
    made.append(0, b"aborted", producer_id=1, producer_epoch=0, base_sequence=0, is_transactional=True)
    made.append(0, b"plain", producer_id=1, producer_epoch=0, base_sequence=1)
    assert values(isolation_level="read_committed") == [b"plain"]


def test_isolation_level_when_there_is_no_such_one_then_said_so() -> None:
    with pytest.raises(ValueError, match="isolation_level 'committed' is none of read_uncommitted, read_committed"):
        read(isolation_level="committed")
