"""Why a conversation with a broker failed, in words that name the phase and the likely cause.

    login, DNS -> connect -> TLS / authentication -> version negotiation -> first metadata -> requests

Road:    Connections (a connection ended) -> [failure] -> ProducerMetadata.last_errors -> the caller's timeout message
Thread:  pure.
Source:  ours; the hints follow the threads in which users of other clients asked what "no brokers available" means.
         Java NetworkClient.processDisconnection (4.1) logs a sentence per case; here the caller gets it.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from pyproducer.client.connection_states import ConnectionState, NodeConnectionState
from pyproducer.common.cluster import address_text
from pyproducer.common.errors import (
    AuthenticationError,
    DisconnectedError,
    InvalidReceiveError,
    KafkaError,
    TransportError,
)
from pyproducer.network.channel import ChannelPhase
from pyproducer.protocol.apis import ApiKeys

if TYPE_CHECKING:
    from pyproducer.client.request import ClientRequest
    from pyproducer.client.resolver import ResolvedAddress

DNS = "DNS"
CONNECT = "connect"
TLS = "TLS"
LOGIN = "login"
AUTHENTICATION = "authentication"
VERSION_NEGOTIATION = "version negotiation"
METADATA = "metadata"
REQUEST = "request"

_SPEAKS = re.compile(r"seems to speak (\w+)")  # network/receive.py
_FOREIGN_HINTS = {
    "TLS": "set security.protocol to SSL or SASL_SSL, or use the port of the plaintext listener",
    "HTTP": "it is a web server or a proxy",
}
_CONNECT_HINTS = {
    errno.ECONNREFUSED: "nothing listens there: wrong port, or the broker is not running",
    errno.EHOSTUNREACH: "no route to that host",
    errno.ENETUNREACH: "no route to that network",
    errno.ETIMEDOUT: "no answer: a firewall may drop the packets",
    errno.EMFILE: "this process has too many open files",
}


class Failure(NamedTuple):
    """Why it failed: the phase, a sentence, and the exception to hand on."""

    phase: str
    text: str
    error: KafkaError

    @property
    def summary(self) -> str:
        """Return the one line for `last_errors`."""
        return f"{self.phase}: {self.text}"


def _failure(phase: str, where: str, text: str, cause: BaseException | None, *,
             authentication_failed: bool = False) -> Failure:
    sentence = f"{where}: {phase}: {text}"
    error: KafkaError
    if authentication_failed or isinstance(cause, AuthenticationError):
        error = AuthenticationError(sentence)
    elif isinstance(cause, KafkaError) and not isinstance(cause, TransportError):
        return Failure(phase, text, cause)  # Bytes that made no sense: the exception says more than "disconnected".
    else:
        error = DisconnectedError(sentence)
    error.__cause__ = cause
    return Failure(phase, text, error)


def dns_failure(where: str, cause: OSError | None, *, waited_ms: int | None = None) -> Failure:
    """The host name did not resolve, or not within the setup timeout."""
    if cause is None:
        text = (f"the host name was not resolved within {waited_ms} ms (socket.connection.setup.timeout.ms); the name "
                "servers of this machine are slow or do not answer")
    else:
        text = f"the host name does not resolve ({cause.strerror or cause})"
    failure = _failure(DNS, where, text, cause)
    failure.error.outcome = "not_sent"
    return failure


def connect_failure(where: str, address: ResolvedAddress | None, cause: BaseException | None, *,
                    waited_ms: int | None = None) -> Failure:
    """TCP could not be connected: refused, unreachable, or no answer within the setup timeout."""
    at = "" if address is None or address.address[0] in where else f" at {address.address[0]}"
    if waited_ms is not None:
        text = f"no connection{at} within {waited_ms} ms (socket.connection.setup.timeout.ms)"
    elif isinstance(cause, OSError) and cause.errno is not None:
        hint = _CONNECT_HINTS.get(cause.errno)
        text = f"{cause.strerror}{at}" + (f" ({hint})" if hint else "")
    else:
        text = f"could not be connected{at}" + (f": {cause}" if cause else "")
    failure = _failure(CONNECT, where, text, cause)
    failure.error.outcome = "not_sent"
    return failure


ADVERTISED = ("; the broker itself told this name, in its advertised.listeners: there, or in its certificate, is what "
              "to change")
_WRONG_NAME = (62, 64)  # X509_V_ERR_HOSTNAME_MISMATCH, X509_V_ERR_IP_ADDRESS_MISMATCH


def _is_wrong_name(cause: BaseException | None) -> bool:
    for error in _causes(cause):
        # An ssl.SSLCertVerificationError; without TLS nobody has loaded ssl, and its errors cannot come.
        code = getattr(error, "verify_code", None)
        if code is not None:
            return code in _WRONG_NAME
    return False


def authentication_failure(where: str, cause: BaseException | None, *, refused: bool = False,
                           waited_ms: int | None = None, is_advertised: bool = False,
                           is_renewal: bool = False) -> Failure:
    """TCP is there, but TLS or SASL did not come to an end.

    Args:
        where: Which broker.
        cause: What the network layer says.
        refused: One end said no to the other.
        waited_ms: The timeout that passed, when that is why it was ended.
        is_advertised: A broker told the name; else it is one of bootstrap.servers.
        is_renewal: The connection was in use, and its session was being renewed (KIP-368).
    """
    phase = TLS if _is_tls(cause) else AUTHENTICATION
    advertised = ADVERTISED if is_advertised and _is_wrong_name(cause) else ""
    if is_renewal and (waited_ms is not None or _is_hang_up(cause)):
        text = ("its session was being renewed (connections.max.reauth.ms of the broker), and " + (
            f"no end of that came within {waited_ms} ms (socket.connection.setup.timeout.ms)" if waited_ms is not None
            else "the broker closed the connection: the session may have ended before the broker came to the new login")
                + (f" ({cause})" if cause else ""))
    elif waited_ms is not None:
        text = (f"no end of the TLS handshake or authentication within {waited_ms} ms "
                "(socket.connection.setup.timeout.ms); the listener may not speak the configured security.protocol")
    elif _is_hang_up(cause):
        text = ("the peer closed the connection during the TLS handshake or authentication; the listener may not speak "
                "the configured security.protocol" + (f" ({cause})" if cause else ""))
    else:
        text = foreign_peer(cause) or str(cause) + advertised
    return _failure(phase, where, text, cause, authentication_failed=refused)


def _is_hang_up(cause: BaseException | None) -> bool:
    return cause is None or (isinstance(cause, (DisconnectedError, ConnectionError, EOFError))
                             and not isinstance(cause, AuthenticationError))


def _is_tls(cause: BaseException | None) -> bool:
    return any(_is_of_ssl(error) or "TLS handshake" in str(error) for error in _causes(cause))


def _is_of_ssl(error: BaseException) -> bool:
    """Whether it is an ssl.SSLError, asked without the module: who speaks no TLS does not load it."""
    return any(cls.__name__ == "SSLError" and cls.__module__ == "ssl" for cls in type(error).__mro__)


def _causes(cause: BaseException | None) -> Iterator[BaseException]:
    """Yield an error and its causes, each once: what an application's token function raises may lead in a circle."""
    seen: set[int] = set()
    while cause is not None and id(cause) not in seen:
        seen.add(id(cause))
        yield cause
        cause = cause.__cause__


def foreign_peer(cause: BaseException | None) -> str | None:
    """Return what the peer speaks instead of Kafka, when the network layer recognised its first bytes."""
    if not isinstance(cause, InvalidReceiveError):
        return None
    found = _SPEAKS.search(str(cause))
    if found is None:
        return None
    return f"the peer speaks {found.group(1)}, not Kafka: {_FOREIGN_HINTS.get(found.group(1), 'wrong port')}"


def speaks_tls_to_us(cause: BaseException | None) -> bool:
    """Whether the peer's first bytes were TLS, where we spoke plaintext."""
    found = _SPEAKS.search(str(cause)) if isinstance(cause, InvalidReceiveError) else None
    return found is not None and found.group(1) == "TLS"


def early_end(where: str, cause: BaseException | None) -> Failure:
    """The connection was accepted and ended before anything was said."""
    text = foreign_peer(cause) or ("the peer accepted the connection and closed it at once; it may be a proxy or load "
                                   "balancer without a broker behind it")
    return _failure(VERSION_NEGOTIATION, where, text, cause, authentication_failed=speaks_tls_to_us(cause))


def negotiation_failure(where: str, cause: BaseException | None, *, waited_ms: int | None = None) -> Failure:
    """The connection ended while ApiVersions, the first request, was unanswered."""
    text = foreign_peer(cause)
    if text is None and waited_ms is not None:
        text = (f"no answer to ApiVersions, the first request, within {waited_ms} ms; the listener may expect TLS, or "
                "the peer is not a Kafka broker")
    elif text is None and _is_plain_end(cause):
        text = ("the peer closed the connection right after the first request (ApiVersions); the listener may expect "
                "TLS or SASL (security.protocol), or the peer is a proxy or not a Kafka broker")
    elif text is None:
        text = str(cause)
    # A listener with TLS says so in its first bytes; asking again without does not change that.
    return _failure(VERSION_NEGOTIATION, where, text, cause, authentication_failed=speaks_tls_to_us(cause))


def request_failure(where: str, cause: BaseException | None, *, in_flight: str, first_metadata: bool,
                    waited_ms: int | None = None, session_ended: bool = False) -> Failure:
    """A connection that was ready ended."""
    what = f"; in flight: {in_flight}" if in_flight else ""
    if waited_ms is not None:
        limit = ("until request.timeout.ms after its session had ended, connections.max.reauth.ms of the broker"
                 if session_ended else "request.timeout.ms")
        return _failure(REQUEST, where, f"no answer within {waited_ms} ms ({limit}){what}", cause)
    foreign = foreign_peer(cause)
    if foreign is not None:
        return _failure(REQUEST, where, foreign + what, cause)
    if first_metadata and _is_plain_end(cause):
        return _failure(METADATA, where, "the peer closed the connection when it was asked for metadata; the listener "
                        "may require SASL (security.protocol)", cause)
    text = "the peer closed the connection" if cause is None else f"the connection ended: {cause}"
    if session_ended and _is_plain_end(cause):
        text += "; its session had ended (connections.max.reauth.ms of the broker), behind requests that took long"
    return _failure(REQUEST, where, text + what, cause)


def _is_plain_end(cause: BaseException | None) -> bool:
    """Whether the connection just ended, without bytes that make no sense."""
    return cause is None or isinstance(cause, (DisconnectedError, OSError, EOFError))


def explain_end(connection: NodeConnectionState, *, in_flight: Sequence[ClientRequest], now_ms: int,
                cause: BaseException | None, phase: ChannelPhase | None = None,
                waited_ms: int | None = None) -> Failure:
    """Return why a connection ended.

    Args:
        connection: Its state before the end.
        in_flight: The requests that were not answered.
        now_ms: When it ended.
        phase: How far the selector saw it come; None when we ended the connection.
        cause: The selector's or our exception.
        waited_ms: The timeout that passed, when that is why we ended it.
    """
    where = address_text(connection.node.host, connection.node.port)
    if connection.is_resolving and waited_ms is not None:
        return dns_failure(where, None, waited_ms=waited_ms)
    if phase is ChannelPhase.NOT_CONNECTED or connection.state is ConnectionState.CONNECTING:
        return connect_failure(where, connection.current_address, cause, waited_ms=waited_ms)
    if connection.state is ConnectionState.REAUTHENTICATING:
        return authentication_failure(where, cause, refused=phase is ChannelPhase.AUTHENTICATION_FAILED,
                                      waited_ms=waited_ms, is_renewal=True)
    if phase in (ChannelPhase.AUTHENTICATING, ChannelPhase.AUTHENTICATION_FAILED):
        return authentication_failure(where, cause, refused=phase is ChannelPhase.AUTHENTICATION_FAILED,
                                      is_advertised=connection.node.node_id >= 0)
    if isinstance(cause, AuthenticationError):
        return authentication_failure(where, cause, waited_ms=waited_ms)
    if connection.state is ConnectionState.CHECKING_API_VERSIONS:
        if phase is ChannelPhase.READY and not connection.versions_requested:
            return early_end(where, cause)
        if not connection.versions_requested:
            return authentication_failure(where, cause, waited_ms=waited_ms)
        return negotiation_failure(where, cause, waited_ms=waited_ms)
    first_metadata = not connection.answered and any(
        request.internal and request.api_key is ApiKeys.METADATA for request in in_flight)
    return request_failure(where, cause, in_flight=", ".join(request.describe(now_ms) for request in in_flight),
                           first_metadata=first_metadata, waited_ms=waited_ms,
                           session_ended=now_ms >= connection.session_ends_ms)
