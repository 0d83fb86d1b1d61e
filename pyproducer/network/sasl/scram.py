"""SCRAM-SHA-256 and SCRAM-SHA-512, the client's half: the password proves itself and is never sent.

    client first  ->  server first: salt and iterations  ->  client final: proof  ->  server final: the broker's proof

Road:    StaticLogin -> [ScramSaslClient] -> client authenticator
Thread:  the one that polls the selector. The first proof takes milliseconds of it, those after it do not.
Source:  RFC 5802, RFC 7677; Java ScramSaslClient (4.1), and as there no SASLprep (RFC 4013) of the password; KIP-48 for
         delegation tokens. Ours: an upper bound of the iterations, because they are counted on the sender's thread.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable
from typing import TYPE_CHECKING

from pyproducer.common.errors import AuthenticationError
from pyproducer.common.printable import printable
from pyproducer.network.sasl.scram_formatter import (
    FORMATTERS,
    MIN_ITERATIONS,
    auth_message,
    sasl_name,
    secure_random_string,
)
from pyproducer.network.sasl.scram_messages import (
    ClientFinalMessage,
    ClientFirstMessage,
    ServerFinalMessage,
    ServerFirstMessage,
)

if TYPE_CHECKING:
    from pyproducer.network.sasl.password import PasswordCredentials

MOST_ITERATIONS = 1_000_000
"""What takes half a second. Kafka's brokers keep credentials of at most 16,384."""


class ScramSaslClient:
    """The client's half of SCRAM.

    Args:
        mechanism: SCRAM-SHA-256 or SCRAM-SHA-512.
        credentials: User name and password.
        make_nonce: Makes the client's nonce.
    """

    def __init__(self, mechanism: str, credentials: PasswordCredentials,
                 make_nonce: Callable[[], str] = secure_random_string) -> None:
        self.mechanism = mechanism
        self.complete: bool = False
        self._formatter = FORMATTERS[mechanism]
        self._credentials = credentials
        self._nonce = make_nonce()
        self._first: ClientFirstMessage | None = None
        self._server_first: ServerFirstMessage | None = None
        self._auth_message = b""

    def evaluate_challenge(self, challenge: bytes) -> bytes | None:
        """Return the next message, None at the end. See SaslClient."""
        if self._first is None:
            self._first = ClientFirstMessage(
                sasl_name(self._credentials.user_name), self._nonce,
                extensions={"tokenauth": "true"} if self._credentials.is_token else {})
            return self._first.to_bytes()
        if self._server_first is None:
            return self._prove(self._first, challenge)
        if self.complete:
            raise AuthenticationError(f"{self.mechanism}: the broker says something where nothing is left to say")
        self._verify(self._server_first, challenge)
        self.complete = True
        return None

    def _prove(self, first: ClientFirstMessage, challenge: bytes) -> bytes:
        server_first = self._server_first = ServerFirstMessage.parse(challenge)
        if not server_first.nonce.startswith(self._nonce) or server_first.nonce == self._nonce:
            raise AuthenticationError(f"{self.mechanism}: the broker's nonce does not continue ours: it answers "
                                      "somebody else")
        iterations = server_first.iterations
        if not MIN_ITERATIONS <= iterations <= MOST_ITERATIONS:
            raise AuthenticationError(
                f"{self.mechanism}: the broker's credentials have {iterations} iterations, and it must be from "
                f"{MIN_ITERATIONS} to {MOST_ITERATIONS}: make the user's credentials anew")
        without_proof = ClientFinalMessage(first.gs2_header.encode(), server_first.nonce)
        self._auth_message = auth_message(first.bare, str(server_first), without_proof.without_proof)
        return ClientFinalMessage(
            without_proof.channel_binding, server_first.nonce,
            self._formatter.client_proof(self._salted_password(server_first), self._auth_message)).to_bytes()

    def _verify(self, server_first: ServerFirstMessage, challenge: bytes) -> None:
        final = ServerFinalMessage.parse(challenge)
        if final.error:
            raise AuthenticationError(f"{self.mechanism}: the broker refuses: {printable(final.error)}; "
                                      f"{self.refusal_hint}")
        signature = self._formatter.server_signature(
            self._formatter.server_key(self._salted_password(server_first)), self._auth_message)
        if not hmac.compare_digest(signature, final.server_signature):
            raise AuthenticationError(f"{self.mechanism}: the broker did not prove that it knows the password: it is "
                                      "not the broker that it seems to be")

    def _salted_password(self, server_first: ServerFirstMessage) -> bytes:
        return self._credentials.salted_password(self._formatter, server_first.salt, server_first.iterations)

    @property
    def refusal_hint(self) -> str:
        """What to change when the broker refuses."""
        return (f"{self._credentials.refusal_hint}, and that the user has credentials for {self.mechanism} "
                "(sasl.mechanism)")
