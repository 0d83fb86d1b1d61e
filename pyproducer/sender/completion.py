"""What becomes of a batch when its request ended: stored, retried, split or failed.

Road:    NetworkClient -> [completion] -> futures, callbacks, accumulator
Thread:  sender thread only.
Source:  Java Sender.handleProduceResponse, completeBatch, canRetry, failBatch (4.1).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any
from uuid import UUID

from pyproducer.accumulator.batch_state import BatchState, move
from pyproducer.accumulator.broker_memory import NO_OFFSET
from pyproducer.accumulator.partition_sequence import REFUSALS, SequenceEvent
from pyproducer.accumulator.produce_result import own_copy
from pyproducer.accumulator.producer_batch import ProducerBatch
from pyproducer.accumulator.record_accumulator import RecordAccumulator
from pyproducer.accumulator.transaction_manager import TransactionManager
from pyproducer.client.metadata import NO_LEADER, ProducerMetadata, Refusal
from pyproducer.client.request import ClientResponse
from pyproducer.common.clock import Clock
from pyproducer.common.cluster import Node, TopicPartition
from pyproducer.common.error_codes import ErrorCode, error_for_code
from pyproducer.common.errors import (
    NOT_SENT,
    REJECTED,
    UNKNOWN,
    ApiError,
    DisconnectedError,
    KafkaError,
    KafkaTimeoutError,
    LocalProtocolError,
    RemoteProtocolError,
)
from pyproducer.common.printable import LONGEST_NAME, printable
from pyproducer.common.sender_log import SenderLog, sender_log
from pyproducer.hotpath import CALLBACK
from pyproducer.observe.registry import Registry
from pyproducer.record.layout import NO_TIMESTAMP, increment_sequence
from pyproducer.sender.produce_request import FIRST_VERSION_WITH_TOPIC_IDS, BatchesByPartition

log: SenderLog = sender_log(__name__)

_MOST_OFFSET = 2**63 - 1


class Completion:
    """Decides on each batch of an ended Produce request."""

    def __init__(self, *, accumulator: RecordAccumulator, metadata: ProducerMetadata,
                 transaction_manager: TransactionManager | None, retries: int, delivery_timeout_ms: int,
                 registry: Registry, clock: Clock) -> None:
        self._accumulator = accumulator
        self._metadata = metadata
        self._transaction_manager = transaction_manager
        self._retries = retries
        self._delivery_timeout_ms = delivery_timeout_ms
        self._registry = registry
        self._told_ms = 0  # when the last answer's outcomes were told
        self.clock: Clock = clock
        self._transactions = None if transaction_manager is None else transaction_manager.transactions

    def on_response(self, response: ClientResponse, batches: BatchesByPartition,
                    topic_names: Mapping[UUID, str]) -> None:
        """Handle the end of a request, whatever it was.

        What this raises leaves batches that are told and not finished, or not told at all. All of them are in their
        partitions' lists, and `recover` goes on with each from the state that it is in.

        Args:
            response: How it ended.
            batches: What was in it.
            topic_names: The names of the topic ids in it.
        """
        ledger = self._registry.ledger
        ledger.now_ms = ledger.tells_from_ms = response.received_ms
        if response.body is not None or response.timed_out:
            node = self._registry.node(response.destination)
            node.produce_ended_total += 1
            node.produce_ms_total += response.latency_ms
        if response.body is not None:
            node.latency.add(response.latency_ms)
            self._on_answer(response, batches, topic_names)
        elif response.version_mismatch is not None:
            for batch in batches.values():  # each its own: only one of them may be in the log
                self._fail(batch, own_copy(response.version_mismatch), None)
        elif response.disconnected:
            self._on_no_answer(response, batches)
        elif response.error is not None:
            # The request could not even be written: a bug of ours, which no retry heals.
            error = response.error if isinstance(response.error, KafkaError) else LocalProtocolError(
                f"A Produce request could not be written: {response.error!r}")
            for batch in batches.values():
                own = own_copy(error)
                own.outcome = NOT_SENT  # of the class it may say that the peer sent nonsense
                self._fail(batch, own, None)
        else:
            # acks=0: the bytes are written, and nobody will ever tell more.
            for batch in batches.values():
                self._complete(batch, NO_OFFSET, -1, response.received_ms)
        ledger.tell_ms = self._count_telling(response.received_ms)
        ledger.tells_from_ms = 0
        for batch in batches.values():
            self._accumulator.finish(batch)
        ledger.tell_ms = 0

    def _count_telling(self, received_ms: int) -> int:
        """Note how long the outcomes of an answer took to be told, which is to say callbacks; return it, in ms."""
        from_ms = max(received_ms, self._told_ms)
        self._told_ms = now_ms = self.clock.now_ms()
        if now_ms > from_ms:
            self._registry.producer.callback_ms_total += now_ms - from_ms
            self._registry.ledger.sender.note(CALLBACK, from_ms, now_ms)
        return max(0, now_ms - from_ms)

    def expire(self, batch: ProducerBatch, now_ms: int, trouble: str = "") -> None:
        """Fail a batch whose delivery.timeout.ms passed, on the wire or not, or that no broker would know again.

        Args:
            batch: The batch.
            now_ms: The time.
            trouble: Why the client's own requests fail, without which it may not go; "" where none does.
        """
        maybe_in_log = batch.may_be_in_log or batch.is_in_flight
        sequence = self._accumulator.sequence_of(batch)
        over: str | None = (f"{now_ms - batch.created_ms} ms passed since the batch was created, and "
                            f"delivery.timeout.ms is {self._delivery_timeout_ms}")
        if sequence is not None and not batch.has_reached_delivery_timeout(self._delivery_timeout_ms, now_ms):
            topic_id = self._metadata.cluster.table(batch.topic_partition.topic).topic_id
            over = sequence.memory.why_not_again(batch, now_ms, topic_id)
        error = KafkaTimeoutError(
            f"{batch.record_count} record(s) for {batch.topic_partition} expired {_tried(batch)}: {over}"
            f"{self._why(batch, trouble)}",
            phase="delivery", outcome=UNKNOWN if maybe_in_log else NOT_SENT)
        error.__cause__ = batch.last_error
        self.on_failed(error)
        if sequence is not None:
            sequence.on_end(batch, SequenceEvent.UNKNOWN if maybe_in_log else SequenceEvent.FAILED)
        self.count_failed(batch.record_count)
        if batch.state is BatchState.ON_WIRE:
            # The socket may still read the batch's bytes: memory is given back when the request ends.
            batch.fail(lambda _index: error)
            move(batch, BatchState.LATE)
        else:
            batch.fail(lambda _index: error)
            self._accumulator.finish(batch)

    def _why(self, batch: ProducerBatch, trouble: str) -> str:
        """Say what kept a batch from being stored, for the end of an error's text; see `expire`."""
        last_error = ("" if batch.last_error is None
                      else f"; the last attempt failed with: {str(batch.last_error).rstrip('.')}")
        if batch.is_in_flight:
            return last_error
        return (f"{last_error}{'; ' + trouble if trouble else ''}. "
                f"{self._metadata.describe_failure(batch.topic_partition.topic)}")

    def give_up(self, error: KafkaError, trouble: str) -> int:
        """Fail all that is left, for the producer is closed; each error says what its records waited for.

        Args:
            error: That it is closed.
            trouble: See `expire`.

        Returns:
            How many records failed.
        """
        def explain(topic: str, batch: ProducerBatch | None) -> KafkaError:
            own = own_copy(error)
            if batch is None:
                own.args = (f"{error}: {self._metadata.describe_failure(topic)}",)
            else:
                own.args = (f"{error}, {_tried(batch)}{self._why(batch, trouble)}",)
                own.__cause__ = batch.last_error
            return own

        aborted = self._accumulator.abort_batches(error, explain=explain)
        self.count_failed(aborted)
        return aborted

    def refuse(self, refusal: Refusal) -> None:
        """Fail what waits for whoever refused us for good; what is sent from now on tries again.

        Whatever is on its way to another node goes on. Differs from Java, where it waits for delivery.timeout.ms.
        """
        cluster = self._metadata.cluster
        for batch in self._accumulator.batches():
            if batch.is_done or batch.is_in_flight:
                continue
            leader = cluster.leader_for(batch.topic_partition)
            if refusal.node_id is None or refusal.node_id == (NO_LEADER if leader is None else leader.node_id):
                self._accumulator.seal(batch)
                self._fail(batch, own_copy(refusal.error), None)
                self._accumulator.finish(batch)

    def abort(self, error: KafkaError, *, only_undrained: bool = False, of_transaction: bool = False) -> int:
        """Fail what is left; see RecordAccumulator.abort_batches."""
        aborted = self._accumulator.abort_batches(error, only_undrained=only_undrained, of_transaction=of_transaction)
        self.count_failed(aborted)
        return aborted

    def on_failed(self, error: KafkaError) -> None:
        """A record fails, and with it the transaction that it is in; before it is told. Thread: any."""
        if self._transactions is not None:
            self._transactions.on_failed(error)

    def count_failed(self, record_count: int) -> None:
        """Count records that failed."""
        self._registry.producer.record_error_total += record_count

    def _on_answer(self, response: ClientResponse, batches: BatchesByPartition,
                   topic_names: Mapping[UUID, str]) -> None:
        body = response.body
        has_topic_ids = response.api_version >= FIRST_VERSION_WITH_TOPIC_IDS
        left = dict(batches)
        leaders: dict[TopicPartition, tuple[int, int]] = {}
        for topic in body["responses"]:
            # Ids are looked up in the request that is answered, not in metadata, which may have others by now.
            name = topic_names.get(topic["topic_id"]) if has_topic_ids else topic["name"]
            for partition in topic["partition_responses"]:
                batch = None if name is None else left.pop((name, partition["index"]), None)
                if batch is None:
                    log.warning("Node %s answered for %s-%s, which was not asked for", response.destination,
                                printable(str(topic["topic_id" if has_topic_ids else "name"]), LONGEST_NAME),
                                partition["index"])
                    continue
                if partition["error_code"] == 0:
                    self._complete(batch, partition["base_offset"], partition["log_append_time_ms"],
                                   response.received_ms)
                else:
                    leader = partition.get("current_leader") if response.api_version >= 10 else None
                    if leader is not None and leader["leader_id"] >= 0 and leader["leader_epoch"] >= 0:
                        leaders[batch.topic_partition] = (leader["leader_id"], leader["leader_epoch"])
                    self._on_error(batch, partition, response)
        if leaders:
            self._metadata.update_leaders(leaders, [Node(node["node_id"], node["host"], node["port"], node["rack"])
                                                    for node in body["node_endpoints"]])
        for batch in left.values():
            batch.may_be_in_log = True
            self._retry_or_fail(batch, RemoteProtocolError(
                f"Node {response.destination} did not answer for {batch.topic_partition} in its Produce response"),
                None, response.received_ms)

    def _on_error(self, batch: ProducerBatch, partition: Any, response: ClientResponse) -> None:
        code = partition["error_code"]
        known = ErrorCode.of(code)
        version = response.api_version
        error_message = partition.get("error_message") if version >= 8 else None
        place = str(batch.topic_partition)
        if known is ErrorCode.MESSAGE_TOO_LARGE and batch.encoded is not None:
            place += f": {len(batch.encoded)} bytes were sent for {batch.record_count} record(s)"
        error = error_for_code(code, message=f"{place}: {error_message}" if error_message else f"{place}:",
                               api="Produce", node_id=response.destination)
        if known is ErrorCode.MESSAGE_TOO_LARGE and batch.record_count > 1 and not batch.is_done:
            self._split(batch, error)
            return
        if known is ErrorCode.DUPLICATE_SEQUENCE_NUMBER:
            # It is in the log from an earlier attempt; where, the broker does not say.
            self._complete(batch, NO_OFFSET, -1, response.received_ms)
            return
        sequence = self._accumulator.sequence_of(batch)
        if known in REFUSALS and sequence is not None:
            doubt = None if batch.is_done else sequence.doubt_left(batch, known, partition.get("log_start_offset", -1))
            if doubt is not None:
                self._fail_undecided(batch, error, doubt)
                return
            batch.may_be_in_log = False  # no attempt has stored it
            error.outcome = REJECTED
        elif error.outcome == UNKNOWN:
            # The leader may have appended it before it answered with the error, whatever becomes of the next attempts.
            batch.may_be_in_log = True
        record_errors = {row["batch_index"]: row["batch_index_error_message"]
                         for row in (partition.get("record_errors") or ())} if version >= 8 else {}
        self._retry_or_fail(
            batch, error, known, response.received_ms,
            error_for=_error_by_record(error, record_errors, error_message, batch) if record_errors else None)
        if error.refresh_metadata:
            log.debug("Metadata is refreshed: %s", error)
            self._metadata.request_update()

    def _on_no_answer(self, response: ClientResponse, batches: BatchesByPartition) -> None:
        why = f": {response.error}" if response.error is not None else ""
        for batch in batches.values():
            if response.timed_out:
                error: KafkaError = KafkaTimeoutError(
                    f"Node {response.destination} did not answer a Produce request for {batch.topic_partition} within "
                    f"request.timeout.ms{why}", phase="request", outcome=UNKNOWN)
            else:
                error = DisconnectedError(f"The connection to node {response.destination} ended before the answer to a "
                                          f"Produce request for {batch.topic_partition}{why}")
            if response.was_sent_and_unanswered:
                batch.may_be_in_log = True
            else:  # not whole: no broker can act on that, however the connection ended
                error.outcome = NOT_SENT
            self._retry_or_fail(batch, error, ErrorCode.NETWORK_EXCEPTION, response.received_ms)
        self._metadata.request_update()

    def _retry_or_fail(self, batch: ProducerBatch, error: KafkaError, code: ErrorCode | None, now_ms: int, *,
                       error_for: Callable[[int], KafkaError] | None = None) -> None:
        batch.last_error = error
        sequence = self._accumulator.sequence_of(batch)
        if self._can_retry(batch, error, code, now_ms):
            log.debug("Attempt %d for %s failed and is repeated: %s", batch.attempts + 1, batch.topic_partition, error)
            self._registry.count_retry(batch.topic_partition, error, batch.record_count)
            self._accumulator.reenqueue(batch, now_ms)
            if sequence is not None:
                sequence.on_retry(batch, code)
        else:
            self._fail(batch, error, error_for)

    def _can_retry(self, batch: ProducerBatch, error: KafkaError, code: ErrorCode | None, now_ms: int) -> bool:
        if (batch.is_done or batch.attempts >= self._retries
                or batch.has_reached_delivery_timeout(self._delivery_timeout_ms, now_ms)):
            return False
        manager = self._transaction_manager
        if manager is not None and code is not None:
            transactions = self._transactions
            if manager.fatal_error is not None or (transactions is not None and transactions.is_failing):
                return False
            if code in REFUSALS:
                # In a transaction no new epoch can begin: it is over, unless one before this batch is missing there.
                sequence = self._accumulator.sequence_of(batch)
                return transactions is None or (code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
                                                and sequence is not None and sequence.is_behind_another(batch))
        return error.retriable or isinstance(error, RemoteProtocolError)

    def recover(self, batch: ProducerBatch, now_ms: int, why: str = "a turn of the sender ended half way") -> None:
        """Bring a batch to where it goes on when no connection is left, and say `why` in its errors."""
        if self._accumulator.resume(batch):
            return
        if batch.state is BatchState.DRAINED:
            move(batch, BatchState.RETRY)  # it never left
        elif batch.state is BatchState.ON_WIRE:
            batch.may_be_in_log = True
            self._retry_or_fail(batch, DisconnectedError(
                f"The connection was closed before the answer to a Produce request for {batch.topic_partition}: {why}"),
                ErrorCode.NETWORK_EXCEPTION, now_ms)
            self._accumulator.finish(batch)

    def _split(self, batch: ProducerBatch, error: ApiError) -> None:
        log.warning("The broker found a batch of %d records and %d bytes for %s too large; it is split and sent again. "
                    "A batch.size below the topic's max.message.bytes avoids that: %s", batch.record_count,
                    batch.size_bytes, batch.topic_partition, error)
        self._accumulator.split(batch)
        self._registry.producer.batch_split_total += 1

    def _complete(self, batch: ProducerBatch, base_offset: int, log_append_time: int, now_ms: int) -> None:
        if not 0 <= base_offset <= _MOST_OFFSET - batch.record_count:
            base_offset = NO_OFFSET  # also where it is nonsense: that the records are stored is said all the same
        sequence = self._accumulator.sequence_of(batch)
        if batch.parts_in_doubt:
            # The whole was not stored, for the broker took its numbers for a part.
            if sequence is not None and sequence.memory.is_known_to(batch):
                for part in batch.parts_in_doubt:
                    if part.first_sent_ms is None:
                        part.may_be_in_log = False
            batch.parts_in_doubt.clear()
        if sequence is not None:
            newest = batch.open.max_timestamp
            # In a topic of the broker's time that is now, by its own clock; a repeated batch is told its own.
            is_of_brokers_time = log_append_time not in (NO_TIMESTAMP, newest)
            age_ms = 0 if is_of_brokers_time else self.clock.timestamp_ms() - newest
            sequence.on_stored(batch, now_ms, age_ms, base_offset)
        if batch.attempts and log_append_time == batch.open.max_timestamp:
            # Kafka 4.1 answers a batch that it has already with the batch's own timestamp, whatever the topic's
            # timestamp type. Differs from Java, which then reports that one for every record of the batch.
            log_append_time = NO_TIMESTAMP
        batch.complete(base_offset, log_append_time)  # nothing, where it expired while its answer was on its way

    def _fail_undecided(self, batch: ProducerBatch, refusal: ApiError, doubt: str) -> None:
        """Fail a batch that may be in the log, and whose numbers cannot tell: the broker refused them.

        In a new epoch the broker could not know it again, and would store it a second time. Differs from Java, which
        takes that chance. Where the whole that it was split from is in doubt, all its parts fail.
        """
        for part in list(batch.parts_in_doubt) or [batch]:
            last = increment_sequence(part.base_sequence, part.record_count - 1)
            error = error_for_code(refusal.code, api=refusal.api, node_id=refusal.node_id, message=(
                f"{part.topic_partition}: {part.record_count} record(s) may be in the log. An attempt may have stored "
                f"them, and by the sequence numbers {part.base_sequence} to {last} of producer id "
                f"{part.producer_id}, epoch {part.producer_epoch}, the broker cannot tell any more: {doubt}. It said:"))
            error.outcome = UNKNOWN
            error.__cause__ = batch.last_error
            self._fail(part, error, None)
            if part is not batch:
                self._accumulator.finish(part)

    def _fail(self, batch: ProducerBatch, error: KafkaError, error_for: Callable[[int], KafkaError] | None) -> None:
        if not batch.is_done:
            if batch.may_be_in_log:
                error.outcome = UNKNOWN
            self.on_failed(error)  # first: that of its numbers says less
            sequence = self._accumulator.sequence_of(batch)
            if sequence is not None:
                sequence.on_end(batch, SequenceEvent.UNKNOWN if error.outcome == UNKNOWN else SequenceEvent.FAILED)
            self.count_failed(batch.record_count)
        batch.fail(error_for or (lambda _index: error))


def _tried(batch: ProducerBatch) -> str:
    return f"after {batch.attempts} failed attempts" if batch.attempts else (
        "while its first request was not answered" if batch.is_in_flight else "before it could be sent")


def _error_by_record(error: ApiError, messages: dict[int, str | None], error_message: str | None,
                     batch: ProducerBatch) -> Callable[[int], KafkaError]:
    """Give a record that the broker named its own words, and the others those of the first one that has any (KIP-467).

    One without words gets `error_message`, which is the batch's. Differs from Java, which tells the others none.
    """
    first = next((index for index, message in messages.items() if message), next(iter(messages)))

    def error_for(index: int) -> KafkaError:
        named = index if index in messages else first
        own = error_for_code(error.code, message=messages[named] or error_message, api=error.api,
                             node_id=error.node_id)
        if named != index:  # who sees this error alone, of all, is to see why
            own.args = (f"The record is valid, but it was part of a batch that the broker refused because of another "
                        f"record: {own}",)
            own.__cause__ = error
        if batch.may_be_in_log:  # from an earlier attempt
            own.outcome = UNKNOWN
        return own
    return error_for
