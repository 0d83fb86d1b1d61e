"""Offsets and group metadata of whoever consumes, as send_offsets_to_transaction() takes them.

    confluent-kafka   consumer.consumer_group_metadata()     bytes, see below
                      [TopicPartition(topic, partition, offset, metadata, leader_epoch), ...]; those without a position
                      yet (OFFSET_INVALID) are left out, as librdkafka does
    kafka-python      consumer.group_metadata()              group_id, generation_id, member_id, group_instance_id
                      {TopicPartition: OffsetAndMetadata(offset, metadata, leader_epoch)}
    aiokafka          the AIOKafkaConsumer itself            its coordinator has generation and member_id
                      {TopicPartition: offset or OffsetAndMetadata(offset, metadata)}
    any               ConsumerGroupMetadata, or a tuple of its fields; or the group's id alone
                      {TopicPartition or (topic, partition): offset or OffsetAndMetadata}

With the group's id alone a coordinator does not see that a member was replaced: then two consumers may commit the same
records in two transactions. What is not understood is refused by name; nothing is imported of these packages.

Wire:    librdkafka's group metadata: "CGMDv2:", the generation as an int32 in the host's byte order, group.id and
         member.id, each ended by NUL, one byte that is 1 where there is no group.instance.id, else that, ended by NUL.
Road:    consumer -> [these] -> Transactions
Thread:  pure functions.
Source:  ours; Java's types allow nothing else.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from typing import Any

from pyproducer.common.cluster import TopicPartition
from pyproducer.common.consumer_offsets import NO_LEADER_EPOCH, ConsumerGroupMetadata, OffsetAndMetadata
from pyproducer.common.kafka_string import ensure_string
from pyproducer.common.records import to_topic

_LIBRDKAFKA = b"CGMDv2:"
_INVALID = -1001  # what consumer.position() of confluent-kafka says where nothing was read yet
_LOGICAL = {-1: "OFFSET_END", -2: "OFFSET_BEGINNING", -1000: "OFFSET_STORED", _INVALID: "OFFSET_INVALID"}
_HOW = ("pass consumer.consumer_group_metadata() of confluent-kafka, consumer.group_metadata() of kafka-python, an "
        "AIOKafkaConsumer, or ConsumerGroupMetadata(group_id, generation_id, member_id, group_instance_id)")
_MOST_OFFSET = 2**63 - 1
_LEAST, _MOST = -2**31, 2**31 - 1  # of an INT32: partitions, generations, epochs


def to_group_metadata(given: Any) -> ConsumerGroupMetadata:
    """Return who consumes.

    Raises:
        TypeError: It is of no kind that is known here.
        ValueError: It is, and makes no sense; or the consumer has no group.
    """
    if isinstance(given, (bytes, bytearray)):
        found = _of_librdkafka(bytes(given))
    elif isinstance(given, str):
        found = ConsumerGroupMetadata(given)
    elif isinstance(given, ConsumerGroupMetadata):
        found = given
    elif all(hasattr(given, name) for name in ("group_id", "generation_id", "member_id")):
        found = ConsumerGroupMetadata(given.group_id, given.generation_id, given.member_id,
                                      getattr(given, "group_instance_id", None))
    elif type(given) is tuple and 1 <= len(given) <= len(ConsumerGroupMetadata._fields):
        found = ConsumerGroupMetadata(*given)
    else:
        found = _of_aiokafka(given)
    return _checked(found)


def _of_librdkafka(given: bytes) -> ConsumerGroupMetadata:
    """Read what confluent-kafka's consumers give; see Wire above."""
    try:
        if not given.startswith(_LIBRDKAFKA):
            raise ValueError("it does not begin with CGMDv2:")
        rest = given[len(_LIBRDKAFKA):]
        (generation_id,) = struct.unpack_from("=i", rest)
        group_id, member_id, rest = rest[4:].split(b"\0", 2)
        has_no_instance, instance_id = rest[0], None
        if not has_no_instance:
            instance, end = rest[1:].split(b"\0", 1)
            instance_id = instance.decode()
        else:
            end = rest[1:]
        if end:
            raise ValueError(f"{len(end)} bytes follow")
        return ConsumerGroupMetadata(group_id.decode(), generation_id, member_id.decode(), instance_id)
    except (ValueError, IndexError, struct.error) as cause:
        raise ValueError(f"these bytes are no group metadata of librdkafka ({cause}): {given[:60]!r}; {_HOW}") from None


def _of_aiokafka(given: Any) -> ConsumerGroupMetadata:
    if type(given).__module__.partition(".")[0] != "aiokafka" or not hasattr(given, "_group_id"):
        raise TypeError(f"group_metadata is a {type(given).__name__}, which is not known here: {_HOW}")
    coordinator: Any = getattr(given, "_coordinator", None)
    if given._group_id is None or not hasattr(coordinator, "generation"):
        raise ValueError("this AIOKafkaConsumer has no group, or was not started: its offsets cannot be committed")
    return ConsumerGroupMetadata(given._group_id, coordinator.generation, coordinator.member_id,
                                 getattr(coordinator, "_group_instance_id", None))


def _checked(found: ConsumerGroupMetadata) -> ConsumerGroupMetadata:
    group_id, generation_id, member_id, instance_id = found
    if group_id is None:
        raise ValueError("the consumer has no group.id: its offsets cannot be committed")
    for name, value in (("group_id", group_id), ("member_id", member_id)):
        if not isinstance(value, str):
            raise TypeError(f"{name} of the group metadata must be a str, got {type(value).__name__}")
        ensure_string(f"{name} of the group metadata", value)
    if not group_id:
        raise ValueError("group_id of the group metadata is empty")
    if type(generation_id) is not int:
        raise TypeError(f"generation_id of the group metadata must be an int, got {type(generation_id).__name__}")
    if not _LEAST <= generation_id <= _MOST:
        raise ValueError(f"generation_id of the group metadata is {generation_id}: it must be {_LEAST} to {_MOST}")
    if instance_id is not None and not isinstance(instance_id, str):
        raise TypeError(f"group_instance_id must be a str or None, got {type(instance_id).__name__}")
    ensure_string("group_instance_id", instance_id or "")
    if generation_id > 0 and not member_id:
        raise ValueError(f"generation {generation_id} of group {group_id!r} without a member_id: a coordinator would "
                         "refuse it")
    return found


def to_offsets(given: Any) -> dict[TopicPartition, OffsetAndMetadata]:
    """Return up to where partitions were consumed: each the offset of the next record to read.

    Raises:
        TypeError: It is neither a mapping nor a list of TopicPartitions, or a part has the wrong type.
        ValueError: An offset is negative, or stands for another one; or a partition is given twice.
    """
    found: dict[TopicPartition, OffsetAndMetadata] = {}
    for place, offset in _pairs(given):
        if place in found:
            raise ValueError(f"there are two offsets for {place}")
        found[place] = offset
    return found


def _pairs(given: Any) -> Iterable[tuple[TopicPartition, OffsetAndMetadata]]:
    if isinstance(given, Mapping):
        for place, offset in given.items():
            found = _place(place)
            if isinstance(offset, int):
                yield found, _offset(found, offset, "", None)
            elif hasattr(offset, "offset"):
                yield found, _offset(found, offset.offset, getattr(offset, "metadata", ""),
                                     getattr(offset, "leader_epoch", None))
            else:
                raise TypeError(f"the offset of {found} must be an int or an OffsetAndMetadata, got "
                                f"{type(offset).__name__}")
    elif isinstance(given, (list, tuple)):
        for place in given:
            if not hasattr(place, "offset"):
                raise TypeError(f"a list of offsets holds TopicPartitions of confluent-kafka, got a "
                                f"{type(place).__name__}")
            found = _place(place)
            if place.offset != _INVALID:
                yield found, _offset(found, place.offset, getattr(place, "metadata", ""),
                                     getattr(place, "leader_epoch", None))
    else:
        raise TypeError("offsets are a dict of TopicPartitions and offsets, or a list of confluent-kafka's "
                        f"TopicPartitions, got {type(given).__name__}")


def _place(given: Any) -> TopicPartition:
    topic: Any = getattr(given, "topic", None)
    partition: Any = getattr(given, "partition", None)
    if topic is None and isinstance(given, tuple) and len(given) == 2:
        topic, partition = given
    if type(partition) is not int:
        raise TypeError(f"offsets are those of partitions, got {given!r}")
    if not 0 <= partition <= _MOST:
        raise ValueError(f"partition {partition} of {topic!r} is out of range")
    name = to_topic(topic)
    ensure_string("topic", name)
    return TopicPartition(name, partition)


def _offset(place: TopicPartition, offset: Any, metadata: Any, leader_epoch: Any) -> OffsetAndMetadata:
    if isinstance(offset, bool) or not isinstance(offset, int):
        raise TypeError(f"the offset of {place} must be an int, got {type(offset).__name__}")
    if offset in _LOGICAL:
        raise ValueError(f"the offset of {place} is {offset}, which stands for {_LOGICAL[offset]}: pass that of the "
                         "next record to read, one more than the last one's")
    if not 0 <= offset <= _MOST_OFFSET:
        raise ValueError(f"the offset of {place} is {offset}: it must be that of the next record to read, 0 or more")
    if metadata is not None and not isinstance(metadata, str):
        raise TypeError(f"the metadata of {place} must be a str or None, got {type(metadata).__name__}")
    ensure_string(f"the metadata of {place}", metadata or "")
    if leader_epoch is not None and (isinstance(leader_epoch, bool) or not isinstance(leader_epoch, int)):
        raise TypeError(f"the leader epoch of {place} must be an int or None, got {type(leader_epoch).__name__}")
    if not _LEAST <= (leader_epoch or 0) <= _MOST:
        raise ValueError(f"the leader epoch of {place} is {leader_epoch}: it must be {_LEAST} to {_MOST}")
    return OffsetAndMetadata(offset, "" if metadata is None else metadata,
                             NO_LEADER_EPOCH if leader_epoch is None else leader_epoch)
