"""What the threads of a simulated application do with their producer, and what they were told of each record.

Source:  ours.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

from pyproducer import (
    BufferExhaustedError,
    DeliveryFailedError,
    IllegalStateError,
    KafkaError,
    KafkaTimeoutError,
    ProducerClosedError,
    ProducerDeadError,
)
from pyproducer.common.errors import NOT_SENT
from tests.simulation.application import Application, SimulatedFailure
from tests.simulation.faults import Faults
from tests.simulation.plan import Parameters, Plan
from tests.simulation.powers import MOST_SILENCES
from tests.simulation.schedule import Scheduler, SimClock, SimThread, SimulationFailed

IN_LOOP = 1000  # from here on: callers in an event loop, which has the last producer, and nobody else has
FEWEST_ACKNOWLEDGED = 200
SOME_TIME_MS = 1_600_000_000_000
FEWEST_FAULTS = 3
MOST_RECORDS = 2000
HEADERS = (("h", b"v"), ("", None))
HEADERS_IN_LOG = b"\x04\x02h\x02v\x00\x01"  # how many, and then each one's lengths and bytes


class FromOutside(BaseException):
    """What a signal's handler raises in a thread of the application."""


class CallbackFailed(BaseException):
    """What a wild callback raises."""


class Sent:
    """One record, from the application's side.

    Attributes:
        caller: Which thread sent it; -1 a callback.
        order: Its place among the thread's.
        future: What send() returned, or None.
        row: Its row, where it was a row of send_batch.
        refused: What send() raised instead.
        is_cut_off: Whether something from outside ended its send().
        told: How often its callback was called, with what (last), when, and as the how-manieth of all (last).
        timestamp: As the application gave it, or None.
        value: What tells it from all others.
        body: Its value; None for null, where the key tells it from all others.
        done_count: How often its done callback was called; None where it has none.
        is_adding: Whether the done callback is about to be added.
        done_number: As the how-manieth of all it was called; 0 for never, or by who added it.
        is_withdrawn: Whether the task that sent it was cancelled before it was handed over.
    """

    __slots__ = ("body", "caller", "done_count", "done_number", "future", "has_callback", "headers", "is_adding",
                 "is_cut_off", "is_withdrawn", "key", "order", "partition", "refused", "row", "sent_ms", "timestamp",
                 "told_count", "told_error", "told_metadata", "told_ms", "told_number", "topic", "value")

    def __init__(self, caller: int, order: int, topic: str, partition: int | None, value: bytes, sent_ms: int) -> None:
        self.caller = caller
        self.order = order
        self.topic = topic
        self.partition = partition
        self.value = value
        self.body: bytes | None = value
        self.done_count: int | None = None
        self.sent_ms = sent_ms
        self.key: bytes | None = None
        self.headers = b""  # as they are in the log
        self.future: Any = None
        self.row: int | None = None
        self.refused: BaseException | None = None
        self.is_cut_off = False
        self.is_withdrawn = False
        self.is_adding = False
        self.done_number = 0
        self.has_callback = False
        self.told_count = 0
        self.told_metadata: Any = None
        self.told_error: Any = None
        self.told_ms = -1
        self.told_number = 0
        self.timestamp: int | None = None

    def __repr__(self) -> str:
        return f"record {self.value.split(b' ')[0].decode()}"


class Workload:
    """The application.

    Args:
        plan: Whose chance.
        parameters: What was drawn.
        scheduler: Threads and time.
        clock: Where they sleep.
        faults: Asked for interrupts.
        producers: What is tested; each of the callers has one of them, an event loop the last one.
        application: What it brings along.

    Attributes:
        records: All that was sent, in order of the calls.
        complaints: What was seen that must not be.
        memory_looks: How many records were on their way when the application looked at the memory.
        held_looks: How many were when a request arrived, and the memory was looked at.
    """

    def __init__(self, plan: Plan, parameters: Parameters, scheduler: Scheduler, clock: SimClock, faults: Faults,
                 producers: Sequence[Any], application: Application) -> None:
        self.records: list[Sent] = []
        self.complaints: list[str] = []
        self.is_closing = False
        self.is_endless = False  # until somebody closes
        self._plan = plan
        self._parameters = parameters
        self._scheduler = scheduler
        self._clock = clock
        self._faults = faults
        self._producers = producers
        self.application = application
        self._from_callbacks = 0
        self._callback_chance = plan.stream("callbacks")
        limit = parameters.record_count if plan.record_limit is None else min(plan.record_limit,
                                                                               parameters.record_count)
        self._left = limit
        self._undecided: list[Sent] = []
        self._acknowledged = 0
        self._told_number = 0
        self.memory_looks = 0
        self.held_looks = 0
        self._by_identity: dict[bytes, Sent] = {}
        self._silent_until_ms = 0
        self._odd_chance = plan.stream("odd records")
        self._silences_left = MOST_SILENCES if "expiry" in parameters.powers else 0
        self._silence_chance = plan.stream("silence")

    def start(self) -> list[SimThread]:
        """Start the application's threads."""
        count = self._parameters.caller_count
        if self._plan.caller_limit is not None:
            count = min(count, self._plan.caller_limit)
        threads = []
        for number in range(count):
            caller = Caller(self, number, self._plan.stream(f"workload {number}"))
            threads.append(self._scheduler.start(caller.run, f"caller {number}", is_interruptible=True))
        return threads

    def caller_in_loop(self, number: int) -> Caller:
        """Return what makes the records of an event loop: those of all its tasks in order, or of one batch."""
        return Caller(self, IN_LOOP + number, self._plan.stream(f"workload {number} of the loop"))

    def producer_of(self, caller: int) -> Any:
        """Return the producer that a caller has."""
        if caller >= IN_LOOP:
            return self._producers[-1]
        count = len(self._producers) - ("asyncio" in self._parameters.powers)
        return self._producers[caller % count if caller >= 0 else 0]

    # -- records

    def new_record(self, caller: int, order: int, topic: str, partition: int | None, padding: int) -> Sent:
        value = b"%d.%d %s" % (caller, order, b"x" * padding)
        record = Sent(caller, order, topic, partition, value, self._scheduler.now_ms)
        self.records.append(record)
        self._undecided.append(record)
        self._by_identity[value] = record
        return record

    def partition_count(self, topic: str) -> int:
        """Return how many partitions a topic has by now."""
        partitions = self._faults.cluster.topics.get(topic)
        return self._parameters.topics[topic] if partitions is None else len(partitions)

    def is_told(self, identity: bytes) -> bool:
        """Whether the application was told what became of a record."""
        record = self._by_identity.get(identity)
        return record is not None and self._is_over(record)

    def is_awaited(self, identity: bytes) -> bool:
        """Whether there is a future of this record alone, and it has no outcome; a row may have one before its batch.
        """
        record = self._by_identity.get(identity)
        return record is not None and record.row is None and record.future is not None and not record.future.done()

    def look_at_memory(self, producer: Any) -> None:
        """Compare what a producer says of its memory with what it must hold by now, at least."""
        before = [record for record in self._undecided if record.row is None and record.future is not None
                  and self.producer_of(record.caller) is producer]
        metrics = producer.metrics()
        free, total = metrics["buffer-available-bytes"], self._parameters.props["buffer.memory"]
        held = [record for record in before if not record.future.done()]
        self.memory_looks += len(held)
        if not 0 <= free <= total - sum(len(record.value) for record in held):
            self.complaints.append(f"of {total} bytes of buffer.memory {free} are free, and {len(held)} records are on "
                                   "their way")

    def look_at_held(self) -> None:
        """Compare what the pools hold just now with what they must; no thread runs meanwhile, and none is asked.

        Where a step of a pool was left half way it counts again before it says anything: nobody looks then.
        """
        awaited = [record for record in self._undecided
                   if record.row is None and record.future is not None and not record.future.done()]
        for producer in self._producers:
            pool = producer._runtime.accumulator.whole_pool
            if pool._step is not None:
                continue
            own = [record for record in awaited if self.producer_of(record.caller) is producer]
            self.held_looks += len(own)
            least = sum(len(record.value) for record in own)
            total = self._parameters.props["buffer.memory"]
            held = total - pool.available_bytes
            if not least <= held <= total:
                self.complaints.append(f"{held} of {total} bytes of buffer.memory are held, and {len(own)} records of "
                                       f"{least} bytes are on their way")

    @staticmethod
    def _is_over(record: Sent) -> bool:
        if record.future is None:
            return record.refused is not None
        return bool(record.future.done())

    def keep_silence(self) -> None:
        """Be silent for a while, as all callers are, if it is time for it."""
        if self._silences_left and self._silence_chance.random() < 0.05:
            self._silences_left -= 1
            self._silent_until_ms = self._scheduler.now_ms + self._parameters.silence_ms
        while self._scheduler.now_ms < self._silent_until_ms:
            self._clock.sleep(self._silent_until_ms - self._scheduler.now_ms)

    def send(self, record: Sent, key: bytes | None, headers: Any, with_callback: bool,
             timestamp: int | None = None, by: Callable[..., Any] | None = None) -> Any:
        """Send a record, by its caller's producer or by something else; what send() raises is noted."""
        named = self.dress(record, key, headers, with_callback, timestamp)
        try:
            record.future = (by or self.producer_of(record.caller).send)(record.topic, record.body, **named)
            if "done_callbacks" in self._parameters.powers and self._odd_chance.random() < 0.3:
                record.done_count = 0
                record.is_adding = True
                record.future.add_done_callback(lambda _future: self._on_done(record))
                record.is_adding = False
        except SimulationFailed:
            raise
        except (KafkaError, SimulatedFailure) as error:
            self.refuse(record, error)
            if isinstance(error, (ProducerClosedError, ProducerDeadError)):
                self.is_closing = True
        except BaseException:
            record.is_cut_off = record.future is None  # else it was accepted
            raise
        return record.future

    def dress(self, record: Sent, key: bytes | None, headers: Any, with_callback: bool,
              timestamp: int | None = None) -> dict[str, Any]:
        """Note what a record is sent with, and return that as send()'s arguments, but for its topic and value."""
        self._make_odd(record)
        if record.body is None:
            key = record.value
        record.has_callback = with_callback
        record.timestamp = timestamp
        record.key = key
        record.headers = HEADERS_IN_LOG if headers else b""
        return {"key": key, "partition": record.partition, "headers": headers, "timestamp": timestamp,
                "on_completion": (lambda metadata, error: self._on_completion(record, metadata, error))
                if with_callback else None}

    def refuse(self, record: Sent, error: BaseException) -> None:
        """Note what send() raised."""
        record.refused = error
        if isinstance(error, KafkaError) and error.outcome != NOT_SENT:
            self.complaints.append(f"send() of {record} raised {error!r} with outcome {error.outcome}")

    def _make_odd(self, record: Sent) -> None:
        if "null_values" in self._parameters.powers and record.caller >= 0 and self._odd_chance.random() < 0.2:
            record.body = None

    def _on_done(self, record: Sent) -> None:
        assert record.done_count is not None
        record.done_count += 1
        if not record.is_adding:  # else it may be done for long, and this call is the caller's own
            self._told_number += 1
            record.done_number = self._told_number

    def _on_completion(self, record: Sent, metadata: Any, error: Any) -> None:
        record.told_count += 1
        record.told_metadata, record.told_error = metadata, error
        record.told_ms = self._scheduler.now_ms
        self._told_number += 1
        record.told_number = self._told_number
        if self._callback_chance.random() < self._parameters.wild_callback_rate and record.caller < IN_LOOP:
            self._be_wild(record)

    def _be_wild(self, record: Sent) -> None:
        chance = self._callback_chance
        producer = self.producer_of(record.caller)
        kind = chance.choice(("raise", "exit", "send", "flush", "result", "send_new"))
        self._scheduler.tell(f"the callback of {record} does: {kind}")
        if kind in ("raise", "exit"):
            # It failed before hand-over, in its caller, whose exceptions are his where they may come from outside.
            if producer._runtime.life.is_on_sender_thread:
                raise CallbackFailed if kind == "raise" else SystemExit(3)
            return
        if kind == "flush":
            try:
                producer.flush(1)
            except IllegalStateError:
                return
            if producer._runtime.life.is_on_sender_thread:  # else it failed before hand-over, in its caller
                self.complaints.append("flush() in a callback did not raise")
        elif kind == "result":
            for other in reversed(self.records):
                if (other.future is not None and other.row is None and not other.future.done()
                        and self.producer_of(other.caller) is producer):
                    try:
                        other.future.result(1)
                    except (IllegalStateError, KafkaError):
                        return
                    if producer._runtime.life.is_on_sender_thread and not other.future.done():
                        self.complaints.append("result() in a callback did not raise")
                    return
        else:
            self._from_callbacks += 1
            topic = chance.choice(list(self._parameters.topics))
            other = self.new_record(-1, self._from_callbacks, topic, None, 20)
            self.send(other, b"%d" % self._from_callbacks, None, True)

    def is_enough(self) -> bool:
        """Whether enough happened to prove something."""
        self._undecided = [record for record in self._undecided if not self._is_decided(record)]
        return self._acknowledged >= FEWEST_ACKNOWLEDGED + 20 and self._faults.fired.total() >= FEWEST_FAULTS

    def has_more(self) -> bool:
        """Whether anything is to be sent: what was drawn, and then more, until enough happened to prove something."""
        if self._left > 0 or self._plan.record_limit is not None:
            return self._left > 0
        if self.is_endless and len(self.records) < MOST_RECORDS:
            self._left = 20
            return True
        if len(self.records) < MOST_RECORDS and not self.is_enough():
            self._left = 20
        return self._left > 0

    def _is_decided(self, record: Sent) -> bool:
        if record.future is None:
            return record.refused is not None or record.is_cut_off
        if record.future.done():
            error = (record.future.exception(0) if record.row is None
                     else record.future.result(0).errors.get(record.row))
            self._acknowledged += error is None
            return True
        return False

    def take(self, count: int) -> int:
        """Take some of the records that are still to be sent."""
        count = min(count, self._left)
        self._left -= count
        return count


class Caller:
    """One thread of the application."""

    def __init__(self, workload: Workload, number: int, chance: random.Random) -> None:
        self._workload = workload
        self._number = number
        self._producer = workload.producer_of(number)
        self._chance = chance
        self._order = 0
        self._mine: list[Sent] = []
        self._extras = workload._plan.stream(f"extras {number}")
        self._topics = list(workload._parameters.topics)

    def run(self) -> None:
        workload = self._workload
        chance = self._chance
        operations = (self._burst, self._burst, self._burst, self._send_and_wait, self._send_batch, self._flush,
                      self._look, self._partitions, self._sleep)
        while not workload.is_closing:
            try:
                if not workload.has_more():
                    return
                workload.keep_silence()
                if workload._faults.fires("interrupt"):
                    self._plan_interrupt()
                operations[int(chance.random() * len(operations))]()
            except FromOutside:
                workload._scheduler.tell("was interrupted")

    def _plan_interrupt(self) -> None:
        scheduler = self._workload._scheduler
        at_ms = scheduler.now_ms + int(self._chance.random() * 50)
        thread = scheduler.current
        scheduler.at(at_ms, lambda: scheduler.interrupt(thread, FromOutside()))

    # -- what it does

    def _next(self) -> Sent:
        chance = self._chance
        topic = self._topics[int(chance.random() * len(self._topics))]
        partition = None
        if chance.random() < 0.3:
            partition = int(chance.random() * self._workload.partition_count(topic))
        self._order += 1
        record = self._workload.new_record(self._number, self._order, topic, partition,
                                           int(chance.random() * (300 if chance.random() < 0.1 else 60)))
        self._mine.append(record)
        return record

    def some_topic(self) -> str:
        """Return one of the topics."""
        return self._topics[int(self._chance.random() * len(self._topics))]

    def next_with_key(self) -> tuple[Sent, bytes | None]:
        """Make the next record, for somebody else to send."""
        return self._next(), b"%d" % int(self._chance.random() * 10) if self._chance.random() < 0.5 else None

    def _send(self) -> Sent:
        chance = self._chance
        key = b"%d" % int(chance.random() * 10) if chance.random() < 0.5 else None
        headers = HEADERS if chance.random() < 0.1 else None
        record = self._next()
        self._workload.send(record, key, headers, chance.random() < self._workload._parameters.callback_rate,
                            self._timestamp())
        if isinstance(record.refused, BufferExhaustedError):
            self._sleep()
        return record

    def _timestamp(self) -> int | None:
        return SOME_TIME_MS + int(self._extras.random() * 100_000) if self._extras.random() < 0.1 else None

    def _burst(self) -> None:
        for _ in range(self._workload.take(1 + int(self._chance.random() * 12))):
            self._send()

    def _send_and_wait(self) -> None:
        for _ in range(self._workload.take(1 + int(self._chance.random() * 3))):
            record = self._send()
            if record.future is not None:
                try:
                    record.future.exception(None if self._chance.random() < 0.7 else self._chance.random())
                except KafkaTimeoutError:
                    pass

    def rows(self, count: int) -> tuple[list[Sent], dict[str, Any]]:
        """Make records of one topic, and what send_batch() gets to send them."""
        workload = self._workload
        records = [self._next() for _ in range(count)]
        topic = records[0].topic
        most = workload.partition_count(topic)
        for record in records:
            record.topic = topic
            record.partition = None if record.partition is None else record.partition % most
        keys = [b"%d" % int(self._chance.random() * 10) if self._chance.random() < 0.5 else None for _ in records]
        for row, record in enumerate(records):
            workload._make_odd(record)
            if record.body is None:
                keys[row] = record.value
        columns: dict[str, Any] = {}
        if self._extras.random() < 0.3:
            columns["timestamps"] = [self._timestamp() for _ in records]
            for record, timestamp in zip(records, columns["timestamps"], strict=True):
                record.timestamp = timestamp
        if self._extras.random() < 0.3:
            columns["headers"] = [HEADERS if self._extras.random() < 0.3 else None for _ in records]
            for record, headers in zip(records, columns["headers"], strict=True):
                record.headers = HEADERS_IN_LOG if headers else b""
        for record, key in zip(records, keys, strict=True):
            record.key = key
        return records, {"topic": topic, "values": [record.body for record in records], "keys": keys,
                         "partitions": [record.partition for record in records], **columns}

    def _send_batch(self) -> None:
        workload = self._workload
        count = workload.take(1 + int(self._chance.random() * 30))
        if not count:
            return
        records, columns = self.rows(count)
        try:
            future = self._producer.send_batch(**columns)
        except SimulationFailed:
            raise
        except (KafkaError, SimulatedFailure) as error:
            for record in records:
                record.refused = error
            return
        except BaseException:
            for record in records:
                record.is_cut_off = True
            raise
        for row, record in enumerate(records):
            record.future, record.row = future, row
        if self._chance.random() < 0.3:
            try:
                future.result(self._chance.random() * 10)
            except KafkaTimeoutError:
                pass

    def _flush(self) -> None:
        timeout_s = None if self._chance.random() < 0.5 else self._chance.random() * 3
        before = [record for record in self._mine if record.future is not None and not record.future.done()]
        try:
            self._producer.flush(timeout_s, raise_on_error=self._chance.random() < 0.3)
        except KafkaTimeoutError:
            pass
        except ProducerDeadError:
            if not self._workload._faults.ends_turns:
                raise
        except DeliveryFailedError as error:
            if not sum(error.failed.values()):
                self._workload.complaints.append(f"flush() raised {error!r}, which names no failure")
        else:
            undone = [record for record in before if not record.future.done()]
            if undone:
                self._workload.complaints.append(f"flush() returned, and {undone} have no outcome")

    def _look(self) -> None:
        for record in self._mine[-3:]:
            if record.future is not None:
                record.future.done()
        self._workload.look_at_memory(self._producer)

    def _partitions(self) -> None:
        try:
            self._producer.partitions_for(self._topics[int(self._chance.random() * len(self._topics))])
        except ProducerClosedError:
            pass
        except KafkaError:
            pass  # not known in time: no record is concerned

    def _sleep(self) -> None:
        self._workload._clock.sleep(int(self._chance.random() * self._workload._parameters.pause_ms))
