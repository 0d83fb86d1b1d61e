"""THE TABLE: each API that we speak, its versions, its messages.

A version number of an API stands here or beside a field in protocol/messages/ or broker/messages/, and nowhere else.

Road:    messages -> [ApiKeys] -> headers, requests, client, broker
Thread:  constants; schemas are built on first use and cached. What a producer speaks is loaded with the table, the rest
         when it is looked at; a broker does that before it has threads.
Source:  Java ApiKeys (4.3); client maxima as in Kafka 4.1's clients, advertised ranges as Kafka 4.1's broker.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from importlib import import_module
from types import ModuleType
from typing import Any

from pyproducer.common.errors import InvalidRequestError, UnsupportedVersionError
from pyproducer.protocol.message import Message
from pyproducer.protocol.messages import api_versions, metadata, produce, sasl, transactions
from pyproducer.protocol.schema import Schema

VersionRange = tuple[int, int]


def _range(text: str) -> VersionRange:
    first, _, last = text.partition("-")
    return int(first), int(last or first)


@dataclass(frozen=True)
class ApiRow:
    """One row of the table.

    Attributes:
        api_id: The number on the wire.
        title: Kafka's name, as in its documentation and logs.
        messages: The file that defines request and response. Where a producer has no use for it, its name below
            protocol/messages/ or broker/messages/. lint-imports sees no import in a text, so unit/protocol/test_apis.py
            loads every row.
        valid: The versions that have a definition.
        client: The versions that our client may send.
        broker: The versions that our broker answers.
        advertised: The versions that our broker claims to answer, None to be silent about the API.
        flexible_from: The first version with compact types and tags, None for never.
    """

    api_id: int
    title: str
    messages: ModuleType | str
    valid: VersionRange
    client: VersionRange
    broker: VersionRange
    advertised: VersionRange | None
    flexible_from: int | None

    @property
    def request(self) -> Message:
        """The request in all versions."""
        return self._message("REQUEST")

    @property
    def response(self) -> Message:
        """The response in all versions."""
        return self._message("RESPONSE")

    def _message(self, kind: str) -> Message:
        constant = "".join(f"_{letter}" if letter.isupper() else letter for letter in self.title).upper().lstrip("_")
        message: Message = getattr(self.load(), f"{constant}_{kind}")
        return message

    def load(self) -> ModuleType:
        """Return the file that defines request and response."""
        if isinstance(self.messages, str):
            folder, _, name = self.messages.partition(".")
            return import_module(f"pyproducer.{folder}.messages.{name}")
        return self.messages


def _api(
    api_id: int,
    title: str,
    messages: ModuleType | str,
    valid: str,
    *,
    client: str | None = None,
    broker: str | None = None,
    advertised: str | None = "as broker",
    flexible: int | None,
) -> ApiRow:
    answered = _range(broker or valid)
    return ApiRow(
        api_id=api_id,
        title=title,
        messages=messages,
        valid=_range(valid),
        client=_range(client or valid),
        broker=answered,
        advertised=answered if advertised == "as broker" else _range(advertised) if advertised else None,
        flexible_from=flexible,
    )


Format = tuple[Schema, int]
"""The schema of a body, and the version of the header before it."""


class Formats(dict[int, Format]):
    """The requests or the responses of an API by version, each made when it is looked up first: formats[version].

    Raises:
        UnsupportedVersionError: There is no such version, or no longer. Not sent.
    """

    def __init__(self, make: Callable[[int], Format]) -> None:
        super().__init__()
        self._make = make

    def __missing__(self, version: int) -> Format:
        return self.setdefault(version, self._make(version))


class ApiKeys(IntEnum):
    """The APIs by their number on the wire, with everything the table says about them.

    Attributes:
        request_formats: How requests look; see Formats.
        response_formats: How responses look.
    """

    row: ApiRow
    title: str
    client_range: VersionRange
    broker_range: VersionRange
    advertised_range: VersionRange | None
    request_formats: Formats
    response_formats: Formats

    def __new__(cls, row: Any) -> ApiKeys:
        """Make the member for an ApiRow; its value is the API's number, so that ApiKeys(0) finds it."""
        member = int.__new__(cls, row.api_id)
        member._value_ = row.api_id
        member.row = row
        member.title = row.title
        member.client_range = row.client
        member.broker_range = row.broker
        member.advertised_range = row.advertised
        member.request_formats = Formats(member._request_format)
        member.response_formats = Formats(member._response_format)
        return member

    # Produce 0 is advertised although 0-2 are refused, as Kafka does: KAFKA-18659, older librdkafka stop compressing
    # when the minimum is 3. JoinGroup from 0: KAFKA-19444, older librdkafka take it as the sign of SASL.
    # Not advertised: telemetry (clients would start to push), versions that were unstable in Kafka 4.1.
    PRODUCE = _api(0, "Produce", produce, "3-13", advertised="0-13", flexible=9)
    FETCH = _api(1, "Fetch", "protocol.fetch", "4-18", flexible=12)
    LIST_OFFSETS = _api(2, "ListOffsets", "protocol.log_offsets", "1-11", client="1-10", broker="1-10", flexible=6)
    METADATA = _api(3, "Metadata", metadata, "0-13", flexible=9)
    OFFSET_COMMIT = _api(8, "OffsetCommit", "broker.groups", "2-10", client="2-9", broker="2-9", flexible=8)
    OFFSET_FETCH = _api(9, "OffsetFetch", "protocol.group_offsets", "1-10", client="1-9", broker="1-9", flexible=6)
    FIND_COORDINATOR = _api(10, "FindCoordinator", "protocol.coordinator", "0-6", client="1-6", flexible=3)
    JOIN_GROUP = _api(11, "JoinGroup", "broker.groups", "0-9", flexible=6)
    HEARTBEAT = _api(12, "Heartbeat", "broker.groups", "0-4", flexible=4)
    LEAVE_GROUP = _api(13, "LeaveGroup", "broker.groups", "0-5", flexible=4)
    SYNC_GROUP = _api(14, "SyncGroup", "broker.groups", "0-5", flexible=4)
    DESCRIBE_GROUPS = _api(15, "DescribeGroups", "broker.group_admin", "0-6", flexible=5)
    LIST_GROUPS = _api(16, "ListGroups", "broker.group_admin", "0-5", flexible=3)
    SASL_HANDSHAKE = _api(17, "SaslHandshake", sasl, "0-1", client="1", flexible=None)
    API_VERSIONS = _api(18, "ApiVersions", api_versions, "0-4", flexible=3)
    CREATE_TOPICS = _api(19, "CreateTopics", "broker.topics", "2-7", flexible=5)
    DELETE_TOPICS = _api(20, "DeleteTopics", "broker.topics", "1-6", flexible=4)
    DELETE_RECORDS = _api(21, "DeleteRecords", "broker.topics", "0-2", flexible=2)
    INIT_PRODUCER_ID = _api(22, "InitProducerId", transactions, "0-6", client="0-5", broker="0-5", flexible=2)
    OFFSET_FOR_LEADER_EPOCH = _api(23, "OffsetForLeaderEpoch", "broker.logs", "2-4", flexible=4)
    ADD_PARTITIONS_TO_TXN = _api(24, "AddPartitionsToTxn", transactions, "0-5", client="0-3", flexible=3)
    ADD_OFFSETS_TO_TXN = _api(25, "AddOffsetsToTxn", transactions, "0-4", flexible=3)
    END_TXN = _api(26, "EndTxn", transactions, "0-5", flexible=3)
    TXN_OFFSET_COMMIT = _api(28, "TxnOffsetCommit", transactions, "0-5", flexible=3)
    DESCRIBE_ACLS = _api(29, "DescribeAcls", "broker.acls", "1-3", flexible=2)
    CREATE_ACLS = _api(30, "CreateAcls", "broker.acls", "1-3", flexible=2)
    DELETE_ACLS = _api(31, "DeleteAcls", "broker.acls", "1-3", flexible=2)
    DESCRIBE_CONFIGS = _api(32, "DescribeConfigs", "protocol.configs", "1-4", flexible=4)
    ALTER_CONFIGS = _api(33, "AlterConfigs", "broker.configs", "0-2", flexible=2)
    DESCRIBE_LOG_DIRS = _api(35, "DescribeLogDirs", "broker.placement", "1-5", client="1-4", broker="1-4", flexible=2)
    SASL_AUTHENTICATE = _api(36, "SaslAuthenticate", sasl, "0-2", flexible=2)
    CREATE_PARTITIONS = _api(37, "CreatePartitions", "broker.topics", "0-3", flexible=2)
    DELETE_GROUPS = _api(42, "DeleteGroups", "broker.group_admin", "0-2", flexible=2)
    ELECT_LEADERS = _api(43, "ElectLeaders", "broker.placement", "0-2", flexible=2)
    INCREMENTAL_ALTER_CONFIGS = _api(44, "IncrementalAlterConfigs", "broker.configs", "0-1", flexible=1)
    ALTER_PARTITION_REASSIGNMENTS = _api(45, "AlterPartitionReassignments", "broker.placement", "0-1", flexible=0)
    LIST_PARTITION_REASSIGNMENTS = _api(46, "ListPartitionReassignments", "broker.topics", "0", flexible=0)
    DESCRIBE_CLIENT_QUOTAS = _api(48, "DescribeClientQuotas", "broker.users", "0-1", flexible=1)
    DESCRIBE_USER_SCRAM_CREDENTIALS = _api(50, "DescribeUserScramCredentials", "broker.users", "0", flexible=0)
    ALTER_USER_SCRAM_CREDENTIALS = _api(51, "AlterUserScramCredentials", "broker.users", "0", flexible=0)
    DESCRIBE_QUORUM = _api(55, "DescribeQuorum", "protocol.quorum", "0-2", flexible=0)
    DESCRIBE_CLUSTER = _api(60, "DescribeCluster", "broker.cluster", "0-2", flexible=0)
    DESCRIBE_PRODUCERS = _api(61, "DescribeProducers", "broker.logs", "0", flexible=0)
    DESCRIBE_TRANSACTIONS = _api(65, "DescribeTransactions", "protocol.transaction_admin", "0", flexible=0)
    LIST_TRANSACTIONS = _api(66, "ListTransactions", "protocol.transaction_admin", "0-2", flexible=0)
    GET_TELEMETRY_SUBSCRIPTIONS = _api(71, "GetTelemetrySubscriptions", "protocol.telemetry", "0", advertised=None,
                                       flexible=0)
    PUSH_TELEMETRY = _api(72, "PushTelemetry", "protocol.telemetry", "0", advertised=None, flexible=0)
    LIST_CONFIG_RESOURCES = _api(74, "ListConfigResources", "broker.configs", "0-1", flexible=0)
    DESCRIBE_TOPIC_PARTITIONS = _api(75, "DescribeTopicPartitions", "broker.cluster", "0", flexible=0)

    @classmethod
    def has_id(cls, api_id: int) -> bool:
        """Whether the table has a row for this number."""
        return api_id in cls._value2member_map_

    @classmethod
    def for_id(cls, api_id: int) -> ApiKeys:
        """Return the API with this number.

        Raises:
            InvalidRequestError: We do not speak such an API. Unknown.
        """
        if not cls.has_id(api_id):
            raise InvalidRequestError(
                f"Unexpected ApiKeys id `{api_id}`, " + (
                    "which is not spoken here" if MIN_API_KEY <= api_id <= MAX_API_KEY else
                    f"it should be between `{MIN_API_KEY}` and `{MAX_API_KEY}` (inclusive)"))
        return cls(api_id)

    @property
    def oldest_version(self) -> int:
        """The first version that has a definition."""
        return self.row.valid[0]

    @property
    def latest_version(self) -> int:
        """The last version that has a definition."""
        return self.row.valid[1]

    def is_version_supported(self, version: int) -> bool:
        """Whether a version has a definition."""
        return self.oldest_version <= version <= self.latest_version

    def is_flexible(self, version: int) -> bool:
        """Whether a version has compact types and tags; also for versions newer than ours."""
        return self.row.flexible_from is not None and version >= self.row.flexible_from

    def request_header_version(self, version: int) -> int:
        """Return the version of the request header; also for versions newer than ours."""
        return 2 if self.is_flexible(version) else 1

    def response_header_version(self, version: int) -> int:
        """Return the version of the response header: 0 for every ApiVersions, so that anyone can read it."""
        return 1 if self.is_flexible(version) and self is not ApiKeys.API_VERSIONS else 0

    def request_schema(self, version: int) -> Schema:
        """Return the schema of the request's body.

        Raises:
            UnsupportedVersionError: There is no such version, or no longer. Not sent.
        """
        return self.request_formats[version][0]

    def response_schema(self, version: int) -> Schema:
        """Return the schema of the response's body.

        Raises:
            UnsupportedVersionError: There is no such version, or no longer. Not sent.
        """
        return self.response_formats[version][0]

    def _request_format(self, version: int) -> Format:
        return self._schema(self.row.request, version), self.request_header_version(version)

    def _response_format(self, version: int) -> Format:
        return self._schema(self.row.response, version), self.response_header_version(version)

    def _schema(self, message: Message, version: int) -> Schema:
        if version < 0 or version > self.latest_version:
            raise UnsupportedVersionError(f"Invalid version for API key {self.name}: {version}")
        if version < self.oldest_version:
            raise UnsupportedVersionError(f"Unsupported version for API key {self.name}: {version}")
        return message.schema(version, flexible=self.is_flexible(version))

    def __str__(self) -> str:
        return self.name


MIN_API_KEY = 0
MAX_API_KEY = int(max(ApiKeys))
