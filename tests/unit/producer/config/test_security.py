"""Protocol, mechanism and login module fit each other, or the constructor says what does not."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from pyproducer.common.errors import ConfigError
from pyproducer.producer.config import ProducerConfig
from pyproducer.producer.config.security import LOGIN_MODULES, MECHANISMS, login_module

SERVERS = {"bootstrap.servers": "b:9092"}
PLAIN, SCRAM, OAUTH, IAM, KERBEROS = LOGIN_MODULES
SECRET = "Zx9-never-shown"


def sasl(mechanism: str | None, module: str | None, options: str = "", **more: object) -> dict[str, Any]:
    props = {**SERVERS, "security.protocol": "SASL_SSL", **more}
    if mechanism is not None:
        props["sasl.mechanism"] = mechanism
    if module is not None:
        props["sasl.jaas.config"] = f"{module} required {options};"
    return props


USER = f'username="ada" password="{SECRET}"'


@pytest.mark.parametrize(("mechanism", "module", "options"), [
    ("PLAIN", PLAIN, USER), ("SCRAM-SHA-256", SCRAM, USER), ("SCRAM-SHA-512", SCRAM, USER), ("OAUTHBEARER", OAUTH, ""),
    ("AWS_MSK_IAM", IAM, ""), ("GSSAPI", KERBEROS, 'useKeyTab=true keyTab="/k" principal="p"'), (None, KERBEROS, ""),
    ("PLAIN", f"kafkashaded.{PLAIN}", USER), ("GSSAPI", None, ""), ("OAUTHBEARER", None, ""),
    ("AWS_MSK_IAM", None, "")])
def test_login_module_when_it_fits_the_mechanism_then_taken(mechanism: str, module: str, options: str) -> None:
    config = ProducerConfig(sasl(mechanism, module, options))
    entry = login_module(dict(config))
    assert (entry is None) == (module is None)
    assert entry is None or entry.login_module == module.removeprefix("kafkashaded.")


@pytest.mark.parametrize(("props", "key", "why"), [
    (sasl("PLAIN", None), "sasl.jaas.config", 'write sasl.jaas.config=.*PlainLoginModule required username="..."'),
    (sasl("SCRAM-SHA-512", None), "sasl.jaas.config", r'ScramLoginModule required username="\.\.\." password="\.\.\."'),
    (sasl("PLAIN", SCRAM, USER), "sasl.mechanism", "which is for SCRAM-SHA-256 and SCRAM-SHA-512: set sasl.mechanism"),
    (sasl(None, PLAIN, USER), "sasl.mechanism", "it is the default, and .*is for PLAIN: set sasl.mechanism to PLAIN"),
    (sasl("PLAIN", PLAIN, f'user="ada" password="{SECRET}"'), "sasl.jaas.config", "username is missing"),
    (sasl("PLAIN", PLAIN, 'username="ada"'), "sasl.jaas.config", "password is missing"),
    (sasl("PLAIN", PLAIN, 'username="ada" password=""'), "sasl.jaas.config", "password is empty"),
    (sasl("PLAIN", "com.example.Login", USER), "sasl.jaas.config", "not known here: it must be one of .*Krb5LoginMod"),
    (sasl("PLAIN", PLAIN.replace("Plain", "Plane"), USER), "sasl.jaas.config", f"did you mean {PLAIN}"),
    (sasl("PLAIN", PLAIN, f'username="ada" password="{SECRET}'), "sasl.jaas.config", "not closed"),
    (sasl("plain", PLAIN, USER), "sasl.mechanism", "did you mean PLAIN"),
    (sasl("SCRAM-SHA256", SCRAM, USER), "sasl.mechanism", "did you mean SCRAM-SHA-256"),
    (sasl("DIGEST-MD5", None), "sasl.mechanism", f"it must be one of {', '.join(MECHANISMS)}$"),
    (sasl("", None), "sasl.mechanism", "needs a mechanism: set it to one of PLAIN, SCRAM-SHA-256"),
])
def test_settings_when_nobody_can_log_in_with_them_then_the_error_says_what_to_write(
        props: dict[str, Any], key: str, why: str) -> None:
    with pytest.raises(ConfigError, match=why) as raised:
        ProducerConfig(props)
    assert raised.value.key == key
    assert SECRET not in str(raised.value)


def test_password_when_a_callback_gives_it_then_no_jaas_is_needed() -> None:
    ProducerConfig(sasl("PLAIN", None, **{"sasl.client.callback.handler.class": lambda: None}))


@pytest.mark.parametrize(("props", "words"), [
    ({"sasl.mechanism": "PLAIN", "sasl.jaas.config": f"{PLAIN} required {USER};"},
     "PLAINTEXT does not use sasl.jaas.config, sasl.mechanism: set it to SASL_PLAINTEXT or SASL_SSL, or leave"),
    ({"security.protocol": "SSL", "sasl.mechanism": "PLAIN"}, "SSL does not use sasl.mechanism"),
    ({"ssl.truststore.location": "/t.pem"}, "does not use ssl.truststore.location: set it to SSL or SASL_SSL"),
    ({"ssl.truststore.location": "/t.pem", "sasl.mechanism": "PLAIN"},
     "does not use sasl.mechanism, ssl.truststore.location: set it to SASL_SSL, or"),
    (sasl("PLAIN", PLAIN, USER, **{"security.protocol": "SASL_PLAINTEXT", "ssl.truststore.location": "/t.pem"}),
     "SASL_PLAINTEXT does not use ssl.truststore.location"),
    (sasl("OAUTHBEARER", OAUTH, **{"sasl.oauthbearer.token.endpoint.url": "http://idp.example/token"}),
     "is http and not https"),
    ({"security.protocol": "SSL", "ssl.enabled.protocols": "TLSv1.2,TLSv1.1,TLSv1"},
     "ssl.enabled.protocols = TLSv1.2,TLSv1.1,TLSv1: only TLSv1.2 can be used")])
def test_settings_when_nothing_uses_them_then_one_warning(props: dict[str, Any], words: str,
                                                          caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        ProducerConfig({**SERVERS, **props})
    assert [words in record.getMessage() for record in caplog.records] == [True]
    assert SECRET not in caplog.text


@pytest.mark.parametrize("props", [
    {}, {"ssl.truststore.location": None, "sasl.jaas.config": ""}, {"sasl.login.class": None},
    sasl("PLAIN", PLAIN, USER), sasl("OAUTHBEARER", OAUTH, **{
        "sasl.oauthbearer.token.endpoint.url": "http://localhost:8080/token"})])
def test_settings_when_all_are_used_then_no_warning(props: dict[str, Any], caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        ProducerConfig({**SERVERS, **props})
    assert caplog.records == []
