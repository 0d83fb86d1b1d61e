"""Other people's clients log in to our broker over TLS, and Java's tools manage its users and rules."""

from __future__ import annotations

import asyncio
import base64
import gc
import json
import ssl
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import aiokafka
import aiokafka.abc
import confluent_kafka
import pytest

from pyproducer.broker import EmbeddedBroker
from tests.support.certificates import Certificates
from tests.support.kafka_tools import ACLS, CONFIGS, CONSOLE_PRODUCER, run_tool
from tests.support.patience import GIVE_UP_S

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # kafka-python reads its schemas in a way that Python left
    import kafka
    from kafka.net.sasl.oauth import AbstractTokenProvider

# The second: kafka-python 3.0.12 now and then forgets a socket when it is closed.
pytestmark = pytest.mark.filterwarnings("ignore:read_text is deprecated:DeprecationWarning",
                                        "ignore:unclosed <:ResourceWarning")

USER, PASSWORD = "alice", "s3cret, with = and ;"
JAAS = f'org.apache.kafka.common.security.plain.PlainLoginModule required user_{USER}="{PASSWORD}";'
PASSWORDS = ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]
MECHANISMS = [*PASSWORDS, "OAUTHBEARER"]


@pytest.fixture(scope="module")
def broker(certificates: Certificates) -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(topics={"orders": 1}, separate_process=True, log_requests=True, config={
            "listeners": "PLAINTEXT://127.0.0.1:0,SASL_SSL://127.0.0.1:0",
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": f"User:{USER};User:ANONYMOUS",
            "sasl.enabled.mechanisms": ",".join(MECHANISMS), "listener.name.sasl_ssl.plain.sasl.jaas.config": JAAS,
            "ssl.keystore.location": str(certificates.server.keystore)}) as running:
        running.add_scram_user(USER, PASSWORD)
        yield running


def address(broker: EmbeddedBroker) -> str:
    return broker.bootstrap_servers_of("SASL_SSL")


def token(name: str = USER) -> str:
    parts = ({"alg": "none"}, {"sub": name, "iat": int(time.time()), "exp": int(time.time()) + 3600})
    return ".".join(base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in parts) + "."


def write_confluent(broker: EmbeddedBroker, certificates: Certificates, mechanism: str, password: str) -> str | None:
    failures: list[str] = []
    done: list[str | None] = []
    settings: dict[str, Any] = {
        "bootstrap.servers": address(broker), "security.protocol": "SASL_SSL", "sasl.mechanism": mechanism,
        "ssl.ca.location": str(certificates.ca), "log_level": 0, "message.timeout.ms": 30_000,
        "error_cb": lambda error: failures.append(error.str())}
    if mechanism == "OAUTHBEARER":
        settings["oauth_cb"] = lambda _config: (token() if password else "a.b.c", time.time() + 3600)
    else:
        settings |= {"sasl.username": USER, "sasl.password": password}
    producer = confluent_kafka.Producer(settings)
    producer.produce("orders", mechanism.encode(), callback=lambda error, _: done.append(error and error.str()))
    deadline = time.monotonic() + GIVE_UP_S
    while not done and not any("Authentication failed" in text or "invalid_token" in text for text in failures):
        assert time.monotonic() < deadline, failures
        producer.poll(0.05)
    if done:
        return done[0]
    producer.purge()
    return next(text for text in failures if "Authentication failed" in text or "invalid_token" in text)


class TokenProvider(AbstractTokenProvider):
    def __init__(self, *, is_valid: bool) -> None:
        self._is_valid = is_valid

    def token(self) -> str:
        return token() if self._is_valid else "a.b.c"


class AsyncTokenProvider(aiokafka.abc.AbstractTokenProvider):
    def __init__(self, *, is_valid: bool) -> None:
        self._is_valid = is_valid

    async def token(self) -> str:
        return token() if self._is_valid else "a.b.c"


def write_kafka_python(broker: EmbeddedBroker, certificates: Certificates, mechanism: str, password: str) -> str | None:
    login: dict[str, Any] = ({"sasl_oauth_token_provider": TokenProvider(is_valid=bool(password))}
                             if mechanism == "OAUTHBEARER"
                             else {"sasl_plain_username": USER, "sasl_plain_password": password})
    producer = kafka.KafkaProducer(
        bootstrap_servers=address(broker), security_protocol="SASL_SSL", sasl_mechanism=mechanism,
        ssl_cafile=str(certificates.ca), bootstrap_timeout_ms=30_000, **login)
    try:
        producer.send("orders", mechanism.encode()).get(GIVE_UP_S)
    finally:
        producer.close()
    return None


def write_aiokafka(broker: EmbeddedBroker, certificates: Certificates, mechanism: str, password: str) -> str | None:
    login: dict[str, Any] = ({"sasl_oauth_token_provider": AsyncTokenProvider(is_valid=bool(password))}
                             if mechanism == "OAUTHBEARER"
                             else {"sasl_plain_username": USER, "sasl_plain_password": password})

    async def write() -> str | None:
        producer = aiokafka.AIOKafkaProducer(
            bootstrap_servers=address(broker), security_protocol="SASL_SSL", sasl_mechanism=mechanism,
            ssl_context=ssl.create_default_context(cafile=str(certificates.ca)), **login)
        try:
            await producer.start()
            await producer.send_and_wait("orders", mechanism.encode())
        except Exception as error:
            return repr(error)
        finally:
            await producer.stop()
            await end_what_was_forgotten()
        return None

    return asyncio.run(write())


async def end_what_was_forgotten() -> None:
    """End the connections of this loop that are still open: aiokafka 0.14 leaves one behind that was refused."""
    for thing in gc.get_objects():
        if type(thing).__name__ == "_SelectorSocketTransport" and thing.get_extra_info("socket").fileno() >= 0:
            thing.abort()
    await asyncio.sleep(0)
    await asyncio.sleep(0)


WRITERS: dict[str, Callable[[EmbeddedBroker, Certificates, str, str], str | None]] = {
    "confluent": write_confluent, "kafka-python": write_kafka_python, "aiokafka": write_aiokafka}


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("writer", WRITERS)
def test_client_when_it_logs_in_then_it_writes_as_that_user(
        broker: EmbeddedBroker, certificates: Certificates, writer: str, mechanism: str) -> None:
    assert WRITERS[writer](broker, certificates, mechanism, PASSWORD) is None
    assert broker.records("orders")[-1].value == mechanism.encode()
    seen = broker.requests("Produce")[-1]
    assert (seen.principal, seen.listener_name) == (f"User:{USER}", "SASL_SSL")


# Not kafka-python: its constructor asks again until its time is over, and then forgets its sockets.
@pytest.mark.parametrize(("writer", "mechanism"), [
    *(("confluent", mechanism) for mechanism in MECHANISMS),
    # With a token that is refused aiokafka asks on for forty seconds.
    *(pytest.param("aiokafka", mechanism, marks=pytest.mark.soak if mechanism == "OAUTHBEARER" else ())
      for mechanism in MECHANISMS)])
def test_client_when_its_password_is_wrong_then_it_is_refused(
        broker: EmbeddedBroker, certificates: Certificates, writer: str, mechanism: str) -> None:
    before = len(broker.records("orders"))
    assert WRITERS[writer](broker, certificates, mechanism, "wrong" if mechanism in PASSWORDS else "") is not None
    assert len(broker.records("orders")) == before


# ---- Java

def java_settings(certificates: Certificates, mechanism: str, password: str, path: Path) -> str:
    modules = {"PLAIN": "plain.PlainLoginModule", "OAUTHBEARER": "oauthbearer.OAuthBearerLoginModule"}
    module = f"org.apache.kafka.common.security.{modules.get(mechanism, 'scram.ScramLoginModule')}"
    options = (f'unsecuredLoginStringClaim_sub="{USER}"' if mechanism == "OAUTHBEARER"
               else f'username="{USER}" password="{password}"')
    path.write_text(
        f"security.protocol=SASL_SSL\nsasl.mechanism={mechanism}\nsasl.jaas.config={module} required {options};\n"
        f"ssl.truststore.type=PEM\nssl.truststore.location={certificates.ca}\n"
        "max.block.ms=30000\nenable.idempotence=false\n")
    return str(path)


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_java_client_when_it_logs_in_then_it_writes_as_that_user(
        broker: EmbeddedBroker, certificates: Certificates, tmp_path: Path, mechanism: str) -> None:
    file = java_settings(certificates, mechanism, PASSWORD, tmp_path / "client.properties")
    run_tool(CONSOLE_PRODUCER, "--bootstrap-server", address(broker), "--topic", "orders",
             "--producer.config", file, stdin=f"java {mechanism}\n")
    assert broker.records("orders")[-1].value == f"java {mechanism}".encode()
    assert broker.requests("Produce")[-1].principal == f"User:{USER}"


def test_java_client_when_its_password_is_wrong_then_it_says_so(
        broker: EmbeddedBroker, certificates: Certificates, tmp_path: Path) -> None:
    file = java_settings(certificates, "SCRAM-SHA-256", "wrong", tmp_path / "client.properties")
    said = run_tool(CONSOLE_PRODUCER, "--bootstrap-server", address(broker), "--topic", "orders",
                    "--producer.config", file, stdin="java\n")
    assert "Authentication failed during authentication due to invalid credentials with SASL mechanism SCRAM" in said


def write_as_bob(broker: EmbeddedBroker, certificates: Certificates) -> str | None:
    said: list[str | None] = []
    producer = confluent_kafka.Producer({
        "bootstrap.servers": address(broker), "security.protocol": "SASL_SSL", "sasl.mechanism": "SCRAM-SHA-256",
        "sasl.username": "bob", "sasl.password": "b-secret", "ssl.ca.location": str(certificates.ca), "log_level": 0})
    producer.produce("orders", b"of bob", callback=lambda error, _: said.append(error and error.str()))
    assert producer.flush(GIVE_UP_S) == 0
    return said[0]


def test_users_and_rules_when_javas_tools_make_and_delete_them_then_they_count(
        broker: EmbeddedBroker, certificates: Certificates) -> None:
    def configs(*arguments: str) -> str:
        return run_tool(CONFIGS, "--bootstrap-server", broker.bootstrap_servers_of("PLAINTEXT"),
                        "--entity-type", "users", *arguments)

    bob = ("--entity-name", "bob")
    assert "Completed updating config for user bob." in configs(
        "--alter", *bob, "--add-config", "SCRAM-SHA-256=[iterations=8192,password=b-secret]")
    assert "SCRAM credential configs for user-principal 'bob' are SCRAM-SHA-256=iterations=8192" in (
        configs("--describe", *bob))
    assert write_as_bob(broker, certificates) == "Broker: Topic authorization failed"
    acls = ("--topic", "orders", "--allow-principal", "User:bob", "--operation", "Write")
    assert "(principal=User:bob, host=*, operation=WRITE, permissionType=ALLOW)" in run_tool(
        ACLS, "--bootstrap-server", broker.bootstrap_servers_of("PLAINTEXT"), "--add", *acls)
    assert write_as_bob(broker, certificates) is None
    assert "operation=WRITE" in run_tool(
        ACLS, "--bootstrap-server", broker.bootstrap_servers_of("PLAINTEXT"), "--list", "--topic", "orders")
    run_tool(ACLS, "--bootstrap-server", broker.bootstrap_servers_of("PLAINTEXT"), "--remove", "--force", *acls)
    assert write_as_bob(broker, certificates) == "Broker: Topic authorization failed"
    configs("--alter", *bob, "--delete-config", "SCRAM-SHA-256")
    assert "bob" not in configs("--describe", *bob)
