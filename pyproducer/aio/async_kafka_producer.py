"""AsyncKafkaProducer: KafkaProducer's calls, each of which a task awaits.

Road:    task -> [AsyncKafkaProducer] -> KafkaProducer -> ...
Thread:  the event loop's, from the first use on.
Source:  ours; aiokafka's AIOKafkaProducer has the peers' interface.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Mapping
from contextvars import copy_context
from functools import partial
from inspect import signature
from threading import get_ident
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, NoReturn, TypeVar, overload

from pyproducer.accumulator.batch_future import BatchFuture, BatchMetadata
from pyproducer.accumulator.produce_result import Observer, OnCompletion
from pyproducer.aio.memory_lines import MemoryLines
from pyproducer.aio.threads import Threads
from pyproducer.common.callback import ensure_on_completion
from pyproducer.common.cluster import Cluster, PartitionInfo
from pyproducer.common.delivery_summary import DeliverySummary
from pyproducer.common.errors import (
    BufferExhaustedError,
    ConfigError,
    DeliveryFailedError,
    IllegalStateError,
    KafkaError,
)
from pyproducer.common.loop_inbox import LoopInbox, Wake, inbox_of_running_loop
from pyproducer.common.record_future import FutureRecordMetadata
from pyproducer.common.records import HeadersLike, ProducerRecord, RecordMetadata, to_topic
from pyproducer.common.waiting import Waiters
from pyproducer.hotpath import AsyncProducerBase
from pyproducer.observe.why import Why
from pyproducer.producer.async_transaction_block import AsyncTransactionBlock
from pyproducer.producer.config import CONFIG_TABLE
from pyproducer.producer.config.producer_config import file_props
from pyproducer.producer.do_send import Postponed
from pyproducer.producer.kafka_producer import K, KafkaProducer, V, begin_flush, flush_timed_out
from pyproducer.producer.live_view import PartitionState
from pyproducer.producer.metrics import ProducerMetrics
from pyproducer.producer.mistakes import no_attribute, not_settings, takes_no_timeout
from pyproducer.producer.serializers import Serializing
from pyproducer.producer.transaction_calls import Call, TransactionCalls
from pyproducer.producer.wait_on_metadata import ask, begin_to_ask, not_in_time
from pyproducer.transaction.prepared_transaction import PreparedTransaction

if TYPE_CHECKING:
    from datetime import datetime

    from pyproducer.producer.wiring import ProducerRuntime

__all__ = ["AsyncKafkaProducer"]

_log: logging.Logger = logging.getLogger(__name__)
_T = TypeVar("_T")


class AsyncKafkaProducer(AsyncProducerBase, Generic[K, V]):
    """Sends records to a Kafka cluster from an event loop; shared best by all tasks of the loop.

    Args:
        props: Java's configuration keys, with their dots; see `ProducerConfig`. Only `bootstrap.servers` is required.
        key_serializer: As KafkaProducer's; it runs in the event loop.
        value_serializer: The same for values.

    Raises:
        ConfigError: A setting is unknown, wrong or contradicts another. Nothing was started.

    It may be made anywhere, and belongs to the event loop of its first use: in another loop its methods raise
    IllegalStateError, all but flush() and close(), which work in any, also when the first one has ended:
    `asyncio.run(producer.close())`. Use it in an `async with` block, or await `close()`.

    Thread:  the event loop's. Callbacks run in the loop, too.
    Source:  ours.
    """

    if TYPE_CHECKING:  # as KafkaProducer's

        @overload
        def __init__(self, props: Mapping[str, object]) -> None: ...

        @overload
        def __init__(self: AsyncKafkaProducer[K, V], props: Mapping[str, object], key_serializer: Serializing[K],
                     value_serializer: Serializing[V]) -> None: ...

        @overload
        def __init__(self: AsyncKafkaProducer[bytes, V], props: Mapping[str, object], key_serializer: None = None, *,
                     value_serializer: Serializing[V]) -> None: ...

        @overload
        def __init__(self: AsyncKafkaProducer[K, bytes], props: Mapping[str, object], key_serializer: Serializing[K],
                     value_serializer: None = None) -> None: ...

        @overload
        def __init__(self: AsyncKafkaProducer[bytes, Any], props: Mapping[str, object], key_serializer: None = None, *,
                     value_serializer: str) -> None: ...

        @overload
        def __init__(self: AsyncKafkaProducer[Any, bytes], props: Mapping[str, object], key_serializer: str,
                     value_serializer: None = None) -> None: ...

        @overload
        def __init__(self: AsyncKafkaProducer[Any, Any], props: Mapping[str, object], key_serializer: object = None,
                     value_serializer: object = None) -> None: ...

    def __init__(self, props: Mapping[str, object] | None = None, key_serializer: object = None,
                 value_serializer: object = None, **foreign: object) -> None:
        refusal = not_settings(props, foreign, "AsyncKafkaProducer")
        if refusal is not None:
            del props, foreign  # see KafkaProducer
            raise refusal
        assert props is not None, "these are no settings"
        props = CONFIG_TABLE.guarded(props)
        self._producer: KafkaProducer[Any, Any] = KafkaProducer[Any, Any](props, key_serializer, value_serializer)
        self._belong_to_nobody()

    def _belong_to_nobody(self) -> None:
        """Have no loop, and no task that waits: before the first use, and before that in a child process."""
        self._used: ProducerRuntime | None = None  # what the loop has used
        self._loop: asyncio.AbstractEventLoop | None = None
        self._inbox: LoopInbox | None = None
        self._lines = MemoryLines(self._producer)
        self._threads = Threads(f"kafka-producer-aio | {self.client_id}")
        self._pave(self._producer._runtime.record_sender.road, self._lines.lines)

    @classmethod
    def from_file(cls, path: str | os.PathLike[str], /, *, key_serializer: object = None,
                  value_serializer: object = None, **overrides: object) -> AsyncKafkaProducer[Any, Any]:
        """Make a producer from a Java `.properties` file; see KafkaProducer.from_file."""
        props, place_of = file_props(path, overrides)
        del overrides  # an error below leads here, and shows variables
        try:
            return cls(props, key_serializer, value_serializer)
        except ConfigError as error:
            refusal = error.in_place(place_of)
        raise refusal from refusal.__cause__

    @overload
    async def send(self, topic: ProducerRecord, value: OnCompletion | None = None, /, *,
                   on_completion: OnCompletion | None = None) -> RecordMetadata: ...

    @overload
    async def send(self, topic: str, value: V | None = None, *, key: K | None = None, partition: int | None = None,
                   timestamp: int | datetime | None = None, headers: HeadersLike | None = None,
                   on_completion: OnCompletion | None = None) -> RecordMetadata: ...

    async def send(self, topic: str | ProducerRecord, value: Any = None, *more: Any, key: Any = None,  # noqa: D417 - no signature shows the rest
                   partition: int | None = None, timestamp: int | datetime | None = None,
                   headers: HeadersLike | None = None,
                   on_completion: OnCompletion | None = None, **foreign: Any) -> RecordMetadata:
        """Send one record and return where it was stored.

        Awaits its turn while buffer.memory is exhausted, up to max.block.ms, and then the broker's answer. A task that
        is cancelled while it waits for memory has not sent its record, and the callback is told; later the record goes
        its way, and the CancelledError says so.

        Args:
            topic: A ProducerRecord, or the topic's name.
            value: The value; with a ProducerRecord, `on_completion` may stand here.
            key: The key, or None.
            partition: Index of the partition, or None to let the partitioner choose.
            timestamp: Epoch ms, or None for now.
            headers: Pairs of str and bytes or None.
            on_completion: Called in the event loop as `on_completion(metadata, exception)`, one of them None.

        Raises:
            KafkaError: The record failed; its `outcome` says what became of the record.
            SerializationError: A serializer failed, or there is none and the data are not bytes. Not sent.
            TypeError: A part has the wrong type. Not sent.
            ValueError: A part is out of range. Not sent.
            IllegalStateError: The producer is closed, belongs to another event loop, or has a transactional.id and no
                transaction is open. Not sent.
        """
        if more or foreign:
            raise self._foreign(more, foreign)
        sent: Any = self._send_at_once(topic, value, key, partition, timestamp, headers, on_completion)
        if sent is None:
            sent = self._send_record(topic, value, key, partition, timestamp, headers, on_completion)
        future = sent
        if type(sent) is Postponed:
            future = await self._lines.send(
                sent, topic.topic if isinstance(topic, ProducerRecord) else topic, self._bind())
        try:
            metadata: RecordMetadata = await future
            return metadata
        except asyncio.CancelledError as cancelled:
            raise asyncio.CancelledError(f"the task was cancelled, not its record: {future!r} was handed over and is "
                                         "still on its way, so its outcome is unknown") from cancelled

    if TYPE_CHECKING:  # it is inherited, compiled where that is possible

        @overload  # type: ignore[override]  # as KafkaProducer.send
        def send_nowait(self, topic: ProducerRecord, /,
                        on_completion: OnCompletion | None = None) -> FutureRecordMetadata: ...

        @overload
        def send_nowait(self, topic: str, value: V | None = None, *, key: K | None = None,
                        partition: int | None = None, timestamp: int | datetime | None = None,
                        headers: HeadersLike | None = None,
                        on_completion: OnCompletion | None = None) -> FutureRecordMetadata: ...

        def send_nowait(self, *arguments: Any, **named: Any) -> FutureRecordMetadata:
            """See AsyncProducerBase.send_nowait."""

    def _send_with_care(self, sent: Any, topic: Any, value: Any, key: Any, partition: int | None,
                        timestamp: int | datetime | None, headers: Any,
                        on_completion: Any) -> FutureRecordMetadata:
        """Go on with send_nowait() where it is not plain: `sent` is None, or a Postponed where there was no memory."""
        if sent is None:
            sent = self._send_record(topic, value, key, partition, timestamp, headers, on_completion)
        if type(sent) is not Postponed:
            return sent  # type: ignore[no-any-return]
        error = BufferExhaustedError(str(sent.why) if sent.why is not None else (
            f"{self._lines.task_count} tasks wait for buffer.memory: await send(), which waits for its turn, or raise "
            "buffer.memory"))
        future = sent.give_up(error)
        future.exception()  # the caller is about to learn of it
        try:
            raise error
        finally:
            del error  # else it and this frame hold each other, and what the record was, until the collector comes

    def _send_record(self, topic: Any, value: Any, key: Any, partition: Any, timestamp: Any, headers: Any,
                     on_completion: Any) -> Any:
        """Hand over a record that is not plain, or a first one.

        Returns:
            Its future; a Postponed where there is no memory for it, or where it has to wait behind others.
        """
        if not self._is_bound():
            self._bind()
        value, on_completion = self._with_callbacks_in_loop(topic, value, on_completion)
        if self._lines.has_to_wait(topic):
            return self._producer._runtime.record_sender.postponed(topic, value, key, partition, timestamp, headers,
                                                                   on_completion)
        return self._producer.send(topic, value, key=key, partition=partition, timestamp=timestamp, headers=headers,
                                   on_completion=on_completion)

    async def send_batch(self, topic: str, values: Any, *, keys: Any = None, headers: Any = None,
                         timestamps: Any = None, partitions: Any = None) -> BatchMetadata:
        """Send many records of one topic as columns and return where they were stored; see KafkaProducer.send_batch.

        The columns are read on a thread meanwhile: do not change them. Calls of several tasks are made one after the
        other, in their order, and max.block.ms counts from the call on. Rows that failed are in the result's `errors`.
        """
        inbox = self._bind()
        runtime = self._producer._runtime
        loop_side, begun = runtime.life.loop, runtime.batch_sender.begin()

        def call() -> BatchFuture:
            loop_side.batch = begun
            try:
                return self._producer.send_batch(topic, values, keys=keys, headers=headers, timestamps=timestamps,
                                                 partitions=partitions)
            finally:
                loop_side.batch = None

        return await (await self._threads.call(inbox, call, in_order=True, goes_on=False))

    async def flush(self, timeout: float | None = None, *, raise_on_error: bool = False) -> None:
        """Await everything that was handed over, callbacks included; see KafkaProducer.flush.

        Raises:
            DeliveryFailedError: Records failed, see KafkaProducer.flush.
            KafkaTimeoutError: The timeout passed first (phase "flush"). Unknown: the records are still on their way.
        """
        producer = self._producer
        runtime = producer._present()
        life, clock = runtime.life, runtime.clock
        deadline_ms = life.begin_wait("flush()", timeout, is_awaited=True)
        began_ms = clock.now_ms()
        try:
            period, results = life.calls.run("flush()", begin_flush, runtime)
            while results:
                result = results.pop()
                if not result.is_told and not await self._until(
                        partial(getattr, result, "is_told"), result.waiters, "flush()", deadline_ms):
                    raise flush_timed_out(runtime, timeout)
                results.extend(result.successors)
        finally:
            runtime.registry.add_flush(clock.now_ms() - began_ms)
        await self._after_callbacks()
        # A task that was cancelled meanwhile was told nothing, and the next flush() or close() tells it.
        producer._end_flush(period, raise_on_error=raise_on_error)

    @takes_no_timeout
    async def init_transactions(self, transactional_id: str | None = None) -> None:
        """Get a producer id and an epoch for the transactional id; see KafkaProducer.init_transactions."""
        await self._make(self._calls().init(transactional_id))

    async def begin_transaction(self) -> None:
        """Begin a transaction: what any task sends from now on is in it; see KafkaProducer.begin_transaction."""
        self._bind()
        self._producer.begin_transaction()

    @takes_no_timeout
    async def send_offsets_to_transaction(self, offsets: Any, group_metadata: Any) -> None:
        """Have the transaction commit what was consumed, too; see KafkaProducer.send_offsets_to_transaction.

        Args:
            offsets: As there.
            group_metadata: As there; of an AIOKafkaConsumer the consumer itself.
        """
        # The offsets are read here, in the loop, which the consumer belongs to.
        await self._make(self._calls().send_offsets(offsets, group_metadata))

    @takes_no_timeout
    async def commit_transaction(self) -> None:
        """Await what is left of the transaction, and commit it; see KafkaProducer.commit_transaction.

        A task that is cancelled meanwhile leaves the commit going on: call it again to learn its outcome.
        """
        await self._make(self._calls().commit())

    @takes_no_timeout
    async def abort_transaction(self) -> None:
        """Give up the transaction; see KafkaProducer.abort_transaction."""
        await self._make(self._calls().abort())

    async def prepare_transaction(self) -> PreparedTransaction:
        """Await what is left of the transaction, and return what another process needs to end it.

        See KafkaProducer.prepare_transaction.
        """
        prepared: PreparedTransaction = await self._make(self._calls().prepare())
        return prepared

    async def _make(self, call: Call) -> Any:
        calls = self._calls()
        began_ms = calls.clock.now_ms()
        try:
            pending, deadline_ms = calls.begun(call)
            if not await self._until(partial(getattr, pending, "is_set"), pending.waiters, call.name, deadline_ms):
                raise calls.timed_out(call.name)
            await self._after_callbacks()
            return calls.told(pending)
        finally:
            calls.add_time(call, began_ms)

    def _calls(self) -> TransactionCalls:
        self._bind()
        return self._producer._runtime.transaction_calls

    def transaction(self) -> AsyncTransactionBlock:
        """Return an `async with` block that is one transaction; see KafkaProducer.transaction."""
        return AsyncTransactionBlock(self, self._producer._present().transaction_calls)

    async def partitions_for(self, topic: str) -> list[PartitionInfo]:
        """Return the partitions of a topic with their leaders and replicas; see KafkaProducer.partitions_for."""
        call = "partitions_for()"
        topic = to_topic(topic)
        self._bind()
        runtime = self._producer._runtime
        life, metadata, max_block_ms = runtime.life, runtime.metadata, runtime.config.max_block_ms
        life.ensure_open()
        deadline_ms = life.begin_wait(call, max_block_ms / 1000, is_awaited=True)
        began_ms, seen, asked = runtime.clock.now_ms(), metadata.fatal_count, (
            metadata, runtime.wire.wakeup, runtime.clock, topic)
        try:
            found = life.calls.run(call, begin_to_ask, *asked)
            while not isinstance(found, Cluster):
                if not await self._until(partial(metadata.is_newer, found, seen), metadata.waiters, call, deadline_ms):
                    raise not_in_time(metadata, topic, max_block_ms)
                metadata.ensure_topic_usable(topic)
                found = life.calls.run(call, ask, *asked)
        finally:
            runtime.registry.add_metadata_wait(runtime.clock.now_ms() - began_ms)
        return list(found.partitions_for_topic(topic))

    async def check(self, timeout: float | None = None) -> None:
        """Find out whether a broker can be reached with these settings; see KafkaProducer.check."""
        await self._on_thread(partial(self._producer.check, timeout))

    async def close(self, timeout: float | None = None) -> DeliverySummary:
        """Send what was handed over, then end the background thread and the connections; see KafkaProducer.close.

        Tasks that still wait for memory get ProducerClosedError. It works in any event loop, whatever has become of the
        one that the producer belongs to. In a forked child process it waits for nothing.

        Raises:
            DeliveryFailedError: See KafkaProducer.close.
        """
        producer = self._producer
        if producer._runtime.life.is_forked:
            return producer.close(timeout)
        return producer._raise_ended(await self._on_thread(partial(producer._end, timeout)))

    def metrics(self) -> ProducerMetrics:
        """Return the numbers of this producer under Java's names; see KafkaProducer.metrics."""
        return self._producer.metrics()

    def waiting(self) -> list[PartitionState]:
        """Return for which partitions records wait now; see KafkaProducer.waiting."""
        return self._producer.waiting()

    def why(self, *, last: float = 60, save: str | os.PathLike[str] | None = None) -> Why:
        """Say where the time of records went; see KafkaProducer.why. It takes some ms where much is kept."""
        return self._producer.why(last=last, save=save)

    def config(self) -> dict[str, str | None]:
        """Return every setting and its value; secrets are hidden. See KafkaProducer.config."""
        return self._producer.config()

    @property
    def client_id(self) -> str:
        """The name that this producer tells the brokers."""
        return self._producer.client_id

    async def __aenter__(self) -> AsyncKafkaProducer[K, V]:
        self._bind()
        return self

    async def __aexit__(self, exc_type: type[BaseException] | None, exc: BaseException | None,
                        traceback: TracebackType | None) -> None:
        try:
            await self.close()
        except DeliveryFailedError:
            if exc is None:  # else that is what the application is to see; the log tells of these
                raise

    if not TYPE_CHECKING:  # for people; a checker is to find these

        def __getattr__(self, name: str) -> NoReturn:
            raise no_attribute(self, name, _ELSEWHERE)

    def __reduce__(self) -> NoReturn:
        raise TypeError("an AsyncKafkaProducer cannot be pickled: it owns sockets and a thread. Send its properties (a "
                        "dict) to the worker and build the producer there")

    def __repr__(self) -> str:
        producer: KafkaProducer[Any, Any] | None = getattr(self, "_producer", None)  # none where the constructor raised
        return ("<AsyncKafkaProducer that was not made>" if producer is None
                else f"<AsyncKafkaProducer {producer.client_id} {producer._runtime.life.state.value}>")

    def _bind(self) -> LoopInbox:
        """Belong to the running event loop, which the producer's life is told; return its inbox.

        Not called for a record unless something of that changed, see AsyncProducerBase.

        Raises:
            IllegalStateError: It belongs to another one, or none of asyncio's runs in this thread. Not sent.
            ForkedProducerError: It was made before this process was forked. Not sent.
        """
        runtime = self._producer._present()  # in a child process it may be made anew, with a life that knows no loop
        life = runtime.life
        if life.is_forked:
            raise life.refusal()
        if self._used is not runtime and self._used is not None:
            self._belong_to_nobody()  # what waits for memory is the parent's
        inbox, loop = inbox_of_running_loop(self._inbox)
        if self._inbox is None or loop is not self._loop:
            if self._loop is not None:
                raise IllegalStateError(f"{self!r} belongs to another event loop, that of its first use: make a "
                                        "producer in each loop, or one KafkaProducer for all threads")
            self._used, self._loop, self._inbox = runtime, loop, inbox
        life.loop.ident = get_ident()  # each time: a loop may run in another thread than before
        life.loop.inbox = self._inbox
        self._pave(runtime.record_sender.road, self._lines.lines)
        self._enter_loop(life.loop, self._loop.is_running)
        return self._inbox

    def _with_callbacks_in_loop(self, topic: Any, value: Any, on_completion: Any) -> tuple[Any, Any]:
        """Return value and callback, that which is a callback as the loop's to call."""
        assert self._inbox is not None
        if on_completion is not None:
            on_completion = _told_in_loop(self._inbox, on_completion)
        if isinstance(topic, ProducerRecord) and callable(value):
            value = _told_in_loop(self._inbox, value)
        return value, on_completion

    async def _until(self, is_so: Callable[[], bool], waiters: Waiters, call: str, deadline_ms: int | None) -> bool:
        """Await that something is so, in whichever loop runs; False when the time is over first.

        Args:
            is_so: Asks; what it raises is raised.
            waiters: Rung when it may be so.
            call: What waits, for the error of a process that was forked meanwhile.
            deadline_ms: Until when; None is no limit.
        """
        runtime = self._producer._runtime
        wake = Wake(self._inbox)
        while not is_so():
            wake.rearm()
            waiters.enter(wake)  # type: ignore[arg-type]  # it is rung like a cell
            if is_so():  # meanwhile, which rang nobody
                break
            await asyncio.wait([wake.waiter], timeout=None if deadline_ms is None else max(
                0, deadline_ms - runtime.clock.now_ms()) / 1000)
            if runtime.life.is_forked:
                runtime.life.ensure_may_wait(call)
            if not wake.waiter.done():
                return is_so()
        return True

    async def _after_callbacks(self) -> None:
        """Await what was put into the loop's inbox before: callbacks of records that are done."""
        wake = Wake(self._inbox)
        wake()
        await wake.waiter

    async def _on_thread(self, call: Callable[[], _T]) -> _T:
        return await self._threads.call(inbox_of_running_loop(self._inbox)[0], call)



# Without what is there to be refused.
AsyncKafkaProducer.send.__signature__ = signature(  # type: ignore[attr-defined]  # functions may have one
    AsyncKafkaProducer.send_nowait)

# What other clients' producers have, and what it is here.
_ELSEWHERE = {
    "send_and_wait": "await send(...) waits, and returns where the record is; send_nowait(...) returns a future",
    "produce": "await send(topic, value, key=...) sends a record; send_nowait(...) returns a future at once",
    "poll": "nothing has to be polled: the event loop is told",
    "start": "the first use starts it: `async with AsyncKafkaProducer(...)`, or make it anywhere and use it",
    "stop": "await close() ends it",
    "aclose": "await close() ends it",
    "create_batch": "await send_batch(topic, values, keys=...) sends many records as columns",
    "get": "await send(...) waits; send_nowait(...) returns a future, which can be awaited",
    "list_topics": "await partitions_for(topic) gives a topic's partitions; admin calls are an admin client's",
    "purge": "await close(0) fails what is not done",
    "client": "await check(timeout) connects; await partitions_for(topic) tells of a topic",
}


def _told_in_loop(inbox: LoopInbox, on_completion: OnCompletion) -> OnCompletion:
    """Return a callback that has the event loop call the application's, in the context of now.

    An observer's is the loop's to call already.
    """
    if type(on_completion) is Observer:
        return on_completion
    ensure_on_completion(on_completion, "pass a function, or await send()")

    def call(metadata: RecordMetadata | None, error: KafkaError | None) -> None:
        try:
            on_completion(metadata, error)
        except Exception:
            _log.exception("on_completion of a record raised")

    context = copy_context()
    return lambda metadata, error: inbox.put(partial(context.run, call, metadata, error))
