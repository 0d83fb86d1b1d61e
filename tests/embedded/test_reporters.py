"""metric.reporters: callables, objects with init, classes by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pyproducer import ConfigError, KafkaProducer, Metric
from pyproducer.broker import EmbeddedBroker
from tests.support.patience import GIVE_UP_S

StartBroker = Callable[..., EmbeddedBroker]


class Reporter:
    """One as Java has them: configured, told where to read, closed."""

    made: list[Reporter] = []  # noqa: RUF012 - what the test finds again

    def __init__(self) -> None:
        self.is_closed = False
        self.made.append(self)

    def configure(self, settings: Any) -> None:
        self.client_id = settings["client.id"]

    def init(self, read: Callable[[], list[Metric]]) -> None:
        self.read = read

    def close(self) -> None:
        self.is_closed = True


def test_reporter_when_a_producer_is_made_then_it_can_read_all_numbers_until_it_is_closed(
        start_broker: StartBroker) -> None:
    broker = start_broker(topics={"orders": 1})
    given: list[Callable[[], list[Metric]]] = []
    Reporter.made.clear()
    with KafkaProducer({"bootstrap.servers": broker.bootstrap_servers, "client.id": "app",
                        "metric.reporters": [given.append, f"{__name__}:Reporter",
                                             "org.apache.kafka.common.metrics.JmxReporter"]}) as producer:
        producer.send("orders", b"v").result(GIVE_UP_S)
        (reporter,) = Reporter.made
        for read in (given[0], reporter.read):
            found = {(metric.group, metric.name): metric.value for metric in read()}
            assert found["producer-metrics", "record-send-total"] == 1
        assert reporter.client_id == "app"
        assert not reporter.is_closed
    assert reporter.is_closed


@pytest.mark.parametrize(("given", "why"), [
    (5, "neither callable nor has it init"), ("no.such:Reporter", "no.such"),
    (lambda read: 1 / 0, "it raised ZeroDivisionError")])
def test_reporter_when_it_is_none_then_the_constructor_says_so(given: object, why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        KafkaProducer({"bootstrap.servers": "localhost:1", "client.id": "app", "metric.reporters": [given]})


def test_reporter_when_it_is_confluents_of_a_shared_file_then_it_is_left_out_with_a_warning(
        caplog: pytest.LogCaptureFixture) -> None:
    """It was refused, though the settings that come with it were taken."""
    confluents = "io.confluent.metrics.reporter.ConfluentMetricsReporter"
    given: list[object] = []
    KafkaProducer({"bootstrap.servers": "localhost:1", "metric.reporters": [confluents, given.append],
                   "confluent.metrics.reporter.bootstrap.servers": "localhost:1"}).close()
    assert len(given) == 1
    lines = [record.getMessage() for record in caplog.records]
    assert f"metric.reporters has no effect: only a JVM can use {confluents}" in lines


@pytest.mark.parametrize("wrong", [
    {"partitioner.class": "no.such:thing"}, {"pyproducer.why.socket": "/nowhere/why"},
    {"security.protocol": "SSL", "ssl.truststore.type": "PEM", "ssl.truststore.location": "/nowhere.pem"},
    {"metric.reporters": [f"{__name__}:Reporter", lambda read: 1 / 0]}])
def test_reporter_when_the_constructor_raises_afterwards_then_what_began_is_closed(wrong: dict[str, object]) -> None:
    """Its thread, and the port that it listened at, stayed."""
    Reporter.made.clear()
    with pytest.raises(ConfigError):
        KafkaProducer({"bootstrap.servers": "localhost:1", "client.id": "app",
                       "metric.reporters": [f"{__name__}:Reporter"], **wrong})
    assert all(reporter.is_closed for reporter in Reporter.made)


class Unhappy(Reporter):
    """One that listens at a port, and cannot go on."""

    def init(self, read: Callable[[], list[Metric]]) -> None:
        raise OSError("no such host")


def test_reporter_when_it_raises_itself_then_it_is_closed_where_it_was_made_here() -> None:
    Reporter.made.clear()
    for given in (f"{__name__}:Unhappy", Unhappy, Unhappy()):
        with pytest.raises(ConfigError, match="no such host"):
            KafkaProducer({"bootstrap.servers": "localhost:1", "client.id": "app", "metric.reporters": [given]})
    assert sorted(reporter.is_closed for reporter in Reporter.made) == [False, True, True]
