"""Why TLS failed, in words that say what to change.

Road:    SslTransportLayer -> [TLS failures] -> AuthenticationError, DisconnectedError
Thread:  pure.
Source:  Java SslTransportLayer.maybeThrowSslAuthenticationException (4.1) for which failures count as authentication;
         x509_vfy.h and ssl_err.c of OpenSSL 3 for codes and reasons; RFC 8446 6.2 (alerts).
"""

from __future__ import annotations

import ssl
from collections.abc import Sequence

from pyproducer.common.errors import AuthenticationError, DisconnectedError
from pyproducer.common.printable import LONGEST_NAME, printable
from pyproducer.network.certificates import CertificateFacts, path_to_authority
from pyproducer.network.receive import guess_protocol

# OpenSSL's X509_V_ERR_*.
_NOT_YET_VALID, _EXPIRED = 9, 10
_WRONG_NAME = (62, 64)  # host name, IP address
UNKNOWN_AUTHORITY = (2, 18, 19, 20, 21)
# Those that a setting of ours can cure.
VERIFY_HINTS = {
    9: "check this machine's clock",
    10: "renew it, or check this machine's clock",
    18: "put it into ssl.truststore.location or ssl.truststore.certificates",
    19: "put the authority's certificate into ssl.truststore.location or ssl.truststore.certificates",
    20: "put the authority's certificate into ssl.truststore.location or ssl.truststore.certificates",
    21: "put the authority's certificate into ssl.truststore.location or ssl.truststore.certificates",
    62: "connect by a name that it shows, or set ssl.endpoint.identification.algorithm= (empty) to trust any name",
    64: "it needs this address in subjectAltName; connect by a name that it shows, or set "
        "ssl.endpoint.identification.algorithm= (empty) to trust any name",
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


# What these alerts mean depends on whether there was a certificate of ours to refuse.
_REQUIRES = "the peer requires a certificate from us: set ssl.keystore.location or ssl.keystore.key"
_REASONS_BY_IDENTITY: dict[bool | None, tuple[tuple[str, str], ...]] = {
    False: (("ALERT_BAD_CERTIFICATE", _REQUIRES),),
    True: (("ALERT_BAD_CERTIFICATE", "the peer refuses our certificate"),
           ("ALERT_HANDSHAKE_FAILURE", "the peer refuses: no cipher suite in common (ssl.cipher.suites), or our "
                                       "certificate is none that it takes (ssl.keystore.location)")),
}


def _where(peer: str, server_hostname: str | None) -> str:
    if server_hostname is None or server_hostname in peer:
        return peer
    return f"{printable(server_hostname, LONGEST_NAME)} ({peer})"


def tls_failure(error: ssl.SSLError, *, peer: str, server_hostname: str | None,
                chain: Sequence[CertificateFacts] = (), trusted: Sequence[CertificateFacts] = (),
                has_identity: bool | None = None) -> AuthenticationError:
    """Return the error for a failed handshake, or for a refusal that came after ours was done (TLS 1.3).

    Args:
        error: What OpenSSL says.
        peer: Its address.
        server_hostname: The name that we wanted; None on the broker's side.
        chain: The certificates that the peer showed, its own first.
        trusted: Those that we trust.
        has_identity: Whether we have a certificate to show; None when that is not known.
    """
    where = _where(peer, server_hostname)
    if isinstance(error, ssl.SSLCertVerificationError):
        hint = VERIFY_HINTS.get(error.verify_code)
        found = printable(error.verify_message.rstrip("."))  # it repeats the name that a broker told
        facts = _verification_facts(error.verify_code, chain, trusted)
        why = f"certificate verify failed: {found}" + (f": {facts}" if facts else "") + (f" ({hint})" if hint else "")
    else:
        reason = error.reason or str(error)
        sentence = next((sentence for part, sentence in (*_REASONS_BY_IDENTITY.get(has_identity, ()), *_REASONS)
                         if part in reason.upper()), None)
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


_MOST_NAMES = 10


def _verification_facts(code: int, chain: Sequence[CertificateFacts], trusted: Sequence[CertificateFacts]) -> str:
    """Return which certificate is meant and what it has, or nothing where that is not known."""
    if not chain:
        return ""
    own = chain[0]
    if code in (_NOT_YET_VALID, _EXPIRED):
        # OpenSSL does not say which it is. It may be the authority's that we trust: the peer shows it not.
        dated = [one for one in path_to_authority(chain, trusted) if one.not_before and one.not_after]
        if not dated:
            return ""
        if code == _EXPIRED:
            oldest = min(dated, key=lambda one: one.ends_at_s)
            return f"that of {oldest.subject} has been so since {oldest.not_after}"
        newest = max(dated, key=lambda one: one.begins_at_s)
        return f"that of {newest.subject} counts from {newest.not_before} on"
    if code in _WRONG_NAME:
        names = ", ".join(own.names[:_MOST_NAMES]) + (", ..." if len(own.names) > _MOST_NAMES else "")
        return f"that of {own.subject} is for {names or 'no host at all'}"
    if code in UNKNOWN_AUTHORITY:
        last = chain[-1]
        return f"{own.subject} is signed by {own.issuer}" + (
            f", and that in the end by {last.issuer}" if last.issuer != own.issuer else "")
    return f"it is that of {own.subject}"
