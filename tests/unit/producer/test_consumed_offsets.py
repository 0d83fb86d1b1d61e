"""Offsets and group metadata of every consumer that people use: the real ones where they are installed."""

from __future__ import annotations

import struct
from types import SimpleNamespace
from typing import Any

import pytest

from pyproducer.common.cluster import TopicPartition
from pyproducer.common.consumer_offsets import ConsumerGroupMetadata, OffsetAndMetadata
from pyproducer.producer.consumed_offsets import to_group_metadata, to_offsets


def librdkafka(group: str, generation: int, member: str, instance: str | None) -> bytes:
    """What librdkafka 2.x writes; test_group_metadata_when_it_is_confluents compares it with the real thing."""
    tail = b"\1" if instance is None else b"\0" + instance.encode() + b"\0"
    return b"CGMDv2:" + struct.pack("=i", generation) + group.encode() + b"\0" + member.encode() + b"\0" + tail


@pytest.mark.parametrize("instance", [None, "host-1", "h\u00f6st"])
@pytest.mark.parametrize("generation", [-1, 1, 258, 2**31 - 1])
def test_group_metadata_when_it_is_librdkafkas_then_each_field_is_read(generation: int, instance: str | None) -> None:
    given = librdkafka("readers\u00e9", generation, "rdkafka-1-\0".strip("\0"), instance)
    assert to_group_metadata(given) == ("readers\u00e9", generation, "rdkafka-1-", instance)
    assert to_group_metadata(bytearray(given)) == to_group_metadata(given)


@pytest.mark.parametrize("settings", [{}, {"group.instance.id": "host-1"}])
def test_group_metadata_when_it_is_confluents_then_it_is_understood(settings: dict[str, str]) -> None:
    confluent_kafka = pytest.importorskip("confluent_kafka")
    consumer = confluent_kafka.Consumer({"bootstrap.servers": "127.0.0.1:1", "group.id": "readers", "log_level": 0,
                                         **settings})
    try:
        given = consumer.consumer_group_metadata()
    finally:
        consumer.close()
    assert to_group_metadata(given) == ("readers", -1, "", settings.get("group.instance.id"))
    assert given == librdkafka("readers", -1, "", settings.get("group.instance.id"))


def test_offsets_when_confluents_consumer_has_no_position_yet_then_they_are_left_out() -> None:
    """Its idiom, consumer.position(consumer.assignment()), was refused until each partition had been read from."""
    confluent_kafka = pytest.importorskip("confluent_kafka")
    consumer = confluent_kafka.Consumer({"bootstrap.servers": "127.0.0.1:1", "group.id": "readers", "log_level": 0})
    try:
        position = consumer.position([confluent_kafka.TopicPartition("t", 0), confluent_kafka.TopicPartition("t", 1)])
    finally:
        consumer.close()
    assert to_offsets(position) == {}
    assert to_offsets([*position[:1], confluent_kafka.TopicPartition("t", 1, 5)]) == {
        ("t", 1): OffsetAndMetadata(5, "", -1)}


def test_offsets_when_a_list_has_logical_ones_then_those_without_a_position_alone_are_left_out() -> None:
    assert to_offsets([SimpleNamespace(topic="t", partition=0, offset=-1001)]) == {}
    with pytest.raises(ValueError, match="OFFSET_END"):
        to_offsets([SimpleNamespace(topic="t", partition=0, offset=-1)])


def test_group_metadata_when_it_is_kafka_pythons_then_it_is_understood() -> None:
    structs = pytest.importorskip("kafka.structs")
    given = structs.ConsumerGroupMetadata(group_id="readers", generation_id=3, member_id="m", group_instance_id="i",
                                          state="<stable>")
    assert to_group_metadata(given) == ConsumerGroupMetadata("readers", 3, "m", "i")
    with pytest.raises(ValueError, match=r"no group\.id"):
        to_group_metadata(structs.ConsumerGroupMetadata(group_id=None))


def test_group_metadata_when_it_is_an_aiokafka_consumer_then_its_coordinator_is_asked() -> None:
    aiokafka = pytest.importorskip("aiokafka")
    consumer = aiokafka.AIOKafkaConsumer.__new__(aiokafka.AIOKafkaConsumer)  # a real one wants a loop
    consumer._closed = True
    consumer._group_id, consumer._coordinator = "readers", None
    with pytest.raises(ValueError, match="was not started"):
        to_group_metadata(consumer)
    consumer._coordinator = SimpleNamespace(generation=5, member_id="m", _group_instance_id=None)
    assert to_group_metadata(consumer) == ConsumerGroupMetadata("readers", 5, "m")
    consumer._group_id = None
    with pytest.raises(ValueError, match="no group"):
        to_group_metadata(consumer)


@pytest.mark.parametrize(("given", "expected"), [
    ("readers", ConsumerGroupMetadata("readers")),
    (("readers",), ConsumerGroupMetadata("readers")),
    (("readers", 4, "m"), ConsumerGroupMetadata("readers", 4, "m")),
    (ConsumerGroupMetadata("readers", 4, "m", "i"), ConsumerGroupMetadata("readers", 4, "m", "i")),
])
def test_group_metadata_when_it_is_ours_then_it_is_taken(given: Any, expected: ConsumerGroupMetadata) -> None:
    assert to_group_metadata(given) == expected


@pytest.mark.parametrize(("given", "kind", "words"), [
    (b"", ValueError, "no group metadata of librdkafka"),
    (b"CGMDv1:\0\0\0\0g\0m\0\1", ValueError, "does not begin with CGMDv2"),
    (librdkafka("g", 1, "m", None)[:-1], ValueError, "no group metadata of librdkafka"),
    (librdkafka("g", 1, "m", "i")[:-1], ValueError, "no group metadata of librdkafka"),
    (librdkafka("g", 1, "m", None) + b"x", ValueError, "1 bytes follow"),
    (b"CGMDv2:\0\0", ValueError, "no group metadata of librdkafka"),
    (17, TypeError, "a int, which is not known here: pass consumer.consumer_group_metadata"),
    (object(), TypeError, "AIOKafkaConsumer"),
    (None, TypeError, "a NoneType"),
    ("", ValueError, "group_id of the group metadata is empty"),
    ((3,), TypeError, "group_id of the group metadata must be a str, got int"),
    (("g", "4", "m"), TypeError, "generation_id of the group metadata must be an int"),
    (("g", 4, None), TypeError, "member_id of the group metadata must be a str"),
    (("g", 4, ""), ValueError, "generation 4 of group 'g' without a member_id"),
    (("g", 4, "m", 5), TypeError, "group_instance_id must be a str or None"),
])
def test_group_metadata_when_it_is_not_understood_then_it_is_refused_by_name(
        given: Any, kind: type[Exception], words: str) -> None:
    with pytest.raises(kind, match=words):
        to_group_metadata(given)


@pytest.mark.parametrize("generation", [-1, 0])
def test_group_metadata_when_there_was_no_generation_then_nobody_need_be_a_member(generation: int) -> None:
    """Java asks for a member's id from generation 1 on."""
    assert to_group_metadata(("g", generation, "")) == ("g", generation, "", None)


def test_offsets_when_they_are_of_each_client_then_they_are_the_same() -> None:
    expected = {TopicPartition("t", 0): OffsetAndMetadata(5, "note", 2), TopicPartition("t", 1): OffsetAndMetadata(0)}
    assert to_offsets({TopicPartition("t", 0): OffsetAndMetadata(5, "note", 2), TopicPartition("t", 1): 0}) == expected
    assert to_offsets({("t", 0): OffsetAndMetadata(5, "note", 2), ("t", 1): 0}) == expected
    confluent_kafka = pytest.importorskip("confluent_kafka")
    theirs = [confluent_kafka.TopicPartition("t", 0, 5, "note", 2), confluent_kafka.TopicPartition("t", 1, 0)]
    assert to_offsets(theirs) == expected
    kafka = pytest.importorskip("kafka.structs")
    assert to_offsets({kafka.TopicPartition("t", 0): kafka.OffsetAndMetadata(5, "note", 2),
                       kafka.TopicPartition("t", 1): kafka.OffsetAndMetadata(0, None, None)}) == expected
    aiokafka = pytest.importorskip("aiokafka.structs")
    assert to_offsets({aiokafka.TopicPartition("t", 1): aiokafka.OffsetAndMetadata(0, "")}) == {
        TopicPartition("t", 1): OffsetAndMetadata(0)}


@pytest.mark.parametrize(("given", "expected"), [(None, -1), (0, 0), (7, 7)])
def test_offsets_when_they_have_a_leader_epoch_then_it_is_kept_and_none_is_no_epoch(
        given: int | None, expected: int) -> None:
    (told,) = to_offsets({("t", 0): OffsetAndMetadata(5, "", given)}).values()
    assert told.leader_epoch == expected


@pytest.mark.parametrize(("given", "kind", "words"), [
    (None, TypeError, "offsets are a dict of TopicPartitions and offsets"),
    ("t", TypeError, "offsets are a dict of TopicPartitions and offsets"),
    ({"t": 1}, TypeError, "offsets are those of partitions, got 't'"),
    ({("t", -1): 1}, ValueError, "partition -1 of 't' is out of range"),
    ({("t", 2**31): 1}, ValueError, "is out of range"),
    ({("", 0): 1}, ValueError, "topic must not be empty"),
    ({("t", 0): "5"}, TypeError, "the offset of t-0 must be an int or an OffsetAndMetadata, got str"),
    ({("t", 0): True}, TypeError, "must be an int, got bool"),
    ({("t", 0): -1}, ValueError, "is -1, which stands for OFFSET_END"),
    ({("t", 0): -2}, ValueError, "OFFSET_BEGINNING"),
    ({("t", 0): -1000}, ValueError, "OFFSET_STORED"),
    ({("t", 0): -1001}, ValueError, "OFFSET_INVALID: pass that of the next record to read"),
    ({("t", 0): -7}, ValueError, "is -7: it must be that of the next record to read"),
    ({("t", 0): 2**63}, ValueError, "must be that of the next record"),
    ({("t", 0): OffsetAndMetadata(1, b"")}, TypeError, "the metadata of t-0 must be a str or None, got bytes"),
    ({("t", 0): OffsetAndMetadata(1, "", "2")}, TypeError, "the leader epoch of t-0 must be an int or None"),
    ([("t", 0)], TypeError, "a list of offsets holds TopicPartitions of confluent-kafka, got a tuple"),
    ([SimpleNamespace(topic="t", partition=0, offset=1)] * 2, ValueError, "there are two offsets for t-0"),
])
def test_offsets_when_they_make_no_sense_then_they_are_refused(given: Any, kind: type[Exception], words: str) -> None:
    with pytest.raises(kind, match=words):
        to_offsets(given)


@pytest.mark.parametrize("name", ["bad\ud800", "x" * 32_768], ids=ascii)
def test_text_when_no_request_can_carry_it_then_it_is_refused_before_the_transaction_hears_of_it(name: str) -> None:
    for fields in ((name,), ("g", 1, name), ("g", 1, "m", name)):
        with pytest.raises(ValueError, match=r"_id.* is .*: it .* in UTF-8"):
            to_group_metadata(fields)
    with pytest.raises(ValueError, match="the metadata of t-0 is "):
        to_offsets({("t", 0): OffsetAndMetadata(5, name)})
    with pytest.raises(ValueError, match="topic is "):
        to_offsets({(name, 0): 5})
    widest = "x" * 32_767
    assert to_group_metadata((widest, 1, widest, widest)) == (widest, 1, widest, widest)


def test_number_when_its_field_is_too_narrow_then_it_is_refused() -> None:
    span = "it must be -2147483648 to 2147483647"
    for number in (2**31, -2**31 - 1):
        with pytest.raises(ValueError, match=f"generation_id of the group metadata is {number}: {span}"):
            to_group_metadata(("g", number, "m"))
        with pytest.raises(ValueError, match=f"the leader epoch of t-0 is {number}: {span}"):
            to_offsets({("t", 0): OffsetAndMetadata(5, "", number)})
    assert to_group_metadata(("g", 2**31 - 1, "m")).generation_id == 2**31 - 1
