"""The network layer of one broker: an acceptor for each listener, processors for each acceptor.

Road:    broker -> [SocketServer] -> Acceptor, Processor
Thread:  the one that starts, stops and resizes the broker.
Source:  Java kafka.network.SocketServer (4.1).
"""

from __future__ import annotations

import logging
import socket
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from pyproducer.broker.cluster.config import BrokerConfig
from pyproducer.broker.cluster.listener import EndPoint
from pyproducer.broker.cluster.sasl.server_authenticator import SaslServerSettings
from pyproducer.broker.network.acceptor import Acceptor, open_server_socket
from pyproducer.broker.network.connection_quotas import connection_quotas
from pyproducer.broker.network.flood_log import FloodLog, flood_log_of_frames
from pyproducer.broker.network.processor import ApiGate, Processor
from pyproducer.broker.network.request_channel import RequestChannel
from pyproducer.broker.network.sasl_channel_builder import SaslServerChannelBuilder
from pyproducer.broker.network.server_selector import ServerSelector
from pyproducer.broker.network.ssl_principal_mapper import (
    DEFAULT,
    MappedPrincipalChannelBuilder,
    SslPrincipalMapper,
)
from pyproducer.broker.network.x500_name import subject_name
from pyproducer.common.clock import Clock
from pyproducer.common.errors import ConfigError
from pyproducer.network.channel_builder import ChannelBuilder, PlaintextChannelBuilder
from pyproducer.network.ssl_channel_builder import SslChannelBuilder
from pyproducer.network.ssl_context import build_server_ssl_context

_logger = logging.getLogger(__name__)


class ConnectionInfo(NamedTuple):
    """One open connection; `mute_state` is the name of Kafka's ChannelMuteState."""

    node_id: int
    listener_name: str
    processor_id: int
    connection_id: str
    remote_address: str
    principal: str
    mute_state: str


class SocketServer:
    """Listens on every listener of a broker.

    Args:
        node_id: The broker.
        end_points: Its listeners; port 0 takes any free port.
        config: Its settings.
        channel: Where requests go.
        gate: Which APIs are answered.
        clock: The clock.
        sasl: What those listeners need whose clients log in, by name.
        bad_frames: Where connections are told that are closed for what they sent.

    Raises:
        ConfigError: A listener cannot be opened, or its TLS settings are wrong; nothing is left open.
    """

    def __init__(self, node_id: int, end_points: Sequence[EndPoint], config: BrokerConfig, channel: RequestChannel,
                 gate: ApiGate, clock: Clock, sasl: Mapping[str, SaslServerSettings],
                 bad_frames: FloodLog | None = None) -> None:
        self._node_id = node_id
        self._config = config
        self._channel = channel
        self._gate = gate
        self._clock = clock
        self._bad_frames = bad_frames or flood_log_of_frames(_logger)
        self._lock = threading.Lock()  # guards _next_processor_id and resizing
        self._next_processor_id = 0
        self._builders = {
            end_point.listener_name: _channel_builder(end_point, config, sasl.get(end_point.listener_name))
            for end_point in end_points}
        self._acceptors: dict[str, Acceptor] = {}
        quotas = connection_quotas(config)
        try:
            for end_point in end_points:
                sock = open_server_socket(end_point, backlog=config.number("socket.listen.backlog.size"),
                                          receive_buffer_bytes=config.number("socket.receive.buffer.bytes"))
                self._acceptors[end_point.listener_name] = Acceptor(
                    end_point, sock, new_processor=self._new_processor, quotas=quotas,
                    name=f"data-plane-kafka-socket-acceptor-{node_id}-{end_point.listener_name}")
        except BaseException:
            self.stop_accepting()
            raise

    @property
    def end_points(self) -> dict[str, EndPoint]:
        """The listeners by name, with the ports that are really used."""
        return {name: acceptor.end_point for name, acceptor in self._acceptors.items()}

    @property
    def acceptors(self) -> dict[str, Acceptor]:
        """The acceptors by listener name."""
        return self._acceptors

    @property
    def connection_count(self) -> int:
        """How many connections are open."""
        return sum(processor.connection_count for acceptor in self._acceptors.values()
                   for processor in acceptor.processors)

    def connections(self) -> list[ConnectionInfo]:
        """Return the open connections of this moment."""
        return [ConnectionInfo(self._node_id, name, processor.processor_id, channel.id, channel.remote_address,
                               channel.principal_name, processor.mute_state(channel).name)
                for name, acceptor in self._acceptors.items() for processor in acceptor.processors
                for channel in processor.channels()]

    def start(self) -> None:
        """Start processors and acceptors."""
        for acceptor in self._acceptors.values():
            acceptor.add_processors(self._config.number("num.network.threads"))
            acceptor.start()

    def resize_thread_pool(self, processor_count: int) -> None:
        """Change num.network.threads of every listener while the broker runs.

        Raises:
            ConfigError: Below 1, or not between half and twice the number there is (Kafka's rule).
        """
        with self._lock:
            for acceptor in self._acceptors.values():
                old = len(acceptor.processors)
                if processor_count < 1 or not old // 2 <= processor_count <= old * 2:
                    raise ConfigError("num.network.threads", processor_count,
                                      f"value should be at least 1, and between half and twice of the current {old}")
            for acceptor in self._acceptors.values():
                difference = processor_count - len(acceptor.processors)
                if difference > 0:
                    acceptor.add_processors(difference)
                elif difference < 0:
                    for processor in acceptor.remove_processors(-difference):
                        self._channel.remove_processor(processor.processor_id)

    def stop_accepting(self) -> None:
        """Stop the acceptors; connections stay."""
        for acceptor in self._acceptors.values():
            acceptor.stop_accepting()

    def shutdown(self) -> None:
        """Stop everything; connections are closed."""
        self.stop_accepting()
        processors = [processor for acceptor in self._acceptors.values() for processor in acceptor.processors]
        for processor in processors:
            processor.initiate_shutdown()
        for processor in processors:
            processor.await_shutdown()
            self._channel.remove_processor(processor.processor_id)

    def _new_processor(self, end_point: EndPoint) -> Processor:
        processor_id = self._next_processor_id
        self._next_processor_id += 1
        name = f"data-plane-kafka-network-thread-{self._node_id}-{end_point.listener_name}-{processor_id}"
        selector = ServerSelector(
            max_receive_size_bytes=self._config.number("socket.request.max.bytes"),
            connections_max_idle_ms=self._config.number("connections.max.idle.ms"),
            channel_builder=self._builders[end_point.listener_name],
            failed_authentication_delay_ms=self._config.number("connection.failed.authentication.delay.ms"))
        processor = Processor(
            processor_id, end_point=end_point, channel=self._channel, selector=selector, gate=self._gate,
            clock=self._clock, socket_options=_socket_options(self._config.number("socket.send.buffer.bytes")),
            name=name, max_elements=self._config.number("socket.request.max.elements"), bad_frames=self._bad_frames)
        self._channel.add_processor(processor)
        return processor


def _channel_builder(end_point: EndPoint, config: BrokerConfig, sasl: SaslServerSettings | None) -> ChannelBuilder:
    is_tls = end_point.security_protocol.endswith("SSL")
    transports = _ssl_channel_builder(end_point, config) if is_tls else PlaintextChannelBuilder()
    if sasl is not None:
        return SaslServerChannelBuilder(transports, sasl)
    rules = config.listener_text(end_point.listener_name, "ssl.principal.mapping.rules")
    if is_tls and rules and rules.strip() != DEFAULT:
        return MappedPrincipalChannelBuilder(transports, SslPrincipalMapper(rules))
    return transports


def _ssl_channel_builder(end_point: EndPoint, config: BrokerConfig) -> ChannelBuilder:

    def setting(name: str) -> str | None:
        return config.listener_text(end_point.listener_name, name)

    location, key = setting("ssl.keystore.location"), setting("ssl.keystore.key")
    if location is None and key is None:
        raise ConfigError("ssl.keystore.location", None, f"listener {end_point.listener_name} needs a certificate")
    return SslChannelBuilder(build_server_ssl_context(
        keystore_location=location, key_password=setting("ssl.key.password"), keystore_key=key,
        keystore_certificate_chain=setting("ssl.keystore.certificate.chain"),
        truststore_location=setting("ssl.truststore.location"),
        truststore_certificates=setting("ssl.truststore.certificates"),
        client_auth=setting("ssl.client.auth") or "none",
        enabled_protocols=setting("ssl.enabled.protocols") or ""), subject_of=subject_name)


def _socket_options(send_buffer_bytes: int) -> Callable[[socket.socket], None]:
    def apply(sock: socket.socket) -> None:
        if send_buffer_bytes >= 0:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, send_buffer_bytes)
    return apply
