"""Kafka's error codes: one row each.

Road:    wire -> [code] -> exception
Thread:  a constant table.
Source:  Java org.apache.kafka.common.protocol.Errors (4.1); the sentences are ours.
"""

from __future__ import annotations

from enum import IntEnum

from pyproducer.common.errors import (
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


class ErrorCode(IntEnum):
    """The code on the wire, under Kafka's name.

    A row: the code; what it is raised as, which says whether it may pass and whether metadata is stale; how we say it;
    and what became of the record, where its class says otherwise. Unknown is what a leader may say that has the batch
    in its log: followers were late (7) or too few (20), or it lost the partition while it waited for them, to another
    leader (6) or with its disk (56): Java DelayedProduce, 4.1.

    Attributes:
        exception: What `error_for_code` makes of it.
        sentence: What it means.
        outcome: Of the record.
    """

    exception: type[ApiError]
    sentence: str
    outcome: str

    def __new__(cls, code: int, exception: type[ApiError], sentence: str, outcome: str | None = None) -> ErrorCode:
        """Make a row."""
        row = int.__new__(cls, code)
        row._value_ = code
        row.exception = exception
        row.sentence = sentence
        row.outcome = outcome or exception.outcome
        return row

    UNKNOWN_SERVER_ERROR = (
        -1, ApiError, "The server experienced an unexpected error when processing the request.", UNKNOWN)
    NONE = 0, ApiError, ""
    OFFSET_OUT_OF_RANGE = 1, ApiError, "The requested offset is not within the range of offsets kept by the partition."
    CORRUPT_MESSAGE = (
        2, RetriableError, "The record batch failed its CRC check, has an invalid size, or is corrupt otherwise.")
    UNKNOWN_TOPIC_OR_PARTITION = 3, UnknownTopicOrPartitionError, "This server does not host this topic-partition."
    INVALID_FETCH_SIZE = 4, ApiError, "Invalid fetch size."
    LEADER_NOT_AVAILABLE = (
        5, InvalidMetadataError, "There is no leader for this topic-partition at the moment: an election is under way.")
    NOT_LEADER_OR_FOLLOWER = (
        6, InvalidMetadataError, "The broker asked is not the leader (or a replica) of this topic-partition.", UNKNOWN)
    REQUEST_TIMED_OUT = 7, RetriableError, "The request timed out on the broker.", UNKNOWN
    BROKER_NOT_AVAILABLE = 8, ApiError, "Broker not available."
    REPLICA_NOT_AVAILABLE = 9, InvalidMetadataError, "Replica not available."
    MESSAGE_TOO_LARGE = 10, RecordTooLargeError, "The record batch is larger than the topic's max.message.bytes."
    STALE_CONTROLLER_EPOCH = 11, ApiError, "Stale controller epoch."
    OFFSET_METADATA_TOO_LARGE = 12, ApiError, "Offset metadata too large."
    NETWORK_EXCEPTION = 13, InvalidMetadataError, "The connection broke before the answer came.", UNKNOWN
    COORDINATOR_LOAD_IN_PROGRESS = 14, RetriableError, "The coordinator is still loading."
    COORDINATOR_NOT_AVAILABLE = 15, RetriableError, "The coordinator is not available."
    NOT_COORDINATOR = 16, RetriableError, "The broker asked is not the coordinator."
    INVALID_TOPIC_EXCEPTION = (
        17, InvalidTopicError, "The topic's name is not allowed, or the topic is internal to Kafka.")
    RECORD_LIST_TOO_LARGE = 18, RecordTooLargeError, "The record batch is larger than a log segment."
    NOT_ENOUGH_REPLICAS = (
        19, RetriableError, "There are fewer in-sync replicas than min.insync.replicas asks for; nothing was written.")
    NOT_ENOUGH_REPLICAS_AFTER_APPEND = (
        20, RetriableError,
        "The records were written, but to fewer in-sync replicas than min.insync.replicas asks for.", UNKNOWN)
    INVALID_REQUIRED_ACKS = 21, ApiError, "acks is not one of 0, 1, -1."
    ILLEGAL_GENERATION = 22, ApiError, "Illegal generation."
    INCONSISTENT_GROUP_PROTOCOL = 23, ApiError, "Inconsistent group protocol."
    INVALID_GROUP_ID = 24, ApiError, "Invalid group id."
    UNKNOWN_MEMBER_ID = 25, ApiError, "Unknown member id."
    INVALID_SESSION_TIMEOUT = 26, ApiError, "Invalid session timeout."
    REBALANCE_IN_PROGRESS = 27, ApiError, "Rebalance in progress."
    INVALID_COMMIT_OFFSET_SIZE = 28, ApiError, "Invalid commit offset size."
    TOPIC_AUTHORIZATION_FAILED = 29, AuthorizationError, "Not authorized for this topic."
    GROUP_AUTHORIZATION_FAILED = 30, AuthorizationError, "Not authorized for this group."
    CLUSTER_AUTHORIZATION_FAILED = 31, AuthorizationError, "Not authorized for the cluster."
    INVALID_TIMESTAMP = 32, RecordRejectedError, "The record's timestamp is outside what the topic allows."
    UNSUPPORTED_SASL_MECHANISM = 33, ApiError, "The broker does not offer this SASL mechanism."
    ILLEGAL_SASL_STATE = 34, ApiError, "The request is not allowed in this state of SASL authentication."
    UNSUPPORTED_VERSION = 35, ApiError, "The broker does not support this version of the API."
    TOPIC_ALREADY_EXISTS = 36, ApiError, "A topic with this name exists already."
    INVALID_PARTITIONS = 37, ApiError, "The number of partitions must be positive."
    INVALID_REPLICATION_FACTOR = (
        38, ApiError, "The replication factor must be positive and not above the number of brokers.")
    INVALID_REPLICA_ASSIGNMENT = 39, ApiError, "The replica assignment is not possible."
    INVALID_CONFIG = 40, ApiError, "The configuration is not valid."
    NOT_CONTROLLER = 41, RetriableError, "The broker asked is not the controller."
    INVALID_REQUEST = 42, ApiError, "The broker could not make sense of the request, or does not offer it."
    UNSUPPORTED_FOR_MESSAGE_FORMAT = 43, ApiError, "Unsupported for message format."
    POLICY_VIOLATION = 44, ApiError, "Policy violation."
    OUT_OF_ORDER_SEQUENCE_NUMBER = (
        45, OutOfOrderSequenceError, "The sequence number of the batch does not continue the log of this producer.")
    DUPLICATE_SEQUENCE_NUMBER = 46, ApiError, "The batch is in the log already."
    INVALID_PRODUCER_EPOCH = 47, FatalProducerError, "The producer's epoch is older than the one the broker knows."
    INVALID_TXN_STATE = 48, FatalProducerError, "The transaction is in a state that does not allow this."
    INVALID_PRODUCER_ID_MAPPING = 49, FatalProducerError, "The producer id does not belong to this transactional id."
    INVALID_TRANSACTION_TIMEOUT = (
        50, ApiError, "The transaction timeout is not positive or above the broker's transaction.max.timeout.ms.")
    CONCURRENT_TRANSACTIONS = (
        51, RetriableError, "The previous transaction of this transactional id is still being completed.")
    TRANSACTION_COORDINATOR_FENCED = 52, FatalProducerError, "Transaction coordinator fenced."
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED = 53, AuthorizationError, "Not authorized for this transactional id."
    SECURITY_DISABLED = 54, ApiError, "Security disabled."
    OPERATION_NOT_ATTEMPTED = 55, ApiError, "Operation not attempted."
    KAFKA_STORAGE_ERROR = 56, InvalidMetadataError, "The broker could not reach its disk.", UNKNOWN
    LOG_DIR_NOT_FOUND = 57, ApiError, "Log dir not found."
    SASL_AUTHENTICATION_FAILED = 58, ApiError, "SASL authentication failed."
    UNKNOWN_PRODUCER_ID = 59, OutOfOrderSequenceError, "The broker has no state of this producer id (any more)."
    REASSIGNMENT_IN_PROGRESS = 60, ApiError, "Reassignment in progress."
    DELEGATION_TOKEN_AUTH_DISABLED = 61, ApiError, "Delegation token auth disabled."
    DELEGATION_TOKEN_NOT_FOUND = 62, ApiError, "Delegation token not found."
    DELEGATION_TOKEN_OWNER_MISMATCH = 63, ApiError, "Delegation token owner mismatch."
    DELEGATION_TOKEN_REQUEST_NOT_ALLOWED = 64, ApiError, "Delegation token request not allowed."
    DELEGATION_TOKEN_AUTHORIZATION_FAILED = 65, AuthorizationError, "Delegation token authorization failed."
    DELEGATION_TOKEN_EXPIRED = 66, ApiError, "Delegation token expired."
    INVALID_PRINCIPAL_TYPE = 67, ApiError, "Invalid principal type."
    NON_EMPTY_GROUP = 68, ApiError, "Non empty group."
    GROUP_ID_NOT_FOUND = 69, ApiError, "Group id not found."
    FETCH_SESSION_ID_NOT_FOUND = 70, RetriableError, "The broker does not know this fetch session."
    INVALID_FETCH_SESSION_EPOCH = 71, RetriableError, "The fetch session's epoch is wrong."
    LISTENER_NOT_FOUND = 72, InvalidMetadataError, "Listener not found."
    TOPIC_DELETION_DISABLED = 73, ApiError, "Topic deletion disabled."
    FENCED_LEADER_EPOCH = 74, InvalidMetadataError, "The leader epoch of the request is older than the broker's."
    UNKNOWN_LEADER_EPOCH = 75, RetriableError, "The leader epoch of the request is newer than the broker's."
    UNSUPPORTED_COMPRESSION_TYPE = (
        76, RecordRejectedError, "The broker does not support the compression of the batch in this version of the API.")
    STALE_BROKER_EPOCH = 77, ApiError, "Stale broker epoch."
    OFFSET_NOT_AVAILABLE = 78, RetriableError, "Offset not available."
    MEMBER_ID_REQUIRED = 79, ApiError, "Member id required."
    PREFERRED_LEADER_NOT_AVAILABLE = 80, InvalidMetadataError, "Preferred leader not available."
    GROUP_MAX_SIZE_REACHED = 81, ApiError, "Group max size reached."
    FENCED_INSTANCE_ID = 82, ApiError, "Fenced instance id."
    ELIGIBLE_LEADERS_NOT_AVAILABLE = 83, InvalidMetadataError, "Eligible leaders not available."
    ELECTION_NOT_NEEDED = 84, InvalidMetadataError, "Election not needed."
    NO_REASSIGNMENT_IN_PROGRESS = 85, ApiError, "No reassignment in progress."
    GROUP_SUBSCRIBED_TO_TOPIC = 86, ApiError, "Group subscribed to topic."
    INVALID_RECORD = 87, RecordRejectedError, "The record failed the broker's validation."
    UNSTABLE_OFFSET_COMMIT = 88, RetriableError, "Unstable offset commit."
    THROTTLING_QUOTA_EXCEEDED = 89, RetriableError, "A quota was exceeded."
    PRODUCER_FENCED = 90, FatalProducerError, "A newer producer with the same transactional id took over."
    RESOURCE_NOT_FOUND = 91, ApiError, "Resource not found."
    DUPLICATE_RESOURCE = 92, ApiError, "Duplicate resource."
    UNACCEPTABLE_CREDENTIAL = 93, ApiError, "Unacceptable credential."
    INCONSISTENT_VOTER_SET = 94, ApiError, "Inconsistent voter set."
    INVALID_UPDATE_VERSION = 95, ApiError, "Invalid update version."
    FEATURE_UPDATE_FAILED = 96, ApiError, "Feature update failed."
    PRINCIPAL_DESERIALIZATION_FAILURE = 97, ApiError, "Principal deserialization failure."
    SNAPSHOT_NOT_FOUND = 98, ApiError, "Snapshot not found."
    POSITION_OUT_OF_RANGE = 99, ApiError, "Position out of range."
    UNKNOWN_TOPIC_ID = 100, InvalidMetadataError, "The broker does not know this topic id."
    DUPLICATE_BROKER_REGISTRATION = 101, ApiError, "Duplicate broker registration."
    BROKER_ID_NOT_REGISTERED = 102, ApiError, "Broker id not registered."
    INCONSISTENT_TOPIC_ID = 103, InvalidMetadataError, "The topic id does not match the one in the log."
    INCONSISTENT_CLUSTER_ID = 104, ApiError, "Inconsistent cluster id."
    TRANSACTIONAL_ID_NOT_FOUND = 105, ApiError, "Transactional id not found."
    FETCH_SESSION_TOPIC_ID_ERROR = 106, RetriableError, "Fetch session topic id error."
    INELIGIBLE_REPLICA = 107, ApiError, "Ineligible replica."
    NEW_LEADER_ELECTED = 108, ApiError, "New leader elected."
    OFFSET_MOVED_TO_TIERED_STORAGE = 109, ApiError, "Offset moved to tiered storage."
    FENCED_MEMBER_EPOCH = 110, ApiError, "Fenced member epoch."
    UNRELEASED_INSTANCE_ID = 111, ApiError, "Unreleased instance id."
    UNSUPPORTED_ASSIGNOR = 112, ApiError, "Unsupported assignor."
    STALE_MEMBER_EPOCH = 113, ApiError, "Stale member epoch."
    MISMATCHED_ENDPOINT_TYPE = 114, ApiError, "Mismatched endpoint type."
    UNSUPPORTED_ENDPOINT_TYPE = 115, ApiError, "Unsupported endpoint type."
    UNKNOWN_CONTROLLER_ID = 116, ApiError, "Unknown controller id."
    UNKNOWN_SUBSCRIPTION_ID = 117, ApiError, "Unknown subscription id."
    TELEMETRY_TOO_LARGE = 118, ApiError, "Telemetry too large."
    INVALID_REGISTRATION = 119, ApiError, "Invalid registration."
    TRANSACTION_ABORTABLE = 120, AbortableTransactionError, "The transaction can only be aborted."
    INVALID_RECORD_STATE = 121, ApiError, "Invalid record state."
    SHARE_SESSION_NOT_FOUND = 122, RetriableError, "Share session not found."
    INVALID_SHARE_SESSION_EPOCH = 123, RetriableError, "Invalid share session epoch."
    FENCED_STATE_EPOCH = 124, ApiError, "Fenced state epoch."
    INVALID_VOTER_KEY = 125, ApiError, "Invalid voter key."
    DUPLICATE_VOTER = 126, ApiError, "Duplicate voter."
    VOTER_NOT_FOUND = 127, ApiError, "Voter not found."
    INVALID_REGULAR_EXPRESSION = 128, ApiError, "Invalid regular expression."
    REBOOTSTRAP_REQUIRED = 129, ApiError, "The client must start again from its bootstrap servers."
    STREAMS_INVALID_TOPOLOGY = 130, ApiError, "Streams invalid topology."
    STREAMS_INVALID_TOPOLOGY_EPOCH = 131, ApiError, "Streams invalid topology epoch."
    STREAMS_TOPOLOGY_FENCED = 132, ApiError, "Streams topology fenced."
    SHARE_SESSION_LIMIT_REACHED = 133, RetriableError, "Share session limit reached."

    @classmethod
    def known(cls, code: int) -> ErrorCode | None:
        """Return the row of a code, or None for a number that this version does not know."""
        return _BY_CODE.get(code)

    @classmethod
    def of(cls, code: int) -> ErrorCode:
        """Return the code's name; a number that this version does not know is UNKNOWN_SERVER_ERROR."""
        return _BY_CODE.get(code, cls.UNKNOWN_SERVER_ERROR)

    @classmethod
    def name_of(cls, code: int) -> str:
        """Return how a code is written: NOT_ENOUGH_REPLICAS, or UNKNOWN_CODE_500 of what only newer brokers say."""
        known = _BY_CODE.get(code)
        return f"UNKNOWN_CODE_{code}" if known is None else known.name


_BY_CODE: dict[int, ErrorCode] = {int(code): code for code in ErrorCode}


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
    row = _BY_CODE.get(code)
    if row is None:
        return UnknownApiError(f"{message or 'The broker answered with an error'} (code {code}, not known to this "
                               "version)", code=code, api=api, node_id=node_id)
    text = row.sentence if not message else message if message == row.sentence else f"{message} {row.sentence}"
    error = row.exception(f"{row.name}: {text}", code=code, api=api, node_id=node_id)
    error.outcome = row.outcome
    return error
