from __future__ import annotations

import pytest

from pyproducer.broker.request.request import AbstractRequest, empty_api_versions_request
from pyproducer.common.errors import InvalidRequestError, SchemaError, UnsupportedVersionError
from pyproducer.protocol.apis import ApiKeys
from pyproducer.protocol.buffer import ByteReader


def test_get_request_when_it_is_read_then_it_knows_its_api_and_version():
    reader = ByteReader(bytes.fromhex("ffff" + "0001" + "00000005" + "00000000") + b"behind")
    request, size = AbstractRequest.get_request(0, 3, reader)
    assert request.api_key is ApiKeys.PRODUCE
    assert request.version == 3
    assert request.data == {"transactional_id": None, "acks": 1, "timeout_ms": 5, "topic_data": []}
    assert size == 12
    assert reader.remaining == 6
    assert "ProduceRequest(version=3" in repr(request)


def test_get_request_takes_bytes_too():
    request, size = AbstractRequest.get_request(3, 1, b"\xff\xff\xff\xff")
    assert request.api_key is ApiKeys.METADATA
    assert request.data["topics"] is None
    assert size == 4


@pytest.mark.parametrize(("api_id", "version", "error"), [
    (999, 0, InvalidRequestError), (3, 99, UnsupportedVersionError), (0, 2, UnsupportedVersionError),
    (3, 1, SchemaError),
])
def test_get_request_when_it_can_not_be_read_then_says_why(api_id, version, error):
    with pytest.raises(error):
        AbstractRequest.get_request(api_id, version, b"\x40\0\0\0")


def test_empty_api_versions_request():
    request = empty_api_versions_request()
    assert request.version == 0
    assert request.data == {}
    assert request.api_key is ApiKeys.API_VERSIONS
