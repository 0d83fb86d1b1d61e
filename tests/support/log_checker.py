"""Reads a topic back through librdkafka and proves what a log owes to those who wrote it.

Thread:  the test's.
Source:  ours. The reader is librdkafka's consumer, which shares no line with the code under test.

No import of pytest.
"""

from __future__ import annotations

import collections
import time
from collections.abc import Hashable, Iterable, Iterator, Mapping
from typing import NamedTuple

from tests.support.patience import GIVE_UP_S

BATCH_COUNT = 20_000


class StoredRecord(NamedTuple):
    """One record as the consumer gave it; timestamp is epoch ms."""

    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


class LogProblem(AssertionError):
    """The log is not what was sent."""


def read_topic(bootstrap_servers: str, topic: str, *, consumer_settings: Mapping[str, object] | None = None,
               timeout_s: float = GIVE_UP_S) -> list[StoredRecord]:
    """Read every record of a topic, partition by partition, from its first offset to its high watermark.

    Raises:
        TimeoutError: The topic is not there, or not all was read in time.

    Shape: sorted by partition, then offset. Offsets need not be dense (control batches take some).
    """
    return sorted(iter_topic(bootstrap_servers, topic, consumer_settings=consumer_settings, timeout_s=timeout_s))


def read_committed(bootstrap_servers: str, topic: str, *, is_one_open: bool = False) -> list[StoredRecord]:
    """Read what a consumer sees of a topic who reads committed records.

    A broker answers EndTxn before the markers are written, so it waits until no transaction of the topic is open.

    Args:
        bootstrap_servers: Of the cluster.
        topic: The topic.
        is_one_open: Whether a transaction is left open on purpose: nothing is waited for then.

    Raises:
        TimeoutError: The topic is not there, a transaction stays open, or not all was read in time.
    """
    if not is_one_open:
        _await_markers(bootstrap_servers, topic)
    return read_topic(bootstrap_servers, topic, consumer_settings={"isolation.level": "read_committed"})


def iter_topic(bootstrap_servers: str, topic: str, *, consumer_settings: Mapping[str, object] | None = None,
               timeout_s: float = GIVE_UP_S) -> Iterator[StoredRecord]:
    """Yield every record of a topic as it comes; those of a partition in their order.

    Raises:
        TimeoutError: The topic is not there, or not all was read in time.
    """
    from confluent_kafka import Consumer, TopicPartition

    deadline = time.monotonic() + timeout_s
    consumer = Consumer({
        "bootstrap.servers": bootstrap_servers, "group.id": "log-checker", "enable.auto.commit": False,
        "enable.partition.eof": True, "auto.offset.reset": "error", "check.crcs": True, "log_level": 0,
        "fetch.wait.max.ms": 50, "isolation.level": "read_uncommitted", **(consumer_settings or {})})
    try:
        wanted: dict[int, int] = {}
        starts: list[TopicPartition] = []
        for partition in _partitions(consumer, topic, deadline):
            low, high = _watermarks(consumer, TopicPartition(topic, partition), deadline)
            if high > low:
                wanted[partition] = high
                starts.append(TopicPartition(topic, partition, low))
        consumer.assign(starts)
        yield from _read(consumer, wanted, deadline, topic)
    finally:
        consumer.close()


def stored_count(bootstrap_servers: str, topic: str, partition_count: int) -> int:
    """Return how many offsets a topic has taken, without reading it."""
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer({"bootstrap.servers": bootstrap_servers, "group.id": "counts", "log_level": 0})
    try:
        return sum(consumer.get_watermark_offsets(TopicPartition(topic, number), timeout=GIVE_UP_S)[1]
                   for number in range(partition_count))
    finally:
        consumer.close()


def check_log(sent: Iterable[Hashable], stored: Iterable[Hashable], *,
              may_be_lost: Iterable[Hashable] = ()) -> None:
    """Check that a log holds every acknowledged record exactly once; one identity that was sent twice, twice.

    Args:
        sent: The identities of the acknowledged records.
        stored: The identities found in the log.
        may_be_lost: Identities whose send failed with an unknown outcome: at most once.

    Raises:
        LogProblem: A record is lost, stored twice, or was never sent; the text has counts and examples.
    """
    expected = collections.Counter(list(sent))  # a list: of a dict the keys count, and not its values
    found = collections.Counter(list(stored))
    optional = set(may_be_lost)
    lost = [identity for identity, count in expected.items() if found[identity] < count]
    doubled = [identity for identity, count in found.items() if count > max(1, expected.get(identity, 0))]
    strange = [identity for identity in found if identity not in expected and identity not in optional]
    faults = {"lost": lost, "stored more than once": doubled, "never sent": strange}
    problems = [f"{len(group)} {what} (for example {group[:5]!r})" for what, group in faults.items() if group]
    if problems:
        raise LogProblem(f"of {sum(expected.values())} acknowledged records: " + ", ".join(problems))


def check_order(numbered: Iterable[tuple[Hashable, int]], what: str = "key") -> None:
    """Check that the numbers of each group rise in the order given, the order of the log.

    Args:
        numbered: Pairs of group (a key, a partition) and number, in log order.
        what: The word for a group in the message.

    Raises:
        LogProblem: A number is not above the one before it in its group.
    """
    last: dict[Hashable, int] = {}
    for group, number in numbered:
        before = last.get(group, -1)
        if number <= before:
            raise LogProblem(f"{what} {group!r}: number {number} lies behind {before} in the log")
        last[group] = number


def _partitions(consumer: object, topic: str, deadline: float) -> list[int]:
    while True:
        known = consumer.list_topics(topic, timeout=_left(deadline)).topics[topic]  # type: ignore[attr-defined]  # no stubs
        if known.error is None and known.partitions:
            return sorted(known.partitions)
        if time.monotonic() > deadline:
            raise TimeoutError(f"topic {topic} cannot be read: {known.error or 'it has no partitions'}")
        time.sleep(0.05)


def _watermarks(consumer: object, partition: object, deadline: float) -> tuple[int, int]:
    """A broker that was killed or paused just before may lead nothing for a moment."""
    from confluent_kafka import KafkaException

    while True:
        try:
            low, high = consumer.get_watermark_offsets(partition, timeout=_left(deadline))  # type: ignore[attr-defined]  # no stubs
        except KafkaException:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)
        else:
            return low, high


def _await_markers(bootstrap_servers: str, topic: str) -> None:
    """Wait until the last stable offset of each partition is its high watermark."""
    from confluent_kafka import Consumer, TopicPartition

    deadline = time.monotonic() + GIVE_UP_S
    all_records, stable_records = (Consumer({
        "bootstrap.servers": bootstrap_servers, "group.id": "log-checker", "log_level": 0, "isolation.level": level})
        for level in ("read_uncommitted", "read_committed"))
    try:
        for number in _partitions(all_records, topic, deadline):
            partition = TopicPartition(topic, number)
            _, end = _watermarks(all_records, partition, deadline)
            while (stable := _watermarks(stable_records, partition, deadline)[1]) < end:
                if time.monotonic() > deadline:
                    raise TimeoutError(f"{topic}-{number}: a transaction is open at {stable}, before the end {end}")
                time.sleep(0.01)
    finally:
        all_records.close()
        stable_records.close()


def _read(consumer: object, wanted: dict[int, int], deadline: float, topic: str) -> Iterator[StoredRecord]:
    from confluent_kafka import KafkaError, KafkaException

    read_count = 0
    while wanted:
        if time.monotonic() > deadline:
            raise TimeoutError(f"topic {topic}: {read_count} records read, and these partitions are not read up to "
                               f"their ends: {wanted}")
        for message in consumer.consume(BATCH_COUNT, timeout=0.2):  # type: ignore[attr-defined]  # no stubs
            error = message.error()
            if error is None:
                headers = tuple((name, value) for name, value in message.headers() or ())
                read_count += 1
                yield StoredRecord(message.partition(), message.offset(), message.timestamp()[1], message.key(),
                                   message.value(), headers)
                if message.offset() + 1 >= wanted.get(message.partition(), 0):
                    wanted.pop(message.partition(), None)
            elif error.code() == KafkaError._PARTITION_EOF:
                # After control batches the last record lies before the end.
                wanted.pop(message.partition(), None)
            else:
                raise KafkaException(error)


def _left(deadline: float) -> float:
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError("no time left to read the topic")
    return left
