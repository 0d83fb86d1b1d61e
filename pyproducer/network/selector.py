"""Many channels, one thread: one poll writes what can be written, reads what has arrived, and says what happened.

What a broker does besides (accept, pause, hand out what a peer left behind) is broker/network/server_selector.py.

Road:    NetworkClient / Processor -> [selector] -> KafkaChannel -> socket
Thread:  one thread polls and calls everything else; only `wakeup` may be called from others.
Source:  Java Selector (4.1); seeds 001 (poll, buffered reads), 003 and 004 (interest, one receive at a time).

    send()   writes at once, as far as the socket takes it; only what remains is watched for WRITE
    poll()   select -> connects, handshakes -> reads -> writes -> the result lists, valid until the next poll

Differs from Java: the write in send() (an idle connection's socket is nearly always writable, so a request costs one
system call and no change of interest); an idle connection is found by a scan when the oldest may have expired, not by
a list kept in order.
"""

from __future__ import annotations

import selectors
import socket
from collections.abc import Callable, Iterable
from typing import Any

from pyproducer.common.clock import NEVER_MS
from pyproducer.common.errors import AuthenticationError, IllegalStateError, KafkaError
from pyproducer.network.channel import ChannelPhase, ChannelState, KafkaChannel
from pyproducer.network.channel_builder import ChannelBuilder
from pyproducer.network.interest import READ, WRITE, Interest
from pyproducer.network.receive import SCRATCH_BYTES, NetworkReceive
from pyproducer.network.send import NetworkSend
from pyproducer.network.transport import configure_socket, socket_address_text, start_connect
from pyproducer.network.wakeup import Wakeup


class IdleExpiry:
    """The times of last activity.

    Args:
        connections_max_idle_ms: How long is too long; negative for never.

    Attributes:
        touched: Channels that did something since the last poll began, as the selector says. It knows of no time:
            a poll knows when it began, and may have slept for long before something happened. So the next one stamps
            them with its own time.
        next_check_ms: When to look next.
    """

    def __init__(self, connections_max_idle_ms: int) -> None:
        self.touched: list[KafkaChannel] = []
        self.next_check_ms: int = NEVER_MS
        self._max_idle_ms = connections_max_idle_ms

    def add(self, channel: KafkaChannel, now_ms: int) -> None:
        """Begin to watch a channel."""
        channel.last_active_ms = now_ms
        if self._max_idle_ms >= 0:
            self.next_check_ms = min(self.next_check_ms, now_ms + self._max_idle_ms)

    def stamp(self, now_ms: int) -> None:
        """Say when the channels did something that have since the last time."""
        for channel in self.touched:
            channel.last_active_ms = now_ms
        self.touched.clear()

    def take_expired(self, channels: Iterable[KafkaChannel], now_ms: int) -> list[KafkaChannel]:
        """Return the channels that are idle for too long; one that waits for somebody here is not idle."""
        expired = []
        oldest_ms = now_ms
        for channel in channels:
            if channel.is_muted or channel.is_busy:
                channel.last_active_ms = now_ms
            elif now_ms - channel.last_active_ms >= self._max_idle_ms:
                expired.append(channel)
            else:
                oldest_ms = min(oldest_ms, channel.last_active_ms)
        self.next_check_ms = oldest_ms + max(1, self._max_idle_ms)
        return expired


class Selector:
    """Connections by id, and what the last poll found.

    Args:
        max_receive_size_bytes: Largest frame to read; None for no limit.
        connections_max_idle_ms: A connection on which nothing happens for so long is closed; negative for never. One
            that is muted or in the middle of a frame is not idle.
        channel_builder: Makes channels of sockets.
        wakeup: Ends its sleep and is its maker's to close; without one it has its own.
        make_socket: Makes the sockets that connect, of a family and a kind.
        make_poller: Makes what asks the operating system which of them are ready.

    Attributes:
        completed_sends: Frames written since the poll before.
        completed_receives: Frames that arrived, in order per connection. They belong to the caller.
        connected: Ids whose TCP connect succeeded; see is_channel_ready for when they can be used.
        disconnected: Ids of connections that ended but not by `close`, and how.
        interest: Which sockets are watched for what, to look at.
    """

    _ONE_RECEIVE_PER_POLL = False

    def __init__(self, *, max_receive_size_bytes: int | None, connections_max_idle_ms: int,
                 channel_builder: ChannelBuilder, wakeup: Wakeup | None = None,
                 make_socket: Callable[[int, int], Any] = socket.socket,
                 make_poller: Callable[[], Any] = selectors.DefaultSelector) -> None:
        self.completed_sends: list[NetworkSend] = []
        self.completed_receives: list[NetworkReceive] = []
        self.connected: list[str] = []
        self.disconnected: dict[str, ChannelState] = {}
        self._max_receive_size_bytes = max_receive_size_bytes
        self._channel_builder = channel_builder
        self._scratch = memoryview(bytearray(SCRATCH_BYTES))
        self._channels: dict[str, KafkaChannel] = {}
        self._buffered: dict[KafkaChannel, None] = {}  # bytes to read that select does not announce; never muted ones
        self._early_sends: list[NetworkSend] = []  # completed since the last poll, inside send()
        self._failed_sends: dict[KafkaChannel, Exception] = {}  # failed inside send()
        self._failed_connects: dict[str, ChannelState] = {}  # failed inside connect()
        self._idle = IdleExpiry(connections_max_idle_ms)
        self._closed_bytes_read = 0
        self._closed_bytes_written = 0
        self._wakeup = wakeup or Wakeup()
        self._owns_wakeup = wakeup is None
        self.interest: Interest = Interest(self._wakeup, make_poller)
        self._make_socket = make_socket

    # ---- connections

    def connect(self, connection_id: str, address: tuple[Any, ...], *, family: int = socket.AF_INET,
                send_buffer_bytes: int = -1, receive_buffer_bytes: int = -1, now_ms: int,
                server_hostname: str | None = None) -> None:
        """Begin to connect; how it ends is in `connected` or `disconnected` of a later poll, whatever happens.

        Args:
            connection_id: A new id.
            address: A resolved address (a name would block).
            family: The address's family.
            send_buffer_bytes: SO_SNDBUF; -1 for the system's default.
            receive_buffer_bytes: SO_RCVBUF; -1 for the system's default.
            now_ms: Monotonic time of the call.
            server_hostname: The name that was resolved, for TLS.

        Raises:
            IllegalStateError: The id is in use. Not sent.
        """
        self._ensure_new(connection_id)
        sock = None
        try:
            sock = self._make_socket(family, socket.SOCK_STREAM)
            configure_socket(sock, send_buffer_bytes=send_buffer_bytes, receive_buffer_bytes=receive_buffer_bytes)
            start_connect(sock, address)
            channel = self._channel_builder.build(connection_id, sock, server_side=False,
                                                  server_hostname=server_hostname)
        except (OSError, KafkaError) as error:
            if sock is not None:
                sock.close()
            self._failed_connects[connection_id] = ChannelState(ChannelPhase.NOT_CONNECTED, error,
                                                                socket_address_text(address))
            return
        channel.remote_address = socket_address_text(address)
        self._add(channel, now_ms)

    def _ensure_new(self, connection_id: str) -> None:
        if connection_id in self._channels:
            raise IllegalStateError(f"There is already a connection for id {connection_id}")

    def _add(self, channel: KafkaChannel, now_ms: int) -> None:
        channel.set_reader(max_size_bytes=self._max_receive_size_bytes, one_at_a_time=self._ONE_RECEIVE_PER_POLL,
                           scratch=self._scratch)
        self._channels[channel.id] = channel
        self._idle.add(channel, now_ms)
        self.interest.update(channel)

    def close(self, connection_id: str) -> None:
        """Close a connection now; it is not reported as disconnected. No effect for an id that is not known."""
        channel = self._channels.pop(connection_id, None)
        self._failed_connects.pop(connection_id, None)
        if channel is not None:
            channel.phase = ChannelPhase.LOCAL_CLOSE
            self._release(channel)

    def close_all(self) -> None:
        """Close all connections and the selector itself, whatever an exception from anywhere left undone.

        Thread: the polling one, or any when that has ended.
        """
        self.interest.close(self._channels.values())  # first: what is watched need not be what the channels believe
        for connection_id in list(self._channels):
            self.close(connection_id)
        if self._owns_wakeup:
            self._wakeup.close()

    def abandon(self) -> None:
        """Close this process's own descriptors, and nothing else: in a child, where the connections are the parent's.

        Nothing is said to any peer, and nothing unwatched: the parent's select would lose it, too.
        """
        channels = list(self._channels.values())
        self.interest.close(channels)
        for channel in channels:
            channel.transport.sock.close()

    def channel(self, connection_id: str) -> KafkaChannel | None:
        """Return an open channel."""
        return self._channels.get(connection_id)

    def is_channel_ready(self, connection_id: str) -> bool:
        """Whether frames can be sent to a connection."""
        channel = self._channels.get(connection_id)
        return channel is not None and channel.ready

    def session_lifetime_ms(self, connection_id: str) -> int:
        """Return for how long the peer of a ready connection takes our proof of who we are, in ms; 0 for ever."""
        channel = self._channels.get(connection_id)
        return 0 if channel is None else channel.session_lifetime_ms

    def certificate_ends_at_s(self, connection_id: str) -> int:
        """Return when the certificate of a connection's peer ends, in seconds since 1970; 0 where it showed none."""
        channel = self._channels.get(connection_id)
        # Only TLS has one, and this file does not load it.
        return 0 if channel is None else getattr(channel.transport, "certificate_ends_at_s", 0)

    def reauthenticate(self, connection_id: str) -> bool:
        """Begin to prove anew who we are; the connection is not ready until that is done.

        A connection that breaks here is found so by the next poll.

        Returns:
            False, and nothing was begun, when bytes are under way that a poll must deal with first.

        Raises:
            IllegalStateError: No such connection, or it has nothing to prove. Not sent.
        """
        channel = self._channels.get(connection_id)
        if channel is None or not channel.ready:
            raise IllegalStateError(f"Attempt to authenticate a connection that is not ready, id {connection_id}")
        if channel.is_busy or channel.has_buffered or channel.transport.has_pending_writes:
            return False
        channel.begin_reauthentication()
        self._idle.touched.append(channel)
        try:
            self._bring_up(channel)
        except (OSError, KafkaError) as error:
            self._failed_sends[channel] = error
        return True

    def channels(self) -> list[KafkaChannel]:
        """Return the open connections of this moment. Thread: any, to look at only."""
        return list(self._channels.values())

    @property
    def bytes_read(self) -> int:
        """All bytes read from all connections so far, sizes of frames included."""
        return self._closed_bytes_read + sum(channel.bytes_read for channel in list(self._channels.values()))

    @property
    def bytes_written(self) -> int:
        """All bytes written to all connections so far, sizes of frames included."""
        return self._closed_bytes_written + sum(channel.bytes_written for channel in list(self._channels.values()))

    def wakeup(self) -> None:
        """Let the poll that sleeps, or else the next one, return at once. Thread: any; cheap to call often."""
        self._wakeup.wakeup()

    # ---- sending

    def send(self, send: NetworkSend) -> None:
        """Write a frame, or begin to. A connection that breaks here is found so by the next poll.

        Raises:
            IllegalStateError: No such connection, it is not ready, or it has another frame to write. Not sent.
        """
        channel = self._channels.get(send.destination)
        if channel is None or not channel.ready:
            raise IllegalStateError(f"Attempt to send to a connection that is not ready, id {send.destination}")
        channel.set_send(send)
        self._idle.touched.append(channel)
        try:
            done = channel.write(is_alone=self.interest.is_alone(channel))
        except (OSError, KafkaError) as error:
            self._failed_sends[channel] = error
            return
        if done is not None:
            self._early_sends.append(done)
        else:
            self.interest.update(channel)

    # ---- the poll

    def poll(self, timeout_ms: int, now_ms: int, *, tells_sends: bool = True) -> int:
        """Do what can be done, sleeping for at most `timeout_ms` when there is nothing; never raises for a channel.

        Args:
            timeout_ms: Longest sleep; 0 for none.
            now_ms: Monotonic time of the call.
            tells_sends: Whether frames that were completed inside send() are told at once: then it does not sleep.

        Returns:
            For how long it would have slept at most, in ms: any longer and the process could not run.

        Thread: one at a time, the owner.
        """
        self._begin_poll(now_ms)
        timeout_ms = max(0, min(timeout_ms, self._idle.next_check_ms - now_ms))
        if (self.completed_receives or self.disconnected or self._buffered
                or (tells_sends and self.completed_sends)):
            timeout_ms = 0
        ready = self.interest.select(timeout_ms)
        # Two dicts, always: what this poll leaves buffered is for the next one, or a channel is read twice in one poll.
        buffered, self._buffered = self._buffered, {}
        for channel, mask in ready:
            if channel in buffered:
                del buffered[channel]  # so that no channel is polled twice
                mask |= READ  # its socket may have turned writable only
            self._poll_channel(channel, mask)
        for channel in buffered:
            self._poll_channel(channel, READ)
        if now_ms >= self._idle.next_check_ms:
            self._expire(now_ms)
        return self.interest.longest_ms

    def _begin_poll(self, now_ms: int) -> None:
        self.completed_sends = self._early_sends
        self._early_sends = []
        self.completed_receives = []
        self.connected = []
        self.disconnected = {}
        if self._idle.touched:
            self._idle.stamp(now_ms)
        if self._failed_connects:
            self.disconnected.update(self._failed_connects)
            self._failed_connects.clear()
        if self._failed_sends:
            failed, self._failed_sends = self._failed_sends, {}
            for channel, error in failed.items():
                self._on_failure(channel, error, is_sending=True)

    def _expire(self, now_ms: int) -> None:
        """End the idle connections. Not before they were read: an answer may lie there since a callback began."""
        self._idle.stamp(now_ms)
        for channel in self._idle.take_expired(self._channels.values(), now_ms):
            channel.phase = ChannelPhase.EXPIRED
            self._retire(channel, None)

    def _poll_channel(self, channel: KafkaChannel, mask: int) -> None:
        self._idle.touched.append(channel)
        is_sending = False
        try:
            if not channel.ready and not self._bring_up(channel):
                return
            if mask & READ and not channel.is_muted:
                reader = channel.reader
                assert reader is not None, "_add set it"
                receives = reader.read(channel.transport)
                if receives:
                    self.completed_receives += receives
                if reader.ended is not None:
                    self._retire(channel, reader.ended)
                    return
                if reader.held or channel.transport.has_pending_reads:
                    self._buffered[channel] = None
            if mask & WRITE or channel.transport.has_pending_writes:
                is_sending = True
                done = channel.write(is_alone=self.interest.is_alone(channel))
                if done is not None:
                    self.completed_sends.append(done)
                self.interest.update(channel)
        except (OSError, KafkaError) as error:
            self._on_failure(channel, error, is_sending=is_sending)

    def _bring_up(self, channel: KafkaChannel) -> bool:
        if not channel.is_connected:
            channel.finish_connect()
            self.connected.append(channel.id)
        is_ready = channel.prepare()
        self.interest.update(channel)
        if is_ready and channel.has_buffered:  # read together with the end of the handshake
            self._buffered[channel] = None
        return is_ready

    # ---- how connections end

    def _on_failure(self, channel: KafkaChannel, error: Exception, *, is_sending: bool) -> None:
        if isinstance(error, AuthenticationError):
            channel.phase = ChannelPhase.AUTHENTICATION_FAILED
        elif is_sending and channel.ready:
            error = self._on_lost_send(channel, channel.take_send(), error)
        self._retire(channel, error)

    def _on_lost_send(self, channel: KafkaChannel, _lost: NetworkSend | None, error: Exception) -> Exception:
        """A frame could not be written to its end; return the better reason, if the peer left one."""
        receives, error = channel.read_last_words(error)
        self.completed_receives += receives
        return error

    def _retire(self, channel: KafkaChannel, error: Exception | None) -> None:
        """Take an ended channel out."""
        self.interest.forget(channel)
        self._channels.pop(channel.id, None)
        self._buffered.pop(channel, None)
        self._end(channel, error)

    def _end(self, channel: KafkaChannel, error: Exception | None) -> None:
        self.disconnected[channel.id] = ChannelState(channel.phase, error, channel.remote_address)
        self._release(channel)

    def _release(self, channel: KafkaChannel) -> None:
        self.interest.forget(channel)
        self._buffered.pop(channel, None)
        self._failed_sends.pop(channel, None)
        self._closed_bytes_read += channel.bytes_read
        self._closed_bytes_written += channel.bytes_written
        channel.close()
