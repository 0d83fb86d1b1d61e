"""The thread that lets go what is old, and compacts logs, while nobody asks for it.

Old are segments, what producer ids wrote last, committed offsets and transactional ids.

Road:    topic table -> [log manager] -> log -> retention, compaction; group and transaction coordinator
Thread:  one of its own, which sleeps between its rounds; tests call `run_retention` and `run_compaction` themselves.
Source:  Java LogManager.cleanupLogs, LogCleaner; UnifiedLog.removeExpiredProducers, GroupCoordinatorShard.
         cleanupGroupMetadata, TransactionStateManager.removeExpiredTransactionalIds (4.1), on one thread.
         Differs from Java: segments are removed at once, not a minute later (file.delete.delay.ms): a reader that is
         under way keeps the file open.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from pyproducer.broker.cluster.config import BrokerConfig
from pyproducer.broker.cluster.coordinator.group.coordinator import GroupCoordinator
from pyproducer.broker.cluster.coordinator.transaction.coordinator import TransactionCoordinator
from pyproducer.broker.cluster.topic_table import TopicTable
from pyproducer.broker.storage.compaction import compact
from pyproducer.broker.storage.log import Log
from pyproducer.common.clock import Clock

_logger = logging.getLogger(__name__)


class _Task:
    """Something that is done again and again; the first time one interval from now."""

    def __init__(self, run: Callable[[int], int], interval_ms: int, now_ms: int) -> None:
        self.run = run
        self.interval_ms = interval_ms
        self.next_ms = now_ms + interval_ms


class LogManager:
    """Looks after the logs of a cluster.

    Args:
        config: How often.
        clock: The clocks.
        topics: Whose logs.
        group_coordinator: Has offsets that expire.
        transactions: Has transactional ids that expire.
    """

    def __init__(self, config: BrokerConfig, clock: Clock, topics: TopicTable, group_coordinator: GroupCoordinator,
                 transactions: TransactionCoordinator) -> None:
        self._config = config
        self._clock = clock
        self._topics = topics
        self._group_coordinator = group_coordinator
        self._transactions = transactions
        self._stop_requested = threading.Event()
        self._is_moved = threading.Event()  # the clock was moved, or a stop was requested: look again
        self._tasks: list[_Task] = []
        self._lock = threading.Lock()  # guards the tasks: one is run at a time
        self._thread = threading.Thread(target=self._run, name="kafka-log-manager", daemon=True)

    def start(self) -> None:
        """Start the thread; the first round is one interval later."""
        config, clock = self._config, self._clock
        self._tasks += [_Task(run, config.number(interval), clock.now_ms()) for run, interval in (
            (self.run_retention, "log.retention.check.interval.ms"),
            (self.run_producer_expiration, "producer.id.expiration.check.interval.ms"),
            (self._group_coordinator.expire_offsets, "offsets.retention.check.interval.ms"),
            (self._transactions.expire_ids, "transaction.remove.expired.transaction.cleanup.interval.ms"))]
        if config.switch("log.cleaner.enable"):
            self._tasks.append(_Task(self.run_compaction, config.number("log.cleaner.backoff.ms"), clock.now_ms()))
        self._thread.start()

    def stop(self) -> None:
        """End the thread, after the log that it is working on."""
        self._stop_requested.set()
        self._is_moved.set()
        if self._thread.is_alive():
            self._thread.join()

    def run_retention(self, timestamp_ms: int) -> int:
        """Delete what the retention of each log lets go; return how many segments that were.

        Args:
            timestamp_ms: The wall clock.
        """
        return self._for_each_log(lambda log: log.delete_old_segments(timestamp_ms))

    def run_compaction(self, timestamp_ms: int) -> int:
        """Compact the logs that are worth it; return how many bytes that freed.

        Args:
            timestamp_ms: The wall clock.
        """
        return self._for_each_log(lambda log: compact(log, timestamp_ms) if log.config.is_compacted else 0)

    def run_producer_expiration(self, timestamp_ms: int) -> int:
        """Forget the producer ids of each log that have not written for long; return how many.

        Args:
            timestamp_ms: The wall clock.
        """
        expiration_ms = self._config.number("producer.id.expiration.ms")
        return self._for_each_log(lambda log: log.remove_expired_producers(timestamp_ms, expiration_ms))

    def _for_each_log(self, step: Callable[[Log], int]) -> int:
        total = 0
        for topic in list(self._topics.values()):
            for partition in topic.partitions:
                if self._stop_requested.is_set():
                    return total
                try:
                    total += step(partition.log)
                except Exception:
                    # One log that fails (a full disk, a broken file) must not keep the others from their turn.
                    _logger.exception("Could not look after the log of %s", partition.topic_partition)
        return total

    def run_due(self) -> None:
        """Do what is due, each thing once, on the caller's thread: the clock was moved."""
        clock = self._clock
        with self._lock:
            for task in sorted(self._tasks, key=lambda one: one.next_ms):
                if task.next_ms > clock.now_ms() or self._stop_requested.is_set():
                    break
                try:
                    task.run(clock.timestamp_ms())
                except Exception:  # another time; the other tasks must have theirs
                    _logger.exception("Could not let go what is old")
                task.next_ms = clock.now_ms() + task.interval_ms
        self._is_moved.set()

    def _run(self) -> None:
        clock = self._clock
        while not self._stop_requested.is_set():
            with self._lock:
                next_ms = min(task.next_ms for task in self._tasks)
            self._is_moved.wait(min(max(next_ms - clock.now_ms(), 0) / 1000, threading.TIMEOUT_MAX))
            self._is_moved.clear()
            self.run_due()
            self._is_moved.clear()
