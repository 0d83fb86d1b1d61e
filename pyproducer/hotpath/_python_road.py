"""The whole of send() as Python text: the definition that the compiled twin must match.

Road:    [application] -> send() -> [gate, interceptors, serializers, size, partition] -> RecordAccumulator
Thread:  any caller; takes no lock. RouteTable.renew: whoever takes in metadata, one at a time.
Source:  Java KafkaProducer.doSend (4.1). Imports nothing of ours: what it cannot decide it asks of its Upcalls.
"""

from __future__ import annotations

import inspect
import time
from _thread import get_ident
from collections.abc import Callable, Container, Iterator, Sized
from functools import partial
from types import FunctionType, MethodType
from typing import TYPE_CHECKING, Any
from zlib import crc32

from pyproducer.hotpath._python import FutureRecordMetadata, OpenBatch, murmur2, record_size_upper_bound

if TYPE_CHECKING:
    from pyproducer.hotpath.contract import Upcalls

AS_IS, TEXT, CALLED = 0, 1, 2
"""How a key or value becomes bytes: bytes stay as they are, str to UTF-8 (None passes both), or somebody is called."""

NO_HASH, MURMUR2, CRC32 = 0, 1, 2
"""What says where a record with a key goes: nothing, Java's hash, or librdkafka's, to which an empty key is none."""

_POSITIVE_MASK = 0x7FFFFFFF
_MOST_PARTITION = 2**31 - 1
# A timestamp between these is in seconds, not in ms, and refused by who checks.
_LEAST_SECONDS, _LEAST_MS = 10**9, 10**10
_MOST_KNOWN = 64
_set = object.__setattr__


class RecordParts:
    """The fields of a ProducerRecord, written once.

    A subclass has `_checked(topic, partition, timestamp, headers)`, which returns them as they are kept, or raises.
    """

    __slots__ = ("headers", "key", "partition", "timestamp", "topic", "value")
    topic: str
    value: Any
    key: Any
    partition: int | None
    timestamp: int | None
    headers: tuple[Any, ...]

    _checked: Callable[..., tuple[Any, Any, Any, Any]]

    def __init__(self, topic: str, value: Any = None, key: Any = None, *, partition: int | None = None,
                 timestamp: int | None = None, headers: Any = None) -> None:
        topic, partition, timestamp, headers = self._checked(topic, partition, timestamp, headers)
        _set(self, "topic", topic)
        _set(self, "value", value)
        _set(self, "key", key)
        _set(self, "partition", partition)
        _set(self, "timestamp", timestamp)
        _set(self, "headers", headers)


class StickyPartition:
    """The partition that a topic's records without key go to for now, and how many bytes it got.

    Thread:  the Python text's owner holds a lock around `add` and `switch_to`; of the compiled one each is one step.
    """

    __slots__ = ("limit_bytes", "partition", "produced_bytes")

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes: int = limit_bytes
        self.partition: int = -1
        self.produced_bytes: int = 0

    def add(self, partition: int, size_bytes: int, can_switch: bool) -> bool:
        """Count bytes that were appended; those for another partition do not count.

        Args:
            partition: Where they went.
            size_bytes: How many.
            can_switch: False keeps the partition until twice the limit, so that a batch that is not full can fill.

        Returns:
            Whether it is another partition's turn.
        """
        if partition != self.partition:
            return False
        self.produced_bytes += size_bytes
        return self.produced_bytes >= self.limit_bytes and (can_switch or self.produced_bytes >= 2 * self.limit_bytes)

    def switch_to(self, partition: int) -> None:
        """Go on with another partition, of which nothing is counted yet."""
        self.partition = partition
        self.produced_bytes = 0


class Route:
    """What send() knows of one topic, as of one snapshot of the metadata.

    Args:
        count: The highest index and one more; keys are hashed over it. Partitions between may be missing.
        key_hash: NO_HASH, or a record with a key goes where MURMUR2 or CRC32 of it says.
        turns: The other records go over `available` in turns, this one's positive part modulo its length.
        available: Indices of partitions.
        sticky: Or they go here, until it got enough.
    """

    __slots__ = ("available", "count", "is_used", "key_hash", "sticky", "turns")

    def __init__(self, count: int, key_hash: int, turns: Iterator[int] | None = None,
                 available: tuple[int, ...] = (), sticky: StickyPartition | None = None) -> None:
        if count < 1 or (turns is not None and not available):
            raise ValueError(f"a route to {count} partitions, {len(available)} of them available, leads nowhere")
        self.count: int = count
        self.key_hash: int = key_hash
        self.turns: Iterator[int] | None = turns
        self.available: tuple[int, ...] = available
        self.sticky: StickyPartition | None = sticky
        self.is_used: bool = False  # a record was sent since RouteTable.take_used


class RouteTable:
    """The routes of the present snapshot; a new snapshot has none, and the next record of each topic makes its own.

    Attributes:
        keeps_batches: Whether a road appends to what `open_batch` told. The Python text asks the accumulator each time.
    """

    __slots__ = ("_used", "cluster", "routes")

    keeps_batches = False

    def __init__(self) -> None:
        self.cluster: Any = None
        self.routes: dict[str, Route] = {}
        self._used: set[str] = set()  # of routes that are gone

    def renew(self, cluster: Any) -> None:
        """Take in a snapshot."""
        for topic, route in list(self.routes.items()):
            if route.is_used:
                self._used.add(topic)
        # In this order: whoever added a route and saw the old snapshot added it to the old dict.
        self.cluster = cluster
        self.routes = {}

    def add(self, cluster: Any, topic: str, route: Route) -> None:
        """Keep a route, if the snapshot that it was made of is the present one."""
        routes = self.routes
        if self.cluster is cluster:
            routes[topic] = route

    def forget(self, topic: str) -> None:
        """Drop a topic's route: the next record looks for another."""
        route = self.routes.pop(topic, None)
        if route is not None and route.is_used:
            self._used.add(topic)

    def open_batch(self, cluster: Any, topic: str, partition: int, batch: OpenBatch) -> None:
        """Say which batch takes a partition's next records, if the snapshot that it was chosen by is the present one.

        Since another came, records may wait for that partition. Nothing is done where no batch is kept.
        """

    def take_used(self) -> set[str]:
        """Return the topics that records were sent to since the last call."""
        used, self._used = self._used, set()
        for topic, route in list(self.routes.items()):
            if route.is_used:
                route.is_used = False
                used.add(topic)
        return used


class Acknowledgement:
    """What a record's future calls when interceptors are told of its outcome, too: them first.

    Args:
        tell: The interceptors' on_acknowledgement.
        on_completion: The application's callback, or None.
    """

    __slots__ = ("on_completion", "tell")

    def __init__(self, tell: Callable[[Any, Any], object], on_completion: Callable[[Any, Any], object] | None) -> None:
        self.tell: Callable[[Any, Any], object] = tell
        self.on_completion: Callable[[Any, Any], object] | None = on_completion

    def __call__(self, metadata: Any, exception: Any) -> None:
        try:
            self.tell(metadata, exception)
        finally:
            if self.on_completion is not None:
                self.on_completion(metadata, exception)


class Road:
    """send(), from its arguments to a batch.

    Args:
        upcalls: Does what this cannot.
        routes: What is known of topics.
        record_class: ProducerRecord.
        max_record_bytes: The largest record, by `record_size_upper_bound`.
        key_form: AS_IS, TEXT or CALLED.
        value_form: The same for values.
        is_intercepted: Whether there are interceptors.
        timestamp_ms: Gives the time in epoch ms; None reads the system's clock.
        inside: Idents of threads that may be in the middle of a call; `upcalls` knows which are.
    """

    __slots__ = ("_inside", "_is_intercepted", "_key_form", "_known", "_max_record_bytes", "_record_class", "_routes",
                 "_timestamp_ms", "_upcalls", "_value_form", "gate")

    def __init__(self, upcalls: Upcalls, routes: RouteTable, *, record_class: type[Any], max_record_bytes: int,
                 key_form: int, value_form: int, is_intercepted: bool,
                 timestamp_ms: Callable[[], int] | None = None, inside: Container[int] = ()) -> None:
        # Asked before each record; it raises when no record may be sent now, and returns the road that has taken this
        # one's place, if there is one. None: the way is free.
        self.gate: Callable[[], Road | None] | None = None
        self._upcalls = upcalls
        self._routes = routes
        self._record_class = record_class
        self._max_record_bytes = max_record_bytes
        self._key_form = key_form
        self._value_form = value_form
        self._is_intercepted = is_intercepted
        self._timestamp_ms = timestamp_ms
        self._inside = inside
        # Of callbacks: what `upcalls` had nothing against, by its address, and how many arguments come before ours.
        self._known: dict[tuple[int, int], object] = {}

    def send(self, topic: Any, value: Any = None, key: Any = None, partition: int | None = None,
             timestamp: int | None = None, headers: Any = None, on_completion: Any = None) -> Any:
        """Take a record or its parts; see ProducerBase.send."""
        if self.gate is not None:
            successor = self.gate()
            if successor is not None:
                return successor.send(topic, value, key, partition, timestamp, headers, on_completion)
        upcalls = self._upcalls
        if self._inside and get_ident() in self._inside:
            upcalls.ensure_outside()
        record: Any = None
        if (type(topic) is str and topic and headers is None
                and (partition is None or (type(partition) is int and 0 <= partition <= _MOST_PARTITION))
                and (timestamp is None or (type(timestamp) is int and (
                    _LEAST_MS <= timestamp < 2**63 or 0 <= timestamp < _LEAST_SECONDS)))
                and (on_completion is None or self.takes(on_completion))):
            headers = ()
        else:
            record, on_completion = upcalls.checked(topic, value, key, partition, timestamp, headers, on_completion)
        if self._is_intercepted:
            if record is None:
                record = self._record_class(topic, value, key, partition=partition, timestamp=timestamp)
            record, on_completion = upcalls.intercept(record, on_completion)
        if record is not None:
            topic, value, key = record.topic, record.value, record.key
            partition, timestamp, headers = record.partition, record.timestamp, record.headers
        try:
            if (self._key_form == AS_IS and (key is None or type(key) is bytes)
                    and self._value_form == AS_IS and (value is None or type(value) is bytes)):
                key_bytes, value_bytes = key, value
            else:
                key_bytes, value_bytes, headers = upcalls.serialize(topic, headers, key, value)
            return self._send_serialized(topic, partition, timestamp, key, key_bytes, value, value_bytes, headers,
                                         on_completion)
        except Exception as error:
            return upcalls.failed(error, topic, partition, on_completion)

    def foreign(self, more: tuple[Any, ...], named: dict[str, Any]) -> Exception:
        """Return the error for arguments that send() does not have, by position or by name."""
        return self._upcalls.foreign(2 + len(more), next(iter(named), ""))

    def takes(self, callback: Any) -> bool:
        """Whether a callback can be called; `upcalls` looks once at its code, or its type, and may refuse it."""
        owner, given_count = _owner_of(callback)
        if owner is not None and (id(owner), given_count) in self._known:
            return True
        if not callable(callback):
            return False
        is_alike = self._upcalls.ensure_callback(callback)
        if is_alike and owner is not None:
            if len(self._known) >= _MOST_KNOWN:
                self._known = {}
            self._known[id(owner), given_count] = owner
        return True

    def _send_serialized(self, topic: str, partition: int | None, timestamp: int | None, key: Any,
                         key_bytes: bytes | None, value: Any, value_bytes: bytes | None, headers: tuple[Any, ...],
                         on_completion: Any) -> Any:
        upcalls = self._upcalls
        if timestamp is None:
            timestamp = time.time_ns() // 1_000_000 if self._timestamp_ms is None else self._timestamp_ms()
        size_bytes = record_size_upper_bound(key_bytes, value_bytes, headers)
        if size_bytes > self._max_record_bytes:
            raise upcalls.too_large(topic, size_bytes)
        route: Route | None = self._routes.routes.get(topic)
        if route is None:
            route = upcalls.find_route(topic)
        if route is None or (partition is not None and not 0 <= partition < route.count):
            return upcalls.await_topic(topic, partition, timestamp, key, key_bytes, value, value_bytes, headers,
                                       on_completion, size_bytes)
        route.is_used = True
        if partition is None:
            if key_bytes is not None and route.key_hash == MURMUR2:
                partition = (murmur2(key_bytes) & _POSITIVE_MASK) % route.count
            elif key_bytes and route.key_hash == CRC32:
                partition = crc32(key_bytes) % route.count
            elif route.turns is not None:
                partition = route.available[(next(route.turns) & _POSITIVE_MASK) % len(route.available)]
            elif route.sticky is not None and 0 <= route.sticky.partition < route.count:
                partition = route.sticky.partition
            else:  # also where somebody with another snapshot chose a sticky partition that is not there
                partition = upcalls.choose(topic, key, key_bytes, value, value_bytes)
                if partition < 0:
                    return upcalls.await_topic(topic, None, timestamp, key, key_bytes, value, value_bytes, headers,
                                               on_completion, size_bytes)
        return upcalls.append(topic, partition, timestamp, key_bytes, value_bytes, headers, on_completion, size_bytes)


def _owner_of(callback: Any) -> tuple[object, int]:
    """Return what decides how a callback is called, its code or else its type; and how many arguments it is given."""
    kind, given_count = type(callback), 0
    if kind is FunctionType:
        return callback.__code__, 0
    if kind is partial:
        given_count = len(callback.args)
        callback = callback.func
    elif kind is not MethodType:
        return kind, -1
    if type(callback) is MethodType:
        given_count += 1
        callback = callback.__func__
    return callback.__code__ if type(callback) is FunctionType else None, given_count


class ProducerBase:
    """What KafkaProducer inherits from here, because it exists compiled, too: send().

    A method of a base class is found as fast as an attribute of the instance, and is a method all the same: it keeps
    the producer alive, and a subclass, a patched class and a patched instance take its place.

    Thread:  any caller.
    """

    __slots__ = ("__weakref__", "_road")

    def _pave(self, road: Road) -> None:
        """Say where records go."""
        self._road = road

    def send(self, topic: Any, value: Any = None, *more: Any, key: Any = None, partition: int | None = None,  # noqa: D417 - no signature shows the rest
             timestamp: int | None = None, headers: Any = None, on_completion: Any = None, **foreign: Any) -> Any:
        """Hand over one record: `send(record, on_completion)`, or its parts: `send(topic, value, key=...)`.

        Blocks up to max.block.ms while buffer.memory is exhausted; never waits for a broker. A record whose topic, or
        partition, is not known yet waits for it after the call, up to max.block.ms, and later ones behind it; its
        partitioner runs on the producer's own thread then, and what that raises goes to the future. A quarter of
        buffer.memory at most is for such records.

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
            ProducerDeadError: The producer's thread ended by an error. Not sent.
            ForkedProducerError: The producer was made before this process was forked. Not sent.
            IllegalStateError: It has a transactional.id, and no transaction is open. Not sent.
            AbortableTransactionError: The transaction has to be aborted. Not sent.
            FatalProducerError: The producer can only be closed. Not sent.
        """
        try:
            road = self._road
        except AttributeError:
            raise RuntimeError("this producer was never made: its __init__ did not run, or raised") from None
        if more or foreign:
            raise road.foreign(more, foreign)
        return road.send(topic, value, key, partition, timestamp, headers, on_completion)


def _own_signature(send: Callable[..., Any]) -> inspect.Signature:
    """Return the signature without what is there to be refused."""
    signature = inspect.signature(send)
    return signature.replace(parameters=[parameter for name, parameter in signature.parameters.items()
                                         if name not in ("more", "foreign")])


ProducerBase.send.__signature__ = _own_signature(ProducerBase.send)  # type: ignore[attr-defined]  # functions may have one


class AsyncProducerBase:
    """What AsyncKafkaProducer inherits from here, because it exists compiled, too: send_nowait().

    A record takes the road at once where the producer's loop runs in this thread and no task waits for memory; what is
    not so plain goes by `_send_with_care(sent, ...)`, which a subclass has: `sent` is None, or what the road returned
    that is no future.

    Thread:  the event loop's.
    """

    __slots__ = ("__weakref__", "_line", "_loop_runs", "_loop_side", "_road")

    def _pave(self, road: Road, line: Sized) -> None:
        """Say where records go, and what has something in it where tasks wait for memory."""
        self._road = road
        self._line = line
        self._loop_side: Any = None  # LoopSide of accumulator/loop_side.py
        self._loop_runs: Callable[[], bool] = bool

    def _enter_loop(self, loop_side: Any, loop_runs: Callable[[], bool]) -> None:
        """Belong to a loop.

        Args:
            loop_side: Knows in which thread it runs; in a child process it knows none any more.
            loop_runs: Whether it does. The running loop itself is not asked for: until Python 3.12 that is a system
                call, for the process's id.
        """
        self._loop_runs = loop_runs
        self._loop_side = loop_side

    def _is_bound(self) -> bool:
        """Whether the loop that it belongs to runs in this thread."""
        side = self._loop_side
        return side is not None and side.ident == get_ident() and self._loop_runs()

    def _foreign(self, more: tuple[Any, ...], named: dict[str, Any]) -> Exception:
        """Return the error for arguments that there are none of."""
        return self._road.foreign(more, named)

    def _send_at_once(self, topic: Any, value: Any, key: Any, partition: int | None, timestamp: Any, headers: Any,
                      on_completion: Any) -> Any:
        """Hand a record over, if it is plain; else return None."""
        if (self._is_bound() and on_completion is None and not self._line
                and (type(topic) is str or (value is None and type(topic) is self._road._record_class))):
            return self._road.send(topic, value, key, partition, timestamp, headers)
        return None

    def send_nowait(self, topic: Any, value: Any = None, *more: Any, key: Any = None, partition: int | None = None,  # noqa: D417 - no signature shows the rest
                    timestamp: int | None = None, headers: Any = None, on_completion: Any = None,
                    **foreign: Any) -> Any:
        """Hand one record over and return its future, which can be awaited; see `send`.

        The future's done callbacks run in the event loop, too.

        Args:
            topic: A ProducerRecord, or the topic's name.
            value: The value; with a ProducerRecord, `on_completion` may stand here.
            key: The key, or None.
            partition: Index of the partition, or None to let the partitioner choose.
            timestamp: Epoch ms, or None for now.
            headers: Pairs of str and bytes or None.
            on_completion: Called in the event loop as `on_completion(metadata, exception)`, one of them None.

        Raises:
            BufferExhaustedError: There is no memory for it now, or tasks wait for theirs. Not sent; the callback,
                interceptors and flush() are told, too.
            KafkaError: It cannot be handed over; see `send`. What happens later goes to the future.
            IllegalStateError: The producer is closed, or belongs to another event loop. Not sent.
        """
        if more or foreign:
            raise self._foreign(more, foreign)
        try:
            sent = self._send_at_once(topic, value, key, partition, timestamp, headers, on_completion)
        except AttributeError:
            if hasattr(self, "_loop_side"):
                raise  # of a serializer, say
            raise RuntimeError("this producer was never made: its __init__ did not run, or raised") from None
        if type(sent) is FutureRecordMetadata:
            return sent
        return self._send_with_care(  # type: ignore[attr-defined]  # a subclass has it
            sent, topic, value, key, partition, timestamp, headers, on_completion)


AsyncProducerBase.send_nowait.__signature__ = (  # type: ignore[attr-defined]  # as above
    _own_signature(AsyncProducerBase.send_nowait))
