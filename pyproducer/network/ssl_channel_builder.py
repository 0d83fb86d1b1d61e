"""Makes a channel that speaks TLS. A file of its own, so that nobody else loads ssl.

Road:    Selector.connect/register -> [ssl channel builder] -> KafkaChannel
Thread:  the thread that polls the selector.
Source:  Java SslChannelBuilder (4.1). RFC 6066 3, RFC 9525 2: a name has no final dot in TLS; RFC 4007 11: a zone means
         something on its own machine only.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable
from functools import partial

from pyproducer.common.errors import ConfigError
from pyproducer.network.channel import KafkaChannel
from pyproducer.network.channel_builder import MakeAuthenticator, no_authentication
from pyproducer.network.plaintext_probe import PlaintextProbe, Suspicion
from pyproducer.network.ssl_transport import SslTransportLayer
from pyproducer.network.transport import PlaintextTransportLayer


class SslChannelBuilder:
    """`security.protocol=SSL`, or SASL_SSL.

    Args:
        ssl_context: From build_client_ssl_context or build_server_ssl_context, or the user's own; or what gives the
            one for a new connection, as ContextFromFiles does.
        make_authenticator: For SASL.
        subject_of: For a broker: names the subject of a client's certificate.

    Attributes:
        identity_ends_at_s: Tells when our certificate ends, see ContextFromFiles; None of other contexts.
    """

    def __init__(self, ssl_context: ssl.SSLContext | Callable[[], ssl.SSLContext],
                 make_authenticator: MakeAuthenticator = no_authentication,
                 subject_of: Callable[[bytes], str] | None = None) -> None:
        self._context_of_now = ssl_context if callable(ssl_context) else lambda: ssl_context
        self._make_authenticator = make_authenticator
        self._subject_of = subject_of
        self._has_identity: bool | None = getattr(ssl_context, "has_identity", None)
        self.identity_ends_at_s: Callable[[], int | None] | None = getattr(ssl_context, "identity_ends_at_s", None)
        self._suspicion = Suspicion()

    def build(self, connection_id: str, sock: socket.socket, *, server_side: bool,
              server_hostname: str | None) -> KafkaChannel:
        """Return a channel that speaks TLS over the socket."""
        ssl_context = self._context_of_now()
        name = certified_name(server_hostname or "") or None
        if ssl_context.check_hostname and not server_side and not name:
            # wrap_bio, other than wrap_socket, would check no name at all then.
            raise ConfigError("ssl.endpoint.identification.algorithm", "https",
                              "the connection was asked for without the host name that is to be checked")
        if not server_side and self._suspicion.take(connection_id):
            plaintext = PlaintextTransportLayer(sock)
            return KafkaChannel(connection_id, plaintext, PlaintextProbe(
                plaintext, server_hostname=name, on_asked=partial(self._suspicion.on_asked, connection_id)))
        transport = SslTransportLayer(
            sock, ssl_context, server_side=server_side, server_hostname=name,
            has_identity=self._has_identity, subject_of=self._subject_of,
            on_first_bytes=None if server_side else partial(self._suspicion.on_first_bytes, connection_id))
        return KafkaChannel(connection_id, transport, self._make_authenticator(transport, server_hostname or ""))


def certified_name(host: str) -> str:
    """Return what a certificate has of a host: no final dot, and no zone of an IPv6 address.

    Both are for who resolves the name: `kafka.example.org.` is not looked for in the search domains, and `fe80::1%eth0`
    says by which interface.
    """
    if ":" in host:
        return host.partition("%")[0]
    return host.removesuffix(".")
