"""What NetworkClient needs of a selector: the seam between requests and sockets.

Road:    NetworkClient -> [Selectable] -> network.Selector, or a test's MockSelector
Thread:  sender thread only.
Source:  Java org.apache.kafka.common.network.Selectable (4.1).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from pyproducer.network.channel_state import ChannelState
    from pyproducer.network.receive import NetworkReceive
    from pyproducer.network.send import NetworkSend


class Selectable(Protocol):
    """Connections by id, moved forward by `poll`, whose results stay until the next `poll`."""

    @property
    def completed_sends(self) -> Sequence[NetworkSend]:
        """Frames that were written completely in the last poll."""

    @property
    def completed_receives(self) -> Sequence[NetworkReceive]:
        """Frames that arrived completely in the last poll, in order per connection."""

    @property
    def connected(self) -> Sequence[str]:
        """Connections whose TCP connect succeeded in the last poll."""

    @property
    def disconnected(self) -> Mapping[str, ChannelState]:
        """Connections that ended in the last poll, with how."""

    def connect(self, connection_id: str, address: tuple[Any, ...], *, family: int, send_buffer_bytes: int,
                receive_buffer_bytes: int, now_ms: int, server_hostname: str | None = None) -> None:
        """Begin to connect; OSError when the operating system refuses at once."""

    def send(self, send: NetworkSend) -> None:
        """Hand a frame to its connection."""

    def take_completed_sends(self) -> Sequence[NetworkSend]:
        """Return and forget the frames that `send` wrote at once; else the next poll does not sleep but tells them."""

    def poll(self, timeout_ms: int, now_ms: int) -> None:
        """Wait for something to happen, at most timeout_ms, and do all that can be done without waiting.

        Somebody may await an answer from one connection and from no other.
        """

    def close(self, connection_id: str) -> None:
        """Close one connection without telling of it; harmless when there is none."""

    def close_all(self) -> None:
        """Close everything, whatever an exception left undone."""

    def is_channel_ready(self, connection_id: str) -> bool:
        """Whether handshakes are done, so that requests can be sent."""
