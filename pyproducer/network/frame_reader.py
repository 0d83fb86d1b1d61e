"""Cuts frames out of what a connection delivers: many from one read, or one at a time.

Road:    TransportLayer -> [frame reader] -> KafkaChannel.read
Thread:  the thread that polls the selector.
Source:  Java KafkaChannel.read/receive (4.1) reads the size and then the payload with two calls per frame. Differs from
         Java: reads ahead into a buffer that all channels of a selector share, because a system call through Python
         costs as much as the rest of a small frame.

    scratch (64 KiB, the selector's) <- one recv
      whole frames                      copied out as bytes
      the beginning of a frame          copied into a NetworkReceive, whose rest is then received in place
      what is behind the first frame    one at a time only: held back until the channel is unmuted
"""

from __future__ import annotations

import struct

from pyproducer.common.errors import DisconnectedError, InvalidReceiveError
from pyproducer.network.receive import NetworkReceive, check_size
from pyproducer.network.transport import TransportLayer

_SIZE = struct.Struct(">i")
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
        ended: Why nothing more will come: the end of the stream or a size that makes no sense; None while it may.
        bytes_read: All bytes so far, sizes included.
    """

    __slots__ = ("_current", "_held", "_max_size_bytes", "_one_at_a_time", "_peer", "_scratch", "_source",
                 "bytes_read", "ended")

    def __init__(self, source: str, *, peer: str, max_size_bytes: int | None, one_at_a_time: bool,
                 scratch: memoryview) -> None:
        self._source = source
        self._peer = peer
        self._max_size_bytes = max_size_bytes
        self._one_at_a_time = one_at_a_time
        self._scratch = scratch
        self._current: NetworkReceive | None = None
        self._held = _NOTHING
        self.ended: Exception | None = None
        self.bytes_read = 0

    @property
    def has_held(self) -> bool:
        """Whether bytes were read ahead that no frame was cut from yet."""
        return len(self._held) > 0

    @property
    def is_mid_frame(self) -> bool:
        """Whether a frame has begun and is not complete."""
        return self._current is not None

    def read(self, transport: TransportLayer) -> list[NetworkReceive]:
        """Read what is there, within a bound, and return the frames that are complete.

        Sets `ended` at the end of the stream and at an invalid size; the frames before it are still returned.

        Raises:
            OSError: The connection is broken. Unknown.
            AuthenticationError: TLS only: the peer's refusal came after the handshake. Not sent.
        """
        receives: list[NetworkReceive] = []
        if self._held:
            self._held = self._cut(self._held, receives)
        scratch = self._scratch
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
                    self._held = memoryview(bytes(rest))
            if count < 0:
                self.ended = DisconnectedError(f"{self._peer} closed the connection")
                return receives
            self.bytes_read += count
            # Fewer than asked for: the socket is empty, so do not pay for a call that says so. (TLS gives a record at
            # a time, and says itself whether there may be another.)
            if count < wanted and not transport.has_pending_reads:
                return receives
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
