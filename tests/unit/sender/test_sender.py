"""The sender's turn, stepped without threads or sockets; what becomes of batches is in test_completion.py."""

from __future__ import annotations

import uuid

import pytest

from pyproducer.common.error_codes import ErrorCode
from pyproducer.common.errors import (
    AuthorizationError,
    DisconnectedError,
    InvalidMetadataError,
    KafkaTimeoutError,
    LocalProtocolError,
    RecordRejectedError,
    UnsupportedVersionError,
)
from pyproducer.protocol.apis import ApiKeys
from tests.unit.sender.stepped_producer import TOPIC_ID, SteppedProducer, metadata_response


def test_a_record_goes_out_after_the_producer_id_and_comes_back_as_metadata():
    producer = SteppedProducer()
    producer.start()
    future = producer.append(1)
    producer.turn()
    body = producer.client.bodies[-1]
    assert (body["acks"], body["timeout_ms"], body["transactional_id"]) == (-1, 500, None)
    assert producer.batches_on_wire() == [(1, 0, 0, [b"v" * 40])]
    producer.answer_all(base_offset=33)
    assert future.result(0) == ("t", 1, 33, 1000, -1, 40)
    assert producer.pool.available_bytes == 1_000_000
    assert producer.metrics.snapshot()["record-send-total"] == 2


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


def test_kip_951_leader_hint_retries_at_once_at_the_new_leader():
    producer = SteppedProducer()
    producer.start()
    future = producer.append()
    producer.turn()
    producer.client.answer(producer.produce_body(code=6, current_leader={"leader_id": 2, "leader_epoch": 9}),
                        received_ms=producer.clock.now_ms())
    producer.turn()
    assert producer.client.in_flight[0].destination == 2
    producer.answer_all(base_offset=5)
    assert future.result(0).offset == 5


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


def test_disconnect_without_retries_left_fails_as_unknown():
    producer = SteppedProducer(idempotent=False, retries=0)
    future = producer.append()
    producer.turn()
    producer.client.answer(None, disconnected=True, received_ms=0)
    with pytest.raises(DisconnectedError, match="ended before the answer") as raised:
        future.result(0)
    assert raised.value.outcome == "unknown"


def test_retries_are_bounded_by_the_setting():
    producer = SteppedProducer(idempotent=False, retries=1)
    future = producer.append()
    producer.turn()
    producer.answer_all(code=ErrorCode.NOT_LEADER_OR_FOLLOWER)
    producer.turn(advance=100)
    producer.answer_all(code=ErrorCode.NOT_LEADER_OR_FOLLOWER)
    with pytest.raises(InvalidMetadataError, match="NOT_LEADER_OR_FOLLOWER: t-0:"):
        future.result(0)
    assert producer.pool.available_bytes == 1_000_000


def test_acks_0_completes_without_an_answer():
    producer = SteppedProducer(idempotent=False, acks=0)
    future = producer.append()
    producer.turn()
    assert producer.client.in_flight[0].expect_response is False
    producer.client.answer(None)
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


def test_an_expired_batch_in_flight_is_unknown_and_its_memory_waits_for_the_answer():
    producer = SteppedProducer()
    producer.start()
    future = producer.append()
    producer.turn()
    producer.turn(advance=2000)
    with pytest.raises(KafkaTimeoutError, match="while its first request was not answered") as raised:
        future.result(0)
    assert raised.value.outcome == "unknown"
    assert producer.pool.available_bytes < 1_000_000
    producer.answer_all(base_offset=4)
    assert producer.pool.available_bytes == 1_000_000
    follower = producer.append()
    producer.turn()
    # The late answer showed that the sequence has no gap: no new epoch was needed... or one was begun meanwhile.
    assert producer.batches_on_wire()[0][1:3] in ((2, 0), (0, 1))
    producer.answer_all(base_offset=5)
    assert follower.result(0).offset == 5


def test_poll_waits_until_the_next_batch_expires_or_lingered():
    producer = SteppedProducer(linger=30)
    producer.append()
    assert producer.turn() <= 30


def test_message_too_large_splits_and_every_part_keeps_its_sequence():
    producer = SteppedProducer(batch_size=1000)
    producer.start()
    futures = [producer.append(value=b"%d" % index * 30) for index in range(8)]
    producer.turn()
    assert len(producer.client.in_flight) == 1
    producer.answer_all(code=ErrorCode.MESSAGE_TOO_LARGE)
    offset = 1
    for _ in range(10):
        producer.turn()
        if not producer.client.in_flight:
            break
        (_, _sequence, _, values), *_ = producer.batches_on_wire()
        producer.answer_all(base_offset=offset)
        offset += len(values)
    assert [future.result(0).offset for future in futures] == list(range(1, 9))
    assert producer.metrics.snapshot()["batch-split-total"] >= 1
    assert producer.pool.available_bytes == 1_000_000


def test_message_too_large_of_a_single_record_fails_it_alone():
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


def test_record_errors_name_the_culprit_and_tell_the_innocent():
    producer = SteppedProducer(batch_size=1000)
    producer.start()
    futures = [producer.append() for _ in range(3)]
    producer.turn()
    producer.answer_all(code=ErrorCode.INVALID_RECORD, error_message="One or more records have been rejected",
                     record_errors=[{"batch_index": 1, "batch_index_error_message": "the key is missing"}])
    with pytest.raises(RecordRejectedError, match="the key is missing"):
        futures[1].result(0)
    with pytest.raises(RecordRejectedError, match="because of another record"):
        futures[0].result(0)


def test_version_mismatch_fails_at_once():
    producer = SteppedProducer(idempotent=False)
    future = producer.append()
    producer.turn()
    producer.client.answer(None, version_mismatch=UnsupportedVersionError("no common version"), received_ms=0)
    with pytest.raises(UnsupportedVersionError):
        future.result(0)


def test_a_broker_that_gives_no_producer_id_fails_the_records():
    producer = SteppedProducer()
    future = producer.append()
    producer.turn()
    producer.client.answer({"error_code": ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "producer_id": -1,
                         "producer_epoch": -1, "throttle_time_ms": 0})
    producer.turn()
    with pytest.raises(AuthorizationError):
        future.result(0)


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


def test_a_partition_missing_in_the_answer_is_tried_again():
    producer = SteppedProducer()
    producer.start()
    future = producer.append()
    producer.turn()
    producer.client.answer({"responses": [], "throttle_time_ms": 0, "node_endpoints": []}, received_ms=0)
    producer.turn(advance=100)
    producer.answer_all(base_offset=2)
    assert future.result(0).offset == 2


def test_one_in_flight_without_idempotence_mutes_the_partition_so_order_holds():
    producer = SteppedProducer(idempotent=False, max_in_flight=1)
    first, second = producer.append(value=b"1" * 40), producer.append(value=b"2" * 40)
    producer.turn()
    producer.answer_all(code=ErrorCode.NOT_ENOUGH_REPLICAS)
    producer.turn()
    assert producer.client.in_flight == []
    producer.turn(advance=100)
    assert producer.batches_on_wire()[0][3] == [b"1" * 40]
    producer.answer_all(base_offset=0)
    producer.turn()
    producer.answer_all(base_offset=1)
    assert (first.result(0).offset, second.result(0).offset) == (0, 1)


def test_partition_load_reports_queues_and_latency_once_every_partition_was_used():
    from pyproducer.sender.partition_load import PartitionLoad

    producer = SteppedProducer(linger=1000)
    reports = []
    load = PartitionLoad(producer.accumulator, lambda *report: reports.append(report))
    producer.append(0)
    load.report(producer.metadata.fetch())
    assert reports == []
    producer.append(1)
    for _ in range(4):
        producer.append(1)
    load.on_ready_node(1, 100, can_drain=True)
    load.on_ready_node(1, 350, can_drain=False)
    load.report(producer.metadata.fetch())
    ((topic, sizes, partitions, count, latencies),) = reports
    assert (topic, sorted(partitions), count) == ("t", [0, 1], 2)
    assert sizes[partitions.index(1)] > sizes[partitions.index(0)]
    assert latencies == [250, 250]


def test_a_bug_while_an_answer_is_handled_leaves_no_batch_behind(caplog):
    producer = SteppedProducer()
    producer.start()
    futures = [producer.append(0), producer.append(1)]
    producer.turn()
    body = producer.produce_body(base_offset=1)
    del body["responses"][0]["partition_responses"][0]["base_offset"]
    producer.client.answer(body, received_ms=0)
    for future in futures:
        with pytest.raises(LocalProtocolError, match="could not be handled: KeyError") as raised:
            future.result(0)
        assert raised.value.outcome == "unknown"
    assert producer.pool.available_bytes == 1_000_000
    assert "Uncaught error while a Produce response of node 1 was handled" in caplog.text
