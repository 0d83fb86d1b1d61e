"""A program whose transactional calls are interrupted by exceptions from a signal's handler, again and again.

    python -m tests.support.interrupted_transactions BOOTSTRAP TOPIC COUNT

Who is interrupted calls the same again, as often as it takes. Prints one line of JSON: how many exceptions came, which
transactions were committed, and which errors their calls raised beside.
"""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Callable

from pyproducer import IllegalStateError, KafkaProducer
from tests.support.interrupt_storm import SoftTimeLimit, Storm

PER_TRANSACTION = 3


def main(bootstrap: str, topic: str, count: int) -> None:
    storm = Storm(SoftTimeLimit)
    already = 0  # a call that had returned when the exception came

    def insist(call: Callable[[], object]) -> None:
        done: list[bool] = []

        def attempt() -> None:
            nonlocal already
            try:
                call()
            except IllegalStateError:
                already += 1
            done.append(True)

        while not done:
            storm.step(attempt, delays_s=(2e-5, 1e-4, 3e-4, 1e-3, 3e-3, 1e-2))

    committed: list[int] = []
    with KafkaProducer({"bootstrap.servers": bootstrap, "transactional.id": topic, "linger.ms": 0,
                        "transaction.timeout.ms": 900_000}) as producer:  # the most: the machine may be busy
        insist(producer.init_transactions)
        for number in range(count):
            insist(producer.begin_transaction)
            for index in range(PER_TRANSACTION):
                producer.send(topic, b"%d %d" % (number, index), partition=0)
            if number % 3 == 0:
                insist(lambda place=number: producer.send_offsets_to_transaction({(topic, 0): place}, topic))
            if number % 5 == 4:
                insist(producer.prepare_transaction)
            if number % 4 == 3:
                insist(producer.abort_transaction)
            else:
                insist(producer.commit_transaction)
                committed.append(number)
        signal.setitimer(signal.ITIMER_REAL, 0)
        state = producer._runtime.transaction_calls._transactions
        assert state is not None
        print(json.dumps({"raised": storm.raised_count, "caught": storm.caught_count, "already": already,
                          "swallowed": storm.swallowed, "committed": committed, "state": state.state.name}))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
