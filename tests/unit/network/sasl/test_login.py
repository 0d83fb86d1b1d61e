"""Which login the settings ask for, what is missing in them, and that secrets show nowhere."""

from __future__ import annotations

import base64
import json
import pickle
import re
import traceback
from typing import Any

import pytest

from pyproducer.common.errors import ConfigError, TransportError
from pyproducer.common.jaas import SecretOptions
from pyproducer.network.sasl.login import StaticLogin, login_for
from pyproducer.network.sasl.oauth_token import OAuthToken
from pyproducer.network.sasl.oauthbearer import OAuthBearerSaslClient, token_times
from pyproducer.network.sasl.password import PasswordCredentials
from pyproducer.network.sasl.plain import PlainSaslClient
from pyproducer.network.sasl.scram import ScramSaslClient
from tests.support.clock import ManualClock
from tests.unit.network.sasl.test_scram import EXCHANGES

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
SECRET = "s3cr3t"


def settings(mechanism: str, jaas: str | None, protocol: str = "SASL_SSL") -> dict[str, Any]:
    return {"security.protocol": protocol, "sasl.mechanism": mechanism, "sasl.jaas.config": jaas}


def jaas(module: str) -> str:
    return f'{module} required username="alice" password="{SECRET}";'


@pytest.mark.parametrize("protocol", ["PLAINTEXT", "SSL"])
def test_login_when_there_is_no_sasl_then_none(protocol: str) -> None:
    assert login_for(settings("PLAIN", jaas(PLAIN), protocol)) is None


@pytest.mark.parametrize(("mechanism", "module", "kind"), [
    ("PLAIN", PLAIN, PlainSaslClient), ("SCRAM-SHA-256", SCRAM, ScramSaslClient),
    ("SCRAM-SHA-512", SCRAM, ScramSaslClient)])
def test_login_when_a_password_is_in_the_settings_then_it_is_there_at_once(
        mechanism: str, module: str, kind: type) -> None:
    login = login_for(settings(mechanism, jaas(module)))
    assert login is not None
    login.start(lambda: None)
    assert (login.is_ready, login.error) == (True, None)
    client = login.new_client("broker")
    assert type(client) is kind
    assert client.mechanism == login.mechanism == mechanism
    login.close()
    assert not login.is_ready
    with pytest.raises(TransportError, match="the login is closed"):
        login.new_client("broker")


@pytest.mark.parametrize(("mechanism", "text", "key", "words"), [
    ("PLAIN", None, "sasl.jaas.config", "sasl.mechanism = PLAIN needs user name and password: set it to org.apache"),
    ("PLAIN", jaas(SCRAM), "sasl.jaas.config", f"the login module of sasl.mechanism = PLAIN is {PLAIN}"),
    ("GSSAPI", jaas(PLAIN), "sasl.mechanism", "is for PLAIN: set sasl.mechanism to that"),
    ("OAUTHBEARER", jaas(SCRAM), "sasl.mechanism", "is for SCRAM-SHA-256 or SCRAM-SHA-512"),
    ("plain", None, "sasl.mechanism", "set it to one of AWS_MSK_IAM, GSSAPI, OAUTHBEARER, PLAIN"),
    ("PLAIN", f'{PLAIN} required username="alice";', "sasl.jaas.config", "no option password"),
    ("PLAIN", f'{PLAIN} required password="{SECRET}";', "sasl.jaas.config", "no option username"),
    ("PLAIN", f'{PLAIN} required password="{SECRET}"', "sasl.jaas.config", "semicolon"),
])
def test_login_when_settings_do_not_fit_then_the_key_and_what_to_set(
        mechanism: str, text: str | None, key: str, words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        login_for(settings(mechanism, text))
    assert caught.value.key == key
    assert words in str(caught.value)
    assert SECRET not in str(caught.value)
    shown = traceback.TracebackException.from_exception(caught.value, capture_locals=True)
    frames = [frame for frame in shown.stack if "pyproducer" in frame.filename and "tests" not in frame.filename]
    # The settings themselves are the caller's mapping; a ProducerConfig hides them.
    assert not [value for frame in frames for name, value in (frame.locals or {}).items()
                if SECRET in value and name != "settings"]


@pytest.mark.parametrize("make", [
    lambda: PasswordCredentials({"username": "alice", "password": SECRET}),
    lambda: StaticLogin("PLAIN", PasswordCredentials({"username": "alice", "password": SECRET}), PlainSaslClient),
    lambda: OAuthBearerSaslClient(OAuthToken(SECRET))])
def test_secret_when_its_holder_is_shown_or_pickled_then_it_is_not_there(make: Any) -> None:
    holder = make()
    assert SECRET not in repr(holder)
    with pytest.raises(TypeError, match="cannot be pickled"):
        pickle.dumps(holder)


def test_scram_when_it_is_the_rfcs_exchange_then_its_messages() -> None:
    for mechanism, (client_first, server_first, client_final, server_final) in EXCHANGES.items():
        nonce = client_first.rpartition(b"r=")[2].decode()
        client = ScramSaslClient(mechanism, PasswordCredentials({"username": "user", "password": "pencil"}),
                                 lambda nonce=nonce: nonce)
        assert client.evaluate_challenge(b"") == client_first
        assert client.evaluate_challenge(server_first) == client_final
        assert not client.complete
        assert client.evaluate_challenge(server_final) is None
        assert client.complete


@pytest.mark.parametrize("password", ["s3cr3t\0", "s3cr3t\ud800"])
def test_password_when_it_cannot_be_sent_then_refused_before_anything_starts(password: str) -> None:
    with pytest.raises(ConfigError, match="the option password has a character that cannot be sent") as caught:
        PasswordCredentials(SecretOptions({"username": "alice", "password": password}))
    assert SECRET not in str(caught.value)


# ---- tokens


@pytest.mark.parametrize(("claims", "words"), [
    ({"iat": 900, "exp": 990}, "the token has expired 10 s ago by this machine's clock"),
    ({"iat": 1060, "exp": 2000}, "becomes valid only in 60 s"),
    ({"nbf": 1001, "iat": 900, "exp": 2000}, "becomes valid only in 1 s"),
    ({"iat": 900, "exp": 1300}, r"valid, from 100 s ago for another 300 s: compare the clock .* \(clock skew\)"),
    ({"exp": 1300}, "valid for another 300 s"),
    ({"exp": "soon"}, "tells no times of its own"),
    ({"exp": 10**400}, "tells no times of its own"),
    ({}, "tells no times of its own")])
def test_token_when_it_is_refused_then_its_own_times_say_what_may_be_wrong(claims: dict[str, Any], words: str) -> None:
    assert re.search(words, token_times(claims, 1_000_000))


def test_claims_when_the_token_is_a_jwt_then_read_unchecked() -> None:
    def jwt(payload: bytes) -> str:
        return "x." + base64.urlsafe_b64encode(payload).decode().rstrip("=") + ".y"

    clock = ManualClock(timestamp_ms=15_000)
    hint = OAuthBearerSaslClient(OAuthToken(jwt(json.dumps({"exp": 5}).encode())), clock).refusal_hint
    assert hint.startswith("the token has expired 10 s ago")
    for other in ("opaque", jwt(b"[1]"), jwt(b"{"), "x.a.y", jwt(b"[" * 100_000)):
        hint = OAuthBearerSaslClient(OAuthToken(other), clock).refusal_hint
        assert hint.startswith("the token tells no times of its own")
