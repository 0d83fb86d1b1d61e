"""Which addresses nobody else reaches, by the RFCs."""

from __future__ import annotations

import pytest

from pyproducer.common.loopback import is_loopback


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.0", "127.255.255.255", "::1", "0:0:0:0:0:0:0:1", "localhost",
                                  "LocalHost"])
def test_host_when_it_is_of_this_machine_alone_then_it_is_loopback(host: str) -> None:
    assert is_loopback(host)


@pytest.mark.parametrize("host", ["126.255.255.255", "128.0.0.0", "0.0.0.0", "10.0.0.1", "::", "::2", "fe80::1", "",
                                  "localhost.example.org", "my-localhost", "127.0.0.1.example.org"])
def test_host_when_others_may_reach_it_then_it_is_not_loopback(host: str) -> None:
    assert not is_loopback(host)
