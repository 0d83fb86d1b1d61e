"""What a sink refuses on the driver, and what travels to the workers."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from pyproducer.common.errors import ConfigError
from pyproducer.producer.kafka_producer import KafkaProducer
from pyproducer.spark import ColumnError, KafkaSink
from pyproducer.spark import sink as sink_module
from pyproducer.spark.pool import ProducerPool
from tests.support.secret_hunt import SecretHunt
from tests.unit.spark.doubles import FakeProducer, FakeRow

PROPS = {"bootstrap.servers": "127.0.0.1:9092", "linger.ms": 5}


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[FakeProducer]:
    producers: list[FakeProducer] = []

    def make(props: Any) -> FakeProducer:
        producers.append(FakeProducer(props))
        return producers[-1]

    monkeypatch.setattr(sink_module, "WORKER_POOL", ProducerPool(make))
    return producers


def test_call_with_rows_sends_them_with_the_props(made: list[FakeProducer]) -> None:
    KafkaSink(PROPS, topic=" orders ")([FakeRow(value="a"), FakeRow(value=b"b")])
    assert [(record.topic, record.value) for record in made[0].records] == [("orders", b"a"), ("orders", b"b")]
    assert made[0].props == PROPS


@pytest.mark.parametrize("wrong", [{"linger.ms": "x"}, {"transactional.id": "t"}, {"sasl.jaas.config": b"never-shown"}],
                         ids=str)
def test_sink_when_a_setting_is_wrong_then_error_and_its_frames_show_no_secret(wrong: dict[str, Any]) -> None:
    with SecretHunt("never-shown") as hunt, hunt.errors(ConfigError):
        KafkaSink({**PROPS, "ssl.key.password": "never-shown", **wrong})


def test_call_when_the_workers_producer_cannot_be_made_then_error_and_its_frames_show_no_secret(
        monkeypatch: pytest.MonkeyPatch) -> None:
    def make(props: Any) -> FakeProducer:
        raise ConfigError("ssl.keystore.location", "/absent", "it is not on this worker")

    monkeypatch.setattr(sink_module, "WORKER_POOL", ProducerPool(make))
    sink = KafkaSink({**PROPS, "ssl.key.password": "never-shown"}, topic="orders")
    with SecretHunt("never-shown") as hunt, hunt.errors(ConfigError):
        sink([FakeRow(value="a")])


def test_call_without_rows_makes_no_producer(made: list[FakeProducer]) -> None:
    KafkaSink(PROPS, topic="orders")(iter([]))
    assert made == []


def test_call_when_columns_do_not_fit_makes_no_producer(made: list[FakeProducer]) -> None:
    with pytest.raises(ColumnError, match="Required attribute 'value' not found"):
        KafkaSink(PROPS, topic="orders")([FakeRow(key="a")])
    assert made == []


def test_call_twice_with_equal_plain_props_shares_the_producer(made: list[FakeProducer]) -> None:
    KafkaSink(PROPS, topic="a")([FakeRow(value="a")])
    pickle.loads(pickle.dumps(KafkaSink(dict(reversed(PROPS.items())), topic="b")))([FakeRow(value="a")])
    assert len(made) == 1


def test_pickle_carries_props_and_topic_only() -> None:
    again = pickle.loads(pickle.dumps(KafkaSink(PROPS, topic="orders")))
    assert (again.props, again.topic) == (PROPS, "orders")
    assert set(vars(again)) == {"props", "topic", "_pool_key"}


@pytest.mark.parametrize(("key", "sentence"), [
    ("key.serializer", "keys are serialized with ByteArraySerializer"),
    ("value.serializer", "values are serialized with ByteArraySerializer"),
    ("transactional.id", "delivers at least once")])
def test_init_with_a_setting_a_sink_cannot_take_refuses_it(key: str, sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        KafkaSink({**PROPS, key: "string"})


def test_init_with_a_wrong_setting_fails_on_the_driver() -> None:
    with pytest.raises(ConfigError, match=r"linger\.ms"):
        KafkaSink({**PROPS, "linger.msec": 5})
    with pytest.raises(ConfigError, match="topic"):
        KafkaSink(PROPS, topic=" ")


def test_init_with_a_producer_says_that_workers_build_their_own() -> None:
    with KafkaProducer(PROPS) as producer:
        with pytest.raises(TypeError, match="each Spark worker process builds its own producer"):
            KafkaSink(producer)  # type: ignore[arg-type]  # the mistake under test
        with pytest.raises(TypeError, match=r"'client\.id' holds a producer"):
            KafkaSink({**PROPS, "client.id": producer})


def test_repr_shows_no_secret() -> None:
    sink = KafkaSink({**PROPS, "ssl.key.password": "hidden"}, topic="orders")
    assert repr(sink) == "KafkaSink(bootstrap.servers='127.0.0.1:9092', topic='orders')"
