"""Random scripts of brokers that forget, refuse and lose: as many as `make test` has time for, a thousand in the soak.
"""

from __future__ import annotations

import os
import random
from typing import Any

import pytest

from pyproducer import KafkaTimeoutError, RecordMetadata
from tests.embedded.forgetting_runs import Forgotten, Run, Sent, Total, run
from tests.support.scripted_broker import Stored

RUNS = 120
SOAK_RUNS = 1000
# What the scripts must reach, whatever else they do not: else they prove less than they seem to.
MUST_HAPPEN = {
    "answer lost", "closed early", "codec failed", "forgotten by its timestamps", "forgotten in silence",
    "forgotten in the middle", "late", "leader moved", "leader moved back", "leader moved to one that forgot",
    "refused for a moment 19", "refused for a moment 56", "refused for a moment 6", "refused for a moment 7",
    "refused for good", "request lost", "stored and called an error", "topic made anew",
    "topic made anew in the middle"}


def check(first: int, count: int) -> None:
    total = Total()
    for seed in range(first, first + count):
        total.add(run(seed))
    told = "\n".join(total.lines())
    print(told)
    assert not total.failed, told
    assert total.counts.keys() >= MUST_HAPPEN, told
    assert {"acknowledged", "not_sent", "rejected", "unknown"} <= total.fates.keys(), told


def test_runs_when_brokers_forget_refuse_and_lose_then_nothing_is_doubled_lost_or_out_of_order() -> None:
    check(0, RUNS)


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_a_thousand_runs_when_brokers_forget_refuse_and_lose_then_nothing_is_doubled_lost_or_out_of_order() -> None:
    check(random.SystemRandom().randrange(10**9) if os.environ.get("PYPRODUCER_TEST_PROFILE") == "soak" else 1000,
          SOAK_RUNS)


# ---- does the checker notice?

class Decided:
    """A future that is done."""

    def __init__(self, error: BaseException | None, offset: int = -1) -> None:
        self._error = error
        self._offset = offset

    def done(self) -> bool:
        return True

    def exception(self, _timeout: float) -> BaseException | None:
        return self._error

    def result(self, _timeout: float) -> RecordMetadata:
        return RecordMetadata("orders", 0, self._offset, -1, -1, -1)


class Logs:
    """What a checker asks a broker."""

    def __init__(self, *logs: list[int]) -> None:
        self._logs = logs

    def all_logs(self, _topic: str) -> list[tuple[int, list[Stored]]]:
        return [(0, [Stored(b"%d" % number, offset, 1000, 0, offset, 0, 0) for offset, number in enumerate(log)])
                for log in self._logs]


def told_of(logs: list[list[int]], told: list[Any], *, excused: tuple[int, ...] = (),
            forgotten: Forgotten | None = None) -> list[str]:
    """What the checker says of logs; `told` has an offset for each record that was sent, or an error."""
    judged = Run(0)
    judged.is_hasty = judged.is_mute = judged.closes_early = False
    broker: Any = Logs(*logs)
    judged.broker = broker
    for number, outcome in enumerate(told):
        future = Decided(outcome) if isinstance(outcome, BaseException) else Decided(None, outcome)
        judged.sent[b"%d" % number] = Sent(b"%d" % number, 0, number, future)
    judged.excused = {b"%d" % number for number in excused}
    if forgotten is not None:
        judged.forgotten[0, 0] = [forgotten]
    judged.check()
    return [line.split(":")[0] for line in judged.report.wrong]


def failed(outcome: str) -> KafkaTimeoutError:
    return KafkaTimeoutError("so it is", phase="delivery", outcome=outcome)


def test_checker_when_all_is_well_then_it_says_nothing() -> None:
    assert told_of([[0, 1, 2]], [0, 1, 2]) == []
    assert told_of([[0], [1]], [0, 0]) == [], "a topic that was made anew"


@pytest.mark.parametrize(("logs", "told", "wrong"), [
    ([[0, 1, 1]], [0, 1], ["doubled"]),
    ([[0]], [0, 1], ["lost"]),
    ([[0, 1]], [0, 2], ["untrue"]),
    ([[1, 0]], [1, 0], ["out of order"]),
    ([[0]], [failed("not_sent")], ["untrue"]),
    ([[0]], [failed("rejected")], ["untrue"]),
    ([[]], [failed("not_sent")], ["given up"]),
    ([[0]], [failed("unknown")], ["given up"]),
    ([[]], [ValueError("no outcome at all")], ["untrue"]),
])
def test_checker_when_something_is_wrong_then_it_says_what(logs: list[list[int]], told: list[Any],
                                                           wrong: list[str]) -> None:
    assert told_of(logs, told) == wrong


def test_checker_when_the_broker_forgot_then_only_that_is_excused_which_no_client_can_tell() -> None:
    assert told_of([[0, 1, 1]], [0, 1], excused=(1,)) == []
    assert told_of([[0, 1, 0]], [0, 1], excused=(1,)) == ["doubled"]
    for is_strict, wrong in ((False, []), (True, ["out of order"])):
        assert told_of([[0, 2, 1]], [0, 2, 1], forgotten=Forgotten(1, is_strict)) == wrong
        assert told_of([[0, 2, 1, 3]], [0, 2, 1, 3], forgotten=Forgotten(3, is_strict)) == ["out of order"]
