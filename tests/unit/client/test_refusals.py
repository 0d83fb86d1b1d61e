"""Who is told when a node refuses us: what waits for that node at once, what waits for any node when none is left."""

from __future__ import annotations

import pytest

from pyproducer.client.metadata import NO_LEADER
from pyproducer.common.errors import AuthenticationError
from pyproducer.network.channel import ChannelPhase
from tests.unit.client.scripted_cluster import Setup, topic_row

NO = AuthenticationError("the broker refuses us")


def refuse(setup: Setup, connection_id: str, error: Exception = NO) -> None:
    setup.selector.end(connection_id, ChannelPhase.AUTHENTICATION_FAILED, error)
    setup.poll()
    setup.clock.advance(1_000)


def connecting(setup: Setup) -> str:
    """Go on until there is a connection whose handshake is under way; return which."""
    known = len(setup.selector.connects)
    for _ in range(20):
        setup.poll()
        if len(setup.selector.connects) > known:
            return setup.selector.connects[-1].connection_id
        setup.clock.advance(100)
    raise AssertionError("nobody is connected to")


def new_setup(first: int = 0) -> Setup:
    setup = Setup(next_random=lambda: first)
    setup.selector.handshake_done = False
    setup.cluster.topics["t"] = topic_row("t", 1)
    setup.metadata.add("t", setup.now_ms)
    return setup


@pytest.mark.parametrize("first", [0, 1])
def test_bootstrap_server_when_it_refuses_and_another_does_not_then_who_waits_goes_on(first: int) -> None:
    """Of two servers one refused: the first record of every second producer failed, though the other one worked."""
    setup = new_setup(first)
    refuse(setup, connecting(setup))
    assert setup.metadata.fatal_count == 0
    assert setup.metadata.refusals == []
    assert len(setup.metadata.last_errors()) == 1, "it is told where a timeout is"
    second = connecting(setup)
    assert second == str(first - 2), "the other one is asked next"
    setup.selector.handshake_done = True
    setup.bring_up("t")
    assert setup.metadata.fatal_count == 0


def test_bootstrap_servers_when_all_refuse_then_who_waits_is_told_once_for_each_round() -> None:
    setup = new_setup()
    for rounds in (1, 2):
        seen = setup.metadata.fatal_count
        refuse(setup, connecting(setup))
        assert setup.metadata.untold_fatal(seen) is None, "the others are asked anew: a secret may have been put right"
        refuse(setup, connecting(setup), AuthenticationError(f"no {rounds}"))
        assert f"no {rounds}" in str(setup.metadata.untold_fatal(seen))
        assert setup.metadata.fatal_count == rounds
        assert [refusal.node_id for refusal in setup.metadata.take_refusals()] == [NO_LEADER]


def test_bootstrap_server_when_it_refuses_and_the_other_is_not_reached_then_who_waits_is_told_soon() -> None:
    """A server of old that is still in the list would keep the word of a wrong password back for minutes."""
    setup = new_setup()
    refuse(setup, connecting(setup))
    dead = connecting(setup)
    setup.selector.end(dead, ChannelPhase.NOT_CONNECTED, ConnectionRefusedError(111, "Connection refused"))
    setup.poll()
    assert setup.metadata.fatal_count == 0, "once may be nothing"
    setup.clock.advance(1_000)
    refuse(setup, connecting(setup))
    assert connecting(setup) == dead
    setup.selector.end(dead, ChannelPhase.NOT_CONNECTED, ConnectionRefusedError(111, "Connection refused"))
    setup.poll()
    assert setup.metadata.fatal_count == 1
    assert "refuses us" in str(setup.metadata.untold_fatal(0))


def test_node_when_it_takes_us_after_another_refused_then_the_round_begins_anew() -> None:
    setup = new_setup()
    setup.selector.handshake_done = True
    setup.bring_up("t")
    first, second = setup.metadata.cluster.nodes[1], setup.metadata.cluster.nodes[2]
    setup.selector.handshake_done = False
    setup.client.ready(second, setup.now_ms)
    refuse(setup, "2")
    setup.selector.handshake_done = True
    setup.make_ready(1)
    setup.selector.end("1")
    setup.poll()
    setup.selector.handshake_done = False
    setup.clock.advance(1_000)
    setup.client.ready(first, setup.now_ms)
    refuse(setup, "1")
    assert setup.metadata.fatal_count == 0, "of two nodes one refused since"
    refuse(setup, connecting(setup))
    assert setup.metadata.fatal_count == 1


def test_leader_when_it_refuses_then_its_batches_are_told_and_who_waits_for_metadata_is_not() -> None:
    setup = new_setup()
    setup.selector.handshake_done = True
    setup.bring_up("t")
    setup.make_ready(2)
    setup.selector.handshake_done = False
    setup.client.ready(setup.metadata.cluster.nodes[1], setup.now_ms)
    refuse(setup, "1")
    assert [(refusal.node_id, "refuses us" in str(refusal.error)) for refusal in setup.metadata.take_refusals()] == [
        (1, True)]
    assert setup.metadata.fatal_count == 0


def test_node_when_its_address_changed_then_what_was_met_at_the_old_one_does_not_count() -> None:
    """A broker was moved, and the other one refused us: what waited failed, though nobody had asked the moved one."""
    setup = new_setup()
    setup.selector.handshake_done = True
    setup.bring_up("t")
    setup.make_ready(1)
    setup.selector.handshake_done = False
    moved = setup.metadata.cluster.nodes[2]
    for _ in range(2):
        setup.client.ready(moved, setup.now_ms)
        setup.selector.end("2", ChannelPhase.NOT_CONNECTED, ConnectionRefusedError(111, "Connection refused"))
        setup.poll()
        setup.clock.advance(5_000)
    setup.cluster.nodes[1] = moved._replace(host="host-3")
    setup.selector.handshake_done = True
    setup.metadata.request_update()
    setup.poll(times=2)
    assert setup.metadata.cluster.nodes[2].host == "host-3"
    setup.selector.handshake_done = False
    refuse(setup, "1")
    assert setup.metadata.fatal_count == 0
    setup.client.ready(setup.metadata.cluster.nodes[2], setup.now_ms)
    refuse(setup, "2")
    assert setup.metadata.fatal_count == 1, "now it has been asked"
