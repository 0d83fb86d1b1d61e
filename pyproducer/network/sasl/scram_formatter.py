"""The arithmetic of SCRAM: keys from a password, proofs and signatures from keys, and names as messages write them.

    SaltedPassword  = Hi(password, salt, i)            PBKDF2
    ClientKey       = HMAC(SaltedPassword, "Client Key")      StoredKey = H(ClientKey)
    ServerKey       = HMAC(SaltedPassword, "Server Key")
    AuthMessage     = client-first-bare "," server-first "," client-final-without-proof
    ClientProof     = ClientKey XOR HMAC(StoredKey, AuthMessage)
    ServerSignature = HMAC(ServerKey, AuthMessage)

Road:    scram client; scram server, scram credential -> [scram formatter] -> hashlib, hmac
Thread:  pure. Hi of 4096 rounds takes about 2 ms of CPU, and lets other threads run meanwhile.
Source:  RFC 5802 3, RFC 7677; Java ScramFormatter, ScramMechanism (4.1). A password is not prepared by SASLprep, as in
         Java: its UTF-8 bytes count.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Mapping
from enum import Enum

MIN_ITERATIONS = 4096
"""Of both mechanisms: credentials with fewer are refused; and what they are made with where nobody says."""
# Java has 130 bits; in hexadecimal it is 136, and all of its characters are allowed in a nonce.
_NONCE_BYTES = 17


class ScramMechanism(Enum):
    """A SCRAM mechanism; its value is its name, as SaslHandshake has it."""

    SCRAM_SHA_256 = "SCRAM-SHA-256"
    SCRAM_SHA_512 = "SCRAM-SHA-512"

    @property
    def hash_name(self) -> str:
        """What hashlib calls its hash."""
        return _HASH_NAMES[self]


_HASH_NAMES = {ScramMechanism.SCRAM_SHA_256: "sha256", ScramMechanism.SCRAM_SHA_512: "sha512"}


class ScramFormatter:
    """The functions of one mechanism.

    Attributes:
        mechanism: Which.
    """

    def __init__(self, mechanism: ScramMechanism) -> None:
        self.mechanism = mechanism

    def hmac(self, key: bytes, data: bytes) -> bytes:
        """Return HMAC(key, data)."""
        return hmac.digest(key, data, self.mechanism.hash_name)

    def hash(self, data: bytes) -> bytes:
        """Return H(data)."""
        return hashlib.new(self.mechanism.hash_name, data).digest()

    def hi(self, password: bytes, salt: bytes, iterations: int) -> bytes:
        """Return Hi(password, salt, i), which is PBKDF2 with one block.

        Raises:
            ValueError: There are no iterations.
        """
        return hashlib.pbkdf2_hmac(self.mechanism.hash_name, password, salt, iterations)

    def salted_password(self, password: str, salt: bytes, iterations: int) -> bytes:
        """Return SaltedPassword."""
        return self.hi(password.encode(), salt, iterations)

    def client_key(self, salted_password: bytes) -> bytes:
        """Return ClientKey."""
        return self.hmac(salted_password, b"Client Key")

    def stored_key(self, client_key: bytes) -> bytes:
        """Return StoredKey of a ClientKey."""
        return self.hash(client_key)

    def server_key(self, salted_password: bytes) -> bytes:
        """Return ServerKey."""
        return self.hmac(salted_password, b"Server Key")

    def client_signature(self, stored_key: bytes, auth_message: bytes) -> bytes:
        """Return ClientSignature."""
        return self.hmac(stored_key, auth_message)

    def client_proof(self, salted_password: bytes, auth_message: bytes) -> bytes:
        """Return ClientProof."""
        client_key = self.client_key(salted_password)
        return xor(client_key, self.client_signature(self.stored_key(client_key), auth_message))

    def server_signature(self, server_key: bytes, auth_message: bytes) -> bytes:
        """Return ServerSignature."""
        return self.hmac(server_key, auth_message)


FORMATTERS: Mapping[str, ScramFormatter] = {mechanism.value: ScramFormatter(mechanism) for mechanism in ScramMechanism}
"""By the mechanism's name."""


def xor(first: bytes, second: bytes) -> bytes:
    """Return both, bit by bit.

    Raises:
        ValueError: They have not the same length.
    """
    if len(first) != len(second):
        raise ValueError("Argument arrays must be of the same length")
    return (int.from_bytes(first, "big") ^ int.from_bytes(second, "big")).to_bytes(len(first), "big")


def auth_message(client_first_message_bare: str, server_first_message: str,
                 client_final_message_without_proof: str) -> bytes:
    """Return AuthMessage: what both have said, each as it was on the wire."""
    return f"{client_first_message_bare},{server_first_message},{client_final_message_without_proof}".encode()


def secure_random_string() -> str:
    """Return a nonce of at least 130 bits."""
    return secrets.token_hex(_NONCE_BYTES)


def sasl_name(user_name: str) -> str:
    """Return a user name as a message has it: "=" and "," escaped."""
    return user_name.replace("=", "=3D").replace(",", "=2C")


def user_name(name: str) -> str:
    """Return the user name that a message means.

    Raises:
        ValueError: A "=" is in it that escapes nothing.
    """
    unescaped = name.replace("=2C", ",")
    if "=" in unescaped.replace("=3D", ""):
        raise ValueError("Invalid user name: a '=' is neither =2C nor =3D")
    return unescaped.replace("=3D", "=")
