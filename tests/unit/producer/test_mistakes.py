"""Each mistake that somebody makes who comes from another client, or is in a hurry, and the sentence that he gets.

What is refused here was accepted once, or refused in words that did not help. Settings of a wrong value, and those of
other clients, are in config/; what is refused of headers and times in common/test_records.py.
"""

from __future__ import annotations

import asyncio
import functools
import importlib
import inspect
from collections.abc import Callable
from typing import Any
from unittest import mock

import pytest

from pyproducer import ConfigError, KafkaProducer, Producer, ProducerRecord, RecordTooLargeError, TransactionalProducer
from pyproducer.aio import AsyncKafkaProducer
from pyproducer.producer.mistakes import NAMES
from pyproducer.testing import MockProducer
from tests.support.patience import GIVE_UP_S
from tests.unit.producer.facade import MESSAGE_TOO_LARGE, Facade, Facades

PROPS = {"bootstrap.servers": "broker:9092"}
ORDER = r"called with \(metadata, exception\), one of them None"


def of_confluent(err: object, msg: object) -> None:
    """The delivery report of a program for confluent-kafka."""


async def awaited(metadata: object, exception: object) -> None:
    """Nobody would await it."""


class Reports:
    def of_confluent(self, err: object, msg: object) -> None: ...

    async def __call__(self, metadata: object, exception: object) -> None: ...


@pytest.mark.parametrize(("make", "error_type", "words"), [
    (lambda: KafkaProducer("localhost:9092"), TypeError,  # type: ignore[arg-type,call-overload]
     r"KafkaProducer\(\{'bootstrap.servers': 'localhost:9092'\}\)"),
    (lambda: KafkaProducer(bootstrap_servers="localhost:9092"), TypeError,  # type: ignore[call-overload]
     r"bootstrap_servers= is no argument: settings are a dict .*'bootstrap.servers'"),
    (lambda: KafkaProducer(), TypeError, "got nothing"),  # type: ignore[call-overload]
    (lambda: AsyncKafkaProducer(PROPS, loop=None), TypeError,  # type: ignore[call-overload]
     "loop= is no argument: an AsyncKafkaProducer belongs to the event loop that uses it first"),
    (lambda: KafkaProducer({}), ConfigError, "name at least one broker"),
    *((lambda props=props: KafkaProducer({**PROPS, **props}), ConfigError, words) for props, words in [
        ({"debug": "all"}, r"Leave it out: logging.getLogger\('pyproducer'\)"),
        ({"error_cb": print}, r"Leave it out: send\(\) takes a callback"),
        ({"on_delivery": print}, r"Leave it out: send\(\) takes a callback"),
        ({"statistics.interval.ms": 1000}, r"Leave it out: producer.metrics\(\)"),
        ({"socket.keepalive.enable": False}, "Leave it out: that is always so here"),
        ({"queue.buffering.max.messages": 5}, "did you mean 'buffer.memory'"),
        ({"linger_ms": 5}, "did you mean 'linger.ms'"), ({"liner.ms": 5}, "did you mean 'linger.ms'"),
        ({"bootstrap.servers": "kafka://localhost:9092"}, "no scheme, such as kafka://"),
        ({"bootstrap.servers": "SSL://localhost:9092"},
         "SSL:// contradicts security.protocol = PLAINTEXT: set that to SSL, or leave the scheme out"),
        ({"bootstrap.servers": "PLAINTEXT://localhost:9092", "security.protocol": "ssl"},
         "PLAINTEXT:// contradicts security.protocol = SSL"),
        ({"bootstrap.servers": "localhost:9o92"}, "'9o92' is not a port, which is a number"),
        ({"bootstrap.servers": "localhost"}, "no port: write host:port"),
        ({"acks": 2}, "acks"), ({"batch.size": "abc"}, "batch.size"),
    ]),
])
def test_constructor_when_misused_then_it_says_what_to_write(make: Callable[[], Any], error_type: type[Exception],
                                                             words: str) -> None:
    with pytest.raises(error_type, match=words):
        make()


@pytest.mark.parametrize(("module", "name", "words"), [
    ("pyproducer", "AsyncKafkaProducer", r"it is in pyproducer\.aio$"),
    ("pyproducer", "EmbeddedBroker", r"it is in pyproducer\.broker$"),
    ("pyproducer", "MockProducer", r"it is in pyproducer\.testing$"),
    ("pyproducer", "read_topic", r"it is in pyproducer\.testing$"),
    ("pyproducer", "KafkaSink", r"it is in pyproducer\.spark$"),
    ("pyproducer", "KafkaConsumer", "there is no consumer here"),
    ("pyproducer", "AIOKafkaProducer", r"pyproducer\.aio\.AsyncKafkaProducer$"),
    ("pyproducer", "AdminClient", "there is no admin client here"),
    ("pyproducer.compat.confluent_kafka", "Consumer", "keep confluent_kafka's"),
    ("pyproducer.compat.confluent_kafka", "TopicPartition", "keep confluent_kafka's"),
    ("pyproducer.compat.confluent_kafka", "serialization", "keep confluent_kafka's"),
    ("pyproducer.compat.confluent_kafka", "SerializingProducer", "call the serializers yourself"),
])
def test_module_when_asked_for_a_name_of_elsewhere_then_it_says_where(module: str, name: str, words: str) -> None:
    """An ImportError said that there is none, and not where to look."""
    with pytest.raises(ImportError, match=rf"^cannot import name '{name}' from '{module}': .*{words}"):
        exec(f"from {module} import {name}")
    here = importlib.import_module(module)
    assert not hasattr(here, name)
    with pytest.raises(AttributeError, match=words):
        getattr(here, name)


@pytest.mark.parametrize("module", ["pyproducer", "pyproducer.compat.confluent_kafka"])
def test_module_when_nobody_has_the_name_then_the_import_error_is_pythons(module: str) -> None:
    with pytest.raises(ImportError, match=rf"^cannot import name 'NoSuchName' from '{module}' \("):
        exec(f"from {module} import NoSuchName")


def test_names_when_they_are_said_to_be_in_another_module_then_they_are() -> None:
    told = {name: words.removeprefix("it is in ") for name, words in NAMES.items() if words.startswith("it is in ")}
    for name, home in told.items():
        if home != "pyproducer.spark":  # which needs Spark
            assert hasattr(importlib.import_module(home), name)
    assert len(told) >= 6


def test_producer_when_made_as_confluents_then_it_names_what_to_make() -> None:
    """It said that Protocols cannot be instantiated."""
    for protocol in (Producer, TransactionalProducer):
        with pytest.raises(TypeError, match=r"make a KafkaProducer; .*pyproducer\.compat\.confluent_kafka\."):
            protocol({"bootstrap.servers": "broker:9092"})  # type: ignore[misc,call-arg]

    class Counting(Producer):  # type: ignore[type-arg]
        def __init__(self, start: int) -> None:
            self.count = start

    assert Counting(3).count == 3  # type: ignore[abstract]


@pytest.mark.parametrize(("name", "words"), [
    ("produce", r"send\(topic, value, key=...\)"), ("poll", "nothing has to be polled"),
    ("get", r"send\(\) returns a future: its result\(timeout\) waits"),
    ("send_and_wait", r"send\(...\).result\(timeout\) waits; in an event loop use pyproducer.aio.AsyncKafkaProducer"),
    ("start", "the constructor starts it"), ("stop", r"close\(\) ends it"), ("list_topics", "partitions_for"),
    ("produce_batch", "send_batch"), ("set_sasl_credentials", "credentials are settings"),
])
def test_producer_when_asked_for_a_method_of_another_client_then_it_names_its_own(facades: Facades, name: str,
                                                                                  words: str) -> None:
    with pytest.raises(AttributeError, match=words):
        getattr(facades().producer, name)


@pytest.mark.parametrize(("name", "words"), [
    ("get", r"result\(timeout\) waits, with the timeout in seconds"), ("add_callback", r"add_done_callback\(fn\)"),
    ("add_errback", r"on_completion=fn\) calls fn\(metadata, exception\)")])
def test_future_when_asked_for_a_method_of_another_client_then_it_names_its_own(facades: Facades, name: str,
                                                                                words: str) -> None:
    future = facades().producer.send("t", b"v")
    with pytest.raises(AttributeError, match=words):
        getattr(future, name)
    assert not hasattr(future, name)
    assert future.result(GIVE_UP_S).topic == "t"


@pytest.mark.parametrize(("named", "error_type", "words"), [
    ({"callback": print}, TypeError, f"argument 'callback': the callback is on_completion=, {ORDER}"),
    ({"on_delivery": print}, TypeError, f"argument 'on_delivery': the callback is on_completion=, {ORDER}"),
    ({"callback": None}, TypeError, "the callback is on_completion="),
    ({"timestamp_ms": 1}, TypeError, "the time is timestamp=, in epoch milliseconds or a datetime"),
    ({"kye": b"k"}, TypeError, "unexpected keyword argument 'kye'$"),
    ({"on_completion": 5}, TypeError, "on_completion must be callable, got int: 5"),
    ({"on_completion": of_confluent}, TypeError, rf"on_completion is {ORDER}.* 'err': that is confluent-kafka's order"),
    ({"on_completion": Reports().of_confluent}, TypeError, "'err': that is confluent-kafka's order"),
    ({"on_completion": functools.partial(of_confluent)}, TypeError, "'err': that is confluent-kafka's order"),
    ({"on_completion": lambda error, _message: None}, TypeError, "'error': that is confluent-kafka's order"),
    ({"on_completion": awaited}, TypeError, "coroutine function, and nobody would await it: .*AsyncKafkaProducer"),
    ({"on_completion": functools.partial(awaited)}, TypeError, "coroutine function.*AsyncKafkaProducer"),
    ({"on_completion": Reports()}, TypeError, "coroutine function.*AsyncKafkaProducer"),
    ({"on_completion": mock.AsyncMock()}, TypeError, "coroutine function.*AsyncKafkaProducer"),
    ({"headers": {"trace": "1"}}, TypeError, "the value of header 'trace' must be bytes or None, got str"),
    ({"timestamp": 1_700_000_000}, ValueError, "is in seconds, it seems.*Give 1700000000000, or a datetime"),
    ({"timestamp": 1_700_000_000.5}, TypeError, "must be int"), ({"partition": -1}, ValueError, "out of range"),
    ({"partition": "1"}, TypeError, "partition must be int"),
    ({"headers": [("a", b"1"), ("b\ud800", b"1")]}, ValueError,
     r"the header key 'b\\ud800' of the record for topic 't' cannot be written in UTF-8.*surrogates not allowed"),
    ({"headers": {"b\ud800": None}}, ValueError, r"the header key 'b\\ud800' of the record for topic 't'"),
])
@pytest.mark.parametrize("repeated", [1, 2])
def test_send_when_misused_then_it_says_what_to_write_each_time(
        facades: Facades, named: dict[str, Any], error_type: type[Exception], words: str, repeated: int) -> None:
    facade = facades()
    facade.know()
    for _ in range(repeated):
        with pytest.raises(error_type, match=words):
            facade.producer.send("t", b"v", **named)
    facade.producer.flush(GIVE_UP_S)
    assert facade.broker.sent == []


@pytest.mark.parametrize(("more", "named", "words"), [
    ((b"k",), {}, r"takes topic and value by position, got 3 arguments: the others go by name, key=, partition="),
    ((b"k", [], 0), {"timestamp_ms": 5}, "got 5 arguments"),
    ((), {"timestamp_ms": 5}, "the time is timestamp=, in epoch milliseconds or a datetime"),
    ((), {"on_delivery": print}, "the callback is on_completion="),
    ((), {"kye": b"k"}, "unexpected keyword argument 'kye'$"),
])
def test_send_when_called_as_another_clients_then_each_producer_says_what_to_write(
        facades: Facades, more: tuple[Any, ...], named: dict[str, Any], words: str) -> None:
    """kafka-python and aiokafka take the key by position, and timestamp_ms; Python's own text told the aio users."""
    plain: Any = facades().producer
    loop_side: Any = AsyncKafkaProducer({"bootstrap.servers": "127.0.0.1:1"})
    tests: Any = MockProducer()

    async def in_loop(send: Any) -> None:
        with pytest.raises(TypeError, match=words):
            await send("t", b"v", *more, **named)
        with pytest.raises(TypeError, match=words):
            await send(ProducerRecord("t", b"v"), None, *more, **named)

    async def in_loop_for_all() -> None:
        for send in (loop_side.send, loop_side.send_nowait, tests.as_async().send, tests.as_async().send_nowait):
            await in_loop(send)
        await loop_side.close(0)

    for send in (plain.send, tests.send):
        with pytest.raises(TypeError, match=words):
            send("t", b"v", *more, **named)
    asyncio.run(in_loop_for_all())
    assert tests.history() == []


@pytest.mark.parametrize("send", [KafkaProducer.send, AsyncKafkaProducer.send, AsyncKafkaProducer.send_nowait])
def test_send_when_its_signature_is_asked_for_then_what_is_refused_is_not_in_it(send: Any) -> None:
    assert set(inspect.signature(send).parameters) == {"self", "topic", "value", "key", "partition", "timestamp",
                                                       "headers", "on_completion"}


def test_header_key_when_it_has_no_utf_8_then_no_road_takes_it(facades: Facades) -> None:
    """For a topic that was not known yet it was taken, and failed on the sender thread; else a bare Unicode error."""
    facade = facades()
    producer, odd = facade.producer, [("b\ud800", b"1")]

    def add(_topic: str, headers: list[Any], data: Any) -> bytes:
        headers.append(odd[0])
        return bytes(data)

    words = r"the header key 'b\\ud800'"
    for topic in ("t", "not known yet"):
        for send in (lambda topic=topic: producer.send(topic, b"v", headers=odd),
                     lambda topic=topic: producer.send(ProducerRecord(topic, b"v", headers=odd)),
                     lambda topic=topic: producer.send_batch(topic, [b"v", b"w"], headers=[None, odd])):
            with pytest.raises(ValueError, match=words):
                send()
    with pytest.raises(ValueError, match="headers, row 1: the header key"):
        producer.send_batch("t", [b"v", b"w"], headers=[None, odd])
    adding = facades(**{"value.serializer": add}).producer
    with pytest.raises(ValueError, match=words):
        adding.send("t", b"v")
    assert producer.send("t", b"v", headers=[("k\u00e9y", b"1")]).result(GIVE_UP_S).topic == "t", "others are taken"


class Whole:
    """A number as NumPy's are: whole, and no int."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __index__(self) -> int:
        return self.number


def test_numbers_when_they_are_whole_and_no_ints_then_they_are_taken(facades: Facades) -> None:
    """Rows of frames have NumPy's: TypeError, although array.array and list indices take them."""
    facade = facades()
    for topic in ("t", "u"):
        facade.broker.topics[topic] = 2
        future = facade.producer.send(topic, b"v", partition=Whole(1), timestamp=Whole(5))  # type: ignore[call-overload]
        metadata = future.result(GIVE_UP_S)
        assert (metadata.partition, metadata.timestamp) == (1, 5)
        assert type(metadata.partition) is type(metadata.timestamp) is int
    rows = facade.producer.send_batch("t", [b"v"], partitions=[Whole(1)], timestamps=[Whole(7)]).result(GIVE_UP_S)
    assert (list(rows.partitions), list(rows.timestamps)) == ([1], [7])
    for wrong in (Whole(-1), Whole(2**31)):
        with pytest.raises(ValueError, match="out of range"):
            facade.producer.send("t", b"v", partition=wrong)  # type: ignore[call-overload]
    with pytest.raises(TypeError, match="must be int"):
        facade.producer.send("t", b"v", partition=True)


@pytest.mark.parametrize("callback", [of_confluent, awaited, Reports(), 5])
@pytest.mark.parametrize("by_name", [True, False])
def test_send_when_the_callback_of_a_record_is_wrong_then_refused_too(facades: Facades, callback: Any, *,
                                                                      by_name: bool) -> None:
    facade = facades()
    record: Any = ProducerRecord("t", b"v")
    given = {"on_completion": callback} if by_name else {}
    with pytest.raises(TypeError, match="on_completion"):
        facade.producer.send(record, *([] if by_name else [callback]), **given)


def told_by(facade: Facade, callback: Any, told: list[Any]) -> None:
    facade.producer.send("t", b"v", on_completion=callback).result(GIVE_UP_S)
    facade.producer.send(ProducerRecord("t", b"v"), callback).result(GIVE_UP_S)
    facade.producer.flush(GIVE_UP_S)
    assert len(told) == 2


def test_send_when_callbacks_of_all_kinds_take_turns_then_each_is_called_and_what_is_wrong_stays_refused(
        facades: Facades) -> None:
    """What was looked at once is known by its code, or its type; others are looked at all the same."""
    told: list[Any] = []

    class Teller:
        def __call__(self, metadata: object, exception: object) -> None:
            told.append(metadata)

        def method(self, metadata: object, exception: object) -> None:
            told.append(metadata)

        def swapped(self, error: object) -> None:
            """As a method that would be one argument too many; as a function the error is the second one."""
            told.append(self)

    def with_order(_order: int, metadata: object, exception: object) -> None:
        told.append(metadata)

    def plain(metadata: object, exception: object) -> None:
        told.append(metadata)

    def nested(error: int, metadata: object, exception: object) -> None:
        told.append(metadata)

    facade = facades(**{"linger.ms": 0})
    facade.know()
    for _ in range(2):
        for callback in (plain, Teller(), Teller().method, functools.partial(with_order, 7), Teller.swapped,
                         functools.partial(nested, 7), mock.Mock(side_effect=plain), lambda *both: told.append(both),
                         functools.partial(functools.partial(nested, 7)), functools.partial(Teller().method)):
            told.clear()
            told_by(facade, callback, told)
            for wrong in (nested, functools.partial(of_confluent), Reports().of_confluent, Teller().swapped, Reports()):
                with pytest.raises(TypeError, match=r"confluent-kafka's order|coroutine function"):
                    facade.producer.send("t", b"v", on_completion=wrong)


class OwnPartial(functools.partial[Any]):
    pass


def test_send_when_partials_are_of_a_subclass_then_each_is_looked_at(facades: Facades) -> None:
    """The first one vouched for its whole class: a coroutine function in the next was called, and never awaited."""
    facade = facades(**{"linger.ms": 0})
    facade.know()
    told: list[Any] = []
    told_by(facade, OwnPartial(lambda metadata, exception: told.append(metadata)), told)
    for wrong in (awaited, of_confluent):
        with pytest.raises(TypeError, match=r"confluent-kafka's order|coroutine function"):
            facade.producer.send("t", b"v", on_completion=OwnPartial(wrong))


def test_send_when_there_are_many_callbacks_then_few_are_kept(facades: Facades) -> None:
    facade = facades()
    facade.know()
    told: list[Any] = []
    spaces: dict[str, Any] = {"told": told}
    for number in range(300):
        exec(f"def callback_{number}(metadata, exception): told.append({number})", spaces)
        facade.producer.send("t", b"v", on_completion=spaces[f"callback_{number}"])
        exec(f"def wrong_{number}(err, msg): told.append({-number})", spaces)
        with pytest.raises(TypeError, match="order"):
            facade.producer.send("t", b"v", on_completion=spaces[f"wrong_{number}"])
    facade.producer.flush(GIVE_UP_S)
    assert sorted(told) == list(range(300))


def test_send_when_its_signature_is_asked_for_then_it_has_what_it_takes_and_no_more() -> None:
    assert list(inspect.signature(KafkaProducer.send).parameters)[-2:] == ["headers", "on_completion"]


def test_result_when_the_broker_finds_the_record_too_large_then_it_says_what_was_sent(facades: Facades) -> None:
    facade = facades()
    facade.broker.error_code = MESSAGE_TOO_LARGE
    with pytest.raises(RecordTooLargeError, match=r"t-0: 1\d\d\d bytes were sent for 1 record\(s\).*max.message.bytes"):
        facade.producer.send("t", b"v" * 1000, partition=0).result(GIVE_UP_S)


@pytest.mark.parametrize("kind", [KafkaProducer, AsyncKafkaProducer])
def test_repr_when_the_constructor_failed_then_it_says_so(kind: Any) -> None:
    """AttributeError, in each tool that shows the variables of a traceback: `self` is one of them."""
    producer = kind.__new__(kind)
    with pytest.raises(ConfigError):
        producer.__init__({"bootstrap.servers": "h:1", "acks": "7"})
    assert repr(producer) == f"<{kind.__name__} that was not made>"
    assert kind is AsyncKafkaProducer or producer._repr_html_() is None
