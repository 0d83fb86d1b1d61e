"""What a broker costs that nobody uses."""

from __future__ import annotations

import time

import psutil

from pyproducer.broker import EmbeddedBroker
from pyproducer.broker.child_process import ChildProcessCluster
from pyproducer.protocol.apis import ApiKeys
from tests.support.raw_client import RawClient, metadata_body

MEASURED_S = 5
# The clock of a process ticks a hundred times in a second, and a tick counts whole for whoever runs when it comes: on a
# busy machine a few timers can cost several. A loop that never sleeps would cost 5 s, one that wakes each 10 ms 0.1 s.
ALLOWED_S = 0.1


def test_broker_when_idle_then_uses_no_measurable_cpu() -> None:
    with EmbeddedBroker(topics={"orders": 3}, separate_process=True) as broker:
        cluster = broker._cluster
        assert isinstance(cluster, ChildProcessCluster)
        process = psutil.Process(cluster.pid)
        with RawClient(("127.0.0.1", broker.port)) as client:  # a connection that is open and silent
            client.request(ApiKeys.METADATA, 9, metadata_body("orders"))
            time.sleep(0.5)
            before = process.cpu_times()
            time.sleep(MEASURED_S)
            after = process.cpu_times()
    assert after.user - before.user + after.system - before.system <= ALLOWED_S
