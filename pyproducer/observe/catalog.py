"""Every number under its name: where it comes from, what it counts, and in which unit.

Names, groups and tags are Java's where Java has the number. What Java has and is not here: docs/metrics.md.

Road:    window -> [catalog] -> registry, doors, docs/metrics.md
Thread:  constants.
Source:  Java SenderMetricsRegistry, KafkaProducerMetrics, Selector.SelectorMetrics (4.1). Percentiles, ages and what
         says "ours" in its text are ours.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import NamedTuple

from pyproducer.common.public import public
from pyproducer.observe.window import View

PRODUCER = "producer-metrics"
NODE = "producer-node-metrics"
TOPIC = "producer-topic-metrics"
PARTITION = "producer-partition-metrics"
ERROR = "producer-error-metrics"
APP = "app-info"
"""The groups. PARTITION and ERROR are ours: what waits now by partition, and failures and retries by error."""


@public
class Kind(Enum):
    """What may be done with a number."""

    TOTAL = "total"    # it only grows: its rate means something
    GAUGE = "gauge"    # it is as it is now
    WINDOW = "window"  # a rate, a mean, a maximum or a percentile of the last windows: nothing is to be made of it


class Definition(NamedTuple):
    """One number.

    Attributes:
        name: Its name.
        kind: See Kind.
        text: What it is, with its unit.
        read: Computes it of a row.
    """

    name: str
    kind: Kind
    text: str
    read: Callable[[View], float]


def _total(name: str, text: str, field: str, factor: int = 1) -> list[Definition]:
    """A total, and its rate under Java's name."""
    found = [Definition(f"{name}-total", Kind.TOTAL, text, lambda view: factor * view.total(field))]
    if not name.endswith("-ns"):
        found.append(Definition(f"{name}-rate", Kind.WINDOW, f"{text}, a second", lambda view: factor * view.rate(
            field)))
    return found


def _times(name: str, text: str, field: str) -> list[Definition]:
    """Mean, maximum and percentiles of a histogram."""
    found = [
        Definition(f"{name}-avg", Kind.WINDOW, f"{text}: mean, ms", lambda view: view.distribution(field).mean),
        Definition(f"{name}-max", Kind.WINDOW, f"{text}: longest, ms", lambda view: view.distribution(field).peak)]
    found.extend(
        Definition(f"{name}-{suffix}", Kind.WINDOW, f"{text}: {suffix}, ms, within 6 %; ours",
                   lambda view, share=share: view.distribution(field).quantile(share))  # type: ignore[misc]  # bound
        for suffix, share in (("p50", 0.5), ("p95", 0.95), ("p99", 0.99), ("p999", 0.999)))
    return found


def _mean(name: str, text: str, field: str, by: str) -> Definition:
    return Definition(name, Kind.WINDOW, text, lambda view: view.ratio(field, by))


def _mean_ns(name: str, text: str, field: str) -> Definition:
    """How long something took each time that the sender thread looked, of milliseconds that are counted."""
    return Definition(name, Kind.WINDOW, text, lambda view: 1_000_000 * view.ratio(field, "select_total"))


def _share(name: str, text: str, field: str) -> Definition:
    """Which part of the window something took, of milliseconds that are counted."""
    return Definition(name, Kind.WINDOW, text, lambda view: view.rate(field) / 1000)


def _peak(name: str, text: str, field: str) -> Definition:
    return Definition(name, Kind.WINDOW, text, lambda view: view.peak(field))


OF_PRODUCER: tuple[Definition, ...] = (
    *_total("record-retry", "records of batches that were sent again", "record_retry_total"),
    *_total("record-error", "records that failed", "record_error_total"),
    Definition("record-send-rate", Kind.WINDOW, "records that were stored, a second",
               lambda view: view.rate("stored_record_total")),
    *_total("byte", "bytes of batches that were stored, compressed; ours", "stored_byte_total"),
    *_total("batch-split", "batches that a broker found too large", "batch_split_total"),
    *_total("batch", "batches that were handed to connections; ours", "batch_total"),
    *_total("batch-bytes", "their bytes; ours", "batch_bytes_total"),
    _mean("batch-size-avg", "bytes of a batch, compressed: mean", "batch_bytes_total", "batch_total"),
    _peak("batch-size-max", "bytes of a batch, compressed: largest", "batch_size_max"),
    _mean("compression-rate-avg", "bytes of a batch by what they were before compression: mean",
          "stored_byte_total", "raw_byte_total"),
    _mean("record-size-avg", "bytes of a record before compression, with its part of the batch's header: mean",
          "raw_byte_total", "stored_record_total"),
    _mean("records-per-batch-avg", "records of a batch: mean; ours", "stored_record_total", "stored_batch_total"),
    _mean("batches-per-request-avg", "batches of a Produce request: mean; ours", "batch_total",
          "produce_request_total"),
    Definition("records-per-request-avg", Kind.WINDOW, "records of a Produce request: mean", lambda view: (
        view.ratio("stored_record_total", "stored_batch_total") * view.ratio("batch_total", "produce_request_total"))),
    *_times("record-queue-time", "from a batch's first record until it was sent", "queue"),
    *_times("record-delivery-time", "from a batch's first record, waits for memory included, until its outcome was "
            "told; ours", "delivery"),
    *_times("request-latency", "from handing a Produce request to its connection until its answer", "latency"),
    _mean("produce-throttle-time-avg", "throttle time in an answer of any kind: mean, ms", "throttle_ms_total",
          "response_total"),
    _peak("produce-throttle-time-max", "throttle time in an answer: longest, ms", "throttle_max"),
    *_total("produce-throttle-time", "throttle times in answers, ms; ours", "throttle_ms_total"),
    *_total("request", "requests of any kind that were handed to connections", "request_total"),
    *_total("produce-request", "Produce requests that were handed to connections; ours", "produce_request_total"),
    Definition("request-size-avg", Kind.WINDOW, "bytes of a request of any kind: mean",
               lambda view: view.ratio("outgoing_byte_total", "request_total")),
    _peak("request-size-max", "bytes of a request of any kind: largest", "request_size_max"),
    *_total("response", "answers of any kind", "response_total"),
    *_total("outgoing-byte", "bytes of requests", "outgoing_byte_total"),
    *_total("incoming-byte", "bytes of answers", "incoming_byte_total"),
    Definition("network-io-total", Kind.TOTAL, "requests and answers of any kind",
               lambda view: view.total("request_total") + view.total("response_total")),
    Definition("network-io-rate", Kind.WINDOW, "requests and answers of any kind, a second",
               lambda view: view.rate("request_total") + view.rate("response_total")),
    *_total("connection-creation", "connections that were made, TCP alone", "connection_creation_total"),
    *_total("connection-close", "connections that ended", "connection_close_total"),
    *_total("connection-failed", "attempts to connect that came to nothing; ours", "connection_failed_total"),
    *_total("successful-authentication", "connections that are up, TLS and SASL included",
            "successful_authentication_total"),
    *_total("failed-authentication", "connections that TLS or SASL refused", "failed_authentication_total"),
    *_total("successful-reauthentication", "sessions that were renewed", "successful_reauthentication_total"),
    *_total("select", "how often the sender thread slept, or looked without sleeping", "select_total"),
    *_total("io-wait-time-ns", "how long that took, ns", "io_wait_ms_total", 1_000_000),
    _mean_ns("io-wait-time-ns-avg", "how long that took each time: mean, ns", "io_wait_ms_total"),
    _share("io-wait-ratio", "which part of the time it took, 0 to 1", "io_wait_ms_total"),
    *_total("io-time-ns", "how long all else took that the sender thread does, ns", "turn_ms_total", 1_000_000),
    _mean_ns("io-time-ns-avg", "how long all else took between two of these: mean, ns", "turn_ms_total"),
    _share("io-ratio", "which part of the time all else took, 0 to 1", "turn_ms_total"),
    *_total("callback-time-ns", "how long telling outcomes took, callbacks included, ns; ours", "callback_ms_total",
            1_000_000),
    *_total("compression-time-ns", "how long compressing took, ns; ours", "codec_ms_total", 1_000_000),
    *_total("flush-time-ns", "how long callers were in flush(), ns", "flush_ms_total", 1_000_000),
    *_total("metadata-wait-time-ns", "how long callers were in partitions_for(), ns",
            "metadata_wait_ms_total", 1_000_000),
    *_total("buffer-exhausted", "records that failed because no memory came within max.block.ms",
            "buffer_exhausted_total"),
    *_total("bufferpool-wait-time-ns", "how long callers waited for memory, ns", "buffer_wait_ms_total", 1_000_000),
    _share("bufferpool-wait-ratio", "which part of the time callers waited for memory; above 1 where several did",
           "buffer_wait_ms_total"),
    *_total("txn-init-time-ns", "how long callers were in init_transactions(), ns", "txn_init_ms_total", 1_000_000),
    *_total("txn-send-offsets-time-ns", "how long callers were in send_offsets_to_transaction(), ns",
            "txn_send_offsets_ms_total", 1_000_000),
    *_total("txn-prepare-time-ns", "how long callers were in prepare_transaction(), ns", "txn_prepare_ms_total",
            1_000_000),
    *_total("txn-commit-time-ns", "how long callers were in commit_transaction(), ns", "txn_commit_ms_total",
            1_000_000),
    *_total("txn-abort-time-ns", "how long callers were in abort_transaction(), ns", "txn_abort_ms_total", 1_000_000),
)

OF_NODE: tuple[Definition, ...] = (
    *_total("request", "requests that were handed to its connection", "request_total"),
    *_total("response", "answers", "response_total"),
    *_total("outgoing-byte", "bytes of requests", "outgoing_byte_total"),
    *_total("incoming-byte", "bytes of answers", "incoming_byte_total"),
    _mean("request-size-avg", "bytes of a request: mean", "outgoing_byte_total", "request_total"),
    _peak("request-size-max", "bytes of a request: largest", "request_size_max"),
    *_times("request-latency", "from handing a Produce request to its connection until its answer", "latency"),
    Definition("request-latency-total", Kind.TOTAL, "the sum of that, ms; ours",
               lambda view: view.whole("latency").total),
    _mean("batches-per-request-avg", "batches of a Produce request: mean; ours", "produce_batch_total",
          "produce_total"),
    *_total("produce-ended", "Produce requests that were answered, or not in time; ours", "produce_ended_total"),
    *_total("produce-time", "how long those took, ms; ours", "produce_ms_total"),
    *_total("produce-throttle-time", "throttle times in its answers, ms; ours", "throttle_ms_total"),
    _peak("produce-throttle-time-max", "throttle time in an answer: longest, ms; ours", "throttle_max"),
    *_total("connection-creation", "connections that were made; ours", "connection_creation_total"),
    *_total("connection-close", "connections that ended; ours", "connection_close_total"),
    *_total("connection-failed", "attempts to connect that came to nothing; ours", "connection_failed_total"),
)

OF_TOPIC: tuple[Definition, ...] = (
    *_total("record-send", "records that were stored", "record_send_total"),
    *_total("record-error", "records that failed", "record_error_total"),
    *_total("record-retry", "records of batches that were sent again", "record_retry_total"),
    *_total("byte", "bytes of batches that were stored, compressed", "byte_total"),
    *_total("batch", "batches that were stored; ours", "batch_total"),
    _mean("compression-rate", "bytes of a batch by what they were before compression: mean", "byte_total",
          "raw_byte_total"),
    _mean("records-per-batch-avg", "records of a batch: mean; ours", "record_send_total", "batch_total"),
    _mean("batch-size-avg", "bytes of a batch, compressed: mean; ours", "byte_total", "batch_total"),
    *_times("record-delivery-time", "from a batch's first record until its outcome was told; ours", "delivery"),
)
