"""How long a broker takes to answer; and, for who asks for that, one record that is really written.

Without --write nothing is changed on any broker: the leader of the first partition is asked for its versions five
times. With --write the user's own producer sends one record, with all that belongs to it: producer id, acks, codec.

Road:    examination -> [round trip] -> BlockingClient, KafkaProducer
Thread:  the main thread.
Source:  ours.
"""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING

from pyproducer.cli.doctor.reach import without_place
from pyproducer.common.errors import KafkaError
from pyproducer.producer.config.other_keys import STRING_SERIALIZER_KEYS
from pyproducer.producer.config.other_names import laid_over
from pyproducer.producer.kafka_producer import KafkaProducer
from pyproducer.protocol.apis import ApiKeys

if TYPE_CHECKING:
    from pyproducer.cli.doctor.report import Report
    from pyproducer.client.blocking_client import BlockingClient, Connection
    from pyproducer.common.clock import Clock
    from pyproducer.producer.config import ProducerConfig

ROUND_TRIP = "round trip"
_PINGS = 5
_KEY = b"pyproducer-doctor"
# What the application does with its records is not the doctor's; by its transactional.id its producer would be fenced.
_LEFT_OUT = ("key.serializer", "value.serializer", "interceptor.classes", "partitioner.class", "pyproducer.fork",
             "pyproducer.on.unretrieved", "transactional.id", *STRING_SERIALIZER_KEYS)


def ask_only(client: BlockingClient, leader: Connection, clock: Clock, report: Report) -> None:
    """Measure the answers of a broker."""
    waits_ms = []
    try:
        leader = client.renewed(leader)
        for _ in range(_PINGS):
            began_ms = clock.now_ms()
            client.ask(leader, ApiKeys.METADATA, lambda _version: {"topics": [], "allow_auto_topic_creation": False})
            waits_ms.append(clock.now_ms() - began_ms)
    except KafkaError as error:
        report.fail(ROUND_TRIP, f"{leader.where}: {without_place(leader.where, error)}")
        return
    report.ok(ROUND_TRIP, f"{leader.where}: answers in {median(waits_ms):g} ms (median of {_PINGS}); nothing was "
                          "written, --write sends one record")


def write_one(config: ProducerConfig, topic: str, timeout_ms: int, clock: Clock, report: Report) -> None:
    """Send one record with the user's settings."""
    props = {key: value for key, value in config.originals.items() if key not in _LEFT_OUT}
    props = laid_over(props, {"linger.ms": 0, "max.block.ms": timeout_ms, "request.timeout.ms": timeout_ms,
                              "delivery.timeout.ms": timeout_ms})
    began_ms = clock.now_ms()
    try:
        with KafkaProducer(props) as producer:
            stored = producer.send(topic, b"a record of python -m pyproducer doctor --write", key=_KEY).result()
    except KafkaError as error:
        report.fail(ROUND_TRIP, f"{topic}: {error}")
        return
    if stored.offset < 0:  # acks=0: no broker answers
        report.warn(ROUND_TRIP, f"{stored.topic}-{stored.partition}: one record was sent; with acks=0 no broker says "
                                "whether it is stored", "set acks=all to know")
        return
    outside = "" if config.transactional_id is None else ", in no transaction"
    report.ok(ROUND_TRIP, f"{topic}-{stored.partition}: one record was written at offset {stored.offset} in "
                          f"{clock.now_ms() - began_ms} ms with all handshakes{outside}")
