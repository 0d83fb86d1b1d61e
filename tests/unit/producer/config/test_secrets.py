"""No error, repr or log line of the settings shows a secret, in whichever setting it was put by mistake."""

from __future__ import annotations

import logging
import pickle
import traceback
from pathlib import Path

import pytest

from pyproducer.common.errors import ConfigError
from pyproducer.common.settings.properties import read_properties
from pyproducer.producer.config import CONFIG_TABLE, ProducerConfig
from tests.unit.common.test_secrets import BODY, JAAS, JWT, PEM

SERVERS = {"bootstrap.servers": "localhost:9092"}
TLS = {**SERVERS, "security.protocol": "SSL"}
SECRETS = {"pem": PEM, "jaas": JAAS, "user": "https://alice:hunter2@localhost:9092", "token": JWT}
PARTS = ("hunter2", BODY[:20], "alice")


def everything_said(props: dict[str, object], caplog: pytest.LogCaptureFixture) -> str:
    """What a producer's settings say: repr, or the error with its causes, as it is logged and as it is pickled."""
    with caplog.at_level(logging.DEBUG):
        try:
            said = repr(ProducerConfig(props))
        except ConfigError as error:
            said = "".join(traceback.format_exception(error))
            said += f"{error.args}{error.__dict__}{pickle.dumps(error)!r}"
    return said + caplog.text


@pytest.mark.parametrize("secret", SECRETS)
def test_secret_when_it_stands_in_any_setting_then_nothing_shows_it(
        secret: str, caplog: pytest.LogCaptureFixture) -> None:
    """A key pasted into `ssl.keystore.location`, or a password into an address, was repeated by the error."""
    for key in CONFIG_TABLE:
        protocol = {"security.protocol": "SSL"} if key.startswith("ssl.") else {}
        for value in (SECRETS[secret], [SECRETS[secret]], SECRETS[secret].encode()):
            caplog.clear()
            said = everything_said({**SERVERS, **protocol, key: value}, caplog)
            assert key in said
            for part in PARTS:
                assert part not in said, key


@pytest.mark.parametrize("key", ["sasl.jaas.confg", "sasl.jas.config", "sasl_jaas_conf", "ssl.keystor.key",
                                 "ssl.keystore.pasword", "sasl.oauthbearer.client.credentials.client.secert", "pwd",
                                 "my.passwd", "api.key", b"sasl.password"])
def test_value_when_the_key_is_nearly_that_of_a_secret_then_hidden(
        key: object, caplog: pytest.LogCaptureFixture) -> None:
    said = everything_said({**SERVERS, key: "plain hunter2"}, caplog)  # type: ignore[dict-item]  # a key of bytes
    assert "hunter2" not in said


@pytest.mark.parametrize("servers", [
    "alice:hunter2@host:9092", "good:9092,alice:hunter2@host:9092", "alice:hun,hunter2@host:9092", "hunter2@host:9092",
    "SASL_SSL://alice:hunter2@host:9092", ["good:9092", "alice:hunter2@host:9092"]], ids=str)
def test_address_when_it_holds_a_password_then_the_error_says_where_that_belongs(
        servers: object, caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(ConfigError, match=r"'\[hidden\]@host:9092'.*no user name or password belongs here, but into "
                                          "sasl.jaas.config"):
        ProducerConfig({"bootstrap.servers": servers})
    said = everything_said({"bootstrap.servers": servers}, caplog)
    assert "hun" not in said
    assert "alice" not in said


@pytest.mark.parametrize(("key", "place"), [
    ("ssl.keystore.location", "ssl.keystore.key and ssl.keystore.certificate.chain"),
    ("ssl.truststore.location", "ssl.truststore.certificates")])
def test_location_when_it_is_pem_text_then_the_error_says_where_that_belongs(key: str, place: str) -> None:
    with pytest.raises(ConfigError, match=f"PEM text, where the path of a file belongs: the text goes to {place}"):
        ProducerConfig({**TLS, key: PEM})


def test_location_when_it_holds_a_zero_byte_then_it_is_an_error_of_the_setting() -> None:
    with pytest.raises(ConfigError, match="the file cannot be read: embedded null byte"):
        ProducerConfig({**TLS, "ssl.keystore.location": "a\0b"})


def test_location_when_the_file_is_missing_then_the_error_names_it() -> None:
    with pytest.raises(ConfigError, match=r"'/nowhere/key\.pem'.*No such file") as caught:
        ProducerConfig({**TLS, "ssl.keystore.location": "/nowhere/key.pem"})
    assert isinstance(caught.value.__cause__, FileNotFoundError)


def test_properties_when_pem_text_goes_over_several_lines_then_its_lines_are_not_shown(
        tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Without a backslash at its end each line of the key is a setting of its own, and the error named it."""
    path = tmp_path / "client.properties"
    path.write_text(f"bootstrap.servers=localhost:9092\nssl.keystore.key={PEM}")
    with pytest.raises(ConfigError, match="it looks like a line of PEM text"):
        ProducerConfig(read_properties(path))
    said = everything_said({**read_properties(path)}, caplog)
    assert not any(line in said for line in BODY.split() if len(line) > 8)


def test_settings_when_they_are_refused_then_a_traceback_with_variables_can_be_made() -> None:
    """The repr of what is half made raised AttributeError, and with it all that shows variables (until Python 3.11)."""
    with pytest.raises(ConfigError) as caught:
        ProducerConfig({})
    told = traceback.TracebackException.from_exception(caught.value, capture_locals=True)
    assert "self = ProducerConfig({})" in "".join(told.format())
