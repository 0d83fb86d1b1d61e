"""CallablePartitioner: a function of the user's as a partitioner.

Road:    serializers -> [partitioner] -> accumulator
Thread:  any caller; the function must allow that.
Source:  ours.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyproducer.common.cluster import Cluster


class CallablePartitioner:
    """Calls `function(topic, key, key_bytes, value, value_bytes, cluster)`; send() checks what it gives."""

    def __init__(self, function: Callable[[str, Any, bytes | None, Any, bytes | None, Cluster], int]) -> None:
        self.partition = function

    def __repr__(self) -> str:
        return f"CallablePartitioner({self.partition!r})"
