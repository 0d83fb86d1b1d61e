"""Stores that keytool and openssl wrote: what is in them, and what is said when they do not open."""

from __future__ import annotations

import os
import ssl
import traceback
from pathlib import Path
from typing import Any

import pytest

from pyproducer.common.errors import ConfigError
from pyproducer.network.ssl_context import build_client_ssl_context
from tests.support.java_stores import KEY_PASSWORD, PASSWORD, write_stores

AUTHORITY, OTHER = "pyproducer test authority", "another test authority"


@pytest.fixture
def stores(tmp_path: Path) -> dict[str, str]:
    return write_stores(tmp_path)


def needed(name: str) -> None:
    if name.endswith("jks"):
        pytest.importorskip("jks")


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


class Shy(dict[str, Any]):
    """As ProducerConfig: its repr shows no secrets."""

    def __repr__(self) -> str:
        return "settings"
