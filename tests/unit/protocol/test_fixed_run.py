from __future__ import annotations

import pytest

from pyproducer.common.errors import SchemaError
from pyproducer.protocol.buffer import ByteReader, ByteWriter
from pyproducer.protocol.fixed_run import FixedRun
from pyproducer.protocol.schema import Field
from pyproducer.protocol.types import BOOLEAN, INT16, INT64

RUN = FixedRun([Field("a", INT16), Field("b", BOOLEAN), Field("c", INT64)])


def test_all_fields_are_read_and_written_at_once():
    writer = ByteWriter()
    assert RUN.try_write(writer, {"c": -1, "b": True, "a": 2})
    assert writer.to_bytes().hex() == "000201ffffffffffffffff"
    reader = ByteReader(writer.to_bytes() + b"x")
    assert RUN.read(reader) == (2, True, -1)
    assert reader.remaining == 1


@pytest.mark.parametrize("change", [{"a": 2**15}, {"a": True}, {"b": 1}, {"c": 1.0}, {"c": None}])
def test_try_write_when_a_value_does_not_fit_then_nothing_is_written(change):
    writer = ByteWriter()
    assert not RUN.try_write(writer, {"a": 1, "b": True, "c": 1, **change})
    assert writer.size == 0


def test_try_write_when_a_value_is_missing_then_nothing_is_written():
    writer = ByteWriter()
    assert not RUN.try_write(writer, {"a": 1, "b": True})
    assert writer.size == 0


def test_read_when_the_frame_is_short_then_nothing_is_read():
    reader = ByteReader(bytes(RUN.size_bytes - 1))
    with pytest.raises(SchemaError, match="11 bytes are needed, only 10 available"):
        RUN.read(reader)
    assert reader.position == 0
