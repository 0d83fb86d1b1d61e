"""Records are checked where they are made."""

from __future__ import annotations

import pytest

from pyproducer.common.records import Header, ProducerRecord, RecordMetadata


def test_record_keeps_its_parts_and_normalises_headers():
    record = ProducerRecord("t", b"v", b"k", partition=3, timestamp=5, headers=[("a", b"1"), ("a", None)])
    assert record.headers == (Header("a", b"1"), Header("a", None))
    assert record == ProducerRecord("t", b"v", b"k", partition=3, timestamp=5, headers=[("a", b"1"), ("a", None)])
    assert len({record, ProducerRecord("t", b"v", b"k", partition=3, timestamp=5,
                                       headers=(("a", b"1"), ("a", None)))}) == 1
    assert record != ProducerRecord("t", b"v")


@pytest.mark.parametrize(("arguments", "error", "words"), [
    ({"topic": 5}, TypeError, "topic must be str, got int"),
    ({"topic": ""}, ValueError, "topic must not be empty"),
    ({"partition": -1}, ValueError, "partition -1 is out of range"),
    ({"partition": True}, TypeError, "partition must be int"),
    ({"partition": 2**31}, ValueError, "2147483647"),
    ({"timestamp": -5}, ValueError, "timestamp -5 is out of range"),
    ({"timestamp": 1.5}, TypeError, "timestamp must be int"),
    ({"headers": [("k",)]}, TypeError, "a header must be a pair"),
    ({"headers": [(b"k", b"v")]}, TypeError, "key must be str, got bytes"),
    ({"headers": [("k", "v")]}, TypeError, "header 'k' must be bytes or None, got str"),
    ({"headers": [5]}, TypeError, "a header must be a pair"),
])
def test_record_when_a_part_is_wrong_names_it(arguments, error, words):
    with pytest.raises(error, match=words):
        ProducerRecord(**{"topic": "t", "value": b"v", **arguments})


def test_metadata_tells_whether_the_offset_is_known():
    assert RecordMetadata("t", 0, 5, 1, 2, 3).has_offset
    assert not RecordMetadata("t", 0, -1, 1, 2, 3).has_offset
