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


class OtlpWriter:
    """Writes the numbers that a broker asked for.

    Args:
        requested: Prefixes of names; "*" or an empty one is all, none at all is nothing.
        is_delta: Whether totals are told as what came since the last push.
        began_ns: When totals began, ns since 1970.
    """

    def __init__(self, requested: Sequence[str], *, is_delta: bool, began_ns: int) -> None:
        # Kafka 4 says all as "*", the KIP as "".
        self._requested = (_ALL,) if "*" in requested else tuple(requested)
        self._is_delta = is_delta
        self._began_ns = began_ns
        self._last: dict[tuple[str, str, tuple[tuple[str, str], ...]], float] = {}
        self._last_ns = began_ns

    def write(self, metrics: Iterable[Metric], now_ns: int) -> bytes:
        """Return the bytes of a MetricsData."""
        from opentelemetry.proto.metrics.v1 import metrics_pb2

        data = metrics_pb2.MetricsData()
        scope = data.resource_metrics.add().scope_metrics.add()
        by_name: dict[str, Any] = {}
        before, seen = self._last, {}
        for metric in metrics:
            name = otlp_name(metric.group, metric.name)
            if metric.group == PARTITION or not name.startswith(self._requested):
                continue
            found = by_name.get(name)
            if found is None:
                found = by_name[name] = scope.metrics.add()
                found.name, found.description = name, metric.text
                if metric.kind is Kind.TOTAL:
                    found.sum.is_monotonic = True
                    found.sum.aggregation_temporality = (
                        metrics_pb2.AGGREGATION_TEMPORALITY_DELTA if self._is_delta
                        else metrics_pb2.AGGREGATION_TEMPORALITY_CUMULATIVE)
            is_total = metric.kind is Kind.TOTAL
            point = (found.sum if is_total else found.gauge).data_points.add()
            point.time_unix_nano = now_ns
            value = float(metric.value)
            if is_total:
                point.start_time_unix_nano = self._last_ns if self._is_delta else self._began_ns
                if self._is_delta:
                    key = metric.group, metric.name, tuple(sorted(metric.tags.items()))
                    last = before.get(key, 0.0)
                    seen[key], value = value, value - last if value >= last else value  # its row began anew
            point.as_double = value
            for tag, text in metric.tags.items():
                if tag not in _LEFT_OUT:
                    attribute = point.attributes.add()
                    attribute.key, attribute.value.string_value = tag.replace("-", "_"), text
        self._last_ns, self._last = now_ns, seen
        written: bytes = data.SerializeToString()
        return written


def otlp_name(group: str, name: str) -> str:
    """Return Kafka's name of a number for telemetry."""
    return f"{_PREFIX}{group.removesuffix('-metrics').replace('-', '.')}.{name.replace('-', '.')}"
