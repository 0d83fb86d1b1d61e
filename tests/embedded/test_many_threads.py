"""Many threads send through one producer at once: every record is stored once, in the order of its thread.

What it is for is a Python without the GIL, where nothing is one step for the others by itself; it runs on any.
"""

from __future__ import annotations

import threading

from pyproducer import KafkaProducer
from pyproducer.broker import EmbeddedBroker
from pyproducer.testing import read_topic
from tests.support.patience import GIVE_UP_S

THREADS = 6
RECORDS = 1_500
BATCH_ROWS = 50


def test_send_when_many_threads_do_it_then_each_record_is_stored_once_and_in_order() -> None:
    raised: list[BaseException] = []
    told = [0] * THREADS

    def work(producer: KafkaProducer, name: int) -> None:
        key = b"thread-%d" % name

        def count(_metadata: object, exception: BaseException | None) -> None:
            told[name] += exception is None  # on the producer's thread only

        try:
            for number in range(RECORDS):
                producer.send("t", b"%d" % number, key=key, on_completion=count,
                              headers=[("n", b"1")] if number % 7 == 0 else None)
                if number % 500 == 0:
                    producer.flush()
            rows = [b"%d" % number for number in range(RECORDS, RECORDS + BATCH_ROWS)]
            producer.send_batch("t", rows, keys=[key] * BATCH_ROWS).result(GIVE_UP_S).raise_on_error()
            producer.send("t", b"%d" % (RECORDS + BATCH_ROWS), key=key).result(GIVE_UP_S)
        except BaseException as error:
            raised.append(error)

    with EmbeddedBroker(topics={"t": 3}, separate_process=True) as broker:
        with KafkaProducer({"bootstrap.servers": broker.bootstrap_servers, "batch.size": 4096, "linger.ms": 1,
                            "buffer.memory": 1 << 20}) as producer:
            threads = [threading.Thread(target=work, args=(producer, name)) for name in range(THREADS)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        assert not raised
        stored: dict[bytes | None, list[int]] = {}
        for record in read_topic(broker.bootstrap_servers, "t"):
            assert record.value is not None
            stored.setdefault(record.key, []).append(int(record.value))
    assert told == [RECORDS] * THREADS
    assert stored == {b"thread-%d" % name: list(range(RECORDS + BATCH_ROWS + 1)) for name in range(THREADS)}
