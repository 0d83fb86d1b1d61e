"""OAUTHBEARER with Apache Kafka's JWKS validator and an issuer on loopback: who gets in, what is said to the others.

Signatures are checked with the issuer's keys, which Kafka fetches itself.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pyproducer import AuthenticationError, KafkaProducer, KafkaTimeoutError
from tests.support.issuer import AUDIENCE, Asked, Issuer, json_answer
from tests.support.kafka_server import TEST_JVM_OPTIONS, KafkaServer
from tests.support.log_checker import read_topic
from tests.support.patience import GIVE_UP_S
from tests.support.sending import error_of_send

PATIENT_MS = 3_600_000
OAUTH = "org.apache.kafka.common.security.oauthbearer"
MODULE = f"{OAUTH}.OAuthBearerLoginModule"
SECRET = "hunter2hunter2"
SESSION_MS = 3_000


@pytest.fixture(scope="module")
def running_issuer() -> Iterator[Issuer]:
    with Issuer() as running:
        yield running


@pytest.fixture
def issuer(running_issuer: Issuer, monkeypatch: pytest.MonkeyPatch) -> Issuer:
    monkeypatch.setenv("no_proxy", "localhost,127.0.0.1")
    running_issuer.answer = lambda asked: running_issuer.token_answer()
    running_issuer.asked.clear()
    return running_issuer


@pytest.fixture(scope="module")
def oauth_kafka(running_issuer: Issuer) -> Iterator[KafkaServer]:
    def of(listener: str, **more: object) -> dict[str, object]:
        return {f"listener.name.{listener}.{name}": value for name, value in {
            "sasl.enabled.mechanisms": "OAUTHBEARER",
            "oauthbearer.sasl.jaas.config": f"{MODULE} required;",
            "oauthbearer.sasl.server.callback.handler.class": f"{OAUTH}.OAuthBearerValidatorCallbackHandler",
            # The default of 4.1.0 looks at no signature, on brokers either; and with the mechanism's prefix, as all
            # others have, this one is not read.
            "sasl.oauthbearer.jwt.validator.class": f"{OAUTH}.BrokerJwtValidator",
            "oauthbearer.sasl.oauthbearer.jwks.endpoint.url": running_issuer.jwks_url,
            "oauthbearer.sasl.oauthbearer.expected.audience": AUDIENCE, **more}.items()}

    settings = of("tokens") | of("renewed", **{"connections.max.reauth.ms": SESSION_MS})
    options = (*TEST_JVM_OPTIONS, f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={running_issuer.jwks_url}")
    with KafkaServer(listeners={"TOKENS": "SASL_PLAINTEXT", "RENEWED": "SASL_PLAINTEXT"}, settings=settings,
                     jvm_options=options) as server:
        yield server


def props_for(server: KafkaServer, issuer: Issuer, listener: str = "TOKENS", **more: Any) -> dict[str, Any]:
    return {"bootstrap.servers": server.listener(listener), "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "OAUTHBEARER", "max.block.ms": PATIENT_MS,
            "sasl.login.callback.handler.class": f"{OAUTH}.OAuthBearerLoginCallbackHandler",
            "sasl.oauthbearer.token.endpoint.url": issuer.token_url,
            "sasl.jaas.config": f'{MODULE} required clientId="c" clientSecret="{SECRET}" scope="produce";', **more}


def test_client_credentials_when_the_issuer_gives_a_token_then_records_arrive(oauth_kafka, issuer, topic_name):
    topic = oauth_kafka.create_topic(topic_name)
    values = [b"%d" % number for number in range(1000)]
    with KafkaProducer(props_for(oauth_kafka, issuer)) as producer:
        producer.check(GIVE_UP_S)
        for future in [producer.send(topic, value) for value in values]:
            future.result(GIVE_UP_S)
    assert [record.value for record in read_topic(oauth_kafka.bootstrap_servers, topic)] == values
    assert len(issuer.asked) == 1  # one token for all connections


def test_callback_when_it_is_async_and_its_token_is_good_then_records_arrive(oauth_kafka, issuer, topic_name):
    async def token() -> str:
        return issuer.token(sub="bob")

    topic = oauth_kafka.create_topic(topic_name)
    props = props_for(oauth_kafka, issuer, **{"pyproducer.oauth.token.provider": token})
    with KafkaProducer(props) as producer:
        producer.send(topic, b"value").result(GIVE_UP_S)
    assert issuer.asked == []


def test_file_when_it_has_a_good_token_then_records_arrive(oauth_kafka, issuer, topic_name, tmp_path: Path):
    path = tmp_path / "token"
    path.write_text(issuer.token())
    topic = oauth_kafka.create_topic(topic_name)
    props = props_for(oauth_kafka, issuer, **{"sasl.oauthbearer.token.endpoint.url": path.as_uri()})
    with KafkaProducer(props) as producer:
        producer.send(topic, b"value").result(GIVE_UP_S)


@pytest.mark.parametrize(("claims", "words"), [
    ({"exp": 1_700_000_000, "iat": 1_600_000_000}, "had ended .* by this machine's clock"),  # never sent
    ({"aud": "others"}, "does not take its issuer, audience, scope"),
    ({"iss": "others", "sub": "x", "nbf": 4_000_000_000}, "compare this machine's clock"),
])
def test_token_when_it_is_not_good_then_each_error_says_what_may_be_wrong(oauth_kafka, issuer, claims, words):
    issuer.answer = lambda asked: issuer.token_answer(**claims)
    with KafkaProducer(props_for(oauth_kafka, issuer)) as producer:
        error = error_of_send(producer, "any", b"value")
        assert isinstance(error, AuthenticationError), error
        assert error.outcome == "not_sent"
        with pytest.raises(AuthenticationError, match=words):
            producer.check()


def test_token_when_its_signature_is_anothers_then_it_is_refused(oauth_kafka, issuer):
    def forged(asked: Asked) -> Any:
        head, body, signature = issuer.token().split(".")
        return json_answer(200, {"access_token": f"{head}.{body}.{signature[::-1]}"})

    issuer.answer = forged
    with KafkaProducer(props_for(oauth_kafka, issuer)) as producer, pytest.raises(AuthenticationError):
        producer.check()


def test_secret_when_the_issuer_refuses_it_then_records_fail_at_once_with_its_sentence(oauth_kafka, issuer):
    issuer.answer = lambda asked: json_answer(401, {"error": "invalid_client", "error_description": f"not {SECRET}"})
    with KafkaProducer(props_for(oauth_kafka, issuer)) as producer:
        error = error_of_send(producer, "any", b"value")
        assert isinstance(error, AuthenticationError), error
        with pytest.raises(AuthenticationError, match="refuses with HTTP 401 and says: invalid_client") as raised:
            producer.check()
    for told in (error, raised.value):
        assert SECRET not in str(told)


def test_issuer_when_it_is_away_then_the_records_wait_and_the_timeout_says_why(oauth_kafka, issuer):
    issuer.answer = lambda asked: json_answer(503, {"error": "maintenance"})
    short = {"max.block.ms": 1500, "request.timeout.ms": 500, "delivery.timeout.ms": 1500}
    with KafkaProducer(props_for(oauth_kafka, issuer, **short)) as producer:
        error = error_of_send(producer, "any", b"value")
    assert isinstance(error, KafkaTimeoutError), error
    assert "HTTP 503 and says: maintenance" in str(error)


def test_issuer_when_it_comes_back_then_the_record_that_waited_arrives(oauth_kafka, issuer, topic_name):
    topic = oauth_kafka.create_topic(topic_name)
    asked_twice = threading.Event()

    def away(asked: Asked) -> Any:
        if len(issuer.asked) > 1:
            asked_twice.set()
        return json_answer(503, {"error": "maintenance"})

    issuer.answer = away
    with KafkaProducer(props_for(oauth_kafka, issuer)) as producer:
        future = producer.send(topic, b"value")
        assert asked_twice.wait(GIVE_UP_S)
        assert not future.done()
        issuer.answer = lambda asked: issuer.token_answer()
        future.result(GIVE_UP_S)


def test_session_when_the_broker_ends_it_then_newer_tokens_are_shown_and_nothing_is_lost(
        oauth_kafka, issuer, topic_name):
    """Tokens of 3 s, and sessions that end with them: both are renewed several times while records flow.

    Tokens are refreshed at their half: what they have left is the session's, and brokers take no new proof within a
    second.
    """
    issuer.answer = lambda asked: issuer.token_answer(exp=time.time() + 3)
    topic = oauth_kafka.create_topic(topic_name)
    props = props_for(oauth_kafka, issuer, "RENEWED", **{
        "sasl.login.refresh.buffer.seconds": 0, "sasl.login.refresh.min.period.seconds": 0,
        "sasl.login.refresh.window.factor": 0.5, "sasl.login.refresh.window.jitter": 0.0})
    sent = 0
    with KafkaProducer(props) as producer:
        futures = []
        while len(issuer.asked) < 3:
            futures.append(producer.send(topic, b"%d" % sent))
            sent += 1
            if sent % 50 == 0:
                futures[-1].result(GIVE_UP_S)
        for future in futures:
            future.result(GIVE_UP_S)
    assert [record.value for record in read_topic(oauth_kafka.bootstrap_servers, topic)] == [
        b"%d" % number for number in range(sent)]


@pytest.mark.soak
def test_issuer_when_it_is_away_for_30_seconds_under_load_then_nothing_is_lost(oauth_kafka, issuer, topic_name):
    """Tokens of 60 s are refreshed at 48 s; the issuer is away for 30 s then, longer than the old token lasts."""
    topic = oauth_kafka.create_topic(topic_name)
    props = props_for(oauth_kafka, issuer, "RENEWED", **{
        "sasl.login.refresh.buffer.seconds": 0, "sasl.login.refresh.min.period.seconds": 0})
    began = time.monotonic()
    sent = 0
    with KafkaProducer(props) as producer:
        futures = []
        while time.monotonic() - began < 120:
            passed = time.monotonic() - began
            is_away = 45 < passed < 78
            issuer.answer = (lambda asked: json_answer(503, {"error": "away"})) if is_away else (
                lambda asked: issuer.token_answer(exp=time.time() + 60))
            futures.append(producer.send(topic, b"%d" % sent))
            sent += 1
            time.sleep(0.001)
        for future in futures:
            future.result(GIVE_UP_S)
    assert len(issuer.asked) > 4
    assert [record.value for record in read_topic(oauth_kafka.bootstrap_servers, topic)] == [
        b"%d" % number for number in range(sent)]
