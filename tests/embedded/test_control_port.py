"""The control port: who may ask, what is refused and in which words, and that Python's words are all there."""

from __future__ import annotations

import contextlib
import inspect
import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

from pyproducer.broker import EmbeddedBroker, Fault
from pyproducer.broker.control.cluster_control import ClusterControl
from pyproducer.broker.control.control_calls import ACTS, FAULT_ACTS, FAULT_LOOKS, LOOKS, ControlCalls
from pyproducer.broker.control.control_port import ControlPort
from pyproducer.broker.control.in_process import ClusterOptions, InProcessCluster
from pyproducer.common.errors import ConfigError
from pyproducer.protocol.apis import ApiKeys
from tests.support.http_broker import HttpControl
from tests.support.patience import PROGRAM_S
from tests.support.raw_client import RawClient, metadata_body

Open = Callable[..., HttpControl]


@pytest.fixture
def cluster() -> Iterator[InProcessCluster]:
    one = InProcessCluster(ClusterOptions(brokers=2, topics={"orders": 2}, config={"listeners": "PLAINTEXT://127.0.0.1:0"}))
    one.start()
    yield one
    one.stop()


@pytest.fixture
def open_port(cluster: InProcessCluster) -> Iterator[Open]:
    ports: list[ControlPort] = []

    def make(token: str | None = None, headers: dict[str, str] | None = None) -> HttpControl:
        ports.append(ControlPort(ControlCalls(cluster), "127.0.0.1", 0, token))
        return HttpControl(f"127.0.0.1:{ports[-1].port}", headers)

    yield make
    for port in ports:
        port.stop()


def test_words_when_they_are_pythons_then_each_is_there_or_needs_what_json_cannot_hold() -> None:
    methods = {name for name, _ in inspect.getmembers(ClusterControl, inspect.isfunction) if not name.startswith("_")}
    assert methods == LOOKS | ACTS
    words = {name for name in vars(Fault) if not name.startswith("_")}
    assert words - {"call", "number"} == FAULT_LOOKS | FAULT_ACTS


def test_calls_when_they_look_then_get_and_post_say_the_same_and_when_they_act_then_post_alone(open_port: Open) -> None:
    control = open_port()
    assert control.ask("GET", "leader_of?topic=orders&partition=1") == (200, {"result": [2, 0]})
    assert control.ask("POST", "leader_of", b'{"topic": "orders", "partition": 1}') == (200, {"result": [2, 0]})
    assert control.ask("GET", "describe_partition?topic=orders&partition=0")[1]["result"] == {
        "leader_id": 1, "leader_epoch": 0, "replicas": [1], "isr": [1]}
    assert control.ask("GET", "topics") == (200, {"result": {"orders": 2}})
    status, answer = control.ask("GET", "stop_node?node_id=1")
    assert (status, answer["message"]) == (405, "/stop_node changes something: use POST")
    for method in ("DELETE", "PUT"):
        status, answer = control.ask(method, "faults")
        assert (status, "POST /faults/clear" in answer["message"]) == (405, True)
    assert control.call("nodes") == [1, 2]
    health = control.ask("GET", "health")[1]["result"]
    assert health["nodes"] == [1, 2]
    assert all(re.fullmatch(r"127\.0\.0\.1:\d+", address) for address in health["bootstrap_servers"]["PLAINTEXT"])


@pytest.mark.parametrize(("path", "arguments", "says"), [
    ("stop_node", {}, "node_id.*this argument is needed"),
    ("stop_node", {"node": 1}, "'?node'?: no argument is called so; there are node_id, move_leaders, kill"),
    ("stop_node", {"node_id": "1"}, "it must be a whole number"),
    ("stop_node", {"node_id": True}, "it must be a whole number"),
    ("stop_node", {"node_id": 1, "kill": 1}, "it must be true or false"),
    ("stop_node", {"node_id": 7}, "there are 1, 2"),
    ("move_leader", {"topic": "orders", "partition": 0, "node_id": "none"}, "it must be a whole number or null"),
    ("create_topic", {"name": "t", "configs": []}, "it must be an object or null"),
    ("create_topic", {"name": "t", "configs": {"cleanup.policy": 5}}, "cleanup.policy"),
    ("set_api_versions", {"versions": {"Produce": 9}}, "versions"),
    ("clock/advance", {"minutes": -1}, "goes forward"),
    ("clock/advance", {"minutes": 1e400}, "it must be a number"),
    ("clock/advance", {"minutes": float("nan")}, "it must be a number"),
    ("faults/1/await_count", {"timeout_s": float("nan")}, "it must be a number"),
    ("clock/timestamp_ms", {"at": 1}, "there are none"),
    ("faults/on", {"api": "Produces"}, "known are Produce, "),
    ("faults/on", {"api": "Heartbeat", "topic": "t"}, "Heartbeat names no topic"),
    ("faults/on", {"api": "Produce", "do": "close"}, "it must be an object"),
    ("faults/on", {"api": "Produce", "do": {"call": {}}}, "there are acknowledge_without_append, "),
    ("faults/on", {"api": "Produce", "do": {"close": {}, "delay": {"delay_ms": -5}}}, "from 0 to"),
    ("faults/on", {"api": "Produce", "do": {"error": {"code": "NO_SUCH"}}}, "NO_SUCH"),
    ("faults/99/close", {}, "99"), ("faults/99/release", {}, "99"),
])
def test_arguments_when_they_make_no_sense_then_400_says_which_and_nothing_is_left(
        open_port: Open, path: str, arguments: dict[str, Any], says: str) -> None:
    control = open_port()
    status, answer = control.ask("POST", path, json.dumps(arguments).encode())
    assert (status, answer["error"]) == (400, "ConfigError"), answer
    assert re.search(says, answer["message"]), answer
    assert control.call("faults/unused") == []
    assert control.call("nodes") == [1, 2]


@pytest.mark.parametrize(("path", "body", "status", "says"), [
    ("nodes", b"[1]", 400, "must be an object"), ("nodes", b"{", 400, "is no JSON"),
    ("nodes", b"\xff", 400, "is no JSON"), ("nodes", b"[" * 100_000, 400, "JSON|object"),
    ("nodes", b" " * (2 << 20), 413, "1048576"), ("nope", b"{}", 404, "there are /add_scram_user, "),
    ("faults/x/close", b"{}", 404, "NUMBER"), ("faults/1/_ask", b"{}", 404, "NUMBER"),
    ("faults/1/call", b"{}", 404, "NUMBER"),
    pytest.param(f"faults/{'9' * 5000}/close", b"{}", 404, "NUMBER", id="5000 digits"),
    ("_ask", b"{}", 404, "there are"),
    ("requests", b"{}", 409, "not logged"), ("start_node", b'{"node_id": 1}', 409, "1"),
    ("faults/1/await_count", b'{"timeout_s": 0.01}', 504, "applied 0 times")])
def test_requests_when_they_cannot_be_answered_then_the_status_and_the_words_say_why(
        open_port: Open, path: str, body: bytes, status: int, says: str) -> None:
    control = open_port()
    control.call("faults/on", api="Fetch", do={"close": {}})
    found, answer = control.ask("POST", path, body)
    assert found == status, answer
    assert re.search(says, answer["message"]), answer
    assert control.call("nodes") == [1, 2]


@pytest.mark.parametrize("headers", [{"Origin": "http://evil.example"}, {"Origin": "null"},
                                     {"Host": "evil.example"}, {"Host": "evil.example:80"}, {"Host": ""},
                                     {"Host": "["}])
def test_request_when_a_browsers_page_sends_it_then_it_is_refused(open_port: Open, headers: dict[str, str]) -> None:
    status, answer = open_port(headers=headers).ask("GET", "nodes")
    assert status == 403, answer


@pytest.mark.parametrize("header", [None, "Bearer wrong", "secret", "Bearer secret2", "Basic secret", "Bearer \xfc"])
def test_request_when_it_lacks_the_token_then_it_is_refused(open_port: Open, header: str | None) -> None:
    status, answer = open_port("secret", {} if header is None else {"Authorization": header}).ask("GET", "nodes")
    assert status == 401
    assert "secret" not in answer["message"]


def test_request_when_it_has_the_token_then_any_host_is_good(open_port: Open) -> None:
    control = open_port("secret", {"Authorization": "Bearer secret", "Host": "kafka:8080"})
    assert control.call("nodes") == [1, 2]


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.1", "kafka"])
def test_port_when_others_could_reach_it_then_it_asks_for_a_token(cluster: InProcessCluster, host: str) -> None:
    with pytest.raises(ConfigError, match="PYPRODUCER_CONTROL_TOKEN"):
        ControlPort(ControlCalls(cluster), host, 0)


def test_port_when_it_is_in_use_then_that_is_said(cluster: InProcessCluster) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(ConfigError, match="cannot be listened on"):
        ControlPort(ControlCalls(cluster), "127.0.0.1", taken.getsockname()[1])


@pytest.mark.parametrize("sent", [b"", b"\x16\x03\x01", b"GET", b"POST /nodes HTTP/1.1\r\nContent-Length: 9\r\n\r\n{",
                                  b"POST /nodes HTTP/1.1\r\nContent-Length: -1\r\n\r\n", b"\r\n" * 1000])
def test_port_when_clients_send_rubbish_or_hang_up_then_it_goes_on(open_port: Open, sent: bytes) -> None:
    control = open_port()
    host, port = control.address.split(":")
    for _ in range(3):
        with socket.create_connection((host, int(port))) as client:
            client.sendall(sent)
    assert control.call("nodes") == [1, 2]


@pytest.mark.parametrize("length", ["-1", "+5", "x", "\u00b2", "9" * 5000])
def test_request_when_its_length_is_no_number_then_it_is_refused(open_port: Open, length: str) -> None:
    control = open_port(headers={"Content-Length": length})
    status, answer = control.ask("POST", "nodes", b"")
    assert status == 400
    assert "is no number of bytes" in answer["message"]


def test_get_when_it_has_a_body_then_that_is_no_next_request(open_port: Open) -> None:
    host, port = open_port().address.split(":")
    with socket.create_connection((host, int(port)), PROGRAM_S) as client:
        body = b"POST /stop_node HTTP/1.1\r\nHost: localhost\r\nContent-Length: 13\r\n\r\n" + b'{"node_id": 1}'
        client.sendall(b"GET /nodes HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
        came = b""
        with contextlib.suppress(ConnectionResetError):  # the body was never read
            while piece := client.recv(4096):
                came += piece
    assert came.count(b"HTTP/1.1") <= 1
    assert HttpControl(f"{host}:{port}").call("nodes") == [1, 2]


def test_requests_when_they_are_logged_then_they_are_told_by_names(
        cluster: InProcessCluster, open_port: Open) -> None:
    control = open_port()
    control.call("log_requests")
    with RawClient(("127.0.0.1", cluster.addresses()["PLAINTEXT"][0][1])) as client:
        client.request(ApiKeys.METADATA, 12, metadata_body("orders"))
    (found,) = control.ask("GET", "requests?api=Metadata")[1]["result"]
    assert (found["api_key"], found["api_version"], found["client_id"]) == ("Metadata", 12, "probe")
    assert found["body"]["topics"][0]["name"] == "orders"


def test_command_when_it_has_a_control_port_then_it_is_told_where_and_ends_at_two_signals_in_a_row() -> None:
    """The second signal came in the middle of the first one's Event.set(), and the command waited for ever."""
    program = subprocess.Popen(
        [sys.executable, "-m", "pyproducer", "broker", "--port", "0", "--control-port", "0"], stdout=subprocess.PIPE,
        text=True, preexec_fn=partial(signal.signal, signal.SIGINT, signal.SIG_DFL),
        env={**os.environ, "PYPRODUCER_CONTROL_TOKEN": "secret"})
    try:
        assert program.stdout is not None
        said = program.stdout.readline()
        found = re.search(r"control port (127\.0\.0\.1:\d+)", said)
        assert found is not None, said
        assert HttpControl(found[1]).ask("GET", "nodes")[0] == 401
        assert HttpControl(found[1], {"Authorization": "Bearer secret"}).call("nodes") == [1]
        for _ in range(20):
            for number in (signal.SIGINT, signal.SIGTERM):
                if program.poll() is None:
                    program.send_signal(number)
        assert program.wait(PROGRAM_S) == 0
    finally:
        program.kill()
        program.communicate()


def test_broker_when_it_is_stopped_then_calls_say_so(cluster: InProcessCluster, open_port: Open) -> None:
    control = open_port()
    cluster.stop()
    for path in ("topics", "health"):
        status, answer = control.ask("POST", path, b"{}")
        assert (status, answer["error"]) == (409, "IllegalStateError")


def test_embedded_broker_when_it_runs_then_its_words_are_those_of_every_cluster() -> None:
    assert issubclass(EmbeddedBroker, ClusterControl)
