"""The tally: each record counted once, whatever interrupts; and which failures nobody looked at."""

from __future__ import annotations

import itertools
import linecache
import logging
import pickle
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

from pyproducer.accumulator import failure as failure_file
from pyproducer.accumulator.delivery_tally import (
    _MOST_GONE,
    GRACE_MS,
    DeliveryTally,
    Period,
)
from pyproducer.accumulator.failure import MOST_FIRST, Failure
from pyproducer.common.clock import NEVER_MS
from pyproducer.common.delivery_summary import OTHER_TOPICS
from pyproducer.common.errors import DeliveryFailedError, KafkaError, RecordRejectedError
from pyproducer.common.limited_log import MOST_LINES, WINDOW_MS
from pyproducer.common.waiting import Locks
from tests.support.patience import GIVE_UP_S


class Holder:
    """What the futures of a failure hold."""


def error_of(outcome: str, text: str = "why") -> KafkaError:
    error = KafkaError(text)
    error.outcome = outcome
    return error


def failure(outcome: str = "rejected", *, topic: str = "t", partition: int = 0, count: int = 1, text: str = "why",
            **more: Any) -> Failure:
    return Failure(topic, partition, count, error_of(outcome, text), **{"watched": count, **more})


def fail(tally: DeliveryTally, *what: Any, **more: Any) -> tuple[Failure, Holder]:
    made, holder = failure(*what, **more), Holder()
    tally.failed(made, holder)
    return made, holder


def outcome() -> Any:
    return SimpleNamespace(is_counted=False)


def flush(tally: DeliveryTally, period: Period, *, raises_all: bool) -> DeliveryFailedError | None:
    """What a flush() raises."""
    return tally.tell(period, raises_all=raises_all)


def close(tally: DeliveryTally) -> DeliveryFailedError | None:
    """What a close() raises."""
    return tally.tell(None)


# Counts.

def test_summary_when_records_end_then_each_topic_has_its_own_and_the_whole_is_their_sum() -> None:
    tally = DeliveryTally()
    for topic, count in (("b", 3), ("a", 1), ("b", 4)):
        tally.stored(outcome(), topic, count)
    kept = [fail(tally, "rejected", topic="a", count=2), fail(tally, "unknown", topic="c", count=5)]
    tally.step(0)
    kept.append(fail(tally, "rejected", topic="a"))  # the sender has not seen it yet
    summary = tally.summary()
    assert summary.delivered == 8
    assert summary.failed == {"not_sent": 0, "rejected": 3, "unknown": 5}
    assert {topic: (one.delivered, one.failed) for topic, one in summary.topics.items()} == {
        "a": (1, {"not_sent": 0, "rejected": 3, "unknown": 0}),
        "b": (7, {"not_sent": 0, "rejected": 0, "unknown": 0}),
        "c": (0, {"not_sent": 0, "rejected": 0, "unknown": 5})}


@pytest.mark.parametrize("is_taken_in", [False, True])
def test_counts_when_names_are_ever_new_then_those_of_more_than_a_limit_are_counted_together(
        monkeypatch: pytest.MonkeyPatch, is_taken_in: bool) -> None:
    """Topics named by an application's users, not allowed or absent: each left a kilobyte behind for ever."""
    monkeypatch.setattr(failure_file, "MOST_TOPICS", 3)
    tally = DeliveryTally(raises=True)
    for number in range(7):
        fail(tally, topic=f"t{number}")
        fail(tally, topic=f"t{number % 2}")
        if is_taken_in:
            tally.step(0)
            summary = tally.summary()
            assert sum(summary.failed.values()) == 2 * (number + 1)
    topics = {topic: one.failed["rejected"] for topic, one in tally.summary().topics.items()}
    assert topics == {"t0": 1 + 4, "t1": 1 + 3, "t2": 1, OTHER_TOPICS: 4}
    tally.step(0)
    assert {topic: one.failed["rejected"] for topic, one in tally.summary().topics.items()} == topics
    failed = close(tally)
    assert failed is not None
    assert (len(failed.topics), failed.failed["rejected"]) == (4, 14)


class Interrupted(BaseException):
    """Comes from outside."""


@contextmanager
def at_line(line_count: int, act: Callable[[], object]) -> Iterator[list[int]]:
    """Act once, before the n-th line of the tally's own file, as a signal's handler, or another thread, would.

    Returns:
        Holds the line once that was done.
    """
    left = line_count
    done: list[int] = []

    def trace(frame: Any, event: str, _argument: Any) -> Any:
        nonlocal left
        if not frame.f_code.co_filename.endswith("delivery_tally.py") or done:
            return None
        # The end of a `with` counts as its line, too; no signal arrives between that and the lock's release.
        if event == "line" and not linecache.getline(
                frame.f_code.co_filename, frame.f_lineno).lstrip().startswith("with "):
            left -= 1
            if left < 0 and not done:
                done.append(line_count)
                act()
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        yield done
    finally:
        sys.settrace(before)


def interrupt() -> None:
    raise Interrupted


def take_steps(tally: DeliveryTally, stored: Any, made: Failure, holder: Holder) -> None:
    tally.stored(stored, "t", 1)
    tally.failed(made, holder)
    tally.step(0)


@pytest.mark.parametrize("is_first", [False, True], ids=["others in between", "at once"])
def test_counts_when_an_exception_comes_at_any_line_and_the_step_is_done_again_then_each_record_counts_once(
        is_first: bool) -> None:
    """As the sender does after a turn that ended half way: in another order, with other records in between."""
    for line in range(200):
        tally = DeliveryTally()
        tally.stored(outcome(), "t", 100)
        fail(tally, count=1000)
        torn, other = outcome(), outcome()
        made, holder = failure("unknown", count=10_000), Holder()

        with suppress(Interrupted), at_line(line, interrupt) as interrupted:
            take_steps(tally, torn, made, holder)
        seen = tally.summary()
        assert seen.delivered in (100, 101)
        assert (seen.failed["rejected"], seen.failed["unknown"] in (0, 10_000)) == (1000, True)
        if not is_first:
            tally.stored(other, "t", 10)
        tally.failed(made, holder)
        assert tally.summary().failed["unknown"] == 10_000, line
        take_steps(tally, torn, made, holder)
        tally.stored(other, "t", 10)
        summary = tally.summary()
        assert (summary.delivered, summary.failed) == (111, {"not_sent": 0, "rejected": 1000, "unknown": 10_000}), line
        if not interrupted:
            return
    raise AssertionError("the steps did not come to their end")


@pytest.mark.parametrize("is_flush", [False, True])
def test_counts_when_a_finalizer_asks_at_any_line_then_each_record_counts_once(is_flush: bool) -> None:
    """On the thread that counts: what it was in the middle of is written by what it had read before."""
    for line in range(2000):
        tally = DeliveryTally()
        kept = [fail(tally) for _ in range(3)]
        with at_line(line, tally.summary) as done:
            if is_flush:
                flush(tally, tally.period, raises_all=True)
            tally.step(0)
        assert tally.summary().failed["rejected"] == len(kept), line
        if not done:
            return
    raise AssertionError("the step did not come to its end")


def test_tally_when_no_producer_took_the_records_then_nothing_is_kept() -> None:
    tally = DeliveryTally(is_off=True)
    tally.stored(outcome(), "t", 1)
    _, holder = fail(tally)
    del holder
    assert tally.summary().topics == {}
    assert tally.step(0) == NEVER_MS


# flush().

def test_end_flush_when_records_failed_then_the_error_counts_all_and_describes_the_first() -> None:
    tally = DeliveryTally()
    period = tally.period
    assert flush(tally, period, raises_all=True) is None
    period = tally.period
    kept = [fail(tally, "rejected", partition=index, count=2, text=f"error {index}")
            for index in range(MOST_FIRST + 9)]
    kept += [fail(tally, "not_sent", topic="u", partition=-1)]
    tally.step(0)
    failed = flush(tally, period, raises_all=True)
    assert failed is not None
    assert failed.failed == {"not_sent": 1, "rejected": 50, "unknown": 0}
    assert failed.topics == {"t": {"not_sent": 0, "rejected": 50, "unknown": 0},
                             "u": {"not_sent": 1, "rejected": 0, "unknown": 0}}
    assert failed.outcome == "rejected"
    assert [(one.topic, one.partition, one.count, one.outcome, str(one.error)) for one in failed.errors] == [
        ("t", index, 2, "rejected", f"error {index}") for index in range(MOST_FIRST)]
    assert str(failed).startswith("51 record(s) failed since the last flush() (1 not_sent, 50 rejected); 2 for t-0: ")
    again = pickle.loads(pickle.dumps(failed))
    assert (str(again), again.failed, again.topics, again.outcome) == (
        str(failed), failed.failed, failed.topics, "rejected")
    assert [str(one.error) for one in again.errors] == [str(one.error) for one in failed.errors]
    assert flush(tally, tally.period, raises_all=True) is None, "it was told"


@pytest.mark.parametrize(("outcomes", "worst"), [
    (["not_sent"], "not_sent"), (["rejected", "not_sent"], "rejected"),
    (["unknown", "rejected", "not_sent"], "unknown")])
def test_end_flush_when_outcomes_differ_then_its_own_is_the_worst(outcomes: list[str], worst: str) -> None:
    tally = DeliveryTally()
    period = tally.period
    kept = [fail(tally, one) for one in outcomes]
    failed = flush(tally, period, raises_all=True)
    assert failed is not None
    assert failed.outcome == worst
    assert len(kept) == sum(failed.failed.values())


def test_end_flush_when_another_flush_ended_meanwhile_then_both_tell_what_failed() -> None:
    """One thread flushes without raising: the other one's flush must not return as if all were well."""
    tally = DeliveryTally()
    first = tally.period
    kept = [fail(tally, text="early")]
    assert flush(tally, tally.period, raises_all=False) is None
    kept.append(fail(tally, text="late"))
    failed = flush(tally, first, raises_all=True)
    assert failed is not None
    assert failed.failed["rejected"] == 2
    assert [str(one.error) for one in failed.errors] == ["early", "late"]
    assert kept


def test_end_flush_when_two_others_ended_meanwhile_then_it_tells_and_describes_what_failed_between_them() -> None:
    """It counted them and described none: an error without a reason."""
    tally = DeliveryTally()
    first = tally.period
    assert flush(tally, tally.period, raises_all=False) is None
    kept = [fail(tally, topic=topic, text=f"{topic} {number}") for topic in "tu" for number in range(2)]
    assert flush(tally, tally.period, raises_all=False) is None
    failed = flush(tally, first, raises_all=True)
    assert failed is not None
    assert failed.failed["rejected"] == len(kept)
    assert [str(one.error) for one in failed.errors] == ["t 1", "u 1"]


class Told:
    """What errors of flush() told, together."""

    def __init__(self) -> None:
        self.count: int = 0
        self.texts: list[str] = []

    def add(self, error: DeliveryFailedError | None) -> None:
        if error is None:
            return
        count = sum(error.failed.values())
        described = sum(told.count for told in error.errors)
        assert described == count or (len(error.errors) == MOST_FIRST and described < count)
        self.count += count
        self.texts += [str(told.error) for told in error.errors]


@pytest.mark.parametrize("who", ["a failure comes", "the sender counts one", "the sender counts many", "flush"])
@pytest.mark.parametrize("backlog", [0, 1, MOST_FIRST])
def test_end_flush_when_something_happens_at_any_line_then_each_failure_is_told_once(who: str, backlog: int) -> None:
    """What an error describes is what it counts, and the errors of all flushes together tell each failure once.

    Failures that a flush had told were listed again by the next; others were counted, and described by none.
    """
    assert any(not _tell_once(who, backlog, line) for line in range(2000)), "the call came to its end"


class Beside:
    """The tally's lock, and what another thread does: it comes to its end, or waits for the lock, before we go on."""

    def __init__(self) -> None:
        self._lock: Any = threading.RLock()
        self._is_there = threading.Event()
        self._thread: threading.Thread | None = None

    def __enter__(self) -> None:
        if not self._lock.acquire(blocking=False):
            self._is_there.set()
            self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()

    def _is_owned(self) -> bool:
        return bool(self._lock._is_owned())

    def run(self, act: Callable[[], object]) -> None:
        """Have another thread do something."""
        def run() -> None:
            act()
            self._is_there.set()

        self._thread = threading.Thread(target=run)
        self._thread.start()
        assert self._is_there.wait(GIVE_UP_S)

    def join(self) -> None:
        """Wait for its end."""
        if self._thread is not None:
            self._thread.join(GIVE_UP_S)
            assert not self._thread.is_alive()


def shared(*, raises: bool = False) -> tuple[DeliveryTally, Beside]:
    """A tally whose lock two threads meet at."""
    beside = Beside()
    return DeliveryTally(raises=raises, locks=Locks(rlock=lambda: beside)), beside  # type: ignore[arg-type,return-value]


def _tell_once(who: str, backlog: int, line: int) -> bool:
    """Do something at a line of a flush, or flush at a line of the sender's; return whether it came to that line."""
    (tally, beside), told = shared(), Told()
    kept: list[object] = []

    def more(count: int) -> None:
        for _ in range(count):
            kept.append(fail(tally, topic="tu"[len(kept) % 2], text=f"error {len(kept)}"))

    def count(new_count: int) -> None:
        more(new_count)
        tally.step(0)

    def end_flush() -> None:
        told.add(flush(tally, tally.period, raises_all=True))

    act = {"a failure comes": lambda: more(1), "the sender counts one": lambda: count(1),
           "the sender counts many": lambda: count(2 * MOST_FIRST), "flush": end_flush}[who]
    in_the_middle_of = (lambda: count(1)) if who == "flush" else end_flush
    count(3)
    more(backlog)
    with at_line(line, lambda: beside.run(act)) as done:
        in_the_middle_of()
    beside.join()
    end_flush()
    count(2)
    end_flush()
    assert told.count == len(kept), line
    assert len(told.texts) == len(set(told.texts)), line
    assert flush(tally, tally.period, raises_all=True) is None
    return bool(done)


@pytest.mark.parametrize("backlog", [0, MOST_FIRST])
@pytest.mark.parametrize("call", ["flush(raise_on_error=True)", "flush()", "close()"])
def test_call_when_it_is_interrupted_at_any_line_then_it_tells_all_when_it_is_made_again(call: str, backlog: int,
                                                                                        ) -> None:
    """The period had ended, what was unseen was taken: the same call returned as if all was stored, or told of some."""
    told: list[int] = []  # lines behind the last step: nothing but the raise is left
    for line in range(2000):
        tally = DeliveryTally(raises=call != "flush(raise_on_error=True)")
        kept = [fail(tally, text=f"error {number}") for number in range(3 + backlog)]
        tally.step(0)

        def again(tally: DeliveryTally = tally) -> DeliveryFailedError | None:
            return close(tally) if call == "close()" else flush(tally, tally.period, raises_all=not tally.raises)

        with suppress(Interrupted), at_line(line, interrupt) as done:
            first = again()
        if not done:
            assert first is not None
            assert again() is None
            assert told == list(range(line - len(told), line))
            assert len(told) <= 5  # the end of a `with`, and who may be woken
            return
        kept.append(fail(tally, text="a later one"))
        del kept[0], kept[0]
        tally.step(GRACE_MS)
        failed = again()
        assert failed is not None
        if failed.failed["rejected"] == 1:
            told.append(line)
        else:
            assert failed.failed["rejected"] == 4 + backlog, line
        assert again() is None
    raise AssertionError("the call has no end")


@pytest.mark.parametrize("following", ["flush(raise_on_error=True)", "flush()", "close()"])
@pytest.mark.parametrize("first", ["flush(raise_on_error=True)", "flush()", "close()"])
def test_call_when_it_is_interrupted_at_any_line_then_another_one_tells(first: str, following: str) -> None:
    """A flush(raise_on_error=True) had settled what it was to tell: no other flush() or close() spoke of it."""
    def call(name: str, tally: DeliveryTally) -> DeliveryFailedError | None:
        return close(tally) if name == "close()" else flush(tally, tally.period, raises_all="raise" in name)

    silent: list[int] = []  # lines behind the last step: nothing but the raise is left
    for line in range(2000):
        tally = DeliveryTally(raises=True)
        kept = [fail(tally), fail(tally)]
        tally.step(0)
        with suppress(Interrupted), at_line(line, interrupt) as done:
            call(first, tally)
        if not done:
            assert silent == list(range(line - len(silent), line))
            assert len(silent) <= 5
            return
        failed = call(following, tally)
        if failed is None:
            silent.append(line)
        else:
            assert failed.failed["rejected"] == len(kept), line
        assert call(following, tally) is None
    raise AssertionError("the call has no end")


def test_close_when_records_failed_behind_an_abort_then_each_is_told_once() -> None:
    """What was left and what was taken were one object: every failure that nobody looked at was counted twice."""
    tally = DeliveryTally(raises=True)
    tally.on_aborted()
    kept = fail(tally, count=3)
    tally.end(0)
    failed = close(tally)
    assert failed is not None
    assert failed.failed["rejected"] == kept[0].count
    assert len(failed.errors) == 1


@pytest.mark.parametrize("raises", [False, True])
@pytest.mark.parametrize("is_abort_first", [False, True])
def test_abort_when_a_flush_tells_meanwhile_at_any_line_then_nobody_tells_what_failed_before_it(
        is_abort_first: bool, raises: bool) -> None:
    """One of them wrote what it had read before the other had written: the next flush told what was aborted."""
    for line in itertools.count():
        tally, beside = shared(raises=raises)
        kept = [fail(tally), fail(tally, count=2)]
        calls: list[Callable[[], object]] = [
            partial(flush, tally, tally.period, raises_all=True), tally.on_aborted]
        first, other = reversed(calls) if is_abort_first else calls
        with at_line(line, partial(beside.run, other)) as done:
            first()
        beside.join()
        assert not done or (flush(tally, tally.period, raises_all=True) is None and close(tally) is None)
        assert not done or all(failure.is_settled for failure, _ in kept)
        if not done:
            assert line > 5
            return


def cut_off_flush(tally: DeliveryTally) -> None:
    """A flush() that is interrupted before it tells."""
    with suppress(Interrupted), at_line(5, interrupt) as done:
        flush(tally, tally.period, raises_all=True)
    assert done


def test_end_when_a_flush_that_was_to_raise_was_interrupted_then_the_log_says_that_nobody_looked(
        caplog: pytest.LogCaptureFixture) -> None:
    tally = DeliveryTally()
    kept = fail(tally)
    cut_off_flush(tally)
    tally.end(0)
    assert (tally.unretrieved_count, kept[0].unseen) == (1, 1)
    assert "nobody looked" in caplog.text


def test_judge_when_a_flush_was_interrupted_then_what_it_had_not_told_has_its_grace() -> None:
    """It was logged and counted as seen by nobody, and told by the next flush()."""
    tally = DeliveryTally()
    fail(tally)
    cut_off_flush(tally)
    tally.step(GRACE_MS - 1)
    assert tally.unretrieved_count == 0
    assert flush(tally, tally.period, raises_all=True) is not None


def test_end_flush_when_topics_are_more_than_have_a_row_then_it_counts_and_describes_all(
        monkeypatch: pytest.MonkeyPatch) -> None:
    """At the first topic without a row of its own: KeyError '(others)'."""
    monkeypatch.setattr(failure_file, "MOST_TOPICS", 3)
    tally = DeliveryTally()
    kept = [fail(tally, topic=f"t{number}") for number in range(2)]
    tally.step(0)
    kept += [fail(tally, topic=f"t{number}") for number in range(2, 6)]
    for _ in range(2):
        told = Told()
        told.add(flush(tally, tally.period, raises_all=True))
        assert told.count == 6
        tally.step(0)
        kept += [fail(tally, topic=f"u{number}") for number in range(6)]


def test_failure_when_it_is_kept_then_it_holds_no_traceback_and_no_cause() -> None:
    """The frames of a traceback hold records, and a producer that was dropped: it was never closed."""
    try:
        raise RecordRejectedError("no", code=87) from ValueError()
    except RecordRejectedError as caught:
        made = Failure("t", 0, 1, caught, watched=1)
    assert type(made.error) is RecordRejectedError
    assert (made.error.code, made.error.__traceback__, made.error.__cause__) == (87, None, None)


# Who looked.

def test_unretrieved_when_futures_go_unseen_then_they_count_after_a_while(caplog: pytest.LogCaptureFixture) -> None:
    woken: list[int] = []
    tally = DeliveryTally(wake=lambda: woken.append(1))
    made, holder = fail(tally, "unknown", count=3, text="lost")
    tally.step(0)
    caplog.clear()
    tally.look(made, 1)
    assert woken == []
    del holder
    assert woken == [1], "the sender, which may sleep for long, hears of it"
    assert tally.step(500) == GRACE_MS
    assert tally.step(500 + GRACE_MS - 1) == 1
    assert (tally.unretrieved_count, caplog.messages) == (0, [])
    assert tally.step(500 + GRACE_MS) == NEVER_MS
    assert tally.unretrieved_count == 2
    assert caplog.messages == ["2 record(s) for t-0 failed, outcome unknown, and nobody looked at their futures "
                               "afterwards (result(), exception(), await, a callback): lost"]


@pytest.mark.parametrize("how", ["looked", "settled", "callbacks"])
def test_unretrieved_when_somebody_was_told_then_none_counts(how: str) -> None:
    tally = DeliveryTally()
    made, holder = fail(tally, count=2, watched=0 if how == "callbacks" else 2)
    if how == "looked":
        tally.look(made, 0)
        tally.look(made, 1)
        tally.look(made, 1)
    elif how == "settled":
        tally.settle(made)
    del holder
    tally.step(0)
    tally.step(GRACE_MS)
    tally.end(GRACE_MS)
    assert tally.unretrieved_count == 0


def test_unretrieved_when_a_flush_raises_for_them_in_time_then_none_counts() -> None:
    tally = DeliveryTally()
    period = tally.period
    fail(tally)
    tally.step(0)
    assert flush(tally, period, raises_all=True) is not None
    tally.step(GRACE_MS)
    tally.end(GRACE_MS)
    assert tally.unretrieved_count == 0


def test_unretrieved_when_a_flush_raises_for_later_ones_then_those_of_before_still_count() -> None:
    tally = DeliveryTally()
    kept = [fail(tally)]
    assert flush(tally, tally.period, raises_all=False) is None
    period = tally.period
    kept.append(fail(tally, count=10))
    failed = flush(tally, period, raises_all=True)
    assert failed is not None
    assert failed.failed["rejected"] == 10
    tally.end(0)
    assert tally.unretrieved_count == 1
    assert kept


def test_unretrieved_when_another_flush_ends_the_period_then_they_count_at_once() -> None:
    woken: list[int] = []
    tally = DeliveryTally(wake=lambda: woken.append(1))
    fail(tally)
    _, held = fail(tally)
    tally.step(0)
    assert tally.unretrieved_count == 0
    woken.clear()
    assert flush(tally, tally.period, raises_all=False) is None
    assert woken == [1]
    tally.step(1)
    assert tally.unretrieved_count == 1
    del held
    tally.step(2)
    assert tally.unretrieved_count == 2, "of a period that was over"


def test_unretrieved_when_the_producer_ends_then_all_that_nobody_looked_at_count(
        caplog: pytest.LogCaptureFixture) -> None:
    tally = DeliveryTally()
    kept = [fail(tally), fail(tally, "not_sent", topic="u", partition=-1)]
    tally.look(kept[0][0], 0)
    tally.end(0)
    assert tally.unretrieved_count == 1
    assert "1 record(s) for topic u failed, outcome not_sent, and nobody looked" in caplog.text
    del kept
    tally.end(0)
    assert tally.unretrieved_count == 1


def test_unretrieved_when_somebody_waits_while_the_producer_ends_then_he_is_about_to_look() -> None:
    tally = DeliveryTally()
    made, holder = fail(tally, count=2)
    tally.waiting[object()] = SimpleNamespace(_result=SimpleNamespace(failure=made), _index=1)
    tally.waiting[object()] = SimpleNamespace(_result=SimpleNamespace(failure=None), _index=0)
    tally.end(0)
    assert tally.unretrieved_count == 1
    assert holder


@pytest.mark.parametrize("raises", [False, True])
def test_unretrieved_when_very_many_wait_to_be_judged_then_the_oldest_are(raises: bool) -> None:
    """Nobody flushes: what is kept for him who does has a limit, and is told all the same."""
    tally = DeliveryTally(raises=raises)
    for index in range(_MOST_GONE + 10):
        fail(tally, text=f"error {index}")
    tally.step(0)
    assert tally.unretrieved_count == 10
    if raises:
        failed = close(tally)
        assert failed is not None
        assert failed.failed["rejected"] == _MOST_GONE + 10
        assert str(failed.errors[0].error) == "error 0"


# pyproducer.on.unretrieved=raise.

def test_raises_when_failures_are_unseen_then_any_flush_does_once() -> None:
    tally = DeliveryTally(raises=True)
    made, holder = fail(tally, "unknown", count=3)
    fail(tally, "rejected")
    looked, held = fail(tally, "rejected")
    tally.look(looked, 0)
    tally.look(made, 2)
    tally.step(0)
    assert tally.step(GRACE_MS) == NEVER_MS, "they wait for a flush(), however long"
    assert tally.unretrieved_count == 0
    failed = flush(tally, tally.period, raises_all=False)
    assert failed is not None
    assert failed.failed == {"not_sent": 0, "rejected": 1, "unknown": 2}
    assert "and nobody looked at their futures" in str(failed)
    assert flush(tally, tally.period, raises_all=False) is None
    tally.end(GRACE_MS)
    assert close(tally) is None
    assert (holder, held) != (None, None)


def test_raises_when_a_flush_told_all_then_no_later_one_raises_for_the_same() -> None:
    """Also not for those that were so many that the oldest were judged before."""
    tally = DeliveryTally(raises=True)
    count = _MOST_GONE + 2
    for _ in range(count):
        fail(tally, "rejected")  # nobody can look at its futures any more
    tally.step(0)
    tally.step(GRACE_MS)
    assert tally.unretrieved_count > 0
    failed = flush(tally, tally.period, raises_all=True)
    assert failed is not None
    assert failed.failed == {"not_sent": 0, "rejected": count, "unknown": 0}
    assert flush(tally, tally.period, raises_all=False) is None
    tally.end(2 * GRACE_MS)
    assert close(tally) is None


def test_raises_when_the_producer_ends_then_it_logs_and_close_raises_once(caplog: pytest.LogCaptureFixture) -> None:
    tally = DeliveryTally(raises=True)
    fail(tally)
    _, held = fail(tally, "unknown")
    tally.end(0)
    assert tally.unretrieved_count == 2
    assert caplog.text.count("nobody looked at their futures") == 2
    failed = close(tally)
    assert failed is not None
    assert failed.failed == {"not_sent": 0, "rejected": 1, "unknown": 1}
    assert close(tally) is None
    assert held


# Lines of the log.

def test_log_when_ten_thousand_batches_fail_then_a_handful_of_lines_tells_of_them(
        caplog: pytest.LogCaptureFixture) -> None:
    tally = DeliveryTally()
    kept = [fail(tally, count=3, partition=index % 8) for index in range(10_000)]
    assert tally.step(0) == WINDOW_MS
    assert caplog.messages == [f"3 record(s) for t-{index} failed, outcome rejected: why"
                               for index in range(MOST_LINES)]
    assert tally.step(WINDOW_MS) == NEVER_MS
    assert caplog.messages[MOST_LINES:] == [
        f"{10_000 - MOST_LINES} more failures, of {3 * (10_000 - MOST_LINES)} records, were left out here"]
    assert {record.levelno for record in caplog.records} == {logging.WARNING}
    for made, _ in kept:
        tally.settle(made)
    tally.end(WINDOW_MS)
    assert len(caplog.messages) == MOST_LINES + 1


def test_log_when_an_error_holds_a_secret_or_paints_the_terminal_then_the_line_does_not(
        caplog: pytest.LogCaptureFixture) -> None:
    tally = DeliveryTally()
    period = tally.period
    _, holder = fail(tally, topic="t\nx", text="password=hunter2\nINFO all is well \x1b[2J")
    tally.step(0)
    failed = flush(tally, period, raises_all=True)
    tally.end(0)
    assert "password" not in caplog.text.replace("[hidden]", "")
    for text in (*caplog.messages, str(failed)):
        assert "hunter2" not in text
        assert text.isprintable()
        assert "[hidden]\\nINFO all is well \\x1b" in text
    assert holder


def test_log_when_send_returned_the_failed_future_then_it_is_not_a_batchs_line(
        caplog: pytest.LogCaptureFixture) -> None:
    woken: list[int] = []
    tally = DeliveryTally(wake=lambda: woken.append(1))
    made, holder = fail(tally, "not_sent", is_accepted=False)
    fail(tally, "not_sent", is_accepted=False, watched=0)
    assert woken == [1], "it came from a caller: the sender may be asleep"
    tally.step(0)
    assert caplog.messages == []
    assert tally.summary().failed["not_sent"] == 2
    tally.look(made, 0)
    assert holder
