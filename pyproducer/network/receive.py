"""Frames in: one whose bytes come in parts, all that one read brings, and what a peer speaks whose bytes are no frames.

    scratch (64 KiB, the selector's) <- one recv
      whole frames                      copied out as bytes
      the beginning of a frame          copied into a NetworkReceive, whose rest is then received in place
      what is behind the first frame    one at a time only: held back until the channel is unmuted

    NetworkReceive
      size (4 bytes, signed)  -> checked before anything is allocated
      payload (size bytes)    -> into memory that grows with what has really arrived, so that a peer that announces
                                 100 MB and sends nothing costs one step, not 100 MB

Road:    TransportLayer -> [receive] -> KafkaChannel.read -> NetworkClient / Processor
Thread:  the thread that polls the selector, until a frame is complete.
Source:  Java NetworkReceive, KafkaChannel.read/receive (4.1), which read the size and then the payload with two calls
         per frame; seed 003 (BoundedByteBufferReceive). Differs from Java: reads ahead into a buffer that all channels
         of a selector share, because a system call through Python costs as much as the rest of a small frame. The
         guess is ours; RFC 8446 5.1 for the TLS record header, seen as "Invalid receive (size = 352518912)".
"""

from __future__ import annotations

import struct

from pyproducer.common.errors import DisconnectedError, InvalidReceiveError
from pyproducer.network.transport import END_OF_STREAM, TransportLayer

_METHODS = frozenset({b"GET ", b"POST", b"PUT ", b"HEAD", b"OPTI", b"CONN", b"DELE", b"PATC", b"PRI "})
_TLS_RECORD_TYPES = frozenset({0x14, 0x15, 0x16, 0x17})


def speaks_tls(first_bytes: bytes) -> bool:
    """Whether the bytes begin a TLS record: its type, then major version 3."""
    return len(first_bytes) >= 2 and first_bytes[0] in _TLS_RECORD_TYPES and first_bytes[1] == 3


def guess_protocol(first_bytes: bytes) -> str | None:
    """Return `TLS`, `HTTP` or `SSH` when the first four bytes tell, else None."""
    first_bytes = bytes(first_bytes[:4])
    if speaks_tls(first_bytes):
        return "TLS"
    if first_bytes == b"HTTP" or first_bytes in _METHODS:
        return "HTTP"
    return "SSH" if first_bytes == b"SSH-" else None


def guess_sentence(size: int, peer: str) -> str:
    """Return a sentence about a size that is none, with a leading space, or nothing; `peer` may be empty."""
    first_bytes = (size & 0xFFFFFFFF).to_bytes(4, "big")
    protocol = guess_protocol(first_bytes)
    at = f" at {peer}" if peer else ""
    if protocol is not None:
        return f" The peer{at} seems to speak {protocol}, not the Kafka protocol."
    # A size of four printable characters is above 500 MB: it is text, as of a mail server or of HTTP without a header.
    if all(0x20 <= byte < 0x7F for byte in first_bytes):
        return f" The first bytes of the peer{at} are the text {first_bytes.decode('ascii')!r}, not the Kafka protocol."
    return ""


_SIZE = struct.Struct(">i")
_INT32_MAX = 2**31 - 1
# Covers nearly every frame in one step: the default of max.request.size is 1 MiB, of fetch.max.bytes more.
FIRST_STEP_BYTES = 1 << 20


def check_size(size: int, max_size_bytes: int | None, *, allow_empty: bool, peer: str) -> None:
    """Raise when a frame cannot have this size.

    Raises:
        InvalidReceiveError: Not positive, or above the limit. Unknown.
    """
    if size < 0 or (size == 0 and not allow_empty):
        raise InvalidReceiveError(f"Invalid receive (size = {size}).{guess_sentence(size, peer)}")
    if max_size_bytes is not None and size > max_size_bytes:
        raise InvalidReceiveError(
            f"Request of length {size} is not valid, it is larger than the maximum size of {max_size_bytes} bytes."
            f"{guess_sentence(size, peer)}")


class NetworkReceive:
    """A frame from one connection.

    Shape: a finished payload belongs to whoever holds the receive; nobody writes into it again. It is `bytes`, or a
    memoryview of a bytearray for a frame that arrived in several parts.

    Args:
        source: Connection id.
        max_size_bytes: Largest payload; None for no limit but the four bytes' own.
        allow_empty: Let a payload of nothing through (SASL tokens); otherwise it is an invalid size.
        peer: `host:port`, for messages.
        payload: The payload of a frame that is already complete.
    """

    __slots__ = ("_allow_empty", "_buffer", "_filled_bytes", "_header", "_max_size_bytes", "_peer", "_size_bytes",
                 "complete", "payload", "source")

    def __init__(self, source: str, max_size_bytes: int | None = None, allow_empty: bool = False, peer: str = "",
                 payload: bytes | None = None) -> None:
        self.source: str = source
        self.complete: bool = payload is not None
        self.payload: bytes | memoryview = b"" if payload is None else payload
        if payload is not None:  # the fast road: nothing below is ever looked at
            return
        self._max_size_bytes = max_size_bytes
        self._allow_empty = allow_empty
        self._peer = peer or source
        self._header = b""
        self._size_bytes = -1  # not known yet
        self._filled_bytes = 0
        self._buffer = bytearray()

    @property
    def missing_bytes(self) -> int:
        """How many bytes of the payload are missing; 0 while its size is unknown."""
        return self._size_bytes - self._filled_bytes if self._size_bytes >= 0 else 0

    def feed(self, data: memoryview) -> int:
        """Take what belongs to this frame from the front of some bytes.

        Returns:
            How many bytes were taken; fewer than given only when the frame is complete.

        Raises:
            InvalidReceiveError: The size is not positive or above the limit. Unknown.
        """
        taken = 0
        if self._size_bytes < 0:
            taken = min(_SIZE.size - len(self._header), len(data))
            self._on_header(bytes(data[:taken]))
        while taken < len(data) and not self.complete:
            with self._room() as room:
                count = min(len(room), len(data) - taken)
                room[:count] = data[taken:taken + count]
            taken += count
            self._on_payload(count)
        return taken

    def read_from(self, transport: TransportLayer) -> int:
        """Read once what is there and belongs to this frame; never a byte beyond it.

        Returns:
            How many bytes were read, 0 when nothing is there now, END_OF_STREAM (-1) at the end of the stream.

        Raises:
            InvalidReceiveError: The size is not positive or above the limit. Unknown.
            OSError: The connection is broken. Unknown.
        """
        total = 0
        if self._size_bytes < 0:
            header = bytearray(_SIZE.size - len(self._header))
            count = transport.read_into(memoryview(header))
            if count <= 0:
                return count
            total = count
            self._on_header(bytes(header[:count]))
        if self._size_bytes > 0:
            count = self.read_payload_from(transport)
            if count == END_OF_STREAM:
                return total or END_OF_STREAM
            total += count
        return total

    def read_payload_from(self, transport: TransportLayer) -> int:
        """Read once into the payload; the size must be known and not everything be there."""
        with self._room() as room:  # released at once: a bytearray with a view on it can not grow
            count = transport.read_into(room)
        if count > 0:
            self._on_payload(count)
        return count

    def _on_header(self, data: bytes) -> None:
        self._header += data
        if len(self._header) == _SIZE.size:
            size: int = _SIZE.unpack(self._header)[0]
            check_size(size, self._max_size_bytes, allow_empty=self._allow_empty, peer=self._peer)
            self._size_bytes = size
            self.complete = size == 0

    def _room(self) -> memoryview:
        """Return the free part of the buffer, which doubles when it is full."""
        if self._filled_bytes == len(self._buffer):
            step = min(max(len(self._buffer), FIRST_STEP_BYTES), self._size_bytes - self._filled_bytes)
            if self._buffer:
                self._buffer += bytes(step)
            else:
                self._buffer = bytearray(step)
        return memoryview(self._buffer)[self._filled_bytes:]

    def _on_payload(self, count: int) -> None:
        self._filled_bytes += count
        if self._filled_bytes == self._size_bytes:
            self.payload = memoryview(self._buffer)
            self.complete = True


_NOTHING = memoryview(b"")
# One read takes several Produce responses or one default batch; larger frames are received in place anyway.
SCRATCH_BYTES = 64 * 1024
# Reads of one channel in one poll: bounds what one busy peer takes from the others (1 MiB when it fills the scratch).
MAX_READS_PER_POLL = 16


class FrameReader:
    """The reading half of a channel.

    Args:
        source: Connection id, for the receives.
        peer: `host:port`, for messages.
        max_size_bytes: Largest payload; None for no limit.
        one_at_a_time: Hand out at most one frame per read and hold back what lies behind it.
        scratch: Memory to read into; shared, nothing in it survives a call.

    Attributes:
        ended: Why nothing more will come: the end of the stream, a broken connection or a size that makes no sense;
            None while it may.
        held: Bytes that were read ahead, and that no frame was cut from yet.
        bytes_read: All bytes so far, sizes included.
    """

    __slots__ = ("_current", "_longest_bytes", "_max_size_bytes", "_one_at_a_time", "_peer", "_scratch", "_source",
                 "bytes_read", "ended", "held")

    def __init__(self, source: str, *, peer: str, max_size_bytes: int | None, one_at_a_time: bool,
                 scratch: memoryview) -> None:
        self._source = source
        self._peer = peer
        self._max_size_bytes = max_size_bytes
        self._longest_bytes = _INT32_MAX if max_size_bytes is None else max_size_bytes
        self._one_at_a_time = one_at_a_time
        self._scratch = scratch
        self._current: NetworkReceive | None = None
        self.held: memoryview = _NOTHING
        self.ended: Exception | None = None
        self.bytes_read: int = 0

    @property
    def is_mid_frame(self) -> bool:
        """Whether a frame has begun and is not complete."""
        return self._current is not None

    def read(self, transport: TransportLayer) -> list[NetworkReceive]:
        """Read what is there, within a bound, and return the frames that are complete.

        Sets `ended` at the end of the stream, at an invalid size, and where the connection broke behind frames; the
        frames before it are still returned.

        Raises:
            OSError: The connection is broken, and no frame came before. Unknown.
            AuthenticationError: TLS only: the peer's refusal came after the handshake. Not sent.
        """
        receives: list[NetworkReceive] = []
        if self.held:
            self.held = self._cut(self.held, receives)
        scratch = self._scratch
        try:
            for _ in range(MAX_READS_PER_POLL):
                if self.ended is not None or (receives and self._one_at_a_time):
                    return receives
                current = self._current
                if current is not None and (wanted := current.missing_bytes) > 0:
                    count = current.read_payload_from(transport)
                    if current.complete:
                        receives.append(current)
                        self._current = None
                else:
                    wanted = len(scratch)
                    count = transport.read_into(scratch)
                    if count > 0 and (rest := self._cut(scratch[:count], receives)):
                        self.held = memoryview(bytes(rest))
                if count < 0:
                    self.ended = DisconnectedError(f"{self._peer} closed the connection")
                    return receives
                self.bytes_read += count
                # Fewer than asked for: the socket is empty, so do not pay for a call that says so. (TLS gives a record
                # at a time, and says itself whether there may be another.)
                if count < wanted and not transport.has_pending_reads:
                    return receives
        except OSError as error:
            if not receives:
                raise
            self.ended = error  # it came behind frames that were there whole
        return receives

    def _cut(self, data: memoryview, receives: list[NetworkReceive]) -> memoryview:
        """Cut frames out of some bytes; return what is left behind the one that may be handed out."""
        position = 0
        end = len(data)
        try:
            while position < end:
                current = self._current
                if current is None:
                    start = position + 4
                    if start <= end:
                        size: int = _SIZE.unpack_from(data, position)[0]
                        if not 0 < size <= self._longest_bytes:
                            check_size(size, self._max_size_bytes, allow_empty=False, peer=self._peer)
                        if start + size <= end:
                            position = start + size
                            receives.append(NetworkReceive(self._source, payload=bytes(data[start:position])))
                            if self._one_at_a_time:
                                break
                            continue
                    current = self._current = NetworkReceive(self._source, self._max_size_bytes, False, self._peer)
                position += current.feed(data[position:])
                if current.complete:
                    receives.append(current)
                    self._current = None
                    if self._one_at_a_time:
                        break
        except InvalidReceiveError as error:
            self.ended = error
            return _NOTHING
        return data[position:]
