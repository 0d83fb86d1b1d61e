"""A partition that is stuck says so once in a while, with its cause; one that moves, or lingers on purpose, never does.

For two minutes a partition was refused with NOT_ENOUGH_REPLICAS, then its records failed; until then nothing was in the
log above DEBUG, and no metric named partition or error.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Sequence

import pytest

from pyproducer.common.error_codes import ErrorCode
from pyproducer.common.limited_log import MOST_LINES, WINDOW_MS, LimitedLog
from pyproducer.sender.stuck_log import AGAIN_MS, LOOK_MS, StuckLog, log
from tests.unit.sender.stepped_producer import SteppedProducer

NOT_ENOUGH = int(ErrorCode.NOT_ENOUGH_REPLICAS)
DELIVERY_MS = 120_000


class Watched:
    """A producer whose turns are taken each 500 ms, with a broker that answers as the test says."""

    def __init__(self, caplog: pytest.LogCaptureFixture, *, linger_ms: int = 0, partitions: int = 2,
                 idempotent: bool = False, floods: Sequence[LimitedLog] = ()) -> None:
        self.caplog = caplog
        self.producer = SteppedProducer(idempotent=idempotent, delivery_timeout=DELIVERY_MS, linger=linger_ms,
                                        partitions=partitions)
        self.stuck_log = StuckLog(self.producer.accumulator, self.producer.metadata, self.producer.manager,
                                  linger_ms=linger_ms, delivery_timeout_ms=DELIVERY_MS, floods=floods)
        self.producer.sender._stuck_log = self.stuck_log

    def run(self, for_ms: int, answer: Callable[[], object]) -> list[str]:
        """Take turns for so long; return the lines that were written meanwhile."""
        self.caplog.clear()
        for _ in range(for_ms // 500):
            self.producer.turn(500)
            while self.producer.client.in_flight:
                answer()
        return [record.getMessage() for record in self.caplog.records if record.levelno >= logging.WARNING
                and record.name == "pyproducer.sender.stuck_log"]

    def refuse(self, code: int = NOT_ENOUGH) -> None:
        self.producer.answer_all(code=code)

    def store(self) -> None:
        self.producer.answer_all(base_offset=0)


@pytest.fixture
def watched(caplog: pytest.LogCaptureFixture) -> Watched:
    return Watched(caplog)


def test_partition_when_it_is_refused_again_and_again_then_told_with_cause_attempts_and_age(watched: Watched) -> None:
    watched.producer.append()
    assert watched.run(4_500, watched.refuse) == [], "a leader may change within seconds"
    [line] = watched.run(3_000, watched.refuse)
    assert re.fullmatch(r"t-0: NOT_ENOUGH_REPLICAS \(node 1\), \d+ attempts, the oldest record waits [56] s; it fails "
                        r"in 11[45] s \(delivery.timeout.ms = 120000\) unless that passes", line), line
    [(topic_partition, stuck)] = watched.stuck_log.stuck.items()
    assert topic_partition == ("t", 0)
    assert stuck.cause.kind == ("NOT_ENOUGH_REPLICAS", 1), "for whoever counts"
    assert watched.run(AGAIN_MS - 4_000, watched.refuse) == []
    assert len(watched.run(3_000, watched.refuse)) == 1, "and again, half a minute later"
    [line] = watched.run(3_000, watched.store)
    assert re.fullmatch(r"t-0: goes on after 3\d s \(NOT_ENOUGH_REPLICAS \(node 1\)\)", line), line
    assert watched.stuck_log.stuck == {}
    assert watched.run(60_000, watched.store) == []
    assert not watched.stuck_log.is_busy


def test_partition_when_its_records_fail_at_last_then_said_so(watched: Watched) -> None:
    watched.producer.append()
    lines = watched.run(DELIVERY_MS + 3_000, watched.refuse)
    assert len(lines) == 5
    assert "its oldest records have failed after 12" in lines[-1]


@pytest.mark.parametrize("code", [ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NOT_LEADER_OR_FOLLOWER])
def test_partition_when_it_is_refused_for_another_reason_then_that_is_told(watched: Watched, code: ErrorCode) -> None:
    watched.producer.append()
    lines = watched.run(8_000, lambda: watched.refuse(int(code)))
    assert [code.name in line for line in lines] == [True]


def test_cause_when_it_changes_then_the_new_one_is_told_and_no_flood_comes_of_two_in_turn(watched: Watched) -> None:
    watched.producer.append()
    watched.run(8_000, watched.refuse)
    lines = watched.run(5_000, lambda: watched.refuse(int(ErrorCode.KAFKA_STORAGE_ERROR)))
    assert ["KAFKA_STORAGE_ERROR" in line for line in lines] == [True]
    codes = [NOT_ENOUGH, int(ErrorCode.KAFKA_STORAGE_ERROR)]

    def in_turn() -> None:
        watched.refuse(codes[0])
        codes.reverse()

    assert len(watched.run(60_000, in_turn)) <= 2 * 60_000 // AGAIN_MS


def test_partitions_when_many_are_stuck_for_one_cause_then_one_line_names_some_of_them(
        caplog: pytest.LogCaptureFixture) -> None:
    watched = Watched(caplog, partitions=50)
    for partition in range(50):
        watched.producer.append(partition)
    [line] = watched.run(8_000, watched.refuse)
    assert line.startswith("t-0, t-1, t-2 and 47 more: NOT_ENOUGH_REPLICAS (node 1)")
    [line] = watched.run(3_000, watched.store)
    assert line.startswith("t-0, t-1, t-2 and 47 more: goes on after ")


def test_leader_when_it_cannot_be_reached_then_why_is_told_although_nothing_was_tried(watched: Watched) -> None:
    """Nothing is retried then, so nothing would be told by whoever counts retries."""
    watched.producer.client.is_ready_now = False
    watched.producer.metadata.note_failure("127.0.0.1:9092", "connect: Connection refused")
    watched.producer.append()
    [line] = watched.run(8_000, watched.store)
    assert line.startswith("t-0: its leader, node 1, cannot be reached: connect: Connection refused, 0 attempts")


def test_partition_when_nobody_leads_it_then_told(watched: Watched) -> None:
    watched.producer.append()
    body = {"throttle_time_ms": 0, "cluster_id": "c", "controller_id": 1, "error_code": 0, "brokers": [
        {"node_id": 1, "host": "127.0.0.1", "port": 9092, "rack": None}], "topics": [
        {"error_code": 0, "name": "t", "topic_id": watched.producer.metadata.cluster.table("t").topic_id,
         "is_internal": False, "partitions": [
             {"error_code": 5, "partition_index": index, "leader_id": -1, "leader_epoch": 2, "replica_nodes": [1],
              "isr_nodes": [], "offline_replicas": [1]} for index in range(2)]}]}
    now_ms = watched.producer.clock.now_ms()
    watched.producer.metadata.update(body, 13, now_ms, request=watched.producer.metadata.next_request(now_ms))
    [line] = watched.run(8_000, watched.store)
    assert line.startswith("t-0: no leader is known (")


def test_producer_id_when_nobody_gives_one_then_told(caplog: pytest.LogCaptureFixture) -> None:
    watched = Watched(caplog, idempotent=True)
    watched.producer.append()

    def refuse() -> None:
        watched.producer.client.answer({"throttle_time_ms": 0, "error_code": 14, "producer_id": -1,
                                        "producer_epoch": -1}, received_ms=watched.producer.clock.now_ms())

    [line] = watched.run(8_000, refuse)
    assert line.startswith("t-0: no broker has given a producer id yet (InitProducerId), 0 attempts")


def test_connection_when_it_ends_at_each_attempt_then_the_lines_are_of_one_cause(watched: Watched) -> None:
    """The text of each such error has another correlation id."""
    watched.producer.append()
    lines = watched.run(30_000, watched.producer.lose)
    assert len(lines) == 1
    assert "The connection to node 1 ended before the answer" in lines[0]


def test_batch_when_it_lingers_on_purpose_then_it_is_not_stuck(caplog: pytest.LogCaptureFixture) -> None:
    watched = Watched(caplog, linger_ms=60_000)
    watched.producer.metadata.note_failure("127.0.0.1:9092", "connect: Connection refused")
    watched.producer.append()
    assert watched.run(59_000, watched.store) == []


def test_partition_when_it_has_a_long_queue_that_moves_then_it_is_not_stuck(watched: Watched) -> None:
    for _ in range(100):
        watched.producer.append()
    assert watched.run(30_000, watched.store) == []


def test_retry_when_it_is_the_only_one_then_it_is_not_told(watched: Watched) -> None:
    watched.producer.append()
    watched.run(500, watched.refuse)
    assert watched.run(60_000, watched.store) == []


def test_name_when_it_has_a_line_end_then_it_makes_no_line_of_its_own(watched: Watched) -> None:
    watched.producer.client.is_ready_now = False
    watched.producer.metadata.note_failure("127.0.0.1:9092", "connect: \x1b[31mred\nERROR forged")
    watched.producer.append()
    [line] = watched.run(8_000, watched.store)
    assert line.isprintable()


def test_throttling_when_it_lasts_then_told_with_its_time_and_once_more_when_it_is_over(watched: Watched) -> None:
    log = watched.stuck_log
    now_ms = watched.producer.clock.now_ms
    log.on_throttle(3, 0, now_ms())
    assert not log.is_busy
    log.on_throttle(3, 500, now_ms())
    assert log.is_busy
    assert watched.run(1_000, watched.store) == [], "half a second is no matter"
    log.on_throttle(3, 500, now_ms())
    [line] = watched.run(1_500, watched.store)
    assert line.startswith("Node 3 throttles this producer: its quota is used up")
    assert "the last one of 500 ms and 1000 ms in all" in line
    for _ in range(20):
        log.on_throttle(3, 500, now_ms())
        assert watched.run(500, watched.store) == []
    assert log.throttled[3].total_ms == 11_000
    [line] = watched.run(12_000, watched.store)
    assert line.startswith("Node 3 throttles this producer no more: 11000 ms of pauses in 1")
    assert not log.is_busy


def test_step_when_it_is_called_in_each_turn_then_it_looks_once_a_second(watched: Watched) -> None:
    looks: list[int] = []
    batches = watched.producer.accumulator.batches

    def counted() -> object:
        looks.append(1)
        return batches()

    watched.producer.accumulator.batches = counted  # type: ignore[method-assign, assignment]
    assert watched.stuck_log.step(0) == LOOK_MS
    assert watched.stuck_log.step(1) == LOOK_MS - 1
    assert watched.stuck_log.step(LOOK_MS - 1) == 1
    assert len(looks) == 1
    watched.stuck_log.step(LOOK_MS)
    assert len(looks) == 2


def test_flood_when_its_time_is_over_or_the_producer_ends_then_what_was_left_out_is_told(
        caplog: pytest.LogCaptureFixture) -> None:
    """It was told with the next line of its kind, and else never."""
    flood = LimitedLog(log, "%d more of these, of %d records")
    watched = Watched(caplog, floods=[flood])

    def write(lines: int) -> None:
        for _ in range(lines):
            flood.warning(watched.producer.clock.now_ms(), 3, "one of these")

    write(MOST_LINES)
    assert not watched.stuck_log.is_busy
    write(2)
    assert watched.stuck_log.is_busy
    assert watched.run(WINDOW_MS - 1_000, watched.store) == []
    assert watched.run(2_000, watched.store) == ["2 more of these, of 6 records"]
    assert not watched.stuck_log.is_busy
    write(MOST_LINES + 1)
    caplog.clear()
    for _ in range(2):
        watched.stuck_log.end()
    assert caplog.messages == ["1 more of these, of 3 records"]
