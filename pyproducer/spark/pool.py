"""One producer per worker process and set of properties.

A Spark Python worker runs task after task; a producer per task would connect, fetch metadata and get a producer id
each time. So producers stay here between tasks, the last used ones, as many as there is room for. A worker may be
killed without a word while it is idle: that is why a task flushes before it ends, and nothing is left to an exit hook.

What is idle is closed by a thread that there is only while something is idle: a worker that goes on with other people's
tasks asks for no producer here, and would keep threads and connections of ours for ever. The processes that Spark forks
workers from run no task, so no fork of Spark's meets it; where a task forks by itself, the child begins with nothing.

Road:    sink -> [pool] -> producer
Thread:  any, and one of its own; one lock.
Source:  Spark's InternalKafkaProducerPool (4.0): idle producers are closed after ten minutes, never one in use.
         Differs from Spark: the number of producers has a limit.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import NamedTuple

from pyproducer.common.clock import Clock, SystemClock
from pyproducer.common.errors import DeliveryFailedError
from pyproducer.common.threads import StartThread, start_daemon
from pyproducer.common.waiting import Waiters
from pyproducer.spark.row_producer import RowProducer
from pyproducer.spark.settings import DEFAULT_POOL_SIZE
from pyproducer.spark.window import Window

IDLE_MS = 600_000
"""Spark's own default (spark.kafka.producer.cache.timeout)."""

CLOSE_TIMEOUT_S = 30.0
"""A producer closed here is flushed already, or has failed: what it still holds is not worth a longer wait."""

log: logging.Logger = logging.getLogger(__name__)


class Lent(NamedTuple):
    """What a task gets.

    Attributes:
        producer: It sends the rows.
        window: How many of them may wait for answers, as the tasks before have learned.
    """

    producer: RowProducer
    window: Window


@dataclass
class _Pooled:
    producer: RowProducer
    window: Window
    lease_count: int
    last_used_ms: int
    is_discarded: bool = False


class ProducerPool:
    """Producers by key; made on first use, closed when idle, when failed, or with the pool.

    Args:
        make_producer: Builds a producer from properties.
        clock: To tell which ones are idle, and where the thread waits until the next is.
        idle_ms: How long an unused producer stays open.
        start_thread: Starts the thread that closes them.
    """

    def __init__(self, make_producer: Callable[[Mapping[str, object]], RowProducer], *, clock: Clock | None = None,
                 idle_ms: int = IDLE_MS, start_thread: StartThread = start_daemon) -> None:
        self._make_producer = make_producer
        self._clock = clock or SystemClock()
        self._idle_ms = idle_ms
        self._start_thread = start_thread
        self._begin()

    def _begin(self) -> None:
        self._lock = threading.Lock()  # guards the two below; nothing that waits is called under it
        self._pooled: dict[str, _Pooled] = {}
        self._is_watched = False  # by the thread, which ends when nothing is idle
        self._closing = Waiters()
        self._pid = os.getpid()

    @contextmanager
    def lease(self, key: str, props: Mapping[str, object], *,
              pool_size: int = DEFAULT_POOL_SIZE) -> Iterator[Lent]:
        """Lend the producer of a key for one task; one that leaves with an exception is not lent again.

        Args:
            key: Which one.
            props: What it is made with, if there is none.
            pool_size: How many there may be, this one included, unless more are in use.
        """
        self._forget_after_fork()
        now_ms = self._clock.now_ms()
        with self._lock:
            pooled = self._pooled.get(key)
            if pooled is None:
                # The constructor touches no network, so it may run under the lock. It may raise, as where a trust store
                # is not on this worker: nothing is taken out before.
                producer = self._make_producer(props)
                pooled = self._pooled[key] = _Pooled(producer, Window.of(producer.config()), 0, now_ms)
            pooled.lease_count += 1
            idle = self._take_idle(key, now_ms, pool_size)
        try:
            _close_all(idle)
            yield Lent(pooled.producer, pooled.window)
        except BaseException:
            # A failed task may leave a producer that is fenced or out of sequence: the next task gets a new one.
            with self._lock:
                pooled.is_discarded = True
                if self._pooled.get(key) is pooled:
                    del self._pooled[key]
            raise
        finally:
            with self._lock:
                pooled.lease_count -= 1
                pooled.last_used_ms = self._clock.now_ms()
                is_last = pooled.is_discarded and pooled.lease_count == 0
                begins_to_watch = not (pooled.is_discarded or self._is_watched)
                self._is_watched |= begins_to_watch
            if begins_to_watch:
                self._watch()
            if is_last:
                _close(pooled.producer)

    def close(self) -> None:
        """Close every producer that is not in use."""
        self._forget_after_fork()
        with self._lock:
            unused = [key for key, pooled in self._pooled.items() if pooled.lease_count == 0]
            producers = [self._pooled.pop(key).producer for key in unused]
        self._closing.ring()
        _close_all(producers)

    def _watch(self) -> None:
        """Start the thread that closes what is idle."""
        try:
            self._start_thread(self._close_idle, "pyproducer-pool")
        except RuntimeError as error:  # no thread can be had
            log.warning("producers that are idle are closed at the next task only: %s", error)
            with self._lock:
                self._is_watched = False

    def _close_idle(self) -> None:
        """Close each producer when it was not used for long; end when no unused one is left."""
        while True:
            cell = self._closing.enter()
            with self._lock:
                now_ms = self._clock.now_ms()
                idle = self._take_idle(None, now_ms, len(self._pooled))
                last_used_ms = [pooled.last_used_ms for pooled in self._pooled.values() if pooled.lease_count == 0]
                self._is_watched = bool(last_used_ms)
            try:
                _close_all(idle)
            except Exception:
                # Nobody waits for this thread, and the others' time comes.
                log.exception("a producer that was idle could not be closed")
            if not last_used_ms:
                return
            self._clock.wait(cell, (min(last_used_ms) + self._idle_ms - now_ms) / 1000)

    def _take_idle(self, wanted_key: str | None, now_ms: int, pool_size: int) -> list[RowProducer]:
        """Take out what was not used for long, and what there is no room for; the longest unused first."""
        unused = sorted((pooled.last_used_ms, key) for key, pooled in self._pooled.items()
                        if key != wanted_key and pooled.lease_count == 0)
        too_many = len(self._pooled) - pool_size
        return [self._pooled.pop(key).producer for place, (last_used_ms, key) in enumerate(unused)
                if place < too_many or now_ms - last_used_ms >= self._idle_ms]

    def _forget_after_fork(self) -> None:
        """Drop what another process made: its threads do not exist here, and its lock may never be released."""
        if self._pid != os.getpid():
            self._begin()


def _close_all(producers: Sequence[RowProducer]) -> None:
    """Close each, also where closing one before it raises; they are in no pool any more, so nobody else would."""
    with ExitStack() as closing:
        for producer in reversed(producers):  # a stack: the first of them is closed first
            closing.callback(_close, producer)


def _close(producer: RowProducer) -> None:
    """Close a producer that no task has any more; what it tells of records was told by the task that sent them."""
    try:
        producer.close(CLOSE_TIMEOUT_S)
    except DeliveryFailedError as error:
        # With pyproducer.on.unretrieved=raise. It is closed; another task's failure must not take its place.
        log.warning("a producer was closed: %s", error)
