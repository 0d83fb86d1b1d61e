"""One network thread: reads the requests of its connections, writes their responses.

Road:    Acceptor -> [Processor] -> RequestChannel -> ... -> [Processor] -> socket
Thread:  its own loops here; `accept` and `enqueue_response` are called by others and only touch the two queues.
         A connection belongs to one processor for its whole life.
Source:  Java kafka.network.Processor (4.1), the seeds' Processor.run: new connections, new responses, poll,
         completed receives, completed sends, disconnected.

One request of a connection is in flight at a time, which is what keeps its requests in order with many handlers:
    request complete -> queued for the handlers, connection muted (nothing is read from it)
    response written in full (or nothing to write) -> unmuted, and the next request is read

A client whose session ends renews it on the same connection (KIP-368): such requests are answered here, by what
authenticated the connection in the first place; when the session has ended, any other request ends the connection.
"""

from __future__ import annotations

import logging
import socket
import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import NamedTuple

from pyproducer.broker.cluster.listener import EndPoint
from pyproducer.broker.cluster.sasl.login_script import LoginReply
from pyproducer.broker.cluster.sasl.server_authenticator import SaslServerAuthenticator
from pyproducer.broker.network.channel_mute import ChannelMuteEvent, ChannelMuteState
from pyproducer.broker.network.flood_log import FloodLog, flood_log_of_frames
from pyproducer.broker.network.request_channel import (
    CloseConnectionResponse,
    EndThrottlingResponse,
    NoOpResponse,
    Request,
    RequestChannel,
    Response,
    SendResponse,
    StartThrottlingResponse,
    TornResponse,
)
from pyproducer.broker.network.server_selector import ServerSelector
from pyproducer.broker.request.peer_address import host_of
from pyproducer.broker.request.request_context import ANONYMOUS, KafkaPrincipal, RequestContext
from pyproducer.common.clock import Clock
from pyproducer.common.errors import AuthenticationError, DisconnectedError, InvalidReceiveError, InvalidRequestError
from pyproducer.network.channel import KafkaChannel
from pyproducer.network.receive import NetworkReceive
from pyproducer.network.send import NetworkSend
from pyproducer.network.transport import hang_up
from pyproducer.protocol.apis import ApiKeys
from pyproducer.protocol.buffer import ByteReader
from pyproducer.protocol.header import read_request_header

_logger = logging.getLogger(__name__)
# Java Processor.ConnectionQueueSize: connections that an acceptor may put here before it turns to the next processor.
CONNECTION_QUEUE_SIZE = 20
# How long the selector sleeps when nothing happens; Java's value.
POLL_TIMEOUT_MS = 300


class ApiGate(NamedTuple):
    """Which APIs this broker answers: the check between a request's header and its body."""

    is_supported: Callable[[ApiKeys, int], bool]

    def ensure_supported(self, api_key: ApiKeys, api_version: int) -> None:
        """Raise when requests of this kind are not answered.

        Raises:
            InvalidRequestError: Not an API or version of this broker.
        """
        if not self.is_supported(api_key, api_version):
            raise InvalidRequestError(
                f"Received request for api with key {int(api_key)} ({api_key.title}) and unsupported version "
                f"{api_version}")


class Processor:
    """A network thread and its connections.

    Args:
        processor_id: Unique in the broker; responses find their way back by it.
        end_point: The listener whose connections these are.
        channel: Where requests go.
        selector: Its own; nobody else touches it but for `wakeup`.
        gate: Which APIs are answered.
        clock: The clock.
        socket_options: Applied to each accepted socket.
        name: Of the thread.
        max_elements: Most elements of one request.
        bad_frames: Where connections are told that are closed for what they sent.
    """

    def __init__(self, processor_id: int, *, end_point: EndPoint, channel: RequestChannel, selector: ServerSelector,
                 gate: ApiGate, clock: Clock, socket_options: Callable[[socket.socket], None], name: str,
                 max_elements: int, bad_frames: FloodLog | None = None) -> None:
        self.processor_id = processor_id
        self._end_point = end_point
        self._channel = channel
        self._selector = selector
        self._gate = gate
        self._clock = clock
        self._socket_options = socket_options
        self._max_elements = max_elements
        self._bad_frames = bad_frames or flood_log_of_frames(_logger)
        # Two queues of one consumer, this thread, which looks at both in every turn: a deque is looked at for nothing,
        # where an empty Queue costs a lock and an exception. The semaphore bounds the first; one that comes in is
        # appended before the wakeup, so that it is not overlooked.
        self._new_connections: deque[socket.socket] = deque()
        self._room_for_connections = threading.Semaphore(CONNECTION_QUEUE_SIZE)
        self._responses: deque[Response] = deque()
        self._inflight_responses: dict[str, Response] = {}
        # Connections on which an answer of their authenticator is on its way out, and whether it is their last.
        self._renewals: dict[str, bool] = {}
        self._next_connection_index = 0
        self._stopping = False
        self._is_closed = False
        self._thread = threading.Thread(target=self.run, name=name, daemon=True)

    # ---- called by other threads

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def accept(self, sock: socket.socket, *, may_block: bool) -> bool:
        """Take over a new connection; return False when the queue is full and `may_block` is not set.

        A processor that is stopping takes the socket and closes it.
        """
        while not self._room_for_connections.acquire(blocking=False):
            if self._stopping:
                hang_up(sock)
                return True
            if not may_block:
                return False
            if self._room_for_connections.acquire(timeout=POLL_TIMEOUT_MS / 1000):
                break
        self._new_connections.append(sock)
        if self._is_closed:
            self._close_new_connections()  # the thread ended between the acceptor's choice and the line above
        self._selector.wakeup()
        return True

    def enqueue_response(self, response: Response) -> None:
        """Queue a response and wake the thread."""
        self._responses.append(response)
        self._selector.wakeup()

    @property
    def response_queue_size(self) -> int:
        """How many responses wait to be taken up."""
        return len(self._responses)

    @property
    def connection_count(self) -> int:
        """How many connections live here."""
        return len(self._selector.channels())

    def channels(self) -> list[KafkaChannel]:
        """Return the connections of this moment, to look at only."""
        return self._selector.channels()

    def mute_state(self, channel: KafkaChannel) -> ChannelMuteState:
        """Return whether a connection is read from, and what it waits for if not."""
        return self._selector.mute_state(channel.id)

    @property
    def bytes_read(self) -> int:
        """All bytes that came in over its connections, sizes of frames included."""
        return self._selector.bytes_read

    @property
    def bytes_written(self) -> int:
        """All bytes that went out over its connections, sizes of frames included."""
        return self._selector.bytes_written

    def initiate_shutdown(self) -> None:
        """Ask the thread to end; its connections are closed."""
        self._stopping = True
        self._selector.wakeup()

    def await_shutdown(self) -> None:
        """Wait for the thread."""
        self._thread.join()

    # ---- the thread

    def run(self) -> None:
        """Loop until stopped."""
        try:
            while not self._stopping:
                try:
                    self.run_once(self._clock.now_ms())
                except Exception:
                    # As in Java: whatever happens to one turn, the thread and its other connections go on.
                    _logger.exception("Processor %d got uncaught exception", self.processor_id)
            self._process_new_responses()  # what the handlers answered before they stopped
        finally:
            self._close_all()

    def run_once(self, now_ms: int) -> None:
        """Do one turn."""
        self._configure_new_connections(now_ms)
        self._process_new_responses()
        for channel in self._selector.take_awake():
            self._go_on_renewing(channel)
        # Nearly every response is written whole inside send(): its connection can be read in this very poll.
        self._process_completed_sends(self._selector.take_completed_sends())
        self._selector.poll(POLL_TIMEOUT_MS, now_ms)
        self._process_completed_receives()
        self._process_completed_sends(self._selector.completed_sends)
        self._process_disconnected()

    def _configure_new_connections(self, now_ms: int) -> None:
        for _ in range(len(self._new_connections)):  # not more in one turn, so that old connections are served too
            sock = self._new_connections.popleft()
            self._room_for_connections.release()
            try:
                self._socket_options(sock)  # the selector sets the others
                self._selector.register(self._connection_id(sock), sock, now_ms)
            except OSError:  # the peer has gone already
                hang_up(sock)

    def _connection_id(self, sock: socket.socket) -> str:
        local, remote = sock.getsockname(), sock.getpeername()
        index = self._next_connection_index
        self._next_connection_index = index + 1 if index < 2**31 - 1 else 0
        return f"{host_of(local)}:{local[1]}-{host_of(remote)}:{remote[1]}-{self.processor_id}-{index}"

    def _process_new_responses(self) -> None:
        while self._responses:
            response = self._responses.popleft()
            connection_id = response.request.context.connection_id
            try:
                if isinstance(response, SendResponse):
                    self._send_response(connection_id, response)
                elif isinstance(response, NoOpResponse):
                    self._response_done(connection_id)
                elif isinstance(response, CloseConnectionResponse):
                    _logger.info("Closing socket connection %s actively, since it sent a request that failed and "
                                 "can not be answered", connection_id)
                    self._close(connection_id)
                elif isinstance(response, TornResponse):
                    self._send(connection_id, response, NetworkSend.raw(connection_id, response.data))
                else:
                    self._throttle(connection_id, response)
            except Exception as error:
                self._close_after_exception(connection_id, "Exception while processing response", error)

    def _send_response(self, connection_id: str, response: SendResponse) -> None:
        self._send(connection_id, response, NetworkSend(connection_id, response.chunks))

    def _send(self, connection_id: str, response: Response, send: NetworkSend) -> None:
        if self._open_or_closing_channel(connection_id) is None:
            return  # the connection is gone
        # To a peer that has hung up the selector only pretends to write, so that the connection's next request follows.
        self._inflight_responses[connection_id] = response
        self._selector.send(send)

    def _throttle(self, connection_id: str, response: Response) -> None:
        """Begin or end a throttle; the connection is read again when its response is sent and no throttle is left."""
        if self._open_or_closing_channel(connection_id) is None:
            return
        if isinstance(response, StartThrottlingResponse):
            self._selector.handle_channel_mute_event(connection_id, ChannelMuteEvent.THROTTLE_STARTED)
        elif isinstance(response, EndThrottlingResponse):
            self._selector.handle_channel_mute_event(connection_id, ChannelMuteEvent.THROTTLE_ENDED)
            self._selector.unmute(connection_id)

    def _process_completed_receives(self) -> None:
        for receive in self._selector.completed_receives:
            channel = self._open_or_closing_channel(receive.source)
            if channel is None:
                continue
            try:
                request = self._request(receive, channel)
                if request is None:
                    continue
                # Mute first: a response may be here before the next line of this loop.
                self._selector.mute(receive.source)
                self._selector.handle_channel_mute_event(receive.source, ChannelMuteEvent.REQUEST_RECEIVED)
                self._channel.send_request(request)
            except InvalidRequestError as error:
                self._close_after_exception(receive.source, "Exception while processing request", error)
            except Exception as error:
                self._close_after_exception(receive.source, "Unexpected exception while processing request", error)

    def _request(self, receive: NetworkReceive, channel: KafkaChannel) -> Request | None:
        """Read the header; the body is left to the handler. None for what renews the session, or comes too late."""
        payload = receive.payload
        authenticator = channel.authenticator
        if isinstance(authenticator, SaslServerAuthenticator) and self._is_about_session(authenticator, receive):
            return None
        reader = ByteReader(payload, self._max_elements)
        header = read_request_header(reader)
        is_api_versions = header.api_key == ApiKeys.API_VERSIONS
        context = RequestContext(
            header, connection_id=receive.source, client_address=channel.remote_address,
            listener_name=self._end_point.listener_name, security_protocol=self._end_point.security_protocol,
            principal=self._principal(channel), refuses_api_versions=is_api_versions
            and not self._gate.is_supported(ApiKeys.API_VERSIONS, header.api_version))
        if not context.is_unsupported_api_versions_request:
            self._gate.ensure_supported(context.api_key, header.api_version)
        return Request(processor=self.processor_id, context=context, reader=reader, size_bytes=len(payload),
                       start_ms=self._clock.now_ms())

    def _is_about_session(self, authenticator: SaslServerAuthenticator, receive: NetworkReceive) -> bool:
        """Deal with a frame that renews the session, or comes after its end; return whether it was one of these."""
        now_ms = authenticator.now_ms
        api_id = int.from_bytes(receive.payload[:2], "big", signed=True)
        if authenticator.is_renewing or (
                api_id == ApiKeys.SASL_HANDSHAKE and authenticator.maybe_begin_renewal(now_ms)):
            self._renew(authenticator, receive)
            return True
        if authenticator.has_expired(now_ms):
            _logger.info("Disconnecting expired channel: %s", receive.source)
            self._close(receive.source)
            return True
        return False

    def _renew(self, authenticator: SaslServerAuthenticator, receive: NetworkReceive) -> None:
        connection_id = receive.source
        channel = self._open_or_closing_channel(connection_id)
        assert channel is not None, "who calls has it"
        # Nothing else is on its way out: the request before this one was answered before this one was read.
        reply = self._reply_of_renewal(channel, lambda: authenticator.on_frame(bytes(receive.payload)))
        if reply is None and not authenticator.is_waiting:
            return
        # Not read on before that is written: the next frame is the answer to it.
        self._selector.mute(connection_id)
        self._selector.handle_channel_mute_event(connection_id, ChannelMuteEvent.REQUEST_RECEIVED)
        if reply is not None:
            self._send_of_renewal(connection_id, reply)

    def _go_on_renewing(self, channel: KafkaChannel) -> None:
        """Go on with a renewal that waited for a test."""
        authenticator = channel.authenticator
        assert isinstance(authenticator, SaslServerAuthenticator), "no other waits"
        try:
            reply = self._reply_of_renewal(channel, authenticator.go_on)
            if reply is not None:
                self._send_of_renewal(channel.id, reply)
        except Exception as error:
            self._close_after_exception(channel.id, "Exception while processing request", error)

    def _reply_of_renewal(self, channel: KafkaChannel, step: Callable[[], LoginReply | None]) -> LoginReply | None:
        try:
            return step()
        except AuthenticationError as error:
            if self._selector.channel(channel.id) is None:
                raise  # its peer has hung up already
            self._selector.refuse(channel, error)
        except DisconnectedError as error:
            _logger.info("Closing socket connection %s: %s", channel.id, error)
            self._close(channel.id)
        return None

    def _send_of_renewal(self, connection_id: str, reply: LoginReply) -> None:
        self._renewals[connection_id] = reply.is_torn
        self._selector.send(NetworkSend.raw(connection_id, reply.chunks[0]) if reply.is_torn
                            else NetworkSend(connection_id, reply.chunks))

    def _principal(self, channel: KafkaChannel) -> KafkaPrincipal:
        if self._end_point.security_protocol == "PLAINTEXT":
            return ANONYMOUS
        return KafkaPrincipal(*channel.principal_name.split(":", 1))

    def _process_completed_sends(self, sends: Sequence[NetworkSend]) -> None:
        for send in sends:
            response = self._inflight_responses.pop(send.destination, None)
            if response is None and send.destination in self._renewals:
                if self._renewals.pop(send.destination):
                    self._close(send.destination)
                else:
                    self._response_done(send.destination)
            elif isinstance(response, TornResponse):
                self._close(send.destination)
            elif response is not None:
                self._response_done(send.destination)

    def _response_done(self, connection_id: str) -> None:
        """Read the connection's next request, unless it is still throttled."""
        if self._open_or_closing_channel(connection_id) is not None:
            self._selector.handle_channel_mute_event(connection_id, ChannelMuteEvent.RESPONSE_SENT)
            self._selector.unmute(connection_id)

    def _process_disconnected(self) -> None:
        for connection_id, state in self._selector.disconnected.items():
            self._inflight_responses.pop(connection_id, None)
            self._renewals.pop(connection_id, None)
            if isinstance(state.error, (InvalidReceiveError, InvalidRequestError, AuthenticationError)):
                self._bad_frames.log(self._clock.now_ms(), logging.WARNING, "Closed connection %s: %s", connection_id,
                                     state.error)

    def _open_or_closing_channel(self, connection_id: str) -> KafkaChannel | None:
        return self._selector.channel(connection_id) or self._selector.closing_channel(connection_id)

    def _close_after_exception(self, connection_id: str, what: str, error: Exception) -> None:
        if isinstance(error, InvalidRequestError):
            self._bad_frames.log(self._clock.now_ms(), logging.ERROR, "%s from %s: %s", what, connection_id, error)
        else:
            _logger.error("%s from %s", what, connection_id, exc_info=error)
        self._close(connection_id)

    def _close(self, connection_id: str) -> None:
        self._inflight_responses.pop(connection_id, None)
        self._renewals.pop(connection_id, None)
        self._selector.close(connection_id)

    def _close_all(self) -> None:
        self._is_closed = True
        self._close_new_connections()
        self._selector.close_all()

    def _close_new_connections(self) -> None:
        try:
            while True:
                hang_up(self._new_connections.popleft())
        except IndexError:  # none is left; another thread may have taken the last
            return
