"""Who a certificate is of: names as Java writes them, and what a peer showed us although we do not trust it.

Road:    SslTransportLayer, TLS failures, doctor -> [certificates]
Thread:  pure.
Source:  RFC 2253, Java X500Principal.getName() for names: most specific part first, `CN=client,OU=team,O=org`; RFC 6125
         and HostnameChecker of Java, X509_check_host and X509_check_ip of OpenSSL for which names count: those of
         subjectAltName, and the common name where that has no host name. An address counts in subjectAltName alone.
"""

from __future__ import annotations

import ipaddress
import ssl
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from pyproducer.common.printable import LONGEST_NAME, printable

ssl.cert_time_to_seconds("Jan  1 00:00:00 1970 GMT")  # it loads two modules, and the sender thread loads none

_SHORT = {
    "commonName": "CN", "organizationalUnitName": "OU", "organizationName": "O", "localityName": "L",
    "stateOrProvinceName": "ST", "countryName": "C", "streetAddress": "STREET", "domainComponent": "DC",
    "userId": "UID",
}
_SPECIAL = frozenset(',+"\\<>;')


def distinguished_name(subject: Iterable[Iterable[tuple[str, str]]]) -> str:
    """Return the name of a subject as `ssl.SSLSocket.getpeercert` gives it."""
    parts = ["+".join(f"{_SHORT.get(key, key)}={_escape(value)}" for key, value in part) for part in subject]
    return ",".join(reversed(parts))


def _escape(value: str) -> str:
    text = "".join(f"\\{char}" if char in _SPECIAL else char for char in value)
    if text.startswith(("#", " ")):
        text = "\\" + text
    return text[:-1] + "\\ " if text.endswith(" ") and len(text) > 1 else text


class CertificateFacts(NamedTuple):
    """What can be said of a certificate. The names are the peer's: they may hold anything that is printable.

    Attributes:
        subject: Whose it is, as a distinguished name.
        issuer: Who signed it.
        not_before: From when on it counts, as OpenSSL writes it: `Nov 20 19:18:48 2026 GMT`; "" when it makes no sense.
        not_after: Until when.
        names: The host names and addresses that it is for.
    """

    subject: str
    issuer: str
    not_before: str
    not_after: str
    names: tuple[str, ...]

    @property
    def begins_at_s(self) -> int:
        """When it begins to count, in seconds since 1970."""
        return ssl.cert_time_to_seconds(self.not_before)

    @property
    def ends_at_s(self) -> int:
        """When it ends, in seconds since 1970."""
        return ssl.cert_time_to_seconds(self.not_after)


def certificate_facts(info: Mapping[str, Any]) -> CertificateFacts:
    """Return the facts of a certificate as `ssl.SSLSocket.getpeercert` and `SSLContext.get_ca_certs` give it."""
    names = [(kind, value) for kind, value in info.get("subjectAltName", ()) if kind in ("DNS", "IP Address")]
    if all(kind != "DNS" for kind, _ in names):
        names += [pair for part in info.get("subject", ()) for pair in part
                  if pair[0] == "commonName" and not _is_address(pair[1])]
    return CertificateFacts(
        _name_of(info, "subject"), _name_of(info, "issuer"), _time_of(info, "notBefore"), _time_of(info, "notAfter"),
        tuple(printable(str(value), LONGEST_NAME) for _, value in names))


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _name_of(info: Mapping[str, Any], key: str) -> str:
    return printable(distinguished_name(info.get(key, ())) or "(no name)", LONGEST_NAME)


def _time_of(info: Mapping[str, Any], key: str) -> str:
    text = str(info.get(key, ""))
    try:
        ssl.cert_time_to_seconds(text)
    except ValueError:  # the peer chooses what stands there
        return ""
    return text


def file_ends_at_s(path: str) -> int | None:
    """Return when the first certificate of a PEM file ends, in seconds since 1970; None where that cannot be known."""
    # Python has no public way to read a certificate that is no authority's; CPython's own tests use this one.
    decode = getattr(getattr(ssl, "_ssl", None), "_test_decode_cert", None)
    if decode is None:
        return None
    try:
        return certificate_facts(decode(path)).ends_at_s
    except (ssl.SSLError, ValueError):
        return None


def shown_chain(ssl_object: ssl.SSLObject) -> list[CertificateFacts]:
    """Return what the peer showed, its own certificate first, trusted or not; nothing where that cannot be known."""
    return _chain(ssl_object, "get_unverified_chain")


def trusted_path(ssl_object: ssl.SSLObject) -> list[CertificateFacts]:
    """Return by which certificates the peer is trusted, its own first; that alone where the rest cannot be known."""
    return _chain(ssl_object, "get_verified_chain") or shown_chain(ssl_object)[:1]


def _chain(ssl_object: ssl.SSLObject, name: str) -> list[CertificateFacts]:
    # The public methods, of Python 3.13, give bytes, which only other packages can read.
    get_chain = getattr(getattr(ssl_object, "_sslobj", None), name, None)
    chain: Sequence[Any] = (get_chain() or ()) if get_chain is not None else ()
    return [certificate_facts(one.get_info()) for one in chain]


def path_to_authority(chain: Sequence[CertificateFacts],
                      trusted: Sequence[CertificateFacts]) -> list[CertificateFacts]:
    """Return which certificates stand between a peer and an authority: what else it shows is of no concern.

    Args:
        chain: What the peer showed, its own certificate first; at least that.
        trusted: What we trust; the path ends where one of these is reached.

    Source: ours; as OpenSSL, an authority that is trusted goes before one of its name that is shown, and of two of one
        name the one that lasts longer is taken.
    """
    path = [chain[0]]
    while path[-1].issuer != path[-1].subject and path[-1] not in trusted:
        found = [one for one in trusted if one.subject == path[-1].issuer] or [
            one for one in chain if one.subject == path[-1].issuer]
        best = max(found, key=lambda one: one.ends_at_s if one.not_after else 0, default=None)
        if best is None or best in path:
            break
        path.append(best)
    return path
