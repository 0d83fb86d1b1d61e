"""What a peer speaks that does not speak Kafka, told from its first four bytes read as a frame's size.

Road:    NetworkReceive, SslTransportLayer -> [guess] -> the message of an error
Thread:  pure.
Source:  ours; RFC 8446 5.1 for the TLS record header, seen in the wild as "Invalid receive (size = 352518912)".
"""

from __future__ import annotations

_METHODS = frozenset({b"GET ", b"POST", b"PUT ", b"HEAD", b"OPTI", b"CONN", b"DELE", b"PATC", b"PRI "})
_TLS_RECORD_TYPES = frozenset({0x14, 0x15, 0x16, 0x17})


def speaks_tls(first_bytes: bytes) -> bool:
    """Whether the bytes begin a TLS record: its type, then major version 3."""
    return len(first_bytes) >= 2 and first_bytes[0] in _TLS_RECORD_TYPES and first_bytes[1] == 3


def guess_protocol(first_bytes: bytes) -> str | None:
    """Return `TLS`, `HTTP` or `SSH` when the first four bytes tell, else None."""
    first_bytes = bytes(first_bytes[:4])
    if speaks_tls(first_bytes):
        return "TLS"
    if first_bytes == b"HTTP" or first_bytes in _METHODS:
        return "HTTP"
    return "SSH" if first_bytes == b"SSH-" else None


def guess_sentence(size: int, peer: str) -> str:
    """Return a sentence about a size that is none, with a leading space, or nothing."""
    protocol = guess_protocol((size & 0xFFFFFFFF).to_bytes(4, "big"))
    return "" if protocol is None else f" The peer at {peer} seems to speak {protocol}, not the Kafka protocol."
