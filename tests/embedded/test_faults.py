"""Faults as stories, other releases' versions, the log of requests: seen by a bare client."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from pyproducer.broker import EmbeddedBroker
from pyproducer.broker.network.request_channel import Request
from pyproducer.broker.network.socket_server import ConnectionInfo
from pyproducer.common.error_codes import ErrorCode
from pyproducer.common.errors import ConfigError, IllegalStateError
from pyproducer.protocol.apis import ApiKeys
from pyproducer.protocol.header import parse_response_correlation_id
from pyproducer.record.batch_writer import build_batch
from tests.support.patience import GIVE_UP_S
from tests.support.raw_client import (
    ConnectionEnded,
    RawClient,
    fetch_body,
    fetched,
    list_offsets_body,
    metadata_body,
    produce_body,
    produced,
)

StartBroker = Callable[..., EmbeddedBroker]
both_kinds = pytest.mark.parametrize("separate_process", [False, True], ids=["in process", "separate process"])
BATCH = bytes(build_batch([(1_700_000_000_000, b"k", b"v", ())]))


@pytest.fixture
def broker(start_broker: StartBroker) -> EmbeddedBroker:
    return start_broker(topics={"orders": 3, "other": 1}, log_requests=True)


def connect(broker: EmbeddedBroker) -> RawClient:
    return RawClient(("127.0.0.1", broker.port))


def batch_of(value: bytes) -> bytes:
    return bytes(build_batch([(1_700_000_000_000, b"k", value, ())]))


def two_partitions(topic: str = "orders") -> dict[str, object]:
    return {"acks": -1, "timeout_ms": 5000, "topic_data": [{"name": topic, "partition_data": [
        {"index": 0, "records": BATCH}, {"index": 1, "records": BATCH}]}]}


# ---- each thing that can go wrong

@both_kinds
def test_applied_and_then_the_connection_died(start_broker: StartBroker, separate_process: bool) -> None:
    broker = start_broker(topics={"orders": 1}, separate_process=separate_process)
    fault = broker.faults.on("Produce", topic="orders").close("after_apply")
    with connect(broker) as client:
        client.send_request(ApiKeys.PRODUCE, 9, produce_body("orders", 0, BATCH))
        assert client.is_closed()
    assert fault.count == 1
    assert broker.log_end_offsets("orders") == {0: 1}
    with connect(broker) as client:
        assert produced(client.request(ApiKeys.PRODUCE, 9, produce_body("orders", 0, BATCH)))["base_offset"] == 1


def test_closed_before_it_is_applied(broker: EmbeddedBroker) -> None:
    broker.faults.on(ApiKeys.PRODUCE).close("before_apply")
    with connect(broker) as client:
        client.send_request(ApiKeys.PRODUCE, 9, produce_body("orders", 0, BATCH))
        assert client.is_closed()
    assert broker.log_end_offsets("orders")[0] == 0


@pytest.mark.parametrize(("when", "end_offset"), [("before_apply", 0), ("after_apply", 1)])
def test_an_error_of_one_partition_leaves_the_other_alone(
        broker: EmbeddedBroker, when: str, end_offset: int) -> None:
    broker.faults.on("Produce", topic="orders", partition=1).error(
        ErrorCode.NOT_ENOUGH_REPLICAS, "by the test", {0: "this one"}, when=when)
    with connect(broker) as client:
        answer = client.request(ApiKeys.PRODUCE, 9, two_partitions())
        (topic_0, topic_1) = (entry for topic in answer["responses"] for entry in topic["partition_responses"])
        assert (topic_0["index"], topic_0["error_code"], topic_0["base_offset"]) == (0, 0, 0)
        assert (topic_1["index"], topic_1["error_code"], topic_1["error_message"]) == (1, 19, "by the test")
        assert [dict(row) for row in topic_1["record_errors"]] == [
            {"batch_index": 0, "batch_index_error_message": "this one"}]
        assert broker.log_end_offsets("orders") == {0: 1, 1: end_offset, 2: 0}
        assert {entry["error_code"] for topic in client.request(ApiKeys.PRODUCE, 9, two_partitions())["responses"]
                for entry in topic["partition_responses"]} == {0}


def test_an_error_by_topic_is_found_by_its_id_too(broker: EmbeddedBroker) -> None:
    broker.faults.on("Produce", topic="orders").error(ErrorCode.KAFKA_STORAGE_ERROR)
    broker.faults.on("Fetch", topic="orders").error(ErrorCode.KAFKA_STORAGE_ERROR)
    with connect(broker) as client:
        (topic,) = client.request(ApiKeys.METADATA, 12, metadata_body("orders"))["topics"]
        topic_id = topic["topic_id"]
        body = two_partitions()
        body["topic_data"] = [{"topic_id": topic_id, "partition_data": [{"index": 0, "records": BATCH}]}]
        assert produced(client.request(ApiKeys.PRODUCE, 13, body))["error_code"] == 56
        answer = client.request(ApiKeys.FETCH, 16, fetch_body(16, topic_id, 0, 0))
        assert (answer["error_code"], fetched(answer)["error_code"]) == (0, 56)
        assert produced(client.request(ApiKeys.PRODUCE, 13, body))["error_code"] == 0


def test_an_error_of_other_apis_is_their_own_way_to_say_so(broker: EmbeddedBroker) -> None:
    with connect(broker) as client:
        broker.faults.on("Metadata", topic="orders").error(ErrorCode.LEADER_NOT_AVAILABLE)
        answer = client.request(ApiKeys.METADATA, 12, metadata_body("orders", "other"))
        assert {topic["name"]: topic["error_code"] for topic in answer["topics"]} == {"orders": 5, "other": 0}
        assert len(answer["brokers"]) == 1
        broker.faults.on("ListOffsets").error(ErrorCode.UNKNOWN_LEADER_EPOCH)
        answer = client.request(ApiKeys.LIST_OFFSETS, 1, list_offsets_body("orders", 0, -1))
        assert answer["topics"][0]["partitions"][0]["error_code"] == 75
        broker.faults.on("InitProducerId").error(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        body = {"transactional_id": None, "transaction_timeout_ms": 1000}
        assert client.request(ApiKeys.INIT_PRODUCER_ID, 1, body)["error_code"] == 14
        assert client.request(ApiKeys.INIT_PRODUCER_ID, 1, body)["error_code"] == 0


@pytest.mark.parametrize("when", ["before_apply", "after_apply"])
def test_an_error_that_nobody_knows_is_answered_by_its_number(broker: EmbeddedBroker, when: str) -> None:
    with connect(broker) as client:
        for number in (999, -2, -2**15, 2**15 - 1):
            broker.faults.on("Produce", topic="orders").error(number, "by the test", when=when)
            entry = produced(client.request(ApiKeys.PRODUCE, 9, produce_body("orders", 0, BATCH)))
            assert (entry["error_code"], entry["error_message"]) == (number, "by the test")
        broker.faults.on("Metadata").error(999)
        assert client.request(ApiKeys.METADATA, 1, metadata_body("orders"))["topics"][0]["error_code"] == 999
    assert broker.log_end_offsets("orders")[0] == 4 * (when == "after_apply")


@pytest.mark.parametrize("when", ["before_apply", "after_apply"])
def test_a_delay_holds_one_connection_and_no_handler(start_broker: StartBroker, when: str) -> None:
    broker = start_broker(topics={"orders": 1}, config={"num.io.threads": 1})
    delayed = broker.faults.on("Produce").delay(3_600_000, when)
    with connect(broker) as client, connect(broker) as other:
        client.send_request(ApiKeys.PRODUCE, 9, produce_body("orders", 0, BATCH))
        client.send_request(ApiKeys.METADATA, 1, metadata_body())
        delayed.await_count()
        other.request(ApiKeys.METADATA, 1, metadata_body())  # the only handler is free when this is answered
        assert broker.log_end_offsets("orders")[0] == (when == "after_apply")
        assert client.is_silent(for_s=0.1)
        assert "MUTED_AND_RESPONSE_PENDING" in {connection.mute_state for connection in broker.connections()}


@pytest.mark.parametrize("when", ["before_apply", "after_apply"])
def test_a_delay_when_it_is_over_then_the_connection_goes_on_in_order(broker: EmbeddedBroker, when: str) -> None:
    broker.faults.on("Produce").delay(200, when)
    with connect(broker) as client:
        begin = time.monotonic()
        client.send_request(ApiKeys.PRODUCE, 9, produce_body("orders", 0, BATCH))
        client.send_request(ApiKeys.METADATA, 1, metadata_body())
        assert produced(client.receive_response(ApiKeys.PRODUCE, 9)[1])["error_code"] == 0
        assert time.monotonic() - begin > 0.19
        client.receive_response(ApiKeys.METADATA, 1)
    assert broker.log_end_offsets("orders")[0] == 1


def test_a_fetch_that_waits_can_have_a_fault_too(broker: EmbeddedBroker) -> None:
    broker.faults.on("Fetch").close("after_apply")
    with connect(broker) as client:
        begin = time.monotonic()
        client.send_request(ApiKeys.FETCH, 11, fetch_body(11, "orders", 0, 0, max_wait_ms=200))
        assert client.is_closed()
        assert time.monotonic() - begin > 0.19


@pytest.mark.parametrize(("when", "end_offset"), [("before_apply", 0), ("after_apply", 1)])
def test_a_dropped_request_is_never_answered_and_nothing_behind_it_is_read(
        broker: EmbeddedBroker, when: str, end_offset: int) -> None:
    broker.faults.on("Produce").drop(when)
    with connect(broker) as client:
        client.send_request(ApiKeys.PRODUCE, 9, produce_body("orders", 0, BATCH))
        client.send_request(ApiKeys.METADATA, 1, metadata_body())
        assert client.is_silent()
    assert broker.log_end_offsets("orders")[0] == end_offset


def test_a_truncated_answer_ends_the_connection(broker: EmbeddedBroker) -> None:
    broker.faults.on("Metadata").truncate(11)
    with connect(broker) as client:
        client.send_request(ApiKeys.METADATA, 1, metadata_body("orders"))
        announced = int.from_bytes(client.receive_bytes(4), "big")
        assert announced > 7
        assert parse_response_correlation_id(client.receive_bytes(7)) == 1
        with pytest.raises(ConnectionEnded):
            client.receive_bytes(1)
    broker.faults.on("Metadata").truncate(7, resize=True)
    with connect(broker) as client:
        client.send_request(ApiKeys.METADATA, 1, metadata_body("orders"))
        assert len(client.receive_frame()) == 7
        client.request(ApiKeys.METADATA, 1, metadata_body("orders"))


def test_a_wrong_correlation_id(broker: EmbeddedBroker) -> None:
    broker.faults.on("Metadata").wrong_correlation_id()
    with connect(broker) as client:
        sent = client.send_request(ApiKeys.METADATA, 1, metadata_body())
        answered, body = client.receive_response(ApiKeys.METADATA, 1)
        assert answered != sent
        assert len(body["brokers"]) == 1


def test_call_when_a_request_comes_then_it_sees_it_answers_it_or_fails(broker: EmbeddedBroker) -> None:
    seen: list[Request] = []
    broker.faults.on("Metadata").call(seen.append)

    def fail(_request: Request) -> None:
        raise RuntimeError("by the test")

    broker.faults.on("Metadata").call(fail)
    broker.faults.on("Metadata").call(lambda _request: {"brokers": [], "controller_id": 7, "topics": []})
    with connect(broker) as client:
        assert client.request(ApiKeys.METADATA, 1, metadata_body("orders"))["controller_id"] == 1
        assert [request.data["topics"][0]["name"] for request in seen] == ["orders"]
        answer = client.request(ApiKeys.METADATA, 1, metadata_body("orders"))
        assert answer["topics"][0]["error_code"] == ErrorCode.UNKNOWN_SERVER_ERROR
        assert client.request(ApiKeys.METADATA, 1, metadata_body())["controller_id"] == 7


def test_a_call_cannot_go_to_another_process(start_broker: StartBroker) -> None:
    broker = start_broker(separate_process=True)
    with pytest.raises(ConfigError, match="separate_process=False"):
        broker.faults.on("Metadata").call(print)


# ---- which requests

def test_faults_are_chosen_by_client_and_count(broker: EmbeddedBroker) -> None:
    never = broker.faults.on("Metadata", client_id="somebody else").close()
    elsewhere = broker.faults.on("Metadata", api_version=12).close()
    twice = broker.faults.on("Metadata", client_id="probe", times=2).error(ErrorCode.INVALID_TOPIC_EXCEPTION)
    with connect(broker) as client:
        codes = [client.request(ApiKeys.METADATA, 1, metadata_body("orders"))["topics"][0]["error_code"]
                 for _ in range(4)]
    assert codes == [17, 17, 0, 0]
    assert (never.count, elsewhere.count, twice.count) == (0, 0, 2)


def test_faults_end_when_they_are_removed(broker: EmbeddedBroker) -> None:
    always = broker.faults.on("Metadata", times=None).error(ErrorCode.INVALID_TOPIC_EXCEPTION)
    with connect(broker) as client:
        for _ in range(3):
            assert client.request(ApiKeys.METADATA, 1, metadata_body("orders"))["topics"][0]["error_code"] == 17
        always.await_count(3)
        always.remove()
        assert client.request(ApiKeys.METADATA, 1, metadata_body("orders"))["topics"][0]["error_code"] == 0
        broker.faults.on("Metadata", times=None).error(ErrorCode.INVALID_TOPIC_EXCEPTION)
        broker.faults.clear()
        assert client.request(ApiKeys.METADATA, 1, metadata_body("orders"))["topics"][0]["error_code"] == 0
    with pytest.raises(ConfigError, match="was removed"):
        always.close()


def test_the_same_seed_makes_the_same_choices(start_broker: StartBroker) -> None:
    stories = []
    for seed in (7, 7, 8):
        broker = start_broker(topics=["orders"])
        broker.faults.seed = seed
        broker.faults.on("Metadata", times=None, probability=0.5).error(ErrorCode.INVALID_TOPIC_EXCEPTION)
        with connect(broker) as client:
            stories.append([client.request(ApiKeys.METADATA, 1, metadata_body("orders"))["topics"][0]["error_code"]
                            for _ in range(40)])
        assert broker.faults.seed == seed
    assert stories[0] == stories[1]
    assert stories[0] != stories[2]
    assert set(stories[0]) == {0, 17}


@pytest.mark.parametrize(("arguments", "why"), [
    ({"api": "Prodcue"}, "known are Produce"), ({"times": 0}, "at least 1"), ({"probability": 0}, "above 0"),
    ({"probability": True}, "above 0"), ({"api": "Heartbeat", "topic": "orders"}, "Heartbeat names no topic"),
    ({"api": "Metadata", "partition": 0}, "names no partition"), ({"api": "Produce", "group": "g"}, "names no group"),
    ({"api": "Fetch", "transactional_id": "t"}, "names no transactional id"), ({"partition": "0"}, "whole number"),
    ({"partition": -1}, "at least 0"), ({"times": "1"}, "whole number"), ({"after": -1}, "at least 0"),
    ({"after": None}, "whole number"), ({"topic": "a/b"}, "is invalid"), ({"topic": 7}, "must be a text"),
    ({"node_id": 2}, "there are 1"), ({"api": "Produce", "api_version": 99}, "has versions 3 to 13")], ids=str)
def test_faults_that_could_never_fit_are_refused(
        broker: EmbeddedBroker, arguments: dict[str, object], why: str) -> None:
    """They were taken, and the test that relied on them passed."""
    with pytest.raises(ConfigError, match=why):
        broker.faults.on(**arguments)  # type: ignore[arg-type]  # wrong on purpose


@pytest.mark.parametrize(("api", "act", "why"), [
    ("Produce", lambda fault: fault.close("later"), "before_apply, after_apply"),
    ("Produce", lambda fault: fault.delay(-5), "from 0 to"),
    ("Produce", lambda fault: fault.delay("5"), "whole number"),
    ("Produce", lambda fault: fault.error("NO_SUCH"), "no error of this name"),
    ("Produce", lambda fault: fault.error(2**15), "from -32768 to 32767"),
    ("Produce", lambda fault: fault.error(1, 7), "must be a text"),
    ("Fetch", lambda fault: fault.error(1, "x", {0: "y"}), "only Produce has them"),
    ("Produce", lambda fault: fault.error(1, "x", {"a": "y"}), "by the index"),
    ("Produce", lambda fault: fault.truncate(-1), "from 0 to"),
    ("SaslHandshake", lambda fault: fault.throttle(5), "tells a throttle time"),
    ("Fetch", lambda fault: fault.swap(), "only Produce can be lied about"),
    ("Fetch", lambda fault: fault.call(7), "must be a function")])
def test_what_goes_wrong_when_it_cannot_then_it_is_refused(
        broker: EmbeddedBroker, api: str, act: Callable[[Any], object], why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        act(broker.faults.on(api))


def test_faults_come_after_some_and_by_version_group_and_transactional_id(broker: EmbeddedBroker) -> None:
    third = broker.faults.on("Metadata", topic="orders", after=2, times=2).error("INVALID_TOPIC_EXCEPTION")
    old = broker.faults.on("Metadata", api_version=1, topic="other").error(ErrorCode.LEADER_NOT_AVAILABLE)
    group = broker.faults.on("FindCoordinator", group="g").error(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    described = broker.faults.on("DescribeGroups", group="g").error(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    transaction = broker.faults.on(transactional_id="t").error(ErrorCode.NOT_COORDINATOR)
    with connect(broker) as client:
        def codes(version: int, *topics: str) -> list[int]:
            answer = client.request(ApiKeys.METADATA, version, metadata_body(*topics))
            return [topic["error_code"] for topic in answer["topics"]]

        assert [codes(1, "orders")[0] for _ in range(5)] == [0, 0, 17, 17, 0]
        assert codes(2, "other") == [0]
        assert codes(1, "orders", "other") == [0, 5]
        for key, key_type, code in (("h", 0, 0), ("g", 1, 0), ("g", 0, 15), ("t", 0, 0), ("t", 1, 16)):
            found = client.request(ApiKeys.FIND_COORDINATOR, 3, {"key": key, "key_type": key_type})
            assert found["error_code"] == code, (key, key_type)
        for groups, codes_of_groups in ((["h"], [0]), (["h", "g"], [14, 14])):
            answer = client.request(ApiKeys.DESCRIBE_GROUPS, 5, {
                "groups": groups, "include_authorized_operations": False})
            assert [found["error_code"] for found in answer["groups"]] == codes_of_groups
    assert [fault.count for fault in (third, old, group, described, transaction)] == [2, 1, 1, 1, 1]


def test_faults_that_no_request_has_met_are_told(broker: EmbeddedBroker) -> None:
    broker.faults.on("Metadata").error(ErrorCode.INVALID_TOPIC_EXCEPTION)
    broker.faults.on("Produce", topic="orders", times=None).delay(5).close()
    broker.faults.on("Fetch", optional=True).drop()
    broker.faults.on("Fetch").drop().remove()
    broker.faults.on(client_id="nobody")
    with connect(broker) as client:
        client.request(ApiKeys.METADATA, 1, metadata_body("orders"))
    assert broker.faults.unused() == [
        "on(\"Produce\", topic='orders', times=None).delay(delay_ms=5, when='before_apply').close(when='after_apply')",
        "on(client_id='nobody') without anything that happens"]
    broker.faults.clear()
    assert broker.faults.unused() == []


# ---- requests that are held

@both_kinds
@pytest.mark.parametrize("when", ["before_apply", "after_apply"])
def test_requests_that_are_held_go_on_in_the_order_that_the_test_wants(
        start_broker: StartBroker, separate_process: bool, when: str) -> None:
    broker = start_broker(topics={"orders": 1}, separate_process=separate_process, config={"num.io.threads": 1})
    both = broker.faults.on("Produce", topic="orders", times=2).hold(when)
    with connect(broker) as first, connect(broker) as second, connect(broker) as third:
        for number, client in enumerate((first, second), 1):
            client.send_request(ApiKeys.PRODUCE, 9, produce_body("orders", 0, batch_of(b"%d" % number)))
            both.await_held(number)
        third.request(ApiKeys.METADATA, 1, metadata_body())  # the only handler is free
        assert (both.held, both.count) == ([1, 2], 2)
        assert first.is_silent(for_s=0.05)
        both.release(2)
        offset = produced(second.receive_response(ApiKeys.PRODUCE, 9)[1])["base_offset"]
        assert first.is_silent(for_s=0.05)
        with pytest.raises(ConfigError, match=r"held are \[1\]"):
            both.release(2)
        both.release()
        assert produced(first.receive_response(ApiKeys.PRODUCE, 9)[1])["base_offset"] == 1 - offset
        assert offset == (0 if when == "before_apply" else 1)
        assert both.held == []
    assert [record.value for record in broker.records("orders")] == (
        [b"2", b"1"] if when == "before_apply" else [b"1", b"2"])


def test_requests_that_are_held_go_on_when_the_fault_ends_and_waits_come_in_their_order(
        broker: EmbeddedBroker) -> None:
    held = broker.faults.on("Metadata", times=None).delay(0).hold().hold("after_apply")
    with connect(broker) as client, connect(broker) as other:
        client.send_request(ApiKeys.METADATA, 1, metadata_body())
        held.await_held()
        held.release(1)
        held.await_held()
        assert held.held == [2], "once before it is looked at, once before its answer goes out"
        other.send_request(ApiKeys.METADATA, 1, metadata_body())
        held.await_held(2)
        held.remove()
        client.receive_response(ApiKeys.METADATA, 1)
        other.receive_response(ApiKeys.METADATA, 1)
        client.request(ApiKeys.METADATA, 1, metadata_body())
    with pytest.raises(ConfigError, match="was removed"):
        held.release()
    assert held.held == []


def test_request_that_is_held_takes_effect_though_its_client_has_gone(broker: EmbeddedBroker) -> None:
    held = broker.faults.on("Produce").hold()
    with connect(broker) as client:
        client.send_request(ApiKeys.PRODUCE, 9, produce_body("orders", 0, BATCH))
        held.await_held()
    held.release()
    deadline = time.monotonic() + GIVE_UP_S
    while broker.log_end_offsets("orders")[0] == 0:
        assert time.monotonic() < deadline
        time.sleep(0.005)


def test_request_that_is_held_is_gone_with_its_node(start_broker: StartBroker) -> None:
    broker = start_broker(brokers=2, topics={"orders": 1})
    held = broker.faults.on("Produce").hold()
    with connect(broker) as client:
        client.send_request(ApiKeys.PRODUCE, 9, produce_body("orders", 0, BATCH))
        held.await_held()
        broker.stop_node(1)
        assert client.is_closed()
    held.release()
    broker.start_node(1)
    assert broker.log_end_offsets("orders")[0] == 0
    with connect(broker) as client:
        assert produced(client.request(ApiKeys.PRODUCE, 9, produce_body("orders", 0, BATCH)))["error_code"] == 0
    again = broker.faults.on("Produce").hold()
    with connect(broker) as client:
        client.send_request(ApiKeys.PRODUCE, 9, produce_body("orders", 0, BATCH))
        again.await_held()
        broker.stop()
        assert client.is_closed()


# ---- other releases

def versions_of(client: RawClient, version: int = 0) -> dict[int, tuple[int, int]]:
    answer = client.request(ApiKeys.API_VERSIONS, version, {
        "client_software_name": "probe", "client_software_version": "1"} if version >= 3 else {})
    assert answer["error_code"] == 0
    return {row["api_key"]: (row["min_version"], row["max_version"]) for row in answer["api_keys"]}


@both_kinds
def test_a_release_is_shown_and_kept_to(start_broker: StartBroker, separate_process: bool) -> None:
    broker = start_broker(topics=["orders"], separate_process=separate_process)
    broker.set_api_versions("2.8")
    with connect(broker) as client:
        found = versions_of(client, 3)
        assert (found[ApiKeys.PRODUCE], found[ApiKeys.METADATA], found[ApiKeys.API_VERSIONS]) == (
            (0, 9), (0, 11), (0, 3))
        assert produced(client.request(ApiKeys.PRODUCE, 9, produce_body("orders", 0, BATCH)))["error_code"] == 0
        client.send_request(ApiKeys.PRODUCE, 10, produce_body("orders", 0, BATCH))
        assert client.is_closed()
    broker.set_api_versions("2.1")
    with connect(broker) as client:
        # Before 2.4 an unknown version of ApiVersions is refused with an empty list, in version 0.
        client.send_request(ApiKeys.API_VERSIONS, 3, {
            "client_software_name": "probe", "client_software_version": "1"})
        assert client.receive_frame() == b"\0\0\0\1" + b"\0\x23" + b"\0\0\0\0"
        found = versions_of(client)
        assert ApiKeys.DESCRIBE_CLUSTER not in found
        assert found[ApiKeys.PRODUCE] == (0, 7)
        client.send_request(ApiKeys.DESCRIBE_CLUSTER, 0, {"include_cluster_authorized_operations": False})
        assert client.is_closed()
    broker.set_api_versions(None)
    with connect(broker) as client:
        assert versions_of(client, 4)[ApiKeys.PRODUCE] == (0, 13)


def test_single_versions_are_told_as_they_are_given(start_broker: StartBroker) -> None:
    broker = start_broker(brokers=2)
    broker.set_api_versions({ApiKeys.METADATA: (3, 99), ApiKeys.PRODUCE: None}, node_id=2)
    ports = [int(address.rsplit(":", 1)[1]) for address in broker.bootstrap_servers.split(",")]
    with RawClient(("127.0.0.1", ports[0])) as client:
        assert versions_of(client)[ApiKeys.METADATA] == (0, 13)
    with RawClient(("127.0.0.1", ports[1])) as client:
        found = versions_of(client)
        assert found[ApiKeys.METADATA] == (3, 99)
        assert ApiKeys.PRODUCE not in found
        assert found[ApiKeys.FETCH] == (4, 18)
    with pytest.raises(ConfigError, match=r"known are 2\.0, 2\.1"):
        broker.set_api_versions("1.9")


# ---- what was seen

def await_connections(broker: EmbeddedBroker, is_as_expected: Callable[[ConnectionInfo], bool]) -> list[ConnectionInfo]:
    deadline = time.monotonic() + GIVE_UP_S
    while not all(map(is_as_expected, found := broker.connections())):
        assert time.monotonic() < deadline, found
        time.sleep(0.01)
    return found


@both_kinds
def test_requests_are_logged(start_broker: StartBroker, separate_process: bool) -> None:
    broker = start_broker(brokers=2, topics={"orders": 1}, separate_process=separate_process)
    with pytest.raises(IllegalStateError, match="log_requests"):
        broker.requests()
    broker.log_requests()
    with connect(broker) as client:
        (topic,) = client.request(ApiKeys.METADATA, 12, metadata_body("orders"))["topics"]
        client.request(ApiKeys.PRODUCE, 9, produce_body("orders", 0, BATCH))
        metadata, produce = broker.requests()
        # The processor looks at the connection again a moment after it wrote the answer.
        (connection,) = await_connections(broker, lambda connection: connection.mute_state == "NOT_MUTED")
    assert (metadata.api_key, metadata.api_version, metadata.correlation_id) == (ApiKeys.METADATA, 12, 1)
    assert (produce.api_key, produce.node_id, produce.client_id, produce.listener_name, produce.principal) == (
        ApiKeys.PRODUCE, 1, "probe", "PLAINTEXT", "User:ANONYMOUS")
    assert produce.body["topic_data"] == [
        {"name": "orders", "partition_data": [{"index": 0, "records": BATCH}]}]
    assert metadata.body["topics"][0]["topic_id"].int == 0
    assert topic["topic_id"].int != 0
    assert produce.arrived_ms >= metadata.arrived_ms
    assert (connection.connection_id, connection.processor_id) == (produce.connection_id, produce.processor_id)
    assert broker.requests("Produce") == [produce]
    broker.clear_requests()
    assert broker.requests() == []


def test_faults_when_the_broker_is_started_again_then_none_is_left() -> None:
    """What a test has scripted ends with the broker: faults, pretended versions, and the requests that came."""
    broker = EmbeddedBroker(topics=["orders"], log_requests=True)
    for _ in range(2):
        with broker:
            with connect(broker) as client:
                (topic,) = client.request(ApiKeys.METADATA, 9, metadata_body("orders"))["topics"]
                assert topic["error_code"] == 0
                assert client.request(ApiKeys.API_VERSIONS, 0, {})["api_keys"][0]["max_version"] == 13
            assert len(broker.requests("Metadata")) == 1
            broker.faults.on("Metadata", times=None).error(ErrorCode.INVALID_TOPIC_EXCEPTION)
            broker.set_api_versions("2.8")
