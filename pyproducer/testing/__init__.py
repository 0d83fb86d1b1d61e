"""What users need to test code that produces records: `read_topic`, which reads a topic back."""

from __future__ import annotations

from pyproducer.testing.reader import ConsumedRecord, read_topic

__all__ = ["ConsumedRecord", "read_topic"]
