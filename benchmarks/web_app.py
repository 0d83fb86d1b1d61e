"""A web app that answers each POST /send when its record is stored: `python -m benchmarks.web_app SERVERS TOPIC`.

What a FastAPI app does, without FastAPI: one producer from the lifespan's beginning to its end, and an `await send()`
in the request. GET /health touches no Kafka; GET /holds says how long the loop was held up since it was asked before.
Prints its port.
"""

from __future__ import annotations

import socket
import sys
from collections.abc import Awaitable, Callable
from typing import Any

from benchmarks.loop_process import LoopWatch
from pyproducer import KafkaError
from pyproducer.aio import AsyncKafkaProducer

# So long a request waits for its record: less than whoever asks has patience.
GIVE_UP_MS = 10_000
SETTINGS: dict[str, object] = {"max.block.ms": GIVE_UP_MS, "delivery.timeout.ms": GIVE_UP_MS,
                               "request.timeout.ms": GIVE_UP_MS // 2}

Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]


class WebApp:
    """The ASGI app.

    Args:
        props: The producer's.
        topic: Where the bodies of requests go.
    """

    def __init__(self, props: dict[str, object], topic: str) -> None:
        self._props = props
        self._topic = topic
        self._producer: AsyncKafkaProducer[bytes, bytes] | None = None
        self._watch = LoopWatch()

    async def __call__(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        """Serve a request, or the app's life."""
        if scope["type"] == "lifespan":
            with self._watch.watching():
                await self._live(receive, send)
        elif scope["path"] == "/holds":
            await _answer(send, 200, self._watch.describe().encode())
            self._watch.forget()
        elif scope["path"] == "/health":
            await _answer(send, 200, b"ok")
        else:
            await self._store(receive, send)

    async def _live(self, receive: Receive, send: Send) -> None:
        await receive()
        async with AsyncKafkaProducer(self._props) as producer:
            self._producer = producer
            await send({"type": "lifespan.startup.complete"})
            await receive()
        await send({"type": "lifespan.shutdown.complete"})

    async def _store(self, receive: Receive, send: Send) -> None:
        assert self._producer is not None
        body, has_more = b"", True
        while has_more:
            message = await receive()
            body += message.get("body", b"")
            has_more = message.get("more_body", False)
        try:
            metadata = await self._producer.send(self._topic, body)
        except KafkaError as error:
            await _answer(send, 503, f"{type(error).__name__}: {error}".encode())
        else:
            await _answer(send, 200, f"{metadata.topic}-{metadata.partition}@{metadata.offset}".encode())


async def _answer(send: Send, status: int, body: bytes) -> None:
    await send({"type": "http.response.start", "status": status,
                "headers": [(b"content-length", str(len(body)).encode())]})
    await send({"type": "http.response.body", "body": body})


def main() -> None:
    """Serve until the process is told to end."""
    import uvicorn

    servers, topic = sys.argv[1:]
    # Its protocol is named: only then asyncio turns off Nagle's algorithm, which adds 40 ms to an answer in two parts.
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.bind(("127.0.0.1", 0))
    listener.listen()
    print(listener.getsockname()[1], flush=True)
    app = WebApp({"bootstrap.servers": servers, **SETTINGS}, topic)
    uvicorn.Server(uvicorn.Config(app, log_level="warning", lifespan="on", loop="asyncio")).run(sockets=[listener])


if __name__ == "__main__":
    main()
