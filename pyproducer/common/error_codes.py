"""Kafka's error codes: one row each.

Road:    wire -> [code] -> exception
Thread:  a constant table.
Source:  Java org.apache.kafka.common.protocol.Errors (4.1); the sentences are ours.
"""

from __future__ import annotations

from typing import NamedTuple

from pyproducer.common.error_code import ErrorCode
from pyproducer.common.errors import (
    REJECTED,
    UNKNOWN,
    AbortableTransactionError,
    ApiError,
    AuthorizationError,
    FatalProducerError,
    InvalidMetadataError,
    InvalidTopicError,
    OutOfOrderSequenceError,
    RecordRejectedError,
    RecordTooLargeError,
    RetriableError,
    UnknownApiError,
    UnknownTopicOrPartitionError,
)
from pyproducer.common.printable import printable

__all__ = ["ERRORS", "ErrorCode", "ErrorRow", "error_for_code"]


class ErrorRow(NamedTuple):
    """What a code means: may it pass, is metadata stale, what became of the record, and how we say it.

    Unknown is what a leader may say that has the batch in its log: followers were late (7) or too few (20), or it lost
    the partition while it waited for them, to another leader (6) or with its disk (56): Java DelayedProduce, 4.1.
    """

    code: int
    name: str
    retriable: bool
    refresh_metadata: bool
    outcome: str
    exception: type[ApiError]
    sentence: str


_ROWS = (
    ErrorRow(-1, "UNKNOWN_SERVER_ERROR", False, False, UNKNOWN, ApiError,
             "The server experienced an unexpected error when processing the request."),
    ErrorRow(0, "NONE", False, False, REJECTED, ApiError, ""),
    ErrorRow(1, "OFFSET_OUT_OF_RANGE", False, False, REJECTED, ApiError,
             "The requested offset is not within the range of offsets kept by the partition."),
    ErrorRow(2, "CORRUPT_MESSAGE", True, False, REJECTED, RetriableError,
             "The record batch failed its CRC check, has an invalid size, or is corrupt otherwise."),
    ErrorRow(3, "UNKNOWN_TOPIC_OR_PARTITION", True, True, REJECTED, UnknownTopicOrPartitionError,
             "This server does not host this topic-partition."),
    ErrorRow(4, "INVALID_FETCH_SIZE", False, False, REJECTED, ApiError, "Invalid fetch size."),
    ErrorRow(5, "LEADER_NOT_AVAILABLE", True, True, REJECTED, InvalidMetadataError,
             "There is no leader for this topic-partition at the moment: an election is under way."),
    ErrorRow(6, "NOT_LEADER_OR_FOLLOWER", True, True, UNKNOWN, InvalidMetadataError,
             "The broker asked is not the leader (or a replica) of this topic-partition."),
    ErrorRow(7, "REQUEST_TIMED_OUT", True, False, UNKNOWN, RetriableError, "The request timed out on the broker."),
    ErrorRow(8, "BROKER_NOT_AVAILABLE", False, False, REJECTED, ApiError, "Broker not available."),
    ErrorRow(9, "REPLICA_NOT_AVAILABLE", True, True, REJECTED, InvalidMetadataError, "Replica not available."),
    ErrorRow(10, "MESSAGE_TOO_LARGE", False, False, REJECTED, RecordTooLargeError,
             "The record batch is larger than the topic's max.message.bytes."),
    ErrorRow(11, "STALE_CONTROLLER_EPOCH", False, False, REJECTED, ApiError, "Stale controller epoch."),
    ErrorRow(12, "OFFSET_METADATA_TOO_LARGE", False, False, REJECTED, ApiError, "Offset metadata too large."),
    ErrorRow(13, "NETWORK_EXCEPTION", True, True, UNKNOWN, InvalidMetadataError,
             "The connection broke before the answer came."),
    ErrorRow(14, "COORDINATOR_LOAD_IN_PROGRESS", True, False, REJECTED, RetriableError,
             "The coordinator is still loading."),
    ErrorRow(15, "COORDINATOR_NOT_AVAILABLE", True, False, REJECTED, RetriableError,
             "The coordinator is not available."),
    ErrorRow(16, "NOT_COORDINATOR", True, False, REJECTED, RetriableError, "The broker asked is not the coordinator."),
    ErrorRow(17, "INVALID_TOPIC_EXCEPTION", False, False, REJECTED, InvalidTopicError,
             "The topic's name is not allowed, or the topic is internal to Kafka."),
    ErrorRow(18, "RECORD_LIST_TOO_LARGE", False, False, REJECTED, RecordTooLargeError,
             "The record batch is larger than a log segment."),
    ErrorRow(19, "NOT_ENOUGH_REPLICAS", True, False, REJECTED, RetriableError,
             "There are fewer in-sync replicas than min.insync.replicas asks for; nothing was written."),
    ErrorRow(20, "NOT_ENOUGH_REPLICAS_AFTER_APPEND", True, False, UNKNOWN, RetriableError,
             "The records were written, but to fewer in-sync replicas than min.insync.replicas asks for."),
    ErrorRow(21, "INVALID_REQUIRED_ACKS", False, False, REJECTED, ApiError, "acks is not one of 0, 1, -1."),
    ErrorRow(22, "ILLEGAL_GENERATION", False, False, REJECTED, ApiError, "Illegal generation."),
    ErrorRow(23, "INCONSISTENT_GROUP_PROTOCOL", False, False, REJECTED, ApiError, "Inconsistent group protocol."),
    ErrorRow(24, "INVALID_GROUP_ID", False, False, REJECTED, ApiError, "Invalid group id."),
    ErrorRow(25, "UNKNOWN_MEMBER_ID", False, False, REJECTED, ApiError, "Unknown member id."),
    ErrorRow(26, "INVALID_SESSION_TIMEOUT", False, False, REJECTED, ApiError, "Invalid session timeout."),
    ErrorRow(27, "REBALANCE_IN_PROGRESS", False, False, REJECTED, ApiError, "Rebalance in progress."),
    ErrorRow(28, "INVALID_COMMIT_OFFSET_SIZE", False, False, REJECTED, ApiError, "Invalid commit offset size."),
    ErrorRow(29, "TOPIC_AUTHORIZATION_FAILED", False, False, REJECTED, AuthorizationError,
             "Not authorized for this topic."),
    ErrorRow(30, "GROUP_AUTHORIZATION_FAILED", False, False, REJECTED, AuthorizationError,
             "Not authorized for this group."),
    ErrorRow(31, "CLUSTER_AUTHORIZATION_FAILED", False, False, REJECTED, AuthorizationError,
             "Not authorized for the cluster."),
    ErrorRow(32, "INVALID_TIMESTAMP", False, False, REJECTED, RecordRejectedError,
             "The record's timestamp is outside what the topic allows."),
    ErrorRow(33, "UNSUPPORTED_SASL_MECHANISM", False, False, REJECTED, ApiError,
             "The broker does not offer this SASL mechanism."),
    ErrorRow(34, "ILLEGAL_SASL_STATE", False, False, REJECTED, ApiError,
             "The request is not allowed in this state of SASL authentication."),
    ErrorRow(35, "UNSUPPORTED_VERSION", False, False, REJECTED, ApiError,
             "The broker does not support this version of the API."),
    ErrorRow(36, "TOPIC_ALREADY_EXISTS", False, False, REJECTED, ApiError, "A topic with this name exists already."),
    ErrorRow(37, "INVALID_PARTITIONS", False, False, REJECTED, ApiError, "The number of partitions must be positive."),
    ErrorRow(38, "INVALID_REPLICATION_FACTOR", False, False, REJECTED, ApiError,
             "The replication factor must be positive and not above the number of brokers."),
    ErrorRow(39, "INVALID_REPLICA_ASSIGNMENT", False, False, REJECTED, ApiError,
             "The replica assignment is not possible."),
    ErrorRow(40, "INVALID_CONFIG", False, False, REJECTED, ApiError, "The configuration is not valid."),
    ErrorRow(41, "NOT_CONTROLLER", True, False, REJECTED, RetriableError, "The broker asked is not the controller."),
    ErrorRow(42, "INVALID_REQUEST", False, False, REJECTED, ApiError,
             "The broker could not make sense of the request, or does not offer it."),
    ErrorRow(43, "UNSUPPORTED_FOR_MESSAGE_FORMAT", False, False, REJECTED, ApiError, "Unsupported for message format."),
    ErrorRow(44, "POLICY_VIOLATION", False, False, REJECTED, ApiError, "Policy violation."),
    ErrorRow(45, "OUT_OF_ORDER_SEQUENCE_NUMBER", False, False, UNKNOWN, OutOfOrderSequenceError,
             "The sequence number of the batch does not continue the log of this producer."),
    ErrorRow(46, "DUPLICATE_SEQUENCE_NUMBER", False, False, REJECTED, ApiError, "The batch is in the log already."),
    ErrorRow(47, "INVALID_PRODUCER_EPOCH", False, False, REJECTED, FatalProducerError,
             "The producer's epoch is older than the one the broker knows."),
    ErrorRow(48, "INVALID_TXN_STATE", False, False, REJECTED, FatalProducerError,
             "The transaction is in a state that does not allow this."),
    ErrorRow(49, "INVALID_PRODUCER_ID_MAPPING", False, False, REJECTED, FatalProducerError,
             "The producer id does not belong to this transactional id."),
    ErrorRow(50, "INVALID_TRANSACTION_TIMEOUT", False, False, REJECTED, ApiError,
             "The transaction timeout is not positive or above the broker's transaction.max.timeout.ms."),
    ErrorRow(51, "CONCURRENT_TRANSACTIONS", True, False, REJECTED, RetriableError,
             "The previous transaction of this transactional id is still being completed."),
    ErrorRow(52, "TRANSACTION_COORDINATOR_FENCED", False, False, REJECTED, FatalProducerError,
             "Transaction coordinator fenced."),
    ErrorRow(53, "TRANSACTIONAL_ID_AUTHORIZATION_FAILED", False, False, REJECTED, AuthorizationError,
             "Not authorized for this transactional id."),
    ErrorRow(54, "SECURITY_DISABLED", False, False, REJECTED, ApiError, "Security disabled."),
    ErrorRow(55, "OPERATION_NOT_ATTEMPTED", False, False, REJECTED, ApiError, "Operation not attempted."),
    ErrorRow(56, "KAFKA_STORAGE_ERROR", True, True, UNKNOWN, InvalidMetadataError,
             "The broker could not reach its disk."),
    ErrorRow(57, "LOG_DIR_NOT_FOUND", False, False, REJECTED, ApiError, "Log dir not found."),
    ErrorRow(58, "SASL_AUTHENTICATION_FAILED", False, False, REJECTED, ApiError, "SASL authentication failed."),
    ErrorRow(59, "UNKNOWN_PRODUCER_ID", False, False, UNKNOWN, OutOfOrderSequenceError,
             "The broker has no state of this producer id (any more)."),
    ErrorRow(60, "REASSIGNMENT_IN_PROGRESS", False, False, REJECTED, ApiError, "Reassignment in progress."),
    ErrorRow(61, "DELEGATION_TOKEN_AUTH_DISABLED", False, False, REJECTED, ApiError, "Delegation token auth disabled."),
    ErrorRow(62, "DELEGATION_TOKEN_NOT_FOUND", False, False, REJECTED, ApiError, "Delegation token not found."),
    ErrorRow(63, "DELEGATION_TOKEN_OWNER_MISMATCH", False, False, REJECTED, ApiError,
             "Delegation token owner mismatch."),
    ErrorRow(64, "DELEGATION_TOKEN_REQUEST_NOT_ALLOWED", False, False, REJECTED, ApiError,
             "Delegation token request not allowed."),
    ErrorRow(65, "DELEGATION_TOKEN_AUTHORIZATION_FAILED", False, False, REJECTED, AuthorizationError,
             "Delegation token authorization failed."),
    ErrorRow(66, "DELEGATION_TOKEN_EXPIRED", False, False, REJECTED, ApiError, "Delegation token expired."),
    ErrorRow(67, "INVALID_PRINCIPAL_TYPE", False, False, REJECTED, ApiError, "Invalid principal type."),
    ErrorRow(68, "NON_EMPTY_GROUP", False, False, REJECTED, ApiError, "Non empty group."),
    ErrorRow(69, "GROUP_ID_NOT_FOUND", False, False, REJECTED, ApiError, "Group id not found."),
    ErrorRow(70, "FETCH_SESSION_ID_NOT_FOUND", True, False, REJECTED, RetriableError,
             "The broker does not know this fetch session."),
    ErrorRow(71, "INVALID_FETCH_SESSION_EPOCH", True, False, REJECTED, RetriableError,
             "The fetch session's epoch is wrong."),
    ErrorRow(72, "LISTENER_NOT_FOUND", True, True, REJECTED, InvalidMetadataError, "Listener not found."),
    ErrorRow(73, "TOPIC_DELETION_DISABLED", False, False, REJECTED, ApiError, "Topic deletion disabled."),
    ErrorRow(74, "FENCED_LEADER_EPOCH", True, True, REJECTED, InvalidMetadataError,
             "The leader epoch of the request is older than the broker's."),
    ErrorRow(75, "UNKNOWN_LEADER_EPOCH", True, False, REJECTED, RetriableError,
             "The leader epoch of the request is newer than the broker's."),
    ErrorRow(76, "UNSUPPORTED_COMPRESSION_TYPE", False, False, REJECTED, RecordRejectedError,
             "The broker does not support the compression of the batch in this version of the API."),
    ErrorRow(77, "STALE_BROKER_EPOCH", False, False, REJECTED, ApiError, "Stale broker epoch."),
    ErrorRow(78, "OFFSET_NOT_AVAILABLE", True, False, REJECTED, RetriableError, "Offset not available."),
    ErrorRow(79, "MEMBER_ID_REQUIRED", False, False, REJECTED, ApiError, "Member id required."),
    ErrorRow(80, "PREFERRED_LEADER_NOT_AVAILABLE", True, True, REJECTED, InvalidMetadataError,
             "Preferred leader not available."),
    ErrorRow(81, "GROUP_MAX_SIZE_REACHED", False, False, REJECTED, ApiError, "Group max size reached."),
    ErrorRow(82, "FENCED_INSTANCE_ID", False, False, REJECTED, ApiError, "Fenced instance id."),
    ErrorRow(83, "ELIGIBLE_LEADERS_NOT_AVAILABLE", True, True, REJECTED, InvalidMetadataError,
             "Eligible leaders not available."),
    ErrorRow(84, "ELECTION_NOT_NEEDED", True, True, REJECTED, InvalidMetadataError, "Election not needed."),
    ErrorRow(85, "NO_REASSIGNMENT_IN_PROGRESS", False, False, REJECTED, ApiError, "No reassignment in progress."),
    ErrorRow(86, "GROUP_SUBSCRIBED_TO_TOPIC", False, False, REJECTED, ApiError, "Group subscribed to topic."),
    ErrorRow(87, "INVALID_RECORD", False, False, REJECTED, RecordRejectedError,
             "The record failed the broker's validation."),
    ErrorRow(88, "UNSTABLE_OFFSET_COMMIT", True, False, REJECTED, RetriableError, "Unstable offset commit."),
    ErrorRow(89, "THROTTLING_QUOTA_EXCEEDED", True, False, REJECTED, RetriableError, "A quota was exceeded."),
    ErrorRow(90, "PRODUCER_FENCED", False, False, REJECTED, FatalProducerError,
             "A newer producer with the same transactional id took over."),
    ErrorRow(91, "RESOURCE_NOT_FOUND", False, False, REJECTED, ApiError, "Resource not found."),
    ErrorRow(92, "DUPLICATE_RESOURCE", False, False, REJECTED, ApiError, "Duplicate resource."),
    ErrorRow(93, "UNACCEPTABLE_CREDENTIAL", False, False, REJECTED, ApiError, "Unacceptable credential."),
    ErrorRow(94, "INCONSISTENT_VOTER_SET", False, False, REJECTED, ApiError, "Inconsistent voter set."),
    ErrorRow(95, "INVALID_UPDATE_VERSION", False, False, REJECTED, ApiError, "Invalid update version."),
    ErrorRow(96, "FEATURE_UPDATE_FAILED", False, False, REJECTED, ApiError, "Feature update failed."),
    ErrorRow(97, "PRINCIPAL_DESERIALIZATION_FAILURE", False, False, REJECTED, ApiError,
             "Principal deserialization failure."),
    ErrorRow(98, "SNAPSHOT_NOT_FOUND", False, False, REJECTED, ApiError, "Snapshot not found."),
    ErrorRow(99, "POSITION_OUT_OF_RANGE", False, False, REJECTED, ApiError, "Position out of range."),
    ErrorRow(100, "UNKNOWN_TOPIC_ID", True, True, REJECTED, InvalidMetadataError,
             "The broker does not know this topic id."),
    ErrorRow(101, "DUPLICATE_BROKER_REGISTRATION", False, False, REJECTED, ApiError, "Duplicate broker registration."),
    ErrorRow(102, "BROKER_ID_NOT_REGISTERED", False, False, REJECTED, ApiError, "Broker id not registered."),
    ErrorRow(103, "INCONSISTENT_TOPIC_ID", True, True, REJECTED, InvalidMetadataError,
             "The topic id does not match the one in the log."),
    ErrorRow(104, "INCONSISTENT_CLUSTER_ID", False, False, REJECTED, ApiError, "Inconsistent cluster id."),
    ErrorRow(105, "TRANSACTIONAL_ID_NOT_FOUND", False, False, REJECTED, ApiError, "Transactional id not found."),
    ErrorRow(106, "FETCH_SESSION_TOPIC_ID_ERROR", True, False, REJECTED, RetriableError,
             "Fetch session topic id error."),
    ErrorRow(107, "INELIGIBLE_REPLICA", False, False, REJECTED, ApiError, "Ineligible replica."),
    ErrorRow(108, "NEW_LEADER_ELECTED", False, False, REJECTED, ApiError, "New leader elected."),
    ErrorRow(109, "OFFSET_MOVED_TO_TIERED_STORAGE", False, False, REJECTED, ApiError,
             "Offset moved to tiered storage."),
    ErrorRow(110, "FENCED_MEMBER_EPOCH", False, False, REJECTED, ApiError, "Fenced member epoch."),
    ErrorRow(111, "UNRELEASED_INSTANCE_ID", False, False, REJECTED, ApiError, "Unreleased instance id."),
    ErrorRow(112, "UNSUPPORTED_ASSIGNOR", False, False, REJECTED, ApiError, "Unsupported assignor."),
    ErrorRow(113, "STALE_MEMBER_EPOCH", False, False, REJECTED, ApiError, "Stale member epoch."),
    ErrorRow(114, "MISMATCHED_ENDPOINT_TYPE", False, False, REJECTED, ApiError, "Mismatched endpoint type."),
    ErrorRow(115, "UNSUPPORTED_ENDPOINT_TYPE", False, False, REJECTED, ApiError, "Unsupported endpoint type."),
    ErrorRow(116, "UNKNOWN_CONTROLLER_ID", False, False, REJECTED, ApiError, "Unknown controller id."),
    ErrorRow(117, "UNKNOWN_SUBSCRIPTION_ID", False, False, REJECTED, ApiError, "Unknown subscription id."),
    ErrorRow(118, "TELEMETRY_TOO_LARGE", False, False, REJECTED, ApiError, "Telemetry too large."),
    ErrorRow(119, "INVALID_REGISTRATION", False, False, REJECTED, ApiError, "Invalid registration."),
    ErrorRow(120, "TRANSACTION_ABORTABLE", False, False, REJECTED, AbortableTransactionError,
             "The transaction can only be aborted."),
    ErrorRow(121, "INVALID_RECORD_STATE", False, False, REJECTED, ApiError, "Invalid record state."),
    ErrorRow(122, "SHARE_SESSION_NOT_FOUND", True, False, REJECTED, RetriableError, "Share session not found."),
    ErrorRow(123, "INVALID_SHARE_SESSION_EPOCH", True, False, REJECTED, RetriableError, "Invalid share session epoch."),
    ErrorRow(124, "FENCED_STATE_EPOCH", False, False, REJECTED, ApiError, "Fenced state epoch."),
    ErrorRow(125, "INVALID_VOTER_KEY", False, False, REJECTED, ApiError, "Invalid voter key."),
    ErrorRow(126, "DUPLICATE_VOTER", False, False, REJECTED, ApiError, "Duplicate voter."),
    ErrorRow(127, "VOTER_NOT_FOUND", False, False, REJECTED, ApiError, "Voter not found."),
    ErrorRow(128, "INVALID_REGULAR_EXPRESSION", False, False, REJECTED, ApiError, "Invalid regular expression."),
    ErrorRow(129, "REBOOTSTRAP_REQUIRED", False, False, REJECTED, ApiError,
             "The client must start again from its bootstrap servers."),
    ErrorRow(130, "STREAMS_INVALID_TOPOLOGY", False, False, REJECTED, ApiError, "Streams invalid topology."),
    ErrorRow(131, "STREAMS_INVALID_TOPOLOGY_EPOCH", False, False, REJECTED, ApiError,
             "Streams invalid topology epoch."),
    ErrorRow(132, "STREAMS_TOPOLOGY_FENCED", False, False, REJECTED, ApiError, "Streams topology fenced."),
    ErrorRow(133, "SHARE_SESSION_LIMIT_REACHED", True, False, REJECTED, RetriableError, "Share session limit reached."),
)

ERRORS: dict[int, ErrorRow] = {row.code: row for row in _ROWS}
if len(ERRORS) != len(_ROWS) or {row.name for row in _ROWS} != set(ErrorCode.__members__):
    raise AssertionError("the table of error codes has a duplicate or a gap")


def error_for_code(code: int, *, message: str | None = None, api: str | None = None,
                   node_id: int | None = None) -> ApiError:
    """Make the exception for a code.

    Args:
        code: The code on the wire, not 0.
        message: The broker's own words, if it sent any; made printable and put in front of the code's sentence.
        api: Name of the API that was called.
        node_id: The broker that answered.

    Returns:
        An ApiError whose `retriable`, `refresh_metadata` and `outcome` are the row's.
    """
    if message:
        message = printable(message)
    row = ERRORS.get(code)
    if row is None:
        return UnknownApiError(f"{message or 'The broker answered with an error'} (code {code}, not known to this "
                               "version)", code=code, api=api, node_id=node_id)
    text = row.sentence if not message else message if message == row.sentence else f"{message} {row.sentence}"
    error = row.exception(f"{row.name}: {text}", code=code, api=api, node_id=node_id)
    error.retriable = row.retriable
    error.refresh_metadata = row.refresh_metadata
    error.outcome = row.outcome
    return error
