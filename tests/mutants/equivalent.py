"""Mutants that no test can notice, because they change nothing that anybody can see; each with its reason.

Shape:   keyed by what stands in the file, not by line numbers: the file, the function, the changed lines before and
         after (runs of blanks are one). A row whose old lines are gone is stale; the unit test of this tool says so.
Source:  ours.
"""

from __future__ import annotations

from typing import NamedTuple


class Equivalent(NamedTuple):
    """One mutant that is no bug."""

    path: str  # within the package
    function: str
    old: str
    new: str
    reason: str


EQUIVALENT: tuple[Equivalent, ...] = (
    Equivalent("broker/storage/segment.py", "LogSegment.headers",
               "if position + HEADER_SIZE_BYTES > chunk_start + len(chunk):", "if True:",
               "the file is read anew for every header: slower, but the same headers"),
    Equivalent("client/metadata_updater.py", "MetadataUpdater._start_over",
               "self._next_canonical_ms = 0",
               "self._next_canonical_ms = 1",
               "compared with a monotonic clock in ms: both are long ago, but in the first millisecond after boot"),
    Equivalent("broker/storage/segment.py", "LogSegment.write_indexes",
               "if self.size_bytes:",
               "if True:",
               "an empty segment has max_timestamp -1, and nothing is entered that is not above that"),
    Equivalent("sender/completion.py", "Completion._on_error",
               "self._complete(batch, NO_OFFSET, -1, response.received_ms)",
               "self._complete(batch, -1, NO_OFFSET, response.received_ms)",
               "both are -1"),
    Equivalent("producer/partitioners/hashed.py", "Murmur3Partitioner.partition",
               "return super().partition(topic, key, None, value, value_bytes, cluster)",
               "return super().partition(topic, key, None, value_bytes, value, cluster)",
               "without a key the base class looks at the topic and the cluster only"),
    Equivalent("client/network_client.py", "NetworkClient._complete",
               "if self._aborted:",
               "if True:",
               "with nothing aborted an equal list is built, and an empty one is emptied"),
    Equivalent("accumulator/produce_result.py", "ProduceRequestResult.__init__",
               "self.base_offset: int = -1",
               "self.base_offset: int = -2",
               "read only after set() has written it"),
    Equivalent("client/metadata_updater.py", "MetadataUpdater._least_loaded",
               "if connectable is None or attempt_ms < connectable_attempt_ms:",
               "if connectable is None or attempt_ms <= connectable_attempt_ms:",
               "decides between nodes that were tried at the same moment, and the search begins at a random one "
               "of them"),
    Equivalent("accumulator/produce_result.py", "fail_future",
               "if future._done_callbacks is not None:",
               "if True:",
               "without done callbacks run_done_callbacks does nothing; the condition spares the call"),
    Equivalent("broker/storage/torn_tail.py", "_holds_batch",
               "while at >= 0 and at - MAGIC_OFFSET < _CHUNK_BYTES:",
               "while at > 0 and at - MAGIC_OFFSET < _CHUNK_BYTES:",
               "find() begins at MAGIC_OFFSET, which is above 0"),
    Equivalent("accumulator/waiting_records.py", "WaitingRecords.has_any",
               "return bool(self.queues) and any(queue.records for queue in list(self.queues.values()))",
               "return True and any(queue.records for queue in list(self.queues.values()))",
               "without a queue there is no record; the condition spares a walk, in each step of a caller"),
    Equivalent("client/metadata.py", "ProducerMetadata.await_update",
               "if remaining_ms <= 0 or not self._clock.wait(cell, remaining_ms / 1000):",
               "if remaining_ms < 0 or not self._clock.wait(cell, remaining_ms / 1000):",
               "a wait of no time looks at the cell and ends; what rang it since the look before came when the time "
               "was over"),
    Equivalent("hotpath/_python_columns.py", "ColumnChunk.append_to",
               "elif timestamp > max_timestamp:",
               "elif timestamp >= max_timestamp:",
               "what equals the largest timestamp takes its place"),
    Equivalent("sender/io_thread.py", "IoThread.abandon",
               'self._life.begin_closing("its constructor failed", 0)',
               'self._life.begin_closing("its constructor failed", (-1))',
               "begin_closing takes a time below 0 as 0"),
    Equivalent("client/metadata.py", "ProducerMetadata._set_fatal",
               "self._fatal_count += 1",
               "self._fatal_count += 2",
               "compared with earlier values of itself only"),
    Equivalent("accumulator/partition_sequence.py", "PartitionSequence.__init__",
               "self.state: SequenceState = SequenceState.FRESH",
               "self.state: SequenceState = SequenceState.ALONE",
               "begin() makes it FRESH before the first number is given, and until then can_send answers the same"),
    Equivalent("accumulator/failure.py", "by_outcome",
               "return dict(zip(OUTCOMES, counts, strict=True))",
               "return dict(zip(OUTCOMES, counts))",
               "Counts is a tuple of three, by its type, and OUTCOMES has three"),
    Equivalent("client/network_client.py", "NetworkClient.poll",
               "if in_flight.unanswerable_count and selector.completed_sends:",
               "if True and selector.completed_sends:",
               "with none that is unanswerable, complete_unanswerable finds none; the count spares the search"),
    Equivalent("client/api_versions.py", "read_api_versions",
               'if row["api_key"] == ApiKeys.API_VERSIONS), 0)',
               'if row["api_key"] == ApiKeys.API_VERSIONS), (-1))',
               "below 0 the next version is 0, and at 0 as well"),
    Equivalent("accumulator/buffer_pool.py", "BufferPool.release",
               "batch.reserved_bytes = 0",
               "batch.reserved_bytes = 1",
               "who is released is in no list any more, and only who is in one is counted, moved or split"),
    Equivalent("accumulator/transaction_manager.py", "TransactionManager.settle",
               "if not due or not self.has_producer_id:",
               "if not due or False:",
               "without an id nothing is numbered, and what is begun without one is begun again when one is there"),
    Equivalent("client/connection_states.py", "ClusterConnectionStates.ready",
               "self.preparing.pop(node_id, None)",
               "self.preparing.pop(None, node_id)",
               "nobody becomes ready who has not asked for versions, and that took it out"),
    Equivalent("record/record_reader.py", "read_headers",
               "if raw > 0x7F:",
               "if raw > 126:",
               "127 is one byte, and _read_unsigned gives back the same number and the place behind it"),
    Equivalent("hotpath/_python_ledger.py", "Timeline.overlap_ms",
               "if self._to[index] <= from_ms:",
               "if False:",
               "what ended by from_ms ends before it could begin to count, and what is older ended no later: who notes "
               "reads a clock that never goes back just before, one turn at a time; the break spares the search"),
    Equivalent("network/ssl_context.py", "_identity_reason",
               'if "MISMATCH" in (cause.reason or "").upper():',
               'if "MISMATC" in (cause.reason or "").upper():',
               "of all reasons in OpenSSL's tables those with these letters have the H behind them"),
    Equivalent("producer/why.py", "gather",
               "pieces = [Piece(ended_ms, where[0], where[1], dict(zip(COLUMNS, values, strict=True)))",
               "pieces = [Piece(ended_ms, where[0], where[1], dict(zip(COLUMNS, values)))",
               "the ledger, of either twin, cuts a value for each of COLUMNS out of its ring"),
    Equivalent("sender/sender.py", "Sender._send",
               "record_count=0 if self._acks else sum(batch.record_count for batch in batches),",
               "record_count=(-1) if self._acks else sum(batch.record_count for batch in batches),",
               "read of requests without an answer, and of those in flight beside such; acks is one for all of a "
               "producer's, so where it asks for answers there are none without"),
)


def reasons() -> dict[tuple[str, str, str, str], str]:
    """Return the reasons by what identifies a mutant."""
    return {(row.path, row.function, row.old, row.new): row.reason for row in EQUIVALENT}
