"""One turn of the background thread: drain, send, poll, complete.

Road:    RecordAccumulator -> [Sender] -> NetworkClient
Thread:  sender thread only; io_thread.py loops.
Source:  Java Sender.runOnce, sendProducerData (4.1); seed 001.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from pyproducer.accumulator.batch_state import BatchState, move
from pyproducer.accumulator.delivery_tally import DeliveryTally
from pyproducer.accumulator.produce_result import own_copy
from pyproducer.accumulator.producer_batch import ProducerBatch
from pyproducer.accumulator.record_accumulator import RecordAccumulator
from pyproducer.accumulator.transaction_manager import TransactionManager
from pyproducer.client.metadata import ProducerMetadata
from pyproducer.client.request import ClientRequest
from pyproducer.common.clock import NEVER_MS
from pyproducer.common.cluster import Cluster, Node
from pyproducer.common.errors import KafkaError, ProducerClosedError
from pyproducer.common.sender_log import SenderLog, sender_log
from pyproducer.hotpath import CODEC, NodeRow
from pyproducer.observe.registry import Registry
from pyproducer.protocol.apis import ApiKeys
from pyproducer.sender.completion import Completion
from pyproducer.sender.freeze import Freeze
from pyproducer.sender.partition_load import PartitionLoad
from pyproducer.sender.produce_request import (
    LAST_VERSION_BEFORE_TRANSACTIONS_V2,
    BatchesByPartition,
    produce_request,
)
from pyproducer.sender.requests.own_requests import OwnRequests
from pyproducer.sender.stuck_log import StuckLog
from pyproducer.sender.telemetry import Telemetry
from pyproducer.sender.transaction_steps import TransactionSteps

if TYPE_CHECKING:
    from pyproducer.client.wire import Wire

log: SenderLog = sender_log(__name__)

_GOODBYE_MS = 300
"""So long close() waits at most for a broker to take the last metrics."""


class Sender:
    """Moves batches from the accumulator to the brokers, one step at a time."""

    def __init__(self, *, wire: Wire, metadata: ProducerMetadata, accumulator: RecordAccumulator,
                 completion: Completion, own_requests: OwnRequests | None,
                 transaction_manager: TransactionManager | None, acks: int, max_request_size_bytes: int,
                 request_timeout_ms: int, registry: Registry, move_on: Callable[[int], int], tally: DeliveryTally,
                 freeze: Freeze, partition_load: PartitionLoad | None = None, stuck_log: StuckLog | None = None,
                 delivery_timeout_ms: int = NEVER_MS, telemetry: Telemetry | None = None) -> None:
        self._telemetry = telemetry
        self._wire = wire
        self._metadata = metadata
        self._accumulator = accumulator
        self._completion = completion
        self._own_requests = own_requests
        self._transaction_manager = transaction_manager
        transactions = None if transaction_manager is None else transaction_manager.transactions
        self._transactions = transactions
        self._steps: TransactionSteps | None = None
        if transaction_manager is not None and transactions is not None and own_requests is not None:
            self._steps = TransactionSteps(manager=transaction_manager, transactions=transactions,
                                           accumulator=accumulator, completion=completion, requests=own_requests,
                                           longest_end_ms=delivery_timeout_ms)
        self._acks = acks
        self._max_request_size_bytes = max_request_size_bytes
        self._request_timeout_ms = request_timeout_ms
        self._registry = registry
        # Nodes that took nothing in the last turn, which had something for them: since when, and why.
        self._held_up: list[tuple[NodeRow, int, int]] = []
        self._compresses = accumulator.compresses
        self._partition_load = partition_load
        self._move_on = move_on  # lets records go on whose topic is known now; returns when to call it again, in ms
        self._tally = tally
        self._freeze = freeze
        self._stuck_log = stuck_log

    def run_once(self, now_ms: int, longest_wait_ms: int = NEVER_MS) -> None:
        """Take one turn: send what is ready, then wait for the network until something is due.

        Args:
            now_ms: Monotonic time, in ms.
            longest_wait_ms: How long it may wait for the network at most, in ms.
        """
        tally = self._tally
        freeze = self._freeze
        self._registry.ledger.now_ms = now_ms
        for row, reason, from_ms in self._held_up:
            row.held.note(reason, from_ms, now_ms)
        self._held_up.clear()
        if now_ms >= self._registry.due_ms:
            self._registry.roll(now_ms)
        if now_ms >= freeze.due_ms and freeze.has_thawed(now_ms):
            now_ms = self._thaw(now_ms)
        room_ms = self._move_on(now_ms) if self._accumulator.waiting.queues else NEVER_MS
        # What failed in a turn is counted and logged at the beginning of the next, which comes at once.
        tally_ms = tally.step(now_ms) if tally.is_busy else NEVER_MS
        telemetry_ms = NEVER_MS if self._telemetry is None else self._telemetry.step(now_ms)
        timeout_ms = min(longest_wait_ms, room_ms, tally_ms, telemetry_ms)
        stuck_log = self._stuck_log
        if stuck_log is not None and (self._accumulator.busy or stuck_log.is_busy):
            timeout_ms = min(timeout_ms, stuck_log.step(now_ms))
        manager = self._transaction_manager
        if (self._accumulator.busy or self._metadata.refusals or self._partition_load is not None
                or self._steps is not None or (manager is not None and manager.refusal is not None)):
            timeout_ms = min(timeout_ms, self._send_producer_data(now_ms))
        if self._accumulator.is_closed and not self._accumulator.has_incomplete():
            timeout_ms = min(timeout_ms, self.ms_to_go_on(now_ms))  # the last batch ended just now
        self._wire.client.poll(timeout_ms, now_ms)

    def has_nothing_under_way(self) -> bool:
        """Whether no answer, no connection and no name is awaited; and so nothing, but for new records."""
        return self._wire.client.has_nothing_under_way() and (self._steps is None or not self._steps.has_work)

    def ms_to_go_on(self, now_ms: int) -> int:
        """How long a producer that is being closed, and has no records any more, still has something to do; or 0.

        That is to end its transaction, or to wait until brokers have what gets no answer (acks=0).
        """
        if self._acks == 0:
            return self._wire.client.confirmation_wait_ms(now_ms)
        return 0 if self._steps is None else self._steps.ms_to_go_on(now_ms)

    def can_send_at_once(self, batch: ProducerBatch, now_ms: int) -> bool:
        """Whether a turn would send a batch: its leader is connected, and nothing else comes first."""
        manager = self._transaction_manager
        if self._freeze.has_thawed(now_ms):
            return False  # connections are made anew first, by the thread
        if batch.attempts or (manager is not None and (manager.fatal_error is not None or manager.needs_producer_id)):
            return False
        if self._transactions is not None and not self._transactions.may_number(batch.topic_partition):
            return False
        leader = self._metadata.cluster.leader_for(batch.topic_partition)
        return leader is not None and self._wire.client.is_ready(leader.node_id, now_ms)

    def recover(self, now_ms: int) -> None:
        """Go on after a turn that ended half way, whatever ended it.

        Whatever was on its way counts as lost with the wire: it is sent again, with its sequence numbers. Only the
        batches' states are believed: each is in its partition's list from its first record until it is done.
        """
        log.warning("A turn of the sender ended half way: all connections are made anew")
        self._metadata.failed_update(now_ms)  # what was asked for may be lost, and a bug is not to be met without pause
        self._begin_anew(now_ms, "a turn of the sender ended half way")

    def _thaw(self, now_ms: int) -> int:
        """Begin with new connections, after time in which nobody ran: those there are may be dead without a word.

        Returns:
            When that was.
        """
        self._wire.client.hear(now_ms)  # first: what was answered meanwhile was, whatever became of the connection
        heard_ms = self._completion.clock.now_ms()
        self._begin_anew(heard_ms, "the process could not run for longer than request.timeout.ms")
        return heard_ms

    def _begin_anew(self, now_ms: int, why: str) -> None:
        self._wire.renew()
        self._metadata.request_update()
        self._accumulator.waiting.resume()  # first: a batch tells the futures that look into it
        for batch in self._accumulator.batches():
            self._completion.recover(batch, now_ms, why)
        self._accumulator.on_recovered()
        self._freeze.acknowledge()

    def abort(self, error: KafkaError) -> int:
        """Fail what is left, when the connections are closed; return how many records that were."""
        if isinstance(error, ProducerClosedError):
            aborted = self._completion.give_up(error, self._trouble)
        else:
            aborted = self._completion.abort(error)  # it says why by itself
        if self._transactions is not None:
            own = own_copy(error)
            if self._trouble:
                own.args = (f"{error}; {self._trouble}",)
            self._transactions.end_life(own)
        return aborted

    def say_goodbye(self, now_ms: int) -> None:
        """Let a broker that gets metrics have the last of them, where it takes them at once."""
        telemetry = self._telemetry
        if telemetry is None:
            return
        deadline_ms = now_ms + _GOODBYE_MS
        while now_ms < deadline_ms and telemetry.say_goodbye(now_ms):
            self._wire.client.poll(deadline_ms - now_ms, now_ms)
            now_ms = self._completion.clock.now_ms()

    def _step_own_requests(self, manager: TransactionManager, now_ms: int) -> int:
        """See to what keeps batches from being numbered as they come; return how long the poll may wait, in ms."""
        if self._steps is not None:
            return self._steps.step(now_ms)
        refusal = manager.fatal_error or manager.refusal
        if refusal is not None:
            if self._accumulator.has_undrained():
                self._completion.abort(refusal, only_undrained=True)
            manager.refusal = None  # last: a turn that ends half way fails the rest in the next
        if manager.fatal_error is not None:
            return NEVER_MS
        manager.settle()
        if not manager.needs_producer_id:
            return NEVER_MS
        assert self._own_requests is not None, "made with the manager"
        return self._own_requests.step(now_ms)

    def _send_producer_data(self, now_ms: int) -> int:
        """Send what is ready; return how long the poll may wait, in ms."""
        manager = self._transaction_manager
        if self._metadata.refusals:
            for refusal in self._metadata.take_refusals():
                self._completion.refuse(refusal)
                if self._own_requests is not None:
                    self._own_requests.refuse(refusal)
        timeout_ms = NEVER_MS if manager is None or manager.is_undisturbed else self._step_own_requests(manager, now_ms)
        cluster = self._metadata.cluster
        check = self._accumulator.ready(cluster, now_ms)
        while check.expired:
            for batch in check.expired:
                self._completion.expire(batch, now_ms, self._trouble)
            if manager is not None and not manager.is_undisturbed:
                # What waited for their fate goes now: nothing else ends the poll.
                timeout_ms = min(timeout_ms, self._step_own_requests(manager, now_ms))
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
                self._note_held_up(node.node_id, now_ms)
        next_check_ms = check.next_ready_check_delay_ms
        is_changed = bool(nodes) and next_check_ms != NEVER_MS  # what was to linger or to back off may be gone
        is_first = True
        while nodes:
            # One request holds one batch of a partition. Several rounds fill the connection up to its limit in one
            # turn; what stays behind waits for an answer, and the answer ends the poll. The first takes along what
            # lingers, the others only what is due: requests of nearly empty batches cost as much as full ones.
            drained = []
            if self._compresses:
                self._registry.ledger.compresses_from_ms = self._completion.clock.now_ms()
            for node in nodes:
                batches, has_more = self._accumulator.drain(
                    node.node_id, check.partitions[node.node_id], self._max_request_size_bytes, now_ms,
                    only_due=not is_first)
                drained.append((node, batches, has_more))
            codec_ms = self._count_codec() if self._compresses else 0
            nodes, is_first = [], False
            for node, batches, has_more in drained:
                if batches:
                    self._send(node.node_id, batches, cluster, now_ms, codec_ms // len(drained))
                is_changed |= has_more
                if has_more:
                    if client.ready(node, now_ms):
                        nodes.append(node)
                    else:
                        self._note_held_up(node.node_id, now_ms)
        if is_changed:
            next_check_ms = self._accumulator.ready(cluster, now_ms).next_ready_check_delay_ms
        return min(timeout_ms, next_check_ms, check.next_expiry_delay_ms)

    def _note_held_up(self, node_id: int, now_ms: int) -> None:
        """A node takes nothing now: until the next turn its batches wait for that."""
        self._held_up.append((self._registry.node(node_id), self._wire.client.held_up_by(node_id, now_ms), now_ms))

    @property
    def _trouble(self) -> str:
        """Why the client's own requests fail, without which records may not go; "" where none does."""
        return "" if self._own_requests is None else self._own_requests.trouble

    def _count_codec(self) -> int:
        """Note how long what was drained took to be compressed; return it, in ms."""
        ledger, now_ms = self._registry.ledger, self._completion.clock.now_ms()
        began_ms, ledger.compresses_from_ms = ledger.compresses_from_ms, 0
        if now_ms > began_ms:
            self._registry.producer.codec_ms_total += now_ms - began_ms
            ledger.sender.note(CODEC, began_ms, now_ms)
        return now_ms - began_ms

    def _send(self, node_id: int, batches: Sequence[ProducerBatch], cluster: Cluster, now_ms: int,
              codec_ms: int) -> None:
        counted = self._registry.producer
        by_partition: BatchesByPartition = {}
        size_bytes = 0
        for batch in batches:
            move(batch, BatchState.ON_WIRE)
            batch_bytes = batch.size_bytes
            size_bytes += batch_bytes
            if batch_bytes > counted.batch_size_max:
                counted.batch_size_max = batch_bytes
            by_partition[batch.topic_partition] = batch
        counted.request_total += 1
        counted.batch_total += len(batches)
        counted.batch_bytes_total += size_bytes
        transactions = self._transactions
        build, max_version, topic_names = produce_request(
            batches, cluster, acks=self._acks, timeout_ms=self._request_timeout_ms,
            transactional_id=None if transactions is None else transactions.transactional_id,
            highest_version=None if transactions is None or transactions.is_v2 else LAST_VERSION_BEFORE_TRANSACTIONS_V2)
        self._wire.client.send(ClientRequest(
            node_id, ApiKeys.PRODUCE, build, expect_response=self._acks != 0,
            timeout_ms=self._request_timeout_ms,
            record_count=0 if self._acks else sum(batch.record_count for batch in batches),
            on_complete=partial(self._completion.on_response, batches=by_partition, topic_names=topic_names),
            max_version=max_version), now_ms)
        self._registry.ledger.on_sent(self._registry.node(node_id), batches, now_ms, codec_ms)
