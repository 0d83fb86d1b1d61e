"""Addresses as Java writes them: rules and quotas name hosts by them."""

from __future__ import annotations

import pytest

from pyproducer.broker.request.peer_address import address_text, host_of, host_of_text


@pytest.mark.parametrize(("address", "host"), [
    (("127.0.0.1", 5), "127.0.0.1"),
    (("::ffff:127.0.0.1", 5, 0, 0), "127.0.0.1"),
    (("::FFFF:7f00:1", 5, 0, 0), "127.0.0.1"),
    (("::1", 5, 0, 0), "0:0:0:0:0:0:0:1"),
    (("2001:db8::a:0", 5, 0, 0), "2001:db8:0:0:0:0:a:0"),
    (("fe80::1%eth0", 5, 0, 2), "fe80:0:0:0:0:0:0:1%2"),
    (("not:an:address", 5), "not:an:address"),
])
def test_address_when_it_is_written_then_as_java_does(address: tuple[object, ...], host: str) -> None:
    """A client over IPv4 at a listener on all addresses was ::ffff:127.0.0.1, and rules for 127.0.0.1 missed it."""
    assert host_of(address) == host
    assert host_of_text(address_text(address)) == host
    assert address_text(address).endswith(":5")
