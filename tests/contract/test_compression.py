"""compression.type and the levels: read back as sent, and with effect on what goes over the wire."""

from __future__ import annotations

import importlib.util
import random
from typing import Any

import pytest

from pyproducer import ConfigError
from tests.contract.clusters import Cluster
from tests.contract.conftest import Connect
from tests.contract.witness import await_known, await_memory_back
from tests.support.fault_proxy import FaultProxy
from tests.support.patience import GIVE_UP_S

CODECS = ("gzip", "lz4", "zstd", "snappy")


def sentences(count: int) -> list[bytes]:
    """Text that is worth some effort to compress: words drawn by lot, the same ones in each run."""
    draw = random.Random(7)
    words = [bytes(draw.choices(b"abcdefghijklmnopqrstuvwxyz", k=draw.randint(2, 9))) for _ in range(400)]
    return [b" ".join(draw.choices(words, k=40)) for _ in range(count)]


def wire_bytes(proxy: FaultProxy) -> int:
    """How many bytes of batches went over the wire."""
    return sum(len(partition["records"]) for request in proxy.requests("Produce")
               for topic in request.body["topic_data"] for partition in topic["partition_data"])


def send_all(topic: str, connect: Connect, proxy: FaultProxy, values: list[bytes], **settings: Any) -> int:
    """Send values as one batch, the same before compression each time; return what it takes on the wire."""
    before = wire_bytes(proxy)
    with connect(through=proxy, linger_ms=20_000, batch_size=900_000, **settings) as producer:
        await_known(producer, topic)
        futures = [producer.send(topic, value, partition=0, timestamp=1_600_000_000_000) for value in values]
        producer.flush(GIVE_UP_S)
        assert all(future.exception(0) is None for future in futures)
        await_memory_back(producer)
    return wire_bytes(proxy) - before


@pytest.mark.parametrize("codec", CODECS)
def test_codec_when_used_then_less_is_sent_and_the_same_is_read(
        cluster: Cluster, topic: str, connect: Connect, proxy: FaultProxy, codec: str) -> None:
    values = sentences(300)
    plain = send_all(topic, connect, proxy, values, compression_type="none")
    assert send_all(topic, connect, proxy, values, compression_type=codec) < plain * 0.75
    assert [record.value for record in cluster.log(topic)] == values * 2


@pytest.mark.parametrize("codec", ["gzip", "zstd"])
def test_level_when_it_is_higher_then_less_is_sent(
        cluster: Cluster, topic: str, connect: Connect, proxy: FaultProxy, codec: str) -> None:
    values = sentences(300)
    low, high = (send_all(topic, connect, proxy, values,
                          **{"compression_type": codec, f"compression_{codec}_level": level}) for level in (1, 9))
    assert high < low
    assert [record.value for record in cluster.log(topic)] == values * 2


def test_level_of_lz4_when_it_is_9_then_it_is_the_fast_compressor_as_in_java(
        topic: str, connect: Connect, proxy: FaultProxy) -> None:
    if importlib.util.find_spec("lz4") is None:  # which the default install can do without
        with pytest.raises(ConfigError, match="pip install lz4"):
            connect(through=proxy, compression_type="lz4", compression_lz4_level=12)
        return
    values = sentences(300)
    fast, slow = (send_all(topic, connect, proxy, values, compression_type="lz4", compression_lz4_level=level)
                  for level in (9, 12))
    assert slow < fast


@pytest.mark.parametrize("codec", CODECS)
def test_codec_when_the_batch_has_one_empty_record_then_it_is_read_back(
        cluster: Cluster, topic: str, connect: Connect, codec: str) -> None:
    connect(compression_type=codec).send(topic, None).result(GIVE_UP_S)
    assert [(record.key, record.value) for record in cluster.log(topic)] == [(None, None)]
