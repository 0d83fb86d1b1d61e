"""What must hold of a simulation when it is over, whatever went wrong in it.

    told as stored    exactly once in the log of its partition, at the offset that was told (idempotence), or at least
                      once (without), or anywhere (acks=0)
    not_sent          never in any log
    rejected          never in any log
    unknown           at most once (idempotence)
    refused by send() never in any log
    in order          the records of a thread in each partition, as it sent them (idempotence)
    callbacks         once for each record that was accepted, and what they say is what the future says

Source:  ours.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any

from pyproducer.common.errors import NOT_SENT, REJECTED, UNKNOWN
from tests.simulation.faults import Faults
from tests.simulation.model_broker import ModelCluster
from tests.simulation.plan import Parameters
from tests.simulation.workload import Sent, Workload

_FATES = (NOT_SENT, REJECTED, UNKNOWN)


def check(workload: Workload, cluster: ModelCluster, parameters: Parameters,
          faults: Faults) -> tuple[Counter[str], list[str]]:
    """Compare what was told with what is in the logs; return how many records had which fate, and what is wrong."""
    wrong = list(workload.complaints)
    places: dict[bytes, list[tuple[str, Any, int, int]]] = defaultdict(list)
    is_idempotent = parameters.props["enable.idempotence"]
    acks = parameters.props["acks"]
    for (topic, topic_id, partition), batches in cluster.logs.items():
        last_of: dict[bytes, int] = {}
        is_ordered = is_idempotent and (topic, partition) not in faults.unordered
        for batch in batches:
            for index, value in enumerate(batch.values):
                places[value].append((topic, topic_id, partition, batch.base_offset + index))
                caller, order = value.split(b" ", 1)[0].split(b".")
                if int(order) <= last_of.get(caller, 0) and is_ordered and caller != b"-1":
                    wrong.append(f"out of order in {topic}-{partition}: {caller.decode()}.{order.decode()} at offset "
                                 f"{batch.base_offset + index}, behind {last_of[caller]}")
                last_of[caller] = int(order)
    fates: Counter[str] = Counter()
    for record in workload.records:
        fates[_check(record, places.pop(record.value, []), wrong, is_idempotent, acks,
                     faults.unordered)] += 1
    wrong += [f"{value!r} is in the log, and nobody sent it" for value in places]
    return fates, wrong


def _check(record: Sent, places: list[tuple[str, Any, int, int]], wrong: list[str], is_idempotent: bool,
           acks: str, unordered: set[tuple[str, int]]) -> str:
    per_log = Counter(place[:3] for place in places if (place[0], place[2]) not in unordered)
    if is_idempotent and max(per_log.values(), default=0) > 1:
        wrong.append(f"{record} is {len(places)} times in the log: {places}")
    if record.refused is not None:
        if places:
            wrong.append(f"{record} was refused ({record.refused!r}), and is in the log: {places}")
        return "refused"
    if record.is_cut_off:
        return "cut off"
    error, offset, partition = _told(record, wrong)
    if error is None:
        if acks == "0":
            return "acknowledged"
        if not places:
            wrong.append(f"{record} was acknowledged at {record.topic}-{partition} offset {offset}, and is in no log")
        elif (record.topic, partition, offset) not in {(place[0], place[2], place[3]) for place in places} and (
                offset >= 0 or not is_idempotent):
            wrong.append(f"{record} was acknowledged at {record.topic}-{partition} offset {offset}, and is at {places}")
        return "acknowledged"
    outcome = getattr(error, "outcome", None)
    if outcome not in _FATES:
        wrong.append(f"{record} failed with {error!r}, which says no outcome but {outcome!r}")
        return "failed"
    if outcome != UNKNOWN and places:
        wrong.append(f"{record} failed with {error!r}, outcome {outcome}, and is in the log: {places}")
    return str(outcome)


def _told(record: Sent, wrong: list[str]) -> tuple[Any, int, int]:
    future = record.future
    if not future.done():
        wrong.append(f"{record} has no outcome")
        return None, -1, -1
    if record.row is not None:
        metadata = future._metadata
        error = metadata.errors.get(record.row)
        return error, metadata.offsets[record.row], metadata.partitions[record.row]
    error = future.exception(0)
    if record.has_callback and record.told_count != 1:
        wrong.append(f"the callback of {record} was called {record.told_count} times")
    if error is not None:
        if record.has_callback and (record.told_metadata is not None or type(record.told_error) is not type(error)):
            wrong.append(f"{record}: its future says {error!r}, its callback was told {record.told_error!r}")
        return error, -1, -1
    metadata = future.result(0)
    if record.has_callback and record.told_metadata != metadata:
        wrong.append(f"{record}: its future says {metadata}, its callback was told {record.told_metadata}")
    if record.partition is not None and metadata.partition != record.partition:
        wrong.append(f"{record} was for partition {record.partition}, and went to {metadata.partition}")
    return None, metadata.offset, metadata.partition
