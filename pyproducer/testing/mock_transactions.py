"""The transactions of a MockProducer: KafkaProducer's states and errors, and a coordinator that answers at once.

Road:    beside it.
Thread:  that of the call.
Source:  Java MockProducer (4.1).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyproducer.accumulator.life import Life
from pyproducer.accumulator.produce_result import own_copy
from pyproducer.common.clock import Clock
from pyproducer.common.cluster import TopicPartition
from pyproducer.common.consumer_offsets import OffsetAndMetadata
from pyproducer.common.errors import IllegalStateError, KafkaError
from pyproducer.common.records import ProducerRecord
from pyproducer.producer.config import ProducerConfig
from pyproducer.producer.consumed_offsets import to_group_metadata, to_offsets
from pyproducer.producer.transaction_calls import ensure_transactional_id
from pyproducer.transaction.pending_call import PendingCall
from pyproducer.transaction.prepared_transaction import PreparedTransaction
from pyproducer.transaction.transactions import Transactions

_PRODUCER_ID = 1


class MockTransactions:
    """The transactional half of a MockProducer.

    Args:
        config: The producer's settings.
        life: The producer's.
        clock: For how long a transaction has been open.
        ensure_outside: Refuses a call, by its name, where the current thread is in a callback.

    Attributes:
        state: Where it stands; None without a transactional id.
        records: What was sent in the open transaction.
        offsets: What was consumed in it, by group.
        committed_offsets: What was consumed in each transaction that committed some.
        commit_count: How many transactions were committed.
        is_initialized: Whether init_transactions() was called.
        last_end: "committed" or "aborted", as the last transaction was; "" before.
    """

    def __init__(self, config: ProducerConfig, life: Life, clock: Clock, ensure_outside: Callable[[str], None]) -> None:
        self._life = life
        self._ensure_outside = ensure_outside
        self._epoch = -1
        self.state: Transactions | None = None if config.transactional_id is None else Transactions(
            config.transactional_id, timeout_ms=config.transaction_timeout_ms, clock=clock)
        self.records: list[ProducerRecord] = []
        self.offsets: dict[str, dict[TopicPartition, OffsetAndMetadata]] = {}
        self.committed_offsets: list[dict[str, dict[TopicPartition, OffsetAndMetadata]]] = []
        self.commit_count: int = 0
        self.is_initialized: bool = False
        self.last_end: str = ""

    def watch(self, on_change: Callable[[], None]) -> None:
        """Have the producer told when records are taken, and when not."""
        if self.state is not None:
            self.state.on_change = on_change
            self._life.on_not_taken = self.state.on_not_taken

    def fail(self, error: KafkaError) -> None:
        """A record failed, or the producer was fenced."""
        if self.state is not None:
            self.state.on_failed(error)

    def clear(self) -> None:
        """Forget what was sent and consumed."""
        self.records.clear()
        self.offsets.clear()
        self.committed_offsets.clear()

    def init(self, transactional_id: str | None) -> None:
        """See KafkaProducer.init_transactions."""
        state = self._transactional("init_transactions()")
        ensure_transactional_id(transactional_id)
        pending = state.initialize(transactional_id)
        prepared = state.prepared.get(pending.binds)
        if prepared is not None and not prepared.is_empty:
            state.on_refused(IllegalStateError("init_transactions() would abort the prepared transaction of "
                                               f"{pending.binds!r}, which is still open"))
            self._end(pending)
        state.prepared.pop(pending.binds, None)
        self._epoch += 1
        state.on_initialized()
        self.is_initialized = True
        self._end(pending)

    def begin(self) -> None:
        """See KafkaProducer.begin_transaction."""
        self._transactional("begin_transaction()").begin()
        self.records.clear()
        self.offsets.clear()

    def send_offsets(self, offsets: Any, group_metadata: Any) -> None:
        """See KafkaProducer.send_offsets_to_transaction."""
        state = self._transactional("send_offsets_to_transaction()")
        found, group = to_offsets(offsets), to_group_metadata(group_metadata)
        pending = state.add_offsets(found, group)
        self.offsets.setdefault(group.group_id, {}).update(found)
        if not pending.is_set:
            state.on_offsets_committed(state.current.offsets[0])
        self._end(pending)

    def prepare(self, complete_all: Callable[[], None]) -> PreparedTransaction:
        """See KafkaProducer.prepare_transaction."""
        state = self._transactional("prepare_transaction()")
        pending = state.prepare()
        complete_all()
        if not pending.is_set:
            state.on_all_sent(PreparedTransaction(state.transactional_id, _PRODUCER_ID, self._epoch,
                                                  tuple(sorted(state.current.partitions)), bool(self.offsets)))
        self._end(pending)
        prepared: PreparedTransaction = pending.value
        return prepared

    def commit(self, complete_all: Callable[[], None]) -> list[ProducerRecord]:
        """See KafkaProducer.commit_transaction; return what was sent in it."""
        state = self._transactional("commit_transaction()")
        pending = state.commit()
        complete_all()
        if not pending.is_set:
            state.on_ended(needs_epoch=False)
        self._end(pending)
        if self.offsets:
            self.committed_offsets.append({group: dict(found) for group, found in self.offsets.items()})
        self.commit_count += 1
        self.last_end = "committed"
        records, self.records, self.offsets = self.records, [], {}
        return records

    def abort(self, fail_all: Callable[[KafkaError], None]) -> None:
        """See KafkaProducer.abort_transaction."""
        state = self._transactional("abort_transaction()")
        pending = state.abort()
        fail_all(state.failure_of_records())
        if not pending.is_set:
            state.on_ended(needs_epoch=False)
        self._life.tally.on_aborted()
        self._end(pending)
        self.last_end = "aborted"
        self.records, self.offsets = [], {}

    def close(self, fail_all: Callable[[KafkaError], None]) -> None:
        """Abort what is open, as KafkaProducer.close does."""
        state = self.state
        if state is None:
            return
        state.begin_end_of_life()
        if state.is_ending:
            fail_all(state.failure_of_records())
            state.on_ended(needs_epoch=False)
            self.last_end = "aborted"

    def _transactional(self, call: str) -> Transactions:
        self._life.ensure_open()
        if self.state is None:
            raise IllegalStateError(f"{call} needs a transactional producer: set transactional.id")
        self._ensure_outside(call)
        return self.state

    @staticmethod
    def _end(pending: PendingCall) -> None:
        pending.is_told = True
        if pending.error is not None:
            raise own_copy(pending.error)
