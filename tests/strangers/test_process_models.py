"""celery's prefork pool and gunicorn --preload: a producer that was made before the fork works in every process."""

from __future__ import annotations

import http.client
import importlib.util
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from pyproducer.broker import EmbeddedBroker
from pyproducer.hotpath import IMPL
from pyproducer.testing import read_topic
from tests.support.kafka_jars import MissingTool
from tests.support.patience import GIVE_UP_S

ROOT = Path(__file__).resolve().parents[2]
TOPIC = "orders"
COUNT = 40

TASKS = """
import os
from celery import Celery
from celery.signals import worker_process_shutdown, worker_ready, worker_shutdown
from pyproducer import KafkaProducer

folder, topic = os.environ["QUEUE"], os.environ["TOPIC"]
app = Celery("tasks", broker="filesystem://")
app.conf.update(broker_transport_options={"data_folder_in": folder, "data_folder_out": folder},
                worker_hijack_root_logger=False, broker_connection_retry_on_startup=True, worker_prefetch_multiplier=1,
                worker_enable_remote_control=False, worker_send_task_events=False)
producer = KafkaProducer({"bootstrap.servers": os.environ["BOOTSTRAP"], "pyproducer.fork": "rebuild"})
producer.send(topic, b"parent", partition=0).result(600)

@app.task
def store(number):
    future = producer.send(topic, b"task %d" % number, partition=0)
    if number % 2:
        future.result(600)
    producer.send(topic, b"process %d" % os.getpid(), partition=0)

@worker_ready.connect
def begin(**_):
    for number in range(int(os.environ["COUNT"])):
        store.delay(number)

@worker_process_shutdown.connect
def end_child(**_):
    producer.close()

@worker_shutdown.connect
def end(**_):
    producer.send(topic, b"parent again", partition=0).result(600)
    producer.close()
"""

APPLICATION = """
import os
from pyproducer import KafkaProducer

topic = os.environ["TOPIC"]
producer = KafkaProducer({"bootstrap.servers": os.environ["BOOTSTRAP"], "pyproducer.fork": "rebuild",
                          "linger.ms": 3000})
producer.send(topic, b"parent", partition=0)
producer.flush(600)

def application(environ, start_response):
    value = environ["PATH_INFO"][1:].encode()
    future = producer.send(topic, value, partition=0)
    producer.send(topic, b"process %d" % os.getpid(), partition=0)
    if value.startswith(b"waits"):
        producer.flush(600)
    start_response("200 OK", [("Content-Length", "0")])
    return [b""]
"""

SETTINGS = """
def on_exit(server):
    from application import producer, topic
    producer.send(topic, b"parent again", partition=0)
    producer.flush(600)
    producer.close()
"""


class Service:
    """A program of somebody else's; its lines are kept as they come."""

    def __init__(self, folder: Path, broker: EmbeddedBroker, *arguments: str) -> None:
        self.text = ""
        path = os.pathsep.join(filter(None, [str(folder), str(ROOT), os.environ.get("PYTHONPATH")]))
        self.process = subprocess.Popen(
            [sys.executable, "-m", *arguments], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            env={**os.environ, "PYTHONPATH": path, "BOOTSTRAP": broker.bootstrap_servers, "TOPIC": TOPIC,
                 "COUNT": str(COUNT), "QUEUE": str(folder), "PYPRODUCER_IMPL": IMPL})
        self._reader = threading.Thread(target=self._read, name="lines of a service")
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as lines:
            for line in lines:
                self.text += line

    def wait_until(self, is_so: Callable[[], object], what: str) -> None:
        deadline = time.monotonic() + GIVE_UP_S
        while not is_so():
            assert self.process.poll() is None, f"it ended: {self.text[-3000:]}"
            assert time.monotonic() < deadline, f"not seen: {what}; {self.text[-3000:]}"
            time.sleep(0.05)

    def end(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(GIVE_UP_S)

    def kill(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(GIVE_UP_S)
        self._reader.join(GIVE_UP_S)


@contextmanager
def service(folder: Path, broker: EmbeddedBroker, *arguments: str) -> Iterator[Service]:
    package = arguments[0]
    if importlib.util.find_spec(package) is None:
        raise MissingTool(f"the package {package} is not installed: pip install -e '.[test]'")
    running = Service(folder, broker, *arguments)
    try:
        yield running
    finally:
        running.kill()


def stored(broker: EmbeddedBroker) -> Counter[str]:
    return Counter((record.value or b"").decode() for record in read_topic(broker.bootstrap_servers, TOPIC))


def processes(found: Counter[str]) -> set[str]:
    return {value for value in found if value.startswith("process ")}


pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="processes do not fork here")


def test_celery_when_its_pool_forks_then_every_process_sends_and_nothing_is_lost_or_doubled(tmp_path: Path) -> None:
    (tmp_path / "tasks.py").write_text(TASKS, encoding="ascii")
    expected = Counter(["parent", *(f"task {number}" for number in range(COUNT))])
    with EmbeddedBroker(topics={TOPIC: 1}) as broker, service(
            tmp_path, broker, "celery", "-A", "tasks", "worker", "--pool", "prefork", "--concurrency", "2",
            "--without-gossip", "--without-mingle", "--without-heartbeat", "--loglevel", "INFO") as worker:
        worker.wait_until(lambda: not expected - stored(broker), "every task's record")
        assert worker.end() == 0, worker.text
        found = stored(broker)
    of_processes = processes(found)
    assert found - Counter({value: found[value] for value in of_processes}) == expected + Counter(["parent again"])
    assert len(of_processes) == 2
    assert sum(found[value] for value in of_processes) == COUNT


def test_gunicorn_when_it_preloads_then_every_worker_sends_and_nothing_is_lost_or_doubled(tmp_path: Path) -> None:
    """What a worker accepted and did not wait for lingers still when it is told to end, and is sent at its exit."""
    (tmp_path / "application.py").write_text(APPLICATION, encoding="ascii")
    (tmp_path / "settings.py").write_text(SETTINGS, encoding="ascii")
    sent = ["parent"]
    with EmbeddedBroker(topics={TOPIC: 1}) as broker, service(
            tmp_path, broker, "gunicorn", "--preload", "--workers", "2", "--bind", "127.0.0.1:0", "--config",
            "python:settings", "application:application") as server:
        server.wait_until(lambda: len(re.findall(r"Booting worker", server.text)) == 2, "its workers")
        port = int(re.findall(r"Listening at: http://127\.0\.0\.1:(\d+)", server.text)[0])
        for number in range(COUNT * 5):
            if number >= COUNT and len(processes(stored(broker))) == 2:
                break
            way = "waits" if number % 2 == 0 else "leaves"
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=GIVE_UP_S)
            connection.request("GET", f"/{way}-{number}")
            assert connection.getresponse().status == 200, server.text
            connection.close()
            sent.append(f"{way}-{number}")
        assert server.end() == 0, server.text
        found = stored(broker)
    of_processes = processes(found)
    assert found - Counter({value: found[value] for value in of_processes}) == Counter([*sent, "parent again"])
    assert len(of_processes) == 2
    assert sum(found[value] for value in of_processes) == len(sent) - 1
