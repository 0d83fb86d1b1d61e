"""OpenTelemetry: a span for each record that ends at its acknowledgement, and metrics by the messaging conventions.

    instrument(producer)                      # the global providers; or tracer_provider=..., meter_provider=...

A span ends on the producer's thread, when the record is stored or failed: only the client knows when that is. Its
context goes into the record's headers (traceparent), and is injected before the compiled road, which sends headers and
callbacks as any others. What the application's sampler drops costs no span data, and its context is propagated all the
same. What a span costs is in docs/metrics.md.

Road:    application -> [opentelemetry] -> send()
Thread:  the caller's, then the producer's own for the end of a span; metrics: whichever reads.
Source:  OpenTelemetry semantic conventions for messaging and Kafka (development), 2026-11; KIP-42 is not used, for an
         interceptor takes records off the compiled road.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence, Sized
from typing import TYPE_CHECKING, Any, TypeVar

from pyproducer.accumulator.batch_future import BatchMetadata
from pyproducer.accumulator.produce_result import Observer, OnCompletion
from pyproducer.common.clock import SystemClock
from pyproducer.common.errors import KafkaError
from pyproducer.common.records import ProducerRecord, RecordMetadata
from pyproducer.common.sender_log import SenderLog, sender_log
from pyproducer.common.version import __version__
from pyproducer.observe.catalog import NODE, OF_NODE, OF_PRODUCER, OF_TOPIC, PRODUCER, TOPIC, Kind
from pyproducer.observe.registry import Metric, error_name
from pyproducer.producer.gauges import LOOKED_UP
from pyproducer.producer.kafka_producer import KafkaProducer
from pyproducer.producer.metrics import all_metrics

if TYPE_CHECKING:
    from opentelemetry.metrics import CallbackOptions, Meter, MeterProvider, Observation
    from opentelemetry.trace import Span, TracerProvider

log: SenderLog = sender_log(__name__)

_LIBRARY = "pyproducer"
_MISSING = "opentelemetry-api is not installed: pip install 'pyproducer[opentelemetry]'"
_SNAPSHOT_MS = 1_000
"""A collection takes less, as a rule, and the next one comes later."""
_CLOCK = SystemClock()
P = TypeVar("P", bound="KafkaProducer[Any, Any]")


def instrument(producer: P, *, tracer_provider: TracerProvider | None = None,
               meter_provider: MeterProvider | None = None) -> P:
    """Have each send() of a producer make a span, and measure it.

    Args:
        producer: Its `send` and `send_batch` are replaced; that of others stays as it is.
        tracer_provider: Whose tracer; the global one unless given.
        meter_provider: Whose meter; the global one unless given.

    Returns:
        The same producer.

    Raises:
        ImportError: opentelemetry-api is not installed: pip install 'pyproducer[opentelemetry]'.
    """
    traced = _Traced(producer, tracer_provider, meter_provider)
    instance: Any = producer
    instance.send = traced.send
    instance.send_batch = traced.send_batch
    return producer


class _Traced:
    """The sends of one producer, each with a span."""

    def __init__(self, producer: KafkaProducer[Any, Any], tracer_provider: TracerProvider | None,
                 meter_provider: MeterProvider | None) -> None:
        try:
            from opentelemetry import metrics, propagate, trace
        except ImportError as error:
            raise ImportError(_MISSING) from error

        self._send = producer.send
        self._send_batch = producer.send_batch
        self._inject = propagate.inject
        self._in_span = trace.set_span_in_context
        self._kind = trace.SpanKind.PRODUCER
        self._error = trace.StatusCode.ERROR
        self._start = trace.get_tracer(_LIBRARY, __version__, tracer_provider).start_span
        meter = metrics.get_meter(_LIBRARY, __version__, meter_provider)
        self._duration = meter.create_histogram(
            "messaging.client.operation.duration", unit="s",
            description="Duration of messaging operation initiated by a producer or consumer client.")
        self._sent = meter.create_counter(
            "messaging.client.sent.messages", unit="{message}",
            description="Number of messages producer attempted to send to the broker.")
        host, port = producer._runtime.config.bootstrap_servers[0]
        self._always = {"messaging.system": "kafka", "messaging.operation.name": "send",
                        "messaging.operation.type": "send", "server.address": host, "server.port": port}
        self._client_id = producer.client_id
        self._clock = producer._runtime.clock

    def send(self, record: Any, value: Any = None, *args: Any, **named: Any) -> Any:
        """See ProducerBase.send."""
        if isinstance(record, ProducerRecord):
            on_completion = value if value is not None else named.pop("on_completion", None)
            topic, key, has_value = record.topic, record.key, record.value is not None
            headers: list[Any] = list(record.headers)
        else:
            on_completion = named.pop("on_completion", None)
            topic, key = record, named.get("key")
            given = named.pop("headers", None) or ()
            headers = list(given.items() if isinstance(given, Mapping) else given)
            has_value = value is not None
        span = self._begin(topic)
        began_ms = self._clock.now_ms()
        try:  # from here on the span is ended, whatever an attribute, a propagator or send() raises
            if span.is_recording():
                if key is not None and isinstance(key, (str, bytes)):
                    span.set_attribute("messaging.kafka.message.key",
                                       key if isinstance(key, str) else key.decode(errors="replace"))
                if not has_value:
                    span.set_attribute("messaging.kafka.message.tombstone", True)
            carrier: dict[str, str] = {}
            self._inject(carrier, context=self._in_span(span))
            headers.extend((name, text.encode()) for name, text in carrier.items())
            tell = self._observer(span, topic, on_completion, began_ms)
            if isinstance(record, ProducerRecord):
                return self._send(ProducerRecord(topic, record.value, key=record.key, partition=record.partition,
                                                 timestamp=record.timestamp, headers=headers), tell)
            return self._send(record, value, *args, headers=headers, on_completion=tell, **named)
        except BaseException as raised:
            self._end_refused(span, topic, raised, began_ms)
            raise

    def send_batch(self, topic: str, values: Any, **named: Any) -> Any:
        """See KafkaProducer.send_batch: one span for all rows, without a context in their headers."""
        if not isinstance(values, Sized):
            values = list(values)  # a generator: the span says how many there are
        span = self._begin(topic)
        began_ms = self._clock.now_ms()
        try:
            span.set_attribute("messaging.batch.message_count", len(values))
            future = self._send_batch(topic, values, **named)
        except BaseException as raised:
            self._end_refused(span, topic, raised, began_ms)
            raise

        def tell(metadata: BatchMetadata) -> None:
            errors = metadata.errors
            self._end(span, topic, None, next(iter(errors.values()), None), began_ms,
                      failed=Counter(map(error_name, errors.values())), count=len(values))

        future.observe(tell)
        return future

    def _begin(self, topic: str) -> Span:
        return self._start(f"send {topic}", kind=self._kind, attributes={
            **self._always, "messaging.destination.name": topic, "messaging.client.id": self._client_id})

    def _observer(self, span: Span, topic: str, on_completion: OnCompletion | None, began_ms: int) -> Observer:
        def tell(metadata: RecordMetadata | None, error: KafkaError | None) -> None:
            self._end(span, topic, metadata, error, began_ms)

        return Observer(tell, on_completion)

    def _end_refused(self, span: Span, topic: str, raised: BaseException, began_ms: int) -> None:
        """End the span of what was not sent; the caller gets what was raised, and nothing of the span's processors."""
        try:
            self._end(span, topic, None, raised, began_ms)
        except Exception:
            log.exception("The span of a send to %s that was refused did not end in order", topic)

    def _end(self, span: Span, topic: str, metadata: RecordMetadata | None, error: BaseException | None,
             began_ms: int, count: int = 1, failed: Mapping[str, int] | None = None) -> None:
        """End a span, and count its records: `failed` of `count` by error; without it, all as `error` says."""
        try:
            attributes: dict[str, Any] = {**self._always, "messaging.destination.name": topic}
            partition = metadata.partition if metadata is not None else getattr(error, "partition", None)
            if partition is not None:
                attributes["messaging.destination.partition.id"] = str(partition)
            if span.is_recording():
                if partition is not None:
                    span.set_attribute("messaging.destination.partition.id", str(partition))
                if metadata is not None and metadata.offset >= 0:
                    span.set_attribute("messaging.kafka.offset", metadata.offset)
                if error is not None:
                    span.set_attribute("error.type", error_name(error))
                    span.set_status(self._error, str(error))
            if error is not None:
                attributes["error.type"] = error_name(error)
            self._duration.record((self._clock.now_ms() - began_ms) / 1000, attributes)
            if failed:
                attributes.pop("error.type", None)
                for name, number in failed.items():
                    self._sent.add(number, {**attributes, "error.type": name})
                count -= sum(failed.values())
            if count:
                self._sent.add(count, attributes)
        finally:
            span.end()


def observe_all(*, meter_provider: MeterProvider | None = None) -> None:
    """Give OpenTelemetry the numbers of all producers of this process, as observable instruments.

    Totals are observable counters, all else observable gauges; names are kafka.producer.record_send_total and so on,
    with the tags as attributes. Rates, means and percentiles are left out: they are made of totals and histograms.

    Args:
        meter_provider: Whose meter; the global one unless given.

    Raises:
        ImportError: opentelemetry-api is not installed: pip install 'pyproducer[opentelemetry]'.
    """
    try:
        from opentelemetry import metrics
    except ImportError as error:
        raise ImportError(_MISSING) from error

    snapshots = _Snapshots()
    meter = metrics.get_meter(_LIBRARY, __version__, meter_provider)
    for group, definitions in ((PRODUCER, OF_PRODUCER), (NODE, OF_NODE), (TOPIC, OF_TOPIC)):
        for definition in definitions:
            if definition.kind is Kind.TOTAL:
                _observe(meter, snapshots, group, definition.name, Kind.TOTAL, definition.text)
    for group, name, kind, text in LOOKED_UP:
        _observe(meter, snapshots, group, name, kind, text)


class _Snapshot:
    """The numbers of all producers at one moment, by group and name."""

    def __init__(self) -> None:
        self.taken_ms: int = _CLOCK.now_ms()
        self.had: set[tuple[str, str]] = set()
        self.rows: dict[tuple[str, str], list[Metric]] = {}
        for metric in all_metrics():
            self.rows.setdefault((metric.group, metric.name), []).append(metric)


class _Snapshots:
    """Reads all numbers once for all instruments of a collection.

    A reader asks one instrument after the other, some eighty of them. So what was read for the first one is given to
    the next; it is read anew for one that has had it, and when it is old.

    Thread: any; readers have threads of their own. Two at once may read twice, which is all.
    """

    def __init__(self) -> None:
        self._last: _Snapshot | None = None

    def of(self, group: str, name: str) -> Sequence[Metric]:
        """Return the numbers of one instrument."""
        key, last = (group, name), self._last
        if last is None or key in last.had or _CLOCK.now_ms() - last.taken_ms >= _SNAPSHOT_MS:
            last = self._last = _Snapshot()
        last.had.add(key)
        return last.rows.get(key, ())


def _observe(meter: Meter, snapshots: _Snapshots, group: str, name: str, kind: Kind, text: str) -> None:
    def read(_options: CallbackOptions) -> Sequence[Observation]:
        from opentelemetry.metrics import Observation

        return [Observation(metric.value, {tag.replace("-", "_"): value for tag, value in metric.tags.items()})
                for metric in snapshots.of(group, name)]

    title = f"kafka.{group.removesuffix('-metrics').replace('-', '.')}.{name.replace('-', '_')}"
    create = meter.create_observable_counter if kind is Kind.TOTAL else meter.create_observable_gauge
    create(title, callbacks=[read], description=text)
