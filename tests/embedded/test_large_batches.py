"""Batches above batch.size, in topics that take none: with acks=0 nobody would say so."""

from __future__ import annotations

from typing import Any

import pytest

from pyproducer import KafkaProducer
from pyproducer.broker import EmbeddedBroker


@pytest.mark.parametrize("is_batch", [False, True], ids=["send", "send_batch"])
@pytest.mark.parametrize("acks", ["0", "all"])
def test_records_when_the_topic_takes_small_batches_only_then_none_is_lost(acks: str, *, is_batch: bool) -> None:
    """Behind a batch that waited the next one grew above max.message.bytes: the broker closed the connection."""
    values = [b"%06d" % number + b"v" * 500 for number in range(2000)]
    props: dict[str, Any] = {"acks": acks}
    with EmbeddedBroker() as broker:
        broker.create_topic("small", 1, {"max.message.bytes": "60000"})
        with KafkaProducer({"bootstrap.servers": broker.bootstrap_servers, **props}) as producer:
            if is_batch:
                producer.send_batch("small", values).result()
            else:
                for value in values:
                    producer.send("small", value)
        assert sorted(record.value or b"" for record in broker.records("small")) == values
