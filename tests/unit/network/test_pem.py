"""PEM text as it comes out of environment variables, YAML and Helm: all on one line, with words around it."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization

from pyproducer.common.errors import ConfigError
from pyproducer.network.pem import normalized_pem, pem_fault
from pyproducer.network.ssl_context import ContextFromFiles, build_client_ssl_context, build_server_ssl_context
from pyproducer.producer.config import ProducerConfig
from tests.support.certificates import KEY_PASSWORD, Certificates

FORMS: dict[str, Callable[[str], str]] = {
    "as it is": lambda text: text,
    "one line": lambda text: text.replace("\n", " "),
    "no blanks": lambda text: text.replace("\n", ""),
    "letters": lambda text: text.replace("\n", "\\n"),
    "letters of windows": lambda text: text.replace("\n", "\\r\\n"),
    "windows": lambda text: text.replace("\n", "\r\n"),
    "indented": lambda text: "".join(f"    {line}\n" for line in text.splitlines()),
    "comment": lambda text: f"# Autorit\u00e9 de Jos\u00e9\nsubject=C = FR\n{text}# Ende \u2713\n",
    "long lines": lambda text: text.replace("\n", "", text.count("\n") - 3),
}
forms = pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)


@forms
def test_authorities_when_given_as_text_in_any_form_then_they_are_trusted(
        certificates: Certificates, form: Callable[[str], str]) -> None:
    """One line was refused, and a letter beyond ASCII in a comment was a bare TypeError from the constructor."""
    text = form(certificates.ca.read_text() + certificates.other_ca.read_text())
    settings = {"bootstrap.servers": "h:1", "security.protocol": "SSL", "ssl.truststore.certificates": text}
    config = ProducerConfig(settings)
    assert len(build_client_ssl_context(config).get_ca_certs()) == 2


@pytest.mark.parametrize(("form", "kind"), [
    pytest.param(form, kind, id=f"{kind}, {name}") for name, form in FORMS.items()
    for kind in ("plain", "encrypted", "traditional")
    if kind != "traditional" or name not in ("no blanks", "long lines")])  # nobody can tell where its headers end
def test_identity_when_given_as_text_in_any_form_then_it_is_loaded(
        certificates: Certificates, form: Callable[[str], str], kind: str) -> None:
    key = certificates.client.key.read_text()
    if kind == "encrypted":
        key = certificates.client.encrypted_key.read_text()
    elif kind == "traditional":  # with RFC 1421's headers
        private = serialization.load_pem_private_key(key.encode(), None)
        key = private.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL,
                                    serialization.BestAvailableEncryption(KEY_PASSWORD.encode())).decode()
        assert "DEK-Info" in key
    config = ProducerConfig({
        "bootstrap.servers": "h:1", "security.protocol": "SSL", "ssl.keystore.key": form(key),
        "ssl.keystore.certificate.chain": form(certificates.client.certificate.read_text()),
        "ssl.key.password": None if kind == "plain" else KEY_PASSWORD})
    build_client_ssl_context(config)


@forms
@pytest.mark.parametrize("by", ["text", "file"])
def test_identity_when_it_is_in_any_form_then_its_end_is_known(
        certificates: Certificates, form: Callable[[str], str], by: str, tmp_path: Path) -> None:
    """It was loaded, and nobody was told when it ends."""
    settings = {"ssl.keystore.key": form(certificates.client.key.read_text()),
                "ssl.keystore.certificate.chain": form(certificates.client.certificate.read_text())}
    if by == "file":
        file = tmp_path / "key.pem"
        file.write_text(form(certificates.client.keystore.read_text()), encoding="utf-8")
        settings = {"ssl.keystore.location": str(file)}
    own = x509.load_pem_x509_certificate(certificates.client.certificate.read_bytes())
    assert ContextFromFiles(settings).identity_ends_at_s() == own.not_valid_after_utc.timestamp()


@forms
def test_files_when_they_are_in_any_form_then_client_and_listener_read_them(
        certificates: Certificates, form: Callable[[str], str], tmp_path: Path) -> None:
    """Java reads files as it reads texts."""
    trust, identity = tmp_path / "ca.pem", tmp_path / "key.pem"
    trust.write_text(form(certificates.ca.read_text()), encoding="utf-8")
    identity.write_text(form(certificates.client.keystore.read_text()), encoding="utf-8")
    settings: dict[str, Any] = {"ssl.truststore.location": str(trust), "ssl.keystore.location": str(identity)}
    assert len(build_client_ssl_context(settings).get_ca_certs()) == 1
    build_server_ssl_context(keystore_location=str(identity), truststore_location=str(trust), client_auth="required")


def test_normalized_when_it_is_pem_already_then_only_words_around_it_go(certificates: Certificates) -> None:
    text = certificates.client.keystore.read_text()
    assert normalized_pem(f"words\n{text}words") == text
    assert normalized_pem("nothing of the kind") == "nothing of the kind"


DAMAGED = [
    ("-----BEGIN CERTIFICATE----- MIIB", "a block of it has no end"),
    ("-----BEGIN CERTIFICATE----- MIIB -----END PRIVATE KEY-----", "begins as CERTIFICATE and ends as PRIVATE KEY"),
    ("-----BEGIN PRIVATE KEY----- hunt\u00e9r2 -----END PRIVATE KEY-----", "PRIVATE KEY and its END is not base64"),
    ("-----BEGIN PRIVATE KEY----- -----END PRIVATE KEY-----", "between BEGIN PRIVATE KEY and its END is not base64"),
]


@pytest.mark.parametrize(("text", "why"), DAMAGED)
@pytest.mark.parametrize("key", ["ssl.truststore.certificates", "ssl.keystore.key"])
def test_text_when_it_is_damaged_then_the_error_says_how_and_shows_nothing_of_it(
        text: str, why: str, key: str) -> None:
    assert why in str(pem_fault(text))
    settings = {"bootstrap.servers": "h:1", "security.protocol": "SSL", key: text}
    if key == "ssl.keystore.key":
        settings["ssl.keystore.certificate.chain"] = "-----BEGIN CERTIFICATE----- MIIB -----END CERTIFICATE-----"
    with pytest.raises(ConfigError, match=f"its PEM text is damaged: .*{why}") as caught:
        ProducerConfig(settings)
    assert caught.value.key == key
    assert "hunt" not in str(caught.value)


@pytest.mark.parametrize("text", ["no block, \u00e9", *(text for text, _ in DAMAGED)])
def test_context_when_the_text_was_not_looked_at_before_then_it_is_an_error_of_the_setting(text: str) -> None:
    with pytest.raises(ConfigError):
        build_client_ssl_context({"ssl.truststore.certificates": text})
    with pytest.raises(ConfigError):
        build_client_ssl_context({"ssl.keystore.key": text, "ssl.keystore.certificate.chain": text})


def test_file_when_it_is_damaged_then_the_error_is_openssls(tmp_path: Path) -> None:
    file = tmp_path / "half.pem"
    file.write_text("-----BEGIN CERTIFICATE-----\nMIIB")
    for key in ("ssl.truststore.location", "ssl.keystore.location"):
        with pytest.raises(ConfigError, match="in PEM") as caught:
            build_client_ssl_context({key: str(file)})
        assert isinstance(caught.value.__cause__, ssl.SSLError)
