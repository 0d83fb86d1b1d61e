"""The coordinators of transactions, as one state machine: who has which transactional id, what is open, how it ended.

    FindCoordinator    0-6    InitProducerId    with a transactional id
    AddPartitionsToTxn 0-3    AddOffsetsToTxn   0-4       TxnOffsetCommit  0-5
    EndTxn             0-5    Produce           whose batches belong to a transaction
    DescribeTransactions 0

The end of a transaction is decided at once, and completed a while later: then its markers are in the logs, and its
offsets are there. Until then whoever begins another one of that id is told 51, as in Kafka. Which node is the
coordinator of an id may change at any time; all know the same.

Thread:  whoever steps the model. It reads no clock, and draws nothing.
Source:  Kafka's TransactionCoordinator and TransactionMetadata (4.1); KIP-98, KIP-360, KIP-447, KIP-890. Nothing of
         KIP-939.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pyproducer.protocol.apis import ApiKeys
from tests.simulation.model_batch import NO_PRODUCER_ID, ProducedBatch, bug
from tests.simulation.model_log import ModelPartition
from tests.simulation.model_topics import ClusterState

COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR = 15, 16
UNKNOWN_TOPIC_OR_PARTITION, OPERATION_NOT_ATTEMPTED = 3, 55
INVALID_PRODUCER_EPOCH, INVALID_TXN_STATE, INVALID_PRODUCER_ID_MAPPING, CONCURRENT_TRANSACTIONS = 47, 48, 49, 51
PRODUCER_FENCED = 90
GROUP, TRANSACTION = 0, 1
TRANSACTIONAL_ID_NOT_FOUND = 105
APIS = (ApiKeys.FIND_COORDINATOR, ApiKeys.ADD_PARTITIONS_TO_TXN, ApiKeys.ADD_OFFSETS_TO_TXN, ApiKeys.END_TXN,
        ApiKeys.TXN_OFFSET_COMMIT, ApiKeys.DESCRIBE_TRANSACTIONS)
VERSIONS = {ApiKeys.FIND_COORDINATOR: (0, 6), ApiKeys.ADD_PARTITIONS_TO_TXN: (0, 3),
            ApiKeys.ADD_OFFSETS_TO_TXN: (0, 4), ApiKeys.END_TXN: (0, 5), ApiKeys.TXN_OFFSET_COMMIT: (0, 5),
            ApiKeys.DESCRIBE_TRANSACTIONS: (0, 0)}
PLACES_OF = (ApiKeys.ADD_PARTITIONS_TO_TXN, ApiKeys.TXN_OFFSET_COMMIT)
"""What names partitions: a coordinator may refuse one of them."""

FIRST_VERSION_WITH_EPOCH = 5  # of EndTxn
_LAST_EPOCH = 2**15 - 1
_FENCED_FROM = 2  # of AddPartitionsToTxn, AddOffsetsToTxn and EndTxn; below it 47 says so


class Status(enum.Enum):
    """Where a transactional id stands."""

    EMPTY = "nothing is open"
    ONGOING = "a transaction is open"
    COMMITTED = "the last one was committed"
    ABORTED = "the last one was aborted"


_STATES = {Status.EMPTY: "Empty", Status.ONGOING: "Ongoing", Status.COMMITTED: "CompleteCommit",
           Status.ABORTED: "CompleteAbort"}

@dataclass
class ModelTransaction:
    """What coordinators know of one transactional id.

    Attributes:
        producer_id, epoch: Of who has it.
        last_epoch: The one before, with which a request that brought the newer one may come again; -1 for none.
        partitions: Those in the transaction, or of the one that is being completed.
        offsets: By (group, topic, partition).
        began_ms: When it was opened.
        timeout_ms: transaction.timeout.ms.
        completes_ms: When its end is in the logs; None where it is, or nothing ended.
        marker_epoch: Of the markers that are to be written.
    """

    producer_id: int
    epoch: int = 0
    last_epoch: int = -1
    status: Status = Status.EMPTY
    partitions: dict[tuple[str, int], ModelPartition] = field(default_factory=dict)
    groups: set[str] = field(default_factory=set)
    offsets: dict[tuple[str, str, int], int] = field(default_factory=dict)
    began_ms: int = 0
    timeout_ms: int = 60_000
    completes_ms: int | None = None
    marker_epoch: int = 0


def refused(api_key: ApiKeys, version: int, body: Any, code: int) -> Mapping[str, Any]:
    """Return the answer to a request that is refused as a whole."""
    if api_key is ApiKeys.FIND_COORDINATOR:
        row: dict[str, Any] = {"error_code": code, "node_id": -1, "host": "", "port": -1, "error_message": "simulated"}
        if version < 4:
            return {"throttle_time_ms": 0, **row}
        return {"throttle_time_ms": 0, "coordinators": [{**row, "key": key} for key in body["coordinator_keys"]]}
    if api_key is ApiKeys.ADD_PARTITIONS_TO_TXN:
        return {"throttle_time_ms": 0, "results_by_topic_v3_and_below": [
            {"name": topic["name"], "results_by_partition": [
                {"partition_index": index, "partition_error_code": code} for index in topic["partitions"]]}
            for topic in body["v3_and_below_topics"]]}
    if api_key is ApiKeys.TXN_OFFSET_COMMIT:
        return {"throttle_time_ms": 0, "topics": [{"name": topic["name"], "partitions": [
            {"partition_index": row["partition_index"], "error_code": code} for row in topic["partitions"]]}
            for topic in body["topics"]]}
    if api_key is ApiKeys.DESCRIBE_TRANSACTIONS:
        return {"throttle_time_ms": 0, "transaction_states": [
            _description(key, code, None) for key in body["transactional_ids"]]}
    return {"throttle_time_ms": 0, "error_code": code}


def codes_of(api_key: ApiKeys, version: int, answer: Mapping[str, Any]) -> set[int]:
    """Return the codes that an answer has."""
    if api_key is ApiKeys.FIND_COORDINATOR:
        return {row["error_code"] for row in answer["coordinators"]} if version >= 4 else {answer["error_code"]}
    if api_key is ApiKeys.ADD_PARTITIONS_TO_TXN:
        return {row["partition_error_code"] for topic in answer["results_by_topic_v3_and_below"]
                for row in topic["results_by_partition"]}
    if api_key is ApiKeys.TXN_OFFSET_COMMIT:
        return {row["error_code"] for topic in answer["topics"] for row in topic["partitions"]}
    if api_key is ApiKeys.DESCRIBE_TRANSACTIONS:
        return {row["error_code"] for row in answer["transaction_states"]}
    return {answer["error_code"]}


def _description(key: str, code: int, transaction: ModelTransaction | None) -> dict[str, Any]:
    if transaction is None:
        return {"error_code": code, "transactional_id": key, "transaction_state": "", "transaction_timeout_ms": -1,
                "transaction_start_time_ms": -1, "producer_id": -1, "producer_epoch": -1, "topics": []}
    topics: dict[str, list[int]] = {}
    for topic, index in transaction.partitions:
        topics.setdefault(topic, []).append(index)
    state = _STATES[transaction.status]
    if transaction.completes_ms is not None:
        state = state.replace("Complete", "Prepare")
    return {"error_code": 0, "transactional_id": key, "transaction_state": state,
            "transaction_timeout_ms": transaction.timeout_ms, "transaction_start_time_ms": transaction.began_ms,
            "producer_id": transaction.producer_id, "producer_epoch": transaction.epoch, "topics": [
                {"topic": topic, "partitions": indexes} for topic, indexes in topics.items()]}


class ModelCoordinators:
    """All coordinators of a cluster.

    Args:
        cluster: Whose.
        is_v2: Whether the cluster has come to Transactions V2.

    Attributes:
        transactions: By transactional id.
        committed: What is committed of groups, in order: (group, topic, partition) and offset.
        completion_ms: How long the next completions take.
        late_adds: Whose AddPartitionsToTxn came out of an ended connection, and may have opened a transaction anew.
        stepped_back: Whose offsets a TxnOffsetCommit set that came out of an ended connection, behind newer ones of the
            same transaction: (group, topic, partition).
        fenced: Why producers were fenced: the epochs that nobody may use any more, by producer id.
    """

    def __init__(self, cluster: ClusterState, *, is_v2: bool) -> None:
        self.is_v2 = is_v2
        self.transactions: dict[str, ModelTransaction] = {}
        self.committed: list[tuple[tuple[str, str, int], int]] = []
        self.completion_ms = 0
        self.fenced: dict[int, str] = {}
        self.stepped_back: set[tuple[str, str, int]] = set()
        self.late_adds: set[str] = set()
        self._cluster = cluster
        self._moved = 0
        self._ids_given = 0

    # -- where they are

    def move(self) -> None:
        """Have other nodes be the coordinators from now on."""
        self._moved += 1

    def node_of(self, key: str) -> int:
        """Return which living node is the coordinator of a key; -1 where none lives."""
        alive = [node_id for node_id in self._cluster.nodes if self._cluster.is_alive(node_id)]
        return alive[(len(key) + self._moved) % len(alive)] if alive else -1

    def fence(self, now_ms: int) -> None:
        """Let somebody else be initialised with each transactional id: what is open is aborted."""
        for transaction in self.transactions.values():
            self._complete_if_due(transaction, now_ms, at_once=True)
            self._abort_for(transaction, now_ms, "another producer was initialised")

    # -- requests

    def handle(self, api_key: ApiKeys, version: int, node_id: int, body: Any, now_ms: int, *,
               is_late: bool = False, place_code: int = 0) -> Mapping[str, Any]:
        """Apply a request and answer it; one that is late comes out of a connection that has ended.

        With a `place_code` one partition that it names is refused so, the first or one in the middle: of partitions to
        add none is added then, and of offsets all others are taken.
        """
        if api_key is ApiKeys.FIND_COORDINATOR:
            return self._find(version, body)
        if api_key is ApiKeys.DESCRIBE_TRANSACTIONS:
            return {"transaction_states": [self._describe(key, node_id) for key in body["transactional_ids"]]}
        key = body["v3_and_below_transactional_id" if api_key is ApiKeys.ADD_PARTITIONS_TO_TXN else "transactional_id"]
        coordinator = self.node_of(body["group_id"] if api_key is ApiKeys.TXN_OFFSET_COMMIT else key)
        code = NOT_COORDINATOR if coordinator != node_id else 0
        if api_key is ApiKeys.ADD_PARTITIONS_TO_TXN:
            if is_late:
                self.late_adds.add(key)
            return self._add_partitions(version, key, body, code, now_ms, place_code)
        if api_key is ApiKeys.TXN_OFFSET_COMMIT:
            return self._commit_offsets(version, key, body, code, now_ms, is_late=is_late, place_code=place_code)
        if api_key is ApiKeys.ADD_OFFSETS_TO_TXN:
            if self.is_v2:
                bug("AddOffsetsToTxn was sent, and the cluster has come to Transactions V2")
            code = code or self._open(version, key, body["producer_id"], body["producer_epoch"], now_ms)
            if not code:
                self.transactions[key].groups.add(body["group_id"])
            return {"error_code": code}
        assert api_key is ApiKeys.END_TXN, "nothing else comes here"
        return self._end(version, key, body, code, now_ms)

    def _find(self, version: int, body: Any) -> Mapping[str, Any]:
        keys = body["coordinator_keys"] if version >= 4 else [body["key"]]
        rows = []
        for key in keys:
            node_id = self.node_of(key)
            host, port = self._cluster.address_of(node_id) if node_id >= 0 else ("", -1)  # type: ignore[attr-defined]
            row: dict[str, Any] = {"error_code": 0 if node_id >= 0 else COORDINATOR_NOT_AVAILABLE, "node_id": node_id,
                                   "host": host, "port": port, "error_message": None}
            rows.append({**row, "key": key} if version >= 4 else row)
        return {"coordinators": rows} if version >= 4 else rows[0]

    def _describe(self, key: str, node_id: int) -> Mapping[str, Any]:
        transaction = self.transactions.get(key)
        code = NOT_COORDINATOR if self.node_of(key) != node_id else TRANSACTIONAL_ID_NOT_FOUND
        return _description(key, code, None if code == NOT_COORDINATOR else transaction)

    def init(self, body: Any, node_id: int, now_ms: int, new_id: int, *, is_late: bool = False) -> Mapping[str, Any]:
        """Answer InitProducerId with a transactional id.

        Args:
            body: The request's.
            node_id: Who is asked.
            now_ms: When.
            new_id: Given where the transactional id is new.
            is_late: It is of a connection that has ended: a producer that begins fences itself by it, if it has its
                epoch by then.
        """
        key, producer_id, epoch = body["transactional_id"], body.get("producer_id", -1), body.get("producer_epoch", -1)
        refused: dict[str, Any] = {"producer_id": -1, "producer_epoch": -1}
        if self.node_of(key) != node_id:
            return {**refused, "error_code": NOT_COORDINATOR}
        transaction = self.transactions.get(key)
        if transaction is None:
            transaction = self.transactions[key] = ModelTransaction(new_id)
            if producer_id != NO_PRODUCER_ID:
                bug(f"InitProducerId brings an epoch of {key!r}, of which nobody was given any")
            transaction.timeout_ms = body["transaction_timeout_ms"]
            return {"error_code": 0, "producer_id": transaction.producer_id, "producer_epoch": transaction.epoch}
        if self._complete_if_due(transaction, now_ms):
            return {**refused, "error_code": CONCURRENT_TRANSACTIONS}
        if producer_id != NO_PRODUCER_ID:
            if producer_id != transaction.producer_id or epoch not in (transaction.epoch, transaction.last_epoch):
                return {**refused, "error_code": PRODUCER_FENCED}
            if epoch == transaction.last_epoch != transaction.epoch:  # its answer was lost
                return {"error_code": 0, "producer_id": producer_id, "producer_epoch": transaction.epoch}
        why = "its own InitProducerId came late" if is_late and producer_id == NO_PRODUCER_ID else ""
        if key in self.late_adds and transaction.status is Status.ONGOING:  # and opened a transaction anew
            why = "its own AddPartitionsToTxn came late"
        if transaction.status is Status.ONGOING:
            self._abort_for(transaction, now_ms, why)
            return {**refused, "error_code": CONCURRENT_TRANSACTIONS}
        if why:
            self.fenced[transaction.producer_id] = why
        self._next_epoch(transaction, new_id)
        transaction.last_epoch = epoch if producer_id != NO_PRODUCER_ID else -1
        transaction.status = Status.EMPTY
        transaction.timeout_ms = body["transaction_timeout_ms"]
        return {"error_code": 0, "producer_id": transaction.producer_id, "producer_epoch": transaction.epoch}

    def _add_partitions(self, version: int, key: str, body: Any, code: int, now_ms: int,
                        place_code: int) -> Mapping[str, Any]:
        if self.is_v2:
            bug("AddPartitionsToTxn was sent, and the cluster has come to Transactions V2")
        wanted = [(topic["name"], index) for topic in body["v3_and_below_topics"] for index in topic["partitions"]]
        if not wanted or len(set(wanted)) < len(wanted):
            bug(f"AddPartitionsToTxn is for {wanted}")
        places = self._cluster.topics
        missing = {(topic, index) for topic, index in wanted if index >= len(places.get(topic, ()))}
        refused = {wanted[len(wanted) // 2]: place_code} if place_code else dict.fromkeys(
            missing, UNKNOWN_TOPIC_OR_PARTITION)
        code = code or (0 if refused else self._open(
            version, key, body["v3_and_below_producer_id"], body["v3_and_below_producer_epoch"], now_ms))
        if not code and not refused:
            self.transactions[key].partitions.update({(topic, index): places[topic][index] for topic, index in wanted})
        answers: dict[str, list[dict[str, int]]] = {}
        for topic, index in wanted:
            own = refused.get((topic, index), OPERATION_NOT_ATTEMPTED if refused else 0)
            answers.setdefault(topic, []).append({"partition_index": index, "partition_error_code": code or own})
        return {"results_by_topic_v3_and_below": [
            {"name": topic, "results_by_partition": rows} for topic, rows in answers.items()]}

    def _commit_offsets(self, version: int, key: str, body: Any, code: int, now_ms: int, *,
                        is_late: bool, place_code: int) -> Mapping[str, Any]:
        group, producer = body["group_id"], (body["producer_id"], body["producer_epoch"])
        if (version >= FIRST_VERSION_WITH_EPOCH) is not self.is_v2:
            bug(f"TxnOffsetCommit {version} was sent, with Transactions V{1 + self.is_v2}")
        transaction = self.transactions.get(key)
        if self.is_v2:
            code = code or self._open(version, key, *producer, now_ms)
        elif not code:
            if transaction is None or producer != (transaction.producer_id, transaction.epoch):
                code = INVALID_PRODUCER_EPOCH
            elif transaction.status is not Status.ONGOING or group not in transaction.groups:
                code = INVALID_TXN_STATE
                if not is_late:
                    bug(f"TxnOffsetCommit is for the group {group!r}, which was not added")
        offsets = {(group, topic["name"], row["partition_index"]): row["committed_offset"]
                   for topic in body["topics"] for row in topic["partitions"]}
        refused = next(iter(offsets)) if place_code and not code else None
        if not code:
            assert transaction is not None, "it is open"
            if is_late:
                self.stepped_back.update(place for place, offset in offsets.items()
                                         if transaction.offsets.get(place, offset) != offset)
            transaction.offsets.update({place: offset for place, offset in offsets.items() if place != refused})
        return {"topics": [{"name": topic["name"], "partitions": [
            {"partition_index": row["partition_index"],
             "error_code": place_code if (group, topic["name"], row["partition_index"]) == refused else code}
            for row in topic["partitions"]]} for topic in body["topics"]]}

    def _end(self, version: int, key: str, body: Any, code: int, now_ms: int) -> Mapping[str, Any]:
        if (version >= FIRST_VERSION_WITH_EPOCH) is not self.is_v2:
            bug(f"EndTxn {version} was sent, with Transactions V{1 + self.is_v2}")
        transaction = self.transactions.get(key)
        wanted = Status.COMMITTED if body["committed"] else Status.ABORTED
        if code or transaction is None or body["producer_id"] != transaction.producer_id:
            return {"error_code": code or INVALID_PRODUCER_ID_MAPPING}
        self._abort_if_late(transaction, now_ms)
        given = {"producer_id": transaction.producer_id, "producer_epoch": transaction.epoch} if self.is_v2 else {}
        if self.is_v2 and body["producer_epoch"] == transaction.last_epoch != transaction.epoch and (
                transaction.status is wanted):  # its answer was lost
            is_open = self._complete_if_due(transaction, now_ms)
            return {"error_code": CONCURRENT_TRANSACTIONS} if is_open else {"error_code": 0, **given}
        if body["producer_epoch"] != transaction.epoch:
            return {"error_code": PRODUCER_FENCED if version >= _FENCED_FROM else INVALID_PRODUCER_EPOCH}
        if transaction.status is wanted and not self.is_v2:
            is_open = self._complete_if_due(transaction, now_ms)
            return {"error_code": CONCURRENT_TRANSACTIONS if is_open else 0}
        if self._complete_if_due(transaction, now_ms):
            return {"error_code": CONCURRENT_TRANSACTIONS}
        # Of a transaction that never came here: with Transactions V2 its abort brings the next epoch all the same.
        if transaction.status is not Status.ONGOING and (body["committed"] or not self.is_v2):
            return {"error_code": INVALID_TXN_STATE}
        transaction.status = wanted
        transaction.marker_epoch = transaction.epoch + self.is_v2
        if self.is_v2:
            self._next_epoch(transaction, None)
            transaction.last_epoch = transaction.epoch - 1
        transaction.completes_ms = now_ms + self.completion_ms
        given = {"producer_id": transaction.producer_id, "producer_epoch": transaction.epoch} if self.is_v2 else {}
        return {"error_code": 0, **given}

    def refusal_of(self, key: str, batch: ProducedBatch, partition: ModelPartition, now_ms: int) -> int:
        """Return why a batch of a transaction is not taken; 0 where it may be, and its partition is in it then."""
        if self.is_v2:
            code = self._open(_FENCED_FROM - 1, key, batch.producer_id, batch.producer_epoch, now_ms)
            if not code:
                self.transactions[key].partitions[partition.topic, partition.index] = partition
            return code
        transaction = self.transactions.get(key)
        if transaction is None or (batch.producer_id, batch.producer_epoch) != (
                transaction.producer_id, transaction.epoch):
            return INVALID_PRODUCER_EPOCH
        self._abort_if_late(transaction, now_ms)
        if transaction.epoch != batch.producer_epoch:
            return INVALID_PRODUCER_EPOCH
        is_in = transaction.status is Status.ONGOING and (partition.topic, partition.index) in transaction.partitions
        return 0 if is_in else INVALID_TXN_STATE

    # -- inside

    def _open(self, version: int, key: str, producer_id: int, epoch: int, now_ms: int) -> int:
        """Have a transaction be open for who asks; return why it is not."""
        transaction = self.transactions.get(key)
        if transaction is None or producer_id != transaction.producer_id:
            return INVALID_PRODUCER_ID_MAPPING
        self._abort_if_late(transaction, now_ms)
        if epoch != transaction.epoch:
            return PRODUCER_FENCED if version >= _FENCED_FROM else INVALID_PRODUCER_EPOCH
        if self._complete_if_due(transaction, now_ms):
            return CONCURRENT_TRANSACTIONS
        if transaction.status is not Status.ONGOING:
            transaction.status = Status.ONGOING
            transaction.began_ms = now_ms
            transaction.partitions, transaction.groups, transaction.offsets = {}, set(), {}
        return 0

    def _abort_if_late(self, transaction: ModelTransaction, now_ms: int) -> None:
        if transaction.status is Status.ONGOING and now_ms - transaction.began_ms > transaction.timeout_ms:
            self._abort_for(transaction, now_ms, "its transaction took longer than transaction.timeout.ms")

    def _abort_for(self, transaction: ModelTransaction, now_ms: int, why: str) -> None:
        """Abort what is open for somebody else, or for the clock: whoever has the epoch is fenced."""
        if why:
            self.fenced[transaction.producer_id] = why
        was_open = transaction.status is Status.ONGOING
        transaction.epoch += 1
        transaction.last_epoch = -1
        if was_open:
            transaction.status = Status.ABORTED
            transaction.marker_epoch = transaction.epoch
            transaction.completes_ms = now_ms + self.completion_ms

    def _next_epoch(self, transaction: ModelTransaction, new_id: int | None) -> None:
        if transaction.epoch >= _LAST_EPOCH - 1 and new_id is not None:
            transaction.producer_id, transaction.epoch = new_id, 0
        else:
            transaction.epoch += 1

    def _complete_if_due(self, transaction: ModelTransaction, now_ms: int, *, at_once: bool = False) -> bool:
        """Complete what was ended, if it is time; return whether it is still to be completed."""
        if transaction.completes_ms is None:
            return False
        if now_ms < transaction.completes_ms and not at_once:
            return True
        transaction.completes_ms = None
        is_commit = transaction.status is Status.COMMITTED
        for partition in transaction.partitions.values():
            partition.end_transaction(transaction.producer_id, transaction.marker_epoch, is_commit=is_commit)
        if is_commit:
            self.committed += list(transaction.offsets.items())
        transaction.partitions, transaction.offsets = {}, {}
        return False

    def complete_all(self, now_ms: int) -> None:
        """Complete all that was ended, and abort what is open for too long."""
        for transaction in self.transactions.values():
            self._abort_if_late(transaction, now_ms)
            self._complete_if_due(transaction, now_ms, at_once=True)
