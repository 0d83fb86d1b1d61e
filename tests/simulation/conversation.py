"""One connection as its client saw it: how far it came, what is not answered on it, and how it ended.

    TCP -> (login) -> ApiVersions -> requests

From that follows what a person must be told when it ends: the phase, and what is known of the cause. What the client
says in its log is compared with it; see log_watch.py.

Source:  ours.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from pyproducer.common.errors import InvalidReceiveError
from pyproducer.network.channel import ChannelPhase, ChannelState
from pyproducer.protocol.apis import ApiKeys
from tests.simulation.ledger import Handed
from tests.simulation.model_sasl import MECHANISMS

DNS, CONNECT, LOGIN, VERSIONS, METADATA, REQUEST = (
    "DNS", "connect", "authentication", "version negotiation", "metadata", "request")

_UNSUPPORTED_MECHANISM = 33
_TICKS_MS = 500
_NOT_BY_PEER = ("the peer closed",)


class Explanation(NamedTuple):
    """What must be said of an end.

    Attributes:
        phases: One of these comes first.
        words: All of these are in it.
        is_owed: Whether it must be said, the first time that an address ends so.
        waited_ms: For how long the client had waited in vain; None where it had not.
        no_words: None of these is in it: the peer did not end it.
        is_late: Whether an answer had not come within request.timeout.ms, or perhaps.
    """

    phases: tuple[str, ...]
    words: tuple[str, ...] = ()
    is_owed: bool = True
    waited_ms: int | None = None
    no_words: tuple[str, ...] = ()
    is_late: bool = False


class Asked(NamedTuple):
    """A request that will be answered.

    Attributes:
        api_key: Of what.
        version: In which version.
        sent_ms: When.
        frozen_ms: For how long the process had stood still by then.
        written: How many requests that get no answer were written before.
    """

    api_key: ApiKeys
    version: int
    sent_ms: int
    frozen_ms: int
    written: int


class Conversation:
    """What is known of one connection.

    Args:
        address: Where to.
        now_ms: When it was begun.
        has_login: Whether a proof of who we are comes before the first request.
    """

    __slots__ = ("address", "began_ms", "confirmed", "has_answered", "has_login", "has_versions", "is_garbled", "is_up",
                 "proving_ms", "sensible", "unanswered", "version_code", "wants_login", "written")

    def __init__(self, address: str, now_ms: int, *, has_login: bool) -> None:
        self.address = address
        self.began_ms = now_ms
        self.has_login = has_login
        self.is_up = False
        self.has_versions = False  # the answer to ApiVersions was read
        self.has_answered = False  # any other answer was
        self.is_garbled = False    # an answer makes no sense
        self.wants_login = False   # it said so
        self.proving_ms: int | None = None  # when a proof was begun to be given anew
        self.version_code = 0      # of the answer to ApiVersions
        self.unanswered: deque[Asked] = deque()
        # With acks=0: what was written, and how much of that was before something that was answered.
        self.written: list[Handed] = []
        self.confirmed = 0
        self.sensible = 0  # the same, without answers from the first on that makes no sense

    @property
    def unanswered_but_markers(self) -> list[Asked]:
        """What waits for its answer and has a deadline, and a slot.

        Asked again for the versions a broker tells how far it is with what gets no answer: that has neither.
        """
        return [asked for asked in self.unanswered
                if not self.has_versions or asked.api_key is not ApiKeys.API_VERSIONS]

    @property
    def gone(self) -> list[Handed]:
        """With acks=0: what was written, and nobody showed that it was reached."""
        return [handed for handed in self.written[self.confirmed:] if handed.is_whole]

    @property
    def perhaps_gone(self) -> list[Handed]:
        """The same, where no answer counts that makes no sense."""
        return [handed for handed in self.written[self.sensible:] if handed.is_whole]

    def on_answer(self, payload: bytes) -> Asked | None:
        """The next answer was read; return to what."""
        if not self.unanswered:
            return None
        answered = self.unanswered.popleft()
        self.confirmed = max(self.confirmed, answered.written)
        if not self.is_garbled:
            self.sensible = self.confirmed
        if answered.api_key is ApiKeys.SASL_HANDSHAKE:  # asked without a login, what the listener wants
            self.wants_login = int.from_bytes(payload[4:6], "big") == _UNSUPPORTED_MECHANISM
            return answered
        if answered.api_key is ApiKeys.API_VERSIONS and not self.has_versions:  # else it asks how far the broker is
            self.version_code = int.from_bytes(payload[4:6], "big", signed=True)
            self.has_versions = not self.version_code
        else:
            self.has_answered = True
        return answered

    def ended_by_peer(self, end: ChannelState, spoke: str) -> Explanation | None:
        """Return what must be said where the peer ended it, or the network did; None where that is nobody's concern.

        Args:
            end: As the selector saw it.
            spoke: What the peer speaks that is not Kafka's protocol, where it can be known.
        """
        if spoke:
            return Explanation((LOGIN if self.has_login else VERSIONS,), (spoke,))
        words = (end.error.strerror,) if isinstance(end.error, OSError) and end.error.strerror else ()
        if end.phase is ChannelPhase.EXPIRED:
            return None
        if isinstance(end.error, InvalidReceiveError):
            return Explanation((LOGIN if self.has_login and not self.has_versions else VERSIONS,), ("Invalid receive",))
        if end.phase is ChannelPhase.NOT_CONNECTED:
            return Explanation((CONNECT,), words)
        if end.phase in (ChannelPhase.AUTHENTICATING, ChannelPhase.AUTHENTICATION_FAILED):
            is_refused = end.phase is ChannelPhase.AUTHENTICATION_FAILED
            says_versions = "ApiVersions" in str(end.error)
            return Explanation((LOGIN,), (("ApiVersions",) if says_versions else ("simulated",)) if is_refused else ())
        if not self.has_versions:
            if self.version_code and not self.unanswered:  # it hung up behind its refusal
                return Explanation((VERSIONS, LOGIN), is_owed=False)
            return Explanation((VERSIONS,), ("ApiVersions",) if self.unanswered else ())
        if self._asks_what_is_wanted():
            return Explanation((VERSIONS, REQUEST), is_owed=False)
        under_way = tuple(api_key.name for api_key, *_ in self.unanswered)
        if not self.has_answered and ApiKeys.METADATA.name in under_way:
            return Explanation((METADATA,))
        return Explanation((REQUEST,), (*words, *under_way), is_owed=bool(under_way))  # else idle, or acks=0

    def _asks_what_is_wanted(self) -> bool:
        """Whether nothing was asked but what login the listener wants, if any."""
        return any(api_key is ApiKeys.SASL_HANDSHAKE for api_key, *_ in self.unanswered)

    def ended_by_client(self, now_ms: int, request_timeout_ms: int, frozen_ms: int) -> Explanation:
        """Return what must be said where the client ended it for what the peer did, or did not.

        Args:
            now_ms: When.
            request_timeout_ms: request.timeout.ms.
            frozen_ms: How long the process has stood still so far: nobody waits meanwhile.
        """
        if not self.is_up:
            return Explanation((CONNECT,), (self.address, "socket.connection.setup.timeout.ms"), is_owed=False,
                               waited_ms=now_ms - self.began_ms)
        if self.proving_ms is not None and not self.unanswered:
            return Explanation((LOGIN, REQUEST), is_owed=False, waited_ms=now_ms - self.proving_ms)
        if self.wants_login and not self.is_garbled:
            return Explanation((LOGIN,), ("SASL", *MECHANISMS))
        waiting = self.unanswered_but_markers
        # What gets no answer waits until it is written.
        since_ms = [*(asked.sent_ms for asked in waiting),
                    *(handed.now_ms for handed in self.written if not handed.is_whole)]
        waited_ms = now_ms - min(since_ms) if since_ms else None
        is_sure = any(now_ms - asked.sent_ms - (frozen_ms - asked.frozen_ms) > request_timeout_ms for asked in waiting)
        if self.is_garbled:
            # Nobody knows which of its answers the client took for one.
            return Explanation((VERSIONS, REQUEST, LOGIN), is_owed=False, waited_ms=waited_ms, no_words=_NOT_BY_PEER,
                               is_late=True)
        # The client looked at its clock before it handed the request over, long before perhaps.
        is_late = waited_ms is not None and waited_ms > request_timeout_ms - _TICKS_MS
        if not self.has_versions:
            if self.version_code and not self.unanswered:
                return Explanation((VERSIONS,), (f"({self.version_code})",))
            if self.unanswered:
                return Explanation((VERSIONS,), ("ApiVersions",), is_owed=is_sure, waited_ms=waited_ms, is_late=is_late)
            return Explanation((LOGIN,), is_owed=False, waited_ms=now_ms - self.began_ms)
        if self._asks_what_is_wanted():
            return Explanation((VERSIONS, REQUEST), is_owed=False, waited_ms=waited_ms, is_late=is_late)
        under_way = tuple(api_key.name for api_key, *_ in self.unanswered)
        if is_late:
            words = (*under_way, "request.timeout.ms") if is_sure else under_way
            return Explanation((REQUEST,), words, is_owed=is_sure, waited_ms=waited_ms, no_words=_NOT_BY_PEER,
                               is_late=True)
        # What asks how far the broker is has no deadline but request.timeout.ms behind the end of a session.
        longest_ms = max((now_ms - asked.sent_ms for asked in self.unanswered), default=None)
        return Explanation((REQUEST, LOGIN), under_way, is_owed=False, waited_ms=longest_ms if self.has_login else None,
                           no_words=_NOT_BY_PEER)
