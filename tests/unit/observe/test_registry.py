"""Windows, rows, names: what metrics() is made of."""

from __future__ import annotations

import itertools
from functools import partial

import pytest

from pyproducer import KafkaTimeoutError, SerializationError
from pyproducer.common.error_codes import error_for_code
from pyproducer.hotpath import COLUMNS
from pyproducer.observe.catalog import ERROR, NODE, OF_NODE, OF_PRODUCER, OF_TOPIC, TOPIC, Kind
from pyproducer.observe.history import FIELDS, MINUTES, SECONDS
from pyproducer.observe.registry import MOST_NODES, OTHER_NODES, STORIES, Registry, count_error

LIMIT_BYTES = 256 * 1024


def test_names_when_nothing_happened_then_all_are_there_and_0() -> None:
    registry = Registry("c")
    assert set(registry.of_producer(0)) == {definition.name for definition in OF_PRODUCER}
    assert set(registry.of_producer(10).values()) == {0}
    registry.node(1)
    assert set(registry.of_nodes(10)[1]) == {definition.name for definition in OF_NODE}
    registry.ledger.topic_row("t")
    assert set(registry.of_topics(10)["t"].values()) == {0}


@pytest.mark.parametrize("definitions", [OF_PRODUCER, OF_NODE, OF_TOPIC])
def test_catalog_when_read_then_names_are_unique_and_all_but_totals_are_of_the_last_windows(
        definitions: tuple) -> None:
    """What scrapes a producer gets totals and histograms, and makes its own rates and means of them."""
    names = [definition.name for definition in definitions]
    assert len(set(names)) == len(names)
    assert {definition.name: definition.kind for definition in definitions} == {
        name: Kind.TOTAL if name.endswith("-total") else Kind.WINDOW for name in names}


def test_rate_when_windows_pass_then_it_is_of_the_last_two() -> None:
    registry = Registry("c", num_samples=2, window_ms=1000, now_ms=0)
    node = registry.node(1)
    for second in range(1, 6):
        for _ in range(10 * second):
            node.on_request(100)
        registry.roll(1000 * second)
    values = registry.of_nodes(5000)[1]
    assert values["request-total"] == 150
    assert values["request-rate"] == 50  # of the window that began at 4000, where the oldest of two samples is
    assert registry.of_nodes(60_000)[1]["request-rate"] == 0


def test_maximum_when_its_window_is_over_then_it_is_forgotten() -> None:
    registry = Registry("c", num_samples=2, window_ms=1000, now_ms=0)
    node = registry.node(1)
    node.on_request(900)
    node.latency.add(77)
    registry.ledger.topic_row("t").delivery.add(66)
    registry.live_topics(lambda: {"t"})
    registry.roll(1000)
    node.on_request(30)
    assert registry.of_nodes(1500)[1]["request-size-max"] == 900
    assert registry.of_producer(1500)["request-latency-max"] == 77
    assert registry.of_topics(1500)["t"]["record-delivery-time-max"] == 66
    registry.roll(2000)
    registry.roll(3000)
    registry.roll(4000)
    assert registry.of_nodes(4000)[1]["request-size-max"] == 0
    assert registry.of_topics(4000)["t"]["record-delivery-time-max"] == 0


def test_requests_of_the_producer_when_counted_then_all_kinds_are_as_in_java_and_produce_by_itself() -> None:
    """request-total had Produce requests only, beside answers, bytes and sizes of requests of any kind."""
    registry = Registry("c")
    registry.producer.request_total += 2
    for node_id, count in ((1, 3), (2, 4)):
        for _ in range(count):
            registry.node(node_id).on_request(10)
            registry.node(node_id).on_answer(1, 10, 0)
    values = registry.of_producer(1000)
    assert values["request-total"] == values["response-total"] == values["request-rate"] == 7
    assert values["produce-request-total"] == values["produce-request-rate"] == 2
    assert values["request-size-avg"] * values["request-total"] == values["outgoing-byte-total"]


def test_shares_when_times_were_counted_then_they_are_javas_ratios_and_means() -> None:
    """Boards that are made for Java's names had nothing for them: io-ratio, bufferpool-wait-ratio and their like."""
    registry = Registry("c")
    registry.producer.select_total, registry.producer.io_wait_ms_total, registry.producer.turn_ms_total = 4, 300, 100
    registry.buffer_wait_ms = lambda: 500
    registry.errors["BufferExhaustedError"] = 2
    registry.node(1).on_request(10)
    registry.node(1).on_answer(1, 10, 0)
    values = registry.of_producer(1000)
    assert (values["io-wait-ratio"], values["io-ratio"], values["bufferpool-wait-ratio"]) == (0.3, 0.1, 0.5)
    assert (values["io-wait-time-ns-avg"], values["io-time-ns-avg"]) == (75_000_000, 25_000_000)
    assert values["bufferpool-wait-time-ns-total"] == 500_000_000
    assert values["buffer-exhausted-total"] == values["buffer-exhausted-rate"] == 2
    assert values["network-io-total"] == values["network-io-rate"] == 2


def test_latency_and_throttle_when_requests_of_other_kinds_are_answered_then_they_are_javas() -> None:
    """Quick answers to Metadata made the latency smaller than Java's; the mean throttle was of the throttled alone."""
    registry = Registry("c")
    node = registry.node(1)
    for throttle_ms in (0, 0, 0, 80):
        node.on_answer(1, 10, throttle_ms)
    node.latency.add(40)  # of the one that was Produce, which its completion adds
    values = registry.of_producer(1000)
    assert (values["request-latency-avg"], values["request-latency-max"]) == (40, 40)
    assert (values["produce-throttle-time-avg"], values["produce-throttle-time-max"]) == (20, 80)


def test_percentiles_when_one_answer_of_a_hundred_is_slow_then_p50_does_not_know_and_p999_does() -> None:
    registry = Registry("c")
    for latency_ms in [5] * 99 + [400]:
        registry.node(1).latency.add(latency_ms)
    values = registry.of_producer(1000)
    assert values["request-latency-p50"] == values["request-latency-p99"] == 5
    assert values["request-latency-p999"] == values["request-latency-max"] == 400


@pytest.mark.parametrize("latencies_ms", [(400, 5), (5, 400)])
def test_maximum_of_the_producer_when_nodes_differ_then_it_is_the_slowest_ones(latencies_ms: tuple[int, int]) -> None:
    registry = Registry("c")
    for node_id, latency_ms in enumerate(latencies_ms):
        registry.node(node_id).latency.add(latency_ms)
    values = registry.of_producer(1000)
    assert (values["request-latency-max"], values["request-latency-avg"]) == (400, 202.5)


def test_errors_when_counted_then_by_kafkas_name_or_the_class() -> None:
    registry = Registry("c")
    count = partial(count_error, registry.errors, registry.producer, registry.ledger, is_accepted=True)
    count("t", error_for_code(19), 3)
    count("t", KafkaTimeoutError("late", phase="delivery"), 2)
    registry.count_retry(("t", 0), error_for_code(6), 5)
    count("u", error_for_code(500), 1)  # of a broker that is newer than this table
    assert registry.errors == {"NOT_ENOUGH_REPLICAS": 3, "KafkaTimeoutError": 2, "UNKNOWN_CODE_500": 1}
    assert registry.retries == {"NOT_LEADER_OR_FOLLOWER": 5}
    assert registry.of_topics(0)["t"]["record-error-total"] == 5
    assert registry.of_topics(0)["t"]["record-retry-total"] == registry.of_producer(0)["record-retry-total"] == 5
    found = {(metric.name, metric.tags["error"]): metric.value for metric in registry.collect(0)
             if metric.group == ERROR}
    assert found[("record-error-total", "NOT_ENOUGH_REPLICAS")] == 3


def test_errors_when_a_call_raised_then_they_are_the_producers_and_no_topics() -> None:
    registry = Registry("c")
    partial(count_error, registry.errors, registry.producer, registry.ledger, is_accepted=False)(
        "t", error_for_code(10), 3)
    registry.count_raised(error_for_code(10))
    registry.count_raised(SerializationError("no bytes"))
    assert registry.all_errors() == {"MESSAGE_TOO_LARGE": 4, "SerializationError": 1}
    assert registry.of_producer(0)["record-error-total"] == 5
    assert registry.of_topics(0)["t"]["record-error-total"] == 3
    assert {metric.tags["error"]: metric.value for metric in registry.collect(0)
            if metric.group == ERROR and metric.name == "record-error-total"} == registry.all_errors()


def test_topics_when_metadata_forgets_one_then_its_row_goes() -> None:
    registry = Registry("c", window_ms=1000)
    for topic in ("busy", "idle"):
        registry.ledger.topic_row(topic).record_send_total += 1
    registry.live_topics(lambda: {"busy"})
    assert set(registry.of_topics(0)) == {"busy", "idle"}
    registry.roll(1000)
    assert set(registry.of_topics(1000)) == {"busy"}
    assert set(registry._of_topics) == {"busy"}, "nor are samples kept of what nobody can read"


def test_topics_when_a_reader_meets_the_end_of_a_row_then_the_next_row_is_read() -> None:
    """The reader made windows for the topic that the sender had just forgotten, over a row of nobody, and they stayed:
    when the topic was used again its numbers were 0 for ever."""
    registry, live = Registry("c", window_ms=1000), {"a", "b"}
    for topic in ("a", "b"):
        registry.ledger.topic_row(topic).record_error_total += 1
    registry.live_topics(lambda: live)
    reading = registry.collect(10)
    next(metric for metric in reading if metric.tags.get("topic") == "a")
    live.discard("b")
    registry.roll(1000)
    assert {metric.value for metric in reading if metric.tags.get("topic") == "b"} <= {0}
    live.add("b")
    registry.ledger.topic_row("b").record_error_total += 7
    assert registry.of_topics(1500)["b"]["record-error-total"] == 7
    registry.roll(2000)
    registry.ledger.topic_row("b").record_error_total += 7
    assert registry.of_topics(2500)["b"]["record-error-total"] == 14


def test_topics_when_a_row_is_replaced_behind_a_reader_then_its_windows_are_those_of_the_new_row() -> None:
    registry = Registry("c", window_ms=1000)
    registry.ledger.topic_row("t").record_error_total += 5
    assert registry.of_topics(0)["t"]["record-error-total"] == 5
    del registry.ledger.topics["t"]
    registry.ledger.topic_row("t").record_error_total += 2
    assert registry.of_topics(0)["t"]["record-error-total"] == 2


def test_nodes_when_there_are_more_than_allowed_then_the_others_share_a_row() -> None:
    registry = Registry("c")
    for number in range(MOST_NODES + 5):
        registry.node(number).on_request(1)
    assert len(registry.nodes()) == MOST_NODES + 1
    assert registry.nodes()[OTHER_NODES].request_total == 5


def test_collect_when_read_then_tags_are_javas() -> None:
    registry = Registry("app")
    registry.node(7)
    registry.ledger.topic_row("t")
    tags = {metric.group: dict(metric.tags) for metric in registry.collect(0)}
    assert tags[NODE] == {"client-id": "app", "node-id": "node-7"}
    assert tags[TOPIC] == {"client-id": "app", "topic": "t"}


def test_memory_when_added_up_then_ring_and_history_are_below_256_kib() -> None:
    story_bytes = 4 * len(COLUMNS) + 8 + 8  # its end, and a reference to its partition
    span_bytes = 4 * len(FIELDS) + 8
    assert STORIES * story_bytes + (SECONDS + MINUTES) * span_bytes <= LIMIT_BYTES


def test_history_when_time_passes_then_it_has_seconds_and_before_them_minutes() -> None:
    registry = Registry("c", now_ms=0)
    for second in range(1, 301):
        registry.producer.record_error_total += 1
        registry.roll(1000 * second)
    spans = registry.history.spans(300_500, registry.ledger, registry.producer)
    assert sum(span.sums["errors"] for span in spans) + spans[0].from_ms // 1000 == 300
    assert all(before.to_ms == after.from_ms for before, after in itertools.pairwise(spans))
    assert {span.to_ms - span.from_ms for span in spans[:2]} == {60_000}
