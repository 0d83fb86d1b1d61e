"""What metrics() returns, and all producers of this process in one view.

Road:    registry -> [metrics] -> application
Thread:  any.
Source:  Java Producer.metrics (4.1): a map from MetricName to value. Ours: the producer's own numbers by bare name, as
         they are asked for most; those of nodes, topics and partitions beside them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pyproducer.common.public import public
from pyproducer.observe.catalog import PARTITION
from pyproducer.observe.registry import Metric, Registry

if TYPE_CHECKING:
    from pyproducer.producer.wiring import ProducerRuntime


@public
class ProducerMetrics(dict[str, float]):
    """The numbers of one producer at one moment: a dict by name, with more beside it.

    Attributes:
        nodes: By node id: the numbers of that broker; bootstrap addresses have ids below 0.
        topics: By topic. Beyond a hundred topics in use the others share the row "(others)".
        partitions: By (topic, partition): what waits, since when, and who leads; -1 is "no partition chosen yet".
        errors: How many records failed, by Kafka's name of the error, or the exception's.
        retries: How many records were sent again, by the error that made them.
    """

    nodes: dict[int, dict[str, float]]
    topics: dict[str, dict[str, float]]
    partitions: dict[tuple[str, int], dict[str, float]]
    errors: dict[str, int]
    retries: dict[str, int]


def metrics_of(registry: Registry, now_ms: int) -> ProducerMetrics:
    """Return the numbers of one producer."""
    found = ProducerMetrics(registry.of_producer(now_ms))
    found.nodes = registry.of_nodes(now_ms)
    found.topics = registry.of_topics(now_ms)
    _, rows = registry.rows[PARTITION]
    found.partitions = {(tags["topic"], int(tags["partition"])): {name: value for name, value, _ in numbers}
                        for tags, numbers in rows()}
    found.errors, found.retries = registry.all_errors(), dict(registry.retries)
    return found


def all_metrics() -> Iterator[Metric]:
    """Yield the numbers of all producers of this process that are not closed; the tag client-id tells them apart.

    A producer whose sender thread died is among them until somebody closes or drops it: its sender-alive is 0.

    Producers of the same client.id are told apart by a number behind it: "app", "app#2". Each keeps its own as long as
    it lives.
    """
    for name, runtime in runtimes_by_name():
        for metric in runtime.registry.collect(runtime.clock.now_ms()):
            yield metric._replace(tags={**metric.tags, "client-id": name})


def runtimes_by_name() -> list[tuple[str, ProducerRuntime]]:
    """Return the producers of this process that are not closed, each under a name of its own."""
    from pyproducer.producer import process_life  # here: it makes producers, which have this module

    return [(name, runtime) for name, reference in list(process_life.shown.items())
            if (runtime := reference()) is not None]
