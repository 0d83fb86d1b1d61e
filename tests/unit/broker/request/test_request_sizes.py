from __future__ import annotations

import random

import pytest

from pyproducer.protocol.apis import ApiKeys
from pyproducer.protocol.header import build_request
from tests.support.random_messages import random_value
from tests.support.whole_request import parse_request


@pytest.mark.parametrize("api", ApiKeys)
def test_size_in_bytes_when_a_request_of_any_version_is_parsed_then_it_is_the_length_of_the_frame(api):
    source = random.Random(int(api))
    for version in range(api.oldest_version, api.latest_version + 1):
        for _ in range(5):
            body = random_value(api.request_schema(version), source)
            frame = b"".join(build_request(api, version, 4, "me", body))
            header, request, size_in_bytes = parse_request(frame)
            assert (header.api_key, header.api_version) == (api, version)
            assert request.api_key is api
            assert size_in_bytes == len(frame)
