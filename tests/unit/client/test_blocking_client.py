"""How the connections of whoever waits for each answer come up."""

from __future__ import annotations

import socket

import pytest

import pyproducer.client.blocking_client as blocking_client_module
from pyproducer.client.resolver import ResolvedAddress
from pyproducer.common.error_codes import ErrorCode
from pyproducer.common.errors import DisconnectedError, KafkaTimeoutError, UnsupportedVersionError
from tests.unit.client.mock_selector import Request
from tests.unit.client.test_coordinator_client import Silent, blocking_client
from tests.unit.client.tiny_server import CLOSE, TinyServer


@pytest.mark.parametrize(("code", "versions"), [(ErrorCode.UNSUPPORTED_VERSION, [4, 0]),
                                                (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, [4])])
def test_connect_when_the_broker_tells_its_versions_in_no_version_then_it_is_given_up(
        code: ErrorCode, versions: list[int]) -> None:
    """Version 0 is asked for last: nothing is below it."""
    asked: list[int] = []

    def answer(request: Request) -> object:
        asked.append(request.version)
        return CLOSE if len(asked) > len(versions) else {"error_code": code, "throttle_time_ms": 0, "api_keys": []}

    with TinyServer(answer) as server, blocking_client() as client:
        with pytest.raises(UnsupportedVersionError, match=f"ApiVersions v{versions[-1]} with error {code.name}"):
            client.connect("127.0.0.1", server.port)
        assert asked == versions
        assert client._selector.channels() == []


def test_connect_when_no_address_of_a_name_can_be_reached_then_the_error_says_why_of_each(
        monkeypatch: pytest.MonkeyPatch) -> None:
    """The last one's was told alone, and that may be the one that nobody meant, or that had no time left."""
    with Silent(is_known=False) as silent, socket.socket() as nobody, blocking_client(timeout_s=0.2) as client:
        nobody.bind(("127.0.0.1", 0))
        refused, unheard = (ResolvedAddress(socket.AF_INET, ("127.0.0.1", port))
                            for port in (nobody.getsockname()[1], silent.port))
        addresses = [refused, unheard]
        monkeypatch.setattr(blocking_client_module, "resolve_host", lambda _host, _port: addresses)
        with pytest.raises(DisconnectedError, match=r"twofold.test:9092: none of its addresses could be reached: "
                                                    r".*Connection refused.*; .*did not answer API_VERSIONS"):
            client.connect("twofold.test", 9092)
        addresses = [unheard, unheard]
        with pytest.raises(KafkaTimeoutError, match="did not answer API_VERSIONS"):
            client.connect("twofold.test", 9092)
