"""What users need to test code that produces records: `MockProducer`, and `read_topic`, which reads a topic back."""

from __future__ import annotations

from pyproducer.testing.async_mock_producer import AsyncMockProducer
from pyproducer.testing.mock_producer import MockProducer
from pyproducer.testing.reader import ConsumedRecord, read_topic

__all__ = ["AsyncMockProducer", "ConsumedRecord", "MockProducer", "read_topic"]
