"""What fresh eyes found against the numbers of the idempotent producer: late frames, long silences, torn turns."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from pyproducer.accumulator.partition_sequence import PartitionSequence, SequenceState
from pyproducer.client.metadata import MetadataRequest
from pyproducer.common.cluster import TopicPartition
from pyproducer.common.error_codes import ErrorCode
from tests.simulation.model_batch import ProducedBatch
from tests.simulation.model_log import KAFKA_4_1, ModelPartition
from tests.support.mock_client import MockClient
from tests.support.serialized import append
from tests.unit.sender.stepped_producer import SteppedProducer, metadata_response

DAY_MS = 86_400_000


def sequence_of(producer: SteppedProducer, partition: int = 0) -> PartitionSequence:
    sequence = producer.accumulator._partitions["t", partition].sequence
    assert sequence is not None
    return sequence


class Broker:
    """One partition by Kafka 4.1's rules, which also takes frames that come late."""

    def __init__(self, most_bytes: int = 10**6) -> None:
        self.model = ModelPartition("t", uuid.UUID(int=77), 0, 1)
        self.most_bytes = most_bytes

    def take(self, frame: bytes) -> int:
        return self.model.append(ProducedBatch(frame, 12), node_id=1, now_ms=0, max_message_bytes=self.most_bytes,
                                 idempotence=KAFKA_4_1).error_code

    def values(self) -> list[bytes | None]:
        return [value[:1] for batch in self.model.batches for value in batch.values if value is not None]


def frames(client: MockClient) -> list[bytes]:
    return [bytes(part["records"]) for request in client.in_flight
            for topic in client.body_of(request)["topic_data"] for part in topic["partition_data"]]


def started(broker: Broker, **how: Any) -> SteppedProducer:
    """A producer whose first record is stored and acknowledged."""
    producer = SteppedProducer(**how)
    producer.append_told("s")
    producer.turn()
    producer.client.answer({"throttle_time_ms": 0, "error_code": 0, "producer_id": 7, "producer_epoch": 0})
    producer.turn()
    assert broker.take(frames(producer.client)[0]) == 0
    producer.answer_all(base_offset=0)
    return producer


def in_doubt_behind_one_in_doubt(broker: Broker) -> tuple[SteppedProducer, list[bytes]]:
    """Records a and b wait in a broker's socket; a expired, and b was refused by its number.

    A new epoch was begun for b, and nothing of it was sent.
    """
    producer = started(broker, batch_size=1, delivery_timeout=2000)
    producer.append_told("a")
    producer.turn()
    producer.clock.advance(450)
    producer.append_told("b", value=b"b" * 40)
    producer.turn()
    late = frames(producer.client)
    producer.lose(timed_out=True)
    producer.lose(timed_out=True)
    for _ in range(100):  # the leader has too few replicas for a, until it expires
        producer.turn(advance=100)
        if producer.told_names()[-1] == "a":
            break
        if producer.client.in_flight:
            producer.answer_all(code=ErrorCode.NOT_ENOUGH_REPLICAS)
    assert producer.error_of("a").outcome == "unknown"
    for _ in range(100):
        if producer.client.in_flight:
            break
        producer.turn(advance=10)
    assert broker.take(frames(producer.client)[0]) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    producer.answer_all(code=ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    return producer, late


def test_numbers_when_45_behind_a_batch_that_may_still_come_then_the_batch_is_not_stored_twice() -> None:
    """45 proves that b is not there now. It may come: a and b wait in a broker's socket, and a was not decided.

    `doubt_left` looks at what is behind b only. Before it a failed as unknown, and its number is free as long as no new
    epoch was heard of. So a's frame is stored, then b's, then b again in the new epoch. (Without an unanswered attempt
    of what stands before it, 45 is for ever.)
    """
    broker = Broker()
    producer, late = in_doubt_behind_one_in_doubt(broker)
    for _ in range(20):
        producer.turn(advance=100)
        if producer.client.in_flight:
            break
    for frame in late:  # while b's new frame is on its way on the new connection
        broker.take(frame)
    for frame in frames(producer.client):
        broker.take(frame)
    assert broker.values().count(b"b") <= 1, f"the log: {broker.values()}"


def test_numbers_when_45_behind_a_batch_that_may_still_come_then_not_sent_is_not_said() -> None:
    """The same, and b expires while it waits for its new epoch: it is told not_sent, and its frame is stored later."""
    broker = Broker()
    producer, late = in_doubt_behind_one_in_doubt(broker)
    producer.client.is_ready_now = False
    for _ in range(30):
        producer.turn(advance=100)
    for frame in late:
        broker.take(frame)
    assert b"b" in broker.values()
    assert producer.error_of("b").outcome == "unknown", producer.error_of("b")


@pytest.mark.parametrize("how", ["the machine slept", "delivery.timeout.ms is two weeks"])
def test_numbers_when_a_batch_in_doubt_outlives_the_brokers_memory_then_it_is_not_sent_again(how: str) -> None:
    """A batch is stored, its answer lost, and the next attempt comes two days later: stored a second time.

    By then each broker has forgotten the producer id (producer.id.expiration.ms, a day), and takes any number. The
    deadlines of records move by a freeze, so nothing expires. can_send lets what may be in the log go by its number
    however long nobody has heard of the broker; Connect, for one, sets delivery.timeout.ms to 2**31-1.
    """
    broker = Broker()
    producer = started(broker, delivery_timeout=14 * DAY_MS if "weeks" in how else 2000)
    producer.append_told("a")
    producer.turn()
    broker.take(frames(producer.client)[0])
    if how == "the machine slept":
        producer.turn()
        producer.clock.suspend(2 * DAY_MS)
        producer.turn(advance=1000)
    else:
        producer.lose()
        producer.client.is_ready_now = False
        for _ in range(48):
            producer.clock.advance(DAY_MS // 24)
            producer.turn()
        producer.client.is_ready_now = True
    broker.model.forget(7)
    for _ in range(5):
        producer.turn(advance=200)
        for frame in frames(producer.client):
            broker.take(frame)
    assert broker.values().count(b"a") <= 1, f"the log: {broker.values()}"


@pytest.mark.parametrize("code", [ErrorCode.TOPIC_AUTHORIZATION_FAILED])
def test_numbers_when_a_turn_ends_between_the_hole_and_the_move_then_the_partition_goes_on(code: ErrorCode) -> None:
    """A turn ends (MemoryError) in on_end, between `_hole = ...` and `_move`; the batch is sent again and stored.

    Nobody takes the hole back: on_recovered leaves `_hole`, and settle is not called where nothing is disturbed. From
    then on a batch that is refused for a moment, and not in doubt, is never sent again (can_send: behind the hole), and
    all behind it waits, until delivery.timeout.ms.
    """
    producer = SteppedProducer(batch_size=1, delivery_timeout=20_000)
    producer.start()
    producer.append_told("a")
    producer.turn()

    def stop(_self: PartitionSequence, _event: object) -> SequenceState:
        raise MemoryError

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(PartitionSequence, "_move", stop)
        with pytest.raises(MemoryError):
            producer.answer_all(code=code)
    producer.sender.recover(producer.clock.now_ms())
    producer.turn(advance=200)
    producer.answer_all(base_offset=1)
    producer.append_told("b")
    producer.turn()
    producer.answer_all(code=ErrorCode.NOT_ENOUGH_REPLICAS)
    for _ in range(20):
        producer.turn(advance=500)
    assert producer.client.in_flight, "b is not sent again"


def test_numbers_when_a_doubt_was_settled_then_it_is_none_a_thousand_million_records_later() -> None:
    """`_last_in_doubt` stays when its partition is whole again (settle resets `_hole` alone).

    When 2**30 records were numbered since, it lies ahead of every batch on the ring, for another 2**30 records: each
    45 of a batch that may be in the log fails it as unknown for batches behind it that there are not.
    """
    producer = SteppedProducer(batch_size=1, delivery_timeout=20_000)
    producer.start()
    producer.append_told("a")
    producer.turn()
    producer.append_told("b")
    producer.turn(advance=10)
    first, second = producer.client.in_flight
    producer.clock.advance(19_995)
    producer.turn()  # a expires on the wire
    assert producer.error_of("a").outcome == "unknown"
    producer.answer_all(code=ErrorCode.NOT_ENOUGH_REPLICAS, request=first)
    producer.answer_all(base_offset=1, request=second)
    producer.turn()
    sequence = sequence_of(producer)  # whole, as the next turn with records will find
    sequence.next_sequence += 1_500_000_000
    sequence.memory.last_acked_sequence += 1_500_000_000
    producer.append_told("c")
    producer.turn()
    producer.lose()
    for _ in range(5):
        producer.turn(advance=200)
        if producer.client.in_flight:
            producer.answer_all(code=ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
            break
    producer.turn(advance=500)
    assert producer.told_names()[-1] != "c", producer.error_of("c")


def test_numbers_when_old_timestamps_are_on_their_way_then_nothing_goes_behind_them() -> None:
    """A batch with timestamps of two days ago is on its way; the next one goes behind it at once.

    The broker may forget the producer as soon as the first is stored (docs/decisions/producer_ids.md, 1): if it refuses
    the second for a moment, the third is its first. `until_ms` is lowered by an acknowledgement only; what was
    numbered since is not looked at, and each acknowledged fresh batch of a mixed stream opens the window of five again.
    """
    producer = SteppedProducer(batch_size=1)
    producer.start()
    for name, age_ms in (("old", 2 * DAY_MS), ("next", 0), ("third", 0)):
        value = name.encode()
        append(producer.accumulator, "t", 0, producer.clock.timestamp_ms() - age_ms, value)
    producer.turn()
    assert producer.sequences_on_wire() == [(0, 1)]


def test_numbers_when_the_log_has_its_own_time_then_its_clock_is_not_compared_with_ours() -> None:
    """LogAppendTime, and the broker's clock is 25 hours behind ours: one batch at a time, for ever.

    `_complete` counts the age of log_append_time_ms by our clock. By the broker's, which alone counts, it is 0.
    """
    producer = SteppedProducer(batch_size=1)
    producer.append()
    producer.turn()
    producer.client.answer({"throttle_time_ms": 0, "error_code": 0, "producer_id": 7, "producer_epoch": 0})
    producer.turn()
    producer.answer_all(base_offset=0, log_append_time_ms=producer.clock.timestamp_ms() - 25 * 3_600_000)
    for _ in range(8):
        producer.append()
    producer.turn()
    assert len(producer.client.in_flight) == 5


def test_numbers_when_the_records_were_deleted_then_unknown_producer_id_proves_nothing() -> None:
    """Brokers before 2.4 forget a producer when all its records are deleted (retention, DeleteRecords), and say 59.

    The batch was stored, its answer lost, then deleted: log_start_offset of the answer lies behind what was
    acknowledged last. `doubt_left` takes 59 for a proof wherever the broker was heard of lately, and the batch is
    stored and read a second time. log_start_offset (Produce 5 and above) would tell; it is not looked at.
    """
    producer = SteppedProducer(batch_size=1, version=7)
    producer.start()
    producer.append_told("a")
    producer.turn()
    producer.lose()
    producer.turn(advance=200)
    producer.answer_all(code=ErrorCode.UNKNOWN_PRODUCER_ID, log_start_offset=2)
    for _ in range(5):
        producer.turn(advance=200)
    assert not producer.client.in_flight, producer.sequences_on_wire()
    assert producer.error_of("a").outcome == "unknown"


def test_numbers_when_a_turn_ends_while_a_split_batch_is_let_go_then_it_does_not_stay_in_the_list() -> None:
    """`finish` moves to DONE first; ended before it takes the batch out, `resume` finds neither SPLIT nor an outcome.

    The batch stays in its partition's list until the producer ends, with its bytes (older than the change).
    """
    producer = SteppedProducer(batch_size=1000, delivery_timeout=20_000)
    producer.start()
    for _ in range(4):
        producer.append()
    producer.turn()

    def stop(*_arguments: object) -> None:
        raise MemoryError

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(producer.pool), "release", stop)
        with pytest.raises(MemoryError):
            producer.answer_all(code=ErrorCode.MESSAGE_TOO_LARGE)
    producer.sender.recover(producer.clock.now_ms())
    for offset in range(1, 20):
        producer.turn(advance=1000)
        while producer.client.in_flight:
            producer.answer_all(base_offset=offset)
    assert not producer.incomplete()
    assert producer.accumulator.batches() == []


def behind_one_that_stepped_aside(broker: Broker, version: int = 13) -> SteppedProducer:
    """Record a was refused for good, b for it, and the answer for c was lost: the topic was deleted meanwhile."""
    producer = started(broker, batch_size=1, version=version)
    for name in "abc":
        producer.append_told(name)
    producer.turn()
    producer.answer_all(code=ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT)
    producer.answer_all(code=ErrorCode.UNKNOWN_TOPIC_ID)
    producer.lose()
    return producer


def tell_topic(producer: SteppedProducer, topic_id: int) -> None:
    """Answer for metadata with this topic of the name."""
    producer.metadata.update(metadata_response(topic_id=uuid.UUID(int=topic_id)), 13, producer.clock.now_ms())


def make_topic_anew(producer: SteppedProducer) -> None:
    """Have each answer for metadata from now on tell of another topic of that name."""
    tell_topic(producer, 78)
    producer.client.on_poll = lambda: tell_topic(producer, 78)


def store_in(broker: Broker, producer: SteppedProducer) -> None:
    for _ in range(20):
        producer.turn(advance=50)
        while producer.client.in_flight:
            found = frames(producer.client)
            if not found:  # a producer id
                producer.client.answer({"throttle_time_ms": 0, "error_code": 0, "producer_id": 8, "producer_epoch": 0})
                continue
            producer.answer_all(code=broker.take(found[0]), base_offset=len(broker.model.batches) - 1)


@pytest.mark.parametrize("is_made_anew", [True, False])
def test_order_when_one_in_doubt_is_behind_one_that_stepped_aside_then_it_does_not_overtake_it_in_a_topic_made_anew(
        is_made_anew: bool) -> None:
    """The new topic knows no number, and takes any as the first: c stood before b."""
    old = Broker()
    producer = behind_one_that_stepped_aside(old)
    broker = Broker() if is_made_anew else old
    if is_made_anew:
        make_topic_anew(producer)
    store_in(broker, producer)
    assert producer.error_of("a").outcome == "rejected"
    if is_made_anew:
        assert broker.values() == [b"b"]
        assert producer.error_of("c").outcome == "unknown"
        assert "that was deleted" in str(producer.error_of("c"))
        assert "overtake" in str(producer.error_of("c"))
    else:
        assert broker.values() == [b"s", b"b", b"c"], "the broker refused c by its number, and that decided it"
    producer.append_told("d")
    store_in(broker, producer)
    assert broker.values()[-1] == b"d"
    assert not producer.incomplete()


@pytest.mark.parametrize("answers", [1, 4])
def test_topic_when_a_broker_lags_behind_and_tells_of_one_before_it_then_the_one_in_doubt_waits_for_other_answers(
        answers: int) -> None:
    """One such answer, and c was told as unknown: nobody had decided that. The next answer named the topic again."""
    broker = Broker()
    producer = behind_one_that_stepped_aside(broker)
    for _ in range(answers):
        tell_topic(producer, 76)
        for _ in range(6):
            producer.turn(advance=20)
        assert producer.told_names() == ["s", "a"]
        assert producer.client.in_flight == []
        assert producer.metadata.time_to_next_update(producer.clock.now_ms()) <= 1000, "it is asked again"
    tell_topic(producer, 77)
    store_in(broker, producer)
    assert broker.values() == [b"s", b"b", b"c"]
    assert producer.told_names() == ["s", "a", "b", "c"]


@pytest.mark.parametrize("news", ["another topic", "a leader"])
def test_topic_when_other_news_come_behind_the_answer_of_a_broker_that_lags_then_it_counts_once(news: str) -> None:
    """Each made a new snapshot, with what that broker had told in it: after four more, c was told as unknown."""
    broker = Broker()
    producer = behind_one_that_stepped_aside(broker)
    tell_topic(producer, 76)
    for number in range(10):
        now_ms = producer.clock.now_ms()
        if news == "a leader":
            producer.metadata.update_leaders({TopicPartition("t", 1): (1, 2 + number)})
        else:
            producer.metadata.add(f"n{number}", now_ms)
            row = {"error_code": 0, "name": f"n{number}", "topic_id": uuid.UUID(int=100 + number), "partitions": []}
            producer.metadata.update({**metadata_response(), "topics": [row]}, 13, now_ms, request=MetadataRequest(
                [f"n{number}"], number, True))
        producer.turn(advance=1)
    assert producer.told_names() == ["s", "a"]
    tell_topic(producer, 77)
    store_in(broker, producer)
    assert producer.told_names() == ["s", "a", "b", "c"]


def test_topic_when_answers_of_brokers_that_lag_alternate_with_others_then_they_never_count_together() -> None:
    broker = Broker()
    producer = behind_one_that_stepped_aside(broker)
    producer.client.is_ready_now = False
    for _ in range(10):
        tell_topic(producer, 76)
        producer.turn(advance=20)
        tell_topic(producer, 77)
        producer.turn(advance=20)
    assert producer.told_names() == ["s", "a"]


@pytest.mark.parametrize("first_version", [12, 13])
def test_order_when_nothing_waits_before_one_in_doubt_then_it_goes_to_a_topic_made_anew(first_version: int) -> None:
    broker = Broker()
    producer = started(broker, batch_size=1, version=first_version)
    for name in "bc":
        producer.append_told(name)
    producer.turn()
    producer.lose()
    producer.lose()
    new = Broker()
    make_topic_anew(producer)
    producer.turn(advance=100)
    assert len(producer.client.in_flight) == 1, "c waits for what becomes of b"
    for _ in range(3):
        producer.turn()
    store_in(new, producer)
    assert new.values() == [b"b", b"c"]
    assert [error for _, _, error in producer.told] == [None] * 3


def test_order_when_one_in_doubt_waited_behind_another_then_it_is_known_where_it_was_sent_to() -> None:
    """Record d is in doubt, too, and before all of them: while it is on its way to the new topic, nothing else is."""
    producer = started(Broker(), batch_size=1, version=13)
    for name in "dabc":
        producer.append_told(name)
    producer.turn()
    producer.lose(request=producer.client.in_flight[0])
    producer.answer_all(code=ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT)
    producer.answer_all(code=ErrorCode.UNKNOWN_TOPIC_ID)
    producer.lose()
    make_topic_anew(producer)
    producer.turn(advance=100)
    producer.turn()
    assert [values[0][:1] for *_, values in producer.batches_on_wire() if values[0]] == [b"d"]
    new = Broker()
    store_in(new, producer)
    assert new.values() == [b"d", b"b"]
    assert producer.error_of("c").outcome == "unknown"


def test_order_when_the_one_in_doubt_is_split_then_its_parts_know_where_it_was_sent_to() -> None:
    producer = started(Broker(), batch_size=500, version=13)
    for name in "ab":
        producer.append_told(name)
        producer.accumulator.seal(producer.incomplete()[-1])
    for name in "cd":
        producer.append_told(name)
    producer.turn()
    producer.answer_all(code=ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT)
    producer.answer_all(code=ErrorCode.NOT_ENOUGH_REPLICAS)
    producer.lose()
    producer.accumulator._batch_size_bytes = 120
    producer.turn(advance=100)
    producer.answer_all(code=ErrorCode.MESSAGE_TOO_LARGE)  # the limit of the old topic was lowered
    new = Broker()
    make_topic_anew(producer)
    store_in(new, producer)
    assert new.values() == [b"b"]
    assert [producer.error_of(name).outcome for name in "cd"] == ["unknown", "unknown"]


def test_order_when_a_part_steps_aside_in_the_new_topic_then_the_one_behind_it_in_doubt_of_the_old_one_stays() -> None:
    producer = started(Broker(), batch_size=500, version=13)
    producer.append_told("b", value=b"b" * 200)
    producer.append_told("B", value=b"B" * 40)
    producer.accumulator.seal(producer.incomplete()[-1])
    producer.append_told("c")
    producer.turn()
    producer.answer_all(code=ErrorCode.UNKNOWN_TOPIC_ID)
    producer.lose()
    new = Broker(most_bytes=250)
    make_topic_anew(producer)
    producer.accumulator._batch_size_bytes = 120
    store_in(new, producer)
    assert new.values() == [b"B"]
    assert producer.error_of("b").outcome == "rejected"
    assert producer.error_of("c").outcome == "unknown"


@pytest.mark.parametrize("later_ms", [0, 30])
def test_order_when_the_one_before_is_on_its_way_to_the_new_topic_then_the_one_in_doubt_follows(later_ms: int) -> None:
    producer = started(Broker(), batch_size=1, version=13)
    for name in "bc":
        producer.append_told(name)
    producer.turn()
    producer.lose()
    producer.clock.advance(later_ms)
    producer.lose()
    new = Broker()
    make_topic_anew(producer)
    producer.turn(advance=100 - later_ms)
    producer.turn(advance=1)
    store_in(new, producer)
    assert [error for _, _, error in producer.told] == [None] * 3
    assert new.values() == [b"b", b"c"]


def test_expiry_when_the_one_that_waits_before_expires_then_the_one_in_doubt_goes() -> None:
    """One look found both: that b had expired, and that c would overtake it."""
    producer = started(Broker(), batch_size=1, version=13)
    producer.append_told("a")
    producer.append_told("b")
    producer.clock.advance(200)
    producer.append_told("c")
    producer.turn()
    producer.answer_all(code=ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT)
    producer.answer_all(code=ErrorCode.UNKNOWN_TOPIC_ID)
    producer.lose()
    producer.client.is_ready_now = False
    for _ in range(17):
        producer.turn(advance=100)
    make_topic_anew(producer)
    producer.turn(advance=110)
    producer.client.is_ready_now = True
    producer.turn(advance=1)
    assert producer.told_names() == ["s", "a", "b"]
    assert [values[0][:1] for *_, values in producer.batches_on_wire() if values[0]] == [b"c"]


def test_expiry_when_a_batch_is_over_for_two_reasons_then_it_is_counted_once() -> None:
    producer = behind_one_that_stepped_aside(Broker())
    producer.client.is_ready_now = False
    for _ in range(19):
        producer.turn(advance=100)
    make_topic_anew(producer)
    producer.turn(advance=110)
    assert producer.told_names() == ["s", "a", "b", "c"]
    assert producer.registry.producer.record_error_total == 3
