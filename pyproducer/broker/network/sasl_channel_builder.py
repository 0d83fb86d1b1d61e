"""Makes the channels of a listener whose clients log in with SASL.

Road:    ServerSelector.register -> [sasl channel builder] -> the listener's transport -> KafkaChannel
Thread:  the thread that polls the selector.
Source:  Java SaslChannelBuilder.buildChannel, buildServerAuthenticator (4.1).
"""

from __future__ import annotations

import socket

from pyproducer.broker.cluster.sasl.server_authenticator import SaslServerAuthenticator, SaslServerSettings
from pyproducer.broker.request.peer_address import address_text
from pyproducer.network.channel import KafkaChannel
from pyproducer.network.channel_builder import ChannelBuilder


class SaslServerChannelBuilder:
    """`SASL_PLAINTEXT` and `SASL_SSL`, of a broker; see ChannelBuilder.

    Args:
        transports: Makes the channels of the same listener without SASL.
        settings: The listener's mechanisms.
    """

    def __init__(self, transports: ChannelBuilder, settings: SaslServerSettings) -> None:
        self._transports = transports
        self._settings = settings

    def build(self, connection_id: str, sock: socket.socket, *, server_side: bool,
              server_hostname: str | None) -> KafkaChannel:
        """Return a channel that is ready when its peer has logged in."""
        peer = address_text(sock.getpeername())
        transport = self._transports.build(connection_id, sock, server_side=server_side,
                                           server_hostname=server_hostname).transport
        return KafkaChannel(connection_id, transport, SaslServerAuthenticator(
            transport, self._settings, connection_id=connection_id, peer=peer))
