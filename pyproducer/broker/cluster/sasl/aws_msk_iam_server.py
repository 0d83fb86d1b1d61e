"""The broker's half of AWS_MSK_IAM, and of the tokens that Amazon's signer for other languages makes for OAUTHBEARER.

Both are a request to a service of Amazon, signed and sent to nobody. Here their form and their time are looked at: who
could check the signature is Amazon alone. It is for tests of clients.

    AWS_MSK_IAM   -> JSON: version, host, user-agent, action, x-amz-...      <- {"version": ..., "request-id": ...}
    OAUTHBEARER   base64url of https://kafka.REGION.amazonaws.com/?Action=kafka-cluster:Connect&X-Amz-...

Who logs in is the id of the access key.

Road:    server authenticator -> [aws msk iam server]
Thread:  the thread that polls the selector.
Source:  README of aws-msk-iam-auth ("Details"), aws-msk-iam-sasl-signer-python, SigV4's query parameters.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
import uuid
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta, timezone
from urllib.parse import parse_qsl, urlsplit

from pyproducer.broker.cluster.sasl.oauthbearer_server import TokenRefusedError, ValidToken
from pyproducer.common.errors import AuthenticationError

MECHANISM = "AWS_MSK_IAM"
VERSION = "2020_10_22"
_ACTION = "kafka-cluster:Connect"
_NEEDED = ("x-amz-algorithm", "x-amz-credential", "x-amz-date", "x-amz-signedheaders", "x-amz-expires",
           "x-amz-signature")
_CREDENTIAL = re.compile(r"(?P<id>\w{4,128})/(?P<day>[0-9]{8})/(?P<region>[a-z0-9-]+)/kafka-cluster/aws4_request")
_HOST = re.compile(r"kafka\.(?P<region>[a-z0-9-]+)\.amazonaws\.com(?:\.cn)?")
_SIGNATURE = re.compile(r"[0-9a-f]{64}")
# A signature may be valid for a quarter of an hour, and clocks may be five minutes apart: Amazon's rules.
_LONGEST_S = 900
_SKEW = timedelta(minutes=5)


class SignedRequest:
    """The signed parameters of a request, looked at.

    Args:
        parameters: By name, in small letters.
        now_ms: The wall's time, in ms since 1970.

    Attributes:
        access_key_id: Whose it is.
        region: For which region it is signed.
        expires_at_ms: Until when it is valid, in ms since 1970.

    Raises:
        ValueError: Something is missing or makes no sense, or it has ended; the text repeats no value.
    """

    def __init__(self, parameters: Mapping[str, str], now_ms: int) -> None:
        missing = [name for name in _NEEDED if not parameters.get(name)]
        if missing:
            raise ValueError(f"{', '.join(missing)} is missing")
        if parameters.get("action") != _ACTION:
            raise ValueError(f"action is not {_ACTION}")
        if parameters["x-amz-algorithm"] != "AWS4-HMAC-SHA256":
            raise ValueError("x-amz-algorithm is not AWS4-HMAC-SHA256")
        if "host" not in parameters["x-amz-signedheaders"].split(";"):
            raise ValueError("x-amz-signedheaders has no host")
        if _SIGNATURE.fullmatch(parameters["x-amz-signature"]) is None:
            raise ValueError("x-amz-signature is not 64 hexadecimal digits")
        credential = _CREDENTIAL.fullmatch(parameters["x-amz-credential"])
        if credential is None:
            raise ValueError("x-amz-credential is not ID/DATE/REGION/kafka-cluster/aws4_request")
        begin = _begin(parameters["x-amz-date"])
        if parameters["x-amz-date"][:8] != credential["day"]:
            raise ValueError("x-amz-date is of another day than x-amz-credential")
        expires_s = parameters["x-amz-expires"]
        if not re.fullmatch(r"[0-9]{1,9}", expires_s) or not 0 < int(expires_s) <= _LONGEST_S:
            raise ValueError(f"x-amz-expires is not between 1 and {_LONGEST_S}")
        end = begin + timedelta(seconds=int(expires_s))
        now = datetime.fromtimestamp(now_ms / 1000, timezone.utc)
        if begin > now + _SKEW:
            raise ValueError("Signature not yet current: x-amz-date is in the future; look at the clocks")
        if end <= now:
            raise ValueError("Signature expired: x-amz-date and x-amz-expires are over; look at the clocks")
        self.access_key_id: str = credential["id"]
        self.region: str = credential["region"]
        self.expires_at_ms: int = int(end.timestamp() * 1000)


def _begin(text: str) -> datetime:
    # strptime takes more than it says: numbers without their zeros, and blanks.
    if not re.fullmatch(r"[0-9]{8}T[0-9]{6}Z", text):
        raise ValueError("x-amz-date is not YYYYMMDDTHHMMSSZ")
    return datetime.strptime(text, "%Y%m%dT%H%M%SZ").replace(tzinfo=timezone.utc)


class AwsMskIamSaslServer:
    """One authentication; see SaslServer.

    Args:
        timestamp_ms: The wall's clock.
    """

    mechanism = MECHANISM

    def __init__(self, timestamp_ms: Callable[[], int]) -> None:
        self.complete: bool = False
        self.authorization_id: str = ""
        self.expires_at_ms: int | None = None
        self._timestamp_ms = timestamp_ms

    def evaluate_response(self, response: bytes) -> bytes:
        """Look at the one message, and answer it with a new request id.

        Raises:
            AuthenticationError: It is not such a message, or has ended.
        """
        why = ""
        try:
            found = json.loads(response)
            if not isinstance(found, dict) or not all(isinstance(value, str) for value in found.values()):
                raise ValueError("it is no JSON object of texts")
            if found.get("version") != VERSION or not found.get("host") or not found.get("user-agent"):
                raise ValueError(f"version is not {VERSION}, or host or user-agent is missing")
            self.authorization_id = SignedRequest(found, self._timestamp_ms()).access_key_id
        except json.JSONDecodeError:
            why = "it is no JSON"  # the error itself holds the text
        except (ValueError, RecursionError) as error:
            why = str(error)
        if why:
            raise AuthenticationError(f"[{uuid.uuid4()}]: Access denied: {why}")
        self.complete = True
        return json.dumps({"version": VERSION, "request-id": str(uuid.uuid4())}).encode()


class AwsMskIamTokenValidator:
    """Takes the tokens of Amazon's signer; see TokenValidator.

    Args:
        timestamp_ms: The wall's clock.
    """

    def __init__(self, timestamp_ms: Callable[[], int]) -> None:
        self._timestamp_ms = timestamp_ms

    def validate(self, token: str) -> ValidToken:
        """Return whose the token is; see TokenValidator."""
        why = ""
        try:
            url = urlsplit(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)).decode("ascii"))
            parameters = {name.lower(): value for name, value in parse_qsl(url.query, max_num_fields=30)}
            signed = SignedRequest(parameters, self._timestamp_ms())
            host = _HOST.fullmatch(url.netloc)
            if url.scheme != "https" or host is None or host["region"] != signed.region:
                why = "it is not for https://kafka.REGION.amazonaws.com, of the region that is signed"
        except (binascii.Error, UnicodeDecodeError):
            why = "it is not base64"
        except ValueError as error:
            why = str(error)
        if why:
            raise TokenRefusedError(f"Access denied: {why}")
        return ValidToken(signed.access_key_id, signed.expires_at_ms)
