"""What a well-behaved client keeps to on its connections, whatever goes wrong on them.

    in flight      never more than max.in.flight.requests.per.connection requests that are not answered
    throttled      no request begins while a broker has asked for a pause (KIP-219)
    renewals       who the client is it proves anew only where no answer is on its way (KIP-368)
    reconnects     a node is not connected to again before reconnect.backoff.ms is over
    metadata       asked for not faster than retry.backoff.ms, but for topics that are new to the client
    polls          no end of looks without any time passing and anything being done; at rest no more of them than its
                   sleeps are long
    patience       an answer is awaited until request.timeout.ms, and hardly longer; a connection that is idle until
                   connections.max.idle.ms
    explanations   how a connection ended is told, once for an address and a phase, and in the words of what happened
    names          a connection to an address is made for the name that has it
    use            a connection on which all was answered as it should be is not broken off
    backoff        who is refused a producer id for a moment does not ask again before retry.backoff.ms is over

A broker sees none of that for certain: an answer may be on its way. So the real selector is watched, at the calls of
the client above it.

Source:  ours; Java InFlightRequests, NetworkClient.canSendRequest, ClusterConnectionStates, Metadata.timeToAllowUpdate
         (4.1) are where Java keeps to it.
"""

from __future__ import annotations

import contextlib
import re
from collections import Counter, defaultdict
from collections.abc import Callable
from typing import Any

from pyproducer.common.errors import AuthenticationError, RemoteProtocolError
from pyproducer.network.channel import ChannelPhase
from pyproducer.network.selector import Selector
from pyproducer.network.send import NetworkSend
from pyproducer.protocol.apis import ApiKeys
from pyproducer.protocol.header import parse_response
from tests.simulation.conversation import DNS, Asked, Conversation, Explanation
from tests.simulation.faults import Faults
from tests.simulation.ledger import Handed
from tests.simulation.names import name_of, node_at
from tests.simulation.plan import Parameters
from tests.simulation.schedule import Scheduler, SimThread

# In a row, without time and without anything done, found or asked for. Some are lawful: between two looks at the clock
# something became due. Who sleeps for a millisecond each time sleeps for nothing.
MOST_IDLE_POLLS = 30
# Of requests that came before their time: a topic that is new to the client does not wait, nor does one of which a
# record waited while metadata forgot it.
MOST_HASTY_REQUESTS = 12
# Backoffs and the time to connect have a jitter of a fifth.
_SHORTEST = 0.8
# What a turn of the sender may be late: ticks, a pause after a bug.
LATE_MS = 3000
# As many ways of bytes at most does what is asked take whose connection is there: metadata first, and all in pieces.
HOPS = 40
_SETUP_MS = 10_000  # socket.connection.setup.timeout.ms
# Broken off though all was well: where all connections are made anew, or names have changed.
_MOST_BROKEN_OFF = 40
_REFUSED_FOR_A_MOMENT = (14, 15, 16)
_WITHIN = re.compile(r"within (\d+) ms")
_TICKS_MS = 500  # between two looks at the clock that could be one
_LONGEST_SLEEP_MS = 60_000
MARKER_INTERVAL_MS = 1000
_POLLS_OF_A_REQUEST = 10
_NARROW_BYTES = 1000  # below that a request, or an answer, comes in pieces


class Manners:
    """Watches all connections of a producer.

    Args:
        scheduler: Time.
        faults: Tells whether any broker asks for pauses.
        parameters: What was drawn.

        checks: Is told how much each check judged.
        talking: Is told which client's connections a thread sees to.

    Attributes:
        complaints: What the client did.
        left_to_do: Counts batches and waiting records.
        has_found: Whether the last poll was ended by a socket, or by who rang; its poller writes it.
        conversations: Those that have not ended, by connection.
        gone: Produce requests with acks=0 that were written, and whose connection ended before it was known how far the
            broker was.
        perhaps_gone: The same, where an answer that makes no sense tells nothing.
        poll_count: How many polls there were.
        sent_count: How many requests, connections that were begun, and ends of these.
        failed_lookups: By name what the resolver said of it, in words.
        is_starting_over: Says whether all connections are closed for want of metadata (KIP-899).
        error_of: Says why a node is not connected, as the client has it.
        producer: Whose they are, as soon as it is made.
        lookup_ms: When a name was asked for last.
        lookups: How many are under way.
        looked_up_ms: When the last one ended.
        refused_id_ms: When the client was last refused a producer id for a moment, and has not asked since.
        broken_off: How many connections it ended on which nothing was wrong.
    """

    def __init__(self, scheduler: Scheduler, faults: Faults, parameters: Parameters, checks: Counter[str],
                 talking: dict[SimThread, Manners]) -> None:
        self.complaints: list[str] = []
        self.gone: list[Handed] = []
        self.perhaps_gone: list[Handed] = []
        self.poll_count = 0
        self.sent_count = 0
        self.failed_lookups: defaultdict[str, set[str]] = defaultdict(set)
        self.lookup_ms: dict[str, int] = {}
        self.lookups = 0
        self.looked_up_ms = 0
        self.checks = checks
        self._talking = talking
        self.conversations: dict[str, Conversation] = {}  # those that have not ended
        self.is_starting_over: Callable[[], bool] = bool
        self.error_of: Callable[[int], Exception | None] = lambda _node_id: None
        self.producer: Any = None
        self._ended: dict[str, tuple[str, Explanation]] = {}  # by connection: by whose name, and what is to be said
        self._spoke_tls: set[str] = set()
        self._explained: set[tuple[str, str]] = set()  # name and phase
        self.has_found = False
        self.left_to_do: Callable[[], int] = int
        self.scheduler = scheduler
        self.faults = faults
        props = parameters.props
        self.request_timeout_ms: int = props["request.timeout.ms"]
        self.max_idle_ms: int = props["connections.max.idle.ms"]
        self.has_login = parameters.listener is not None
        self.most_in_flight: int = props["max.in.flight.requests.per.connection"]
        self.has_acks = props["acks"] != "0"
        self.reconnect_ms = props["reconnect.backoff.ms"] * _SHORTEST
        self.metadata_ms = props["retry.backoff.ms"] * _SHORTEST
        self._is_narrow = parameters.window_bytes < _NARROW_BYTES or parameters.cut_rate > 0
        self.backoff_ms = props["retry.backoff.ms"] * _SHORTEST
        self.refused_id_ms: int | None = None
        self.broken_off = 0
        self._asked_ms = -1_000_000_000
        self._hasty_count = 0
        self._idle_count = 0
        self._idle_since_ms = -1
        self._left_before = 0

    def complain(self, what: str) -> None:
        """Note what a client must not do; the first times are enough."""
        if len(self.complaints) < 20:
            self.complaints.append(f"at {self.scheduler.now_ms / 1000:.3f} s {what}")

    def see_to(self) -> None:
        """The current thread does something with this client's connections."""
        self._talking[self.scheduler.current] = self

    def on_end(self, connection_id: str, conversation: Conversation, explanation: Explanation | None) -> None:
        """A connection ended, and something is to be said of it."""
        self.gone += conversation.gone
        self.perhaps_gone += conversation.perhaps_gone
        if explanation is not None:
            if explanation.words == ("TLS",):
                self._spoke_tls.add(connection_id)
            self._ended[connection_id] = name_of(node_at(conversation.address)), explanation

    def on_explained(self, connection_id: str, host: str, text: str) -> None:
        """The client says in its log why a connection ended, or was not made."""
        name, explanation = self._ended.pop(connection_id, (host, None))
        conversation = self.conversations.get(connection_id)
        if explanation is None and conversation is not None:  # the client is about to end it
            name = name_of(node_at(conversation.address))
            explanation = conversation.ended_by_client(self.scheduler.now_ms, self.request_timeout_ms,
                                                       self.faults.frozen_ms)
        phase = text.split(":", 1)[0]
        self.checks["explanations"] += 1
        self._explained.add((host, phase))
        found = _WITHIN.search(text)
        stated_ms = None if found is None else int(found[1])
        if phase == DNS:
            self._check_name(host, text, stated_ms)
        elif explanation is None or name != host:
            self.complain(f"the client says {text!r} of node {connection_id}, {host}, and no connection to it has "
                          "ended")
        elif phase not in explanation.phases or not all(word in text for word in explanation.words) or any(
                word in text for word in explanation.no_words):
            self.complain(f"the client says {text!r} of node {connection_id}, and that was {explanation}")
        elif stated_ms is not None and not self.faults.tear_count and (  # a torn turn loses what it has read
                (explanation.waited_ms is None and not self.faults.freezes)
                # The process may have stood still between a look at its clock and the bytes.
                or not 0 < stated_ms <= (explanation.waited_ms or 0) + _TICKS_MS + self.faults.called_back_ms + max(
                    (freeze.ms for freeze in self.faults.freezes), default=0)):
            self.complain(f"the client says {text!r} of node {connection_id}, and had waited {explanation.waited_ms} "
                          "ms")

    def _check_name(self, host: str, text: str, stated_ms: int | None) -> None:
        if stated_ms is None:
            is_so = any(word in text for word in self.failed_lookups[host])
        else:
            waited_ms = self.scheduler.now_ms - self.lookup_ms.get(host, self.scheduler.now_ms)
            is_so = waited_ms + _TICKS_MS + self.faults.frozen_ms >= stated_ms
        if not is_so:
            self.complain(f"the client says {text!r} of {host}, and the resolver {self.failed_lookups[host]}")

    def settle(self) -> None:
        """The next poll begins: by now all was said of the one before."""
        for connection_id in self._spoke_tls:
            self.checks["TLS"] += 1
            error = self.error_of(int(connection_id))
            if error is not None and not isinstance(error, AuthenticationError):  # None: it is connected to again
                self.complain(f"node {connection_id} spoke TLS, and for the client that is {error!r}")
        self._spoke_tls.clear()
        for connection_id, (name, explanation) in self._ended.items():
            if explanation.is_owed and not any((name, phase) in self._explained for phase in explanation.phases):
                self.complain(f"the connection to node {connection_id} ended, and the client did not say {explanation}")
        self._ended.clear()

    def begin_anew(self) -> None:
        """All connections are made anew: of those before nothing is told."""
        self._ended.clear()
        self._spoke_tls.clear()
        self.conversations = {}
        self.refused_id_ms = None

    def _look_for_markers(self) -> None:
        """With acks=0 a broker is asked how far it is, soon after something was written; in other answers it says so.

        It may have wanted a pause.
        """
        if self.faults.throttled_ms:
            return
        for node, conversation in self.conversations.items():
            waiting = conversation.written[conversation.confirmed:]
            if waiting and not conversation.unanswered:
                self.checks["markers"] += 1
                if self.scheduler.now_ms - waiting[0].now_ms > MARKER_INTERVAL_MS + LATE_MS + self.faults.frozen_ms:
                    self.complain(f"node {node} is not asked how far it is with what was written at "
                                  f"{waiting[0].now_ms}")

    def check_rest(self, since: tuple[int, int, int]) -> None:
        """Compare the polls since a `now()` with what there was to do: hardly anything."""
        ms, polls, sent = (now - before for now, before in zip(self.now(), since, strict=True))
        sleep_ms = min(_LONGEST_SLEEP_MS, max(self.request_timeout_ms, 1000) // 8)
        if not self.has_acks:  # what nobody waits for may be on its way still, piece by piece
            sent += self.most_in_flight
        most = 20 + ms // sleep_ms + (3 if self._is_narrow else 1) * _POLLS_OF_A_REQUEST * sent
        if self.faults.fired["lose_connect"]:  # one of these may be waited for still, as Java does it
            most += int(ms // self.reconnect_ms)
        has_looked_up = self.lookups or self.looked_up_ms >= since[0]
        if has_looked_up or not all(conversation.has_versions and conversation.began_ms < since[0]
                                    for conversation in self.conversations.values()):
            return  # while a connection is made, the client looks again and again
        self.checks["rest"] += 1
        if polls > most:
            self.complain(f"at rest the client polled {polls} times in {ms} ms, in which it did {sent} things")

    def now(self) -> tuple[int, int, int]:
        """Return the time, and the numbers of polls and of what was done so far."""
        return self.scheduler.now_ms, self.poll_count, self.sent_count

    def on_metadata(self) -> None:
        """Metadata is asked for."""
        now_ms = self.scheduler.now_ms
        if now_ms - self._asked_ms < self.metadata_ms:
            self._hasty_count += 1
            if self._hasty_count > MOST_HASTY_REQUESTS:
                self.complain(f"metadata was asked for again after {now_ms - self._asked_ms} ms, and so it was "
                              f"{self._hasty_count} times")
        self._asked_ms = now_ms

    def on_asked_for_id(self) -> None:
        """A producer id is asked for."""
        if self.refused_id_ms is not None:
            self.checks["backoff of ids"] += 1
            waited_ms = self.scheduler.now_ms - self.refused_id_ms
            if waited_ms < self.backoff_ms:
                self.complain(f"InitProducerId is repeated {waited_ms} ms after it was refused")
        self.refused_id_ms = None

    def on_poll(self, has_done: bool) -> None:
        """A poll came back."""
        now_ms = self.scheduler.now_ms
        if not self.has_acks:
            self._look_for_markers()
        self.poll_count += 1
        if has_done or self.has_found or now_ms > self._idle_since_ms + 1:
            self._idle_count = 0
        self._idle_since_ms = now_ms
        self._idle_count += 1
        if self._idle_count == MOST_IDLE_POLLS // 3:
            self._left_before = self.left_to_do()
        if self._idle_count == MOST_IDLE_POLLS and self.left_to_do() != self._left_before:
            self._idle_count = 0  # it works them off
        elif self._idle_count == MOST_IDLE_POLLS:
            self.complain(f"{MOST_IDLE_POLLS} polls found nothing, and no time passed")


class WatchedSelector(Selector):
    """The real one, and what the client asks of it.

    Args:
        manners: Told of it.
        make_socket: Makes the network's end of a connection. What it made last is this selector's own: another producer
            of the process may connect in the middle.
        settings: The real one's.
    """

    def __init__(self, manners: Manners, make_socket: Callable[[], Any], **settings: Any) -> None:
        super().__init__(make_socket=self._make_newest_socket, **settings)
        manners.begin_anew()
        self._manners = manners
        self._make = make_socket
        self._newest_socket: Any = None
        self._connections: dict[str, Any] = {}
        self._conversations = manners.conversations
        self._throttled_until_ms: dict[str, int] = {}
        self._connected_ms: dict[str, int] = {}
        self._active_ms: dict[str, int] = {}
        self._sent_to: set[str] = set()  # since the last poll, which counts that from its own look at the clock
        self._answered: set[str] = set()  # in the last poll
        self._has_done = True
        self._is_ending = False

    def connect(self, connection_id: str, address: tuple[Any, ...], *, server_hostname: str | None = None,
                **settings: Any) -> None:
        manners = self._manners
        manners.see_to()
        now_ms = manners.scheduler.now_ms
        since_ms = now_ms - self._connected_ms.get(connection_id, -1_000_000_000)
        if since_ms < manners.reconnect_ms:
            manners.complain(f"node {connection_id} is connected to again after {since_ms} ms")
        if server_hostname != name_of(node_at(address[0])):
            manners.complain(f"{address[0]} is connected to as {server_hostname!r}")
        self._connected_ms[connection_id] = now_ms
        manners.sent_count += 1
        self._active_ms[connection_id] = now_ms
        self._conversations[connection_id] = Conversation(address[0], now_ms, has_login=manners.has_login)
        self._throttled_until_ms.pop(connection_id, None)
        self._has_done = True
        super().connect(connection_id, address, server_hostname=server_hostname, **settings)
        self._connections[connection_id] = self._newest_socket.connection

    def _make_newest_socket(self, _family: int, _kind: int) -> Any:
        self._newest_socket = self._make()
        return self._newest_socket

    def close(self, connection_id: str) -> None:
        manners = self._manners
        manners.see_to()
        conversation = self._conversations.pop(connection_id, None)
        if conversation is not None:
            explanation = conversation.ended_by_client(manners.scheduler.now_ms, manners.request_timeout_ms,
                                                       manners.faults.frozen_ms)
            manners.on_end(connection_id, conversation, explanation)
            ends = ["closed"] if self._is_ending or not explanation.is_late else (
                ["late"] if explanation.is_owed else ["late", "closed"])
            self._connections[connection_id].note_end(*ends)
            if not self._is_ending:
                self._look_at_end(connection_id, conversation, explanation)
        super().close(connection_id)

    def _look_at_end(self, connection_id: str, conversation: Conversation, explanation: Explanation) -> None:
        """The client ends a connection by itself: it has given the peer its time, or knows something against it."""
        manners = self._manners
        waited_ms = manners.scheduler.now_ms - conversation.began_ms
        if not conversation.is_up:
            manners.checks["time to connect"] += 1
            if waited_ms < _SETUP_MS * _SHORTEST - _TICKS_MS and not manners.is_starting_over():
                manners.complain(f"the connection to node {connection_id} is given up after {waited_ms} ms")
        elif (connection_id in self._answered and conversation.has_versions and not explanation.is_late
              and not conversation.is_garbled and not conversation.wants_login and not manners.has_login):
            manners.broken_off += 1
            manners.checks["use"] += 1
            if manners.broken_off > _MOST_BROKEN_OFF:
                manners.scheduler.fail(f"the client broke off {manners.broken_off} connections on which all was "
                                       "answered as it should be")

    def close_all(self) -> None:
        self._is_ending = True
        super().close_all()

    def send(self, send: NetworkSend) -> None:
        manners = self._manners
        node = send.destination
        head = bytes(send._chunks[1][:4])
        api_key, version = int.from_bytes(head[:2], "big"), int.from_bytes(head[2:], "big")
        unanswered = self._conversations[node].unanswered
        in_flight = len(self._conversations[node].unanswered_but_markers)
        if in_flight >= manners.most_in_flight:
            manners.complain(f"node {node} gets a request, and {in_flight} are not answered")
        left_ms = self._throttled_until_ms.get(node, 0) - manners.scheduler.now_ms
        if left_ms > 0:
            manners.complain(f"node {node} gets a request of API {api_key}, {left_ms} ms before the pause is over that "
                             "it asked for")
        if api_key == ApiKeys.METADATA:
            manners.on_metadata()
        if api_key == ApiKeys.INIT_PRODUCER_ID:
            manners.on_asked_for_id()
        if api_key != ApiKeys.PRODUCE or manners.has_acks:
            unanswered.append(Asked(ApiKeys(api_key), version, manners.scheduler.now_ms, manners.faults.frozen_ms,
                                    len(self._conversations[node].written)))
        manners.sent_count += 1
        self._active_ms[node] = manners.scheduler.now_ms
        self._sent_to.add(node)
        self._has_done = True
        if api_key == ApiKeys.PRODUCE:  # first: of what fails then the client cannot know how far it came
            handed = self._connections[node].on_handed(b"".join(send._chunks[1:]), manners)
            if not manners.has_acks:
                self._conversations[node].written.append(handed)
        manners.faults.on_send()
        super().send(send)

    def reauthenticate(self, connection_id: str) -> bool:
        if not super().reauthenticate(connection_id):
            return False
        unanswered = self._conversations[connection_id].unanswered
        if unanswered:
            self._manners.complain(f"the session with node {connection_id} is renewed, and {len(unanswered)} requests "
                                   "are not answered")
        self._conversations[connection_id].proving_ms = self._manners.scheduler.now_ms
        self._has_done = True
        return True

    def poll(self, timeout_ms: int, now_ms: int, *, tells_sends: bool = True) -> int:
        manners = self._manners
        manners.settle()
        for node in self._sent_to:  # a callback in between may have taken long
            self._active_ms[node] = min(self._active_ms[node], now_ms)
        self._sent_to.clear()
        self._answered.clear()
        longest_ms = super().poll(timeout_ms, now_ms, tells_sends=tells_sends)
        manners.see_to()
        for connection_id in self.connected:
            self._conversations[connection_id].is_up = True
        for receive in self.completed_receives:
            self._on_answer(receive.source, receive.payload)
        for connection_id, end in self.disconnected.items():
            conversation = self._conversations.pop(connection_id)
            manners.sent_count += 1
            manners.on_end(connection_id, conversation, conversation.ended_by_peer(
                end, self._connections[connection_id].spoke))
            self._connections[connection_id].note_end("ended")
            idle_ms = manners.scheduler.now_ms - self._active_ms[connection_id]
            idle_ms += manners.faults.frozen_ms  # it may have stood still between its look at the clock and the write
            if end.phase is ChannelPhase.EXPIRED and idle_ms < manners.max_idle_ms - _TICKS_MS:
                manners.complain(f"the connection to node {connection_id} was ended after {idle_ms} ms as idle")
        manners.on_poll(bool(self._has_done or self.completed_receives or self.connected or self.disconnected))
        self._has_done = False
        return longest_ms

    def _on_answer(self, node: str, payload: Any) -> None:
        manners = self._manners
        self._active_ms[node] = manners.scheduler.now_ms
        self._conversations[node].is_garbled = self._connections[node].is_garbled
        answered = self._conversations[node].on_answer(payload)
        if answered is None:
            return
        api_key, version, sent_ms, frozen_ms, _ = answered
        self._answered.add(node)
        manners.checks["answers in time"] += 1
        took_ms = manners.scheduler.now_ms - sent_ms - (manners.faults.frozen_ms - frozen_ms)
        if took_ms > manners.request_timeout_ms + LATE_MS + manners.faults.called_back_ms:
            manners.complain(f"{api_key.name} was awaited for {took_ms} ms")
        if api_key is ApiKeys.PRODUCE and manners.faults.fired["throttle"]:
            self._note_throttle(node, version, bytes(payload))
        if api_key is ApiKeys.INIT_PRODUCER_ID:
            self._note_refusal(version, bytes(payload))

    def _note_refusal(self, version: int, payload: bytes) -> None:
        with contextlib.suppress(RemoteProtocolError):  # garbled
            body: Any = parse_response(ApiKeys.INIT_PRODUCER_ID, version, payload)[1]
            is_refused = body["error_code"] in _REFUSED_FOR_A_MOMENT
            self._manners.refused_id_ms = self._manners.scheduler.now_ms if is_refused else None

    def _note_throttle(self, node: str, version: int, payload: bytes) -> None:
        try:
            body: Any = parse_response(ApiKeys.PRODUCE, version, payload)[1]
        except RemoteProtocolError:  # garbled: the producer finds that, too
            return
        until_ms = self._manners.scheduler.now_ms + body["throttle_time_ms"]
        self._throttled_until_ms[node] = max(self._throttled_until_ms.get(node, 0), until_ms)
