"""The embedded broker: Kafka's network layer, a real protocol, logs in Kafka's own files."""

from __future__ import annotations

from pyproducer.broker.control.broker_view import TopicSize
from pyproducer.broker.control.embedded import EmbeddedBroker
from pyproducer.broker.control.fault_control import Fault, Faults
from pyproducer.broker.control.observations import ConnectionInfo, LoggedRequest
from pyproducer.broker.control.stored_record import StoredRecord

__all__ = ["ConnectionInfo", "EmbeddedBroker", "Fault", "Faults", "LoggedRequest", "StoredRecord", "TopicSize"]
