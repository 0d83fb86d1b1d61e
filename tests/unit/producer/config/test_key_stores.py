"""TLS stores that cannot be read here: whoever brings one is told what to install, or the command that converts it."""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import Any

import pytest

from pyproducer.common.errors import ConfigError
from pyproducer.network import key_store
from pyproducer.network.ssl_context import build_client_ssl_context
from pyproducer.producer.config import ProducerConfig

PEM = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n"
KEY = "-----BEGIN PRIVATE KEY-----\nMIIB\n-----END PRIVATE KEY-----\n"
CONTENTS = {
    "pem": b"Bag Attributes\n" + PEM.encode(),
    "jks": b"\xfe\xed\xfe\xed\x00\x00\x00\x02",
    "jceks": b"\xce\xce\xce\xce\x00\x00\x00\x02",
    "p12": b"\x30\x82\x0a\x0b\x02\x01\x03\x30",
    "der": b"\x30\x82\x03\x0a\x30\x82\x02\xf2",
    "txt": b"hello",
}


@pytest.fixture
def stores(tmp_path: Path) -> dict[str, str]:
    paths = {}
    for suffix, content in CONTENTS.items():
        path = tmp_path / f"store.{suffix}"
        path.write_bytes(content)
        paths[suffix] = str(path)
    return paths


def config(**props: Any) -> ProducerConfig:
    named = {key.replace("_", "."): value for key, value in props.items()}
    return ProducerConfig({"bootstrap.servers": "localhost:9092", "security.protocol": "SSL", **named})


@pytest.mark.parametrize("prefix", ["ssl_keystore", "ssl_truststore"])
def test_file_when_it_lies_on_another_machine_then_it_is_not_read_but_all_else_is_checked(prefix: str) -> None:
    """Spark's driver checks settings of producers that are made on executors, where the stores are."""
    props = {"bootstrap.servers": "localhost:9092", "security.protocol": "SSL",
             f"{prefix.replace('_', '.')}.location": "/there/only.p12"}
    with pytest.raises(ConfigError, match="the file cannot be read"):
        ProducerConfig(props)
    assert ProducerConfig(props, reads_files=False)
    with pytest.raises(ConfigError, match=r"ssl\.enabled\.protocols"):
        ProducerConfig({**props, "ssl.enabled.protocols": "SSLv3"}, reads_files=False)


@pytest.mark.parametrize("prefix", ["ssl_keystore", "ssl_truststore"])
def test_pem_file_when_named_then_accepted_with_or_without_type(stores: dict[str, str], prefix: str) -> None:
    assert config(**{f"{prefix}_location": stores["pem"]})
    assert config(**{f"{prefix}_location": stores["pem"], f"{prefix}_type": "pem"})


@pytest.mark.parametrize(("prefix", "suffix", "given_type", "commands"), [
    ("ssl.keystore", "p12", None, ["openssl pkcs12 -in {p12} -out {pem}"]),
    ("ssl.keystore", "p12", "PKCS12", ["openssl pkcs12 -in {p12} -out {pem}"]),
    ("ssl.keystore", "p12", "jks", ["openssl pkcs12 -in {p12} -out {pem}"]),
    ("ssl.truststore", "p12", None, ["openssl pkcs12 -in {p12} -nokeys -out {pem}"]),
    ("ssl.keystore", "jks", "JKS", [
        "keytool -importkeystore -srckeystore {jks} -destkeystore {p12} -deststoretype PKCS12",
        "openssl pkcs12 -in {p12} -out {pem}"]),
    ("ssl.truststore", "jceks", None, [
        "keytool -importkeystore -srckeystore {jceks} -destkeystore {p12} -deststoretype PKCS12",
        "openssl pkcs12 -in {p12} -nokeys -out {pem}"]),
    ("ssl.truststore", "der", None, ["openssl x509 -inform der -in {der} -out {pem}"]),
])
def test_store_when_nothing_here_can_read_it_then_the_error_gives_the_command(
        stores: dict[str, str], prefix: str, suffix: str, given_type: str | None, commands: list[str],
        monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_store, "_is_installed", lambda package: False)
    props: dict[str, object] = {f"{prefix}.location": stores[suffix]}
    if given_type is not None:
        props[f"{prefix}.type"] = given_type
    with pytest.raises(ConfigError) as caught:
        config(**props)
    assert caught.value.key == f"{prefix}.location"
    assert "`" + " && ".join(commands).format(**stores) + "`" in caught.value.why
    assert f"set {prefix}.location to {stores['pem']} and {prefix}.type to PEM" in caught.value.why
    extra = {"p12": "tls", "jks": "jks", "jceks": "jks"}.get(suffix)
    assert extra is None or f"pip install 'pyproducer[{extra}]'" in caught.value.why


def test_jks_store_when_only_cryptography_is_there_then_one_command_will_do(
        stores: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_store, "_is_installed", lambda package: package == "cryptography")
    with pytest.raises(ConfigError) as caught:
        config(ssl_truststore_location=stores["jks"])
    assert ("pip install 'pyproducer[jks]'. Or convert it with `keytool -importkeystore -srckeystore {jks} "
            "-destkeystore {p12} -deststoretype PKCS12`, then set ssl.truststore.location to {p12} and "
            "ssl.truststore.type to PKCS12").format(**stores) in caught.value.why


@pytest.mark.parametrize("given_type", [None, "PKCS12", "pkcs12", "JKS"])
def test_pkcs12_store_when_cryptography_is_there_then_accepted_as_by_a_jvm(stores: dict[str, str],
                                                                           given_type: str | None) -> None:
    props = {} if given_type is None else {"ssl_keystore_type": given_type}
    assert config(ssl_keystore_location=stores["p12"], ssl_keystore_password="hunter2", **props)


@pytest.mark.parametrize(("suffix", "given_type", "why"), [
    ("p12", "PEM", "the file is a PKCS12 store: set ssl.truststore.type to PKCS12"),
    ("jks", "PEM", "the file is a JKS store: set ssl.truststore.type to JKS"),
    ("p12", "BKS", "it must be one of JKS, JCEKS, PKCS12, PEM")])
def test_type_when_the_file_is_evidently_another_then_the_error_says_so(stores: dict[str, str], suffix: str,
                                                                        given_type: str, why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        config(ssl_truststore_location=stores[suffix], ssl_truststore_type=given_type)


def test_path_when_it_has_blanks_then_the_command_quotes_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_store, "_is_installed", lambda package: False)
    path = tmp_path / "my store.p12"
    path.write_bytes(CONTENTS["p12"])
    with pytest.raises(ConfigError, match=r"-in '.*my store\.p12' -out '.*my store\.pem'"):
        config(ssl_keystore_location=str(path))


def test_pem_file_when_declared_as_jks_then_the_error_says_so(stores: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match=r"the file is PEM: set ssl\.keystore\.type to PEM"):
        config(ssl_keystore_location=stores["pem"], ssl_keystore_type="JKS")


def test_file_when_of_no_known_format_then_the_error_says_so(stores: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match=r"the file is neither PEM nor PKCS12 nor JKS\. Convert it"):
        config(ssl_truststore_location=stores["txt"], ssl_truststore_type="PEM")


def test_file_when_it_cannot_be_read_then_the_error_says_why(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="No such file") as caught:
        config(ssl_truststore_location=str(tmp_path / "absent.pem"))
    assert caught.value.__cause__ is not None
    with pytest.raises(ConfigError, match="cannot be read"):
        config(ssl_truststore_location=str(tmp_path))


def test_pem_text_when_complete_then_accepted() -> None:
    assert config(ssl_keystore_key=KEY, ssl_keystore_certificate_chain=PEM, ssl_truststore_certificates=PEM)
    assert config(ssl_truststore_certificates=PEM, ssl_truststore_type="PEM")


@pytest.mark.parametrize(("props", "key"), [
    ({"ssl.keystore.key": KEY}, "ssl.keystore.key"),
    ({"ssl.keystore.certificate.chain": PEM}, "ssl.keystore.certificate.chain"),
    ({"ssl.keystore.key": "/path/key.pem", "ssl.keystore.certificate.chain": PEM}, "ssl.keystore.key"),
    ({"ssl.truststore.certificates": "/path/ca.pem"}, "ssl.truststore.certificates"),
    ({"ssl.truststore.certificates": PEM, "ssl.truststore.type": "JKS"}, "ssl.truststore.type"),
    ({"ssl.truststore.certificates": PEM, "ssl.truststore.location": "{pem}"}, "ssl.truststore.location"),
    ({"ssl.keystore.key": KEY, "ssl.keystore.certificate.chain": PEM, "ssl.keystore.location": "{pem}"},
     "ssl.keystore.location"),
    ({"ssl.keystore.location": "{pem}", "ssl.keystore.password": "hunter2"}, "ssl.keystore.password"),
    ({"ssl.truststore.password": "hunter2"}, "ssl.truststore.password"),
    ({"ssl.enabled.protocols": "TLSv1.2,SSLv3"}, "ssl.enabled.protocols"),
    ({"ssl.endpoint.identification.algorithm": "ldaps"}, "ssl.endpoint.identification.algorithm"),
    ({"ssl.engine.factory.class": "com.example.Factory"}, "ssl.engine.factory.class"),
])
def test_tls_settings_when_they_do_not_fit_then_config_error_without_secrets(stores: dict[str, str],
                                                                             props: dict[str, str], key: str) -> None:
    with pytest.raises(ConfigError) as caught:
        config(**{name: value.format(**stores) if "{" in value else value for name, value in props.items()})
    assert caught.value.key == key
    assert "hunter2" not in str(caught.value)
    assert "MIIB" not in str(caught.value)


@pytest.mark.parametrize(("key", "version", "allowed"), [
    ("ssl.enabled.protocols", "TLSv1", "TLSv1.2, TLSv1.3"), ("ssl.enabled.protocols", "TLSv1.1", "TLSv1.2, TLSv1.3"),
    ("ssl.protocol", "TLSv1", "TLS, TLSv1.2, TLSv1.3"), ("ssl.protocol", "TLSv1.1", "TLS, TLSv1.2, TLSv1.3"),
    ("ssl.protocol", "tls", "TLS, TLSv1.2, TLSv1.3"),
])
def test_tls_version_when_broken_or_unknown_then_the_error_says_what_to_do(key: str, version: str,
                                                                           allowed: str) -> None:
    with pytest.raises(ConfigError) as caught:
        config(**{key: version})
    text = str(caught.value)
    assert key in text
    assert version in text
    assert f"must be one of {allowed}. " in text
    assert "leave this out" in text


@pytest.mark.parametrize("props", [
    {"ssl.enabled.protocols": version} for version in ("TLSv1.2", "TLSv1.3", "TLSv1.2,TLSv1.3")
] + [{"ssl.protocol": version} for version in ("TLS", "TLSv1.2", "TLSv1.3")])
def test_tls_version_when_accepted_then_a_context_can_be_built(props: dict[str, str]) -> None:
    settings = config(**props)
    assert build_client_ssl_context({key: settings[key] for key in ("ssl.enabled.protocols", "ssl.protocol")})


@pytest.mark.parametrize("algorithm", ["", None, "HTTPS"])
def test_host_name_check_when_off_or_https_then_accepted(algorithm: str | None) -> None:
    assert config(ssl_endpoint_identification_algorithm=algorithm).ssl_endpoint_identification_algorithm == algorithm


def test_own_context_when_given_then_the_other_settings_are_not_looked_at(tmp_path: Path) -> None:
    context = ssl.create_default_context()
    absent = str(tmp_path / "absent")
    assert config(ssl_engine_factory_class=context, ssl_keystore_location=absent).ssl_engine_factory_class is context
    assert config(ssl_engine_factory_class=lambda: context)


def test_stores_when_tls_is_not_used_then_not_looked_at(tmp_path: Path) -> None:
    config(security_protocol="PLAINTEXT", ssl_keystore_location=str(tmp_path / "absent"))


def test_oauth_files_when_absent_then_config_error(tmp_path: Path, stores: dict[str, str]) -> None:
    for key in ("assertion.file", "assertion.private.key.file", "assertion.template.file"):
        props = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "OAUTHBEARER"}
        assert config(**props, **{f"sasl.oauthbearer.{key}": stores["pem"]})
        with pytest.raises(ConfigError, match="No such file"):
            config(**props, **{f"sasl.oauthbearer.{key}": str(tmp_path / "absent")})
