"""The four messages of SCRAM, written and read.

    client first   n,,n=user,r=nonce                  gs2 header "n,," (or "n,a=authzid,"), then the bare message
    server first   r=nonce+,s=salt,i=4096
    client final   c=biws,r=nonce+,p=proof            c is the gs2 header in base64; all before ",p=" is without proof
    server final   v=signature, or e=error

What is signed is the text as it was on the wire, so each message keeps the text that it was read from.

Road:    scram client, scram server -> [scram messages] -> SaslAuthenticate
Thread:  pure.
Source:  RFC 5802 5.1 and 7; Java ScramMessages (4.1). Differs from Java: names may have letters beyond ASCII, as the
         RFC says, and a text that is wrong is not repeated in the error, for there are proofs in it.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from pyproducer.common.errors import AuthenticationError

_ALPHA = r"[A-Za-z]+"
_VALUE_SAFE = r"[^\x00=,]+"
_VALUE = r"[^\x00,]+"
_PRINTABLE = r"[\x21-\x2b\x2d-\x7e]+"
_SASL_NAME = r"(?:[^\x00=,]|=2C|=3D)+"
_BASE64 = r"(?:[a-zA-Z0-9/+]{4})*(?:[a-zA-Z0-9/+]{3}=|[a-zA-Z0-9/+]{2}==)?"
_RESERVED = rf"(?:m={_VALUE},)?"
_EXTENSIONS = rf"(?:,{_ALPHA}={_VALUE})*"
_CLIENT_FIRST = re.compile(
    rf"(?P<gs2>n,(?:a=(?P<authzid>{_SASL_NAME}))?,)"
    rf"(?P<bare>{_RESERVED}n=(?P<name>{_SASL_NAME}),r=(?P<nonce>{_PRINTABLE})(?P<extensions>{_EXTENSIONS}))")
_SERVER_FIRST = re.compile(
    rf"{_RESERVED}r=(?P<nonce>{_PRINTABLE}),s=(?P<salt>{_BASE64}),i=(?P<iterations>[0-9]{{1,9}}){_EXTENSIONS}")
_CLIENT_FINAL = re.compile(
    rf"(?P<without_proof>c=(?P<channel>{_BASE64}),r=(?P<nonce>{_PRINTABLE}){_EXTENSIONS}),p=(?P<proof>{_BASE64})")
_SERVER_FINAL = re.compile(rf"(?:e=(?P<error>{_VALUE_SAFE})|v=(?P<signature>{_BASE64})){_EXTENSIONS}")


@dataclass(frozen=True)
class ClientFirstMessage:
    """Who wants to log in.

    Attributes:
        sasl_name: The user name, escaped; see scram_formatter.sasl_name.
        nonce: The client's.
        authorization_id: As whom it wants to act, escaped; "" for itself.
        extensions: `tokenauth=true` is Kafka's, for delegation tokens.
        text: As it is on the wire, where it was read.
    """

    sasl_name: str
    nonce: str
    authorization_id: str = ""
    extensions: Mapping[str, str] = field(default_factory=dict)
    text: str = ""

    @property
    def gs2_header(self) -> str:
        """What stands before the bare message."""
        return f"n,{f'a={self.authorization_id}' if self.authorization_id else ''},"

    @property
    def bare(self) -> str:
        """The message without its header."""
        if self.text:
            return self.text[len(self.gs2_header):]
        return ",".join((f"n={self.sasl_name}", f"r={self.nonce}",
                         *(f"{name}={value}" for name, value in self.extensions.items())))

    def to_bytes(self) -> bytes:
        """Return it as it is on the wire."""
        return (self.text or self.gs2_header + self.bare).encode()

    @classmethod
    def parse(cls, data: bytes) -> ClientFirstMessage:
        """Read one.

        Raises:
            AuthenticationError: It is none. Not sent.
        """
        text, match = _matched(_CLIENT_FIRST, data, "client first message")
        extensions = dict(item.split("=", 1) for item in match["extensions"].split(",") if item)
        return cls(match["name"], match["nonce"], match["authzid"] or "", extensions, text)


@dataclass(frozen=True)
class ServerFirstMessage:
    """How the password is to be salted.

    Attributes:
        nonce: The client's, and the server's behind it.
        salt: Of the password.
        iterations: At least 1.
        text: As it is on the wire, where it was read.
    """

    nonce: str
    salt: bytes
    iterations: int
    text: str = ""

    def __str__(self) -> str:
        return self.text or f"r={self.nonce},s={_encoded(self.salt)},i={self.iterations}"

    def to_bytes(self) -> bytes:
        """Return it as it is on the wire."""
        return str(self).encode()

    @classmethod
    def parse(cls, data: bytes) -> ServerFirstMessage:
        """Read one.

        Raises:
            AuthenticationError: It is none. Not sent.
        """
        text, match = _matched(_SERVER_FIRST, data, "server first message")
        if not int(match["iterations"]):
            raise AuthenticationError("Invalid SCRAM server first message format: invalid iterations 0")
        return cls(match["nonce"], _decoded(match["salt"], "server first message"), int(match["iterations"]), text)


@dataclass(frozen=True)
class ClientFinalMessage:
    """The client's proof.

    Attributes:
        channel_binding: The gs2 header of the first message.
        nonce: That of the server's first message.
        proof: ClientProof; b"" while it is not known.
        text_without_proof: As it is on the wire, where it was read.
    """

    channel_binding: bytes
    nonce: str
    proof: bytes = field(default=b"", repr=False)
    text_without_proof: str = ""

    @property
    def without_proof(self) -> str:
        """The part that is signed."""
        return self.text_without_proof or f"c={_encoded(self.channel_binding)},r={self.nonce}"

    def to_bytes(self) -> bytes:
        """Return it as it is on the wire."""
        return f"{self.without_proof},p={_encoded(self.proof)}".encode()

    @classmethod
    def parse(cls, data: bytes) -> ClientFinalMessage:
        """Read one.

        Raises:
            AuthenticationError: It is none. Not sent.
        """
        what = "client final message"
        _, match = _matched(_CLIENT_FINAL, data, what)
        return cls(_decoded(match["channel"], what), match["nonce"], _decoded(match["proof"], what),
                   match["without_proof"])


@dataclass(frozen=True)
class ServerFinalMessage:
    """The server's signature, or why it refuses.

    Attributes:
        server_signature: ServerSignature; b"" where there is an error.
        error: What is wrong; "" where nothing is.
    """

    server_signature: bytes = b""
    error: str = ""

    def to_bytes(self) -> bytes:
        """Return it as it is on the wire."""
        return (f"e={self.error}" if self.error else f"v={_encoded(self.server_signature)}").encode()

    @classmethod
    def parse(cls, data: bytes) -> ServerFinalMessage:
        """Read one.

        Raises:
            AuthenticationError: It is none. Not sent.
        """
        what = "server final message"
        _, match = _matched(_SERVER_FINAL, data, what)
        return cls(_decoded(match["signature"] or "", what), match["error"] or "")


def _matched(pattern: re.Pattern[str], data: bytes, what: str) -> tuple[str, re.Match[str]]:
    # Decoded so that a character that is none becomes U+FFFD, and no error holds what was sent.
    text = data.decode(errors="replace")
    match = pattern.fullmatch(text)
    if match is None or "\ufffd" in text:
        raise AuthenticationError(f"Invalid SCRAM {what} format")
    return text, match


def _encoded(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


def _decoded(text: str, what: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error:
        raise AuthenticationError(f"Invalid SCRAM {what} format: not base64") from None
