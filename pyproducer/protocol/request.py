"""Requests as the broker sees them: one class per API, so that a handler can say which one it expects.

Road:    frame -> header -> [AbstractRequest.get_request] -> RequestChannel.Request -> KafkaApis
Thread:  values; a request belongs to the handler that took it from the queue.
Source:  Java AbstractRequest, RequestAndSize (4.1) and its 0.10 form, where a request wraps the Struct that was read.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple

from pyproducer.protocol.apis import ApiKeys
from pyproducer.protocol.buffer import Buffer, ByteReader
from pyproducer.protocol.schema import Struct


class AbstractRequest:
    """A request's body and the version it was written in.

    Attributes:
        api_key: Which API this is a request of.
        data: The body; fields which the version does not have are absent.
        version: The version.
    """

    api_key: ClassVar[ApiKeys]
    _class_of: ClassVar[dict[ApiKeys, type[AbstractRequest]]] = {}

    __slots__ = ("data", "version")

    def __init__(self, data: Struct, version: int) -> None:
        self.data: Struct = data
        self.version: int = version

    def __init_subclass__(cls) -> None:
        AbstractRequest._class_of[cls.api_key] = cls

    @staticmethod
    def parse_request(api_key: ApiKeys, version: int, data: Struct) -> AbstractRequest:
        """Wrap a body in the class of its API."""
        return AbstractRequest._class_of[api_key](data, version)

    @staticmethod
    def get_request(api_id: int, version: int, buffer: ByteReader | Buffer) -> RequestAndSize:
        """Read a body; a reader is left behind it, and what follows is passed over.

        Raises:
            InvalidRequestError: We do not speak such an API. Unknown.
            UnsupportedVersionError: The API has no such version, or no longer. Unknown.
            SchemaError: The bytes are not such a body; the text names the field. Unknown.
        """
        api_key = ApiKeys.for_id(api_id)
        schema = api_key.request_schema(version)
        reader = buffer if isinstance(buffer, ByteReader) else ByteReader(buffer)
        start = reader.position
        data = schema.read(reader)
        return RequestAndSize(AbstractRequest.parse_request(api_key, version, data), reader.position - start)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(version={self.version}, data={self.data})"


class RequestAndSize(NamedTuple):
    """A request and how many bytes its body took."""

    request: AbstractRequest
    size: int


class ProduceRequest(AbstractRequest):
    """Produce (key 0)."""

    api_key = ApiKeys.PRODUCE


class FetchRequest(AbstractRequest):
    """Fetch (key 1)."""

    api_key = ApiKeys.FETCH


class ListOffsetsRequest(AbstractRequest):
    """ListOffsets (key 2)."""

    api_key = ApiKeys.LIST_OFFSETS


class MetadataRequest(AbstractRequest):
    """Metadata (key 3)."""

    api_key = ApiKeys.METADATA


class OffsetCommitRequest(AbstractRequest):
    """OffsetCommit (key 8)."""

    api_key = ApiKeys.OFFSET_COMMIT


class OffsetFetchRequest(AbstractRequest):
    """OffsetFetch (key 9)."""

    api_key = ApiKeys.OFFSET_FETCH


class FindCoordinatorRequest(AbstractRequest):
    """FindCoordinator (key 10)."""

    api_key = ApiKeys.FIND_COORDINATOR


class JoinGroupRequest(AbstractRequest):
    """JoinGroup (key 11)."""

    api_key = ApiKeys.JOIN_GROUP


class HeartbeatRequest(AbstractRequest):
    """Heartbeat (key 12)."""

    api_key = ApiKeys.HEARTBEAT


class LeaveGroupRequest(AbstractRequest):
    """LeaveGroup (key 13)."""

    api_key = ApiKeys.LEAVE_GROUP


class SyncGroupRequest(AbstractRequest):
    """SyncGroup (key 14)."""

    api_key = ApiKeys.SYNC_GROUP


class DescribeGroupsRequest(AbstractRequest):
    """DescribeGroups (key 15)."""

    api_key = ApiKeys.DESCRIBE_GROUPS


class ListGroupsRequest(AbstractRequest):
    """ListGroups (key 16)."""

    api_key = ApiKeys.LIST_GROUPS


class SaslHandshakeRequest(AbstractRequest):
    """SaslHandshake (key 17)."""

    api_key = ApiKeys.SASL_HANDSHAKE


class ApiVersionsRequest(AbstractRequest):
    """ApiVersions (key 18)."""

    api_key = ApiKeys.API_VERSIONS


class CreateTopicsRequest(AbstractRequest):
    """CreateTopics (key 19)."""

    api_key = ApiKeys.CREATE_TOPICS


class DeleteTopicsRequest(AbstractRequest):
    """DeleteTopics (key 20)."""

    api_key = ApiKeys.DELETE_TOPICS


class DeleteRecordsRequest(AbstractRequest):
    """DeleteRecords (key 21)."""

    api_key = ApiKeys.DELETE_RECORDS


class InitProducerIdRequest(AbstractRequest):
    """InitProducerId (key 22)."""

    api_key = ApiKeys.INIT_PRODUCER_ID


class OffsetForLeaderEpochRequest(AbstractRequest):
    """OffsetForLeaderEpoch (key 23)."""

    api_key = ApiKeys.OFFSET_FOR_LEADER_EPOCH


class AddPartitionsToTxnRequest(AbstractRequest):
    """AddPartitionsToTxn (key 24)."""

    api_key = ApiKeys.ADD_PARTITIONS_TO_TXN


class AddOffsetsToTxnRequest(AbstractRequest):
    """AddOffsetsToTxn (key 25)."""

    api_key = ApiKeys.ADD_OFFSETS_TO_TXN


class EndTxnRequest(AbstractRequest):
    """EndTxn (key 26)."""

    api_key = ApiKeys.END_TXN


class TxnOffsetCommitRequest(AbstractRequest):
    """TxnOffsetCommit (key 28)."""

    api_key = ApiKeys.TXN_OFFSET_COMMIT


class DescribeAclsRequest(AbstractRequest):
    """DescribeAcls (key 29)."""

    api_key = ApiKeys.DESCRIBE_ACLS


class CreateAclsRequest(AbstractRequest):
    """CreateAcls (key 30)."""

    api_key = ApiKeys.CREATE_ACLS


class DeleteAclsRequest(AbstractRequest):
    """DeleteAcls (key 31)."""

    api_key = ApiKeys.DELETE_ACLS


class DescribeConfigsRequest(AbstractRequest):
    """DescribeConfigs (key 32)."""

    api_key = ApiKeys.DESCRIBE_CONFIGS


class AlterReplicaLogDirsRequest(AbstractRequest):
    """AlterReplicaLogDirs (key 34)."""

    api_key = ApiKeys.ALTER_REPLICA_LOG_DIRS


class DescribeLogDirsRequest(AbstractRequest):
    """DescribeLogDirs (key 35)."""

    api_key = ApiKeys.DESCRIBE_LOG_DIRS


class SaslAuthenticateRequest(AbstractRequest):
    """SaslAuthenticate (key 36)."""

    api_key = ApiKeys.SASL_AUTHENTICATE


class CreatePartitionsRequest(AbstractRequest):
    """CreatePartitions (key 37)."""

    api_key = ApiKeys.CREATE_PARTITIONS


class DeleteGroupsRequest(AbstractRequest):
    """DeleteGroups (key 42)."""

    api_key = ApiKeys.DELETE_GROUPS


class ElectLeadersRequest(AbstractRequest):
    """ElectLeaders (key 43)."""

    api_key = ApiKeys.ELECT_LEADERS


class IncrementalAlterConfigsRequest(AbstractRequest):
    """IncrementalAlterConfigs (key 44)."""

    api_key = ApiKeys.INCREMENTAL_ALTER_CONFIGS


class AlterPartitionReassignmentsRequest(AbstractRequest):
    """AlterPartitionReassignments (key 45)."""

    api_key = ApiKeys.ALTER_PARTITION_REASSIGNMENTS


class ListPartitionReassignmentsRequest(AbstractRequest):
    """ListPartitionReassignments (key 46)."""

    api_key = ApiKeys.LIST_PARTITION_REASSIGNMENTS


class DescribeClientQuotasRequest(AbstractRequest):
    """DescribeClientQuotas (key 48)."""

    api_key = ApiKeys.DESCRIBE_CLIENT_QUOTAS


class DescribeUserScramCredentialsRequest(AbstractRequest):
    """DescribeUserScramCredentials (key 50)."""

    api_key = ApiKeys.DESCRIBE_USER_SCRAM_CREDENTIALS


class AlterUserScramCredentialsRequest(AbstractRequest):
    """AlterUserScramCredentials (key 51)."""

    api_key = ApiKeys.ALTER_USER_SCRAM_CREDENTIALS


class DescribeQuorumRequest(AbstractRequest):
    """DescribeQuorum (key 55)."""

    api_key = ApiKeys.DESCRIBE_QUORUM


class DescribeClusterRequest(AbstractRequest):
    """DescribeCluster (key 60)."""

    api_key = ApiKeys.DESCRIBE_CLUSTER


class DescribeProducersRequest(AbstractRequest):
    """DescribeProducers (key 61)."""

    api_key = ApiKeys.DESCRIBE_PRODUCERS


class DescribeTransactionsRequest(AbstractRequest):
    """DescribeTransactions (key 65)."""

    api_key = ApiKeys.DESCRIBE_TRANSACTIONS


class ListTransactionsRequest(AbstractRequest):
    """ListTransactions (key 66)."""

    api_key = ApiKeys.LIST_TRANSACTIONS


class GetTelemetrySubscriptionsRequest(AbstractRequest):
    """GetTelemetrySubscriptions (key 71)."""

    api_key = ApiKeys.GET_TELEMETRY_SUBSCRIPTIONS


class PushTelemetryRequest(AbstractRequest):
    """PushTelemetry (key 72)."""

    api_key = ApiKeys.PUSH_TELEMETRY


class ListConfigResourcesRequest(AbstractRequest):
    """ListConfigResources (key 74)."""

    api_key = ApiKeys.LIST_CONFIG_RESOURCES


class DescribeTopicPartitionsRequest(AbstractRequest):
    """DescribeTopicPartitions (key 75)."""

    api_key = ApiKeys.DESCRIBE_TOPIC_PARTITIONS


def empty_api_versions_request() -> ApiVersionsRequest:
    """Return what an ApiVersions request of a version that we do not know counts as: version 0, which has no body."""
    nothing: Mapping[str, Any] = {}
    return ApiVersionsRequest(Struct(ApiKeys.API_VERSIONS.request_schema(0), nothing), 0)
