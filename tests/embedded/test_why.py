"""why() names what makes records slow: fourteen causes, pairs of them, and healthy runs.

Each is made on purpose and real: clocks, sockets, threads. A busy machine may add a cause of its own, so each scene has
six tries to be understood; what it says wrongly six times is wrong. The soak tests have all strengths.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from pyproducer import KafkaProducer, Why
from pyproducer.broker import EmbeddedBroker
from pyproducer.cli.main import main
from tests.support.patience import GIVE_UP_S
from tests.support.why_causes import CAUSES, ONE_WAY_MS, STRENGTHS, scene

TRIES = 6
SHORT_S = 0.5
PAIRS = [("far", "linger"), ("linger", "far"), ("broker", "linger"), ("callback", "linger"), ("retries", "linger"),
         ("linger", "retries"), ("far", "throttle"), ("throttle", "far"), ("broker", "callback"),
         ("throttle", "callback")]


def ask(*wrong: tuple[str, int], load_s: float | None = None) -> Why:
    one_way_ms = max((ONE_WAY_MS[cause][strength] for cause, strength in wrong if cause in ONE_WAY_MS), default=0)
    with scene(one_way_ms) as one:
        if load_s is not None:
            one.load_s = load_s
        for cause, strength in wrong:
            CAUSES[cause](one, strength)
        return one.run()


def first_cause(why: Why) -> str:
    return why.findings[0].cause if why.findings else "nothing"


def understood(expected: str, run: Callable[[], Why]) -> None:
    answers: list[Why] = []
    while not answers or first_cause(answers[-1]) != expected:
        assert len(answers) < TRIES, "\n".join(map(str, answers))
        answers.append(run())


# Another test beside it computes, too: whose thread keeps the interpreter can be told on a quiet machine only.
@pytest.mark.parametrize("cause", [pytest.param(cause, marks=[pytest.mark.soak] if cause == "interpreter" else [])
                                   for cause in sorted(CAUSES)])
def test_why_when_one_thing_is_wrong_then_it_comes_first(cause: str) -> None:
    understood(cause, lambda: ask((cause, 1), load_s=None if cause == "dns" else SHORT_S))


@pytest.mark.soak
@pytest.mark.parametrize("strength", STRENGTHS)
@pytest.mark.parametrize("cause", sorted(CAUSES))
def test_why_when_one_thing_is_wrong_a_little_or_much_then_it_comes_first(cause: str, strength: int) -> None:
    understood(cause, lambda: ask((cause, strength)))


@pytest.mark.soak
@pytest.mark.parametrize(("larger", "smaller"), PAIRS)
def test_why_when_two_things_are_wrong_then_the_larger_comes_first(larger: str, smaller: str) -> None:
    understood(larger, lambda: ask((smaller, 0), (larger, 2)))


# Beside others that compute the broker does take long to answer; tests/unit/producer/test_why.py has the rule.
@pytest.mark.soak
@pytest.mark.parametrize("number", range(10))
def test_why_when_nothing_is_wrong_ten_times_then_nothing_stands_out(number: int) -> None:
    understood("nothing", ask)


def test_why_when_it_is_saved_then_only_its_user_may_read_it_and_nothing_of_the_records_is_in_it(
        tmp_path: Path) -> None:
    path = tmp_path / "why.json"
    with EmbeddedBroker(topics={"orders": 1}) as broker, KafkaProducer(
            {"bootstrap.servers": broker.bootstrap_servers}) as producer:
        producer.send("orders", b"the-value-9", key=b"the-key-9").result(GIVE_UP_S)
        said = producer.why(save=path)
    assert path.stat().st_mode & 0o777 == 0o600
    text = path.read_text()
    assert "the-value-9" not in text
    assert "the-key-9" not in text
    result = CliRunner().invoke(main, ["why", str(path)])
    assert result.exit_code == 0, result.output
    assert result.output.strip() == str(said).strip()


def test_why_when_it_is_asked_of_a_future_then_it_is_about_that_record(tmp_path: Path) -> None:
    with EmbeddedBroker(topics={"orders": 2}) as broker, KafkaProducer(
            {"bootstrap.servers": broker.bootstrap_servers, "linger.ms": 3_600_000}) as producer:
        producer.partitions_for("orders")
        future = producer.send("orders", b"v", partition=1)
        producer.send("orders", b"v", partition=0)
        said = producer.why(future)
        assert said.batches == 1
        producer.flush(GIVE_UP_S)
        assert producer.why(future).batches == 1


def test_ring_when_more_batches_end_than_it_holds_then_why_says_how_many_are_forgotten() -> None:
    with EmbeddedBroker(topics={"orders": 4}) as broker, KafkaProducer(
            {"bootstrap.servers": broker.bootstrap_servers, "batch.size": 100, "linger.ms": 0}) as producer:
        for number in range(3000):
            producer.send("orders", b"v" * 90, partition=number % 4)
        producer.flush(GIVE_UP_S)
        assert "batches of that time are forgotten: the ring holds 2048" in str(producer.why(last=3600))


def test_why_when_it_is_asked_of_what_is_no_future_of_a_record_says_so() -> None:
    with EmbeddedBroker() as broker, KafkaProducer({"bootstrap.servers": broker.bootstrap_servers}) as producer:
        for other in ("orders", producer.send_batch("orders", [b"v"])):
            with pytest.raises(TypeError, match="is not what send\\(\\) returned for one record"):
                producer.why(other)  # type: ignore[arg-type]  # wrong on purpose
