"""Producers whose logins fetch something, against our broker: OAuth, AWS, forks, exits, and no secret anywhere."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pyproducer import AuthenticationError, KafkaProducer
from pyproducer.broker import EmbeddedBroker
from pyproducer.protocol.apis import ApiKeys
from tests.support.issuer import AUDIENCE, Issuer, json_answer
from tests.support.patience import GIVE_UP_S, PROGRAM_S

ROOT = Path(__file__).resolve().parents[2]
OAUTH = "org.apache.kafka.common.security.oauthbearer"
SECRET = "hunter2hunter2"
# How long something may take before a test says that it did not come.


@pytest.fixture(scope="module")
def issuer() -> Iterator[Issuer]:
    with pytest.MonkeyPatch.context() as patch, Issuer() as running:
        patch.setenv("no_proxy", "localhost,127.0.0.1")
        yield running


@pytest.fixture(autouse=True)
def fresh_issuer(issuer: Issuer) -> None:
    issuer.answer = lambda asked: issuer.token_answer()
    issuer.asked.clear()


@pytest.fixture(scope="module")
def broker(issuer: Issuer) -> Iterator[EmbeddedBroker]:
    names = ("SIGNED", "MSK", "UNSIGNED")
    mechanisms = {"SIGNED": "OAUTHBEARER", "MSK": "AWS_MSK_IAM,OAUTHBEARER", "UNSIGNED": "OAUTHBEARER"}
    prefix = "listener.name.signed.oauthbearer.sasl.oauthbearer."
    with EmbeddedBroker(topics={"orders": 1}, log_requests=True, config={
            "listeners": ",".join(("PLAINTEXT://127.0.0.1:0", *(f"{name}://127.0.0.1:0" for name in names))),
            "listener.security.protocol.map": ",".join(("PLAINTEXT:PLAINTEXT",
                                                        *(f"{name}:SASL_PLAINTEXT" for name in names))),
            **{f"listener.name.{name.lower()}.sasl.enabled.mechanisms": mechanisms[name] for name in names},
            prefix + "jwks.endpoint.url": issuer.jwks_url, prefix + "expected.audience": AUDIENCE}) as running:
        yield running


def props_for(broker: EmbeddedBroker, listener: str, **more: Any) -> dict[str, Any]:
    return {"bootstrap.servers": broker.bootstrap_servers_of(listener), "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "OAUTHBEARER", **more}


def issuer_props(broker: EmbeddedBroker, issuer: Issuer, listener: str = "SIGNED") -> dict[str, Any]:
    return props_for(broker, listener, **{
        "sasl.oauthbearer.token.endpoint.url": issuer.token_url,
        "sasl.oauthbearer.client.credentials.client.id": "the-client",
        "sasl.oauthbearer.client.credentials.client.secret": SECRET})


def principal_of_last_produce(broker: EmbeddedBroker) -> str:
    return str(broker.requests(ApiKeys.PRODUCE)[-1].principal)


def test_client_credentials_when_the_token_is_good_then_the_broker_knows_its_subject(broker, issuer):
    with KafkaProducer(issuer_props(broker, issuer)) as producer:
        producer.check(GIVE_UP_S)
        producer.send("orders", b"value").result(GIVE_UP_S)
    assert principal_of_last_produce(broker) == "User:ada"
    assert len(issuer.asked) == 1


@pytest.mark.parametrize("claims", [{"aud": "another"}, {"aud": ["another", "yet another"]}, {"aud": None}])
def test_client_credentials_when_the_token_is_for_another_audience_then_the_broker_refuses_it(broker, issuer, claims):
    """What the listener's setting says reaches its check: any token of the issuer, for whatever service, let one in."""
    issuer.answer = lambda asked: issuer.token_answer(**claims)
    with KafkaProducer(issuer_props(broker, issuer)) as producer, pytest.raises(AuthenticationError):
        producer.check(GIVE_UP_S)
    issuer.answer = lambda asked: issuer.token_answer(aud=["another", AUDIENCE])
    with KafkaProducer(issuer_props(broker, issuer)) as producer:
        producer.check(GIVE_UP_S)


@pytest.fixture
def aws(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    pytest.importorskip("botocore", reason="botocore is not installed: pip install -e '.[test]'")
    for name in ("AWS_SESSION_TOKEN", "AWS_PROFILE", "AWS_REGION"):
        monkeypatch.delenv(name, raising=False)
    for name, value in {"AWS_ACCESS_KEY_ID": "AKIDEXAMPLE", "AWS_SECRET_ACCESS_KEY": SECRET,
                        "AWS_DEFAULT_REGION": "eu-west-1", "AWS_EC2_METADATA_DISABLED": "true",
                        "AWS_CONFIG_FILE": str(tmp_path / "none"),
                        "AWS_SHARED_CREDENTIALS_FILE": str(tmp_path / "none")}.items():
        monkeypatch.setenv(name, value)


@pytest.mark.usefixtures("aws")
@pytest.mark.parametrize("props", [
    {"sasl.mechanism": "AWS_MSK_IAM", "sasl.jaas.config": "software.amazon.msk.auth.iam.IAMLoginModule required;",
     "sasl.client.callback.handler.class": "software.amazon.msk.auth.iam.IAMClientCallbackHandler"},
    {"sasl.jaas.config": f"{OAUTH}.OAuthBearerLoginModule required;",
     "sasl.login.callback.handler.class": "software.amazon.msk.auth.iam.IAMOAuthBearerLoginCallbackHandler"},
], ids=["AWS_MSK_IAM", "OAUTHBEARER"])
def test_keys_of_aws_when_a_broker_of_msk_is_asked_then_they_are_who_logs_in(broker, props):
    with KafkaProducer(props_for(broker, "MSK", **props)) as producer:
        producer.check(GIVE_UP_S)
        producer.send("orders", b"value").result(GIVE_UP_S)
    assert principal_of_last_produce(broker) == "User:AKIDEXAMPLE"


# Ends -----------------------------------------------------------------------------------------------------------------

def test_close_when_the_callback_hangs_then_it_does_not_wait_for_it(broker):
    hanging, let_go = threading.Event(), threading.Event()

    def token() -> str:
        hanging.set()
        let_go.wait(GIVE_UP_S)
        return "late"

    producer = KafkaProducer(props_for(broker, "UNSIGNED", **{"pyproducer.oauth.token.provider": token}))
    future = producer.send("orders", b"value")
    assert hanging.wait(GIVE_UP_S)
    producer.close(0)
    assert not let_go.is_set()
    assert future.exception(0).outcome == "not_sent"
    let_go.set()


PROGRAM = """
import os, sys, time
from pyproducer import KafkaProducer
from pyproducer.testing import read_topic

mode, plain = sys.argv[1], sys.argv[2]
asked_in = []

def token():
    if mode == "hangs":
        time.sleep(3600)
    asked_in.append(os.getpid())
    return sys.argv[4], time.time() + 3600

producer = KafkaProducer({"bootstrap.servers": sys.argv[3], "security.protocol": "SASL_PLAINTEXT",
                          "sasl.mechanism": "OAUTHBEARER", "pyproducer.oauth.token.provider": token,
                          "pyproducer.fork": "rebuild", "max.block.ms": 60000})
if mode == "hangs":
    producer.send("orders", b"never")
    producer.close(0)
    sys.exit(0)
producer.send("orders", b"parent").result(600)
child = os.fork()
if not child:
    code = 1
    try:
        producer.send("orders", b"child").result(600)
        producer.close()
        assert asked_in == [os.getppid(), os.getpid()], asked_in
        code = 0
    finally:
        sys.stderr.flush()
        os._exit(code)
_, status = os.waitpid(child, 0)
assert status == 0, status
producer.send("orders", b"parent again").result(600)
producer.close()
assert asked_in == [os.getpid()], asked_in
"""


@pytest.mark.parametrize("mode", [
    "hangs",  # a program whose callback never returns ends all the same
    pytest.param("forks", marks=pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")),
])
def test_program_when_its_callback_hangs_or_it_forks_then_it_ends_well(broker, issuer, mode):
    ended = subprocess.run(
        [sys.executable, "-W", "error", "-W", "ignore:This process:DeprecationWarning", "-c", PROGRAM, mode,
         broker.bootstrap_servers, broker.bootstrap_servers_of("SIGNED"), issuer.token()],
        cwd=ROOT, capture_output=True, text=True, timeout=PROGRAM_S, check=False)
    assert ended.returncode == 0, ended.stderr
    assert "Traceback" not in ended.stderr
    assert ("closed before the record was acknowledged" in ended.stderr) == (mode == "hangs")


# Secrets --------------------------------------------------------------------------------------------------------------

def frames_of(error: BaseException) -> list[str]:
    """An error with the variables of its frames, but those of this file."""
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename == __file__:
        trace = trace.tb_next
    told = traceback.TracebackException.from_exception(error.with_traceback(trace), capture_locals=True)
    return list(told.format())


def test_secrets_when_all_goes_well_or_nothing_does_then_they_are_in_no_output(broker, issuer, caplog, capfd):
    """Logs of all levels, reprs, metrics, errors with the variables of their frames."""
    said: list[str] = []
    tokens: list[str] = []

    def good(asked: Any) -> Any:
        tokens.append(issuer.token())
        return json_answer(200, {"access_token": tokens[-1]})

    def anothers(asked: Any) -> Any:
        tokens.append(issuer.token(aud="others"))
        return json_answer(200, {"access_token": tokens[-1]})

    def refused(asked: Any) -> Any:
        return json_answer(401, {"error": f"{asked.headers}", "error_description": f"secret {SECRET}"})

    def nonsense(asked: Any) -> Any:
        return json_answer(200, {"access_token": f"not.a.jwt.{SECRET}"})

    with caplog.at_level(logging.DEBUG):
        for answer in (good, anothers, refused, nonsense):
            issuer.answer = answer
            with KafkaProducer(issuer_props(broker, issuer)) as producer:
                try:
                    producer.check(GIVE_UP_S)
                except AuthenticationError as error:
                    said += frames_of(error)
                error = producer.send("orders", b"value").exception(GIVE_UP_S)
                assert (error is None) == (answer is good)
                if error is not None:
                    said += frames_of(error)
                said += [repr(producer), repr(producer.metrics()), repr(producer._runtime.config)]
    said += [caplog.text, *capfd.readouterr()]
    basic = issuer.asked[0].headers["authorization"].removeprefix("Basic ")
    assert len(tokens) == 2
    text = "\n".join(said)
    for secret in (SECRET, basic, *tokens):
        assert secret not in text


@pytest.mark.soak
def test_tokens_when_they_live_for_seconds_and_the_issuer_goes_away_for_30_then_every_record_arrives(broker, issuer):
    """As at a restart of the issuer: the token that is there ends meanwhile, and what was sent waits."""
    issuer.answer = lambda asked: issuer.token_answer(exp=time.time() + 10)
    began = time.monotonic()
    futures = []
    with KafkaProducer({**issuer_props(broker, issuer), "sasl.login.refresh.buffer.seconds": 0,
                        "sasl.login.refresh.min.period.seconds": 0}) as producer:
        while time.monotonic() - began < 60:
            if 10 < time.monotonic() - began < 40:
                issuer.answer = lambda asked: json_answer(503, {"error": "away"})
            else:
                issuer.answer = lambda asked: issuer.token_answer(exp=time.time() + 10)
            futures.append(producer.send("orders", b"value"))
            time.sleep(0.001)
        for future in futures:
            future.result(GIVE_UP_S)
