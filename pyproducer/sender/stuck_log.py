"""Which partitions are stuck, why and for how long: a line of the log when it begins, now and then, and at its end.

    orders-1: NOT_ENOUGH_REPLICAS (node 3), 4 attempts, the oldest record waits 6 s; it fails in 114 s ...
    orders-1: goes on after 34 s (NOT_ENOUGH_REPLICAS (node 3))

A retry by itself is everyday, and no line: a partition is stuck when its oldest record has waited for some seconds and
something keeps it from being stored. That is looked for once a second among all that is not done, so it is found
whatever it is: refused attempts, a leader that cannot be reached, no leader, no producer id. A queue that is long and
moves is not stuck. Brokers that throttle us are told in the same way.

Road:    Sender's turn, Completion -> [stuck log] -> the application's log; `stuck` and `throttled` for whoever counts
Thread:  whoever takes the sender's turns; reads no clock.
Source:  ours. Java writes a warning at each retry, librdkafka counts them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from pyproducer.accumulator.batch_state import WAITING
from pyproducer.common.clock import NEVER_MS
from pyproducer.common.cluster import TopicPartition, address_text
from pyproducer.common.error_codes import ErrorCode
from pyproducer.common.errors import ApiError
from pyproducer.common.limited_log import LimitedLog
from pyproducer.common.printable import LONGEST_NAME, printable
from pyproducer.common.secrets import shown_text
from pyproducer.common.sender_log import SenderLog, sender_log

if TYPE_CHECKING:
    from pyproducer.accumulator.producer_batch import ProducerBatch
    from pyproducer.accumulator.record_accumulator import RecordAccumulator
    from pyproducer.accumulator.transaction_manager import TransactionManager
    from pyproducer.client.metadata import ProducerMetadata

log: SenderLog = sender_log(__name__)

# How often is looked; and from when on it is told, beyond what a batch lingers on purpose.
LOOK_MS = 1_000
STUCK_AFTER_MS = 5_000
# So long after a line comes the next one about the same partition and cause.
AGAIN_MS = 30_000
# Of so many partitions with one cause each has its line; of more than that the first ones are named.
MOST_LINES = 3
# A broker throttles us when it wants pauses of so much in all, within the time without a pause after which it is over.
THROTTLED_MS = 1_000
THROTTLE_WINDOW_MS = 10_000
_FEWEST_ATTEMPTS = 2


class Cause(NamedTuple):
    """What keeps records from being stored.

    Attributes:
        name: What is the same at each attempt: the name of a code or of an error, or "unreachable", "no leader", "no
            producer id".
        node_id: Which node it is about; -1 for none.
        text: In words, as it is now.
    """

    name: str
    node_id: int
    text: str

    @property
    def kind(self) -> tuple[str, int]:
        """By what causes are told apart."""
        return self.name, self.node_id


@dataclass(slots=True)
class Stuck:
    """A partition that is stuck.

    Attributes:
        cause: Why, as it was seen last.
        attempts: How often its oldest batch was tried.
        waiting_ms: How long its oldest record waits by now.
        since_ms: When the record was handed over with which it began, in monotonic ms.
        batch: Its oldest one.
        told_ms: When each cause was told last.
    """

    cause: Cause
    attempts: int
    waiting_ms: int
    since_ms: int
    batch: ProducerBatch
    told_ms: dict[tuple[str, int], int] = field(default_factory=dict)

    def is_due(self, now_ms: int) -> bool:
        """Whether its cause is to be told."""
        return now_ms - self.told_ms.get(self.cause.kind, -NEVER_MS) >= AGAIN_MS

    @property
    def has_failed(self) -> bool:
        """Whether its oldest records have failed."""
        return self.batch.result.error_for is not None


@dataclass(slots=True)
class Throttled:
    """A node that wants pauses from us (KIP-219).

    Attributes:
        total_ms: The pauses that it has wanted since it began, in ms.
        last_ms: The last one, in ms.
        since_ms: When it began, in monotonic ms.
    """

    total_ms: int
    last_ms: int
    since_ms: int
    last_seen_ms: int
    told_ms: int | None = None


class StuckLog:
    """Sees which partitions are stuck, and which nodes throttle, and writes lines about it.

    Args:
        accumulator: Where the batches are.
        metadata: Who leads, and which addresses do not work.
        transaction_manager: None without idempotence.
        linger_ms: For how long a batch waits on purpose.
        delivery_timeout_ms: When it is given up.
        floods: Others' lines, of which some may be left out: that is told here when its time has come.

    Attributes:
        stuck: The partitions that are stuck now. Written here only.
        throttled: The nodes that throttle us now. Written here only.
    """

    def __init__(self, accumulator: RecordAccumulator, metadata: ProducerMetadata,
                 transaction_manager: TransactionManager | None, *,
                 linger_ms: int, delivery_timeout_ms: int, floods: Sequence[LimitedLog] = ()) -> None:
        self._accumulator = accumulator
        self._metadata = metadata
        self._transaction_manager = transaction_manager
        self._linger_ms = linger_ms
        self._delivery_timeout_ms = delivery_timeout_ms
        self._floods = tuple(floods)
        self._next_look_ms = -NEVER_MS
        self.stuck: dict[TopicPartition, Stuck] = {}
        self.throttled: dict[int, Throttled] = {}

    def on_throttle(self, node_id: int, throttle_ms: int, now_ms: int) -> None:
        """A node has answered, and wants a pause of so long; 0 for none."""
        if throttle_ms <= 0:
            return
        throttled = self.throttled.get(node_id)
        if throttled is None:
            throttled = self.throttled[node_id] = Throttled(0, 0, now_ms, now_ms)
        throttled.total_ms += throttle_ms
        throttled.last_ms = throttle_ms
        throttled.last_seen_ms = now_ms + throttle_ms

    @property
    def is_busy(self) -> bool:
        """Whether anything was told of which there is more to tell."""
        return bool(self.stuck or self.throttled or any(flood.left_out_count for flood in self._floods))

    def step(self, now_ms: int) -> int:
        """Look, and write what there is to say; return how long until this must be called again, in ms.

        To be called while anything waits, or `is_busy`.
        """
        if now_ms < self._next_look_ms:
            return self._next_look_ms - now_ms
        self._next_look_ms = now_ms + LOOK_MS
        self._look_at_partitions(now_ms)
        if self.throttled:
            self._look_at_nodes(now_ms)
        for flood in self._floods:
            flood.step(now_ms)
        return LOOK_MS

    def end(self) -> None:
        """Tell what is left: the producer ends."""
        for flood in self._floods:
            flood.tell_left_out()

    # Partitions.

    def _look_at_partitions(self, now_ms: int) -> None:
        oldest: dict[TopicPartition, ProducerBatch] = {}
        for batch in self._accumulator.batches():
            if not batch.is_done:
                oldest.setdefault(batch.topic_partition, batch)
        due: list[Stuck] = []
        for batch in oldest.values():
            waiting_ms = now_ms - batch.created_ms
            if waiting_ms < STUCK_AFTER_MS + (0 if batch.attempts else self._linger_ms):
                continue
            cause = self._cause_of(batch)
            if cause is not None:
                stuck = self._note(batch, cause, waiting_ms)
                if stuck.is_due(now_ms):
                    due.append(stuck)
        self._tell_stuck(due, now_ms)
        self._tell_ended([stuck for topic_partition, stuck in self.stuck.items()
                          if oldest.get(topic_partition) is not stuck.batch], now_ms)

    def _note(self, batch: ProducerBatch, cause: Cause, waiting_ms: int) -> Stuck:
        stuck = self.stuck.get(batch.topic_partition)
        if stuck is None:
            stuck = self.stuck[batch.topic_partition] = Stuck(cause, 0, 0, batch.created_ms, batch)
        stuck.cause, stuck.batch, stuck.attempts, stuck.waiting_ms = cause, batch, batch.attempts, waiting_ms
        return stuck

    def _cause_of(self, batch: ProducerBatch) -> Cause | None:
        """Say what keeps a batch from being stored, as far as that is more than its turn; None where nothing does."""
        error = batch.last_error if batch.attempts >= _FEWEST_ATTEMPTS else None
        if isinstance(error, ApiError):
            name, node_id = ErrorCode.name_of(error.code), -1 if error.node_id is None else error.node_id
            return Cause(name, node_id, f"{name} (node {node_id})")
        if batch.state not in WAITING and error is None:
            return None  # its first request is on its way
        leader = self._metadata.cluster.leader_for(batch.topic_partition)
        if leader is None:
            why = self._metadata.describe_failure(batch.topic_partition.topic)
            return Cause("no leader", -1, _words(f"no leader is known ({why})"))
        failure = self._metadata.last_errors().get(address_text(leader.host, leader.port))
        if failure is not None:
            return Cause("unreachable", leader.node_id,
                         _words(f"its leader, node {leader.node_id}, cannot be reached: {failure}"))
        if error is not None:
            return Cause(type(error).__name__, leader.node_id, _words(str(error)))
        manager = self._transaction_manager
        if manager is not None and manager.needs_producer_id and not batch.has_sequence:
            return Cause("no producer id", -1, "no broker has given a producer id yet (InitProducerId)")
        return None

    def _tell_stuck(self, due: Iterable[Stuck], now_ms: int) -> None:
        for group in _by(due, lambda stuck: stuck.cause.kind):
            for stuck in group:
                stuck.told_ms[stuck.cause.kind] = now_ms  # first: the application's handler may raise
            for places, members in _lines(group):
                waiting_ms = max(stuck.waiting_ms for stuck in members)
                log.warning("%s: %s, %d attempts, the oldest record waits %d s; it fails in %d s "
                            "(delivery.timeout.ms = %d) unless that passes", places, members[0].cause.text,
                            max(stuck.attempts for stuck in members), waiting_ms // 1000,
                            max(self._delivery_timeout_ms - waiting_ms, 0) // 1000, self._delivery_timeout_ms)

    def _tell_ended(self, ended: Iterable[Stuck], now_ms: int) -> None:
        for group in _by(ended, lambda stuck: (stuck.cause.kind, stuck.has_failed)):
            for stuck in group:
                del self.stuck[stuck.batch.topic_partition]
            for places, members in _lines(group):
                how = "its oldest records have failed" if members[0].has_failed else "goes on"
                log.warning("%s: %s after %d s (%s)", places, how,
                            (now_ms - min(stuck.since_ms for stuck in members)) // 1000, members[0].cause.text)

    # Nodes.

    def _look_at_nodes(self, now_ms: int) -> None:
        for node_id, throttled in list(self.throttled.items()):
            if now_ms - throttled.last_seen_ms >= THROTTLE_WINDOW_MS:
                del self.throttled[node_id]
                if throttled.told_ms is not None:
                    log.warning("Node %d throttles this producer no more: %d ms of pauses in %d s", node_id,
                                throttled.total_ms, (throttled.last_seen_ms - throttled.since_ms) // 1000)
            elif throttled.total_ms >= THROTTLED_MS and (throttled.told_ms is None
                                                         or now_ms - throttled.told_ms >= AGAIN_MS):
                throttled.told_ms = now_ms
                log.warning("Node %d throttles this producer: its quota is used up, so the broker wants pauses, the "
                            "last one of %d ms and %d ms in all within %d s; records wait meanwhile", node_id,
                            throttled.last_ms, throttled.total_ms, max(now_ms - throttled.since_ms, 0) // 1000)


def _by(many: Iterable[Stuck], key: Callable[[Stuck], object]) -> Iterable[list[Stuck]]:
    groups: dict[object, list[Stuck]] = {}
    for stuck in many:
        groups.setdefault(key(stuck), []).append(stuck)
    return groups.values()


def _lines(group: list[Stuck]) -> Iterator[tuple[str, list[Stuck]]]:
    """Yield the partitions of one line each, with their names: one by one where they are few, else all in one."""
    names = [_name(stuck.batch.topic_partition) for stuck in group]
    if len(group) <= MOST_LINES:
        for name, stuck in zip(names, group, strict=True):
            yield name, [stuck]
    else:
        yield f"{', '.join(names[:MOST_LINES])} and {len(names) - MOST_LINES} more", group


def _name(topic_partition: TopicPartition) -> str:
    return f"{printable(topic_partition.topic, LONGEST_NAME)}-{topic_partition.partition}"


def _words(text: str) -> str:
    return printable(shown_text(text))
