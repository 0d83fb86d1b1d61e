"""Rare states that a producer comes to on purpose, in a world that is well again: what follows is exact.

    nonsense    an answer to Metadata is an error, and beside it stands what is not so: nothing of that is believed
    old hint    a node says that another one leads, of an epoch that is not newer: nobody asks that one
    new topic   a topic that is nowhere is asked for alone, not with all that are known
    names       names are not found, then slowly, a connection comes to nothing, and the next one's ApiVersions is
                refused: each has its whole time, is counted, and is told as it was

Source:  ours; KIP-951, KIP-1102.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Sequence
from typing import Any

from pyproducer import KafkaError
from tests.simulation.faults import Faults, Scripted
from tests.simulation.model_broker import ModelCluster
from tests.simulation.plan import Parameters
from tests.simulation.schedule import SimClock
from tests.simulation.workload import Workload, is_acknowledged

CALLER = -9
_UNKNOWN_SERVER_ERROR, _NOT_LEADER = -1, 6
_FIRST_WITH_ERROR = 13  # of Metadata
_FIRST_WITH_HINTS = 10  # of Produce
_FIRST_WITH_EPOCHS = 9  # of Metadata: a leader's epoch is believed from then on
_NOT_FOUND = (0, False)
_SLOWLY = (4000, True)
_LONG_MS = 30_000
_LONG_AGE_MS = 300_000
_LONG_WAIT_MS = 5000
_NEW_TOPIC = "nowhere-else"
_STEP_MS = 50
_NAMES_IN_EVERY = 4  # seeds


class Finale:
    """Plays them.

    Args:
        seed: Which.
        parameters: Of the seed.
        workload: Makes records.
        faults: Have the script.
        clock: Where it sleeps.
        cluster: Whose leaders.
        checks: Counts what was judged.
        probe: Sends a record.

    Attributes:
        wrong: What must not be.
    """

    def __init__(self, seed: int, parameters: Parameters, workload: Workload, faults: Faults, clock: SimClock,
                 cluster: ModelCluster, checks: Counter[str], probe: Callable[..., None]) -> None:
        self.wrong: list[str] = []
        self._seed = seed
        self._parameters = parameters
        self._workload = workload
        self._faults = faults
        self._clock = clock
        self._cluster = cluster
        self._checks = checks
        self._probe = probe
        self._topic = next(iter(parameters.topics))
        self._order = 0

    def confuse(self, producer: Any) -> None:
        """Have brokers tell nonsense beside an error; whether all partitions take records then is asked elsewhere."""
        if self._parameters.metadata_version < _FIRST_WITH_ERROR:
            return
        errors = self._faults.metadata_errors
        errors.append(_UNKNOWN_SERVER_ERROR)
        producer._runtime.metadata.request_update()
        producer._runtime.wire.wakeup()
        until_ms = self._clock.now_ms() + _LONG_MS
        while errors and self._clock.now_ms() < until_ms:
            self._clock.sleep(_STEP_MS)
        self._checks["nonsense"] += not errors
        errors.clear()

    def play(self, producers: Sequence[Any]) -> None:
        """Play the others, with the first of all producers; they share the names."""
        self._play_hint(producers[0])
        self._play_new_topic(producers[0])
        if self._seed % _NAMES_IN_EVERY == 2:
            self._play_names(producers)

    def _send(self, producer: Any) -> bool:
        """Send a record to the first partition; return whether it was stored."""
        self._order += 1
        record = self._workload.new_record(CALLER, self._order, self._topic, 0, 5)
        self._probe(producer, record, partition=0)
        record.future.exception()
        return is_acknowledged(record)

    def _play_hint(self, producer: Any) -> None:
        parameters, cluster = self._parameters, self._cluster
        if (parameters.produce_version < _FIRST_WITH_HINTS or parameters.metadata_version < _FIRST_WITH_EPOCHS
                or parameters.node_versions or "odd_versions" in parameters.powers or len(cluster.nodes) < 2
                or parameters.props["acks"] == "0" or not self._send(producer)):
            return
        place = cluster.partition(self._topic, 0)
        known_of = producer._runtime.metadata.cluster.table(self._topic).by_index[0]
        if known_of.leader_epoch != place.leader_epoch:
            return  # the same node leads again, and the client has not heard of that
        other = next(node_id for node_id in cluster.nodes if node_id != place.leader_id)
        handed = self._faults.ledger.handed
        before = len(handed)
        script = self._faults.script
        script.setdefault((self._topic, 0), deque()).append(Scripted(_NOT_LEADER, hint=(other, place.leader_epoch)))
        self._send(producer)
        self._checks["old hints"] += not script.pop((self._topic, 0))
        if any(one.node_id == other for one in handed[before:]):
            self.wrong.append(f"node {other} leads {self._topic}-0, says a hint of the epoch {place.leader_epoch}, "
                              "which is known to be another's, and it was sent a batch")

    def _play_new_topic(self, producer: Any) -> None:
        props = self._parameters.props
        if (props["max.block.ms"] > _LONG_WAIT_MS or props["metadata.max.age.ms"] < _LONG_AGE_MS
                or props["connections.max.idle.ms"] < _LONG_AGE_MS or not self._send(producer)):
            return
        metadata, until_ms = producer._runtime.metadata, self._clock.now_ms() + _LONG_MS
        while metadata._need_full_update:  # a connection had ended
            if self._clock.now_ms() > until_ms:
                return
            self._clock.sleep(_STEP_MS)
        self._cluster.asked_together.clear()
        ended = producer.metrics()["connection-close-total"]
        try:
            producer.partitions_for(_NEW_TOPIC)
        except KafkaError:
            pass
        else:
            return  # it was made
        if producer.metrics()["connection-close-total"] != ended:
            return  # for which all metadata are asked for
        asked = next((names for names in self._cluster.asked_together if _NEW_TOPIC in names), {_NEW_TOPIC})
        self._checks["new topic"] += 1
        if asked != {_NEW_TOPIC}:
            self.wrong.append(f"{_NEW_TOPIC!r} was new, and metadata of {asked} were asked for")

    def _play_names(self, producers: Sequence[Any]) -> None:
        faults, producer = self._faults, producers[0]

        def failed() -> float:
            return sum(float(each.metrics()["connection-failed-total"]) for each in producers)

        before = failed()
        faults.lookups.extend((_NOT_FOUND, _NOT_FOUND, _SLOWLY))
        faults.lost_connects = 1
        faults.version_errors.append(_UNKNOWN_SERVER_ERROR)
        for node_id in self._cluster.nodes:
            faults.network.cut_all_of(node_id)
        self._send(producer)
        self._clock.sleep(_LONG_MS)
        unfound = 2 - sum(not is_found for _, is_found in faults.lookups)
        lost = 1 - faults.lost_connects
        faults.lookups.clear()
        faults.version_errors.clear()
        faults.lost_connects = 0
        self._checks["names"] += unfound
        if failed() - before < unfound:
            self.wrong.append(f"{unfound} names were not found, {lost} connections came to nothing, and "
                              f"{failed() - before} attempts to connect are counted as failed")
        for _ in range(3):  # all is connected again
            if self._send(producer):
                return
