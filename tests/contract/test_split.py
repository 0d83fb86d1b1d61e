"""max.message.bytes of a topic: batches above it are split, records above it are refused, alone."""

from __future__ import annotations

import pytest

from pyproducer import RecordTooLargeError
from tests.contract.clusters import Can, Cluster
from tests.contract.conftest import Connect
from tests.contract.witness import Witness, await_known, await_memory_back, number_of
from tests.support.patience import GIVE_UP_S

pytestmark = pytest.mark.needs(Can.CONFIGURE_TOPICS)

LIMIT = 1000


@pytest.fixture
def narrow_topic(cluster: Cluster, topic_name: str) -> str:
    return cluster.create_topic(topic_name, {"max.message.bytes": str(LIMIT)})


@pytest.mark.parametrize("codec", ["none", "zstd"])
@pytest.mark.parametrize("is_idempotent", [True, False])
def test_batches_when_the_topic_finds_them_too_large_then_all_records_are_stored_in_order(
        cluster: Cluster, narrow_topic: str, connect: Connect, codec: str, is_idempotent: bool) -> None:
    producer = connect(linger_ms=10_000, compression_type=codec, enable_idempotence=is_idempotent,
                       max_in_flight_requests_per_connection=5 if is_idempotent else 1)
    await_known(producer, narrow_topic)
    witness = Witness(producer, narrow_topic)
    for number in range(1500):
        witness.send(number, partition=number % 2)
    producer.flush(GIVE_UP_S)
    log = witness.check_log(cluster)
    assert len(witness.metadata) == 1500
    for partition in (0, 1):
        numbers = list(range(partition, 1500, 2))
        assert [number_of(record) for record in log if record.partition == partition] == numbers
        assert [number for number in witness.order if witness.partitions[number] == partition] == numbers
    await_memory_back(producer)


def test_record_when_the_topic_finds_it_too_large_then_it_alone_is_refused(
        cluster: Cluster, narrow_topic: str, connect: Connect) -> None:
    producer = connect(linger_ms=10_000)
    await_known(producer, narrow_topic)
    witness = Witness(producer, narrow_topic)
    witness.send(0)
    witness.send(1, padding=3 * LIMIT)
    witness.send(2)
    producer.flush(GIVE_UP_S)
    error = witness.error_of(1)
    assert isinstance(error, RecordTooLargeError)
    assert error.outcome == "rejected"
    assert sorted(witness.metadata) == [0, 2]
    witness.check_log(cluster)
    await_memory_back(producer)
