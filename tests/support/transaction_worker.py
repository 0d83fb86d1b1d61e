"""A process that runs transactions one after the other, and tells of each what it is about to do, and what it did.

    python -m tests.support.transaction_worker '{"bootstrap": ..., "topic": ..., "id": ..., "first": 0, ...}'

Lines on standard output: "begin N", "commit N" before the commit is asked for, "committed N", "aborted N", "end". Who
reads them may kill the process at any moment, and knows what is allowed to be seen of each transaction. A record's
value is "N index size".

No import of pytest.
"""

from __future__ import annotations

import json
import random
import sys
from typing import Any

from pyproducer import KafkaProducer


def size_of(number: int, seed: int) -> int:
    """How many records a transaction has."""
    return random.Random(f"{seed} size {number}").choice((1, 2, 5, 20, 100))


def is_aborted(number: int, seed: int) -> bool:
    """Whether its application aborts it: a third."""
    return random.Random(f"{seed} abort {number}").random() < 1 / 3


def run(job: dict[str, Any]) -> None:
    """Run the transactions of a job."""
    seed = job["seed"]
    say = sys.stdout
    with KafkaProducer({"bootstrap.servers": job["bootstrap"], "transactional.id": job["id"], "linger.ms": 0,
                        "retry.backoff.ms": 20, "retry.backoff.max.ms": 200, "max.block.ms": 600_000,
                        "delivery.timeout.ms": 600_000}) as producer:
        producer.init_transactions()
        for number in range(job["first"], job["last"]):
            size = size_of(number, seed)
            say.write(f"begin {number}\n")
            say.flush()
            producer.begin_transaction()
            for index in range(size):
                producer.send(job["topic"], b"%d %d %d" % (number, index, size), partition=index % job["partitions"])
            if is_aborted(number, seed):
                producer.flush()
                producer.abort_transaction()
                say.write(f"aborted {number}\n")
            else:
                say.write(f"commit {number}\n")
                say.flush()
                producer.commit_transaction()
                say.write(f"committed {number}\n")
            say.flush()
        say.write("end\n")
        say.flush()


if __name__ == "__main__":
    run(json.loads(sys.argv[1]))
