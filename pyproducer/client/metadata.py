"""What the producer knows of the cluster, which topics it wants to know, and when to ask next.

Callers add topics, read the snapshot and wait for a newer one; the sender thread asks and updates. The snapshot is
immutable: who reads `cluster` reads one reference and takes no lock.

Road:    callers, sender <-> [ProducerMetadata] <-> metadata_updater
Thread:  any; one lock guards all fields that are not said to be otherwise.
Source:  Java Metadata, ProducerMetadata (4.1); KIP-526 (idle topics, partial updates), KIP-580, KIP-842 (backoff on
         answers without news), KIP-899 and KIP-1102 (rebootstrap), KIP-951.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from pyproducer.client.metadata_response import merge_response, with_leaders, without_leaders
from pyproducer.client.unknown_topics import UnknownTopics
from pyproducer.common.cluster import Cluster, Node, TopicPartition, address_text
from pyproducer.common.error_codes import ErrorCode, error_for_code
from pyproducer.common.errors import NOT_SENT, KafkaError
from pyproducer.common.waiting import SYSTEM_LOCKS, Locks, Waiters, release_in_child

if TYPE_CHECKING:
    from pyproducer.common.backoff import ExponentialBackoff
    from pyproducer.common.clock import Clock


class MetadataRequest(NamedTuple):
    """What to ask for: the topics, and whether the answer replaces all or is merged into what is known."""

    topics: list[str]
    request_version: int
    is_partial: bool

    def body(self) -> Mapping[str, Any]:
        """Return the body of the request. No topics means none (from v1 on): brokers and controller only."""
        return {"topics": [{"name": topic} for topic in self.topics], "allow_auto_topic_creation": True}


class Refusal(NamedTuple):
    """Whose batches fail, because who leads them refused us for good (TLS, SASL), and why.

    Attributes:
        node_id: The leader; NO_LEADER for those that none is known of; None for all.
        error: Why.
    """

    node_id: int | None
    error: KafkaError


NO_LEADER = -1


_MAKE_TOPIC = "create it, or correct its name; without Describe or Write on it, too, brokers say so"
_LONG_AGO_MS = -(2**64)  # longer ago than any setting, which is a Java long, can make up for


class ProducerMetadata:
    """The producer's picture of the cluster.

    Args:
        refresh_backoff: Shortest wait between two requests; grows with failures and with answers without news.
        metadata_max_age_ms: When to ask again without a reason.
        metadata_max_idle_ms: When to forget a topic that nobody sends to.
        clock: For the callers' waits.
        bootstrap: The addresses to begin with.
        locks: Makes its lock, and the cells of callers who wait for news.
        on_snapshot: Given each snapshot that is new, in order; called with the lock held.
        take_used: Gives the topics that records were sent to since it was called last.

    Attributes:
        cluster: The newest snapshot. Written here only.
        due_ms: When brokers should be asked next, or since when. Written here only.
    """

    def __init__(self, *, refresh_backoff: ExponentialBackoff, metadata_max_age_ms: int, metadata_max_idle_ms: int,
                 clock: Clock, bootstrap: Sequence[tuple[str, int]], locks: Locks = SYSTEM_LOCKS,
                 on_snapshot: Callable[[Cluster], None] = lambda _cluster: None,
                 take_used: Callable[[], Iterable[str]] = tuple) -> None:
        self._refresh_backoff = refresh_backoff
        self._max_age_ms = metadata_max_age_ms
        self._max_idle_ms = metadata_max_idle_ms
        self._clock = clock
        self.bootstrap_addresses: tuple[tuple[str, int], ...] = tuple(bootstrap)   # constant
        self._lock = locks.rlock()  # guards all fields below; taken last, never around another lock
        self.waiters: Waiters = Waiters(locks.cell)
        self._nodes_to_ask = bootstrap_nodes(bootstrap)
        self._on_snapshot = on_snapshot
        self._take_used = take_used
        self._take(Cluster(nodes=self._nodes_to_ask))
        # How often the bootstrap addresses were asked again, and up to which of them they have answered: until then
        # another cluster may.
        self._start_count = self._answered_start_count = 0
        self._steps_back: Mapping[tuple[str, int], int] = {}  # see metadata_response.Merged
        self._topic_errors: dict[str, ErrorCode] = {}       # replaced as a whole; read without the lock
        self._unknown_topics = UnknownTopics()
        # Of which topics the last answer told, and whose it was; and a node whose answer another is to confirm. The
        # sender thread's alone, without the lock.
        self._last_answer: tuple[Container[str], int] = (), -1
        self._doubted_node: int | None = None
        # Topic -> when it is idle. Callers write the time of a known topic without the lock, see `add`.
        self._topics: dict[str, int] = {}
        self._new_topics: set[str] = set()
        self._update_version = 0
        self._request_version = 0
        self._need_full_update = True
        self._need_partial_update = False
        self._last_refresh_ms = _LONG_AGO_MS
        self._last_success_ms = _LONG_AGO_MS
        self._failed_attempts = 0
        self._answers_without_news = 0
        self._backoff_ms = self._backoff_of_attempts_ms = 0  # the latter whatever the answers had
        self.due_ms: int = _LONG_AGO_MS                    # written under the lock; read without
        self._fatal: KafkaError | None = None
        self._fatal_count = 0
        self.refusals: list[Refusal] = []  # not dealt with yet; the sender thread's alone, without the lock
        self._refusal: Callable[[], KafkaError] | None = None  # the producer is closed
        self._last_errors: dict[str, tuple[str, int]] = {}  # why, and of which node

    # -- read by any thread ------------------------------------------------------------------------------------------

    def version(self) -> int:
        """Return the number of updates so far; `await_update` waits for a higher one."""
        return self._update_version

    def age_ms(self, now_ms: int) -> int:
        """Return how long ago brokers told of all topics in use; 0 before they did."""
        return 0 if self._last_success_ms == _LONG_AGO_MS else max(0, now_ms - self._last_success_ms)

    def nodes_to_ask(self) -> tuple[Node, ...]:
        """Return the nodes that metadata may be asked of: the cluster's, or the bootstrap addresses."""
        return self._nodes_to_ask

    @property
    def is_bootstrap(self) -> bool:
        """Whether the bootstrap addresses are asked, at the start or again."""
        return bool(self._nodes_to_ask) and self._nodes_to_ask[0].node_id < 0

    def ensure_topic_usable(self, topic: str) -> None:
        """Check that the broker did not refuse a topic for good.

        Raises:
            InvalidTopicError: The name is not allowed. Not sent.
            AuthorizationError: We may not describe the topic. Not sent.
        """
        error = self.refusal(topic)
        if error is not None:
            raise error

    def refusal(self, topic: str) -> KafkaError | None:
        """Return why the last answer refused a topic for good, an invalid name or no permission; or None."""
        code = self._topic_errors.get(topic)
        if code not in (ErrorCode.INVALID_TOPIC_EXCEPTION, ErrorCode.TOPIC_AUTHORIZATION_FAILED):
            return None
        error = error_for_code(code, message=f"Topic {topic!r}:", api="METADATA")
        error.outcome = NOT_SENT
        return error

    def absence(self, topic: str, since_ms: int, longest_ms: int) -> KafkaError | None:
        """Return the error for a topic that does not exist, as far as brokers can tell; None when it still may.

        Args:
            topic: The topic.
            since_ms: From when on answers count.
            longest_ms: For so long there must have been nothing but answers that do not know it, from two brokers where
                there are two.
        """
        with self._lock:
            asked = self._unknown_topics.witnesses(topic, since_ms, longest_ms)
            if asked is None or len(asked) < min(2, len(self.cluster.nodes)):
                return None
        error = error_for_code(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, api="METADATA", message=(
            f"Topic {topic!r} was not known to {len(asked)} broker(s) for {longest_ms} ms: {_MAKE_TOPIC}. In Kafka's "
            "words:"))
        error.outcome = NOT_SENT
        return error

    def node_to_avoid(self) -> int | None:
        """Return a node than which another is to be asked next.

        It alone said for a while that it does not know some topic, or somebody called `ask_another`. Thread: sender.
        """
        if self._doubted_node is not None:
            return self._doubted_node
        if not self._unknown_topics:
            return None
        with self._lock:
            return self._unknown_topics.only_witness()

    @property
    def fatal_count(self) -> int:
        """How many errors of all metadata (see `fatal_error`) happened so far."""
        return self._fatal_count

    def untold_fatal(self, seen: int) -> KafkaError | None:
        """Return an error of all metadata that happened after `fatal_count` was `seen`, or None."""
        with self._lock:
            if self._fatal is None or self._fatal_count <= seen:
                return None
            error = copy.copy(self._fatal)
            error.__cause__ = self._fatal
            return error

    def topics(self) -> set[str]:
        """Return the topics that are asked for."""
        return set(self._topics)

    def time_to_next_update(self, now_ms: int) -> int:
        """Return how long until metadata should be asked for, in ms; 0 when it is due."""
        due_ms = self.due_ms
        return due_ms - now_ms if due_ms > now_ms else 0

    def last_errors(self) -> dict[str, str]:
        """Return the last failure of each broker address (`host:port`) that does not work now, with its phase."""
        with self._lock:
            return {address: why for address, (why, _) in self._last_errors.items()}

    def describe_failure(self, topic: str) -> str:
        """Say why the metadata of a topic is not there, for the message of a timeout."""
        parts: list[str] = []
        with self._lock:
            code, version = self._topic_errors.get(topic), self._update_version
            answered = self._last_success_ms != _LONG_AGO_MS
            count = len(self.cluster.partitions_for_topic(topic))
        if code is not None:
            parts.append(f"the broker answered {code.name} ({int(code)}) for topic {topic!r}: {code.sentence}")
            if code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                parts.append(_MAKE_TOPIC)
        elif not answered:
            addresses = ", ".join(f"{host}:{port}" for host, port in self.bootstrap_addresses)
            parts.append(f"no broker has answered a metadata request yet (bootstrap.servers: {addresses})")
        elif not count:
            parts.append(f"no answer so far tells of topic {topic!r} (metadata version {version})")
        else:
            parts.append(f"topic {topic!r} is known, with {count} partitions (metadata version {version})")
        parts.extend(f"{address}: {text}" for address, text in self.last_errors().items())
        return "; ".join(parts)

    def describe_failures(self) -> str:
        """Say which addresses do not work and why, for the message of a timeout."""
        addresses = ", ".join(f"{host}:{port}" for host, port in self.bootstrap_addresses)
        parts = [f"bootstrap.servers: {addresses}"]
        parts.extend(f"{address}: {text}" for address, text in self.last_errors().items())
        return "; ".join(parts)

    # -- called by callers -------------------------------------------------------------------------------------------

    def add(self, topic: str, now_ms: int) -> bool:
        """Say that a topic is in use; called for each record.

        Returns:
            Whether the topic is new, so that the sender should be woken to ask for it.

        Thread: any. Of a known topic only the time is written, without the lock. When the sender drops the topic as
            idle in that moment, the write brings the name back, though not as a new topic: the caller finds no
            partitions in the snapshot, calls `request_update_for_topic`, and the full update asks for it again.
        """
        if topic in self._topics:
            self._topics[topic] = now_ms + self._max_idle_ms
            return False
        with self._lock:
            is_new = topic not in self._topics
            self._topics[topic] = now_ms + self._max_idle_ms
            if is_new:
                self._new_topics.add(topic)
                self._request_new_topics()
            return is_new

    def request_update(self, *, reset_equivalent_backoff: bool = False) -> int:
        """Ask for a full update as soon as the backoff allows; returns the version to wait beyond."""
        with self._lock:
            return self._request_full(reset_equivalent_backoff)

    def request_update_for_topic(self, topic: str, now_ms: int) -> int:
        """Ask for an update because a topic is needed now; returns the version to wait beyond."""
        with self._lock:
            if topic in self._new_topics:
                return self._request_new_topics()
            self._topics.setdefault(topic, now_ms + self._max_idle_ms)
            return self._request_full(False)

    def is_newer(self, last_version: int, fatal_seen: int) -> bool:
        """Return whether the snapshot is newer than a version, or raise why it will not be: see `await_update`."""
        fatal = self.untold_fatal(fatal_seen)
        if fatal is not None:
            raise fatal
        with self._lock:
            if self._refusal is not None:
                raise self._refusal()
            return self._update_version > last_version

    def await_update(self, last_version: int, timeout_ms: int, fatal_seen: int) -> bool:
        """Wait until the snapshot is newer than a version.

        Args:
            last_version: That version.
            timeout_ms: Longest wait, in ms.
            fatal_seen: The `fatal_count` of when this caller began: earlier errors of all metadata say nothing of now.

        Returns:
            False when timeout_ms passed first.

        Raises:
            IllegalStateError: The producer was closed, or died. Not sent.
            KafkaError: What `fatal_error` was given, such as AuthenticationError. Not sent.
        """
        deadline_ms = self._clock.now_ms() + timeout_ms
        while True:
            cell = self.waiters.enter()
            if self.is_newer(last_version, fatal_seen):
                return True
            remaining_ms = deadline_ms - self._clock.now_ms()
            # The second condition is for a clock that stands still.
            if remaining_ms <= 0 or not self._clock.wait(cell, remaining_ms / 1000):
                return self._update_version > last_version

    def close(self, refusal: Callable[[], KafkaError]) -> None:
        """Wake everyone who waits; they get the error that `refusal` makes."""
        with self._lock:
            self._refusal = refusal
        self.waiters.ring()

    def on_forked(self, refusal: Callable[[], KafkaError]) -> None:
        """In a child process: release what another thread held, and wake everyone who waits."""
        release_in_child(self._lock)
        self.close(refusal)

    # -- called by the sender thread ---------------------------------------------------------------------------------

    def next_request(self, now_ms: int) -> MetadataRequest:
        """Return what to ask for now. Topics that nobody used for metadata.max.idle.ms are dropped here."""
        with self._lock:
            is_stale = self._last_success_ms + self._max_age_ms <= now_ms
            if not self._need_full_update and not is_stale:
                return MetadataRequest(sorted(self._new_topics), self._request_version, True)
            if not self._need_full_update and not self._need_partial_update:
                self._answers_without_news = 0  # Periodic: the last answers say nothing of this one.
            for topic in self._take_used():
                self._topics[topic] = now_ms + self._max_idle_ms
            for topic, idle_at_ms in list(self._topics.items()):
                if idle_at_ms <= now_ms and topic not in self._new_topics:
                    del self._topics[topic]
            return MetadataRequest(sorted(self._topics), self._request_version, False)

    def update(self, response: Mapping[str, Any], api_version: int, now_ms: int, *,
               request: MetadataRequest | None = None, node_id: int = -1) -> None:
        """Take in an answer and wake everyone who waits.

        Args:
            response: A Metadata response without a top-level error and with at least one broker.
            api_version: Its version.
            now_ms: When it came.
            request: What was asked; None means all topics as of now.
            node_id: Who answered; below 0 for a bootstrap address.
        """
        with self._lock:
            is_partial = request is not None and request.is_partial
            merged = merge_response(
                response, api_version, previous=self.cluster, topic_errors=self._topic_errors,
                retain=self._topics.__contains__, is_partial=is_partial,
                is_new_start=self._start_count != self._answered_start_count, steps_back=self._steps_back)
            self._steps_back = merged.steps_back
            # A topic that was added while the request was under way still has to be asked for.
            self._need_partial_update = request is not None and request.request_version < self._request_version
            if not is_partial:
                self._need_full_update = False
                self._last_success_ms = now_ms
            self._need_full_update = self._need_full_update or merged.needs_refresh
            self._new_topics -= merged.topics_answered
            if request is not None:  # also those that the answer leaves out: they would be asked for without a pause
                self._new_topics.difference_update(request.topics)
            self._topic_errors = merged.topic_errors
            self._note_unknown(merged.topics_answered, node_id, now_ms)
            self._last_answer, self._doubted_node = (merged.topics_answered, node_id), None
            self._take(merged.cluster, answers_start=not is_partial)
            self._nodes_to_ask = tuple(merged.cluster.nodes.values())
            if self._last_errors:
                self._forget_addresses_that_left()
            self._update_version += 1
            self._failed_attempts = 0
            self._fatal = None
            self._answers_without_news = 0 if merged.made_progress else self._answers_without_news + 1
            self._refreshed(now_ms)
            if self._need_partial_update:
                # Differs from Java, which waits out the backoff: nobody has asked for that topic yet, and at the start
                # this is the first record's wait.
                self._last_refresh_ms = _LONG_AGO_MS
                self._set_due()
            self.waiters.ring()

    def told_by(self, topic: str) -> int | None:
        """Return whose the last answer was, below 0 for a bootstrap address; None where it did not tell of a topic."""
        topics, node_id = self._last_answer
        return node_id if topic in topics else None

    def ask_another(self, node_id: int) -> None:
        """Ask another node than this one next, where one can be reached: it may lag behind."""
        self._doubted_node = node_id

    def move_deadlines(self, gap_ms: int) -> None:
        """Let topics that brokers do not know have so much longer, in ms, to be known."""
        with self._lock:
            self._unknown_topics.move(gap_ms)

    def failed_update(self, now_ms: int, error: KafkaError | None = None) -> None:
        """An attempt failed: back off. An error is fatal for the callers who wait."""
        with self._lock:
            self._failed_attempts += 1
            self._refreshed(now_ms)
            if error is not None:
                self._set_fatal(error)

    def fatal_error(self, error: KafkaError) -> None:
        """Make callers that wait for metadata raise this: waiting longer cannot help (TLS, SASL, no common version)."""
        with self._lock:
            self._set_fatal(error)

    def refused(self, node_id: int, error: KafkaError) -> None:
        """A node refused us for good, or we it: what it leads is told. Another may take us; see client/refusals.py."""
        self.refusals.append(Refusal(node_id, error))

    def refused_by_all(self, error: KafkaError) -> None:
        """Each node that may be asked refused us: who waits for metadata is told, and what nobody is known to lead."""
        self.refusals.append(Refusal(NO_LEADER, error))
        self.fatal_error(error)

    def refused_credentials(self, error: KafkaError) -> None:
        """Where credentials are fetched we are refused, so no node would take us: all that waits is told."""
        self.refusals.append(Refusal(None, error))
        self.fatal_error(error)

    def take_refusals(self) -> list[Refusal]:
        """Return who refused us since the last call."""
        taken, self.refusals = self.refusals, []
        return taken

    def update_leaders(self, leaders: Mapping[TopicPartition, tuple[int, int]],
                       nodes: Iterable[Node] = ()) -> set[TopicPartition]:
        """Take in leaders that a Produce response told (KIP-951).

        Args:
            leaders: Leader id and leader epoch by partition.
            nodes: Brokers that the response named; they replace known ones of the same id.

        Returns:
            The partitions whose leader is newer now: they may be sent again without a backoff.
        """
        with self._lock:
            cluster, updated = with_leaders(self.cluster, leaders, nodes)
            if cluster is not self.cluster:
                self._take(cluster)
            if updated and not self.is_bootstrap:
                self._nodes_to_ask = tuple(self.cluster.nodes.values())
            return updated

    def rebootstrap(self, *, forget_leaders: bool) -> None:
        """Ask the bootstrap addresses again (KIP-899).

        Differs from Java, which forgets everything: the partitions stay known, so that callers go on appending while
        a small cluster restarts instead of waiting for metadata.

        Args:
            forget_leaders: Drop nodes and leaders, because the connections to them are being closed (KIP-1102).
                Otherwise the nodes are asked as well as the bootstrap addresses: some may come back first.
        """
        with self._lock:
            self._set_bootstrap(self.bootstrap_addresses)
            if forget_leaders:
                self._take(without_leaders(self.cluster, self._nodes_to_ask))
            else:
                known = tuple(node for node_id, node in self.cluster.nodes.items() if node_id >= 0)
                self._nodes_to_ask += known
            self._start_count += 1
            self._request_full(True)

    def replace_bootstrap(self, addresses: Sequence[tuple[str, int]]) -> None:
        """Use other names for the bootstrap addresses from now on (canonical names)."""
        with self._lock:
            known = tuple(node for node in self._nodes_to_ask if node.node_id >= 0)
            if self.is_bootstrap:
                self._set_bootstrap(addresses)
                self._nodes_to_ask += known

    def note_failure(self, address: str, summary: str, node_id: int = -1) -> bool:
        """Remember why an address does not work for a node; returns whether that is news."""
        with self._lock:
            is_new = self._last_errors.get(address, ("", 0))[0] != summary
            self._last_errors[address] = summary, node_id
            return is_new

    def forget_failure(self, address: str, node_id: int | None = None) -> None:
        """An address works again. Cheap when there was no failure.

        Args:
            address: It.
            node_id: Who has answered there. Of a node of the cluster that is the node itself: an old connection to a
                bootstrap address may go on for long after the broker refuses new ones. None for whoever it was.
        """
        found = self._last_errors.get(address)
        if found is not None and (node_id is None or found[1] < 0 or found[1] == node_id):
            with self._lock:
                self._last_errors.pop(address, None)

    # -- inside, with the lock held ----------------------------------------------------------------------------------

    def _set_bootstrap(self, addresses: Sequence[tuple[str, int]]) -> None:
        was_at_start = self._update_version == 0
        self._nodes_to_ask = bootstrap_nodes(addresses)
        if was_at_start:
            self._take(Cluster(nodes=self._nodes_to_ask))

    def _take(self, cluster: Cluster, *, answers_start: bool = False) -> None:
        self.cluster: Cluster = cluster  # replaced as a whole; read without the lock
        if answers_start:
            self._answered_start_count = self._start_count
        self._on_snapshot(cluster)

    def _forget_addresses_that_left(self) -> None:
        """Forget why addresses did not work that no node has any more: where brokers move there is no end of them."""
        present = {address_text(host, port): {-1} for host, port in self.bootstrap_addresses}
        for node in self._nodes_to_ask:
            present.setdefault(address_text(node.host, node.port), {-1}).add(node.node_id)
        self._last_errors = {where: (why, node_id) for where, (why, node_id) in self._last_errors.items()
                             if ":" not in where  # a login's, which has its mechanism's name
                             or max(node_id, -1) in present.get(where, ())}

    def _note_unknown(self, answered: Iterable[str], node_id: int, now_ms: int) -> None:
        unknown = {topic for topic in answered
                   if self._topic_errors.get(topic) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
        self._unknown_topics.note(unknown, (topic for topic in answered if topic not in unknown), self._topics, node_id,
                                  now_ms)

    def _set_fatal(self, error: KafkaError) -> None:
        self._fatal = error
        self._fatal_count += 1
        self.waiters.ring()

    def _request_full(self, reset_equivalent_backoff: bool) -> int:
        self._need_full_update = True
        if reset_equivalent_backoff:
            self._answers_without_news = 0
            self._backoff_ms = self._backoff_of_attempts_ms
        self._set_due()
        return self._update_version

    def _request_new_topics(self) -> int:
        self._last_refresh_ms = _LONG_AGO_MS  # Do not wait out a backoff: nobody has asked for this topic yet.
        self._need_partial_update = True
        self._answers_without_news = 0
        self._request_version += 1
        self._set_due()
        return self._update_version

    def _refreshed(self, now_ms: int) -> None:
        # Differs from Java: jitter is drawn once per answer, not at each look, so that the due time stands still.
        self._last_refresh_ms = now_ms
        self._backoff_ms = self._backoff_of_attempts_ms = self._refresh_backoff.backoff_ms(
            max(self._failed_attempts - 1, 0))
        if self._answers_without_news:
            self._backoff_ms = max(self._backoff_ms,
                                   self._refresh_backoff.backoff_ms(self._answers_without_news - 1))
        self._set_due()

    def _set_due(self) -> None:
        is_requested = self._need_full_update or self._need_partial_update
        expires_ms = _LONG_AGO_MS if is_requested else self._last_success_ms + self._max_age_ms
        self.due_ms = max(expires_ms, self._last_refresh_ms + self._backoff_ms)


def bootstrap_nodes(addresses: Iterable[tuple[str, int]]) -> tuple[Node, ...]:
    """Return nodes for addresses whose broker ids are not known yet: -1, -2, and so on."""
    return tuple(Node(-1 - index, host, port) for index, (host, port) in enumerate(addresses))
