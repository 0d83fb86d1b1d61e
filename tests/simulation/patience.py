"""Nothing is given up before delivery.timeout.ms, nor long after the world is well again.

A batch is as old as its first record. Which records those are the requests tell that carried it, also those that it was
split from. Of what never left nobody knows for sure: whoever was ended in its send(), or a row, may have begun it.

Source:  ours.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from pyproducer.accumulator.transaction_manager import ID_EXPIRATION_MS, SILENCE_LIMIT_MS
from pyproducer.common.errors import UNKNOWN, ApiError, IllegalStateError, KafkaError, KafkaTimeoutError
from pyproducer.sender.freeze import longest_pause_ms
from tests.simulation.faults import Faults, Freeze
from tests.simulation.ledger import Ledger
from tests.simulation.plan import Parameters
from tests.simulation.workload import Sent, Workload

# Of a world that is well again: requests that nobody answers time out, and names and nodes are tried again.
_LONGEST_CURE_MS = 30_000
# Beside close() threads are held up as much as they can be, which a request is not to be too short for.
LATE_CALLER, _CROWDED_MS = -5, 1000
_TOO_LARGE = 10
_MEMORY_MS = ID_EXPIRATION_MS - SILENCE_LIMIT_MS


class Patience:
    """Looks when records were given up.

    Args:
        workload: What was sent, and told.
        parameters: What was drawn.
        faults: What went wrong.
        ledger: What was sent together.
        checks: Is told how many records each check judged.
    """

    def __init__(self, workload: Workload, parameters: Parameters, faults: Faults, ledger: Ledger,
                 checks: Counter[str]) -> None:
        self._workload = workload
        self._records = workload.records
        self._props = parameters.props
        self._given_up = workload.given_up
        self._faults = faults
        self._ledger = ledger
        self._checks = checks
        self._wrong: list[str] = []

    def check(self) -> list[str]:
        """Return what is wrong."""
        if self._props["acks"] != "0" and "retries" not in self._props:
            self._check_patience()
        if self._props["delivery.timeout.ms"] >= 2 * self._props["request.timeout.ms"]:  # else one try is all
            self._check_liveness()
        return self._wrong

    def _check_liveness(self) -> None:
        """Nothing expires for ever; but where delivery.timeout.ms is short and the way is narrow, a queue may be slow.

        It moves while brokers store something, or refuse what is too large and has to be split, or to fail.
        """
        healed_ms = self._faults.healed_ms
        if healed_ms is None:
            return
        moves = [(handed.read_ms, taken.topic, taken.partition) for handed in self._ledger.handed if handed.read_number
                 for taken in handed.taken if taken.code in (0, _TOO_LARGE)]
        for record in self._records:
            if record.told_ms <= healed_ms or (
                    record.caller == LATE_CALLER and self._props["request.timeout.ms"] < _CROWDED_MS):
                continue
            self._checks["liveness"] += 1
            error = record.told_error
            if (isinstance(error, KafkaTimeoutError) and error.phase == "delivery"
                    and record.told_ms > healed_ms + _LONGEST_CURE_MS
                    and not any(record.sent_ms < moved_ms <= record.told_ms and _is_beside(topic, partition, record)
                                for moved_ms, topic, partition in moves)):
                self._wrong.append(f"{record} expired {record.told_ms - healed_ms} ms after all was well again: "
                                   f"{error!r}")

    def _check_patience(self) -> None:
        sent_ms = {record.value: record.sent_ms for record in self._records}
        began_ms: dict[int, int] = {}
        for record in self._records:
            if record.future is not None and record.row is None:
                key = id(record.future._result)
                began_ms[key] = min(began_ms.get(key, record.sent_ms), record.sent_ms)
        mates = self._ledger.mates
        for record in self._records:
            error = record.told_error
            if record.row is not None or record.value in self._given_up or not _is_given_up(error) or (
                    error.outcome == UNKNOWN and (self._faults.clock.slept_ms >= _MEMORY_MS
                                                  or self._was_made_anew(record))):
                continue  # in doubt, and sent first before a sleep for which brokers remember nobody, or to another log
            # An exception may have struck send() behind the record's acceptance: then nobody has its future.
            since_ms = record.sent_ms if record.future is None else began_ms[id(record.future._result)]
            if record.value in mates:
                since_ms = min(since_ms, *(sent_ms[mate] for batch in mates[record.value] for mate in batch))
            else:
                since_ms = min([since_ms, *(other.sent_ms for other in self._records if self._may_be_first(
                    other, record))])
            took_ms = record.told_ms - since_ms
            took_ms -= sum(freeze.ms for freeze in self._faults.felt
                           if since_ms < freeze.at_ms and freeze.at_ms + freeze.ms <= record.told_ms
                           and self._moves_deadlines(freeze, record))
            self._checks["patience"] += 1
            if took_ms < self._props["delivery.timeout.ms"]:
                self._wrong.append(f"{record} failed after {took_ms} ms, before delivery.timeout.ms was over: "
                                   f"{error!r}")

    def _was_made_anew(self, record: Sent) -> bool:
        """Whether the topic of a record was another one when it was sent: what is in doubt there may not go on."""
        return any(topic == record.topic and record.sent_ms <= at_ms <= record.told_ms
                   for topic, at_ms in self._faults.recreated)

    def _moves_deadlines(self, freeze: Freeze, record: Sent) -> bool:
        """Whether the deadline of a record must have moved by a freeze.

        Another producer than the one in whose sleep it came may have been in a turn, which is none.
        """
        producer = self._workload.producer_of(record.caller)
        return (freeze.ms > longest_pause_ms(self._props["request.timeout.ms"])
                and freeze.sleeper.producer is getattr(producer, "_producer", producer))

    def _may_be_first(self, other: Sent, record: Sent) -> bool:
        """Whether a record of which nobody knows may have begun the batch of one that never left."""
        return ((other.row is not None or other.is_cut_off) and other.topic == record.topic
                and other.sent_ms <= record.sent_ms and other.value not in self._ledger.mates)


def _is_given_up(error: Any) -> bool:
    """Whether a record failed of something that a retry may heal."""
    if not isinstance(error, KafkaError) or isinstance(error, IllegalStateError):
        return False
    if isinstance(error, KafkaTimeoutError):
        return error.phase == "delivery"
    # 45, and 59: where the broker's numbers say that no retry by these numbers heals it.
    # METADATA: brokers have said for long enough that there is no such topic.
    return error.retriable and not (isinstance(error, ApiError) and (error.code in (45, 59) or error.api == "METADATA"))


def _is_beside(topic: str, partition: int, record: Sent) -> bool:
    """Whether what was answered may have been in the same queue as a record."""
    if record.row is not None or record.future is None:
        return topic == record.topic
    return bool(record.future._result.topic_partition == (topic, partition))
