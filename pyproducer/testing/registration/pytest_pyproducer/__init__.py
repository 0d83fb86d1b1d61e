"""Fixtures that give tests a Kafka broker; pytest finds them wherever pyproducer is installed.

    def test_orders_are_announced(kafka_broker):
        announce(order, bootstrap_servers=kafka_broker.bootstrap_servers)
        assert [record.value for record in kafka_broker.records("orders")] == [b"paid"]

Road:    beside it.
Thread:  the test's; the broker has its own.
Source:  ours. setup.cfg maps this folder to the top level of what is installed, because pytest loads it for every run
         of every project there: a module in the package would bring the package along, before any fixture is used.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pyproducer.broker import EmbeddedBroker
    from pyproducer.testing import MockProducer


@pytest.fixture
def kafka_broker() -> Iterator[EmbeddedBroker]:
    """A broker for one test, empty, on a free port; starting and stopping it takes some 20 ms."""
    from pyproducer.broker import EmbeddedBroker

    with EmbeddedBroker() as broker:
        yield broker


@pytest.fixture
def mock_producer() -> Iterator[MockProducer[Any, Any]]:
    """A producer without a broker that stores each record at once, keys and values bytes; `history()` has them."""
    from pyproducer.testing import MockProducer

    with MockProducer() as producer:
        yield producer


@pytest.fixture(scope="session")
def kafka_broker_session() -> Iterator[EmbeddedBroker]:
    """A broker for all tests of the run, in a process of its own; tests keep apart by using topics of their own."""
    from pyproducer.broker import EmbeddedBroker

    with EmbeddedBroker(separate_process=True) as broker:
        yield broker
