"""librdkafka's names that mean a setting of Java's are taken, and one line of the log says Java's."""

from __future__ import annotations

import logging

import pytest

from pyproducer import KafkaProducer
from pyproducer.common.errors import ConfigError
from pyproducer.common.jaas import KERBEROS_MODULE, OAUTHBEARER_MODULE, PLAIN_MODULE, parse_jaas
from pyproducer.producer.config import ProducerConfig
from pyproducer.producer.config.effective import effective, read_given
from pyproducer.producer.config.other_keys import ANSWERS, MEANT
from pyproducer.producer.config.other_names import _ENDPOINT, _STEPS, laid_over
from tests.support.secret_hunt import SecretHunt

SERVERS = {"bootstrap.servers": "localhost:9092"}
LOGIN = {"security.protocol": "SASL_SSL", "sasl.mechanisms": "PLAIN", "sasl.username": "ada",
         "sasl.password": "invented-secret"}


def log_lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno == logging.INFO]


@pytest.mark.parametrize(("given", "key", "value"), [
    ({"message.timeout.ms": "90000"}, "delivery.timeout.ms", 90000),
    ({"message.timeout.ms": 0}, "delivery.timeout.ms", 2**31 - 1),
    ({"queue.buffering.max.ms": 7}, "linger.ms", 7), ({"queue.buffering.max.kbytes": "2048"}, "buffer.memory", 2 << 20),
    ({"message.send.max.retries": 3}, "retries", 3), ({"request.required.acks": "all"}, "acks", "-1"),
    ({"compression.codec": "lz4", "compression.level": 3}, "compression.lz4.level", 3),
    ({"compression.codec": "lz4", "compression.level": -1}, "compression.lz4.level", 9),
    ({"compression.codec": "lz4", "compression.level": 0}, "compression.lz4.level", 9),  # 9 is Java's fast one
    ({"compression.codec": "lz4", "compression.level": "2"}, "compression.lz4.level", 9),
    ({"compression.codec": "lz4", "compression.level": 12}, "compression.lz4.level", 12),
    ({"compression.codec": "gzip", "compression.level": 9}, "compression.gzip.level", 9),
    ({"compression.codec": "zstd", "compression.level": 0}, "compression.zstd.level", 0),
    ({"max.in.flight": 2}, "max.in.flight.requests.per.connection", 2),
    ({"message.max.bytes": 2000000}, "max.request.size", 2000000),
    ({"socket.send.buffer.bytes": 0}, "send.buffer.bytes", -1),
    ({"socket.receive.buffer.bytes": 65536}, "receive.buffer.bytes", 65536),
    ({"partitioner": "consistent_random"}, "partitioner.class", "consistent_random"),
    ({"ssl.endpoint.identification.algorithm": "none"}, "ssl.endpoint.identification.algorithm", ""),
    ({"sasl.oauthbearer.client.id": "a"}, "sasl.oauthbearer.client.credentials.client.id", "a"),
])
def test_name_of_librdkafka_when_given_then_it_is_javas_setting(
        given: dict[str, object], key: str, value: object, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        config = ProducerConfig({**SERVERS, **given})
    assert config[key] == value
    (line,) = log_lines(caplog)
    assert "by librdkafka's names; Java's are: " in line
    assert config.originals == {**SERVERS, **given}


@pytest.mark.parametrize("codec", ["snappy", "none"])
def test_level_when_the_codec_has_none_and_it_is_0_then_it_is_left_out(codec: str) -> None:
    config = ProducerConfig({**SERVERS, "compression.type": codec, "compression.level": 0})
    assert config.explicit == {"bootstrap.servers", "compression.type"}


@pytest.mark.parametrize("given", [
    {"enable.ssl.certificate.verification": True}, {"socket.keepalive.enable": "true"}, {"ssl.ca.location": "probe"}])
def test_name_when_it_says_what_is_always_so_then_it_is_left_out(given: dict[str, object],
                                                                caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        config = ProducerConfig({**SERVERS, **given})
    assert config.explicit == {"bootstrap.servers"}
    assert "for that is always so" in log_lines(caplog)[0]


def test_name_of_a_pem_file_when_its_value_is_none_then_the_store_has_no_type() -> None:
    assert ProducerConfig({**SERVERS, "ssl.ca.location": None}).explicit == {"bootstrap.servers"}


@pytest.mark.parametrize("secret", ["simple-secret",
                                    'a "quoted" \\ one', "two\nlines", "'; x=\"", "\u00fcn\u00ef and more"])
def test_user_and_password_when_given_then_they_log_in(secret: str, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO), SecretHunt(secret) as hunt:
        config = ProducerConfig({**SERVERS, **LOGIN, "sasl.password": secret})
        hunt.look("config", config)
    entry = parse_jaas(config.sasl_jaas_config)
    assert (entry.login_module, *(str(entry.options[name]) for name in ("username", "password"))) == (
        PLAIN_MODULE, "ada", secret)
    (line,) = log_lines(caplog)
    assert "sasl.mechanisms is sasl.mechanism; sasl.username and sasl.password are sasl.jaas.config" in line
    assert config.origin("sasl.jaas.config").shown == "[hidden]"


@pytest.mark.parametrize(("given", "words"), [
    ({"sasl.password": "x"}, "sasl.username is missing"), ({"sasl.username": "x"}, "sasl.password is missing"),
    ({"sasl.username": "a", "sasl.password": "b"}, "GSSAPI is the default: set sasl.mechanism to PLAIN"),
    ({**LOGIN, "sasl.mechanisms": "OAUTHBEARER"}, "sasl.mechanism is OAUTHBEARER"),
    ({**LOGIN, "sasl.jaas.config": "x"}, "sasl.jaas.config is given, too"),
    ({**LOGIN, "sasl.password": b"bytes"}, "sasl.password is empty, or no text"),
    ({"sasl.kerberos.keytab": "/k"}, "sasl.kerberos.keytab: sasl.kerberos.principal is missing"),
    ({"sasl.kerberos.principal": "ada@EX.ORG"}, "sasl.kerberos.principal: sasl.kerberos.keytab is missing"),
    ({"sasl.kerberos.principal": 1}, "sasl.kerberos.principal: sasl.kerberos.keytab is missing"),  # an IndexError
    ({"sasl.kerberos.keytab": "/k", "sasl.kerberos.principal": 1}, "sasl.kerberos.principal is empty, or no text"),
    ({"sasl.kerberos.keytab": "/k", "sasl.kerberos.principal": "a", "sasl.mechanism": "PLAIN"},
     "sasl.kerberos.keytab: keytab and principal go with GSSAPI, and sasl.mechanism is PLAIN"),
    ({"linger.ms": 5, "queue.buffering.max.ms": 6}, "linger.ms is given, too, which is Java's name of it"),
    ({"message.timeout.ms": "soon"}, r"'soon' for configuration message.timeout.ms: .*Java's name of it is delivery"),
    ({"compression.codec": "snappy", "compression.level": 3}, "snappy, which has no level"),
    ({"compression.codec": "lz4", "compression.level": 9},
     r"^Invalid value 9 for configuration compression.level: .*in Java, whose 9 is the fast one: set it to 8 or 10"),
    ({"compression.codec": "gzip", "compression.level": "0"},
     r"compression.level: gzip compresses nothing at 0.*: set compression.type to none, or it to 1 to 9"),
    ({"compression.codec": "lz4", "compression.level": "fast"}, r"'fast' for configuration compression.level: "),
    ({"queue.buffering.max.kbytes": "1.5"}, "whole number of KiB"),
    ({"enable.ssl.certificate.verification": "false"}, "To check no certificate at all"),
    ({"partitioner": "random"},
     "^Invalid value 'random' for configuration partitioner: this value has no counterpart: use partitioner.ignore"),
    *(({"partitioner": name}, f"partitioner: this value has no counterpart.*one partition: use {name}_random")
      for name in ("consistent", "murmur2", "fnv1a")),
    ({"partitioner": "murmur3"}, "did you mean 'partitioner.class'[?] 'consistent_random', 'murmur2_random'"),
    ({"partitioner": lambda key, everyone, available: 0}, "did you mean 'partitioner.class'"),  # kafka-python's
    ({"ssl.ca.pem": "x", "ssl.ca.location": "/x", "security.protocol": "SSL"}, "ssl.ca.location: .*given twice"),
])
def test_name_when_it_cannot_be_taken_then_the_error_is_in_its_words(given: dict[str, object], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        ProducerConfig({**SERVERS, **given})


def test_names_when_both_say_the_same_then_they_are_taken() -> None:
    assert ProducerConfig({**SERVERS, **LOGIN, "sasl.mechanism": "PLAIN"}).sasl_mechanism == "PLAIN"


def test_key_tab_and_principal_when_given_then_they_are_the_login_module() -> None:
    config = ProducerConfig({**SERVERS, "security.protocol": "SASL_SSL", "sasl.kerberos.service.name": "kafka",
                             "sasl.kerberos.keytab": "/k.keytab", "sasl.kerberos.principal": "ada@EX.ORG"})
    entry = parse_jaas(config.sasl_jaas_config)
    assert (entry.login_module, str(entry.options["keyTab"]), str(entry.options["principal"])) == (
        KERBEROS_MODULE, "/k.keytab", "ada@EX.ORG")


def test_extensions_of_a_token_when_given_then_they_are_options() -> None:
    config = ProducerConfig({**SERVERS, "security.protocol": "SASL_SSL", "sasl.mechanisms": "OAUTHBEARER",
                             "sasl.oauthbearer.method": "oidc", "sasl.oauthbearer.client.id": "a",
                             "sasl.oauthbearer.client.secret": "b",
                             "sasl.oauthbearer.token.endpoint.url": "https://idp/token",
                             "sasl.oauthbearer.extensions": "logicalCluster=lkc-1,identityPoolId=pool-2"})
    options = parse_jaas(config.sasl_jaas_config).options
    assert {name: str(value) for name, value in options.items()} == {
        "extension_logicalCluster": "lkc-1", "extension_identityPoolId": "pool-2"}


def test_file_when_it_has_librdkafkas_names_then_each_value_has_its_line(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("KAFKA_PASSWORD", "invented-secret")
    file = tmp_path / "client.properties"
    file.write_text("bootstrap.servers=b:1\nsecurity.protocol=SASL_SSL\nsasl.mechanisms=PLAIN\nsasl.username=ada\n"
                    "sasl.password=${env:KAFKA_PASSWORD}\nconfig.providers=env\nmessage.timeout.ms=90000\n"
                    "config.providers.env.class=org.apache.kafka.common.config.provider.EnvVarConfigProvider\n")
    given = read_given(file, {})
    found = {row.key: row for row in effective(ProducerConfig(given.props), given.origins).settings}
    assert found["sasl.mechanism"].origin == "line 3"
    assert found["sasl.jaas.config"] == ("sasl.jaas.config", "[hidden]", "line 4, line 5, provider env")
    assert found["delivery.timeout.ms"] == ("delivery.timeout.ms", "90000", "line 7")


@pytest.mark.parametrize(("below", "above", "left"), [
    ({"queue.buffering.max.ms": "50"}, {"linger.ms": 20}, {"linger.ms": 20}),
    ({"linger.ms": "50"}, {"queue.buffering.max.ms": 20}, {"queue.buffering.max.ms": 20}),
    ({"queue.buffering.max.ms": "50"}, {"queue.buffering.max.ms": 20}, {"queue.buffering.max.ms": 20}),
    ({"sasl.username": "a", "sasl.password": "b"}, {"sasl.password": "c"},
     {"sasl.username": "a", "sasl.password": "c"}),
    ({"sasl.username": "a", "sasl.password": "b"}, {"sasl.jaas.config": "c"}, {"sasl.jaas.config": "c"}),
    ({"compression.type": "lz4", "compression.level": "9"}, {"compression.lz4.level": 3},
     {"compression.type": "lz4", "compression.lz4.level": 3}),
    ({"sasl.mechanisms": "PLAIN", "sasl.username": "a", "sasl.password": "b"},
     {"sasl.mechanism": "OAUTHBEARER", "sasl.oauthbearer.extensions": "c=d"},
     {"sasl.mechanism": "OAUTHBEARER", "sasl.oauthbearer.extensions": "c=d"}),
    ({"sasl.oauthbearer.extensions": "c=d"}, {"sasl.username": "a"}, {"sasl.username": "a"}),
    ({"sasl.username": "a", "sasl.password": "b", "sasl.kerberos.keytab": "c"}, {"sasl.kerberos.principal": "d"},
     {"sasl.kerberos.keytab": "c", "sasl.kerberos.principal": "d"}),
    ({"acks": "0", "message.timeout.ms": "0"}, {"linger.ms": 1}, {"acks": "0", "message.timeout.ms": "0",
                                                                    "linger.ms": 1}),
])
def test_settings_when_others_are_laid_over_them_then_these_win_by_whatever_name(
        below: dict[str, object], above: dict[str, object], left: dict[str, object]) -> None:
    assert laid_over(below, above) == left


def test_file_when_a_setting_of_it_is_overridden_by_its_other_name_then_the_override_wins(tmp_path) -> None:
    """queue.buffering.max.ms: linger.ms is given, too, which is Java's name of it: leave one of them out."""
    file = tmp_path / "client.properties"
    file.write_text("metadata.broker.list=b:1\nqueue.buffering.max.ms=50\nmessage.timeout.ms=90000\n")
    for make in (ProducerConfig.from_file, lambda path, **more: KafkaProducer.from_file(path, **more).close()):
        make(file, linger_ms=20, bootstrap_servers="c:2")
    assert ProducerConfig.from_file(file, linger_ms=20).linger_ms == 20
    with pytest.raises(ConfigError, match=f"^{file}, line 3: .*message.timeout.ms"):
        ProducerConfig.from_file(file, linger_ms=80000)
    given = read_given(file, {"linger.ms": "20"})
    found = {row.key: row for row in effective(ProducerConfig(given.props), given.origins).settings}
    assert found["linger.ms"] == ("linger.ms", "20", "--property")


def test_file_when_another_login_stands_above_its_own_then_that_is_made(tmp_path) -> None:
    """sasl.username: user and password go with a mechanism, and sasl.mechanism is OAUTHBEARER."""
    file = tmp_path / "client.properties"
    file.write_text("bootstrap.servers=b:1\nsecurity.protocol=SASL_SSL\nsasl.mechanisms=PLAIN\nsasl.username=ada\n"
                    "sasl.password=invented-secret\n")
    found = ProducerConfig.from_file(file, sasl_mechanism="OAUTHBEARER", **{"sasl.oauthbearer.extensions": "a=b"})
    entry = parse_jaas(found.sasl_jaas_config)
    assert entry.login_module == OAUTHBEARER_MODULE
    assert {name: str(value) for name, value in entry.options.items()} == {"extension_a": "b"}


def test_names_when_listed_then_other_spellings_of_them_have_an_answer() -> None:
    assert set(MEANT) | set(ANSWERS) >= set(_STEPS) - {_ENDPOINT}
