"""The sender's turn, stepped without threads or sockets; what becomes of batches is in test_completion.py."""

from __future__ import annotations

import uuid

import pytest

from pyproducer.common.error_codes import ErrorCode
from pyproducer.common.errors import (
    AuthorizationError,
    KafkaTimeoutError,
    RecordRejectedError,
)
from pyproducer.protocol.apis import ApiKeys
from tests.unit.sender.stepped_producer import RECORD_TIMESTAMP, TOPIC_ID, SteppedProducer, metadata_response


def test_a_record_goes_out_after_the_producer_id_and_comes_back_as_metadata():
    producer = SteppedProducer()
    producer.start()
    future = producer.append(1)
    producer.turn()
    body = producer.client.bodies[-1]
    assert (body["acks"], body["timeout_ms"], body["transactional_id"]) == (-1, 500, None)
    assert producer.batches_on_wire() == [(1, 0, 0, [b"v" * 40])]
    producer.answer_all(base_offset=33)
    assert future.result(0) == ("t", 1, 33, RECORD_TIMESTAMP, -1, 40)
    assert producer.pool.available_bytes == 1_000_000
    assert producer.registry.of_producer(0)["record-send-total"] == 2


def test_without_records_the_sender_asks_for_no_producer_id():
    producer = SteppedProducer()
    producer.turn()
    assert producer.client.sent == []


def test_up_to_five_batches_of_a_partition_are_in_flight_in_one_turn():
    producer = SteppedProducer()
    producer.start()
    for index in range(7):
        producer.append(value=b"%d" % index * 40)
    producer.turn()
    assert [(sequence, values[0][:1]) for _, sequence, _, values in producer.batches_on_wire()] == [
        (1, b"0"), (2, b"1"), (3, b"2"), (4, b"3"), (5, b"4")]
    producer.answer_all(base_offset=1)
    producer.turn()
    assert len(producer.client.in_flight) == 5


def test_not_leader_refreshes_metadata_and_retries_after_the_backoff_in_order():
    producer = SteppedProducer()
    producer.start()
    futures = [producer.append(value=b"%d" % index * 40) for index in range(3)]
    producer.turn()
    for _ in range(3):
        producer.answer_all(code=ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert producer.metadata.time_to_next_update(producer.clock.now_ms()) <= 100
    assert producer.turn() <= 100
    assert producer.client.in_flight == []
    producer.turn(advance=100)
    # Only the oldest goes until it is answered; then the next follow in sequence.
    assert [sequence for _, sequence, _, _ in producer.batches_on_wire()] == [1]
    for offset in range(3):
        producer.answer_all(base_offset=10 + offset)
        producer.turn()
    assert [future.result(0).offset for future in futures] == [10, 11, 12]


def test_disconnect_retries_the_same_sequence_and_a_duplicate_counts_as_stored():
    producer = SteppedProducer()
    producer.start()
    future = producer.append()
    producer.turn()
    producer.client.answer(None, disconnected=True, received_ms=0)
    producer.turn(advance=100)
    assert [sequence for _, sequence, _, _ in producer.batches_on_wire()] == [1]
    producer.answer_all(code=ErrorCode.DUPLICATE_SEQUENCE_NUMBER)
    assert future.result(0).offset == -1


def test_an_expired_batch_that_never_left_is_not_sent_and_says_why():
    producer = SteppedProducer()
    producer.client.is_ready_now = False
    producer.metadata.note_failure("127.0.0.1:9092", "connect: refused")
    future = producer.append()
    producer.turn(advance=2000)
    with pytest.raises(KafkaTimeoutError, match=r"expired before it could be sent.*delivery\.timeout\.ms is 2000.*"
                                                "127.0.0.1:9092: connect: refused") as raised:
        future.result(0)
    assert (raised.value.phase, raised.value.outcome) == ("delivery", "not_sent")
    assert producer.pool.available_bytes == 1_000_000


def test_an_expired_batch_that_waited_for_a_producer_id_says_why_none_came():
    """It said that the topic is known, and nothing of InitProducerId, which was refused all the time."""
    producer = SteppedProducer()
    future = producer.append()
    producer.turn()
    for _ in range(2):
        producer.client.answer({"error_code": ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "producer_id": -1,
                                "producer_epoch": -1, "throttle_time_ms": 0})
        producer.turn(advance=500)
    producer.turn(advance=1000)
    with pytest.raises(KafkaTimeoutError, match=r"expired before it could be sent: .*; InitProducerId failed 2 times, "
                                                "the last time: node 1: COORDINATOR_LOAD_IN_PROGRESS"):
        future.result(0)
    assert producer.pool.available_bytes == 1_000_000


def test_broker_when_it_gives_no_producer_id_then_the_records_fail_and_later_ones_go_as_soon_as_it_does():
    """After an ACL that was missing for a moment the producer was of no use any more."""
    producer = SteppedProducer()
    for _ in range(2):
        future = producer.append()
        producer.turn(advance=1000)
        producer.client.answer({"error_code": ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "producer_id": -1,
                                "producer_epoch": -1, "throttle_time_ms": 0})
        producer.turn()
        with pytest.raises(AuthorizationError) as caught:
            future.result(0)
        assert caught.value.outcome == "not_sent", "an id was refused, and no record"
        producer.turn(advance=10_000)
        assert not producer.client.in_flight, "nobody waits for an id"
    future = producer.append()
    producer.turn()
    producer.client.answer({"error_code": 0, "producer_id": 7, "producer_epoch": 0, "throttle_time_ms": 0})
    producer.turn()
    producer.answer_all(base_offset=5)
    assert future.result(0).offset == 5
    assert producer.pool.available_bytes == 1_000_000


def test_refusal_of_an_id_when_only_a_record_without_a_topic_waits_then_later_records_do_not_fail_by_it():
    producer = SteppedProducer()
    producer.append()
    producer.turn()
    producer.turn(advance=2_000)  # the batch has expired
    producer.enter(topic="unknown")
    producer.client.answer({"error_code": ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "producer_id": -1,
                            "producer_epoch": -1, "throttle_time_ms": 0}, received_ms=producer.clock.now_ms())
    producer.turn()
    producer.turn(advance=5_000)  # that record, too
    future = producer.append()
    producer.turn()
    assert not future.done()
    producer.client.answer({"error_code": 0, "producer_id": 7, "producer_epoch": 0, "throttle_time_ms": 0})
    producer.turn()
    producer.answer_all(base_offset=5)
    assert future.result(0).offset == 5


def test_a_producer_id_request_that_fails_for_a_moment_is_repeated():
    producer = SteppedProducer()
    producer.append()
    producer.turn()
    producer.client.answer(None, disconnected=True, received_ms=0)
    assert producer.turn() == 100
    producer.turn(advance=100)
    assert producer.client.in_flight[0].api_key is ApiKeys.INIT_PRODUCER_ID


def test_version_13_names_topics_by_id_and_answers_are_mapped_back():
    producer = SteppedProducer(version=13)
    producer.start()
    future = producer.append(1)
    producer.turn()
    assert producer.client.bodies[-1]["topic_data"][0]["topic_id"] == TOPIC_ID
    producer.answer_all(base_offset=9)
    assert future.result(0).offset == 9


def test_version_13_is_not_used_when_a_topic_has_no_id():
    producer = SteppedProducer(version=13)
    producer.metadata.update(metadata_response(topic_id=uuid.UUID(int=0)), 13, 0)
    producer.start()
    assert producer.client.sent[-1].max_version == 12


def test_expired_batch_in_flight_when_it_is_acknowledged_before_the_next_turn_then_the_sequence_goes_on():
    producer = SteppedProducer()
    producer.start()
    future = producer.append()
    producer.turn()
    producer.turn(advance=2000)
    assert future.exception(0).outcome == "unknown"
    producer.answer_all(base_offset=4)
    follower = producer.append()
    producer.turn()
    assert producer.sequences_on_wire() == [(0, 2)]
    producer.answer_all(base_offset=5)
    assert follower.result(0).offset == 5


def test_expired_batch_in_flight_when_it_is_acknowledged_then_it_counts_once_as_an_error():
    """It counted as stored, too: metrics() had more records than close() tells of, and than were sent."""
    producer = SteppedProducer(idempotent=False)
    producer.append()
    producer.turn()
    producer.turn(advance=2000)
    producer.answer_all(base_offset=4)
    assert producer.total("record-error-total") == 1
    assert producer.total("record-send-total") == 0


@pytest.mark.parametrize(("is_stored", "place"), [(True, (0, 2)), (False, (1, 0))])
def test_expired_batch_in_flight_when_a_turn_comes_before_its_answer_then_what_follows_waits_for_that(is_stored, place):
    producer = SteppedProducer()
    producer.start()
    producer.append()
    producer.turn()
    producer.turn(advance=2000)
    follower = producer.append()
    producer.turn()
    assert producer.sequences_on_wire() == [(0, 1)], "no epoch begins while a request is on the wire"
    if is_stored:
        producer.answer_all(base_offset=4)
    else:
        producer.lose()
    producer.turn()
    assert producer.sequences_on_wire() == [place]
    producer.answer_all(base_offset=5)
    assert follower.result(0).offset == 5
    assert producer.held_bytes == 0


def test_poll_when_a_batch_lingers_then_it_sleeps_until_the_linger_ends():
    producer = SteppedProducer(linger=30, idempotent=False)
    producer.append()
    assert producer.turn() == 30
    assert producer.turn(advance=29) == 1
    assert producer.client.in_flight == []
    producer.turn(advance=1)
    assert len(producer.client.in_flight) == 1


def test_poll_when_a_node_is_not_connected_then_it_sleeps_as_long_as_the_client_says():
    producer = SteppedProducer(idempotent=False)
    producer.client.is_ready_now = False
    producer.append()
    assert producer.turn() == 50


def test_message_too_large_of_a_single_record_fails_it_alone_and_those_behind_it_begin_a_new_epoch():
    producer = SteppedProducer()
    producer.start()
    first, second = producer.append(), producer.append(value=b"w" * 40)
    producer.turn()
    producer.answer_all(code=ErrorCode.MESSAGE_TOO_LARGE)
    with pytest.raises(RecordRejectedError, match="MESSAGE_TOO_LARGE"):
        first.result(0)
    producer.answer_all(code=ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    producer.turn(advance=100)
    assert producer.batches_on_wire() == [(0, 0, 1, [b"w" * 40])]
    producer.answer_all(base_offset=1)
    assert second.result(0).offset == 1


def test_topic_when_metadata_forgot_it_while_its_records_waited_then_it_is_asked_for_and_they_are_sent() -> None:
    """metadata.max.idle.ms is five minutes, and records may wait longer: nobody asked for their topic any more."""
    producer = SteppedProducer(linger=400_000, delivery_timeout=1_000_000, idempotent=False)
    future = producer.append()
    producer.clock.advance(350_000)
    metadata, now_ms = producer.metadata, producer.clock.now_ms()
    request = metadata.next_request(now_ms)
    assert request.topics == []
    metadata.update({**metadata_response(), "topics": []}, 13, now_ms, request=request, node_id=1)
    producer.turn()
    assert producer.client.in_flight == []
    request = metadata.next_request(now_ms)
    assert request.topics == ["t"]
    metadata.update(metadata_response(), 13, now_ms, request=request, node_id=1)
    producer.turn(advance=50_000)
    producer.answer_all(base_offset=5)
    assert future.result(0).offset == 5


def test_leader_when_there_is_none_while_records_wait_then_metadata_is_asked_for_at_each_turn() -> None:
    """The topic is known and asked for anyway, by metadata.max.age.ms: so long its records waited for an election."""
    producer = SteppedProducer(idempotent=False)
    producer.append()
    now_ms = producer.clock.now_ms()
    for _ in range(2):  # the second election, too
        producer.metadata.update(metadata_response(leader=-1), 13, producer.clock.now_ms())
        assert producer.metadata.due_ms > producer.clock.now_ms() + 200_000
        producer.turn(advance=10)
        assert producer.metadata.due_ms <= now_ms + 2000, "as soon as the backoff allows"
    assert producer.client.in_flight == []


def test_poll_when_what_lingered_went_along_with_a_full_batch_then_it_does_not_end_with_that_linger() -> None:
    """The turn looked before it sent: it woke up for a batch that was on the wire, after each request."""
    producer = SteppedProducer(linger=50, idempotent=False)
    producer.append(0, b"v" * 80)  # more than batch.size
    producer.append(1)
    assert producer.turn() == 2000  # delivery.timeout.ms
    assert sorted(partition for partition, *_ in producer.batches_on_wire()) == [0, 1]


def test_turn_when_a_second_has_just_passed_then_it_is_in_the_history() -> None:
    producer = SteppedProducer()
    registry, clock = producer.registry, producer.clock

    def span_count() -> int:
        return len(registry.history.spans(clock.now_ms(), registry.ledger, registry.producer))

    producer.turn()
    for _ in range(3):
        before = span_count()
        producer.turn(advance=999)
        assert span_count() == before
        producer.turn(advance=1)
        assert span_count() == before + 1
