"""Which partition of an internal topic holds a group or a transactional id; its leader is the coordinator.

Road:    FindCoordinator, group and transaction APIs -> [partition for]
Thread:  pure functions.
Source:  Java Utils.abs(String.hashCode()) % partitions: GroupMetadataManager.partitionFor,
         TransactionStateManager.partitionFor (4.1).
"""

from __future__ import annotations

import struct

_MIN_INT = -(2**31)


def java_hash(text: str) -> int:
    """Return what Java's String.hashCode says: over UTF-16 code units, as a signed 32-bit number."""
    encoded = text.encode("utf-16-be", "surrogatepass")
    value = 0
    for unit in struct.unpack(f">{len(encoded) // 2}H", encoded):
        value = (31 * value + unit) & 0xFFFFFFFF
    return value - 2**32 if value >= 2**31 else value


def partition_for(key: str, partition_count: int) -> int:
    """Return the partition of a group id or transactional id.

    Java's abs: the smallest int, which has no positive counterpart, counts as 0.
    """
    value = java_hash(key)
    return (0 if value == _MIN_INT else abs(value)) % partition_count
