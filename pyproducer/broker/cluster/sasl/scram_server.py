"""The broker's half of SCRAM: who logs in knows the password, and the broker knows it had it once; none is sent.

Road:    server authenticator -> [scram server] -> scram messages, scram formatter; the cluster's credentials
Thread:  the thread that polls the selector; a few hashes, no PBKDF2, which was done when the user was made.
Source:  RFC 5802 3 and 5; Java ScramSaslServer, ScramServerCallbackHandler (4.1). Differs from Java: the channel
         binding of the last message must be the header of the first, as the RFC says. There are no delegation tokens.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from pyproducer.broker.cluster.sasl.sasl_server import SaslError
from pyproducer.broker.cluster.sasl.scram_credential import ScramCredential, is_client_proof
from pyproducer.common.errors import AuthenticationError
from pyproducer.network.sasl.scram_formatter import (
    FORMATTERS,
    MIN_ITERATIONS,
    ScramMechanism,
    auth_message,
    secure_random_string,
    user_name,
)
from pyproducer.network.sasl.scram_messages import (
    ClientFinalMessage,
    ClientFirstMessage,
    ServerFinalMessage,
    ServerFirstMessage,
)

_Message = TypeVar("_Message")


class ScramSaslServer:
    """One authentication; see SaslServer.

    Args:
        mechanism: Which of the two.
        credential_of: Returns what is kept of a user's password; None where there is no such user.
        new_nonce: Makes the server's part of the nonce.
    """

    def __init__(self, mechanism: ScramMechanism, credential_of: Callable[[str], ScramCredential | None],
                 new_nonce: Callable[[], str] = secure_random_string) -> None:
        self.mechanism: str = mechanism.value
        self.complete: bool = False
        self.authorization_id: str = ""
        self.expires_at_ms: int | None = None
        self._formatter = FORMATTERS[mechanism.value]
        self._credential_of = credential_of
        self._new_nonce = new_nonce
        self._asked: tuple[str, ClientFirstMessage, ServerFirstMessage, ScramCredential] | None = None

    def evaluate_response(self, response: bytes) -> bytes:
        """Answer the first message with the salt, the last one with the server's signature.

        Raises:
            AuthenticationError: It asks for another identity than the user's.
            SaslError: It is no such message, there is no such user, or the proof is wrong.
        """
        if self.complete:
            raise SaslError("The authentication is complete")
        try:
            return self._on_first(response) if self._asked is None else self._on_final(response, *self._asked)
        except ValueError as error:
            raise SaslError(str(error)) from error

    def _on_first(self, response: bytes) -> bytes:
        first = _parsed(ClientFirstMessage.parse, response)
        user = user_name(first.sasl_name)
        credential = self._credential_of(user)
        if credential is None or "tokenauth" in first.extensions:
            raise SaslError("Authentication failed: Invalid user credentials")
        if first.authorization_id and user_name(first.authorization_id) != user:
            raise AuthenticationError(
                "Authentication failed: Client requested an authorization id that is different from username")
        if credential.iterations < MIN_ITERATIONS:
            raise SaslError(f"Iterations {credential.iterations} is less than the minimum {MIN_ITERATIONS} for "
                            f"{self.mechanism}")
        asked = ServerFirstMessage(first.nonce + self._new_nonce(), credential.salt, credential.iterations)
        self._asked = user, first, asked, credential
        return asked.to_bytes()

    def _on_final(self, response: bytes, user: str, first: ClientFirstMessage, asked: ServerFirstMessage,
                  credential: ScramCredential) -> bytes:
        final = _parsed(ClientFinalMessage.parse, response)
        if final.nonce != asked.nonce:
            raise SaslError("Invalid client nonce in the final client message.")
        if final.channel_binding != first.gs2_header.encode():
            raise SaslError("Invalid channel binding in the final client message.")
        signed = auth_message(first.bare, str(asked), final.without_proof)
        if not is_client_proof(self._formatter, final.proof, credential.stored_key, signed):
            raise SaslError("Invalid client credentials")
        self._asked = None
        self.authorization_id = user
        self.complete = True
        return ServerFinalMessage(self._formatter.server_signature(credential.server_key, signed)).to_bytes()


def _parsed(parse: Callable[[bytes], _Message], response: bytes) -> _Message:
    try:
        return parse(response)
    except AuthenticationError as error:
        raise SaslError(str(error)) from error
