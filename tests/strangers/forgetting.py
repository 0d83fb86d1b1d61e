"""Who doubles, loses and reorders records when a broker forgets a producer id: ours, Java's producer and librdkafka.

    python -m tests.strangers.forgetting                    every story on Apache Kafka, 100 random runs on the model
    python -m tests.strangers.forgetting --runs 1000 --clients pyproducer

Each client is told the same stories of tests/support/forgetting_stories.py; the random ones, and that of an old broker,
on the scripted broker. "limit" is ours with SILENCE_LIMIT_MS below the brokers' expiration. A table says how many runs
there were, and in how many of them records were doubled, lost (told as stored, not in the log), reordered, or told
wrongly; how many records it were in all is behind the slash. "pending": nothing was told of them within 30 s. "failed,
stored" is no untruth: the error did not say. Ctrl-C prints what there is by then.

Source:  ours. Not a test: the numbers of others are no failure of ours.
"""

from __future__ import annotations

import argparse
import contextlib
import logging
import sys
from collections.abc import Iterator, Sequence

from pyproducer import hotpath
from pyproducer.accumulator import transaction_manager
from tests.simulation.model_broker import ModelParameters
from tests.support import scripted_broker, story_clients
from tests.support.forgetting_stories import (
    FORGETFUL,
    KafkaStage,
    ScriptedStage,
    Story,
    doubled_after_restart,
    doubled_after_silence,
    doubled_after_silence_and_retry,
    lost_by_old_broker,
    random_story,
    reordered_after_silence,
    reordered_in_backfill,
    tell,
)
from tests.support.kafka_server import KafkaServer
from tests.support.scripted_broker import ScriptedBroker, kafka_2_3
from tests.support.story_clients import Java, Judgement, Librdkafka, Ours, StoryClient

TOPIC = "orders"
ON_FORGETFUL_KAFKA = (doubled_after_silence, reordered_after_silence, doubled_after_silence_and_retry,
                      reordered_in_backfill)
ON_KAFKA = (doubled_after_restart,)
RANDOM = "random"
STORIES = (*(story.__name__ for story in (*ON_FORGETFUL_KAFKA, *ON_KAFKA, lost_by_old_broker)), RANDOM)
LIMIT = "limit"
CLIENTS = ("pyproducer", f"pyproducer {LIMIT}", "java", "librdkafka")
KAFKA_LIMIT_MS, RANDOM_LIMIT_MS = 1000, 20
RANDOM_SILENCE_S = 0.03
GATHER_S = 0.1  # a careful client waits for an answer, and the broker for its next batch: most of a run, else
GIVE_UP_S = 30.0  # some clients say nothing of a record after a fatal error, longer than their delivery.timeout.ms
COLUMNS = ("doubled", "lost", "reordered", "untrue", "pending", "failed_and_stored")


class Row:
    """The line of one client in one story."""

    def __init__(self) -> None:
        self.runs = 0
        self.broken: dict[str, str] = {}  # runs that came to nothing, and in which the model objects; with why
        self.run_counts = dict.fromkeys(COLUMNS, 0)
        self.record_counts = dict.fromkeys(COLUMNS, 0)
        self.seeds: dict[str, list[str]] = {column: [] for column in COLUMNS}

    def add(self, judgement: Judgement, name: str) -> None:
        self.runs += 1
        for column in COLUMNS:
            records = getattr(judgement, column)
            self.run_counts[column] += bool(records)
            self.record_counts[column] += len(records)
            if records:
                self.seeds[column].append(name)

    def cells(self) -> list[str]:
        return [str(self.runs), *(f"{self.run_counts[column]}/{self.record_counts[column]}" for column in COLUMNS),
                str(len(self.broken))]


class Table:
    """All lines."""

    def __init__(self) -> None:
        self.rows: dict[tuple[str, str], Row] = {}

    def tell(self, row: tuple[str, str], story: Story, stage: KafkaStage | ScriptedStage, client: StoryClient,
             name: str) -> None:
        line = self.rows.setdefault(row, Row())
        try:
            line.add(tell(story, stage, client), name)
        except TimeoutError as error:
            line.broken[name] = str(error)

    def print(self, *, seeds: bool) -> None:
        head = ["story", "client", "runs", *(column.replace("_and_", ", ") for column in COLUMNS), "broken"]
        lines = [head, *([story, client, *row.cells()] for (story, client), row in self.rows.items())]
        widths = [max(len(line[column]) for line in lines) for column in range(len(head))]
        for line in lines:
            print("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())
        for (story, client), row in self.rows.items():
            for name, why in list(row.broken.items())[:3]:
                print(f"broken: {story}, {client}, {name}: {why}")
            if seeds:
                for column, names in row.seeds.items():
                    if names:
                        print(f"{story}, {client}, {column}: {' '.join(names)}")


@contextlib.contextmanager
def silence_limit(client: str, limit_ms: int) -> Iterator[None]:
    """Let ours know when these brokers forget, where the client asks for it; it is read when a producer is made."""
    before = transaction_manager.SILENCE_LIMIT_MS, transaction_manager.ID_EXPIRATION_MS
    if LIMIT in client:
        transaction_manager.SILENCE_LIMIT_MS = limit_ms
        transaction_manager.ID_EXPIRATION_MS = 2 * limit_ms
    try:
        yield
    finally:
        transaction_manager.SILENCE_LIMIT_MS, transaction_manager.ID_EXPIRATION_MS = before


@contextlib.contextmanager
def client_named(name: str) -> Iterator[StoryClient]:
    """One client for many stories."""
    if name == "java":
        java = Java()
        try:
            yield java
        finally:
            java.stop()
    else:
        yield Librdkafka() if name == "librdkafka" else Ours()


def on_kafka(table: Table, server: KafkaServer, story: Story, name: str, client: StoryClient, repeats: int) -> None:
    for number in range(repeats):
        topic = f"{story.__name__}-{name.replace(' ', '-')}-{number}"
        with silence_limit(name, KAFKA_LIMIT_MS), KafkaStage(server, topic) as stage:
            table.tell((story.__name__, name), story, stage, client, str(number))


def on_model(table: Table, story_name: str, story: Story, name: str, client: StoryClient, run: str,
             parameters: ModelParameters, node_count: int) -> None:
    parameters.blames_reused_numbers = False
    broker = ScriptedBroker({TOPIC: 1}, node_count=node_count, parameters=parameters,
                            is_for_librdkafka=name == "librdkafka")
    broker._thread.start()
    try:
        with silence_limit(name, RANDOM_LIMIT_MS):
            table.tell((story_name, name), story, ScriptedStage(broker, TOPIC), client, run)
    finally:
        broker.close()
    if broker.complaints:
        table.rows[story_name, name].broken[run] = str(broker.complaints[0])[:300]


def main(arguments: Sequence[str]) -> int:
    """Tell the stories and print the table."""
    parser = argparse.ArgumentParser(prog="python -m tests.strangers.forgetting", description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=100, help="random runs of each client")
    parser.add_argument("--seed", type=int, default=0, help="the first of them")
    parser.add_argument("--repeats", type=int, default=2, help="how often each story is told on Apache Kafka")
    parser.add_argument("--clients", nargs="*", default=list(CLIENTS), choices=CLIENTS)
    parser.add_argument("--stories", nargs="*", default=list(STORIES), choices=STORIES)
    parser.add_argument("--seeds", action="store_true", help="print the runs behind each number")
    options = parser.parse_args(arguments)
    logging.getLogger("pyproducer").setLevel(logging.CRITICAL)  # faults are what it is about
    table = Table()
    story_clients.GIVE_UP_S = GIVE_UP_S
    scripted_broker.GATHER_S = GATHER_S
    with contextlib.suppress(KeyboardInterrupt), contextlib.ExitStack() as stack:
        clients = {name: stack.enter_context(client_named(name)) for name in options.clients}
        for stories, settings in ((ON_FORGETFUL_KAFKA, FORGETFUL), (ON_KAFKA, {})):
            wanted = [story for story in stories if story.__name__ in options.stories]
            if wanted:
                with KafkaServer(settings=settings) as server:
                    for story in wanted:
                        for name, client in clients.items():
                            on_kafka(table, server, story, name, client, options.repeats)
        for name, client in clients.items():
            if lost_by_old_broker.__name__ in options.stories:
                on_model(table, lost_by_old_broker.__name__, lost_by_old_broker, name, client, "0", kafka_2_3(), 2)
        if RANDOM in options.stories:
            for seed in range(options.seed, options.seed + options.runs):
                for name, client in clients.items():
                    on_model(table, RANDOM, random_story(seed, silence_s=RANDOM_SILENCE_S), name, client, str(seed),
                             ModelParameters(), 1)
    print(f"ours: the {hotpath.IMPL} twin")
    table.print(seeds=options.seeds)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
