"""KafkaProducer: what the application holds.

Road:    [application] -> send() -> ...
Thread:  any; one background thread per producer does the I/O.
Source:  Java KafkaProducer (4.1); seed 001.
"""

from __future__ import annotations

import logging
import os
import warnings
import weakref
from collections.abc import Callable, Iterable, Mapping
from types import TracebackType
from typing import Any, NoReturn, overload

from pyproducer.accumulator.batch_future import BatchFuture
from pyproducer.accumulator.produce_result import OnCompletion
from pyproducer.common.cluster import PartitionInfo
from pyproducer.common.errors import IllegalStateError, KafkaTimeoutError
from pyproducer.common.records import HeaderLike, ProducerRecord, to_topic
from pyproducer.hotpath import FutureRecordMetadata
from pyproducer.producer.config import ProducerConfig, read_properties
from pyproducer.producer.do_send import unusable
from pyproducer.producer.wait_on_metadata import wait_on_metadata
from pyproducer.producer.wiring import ProducerRuntime, build_runtime

log = logging.getLogger(__name__)

# At interpreter exit a producer that nobody closed gets this long to send what it accepted: long enough for a broker
# that answers, short enough that a program with a dead broker ends.
_EXIT_TIMEOUT_SECONDS = 10.0
# After a close that ran out of time the thread only has to leave one poll and to close its sockets.
_FORCED_CLOSE_SECONDS = 5.0

_live: weakref.WeakSet[KafkaProducer] = weakref.WeakSet()


class KafkaProducer:
    """Sends records to a Kafka cluster; thread-safe, and shared best by all threads of a process.

    Args:
        props: Java's configuration keys, with their dots; see `ProducerConfig`. Only `bootstrap.servers` is required.
        key_serializer: Turns keys into bytes: a callable `(topic, headers, data)`, a name such as "string" or "json",
            or a Serializer. None takes `key.serializer`; without that, bytes and None pass through.
        value_serializer: The same for values.

    Raises:
        ConfigError: A setting is unknown, wrong or contradicts another. Nothing was started.

    The constructor touches no network. Use it in a `with` block, or call `close()`.

    Thread:  any method from any thread. Callbacks run on the producer's own thread, or on that of a
             caller who waits in result(), where that is faster: keep them short.
    Source:  Java KafkaProducer (4.1). Differs from Java: serializers are optional; an unknown key is an error.
    """

    def __init__(self, props: Mapping[str, object], key_serializer: object = None,
                 value_serializer: object = None) -> None:
        config = ProducerConfig(props)
        self._runtime = build_runtime(config, key_serializer, value_serializer)
        self._record_sender = self._runtime.record_sender
        fast_road = self._record_sender.fast_road
        self._send: Callable[..., FutureRecordMetadata] = (
            self._record_sender.send if fast_road is None else fast_road.send)
        if fast_road is not None and type(self).send is KafkaProducer.send:
            # One call less for each record: the compiled road takes the same arguments as the method below.
            self.send = fast_road.send  # type: ignore[method-assign]  # on purpose, see above
        self._finalizer = weakref.finalize(self, _close_forgotten, self._runtime, os.getpid())
        self._runtime.io_thread.start()
        _live.add(self)

    @classmethod
    def from_file(cls, path: str | os.PathLike[str], /, *, key_serializer: object = None,
                  value_serializer: object = None, **overrides: object) -> KafkaProducer:
        """Make a producer from a Java `.properties` file.

        Args:
            path: The file.
            key_serializer: See the class.
            value_serializer: See the class.
            overrides: Settings that win over the file's; underscores stand for dots.

        Raises:
            ConfigError: A setting is wrong. Nothing was started.
            OSError: The file cannot be read.
        """
        props: dict[str, object] = {**read_properties(path)}
        props.update({key.replace("_", "."): value for key, value in overrides.items()})
        return cls(props, key_serializer, value_serializer)

    @overload
    def send(self, record: ProducerRecord, on_completion: OnCompletion | None = None, /) -> FutureRecordMetadata: ...

    @overload
    def send(self, topic: str, value: Any = None, *, key: Any = None, partition: int | None = None,
             timestamp: int | None = None, headers: Iterable[HeaderLike] | None = None,
             on_completion: OnCompletion | None = None) -> FutureRecordMetadata: ...

    def send(self, topic: str | ProducerRecord, value: Any = None, *, key: Any = None, partition: int | None = None,
             timestamp: int | None = None, headers: Iterable[HeaderLike] | None = None,
             on_completion: OnCompletion | None = None) -> FutureRecordMetadata:
        """Hand over one record: `send(record, on_completion)`, or its parts: `send(topic, value, key=...)`.

        Blocks up to max.block.ms while the topic's metadata is not known or buffer.memory is exhausted; never waits for
        the broker's answer.

        Args:
            topic: A ProducerRecord, or the topic's name.
            value: The value; with a ProducerRecord, `on_completion` may stand here.
            key: The key, or None.
            partition: Index of the partition, or None to let the partitioner choose.
            timestamp: Epoch ms, or None for now.
            headers: Pairs of str and bytes or None.
            on_completion: Called as `on_completion(metadata, exception)`, one of them None; see the class for
                where.

        Returns:
            The future of the record. Timeouts of metadata and memory, and whatever the broker says, go to it.

        Raises:
            SerializationError: A serializer failed, or there is none and the data are not bytes. Not sent.
            RecordTooLargeError: Above max.request.size or buffer.memory. Not sent.
            TypeError: A part has the wrong type. Not sent.
            ValueError: A part is out of range. Not sent.
            ProducerClosedError: The producer is closed. Not sent.
            ForkedProducerError: The producer was made before this process was forked. Not sent.
        """
        return self._send(topic, value, key=key, partition=partition, timestamp=timestamp, headers=headers,
                          on_completion=on_completion)

    def send_batch(self, topic: str, values: Any, *, keys: Any = None, headers: Any = None, timestamps: Any = None,
                   partitions: Any = None) -> BatchFuture:
        """Hand over many records of one topic as columns, each a list or an Arrow array (chunked, too).

        The result is that of send() row by row, in order. Arrow arrays are encoded without a Python object for a row;
        serializers, interceptors and other partitioners than DefaultPartitioner go through the rows one by one.

        Blocks up to max.block.ms in all while the topic's metadata is not known or buffer.memory is exhausted. Rows
        that were accepted by then stay accepted; the others have a BufferExhaustedError in the result's `errors`.

        Args:
            topic: The topic's name.
            values: A list of bytes or None; or Arrow binary, string, large_binary, large_string or a dictionary of
                these.
            keys: The same, or None when no row has a key.
            headers: For each row a sequence of pairs (str, bytes or None), or None; or Arrow
                list<struct<key: string, value: binary>>.
            timestamps: A list of int (epoch ms) or None for now; or Arrow int64 (epoch ms) or timestamp.
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
            ForkedProducerError: The producer was made before this process was forked. No row was sent.
        """
        return self._runtime.batch_sender.send(topic, values, keys, headers, timestamps, partitions)

    def flush(self, timeout: float | None = None) -> None:
        """Send everything that was handed over and wait until it is done, callbacks included.

        Records that fail do not make flush() fail: their futures and callbacks tell.

        Args:
            timeout: Longest wait in seconds; None waits until all is done (delivery.timeout.ms bounds that).

        Raises:
            KafkaTimeoutError: The timeout passed first (phase "flush"). Unknown: the records are still on their way.
            IllegalStateError: Called from a callback, where it would wait for itself.
            ForkedProducerError: The producer was made before this process was forked.
        """
        if self._record_sender.is_forked:
            raise unusable(is_forked=True)
        runtime = self._runtime
        if runtime.io_thread.is_current:
            raise IllegalStateError("flush() inside a callback would wait for itself: call it from another thread")
        deadline_ms = None if timeout is None else runtime.clock.now_ms() + timeout * 1000
        batches = runtime.accumulator.begin_flush()
        try:
            runtime.turns.wakeup()
            results = [batch.result for batch in batches]
            while results:
                result = results.pop()
                left = None if deadline_ms is None else max(0.0, (deadline_ms - runtime.clock.now_ms()) / 1000)
                if not result.wait(left):
                    raise KafkaTimeoutError(
                        f"flush() was not done within {timeout} s: {runtime.accumulator.incomplete_record_count()} "
                        f"records are still on their way{_describe(runtime.metadata.last_errors())}",
                        phase="flush", outcome="unknown")
                results.extend(result.successors)
        finally:
            runtime.accumulator.end_flush()

    def partitions_for(self, topic: str) -> list[PartitionInfo]:
        """Return the partitions of a topic with their leaders and replicas, by index.

        Raises:
            KafkaTimeoutError: Not known within max.block.ms (phase "metadata").
            InvalidTopicError: The name is not allowed.
            AuthorizationError: The topic may not be described.
        """
        if self._record_sender.is_closed or self._record_sender.is_forked:
            raise unusable(self._record_sender.is_forked)
        topic = to_topic(topic)
        runtime = self._runtime
        cluster = wait_on_metadata(runtime.metadata, runtime.turns.wakeup, runtime.clock, topic, None,
                                   runtime.config.max_block_ms)
        return list(cluster.partitions_for_topic(topic))

    def metrics(self) -> dict[str, float]:
        """Return counters and gauges under Java's names (record-send-total, buffer-available-bytes, ...)."""
        return self._runtime.metrics.snapshot()

    @property
    def client_id(self) -> str:
        """The name that this producer tells the brokers."""
        return self._runtime.client_id

    def close(self, timeout: float | None = None) -> None:
        """Send what was handed over, then end the background thread and the connections.

        Called from a callback it does not wait. Calling it again does nothing.

        Args:
            timeout: Longest wait in seconds; then records that are not done fail with ProducerClosedError. None waits
                until all is done (delivery.timeout.ms bounds that).
        """
        if self._record_sender.is_closed:
            return
        self._record_sender.close()
        _live.discard(self)
        self._finalizer.detach()
        if self._record_sender.is_forked:
            return
        _close_runtime(self._runtime, timeout)

    def __enter__(self) -> KafkaProducer:
        return self

    def __exit__(self, exc_type: type[BaseException] | None, exc: BaseException | None,
                 traceback: TracebackType | None) -> None:
        self.close()

    def __reduce__(self) -> NoReturn:
        raise TypeError("a KafkaProducer cannot be pickled: it owns sockets and a thread. Send its properties (a dict) "
                        "to the worker and build the producer there; for Spark use pyproducer.spark.KafkaSink(props)")

    def __repr__(self) -> str:
        sender = self._record_sender
        state = "forked" if sender.is_forked else "closed" if sender.is_closed else "open"
        return f"<KafkaProducer {self._runtime.client_id} {state}>"


def _describe(last_errors: Mapping[str, str]) -> str:
    return "".join(f"; {address}: {text}" for address, text in last_errors.items())


def _close_runtime(runtime: ProducerRuntime, timeout: float | None) -> None:
    io_thread = runtime.io_thread
    if io_thread.is_current:
        io_thread.initiate_close()
        return
    io_thread.initiate_close()
    if not io_thread.join(timeout):
        io_thread.force_close()
        if not io_thread.join(_FORCED_CLOSE_SECONDS):
            log.warning("The sender thread of %s did not end within %s s after a forced close", runtime.client_id,
                        _FORCED_CLOSE_SECONDS)
    runtime.close_parts()


def _close_forgotten(runtime: ProducerRuntime, pid: int) -> None:
    """Close a producer that was dropped, or that lives at interpreter exit; loudly, but without losing its records."""
    if os.getpid() != pid or not runtime.io_thread.is_alive:
        return
    left = runtime.accumulator.incomplete_record_count()
    warnings.warn(f"unclosed {runtime.client_id}: close() was not called, {left} records are on their way",
                  ResourceWarning, stacklevel=2)
    _close_runtime(runtime, _EXIT_TIMEOUT_SECONDS)


def _mark_forked() -> None:
    """In a child process: every producer of the parent is unusable, whatever its state."""
    for producer in list(_live):
        producer._record_sender.mark_forked()
        producer._runtime.turns.mark_forked()
        producer._finalizer.detach()


os.register_at_fork(after_in_child=_mark_forked)
