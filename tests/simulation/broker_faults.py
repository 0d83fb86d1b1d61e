"""What goes wrong inside the model's brokers: they answer with errors, late views of the cluster, or not at all.

Source:  ours; which code may follow an append says model_faults.py.
"""

from __future__ import annotations

import random

from tests.simulation.faults import ERRORS_AFTER, ERRORS_BEFORE, Faults
from tests.simulation.model_broker import ModelCluster
from tests.simulation.model_faults import Interference, MetadataVerdict, Verdict
from tests.simulation.model_sasl import SASL_AUTHENTICATION_FAILED
from tests.simulation.plan import Parameters

_NOT_LEADER = 6
_TOO_LARGE = 10
_NO_ID_ERRORS = (14, 15, 16, 7, 51, -1, 41)
_TOPIC_ERRORS = (3, 5, 5, 7, 29, -1)
_PARTITION_ERRORS = (5, 9)


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
        self._acks_all = parameters.props["acks"] == "all"

    def on_produce(self, node_id: int, topic: str, partition: int, now_ms: int) -> Verdict | None:
        faults, chance = self._faults, self._chance
        throttle_ms = int(chance.random() * 500) if faults.fires("throttle") else 0
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

    def on_init_producer_id(self, node_id: int, now_ms: int) -> int | None:
        return self._chance.choice(_NO_ID_ERRORS) if self._faults.fires("no_id") else None

    def on_proof(self, node_id: int, now_ms: int) -> int | None:
        return SASL_AUTHENTICATION_FAILED if self._faults.fires("refuse_login") else None

    def on_metadata(self, node_id: int, now_ms: int) -> MetadataVerdict | None:
        faults, chance, cluster = self._faults, self._chance, self.cluster
        if cluster.views and faults.fires("stale_metadata"):
            return MetadataVerdict(view=chance.choice(cluster.views[-3:]))
        topic = chance.choice(list(cluster.topics))
        count = len(cluster.topics[topic])
        if count > 1 and faults.fires("shrinking_metadata"):
            return MetadataVerdict(partition_counts={topic: count - 1})
        if count > 1 and faults.fires("sparse_metadata"):
            return MetadataVerdict(hidden_partitions={(topic, int(chance.random() * (count - 1)))})
        if faults.fires("topic_error"):
            if chance.random() < 0.5:
                return MetadataVerdict(topic_errors={topic: chance.choice(_TOPIC_ERRORS)})
            place = topic, int(chance.random() * count)
            return MetadataVerdict(partition_errors={place: chance.choice(_PARTITION_ERRORS)})
        return None
