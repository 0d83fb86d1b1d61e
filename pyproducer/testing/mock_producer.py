"""MockProducer: a producer for tests of code that sends, without any broker.

    producer = MockProducer(value_serializer="json", partitions={"orders": 3})
    announce(order, producer)                                        # the code under test calls producer.send()
    assert producer.history()[0].value == {"id": 42}

send() is KafkaProducer's own, with its checks, interceptors, serializers and partitioner; only where a batch would take
the record, it is kept here. With auto_complete=False a test says what becomes of it: complete_next(), error_next().
What a call is to raise is set before: producer.flush_exception = KafkaTimeoutError("late", phase="flush").

Road:    beside it; send() -> RecordSender -> [history].
Thread:  any; callbacks run in the thread that completes a record, which with auto_complete is that of send().
Source:  Java MockProducer (4.1). Differs from Java: serializers and interceptors run; close() completes what is left,
         as KafkaProducer's sends it; records of a fenced producer fail by their futures.
"""

from __future__ import annotations

import os
import threading
import uuid
from collections import Counter, deque
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, overload

from pyproducer.accumulator.batch_future import BatchFuture
from pyproducer.accumulator.delivery_tally import DeliveryTally
from pyproducer.accumulator.failure import Failure
from pyproducer.accumulator.life import Life
from pyproducer.accumulator.produce_result import (
    OnCompletion,
    ProduceRequestResult,
    fail_future,
    on_raised,
    own_copy,
)
from pyproducer.accumulator.serialized_record import SerializedRecord
from pyproducer.client.metadata_errors import no_such_partition
from pyproducer.common.class_names import close_parts
from pyproducer.common.clock import SystemClock
from pyproducer.common.cluster import Cluster, Node, PartitionInfo, TopicPartition
from pyproducer.common.consumer_offsets import OffsetAndMetadata
from pyproducer.common.delivery_summary import DeliverySummary
from pyproducer.common.error_codes import ErrorCode, error_for_code
from pyproducer.common.errors import DeliveryFailedError, IllegalStateError, KafkaError
from pyproducer.common.loop_inbox import inbox_of_running_loop
from pyproducer.common.record_future import FutureRecordMetadata
from pyproducer.common.records import HeadersLike, ProducerRecord, RecordMetadata, to_topic
from pyproducer.common.topic_name import ensure_topic_name
from pyproducer.common.waiting import checked_timeout
from pyproducer.hotpath import HEADER_SIZE_BYTES, Acknowledgement, ProducerBase, RouteTable, run_callbacks
from pyproducer.observe.catalog import PARTITION
from pyproducer.observe.registry import Registry
from pyproducer.observe.why import Material, Setting, Why, explain
from pyproducer.producer.application_parts import application_parts
from pyproducer.producer.config import CONFIG_TABLE, ProducerConfig
from pyproducer.producer.config.other_names import laid_over
from pyproducer.producer.do_send import RecordSender
from pyproducer.producer.interceptors import ProducerInterceptors, Telling
from pyproducer.producer.kafka_producer import K, V
from pyproducer.producer.live_view import PartitionState
from pyproducer.producer.metrics import ProducerMetrics, metrics_of
from pyproducer.producer.mistakes import not_settings, takes_no_timeout
from pyproducer.producer.partitioning import Partitioning
from pyproducer.producer.send_rows import send_rows
from pyproducer.producer.transaction_calls import TransactionBlock
from pyproducer.producer.why import save_to, to_window_ms
from pyproducer.record.layout import NO_TIMESTAMP
from pyproducer.testing.mock_transactions import MockTransactions
from pyproducer.transaction.prepared_transaction import PreparedTransaction

if TYPE_CHECKING:
    from datetime import datetime

    from pyproducer.testing.async_mock_producer import AsyncMockProducer

_NODE = Node(1, "mock", 9092)


class _Told(Telling):
    """One that knows the record on its way."""

    __slots__ = ("record",)

    def __init__(self, interceptors: ProducerInterceptors, record: ProducerRecord) -> None:
        super().__init__(interceptors, record.headers)
        self.record = record


class _Completion:
    """A record that is not done."""

    __slots__ = ("error", "future", "is_pending", "offset", "outcome")

    def __init__(self, outcome: ProduceRequestResult, future: FutureRecordMetadata, offset: int) -> None:
        self.outcome = outcome
        self.future = future
        self.offset = offset
        self.error: KafkaError | None = None
        self.is_pending = False


class _Telling(threading.local):
    """Around callbacks: how deep the current thread is in them."""

    depth = 0

    def __enter__(self) -> None:
        self.depth += 1

    def __exit__(self, *_: object) -> None:
        self.depth -= 1

    def ensure_outside(self, call: str) -> None:
        """Refuse a call inside a callback, as KafkaProducer does, which would wait there for itself."""
        if self.depth:
            raise IllegalStateError(f"{call} inside a callback would wait for itself: call it from another thread")


class _Sender(RecordSender):
    """The road's other side: everything of RecordSender, but for what would need a broker."""

    sees_every_record = True
    begin: Callable[[], object]
    take: Callable[[SerializedRecord, int | None, Callable[[], object]], _Completion]
    end_taken: Callable[[_Completion], object]

    def intercept(self, record: ProducerRecord,
                  on_completion: OnCompletion | None) -> tuple[ProducerRecord, Acknowledgement]:
        """Let the interceptors see a record, and keep it on its way."""
        self.begin()
        record = self.interceptors.on_send(record)
        return record, Acknowledgement(_Told(self.interceptors, record), on_completion)

    def enqueue(self, record: SerializedRecord, max_block_ms: int | None = None,
                  choose: Any = None, place: Any = None) -> FutureRecordMetadata:
        """Keep a record where a batch would take it."""
        topic, partition, cluster = record.topic, record.partition, self._metadata.cluster
        count = cluster.table(topic).count
        if choose is not None and partition is None and count:
            partition = choose(topic, record.key, record.key_bytes, record.value, record.value_bytes, cluster, count)
        completion = self.take(record, partition, lambda: self.ensure_may_send(record.within))
        if self._on_append is not None and partition is not None:
            self._on_append(topic, partition, record.size_bytes - HEADER_SIZE_BYTES, cluster, False)
        self.end_taken(completion)
        future: FutureRecordMetadata = completion.future
        return future


class _Metadata:
    """What RecordSender asks of metadata."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.queues: dict[object, object] = {}  # of a waiting room: nobody waits

    def add(self, topic: str, now_ms: int) -> None:
        """Nobody is asked."""

    def is_waiting(self, topic: str, partition: int | None = None) -> bool:
        """Of a waiting room: nobody waits."""
        return False


class MockProducer(ProducerBase, Generic[K, V]):
    """Stands for a KafkaProducer in tests: keeps what is sent, and completes it when it is told to.

    Close it, or use `with`: the garbage collector does not look into the futures of records that are not done, so one
    that is dropped stays, with all that their callbacks hold, where one of these holds its future.

    Args:
        props: A KafkaProducer's settings; those of serializers, partitioner and interceptors count. None for none.
        key_serializer: As KafkaProducer's.
        value_serializer: As KafkaProducer's.
        auto_complete: Whether each record is stored at once; else by `complete_next`, `error_next` or `flush`.
        partitions: How many partitions each topic has. Records of another topic go to partition 0 unless they name one.

    Attributes:
        send_exception: What send() and send_batch() raise, whatever it is, before anybody has seen the record; None,
            as with all of these, for nothing. It changes nothing: a transaction stays as it is.
        flush_exception: The same of flush().
        partitions_for_exception: The same of partitions_for().
        close_exception: The same of close(), which does not close then.
        init_transaction_exception: The same of init_transactions().
        begin_transaction_exception: The same of begin_transaction().
        send_offsets_to_transaction_exception: The same of send_offsets_to_transaction().
        commit_transaction_exception: The same of commit_transaction().
        abort_transaction_exception: The same of abort_transaction().

    Raises:
        ConfigError: A setting is wrong.
    """

    if TYPE_CHECKING:

        @overload
        def __init__(self: MockProducer[bytes, bytes], props: Mapping[str, object] | None = None, *,
                     auto_complete: bool = True, partitions: Mapping[str, int] | None = None) -> None: ...

        @overload
        def __init__(self: MockProducer[Any, Any], props: Mapping[str, object] | None = None,
                     key_serializer: object = None, value_serializer: object = None, *, auto_complete: bool = True,
                     partitions: Mapping[str, int] | None = None) -> None: ...

    def __init__(self, props: Mapping[str, object] | None = None, key_serializer: object = None,
                 value_serializer: object = None, *, auto_complete: bool = True,
                 partitions: Mapping[str, int] | None = None) -> None:
        if isinstance(props, bool):  # Java's first parameter
            raise TypeError(f"auto_complete goes by its name: MockProducer(auto_complete={props}); serializers do, "
                            "too, key_serializer= and value_serializer=")
        refusal = None if props is None else not_settings(props, {}, "MockProducer")
        if refusal is not None:
            raise refusal
        config = ProducerConfig(CONFIG_TABLE.guarded(laid_over({"bootstrap.servers": "mock:9092"}, props or {})),
                                configurable=(key_serializer, value_serializer))
        self.auto_complete = auto_complete
        self.send_exception: BaseException | None = None
        self.flush_exception: BaseException | None = None
        self.partitions_for_exception: BaseException | None = None
        self.close_exception: BaseException | None = None
        self.init_transaction_exception: BaseException | None = None
        self.begin_transaction_exception: BaseException | None = None
        self.send_offsets_to_transaction_exception: BaseException | None = None
        self.commit_transaction_exception: BaseException | None = None
        self.abort_transaction_exception: BaseException | None = None
        self._config = config
        self._instance_id = uuid.uuid4()
        self._telling = _Telling()
        self._lock = threading.RLock()  # guards all below; not held while something of the application runs
        self._history: list[ProducerRecord] = []
        self._pending: deque[_Completion] = deque()
        self._next_offset: dict[TopicPartition, int] = {}
        self._error_of_all: KafkaError | None = None
        self._raised_count = 0  # records for which send() or send_batch() raised
        self._clock = SystemClock()
        self._life = Life(config.client_id, self._clock,
                          tally=DeliveryTally(raises=config.pyproducer_on_unretrieved == "raise"))
        self._cluster = Cluster(nodes=[_NODE], partitions=[
            PartitionInfo(topic, index, _NODE)
            for topic, count in (partitions or {}).items() for index in range(count)])
        metadata: Any = _Metadata(self._cluster)
        routes = RouteTable()
        routes.renew(self._cluster)
        self._parts = parts = application_parts(config, key_serializer, value_serializer)
        self._transactions = MockTransactions(config, self._life, self._clock, self._telling.ensure_outside)
        sender = _Sender(
            metadata=metadata, routes=routes, accumulator=metadata, room=metadata,
            partitioning=Partitioning(parts.partitioner, self._life), key_serializer=parts.key_serializer,
            value_serializer=parts.value_serializer, interceptors=parts.interceptors, clock=self._clock,
            life=self._life, wakeup_sender=lambda: None, max_request_size_bytes=config.max_request_size,
            buffer_memory_bytes=config.buffer_memory, max_block_ms=config.max_block_ms,
            transactions=self._transactions.state, count_raised=self._count_raised)
        sender.begin = lambda: self._begin(self.send_exception)
        sender.take = self._take
        sender.end_taken = self._end_taken
        self._sender = sender
        self._transactions.watch(sender.renew_gate)
        self._pave(sender.road)

    if TYPE_CHECKING:  # as KafkaProducer's

        @overload  # type: ignore[override]  # what is foreign is there to be refused
        def send(self, record: ProducerRecord, /,
                 on_completion: OnCompletion | None = None) -> FutureRecordMetadata: ...

        @overload
        def send(self, topic: str, value: V | None = None, *, key: K | None = None, partition: int | None = None,
                 timestamp: int | datetime | None = None, headers: HeadersLike | None = None,
                 on_completion: OnCompletion | None = None) -> FutureRecordMetadata: ...

        def send(self, *arguments: Any, **named: Any) -> FutureRecordMetadata:
            """See ProducerBase.send."""

    # What a test says and asks.

    def history(self) -> list[ProducerRecord]:
        """Return what was sent, in order, as interceptors left it, before serialization; failed records, too.

        What is sent in a transaction is in it from the commit on; before, `uncommitted_records` has it.
        """
        with self._lock:
            return list(self._history)

    def uncommitted_records(self) -> list[ProducerRecord]:
        """Return what was sent in the transaction that is open, in order."""
        with self._lock:
            return list(self._transactions.records)

    def uncommitted_offsets(self) -> dict[str, dict[TopicPartition, OffsetAndMetadata]]:
        """Return the offsets in the transaction that is open, by group."""
        with self._lock:
            return {group: dict(offsets) for group, offsets in self._transactions.offsets.items()}

    def consumer_group_offsets_history(self) -> list[dict[str, dict[TopicPartition, OffsetAndMetadata]]]:
        """Return the offsets of each transaction that committed some, by group, in order."""
        with self._lock:
            return list(self._transactions.committed_offsets)

    @property
    def commit_count(self) -> int:
        """How many transactions were committed."""
        return self._transactions.commit_count

    @property
    def transaction_initialized(self) -> bool:
        """Whether init_transactions() was called."""
        return self._transactions.is_initialized

    @property
    def transaction_in_flight(self) -> bool:
        """Whether a transaction is open."""
        return self._transactions.state is not None and self._transactions.state.is_open

    @property
    def transaction_committed(self) -> bool:
        """Whether the last transaction was committed."""
        return self._transactions.last_end == "committed"

    @property
    def transaction_aborted(self) -> bool:
        """Whether the last transaction was aborted."""
        return self._transactions.last_end == "aborted"

    def clear(self) -> None:
        """Forget the history, and what is not done: those futures are never done."""
        with self._lock:
            self._history.clear()
            self._pending.clear()
            self._transactions.clear()

    def complete_next(self) -> bool:
        """Store the oldest record that is not done, with the next offset of its partition; False when there is none."""
        return self._end_next(None)

    def error_next(self, error: KafkaError) -> bool:
        """Fail the oldest record that is not done; False when there is none.

        Raises:
            TypeError: It is no KafkaError, which all that futures tell is.
        """
        if not isinstance(error, KafkaError):
            raise TypeError(f"a record fails with a KafkaError, got {type(error).__name__}: {error!r}")
        return self._end_next(error)

    def fence_producer(self) -> None:
        """From now on each record fails with FatalProducerError (PRODUCER_FENCED), as does what is not done.

        So do the calls of transactions.
        """
        error = error_for_code(ErrorCode.PRODUCER_FENCED, api="Produce", node_id=_NODE.node_id)
        with self._lock:
            self._error_of_all = error
        while self._end_next(None):
            pass
        self._transactions.fail(error)

    def as_async(self) -> AsyncMockProducer[K, V]:
        """Return the same producer with the methods of AsyncKafkaProducer."""
        from pyproducer.testing.async_mock_producer import AsyncMockProducer

        return AsyncMockProducer(self)

    # KafkaProducer's.

    def send_batch(self, topic: str, values: Any, *, keys: Any = None, headers: Any = None, timestamps: Any = None,
                   partitions: Any = None) -> BatchFuture:
        """Send rows one by one; see KafkaProducer.send_batch."""
        self._begin(self.send_exception)
        within = self._sender.begin_batch()
        return send_rows(self._sender, to_topic(topic), values, keys, headers, timestamps, partitions, self._clock,
                         self._life, self._clock.timestamp_ms(), self._clock.now_ms(), within)

    def flush(self, timeout: float | None = None, *, raise_on_error: bool = False) -> None:
        """Store all that is not done; see KafkaProducer.flush.

        Raises:
            DeliveryFailedError: Records failed since the last flush(), see `raise_on_error`.
            IllegalStateError: Called from a callback.
        """
        checked_timeout(timeout)
        self._telling.ensure_outside("flush()")
        _raise(self.flush_exception)
        tally = self._life.tally
        period = tally.period
        while self._end_next(None):
            pass
        error = tally.tell(period, raises_all=raise_on_error)
        if error is not None:
            try:
                raise error
            finally:
                del error  # else it and this frame hold each other

    def _enter_loop(self) -> None:
        """Belong to the loop that runs, which a future's result() would hold up: see AsyncKafkaProducer."""
        loop = self._life.loop
        loop.inbox, loop.ident = inbox_of_running_loop(loop.inbox)[0], threading.get_ident()

    @takes_no_timeout
    def init_transactions(self, transactional_id: str | None = None) -> None:
        """Bind the transactional id; see KafkaProducer.init_transactions."""
        self._begin(self.init_transaction_exception)
        self._transactions.init(transactional_id)

    def begin_transaction(self) -> None:
        """Begin a transaction; see KafkaProducer.begin_transaction."""
        self._begin(self.begin_transaction_exception)
        self._transactions.begin()

    @takes_no_timeout
    def send_offsets_to_transaction(self, offsets: Any, group_metadata: Any) -> None:
        """Add offsets to the transaction; see KafkaProducer.send_offsets_to_transaction."""
        self._begin(self.send_offsets_to_transaction_exception)
        self._transactions.send_offsets(offsets, group_metadata)

    def prepare_transaction(self) -> PreparedTransaction:
        """Store all that is not done, and take no more; see KafkaProducer.prepare_transaction."""
        return self._transactions.prepare(self._complete_all)

    @takes_no_timeout
    def commit_transaction(self) -> None:
        """Store all that is not done, and put it into the history; see KafkaProducer.commit_transaction.

        Raises:
            AbortableTransactionError: A record failed.
        """
        self._begin(self.commit_transaction_exception)
        records = self._transactions.commit(self._complete_all)
        with self._lock:
            self._history.extend(records)

    @takes_no_timeout
    def abort_transaction(self) -> None:
        """Fail what is not done, and forget what was sent; see KafkaProducer.abort_transaction."""
        self._begin(self.abort_transaction_exception)
        self._transactions.abort(self._fail_all)

    def transaction(self) -> TransactionBlock:
        """Return a `with` block that is one transaction; see KafkaProducer.transaction."""
        return TransactionBlock(self)

    def _count_raised(self, _error: BaseException) -> None:
        with self._lock:
            self._raised_count += 1

    def _complete_all(self) -> None:
        while self._end_next(None):
            pass

    def _fail_all(self, error: KafkaError) -> None:
        while self._end_next(error):
            pass

    def partitions_for(self, topic: str) -> list[PartitionInfo]:
        """Return the partitions of a topic as they were given; one for a topic that was not.

        Raises:
            InvalidTopicError: The name is not allowed.
        """
        topic = to_topic(topic)
        self._begin(self.partitions_for_exception)
        ensure_topic_name(topic)
        return list(self._cluster.partitions_for_topic(topic)) or [PartitionInfo(topic, 0, _NODE)]

    def check(self, timeout: float | None = None) -> None:
        """Do nothing: it can always be reached."""
        checked_timeout(timeout)
        self._life.ensure_open()

    def metrics(self) -> ProducerMetrics:
        """Return how many records were sent and how many failed, and KafkaProducer's other counters, which stay 0.

        What is read from a buffer pool, a login or the sender thread is not there.
        """
        registry = Registry(self.client_id)
        registry.table(PARTITION, lambda: ())
        found = metrics_of(registry, 0)
        summary = self._life.tally.summary()
        found["record-send-total"] = float(summary.delivered)
        found["record-error-total"] = float(sum(summary.failed.values()) + self._raised_count)
        return found

    def client_instance_id(self, timeout: float | None = None) -> uuid.UUID:
        """Return an id of its own, always the same; see KafkaProducer.client_instance_id."""
        checked_timeout(timeout)
        if timeout is not None and timeout < 0:
            raise ValueError(f"timeout {timeout} is negative: client_instance_id() waits 0 seconds or more")
        self._life.ensure_open()
        return self._instance_id

    def waiting(self) -> list[PartitionState]:
        """Return of which partitions records are not done, each a batch of its own, that nobody has sent."""
        with self._lock:
            found = Counter(completion.outcome.topic_partition for completion in self._pending)
        return [PartitionState(*place, records=count, bytes=0, batches=count, in_flight=0, oldest_ms=0, attempts=0,
                               error="", leader=_NODE.node_id) for place, count in found.items()]

    def why(self, future: FutureRecordMetadata | None = None, *, last: float = 60,
            save: str | os.PathLike[str] | None = None) -> Why:
        """Say that nothing stands out: no batch is ever on its way."""
        if not last > 0:
            raise ValueError(f"last={last} is no number of seconds above 0")
        config = self._config
        material = Material(self.client_id, 0, self._clock.timestamp_ms(), to_window_ms(last), (), 0, 0, (),
                            Setting(config.batch_size, config.linger_ms, config.max_in_flight_requests_per_connection,
                                    config.buffer_memory, config.compression_type), {}, {})
        if save is not None:
            save_to(material, save)
        return explain(material)

    def config(self) -> dict[str, str | None]:
        """Return every setting and its value; secrets are hidden. See KafkaProducer.config."""
        return self._config.shown()

    @property
    def client_id(self) -> str:
        """The setting client.id, or what stands for it."""
        return self._life.client_id

    @property
    def closed(self) -> bool:
        """Whether close() was called."""
        return not self._life.is_open

    def close(self, timeout: float | None = None) -> DeliverySummary:
        """Take no more records, and store what is not done; see KafkaProducer.close.

        Raises:
            DeliveryFailedError: With pyproducer.on.unretrieved=raise: records failed, and nobody looked.
            ValueError: The timeout is negative or NaN. Nothing was closed.
        """
        longest = checked_timeout(timeout)
        if timeout is not None and timeout < 0:
            raise ValueError(f"timeout {timeout} is negative: close() waits 0 seconds or more, None until all is done")
        if self._life.is_open:
            _raise(self.close_exception)
        if self._life.begin_closing("close() of the MockProducer was called", longest):
            self._sender.refuse()
            self._transactions.close(self._fail_all)
            while self._end_next(None):
                pass
            close_parts(*self._parts)
            self._life.tally.end(self._clock.now_ms())
            self._life.end()
        failed = self._life.tally.tell(None) if self._life.tally.raises else None
        if failed is not None:
            try:
                raise failed
            finally:
                del failed  # else it and this frame hold each other
        return self._life.tally.summary()

    def __enter__(self) -> MockProducer[K, V]:
        return self

    def __exit__(self, exc_type: type[BaseException] | None, exc: BaseException | None,
                 traceback: TracebackType | None) -> None:
        try:
            self.close()
        except DeliveryFailedError:
            if exc is None:  # else that is what the test is to see
                raise

    def __repr__(self) -> str:
        with self._lock:
            return (f"<MockProducer {self.client_id} {self._life.state.value}: {len(self._history)} records sent, "
                    f"{len(self._pending)} not done>")

    # Inside.

    def _begin(self, error: BaseException | None) -> None:
        """Raise what a test wants a call to raise, unless KafkaProducer would say that it is closed."""
        self._life.ensure_open()
        _raise(error)

    def _take(self, record: SerializedRecord, partition: int | None, ensure: Callable[[], object]) -> _Completion:
        topic, key_bytes, value_bytes = record.topic, record.key_bytes, record.value_bytes
        on_completion: Any = record.on_completion
        ensure_topic_name(topic)
        metadata: Any = _Metadata(self._cluster)
        missing = None if partition is None else no_such_partition(metadata, topic, partition)
        topic_partition = TopicPartition(topic, partition or 0)
        outcome = ProduceRequestResult(topic_partition, self._life)
        future = FutureRecordMetadata(outcome, 0, record.timestamp, -1 if key_bytes is None else len(key_bytes),
                                      -1 if value_bytes is None else len(value_bytes), on_completion)
        completion = _Completion(outcome, future, -1)
        with self._lock:
            ensure()  # with the lock: whoever ends the transaction next finds the record in it
            transactions = self._transactions.state
            if transactions is not None:
                transactions.current.partitions[topic_partition] = None
            (self._history if transactions is None else self._transactions.records).append(on_completion.tell.record)
            completion.error = missing or self._error_of_all
            if not self.auto_complete and completion.error is None:
                self._pending.append(completion)
                completion.is_pending = True
        return completion

    def _end_taken(self, completion: _Completion) -> None:
        if not completion.is_pending:
            self._end(completion, completion.error)

    def _end_next(self, error: KafkaError | None) -> bool:
        with self._lock:
            if not self._pending:
                return False
            completion = self._pending.popleft()
            error = error or self._error_of_all
        self._end(completion, error)
        return True

    def _end(self, completion: _Completion, error: KafkaError | None) -> None:
        outcome, future = completion.outcome, completion.future
        topic_partition = outcome.topic_partition
        if error is not None and error.topic is None:  # in production each knows where its record was to go
            error = own_copy(error)
            error.topic, error.partition = topic_partition
        if error is not None:
            self._transactions.fail(error)
        if error is None:
            with self._lock:
                offset = self._next_offset.get(topic_partition, 0)
                self._next_offset[topic_partition] = offset + 1
            outcome.set(offset, NO_TIMESTAMP, None)
            self._life.tally.stored(outcome, topic_partition.topic, 1)
            with self._telling:
                run_callbacks([future], RecordMetadata, *topic_partition, offset, NO_TIMESTAMP, on_raised)
        else:
            failure = Failure(*topic_partition, 1, error, watched=1)
            outcome.set(-1, NO_TIMESTAMP, lambda _index: error, failure)
            self._life.tally.failed(failure, outcome)
            with self._telling:
                fail_future(future, error)
        outcome.notify()


def _raise(error: BaseException | None) -> None:
    if error is not None:
        raise error
