"""Fetch over several partitions: how much, and when. No connection, and a clock that stands still."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pyproducer.broker.apis import fetch, produce
from pyproducer.broker.apis.services import Answer, Outcome, Services
from pyproducer.broker.cluster.cluster_state import ClusterState
from pyproducer.broker.cluster.config import BrokerConfig
from pyproducer.broker.cluster.living_brokers import BrokerInfo
from pyproducer.broker.cluster.replicas import Leadership, Replicas
from pyproducer.broker.network.request_channel import Request
from pyproducer.broker.storage.log import AppendResult
from pyproducer.common.cluster import TopicPartition
from pyproducer.common.error_codes import ErrorCode
from pyproducer.protocol.apis import ApiKeys
from pyproducer.record.batch_reader import read_batches
from pyproducer.record.batch_writer import build_batch
from pyproducer.record.control import ControlRecordType
from tests.support.broker_request import broker_request
from tests.support.clock import ManualClock
from tests.support.raw_client import fetch_body, produce_body

PARTITIONS = 3
BATCH = bytes(build_batch([(1_700_000_000_000, b"k", b"v" * 500, ())]))
SIZE = len(BATCH)
LARGE = 1 << 20
READ_COMMITTED = 1
PRODUCER_ID = 7


class Stage:
    """A cluster of one broker with one topic, and the fetches that were answered later."""

    def __init__(self, state: ClusterState) -> None:
        self.state = state
        self.later: list[list[int]] = []
        self.failures: list[int] = []
        state.brokers.register(BrokerInfo(1, {}, None))
        state.topic_life.create_topic("orders", PARTITIONS, {})
        self.services = Services(1, state, state.config, state.clock, self._respond, {})

    def _respond(self, _request: Request, answer: Answer) -> None:
        assert isinstance(answer, Mapping)
        assert answer["error_code"] == 0
        self.later.append(counts(answer))
        self.failures += [int(partition["error_code"]) for topic in answer["responses"]
                          for partition in topic["partitions"] if partition["error_code"]]

    def append(self, *partitions: int, records: bytes = BATCH) -> None:
        for partition in partitions:
            answer: Any = produce.handle(self.services, broker_request(
                ApiKeys.PRODUCE, 9, produce_body("orders", partition, records)))
            assert answer["responses"][0]["partition_responses"][0]["error_code"] == 0

    def fetch(self, *, max_bytes: int = LARGE, partition_max_bytes: int = LARGE, min_bytes: int = 1,
              max_wait_ms: int = 0, partitions: tuple[int, ...] = tuple(range(PARTITIONS)),
              **fields: int) -> list[int] | Outcome:
        """Fetch from offset 0; return how many batches each partition gave, or that the answer comes later."""
        body = fetch_body(12, "orders", 0, 0, max_bytes=max_bytes, min_bytes=min_bytes, max_wait_ms=max_wait_ms,
                          **fields)
        body["topics"][0]["partitions"] = [
            {"partition": partition, "fetch_offset": 0, "partition_max_bytes": partition_max_bytes}
            for partition in partitions]
        answer = fetch.handle(self.services, broker_request(ApiKeys.FETCH, 12, body))
        return answer if isinstance(answer, Outcome) else counts(answer)


def counts(answer: Mapping[str, Any]) -> list[int]:
    (topic,) = answer["responses"]
    found = [len(partition["records"]) for partition in topic["partitions"]]
    assert all(size % SIZE == 0 for size in found), "batches are whole"
    return [size // SIZE for size in found]


@pytest.fixture
def open_stage(tmp_path: Path) -> Iterator[Callable[..., Stage]]:
    states: list[ClusterState] = []

    def open_stage(**settings: int) -> Stage:
        config = BrokerConfig({name.replace("_", "."): value for name, value in settings.items()})
        states.append(ClusterState(tmp_path, config, ManualClock()))
        states[-1].start()
        return Stage(states[-1])

    yield open_stage
    for state in states:
        state.close()


@pytest.fixture
def stage(open_stage: Callable[..., Stage]) -> Stage:
    return open_stage()


# ---- how much

def test_fetch_when_max_bytes_are_used_up_then_the_later_partitions_get_what_is_left(stage: Stage) -> None:
    stage.append(0, 0, 1, 1, 2, 2)
    for batches, expected in ((1, [1, 0, 0]), (2, [2, 0, 0]), (3, [2, 1, 0]), (5, [2, 2, 1]), (6, [2, 2, 2])):
        assert stage.fetch(max_bytes=batches * SIZE) == expected
        assert stage.fetch(max_bytes=(batches + 1) * SIZE - 1) == expected


@pytest.mark.parametrize("max_bytes", [0, 1, SIZE - 1])
def test_fetch_when_max_bytes_are_below_one_batch_then_the_first_that_has_one_gives_one(
        stage: Stage, max_bytes: int) -> None:
    stage.append(1, 1, 2, 2)
    assert stage.fetch(max_bytes=max_bytes) == [0, 1, 0]
    assert stage.fetch(partition_max_bytes=max_bytes) == [0, 1, 0]


def test_fetch_when_the_brokers_limit_is_lower_then_it_holds_for_all_partitions_together(
        open_stage: Callable[..., Stage]) -> None:
    stage = open_stage(fetch_max_bytes=3 * SIZE)
    stage.append(0, 0, 1, 1, 2, 2)
    assert stage.fetch() == [2, 1, 0]
    assert stage.fetch(max_bytes=2 * SIZE) == [2, 0, 0]


def test_fetch_when_large_responses_wait_to_be_read_then_it_gets_what_there_is_room_for(stage: Stage) -> None:
    stage.append(0, 0, 0, 1, 1, 2)
    stage.services = replace(stage.services, response_room_bytes=lambda: 2 * SIZE)
    assert stage.fetch() == [2, 0, 0]
    stage.services = replace(stage.services, response_room_bytes=lambda: 1)
    assert stage.fetch() == [1, 0, 0], "one batch in any case"


def test_fetch_when_it_is_answered_later_then_its_limit_holds_too(stage: Stage) -> None:
    assert stage.fetch(max_bytes=3 * SIZE, min_bytes=4 * SIZE, max_wait_ms=60_000) is Outcome.LATER
    stage.append(0, 0, 1, 1)
    assert stage.later == [[2, 1, 0]]


# ---- when

def test_fetch_when_min_bytes_are_there_in_several_partitions_together_then_it_is_answered(stage: Stage) -> None:
    assert stage.fetch(min_bytes=2 * SIZE, max_wait_ms=60_000) is Outcome.LATER
    stage.append(2)
    assert stage.later == [], "half of it"
    stage.append(0)
    assert stage.later == [[1, 0, 1]]
    stage.append(1)
    assert stage.later == [[1, 0, 1]], "once"
    assert stage.fetch(min_bytes=3 * SIZE, max_wait_ms=60_000) == [1, 1, 1], "at once"
    assert stage.fetch(min_bytes=3 * SIZE + 1, max_wait_ms=60_000) is Outcome.LATER


def test_fetch_when_records_come_to_a_partition_that_it_does_not_ask_for_then_it_waits_on(stage: Stage) -> None:
    assert stage.fetch(max_wait_ms=60_000, partitions=(1,)) is Outcome.LATER
    stage.append(0, 2)
    assert stage.later == []
    stage.append(1)
    assert stage.later == [[1]]


def test_fetch_when_one_partition_has_more_than_its_limit_then_only_the_limit_counts_for_min_bytes(
        stage: Stage) -> None:
    assert stage.fetch(min_bytes=3 * SIZE, partition_max_bytes=2 * SIZE, max_wait_ms=60_000) is Outcome.LATER
    stage.append(0, 0, 0, 0)
    assert stage.later == []
    stage.append(1)
    assert stage.later == [[2, 1, 0]]


def test_fetch_when_min_bytes_are_above_the_brokers_limit_then_the_limit_is_enough(
        open_stage: Callable[..., Stage]) -> None:
    stage = open_stage(fetch_max_bytes=2 * SIZE)
    assert stage.fetch(min_bytes=LARGE, max_wait_ms=60_000) is Outcome.LATER
    stage.append(0)
    assert stage.later == []
    stage.append(1)
    assert stage.later == [[1, 1, 0]]


@pytest.mark.parametrize("fields", [{"max_wait_ms": 0}, {"max_wait_ms": 60_000, "min_bytes": 0}])
def test_fetch_when_it_does_not_want_to_wait_then_it_is_answered_with_nothing(
        stage: Stage, fields: dict[str, Any]) -> None:
    assert stage.fetch(**fields) == [0, 0, 0]


def test_fetch_when_its_wait_is_over_then_it_is_answered_with_what_there_is(stage: Stage) -> None:
    assert stage.fetch(min_bytes=2 * SIZE, max_wait_ms=60_000) is Outcome.LATER
    stage.append(1)
    stage.state.delayed_fetches.complete_all()
    assert stage.later == [[0, 1, 0]]


def test_fetch_when_one_partition_has_an_error_then_it_is_answered_at_once(stage: Stage) -> None:
    assert stage.fetch(min_bytes=LARGE, max_wait_ms=60_000, partitions=(0, 99)) == [0, 0]


@pytest.mark.parametrize(("leader_id", "asked_epoch", "code"), [
    (1, 3, ErrorCode.FENCED_LEADER_EPOCH), (2, 4, ErrorCode.NOT_LEADER_OR_FOLLOWER),
    (1, 5, ErrorCode.UNKNOWN_LEADER_EPOCH)])
def test_fetch_when_the_client_is_behind_then_it_is_told_who_leads_since_when(
        stage: Stage, leader_id: int, asked_epoch: int, code: ErrorCode) -> None:
    """KIP-951: also where the leader has only a newer epoch. Who is ahead of the broker learns nothing from it."""
    partition = stage.state.topics.partition("orders", 0)
    assert partition is not None
    partition.leadership, partition.replicas = Leadership(leader_id, 4), Replicas((leader_id,), (leader_id,))
    body = fetch_body(12, "orders", 0, 0)
    body["topics"][0]["partitions"][0]["current_leader_epoch"] = asked_epoch
    answer = fetch.handle(stage.services, broker_request(ApiKeys.FETCH, 12, body))
    assert isinstance(answer, Mapping)
    (found,) = answer["responses"][0]["partitions"]
    assert found["error_code"] == code
    assert found.get("current_leader") == (None if code is ErrorCode.UNKNOWN_LEADER_EPOCH else {
        "leader_id": leader_id, "leader_epoch": 4})


def test_fetch_when_a_partition_is_lost_while_it_waits_then_it_is_answered(stage: Stage) -> None:
    assert stage.fetch(max_wait_ms=60_000) is Outcome.LATER
    stage.state.topic_life.delete_topic("orders")
    assert stage.later == [[0, 0, 0]]


def test_fetch_of_committed_records_when_a_transaction_is_open_then_its_records_do_not_count(stage: Stage) -> None:
    assert stage.fetch(max_wait_ms=60_000, isolation_level=READ_COMMITTED) is Outcome.LATER
    partition = stage.state.topics.partition("orders", 0)
    assert partition is not None
    open_batch = bytes(build_batch([(1_700_000_000_000, b"k", b"v" * 500, ())], producer_id=PRODUCER_ID,
                                   producer_epoch=0, base_sequence=0, is_transactional=True))
    assert isinstance(partition.append(open_batch, produce_version=9, timestamp_ms=1_700_000_000_000), AppendResult)
    stage.state.delayed_fetches.check_and_complete(TopicPartition("orders", 0))
    assert stage.later == []
    assert stage.fetch(max_wait_ms=60_000) == [1, 0, 0], "who reads everything need not wait"
    stage.append(1)
    assert stage.later == [[0, 1, 0]]
    partition.log.append_marker(ControlRecordType.COMMIT, producer_id=PRODUCER_ID, producer_epoch=0,
                                coordinator_epoch=0, leader_epoch=0, timestamp_ms=1_700_000_000_000)
    assert stage.fetch(max_wait_ms=60_000, partition_max_bytes=SIZE, isolation_level=READ_COMMITTED) == [1, 1, 0]


@pytest.mark.parametrize("isolation_level", [0, READ_COMMITTED])
def test_fetch_from_a_follower_when_it_has_not_got_the_records_then_they_are_no_reason_to_answer(
        stage: Stage, isolation_level: int) -> None:
    """What the leader has would end each wait at once, with nothing in the answer."""
    stage.append(0)
    partition = stage.state.topics.partition("orders", 0)
    assert partition is not None
    partition.leadership = Leadership(2, 0)
    partition.replicas = Replicas((2, 1), (2,), {1: 0}, frozenset({1}))
    assert stage.fetch(max_wait_ms=60_000, partitions=(0,), isolation_level=isolation_level) is Outcome.LATER
    partition.replicas = Replicas((2, 1), (2, 1))
    stage.state.delayed_fetches.check_and_complete(TopicPartition("orders", 0))
    assert stage.later == [[1]]


def test_fetch_of_committed_records_when_it_gives_some_then_the_aborted_transactions_are_those_of_them(
        stage: Stage) -> None:
    """Each answer had all that were aborted up to the end: to read n of them in small steps cost n * n."""
    partition = stage.state.topics.partition("orders", 0)
    assert partition is not None

    def append(producer_id: int, sequence: int) -> None:
        records = [(1_700_000_000_000, b"k", b"v" * 500, ())] * 2
        batch = build_batch(records, producer_id=producer_id, producer_epoch=0, base_sequence=sequence,
                            is_transactional=True)
        assert isinstance(partition.append(bytes(batch), produce_version=9, timestamp_ms=1_700_000_000_000),
                          AppendResult)

    def abort(producer_id: int) -> None:
        partition.log.append_marker(ControlRecordType.ABORT, producer_id=producer_id, producer_epoch=0,
                                    coordinator_epoch=0, leader_epoch=0, timestamp_ms=1_700_000_000_000)

    append(100, 0)  # from 0 on, and aborted last
    for number in range(10):  # 2 and 3, aborted by 4; 5 and 6, by 7 ...
        append(number, 0)
        abort(number)
    abort(100)

    def fetch_from(offset: int, max_bytes: int) -> tuple[list[int], list[tuple[int, int]]]:
        body = fetch_body(12, "orders", 0, offset, max_bytes=max_bytes, isolation_level=READ_COMMITTED, max_wait_ms=0)
        answer: Any = fetch.handle(stage.services, broker_request(ApiKeys.FETCH, 12, body))
        (found,) = answer["responses"][0]["partitions"]
        return ([batch.base_offset for batch in read_batches(found["records"])],
                [(aborted["producer_id"], aborted["first_offset"]) for aborted in found["aborted_transactions"]])

    assert fetch_from(0, 1) == ([0], [(100, 0)])
    assert fetch_from(1, 1) == ([0], [(100, 0)]), "the whole batch that has the offset"
    for number in range(10):
        assert fetch_from(2 + 3 * number, 1) == ([2 + 3 * number], [(number, 2 + 3 * number), (100, 0)])
        assert fetch_from(4 + 3 * number, 1) == ([4 + 3 * number], [(number, 2 + 3 * number), (100, 0)]), "a marker"
    offsets, aborted = fetch_from(5, LARGE)
    assert (offsets[0], offsets[-1]) == (5, 32)
    assert aborted == [*((number, 2 + 3 * number) for number in range(1, 10)), (100, 0)]
    assert fetch_from(33, LARGE) == ([], [])


def test_fetch_when_it_fails_while_it_is_completed_by_an_append_then_the_append_is_not_harmed(
        stage: Stage, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    def fail(*_arguments: object, **_fields: object) -> bytes:
        raise OSError("by the test")

    assert stage.fetch(max_wait_ms=60_000) is Outcome.LATER
    partition = stage.state.topics.partition("orders", 0)
    assert partition is not None
    monkeypatch.setattr(partition.log, "read", fail)
    stage.append(0)
    assert (stage.later, stage.failures) == ([[0, 0, 0]], [ErrorCode.KAFKA_STORAGE_ERROR])
    assert "by the test" in caplog.text


def test_fetch_when_it_fails_as_a_whole_while_it_waits_then_its_answer_says_so(
        stage: Stage, caplog: pytest.LogCaptureFixture) -> None:
    """A consumer that reads no error there takes the partitions to be empty."""
    answers: list[Any] = []
    rooms = [LARGE]  # there is none to ask for when the answer is built
    stage.services = replace(stage.services, respond=lambda _, answer: answers.append(answer),
                             response_room_bytes=rooms.pop)
    assert stage.fetch(max_wait_ms=60_000) is Outcome.LATER
    stage.append(0)
    (answer,) = answers
    failed = ErrorCode.UNKNOWN_SERVER_ERROR
    assert answer["error_code"] == failed
    assert [(partition["partition_index"], partition["error_code"])
            for partition in answer["responses"][0]["partitions"]] == [(0, failed), (1, failed), (2, failed)]
    assert "pop from empty list" in caplog.text
