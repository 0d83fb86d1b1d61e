"""Time that passes for the broker in none: what would be over then is, when `advance` returns."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from pyproducer import KafkaProducer
from pyproducer.broker import EmbeddedBroker
from pyproducer.common.error_codes import ErrorCode
from pyproducer.common.errors import ConfigError, IllegalStateError
from pyproducer.protocol.apis import ApiKeys
from pyproducer.record.batch_writer import build_batch
from tests.support.group_member import GroupMember
from tests.support.patience import GIVE_UP_S
from tests.support.raw_client import RawClient, fetch_body, fetched, metadata_body, produce_body, produced
from tests.support.raw_transactions import RawTransactions

StartBroker = Callable[..., EmbeddedBroker]
both_kinds = pytest.mark.parametrize("separate_process", [False, True], ids=["in process", "separate process"])
# One log each for the coordinators: this file starts a broker for each test.
FEW = {"offsets.topic.num.partitions": 1, "transaction.state.log.num.partitions": 1}


@pytest.fixture
def broker(start_broker: StartBroker) -> EmbeddedBroker:
    return start_broker(topics={"orders": 1}, config=FEW)


def connect(broker: EmbeddedBroker) -> RawClient:
    return RawClient(("127.0.0.1", broker.port))


def batch(sequence: int, *, producer_id: int = 7, timestamp_ms: int | None = None) -> bytes:
    at = int(time.time() * 1000) if timestamp_ms is None else timestamp_ms
    return bytes(build_batch([(at, b"k", b"v" * 100, ())], producer_id=producer_id, producer_epoch=0,
                             base_sequence=sequence))


def produce(client: RawClient, records: bytes) -> int:
    return int(produced(client.request(ApiKeys.PRODUCE, 9, produce_body("orders", 0, records)))["error_code"])


@both_kinds
def test_member_when_its_session_has_ended_then_it_is_evicted(
        start_broker: StartBroker, separate_process: bool) -> None:
    broker = start_broker(config=FEW, separate_process=separate_process)
    with connect(broker) as client:
        client.request(ApiKeys.FIND_COORDINATOR, 3, {"key": "g", "key_type": 0})
    with GroupMember(connect(broker), "g", session_timeout_ms=45_000) as member:
        assert member.join()["error_code"] == 0
        assert member.sync({member.member_id: b"all"})["error_code"] == 0
        broker.clock.advance(seconds=44)
        assert member.heartbeat() == 0
        broker.clock.advance(seconds=44)
        assert member.heartbeat() == 0, "its session began anew"
        broker.clock.advance(seconds=46)
        assert member.heartbeat() == ErrorCode.UNKNOWN_MEMBER_ID


def test_transaction_when_it_is_open_too_long_then_it_is_aborted_against_its_producer(broker: EmbeddedBroker) -> None:
    with connect(broker) as client:
        transactions = RawTransactions(client, "t")
        transactions.find_coordinator()
        transactions.init(timeout_ms=600_000)
        assert transactions.produce_once("orders", 0, 0)["error_code"] == 0
        broker.clock.advance(minutes=9)
        described = {"transactional_ids": ["t"]}

        def state() -> str:
            answer = client.request(ApiKeys.DESCRIBE_TRANSACTIONS, 0, described)
            return str(answer["transaction_states"][0]["transaction_state"])

        assert state() == "Ongoing"
        broker.clock.advance(minutes=2)
        assert state() == "CompleteAbort"
        assert broker.log_end_offsets("orders") == {0: 2}, "its marker is there, too"
        assert transactions.produce_once("orders", 0, 1)["error_code"] == ErrorCode.INVALID_PRODUCER_EPOCH


def test_producer_id_when_it_was_silent_for_long_then_it_is_forgotten(broker: EmbeddedBroker) -> None:
    with connect(broker) as client:
        assert produce(client, batch(0)) == 0
        broker.clock.advance(hours=23)
        assert produce(client, batch(5)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        broker.clock.advance(hours=1, minutes=10)
        assert produce(client, batch(5)) == 0, "any number is the first of a producer that nobody knows"


def test_segments_when_they_are_old_then_they_go(start_broker: StartBroker) -> None:
    broker = start_broker(config={**FEW, "log.segment.bytes": 300, "log.retention.ms": 3_600_000})
    broker.create_topic("orders")
    with connect(broker) as client:
        for sequence in range(4):
            assert produce(client, batch(sequence)) == 0
        broker.clock.advance(minutes=30)
        assert len(broker.records("orders")) == 4
        broker.clock.advance(minutes=31)
        assert broker.records("orders") == []
        assert fetched(client.request(ApiKeys.FETCH, 12, fetch_body(12, "orders", 0, 0)))["error_code"] == 1


def test_what_waits_when_its_time_has_passed_then_it_is_over(broker: EmbeddedBroker) -> None:
    delayed = broker.faults.on("Metadata").delay(3_600_000)
    broker.faults.on("ListGroups").throttle(3_600_000)
    with connect(broker) as fetching, connect(broker) as asking, connect(broker) as throttled:
        fetching.send_request(ApiKeys.FETCH, 12, fetch_body(12, "orders", 0, 0, max_wait_ms=2_000_000))
        asking.send_request(ApiKeys.METADATA, 1, metadata_body())
        delayed.await_count()
        assert throttled.request(ApiKeys.LIST_GROUPS, 4, {"states_filter": []})["throttle_time_ms"] == 3_600_000
        throttled.send_request(ApiKeys.METADATA, 1, metadata_body())
        assert all(client.is_silent(for_s=0.05) for client in (fetching, asking, throttled))
        deadline = time.monotonic() + GIVE_UP_S
        while "MUTED_AND_RESPONSE_PENDING" not in {found.mute_state for found in broker.connections()}:
            assert time.monotonic() < deadline
        broker.clock.advance(hours=1)
        assert fetched(fetching.receive_response(ApiKeys.FETCH, 12)[1])["error_code"] == 0
        asking.receive_response(ApiKeys.METADATA, 1)
        throttled.receive_response(ApiKeys.METADATA, 1)


def test_records_when_the_broker_stamps_them_then_by_its_clock_and_connections_stay(broker: EmbeddedBroker) -> None:
    broker.create_topic("stamped", configs={"message.timestamp.type": "LogAppendTime"})
    with KafkaProducer({"bootstrap.servers": broker.bootstrap_servers}) as producer:
        before = producer.send("stamped", b"1").result(GIVE_UP_S)
        connections = {found.connection_id for found in broker.connections()}
        broker.clock.advance(days=2)
        after = producer.send("stamped", b"2").result(GIVE_UP_S)
        assert connections <= {found.connection_id for found in broker.connections()}, "it was not idle for the client"
    assert after.timestamp - before.timestamp >= 2 * 86_400_000
    assert abs(broker.clock.timestamp_ms - after.timestamp) < 86_400_000
    broker.stop()
    with pytest.raises(IllegalStateError):
        broker.clock.advance(minutes=1)
    broker.start()
    assert broker.clock.timestamp_ms >= after.timestamp, "it does not go back when the broker starts again"


@pytest.mark.parametrize("given", [{"minutes": -1}, {"hours": "1"}, {"days": 2.0**60}, {"ms": float("nan")},
                                   {"seconds": True}], ids=str)
def test_clock_when_it_should_go_back_or_nowhere_then_it_is_refused(
        broker: EmbeddedBroker, given: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="goes forward"):
        broker.clock.advance(**given)
