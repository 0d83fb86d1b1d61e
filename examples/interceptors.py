"""An interceptor: it adds a header to each record, counts outcomes, and reads a setting of its own.

Run:     python -m examples.interceptors
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from pyproducer import KafkaProducer, ProducerInterceptor, ProducerRecord, RecordMetadata
from pyproducer.broker import EmbeddedBroker
from pyproducer.testing import read_topic


class Stamped(ProducerInterceptor):
    """Says in a header which service sent a record, and counts what became of records."""

    def __init__(self) -> None:
        self.service = b""
        self.outcomes: Counter[str] = Counter()

    def configure(self, props: Mapping[str, object]) -> None:
        """Take the name of the service: a setting of our own, which no other class here knows."""
        self.service = str(props["stamped.service"]).encode()

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        """Return another record, for a record cannot be changed. Runs in the thread of send()."""
        return ProducerRecord(record.topic, record.value, key=record.key, partition=record.partition,
                              timestamp=record.timestamp, headers=[*record.headers, ("service", self.service)])

    def on_acknowledgement(self, metadata: RecordMetadata | None, exception: BaseException | None) -> None:
        """Count, on the producer's own thread: keep it quick."""
        self.outcomes["stored" if exception is None else "failed"] += 1

    def close(self) -> None:
        """Say the sum: the producer is closing."""
        print(f"interceptor: {dict(self.outcomes)}")


def main() -> None:
    """Send two records through it, and read them back."""
    with EmbeddedBroker(topics={"orders": 1}) as broker:
        with KafkaProducer({"bootstrap.servers": broker.bootstrap_servers, "interceptor.classes": [Stamped],
                            "stamped.service": "shop"}) as producer:
            producer.send("orders", b"paid", key=b"42")
            producer.send("orders", b"shipped", key=b"42", headers=[("trace", b"1")])
        for record in read_topic(broker.bootstrap_servers, "orders"):
            print(record.value, [(header.key, header.value) for header in record.headers])


if __name__ == "__main__":
    main()
