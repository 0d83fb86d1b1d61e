"""The per-record work as Python text: the definition that a compiled twin must match.

Road:    partitioner, accumulator -> [murmur2, OpenBatch] -> record ... completion -> [run_callbacks] -> application
Thread:  an OpenBatch belongs to whoever holds its partition's lock; run_callbacks is the sender's; the rest is pure.
Source:  Java Utils.murmur2, DefaultRecord.writeTo, ByteUtils.writeVarint (4.1). Imports nothing of ours.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NoReturn

HEADER_SIZE_BYTES = 61
"""Room kept free at the start of a batch; record/layout.py draws what goes there."""

RECORD_OVERHEAD_BYTES = 21
"""Lengths, deltas and attributes of one record at most (Java's RECORD_OVERHEAD)."""

_MASK = 0xFFFFFFFF
_M = 0x5BD1E995
_SEED = 0x9747B28C


def _murmur2(data: bytes) -> int:
    length = len(data)
    h = _SEED ^ length
    whole = length & ~3
    for i in range(0, whole, 4):
        k = (int.from_bytes(data[i:i + 4], "little") * _M) & _MASK
        k = ((k ^ (k >> 24)) * _M) & _MASK
        h = ((h * _M) & _MASK) ^ k
    rest = length - whole
    if rest:
        if rest == 3:
            h ^= data[whole + 2] << 16
        if rest >= 2:
            h ^= data[whole + 1] << 8
        h = ((h ^ data[whole]) * _M) & _MASK
    h = ((h ^ (h >> 13)) * _M) & _MASK
    return h ^ (h >> 15)


_LONGEST_REMEMBERED_KEY_BYTES = 64
# 4,096 keys of at most 64 bytes: some hundred KiB. A hit costs a tenth of hashing 8 bytes again.
_murmur2_remembered = lru_cache(maxsize=4096)(_murmur2)


def murmur2(data: bytes) -> int:
    """Hash a key as Java's Utils.murmur2 does.

    Returns:
        The hash as an unsigned 32-bit int. Partitioners mask it with 0x7fffffff (Java's toPositive).

    Raises:
        TypeError: It is not bytes, or a subclass, which may have a length of its own.
    """
    if type(data) is not bytes:
        raise TypeError(f"Argument 'data' has incorrect type (expected bytes, got {type(data).__name__})")
    if len(data) <= _LONGEST_REMEMBERED_KEY_BYTES:
        return _murmur2_remembered(data)
    return _murmur2(data)


def encode_uvarint(value: int) -> bytes:
    """Encode a non-negative int, seven bits a byte, lowest first."""
    out = bytearray()
    while value > 0x7F:
        out.append((value & 0x7F) | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def encode_varint(value: int) -> bytes:
    """Encode a signed int of up to 64 bits, zigzag: the form inside records."""
    return encode_uvarint((value << 1) if value >= 0 else ((-value << 1) - 1))


_TABLE_SIZE = 16384
_VARINT = tuple(encode_varint(n) for n in range(_TABLE_SIZE))
_NULL = encode_varint(-1)
_NO_HEADERS = b"\x00"


def varint(value: int) -> bytes:
    """Encode as `encode_varint` does, from a table where the value is small."""
    return _VARINT[value] if 0 <= value < _TABLE_SIZE else encode_varint(value)


def encode_headers(headers: Sequence[tuple[str, bytes | None]]) -> bytes:
    """Encode a record's headers: their count, then each key and value with its length."""
    if not headers:
        return _NO_HEADERS
    parts = [varint(len(headers))]
    for key, value in headers:
        key_bytes = key.encode()
        parts.append(varint(len(key_bytes)))
        parts.append(key_bytes)
        if value is None:
            parts.append(_NULL)
        else:
            parts.append(varint(len(value)))
            parts.append(value)
    return b"".join(parts)


def record_size_upper_bound(key: bytes | None, value: bytes | None,
                            headers: Sequence[tuple[str, bytes | None]]) -> int:
    """Return how many bytes a batch with just this record takes at most, its 61-byte header included.

    Source: Java AbstractRecords.estimateSizeInBytesUpperBound (magic 2): 21 bytes of lengths and deltas at most.
    """
    size = HEADER_SIZE_BYTES + RECORD_OVERHEAD_BYTES
    if key is not None:
        size += len(key)
    if value is not None:
        size += len(value)
    for header_key, header_value in headers:
        size += 10 + 4 * len(header_key) + (len(header_value) if header_value is not None else 0)
    return size


class FutureRecordMetadata:
    """The promise of one record's `RecordMetadata`; all it can do is done by its batch's outcome, `_result`.

    Thread:  any. Callbacks run on the sender thread, or at once in the caller's when the record is done already.
    Source:  Java FutureRecordMetadata (4.1); the methods are those of concurrent.futures.Future, and it can be awaited.
    """

    __slots__ = ("_done_callbacks", "_index", "_on_completion", "_result", "_timestamp", "serialized_key_size",
                 "serialized_value_size")

    def __init__(self, result: Any, index: int, timestamp: int, key_size: int, value_size: int,
                 on_completion: Callable[[Any, Any], object] | None) -> None:
        self._result = result
        self._index = index
        self._timestamp = timestamp
        self.serialized_key_size: int = key_size
        self.serialized_value_size: int = value_size
        self._on_completion = on_completion
        self._done_callbacks: list[Callable[[FutureRecordMetadata], object]] | None = None

    def done(self) -> bool:
        """Whether the outcome of the record is known."""
        return bool(self._result.is_set)

    def running(self) -> bool:
        """Whether the record is on its way."""
        return not self._result.is_set

    def cancel(self) -> bool:
        """Return False: a record that was handed over cannot be taken back."""
        return False

    def cancelled(self) -> bool:
        """Return False: a record that was handed over cannot be taken back."""
        return False

    def result(self, timeout: float | None = None) -> Any:
        """Wait for the record and return where it was stored, a RecordMetadata.

        Args:
            timeout: Longest wait in seconds; None waits until the record is done (delivery.timeout.ms bounds that).

        Raises:
            KafkaTimeoutError: The timeout passed first (phase "future"). Unknown: the record is still on its way.
            KafkaError: The record failed; its `outcome` says what became of the record.
        """
        return self._result.result_of(self, timeout)

    def exception(self, timeout: float | None = None) -> Any:
        """Wait for the record and return its error, a KafkaError, or None when it was stored.

        Raises:
            KafkaTimeoutError: The timeout passed first (phase "future"). Unknown: the record is still on its way.
        """
        return self._result.exception_of(self, timeout)

    def add_done_callback(self, fn: Callable[[FutureRecordMetadata], object]) -> None:
        """Call `fn(future)` once the record is done; at once when it is done already.

        Raises:
            TypeError: It cannot be called, or it is a coroutine function. The record is on its way as before.
            ForkedProducerError: It is not done, and this is a child process: nobody would call.
        """
        self._result.add_done_callback(self, fn)

    def remove_done_callback(self, fn: Callable[[FutureRecordMetadata], object]) -> int:
        """Forget a callback that was added and not called; return how many times it was there. asyncio.wait() asks."""
        count: int = self._result.remove_done_callback(self, fn)
        return count

    if not TYPE_CHECKING:  # for people; a checker is to find these, and would take what follows for unreachable

        @property
        def get(self) -> NoReturn:
            """Of kafka-python's futures; this one has `result`."""
            raise AttributeError("a FutureRecordMetadata has no get(): result(timeout) waits, with the timeout in "
                                 "seconds")

        @property
        def add_callback(self) -> NoReturn:
            """Of kafka-python's futures; this one has `add_done_callback`."""
            raise AttributeError("a FutureRecordMetadata has no add_callback(): add_done_callback(fn) calls "
                                 "fn(future), and send(..., on_completion=fn) calls fn(metadata, exception)")

        @property
        def add_errback(self) -> NoReturn:
            """Of kafka-python's futures; this one has `add_done_callback`."""
            raise AttributeError("a FutureRecordMetadata has no add_errback(): add_done_callback(fn) calls fn(future), "
                                 "and send(..., on_completion=fn) calls fn(metadata, exception)")

    # What concurrent.futures.wait(), as_completed() and asyncio.wrap_future() ask of a concurrent.futures.Future.

    @property  # type: ignore[misc]  # for isinstance
    def __class__(self) -> Any:
        from concurrent.futures import Future

        return Future

    @property
    def _condition(self) -> Any:
        return self._result.concurrent_state_of(self).condition

    @property
    def _waiters(self) -> Any:
        return self._result.concurrent_state_of(self).waiters

    @property
    def _state(self) -> Any:
        return self._result.concurrent_state_of(self).name

    def _get_snapshot(self) -> Any:
        """Return whether it is done, whether cancelled, and one of result and error; from Python 3.14 on."""
        if not self._result.is_set:
            return False, False, None, None
        error = self._result.exception_of(self, 0)
        return True, False, self._result.result_of(self, 0) if error is None else None, error

    def __reduce_ex__(self, _protocol: Any) -> NoReturn:
        raise TypeError("a FutureRecordMetadata cannot be pickled or copied: it belongs to its producer; what result() "
                        "returns can be")

    def __await__(self) -> Generator[Any, None, Any]:
        return self._result.await_of(self)  # type: ignore[no-any-return]  # the contract names no class of ours

    def __repr__(self) -> str:
        return str(self._result.describe(self))


class OpenBatch:
    """The open end of one batch: records are encoded straight behind the room for the batch's header.

    Args:
        result: The outcome that the futures look into.
        write_limit_bytes: No record is appended beyond this size, but for the first.

    Shape: `buffer[61:]` holds the records, uncompressed; offset deltas count from 0, timestamp deltas from the
    first record's timestamp. `max_timestamp` is the largest seen.

    A record is there when `end` says so, which is written last and in one step: what lies behind is of one whose append
    was ended by an exception from outside, and is cut off by the next look.

    Attributes:
        end: Bytes, records, largest timestamp. Written here and by chunks of columns.
        futures: One for each record of `try_append`.
    """

    __slots__ = ("_bytes", "base_timestamp", "end", "futures", "is_closed", "result", "write_limit_bytes")

    def __init__(self, result: Any, write_limit_bytes: int) -> None:
        self._bytes = bytearray(HEADER_SIZE_BYTES)
        self.end: tuple[int, int, int] = (HEADER_SIZE_BYTES, 0, -1)
        self.base_timestamp: int = -1
        self.result: Any = result
        self.write_limit_bytes: int = write_limit_bytes
        self.futures: list[FutureRecordMetadata] = []
        self.is_closed: bool = False

    @property
    def buffer(self) -> bytearray:
        """The bytes."""
        size_bytes = self.end[0]
        if len(self._bytes) != size_bytes:
            del self._bytes[size_bytes:]
        return self._bytes

    @property
    def size_bytes(self) -> int:
        """Bytes so far, the header's 61 included."""
        return self.end[0]

    @property
    def record_count(self) -> int:
        """Records so far."""
        return self.end[1]

    @property
    def max_timestamp(self) -> int:
        """The largest timestamp, -1 without any record."""
        return self.end[2]

    @property
    def is_full(self) -> bool:
        """Whether no record fits any more."""
        return self.is_closed or self.end[0] >= self.write_limit_bytes

    def append(self, timestamp: int, key: bytes | None, value: bytes | None,
               headers: Sequence[tuple[str, bytes | None]]) -> None:
        """Encode one record at the end, whatever the limit is, and without a future.

        Args:
            timestamp: Epoch ms.
            key: Serialized key or None.
            value: Serialized value or None.
            headers: Pairs of str and bytes or None.
        """
        size_bytes, count, max_timestamp = self.end
        buffer = self._bytes if len(self._bytes) == size_bytes else self.buffer
        if count:
            delta = timestamp - self.base_timestamp
            if timestamp > max_timestamp:
                max_timestamp = timestamp
        else:
            delta = 0
            self.base_timestamp = max_timestamp = timestamp
        delta_bytes = _VARINT[delta] if 0 <= delta < _TABLE_SIZE else encode_varint(delta)
        offset_bytes = _VARINT[count] if count < _TABLE_SIZE else encode_varint(count)
        if key is None:
            key_length = _NULL
            key = b""
        else:
            length = len(key)
            key_length = _VARINT[length] if length < _TABLE_SIZE else encode_varint(length)
        if value is None:
            value_length = _NULL
            value = b""
        else:
            length = len(value)
            value_length = _VARINT[length] if length < _TABLE_SIZE else encode_varint(length)
        # b"\x00" in front: the record's attributes, not used by any version so far.
        body = b"".join((b"\x00", delta_bytes, offset_bytes, key_length, key, value_length, value,
                         encode_headers(headers) if headers else _NO_HEADERS))
        length = len(body)
        buffer += _VARINT[length] if length < _TABLE_SIZE else encode_varint(length)
        buffer += body
        self.end = (len(buffer), count + 1, max_timestamp)

    def try_append(self, timestamp: int, key: bytes | None, value: bytes | None,
                   headers: Sequence[tuple[str, bytes | None]],
                   on_completion: Callable[[Any, Any], object] | None) -> FutureRecordMetadata | None:
        """Add a record and return its future, or None when the batch is closed or has no room."""
        if self.is_closed:
            return None
        used, index, _ = self.end
        key_size = -1 if key is None else len(key)
        value_size = -1 if value is None else len(value)
        if index:
            needed_bytes = RECORD_OVERHEAD_BYTES + key_size + value_size
            if headers:
                for header_key, header_value in headers:
                    needed_bytes += 10 + 4 * len(header_key) + (0 if header_value is None else len(header_value))
            if used + needed_bytes > self.write_limit_bytes:
                return None
        # Before the record, which must not be there without one: Ctrl-C may come between any two lines.
        future = FutureRecordMetadata(self.result, index, timestamp, key_size, value_size, on_completion)
        future_count = len(self.futures)
        try:
            self.futures.append(future)
            self.append(timestamp, key, value, headers)
        except BaseException:
            if self.end[1] == index:
                del self.futures[future_count:]
            raise
        return future


def run_callbacks(futures: Sequence[Any], metadata_class: type[Any], topic: str, partition: int, base_offset: int,
                  log_append_time: int, on_raised: Callable[[Any, Any, BaseException], None]) -> None:
    """Tell the records of a stored batch, in order: on_completion(metadata, None), then the done callbacks.

    Args:
        futures: The batch's futures, each with its index there; each forgets its callbacks.
        metadata_class: A tuple of topic, partition, offset, timestamp, key size, value size.
        topic: The batch's topic.
        partition: The batch's partition.
        base_offset: Offset of the first record, or -1 when it is not known.
        log_append_time: The broker's time in epoch ms, or -1 where the records' own timestamps hold.
        on_raised: Told of a future and its callback what that raised. The others run all the same, unless this raises.
    """
    for future in futures:
        on_completion = future._on_completion
        if on_completion is not None:
            metadata = metadata_class(topic, partition, base_offset + future._index if base_offset >= 0 else -1,
                                      log_append_time if log_append_time >= 0 else future._timestamp,
                                      future.serialized_key_size, future.serialized_value_size)
            future._on_completion = None  # last: who is told is not told again
            try:
                on_completion(metadata, None)
            except BaseException as error:  # whatever a callback raises changes nothing; no signal arrives here
                on_raised(future, on_completion, error)
        if future._done_callbacks is not None:
            future._result.run_done_callbacks(future)
