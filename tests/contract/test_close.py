"""close(): everything is delivered, or, within a timeout, everything is decided."""

from __future__ import annotations

import threading

import pytest

from pyproducer import ErrorCode, IllegalStateError, KafkaError, KafkaProducer, ProducerClosedError, ProducerRecord
from tests.contract.clusters import PARTITIONS, Can, Cluster
from tests.contract.conftest import Connect
from tests.contract.witness import Witness, await_known, await_memory_back, free_bytes, wait_until
from tests.support.fault_proxy import FaultProxy
from tests.support.patience import GIVE_UP_S


def test_close_when_records_linger_then_it_delivers_them(cluster: Cluster, topic: str, connect: Connect) -> None:
    producer = connect(linger_ms=20_000)
    await_known(producer, topic)
    witness = Witness(producer, topic)
    for number in range(200):
        witness.send(number, partition=number % PARTITIONS)
    producer.close()
    assert sorted(witness.metadata) == list(range(200))
    witness.check_log(cluster)
    await_memory_back(producer)


def test_close_when_answers_are_missing_then_it_waits_for_them(
        cluster: Cluster, topic: str, connect: Connect, proxy: FaultProxy) -> None:
    producer = connect(through=proxy)
    held = proxy.on("Produce").hold_answer()
    witness = Witness(producer, topic)
    witness.send(0)
    held.await_count()
    closing = threading.Thread(target=producer.close)
    closing.start()
    wait_until(lambda: is_closed(producer, topic), "close() has begun")
    assert closing.is_alive()
    assert not witness.told
    held.release()
    closing.join(GIVE_UP_S)
    assert sorted(witness.metadata) == [0]


def test_close_when_a_record_has_to_be_retried_then_it_is(
        cluster: Cluster, topic: str, connect: Connect, proxy: FaultProxy) -> None:
    producer = connect(through=proxy, linger_ms=20_000)
    await_known(producer, topic)
    faults = proxy.on("Produce", times=3).error(ErrorCode.NOT_ENOUGH_REPLICAS)
    witness = Witness(producer, topic)
    witness.send(range(10))
    producer.close()
    assert faults.count == 3
    assert sorted(witness.metadata) == list(range(10))
    witness.check_log(cluster)


@pytest.mark.parametrize("how", ["with", "close()", "close(None)"])
def test_end_when_it_has_a_bound_of_its_own_then_it_keeps_it_and_the_log_says_how_many_records_are_lost(
        topic: str, connect: Connect, proxy: FaultProxy, how: str, caplog: pytest.LogCaptureFixture) -> None:
    """`with` waited for delivery.timeout.ms, 120 s, at the end of a service, which is killed after 30 s."""
    producer = connect(through=proxy, **{"pyproducer.close.timeout.ms": 300})
    producer.send(topic, b"v", partition=0).result(GIVE_UP_S)
    proxy.on("Produce", times=None).swallow_request()
    futures = [producer.send(topic, b"v", partition=0) for _ in range(3)]
    if how == "with":
        with producer:
            pass
    elif how == "close()":
        producer.close()
    else:
        producer.close(timeout=None)
    assert [type(future.exception(0)) for future in futures] == [ProducerClosedError] * 3
    assert "is closed: 3 record(s) were not delivered (3 unknown), 1 were; by topic: " + topic + " 3" in caplog.text


def test_close_when_all_is_delivered_then_the_log_says_nothing(
        topic: str, connect: Connect, caplog: pytest.LogCaptureFixture) -> None:
    with connect() as producer:
        producer.send(topic, b"v", partition=0).result(GIVE_UP_S)
    assert "is closed" not in caplog.text


@pytest.mark.parametrize("is_stored", [False, True], ids=["requests vanish", "answers vanish"])
@pytest.mark.parametrize("timeout", [0, 0.2])
def test_close_when_its_timeout_passes_then_every_record_is_decided(
        cluster: Cluster, topic: str, connect: Connect, proxy: FaultProxy, timeout: float, is_stored: bool) -> None:
    producer = connect(through=proxy, max_in_flight_requests_per_connection=1)
    fault = proxy.on("Produce", times=None)
    (fault.swallow_answer if is_stored else fault.swallow_request)()
    witness = Witness(producer, topic)
    witness.send(0)
    fault.await_count()
    witness.send(range(1, 5))  # wait behind it
    producer.close(timeout)
    assert all(future.done() for future in witness.futures.values())
    witness.await_all()
    assert sorted(witness.errors) == list(range(5))
    assert all(isinstance(error, KafkaError) for error in witness.errors.values())
    if is_stored:
        assert witness.error_of(0).outcome == "unknown"
        cluster.await_log(topic, 1)
    witness.check_log(cluster)


def test_close_when_it_gave_records_up_then_it_says_why_and_memory_is_back(
        topic: str, connect: Connect, proxy: FaultProxy) -> None:
    producer = connect(through=proxy)
    proxy.on("Produce", times=None).swallow_request()
    future = producer.send(topic, b"v")
    producer.close(0)
    assert isinstance(future.exception(0), ProducerClosedError)
    await_memory_back(producer)


def test_close_when_done_then_nothing_more_is_accepted(cluster: Cluster, topic: str, connect: Connect) -> None:
    producer = connect()
    producer.send(topic, b"v").result(GIVE_UP_S)
    producer.close()
    called: list[object] = []
    for call in (lambda: producer.send(topic, b"v", on_completion=lambda *told: called.append(told)),
                 lambda: producer.send(ProducerRecord(topic, b"v")),
                 lambda: producer.send_batch(topic, [b"v"]),
                 lambda: producer.partitions_for(topic), producer.check):
        with pytest.raises(ProducerClosedError, match="closed") as caught:
            call()
        assert isinstance(caught.value, IllegalStateError)
        assert caught.value.outcome == "not_sent"
    assert not called
    assert len(cluster.log(topic)) == 1


def test_flush_when_another_thread_asks_after_close_then_it_returns(topic: str, connect: Connect) -> None:
    """Threads that begin get the ident of one that ended: that of the producer's own thread was taken for a callback's,
    and refused to wait for itself. In an event loop flush() and close() have a new thread for each call.
    """
    producer = connect()
    producer.send(topic, b"v").result(GIVE_UP_S)
    producer.close()
    refused: list[Exception] = []

    def ask() -> None:
        try:
            producer.flush()
        except Exception as error:
            refused.append(error)

    for _ in range(20):
        thread = threading.Thread(target=ask)
        thread.start()
        thread.join(GIVE_UP_S)
    assert refused == []


def test_close_when_called_again_then_it_is_no_error(topic: str, connect: Connect) -> None:
    producer = connect()
    future = producer.send(topic, b"v")
    producer.close()
    producer.close()
    producer.close(0)
    assert future.result(0).offset == 0


@pytest.mark.parametrize("raises", [False, True])
def test_with_block_when_it_ends_then_everything_is_delivered(
        cluster: Cluster, topic: str, connect: Connect, raises: bool) -> None:
    futures = []
    try:
        with connect(linger_ms=20_000) as producer:
            futures.append(producer.send(topic, b"v"))
            if raises:
                raise ZeroDivisionError("in the block")
    except ZeroDivisionError:
        assert raises
    assert futures[0].result(0).offset == 0
    assert len(cluster.log(topic)) == 1


@pytest.mark.needs(Can.REFUSE_UNKNOWN_TOPICS)
def test_close_when_a_record_waits_for_metadata_then_it_ends_with_an_error(
        topic: str, topic_name: str, connect: Connect, proxy: FaultProxy) -> None:
    producer = connect(through=proxy)
    producer.send(topic, b"v").result(GIVE_UP_S)
    asked = len(proxy.requests("Metadata"))
    future = producer.send(f"{topic_name}-x", b"v")
    wait_until(lambda: len(proxy.requests("Metadata")) > asked, "the unknown topic is asked for")
    producer.close(0)
    error = future.exception(0)
    assert isinstance(error, ProducerClosedError)
    assert error.outcome == "not_sent"


def test_close_when_a_send_waits_for_memory_then_it_ends_with_an_error(
        cluster: Cluster, topic: str, connect: Connect, proxy: FaultProxy) -> None:
    producer = connect(through=proxy, buffer_memory=100_000, batch_size=0)
    proxy.on("Produce", times=None).hold_request()
    witness = Witness(producer, topic)
    while free_bytes(producer) > 40_000:
        witness.send(len(witness.futures), padding=30_000)
    ended: list[BaseException | None] = []
    thread = threading.Thread(target=lambda: ended.append(_error_of(lambda: producer.send(topic, b"x" * 50_000))))
    thread.start()
    wait_until(lambda: producer.metrics()["waiting-threads"] == 1, "a send waits for memory")
    producer.close(0)
    thread.join(GIVE_UP_S)
    (error,) = ended
    assert isinstance(error, ProducerClosedError)
    assert error.outcome == "not_sent"
    await_memory_back(producer)


def is_closed(producer: KafkaProducer, topic: str) -> bool:
    try:
        producer.partitions_for(topic)
    except ProducerClosedError:
        return True
    return False


def _error_of(send) -> BaseException | None:
    """What send() raises, or what it says through its future."""
    try:
        return send().exception(GIVE_UP_S)
    except Exception as error:
        return error
