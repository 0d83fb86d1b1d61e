"""How the connections of whoever waits for each answer come up."""

from __future__ import annotations

import pytest

from pyproducer.common.error_codes import ErrorCode
from pyproducer.common.errors import UnsupportedVersionError
from tests.unit.client.mock_selector import Request
from tests.unit.client.test_coordinator_client import blocking_client
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
