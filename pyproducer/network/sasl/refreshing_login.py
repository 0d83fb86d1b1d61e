"""A login whose credentials end: fetched on a thread of its own, and anew before they end.

    sender thread   start() .. is_ready? no: connections wait ... yes: new_client(host) ............. the new ones
    login thread        fetch() ........ failed: backoff, fetch() .. sleep to 80 % of their life, fetch() .........

Where the half of an authentication takes time, too, as a ticket for that broker does, the thread makes it ahead:

    sender thread   is_ready_for(host)? no: the connection waits ............. yes: new_client(host) takes it
    login thread                        make_client(host), told by on_change

Road:    fetch() of credentials -> [RefreshingLogin] -> client authenticator, by the Login of mechanism.py
Thread:  `run_once` and `fetch` are the login thread's, a daemon that nobody waits for; what it and the sender write
         for each other is one field, and entries of dicts, each in a single step. So there is no lock that a forked
         child could find taken. There the thread is missing, and the producer made anew has a login of its own. The
         rest is any thread's, and never waits.
Source:  Java ExpiringCredentialRefreshingLogin, ExpiringCredentialRefreshConfig (4.1), KIP-255, KIP-368. Differs from
         Java: the first fetch is on the thread, too, not in the constructor; tries after a failure come by
         sasl.login.retry.backoff.ms, not every 10 s; a source that has nothing newer is not asked more often than that.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from pyproducer.common.backoff import ExponentialBackoff
from pyproducer.common.clock import Clock, SystemClock
from pyproducer.common.errors import AuthenticationError, KafkaError
from pyproducer.common.printable import printable
from pyproducer.common.secrets import shown_text
from pyproducer.common.sender_log import SenderLog, sender_log
from pyproducer.common.threads import StartThread, start_daemon
from pyproducer.common.waiting import Waiters
from pyproducer.network.sasl.mechanism import SaslClient, unavailable

log: SenderLog = sender_log(__name__)

# The wall's clock may jump and the machine may sleep, so the thread looks at it so often; it costs some 20 us.
LONGEST_SLEEP_MS = 5_000
# A first fetch that takes longer is told as the reason why nothing is sent; shorter ones are how each producer begins.
PATIENCE_MS = 2_000
# Who is refused gains nothing by asking often, and issuers lock such clients out; but a secret may be put right.
FIRST_WAIT_AFTER_REFUSAL_MS = 1_000
# What was made for a connection that then was not made is made anew: Kerberos' tokens say when they were made, and
# brokers take them for five minutes.
PREPARED_LIFE_MS = 60_000
# Where a source does not say when its credentials end. Those that exist live for 15 minutes or more.
UNKNOWN_LIFE_MS = 300_000
_SPANS = ((86_400_000, "a day"), (3_600_000, "an hour"), (60_000, "a minute"))


class Credential(Protocol):
    """What proves to a broker who we are, for some time. Its repr must hide what is secret."""

    @property
    def started_at_ms(self) -> int | None:
        """When its life began, in ms since 1970; None for the time of the fetch."""

    @property
    def expires_at_ms(self) -> int | None:
        """When it ends, in ms since 1970; None where that is not known: it is good, and fetched anew all the same."""


CredentialT = TypeVar("CredentialT", bound=Credential)


def without_our_frames(cause: BaseException) -> BaseException:
    """Return an exception of the application's code with its own frames alone: ours may hold a secret in a local."""
    foreign = cause.__traceback__
    while foreign is not None and str(foreign.tb_frame.f_globals.get("__name__")).startswith("pyproducer."):
        foreign = foreign.tb_next
    return cause.with_traceback(foreign)


@dataclass(frozen=True)
class RefreshTimes:
    """When credentials are fetched anew; Java's sasl.login.refresh.* and sasl.kerberos.ticket.renew.*.

    Attributes:
        window_factor: At this part of their life.
        window_jitter: And up to this part of it later, drawn.
        min_period_ms: Not sooner after the last fetch.
        buffer_ms: Not later than so long before they end.
    """

    window_factor: float = 0.8
    window_jitter: float = 0.05
    min_period_ms: int = 60_000
    buffer_ms: int = 300_000

    @classmethod
    def of(cls, settings: Mapping[str, Any]) -> RefreshTimes:
        """Return those of Java's sasl.login.refresh.*, parsed and each with a value."""
        refresh = "sasl.login.refresh."
        return cls(settings[refresh + "window.factor"], settings[refresh + "window.jitter"],
                   settings[refresh + "min.period.seconds"] * 1000, settings[refresh + "buffer.seconds"] * 1000)

    def refresh_at_ms(self, credential: Credential, now_ms: int, uniform: Callable[[float, float], float]) -> int:
        """Return when to fetch anew, in ms since 1970.

        Period and buffer are ignored where less than both is left of the life, as in Java.

        Args:
            credential: What was fetched.
            now_ms: When, in ms since 1970.
            uniform: Draws, from a lowest to a highest.

        Source: Java ExpiringCredentialRefreshingLogin.refreshMs (4.1).
        """
        ends_ms = credential.expires_at_ms
        part = self.window_factor + uniform(0.0, self.window_jitter)
        if ends_ms is None:
            return now_ms + int(UNKNOWN_LIFE_MS * part)
        if now_ms + self.min_period_ms + self.buffer_ms > ends_ms:
            return now_ms + int((ends_ms - now_ms) * part)
        begins_ms = now_ms if credential.started_at_ms is None else credential.started_at_ms
        proposed_ms = begins_ms + int((ends_ms - begins_ms) * part)
        return max(min(proposed_ms, ends_ms - self.buffer_ms), now_ms + self.min_period_ms)


@dataclass(frozen=True, repr=False)
class _State(Generic[CredentialT]):
    """What the thread tells the others, never changed. Its repr shows nothing."""

    credential: CredentialT | None
    error: KafkaError | None


@dataclass(frozen=True, repr=False)
class _Prepared:
    """The half of an authentication for a host, or why there is none; of which credentials, and since when."""

    made: SaslClient | KafkaError
    credential: object
    made_ms: int


class RefreshingLogin(Generic[CredentialT]):
    """The `Login` of mechanism.py for credentials that end.

    Args:
        mechanism: Which they are for.
        fetch: Returns fresh ones; called on the thread, and may block. An AuthenticationError of it says that they are
            refused, or make no sense: who asks again at once is refused again. Anything else that it raises may pass:
            it is tried again soon. No text may hold a secret.
        make_client: Makes the client's half of an authentication of them, for a host.
        prepares: That takes time, and may fail as `fetch` does: it is called on the thread, ahead, for each host that
            is asked for.
        what: What they are, for messages: "the token from https://...".
        close: Breaks off a fetch that is under way, from any thread; None where that is left to its timeouts.
        times: When they are fetched anew.
        retry_backoff_ms: The first wait after a failure, in ms; doubles with each.
        retry_backoff_max_ms: Its ceiling; also of the waits after refusals, which begin with a second.
        clock: Tells the time; where the thread sleeps.
        start_thread: Starts the thread.
        uniform: Draws jitter.
    """

    def __init__(self, mechanism: str, fetch: Callable[[], CredentialT],
                 make_client: Callable[[CredentialT, str], SaslClient], what: str, *, prepares: bool = False,
                 close: Callable[[], None] | None = None, times: RefreshTimes = RefreshTimes(),
                 retry_backoff_ms: int = 100, retry_backoff_max_ms: int = 10_000, clock: Clock | None = None,
                 start_thread: StartThread = start_daemon,
                 uniform: Callable[[float, float], float] = random.uniform) -> None:
        self.mechanism = mechanism
        self._fetch = fetch
        self._close = close
        self._make_client = make_client
        self._prepares = prepares
        self._what = what
        self._times = times
        self._backoff = ExponentialBackoff(retry_backoff_ms, retry_backoff_max_ms, uniform=uniform)
        self._refusal_backoff = ExponentialBackoff(
            max(retry_backoff_ms, FIRST_WAIT_AFTER_REFUSAL_MS), retry_backoff_max_ms, uniform=uniform)
        self._least_wait_ms = max(retry_backoff_ms, 1)
        self._clock = clock or SystemClock()
        self._start_thread = start_thread
        self._uniform = uniform
        self._waiters = Waiters()
        self._on_change: Callable[[], None] = lambda: None
        self._is_closed = False  # written by any thread, once
        # The login thread's, to be read by all: replaced, never changed.
        self._state: _State[CredentialT] = _State(None, None)
        self._fetching_since_ms: int | None = None  # by now_ms
        self._ended = unavailable(f"{what} has ended, and the next one is not there yet")
        self._slow = unavailable(f"{what} was asked for, and there is no answer yet")
        # By host: whoever connects asks and takes, the login's thread makes.
        self._wanted: dict[str, None] = {}
        self._prepared: dict[str, _Prepared] = {}
        # Of whoever starts the thread, until there is one.
        self._start_failures = 0
        self._start_at_ms: int | None = None
        # The login thread's alone.
        self._failures = 0
        self._refusals = 0
        self._retry_at_ms: int | None = None  # by now_ms: a jump of the wall's clock moves no backoff
        self._refresh_at_ms: int | None = None  # by timestamp_ms, as what is fetched says when it ends

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.mechanism}: {self._what}>"

    @property
    def is_ready(self) -> bool:
        """Whether there are credentials that have not ended, by this machine's clock."""
        return self._current() is not None

    @property
    def error(self) -> Exception | None:
        """Why there are none, or why they could not be renewed; None where all is well, or has just begun.

        An AuthenticationError where they were refused; else a TransportError, which may pass.
        """
        state = self._state
        if state.error is not None or self._current() is not None:
            return state.error
        since_ms = self._fetching_since_ms
        if since_ms is None:
            return None if state.credential is None else self._ended
        return self._slow if self._clock.now_ms() - since_ms >= PATIENCE_MS else None

    def start(self, on_change: Callable[[], None]) -> bool:
        """Begin to fetch; `on_change` is called on the login's thread when there is news. See Login."""
        if self._start_at_ms is not None and self._clock.now_ms() < self._start_at_ms:
            return False
        self._on_change = on_change
        try:
            self._start_thread(self._run, f"kafka-producer-login | {self.mechanism}")
        except RuntimeError as cause:
            # As many threads as the process may have, or the interpreter ends. To fetch here would stop the sender.
            backoff_ms = self._backoff.backoff_ms(self._start_failures)
            self._start_at_ms = self._clock.now_ms() + max(backoff_ms, self._least_wait_ms)
            self._start_failures += 1
            self._publish(_State(None, unavailable(f"{self._what} cannot be fetched now: {cause}")))
            return False
        return True

    def is_ready_for(self, host: str) -> bool:
        """Whether there are credentials and, where that takes time, what is made of them for a host; see Login."""
        if self._current() is None:
            return False
        if not self._prepares or self._prepared_for(host) is not None:
            return True
        if host not in self._wanted:
            self._wanted[host] = None
            self._waiters.ring()
        return False

    def new_client(self, host: str) -> SaslClient:
        """Return the client's half of one authentication with the broker of this host name.

        Raises:
            AuthenticationError: It cannot be made for this host. Not sent.
            TransportError: There are no credentials now, it is not made yet, or why it could not be made may pass. Not
                sent.
        """
        credential = self._current()
        if credential is None:
            self._waiters.ring()  # the thread may sleep for seconds before it looks at the clock
            raise unavailable(f"there are no credentials now: {self.error or self._slow}")
        if not self._prepares:
            return self._make_client(credential, host)
        prepared = self._prepared_for(host)
        self._prepared.pop(host, None)
        if prepared is None:
            self.is_ready_for(host)
            raise unavailable(f"{self._what}: what goes to {host} of it is not made yet")
        if isinstance(prepared.made, KafkaError):
            raise prepared.made
        return prepared.made

    def close(self) -> None:
        """End the thread, without waiting for what it fetches; forget the credentials. Does nothing the second time."""
        if self._is_closed:
            return
        self._is_closed = True
        self._forget()
        self._waiters.ring()
        if self._close is not None:
            self._close()

    def run_once(self) -> int:
        """Fetch if it is due, and tell; return how long to sleep, in ms.

        Thread: the login's; of tests, the one that steps it.
        """
        wait_ms = self._due_in_ms()
        if wait_ms > 0:
            self._prepare_wanted()
            return min(max(self._due_in_ms(), 1), LONGEST_SLEEP_MS)
        self._fetching_since_ms = self._clock.now_ms()
        try:
            fetched = self._fetch()
            self._ensure_lasting(fetched)
            # In here, too: an application's token may say of its times what no arithmetic can take.
            refresh_at_ms = self._times.refresh_at_ms(fetched, self._clock.timestamp_ms(), self._uniform)
        except AuthenticationError as refusal:
            self._on_failure(refusal, self._refusal_backoff.backoff_ms(self._refusals))
            self._refusals += 1
        except BaseException as cause:  # what ends a thread, SystemExit of a callback for one, must not end this one
            self._on_failure(self._passing(cause), self._backoff.backoff_ms(self._failures))
            self._failures += 1
        else:
            self._on_success(fetched, refresh_at_ms)
        self._fetching_since_ms = None
        self._tell()
        self._prepare_wanted()
        return min(max(self._due_in_ms(), 1), LONGEST_SLEEP_MS)

    def _prepare_wanted(self) -> None:
        """Make the half of an authentication for each host that was asked for, where there are credentials; tell."""
        for host in list(self._wanted):
            credential = self._current()
            if credential is None:
                return
            made: SaslClient | KafkaError
            try:
                made = self._make_client(credential, host)
            except BaseException as cause:  # as in run_once
                made = self._passing(cause).with_traceback(None)
                made.__context__ = None
            self._prepared[host] = _Prepared(made, credential, self._clock.now_ms())
            self._wanted.pop(host, None)
            if self._is_closed:  # by another thread, meanwhile
                self._forget()
            self._tell()

    def _prepared_for(self, host: str) -> _Prepared | None:
        """Return what was made for a host, of the credentials that there are now, and not long ago."""
        found = self._prepared.get(host)
        is_good = found is not None and found.credential is self._state.credential and (
            self._clock.now_ms() - found.made_ms < PREPARED_LIFE_MS)
        return found if is_good else None

    @property
    def expires_at_ms(self) -> int | None:
        """When the present credentials end, in ms since 1970; None while there are none, or where they do not end."""
        credential = self._state.credential
        return None if credential is None else credential.expires_at_ms

    def _current(self) -> CredentialT | None:
        """Return the credentials that have not ended."""
        credential = self._state.credential
        if credential is None or credential.expires_at_ms is None:
            return credential
        return credential if self._clock.timestamp_ms() < credential.expires_at_ms else None

    def _due_in_ms(self) -> int:
        if self._retry_at_ms is not None:
            return self._retry_at_ms - self._clock.now_ms()
        if self._refresh_at_ms is not None:
            return self._refresh_at_ms - self._clock.timestamp_ms()
        return 0

    def _ensure_lasting(self, credential: CredentialT) -> None:
        """Refuse what has ended when it comes.

        Raises:
            AuthenticationError: It has, and is the first. Not sent.
            TransportError: It has, and others came before it; may pass: the next one comes late. Not sent.
        """
        now_ms, ends_ms = self._clock.timestamp_ms(), credential.expires_at_ms
        if ends_ms is not None and ends_ms <= now_ms:
            # No seconds: each new text is a line in the log.
            since = next((f"more than {name}" for span_ms, name in _SPANS if now_ms - ends_ms >= span_ms),
                         "less than a minute")
            text = (f"{self._what} had ended {since} before it came, by this machine's clock: either that clock is "
                    "fast (compare it with another, and let NTP set it), or an old one is handed out")
            raise AuthenticationError(text) if self._state.credential is None else unavailable(text)

    def _passing(self, cause: BaseException) -> KafkaError:
        """Return what a failure that may pass is told as; a foreign one without our frames, which saw secrets."""
        if isinstance(cause, KafkaError):
            return cause
        text = printable(shown_text(str(cause)))
        error = unavailable(f"{self._what} could not be fetched: {type(cause).__name__}{': ' if text else ''}{text}")
        error.__cause__ = without_our_frames(cause)
        return error

    def _on_success(self, credential: CredentialT, at_ms: int) -> None:
        now_ms = self._clock.timestamp_ms()
        # A source that keeps its credentials hands out the same until they end: not asked at ever shorter intervals.
        self._refresh_at_ms = max(at_ms, now_ms + self._least_wait_ms)
        self._retry_at_ms = None
        self._failures = self._refusals = 0
        self._publish(_State(credential, None))
        log.debug("%s was fetched, and is fetched anew in %.1f s", self._what, (self._refresh_at_ms - now_ms) / 1000)

    def _on_failure(self, error: KafkaError, backoff_ms: int) -> None:
        state = self._state
        self._retry_at_ms = self._clock.now_ms() + max(backoff_ms, self._least_wait_ms)
        error.__context__ = None  # it was raised while another was handled, whose frames are ours, too
        self._publish(_State(state.credential, error.with_traceback(None)))
        if not self._is_closed:
            # Once for each reason: an issuer that is away for a day would fill the log. Where nothing is left, whoever
            # wants to connect tells it.
            is_news = self._current() is not None and str(error) != str(state.error)
            log.log(logging.WARNING if is_news else logging.DEBUG, "%s; next try in %.1f s%s", error, backoff_ms / 1000,
                    "" if self._current() is None else ", what was fetched before is still good")

    def _publish(self, state: _State[CredentialT]) -> None:
        self._state = state
        if self._is_closed:  # by another thread, meanwhile or in between
            self._forget()

    def _forget(self) -> None:
        self._state = _State(None, unavailable("the login is closed"))
        self._wanted.clear()
        self._prepared.clear()

    def _tell(self) -> None:
        if self._is_closed:
            return
        try:
            self._on_change()
        except Exception:
            log.exception("whoever waits for %s could not be told", self._what)

    def _run(self) -> None:
        while True:
            cell = self._waiters.enter()  # before the look: who closes the login or wants a client opens it
            if self._is_closed:
                return
            self._clock.wait(cell, self.run_once() / 1000)
