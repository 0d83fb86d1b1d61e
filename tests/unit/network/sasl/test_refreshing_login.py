"""When credentials are fetched, and what a login says meanwhile. The thread is the test, but for the last tests."""

from __future__ import annotations

import contextlib
import itertools
import logging
import threading
import traceback
from typing import Any

import pytest

from pyproducer.common.clock import SystemClock
from pyproducer.common.errors import NOT_SENT, AuthenticationError, TransportError
from pyproducer.common.waiting import Cell
from pyproducer.network.sasl.mechanism import unavailable
from pyproducer.network.sasl.refreshing_login import (
    LONGEST_SLEEP_MS,
    PREPARED_LIFE_MS,
    RefreshingLogin,
    RefreshTimes,
)
from tests.support.clock import ManualClock
from tests.support.patience import GIVE_UP_S
from tests.unit.network.sasl.logins import Client, NoThread, Pass, ScriptedSource, least, run_until, stepped_login

HOUR_MS = 3_600_000
MINUTE_MS = 60_000


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


def of_life(clock: ManualClock, life_ms: int, value: str = "first") -> Pass:
    return Pass(value, clock.timestamp_ms() + life_ms)


def numbered_source(clock: ManualClock) -> ScriptedSource:
    """Return one that makes a new credential each time, of an hour: "number 1", "number 2"."""
    numbers = itertools.count(1)
    return ScriptedSource(clock, lambda: of_life(clock, HOUR_MS, f"number {next(numbers)}"))


def login_of(source: Any, clock: ManualClock, start_thread: Any = None) -> RefreshingLogin[Any]:
    return RefreshingLogin("TEST", source.fetch, Client, "the token", close=source.close, clock=clock,
                           start_thread=start_thread or NoThread(), uniform=least)


# When -----------------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize(("life_ms", "refresh_ms"), [
    (HOUR_MS, int(0.8 * HOUR_MS)),
    (10 * MINUTE_MS, 5 * MINUTE_MS),  # the buffer of 5 minutes is kept free
    (6 * MINUTE_MS, MINUTE_MS),  # and so is the shortest period, of 1 minute
    (5 * MINUTE_MS, 4 * MINUTE_MS),  # less than both together: they are ignored
    (10_000, 8_000),
])
def test_refresh_when_a_credential_was_just_made_then_it_is_at_80_percent_within_the_bounds(clock, life_ms, refresh_ms):
    at_ms = RefreshTimes().refresh_at_ms(of_life(clock, life_ms), clock.timestamp_ms(), least)
    assert at_ms - clock.timestamp_ms() == refresh_ms


def test_times_when_they_are_read_from_settings_then_seconds_are_ms() -> None:
    settings = {"sasl.login.refresh.window.factor": 0.5, "sasl.login.refresh.window.jitter": 0.01,
                "sasl.login.refresh.min.period.seconds": 7, "sasl.login.refresh.buffer.seconds": 11}
    assert RefreshTimes.of(settings) == RefreshTimes(0.5, 0.01, min_period_ms=7000, buffer_ms=11_000)


def test_refresh_when_a_credential_is_older_than_its_fetch_then_its_whole_life_counts(clock):
    now_ms = clock.timestamp_ms()
    half_gone = Pass("first", now_ms + HOUR_MS, now_ms - HOUR_MS)
    assert RefreshTimes().refresh_at_ms(half_gone, now_ms, least) - now_ms == int(0.6 * HOUR_MS)


def test_refresh_when_jitter_is_drawn_then_it_is_added_to_the_factor(clock):
    at_ms = RefreshTimes().refresh_at_ms(of_life(clock, HOUR_MS), clock.timestamp_ms(), lambda low, high: high)
    assert at_ms - clock.timestamp_ms() == int(0.85 * HOUR_MS)


def test_login_when_its_credential_gets_old_then_the_next_is_fetched_at_80_percent(clock):
    source = numbered_source(clock)
    login = stepped_login(source, clock)
    begin_ms = clock.timestamp_ms()
    run_until(login, clock, 2 * HOUR_MS)
    assert [at_ms - begin_ms for at_ms in source.fetched_at_ms] == [0, int(0.8 * HOUR_MS), int(1.6 * HOUR_MS)]
    assert login.error is None
    assert login.new_client("broker").credential.value == "number 3"


def test_login_when_the_machine_slept_past_the_end_then_it_fetches_at_its_next_look(clock):
    source = numbered_source(clock)
    login = stepped_login(source, clock)
    assert [login.run_once() for _ in range(2)] == [LONGEST_SLEEP_MS] * 2
    clock.suspend(2 * HOUR_MS)
    assert not login.is_ready
    login.run_once()
    assert login.is_ready
    assert login.new_client("broker").credential.value == "number 2"


def test_login_when_the_end_is_not_known_then_it_fetches_anew_all_the_same_and_is_ready(clock):
    source = ScriptedSource(clock, Pass("forever"))
    login = stepped_login(source, clock)
    run_until(login, clock, 10 * MINUTE_MS)
    assert [at_ms - source.fetched_at_ms[0] for at_ms in source.fetched_at_ms] == [0, 4 * MINUTE_MS, 8 * MINUTE_MS]
    assert login.is_ready


def test_login_when_the_source_has_nothing_newer_then_it_is_not_asked_at_ever_shorter_intervals(clock):
    """An issuer that keeps tokens until they end: 80 % of the rest, and of the rest of that, is a flood at the end."""
    source = ScriptedSource(clock, of_life(clock, HOUR_MS))
    login = stepped_login(source, clock, retry_backoff_ms=1000)
    run_until(login, clock, HOUR_MS - 1)
    gaps_ms = [later - sooner for sooner, later in zip(source.fetched_at_ms, source.fetched_at_ms[1:], strict=False)]
    assert min(gaps_ms) >= 1_000
    assert len(gaps_ms) < 15
    assert login.is_ready


# Failures -------------------------------------------------------------------------------------------------------------

def test_login_when_the_source_is_away_then_it_is_asked_by_the_backoff_and_says_why(clock):
    source = ScriptedSource(clock, unavailable("the issuer is away"))
    login = stepped_login(source, clock)
    run_until(login, clock, 2_000)
    assert [at_ms - source.fetched_at_ms[0] for at_ms in source.fetched_at_ms] == [0, 100, 300, 700, 1500]
    assert not login.is_ready
    assert isinstance(login.error, TransportError)
    assert login.error.retriable
    assert login.error.outcome == NOT_SENT
    assert not login.error.refresh_metadata
    run_until(login, clock, MINUTE_MS)
    assert source.fetched_at_ms[-1] - source.fetched_at_ms[-2] == 10_000


def test_login_when_the_issuer_is_away_for_30_seconds_at_the_refresh_then_nobody_is_without_a_token(clock):
    source = ScriptedSource(clock, of_life(clock, HOUR_MS))
    login = stepped_login(source, clock)
    run_until(login, clock, int(0.8 * HOUR_MS))
    source.answers = [unavailable("the issuer is away")]
    away_ms = 30_000
    while away_ms > 0:
        slept_ms = login.run_once()
        assert login.is_ready
        assert login.new_client("broker").credential.value == "first"
        assert str(login.error) == "the issuer is away"
        clock.advance(slept_ms)
        away_ms -= slept_ms
    source.answers = [of_life(clock, HOUR_MS, "second")]
    run_until(login, clock, 10_000)
    assert login.error is None
    assert login.new_client("broker").credential.value == "second"


def test_login_when_it_is_refused_then_the_error_is_no_passing_one_and_it_asks_seldom(clock):
    source = ScriptedSource(clock, AuthenticationError("wrong secret"))
    login = stepped_login(source, clock)
    run_until(login, clock, 4 * MINUTE_MS)
    waits_ms = [later - sooner for sooner, later in zip(source.fetched_at_ms, source.fetched_at_ms[1:], strict=False)]
    assert waits_ms[:6] == [1_000, 2_000, 4_000, 8_000, 10_000, 10_000]
    assert isinstance(login.error, AuthenticationError)
    assert not login.error.retriable
    with pytest.raises(TransportError, match="wrong secret"):
        login.new_client("broker")


def test_login_when_the_secret_was_put_right_then_it_goes_on_as_if_nothing_was(clock):
    source = ScriptedSource(clock, AuthenticationError("wrong secret"), lambda: of_life(clock, HOUR_MS))
    login = stepped_login(source, clock)
    run_until(login, clock, 1_100)
    assert login.is_ready
    assert login.error is None


@pytest.mark.parametrize(("failure", "first_ms"), [(unavailable("away"), 100), (AuthenticationError("no"), 1_000)])
def test_login_when_it_fails_again_after_a_success_then_the_waits_begin_anew(clock, failure, first_ms):
    source = ScriptedSource(clock, failure, failure, lambda: of_life(clock, 10_000), failure)
    login = stepped_login(source, clock)
    run_until(login, clock, 20_000)
    at_ms = source.fetched_at_ms
    assert [at_ms[1] - at_ms[0], at_ms[2] - at_ms[1]] == [first_ms, 2 * first_ms]
    assert at_ms[4] - at_ms[3] == first_ms


def test_login_when_no_backoff_is_set_then_it_does_not_spin_all_the_same(clock):
    login = stepped_login(ScriptedSource(clock, unavailable("away")), clock, retry_backoff_ms=0)
    assert login.run_once() == 1
    assert login.run_once() == 1


def test_login_when_a_credential_ends_in_the_moment_it_comes_then_it_is_none(clock):
    login = stepped_login(ScriptedSource(clock, of_life(clock, 0)), clock)
    login.run_once()
    assert "had ended less than a minute before" in str(login.error)


def test_login_when_a_credential_had_ended_before_it_came_then_the_clock_is_suspected(clock):
    login = stepped_login(ScriptedSource(clock, of_life(clock, -90_000)), clock)
    login.run_once()
    assert not login.is_ready
    assert type(login.error) is AuthenticationError, "the first of all: what hands it out has to be looked at"
    assert login.error.outcome == NOT_SENT
    assert "had ended more than a minute before it came" in str(login.error)
    assert "clock" in str(login.error)


def test_login_when_the_refresh_brings_one_that_has_ended_then_the_good_one_stays(clock):
    source = ScriptedSource(clock, of_life(clock, HOUR_MS), Pass("old", clock.timestamp_ms() - 1))
    login = stepped_login(source, clock)
    run_until(login, clock, int(0.81 * HOUR_MS))
    assert len(source.fetched_at_ms) >= 2
    assert login.new_client("broker").credential.value == "first"
    assert type(login.error) is TransportError


def test_login_when_the_next_credential_comes_late_then_what_waits_is_not_refused(clock):
    """A token file is written by somebody else. It had the old token half a second too long, and that counted as a
    refusal: all records that waited failed at once.
    """
    old = of_life(clock, 10_000)
    login = stepped_login(ScriptedSource(clock, old), clock)
    run_until(login, clock, 10_500)
    assert not login.is_ready
    assert type(login.error) is TransportError
    login._fetch = lambda: of_life(clock, HOUR_MS, "second")
    run_until(login, clock, 10_000)
    assert login.new_client("broker").credential.value == "second"


def test_error_when_an_ended_credential_is_handed_out_for_hours_then_its_words_change_seldom(clock):
    """Whoever wants to connect writes a line into the log for each new text, and it had the seconds in it."""
    login = stepped_login(ScriptedSource(clock, of_life(clock, -1)), clock)
    texts = set()
    for _ in range(100):
        run_until(login, clock, 2 * MINUTE_MS)
        texts.add(str(login.error))
    assert len(texts) <= 3


def test_login_when_the_credential_ends_and_none_follows_then_it_is_not_ready_and_says_why(clock):
    source = ScriptedSource(clock, of_life(clock, HOUR_MS), unavailable("the issuer is away"))
    login = stepped_login(source, clock)
    run_until(login, clock, HOUR_MS)
    assert not login.is_ready
    with pytest.raises(TransportError, match="the issuer is away"):
        login.new_client("broker")


@pytest.mark.parametrize("raised", [ValueError("no idea"), SystemExit(3), KeyboardInterrupt(), GeneratorExit()])
def test_login_when_the_source_raises_whatever_then_it_is_a_passing_failure_with_the_cause(clock, raised):
    login = stepped_login(ScriptedSource(clock, raised, lambda: of_life(clock, HOUR_MS)), clock)
    login.run_once()
    assert isinstance(login.error, TransportError)
    assert type(raised).__name__ in str(login.error)
    assert login.error.__cause__ is raised
    run_until(login, clock, 200)
    assert login.is_ready


@pytest.mark.parametrize("ends_ms", [float("nan"), float("inf"), 10**400])
def test_login_when_no_arithmetic_takes_the_end_then_it_is_a_passing_failure_and_the_thread_lives(clock, ends_ms):
    """It ended the thread: nothing was sent any more, and nobody was told why."""
    login = stepped_login(ScriptedSource(clock, Pass("first", ends_ms), lambda: of_life(clock, HOUR_MS)), clock)
    login.run_once()
    assert isinstance(login.error, TransportError)
    assert not login.is_ready
    run_until(login, clock, 200)
    assert login.is_ready


def test_login_when_the_first_fetch_takes_its_time_then_it_says_so_after_a_while_and_in_the_same_words(clock):
    """Each look at it would be a line in the log, if the words changed."""
    seen: list[Exception | None] = []

    def look_and_wait() -> Pass:
        for _ in range(3):
            seen.append(login.error)
            clock.advance(1_500)
        return of_life(clock, HOUR_MS)

    login: RefreshingLogin[Any] = stepped_login(ScriptedSource(clock, look_and_wait), clock)
    assert not login.is_ready
    assert login.error is None
    login.run_once()
    assert seen[0] is None
    assert "there is no answer yet" in str(seen[2])
    assert login.error is None
    with pytest.raises(TransportError, match="no answer yet"):
        stepped_login(ScriptedSource(clock, Pass("x")), clock).new_client("broker")


def test_login_when_the_machine_slept_past_the_end_then_it_says_so_until_the_next_look(clock):
    login = stepped_login(numbered_source(clock), clock)
    login.run_once()
    clock.suspend(2 * HOUR_MS)
    assert "has ended, and the next one is not there yet" in str(login.error)
    login.run_once()
    assert login.error is None


def test_login_when_something_changes_then_who_waits_is_told_and_an_error_there_changes_nothing(clock, caplog):
    source = ScriptedSource(clock, unavailable("away"), lambda: of_life(clock, HOUR_MS))
    login: RefreshingLogin[Any] = login_of(source, clock)
    told: list[bool] = []

    def on_change() -> None:
        told.append(login.is_ready)
        raise RuntimeError("the sender is gone")

    login.start(on_change)
    run_until(login, clock, 200)
    assert told == [False, True]
    assert "could not be told" in caplog.text


def test_log_when_the_same_failure_comes_again_then_it_is_written_once_while_the_old_one_lasts(clock, caplog):
    with caplog.at_level(logging.WARNING):
        run_until(stepped_login(ScriptedSource(clock, of_life(clock, HOUR_MS), unavailable("away")), clock), clock,
                  2 * HOUR_MS)
    assert len(caplog.records) == 1
    assert "away; next try in" in caplog.text
    assert "what was fetched before is still good" in caplog.text


# Secrets --------------------------------------------------------------------------------------------------------------

def test_error_when_a_source_of_ours_fails_then_no_frame_goes_with_it(clock):
    def fail() -> Pass:
        secret = "hunter2"
        try:
            raise ValueError(secret)
        except ValueError:
            raise AuthenticationError("refused") from None

    login = stepped_login(ScriptedSource(clock, fail), clock)
    login.run_once()
    assert login.error.__traceback__ is None
    assert login.error.__context__ is None
    assert login.error is not None
    told = traceback.TracebackException.from_exception(login.error, capture_locals=True)
    assert "hunter2" not in "".join(told.format())


def test_error_when_the_text_of_a_foreign_one_has_a_secret_then_it_is_hidden(clock):
    failure = ValueError("GET https://ada:hunter2@issuer failed\nsecret=hunter2")
    login = stepped_login(ScriptedSource(clock, failure), clock)
    login.run_once()
    assert "hunter2" not in str(login.error)
    assert "\n" not in str(login.error)


# Ends -----------------------------------------------------------------------------------------------------------------

def test_close_when_a_fetch_is_under_way_then_what_it_brings_is_dropped_and_nobody_is_told(clock):
    told: list[None] = []
    source: ScriptedSource = ScriptedSource(clock, lambda: login.close() or of_life(clock, HOUR_MS))
    login: RefreshingLogin[Any] = login_of(source, clock)
    login.start(lambda: told.append(None))
    login.run_once()
    assert not login.is_ready
    assert "closed" in str(login.error)
    assert told == []
    login.close()
    assert source.closed_count == 1


def test_start_when_no_thread_can_be_had_then_it_says_so_and_may_be_called_again(clock):
    """It was never tried again: all records failed for as long as the producer lived."""
    tried: list[int] = []

    def start_thread(run: object, name: str) -> None:
        tried.append(clock.now_ms())
        if len(tried) < 3:
            raise RuntimeError("can't start new thread")

    login: RefreshingLogin[Any] = login_of(ScriptedSource(clock, Pass("x")), clock, start_thread)
    begun_ms = clock.now_ms()
    assert not login.start(lambda: None)
    assert type(login.error) is TransportError, "it may pass"
    assert "new thread" in str(login.error)
    while not login.start(lambda: None):
        clock.advance(10)
    assert [at_ms - begun_ms for at_ms in tried] == [0, 100, 300]
    login.run_once()
    assert login.is_ready
    assert login.error is None


# For a host -----------------------------------------------------------------------------------------------------------

class Maker:
    """Makes clients, of which a test asks who was made; raises what stands under a host."""

    def __init__(self) -> None:
        self.made: list[tuple[str, str]] = []
        self.failures: dict[str, BaseException] = {}

    def __call__(self, credential: Any, host: str) -> Client:
        self.made.append((credential.value, host))
        if host in self.failures:
            raise self.failures[host]
        return Client(credential, host)


def preparing_login(clock: ManualClock, source: Any, maker: Maker, told: list[None]) -> RefreshingLogin[Any]:
    login: RefreshingLogin[Any] = RefreshingLogin("TEST", source.fetch, maker, "the ticket", prepares=True,
                                                  clock=clock, start_thread=NoThread(), uniform=least)
    login.start(lambda: told.append(None))
    return login


def test_client_when_to_make_it_takes_time_then_the_thread_makes_it_and_tells(clock):
    """The sender waited for the KDC, and with it every record to every other broker."""
    maker, told = Maker(), []
    login = preparing_login(clock, numbered_source(clock), maker, told)
    assert not login.is_ready_for("a"), "there is no ticket yet"
    login.run_once()
    assert login.is_ready
    told.clear()
    assert [login.is_ready_for(host) for host in ("a", "b", "a")] == [False, False, False]
    assert maker.made == [], "not where it is asked for"
    login.run_once()
    assert maker.made == [("number 1", "a"), ("number 1", "b")]
    assert len(told) == 2
    assert login.is_ready_for("a")
    client = login.new_client("a")
    assert (client.host, client.credential.value) == ("a", "number 1")
    assert not login.is_ready_for("a"), "each is for one authentication"
    assert login.is_ready_for("b")


def test_client_when_it_is_not_made_yet_or_is_old_or_of_an_old_ticket_then_it_may_pass_and_is_made(clock):
    maker = Maker()
    source = numbered_source(clock)
    login = preparing_login(clock, source, maker, [])
    login.run_once()
    with pytest.raises(TransportError, match="not made yet") as caught:
        login.new_client("a")
    assert type(caught.value) is TransportError
    assert (caught.value.retriable, caught.value.outcome) == (True, NOT_SENT)
    login.run_once()
    assert login.is_ready_for("a")
    clock.advance(PREPARED_LIFE_MS)
    assert not login.is_ready_for("a")
    login.run_once()
    assert login.is_ready_for("a")
    while len(source.fetched_at_ms) == 1:
        clock.advance(login.run_once())
    assert not login.is_ready_for("a")
    login.run_once()
    assert login.new_client("a").credential.value == "number 2"


def test_client_when_it_was_made_just_before_the_ticket_was_renewed_then_another_one_is_made(clock):
    source = numbered_source(clock)
    login = preparing_login(clock, source, Maker(), [])
    login.run_once()
    clock.advance(login._due_in_ms() - 1)
    assert not login.is_ready_for("a")
    assert login.run_once() == 1
    assert login.is_ready_for("a")
    clock.advance(1)
    login.run_once()
    assert len(source.fetched_at_ms) == 2
    assert not login.is_ready_for("a")
    login.run_once()
    assert login.new_client("a").credential.value == "number 2"


@pytest.mark.parametrize(("raised", "kind"), [
    (AuthenticationError("not known to the KDC"), AuthenticationError), (unavailable("no KDC"), TransportError),
    (ValueError("whatever"), TransportError), (SystemExit(1), TransportError)])
def test_client_when_it_cannot_be_made_then_whoever_connects_to_that_host_is_told(clock, raised, kind):
    maker = Maker()
    maker.failures["a"] = raised
    login = preparing_login(clock, numbered_source(clock), maker, [])
    login.run_once()
    assert not login.is_ready_for("a")
    assert not login.is_ready_for("b")
    login.run_once()
    assert login.is_ready_for("b")
    assert login.is_ready_for("a"), "a connection is made, to be told"
    with pytest.raises(kind, match=str(raised)) as caught:
        login.new_client("a")
    assert type(caught.value) is kind
    maker.failures.clear()
    assert not login.is_ready_for("a"), "and then it is tried again"
    login.run_once()
    assert login.new_client("a").host == "a"


def test_client_when_the_login_is_closed_meanwhile_then_nothing_is_kept(clock):
    def make(credential: Any, host: str) -> Client:
        login.close()
        return Client(credential, host)

    login: RefreshingLogin[Any] = RefreshingLogin("TEST", numbered_source(clock).fetch, make, "the ticket",
                                                  prepares=True, clock=clock, start_thread=NoThread(), uniform=least)
    login.start(lambda: None)
    login.run_once()
    login.is_ready_for("a")
    login.run_once()
    assert not login.is_ready_for("a")
    assert login._prepared == {}


def test_thread_when_somebody_wants_a_client_then_it_does_not_sleep_on(clock):
    """Asleep, it looks only where it is rung: for the first credentials, for each client, and for the end."""
    changed = threading.Event()

    class Asleep(SystemClock):
        def wait(self, cell: Cell, timeout_s: float | None) -> bool:
            return super().wait(cell, None)

    login: RefreshingLogin[Any] = RefreshingLogin("TEST", lambda: Pass("first"), Client, "the ticket", prepares=True,
                                                  clock=Asleep())
    with contextlib.closing(login):
        login.start(changed.set)
        for host in ("a", "b", "a"):
            while not login.is_ready_for(host):
                assert changed.wait(GIVE_UP_S)
                changed.clear()
            assert login.new_client(host).host == host


def test_client_when_the_token_ends_in_this_moment_then_it_is_no_refusal_and_the_thread_looks(clock):
    """Between the look and the connection lies the TLS handshake; who came too late failed all records that waited."""
    source = ScriptedSource(clock, of_life(clock, HOUR_MS))
    login = stepped_login(source, clock)
    login.run_once()
    assert login.is_ready
    cell = login._waiters.enter()
    clock.suspend(HOUR_MS)
    with pytest.raises(TransportError, match="has ended, and the next one is not there yet") as caught:
        login.new_client("broker")
    assert type(caught.value) is TransportError
    assert (caught.value.retriable, caught.value.outcome) == (True, NOT_SENT)
    assert cell.acquire(blocking=False), "the thread is rung"


def test_thread_when_the_login_lives_then_it_fetches_and_ends_with_close():
    fetched, begun, ended = threading.Event(), threading.Event(), threading.Event()

    def fetch() -> Pass:
        begun.set()
        return Pass("first")

    class Asleep(SystemClock):
        """Sleeps until somebody opens the cell, however long that takes."""

        def wait(self, cell: Cell, timeout_s: float | None) -> bool:
            return super().wait(cell, None)

    login: RefreshingLogin[Any] = RefreshingLogin("TEST", fetch, Client, "the token", close=ended.set,
                                                  clock=Asleep())
    login.start(fetched.set)
    assert fetched.wait(GIVE_UP_S)
    assert login.is_ready
    assert [thread.daemon for thread in threading.enumerate() if thread.name == "kafka-producer-login | TEST"] == [True]
    login.close()  # and the thread ends: the fixture of all tests looks
    assert ended.is_set()
    assert not login.is_ready


def test_thread_when_a_fetch_hangs_then_close_does_not_wait_for_it():
    hanging, let_go = threading.Event(), threading.Event()

    def fetch() -> Pass:
        hanging.set()
        let_go.wait(GIVE_UP_S)
        return Pass("late")

    login: RefreshingLogin[Any] = RefreshingLogin("TEST", fetch, Client, "the token")
    login.start(lambda: None)
    assert hanging.wait(GIVE_UP_S)
    assert not login.is_ready
    login.close()
    assert not let_go.is_set()
    let_go.set()
