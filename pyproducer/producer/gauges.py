"""The numbers of a producer that are looked up when somebody asks: memory, ages, what waits, ends of credentials.

Road:    wiring -> [gauges] -> registry
Thread:  registered by the constructor's; read by any.
Source:  Java BufferPool, KafkaProducer, AppInfoParser (4.1): buffer-*, waiting-threads, metadata-age, app-info.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from pyproducer.accumulator.life import Life, LifeState
from pyproducer.common.clock import Clock, process_cpu_ms, thread_cpu_ms
from pyproducer.common.version import __version__
from pyproducer.hotpath import IMPL
from pyproducer.network.sasl.mechanism import Login
from pyproducer.observe.catalog import APP, ERROR, PARTITION, PRODUCER, Kind
from pyproducer.observe.registry import Tags
from pyproducer.producer.live_view import MOST_PARTITIONS, PartitionState, waiting_partitions

if TYPE_CHECKING:
    from pyproducer.client.unconfirmed_writes import UnconfirmedRecords
    from pyproducer.network.channel_builder import ChannelBuilder
    from pyproducer.producer.wiring import ProducerRuntime

_LOOK_AGAIN_MS = 60_000
Row = tuple[Tags, Iterable[tuple[str, float, str]]]


LOOKED_UP: tuple[tuple[str, str, Kind, str], ...] = (
    (PRODUCER, "record-send-total", Kind.TOTAL, "records that were stored"),
    (PRODUCER, "record-unconfirmed-total", Kind.TOTAL,
     "records sent with acks=0 of which nobody knows whether they came; ours"),
    (PRODUCER, "record-unretrieved-error-total", Kind.TOTAL,
     "records that failed and whose future nobody looked at; ours"),
    (PRODUCER, "buffer-total-bytes", Kind.GAUGE, "buffer.memory"),
    (PRODUCER, "buffer-available-bytes", Kind.GAUGE, "bytes of buffer.memory that are not given out"),
    (PRODUCER, "waiting-threads", Kind.GAUGE, "callers who wait for memory"),
    (PRODUCER, "requests-in-flight", Kind.GAUGE, "requests without an answer"),
    (PRODUCER, "records-waiting", Kind.GAUGE, "records whose outcome is not decided; ours"),
    (PRODUCER, "oldest-record-age-ms", Kind.GAUGE, "the age of the oldest of them, 0 where there is none; ours"),
    (PRODUCER, "connection-count", Kind.GAUGE, "connections that are up or being built"),
    (PRODUCER, "metadata-age", Kind.GAUGE, "seconds since brokers answered with metadata; 0 before the first answer"),
    (PRODUCER, "metadata-update-total", Kind.TOTAL, "answers with metadata; ours"),
    (PRODUCER, "sender-alive", Kind.GAUGE, "1 while the sender thread runs, 0 when it ended; ours"),
    (PRODUCER, "sender-last-turn-ms", Kind.GAUGE,
     "since when the sender thread has not come round, ms: below a minute when it is idle; ours"),
    (PRODUCER, "start-time-ms", Kind.GAUGE, "when the producer was made, ms since 1970"),
    (PRODUCER, "token-expiry-time-ms", Kind.GAUGE, "when the credentials of the login end, ms since 1970; ours"),
    (PRODUCER, "certificate-expiry-time-ms", Kind.GAUGE, "when our own certificate ends, ms since 1970; ours"),
    (PRODUCER, "broker-certificate-expiry-time-ms", Kind.GAUGE,
     "when the first certificate of a connected broker ends, ms since 1970; ours"),
    (PARTITION, "records-waiting", Kind.GAUGE, "records whose outcome is not decided"),
    (PARTITION, "bytes-waiting", Kind.GAUGE, "their bytes"),
    (PARTITION, "batches-in-flight", Kind.GAUGE, "batches that a request has"),
    (PARTITION, "oldest-record-age-ms", Kind.GAUGE, "the age of the oldest, ms"),
    (PARTITION, "attempts", Kind.GAUGE, "how often the oldest batch was sent in vain"),
    (PARTITION, "leader", Kind.GAUGE, "the node that leads; -1 where none does"),
    (ERROR, "record-error-total", Kind.TOTAL, "records that failed"),
    (ERROR, "record-retry-total", Kind.TOTAL, "records of batches that were sent again"),
    (APP, "info", Kind.GAUGE, "which version runs"),
)
"""All that is looked up, for doors that must name their instruments before there is a producer."""
_ROWS = {(group, name): (kind, text) for group, name, kind, text in LOOKED_UP}


def register_gauges(runtime: ProducerRuntime, login: Login | None, channel_builder: ChannelBuilder,
                    unconfirmed: UnconfirmedRecords) -> None:
    """Register all that is looked up when somebody asks."""
    registry, pool, accumulator = runtime.registry, runtime.accumulator.pool, runtime.accumulator
    tally, waiting, metadata, clock = runtime.life.tally, runtime.accumulator.waiting, runtime.metadata, runtime.clock

    def gauge(name: str, read: Callable[[], float | None]) -> None:
        kind, text = _ROWS[PRODUCER, name]
        registry.gauge(name, text, read, kind)

    gauge("record-send-total", lambda: tally.stored_count)
    gauge("record-unconfirmed-total", lambda: unconfirmed.total)
    gauge("record-unretrieved-error-total", lambda: tally.unretrieved_count)
    gauge("buffer-total-bytes", lambda: pool.total_bytes)
    gauge("buffer-available-bytes", lambda: pool.available_bytes)
    gauge("waiting-threads", lambda: pool.queued_count + len(waiting.door))
    gauge("requests-in-flight", lambda: runtime.wire.client.in_flight_request_count())
    gauge("metadata-age", lambda: metadata.age_ms(clock.now_ms()) / 1000)
    gauge("metadata-update-total", metadata.version)
    gauge("records-waiting", accumulator.incomplete_record_count)
    gauge("oldest-record-age-ms", lambda: max(
        (state.oldest_ms for state in waiting_partitions(accumulator, metadata, clock.now_ms())), default=0))
    gauge("connection-count", lambda: sum(
        row.connection_creation_total - row.connection_close_total for row in registry.nodes().values()))
    gauge("sender-alive", lambda: float(runtime.life.state in (LifeState.OPEN, LifeState.CLOSING)))
    gauge("sender-last-turn-ms",
          lambda: max(0, clock.now_ms() - registry.ledger.now_ms) if registry.producer.select_total else 0)
    started_ms = clock.timestamp_ms()
    gauge("start-time-ms", lambda: started_ms)
    if login is not None:
        gauge("token-expiry-time-ms", lambda: getattr(login, "expires_at_ms", None))
    if runtime.config.security_protocol in ("SSL", "SASL_SSL"):
        # What connections show: a file that cannot be used is not that. Its class is not named here: it loads ssl.
        own = _Cached(getattr(channel_builder, "identity_ends_at_s", None) or (lambda: None), clock)
        gauge("certificate-expiry-time-ms", own.read_ms)
        gauge("broker-certificate-expiry-time-ms", lambda: min(
            (1000 * row.certificate_ends_s for row in registry.nodes().values() if row.certificate_ends_s),
            default=None))
    registry.buffer_wait_ms = lambda: pool.waited_ms + waiting.waited_ms
    registry.history.watch(_Cpu(runtime.life).read_ms, registry.buffer_wait_ms)
    registry.live_topics(metadata.topics)
    registry.table(PARTITION, lambda: _partition_rows(runtime))
    registry.table(APP, lambda: [_row(APP, {"version": __version__, "impl": IMPL}, {"info": 1})])


def _partition_rows(runtime: ProducerRuntime) -> Iterator[Row]:
    """Yield partitions where records wait, then all others of known topics, with their leader."""
    cluster = runtime.metadata.cluster
    seen = set()
    for state in waiting_partitions(runtime.accumulator, runtime.metadata, runtime.clock.now_ms()):
        seen.add((state.topic, state.partition))
        yield _partition_row(state)
    for topic, table in list(cluster.tables.items()):
        for info in table.in_order:
            if len(seen) >= MOST_PARTITIONS:
                return
            if (topic, info.partition) not in seen:
                seen.add((topic, info.partition))
                yield _partition_row(PartitionState(topic, info.partition, 0, 0, 0, 0, 0, 0, "",
                                                    None if info.leader is None else info.leader.node_id))


def _partition_row(state: PartitionState) -> Row:
    return _row(PARTITION, {"topic": state.topic, "partition": str(state.partition)}, {
        "records-waiting": state.records, "bytes-waiting": state.bytes, "batches-in-flight": state.in_flight,
        "oldest-record-age-ms": state.oldest_ms, "attempts": state.attempts,
        "leader": -1 if state.leader is None else state.leader})


def _row(group: str, tags: Tags, numbers: Mapping[str, float]) -> Row:
    return tags, [(name, value, _ROWS[group, name][1]) for name, value in numbers.items()]


class _Cached:
    """What is read of files, once a minute at most."""

    def __init__(self, read: Callable[[], int | None], clock: Clock) -> None:
        self._read = read
        self._clock = clock
        self._due_ms: int | None = None
        self._value: float | None = None

    def read_ms(self) -> float | None:
        """Return it, in ms since 1970."""
        now_ms = self._clock.now_ms()
        if self._due_ms is None or now_ms >= self._due_ms:
            self._due_ms = now_ms + _LOOK_AGAIN_MS
            seconds = self._read()
            self._value = None if seconds is None else 1000 * seconds
        return self._value


class _Cpu:
    """CPU time of this process, and of the sender thread in it."""

    def __init__(self, life: Life) -> None:
        self._life = life
        self._sender_ms = 0

    def read_ms(self) -> tuple[int, int]:
        """Return both in ms; the second is 0 where the system does not tell of threads."""
        clock_id = self._life.sender_cpu_clock
        if clock_id is not None:
            self._sender_ms = max(self._sender_ms, thread_cpu_ms(clock_id))
        return process_cpu_ms(), self._sender_ms
