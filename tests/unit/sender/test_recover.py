"""Sender.recover: what an interrupted turn left behind is brought to its end, whatever state a batch was in.

A bug, or a codec that gets no memory, may end a turn between any two lines. The tests stop a turn at a place and look
whether each record is stored once, in order, and told once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pyproducer.accumulator import producer_batch as producer_batch_module
from pyproducer.accumulator import record_accumulator as accumulator_module
from pyproducer.accumulator.partition_sequence import PartitionSequence
from pyproducer.accumulator.producer_batch import ProducerBatch
from pyproducer.common.error_codes import ErrorCode
from pyproducer.common.errors import DisconnectedError, KafkaTimeoutError, ProducerDeadError
from pyproducer.protocol.apis import ApiKeys
from pyproducer.sender import completion as completion_module
from pyproducer.sender import sender as sender_module
from tests.unit.sender.stepped_producer import SteppedProducer

# The two ways to have order. Without idempotence and with more than one batch in flight it is not promised.
IN_ORDER = pytest.mark.parametrize("how", [{}, {"idempotent": False, "max_in_flight": 1}], ids=["sequences", "muting"])
CALLS = pytest.mark.parametrize(("how", "call"), [
    ({}, 1), ({}, 2), ({}, 3), ({"idempotent": False, "max_in_flight": 1}, 1)],
    ids=["sequences-1", "sequences-2", "sequences-3", "muting-1"])


def started(**how: Any) -> SteppedProducer:
    producer = SteppedProducer(**how)
    producer.start()
    return producer


def interrupted() -> None:
    raise KeyboardInterrupt


def stop_turn_at(producer: SteppedProducer, part: Any, method: str, *, call: int = 1, after: bool = False) -> None:
    """Take a turn that is interrupted in the n-th call of a method: before the call does anything, or after it."""
    original: Callable[..., Any] = getattr(part, method)
    calls = 0

    def stopping(*arguments: Any, **named: Any) -> Any:
        nonlocal calls
        calls += 1
        result = None
        if calls != call or after:
            result = original(*arguments, **named)
        if calls == call:
            interrupted()
        return result

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(part, method, stopping)
        with pytest.raises(KeyboardInterrupt):
            producer.turn()


def recover(producer: SteppedProducer) -> None:
    producer.sender.recover(producer.clock.now_ms())
    assert producer.client.in_flight == []
    assert not any(batch.is_in_flight for batch in producer.incomplete())


def store_all(producer: SteppedProducer) -> list[bytes | None]:
    """Let a broker store what comes, which refuses numbers that are not the next ones; return the values in its log."""
    stored: list[bytes | None] = []
    for _ in range(30):
        if not producer.accumulator.has_incomplete():
            return stored
        producer.turn(advance=100)
        while producer.client.in_flight:
            (_, sequence, epoch, values), *_ = producer.batches_on_wire()
            if producer.manager is not None and (epoch, sequence) != (0, 1 + len(stored)):
                producer.answer_all(code=ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
                continue
            producer.answer_all(base_offset=1 + len(stored))
            stored += values
    raise AssertionError(f"records are left behind: {producer.incomplete()}")


def assert_stored_once(producer: SteppedProducer, names: str) -> None:
    assert store_all(producer) == [name.encode() * 40 for name in names]
    assert [told[:2] for told in producer.told] == [(name, 1 + index) for index, name in enumerate(names)]
    assert producer.held_bytes == 0


def test_recover_when_nothing_is_on_its_way_then_connections_are_made_anew_and_all_goes_on() -> None:
    producer = started()
    producer.clock.advance(500)
    before = producer.client
    recover(producer)
    assert before.closed
    assert producer.client is not before
    assert not producer.client.closed
    assert not producer.wakeup.is_closed
    assert producer.metadata.time_to_next_update(500) == 100, "asked again after the backoff: an answer may be lost"
    producer.append_told("a")
    assert_stored_once(producer, "a")
    assert len(producer.client.sent) == 1


@IN_ORDER
def test_recover_when_batches_are_queued_then_they_are_sent_as_if_nothing_had_happened(how: dict[str, Any]) -> None:
    producer = started(**how)
    for name in "abc":
        producer.append_told(name)
    recover(producer)
    assert [batch.attempts for batch in producer.incomplete()] == [0, 0, 0]
    assert_stored_once(producer, "abc")
    assert producer.total("record-retry-total") == 0


@CALLS
@pytest.mark.parametrize(("part", "method"), [
    ("batch", "close"), ("batch", "write_header"), ("states", "move")])
@pytest.mark.parametrize("after", [False, True])
def test_recover_when_a_batch_was_drained_and_not_sent_then_it_is_sent_in_its_place(
        how: dict[str, Any], call: int, part: str, method: str, after: bool) -> None:
    producer = started(**how)
    for name in "abcd":
        producer.append_told(name)
    stop_turn_at(producer, ProducerBatch if part == "batch" else sender_module, method, call=call, after=after)
    recover(producer)
    assert_stored_once(producer, "abcd")


@pytest.mark.parametrize("method", ["can_send", "on_drained"])
@pytest.mark.parametrize("call", [1, 2, 3])
@pytest.mark.parametrize("after", [False, True])
def test_recover_when_a_batch_was_being_numbered_then_no_number_is_lost_or_given_twice(
        method: str, call: int, after: bool) -> None:
    producer = started()
    for name in "abcd":
        producer.append_told(name)
    stop_turn_at(producer, PartitionSequence, method, call=call, after=after)
    recover(producer)
    assert_stored_once(producer, "abcd")


@CALLS
@pytest.mark.parametrize("after", [False, True])
def test_recover_when_the_turn_ended_while_it_sent_then_all_is_sent_again_with_the_same_numbers(
        how: dict[str, Any], call: int, after: bool) -> None:
    producer = started(**how)
    for name in "abcd":
        producer.append_told(name)
    stop_turn_at(producer, producer.client, "send", call=call, after=after)
    recover(producer)
    assert_stored_once(producer, "abcd")


@IN_ORDER
def test_recover_when_batches_are_in_flight_then_they_count_as_unanswered_and_back_off(how: dict[str, Any]) -> None:
    producer = started(**how)
    for name in "abc":
        producer.append_told(name)
    sent_count = 3 if producer.manager is not None else 1
    producer.client.on_poll = interrupted
    with pytest.raises(KeyboardInterrupt):
        producer.turn()
    producer.client.on_poll = None
    recover(producer)
    assert [(batch.attempts, batch.may_be_in_log) for batch in producer.incomplete()] == (
        [(1, True)] * sent_count + [(0, False)] * (3 - sent_count))
    assert producer.total("record-retry-total") == sent_count
    producer.turn(advance=99)
    assert producer.client.in_flight == []
    assert_stored_once(producer, "abc")


def test_recover_when_batches_were_in_flight_and_no_retry_is_left_then_they_fail_as_unknown() -> None:
    producer = SteppedProducer(idempotent=False, retries=0)
    producer.append_told("a")
    producer.turn()
    recover(producer)
    error = producer.error_of("a")
    assert (type(error), error.outcome) == (DisconnectedError, "unknown")
    assert "a turn of the sender ended half way" in str(error)
    assert producer.held_bytes == 0
    assert not producer.accumulator.has_incomplete()


def test_recover_when_a_batch_in_flight_is_past_its_time_then_it_fails_as_unknown() -> None:
    producer = started()
    producer.append_told("a")
    producer.turn()
    producer.clock.advance(2000)
    recover(producer)
    assert producer.error_of("a").outcome == "unknown"
    assert producer.held_bytes == 0


def test_recover_when_batches_in_flight_are_sent_again_then_they_expire_at_their_time() -> None:
    producer = started()
    producer.append_told("a")
    producer.turn()
    producer.turn(advance=500)
    recover(producer)
    producer.client.is_ready_now = False
    producer.client.poll_delay = 10_000
    assert producer.turn() <= 1500
    producer.turn(advance=1499)
    assert producer.told == []
    producer.turn(advance=1)
    assert (type(producer.error_of("a")), producer.error_of("a").outcome) == (KafkaTimeoutError, "unknown")
    assert producer.held_bytes == 0


def test_recover_when_a_batch_expired_on_the_wire_then_its_memory_does_not_come_back_twice_and_it_is_not_sent_again(
        ) -> None:
    producer = started()
    producer.append_told("a")
    producer.turn()
    producer.clock.advance(1)
    producer.append_told("b")
    producer.turn()
    producer.turn(advance=1999)
    assert producer.told_names() == ["a"]
    recover(producer)
    producer.client.is_ready_now = False
    producer.turn(advance=1)
    assert producer.told_names() == ["a", "b"]
    assert not producer.accumulator.has_incomplete()


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize(("is_sent", "part", "method"), [
    (True, "batch", "fail"), (True, "sequence", "on_end"), (True, "states", "move"),
    (False, "batch", "fail"), (False, "sequence", "on_end"), (False, "accumulator", "finish")])
def test_recover_when_the_turn_ended_while_a_batch_expired_then_it_is_told_once_and_in_time(
        is_sent: bool, part: str, method: str, after: bool) -> None:
    producer = started()
    producer.client.is_ready_now = is_sent
    producer.append_told("a")
    producer.turn()
    producer.clock.advance(2000)
    where = {"batch": ProducerBatch, "states": completion_module, "sequence": PartitionSequence}.get(part) or getattr(
        producer, part)
    stop_turn_at(producer, where, method, after=after)
    recover(producer)
    producer.client.is_ready_now = False
    producer.turn()
    assert producer.told_names() == ["a"]
    assert producer.error_of("a").outcome == ("unknown" if is_sent else producer.error_of("a").outcome)
    assert not producer.accumulator.has_incomplete()


def test_recover_when_a_batch_was_split_then_its_parts_are_sent_in_order() -> None:
    producer = started(batch_size=1000)
    for name in "abcdefgh":
        producer.append_told(name)
    producer.turn()
    producer.answer_all(code=ErrorCode.MESSAGE_TOO_LARGE)
    producer.turn()
    recover(producer)
    assert_stored_once(producer, "abcdefgh")


def test_recover_when_a_batch_waits_for_its_retry_then_its_backoff_and_its_place_stay() -> None:
    producer = started()
    for name in "ab":
        producer.append_told(name)
    producer.turn()
    producer.answer_all(code=ErrorCode.NOT_ENOUGH_REPLICAS)
    recover(producer)
    producer.turn(advance=99)
    assert producer.client.in_flight == []
    assert_stored_once(producer, "ab")


@IN_ORDER
@pytest.mark.parametrize(("part", "method"), [("batch", "complete"), ("accumulator", "finish")])
@pytest.mark.parametrize("after", [False, True])
def test_recover_when_an_answer_was_being_handled_then_nobody_is_told_twice(
        how: dict[str, Any], part: str, method: str, after: bool) -> None:
    producer = started(**how)
    for name in "ab":
        producer.append_told(name)
    producer.turn()

    def answer() -> None:
        producer.client.on_poll = None
        producer.answer_all(base_offset=1)

    producer.client.on_poll = answer
    stop_turn_at(producer, ProducerBatch if part == "batch" else producer.accumulator, method, after=after)
    recover(producer)
    producer.turn(advance=100)
    while producer.client.in_flight:
        ((_, _, _, values), *_) = producer.batches_on_wire()
        offset = 1 if values == [b"a" * 40] else 2
        producer.answer_all(base_offset=offset)
        producer.turn()
    assert [told[:2] for told in producer.told] == [("a", 1), ("b", 2)]
    assert producer.held_bytes == 0
    producer.append_told("c")
    producer.turn()
    if producer.manager is not None:
        assert producer.sequences_on_wire() == [(0, 3)]


@pytest.mark.parametrize("raised", [RuntimeError, SystemExit, KeyboardInterrupt, GeneratorExit])
def test_callback_when_it_raises_anything_then_those_behind_it_are_told_and_the_turn_goes_on(
        raised: type[BaseException]) -> None:
    producer = started(batch_size=1000)
    producer.append_told("a")
    producer.append_told("b", raising=raised("the user's bug"))
    future = producer.append_told("c")

    def answer() -> None:
        producer.client.on_poll = None
        producer.answer_all(base_offset=1)

    producer.turn()
    producer.client.on_poll = answer
    producer.turn()
    assert [told[:2] for told in producer.told] == [("a", 1), ("b", 2), ("c", 3)]
    assert future.result(0).offset == 3
    assert producer.held_bytes == 0
    assert not producer.accumulator.has_incomplete()


def test_recover_when_a_partition_was_muted_then_it_is_drained_again() -> None:
    producer = SteppedProducer(idempotent=False, max_in_flight=1)
    for name in "ab":
        producer.append_told(name)
    producer.turn()
    recover(producer)
    for offset, name in enumerate("ab"):
        producer.turn(advance=100)
        assert producer.batches_on_wire()[0][3] == [name.encode() * 40]
        producer.answer_all(base_offset=offset)
    assert [told[:2] for told in producer.told] == [("a", 0), ("b", 1)]


def test_recover_when_the_producer_id_was_on_its_way_then_it_is_asked_for_again() -> None:
    producer = SteppedProducer()
    producer.append_told("a")
    producer.turn()
    assert [request.api_key for request in producer.client.in_flight] == [ApiKeys.INIT_PRODUCER_ID]
    recover(producer)
    producer.turn()
    assert [request.api_key for request in producer.client.in_flight] == [ApiKeys.INIT_PRODUCER_ID]
    producer.client.answer({"throttle_time_ms": 0, "error_code": 0, "producer_id": 7, "producer_epoch": 0})
    producer.turn()
    assert producer.sequences_on_wire() == [(0, 0)]


def test_recover_when_several_partitions_are_on_their_way_then_each_keeps_its_own_numbers() -> None:
    producer = started()
    producer.start(1)
    for name, partition in (("a", 0), ("b", 1), ("c", 0), ("d", 1)):
        producer.append_told(name, partition)
    producer.turn()
    recover(producer)
    seen: dict[int, list[tuple[int, list[bytes | None]]]] = {0: [], 1: []}
    for _ in range(3):
        producer.turn(advance=100)
        while producer.client.in_flight:
            batches = producer.batches_on_wire()
            count = len(producer.client.in_flight)
            for partition, sequence, _, values in batches if count == 1 else batches[:2]:
                seen[partition].append((sequence, values))
            producer.answer_all(base_offset=len(producer.told))
    assert seen == {0: [(1, [b"a" * 40]), (2, [b"c" * 40])], 1: [(1, [b"b" * 40]), (2, [b"d" * 40])]}
    assert producer.held_bytes == 0


@pytest.mark.parametrize("how", [{}, {"idempotent": False}], ids=["sequences", "none"])
@pytest.mark.parametrize("raised", [MemoryError(), ValueError("the codec's bug")])
def test_codec_when_it_fails_once_then_its_batch_goes_out_uncompressed_and_one_warning_names_the_codec(
        how: dict[str, Any], raised: Exception, caplog: pytest.LogCaptureFixture) -> None:
    """Its records failed; a part of a split batch left a hole among the numbers, and what followed was stored twice."""
    producer = started(**how)
    for name in "abc":
        producer.append_told(name)
    compressor = producer.accumulator._compressor

    class FailingOnce:
        codec_id = 1
        name = "gzip"

        def compress(self, data: object) -> bytes:
            producer.accumulator._compressor = compressor
            raise raised

    producer.accumulator._compressor = FailingOnce()
    assert store_all(producer) == [b"a" * 40, b"b" * 40, b"c" * 40]
    assert [told[:2] for told in producer.told] == [("a", 1), ("b", 2), ("c", 3)]
    assert producer.held_bytes == 0
    (line,) = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert line == f"gzip could not compress 1 record(s) for t-0, which go out uncompressed: {raised!r}"


def test_codec_when_it_fails_for_a_part_of_a_split_batch_then_that_goes_by_its_numbers() -> None:
    """The part failed, and left a hole among the numbers; the part behind it went all the same. (Seed 901688)"""
    producer = started(batch_size=1000)
    for name in "abcdefgh":
        producer.append_told(name)
    producer.turn()
    producer.answer_all(code=ErrorCode.MESSAGE_TOO_LARGE)

    class Failing:
        codec_id = 1
        name = "gzip"

        def compress(self, data: object) -> bytes:
            raise MemoryError

    producer.accumulator._compressor = Failing()
    producer.turn(advance=100)
    ((_, sequence, epoch, values),) = producer.batches_on_wire()
    assert (sequence, epoch) == (1, 0)
    assert len(values) < 8
    producer.answer_all(code=ErrorCode.MESSAGE_TOO_LARGE)  # uncompressed: it is split again, by its numbers
    seen: list[tuple[int, bytes | None]] = []
    for _ in range(20):
        producer.turn(advance=100)
        for _, sequence, epoch, values in producer.batches_on_wire():
            assert epoch == 0
            seen += list(enumerate(values, sequence))
        while producer.client.in_flight:
            producer.answer_all(base_offset=seen[-1][0])
    assert seen == [(number, name.encode() * 40) for number, name in enumerate("abcdefgh", 1)]
    assert [told[2] for told in producer.told] == [None] * 8


SPLITTING = pytest.mark.parametrize(("part", "method", "call"), [
    (ProducerBatch, "split", 1), (accumulator_module, "move", 1), (accumulator_module, "move", 2),
    (ProducerBatch, "move_futures", 1), (producer_batch_module, "move_future", 4)])


@SPLITTING
@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("raised", [KeyboardInterrupt, MemoryError])
def test_split_when_it_ended_half_way_then_each_record_is_told_once_and_what_follows_goes_on(
        part: Any, method: str, call: int, after: bool, raised: type[BaseException],
        monkeypatch: pytest.MonkeyPatch) -> None:
    """The whole was neither sent nor told, or its futures looked at it for ever, or its partition was blocked."""
    producer = started(batch_size=1000)
    futures = [producer.append_told(name) for name in "abcdefgh"]
    producer.turn()
    real, calls = getattr(part, method), 0

    def stopping(*arguments: Any) -> Any:
        nonlocal calls
        calls += 1
        result = real(*arguments) if calls != call or after else None
        if calls == call:
            raise raised
        return result

    def answer() -> None:
        producer.client.on_poll = None
        producer.answer_all(code=ErrorCode.MESSAGE_TOO_LARGE)

    producer.client.on_poll = answer
    monkeypatch.setattr(part, method, stopping)
    with pytest.raises(raised):
        producer.turn()
    recover(producer)
    monkeypatch.undo()
    assert calls >= call
    store_all(producer)
    assert [told[:2] for told in producer.told] == [(name, 1 + at) for at, name in enumerate("abcdefgh")]
    assert all(future.done() and future._result.is_told for future in futures)
    assert producer.held_bytes == 0
    producer.append_told("z")
    for _ in range(3):
        producer.turn(advance=100)
        while producer.client.in_flight:
            producer.answer_all(base_offset=100)
    assert producer.told[-1][:2] == ("z", 100)


def test_abort_when_an_outcome_was_decided_and_not_told_then_it_is_told() -> None:
    """The batch was let go as done: result() and flush() of a producer that died waited for ever."""
    producer = started()
    future = producer.append_told("a")
    producer.turn()

    def answer() -> None:
        producer.client.on_poll = None
        producer.answer_all(base_offset=1)

    producer.client.on_poll = answer
    stop_turn_at(producer, ProducerBatch, "_tell")
    assert producer.sender.abort(ProducerDeadError("the recovery failed, too")) == 0
    assert [told[:2] for told in producer.told] == [("a", 1)]
    assert future._result.is_told
    assert producer.held_bytes == 0


@pytest.mark.parametrize("method", ["complete", "_tell"])
def test_recover_when_the_turn_ended_while_an_outcome_was_told_then_every_record_is_told_and_nobody_waits(
        method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The batch was let go as done: result() and flush() waited for ever."""
    producer = started()
    future = producer.append_told("a")
    producer.append_told("b")
    producer.turn()
    real = getattr(ProducerBatch, method)

    def failing_once(*arguments: Any) -> None:
        monkeypatch.undo()
        if method == "complete":
            real(*arguments)
        raise MemoryError

    monkeypatch.setattr(ProducerBatch, method, failing_once)
    with pytest.raises(MemoryError):
        producer.answer_all(base_offset=1)
    recover(producer)
    assert [told[:2] for told in producer.told] == [("a", 1)]
    assert future._result.is_told
    assert store_rest(producer, known=b"a") == [b"b" * 40]
    assert producer.told_names() == ["a", "b"]
    assert producer.held_bytes == 0


def store_rest(producer: SteppedProducer, *, known: bytes) -> list[bytes | None]:
    """Let a broker store what comes, which has the first batch already; return the values that are new in its log."""
    stored: list[bytes | None] = []
    for _ in range(30):
        if not producer.accumulator.has_incomplete():
            return stored
        producer.turn(advance=100)
        while producer.client.in_flight:
            (_, _, _, values), *_ = producer.batches_on_wire()
            if values == [known * 40]:
                producer.answer_all(code=ErrorCode.DUPLICATE_SEQUENCE_NUMBER)
            else:
                producer.answer_all(base_offset=2 + len(stored))
                stored += values
    raise AssertionError(f"records are left behind: {producer.incomplete()}")


def test_recover_when_an_answer_makes_no_sense_to_us_then_what_was_not_handled_of_it_is_sent_again() -> None:
    """Every batch of the request was failed, as unknown, although an attempt more would have told."""
    producer = started()
    producer.start(1)
    producer.append_told("a", 0)
    producer.append_told("b", 1)
    producer.turn()
    body = producer.produce_body(base_offset=1)
    del body["responses"][0]["partition_responses"][1]["base_offset"]
    with pytest.raises(KeyError):
        producer.client.answer(body)
    assert len(producer.told) == 1
    recover(producer)
    assert [(batch.attempts, batch.may_be_in_log) for batch in producer.incomplete()] == [(1, True)]
    producer.turn(advance=100)
    producer.answer_all(base_offset=1)
    assert sorted(told[:2] for told in producer.told) == [("a", 1), ("b", 1)]
    assert producer.total("record-error-total") == 0
    assert producer.held_bytes == 0


@pytest.mark.parametrize("raising", [0, 1, 2])
def test_recover_when_one_of_several_answers_raises_then_none_of_the_others_is_lost(
        raising: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The answers behind it were handed to nobody: their batches would stay on the wire for ever."""
    producer = SteppedProducer(partitions=3)
    for partition in range(3):
        producer.start(partition)
    for partition, name in enumerate("abc"):
        producer.append_told(name, partition)
        producer.turn()
    requests = list(producer.client.in_flight)
    assert len(requests) == 3

    def answer() -> None:  # as a poll hands out what came in it, one by one
        for index, request in enumerate(requests):
            if index == raising:
                monkeypatch.setattr(PartitionSequence, "on_stored", lambda *_: 1 / 0)
            producer.answer_all(base_offset=1, request=request)

    producer.client.on_poll = answer
    with pytest.raises(ZeroDivisionError):
        producer.turn()
    producer.client.on_poll = None
    monkeypatch.undo()
    assert producer.told_names() == list("abc")[:raising]
    recover(producer)
    left = producer.incomplete()
    assert [(batch.topic_partition.partition, batch.attempts, batch.may_be_in_log) for batch in left] == [
        (partition, 1, True) for partition in range(raising, 3)]
    for code in (0, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
        producer.turn(advance=100)
        while producer.client.in_flight:
            producer.answer_all(base_offset=1, code=code)
    assert sorted(producer.told_names()) == list("abc")
    assert producer.total("record-error-total") == 0
    assert producer.held_bytes == 0
    assert not producer.accumulator.has_incomplete()
