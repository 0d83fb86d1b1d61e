"""AddOffsetsToTxn and TxnOffsetCommit: what a group has consumed, as a part of the transaction.

Since Transactions V2 the group's coordinator adds itself to the transaction, and the first of the two is never sent.

Road:    send_offsets_to_transaction() -> [offsets] -> the transaction's coordinator, the group's coordinator
Thread:  sender thread only.
Source:  Java TransactionManager.AddOffsetsToTxnHandler, TxnOffsetCommitHandler (4.1); KIP-447 (member and generation).
         Differs from Java: a group is added once to a transaction.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyproducer.accumulator.transaction_manager import TransactionManager
from pyproducer.client.find_coordinator import GROUP
from pyproducer.client.request import ClientResponse
from pyproducer.common.cluster import TopicPartition
from pyproducer.common.consumer_offsets import ConsumerGroupMetadata
from pyproducer.common.error_codes import ErrorCode
from pyproducer.common.errors import ApiError, KafkaError, UnsupportedVersionError
from pyproducer.protocol.apis import ApiKeys
from pyproducer.sender.requests.own_request import CoordinatorKey, Reaction, TransactionRequest
from pyproducer.transaction.transactions import OffsetsToCommit, Transactions

LAST_VERSION_BEFORE_V2 = 4
FIRST_VERSION_WITH_MEMBERS = 3
_LEAVE_NO_HOPE = frozenset({ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_ID_MAPPING,
                            ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED})
# The member was replaced: Java's CommitFailedException, FencedInstanceIdException.
_MEMBER_IS_GONE = frozenset({ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION, ErrorCode.FENCED_INSTANCE_ID,
                             ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.STALE_MEMBER_EPOCH})


def next_offsets(manager: TransactionManager, transactions: Transactions) -> AddOffsetsToTxn | TxnOffsetCommit | None:
    """Return the request for the oldest offsets that are not in the transaction yet; see NextRequest.

    Args:
        manager: Has the producer id.
        transactions: Has the transaction.
    """
    current = transactions.current
    if not current.offsets or not transactions.is_sending:
        return None
    order = current.offsets[0]
    if not transactions.is_v2 and order.group.group_id not in current.groups:
        return AddOffsetsToTxn(manager, transactions, order)
    return TxnOffsetCommit(manager, transactions, order)


class AddOffsetsToTxn(TransactionRequest):
    """One request."""

    api_key = ApiKeys.ADD_OFFSETS_TO_TXN
    makes_known = True

    def __init__(self, manager: TransactionManager, transactions: Transactions, order: OffsetsToCommit) -> None:
        super().__init__(manager, transactions)
        self._group_id = order.group.group_id

    def build(self, version: int) -> Mapping[str, Any]:
        """See OwnRequest."""
        self._transactions.note_first_request()
        return {**self.whose(), "group_id": self._group_id}

    def on_answer(self, response: ClientResponse) -> Reaction:
        """See OwnRequest."""
        code = response.body["error_code"]
        if code == ErrorCode.NONE:
            self._transaction.is_known_there = True
            self._transaction.groups.add(self._group_id)
            return Reaction.DONE
        error = self.error_of(code, response,
                              f"The offsets of group {self._group_id!r} cannot be added to the transaction:")
        reaction = self.judge(error)
        if reaction is not None:
            self._transaction.is_known_there |= code != ErrorCode.CONCURRENT_TRANSACTIONS  # perhaps
            return reaction
        if code in (ErrorCode.GROUP_AUTHORIZATION_FAILED, ErrorCode.TRANSACTION_ABORTABLE,
                    ErrorCode.UNKNOWN_PRODUCER_ID):
            self._transactions.on_failed(error)
        else:
            self._transactions.on_fatal_error(error)
        return Reaction.DONE


class TxnOffsetCommit(TransactionRequest):
    """One request."""

    api_key = ApiKeys.TXN_OFFSET_COMMIT

    def __init__(self, manager: TransactionManager, transactions: Transactions, order: OffsetsToCommit) -> None:
        super().__init__(manager, transactions, CoordinatorKey(GROUP, order.group.group_id),
                         None if transactions.is_v2 else LAST_VERSION_BEFORE_V2)
        self._order = order

    def build(self, version: int) -> Mapping[str, Any]:
        """See OwnRequest."""
        group = self._order.group
        if version < FIRST_VERSION_WITH_MEMBERS and group != ConsumerGroupMetadata(group.group_id):
            raise UnsupportedVersionError(
                f"The coordinator of group {group.group_id!r} cannot check the consumer's member and generation "
                "(TxnOffsetCommit from version 3, brokers from 2.5 on): pass ConsumerGroupMetadata(group_id) alone, "
                "and have one transactional id for each partition that is consumed")
        topics: dict[str, list[dict[str, Any]]] = {}
        for (topic, partition), found in self._order.offsets.items():
            topics.setdefault(topic, []).append({
                "partition_index": partition, "committed_offset": found.offset,
                "committed_leader_epoch": found.leader_epoch, "committed_metadata": found.metadata})
        body: dict[str, Any] = {
            **self.whose(), "group_id": group.group_id,
            "topics": [{"name": topic, "partitions": rows} for topic, rows in topics.items()]}
        if version >= FIRST_VERSION_WITH_MEMBERS:
            body.update(generation_id=group.generation_id, member_id=group.member_id,
                        group_instance_id=group.group_instance_id)
        self._transactions.note_first_request()
        self._transaction.has_offsets = True
        if self._transactions.is_v2:
            self._transaction.is_known_there = True  # from the answer on for certain, from now on perhaps
        return body

    def on_answer(self, response: ClientResponse) -> Reaction:
        """See OwnRequest."""
        left = self._order.offsets
        failures: list[ApiError] = []
        for topic in response.body["topics"]:
            for row in topic["partitions"]:
                place = TopicPartition(topic["name"], row["partition_index"])
                if row["error_code"] == ErrorCode.NONE:
                    left.pop(place, None)
                else:
                    failures.append(self.error_of(
                        row["error_code"], response,
                        f"The offset of {place} for group {self._order.group.group_id!r} cannot be committed:"))
        for error in failures:
            reaction = self.judge(error)
            if reaction is not None:
                return Reaction.FIND_COORDINATOR if error.code == ErrorCode.REQUEST_TIMED_OUT else reaction
        if failures:
            self._fail(failures[0])
        elif left:
            return self.left_out(next(iter(left)))
        else:
            self._transactions.on_offsets_committed(self._order)
        return Reaction.DONE

    def _fail(self, error: ApiError) -> None:
        if error.code in _LEAVE_NO_HOPE:
            self._transactions.on_fatal_error(error)
            return
        if error.code in _MEMBER_IS_GONE:
            error.args = (f"{error.args[0]} The consumer is not a member of the group any more, with this generation: "
                          "its partitions may have others now, which consume from the last commit on",)
        self._transactions.on_failed(error)

    def on_hopeless(self, error: KafkaError) -> None:
        """See OwnRequest."""
        if isinstance(error, UnsupportedVersionError):
            failed = KafkaError(str(error))  # of this group alone: the producer can go on
            failed.__cause__ = error
            error = failed
        self._transactions.on_failed(error)
