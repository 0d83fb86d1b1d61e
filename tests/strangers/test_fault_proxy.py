"""The proxy that makes requests go wrong: who asks for what cannot be done is told so, and nobody waits for ever."""

from __future__ import annotations

import pytest

from pyproducer import ErrorCode
from pyproducer.protocol.apis import ApiKeys
from tests.support.bad_servers import hanging_up_server
from tests.support.fault_proxy import FaultProxy
from tests.support.raw_client import ConnectionEnded, RawClient, metadata_body


def test_deliver_when_the_broker_closes_the_connection_then_it_says_so() -> None:
    """It read the end of the connection again and again, for ever."""
    with hanging_up_server() as address, FaultProxy(address) as proxy:
        lost = proxy.on("Metadata").detour()
        host, _, port = proxy.bootstrap_servers.rpartition(":")
        with RawClient((host, int(port))) as client:
            client.send_request(ApiKeys.METADATA, 1, metadata_body("orders"))
            assert client.is_closed()
        with pytest.raises(ConnectionEnded):
            lost.deliver()


def test_error_when_it_is_for_another_api_than_produce_then_who_asks_is_told() -> None:
    """The proxy's thread was: it ended, and clients waited for answers."""
    with hanging_up_server() as address, FaultProxy(address) as proxy:
        for ask in (proxy.on("Metadata").error, proxy.on("Metadata").error_after):
            with pytest.raises(ValueError, match="for Produce only, not for METADATA"):
                ask(ErrorCode.UNKNOWN_SERVER_ERROR)
