"""What the application brings along: interceptors, a serializer and a partitioner of its own, some of which raise.

Each notes what it was asked, by what tells a record from all others; what must be of that is checked at the end.

    interceptor    on_send once for each record that send() or send_batch() began with, on_acknowledgement once for each
                   of these; a header that it added is in the log
    serializer     a record for which it raised was refused, and nothing of it is in any log
    partitioner    the record is in the partition that it chose; where it raised the record was not sent
    done callback  once for each future that has one

Source:  ours.
"""

from __future__ import annotations

import random
import zlib
from collections import Counter
from typing import Any

from pyproducer import Cluster, ProducerInterceptor, ProducerRecord, RecordMetadata
from tests.simulation.ledger import identity

ADDED_HEADERS = (("i", b"1"),)
ADDED_IN_LOG = b"\x02\x02i\x021"  # one header, and the lengths and bytes of its parts
_FAILURES = 0.03


class SimulatedFailure(Exception):
    """What code of the application raises: a record of it is not sent."""

    def __init__(self) -> None:
        super().__init__("simulated")


class Application:
    """All of it, for one producer.

    Args:
        powers: Which of it there is.
        chance: Its own stream.

    Attributes:
        added: Records to which the interceptor added a header.
        broken: Records for which the serializer raised.
        chosen: Partitions that the partitioner chose, by record, the last one.
        sent, acknowledged: What the interceptor saw: records, and how many outcomes.
        is_calm: Whether nothing of it raises any more.
    """

    def __init__(self, powers: frozenset[str], chance: random.Random) -> None:
        self._powers = powers
        self._chance = chance
        self.added: set[bytes] = set()
        self.broken: set[bytes] = set()
        self.chosen: dict[bytes, int] = {}
        self.sent: Counter[bytes] = Counter()
        self.acknowledged = 0
        self.is_calm = False

    def props(self) -> dict[str, Any]:
        """Return the settings that name it."""
        props: dict[str, Any] = {}
        if "interceptor" in self._powers:
            props["interceptor.classes"] = [_Interceptor(self)]
        if "partitioner" in self._powers:
            props["partitioner.class"] = self.partition
        return props

    @property
    def value_serializer(self) -> Any:
        """The serializer of values, or None."""
        return self.serialize if "serializer" in self._powers else None

    def fails(self) -> bool:
        """Whether code of the application raises here."""
        return not self.is_calm and self._chance.random() < _FAILURES

    def serialize(self, value: bytes | None) -> bytes | None:
        """Serialize a value."""
        if value is not None and self.fails():
            self.broken.add(value)
            raise SimulatedFailure
        return value

    def partition(self, topic: str, _key: Any, key_bytes: bytes | None, _value: Any, value_bytes: bytes | None,
                  cluster: Cluster) -> int:
        """Choose a partition by what the record is."""
        if self.fails():
            raise SimulatedFailure
        record = identity(value_bytes, key_bytes)
        chosen = zlib.crc32(record) % len(cluster.partitions_for_topic(topic))
        self.chosen[record] = chosen
        return chosen

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        """See a record, and perhaps add a header."""
        known = identity(record.value, record.key)
        self.sent[known] += 1
        if self.fails():
            raise SimulatedFailure
        if not self.is_calm and self._chance.random() < 0.2 and not record.headers:
            self.added.add(known)
            return ProducerRecord(record.topic, record.value, record.key, partition=record.partition,
                                  timestamp=record.timestamp, headers=ADDED_HEADERS)
        return record


class _Interceptor(ProducerInterceptor):
    def __init__(self, application: Application) -> None:
        self._application = application

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        return self._application.on_send(record)

    def on_acknowledgement(self, _metadata: RecordMetadata | None, _exception: BaseException | None) -> None:
        self._application.acknowledged += 1
        if self._application.fails():
            raise SimulatedFailure
