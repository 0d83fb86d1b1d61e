"""What type checkers say of code that uses pyproducer: read by mypy in `make lint`, and never run.

A wrong line has the error that is asked for in a comment; mypy complains of one that is not needed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from concurrent.futures import Future, as_completed, wait
from datetime import datetime
from typing import TYPE_CHECKING, Any

from pyproducer import (
    AsyncProducer,
    AsyncTransactionalProducer,
    BatchMetadata,
    ConsumerGroupMetadata,
    DeliverySummary,
    FutureRecordMetadata,
    Header,
    JsonSerializer,
    KafkaError,
    KafkaProducer,
    PreparedTransaction,
    Producer,
    ProducerInterceptor,
    ProducerRecord,
    RecordMetadata,
    StringSerializer,
    TransactionalProducer,
    TransactionCompleter,
    TransactionOutcome,
)
from pyproducer.aio import AsyncKafkaProducer
from pyproducer.compat import confluent_kafka
from pyproducer.testing import MockProducer

if TYPE_CHECKING:
    from typing_extensions import assert_type


def told(metadata: RecordMetadata | None, error: KafkaError | None) -> None:
    """A callback."""


def told_of_any(metadata: RecordMetadata | None, error: BaseException | None) -> None:
    """One that takes more."""


def told_the_wrong_way_round(error: KafkaError | None, message: str) -> None:
    """The order of confluent-kafka."""


class OfTwo(ProducerInterceptor):
    def on_acknowledgement(self, metadata: RecordMetadata | None, exception: BaseException | None) -> None:
        """As Java's before 4.1."""


class OfThree(ProducerInterceptor):
    def on_acknowledgement(self, metadata: RecordMetadata | None, exception: BaseException | None,
                           headers: Sequence[Header] = ()) -> None:
        """With the record's headers."""


def shout(_topic: str, _headers: Sequence[Header], text: str | None) -> bytes | None:
    return None if text is None else text.upper().encode()


def results(producer: KafkaProducer[bytes, bytes]) -> None:
    future = producer.send("topic", b"value", key=b"key")
    assert_type(future, FutureRecordMetadata)
    assert_type(future.result(), RecordMetadata)
    assert_type(future.exception(1.0), "KafkaError | None")
    assert_type(producer.send_batch("topic", [b"value"]).result(), BatchMetadata)
    assert_type(producer.close(), DeliverySummary)
    print(future.result().ofset)  # type: ignore[attr-defined]
    future.get(timeout=10)  # type: ignore[attr-defined]
    future.add_callback(told)  # type: ignore[attr-defined]
    print(future.result().offest)  # type: ignore[attr-defined]


def concurrent(producer: KafkaProducer[bytes, bytes]) -> None:
    future, rows = producer.send("topic", b"value"), producer.send_batch("topic", [b"value"])
    assert_type(wait([future]).done, set[Future[RecordMetadata]])
    for one in as_completed([future, future]):
        assert_type(one.result(), RecordMetadata)
    for each in as_completed([rows]):
        assert_type(each.result().errors, "dict[int, KafkaError]")
    assert_type(rows.exception(), "KafkaError | None")


async def wrapped(producer: KafkaProducer[bytes, bytes]) -> None:
    await asyncio.wait([asyncio.wrap_future(producer.send("topic", b"value"))])
    await asyncio.wait([producer.send("topic", b"value")])


def callbacks(producer: KafkaProducer[bytes, bytes]) -> None:
    producer.send("topic", b"value", on_completion=told)
    producer.send("topic", b"value", on_completion=told_of_any)
    producer.send(ProducerRecord("topic", b"value"), told)
    producer.send(ProducerRecord("topic", b"value"), on_completion=told)
    producer.send(ProducerRecord("topic", b"value"), b"value")  # type: ignore[call-overload]
    producer.send("topic", b"value", on_completion=told_the_wrong_way_round)  # type: ignore[arg-type]
    producer.send("topic", b"value", timestamp=datetime.now(), headers={"trace": b"1"})
    producer.send("topic", b"value", on_completion=5)  # type: ignore[call-overload]


def serializers(props: dict[str, object]) -> None:
    assert_type(KafkaProducer(props), "KafkaProducer[bytes, bytes]")
    KafkaProducer(props).send("topic", "text")  # type: ignore[call-overload]
    shouting = KafkaProducer(props, value_serializer=shout)
    shouting.send("topic", "text", key=b"key")
    shouting.send("topic", b"bytes")  # type: ignore[call-overload]
    both = KafkaProducer(props, StringSerializer(), JsonSerializer())
    both.send("topic", {"any": "thing"}, key="key")
    both.send("topic", {}, key=b"key")  # type: ignore[call-overload]
    KafkaProducer(props, "string", "json").send("topic", {"a": 1}, key="key")
    assert_type(KafkaProducer[str, Any](props), "KafkaProducer[str, Any]")
    with KafkaProducer(props) as producer:
        assert_type(producer, "KafkaProducer[bytes, bytes]")


def announce(producer: Producer[bytes, bytes]) -> None:
    with producer as same:
        assert_type(same.send("topic", b"value", key=b"key").result(), RecordMetadata)
    producer.send("topic", "text")  # type: ignore[call-overload]


def failing() -> None:
    mock = MockProducer()
    mock.flush_exception = KafkaError("late")
    mock.flush_exception = "late"  # type: ignore[assignment]


def announce_record(producer: Producer[bytes, bytes]) -> None:
    producer.send(ProducerRecord("topic", b"value"), on_completion=told)
    MockProducer().send(ProducerRecord("topic", b"value"), on_completion=told)


def announce_text(producer: Producer[str, str]) -> None:
    producer.send("topic", "text", key="key").result()


def protocols(props: dict[str, object]) -> None:
    producer = KafkaProducer(props)
    announce(producer)
    announce(MockProducer())
    announce_text(KafkaProducer(props, StringSerializer(), StringSerializer()))
    announce_text(MockProducer[str, str](props, "string", "string"))
    announce_text(producer)  # type: ignore[arg-type]
    MockProducer().send("topic", "text")  # type: ignore[call-overload]
    assert_type(MockProducer().send("topic", b"value"), FutureRecordMetadata)


def transfer(producer: TransactionalProducer[bytes, bytes]) -> PreparedTransaction:
    producer.init_transactions("bank")
    with producer.transaction():
        announce(producer)
        producer.send_offsets_to_transaction({("topic", 0): 1}, ConsumerGroupMetadata("group"))
    producer.begin_transaction()
    return producer.prepare_transaction()


def transactions(props: dict[str, object], producer: Producer[bytes, bytes]) -> None:
    plain = KafkaProducer(props)
    prepared = transfer(plain)
    transfer(MockProducer())
    transfer(producer)  # type: ignore[arg-type]
    with TransactionCompleter(props) as completer:
        assert_type(completer.commit(PreparedTransaction.from_json(prepared.to_json())), TransactionOutcome)
        assert_type(completer.abort_all([prepared]), list[TransactionOutcome])


async def asynchronous_transactions(producer: AsyncKafkaProducer[bytes, bytes]) -> None:
    await producer.init_transactions()
    async with producer.transaction():
        await producer.send_offsets_to_transaction({("topic", 0): 1}, "group")
    await producer.begin_transaction()
    assert_type(await producer.prepare_transaction(), PreparedTransaction)
    await producer.commit_transaction()


async def asynchronous(props: dict[str, object], plain: KafkaProducer[bytes, bytes]) -> None:
    async with AsyncKafkaProducer(props) as producer:
        assert_type(await producer.send("topic", b"value"), RecordMetadata)
        assert_type(await producer.send_nowait("topic", b"value"), RecordMetadata)
        assert_type(await producer.send(ProducerRecord("topic"), told), RecordMetadata)
        producer.send_nowait(ProducerRecord("topic"), on_completion=told)
        assert_type(await asyncio.gather(producer.send("topic", b"value")), "tuple[RecordMetadata]")
        await producer.send("topic", "text")  # type: ignore[call-overload]
        assert_type(await producer.send_batch("topic", [b"value"]), BatchMetadata)
        assert_type(await producer.close(), DeliverySummary)
    assert_type(await plain.send("topic", b"value"), RecordMetadata)
    assert_type(await plain.send_batch("topic", [b"value"]), BatchMetadata)


async def announce_in_loop(producer: AsyncProducer[bytes, bytes]) -> None:
    async with producer as same:
        assert_type(await same.send("topic", b"value", key=b"key"), RecordMetadata)
    assert_type(await producer.send_nowait(ProducerRecord("topic"), on_completion=told), RecordMetadata)
    await producer.send(ProducerRecord("topic", b"value"))
    assert_type(await producer.send_batch("topic", [b"value"], keys=[b"key"]), BatchMetadata)
    await producer.send("topic", "text", key=b"key")  # type: ignore[call-overload]


async def transfer_in_loop(producer: AsyncTransactionalProducer[bytes, bytes]) -> PreparedTransaction:
    await producer.init_transactions("bank")
    async with producer.transaction():
        await announce_in_loop(producer)
    await producer.begin_transaction()
    return await producer.prepare_transaction()


async def asynchronous_protocols(props: dict[str, object], producer: AsyncProducer[bytes, bytes],
                                 of_text: AsyncKafkaProducer[str, str]) -> None:
    plain = AsyncKafkaProducer(props)
    await announce_in_loop(plain)
    await announce_in_loop(MockProducer().as_async())
    await announce_in_loop(of_text)  # type: ignore[arg-type]
    await transfer_in_loop(plain)
    await transfer_in_loop(MockProducer().as_async())
    await transfer_in_loop(producer)  # type: ignore[arg-type]


def buffers(props: dict[str, object]) -> None:
    producer = KafkaProducer[bytes, "bytes | bytearray | memoryview"](props)
    producer.send("topic", bytearray(b"value"), headers=[("trace", memoryview(b"1"))])
    producer.send("topic", memoryview(b"value"), headers={"trace": bytearray(b"1")})
    producer.send("topic", b"value", headers=[("trace", "1")])  # type: ignore[list-item]
    KafkaProducer(props).send("topic", bytearray(b"value"))  # type: ignore[call-overload]


async def asynchronous_in_tests() -> None:
    mock = MockProducer().as_async()
    assert_type(await mock.send("topic", b"value"), RecordMetadata)
    assert_type(await mock.send_nowait(ProducerRecord("topic"), on_completion=told), RecordMetadata)
    await mock.send("topic", "text")  # type: ignore[call-overload]
    mock.send_nowait("topic", b"value", partition="0")  # type: ignore[call-overload]
    await MockProducer[str, str]({}, "string", "string").as_async().send("topic", "text", key="key")


def as_with_confluent_kafka(error: confluent_kafka.KafkaError | None, message: confluent_kafka.Message) -> None:
    if error is not None:
        assert_type(error.code() == confluent_kafka.KafkaError.MSG_SIZE_TOO_LARGE, bool)
    assert_type(message.offset(), "int | None")


def confluent_kafkas_interface(settings: dict[str, object]) -> None:
    with confluent_kafka.Producer(settings, on_delivery=as_with_confluent_kafka) as producer:
        producer.produce("topic", "value", b"key", on_delivery=as_with_confluent_kafka)
        producer.produce("topic", callback=told_the_wrong_way_round)  # type: ignore[arg-type]
        assert_type(producer.poll(0), int)
        assert_type(producer.kafka_producer, KafkaProducer[bytes, bytes])
