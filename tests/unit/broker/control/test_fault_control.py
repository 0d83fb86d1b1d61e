"""What a test says of faults is what the cluster is told: actions with their defaults, and where chance begins."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pyproducer.broker.cluster.topic_table import TopicTable
from pyproducer.broker.control.commands import run_command
from pyproducer.broker.control.fault_control import Fault, Faults
from pyproducer.broker.control.in_process import ClusterOptions, InProcessCluster
from pyproducer.protocol.apis import ApiKeys
from tests.support.broker_request import broker_request
from tests.support.raw_client import metadata_body

METADATA = broker_request(ApiKeys.METADATA, 9, metadata_body("orders"))


@pytest.fixture
def cluster() -> InProcessCluster:
    return InProcessCluster(ClusterOptions())


@pytest.fixture
def faults(cluster: InProcessCluster) -> Faults:
    def ask(command: str, **arguments: Any) -> Any:
        return run_command(cluster, command, arguments)

    return Faults(ask)


@pytest.mark.parametrize(("act", "said"), [
    (lambda fault: fault.error(6), "error(code=6, when='before_apply')"),
    (Fault.close, "close(when='after_apply')"),
    (lambda fault: fault.delay(5), "delay(delay_ms=5, when='before_apply')"),
    (Fault.hold, "hold(when='before_apply')"), (lambda fault: fault.throttle(5), "throttle(throttle_ms=5)"),
    (lambda fault: fault.truncate(5), "truncate(size_bytes=5)"),
    (lambda fault: fault.truncate(5, resize=True), "truncate(size_bytes=5, resize=True)"),
    (Fault.wrong_correlation_id, "wrong_correlation_id()"), (Fault.drop, "drop(when='before_apply')"),
    (Fault.acknowledge_without_append, "acknowledge_without_append()"), (Fault.append_twice, "append_twice()"),
    (Fault.swap, "swap()")])
def test_fault_when_nothing_is_said_of_it_but_what_it_is_then_that_alone_happens(
        faults: Faults, act: Callable[[Fault], object], said: str) -> None:
    act(faults.on("Produce"))
    assert faults.unused() == [f'on("Produce").{said}']


def test_seed_when_it_is_set_again_then_the_same_requests_are_chosen(
        cluster: InProcessCluster, faults: Faults) -> None:
    faults.on("Metadata", times=None, probability=0.5).close()
    stories: list[list[bool]] = []
    for seed in (7, 8, 7):
        faults.seed = seed
        assert faults.seed == seed
        stories.append([cluster.scripted.fault_rules.choose(TopicTable(), 1, METADATA) is not None
                        for _ in range(32)])
    assert stories[0] == stories[2] != stories[1]
    assert set(stories[0]) == {False, True}
