"""Send three records and print where each was stored.

Run:     python -m examples.quickstart
"""

from __future__ import annotations

from pyproducer import KafkaProducer, ProducerRecord
from pyproducer.broker import EmbeddedBroker
from pyproducer.testing import read_topic


def main() -> None:
    """Start a broker, send, read back."""
    with EmbeddedBroker(topics={"orders": 3}) as broker:
        with KafkaProducer({"bootstrap.servers": broker.bootstrap_servers}) as producer:
            futures = [
                producer.send(ProducerRecord("orders", b"paid", key=b"42")),
                producer.send("orders", b"shipped", key=b"42"),
                producer.send("orders", b"paid", key=b"43", headers=[("trace", b"1")]),
            ]
            for future in futures:
                metadata = future.result(timeout=10)
                print(f"stored in {metadata.topic}-{metadata.partition} at offset {metadata.offset}")

        for record in read_topic(broker.bootstrap_servers, "orders"):
            print(f"read {record.key!r} -> {record.value!r} {record.headers}")


if __name__ == "__main__":
    main()
