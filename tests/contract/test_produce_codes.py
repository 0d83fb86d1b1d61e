"""Every error code that a Produce answer can carry, in place of storing the batch or after it: what futures say, and
what is in the log.

Each code has a partition of its own, with a batch of two records and one behind it. Faults are told apart by the
partition, so a request holds one batch only.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

from pyproducer import ErrorCode, KafkaProducer
from pyproducer.testing import ConsumedRecord
from tests.contract.clusters import Can, Cluster, EmbeddedCluster
from tests.contract.conftest import Connect
from tests.contract.witness import NEVER_IN_THE_LOG, Witness, await_memory_back, number_of, numbers_of
from tests.support.patience import GIVE_UP_S

pytestmark = pytest.mark.needs(Can.SAY_ANYTHING)

# Numbers that no Kafka of today knows; the last two end the range of the field.
STRANGE = (-2, max(ErrorCode) + 1, 999, -2**15, 2**15 - 1)
CODES: tuple[int, ...] = (*(int(code) for code in ErrorCode if code is not ErrorCode.NONE), *STRANGE)
# What a leader says that has the batch in its log: an append that went wrong half way, followers that are late (7) or
# too few (20), and a partition that it lost while it waited for them: to another leader (6), or with its disk (56).
# Java DelayedProduce.tryComplete, ReplicaManager.getPartitionOrError, Partition.checkEnoughReplicasReachOffset. An
# unknown number may be anything.
SAID_AFTER_APPEND = frozenset({
    ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.NETWORK_EXCEPTION, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND, ErrorCode.KAFKA_STORAGE_ERROR, *STRANGE})
# With these a leader says that it wants other numbers, or none of these records together; so they get others. Said of
# a batch that is in the log, each is a lie.
NUMBERED_ANEW = frozenset({
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.UNKNOWN_PRODUCER_ID, ErrorCode.INVALID_PRODUCER_EPOCH,
    ErrorCode.MESSAGE_TOO_LARGE})
RECORDS = 3  # of each partition
RETRIES = 2
SETTINGS: dict[str, Any] = {
    "retries": RETRIES, "batch_size": 100, "linger_ms": 10_000, "max_request_size": 140, "acks": "all",
    "compression_type": "none"}


class Told(NamedTuple):
    """What became of one record: "stored", or its error's outcome; and how often it is in the log."""

    number: int
    outcome: str
    stored: int

    @property
    def code(self) -> int:
        return CODES[self.number // RECORDS]

    def __str__(self) -> str:
        return f"code {self.code}: record {self.number % RECORDS} is {self.outcome}, {self.stored} times in the log"


@pytest.fixture
def faulty(cluster: Cluster) -> Iterator[EmbeddedCluster]:
    assert isinstance(cluster, EmbeddedCluster)
    yield cluster
    cluster.broker.faults.clear()


@pytest.fixture
def wide_topic(faulty: EmbeddedCluster, topic_name: str) -> str:
    assert faulty.broker.create_topic(topic_name, len(CODES))
    return topic_name


def send_all(producer: KafkaProducer, topic: str) -> Witness:
    producer.partitions_for(topic)
    witness = Witness(producer, topic)
    for partition in range(len(CODES)):
        witness.send(range(partition * RECORDS, (partition + 1) * RECORDS), partition=partition)
    producer.flush(GIVE_UP_S)
    witness.await_all()
    await_memory_back(producer)
    return witness


def compare(witness: Witness, log: list[ConsumedRecord]) -> list[Told]:
    stored = Counter(numbers_of(log))
    assert not stored.keys() - witness.futures.keys(), "the log has records that were not sent"
    places = {(record.partition, record.offset): number_of(record) for record in log}
    for number, metadata in witness.metadata.items():
        if metadata.has_offset:
            assert places.get((metadata.partition, metadata.offset)) == number
    return [Told(number, "stored" if number in witness.metadata
                 else getattr(witness.errors[number], "outcome", "missing"), stored[number])
            for number in witness.futures]


def check_order(log: list[ConsumedRecord]) -> None:
    """What is in the log is there in the order in which it was sent."""
    for before, after in itertools.pairwise(log):
        assert before.partition != after.partition or number_of(before) < number_of(after)


@pytest.mark.parametrize("is_idempotent", [True, False], ids=["idempotent", "plain"])
@pytest.mark.parametrize("times", [1, None], ids=["once", "always"])
@pytest.mark.parametrize("when", ["before_apply", "after_apply"])
def test_outcome_when_a_leader_answers_any_code_then_it_fits_the_log(
        faulty: EmbeddedCluster, wide_topic: str, connect: Connect, when: str, times: int | None,
        is_idempotent: bool) -> None:
    faults = faulty.broker.faults
    made = [faults.on("Produce", topic=wide_topic, partition=partition, times=times).error(code, when=when)
            for partition, code in enumerate(CODES)]
    in_flight = 5 if is_idempotent else 1
    with connect(enable_idempotence=is_idempotent, max_in_flight_requests_per_connection=in_flight,
                 **SETTINGS) as producer:
        witness = send_all(producer, wide_topic)
    assert all(fault.count >= 1 for fault in made), "the story has not happened"
    log = faulty.log(wide_topic)
    told = compare(witness, log)

    assert [str(row) for row in told if row.outcome not in ("stored", "unknown", *NEVER_IN_THE_LOG)] == []
    # Who says DUPLICATE_SEQUENCE_NUMBER of a batch that he does not have, or stores one and says with a code for what
    # was refused that he did not, tells a lie that nobody can see through.
    honest = [row for row in told if row.code != ErrorCode.DUPLICATE_SEQUENCE_NUMBER and (
        when == "before_apply" or row.code in SAID_AFTER_APPEND)]
    assert [str(row) for row in honest if row.outcome == "stored" and not row.stored] == []
    assert [str(row) for row in honest if row.outcome in NEVER_IN_THE_LOG and row.stored] == []
    if is_idempotent:
        assert [str(row) for row in told
                if row.stored > 1 and (row in honest or row.code not in NUMBERED_ANEW)] == []
    if is_idempotent and when == "before_apply":
        check_order(log)
    assert {error.code for number, error in witness.errors.items()  # type: ignore[attr-defined]  # ApiErrors all
            if CODES[number // RECORDS] in STRANGE} == set(STRANGE)
    if times == 1:
        # Behind the one answer nothing goes wrong.
        assert [str(row) for row in told if row.number % RECORDS == RECORDS - 1 and row.outcome != "stored"] == []


@pytest.mark.parametrize("is_idempotent", [True, False], ids=["idempotent", "plain"])
def test_outcome_when_an_answer_is_lost_and_then_any_code_comes_then_it_fits_the_log(
        faulty: EmbeddedCluster, wide_topic: str, connect: Connect, is_idempotent: bool) -> None:
    """What is stored by an attempt whose answer says "perhaps" (7) is not taken back by what the next ones say."""
    faults = faulty.broker.faults
    for partition, code in enumerate(CODES):
        faults.on("Produce", topic=wide_topic, partition=partition).error(
            ErrorCode.REQUEST_TIMED_OUT, when="after_apply")
        faults.on("Produce", topic=wide_topic, partition=partition, times=None).error(code)
    with connect(enable_idempotence=is_idempotent, max_in_flight_requests_per_connection=1, **SETTINGS) as producer:
        witness = send_all(producer, wide_topic)
    log = faulty.log(wide_topic)
    told = compare(witness, log)
    assert [str(row) for row in told if row.outcome in NEVER_IN_THE_LOG and row.stored] == []
    first = [row for row in told if row.number % RECORDS == 0]
    assert [str(row) for row in first if row.outcome == "stored" and not row.stored] == []
    if is_idempotent:
        assert [str(row) for row in told if row.stored > 1] == []
    assert [str(row) for row in first if row.outcome not in ("stored", "unknown")] == []
