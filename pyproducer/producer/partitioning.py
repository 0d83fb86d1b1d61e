"""Asks the partitioner, the application's or ours, and checks what it says.

Road:    RecordSender, WaitingRoom -> [Partitioning] -> Partitioner
Thread:  choose: any. All else: any caller of send(), or of send_batch().
Source:  Java KafkaProducer.partition (4.1).
"""

from __future__ import annotations

import operator
import reprlib
from collections.abc import Callable
from functools import partial
from typing import Any

from pyproducer.accumulator.life import Life
from pyproducer.common.cluster import Cluster
from pyproducer.common.errors import PartitionerError
from pyproducer.common.sender_log import SenderLog, sender_log
from pyproducer.hotpath import NO_HASH, Route
from pyproducer.producer.partitioners import (
    OUR_PARTITIONERS,
    Crc32Partitioner,
    DefaultPartitioner,
    Murmur2RandomPartitioner,
    Partitioner,
    RoundRobinPartitioner,
    UniformStickyPartitioner,
)

log: SenderLog = sender_log(__name__)

_ROUTED = frozenset({Crc32Partitioner, DefaultPartitioner, Murmur2RandomPartitioner, RoundRobinPartitioner,
                     UniformStickyPartitioner})
"""Whose choice the road makes itself; a subclass's may be another. One has a lock of ours, which the sender needs for
records that wait: a caller who has it is in a call of the life's."""


class Partitioning:
    """The partitioner of one producer.

    Args:
        partitioner: Chooses where a record names no partition.
        life: The producer's.

    Attributes:
        partitioner: See the argument.
        on_append: Tells the partitioner of a record that is in its batch; None where it has nothing for that. On the
            sender thread.
        on_append_in_call: The same, in a call of a caller's.
    """

    def __init__(self, partitioner: Partitioner, life: Life) -> None:
        self.partitioner: Partitioner = partitioner
        self._raises = type(partitioner) not in OUR_PARTITIONERS  # ours raise nothing: there it comes from outside
        self._is_routed = type(partitioner) in _ROUTED
        self._partition = partitioner.partition
        self._life = life
        on_append = getattr(partitioner, "on_append", None)
        self.on_append: Callable[..., None] | None = None
        self.on_append_in_call: Callable[..., None] | None = None
        if on_append is not None:
            self.on_append = partial(self._tell, BaseException, on_append)  # no signal arrives on that thread
            tell = self._ask if self._is_routed else partial(self._tell, Exception)
            self.on_append_in_call = partial(tell, on_append)

    @property
    def hears_each_record(self) -> bool:
        """Whether it wants to hear of each record: the application's; ours is told by the road."""
        return self.on_append is not None and type(self.partitioner) is not UniformStickyPartitioner

    def route(self, topic: str, cluster: Cluster, count: int) -> Route:
        """Return the route of a topic that a snapshot knows."""
        if not self._is_routed:
            return Route(count, NO_HASH)
        route: Route = self.partitioner.route(topic, cluster)  # type: ignore[attr-defined]  # those have it
        return route

    def choose(self, topic: str, key: Any, key_bytes: bytes | None, value: Any, value_bytes: bytes | None,
               cluster: Cluster, count: int) -> int:
        """Ask the partitioner for the partition of a record, and check what it says.

        Raises:
            PartitionerError: The application's raised, or gave no partition of the topic. Not sent.

        Returns:
            A partition below the count. The snapshot need not know it, where it has gaps.
        """
        try:
            partition = self._partition(topic, key, key_bytes, value, value_bytes, cluster)
        except Exception as raised:
            if not self._raises:
                raise
            raise PartitionerError(f"The partitioner {self.partitioner!r} failed for a record for topic {topic!r}: "
                                   f"{type(raised).__name__}: {raised}") from raised
        if type(partition) is not int or not 0 <= partition < count:
            partition = self._checked(partition, topic, count)
        return partition

    def choose_in_call(self, *record: Any) -> int:
        """Do as `choose`, in a call of a caller's."""
        return int(self._ask(self.choose, *record))

    def switch(self, topic: str, cluster: Cluster) -> None:
        """Choose another sticky partition for a topic."""
        self._ask(self.partitioner.switch, topic, cluster)  # type: ignore[attr-defined]  # who has a sticky route

    def on_forked(self) -> None:
        """In a child process: no lock of the parent's stops anybody."""
        if isinstance(self.partitioner, UniformStickyPartitioner):
            self.partitioner.on_forked()

    def _ask(self, ask: Callable[..., Any], *arguments: Any) -> Any:
        return self._life.calls.run("send()", ask, *arguments) if self._is_routed else ask(*arguments)

    def _tell(self, caught: type[BaseException], on_append: Callable[..., object], *record: Any) -> None:
        """Tell the application's partitioner of a record, which goes its way: what is raised is logged."""
        try:
            on_append(*record)
        except caught:
            if self._life.is_forked:  # in the child the sender thread goes no further, see IoThread
                raise
            log.exception("on_append of the partitioner raised")

    def _checked(self, partition: Any, topic: str, count: int) -> int:
        try:
            index = operator.index(partition)
        except Exception as raised:  # no number, or what only looks like one, as an array
            raise PartitionerError(f"The partitioner {self.partitioner!r} gave {reprlib.repr(partition)} for topic "
                                   f"{topic!r}: it must give an int") from raised
        if not 0 <= index < count:
            raise PartitionerError(f"The partitioner {self.partitioner!r} gave partition {index} for topic {topic!r}: "
                                   f"the topic has {count} partitions, so it must be from 0 to {count - 1}")
        return index
