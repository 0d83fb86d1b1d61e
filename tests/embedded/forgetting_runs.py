"""python -m tests.embedded.forgetting_runs: random scripts of brokers that forget, refuse and lose, and one checker.

    python -m tests.embedded.forgetting_runs --runs 1000            # seeds 0 to 999
    python -m tests.embedded.forgetting_runs --from 5000 --runs 100
    python -m tests.embedded.forgetting_runs --replay 4711          # one seed, with its script and what came of it

A seed draws the script: real threads run it, so two runs of a seed may differ. What must hold in each:

    acknowledged            in the log, at the offset that was told
    not_sent, rejected      in no log
    once                    each record, in each log; but one that was stored and not decided yet when the broker forgot
                            its producer: no client can tell that from a record that is not there
    in order                as sent; but what a batch passed that a broker took as the first one, where the producer
                            could not know that it was forgotten: amid its records, or within its silence limit
    no failure for nothing  not_sent only where time was short; unknown only where something was in doubt
    nobody's bug            no number stands for two records, and all else that the model broker finds

The silence after which a producer must be careful is a moment in most runs, and is left at its minutes in the others,
where the broker forgets too early for it: there order may change, and is counted.

Source:  ours.
"""

from __future__ import annotations

import argparse
import contextlib
import logging
import random
import sys
import time
import zlib
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from pyproducer import KafkaError, KafkaProducer, KafkaTimeoutError
from pyproducer.accumulator import transaction_manager
from pyproducer.hotpath import IMPL
from tests.simulation.model_broker import ModelParameters
from tests.support.scripted_broker import GIVE_UP_S, Rule, ScriptedBroker, Stored, kafka_2_3

TOPIC = "orders"
PARTITIONS = 2
SILENCE_MS = 3
DAY_MS = 86_400_000
REFUSED_FOR_A_MOMENT = (19, 19, 56, 6, 7)
REFUSED_FOR_GOOD = (10, 87)
STORED_AND_CALLED_AN_ERROR = (7, 20, 6, 56)
# Of these a producer cannot tell whether the batch is stored: the leader may have changed while it waited for replicas.
AMBIGUOUS = frozenset(STORED_AND_CALLED_AN_ERROR)
LOG_NAMES = "pyproducer"

LogKey = tuple[int, int]  # incarnation of the topic, partition


@dataclass
class Sent:
    """A record; numbers say in which order they were sent, whatever the partition."""

    value: bytes
    partition: int
    number: int
    future: Any


@dataclass
class Forgotten:
    """A broker does not know the producer in a log from a length of it on."""

    length: int
    is_strict: bool  # the producer can know: nothing may pass


@dataclass
class Report:
    """What came of a run."""

    seed: int
    is_noticed: bool = False
    wrong: list[str] = field(default_factory=list)
    fates: Counter[str] = field(default_factory=Counter)
    counts: Counter[str] = field(default_factory=Counter)
    story: list[str] = field(default_factory=list)
    took_s: float = 0.0


class ForgetfulZlib:
    """zlib.compressobj of the process, which has no memory now and then."""

    def __init__(self) -> None:
        self.rate = 0.0
        self.chance = random.Random(0)
        self.failed = 0
        self._real = zlib.compressobj

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        if self.rate and self.chance.random() < self.rate:
            self.failed += 1
            raise MemoryError("no memory for the codec")
        return self._real(*arguments, **named)


@contextlib.contextmanager
def surroundings(seed: int, *, is_noticed: bool, codec_rate: float) -> Iterator[ForgetfulZlib]:
    """Set what a producer finds around it, and put it back."""
    codec = ForgetfulZlib()
    codec.rate, codec.chance = codec_rate, random.Random(f"codec {seed}")
    limit = getattr(transaction_manager, "SILENCE_LIMIT_MS", None)
    logger = logging.getLogger(LOG_NAMES)
    level = logger.level
    logger.setLevel(logging.CRITICAL + 1)
    zlib.compressobj = codec  # type: ignore[assignment]  # for the producer under test
    if is_noticed:
        transaction_manager.SILENCE_LIMIT_MS = SILENCE_MS  # type: ignore[attr-defined]  # a constant to be
    try:
        yield codec
    finally:
        zlib.compressobj = codec._real
        logger.setLevel(level)
        if is_noticed and limit is None:
            del transaction_manager.SILENCE_LIMIT_MS  # type: ignore[attr-defined]
        elif is_noticed:
            transaction_manager.SILENCE_LIMIT_MS = limit  # type: ignore[attr-defined]


class Run:
    """One seed."""

    def __init__(self, seed: int) -> None:
        self.report = Report(seed)
        self.draw = draw = random.Random(f"run {seed}")
        self.is_noticed = self.report.is_noticed = draw.random() < 0.75
        self.is_old = draw.random() < 0.12
        self.has_ids = not self.is_old and draw.random() < 0.75
        self.node_count = draw.choice((1, 2, 2))
        self.is_hasty = draw.random() < 0.2  # delivery.timeout.ms is short
        self.is_mute = self.is_hasty or draw.random() < 0.15  # answers may stay away, and the producer soon gives up
        self.codec_rate = draw.choice((0, 0, 0.15, 0.4))
        self.closes_early = draw.random() < 0.15
        self.max_message_bytes = draw.choice((1_048_588, 1_048_588, 400))
        self.props: dict[str, Any] = {
            "linger.ms": draw.choice((0, 0, 1)), "batch.size": draw.choice((1, 1, 150, 16_384)),
            "retry.backoff.ms": 1, "retry.backoff.max.ms": 3, "reconnect.backoff.ms": 1, "reconnect.backoff.max.ms": 3,
            "max.in.flight.requests.per.connection": draw.choice((5, 5, 5, 2, 1)),
            "request.timeout.ms": draw.randint(12, 25) if self.is_mute else 30_000,
            "delivery.timeout.ms": draw.randint(50, 150) if self.is_hasty else 60_000,
            "metadata.max.age.ms": draw.choice((300_000, 20))}
        if self.codec_rate or draw.random() < 0.3:
            self.props |= {"compression.type": "gzip", "compression.gzip.level": 1}
        self.sent: dict[bytes, Sent] = {}
        self.rules: list[tuple[str, Rule]] = []
        self.incarnation = 0
        self.forgotten: dict[LogKey, list[Forgotten]] = defaultdict(list)
        self.excused: set[bytes] = set()  # stored and undecided when the broker forgot
        self.broker: ScriptedBroker
        self.producer: Any

    def run(self) -> Report:
        began = time.perf_counter()
        report = self.report
        parameters = (kafka_2_3 if self.is_old else ModelParameters)(max_message_bytes=self.max_message_bytes)
        if not self.is_old and not self.has_ids:
            parameters.produce_version = 12
        if self.draw.random() < 0.5:
            parameters.hints_leaders = False
        with surroundings(report.seed, is_noticed=self.is_noticed, codec_rate=self.codec_rate) as codec:
            self.broker = ScriptedBroker({TOPIC: PARTITIONS}, node_count=self.node_count, parameters=parameters)
            self.broker.__enter__()
            try:
                self.producer = KafkaProducer({"bootstrap.servers": self.broker.bootstrap_servers, **self.props})
                try:
                    self.play()
                    self.end()
                finally:
                    self.producer.close(0)
            except Exception as error:  # of a broker that heard nonsense, or a producer that hangs
                report.wrong.append(f"ended early: {error!r}")
            finally:
                self.broker.close()
            report.wrong += [f"a client's bug: {bug!r}" for bug in self.broker.complaints]
            report.counts["codec failed"] += codec.failed
        for kind, rule in self.rules:
            report.counts[kind] += rule.count
        if not any(line.startswith("ended early") for line in report.wrong):
            self.check()
        report.took_s = time.perf_counter() - began
        return report

    # ---- the script

    def play(self) -> None:
        steps = {self.burst: 5, self.script: 5, self.forget_in_silence: 4, self.forget_in_the_middle: 2, self.flush: 1,
                 self.wait: 2, self.recreate: 1, self.fill_the_past: 1}
        if self.node_count > 1:
            steps |= {self.move: 2, self.move_to_a_stranger: 6 if self.is_old else 2}
        if self.is_mute:
            steps |= {self.be_late: 2}
        self.burst(0)
        for _ in range(self.draw.randint(3, 8)):
            self.draw.choices(list(steps), list(steps.values()))[0]()

    def tell(self, what: str) -> None:
        self.report.story.append(what)

    def note(self, what: str) -> None:
        self.report.counts[what] += 1
        self.tell(what)

    def send(self, partition: int, count: int, timestamp: int | None = None) -> None:
        numbers = []
        for _ in range(count):
            number = len(self.sent)
            value = b"%d " % number + b"." * self.draw.choice((0, 0, 100, 350 if self.draw.random() < 0.3 else 0))
            self.sent[value] = Sent(value, partition, number, self.producer.send(
                TOPIC, value, partition=partition, timestamp=timestamp))
            numbers.append(number)
        self.tell(f"send {numbers} to {partition}")

    def burst(self, partition: int | None = None) -> None:
        """Send some records; half of the time while the broker reads and does nothing, so that many are under way."""
        partition = self.draw.randrange(PARTITIONS) if partition is None else partition
        is_paused = self.draw.random() < 0.5
        if is_paused:
            self.broker.pause()
        self.send(partition, self.draw.randint(1, 6))
        if is_paused:
            time.sleep(self.draw.choice((0.001, 0.003)))
            self.broker.resume()

    def script(self, partition: int | None = None, nth: int | None = None) -> None:
        """Let something happen to a batch that is to come."""
        draw = self.draw
        partition = draw.randrange(PARTITIONS) if partition is None else partition
        rule = self.broker.on_batch(TOPIC, partition, nth=draw.randint(1, 3) if nth is None else nth)
        kind = draw.choice(("refused for a moment", "refused for a moment", "refused for good", "answer lost",
                            "answer lost", "request lost", "stored and called an error"))
        if kind == "refused for a moment":
            code = draw.choice(REFUSED_FOR_A_MOMENT)
            rule.refuse(code)
            kind = f"{kind} {code}"
        elif kind == "refused for good":
            rule.refuse(draw.choice(REFUSED_FOR_GOOD))
        elif kind == "stored and called an error":
            rule.refuse_after(draw.choice(STORED_AND_CALLED_AN_ERROR))
        else:
            cut = not self.is_mute or draw.random() < 0.6
            (rule.lose_answer if kind == "answer lost" else rule.lose_request)(cut=cut)
        self.rules.append((kind, rule))
        self.tell(f"{partition}: {kind}, batch {nth or '?'}")

    def forget_in_silence(self) -> None:
        """A day without a record: the id is gone, and two things go wrong with the first batches of the next day."""
        self.settle()
        partition = self.draw.randrange(PARTITIONS)
        self.fall_silent()
        self.broker.await_quiet(lambda: self.forget(partition, is_strict=self.is_noticed))
        self.note("forgotten in silence")
        self.begin_anew(partition)

    def begin_anew(self, partition: int) -> None:
        """Send the first records to a broker that does not know the producer."""
        if self.draw.random() < 0.8:
            self.script(partition, 1)
        if self.draw.random() < 0.6:
            self.script(partition, self.draw.randint(1, 2))
        self.broker.pause()
        self.send(partition, self.draw.randint(2, 5))
        time.sleep(0.003)
        self.broker.resume()

    def forget_in_the_middle(self) -> None:
        partition = self.draw.randrange(PARTITIONS)
        if self.draw.random() < 0.5:
            self.broker.pause()
            self.send(partition, self.draw.randint(1, 4))
            time.sleep(0.002)
        self.broker.await_quiet(lambda: self.forget(partition, is_strict=False))
        self.broker.resume()
        self.note("forgotten in the middle")

    def fill_the_past(self) -> None:
        """Write what is old, so that the broker forgets at once."""
        self.settle()
        partition = self.draw.randrange(PARTITIONS)
        self.send(partition, self.draw.randint(1, 3), self.broker.now_ms - 10 * DAY_MS)
        self.settle()
        log = self.broker.log(TOPIC, partition)
        if log and log[-1].timestamp < self.broker.now_ms - 2 * DAY_MS:  # else all of them failed
            # What was acknowledged last may be another one, of today, where answers were lost: then nobody can know.
            last = self.sent.get(log[-1].value or b"")
            is_told = last is not None and last.future.exception(0) is None
            self.broker.await_quiet(lambda: self.forget(partition, is_strict=is_told, by_age=True))
            self.note("forgotten by its timestamps")
            self.begin_anew(partition)

    def move(self) -> None:
        partition = self.draw.randrange(PARTITIONS)
        self.broker.move_leader(TOPIC, partition, to=self.draw.randrange(self.node_count))
        self.note("leader moved")

    def move_to_a_stranger(self) -> None:
        """Let a replica lead that lost what it knew of producers."""
        self.settle()
        partition = self.draw.randrange(PARTITIONS)
        leader = self.broker.leader_of(TOPIC, partition)
        stranger = (leader + 1) % self.node_count

        begins_late = self.is_old and self.draw.random() < 0.6

        def forget() -> None:
            # A leader that does not know us was not spoken to: we know the leader before it, who may be the stranger.
            knows = bool(self.broker._cluster.partition(TOPIC, partition).known_to(leader))
            self.forget(partition, is_strict=knows, node_id=stranger)
            self.broker.move_leader(TOPIC, partition, to=stranger)
            if begins_late:
                self.broker.delete_records(TOPIC, partition)

        self.broker.await_quiet(forget)
        self.note("leader moved to one that forgot")
        if begins_late:  # and back again, to who may take new numbers for old ones
            self.send(partition, 1)
            self.settle()
            self.broker.move_leader(TOPIC, partition, to=leader)
            self.send(partition, self.draw.randint(1, 5))
            self.note("leader moved back")
        else:
            self.begin_anew(partition)

    def recreate(self) -> None:
        is_settled = self.draw.random() < 0.6
        if is_settled:
            self.settle()
            self.fall_silent()

        def do() -> None:
            for partition in range(PARTITIONS):
                self.excuse_undecided(partition)
            self.broker.recreate_topic(TOPIC)
            self.incarnation += 1
            for partition in range(PARTITIONS):
                self.forgotten[self.incarnation, partition].append(
                    Forgotten(0, is_settled and (self.has_ids or self.is_noticed)))

        self.broker.await_quiet(do)
        self.note("topic made anew" if is_settled else "topic made anew in the middle")
        if self.draw.random() < 0.7:
            self.begin_anew(self.draw.randrange(PARTITIONS))

    def be_late(self) -> None:
        """Handle requests when the producer has given them up and sent them again."""
        self.broker.pause()
        self.send(self.draw.randrange(PARTITIONS), self.draw.randint(1, 4))
        time.sleep(1.5 * self.props["request.timeout.ms"] / 1000)
        self.broker.resume()
        self.note("late")

    def flush(self) -> None:
        """Flush, and look in between whether the broker complains: it may have nothing more to do with the producer."""
        for _ in range(int(GIVE_UP_S)):
            with contextlib.suppress(KafkaTimeoutError):
                return self.producer.flush(1)
            self.broker.check()
        raise TimeoutError("flush() was not done within a minute")

    def wait(self) -> None:
        time.sleep(self.draw.choice((0.001, 0.002, 0.006)))

    def fall_silent(self) -> None:
        time.sleep(1.5 * SILENCE_MS / 1000)

    def settle(self) -> None:
        """Wait until all is decided, and nothing of it is on its way."""
        for record in list(self.sent.values()):
            self.broker.await_true(record.future.done, lambda record=record: f"the outcome of {record.number}")
        self.broker.await_quiet()

    # ---- what the brokers' thread does

    def excuse_undecided(self, partition: int) -> None:
        """What is stored and undecided, or stored and on its way once more, may be stored again by any client."""
        waiting = self.broker.waiting_values()
        for stored in self.broker.log(TOPIC, partition):
            record = self.sent.get(stored.value or b"")
            if record is not None and (not record.future.done() or record.value in waiting):
                self.excused.add(record.value)

    def forget(self, partition: int, *, is_strict: bool, node_id: int | None = None, by_age: bool = False) -> None:
        self.excuse_undecided(partition)
        if by_age:
            self.broker.expire_producers(DAY_MS)
        else:
            self.broker.forget_producer(TOPIC, partition, node_id=node_id)
        self.forgotten[self.incarnation, partition].append(
            Forgotten(len(self.broker.log(TOPIC, partition)), is_strict))

    # ---- the end

    def end(self) -> None:
        if self.closes_early:
            self.note("closed early")
            self.producer.close(self.draw.choice((0, 0.001, 0.005, 0.02)))
        elif self.draw.random() < 0.5:
            self.flush()
        else:
            self.producer.close(GIVE_UP_S)
        self.settle()

    def check(self) -> None:
        report = self.report
        places: dict[bytes, list[tuple[LogKey, int]]] = defaultdict(list)
        incarnations: Counter[int] = Counter()
        for partition, log in self.broker.all_logs(TOPIC):
            key = incarnations[partition], partition
            incarnations[partition] += 1
            for stored in log:
                if stored.value not in self.sent:
                    report.wrong.append(f"nobody sent {stored}")
                else:
                    places[stored.value].append((key, stored.offset))
            self.check_order(key, log)
            report.story += [f"log {key}: {stored.value[:4] if stored.value else None!r} {stored.producer_epoch}/"
                             f"{stored.sequence} at {stored.offset}" for stored in log]
        kinds = {kind for kind, rule in self.rules if rule.count}
        is_in_doubt = self.is_mute or bool(kinds - {"refused for good", "refused for a moment 19"}) or any(
            report.counts[kind] for kind in ("leader moved", "leader moved to one that forgot", "topic made anew",
                                             "topic made anew in the middle"))
        for record in self.sent.values():
            fate = self.check_record(record, places[record.value], is_in_doubt=is_in_doubt)
            report.fates[fate] += 1
            report.story.append(f"{record.number} in {record.partition}: {fate} {record.future.exception(0) or ''}")

    def check_record(self, record: Sent, places: list[tuple[LogKey, int]], *, is_in_doubt: bool) -> str:
        wrong = self.report.wrong
        error = record.future.exception(0)
        for key, count in Counter(place[0] for place in places).items():
            if count > 1 and record.value in self.excused:
                self.report.counts["doubled, and nobody could tell"] += 1
            elif count > 1:
                wrong.append(f"doubled: {record.number} is {count} times in log {key}")
        if error is None:
            offset = record.future.result(0).offset
            if not places:
                wrong.append(f"lost: {record.number} was acknowledged, and is in no log")
            elif offset >= 0 and offset not in [place[1] for place in places]:
                wrong.append(f"untrue: {record.number} was acknowledged at {offset}, and is at {places}")
            return "acknowledged"
        outcome = error.outcome if isinstance(error, KafkaError) else None
        if outcome not in ("not_sent", "rejected", "unknown"):
            wrong.append(f"untrue: {record.number} failed with {error!r}")
        elif outcome != "unknown" and places:
            wrong.append(f"untrue: {record.number} is {outcome}, and in the log at {places}: {error!r}")
        elif self.is_hasty or self.closes_early:
            pass  # time was short
        elif outcome == "not_sent":
            wrong.append(f"given up: {record.number} was not sent: {error!r}")
        elif outcome == "unknown" and not is_in_doubt:
            wrong.append(f"given up: {record.number} is unknown, and nothing was in doubt: {error!r}")
        return str(outcome)

    def check_order(self, key: LogKey, log: list[Stored]) -> None:
        numbers = [self.sent[stored.value].number for stored in log if stored.value in self.sent]
        values = [stored.value for stored in log if stored.value in self.sent]
        highest = -1
        for position, number in enumerate(numbers):
            if number >= highest:
                highest = number
            elif values[position] in self.excused or numbers.index(number) < position:
                pass  # it may be there twice, or is, which is told elsewhere
            elif self.was_passed(key, number, position, numbers):
                self.report.counts["passed, and nobody could tell"] += 1
            else:
                self.report.wrong.append(f"out of order: {number} is behind {highest} in log {key}: {numbers}")

    def was_passed(self, key: LogKey, number: int, position: int, numbers: list[int]) -> bool:
        """Whether a broker that forgot the producer took a later batch for the first one, before the record came."""
        return any(not forgotten.is_strict and forgotten.length < len(numbers) and forgotten.length < position
                   and numbers[forgotten.length] > number for forgotten in self.forgotten[key])


def run(seed: int) -> Report:
    """Run a seed."""
    return Run(seed).run()


class Total:
    """What many runs came to."""

    def __init__(self) -> None:
        self.runs = self.noticed = 0
        self.took_s = self.longest_s = 0.0
        self.fates: Counter[str] = Counter()
        self.counts: Counter[str] = Counter()
        self.kinds: Counter[str] = Counter()
        self.failed: list[Report] = []

    def add(self, report: Report) -> None:
        self.runs += 1
        self.noticed += report.is_noticed
        self.took_s += report.took_s
        self.longest_s = max(self.longest_s, report.took_s)
        self.fates.update(report.fates)
        self.counts.update(report.counts)
        if report.wrong:
            self.failed.append(report)
            self.kinds.update({line.split(":")[0] for line in report.wrong})

    def lines(self) -> list[str]:
        """Say it."""
        def told(counter: Counter[str]) -> str:
            return ", ".join(f"{name} {count}" for name, count in sorted(counter.items()))

        lines = [f"{self.runs} runs on the {IMPL} twin, {self.noticed} with a short silence limit, in "
                 f"{self.took_s:.1f} s: {1000 * self.took_s / max(1, self.runs):.0f} ms each, the longest "
                 f"{1000 * self.longest_s:.0f}",
                 f"records: {told(self.fates)}", f"happened: {told(self.counts)}"]
        for report in self.failed[:10]:
            lines += [f"=== seed {report.seed}{'' if report.is_noticed else ' (default limit)'}"] + [
                f"    {line[:300]}" for line in report.wrong[:4]]
        lines.append(f"FAILED: {len(self.failed)} runs ({told(self.kinds)}): "
                     f"{[report.seed for report in self.failed][:40]}" if self.failed else "nothing is wrong")
        return lines


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.embedded.forgetting_runs", description="Runs seeds.")
    parser.add_argument("--runs", type=int, default=1000, help="how many (default 1000)")
    parser.add_argument("--from", type=int, default=0, dest="first", help="the first seed (default 0)")
    parser.add_argument("--replay", type=int, metavar="SEED", help="one seed, with its script")
    arguments = parser.parse_args()
    if arguments.replay is not None:
        report = run(arguments.replay)
        print("\n".join([*report.story, *report.wrong]) or "nothing is wrong")
        return 1 if report.wrong else 0
    total = Total()
    for seed in range(arguments.first, arguments.first + arguments.runs):
        total.add(run(seed))
    print("\n".join(total.lines()))
    return 1 if total.failed else 0


if __name__ == "__main__":
    sys.exit(main())
