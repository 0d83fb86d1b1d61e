"""All numbers of one producer: whose rows there are, how they are sampled, and how they are read.

Owners ask for their row once and write its fields; nobody who works reads one. Names are made when somebody reads.

Road:    accumulator, sender, client -> [registry] -> doors (metrics(), Prometheus, OpenTelemetry, telemetry)
Thread:  `node`, `roll`: the sender thread. `gauge`, `table`: the constructor's. Reading: any; a number may be one
         update old.
Source:  Java Metrics, MetricName (4.1). Ours: rows of typed fields in place of sensors.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import NamedTuple

from pyproducer.common.delivery_summary import OTHER_TOPICS
from pyproducer.common.error_codes import ErrorCode
from pyproducer.common.errors import ApiError
from pyproducer.common.public import public
from pyproducer.common.waiting import SYSTEM_LOCKS, Locks, release_in_child
from pyproducer.hotpath import Ledger, NodeRow, TopicRow
from pyproducer.observe.catalog import (
    APP,
    ERROR,
    NODE,
    OF_NODE,
    OF_PRODUCER,
    OF_TOPIC,
    PRODUCER,
    TOPIC,
    Definition,
    Kind,
)
from pyproducer.observe.history import History
from pyproducer.observe.rows import ProducerRow, node_values, producer_values, reset_peaks, topic_values
from pyproducer.observe.window import Values, View, Windows

MOST_TOPICS = 100
"""So many topics have numbers of their own at a time; the others share a row whose topic is "(others)"."""
MOST_NODES = 1000
"""The same for nodes, whose shared row has the node id OTHER_NODES. Rows of nodes stay as long as the producer."""
OTHER_NODES = -(2**31)
STORIES = 2048
"""Of 84 bytes each: 168 KiB, which with the history of 80 KiB is less than 256 KiB a producer."""
MOST_RETRIES = 256
"""So many batches that are sent again are told apart, 40 KiB: some for each of a few hundred partitions."""

Tags = Mapping[str, str]


@public
class Metric(NamedTuple):
    """One number as it is now.

    Attributes:
        name: Java's name, "record-send-total".
        group: Java's group, "producer-metrics".
        tags: client-id, and node-id, topic, partition or error.
        value: The number.
        kind: Whether it only grows.
        text: What it is, with its unit.
    """

    name: str
    group: str
    tags: Tags
    value: float
    kind: Kind
    text: str


class Retry(NamedTuple):
    """A batch that is sent again.

    Attributes:
        at_ms: When its answer came, monotonic.
        place: Its topic and partition.
        error: The name of its error.
        record_count: How many records it has.
    """

    at_ms: int
    place: tuple[str, int]
    error: str
    record_count: int


class Gauge(NamedTuple):
    """A number that is computed when it is read; None while there is none."""

    name: str
    text: str
    read: Callable[[], float | None]
    kind: Kind


Rows = Callable[[], Iterable[tuple[Tags, Iterable[tuple[str, float, str]]]]]
"""Gives rows that are made when somebody reads: tags, and (name, value, text) of each number."""


def count_error(errors: dict[str, int], producer: ProducerRow, ledger: Ledger, topic: str, error: BaseException,
                count: int, *, is_accepted: bool) -> None:
    """Count records that failed, each once, for who shall not keep the registry by it: it reaches all of a producer.

    Thread: the sender's.
    """
    name = error_name(error)
    errors[name] = errors.get(name, 0) + count
    if not is_accepted:  # else it was counted when it failed, before anybody was told
        producer.record_error_total += count
    ledger.topic_row(topic).record_error_total += count


class Registry:
    """The rows of one producer.

    Args:
        client_id: For the tags.
        linger_ms: linger.ms.
        num_samples: metrics.num.samples.
        window_ms: metrics.sample.window.ms.
        now_ms: The time of the constructor, monotonic ms.
        capacity: How many batch stories are kept.
        locks: Makes its one lock.

    Attributes:
        producer: The producer's own row.
        ledger: What is written for each batch.
        errors: Records whose futures failed by the name of their error. Written by the sender thread.
        retries: Records that were sent again by the name of the error. Written by the sender thread.
        last_retries: The last MOST_RETRIES batches that were. Written by the sender thread.
        history: Samples of the sums, by second and by minute.
        due_ms: When the sender is to call `roll` next.
        buffer_wait_ms: Gives how long callers waited for memory in all.
        rows: Which other rows are made when somebody reads, by group.
    """

    def __init__(self, client_id: str = "", *, linger_ms: int = 0, num_samples: int = 2, window_ms: int = 30_000,
                 now_ms: int = 0, capacity: int = 16, locks: Locks = SYSTEM_LOCKS) -> None:
        self.client_id: str = client_id
        self.producer: ProducerRow = ProducerRow()
        self.ledger: Ledger = Ledger(capacity, linger_ms, MOST_TOPICS, OTHER_TOPICS)
        self.errors: dict[str, int] = {}
        self.retries: dict[str, int] = {}
        self.last_retries: deque[Retry] = deque(maxlen=MOST_RETRIES)
        self.history: History = History(now_ms)
        self.due_ms: int = now_ms
        self.buffer_wait_ms: Callable[[], int] = int
        self.rows: dict[str, tuple[Kind, Rows]] = {}
        self._nodes: dict[int, NodeRow] = {}
        self._gauges: dict[str, Gauge] = {}
        self._num_samples = num_samples
        self._window_ms = window_ms
        self._rolled_ms = now_ms
        self._of_producer = Windows(self._producer_values, num_samples, window_ms, now_ms)
        self._of_nodes: dict[int, Windows] = {}
        self._of_topics: dict[str, tuple[TopicRow, Windows]] = {}
        self._live_topics: Callable[[], Collection[str]] | None = None
        self._raised: dict[str, int] = {}  # as `errors`: records for which send() or send_batch() raised
        self._lock = locks.rlock()  # guards what callers add to the producer's row and to `_raised`

    # -- owners ------------------------------------------------------------------------------------------------------

    def node(self, node_id: int) -> NodeRow:
        """Return the row of a node; made when it is asked for first."""
        row = self._nodes.get(node_id)
        if row is None:
            if len(self._nodes) >= MOST_NODES:
                node_id = OTHER_NODES
                row = self._nodes.get(node_id)
            if row is None:
                row = self._nodes[node_id] = NodeRow(node_id)
                self._of_nodes[node_id] = Windows(lambda: node_values(row), self._num_samples, self._window_ms,
                                                  self._rolled_ms)
        return row

    def count_retry(self, place: tuple[str, int], error: BaseException, count: int) -> None:
        """Count records of a topic and partition that are sent again."""
        name, topic = error_name(error), place[0]
        self.last_retries.append(Retry(self.ledger.now_ms, place, name, count))
        self.retries[name] = self.retries.get(name, 0) + count
        self.producer.record_retry_total += count
        self.ledger.topic_row(topic).record_retry_total += count

    def count_raised(self, error: BaseException) -> None:
        """Count a record for which send() or send_batch() raised; as in Java it is of no topic. Thread: any."""
        name = error_name(error)
        with self._lock:
            self._raised[name] = self._raised.get(name, 0) + 1

    def add_flush(self, took_ms: int) -> None:
        """A flush() has ended. Thread: any."""
        with self._lock:
            self.producer.flush_ms_total += took_ms

    def add_metadata_wait(self, took_ms: int) -> None:
        """A partitions_for() has ended. Thread: any."""
        with self._lock:
            self.producer.metadata_wait_ms_total += took_ms

    def add_transaction_call(self, field: str, took_ms: int) -> None:
        """A call of a transaction has ended, whose time is in that field of the producer's row. Thread: any."""
        with self._lock:
            setattr(self.producer, field, getattr(self.producer, field) + took_ms)

    def on_forked(self) -> None:
        """In a child process: release the lock, if another thread held it."""
        release_in_child(self._lock)

    def gauge(self, name: str, text: str, read: Callable[[], float | None], kind: Kind = Kind.GAUGE) -> None:
        """Register a number of the producer that is computed when it is read."""
        self._gauges[name] = Gauge(name, text, read, kind)

    def table(self, group: str, rows: Rows, kind: Kind = Kind.GAUGE) -> None:
        """Register rows that are made when somebody reads."""
        self.rows[group] = kind, rows

    def live_topics(self, read: Callable[[], Collection[str]]) -> None:
        """Say which topics are in use: rows of others go."""
        self._live_topics = read

    # -- the sender's look at the time -------------------------------------------------------------------------------

    def roll(self, now_ms: int) -> None:
        """Take the samples that are due; once a second at most."""
        self.due_ms = self.history.take(now_ms, self.ledger, self.producer)
        if now_ms - self._rolled_ms < self._window_ms:
            return
        self._rolled_ms = now_ms
        if self._live_topics is not None:
            self._keep_topics(self._live_topics())
        self._of_producer.roll(now_ms)
        for of_node in list(self._of_nodes.values()):
            of_node.roll(now_ms)
        for topic in list(self.ledger.topics):
            self._windows_of_topic(topic).roll(now_ms)
        reset_peaks(self.producer, self.ledger, list(self._nodes.values()), list(self.ledger.topics.values()))

    def _keep_topics(self, topics: Collection[str]) -> None:
        """Forget the rows of topics that nobody uses; with one that is used again, the numbers begin at 0."""
        for topic in list(self.ledger.topics):
            if topic not in topics and topic != OTHER_TOPICS:
                del self.ledger.topics[topic]
        for topic in list(self._of_topics):
            if topic not in self.ledger.topics:
                self._of_topics.pop(topic, None)

    # -- readers -----------------------------------------------------------------------------------------------------

    def nodes(self) -> dict[int, NodeRow]:
        """Return the nodes' rows. Thread: any."""
        return dict(self._nodes)

    def all_errors(self) -> dict[str, int]:
        """Return failed records by the name of their error, those included for which a call raised. Thread: any."""
        return dict(Counter(self.errors) + Counter(self._raised))

    def of_producer(self, now_ms: int) -> dict[str, float]:
        """Return the numbers of group PRODUCER by name."""
        values = _read(OF_PRODUCER, self._of_producer.view(now_ms))
        for gauge in list(self._gauges.values()):
            value = gauge.read()
            if value is not None:
                values[gauge.name] = value
        return values

    def of_nodes(self, now_ms: int) -> dict[int, dict[str, float]]:
        """Return those of group NODE, by node."""
        return {node_id: _read(OF_NODE, windows.view(now_ms)) for node_id, windows in list(self._of_nodes.items())}

    def of_topics(self, now_ms: int) -> dict[str, dict[str, float]]:
        """Return those of group TOPIC, by topic."""
        return {topic: _read(OF_TOPIC, self._windows_of_topic(topic).view(now_ms)) for topic in list(
            self.ledger.topics)}

    def collect(self, now_ms: int) -> Iterator[Metric]:
        """Yield all numbers with their groups and tags. Thread: any."""
        own = {"client-id": self.client_id}
        view = self._of_producer.view(now_ms)
        yield from _metrics(OF_PRODUCER, PRODUCER, own, view)
        for gauge in list(self._gauges.values()):
            value = gauge.read()
            if value is not None:
                yield Metric(gauge.name, PRODUCER, own, value, gauge.kind, gauge.text)
        for node_id, windows in list(self._of_nodes.items()):
            yield from _metrics(OF_NODE, NODE, {**own, "node-id": f"node-{node_id}"}, windows.view(now_ms))
        for topic in list(self.ledger.topics):
            yield from _metrics(OF_TOPIC, TOPIC, {**own, "topic": topic}, self._windows_of_topic(topic).view(now_ms))
        for name, text, counts in (("record-error-total", "records that failed", self.all_errors()),
                                   ("record-retry-total", "records of batches that were sent again", self.retries)):
            for error, count in list(counts.items()):
                yield Metric(name, ERROR, {**own, "error": error}, count, Kind.TOTAL, text)
        for group, (kind, rows) in list(self.rows.items()):
            for tags, numbers in rows():
                for name, value, text in numbers:
                    yield Metric(name, group, {**own, **tags}, value, kind, text)

    def views(self, now_ms: int) -> tuple[View, dict[int, View], dict[str, View]]:
        """Return the views of the producer, its nodes and its topics, for doors that know histograms."""
        return (self._of_producer.view(now_ms),
                {node_id: windows.view(now_ms) for node_id, windows in list(self._of_nodes.items())},
                {topic: self._windows_of_topic(topic).view(now_ms) for topic in list(self.ledger.topics)})

    def _windows_of_topic(self, topic: str) -> Windows:
        """Return the windows of a topic's present row.

        A reader that goes through the topics may meet the sender, which forgets one; and it comes back with a new row.
        So windows are kept with the row that they are of, and are none of any other.
        """
        row = self.ledger.topics.get(topic)
        kept = self._of_topics.get(topic)
        if kept is not None and kept[0] is row:
            return kept[1]
        present = row or TopicRow(topic)  # forgotten meanwhile: it reads as 0 once more, and nothing is kept
        windows = Windows(lambda: topic_values(present), self._num_samples, self._window_ms, self._rolled_ms)
        if row is not None:
            self._of_topics[topic] = row, windows
        return windows

    def _producer_values(self) -> Values:
        values = producer_values(self.producer, self.ledger, list(self._nodes.values()))
        return {**values, "record_error_total": self.producer.record_error_total + sum(self._raised.copy().values()),
                "buffer_exhausted_total": self.errors.get("BufferExhaustedError", 0),
                "buffer_wait_ms_total": self.buffer_wait_ms()}


def error_name(error: BaseException) -> str:
    """Return Kafka's name of an error, NOT_ENOUGH_REPLICAS, or its class where no broker said it."""
    if isinstance(error, ApiError):
        return ErrorCode.name_of(error.code)
    return type(error).__name__


def _read(definitions: Iterable[Definition], view: View) -> dict[str, float]:
    return {definition.name: definition.read(view) for definition in definitions}


def _metrics(definitions: Iterable[Definition], group: str, tags: Tags, view: View) -> Iterator[Metric]:
    for definition in definitions:
        yield Metric(definition.name, group, tags, definition.read(view), definition.kind, definition.text)


__all__ = ["APP", "MOST_NODES", "MOST_TOPICS", "OTHER_NODES", "STORIES", "Metric", "Registry", "error_name"]
