"""Why a TLS handshake failed, in a sentence that names the peer, the reason and the setting to look at.

Road:    SslTransportLayer -> [TLS failure] -> ChannelState.error
Thread:  pure.
Source:  ours, over OpenSSL's reasons; Java SslTransportLayer.maybeThrowSslAuthenticationException (4.1) for which
         failures count as authentication.
"""

from __future__ import annotations

import ssl

from pyproducer.common.errors import AuthenticationError, DisconnectedError
from pyproducer.common.printable import LONGEST_NAME, printable
from pyproducer.network.peer_guess import guess_protocol

# OpenSSL's X509_V_ERR_* that a setting of ours can cure.
_VERIFY_HINTS = {
    10: "renew it, or check this machine's clock",
    18: "put it into ssl.truststore.location or ssl.truststore.certificates",
    19: "put the authority's certificate into ssl.truststore.location or ssl.truststore.certificates",
    20: "put the authority's certificate into ssl.truststore.location or ssl.truststore.certificates",
    62: "connect by a name that it shows, or set ssl.endpoint.identification.algorithm= (empty) to trust any name",
    64: "connect by a name that it shows, or set ssl.endpoint.identification.algorithm= (empty) to trust any name",
}
# Parts of OpenSSL's reason, which is the name of the alert that the peer sent, or of what we found.
_REASONS = (
    ("CERTIFICATE_REQUIRED", "the peer requires a certificate from us: set ssl.keystore.location or ssl.keystore.key"),
    ("PEER_DID_NOT_RETURN_A_CERTIFICATE", "the peer shows no certificate, and ssl.client.auth=required"),
    ("ALERT_UNKNOWN_CA", "the peer does not trust the authority that signed our certificate"),
    ("ALERT_BAD_CERTIFICATE", "the peer refuses our certificate, or requires one and got none"),
    ("ALERT_CERTIFICATE_EXPIRED", "the peer says that our certificate has expired"),
    ("ALERT_CERTIFICATE_REVOKED", "the peer says that our certificate is revoked"),
    ("ALERT_CERTIFICATE_UNKNOWN", "the peer does not accept our certificate"),
    ("ALERT_ACCESS_DENIED", "the peer denies us access"),
    ("ALERT_PROTOCOL_VERSION", "no TLS version in common with the peer: see ssl.enabled.protocols"),
    ("UNSUPPORTED_PROTOCOL", "no TLS version in common with the peer: see ssl.enabled.protocols"),
    ("NO_SHARED_CIPHER", "no cipher suite in common with the peer: see ssl.cipher.suites"),
    ("ALERT_HANDSHAKE_FAILURE", "the peer refuses: no cipher suite in common (ssl.cipher.suites), or it requires a "
                                "certificate from us (ssl.keystore.location)"),
    ("UNRECOGNIZED_NAME", "the peer does not know the host name that we asked for"),
    ("WRONG_VERSION_NUMBER", "the peer does not answer in TLS: its listener may be a plaintext one"),
    ("HTTP_REQUEST", "the peer sends plain HTTP"),
)


def _where(peer: str, server_hostname: str | None) -> str:
    if server_hostname is None or server_hostname in peer:
        return peer
    return f"{printable(server_hostname, LONGEST_NAME)} ({peer})"


def tls_failure(error: ssl.SSLError, *, peer: str, server_hostname: str | None) -> AuthenticationError:
    """Return the error for a failed handshake, or for a refusal that came after ours was done (TLS 1.3)."""
    where = _where(peer, server_hostname)
    if isinstance(error, ssl.SSLCertVerificationError):
        hint = _VERIFY_HINTS.get(error.verify_code)
        found = printable(error.verify_message.rstrip("."))  # it repeats the name that a broker told
        why = f"certificate verify failed: {found}" + (f" ({hint})" if hint else "")
    else:
        reason = error.reason or str(error)
        sentence = next((sentence for part, sentence in _REASONS if part in reason.upper()), None)
        why = reason if sentence is None else f"{sentence} ({reason})"
    return AuthenticationError(f"TLS handshake with {where} failed: {why}")


def not_tls(first_bytes: bytes, *, peer: str) -> AuthenticationError:
    """Return the error for a peer whose first bytes are no TLS record."""
    protocol = guess_protocol(first_bytes)
    speaks = "does not speak TLS" if protocol is None else f"seems to speak {protocol}, not TLS"
    return AuthenticationError(f"TLS handshake failed: the peer at {peer} {speaks}; it began with {first_bytes[:8]!r}")


def hung_up(*, peer: str, server_hostname: str | None, server_side: bool) -> DisconnectedError:
    """Return the error for a peer that closed the connection during the handshake."""
    hint = "" if server_side else ("; its listener may not speak TLS (security.protocol), or it requires a certificate "
                                   "from us (ssl.keystore.location)")
    return DisconnectedError(f"{_where(peer, server_hostname)} closed the connection during the TLS handshake{hint}")
