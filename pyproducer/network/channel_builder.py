"""Makes a channel of a socket, by security protocol.

Road:    Selector.connect/register -> [channel builder] -> KafkaChannel
Thread:  the thread that polls the selector.
Source:  Java ChannelBuilder, ChannelBuilders, PlaintextChannelBuilder (4.1).
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from pyproducer.common.errors import IllegalStateError
from pyproducer.network.channel import KafkaChannel, PlaintextAuthenticator
from pyproducer.network.transport import PlaintextTransportLayer, TransportLayer

if TYPE_CHECKING:
    from pyproducer.common.clock import Clock
    from pyproducer.network.channel import Authenticator
    from pyproducer.network.sasl.mechanism import Login


class ChannelBuilder(Protocol):
    """Makes channels; one per selector or shared by a broker's."""

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


# Makes what proves who we are, of a transport and the name of the host.
MakeAuthenticator = Callable[[TransportLayer, str], "Authenticator"]


def no_authentication(transport: TransportLayer, _host: str) -> Authenticator:
    """Return what lets everybody pass, as nobody: MakeAuthenticator without SASL."""
    return PlaintextAuthenticator(transport)


class PlaintextChannelBuilder:
    """`security.protocol=PLAINTEXT`, or SASL_PLAINTEXT.

    Args:
        make_authenticator: For SASL.
    """

    def __init__(self, make_authenticator: MakeAuthenticator = no_authentication) -> None:
        self._make_authenticator = make_authenticator

    def build(self, connection_id: str, sock: socket.socket, *, server_side: bool,
              server_hostname: str | None) -> KafkaChannel:
        """Return a channel over the bare socket."""
        transport = PlaintextTransportLayer(sock, server_side=server_side)
        return KafkaChannel(connection_id, transport, self._make_authenticator(transport, server_hostname or ""))


def client_channel_builder(settings: Mapping[str, Any], login: Login | None = None,
                           clock: Clock | None = None) -> ChannelBuilder:
    """Return what makes a client's channels.

    Args:
        settings: Parsed values under Java's keys: security.protocol, client.id and the ssl.* ones.
        login: The credentials, see login_for; needed where security.protocol names SASL.
        clock: For when certificates that could not be used are tried again.

    Raises:
        ConfigError: The ssl.* settings cannot be fulfilled; see network/ssl_context.py. Not sent.
        IllegalStateError: There is no login where there must be one. Not sent.

    Source: Java ChannelBuilders.clientChannelBuilder (4.1).
    """
    protocol: str = settings["security.protocol"]
    has_tls = protocol.endswith("SSL")
    make_authenticator: MakeAuthenticator = no_authentication
    if protocol.startswith("SASL_"):
        from pyproducer.network.sasl.client_authenticator import SaslClientAuthenticator  # only who speaks SASL

        if login is None:
            raise IllegalStateError(f"security.protocol = {protocol} needs a login: see login_for")
        client_id, own_login = settings["client.id"], login

        def make_authenticator(transport: TransportLayer, host: str) -> Authenticator:
            return SaslClientAuthenticator(transport, own_login, host=host, client_id=client_id, is_encrypted=has_tls)

    if has_tls:
        # Here, on the thread that makes the client: only who speaks TLS needs them, and ssl is an eighth of the import.
        from pyproducer.network.ssl_channel_builder import SslChannelBuilder
        from pyproducer.network.ssl_context import ContextFromFiles

        return SslChannelBuilder(ContextFromFiles(settings, clock), make_authenticator)
    return PlaintextChannelBuilder(make_authenticator)
