"""What goes wrong inside the model's brokers: they answer with errors, late views of the cluster, or not at all.

Source:  ours; which code may follow an append says model_faults.py.
"""

from __future__ import annotations

import random

from pyproducer.protocol.apis import ApiKeys
from tests.simulation.faults import ERRORS_AFTER, ERRORS_BEFORE, Faults
from tests.simulation.model_broker import ModelCluster
from tests.simulation.model_faults import ApiVersionsVerdict, Interference, LeaderHint, MetadataVerdict, Verdict
from tests.simulation.model_log import NO_LEADER
from tests.simulation.model_sasl import SASL_AUTHENTICATION_FAILED
from tests.simulation.plan import Parameters

BLAME = "simulated: this one"
_INVALID_RECORD = 87
_NOT_LEADER = 6
_TOO_LARGE = 10
_LAST_EPOCH = 2**15 - 1
_FAR_ID = 9_000_000  # which nobody is given
# Refusals, and (id, epoch) that are none, though no error says so: the last epoch is nobody's who has no transactions.
_NO_ID_ERRORS = (14, 15, 16, 7, 51, -1, 41, (-1, 0), (_FAR_ID, -1), (_FAR_ID, _LAST_EPOCH))
_TOPIC_ERRORS = (3, 5, 5, 7, 29, -1)
_PARTITION_ERRORS = (5, 9)
_METADATA_ERRORS = (129, 129, -1, 7)
_COORDINATOR_ERRORS = (14, 15, 16)
# What ends a transaction, or all of a producer: not allowed (29, 30, 53), a group that goes on without its member (22,
# 25, 82), an id that nobody knows any more (49), and what the coordinator says that it cannot be (48).
_COORDINATOR_REFUSALS = {
    ApiKeys.FIND_COORDINATOR: (30, 53), ApiKeys.INIT_PRODUCER_ID: (51, 53),
    ApiKeys.ADD_PARTITIONS_TO_TXN: (29, 48, 49, 53), ApiKeys.ADD_OFFSETS_TO_TXN: (30, 48, 49, 53),
    ApiKeys.TXN_OFFSET_COMMIT: (22, 25, 30, 82, 12, 53), ApiKeys.END_TXN: (48, 49, 53),
    ApiKeys.DESCRIBE_TRANSACTIONS: (53,)}
_PLACE_REFUSALS = {ApiKeys.ADD_PARTITIONS_TO_TXN: (3, 3, 29, 7), ApiKeys.TXN_OFFSET_COMMIT: (3, 7, 7, 12, 14, 29)}
_API_VERSIONS_ERRORS = (35, -1, 42)
_SUBSCRIPTION_ERRORS = (-1, -1, 7, 42)
_PUSH_ERRORS = (117, 117, 117, 76, 118, 89, -1, 87)


class BrokerFaults(Interference):
    """Asks Faults at each of the model's occasions.

    Args:
        faults: Decides.
        chance: Its own stream, for what follows from a decision.
        parameters: Of the seed.
    """

    cluster: ModelCluster

    def __init__(self, faults: Faults, chance: random.Random, parameters: Parameters) -> None:
        self._faults = faults
        self._chance = chance
        self._parameters = parameters
        self._acks_all = parameters.props["acks"] == "all"

    def on_produce(self, node_id: int, topic: str, partition: int, now_ms: int) -> Verdict | None:
        faults, chance = self._faults, self._chance
        scripted = faults.next_scripted(topic, partition)
        if scripted is not None:
            return Verdict(scripted.code, applies=not scripted.code, unlawful_omitted=scripted.is_left_out,
                           leader_hint=False if scripted.hint is None else LeaderHint(*scripted.hint))
        odd = self._odd_produce(topic, partition)
        if odd is not None:
            return odd
        throttle_ms = int(chance.random() * 500) if faults.fires("throttle") else 0
        faults.throttled_ms[node_id] += throttle_ms
        if faults.fires("record_errors"):
            return Verdict(error_code=_INVALID_RECORD, applies=False, throttle_ms=throttle_ms, message="simulated",
                           record_errors=((int(chance.random() * 3), BLAME),))
        if faults.fires("error_before"):
            return Verdict(error_code=chance.choice(ERRORS_BEFORE), applies=False, throttle_ms=throttle_ms,
                           message="simulated", leader_hint=chance.random() < 0.5)
        if self._acks_all and faults.fires("error_after"):
            return Verdict(error_code=chance.choice(ERRORS_AFTER), applies=True, throttle_ms=throttle_ms,
                           leader_hint=chance.random() < 0.5)
        if faults.fires("too_large"):
            return Verdict(error_code=_TOO_LARGE, applies=False)
        if faults.fires("leader_move_unhinted"):
            return Verdict(error_code=_NOT_LEADER, applies=False)
        return Verdict(throttle_ms=throttle_ms) if throttle_ms else None

    def _odd_produce(self, topic: str, partition: int) -> Verdict | None:
        """What only some seeds have: brokers that are wrong about leaders, and answers that no Kafka gives."""
        faults, chance, cluster = self._faults, self._chance, self.cluster
        place = cluster.partition(topic, partition)
        if faults.fires("stale_hint"):
            epoch = int(chance.random() * (place.leader_epoch + 1))
            return Verdict(_NOT_LEADER, applies=False, leader_hint=LeaderHint(chance.choice(cluster.nodes), epoch))
        if faults.fires("wrong_hint"):  # it leads in the next epoch, and nobody has heard of that
            hint = LeaderHint(chance.choice(cluster.nodes), place.leader_epoch)
            if place.leader_id != NO_LEADER:
                cluster.move_leader(topic, partition, place.leader_id)
            return Verdict(_NOT_LEADER, applies=False, leader_hint=hint)
        if faults.fires("omit_partition"):
            if chance.random() < 0.5:
                return Verdict(unlawful_omitted=True)
            return Verdict(error_code=chance.choice(ERRORS_BEFORE), applies=False, unlawful_omitted=True)
        if faults.fires("extra_partition"):
            return Verdict(unlawful_extra_index=len(cluster.topics[topic]) + int(chance.random() * 2))
        if faults.fires("false_success"):
            faults.ledger.is_lying = True
            return Verdict(unlawful_success=True)
        return None

    def on_init_producer_id(self, node_id: int, now_ms: int) -> int | tuple[int, int] | None:
        return self._chance.choice(_NO_ID_ERRORS) if self._faults.fires("no_id") else None

    def on_coordinator(self, node_id: int, api_key: ApiKeys, now_ms: int) -> int | None:
        faults, coordinators = self._faults, self.cluster.coordinators
        if faults.refusals.get(api_key):
            return faults.refusals[api_key].popleft()
        coordinators.completion_ms = int(self._chance.random() * 300) if faults.fires("slow_completion") else 0
        if faults.fires("coordinator_move"):
            coordinators.move()
        if faults.fires("other_producer"):
            coordinators.fence(now_ms)
        if faults.fires("coordinator_error"):
            return self._chance.choice(_COORDINATOR_ERRORS)
        if not faults.is_completing and faults.fires("coordinator_refusal"):
            return self._chance.choice(_COORDINATOR_REFUSALS[api_key])
        return None

    def on_place(self, node_id: int, api_key: ApiKeys, now_ms: int) -> int | None:
        if self._faults.place_refusals.get(api_key):
            return self._faults.place_refusals[api_key].popleft()
        return self._chance.choice(_PLACE_REFUSALS[api_key]) if self._faults.fires("partial_refusal") else None

    def on_telemetry(self, node_id: int, api_key: ApiKeys, now_ms: int) -> int | None:
        codes = _PUSH_ERRORS if api_key is ApiKeys.PUSH_TELEMETRY else _SUBSCRIPTION_ERRORS
        return self._chance.choice(codes) if self._faults.fires("telemetry_error") else None

    def on_proof(self, node_id: int, now_ms: int) -> int | None:
        return SASL_AUTHENTICATION_FAILED if self._faults.fires("refuse_login") else None

    def on_metadata(self, node_id: int, now_ms: int) -> MetadataVerdict | None:
        faults, chance, cluster = self._faults, self._chance, self.cluster
        if faults.metadata_errors:
            return MetadataVerdict(error_code=faults.metadata_errors.popleft(), unlawful_nonsense=True)
        if faults.fires("metadata_error"):
            return MetadataVerdict(error_code=chance.choice(_METADATA_ERRORS), unlawful_nonsense=chance.random() < 0.5)
        if faults.fires("hide_node"):
            return MetadataVerdict(hidden_nodes={chance.choice(cluster.nodes)})
        if cluster.views and faults.fires("stale_metadata"):
            return MetadataVerdict(view=chance.choice(cluster.views[-3:]))
        topic = chance.choice(list(cluster.topics))
        count = len(cluster.topics[topic])
        if faults.fires("omit_topic"):
            return MetadataVerdict(unlawful_omitted_topics={topic})
        if count > 1 and faults.fires("shrinking_metadata"):
            faults.partition_counts[topic].add(count - 1)
            return MetadataVerdict(partition_counts={topic: count - 1})
        if count > 1 and faults.fires("sparse_metadata"):
            return MetadataVerdict(hidden_partitions={(topic, int(chance.random() * (count - 1)))})
        if faults.fires("topic_error"):
            if chance.random() < 0.5:
                return MetadataVerdict(topic_errors={topic: chance.choice(_TOPIC_ERRORS)})
            place = topic, int(chance.random() * count)
            return MetadataVerdict(partition_errors={place: chance.choice(_PARTITION_ERRORS)})
        return None

    def on_api_versions(self, node_id: int, now_ms: int) -> ApiVersionsVerdict | None:
        faults, chance = self._faults, self._chance
        if faults.version_errors:
            return ApiVersionsVerdict(error_code=faults.version_errors.popleft())
        own = self._parameters.node_versions
        versions = None
        if node_id in own and node_id not in faults.upgraded:
            versions = self._versions(*own[node_id])
        if faults.fires("odd_versions"):
            kind = chance.random()
            if kind < 0.3:
                return ApiVersionsVerdict(error_code=chance.choice(_API_VERSIONS_ERRORS))
            if kind < 0.5:
                throttle_ms = int(chance.random() * 500)
                faults.throttled_ms[node_id] += throttle_ms
                return ApiVersionsVerdict(versions=versions, throttle_ms=throttle_ms)
            lowest = 7 if self._parameters.props["compression.type"] == "zstd" else 3
            versions = self._versions(max(lowest, self._parameters.produce_version - int(chance.random() * 5)),
                                      max(4, self._parameters.metadata_version - int(chance.random() * 5)))
        return None if versions is None else ApiVersionsVerdict(versions=versions)

    def _versions(self, produce: int, metadata: int) -> dict[int, tuple[int, int]]:
        return {**self.cluster.versions(), int(ApiKeys.PRODUCE): (0, produce), int(ApiKeys.METADATA): (0, metadata)}
