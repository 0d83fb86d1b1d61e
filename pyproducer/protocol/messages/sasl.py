"""SaslHandshake (key 17), SaslAuthenticate (36): proving who we are.

SaslHandshake is never flexible. session_lifetime_ms above 0 asks for re-authentication in time (KIP-368).

Road:    protocol/apis.py -> [messages] -> Schema
Thread:  constants.
Source:  Apache Kafka common/message/*.json (4.3).
"""

from __future__ import annotations

from pyproducer.protocol.message import array, f, message
from pyproducer.protocol.types import BYTES, INT16, INT64, STRING

SASL_HANDSHAKE_REQUEST = message(
    "SaslHandshakeRequest",
    f("mechanism", STRING),
)

SASL_HANDSHAKE_RESPONSE = message(
    "SaslHandshakeResponse",
    f("error_code", INT16),
    array("mechanisms", STRING),
)

SASL_AUTHENTICATE_REQUEST = message(
    "SaslAuthenticateRequest",
    f("auth_bytes", BYTES),
)

SASL_AUTHENTICATE_RESPONSE = message(
    "SaslAuthenticateResponse",
    f("error_code", INT16),
    f("error_message", STRING, nullable="0+"),
    f("auth_bytes", BYTES),
    f("session_lifetime_ms", INT64, "1+", default=0, ignorable=True),
)
