"""Fixtures that give tests a Kafka broker; pytest finds them wherever pyproducer is installed.

    def test_orders_are_announced(kafka_broker):
        announce(order, bootstrap_servers=kafka_broker.bootstrap_servers)
        assert [record.value for record in kafka_broker.records("orders")] == [b"paid"]

A fault that a test has scripted and no request has met fails the test at its end: the story was not told. A fault that
may be met or not is `kafka_broker.faults.on(..., optional=True)`; `pyproducer_strict_faults = false` in pytest's
settings lets all pass.

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


_STRICT = "pyproducer_strict_faults"
_HAS_FAILED = pytest.StashKey[bool]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the setting."""
    parser.addini(_STRICT, "A fault that no request has met fails the test that scripted it on kafka_broker.",
                  type="bool", default=True)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    """Note that a test has failed: then it need not be told, too, that it has not met a fault."""
    yield
    if call.excinfo is not None:
        item.stash[_HAS_FAILED] = True


@pytest.fixture
def kafka_broker(request: pytest.FixtureRequest) -> Iterator[EmbeddedBroker]:
    """A broker for one test, empty, on a free port; starting and stopping it takes some 20 ms."""
    from pyproducer import IllegalStateError
    from pyproducer.broker import EmbeddedBroker

    with EmbeddedBroker() as broker:
        yield broker
        if not request.config.getini(_STRICT) or _HAS_FAILED in request.node.stash:
            return
        try:
            unused = broker.faults.unused()
        except IllegalStateError:  # the test has stopped it
            return
    if unused:
        pytest.fail(f"No request has met these faults: {'; '.join(unused)}. What may not be met is optional=True.",
                    pytrace=False)


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
