"""check(): can a broker be reached with these settings, before any record?"""

from __future__ import annotations

import asyncio
import time

import pytest

from pyproducer import KafkaProducer, KafkaTimeoutError, ProducerClosedError
from pyproducer.aio import AsyncKafkaProducer
from pyproducer.testing import MockProducer
from tests.contract.conftest import Connect
from tests.contract.witness import longer_and_longer
from tests.support.bad_servers import closed_port
from tests.support.patience import GIVE_UP_S


def test_check_when_a_broker_answers_then_it_returns_each_time(connect: Connect) -> None:
    producer = connect()
    for _ in range(3):
        producer.check(GIVE_UP_S)
    producer.check()


@pytest.mark.parametrize("is_told", [True, False])
def test_check_when_nobody_answers_then_the_timeout_tells_what_was_tried(*, is_told: bool) -> None:
    with closed_port() as address:
        for block_ms in longer_and_longer(200):  # it may be over before the first attempt is
            with KafkaProducer({"bootstrap.servers": address, "max.block.ms": block_ms}) as producer:
                before = time.monotonic()
                with pytest.raises(KafkaTimeoutError, match=rf"No broker answered .* within {block_ms} ms") as caught:
                    producer.check(block_ms / 1000 if is_told else None)
                assert time.monotonic() - before >= block_ms / 1000 - 0.001
            assert caught.value.phase == "metadata"
            if f"bootstrap.servers: {address}; {address}: connect: Connection refused" in str(caught.value):
                break


def test_check_in_an_event_loop_when_asked_then_it_says_the_same(connect: Connect) -> None:
    """The pages told of check() in general, and the producer of event loops had none."""
    async def ask_both() -> None:
        async with AsyncKafkaProducer({"bootstrap.servers": connect().config()["bootstrap.servers"]}) as producer:
            await producer.check(GIVE_UP_S)
            await producer.check()
            with pytest.raises(TypeError, match="timeout"):
                await producer.check("1")  # type: ignore[arg-type]
        with pytest.raises(ProducerClosedError):
            await producer.check()
        with closed_port() as address:
            async with AsyncKafkaProducer({"bootstrap.servers": address}) as nobody:
                with pytest.raises(KafkaTimeoutError, match="No broker answered") as caught:
                    await nobody.check(0.05)
                assert caught.value.phase == "metadata"

    asyncio.run(ask_both())


def test_check_of_a_mock_in_an_event_loop_when_asked_then_it_refuses_what_the_producer_does() -> None:
    async def ask() -> None:
        producer = MockProducer().as_async()
        await producer.check(1)
        with pytest.raises(ValueError, match="timeout"):
            await producer.check(float("nan"))
        await producer.close()
        with pytest.raises(ProducerClosedError):
            await producer.check()

    asyncio.run(ask())


@pytest.mark.parametrize(("timeout_s", "error"), [("1", TypeError), (float("nan"), ValueError)])
def test_check_when_the_timeout_is_no_number_then_refused(
        connect: Connect, timeout_s: float, error: type[Exception]) -> None:
    with pytest.raises(error, match="timeout"):
        connect().check(timeout_s)
