"""What is kept of a password for SCRAM, and who proves that he knows it.

Road:    AlterUserScramCredentials, EmbeddedBroker -> [scram credential] -> scram credentials; scram server
Thread:  pure; what makes one of a password takes about 2 ms of CPU, and lets other threads run meanwhile.
Source:  RFC 5802 3; Java ScramCredential, ScramFormatter, ScramMechanism.type (4.1).
"""

from __future__ import annotations

import hmac
from typing import NamedTuple

from pyproducer.network.sasl.scram_formatter import (
    MIN_ITERATIONS,
    ScramFormatter,
    ScramMechanism,
    secure_random_string,
    xor,
)

MAX_ITERATIONS = 16384
"""Credentials with more are refused where a user is made."""
TYPE_CODES = {ScramMechanism.SCRAM_SHA_256: 1, ScramMechanism.SCRAM_SHA_512: 2}
"""What the messages about users call a mechanism."""
MECHANISMS = {code: mechanism for mechanism, code in TYPE_CODES.items()}
"""The other way round."""


class ScramCredential(NamedTuple):
    """What a broker keeps of a password: enough to know who has it, not enough to log in with."""

    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int

    def __repr__(self) -> str:
        return f"ScramCredential(iterations={self.iterations})"


def credential_of(formatter: ScramFormatter, salted_password: bytes, salt: bytes, iterations: int) -> ScramCredential:
    """Return what a broker keeps of a SaltedPassword."""
    return ScramCredential(salt, formatter.stored_key(formatter.client_key(salted_password)),
                           formatter.server_key(salted_password), iterations)


def generate_credential(formatter: ScramFormatter, password: str, iterations: int = MIN_ITERATIONS) -> ScramCredential:
    """Return what a broker keeps of a password, with a new salt."""
    salt = secure_random_string().encode()
    return credential_of(formatter, formatter.salted_password(password, salt, iterations), salt, iterations)


def is_client_proof(formatter: ScramFormatter, proof: bytes, stored_key: bytes, auth_message: bytes) -> bool:
    """Whether a ClientProof could only be made by who knows the password."""
    signature = formatter.client_signature(stored_key, auth_message)
    return len(proof) == len(signature) and hmac.compare_digest(formatter.hash(xor(proof, signature)), stored_key)
