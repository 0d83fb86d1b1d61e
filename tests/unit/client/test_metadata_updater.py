"""When metadata is asked for, of whom, and what happens when nobody is left to ask."""

import socket

import pytest

from pyproducer.client.metadata import MetadataRequest, ProducerMetadata
from pyproducer.client.resolver import RESOLVE_CANONICAL_BOOTSTRAP_SERVERS_ONLY, ResolvedAddress, resolve_host
from pyproducer.common.cluster import Node, TopicPartition
from pyproducer.protocol.apis import ApiKeys
from tests.unit.client.mock_selector import HANG_UP
from tests.unit.client.scripted_cluster import Setup, topic_row

ONE = (("boot-1", 9092),)
REFUSED = ConnectionRefusedError(111, "Connection refused")


def up(**options) -> Setup:
    setup = Setup(bootstrap=ONE, **options)
    setup.cluster.topics["t"] = topic_row("t", 1, 2)
    setup.bring_up("t")
    return setup


def canonical_setup(*hosts: str, resolve=resolve_host) -> Setup:
    return Setup(bootstrap=tuple((host, 9092) for host in hosts or ("alias",)), resolve=resolve,
                 dns_lookup=RESOLVE_CANONICAL_BOOTSTRAP_SERVERS_ONLY)


def cut_all(setup: Setup) -> None:
    """Let all connections end, and refuse new ones."""
    setup.selector.accepts = lambda connection_id: REFUSED
    for connection_id in list(setup.selector.open):
        setup.selector.end(connection_id, error=HANG_UP)


def test_refresh_when_the_age_is_reached_then_asked_again_and_idle_topics_are_gone():
    setup = up()
    assert len(setup.selector.asked(ApiKeys.METADATA)) == 1
    setup.clock.advance(300_000)
    setup.poll(times=6)
    assert len(setup.selector.asked(ApiKeys.METADATA)) == 2
    assert setup.selector.asked(ApiKeys.METADATA)[1].body["topics"] == []
    assert setup.metadata.cluster.topics == set()


def test_poll_when_nothing_is_due_then_sleeps_as_long_as_asked():
    setup = up()
    setup.poll(5_000)
    assert setup.selector.timeouts[-1] == 5_000
    setup.poll(10**9)
    assert setup.selector.timeouts[-1] == 60_000


def test_unknown_topic_when_it_appears_then_learned_with_growing_pauses():
    setup = up()
    setup.metadata.add("late", setup.now_ms)
    setup.selector.sleeps = True
    started_ms = setup.now_ms
    for _ in range(12):
        setup.poll(60_000)
    pauses = len(setup.selector.asked(ApiKeys.METADATA))
    assert pauses <= 3 + (setup.now_ms - started_ms) // 100
    setup.cluster.topics["late"] = topic_row("late", 2)
    for _ in range(6):
        setup.poll(60_000)
    assert "late" in setup.metadata.cluster.topics
    assert all(request.body["allow_auto_topic_creation"] for request in setup.selector.asked(ApiKeys.METADATA))


def ask_for_a_topic_that_is_not_there(setup: Setup, for_ms: int) -> int:
    """Go on for a while; return when that began."""
    setup.metadata.add("late", setup.now_ms)
    setup.selector.sleeps = True
    started_ms = setup.now_ms
    while setup.now_ms < started_ms + for_ms:
        setup.poll(1000)
    return started_ms


def asked_nodes(setup: Setup) -> set[int]:
    return {int(request.connection_id) for request in setup.selector.asked(ApiKeys.METADATA)}


def test_unknown_topic_when_one_broker_alone_does_not_know_it_then_another_is_asked_too():
    """The broker with a connection was asked again and again, though another might know the topic."""
    setup = up()
    started_ms = ask_for_a_topic_that_is_not_there(setup, 9_000)
    assert {1, 2} <= asked_nodes(setup)
    assert setup.metadata.absence("late", started_ms, 10_000) is None
    while setup.now_ms < started_ms + 13_000:
        setup.poll(1000)
    error = setup.metadata.absence("late", started_ms, 10_000)
    assert (error.code, error.outcome) == (3, "not_sent")
    assert "not known to 2 broker(s) for 10000 ms" in str(error)
    assert setup.metadata.absence("late", setup.now_ms, 10_000) is None, "from then on nobody was asked"


def test_unknown_topic_when_the_other_broker_is_dead_then_the_first_is_asked_on_and_nothing_is_sure():
    setup = up()
    setup.metadata.add("late", setup.now_ms)
    setup.poll(times=4)
    (first,) = (int(connection_id) for connection_id in setup.selector.open if int(connection_id) > 0)
    setup.selector.accepts = lambda connection_id: REFUSED
    connects = len(setup.selector.connects)
    count = len(setup.selector.asked(ApiKeys.METADATA))
    started_ms = ask_for_a_topic_that_is_not_there(setup, 20_000)
    assert asked_nodes(setup) <= {-1, first}
    assert len(setup.selector.asked(ApiKeys.METADATA)) > count + 15
    assert len(setup.selector.connects) <= connects + 2, "who was found dead is left alone"
    assert setup.metadata.absence("late", started_ms, 10_000) is None


def test_answer_when_it_is_doubted_then_another_broker_is_asked_where_one_can_be_reached():
    setup = up()
    setup.selector.sleeps = True
    for _ in range(30):
        if {1, 2} <= asked_nodes(setup):
            break
        told_by = setup.metadata.told_by("t")
        assert told_by is not None
        setup.metadata.ask_another(told_by)
        version = setup.metadata.request_update_for_topic("t", setup.now_ms)
        while setup.metadata.version() == version:
            setup.poll(1000)
        assert setup.metadata.node_to_avoid() is None, "the answer is a new one"
    assert {1, 2} <= asked_nodes(setup)
    assert setup.metadata.told_by("t") != told_by
    assert setup.metadata.told_by("other") is None


def test_nodes_when_each_that_starts_has_another_id_then_those_that_left_are_forgotten():
    """The state of each was kept as long as the producer lived, with the error that had ended its connection."""
    setup = up()
    setup.make_ready(1)
    for node_id in range(2, 7):
        setup.make_ready(node_id)
        setup.selector.end(str(node_id), error=HANG_UP)
        setup.cluster.nodes[1] = Node(node_id + 1, f"host-{node_id + 1}", 9092)
        setup.poll()
        setup.metadata.request_update()
        setup.clock.advance(1_000)
        setup.poll(times=3)
    assert sorted(setup.client._states.node_ids()) == [-1, 1]


def test_nodes_when_one_left_and_its_connection_lives_then_it_is_forgotten_when_that_ends():
    setup = up()
    setup.make_ready(1)
    setup.make_ready(2)
    del setup.cluster.nodes[1]
    for is_over in (False, True):
        if is_over:
            setup.selector.end("2", error=HANG_UP)
            setup.poll()
        setup.metadata.request_update()
        setup.clock.advance(1_000)
        setup.poll(times=3)
        assert (2 in setup.client._states.node_ids()) == (not is_over)


def test_response_without_brokers_when_received_then_asked_again():
    setup = Setup(bootstrap=ONE)
    nodes, setup.cluster.nodes = setup.cluster.nodes, []
    setup.poll(times=5)
    assert setup.metadata.version() == 0
    assert setup.metadata.last_errors()["boot-1:9092"] == "metadata: the answer has no brokers"
    setup.cluster.nodes = nodes
    setup.bring_up()


def test_nobody_left_when_all_brokers_are_gone_then_the_bootstrap_servers_are_asked_and_partitions_stay():
    setup = up()
    setup.make_ready(1)
    cut_all(setup)
    setup.poll()
    for _ in range(60):
        setup.clock.advance(30)
        setup.poll(times=2)
    assert setup.metadata.is_bootstrap
    assert setup.metadata.cluster.partition_count_for_topic("t") == 2
    setup.cluster.nodes = [Node(7, "host-7", 9092)]
    setup.cluster.topics["t"] = topic_row("t", 7)
    setup.selector.accepts = lambda connection_id: True if connection_id == "-1" else REFUSED
    version = setup.metadata.version()
    for _ in range(12):
        setup.clock.advance(200)
        setup.poll(times=3)
    assert setup.metadata.version() > version
    assert setup.metadata.cluster.leader_for(TopicPartition("t", 0)) == Node(7, "host-7", 9092)


def test_nobody_left_when_recovery_is_off_then_the_known_brokers_are_tried_for_ever():
    setup = up(metadata_recovery_strategy="none")
    cut_all(setup)
    for _ in range(20):
        setup.clock.advance(200)
        setup.poll(times=2)
    assert not setup.metadata.is_bootstrap
    assert {connect.connection_id for connect in setup.selector.connects[1:]} == {"1", "2"}


def test_nobody_left_when_a_known_broker_comes_back_first_then_it_is_asked():
    setup = up()
    cut_all(setup)
    for _ in range(60):
        setup.clock.advance(30)
        setup.poll(times=2)
    assert setup.metadata.is_bootstrap
    setup.selector.accepts = lambda connection_id: True if connection_id == "2" else REFUSED
    for _ in range(60):
        setup.clock.advance(100)
        setup.poll(times=2)
    assert not setup.metadata.is_bootstrap


def test_connection_when_it_only_ends_then_the_bootstrap_servers_are_left_alone():
    setup = up()
    setup.make_ready(1)
    setup.make_ready(2)
    for connection_id in list(setup.selector.open):
        setup.selector.end(connection_id)
    for _ in range(10):
        setup.clock.advance(100)
        setup.poll(times=2)
    assert not setup.metadata.is_bootstrap
    assert setup.metadata.version() >= 2


def test_no_answer_for_too_long_when_the_trigger_passes_then_all_connections_close_and_it_starts_over():
    setup = up(metadata_recovery_rebootstrap_trigger_ms=10_000)
    setup.make_ready(1)
    setup.make_ready(2)
    setup.cluster.answers_metadata = False
    setup.metadata.request_update()
    setup.clock.advance(1_000)
    setup.poll()
    setup.clock.advance(10_001)
    setup.poll()
    assert {"1", "2"} <= set(setup.selector.closed)
    assert setup.metadata.is_bootstrap
    assert setup.metadata.cluster.partition_count_for_topic("t") == 2
    assert setup.metadata.cluster.leader_for(TopicPartition("t", 0)) is None
    setup.cluster.answers_metadata = True
    for _ in range(10):
        setup.clock.advance(100)
        setup.poll()
    assert setup.metadata.cluster.leader_for(TopicPartition("t", 0)).node_id == 1


def test_rebootstrap_required_when_a_broker_says_so_then_it_starts_over():
    setup = up()
    setup.make_ready(1)
    setup.cluster.metadata_error = 129
    setup.metadata.request_update()
    setup.clock.advance(1_000)
    setup.poll(times=2)
    assert "1" in setup.selector.closed
    assert setup.metadata.is_bootstrap
    assert setup.metadata.cluster.leader_for(TopicPartition("t", 0)) is None
    setup.cluster.metadata_error = 0
    for _ in range(10):
        setup.clock.advance(100)
        setup.poll()
    assert setup.metadata.cluster.leader_for(TopicPartition("t", 0)).node_id == 1


def test_rebootstrap_required_when_recovery_is_off_then_only_a_backoff():
    setup = up(metadata_recovery_strategy="none")
    setup.cluster.metadata_error = 129
    setup.metadata.request_update()
    setup.clock.advance(1_000)
    setup.poll(times=10)
    assert len(setup.selector.asked(ApiKeys.METADATA)) == 2
    assert not setup.metadata.is_bootstrap


def test_other_error_when_at_the_top_of_a_response_then_noted():
    setup = up()
    setup.cluster.metadata_error = 42
    setup.metadata.request_update()
    setup.clock.advance(1_000)
    setup.poll(times=6)
    assert "metadata: the answer has error INVALID_REQUEST (42)" in str(setup.metadata.last_errors())


def test_throttled_broker_when_metadata_is_due_then_another_is_asked():
    setup = up()
    setup.make_ready(1)
    setup.make_ready(2)
    setup.client._states.throttle(1, setup.now_ms + 5_000)
    setup.metadata.request_update()
    setup.clock.advance(1_000)
    for _ in range(5):
        setup.metadata.request_update()
        setup.poll(times=2)
        setup.clock.advance(1_000)
    assert {request.connection_id for request in setup.selector.asked(ApiKeys.METADATA)[1:4]} == {"2"}


def test_bootstrap_when_nobody_was_ever_reached_then_it_is_not_started_over(caplog):
    setup = Setup(bootstrap=ONE)
    setup.selector.accepts = lambda connection_id: REFUSED
    with caplog.at_level("INFO", logger="pyproducer.client"):
        for _ in range(8):
            setup.clock.advance(1_000)
            setup.poll()
    assert len(setup.selector.connects) > 2
    assert "asking the bootstrap servers as well" not in caplog.text


def test_canonical_names_when_asked_for_then_the_bootstrap_nodes_have_them(monkeypatch):
    monkeypatch.setattr(socket, "getaddrinfo", lambda host, port, **options: [
        (socket.AF_INET, 1, 6, "", ("10.0.0.1", port)), (socket.AF_INET, 1, 6, "", ("10.0.0.2", port))])
    monkeypatch.setattr(socket, "getnameinfo", lambda address, flags: (f"name-{address[0][-1]}", "9092"))
    setup = canonical_setup()
    setup.poll()
    assert setup.metadata.nodes_to_ask() == (Node(-1, "name-1", 9092), Node(-2, "name-2", 9092))
    assert setup.selector.connects[0].server_hostname in ("name-1", "name-2")
    asked = []
    monkeypatch.setattr(socket, "getnameinfo", lambda address, flags: asked.append(address) or ("again", "9092"))
    for _ in range(5):
        setup.metadata.request_update()
        setup.clock.advance(1_000)
        setup.poll(times=2)
    assert setup.metadata.version() > 1
    assert asked == [], "the resolver is asked once"


def test_canonical_names_when_they_failed_and_the_client_starts_over_then_they_are_asked_for_at_once(monkeypatch):
    asked = []

    def getaddrinfo(host, port, **options):
        asked.append(host)
        raise socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    setup = canonical_setup()
    setup.poll()
    count = len(asked)
    setup.client._updater.rebootstrap(setup.now_ms)
    setup.poll()
    assert len(asked) == 2 * count


def test_canonical_names_when_the_resolver_fails_then_said_and_tried_again(monkeypatch):
    asked = []

    def getaddrinfo(host, port, **options):
        asked.append(host)
        raise socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    setup = canonical_setup()
    setup.poll(times=3)
    assert len(asked) == 2, "numeric, then by name; once"
    assert setup.metadata.last_errors() == {
        "alias:9092": "DNS: the host name does not resolve (Temporary failure in name resolution)"}
    setup.clock.advance(50)
    setup.poll()
    assert len(asked) == 4


def fail_once(monkeypatch, owner: type, name: str, error: Exception) -> None:
    """Let a method raise at its next call."""
    whole = getattr(owner, name)

    def fail(*arguments, **options):
        monkeypatch.setattr(owner, name, whole)
        raise error

    monkeypatch.setattr(owner, name, fail)


def assert_it_recovers(setup: Setup, logged: str, caplog) -> None:
    """It is not asked again before the backoff ended, and then it is, with success."""
    asked, version = len(setup.selector.asked(ApiKeys.METADATA)), setup.metadata.version()
    assert logged in caplog.text
    assert 0 < setup.metadata.time_to_next_update(setup.now_ms) <= 200
    setup.poll(times=3)
    assert (len(setup.selector.asked(ApiKeys.METADATA)), setup.metadata.version()) == (asked, version)
    setup.clock.advance(200)
    setup.poll(times=3)
    assert len(setup.selector.asked(ApiKeys.METADATA)) == asked + 1
    assert setup.metadata.version() == version + 1
    assert setup.metadata.last_errors() == {}


@pytest.mark.parametrize(("owner", "method"), [(MetadataRequest, "body"), (ProducerMetadata, "update")])
def test_request_when_an_error_is_nobodys_then_it_ends_the_turn_and_metadata_is_asked_again(owner, method, monkeypatch):
    """It counted as under way for ever: nothing was asked any more, of any broker, for any topic."""
    setup = up()
    setup.make_ready(1)
    version = setup.metadata.version()
    setup.metadata.request_update()
    setup.clock.advance(1_000)
    fail_once(monkeypatch, owner, method, ZeroDivisionError("no such thing"))
    with pytest.raises(ZeroDivisionError):
        setup.poll(times=2)
    setup.wire.renew()
    for _ in range(6):
        setup.clock.advance(100)
        setup.poll()
    assert setup.metadata.version() == version + 1


def test_request_when_a_value_does_not_fit_then_the_error_is_told_and_logged_once(caplog):
    setup = up()
    setup.make_ready(1)
    setup.metadata.add("bad\ud800", setup.now_ms)
    for _ in range(5):
        setup.poll(times=2)
        setup.clock.advance(1_000)
    ((_, told),) = setup.metadata.last_errors().items()
    assert told.startswith("metadata: the request could not be made: ")
    assert "topics[0].name" in told or "name" in told
    assert caplog.text.count("the request could not be made") == 1
    assert setup.client.is_ready(1, setup.now_ms) or setup.metadata.time_to_next_update(setup.now_ms) == 0


@pytest.mark.parametrize("index", [-1, -1_000_000, 1_000_000, 2**31 - 1])
def test_answer_when_a_partition_has_an_impossible_index_then_it_is_refused_and_the_old_snapshot_stays(index, caplog):
    setup = up()
    setup.make_ready(1)
    before = setup.metadata.cluster
    setup.cluster.topics["t"]["partitions"][1]["partition_index"] = index
    setup.metadata.request_update()
    setup.clock.advance(1_000)
    setup.poll(times=2)
    assert setup.metadata.cluster is before
    (told,) = setup.metadata.last_errors().values()
    assert f"partition {index} of topic 't'" in told
    assert "from 0 to 999999" in told
    assert setup.selector.closed == [], "the bytes are in order: other requests on the connection go on"
    assert "Traceback" not in caplog.text
    setup.cluster.topics["t"]["partitions"][1]["partition_index"] = 1
    assert_it_recovers(setup, "from 0 to 999999", caplog)


def test_canonical_names_when_a_name_is_slow_then_awaited_and_left_out_when_it_takes_too_long(monkeypatch):
    monkeypatch.setattr(socket, "getnameinfo", lambda address, flags: (f"name-{address[0][-1]}", "9092"))
    setup = canonical_setup("alias-1", "alias-2", resolve=lambda host, port: [
        ResolvedAddress(2, (f"10.0.0.{host[-1]}", port))])
    setup.threads.held_hosts.add("alias-1")
    setup.poll()
    setup.clock.advance(9_999)
    setup.poll()
    assert setup.selector.connects == []
    setup.clock.advance(1)
    setup.poll()
    assert setup.metadata.nodes_to_ask() == (Node(-1, "name-2", 9092),)
    assert setup.metadata.last_errors()["alias-1:9092"].startswith(
        "DNS: the host name was not resolved within 10000 ms (socket.connection.setup.timeout.ms)")
    assert [connect.server_hostname for connect in setup.selector.connects] == ["name-2"]


def test_canonical_names_when_nobody_ran_meanwhile_then_they_have_so_much_longer(monkeypatch):
    """A machine that was suspended while a name was looked up came back without the name."""
    monkeypatch.setattr(socket, "getnameinfo", lambda address, flags: ("name-1", "9092"))
    setup = canonical_setup(resolve=lambda host, port: [ResolvedAddress(2, ("10.0.0.1", port))])
    setup.threads.held_hosts.add("alias")
    setup.poll()
    setup.clock.advance(60_000)
    setup.client.move_deadlines(60_000)
    setup.clock.advance(9_999)
    setup.poll()
    assert setup.metadata.last_errors() == {}
    setup.clock.advance(1)
    setup.poll()
    assert list(setup.metadata.last_errors()) == ["alias:9092"]


def test_canonical_names_when_all_are_slow_then_the_lookup_that_lasts_is_joined_after_the_timeout(monkeypatch):
    monkeypatch.setattr(socket, "getnameinfo", lambda address, flags: ("name-1", "9092"))
    setup = canonical_setup(resolve=lambda host, port: [ResolvedAddress(2, ("10.0.0.1", port))])
    setup.threads.held_hosts.add("alias")
    for wait_ms in (0, 10_000, 50):
        setup.clock.advance(wait_ms)
        setup.poll()
    assert setup.threads.names == ["kafka-producer-resolver | alias"]
    setup.threads.end_lookup("alias")
    setup.poll()
    assert setup.metadata.nodes_to_ask() == (Node(-1, "name-1", 9092),)


def test_canonical_names_when_the_client_starts_over_while_they_are_looked_for_then_they_have_their_full_time(
        monkeypatch):
    monkeypatch.setattr(socket, "getnameinfo", lambda address, flags: ("name-1", "9092"))
    setup = canonical_setup(resolve=lambda host, port: [ResolvedAddress(2, ("10.0.0.1", port))])
    setup.threads.held_hosts.add("alias")
    setup.poll()
    setup.clock.advance(9_999)
    setup.client._updater.rebootstrap(setup.now_ms)
    setup.poll()
    setup.clock.advance(9_999)
    setup.poll()
    assert setup.metadata.last_errors() == {}
    setup.clock.advance(1)
    setup.poll()
    assert list(setup.metadata.last_errors()) == ["alias:9092"]


def test_bootstrap_when_a_name_is_slow_then_the_next_server_is_asked_after_a_second():
    """One bad name among the bootstrap servers stopped everything for as long as its lookup took."""
    setup = Setup()
    setup.threads.held_hosts.update(("boot-1", "boot-2"))
    setup.poll()
    (first,) = setup.threads.waiting_hosts()
    (second,) = setup.threads.held_hosts - {first}
    setup.clock.advance(999)
    setup.poll()
    assert setup.threads.waiting_hosts() == [first]
    setup.threads.held_hosts.clear()
    setup.clock.advance(1)
    setup.poll(times=5)
    assert {connect.server_hostname for connect in setup.selector.connects} == {second}
    assert setup.metadata.version() == 1


def test_bootstrap_when_all_names_are_slow_then_all_are_awaited():
    setup = Setup()
    setup.threads.held_hosts.update(("boot-1", "boot-2"))
    for _ in range(4):
        setup.poll()
        setup.clock.advance(1_000)
    assert sorted(setup.threads.waiting_hosts()) == ["boot-1", "boot-2"]
    setup.threads.end_lookup("boot-2")
    setup.poll(times=5)
    assert setup.metadata.version() == 1
