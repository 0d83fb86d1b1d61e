"""A future can be awaited, without holding up the event loop."""

from __future__ import annotations

import asyncio

import pytest

from pyproducer import ErrorCode, RecordRejectedError
from tests.contract.clusters import Cluster
from tests.contract.conftest import Connect
from tests.contract.witness import numbers_of
from tests.support.fault_proxy import FaultProxy
from tests.support.patience import GIVE_UP_S


def test_await_when_the_record_is_stored_then_it_gives_the_metadata(topic: str, connect: Connect) -> None:
    producer = connect()

    async def send() -> tuple[object, object]:
        future = producer.send(topic, b"v")
        return await future, await future

    first, second = asyncio.run(asyncio.wait_for(send(), GIVE_UP_S))
    assert first == second
    assert first == (topic, *first[1:])
    assert first.offset == 0


def test_await_when_the_record_is_refused_then_it_raises(topic: str, connect: Connect, proxy: FaultProxy) -> None:
    producer = connect(through=proxy)
    proxy.on("Produce").error(ErrorCode.INVALID_RECORD)

    async def send() -> None:
        await producer.send(topic, b"v")

    with pytest.raises(RecordRejectedError):
        asyncio.run(asyncio.wait_for(send(), GIVE_UP_S))


def test_await_when_many_are_gathered_then_they_come_in_order(cluster: Cluster, topic: str, connect: Connect) -> None:
    producer = connect()

    async def send() -> list[int]:
        futures = [producer.send(topic, b"%d" % number, partition=0) for number in range(100)]

        async def offset(index: int) -> int:
            return (await futures[index]).offset

        return await asyncio.gather(*(offset(index) for index in range(100)))

    assert asyncio.run(asyncio.wait_for(send(), GIVE_UP_S)) == list(range(100))
    assert numbers_of(cluster.log(topic)) == list(range(100))


def test_await_when_the_answer_is_missing_then_other_tasks_run(
        topic: str, connect: Connect, proxy: FaultProxy) -> None:
    producer = connect(through=proxy)
    producer.partitions_for(topic)
    held = proxy.on("Produce").hold_answer()
    events: list[str] = []

    async def wait_for_record() -> None:
        future = producer.send(topic, b"v")
        events.append("waits")
        await future
        events.append("stored")

    async def other() -> None:
        while held.count == 0:
            await asyncio.sleep(0.001)
        for _ in range(3):
            events.append("runs")
            await asyncio.sleep(0)
        held.release()

    async def both() -> None:
        await asyncio.gather(wait_for_record(), other())

    asyncio.run(asyncio.wait_for(both(), GIVE_UP_S))
    assert events == ["waits", "runs", "runs", "runs", "stored"]


@pytest.mark.parametrize("how", ["cancelled", "timed out"])
def test_await_when_the_task_is_given_up_then_the_record_is_stored_all_the_same(
        cluster: Cluster, topic: str, connect: Connect, proxy: FaultProxy, how: str) -> None:
    producer = connect(through=proxy)
    held = proxy.on("Produce").hold_request()

    async def give_up() -> None:
        future = producer.send(topic, b"v")

        async def wait() -> None:
            await future

        if how == "timed out":
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(wait(), 0.05)
            return
        task = asyncio.create_task(wait())
        while held.count == 0:
            await asyncio.sleep(0.001)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(give_up())
    held.release()
    producer.flush(GIVE_UP_S)
    assert len(cluster.log(topic)) == 1


def test_await_when_its_loop_is_closed_before_the_answer_then_nobody_else_suffers(
        cluster: Cluster, topic: str, connect: Connect, proxy: FaultProxy) -> None:
    producer = connect(through=proxy)
    held = proxy.on("Produce").hold_answer()

    async def begin() -> None:
        async def wait() -> None:
            await producer.send(topic, b"first", partition=0)

        task = asyncio.create_task(wait())
        while held.count == 0:
            await asyncio.sleep(0.001)
        task.cancel()

    asyncio.run(begin())
    held.release()
    assert producer.send(topic, b"second", partition=0).result(GIVE_UP_S).offset == 1
