"""What a JWT says of itself, what must be right in it, and that no error shows it."""

from __future__ import annotations

import pickle
from typing import Any, cast

import pytest

from pyproducer.common.errors import AuthenticationError
from pyproducer.network.sasl.oauth_token import OAuthToken, ensure_sendable, token_of_jwt
from tests.unit.network.sasl.tokens import CLAIMS, jwt

WHERE = "the token of the test"


def test_token_when_all_claims_are_there_then_it_says_them():
    text = jwt(CLAIMS)
    token = token_of_jwt(text, WHERE)
    assert token == OAuthToken(text, 1_800_000_000_000, "ada", ("produce", "describe"), {}, 1_799_990_000_000)


def test_token_when_the_claims_have_other_names_then_those_are_read():
    token = token_of_jwt(jwt({"client_id": "bob", "scp": ["a", "b"], "exp": 1_800_000_000.5}), WHERE,
                         scope_claim="scp", sub_claim="client_id")
    assert (token.principal, token.scope, token.expires_at_ms) == ("bob", ("a", "b"), 1_800_000_000_500)


@pytest.mark.parametrize(("text", "why"), [
    ("opaque", "is no JWT, with 1 parts"),
    ("a.b", "is no JWT, with 2 parts"),
    ("a.b.c.d.e", "is no JWT, with 5 parts"),  # encrypted
    ("a.!!!.c", "no JSON object"),
    ("a.YWJj.c", "no JSON object"),
    (jwt([1]), "no JSON object"),
    (jwt(CLAIMS | {"exp": None}), "no claim 'exp'"),
    (jwt(CLAIMS | {"exp": "soon"}), "in its claim 'exp', not a str"),
    (jwt(CLAIMS | {"exp": True}), "in its claim 'exp', not True"),
    (jwt(CLAIMS | {"exp": -1}), "in its claim 'exp', not -1"),
    (jwt(CLAIMS | {"exp": float("nan")}), "in its claim 'exp', not nan"),
    (jwt(CLAIMS | {"exp": 1_800_000_000_000}), "in its claim 'exp', not 1800000000000"),  # milliseconds
    (jwt(CLAIMS | {"iat": "then"}), "in its claim 'iat', not a str"),
    (jwt(CLAIMS | {"iat": CLAIMS["exp"]}), "'iat' is not before 'exp'"),
    (jwt(CLAIMS | {"sub": None}), "in its claim 'sub', not None; its claims are exp, iat, scope, sub"),
    (jwt(CLAIMS | {"sub": "  "}), "in its claim 'sub'"),
    (jwt(CLAIMS | {"sub": 7}), "in its claim 'sub', not 7"),
    (jwt(CLAIMS | {"scope": {"a": 1}}), "as its scope, not a dict"),
    (jwt(CLAIMS, signature="a b"), "characters that none may have"),
])
def test_token_when_something_is_wrong_then_the_error_says_what_and_shows_nothing_of_it(text, why):
    with pytest.raises(AuthenticationError) as raised:
        token_of_jwt(text, WHERE)
    assert why in str(raised.value)
    assert len(text) < 10 or text not in str(raised.value)


@pytest.mark.parametrize(("token", "why"), [
    (OAuthToken(""), "an empty str"),
    (OAuthToken(cast(Any, None)), "is None"),
    (OAuthToken(cast(Any, b"abc")), "a bytes"),
    (OAuthToken("abc\x01auth=Bearer x"), "characters that none may have"),
    (OAuthToken("two words"), "characters that none may have"),
    (OAuthToken("line\n"), "characters that none may have"),
    (OAuthToken("e\N{LATIN SMALL LETTER E WITH ACUTE}"), "characters that none may have"),
    (OAuthToken("a=b"), "characters that none may have"),
    (OAuthToken("{\"access_token\": \"abc\"}"), "a whole answer"),
    (OAuthToken("abc", extensions={"auth": "x"}), "name of a SASL extension"),
    (OAuthToken("abc", extensions={"with space": "x"}), "name of a SASL extension"),
    (OAuthToken("abc", extensions={"a1": "x"}), "name of a SASL extension"),
    (OAuthToken("abc", extensions={"": "x"}), "name of a SASL extension"),
    (OAuthToken("abc", extensions={"name": "a\x01b"}), "extension 'name'"),
    (OAuthToken("abc", extensions={"name": ""}), "extension 'name'"),
])
def test_token_when_the_first_message_cannot_hold_it_then_it_is_refused(token, why):
    with pytest.raises(AuthenticationError, match=why):
        ensure_sendable(token)


def test_token_when_it_is_shown_or_pickled_then_its_secrets_are_not():
    token = OAuthToken("hunter2", 5, "ada", extensions={"identityPoolId": "hunter2"})
    assert "hunter2" not in repr(token)
    assert "ada" in repr(token)
    with pytest.raises(TypeError, match="secret"):
        pickle.dumps(token)
