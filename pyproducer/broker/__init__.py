"""The embedded broker: Kafka's network layer, a real protocol, logs in Kafka's own files."""

from __future__ import annotations

from pyproducer.broker.control.broker_view import TopicSize
from pyproducer.broker.control.clock_control import BrokerClock
from pyproducer.broker.control.embedded import EmbeddedBroker
from pyproducer.broker.control.fault_control import Fault, Faults
from pyproducer.broker.control.nodes import PartitionView
from pyproducer.broker.control.observations import LoggedRequest
from pyproducer.broker.control.stored_record import StoredRecord
from pyproducer.broker.network.socket_server import ConnectionInfo

__all__ = ["BrokerClock", "ConnectionInfo", "EmbeddedBroker", "Fault", "Faults", "LoggedRequest", "PartitionView",
           "StoredRecord", "TopicSize"]
