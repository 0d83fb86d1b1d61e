"""Control records: the markers with which a coordinator ends a transaction in a partition's log.

    key:   version INT16 = 0, type INT16 (0 abort, 1 commit)
    value: version INT16 = 0, coordinator epoch INT32

A control batch holds one such record, has no base sequence, and takes an offset of the log.

Road:    broker's EndTxn -> [control] -> batch_writer -> log -> batch_reader -> readers of committed records
Thread:  pure functions.
Source:  Java ControlRecordType, EndTransactionMarker (4.1).
"""

from __future__ import annotations

from enum import IntEnum
from struct import Struct, error
from typing import NamedTuple

from pyproducer.common.errors import CorruptRecordError
from pyproducer.record.layout import Buffer

_KEY = Struct(">hh")
_VALUE = Struct(">hi")
_VERSION = 0


class ControlRecordType(IntEnum):
    """What a control record tells; a type above these belongs to Kafka's own quorum."""

    ABORT = 0
    COMMIT = 1


class EndTransactionMarker(NamedTuple):
    """How a transaction ended in this partition, and which coordinator says so."""

    type: ControlRecordType
    coordinator_epoch: int


def encode_control_key(control_type: ControlRecordType) -> bytes:
    """Return the key of a control record."""
    return _KEY.pack(_VERSION, control_type)


def encode_control_value(coordinator_epoch: int) -> bytes:
    """Return the value of an end-of-transaction marker."""
    return _VALUE.pack(_VERSION, coordinator_epoch)


def parse_control_record(key: Buffer | None, value: Buffer | None) -> EndTransactionMarker | None:
    """Read a control record.

    Higher versions are read as version 0: they may only append fields.

    Returns:
        The marker, or None for a type that does not end a transaction.

    Raises:
        CorruptRecordError: Key or value is missing or too short, or a version is negative.
    """
    try:
        version, control_type = _KEY.unpack_from(key or b"")
        if version < 0:
            raise CorruptRecordError(f"invalid version {version} of a control record's key")
        if control_type not in (ControlRecordType.ABORT, ControlRecordType.COMMIT):
            return None
        value_version, coordinator_epoch = _VALUE.unpack_from(value or b"")
    except error as cause:
        raise CorruptRecordError(f"a control record is too short: {cause}") from cause
    if value_version < 0:
        raise CorruptRecordError(f"invalid version {value_version} of an end-of-transaction marker")
    return EndTransactionMarker(ControlRecordType(control_type), coordinator_epoch)
