"""Idempotent producers behind one small face, so that one story of faults is told to all: ours, Java's, librdkafka.

Thread:  one thread tells the story; what the producers say comes on threads of theirs.
Source:  ours. Values are short words without spaces; everything goes to partition 0.

No import of pytest.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from pyproducer import KafkaProducer
from tests.support.kafka_jars import SHORT_RUN, compile_java, java, kafka_classpath
from tests.support.patience import GIVE_UP_S

JAVA_SOURCE = Path(__file__).resolve().parent / "java" / "StoryProducer.java"
POLL_S = 0.002
STORED, FAILED = "stored", "failed"
# Short waits between attempts; the timeouts are longer than any story.
SETTINGS: Mapping[str, object] = {
    "linger.ms": 0, "retry.backoff.ms": 20, "retry.backoff.max.ms": 40, "reconnect.backoff.ms": 20,
    "reconnect.backoff.max.ms": 40, "request.timeout.ms": 5000, "delivery.timeout.ms": 20_000}


class Told(NamedTuple):
    """What a client said of a record.

    Attributes:
        outcome: STORED; of ours "unknown", "not_sent" or "rejected"; of others FAILED, which claims nothing.
        offset: Where, when stored and told; else -1.
        error: Of which kind.
    """

    outcome: str
    offset: int = -1
    error: str = ""


class NothingTold(Exception):
    """A client says nothing of a record, for longer than any of its timeouts."""


class StoryClient(Protocol):
    """A producer in a story.

    Attributes:
        sent: The values that it was given, in order.
        told: What it said of each; filled from another thread.
    """

    name: str
    sent: list[bytes]
    told: dict[bytes, Told]

    def open(self, bootstrap_servers: str, topic: str) -> None:
        """Begin with a new producer id."""

    def send(self, value: bytes, timestamp_ms: int | None = None) -> None:
        """Send one record to partition 0 and do not wait."""

    def close(self) -> None:
        """Close the producer; records that are not told by then stay so."""


def await_true(is_so: Callable[[], object], what: str) -> None:
    """Wait for something.

    Raises:
        TimeoutError: It did not come.
    """
    deadline = time.monotonic() + GIVE_UP_S
    while not is_so():
        if time.monotonic() > deadline:
            raise TimeoutError(f"after {GIVE_UP_S} s there is not: {what}")
        time.sleep(POLL_S)


def await_told(client: StoryClient, *values: bytes) -> None:
    """Wait until the client said something of each of these records.

    Raises:
        NothingTold: It did not, of one at least.
    """
    try:
        await_true(lambda: all(value in client.told for value in values), f"what {client.name} says of {values}")
    except TimeoutError as error:
        raise NothingTold(str(error)) from error


class Ours:
    """pyproducer, whichever twin runs."""

    name = "pyproducer"

    def __init__(self, **settings: object) -> None:
        self.sent: list[bytes] = []
        self.told: dict[bytes, Told] = {}
        self._settings = settings
        self._producer: KafkaProducer | None = None
        self._topic = ""

    def open(self, bootstrap_servers: str, topic: str) -> None:
        self.sent, self.told = [], {}
        self._topic = topic
        self._producer = KafkaProducer({"bootstrap.servers": bootstrap_servers, **SETTINGS, **self._settings})

    def send(self, value: bytes, timestamp_ms: int | None = None) -> None:
        assert self._producer is not None
        self.sent.append(value)
        told = self.told

        def on_completion(metadata: Any, error: BaseException | None) -> None:
            if error is None:
                told[value] = Told(STORED, metadata.offset if metadata.has_offset else -1)
            else:
                told[value] = Told(str(getattr(error, "outcome", FAILED)), error=type(error).__name__)

        self._producer.send(self._topic, value, partition=0, timestamp=timestamp_ms, on_completion=on_completion)

    def close(self) -> None:
        if self._producer is not None:
            self._producer.close(2)
            self._producer = None


class Librdkafka:
    """librdkafka by confluent-kafka-python."""

    name = "librdkafka"

    def __init__(self) -> None:
        self.sent: list[bytes] = []
        self.told: dict[bytes, Told] = {}
        self._producer: Any = None
        self._error: type[Exception] = Exception
        self._topic = ""
        self._poller: threading.Thread | None = None
        self._is_closing = False

    def open(self, bootstrap_servers: str, topic: str) -> None:
        import confluent_kafka

        self.sent, self.told = [], {}
        self._topic = topic
        self._is_closing = False
        self._error = confluent_kafka.KafkaException
        self._producer = confluent_kafka.Producer({
            "bootstrap.servers": bootstrap_servers, "enable.idempotence": True, "linger.ms": 0, "log_level": 0,
            "retry.backoff.ms": 20, "retry.backoff.max.ms": 40, "reconnect.backoff.ms": 20,
            "reconnect.backoff.max.ms": 40, "socket.timeout.ms": 10_000, "request.timeout.ms": 5000,
            "delivery.timeout.ms": 20_000})
        self._poller = threading.Thread(target=self._poll, name="librdkafka-poller")
        self._poller.start()

    def send(self, value: bytes, timestamp_ms: int | None = None) -> None:
        self.sent.append(value)
        told = self.told

        def on_delivery(error: Any, message: Any) -> None:
            if error is None:
                offset = message.offset()
                told[value] = Told(STORED, -1 if offset is None or offset < 0 else offset)
            else:
                told[value] = Told(FAILED, error=error.name())

        extra = {} if timestamp_ms is None else {"timestamp": timestamp_ms}
        try:
            self._producer.produce(self._topic, value, partition=0, on_delivery=on_delivery, **extra)
        except self._error as fatal:  # after a fatal error it takes nothing any more
            told[value] = Told("not_sent", error=str(fatal.args[0].name()))

    def close(self) -> None:
        if self._producer is None:
            return
        with contextlib.suppress(self._error):
            self._producer.flush(2)
        self._is_closing = True
        assert self._poller is not None
        self._poller.join()
        self._producer.purge()
        self._producer = None  # its threads end with it

    def _poll(self) -> None:
        while not self._is_closing:
            with contextlib.suppress(self._error):  # a fatal error is told by every call
                self._producer.poll(0.01)


class Java:
    """Java's producer in a JVM of its own, which serves one story after another until `stop`."""

    name = "Java 4.1"

    def __init__(self) -> None:
        self.sent: list[bytes] = []
        self.told: dict[bytes, Told] = {}
        self._closed = threading.Event()
        classpath = kafka_classpath()
        classes = compile_java(JAVA_SOURCE, classpath)
        logging = Path(__file__).resolve().parent / "kafka" / "log4j2.xml"
        self._process = subprocess.Popen(
            [java(), *SHORT_RUN, "-Dkafka.log.level=OFF",
             f"-Dlog4j2.configurationFile={logging}", "-cp", os.pathsep.join((str(classes), classpath)),
             JAVA_SOURCE.stem], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)
        self._reader = threading.Thread(target=self._read, name="java-reader")
        self._reader.start()

    def open(self, bootstrap_servers: str, topic: str) -> None:
        self.sent, self.told = [], {}
        self._closed.clear()
        self._say("open", bootstrap_servers, topic)

    def send(self, value: bytes, timestamp_ms: int | None = None) -> None:
        self.sent.append(value)
        self._say("send", value.decode(), "-1" if timestamp_ms is None else str(timestamp_ms))

    def close(self) -> None:
        self._say("close")
        if not self._closed.wait(GIVE_UP_S):
            raise TimeoutError("Java's producer does not close")

    def stop(self) -> None:
        """End the JVM."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(GIVE_UP_S)
        self._reader.join()
        self._process.stdout.close()

    def _say(self, *words: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(" ".join(words) + "\n")
        self._process.stdin.flush()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            words = line.split()
            if words[:1] == ["closed"]:
                self._closed.set()
            elif words[:1] == ["told"]:
                self.told[words[1].encode()] = (Told(FAILED, error=words[-1]) if words[2] == FAILED
                                                else Told(STORED, int(words[2])))


class Judgement(NamedTuple):
    """What a story came to.

    Attributes:
        doubled: Records that are in the log more than once.
        lost: Told as stored, and not in the log.
        reordered: In the log behind a record that was sent after them.
        untrue: Told as not in the log, and they are; or told an offset where another record is.
        pending: Nothing was told of them.
        failed_and_stored: Told as failed or unknown, and in the log: true, and yet the user may send them again.
    """

    doubled: list[bytes]
    lost: list[bytes]
    reordered: list[bytes]
    untrue: list[bytes]
    pending: list[bytes]
    failed_and_stored: list[bytes]

    @property
    def is_spotless(self) -> bool:
        """Whether nothing was done wrong, order included."""
        return not (self.doubled or self.lost or self.reordered or self.untrue or self.pending)


def judge(sent: Sequence[bytes], told: Mapping[bytes, Told], log: Sequence[tuple[int, bytes]]) -> Judgement:
    """Compare what was sent, in its order, what was told, and the log as (offset, value)."""
    values = [value for _, value in log]
    at = dict(log)
    first = {value: values.index(value) for value in set(values)}
    reordered = []
    latest = -1
    for value in reversed(sent):  # those that were sent later lie where?
        place = first.get(value)
        if place is not None:
            if 0 <= latest < place:
                reordered.append(value)
            latest = place if latest < 0 else min(latest, place)
    return Judgement(
        doubled=[value for value in sent if values.count(value) > 1],
        lost=[value for value in sent if value in told and told[value].outcome == STORED and value not in first],
        reordered=reordered[::-1],
        untrue=[value for value in sent if value in told and (
            (told[value].outcome in ("not_sent", "rejected") and value in first)
            or (told[value].offset >= 0 and value in first and at.get(told[value].offset) != value))],
        pending=[value for value in sent if value not in told],
        failed_and_stored=[value for value in sent if value in told and value in first
                           and told[value].outcome in (FAILED, "unknown")])
