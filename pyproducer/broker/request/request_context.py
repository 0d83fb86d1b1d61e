"""Who sent a request, over which connection, and what it says.

Road:    Processor: frame -> [RequestContext.parse_request] -> RequestChannel.Request
Thread:  values; made by a Processor, read by handlers.
Source:  Java RequestContext, KafkaPrincipal (4.1); RequestChannel.Request of 0.10 for the error texts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from pyproducer.broker.request.peer_address import host_of_text
from pyproducer.broker.request.request import AbstractRequest, RequestAndSize, empty_api_versions_request
from pyproducer.common.errors import InvalidRequestError, ProtocolError
from pyproducer.protocol.apis import ApiKeys
from pyproducer.protocol.buffer import Buffer, ByteReader
from pyproducer.protocol.header import RequestHeader, build_response
from pyproducer.protocol.schema import Struct


class KafkaPrincipal(NamedTuple):
    """Whom the connection belongs to, as authorizers and logs name it: `User:ANONYMOUS`."""

    principal_type: str
    name: str

    def __str__(self) -> str:
        return f"{self.principal_type}:{self.name}"


ANONYMOUS = KafkaPrincipal("User", "ANONYMOUS")


@dataclass(frozen=True)
class RequestContext:
    """A request's header and where it came from.

    Attributes:
        header: The parsed header.
        connection_id: `local_host:local_port-remote_host:remote_port-processor-index`.
        client_address: The peer's address, `host:port` as broker/request/peer_address.py writes it.
        principal: Who the peer is.
        listener_name: The listener that the connection was accepted on.
        security_protocol: PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL.
        refuses_api_versions: The broker pretends not to know this version of ApiVersions.
    """

    header: RequestHeader
    connection_id: str = ""
    client_address: str = ""
    principal: KafkaPrincipal = ANONYMOUS
    listener_name: str = "PLAINTEXT"
    security_protocol: str = "PLAINTEXT"
    refuses_api_versions: bool = False

    @property
    def client_host(self) -> str:
        """The peer's address without its port, as rules and quotas name it."""
        return host_of_text(self.client_address)

    @property
    def local_host(self) -> str:
        """The address of this machine that the connection came in by."""
        return self.connection_id.partition("-")[0].rpartition(":")[0]

    @property
    def api_key(self) -> ApiKeys:
        """Which API is asked."""
        return ApiKeys.for_id(self.header.api_key)

    @property
    def is_unsupported_api_versions_request(self) -> bool:
        """Whether this is an ApiVersions request of a version that we do not know: answered in version 0, error 35."""
        return self.header.api_key == ApiKeys.API_VERSIONS and (
            self.refuses_api_versions or not ApiKeys.API_VERSIONS.is_version_supported(self.header.api_version))

    @property
    def api_version(self) -> int:
        """The version to answer in."""
        return 0 if self.is_unsupported_api_versions_request else self.header.api_version

    def parse_request(self, buffer: ByteReader) -> RequestAndSize:
        """Read the body behind the header. That of an ApiVersions request of an unknown version is not looked at.

        Raises:
            InvalidRequestError: The body is malformed or its version is not ours; `__cause__` says why. Unknown.
        """
        if self.is_unsupported_api_versions_request:
            return RequestAndSize(empty_api_versions_request(), 0)
        header = self.header
        try:
            return AbstractRequest.get_request(header.api_key, header.api_version, buffer)
        except ProtocolError as error:
            raise InvalidRequestError(
                f"Error getting request for apiKey: {header.api_key} and apiVersion: {header.api_version}: {error}"
            ) from error

    def build_response(self, body: dict[str, object] | Struct) -> list[Buffer]:
        """Build the answer to this request, without the frame's size.

        Raises:
            SchemaError: A value of the body does not fit; the text names the field.
        """
        return build_response(self.api_key, self.api_version, self.header.correlation_id, body)
