"""Makes a channel of a socket, by security protocol.

Road:    Selector.connect/register -> [channel builder] -> KafkaChannel
Thread:  the thread that polls the selector.
Source:  Java ChannelBuilder, ChannelBuilders, PlaintextChannelBuilder, SslChannelBuilder (4.1).
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import Mapping
from typing import Any, Protocol

from pyproducer.common.errors import ConfigError
from pyproducer.network.channel import KafkaChannel, PlaintextAuthenticator
from pyproducer.network.ssl_transport import SslTransportLayer
from pyproducer.network.transport import PlaintextTransportLayer


class ChannelBuilder(Protocol):
    """Makes channels; one per selector or shared, it has no state of its own."""

    def build(self, connection_id: str, sock: socket.socket, *, server_side: bool,
              server_hostname: str | None) -> KafkaChannel:
        """Return a channel over a socket that is non-blocking and may still be connecting.

        Args:
            connection_id: The channel's id.
            sock: Owned by the channel from now on.
            server_side: The socket was accepted, not connected.
            server_hostname: The name that the caller wanted to reach, for TLS; None for an accepted one.

        Raises:
            ConfigError: The settings do not allow it; the socket is still the caller's. Not sent.
        """


class PlaintextChannelBuilder:
    """`security.protocol=PLAINTEXT`."""

    def build(self, connection_id: str, sock: socket.socket, *, server_side: bool,
              server_hostname: str | None) -> KafkaChannel:
        """Return a channel over the bare socket."""
        transport = PlaintextTransportLayer(sock)
        return KafkaChannel(connection_id, transport, PlaintextAuthenticator(transport))


class SslChannelBuilder:
    """`security.protocol=SSL`.

    Args:
        ssl_context: From build_client_ssl_context or build_server_ssl_context, or the user's own.
    """

    def __init__(self, ssl_context: ssl.SSLContext) -> None:
        self._ssl_context = ssl_context

    def build(self, connection_id: str, sock: socket.socket, *, server_side: bool,
              server_hostname: str | None) -> KafkaChannel:
        """Return a channel that speaks TLS over the socket."""
        if self._ssl_context.check_hostname and not server_side and not server_hostname:
            # wrap_bio, other than wrap_socket, would check no name at all then.
            raise ConfigError("ssl.endpoint.identification.algorithm", "https",
                              "the connection was asked for without the host name that is to be checked")
        transport = SslTransportLayer(sock, self._ssl_context, server_side=server_side,
                                      server_hostname=server_hostname)
        return KafkaChannel(connection_id, transport, PlaintextAuthenticator(transport))


def client_channel_builder(settings: Mapping[str, Any]) -> ChannelBuilder:
    """Return what makes a client's channels.

    Args:
        settings: Parsed values under Java's keys: security.protocol and the ssl.* ones.

    Raises:
        ConfigError: They ask for SASL, or the ssl.* ones cannot be fulfilled; see build_client_ssl_context. Not sent.

    Source: Java ChannelBuilders.clientChannelBuilder (4.1).
    """
    protocol = settings["security.protocol"]
    if protocol.startswith("SASL"):
        raise ConfigError("security.protocol", protocol,
                          "SASL is not in this version; use PLAINTEXT, or SSL with a client certificate")
    if protocol == "SSL":
        from pyproducer.network.ssl_context import build_client_ssl_context  # here: only who speaks TLS needs it

        return SslChannelBuilder(build_client_ssl_context(settings))
    return PlaintextChannelBuilder()
