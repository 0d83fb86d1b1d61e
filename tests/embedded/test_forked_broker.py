"""A program around a broker forks (multiprocessing, celery's prefork): its children have copies of all descriptors.

Each runs as a program of its own, with a child that lives until the end and does nothing.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.certificates import Certificates
from tests.support.patience import PROGRAM_S

ROOT = Path(__file__).resolve().parents[2]

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="processes do not fork here")

BEGIN = """
import os, socket, sys, time
from pyproducer.broker import EmbeddedBroker
from tests.support.patience import GIVE_UP_S

held, hold = os.pipe()

def fork():
    if not os.fork():
        os.close(hold)
        os.read(held, 1)  # until the parent is gone
        os._exit(0)

def address(broker, listener="PLAINTEXT"):
    host, port = broker.bootstrap_servers_of(listener).split(",")[0].split(":")
    return host, int(port)
"""


def run(program: str, *arguments: str) -> str:
    done = subprocess.run([sys.executable, "-c", BEGIN + program, *arguments], cwd=ROOT, capture_output=True, text=True,
                          check=False, timeout=PROGRAM_S)
    assert done.returncode == 0, done.stderr[-4000:]
    return done.stdout


@pytest.mark.parametrize("separate_process", [False, True])
def test_stop_when_a_child_lives_then_the_directory_is_given_back_in_order(
        separate_process: bool, tmp_path: Path) -> None:
    told = run("""
broker = EmbeddedBroker(data_dir=sys.argv[1], topics={"orders": 1}, separate_process=sys.argv[2] == "True").start()
fork()
broker.stop()
print(os.path.exists(os.path.join(sys.argv[1], ".kafka_cleanshutdown")))
with broker:
    print(broker.topics())
""", str(tmp_path), str(separate_process))
    assert told == "True\n{'orders': 1}\n"


@pytest.mark.parametrize("listener", ["PLAINTEXT", "SSL"])
def test_stop_node_when_a_child_lives_then_connections_end_and_the_port_refuses(
        listener: str, certificates: Certificates) -> None:
    told = run("""
listener, keystore = sys.argv[1:]
with EmbeddedBroker(brokers=2, config={"listeners": "PLAINTEXT://127.0.0.1:0,SSL://127.0.0.1:0",
                                       "ssl.keystore.location": keystore}) as broker:
    where = address(broker, listener)
    before = socket.create_connection(where, GIVE_UP_S)
    while not broker.connections():
        time.sleep(0.001)
    fork()
    broker.stop_node(1)
    print("old:", before.recv(1))
    try:
        socket.create_connection(where, GIVE_UP_S)
    except ConnectionRefusedError:
        print("refused")
    fork()
    broker.start_node(1)
    again = socket.create_connection(where, GIVE_UP_S)
    while not broker.connections():
        time.sleep(0.001)
    print("served")
""", listener, str(certificates.server.keystore))
    assert told == "old: b''\nrefused\nserved\n"


@pytest.mark.parametrize("separate_process", [False, True])
def test_stop_when_it_is_the_childs_then_the_parents_broker_goes_on(separate_process: bool) -> None:
    told = run("""
from pyproducer import KafkaProducer
with EmbeddedBroker(topics={"orders": 1}, separate_process=sys.argv[1] == "True") as broker:
    with KafkaProducer({"bootstrap.servers": broker.bootstrap_servers}) as producer:
        producer.send("orders", b"before").result(GIVE_UP_S)
    before = socket.create_connection(address(broker), GIVE_UP_S)
    child = os.fork()
    if not child:
        broker.stop()
        broker.stop()
        os._exit(0)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    with KafkaProducer({"bootstrap.servers": broker.bootstrap_servers}) as producer:
        producer.send("orders", b"after").result(GIVE_UP_S)
    print([record.value for record in broker.records("orders")])
    before.settimeout(0.1)
    try:
        print(before.recv(1))
    except TimeoutError:
        print("open")
""", str(separate_process))
    assert told == "0\n[b'before', b'after']\nopen\n"
