"""One broker of a cluster: network layer, request channel, handlers, APIs.

Road:    EmbeddedBroker -> [broker] -> SocketServer, KafkaRequestHandlerPool, KafkaApis
Thread:  the one that starts and stops it.
Source:  Java kafka.server.BrokerServer (4.1).
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from pyproducer.broker.apis.kafka_apis import KafkaApis
from pyproducer.broker.cluster.cluster_state import ClusterState
from pyproducer.broker.cluster.config import BrokerConfig
from pyproducer.broker.cluster.listener import EndPoint, advertised_end_points
from pyproducer.broker.cluster.living_brokers import BrokerInfo
from pyproducer.broker.cluster.sasl.server_authenticator import SaslServerSettings
from pyproducer.broker.cluster.sasl_listener import SaslListener, is_sasl
from pyproducer.broker.control.scripted import Scripted, ScriptedBroker
from pyproducer.broker.network.flood_log import flood_log_of_frames
from pyproducer.broker.network.handler_pool import KafkaRequestHandlerPool
from pyproducer.broker.network.processor import ApiGate
from pyproducer.broker.network.request_channel import RequestChannel, ResponseMemory
from pyproducer.broker.network.socket_server import SocketServer
from pyproducer.common.clock import SystemClock

_logger = logging.getLogger(__name__)


class BrokerServer:
    """A broker that listens as soon as it is made, and answers once it is started.

    Args:
        node_id: Its id.
        cluster: What it shares with the others.
        scripted: What tests want of it.
        end_points: Its listeners.
        config: Its settings; None for the cluster's.
        port_offset: What is added to the ports of advertised.listeners, which are the first broker's.

    Raises:
        ConfigError: A listener cannot be opened.
    """

    def __init__(self, node_id: int, cluster: ClusterState, scripted: Scripted, end_points: Sequence[EndPoint],
                 config: BrokerConfig | None = None, port_offset: int = 0) -> None:
        self.node_id = node_id
        self._port_offset = port_offset
        self._cluster = cluster
        self._config = config = config or cluster.config
        self.channel: RequestChannel = RequestChannel(config.number("queued.max.requests"), ResponseMemory(
            config.number("queued.max.response.bytes"), config.number("num.io.threads")))
        self._script = ScriptedBroker(node_id, scripted, cluster, self.channel)
        self.apis: KafkaApis = KafkaApis(node_id, cluster, self.channel, cluster.clock, self._script)
        self._sasl = {
            end_point.listener_name: SaslListener(config, end_point, cluster.scram_credentials.of, cluster.clock)
            for end_point in end_points if is_sasl(end_point)}
        bad_frames = flood_log_of_frames(_logger)
        self.socket_server: SocketServer = SocketServer(
            node_id, end_points, config, self.channel, ApiGate(self.apis.is_supported), SystemClock(),
            {name: self._sasl_settings(listener) for name, listener in self._sasl.items()}, bad_frames)
        self._handlers = KafkaRequestHandlerPool(config.number("num.io.threads"), node_id, self.channel,
                                                 self.apis.handle, bad_frames)

    def _sasl_settings(self, listener: SaslListener) -> SaslServerSettings:
        receive_size_bytes = self._config.number("sasl.server.max.receive.size")
        return SaslServerSettings(
            tuple(listener.servers), lambda mechanism: listener.servers[mechanism](), self.apis.api_versions,
            self.apis.early_error, self.apis.is_supported, self._cluster.clock, receive_size_bytes,
            listener.max_reauth_ms, self._script.logins)

    @property
    def end_points(self) -> dict[str, EndPoint]:
        """The listeners by name, with the ports that are really used."""
        return self.socket_server.end_points

    @property
    def advertised(self) -> dict[str, EndPoint]:
        """The addresses that clients are told, by listener name."""
        found = advertised_end_points(self._config.advertised_listeners, list(self.end_points.values()),
                                      self._port_offset)
        return {end_point.listener_name: end_point for end_point in found}

    def start(self) -> None:
        """Make the broker known to the cluster and serve."""
        self._cluster.brokers.register(BrokerInfo(self.node_id, self.advertised,
                                                 self._config.optional_text("broker.rack")))
        for listener in self._sasl.values():
            listener.start()
        self._handlers.start()
        self.socket_server.start()
        for end_point in self.end_points.values():
            _logger.info("Broker %d listens on %s://%s:%d", self.node_id, end_point.listener_name, end_point.host,
                         end_point.port)

    def shutdown(self) -> None:
        """Stop in Kafka's order: accepting, requests, handlers, what waits, connections."""
        self.socket_server.stop_accepting()
        self.channel.close()
        self._handlers.shutdown()
        self._cluster.delayed_fetches.complete_all()
        self.socket_server.shutdown()
        self._close_sasl()

    def kill(self) -> None:
        """Stop as a crash does: connections first, so that what the handlers still do is never answered."""
        self.socket_server.stop_accepting()
        self.channel.close()
        self.socket_server.shutdown()
        self._handlers.shutdown()
        self._close_sasl()

    def _close_sasl(self) -> None:
        for listener in self._sasl.values():
            listener.close()
