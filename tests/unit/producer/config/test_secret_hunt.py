"""Everything that settings with secrets show, right or wrong, holds none of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pyproducer import ConfigError, KafkaProducer, ProducerConfig
from pyproducer.aio import AsyncKafkaProducer
from pyproducer.common.settings.properties import read_properties
from pyproducer.testing import read_topic
from tests.support.secret_hunt import SecretHunt

PASSWORD, KEY_PASSWORD, CLIENT_SECRET = "Zx9-never-shown", "Qw7-neither-this", "Rt5-nor-this-one"
SECRETS = (PASSWORD, KEY_PASSWORD, CLIENT_SECRET)
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
GOOD: dict[str, Any] = {
    "bootstrap.servers": "b:9092", "security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN",
    "sasl.jaas.config": f'{PLAIN} required username="ada" password="{PASSWORD}";', "ssl.key.password": KEY_PASSWORD,
    "sasl.oauthbearer.client.credentials.client.secret": CLIENT_SECRET,
    "schema.registry.basic.auth.user.info": f"ada:{PASSWORD}"}
ENV = {"config.providers": "env",
       "config.providers.env.class": "org.apache.kafka.common.config.provider.EnvVarConfigProvider"}


def read_with(settings: dict[str, Any]) -> None:
    next(read_topic(settings["bootstrap.servers"], "t", settings=settings))


def test_config_when_it_is_right_then_repr_log_and_pickle_show_no_secret() -> None:
    with SecretHunt(*SECRETS) as hunt:
        config = ProducerConfig(GOOD)
        hunt.look("config", config)
        hunt.look("values", dict(config))
        hunt.look("originals", config.originals)
        hunt.look("values one by one", [config.origin(key) for key in config])
    assert "log pyproducer.producer.config.producer_config" in hunt.looked_at
    assert PASSWORD in config.sasl_jaas_config
    assert config.ssl_key_password == KEY_PASSWORD


WRONG: list[dict[str, Any]] = [
    {"linger.ms": "x"}, {"bootstrap.servers": "b"}, {"sasl.mechanism": "SCRAM-SHA-256"}, {"sasl.mechanism": "PLANE"},
    {"sasl.jaas.config": f'{PLAIN} required username="ada" password="{PASSWORD}"'},
    {"sasl.jaas.config": f'{PLAIN} required username="ada" password="{PASSWORD};'},
    {"sasl.jaas.config": f'{PLAIN} required password="{PASSWORD}";'}, {"sasl.jaas.config": f"{PLAIN} {PASSWORD};"},
    {"sasl.jaas.config": f'com.example.Login required password="{PASSWORD}";'}, {"sasl.jaas.config": [PASSWORD]},
    {"sasl.jaas.confg": f'{PLAIN} required password="{PASSWORD}";'}, {"sasl.password": PASSWORD},
    {"basic.auht.user.info": PASSWORD}, {"acks": 1, "enable.idempotence": True},
    {"security.protocol": "SSL", "ssl.keystore.location": "/absent", "ssl.keystore.password": KEY_PASSWORD},
    {"ssl.keystore.key": f"-----BEGIN KEY-----{KEY_PASSWORD}", "security.protocol": "SSL"},
    {"zzz.token": PASSWORD, "interceptor.classes": "no_such_module:X"}, {"config.providers": "env"},
    {"sasl.oauthbearer.client.credentials.client.secrt": CLIENT_SECRET}, {"": PASSWORD},
    # Of another type than a text: what stood in them stayed in the variables of the frames.
    {"sasl.jaas.config": {"password": PASSWORD}}, {"sasl.jaas.config": PASSWORD.encode()},
    {"sasl.jaas.config": [PASSWORD.encode(), {1: PASSWORD}]}, {"sasl.jaas.config": {PASSWORD}},
    {"sasl.jaas.config": bytearray(PASSWORD.encode())}, {"ssl.key.password": (PASSWORD.encode(),)},
    {"ssl.keystore.password": Path(PASSWORD)}, {"sasl.jaas.confg": {"password": PASSWORD}},
    {"sasl.password": PASSWORD.encode()}, {"zzz.token": [[PASSWORD]], "linger.ms": "x"}]


@pytest.mark.parametrize("make", [ProducerConfig, KafkaProducer, AsyncKafkaProducer, read_with])
def test_settings_when_one_is_wrong_then_error_and_its_frames_show_no_secret(make: Any) -> None:
    for wrong in WRONG:
        with SecretHunt(*SECRETS) as hunt, hunt.errors(ConfigError):
            make({**GOOD, **wrong})


@pytest.mark.parametrize("props", [
    [("sasl.jaas.config", PASSWORD)], PASSWORD.encode(), f'sasl.jaas.config={PLAIN} required password="{PASSWORD}";'],
    ids=["pairs", "bytes", "text"])
@pytest.mark.parametrize("make", [KafkaProducer, AsyncKafkaProducer])
def test_settings_when_they_are_none_then_error_and_its_frames_show_no_secret(make: Any, props: Any) -> None:
    with SecretHunt(*SECRETS) as hunt, hunt.errors(TypeError):
        make(props)


def test_arguments_when_they_are_another_clients_then_error_and_its_frames_show_no_secret() -> None:
    with SecretHunt(*SECRETS) as hunt, hunt.errors(TypeError):
        KafkaProducer(bootstrap_servers="b:1", sasl_plain_username="ada", sasl_plain_password=PASSWORD)


def test_answer_of_a_provider_when_making_a_producer_finds_it_wrong_then_it_is_not_shown(
        monkeypatch: pytest.MonkeyPatch) -> None:
    """Which cipher suites OpenSSL knows is found out behind the checks of the settings."""
    monkeypatch.setenv("KAFKA_SECRET", PASSWORD)
    with SecretHunt(*SECRETS) as hunt, hunt.errors(ConfigError):
        KafkaProducer({"bootstrap.servers": "b:9092", "security.protocol": "SSL", **ENV,
                       "ssl.cipher.suites": "${env:KAFKA_SECRET}"})


def test_stranger_when_its_value_is_an_object_then_the_users_class_gets_it_as_it_is() -> None:
    given = {"zzz.token": {"a": PASSWORD}, "zzz.tokens": [b"1", {"b": 2}], "interceptor.classes": [WithConfigure]}
    config = ProducerConfig({**GOOD, **given})
    assert config.strangers == ("zzz.token", "zzz.tokens")
    for key, value in given.items():
        assert config.originals[key] == value
    assert type(config.originals["zzz.token"]) is dict


def test_parameter_of_a_provider_when_it_is_an_object_then_the_provider_gets_its_text() -> None:
    WithConfigure.seen = None
    config = ProducerConfig({**GOOD, "client.id": "${mine:a}", "config.providers": "mine",
                             "config.providers.mine.class": f"{__name__}:WithConfigure",
                             "config.providers.mine.param.token": {"a": PASSWORD}})
    assert config.client_id == "answered"
    assert WithConfigure.seen == {"token": str({"a": PASSWORD})}


class WithConfigure:
    """A provider of the user's, or an interceptor."""

    seen: Any = None

    def configure(self, params: Any) -> None:
        WithConfigure.seen = dict(params)

    def get(self, path: str, keys: Any) -> dict[str, str]:
        return dict.fromkeys(keys, "answered")


@pytest.mark.parametrize("key", ["linger.ms", "bootstrap.servers", "sasl.mechanism", "ssl.truststore.type", "acks",
                                 "security.protocol", "client.id", "sasl.jaas.config", "sasl.oauthbearer.scope",
                                 "sasl.oauthbearer.token.endpoint.url", "interceptor.classes", "partitioner.class"])
@pytest.mark.parametrize("text", ["${env:KAFKA_SECRET}", "x ${env:KAFKA_SECRET} y", "a:1,${env:KAFKA_SECRET}"])
def test_variable_when_it_stands_in_any_setting_then_its_value_is_a_secret(key: str, text: str,
                                                                          monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAFKA_SECRET", PASSWORD)
    with SecretHunt(*SECRETS) as hunt:
        try:
            config = ProducerConfig({**GOOD, **ENV, key: text})
        except ConfigError as error:
            hunt.look_error("error", error)
        else:
            hunt.look("config", config)
            assert f"'{text}'" in repr(config) or key == "sasl.jaas.config"


def test_file_when_it_is_read_then_neither_it_nor_an_error_shows_a_secret(tmp_path: Path,
                                                                         monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "client.properties"
    file.write_text("".join(f"{key}={value}\n" for key, value in GOOD.items()))
    monkeypatch.setenv("KAFKA_SECRET", PASSWORD)
    with SecretHunt(*SECRETS) as hunt:
        hunt.look("config", ProducerConfig.from_file(file))
        with hunt.errors(ConfigError):
            KafkaProducer.from_file(file, linger_ms="x")
        with hunt.errors(ConfigError):
            KafkaProducer.from_file(file, sasl_jaas_config=PASSWORD)
        file.write_text(f"a={PASSWORD}\nb=\\u12\n")
        with hunt.errors(ConfigError):
            read_properties(file)


def test_hunt_when_something_shows_a_secret_then_it_finds_that() -> None:
    hunt = SecretHunt(PASSWORD)
    with pytest.raises(AssertionError, match="config shows"), hunt:
        hunt.look("config", {"password": PASSWORD})
    for text in (PASSWORD, PASSWORD.encode().hex(), "eABaeDktbmV2ZXItc2hvd24=", "AFp4OS1uZXZlci1zaG93bg=="):
        hunt = SecretHunt(PASSWORD)
        hunt.look_text("text", f"before {text} behind")
        assert hunt.found, text


PEM = f"-----BEGIN PRIVATE KEY-----\n{KEY_PASSWORD}\n-----END PRIVATE KEY-----\n"
TOKENS = {"security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER", "sasl.jaas.config": None,
          "sasl.oauthbearer.client.credentials.client.id": "ada"}
URL = "sasl.oauthbearer.token.endpoint.url"


@pytest.mark.parametrize("wrong", [
    {"security.protocol": "SSL", "ssl.keystore.location": PEM},
    {"security.protocol": "SSL", "ssl.truststore.location": PEM},
    {"bootstrap.servers": f"ada:{PASSWORD}@broker:9092"}, {"bootstrap.servers": f"b:1,SASL_SSL://ada:{PASSWORD}@c:2"},
    {"bootstrap.servers": [f"ada:{PASSWORD}@broker:9092"]},
    {**TOKENS, URL: f"https://ada:{PASSWORD}@issuer/token"}, {**TOKENS, URL: f"ftp://issuer/?client_secret={PASSWORD}"},
    {**TOKENS, URL: f"https:///?client_secret={PASSWORD}"}, {**TOKENS, URL: f"https://h:x/?client_secret={PASSWORD}"},
    {**TOKENS, URL: f"https://issuer/?client_secret={PASSWORD}",
     "sasl.oauthbearer.jwt.retriever.class": "org.apache.kafka.common.security.oauthbearer.FileJwtRetriever"},
    {**TOKENS, URL: f"file://{PASSWORD}@h"}], ids=ascii)
@pytest.mark.parametrize("make", [ProducerConfig, KafkaProducer, AsyncKafkaProducer])
def test_secret_when_it_stands_in_a_location_or_an_address_then_no_frame_shows_it(
        make: Any, wrong: dict[str, Any]) -> None:
    """The error's text did not, but the variables of our frames did, which error trackers send to their servers."""
    with SecretHunt(*SECRETS) as hunt:
        try:
            made = make({**GOOD, **wrong})
        except ConfigError as error:
            hunt.look_error("error", error)
        else:
            assert make is ProducerConfig, "what is found out when the login is made"
            hunt.look("config", made)


def test_file_when_settings_are_wrong_then_the_error_names_each_with_its_line(tmp_path: Path) -> None:
    """One at a time was told, without file and line: eight settings of another client took eight starts."""
    file = tmp_path / "client.properties"
    file.write_text("# of a service\nbootstrap.servers=b\nlinger.mss=5\nacks=7\ncompression.type=zip\nlinger.ms=x\n")
    for make in (KafkaProducer.from_file, AsyncKafkaProducer.from_file, ProducerConfig.from_file):
        with pytest.raises(ConfigError) as caught:
            make(file, retries=-1)
        lines = str(caught.value).splitlines()
        assert lines[0] == "6 settings are wrong:"
        assert [line.strip().partition(": ")[0] for line in lines[1:]] == [
            f"{file}, line 3", f"{file}, line 4", f"{file}, line 5", f"{file}, line 6", "argument retries",
            f"{file}, line 2"]
        assert (caught.value.key, caught.value.why) == ("linger.mss", "unknown setting; did you mean 'linger.ms'?")
        assert [other.key for other in caught.value.others] == [
            "acks", "compression.type", "linger.ms", "retries", "bootstrap.servers"]


def test_file_when_one_setting_is_wrong_then_the_error_is_about_it_alone(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text("bootstrap.servers=b:1\nlinger.ms=x\n")
    with pytest.raises(ConfigError, match=f"^{file}, line 2: Invalid value 'x' for configuration linger.ms") as caught:
        KafkaProducer.from_file(file)
    assert caught.value.others == ()


@pytest.mark.parametrize(("text", "kind"), [
    ('{"bootstrap.servers": "b:1"}', "JSON"), ("\n# x\n[kafka]\nbootstrap.servers=b:1\n", "an INI file, or TOML"),
    ("<html>", "XML or HTML"), ("---\nbootstrap.servers: b:1\n", "YAML")])
def test_file_when_it_is_of_another_kind_then_the_error_says_which(tmp_path: Path, text: str, kind: str) -> None:
    """Invalid value '[hidden]' for configuration [hidden]: unknown setting."""
    file = tmp_path / "client.conf"
    file.write_text(text)
    with pytest.raises(ConfigError, match=f"cannot be read as Java properties: line [13]: this is {kind}"):
        KafkaProducer.from_file(file)


@pytest.mark.parametrize(("key", "value", "shown"), [
    ("stats_cb", print, repr(print)), ("debug", "all", "'all'"), ("zzz", True, "True"), ("zzz", None, "None"),
    ("zzz", "may be one", "'[hidden]'"), ("pw", "x", "'[hidden]'"), ("sasl_plain_password", "x", "'[hidden]'")])
def test_value_when_its_key_is_unknown_then_it_is_hidden_only_where_it_may_be_a_secret(
        key: str, value: Any, shown: str) -> None:
    with pytest.raises(ConfigError) as caught:
        ProducerConfig({"bootstrap.servers": "b:1", key: value})
    assert str(caught.value).startswith(f"Invalid value {shown} for configuration {key}: ")


def test_settings_when_several_contradict_each_other_then_all_are_told() -> None:
    with pytest.raises(ConfigError) as caught:
        ProducerConfig({"bootstrap.servers": "b:1", "enable.idempotence": True, "acks": "1", "delivery.timeout.ms": 1,
                        "partitioner.rack.aware": True, "security.protocol": "SASL_SSL", "sasl.mechanism": "PLANE"})
    assert [error.key for error in (caught.value, *caught.value.others)] == [
        "acks", "delivery.timeout.ms", "client.rack", "sasl.mechanism"]


def test_settings_when_one_is_wrong_then_what_only_follows_from_that_is_not_told() -> None:
    with pytest.raises(ConfigError) as caught:
        ProducerConfig({"bootstrap.servers": "b:1", "security.protocol": "SASL_SSL", "sasl.mechansim": "PLAIN"})
    assert caught.value.others == (), "that PLAIN is missing, and its user"
