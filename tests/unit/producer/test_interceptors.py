"""The chain of interceptors: in order, and no exception of theirs leaves it."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

import pytest

from pyproducer.common.cluster import TopicPartition
from pyproducer.common.errors import ConfigError, KafkaError
from pyproducer.common.records import Header, ProducerRecord, RecordMetadata
from pyproducer.producer.interceptors import ProducerInterceptor, ProducerInterceptors, Telling, resolve_interceptors

METADATA = RecordMetadata("t", 1, 5, 6, 7, 8)
HEADERS = (Header("trace", b"1"),)


class Appending(ProducerInterceptor):
    """Appends its name to the value, and keeps what it saw."""

    def __init__(self, name: str = "x", *, raises: bool = False) -> None:
        self.name = name
        self.raises = raises
        self.seen: list[Any] = []

    def configure(self, props: Mapping[str, object]) -> None:
        self.seen.append(dict(props))

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        self.seen.append(record.value)
        if self.raises:
            raise ValueError("on_send")
        return ProducerRecord(record.topic, record.value + self.name, record.key, partition=record.partition)

    def on_acknowledgement(self, metadata: RecordMetadata | None, exception: BaseException | None) -> None:
        self.seen.append((metadata, exception))
        if self.raises:
            raise ValueError("on_acknowledgement")

    def close(self) -> None:
        self.seen.append("closed")
        if self.raises:
            raise ValueError("close")


def test_record_when_sent_then_each_interceptor_sees_what_the_one_before_gave() -> None:
    first, second = Appending("a"), Appending("b")
    assert ProducerInterceptors([first, second]).on_send(ProducerRecord("t", "v")).value == "vab"
    assert (first.seen, second.seen) == (["v"], ["va"])


def test_interceptor_when_it_raises_then_the_next_gets_the_last_good_record(caplog: pytest.LogCaptureFixture) -> None:
    interceptors = [Appending("a"), Appending("b", raises=True), Appending("c")]
    with caplog.at_level(logging.WARNING):
        record = ProducerInterceptors(interceptors).on_send(ProducerRecord("t", "v", partition=3))
    assert record.value == "vac"
    assert interceptors[2].seen == ["va"]
    (message,) = caplog.records
    assert message.getMessage() == "Error executing interceptor on_send callback for topic: t, partition: 3"
    assert message.exc_info is not None


def test_all_interceptors_when_they_raise_then_the_original_record() -> None:
    record = ProducerRecord("t", "v")
    assert ProducerInterceptors([Appending(raises=True), Appending(raises=True)]).on_send(record) is record


@pytest.mark.parametrize("result", [None, "record", 5])
def test_interceptor_when_it_returns_no_record_then_ignored(result: object, caplog: pytest.LogCaptureFixture) -> None:
    class Forgetful(ProducerInterceptor):
        def on_send(self, record: ProducerRecord) -> ProducerRecord:
            return result  # type: ignore[return-value]  # that is the test

    record = ProducerRecord("t", "v")
    assert ProducerInterceptors([Forgetful()]).on_send(record) is record
    assert "must return a ProducerRecord" in caplog.text


def test_outcome_when_acknowledged_then_all_are_told_even_if_one_raises(caplog: pytest.LogCaptureFixture) -> None:
    interceptors = [Appending(raises=True), Appending()]
    ProducerInterceptors(interceptors).on_acknowledgement(METADATA, None)
    assert [interceptor.seen for interceptor in interceptors] == [[(METADATA, None)]] * 2
    assert "Error executing interceptor on_acknowledgement callback" in caplog.text


def test_outcome_when_there_is_no_memory_to_look_up_a_method_then_all_are_told() -> None:
    """It was looked up for each record, outside of what catches: those behind were not told."""
    class Looked(Appending):
        is_out_of_memory = False

        def __getattribute__(self, name: str) -> Any:
            if type(self).is_out_of_memory:
                raise MemoryError
            return super().__getattribute__(name)

    first, last = Looked(), Appending()
    chain = ProducerInterceptors([first, last])
    Looked.is_out_of_memory = True
    chain.on_acknowledgement(METADATA, None)
    assert last.seen == [(METADATA, None)]


@pytest.mark.parametrize("partition", [2, -1])
def test_send_when_it_fails_then_what_is_known_is_told(partition: int) -> None:
    metadata = RecordMetadata("t", partition, -1, -1, -1, -1)
    interceptors = [Appending(raises=True), Appending()]
    error = ValueError("send")
    ProducerInterceptors(interceptors).on_send_error(TopicPartition("t", partition), error)
    assert interceptors[1].seen == [(metadata, error)]


@pytest.mark.parametrize(("partition", "told"), [(2, 2), (None, -1)])
def test_record_when_its_batch_failed_then_what_is_known_is_told_as_of_a_failed_send(partition: int | None,
                                                                                    told: int) -> None:
    """The metadata were None, where Java's interceptors read the topic off them."""
    error = KafkaError("late")
    error.topic, error.partition = "t", partition
    interceptor = Appending()
    ProducerInterceptors([interceptor]).on_acknowledgement(None, error)
    assert interceptor.seen == [(RecordMetadata("t", told, -1, -1, -1, -1), error)]


class TakesHeaders:
    def __init__(self) -> None:
        self.seen: list[Any] = []

    def on_acknowledgement(self, metadata: object, exception: object, headers: object) -> None:
        self.seen.append(headers)


class MayTakeHeaders(TakesHeaders):
    def on_acknowledgement(self, metadata: object, exception: object, headers: object = ()) -> None:
        self.seen.append(headers)


class TakesSomethingElse(TakesHeaders):
    def on_acknowledgement(self, metadata: object, exception: object, log: object = None, *more: object) -> None:
        self.seen.append((log, *more))


class TakesAnything(TakesHeaders):
    def on_acknowledgement(self, *arguments: object) -> None:
        self.seen.append(arguments[2:])


@pytest.mark.parametrize(("kind", "seen"), [
    (TakesHeaders, HEADERS), (MayTakeHeaders, HEADERS), (TakesSomethingElse, (None,)), (TakesAnything, ())])
def test_headers_when_on_acknowledgement_takes_them_then_it_gets_the_records(kind: type[TakesHeaders],
                                                                             seen: object) -> None:
    """KIP-512: they were nowhere to be had, and an on_acknowledgement of three parameters failed with each record."""
    interceptor, other = kind(), Appending()
    chain = ProducerInterceptors([interceptor, other])
    Telling(chain, HEADERS)(METADATA, None)
    chain.on_send_error(TopicPartition("t", 1), ValueError(), HEADERS)
    assert interceptor.seen == [seen, seen]
    assert len(other.seen) == 2


def test_record_when_send_is_interrupted_behind_its_acceptance_then_interceptors_hear_of_it_once() -> None:
    """An alarm's handler raised there: "failed" at once, "stored" later, and who counts there counted both."""
    for is_first_the_end in (False, True):
        interceptor = TakesHeaders()
        telling = Telling(ProducerInterceptors([interceptor]), HEADERS)
        calls = [lambda told=telling: told.on_send_error(TopicPartition("t", 1), TimeoutError()),
                 lambda told=telling: told(METADATA, None)]
        for call in reversed(calls) if is_first_the_end else calls:
            call()
        assert interceptor.seen == [HEADERS]


def test_chain_when_closed_then_all_are_even_if_one_raises(caplog: pytest.LogCaptureFixture) -> None:
    interceptors = [Appending(raises=True), Appending()]
    ProducerInterceptors(interceptors).close()
    assert [interceptor.seen for interceptor in interceptors] == [["closed"]] * 2
    assert "Failed to close producer interceptor" in caplog.text


def test_chain_when_empty_then_false_and_without_effect() -> None:
    chain = ProducerInterceptors()
    record = ProducerRecord("t", "v")
    assert not chain
    assert chain.on_send(record) is record
    chain.on_acknowledgement(METADATA, None)
    chain.close()


def test_keyboard_interrupt_when_raised_by_an_interceptor_then_it_passes() -> None:
    class Interrupted(ProducerInterceptor):
        def on_send(self, record: ProducerRecord) -> ProducerRecord:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ProducerInterceptors([Interrupted()]).on_send(ProducerRecord("t", "v"))


class OnlyAcknowledges:
    def __init__(self) -> None:
        self.seen: list[Any] = []

    def on_acknowledgement(self, metadata: RecordMetadata | None, exception: BaseException | None) -> None:
        self.seen.append(metadata)


def test_interceptor_when_it_has_one_method_then_only_that_is_called() -> None:
    interceptor = OnlyAcknowledges()
    chain = ProducerInterceptors([interceptor])
    record = ProducerRecord("t", "v")
    assert chain.on_send(record) is record
    chain.on_acknowledgement(METADATA, None)
    chain.close()
    assert interceptor.seen == [METADATA]


def test_interceptor_when_it_has_no_acknowledgement_then_the_others_are_told() -> None:
    class OnlySends:
        def on_send(self, record: ProducerRecord) -> ProducerRecord:
            return record

    last = Appending()
    ProducerInterceptors([OnlySends(), last]).on_acknowledgement(METADATA, None)
    assert last.seen == [(METADATA, None)]


def test_base_class_when_used_as_it_is_then_it_changes_nothing() -> None:
    record = ProducerRecord("t", "v")
    chain = ProducerInterceptors(resolve_interceptors([ProducerInterceptor], {})._interceptors)
    assert chain.on_send(record) is record
    chain.on_acknowledgement(None, ValueError())
    chain.close()


def test_setting_when_resolved_then_instances_classes_and_names_in_order() -> None:
    instance = Appending("a")
    chain = resolve_interceptors([instance, OnlyAcknowledges, f"{__name__}:Appending", f"{__name__}.Appending"],
                                 {"linger.ms": 5})
    assert [type(interceptor) for interceptor in chain._interceptors] == [Appending, OnlyAcknowledges] + [Appending] * 2
    assert instance.seen == [{"linger.ms": 5}]
    assert chain.on_send(ProducerRecord("t", "v")).value == "vaxx"
    assert len(chain) == 4


@pytest.mark.parametrize(("value", "why"), [
    ("no.such.Interceptor", "cannot be imported"), ("Interceptor", "no such name"), (object(), "must have on_send"),
    (dict, "must have on_send"), ("", "no such name"),
])
def test_setting_when_it_names_no_interceptor_then_config_error_and_the_others_are_closed(value: object,
                                                                                         why: str) -> None:
    first = Appending()
    with pytest.raises(ConfigError, match=why) as caught:
        resolve_interceptors([first, value], {})
    assert caught.value.key == "interceptor.classes"
    assert first.seen == [{}, "closed"]


def test_interceptor_when_configure_raises_then_config_error_and_it_is_closed() -> None:
    class Unhappy(Appending):
        def configure(self, props: Mapping[str, object]) -> None:
            raise LookupError("my.setting")

    unhappy = Unhappy()
    with pytest.raises(ConfigError, match="LookupError") as caught:
        resolve_interceptors([unhappy])
    assert isinstance(caught.value.__cause__, LookupError)
    assert unhappy.seen == ["closed"]
