"""Tokens without a signature, as Java's OAuthBearerUnsecuredLoginCallbackHandler makes them."""

from __future__ import annotations

import pytest

from pyproducer.common.errors import ConfigError
from pyproducer.network.sasl.oauth_token import claims_of
from pyproducer.network.sasl.unsecured_token import UnsecuredTokens
from tests.support.clock import ManualClock

NOW_MS = 1_700_000_000_000


def test_token_when_the_options_name_claims_then_they_are_in_it():
    token = UnsecuredTokens({
        "unsecuredLoginStringClaim_sub": "ada", "unsecuredLoginNumberClaim_level": "7",
        "unsecuredLoginListClaim_scope": "|produce|describe", "unsecuredLoginExtension_traceId": "1",
        "unsecuredLoginLifetimeSeconds": "60", "somethingElse": "x"}, ManualClock()).fetch()
    header, _, signature = token.value.split(".")
    assert (header, signature) == ("eyJhbGciOiJub25lIn0", "")
    assert claims_of(token.value, "") == {
        "sub": "ada", "level": 7.0, "scope": ["produce", "describe"], "iat": NOW_MS / 1000, "exp": NOW_MS / 1000 + 60}
    assert (token.principal, token.scope, token.extensions) == ("ada", ("produce", "describe"), {"traceId": "1"})
    assert (token.started_at_ms, token.expires_at_ms) == (NOW_MS, NOW_MS + 60_000)


def test_token_when_the_claims_have_other_names_then_those_count():
    token = UnsecuredTokens({"unsecuredLoginPrincipalClaimName": "user", "unsecuredLoginStringClaim_user": "bob",
                             "unsecuredLoginScopeClaimName": "may", "unsecuredLoginStringClaim_may": "a b"},
                            ManualClock()).fetch()
    assert (token.principal, token.scope) == ("bob", ("a", "b"))
    assert token.expires_at_ms == NOW_MS + 3_600_000


@pytest.mark.parametrize(("options", "why"), [
    ({}, "unsecuredLoginStringClaim_sub"),
    ({"unsecuredLoginStringClaim_sub": " "}, "unsecuredLoginStringClaim_sub"),
    ({"unsecuredLoginStringClaim_sub": "x", "unsecuredLoginNumberClaim_exp": "5"}, "'exp' cannot be chosen"),
    ({"unsecuredLoginStringClaim_sub": "x", "unsecuredLoginNumberClaim_n": "five"}, "must be numbers"),
    ({"unsecuredLoginStringClaim_sub": "x", "unsecuredLoginLifetimeSeconds": "1h"}, "must be numbers"),
    ({"unsecuredLoginStringClaim_sub": "x", "unsecuredLoginLifetimeSeconds": "inf"}, "must be numbers"),
    ({"unsecuredLoginStringClaim_sub": "x", "unsecuredLoginNumberClaim_n": "nan"}, "must be numbers"),
    ({"unsecuredLoginStringClaim_sub": "x", "unsecuredLoginExtension_auth": "y"}, "SASL extension"),
])
def test_options_when_they_make_no_sense_then_it_is_said_at_once(options, why):
    with pytest.raises(ConfigError, match=why):
        UnsecuredTokens(options, ManualClock())
