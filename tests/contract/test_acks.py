"""acks: what the producer is told, and that the records are there."""

from __future__ import annotations

import pytest

from pyproducer import ConfigError, KafkaProducer
from tests.contract.clusters import Can, Cluster
from tests.contract.conftest import Connect
from tests.contract.witness import Witness, await_known, numbers_of


@pytest.mark.parametrize("settings", [
    {"acks": "all"}, {"acks": "-1"}, {"acks": "all", "enable_idempotence": False},
    {"acks": "1", "enable_idempotence": False}], ids=["all", "-1", "all-plain", "1"])
def test_offsets_when_records_are_acknowledged_then_they_are_those_of_the_log(
        cluster: Cluster, topic: str, connect: Connect, settings: dict[str, object]) -> None:
    witness = Witness(connect(**settings), topic)
    witness.send(range(20), partition=1)
    witness.await_all()
    witness.check_log(cluster)
    assert [witness.metadata[number].offset for number in range(20)] == list(range(20))
    assert all(metadata.has_offset for metadata in witness.metadata.values())


@pytest.mark.needs(Can.ACKS_0)
def test_offsets_when_acks_is_0_then_none_is_told_and_the_records_arrive(
        cluster: Cluster, topic: str, connect: Connect) -> None:
    producer = connect(acks="0", enable_idempotence=False)
    witness = Witness(producer, topic)
    witness.send(range(50), partition=2)
    witness.await_all()
    assert not witness.errors
    assert {metadata.offset for metadata in witness.metadata.values()} == {-1}
    assert not any(metadata.has_offset for metadata in witness.metadata.values())
    assert {metadata.partition for metadata in witness.metadata.values()} == {2}
    assert numbers_of(cluster.await_log(topic, 50)) == list(range(50))


@pytest.mark.needs(Can.ACKS_0)
def test_close_when_acks_is_0_then_everything_was_sent(cluster: Cluster, topic: str, connect: Connect) -> None:
    producer = connect(acks="0", enable_idempotence=False, linger_ms=10_000)
    await_known(producer, topic)
    witness = Witness(producer, topic)
    witness.send(range(50))
    producer.close()
    assert numbers_of(cluster.await_log(topic, 50)) == list(range(50))


@pytest.mark.parametrize("acks", ["1", "0"])
def test_acks_when_idempotence_is_asked_for_then_less_than_all_is_refused(acks: str) -> None:
    with pytest.raises(ConfigError):
        KafkaProducer({"bootstrap.servers": "127.0.0.1:9", "acks": acks, "enable.idempotence": True})
