"""Tokens of vendors' login handlers, which files name by their Java classes.

    com.google.cloud.hosted.kafka.auth.GcpLoginCallbackHandler    google-auth's default credentials, in Google's frame:
                                                                  base64url of header, claims and token, with dots
    ...KafkaOAuth2AuthenticateCallbackHandler, and the            azure-identity's default credential, for
    CustomAuthenticateCallbackHandler of Azure's samples          https://NAMESPACE/.default
    io.strimzi.kafka.oauth.client.JaasClientOauthLoginCallbackHandler    its options of sasl.jaas.config, or their
                                                                  names in capitals in the environment

Road:    settings -> [vendor tokens] -> RefreshingLogin
Thread:  the login's; google-auth and azure-identity are loaded by it, for they may take long.
Source:  Google managed-kafka-auth-login-handler 1.0 (GcpLoginCallbackHandler, and its Python sample); Azure
         event-hubs-for-kafka samples, spring-cloud-azure; Strimzi oauth 0.15 (README, ClientConfig, ConfigUtil).
"""

from __future__ import annotations

import base64
import importlib
import importlib.util
import json
import os
from calendar import timegm
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from pyproducer.common.errors import AuthenticationError, ConfigError
from pyproducer.common.jaas import KEY
from pyproducer.common.printable import printable
from pyproducer.common.secrets import SecretText
from pyproducer.network.sasl.oauth_token import OAuthToken, ensure_sendable, token_of_jwt

HANDLER_KEY = "sasl.login.callback.handler.class"
STRIMZI_HANDLER = "io.strimzi.kafka.oauth.client.JaasClientOauthLoginCallbackHandler"
GOOGLE_HANDLER = "com.google.cloud.hosted.kafka.auth.GcpLoginCallbackHandler"
_AZURE_NAMES = ("KafkaOAuth2AuthenticateCallbackHandler", "CustomAuthenticateCallbackHandler")
_AZURE_PACKAGES = ("", "com.azure.", "com.microsoft.")
_PRINCIPAL_VARIABLE = "GOOGLE_MANAGED_KAFKA_AUTH_PRINCIPAL"
_GOOGLE_SCOPE = "https://www.googleapis.com/auth/cloud-platform"
# Of Strimzi: ways to a token that have no counterpart here.
_OTHER_GRANTS = ("oauth.refresh.token", "oauth.password.grant.username", "oauth.client.assertion",
                 "oauth.client.assertion.location", "oauth.client.credentials.grant.type")
_STRIMZI_STORE = "oauth.ssl."


def is_azure_handler(name: object) -> bool:
    """Whether a name is of a handler for Azure: Spring's, or that of Azure's own samples."""
    if not isinstance(name, str):
        return False
    package = name.rpartition(".")[0]
    return name.rpartition(".")[2] in _AZURE_NAMES and (not package or f"{package}.".startswith(_AZURE_PACKAGES[1:]))


def needed_module(handler: object) -> str | None:
    """Return the module that a vendor's handler needs; None where it needs none."""
    if handler == GOOGLE_HANDLER:
        return "google.auth"
    return "azure.identity" if is_azure_handler(handler) else None


def is_installed(module: str) -> bool:
    """Whether a module, of a package perhaps, can be imported."""
    try:
        return importlib.util.find_spec(module) is not None
    except ImportError:  # not even its package
        return False


class GoogleTokens:
    """Gets what Google's managed Kafka takes.

    Raises:
        ConfigError: google-auth is not installed. Nothing was started.
    """

    def __init__(self) -> None:
        _ensure_installed("google.auth", GOOGLE_HANDLER, "google")
        self._credentials: Any = None

    def fetch(self) -> OAuthToken:
        """Get a token by the default credentials: the environment, gcloud's, or those of the machine.

        Raises:
            AuthenticationError: There are none, or nobody can be told for whom they stand. Not sent.
        """
        auth = importlib.import_module("google.auth")
        exceptions = importlib.import_module("google.auth.exceptions")
        request = importlib.import_module("google.auth.transport.requests").Request()
        if self._credentials is None:
            try:
                self._credentials, _ = auth.default(scopes=[_GOOGLE_SCOPE])
            except exceptions.DefaultCredentialsError as error:
                raise AuthenticationError(f"no credentials of Google were found: {printable(str(error))}") from None
        self._credentials.refresh(request)
        return self._framed(self._credentials)

    def _framed(self, credentials: Any) -> OAuthToken:
        principal = os.environ.get(_PRINCIPAL_VARIABLE) or getattr(
            credentials, "service_account_email", None) or getattr(credentials, "account", None)
        if not principal or principal == "default":
            raise AuthenticationError("Google's credentials do not tell for whom they stand: set "
                                      f"{_PRINCIPAL_VARIABLE} to the e-mail address of the account")
        if credentials.expiry is None:
            raise AuthenticationError("Google's credentials do not tell when their token ends")
        ends_s = timegm(credentials.expiry.utctimetuple())
        # iat is the broker's to check; half an hour before the end it has begun for sure.
        claims = {"exp": ends_s, "iat": ends_s - 3600, "iss": "Google", "scope": "kafka", "sub": principal}
        text = ".".join((_base64url(json.dumps({"typ": "JWT", "alg": "GOOG_OAUTH2_TOKEN"})),
                         _base64url(json.dumps(claims)), _base64url(credentials.token)))
        return ensure_sendable(OAuthToken(text, ends_s * 1000, principal, ("kafka",)))


class AzureTokens:
    """Gets what Event Hubs takes.

    Args:
        settings: Parsed values under Java's keys; the first of bootstrap.servers is the namespace.

    Raises:
        ConfigError: azure-identity is not installed. Nothing was started.
    """

    def __init__(self, settings: Mapping[str, Any]) -> None:
        _ensure_installed("azure.identity", settings[HANDLER_KEY], "azure")
        self._scope = f"https://{settings['bootstrap.servers'][0][0]}/.default"
        self._credential: Any = None

    def fetch(self) -> OAuthToken:
        """Get a token by the default credential: the environment, a workload's or a machine's identity, az login.

        Raises:
            AuthenticationError: There is none, or it is refused. Not sent.
        """
        identity = importlib.import_module("azure.identity")
        exceptions = importlib.import_module("azure.core.exceptions")
        if self._credential is None:
            self._credential = identity.DefaultAzureCredential()
        try:
            text = self._credential.get_token(self._scope).token
        except exceptions.ClientAuthenticationError as error:
            raise AuthenticationError(f"Azure gives no token for {self._scope}: {printable(str(error))}") from None
        return token_of_jwt(text, "the token of Azure")


class StrimziOptions(NamedTuple):
    """What the options of Strimzi's handler mean, in Java's names.

    Attributes:
        values: Settings: sasl.oauthbearer.*.
        ssl: The ssl.* ones for the issuer.
        access_token: A token that is given as it is; "" for none.
        audience: For whom the token is asked; "" where that is not said.
    """

    values: dict[str, Any]
    ssl: dict[str, str]
    access_token: str
    audience: str


def strimzi_options(options: Mapping[str, str]) -> StrimziOptions:
    """Return what options of Strimzi's handler mean; the environment stands above them.

    Raises:
        ConfigError: They ask for what only a JVM has here, or do not say where a token is. Nothing was started.
    """
    def get(name: str) -> str:
        # The environment's are plain texts, which a traceback with variables would show.
        return SecretText(os.environ.get(name.upper().replace(".", "_").replace("-", "_")) or options.get(name, ""))

    for name in _OTHER_GRANTS:
        if get(name):
            raise ConfigError(HANDLER_KEY, STRIMZI_HANDLER, f"its option {name} has no counterpart here: give "
                              "oauth.client.id and oauth.client.secret, or a function that returns a token, as "
                              "pyproducer.oauth.token.provider")
    path = get("oauth.access.token.location") or get("oauth.token.location")
    url = Path(path).absolute().as_uri() if path else get("oauth.token.endpoint.uri")
    if not url and not get("oauth.access.token"):
        raise ConfigError(KEY, None, f"{STRIMZI_HANDLER} needs oauth.token.endpoint.uri with oauth.client.id and "
                                     "oauth.client.secret, or oauth.access.token")
    stores = {name for name in options if name.startswith(_STRIMZI_STORE)} | {
        f"{_STRIMZI_STORE}{name}" for name in ("truststore.location", "truststore.password", "truststore.type",
                                               "truststore.certificates", "endpoint.identification.algorithm")}
    ssl = {name.removeprefix("oauth."): get(name) for name in stores if name in options or get(name)}
    return StrimziOptions({
        "sasl.oauthbearer.token.endpoint.url": url,
        "sasl.oauthbearer.client.credentials.client.id": get("oauth.client.id"),
        "sasl.oauthbearer.client.credentials.client.secret": get("oauth.client.secret"),
        "sasl.oauthbearer.scope": get("oauth.scope"),
        "sasl.oauthbearer.sub.claim.name": str(get("oauth.username.claim")) or "sub",  # messages name it
    }, ssl, get("oauth.access.token"), get("oauth.audience"))


def _ensure_installed(module: str, handler: object, extra: str) -> None:
    if not is_installed(module):
        raise ConfigError(HANDLER_KEY, handler, f"its tokens come by {module} here, which is not installed: "
                                                f"pip install 'pyproducer[{extra}]'")


def _base64url(text: str) -> str:
    return base64.urlsafe_b64encode(text.encode()).rstrip(b"=").decode()
