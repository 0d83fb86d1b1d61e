"""The subject of a certificate as the text that Kafka uses for a principal.

Road:    SslTransportLayer.principal_name -> [distinguished name] -> KafkaChannel.principal_name
Thread:  pure.
Source:  RFC 2253, Java X500Principal.getName(): most specific part first, `CN=client,OU=team,O=org`.
"""

from __future__ import annotations

from collections.abc import Iterable

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
