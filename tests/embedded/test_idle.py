"""What a broker costs that nobody uses."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest

from pyproducer.broker import EmbeddedBroker
from pyproducer.broker.control.child_process import ChildProcessCluster
from pyproducer.protocol.apis import ApiKeys
from tests.support.raw_client import RawClient, metadata_body

MEASURED_S = 1.5
# The shortest sleep of a thread with nothing to do: 300 ms, of processors and handlers.
SHORTEST_SLEEP_S = 0.3
# A thread that wakes may meet another that has the interpreter's lock, and sleeps once more for that.
SWITCHES_PER_SLEEP = 4


def sleeps(pid: int) -> dict[int, int]:
    """Return how often each thread of a process has gone to sleep of its own accord."""
    found = {}
    for task in Path(f"/proc/{pid}/task").iterdir():
        match = re.search(r"^voluntary_ctxt_switches:\s+(\d+)$", (task / "status").read_text(), re.MULTILINE)
        assert match is not None
        found[int(task.name)] = int(match[1])
    return found


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="needs Linux's /proc")
def test_broker_when_idle_then_its_threads_sleep() -> None:
    """A loop that looks around each 10 ms costs a laptop its battery, and a test run a part of its cores.

    What is counted is how often the threads wake in the time that really passed, which no load of the machine makes
    more: a thread that sleeps for 300 ms wakes three times in a second, or less.
    """
    with EmbeddedBroker(topics={"orders": 3}, separate_process=True) as broker:
        cluster = broker._cluster
        assert isinstance(cluster, ChildProcessCluster)
        assert cluster.pid is not None
        with RawClient(("127.0.0.1", broker.port)) as client:  # a connection that is open and silent
            client.request(ApiKeys.METADATA, 9, metadata_body("orders"))
            time.sleep(0.5)
            begin = time.monotonic()
            before = sleeps(cluster.pid)
            time.sleep(MEASURED_S)
            after = sleeps(cluster.pid)
            passed_s = time.monotonic() - begin
    assert len(after) > 10, "acceptor, processors, handlers and timer were looked at"
    allowed = SWITCHES_PER_SLEEP * (passed_s / SHORTEST_SLEEP_S + 1)
    woke = {thread: count - before.get(thread, 0) for thread, count in after.items()}
    assert max(woke.values()) <= allowed, f"{woke} in {passed_s:.1f} s"
