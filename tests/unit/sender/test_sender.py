"""The sender's turn and what becomes of batches, stepped without threads or sockets."""

from __future__ import annotations

import uuid

import pytest

from pyproducer.accumulator.buffer_pool import BufferPool
from pyproducer.accumulator.record_accumulator import RecordAccumulator
from pyproducer.client.metadata import ProducerMetadata
from pyproducer.common.backoff import ExponentialBackoff
from pyproducer.common.cluster import Node
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
from pyproducer.common.metrics import Metrics
from pyproducer.protocol.apis import ApiKeys
from pyproducer.record.batch_reader import read_batches
from pyproducer.record.compression import compressor_for
from pyproducer.sender.completion import Completion
from pyproducer.sender.in_flight_batches import InFlightBatches
from pyproducer.sender.producer_id_request import ProducerIdRequest
from pyproducer.sender.sender import Sender
from pyproducer.transaction.transaction_manager import TransactionManager
from tests.support.clock import ManualClock
from tests.support.mock_client import MockClient

NODE = Node(1, "127.0.0.1", 9092)
TOPIC_ID = uuid.UUID(int=77)


def metadata_response(partitions=2, leader=1, epoch=1, topic_id=TOPIC_ID):
    return {"throttle_time_ms": 0, "cluster_id": "c", "controller_id": 1, "error_code": 0,
            "brokers": [{"node_id": 1, "host": "127.0.0.1", "port": 9092, "rack": None},
                        {"node_id": 2, "host": "127.0.0.1", "port": 9093, "rack": None}],
            "topics": [{"error_code": 0, "name": "t", "topic_id": topic_id, "is_internal": False, "partitions": [
                {"error_code": 0, "partition_index": index, "leader_id": leader, "leader_epoch": epoch,
                 "replica_nodes": [1], "isr_nodes": [1], "offline_replicas": []} for index in range(partitions)]}]}


class Setup:
    def __init__(self, *, idempotent=True, acks=-1, batch_size=120, retries=2**31 - 1, max_in_flight=5, linger=0,
                 version=12, delivery_timeout=2000):
        self.clock = ManualClock()
        self.metrics = Metrics()
        backoff = ExponentialBackoff(100, 1000, jitter=0)
        self.client = MockClient(NODE, max_in_flight=max_in_flight, version=version)
        self.metadata = ProducerMetadata(refresh_backoff=backoff, metadata_max_age_ms=300_000,
                                         metadata_max_idle_ms=300_000, clock=self.clock,
                                         bootstrap=[("127.0.0.1", 9092)])
        self.metadata.add("t", 0)
        self.metadata.update(metadata_response(), 13, 0)
        self.pool = BufferPool(1_000_000, self.clock)
        self.accumulator = RecordAccumulator(
            batch_size_bytes=batch_size, linger_ms=linger, delivery_timeout_ms=delivery_timeout, pool=self.pool,
            compressor=compressor_for("none", None), retry_backoff=backoff, clock=self.clock)
        self.manager = TransactionManager() if idempotent else None
        in_flight = InFlightBatches(delivery_timeout)
        mutes = max_in_flight == 1
        completion = Completion(accumulator=self.accumulator, metadata=self.metadata, in_flight=in_flight,
                                transaction_manager=self.manager, retries=retries,
                                delivery_timeout_ms=delivery_timeout, guarantees_order_by_muting=mutes,
                                metrics=self.metrics)
        producer_id_request = None if self.manager is None else ProducerIdRequest(
            client=self.client, metadata=self.metadata, transaction_manager=self.manager, request_timeout_ms=500,
            retry_backoff=backoff)
        self.sender = Sender(client=self.client, metadata=self.metadata, accumulator=self.accumulator,
                             completion=completion, in_flight=in_flight, producer_id_request=producer_id_request,
                             transaction_manager=self.manager, acks=acks, max_request_size_bytes=1_000_000,
                             request_timeout_ms=500, guarantees_order_by_muting=mutes, metrics=self.metrics)

    def append(self, partition=0, value=b"v" * 40):
        return self.accumulator.append("t", partition, 1000, None, value, (), None, 0).future

    def turn(self, advance=0):
        self.clock.advance(advance)
        self.sender.run_once(self.clock.now_ms())
        return self.client.poll_timeouts[-1]

    def start(self):
        """Have a producer id and one acknowledged record in partition 0, so that batches may pipeline."""
        future = self.append()
        self.turn()
        assert self.client.in_flight[0].api_key is ApiKeys.INIT_PRODUCER_ID
        self.client.answer({"throttle_time_ms": 0, "error_code": 0, "producer_id": 7, "producer_epoch": 0})
        self.turn()
        self.answer_all(base_offset=0)
        assert future.result(0).offset == 0

    def produce_body(self, base_offset=0, code=0, partitions=None, **more):
        request = self.client.in_flight[0]
        body = self.client.bodies[self.client.sent.index(request)]
        rows = []
        for topic in body["topic_data"]:
            rows.append({"name": topic.get("name"), "topic_id": topic.get("topic_id"), "partition_responses": [
                {"index": part["index"], "error_code": code, "base_offset": base_offset if code == 0 else -1,
                 "log_append_time_ms": -1, "log_start_offset": 0, "record_errors": [], "error_message": None,
                 "current_leader": {"leader_id": -1, "leader_epoch": -1}, **more}
                for part in topic["partition_data"] if partitions is None or part["index"] in partitions]})
        return {"responses": rows, "throttle_time_ms": 0, "node_endpoints": more.get("node_endpoints", [])}

    def answer_all(self, base_offset=0, code=0, **more):
        self.client.answer(self.produce_body(base_offset, code, **more), received_ms=self.clock.now_ms())

    def batches_on_wire(self):
        """(partition, base sequence, epoch, values) of each batch in flight, in order of the requests."""
        found = []
        for request in self.client.in_flight:
            body = self.client.bodies[self.client.sent.index(request)]
            for topic in body["topic_data"]:
                for part in topic["partition_data"]:
                    for batch in read_batches(part["records"]):
                        found.append((part["index"], batch.base_sequence, batch.producer_epoch,
                                      [record.value for record in batch]))
        return found


def test_a_record_goes_out_after_the_producer_id_and_comes_back_as_metadata():
    setup = Setup()
    setup.start()
    future = setup.append(1)
    setup.turn()
    body = setup.client.bodies[-1]
    assert (body["acks"], body["timeout_ms"], body["transactional_id"]) == (-1, 500, None)
    assert setup.batches_on_wire() == [(1, 0, 0, [b"v" * 40])]
    setup.answer_all(base_offset=33)
    assert future.result(0) == ("t", 1, 33, 1000, -1, 40)
    assert setup.pool.available_bytes == 1_000_000
    assert setup.metrics.snapshot()["record-send-total"] == 2


def test_without_records_the_sender_asks_for_no_producer_id():
    setup = Setup()
    setup.turn()
    assert setup.client.sent == []


def test_up_to_five_batches_of_a_partition_are_in_flight_in_one_turn():
    setup = Setup()
    setup.start()
    for index in range(7):
        setup.append(value=b"%d" % index * 40)
    setup.turn()
    assert [(sequence, values[0][:1]) for _, sequence, _, values in setup.batches_on_wire()] == [
        (1, b"0"), (2, b"1"), (3, b"2"), (4, b"3"), (5, b"4")]
    setup.answer_all(base_offset=1)
    setup.turn()
    assert len(setup.client.in_flight) == 5


def test_not_leader_refreshes_metadata_and_retries_after_the_backoff_in_order():
    setup = Setup()
    setup.start()
    futures = [setup.append(value=b"%d" % index * 40) for index in range(3)]
    setup.turn()
    for _ in range(3):
        setup.answer_all(code=ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert setup.metadata.time_to_next_update(setup.clock.now_ms()) <= 100
    assert setup.turn() <= 100
    assert setup.client.in_flight == []
    setup.turn(advance=100)
    # Only the oldest goes until it is answered; then the next follow in sequence.
    assert [sequence for _, sequence, _, _ in setup.batches_on_wire()] == [1]
    for offset in range(3):
        setup.answer_all(base_offset=10 + offset)
        setup.turn()
    assert [future.result(0).offset for future in futures] == [10, 11, 12]


def test_kip_951_leader_hint_retries_at_once_at_the_new_leader():
    setup = Setup()
    setup.start()
    future = setup.append()
    setup.turn()
    setup.client.answer(setup.produce_body(code=6, current_leader={"leader_id": 2, "leader_epoch": 9}),
                        received_ms=setup.clock.now_ms())
    setup.turn()
    assert setup.client.in_flight[0].destination == 2
    setup.answer_all(base_offset=5)
    assert future.result(0).offset == 5


def test_disconnect_retries_the_same_sequence_and_a_duplicate_counts_as_stored():
    setup = Setup()
    setup.start()
    future = setup.append()
    setup.turn()
    setup.client.answer(None, disconnected=True, received_ms=0)
    setup.turn(advance=100)
    assert [sequence for _, sequence, _, _ in setup.batches_on_wire()] == [1]
    setup.answer_all(code=ErrorCode.DUPLICATE_SEQUENCE_NUMBER)
    assert future.result(0).offset == -1


def test_disconnect_without_retries_left_fails_as_unknown():
    setup = Setup(idempotent=False, retries=0)
    future = setup.append()
    setup.turn()
    setup.client.answer(None, disconnected=True, received_ms=0)
    with pytest.raises(DisconnectedError, match="ended before the answer") as raised:
        future.result(0)
    assert raised.value.outcome == "unknown"


def test_retries_are_bounded_by_the_setting():
    setup = Setup(idempotent=False, retries=1)
    future = setup.append()
    setup.turn()
    setup.answer_all(code=ErrorCode.NOT_LEADER_OR_FOLLOWER)
    setup.turn(advance=100)
    setup.answer_all(code=ErrorCode.NOT_LEADER_OR_FOLLOWER)
    with pytest.raises(InvalidMetadataError, match="NOT_LEADER_OR_FOLLOWER: t-0:"):
        future.result(0)
    assert setup.pool.available_bytes == 1_000_000


def test_acks_0_completes_without_an_answer():
    setup = Setup(idempotent=False, acks=0)
    future = setup.append()
    setup.turn()
    assert setup.client.in_flight[0].expect_response is False
    setup.client.answer(None)
    assert future.result(0).offset == -1


def test_an_expired_batch_that_never_left_is_not_sent_and_says_why():
    setup = Setup()
    setup.client.is_ready_now = False
    setup.metadata.note_failure("127.0.0.1:9092", "connect: refused")
    future = setup.append()
    setup.turn(advance=2000)
    with pytest.raises(KafkaTimeoutError, match=r"expired before it could be sent.*delivery\.timeout\.ms is 2000.*"
                                                "127.0.0.1:9092: connect: refused") as raised:
        future.result(0)
    assert (raised.value.phase, raised.value.outcome) == ("delivery", "not_sent")
    assert setup.pool.available_bytes == 1_000_000


def test_an_expired_batch_in_flight_is_unknown_and_its_memory_waits_for_the_answer():
    setup = Setup()
    setup.start()
    future = setup.append()
    setup.turn()
    setup.turn(advance=2000)
    with pytest.raises(KafkaTimeoutError, match="while its first request was not answered") as raised:
        future.result(0)
    assert raised.value.outcome == "unknown"
    assert setup.pool.available_bytes < 1_000_000
    setup.answer_all(base_offset=4)
    assert setup.pool.available_bytes == 1_000_000
    follower = setup.append()
    setup.turn()
    # The late answer showed that the sequence has no gap: no new epoch was needed... or one was begun meanwhile.
    assert setup.batches_on_wire()[0][1:3] in ((2, 0), (0, 1))
    setup.answer_all(base_offset=5)
    assert follower.result(0).offset == 5


def test_poll_waits_until_the_next_batch_expires_or_lingered():
    setup = Setup(linger=30)
    setup.append()
    assert setup.turn() <= 30


def test_message_too_large_splits_and_every_part_keeps_its_sequence():
    setup = Setup(batch_size=1000)
    setup.start()
    futures = [setup.append(value=b"%d" % index * 30) for index in range(8)]
    setup.turn()
    assert len(setup.client.in_flight) == 1
    setup.answer_all(code=ErrorCode.MESSAGE_TOO_LARGE)
    offset = 1
    for _ in range(10):
        setup.turn()
        if not setup.client.in_flight:
            break
        (_, _sequence, _, values), *_ = setup.batches_on_wire()
        setup.answer_all(base_offset=offset)
        offset += len(values)
    assert [future.result(0).offset for future in futures] == list(range(1, 9))
    assert setup.metrics.snapshot()["batch-split-total"] >= 1
    assert setup.pool.available_bytes == 1_000_000


def test_message_too_large_of_a_single_record_fails_it_alone():
    setup = Setup()
    setup.start()
    first, second = setup.append(), setup.append(value=b"w" * 40)
    setup.turn()
    setup.answer_all(code=ErrorCode.MESSAGE_TOO_LARGE)
    with pytest.raises(RecordRejectedError, match="MESSAGE_TOO_LARGE"):
        first.result(0)
    setup.answer_all(code=ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    setup.turn(advance=100)
    assert setup.batches_on_wire() == [(0, 0, 1, [b"w" * 40])]
    setup.answer_all(base_offset=1)
    assert second.result(0).offset == 1


def test_record_errors_name_the_culprit_and_tell_the_innocent():
    setup = Setup(batch_size=1000)
    setup.start()
    futures = [setup.append() for _ in range(3)]
    setup.turn()
    setup.answer_all(code=ErrorCode.INVALID_RECORD, error_message="One or more records have been rejected",
                     record_errors=[{"batch_index": 1, "batch_index_error_message": "the key is missing"}])
    with pytest.raises(RecordRejectedError, match="the key is missing"):
        futures[1].result(0)
    with pytest.raises(RecordRejectedError, match="because of another record"):
        futures[0].result(0)


def test_version_mismatch_fails_at_once():
    setup = Setup(idempotent=False)
    future = setup.append()
    setup.turn()
    setup.client.answer(None, version_mismatch=UnsupportedVersionError("no common version"), received_ms=0)
    with pytest.raises(UnsupportedVersionError):
        future.result(0)


def test_a_broker_that_gives_no_producer_id_fails_the_records():
    setup = Setup()
    future = setup.append()
    setup.turn()
    setup.client.answer({"error_code": ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "producer_id": -1,
                         "producer_epoch": -1, "throttle_time_ms": 0})
    setup.turn()
    with pytest.raises(AuthorizationError):
        future.result(0)


def test_a_producer_id_request_that_fails_for_a_moment_is_repeated():
    setup = Setup()
    setup.append()
    setup.turn()
    setup.client.answer(None, disconnected=True, received_ms=0)
    assert setup.turn() == 100
    setup.turn(advance=100)
    assert setup.client.in_flight[0].api_key is ApiKeys.INIT_PRODUCER_ID


def test_version_13_names_topics_by_id_and_answers_are_mapped_back():
    setup = Setup(version=13)
    setup.start()
    future = setup.append(1)
    setup.turn()
    assert setup.client.bodies[-1]["topic_data"][0]["topic_id"] == TOPIC_ID
    setup.answer_all(base_offset=9)
    assert future.result(0).offset == 9


def test_version_13_is_not_used_when_a_topic_has_no_id():
    setup = Setup(version=13)
    setup.metadata.update(metadata_response(topic_id=uuid.UUID(int=0)), 13, 0)
    setup.start()
    assert setup.client.sent[-1].max_version == 12


def test_a_partition_missing_in_the_answer_is_tried_again():
    setup = Setup()
    setup.start()
    future = setup.append()
    setup.turn()
    setup.client.answer({"responses": [], "throttle_time_ms": 0, "node_endpoints": []}, received_ms=0)
    setup.turn(advance=100)
    setup.answer_all(base_offset=2)
    assert future.result(0).offset == 2


def test_one_in_flight_without_idempotence_mutes_the_partition_so_order_holds():
    setup = Setup(idempotent=False, max_in_flight=1)
    first, second = setup.append(value=b"1" * 40), setup.append(value=b"2" * 40)
    setup.turn()
    setup.answer_all(code=ErrorCode.NOT_ENOUGH_REPLICAS)
    setup.turn()
    assert setup.client.in_flight == []
    setup.turn(advance=100)
    assert setup.batches_on_wire()[0][3] == [b"1" * 40]
    setup.answer_all(base_offset=0)
    setup.turn()
    setup.answer_all(base_offset=1)
    assert (first.result(0).offset, second.result(0).offset) == (0, 1)


def test_partition_load_reports_queues_and_latency_once_every_partition_was_used():
    from pyproducer.sender.partition_load import PartitionLoad

    setup = Setup(linger=1000)
    reports = []
    load = PartitionLoad(setup.accumulator, lambda *report: reports.append(report))
    setup.append(0)
    load.report(setup.metadata.fetch())
    assert reports == []
    setup.append(1)
    for _ in range(4):
        setup.append(1)
    load.on_ready_node(1, 100, can_drain=True)
    load.on_ready_node(1, 350, can_drain=False)
    load.report(setup.metadata.fetch())
    ((topic, sizes, partitions, count, latencies),) = reports
    assert (topic, sorted(partitions), count) == ("t", [0, 1], 2)
    assert sizes[partitions.index(1)] > sizes[partitions.index(0)]
    assert latencies == [250, 250]


def test_a_bug_while_an_answer_is_handled_leaves_no_batch_behind(caplog):
    setup = Setup()
    setup.start()
    futures = [setup.append(0), setup.append(1)]
    setup.turn()
    body = setup.produce_body(base_offset=1)
    del body["responses"][0]["partition_responses"][0]["base_offset"]
    setup.client.answer(body, received_ms=0)
    for future in futures:
        with pytest.raises(LocalProtocolError, match="could not be handled: KeyError") as raised:
            future.result(0)
        assert raised.value.outcome == "unknown"
    assert setup.pool.available_bytes == 1_000_000
    assert "Uncaught error while a Produce response of node 1 was handled" in caplog.text
