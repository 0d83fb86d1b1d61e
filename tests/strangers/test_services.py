"""The services of docs/services.md, run as they stand there: with Kafka all is stored; without it they end in time."""

from __future__ import annotations

import http.client
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pyproducer.broker import EmbeddedBroker
from tests.support.patience import GIVE_UP_S, PROGRAM_S

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "services.md").read_text(encoding="ascii")
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
FASTAPI, AIOHTTP, WSGI, WORKER_EXIT, PROGRAM = BLOCKS
ORDERS = [b"one", b"two", b"three"]
# So long a time that a service which waits for it does not end within the test.
UNBOUNDED = '"max.block.ms": 3_600_000, "delivery.timeout.ms": 3_600_000'

UVICORN = [sys.executable, "-m", "uvicorn", "app:app", "--host", "127.0.0.1", "--port", "0",
           "--timeout-graceful-shutdown", "5"]
GUNICORN = [sys.executable, "-m", "gunicorn", "app:app", "--bind", "127.0.0.1:0", "--no-control-socket",
            "--graceful-timeout", "30"]
SERVICES: dict[str, tuple[str, list[str], str]] = {
    "fastapi": (FASTAPI, UVICORN, "fastapi"),
    "gunicorn with uvicorn": (FASTAPI, [*GUNICORN, "-k", "uvicorn_worker.UvicornWorker"], "uvicorn_worker"),
    "aiohttp": (AIOHTTP, [sys.executable, "app.py"], "aiohttp"),
    "wsgi": (WSGI, [*GUNICORN, "--preload", "--config", "gunicorn.conf.py"], "gunicorn"),
}
services = pytest.mark.parametrize(("source", "command", "package"), SERVICES.values(), ids=SERVICES)


class Service:
    """A program in a folder of its own, which is stopped by SIGTERM."""

    def __init__(self, folder: Path, source: str, command: list[str], kafka: str) -> None:
        (folder / "app.py").write_text(source, encoding="ascii")
        (folder / "gunicorn.conf.py").write_text(WORKER_EXIT, encoding="ascii")
        self._process = subprocess.Popen(
            command, cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            env={**os.environ, "KAFKA": kafka, "PORT": "0", "PYTHONUNBUFFERED": "1",
                 "PYTHONPATH": os.pathsep.join([str(folder), str(ROOT)])})
        self.output = ""
        self._reader = threading.Thread(target=self._read, name="output of a service")
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.output += line

    def await_output(self, pattern: str) -> re.Match[str]:
        deadline = time.monotonic() + GIVE_UP_S
        while (found := re.search(pattern, self.output)) is None:
            assert self._process.poll() is None, f"it ended early: {self.output}"
            assert time.monotonic() < deadline, f"no {pattern} in {self.output}"
            time.sleep(0.01)
        return found

    def order(self, *orders: bytes) -> None:
        port = int(self.await_output(r"http://127\.0\.0\.1:(\d+)")[1])
        for value in orders:
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=GIVE_UP_S)
            connection.request("POST", "/orders", value)
            assert connection.getresponse().read() == b"{}"
            connection.close()

    def say(self, *lines: bytes) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write("".join(f"{line.decode()}\n" for line in lines))
        self._process.stdin.flush()

    def stop(self) -> float:
        """Send SIGTERM, and wait until it has ended; return how long that took."""
        began = time.monotonic()
        self._process.send_signal(signal.SIGTERM)
        self._process.wait(PROGRAM_S)
        took = time.monotonic() - began
        self.close()
        return took

    def close(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait(GIVE_UP_S)
        self._reader.join(GIVE_UP_S)
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[[str, list[str], str], Service]]:
    started: list[Service] = []

    def run(source: str, command: list[str], kafka: str) -> Service:
        started.append(Service(tmp_path, source, command, kafka))
        return started[-1]

    yield run
    for service in started:
        service.close()


def bounded(source: str, ms: int) -> str:
    assert source.count("20_000") == 1
    return source.replace("20_000", f"{ms}, {UNBOUNDED}")


@services
def test_service_when_kafka_is_away_then_sigterm_ends_it_within_its_bound_and_the_log_says_what_is_lost(
        start: Callable[[str, list[str], str], Service], source: str, command: list[str], package: str) -> None:
    """It waited for delivery.timeout.ms, was killed after 30 s, and nobody was told of its records."""
    pytest.importorskip(package)
    service = start(bounded(source, 500), command, "127.0.0.1:1")
    service.order(*ORDERS)
    took = service.stop()
    print(f"ended {took:.1f} s after SIGTERM with a bound of 0.5 s")
    assert "is closed: 3 record(s) were not delivered (3 not_sent), 0 were; by topic: orders 3" in service.output


@pytest.mark.parametrize(("source", "command", "package"), [
    pytest.param(*service, id=name, marks=[pytest.mark.soak] if name in ("aiohttp", "gunicorn with uvicorn") else [])
    for name, service in SERVICES.items()])
def test_service_when_it_is_stopped_right_behind_its_orders_then_all_are_stored(
        start: Callable[[str, list[str], str], Service], source: str, command: list[str], package: str) -> None:
    pytest.importorskip(package)
    with EmbeddedBroker(topics={"orders": 1}) as broker:
        service = start(source, command, broker.bootstrap_servers)
        service.order(*ORDERS)
        service.stop()
        assert [record.value for record in broker.records("orders")] == ORDERS
    assert "not delivered" not in service.output
    assert "Traceback" not in service.output


def test_program_when_kafka_is_away_then_sigterm_ends_it_within_its_bound_and_the_log_says_what_is_lost(
        start: Callable[[str, list[str], str], Service]) -> None:
    source = bounded(PROGRAM, 500) + '    print("end")\n'
    source = source.replace("    for line", '    print("ready")\n    for line')
    source = source.replace("encode())", 'encode())\n        print("sent", line)')
    service = start(source, [sys.executable, "app.py"], "127.0.0.1:1")
    service.await_output("ready")
    service.say(*ORDERS)
    service.await_output("sent three")
    print(f"ended {service.stop():.1f} s after SIGTERM with a bound of 0.5 s")
    assert "is closed: 3 record(s) were not delivered (3 not_sent), 0 were; by topic: orders 3" in service.output


def test_bound_when_it_is_in_the_page_then_it_leaves_time_before_kubernetes_kills() -> None:
    bounds = [int(bound.replace("_", "")) for bound in re.findall(r'"pyproducer.close.timeout.ms": ([\d_]+)', PAGE)]
    assert len(bounds) == 4
    graceful = int(re.findall(r"--timeout-graceful-shutdown (\d+)", PAGE)[0])
    assert max(bounds) + graceful * 1000 < 30_000
