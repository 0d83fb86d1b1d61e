import socket

import pytest

from pyproducer.client.addresses import (
    ResolvedAddress,
    canonical_names,
    resolve_host,
    resolve_literal,
)


def test_resolve_when_the_address_is_literal_then_the_resolver_is_not_asked(monkeypatch):
    asked = []
    real = socket.getaddrinfo

    def getaddrinfo(host, port, **options):
        asked.append(options.get("flags", 0))
        return real(host, port, **options)

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    assert resolve_host("127.0.0.1", 9092) == [ResolvedAddress(socket.AF_INET, ("127.0.0.1", 9092))]
    assert resolve_host("::1", 9092)[0].family == socket.AF_INET6
    assert asked == [socket.AI_NUMERICHOST] * 2


def test_resolve_when_a_host_has_both_families_then_ipv4_first_and_each_once(monkeypatch):
    def getaddrinfo(host, port, *, type, flags=0):
        if flags & socket.AI_NUMERICHOST:
            raise socket.gaierror(socket.EAI_NONAME, "not numeric")
        six = (socket.AF_INET6, type, 6, "", ("fe80::1", port, 0, 0))
        four = (socket.AF_INET, type, 6, "", ("10.1.1.1", port))
        return [six, four, six, (socket.AF_UNIX, type, 0, "", "/x")]

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    assert [resolved.address[0] for resolved in resolve_host("both", 1)] == ["10.1.1.1", "fe80::1"]


@pytest.mark.parametrize("host", ["a..b", "x" * 64 + ".example"])
def test_resolve_when_the_name_is_malformed_then_gaierror(host):
    with pytest.raises(socket.gaierror):
        resolve_host(host, 9092)


@pytest.mark.parametrize("host", ["slow.example", "a..b", "", "localhost", "1.2.3.4.example"])
def test_literal_when_the_host_is_a_name_then_nothing_and_nobody_is_asked(monkeypatch, host):
    real = socket.getaddrinfo

    def getaddrinfo(host, port, *, type, flags):
        assert flags == socket.AI_NUMERICHOST
        return real(host, port, type=type, flags=flags)

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    assert resolve_literal(host, 9092) == []


def test_port_when_replaced_then_the_rest_of_an_ipv6_address_stays():
    assert ResolvedAddress(10, ("fe80::1", 1, 2, 3)).with_port(9) == ResolvedAddress(10, ("fe80::1", 9, 2, 3))
    assert ResolvedAddress(2, ("10.0.0.1", 1)).with_port(9) == ResolvedAddress(2, ("10.0.0.1", 9))


def test_canonical_names_when_an_address_has_none_then_it_stays_literal():
    names = {"10.0.0.1": "one.example", "10.0.0.2": "two.example"}

    def resolve(host, port):
        return [ResolvedAddress(2, (address, port)) for address in ("10.0.0.1", "10.0.0.2", "10.0.0.3")]

    assert canonical_names("alias", 9092, resolve=resolve, name_of=lambda resolved: names.get(
        str(resolved.address[0]))) == ["one.example", "two.example", "10.0.0.3"]
