"""Brokers that ask clients for their metrics (KIP-714): what they want, and what no correct client pushes.

    GetTelemetrySubscriptions 0    gives an id to who has none, and says what is wanted and how often
    PushTelemetry 0                by that id: the numbers under Kafka's names, not before they are due

Thread:  whoever steps the model.
Source:  KIP-714; Kafka's ClientMetricsManager (4.1): the first push comes half an interval to one and a half after the
         subscription, the next ones an interval after each other, and the last one at any time.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from tests.simulation.model_batch import bug, expand

UNKNOWN_SUBSCRIPTION_ID = 117
SENT_TOTAL = "org.apache.kafka.producer.record.send.total"
_CODECS = (1, 2, 3, 4)
_NO_ID = UUID(int=0)


@dataclass(frozen=True)
class Wanted:
    """What the brokers of a cluster want.

    Attributes:
        interval_ms: How often.
        most_bytes: Of one push, compressed.
        accepted: Numbers of codecs, the dearest first; clients may not know all.
        prefixes: Of names; an empty one, or "*", is all, none at all is nothing.
        is_delta: Whether totals are told as what came since the last push.
        slack_ms: So much earlier than it looks may a push be due: who gives a request up counts from then on, and it
            may arrive all the same.
    """

    interval_ms: int
    most_bytes: int
    accepted: tuple[int, ...]
    prefixes: tuple[str, ...]
    is_delta: bool
    slack_ms: int


class Instance:
    """A client, by the id that it was given.

    Attributes:
        push_count: How many pushes were taken.
        sent_total: What it told in all of the records that it sent, to every topic together.
        has_ended: Whether the push that was taken last was to be the last one of all.
    """

    def __init__(self) -> None:
        self.push_count = 0
        self.sent_total = 0.0
        self.has_ended = False
        self.subscription_id = -1
        self.subscribed_ms = 0
        self.pushed_ms: int | None = None  # with this subscription, last
        self.ended_on: Hashable = None


class ModelTelemetry:
    """The receiver of metrics of a cluster.

    Args:
        wanted: What it wants.

    Attributes:
        instances: All there are.
        request_count: How many requests came.
        slack_ms: See Wanted; and for how long processes stood still, with requests on their way.
    """

    def __init__(self, wanted: Wanted) -> None:
        self.wanted = wanted
        self.instances: dict[UUID, Instance] = {}
        self.request_count = 0
        self.slack_ms = wanted.slack_ms
        self._subscriptions = 0
        self._given_on: set[Hashable] = set()  # connections by which an id was given

    def subscribe(self, body: Mapping[str, Any], refusal: int, connection: Hashable, now_ms: int) -> dict[str, Any]:
        """Answer GetTelemetrySubscriptions, with an error code if there is one."""
        self.request_count += 1
        wanted, instance_id = self.wanted, body["client_instance_id"]
        instance = self.instances.get(instance_id)
        if instance is None and instance_id != _NO_ID:
            bug(f"GetTelemetrySubscriptions has the id {instance_id}, which was given to nobody")
        if instance is not None:
            self._expect_life(instance, "GetTelemetrySubscriptions", connection)
        elif connection is not None and connection in self._given_on:
            bug("GetTelemetrySubscriptions asks for an id, which was given by the same connection")
        answer = {"error_code": refusal, "client_instance_id": instance_id, "subscription_id": 0,
                  "accepted_compression_types": [], "push_interval_ms": 0, "telemetry_max_bytes": 0,
                  "delta_temporality": False, "requested_metrics": []}
        if refusal:
            return answer
        if instance is None:
            self._given_on.add(connection)
            instance_id = UUID(int=1000 + len(self.instances))
            instance = self.instances[instance_id] = Instance()
        self._subscriptions += 1
        instance.subscription_id = self._subscriptions
        instance.subscribed_ms = now_ms
        instance.pushed_ms = None
        return answer | {
            "client_instance_id": instance_id, "subscription_id": instance.subscription_id,
            "accepted_compression_types": list(wanted.accepted), "push_interval_ms": wanted.interval_ms,
            "telemetry_max_bytes": wanted.most_bytes, "delta_temporality": wanted.is_delta,
            "requested_metrics": list(wanted.prefixes)}

    def push(self, body: Mapping[str, Any], refusal: int, connection: Hashable, now_ms: int) -> dict[str, Any]:
        """Answer PushTelemetry, with an error code if there is one; `connection` is None for what comes late."""
        self.request_count += 1
        wanted, instance = self.wanted, self.instances.get(body["client_instance_id"])
        if instance is None:
            bug(f"PushTelemetry has the id {body['client_instance_id']}, which was given to nobody")
        self._expect_life(instance, "PushTelemetry", connection)
        if not wanted.prefixes:
            bug("PushTelemetry came from who was told that nothing is wanted")
        if body["subscription_id"] != instance.subscription_id:
            return {"error_code": UNKNOWN_SUBSCRIPTION_ID}  # the answer that named the present one was lost
        if connection is not None and not body["terminating"]:
            since_ms, least_ms = instance.subscribed_ms, wanted.interval_ms // 2
            if instance.pushed_ms is not None:
                since_ms, least_ms = instance.pushed_ms, wanted.interval_ms
            if now_ms - since_ms < least_ms - self.slack_ms:
                bug(f"PushTelemetry came {now_ms - since_ms} ms after the last one, of an interval of "
                    f"{wanted.interval_ms} ms")
        numbers = self._read(body)
        if connection is not None:
            instance.pushed_ms = now_ms
        if body["terminating"]:
            instance.ended_on = connection
        if refusal:
            if refusal == UNKNOWN_SUBSCRIPTION_ID:
                self._subscriptions += 1
                instance.subscription_id = self._subscriptions
            return {"error_code": refusal}
        instance.push_count += 1
        instance.has_ended = body["terminating"]
        sent = numbers.get(SENT_TOTAL)
        if sent is not None:
            if not wanted.is_delta and connection is not None and sent < instance.sent_total:
                bug(f"PushTelemetry says that {sent} records were sent in all, after {instance.sent_total}")
            instance.sent_total = instance.sent_total + sent if wanted.is_delta else max(instance.sent_total, sent)
        return {"error_code": 0}

    @staticmethod
    def _expect_life(instance: Instance, what: str, connection: Hashable) -> None:
        if connection is not None and instance.ended_on == connection:
            bug(f"{what} came behind the last PushTelemetry, by the same connection")

    def _read(self, body: Mapping[str, Any]) -> dict[str, float]:
        """Return the numbers of a push that are told once; of those with attributes the last."""
        # As in the receivers of brokers: the package is theirs.
        from opentelemetry.proto.metrics.v1 import metrics_pb2

        wanted, codec, data = self.wanted, body["compression_type"], bytes(body["metrics"])
        known = next((number for number in wanted.accepted if number in _CODECS), 0)
        if codec != known:
            bug(f"PushTelemetry is compressed by {codec}, where {wanted.accepted} are accepted")
        if len(data) > wanted.most_bytes:
            bug(f"PushTelemetry has {len(data)} bytes, and {wanted.most_bytes} are taken")
        metrics = metrics_pb2.MetricsData()
        metrics.ParseFromString(expand(codec, data) if codec else data)
        found: dict[str, float] = {}
        prefixes = tuple("" if prefix == "*" else prefix for prefix in wanted.prefixes)
        for resource in metrics.resource_metrics:
            for metric in (one for scope in resource.scope_metrics for one in scope.metrics):
                if not metric.name.startswith(prefixes):
                    bug(f"PushTelemetry tells of {metric.name}, where {wanted.prefixes} is wanted")
                if metric.HasField("sum"):
                    is_delta = metric.sum.aggregation_temporality == metrics_pb2.AGGREGATION_TEMPORALITY_DELTA
                    if is_delta is not wanted.is_delta:
                        bug(f"PushTelemetry tells {metric.name} as {'a delta' if is_delta else 'a total'}")
                for point in (metric.sum if metric.HasField("sum") else metric.gauge).data_points:
                    if metric.HasField("sum") and point.as_double < 0:
                        bug(f"PushTelemetry says that {metric.name} is {point.as_double}")
                    found[metric.name] = point.as_double
        if "org.apache.kafka.producer.".startswith(prefixes) and SENT_TOTAL not in found:
            bug(f"PushTelemetry, where {wanted.prefixes} is wanted, says nothing of {SENT_TOTAL}")
        return found
