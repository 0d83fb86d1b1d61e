"""Where records wait whose topic, or partition, metadata does not know yet; so send() does not.

Road:    send(), send_batch() -> [waiting room] -> batches
Thread:  enter, is_waiting: any caller. move_on: the sender thread, in each turn before it drains.
Source:  ours. Differs from Java, whose send() waits for metadata up to max.block.ms: here only buffer.memory makes a
         caller wait. So partitioners run on the sender thread for such records, and what they raise fails the future.

Order. All records of an unknown topic wait in one queue, those for a partition that is missing in one of its own. Who
enters makes the queue first and looks at metadata then. Who has seen metadata that knows the topic looks for the queue
then. So of a caller who enters by old metadata and one who passes by new metadata, the second sees the first's queue,
and comes in behind him. The sender takes a queue away when it is empty, in one step against `enter`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from itertools import islice
from typing import Any

from pyproducer.accumulator.buffer_pool import Place
from pyproducer.accumulator.life import Life
from pyproducer.accumulator.producer_batch import ProducerBatch
from pyproducer.accumulator.record_accumulator import RecordAccumulator
from pyproducer.accumulator.serialized_record import SerializedRecord
from pyproducer.accumulator.waiting_records import Key, WaitingQueue, WaitingRecord
from pyproducer.client.metadata import ProducerMetadata
from pyproducer.client.metadata_errors import no_such_partition, not_known
from pyproducer.common.clock import NEVER_MS, Clock
from pyproducer.common.cluster import Cluster, TopicPartition
from pyproducer.common.errors import NOT_SENT, KafkaError, PartitionerError, with_outcome
from pyproducer.common.sender_log import SenderLog, sender_log
from pyproducer.common.topic_name import ensure_topic_name
from pyproducer.common.waiting import Cell
from pyproducer.hotpath import HEADER_SIZE_BYTES, FutureRecordMetadata

log: SenderLog = sender_log(__name__)

UNKNOWN_TOPIC_MS = 10_000
"""So long brokers may say that they do not know a topic: enough for one that is created just now, and for
auto-creation, which says so first. Java waits for max.block.ms in any case."""
_MOST_RECORDS_A_TURN = 1000  # some ms of work; then requests and answers have their turn
_MOST_DOOR_MS = 100
# A batch expires with its oldest record, so records share one only if they were sent close to each other: within this
# part of delivery.timeout.ms.
_SPREAD_DIVISOR = 64
_LOGGED_AGAIN_MS = 60_000  # so long what a partitioner raises is not logged again

Choose = Callable[[str, Any, "bytes | None", Any, "bytes | None", Cluster, int], int]
OnAppend = Callable[[str, int, int, Cluster, bool], object]


class _Lack(Enum):
    """What a record waits for before it is in its queue."""

    ROOM = "within the room's part of buffer.memory"
    MEMORY = "within all of it"


class WaitingRoom:
    """Takes records that cannot go on yet, and lets them go on, fails or expires them.

    Args:
        metadata: What is known, and asked for.
        accumulator: Where the records are, and where they go.
        clock: For deadlines.
        life: The producer's.
        wakeup_sender: Wakes the sender.
        choose_partition: Asks the partitioner, and checks what it says.
        on_append: Told of each record, for the partitioner; raises nothing.
        batch_size_bytes: batch.size.
        delivery_timeout_ms: delivery.timeout.ms.
        max_block_ms: max.block.ms.
        count_failed: Told how many records failed.
        on_failed: Told of each failure before its record is.

    Attributes:
        queues: Who waits, for what; where nobody does, nobody need ask `is_waiting`. Only for reading.
    """

    def __init__(self, *, metadata: ProducerMetadata, accumulator: RecordAccumulator, clock: Clock, life: Life,
                 wakeup_sender: Callable[[], None], choose_partition: Choose, on_append: OnAppend | None,
                 batch_size_bytes: int, delivery_timeout_ms: int, max_block_ms: int,
                 count_failed: Callable[[int], None] = lambda _count: None,
                 on_failed: Callable[[KafkaError], None] = lambda _error: None) -> None:
        self._metadata = metadata
        self._accumulator = accumulator
        self._waiting = accumulator.waiting
        self.queues: Mapping[Key, WaitingQueue] = accumulator.waiting.queues
        self._clock = clock
        self._life = life
        self._wakeup_sender = wakeup_sender
        self._choose_partition = choose_partition
        self._on_append = on_append
        self._batch_size_bytes = batch_size_bytes
        self._delivery_timeout_ms = delivery_timeout_ms
        self._spread_ms = delivery_timeout_ms // _SPREAD_DIVISOR
        self._max_block_ms = max_block_ms
        self._count_failed = count_failed
        self._on_failed = on_failed
        self._has_news = True  # somebody waits where the sender did not look yet; any thread says so, the sender looks
        # Sender thread only: what the last look at all queues was made by, and when the next is due without news.
        self._seen: tuple[Cluster, int, int] | None = None
        # What the partitioner raised that was logged last, and when.
        self._logged_kind: type[BaseException] | None = None
        self._logged_ms = 0
        self._next_look_ms = 0

    # The callers' side.

    def is_waiting(self, topic: str, partition: int | None = None) -> bool:
        """Whether records wait for a topic, or for a partition of one that is known: later ones go behind them.

        To be asked after metadata was read; see the order above.
        """
        return (topic if partition is None else (topic, partition)) in self.queues

    def enter(self, record: SerializedRecord, max_block_ms: int,
              place: Place | None = None) -> FutureRecordMetadata | None:
        """Let a serialized record wait for its topic, or its partition.

        Blocks the caller while the room's part of buffer.memory, or all of it, is used up; never for metadata.

        Args:
            record: The record.
            max_block_ms: How long it may wait from now on, for memory and then in the room.
            place: A task's in the line for memory; it is kept.

        Returns:
            Its future; None when nothing is in its way by now, so that it goes by the road.

        Raises:
            KafkaTimeoutError: It may not wait at all (phase "metadata"). Not sent.
            BufferExhaustedError: No memory within max_block_ms. Not sent.
            LoopWaitError: The same, of an event loop, which waits itself. Not sent.
            InvalidTopicError: The name is not allowed. Not sent.
            ProducerClosedError: The producer is closed. Not sent.
        """
        self._accumulator.ensure_in_no_step("send()")
        return self._life.calls.run("send()", self._enter, record, max_block_ms, place)

    def _enter(self, record: SerializedRecord, max_block_ms: int, given: Place | None) -> FutureRecordMetadata | None:
        topic, partition = record.topic, record.partition
        if not self._metadata.cluster.table(topic).count:
            ensure_topic_name(topic)
        began_ms = self._clock.now_ms()
        if max_block_ms <= 0:
            if not self._must_wait(topic, partition):
                return None
            self._ask_for(topic)
            raise not_known(self._metadata, topic, partition, self.limit)
        waiting, pool, door = WaitingRecord(record, self._life), self._accumulator.pool, self._waiting.door
        size_bytes = waiting.reserved_bytes = min(waiting.reserved_bytes, pool.total_bytes)
        self._wait_while_leaving(topic, max_block_ms)
        place, cell = given, None  # in the line for memory, at the door: in one of them at a time
        has_waited = False
        try:
            while True:
                entered = self._try_to_enter(waiting, max_block_ms, began_ms if has_waited else None, place)
                if not isinstance(entered, _Lack):
                    return entered
                queue = self.queues.get(topic)
                if not has_waited and (queue is None or not queue.records):  # else the sender asks
                    self._ask_for(topic)
                has_waited = True
                if entered is _Lack.MEMORY:
                    if cell is not None:
                        door.leave(cell)
                        cell = None
                    if place is None:
                        place = pool.enter(size_bytes, max_block_ms, began_ms)
                    else:
                        place.wait()
                else:
                    if place is not None and place is not given:
                        place.leave()  # who stands behind may have a known topic
                        place = None
                    cell = self._wait_at_door(cell, size_bytes, max_block_ms, began_ms)
        finally:
            if cell is not None:
                door.leave(cell)
            if place is not None and place is not given:
                place.leave()

    def _try_to_enter(self, waiting: WaitingRecord, max_block_ms: int, began_ms: int | None,
                      place: Place | None) -> FutureRecordMetadata | _Lack | None:
        """Put a record into its queue; return its future, or what it has to wait for, or None: it need not enter.

        Args:
            waiting: The record.
            max_block_ms: How long it may wait.
            began_ms: Since when; None for now.
            place: The caller's in the line for memory.
        """
        record = waiting.serialized
        topic, partition = record.topic, record.partition
        try:
            with self._waiting.lock:
                self._accumulator.ensure_takes_records(record.within)
                if not self._waiting.has_room(waiting.reserved_bytes):
                    return _Lack.ROOM if self._must_wait(topic, partition) else None
                # With the lock: deadlines that are moved after this look, for nobody could run, find it here.
                waiting.sent_ms = self._clock.now_ms()
                waiting.deadline_ms = min((waiting.sent_ms if began_ms is None else began_ms) + max_block_ms,
                                          waiting.sent_ms + self._delivery_timeout_ms)
                queue = self._queue_to_wait_in(topic, partition, waiting.sent_ms)
                if queue is None:
                    return None
                is_first = queue.expect(waiting)
                is_in = self._waiting.charge(waiting, queue, place)
            if is_first:
                self._tell_sender()  # also without memory: who comes next does not, for this one was first
        except BaseException:
            self._tell_sender()  # Ctrl-C may leave a record that the sender was not told of
            raise
        return waiting.future if is_in else _Lack.MEMORY

    def _ask_for(self, topic: str) -> None:
        """Have metadata asked for a topic of which no record is here: for the others the sender asks."""
        now_ms = self._clock.now_ms()
        self._metadata.add(topic, now_ms)
        self._metadata.request_update_for_topic(topic, now_ms)
        self._wakeup_sender()

    def _tell_sender(self) -> None:
        self._has_news = True  # first: who is woken finds it
        self._wakeup_sender()

    def _must_wait(self, topic: str, partition: int | None) -> bool:
        table = self._metadata.cluster.table(topic)
        return self.is_waiting(topic) or not table.count or (
            partition is not None and (partition not in table.by_index or self.is_waiting(topic, partition)))

    def _queue_to_wait_in(self, topic: str, partition: int | None, now_ms: int) -> WaitingQueue | None:
        """Return the queue that a record belongs into, None where nothing is in its way. With the room's lock held."""
        queues = self._waiting.queues
        queue = queues.get(topic)
        if queue is None:
            queue = queues[topic] = WaitingQueue(topic, None, now_ms)  # first; then the look, see the order above
        if queue.records or not self._metadata.cluster.table(topic).count:
            return queue
        del queues[topic]
        if partition is None:
            return None
        key = (topic, partition)
        queue = queues.get(key)
        if queue is None:
            queue = queues[key] = WaitingQueue(topic, partition, now_ms)
        if queue.records or partition not in self._metadata.cluster.table(topic).by_index:
            return queue
        del queues[key]
        return None

    def _wait_at_door(self, cell: Cell | None, size_bytes: int, max_block_ms: int, began_ms: int) -> Cell:
        """Wait until the door was rung, and be there for the next ring; who has just come looks again before he waits.

        Raises:
            BufferExhaustedError: The time is over, or this is a callback. Not sent.
            LoopWaitError: This is an event loop. Not sent.
        """
        waiting, pool = self._waiting, self._accumulator.pool
        if cell is None:
            pool.ensure_may_wait(size_bytes, waiting.describe, waiting.door)
            return waiting.door.enter()
        now_ms = self._clock.now_ms()
        if now_ms - began_ms >= max_block_ms:
            raise pool.exhausted(size_bytes, max_block_ms, waiting.describe())
        self._clock.wait(cell, (began_ms + max_block_ms - now_ms) / 1000)
        waiting.add_wait(self._clock.now_ms() - now_ms)
        return waiting.door.enter()

    def _wait_while_leaving(self, topic: str, max_block_ms: int) -> None:
        """Let the sender empty a queue of many records before more come in; else it might never be empty.

        The wait is short, and happens once for a record: the sender may run a callback that waits for this caller.
        """
        queue = self._waiting.queues.get(topic)
        if queue is None or not queue.is_leaving or (
                self._life.is_on_sender_thread or self._life.loop.is_here):
            return
        cell = self._waiting.door.enter()
        if queue.is_leaving and self._waiting.queues.get(topic) is queue:
            self._clock.wait(cell, min(max_block_ms, _MOST_DOOR_MS) / 1000)

    @property
    def limit(self) -> str:
        """Which setting ends the wait of a record here, and its value; for errors."""
        if self._delivery_timeout_ms < self._max_block_ms:
            return f"delivery.timeout.ms = {self._delivery_timeout_ms} ms"
        return f"max.block.ms = {self._max_block_ms} ms"

    # The sender's side.

    def move_on(self, now_ms: int) -> int:
        """Let go on what can, fail what has no hope, ask for what is not known.

        Whatever raises here, nothing is lost: a record is in its queue until it is in a batch, or told.

        Returns:
            How long until this must be called again, in ms; news of metadata end the sender's sleep anyway.
        """
        if not self._waiting.queues or self._life.role.caller:
            return NEVER_MS  # partitioners and callbacks are the thread's, which whoever enters rings
        metadata = self._metadata
        # To look at a thousand topics takes some ms, which known topics would pay in each of their turns. What may make
        # a difference is read before the queues are: whatever comes later is seen the next time.
        seen = metadata.cluster, metadata.version(), metadata.fatal_count
        if self._has_news or seen != self._seen or now_ms >= self._next_look_ms:
            self._seen = None  # a look that ends half way is no look
            self._has_news = False
            queues = list(self._waiting.queues.values())
            share = max(1, _MOST_RECORDS_A_TURN // max(1, len(queues)))
            self._next_look_ms = now_ms + min((self._step(queue, now_ms, share) for queue in queues), default=NEVER_MS)
            self._seen = seen
            self._waiting.door.ring()  # records may have left, or the topic of who waits there is known now
        return 0 if self._has_news else max(0, self._next_look_ms - now_ms)

    def _step(self, queue: WaitingQueue, now_ms: int, share: int) -> int:
        """Do the work of a turn for one queue, for at most `share` records that go on; return when to come again."""
        self._expire(queue, now_ms)
        is_known = self._is_known(queue)
        if is_known:
            self._let_go_on(queue, share)
        elif queue.records:
            self._ask(queue, now_ms)
        if self._waiting.remove_if_empty(queue):
            return NEVER_MS
        queue.is_leaving = is_known
        if is_known or queue.metadata_version < 0:  # the latter: who came while the others failed was not asked for
            return 0
        return queue.first_deadline_ms - now_ms

    def _is_known(self, queue: WaitingQueue) -> bool:
        table = self._metadata.cluster.table(queue.topic)
        return bool(table.count) if queue.partition is None else queue.partition in table.by_index

    def _expire(self, queue: WaitingQueue, now_ms: int) -> None:
        if queue.first_deadline_ms > now_ms:
            return
        for record in list(queue.records):  # copied in one call of C: callers append meanwhile
            if record.deadline_ms <= now_ms:
                self._fail(queue, record, not_known(self._metadata, queue.topic, queue.partition, self.limit))
        with self._waiting.lock:
            queue.find_first_deadline()

    def _fail(self, queue: WaitingQueue, record: WaitingRecord, error: KafkaError) -> None:
        self._count_failed(1)
        self._on_failed(error)
        self._waiting.fail(queue, record, error)

    def _ask(self, queue: WaitingQueue, now_ms: int) -> None:
        """Ask for what a queue waits for; or fail those who wait, where the last answer says that it has no sense."""
        metadata = self._metadata
        is_new = queue.metadata_version < 0
        if is_new:
            queue.fatal_seen = metadata.fatal_count
        error = metadata.untold_fatal(queue.fatal_seen)
        if error is None:
            if queue.metadata_version == metadata.version():
                return
            if not is_new:
                error = metadata.refusal(queue.topic) or metadata.absence(queue.topic, queue.opened_ms,
                                                                          UNKNOWN_TOPIC_MS)
                if error is None and queue.partition is not None:
                    error = self._absence_of_partition(queue, queue.partition, now_ms)
        if error is None:
            metadata.add(queue.topic, now_ms)
            queue.metadata_version = metadata.request_update_for_topic(queue.topic, now_ms)
            return
        # Who comes in from now on is told by the next answer.
        queue.opened_ms, queue.metadata_version = now_ms, -1
        queue.witnesses.clear()
        for record in list(queue.records):
            self._fail(queue, record, error)

    def _absence_of_partition(self, queue: WaitingQueue, partition: int, now_ms: int) -> KafkaError | None:
        """Return the error for a partition that does not exist, as far as brokers can tell; None while it may.

        A broker may lag behind, and not know of a partition that was just added. So where there are two brokers, two
        are asked; where no second can be reached, one is believed after a while.
        """
        metadata = self._metadata
        error = no_such_partition(metadata, queue.topic, partition)
        node_id = metadata.told_by(queue.topic)
        if error is None or node_id is None:
            return None
        if node_id >= 0:
            queue.witnesses.add(node_id)
        if (len(queue.witnesses) < 2 <= len(metadata.cluster.nodes)
                and now_ms - queue.opened_ms < UNKNOWN_TOPIC_MS):
            metadata.ask_another(node_id)
            return None
        return error

    def _let_go_on(self, queue: WaitingQueue, share: int) -> None:
        """Move records from the head of a queue into batches of their partitions, in order."""
        cluster = self._metadata.cluster
        table = cluster.table(queue.topic)
        batches: list[tuple[int, list[WaitingRecord]]] = []
        last: dict[int, tuple[list[WaitingRecord], int]] = {}  # by partition: its last batch, and the bytes in that
        for record in list(islice(queue.records, share)):
            error = None if record.partition is not None else self._choose(record, cluster, table.count)
            if error is not None:
                self._fail(queue, record, error)
                continue
            partition = record.partition
            assert partition is not None, "chosen, or there is an error"
            if partition not in table.by_index or (
                    queue.partition is None and self.is_waiting(queue.topic, partition)):
                self._waiting.move_to(queue, record, partition)
                self._has_news = True  # in a queue that is new, perhaps, so that this look does not come to it
                continue
            records, size_bytes = last.get(partition, ([], 0))
            if not records or size_bytes + record.size_bytes > self._batch_size_bytes or (
                    abs(record.sent_ms - records[0].sent_ms) > self._spread_ms):
                records, size_bytes = [], HEADER_SIZE_BYTES
                batches.append((partition, records))
            records.append(record)
            size_bytes += record.size_bytes
            last[partition] = records, size_bytes
            if self._on_append is not None:
                self._on_append(queue.topic, partition, record.size_bytes, cluster,
                                size_bytes >= self._batch_size_bytes)
        for partition, records in batches:
            self._accumulator.append_waiting(self._batch_of(TopicPartition(queue.topic, partition), records), records)
        while queue.records and queue.records[0].is_moved:
            self._waiting.let_go(queue, queue.records[0])

    def _choose(self, record: WaitingRecord, cluster: Cluster, count: int) -> KafkaError | None:
        """Choose the partition of a record; return what the partitioner raised, for its future."""
        try:
            topic, _, _, key, key_bytes, value, value_bytes, *_ = record.serialized
            record.partition = self._choose_partition(topic, key, key_bytes, value, value_bytes, cluster, count)
            return None
        except BaseException as raised:  # the application's; no signal arrives on this thread
            if self._life.is_forked:  # in the child the sender thread goes no further, see IoThread
                raise
            if not isinstance(raised, KafkaError):  # what futures tell; ours may be without memory
                error = PartitionerError(
                    f"The partitioner raised {raised!r} for a record for topic {record.serialized.topic!r}")
                error.__cause__ = raised
                raised = error
            self._log_raised(raised)
            return with_outcome(raised, NOT_SENT)  # what send() would have raised

    def _log_raised(self, raised: KafkaError) -> None:
        """Write a line with the traceback of what the partitioner raised; again only for another kind, or much later.

        The future has it, too, but a future may be looked at by nobody.
        """
        cause = raised.__cause__
        now_ms = self._clock.now_ms()
        if isinstance(raised, PartitionerError) and cause is not None and (
                type(cause) is not self._logged_kind or now_ms - self._logged_ms >= _LOGGED_AGAIN_MS):
            self._logged_kind, self._logged_ms = type(cause), now_ms
            log.warning("%s", raised, exc_info=cause)

    def _batch_of(self, topic_partition: TopicPartition, records: Sequence[WaitingRecord]) -> ProducerBatch:
        """Build a sealed batch of records, on the memory that they have; their futures do not look into it yet."""
        batch = ProducerBatch(
            topic_partition, created_ms=min(record.sent_ms for record in records),
            write_limit_bytes=HEADER_SIZE_BYTES + sum(record.size_bytes for record in records),
            reserved_bytes=sum(record.reserved_bytes for record in records), life=self._life)
        for index, record in enumerate(records):
            # Without its callback: the future that it has keeps that.
            future = batch.append(record.serialized._replace(on_completion=None))
            assert future is not None, "the batch is made as large as its records"
            record.batch, record.index = batch, index
        batch.open.futures = [record.future for record in records]
        batch.seal()
        return batch
