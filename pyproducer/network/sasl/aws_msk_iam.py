"""IAM of Amazon MSK: a request to a service of Amazon's, signed with keys of Amazon's, and sent to the broker instead.

    AWS_MSK_IAM   client   JSON: version, host, user-agent, action, x-amz-...      signed anew for each authentication
                  broker   JSON: version, request-id
    OAUTHBEARER   client   base64url of https://kafka.REGION.amazonaws.com/?Action=kafka-cluster:Connect&X-Amz-...

botocore finds the keys (environment, profile, role, container, instance) and signs. Finding them may ask servers, so it
is done on the login's thread; signing is arithmetic.

Road:    sasl.jaas.config, botocore -> [AwsKeys] -> AwsMskIamSaslClient, or a token -> client authenticator
Thread:  KeySource and MskTokens are the login's; the client that of the selector's poll. botocore is loaded where it is
         asked for, by the login's thread: its import takes half a second.
Source:  aws-msk-iam-auth 2.2: README ("Details"), IAMSaslClient, MSKCredentialProvider; aws-msk-iam-sasl-signer-python
         1.0.2; Amazon's SigV4, query parameters. Differs from them: keys are looked for every four minutes, beside the
         sender, not in the middle of an authentication.
"""

from __future__ import annotations

import base64
import calendar
import importlib.util
import json
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn
from urllib.parse import parse_qsl, urlsplit

from pyproducer.common.clock import Clock, SystemClock
from pyproducer.common.errors import AuthenticationError, ConfigError
from pyproducer.common.jaas import KEY, parse_jaas
from pyproducer.common.printable import printable
from pyproducer.common.threads import StartThread, start_daemon
from pyproducer.network.sasl.mechanism import unavailable
from pyproducer.network.sasl.oauth_token import OAuthToken, ensure_sendable
from pyproducer.network.sasl.refreshing_login import RefreshingLogin, RefreshTimes

MECHANISM = "AWS_MSK_IAM"
VERSION = "2020_10_22"
USER_AGENT = "pyproducer"
EXPIRES_S = 900
_ACTION = "kafka-cluster:Connect"
_SERVICE = "kafka-cluster"
_INSTALL = "botocore must be installed for keys of AWS: pip install 'pyproducer[aws]'"
# b-1.name.abc.c2.kafka.us-east-1.amazonaws.com, boot-abc.c1.kafka-serverless.eu-west-1.amazonaws.com.cn
_BROKER = re.compile(r"(?:.*\.)?kafka(?:-serverless)?\.(?P<region>[a-z]{2}(?:-[a-z]+)+-[0-9]+)"
                     r"\.amazonaws\.com(?:\.cn)?")
_PROFILE, _ROLE = "awsProfileName", "awsRoleArn"
_ASSUMED = {"awsRoleAccessKeyId": "aws_access_key_id", "awsRoleSecretAccessKey": "aws_secret_access_key",
            "awsRoleSessionToken": "aws_session_token"}
# For STS and for the servers that hand keys to containers and instances; botocore's own is a minute, many times.
_TIMEOUT_S = 10


@dataclass(frozen=True)
class AwsKeys:
    """Keys of Amazon's. They cannot be pickled.

    Attributes:
        access_key: The public one.
        secret_key: The one that signs.
        session_token: What goes with keys that end; None with others.
        expires_at_ms: When they end, in ms since 1970; None where botocore does not tell.
        started_at_ms: Nobody tells.
    """

    access_key: str
    secret_key: str = field(repr=False)
    session_token: str | None = field(default=None, repr=False)
    expires_at_ms: int | None = None
    started_at_ms: int | None = None

    def __reduce__(self) -> NoReturn:
        raise TypeError("keys are secret and cannot be pickled")


def msk_iam_login(settings: Mapping[str, Any], *, clock: Clock | None = None,
                  start_thread: StartThread = start_daemon) -> RefreshingLogin[AwsKeys]:
    """Return the login of the mechanism AWS_MSK_IAM.

    Args:
        settings: Parsed values under Java's keys.
        clock: Tells the time.
        start_thread: Starts the login's thread.

    Raises:
        ConfigError: botocore is not installed, or options of sasl.jaas.config contradict each other. Nothing was
            started.
    """
    text = settings[KEY]
    keys = KeySource(parse_jaas(text).options if text else {})
    region = _region_of(settings)
    return RefreshingLogin(
        MECHANISM, keys.fetch, lambda found, host: AwsMskIamSaslClient(found, host, region_of_host(host) or region or
                                                                  keys.region), "the keys of AWS",
        times=RefreshTimes.of(settings), retry_backoff_ms=settings["sasl.login.retry.backoff.ms"],
        retry_backoff_max_ms=settings["sasl.login.retry.backoff.max.ms"], clock=clock or SystemClock(),
        start_thread=start_thread)


def region_of_host(host: str) -> str | None:
    """Return the region that the name of a broker of MSK tells; None for other names."""
    match = _BROKER.fullmatch(host.removesuffix("."))  # it may be written with a final dot
    return match["region"] if match else None


class KeySource:
    """Looks for keys, by botocore.

    Args:
        options: Those of IAMLoginModule in sasl.jaas.config; all may be left out.
        mechanism: What the keys are for, for messages.

    Attributes:
        region: That of environment or profile, once fetched; None where none is set.

    Raises:
        ConfigError: botocore is not installed, or options contradict each other. Nothing was started.
    """

    def __init__(self, options: Mapping[str, str], mechanism: str = MECHANISM) -> None:
        if importlib.util.find_spec("botocore") is None:
            raise ConfigError("sasl.mechanism", mechanism, _INSTALL)
        if _PROFILE in options and _ROLE in options:
            raise ConfigError(KEY, None, f"{_PROFILE} and {_ROLE} are two ways to keys: give one of them")
        self._options = options
        self._found: Any = None  # botocore's; those that renew themselves are kept
        self.region: str | None = None

    def fetch(self) -> AwsKeys:
        """Look for keys.

        Raises:
            AuthenticationError: There are none, or they are refused. Not sent.
            TransportError: A server that has them is not reached; may pass. Not sent.
        """
        from botocore import exceptions

        try:
            return self._fetch()
        except exceptions.ClientError as error:
            said = error.response.get("Error", {})
            code, message = printable(str(said.get("Code"))), printable(str(said.get("Message")))
            if error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 400) >= 500 or code == "Throttling":
                raise unavailable(f"STS has no keys now: {code}: {message}") from None
            raise AuthenticationError(f"STS refuses to hand out keys: {code}: {message}") from None
        except (exceptions.ProfileNotFound, exceptions.NoCredentialsError, exceptions.PartialCredentialsError,
                exceptions.NoRegionError, exceptions.ConfigParseError, exceptions.InvalidConfigError) as error:
            raise AuthenticationError(f"no keys of AWS were found: {printable(str(error))}") from None
        except exceptions.BotoCoreError as error:
            raise unavailable(f"the keys of AWS were not found: {printable(str(error))}") from None

    def _fetch(self) -> AwsKeys:
        from botocore.session import Session

        session = Session(profile=self._options.get(_PROFILE))
        self.region = session.get_config_variable("region")
        if _ROLE in self._options:
            return self._assumed(session)
        if not hasattr(self._found, "refresh_needed"):
            self._found = session.get_credentials()  # static ones are read anew, should a file have changed
        if self._found is None:
            raise AuthenticationError(
                "no keys of AWS were found, neither in the environment (AWS_ACCESS_KEY_ID, AWS_PROFILE, AWS_ROLE_ARN) "
                "nor in ~/.aws, and no container or instance has any: give one of them, or awsProfileName or "
                "awsRoleArn in sasl.jaas.config")
        frozen = self._found.get_frozen_credentials()
        return AwsKeys(frozen.access_key, frozen.secret_key, frozen.token)

    def _assumed(self, session: Any) -> AwsKeys:
        from botocore.config import Config

        options = self._options
        region = options.get("awsStsRegion") or self.region or "us-east-1"
        client = session.create_client(
            "sts", region_name=region, config=Config(connect_timeout=_TIMEOUT_S, read_timeout=_TIMEOUT_S),
            **{ours: options[theirs] for theirs, ours in _ASSUMED.items() if theirs in options})
        external = {"ExternalId": options["awsRoleExternalId"]} if "awsRoleExternalId" in options else {}
        answer = client.assume_role(RoleArn=options[_ROLE], **external,
                                    RoleSessionName=options.get("awsRoleSessionName", "aws-msk-iam-auth"))
        found = answer["Credentials"]
        return AwsKeys(found["AccessKeyId"], found["SecretAccessKey"], found["SessionToken"],
                       int(found["Expiration"].timestamp() * 1000))


def signed_url(keys: AwsKeys, host: str, region: str) -> str:
    """Return the URL of the request that is never sent, signed for 15 minutes from now by this machine's clock.

    Shape: https://host/?Action=...&X-Amz-..., as botocore encodes it.
    """
    from botocore.auth import SigV4QueryAuth
    from botocore.awsrequest import AWSRequest
    from botocore.credentials import Credentials

    request = AWSRequest(method="GET", url=f"https://{host}/", params={"Action": _ACTION})
    signer = SigV4QueryAuth(Credentials(keys.access_key, keys.secret_key, keys.session_token), _SERVICE, region,
                            expires=EXPIRES_S)
    signer.add_auth(request)
    return str(request.url)


class AwsMskIamSaslClient:
    """The client's half of AWS_MSK_IAM; see SaslClient.

    Args:
        keys: Sign the request.
        host: The broker's name, which is signed, too.
        region: For which region it is signed.

    Raises:
        AuthenticationError: The region is not known. Not sent.
    """

    mechanism = MECHANISM

    def __init__(self, keys: AwsKeys, host: str, region: str | None) -> None:
        if not region:
            raise AuthenticationError(f"the region of {host} is not known: its name does not tell it, so set "
                                      "AWS_DEFAULT_REGION, or a region in the profile")
        self._keys = keys
        self._host = host
        self._region = region
        self._is_sent = False
        self.complete: bool = False

    def evaluate_challenge(self, challenge: bytes) -> bytes | None:
        """Return the signed request; then nothing.

        Raises:
            AuthenticationError: The broker did not answer as one of MSK. Not sent.
        """
        if not self._is_sent:
            self._is_sent = True
            return self._payload()
        try:
            answer = json.loads(challenge)
        except (ValueError, RecursionError):
            answer = None
        if not isinstance(answer, dict) or "request-id" not in answer:
            raise AuthenticationError(f"{MECHANISM}: the broker answered something else than a request id")
        self.complete = True
        return None

    def _payload(self) -> bytes:
        signed = parse_qsl(urlsplit(signed_url(self._keys, self._host, self._region)).query)
        return json.dumps({"version": VERSION, "host": self._host, "user-agent": USER_AGENT,
                           **{name.lower(): value for name, value in signed}}, separators=(",", ":")).encode()


class MskTokens:
    """Makes the tokens that MSK takes for OAUTHBEARER.

    Args:
        settings: Parsed values under Java's keys; the region is in the brokers' names, or botocore's.
        options: Those of sasl.jaas.config, as IAMLoginModule's.

    Raises:
        ConfigError: See KeySource.
    """

    def __init__(self, settings: Mapping[str, Any], options: Mapping[str, str]) -> None:
        self._keys = KeySource(options, settings["sasl.mechanism"])
        self._region = _region_of(settings)

    def fetch(self) -> OAuthToken:
        """Look for keys and sign.

        Raises:
            AuthenticationError: See KeySource.fetch; or the region is not known. Not sent.
        """
        keys = self._keys.fetch()
        region = self._region or self._keys.region
        if not region:
            raise AuthenticationError("the region of the cluster is not known: no broker's name tells it, so set "
                                      "AWS_DEFAULT_REGION, or a region in the profile")
        url = signed_url(keys, f"kafka.{region}.amazonaws.com", region)
        began_ms = 1000 * calendar.timegm(time.strptime(dict(parse_qsl(urlsplit(url).query))["X-Amz-Date"],
                                                        "%Y%m%dT%H%M%SZ"))
        text = base64.urlsafe_b64encode(f"{url}&User-Agent={USER_AGENT}".encode()).rstrip(b"=").decode()
        return ensure_sendable(OAuthToken(text, began_ms + EXPIRES_S * 1000, keys.access_key, (), {}, began_ms))


def _region_of(settings: Mapping[str, Any]) -> str | None:
    regions = (region_of_host(host) for host, _ in settings.get("bootstrap.servers") or ())
    return next((region for region in regions if region), None)
