"""check(): can a broker be reached with these settings, before any record?"""

from __future__ import annotations

import time

import pytest

from pyproducer import KafkaProducer, KafkaTimeoutError
from tests.contract.conftest import Connect
from tests.support.bad_servers import closed_port
from tests.support.patience import GIVE_UP_S


def test_check_when_a_broker_answers_then_it_returns_each_time(connect: Connect) -> None:
    producer = connect()
    for _ in range(3):
        producer.check(GIVE_UP_S)
    producer.check()


@pytest.mark.parametrize("timeout_s", [0.2, None])
def test_check_when_nobody_answers_then_the_timeout_tells_what_was_tried(timeout_s: float | None) -> None:
    with closed_port() as address, KafkaProducer({"bootstrap.servers": address, "max.block.ms": 200}) as producer:
        before = time.monotonic()
        with pytest.raises(KafkaTimeoutError, match=r"No broker answered .* within 200 ms") as caught:
            producer.check(timeout_s)
        assert time.monotonic() - before >= 0.199
    assert caught.value.phase == "metadata"
    assert f"bootstrap.servers: {address}; {address}: connect: Connection refused" in str(caught.value)


@pytest.mark.parametrize(("timeout_s", "error"), [("1", TypeError), (float("nan"), ValueError)])
def test_check_when_the_timeout_is_no_number_then_refused(
        connect: Connect, timeout_s: float, error: type[Exception]) -> None:
    with pytest.raises(error, match="timeout"):
        connect().check(timeout_s)
