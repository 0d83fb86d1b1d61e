from __future__ import annotations

import pytest

from pyproducer.common.errors import InvalidRequestError, SchemaError, UnsupportedVersionError
from pyproducer.protocol import request as request_module
from pyproducer.protocol.apis import ApiKeys
from pyproducer.protocol.buffer import ByteReader
from pyproducer.protocol.request import AbstractRequest, MetadataRequest, ProduceRequest, empty_api_versions_request


@pytest.mark.parametrize("api", ApiKeys)
def test_each_api_has_a_request_class_under_kafkas_name(api):
    cls = getattr(request_module, f"{api.title}Request")
    assert issubclass(cls, AbstractRequest)
    assert cls.api_key is api
    assert type(AbstractRequest.parse_request(api, 3, {})) is cls


def test_get_request_reads_the_body_into_the_class_of_its_api():
    reader = ByteReader(bytes.fromhex("ffff" + "0001" + "00000005" + "00000000") + b"behind")
    request, size = AbstractRequest.get_request(0, 3, reader)
    assert isinstance(request, ProduceRequest)
    assert request.version == 3
    assert request.data == {"transactional_id": None, "acks": 1, "timeout_ms": 5, "topic_data": []}
    assert size == 12 == request.data.size_of()
    assert reader.remaining == 6
    assert "ProduceRequest(version=3" in repr(request)


def test_get_request_takes_bytes_too():
    request, size = AbstractRequest.get_request(3, 1, b"\xff\xff\xff\xff")
    assert isinstance(request, MetadataRequest)
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
