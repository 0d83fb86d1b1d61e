"""A row in a database and records in Kafka, both or neither, though any process may be killed at any moment.

    1. the records are sent in a transaction, which is prepared: stored, and seen by nobody
    2. one transaction of the database writes the row, and beside it what is needed to end the other: the decision
    3. the Kafka transaction is committed, and the note beside the row deleted

Who was killed before 2 has written nothing: the records are aborted when the id is used again, or after
transaction.timeout.ms. Who was killed after it left a note, by which the next process commits them. To do so twice is
harmless.

Run:     python -m examples.database_and_kafka
"""

from __future__ import annotations

import contextlib
import os
import signal
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Generator
from pathlib import Path

from pyproducer import KafkaProducer, PreparedTransaction, TransactionCompleter, TransactionOutcome
from pyproducer.broker import EmbeddedBroker
from pyproducer.testing import read_topic

SCHEMA = """
create table if not exists orders (number integer primary key, item text not null);
create table if not exists prepared (note text not null);
"""


@contextlib.contextmanager
def database(path: Path) -> Generator[sqlite3.Connection, None, None]:
    """Open the database; each block below is one transaction of it."""
    connection = sqlite3.connect(path)
    try:
        connection.executescript(SCHEMA)
        yield connection
    finally:
        connection.close()


def finish(connection: sqlite3.Connection, completer: TransactionCompleter) -> int:
    """Commit what the database says is decided; return how many transactions that was."""
    notes = [note for (note,) in connection.execute("select note from prepared")]
    for note in notes:
        prepared = PreparedTransaction.from_json(note)
        outcome = completer.commit(prepared)
        if outcome is not TransactionOutcome.COMMITTED:
            # It took longer than transaction.timeout.ms to come here, or somebody initialised the id.
            raise RuntimeError(f"the records of {prepared.transactional_id} were decided on, and are {outcome.value}: "
                               "send them again out of the table of orders")
        with connection:
            connection.execute("delete from prepared where note = ?", (note,))
    return len(notes)


def place_order(connection: sqlite3.Connection, producer: KafkaProducer, completer: TransactionCompleter,
                number: int, item: str, *, dies: bool = False) -> None:
    """Write an order into the database and announce it, both or neither."""
    producer.begin_transaction()
    producer.send("orders", item.encode(), key=b"%d" % number)
    prepared = producer.prepare_transaction()
    with connection:  # the decision
        connection.execute("insert into orders values (?, ?)", (number, item))
        connection.execute("insert into prepared values (?)", (prepared.to_json(),))
    if dies:
        os.kill(os.getpid(), signal.SIGKILL)
    finish(connection, completer)
    producer.commit_transaction()  # it is, and so says the coordinator: the producer may begin the next one


def serve(servers: str, path: Path, first: int, *, dies: bool) -> None:
    """Finish what an earlier process has left, then take two orders; the second one is the last where it dies."""
    props = {"bootstrap.servers": servers}
    with database(path) as connection, TransactionCompleter(props) as completer:
        print(f"finished: {finish(connection, completer)}")  # first: to initialise the id would abort it
        with KafkaProducer({**props, "transactional.id": "shop"}) as producer:
            producer.init_transactions()
            place_order(connection, producer, completer, first, "tea")
            place_order(connection, producer, completer, first + 1, "cake", dies=dies)


def main() -> None:
    """Run one process that is killed between database and Kafka, and one that finishes what it left."""
    if len(sys.argv) > 1:
        servers, path, first, dies = sys.argv[1:]
        serve(servers, Path(path), int(first), dies=dies == "dies")
        return
    with tempfile.TemporaryDirectory() as folder, EmbeddedBroker(topics={"orders": 1}) as broker:
        file = Path(folder) / "shop.db"
        for command in (["1", "dies"], ["3", "lives"]):
            done = subprocess.run([sys.executable, "-m", "examples.database_and_kafka", broker.bootstrap_servers,
                                   str(file), *command], check=False, capture_output=True, text=True)
            print(f"a process ended with {done.returncode}, {done.stdout.strip()}{done.stderr.strip()}")
        with database(file) as connection:
            print("the database has:", connection.execute("select item from orders order by number").fetchall())
        print("Kafka has:       ", [record.value for record in read_topic(broker.bootstrap_servers, "orders",
                                                                         isolation_level="read_committed")])


if __name__ == "__main__":
    main()
