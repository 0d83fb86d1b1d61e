"""The future of a record: concurrent.futures' methods, decided once."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest

from pyproducer import ErrorCode, FutureRecordMetadata, KafkaError, KafkaTimeoutError, RecordRejectedError
from tests.contract.clusters import Cluster
from tests.contract.conftest import Connect
from tests.contract.witness import await_known, wait_until
from tests.support.fault_proxy import FaultProxy
from tests.support.patience import GIVE_UP_S


def test_future_when_the_record_is_stored_then_every_method_says_so(topic: str, connect: Connect) -> None:
    future = connect().send(topic, b"v")
    metadata = future.result(GIVE_UP_S)
    assert metadata.offset == 0
    assert future.result() == metadata
    assert future.done() is True
    assert future.exception() is None
    assert future.cancelled() is False


def test_future_when_the_record_is_refused_then_every_method_says_so(
        topic: str, connect: Connect, proxy: FaultProxy) -> None:
    producer = connect(through=proxy)
    proxy.on("Produce").error(ErrorCode.INVALID_RECORD)
    future = producer.send(topic, b"v")
    error = future.exception(GIVE_UP_S)
    assert isinstance(error, RecordRejectedError)
    assert error.code == ErrorCode.INVALID_RECORD
    assert future.done() is True
    for _ in range(2):
        with pytest.raises(RecordRejectedError) as caught:
            future.result(0)
        assert (caught.value.code, str(caught.value)) == (error.code, str(error))


@pytest.mark.parametrize("method", ["result", "exception"])
def test_future_when_the_wait_is_too_short_then_it_says_so_and_the_record_is_stored_later(
        cluster: Cluster, topic: str, connect: Connect, proxy: FaultProxy, method: str) -> None:
    producer = connect(through=proxy)
    held = proxy.on("Produce").hold_request()
    future = producer.send(topic, b"v")
    before = time.monotonic()
    with pytest.raises(KafkaTimeoutError) as caught:
        getattr(future, method)(0.1)
    assert time.monotonic() - before >= 0.099
    assert isinstance(caught.value, TimeoutError)
    assert caught.value.phase == "future"
    assert caught.value.outcome == "unknown"
    assert future.done() is False
    held.release()
    assert future.result(GIVE_UP_S).offset == 0
    assert len(cluster.log(topic)) == 1


def test_future_when_timeout_is_0_then_it_does_not_wait(topic: str, connect: Connect, proxy: FaultProxy) -> None:
    producer = connect(through=proxy)
    held = proxy.on("Produce").hold_answer()
    future = producer.send(topic, b"v")
    held.await_count()
    with pytest.raises(KafkaTimeoutError):
        future.result(0)
    held.release()
    assert future.result(GIVE_UP_S).offset == 0
    assert future.result(0).offset == 0


@pytest.mark.parametrize("is_refused", [False, True], ids=["stored", "refused"])
def test_done_callbacks_when_added_before_and_after_then_each_is_called_once_with_the_future(
        topic: str, connect: Connect, proxy: FaultProxy, is_refused: bool) -> None:
    producer = connect(through=proxy)
    held = proxy.on("Produce").hold_request()
    if is_refused:
        held.error(ErrorCode.INVALID_RECORD)
    called: list[tuple[str, FutureRecordMetadata, bool]] = []
    future = producer.send(topic, b"v")
    for name in ("one", "two"):
        future.add_done_callback(lambda done, name=name: called.append((name, done, done.done())))
    held.await_count()
    held.release()
    assert (future.exception(GIVE_UP_S) is not None) == is_refused
    wait_until(lambda: len(called) == 2, "both are called")
    future.add_done_callback(lambda done: called.append(("three", done, done.done())))
    assert called == [("one", future, True), ("two", future, True), ("three", future, True)]


@pytest.mark.parametrize("of_rows", [False, True], ids=["record", "rows"])
def test_done_callback_when_it_is_removed_then_it_is_not_called_and_the_others_are(
        topic: str, connect: Connect, proxy: FaultProxy, of_rows: bool) -> None:
    producer = connect(through=proxy)
    held = proxy.on("Produce").hold_answer()
    future: Any = (producer.send_batch(topic, [b"a", b"b"], partitions=[0, 0]) if of_rows
                   else producer.send(topic, b"v", partition=0))
    called: list[str] = []

    def removed(_future: object) -> None:
        called.append("removed")

    future.add_done_callback(removed)
    future.add_done_callback(lambda _: called.append("kept"))
    future.add_done_callback(removed)
    assert future.remove_done_callback(removed) == 2
    assert future.remove_done_callback(removed) == 0
    held.release()
    future.result(GIVE_UP_S)
    wait_until(lambda: called, "a callback was called")
    assert called == ["kept"]
    assert future.remove_done_callback(removed) == 0


def test_done_callbacks_when_one_raises_then_the_others_are_called(
        topic: str, connect: Connect, proxy: FaultProxy) -> None:
    producer = connect(through=proxy)
    held = proxy.on("Produce").hold_request()
    called: list[int] = []

    def fail(future: FutureRecordMetadata) -> None:
        called.append(0)
        raise ZeroDivisionError("in a done callback")

    future = producer.send(topic, b"v")
    future.add_done_callback(fail)
    future.add_done_callback(lambda _: called.append(1))
    held.release()
    producer.flush(GIVE_UP_S)
    future.add_done_callback(fail)
    assert called == [0, 1, 0]
    assert producer.send(topic, b"v").exception(GIVE_UP_S) is None


def test_futures_when_many_threads_wait_for_one_then_all_have_the_answer(
        topic: str, connect: Connect, proxy: FaultProxy) -> None:
    producer = connect(through=proxy)
    held = proxy.on("Produce").hold_answer()
    future = producer.send(topic, b"v")
    offsets: list[int] = []
    threads = [threading.Thread(target=lambda: offsets.append(future.result(GIVE_UP_S).offset)) for _ in range(8)]
    for thread in threads:
        thread.start()
    held.await_count()
    held.release()
    for thread in threads:
        thread.join(GIVE_UP_S)
    assert offsets == [0] * 8


def test_futures_when_records_of_one_batch_fail_then_each_raises_an_error_of_its_own(
        topic: str, connect: Connect, proxy: FaultProxy) -> None:
    """Threads that raise one shared exception object write their tracebacks over each other's."""
    producer = connect(through=proxy, linger_ms=20_000)
    await_known(producer, topic)
    proxy.on("Produce").error(ErrorCode.INVALID_RECORD)
    futures = [producer.send(topic, b"v", partition=0) for _ in range(3)]
    producer.flush(GIVE_UP_S)
    errors: list[KafkaError] = [future.exception(0) for future in futures]
    assert len({id(error) for error in errors}) == 3
    assert errors[0] is not futures[0].exception(0)
