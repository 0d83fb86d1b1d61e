"""pyproducer.fork=rebuild in processes that fork for real: tests/support/forking.py has the stories."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from pyproducer.broker import EmbeddedBroker
from pyproducer.protocol.apis import ApiKeys
from pyproducer.testing import read_topic
from tests.support.certificates import Certificates
from tests.support.forking import SCENARIOS
from tests.support.patience import PROGRAM_S

ROOT = Path(__file__).resolve().parents[2]
TOPIC = "orders"

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="processes do not fork here")


def run(scenario: str, *arguments: str) -> list[str]:
    """Run a scenario; return what must be in the log."""
    done = subprocess.run([sys.executable, "-m", "tests.support.forking", scenario, *arguments], cwd=ROOT,
                          capture_output=True, text=True, check=False, timeout=PROGRAM_S)
    assert done.returncode == 0, done.stderr[-4000:]
    told: list[str] = json.loads(done.stdout.splitlines()[-1])
    return told


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_child_when_it_uses_the_parents_producer_then_that_is_made_anew_and_the_parent_goes_on(scenario: str) -> None:
    with EmbeddedBroker(topics={TOPIC: 1}) as broker:
        broker.faults.on("Produce", times=None).delay(2)  # so that something is always on its way
        expected = Counter(run(scenario, broker.bootstrap_servers, TOPIC))
        stored = Counter((record.value or b"").decode() for record in read_topic(broker.bootstrap_servers, TOPIC))
    if scenario == "handler":  # whose child decides by a die whether it sends in the handler, too; each once at most
        dice = Counter({value: count for value, count in stored.items() if value.startswith(("handler", "later"))})
        assert set(dice.values()) == {1}
        stored -= dice
    assert stored == expected


def test_child_when_the_connection_is_tls_then_it_says_no_goodbye_on_the_parents(certificates: Certificates) -> None:
    """A close_notify of the child's would end the parent's connection, and its next record would break the cipher."""
    config = {"listeners": "PLAINTEXT://127.0.0.1:0,SSL://127.0.0.1:0",
              "ssl.keystore.location": str(certificates.server.keystore)}
    with EmbeddedBroker(topics={TOPIC: 1}, config=config) as broker:
        expected = run("generations", broker.bootstrap_servers_of("SSL"), TOPIC, str(certificates.ca))
        stored = [(record.value or b"").decode() for record in read_topic(broker.bootstrap_servers, TOPIC)]
    assert Counter(stored) == Counter(expected)


LOADED_BESIDE = """
import json, sys, threading
from pyproducer import KafkaProducer

class Finder:
    def find_spec(self, name, path=None, target=None):
        if threading.current_thread() is not threading.main_thread():
            loaded.append(name)

loaded = []
sys.meta_path.insert(0, Finder())
settings = json.loads(sys.argv[1])
with KafkaProducer(settings) as producer:
    if "transactional.id" in settings:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send_offsets_to_transaction({(sys.argv[2], 0): 1}, "group")
    for _ in range(3):
        producer.send(sys.argv[2], b"value", key=b"key").result(600)
    if "transactional.id" in settings:
        producer.prepare_transaction()
        producer.commit_transaction()
        producer.begin_transaction()
        producer.send(sys.argv[2], b"value")
        producer.abort_transaction()
    if sys.argv[3] == "telemetry":
        producer.client_instance_id(600)  # and its close() pushes
print(*loaded)
"""


@pytest.mark.parametrize("listener", ["PLAINTEXT", "SASL_SSL", "transactional", "telemetry"])
def test_sender_when_it_works_then_its_thread_loads_no_module(certificates: Certificates, listener: str) -> None:
    """A fork in the middle of an import leaves a child in which the module is half there and its lock is held for ever.

    What the constructor does not load with its own thread, the child's producer waits for as long as it lives.
    """
    modules = "org.apache.kafka.common.security"
    config = {"listeners": "PLAINTEXT://127.0.0.1:0,SASL_SSL://127.0.0.1:0", "sasl.enabled.mechanisms": "SCRAM-SHA-256",
              "ssl.keystore.location": str(certificates.server.keystore)}
    kind, listener = listener, "SASL_SSL" if listener == "SASL_SSL" else "PLAINTEXT"
    settings = ({"transactional.id": "t"} if kind == "transactional" else {}) if listener == "PLAINTEXT" else {
        "security.protocol": listener, "sasl.mechanism": "SCRAM-SHA-256", "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(certificates.ca),
        "sasl.jaas.config": f'{modules}.scram.ScramLoginModule required username="alice" password="secret";'}
    with EmbeddedBroker(topics={TOPIC: 1}, config=config) as broker:
        broker.add_scram_user("alice", "secret")
        if kind == "telemetry":
            broker.set_api_versions({ApiKeys.GET_TELEMETRY_SUBSCRIPTIONS: (0, 0), ApiKeys.PUSH_TELEMETRY: (0, 0)})
        # Port 1 refuses: why that is so is told in words, which is work for the same thread.
        settings["bootstrap.servers"] = f"127.0.0.1:1,{broker.bootstrap_servers_of(listener)}"
        done = subprocess.run([sys.executable, "-c", LOADED_BESIDE, json.dumps(settings), TOPIC, kind], cwd=ROOT,
                              capture_output=True, text=True, check=False, timeout=PROGRAM_S)
    assert done.returncode == 0, done.stderr[-4000:]
    assert done.stdout.split() == []


IN_A_TRANSACTION = """
import os, sys
from pyproducer import ForkedProducerError, KafkaProducer

with KafkaProducer({"bootstrap.servers": sys.argv[1], "transactional.id": "t"}) as producer:
    producer.init_transactions()
    producer.begin_transaction()
    producer.send(sys.argv[2], b"before")
    child = os.fork()
    if child == 0:
        refused = 0
        for call in (producer.begin_transaction, producer.commit_transaction, producer.abort_transaction,
                     producer.init_transactions, producer.prepare_transaction,
                     lambda: producer.send_offsets_to_transaction({(sys.argv[2], 0): 1}, "group"),
                     lambda: producer.send(sys.argv[2], b"of the child")):
            try:
                call()
            except ForkedProducerError:
                refused += 1
        os._exit(refused)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    producer.send(sys.argv[2], b"after")
    producer.commit_transaction()
"""


def test_transaction_when_its_process_forks_then_the_child_can_do_nothing_and_the_parent_commits() -> None:
    with EmbeddedBroker(topics={TOPIC: 1}) as broker:
        done = subprocess.run([sys.executable, "-c", IN_A_TRANSACTION, broker.bootstrap_servers, TOPIC], cwd=ROOT,
                              capture_output=True, text=True, check=False, timeout=PROGRAM_S)
        assert done.returncode == 0, done.stderr[-4000:]
        assert done.stdout == "7\n", "each call is refused"
        stored = read_topic(broker.bootstrap_servers, TOPIC, isolation_level="read_committed")
        assert [record.value for record in stored] == [b"before", b"after"]
