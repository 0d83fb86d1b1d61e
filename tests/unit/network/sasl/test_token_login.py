"""Which source of tokens settings mean, and a login from its start to the first message of OAUTHBEARER."""

from __future__ import annotations

import inspect
import logging
import re
import threading
import time
import traceback
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from pyproducer.common.errors import NOT_SENT, AuthenticationError, ConfigError, TransportError
from pyproducer.network.sasl.login import login_for
from pyproducer.network.sasl.refreshing_login import RefreshingLogin
from pyproducer.network.sasl.token_login import token_login
from pyproducer.producer.config import ProducerConfig
from tests.support.clock import ManualClock
from tests.support.issuer import Answer, Asked, Issuer, json_answer
from tests.support.patience import GIVE_UP_S
from tests.support.secret_hunt import SecretHunt
from tests.unit.network.sasl.logins import NoThread
from tests.unit.network.sasl.tokens import CLAIMS, jwt

MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
JAVA = "org.apache.kafka.common.security.oauthbearer."
NOW_MS = (CLAIMS["exp"] - 3600) * 1000
SECRET = "hunter2hunter2"
HOUR_MS = 3_600_000


@pytest.fixture
def issuer(monkeypatch: pytest.MonkeyPatch) -> Iterator[Issuer]:
    monkeypatch.setenv("no_proxy", "localhost,127.0.0.1")
    with Issuer() as running:
        yield running


def settings(options: str = "", props: Mapping[str, object] = MappingProxyType({})) -> ProducerConfig:
    given = dict(props)
    if options:
        given["sasl.jaas.config"] = f"{MODULE} required {options};"
    return ProducerConfig({"bootstrap.servers": "localhost:9092", "security.protocol": "SASL_SSL",
                           "sasl.mechanism": "OAUTHBEARER", **given})


def stepped(config: ProducerConfig, clock: ManualClock | None = None) -> RefreshingLogin[Any]:
    """Return a login that was started and has fetched once, or failed."""
    login = token_login(config, clock=clock or ManualClock(timestamp_ms=NOW_MS), start_thread=NoThread())
    login.start(lambda: None)
    login.run_once()
    return login


def first_message(login: RefreshingLogin[Any]) -> str:
    message = login.new_client("broker").evaluate_challenge(b"")
    assert message is not None
    return message.decode()


# Which source ---------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("key", ["pyproducer.oauth.token.provider", "sasl.login.callback.handler.class",
                                 "sasl.oauthbearer.jwt.retriever.class"])
def test_callback_when_any_of_the_three_keys_names_it_then_its_token_is_sent(key):
    login = stepped(settings(props={key: lambda: (jwt(), CLAIMS["exp"], "ada", {"traceId": "7"})}))
    assert login.error is None
    assert first_message(login) == f"n,,\x01auth=Bearer {jwt()}\x01traceId=7\x01\x01"


@pytest.mark.parametrize("handler", [
    None, JAVA + "internals.unsecured.OAuthBearerUnsecuredLoginCallbackHandler"])
def test_unsecured_token_when_options_of_jaas_describe_it_then_it_is_made(handler):
    login = stepped(settings('unsecuredLoginStringClaim_sub="ada" unsecuredLoginExtension_traceId="7"',
                             {"sasl.login.callback.handler.class": handler}))
    assert first_message(login).startswith("n,,\x01auth=Bearer eyJhbGciOiJub25lIn0.")
    assert first_message(login).endswith(".\x01traceId=7\x01\x01")


@pytest.mark.parametrize("retriever", ["DefaultJwtRetriever", "FileJwtRetriever"])
def test_file_when_the_url_names_one_then_the_token_is_read_and_read_again(tmp_path, retriever):
    path = tmp_path / "a token"
    path.write_text(jwt() + "\n")
    clock = ManualClock(timestamp_ms=NOW_MS)
    login = stepped(settings(props={"sasl.oauthbearer.token.endpoint.url": path.as_uri(),
                                "sasl.oauthbearer.jwt.retriever.class": JAVA + retriever}), clock)
    assert f"Bearer {jwt()}" in first_message(login)
    newer = jwt(CLAIMS | {"exp": CLAIMS["exp"] + 3600})
    path.write_text(newer)
    clock.advance(3_000_000)
    login.run_once()
    assert f"Bearer {newer}" in first_message(login)


@pytest.mark.parametrize("content", [None, "", "\n"])
def test_file_when_it_holds_no_token_yet_then_records_wait_for_it(tmp_path, content):
    """A sidecar writes it a moment after the start, or has just emptied it to write a new one. That counted as a
    refusal, so all records that waited failed at once.
    """
    path = tmp_path / "token"
    if content is not None:
        path.write_text(content)
    clock = ManualClock(timestamp_ms=NOW_MS)
    login = stepped(settings(props={"sasl.oauthbearer.token.endpoint.url": path.as_uri()}), clock)
    assert type(login.error) is TransportError
    assert (login.error.retriable, login.error.outcome) == (True, NOT_SENT)
    assert str(path) in str(login.error)
    path.write_text(jwt())
    clock.advance(1_000)
    login.run_once()
    assert f"Bearer {jwt()}" in first_message(login)


NO_JWT = [jwt().encode()[:40], b"opaque", b"a.b.c", b"\xff\xfe", b'{"access_token":"x"}']


@pytest.mark.parametrize("content", NO_JWT)
def test_file_when_the_first_it_holds_is_no_jwt_then_that_is_a_refusal(tmp_path, content):
    """No time makes a JWT of another kind of token, and what waited for that waited delivery.timeout.ms."""
    path = tmp_path / "token"
    path.write_bytes(content)
    clock = ManualClock(timestamp_ms=NOW_MS)
    login = stepped(settings(props={"sasl.oauthbearer.token.endpoint.url": path.as_uri()}), clock)
    assert isinstance(login.error, AuthenticationError)
    assert str(path) in str(login.error)
    path.write_text(jwt())
    clock.advance(2_000)
    login.run_once()
    assert f"Bearer {jwt()}" in first_message(login)


@pytest.mark.parametrize("content", NO_JWT)
def test_file_when_it_had_a_token_and_is_half_written_then_records_wait_for_the_next(tmp_path, content):
    path = tmp_path / "token"
    path.write_text(jwt())
    clock = ManualClock(timestamp_ms=NOW_MS)
    login = stepped(settings(props={"sasl.oauthbearer.token.endpoint.url": path.as_uri()}), clock)
    path.write_bytes(content)
    clock.advance(HOUR_MS)
    login.run_once()
    assert not login.is_ready
    assert type(login.error) is TransportError
    assert (login.error.retriable, login.error.outcome) == (True, NOT_SENT)


def test_file_when_its_token_lacks_what_each_must_have_then_it_is_refused(tmp_path):
    path = tmp_path / "token"
    path.write_text(jwt({"sub": "ada"}))
    login = stepped(settings(props={"sasl.oauthbearer.token.endpoint.url": path.as_uri()}))
    assert isinstance(login.error, AuthenticationError)
    assert "'exp'" in str(login.error)


def test_credentials_when_they_stand_in_jaas_then_the_issuer_is_asked_with_them(issuer):
    clock = ManualClock(timestamp_ms=int(time.time() * 1000))
    login = stepped(settings(
        f'clientId="the-client" clientSecret="{SECRET}" scope="all" extension_logicalCluster="lkc-1"',
        {"sasl.oauthbearer.token.endpoint.url": issuer.token_url,
         "sasl.login.callback.handler.class": JAVA + "secured.OAuthBearerLoginCallbackHandler"}), clock)
    assert login.error is None
    assert issuer.asked[0].basic == f"the-client:{SECRET}"
    assert issuer.asked[0].form["scope"] == "all"
    assert first_message(login).endswith("\x01logicalCluster=lkc-1\x01\x01")


def test_credentials_when_they_stand_in_keys_of_their_own_then_those_count(issuer):
    clock = ManualClock(timestamp_ms=int(time.time() * 1000))
    login = stepped(settings('clientId="old" clientSecret="old" scope="old"', {
        "sasl.oauthbearer.token.endpoint.url": issuer.token_url,
        "sasl.oauthbearer.client.credentials.client.id": "new",
        "sasl.oauthbearer.client.credentials.client.secret": SECRET, "sasl.oauthbearer.scope": "new",
        "sasl.oauthbearer.header.urlencode": "true"}), clock)
    assert login.error is None
    assert issuer.asked[0].basic == f"new:{SECRET}"
    assert issuer.asked[0].form["scope"] == "new"


def test_url_when_a_secret_is_in_its_query_then_neither_the_login_nor_its_errors_show_it(issuer):
    issuer.answer = lambda asked: json_answer(200, {"access_token": "no token"})
    login = stepped(settings(f'clientId="the-client" clientSecret="{SECRET}"', {
        "sasl.oauthbearer.token.endpoint.url": f"{issuer.token_url}?client_secret=hunter2&code=hunter3"}))
    assert f"the token from {issuer.token_url}" in repr(login)
    assert f"the token from {issuer.token_url} is no JWT" in str(login.error)
    assert "hunter" not in f"{login!r} {login.error}"


def test_issuer_when_it_is_slower_than_the_read_timeout_then_that_is_the_one_that_is_named(issuer):
    """Each timeout must reach its own half of the request: connecting to this issuer takes no time."""
    let_go = threading.Event()
    issuer.answer = lambda asked: Answer(200, before=lambda: let_go.wait(GIVE_UP_S))
    login = stepped(settings(f'clientId="the-client" clientSecret="{SECRET}"', {
        "sasl.oauthbearer.token.endpoint.url": issuer.token_url, "sasl.login.connect.timeout.ms": 30_000,
        "sasl.login.read.timeout.ms": 50}))
    let_go.set()
    assert "sasl.login.read.timeout.ms is 50" in str(login.error)


def test_assertion_when_the_retriever_is_jwt_bearer_then_it_goes_instead_of_a_secret(issuer, tmp_path):
    path = tmp_path / "assertion"
    path.write_text("a.b.c\n")
    clock = ManualClock(timestamp_ms=int(time.time() * 1000))
    login = stepped(settings(props={
        "sasl.oauthbearer.token.endpoint.url": issuer.token_url, "sasl.oauthbearer.assertion.file": str(path),
        "sasl.oauthbearer.jwt.retriever.class": JAVA + "JwtBearerJwtRetriever",
        "sasl.oauthbearer.scope": "all"}), clock)
    assert login.error is None
    assert issuer.asked[0].form == {"grant_type": "urn:ietf:params:oauth:grant-type:jwt-bearer", "assertion": "a.b.c",
                                    "scope": "all"}
    assert "authorization" not in issuer.asked[0].headers
    path.write_text("d.e.f")
    clock.advance(HOUR_MS - 60_000)
    login.run_once()
    assert issuer.asked[1].form["assertion"] == "d.e.f", "it is read for each token"
    path.unlink()
    clock.advance(HOUR_MS)
    login.run_once()
    assert re.search(r"assertion\.file: .* cannot be read", str(login.error))
    assert type(login.error) is TransportError, "it may be there again in a moment"


def test_claims_when_the_settings_rename_them_then_those_are_read(tmp_path):
    path = tmp_path / "token"
    path.write_text(jwt({"who": "ada", "exp": CLAIMS["exp"]}))
    names = {"sasl.oauthbearer.token.endpoint.url": path.as_uri()}
    assert "claim 'sub'" in str(stepped(settings(props=names)).error)
    assert stepped(settings(props=names | {"sasl.oauthbearer.sub.claim.name": "who"})).is_ready


def test_validator_when_it_is_pythons_then_it_is_asked_and_may_refuse(tmp_path):
    path = tmp_path / "token"
    path.write_text(jwt())
    seen: list[str] = []

    def refuse(token: str) -> None:
        seen.append(token)
        raise AuthenticationError("not for us")

    login = stepped(settings(props={"sasl.oauthbearer.token.endpoint.url": path.as_uri(),
                                "sasl.oauthbearer.jwt.validator.class": refuse}))
    assert seen == [jwt()]
    assert str(login.error) == "not for us"
    assert not login.is_ready


@pytest.mark.parametrize(("options", "props", "why"), [
    ("", {}, "needs a source of tokens"),
    ("", {"sasl.login.callback.handler.class": JAVA + "OAuthBearerLoginCallbackHandler"}, "needs a source of tokens"),
    ("", {"sasl.login.callback.handler.class": "com.acme.Handler"}, "class of Java that is not known here"),
    ("", {"sasl.login.callback.handler.class": "Handler"}, "class of Java that is not known here"),
    ("", {"sasl.oauthbearer.jwt.retriever.class": "com.acme.Retriever"}, "class of Java that is not known here"),
    ("", {"pyproducer.oauth.token.provider": "no_such:thing"}, "cannot be imported"),
    ("", {"sasl.oauthbearer.token.endpoint.url": "https://issuer/token"}, r"client\.id"),
    ('clientId="x"', {"sasl.oauthbearer.token.endpoint.url": "https://issuer/token"}, r"client\.secret"),
    ("", {"sasl.oauthbearer.token.endpoint.url": "https://issuer/token",
          "sasl.oauthbearer.jwt.retriever.class": JAVA + "JwtBearerJwtRetriever"}, r"private\.key\.file"),
    ("", {"sasl.oauthbearer.token.endpoint.url": "https://issuer/token",
          "sasl.oauthbearer.jwt.retriever.class": JAVA + "FileJwtRetriever"}, "is no file"),
    ("", {"sasl.oauthbearer.token.endpoint.url": "file:///token",
          "sasl.oauthbearer.jwt.retriever.class": JAVA + "ClientCredentialsJwtRetriever"}, "is a file"),
    ("", {"sasl.oauthbearer.token.endpoint.url": "file:///token",
          "sasl.oauthbearer.jwt.validator.class": "com.acme.Validator"}, "class of Java that is not known here"),
    ("", {"sasl.oauthbearer.token.endpoint.url": "file:///token",
          "sasl.oauthbearer.jwt.validator.class": "zipfile:ZipFile"}, r"ZipFile\(\) failed \(TypeError: "),
])
def test_settings_when_they_name_no_source_then_it_is_said_at_once(options, props, why):
    with pytest.raises(ConfigError, match=why):
        token_login(settings(options, props))


# Life -----------------------------------------------------------------------------------------------------------------

def test_login_when_the_settings_ask_for_oauthbearer_then_login_for_makes_it():
    login = login_for(settings('unsecuredLoginStringClaim_sub="ada"'))
    assert login.mechanism == "OAUTHBEARER"
    assert not login.is_ready
    login.close()


def test_login_when_it_is_started_for_good_then_the_token_comes_and_its_thread_ends_with_it(issuer):
    changed = threading.Event()
    login = token_login(settings(f'clientId="c" clientSecret="{SECRET}"', {
        "sasl.oauthbearer.token.endpoint.url": issuer.token_url}))
    login.start(changed.set)
    assert changed.wait(GIVE_UP_S)
    assert login.error is None
    assert "auth=Bearer eyJ" in first_message(login)
    login.close()
    assert not login.is_ready


def test_login_when_the_issuer_is_back_after_a_failure_then_the_token_comes(issuer):
    """A token endpoint that is away is retried; what is seen meanwhile is a passing error."""
    answers = [json_answer(503, {"error": "temporarily_unavailable"})] * 2
    issuer.answer = lambda asked: answers.pop() if answers else issuer.token_answer()
    seen: list[tuple[bool, str]] = []
    done = threading.Event()
    login = token_login(settings(f'clientId="c" clientSecret="{SECRET}"', {
        "sasl.oauthbearer.token.endpoint.url": issuer.token_url, "sasl.login.retry.backoff.ms": "1"}))

    def on_change() -> None:
        seen.append((login.is_ready, str(login.error)))
        if login.is_ready:
            done.set()

    login.start(on_change)
    assert done.wait(GIVE_UP_S)
    login.close()
    assert [ready for ready, _ in seen] == [False, False, True]
    assert "HTTP 503 and says: temporarily_unavailable" in seen[0][1]


def test_login_when_the_issuer_stays_away_then_its_waits_double_up_to_the_longest(issuer):
    issuer.answer = lambda asked: json_answer(503, {})
    clock = ManualClock(timestamp_ms=NOW_MS)
    login = stepped(settings(f'clientId="c" clientSecret="{SECRET}"', {
        "sasl.oauthbearer.token.endpoint.url": issuer.token_url, "sasl.login.retry.backoff.ms": 100,
        "sasl.login.retry.backoff.max.ms": 1000}), clock)
    for middle_ms in (100, 200, 400, 800, 1000, 1000):
        wait_ms = login.run_once()
        assert 0.8 * middle_ms - 1 <= wait_ms <= min(1.2 * middle_ms, 1000)
        clock.advance(wait_ms)
        login.run_once()
    assert len(issuer.asked) == 7


def test_login_when_a_fetch_hangs_then_close_breaks_it_off(issuer):
    """Its thread is gone when the test ends, though the issuer never answers: the fixture of all tests looks."""
    reached, let_go = threading.Event(), threading.Event()

    def hang(asked: Asked) -> Any:
        reached.set()
        let_go.wait(GIVE_UP_S)
        return json_answer(500, {})

    issuer.answer = hang
    login = token_login(settings(f'clientId="c" clientSecret="{SECRET}"', {
        "sasl.oauthbearer.token.endpoint.url": issuer.token_url}))
    login.start(lambda: None)
    assert reached.wait(GIVE_UP_S)
    login.close()
    threads = [thread for thread in threading.enumerate() if thread.name == "kafka-producer-login | OAUTHBEARER"]
    for thread in threads:
        thread.join(GIVE_UP_S)
    assert not any(thread.is_alive() for thread in threads)
    let_go.set()


# Secrets --------------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("status", [200, 401, 500, 307])
def test_secrets_when_anything_is_said_then_they_are_nowhere_in_it(issuer, caplog, status):
    """Logs, reprs and errors with the variables of their frames, of each outcome."""
    token = issuer.token()
    issuer.answer = lambda asked: json_answer(status, {
        "access_token" if status == 200 else "error": token if status == 200 else f"bad {SECRET} {asked.headers}"},
        Location=f"http://elsewhere/{SECRET}")
    clock = ManualClock(timestamp_ms=int(time.time() * 1000))
    with caplog.at_level(logging.DEBUG):
        login = stepped(settings(f'clientId="c" clientSecret="{SECRET}"', {
            "sasl.oauthbearer.token.endpoint.url": issuer.token_url}), clock)
    held = inspect.getclosurevars(login._fetch).nonlocals
    said = [caplog.text, repr(login), *map(repr, vars(login).values()), *map(repr, held.values())]
    for error in (login.error, raised_by(login)):
        if error is not None:
            said += traceback.TracebackException.from_exception(error, capture_locals=True).format()
    assert login.is_ready == (status == 200)
    basic = issuer.asked[0].headers["authorization"].removeprefix("Basic ")
    for secret in (SECRET, basic, token):
        assert secret not in "\n".join(said)


def raised_by(login: RefreshingLogin[Any]) -> Exception | None:
    try:
        login.new_client("broker")
    except TransportError as error:
        return error
    return None


def test_secrets_when_the_client_has_no_id_then_no_frame_shows_its_secret():
    with SecretHunt(SECRET) as hunt, hunt.errors(ConfigError):
        token_login(settings(props={"sasl.oauthbearer.token.endpoint.url": "https://issuer/token",
                                    "sasl.oauthbearer.client.credentials.client.secret": SECRET}))


def test_secrets_when_the_login_is_closed_then_it_holds_no_token(tmp_path: Path):
    path = tmp_path / "token"
    path.write_text(jwt())
    login = stepped(settings(props={"sasl.oauthbearer.token.endpoint.url": path.as_uri()}))
    login.close()
    assert jwt() not in f"{vars(login)} {login.error}"
    assert not login.is_ready
