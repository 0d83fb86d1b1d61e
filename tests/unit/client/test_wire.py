"""The wire: what is thrown away after a turn that ended half way, and what outlives it."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from pyproducer.client.request import ClientRequest, ClientResponse
from pyproducer.client.wire import Wire
from pyproducer.network.channel_builder import PlaintextChannelBuilder
from pyproducer.network.selector import Selector
from pyproducer.network.wakeup import Wakeup
from pyproducer.protocol.apis import ApiKeys
from tests.unit.client.scripted_cluster import Setup, topic_row
from tests.unit.network.watching import watch_sleeps

COORDINATOR = {"throttle_time_ms": 0, "coordinators": []}
HOUR_MS = 3_600_000


def ready_setup(**options: Any) -> Setup:
    setup = Setup(**options)
    setup.cluster.topics["t"] = topic_row("t", 1, 2)
    setup.bring_up("t")
    setup.make_ready(1)
    return setup


def find_coordinator(setup: Setup, ended: list[ClientResponse], node_id: int) -> ClientRequest:
    return ClientRequest(node_id, ApiKeys.FIND_COORDINATOR, lambda _version: {
        "key_type": 0, "coordinator_keys": ["g"]}, timeout_ms=30_000,
        on_complete=ended.append)


def test_renew_when_requests_are_under_way_then_none_ends_and_nodes_are_connected_again() -> None:
    setup = ready_setup()
    ended: list[ClientResponse] = []
    setup.make_ready(2)
    for node_id in (1, 2):
        setup.client.send(find_coordinator(setup, ended, node_id), setup.now_ms)
    late, before = setup.selector.requests[-1], setup.selector
    setup.wire.renew()
    assert (before.open, before.is_closed) == (set(), True)
    assert setup.client.in_flight_request_count() == 0
    assert not setup.client.is_ready(1, setup.now_ms)
    assert setup.client.api_version(1, ApiKeys.PRODUCE) is None
    setup.make_ready(2)
    setup.selector.respond(late, COORDINATOR)
    setup.poll()
    assert ended == [], "an answer to what was forgotten, on a connection that is new, answers nothing"


def test_renew_when_metadata_was_being_asked_for_then_the_next_client_asks_for_the_same() -> None:
    setup = ready_setup()
    setup.cluster.topics["u"] = topic_row("u", 1)
    setup.cluster.answers_metadata = False
    setup.metadata.add("u", setup.now_ms)
    setup.clock.advance(100)
    setup.poll(times=2)
    assert [topic["name"] for topic in setup.selector.asked(ApiKeys.METADATA)[-1].body["topics"]] == ["u"]
    setup.wire.renew()
    setup.cluster.answers_metadata = True
    setup.bring_up("u")
    assert len(setup.selector.asked(ApiKeys.METADATA)) == 1


def test_renew_when_an_address_does_not_work_then_its_last_error_stays() -> None:
    setup = ready_setup()
    setup.selector.accepts = lambda _connection_id: ConnectionRefusedError(111, "Connection refused")
    node = setup.metadata.cluster.nodes[2]
    assert not setup.client.ready(node, setup.now_ms)
    setup.poll()
    errors = setup.metadata.last_errors()
    assert "Connection refused" in errors["host-2:9092"]
    setup.wire.renew()
    assert setup.metadata.last_errors() == errors


def test_renew_when_canonical_names_were_found_and_the_cluster_is_known_then_no_name_is_looked_up_for_them() -> None:
    setup = Setup(dns_lookup="resolve_canonical_bootstrap_servers_only")
    setup.cluster.topics["t"] = topic_row("t", 1)
    setup.bring_up("t")
    lookups = len(setup.threads.names)
    setup.wire.renew()
    setup.metadata.request_update()
    version = setup.metadata.version()
    for _ in range(6):
        setup.clock.advance(100)
        setup.poll()
    assert setup.metadata.version() > version
    hosts = {name.rpartition(" ")[2] for name in setup.threads.names[lookups:]}
    assert hosts <= {node.host for node in setup.cluster.nodes}


class Poller:
    """As much of a client as sleeps: a real selector."""

    def __init__(self, wakeup: Wakeup) -> None:
        self.selector = Selector(max_receive_size_bytes=None, connections_max_idle_ms=-1, wakeup=wakeup,
                                 channel_builder=PlaintextChannelBuilder())

    def close(self) -> None:
        self.selector.close_all()


@pytest.mark.parametrize("when", ["before", "while there is none", "after"])
def test_renew_when_a_caller_rings_meanwhile_then_the_next_clients_poll_does_not_sleep(
        when: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A caller who had the old client's wake-up in hand would have rung nobody, and its record would have lain."""
    sleeps = watch_sleeps(monkeypatch)
    wakeup = Wakeup()
    made: list[Poller] = []

    def make_client() -> Any:
        if made and when == "while there is none":
            wire.wakeup()
        made.append(Poller(wakeup))
        return made[-1]

    wire = Wire(make_client, wakeup)
    ring = wire.wakeup
    if when == "before":
        ring()
    wire.renew()
    if when == "after":
        ring()
    made[-1].selector.poll(HOUR_MS, 0)
    assert [sleep.timeout_s for sleep in sleeps] == [0]
    ringer = threading.Thread(target=ring_when_it_sleeps, args=(wakeup, ring))
    ringer.start()
    made[-1].selector.poll(HOUR_MS, 0)
    ringer.join()
    assert [sleep.event_count for sleep in sleeps[1:]] == [1], "it was rung awake"
    wire.close()
    assert wakeup.receiver.fileno() == -1


def ring_when_it_sleeps(wakeup: Wakeup, ring: Callable[[], None]) -> None:
    """Ring when a poll has said that it will sleep; before that nothing has to be sent."""
    while not wakeup.is_sleeping:
        time.sleep(0.001)
    ring()


def test_renew_when_the_selector_believes_something_else_than_the_system_then_every_socket_is_closed() -> None:
    """What is watched may be anything after an exception: to forget it one by one raised, and ended the producer."""
    wakeup = Wakeup()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        made: list[Poller] = []

        def make_client() -> Any:
            made.append(Poller(wakeup))
            return made[-1]

        wire = Wire(make_client, wakeup)
        selector = made[-1].selector
        for connection_id in "abc":
            selector.connect(connection_id, listener.getsockname(), now_ms=0)
        channels = {channel.id: channel for channel in selector.channels()}
        selector.interest.forget(channels["a"])
        channels["a"].registered_events = 1  # said to be watched, and is not
        channels["b"].transport.sock.close()  # watched, and closed
        wire.renew()
        assert [channels[connection_id].transport.sock.fileno() for connection_id in "abc"] == [-1, -1, -1]
        assert selector.channels() == []
    wire.close()
