"""What why() says of records that are on their way."""

from __future__ import annotations

import math
from typing import Any

import pytest

from pyproducer import Why
from pyproducer.hotpath import CALLBACK, COLUMNS
from pyproducer.observe.why import LEAST_MS, Material, Piece, Setting, explain
from tests.support.clock import ManualClock
from tests.support.patience import GIVE_UP_S
from tests.unit.producer.facade import NOT_ENOUGH_REPLICAS, NOT_LEADER, Facades

LEADER_NOT_AVAILABLE = 5


def test_why_when_it_is_asked_of_all_time_then_it_says_all_that_is_kept(facades: Facades) -> None:
    """math.inf waits without end in each call with a timeout; here it was an OverflowError."""
    facade = facades(**{"linger.ms": 0, "client.id": "app"})
    facade.know()
    facade.producer.send("t", b"v", partition=0).result(GIVE_UP_S)
    assert str(facade.producer.why(last=math.inf)).startswith("app, all that is kept: 1 batches")
    assert str(facade.producer.why(last=1e30)).startswith("app, all that is kept: 1 batches")


def test_why_when_a_callback_keeps_the_sender_while_a_record_waits_for_its_answer_then_the_callback_is_to_blame(
        facades: Facades) -> None:
    clock = ManualClock(1_000)
    facade = facades(clock, **{"linger.ms": 0, "batch.size": 100})
    facade.know()
    facade.broker.holds = True
    said: list[Why] = []

    def on_completion(_metadata: Any, _exception: BaseException | None) -> None:
        clock.advance(400)
        said.append(facade.producer.why(second))

    facade.producer.send("t", b"first", partition=0, on_completion=on_completion)
    facade.broker.await_requests(1)
    second = facade.producer.send("t", b"second", partition=1)
    facade.broker.await_requests(2)
    clock.advance(50)
    said.append(facade.producer.why(second))
    facade.broker.answer(only=0)
    assert [[(finding.cause, finding.mean_ms) for finding in why.findings] for why in said] == [
        [("broker", 50)], [("callback", 450)]]  # the first answer came at once, and its callback has run since
    facade.broker.answer()
    assert second.result(GIVE_UP_S).partition == 1


def test_why_when_it_is_asked_of_a_record_then_what_waits_elsewhere_is_not_counted(facades: Facades) -> None:
    """It counted what waits for all partitions, among the batches of one: "1 batches, 2 of them still on their way"."""
    facade = facades(ManualClock(1_000), **{"linger.ms": 0, "batch.size": 100})
    facade.know()
    done = facade.producer.send("t", b"v", partition=0)
    done.result(GIVE_UP_S)
    facade.broker.holds = True
    there = facade.producer.send("t", b"v", partition=1)
    facade.producer.send("unknown", b"v")
    facade.broker.await_requests(2)
    assert "on their way" not in str(facade.producer.why(done))
    assert "1 batches, 0 ms each on average, 1 of them still on their way" in str(facade.producer.why(there))
    facade.broker.answer()


@pytest.mark.parametrize(("pieces", "waiting", "said"), [
    (1, 0, "1 batches, 3 ms each on average"), (1, 1, "1 batches, 3 ms each on average, 1 of them still on their way"),
    (0, 0, "no batch of that time is kept.")])
def test_why_when_the_ring_has_forgotten_batches_then_it_says_so_whatever_is_left_of_a_partition(
        pieces: int, waiting: int, said: str) -> None:
    """The ring's size was computed from what is left of the partition: "the ring holds -28".

    Where nothing is left of it, it was "no batch was on its way".
    """
    piece = Piece(990, "t", 0, {**dict.fromkeys(COLUMNS, 0), "linger_ms": 3})
    text = explain(material(pieces=(piece,) * pieces, waiting=waiting, forgotten=953)).text
    first, *_, last = text.split("\n")
    assert first == f"app, the last 60 s: {said}"
    assert last == "  953 batches of that time are forgotten: the ring holds 2048, of all partitions."


def material(**parts: Any) -> Material:
    """Return that of a producer of which nothing is known, but for these parts."""
    return Material("app", 1_000, 1_795_000_000_000, 60_000, (), 0, 0, (), Setting(1, 2, 3, 4, "none"), {},
                    {})._replace(**parts)


def test_why_when_errors_are_of_long_ago_or_of_other_partitions_then_they_are_not_named(facades: Facades) -> None:
    """It named all errors since the producer was made, so the first ones of yesterday, and other partitions'."""
    clock = ManualClock(1_000)
    facade = facades(clock, **{"linger.ms": 0, "batch.size": 100, "max.in.flight.requests.per.connection": 1})
    facade.know()
    facade.broker.holds = True

    def send(partition: int, *error_codes: int) -> Any:
        future = facade.producer.send("t", b"v", partition=partition)
        for error_code in (*error_codes, 0):
            facade.broker.await_requests(1 + len(answers))
            clock.advance(100)
            answers.append(error_code)
            facade.broker.answer(error_code)
        future.result(GIVE_UP_S)
        return future

    answers: list[int] = []
    send(0, *[NOT_LEADER] * 12)
    clock.advance(10_000)
    mine = send(0, NOT_ENOUGH_REPLICAS)
    send(1, LEADER_NOT_AVAILABLE)
    for why, errors in ((facade.producer.why(mine, last=5), "NOT_ENOUGH_REPLICAS"),
                        (facade.producer.why(last=5), "NOT_ENOUGH_REPLICAS, LEADER_NOT_AVAILABLE"),
                        (facade.producer.why(mine, last=60), "NOT_LEADER_OR_FOLLOWER, NOT_ENOUGH_REPLICAS")):
        assert [finding.advice for finding in why.findings if finding.cause == "retries"] == [
            f"errors: {errors}; look at the brokers"], why
    assert facade.producer.metrics().retries == {
        "NOT_LEADER_OR_FOLLOWER": 12, "NOT_ENOUGH_REPLICAS": 1, "LEADER_NOT_AVAILABLE": 1}


def test_why_when_no_cause_takes_long_or_a_quarter_of_the_time_then_nothing_stands_out() -> None:
    columns = {**dict.fromkeys(COLUMNS, 0), "wire_ms": 3, "floor_ms": 1}
    short = Piece(990, "t", 0, {**columns, "memory_ms": LEAST_MS - 1})
    even = Piece(990, "t", 0, {**columns, "wire_ms": 6 * LEAST_MS, "floor_ms": LEAST_MS, "busy_ms": LEAST_MS,
                               "linger_ms": LEAST_MS, "memory_ms": LEAST_MS, "codec_us": 1000 * LEAST_MS,
                               "retry_ms": LEAST_MS, "tell_ms": 0})
    most = Piece(990, "t", 0, {**columns, "memory_ms": LEAST_MS})
    said = [explain(material(pieces=(piece,) * 5)) for piece in (short, even, most)]
    assert [[finding.cause for finding in why.findings] for why in said] == [[], ["broker"], ["memory"]]
    assert "  Nothing stands out." in said[0].text


@pytest.mark.parametrize(("batch_size", "count", "cause"), [
    (350, 141, "batches"), (350, 140, "callback"), (16_384, 141, "callback")])
def test_why_when_the_sender_is_busy_with_many_small_batches_then_no_callback_is_to_blame(
        batch_size: int, count: int, cause: str) -> None:
    """Of a producer without any callback, whose batch.size held one record, it said that callbacks kept its thread."""
    columns = {**dict.fromkeys(COLUMNS, 0), "node_id": 1, "wire_ms": 150, "busy_ms": 140}
    columns |= {"wait_ms": 100, "reason": CALLBACK}
    pieces = (Piece(990, "t", 0, columns),) * count
    (finding,) = explain(material(pieces=pieces, setting=Setting(batch_size, 2, 3, 4, "none"))).findings
    assert finding.cause == cause


def test_why_when_an_answer_takes_long_then_the_way_is_named_with_the_broker() -> None:
    """The way may have become longer since the quickest answer; whoever read it looked at disks alone."""
    piece = Piece(990, "t", 0, {**dict.fromkeys(COLUMNS, 0), "wire_ms": 203, "floor_ms": 1})
    (finding,) = explain(material(pieces=(piece,))).findings
    assert (finding.cause, finding.advice) == (
        "broker", "the quickest answer took 1 ms, but one takes 203 ms: look at the broker's disks and followers "
        "(acks=all waits for them), and at whether the way there has become longer")
