"""The outcome of one send_batch: an offset for each row, or an error.

Road:    append_rows -> [row ranges] ... completion -> [arrays] -> result(), done callbacks
Thread:  ranges are told by the sender thread, or by who aborts; `_lock` guards the count of rows left and the errors.
         The arrays are written before the rows are counted as done, and read only when all are.
Source:  ours. A batch of the accumulator holds ranges of rows instead of a future for each.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Generator, Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from pyproducer.accumulator.concurrent_futures import ConcurrentState
from pyproducer.accumulator.failure import Failure
from pyproducer.accumulator.life import UNOWNED, Life
from pyproducer.accumulator.produce_result import (
    Observer,
    ProduceRequestResult,
    call_done_callback,
    is_heard,
    own_copy,
    wait_in_loop,
)
from pyproducer.common.callback import ensure_done_callback
from pyproducer.common.cluster import UNKNOWN_PARTITION, TopicPartition
from pyproducer.common.errors import NOT_SENT, KafkaError, KafkaTimeoutError, with_outcome
from pyproducer.common.html_table import html_table
from pyproducer.common.loop_inbox import Wake
from pyproducer.common.public import public
from pyproducer.common.waiting import Cell, Waiters
from pyproducer.hotpath import store_rows
from pyproducer.transaction.transactions import OpenTransaction

if TYPE_CHECKING:
    from concurrent.futures import Future

_MOST_SHOWN = 10  # errors in a notebook


@public
class BatchMetadata:
    """Where the rows of a send_batch were stored, and what became of those that were not.

    Shape: `offsets` and `timestamps` are array('q'), `partitions` is array('i'), each with one item for each row;
    `errors` is row -> exception, in order of rows. A row that failed has offset -1; so has one whose offset the broker
    did not tell (acks=0), but that is not in `errors`. A partition is -1 where a row failed before one was chosen.
    """

    __slots__ = ("errors", "offsets", "partitions", "timestamps", "topic")

    def __init__(self, topic: str, offsets: array[int], partitions: array[int], timestamps: array[int],
                 errors: dict[int, KafkaError]) -> None:
        self.topic: str = topic
        self.offsets: array[int] = offsets
        self.partitions: array[int] = partitions
        self.timestamps: array[int] = timestamps
        self.errors: dict[int, KafkaError] = errors

    def __len__(self) -> int:
        return len(self.offsets)

    def raise_on_error(self) -> None:
        """Do nothing when every row was stored.

        Raises:
            KafkaError: The error of the first row that was not; its `outcome` says what became of that row.
        """
        for error in self.errors.values():
            raise own_copy(error)

    def to_arrow(self) -> Any:
        """Return a pyarrow.RecordBatch of offset, partition and timestamp (ms) that shares the arrays' memory.

        Raises:
            ImportError: pyarrow is not installed.
        """
        try:
            import pyarrow
        except ImportError as error:
            raise ImportError("to_arrow() needs pyarrow, which is not installed: pip install pyarrow") from error
        columns = {"partition": (pyarrow.int32(), self.partitions), "offset": (pyarrow.int64(), self.offsets),
                   "timestamp": (pyarrow.timestamp("ms", "UTC"), self.timestamps)}
        return pyarrow.RecordBatch.from_arrays(
            [pyarrow.Array.from_buffers(kind, len(items), [None, pyarrow.py_buffer(items)])
             for kind, items in columns.values()], names=list(columns))

    def __repr__(self) -> str:
        return f"<BatchMetadata {self.topic} rows={len(self)} errors={len(self.errors)}>"

    def _repr_html_(self) -> str:
        stored: dict[int, tuple[int, int, int]] = {}  # by partition: rows, first and last offset
        for row, (partition, offset) in enumerate(zip(self.partitions, self.offsets, strict=True)):
            if row not in self.errors:
                count, first, last = stored.get(partition, (0, offset, offset))
                stored[partition] = count + 1, min(first, offset), max(last, offset)
        rows: list[tuple[object, object]] = [
            (f"partition {partition}", f"{count:,} rows" + (f", offsets {first} to {last}" if first >= 0 else ""))
            for partition, (count, first, last) in sorted(stored.items())]
        shown = list(self.errors.items())[:_MOST_SHOWN]
        rows += [(f"row {row} failed", f"{type(error).__name__}: {error}") for row, error in shown]
        if len(self.errors) > len(shown):
            rows.append(("", f"{len(self.errors) - len(shown):,} more rows failed"))
        return html_table(f"{len(self):,} rows for {self.topic}", rows)


if TYPE_CHECKING:  # it is taken where one is

    class _Future(Future[BatchMetadata]):
        pass
else:
    _Future = object


@public
class BatchFuture(_Future):
    """The promise of the `BatchMetadata` of one send_batch; done when every row is.

    `concurrent.futures.wait` and `as_completed` take it. `asyncio.wrap_future` does, too, and raises what exception()
    returns, where `await` and result() give the metadata with all errors in it.

    Thread:  any. Done callbacks run on the sender thread, or at once in the caller's when all rows are done already.
    """

    __slots__ = (
        "__weakref__",
        "_callbacks",
        "_cells",
        "_concurrent_state",
        "_failures",
        "_is_done",
        "_is_looked_at",
        "_is_told",
        "_last_results",
        "_left",
        "_life",
        "_lock",
        "_lookers",
        "_metadata",
        "_told",
        "within",
    )

    def __init__(self, topic: str, partitions: array[int], timestamps: array[int], life: Life = UNOWNED,
                 within: OpenTransaction | None = None) -> None:
        count = len(partitions)
        # The transaction that its rows belong to, until they are handed over; the caller's.
        self.within: OpenTransaction | None = within
        self._lock = life.futures_lock  # guards _left, _told, _errors, _is_done, _callbacks, _concurrent_state
        self._left = count + 1  # the call itself is the one more, so that no future is done while rows are handed over
        # By the first row that was told of, or -1 for the call itself: how many were. Who failed half way in telling
        # tells again, and its rows count once. Empty when all are done.
        self._told: dict[int, int] = {}
        self._is_done = False
        self._callbacks: list[Callable[[BatchFuture], object]] = []
        self._is_told = False  # the done callbacks ran
        self._concurrent_state: ConcurrentState | None = None  # of those who wait for it among others
        # Of rows that failed, for the producer's tally; and whether somebody knows of them, or waits to know.
        self._failures: list[Failure] | None = None
        self._is_looked_at = False
        self._lookers: set[Cell] = set()
        self._life = life
        self._cells = Waiters(life.locks.cell)
        # By partition: the outcome of the batch that holds the last rows. The caller's until hand-over ends.
        self._last_results: dict[int, ProduceRequestResult] = {}
        self._metadata = BatchMetadata(topic, array("q", (-1,)) * count, partitions, timestamps, {})

    def __len__(self) -> int:
        return len(self._metadata)

    def done(self) -> bool:
        """Whether the outcome of every row is known."""
        return self._is_done

    def running(self) -> bool:
        """Whether rows are on their way."""
        return not self._is_done

    def cancel(self) -> bool:
        """Return False: rows that were handed over cannot be taken back."""
        return False

    def cancelled(self) -> bool:
        """Return False: rows that were handed over cannot be taken back."""
        return False

    def result(self, timeout: float | None = None) -> BatchMetadata:
        """Wait for all rows and return where they were stored. Rows that failed are in its `errors`, not raised.

        Args:
            timeout: Longest wait in seconds; None waits until all is done (delivery.timeout.ms bounds that).

        Raises:
            KafkaTimeoutError: The timeout passed first (phase "future"). Unknown: rows are still on their way.
        """
        if not self._is_done:
            deadline_ms = self._life.begin_wait("result()", timeout)
            self._life.calls.run("result()", self._await_end, timeout, deadline_ms)
        self._look()
        return self._metadata

    def _await_end(self, timeout: float | None, deadline_ms: int | None) -> None:
        self._on_wait()
        cell = self._cells.enter()
        self._lookers.add(cell)
        try:
            if not self._is_told and not self._life.wait(cell, deadline_ms):
                topic = self._metadata.topic
                raise KafkaTimeoutError(
                    f"{self._left} of {len(self)} rows for {topic} were not done within {timeout} s; they are still on "
                    f"their way{self._life.why_not_done(TopicPartition(topic, UNKNOWN_PARTITION))}",
                    phase="future", outcome="unknown")
        finally:
            self._lookers.discard(cell)

    def exception(self, timeout: float | None = None) -> KafkaError | None:
        """Wait for all rows and return the error of the first one that failed, or None when all were stored.

        Raises:
            KafkaTimeoutError: The timeout passed first (phase "future"). Unknown: rows are still on their way.
        """
        for error in self.result(timeout).errors.values():
            return own_copy(error)
        return None

    def add_done_callback(self, fn: Callable[[BatchFuture], object]) -> None:
        """Call `fn(future)` once all rows are done; at once when they are done already.

        Raises:
            TypeError: It cannot be called, or it is a coroutine function. The rows are on their way as before.
            ForkedProducerError: They are not done, and this is a child process: nobody would call.
        """
        if type(fn) is not Wake:  # each await's, made here
            ensure_done_callback(fn)
        if not self._is_done:
            if self._life.is_forked:
                self._life.ensure_may_wait("a done callback")
            self._on_wait()
        self._add_done_callback(fn)

    def _add_done_callback(self, fn: Callable[[BatchFuture], object]) -> None:
        if not self._is_done:
            with self._lock:
                if not self._is_done:
                    self._callbacks.append(fn)
                    return
        if is_heard(fn):
            self._look()
        call_done_callback(fn, self)

    def remove_done_callback(self, fn: Callable[[BatchFuture], object]) -> int:
        """Forget a callback that was added and not called; return how many times it was there. asyncio.wait() asks."""
        count = 0
        with self._lock:
            while fn in self._callbacks:
                try:
                    self._callbacks.remove(fn)
                except ValueError:  # the sender took it, to call it
                    break
                count += 1
        return count

    def __await__(self) -> Generator[Any, None, BatchMetadata]:
        if not self._is_done:
            self._life.ensure_may_wait("await")
        yield from wait_in_loop(self.add_done_callback)
        self._look()
        return self._metadata

    # What concurrent.futures.wait(), as_completed() and asyncio.wrap_future() ask of a concurrent.futures.Future.

    @property  # type: ignore[misc]  # for isinstance
    def __class__(self) -> Any:
        from concurrent.futures import Future

        return Future

    if not TYPE_CHECKING:  # to a checker they are that one's attributes

        @property
        def _condition(self) -> Any:
            return self._concurrent().condition

        @property
        def _waiters(self) -> Any:
            return self._concurrent().waiters

        @property
        def _state(self) -> str:
            return self._concurrent().name

    def _get_snapshot(self) -> tuple[bool, bool, BatchMetadata | None, BaseException | None]:
        """Return whether it is done, whether cancelled, and one of result and error; from Python 3.14 on."""
        if not self._is_done:
            return False, False, None, None
        error = self.exception(0)
        return True, False, self._metadata if error is None else None, error

    def _concurrent(self) -> ConcurrentState:
        if not self._life.is_forked:  # what lingers is the parent's
            self._on_wait()
        with self._lock:
            if self._concurrent_state is None:
                self._concurrent_state = ConcurrentState(is_done=self._is_done, life=self._life)
            return self._concurrent_state

    def __repr__(self) -> str:
        return f"<BatchFuture {self._metadata.topic} rows={len(self)} {'done' if self._is_done else 'pending'}>"

    # The road's side.

    def observe(self, tell: Callable[[BatchMetadata], object]) -> None:
        """Call `tell(metadata)` once all rows are done, beside the application; at once when they are done already.

        Nobody waits for it: rows linger for company as without it, and those that failed are looked at by nobody.
        """
        self._add_done_callback(Observer(lambda future: tell(future._metadata)))

    def on_appended(self, partition: int, result: ProduceRequestResult) -> None:
        """Remember the outcome of the batch that holds a partition's last rows; the caller's, during hand-over."""
        self._last_results[partition] = result

    def on_handed_over(self) -> None:
        """Say that no more rows come; the caller's, once."""
        self.within = None
        self._count_done(-1, 1)

    def on_stored(self, rows: RowRange, base_offset: int, log_append_time: int) -> None:
        """Note that a range of rows is in the log, from a batch with this base offset (-1: not known)."""
        metadata = self._metadata
        store_rows(metadata.offsets, metadata.timestamps, rows.order, rows.start, rows.row_count,
                   base_offset + rows.first_index if base_offset >= 0 else -1, log_append_time)
        self._count_done(rows.order[rows.start], rows.row_count)

    def on_failed(self, rows: Iterable[int], error_for: Callable[[int], KafkaError]) -> None:
        """Note that rows failed.

        Args:
            rows: Their numbers in the call.
            error_for: Gives the error of the row at a position of `rows`.
        """
        errors = {row: error_for(position) for position, row in enumerate(rows)}
        with self._lock:
            self._metadata.errors.update(errors)
        if errors:
            self._count_done(next(iter(errors)), len(errors))

    def on_refused(self, rows: Sequence[int], error: KafkaError) -> None:
        """Note that rows were not taken; the caller's, during hand-over."""
        own = with_outcome(error, NOT_SENT)
        self._life.on_not_taken(own)
        self._life.tally.failed(Failure(self._metadata.topic, UNKNOWN_PARTITION, len(rows), own, watched=0,
                                        is_accepted=False), self)
        self.on_failed(rows, lambda _position: own)

    def on_row(self, row: int, partition: int, offset: int, timestamp: int) -> None:
        """Note that one row is in the log."""
        metadata = self._metadata
        metadata.offsets[row], metadata.partitions[row], metadata.timestamps[row] = offset, partition, timestamp
        self._count_done(row, 1)

    def _count_done(self, first_row: int, count: int) -> None:
        with self._lock:
            if not self._is_done:
                if first_row in self._told:
                    self._left = len(self) + 1 - sum(self._told.values())
                else:
                    self._told[first_row] = count
                    self._left -= count
                if self._left:
                    return
                if self._metadata.errors:
                    self._metadata.errors = dict(sorted(self._metadata.errors.items()))
                self._is_done = True
                self._last_results, self._told = {}, {}
        if self._metadata.errors:
            self._watch_failures()
        while True:
            if self._life.is_forked:  # by the one before: the rest is the parent's
                return
            with self._lock:  # against remove_done_callback
                if not self._callbacks:
                    break
                is_ours = type(self._callbacks[0]) is Wake  # which is forgotten when it was called
                fn = self._callbacks[0] if is_ours else self._callbacks.pop(0)
            call_done_callback(fn, self, BaseException)  # no signal arrives on this thread
            if is_ours:
                self._callbacks.remove(fn)
        if self._concurrent_state is not None:
            self._concurrent_state.tell(self, is_failed=bool(self._metadata.errors))
        self._is_told = True
        self._cells.ring()

    def _watch_failures(self) -> None:
        """Have the tally see whether somebody looks at the rows that failed; again is no error."""
        failures = self._failures
        if failures is None:
            groups: dict[tuple[int, str], tuple[int, Any]] = {}
            for row, error in self._metadata.errors.items():
                key = (self._metadata.partitions[row], error.outcome)
                count, first = groups.get(key, (0, error))
                groups[key] = count + 1, first
            self._failures = failures = [Failure(self._metadata.topic, partition, count, error, watched=count)
                                         for (partition, _), (count, error) in groups.items()]
        if any(map(is_heard, self._callbacks)):
            self._is_looked_at = True
        if not (self._is_looked_at or self._lookers):
            for failure in failures:
                self._life.tally.watch(failure, self)
        if self._is_looked_at or self._lookers:  # since then
            self._look()

    def _look(self) -> None:
        """Somebody knows of the rows that failed."""
        self._is_looked_at = True
        for failure in self._failures or ():
            self._life.tally.settle(failure)

    def on_forked(self) -> None:
        """In a child process: what becomes of the rows is the parent's to tell; let who waits look."""
        self._callbacks.clear()
        self._concurrent_state = None  # its condition, too
        self._cells.ring()

    def _on_wait(self) -> None:
        for result in list(self._last_results.values()):
            result.on_wait()


class RowRange(NamedTuple):
    """Rows of a call that lie side by side in a batch, from its `first_index` on: `order[start:start + row_count]`."""

    future: BatchFuture
    first_index: int
    order: array[int]
    start: int
    row_count: int

    def part(self, begin: int, end: int) -> RowRange | None:
        """Return what lies between two indices of the batch, counted from the first of them; None when nothing does."""
        first, last = max(self.first_index, begin), min(self.first_index + self.row_count, end)
        if first >= last:
            return None
        return RowRange(self.future, first - begin, self.order, self.start + first - self.first_index, last - first)

    def fail(self, error_for: Callable[[int], KafkaError]) -> None:
        """Note that the rows failed; `error_for` gives the error at an index of the batch."""
        self.future.on_failed(self.order[self.start:self.start + self.row_count],
                              lambda position: error_for(self.first_index + position))
