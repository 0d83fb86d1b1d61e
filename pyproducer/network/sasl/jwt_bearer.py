"""What a client asks of a token endpoint that proves by a signed JWT, an assertion, who it is.

    POST   grant_type=urn:ietf:params:oauth:grant-type:jwt-bearer&assertion=eyJ...&scope=...

The assertion is read from a file, or made and signed here for each token:

    header   template file's, then alg, typ                  what stands later wins
    claims   aud, iss, sub of the settings, then the template file's, then iat, exp, nbf, jti

Road:    settings, files -> [JwtBearer] -> TokenEndpoint
Thread:  the login's; files are read for each token, so they may be replaced.
Source:  Java JwtBearerJwtRetriever, JwtBearerRequestFormatter, LayeredAssertionJwtTemplate, FileAssertionCreator,
         DefaultAssertionCreator (4.1); RFC 7523 2.1, 3; KIP-1139. Differs from Java: ES256 works (Java reads every key
         as RSA and signs ES256 in a form that is not JWT's).
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote_plus

from pyproducer.common.clock import Clock
from pyproducer.common.errors import AuthenticationError, ConfigError
from pyproducer.network.pem import normalized_pem
from pyproducer.network.sasl.mechanism import unavailable

ASSERTION_FILE_KEY = "sasl.oauthbearer.assertion.file"
KEY_FILE_KEY = "sasl.oauthbearer.assertion.private.key.file"
PASSPHRASE_KEY = "sasl.oauthbearer.assertion.private.key.passphrase"
TEMPLATE_KEY = "sasl.oauthbearer.assertion.template.file"
_GRANT = "urn:ietf:params:oauth:grant-type:jwt-bearer"
_CLAIM = "sasl.oauthbearer.assertion.claim."


class JwtBearer:
    """A TokenRequest.

    Args:
        assertion: Returns one, or raises as `body` does.
        scope: What is asked for; "" for what the issuer gives by itself.
    """

    def __init__(self, assertion: Callable[[], str], scope: str = "") -> None:
        self._assertion = assertion
        self._scope = scope.strip()
        self._last = ""

    def headers(self) -> dict[str, str]:
        """Return none: the assertion says who asks."""
        return {}

    def body(self) -> str:
        """Return what is asked for, with an assertion.

        Raises:
            AuthenticationError: It cannot be made of the files. Not sent.
            TransportError: A file is missing or empty; may pass. Not sent.
        """
        self._last = self._assertion()
        scope = f"&scope={quote_plus(self._scope)}" if self._scope else ""
        return f"grant_type={quote_plus(_GRANT)}&assertion={quote_plus(self._last)}{scope}"

    def secrets(self) -> tuple[str, ...]:
        """Return the assertion that was sent."""
        return (self._last,)


class SignedAssertion:
    """Makes assertions and signs them, with a key from a file.

    Args:
        settings: Java's keys, sasl.oauthbearer.assertion.*, each with a value.
        clock: Tells the time.

    Raises:
        ConfigError: There is no key, or PyJWT is not installed. Nothing was started.
    """

    def __init__(self, settings: Mapping[str, Any], clock: Clock) -> None:
        self._key_file = str(settings[KEY_FILE_KEY] or "")
        if not self._key_file:
            raise ConfigError(KEY_FILE_KEY, None, "it is required to sign assertions; one that is ready is named by "
                                                  f"{ASSERTION_FILE_KEY}")
        self._passphrase = settings[PASSPHRASE_KEY]
        self._template_file = settings[TEMPLATE_KEY]
        self._algorithm: str = settings["sasl.oauthbearer.assertion.algorithm"]
        self._claims = {name: value for name in ("aud", "iss", "sub") if (value := settings[_CLAIM + name]) is not None}
        self._exp_seconds: int = settings[_CLAIM + "exp.seconds"]
        self._nbf_seconds: int = settings[_CLAIM + "nbf.seconds"]
        self._has_jti: bool = settings[_CLAIM + "jti.include"]
        self._clock = clock
        self._jwt = _import_jwt()

    def text(self) -> str:
        """Return a new one.

        Raises:
            AuthenticationError: It cannot be made of the files. Not sent.
            TransportError: A file is missing or empty; may pass. Not sent.
        """
        header, claims = self._template()
        now = self._clock.timestamp_ms() // 1000
        times: dict[str, Any] = {"iat": now, "exp": now + self._exp_seconds, "nbf": now - self._nbf_seconds}
        if self._has_jti:
            times["jti"] = str(uuid.uuid4())
        try:
            made = self._jwt.encode({**self._claims, **claims, **times}, self._key(), algorithm=self._algorithm,
                                    headers={**header, "alg": self._algorithm, "typ": "JWT"})
        except (TypeError, ValueError, self._jwt.PyJWTError) as cause:
            raise AuthenticationError(f"no assertion can be signed by {self._algorithm} with the key in "
                                      f"{self._key_file} ({type(cause).__name__}): is it of that kind?") from None
        return str(made)

    def _key(self) -> Any:
        from cryptography.exceptions import UnsupportedAlgorithm
        from cryptography.hazmat.primitives.serialization import load_pem_private_key

        pem = read_text(KEY_FILE_KEY, self._key_file)
        if "-----BEGIN" not in pem:  # Java takes the inner part alone, too
            pem = f"-----BEGIN PRIVATE KEY-----\n{pem.strip()}\n-----END PRIVATE KEY-----\n"
        password = self._passphrase.encode() if self._passphrase and "ENCRYPTED" in pem else None
        try:
            return load_pem_private_key(normalized_pem(pem).encode(), password)
        except TypeError:
            why = f"it is encrypted: set {PASSPHRASE_KEY}"
        except (ValueError, UnsupportedAlgorithm) as cause:
            why = f"{PASSPHRASE_KEY} does not open it" if password else f"it is no private key in PEM " \
                                                                        f"({type(cause).__name__})"
        del pem, password  # a traceback shows variables
        raise AuthenticationError(f"the private key in {self._key_file} cannot be used: {why}")

    def _template(self) -> tuple[dict[str, Any], dict[str, Any]]:
        if not self._template_file:
            return {}, {}
        try:
            found = json.loads(read_text(TEMPLATE_KEY, self._template_file))
        except (ValueError, RecursionError):
            found = None
        if isinstance(found, dict):
            header, claims = found.get("header", {}), found.get("payload", {})
            if isinstance(header, dict) and isinstance(claims, dict):
                return header, claims
        raise AuthenticationError(f"{TEMPLATE_KEY}: {self._template_file} must be a JSON object with the objects "
                                  "\"header\" and \"payload\", or one of them")


def read_text(key: str, path: str) -> str:
    """Return what is in a file that a setting names.

    Raises:
        AuthenticationError: It is no text. Not sent.
        TransportError: It cannot be read, or has nothing; may pass, for somebody else writes it. Not sent.
    """
    try:
        text = Path(path).read_text(encoding="utf-8")
    except OSError as cause:
        raise unavailable(f"{key}: {path} cannot be read: {cause.strerror or cause}") from None
    except ValueError:
        raise AuthenticationError(f"{key}: {path} is no text in UTF-8") from None
    if not text.strip():
        raise unavailable(f"{key}: {path} is empty")
    return text


def _import_jwt() -> Any:
    try:
        import cryptography  # noqa: F401 - PyJWT needs it to sign
        import jwt
    except ImportError:
        raise ConfigError(KEY_FILE_KEY, None, "to sign assertions PyJWT and cryptography must be installed: "
                                              "pip install 'pyproducer[oauth]'") from None
    return jwt
