"""All producers of this process, for Prometheus.

    from prometheus_client import REGISTRY, start_http_server
    REGISTRY.register(PrometheusCollector()); start_http_server(8000)

Names are Java's with underscores: group producer-metrics is kafka_producer_*, producer-node-metrics
kafka_producer_node_*, and so on. Rates, means and percentiles are left out, for Prometheus makes them of totals and
histograms; the histograms are in seconds, as its users expect.

Road:    registry -> [prometheus] -> prometheus_client
Thread:  whichever scrapes.
Source:  prometheus_client's custom collectors. No producer is kept alive by it, and one that is closed is gone;
         one whose sender thread died is there until then.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from pyproducer.common.public import public
from pyproducer.observe.catalog import APP, ERROR, NODE, PARTITION, PRODUCER, TOPIC, Kind
from pyproducer.observe.window import ENDS, Distribution, View
from pyproducer.producer.metrics import runtimes_by_name

if TYPE_CHECKING:
    from prometheus_client.core import Metric as Family

_PREFIX = {PRODUCER: "kafka_producer_", NODE: "kafka_producer_node_", TOPIC: "kafka_producer_topic_",
           PARTITION: "kafka_producer_partition_", ERROR: "kafka_producer_error_", APP: "kafka_producer_app_"}
_HISTOGRAMS = {
    PRODUCER: (("request_latency_seconds", "latency", "from handing a Produce request over until its answer"),
               ("record_queue_time_seconds", "queue", "from a batch's first record until it was sent"),
               ("record_delivery_time_seconds", "delivery", "from a batch's first record until its outcome was told")),
    NODE: (("request_latency_seconds", "latency", "from handing a Produce request over until its answer"),),
    TOPIC: (("record_delivery_time_seconds", "delivery", "from a batch's first record until its outcome was told"),),
}
_BOUNDS = tuple(2**power - 1 for power in range(1, 18))
"""In ms; each is the end of a bucket, so that nothing is guessed. The last is about two minutes."""


@public
class PrometheusCollector:
    """Collects the numbers of all producers of this process; `prometheus_client` is asked for when it is used.

    Producers of the same client.id are told apart by a number behind it: "app", "app#2". Each keeps its own as
    long as it lives, so that no series goes on as that of another.

    Raises:
        ImportError: prometheus_client is not installed: pip install 'pyproducer[prometheus]'.
    """

    def describe(self) -> list[Family]:
        """Return nothing, so that registering asks no producer."""
        return []

    def collect(self) -> Iterator[Family]:
        """Yield the families, each with a sample for each producer, node, topic or partition."""
        try:
            from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
        except ImportError as error:
            raise ImportError("prometheus_client is not installed: pip install 'pyproducer[prometheus]'") from error

        families: dict[str, Any] = {}
        for name, runtime in runtimes_by_name():
            registry, now_ms = runtime.registry, runtime.clock.now_ms()
            for metric in registry.collect(now_ms):
                if metric.kind is Kind.WINDOW:
                    continue
                title = _PREFIX[metric.group] + metric.name.replace("-", "_")
                tags = {**metric.tags, "client-id": name}
                family = families.get(title)
                if family is None:
                    kind = CounterMetricFamily if metric.kind is Kind.TOTAL else GaugeMetricFamily
                    family = families[title] = kind(title, metric.text, labels=[_label(key) for key in tags])
                family.add_metric(list(tags.values()), metric.value)
            of_producer, of_nodes, of_topics = registry.views(now_ms)
            own = {"client-id": name}
            views: list[tuple[str, Mapping[str, str], View]] = [
                (PRODUCER, own, of_producer),
                *((NODE, {**own, "node-id": f"node-{node_id}"}, view) for node_id, view in of_nodes.items()),
                *((TOPIC, {**own, "topic": topic}, view) for topic, view in of_topics.items())]
            for group, labels, view in views:
                for short, field, text in _HISTOGRAMS[group]:
                    title = _PREFIX[group] + short
                    family = families.get(title)
                    if family is None:
                        family = families[title] = HistogramMetricFamily(
                            title, text, labels=[_label(key) for key in labels])
                    values = view.whole(field)
                    family.add_metric(list(labels.values()), _buckets(values), values.total / 1000)
        yield from families.values()


def _label(tag: str) -> str:
    return tag.replace("-", "_")


def _buckets(values: Distribution) -> list[tuple[str, float]]:
    """Return how many values are not above each bound, which is in seconds here."""
    found: list[tuple[str, float]] = []
    seen, index = 0, 0
    for bound in _BOUNDS:
        while index < len(ENDS) and ENDS[index] <= bound:
            seen += values.counts[index]
            index += 1
        found.append((str(bound / 1000), seen))
    found.append(("+Inf", sum(values.counts)))
    return found
