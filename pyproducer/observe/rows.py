"""The row of a producer, and how each kind of row is read.

Road:    owners write; registry reads
Thread:  the sender's, where nothing else is said.
Source:  Java producer-metrics, producer-node-metrics, producer-topic-metrics (4.1).
"""

from __future__ import annotations

from dataclasses import dataclass, fields

from pyproducer.hotpath import Histogram, Ledger, NodeRow, TopicRow
from pyproducer.observe.window import EMPTY, Distribution, Values


@dataclass(slots=True, eq=False)
class ProducerRow:
    """The numbers of a whole producer that no node and no batch has; totals since it was made.

    Attributes:
        request_total: Produce requests that were handed to connections.
        batch_total: Batches in them.
        batch_bytes_total: Their bytes, compressed, with headers.
        batch_size_max: The largest since the last roll.
        record_retry_total: Records of batches that are sent again.
        record_error_total: Records whose futures failed, those that send() or send_batch() refused included.
        batch_split_total: Batches that a broker found too large.
        select_total: How often the sender slept, or looked without sleeping.
        io_wait_ms_total: How long that took.
        turn_ms_total: How long all else took, callbacks included, while somebody had the sender's role.
        callback_ms_total: How long telling outcomes took, callbacks included.
        codec_ms_total: How long compressing took.
        flush_ms_total: How long callers were in flush(). Theirs, with the registry's lock.
        metadata_wait_ms_total: How long callers were in partitions_for(). Theirs, too.
        txn_init_ms_total: How long callers were in init_transactions(). Theirs, as are the next four.
        txn_send_offsets_ms_total: The same of send_offsets_to_transaction().
        txn_prepare_ms_total: The same of prepare_transaction().
        txn_commit_ms_total: The same of commit_transaction().
        txn_abort_ms_total: The same of abort_transaction().
        successful_authentication_total: Logins that brokers took; connections with TLS alone count, too.
        failed_authentication_total: Those that they refused.
        successful_reauthentication_total: Sessions that were renewed.
    """

    batch_bytes_total: int = 0
    batch_size_max: int = 0
    batch_split_total: int = 0
    batch_total: int = 0
    callback_ms_total: int = 0
    codec_ms_total: int = 0
    failed_authentication_total: int = 0
    flush_ms_total: int = 0
    io_wait_ms_total: int = 0
    metadata_wait_ms_total: int = 0
    record_error_total: int = 0
    record_retry_total: int = 0
    request_total: int = 0
    select_total: int = 0
    successful_authentication_total: int = 0
    successful_reauthentication_total: int = 0
    turn_ms_total: int = 0
    txn_abort_ms_total: int = 0
    txn_commit_ms_total: int = 0
    txn_init_ms_total: int = 0
    txn_prepare_ms_total: int = 0
    txn_send_offsets_ms_total: int = 0


NODE_NUMBERS = (
    "request_total", "response_total", "produce_total", "produce_batch_total", "produce_ended_total",
    "produce_ms_total", "outgoing_byte_total",
    "incoming_byte_total", "request_size_max", "connection_creation_total", "connection_close_total",
    "connection_failed_total", "throttle_ms_total", "throttle_max", "floor_ms")
NODE_SUMS = tuple(field for field in NODE_NUMBERS if field.endswith("_total"))
NODE_PEAKS = ("request_size_max", "throttle_max")
TOPIC_NUMBERS = ("record_send_total", "record_error_total", "record_retry_total", "byte_total", "raw_byte_total",
                 "batch_total")
LEDGER_NUMBERS = ("ended_total", "stored_batch_total", "stored_record_total", "stored_byte_total", "raw_byte_total")


def node_values(row: NodeRow) -> Values:
    """Return what a node's row has now."""
    values: dict[str, int | Distribution] = {field: getattr(row, field) for field in NODE_NUMBERS}
    values["latency"] = Distribution.of(row.latency)
    return values


def topic_values(row: TopicRow) -> Values:
    """Return what a topic's row has now."""
    values: dict[str, int | Distribution] = {field: getattr(row, field) for field in TOPIC_NUMBERS}
    values["delivery"] = Distribution.of(row.delivery)
    return values


def producer_values(row: ProducerRow, ledger: Ledger, nodes: list[NodeRow]) -> Values:
    """Return what a producer has now: its own row, the ledger's sums, and the sum of all nodes."""
    values: dict[str, int | Distribution] = {field.name: getattr(row, field.name) for field in fields(row)
                                             if field.name != "request_total"}
    values["produce_request_total"] = row.request_total
    for field in LEDGER_NUMBERS:
        values[field] = getattr(ledger, field)
    values["delivery"] = Distribution.of(ledger.delivery)
    values["queue"] = Distribution.of(ledger.queue)
    latency = EMPTY
    sums = dict.fromkeys(NODE_SUMS, 0)
    peaks = dict.fromkeys(NODE_PEAKS, 0)
    for node in nodes:
        latency = latency.plus(Distribution.of(node.latency))
        for field in NODE_SUMS:
            sums[field] += getattr(node, field)
        for field in NODE_PEAKS:
            peaks[field] = max(peaks[field], getattr(node, field))
    values.update(sums)
    values.update(peaks)
    values["latency"] = latency
    return values


def reset_peaks(row: ProducerRow, ledger: Ledger, nodes: list[NodeRow], topics: list[TopicRow]) -> None:
    """Begin to look for the largest values anew."""
    row.batch_size_max = 0
    histograms: list[Histogram] = [ledger.delivery, ledger.queue]
    for node in nodes:
        node.request_size_max = node.throttle_max = 0
        histograms.append(node.latency)
    histograms.extend(topic.delivery for topic in topics)
    for histogram in histograms:
        histogram.peak = 0
