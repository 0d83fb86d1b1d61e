"""OpenTelemetry, against its real SDK: spans that end when a record is acknowledged, context in headers, metrics."""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from datetime import datetime, timezone
from types import SimpleNamespace
from typing import Any

import pytest

from pyproducer import (
    BufferExhaustedError,
    DeliveryFailedError,
    ErrorCode,
    KafkaError,
    KafkaProducer,
    ProducerInterceptor,
    ProducerRecord,
    SerializationError,
    __version__,
    all_metrics,
    instrument,
    observe_all,
)
from pyproducer.accumulator.produce_result import ProduceRequestResult
from pyproducer.aio import AsyncKafkaProducer
from pyproducer.broker import EmbeddedBroker
from pyproducer.observe.catalog import Kind
from pyproducer.observe.registry import Metric, Registry
from pyproducer.producer import opentelemetry
from pyproducer.testing import MockProducer, read_topic
from tests.support.patience import GIVE_UP_S

pytest.importorskip("opentelemetry.sdk")

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, Span, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF

StartBroker = Callable[..., EmbeddedBroker]


@pytest.fixture
def broker(start_broker: StartBroker) -> EmbeddedBroker:
    return start_broker(topics={"orders": 1})


class Telemetry:
    def __init__(self, broker: EmbeddedBroker, props: dict[str, object] | None = None, **sampling: Any) -> None:
        self.spans = InMemorySpanExporter()
        self.tracers = TracerProvider(shutdown_on_exit=False, **sampling)
        self.tracers.add_span_processor(SimpleSpanProcessor(self.spans))
        self.reader = InMemoryMetricReader()
        self.meters = MeterProvider([self.reader], shutdown_on_exit=False)
        self.producer = instrument(
            KafkaProducer({"bootstrap.servers": broker.bootstrap_servers, "client.id": "app", **(props or {})}),
            tracer_provider=self.tracers, meter_provider=self.meters)

    def of(self, producer: Any) -> Any:
        """The same for another producer."""
        return instrument(producer, tracer_provider=self.tracers, meter_provider=self.meters)

    def points(self) -> dict[str, list[Any]]:
        data = self.reader.get_metrics_data()
        assert data is not None
        return {metric.name: list(metric.data.data_points) for resource in data.resource_metrics
                for scope in resource.scope_metrics for metric in scope.metrics}


def test_span_when_a_record_is_stored_then_it_ends_at_the_acknowledgement_with_its_place(
        broker: EmbeddedBroker) -> None:
    telemetry = Telemetry(broker)
    broker.faults.on("Produce", times=1).delay(200)
    told = []
    with telemetry.producer as producer:
        future = producer.send("orders", b"v", key=b"k", on_completion=lambda metadata, error: told.append(metadata))
        assert not telemetry.spans.get_finished_spans(), "it is on its way"
        stored = future.result(GIVE_UP_S)
    (span,) = telemetry.spans.get_finished_spans()
    assert (span.name, span.kind.name) == ("send orders", "PRODUCER")
    assert span.end_time - span.start_time >= 200_000_000
    assert told == [stored]
    attributes = dict(span.attributes or {})
    assert attributes | {
        "messaging.system": "kafka", "messaging.operation.name": "send", "messaging.operation.type": "send",
        "messaging.destination.name": "orders", "messaging.destination.partition.id": "0", "messaging.client.id": "app",
        "messaging.kafka.message.key": "k", "messaging.kafka.offset": stored.offset} == attributes
    (record,) = read_topic(broker.bootstrap_servers, "orders")
    (header,) = [value for name, value in record.headers if name == "traceparent"]
    context = span.get_span_context()
    assert header is not None
    assert header[:-2] == f"00-{context.trace_id:032x}-{context.span_id:016x}-".encode()
    assert int(header[-2:], 16) & 1, "sampled"


def test_span_when_a_record_fails_then_it_says_with_which_error(broker: EmbeddedBroker) -> None:
    telemetry = Telemetry(broker)
    with telemetry.producer as producer:
        producer.partitions_for("orders")
        broker.faults.on("Produce", times=1).error(ErrorCode.INVALID_RECORD)
        assert producer.send(ProducerRecord("orders", None)).exception(GIVE_UP_S) is not None
        with pytest.raises(TypeError):
            producer.send("orders", b"v", nonsense=1)
    failed, refused = telemetry.spans.get_finished_spans()
    assert failed.attributes["error.type"] == "INVALID_RECORD"
    assert failed.attributes["messaging.kafka.message.tombstone"] is True
    assert failed.status.status_code.name == "ERROR"
    assert refused.attributes["error.type"] == "TypeError"
    sent = telemetry.points()["messaging.client.sent.messages"]
    assert {point.attributes.get("error.type"): point.value for point in sent} == {"INVALID_RECORD": 1, "TypeError": 1}


def test_span_when_the_sampler_drops_it_then_none_is_made_and_its_context_goes_on(broker: EmbeddedBroker) -> None:
    telemetry = Telemetry(broker, sampler=ALWAYS_OFF)
    with telemetry.producer as producer:
        producer.send("orders", b"v").result(GIVE_UP_S)
    assert telemetry.spans.get_finished_spans() == ()
    (record,) = read_topic(broker.bootstrap_servers, "orders")
    (header,) = [value for name, value in record.headers if name == "traceparent"]
    assert header is not None
    assert not int(header[-2:], 16) & 1, "not sampled"


def test_span_when_a_batch_is_sent_then_it_is_one_with_the_count(broker: EmbeddedBroker) -> None:
    telemetry = Telemetry(broker)
    with telemetry.producer as producer:
        producer.send_batch("orders", [b"a", b"b", b"c"]).result(GIVE_UP_S)
    (span,) = telemetry.spans.get_finished_spans()
    assert span.attributes["messaging.batch.message_count"] == 3


def test_send_batch_when_it_is_measured_then_nobody_waits_for_it_and_its_rows_linger_for_company(
        broker: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    telemetry, waits = Telemetry(broker), []
    # It ends the linger where linger.ms is not set.
    monkeypatch.setattr(ProduceRequestResult, "on_wait", lambda result: waits.append(result))
    with telemetry.producer as producer:
        producer.partitions_for("orders")
        producer.send_batch("orders", [b"v"])
        assert not waits
    assert len(telemetry.spans.get_finished_spans()) == 1


def heard(metadata: object, exception: object) -> None:
    """A callback that may be given."""


def of_other_order(err: object, msg: object) -> None:
    """A callback of confluent-kafka's order."""


async def never_run(metadata: object, exception: object) -> None:
    """A callback that nobody would await."""


RECORD = ProducerRecord("orders", b"v", b"k")
OF_1970 = datetime(1970, 2, 1, 1, 2, 3, 456_789, tzinfo=timezone.utc)
OF_1970_MS = 2_682_123_456


def calls() -> dict[str, tuple[bool, tuple[Any, ...], dict[str, Any]]]:
    """Whether send() takes what, by position and by name."""
    return {
        "all by name": (True, (), {"topic": "orders", "value": b"v", "key": b"k", "partition": 0, "timestamp": None,
                                   "headers": [("a", b"b")], "on_completion": heard}),
        "headers as a dict": (True, ("orders", b"v"), {"headers": {"a": b"b"}}),
        "headers of a generator": (True, ("orders", b"v"), {"headers": (pair for pair in [("a", b"b")])}),
        "a time of 1970": (True, ("orders", b"v"), {"timestamp": OF_1970}),
        "a record of 1970": (True, (ProducerRecord("orders", b"v", timestamp=OF_1970),), {}),
        "a record": (True, (RECORD,), {}),
        "a record by name": (True, (), {"topic": RECORD}),
        "a record and its callback": (True, (RECORD, heard), {}),
        "a record and its callback by name": (True, (RECORD,), {"on_completion": heard}),
        "nothing": (False, (), {}),
        "too much": (False, ("orders", b"v", b"k"), {}),
        "a topic twice": (False, ("orders",), {"topic": "orders"}),
        "no topic": (False, (None, b"v"), {}),
        "an empty topic": (False, ("", b"v"), {}),
        "a foreign argument": (False, ("orders", b"v"), {"timestamp_ms": 1}),
        "a record with a foreign callback": (False, (RECORD,), {"on_delivery": heard}),
        "a record and a key": (False, (RECORD,), {"key": b"K", "on_completion": heard}),
        "a record and headers": (False, (RECORD,), {"headers": [("a", b"b")]}),
        "a record and a value": (False, (RECORD, b"v"), {}),
        "a record and two callbacks": (False, (RECORD, heard), {"on_completion": heard}),
        "a coroutine function": (False, ("orders", b"v"), {"on_completion": never_run}),
        "a record and a coroutine function": (False, (RECORD, never_run), {}),
        "the other order": (False, ("orders", b"v"), {"on_completion": of_other_order}),
        "no callable": (False, ("orders", b"v"), {"on_completion": 1}),
        "a negative partition": (False, ("orders", b"v"), {"partition": -1}),
        "no headers": (False, ("orders", b"v"), {"headers": 5}),
        "one header": (False, ("orders", b"v"), {"headers": ("a", b"b")}),
        "half a header": (False, ("orders", b"v"), {"headers": [("a",)]}),
        "a value that is none": (False, ("orders", 1.5), {}),
    }


def said(send: Callable[..., Any], arguments: tuple[Any, ...], named: dict[str, Any]) -> str:
    """What became of a call, in words."""
    try:
        return f"taken: {send(*arguments, **named).result(GIVE_UP_S).topic}"
    except Exception as error:
        return f"{type(error).__name__}: {error}"


@pytest.mark.parametrize("is_closed", [False, True], ids=["open", "closed"])
def test_send_when_it_is_measured_then_it_takes_and_refuses_what_it_does_without_in_the_same_words(
        broker: EmbeddedBroker, is_closed: bool) -> None:
    props = {"bootstrap.servers": broker.bootstrap_servers, "client.id": "app"}
    telemetry = Telemetry(broker)
    with KafkaProducer(props) as plain, telemetry.producer as measured:
        if is_closed:
            plain.close()
            measured.close()
        for name, (is_taken, *_) in calls().items():
            by_plain, by_measured = (said(send, *calls()[name][1:]) for send in (plain.send, measured.send))
            assert by_plain == by_measured, name
            assert by_plain.startswith("taken") == (is_taken and not is_closed), name
    stored = list(read_topic(broker.bootstrap_servers, "orders"))
    assert Counter(record.key for record in stored) == ({} if is_closed else {b"k": 10, None: 8})
    assert Counter(record.timestamp for record in stored if record.timestamp < 10**10) == (
        {} if is_closed else {OF_1970_MS: 4})


def test_callback_when_a_measured_record_is_refused_then_neither_its_key_nor_its_callback_is_lost(
        broker: EmbeddedBroker) -> None:
    telemetry, told = Telemetry(broker), []
    with telemetry.producer as producer:
        producer.send(RECORD, lambda metadata, _: told.append(metadata))
        producer.send("orders", key=b"K", on_completion=lambda metadata, _: told.append(metadata)).result(GIVE_UP_S)
    assert len(told) == 2
    assert [record.key for record in read_topic(broker.bootstrap_servers, "orders")] == [b"k", b"K"]
    assert [(span.attributes or {})["messaging.kafka.message.key"]
            for span in telemetry.spans.get_finished_spans()] == ["k", "K"]


@pytest.mark.parametrize(("arguments", "named"), [
    ((), {}), (("orders",), {}), (("orders", [b"v"], 1), {}), (("orders", [b"v"]), {"nonsense": 1}),
    ((None, [b"v"]), {}), (("orders", 5), {}), (("orders", [b"v"]), {"keys": []}),
    ((), {"topic": "orders", "values": [b"v"]}), (("orders", [1.5]), {})])
def test_send_batch_when_it_is_measured_then_it_takes_and_refuses_what_it_does_without_in_the_same_words(
        broker: EmbeddedBroker, arguments: tuple[Any, ...], named: dict[str, Any]) -> None:
    props = {"bootstrap.servers": broker.bootstrap_servers, "client.id": "app"}
    with KafkaProducer(props) as plain, Telemetry(broker).producer as measured:
        assert said(plain.send_batch, arguments, named) == said(measured.send_batch, arguments, named)


class Raising(SpanProcessor):
    """A processor whose exporter is full; it knows how many spans are open."""

    def __init__(self) -> None:
        self.open = 0

    def on_start(self, span: Span, parent_context: object = None) -> None:
        self.open += 1

    def on_end(self, span: ReadableSpan) -> None:
        self.open -= 1
        raise RuntimeError("exporter is full")


def test_callback_when_a_span_processor_raises_then_it_is_told_all_the_same(broker: EmbeddedBroker) -> None:
    telemetry, processor, told = Telemetry(broker), Raising(), []
    telemetry.tracers.add_span_processor(processor)
    with telemetry.producer as producer:
        producer.send("orders", b"v", on_completion=lambda metadata, error: told.append(error)).result(GIVE_UP_S)
        with pytest.raises(SerializationError):
            producer.send("orders", 1.5)
    assert told == [None]
    assert processor.open == 0


def test_span_when_the_propagator_raises_then_it_is_ended(
        broker: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    def inject(*_arguments: object, **_named: object) -> None:
        raise ValueError("propagator")

    monkeypatch.setattr("opentelemetry.propagate.inject", inject)
    telemetry = Telemetry(broker)
    with telemetry.producer as producer, pytest.raises(ValueError, match="propagator"):
        producer.send("orders", b"v")
    (span,) = telemetry.spans.get_finished_spans()
    assert span.attributes["error.type"] == "ValueError"


def test_send_when_headers_are_a_dict_or_rows_a_generator_then_taken_as_without_instrument(
        broker: EmbeddedBroker) -> None:
    telemetry = Telemetry(broker)
    with telemetry.producer as producer:
        producer.send("orders", b"v", headers={"a": b"b"}).result(GIVE_UP_S)
        producer.send_batch("orders", (b"%d" % number for number in range(2))).result(GIVE_UP_S)
    first, *others = read_topic(broker.bootstrap_servers, "orders")
    assert first.headers[0] == ("a", b"b")
    assert [record.value for record in others] == [b"0", b"1"]
    assert len(telemetry.spans.get_finished_spans()) == 2


def test_metrics_when_two_rows_of_a_batch_fail_then_two_are_counted_failed(broker: EmbeddedBroker) -> None:
    telemetry = Telemetry(broker)
    with telemetry.producer as producer:
        result = producer.send_batch("orders", [b"v"] * 100, partitions=[0] * 98 + [7] * 2).result(GIVE_UP_S)
        points = telemetry.points()["messaging.client.sent.messages"]
    assert list(result.errors) == [98, 99]
    assert sorted(("error.type" in point.attributes, point.value) for point in points) == [(False, 98), (True, 2)]


@pytest.mark.parametrize("interceptors", [[], [ProducerInterceptor()]], ids=["alone", "intercepted"])
@pytest.mark.parametrize("is_batch", [False, True], ids=["send", "send_batch"])
@pytest.mark.parametrize("is_heard", [False, True], ids=["nobody", "callback"])
def test_flush_when_a_record_failed_then_spans_are_nobody_who_looked(
        broker: EmbeddedBroker, interceptors: list[ProducerInterceptor], is_batch: bool, is_heard: bool) -> None:
    telemetry, told = Telemetry(broker, {"pyproducer.on.unretrieved": "raise", "interceptor.classes": interceptors}), []
    with telemetry.producer as producer:
        producer.partitions_for("orders")
        broker.faults.on("Produce", times=1).error(ErrorCode.INVALID_RECORD)
        if is_batch:
            future: Any = producer.send_batch("orders", [b"v"])
            if is_heard:
                future.add_done_callback(told.append)
        else:
            on_completion = (lambda metadata, _: told.append(metadata)) if is_heard else None
            producer.send("orders", b"v", on_completion=on_completion)
        with nullcontext() if is_heard else pytest.raises(DeliveryFailedError):
            producer.flush(GIVE_UP_S)
        assert len(told) == is_heard
    (span,) = telemetry.spans.get_finished_spans()
    assert (span.attributes or {})["error.type"] == "INVALID_RECORD"


def test_metrics_when_nobody_looked_at_failed_records_then_spans_are_nobody_who_did(broker: EmbeddedBroker) -> None:
    with Telemetry(broker, {"linger.ms": 0}).producer as producer:
        producer.partitions_for("orders")
        broker.faults.on("Produce", times=3).error(ErrorCode.INVALID_RECORD)
        producer.send("orders", b"v")
        producer.flush(GIVE_UP_S)
        producer.send_batch("orders", [b"v"])
        producer.flush(GIVE_UP_S)
        producer.send("orders", b"v", on_completion=lambda metadata, _: None)
    assert producer.metrics()["record-unretrieved-error-total"] == 2


def test_flush_when_send_returned_a_failed_future_then_spans_are_nobody_who_looked(broker: EmbeddedBroker) -> None:
    telemetry = Telemetry(broker, {"pyproducer.on.unretrieved": "raise", "max.block.ms": 1_000})
    with telemetry.producer as producer:
        producer.partitions_for("orders")
        assert producer.send("absent/topic", b"v").done(), "it has no name that a topic can have"
        with pytest.raises(DeliveryFailedError):
            producer.flush(GIVE_UP_S)
    (span,) = telemetry.spans.get_finished_spans()
    assert (span.attributes or {})["error.type"] == "INVALID_TOPIC_EXCEPTION"


def test_metrics_when_they_are_exported_then_producers_are_read_once(
        broker: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of some eighty instruments read all numbers of all producers: 13 s of an export with 100 topics."""
    telemetry, reads, read = Telemetry(broker), [], Registry.collect

    def collect(registry: Registry, now_ms: int) -> Iterator[Metric]:
        reads.append(now_ms)
        return read(registry, now_ms)

    monkeypatch.setattr(Registry, "collect", collect)
    monkeypatch.setattr(opentelemetry, "_SNAPSHOT_MS", 60_000)
    observe_all(meter_provider=telemetry.meters)
    with telemetry.producer as producer:
        for count in (1, 2):
            producer.send("orders", b"v").result(GIVE_UP_S)
            sent = telemetry.points()["kafka.producer.record_send_total"]
            assert [point.value for point in sent if point.attributes["client_id"] == "app"] == [count]
    assert len(reads) == 2


def test_instrument_when_the_package_is_missing_then_the_error_says_what_to_install(
        monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    producer: Any = SimpleNamespace()
    with pytest.raises(ImportError, match=r"pip install 'pyproducer\[opentelemetry\]'"):
        instrument(producer)
    with pytest.raises(ImportError, match=r"pip install 'pyproducer\[opentelemetry\]'"):
        observe_all()


# AsyncKafkaProducer ---------------------------------------------------------------------------------------------------

class InLoop:
    """An instrumented AsyncKafkaProducer, and what its spans say."""

    def __init__(self, broker: EmbeddedBroker, **props: object) -> None:
        self.telemetry = Telemetry(broker)
        self.telemetry.producer.close()
        self.plain = {"bootstrap.servers": broker.bootstrap_servers, "client.id": "loop", **props}
        self.producer: AsyncKafkaProducer[Any, Any] = self.telemetry.of(AsyncKafkaProducer(self.plain))

    @property
    def spans(self) -> list[ReadableSpan]:
        return list(self.telemetry.spans.get_finished_spans())

    @property
    def errors(self) -> list[object]:
        return [(span.attributes or {}).get("error.type") for span in self.spans]


def test_task_when_it_sends_in_each_way_then_each_has_a_span_below_the_tasks_own(broker: EmbeddedBroker) -> None:
    in_loop, told = InLoop(broker), []

    async def main() -> None:
        tracer = in_loop.telemetry.tracers.get_tracer("app")
        async with in_loop.producer as producer:
            with tracer.start_as_current_span("request"):
                await producer.send("orders", b"1", key=b"k")
                await producer.send(ProducerRecord("orders", b"2"), lambda metadata, _: told.append(metadata))
                await producer.send_nowait("orders", b"3", on_completion=lambda metadata, _: told.append(metadata))
                await producer.send_nowait(ProducerRecord("orders", b"4"))
                assert len(await producer.send_batch("orders", [b"5", b"6"])) == 2
        assert [metadata.offset for metadata in told] == [1, 2]

    asyncio.run(main())
    *sends, request = in_loop.spans
    assert [span.name for span in sends] == ["send orders"] * 5
    assert {span.parent.span_id if span.parent else None for span in sends} == {request.get_span_context().span_id}
    assert [(span.attributes or {}).get("messaging.kafka.offset") for span in sends] == [0, 1, 2, 3, None]
    assert (sends[4].attributes or {})["messaging.batch.message_count"] == 2
    headers = [dict(record.headers).get("traceparent") for record in read_topic(broker.bootstrap_servers, "orders")]
    assert [value and value.decode().split("-")[2] for value in headers] == [
        *(f"{span.get_span_context().span_id:016x}" for span in sends[:4]), None, None]
    sent = in_loop.telemetry.points()["messaging.client.sent.messages"]
    assert sum(point.value for point in sent) == 6


def test_task_when_its_record_fails_then_its_span_says_so_once_and_is_nobody_who_looked(
        broker: EmbeddedBroker) -> None:
    in_loop = InLoop(broker, **{"pyproducer.on.unretrieved": "raise", "linger.ms": 0})

    async def main() -> None:
        async with in_loop.producer as producer:
            await producer.partitions_for("orders")
            broker.faults.on("Produce", times=2).error(ErrorCode.INVALID_RECORD)
            with pytest.raises(KafkaError):
                await producer.send("orders", b"v")
            await producer.flush()
            producer.send_nowait("orders", b"v")
            with pytest.raises(DeliveryFailedError):
                await producer.flush()
            with pytest.raises(SerializationError):
                await producer.send("orders", 1.5)

    asyncio.run(main())
    assert in_loop.errors == ["INVALID_RECORD", "INVALID_RECORD", "SerializationError"]


def test_task_when_it_is_cancelled_then_its_span_ends_with_the_record(broker: EmbeddedBroker) -> None:
    in_loop = InLoop(broker, **{"buffer.memory": 40_000, "batch.size": 16_384})

    async def main() -> None:
        async with in_loop.producer as producer:
            await producer.partitions_for("orders")
            broker.faults.on("Produce", times=1).delay(1_000)
            tasks = [asyncio.ensure_future(producer.send("orders", bytes(15_000))) for _ in range(4)]
            await asyncio.sleep(0.05)
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
            assert all(task.cancelled() for task in tasks)
            with pytest.raises(BufferExhaustedError):
                producer.send_nowait("orders", bytes(15_000))
            assert in_loop.errors == ["BufferExhaustedError"] * 3, "the two that waited for memory, and the last one"

    asyncio.run(main())
    assert len(broker.records("orders")) == 2
    assert Counter(in_loop.errors) == {"BufferExhaustedError": 3, None: 2}
    sent = in_loop.telemetry.points()["messaging.client.sent.messages"]
    assert sum(point.value for point in sent) == 5


def test_task_when_it_is_measured_then_its_producer_takes_and_refuses_what_it_does_without_in_the_same_words(
        broker: EmbeddedBroker) -> None:
    in_loop = InLoop(broker)

    async def said_in_loop(send: Callable[..., Any], arguments: tuple[Any, ...], named: dict[str, Any]) -> str:
        try:
            return f"taken: {(await send(*arguments, **named)).topic}"
        except Exception as error:
            return f"{type(error).__name__}: {error}"

    async def main() -> None:
        async with AsyncKafkaProducer(in_loop.plain) as plain, in_loop.producer as measured:
            for way in ("send", "send_nowait"):
                for name, (is_taken, *_) in calls().items():
                    by_plain, by_measured = [await said_in_loop(getattr(producer, way), *calls()[name][1:])
                                             for producer in (plain, measured)]
                    assert by_plain == by_measured, (way, name)
                    assert by_plain.startswith("taken") == is_taken, (way, name)

    asyncio.run(main())
    assert len(broker.records("orders")) == 4 * 9


def test_instrument_when_it_is_no_producer_with_a_broker_then_the_error_says_what_is_taken() -> None:
    for producer in (MockProducer(), MockProducer().as_async(), None):
        with pytest.raises(TypeError, match=r"takes a KafkaProducer or an AsyncKafkaProducer, got .*EmbeddedBroker"):
            instrument(producer)  # type: ignore[type-var]  # a checker finds it, too


def test_metrics_when_read_then_durations_are_measured_and_all_numbers_observed(broker: EmbeddedBroker) -> None:
    telemetry = Telemetry(broker)
    observe_all(meter_provider=telemetry.meters)
    with telemetry.producer as producer:
        for _ in range(4):
            producer.send("orders", b"v").result(GIVE_UP_S)
        points = telemetry.points()
        numbers = {opentelemetry.title_of(metric.group, metric.name) for metric in all_metrics()
                   if metric.kind is not Kind.WINDOW}
    (duration,) = points["messaging.client.operation.duration"]
    assert duration.count == 4
    assert duration.attributes["messaging.destination.partition.id"] == "0"
    assert {point.attributes["client_id"]: point.value for point in points["kafka.producer.record_send_total"]} == {
        "app": 4}
    assert {point.attributes["topic"]: point.value for point in points["kafka.producer.topic.record_send_total"]} == {
        "orders": 4}
    assert points["kafka.producer.partition.leader"][0].value == 1
    assert points["kafka.producer.app.info"][0].attributes["version"] == __version__
    assert numbers <= points.keys()
