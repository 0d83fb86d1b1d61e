"""bootstrap.servers is parsed as Java does, without looking up any name."""

from __future__ import annotations

import socket

import pytest

from pyproducer.common.errors import ConfigError
from pyproducer.producer.config.addresses import parse_bootstrap_servers


@pytest.mark.parametrize(("text", "host", "port"), [
    ("localhost:9092", "localhost", 9092), ("[::1]:9092", "::1", 9092), ("::1:9092", "::1", 9092),
    ("10.0.0.1:1", "10.0.0.1", 1), ("host_a.example.com.:65535", "host_a.example.com.", 65535),
    ("PLAINTEXT://localhost:9092", "localhost", 9092), ("SASL_SSL://[fe80::1%eth0]:9092", "fe80::1%eth0", 9092),
    ("localhost:09092", "localhost", 9092),
])
def test_address_when_well_formed_then_host_and_port_come_apart(text: str, host: str, port: int) -> None:
    assert parse_bootstrap_servers([text]) == ((host, port),)


@pytest.mark.parametrize(("text", "why"), [
    ("localhost", "no port"), ("localhost:", "no port"), ("[::1]", "no port"), ("localhost:-1", "'-1' is not a port"),
    ("localhost:9092/", "'9092/' is not a port"), ("localhost:" + "9" * 5000, "no port"),
    ("localhost:x", "'x' is not a port"),
    ("localhost:9o92", "'9o92' is not a port, which is a number: write host:port"),
    ("kafka://localhost:9092", "no scheme, such as kafka://. How to speak with it is said by security.protocol"),
    ("https://localhost:9092", "no scheme, such as https://"), ("kafka://localhost", "no port"),
    ("kafka+ssl://localhost:9092", r"no scheme, such as kafka\+ssl://. How to speak with it"),
    ("localhost:99999", "port 99999 is out of range"), ("localhost:0", "port 0 is out of range"),
    ("localhost:65536", "port 65536 is out of range"),
    ("localhost:9092:9093", "more than one colon"), ("[localhost]:9092", "not an IPv6 address"),
    ("[::1:9092", "not an IPv6 address in brackets"),
    (":9092", "not a host name"), ("localhost :9092", "not a host name"),
    ("//localhost:9092", "not a host name"), ("a..b:1", "not a host name"), ("*:9092", "not a host name"),
    ("h\u00f6st:1", "not a host name"),
    ("host:\u0661\u0662", "is not a port"),
])
def test_address_when_malformed_then_the_error_names_it(text: str, why: str) -> None:
    with pytest.raises(ConfigError, match=why) as caught:
        parse_bootstrap_servers(["good:9092", text])
    assert caught.value.value == text
    assert caught.value.key == "bootstrap.servers"


def test_items_when_empty_then_skipped_but_one_must_be_left() -> None:
    assert parse_bootstrap_servers(["", "a:1", "", "b:2"]) == (("a", 1), ("b", 2))
    for nothing in ([], [""], ["", ""]):
        with pytest.raises(ConfigError, match="at least one broker"):
            parse_bootstrap_servers(nothing)


@pytest.mark.parametrize(("scheme", "protocol"), [
    ("SSL", "PLAINTEXT"), ("sasl_ssl", "SSL"), ("PLAINTEXT", "SASL_SSL"), ("SASL_PLAINTEXT", "SASL_SSL"),
])
def test_scheme_when_it_contradicts_the_protocol_then_the_error_names_both(scheme: str, protocol: str) -> None:
    """Java ignores it, and so did this: with SSL:// alone plaintext was spoken to a port that speaks TLS."""
    text = f"{scheme}://localhost:9092"
    with pytest.raises(ConfigError, match=rf"{scheme}:// contradicts security.protocol = {protocol}") as caught:
        parse_bootstrap_servers(["good:9092", f"{protocol}://b:9092", text], protocol)
    assert (caught.value.key, caught.value.value) == ("bootstrap.servers", text)
    assert f"set that to {scheme.upper()}, or leave the scheme out" in str(caught.value)


def test_scheme_when_it_is_the_protocols_then_it_is_taken() -> None:
    assert parse_bootstrap_servers(["SSL://a:1", "ssl://b:2", "c:3"], "SSL") == (("a", 1), ("b", 2), ("c", 3))


def test_names_when_they_do_not_exist_then_nobody_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_dns(*_arguments: object, **_options: object) -> None:
        raise AssertionError("a name was looked up")

    monkeypatch.setattr(socket, "getaddrinfo", no_dns)
    assert parse_bootstrap_servers(["no.such.host.invalid:9092"]) == (("no.such.host.invalid", 9092),)
