"""What a record meets between the application and the accumulator: the producer's side of send().

hotpath's Road is the way itself, in two twins; what it cannot do alone is done here, once for both.

Road:    send() -> [interceptors, serializers, partitioner] -> RecordAccumulator
Thread:  any caller.
Source:  Java KafkaProducer.doSend (4.1); seed 001.
"""

from __future__ import annotations

import codecs
import operator
from collections.abc import Callable
from typing import Any, cast

from pyproducer.accumulator.buffer_pool import LoopWaitError, Place
from pyproducer.accumulator.life import Life
from pyproducer.accumulator.produce_result import OnCompletion, failed_future
from pyproducer.accumulator.record_accumulator import RecordAccumulator
from pyproducer.accumulator.serialized_record import SerializedRecord
from pyproducer.client.metadata import ProducerMetadata
from pyproducer.common.callback import ensure_on_completion
from pyproducer.common.clock import Clock, SystemClock
from pyproducer.common.cluster import UNKNOWN_PARTITION, TopicPartition
from pyproducer.common.error_codes import ErrorCode
from pyproducer.common.errors import (
    ApiError,
    AuthenticationError,
    BufferExhaustedError,
    IllegalStateError,
    KafkaError,
    KafkaTimeoutError,
    RecordTooLargeError,
    SerializationError,
)
from pyproducer.common.records import (
    Header,
    ProducerRecord,
    ensure_callable,
    ensure_made,
    plain_bytes,
    to_headers,
)
from pyproducer.hotpath import (
    AS_IS,
    CALLED,
    HEADER_SIZE_BYTES,
    TEXT,
    Acknowledgement,
    FutureRecordMetadata,
    Road,
    Route,
    RouteTable,
    record_size_upper_bound,
)
from pyproducer.producer.interceptors import ProducerInterceptors, Telling
from pyproducer.producer.mistakes import no_argument
from pyproducer.producer.partitioning import Partitioning
from pyproducer.producer.serializers import BytesSerializer, Serializer, StringSerializer
from pyproducer.producer.waiting_room import Choose, WaitingRoom
from pyproducer.transaction.transactions import OpenTransaction, Transactions

# What send() does not raise: the record's future and callback tell it.
TOLD_BY_THE_FUTURE = (KafkaTimeoutError, ApiError, AuthenticationError)


class Postponed:
    """A serialized record of an event loop that has to wait for memory, for the loop is not to be held up by it.

    Args:
        sender: Whose it is.
        record: The record.
        why: See the attribute.

    Attributes:
        why: Why the last try failed; None where it was not tried, for others wait.
    """

    __slots__ = ("_record", "_sender", "why")

    def __init__(self, sender: RecordSender, record: SerializedRecord, why: LoopWaitError | None) -> None:
        self._sender = sender
        self._record = record
        self.why: LoopWaitError | None = why

    def try_again(self, max_block_ms: int, place: Place | None) -> FutureRecordMetadata | None:
        """Hand it over if there is memory now; None if there is not, and `why` says what lacks.

        Args:
            max_block_ms: How long it may wait from now on, where its topic is not known.
            place: That of its task in the line for memory, or None.

        Raises:
            Exception: It cannot be handed over, whatever there is. Not sent.
        """
        try:
            return self._sender.enqueue(self._record, max_block_ms, place=place)
        except LoopWaitError as why:
            self.why = why
            return None
        except Exception as error:
            return self._sender.failed(error, *self._ends())

    def give_up(self, error: BufferExhaustedError) -> FutureRecordMetadata:
        """Tell interceptors, callback and tally that it was not sent; return a future that says so."""
        return self._sender.failed(error, *self._ends())

    def withdraw(self, error: BufferExhaustedError) -> FutureRecordMetadata:
        """Tell interceptors and callback that it was taken back by who sent it; return a future that says so."""
        return self._sender.withdrawn(error, *self._ends())

    def _ends(self) -> tuple[str, int | None, OnCompletion | None]:
        """Return where it was to go, and who is told."""
        return self._record.topic, self._record.partition, self._record.on_completion


class RecordSender:
    """Takes records from callers and hands them to the accumulator; the Upcalls of its `road`.

    Args:
        metadata: What is known of topics.
        routes: The same, as `road` reads it; metadata renews it.
        accumulator: Where records go.
        room: Where they wait while metadata does not know enough.
        partitioning: Asked where a record names no partition.
        key_serializer: None takes bytes only.
        value_serializer: The same.
        interceptors: Asked before serialization.
        clock: For timestamps.
        life: The producer's.
        wakeup_sender: Wakes the sender.
        max_request_size_bytes: max.request.size.
        buffer_memory_bytes: buffer.memory.
        max_block_ms: max.block.ms.
        on_opened: Told when a batch was opened, where that need not wake the sender at once.
        transactions: The producer's; None without a transactional id.
        count_raised: Told of each record for which send() or send_batch() raises, but for those that no producer in
            such a state takes.

    Attributes:
        road: What send() goes.
        is_intercepted: Whether `intercept` is called of records.
    """

    sees_every_record = False  # `intercept` is called of each, also without interceptors

    def __init__(self, *, metadata: ProducerMetadata, routes: RouteTable, accumulator: RecordAccumulator,
                 room: WaitingRoom, partitioning: Partitioning, key_serializer: Serializer | None,
                 value_serializer: Serializer | None, interceptors: ProducerInterceptors, clock: Clock, life: Life,
                 wakeup_sender: Callable[[], None], max_request_size_bytes: int, buffer_memory_bytes: int,
                 max_block_ms: int, on_opened: Callable[[], None] | None = None,
                 transactions: Transactions | None = None,
                 count_raised: Callable[[Exception], object] = lambda _error: None) -> None:
        self._metadata = metadata
        self._routes = routes
        self._accumulator = accumulator
        self.room = room
        self.partitioning = partitioning
        self._on_append = partitioning.on_append_in_call
        self._is_open_batch_told = routes.keeps_batches and not partitioning.hears_each_record
        self.key_serializer = key_serializer
        self.value_serializer = value_serializer
        self.interceptors = interceptors
        self._clock = clock
        self._life = life
        self.wakeup = wakeup_sender
        self._on_opened = on_opened or wakeup_sender
        self._max_request_size_bytes = max_request_size_bytes
        self._buffer_memory_bytes = buffer_memory_bytes
        self.max_record_bytes: int = min(max_request_size_bytes, buffer_memory_bytes)
        self._max_block_ms = max_block_ms
        self.is_intercepted: bool = self.sees_every_record or bool(interceptors)
        self.road: Road = Road(
            self, routes, record_class=ProducerRecord, max_record_bytes=self.max_record_bytes,
            key_form=_form_of(key_serializer), value_form=_form_of(value_serializer),
            is_intercepted=self.is_intercepted,
            timestamp_ms=None if isinstance(clock, SystemClock) else clock.timestamp_ms, inside=life.calls.inside)

        self.count_raised = count_raised
        self._transactions = transactions
        self.renew_gate()

    # May a record be sent now? One answer of the producer's life and of its transaction together. The accumulator and
    # the waiting room ask the same once more, with the lock held of what takes the record
    # (RecordAccumulator.ensure_takes_records), so the gate need not be set and taken away in step with either: it only
    # makes the usual case fast, and the refusal early.

    def renew_gate(self) -> None:
        """Have each record asked whether it may be sent, unless all may: the answer has changed, perhaps."""
        transactions = self._transactions
        is_free = self._life.is_open and (transactions is None or transactions.takes_records)
        self.road.gate = None if is_free else self.ensure_may_send

    def refuse(self) -> None:
        """Take no record from now on; what send() raises is said by the producer's life."""
        self.road.gate = self.ensure_may_send

    def ensure_may_send(self, within: OpenTransaction | None = None) -> None:
        """Do nothing while records may be sent.

        Args:
            within: The transaction that they belong to, as rows of a send_batch() do; None for a send().

        Raises:
            IllegalStateError: The producer is closed, forked or dead, or no transaction is open, or another one. Not
                sent.
            AbortableTransactionError: The transaction can only be aborted. Not sent.
            FatalProducerError: The producer can only be closed. Not sent.
        """
        self._life.ensure_open()
        if self._transactions is not None:
            self._transactions.ensure_may_send(within)

    def begin_batch(self) -> OpenTransaction | None:
        """Return the transaction that all rows of a send_batch() that begins now belong to; None without transactions.

        Raises:
            IllegalStateError: As `ensure_may_send`, and so are the others.
            AbortableTransactionError: The same.
            FatalProducerError: The same.
        """
        self._life.ensure_open()
        if self._transactions is None:
            return None
        self._transactions.ensure_may_send(is_batch=True)
        return self._transactions.current  # now: if this is another one already, the call begins in that

    def on_forked(self, gate: Callable[[], Road | None]) -> None:
        """In a child process: take no record, or let each go the road that the gate gives."""
        self.road.gate = gate
        self.partitioning.on_forked()

    # What the road asks; see hotpath/contract.py.

    def checked(self, topic: Any, value: Any, key: Any, partition: Any, timestamp: Any, headers: Any,
                on_completion: Any) -> tuple[ProducerRecord, OnCompletion | None]:
        """Return a record, and its callback, from arguments of send() that are not plain.

        Raises:
            TypeError: A part has the wrong type. Not sent.
            ValueError: A part is out of range. Not sent.
        """
        if on_completion is not None and not self.road.takes(on_completion):
            ensure_callable(on_completion, "on_completion")
        if not isinstance(topic, ProducerRecord):
            return ProducerRecord(topic, value, key, partition=partition, timestamp=timestamp,
                                  headers=headers), on_completion
        if value is not None:
            if on_completion is not None or not callable(value):
                raise TypeError("send(record, on_completion) takes a callable as its second argument, got "
                                f"{type(value).__name__}; the value belongs into the ProducerRecord")
            self.road.takes(value)
            on_completion = value
        if key is not None or partition is not None or timestamp is not None or to_headers(headers):
            raise TypeError("send(record) takes key, partition, timestamp and headers from the ProducerRecord")
        ensure_made(topic)
        return topic, on_completion

    def ensure_callback(self, callback: Any) -> bool:
        """Refuse a callback that would be called in vain; see `ensure_on_completion`."""
        return ensure_on_completion(callback, "pass a function, or use pyproducer.aio.AsyncKafkaProducer and await its "
                                              "send()")

    def foreign(self, count: int, name: str) -> TypeError:
        """Return the error for more than two arguments by position, or for a name that send() does not have."""
        return no_argument(count, name)

    def intercept(self, record: ProducerRecord,
                  on_completion: OnCompletion | None) -> tuple[ProducerRecord, Acknowledgement]:
        """Return what the interceptors make of a record, and what tells them of its outcome."""
        record = self.interceptors.on_send(record)
        return record, Acknowledgement(Telling(self.interceptors, record.headers), on_completion)

    def serialize(self, topic: str, headers: tuple[Any, ...], key: Any,
                  value: Any) -> tuple[bytes | None, bytes | None, tuple[Any, ...]]:
        """Return the bytes of key and value, and the headers, which serializers may add to.

        Raises:
            SerializationError: A serializer failed, or there is none and the data are not bytes. Not sent.
            TypeError: A serializer left headers that are none. Not sent.
            ValueError: A serializer left one whose key cannot be written in UTF-8. Not sent.
        """
        given = tuple([header if type(header) is Header else Header(*header) for header in headers])
        open_headers = list(given)
        key_bytes = self.serialize_part(self.key_serializer, topic, open_headers, key, "key")
        value_bytes = self.serialize_part(self.value_serializer, topic, open_headers, value, "value")
        if len(open_headers) == len(given) and all(map(operator.is_, open_headers, given)):
            return key_bytes, value_bytes, given  # checked before
        return key_bytes, value_bytes, to_headers(open_headers, topic)

    def to_bytes(self, record: ProducerRecord,
                 row: int | None = None) -> tuple[bytes | None, bytes | None, tuple[Any, ...], int]:
        """Return what `serialize` does of a record beside the road, and how large it is at most.

        Args:
            record: The record.
            row: Its number in a send_batch(), for errors; None for a send().

        Raises:
            RecordTooLargeError: It is above `max_record_bytes`. Not sent.
            SerializationError: As `serialize`, and so are the others. Not sent.
            TypeError: The same.
            ValueError: The same.
        """
        try:
            key_bytes, value_bytes, headers = self.serialize(record.topic, record.headers, record.key, record.value)
        except SerializationError as error:
            if row is None:
                raise
            raise SerializationError(f"Row {row}: {error}") from error.__cause__
        size_bytes = record_size_upper_bound(key_bytes, value_bytes, headers)
        if size_bytes > self.max_record_bytes:
            raise self.too_large(record.topic, size_bytes, "" if row is None else f"Row {row}: ")
        return key_bytes, value_bytes, headers, size_bytes

    def find_route(self, topic: str) -> Route | None:
        """Make a topic's route from the present snapshot; None when that does not know it, or records wait for it."""
        return self._life.calls.run("send()", self._find_route, topic)

    def _find_route(self, topic: str) -> Route | None:
        cluster = self._routes.cluster
        count = cluster.table(topic).count
        if not count or self.room.is_waiting(topic):
            return None
        self._metadata.add(topic, self._clock.now_ms())
        route = self.partitioning.route(topic, cluster, count)
        self._routes.add(cluster, topic, route)
        if self.room.is_waiting(topic):  # since the look above: later records go behind those
            self._routes.forget(topic)
            return None
        return route

    def await_topic(self, topic: str, partition: int | None, timestamp: int, key: Any, key_bytes: bytes | None,
                    value: Any, value_bytes: bytes | None, headers: tuple[Any, ...],
                    on_completion: OnCompletion | None, size_bytes: int) -> FutureRecordMetadata:
        """Hand a record over whose topic, or partition, the road does not know."""
        return self._enqueue_or_postpone(SerializedRecord(topic, partition, timestamp, key, key_bytes, value,
                                                          value_bytes, headers, on_completion, size_bytes))

    def choose(self, topic: str, key: Any, key_bytes: bytes | None, value: Any, value_bytes: bytes | None) -> int:
        """Ask the partitioner, see `Partitioning.choose`; below 0 where the topic is not known any more."""
        cluster = self._routes.cluster
        count = cluster.table(topic).count
        if not count:  # a newer snapshot than the route's: a partitioner is asked of known topics
            return UNKNOWN_PARTITION
        return self.partitioning.choose_in_call(topic, key, key_bytes, value, value_bytes, cluster, count)

    def append(self, topic: str, partition: int, timestamp: int, key_bytes: bytes | None, value_bytes: bytes | None,
               headers: tuple[Any, ...], on_completion: OnCompletion | None, size_bytes: int) -> FutureRecordMetadata:
        """Append a record, and tell the road which batch takes the next ones."""
        try:
            return self._enqueue_or_postpone(SerializedRecord(
                topic, partition, timestamp, key_bytes, key_bytes, value_bytes, value_bytes, headers, on_completion,
                size_bytes))
        except TOLD_BY_THE_FUTURE as error:
            return self.failed(error, topic, partition, on_completion)

    def ensure_outside(self) -> None:
        """Refuse a call in the middle of another one of the same thread."""
        self._life.calls.ensure_not_nested("send()")

    def switch(self, topic: str) -> None:
        """Choose another sticky partition for a topic."""
        cluster = self._routes.cluster
        # The record is in its batch, so nothing is refused: where a newer snapshot has no partition to go on with, or
        # this is a signal's handler in the middle of a call, the next record switches.
        if cluster.table(topic).count and not self._life.calls.is_nested:
            self.partitioning.switch(topic, cluster)

    def failed(self, error: Exception, topic: str, partition: int | None,
               on_completion: OnCompletion | None) -> FutureRecordMetadata:
        """Tell interceptors that a record was not handed over; return a future that says so, or raise the error."""
        topic_partition = self.tell_interceptors(error, topic, partition, on_completion)
        if type(on_completion) is Acknowledgement:
            on_completion = on_completion.on_completion
        if isinstance(error, TOLD_BY_THE_FUTURE) and not isinstance(error, RecordTooLargeError):
            return failed_future(topic_partition, error, on_completion, self._life)
        if isinstance(error, KafkaError) and not isinstance(error, IllegalStateError):  # as Java's doSend
            self.count_raised(error)
        try:
            raise error
        finally:
            del error  # else it and this frame hold each other, and what the record was, until the collector comes

    def postponed(self, topic: Any, value: Any, key: Any, partition: Any, timestamp: Any, headers: Any,
                  on_completion: Any) -> Postponed | FutureRecordMetadata:
        """Return a record that others go before, as the road prepares it, and not tried; or what `failed` returns.

        Raises:
            Exception: As send(). Not sent.
        """
        self.ensure_may_send()
        record, on_completion = self.checked(topic, value, key, partition, timestamp, headers, on_completion)
        if self.is_intercepted:
            record, on_completion = self.intercept(record, on_completion)
        topic, partition, timestamp = record.topic, record.partition, record.timestamp
        try:
            key_bytes, value_bytes, headers, size_bytes = self.to_bytes(record)
        except Exception as error:
            return self.failed(error, topic, partition, on_completion)
        return Postponed(self, SerializedRecord(
            topic, partition, self._clock.timestamp_ms() if timestamp is None else timestamp, record.key, key_bytes,
            record.value, value_bytes, headers, on_completion, size_bytes), None)

    def withdrawn(self, error: BufferExhaustedError, topic: str, partition: int | None,
                  on_completion: OnCompletion | None) -> FutureRecordMetadata:
        """Tell interceptors and callback of a record that was taken back by who sent it; it is no failed delivery."""
        topic_partition = self.tell_interceptors(error, topic, partition, on_completion)
        if type(on_completion) is Acknowledgement:
            on_completion = on_completion.on_completion
        return failed_future(topic_partition, error, on_completion)

    def tell_interceptors(self, error: Exception, topic: str, partition: int | None,
                          on_completion: OnCompletion | None) -> TopicPartition:
        """Tell interceptors, if they know of a record, that it was not handed over; return where it was to go."""
        topic_partition = TopicPartition(topic, UNKNOWN_PARTITION if partition is None else partition)
        if type(on_completion) is Acknowledgement:
            telling: Any = on_completion.tell  # a Telling
            telling.on_send_error(topic_partition, error)
        return topic_partition

    def _enqueue_or_postpone(self, record: SerializedRecord) -> FutureRecordMetadata:
        try:
            return self.enqueue(record)
        except LoopWaitError as why:
            # A future is what the road promises; who sends from a loop, aio/, knows of this, too.
            return cast(FutureRecordMetadata, Postponed(self, record, why))

    def too_large(self, topic: str, size_bytes: int, where: str = "") -> RecordTooLargeError:
        """Return the error for a record above `max_record_bytes`; `where` says which one it is, if not the only one."""
        if size_bytes > self._max_request_size_bytes:
            limit = f"max.request.size = {self._max_request_size_bytes}"
        else:
            limit = f"buffer.memory = {self._buffer_memory_bytes}"
        error = RecordTooLargeError(
            f"{where}The record for topic {topic!r} takes {size_bytes} bytes with its batch header, which is above "
            f"{limit}. Send less in one record, or raise that setting (the topic's max.message.bytes must allow it "
            "too)",
            code=ErrorCode.MESSAGE_TOO_LARGE)
        error.outcome = "not_sent"
        return error

    # What those ask who send many rows, too.

    def enqueue(self, record: SerializedRecord, max_block_ms: int | None = None,
                  choose: Choose | None = None, place: Place | None = None) -> FutureRecordMetadata:
        """Put one serialized record into a batch, or into the waiting room where its partition is not known.

        Args:
            record: The record.
            max_block_ms: Longest wait, for memory here and for metadata in the room; None for max.block.ms.
            choose: What does more than to ask the partitioner.
            place: A task's in the line for memory; it is kept.
        """
        room, topic, partition = self.room, record.topic, record.partition
        if max_block_ms is None:
            max_block_ms = self._max_block_ms
        while True:
            cluster = self._metadata.cluster
            table = cluster.tables.get(topic)
            # In this order: see waiting_room.py.
            if table is not None and table.count and not (room.queues and room.is_waiting(topic)):
                if partition is None:
                    partition = (choose or self.partitioning.choose_in_call)(
                        topic, record.key, record.key_bytes, record.value, record.value_bytes, cluster, table.count)
                    record = record._replace(partition=partition)
                if partition in table.by_index and not (room.queues and room.is_waiting(topic, partition)):
                    break
            began_ms = self._clock.now_ms()
            future = self.enter_room(record, max_block_ms, place)
            if future is not None:
                return future
            # What was waited for memory there is not there any more for the wait for memory here.
            max_block_ms = max(0, max_block_ms - (self._clock.now_ms() - began_ms))
        try:
            result = self._accumulator.append(record, partition, max_block_ms, place)
            if self._is_open_batch_told:
                self._routes.open_batch(cluster, topic, partition, result.batch.open)
            if self._on_append is not None:
                self._on_append(topic, partition, record.size_bytes - HEADER_SIZE_BYTES, cluster, result.batch_is_full)
            if result.batch_is_full:
                self.wakeup()
            elif result.new_batch_created:
                self._on_opened()
        except BaseException:
            # Ctrl-C may leave a batch that the sender was not told of, and whoever adds to it later tells nobody.
            self.wakeup()
            raise
        return result.future

    def enter_room(self, record: SerializedRecord, max_block_ms: int,
                   place: Place | None = None) -> FutureRecordMetadata | None:
        """Let a record wait, see WaitingRoom.enter; later ones of its topic find no route, and go behind it."""
        future = self.room.enter(record, max_block_ms, place)
        if future is not None:
            self._routes.forget(record.topic)
        return future

    def serialize_part(self, serializer: Serializer | None, topic: str, headers: list[Header], data: Any,
                       part: str) -> bytes | None:
        """Return the bytes of a part ("key" or "value") of a record.

        Raises:
            SerializationError: The serializer failed, or there is none and the data are not bytes. Not sent.
        """
        if serializer is not None:
            try:
                data = serializer(topic, headers, data)
            except Exception as cause:
                raise SerializationError(
                    f"The {part} serializer {serializer!r} failed on a {type(data).__name__} for topic {topic!r}: "
                    f"{cause}") from cause
        if data is None or type(data) is bytes:
            return data
        if isinstance(data, (bytes, bytearray, memoryview)):
            return plain_bytes(data)
        if serializer is None:
            raise SerializationError(
                f"The {part} is a {type(data).__name__}, but no {part} serializer is given: pass bytes, or set "
                f"{part}.serializer (for example '{'string' if isinstance(data, str) else 'json'}')")
        raise SerializationError(f"The {part} serializer {serializer!r} gave a {type(data).__name__} for topic "
                                 f"{topic!r}: it must give bytes or None")


def _form_of(serializer: Serializer | None) -> int:
    """Return how a serializer's data become bytes, as the road is told."""
    if serializer is None or type(serializer) is BytesSerializer:
        return AS_IS
    return TEXT if type(serializer) is StringSerializer and _is_utf_8(serializer.encoding) else CALLED


def _is_utf_8(encoding: str) -> bool:
    try:
        return codecs.lookup(encoding).name == "utf-8"
    except (LookupError, TypeError, ValueError):  # no codec's name: what the serializer raises says so
        return False
