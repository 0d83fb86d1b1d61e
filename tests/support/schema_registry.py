"""A schema registry that is just enough for clients to register and look up schemas, in memory, on 127.0.0.1.

Thread:  one of its own, and one for each connection.
Source:  ours; the REST API of Confluent Schema Registry.

No import of pytest.
"""

from __future__ import annotations

import json
import threading
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any
from urllib.parse import unquote, urlsplit


class SchemaRegistry:
    """The registry; use it in a `with` block.

    Attributes:
        subjects: What was registered, by subject, in order of versions.
    """

    def __init__(self) -> None:
        self.subjects: dict[str, list[dict[str, Any]]] = {}
        self._ids: dict[str, int] = {}
        self._lock = threading.Lock()
        registry = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                self._answer(*registry._get(self._path()))

            def do_POST(self) -> None:
                schema = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                self._answer(*registry._post(self._path(), schema))

            def _path(self) -> list[str]:
                return [unquote(part) for part in urlsplit(self.path).path.strip("/").split("/")]

            def _answer(self, status: int, body: Any) -> None:
                text = json.dumps(body).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/vnd.schemaregistry.v1+json")
                self.send_header("Content-Length", str(len(text)))
                self.send_header("Connection", "close")
                self.end_headers()
                self.wfile.write(text)

            def log_message(self, format: str, *arguments: object) -> None:
                """Say nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), name="schema registry")

    @property
    def url(self) -> str:
        """Where it is."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> SchemaRegistry:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 traceback: TracebackType | None) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def _post(self, path: list[str], schema: dict[str, Any]) -> tuple[int, Any]:
        with self._lock:
            versions = self.subjects.setdefault(path[1], [])
            found = next((known for known in versions if known["schema"] == schema["schema"]), None)
            if found is None and path[2:] == ["versions"]:
                number = self._ids.setdefault(json.dumps(schema, sort_keys=True), len(self._ids) + 1)
                found = {**schema, "subject": path[1], "id": number, "version": len(versions) + 1,
                         "guid": str(uuid.UUID(int=number))}
                versions.append(found)
            return (200, found) if found is not None else (404, {"error_code": 40403, "message": "no such schema"})

    def _get(self, path: list[str]) -> tuple[int, Any]:
        with self._lock:
            known = [schema for versions in self.subjects.values() for schema in versions]
            if path[:2] == ["schemas", "ids"]:
                found = [schema for schema in known if schema["id"] == int(path[2])]
            elif path[:2] == ["schemas", "guids"]:
                found = [schema for schema in known if schema["guid"] == path[2]]
            else:
                found = self.subjects.get(path[1], [])[-1:] if path[2:] == ["versions", "latest"] else []
            return (200, found[0]) if found else (404, {"error_code": 40401, "message": "no such thing"})
