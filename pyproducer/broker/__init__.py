"""The embedded broker: Kafka's network layer, a real protocol, logs in Kafka's own files."""

from __future__ import annotations

from pyproducer.broker.embedded import EmbeddedBroker
from pyproducer.broker.stored_record import StoredRecord

__all__ = ["EmbeddedBroker", "StoredRecord"]
