"""A process that is stopped in the middle of its transaction (SIGSTOP), while another one takes over its id.

    story = run(servers, topic, transactional_id, when="sent")

When it is stopped: "sent", its records are stored; "unsent", they wait in the producer; "committing", the commit is on
its way, and nobody knows how far. The successor commits, then the process goes on where it was.

No import of pytest.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

from pyproducer import KafkaError, KafkaProducer
from tests.support.late_requests import PROPS
from tests.support.patience import PROGRAM_S

ROOT = Path(__file__).resolve().parents[2]
COUNT = 5


class Story(NamedTuple):
    """What became of it.

    Attributes:
        told: The errors that the stopped process was told, by their classes, in order: of commit and of abort; "" for
            none.
        text: What the last one said.
    """

    told: list[str]
    text: str


def run(bootstrap_servers: str, topic: str, transactional_id: str, *, when: str) -> Story:
    """Play it."""
    job = {"bootstrap": bootstrap_servers, "topic": topic, "id": transactional_id, "when": when}
    with ExitStack() as stack:
        process = stack.enter_context(subprocess.Popen(
            [sys.executable, "-m", "tests.support.zombie", json.dumps(job)], cwd=ROOT, stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, text=True))
        stack.callback(process.kill)  # stopped or not: whoever fails here leaves nobody behind
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WNOWAIT)
        process.stdin.write("go on\n")
        process.stdin.flush()
        own = stack.enter_context(KafkaProducer({**PROPS, "bootstrap.servers": bootstrap_servers,
                                                 "transactional.id": transactional_id}))
        own.init_transactions()
        with own.transaction():
            for number in range(COUNT):
                own.send(topic, b"successor %d" % number, partition=0)
        process.send_signal(signal.SIGCONT)
        lines = process.communicate(timeout=PROGRAM_S)[0].splitlines()
        with own.transaction():
            own.send(topic, b"successor %d" % COUNT, partition=0)
    if process.returncode:
        raise AssertionError(f"the process ended with {process.returncode}")
    return Story([line.partition(" ")[0] for line in lines], lines[-1])


def be_one(job: dict[str, Any]) -> None:
    """Be the process."""
    props = {**PROPS, "bootstrap.servers": job["bootstrap"], "transactional.id": job["id"]}
    if job["when"] == "unsent":
        props["linger.ms"] = 600_000
        props["delivery.timeout.ms"] = 700_000
    with KafkaProducer(props) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        for number in range(COUNT):
            producer.send(job["topic"], b"zombie %d" % number, partition=0)
        if job["when"] == "committing":
            committed = threading.Thread(target=_tell, args=[producer.commit_transaction])
            print("ready", flush=True)
            committed.start()
            sys.stdin.readline()
            committed.join()
        else:
            if job["when"] == "sent":
                producer.flush()
            print("ready", flush=True)
            sys.stdin.readline()
            time.sleep(0.01)
            _tell(producer.commit_transaction)
        _tell(producer.abort_transaction)


def _tell(call: Any) -> None:
    try:
        call()
    except KafkaError as error:
        print(type(error).__name__, str(error).replace("\n", " "), flush=True)
    else:
        print("none", flush=True)


if __name__ == "__main__":
    be_one(json.loads(sys.argv[1]))
