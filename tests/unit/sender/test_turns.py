"""A caller's turn: what threads do at once is played step by step, over the real sender and a double of the network."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from pyproducer.accumulator.batch_state import BatchState
from pyproducer.accumulator.life import LifeState
from pyproducer.common.errors import ForkedProducerError, IllegalStateError, KafkaTimeoutError
from pyproducer.common.waiting import Cell
from pyproducer.network.wakeup import Wakeup
from pyproducer.sender.turns import ASIDE_MS, LOOK_S, SenderTurns
from tests.support.clock import ManualClock
from tests.support.patience import GIVE_UP_S
from tests.unit.sender.stepped_producer import SteppedProducer

MOST_WAITS = 200  # of a test


class ThreadsClock(ManualClock):
    """The sender's thread stands aside in `wait`: what callers do meanwhile is what the next of `acts` does."""

    def __init__(self) -> None:
        super().__init__()
        self.acts: list[Callable[[], object]] = []
        self.waits_s: list[float | None] = []

    def wait(self, cell: Cell, timeout_s: float | None) -> bool:
        self.waits_s.append(timeout_s)
        assert len(self.waits_s) < MOST_WAITS, "it never goes on"
        if self.acts:
            self.acts.pop(0)()
        if cell.acquire(blocking=False):
            return True
        assert timeout_s is not None
        self.advance(round(timeout_s * 1000))
        return False


class Stage:
    """A producer with one acknowledged record, whose next record a caller waits for."""

    def __init__(self, **settings: Any) -> None:
        self.clock = ThreadsClock()
        self.producer = SteppedProducer(clock=self.clock, **settings)
        self.producer.start()
        self.life = self.producer.life
        self.wakeup = Wakeup()
        self.turns = SenderTurns(self.producer.sender, self.producer.accumulator, self.life, self.clock, self.wakeup,
                                 self.producer.freeze, is_safe_here=lambda: True)
        self.life.take_turn = self.turns.take
        self.answers = True
        self.producer.client.on_poll = self.answer

    def answer(self) -> None:
        if self.answers and self.producer.client.in_flight:
            self.producer.answer_all(base_offset=5)

    def somebody_waits(self) -> None:
        """A caller waits whose record the thread sends."""
        future = self.producer.append()
        self.turns.take(future._result, None)
        assert not future.done(), "the thread has the role"
        self.producer.turn()
        self.answer()
        assert future.done()

    def aside(self, *acts: Callable[[], object]) -> None:
        """Have the thread stand aside, where it may, until it goes on; meanwhile callers do this, one after another."""
        self.clock.acts = list(acts)
        self.turns.stand_aside()
        assert not self.life.role.is_free, "it came back with the role"

    def steps(self, *before: Callable[[], object], **send: Any) -> tuple[int, Any]:
        """Return how many steps a caller took for his record, and its future."""
        made: list[Any] = []

        def send_and_wait() -> None:
            future = self.producer.append(**send)
            made.append(future)
            for act in before:
                act()
            self.turns.take(future._result, None)

        self.aside(send_and_wait)
        return self.life.role.step_count, made[0]


@pytest.fixture
def new_stage() -> Iterator[Stage]:
    made = Stage()
    yield made
    made.wakeup.close()


@pytest.fixture
def stage(new_stage: Stage) -> Stage:
    new_stage.somebody_waits()
    return new_stage


def test_thread_when_nobody_waited_then_it_does_not_stand_aside(new_stage: Stage) -> None:
    stage = new_stage
    stage.aside(lambda: pytest.fail("it sleeps"))
    assert stage.clock.waits_s == []


def test_thread_when_somebody_waited_then_it_stands_aside_for_20_ms_and_looks_meanwhile(stage: Stage) -> None:
    before_ms = stage.clock.now_ms()
    stage.aside()
    assert stage.clock.now_ms() - before_ms == ASIDE_MS
    assert set(stage.clock.waits_s) == {LOOK_S}
    stage.aside(lambda: pytest.fail("once for each time that somebody waited"))


def test_caller_when_the_thread_stands_aside_then_he_sends_and_completes_his_record_himself(stage: Stage) -> None:
    sent = len(stage.producer.client.sent)
    steps, future = stage.steps()
    assert steps == 1
    assert future.result(0).offset == 5
    assert len(stage.producer.client.sent) == sent + 1
    assert not stage.producer.accumulator.has_incomplete()
    assert stage.producer.pool.available_bytes == stage.producer.pool.total_bytes


def test_caller_when_nobody_ran_for_long_then_the_thread_makes_the_connections_anew_first(stage: Stage) -> None:
    steps, future = stage.steps(lambda: stage.clock.advance(60_000))
    assert steps == 1
    assert not future.done()
    assert len(stage.producer.clients) == 1
    stage.producer.turn()
    assert len(stage.producer.clients) == 2


def test_rest_when_the_thread_stands_aside_then_it_ends_with_each_step_and_with_its_return(stage: Stage) -> None:
    """The application's time between two of its calls was told as that of the sender's thread (io-time-ns-total)."""
    client, polls = stage.producer.client, len(stage.producer.client.rests_ms)

    def work() -> None:
        stage.clock.advance(700)
        stage.turns.take(stage.producer.append()._result, None)

    def answer_late() -> None:
        stage.clock.advance(30)
        stage.answer()

    client.on_poll = answer_late
    stage.aside(work, work)
    stage.producer.turn()
    assert client.rests_ms[polls:] == [700, LOOK_S * 1000 + 700, LOOK_S * 1000 + ASIDE_MS]
    stage.producer.turn(400)
    assert client.rests_ms[-1] == 0, "a turn of the thread's follows its last one"


def test_thread_when_callers_come_then_the_20_ms_begin_again(stage: Stage) -> None:
    def send_and_wait() -> None:
        future = stage.producer.append()
        stage.turns.take(future._result, None)
        assert future.done()

    before_ms = stage.clock.now_ms()
    stage.aside(*[send_and_wait] * 30)
    assert stage.life.role.step_count == 30
    assert stage.clock.now_ms() - before_ms == 30 * LOOK_S * 1000 + ASIDE_MS


def test_thread_when_its_turn_ends_before_the_record_is_sent_then_it_stands_aside_after_the_answer(
        stage: Stage) -> None:
    """A record's wake-up ended the turn before the one that sent it, which forgot that somebody waits for it."""
    stage.turns.take(stage.producer.append()._result, None)
    stage.aside(lambda: pytest.fail("it sleeps"))  # the turn that was woken
    stage.producer.turn()
    stage.answer()
    stage.clock.waits_s.clear()
    stage.aside()
    assert stage.clock.waits_s


def test_batch_when_its_caller_does_not_come_back_then_the_thread_goes_on_at_its_next_look(stage: Stage) -> None:
    stage.aside(stage.producer.append)
    assert stage.clock.waits_s == [LOOK_S]
    assert stage.producer.accumulator.has_undrained()


@pytest.mark.parametrize("reason", ["wakeup", "closing", "work", "request", "debug"])
def test_thread_when_there_is_a_reason_to_go_on_then_it_does_not_sleep(
        stage: Stage, reason: str, caplog: pytest.LogCaptureFixture) -> None:
    if reason == "wakeup":
        stage.wakeup.wakeup()
    elif reason == "closing":
        stage.life.begin_closing("a test", None)
    elif reason == "debug":
        caplog.set_level(logging.DEBUG, "pyproducer")
    else:
        stage.answers = False
        stage.producer.append()
        if reason == "request":
            stage.producer.turn()
    stage.aside(lambda: pytest.fail("it sleeps"))
    assert stage.clock.waits_s == []


def test_thread_when_it_is_rung_then_it_goes_on_at_once(stage: Stage) -> None:
    stage.aside(stage.life.role.ring)
    assert len(stage.clock.waits_s) == 1


@pytest.mark.parametrize("what", ["two batches", "a callback", "a done callback", "many records", "no leader",
                                  "not connected", "not open", "no time", "a record waits for its topic"])
def test_caller_when_the_turn_is_not_for_him_then_the_thread_goes_on(stage: Stage, what: str) -> None:
    producer = stage.producer
    future: list[Any] = [None]
    told: list[object] = []

    def send_and_wait() -> None:
        future[0] = made = producer.append(on_completion=(lambda *_: told.append(1)) if what == "a callback" else None)
        if what == "two batches":
            producer.append(1)
        elif what == "a done callback":
            made.add_done_callback(lambda _: told.append(1))
        elif what == "many records":
            for _ in range(20):
                producer.append(value=b"")
        elif what == "no leader":
            producer.metadata.rebootstrap(forget_leaders=True)
        elif what == "not connected":
            producer.client.is_ready_now = False
        elif what == "not open":
            stage.life.begin_closing("a test", None)
        elif what == "a record waits for its topic":
            producer.enter()
        stage.turns.take(made._result, stage.clock.now_ms() if what == "no time" else None)

    sent = len(producer.client.sent)
    stage.aside(send_and_wait)
    assert len(stage.clock.waits_s) == 1, "it was rung"
    assert len(producer.client.sent) == sent
    assert not told


def test_caller_when_his_time_is_over_then_the_thread_goes_on_with_his_record(stage: Stage) -> None:
    stage.answers = False
    made: list[Any] = []

    def send_and_wait() -> None:
        made.append(stage.producer.append())
        stage.turns.take(made[0]._result, stage.clock.now_ms() + 30)

    stage.aside(send_and_wait)
    assert stage.producer.client.poll_timeouts[-1] == 30
    assert not made[0].done()
    stage.answers = True
    stage.producer.turn()
    assert made[0].result(0).offset == 5


def test_caller_when_somebody_ends_his_poll_then_the_thread_serves_both_and_stays(stage: Stage) -> None:
    """Of several callers each would take the turn of another, and hand over each time."""
    stage.answers = False
    steps, future = stage.steps()
    assert steps == 1
    assert not future.done()
    stage.answers = True
    stage.producer.turn()
    assert future.done()
    stage.somebody_waits()
    stage.aside(lambda: pytest.fail("it sleeps"))
    stage.clock.advance(ASIDE_MS)
    stage.somebody_waits()
    stage.aside()
    assert stage.clock.waits_s[-1] == LOOK_S


def test_callback_when_it_comes_in_the_middle_of_a_callers_turn_then_the_thread_calls_it(stage: Stage) -> None:
    told: list[int] = []
    made: list[Any] = []

    def poll() -> None:
        made[0].add_done_callback(lambda _: told.append(stage.life.role.caller))
        stage.answer()

    def send_and_wait() -> None:
        made.append(stage.producer.append())
        stage.producer.client.on_poll = poll
        stage.turns.take(made[0]._result, None)
        assert made[0].done()
        assert not told

    stage.aside(send_and_wait)
    assert told == [0]
    assert not stage.producer.accumulator.batches(), "it is out of its list"
    assert stage.producer.pool.available_bytes == stage.producer.pool.total_bytes


@pytest.mark.parametrize("what", ["batch", "record that waited for its topic"])
def test_callback_when_its_record_came_into_the_turn_of_another_caller_then_the_thread_calls_it(
        stage: Stage, monkeypatch: pytest.MonkeyPatch, what: str) -> None:
    """It came between the look at what there is and the turn. Its callback was called in the other caller's thread,
    or up to 20 ms late."""
    callers: list[int] = []
    producer = stage.producer

    def on_completion(*_: object) -> None:
        callers.append(stage.life.role.caller)

    def run_once(now_ms: int, longest_wait_ms: int) -> None:
        if what == "batch":
            producer.append(1, on_completion=on_completion)
        else:
            producer.enter(max_block_ms=1, on_completion=on_completion)
            stage.clock.advance(5)
        run_once_alone(stage.clock.now_ms(), longest_wait_ms)

    run_once_alone = producer.sender.run_once
    monkeypatch.setattr(producer.sender, "run_once", run_once)
    steps, future = stage.steps()
    monkeypatch.undo()
    assert steps == 1
    assert future.done()
    assert len(stage.clock.waits_s) == 1, "the thread was rung"
    producer.turn()
    assert callers == [0]
    assert not producer.accumulator.batches()


@pytest.mark.parametrize("what", ["expired", "aborted"])
def test_callback_when_its_record_fails_in_the_turn_of_another_caller_then_the_thread_calls_it(
        stage: Stage, monkeypatch: pytest.MonkeyPatch, what: str) -> None:
    """Its batch was let go untold: the callback was never called, and flush() waited for ever."""
    told: list[tuple[int, BaseException | None]] = []
    producer = stage.producer

    def on_completion(_: object, error: BaseException | None) -> None:
        told.append((stage.life.role.caller, error))

    def run_once(now_ms: int, longest_wait_ms: int) -> None:
        producer.append(1, on_completion=on_completion)
        if what == "expired":
            stage.clock.advance(10_000)
        else:
            assert producer.manager is not None
            producer.manager.on_fatal_error(IllegalStateError("it gives no id"))
        run_once_alone(stage.clock.now_ms(), longest_wait_ms)

    run_once_alone = producer.sender.run_once
    monkeypatch.setattr(producer.sender, "run_once", run_once)
    sent_count = len(producer.client.sent)
    stage.steps()
    monkeypatch.undo()
    producer.turn()
    assert len(producer.client.sent) == sent_count, "what is told as not sent is not sent"
    [(caller, error)] = told
    assert caller == 0
    assert isinstance(error, KafkaTimeoutError if what == "expired" else IllegalStateError)
    assert not producer.accumulator.batches()
    assert producer.pool.available_bytes == producer.pool.total_bytes


def test_error_when_it_comes_in_a_callers_turn_then_the_thread_retries(stage: Stage) -> None:
    stage.answers = False

    def refuse() -> None:
        if stage.producer.client.in_flight:
            stage.producer.answer_all(code=19)

    stage.producer.client.on_poll = refuse
    steps, future = stage.steps()
    assert steps == 1
    assert not future.done()
    (batch,) = stage.producer.accumulator.batches()
    assert batch.state is BatchState.RETRY


@pytest.mark.parametrize("raised", [KeyboardInterrupt(), ValueError("a bug"), MemoryError()])
@pytest.mark.parametrize("where", ["on_send", "on_poll"])
def test_caller_when_an_exception_ends_his_turn_then_ctrl_c_alone_is_his_and_the_thread_recovers(
        stage: Stage, raised: BaseException, where: str, caplog: pytest.LogCaptureFixture) -> None:
    """A MemoryError out of result() would look like the record's outcome, which is open."""
    made: list[Any] = []

    def interrupt() -> None:
        raise raised

    def send_and_wait() -> None:
        made.append(stage.producer.append())
        setattr(stage.producer.client, where, interrupt)
        with contextlib.nullcontext() if isinstance(raised, Exception) else pytest.raises(KeyboardInterrupt):
            stage.turns.take(made[0]._result, None)
        setattr(stage.producer.client, where, None)

    stage.aside(send_and_wait)
    assert stage.life.role.is_torn
    assert not made[0].done()
    assert ("Uncaught error in a turn of a caller" in caplog.text) == isinstance(raised, Exception)
    stage.producer.sender.recover(stage.clock.now_ms())
    stage.clock.advance(1000)
    stage.producer.client.on_poll = stage.answer
    stage.producer.turn()
    assert made[0].result(0).offset == 5


@pytest.mark.parametrize("call", ["flush()", "result()"])
def test_call_when_a_signals_handler_makes_it_in_a_callers_turn_then_it_is_refused(stage: Stage, call: str) -> None:
    refused: list[str] = []

    def poll() -> None:
        with pytest.raises(IllegalStateError) as error:
            stage.life.begin_wait(call, None)
        refused.append(str(error.value))
        stage.answer()

    stage.producer.client.on_poll = poll
    _, future = stage.steps()
    assert future.done()
    assert len(refused) == 1
    assert refused[0].startswith(f"{call} was called in the middle of another call of this producer")


def test_caller_when_a_signals_handler_forks_in_his_turn_then_the_child_is_told(stage: Stage) -> None:
    def poll() -> None:
        stage.life.mark_forked()

    def send_and_wait() -> None:
        future = stage.producer.append()
        stage.producer.client.on_poll = poll
        with pytest.raises(ForkedProducerError):
            future.result(1)

    stage.clock.acts = [send_and_wait]
    stage.turns.stand_aside()
    assert stage.life.state is LifeState.FORKED


def test_caller_when_a_signal_may_raise_anything_then_he_takes_no_turn_and_the_thread_goes_on_at_once(
        stage: Stage) -> None:
    """Beside threads that took turns the main thread waited for the next look, 2 ms to 20 ms, for each record."""
    stage.turns.is_safe_here = lambda: False
    steps, future = stage.steps()
    assert steps == 0
    assert not future.done()
    assert len(stage.clock.waits_s) == 1, "it was rung"


def test_caller_when_he_waits_again_after_an_exception_then_the_thread_recovers_first(stage: Stage) -> None:
    """Ctrl-C came when the answer was read and not looked at: the next result() waited for it for 30 seconds."""
    made: list[Any] = []

    def interrupt() -> None:
        raise KeyboardInterrupt

    def wait_twice() -> None:
        made.append(stage.producer.append())
        stage.producer.client.on_poll = interrupt
        with pytest.raises(KeyboardInterrupt):
            stage.turns.take(made[0]._result, None)
        stage.producer.client.on_poll = lambda: pytest.fail("this client is to be thrown away")
        stage.turns.take(made[0]._result, None)

    stage.aside(wait_twice)
    assert stage.life.role.is_torn
    assert stage.life.role.step_count == 1


def test_caller_when_the_last_turn_was_not_for_a_caller_then_the_thread_stays_for_20_ms(stage: Stage) -> None:
    """Who waits for records that have callbacks, or one of several, paid the two hops and the way round, each time."""
    stage.steps(lambda: stage.producer.append(1))
    stage.producer.turn()
    stage.answer()
    stage.somebody_waits()
    stage.aside(lambda: pytest.fail("it sleeps"))
    stage.clock.advance(ASIDE_MS)
    stage.somebody_waits()
    stage.clock.waits_s.clear()
    stage.aside()
    assert stage.clock.waits_s


def test_thread_when_a_broker_takes_its_time_then_it_sleeps_long_and_looks_often_again_after_the_answer(
        stage: Stage) -> None:
    """A look in the middle of any caller's turn put the next one off by 20 ms, also for who sent and did not wait."""
    is_sent, may_answer = threading.Event(), threading.Event()

    def poll() -> None:
        is_sent.set()
        assert may_answer.wait(GIVE_UP_S)
        stage.answer()

    def send_and_wait() -> None:
        stage.turns.take(stage.producer.append()._result, None)

    caller = threading.Thread(target=send_and_wait)

    def begin() -> None:
        stage.producer.client.on_poll = poll
        caller.start()
        assert is_sent.wait(GIVE_UP_S)

    def end() -> None:
        may_answer.set()
        caller.join(GIVE_UP_S)
        stage.producer.client.on_poll = stage.answer

    before_ms = stage.clock.now_ms()
    stage.aside(begin, lambda: None, end, stage.producer.append)
    look, long = LOOK_S, ASIDE_MS / 1000
    assert stage.clock.waits_s == [look, look, long, look]
    assert stage.clock.now_ms() - before_ms == 3 * look * 1000, "woken by the end, and back for the record"


def test_opened_batch_when_the_thread_has_the_role_then_its_sleep_ends(new_stage: Stage) -> None:
    new_stage.turns.on_opened()
    assert new_stage.wakeup.is_requested


@pytest.mark.parametrize("wait", [
    lambda future: future.add_done_callback(lambda _: None),
    lambda future: future._condition,  # concurrent.futures.wait() begins so
    lambda future: asyncio.run(_await_briefly(future)),
], ids=["add_done_callback", "wait", "await"])
def test_thread_when_somebody_waits_who_takes_no_turn_then_it_comes_at_once(
        stage: Stage, wait: Callable[[Any], object]) -> None:
    """Else the record waits for the thread's next look, or lingers."""
    def send_and_wait() -> None:
        future = stage.producer.append()
        stage.turns.on_opened()
        wait(future)

    stage.clock.waits_s.clear()
    stage.aside(send_and_wait)
    assert len(stage.clock.waits_s) == 1, "rung in its first sleep"


async def _await_briefly(future: Any) -> None:
    task = asyncio.ensure_future(_await(future))
    while task not in asyncio.all_tasks() or not future._done_callbacks:
        await asyncio.sleep(0)
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def _await(future: Any) -> None:
    await future


def test_caller_when_his_wait_ends_the_linger_then_he_takes_the_turn_himself(stage: Stage) -> None:
    """He rang the thread: with linger.ms at its default nobody ever took a turn of his own."""
    accumulator = stage.producer.accumulator
    accumulator._linger_ms = 1000
    accumulator.lingers_for_waiters = False
    accumulator._on_linger_ended = stage.turns.on_opened
    made: list[Any] = []

    def send_and_wait() -> None:
        future = stage.producer.append()
        stage.turns.on_opened()
        made.append(future.result(0.5))

    stage.aside(send_and_wait)
    assert made[0].offset == 5
    assert stage.life.role.step_count == 1
