"""What all metrics of all producers come to at the end, and what the log said of records in all, against what happened.

    record-send-total                 the records that were stored
    record-error-total                those that failed, and at most those that were refused by an exception, too
    record-unretrieved-error-total    not more than nobody looked at, and what the log says
    record-retry-total                at least what was handed over again, at most what was handed over
    batch-split-total                 the batches that brokers refused as too large, and the lines in the log
    produce-request-total, batch-total, batch-bytes-total    what connections were handed
    produce-ended-total.node-N        requests whose end was an answer, or that none came in time; their latency
    failures in the log               those that failed after they were taken, by topic and outcome

Of who was struck in his send() nobody knows whether his record was taken: so much all may differ.

Source:  ours; the names are Java's.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from pyproducer import BufferExhaustedError, ProducerClosedError, ProducerDeadError, TransactionAbortedError
from pyproducer.common.errors import NOT_SENT, ApiError
from pyproducer.common.printable import printable
from pyproducer.sender.freeze import longest_pause_ms
from tests.simulation.application import SimulatedFailure
from tests.simulation.faults import Faults
from tests.simulation.ledger import Handed, Ledger, identities
from tests.simulation.log_watch import LONGEST_TEXT, LogWatch
from tests.simulation.manners import LATE_MS
from tests.simulation.plan import Parameters
from tests.simulation.workload import (
    ENDED_OF_NODE,
    IN_LOOP,
    TIME_OF_NODE,
    Sent,
    Workload,
    error_of,
    is_acknowledged,
)

_TOO_LARGE = 10


class Totals:
    """Adds up what happened.

    Args:
        workload: What was told.
        parameters: What was drawn.
        ledger: What was sent, and answered.
        faults: What went wrong.
        watch: What was logged.
        metrics: All producers' together.
        checks: Is told how much was compared.
    """

    def __init__(self, workload: Workload, parameters: Parameters, ledger: Ledger, faults: Faults, watch: LogWatch,
                 metrics: Mapping[str, float], checks: Counter[str]) -> None:
        self._parameters = parameters
        self._ledger = ledger
        self._faults = faults
        self._watch = watch
        self._metrics = metrics
        self._checks = checks
        self._wrong: list[str] = []
        self._unsure = sum(record.is_cut_off for record in workload.records)
        self._waited_ms, self._sending_ms = workload.waited_ms, workload.sending_ms
        self._refused = sum(record.refused is not None for record in workload.records)
        self._withdrawn = sum(record.is_withdrawn for record in workload.records)
        self._told: set[bytes] = set()  # as stored
        self._stored = 0
        self._failed: list[tuple[Sent, Any]] = []
        for record in workload.records:
            if record.future is None or record.is_cut_off:
                continue
            if is_acknowledged(record):
                self._stored += 1
                self._told.add(record.value)
            elif not record.is_withdrawn:
                self._failed.append((record, error_of(record)))

    def check(self) -> list[str]:
        """Return what is wrong."""
        # In an event loop nobody can say from outside whether a record had failed before it was taken.
        sure = [(record, error) for record, error in self._failed if not record.is_at_once and record.caller < IN_LOOP]
        self._check("record-send-total", self._stored, self._stored)
        # Of those that were refused at once some came when the numbers had been read.
        self._check("record-error-total", len(sure), len(self._failed) + self._refused + self._withdrawn)
        self._check_requests()
        self._check_retries()
        self._check_failed_lines(sure)
        self._check_unseen()
        self._check_ends()
        if "asyncio" not in self._parameters.powers:  # whose tasks wait without a call that takes so long
            waited_ms = self._metrics.get("bufferpool-wait-time-ns-total", 0) / 1e6
            # Of who is between two looks at the clock.
            most_ms = 1.1 * self._sending_ms + LATE_MS
            self._check("bufferpool-wait-time-ns-total", self._waited_ms, most_ms, waited_ms)
        return self._wrong

    def _check(self, name: str, least: float, most: float, value: float | None = None) -> None:
        value = self._metrics.get(name, 0) if value is None else value
        self._checks["totals"] += 1
        if not least <= value <= most + self._unsure:
            self._wrong.append(f"{name} is {value}; by what happened {least} to {most}, and {self._unsure} unsure")

    def _check_requests(self) -> None:
        handed = self._ledger.handed
        batches = [batch for one in handed for batch in self._ledger.batches_of(one)]
        unencodable = self._faults.fired["unencodable"]
        for name, count in (("produce-request-total", len(handed) + unencodable), ("batch-total", len(batches)),
                            ("batch-bytes-total", sum(len(batch.data) for batch in batches))):
            value = self._metrics.get(name, 0)
            self._checks["totals"] += 1
            if value != count and not (unencodable and name != "produce-request-total"):
                self._wrong.append(f"{name} is {value}, and connections were handed {count}")
        props = self._parameters.props
        for name, value in self._metrics.items():
            if not name.startswith(ENDED_OF_NODE):
                continue
            node_id = int(name.removeprefix(ENDED_OF_NODE))
            own = [one for one in handed if one.node_id == node_id]
            # Of an answer that makes no sense only a part may have been read; a torn turn loses what it has read, and
            # that all on a connection was late. What was handed over when the process stood still is late at once.
            ended = sum(bool(one.read_number) or "late" in one.ends for one in own) + (
                self._faults.fired["garble"] + len(self._faults.freezes)
                + self._faults.tear_count * props["max.in.flight.requests.per.connection"])
            latency_ms = self._metrics[f"{TIME_OF_NODE}{node_id}"]
            self._checks["latency"] += 1
            if value > (ended if props["acks"] != "0" else len(own)) or (
                    latency_ms > value * (props["request.timeout.ms"] + LATE_MS + self._faults.frozen_ms)):
                self._wrong.append(f"{name} is {value} with {latency_ms} ms in all, and {ended} requests to it were "
                                   f"answered, or awaited in vain")

    def _check_retries(self) -> None:
        handed: Counter[tuple[bytes, int, bytes]] = Counter()
        for one in self._ledger.handed:
            for batch in self._ledger.batches_of(one):
                handed[self._ledger.first_of(batch), batch.count, b""] += 1
        again = sum((count - 1) * key[1] for key, count in handed.items())
        self._check("record-retry-total", again, sum(count * key[1] for key, count in handed.items()))
        refused = [taken for one in self._ledger.handed if one.read_number for taken in one.taken
                   if taken.code == _TOO_LARGE and taken.batch.count > 1]
        splits, garbled = self._watch.counts["splits"], self._faults.fired["garble"]  # to "too large", perhaps
        if self._metrics.get("batch-split-total", 0) != splits or splits > len(refused) + garbled:
            self._wrong.append(f"batch-split-total is {self._metrics.get('batch-split-total', 0)}, the log tells of "
                               f"{splits}, and {len(refused)} were refused as too large")
        places = Counter((f"{taken.topic}-{taken.partition}", taken.batch.count) for taken in refused)
        if (self._watch.splits - places).total() > garbled:
            self._wrong.append(f"the log tells of splits that were none: {self._watch.splits - places}")

    def _check_failed_lines(self, sure: list[tuple[Sent, Any]]) -> None:
        watch = self._watch
        left_out = watch.counts["failed left out"]
        sure = [pair for pair in sure if not _is_given_up(pair[1])]
        taken = [(record, error) for record, error in self._failed
                 if not _is_refused(record, error) and not _is_given_up(error)]
        self._check("the log's failures", len(sure), len(taken), watch.failed.total() + left_out)
        if not self._unsure:
            most = Counter((record.topic, _outcome(error)) for record, error in taken)
            least = Counter((record.topic, _outcome(error)) for record, error in sure)
            self._checks["lines of failures"] += len(watch.failed)
            if watch.failed - most or (not left_out and least - watch.failed):
                self._wrong.append(f"the log tells of failures {watch.failed}, and there were {most}")
        texts = {(printable(str(error))[:LONGEST_TEXT], _outcome(error)) for _, error in self._failed}
        strange = {text for text in watch.failed_texts if text not in texts and not any(
            text[0].endswith(other[0]) for other in texts)}
        if strange and not self._unsure:
            self._wrong.append(f"the log tells of errors that no record has: {strange}")

    def check_gone(self, gone: list[Handed], perhaps_gone: list[Handed]) -> None:
        """Compare what is told of records with acks=0 that may be gone with those whose connection had ended."""
        told = self._metrics.get("record-unconfirmed-total", 0)
        records, most = ([record for handed in those for _, _, batch in handed.contents()
                          for record in identities(batch)] for those in (gone, perhaps_gone))
        # A turn that was torn behind the write knows nothing of it: that request is written again, and is not gone yet.
        written = Counter(record for one in self._ledger.handed if one.is_whole
                          for _, _, batch in one.contents() for record in identities(batch))
        least = sum(max(count - written[record] + 1, 0) for record, count in Counter(records).items()
                    if record in self._told)
        self._check("record-unconfirmed-total", least, len(most), told)
        if self._is_told_wrong(self._watch.counts["may be gone"], told):
            self._wrong.append(f"record-unconfirmed-total is {told}, and the log tells of "
                               f"{self._watch.counts['may be gone']}")

    def _is_told_wrong(self, told: int, happened: float) -> bool:
        """Whether the log does not tell of all; who is struck between the two may have counted, and not told."""
        return told > happened or (told < happened and not self._faults.fired["strike"])

    def _check_unseen(self) -> None:
        watch = self._watch
        value = self._metrics.get("record-unretrieved-error-total", 0)
        told = watch.unseen.total() + watch.counts["unseen left out"]
        unseen = [record for record, _ in self._failed if not record.is_seen]
        self._checks["unseen"] += len(unseen)
        if value != told:
            self._wrong.append(f"record-unretrieved-error-total is {value}, and the log tells of {told}")
        # Of what is refused behind the end nobody counts any more.
        least = sum(not record.may_be_seen and not record.is_at_once for record, error in self._failed
                    if not record.is_seen and not _is_given_up(error))
        # Who is struck by an exception while he looks may have seen what the producer does not know of.
        most = len(self._failed) if self._faults.fired["strike"] else len(unseen)
        self._check("record-unretrieved-error-total", least, most)

    def _check_ends(self) -> None:
        watch = self._watch
        given_up = sum(isinstance(error, ProducerClosedError) for _, error in self._failed)
        self._check("close() gave up on", 0, given_up, watch.counts["given up"])
        codecs = self._faults.failed_codecs
        if self._is_told_wrong(watch.counts["uncompressed"], codecs):
            self._wrong.append(f"{codecs} batches could not be compressed, and the log tells of "
                               f"{watch.counts['uncompressed']}")
        if watch.counts["may be gone"] and self._parameters.props["acks"] != "0":
            self._wrong.append("the log says that records sent with acks=0 may be gone, and acks is not 0")
        self._check("the log's records that were not delivered", 0, len(self._failed) + self._refused,
                    watch.counts["not delivered"])
        if watch.counts["delivered"] > self._stored + self._unsure:
            self._wrong.append(f"the log says that {watch.counts['delivered']} were delivered, and {self._stored} were")
        if watch.counts["unencodable"] != self._faults.fired["unencodable"]:
            self._wrong.append(f"{self._faults.fired['unencodable']} requests could not be encoded, and the log tells "
                               f"of {watch.counts['unencodable']}")
        shortest_ms = longest_pause_ms(self._parameters.props["request.timeout.ms"])
        felt = sum(freeze.ms > shortest_ms for freeze in self._faults.felt)
        if watch.counts["pauses"] < felt:
            self._wrong.append(f"the process stood still {felt} times, and the log tells of {watch.counts['pauses']}")
        if watch.counts["deaths"] and not self._faults.ends_turns:
            self._wrong.append("the log says that a producer cannot go on, and nothing forced it to")
        if (watch.counts["torn turns"] or watch.counts["errors"]) and not (
                self._faults.may_tear or self._faults.ends_turns):
            self._wrong.append("the log says that a turn ended half way, and nothing came from outside")
        if watch.counts["not asked for"] > self._faults.fired["extra_partition"]:
            self._wrong.append(f"{watch.counts['not asked for']} answers were not asked for, the log says")
        if not self._faults.ends_turns and any(isinstance(error, ProducerDeadError) for _, error in self._failed):
            self._wrong.append("records failed because their producer was dead, and it was not")


def _is_refused(record: Sent, error: Any) -> bool:
    """Whether a record failed before it was taken, which its caller is told by what the call returned."""
    is_own = isinstance(error, (BufferExhaustedError, SimulatedFailure)) or (
        isinstance(error, ApiError) and error.api is None)
    return record.is_at_once and is_own


def _is_given_up(error: Any) -> bool:
    """Whether a record was given up with its transaction, which its application aborts, and so is told."""
    return isinstance(error, TransactionAbortedError)


def _outcome(error: Any) -> str:
    return str(getattr(error, "outcome", NOT_SENT))
