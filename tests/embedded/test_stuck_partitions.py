"""What the log says while a partition is refused, its broker is gone, or the broker throttles."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest

from pyproducer import KafkaProducer
from pyproducer.broker import EmbeddedBroker
from pyproducer.common.error_codes import ErrorCode
from pyproducer.sender import stuck_log
from tests.support.patience import GIVE_UP_S


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Partitions are told after half a second, so that nobody waits for five."""
    monkeypatch.setattr(stuck_log, "STUCK_AFTER_MS", 500)
    monkeypatch.setattr(stuck_log, "LOOK_MS", 100)
    monkeypatch.setattr(stuck_log, "THROTTLE_WINDOW_MS", 1_000)


@pytest.fixture
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(topics={"orders": 2}) as running:
        yield running


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture) -> Callable[[int], list[str]]:
    def wait_for(count: int) -> list[str]:
        deadline = time.monotonic() + GIVE_UP_S
        while True:
            found = [record.getMessage() for record in caplog.records if record.name == stuck_log.__name__]
            if len(found) >= count:
                return found
            assert time.monotonic() < deadline, f"{found}, and not {count}"
            time.sleep(0.01)

    return wait_for


@pytest.mark.parametrize("code", [ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.KAFKA_STORAGE_ERROR])
def test_partition_when_it_is_refused_for_a_while_then_one_line_at_its_begin_and_one_at_its_end(
        broker: EmbeddedBroker, lines: Callable[[int], list[str]], code: ErrorCode) -> None:
    refused = broker.faults.on("Produce", times=None).error(code)
    with KafkaProducer({"bootstrap.servers": broker.bootstrap_servers}) as producer:
        future = producer.send("orders", b"v", partition=1)
        [line] = lines(1)
        assert line.startswith(f"orders-1: {code.name} (node {broker.nodes()[0]}), ")
        refused.remove()
        future.result(GIVE_UP_S)
        begin, end = lines(2)
        assert begin == line
        assert end.startswith("orders-1: goes on after ")


def test_broker_when_it_is_gone_then_the_line_says_why_its_partitions_wait(
        broker: EmbeddedBroker, lines: Callable[[int], list[str]]) -> None:
    with KafkaProducer({"bootstrap.servers": broker.bootstrap_servers}) as producer:
        producer.send("orders", b"v", partition=0).result(GIVE_UP_S)
        broker.stop_node(broker.nodes()[0])
        producer.send("orders", b"v", partition=0)
        line = lines(1)[0]
        assert line.startswith("orders-0: its leader, node ")
        assert "cannot be reached" in line
        producer.close(0)


def test_throttle_when_it_comes_to_a_second_then_it_is_told_and_so_is_its_end(
        broker: EmbeddedBroker, lines: Callable[[int], list[str]]) -> None:
    throttled = broker.faults.on("Produce", times=2).throttle(600)
    with KafkaProducer({"bootstrap.servers": broker.bootstrap_servers}) as producer:
        for _ in range(2):
            producer.send("orders", b"v", partition=0).result(GIVE_UP_S)
        [line] = lines(1)
        assert "throttles this producer: its quota is used up" in line
        assert "the last one of 600 ms and 1200 ms in all" in line
        throttled.remove()
        assert "throttles this producer no more: 1200 ms of pauses" in lines(2)[1]
