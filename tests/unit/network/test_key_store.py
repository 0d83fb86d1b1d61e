"""Stores that keytool and openssl wrote: what is in them, and what is said when they do not open."""

from __future__ import annotations

import contextlib
import os
import random
import ssl
import traceback
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.x509.oid import NameOID

from pyproducer.common.errors import ConfigError
from pyproducer.network import key_store
from pyproducer.network.key_store import read_identity, store_kind
from pyproducer.network.ssl_context import build_client_ssl_context
from tests.support.java_stores import KEY_PASSWORD, PASSWORD, write_stores

AUTHORITY, OTHER = "pyproducer test authority", "another test authority"


@pytest.fixture
def stores(tmp_path: Path) -> dict[str, str]:
    return write_stores(tmp_path)


def needed(name: str) -> None:
    if name.endswith("jks"):
        pytest.importorskip("jks")


def subjects(pem: str) -> list[str]:
    return [str(one.subject.get_attributes_for_oid(NameOID.COMMON_NAME)[0].value)
            for one in x509.load_pem_x509_certificates(pem.encode())]


def trusted_names(context: ssl.SSLContext) -> list[str]:
    return sorted(dict(part[0] for part in one["subject"])["commonName"] for one in context.get_ca_certs())


@pytest.mark.parametrize(("name", "authorities"), [
    ("trust.p12", [OTHER, AUTHORITY]), ("trust.openssl.p12", [AUTHORITY]), ("trust.jks", [AUTHORITY])])
def test_trust_store_when_a_jdk_or_openssl_wrote_it_then_its_authorities_are_trusted(
        stores: dict[str, str], name: str, authorities: list[str]) -> None:
    needed(name)
    context = build_client_ssl_context({"ssl.truststore.location": stores[name], "ssl.truststore.password": PASSWORD})
    assert trusted_names(context) == authorities


def test_jks_trust_store_when_no_password_is_given_then_it_opens_as_in_java(stores: dict[str, str]) -> None:
    needed("trust.jks")
    assert trusted_names(build_client_ssl_context({"ssl.truststore.location": stores["trust.jks"]})) == [AUTHORITY]


@pytest.mark.parametrize(("name", "key_password"), [
    ("key.p12", None), ("key.p12", PASSWORD), ("key.jks", KEY_PASSWORD)])
def test_key_store_when_a_jdk_wrote_it_then_key_and_chain_are_loaded(
        stores: dict[str, str], name: str, key_password: str | None, monkeypatch: pytest.MonkeyPatch,
        tmp_path: Path) -> None:
    needed(name)
    before = sorted(os.listdir(tmp_path))
    settings = {"ssl.keystore.location": stores[name], "ssl.keystore.password": PASSWORD,
                "ssl.key.password": key_password}
    build_client_ssl_context(settings)
    assert subjects(read_identity(settings, store_kind(Path(stores[name]).read_bytes())).pem) == ["client", AUTHORITY]
    monkeypatch.delattr(os, "memfd_create", raising=False)  # the road of other systems
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    build_client_ssl_context(settings)
    assert sorted(os.listdir(tmp_path)) == before


@pytest.mark.parametrize(("settings", "key", "why"), [
    ({"ssl.truststore.location": "trust.p12"}, "ssl.truststore.password", "it is needed to open"),
    ({"ssl.truststore.location": "trust.p12", "ssl.truststore.password": "hunter2"}, "ssl.truststore.location",
     "ssl.truststore.password does not open the store"),
    ({"ssl.truststore.location": "trust.jks", "ssl.truststore.password": "hunter2"}, "ssl.truststore.location",
     "ssl.truststore.password does not open the store"),
    ({"ssl.keystore.location": "key.p12", "ssl.keystore.password": "hunter2"}, "ssl.keystore.location",
     "ssl.keystore.password does not open the store"),
    ({"ssl.keystore.location": "trust.p12", "ssl.keystore.password": PASSWORD}, "ssl.keystore.location",
     "no private key with a certificate"),
    ({"ssl.keystore.location": "key.jks", "ssl.keystore.password": PASSWORD, "ssl.key.password": "hunter2"},
     "ssl.keystore.location", "ssl.key.password .* does not open its private key"),
    ({"ssl.keystore.location": "key.jks"}, "ssl.keystore.password", "it is needed to open the private key"),
    ({"ssl.keystore.location": "trust.jks", "ssl.keystore.password": PASSWORD}, "ssl.keystore.location",
     "no private key in it"),
])
def test_store_when_it_does_not_open_then_the_error_says_why_and_shows_no_password(
        stores: dict[str, str], settings: dict[str, str], key: str, why: str) -> None:
    needed(next(name for name in settings.values() if name in stores))
    given = Shy({name: stores.get(value, value) for name, value in settings.items()})
    with pytest.raises(ConfigError, match=why) as caught:
        build_client_ssl_context(given)
    assert caught.value.key == key
    frames = traceback.TracebackException.from_exception(caught.value, capture_locals=True).stack[1:]  # but this
    told = "".join(traceback.StackSummary.from_list(frames).format()) + str(caught.value)
    assert "hunter2" not in told
    assert PASSWORD not in told


@pytest.mark.parametrize("name", ["key.p12", "trust.p12", "key.jks", "trust.jks"])
def test_store_when_it_is_damaged_then_it_is_used_or_refused_and_nothing_else_happens(
        stores: dict[str, str], name: str) -> None:
    """A file that is being written while a connection is made ended the sender's turn with what pyjks raised."""
    needed(name)
    whole, drawn, prefix = Path(stores[name]).read_bytes(), random.Random(14), f"ssl.{name.split('.')[0]}store"
    for _ in range(15):  # each costs what a derived key costs: that is what a store's password is for
        at = drawn.randrange(len(whole))
        Path(stores[name]).write_bytes(drawn.choice([
            whole[:at], whole[:at] + bytes([whole[at] ^ 1 << drawn.randrange(8)]) + whole[at + 1:],
            whole[:at] + drawn.choice([b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", b"\0\0\0\0"]) + whole[at + 4:]]))
        for password in (PASSWORD, None):
            with contextlib.suppress(ConfigError):
                build_client_ssl_context(Shy({f"{prefix}.location": stores[name], f"{prefix}.password": password}))


@pytest.mark.parametrize("raised", [RuntimeError("ended unexpectedly"), AttributeError("no encryptedContent"),
                                    UnicodeDecodeError("mutf8", b"", 0, 1, "invalid")])
def test_store_when_what_reads_it_fails_then_it_is_an_error_of_the_setting(
        stores: dict[str, str], monkeypatch: pytest.MonkeyPatch, raised: Exception) -> None:
    """What pyjks raises of a damaged JCEKS store with a secret key in it."""
    jks = pytest.importorskip("jks")

    def loads(*_arguments: object, **_named: object) -> None:
        raise raised

    monkeypatch.setattr(jks.KeyStore, "loads", loads)
    with pytest.raises(ConfigError, match="does not open the store, or the file is damaged"):
        build_client_ssl_context(Shy({"ssl.keystore.location": stores["key.jks"], "ssl.keystore.password": PASSWORD}))


@pytest.mark.parametrize("password", ["x" * 5000, "\ud800", "a\0b", "\N{GRINNING FACE}"], ids=ascii)
@pytest.mark.parametrize("name", ["key.p12", "key.jks"])
def test_password_when_no_library_takes_it_then_it_does_not_open_the_store(
        stores: dict[str, str], name: str, password: str) -> None:
    needed(name)
    for settings in ({"ssl.keystore.password": password},
                     {"ssl.keystore.password": PASSWORD, "ssl.key.password": password}):
        if name == "key.p12" and "ssl.key.password" in settings:
            continue  # it has none of its own
        with pytest.raises(ConfigError, match="does not open"):
            build_client_ssl_context(Shy({"ssl.keystore.location": stores[name], **settings}))


@pytest.mark.parametrize(("begin", "reader"), [
    (b"\x30\x84\xff\xff\xff\xff\x02\x01\x03", "cryptography"), (b"\xfe\xed\xfe\xed\0\0\0\2", "jks")])
def test_store_when_it_is_huge_then_it_is_not_read_to_its_end(tmp_path: Path, begin: bytes, reader: str) -> None:
    pytest.importorskip(reader)
    path = tmp_path / "huge"
    huge = 384 * 1024 * 1024  # a hole; tests/mutants lets no file become larger than half a GiB
    with open(path, "wb") as file:
        file.write(begin)
        file.truncate(huge)
    for prefix in ("ssl.keystore", "ssl.truststore"):
        settings = Shy({f"{prefix}.location": str(path), f"{prefix}.password": PASSWORD})
        tracemalloc.start()
        try:
            with pytest.raises(ConfigError, match="and no store is"):
                build_client_ssl_context(settings)
            assert tracemalloc.get_traced_memory()[1] < huge / 2
        finally:
            tracemalloc.stop()


@pytest.mark.parametrize(("name", "extra"), [("key.p12", "tls"), ("trust.p12", "tls"), ("key.jks", "jks")])
def test_store_when_what_reads_it_is_not_installed_then_it_is_said_what_to_install(
        stores: dict[str, str], monkeypatch: pytest.MonkeyPatch, name: str, extra: str) -> None:
    """A broker's listener, whose settings nobody checks before, ended its start with ModuleNotFoundError."""
    monkeypatch.setattr(key_store, "_is_installed", lambda package: False)
    prefix = f"ssl.{name.partition('.')[0]}store"
    with pytest.raises(ConfigError, match=rf"pip install 'pyproducer\[{extra}\]'"):
        build_client_ssl_context(Shy({f"{prefix}.location": stores[name], f"{prefix}.password": PASSWORD}))


class Shy(dict[str, Any]):
    """As ProducerConfig: its repr shows no secrets."""

    def __repr__(self) -> str:
        return "settings"
