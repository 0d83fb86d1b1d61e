"""AddPartitionsToTxn: which partitions a transaction writes to, before the first batch of each is sent.

Since Transactions V2 brokers add a partition with its first batch, and this is never sent.

Road:    batches that wait -> [AddPartitionsToTxn] -> drain
Thread:  sender thread only.
Source:  Java TransactionManager.AddPartitionsToTxnHandler (4.1). Differs from Java: which partitions are new is read
         off the batches, not noted when records are appended.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from pyproducer.accumulator.transaction_manager import TransactionManager
from pyproducer.client.request import ClientResponse
from pyproducer.common.cluster import TopicPartition
from pyproducer.common.error_codes import ErrorCode
from pyproducer.common.errors import ApiError
from pyproducer.protocol.apis import ApiKeys
from pyproducer.sender.requests.own_request import Reaction, TransactionRequest
from pyproducer.transaction.transaction_errors import is_fatal
from pyproducer.transaction.transactions import Transactions

# What ends the producer where its coordinator says so, and of a record does not; it says nothing of the partition.
_FATAL_HERE = frozenset({ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.INVALID_TXN_STATE})


def next_add_partitions(manager: TransactionManager, transactions: Transactions,
                        waiting_partitions: Callable[[], Iterable[TopicPartition]]) -> AddPartitionsToTxn | None:
    """Return the request where batches wait for partitions that are not in the transaction; see NextRequest.

    Args:
        manager: Has the producer id.
        transactions: Has the transaction.
        waiting_partitions: Gives the partitions that hold batches.
    """
    if transactions.is_v2 or not transactions.is_sending:
        return None
    added = transactions.current.partitions
    new = [place for place in waiting_partitions() if place not in added]
    return AddPartitionsToTxn(manager, transactions, new) if new else None


class AddPartitionsToTxn(TransactionRequest):
    """One request."""

    api_key = ApiKeys.ADD_PARTITIONS_TO_TXN
    makes_known = True

    def __init__(self, manager: TransactionManager, transactions: Transactions,
                 partitions: list[TopicPartition]) -> None:
        super().__init__(manager, transactions)
        self._partitions = partitions

    def build(self, version: int) -> Mapping[str, Any]:
        """See OwnRequest."""
        producer_id, epoch = self._manager.producer_id_and_epoch
        topics: dict[str, list[int]] = {}
        for topic, partition in self._partitions:
            topics.setdefault(topic, []).append(partition)
        self._transactions.note_first_request()
        return {"v3_and_below_transactional_id": self._transactions.transactional_id,
                "v3_and_below_producer_id": producer_id, "v3_and_below_producer_epoch": epoch,
                "v3_and_below_topics": [{"name": topic, "partitions": indexes} for topic, indexes in topics.items()]}

    def on_answer(self, response: ClientResponse) -> Reaction:
        """See OwnRequest."""
        failures: list[ApiError] = []
        added: list[TopicPartition] = []
        for topic in response.body["results_by_topic_v3_and_below"]:
            for row in topic["results_by_partition"]:
                place = TopicPartition(topic["name"], row["partition_index"])
                code = row["partition_error_code"]
                if code == ErrorCode.NONE:
                    added.append(place)
                elif code != ErrorCode.OPERATION_NOT_ATTEMPTED:  # which another partition of the request explains
                    failures.append(self.error_of(code, response, f"{place} cannot be added to the transaction:"))
        for error in failures:
            reaction = self.judge(error)
            if reaction is not None:
                self._transaction.is_known_there |= error.code != ErrorCode.CONCURRENT_TRANSACTIONS  # perhaps
                return reaction
            if error.code in _FATAL_HERE or is_fatal(error):
                self._transactions.on_fatal_error(error)
                return Reaction.DONE
        if failures:
            self._transactions.on_failed(failures[0])
        else:
            self._transaction.is_known_there = True
            self._transaction.partitions.update(dict.fromkeys(added))
            missing = next((place for place in self._partitions if place not in added), None)
            if missing is not None:
                return self.left_out(missing)
        return Reaction.DONE
