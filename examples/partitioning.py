"""Which partition a record goes to, and how to choose it yourself.

Run:     python -m examples.partitioning
"""

from __future__ import annotations

from collections import Counter

from pyproducer import Cluster, KafkaProducer
from pyproducer.broker import EmbeddedBroker


def by_last_byte(topic: str, key: object, key_bytes: bytes | None, value: object, value_bytes: bytes | None,
                  cluster: Cluster) -> int:
    """Partition by the last byte of the key: any callable of this form is a partitioner."""
    count = len(cluster.partitions_for_topic(topic))
    return key_bytes[-1] % count if key_bytes else 0


def partitions_used(bootstrap_servers: str, partitioner: object | None, keys: list[bytes | None]) -> Counter[int]:
    """Send one record per key and count the partitions they went to."""
    props: dict[str, object] = {"bootstrap.servers": bootstrap_servers}
    if partitioner is not None:
        props["partitioner.class"] = partitioner
    with KafkaProducer(props) as producer:
        futures = [producer.send("orders", b"value", key=key) for key in keys]
        return Counter(future.result(timeout=10).partition for future in futures)


def main() -> None:
    """Show the default, the explicit partition, other named partitioners and one of your own."""
    keys: list[bytes | None] = [b"customer-%d" % number for number in range(300)]
    nulls: list[bytes | None] = [None] * 300
    with EmbeddedBroker(topics={"orders": 3}) as broker:
        servers = broker.bootstrap_servers
        print("keys, default (murmur2, as in Java):   ", sorted(partitions_used(servers, None, keys).items()))
        print("no keys, default (round-robin):        ", sorted(partitions_used(servers, None, nulls).items()))
        print("no keys, UniformStickyPartitioner:     ",
              sorted(partitions_used(servers, "UniformStickyPartitioner", nulls).items()))
        print("keys, librdkafka's Crc32Partitioner:   ",
              sorted(partitions_used(servers, "Crc32Partitioner", keys).items()))
        print("keys, a function (last byte of key):   ", sorted(partitions_used(servers, by_last_byte, keys).items()))
        with KafkaProducer({"bootstrap.servers": servers}) as producer:
            metadata = producer.send("orders", b"value", key=b"customer-1", partition=2).result(timeout=10)
            print(f"an explicit partition wins over the key: {metadata.partition}")


if __name__ == "__main__":
    main()
