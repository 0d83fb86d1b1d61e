"""Numbers as OpenTelemetry's protocol says them: what brokers get that ask for a client's metrics (KIP-714).

Names are Kafka's for that: org.apache.kafka.producer.node.request.total. Totals are sums, since the producer was made
or since the last push, as the broker wants; all else are gauges.

Road:    registry -> [otlp] -> sender/telemetry.py
Thread:  sender thread only.
Source:  KIP-714; Java TelemetryMetricNamingConvention, KafkaMetricsCollector, SinglePointMetric (4.1). The package
         opentelemetry-proto has the messages.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from importlib.util import find_spec
from typing import Any

from pyproducer.observe.catalog import PARTITION, Kind
from pyproducer.observe.registry import Metric

_PREFIX = "org.apache.kafka."
_LEFT_OUT = ("client-id",)  # brokers know it of the request
_ALL = ""


def is_available() -> bool:
    """Whether the package with the messages is here."""
    try:
        return find_spec("opentelemetry.proto.metrics.v1") is not None
    except ModuleNotFoundError:
        return False


def load() -> None:
    """Load the messages; they take some 15 ms, and no other thread than the caller's is to load them."""
    from opentelemetry.proto.metrics.v1 import metrics_pb2  # noqa: F401 - kept by Python


Totals = dict[tuple[str, str, tuple[tuple[str, str], ...]], tuple[float, int]]
"""By group, name and tags of a total: what it was, and when, ns since 1970."""


class Told:
    """What each total was when it was told last, and when: from there on its next delta counts.

    Args:
        began_ns: When totals began, ns since 1970.

    Attributes:
        began_ns: As given.
        values: Of each that there is; of those that nobody wanted yet 0, since they were seen.
        at_ns: When any was told last.
    """

    def __init__(self, began_ns: int) -> None:
        self.began_ns: int = began_ns
        self.values: Totals = {}
        self.at_ns: int = began_ns
        self._before: tuple[Totals, int] = self.values, began_ns

    def tell(self, values: Totals, now_ns: int) -> None:
        """Note what is on its way."""
        self._before = self.values, self.at_ns
        self.values, self.at_ns = values, now_ns

    def take_back(self) -> None:
        """Nobody took what was told last: the next one tells it."""
        self.values, self.at_ns = self._before


class OtlpWriter:
    """Writes the numbers that a broker asked for.

    Args:
        requested: Prefixes of names; "*" or an empty one is all, none at all is nothing.
        is_delta: Whether totals are told as what came since the last push.
        told: What was told before.
    """

    def __init__(self, requested: Sequence[str], *, is_delta: bool, told: Told) -> None:
        # Kafka 4 says all as "*", the KIP as "".
        self._requested = (_ALL,) if "*" in requested else tuple(requested)
        self._is_delta = is_delta
        self._told = told

    def write(self, metrics: Iterable[Metric], now_ns: int) -> tuple[bytes, Totals]:
        """Return the bytes of a MetricsData, and what is told once they are on their way."""
        from opentelemetry.proto.metrics.v1 import metrics_pb2

        data = metrics_pb2.MetricsData()
        scope = data.resource_metrics.add().scope_metrics.add()
        by_name: dict[str, Any] = {}
        told, telling = self._told, {}
        for metric in metrics:
            if metric.group == PARTITION:
                continue
            name = otlp_name(metric.group, metric.name)
            is_total = metric.kind is Kind.TOTAL
            is_wanted = name.startswith(self._requested)
            value = float(metric.value)
            if is_total:
                key = metric.group, metric.name, tuple(sorted(metric.tags.items()))
                last, since_ns = before = told.values.get(key, (0.0, told.at_ns))
                telling[key] = (value, now_ns) if is_wanted else before
                if self._is_delta:
                    value = value - last if value >= last else value  # its row began anew
            if not is_wanted:
                continue
            found = by_name.get(name)
            if found is None:
                found = by_name[name] = scope.metrics.add()
                found.name, found.description = name, metric.text
                if is_total:
                    found.sum.is_monotonic = True
                    found.sum.aggregation_temporality = (
                        metrics_pb2.AGGREGATION_TEMPORALITY_DELTA if self._is_delta
                        else metrics_pb2.AGGREGATION_TEMPORALITY_CUMULATIVE)
            point = (found.sum if is_total else found.gauge).data_points.add()
            point.time_unix_nano = now_ns
            if is_total:
                # The wall's clock may have gone back.
                point.start_time_unix_nano = min(since_ns if self._is_delta else told.began_ns, now_ns)
            point.as_double = value
            for tag, text in metric.tags.items():
                if tag not in _LEFT_OUT:
                    attribute = point.attributes.add()
                    attribute.key, attribute.value.string_value = tag.replace("-", "_"), text
        return data.SerializeToString(), telling


def otlp_name(group: str, name: str) -> str:
    """Return Kafka's name of a number for telemetry."""
    return f"{_PREFIX}{group.removesuffix('-metrics').replace('-', '.')}.{name.replace('-', '.')}"
