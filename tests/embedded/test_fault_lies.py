"""Faults that lie: acknowledged and not stored, stored twice, stored in another order; whether a checker notices."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pyproducer import KafkaProducer
from pyproducer.broker import EmbeddedBroker, Fault
from pyproducer.common.errors import ConfigError
from pyproducer.protocol.apis import ApiKeys
from pyproducer.record.batch_writer import build_batch
from tests.support.log_checker import LogProblem, check_log, check_order
from tests.support.patience import GIVE_UP_S
from tests.support.raw_client import RawClient, fetch_body, fetched, produce_body, produced

StartBroker = Callable[..., EmbeddedBroker]
NOW = 1_700_000_000_000
LIES: dict[str, Callable[[Fault], Fault]] = {
    "acknowledge_without_append": Fault.acknowledge_without_append, "append_twice": Fault.append_twice,
    "swap": Fault.swap}
both_kinds = pytest.mark.parametrize("separate_process", [False, True], ids=["in process", "separate process"])


def produce(client: RawClient, *values: bytes, partition: int = 0, **fields: int) -> int:
    batch = bytes(build_batch([(NOW, None, value, ()) for value in values], **fields))
    answer = produced(client.request(ApiKeys.PRODUCE, 9, produce_body("orders", partition, batch)))
    assert answer["error_code"] == 0
    return int(answer["base_offset"])


def stored(broker: EmbeddedBroker, partition: int = 0) -> list[bytes | None]:
    return [record.value for record in broker.records("orders") if record.partition == partition]


def check(numbers: list[int]) -> None:
    check_log(range(200), numbers)
    check_order((0, number) for number in numbers)


@pytest.fixture
def broker(start_broker: StartBroker) -> EmbeddedBroker:
    return start_broker(topics={"orders": 2})


@both_kinds
def test_acknowledge_without_append_when_asked_for_then_the_record_is_told_an_offset_and_is_nowhere(
        start_broker: StartBroker, separate_process: bool) -> None:
    broker = start_broker(topics={"orders": 2}, separate_process=separate_process)
    fault = broker.faults.on("Produce", topic="orders").acknowledge_without_append()
    with RawClient(("127.0.0.1", broker.port)) as client:
        assert [produce(client, b"a"), produce(client, b"b")] == [0, 0]
    assert fault.count == 1
    assert stored(broker) == [b"b"]


def test_append_twice_when_asked_for_then_the_record_is_there_twice(broker: EmbeddedBroker) -> None:
    broker.faults.on("Produce").append_twice()
    with RawClient(("127.0.0.1", broker.port)) as client:
        assert [produce(client, b"a", b"b"), produce(client, b"c")] == [0, 4]
    assert stored(broker) == [b"a", b"b", b"a", b"b", b"c"]


def test_swap_when_asked_for_then_the_next_batch_comes_first_and_the_offsets_tell_the_other_order(
        broker: EmbeddedBroker) -> None:
    broker.faults.on("Produce", partition=0).swap()
    with RawClient(("127.0.0.1", broker.port)) as client:
        assert produce(client, b"a", b"b") == 0
        assert produce(client, b"x", partition=1) == 0, "another partition is not meant"
        assert stored(broker) == []
        assert produce(client, b"c") == 2
        assert produce(client, b"d") == 3
    assert stored(broker) == [b"c", b"a", b"b", b"d"]
    assert stored(broker, 1) == [b"x"]


@pytest.mark.parametrize("lie", LIES)
def test_lie_when_the_producer_is_idempotent_then_its_next_batch_fits_and_a_repetition_is_found(
        broker: EmbeddedBroker, lie: str) -> None:
    LIES[lie](broker.faults.on("Produce"))
    with RawClient(("127.0.0.1", broker.port)) as client:
        first = produce(client, b"a", producer_id=7, producer_epoch=0, base_sequence=0)
        assert produce(client, b"a", producer_id=7, producer_epoch=0, base_sequence=0) == first
        produce(client, b"b", producer_id=7, producer_epoch=0, base_sequence=1)
        produce(client, b"c", producer_id=7, producer_epoch=0, base_sequence=2)
    assert stored(broker) == {"acknowledge_without_append": [b"b", b"c"], "append_twice": [b"a", b"a", b"b", b"c"],
                              "swap": [b"b", b"a", b"c"]}[lie]


def test_swapped_batch_when_a_consumer_waits_then_it_is_told_of_both(broker: EmbeddedBroker) -> None:
    broker.faults.on("Produce").swap()
    with RawClient(("127.0.0.1", broker.port)) as client, RawClient(("127.0.0.1", broker.port)) as reader:
        produce(client, b"a")
        reader.send_request(ApiKeys.FETCH, 12, fetch_body(12, "orders", 0, 0, max_wait_ms=3_600_000))
        produce(client, b"b")
        _, answer = reader.receive_response(ApiKeys.FETCH, 12)
    assert fetched(answer)["high_watermark"] == 2


@pytest.mark.parametrize("lie", LIES)
def test_checker_of_deliveries_when_the_broker_lies_then_it_notices(broker: EmbeddedBroker, lie: str) -> None:
    """What this is for: a checker that says "all is well" here says nothing anywhere."""
    LIES[lie](broker.faults.on("Produce", times=3, probability=0.3))
    with KafkaProducer({"bootstrap.servers": broker.bootstrap_servers, "batch.size": 100, "linger.ms": 0}) as producer:
        for number in range(200):
            producer.send("orders", b"%d" % number, partition=0).result(GIVE_UP_S)
    numbers = [int(value or b"") for value in stored(broker)]
    with pytest.raises(LogProblem):
        check(numbers)


@pytest.mark.parametrize("lie", LIES)
def test_lie_when_it_is_not_about_produce_then_it_is_refused(broker: EmbeddedBroker, lie: str) -> None:
    for api in ("Fetch", None):
        with pytest.raises(ConfigError, match="only Produce"):
            LIES[lie](broker.faults.on(api))
