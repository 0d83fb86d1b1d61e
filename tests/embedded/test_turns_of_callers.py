"""What a caller who takes the sender's turn must not do: wait too long, use its parent's connections, count twice."""

from __future__ import annotations

import os
import sys
import threading
import time
from types import FrameType
from typing import Any

import pytest

from pyproducer import KafkaProducer, KafkaTimeoutError
from pyproducer.broker import EmbeddedBroker
from pyproducer.common.error_codes import ErrorCode
from pyproducer.hotpath import FutureRecordMetadata
from pyproducer.sender.completion import Completion
from pyproducer.sender.turns import SenderTurns
from tests.embedded.test_interrupted_turns import Interrupter, await_parked, traced
from tests.support.log_checker import read_topic


class InterruptedIn:
    """Raises KeyboardInterrupt at an event of a function, once."""

    def __init__(self, function: Any, event: str) -> None:
        self.code, self.event = function.__code__, event

    def __call__(self, frame: FrameType, event: str, arg: object) -> Any:
        if frame.f_code is self.code and event == self.event:
            sys.settrace(None)
            raise KeyboardInterrupt
        return self

    def strike(self, future: FutureRecordMetadata) -> None:
        """Wait for a record, and be interrupted in it."""
        with pytest.raises(KeyboardInterrupt), traced(self):
            future.result(60)


def test_a_caller_when_its_record_expires_in_its_turn_then_it_is_told() -> None:
    with EmbeddedBroker(topics={"t": 1}) as broker, KafkaProducer(
            {"bootstrap.servers": broker.bootstrap_servers, "retry.backoff.ms": 700, "retry.backoff.max.ms": 700,
             "request.timeout.ms": 900, "delivery.timeout.ms": 1000, "linger.ms": 0}) as producer:
        await_parked(producer)
        broker.faults.on("Produce", times=100).error(ErrorCode.NOT_ENOUGH_REPLICAS)
        with pytest.raises(KafkaTimeoutError, match="expired"):  # what its own wait would say is another text
            producer.send("t", b"v").result(60)


@pytest.mark.parametrize("is_idempotent", [True, False])
def test_a_child_process_when_it_waits_for_a_record_then_it_sends_nothing(is_idempotent: bool) -> None:
    with EmbeddedBroker(topics={"t": 1}) as broker, KafkaProducer(
            {"bootstrap.servers": broker.bootstrap_servers, "enable.idempotence": is_idempotent}) as producer:
        await_parked(producer)
        requests = producer._runtime.client.requests_sent
        future = producer.send("t", b"v")
        child = os.fork()
        if child == 0:
            try:
                future.result(0.5)
            except BaseException:
                pass
            os._exit(0 if producer._runtime.client.requests_sent <= requests + 1 and not future.done() else 1)
        offset = future.result(60).offset
        _, status = os.waitpid(child, 0)
        assert os.waitstatus_to_exitcode(status) == 0
        assert producer.send("t", b"next").result(60).offset == offset + 1
        assert [record.value for record in read_topic(broker.bootstrap_servers, "t")][-2:] == [b"v", b"next"]


def test_a_caller_when_interrupted_while_it_gives_the_role_back_then_it_may_flush_and_close() -> None:
    with EmbeddedBroker(topics={"t": 1}) as broker, KafkaProducer(
            {"bootstrap.servers": broker.bootstrap_servers}) as producer:
        await_parked(producer)
        producer.send("t", b"v")
        future = producer.send("t", b"w")
        interrupter = InterruptedIn(SenderTurns._hand_back, "call")
        interrupter.strike(future)
        assert not producer._runtime.turns.is_mine
        producer.flush(60)
        assert future.result(0).offset >= 0


def test_who_only_looks_when_records_are_on_their_way_then_the_thread_does_not_stand_aside() -> None:
    with EmbeddedBroker(topics={"t": 1}) as broker, KafkaProducer(
            {"bootstrap.servers": broker.bootstrap_servers, "linger.ms": 0}) as producer:
        producer.send("t", b"first").result(60)
        time.sleep(0.1)
        for _ in range(20):
            future = producer.send("t", b"v")
            try:
                future.result(0)
            except KafkaTimeoutError:
                pass
            while not future.done():
                assert not producer._runtime.turns._is_parked
                time.sleep(0.0005)
            time.sleep(0.002)
            assert not producer._runtime.turns._is_parked


def test_a_partition_when_interrupted_after_a_batch_expired_on_the_wire_then_it_is_not_muted_for_ever() -> None:
    with EmbeddedBroker(topics={"t": 1}) as broker, KafkaProducer(
            {"bootstrap.servers": broker.bootstrap_servers, "max.in.flight.requests.per.connection": 1,
             "retry.backoff.ms": 300, "retry.backoff.max.ms": 300, "request.timeout.ms": 1900,
             "delivery.timeout.ms": 2000, "linger.ms": 0}) as producer:
        await_parked(producer)
        broker.faults.on("Produce", times=1).error(ErrorCode.NOT_ENOUGH_REPLICAS)
        broker.faults.on("Produce", times=1).delay(8000)
        interrupter = InterruptedIn(Completion.expire, "return")
        future = producer.send("t", b"v")
        interrupter.strike(future)
        with pytest.raises(KafkaTimeoutError):
            future.result(60)
        broker.faults.clear()
        deadline = time.monotonic() + 60
        while producer.send("t", b"next").exception(60) is not None:  # two seconds may not be enough for the first
            assert time.monotonic() < deadline, "nothing is sent to the partition any more"


def test_rows_when_the_caller_who_told_of_them_was_interrupted_then_each_counts_once() -> None:
    with EmbeddedBroker(topics={"t": 1}) as broker, KafkaProducer(
            {"bootstrap.servers": broker.bootstrap_servers, "reconnect.backoff.ms": 0, "retry.backoff.ms": 0,
             "reconnect.backoff.max.ms": 0, "retry.backoff.max.ms": 0}) as producer:
        interrupted = 0
        for at in range(1, 2000):
            await_parked(producer)
            told: list[object] = []
            future = producer.send("t", b"v")
            rows = producer.send_batch("t", [b"1", b"2", b"3"])
            rows.add_done_callback(told.append)
            interrupter = InterrupterOfRows(at)
            try:
                with traced(interrupter):
                    future.result(60)
            except KeyboardInterrupt:
                interrupted += 1
            first = future.result(60).offset
            metadata = rows.result(60)
            assert list(metadata.offsets) == [first + 1, first + 2, first + 3], interrupter.where
            assert not metadata.errors, interrupter.where
            producer.flush(60)
            assert len(told) <= 1, interrupter.where
            if interrupter.left > 0 and interrupter.left < at:
                break
        assert interrupted > 5


class InterrupterOfRows(Interrupter):
    """Raises it only in what a batch tells the future of rows."""

    def __call__(self, frame: FrameType, event: str, arg: object) -> Any:
        if frame.f_code.co_filename.endswith("batch_future.py"):
            return super().__call__(frame, event, arg)
        return self


def test_a_caller_when_the_leader_is_not_connected_then_the_thread_makes_the_connection(
        monkeypatch: pytest.MonkeyPatch) -> None:
    resolved_in: list[str] = []
    with EmbeddedBroker(brokers=2, topics={"t": 2}) as broker, KafkaProducer(
            {"bootstrap.servers": broker.bootstrap_servers}) as producer:
        client = producer._runtime.client
        connect = client._connections.initiate_connect
        monkeypatch.setattr(client._connections, "initiate_connect", lambda node, now_ms: (
            resolved_in.append(threading.current_thread().name), connect(node, now_ms)))
        partitions = producer.partitions_for("t")
        assert partitions[0].leader.node_id != partitions[1].leader.node_id
        deadline = time.monotonic() + 60
        while not producer._runtime.turns._is_parked:
            assert time.monotonic() < deadline
            producer.send("t", b"warm", partition=0).result(60)
            time.sleep(0.001)
        assert producer.send("t", b"v", partition=1).result(60).offset >= 0
    assert threading.current_thread().name not in resolved_in


def test_a_caller_in_a_generator_when_it_yields_during_the_look_then_it_is_not_taken_for_gone(
        monkeypatch: pytest.MonkeyPatch) -> None:
    with EmbeddedBroker(topics={"t": 1}) as broker, KafkaProducer(
            {"bootstrap.servers": broker.bootstrap_servers}) as producer:
        turns = producer._runtime.turns

        def frames() -> Any:
            yield {turns._caller: sys._getframe()}

        generator = frames()
        snapshot = next(generator)
        monkeypatch.setattr(sys, "_current_frames", lambda: snapshot)
        assert not turns._is_abandoned()


@pytest.mark.parametrize("timeout", [float("inf"), 1e12])
def test_result_when_the_timeout_is_huge_then_the_turn_is_taken_all_the_same(
        timeout: float, caplog: pytest.LogCaptureFixture) -> None:
    with EmbeddedBroker(topics={"t": 1}) as broker, KafkaProducer(
            {"bootstrap.servers": broker.bootstrap_servers}) as producer:
        await_parked(producer)
        assert producer.send("t", b"v").result(timeout).offset >= 0
        await_parked(producer)
        future = producer.send("t", b"v")
        with pytest.raises(TypeError):
            future.result("5")  # type: ignore[arg-type]  # that is the mistake
        assert future.result(60).offset >= 0
    assert "interrupted" not in caplog.text
