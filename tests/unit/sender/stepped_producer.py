"""The sender with all it needs, stepped by a test: no thread, no socket, a clock that the test moves."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from typing import Any

from pyproducer.accumulator.buffer_pool import BufferPool
from pyproducer.accumulator.life import Life
from pyproducer.accumulator.producer_batch import ProducerBatch
from pyproducer.accumulator.record_accumulator import RecordAccumulator
from pyproducer.accumulator.transaction_manager import TransactionManager
from pyproducer.client.metadata import ProducerMetadata
from pyproducer.client.request import ClientRequest
from pyproducer.client.wire import Wire
from pyproducer.common.backoff import ExponentialBackoff
from pyproducer.common.cluster import Node
from pyproducer.hotpath import FutureRecordMetadata
from pyproducer.observe.catalog import PARTITION
from pyproducer.observe.registry import Registry
from pyproducer.producer.metrics import metrics_of
from pyproducer.producer.wiring import request_kinds
from pyproducer.protocol.apis import ApiKeys
from pyproducer.record.batch_reader import read_batches
from pyproducer.record.compression import compressor_for
from pyproducer.sender.completion import Completion
from pyproducer.sender.freeze import Freeze
from pyproducer.sender.partition_load import PartitionLoad, UpdateLoad
from pyproducer.sender.requests.own_requests import OwnRequests
from pyproducer.sender.sender import Sender
from pyproducer.transaction.transactions import Transactions
from tests.support.clock import ManualClock
from tests.support.mock_client import MockClient, MockWakeup
from tests.support.rooms import make_room
from tests.support.serialized import append, record_of

NODE = Node(1, "127.0.0.1", 9092)
TOPIC_ID = uuid.UUID(int=77)
MEMORY = 1_000_000
RECORD_TIMESTAMP = ManualClock().timestamp_ms()


def metadata_response(partitions: int = 2, leader: int = 1, epoch: int = 1,
                      topic_id: uuid.UUID = TOPIC_ID) -> dict[str, Any]:
    """Topic t, led by one of two nodes."""
    return {"throttle_time_ms": 0, "cluster_id": "c", "controller_id": 1, "error_code": 0,
            "brokers": [{"node_id": 1, "host": "127.0.0.1", "port": 9092, "rack": None},
                        {"node_id": 2, "host": "127.0.0.1", "port": 9093, "rack": None}],
            "topics": [{"error_code": 0, "name": "t", "topic_id": topic_id, "is_internal": False, "partitions": [
                {"error_code": 0, "partition_index": index, "leader_id": leader, "leader_epoch": epoch,
                 "replica_nodes": [1], "isr_nodes": [1], "offline_replicas": []} for index in range(partitions)]}]}


class SteppedProducer:
    """Records go in by `append`, those for topics that are not known by `enter`.

    `turn` steps the sender; `answer_all` and `lose` end requests, `tell` answers for metadata.

    Attributes:
        told: What the callbacks of `append_told` were told, in order: (name, offset or None, exception or None).
    """

    def __init__(self, *, idempotent: bool = True, acks: int = -1, batch_size: int = 120, retries: int = 2**31 - 1,
                 max_in_flight: int = 5, linger: int = 0, version: int = 12, delivery_timeout: int = 2000,
                 partitions: int = 2, update_load: UpdateLoad | None = None, memory: int = MEMORY,
                 clock: ManualClock | None = None, transactional_id: str | None = None, **room: Any) -> None:
        self.clock = clock or ManualClock()
        self.registry = Registry()
        self.registry.gauge("record-send-total", "", lambda: self.life.tally.stored_count)
        self.told: list[tuple[Any, int | None, BaseException | None]] = []
        backoff = ExponentialBackoff(100, 1000, jitter=0)
        self.clients: list[MockClient] = []  # the present one is the last

        def make_client() -> MockClient:
            client = MockClient(NODE, max_in_flight=max_in_flight, version=version)
            if self.clients:
                client.meet_network_of(self.clients[-1])
            self.clients.append(client)
            return client

        self.wakeup = MockWakeup()
        self.wire = Wire(make_client, self.wakeup)
        self.metadata = ProducerMetadata(refresh_backoff=backoff, metadata_max_age_ms=300_000,
                                         metadata_max_idle_ms=300_000, clock=self.clock,
                                         bootstrap=[("127.0.0.1", 9092)])
        self.metadata.add("t", 0)
        self.metadata.update(metadata_response(partitions), 13, 0)
        self.life = Life("c", self.clock)
        self.pool = BufferPool(memory, self.clock, self.life, count_held=lambda: self.accumulator.count_held())
        self.transactions = None if transactional_id is None else Transactions(
            transactional_id, timeout_ms=60_000, clock=self.clock)
        self.manager = TransactionManager(transactions=self.transactions) if idempotent else None
        self.accumulator = RecordAccumulator(
            batch_size_bytes=batch_size, linger_ms=linger, delivery_timeout_ms=delivery_timeout, pool=self.pool,
            compressor=compressor_for("none", None), retry_backoff=backoff, clock=self.clock,
            life=self.life, sends_one_at_a_time=max_in_flight == 1, transaction_manager=self.manager,
            ledger=self.registry.ledger)
        self.completion = Completion(accumulator=self.accumulator, metadata=self.metadata,
                                     transaction_manager=self.manager, retries=retries,
                                     delivery_timeout_ms=delivery_timeout, registry=self.registry, clock=self.clock)
        own_requests = None if self.manager is None else OwnRequests(
            wire=self.wire, kinds=request_kinds(self.wire, self.metadata, self.manager, self.accumulator),
            request_timeout_ms=500, retry_backoff=backoff)
        self.room = make_room(self.metadata, self.accumulator, clock=self.clock, life=self.life, **{
            "batch_size_bytes": batch_size, "delivery_timeout_ms": delivery_timeout, "max_block_ms": 1000,
            "wakeup_sender": self.wire.wakeup, "on_failed": self.completion.on_failed, **room})
        self.freeze = Freeze(self.wire, self.metadata, self.accumulator, self.clock, 500)
        self.sender = Sender(wire=self.wire, metadata=self.metadata, accumulator=self.accumulator,
                             completion=self.completion,
                             own_requests=own_requests, transaction_manager=self.manager, acks=acks,
                             max_request_size_bytes=1_000_000, request_timeout_ms=500,
                             registry=self.registry,
                             partition_load=update_load and PartitionLoad(self.accumulator, update_load),
                             move_on=self.room.move_on, tally=self.life.tally,
                             freeze=self.freeze, delivery_timeout_ms=delivery_timeout)
        if self.transactions is not None:
            self.transactions.wakeup = self.wire.wakeup
            self.life.on_not_taken = self.transactions.on_failed

    @property
    def client(self) -> MockClient:
        """The present one: a recovery makes another."""
        return self.clients[-1]

    # What a caller does.

    def append(self, partition: int = 0, value: bytes = b"v" * 40,
               on_completion: Callable[[Any, BaseException | None], object] | None = None) -> FutureRecordMetadata:
        return append(self.accumulator, "t", partition, RECORD_TIMESTAMP, value, on_completion=on_completion).future

    def enter(self, value: bytes = b"v", topic: str = "u", partition: int | None = None, *, key: bytes | None = None,
              on_completion: Callable[[Any, BaseException | None], object] | None = None, max_block_ms: int = 1000
              ) -> FutureRecordMetadata:
        """Let a record wait in the room; fails the test when it need not."""
        future = self.room.enter(record_of(topic, partition, 1000, value, key, on_completion), max_block_ms)
        assert future is not None, "nothing is in its way"
        return future

    def append_told(self, name: Any, partition: int = 0, value: bytes | None = None, *,
                    raising: BaseException | None = None) -> FutureRecordMetadata:
        """Append a record whose callback notes what it was told, and then raises `raising`."""
        def on_completion(metadata: Any, exception: BaseException | None) -> None:
            self.told.append((name, None if metadata is None else metadata.offset, exception))
            if raising is not None:
                raise raising
        return self.append(partition, str(name).encode() * 40 if value is None else value, on_completion)

    def told_names(self) -> list[Any]:
        return [name for name, _, _ in self.told]

    def error_of(self, name: Any) -> Any:
        """The exception that the callback of a record was told; fails the test when there was none."""
        ((_, _, error),) = [one for one in self.told if one[0] == name]
        assert error is not None, f"record {name} was stored"
        return error

    # What the sender's thread does.

    def turn(self, advance: int = 0) -> int:
        """Take a turn; return how long its poll might have waited."""
        self.clock.advance(advance)
        self.sender.run_once(self.clock.now_ms())
        return self.client.poll_timeouts[-1]

    def start(self, partition: int = 0) -> None:
        """Have a producer id and one acknowledged record in a partition, so that its batches may pipeline."""
        future = self.append(partition)
        self.turn()
        if self.client.in_flight[0].api_key is ApiKeys.INIT_PRODUCER_ID:
            self.client.answer({"throttle_time_ms": 0, "error_code": 0, "producer_id": 7, "producer_epoch": 0})
            self.turn()
        self.answer_all(base_offset=0)
        assert future.result(0).offset == 0

    # What a broker does.

    def produce_body(self, base_offset: int = 0, code: int = 0, partitions: Sequence[int] | None = None, *,
                     request: ClientRequest | None = None, **more: Any) -> dict[str, Any]:
        """The answer to the oldest request in flight: the same for each partition, or only for some."""
        body = self.client.body_of(request or self.client.in_flight[0])
        endpoints = more.pop("node_endpoints", [])
        rows = []
        for topic in body["topic_data"]:
            rows.append({"name": topic.get("name"), "topic_id": topic.get("topic_id"), "partition_responses": [
                {"index": part["index"], "error_code": code, "base_offset": base_offset if code == 0 else -1,
                 "log_append_time_ms": -1, "log_start_offset": 0, "record_errors": [], "error_message": None,
                 "current_leader": {"leader_id": -1, "leader_epoch": -1}, **more}
                for part in topic["partition_data"] if partitions is None or part["index"] in partitions]})
        return {"responses": rows, "throttle_time_ms": 0, "node_endpoints": endpoints}

    def answer_all(self, base_offset: int = 0, code: int = 0, *, request: ClientRequest | None = None,
                   **more: Any) -> None:
        """Answer the oldest request in flight, or a given one."""
        self.client.answer(self.produce_body(base_offset, code, request=request, **more), request=request,
                           received_ms=self.clock.now_ms())

    def lose(self, *, request: ClientRequest | None = None, was_sent: bool = True, timed_out: bool = False) -> None:
        """End the connection before the oldest request in flight, or a given one, is answered."""
        self.client.answer(None, request=request, disconnected=True, timed_out=timed_out, was_sent=was_sent,
                           received_ms=self.clock.now_ms())

    def tell(self, partitions: int | Sequence[int] = 0, *, topic: str = "u", code: int = 0, node_id: int = 1,
             advance: int = 0) -> None:
        """Answer a metadata request with what it is to say of a topic; topic t stays as it is."""
        self.clock.advance(advance)
        indices = range(partitions) if isinstance(partitions, int) else partitions
        body = metadata_response()
        rows = [{**row, "partition_index": index} for index, row in
                ((index, body["topics"][0]["partitions"][0]) for index in indices)]
        body["topics"].append({"error_code": code, "name": topic, "topic_id": uuid.uuid5(TOPIC_ID, topic),
                               "is_internal": False, "partitions": rows})
        now_ms = self.clock.now_ms()
        self.metadata.add(topic, now_ms)
        self.metadata.update(body, 13, now_ms, request=self.metadata.next_request(now_ms), node_id=node_id)

    # What a test looks at.

    def batches_on_wire(self) -> list[tuple[int, int, int, list[bytes | None]]]:
        """(partition, base sequence, epoch, values) of each batch in flight, in order of the requests."""
        found: list[tuple[int, int, int, list[bytes | None]]] = []
        for request in self.client.in_flight:
            for topic in self.client.body_of(request)["topic_data"]:
                for part in topic["partition_data"]:
                    for batch in read_batches(part["records"]):
                        found.append((part["index"], batch.base_sequence, batch.producer_epoch,
                                      [record.value for record in batch]))
        return found

    def sequences_on_wire(self) -> list[tuple[int, int]]:
        """(epoch, base sequence) of each batch in flight, in order of the requests."""
        return [(epoch, sequence) for _, sequence, epoch, _ in self.batches_on_wire()]

    def incomplete(self) -> list[ProducerBatch]:
        """All batches whose outcome is not known, oldest first."""
        return self.accumulator.incomplete()

    @property
    def held_bytes(self) -> int:
        """How much of buffer.memory is given out."""
        return self.pool.total_bytes - self.pool.available_bytes

    def total(self, name: str) -> float:
        """A metric; 0 when nothing was counted."""
        self.registry.table(PARTITION, list)
        return metrics_of(self.registry, self.clock.now_ms()).get(name, 0)

    def of_node(self, node_id: int) -> dict[str, float]:
        """The metrics of a node."""
        return self.registry.of_nodes(self.clock.now_ms())[node_id]
