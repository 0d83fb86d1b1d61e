"""The login of OAUTHBEARER: which source of tokens the settings mean.

    pyproducer.oauth.token.provider                     a function or object of the application   token_callback.py
    sasl.login.callback.handler.class   Python          the same
                                        ...unsecured    a token without a signature               unsecured_token.py
                                        ...IAM...       of AWS MSK                                aws_msk_iam.py
                                        Google's, Azure's, Strimzi's                              vendor_tokens.py
                                        ...LoginCallbackHandler, or none with an endpoint:
        sasl.oauthbearer.jwt.retriever.class   Default  client id and secret                      client_credentials.py
                                               ...      a file, where the URL is file:            below
                                        JwtBearer       a signed assertion                        jwt_bearer.py
                                        Python          as the first

Road:    settings -> [token login] -> RefreshingLogin -> client authenticator
Thread:  the constructor's of a producer; starts nothing, touches no network.
Source:  Java OAuthBearerLoginCallbackHandler, DefaultJwtRetriever, FileJwtRetriever, DefaultJwtValidator,
         ConfigurationUtils (4.1); KIP-768, KIP-1139. Differs from Java: without a handler class an endpoint, a
         retriever class or the options of a token without a signature say what is meant; Java means the latter always.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple
from urllib.parse import urlsplit
from urllib.request import url2pathname

from pyproducer.common.class_names import import_object, make_instance
from pyproducer.common.clock import Clock, SystemClock
from pyproducer.common.errors import AuthenticationError, ConfigError
from pyproducer.common.jaas import KEY, OAUTHBEARER_MODULE, JaasEntry, SecretOptions, parse_jaas
from pyproducer.common.threads import StartThread, start_daemon
from pyproducer.network.sasl.client_credentials import ID_KEY, SECRET_KEY, ClientCredentials
from pyproducer.network.sasl.jwt_bearer import ASSERTION_FILE_KEY, JwtBearer, SignedAssertion, read_text
from pyproducer.network.sasl.mechanism import unavailable
from pyproducer.network.sasl.oauth_token import OAuthToken, claims_of, token_of_jwt
from pyproducer.network.sasl.oauthbearer import OAuthBearerSaslClient
from pyproducer.network.sasl.refreshing_login import RefreshingLogin, RefreshTimes
from pyproducer.network.sasl.token_callback import CallbackTokens
from pyproducer.network.sasl.token_endpoint import (
    DEFAULT_TIMEOUT_S,
    URL_KEY,
    Timeouts,
    TokenEndpoint,
    TokenRequest,
    checked_url,
    shown_url,
)
from pyproducer.network.sasl.unsecured_token import PREFIX as UNSECURED
from pyproducer.network.sasl.unsecured_token import UnsecuredTokens
from pyproducer.network.sasl.vendor_tokens import (
    GOOGLE_HANDLER,
    STRIMZI_HANDLER,
    AzureTokens,
    GoogleTokens,
    is_azure_handler,
    strimzi_options,
)

MECHANISM = "OAUTHBEARER"
PROVIDER_KEY = "pyproducer.oauth.token.provider"
HANDLER_KEY = "sasl.login.callback.handler.class"
RETRIEVER_KEY = "sasl.oauthbearer.jwt.retriever.class"
VALIDATOR_KEY = "sasl.oauthbearer.jwt.validator.class"
_OAUTH = "org.apache.kafka.common.security.oauthbearer."
# The class was in another package until Kafka 3.4; then it was the one without "secured.".
_RETRIEVING_HANDLERS = frozenset({_OAUTH + "OAuthBearerLoginCallbackHandler",
                                  _OAUTH + "secured.OAuthBearerLoginCallbackHandler"})
_UNSECURED_HANDLER = _OAUTH + "internals.unsecured.OAuthBearerUnsecuredLoginCallbackHandler"
_MSK_HANDLER = "software.amazon.msk.auth.iam.IAMOAuthBearerLoginCallbackHandler"
_DEFAULT_RETRIEVER = _OAUTH + "DefaultJwtRetriever"
_CREDENTIALS_RETRIEVER = _OAUTH + "ClientCredentialsJwtRetriever"
_FILE_RETRIEVER = _OAUTH + "FileJwtRetriever"
_BEARER_RETRIEVER = _OAUTH + "JwtBearerJwtRetriever"
_JAVA_RETRIEVERS = frozenset({_DEFAULT_RETRIEVER, _CREDENTIALS_RETRIEVER, _FILE_RETRIEVER, _BEARER_RETRIEVER})
_JAVA_VALIDATORS = frozenset({_OAUTH + "DefaultJwtValidator", _OAUTH + "ClientJwtValidator"})
_EXTENSION = "extension_"


def token_login(settings: Mapping[str, Any], *, clock: Clock | None = None,
                start_thread: StartThread = start_daemon) -> RefreshingLogin[OAuthToken]:
    """Return the login that settings for OAUTHBEARER mean.

    Args:
        settings: Parsed values under Java's keys, each of sasl.* with a value; `originals` is asked for the
            application's own.
        clock: Tells the time.
        start_thread: Starts the login's thread.

    Raises:
        ConfigError: They name no source of tokens, or one that cannot be made. Nothing was started.
    """
    clock = clock or SystemClock()
    jaas = parse_jaas(settings[KEY]) if settings[KEY] else JaasEntry(OAUTHBEARER_MODULE, "required", {})
    source = _source(settings, jaas, clock)
    return RefreshingLogin(
        MECHANISM, source.fetch, lambda token, host: OAuthBearerSaslClient(token, clock), source.what,
        close=source.close, times=RefreshTimes.of(settings), retry_backoff_ms=settings["sasl.login.retry.backoff.ms"],
        retry_backoff_max_ms=settings["sasl.login.retry.backoff.max.ms"], clock=clock, start_thread=start_thread)


class _Source(NamedTuple):
    """Where tokens come from; see RefreshingLogin.

    Attributes:
        fetch: Returns a fresh one.
        what: What it is, for messages.
        close: Breaks off a fetch that is under way.
    """

    fetch: Callable[[], OAuthToken]
    what: str
    close: Callable[[], None] | None = None


def _checked(settings: Mapping[str, Any], extensions: Mapping[str, str]) -> Callable[[str, str], OAuthToken]:
    """Return what makes a token of a JWT, and of a word for where that is from, if it says what it must."""
    scope_claim, sub_claim = settings["sasl.oauthbearer.scope.claim.name"], settings["sasl.oauthbearer.sub.claim.name"]
    validator = settings[VALIDATOR_KEY]
    validate = None if validator in _JAVA_VALIDATORS else _validator(validator)

    def token(text: str, where: str) -> OAuthToken:
        found = token_of_jwt(text, where, scope_claim=scope_claim, sub_claim=sub_claim, extensions=extensions)
        if validate is not None:
            validate(text)
        return found

    return token


def _source(settings: Mapping[str, Any], jaas: JaasEntry, clock: Clock) -> _Source:
    provider, handler = settings.get(PROVIDER_KEY), settings[HANDLER_KEY]
    if provider is not None:
        return _callback(PROVIDER_KEY, provider, settings)
    is_unsecured = handler is None and any(option.startswith(UNSECURED) for option in jaas.options)
    if is_unsecured or handler == _UNSECURED_HANDLER:
        return _Source(UnsecuredTokens(jaas.options, clock).fetch, "the token without a signature")
    if handler is None or handler in _RETRIEVING_HANDLERS:
        return _retriever(settings, jaas, clock)
    if handler == _MSK_HANDLER:
        from pyproducer.network.sasl.aws_msk_iam import MskTokens

        return _Source(MskTokens(settings, jaas.options).fetch, "the token of AWS MSK")
    if handler == GOOGLE_HANDLER:
        return _Source(GoogleTokens().fetch, "the token of Google")
    if is_azure_handler(handler):
        return _Source(AzureTokens(settings).fetch, "the token of Azure")
    if handler == STRIMZI_HANDLER:
        return _strimzi(settings, jaas, clock)
    return _callback(HANDLER_KEY, handler, settings)


def _strimzi(settings: Mapping[str, Any], jaas: JaasEntry, clock: Clock) -> _Source:
    meant = strimzi_options(jaas.options)
    if meant.access_token:
        return _Source(lambda: token_of_jwt(meant.access_token, "the token of oauth.access.token",
                                            sub_claim=meant.values["sasl.oauthbearer.sub.claim.name"]),
                       "the token given")
    options = {name: value for name, value in jaas.options.items() if name.startswith(_EXTENSION)}
    return _retriever({**settings, **meant.values, RETRIEVER_KEY: _DEFAULT_RETRIEVER},
                      JaasEntry(jaas.login_module, jaas.control_flag, SecretOptions({**options, **meant.ssl})), clock,
                      audience=meant.audience)


def _retriever(settings: Mapping[str, Any], jaas: JaasEntry, clock: Clock, *,
               audience: str = "") -> _Source:
    retriever = settings[RETRIEVER_KEY]
    if retriever not in _JAVA_RETRIEVERS:
        return _callback(RETRIEVER_KEY, retriever, settings)
    given = settings[URL_KEY]
    if given is None:
        raise ConfigError(URL_KEY, None, "OAUTHBEARER needs a source of tokens: this URL with client id and secret, "
                                         f"{PROVIDER_KEY} with a function that returns a token, or, for tokens "
                                         f"without a signature, the option {UNSECURED}StringClaim_sub of {KEY}")
    url = checked_url(given)
    checked = _checked(settings, {name[len(_EXTENSION):]: value for name, value in jaas.options.items()
                                  if name.startswith(_EXTENSION)})
    is_file = urlsplit(url).scheme.lower() == "file"
    if is_file != (retriever == _FILE_RETRIEVER) and retriever != _DEFAULT_RETRIEVER:
        raise ConfigError(RETRIEVER_KEY, retriever, f"it does not go with {URL_KEY}, which is "
                                                    f"{'a file' if is_file else 'no file'}")
    if is_file:
        path = url2pathname(urlsplit(url).path)
        what = f"the token in {path}"

        had_one = False

        def read() -> OAuthToken:
            nonlocal had_one
            try:
                text = read_text(URL_KEY, path).strip()
                claims_of(text, what)
            except AuthenticationError as error:
                if not had_one:
                    raise
                raise unavailable(str(error)) from None  # half written, perhaps
            token = checked(text, what)
            had_one = True
            return token

        return _Source(read, what)
    if retriever == _BEARER_RETRIEVER:
        file = settings[ASSERTION_FILE_KEY]
        request: TokenRequest = JwtBearer(
            (lambda: read_text(ASSERTION_FILE_KEY, file).strip()) if file else SignedAssertion(settings, clock).text,
            _either(settings, "sasl.oauthbearer.scope", jaas, "scope"))
    else:
        request = ClientCredentials(
            _either(settings, ID_KEY, jaas, "clientId"), _either(settings, SECRET_KEY, jaas, "clientSecret"),
            _either(settings, "sasl.oauthbearer.scope", jaas, "scope"), audience=audience,
            urlencodes_header=settings["sasl.oauthbearer.header.urlencode"])
    ssl_settings = {name: value for name, value in jaas.options.items() if name.startswith("ssl.")}
    endpoint = TokenEndpoint(url, request, ssl_settings, _timeouts(settings), clock)
    what = f"the token from {shown_url(url)}"
    return _Source(lambda: checked(endpoint.jwt(), what), what, endpoint.close)


def _either(settings: Mapping[str, Any], key: str, jaas: JaasEntry, option: str) -> str:
    """Return a setting, or the option of sasl.jaas.config that was its place before Kafka 4.1; "" where it is none."""
    value: str | None = settings[key]
    return value if value is not None else jaas.options.get(option, "")  # as it is: a secret stays a SecretText


def _timeouts(settings: Mapping[str, Any]) -> Timeouts:
    def seconds(key: str) -> float:
        value_ms = settings[key]
        return value_ms / 1000 if value_ms else DEFAULT_TIMEOUT_S

    return Timeouts(seconds("sasl.login.connect.timeout.ms"), seconds("sasl.login.read.timeout.ms"))


def _callback(key: str, value: object, settings: Mapping[str, Any]) -> _Source:
    _refuse_java(key, value)
    tokens = CallbackTokens(key, value, getattr(settings, "originals", settings))
    return _Source(tokens.fetch, f"the token of {tokens.name}")


def _refuse_java(key: str, value: object) -> None:
    if isinstance(value, str) and ":" not in value and (
            "." not in value or value.startswith(("com.", "io.", "net.", "org.", "software."))):
        raise ConfigError(key, value, "it is a class of Java that is not known here: give a function or an object in "
                                      f"Python that returns a token, here or as {PROVIDER_KEY}")


def _validator(value: object) -> Any:
    """Return what is asked whether a token is good: it raises where it is not, an AuthenticationError where that stays.

    Raises:
        ConfigError: It cannot be made, or called. Nothing was started.
    """
    _refuse_java(VALIDATOR_KEY, value)
    found = make_instance(VALIDATOR_KEY, import_object(VALIDATOR_KEY, value) if isinstance(value, str) else value)
    check: Any = getattr(found, "validate", found)
    if not callable(check):
        raise ConfigError(VALIDATOR_KEY, value, "give a function of a token, or an object with validate(token)")
    return check
