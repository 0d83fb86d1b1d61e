"""Rare states that a transactional producer comes to on purpose, in a world that is well again: what follows is exact.

    offsets in part    the coordinator of a group has no time for one of some offsets: it is asked for anew
    refused in part    before Transactions V2: one of some partitions is refused, and that is what is told
    given up           an abort comes while a prepare waits, which is told so
    empty one          what was prepared, and has nothing in it, is ended at once: nobody sleeps before
    prepared stays     init_transactions() does not abort what is prepared, also behind another id's
    another id         init_transactions() timed out, and ended behind the caller's back: then another id may be taken
    left open          the producer is closed, and nobody ends its transaction: it says so
    not allowed        the coordinator does not allow the id any more: the producer can only be closed

Source:  ours.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from pyproducer import (
    IllegalStateError,
    KafkaError,
    KafkaTimeoutError,
    TopicPartition,
    TransactionAbortedError,
    TransactionOutcome,
)
from pyproducer.protocol.apis import ApiKeys
from tests.simulation.faults import Faults
from tests.simulation.manners import HOPS
from tests.simulation.model_broker import ModelCluster

if TYPE_CHECKING:
    from tests.simulation.transactional import Told, TransactionalCaller

ANOTHER_ID = "till-8"
_GROUP = "ledger"
_LONG_MS = 60_000
_SHORT_MS = 50
_LONGEST_ABSENCE_MS = 30_000  # all producers try to connect all the while
_AT_ONCE_MS = 200  # a session may be about to be renewed
_BACK_MS = 1000  # behind that a node that stopped comes back
_REQUEST_TIMED_OUT, _NOT_ALLOWED, _ID_NOT_ALLOWED = 7, 29, 53


class FinaleOfTransactions:
    """Plays them, one after another.

    Args:
        caller: Whose transactions they are.
        cluster: Whose coordinators.
        faults: Have the script.
        lines: Counts what the log said.
    """

    def __init__(self, caller: TransactionalCaller, cluster: ModelCluster, faults: Faults, lines: Counter[str]) -> None:
        self._caller = caller
        self._cluster = cluster
        self._faults = faults
        self._lines = lines
        self._places = [(topic, partition) for topic, partitions in cluster.topics.items()
                        for partition in range(len(partitions))]

    def play(self) -> None:
        """Play them; one ends early where time is too short for it."""
        for play in (self._offsets_in_part, self._refused_in_part, self._given_up, self._empty_one,
                     self._prepared_stays, self._another_id, self._left_open, self._not_allowed):
            name, before = play.__name__[1:].replace("_", " "), len(self._caller.complaints)
            try:
                if play() is False:
                    continue
            except KafkaError as error:
                self._caller.complaints.append(f"{name}: {error!r}")
            self._caller.judged[f"finale {name}"] += 1
            if len(self._caller.complaints) > before:
                return

    def _complain(self, what: str) -> None:
        self._caller.complaints.append(what)

    # -- each

    def _offsets_in_part(self) -> bool:
        asked = 0
        for refusal in (0, _REQUEST_TIMED_OUT):  # the first one finds the coordinator
            asked = self._finds()
            self._faults.place_refusals[ApiKeys.TXN_OFFSET_COMMIT] = deque([refusal])
            if not self._caller.one_of(self._commit_offsets):
                return False
        if self._finds() == asked and not self._faults.place_refusals[ApiKeys.TXN_OFFSET_COMMIT]:
            self._complain("the coordinator of a group had no time for an offset, and nobody asked for it anew")
        self._faults.place_refusals.clear()
        return True

    def _finds(self) -> int:
        return self._cluster.answered.get((ApiKeys.FIND_COORDINATOR, 0), 0)

    def _commit_offsets(self, told: Told) -> None:
        self._caller.commit_offsets(told, _GROUP, 2)

    def _refused_in_part(self) -> bool:
        """The first request is for one partition: meanwhile the others wait, and are in the next one together."""
        if self._cluster.coordinators.is_v2 or len(self._places) < 3:
            return False

        def fill(told: Told) -> None:
            self._faults.place_refusals[ApiKeys.ADD_PARTITIONS_TO_TXN] = deque([0, _NOT_ALLOWED])
            for place in self._places:
                self._caller.send_to(told, *place)

        self._caller.one_of(fill)
        self._faults.place_refusals.clear()
        return True

    def _given_up(self) -> bool:
        if not self._begin():
            return False
        told, producer = self._caller.new_transaction(), self._caller.producer
        raised: list[BaseException | None] = []

        def prepare() -> None:
            try:
                producer.prepare_transaction()
            except KafkaError as error:
                raised.append(error)
            else:
                raised.append(None)

        with self._nobody_there():
            self._caller.send_to(told, *self._places[0])
            thread = self._caller.start(prepare)
            self._caller.sleep_ms(_SHORT_MS)
        self._caller.give_up(told)  # it may have been on the wire when they went
        self._caller.call("abort_transaction", producer.abort_transaction, told)
        self._caller.join(thread)
        while self._faults.is_nobody_there:
            self._caller.sleep_ms(_SHORT_MS)
        if not isinstance(raised[0], TransactionAbortedError):
            self._complain(f"prepare_transaction() waited, an abort came, and it came to {raised[0]!r}")
        return True

    def _empty_one(self) -> bool:
        if not self._begin():
            return False
        told, producer = self._caller.new_transaction(), self._caller.producer
        producer.prepare_transaction()
        began_ms, longest_ms = self._caller.now_ms, _AT_ONCE_MS + HOPS * self._caller.longest_latency_ms
        end, told.end = ((producer.commit_transaction, "committed") if told.number % 2
                         else (producer.abort_transaction, "aborted"))
        self._caller.call(end.__name__, end, told)
        if self._caller.now_ms - began_ms > longest_ms:
            self._complain(f"{end.__name__}() of an empty prepared transaction took {self._caller.now_ms - began_ms} "
                           f"ms, and {longest_ms} are many")
        return True

    def _prepared_stays(self) -> bool:
        make_completer = self._caller.make_completer
        # A late InitProducerId, of a connection that has ended, would abort it, as it does in Kafka.
        if make_completer is None or self._faults.late_count or not self._begin():
            return False
        told, producer, key = self._caller.new_transaction(), self._caller.producer, self._caller.transactional_id
        told.end = "unknown"
        self._caller.send_to(told, *self._places[0])
        prepared = producer.prepare_transaction()
        self._expect_refusal(key)
        producer.init_transactions(ANOTHER_ID)
        self._expect_refusal(key)
        with make_completer() as completer:
            self._compare(completer._client().describe_transactions([key])[0])
            self._faults.garbled.add(int(ApiKeys.FIND_COORDINATOR))
            completer._client()._coordinators.clear()
            outcome = completer.commit(prepared)
        if outcome is not TransactionOutcome.COMMITTED:
            self._complain(f"a prepared transaction is committed elsewhere, and it is {outcome}")
        told.end = outcome.value
        producer.init_transactions(key)
        return True

    def _expect_refusal(self, key: str) -> None:
        """Whether the producer is bound to the id or not, what it has prepared with it is kept."""
        try:
            self._caller.producer.init_transactions(key)
        except IllegalStateError as error:
            if "which is still open" not in str(error):
                self._complain(f"init_transactions() of what is prepared raised {error!r}")
        else:
            self._complain("init_transactions() returned, and has aborted a prepared transaction")

    def _compare(self, described: Any) -> None:
        """What whoever asks is told of a transaction is what its coordinator knows."""
        known = self._cluster.coordinators.transactions[described.transactional_id]
        own = ("Ongoing", known.producer_id, known.epoch, known.timeout_ms, known.began_ms,
               tuple(sorted(TopicPartition(*place) for place in known.partitions)))
        if described[2:] != own or described[1] != 0:
            self._complain(f"the coordinator is asked for a transaction {own}, and what is told is {described}")

    def _another_id(self) -> bool:
        if self._caller.props["max.block.ms"] > _LONGEST_ABSENCE_MS:
            return False
        producer = self._caller.producer
        transactions = producer._runtime.io_thread._sender._transaction_manager.transactions
        with self._nobody_there(comes_back=False):
            try:
                producer.init_transactions()
            except KafkaTimeoutError:
                pass
            else:
                self._complain("init_transactions() returned, and there was no coordinator")
        until_ms = self._caller.now_ms + _LONG_MS
        while not transactions.pending.is_set:
            if self._caller.now_ms > until_ms:
                return False
            self._caller.sleep_ms(_SHORT_MS)
        producer.init_transactions(ANOTHER_ID)
        producer.init_transactions(self._caller.transactional_id)
        return True

    def _left_open(self) -> bool:
        if self._caller.props["delivery.timeout.ms"] > _LONGEST_ABSENCE_MS or not self._begin():
            return False
        told, producer = self._caller.new_transaction(), self._caller.producer
        self._caller.send_to(told, *self._places[0])
        if told.records[0].future.exception() is not None:
            self._caller.call("abort_transaction", producer.abort_transaction, told)
            return False
        before = self._lines["transactions left open"]
        with self._nobody_there(comes_back=False):
            self._caller.close()
        if self._lines["transactions left open"] != before + 1:
            self._complain("a producer was closed, nobody ended its transaction, and it did not say so")
        assert producer is not self._caller.producer
        return self._caller.one_of(_nothing)  # which aborts what is open

    def _not_allowed(self) -> bool:
        """It ends the producer's life: `TransactionalCaller` knows that it cannot be taken for a mere abort."""
        api_key = ApiKeys.END_TXN if self._cluster.coordinators.is_v2 else ApiKeys.ADD_PARTITIONS_TO_TXN
        lives = self._caller.lives
        self._caller.one_of(lambda told: self._refuse(told, api_key))
        if self._faults.refusals.pop(api_key, None) == deque() and self._caller.lives == lives:
            self._complain(f"{api_key.title} was refused with {_ID_NOT_ALLOWED}, and the producer goes on")
        return self._caller.one_of(_nothing)  # which aborts what is open

    def _refuse(self, told: Told, api_key: ApiKeys) -> None:
        self._faults.refusals[api_key] = deque([_ID_NOT_ALLOWED])
        self._caller.send_to(told, *self._places[0])

    # -- inside

    def _begin(self) -> bool:
        """Begin a transaction, behind a whole one: all is known, and connected."""
        if not self._caller.one_of(lambda told: self._caller.send_to(told, *self._places[0])) or (
                self._caller.transactions[-1].end != "committed"):
            return False
        self._caller.producer.begin_transaction()
        return True

    @contextmanager
    def _nobody_there(self, *, comes_back: bool = True) -> Iterator[None]:
        """Have all nodes be away; with `comes_back` they come back by themselves, while somebody waits."""
        self._faults.stop_all()
        if comes_back:
            self._caller.at(_BACK_MS, self._faults.heal)
        try:
            yield
        finally:
            if not comes_back:
                self._faults.heal()


def _nothing(_told: Told) -> None:
    """Fill a transaction that stays empty."""
