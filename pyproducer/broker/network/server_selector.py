"""A broker's selector: takes sockets that were accepted, and has each connection wait until its request is answered.

    one frame of a connection per poll; it is muted from then on, see channel_mute.py
    a peer that hangs up: what arrived complete before is handed out, one by one and in order, and then the connection
    counts as ended; a producer with acks=0 writes its last requests and goes, and they count all the same
    a peer that cannot prove who it is: told why, and closed, after a while in which nothing is read from it
    an error that nobody expected ends its connection and no other

Road:    Processor -> [selector] -> KafkaChannel
Thread:  as Selector.
Source:  Java Selector, with closingChannels, maybeReadFromClosingChannel, mute, unmute, and
         DelayedAuthenticationFailureClose (4.1). Differs from Java: a response that cannot be written does not discard
         the requests behind it, because they were received before the connection broke.
"""

from __future__ import annotations

import logging
import socket
from collections import deque
from functools import partial

from pyproducer.broker.cluster.sasl.server_authenticator import SaslServerAuthenticator
from pyproducer.broker.network.channel_mute import ChannelMuteEvent, ChannelMuteState, next_mute_state
from pyproducer.broker.request.peer_address import address_text
from pyproducer.common.errors import AuthenticationError, IllegalStateError, KafkaError
from pyproducer.network.channel import ChannelPhase, KafkaChannel
from pyproducer.network.channel_builder import ChannelBuilder
from pyproducer.network.receive import NetworkReceive
from pyproducer.network.selector import Selector
from pyproducer.network.send import NetworkSend
from pyproducer.network.transport import configure_socket

_logger = logging.getLogger(__name__)
_NOT_MUTED = ChannelMuteState.NOT_MUTED


class ServerSelector(Selector):
    """See Selector. Its connections are accepted and not made.

    Args:
        max_receive_size_bytes: As Selector's.
        connections_max_idle_ms: As Selector's.
        channel_builder: As Selector's.
        failed_authentication_delay_ms: How long a peer waits for the answer to a proof that is none; 0 for not at all.
    """

    _ONE_RECEIVE_PER_POLL = True

    def __init__(self, *, max_receive_size_bytes: int | None, connections_max_idle_ms: int,
                 channel_builder: ChannelBuilder, failed_authentication_delay_ms: int = 0) -> None:
        super().__init__(max_receive_size_bytes=max_receive_size_bytes,
                         connections_max_idle_ms=connections_max_idle_ms, channel_builder=channel_builder)
        self._mute_states: dict[str, ChannelMuteState] = {}  # of those that are muted in any way
        # Those whose peer is gone and whose frames are not all handed out, with the reason of their end.
        self._closing: dict[str, tuple[KafkaChannel, Exception | None]] = {}
        self._failed_authentication_delay_ms = failed_authentication_delay_ms
        # Those that are refused and not told so yet: until when, in order of time, and why. The delay of those that
        # were refused in a poll is counted from the next one's begin: that poll's own may lie a long sleep back.
        self._refused: deque[tuple[int, KafkaChannel, Exception]] = deque()
        self._newly_refused: list[tuple[KafkaChannel, Exception]] = []
        # Those whose logins waited for a test, and may go on; appended to by any thread, before a wakeup.
        self._awake: deque[str] = deque()

    # ---- connections

    def register(self, connection_id: str, sock: socket.socket, now_ms: int) -> None:
        """Take over a socket that was accepted.

        Raises:
            IllegalStateError: The id is in use; the socket is still the caller's. Not sent.
            OSError: The peer has gone; the socket is still the caller's. Not sent.
        """
        self._ensure_new(connection_id)
        if connection_id in self._closing:
            raise IllegalStateError(f"There is already a connection for id {connection_id}")
        configure_socket(sock)
        channel = self._channel_builder.build(connection_id, sock, server_side=True, server_hostname=None)
        channel.remote_address = address_text(sock.getpeername())
        channel.on_connected()
        authenticator = channel.authenticator
        if isinstance(authenticator, SaslServerAuthenticator):
            authenticator.on_awake = partial(self._on_awake, connection_id)
        if channel.transport.ready and channel.authenticator.complete:
            channel.prepare()
        self._add(channel, now_ms)

    def close(self, connection_id: str) -> None:
        """Close a connection now; it is not reported as disconnected. No effect for an id that is not known."""
        channel, _ = self._closing.pop(connection_id, (None, None))
        if channel is not None:
            channel.phase = ChannelPhase.LOCAL_CLOSE
            self._release(channel)
        super().close(connection_id)

    def close_all(self) -> None:
        """Close all connections and the selector itself. Thread: the polling one, or any when that has ended."""
        for connection_id in list(self._closing):
            self.close(connection_id)
        super().close_all()

    def closing_channel(self, connection_id: str) -> KafkaChannel | None:
        """Return a channel whose peer is gone and whose frames are not all handed out."""
        return self._closing.get(connection_id, (None, None))[0]

    def send(self, send: NetworkSend) -> None:
        """Write a frame, or begin to.

        To a peer that is gone it ends like one that the kernel took just before: nobody reads it, and whoever waits for
        its end goes on to the next frame that the peer left behind.
        """
        if send.destination in self._closing:
            self._early_sends.append(send)
        else:
            super().send(send)

    def take_completed_sends(self) -> list[NetworkSend]:
        """Return the frames that were completed inside send() since the last poll, and forget them.

        Frames that are not taken are in `completed_sends` of the next poll. Who deals with them before poll saves that
        turn.
        """
        taken, self._early_sends = self._early_sends, []
        return taken

    # ---- logins that wait for a test

    def _on_awake(self, connection_id: str) -> None:
        self._awake.append(connection_id)
        self.wakeup()

    def take_awake(self) -> list[KafkaChannel]:
        """Return the connections whose renewals may go on; first logins do so in the next poll, which tells of frames.

        Their peer may have sent the next request as soon as it had the answer.
        """
        renewing = []
        while self._awake:
            connection_id = self._awake.popleft()
            channel = self._channels.get(connection_id) or self.closing_channel(connection_id)
            if channel is not None and channel.ready:
                renewing.append(channel)
            elif channel is not None:
                channel.is_muted = False
                self.interest.update(channel)
                self._buffered[channel] = None
        return renewing

    # ---- muting

    def mute(self, connection_id: str) -> None:
        """Stop reading from a connection; no effect on one that is muted in any way.

        Raises:
            IllegalStateError: No such connection. Not sent.
        """
        channel = self._open_or_closing(connection_id)
        self._mute_states.setdefault(connection_id, ChannelMuteState.MUTED)
        channel.is_muted = True
        if connection_id in self._channels:
            self._buffered.pop(channel, None)
            self.interest.update(channel)

    def unmute(self, connection_id: str) -> bool:
        """Read from a connection again, unless a response or a throttle is pending; return whether it is.

        Raises:
            IllegalStateError: No such connection. Not sent.
        """
        channel = self._open_or_closing(connection_id)
        if self._mute_states.get(connection_id, ChannelMuteState.MUTED) is not ChannelMuteState.MUTED:
            return False
        self._mute_states.pop(connection_id, None)
        channel.is_muted = False
        if connection_id in self._channels:
            self.interest.update(channel)
            if channel.has_buffered:
                self._buffered[channel] = None
        return True

    def handle_channel_mute_event(self, connection_id: str, event: ChannelMuteEvent) -> None:
        """Change the mute state of a connection.

        Raises:
            IllegalStateError: No such connection, or the event makes no sense in its state, which stays. Not sent.
        """
        self._open_or_closing(connection_id)
        self._mute_states[connection_id] = next_mute_state(self.mute_state(connection_id), event)

    def mute_state(self, connection_id: str) -> ChannelMuteState:
        """Return the mute state of a connection. Thread: any, to look at only."""
        return self._mute_states.get(connection_id, _NOT_MUTED)

    def is_muted(self, connection_id: str) -> bool:
        """Whether a connection is muted.

        Raises:
            IllegalStateError: No such connection. Not sent.
        """
        return self._open_or_closing(connection_id).is_muted

    def _open_or_closing(self, connection_id: str) -> KafkaChannel:
        channel = self._channels.get(connection_id) or self.closing_channel(connection_id)
        if channel is None:
            raise IllegalStateError("Attempt to retrieve channel for which there is no connection. "
                                    f"Connection id {connection_id}")
        return channel

    # ---- refusing

    def refuse(self, channel: KafkaChannel, error: AuthenticationError) -> None:
        """End a connection whose peer is not who it says; when the delay is over, it is told why.

        Source: Java Selector.maybeDelayCloseOnAuthenticationFailure.
        """
        channel.ready = False  # nothing else is written to it, and nothing read
        error = AuthenticationError(*error.args)  # the frames of the first one hold what the peer said: its password
        self.interest.forget(channel)
        self._buffered.pop(channel, None)
        if self._failed_authentication_delay_ms:
            self._newly_refused.append((channel, error))
        else:
            self._end_refused(channel, error)

    def _end_refused(self, channel: KafkaChannel, error: Exception) -> None:
        if self._channels.get(channel.id) is not channel:
            return  # closed meanwhile
        channel.phase = ChannelPhase.AUTHENTICATION_FAILED
        authenticator = channel.authenticator
        if isinstance(authenticator, SaslServerAuthenticator) and authenticator.last_words:
            try:  # what the socket does not take at once is lost: this peer is not waited for
                NetworkSend(channel.id, authenticator.last_words).write_to(channel.transport)
            except (OSError, KafkaError) as gone:
                _logger.debug("%s was gone before it could be told that it is refused: %s", channel.id, gone)
        self._retire(channel, error)

    # ---- the poll

    def poll(self, timeout_ms: int, now_ms: int, *, tells_sends: bool = True) -> int:
        """Do what can be done; see Selector."""
        if self._newly_refused:
            until_ms = now_ms + self._failed_authentication_delay_ms
            self._refused += [(until_ms, channel, error) for channel, error in self._newly_refused]
            self._newly_refused.clear()
        if self._refused:
            timeout_ms = max(0, min(timeout_ms, self._refused[0][0] - now_ms))
        return super().poll(timeout_ms, now_ms, tells_sends=tells_sends)

    def _begin_poll(self, now_ms: int) -> None:
        receives, ended = self._read_closing() if self._closing else ([], [])
        super()._begin_poll(now_ms)
        self.completed_receives = receives
        for channel, reason in ended:
            super()._end(channel, reason)
        while self._refused and self._refused[0][0] <= now_ms:
            _, channel, error = self._refused.popleft()
            self._end_refused(channel, error)

    def _read_closing(self) -> tuple[list[NetworkReceive], list[tuple[KafkaChannel, Exception | None]]]:
        """Take the next frame of each closing channel that is not muted; return who has none left, too."""
        receives: list[NetworkReceive] = []
        ended: list[tuple[KafkaChannel, Exception | None]] = []
        for channel, reason in list(self._closing.values()):
            if channel.is_muted:
                continue
            found: list[NetworkReceive] = []
            try:
                found = channel.read()
            except Exception as error:
                _logger.debug("Nothing more to read from %s, which is closing: %s", channel.id, error)
            if found:
                receives += found
            else:
                del self._closing[channel.id]
                ended.append((channel, reason))
        return receives, ended

    def _poll_channel(self, channel: KafkaChannel, mask: int) -> None:
        try:
            super()._poll_channel(channel, mask)
        except Exception as bug:  # as in Java: the others go on
            _logger.exception("unexpected error on connection %s, which is closed", channel.id)
            self._on_failure(channel, bug, is_sending=channel.has_send)
        authenticator = channel.authenticator
        if isinstance(authenticator, SaslServerAuthenticator) and authenticator.is_waiting and not channel.ready:
            channel.is_muted = True
            if self._channels.get(channel.id) is channel:
                self.interest.update(channel)

    # ---- how connections end

    def _on_failure(self, channel: KafkaChannel, error: Exception, *, is_sending: bool) -> None:
        # Not where TLS itself failed: then there is nothing to be guessed, and nobody to be told.
        if isinstance(error, AuthenticationError) and channel.transport.ready and not channel.ready:
            self.refuse(channel, error)
        else:
            super()._on_failure(channel, error, is_sending=is_sending)

    def _on_lost_send(self, channel: KafkaChannel, lost: NetworkSend | None, error: Exception) -> Exception:
        if lost is not None:
            self.completed_sends.append(lost)  # see send(): nobody will read it, and the next request waits
        return error

    def _end(self, channel: KafkaChannel, error: Exception | None) -> None:
        if channel.phase is ChannelPhase.READY and (
                channel.is_muted or channel.has_buffered
                or any(receive.source == channel.id for receive in self.completed_receives)):
            self._closing[channel.id] = channel, error
        else:
            super()._end(channel, error)

    def _release(self, channel: KafkaChannel) -> None:
        self._mute_states.pop(channel.id, None)
        super()._release(channel)
