"""What must hold of a simulation when it is over, whatever went wrong in it.

    told as stored    exactly once in the log of its partition, at the offset that was told (idempotence), or at least
                      once (without), or anywhere (acks=0)
    not_sent          never in any log
    rejected          never in any log
    unknown           at most once (idempotence)
    refused by send() never in any log
    at most once      without idempotence, too, where retries=0
    in order          the records of a thread in each partition, as it sent them (idempotence); those that were stored,
                      by the offsets that were told, also without, where one request is in flight
    as it was sent    key, headers and timestamp in the log are those of the record
    not given up      no error that a retry may heal before delivery.timeout.ms is over, without the time in which the
                      process stood still (idempotence); and none long after the world is well again
    callbacks         once for each record that was accepted, and what they say is what the future says

Source:  ours.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any

from pyproducer.common.errors import NOT_SENT, REJECTED, UNKNOWN, IllegalStateError, KafkaError, KafkaTimeoutError
from pyproducer.sender.freeze import longest_pause_ms
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
    is_once = is_idempotent or parameters.props.get("retries") == 0
    sent = {record.value: record for record in workload.records}
    for (topic, topic_id, partition), batches in cluster.logs.items():
        last_of: dict[bytes, int] = {}
        is_ordered = is_idempotent and (topic, partition) not in faults.unordered
        for batch in batches:
            for index, value in enumerate(batch.values):
                record = None if value is None else sent.get(value)
                if record is not None and record.row is None and not record.is_cut_off and (
                        record.key != batch.keys[index] or record.headers != batch.headers[index]):
                    wrong.append(f"{record} has key {record.key!r} and headers {record.headers!r}, and in the log "
                                 f"{batch.keys[index]!r} and {batch.headers[index]!r}")
                elif record is not None and record.told_metadata is not None and (
                        record.told_metadata.timestamp != batch.timestamps[index]):
                    wrong.append(f"{record} has the timestamp {batch.timestamps[index]} in the log, and was told "
                                 f"{record.told_metadata}")
                places[value].append((topic, topic_id, partition, batch.base_offset + index))
                caller, order = value.split(b" ", 1)[0].split(b".")
                if int(order) <= last_of.get(caller, 0) and is_ordered and caller != b"-1":
                    wrong.append(f"out of order in {topic}-{partition}: {caller.decode()}.{order.decode()} at offset "
                                 f"{batch.base_offset + index}, behind {last_of[caller]}")
                last_of[caller] = int(order)
    fates: Counter[str] = Counter()
    for record in workload.records:
        fates[_check(record, places.pop(record.value, []), wrong, is_once, is_idempotent, acks,
                     faults.unordered)] += 1
    wrong += [f"{value!r} is in the log, and nobody sent it" for value in places]
    if parameters.props["max.in.flight.requests.per.connection"] == 1 and not is_idempotent and acks != "0":
        _check_order(workload, wrong, faults.unordered)
    is_split = parameters.longest_message_bytes < parameters.props["batch.size"]  # by the topic's own limit
    if is_idempotent and not is_split and not faults.fired.keys() & _MAKES_ELDER:
        _check_patience(workload, parameters, faults, wrong)
    if parameters.props["delivery.timeout.ms"] >= 2 * parameters.props["request.timeout.ms"]:  # else one try is all
        _check_liveness(workload, faults, wrong)
    return fates, wrong


# Where batches begin earlier than the first of their records that is known: whoever was ended in its send() may have
# opened one, and what is split keeps the time of the whole.
_MAKES_ELDER = frozenset({"interrupt", "strike", "too_large", "error_before"})


def _check_order(workload: Workload, wrong: list[str], unordered: set[tuple[str, int]]) -> None:
    last_of: dict[tuple[int, str, int], tuple[int, Sent]] = {}
    for record in workload.records:
        told = record.told_metadata
        if told is None or told.offset < 0 or record.caller < 0 or (told.topic, told.partition) in unordered:
            continue
        offset, last = last_of.get((record.caller, told.topic, told.partition), (-1, record))
        if told.offset <= offset:
            wrong.append(f"{record} is at offset {told.offset} of {told.topic}-{told.partition}, and {last}, which was "
                         f"sent before it, at {offset}")
        last_of[record.caller, told.topic, told.partition] = told.offset, record


# Of a world that is well again: requests that nobody answers time out, and names and nodes are tried again.
_LONGEST_CURE_MS = 30_000


def _check_liveness(workload: Workload, faults: Faults, wrong: list[str]) -> None:
    """Nothing expires for ever; but where delivery.timeout.ms is short and the way is narrow, a queue may be slow."""
    for record in workload.records:
        error = record.told_error
        if (isinstance(error, KafkaTimeoutError) and error.phase == "delivery" and faults.healed_ms is not None
                and record.told_ms > faults.healed_ms + _LONGEST_CURE_MS
                and not any(other.told_metadata is not None and record.sent_ms < other.told_ms <= record.told_ms
                            and _is_beside(other.told_metadata, record) for other in workload.records)):
            wrong.append(f"{record} expired {record.told_ms - faults.healed_ms} ms after all was well again: {error!r}")


def _is_beside(metadata: Any, record: Sent) -> bool:
    """Whether what was stored may have been in the same queue as a record."""
    if record.row is not None or record.future is None:
        return bool(metadata.topic == record.topic)
    return bool(record.future._result.topic_partition == (metadata.topic, metadata.partition))


def _check_patience(workload: Workload, parameters: Parameters, faults: Faults, wrong: list[str]) -> None:
    began_ms: dict[int, int] = {}
    for record in workload.records:
        if record.future is not None and record.row is None:
            key = id(record.future._result)
            began_ms[key] = min(began_ms.get(key, record.sent_ms), record.sent_ms)
    for record in workload.records:
        error = record.told_error
        if not isinstance(error, KafkaError) or isinstance(error, IllegalStateError) or record.row is not None:
            continue
        is_expiry = isinstance(error, KafkaTimeoutError) and error.phase == "delivery"
        if not (is_expiry or error.retriable) or (isinstance(error, KafkaTimeoutError) and not is_expiry):
            continue
        longest_ms = parameters.props["delivery.timeout.ms"]
        rows_ms = [other.sent_ms for other in workload.records  # of a send_batch; they may have opened the batch
                   if other.row is not None and other.topic == record.topic]
        since_ms = began_ms[id(record.future._result)]
        took_ms = record.told_ms - min([since_ms, *rows_ms])
        if not rows_ms:  # nobody knows which freezes were before the batch
            shortest_ms = 2 * longest_pause_ms(parameters.props["request.timeout.ms"])
            took_ms -= sum(ms for at_ms, ms in faults.freezes
                           if since_ms < at_ms and at_ms + ms <= record.told_ms and ms > shortest_ms)
        if took_ms < longest_ms:
            wrong.append(f"{record} failed after {took_ms} ms, before delivery.timeout.ms was over: {error!r}")


def _check(record: Sent, places: list[tuple[str, Any, int, int]], wrong: list[str], is_once: bool, is_idempotent: bool,
           acks: str, unordered: set[tuple[str, int]]) -> str:
    per_log = Counter(place[:3] for place in places if (place[0], place[2]) not in unordered)
    if is_once and max(per_log.values(), default=0) > 1:
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
