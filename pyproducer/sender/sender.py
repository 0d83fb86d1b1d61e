"""One turn of the background thread: drain, send, poll, complete.

Road:    RecordAccumulator -> [Sender] -> NetworkClient
Thread:  sender thread only; io_thread.py loops.
Source:  Java Sender.runOnce, sendProducerData (4.1); seed 001.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Protocol

from pyproducer.accumulator.batch_state import BatchState, move
from pyproducer.accumulator.delivery_tally import DeliveryTally, NoTally
from pyproducer.accumulator.life import UNOWNED, Life
from pyproducer.accumulator.producer_batch import ProducerBatch
from pyproducer.accumulator.record_accumulator import RecordAccumulator
from pyproducer.client.metadata import ProducerMetadata
from pyproducer.client.request import ClientRequest
from pyproducer.common.clock import NEVER_MS
from pyproducer.common.cluster import Cluster, Node
from pyproducer.common.errors import KafkaError
from pyproducer.common.metrics import Metrics
from pyproducer.protocol.apis import ApiKeys
from pyproducer.sender.completion import Completion
from pyproducer.sender.freeze import Freeze
from pyproducer.sender.partition_load import PartitionLoad
from pyproducer.sender.produce_request import BatchesByPartition, produce_request
from pyproducer.sender.producer_id_request import ProducerIdRequest
from pyproducer.transaction.transaction_manager import TransactionManager

if TYPE_CHECKING:
    from pyproducer.client.wire import Wire

log: logging.Logger = logging.getLogger(__name__)



class WaitingRoom(Protocol):
    """Where records wait whose topic is not known yet."""

    def move_on(self, now_ms: int) -> int:
        """Let those go on whose topic is known now; return how long until this must be called again, in ms."""


class Sender:
    """Moves batches from the accumulator to the brokers, one step at a time."""

    def __init__(self, *, wire: Wire, metadata: ProducerMetadata, accumulator: RecordAccumulator,
                 completion: Completion, producer_id_request: ProducerIdRequest | None,
                 transaction_manager: TransactionManager | None, acks: int, max_request_size_bytes: int,
                 request_timeout_ms: int, metrics: Metrics,
                 partition_load: PartitionLoad | None = None, waiting_room: WaitingRoom | None = None,
                 tally: DeliveryTally | None = None, freeze: Freeze | None = None,
                 life: Life = UNOWNED) -> None:
        self._wire = wire
        self._metadata = metadata
        self._accumulator = accumulator
        self._completion = completion
        self._producer_id_request = producer_id_request
        self._transaction_manager = transaction_manager
        self._acks = acks
        self._max_request_size_bytes = max_request_size_bytes
        self._request_timeout_ms = request_timeout_ms
        self._metrics = metrics
        self._partition_load = partition_load
        self._waiting_room = waiting_room
        self._tally = NoTally() if tally is None else tally
        self._freeze = freeze
        self._life = life

    def run_once(self, now_ms: int, longest_wait_ms: int = NEVER_MS) -> None:
        """Take one turn: send what is ready, then wait for the network until something is due.

        Args:
            now_ms: Monotonic time, in ms.
            longest_wait_ms: How long it may wait for the network at most, in ms.
        """
        tally = self._tally
        freeze = self._freeze
        if freeze is not None and (now_ms >= freeze.due_ms or now_ms - self._wire.client.woke_ms
                                   > freeze.longest_pause_ms) and freeze.has_thawed(now_ms):
            self._thaw(now_ms)
        room, queues = self._waiting_room, self._accumulator.waiting.queues
        room_ms = room.move_on(now_ms) if room is not None and queues else NEVER_MS
        # What failed in a turn is counted and logged at the beginning of the next, which comes at once.
        tally_ms = tally.step(now_ms) if tally.is_busy else NEVER_MS
        timeout_ms = min(longest_wait_ms, room_ms, tally_ms)
        if self._accumulator.busy or queues or self._metadata.refusals or self._partition_load is not None:
            timeout_ms = min(timeout_ms, self._send_producer_data(now_ms))
        if self._accumulator.is_closed and not self._accumulator.has_incomplete():
            timeout_ms = 0  # the last batch expired just now: nothing is left to wait for
        inbox = self._life.loop_inbox
        if inbox is not None and not self._life.role.caller:
            # To wake the event loop lets it have the interpreter, and its next record would find the thread in the
            # middle of a turn. So it is woken when that is over; see turns.py.
            inbox.hold()
        self._wire.client.poll(timeout_ms, now_ms)

    def has_nothing_under_way(self) -> bool:
        """Whether no answer, no connection and no name is awaited; and so nothing, but for new records."""
        return self._wire.client.has_nothing_under_way()

    def can_send_at_once(self, batch: ProducerBatch, now_ms: int) -> bool:
        """Whether a turn would send a batch: its leader is connected, and nothing else comes first."""
        manager = self._transaction_manager
        if self._has_thawed(now_ms):
            return False  # connections are made anew first, by the thread
        if batch.attempts or (manager is not None and (manager.fatal_error is not None or manager.needs_producer_id)):
            return False
        leader = self._metadata.cluster.leader_for(batch.topic_partition)
        return leader is not None and self._wire.client.is_ready(leader.node_id, now_ms)

    def send_at_once(self, now_ms: int) -> None:
        """Send a batch of which `can_send_at_once` said so; its answer is for `hear`, or for a turn.

        Args:
            now_ms: Monotonic time, in ms.
        """
        self._send_producer_data(now_ms)
        if self._acks == 0 or not self._wire.client.in_flight_request_count():
            self._wire.client.hear(now_ms)  # nobody answers: it is over as soon as it is written, or refused

    def hear(self, now_ms: int) -> bool:
        """Take what the brokers have answered by now, and send nothing.

        Args:
            now_ms: Monotonic time, in ms.

        Returns:
            Whether that ended a request. It does not where connections are made anew first, by the thread.
        """
        return not self._has_thawed(now_ms) and bool(self._wire.client.hear(now_ms))

    def recover(self, now_ms: int) -> None:
        """Go on after a turn that ended half way, whatever ended it.

        Whatever was on its way counts as lost with the wire: it is sent again, with its sequence numbers. Only the
        batches' states are believed: each is in its partition's list from its first record until it is done.
        """
        log.warning("A turn of the sender ended half way: all connections are made anew")
        self._metadata.failed_update(now_ms)  # what was asked for may be lost, and a bug is not to be met without pause
        self._begin_anew(now_ms, "a turn of the sender ended half way")

    def _has_thawed(self, now_ms: int) -> bool:
        """Whether nobody ran for longer than request.timeout.ms, until now."""
        return self._freeze is not None and self._freeze.has_thawed(now_ms)

    def _thaw(self, now_ms: int) -> None:
        """Begin with new connections, after time in which nobody ran: those there are may be dead without a word."""
        assert self._freeze is not None, "it said so"
        self._wire.client.hear(now_ms)  # first: what was answered meanwhile was, whatever became of the connection
        self._begin_anew(now_ms, "the process could not run for longer than request.timeout.ms")
        self._freeze.acknowledge()

    def _begin_anew(self, now_ms: int, why: str) -> None:
        self._wire.renew()
        self._metadata.request_update()
        for batch in self._accumulator.batches():
            self._completion.recover(batch, now_ms, why)
        self._accumulator.on_recovered()

    def abort(self, error: KafkaError) -> int:
        """Fail what is left, when the connections are closed; return how many records that were."""
        return self._completion.abort(error)

    def _step_producer_id(self, manager: TransactionManager, now_ms: int) -> int:
        """See to what keeps batches from being numbered as they come; return how long the poll may wait, in ms."""
        if manager.fatal_error is not None:
            if self._accumulator.has_undrained():
                self._completion.abort(manager.fatal_error, only_undrained=True)
            return NEVER_MS
        manager.settle()
        # Without any record the producer stays silent: making one touches no network.
        if not manager.needs_producer_id or not self._accumulator.has_incomplete():
            return NEVER_MS
        assert self._producer_id_request is not None, "made with the manager"
        return self._producer_id_request.step(now_ms)

    def _send_producer_data(self, now_ms: int) -> int:
        """Send what is ready; return how long the poll may wait, in ms."""
        manager = self._transaction_manager
        if self._metadata.refusals:
            for refusal in self._metadata.take_refusals():
                self._completion.refuse(refusal)
        timeout_ms = NEVER_MS if manager is None or manager.is_undisturbed else self._step_producer_id(manager, now_ms)
        cluster = self._metadata.cluster
        check = self._accumulator.ready(cluster, now_ms)
        while check.expired:
            for batch in check.expired:
                self._completion.expire(batch, now_ms)
            if manager is not None and not manager.is_undisturbed:
                # What waited for their fate goes now: nothing else ends the poll.
                timeout_ms = min(timeout_ms, self._step_producer_id(manager, now_ms))
            check = self._accumulator.ready(cluster, now_ms)
        if self._partition_load is not None:
            self._partition_load.report(cluster)
        if check.unknown_leader_topics:
            # A topic whose leader is elected now, or that metadata forgot while its records waited.
            for topic in check.unknown_leader_topics:
                self._metadata.add(topic, now_ms)
            self._metadata.request_update()
        client = self._wire.client
        nodes: list[Node] = []
        for node in check.ready_nodes.values():
            can_drain = client.ready(node, now_ms)
            if self._partition_load is not None:
                self._partition_load.on_ready_node(node.node_id, now_ms, can_drain=can_drain)
            if can_drain:
                nodes.append(node)
            else:
                timeout_ms = min(timeout_ms, client.poll_delay_ms(node, now_ms))
        next_check_ms = check.next_ready_check_delay_ms
        is_changed = bool(nodes) and next_check_ms != NEVER_MS  # what was to linger or to back off may be gone
        while nodes:
            # One request holds one batch of a partition. Several rounds fill the connection up to its limit in one
            # turn; what stays behind waits for an answer, and the answer ends the poll.
            drained = []
            for node in nodes:
                batches, has_more = self._accumulator.drain(
                    node.node_id, check.partitions[node.node_id], self._max_request_size_bytes, now_ms)
                drained.append((node, batches, has_more))
            nodes = []
            for node, batches, has_more in drained:
                if batches:
                    self._send(node.node_id, batches, cluster, now_ms)
                is_changed |= has_more
                if has_more and client.ready(node, now_ms):
                    nodes.append(node)
        if is_changed:
            next_check_ms = self._accumulator.ready(cluster, now_ms).next_ready_check_delay_ms
        return min(timeout_ms, next_check_ms, check.next_expiry_delay_ms)

    def _send(self, node_id: int, batches: Sequence[ProducerBatch], cluster: Cluster, now_ms: int) -> None:
        by_partition: BatchesByPartition = {}
        size_bytes = 0
        for batch in batches:
            move(batch, BatchState.ON_WIRE)
            size_bytes += batch.size_bytes
            by_partition[batch.topic_partition] = batch
        totals = self._metrics.totals
        totals["request-total"] += 1
        totals["batch-total"] += len(batches)
        totals["batch-bytes-total"] += size_bytes
        request = produce_request(batches, cluster, acks=self._acks, timeout_ms=self._request_timeout_ms)
        self._wire.client.send(ClientRequest(
            node_id, ApiKeys.PRODUCE, request.build, expect_response=self._acks != 0,
            timeout_ms=self._request_timeout_ms,
            on_complete=partial(self._completion.on_response, batches=by_partition, topic_names=request.topic_names),
            max_version=request.max_version, created_ms=now_ms), now_ms)
