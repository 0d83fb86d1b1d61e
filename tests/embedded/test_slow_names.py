"""A broker whose name takes long to resolve: it alone waits for it.

What users saw before: names were resolved on the sender's thread, so `send().result()` to a healthy broker took as long
as the lookup of the other one's name (glibc asks for up to 5 s, twice, per name server), timeouts passed unheard, and
`close(1)` took six seconds.
"""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from pyproducer import KafkaProducer, KafkaTimeoutError
from pyproducer.broker import EmbeddedBroker
from pyproducer.broker.apis.services import Services
from pyproducer.broker.cluster.listener import EndPoint
from tests.support.patience import GIVE_UP_S

SLOW = "slow.example"
SLOW_NODE = 2


class SlowName:
    """Stands for the system's resolver: one name has its answer, 127.0.0.1, only once `release` was called."""

    def __init__(self) -> None:
        self.asked = threading.Semaphore(0)
        self.threads: list[threading.Thread] = []
        self._released = threading.Event()
        self._getaddrinfo = socket.getaddrinfo

    def getaddrinfo(self, host: str, *parts: Any, **options: Any) -> Any:
        if host == SLOW and not options.get("flags", 0) & socket.AI_NUMERICHOST:
            self.threads.append(threading.current_thread())
            self.asked.release()
            assert self._released.wait(2 * GIVE_UP_S), "never released"
            host = "127.0.0.1"
        return self._getaddrinfo(host, *parts, **options)

    def await_question(self) -> None:
        assert self.asked.acquire(timeout=GIVE_UP_S), f"nobody asked for {SLOW}"

    def release(self) -> None:
        self._released.set()

    @property
    def is_released(self) -> bool:
        return self._released.is_set()


@pytest.fixture
def slow_name(monkeypatch: pytest.MonkeyPatch) -> Iterator[SlowName]:
    slow = SlowName()
    monkeypatch.setattr(socket, "getaddrinfo", slow.getaddrinfo)
    try:
        yield slow
    finally:
        slow.release()
        for thread in slow.threads:
            thread.join(GIVE_UP_S)


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch) -> Iterator[EmbeddedBroker]:
    """Two nodes with a partition each; metadata names the second by a name that is slow to resolve."""
    end_points = Services.end_points

    def renamed(services: Services, listener_name: str) -> dict[int, tuple[EndPoint, str | None]]:
        return {node_id: (end_point._replace(host=SLOW) if node_id == SLOW_NODE else end_point, rack)
                for node_id, (end_point, rack) in end_points(services, listener_name).items()}

    monkeypatch.setattr(Services, "end_points", renamed)
    with EmbeddedBroker(brokers=2, topics={"t": 2}) as running:
        yield running


def partitions_by_leader(producer: KafkaProducer) -> dict[int, int]:
    found = {info.leader.node_id: info.partition for info in producer.partitions_for("t") if info.leader}
    assert sorted(found) == [1, SLOW_NODE]
    return found


def test_records_when_another_brokers_name_is_being_resolved_then_acknowledged_meanwhile(
        slow_name: SlowName, broker: EmbeddedBroker) -> None:
    with KafkaProducer({"bootstrap.servers": broker.bootstrap_servers}) as producer:
        partition_of = partitions_by_leader(producer)
        waiting = producer.send("t", b"slow", partition=partition_of[SLOW_NODE])
        slow_name.await_question()
        for number in range(50):
            sent = producer.send("t", b"%d" % number, partition=partition_of[1])
            assert sent.result(GIVE_UP_S).offset == number
        with pytest.raises(TimeoutError):
            waiting.result(0.01)
        assert not slow_name.is_released
        slow_name.release()
        assert waiting.result(GIVE_UP_S).offset == 0
    assert len(slow_name.threads) == 1, "one lookup, however often the sender looked"


def test_close_when_a_name_is_being_resolved_then_it_does_not_wait_for_it(
        slow_name: SlowName, broker: EmbeddedBroker) -> None:
    producer = KafkaProducer({"bootstrap.servers": broker.bootstrap_servers})
    waiting = producer.send("t", b"slow", partition=partitions_by_leader(producer)[SLOW_NODE])
    slow_name.await_question()
    producer.close(0.1)
    assert waiting.done()
    assert producer._runtime.life.is_over
    assert not slow_name.is_released
    (lookup,) = slow_name.threads
    assert lookup.is_alive()
    assert lookup.daemon, "the end of the process does not wait for it either"


def test_setup_timeout_when_a_name_is_being_resolved_then_the_error_names_it_and_how_long_it_took(
        slow_name: SlowName) -> None:
    with KafkaProducer({"bootstrap.servers": f"{SLOW}:9092", "max.block.ms": 2_000,
                        "socket.connection.setup.timeout.ms": 100,
                        "socket.connection.setup.timeout.max.ms": 100}) as producer:
        with pytest.raises(KafkaTimeoutError) as raised:
            producer.partitions_for("t")
        assert f"{SLOW}:9092: DNS: the host name was not resolved within " in str(raised.value)
        assert "(socket.connection.setup.timeout.ms)" in str(raised.value)
        assert len(slow_name.threads) == 1, "later attempts wait for the lookup that is under way"


def test_bootstrap_when_one_name_is_being_resolved_then_another_server_is_asked(
        slow_name: SlowName, broker: EmbeddedBroker) -> None:
    first = broker.bootstrap_servers.split(",")[0]
    for _ in range(4):  # which server is asked first is drawn
        with KafkaProducer({"bootstrap.servers": f"{SLOW}:9092,{first}"}) as producer:
            assert len(producer.partitions_for("t")) == 2
            assert not slow_name.is_released


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_fork_when_a_name_is_being_resolved_then_the_child_has_producers_of_its_own(
        slow_name: SlowName, broker: EmbeddedBroker) -> None:
    with KafkaProducer({"bootstrap.servers": broker.bootstrap_servers}) as producer:
        partition_of = partitions_by_leader(producer)
        waiting = producer.send("t", b"slow", partition=partition_of[SLOW_NODE])
        slow_name.await_question()
        child = os.fork()
        if child == 0:
            code = 1
            try:
                slow_name.release()  # the child's own event: no thread of the parent is here
                with KafkaProducer({"bootstrap.servers": broker.bootstrap_servers}) as own:
                    own.send("t", b"child", partition=partition_of[SLOW_NODE]).result(GIVE_UP_S)
                code = 0
            finally:
                os._exit(code)
        deadline = time.monotonic() + 2 * GIVE_UP_S
        while (status := os.waitpid(child, os.WNOHANG))[0] == 0:
            if time.monotonic() > deadline:
                os.kill(child, signal.SIGKILL)
                os.waitpid(child, 0)
                pytest.fail("the child hangs")
            time.sleep(0.01)
        assert os.waitstatus_to_exitcode(status[1]) == 0
        assert not waiting.done()
        slow_name.release()
        assert waiting.result(GIVE_UP_S).offset == 1
