"""`ssl.cipher.suites`: the JVM's (IANA's) names, and OpenSSL's.

    TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256  ->  ECDHE-RSA-AES128-GCM-SHA256   TLS 1.2: for SSLContext.set_ciphers
    TLS_AES_128_GCM_SHA256                 ->  the same                      TLS 1.3: all or none, see choose_ciphers

Road:    build_client_ssl_context -> [cipher suites]
Thread:  pure.
Source:  IANA TLS parameters; openssl-ciphers(1), "CIPHER SUITE NAMES".
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

TLS_1_3_SUITES = frozenset({
    "TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256", "TLS_AES_128_CCM_SHA256",
    "TLS_AES_128_CCM_8_SHA256"})
_JVM_NAME = re.compile(
    r"(?:TLS|SSL)_(?P<exchange>[A-Z_0-9]+?)_WITH_"
    r"(?:(?P<block>AES|CAMELLIA|ARIA)_(?P<bits>128|256)_(?P<mode>GCM|CBC|CCM_8|CCM)|(?P<stream>CHACHA20_POLY1305))"
    r"(?:_(?P<digest>SHA(?:256|384)?))?")


class CipherChoice(NamedTuple):
    """What a list of suites means to OpenSSL."""

    tls_1_2: str  # for SSLContext.set_ciphers; "" when no suite of TLS 1.2 is allowed
    allows_tls_1_3: bool


def openssl_name(name: str) -> str:
    """Return OpenSSL's name of a suite of TLS 1.2; a name that is not the JVM's is returned as it is."""
    match = _JVM_NAME.fullmatch(name)
    if match is None:
        return name
    exchange = match["exchange"].replace("_", "-")
    parts = [] if exchange == "RSA" else [exchange]
    if match["stream"]:
        parts += ["CHACHA20", "POLY1305"]
    else:
        mode = (match["mode"] or "").replace("CCM_8", "CCM8")
        parts.append(f"{match['block']}{match['bits']}")
        if mode != "CBC":
            parts.append(mode)
        if match["digest"] and not mode.startswith("CCM"):
            parts.append(match["digest"])
    return "-".join(parts)


def choose_ciphers(suites: Sequence[str]) -> CipherChoice:
    """Split a list into what OpenSSL is told for TLS 1.2, and whether TLS 1.3 may be spoken at all.

    Python cannot choose among the suites of TLS 1.3: naming one allows OpenSSL's three, which are all sound. Naming
    none forbids TLS 1.3, as it does in Java.
    """
    names = [suite.strip() for suite in suites if suite.strip()]
    return CipherChoice(":".join(openssl_name(name) for name in names if name not in TLS_1_3_SUITES),
                        any(name in TLS_1_3_SUITES for name in names))
