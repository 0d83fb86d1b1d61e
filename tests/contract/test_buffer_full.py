"""A full buffer: who waits, for how long, in which order, and that nothing accepted is lost."""

from __future__ import annotations

import threading
import time

import pytest

from pyproducer import BufferExhaustedError, KafkaProducer, RecordTooLargeError
from tests.contract.clusters import Cluster
from tests.contract.conftest import Connect
from tests.contract.witness import Witness, await_known, await_memory_back, free_bytes, numbers_of, wait_until
from tests.support.fault_proxy import FaultProxy
from tests.support.patience import GIVE_UP_S

MEMORY = 100_000
RECORD = 15_000
SMALL_BUFFER = {"buffer_memory": MEMORY, "batch_size": 0}


def fill(producer: KafkaProducer, witness: Witness, *, leave: int = 0) -> int:
    """Send until there is no room for one more record, or to leave so much free; return how many were sent."""
    count = 0
    while free_bytes(producer) >= RECORD + 2_000 + leave:
        witness.send(count, padding=RECORD)
        count += 1
    return count


def await_waiting(producer: KafkaProducer, count: int) -> None:
    wait_until(lambda: producer.metrics()["waiting-threads"] == count, f"{count} calls of send() wait for memory")


def test_buffer_when_it_is_full_then_send_gives_up_after_max_block_ms_and_nothing_accepted_is_lost(
        cluster: Cluster, topic: str, connect: Connect, proxy: FaultProxy) -> None:
    producer = connect(through=proxy, max_block_ms=300, **SMALL_BUFFER)
    await_known(producer, topic)
    held = proxy.on("Produce", times=None).hold_request()
    witness = Witness(producer, topic)
    count = fill(producer, witness)
    assert count >= 4
    before = time.monotonic()
    witness.send(count, padding=RECORD)
    assert time.monotonic() - before >= 0.298
    error = witness.error_of(count)
    assert isinstance(error, BufferExhaustedError)
    assert error.phase == "buffer"
    assert error.outcome == "not_sent"
    assert "buffer.memory" in str(error)
    held.release()
    producer.flush(GIVE_UP_S)
    witness.check_log(cluster)
    assert numbers_of(cluster.log(topic)) == list(range(count))
    await_memory_back(producer)


def test_buffer_when_memory_comes_back_in_time_then_the_waiting_record_is_stored(
        cluster: Cluster, topic: str, connect: Connect, proxy: FaultProxy) -> None:
    producer = connect(through=proxy, **SMALL_BUFFER)
    held = proxy.on("Produce", times=None).hold_request()
    witness = Witness(producer, topic)
    count = fill(producer, witness)
    thread = threading.Thread(target=lambda: witness.send(count, padding=RECORD))
    thread.start()
    await_waiting(producer, 1)
    held.release()
    thread.join(GIVE_UP_S)
    witness.await_all()
    witness.check_log(cluster)
    assert sorted(witness.metadata) == list(range(count + 1))
    await_waiting(producer, 0)
    await_memory_back(producer)


def test_buffer_when_several_wait_then_the_one_who_came_first_is_served_first(
        cluster: Cluster, topic: str, connect: Connect, proxy: FaultProxy) -> None:
    """Without turns a stream of small records takes every byte that comes back, and a large one waits for ever."""
    producer = connect(through=proxy, max_in_flight_requests_per_connection=1, **SMALL_BUFFER)
    producer.partitions_for(topic)
    held = [proxy.on("Produce").hold_request() for _ in range(20)]
    witness = Witness(producer, topic)
    count = fill(producer, witness)
    free = free_bytes(producer)
    each = (MEMORY - free) / count
    served: list[str] = []
    big_is_served = threading.Event()

    def send(name: str, number: int, size: int) -> None:
        witness.send(number, padding=size)
        served.append(name)
        if name == "big":
            big_is_served.set()

    big = threading.Thread(target=send, args=("big", count, 4 * RECORD))
    big.start()
    await_waiting(producer, 1)
    small = threading.Thread(target=send, args=("small", count + 1, RECORD + 3_000))
    small.start()
    await_waiting(producer, 2)
    # One record after the other gives its memory back: soon enough for the small one, at last enough for the big one,
    # and then not for both.
    for number, hold in enumerate(held, 1):
        hold.await_count()
        hold.release()
        wait_until(lambda number=number: served or free_bytes(producer) >= free + number * each, "memory comes back")
        if served or free_bytes(producer) >= 4 * RECORD + 1_000:
            break
    assert big_is_served.wait(GIVE_UP_S)
    assert served[0] == "big"
    for hold in held:
        hold.release()
    for thread in (big, small):
        thread.join(GIVE_UP_S)
    assert sorted(served) == ["big", "small"]
    witness.await_all()
    witness.check_log(cluster)
    assert sorted(witness.metadata) == list(range(count + 2))


def test_buffer_when_somebody_waits_then_a_record_that_would_fit_waits_behind(
        cluster: Cluster, topic: str, connect: Connect, proxy: FaultProxy) -> None:
    producer = connect(through=proxy, **SMALL_BUFFER)
    producer.partitions_for(topic)
    held = proxy.on("Produce", times=None).hold_request()
    witness = Witness(producer, topic)
    count = fill(producer, witness, leave=2 * RECORD)
    assert free_bytes(producer) >= 2 * RECORD
    served: list[str] = []

    def send(name: str, number: int, size: int) -> None:
        witness.send(number, padding=size)
        served.append(name)

    big = threading.Thread(target=send, args=("big", count, 4 * RECORD))
    big.start()
    await_waiting(producer, 1)
    tiny = threading.Thread(target=send, args=("tiny", count + 1, 10))
    tiny.start()
    wait_until(lambda: served or producer.metrics()["waiting-threads"] == 2, "the tiny record waits, or does not")
    before_memory_came_back = list(served)
    held.release()
    for thread in (big, tiny):
        thread.join(GIVE_UP_S)
    assert not before_memory_came_back
    witness.check_log(cluster)
    assert sorted(witness.metadata) == list(range(count + 2))


def test_record_when_larger_than_buffer_memory_then_it_is_refused_without_waiting(
        cluster: Cluster, topic: str, connect: Connect) -> None:
    producer = connect(buffer_memory=MEMORY, max_request_size=1_000_000, max_block_ms=3_600_000)
    called: list[object] = []
    with pytest.raises(RecordTooLargeError, match=r"buffer\.memory") as caught:
        producer.send(topic, b"x" * (MEMORY + 1), on_completion=lambda *told: called.append(told))
    assert caught.value.outcome == "not_sent"
    assert free_bytes(producer) == MEMORY
    assert producer.send(topic, b"v").result(GIVE_UP_S).offset == 0
    assert not called
    assert len(cluster.log(topic)) == 1


def test_record_when_larger_than_max_request_size_then_it_is_refused_before_it_is_sent(
        cluster: Cluster, topic: str, connect: Connect) -> None:
    producer = connect(max_request_size=50_000)
    with pytest.raises(RecordTooLargeError, match=r"max\.request\.size") as caught:
        producer.send(topic, b"x" * 50_001)
    assert caught.value.outcome == "not_sent"
    assert producer.send(topic, b"x" * 40_000).result(GIVE_UP_S).offset == 0
    await_memory_back(producer)


@pytest.mark.parametrize("buffer_memory", [20_000, 60_000])
def test_buffer_when_much_more_is_sent_than_it_holds_then_everything_is_stored_in_order(
        cluster: Cluster, topic: str, connect: Connect, buffer_memory: int) -> None:
    producer = connect(buffer_memory=buffer_memory, batch_size=4_000, linger_ms=50)
    witness = Witness(producer, topic)
    witness.send(range(500), padding=900)
    producer.flush(GIVE_UP_S)
    assert numbers_of(cluster.log(topic)) == list(range(500))
    witness.check_log(cluster)
    await_memory_back(producer)
