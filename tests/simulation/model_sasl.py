"""How a listener of the model authenticates who connects, and for how long it believes him: PLAIN, and KIP-368.

    ApiVersions -> SaslHandshake -> SaslAuthenticate -> anything, until the session ends
                        ^                                  |
                        +----------------------------------+  at any time, but not within a second of the last time

Thread:  whoever steps the model.
Source:  Kafka's SaslServerAuthenticator, KafkaChannel.maybeBeginServerReauthentication and Processor (4.1); KIP-152,
         KIP-368. A request on a session that has ended closes the connection, and is not applied.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pyproducer.protocol.apis import ApiKeys
from tests.simulation.model_batch import bug

SASL_AUTHENTICATION_FAILED = 58

MECHANISMS = ("PLAIN", "SCRAM-SHA-256")  # what a listener offers who has given none
_MECHANISM = "PLAIN"
_LEAST_MS_BETWEEN_PROOFS = 1_000
# From here on the ids of what authenticates; those of other requests begin at 0.
_FIRST_CORRELATION_ID = 2**31 - 1 - 7


@dataclass(frozen=True)
class ModelListener:
    """Who may come in.

    Attributes:
        user, password: The one there is.
        session_lifetime_ms: For how long a proof is taken; 0 for ever.
    """

    user: str = "alice"
    password: str = "simulated"
    session_lifetime_ms: int = 0


class _State(enum.Enum):
    VERSIONS = "ApiVersions"
    HANDSHAKE = "SaslHandshake"
    PROOF = "SaslAuthenticate"
    OPEN = "anything"


class ModelSession:
    """What a listener knows of one connection.

    Args:
        listener: Who may come in.
    """

    def __init__(self, listener: ModelListener) -> None:
        self._listener = listener
        self._state = _State.VERSIONS
        self._ends_ms: int | None = None
        self._proved_ms: int | None = None

    def takes(self, api_key: ApiKeys, correlation_id: int) -> bool:
        """Whether a request is one of those that authenticate.

        Raises:
            ClientBug: It must not come now.
        """
        is_sasl = api_key in (ApiKeys.SASL_HANDSHAKE, ApiKeys.SASL_AUTHENTICATE)
        if self._state is _State.OPEN:
            if api_key is ApiKeys.SASL_AUTHENTICATE:
                bug("SaslAuthenticate comes without a SaslHandshake before it")
            if not is_sasl:
                return False
        elif api_key.title != self._state.value:
            bug(f"{api_key.title} comes where {self._state.value} must")
        if correlation_id < _FIRST_CORRELATION_ID:
            bug(f"{api_key.title}, which authenticates, has the correlation id {correlation_id}")
        return True

    def has_ended(self, now_ms: int) -> bool:
        """Whether the proof is too old for anything but a new one."""
        return self._ends_ms is not None and now_ms > self._ends_ms

    def on_api_versions(self) -> None:
        """The connection's first request was answered."""
        self._state = _State.HANDSHAKE

    def on_handshake(self, mechanism: str, now_ms: int) -> Mapping[str, Any]:
        """Answer SaslHandshake."""
        if mechanism != _MECHANISM:
            bug(f"SaslHandshake names {mechanism!r}")
        if self._proved_ms is not None and now_ms - self._proved_ms < _LEAST_MS_BETWEEN_PROOFS:
            bug(f"the proof is given again after {now_ms - self._proved_ms} ms")
        self._state = _State.PROOF
        return {"error_code": 0, "mechanisms": [_MECHANISM]}

    def on_proof(self, proof: bytes, refusal: int, now_ms: int) -> Mapping[str, Any]:
        """Answer SaslAuthenticate; a refusal is the last word on a connection."""
        listener = self._listener
        if proof != f"\0{listener.user}\0{listener.password}".encode():
            bug(f"SaslAuthenticate brings {proof!r}")
        if refusal:
            self._state = _State.VERSIONS
            return {"error_code": refusal, "error_message": "simulated", "auth_bytes": b"", "session_lifetime_ms": 0}
        self._state = _State.OPEN
        self._proved_ms = now_ms
        lifetime_ms = listener.session_lifetime_ms
        if lifetime_ms:
            self._ends_ms = now_ms + lifetime_ms
        return {"error_code": 0, "error_message": None, "auth_bytes": b"", "session_lifetime_ms": lifetime_ms}
