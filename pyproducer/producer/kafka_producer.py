"""KafkaProducer: what the application holds.

Road:    [application] -> send() -> ...
Thread:  any; one background thread per producer does the I/O.
Source:  Java KafkaProducer (4.1); seed 001.
"""

from __future__ import annotations

import logging
import math
import os
import threading
import uuid
import weakref
from collections.abc import Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, NoReturn, overload

from pyproducer.accumulator.batch_future import BatchFuture
from pyproducer.accumulator.calls import Calls
from pyproducer.accumulator.delivery_tally import Period
from pyproducer.accumulator.life import Life, LifeState
from pyproducer.accumulator.produce_result import OnCompletion, ProduceRequestResult
from pyproducer.common.clock import NEVER_MS
from pyproducer.common.cluster import PartitionInfo, address_text
from pyproducer.common.delivery_summary import DeliverySummary
from pyproducer.common.errors import (
    ConfigError,
    DeliveryFailedError,
    IllegalStateError,
    KafkaError,
    KafkaTimeoutError,
)
from pyproducer.common.html_table import html_table
from pyproducer.common.public import public
from pyproducer.common.record_future import FutureRecordMetadata
from pyproducer.common.records import HeadersLike, ProducerRecord, to_topic
from pyproducer.common.version import __version__
from pyproducer.common.waiting import checked_timeout, is_owned
from pyproducer.hotpath import IMPL, ProducerBase
from pyproducer.observe.why import Why
from pyproducer.producer import process_life
from pyproducer.producer.config import CONFIG_TABLE, ProducerConfig
from pyproducer.producer.config.producer_config import file_props
from pyproducer.producer.live_view import PartitionState, failing_addresses, last_attempt, waiting_partitions
from pyproducer.producer.metrics import ProducerMetrics, metrics_of
from pyproducer.producer.mistakes import no_attribute, not_settings, takes_no_timeout
from pyproducer.producer.serializers import Serializing
from pyproducer.producer.surroundings import Surroundings
from pyproducer.producer.transaction_calls import TransactionBlock
from pyproducer.producer.wait_on_metadata import wait_on_brokers, wait_on_metadata
from pyproducer.producer.why import why
from pyproducer.producer.wiring import ProducerRuntime
from pyproducer.transaction.prepared_transaction import PreparedTransaction

log: logging.Logger = logging.getLogger(__name__)

_LOOK_S = 0.02  # how often to look for what nobody rings for


if TYPE_CHECKING:  # checkers bring typing_extensions with them
    from datetime import datetime

    from typing_extensions import TypeVar

    K = TypeVar("K", default=bytes)
    V = TypeVar("V", default=bytes)
else:
    from typing import TypeVar

    K = TypeVar("K")
    V = TypeVar("V")


@public
class KafkaProducer(ProducerBase, Generic[K, V]):
    """Sends records to a Kafka cluster; thread-safe, and shared best by all threads of a process.

    Args:
        props: Java's configuration keys, with their dots; see `ProducerConfig`. Only `bootstrap.servers` is required.
        key_serializer: Turns keys into bytes: a callable `(topic, headers, data)`, a name such as "string" or "json",
            or a Serializer. None takes `key.serializer`; without that, bytes and None pass through, and so do bytearray
            and memoryview: `KafkaProducer[bytes, bytes | bytearray | memoryview](props)` says so to a type checker.
        value_serializer: The same for values.

    Raises:
        ConfigError: A setting is unknown, wrong or contradicts another. Nothing was started.

    The constructor touches no network. Use it in a `with` block, or call `close()`. In a forked child process it
    refuses every call, or with pyproducer.fork=rebuild is made anew at its first use there; then a call may also raise
    what the constructor does. docs/process_life.md has more of forks, signals, exit and freezes.

    Thread:  any method from any thread. Callbacks run on the producer's own thread: keep them short. What would have
             to wait for that thread raises IllegalStateError in a callback; what a callback raises is logged.
    Source:  Java KafkaProducer (4.1). Differs from Java: serializers are optional; an unknown key is an error.
    """

    # The rest is inherited: without an instance dict in use, send() is found a third faster on some Pythons.
    __slots__ = ("__dict__", "_finalizer", "_given", "_runtime")

    # The real ones, made for each; a simulation's producers have others.
    _surroundings: Surroundings | None = None

    if TYPE_CHECKING:  # of all pairs of None, a serializer and a name

        @overload
        def __init__(self, props: Mapping[str, object]) -> None: ...

        @overload
        def __init__(self: KafkaProducer[K, V], props: Mapping[str, object], key_serializer: Serializing[K],
                     value_serializer: Serializing[V]) -> None: ...

        @overload
        def __init__(self: KafkaProducer[bytes, V], props: Mapping[str, object], key_serializer: None = None, *,
                     value_serializer: Serializing[V]) -> None: ...

        @overload
        def __init__(self: KafkaProducer[K, bytes], props: Mapping[str, object], key_serializer: Serializing[K],
                     value_serializer: None = None) -> None: ...

        @overload
        def __init__(self: KafkaProducer[bytes, Any], props: Mapping[str, object], key_serializer: None = None, *,
                     value_serializer: str) -> None: ...

        @overload
        def __init__(self: KafkaProducer[Any, bytes], props: Mapping[str, object], key_serializer: str,
                     value_serializer: None = None) -> None: ...

        @overload
        def __init__(self: KafkaProducer[Any, Any], props: Mapping[str, object], key_serializer: object = None,
                     value_serializer: object = None) -> None: ...

    def __init__(self, props: Mapping[str, object] | None = None, key_serializer: object = None,
                 value_serializer: object = None, **foreign: object) -> None:
        refusal = not_settings(props, foreign)
        if refusal is not None:
            del props, foreign  # they may hold secrets, and a traceback shows variables
            raise refusal
        assert props is not None, "these are no settings"
        # Guarded: an error below leads here, and shows variables: none is a secret.
        props = CONFIG_TABLE.guarded(props)
        config = ProducerConfig(props, configurable=(key_serializer, value_serializer))
        self._given = key_serializer, value_serializer
        runtime: ProducerRuntime | None = None
        try:
            with config.hiding_answers():
                self._runtime = runtime = process_life.build(config, key_serializer, value_serializer,
                                                             self._surroundings)
            self._pave(runtime.record_sender.road)
            log.info("%s starts, pyproducer %s (%s), with %r; all else has its default: config() tells",
                     runtime.life.client_id, __version__, IMPL, config)
            self._finalizer = self._begin(runtime)
        except BaseException:  # no thread can be had; or Ctrl-C, and it may run already
            if runtime is not None:
                runtime.io_thread.abandon()
            raise

    def _begin(self, runtime: ProducerRuntime) -> weakref.finalize[Any, Any]:
        """Start a sender thread; return what ends it with this producer."""
        finalizer = weakref.finalize(self, process_life.close_dropped, weakref.ref(runtime))
        finalizer.atexit = False  # see process_life.close_all_at_exit
        try:
            process_life.owners[runtime.life] = weakref.ref(self)
            runtime.io_thread.start()
        except BaseException:
            finalizer.detach()
            raise
        return finalizer

    def _present(self) -> ProducerRuntime:
        """Return the parts that work in this process; in a child they may have to be made first.

        Raises:
            ConfigError: They cannot be made as they were: a file is not there any more, or not for this user.
        """
        runtime = self._runtime
        return self._rebuild() if runtime.life.can_be_rebuilt else runtime

    def _rebuild(self) -> ProducerRuntime:
        lock = process_life.rebuilding
        if is_owned(lock):
            raise Calls.nested("a method")
        with lock:
            before = self._runtime
            if not before.life.can_be_rebuilt:
                return before  # another thread came first
            name = f"{before.client_id}-{os.getpid()}"
            runtime = process_life.build(before.config, *self._given, self._surroundings, name)
            finalizer: weakref.finalize[Any, Any] | None = None
            try:
                finalizer = self._begin(runtime)
                self._pave(runtime.record_sender.road)
                self._finalizer.detach()
                self._finalizer = finalizer
                self._runtime = runtime  # last: from here on it is made
            except BaseException:  # Ctrl-C, or no thread can be had: the next use makes another
                if self._runtime is not runtime:
                    if finalizer is not None:
                        finalizer.detach()
                    runtime.io_thread.abandon(keeps_parts=True)
                raise
        log.info("The producer %s was made anew in a child process, as %s", before.client_id, name)
        closed_by = before.life.closed_in_child_by
        if closed_by is not None:  # meanwhile, by another thread
            runtime.io_thread.close(closed_by, None)
        return runtime

    @classmethod
    def from_file(cls, path: str | os.PathLike[str], /, *, key_serializer: object = None,
                  value_serializer: object = None, **overrides: object) -> KafkaProducer[Any, Any]:
        """Make a producer from a Java `.properties` file.

        Args:
            path: The file.
            key_serializer: See the class.
            value_serializer: See the class.
            overrides: Settings that win over the file's; underscores stand for dots.

        Raises:
            ConfigError: Settings are wrong; the text says of each in which line. Nothing was started.
            OSError: The file cannot be read.
        """
        props, place_of = file_props(path, overrides)
        del overrides  # an error below leads here, and shows variables
        try:
            return cls(props, key_serializer, value_serializer)
        except ConfigError as error:
            refusal = error.in_place(place_of)
        raise refusal from refusal.__cause__

    if TYPE_CHECKING:  # it is inherited, compiled where that is possible

        @overload  # type: ignore[override]  # what is foreign is there to be refused
        def send(self, record: ProducerRecord, /,
                 on_completion: OnCompletion | None = None) -> FutureRecordMetadata: ...

        @overload
        def send(self, topic: str, value: V | None = None, *, key: K | None = None, partition: int | None = None,
                 timestamp: int | datetime | None = None, headers: HeadersLike | None = None,
                 on_completion: OnCompletion | None = None) -> FutureRecordMetadata: ...

        def send(self, *arguments: Any, **named: Any) -> FutureRecordMetadata:
            """See ProducerBase.send."""

    def send_batch(self, topic: str, values: Any, *, keys: Any = None, headers: Any = None, timestamps: Any = None,
                   partitions: Any = None) -> BatchFuture:
        """Hand over many records of one topic as columns, each a list or an Arrow array (chunked, too).

        The result is that of send() row by row, in order. Arrow arrays are encoded without a Python object for a row;
        serializers, interceptors and other partitioners than DefaultPartitioner go through the rows one by one.

        Blocks up to max.block.ms in all while buffer.memory is exhausted. Rows that were accepted by then stay
        accepted; the others have a BufferExhaustedError in the result's `errors`. So it is with a transaction that
        fails, or is ended by another thread, in the middle of the call: no row goes into another one than that in which
        the call began. As with send(), rows for a topic that is not known yet wait for it after the
        call.

        Args:
            topic: The topic's name.
            values: A list of bytes or None; or Arrow binary, string, large_binary, large_string or a dictionary of
                these.
            keys: The same, or None when no row has a key.
            headers: For each row a sequence of pairs (str, bytes or None), or None; or Arrow
                list<struct<key: string, value: binary>>.
            timestamps: A list of int (epoch ms), datetime or None for now; or Arrow int64 (epoch ms) or timestamp; or
                NumPy datetime64. Arrow's timestamps without a zone are UTC, as NumPy's are, for a column counts from
                1970 in UTC; a datetime without one in a list is in local time, as everywhere in Python.
            partitions: A list of int or None to let the partitioner choose; or Arrow int32 or int64.

        Returns:
            The future of all rows. Its `result(timeout)` is a BatchMetadata: an offset, partition and timestamp for
            each row, and `errors` by row. Timeouts of metadata and memory, and whatever the broker says, go there.

        Raises:
            SerializationError: A serializer failed, or there is none and a row is not bytes. No row was sent.
            RecordTooLargeError: A row is above max.request.size or buffer.memory. No row was sent.
            TypeError: A column has the wrong type. No row was sent.
            ValueError: Columns have different lengths, or a number is out of range. No row was sent.
            ProducerClosedError: The producer is closed. No row was sent.
            ProducerDeadError: The producer's thread ended by an error. No row was sent.
            ForkedProducerError: The producer was made before this process was forked. No row was sent.
            IllegalStateError: It has a transactional.id, and no transaction is open. No row was sent.
            AbortableTransactionError: The transaction has to be aborted. No row was sent.
            FatalProducerError: The producer can only be closed. No row was sent.
        """
        return self._present().batch_sender.send(topic, values, keys, headers, timestamps, partitions)

    def flush(self, timeout: float | None = None, *, raise_on_error: bool = False) -> None:
        """Send everything that was handed over and wait until it is done, callbacks included.

        Records that fail do not make flush() fail unless that is asked for: their futures and callbacks tell.

        Args:
            timeout: Longest wait in seconds; None waits until all is done (delivery.timeout.ms bounds that).
            raise_on_error: Whether to raise when any record failed since the last flush() that had ended before, looked
                at or not, send_batch rows and futures that had failed when send() returned included.

        Raises:
            DeliveryFailedError: Records failed, see `raise_on_error`; with pyproducer.on.unretrieved=raise also without
                it, for those that nobody looked at. All was done before. Its `outcome` is the worst of theirs.
            KafkaTimeoutError: The timeout passed first (phase "flush"). Unknown: the records are still on their way.
            TypeError: The timeout is not a number.
            ValueError: The timeout is NaN.
            IllegalStateError: Called from a callback, where it would wait for itself.
            ForkedProducerError: The producer was made before this process was forked.
            ProducerDeadError: The producer's thread ended by an error: records failed, as their futures tell.
        """
        self._end_flush(self._await_all(timeout), raise_on_error=raise_on_error)

    def _await_all(self, timeout: float | None) -> Period:
        """Do what flush() does but tell; return the period of which it tells."""
        runtime = self._present()
        deadline_ms = runtime.life.begin_wait("flush()", timeout)
        began_ms = runtime.clock.now_ms()
        try:
            return runtime.life.calls.run("flush()", _await_all, runtime, timeout, deadline_ms)
        finally:
            runtime.registry.add_flush(runtime.clock.now_ms() - began_ms)

    def _end_flush(self, period: Period, *, raise_on_error: bool) -> None:
        """Raise what flush() raises, behind `_await_all`. It takes no time."""
        life = self._runtime.life
        error = life.calls.run("flush()", _end_flush, life, period, raise_on_error)
        if error is not None:
            try:
                raise error
            finally:
                del error  # else its traceback, with the caller's frames, and it would keep each other

    @takes_no_timeout
    def init_transactions(self, transactional_id: str | None = None) -> None:
        """Get a producer id and an epoch for the transactional id: once, before the first transaction.

        Every earlier producer with that id is fenced, and what it has left open is aborted. Called again while no
        transaction is open, it may bind another id, so that one producer serves many: differs from Java.

        Args:
            transactional_id: The id from now on; None for the one of now, at first the setting's.

        Raises:
            KafkaTimeoutError: Not done within max.block.ms (phase "transaction"). Call it again.
            AuthorizationError: The principal may not use the id. It may be called again.
            ApiError: The coordinator gives no id, for one because transaction.timeout.ms is above its limit. It may be
                called again.
            AuthenticationError: TLS or SASL failed; the text says what to change.
            IllegalStateError: A transaction is open, one that was prepared with the same id, too; or there is no
                transactional.id.
            FatalProducerError: The producer can only be closed.
        """
        calls = self._present().transaction_calls
        calls.make(calls.init(transactional_id))

    def begin_transaction(self) -> None:
        """Begin a transaction: what is sent from now on is committed, or aborted, as a whole. It asks nobody.

        Raises:
            IllegalStateError: One is open, or init_transactions() was not called.
            AbortableTransactionError: The last one has to be aborted first.
            FatalProducerError: The producer can only be closed.
        """
        self._present().transaction_calls.begin()

    @takes_no_timeout
    def send_offsets_to_transaction(self, offsets: Any, group_metadata: Any) -> None:
        """Have the transaction commit what a consumer has consumed, too: both, or neither.

        The consumer's own commits have to be off (enable.auto.commit=false).

        Args:
            offsets: Those of the next records to read: `{TopicPartition: offset}`, with an OffsetAndMetadata as offset
                where there is more to say, or a list of confluent-kafka's TopicPartitions.
            group_metadata: What the consumer says of its group: confluent-kafka's `consumer_group_metadata()`,
                kafka-python's `group_metadata()`, an AIOKafkaConsumer, or a ConsumerGroupMetadata.

        Raises:
            KafkaTimeoutError: Not done within max.block.ms (phase "transaction"). Call it again, or abort.
            AbortableTransactionError: The transaction has to be aborted, for one because another consumer has the
                partitions now.
            FatalProducerError: The producer can only be closed.
            IllegalStateError: No transaction is open.
            TypeError: Offsets or group metadata are of no kind that is known. Nothing was done.
            ValueError: An offset is negative, or stands for another one. Nothing was done.
        """
        calls = self._present().transaction_calls
        calls.make(calls.send_offsets(offsets, group_metadata))

    @takes_no_timeout
    def commit_transaction(self) -> None:
        """Send what is left of the transaction, and commit it.

        Raises:
            AbortableTransactionError: A record, or its offsets, failed since it began; `__cause__` is the first error.
                Nothing is committed: call abort_transaction().
            KafkaTimeoutError: Not done within max.block.ms (phase "transaction"): it may be committed yet. Call it
                again; nothing else is possible but close(), which leaves the outcome unknown.
            FatalProducerError: The producer can only be closed: another one was initialised with its id, or the
                coordinator aborted the transaction because it took longer than transaction.timeout.ms.
            IllegalStateError: No transaction is open.
        """
        calls = self._present().transaction_calls
        calls.make(calls.commit())

    @takes_no_timeout
    def abort_transaction(self) -> None:
        """Give up the transaction: records that are not on their way fail with TransactionAbortedError.

        Raises:
            KafkaTimeoutError: Not done within max.block.ms (phase "transaction"). Call it again.
            FatalProducerError: The producer can only be closed.
            IllegalStateError: No transaction is open, or it is being committed.
        """
        calls = self._present().transaction_calls
        calls.make(calls.abort())

    def prepare_transaction(self) -> PreparedTransaction:
        """Send what is left of the transaction, take no more, and return what another process needs to end it.

        A TransactionCompleter commits or aborts it, in any process; or commit_transaction() and abort_transaction()
        do so here, also after that. close() leaves it open. Its coordinator aborts it after transaction.timeout.ms, and
        when anybody initialises its id; so does not this producer, unless it is ended.

        Raises:
            AbortableTransactionError: A record, or its offsets, failed since it began. Call abort_transaction().
            KafkaTimeoutError: Not done within max.block.ms (phase "transaction"). Call it again, or abort.
            FatalProducerError: The producer can only be closed.
            IllegalStateError: No transaction is open.
        """
        calls = self._present().transaction_calls
        prepared: PreparedTransaction = calls.make(calls.prepare())
        return prepared

    def transaction(self) -> TransactionBlock:
        """Return a `with` block that is one transaction: it commits at its end, and aborts if an exception leaves it.

        The exception is raised on. What commit_transaction() raises is raised, too, and where only an abort helps,
        that was done. Where an abort takes longer than max.block.ms, the next block waits for it, as long again.
        """
        return TransactionBlock(self, self._present().transaction_calls)

    def partitions_for(self, topic: str) -> list[PartitionInfo]:
        """Return the partitions of a topic with their leaders and replicas, by index.

        Raises:
            KafkaTimeoutError: Not known within max.block.ms (phase "metadata").
            InvalidTopicError: The name is not allowed.
            AuthorizationError: The topic may not be described.
            AuthenticationError: TLS or SASL failed; the text says what to change.
            IllegalStateError: The producer is closed, or it is called from a callback, where it would wait for itself.
        """
        topic = to_topic(topic)
        runtime = self._present()
        runtime.life.ensure_open()
        runtime.life.ensure_may_wait("partitions_for()")
        began_ms = runtime.clock.now_ms()
        try:
            cluster = runtime.life.calls.run("partitions_for()", wait_on_metadata, runtime.metadata,
                                             runtime.wire.wakeup, runtime.clock, topic, runtime.config.max_block_ms)
        finally:
            runtime.registry.add_metadata_wait(runtime.clock.now_ms() - began_ms)
        return list(cluster.partitions_for_topic(topic))

    def check(self, timeout: float | None = None) -> None:
        """Find out whether a broker can be reached with these settings: connect, authenticate, ask for metadata.

        Nothing is sent but that, and no topic is needed. Without it the first send() finds out, and its future tells.

        Args:
            timeout: Longest wait in seconds; None waits max.block.ms.

        Raises:
            AuthenticationError: TLS or SASL failed; the text says what to change.
            UnsupportedVersionError: The broker has no version of Metadata in common with this client.
            KafkaTimeoutError: No answer in time (phase "metadata"); the text tells what was tried, and why it failed.
            TypeError: The timeout is not a number.
            ValueError: The timeout is NaN.
            IllegalStateError: The producer is closed, or it is called from a callback, where it would wait for itself.
        """
        runtime = self._present()
        runtime.life.ensure_open()
        runtime.life.ensure_may_wait("check()")
        longest = checked_timeout(runtime.config.max_block_ms / 1000 if timeout is None else timeout)
        longest_ms = NEVER_MS if longest is None else math.ceil(longest * 1000)
        runtime.life.calls.run("check()", wait_on_brokers, runtime.metadata, runtime.wire.wakeup, longest_ms)

    def metrics(self) -> ProducerMetrics:
        """Return the numbers of this producer under Java's names (record-send-total, buffer-available-bytes, ...).

        It is a dict of those of the whole producer, each there from the start but the ends of credentials; `nodes`,
        `topics` and `partitions` have those of parts, `errors` and `retries` count records by error. docs/metrics.md
        has all names.
        """
        runtime = self._present()
        return metrics_of(runtime.registry, runtime.clock.now_ms())

    def client_instance_id(self, timeout: float | None = None) -> uuid.UUID:
        """Return the id under which a broker gets this producer's metrics (KIP-714).

        Args:
            timeout: Longest wait in seconds; None waits max.block.ms.

        Raises:
            IllegalStateError: enable.metrics.push is false, or what it needs is not installed.
            KafkaTimeoutError: No broker gave one in time: none is connected, or none wants metrics (phase "request").
            TypeError: The timeout is not a number.
            ValueError: The timeout is negative or NaN.
        """
        longest = checked_timeout(timeout)
        if timeout is not None and timeout < 0:
            raise ValueError(f"timeout {timeout} is negative: client_instance_id() waits 0 seconds or more")
        runtime = self._present()
        telemetry = runtime.telemetry
        if telemetry is None:
            raise IllegalStateError("no broker gets metrics: enable.metrics.push is false, or pyproducer[telemetry] is "
                                    "not installed, or cannot be loaded")
        if telemetry.instance_id is None:
            runtime.life.ensure_may_wait("client_instance_id()")
        if timeout is None:
            longest = runtime.config.max_block_ms / 1000
        deadline_ms = runtime.clock.now_ms() + (NEVER_MS if longest is None else math.ceil(longest * 1000))
        while telemetry.instance_id is None:
            runtime.life.ensure_open()
            if runtime.clock.now_ms() >= deadline_ms:
                raise KafkaTimeoutError(
                    f"No broker gave this producer an id for its metrics within {longest} s"
                    f"{failing_addresses(runtime.metadata)}", phase="request")
            runtime.clock.wait(runtime.life.locks.cell(), _LOOK_S)
        return telemetry.instance_id

    def waiting(self) -> list[PartitionState]:
        """Return for which partitions records wait now: how many, since when, and why the last attempt failed."""
        runtime = self._present()
        return waiting_partitions(runtime.accumulator, runtime.metadata, runtime.clock.now_ms())

    def why(self, future: FutureRecordMetadata | None = None, *, last: float = 60,
            save: str | os.PathLike[str] | None = None) -> Why:
        """Say where the time of records went in the last seconds, and what to change.

        Args:
            future: Of a record: then it is about that record's batch as long as it is on its way, and else about its
                partition.
            last: Of how many seconds; math.inf for all that is kept. The ring holds 2,048 batches, and says when it has
                forgotten some.
            save: A file to write all of it to, for `python -m pyproducer why FILE`; keys, values and secrets are not in
                it.

        Returns:
            What stands out, the largest first: `print(producer.why())`.

        Raises:
            ValueError: `last` is not above 0.
            TypeError: `future` is no future of a record.
            OSError: The file cannot be written.
        """
        if not last > 0:
            raise ValueError(f"last={last} is no number of seconds above 0")
        return why(self._present(), last, future, save)

    def config(self) -> dict[str, str | None]:
        """Return every setting of this producer and its value, as a properties file would say it.

        Passwords and keys are hidden, and so is what a config provider answered.
        """
        return self._runtime.config.shown()

    @property
    def client_id(self) -> str:
        """The name that this producer tells the brokers."""
        return self._runtime.client_id

    def close(self, timeout: float | None = None) -> DeliverySummary:
        """Send what was handed over, then end the background thread and the connections.

        Any number of calls, from any thread: each waits for the end, and the earliest deadline of all holds. Called
        from a callback it does not wait: it only begins to close. So it does in a signal's handler that came in the
        middle of a send() or of another close(); call it again from the main program, or leave the wait to the
        interpreter's exit.

        Args:
            timeout: Longest wait in seconds; then records that are not done fail with ProducerClosedError. None waits
                for pyproducer.close.timeout.ms; without that, until all is done (delivery.timeout.ms bounds that).

        Returns:
            What became of all records since the producer was made, as of now: each call returns it. That of a process
            that was forked is empty: the records are the parent's.

        Raises:
            DeliveryFailedError: With pyproducer.on.unretrieved=raise: records failed, and nobody looked at their
                futures. The producer is closed; another call returns the summary. Never raised in a callback.
            TypeError: The timeout is not a number. Nothing was closed.
            ValueError: The timeout is negative or NaN. Nothing was closed.
        """
        return self._raise_ended(self._end(timeout))

    def _end(self, timeout: float | None) -> DeliverySummary | None:
        """Do as close(), but tell nobody what failed; return the summary where nothing is told, for nobody waited."""
        longest = checked_timeout(timeout)
        if timeout is not None and timeout < 0:
            raise ValueError(f"timeout {timeout} is negative: close() waits 0 seconds or more, None until all is done")
        runtime = self._runtime
        if longest is None:
            longest = process_life.close_timeout_s(runtime)
        life, tally = runtime.life, runtime.life.tally
        by = f"close() was called in thread {threading.current_thread().name!r}"
        if life.is_forked:
            life.close_in_child(by)
            # Written first, then looked at; _rebuild does it the other way round, so one of them sees.
            return DeliverySummary() if self._runtime.life is life else self._end(timeout)
        is_nested = life.calls.is_nested  # also where that call takes a turn of the sender
        if life.is_on_sender_thread or is_nested:
            where = ("a callback" if not is_nested
                     else "a signal's handler, or a finalizer, during another call of the same thread")
            runtime.begin_close(f"close() was called in {where}", longest)
            if life.state is LifeState.DEAD:
                process_life.hide(runtime)
            return tally.summary()
        return None if life.calls.run("close()", _close_here, runtime, by, longest) else self._end(timeout)

    def _raise_ended(self, summary: DeliverySummary | None) -> DeliverySummary:
        """Return the summary, or raise, behind `_end`, which returned this."""
        if summary is not None:
            return summary
        life, tally = self._runtime.life, self._runtime.life.tally
        failed = life.calls.run("close()", tally.tell, None) if tally.raises else None
        if failed is not None:
            try:
                raise failed
            finally:
                del failed  # as in flush()
        return tally.summary()

    def __enter__(self) -> KafkaProducer[K, V]:
        return self

    def __exit__(self, exc_type: type[BaseException] | None, exc: BaseException | None,
                 traceback: TracebackType | None) -> None:
        try:
            self.close()
        except DeliveryFailedError:
            if exc is None:  # else that is what the application is to see; the log tells of these
                raise

    if not TYPE_CHECKING:  # for people; a checker is to find these

        def __getattr__(self, name: str) -> NoReturn:
            raise no_attribute(self, name)

    def __reduce__(self) -> NoReturn:
        raise TypeError("a KafkaProducer cannot be pickled: it owns sockets and a thread. Send its properties (a dict) "
                        "to the worker and build the producer there; for Spark use pyproducer.spark.KafkaSink(props)")

    def __repr__(self) -> str:
        runtime: ProducerRuntime | None = getattr(self, "_runtime", None)  # none where the constructor raised
        return ("<KafkaProducer that was not made>" if runtime is None
                else f"<KafkaProducer {runtime.life.client_id} {runtime.life.state.value}>")

    def _repr_html_(self) -> str | None:
        # For notebooks. It asks nobody, and makes nothing anew in a child process.
        runtime: ProducerRuntime | None = getattr(self, "_runtime", None)
        if runtime is None:
            return None
        summary = runtime.life.tally.summary()
        addresses = ", ".join(address_text(host, port) for host, port in runtime.config.bootstrap_servers)
        return html_table(f"KafkaProducer {runtime.life.client_id}", [
            ("state", runtime.life.state.value), ("bootstrap.servers", addresses), ("stored", f"{summary.delivered:,}"),
            ("failed", f"{sum(summary.failed.values()):,}"),
            ("on their way", f"{runtime.accumulator.incomplete_record_count():,}")])


def begin_flush(runtime: ProducerRuntime) -> tuple[Period, list[ProduceRequestResult]]:
    """Have all sent that was handed over; return the period that it is of, and the outcomes to wait for.

    Those are all when their successors are, too.
    """
    period = runtime.life.tally.period
    # In this order: a record that leaves the waiting room meanwhile has its batch's outcome as a successor.
    results = runtime.accumulator.waiting.outcomes()
    results.extend(batch.result for batch in runtime.accumulator.begin_flush())
    runtime.wire.wakeup()
    return period, results


def flush_timed_out(runtime: ProducerRuntime, timeout: float | None) -> KafkaTimeoutError:
    """Return the error of a flush() that was not done in time."""
    trouble = runtime.transaction_calls.trouble
    return KafkaTimeoutError(
        f"flush() was not done within {timeout} s: {runtime.accumulator.incomplete_record_count()} "
        f"records are still on their way{last_attempt(runtime.accumulator)}{'; ' + trouble if trouble else ''}"
        f"{failing_addresses(runtime.metadata)}",
        phase="flush", outcome="unknown")


def _await_all(runtime: ProducerRuntime, timeout: float | None, deadline_ms: int | None) -> Period:
    """Wait until all is done that was handed over; return the period that it is of."""
    period, results = begin_flush(runtime)
    while results:
        result = results.pop()
        if not result.wait(deadline_ms):
            raise flush_timed_out(runtime, timeout)
        results.extend(result.successors)
    return period


def _end_flush(life: Life, period: Period, raises_all: bool) -> KafkaError | None:
    """Return what flush() raises."""
    is_dead = life.state is LifeState.DEAD
    failed = life.tally.tell(period, raises_all=raises_all or is_dead)
    if not is_dead:
        return failed
    error = life.refusal()
    if failed is not None:
        error.outcome = failed.outcome
    return error


def _close_here(runtime: ProducerRuntime, by: str, timeout_s: float | None) -> bool:
    """Close this process's producer; False where a signal's handler forked in the middle, and this is the child."""
    runtime.io_thread.close(by, timeout_s)
    process_life.await_end(runtime, timeout_s)
    # The thread's last act would, but after who waits for its end goes on, and never where it died or a callback blocks
    # for ever.
    process_life.hide(runtime)
    return not runtime.life.is_forked
