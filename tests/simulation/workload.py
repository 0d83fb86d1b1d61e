"""What the threads of a simulated application do with their producer, and what they were told of each record.

Source:  ours.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from pyproducer import (
    AbortableTransactionError,
    BufferExhaustedError,
    DeliveryFailedError,
    FatalProducerError,
    ForkedProducerError,
    IllegalStateError,
    KafkaError,
    KafkaTimeoutError,
    ProducerClosedError,
    ProducerDeadError,
)
from pyproducer.common.errors import NOT_SENT, OUTCOMES, UNKNOWN
from tests.simulation import meetings
from tests.simulation.application import Application, SimulatedFailure
from tests.simulation.faults import Faults
from tests.simulation.forks import Forks
from tests.simulation.manners import LATE_MS
from tests.simulation.plan import Parameters, Plan
from tests.simulation.powers import MOST_SILENCES
from tests.simulation.schedule import Scheduler, SimClock, SimThread, SimulationFailed

IN_TRANSACTION = 500  # from here on: the lives of a transactional producer, one after the other
IN_LOOP = 1000  # from here on: callers in an event loop, which has the last producer, and nobody else has
FEWEST_ACKNOWLEDGED = 200
SOME_TIME_MS = 1_600_000_000_000
FEWEST_FAULTS = 3
MOST_RECORDS = 2000
NO_TOPIC = "nowhere"  # there is none of that name
_OF_NO_TOPIC = 0.04
_MOST_FORKS = 3
_LONGEST_IDLE_MS = 300_000  # metadata.max.idle.ms
# What a record fails with that comes behind another one of its transaction, which failed.
OF_A_TRANSACTION = (AbortableTransactionError, FatalProducerError)
HEADERS = (("h", b"v"), ("", None))
HEADERS_IN_LOG = b"\x04\x02h\x02v\x00\x01"  # how many, and then each one's lengths and bytes
ENDED_OF_NODE, TIME_OF_NODE = "produce-ended-total.node-", "produce-time-total.node-"


def numbers_of(producer: Any) -> dict[str, float]:
    """Return what metrics() says of a producer, and of its requests to each node."""
    metrics = producer.metrics()
    found: dict[str, float] = dict(metrics)
    for node_id, node in metrics.nodes.items():
        if node_id >= 0 and node["produce-ended-total"]:
            found[f"{ENDED_OF_NODE}{node_id}"] = node["produce-ended-total"]
            found[f"{TIME_OF_NODE}{node_id}"] = node["produce-time-total"]
    return found


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
        is_at_once: Whether it had failed when send() returned, so that its caller was told by that.
        is_seen: Whether the application looked at its outcome.
        may_be_seen: Whether an error that flush() raised may have told of it.
    """

    __slots__ = ("body", "caller", "done_count", "done_number", "future", "has_callback", "headers", "is_adding",
                 "is_at_once", "is_cut_off", "is_seen", "is_withdrawn", "key", "may_be_seen", "order", "partition",
                 "refused", "row", "sent_ms", "timestamp", "told_count", "told_error", "told_metadata", "told_ms",
                 "told_number", "topic", "value")

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
        self.is_at_once = False
        self.is_seen = False
        self.may_be_seen = not 0 <= caller < IN_LOOP  # the others are looked at by whoever asks, or in a loop
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
        sending_ms: How long all calls took that send.
        waited_ms: How long those took that had no memory in the end.
        flushes: How many calls of flush() are under way, or are being looked at.
        judged: How much each check judged that is made while all runs; of the memory, records on their way.
        given_up: Records of transactions that failed, in which nothing is tried again.
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
        self.sending_ms = 0
        self.waited_ms = 0
        self.flushes = 0
        self._from_callbacks = 0
        self._callback_chance = plan.stream("callbacks")
        limit = parameters.record_count if plan.record_limit is None else min(plan.record_limit,
                                                                               parameters.record_count)
        self._left = limit
        self._undecided: list[Sent] = []
        self._acknowledged = 0
        self._told_number = 0
        self.judged: Counter[str] = Counter()
        self.given_up: set[bytes] = set()
        self._epochs_before: dict[tuple[int, str, object, int, int], int] = {}
        self._metrics_before: dict[int, dict[str, float]] = {}
        self._by_identity: dict[bytes, Sent] = {}
        self._silent_until_ms = 0
        self._odd_chance = plan.stream("odd records")
        self.forks = Forks(self.complaints)
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
        if caller >= IN_TRANSACTION:
            return self._producers[1 + caller - IN_TRANSACTION]
        count = 1 if "transactions" in self._parameters.powers else len(self._producers) - (
            "asyncio" in self._parameters.powers)
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
        return self._parameters.topics.get(topic, 1) if partitions is None else len(partitions)

    def is_told(self, identity: bytes) -> bool:
        """Whether the application was told what became of a record."""
        record = self._by_identity.get(identity)
        return record is not None and self._is_over(record)

    def is_awaited(self, identity: bytes) -> bool:
        """Whether there is a future of this record alone, and it has no outcome; a row may have one before its batch.
        """
        record = self._by_identity.get(identity)
        return record is not None and record.row is None and record.future is not None and not record.future.done()

    def look_at_state(self, record: Sent) -> None:
        """Compare what a future says of itself, in its several ways."""
        future = record.future
        self.judged["states"] += 1
        was_done = future.done()
        text, is_running, is_done = repr(future), future.running(), future.done()
        if was_done != is_done:
            return  # just now
        words = ("done", "failed") if is_done else ("pending",)
        if is_running is is_done or future.cancelled() or record.topic not in text or not any(
                word in text for word in words):
            self.complaints.append(f"the future of {record} says {text}, running {is_running}, done {is_done}")

    def look_at_memory(self, producer: Any) -> None:
        """Compare what a producer says of its memory with what it must hold by now, at least."""
        before = [record for record in self._undecided if record.row is None and record.future is not None
                  and self.producer_of(record.caller) is producer]
        metrics = self.look_at_metrics(producer)
        free, total = metrics["buffer-available-bytes"], self._parameters.props["buffer.memory"]
        held = [record for record in before if not record.future.done()]
        self.judged["memory"] += len(held)
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
            pool = producer._runtime.accumulator.pool
            if pool._is_dirty:
                continue
            own = [record for record in awaited if self.producer_of(record.caller) is producer]
            self.judged["memory held"] += len(own)
            least = sum(len(record.value) for record in own)
            total = self._parameters.props["buffer.memory"]
            held = total - pool.available_bytes
            if not least <= held <= total:
                self.complaints.append(f"{held} of {total} bytes of buffer.memory are held, and {len(own)} records of "
                                       f"{least} bytes are on their way")

    def ask_for_partitions(self, producer: Any, topic: str) -> None:
        """Have a producer say which partitions a topic has: as many as some broker told, within max.block.ms."""
        longest_ms = self._parameters.props["max.block.ms"]
        began_ms, frozen_ms = self._scheduler.now_ms, self._faults.frozen_ms
        error: KafkaError | None = None
        try:
            count = len(producer.partitions_for(topic))
        except ProducerClosedError:
            return
        except KafkaError as raised:
            error = raised  # not known in time: no record is concerned
        took_ms = self._scheduler.now_ms - began_ms
        self.judged["partitions"] += 1
        if took_ms - (self._faults.frozen_ms - frozen_ms) > longest_ms + LATE_MS:
            self.complaints.append(f"partitions_for() took {took_ms} ms, and max.block.ms is {longest_ms}")
        if error is None:
            made = self._faults.cluster.parameters.auto_create_partitions  # by who asks for one that is nowhere
            counts = self._faults.partition_counts.get(topic, {made})
            if not any(told and count <= told for told in counts):
                self.complaints.append(f"partitions_for({topic!r}) says {count}, and brokers told of {counts}")
        elif isinstance(error, KafkaTimeoutError) and (
                error.phase != "metadata" or error.outcome != NOT_SENT or took_ms < longest_ms or topic not in str(
                    error)):
            self.complaints.append(f"partitions_for({topic!r}) raised {error!r} after {took_ms} ms, phase "
                                   f"{error.phase!r}, outcome {error.outcome!r}; max.block.ms is {longest_ms}")

    def look_at_metrics(self, producer: Any) -> dict[str, float]:
        """Compare what a producer's metrics say with what they said before: totals grow, and nothing is negative.

        Returns:
            What they say.
        """
        before = self._metrics_before.get(id(producer), {})  # first: another thread may look while this one does
        metrics = numbers_of(producer)
        self._metrics_before[id(producer)] = metrics
        self.judged["metrics"] += len(metrics)
        for name, value in metrics.items():
            if value < (before.get(name, 0) if "-total" in name else 0):
                self.complaints.append(f"the metric {name} is {value}, and was {before.get(name)}")
        return metrics

    def look_at_epochs(self, producer: Any) -> None:
        """Compare the leader epochs that a producer believes with those before: with topic ids none steps back.

        Where no node can be reached it asks the bootstrap addresses again, and believes what it hears first; and older
        nodes tell of no epochs. An answer that is behind may bring back a topic that was made anew since, or that was
        said to be in error: its epochs are forgotten by then. So are those of a topic that nobody used for long.
        """
        parameters, metadata = self._parameters, producer._runtime.metadata
        starts = metadata._start_count
        if (not parameters.has_topic_ids or parameters.node_versions or "odd_versions" in parameters.powers
                or starts != metadata._answered_start_count or self._scheduler.now_ms >= _LONGEST_IDLE_MS
                or (self._faults.fired["stale_metadata"]
                    and (self._faults.fired["recreate_topic"] or self._faults.fired["topic_error"]))):
            return
        cluster = metadata.cluster
        if starts != metadata._start_count:  # another one, meanwhile
            return
        for topic in parameters.topics:
            table = cluster.table(topic)
            for index, info in table.by_index.items():
                key = id(producer), topic, table.topic_id, index, starts
                before = self._epochs_before.get(key, -1)
                self.judged["leader epochs"] += before >= 0
                if info.leader_epoch < before:
                    self.complaints.append(f"{topic}-{index} is led in epoch {info.leader_epoch}, the producer says, "
                                           f"and knew of epoch {before}")
                self._epochs_before[key] = info.leader_epoch

    def wait(self, call: Callable[[float | None], Any], timeout_s: float | None, phase: str = "future") -> Any:
        """Wait with a limit, which holds: not less, and hardly more; and what is not done then says that it is unknown.

        Raises:
            KafkaTimeoutError: It was over.
        """
        began_ms, frozen_ms = self._scheduler.now_ms, self._faults.frozen_ms
        try:
            return call(timeout_s)
        except KafkaTimeoutError as error:
            took_ms = self._scheduler.now_ms - began_ms
            is_early = timeout_s is None or took_ms < int(timeout_s * 1000)
            if is_early or (error.phase, error.outcome) != (phase, UNKNOWN):
                self.complaints.append(f"after {took_ms} ms a wait of at most {timeout_s} s raised {error!r}, phase "
                                       f"{error.phase!r}, outcome {error.outcome!r}")
            raise
        finally:
            took_ms = self._scheduler.now_ms - began_ms - (self._faults.frozen_ms - frozen_ms)
            self.judged["waits with a limit"] += timeout_s is not None
            if timeout_s is not None and took_ms > timeout_s * 1000 + LATE_MS:
                self.complaints.append(f"a wait of at most {timeout_s} s took {took_ms} ms")

    def meet(self, futures: list[Any], timeout_s: float | None, kind: str) -> None:
        """Wait for several futures, and compare what is done with what was waited for."""
        began_ms, frozen_ms = self._scheduler.now_ms, self._faults.frozen_ms
        done = meetings.wait(futures, timeout_s, kind)
        took_ms = self._scheduler.now_ms - began_ms
        self.judged["meetings"] += len(futures)
        undone = [future for future in futures if future not in done]
        is_enough = not undone or (kind == meetings.KINDS[1] and bool(done)) or (
            kind == meetings.KINDS[2] and any(future.exception(0) is not None for future in done))
        if not all(future.done() and not future.running() for future in done):
            self.complaints.append(f"of {done} some are not done, and whoever waited was told so")
        if not is_enough and (timeout_s is None or took_ms < int(timeout_s * 1000)):
            self.complaints.append(f"after {took_ms} ms a wait of {timeout_s} s for {kind} ended with {done} and "
                                   f"{undone}")
        if timeout_s is not None and took_ms - (self._faults.frozen_ms - frozen_ms) > timeout_s * 1000 + LATE_MS:
            self.complaints.append(f"a wait of {timeout_s} s for several took {took_ms} ms")

    def look_at_failure(self, error: DeliveryFailedError, producer: Any) -> None:
        """Compare what an error says of records that failed: all of them, by topic, and the first ones."""
        self.judged["failures by topic"] += 1
        count = sum(error.failed.values())
        by_topic = {outcome: sum(counts[outcome] for counts in error.topics.values()) for outcome in OUTCOMES}
        first = sum(told.count for told in error.errors)
        if not count or by_topic != error.failed or not 0 < first <= count or not error.failed[error.outcome]:
            self.complaints.append(f"flush() raised {error!r}: failed {error.failed}, by topic {error.topics}, the "
                                   f"first {error.errors}")
        self.on_told_of_all(producer)
        failed: Counter[tuple[str, str]] = Counter()
        unsure = 0
        for record in self.records:
            if self.producer_of(record.caller) is not producer:
                continue
            outcome = self._outcome_of(record)
            if outcome is not None:
                failed[record.topic, outcome] += 1
            unsure += record.future is None and record.refused is None  # cut off, or in the middle of its send()
            # It is told already, and its callback, or that of another in its batch, is not back yet.
            unsure += record.future is not None and not record.future.done() and (
                record.row is not None or record.future._result.is_set)
        for topic, counts in error.topics.items():
            for outcome, told in counts.items():
                if told > failed[topic, outcome] + unsure:
                    self.complaints.append(f"flush() says that {told} records for {topic} are {outcome}, and "
                                           f"{failed[topic, outcome]} are")

    def unseen(self, producer: Any) -> list[Sent]:
        """Return the records of a producer that failed, and of which nobody was told for certain."""
        return [record for record in self.records if self.producer_of(record.caller) is producer
                and record.future is not None and not record.is_at_once and not record.is_seen
                and not record.may_be_seen and record.future.done() and not is_acknowledged(record)]

    def on_told_of_all(self, producer: Any) -> None:
        """An error was raised that tells of all records of a producer that failed."""
        for record in self.records:
            record.may_be_seen = record.may_be_seen or self.producer_of(record.caller) is producer

    @staticmethod
    def _outcome_of(record: Sent) -> str | None:
        """Return what became of a record that failed; None of others, and of those that are on their way."""
        error: Any = record.refused
        if record.row is not None:
            error = record.future._metadata.errors.get(record.row)  # which may have failed before all are done
        elif record.future is not None:
            if not record.future.done() or is_acknowledged(record):
                return None
            error = error_of(record)
        return None if error is None else getattr(error, "outcome", NOT_SENT)

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
        began_ms, frozen_ms = self._scheduler.now_ms, self._faults.frozen_ms
        try:
            record.future = (by or self.producer_of(record.caller).send)(record.topic, record.body, **named)
            record.is_at_once = record.future.done() and not is_acknowledged(record)
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
        finally:
            self._look_at_time(record, self._scheduler.now_ms - began_ms, self._faults.frozen_ms - frozen_ms)
        if not self._plan.swarm:  # there an exception may come at any line
            self.look_at_epochs(self.producer_of(record.caller))
        return record.future

    def _look_at_time(self, record: Sent, took_ms: int, frozen_ms: int) -> None:
        """Compare how long a send() took with max.block.ms: who has no memory waits so long, and nobody hardly longer.

        Nobody waits in a callback, nor in an event loop.
        """
        longest_ms = self._parameters.props["max.block.ms"]
        self.judged["time to send"] += 1
        self.sending_ms += took_ms
        # A callback that is called at once may wait, too.
        has_called = record.told_count and (record.future is None or record.is_at_once)
        if took_ms - frozen_ms > longest_ms + LATE_MS and not has_called:
            self.complaints.append(f"send() of {record} took {took_ms} ms, and max.block.ms is {longest_ms}")
        if isinstance(record.refused, BufferExhaustedError):
            life = self.producer_of(record.caller)._runtime.life
            self.judged["no memory"] += 1
            if record.caller < IN_LOOP and not life.is_on_sender_thread:
                self.waited_ms += longest_ms
            text = str(record.refused)
            if 0 <= record.caller < IN_LOOP and not life.is_on_sender_thread and (
                    took_ms < longest_ms or f"max.block.ms = {longest_ms} ms" not in text):
                self.complaints.append(f"send() of {record} raised {record.refused!r} after {took_ms} ms, and "
                                       f"max.block.ms is {longest_ms}")

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

    def see(self, record: Sent) -> None:
        """Note that the application looked at an outcome.

        Where the producer had ended before, it may have counted a failure that nobody had looked at by then.
        """
        if self.producer_of(record.caller)._runtime.life.tally._has_ended:
            record.may_be_seen = True
        else:
            record.is_seen = True

    def _on_done(self, record: Sent) -> None:
        assert record.done_count is not None
        record.done_count += 1
        self.see(record)
        if not record.is_adding:  # else it may be done for long, and this call is the caller's own
            self._told_number += 1
            record.done_number = self._told_number

    def _on_completion(self, record: Sent, metadata: Any, error: Any) -> None:
        record.told_count += 1
        record.is_seen = True
        record.told_metadata, record.told_error = metadata, error
        record.told_ms = self._scheduler.now_ms
        self._told_number += 1
        record.told_number = self._told_number
        if self._callback_chance.random() < self._parameters.wild_callback_rate and record.caller < IN_LOOP:
            self._be_wild(record)

    def _be_wild(self, record: Sent) -> None:
        chance = self._callback_chance
        producer = self.producer_of(record.caller)
        kind = chance.choice(("raise", "exit", "send", "flush", "result", "send_new", "await"))
        self._scheduler.tell(f"the callback of {record} does: {kind}")
        if kind in ("raise", "exit"):
            # It failed before hand-over, in its caller, whose exceptions are his where they may come from outside.
            if producer._runtime.life.is_on_sender_thread:
                raise CallbackFailed if kind == "raise" else SystemExit(3)
            return
        if kind == "flush":
            try:
                producer.flush(1)
            except IllegalStateError as error:
                self._look_at_refusal(producer, error, "flush()")
                return
            if producer._runtime.life.is_on_sender_thread:  # else it failed before hand-over, in its caller
                self.complaints.append("flush() in a callback did not raise")
        elif kind in ("result", "await"):
            for other in reversed(self.records):
                if (other.future is not None and not other.future.done() and other.caller < IN_LOOP
                        and self.producer_of(other.caller) is producer):
                    if kind == "await" and not producer._runtime.life.is_on_sender_thread:
                        return
                    try:
                        if kind == "await":
                            next(other.future.__await__())
                        else:
                            other.future.result(1)
                    except IllegalStateError as error:
                        self._look_at_refusal(producer, error, "await" if kind == "await" else "result()")
                        return
                    except KafkaError:
                        other.may_be_seen = True
                        return
                    if producer._runtime.life.is_on_sender_thread and not other.future.done():
                        self.complaints.append(f"{kind} in a callback did not raise")
                    return
        else:
            self._from_callbacks += 1
            topic = chance.choice(list(self._parameters.topics))
            other = self.new_record(-1, self._from_callbacks, topic, None, 20)
            began_ms = self._scheduler.now_ms
            self.send(other, b"%d" % self._from_callbacks, None, True)
            if self.producer_of(other.caller) is not producer:
                self._faults.called_back_ms += self._scheduler.now_ms - began_ms

    def _look_at_refusal(self, producer: Any, error: IllegalStateError, call: str) -> None:
        self.judged["refused in a callback"] += 1
        if producer._runtime.life.is_on_sender_thread and (
                type(error) is not IllegalStateError or not str(error).startswith(f"{call} ")):
            self.complaints.append(f"in a callback {call} raised {error!r}")

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
            self._acknowledged += is_acknowledged(record)
            return True
        return False

    def take(self, count: int) -> int:
        """Take some of the records that are still to be sent."""
        count = min(count, self._left)
        self._left -= count
        return count


def error_of(record: Sent) -> Any:
    """Return why a record failed that did; nobody takes that for a look of the application's."""
    if record.row is not None:
        return record.future._metadata.errors[record.row]
    return record.future._result.error_for(record.future._index)


def is_acknowledged(record: Sent) -> bool:
    """Whether a record that is done did not fail; nobody takes that for a look of the application's."""
    if record.row is not None:
        return record.row not in record.future._metadata.errors
    return record.future._result.error_for is None


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
        operations = [self._burst, self._burst, self._burst, self._send_and_wait, self._send_batch, self._flush,
                      self._look, self._partitions, self._sleep]
        operations += [self._meet] * ("meetings" in workload._parameters.powers)
        operations += [self._fork] * ("forks" in workload._parameters.powers)
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
        if "no_topic" in self._workload._parameters.powers and self._extras.random() < _OF_NO_TOPIC:
            topic = NO_TOPIC
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
                record.may_be_seen = True
                try:
                    self._workload.wait(record.future.exception,
                                        None if self._chance.random() < 0.7 else self._chance.random())
                    self._workload.see(record)
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
        began_ms = workload._scheduler.now_ms
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
        finally:
            workload.sending_ms += workload._scheduler.now_ms - began_ms
        for row, record in enumerate(records):
            record.future, record.row = future, row
            record.is_at_once = row in future._metadata.errors
        if self._chance.random() < 0.3:
            for record in records:
                record.may_be_seen = True
            try:
                workload.wait(future.result, self._chance.random() * 10)
                for record in records:
                    workload.see(record)
            except KafkaTimeoutError:
                pass

    def _meet(self) -> None:
        """Wait for several futures, as concurrent.futures.wait() does."""
        workload, chance = self._workload, self._extras
        for _ in range(workload.take(1 + int(chance.random() * 4))):
            self._send()
        own = [record for record in self._mine[-8:] if record.future is not None]
        futures = list({id(record.future): record.future for record in own}.values())
        for record in self._mine:
            record.may_be_seen = record.may_be_seen or any(record.future is future for future in futures)
        if futures:
            kind = meetings.KINDS[int(chance.random() * len(meetings.KINDS))]
            workload.meet(futures, None if chance.random() < 0.6 else chance.random() * 2, kind)

    def _fork(self) -> None:
        """Fork, half of the time by a signal's handler in the middle of a call."""
        workload, scheduler = self._workload, self._workload._scheduler
        forks = workload.forks
        if forks.count >= _MOST_FORKS:
            self._sleep()
            return
        wrong: list[str] = []
        if self._extras.random() < 0.4:
            forks.fork()
        else:
            thread = scheduler.current
            at_ms = scheduler.now_ms + int(self._extras.random() * 30)
            may_come = [True]  # as long as the call lasts
            scheduler.at(at_ms, lambda: scheduler.interrupt(thread, forks.fork) if may_come else None)
            calls = self._send_and_wait, self._flush, self._send_batch, self._burst, self._partitions
            try:
                calls[int(self._extras.random() * len(calls))]()
            except ForkedProducerError as error:
                if not forks.is_child:
                    raise
                wrong += [] if error.outcome in (NOT_SENT, UNKNOWN) else [f"in a child {error!r} is {error.outcome}"]
            except FromOutside:  # which was on its way to this thread before it forked
                if not forks.is_child:
                    raise
            except BaseException as error:
                if not forks.is_child:
                    raise
                wrong.append(f"in a child the interrupted call raised {error!r}")
            finally:
                may_come.clear()
        workload.judged["forks"] += 1
        if forks.is_child:
            forks.end_child(self._producer, self._mine, wrong)

    def _flush(self) -> None:
        timeout_s = None if self._chance.random() < 0.5 else self._chance.random() * 3
        before = [record for record in self._mine if record.future is not None and not record.future.done()]
        self._workload.flushes += 1
        try:
            raises = self._chance.random() < 0.3
            self._workload.wait(lambda timeout_s: self._producer.flush(timeout_s, raise_on_error=raises), timeout_s,
                                "flush")
        except KafkaTimeoutError:
            pass
        except ProducerDeadError:
            if not self._workload._faults.ends_turns:
                raise
            self._workload.on_told_of_all(self._producer)
        except DeliveryFailedError as error:
            self._workload.look_at_failure(error, self._producer)
        else:
            undone = [record for record in before if not record.future.done()]
            if undone:
                self._workload.complaints.append(f"flush() returned, and {undone} have no outcome")
        finally:
            self._workload.flushes -= 1

    def _look(self) -> None:
        for record in self._mine[-3:]:
            if record.future is not None:
                self._workload.look_at_state(record)
        self._workload.look_at_memory(self._producer)
        self._workload.look_at_epochs(self._producer)

    def _partitions(self) -> None:
        self._workload.ask_for_partitions(self._producer, self._topics[int(self._chance.random() * len(self._topics))])

    def _sleep(self) -> None:
        self._workload._clock.sleep(int(self._chance.random() * self._workload._parameters.pause_ms))
