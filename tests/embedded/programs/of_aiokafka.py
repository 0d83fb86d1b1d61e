"""Programs of aiokafka's users."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from pyproducer import BufferExhaustedError, KafkaError, RecordMetadata
from pyproducer.aio import AsyncKafkaProducer


async def send_and_wait(servers: str, topic: str) -> RecordMetadata:
    """The first program of its documentation.

        producer = AIOKafkaProducer(bootstrap_servers=servers)
        await producer.start()
        try:
            await producer.send_and_wait(topic, b"Super message")
        finally:
            await producer.stop()
    """
    async with AsyncKafkaProducer({"bootstrap.servers": servers}) as producer:
        return await producer.send(topic, b"Super message")


async def gather(servers: str, topic: str, count: int) -> list[RecordMetadata]:
    """Many at once.

        await asyncio.gather(*(producer.send_and_wait(topic, b"%d" % n) for n in range(count)))
    """
    async with AsyncKafkaProducer({"bootstrap.servers": servers}) as producer:
        return list(await asyncio.gather(*(producer.send(topic, b"%d" % number) for number in range(count))))


async def fire_and_look_later(servers: str, topic: str, values: Iterable[bytes]) -> int:
    """Futures that are looked at in the end; returns how many were stored.

        futures = [await producer.send(topic, value) for value in values]
        for done in await asyncio.gather(*futures, return_exceptions=True): ...
    """
    async with AsyncKafkaProducer({"bootstrap.servers": servers}) as producer:
        futures = []
        for value in values:
            try:
                futures.append(producer.send_nowait(topic, value))
            except BufferExhaustedError:  # then wait for memory, as `await send()` does
                await producer.send(topic, value)
        await producer.flush()
        return sum(future.exception() is None for future in futures)


async def batch_by_hand(servers: str, topic: str, values: list[bytes]) -> int:
    """A batch for one partition, made by hand; returns the first offset.

        batch = producer.create_batch()
        for value in values: batch.append(key=None, value=value, timestamp=None)
        await (await producer.send_batch(batch, topic, partition=1))
    """
    async with AsyncKafkaProducer({"bootstrap.servers": servers}) as producer:
        stored = await producer.send_batch(topic, values, partitions=[1] * len(values))
        stored.raise_on_error()
        return stored.offsets[0]


class LifespanApp:
    """A FastAPI app: the producer lives from the lifespan's beginning to its end.

        @asynccontextmanager
        async def lifespan(app):
            app.state.producer = AIOKafkaProducer(bootstrap_servers=servers)
            await app.state.producer.start()
            yield
            await app.state.producer.stop()

        @app.post("/orders")
        async def order(request):
            try:
                await request.app.state.producer.send_and_wait(topic, await request.body())
            except KafkaError as error:
                raise HTTPException(503, str(error))
    """

    def __init__(self, servers: str, topic: str) -> None:
        self._servers = servers
        self._topic = topic
        self._producer: AsyncKafkaProducer[bytes, bytes] | None = None

    async def __call__(self, scope: dict[str, Any], receive: Callable[[], Awaitable[dict[str, Any]]],
                       send: Callable[[dict[str, Any]], Awaitable[None]]) -> None:
        """Serve a request, or the app's life, as ASGI has it."""
        if scope["type"] == "lifespan":
            await receive()
            async with AsyncKafkaProducer({"bootstrap.servers": self._servers}) as self._producer:
                await send({"type": "lifespan.startup.complete"})
                await receive()
            await send({"type": "lifespan.shutdown.complete"})
            return
        assert self._producer is not None
        body = (await receive())["body"]
        try:
            metadata = await self._producer.send(self._topic, body)
        except KafkaError as error:
            status, text = 503, str(error)
        else:
            status, text = 200, f"{metadata.partition}@{metadata.offset}"
        await send({"type": "http.response.start", "status": status, "headers": []})
        await send({"type": "http.response.body", "body": text.encode()})


async def beside_other_work(servers: str, topic: str, events: asyncio.Queue[bytes | None]) -> int:
    """A consumer of a queue that sends what comes; confluent-kafka's users wrote a class with a polling thread for it.

        class AIOProducer:
            def produce(self, topic, value):
                result = self._loop.create_future()
                def ack(err, msg): self._loop.call_soon_threadsafe(result.set_result, msg)
                self._producer.produce(topic, value, on_delivery=ack)
                return result
    """
    count = 0
    async with AsyncKafkaProducer({"bootstrap.servers": servers}) as producer:
        while (event := await events.get()) is not None:
            await producer.send(topic, event)
            count += 1
    return count
