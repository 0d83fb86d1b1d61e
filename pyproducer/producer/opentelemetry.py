"""OpenTelemetry: a span for each record that ends at its acknowledgement, and metrics by the messaging conventions.

    instrument(producer)                      # the global providers; or tracer_provider=..., meter_provider=...

A span ends on the producer's thread, when the record is stored or failed: only the client knows when that is; whether
the application looks at it, or the task that awaits it is cancelled, is all the same. Its context goes into the
record's headers (traceparent), and is injected before the compiled road, which sends headers and callbacks as any
others. What the application's sampler drops costs no span data, and its context is propagated all the same. What a span
costs is in docs/metrics.md.

Road:    application -> [opentelemetry] -> send()
Thread:  the caller's, then the producer's own for the end of a span; metrics: whichever reads.
Source:  OpenTelemetry semantic conventions for messaging and Kafka (development), 2026-11; KIP-42 is not used, for an
         interceptor takes records off the compiled road.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Sized
from typing import TYPE_CHECKING, Any, TypeVar

from pyproducer.accumulator.batch_future import BatchMetadata
from pyproducer.accumulator.produce_result import Observer, OnCompletion
from pyproducer.common.clock import Clock, SystemClock
from pyproducer.common.records import ProducerRecord, RecordMetadata, given_time
from pyproducer.common.sender_log import SenderLog, sender_log
from pyproducer.common.version import __version__
from pyproducer.hotpath import AsyncProducerBase
from pyproducer.observe.catalog import APP, NODE, OF_NODE, OF_PRODUCER, OF_TOPIC, PRODUCER, TOPIC, Kind
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
_PART_COUNT = 7
"""So many arguments send() has."""
P = TypeVar("P", bound="KafkaProducer[Any, Any] | AsyncProducerBase")


def instrument(producer: P, *, tracer_provider: TracerProvider | None = None,
               meter_provider: MeterProvider | None = None) -> P:
    """Have each send() of a producer make a span, and measure it.

    Args:
        producer: A KafkaProducer or an AsyncKafkaProducer. Its `send`, `send_nowait` and `send_batch` are replaced;
            those of others stay as they are.
        tracer_provider: Whose tracer; the global one unless given.
        meter_provider: Whose meter; the global one unless given.

    Returns:
        The same producer.

    Raises:
        ImportError: opentelemetry-api is not installed: pip install 'pyproducer[opentelemetry]'.
        TypeError: It is another producer, as a MockProducer.
    """
    telemetry = _Telemetry(tracer_provider, meter_provider)
    instance: Any = producer
    if isinstance(producer, AsyncProducerBase):
        inner = instance._producer
        telemetry.watch(inner)
        in_loop = _TracedInLoop(instance, telemetry)
        instance.send, instance.send_nowait = in_loop.send, in_loop.send_nowait
        # There the span does not depend on what becomes of the task that awaits its rows.
        inner.send_batch = _Traced(inner, telemetry).send_batch
    elif isinstance(producer, KafkaProducer):
        telemetry.watch(producer)
        traced = _Traced(producer, telemetry)
        instance.send, instance.send_batch = traced.send, traced.send_batch
    else:
        raise TypeError(f"instrument() takes a KafkaProducer or an AsyncKafkaProducer, got {type(producer).__name__}: "
                        f"{producer!r}. Give the producer that sends; what stands for one in tests has no broker to "
                        "measure, so take a real one there, on an EmbeddedBroker")
    return producer


class _Telemetry:
    """What the sends of one producer are told to: its tracer, its meter."""

    def __init__(self, tracer_provider: TracerProvider | None, meter_provider: MeterProvider | None) -> None:
        try:
            from opentelemetry import metrics, propagate, trace
        except ImportError as error:
            raise ImportError(_MISSING) from error

        self.inject = propagate.inject
        self.in_span = trace.set_span_in_context
        self.error = trace.StatusCode.ERROR
        self._kind = trace.SpanKind.PRODUCER
        self._start = trace.get_tracer(_LIBRARY, __version__, tracer_provider).start_span
        meter = metrics.get_meter(_LIBRARY, __version__, meter_provider)
        self.duration = meter.create_histogram(
            "messaging.client.operation.duration", unit="s",
            description="Duration of messaging operation initiated by a producer or consumer client.")
        self.sent = meter.create_counter(
            "messaging.client.sent.messages", unit="{message}",
            description="Number of messages producer attempted to send to the broker.")
        self.always: dict[str, Any] = {}
        self.clock: Clock = _CLOCK
        self._client_id = ""

    def watch(self, producer: KafkaProducer[Any, Any]) -> None:
        """Say whose sends they are."""
        host, port = producer._runtime.config.bootstrap_servers[0]
        self.always = {"messaging.system": "kafka", "messaging.operation.name": "send",
                       "messaging.operation.type": "send", "server.address": host, "server.port": port}
        self.clock = producer._runtime.clock
        self._client_id = producer.client_id

    def begin(self, topic: str) -> _Sending:
        """Begin the span of a send to a topic."""
        topic = str.__str__(topic)  # of an Enum of names, the name
        return _Sending(self, topic, self._start(f"send {topic}", kind=self._kind, attributes={
            **self.always, "messaging.destination.name": topic, "messaging.client.id": self._client_id}))


class _Sending:
    """One send, and its span, which is ended once: whoever is told first of a record ends it."""

    __slots__ = ("_began_ms", "_is_ended", "_telemetry", "_topic", "span")

    def __init__(self, telemetry: _Telemetry, topic: str, span: Span) -> None:
        self.span: Span = span
        self._telemetry = telemetry
        self._topic = topic
        self._began_ms = telemetry.clock.now_ms()
        self._is_ended = False

    def headers_of(self, record: ProducerRecord) -> list[Any]:
        """Note what the record is; return its headers, and behind them the span's context."""
        span = self.span
        if span.is_recording():
            key = record.key
            if key is not None and isinstance(key, (str, bytes)):
                span.set_attribute("messaging.kafka.message.key",
                                   key if isinstance(key, str) else key.decode(errors="replace"))
            if record.value is None:
                span.set_attribute("messaging.kafka.message.tombstone", True)
        carrier: dict[str, str] = {}
        self._telemetry.inject(carrier, context=self._telemetry.in_span(span))
        return [*record.headers, *((name, text.encode()) for name, text in carrier.items())]

    def end(self, metadata: RecordMetadata | None, error: BaseException | None) -> None:
        """End the span of a record that was stored, or failed."""
        self._end(metadata, error, 1, {})

    def end_rows(self, metadata: BatchMetadata) -> None:
        """End the span of rows, and count those that failed by their errors."""
        errors = metadata.errors
        self._end(None, next(iter(errors.values()), None), len(metadata), Counter(map(error_name, errors.values())))

    def refuse(self, raised: BaseException) -> None:
        """End the span of what was not sent; the caller gets what was raised, and nothing of the span's processors."""
        try:
            self.end(None, raised)
        except Exception:
            log.exception("The span of a send to %s that was refused did not end in order", self._topic)

    def _end(self, metadata: RecordMetadata | None, error: BaseException | None, count: int,
             failed: Mapping[str, int]) -> None:
        """End the span, and count its records: `failed` of `count` by error; without it, all as `error` says."""
        if self._is_ended:
            return
        self._is_ended = True
        span, telemetry = self.span, self._telemetry
        try:
            attributes: dict[str, Any] = {**telemetry.always, "messaging.destination.name": self._topic}
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
                    span.set_status(telemetry.error, str(error))
            if error is not None:
                attributes["error.type"] = error_name(error)
            telemetry.duration.record((telemetry.clock.now_ms() - self._began_ms) / 1000, attributes)
            if failed:
                attributes.pop("error.type", None)
                for name, number in failed.items():
                    telemetry.sent.add(number, {**attributes, "error.type": name})
                count -= sum(failed.values())
            if count:
                telemetry.sent.add(count, attributes)
        finally:
            span.end()


class _Traced:
    """The sends of one producer, each with a span.

    What a plain send() takes and refuses these do, too, in its words: it is asked with what it was given, but for the
    headers and the callback, and these are looked at as it looks at them.
    """

    def __init__(self, producer: KafkaProducer[Any, Any], telemetry: _Telemetry) -> None:
        self._producer = producer
        self._telemetry = telemetry
        self._send = producer.send
        self._send_batch = producer.send_batch

    def send(self, *arguments: Any, **named: Any) -> Any:
        """See ProducerBase.send."""
        sending, parts = self._begin(arguments, named)
        if sending is None:
            return self._send(*arguments, **named)
        try:
            return self._send(**self._measured(sending, parts))
        except BaseException as raised:
            sending.refuse(raised)
            raise

    def send_batch(self, *arguments: Any, **named: Any) -> Any:
        """See KafkaProducer.send_batch: one span for all rows, without a context in their headers."""
        try:
            topic, values, columns = _given_rows(*arguments, **named)
        except TypeError:  # the plain one says of what
            return self._send_batch(*arguments, **named)
        if not isinstance(topic, str):
            return self._send_batch(topic, values, **columns)
        sending = self._telemetry.begin(topic)
        try:
            if isinstance(values, Iterable) and not isinstance(values, Sized):
                values = list(values)  # a generator: the span says how many there are
            if isinstance(values, Sized):
                sending.span.set_attribute("messaging.batch.message_count", len(values))
            future = self._send_batch(topic, values, **columns)
        except BaseException as raised:
            sending.refuse(raised)
            raise
        future.observe(sending.end_rows)
        return future

    def _begin(self, arguments: tuple[Any, ...],
               named: dict[str, Any]) -> tuple[_Sending | None, dict[str, Any]]:
        """Begin a span; return it with the parts by name. None where nobody knows of which topic: it is refused."""
        try:
            parts = _given(*arguments, **named)
        except TypeError:
            return None, {}
        topic = parts["topic"]
        if isinstance(topic, ProducerRecord):
            topic = topic.topic
        return (self._telemetry.begin(topic) if isinstance(topic, str) else None), parts

    def _measured(self, sending: _Sending, parts: dict[str, Any]) -> dict[str, Any]:
        """Return what is sent in place of what was given: with the span's context, and its end."""
        if len(parts) > _PART_COUNT:
            return parts  # with a foreign one, for which it is refused
        record, on_completion = self._checked(**parts)
        timestamp = parts["timestamp"]
        if record is parts["topic"] and record.timestamp is not None:
            timestamp = given_time(record.timestamp)
        return {"topic": record.topic, "value": record.value, "key": record.key, "partition": record.partition,
                "timestamp": timestamp, "headers": sending.headers_of(record),
                "on_completion": Observer(sending.end, on_completion)}

    def _checked(self, **parts: Any) -> tuple[ProducerRecord, OnCompletion | None]:
        """Return a record and its callback, or raise what a plain send() does."""
        sender = self._producer._present().record_sender
        try:
            return sender.checked(**parts)
        except (TypeError, ValueError):
            sender.ensure_may_send()  # a plain send() asks this first
            sender.ensure_outside()
            raise


class _TracedInLoop(_Traced):
    """The sends of one AsyncKafkaProducer, each with a span; its rows are sent by a KafkaProducer.

    A span ends when its record is told of, on whatever thread, and so also where the task that awaited it was cancelled
    or its loop is closed.
    """

    def __init__(self, producer: Any, telemetry: _Telemetry) -> None:
        super().__init__(producer._producer, telemetry)
        self._facade = producer
        self._send_in_loop = producer.send
        self._send = producer.send_nowait

    async def send(self, *arguments: Any, **named: Any) -> Any:
        """See AsyncKafkaProducer.send."""
        sending, parts = self._begin(arguments, named)
        if sending is None:
            return await self._send_in_loop(*arguments, **named)
        try:
            return await self._send_in_loop(**self._measured(sending, parts))
        except Exception as raised:  # no CancelledError: the record goes its way, or was told that it was withdrawn
            sending.refuse(raised)
            raise

    def send_nowait(self, *arguments: Any, **named: Any) -> Any:
        """See AsyncProducerBase.send_nowait."""
        return super().send(*arguments, **named)

    def _checked(self, **parts: Any) -> tuple[ProducerRecord, OnCompletion | None]:
        facade = self._facade
        if not facade._is_bound():
            facade._bind()
        parts["value"], parts["on_completion"] = facade._with_callbacks_in_loop(
            parts["topic"], parts["value"], parts["on_completion"])
        return super()._checked(**parts)


def _given(topic: Any, value: Any = None, *, key: Any = None, partition: Any = None, timestamp: Any = None,
           headers: Any = None, on_completion: Any = None, **foreign: Any) -> dict[str, Any]:
    """Return the arguments of a send() by name, foreign ones behind them."""
    return {"topic": topic, "value": value, "key": key, "partition": partition, "timestamp": timestamp,
            "headers": headers, "on_completion": on_completion, **foreign}


def _given_rows(topic: Any, values: Any, **columns: Any) -> tuple[Any, Any, dict[str, Any]]:
    """Return the arguments of a send_batch()."""
    return topic, values, columns


def observe_all(*, meter_provider: MeterProvider | None = None) -> None:
    """Give OpenTelemetry the numbers of all producers of this process, as observable instruments.

    Totals are observable counters, all else observable gauges; names are kafka.producer.record_send_total and so on,
    with the tags as attributes. Rates, means and percentiles are left out, and so are the histograms that they are made
    of, for OpenTelemetry observes none: `instrument` measures durations, and Prometheus's door has all.

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

    A reader asks one instrument after the other, some seventy of them. So what was read for the first one is given to
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

    create = meter.create_observable_counter if kind is Kind.TOTAL else meter.create_observable_gauge
    create(title_of(group, name), callbacks=[read], description=text)


def title_of(group: str, name: str) -> str:
    """Return the name of the instrument of a number."""
    prefix = "producer.app" if group == APP else group.removesuffix("-metrics").replace("-", ".")
    return f"kafka.{prefix}.{name.replace('-', '_')}"
