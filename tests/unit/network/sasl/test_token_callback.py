"""The shapes of the application's own tokens, and what is said of those that have none."""

from __future__ import annotations

import asyncio
import base64

import pytest

from pyproducer.common.errors import AuthenticationError, ConfigError
from pyproducer.network.sasl.oauth_token import OAuthToken
from pyproducer.network.sasl.token_callback import CallbackTokens
from tests.unit.network.sasl.tokens import CLAIMS, jwt

KEY = "pyproducer.oauth.token.provider"
JWT = jwt(CLAIMS)
NOW_S = 1_799_995_000


def fetched(value: object, props: dict[str, object] | None = None) -> OAuthToken:
    return CallbackTokens(KEY, value, props or {}).fetch()


def test_function_when_it_returns_a_jwt_then_its_claims_say_when_it_ends():
    token = fetched(lambda: JWT)
    assert (token.value, token.expires_at_ms, token.started_at_ms, token.principal) == (
        JWT, 1_800_000_000_000, 1_799_990_000_000, "ada")


def test_function_when_it_returns_another_text_then_its_end_is_not_known():
    token = fetched(lambda: "opaque")
    assert (token.value, token.expires_at_ms, token.started_at_ms) == ("opaque", None, None)


@pytest.mark.parametrize("exp", ["1e999", "NaN", "1" + "0" * 400, "-1", "1e300"])
def test_function_when_its_jwt_ends_at_no_time_then_its_end_is_not_known(exp):
    payload = base64.urlsafe_b64encode(b'{"sub": "ada", "exp": %s, "iat": %s}' % (exp.encode(), exp.encode()))
    token = fetched(lambda: f"e30.{payload.rstrip(b'=').decode()}.e30")
    assert (token.expires_at_ms, token.started_at_ms, token.principal) == (None, None, "ada")


@pytest.mark.parametrize("ends", [NOW_S, float(NOW_S), NOW_S * 1000])  # the signer of MSK tells milliseconds
def test_function_when_it_says_when_the_token_ends_then_that_counts(ends):
    assert fetched(lambda: ("opaque", ends)).expires_at_ms == NOW_S * 1000


def test_function_when_it_is_an_oauth_cb_of_confluent_kafka_then_it_gets_a_text_and_gives_four():
    def oauth_cb(config):
        assert config == ""
        return "opaque", NOW_S + 0.5, "ada", {"traceId": "1"}

    assert fetched(oauth_cb) == OAuthToken("opaque", NOW_S * 1000 + 500, "ada", (), {"traceId": "1"}, None)


def test_function_when_it_returns_our_own_token_then_it_is_taken_as_it_is():
    extensions = {"a": "b"}
    own = OAuthToken("opaque", 5, "ada", ("produce",), extensions, 4)
    token = fetched(lambda: own)
    assert token == own
    extensions["a"] = "b\x01auth=Bearer other"
    assert token.extensions == {"a": "b"}


def test_function_when_it_is_async_then_it_is_awaited():
    async def token():
        await asyncio.sleep(0)
        return "opaque", NOW_S

    assert fetched(token).expires_at_ms == NOW_S * 1000


def test_object_when_it_is_a_token_provider_of_kafka_python_then_both_methods_are_called():
    class Provider:
        def token(self):
            return "opaque"

        def extensions(self):
            return {"traceId": 1}

    for value in (Provider, Provider(), f"{__name__}:OfAiokafka"):
        assert fetched(value).value == "opaque"
    assert fetched(Provider).extensions == {"traceId": "1"}


class OfAiokafka:
    async def token(self):
        return "opaque"


def test_object_when_it_is_a_retriever_of_java_then_it_is_asked_and_configured():
    class Retriever:
        def configure(self, props):
            self.name = props["my.name"]

        def retrieve(self):
            return self.name

    assert fetched(Retriever, {"my.name": "opaque"}).value == "opaque"


@pytest.mark.parametrize(("given", "why"), [
    (None, "returned a NoneType"),
    (b"bytes", "returned a bytes"),
    ({"access_token": "x"}, "returned a dict"),
    ((), "returned a tuple of 0"),
    (("a", 1, "b", {}, "c"), "returned a tuple of 5"),
    ((None, NOW_S), "returned a tuple of 2"),
    (("a", 3600), "3600 for when the token ends"),  # a span
    (("a", "3600"), "'str' for when the token ends"),
    (("a", True), "True for when the token ends"),
    (("a", float("inf")), "inf for when the token ends"),
    (("a", NOW_S, "ada", ["x"]), "extensions must be a dict, not a list"),
    ("Bearer abc", "without 'Bearer'"),
    ("two words", "characters that none may have"),
    ("", "an empty str"),
])
def test_function_when_it_returns_nonsense_then_the_error_says_what(given, why):
    with pytest.raises(AuthenticationError, match=why):
        fetched(lambda: given)


def test_function_when_it_raises_then_that_comes_out():
    def token():
        raise LookupError("no vault")

    with pytest.raises(LookupError, match="no vault"):
        fetched(token)


@pytest.mark.parametrize(("value", "why"), [
    (7, "object with token"),
    (lambda a, b: None, "more than one argument"),
    ("no_such_module:thing", "cannot be imported"),
    (f"{__name__}:Nothing", "has no 'Nothing'"),
])
def test_setting_when_nothing_can_be_asked_for_a_token_then_it_is_refused_at_once(value, why):
    with pytest.raises(ConfigError, match=why):
        CallbackTokens(KEY, value, {})


def test_setting_when_the_class_cannot_be_made_or_configured_then_it_is_refused_at_once():
    class Unmade:
        def __init__(self, needed):
            pass

    class Unconfigured:
        def configure(self, props):
            raise ValueError("no name")

        def token(self):
            return "x"

    with pytest.raises(ConfigError, match="Unmade"):
        CallbackTokens(KEY, Unmade, {})
    with pytest.raises(ConfigError, match="no name"):
        CallbackTokens(KEY, Unconfigured, {})


def test_builtin_when_it_does_not_tell_its_arguments_then_it_is_called_without():
    assert fetched("opaque".__str__).value == "opaque"
