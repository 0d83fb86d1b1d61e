"""A thread of the application that has a transactional producer: what it does, and what must come of it.

    committed     commit_transaction() returned: all of it is there for whoever reads what is committed, offsets too
    aborted       abort_transaction() returned, or it was never asked to be committed: nothing of it is there
    unknown       the producer failed for good in its commit_transaction(): all of it, or nothing

A call that timed out is called again, until it returns: in a world that is well again it does. A producer that can only
be closed is closed, and another one with the same transactional id takes its place; that may be only where somebody
else was given its epoch, or its transaction took longer than transaction.timeout.ms.

Source:  ours; KIP-98, KIP-447 and KIP-890 say what is promised.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pyproducer import (
    AbortableTransactionError,
    ApiError,
    AuthenticationError,
    ConsumerGroupMetadata,
    DeliveryFailedError,
    FatalProducerError,
    IllegalStateError,
    KafkaError,
    KafkaTimeoutError,
    OffsetAndMetadata,
    PreparedTransaction,
    TopicPartition,
    TransactionCompleter,
    TransactionOutcome,
)
from pyproducer.common.errors import UNKNOWN
from pyproducer.protocol.apis import ApiKeys
from tests.simulation.finale_of_transactions import FinaleOfTransactions
from tests.simulation.manners import LATE_MS
from tests.simulation.model_broker import ModelCluster
from tests.simulation.model_transactions import APIS, Status
from tests.simulation.opening_of_transactions import Fill, OpeningOfTransactions
from tests.simulation.powers import OPENINGS_OF_TRANSACTIONS
from tests.simulation.schedule import SimThread
from tests.simulation.workload import IN_TRANSACTION, FromOutside, Sent, Workload, error_of, is_acknowledged

TRANSACTIONAL_ID = "till-7"
LONGEST_REQUEST_BYTES = 20_000  # max.request.size
_MOST_LIVES = 4
_TRANSACTIONS = (3, 5, 8)
_PREPARED, _COMPLETED_ELSEWHERE = 0.25, 0.17
_GROUPS = ("ledger", "audit")
_INPUT = "orders"  # whose offsets are committed; no topic of the cluster's


# What a leader says of a record so that no transaction of its producer can succeed any more.
_PRODUCER_FENCED = 90
_FATAL_CODES = (31, 49, 53, _PRODUCER_FENCED)
_FENCINGS = (47, 48, _PRODUCER_FENCED)
# What a coordinator says that has not the time just now, or has not heard of a partition yet.
_PASSING = (3, 7, 14, 15, 16, 51, 55)
_ID_NOT_ALLOWED = 53
_TITLES = [api_key.title for api_key in (*APIS, ApiKeys.INIT_PRODUCER_ID)]


class Given(BaseException):
    """The producer can only be closed."""


@dataclass
class Told:
    """One transaction, as its thread knows it.

    Attributes:
        number: Which.
        records: That were taken.
        offsets: What is to be committed for certain: by group, topic and partition, the last one.
        asked: All that was asked to be.
        end: How it ended, see above.
        was_interrupted: Whether something from outside ended a call in it.
    """

    number: int
    records: list[Sent] = field(default_factory=list)
    offsets: dict[tuple[str, str, int], int] = field(default_factory=dict)
    asked: list[tuple[tuple[str, str, int], int]] = field(default_factory=list)
    end: str = "aborted"
    was_interrupted: bool = False


def _was_fenced(told: Told) -> bool:
    """Whether a record of a transaction was told that its producer can only be closed."""
    errors = (error_of(record) for record in told.records
              if record.row is None and record.future is not None and record.future.done()
              and not is_acknowledged(record))
    return any(isinstance(error, FatalProducerError) and error.code == _PRODUCER_FENCED for error in errors)


class TransactionalCaller:
    """The thread.

    Args:
        workload: Notes what is sent.
        cluster: Whose coordinators.
        chance: Its own.
        make: Makes a producer, which is one of the workload's then.
        close: Closes one.
        make_completer: Makes what ends a prepared transaction in another process; None where there is none.
        lines: Counts what the log said.

    Attributes:
        complaints: What must not be.
        transactions: All there were.
        lives: How many producers there were before this one.
        judged: Counts what was looked at.
    """

    transactional_id = TRANSACTIONAL_ID

    def __init__(self, workload: Workload, cluster: ModelCluster, chance: random.Random, make: Callable[[], Any],
                 close: Callable[[Any], Any], make_completer: Callable[[], TransactionCompleter] | None,
                 lines: Counter[str]) -> None:
        self.complaints: list[str] = []
        self.transactions: list[Told] = []
        self._workload = workload
        self._cluster = cluster
        self._chance = chance
        self._make = make
        self._close = close
        self.make_completer = make_completer
        self.lives = 0
        self._failed_lives = 0
        self._order = 0
        self._offset = 0
        self._is_initialized = False
        self.producer: Any = make()
        name = workload._parameters.opening
        self._opening = None if name not in OPENINGS_OF_TRANSACTIONS else OpeningOfTransactions(
            name, self, workload._faults)
        self.judged: Counter[str] = workload.judged
        self._finale = FinaleOfTransactions(self, cluster, workload._faults, lines)

    @property
    def _max_block_ms(self) -> int:
        return int(self._workload._parameters.props["max.block.ms"])

    # -- the thread

    def run(self) -> None:
        """Do some transactions."""
        if self._opening is not None and not self._opening.play():
            return
        for _ in range(self._chance.choice(_TRANSACTIONS)):
            if self._workload.is_closing or not self.one(self._chance):
                return
            self._sleep()

    def one_of(self, fill: Fill) -> bool:
        """Do one transaction of what somebody else sends, and commit it; return whether another one may follow."""
        return self.one(random.Random(7), fill)

    def one(self, chance: random.Random, fill: Fill | None = None) -> bool:
        """Do one transaction; return whether another one may follow."""
        told = Told(len(self.transactions) + 1)
        try:
            if not self._is_initialized or chance.random() < 0.15:
                self.call("init_transactions", lambda: self.producer.init_transactions(), told)
                self._is_initialized = True
            self.call("begin_transaction", lambda: self.producer.begin_transaction(), told)
            self.transactions.append(told)
            self._fill_and_end(told, chance, fill)
        except Given:
            return self._live_again()
        finally:
            if told.end != "committed":
                self.give_up(told)
        return True

    def give_up(self, told: Told) -> None:
        """Note that no record of a transaction is tried again: it is not to be committed."""
        self._workload.given_up.update(record.value for record in told.records)

    def last(self) -> bool:
        """In a world that is well again a transaction is committed, by this producer or by the next one."""
        calm = random.Random(7)
        for _ in range(4):  # in the first ones records may expire while connections are made
            before = len(self.transactions)
            self.one(calm)
            if len(self.transactions) > before and self.transactions[-1].end == "committed":
                if self._opening is not None:
                    self._opening.play_last()
                self._finale.play()
                return True
        return False

    def _fill_and_end(self, told: Told, chance: random.Random, fill: Fill | None) -> None:
        try:
            if fill is None:
                self._fill(told, chance)
            else:
                fill(told)
            way = chance.random()
            if way < _PREPARED:
                prepared = self.call("prepare_transaction", lambda: self.producer.prepare_transaction(), told)
                if (prepared is not None and self.make_completer is not None and way < _COMPLETED_ELSEWHERE
                        and chance is self._chance):
                    self._complete_elsewhere(told, prepared, chance)
                    return
            if way < 0.75 or chance is not self._chance:
                told.end = "unknown"
                self.call("commit_transaction", lambda: self.producer.commit_transaction(), told)
                told.end = "committed"
                return
        except AbortableTransactionError as error:
            self._look_at(error, told)
            told.end = "aborted"
        self.call("abort_transaction", lambda: self.producer.abort_transaction(), told)
        for record in told.records:
            record.may_be_seen = True

    def _complete_elsewhere(self, told: Told, prepared: PreparedTransaction, chance: random.Random) -> None:
        """The producer ends here, and somebody else ends its transaction, who is told what became of it."""
        assert self.make_completer is not None
        told.end, faults = "unknown", self._workload._faults
        self._close(self.producer)
        is_commit, faults.is_completing = chance.random() < 0.7, True
        with self.make_completer() as completer:
            first = self._ask(completer.commit if is_commit else completer.abort, prepared)
            again = self._ask(completer.abort if is_commit else completer.commit, prepared)
        faults.is_completing = False
        self._workload.judged[f"completed elsewhere: {first.value}"] += 1
        # Since Transactions V2 a coordinator knows a finished one again only by what it was asked for before.
        is_anew = TRANSACTIONAL_ID in self._cluster.coordinators.late_adds
        if again not in (first, TransactionOutcome.UNDECIDABLE) and not prepared.is_empty and not is_anew:
            self.complaints.append(f"transaction {told.number} is {first.value}, and then {again.value}")
        if first is not TransactionOutcome.UNDECIDABLE:
            told.end = first.value
        self._next_life()
        for record in told.records:
            record.may_be_seen = True

    def _ask(self, call: Callable[[PreparedTransaction], TransactionOutcome],
             prepared: PreparedTransaction) -> TransactionOutcome:
        """Ask until there is an answer."""
        while True:
            try:
                return call(prepared)
            except (KafkaTimeoutError, FromOutside):
                self._sleep()
            except ApiError as error:
                if not self._was_refused(error.code):
                    raise
                self._sleep()

    def _fill(self, told: Told, chance: random.Random) -> None:
        operations = (self._burst, self._burst, self._send_batch, self._flush, self._offsets, self._wait, self._sleep,
                      self._send_too_large)
        for number in range(chance.choice((0, 1, 2, 4))):
            if not number:
                self._burst(told)
            operations[int(chance.random() * len(operations))](told)

    def _live_again(self) -> bool:
        """Close a producer that cannot go on, and have another one; whether there were not too many."""
        for told in self.transactions:
            for record in told.records:
                record.may_be_seen = True
        self._look_whether_it_stays_fatal()
        self._close(self.producer)
        self._next_life()
        self._failed_lives += 1
        return self._failed_lives <= _MOST_LIVES

    def _next_life(self) -> None:
        """Have another producer with the same transactional id."""
        self.lives += 1
        self.producer = self._make()
        self._is_initialized = False

    def _look_whether_it_stays_fatal(self) -> None:
        """What fails behind the end of a producer does not bring it back."""
        self._sleep()
        if self._workload.is_closing:
            return
        try:
            self.producer.abort_transaction()
        except FatalProducerError:
            self._workload.judged["stays fatal"] += 1
        except KafkaError as error:
            self.complaints.append(f"abort_transaction() of a producer that can only be closed raised {error!r}")
        except FromOutside:
            pass  # it was on its way
        else:
            self.complaints.append("abort_transaction() of a producer that can only be closed returned")

    # -- its calls

    def call(self, name: str, call: Callable[[], Any], told: Told) -> Any:
        """Call again what timed out, or was interrupted.

        Raises:
            AbortableTransactionError: The transaction can only be aborted.
            Given: The producer can only be closed.
        """
        workload, scheduler = self._workload, self._workload._scheduler
        while True:
            began_ms, frozen_ms = scheduler.now_ms, workload._faults.frozen_ms
            may_come = [True]
            if workload._faults.fires("interrupt"):
                self._plan_interrupt(may_come)
            was_fenced = _was_fenced(told)
            try:
                value = call()
                if was_fenced:
                    self.complaints.append(f"{name}() returned, and a record had been told that its producer is fenced")
                return value
            except KafkaTimeoutError as error:
                took_ms = scheduler.now_ms - began_ms
                if (error.phase, error.outcome) != ("transaction", UNKNOWN) or f"{name}()" not in str(error) or (
                        took_ms < self._max_block_ms or f"max.block.ms = {self._max_block_ms} ms" not in str(error)):
                    self.complaints.append(f"{name}() raised {error!r} after {took_ms} ms, phase {error.phase!r}, "
                                           f"outcome {error.outcome!r}; max.block.ms is {self._max_block_ms}")
                may_come.clear()
                self._call_another(name)
            except FromOutside:
                told.was_interrupted = True
            except IllegalStateError as error:
                # Who was interrupted when it had just returned is told that nothing is open any more.
                if not told.was_interrupted:
                    self.complaints.append(f"{name}() raised {error!r}, and it was its turn")
                return None
            except AbortableTransactionError:
                if name == "abort_transaction":
                    self.complaints.append("abort_transaction() says that it should be called")
                if was_fenced:
                    self.complaints.append(f"{name}() asks to abort, and a record had been told that its producer is "
                                           "fenced")
                raise
            except FatalProducerError as error:
                self._look_at_fatal(error)
                raise Given from error
            except AuthenticationError as error:
                may_come.clear()  # not where the watcher sleeps
                if name != "init_transactions" or not workload._faults.fired["refuse_login"]:
                    self.complaints.append(f"{name}() raised {error!r}")
                self._sleep()
            except KafkaError as error:
                is_refusal = (name == "init_transactions" and isinstance(error, ApiError)
                              and self._was_refused(error.code))
                if not is_refusal:
                    self.complaints.append(f"{name}() raised {error!r}")
                    raise Given from error
                may_come.clear()
                workload.judged["refused an id"] += 1
                self._sleep()  # and it may be called again
            finally:
                may_come.clear()
                took_ms = scheduler.now_ms - began_ms - (workload._faults.frozen_ms - frozen_ms)
                workload.judged["calls of transactions"] += 1
                if took_ms > self._max_block_ms + LATE_MS:
                    self.complaints.append(f"{name}() took {took_ms} ms, and max.block.ms is {self._max_block_ms}")

    def _call_another(self, name: str) -> None:
        """While nobody knows what becomes of a call, another one is refused, and changes nothing."""
        if name not in ("init_transactions", "commit_transaction", "abort_transaction"):
            return
        try:
            self.producer.begin_transaction()
        except IllegalStateError as error:
            self._workload.judged["another call"] += 1
            if f"{name}() was left before it had ended" not in str(error):
                self.complaints.append(f"begin_transaction() behind {name}(), which timed out, raised {error!r}")
        except (FatalProducerError, AbortableTransactionError):
            pass  # it has failed since
        except KafkaError as error:
            self.complaints.append(f"begin_transaction() behind {name}(), which timed out, raised {error!r}")
        else:
            self.complaints.append(f"begin_transaction() returned, and {name}() had timed out")

    def _plan_interrupt(self, may_come: list[bool]) -> None:
        scheduler = self._workload._scheduler
        thread = scheduler.current
        at_ms = scheduler.now_ms + int(self._chance.random() * 50)
        scheduler.at(at_ms, lambda: scheduler.interrupt(thread, FromOutside()) if may_come else None)

    def _look_at(self, error: AbortableTransactionError, told: Told) -> None:
        """It names the id, and what happened; the first record that failed is why, where one did."""
        self._workload.judged["abortable"] += 1
        if repr(TRANSACTIONAL_ID) not in str(error) or not isinstance(error.__cause__, KafkaError) or (
                str(error.__cause__).rstrip(".") not in str(error)):
            self.complaints.append(f"transaction {told.number} can only be aborted: {error!r}, because of "
                                   f"{error.__cause__!r}")
        self._look_at_hint(error)
        cause = error.__cause__
        if isinstance(cause, ApiError) and cause.code == _ID_NOT_ALLOWED and cause.api in _TITLES[1:]:  # not of a group
            self.complaints.append(f"transaction {told.number} can only be aborted because of {cause!r}, which ends "
                                   "the producer")
        if isinstance(cause, ApiError) and cause.code in _PASSING and cause.api in _TITLES:
            self.complaints.append(f"transaction {told.number} can only be aborted because of {cause!r}, which passes")

    def _look_at_fatal(self, error: FatalProducerError) -> None:
        self._workload.judged["fatal of transactions"] += 1
        is_told = self._was_refused(error.code) or (
            error.code in _FATAL_CODES and self._cluster.answered.get((ApiKeys.PRODUCE, error.code)))
        if not self._cluster.coordinators.fenced and not is_told:
            self.complaints.append(f"the transactional producer cannot go on: {error!r}, and nobody was fenced")
        if repr(TRANSACTIONAL_ID) not in str(error):
            self.complaints.append(f"{error!r} does not name the transactional id")
        self._look_at_hint(error)

    def _look_at_hint(self, error: AbortableTransactionError | FatalProducerError) -> None:
        """A refusal by epoch says what is behind it: another producer, or too long a transaction."""
        says_who, says_how_long = "Another producer was init" in str(error), "transaction.timeout.ms" in str(error)
        if error.code in _FENCINGS and not says_who and not says_how_long:
            self.complaints.append(f"{error!r} does not say how that comes about")

    def _was_refused(self, code: int) -> bool:
        """Whether a coordinator ever answered with a code."""
        return any(self._cluster.answered.get((api_key, code)) for api_key in (*APIS, ApiKeys.INIT_PRODUCER_ID))

    def _raise_if_refused(self, error: BaseException | None) -> None:
        if isinstance(error, AbortableTransactionError):
            raise error
        if isinstance(error, FatalProducerError):
            self._look_at_fatal(error)
            raise Given from error

    # -- what is in a transaction

    def _next(self, told: Told, padding: int | None = None) -> Sent:
        chance, workload = self._chance, self._workload
        topics = list(workload._parameters.topics)
        self._order += 1
        record = workload.new_record(IN_TRANSACTION + self.lives, self._order, topics[int(chance.random() * len(
            topics))], None, int(chance.random() * 60) if padding is None else padding)
        told.records.append(record)
        return record

    def _burst(self, told: Told) -> None:
        for _ in range(1 + int(self._chance.random() * 8)):
            record = self._next(told)
            key = b"%d" % int(self._chance.random() * 10) if self._chance.random() < 0.5 else None
            self._workload.send(record, key, None, self._chance.random() < self._workload._parameters.callback_rate)
            self._raise_if_refused(record.refused)

    def _send_too_large(self, told: Told) -> None:
        """Send what no request has room for: the transaction cannot be committed without it."""
        record = self._next(told, LONGEST_REQUEST_BYTES)
        self._workload.send(record, None, None, with_callback=True)
        self._raise_if_refused(record.refused)

    def _send_batch(self, told: Told) -> None:
        records = [self._next(told) for _ in range(1 + int(self._chance.random() * 12))]
        for record in records:
            record.topic = records[0].topic
        began_ms = self._workload._scheduler.now_ms
        try:
            future = self.producer.send_batch(topic=records[0].topic, values=[record.body for record in records])
        except KafkaError as error:
            for record in records:
                record.refused = error
            self._raise_if_refused(error)
            return
        finally:
            self._workload.sending_ms += self._workload._scheduler.now_ms - began_ms
        for row, record in enumerate(records):
            record.future, record.row = future, row
            record.is_at_once = row in future._metadata.errors

    def _flush(self, told: Told) -> None:
        try:
            self._workload.wait(self.producer.flush, None if self._chance.random() < 0.5 else self._chance.random() * 3,
                                "flush")
        except KafkaTimeoutError:
            pass
        except DeliveryFailedError as error:
            self._workload.look_at_failure(error, self.producer)
        except FatalProducerError as error:
            self._raise_if_refused(error)

    def _wait(self, told: Told) -> None:
        for record in told.records[-2:]:
            if record.future is not None:
                record.may_be_seen = True
                try:
                    self._workload.wait(record.future.exception, self._chance.random())
                    if record.row is None:
                        self._workload.see(record)
                except KafkaTimeoutError:
                    pass

    def _offsets(self, told: Told) -> None:
        self.commit_offsets(told, _GROUPS[int(self._chance.random() * len(_GROUPS))],
                            1 + int(self._chance.random() * 3))

    def commit_offsets(self, told: Told, group: str, count: int) -> None:
        """Have a transaction commit the offsets of some partitions."""
        self._offset += 1
        places = {(group, _INPUT, index): self._offset for index in range(count)}
        offsets = {TopicPartition(topic, index): OffsetAndMetadata(offset)
                   for (_, topic, index), offset in places.items()}
        told.asked += places.items()
        self.call("send_offsets_to_transaction", lambda: self.producer.send_offsets_to_transaction(
            offsets, ConsumerGroupMetadata(group)), told)
        told.offsets.update(places)

    def send_to(self, told: Told, topic: str, partition: int) -> None:
        """Send a record in a transaction to a partition."""
        record = self._next(told, 20)
        record.topic, record.partition = topic, partition
        self._workload.send(record, None, None, with_callback=True)
        self._raise_if_refused(record.refused)

    def new_transaction(self) -> Told:
        """Return what is known of the transaction that was begun just now: it will be aborted."""
        told = Told(len(self.transactions) + 1)
        self.transactions.append(told)
        return told

    def close(self) -> None:
        """Close the producer, and have another one with the same transactional id."""
        self._close(self.producer)
        self._next_life()

    @property
    def props(self) -> Mapping[str, Any]:
        """The producer's settings."""
        return self._workload._parameters.props

    # -- time

    @property
    def now_ms(self) -> int:
        """The simulated time."""
        return self._workload._scheduler.now_ms

    def at(self, delay_ms: int, call: Callable[[], None]) -> None:
        """Have something happen a while later."""
        self._workload._scheduler.at(self.now_ms + delay_ms, call)

    def start(self, run: Callable[[], None]) -> SimThread:
        """Start another thread of the application."""
        return self._workload._scheduler.start(run, "another caller")

    def join(self, thread: SimThread) -> None:
        """Wait for its end."""
        self._workload._scheduler.join(thread)

    @property
    def longest_latency_ms(self) -> int:
        """How long bytes are on their way at most."""
        return self._workload._parameters.latency_ms

    def sleep_ms(self, ms: int) -> None:
        """Do nothing for so long."""
        self._workload._clock.sleep(ms)

    def _sleep(self, _told: Told | None = None) -> None:
        self._workload._clock.sleep(int(self._chance.random() * self._workload._parameters.pause_ms))

    # -- what must come of it

    def check(self) -> list[str]:
        """Return what is wrong."""
        now_ms = self._workload._scheduler.now_ms
        coordinators = self._cluster.coordinators
        before = {key: transaction.status for key, transaction in coordinators.transactions.items()}
        coordinators.complete_all(now_ms)
        committed = self._committed()
        offsets = set(coordinators.committed)
        for told in self.transactions:
            self._workload.judged["transactions"] += 1
            self._workload.judged["in a transaction"] += len(told.records)
            self._workload.judged[f"transactions {told.end}"] += 1
            own = [record for record in told.records if record.value in committed]
            own_offsets = [pair for pair in told.asked if pair in offsets]
            taken = [record for record in told.records if record.refused is None]
            if told.end == "aborted" and (own or own_offsets):
                self.complaints.append(f"transaction {told.number} was aborted, and {own} and {own_offsets} are there")
            # Of two offsets of a partition in one transaction the first may come late, behind the second.
            is_all = len(own) == len(taken) and all(
                pair in offsets or (pair[0] in coordinators.stepped_back and any(
                    asked in offsets for asked in told.asked if asked[0] == pair[0]))
                for pair in told.offsets.items())
            if told.end == "committed" and not is_all:
                self.complaints.append(
                    f"transaction {told.number} was committed; of {taken} only {own} are there, of {told.offsets} only "
                    f"{own_offsets}")
            if told.end == "unknown" and (own or own_offsets) and not is_all:
                self.complaints.append(f"of transaction {told.number} a part is there: {own} of {taken}, "
                                       f"{own_offsets} of {told.offsets}")
            failed = [record for record in taken if record.future is not None and not is_acknowledged(record)]
            if told.end == "committed" and failed:
                self.complaints.append(f"transaction {told.number} was committed, and {failed} failed")
        if Status.ONGOING in before.values():
            self.complaints.append(f"at the end a transaction is open: {before}")
        return self.complaints

    def _committed(self) -> set[bytes]:
        """The records that whoever reads what is committed sees."""
        return {value for partitions in self._cluster.topics.values() for partition in partitions
                for stored in partition.batches if stored.is_transactional and partition.is_committed(stored)
                for value in stored.values if value is not None}
