from __future__ import annotations

import pytest

from pyproducer.common.errors import CorruptRecordError
from pyproducer.record.control import (
    ControlRecordType,
    EndTransactionMarker,
    encode_control_key,
    encode_control_value,
    parse_control_record,
)


@pytest.mark.parametrize("control_type", list(ControlRecordType))
def test_a_marker_is_read_back(control_type: ControlRecordType) -> None:
    assert (parse_control_record(encode_control_key(control_type), encode_control_value(7))
            == EndTransactionMarker(control_type, 7))


def test_other_control_types_are_no_marker_and_longer_versions_are_read() -> None:
    assert parse_control_record(b"\0\0\0\x02", None) is None
    assert (parse_control_record(b"\0\x01\0\x01more", b"\0\x01\0\0\0\x09more")
            == EndTransactionMarker(ControlRecordType.COMMIT, 9))


@pytest.mark.parametrize(("key", "value", "text"), [
    (None, b"\0\0\0\0\0\0", "too short"), (b"\0\0\0", b"\0\0\0\0\0\0", "too short"), (b"\0\0\0\0", None, "too short"),
    (b"\xff\xff\0\0", b"\0\0\0\0\0\0", "invalid version -1"), (b"\0\0\0\0", b"\xff\xff\0\0\0\0", "invalid version -1")])
def test_damage_is_named(key: bytes | None, value: bytes | None, text: str) -> None:
    with pytest.raises(CorruptRecordError, match=text):
        parse_control_record(key, value)
