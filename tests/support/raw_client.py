"""A Kafka connection without a client: frames as bytes, for what no client would send.

Used against the embedded broker and, where KAFKA_REFERENCE=host:port is set, against Apache Kafka. No import of pytest.
"""

from __future__ import annotations

import contextlib
import itertools
import socket
import ssl
import struct
from collections.abc import Iterator, Mapping
from typing import Any
from uuid import UUID

from pyproducer.protocol.apis import ApiKeys
from pyproducer.protocol.header import build_request, parse_response
from pyproducer.protocol.schema import Struct
from tests.support.patience import GIVE_UP_S

CLIENT_ID = "probe"


class ConnectionEnded(Exception):
    """The broker closed the connection."""


class RawClient:
    """One connection; a context manager."""

    def __init__(self, address: tuple[str, int], *, timeout_s: float = GIVE_UP_S,
                 ssl_context: ssl.SSLContext | None = None) -> None:
        self._socket = socket.create_connection(address, timeout=timeout_s)
        if ssl_context is not None:
            try:
                self._socket = ssl_context.wrap_socket(self._socket, server_hostname=address[0])
            except Exception:
                self._socket.close()
                raise
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._correlation_ids = itertools.count(1)

    def __enter__(self) -> RawClient:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        self._socket.close()

    def reset(self) -> None:
        """Close with RST in place of FIN."""
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._socket.close()

    def half_close(self) -> None:
        self._socket.shutdown(socket.SHUT_WR)

    @property
    def local_port(self) -> int:
        port: int = self._socket.getsockname()[1]
        return port

    # ---- bytes

    def send_bytes(self, data: bytes) -> None:
        self._socket.sendall(data)

    def send_frame(self, payload: bytes) -> None:
        self._socket.sendall(struct.pack(">i", len(payload)) + payload)

    def receive_bytes(self, count: int) -> bytes:
        """Raises ConnectionEnded at the end of the stream, TimeoutError when nothing comes."""
        pieces = bytearray()
        while len(pieces) < count:
            try:
                piece = self._socket.recv(count - len(pieces))
            except ConnectionResetError:
                piece = b""
            if not piece:
                raise ConnectionEnded(f"after {len(pieces)} bytes")
            pieces += piece
        return bytes(pieces)

    def receive_frame(self) -> bytes:
        return self.receive_bytes(struct.unpack(">i", self.receive_bytes(4))[0])

    def is_closed(self, *, within_s: float = GIVE_UP_S) -> bool:
        """Whether the broker ends the connection without a byte."""
        with self._timeout(within_s):
            try:
                self.receive_bytes(1)
            except ConnectionEnded:
                return True
            except TimeoutError:
                return False
        return False

    def is_silent(self, *, for_s: float = 0.3) -> bool:
        """Whether nothing comes and the connection stays open."""
        with self._timeout(for_s):
            try:
                self.receive_bytes(1)
            except TimeoutError:
                return True
            except ConnectionEnded:
                return False
        return False

    @contextlib.contextmanager
    def _timeout(self, seconds: float) -> Iterator[None]:
        before = self._socket.gettimeout()
        self._socket.settimeout(seconds)
        try:
            yield
        finally:
            self._socket.settimeout(before)

    # ---- requests

    def send_request(self, api_key: ApiKeys, version: int, body: Mapping[str, Any]) -> int:
        """Send a request; return its correlation id."""
        correlation_id = next(self._correlation_ids)
        self.send_frame(request_bytes(api_key, version, body, correlation_id=correlation_id))
        return correlation_id

    def receive_response(self, api_key: ApiKeys, version: int) -> tuple[int, Struct]:
        return parse_response(api_key, version, self.receive_frame())

    def request(self, api_key: ApiKeys, version: int, body: Mapping[str, Any]) -> Struct:
        """Send a request and return the body of its response."""
        correlation_id = self.send_request(api_key, version, body)
        answered, response = self.receive_response(api_key, version)
        assert answered == correlation_id
        return response


def request_bytes(api_key: ApiKeys, version: int, body: Mapping[str, Any], *, correlation_id: int = 1,
                  client_id: str | None = CLIENT_ID) -> bytes:
    """Return a request without its size."""
    return b"".join(build_request(api_key, version, correlation_id, client_id, body))


def framed(payload: bytes) -> bytes:
    return struct.pack(">i", len(payload)) + payload


def header_bytes(api_id: int, version: int, correlation_id: int = 7, client_id: bytes | None = b"probe") -> bytes:
    """Return a request header v1 of any numbers."""
    name = struct.pack(">h", -1) if client_id is None else struct.pack(">h", len(client_id)) + client_id
    return struct.pack(">hhi", api_id, version, correlation_id) + name


# ---- what the wire tests ask

def metadata_body(*topics: str, **fields: Any) -> dict[str, Any]:
    return {"topics": [{"name": topic} for topic in topics], **fields}


def produce_body(topic: str, partition: int, records: bytes | None, *, acks: int = -1) -> dict[str, Any]:
    return {"acks": acks, "timeout_ms": 5000, "topic_data": [
        {"name": topic, "partition_data": [{"index": partition, "records": records}]}]}


def fetch_body(version: int, topic: str | UUID, partition: int, offset: int, *, max_wait_ms: int = 0,
               min_bytes: int = 1, max_bytes: int = 1 << 20, partition_max_bytes: int = 1 << 20,
               **fields: Any) -> dict[str, Any]:
    """Return a Fetch request of one partition; from version 13 the topic is an id."""
    body: dict[str, Any] = {
        "replica_id": -1, "max_wait_ms": max_wait_ms, "min_bytes": min_bytes, "max_bytes": max_bytes,
        "isolation_level": 0, "topics": [
            {"topic_id" if version >= 13 else "topic": topic, "partitions": [
                {"partition": partition, "fetch_offset": offset, "partition_max_bytes": partition_max_bytes}]}]}
    if version >= 7:
        body["forgotten_topics_data"] = []
    if version >= 11:
        body["rack_id"] = ""
    if version >= 15:
        del body["replica_id"]
    return {**body, **fields}


def list_offsets_body(topic: str, partition: int, timestamp: int, **fields: Any) -> dict[str, Any]:
    return {"replica_id": -1, "topics": [
        {"name": topic, "partitions": [{"partition_index": partition, "timestamp": timestamp}]}], **fields}


def produced(response: Struct) -> Struct:
    """Return the one partition of a Produce response."""
    partition: Struct = response["responses"][0]["partition_responses"][0]
    return partition


def fetched(response: Struct) -> Struct:
    """Return the one partition of a Fetch response."""
    partition: Struct = response["responses"][0]["partitions"][0]
    return partition
