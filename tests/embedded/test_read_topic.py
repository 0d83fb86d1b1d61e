"""pyproducer.testing.read_topic: how long it waits."""

from __future__ import annotations

import pytest

from pyproducer import KafkaProducer
from pyproducer.broker import EmbeddedBroker
from pyproducer.testing import read_topic


@pytest.mark.parametrize("timeout", [None, 60, 1e12, float("inf"), 10**400], ids=["None", "60", "1e12", "inf", "int"])
def test_read_when_the_timeout_is_huge_then_all_is_read(timeout: float | None) -> None:
    with EmbeddedBroker(topics={"t": 1}) as broker:
        with KafkaProducer({"bootstrap.servers": broker.bootstrap_servers}) as producer:
            producer.send("t", b"v")
        assert [record.value for record in read_topic(broker.bootstrap_servers, "t", timeout=timeout)] == [b"v"]


@pytest.mark.parametrize(("timeout", "error", "words"), [
    (0, ValueError, "timeout 0 is too short"), (-1, ValueError, "timeout -1 is too short"),
    (float("nan"), ValueError, "nan"), ("5", TypeError, "got str: '5'")])
def test_read_when_the_timeout_makes_no_sense_then_said_so(timeout: float, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        list(read_topic("127.0.0.1:1", "t", timeout=timeout))
