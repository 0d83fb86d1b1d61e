"""The bugs that some version of the tests let pass, kept so that none does again.

Shape:   exact text, found once in its file; a row that no longer applies makes the tool fail loudly, because a mutant
         that silently vanishes would count as noticed.
Source:  ours.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from tests.mutants.generate import PACKAGE, Mutant, within


class Kept(NamedTuple):
    """One bug."""

    name: str
    path: str  # within the package
    old: str
    new: str
    breaks: str


KEPT: tuple[Kept, ...] = (
    # Sequence numbers.
    Kept("old-epoch-renumbered", "transaction/transaction_manager.py",
         "return not partition.in_flight or (partition.owner == self.producer_id_and_epoch\n"
         "                                               and partition.last_acked_sequence",
         "return not partition.in_flight or (True\n"
         "                                               and partition.last_acked_sequence",
         "Batches of an older epoch that are on the wire are renumbered: the next batch does not wait for them."),
    Kept("second-out-of-order-never-bumps", "accumulator/producer_batch.py",
         "        self.is_sequence_reset = False\n        write_header(", "        write_header(",
         "After one epoch bump a second OUT_OF_ORDER_SEQUENCE_NUMBER is retried with the same numbers until the "
         "delivery times out."),
    # What became of a record.
    Kept("expired-after-lost-answer-is-not-sent", "sender/completion.py",
         "maybe_in_log = batch.may_be_in_log or batch.is_in_flight", "maybe_in_log = batch.is_in_flight",
         "A record that expires after an attempt without an answer says not_sent; it may be in the log."),
    Kept("expired-on-the-wire-is-not-sent", "sender/completion.py",
         "maybe_in_log = batch.may_be_in_log or batch.is_in_flight", "maybe_in_log = batch.may_be_in_log",
         "A record that expires while its request is on the wire says not_sent; it may be in the log."),
    Kept("lost-answer-is-forgotten", "sender/completion.py",
         "            if response.was_sent_and_unanswered:\n                batch.may_be_in_log = True\n"
         "            else:  # not whole",
         "            if response.was_sent_and_unanswered:\n                pass\n"
         "            else:  # not whole",
         "An attempt without an answer is forgotten: a later error of the record says that it is not in the log."),
    Kept("refused-after-lost-answer-is-rejected", "sender/completion.py",
         "        if batch.may_be_in_log and not batch.is_done:\n            error.outcome = UNKNOWN\n", "",
         "A record that is refused after an attempt without an answer says rejected; it may be in the log."),
    Kept("closed-in-time-is-not-sent", "accumulator/record_accumulator.py",
         "if batch.may_be_in_log or batch.state is BatchState.ON_WIRE:", "if batch.may_be_in_log:",
         "Records on the wire that close(timeout) gave up on say not_sent; they may be in the log."),
    Kept("own-error-after-lost-answer-is-rejected", "sender/completion.py",
         "        if batch.may_be_in_log:  # from an earlier attempt\n            own.outcome = UNKNOWN\n", "",
         "A record that the broker names in its refusal says rejected; an earlier attempt may have stored it."),
    Kept("outcome-of-a-neighbour", "sender/completion.py",
         "self._fail(batch, own_copy(response.version_mismatch), None)",
         "self._fail(batch, response.version_mismatch, None)",
         "Batches of one request share an exception: the doubt about one of them is told of all."),
    Kept("stored-twice-after-an-exception", "accumulator/delivery_tally.py",
         "            row[1].is_counted = True  # whoever", "            pass  # whoever",
         "After an exception between a count and its mark, close() tells of records twice."),
    Kept("route-keeps-the-failed-batch", "accumulator/producer_batch.py",
         "self.open.result = None  # a route", "pass  # a route",
         "Nobody hears of a failed future that nobody looked at, until the next record of its partition."),
    Kept("traceback-keeps-the-producer", "accumulator/delivery_tally.py",
         "        return copy.copy(error)\n", "        return error\n",
         "A producer that was dropped after a send failed is not closed."),
    # When a record expires.
    Kept("retried-batch-does-not-expire", "accumulator/record_accumulator.py",
         "            if batch.is_done:\n                continue\n",
         "            if batch.is_done or batch.state is BatchState.RETRY:\n                continue\n",
         "A batch that waits for its retry does not expire."),
    Kept("latest-expiry-counts", "accumulator/record_accumulator.py",
         "next_expiry_ms = min(next_expiry_ms, expiry_ms)",
         "next_expiry_ms = max(next_expiry_ms, expiry_ms)",
         "The latest expiry of waiting batches is taken for the next one: the others expire late."),
    Kept("batch-on-the-wire-does-not-expire", "accumulator/record_accumulator.py",
         "            if batch.is_done:\n                continue\n",
         "            if batch.is_done or batch.is_in_flight:\n                continue\n",
         "A batch on the wire does not expire while nobody answers."),
    Kept("poll-ignores-waiting-expiry", "sender/sender.py",
         "return min(timeout_ms, next_check_ms, check.next_expiry_delay_ms)",
         "return min(timeout_ms, next_check_ms)",
         "The poll sleeps beyond the next expiry of a batch, wherever that is: its records fail late."),
    # Time in which nobody ran.
    Kept("freeze-moves-nothing", "sender/freeze.py",
         "        self._accumulator.move_deadlines(gap_ms, now_ms)\n", "",
         "A process that was stopped for longer than delivery.timeout.ms finds all its records expired."),
    Kept("thaw-keeps-connections", "sender/freeze.py",
         "        if was_asleep:\n", "        if False:\n",
         "After a freeze the producer waits for request.timeout.ms on connections that nobody is behind any more."),
    Kept("slow-callback-drops-connections", "sender/freeze.py",
         "        if was_asleep:\n", "        if True:\n",
         "A callback that takes long costs healthy connections, and what is on its way there is sent twice."),
    Kept("young-record-lives-too-long", "accumulator/record_accumulator.py",
         "min(batch.created_ms + gap_ms, now_ms)", "batch.created_ms + gap_ms",
         "A record that came after a thaw expires later than delivery.timeout.ms by the whole freeze."),
    # Forks.
    Kept("closed-producer-is-rebuilt", "accumulator/life.py",
         "self.can_be_rebuilt = rebuilds and self.is_open", "self.can_be_rebuilt = rebuilds",
         "A producer that was closing when the process forked is made anew in the child."),
    # Callbacks.
    Kept("raising-callback-ends-the-others", "accumulator/produce_result.py",
         "        except BaseException as raised:  # whatever a callback raises changes nothing; no signal arrives on "
         "this thread\n            log_raised(future._result.topic_partition, raised)\n",
         "        finally:\n            pass\n",
         "One callback of a failed batch that raises leaves the records after it untold for ever."),
    Kept("failed-callbacks-in-reverse", "accumulator/producer_batch.py",
         "            for future in futures:\n                fail_future",
         "            for future in reversed(futures):\n                fail_future",
         "The callbacks of a failed batch run in the reverse order of its records."),
    Kept("stored-callbacks-in-reverse", "hotpath/_python.py",
         "    for future in futures:\n        on_completion = future._on_completion",
         "    for future in reversed(futures):\n        on_completion = future._on_completion",
         "The callbacks of a stored batch run in the reverse order of its records."),
    Kept("interceptor-after-callback", "hotpath/_python_road.py",
         "        self.tell(metadata, exception)\n        if self.on_completion is not None:\n"
         "            self.on_completion(metadata, exception)\n",
         "        if self.on_completion is not None:\n            self.on_completion(metadata, exception)\n"
         "        self.tell(metadata, exception)\n",
         "Interceptors hear of an outcome after the callback, and not at all when that raises."),
    # Memory.
    Kept("memory-without-order", "accumulator/buffer_pool.py",
         "return (first is None or (place is not None and first is place.cell)\n",
         "return (place is None or first is place.cell\n",
         "A new caller takes memory before those that wait: a large record may starve."),
    Kept("waiters-without-order", "accumulator/buffer_pool.py",
         "return (first is None or (place is not None and first is place.cell)\n",
         "return (first is None or place is not None\n",
         "A small request that waits overtakes a large one that waited before it."),
    Kept("memory-is-not-given-back", "accumulator/buffer_pool.py",
         "self._held_bytes -= batch.reserved_bytes", "self._held_bytes -= batch.reserved_bytes - 1",
         "Every batch keeps one byte of buffer.memory for ever."),
    Kept("record-above-buffer-memory", "producer/do_send.py",
         "self.max_record_bytes: int = min(max_request_size_bytes, buffer_memory_bytes)",
         "self.max_record_bytes: int = max_request_size_bytes",
         "A record above buffer.memory and below max.request.size is not refused."),
    # Records that wait for metadata.
    Kept("room-without-bound", "producer/waiting_room.py",
         "share = max(1, _MOST_RECORDS_A_TURN // max(1, len(queues)))", "share = 10**9",
         "A room of 100,000 records holds the sender for seconds."),
    Kept("room-without-delivery-timeout", "producer/waiting_room.py",
         "now_ms + min(max_block_ms, self._delivery_timeout_ms)", "now_ms + max_block_ms",
         "A record waits for metadata for longer than delivery.timeout.ms."),
    Kept("room-without-door", "producer/waiting_room.py",
         "queue.is_leaving = is_known\n", "queue.is_leaving = False\n",
         "Callers who add records as fast as the sender moves them keep the room for ever."),
    Kept("room-behind-its-partition", "producer/waiting_room.py",
         "queue.partition is not None or not self.is_waiting(queue.topic, partition)", "True",
         "A record overtakes those that wait for the same partition."),
    Kept("room-memory-is-lost", "accumulator/waiting_records.py",
         "self.memory.release(record, queue.records)", "self.memory.whole.take_out(record, queue.records)",
         "The memory of records that failed while they waited never comes back."),
    Kept("room-forgotten-at-close", "accumulator/record_accumulator.py",
         "return self.waiting.has_any()", "return False",
         "close() does not send the records that wait for metadata."),
    Kept("room-forgotten-by-flush", "producer/kafka_producer.py",
         "results = runtime.accumulator.waiting.outcomes()", "results = []",
         "flush() does not wait for the records that wait for metadata."),
    Kept("room-torn-for-good", "accumulator/waiting_records.py",
         "        if not queue.is_torn:\n            return\n", "        return\n",
         "After an exception in the middle of a move, records are sent twice or told twice."),
    Kept("absent-for-one-broker", "client/metadata.py",
         "if asked is None or len(asked) < min(2, len(self.cluster.nodes)):", "if not asked:",
         "A topic that one lagging broker does not know fails after ten seconds."),
    # Sessions and refusals.
    Kept("session-renewed-among-requests", "client/connections.py",
         "if self.in_flight.count(state.node.node_id):",
         "if False:",
         "The proof is given anew while answers are on their way, and they are taken for the broker's word on it."),
    Kept("session-due-and-yet-sent", "client/connections.py",
         "and state.throttle_until_ms <= now_ms < state.session_due_ms",
         "and state.throttle_until_ms <= now_ms",
         "A busy connection is never without a request in flight, so its session ends and the broker closes it."),
    Kept("refusal-of-one-fails-all", "sender/completion.py",
         "if refusal.node_id is None or refusal.node_id ==", "if True or refusal.node_id ==",
         "One broker that refuses us fails the records that wait for others."),
    Kept("one-refusal-is-that-of-all", "client/refusals.py",
         "all(map(self._is_hopeless, self._metadata.nodes_to_ask()))", "True",
         "Of two bootstrap servers one that refuses us fails the first record of every second producer."),
    Kept("moved-node-counts-as-dead", "client/connection_states.py",
         "!= (node.host, node.port):\n            return 0",
         "!= (node.host, node.port) and False:\n            return 0",
         "A refusal by one node fails all that waits, though another one has moved and was not asked yet."),
    Kept("ticket-on-the-senders-thread", "network/sasl/gssapi.py",
         "prepares=True, times=times,", "times=times,",
         "A KDC that is slow holds up all records to all brokers, while the ticket for one is fetched."),
    Kept("session-renewed-without-credentials", "client/connections.py",
         "elif not self.states.has_credentials(state.node.host):", "elif False:",
         "A connection whose session ends while the next token is on its way is closed."),
    Kept("broken-broker-is-a-wrong-password", "network/sasl/client_authenticator.py",
         "if ErrorCode.of(code) is ErrorCode.UNKNOWN_SERVER_ERROR or error", "if error",
         "Records fail with advice about the password where the broker itself failed, or is newer than we are."),
    Kept("refusals-count-for-ever", "client/refusals.py",
         "        self._by_address.clear()\n\n    def tell", "        pass\n\n    def tell",
         "What a server said before another one took us fails records when that one refuses us once."),
    Kept("broker-need-not-prove-itself", "network/sasl/scram.py",
         "if not hmac.compare_digest(signature, final.server_signature):", "if False:",
         "Anybody who answers at the address is taken for the broker."),
    Kept("one-broker-asked-for-ever", "client/metadata_updater.py",
         "if avoided is not None:", "if False:",
         "The broker with a connection is asked for an unknown topic again and again, no other one is."),
    # Counters, order, time of the caller.
    Kept("errors-not-counted", "sender/completion.py",
         'self._metrics.totals["record-error-total"] += record_count', "pass",
         "record-error-total stays 0."),
    Kept("retries-not-counted", "sender/completion.py",
         '            self._metrics.totals["record-retry-total"] += batch.record_count\n', "",
         "record-retry-total stays 0."),
    Kept("muting-removed", "accumulator/partition.py",
         "if self._sends_one_at_a_time and any(",
         "if False and any(",
         "With one request in flight and no idempotence a retry may overtake or be overtaken: order is lost."),
    Kept("flush-ten-times-too-long", "producer/kafka_producer.py",
         'deadline_ms = life.begin_wait("flush()", timeout)',
         'deadline_ms = life.begin_wait("flush()", timeout and timeout * 10)',
         "flush(timeout) waits ten times too long."),
    Kept("flush-forgets-split-batches", "producer/kafka_producer.py",
         "            results.extend(result.successors)\n", "",
         "flush() returns while records of a batch that was split are on their way."),
    Kept("flush-in-callback-waits-for-itself", "producer/kafka_producer.py",
         'life.begin_wait("flush()", timeout)', 'Life("", runtime.clock).begin_wait("flush()", timeout)',
         "flush() inside a callback waits for itself for ever."),
    Kept("flush-hurries-nothing", "accumulator/record_accumulator.py",
         "        for batch in batches:\n            batch.skips_linger = True\n", "",
         "flush() waits until what it waits for has lingered."),
    Kept("close-forgets-its-timeout", "sender/io_thread.py",
         "self._life.begin_closing(by, timeout_s)", "self._life.begin_closing(by, None)",
         "close(timeout) waits until everything is done."),
    Kept("latest-deadline-of-all-who-close", "accumulator/life.py",
         "force_at_ms < self._force_at_ms", "force_at_ms > self._force_at_ms",
         "Of several who close the most patient one decides."),
    Kept("partitioner-gives-count", "producer/do_send.py",
         "if type(partition) is not int or not 0 <= partition < count:",
         "if type(partition) is not int or not 0 <= partition <= count:",
         "A partitioner that returns the number of partitions is believed: the record waits for a partition that there "
         "is not."),
    # Settings without effect.
    Kept("gzip-level-without-effect", "record/compression.py",
         "self._zlib.compressobj(self._level,", "self._zlib.compressobj(-1,",
         "compression.gzip.level has no effect."),
    Kept("zstd-level-without-effect", "record/compression.py",
         "module.ZstdCompressor(level=level).compress\n", "module.ZstdCompressor(level=3).compress\n",
         "compression.zstd.level has no effect."),
    Kept("gzip-level-is-not-handed-on", "producer/wiring.py",
         '"gzip": config.compression_gzip_level,', '"gzip": None,',
         "compression.gzip.level is not handed to the codec."),
    Kept("zstd-level-is-not-handed-on", "producer/wiring.py",
         '"zstd": config.compression_zstd_level}', '"zstd": None}',
         "compression.zstd.level is not handed to the codec."),
    Kept("new-leaders-address-ignored", "sender/completion.py",
         'for node in body["node_endpoints"]])', "for node in ()])",
         "A leader on a node that is not known yet is not believed, though the answer tells its address (KIP-951)."),
    # Spark.
    Kept("topics-as-they-come", "spark/arrow.py",
         "    for number in sorted(counts):", "    for number in counts:",
         "Rows of several topics, numbered otherwise than they come, go to each other's topics."),
    Kept("headers-beside-the-slice", "spark/arrow.py",
         "    keys = column.flatten().flatten()[0]\n", "    keys = column.values.flatten()[0]\n",
         "A slice of a record batch is refused for a header of a row that is not in it."),
    Kept("refused-rows-may-be-in-the-log", "spark/arrow.py",
         "                delivery.fail(error, topic, row_count=rows.num_rows)\n",
         "                delivery.fail(error, topic)\n",
         "Of rows that no call took the error says that they may be in the log."),
    Kept("row-of-no-topic", "spark/rows.py",
         "on_completion=telling(name, place)",
         "on_completion=telling(contract.fixed_topic, place)",
         "The error of a row whose topic is in a column names no topic."),
    Kept("row-of-no-partition", "spark/rows.py",
         "on_completion=telling(name, place)", "on_completion=telling(name, None)",
         "The error of a row that names its partition does not."),
    Kept("partition-zero-untold", "spark/delivery.py",
         "-1 if partition is None else partition)", "partition or -1)",
         "The error of a row for partition 0 names no partition."),
    Kept("unknown-rows-counted-once", "spark/delivery.py",
         "                self._unknown_count += row_count\n", "                self._unknown_count += 1\n",
         "Of many rows that fail at once, and may be in the log, one is told."),
    Kept("unanswered-rows-not-in-the-log", "spark/delivery.py",
         "maybe_count = self._unknown_count + max(unanswered_count, 0)", "maybe_count = self._unknown_count",
         "Rows whose answers never came are not told as possibly stored."),
    Kept("headers-of-strings", "spark/schema.py",
         "types[name].lower() == HEADERS_TYPE", 'types[name].lower().startswith("array<struct<key")',
         "Headers whose values are strings pass the check on the driver."),
    Kept("pool-of-any-size", "spark/sink.py",
         ", pool_size=settings.pool_size)", ")",
         "pyproducer.pool.size of a sink is not the pool's."),
    Kept("pool-key-without-strangers", "spark/settings.py",
         "**{key: props[key] for key in config.strangers}", "**{}",
         "Two sinks that differ in a setting of the application's own class share a producer."),
    Kept("new-producer-discarded", "spark/pool.py",
         "if self._pooled.get(key) is pooled:", "if key in self._pooled:",
         "A task that fails late throws the producer away that took the place of its own; nothing closes it."),
    Kept("attempt-of-the-application", "spark/task_numbers.py",
         "attempt=context.attemptNumber()", "attempt=context.taskAttemptId()",
         "Every task but the first seems to have been run again."),
    Kept("scripts-packed", "spark/packing.py",
         'if ".." not in file.parts and path', "if path",
         "The archive has files outside of its folder."),
    Kept("typed-writer-holds", "spark/sink.py",
         "is_typed=schema is not None or self._has_schema)", "is_typed=schema is not None)",
         "In real-time mode the rows of a stream whose schema was checked are held back."),
    # The broker.
    Kept("mute-after-queueing", "broker/network/processor.py",
         "                self._selector.mute(receive.source)\n"
         "                self._selector.handle_channel_mute_event(receive.source, "
         "ChannelMuteEvent.REQUEST_RECEIVED)\n"
         "                self._channel.send_request(request)\n",
         "                self._channel.send_request(request)\n"
         "                self._selector.mute(receive.source)\n"
         "                self._selector.handle_channel_mute_event(receive.source, "
         "ChannelMuteEvent.REQUEST_RECEIVED)\n",
         "A handler may answer before the connection is muted, which then stays muted."),
    Kept("append-guard-without-lock", "broker/cluster/coordinator/transaction/append_guard.py",
         "self._lock = coordinator.lock_of(transactional_id)", "self._lock = None",
         "A batch may come after its transaction's marker and open the transaction again for ever."),
    Kept("fetch-limit-per-partition", "broker/apis/fetch.py",
         "                left_bytes = max(left_bytes - len(answer[\"records\"]), 0)\n", "",
         "Every partition of a Fetch gets the whole max_bytes of the request."),
    Kept("one-bucket-for-all", "broker/apis/client_quotas.py",
         "client_id = request.header.client_id", "client_id = None",
         "All clients share one quota."),
    Kept("fenced-join-unanswered", "broker/cluster/coordinator/group/group_step.py",
         "        self._complete_join(old, JoinAnswer(ErrorCode.FENCED_INSTANCE_ID, old_id))\n", "",
         "A static member whose place was taken while it joined is never answered."),
    Kept("fenced-sync-unanswered", "broker/cluster/coordinator/group/group_step.py",
         "        self._complete_sync(old, SyncAnswer(ErrorCode.FENCED_INSTANCE_ID))\n", "",
         "A static member whose place was taken while it waited for its assignment is never answered."),
)


def mutants(root: Path, only: str = "") -> list[Mutant]:
    """Return the kept mutants.

    Raises:
        ValueError: One does not apply any more.
    """
    found = []
    for kept in KEPT:
        if kept.path.startswith(only):
            path = f"{PACKAGE}/{kept.path}"
            found.append(within(path, (root / path).read_text(), kept.old, kept.new, kept.name, kept.breaks))
    return found
