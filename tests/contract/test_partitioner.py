"""Which partition: the caller's, the partitioner's, Java's default; and a partitioner that is wrong is told so."""

from __future__ import annotations

import traceback

import pytest

from pyproducer import KafkaTimeoutError, PartitionerError, ProducerInterceptor
from tests.contract.clusters import PARTITIONS, Cluster
from tests.contract.conftest import Connect
from tests.contract.witness import Witness, await_known, free_bytes
from tests.support.patience import GIVE_UP_S


class Fixed:
    """Gives the number that a test puts into it, and keeps what it was asked."""

    def __init__(self, partition: object) -> None:
        self.partition_to_give = partition
        self.asked: list[tuple[object, ...]] = []

    def partition(self, topic: str, key: object, key_bytes: bytes | None, value: object, value_bytes: bytes | None,
                  cluster: object) -> object:
        self.asked.append((topic, key, key_bytes, value, value_bytes))
        return self.partition_to_give


@pytest.mark.parametrize("wrong", [PARTITIONS, PARTITIONS + 1, -1, -PARTITIONS, 2**31, 2**70])
def test_partitioner_when_it_names_no_partition_of_the_topic_then_send_refuses_and_nothing_is_accepted(
        cluster: Cluster, topic: str, connect: Connect, wrong: int) -> None:
    """A partitioner that gives the count is off by one: its record went to a partition that nobody drains."""
    partitioner = Fixed(wrong)
    producer = connect(partitioner_class=partitioner)
    await_known(producer, topic)
    free = free_bytes(producer)
    called: list[object] = []
    with pytest.raises(PartitionerError, match=str(wrong)) as caught:
        producer.send(topic, b"v", on_completion=lambda *told: called.append(told))
    assert "Fixed" in str(caught.value)
    assert topic in str(caught.value)
    assert free_bytes(producer) == free
    assert not called
    producer.flush(GIVE_UP_S)
    partitioner.partition_to_give = PARTITIONS - 1
    assert producer.send(topic, b"v").result(GIVE_UP_S).partition == PARTITIONS - 1
    assert [record.partition for record in cluster.log(topic)] == [PARTITIONS - 1]


def test_partitioner_when_it_raises_then_send_does_and_nothing_is_accepted(
        cluster: Cluster, topic: str, connect: Connect) -> None:
    def choose(*asked: object) -> int:
        raise ZeroDivisionError("in the partitioner")

    producer = connect(partitioner_class=choose)
    await_known(producer, topic)
    free = free_bytes(producer)
    with pytest.raises(PartitionerError, match=f"choose.* failed for a record for topic '{topic}': ZeroDivisionError: "
                                               "in the partitioner") as caught:
        producer.send(topic, b"v")
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
    assert caught.value.outcome == "not_sent"
    assert free_bytes(producer) == free
    assert producer.send(topic, b"v", partition=1).result(GIVE_UP_S).partition == 1


def test_partitioner_when_it_raises_for_a_record_that_waited_then_future_and_log_name_it_with_its_traceback(
        topic: str, connect: Connect, caplog: pytest.LogCaptureFixture) -> None:
    """"ZeroDivisionError: division by zero" was all that future and log said."""
    def choose(*asked: object) -> int:
        return 1 // 0

    producer = connect(partitioner_class=choose)
    error = producer.send(topic, b"v").exception(GIVE_UP_S)
    assert isinstance(error, PartitionerError)
    assert "choose" in str(error)
    assert error.outcome == "not_sent"
    assert isinstance(error.__cause__, ZeroDivisionError)
    assert "return 1 // 0" in "".join(traceback.format_exception(error.__cause__))
    assert caplog.text.count("return 1 // 0") == 1


def test_partitioner_when_asked_then_it_sees_the_record_before_and_after_serialization(
        topic: str, connect: Connect) -> None:
    partitioner = Fixed(2)
    producer = connect(partitioner_class=partitioner, key_serializer="string", value_serializer="string")
    assert producer.send(topic, "value", key="key").result(GIVE_UP_S).partition == 2
    assert partitioner.asked == [(topic, "key", b"key", "value", b"value")]


def test_partitioner_when_the_caller_names_a_partition_then_it_is_not_asked(topic: str, connect: Connect) -> None:
    partitioner = Fixed(2)
    assert connect(partitioner_class=partitioner).send(topic, b"v", partition=1).result(GIVE_UP_S).partition == 1
    assert not partitioner.asked


def test_default_partitioner_when_records_have_keys_then_they_go_where_java_puts_them(
        topic: str, connect: Connect) -> None:
    """Known values of murmur2, from Kafka's UtilsTest, as `(hash & 0x7fffffff) % 4`."""
    java = {b"21": -973932308, b"foobar": -790332482, b"a-little-bit-long-string": -985981536,
            b"a-little-bit-longer-string": -1486304829, b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
            b"abc": 479470107}
    producer = connect()
    for key, murmur2 in java.items():
        metadata = producer.send(topic, b"v", key=key).result(GIVE_UP_S)
        assert metadata.partition == (murmur2 & 0x7FFFFFFF) % PARTITIONS, key


def test_default_partitioner_when_records_have_no_key_then_all_partitions_are_used(
        topic: str, connect: Connect) -> None:
    producer = connect()
    futures = [producer.send(topic, b"v") for _ in range(40)]
    assert {future.result(GIVE_UP_S).partition for future in futures} == set(range(PARTITIONS))


@pytest.mark.parametrize("wrong", [-1, 2**31], ids=["negative", "too large"])
def test_partition_when_the_caller_gives_an_impossible_one_then_send_refuses(
        cluster: Cluster, topic: str, connect: Connect, wrong: int) -> None:
    producer = connect()
    witness = Witness(producer, topic)
    with pytest.raises(ValueError, match=str(wrong)):
        witness.send(0, partition=wrong)
    assert not witness.told
    assert not cluster.log(topic)


@pytest.mark.parametrize(
    "raised", [ValueError("in on_append"), KafkaTimeoutError("in on_append", phase="buffer"), MemoryError()],
    ids=lambda raised: type(raised).__name__)
@pytest.mark.parametrize("is_batch", [False, True], ids=["send", "send_batch"])
def test_on_append_when_it_raises_then_that_is_logged_and_the_record_goes_its_way(
        cluster: Cluster, topic: str, connect: Connect, caplog: pytest.LogCaptureFixture, raised: Exception,
        is_batch: bool) -> None:
    """send() raised it, or returned a future that said "not sent", and the record was stored all the same."""
    class Watching(Fixed):
        def on_append(self, *appended: object) -> None:
            raise raised

    class Counting(ProducerInterceptor):
        def on_acknowledgement(self, metadata: object, exception: BaseException | None) -> None:
            heard.append(exception)

    heard: list[object] = []
    told: list[object] = []
    producer = connect(partitioner_class=Watching(0), interceptor_classes=[Counting()])
    await_known(producer, topic)
    if is_batch:
        metadata = producer.send_batch(topic, [b"1", b"2"]).result(GIVE_UP_S)
        assert (list(metadata.offsets), metadata.errors) == ([0, 1], {})
    else:
        for value in (b"1", b"2"):
            producer.send(topic, value, on_completion=lambda _, error: told.append(error)).result(GIVE_UP_S)
        assert told == [None, None]
    assert heard == [None, None]
    assert [record.value for record in cluster.log(topic)] == [b"1", b"2"]
    assert caplog.text.count("on_append of the partitioner raised") == 2
