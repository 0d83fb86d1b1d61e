"""Vendors' login handlers, by the names of their Java classes: where their tokens come from here."""

from __future__ import annotations

import base64
import datetime
import json
import sys
import time
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from pyproducer import ProducerConfig
from pyproducer.common.errors import AuthenticationError, ConfigError
from pyproducer.common.jaas import OAUTHBEARER_MODULE
from pyproducer.network.sasl import vendor_tokens
from pyproducer.network.sasl.token_login import token_login
from pyproducer.network.sasl.vendor_tokens import GOOGLE_HANDLER, STRIMZI_HANDLER, is_azure_handler, strimzi_options
from tests.support.issuer import Issuer
from tests.support.secret_hunt import SecretHunt

ENDS_S = int(time.time()) + 3600


def jwt(**claims: object) -> str:
    return ".".join(base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=")
                    for part in ({"alg": "none"}, claims)) + ".c2ln"


def part(text: str) -> Any:
    return json.loads(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))


def login_of(handler: str, options: str = "", **more: str) -> Any:
    return token_login(ProducerConfig({
        "bootstrap.servers": "demo.servicebus.windows.example:9093", "security.protocol": "SASL_SSL",
        "sasl.mechanism": "OAUTHBEARER", "sasl.login.callback.handler.class": handler,
        "sasl.jaas.config": f"{OAUTHBEARER_MODULE} required {options};", **more}))


def token_of(handler: str, options: str = "") -> Any:
    return login_of(handler, options)._fetch()


@pytest.fixture
def modules(monkeypatch: pytest.MonkeyPatch):
    """Put modules in the place of packages that need not be installed."""
    def put(**found: dict[str, object]) -> None:
        for name, members in found.items():
            module = ModuleType(name.replace("__", "."))
            module.__dict__.update(members)
            monkeypatch.setitem(sys.modules, module.__name__, module)
        monkeypatch.setattr(vendor_tokens, "is_installed", lambda module: True)

    return put


class Refused(Exception):
    """As google-auth and azure-identity raise."""


def google(account: str | None, expiry: datetime.datetime) -> dict[str, dict[str, object]]:
    credentials = SimpleNamespace(token="ya29.opaque-token", expiry=expiry, service_account_email=account,
                                  refresh=lambda request: None)
    return {"google": {}, "google__auth": {"default": lambda scopes: (credentials, "project")},
            "google__auth__exceptions": {"DefaultCredentialsError": Refused}, "google__auth__transport": {},
            "google__auth__transport__requests": {"Request": object}}


def test_google_when_its_handler_is_named_then_the_token_is_in_its_frame(modules) -> None:
    modules(**google("orders@project.iam.example", datetime.datetime.fromtimestamp(ENDS_S, datetime.timezone.utc)))
    token = token_of(GOOGLE_HANDLER)
    header, claims, inner = token.value.split(".")
    assert part(header) == {"typ": "JWT", "alg": "GOOG_OAUTH2_TOKEN"}
    assert part(claims) == {"exp": ENDS_S, "iat": ENDS_S - 3600, "iss": "Google", "scope": "kafka",
                            "sub": "orders@project.iam.example"}
    assert base64.urlsafe_b64decode(inner + "=" * (-len(inner) % 4)) == b"ya29.opaque-token"
    assert (token.expires_at_ms, token.principal) == (ENDS_S * 1000, "orders@project.iam.example")


@pytest.mark.parametrize("account", ["default", "", None])
def test_google_when_nobody_tells_the_account_then_the_variable_does(
        modules, monkeypatch: pytest.MonkeyPatch, account: str | None) -> None:
    modules(**google(account, datetime.datetime.fromtimestamp(ENDS_S, datetime.timezone.utc)))
    with pytest.raises(AuthenticationError, match="GOOGLE_MANAGED_KAFKA_AUTH_PRINCIPAL"):
        token_of(GOOGLE_HANDLER)
    monkeypatch.setenv("GOOGLE_MANAGED_KAFKA_AUTH_PRINCIPAL", "a@b")
    assert token_of(GOOGLE_HANDLER).principal == "a@b"


def test_google_when_there_are_no_credentials_then_that_is_told(modules) -> None:
    def default(scopes: object) -> None:
        raise Refused("could not be found")

    modules(**{**google("a", datetime.datetime(2030, 1, 1)), "google__auth": {"default": default}})
    with pytest.raises(AuthenticationError, match="no credentials of Google were found: could not"):
        token_of(GOOGLE_HANDLER)


def azure(get_token: Any) -> dict[str, dict[str, object]]:
    return {"azure": {}, "azure__identity": {"DefaultAzureCredential": lambda: SimpleNamespace(get_token=get_token)},
            "azure__core": {}, "azure__core__exceptions": {"ClientAuthenticationError": Refused}}


@pytest.mark.parametrize("handler", ["CustomAuthenticateCallbackHandler", "com.azure.spring.cloud.service."
                                     "implementation.kafka.KafkaOAuth2AuthenticateCallbackHandler"])
def test_azure_when_its_handler_is_named_then_the_token_is_of_the_namespace(handler: str, modules) -> None:
    asked = []
    modules(**azure(lambda scope: asked.append(scope) or SimpleNamespace(token=jwt(exp=ENDS_S, sub="app"))))
    token = token_of(handler)
    assert asked == ["https://demo.servicebus.windows.example/.default"]
    assert (token.principal, token.expires_at_ms) == ("app", ENDS_S * 1000)


def test_azure_when_it_refuses_then_that_is_told(modules) -> None:
    def get_token(scope: str) -> None:
        raise Refused("no identity")

    modules(**azure(get_token))
    with pytest.raises(AuthenticationError, match=r"Azure gives no token for https://demo.*: no identity"):
        token_of("CustomAuthenticateCallbackHandler")


def test_azure_when_a_handler_is_somebody_elses_then_it_is_not_azures() -> None:
    assert not is_azure_handler("com.example.CustomAuthenticateCallbackHandler")
    assert not is_azure_handler(None)


@pytest.mark.parametrize(("handler", "extra"), [(GOOGLE_HANDLER, "google"),
                                                ("CustomAuthenticateCallbackHandler", "azure")])
def test_vendor_when_its_package_is_missing_then_the_constructor_says_which(
        handler: str, extra: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vendor_tokens, "is_installed", lambda module: False)
    with pytest.raises(ConfigError, match=rf"pip install 'pyproducer\[{extra}\]'"):
        login_of(handler)


CREDENTIALS = ('oauth.client.id="orders" oauth.client.secret="s3cret" oauth.scope="kafka" '
               'oauth.token.endpoint.uri="https://issuer.example/token"')


def test_strimzi_when_it_has_client_and_secret_then_they_ask_the_endpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "localhost,127.0.0.1")
    with Issuer() as issuer:
        monkeypatch.setenv("OAUTH_TOKEN_ENDPOINT_URI", issuer.token_url)
        assert token_of(STRIMZI_HANDLER, CREDENTIALS + ' oauth.audience="a&b"').principal == "ada"
    assert issuer.asked[0].form == {"grant_type": "client_credentials", "scope": "kafka", "audience": "a&b"}
    assert issuer.asked[0].basic == "orders:s3cret"


def test_strimzi_when_the_environment_says_otherwise_then_that_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OAUTH_TOKEN_ENDPOINT_URI", "https://other.example/token")
    monkeypatch.setenv("OAUTH_SSL_TRUSTSTORE_CERTIFICATES", "pem")
    meant = strimzi_options({"oauth.token.endpoint.uri": "https://issuer.example/token"})
    assert meant.values["sasl.oauthbearer.token.endpoint.url"] == "https://other.example/token"
    assert meant.ssl == {"ssl.truststore.certificates": "pem"}


@pytest.mark.parametrize("uri", ["https://issuer.example/token", "ftp://issuer.example/token"])
def test_strimzi_when_secrets_of_the_environment_do_not_serve_then_no_frame_shows_them(
        monkeypatch: pytest.MonkeyPatch, uri: str) -> None:
    """They are plain texts, not those of a setting, and stood in the variables of our frames."""
    secret = "s3cret-of-the-environment"
    monkeypatch.setenv("OAUTH_CLIENT_SECRET", secret)
    monkeypatch.setenv("OAUTH_SSL_TRUSTSTORE_PASSWORD", secret)
    with SecretHunt(secret) as hunt, hunt.errors(ConfigError):
        login_of(STRIMZI_HANDLER, f'oauth.token.endpoint.uri="{uri}"')
    monkeypatch.setenv("OAUTH_ACCESS_TOKEN", secret)
    with SecretHunt(secret) as hunt:
        hunt.look("what they mean", strimzi_options({}))
        login = login_of(STRIMZI_HANDLER)
        login.run_once()
        hunt.look("login", vars(login))
        hunt.look_error("error", login.error)
    assert "the token of oauth.access.token is no JWT" in str(login.error)


def test_strimzi_when_the_claim_with_the_name_is_missing_then_the_error_names_it() -> None:
    with pytest.raises(AuthenticationError, match="a subject in its claim 'who', not None"):
        token_of(STRIMZI_HANDLER, f'oauth.username.claim="who" oauth.access.token="{jwt(exp=ENDS_S)}"')


def test_strimzi_when_it_has_a_token_then_that_is_sent() -> None:
    token = token_of(STRIMZI_HANDLER, f'oauth.access.token="{jwt(exp=ENDS_S, sub="ada")}"')
    assert (token.principal, token.expires_at_ms) == ("ada", ENDS_S * 1000)


@pytest.mark.parametrize("name", ["token", "a#b", "a?b", "a%20b", "a b"])
def test_strimzi_when_a_file_has_the_token_then_it_is_read(tmp_path, name) -> None:
    """Its name became part of a URL as it was, in which some characters mean something."""
    (tmp_path / name).write_text(jwt(exp=ENDS_S, sub="ada"))
    assert token_of(STRIMZI_HANDLER, f'oauth.access.token.location="{tmp_path / name}"').principal == "ada"


@pytest.mark.parametrize(("options", "words"), [
    ("", "needs oauth.token.endpoint.uri with oauth.client.id"),
    (CREDENTIALS + ' oauth.refresh.token="x"', "oauth.refresh.token has no counterpart here: give oauth.client.id"),
    (CREDENTIALS + ' oauth.password.grant.username="x"', "oauth.password.grant.username has no counterpart")])
def test_strimzi_when_its_options_mean_nothing_here_then_it_says_what_to_write(options: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        login_of(STRIMZI_HANDLER, options)
