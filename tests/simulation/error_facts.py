"""What an error says of its record beside the outcome, compared with what happened to that record.

    codes         the API and the node that answered are named, and they did; what the broker said is in the text
    attempts      the error of an attempt, alone or as the cause of an expiry: the connection ended, an answer was late,
                  a code was answered
    expiry        its text has the partition, how many records the batch had, how long it is ago that they were sent and
                  what the limit is; and it was tried where it says so
    limits        who waited for a topic did so for max.block.ms

Source:  ours.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from typing import Any

from pyproducer.common.errors import NOT_SENT, ApiError, DisconnectedError, KafkaError, KafkaTimeoutError
from pyproducer.protocol.apis import ApiKeys
from tests.simulation.broker_faults import BLAME
from tests.simulation.ledger import Ledger, identities
from tests.simulation.model_broker import ModelCluster
from tests.simulation.model_transactions import APIS as COORDINATORS
from tests.simulation.plan import Parameters
from tests.simulation.workload import IN_LOOP, OF_A_TRANSACTION, Sent, Workload, error_of, is_acknowledged

_EXPIRED = re.compile(r"(\d+) record\(s\) for (\S+) expired (.*?): (\d+) ms passed .* delivery\.timeout\.ms is (\d+)")
_ATTEMPTS = re.compile(r"after (\d+) failed attempts")
_NODE = re.compile(r"[Nn]ode (-?\d+)\b")
_OF_ALL = {"METADATA": ApiKeys.METADATA, "InitProducerId": ApiKeys.INIT_PRODUCER_ID,
           **{api_key.title: api_key for api_key in COORDINATORS}}
_TICKS_MS = 500
_TOO_LARGE = 10


class ErrorFacts:
    """Looks at the errors that records failed with.

    Args:
        workload: What was told.
        parameters: What was drawn.
        ledger: What was sent, and answered.
        cluster: Who answered what.
        checks: Is told how many errors each check judged.
    """

    def __init__(self, workload: Workload, parameters: Parameters, ledger: Ledger, cluster: ModelCluster,
                 checks: Counter[str]) -> None:
        self._records = workload.records
        self._props = parameters.props
        self._ledger = ledger
        self._cluster = cluster
        self._checks = checks
        self._wrong: list[str] = []
        self._has_shrunk = any(workload._faults.fired[kind]
                               for kind in ("shrinking_metadata", "sparse_metadata", "stale_metadata",
                                            "add_partitions"))  # of which not all brokers know at once
        self._has_frozen = workload._faults.fired["freeze"] > 0
        self._sent_ms = {record.value: record.sent_ms for record in workload.records}
        self._first_ms = min(self._sent_ms.values(), default=0)
        # By record: whom it was handed to, the codes with their nodes, how its connections ended, how often it was
        # handed over.
        self._nodes: defaultdict[bytes, set[int]] = defaultdict(set)
        self._codes: defaultdict[bytes, set[tuple[int, int]]] = defaultdict(set)
        self._ends: defaultdict[bytes, set[str]] = defaultdict(set)
        self._attempts: Counter[bytes] = Counter()
        for handed in ledger.handed:
            for batch in ledger.batches_of(handed):
                for record in identities(batch):
                    self._nodes[record].add(handed.node_id)
                    self._attempts[record] += 1
                    self._ends[record].update(handed.ends)
                    if not handed.is_whole:
                        self._ends[record].update(f"{end}, not written" for end in handed.ends)
            for batch, code in [*((taken.batch, taken.code or 0) for taken in handed.taken), *handed.strangers]:
                for record in identities(batch):
                    self._codes[record].add((code, handed.node_id))

        for handed in ledger.unheard:
            for batch in ledger.batches_of(handed):
                for record in identities(batch):
                    self._ends[record].add("closed")

    def check(self) -> list[str]:
        """Return what is wrong."""
        for record in self._records:
            future = record.future
            if future is None or record.is_cut_off or not future.done() or is_acknowledged(record):
                continue
            self._check(record, error_of(record))
        return self._wrong

    def _check(self, record: Sent, error: Any) -> None:
        is_own_answer = isinstance(error, ApiError) and error.api == "Produce" and error.__cause__ is None
        if isinstance(error, OF_A_TRANSACTION) and not is_own_answer:  # another request, or record, is to blame
            if not isinstance(error.__cause__, KafkaError):
                self._complain(record, error, f"its cause is {error.__cause__!r}")
            return
        if isinstance(error, ApiError):
            self._check_code(record, error)
        elif isinstance(error, KafkaTimeoutError):
            if error.phase == "delivery":
                self._check_expiry(record, error)
            elif error.phase == "metadata":
                self._check_metadata(record, error)
        if isinstance(error, (ApiError, KafkaTimeoutError, DisconnectedError)):
            self._check_attempt(record, error)
            if isinstance(error, KafkaTimeoutError) and error.__cause__ is not None:
                self._check_attempt(record, error.__cause__)

    def _complain(self, record: Sent, error: Any, why: str) -> None:
        if len(self._wrong) < 20:
            self._wrong.append(f"{record} failed with {error!r}, and {why}")

    def _own(self, record: Sent) -> set[bytes]:
        """A record and all that were in a batch with it; what decides the whole decides its parts."""
        return {record.value}.union(*self._ledger.mates.get(record.value, ()))

    def _check_code(self, record: Sent, error: ApiError) -> None:
        self._checks["codes"] += 1
        if error.api == "Produce":
            answered = {pair for mate in self._own(record) for pair in self._codes[mate]}
            if (error.code, error.node_id) not in answered:
                self._complain(record, error, f"its code {error.code} of node {error.node_id} is none of {answered}")
            self._check_blame(record, error)
        elif error.api in _OF_ALL:
            key = _OF_ALL[error.api]
            answered_by = {node for node, api, code in self._cluster.refused_by if (api, code) == (key, error.code)}
            if key is ApiKeys.METADATA and self._has_shrunk and "has no partition" in str(error):
                return  # no code said so: an answer had fewer
            # One of bootstrap.servers, which are in order of the nodes, is told by its place.
            node_id = error.node_id if error.node_id is None or error.node_id >= 0 else -1 - error.node_id
            if not answered_by or (key is not ApiKeys.METADATA and node_id not in answered_by):
                self._complain(record, error, f"its code {error.code} of node {error.node_id} was answered by "
                                              f"{answered_by}")
        else:
            self._complain(record, error, f"of no API, {error.api!r}, it can be")

    def _check_blame(self, record: Sent, error: ApiError) -> None:
        """The record that a broker blamed is told its words, and so are the others of its batch, as another one's."""
        code, said = self._ledger.blamed.get(record.value, (0, None))
        if code != error.code:
            return
        self._checks["blame"] += 1
        is_another = "because of another record" in str(error)
        if BLAME not in str(error) or not (said is None) == is_another == isinstance(error.__cause__, ApiError):
            self._complain(record, error, f"its cause is {error.__cause__!r}; the broker said {said!r} of it")

    def _check_attempt(self, record: Sent, error: Any) -> None:
        """Whether an attempt ended like that."""
        if isinstance(error, ApiError):
            if error.api == "Produce" and record.topic not in str(error) and record.value not in self._ledger.blamed:
                self._complain(record, error, "it does not name the topic")
            return
        ends = {end for mate in self._own(record) for end in self._ends[mate]}
        if isinstance(error, DisconnectedError):
            wanted: set[str] = {"ended", "closed"}
        elif isinstance(error, KafkaTimeoutError) and error.phase == "request":
            wanted = {"late"}
            if self._has_frozen:  # within a turn, its time was over before anything was written
                wanted.add("closed")
        else:
            return
        self._checks["attempts"] += 1
        if error.outcome == NOT_SENT and not ends & {f"{end}, not written" for end in wanted}:
            self._complain(record, error, f"{error!r} says that it was not sent; its requests were {ends}")
        if not ends & wanted:
            self._complain(record, error, f"the connections of its requests were {ends}")
            return
        found = _NODE.search(str(error))
        nodes = {node for mate in self._own(record) for node in self._nodes[mate]}
        if found is not None and int(found[1]) not in nodes:
            self._complain(record, error, f"its requests went to the nodes {nodes}")

    def _check_expiry(self, record: Sent, error: KafkaTimeoutError) -> None:
        found = _EXPIRED.match(str(error))
        if found is None:
            return  # no broker would know it again: that has words of its own
        self._checks["expiry"] += 1
        count, place, tried, passed_ms, limit_ms = found.groups()
        batches = self._ledger.mates.get(record.value, [])
        sizes = {len(batch) for batch in batches}
        is_split = any(code == _TOO_LARGE for code, _ in self._codes[record.value])  # and a part may never have left
        is_of_it = int(count) in sizes or not batches or (is_split and int(count) < max(sizes))
        if place.rsplit("-", 1)[0] != record.topic or not is_of_it:
            self._complain(record, error, f"its batches for {record.topic} were of {sizes}")
        if int(limit_ms) != self._props["delivery.timeout.ms"] or int(passed_ms) < int(limit_ms):
            self._complain(record, error, f"delivery.timeout.ms is {self._props['delivery.timeout.ms']}")
        since_ms = min((self._sent_ms[mate] for batch in batches for mate in batch), default=self._first_ms)
        if record.told_ms >= 0 and int(passed_ms) > record.told_ms - since_ms + _TICKS_MS:
            self._complain(record, error, "it was not sent so long ago")
        attempts = _ATTEMPTS.match(tried)
        is_before = "before it could be sent" in tried and bool(batches) and not is_split
        if is_before or (attempts is not None and len(batches) < int(attempts[1])):
            self._complain(record, error, f"it was handed over {len(batches)} times")

    def _check_metadata(self, record: Sent, error: KafkaTimeoutError) -> None:
        self._checks["limits"] += 1
        if record.topic not in str(error):
            self._complain(record, error, "it does not name the topic")
        if record.told_ms < 0 or record.caller >= IN_LOOP:
            return
        longest_ms = min(self._props["max.block.ms"], self._props["delivery.timeout.ms"])
        if record.told_ms - record.sent_ms < longest_ms:
            self._complain(record, error, f"it was told after {record.told_ms - record.sent_ms} ms; max.block.ms is "
                                          f"{self._props['max.block.ms']}")

