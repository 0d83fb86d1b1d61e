"""The embedded broker: Kafka's network layer, a real protocol, logs in Kafka's own files."""

from __future__ import annotations

from pyproducer.broker.broker_view import TopicSize
from pyproducer.broker.embedded import EmbeddedBroker
from pyproducer.broker.fault_control import Fault, Faults
from pyproducer.broker.observations import ConnectionInfo, LoggedRequest
from pyproducer.broker.stored_record import StoredRecord

__all__ = ["ConnectionInfo", "EmbeddedBroker", "Fault", "Faults", "LoggedRequest", "StoredRecord", "TopicSize"]
