"""send_batch(): what send() does, row by row, with one future."""

from __future__ import annotations

import pytest

from pyproducer import ErrorCode, KafkaTimeoutError, RecordRejectedError, RecordTooLargeError
from tests.contract.clusters import Cluster
from tests.contract.conftest import Connect
from tests.contract.witness import await_known, await_memory_back, numbers_of
from tests.support.fault_proxy import FaultProxy
from tests.support.patience import GIVE_UP_S


def test_rows_when_they_are_stored_then_each_has_its_place_in_the_log(
        cluster: Cluster, topic: str, connect: Connect) -> None:
    producer = connect()
    count = 100
    told = producer.send_batch(topic, [b"%d" % number for number in range(count)],
                               keys=[b"k%d" % (number % 3) for number in range(count)],
                               partitions=[number % 2 for number in range(count)]).result(GIVE_UP_S)
    assert not told.errors
    places = {(record.partition, record.offset): record for record in cluster.log(topic)}
    for row in range(count):
        record = places[told.partitions[row], told.offsets[row]]
        assert (record.value, record.key, record.partition) == (b"%d" % row, b"k%d" % (row % 3), row % 2)
    await_memory_back(producer)


def test_rows_when_a_batch_is_refused_then_each_row_has_its_error(
        cluster: Cluster, topic: str, connect: Connect, proxy: FaultProxy) -> None:
    producer = connect(through=proxy, linger_ms=20_000)
    await_known(producer, topic)
    proxy.on("Produce").error(ErrorCode.INVALID_RECORD)
    future = producer.send_batch(topic, [b"0", b"1", b"2"], partitions=[0, 0, 0])
    producer.flush(GIVE_UP_S)
    errors = future.result(GIVE_UP_S).errors
    assert sorted(errors) == [0, 1, 2]
    assert {type(error) for error in errors.values()} == {RecordRejectedError}
    assert {error.outcome for error in errors.values()} == {"rejected"}
    assert not cluster.log(topic)
    await_memory_back(producer)


def test_rows_when_one_is_too_large_then_none_is_accepted(cluster: Cluster, topic: str, connect: Connect) -> None:
    producer = connect(max_request_size=10_000)
    with pytest.raises(RecordTooLargeError):
        producer.send_batch(topic, [b"0", b"x" * 20_000, b"2"])
    producer.flush(GIVE_UP_S)
    assert not cluster.log(topic)


def test_rows_when_the_wait_is_too_short_then_it_says_so_and_they_are_stored_later(
        cluster: Cluster, topic: str, connect: Connect, proxy: FaultProxy) -> None:
    producer = connect(through=proxy)
    held = proxy.on("Produce", times=None).hold_request()
    future = producer.send_batch(topic, [b"0", b"1"], partitions=[0, 0])
    with pytest.raises(KafkaTimeoutError):
        future.result(0.05)
    assert not future.done()
    held.release()
    assert list(future.result(GIVE_UP_S).offsets) == [0, 1]
    assert numbers_of(cluster.log(topic)) == [0, 1]
