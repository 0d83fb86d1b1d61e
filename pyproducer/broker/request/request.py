"""Requests as the broker sees them: which API, which version, and the body.

Road:    frame -> header -> [AbstractRequest.get_request] -> RequestChannel.Request -> KafkaApis
Thread:  values; a request belongs to the handler that took it from the queue.
Source:  Java AbstractRequest, RequestAndSize (4.1) and its 0.10 form, where a request wraps the Struct that was read.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from pyproducer.protocol.apis import ApiKeys
from pyproducer.protocol.buffer import Buffer, ByteReader
from pyproducer.protocol.schema import Struct


class AbstractRequest:
    """A request's body and the version it was written in.

    Attributes:
        api_key: Which API this is a request of.
        version: The version.
        data: The body; fields which the version does not have are absent.
    """

    __slots__ = ("api_key", "data", "version")

    def __init__(self, api_key: ApiKeys, version: int, data: Struct) -> None:
        self.api_key: ApiKeys = api_key
        self.version: int = version
        self.data: Struct = data

    @staticmethod
    def get_request(api_id: int, version: int, buffer: ByteReader | Buffer) -> RequestAndSize:
        """Read a body; a reader is left behind it, and what follows is passed over.

        Raises:
            InvalidRequestError: We do not speak such an API. Unknown.
            UnsupportedVersionError: The API has no such version, or no longer. Unknown.
            SchemaError: The bytes are not such a body; the text names the field. Unknown.
        """
        api_key = ApiKeys.for_id(api_id)
        schema = api_key.request_schema(version)
        reader = buffer if isinstance(buffer, ByteReader) else ByteReader(buffer)
        start = reader.position
        data = schema.read(reader)
        return RequestAndSize(AbstractRequest(api_key, version, data), reader.position - start)

    def __repr__(self) -> str:
        return f"{self.api_key.title}Request(version={self.version}, data={self.data})"


class RequestAndSize(NamedTuple):
    """A request and how many bytes its body took."""

    request: AbstractRequest
    size: int


def empty_api_versions_request() -> AbstractRequest:
    """Return what an ApiVersions request of a version that we do not know counts as: version 0, which has no body."""
    nothing: Mapping[str, Any] = {}
    return AbstractRequest(ApiKeys.API_VERSIONS, 0, Struct(ApiKeys.API_VERSIONS.request_schema(0), nothing))
