"""A client that asks one broker at a time and waits for the answers, over the same network stack as the producer's.

    connect   addresses of the name -> TCP -> TLS -> SASL -> ApiVersions: the versions that both ends know
    ask       a request in the newest of them -> its answer
    ask_all   several, one behind the other -> their answers

Road:    read_topic, doctor, CoordinatorClient -> [BlockingClient] -> Selector -> KafkaChannel
Thread:  the caller's, which is the one that polls.
Source:  ours. NetworkClient connects again and keeps metadata fresh, for a sender that never waits; a reader that waits
         for each answer wants the first failure told instead.
"""

from __future__ import annotations

import itertools
import math
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple

from pyproducer.client.api_versions import LATEST_VERSION, NodeApiVersions, api_versions_body, read_api_versions
from pyproducer.client.failures import (
    AUTHENTICATION,
    CONNECT,
    TLS,
    Failure,
    authentication_failure,
    connect_failure,
    dns_failure,
    negotiation_failure,
    request_failure,
)
from pyproducer.client.resolver import (
    RESOLVE_CANONICAL_BOOTSTRAP_SERVERS_ONLY,
    USE_ALL_DNS_IPS,
    ResolvedAddress,
    canonical_names,
    resolve_host,
)
from pyproducer.common.clock import Clock
from pyproducer.common.cluster import address_text
from pyproducer.common.errors import (
    AuthenticationError,
    CorrelationIdMismatchError,
    DisconnectedError,
    KafkaError,
    KafkaTimeoutError,
)
from pyproducer.network.channel import ChannelPhase, ChannelState, KafkaChannel
from pyproducer.network.channel_builder import ChannelBuilder, client_channel_builder
from pyproducer.network.receive import NetworkReceive
from pyproducer.network.selector import Selector
from pyproducer.network.send import NetworkSend
from pyproducer.protocol.apis import ApiKeys
from pyproducer.protocol.header import build_request, parse_response

if TYPE_CHECKING:
    from pyproducer.network.sasl.mechanism import Login
    from pyproducer.protocol.schema import Struct

LARGEST_ANSWER_BYTES = 256 * 1024 * 1024
"""A size above this is not an answer of a Kafka broker."""

LONGEST_POLL_MS = 60_000  # the operating system's calls take no more than 2**31 - 1 ms


class Connection(NamedTuple):
    """A connection that is ready for requests.

    Attributes:
        connection_id: The selector's name for it.
        where: `host:port`, for messages.
        versions: What the broker supports.
    """

    connection_id: str
    where: str
    versions: NodeApiVersions


class Attempt(NamedTuple):
    """A connection whose handshakes are done, or why they are not."""

    connection_id: str
    failure: Failure | None


class Answer(NamedTuple):
    """The body of a response, and the version in which it was asked for."""

    version: int
    body: Struct


class BlockingClient:
    """Connections to brokers, one request at a time; a context manager that closes them.

    Args:
        channel_builder: Makes channels of sockets, by security.protocol.
        client_id: Sent in each request header.
        timeout_s: Seconds without a byte in or out after which an attempt or a request is given up; None for ever.
        waits_for_bytes: While bytes go on to come, wait on; else `timeout_s` is the longest time for each step.
        dns_lookup: client.dns.lookup.
        send_buffer_bytes: SO_SNDBUF, -1 for the system's default.
        receive_buffer_bytes: SO_RCVBUF, -1 for the system's default.
        clock: Read while waiting.

    Attributes:
        until_ms: When waiting ends whatever the above says, in monotonic ms; None where nothing else limits it.
    """

    def __init__(self, channel_builder: ChannelBuilder, *, client_id: str, timeout_s: float | None,
                 send_buffer_bytes: int, receive_buffer_bytes: int, clock: Clock, waits_for_bytes: bool = True,
                 dns_lookup: str = USE_ALL_DNS_IPS) -> None:
        self._selector = Selector(max_receive_size_bytes=LARGEST_ANSWER_BYTES, connections_max_idle_ms=-1,
                                  channel_builder=channel_builder)
        self._client_id = client_id
        self._timeout_s = timeout_s
        self._send_buffer_bytes = send_buffer_bytes
        self._receive_buffer_bytes = receive_buffer_bytes
        self._clock = clock
        self._waits_for_bytes = waits_for_bytes
        self._uses_canonical_names = dns_lookup == RESOLVE_CANONICAL_BOOTSTRAP_SERVERS_ONLY
        self.until_ms: int | None = None
        self._numbers = itertools.count()
        self._received: defaultdict[str, deque[NetworkReceive]] = defaultdict(deque)
        self._ended: dict[str, ChannelState] = {}
        self._places: dict[str, tuple[str, int]] = {}

    @classmethod
    def of(cls, config: Mapping[str, Any], login: Login | None, *, timeout_s: float | None, clock: Clock,
           receive_buffer_bytes: int | None = None) -> BlockingClient:
        """Return one that connects as a producer of these settings does.

        Args:
            config: Parsed settings under Java's keys.
            login: What proves who we are; None without SASL.
            timeout_s: See the constructor.
            clock: See the constructor.
            receive_buffer_bytes: In place of the settings'.
        """
        return cls(client_channel_builder(config, login, clock), client_id=config["client.id"], timeout_s=timeout_s,
                   clock=clock, send_buffer_bytes=config["send.buffer.bytes"],
                   receive_buffer_bytes=config["receive.buffer.bytes"] if receive_buffer_bytes is None
                   else receive_buffer_bytes, dns_lookup=config["client.dns.lookup"])

    def __enter__(self) -> BlockingClient:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Close all connections."""
        self._selector.close_all()

    # ---- coming up

    def connect_to_any(self, addresses: Iterable[tuple[str, int]]) -> Connection:
        """Connect to the first broker that can be reached and speaks Kafka; bootstrap.servers by client.dns.lookup.

        Raises:
            DisconnectedError: None can; with one address, why; with several, why of each. Not sent.
            KafkaTimeoutError: The only one says nothing. Not sent.
            AuthenticationError: One end of TLS or SASL refused the other. Not sent.
            ProtocolError: What answers is not Kafka, or has no version in common with us. Not sent.
        """
        failures: list[KafkaError] = []
        places = [(name, port) for host, port in addresses for name in self._names_of(host, port)]
        for index, place in enumerate(places):
            try:
                with self._share_among(len(places) - index):
                    return self.connect(*place)
            except (DisconnectedError, KafkaTimeoutError) as error:
                failures.append(error)
        raise _all_of("no broker could be reached", failures)

    @contextmanager
    def _share_among(self, count: int) -> Iterator[None]:
        """Give the first of several its share of the time: one that says nothing leaves the others theirs."""
        until_ms = self.until_ms
        if until_ms is not None:
            now_ms = self._clock.now_ms()
            self.until_ms = now_ms + (until_ms - now_ms) // count
        try:
            yield
        finally:
            self.until_ms = until_ms

    def _names_of(self, host: str, port: int) -> Iterable[str]:
        """Return the names to connect to: its canonical ones, where client.dns.lookup says so and there are any."""
        if self._uses_canonical_names:
            try:
                return dict.fromkeys(canonical_names(host, port))
            except OSError:
                pass  # to connect to it says so
        return (host,)

    def connect(self, host: str, port: int) -> Connection:
        """Connect to a broker by any of the addresses that its name has, and learn its versions.

        Raises:
            KafkaError: As connect_to_any. Not sent.
        """
        where = address_text(host, port)
        try:
            addresses = resolve_host(host, port)
        except OSError as cause:
            raise dns_failure(where, cause).error from cause
        failures: list[KafkaError] = []
        for index, address in enumerate(addresses):
            try:
                with self._share_among(len(addresses) - index):
                    return self._connect(host, where, address)
            except (DisconnectedError, KafkaTimeoutError) as error:
                failures.append(error)
        raise _all_of(f"{where}: none of its addresses could be reached", failures)

    def _connect(self, host: str, where: str, address: ResolvedAddress) -> Connection:
        """Return a connection to an address; nothing is kept of one that cannot be had."""
        attempt = self.attempt(host, where, address)
        with ExitStack() as end:
            end.callback(self._forget, attempt.connection_id)
            if attempt.failure is not None:
                raise attempt.failure.error
            connection = self.negotiate(attempt.connection_id, where)
            end.pop_all()
        return connection

    def attempt(self, host: str, where: str, address: ResolvedAddress, *, is_advertised: bool = False) -> Attempt:
        """Connect to one address of a broker, up to the end of TLS and authentication; a failure is told, not raised.

        Where TLS ended in silence there is a second connection, by which the network layer finds out whether the peer
        speaks plaintext (network/plaintext_probe.py).

        Args:
            host: The broker's name, which its certificate must show.
            where: `host:port`, for messages.
            address: One of those that the name has.
            is_advertised: A broker told the name.
        """
        connection_id = f"{where}-{next(self._numbers)}"
        self._places[connection_id] = host, address.address[1]
        attempt = self._attempt(connection_id, host, where, address, is_advertised)
        if attempt.failure is not None and attempt.failure.phase == TLS and type(
                attempt.failure.error) is DisconnectedError:
            second = self._attempt(connection_id, host, where, address, is_advertised)
            if second.failure is None or isinstance(second.failure.error, AuthenticationError):
                return second
        return attempt

    def _attempt(self, connection_id: str, host: str, where: str, address: ResolvedAddress,
                 is_advertised: bool) -> Attempt:
        self._ended.pop(connection_id, None)
        self._selector.connect(
            connection_id, address.address, family=address.family, send_buffer_bytes=self._send_buffer_bytes,
            receive_buffer_bytes=self._receive_buffer_bytes, now_ms=self._clock.now_ms(), server_hostname=host)
        if not self._wait(connection_id, lambda: self._selector.is_channel_ready(connection_id)):
            channel = self._selector.channel(connection_id)
            is_connected = channel is not None and channel.is_connected
            is_secure = is_connected and channel is not None and channel.transport.ready
            self._selector.close(connection_id)
            phase = AUTHENTICATION if is_secure else TLS if is_connected else CONNECT
            what = ("no end of the authentication" if is_secure else "no end of the TLS handshake" if is_connected
                    else f"no connection to {address.address[0]}")
            text = f"{what} {self._in_time()}"
            return Attempt(connection_id, Failure(phase, text, KafkaTimeoutError(f"{where}: {text}", phase="request")))
        end = self._ended.get(connection_id)
        if end is None:
            return Attempt(connection_id, None)
        if end.phase is ChannelPhase.NOT_CONNECTED:
            return Attempt(connection_id, connect_failure(where, address, end.error))
        return Attempt(connection_id, authentication_failure(
            where, end.error, refused=end.phase is ChannelPhase.AUTHENTICATION_FAILED, is_advertised=is_advertised))

    def renewed(self, connection: Connection) -> Connection:
        """Return a connection, or another one to the same broker where it has ended.

        Raises:
            KafkaError: As connect_to_any. Not sent.
        """
        if self.is_open(connection):
            return connection
        return self.connect(*self._places[connection.connection_id])

    def forget(self, connection: Connection) -> None:
        """Close a connection that nobody asks by any more, and keep nothing of it."""
        self._forget(connection.connection_id)

    def _forget(self, connection_id: str) -> None:
        self._selector.close(connection_id)
        self._places.pop(connection_id, None)
        self._ended.pop(connection_id, None)
        self._received.pop(connection_id, None)

    def is_open(self, connection: Connection) -> bool:
        """Whether it has not ended, as far as was heard: one without an answer has, one that was refused has not."""
        return connection.connection_id not in self._ended

    def channel(self, connection_id: str) -> KafkaChannel | None:
        """Return an open connection's channel, to look at; None when it has ended."""
        return self._selector.channel(connection_id)

    def negotiate(self, connection_id: str, where: str) -> Connection:
        """Ask for the versions of the APIs, the first request of a connection.

        Raises:
            KafkaError: As connect_to_any. Not sent.
        """
        version = LATEST_VERSION
        while True:
            body = self._exchange(connection_id, where, ApiKeys.API_VERSIONS, version, api_versions_body(version))
            result = read_api_versions(body, version, where)
            if result.versions is not None:
                return Connection(connection_id, where, result.versions)
            if result.error is not None:
                self._selector.close(connection_id)
                raise result.error
            version = result.retry_version or 0  # strictly lower than before, so this ends

    # ---- requests

    def ask(self, connection: Connection, api_key: ApiKeys, build: Callable[[int], Mapping[str, Any]], *,
            max_version: int | None = None) -> Answer:
        """Send one request and wait for its answer.

        Args:
            connection: Where to.
            api_key: The API.
            build: Given the version, returns the body.
            max_version: The caller's own ceiling, if it has one.

        Raises:
            UnsupportedVersionError: No version in common, or the body needs a newer one. Not sent.
            DisconnectedError: The connection ended first. Unknown.
            KafkaTimeoutError: No byte for `timeout_s`. Unknown.
            ProtocolError: What came is no answer to it; the connection is closed. Unknown.
        """
        (answer,) = self.ask_all(connection, api_key, [build], max_version=max_version)
        return answer

    def ask_all(self, connection: Connection, api_key: ApiKeys, builds: Sequence[Callable[[int], Mapping[str, Any]]], *,
                max_version: int | None = None) -> list[Answer]:
        """Send requests one behind the other, and wait for their answers then; return these in order.

        Raises:
            KafkaError: As `ask`. What was asked for by any of them may be done.
        """
        version = connection.versions.latest_usable_version(api_key, max_version)
        bodies = [build(version) for build in builds]
        return [Answer(version, body) for body in self._exchange_all(
            connection.connection_id, connection.where, api_key, version, bodies)]

    def _exchange(self, connection_id: str, where: str, api_key: ApiKeys, version: int,
                  body: Mapping[str, Any]) -> Struct:
        (answer,) = self._exchange_all(connection_id, where, api_key, version, [body])
        return answer

    def _exchange_all(self, connection_id: str, where: str, api_key: ApiKeys, version: int,
                      bodies: Sequence[Mapping[str, Any]]) -> list[Struct]:
        """Send requests of one API, each once the one before is written; then read as many answers.

        Whatever ends that in the middle leaves a connection of no use: what comes on it may be the answer to anything.
        """
        with ExitStack() as end:
            end.push(partial(self._on_end, connection_id))
            return self._exchange_each(connection_id, where, api_key, version, bodies)

    def _exchange_each(self, connection_id: str, where: str, api_key: ApiKeys, version: int,
                       bodies: Sequence[Mapping[str, Any]]) -> list[Struct]:
        correlation_ids: list[int] = []
        received_before = self._selector.bytes_read
        send: NetworkSend | None = None
        for body in bodies:
            if send is not None:
                self._await_answer(connection_id, where, api_key, version, partial(getattr, send, "completed"))
            correlation_ids.append(next(self._numbers))
            send = NetworkSend(connection_id,
                               build_request(api_key, version, correlation_ids[-1], self._client_id, body))
            if connection_id not in self._ended:
                self._selector.send(send)
        return [self._read_answer(connection_id, where, api_key, version, correlation_id, received_before)
                for correlation_id in correlation_ids]

    def _await_answer(self, connection_id: str, where: str, api_key: ApiKeys, version: int,
                      is_done: Callable[[], bool]) -> None:
        if not self._wait(connection_id, is_done):
            raise KafkaTimeoutError(f"{where} did not answer {api_key.name} v{version} {self._in_time()}",
                                    phase="request", outcome="unknown")

    def _on_end(self, connection_id: str, _kind: type[BaseException] | None, why: BaseException | None,
                _trace: TracebackType | None) -> None:
        """End a connection whose exchange was ended by an error; who goes on to ask on it is told by which."""
        if why is None:
            return
        self._received.pop(connection_id, None)  # what came behind it answers nothing any more
        if connection_id in self._ended:
            return
        # First that is noted: what comes now may be interrupted, too.
        self._ended[connection_id] = ChannelState(ChannelPhase.LOCAL_CLOSE, DisconnectedError(
            f"The connection was given up: {str(why) or repr(why)}"))
        self._selector.close(connection_id)

    def _read_answer(self, connection_id: str, where: str, api_key: ApiKeys, version: int, correlation_id: int,
                     received_before: int) -> Struct:
        received = self._received[connection_id]
        self._await_answer(connection_id, where, api_key, version, lambda: bool(received))
        receive = received.popleft() if received else None
        if receive is None:
            phase, cause, _ = self._ended[connection_id]
            if phase is ChannelPhase.LOCAL_CLOSE:
                raise DisconnectedError(str(cause))  # a new one: it may be asked again and again
            if isinstance(cause, AuthenticationError):  # TLS 1.3: it comes after our half of the handshake
                raise authentication_failure(where, cause, refused=True).error
            if api_key is ApiKeys.API_VERSIONS:
                raise negotiation_failure(where, cause).error
            count = self._selector.bytes_read - received_before
            raise request_failure(where, cause, first_metadata=api_key is ApiKeys.METADATA,
                                  in_flight=f"{api_key.name} v{version}, {count} bytes of its answer came").error
        answered_id, answer = parse_response(api_key, version, receive.payload)
        if answered_id != correlation_id:
            raise CorrelationIdMismatchError(f"{where} answered request {answered_id} instead of {correlation_id}")
        return answer

    # ---- the wait

    def _wait(self, connection_id: str, is_done: Callable[[], bool]) -> bool:
        """Poll until something is done or the connection ended; False when the timeout passed first."""
        selector, clock = self._selector, self._clock
        longest_ms = None if self._timeout_s is None else math.ceil(self._timeout_s * 1000)
        moved = -1
        moved_ms = now_ms = clock.now_ms()
        while not is_done() and connection_id not in self._ended:
            if self._waits_for_bytes and selector.bytes_read + selector.bytes_written != moved:
                moved = selector.bytes_read + selector.bytes_written
                moved_ms = now_ms
            left_ms = LONGEST_POLL_MS if longest_ms is None else longest_ms - (now_ms - moved_ms)
            if self.until_ms is not None:
                left_ms = min(left_ms, self.until_ms - now_ms)
            if left_ms <= 0:
                return False
            selector.poll(min(left_ms, LONGEST_POLL_MS), now_ms)
            for receive in selector.completed_receives:
                self._received[receive.source].append(receive)
            self._ended.update(selector.disconnected)
            now_ms = clock.now_ms()
        return True

    def _in_time(self) -> str:
        """Say how long was waited, behind what did not happen."""
        is_cut_short = self.until_ms is not None and self._clock.now_ms() >= self.until_ms
        return "in the time that was left" if is_cut_short else f"within {self._timeout_s} s"


def _all_of(what: str, failures: Sequence[KafkaError]) -> KafkaError:
    """Return an error that says all that others say; of one alone that itself."""
    texts = dict.fromkeys(map(str, failures))
    return failures[0] if len(texts) == 1 else DisconnectedError(f"{what}: {'; '.join(texts)}")
