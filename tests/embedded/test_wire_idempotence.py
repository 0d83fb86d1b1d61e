"""Producer ids, epochs and sequences as they were measured on Apache Kafka 4.1.

The same tests run against it with KAFKA_REFERENCE=host:port.
"""

from __future__ import annotations

import time

import pytest

from pyproducer.protocol.apis import ApiKeys
from pyproducer.protocol.schema import Struct
from pyproducer.record.batch_writer import build_batch
from tests.embedded.conftest import WireTarget
from tests.support.raw_client import RawClient, produce_body, produced

OUT_OF_ORDER = 45
INVALID_EPOCH = 47
MAX_SEQUENCE = 2**31 - 1


def init_producer_id(client: RawClient, version: int = 4, **fields: object) -> Struct:
    return client.request(ApiKeys.INIT_PRODUCER_ID, version,
                          {"transactional_id": None, "transaction_timeout_ms": 60_000, **fields})


class Writer:
    """Sends batches of one producer id and returns (code, base offset)."""

    def __init__(self, client: RawClient, topic: str) -> None:
        self._client = client
        self._topic = topic
        self.producer_id: int = init_producer_id(client)["producer_id"]

    def answer(self, sequence: int, *, count: int = 3, epoch: int = 0, producer_id: int | None = None) -> Struct:
        at = int(time.time() * 1000)
        records = build_batch([(at, None, b"v", ())] * count, producer_epoch=epoch, base_sequence=sequence,
                              producer_id=self.producer_id if producer_id is None else producer_id)
        return produced(self._client.request(ApiKeys.PRODUCE, 9, produce_body(self._topic, 0, bytes(records))))

    def send(self, sequence: int, **fields: int) -> tuple[int, int]:
        answer = self.answer(sequence, **fields)
        return answer["error_code"], answer["base_offset"]


@pytest.mark.parametrize("version", range(6))
def test_init_producer_id_gives_fresh_ids_in_every_version(wire: WireTarget, version: int) -> None:
    with wire.connect() as client:
        first, second = init_producer_id(client, version), init_producer_id(client, version)
    assert (first["error_code"], first["producer_epoch"]) == (0, 0)
    assert first["producer_id"] != second["producer_id"]


def test_init_producer_id_with_empty_transactional_id_is_42(wire: WireTarget) -> None:
    with wire.connect() as client:
        answer = init_producer_id(client, transactional_id="")
    assert (answer["error_code"], answer["producer_id"], answer["producer_epoch"]) == (42, -1, -1)


def test_duplicates_of_the_last_five_batches_get_their_first_offset(wire: WireTarget, topic: str) -> None:
    with wire.connect() as client:
        writer = Writer(client, topic)
        for number in range(6):
            assert writer.send(number * 3) == (0, number * 3)
        for number in range(1, 6):
            assert writer.send(number * 3) == (0, number * 3)
        assert writer.send(0) == (OUT_OF_ORDER, -1), "the sixth last batch is forgotten"
    assert wire.end_offset(topic) == 18


def test_a_duplicate_is_answered_with_the_time_of_its_batch(wire: WireTarget, topic: str) -> None:
    with wire.connect() as client:
        writer = Writer(client, topic)
        assert writer.answer(0)["log_append_time_ms"] == -1
        assert writer.answer(0)["log_append_time_ms"] > 1_600_000_000_000


def test_gaps_overlaps_and_partial_duplicates_are_out_of_order(wire: WireTarget, topic: str) -> None:
    with wire.connect() as client:
        writer = Writer(client, topic)
        assert writer.send(0) == (0, 0)
        assert writer.send(9) == (OUT_OF_ORDER, -1)
        assert writer.send(1) == (OUT_OF_ORDER, -1)
        assert writer.send(0, count=2) == (OUT_OF_ORDER, -1)
        assert writer.send(3) == (0, 3)


def test_a_new_epoch_starts_at_0_and_fences_the_old_one(wire: WireTarget, topic: str) -> None:
    with wire.connect() as client:
        writer = Writer(client, topic)
        assert writer.send(0) == (0, 0)
        assert writer.send(5, epoch=1) == (OUT_OF_ORDER, -1)
        assert writer.send(0, epoch=1) == (0, 3)
        assert writer.send(3, epoch=0) == (INVALID_EPOCH, -1)


def test_an_unknown_producer_id_may_start_anywhere(wire: WireTarget, topic: str) -> None:
    with wire.connect() as client:
        writer = Writer(client, topic)
        assert writer.send(77, producer_id=writer.producer_id + 900_000_000) == (0, 0)
        assert writer.send(80, producer_id=writer.producer_id + 900_000_000) == (0, 3)


def test_sequences_wrap_to_0_after_the_largest(wire: WireTarget, topic: str) -> None:
    with wire.connect() as client:
        writer = Writer(client, topic)
        assert writer.send(MAX_SEQUENCE - 1) == (0, 0)
        assert writer.send(1) == (0, 3)
        assert writer.send(MAX_SEQUENCE - 1) == (0, 0), "the wrapping batch again"
        assert writer.send(4) == (0, 6)
