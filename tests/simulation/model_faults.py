"""What may go wrong inside a model broker: hooks that are asked before each answer, and what they may say.

The hooks have no randomness of their own: whoever implements them draws. What Kafka may answer is lawful; an answer
that no Kafka gives has a name that begins with `unlawful`, so that a story tells which world it was.

Thread:  values.
Source:  Kafka's errors of Produce; which may follow an append: DelayedProduce (trunk) asks for the partition and its
         leader again when the replicas are waited for; KIP-951, KIP-467, KIP-219.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyproducer.protocol.apis import ApiKeys
    from tests.simulation.model_topics import ClusterView

UNKNOWN_SERVER_ERROR = -1
UNKNOWN_TOPIC_OR_PARTITION = 3
NOT_LEADER_OR_FOLLOWER = 6
REQUEST_TIMED_OUT = 7
NOT_ENOUGH_REPLICAS_AFTER_APPEND = 20
KAFKA_STORAGE_ERROR = 56

AFTER_APPEND: frozenset[int] = frozenset((
    UNKNOWN_SERVER_ERROR, UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER, REQUEST_TIMED_OUT,
    NOT_ENOUGH_REPLICAS_AFTER_APPEND, KAFKA_STORAGE_ERROR))
"""The codes that Kafka may answer for records that it stored; at acks=1 these are -1 and 56 only.

A leader that waits for its replicas asks meanwhile whether it still leads and has the partition.
"""


@dataclass(frozen=True)
class LeaderHint:
    """Who leads, as a broker believes (KIP-951); it may be behind."""

    leader_id: int
    leader_epoch: int


@dataclass(frozen=True)
class Verdict:
    """What a broker does with one partition of a Produce request.

    Attributes:
        error_code: What it answers; 0 leaves the answer to the model.
        applies: Whether the batch is appended before that. Only if it can be: where the model refuses the batch, the
            answer is the model's.
        message: error_message, told from version 8 on.
        record_errors: (index in the batch, text) for each record that is blamed, told from version 8 on.
        leader_hint: With NOT_LEADER_OR_FOLLOWER: the true leader (True), none (False), or another one. Told from
            version 10 on, with the addresses of the nodes named.
        throttle_ms: The answer's throttle time; the largest of a request's partitions counts.
        unlawful_omitted: The partition is left out of the answer.
        unlawful_extra_index: Another partition of the topic, which nobody asked for, is answered as stored.
        unlawful_success: The answer is that of a stored batch, at offset 0, and nothing is appended.
    """

    error_code: int = 0
    applies: bool = True
    message: str | None = None
    record_errors: tuple[tuple[int, str | None], ...] = ()
    leader_hint: bool | LeaderHint = False
    throttle_ms: int = 0
    unlawful_omitted: bool = False
    unlawful_extra_index: int | None = None
    unlawful_success: bool = False

    @property
    def is_lawful(self) -> bool:
        """Whether a Kafka broker may do this."""
        if self.unlawful_omitted or self.unlawful_extra_index is not None or self.unlawful_success:
            return False
        if self.error_code == 0:
            return self.applies
        return not self.applies or self.error_code in AFTER_APPEND


@dataclass(frozen=True)
class MetadataVerdict:
    """What a broker tells of the cluster.

    Attributes:
        view: The cluster as it knows it, from ModelCluster.snapshot(); None is as it is now.
        error_code: Of the whole answer, told from version 13 on; then there is nothing else in it.
        unlawful_nonsense: There is, and nothing of it is so.
        throttle_ms: The answer's throttle time.
        topic_errors: The code of a topic, which then has no partitions.
        partition_errors: The code of a partition; with LEADER_NOT_AVAILABLE it has no leader.
        hidden_partitions: Partitions that are missing between others.
        partition_counts: Topics of which only the first so many partitions are told.
        hidden_nodes: Nodes that are missing among the brokers; partitions may name them all the same.
        unlawful_omitted_topics: Topics that were asked for and are not answered.
    """

    view: ClusterView | None = None
    error_code: int = 0
    throttle_ms: int = 0
    topic_errors: Mapping[str, int] | None = None
    partition_errors: Mapping[tuple[str, int], int] | None = None
    hidden_partitions: Set[tuple[str, int]] = frozenset()
    partition_counts: Mapping[str, int] | None = None
    hidden_nodes: Set[int] = frozenset()
    unlawful_omitted_topics: Set[str] = frozenset()
    unlawful_nonsense: bool = False


@dataclass(frozen=True)
class ApiVersionsVerdict:
    """What a broker says about itself.

    Attributes:
        error_code: Of the whole answer, which then names no API.
        versions: (lowest, highest) by number of the API, in place of the model's. What was announced on a connection
            may be used there, and nothing else; where frames have no connection, what was announced once.
        throttle_ms: The answer's throttle time.
    """

    error_code: int = 0
    versions: Mapping[int, tuple[int, int]] | None = None
    throttle_ms: int = 0


class Interference:
    """The hooks. Each is asked once for each thing that it names, in the order of the request; None changes nothing."""

    def on_produce(self, node_id: int, topic: str, partition: int, now_ms: int) -> Verdict | None:
        """Say what a node does with a partition of a Produce request; asked for partitions that there are."""

    def on_init_producer_id(self, node_id: int, now_ms: int) -> int | tuple[int, int] | None:
        """Return the error code with which a node refuses to give an id; or an id and an epoch, as no Kafka gives."""

    def on_proof(self, node_id: int, now_ms: int) -> int | None:
        """Return the error code with which a node refuses who proves that he may come in."""

    def on_metadata(self, node_id: int, now_ms: int) -> MetadataVerdict | None:
        """Say what a node tells of the cluster."""

    def on_coordinator(self, node_id: int, api_key: ApiKeys, now_ms: int) -> int | None:
        """Return the error code with which a node refuses a request about transactions, or for its coordinator."""

    def on_place(self, node_id: int, api_key: ApiKeys, now_ms: int) -> int | None:
        """Return the error code with which a coordinator refuses the first of the partitions that a request names."""

    def on_telemetry(self, node_id: int, api_key: ApiKeys, now_ms: int) -> int | None:
        """Return the error code with which a node refuses a request about a client's metrics."""

    def on_api_versions(self, node_id: int, now_ms: int) -> ApiVersionsVerdict | None:
        """Say what a node tells of itself."""
