"""What becomes of a batch when its request ended: for each end, the future, the callbacks, the outcome, the counts, and
buffer.memory to the byte.
"""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from pyproducer.common.clock import NEVER_MS
from pyproducer.common.error_codes import ErrorCode
from pyproducer.common.errors import (
    ApiError,
    AuthorizationError,
    DisconnectedError,
    InvalidMetadataError,
    KafkaTimeoutError,
    LocalProtocolError,
    OutOfOrderSequenceError,
    RecordRejectedError,
    RecordTooLargeError,
    RemoteProtocolError,
    RetriableError,
    UnsupportedVersionError,
)
from pyproducer.protocol.apis import ApiKeys
from tests.support.serialized import append
from tests.unit.sender.stepped_producer import RECORD_TIMESTAMP, TOPIC_ID, SteppedProducer, metadata_response

LARGE = 1000  # a batch of this size takes all records of a test


def started(**how: Any) -> SteppedProducer:
    producer = SteppedProducer(batch_size=LARGE, **how)
    producer.start()
    return producer


def plain(**how: Any) -> SteppedProducer:
    return SteppedProducer(batch_size=LARGE, idempotent=False, **how)


def assert_failed(producer: SteppedProducer, names: str, kind: type[BaseException], outcome: str) -> None:
    """Each record was told once, in order, with the kind of error and the outcome; nothing is held any more."""
    assert producer.told_names() == list(names)
    for name in names:
        error = producer.error_of(name)
        assert (type(error), error.outcome) == (kind, outcome)
    assert producer.total("record-error-total") == len(names)
    assert not producer.accumulator.has_incomplete()
    assert producer.held_bytes == 0


# Stored.

def test_success_when_answered_then_records_are_told_in_order_and_memory_is_back() -> None:
    producer = started()
    futures = [producer.append_told(name) for name in "abc"]
    producer.turn()
    assert producer.held_bytes == sum(batch.reserved_bytes for batch in producer.incomplete()) > 0
    assert not any(future.done() for future in futures)
    producer.answer_all(base_offset=40)
    assert producer.told == [("a", 40, None), ("b", 41, None), ("c", 42, None)]
    assert [future.result(0).offset for future in futures] == [40, 41, 42]
    assert [future.result(0).timestamp for future in futures] == [RECORD_TIMESTAMP] * 3
    assert producer.held_bytes == 0
    assert producer.total("record-send-total") == 1 + 3
    assert producer.total("record-error-total") == producer.total("record-retry-total") == 0


@pytest.mark.parametrize("base_offset", [2**63 - 1, 2**63 - 3, -2, -2**63])
def test_success_when_the_broker_tells_an_offset_that_no_log_has_then_none_is_told(base_offset: int) -> None:
    """The sum of offset and index ran over: rows of a call were never done, or were told a negative offset."""
    producer = started()
    futures = [producer.append_told(name) for name in "abc"]
    producer.turn()
    producer.answer_all(base_offset=base_offset)
    assert producer.told == [("a", -1, None), ("b", -1, None), ("c", -1, None)]
    assert [future.result(0).offset for future in futures] == [-1, -1, -1]


def test_requests_and_what_they_took_are_counted_by_node_also_those_without_an_answer_in_time() -> None:
    producer = started()
    before = producer.of_node(1)
    producer.append()
    producer.turn()
    producer.clock.advance(30)
    producer.answer_all()
    producer.append()
    producer.turn()
    producer.clock.advance(500)
    producer.lose(timed_out=True)
    after = producer.of_node(1)
    assert after["produce-ended-total"] - before["produce-ended-total"] == 2
    assert after["produce-time-total"] - before["produce-time-total"] == 30 + 500


def test_success_when_the_broker_stamps_then_its_time_is_told() -> None:
    producer = started()
    future = producer.append()
    producer.turn()
    producer.answer_all(base_offset=1, log_append_time_ms=5555)
    assert future.result(0).timestamp == 5555


def test_success_when_a_retry_is_answered_with_the_batchs_own_time_then_that_is_not_taken_for_the_brokers() -> None:
    """Kafka 4.1 answers a batch that it has already with the batch's largest timestamp; each record keeps its own."""
    producer = started()
    future = producer.append()
    later = RECORD_TIMESTAMP + 1000
    append(producer.accumulator, "t", 0, later, b"later")
    producer.turn()
    producer.lose()
    producer.turn(advance=100)
    producer.answer_all(base_offset=1, log_append_time_ms=later)
    assert future.result(0).timestamp == RECORD_TIMESTAMP


def test_success_when_two_partitions_share_a_request_then_each_gets_its_own_answer() -> None:
    producer = started()
    futures = [producer.append(0), producer.append(1)]
    producer.turn()
    body = producer.produce_body()
    for row in body["responses"][0]["partition_responses"]:
        row["base_offset"] = 100 + row["index"]
    producer.client.answer(body)
    assert [future.result(0).offset for future in futures] == [100, 101]


def test_duplicate_when_a_retry_was_stored_before_then_it_counts_as_stored_without_an_offset() -> None:
    producer = started()
    producer.append_told("a")
    producer.append_told("b")
    producer.turn()
    producer.lose()
    producer.turn(advance=100)
    producer.answer_all(code=ErrorCode.DUPLICATE_SEQUENCE_NUMBER)
    assert producer.told == [("a", -1, None), ("b", -1, None)]
    assert producer.total("record-send-total") == 1 + 2
    assert producer.total("record-error-total") == 0
    assert producer.held_bytes == 0


def test_acks_0_when_the_bytes_are_written_then_records_are_stored_without_an_offset() -> None:
    producer = plain(acks=0)
    producer.append_told("a")
    producer.turn()
    assert producer.held_bytes > 0
    producer.client.answer(None)
    assert producer.told == [("a", -1, None)]
    assert producer.total("record-send-total") == 1
    assert producer.held_bytes == 0


# Retried.

@pytest.mark.parametrize("code", [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_ENOUGH_REPLICAS,
                                  ErrorCode.CORRUPT_MESSAGE])
def test_retriable_error_when_answered_then_the_batch_waits_and_its_records_are_counted(code: ErrorCode) -> None:
    producer = started()
    futures = [producer.append_told(name) for name in "abc"]
    producer.turn()
    held_bytes = producer.held_bytes
    producer.answer_all(code=code)
    assert producer.told == []
    assert producer.held_bytes == held_bytes
    assert producer.total("record-retry-total") == 3
    producer.turn(advance=99)
    assert producer.client.in_flight == []
    producer.turn(advance=1)
    assert producer.sequences_on_wire() == [(0, 1)]
    producer.answer_all(code=code)
    assert producer.total("record-retry-total") == 6
    producer.turn(advance=200)
    producer.answer_all(base_offset=7)
    assert [future.result(0).offset for future in futures] == [7, 8, 9]
    assert producer.told_names() == list("abc")
    assert producer.total("record-error-total") == 0
    assert producer.held_bytes == 0


def test_retriable_error_when_retries_run_out_then_the_records_fail_and_are_counted_once() -> None:
    producer = plain(retries=2, delivery_timeout=20_000)
    producer.append_told("a")
    producer.append_told("b")
    for _ in range(3):
        producer.turn(advance=1000)
        producer.answer_all(code=ErrorCode.NOT_ENOUGH_REPLICAS)
    assert_failed(producer, "ab", RetriableError, "rejected")
    assert producer.total("record-retry-total") == 4


def test_retriable_error_when_delivery_timeout_has_passed_then_there_is_no_further_attempt() -> None:
    producer = started()
    producer.append_told("a")
    producer.turn()
    producer.clock.advance(2000)
    producer.answer_all(code=ErrorCode.NOT_ENOUGH_REPLICAS)
    assert_failed(producer, "a", RetriableError, "rejected")
    assert producer.total("record-retry-total") == 0


def test_retriable_error_when_one_ms_of_delivery_timeout_is_left_then_there_is_a_further_attempt() -> None:
    producer = started()
    producer.append_told("a")
    producer.turn()
    producer.clock.advance(1999)
    producer.answer_all(code=ErrorCode.NOT_ENOUGH_REPLICAS)
    assert producer.told == []
    assert producer.total("record-retry-total") == 1


def test_error_of_one_partition_when_another_was_stored_then_each_has_its_own_end() -> None:
    producer = started()
    producer.append_told("a", 0)
    producer.append_told("b", 1)
    producer.turn()
    body = producer.produce_body(base_offset=3)
    body["responses"][0]["partition_responses"][0].update(error_code=ErrorCode.NOT_ENOUGH_REPLICAS, base_offset=-1)
    producer.client.answer(body, received_ms=producer.clock.now_ms())
    (told,) = producer.told
    assert told[1] == 3
    assert producer.total("record-retry-total") == 1
    (left,) = producer.incomplete()
    assert producer.held_bytes == left.reserved_bytes


# Failed for good.

@pytest.mark.parametrize(("code", "kind", "outcome"), [
    (ErrorCode.TOPIC_AUTHORIZATION_FAILED, AuthorizationError, "rejected"),
    (ErrorCode.INVALID_RECORD, RecordRejectedError, "rejected"),
    (ErrorCode.UNKNOWN_SERVER_ERROR, ApiError, "unknown")])
def test_error_that_no_retry_heals_when_answered_then_the_records_fail_at_once(
        code: ErrorCode, kind: type[BaseException], outcome: str) -> None:
    producer = started()
    futures = [producer.append_told(name) for name in "abc"]
    producer.turn()
    producer.answer_all(code=code, error_message="because")
    assert_failed(producer, "abc", kind, outcome)
    with pytest.raises(kind, match=f"{code.name}.*t-0.*because"):
        futures[1].result(0)
    assert producer.total("record-retry-total") == 0


@pytest.mark.parametrize(("idempotent", "epoch"), [(True, 1), (False, -1)])
def test_error_for_good_when_answered_then_the_next_batch_is_sent_in_a_new_epoch(idempotent: bool, epoch: int) -> None:
    producer = started() if idempotent else plain()
    producer.append_told("a")
    producer.turn()
    producer.answer_all(code=ErrorCode.INVALID_RECORD)
    producer.append_told("b")
    producer.turn()
    assert producer.batches_on_wire() == [(0, 0 if idempotent else -1, epoch, [b"b" * 40])]


def test_invalid_records_when_the_broker_names_one_then_it_alone_is_blamed_and_all_are_told() -> None:
    producer = started()
    for name in "abc":
        producer.append_told(name)
    producer.turn()
    producer.answer_all(code=ErrorCode.INVALID_RECORD, error_message="refused",
                        record_errors=[{"batch_index": 1, "batch_index_error_message": "b has no key"}])
    assert_failed(producer, "abc", RecordRejectedError, "rejected")
    assert "b has no key" in str(producer.error_of("b"))
    # Whoever logs one error of many, the first for one, has the reason in it.
    for innocent in "ac":
        assert str(producer.error_of(innocent)).startswith(
            "The record is valid, but it was part of a batch that the broker refused because of another record: "
            "INVALID_RECORD: b has no key ")
        assert "refused" in str(producer.error_of(innocent).__cause__)


@pytest.mark.parametrize(("words", "told"), [
    ({1: None}, ("Schema id 7 is not registered", "Schema id 7 is not registered")),
    ({1: ""}, ("Schema id 7 is not registered", "Schema id 7 is not registered")),
    ({1: None, 2: "c has no key"}, ("c has no key", "Schema id 7 is not registered"))],
    ids=["null", "empty", "another has some"])
def test_invalid_records_when_one_is_named_without_words_then_it_gets_those_of_the_answer(
        words: dict[int, str | None], told: tuple[str, str]) -> None:
    """The words are nullable. What the broker said of all was told to nobody: "The record failed the broker's
    validation" was all that stood in any error."""
    producer = started()
    for name in "abc":
        producer.append_told(name)
    producer.turn()
    producer.answer_all(code=ErrorCode.INVALID_RECORD, error_message="Schema id 7 is not registered", record_errors=[
        {"batch_index": index, "batch_index_error_message": text} for index, text in words.items()])
    of_others, of_named = told
    assert str(producer.error_of("a")).startswith(
        f"The record is valid, but it was part of a batch that the broker refused because of another record: "
        f"INVALID_RECORD: {of_others}")
    assert str(producer.error_of("b")).startswith(f"INVALID_RECORD: {of_named}")


def test_invalid_records_when_an_earlier_attempt_was_not_answered_then_all_may_be_in_the_log() -> None:
    """The leader looks at the records before it looks whether it has them: a batch that was stored, and whose answer
    was lost, can be refused when it is sent again, where the topic's settings changed meanwhile. Its records were
    said to be "rejected", each by an error of its own, and are in the log."""
    producer = started()
    for name in "ab":
        producer.append_told(name)
    producer.turn()
    producer.lose()
    producer.turn(advance=1000)
    producer.answer_all(code=ErrorCode.INVALID_RECORD,
                        record_errors=[{"batch_index": 1, "batch_index_error_message": "b has no key"}])
    assert_failed(producer, "ab", RecordRejectedError, "unknown")
    assert "b has no key" in str(producer.error_of("b"))


def test_invalid_records_when_the_version_tells_no_names_then_all_get_the_batchs_error() -> None:
    producer = started(version=7)
    producer.append_told("a")
    producer.turn()
    producer.answer_all(code=ErrorCode.INVALID_RECORD, error_message="not in this version",
                        record_errors=[{"batch_index": 0, "batch_index_error_message": "nor this"}])
    assert_failed(producer, "a", RecordRejectedError, "rejected")
    assert "this" not in str(producer.error_of("a")).replace("INVALID_RECORD", "").split("t-0")[-1]


@pytest.mark.parametrize("end", [{"version_mismatch": UnsupportedVersionError("no common version")},
                                 {"error": RemoteProtocolError("a field does not fit")}], ids=["version", "bytes"])
def test_request_that_cannot_be_sent_when_one_of_its_batches_may_be_stored_then_the_others_are_not_sent(
        end: dict[str, Any]) -> None:
    """All batches of the request got one exception, so the doubt about one was told of all: their owners looked for
    records that were certainly not there."""
    producer = started()
    producer.append_told("a", 0)
    producer.turn()
    producer.lose()
    producer.append_told("b", 1)
    producer.turn(advance=100)
    producer.client.answer(None, was_sent=False, **end)
    while producer.client.in_flight:  # a retry goes alone
        producer.client.answer(None, was_sent=False, **end)
    producer.turn()
    while producer.client.in_flight:
        producer.client.answer(None, was_sent=False, **end)
    assert [producer.error_of(name).outcome for name in "ab"] == ["unknown", "not_sent"]


@pytest.mark.parametrize("timed_out", [False, True])
def test_request_when_its_last_bytes_were_never_written_then_the_outcome_is_not_sent(timed_out: bool) -> None:
    """However the connection ends: a broker cannot act on a part of a request."""
    producer = plain(retries=0)
    producer.append_told("a")
    producer.turn()
    producer.lose(was_sent=False, timed_out=timed_out)
    assert producer.error_of("a").outcome == "not_sent"


def test_version_mismatch_when_nothing_was_sent_then_the_records_fail_at_once_as_not_sent() -> None:
    producer = started()
    for name in "ab":
        producer.append_told(name)
    producer.turn()
    producer.client.answer(None, version_mismatch=UnsupportedVersionError("no common version"), was_sent=False)
    assert_failed(producer, "ab", UnsupportedVersionError, "not_sent")


@pytest.mark.parametrize("error", [LocalProtocolError("field x does not fit"), ValueError("field x does not fit")])
def test_request_that_cannot_be_written_then_the_records_fail_at_once_as_not_sent(error: Exception) -> None:
    producer = started()
    for name in "ab":
        producer.append_told(name)
    producer.turn()
    producer.client.answer(None, error=error, was_sent=False)
    assert_failed(producer, "ab", LocalProtocolError, "not_sent")
    assert "field x does not fit" in str(producer.error_of("a"))


def test_callback_that_raises_when_its_batch_fails_then_all_others_are_told(caplog: pytest.LogCaptureFixture) -> None:
    """One raising on_completion kept the records behind it from ever being told that they had failed."""
    producer = started()
    futures = [producer.append_told(name, raising=RuntimeError("the user's bug") if name in "ac" else None)
               for name in "abcd"]
    done: list[str] = []
    for name, future in zip("abcd", futures, strict=True):
        future.add_done_callback(lambda _, name=name: done.append(name) or 1 // (name != "b"))  # type: ignore[misc]
    producer.turn()
    producer.answer_all(code=ErrorCode.INVALID_RECORD)
    assert_failed(producer, "abcd", RecordRejectedError, "rejected")
    assert done == list("abcd")
    for future in futures:
        with pytest.raises(RecordRejectedError):
            future.result(0)
    assert caplog.text.count("on_completion of a record for t-0 raised") == 2
    assert "Uncaught error" not in caplog.text


def test_callback_that_raises_when_its_batch_expires_then_all_others_are_told() -> None:
    producer = started()
    for name in "abc":
        producer.append_told(name, raising=RuntimeError("the user's bug"))
    other = producer.append_told("other", 1)
    producer.client.is_ready_now = False
    producer.turn(advance=2000)
    assert producer.told_names() == ["a", "b", "c", "other"]
    assert isinstance(other.exception(0), KafkaTimeoutError)
    assert producer.held_bytes == 0


def test_callback_that_raises_when_its_batch_is_stored_then_all_others_are_told() -> None:
    producer = started()
    for name in "abc":
        producer.append_told(name, raising=RuntimeError("the user's bug"))
    producer.turn()
    producer.answer_all(base_offset=5)
    assert producer.told == [("a", 5, None), ("b", 6, None), ("c", 7, None)]
    assert producer.held_bytes == 0


# Too large.

def test_too_large_when_it_is_a_single_record_then_it_fails() -> None:
    producer = started()
    producer.append_told("a")
    producer.turn()
    producer.answer_all(code=ErrorCode.MESSAGE_TOO_LARGE)
    assert_failed(producer, "a", RecordTooLargeError, "rejected")
    producer.turn()
    assert producer.total("batch-split-total") == 0


def test_too_large_when_it_has_several_records_then_it_is_split_at_the_next_turn() -> None:
    producer = started()
    futures = [producer.append_told(name) for name in "abcdefgh"]
    producer.turn()
    held_bytes = producer.held_bytes
    producer.answer_all(code=ErrorCode.MESSAGE_TOO_LARGE)
    assert producer.told == []
    assert producer.held_bytes == held_bytes
    assert producer.client.in_flight == []
    stored: list[tuple[int, list[bytes | None]]] = []
    offset = 1
    while producer.accumulator.has_incomplete():
        producer.turn()
        assert producer.held_bytes == sum(batch.reserved_bytes for batch in producer.incomplete())
        ((_, sequence, epoch, values),) = producer.batches_on_wire()
        assert epoch == 0
        stored.append((sequence, values))
        producer.answer_all(base_offset=offset)
        offset += len(values)
    assert stored == [(first, [name * 40 for name in names]) for first, names in (
        (1, (b"a", b"b", b"c")), (4, (b"d", b"e", b"f")), (7, (b"g", b"h")))]
    assert [future.result(0).offset for future in futures] == list(range(1, 9))
    assert producer.told_names() == list("abcdefgh")
    assert producer.total("batch-split-total") == 1
    assert producer.total("record-retry-total") == producer.total("record-error-total") == 0
    assert producer.held_bytes == 0
    producer.append_told("i")
    producer.turn()
    assert producer.sequences_on_wire() == [(0, 9)]


def test_too_large_when_the_parts_still_are_then_they_are_split_until_single_records_fail() -> None:
    producer = plain(max_in_flight=1)
    for name in "abcdefgh":
        producer.append_told(name)
    while producer.accumulator.has_incomplete():
        producer.turn()
        producer.answer_all(code=ErrorCode.MESSAGE_TOO_LARGE)
    assert_failed(producer, "abcdefgh", RecordTooLargeError, "rejected")
    assert producer.total("batch-split-total") == 1 + 3


@pytest.mark.parametrize("splits", [1, 2])
def test_too_large_when_attempts_had_failed_before_then_the_parts_have_only_those_that_are_left(splits: int) -> None:
    """A split began the retries anew, and a second one once more: a part was tried more often than `retries` says."""
    producer = plain(max_in_flight=1, retries=2, delivery_timeout=100_000)
    for name in "abcdefgh":
        producer.append_told(name)
    producer.turn()
    producer.answer_all(code=ErrorCode.NOT_ENOUGH_REPLICAS)
    for _ in range(splits):
        producer.turn(advance=400)
        producer.answer_all(code=ErrorCode.MESSAGE_TOO_LARGE)
    tried = []
    while not producer.told:
        producer.turn(advance=400)
        ((_, _, _, values),) = producer.batches_on_wire()
        tried.append(values)
        producer.answer_all(code=ErrorCode.NOT_ENOUGH_REPLICAS)
    assert tried == [tried[0]] * 2
    assert len(tried[0]) == (3 if splits == 1 else 1)
    while producer.accumulator.has_incomplete():
        producer.turn(advance=400)
        producer.answer_all(base_offset=0)
    assert producer.total("record-error-total") == len(tried[0])


@pytest.mark.parametrize("splits", [1, 2, 3])
def test_too_large_when_the_memory_cannot_be_shared_evenly_then_the_parts_hold_all_that_the_whole_held(
        splits: int) -> None:
    """What each split left over was given out a second time while the parts were still there."""
    producer = SteppedProducer(batch_size=LARGE + 1, idempotent=False, max_in_flight=1)
    for name in "abcdefgh":
        producer.append_told(name)
    held = producer.held_bytes
    for _ in range(splits):
        producer.turn()
        parts = len(producer.incomplete())
        producer.answer_all(code=ErrorCode.MESSAGE_TOO_LARGE)
        if len(producer.incomplete()) > parts:
            assert producer.accumulator.count_held() == producer.held_bytes == held
    producer.turn()
    assert len(producer.incomplete()) > 3 or splits == 1


# The sequence.

def test_out_of_order_when_a_batch_before_failed_then_it_is_retried_as_it_is_until_that_one_came() -> None:
    producer = SteppedProducer()
    producer.start()
    first, second = producer.append(), producer.append(value=b"w" * 40)
    producer.turn()
    producer.answer_all(code=ErrorCode.NOT_ENOUGH_REPLICAS)
    producer.answer_all(code=ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    producer.turn(advance=100)
    assert producer.sequences_on_wire() == [(0, 1)]
    producer.answer_all(base_offset=1)
    producer.turn()
    assert producer.sequences_on_wire() == [(0, 2)]
    producer.answer_all(base_offset=2)
    assert (first.result(0).offset, second.result(0).offset) == (1, 2)
    assert producer.total("record-retry-total") == 2


def test_out_of_order_when_it_comes_again_and_again_then_each_time_a_new_epoch_begins() -> None:
    """A broker that lost its state refuses a batch's first number again after it did so once.

    The second refusal did not begin a new epoch: the batch was sent again with the number that the broker had just
    refused, until delivery.timeout.ms.
    """
    producer = started(delivery_timeout=20_000)
    future = producer.append()
    producer.turn()
    seen = []
    for _ in range(4):
        seen.append(producer.sequences_on_wire())
        producer.answer_all(code=ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
        producer.turn(advance=1000)
    assert seen == [[(0, 1)], [(1, 0)], [(2, 0)], [(3, 0)]]
    producer.answer_all(base_offset=1)
    assert future.result(0).offset == 1
    follower = producer.append()
    producer.turn()
    assert producer.sequences_on_wire() == [(4, 1)]
    producer.answer_all(base_offset=2)
    assert follower.result(0).offset == 2


@pytest.mark.parametrize("code", [ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.UNKNOWN_PRODUCER_ID])
def test_epoch_or_id_that_the_broker_refuses_when_it_does_so_again_then_each_time_a_new_epoch_begins(
        code: ErrorCode) -> None:
    producer = started(delivery_timeout=20_000)
    future = producer.append()
    producer.turn()
    seen = []
    for _ in range(3):
        seen.append(producer.sequences_on_wire())
        producer.answer_all(code=code)
        producer.turn(advance=1000)
    assert seen == [[(0, 1)], [(1, 0)], [(2, 0)]]
    producer.answer_all(base_offset=1)
    assert future.result(0).offset == 1


def test_invalid_epoch_when_the_batch_may_be_in_the_log_then_it_is_not_sent_in_another() -> None:
    """A simulation found it: the new epoch's number hid from the broker that it had the records."""
    producer = started(delivery_timeout=20_000)
    producer.append_told("a")
    producer.turn()
    producer.lose()
    producer.turn(advance=100)
    producer.answer_all(code=ErrorCode.INVALID_PRODUCER_EPOCH)
    producer.turn(advance=1000)
    assert producer.client.in_flight == []
    assert producer.error_of("a").outcome == "unknown"
    producer.append_told("b")
    producer.turn()
    assert producer.sequences_on_wire() == [(1, 0)], "what follows begins another epoch"


@pytest.mark.parametrize("log_start_offset", [-1, 0, 1])
def test_unknown_producer_id_when_the_batch_is_in_no_log_then_it_goes_in_a_new_epoch(log_start_offset: int) -> None:
    """Where retention had removed all, it began at 0 in the same epoch: a replica that still knew us took it for
    another record that it had, and what was told as stored was nowhere."""
    producer = started()
    future = producer.append()
    producer.turn()
    producer.answer_all(code=ErrorCode.UNKNOWN_PRODUCER_ID, log_start_offset=log_start_offset)
    producer.turn(advance=100)
    assert producer.sequences_on_wire() == [(1, 0)]
    producer.answer_all(base_offset=1)
    assert future.result(0).offset == 1


def test_unknown_producer_id_when_the_batch_may_be_in_the_log_then_it_fails_as_unknown_and_says_why() -> None:
    producer = started()
    producer.clock.advance(300_000)
    producer.append_told("a")
    producer.turn()
    producer.lose()
    producer.turn(advance=100)
    producer.answer_all(code=ErrorCode.UNKNOWN_PRODUCER_ID)
    assert_failed(producer, "a", type(producer.error_of("a")), "unknown")
    assert "the broker has forgotten producer id 7" in str(producer.error_of("a"))
    producer.append_told("b")
    producer.turn()
    assert producer.sequences_on_wire() == [(1, 0)]


def test_retriable_error_when_the_producer_id_was_refused_for_good_then_the_batch_is_not_tried_again() -> None:
    producer = started()
    producer.append_told("a")
    producer.turn()
    assert producer.manager is not None
    producer.manager.on_fatal_error(AuthorizationError("not allowed", code=31))
    producer.answer_all(code=ErrorCode.NOT_ENOUGH_REPLICAS)
    assert_failed(producer, "a", RetriableError, "rejected")


def test_epoch_bump_when_batches_of_another_partition_are_on_the_wire_then_these_keep_their_numbers() -> None:
    """Batches of the old epoch that were on the wire got new numbers: what the broker had stored was stored again."""
    producer = SteppedProducer()
    producer.start(0)
    producer.start(1)
    producer.append_told("c", 0)
    for name in "ab":
        producer.append_told(name, 1)
    producer.turn()
    first, second = producer.client.in_flight
    assert producer.batches_on_wire() == [(0, 1, 0, [b"c" * 40]), (1, 1, 0, [b"a" * 40]), (1, 2, 0, [b"b" * 40])]
    lost_body = producer.produce_body(base_offset=-1, code=ErrorCode.INVALID_RECORD, partitions=[0])
    lost_body["responses"][0]["partition_responses"].append(
        dict(lost_body["responses"][0]["partition_responses"][0], index=1, error_code=ErrorCode.NOT_ENOUGH_REPLICAS))
    producer.client.answer(lost_body, request=first, received_ms=producer.clock.now_ms())
    producer.append_told("d", 0)
    producer.append_told("e", 1)
    producer.turn(advance=100)
    # Partition 0 goes on in the new epoch. In partition 1, "a" waits for nothing, and "b" is on the wire still.
    assert producer.batches_on_wire() == [(1, 2, 0, [b"b" * 40]), (0, 0, 1, [b"d" * 40]), (1, 1, 0, [b"a" * 40])]
    producer.lose(request=second)
    producer.answer_all(base_offset=7)
    producer.turn(advance=100)
    assert producer.batches_on_wire() == [(1, 2, 0, [b"b" * 40])]
    producer.answer_all(base_offset=8)
    producer.turn()
    assert producer.batches_on_wire() == [(1, 0, 1, [b"e" * 40])]
    producer.answer_all(base_offset=9)
    assert producer.told_names() == ["c", "d", "a", "b", "e"]


def test_epoch_bump_when_a_batch_of_the_partition_is_on_the_wire_then_its_bytes_stay_and_its_retry_has_the_new_place(
        ) -> None:
    producer = SteppedProducer()
    producer.start()
    producer.append_told("a")
    producer.append_told("b")
    producer.turn()
    producer.answer_all(code=ErrorCode.INVALID_RECORD)
    producer.turn()
    assert producer.manager is not None
    assert producer.manager.producer_id_and_epoch == (7, 0), "no epoch begins while a batch is on the wire"
    producer.answer_all(code=ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)  # MockClient looks whether the bytes stayed
    producer.turn(advance=100)
    assert producer.batches_on_wire() == [(0, 0, 1, [b"b" * 40])]
    assert producer.manager.producer_id_and_epoch == (7, 1)
    producer.answer_all(base_offset=1)
    assert producer.told[1:] == [("b", 1, None)]


@pytest.mark.parametrize("code", [ErrorCode.INVALID_RECORD, ErrorCode.INVALID_PRODUCER_EPOCH,
                                  ErrorCode.UNKNOWN_PRODUCER_ID])
@pytest.mark.parametrize("is_stored", [True, False])
def test_epoch_bump_when_a_batch_before_may_be_in_the_log_then_that_is_decided_first_by_its_own_numbers(
        code: ErrorCode, is_stored: bool) -> None:
    """A batch that the broker had stored, and answered with a timeout, was stored a second time.

    The batch behind it was refused, and asked for a new epoch. In that both began at 0, so the broker could not know
    the first again. (KAFKA-14034)
    """
    producer = SteppedProducer(delivery_timeout=20_000)
    producer.start()
    for name in "abc":
        producer.append_told(name)
        producer.turn()
    producer.answer_all(code=ErrorCode.REQUEST_TIMED_OUT)  # "a": perhaps
    producer.answer_all(code=code)  # "b": no
    producer.append_told("d")
    producer.turn(advance=100)
    assert producer.batches_on_wire() == [(0, 3, 0, [b"c" * 40]), (0, 1, 0, [b"a" * 40])]
    producer.answer_all(code=ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)  # "c"
    producer.turn(advance=100)
    assert producer.batches_on_wire() == [(0, 1, 0, [b"a" * 40])], "nothing overtakes it"
    producer.answer_all(base_offset=1 if is_stored else 2)
    left = ["c", "d"] if code is ErrorCode.INVALID_RECORD else ["b", "c", "d"]
    for number, name in enumerate(left):
        producer.turn(advance=1000)
        assert producer.batches_on_wire()[0] == (0, number, 1, [name.encode() * 40])
        producer.answer_all(base_offset=3 + number)
    assert [name for name, offset, _ in producer.told if offset is not None] == ["a", *left]


def test_epoch_bump_when_a_batch_before_is_on_the_wire_then_it_waits_for_the_answer() -> None:
    """Its answer was lost, and its retry had numbers that the broker could not know."""
    producer = SteppedProducer(delivery_timeout=20_000)
    producer.start()
    for name in "ab":
        producer.append_told(name)
        producer.turn()
    first, second = producer.client.in_flight  # to two leaders, one after the other
    producer.answer_all(code=ErrorCode.INVALID_RECORD, request=second)
    producer.append_told("c")
    producer.turn(advance=100)
    assert producer.batches_on_wire() == [(0, 1, 0, [b"a" * 40])]
    producer.lose(request=first)
    producer.turn(advance=100)
    assert producer.batches_on_wire() == [(0, 1, 0, [b"a" * 40])]
    producer.answer_all(base_offset=1)
    producer.turn()
    assert producer.batches_on_wire() == [(0, 0, 1, [b"c" * 40])]


def test_epoch_bump_when_a_batch_before_in_doubt_expires_then_the_new_epoch_begins() -> None:
    producer = SteppedProducer()
    producer.start()
    for name in "ab":
        producer.append_told(name)
        producer.turn()
    producer.answer_all(code=ErrorCode.REQUEST_TIMED_OUT)
    producer.answer_all(code=ErrorCode.INVALID_RECORD)
    producer.client.is_ready_now = False
    producer.turn(advance=2000)
    assert producer.error_of("a").outcome == "unknown"
    producer.client.is_ready_now = True
    producer.append_told("c")
    producer.turn()
    assert producer.batches_on_wire() == [(0, 0, 1, [b"c" * 40])]


@pytest.mark.parametrize("code", [ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NOT_ENOUGH_REPLICAS])
def test_expiry_when_others_wait_behind_the_batch_then_they_are_sent_in_the_same_turn(code: ErrorCode) -> None:
    """They waited until somebody sent another record, or until they expired, too: the poll slept for that long."""
    producer = SteppedProducer()
    producer.start()
    producer.append_told("a")
    producer.turn()
    producer.answer_all(code=code)
    producer.client.is_ready_now = False
    producer.turn(advance=1000)
    producer.append_told("b")
    producer.client.is_ready_now = True
    producer.turn(advance=1000)
    assert producer.told_names() == ["a"]
    assert producer.batches_on_wire() == [(0, 0, 1, [b"b" * 40])]


# No answer.

def test_lost_answer_when_the_request_was_sent_then_a_later_refusal_does_not_say_that_the_record_is_not_there() -> None:
    producer = started()
    for name in "ab":
        producer.append_told(name)
    producer.turn()
    producer.lose()
    assert producer.total("record-retry-total") == 2
    producer.turn(advance=100)
    producer.answer_all(code=ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    assert_failed(producer, "ab", AuthorizationError, "unknown")


@pytest.mark.parametrize(("timed_out", "kind"), [(False, DisconnectedError), (True, KafkaTimeoutError)])
def test_lost_answer_when_no_retry_is_left_then_the_outcome_is_unknown(timed_out: bool, kind: type[Exception]) -> None:
    producer = plain(retries=0)
    producer.append_told("a")
    producer.turn()
    producer.lose(timed_out=timed_out)
    assert_failed(producer, "a", kind, "unknown")
    assert getattr(producer.error_of("a"), "phase", "request") == "request"


def test_lost_connection_when_the_request_was_not_written_whole_then_the_outcome_is_not_sent() -> None:
    producer = plain(retries=0)
    producer.append_told("a")
    producer.turn()
    producer.lose(was_sent=False)
    assert_failed(producer, "a", DisconnectedError, "not_sent")


@pytest.mark.parametrize("timed_out", [False, True])
def test_lost_connection_when_an_earlier_attempt_was_sent_then_the_outcome_is_unknown(timed_out: bool) -> None:
    producer = plain(retries=1)
    producer.append_told("a")
    producer.turn()
    producer.lose(timed_out=timed_out)
    producer.turn(advance=100)
    producer.lose(was_sent=False)
    assert_failed(producer, "a", DisconnectedError, "unknown")


def test_lost_connection_when_it_ends_then_metadata_is_refreshed_and_the_batch_is_retried_as_it_was() -> None:
    producer = started()
    future = producer.append()
    producer.turn()
    assert producer.metadata.time_to_next_update(producer.clock.now_ms()) > 100
    producer.lose()
    assert producer.metadata.time_to_next_update(producer.clock.now_ms()) <= 100
    producer.turn(advance=100)
    assert producer.sequences_on_wire() == [(0, 1)]
    producer.answer_all(base_offset=1)
    assert future.result(0).offset == 1


@pytest.mark.parametrize("code", [ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
                                  ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.KAFKA_STORAGE_ERROR])
@pytest.mark.parametrize("ends_by", ["expiry", "refusal"])
def test_error_that_leaves_the_outcome_open_when_a_later_attempt_fails_then_it_stays_unknown(
        code: ErrorCode, ends_by: str) -> None:
    """The leader had appended the batch when it answered; after that the batch expired, and was told as not_sent."""
    producer = plain()
    producer.append_told("a")
    producer.turn()
    producer.answer_all(code=code)
    if ends_by == "expiry":
        producer.client.is_ready_now = False
        producer.turn(advance=2000)
        assert_failed(producer, "a", KafkaTimeoutError, "unknown")
    else:
        producer.turn(advance=100)
        producer.answer_all(code=ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        assert_failed(producer, "a", AuthorizationError, "unknown")


def test_partition_missing_in_the_answer_when_it_is_then_the_batch_is_retried_and_its_outcome_is_open() -> None:
    producer = started()
    producer.append_told("a", 0)
    producer.append_told("b", 1)
    producer.turn()
    producer.client.answer(producer.produce_body(base_offset=3, partitions=[1]), received_ms=producer.clock.now_ms())
    assert producer.told == [("b", 3, None)]
    assert producer.total("record-retry-total") == 1
    producer.client.is_ready_now = False
    producer.turn(advance=2000)
    error = producer.error_of("a")
    assert (type(error), error.outcome) == (KafkaTimeoutError, "unknown")
    cause = error.__cause__
    while not isinstance(cause, RemoteProtocolError):
        cause = cause.__cause__
    assert "did not answer for t-0" in str(cause)
    assert producer.held_bytes == 0


def test_partition_missing_in_the_answer_when_no_retry_is_left_then_the_record_fails_as_unknown() -> None:
    producer = plain(retries=0)
    producer.append_told("a")
    producer.turn()
    producer.client.answer({"responses": [], "throttle_time_ms": 0, "node_endpoints": []})
    assert_failed(producer, "a", RemoteProtocolError, "unknown")


def test_partition_that_was_not_asked_for_when_answered_then_it_changes_nothing(
        caplog: pytest.LogCaptureFixture) -> None:
    producer = started()
    future = producer.append(0)
    producer.turn()
    body = producer.produce_body(base_offset=3)
    (rows,) = [topic["partition_responses"] for topic in body["responses"]]
    rows.insert(0, dict(rows[0], index=9, error_code=ErrorCode.INVALID_RECORD))
    producer.client.answer(body)
    assert future.result(0).offset == 3
    assert "answered for t-9, which was not asked for" in caplog.text


def test_topic_that_was_not_asked_for_when_its_name_is_not_printable_then_the_log_line_is(
        caplog: pytest.LogCaptureFixture) -> None:
    producer = started()
    future = producer.append(0)
    producer.turn()
    body = producer.produce_body(base_offset=3)
    rows = body["responses"][0]["partition_responses"]
    body["responses"].insert(0, {"name": "evil\nCRITICAL fake\x1b[31m", "partition_responses": rows})
    producer.client.answer(body)
    assert future.result(0).offset == 3
    (line,) = [record.getMessage() for record in caplog.records if "not asked for" in record.getMessage()]
    assert "answered for evil\\nCRITICAL fake\\x1b[31m-0" in line
    assert line.isprintable()


def test_error_when_the_brokers_words_are_not_printable_then_what_the_record_is_told_is() -> None:
    producer = started()
    for name in "ab":
        producer.append_told(name)
    producer.turn()
    evil = "no\n2026-01-01 CRITICAL root fake\x1b[31m"
    producer.answer_all(code=ErrorCode.INVALID_RECORD, error_message=evil,
                        record_errors=[{"batch_index": 1, "batch_index_error_message": evil}])
    for error in (producer.error_of("b"), producer.error_of("a").__cause__):
        assert "CRITICAL root fake" in str(error)
        assert str(error).isprintable()


def test_topic_id_when_metadata_forgot_it_then_the_answer_still_finds_its_batch() -> None:
    producer = started(version=13)
    future = producer.append()
    producer.turn()
    producer.metadata.update(metadata_response(topic_id=uuid.UUID(int=TOPIC_ID.int + 1)), 13, 0)
    producer.answer_all(base_offset=3)
    assert future.result(0).offset == 3


def two_topics(t_id: int, u_id: int) -> dict[str, Any]:
    body, other = metadata_response(topic_id=uuid.UUID(int=t_id)), metadata_response(topic_id=uuid.UUID(int=u_id))
    return {**body, "topics": [*body["topics"], {**other["topics"][0], "name": "u"}]}


@pytest.mark.parametrize("ids_now", [(3, 4), (2, 1)], ids=["forgotten", "exchanged"])
def test_topic_ids_when_metadata_has_others_by_now_then_those_of_the_request_say_which_batch_is_meant(
        ids_now: tuple[int, int]) -> None:
    """Both topics were created again while a request was under way (KAFKA-19397). Its answer was read with the ids of
    today: no batch was found, and batches that were stored were sent again."""
    producer = plain(version=13)
    producer.metadata.add("u", 0)
    producer.metadata.update(two_topics(1, 2), 13, 0)
    futures = [append(producer.accumulator, topic, 0, 1000, b"v").future for topic in "tu"]
    producer.turn()
    (request,) = producer.client.in_flight
    body = producer.produce_body(base_offset=3)
    for topic in body["responses"]:
        topic["partition_responses"][0]["base_offset"] = topic["topic_id"].int
    producer.metadata.update(two_topics(*ids_now), 13, 0)
    producer.client.answer(body, request=request)
    assert [future.result(0).offset for future in futures] == [1, 2]
    assert producer.total("record-retry-total") == 0
    producer.turn(advance=1000)
    assert producer.client.in_flight == []


def test_topic_id_when_it_was_not_asked_for_then_passed_over_also_where_one_topic_was(
        caplog: pytest.LogCaptureFixture) -> None:
    producer = plain(version=13)
    future = producer.append(0)
    producer.turn()
    body = producer.produce_body(base_offset=3)
    stranger = uuid.UUID(int=99)
    wrong = dict(body["responses"][0]["partition_responses"][0], base_offset=8)
    body["responses"].insert(0, {"topic_id": stranger, "name": None, "partition_responses": [wrong]})
    producer.client.answer(body)
    assert future.result(0).offset == 3
    assert f"answered for {stranger}-0, which was not asked for" in caplog.text


# The new leader (KIP-951).

@pytest.mark.parametrize("version", [10, 11, 12])
def test_new_leader_when_the_answer_names_a_node_that_metadata_does_not_know_then_it_is_used_at_once(
        version: int) -> None:
    producer = started(version=version)
    futures = [producer.append_told(name) for name in "ab"]
    producer.turn()
    producer.answer_all(code=ErrorCode.NOT_LEADER_OR_FOLLOWER, current_leader={"leader_id": 3, "leader_epoch": 9},
                        node_endpoints=[{"node_id": 3, "host": "10.1.1.3", "port": 9099, "rack": "r"}])
    node = producer.metadata.cluster.leader_for(("t", 0))
    assert node is not None
    assert (node.node_id, node.host, node.port, node.rack) == (3, "10.1.1.3", 9099, "r")
    producer.turn()
    (request,) = producer.client.in_flight
    assert (request.destination, request.api_key) == (3, ApiKeys.PRODUCE)
    producer.answer_all(base_offset=5)
    assert [future.result(0).offset for future in futures] == [5, 6]
    other = producer.metadata.cluster.leader_for(("t", 1))
    assert other is not None
    assert other.node_id == 1


@pytest.mark.parametrize("leader", [{"leader_id": 3, "leader_epoch": 9}, {"leader_id": 2, "leader_epoch": 1},
                                    {"leader_id": 2, "leader_epoch": -1}, {"leader_id": -1, "leader_epoch": 9}])
def test_new_leader_when_it_is_no_news_or_has_no_address_then_the_retry_backs_off(leader: dict[str, int]) -> None:
    producer = started()
    producer.append()
    producer.turn()
    producer.answer_all(code=ErrorCode.NOT_LEADER_OR_FOLLOWER, current_leader=leader)
    producer.turn(advance=99)
    assert producer.client.in_flight == []
    producer.turn(advance=1)
    assert [request.destination for request in producer.client.in_flight] == [1]


def test_new_leader_when_the_version_has_no_such_field_then_it_is_not_looked_for() -> None:
    producer = started(version=9)
    producer.append()
    producer.turn()
    body = producer.produce_body(code=ErrorCode.NOT_LEADER_OR_FOLLOWER)
    for row in body["responses"][0]["partition_responses"]:
        del row["current_leader"]
    del body["node_endpoints"]
    producer.client.answer(body, received_ms=producer.clock.now_ms())
    producer.turn(advance=100)
    assert [request.destination for request in producer.client.in_flight] == [1]


def test_new_leader_when_two_partitions_moved_then_both_are_sent_there() -> None:
    producer = started()
    producer.append(0)
    producer.append(1)
    producer.turn()
    producer.answer_all(code=ErrorCode.NOT_LEADER_OR_FOLLOWER, current_leader={"leader_id": 2, "leader_epoch": 5})
    producer.turn()
    assert {(request.destination, partition) for request in producer.client.in_flight
            for partition, _, _, _ in producer.batches_on_wire()} == {(2, 0), (2, 1)}


@pytest.mark.parametrize("retries", [0, 3])
@pytest.mark.parametrize(("code", "is_due"), [(ErrorCode.NOT_LEADER_OR_FOLLOWER, True),
                                              (ErrorCode.NOT_ENOUGH_REPLICAS, False)])
def test_metadata_when_an_error_says_that_it_is_stale_then_it_is_refreshed(
        code: ErrorCode, is_due: bool, retries: int) -> None:
    """Whether this batch is tried again or failed: the next one must not go to the old leader."""
    producer = started(retries=retries)
    producer.append()
    producer.turn()
    producer.answer_all(code=code)
    assert (producer.metadata.time_to_next_update(producer.clock.now_ms()) <= 100) is is_due


# Expired.

def test_expiry_when_the_batch_never_left_then_not_sent_and_all_is_given_back() -> None:
    producer = started()
    producer.client.is_ready_now = False
    futures = [producer.append_told(name) for name in "abc"]
    producer.turn(advance=1999)
    assert producer.told == []
    producer.turn(advance=1)
    assert_failed(producer, "abc", KafkaTimeoutError, "not_sent")
    with pytest.raises(KafkaTimeoutError, match=r"3 record\(s\) for t-0 expired before it could be sent: 2000 ms"):
        futures[0].result(0)


def test_expiry_when_the_batch_is_on_the_wire_then_unknown_and_memory_waits_for_the_end_of_the_request() -> None:
    producer = started()
    for name in "abc":
        producer.append_told(name)
    producer.turn()
    held_bytes = producer.held_bytes
    producer.turn(advance=1999)
    assert producer.told == []
    producer.turn(advance=1)
    assert producer.told_names() == list("abc")
    assert {producer.error_of(name).outcome for name in "abc"} == {"unknown"}
    assert producer.total("record-error-total") == 3
    assert not producer.accumulator.has_incomplete(), "flush() does not wait for it"
    assert producer.held_bytes == held_bytes, "the socket may still read its bytes"
    producer.answer_all(base_offset=1)
    assert producer.held_bytes == 0
    assert producer.told_names() == list("abc"), "told once"
    assert producer.total("record-error-total") == 3


def test_expiry_when_the_batch_is_on_the_wire_and_then_its_connection_is_lost_then_memory_comes_back() -> None:
    producer = started()
    producer.append_told("a")
    producer.turn()
    producer.turn(advance=2000)
    producer.lose()
    assert_failed(producer, "a", KafkaTimeoutError, "unknown")
    assert producer.total("record-retry-total") == 0
    producer.turn(advance=1000)
    assert producer.client.in_flight == []


@pytest.mark.parametrize("late", [ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.INVALID_RECORD,
                                  ErrorCode.NOT_LEADER_OR_FOLLOWER])
def test_expiry_when_the_batch_is_refused_afterwards_then_it_is_neither_split_nor_retried_nor_told_again(
        late: ErrorCode) -> None:
    producer = started()
    for name in "ab":
        producer.append_told(name)
    producer.turn()
    producer.turn(advance=2000)
    producer.answer_all(code=late)
    assert_failed(producer, "ab", KafkaTimeoutError, "unknown")
    producer.turn()
    assert producer.total("batch-split-total") == 0
    assert producer.total("record-retry-total") == 0


@pytest.mark.parametrize(("was_sent", "outcome"), [(True, "unknown"), (False, "not_sent")])
def test_expiry_when_the_batch_waits_for_a_retry_then_the_first_attempt_decides(was_sent: bool, outcome: str) -> None:
    """A batch whose first attempt had no answer may be in the log; expired in the queue it was told as not_sent."""
    producer = started()
    for name in "ab":
        producer.append_told(name)
    producer.turn()
    producer.lose(was_sent=was_sent)
    producer.client.is_ready_now = False
    producer.turn(advance=2000)
    assert_failed(producer, "ab", KafkaTimeoutError, outcome)
    assert "after 1 failed attempts" in str(producer.error_of("a"))
    assert "the last attempt failed with: The connection to node 1 ended" in str(producer.error_of("a"))
    assert isinstance(producer.error_of("a").__cause__, (KafkaTimeoutError, DisconnectedError))


def test_expiry_when_the_retry_of_a_refused_batch_waits_then_it_was_not_stored() -> None:
    producer = plain()
    producer.append_told("a")
    producer.turn()
    producer.answer_all(code=ErrorCode.NOT_ENOUGH_REPLICAS)
    producer.client.is_ready_now = False
    producer.turn(advance=2000)
    assert_failed(producer, "a", KafkaTimeoutError, "not_sent")


@pytest.mark.parametrize("answer", [ErrorCode.NOT_LEADER_OR_FOLLOWER, None])
def test_expiry_when_a_retry_is_on_the_wire_then_unknown(answer: ErrorCode | None) -> None:
    producer = started()
    producer.append_told("a")
    producer.turn()
    if answer is None:
        producer.lose()
    else:
        producer.answer_all(code=answer)
    producer.turn(advance=100)
    assert len(producer.client.in_flight) == 1
    producer.turn(advance=1900)
    assert producer.error_of("a").outcome == "unknown"
    producer.answer_all(base_offset=1)
    assert producer.held_bytes == 0


@pytest.mark.parametrize("is_stored", [True, False])
def test_too_large_when_an_earlier_attempt_was_not_answered_then_no_part_is_stored_a_second_time(
        *, is_stored: bool) -> None:
    """The limit was lowered in between: the whole was stored, and in a new epoch its parts were stored again."""
    producer = started()
    for name in "abcdefgh":
        producer.append_told(name)
    producer.turn()
    producer.lose()
    producer.turn(advance=100)
    producer.answer_all(code=ErrorCode.MESSAGE_TOO_LARGE)
    producer.turn(advance=100)
    ((_, sequence, epoch, _),) = producer.batches_on_wire()
    assert (sequence, epoch) == (1, 0), "one part at a time, with the whole's numbers"
    if is_stored:
        producer.answer_all(code=ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
        producer.turn(advance=100)
        assert producer.client.in_flight == []
        assert_failed(producer, "abcdefgh", OutOfOrderSequenceError, "unknown")
        return
    producer.answer_all(base_offset=1)
    producer.turn()
    producer.answer_all(code=ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)  # of another cause: it is repeated
    while producer.accumulator.has_incomplete():
        producer.turn(advance=100)
        while producer.client.in_flight:
            producer.answer_all(base_offset=100)
    assert [error for _, _, error in producer.told] == [None] * 8


def test_too_large_when_a_part_is_split_again_and_the_whole_was_stored_then_no_part_is_stored_a_second_time() -> None:
    """Only the parts of the part were given up; those behind it went out in a new epoch."""
    producer = started()
    for name in "abcdefgh":
        producer.append_told(name)
    producer.turn()
    producer.lose()
    for _ in range(2):
        producer.turn(advance=100)
        producer.answer_all(code=ErrorCode.MESSAGE_TOO_LARGE)
    producer.turn(advance=100)
    assert [len(values) for _, _, _, values in producer.batches_on_wire()] == [1]
    producer.answer_all(code=ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    producer.turn(advance=100)
    assert producer.client.in_flight == []
    assert_failed(producer, "abcdefgh", OutOfOrderSequenceError, "unknown")


def test_too_large_when_a_part_was_stored_and_another_is_split_again_then_each_refusal_is_its_own_batchs() -> None:
    """A simulation found it: a part's refusal failed two others, and it itself was never told, nor its memory freed."""
    producer = started()
    for name in "abcdefghi":
        producer.append_told(name)
    producer.turn()
    producer.lose()

    def answer_next(code: int) -> int:
        """Answer the next request; return how many records it had."""
        for _ in range(40):
            producer.turn(advance=100)
            if producer.client.in_flight:
                ((_, sequence, _, values),) = producer.batches_on_wire()
                producer.answer_all(base_offset=sequence, code=code)
                return len(values)
        raise AssertionError("nothing was sent")

    too_large, out_of_order = ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    codes = (too_large, 0, too_large, too_large, too_large, too_large, out_of_order)
    assert [answer_next(code) for code in codes] == [9, 3, 3, 1, 1, 1, 3]
    assert answer_next(0) == 3
    assert not producer.accumulator.has_incomplete()
    assert producer.held_bytes == 0
    assert [error is None for _, _, error in producer.told] == [True] * 3 + [False] * 3 + [True] * 3


def test_too_large_when_the_whole_was_stored_then_what_was_stored_behind_it_keeps_its_numbers() -> None:
    """The answers of both were lost; the new epoch that began for the parts had what is behind them stored twice."""
    producer = SteppedProducer(batch_size=170)
    producer.start()
    for name in "abcd":
        producer.append_told(name)
    producer.turn()
    assert producer.sequences_on_wire() == [(0, 1), (0, 3)]
    producer.lose()
    producer.lose()
    producer.turn(advance=100)
    producer.answer_all(code=ErrorCode.MESSAGE_TOO_LARGE)
    producer.turn(advance=100)
    producer.answer_all(code=ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    producer.turn(advance=100)
    assert producer.sequences_on_wire() == [(0, 3)], "by these numbers the broker knows it again"
    producer.answer_all(base_offset=3)
    producer.append_told("e")
    producer.turn()
    assert producer.sequences_on_wire() == [(0, 5)], "the sequence is whole: no epoch is spent"
    assert [offset for name, offset, _ in producer.told if name in "cd"] == [3, 4]


def test_expiry_when_a_batch_waits_to_be_split_then_its_parts_expire_at_its_time() -> None:
    producer = started()
    for name in "ab":
        producer.append_told(name)
    producer.turn()
    producer.answer_all(code=ErrorCode.MESSAGE_TOO_LARGE)
    producer.client.is_ready_now = False
    producer.turn(advance=2000)
    assert_failed(producer, "ab", KafkaTimeoutError, "not_sent")


def test_expiry_when_parts_of_a_split_batch_were_never_sent_then_what_follows_them_is_numbered_anew_at_once() -> None:
    producer = SteppedProducer(batch_size=190)
    producer.start()
    for name in "ab":
        producer.append_told(name)
    producer.turn()
    producer.turn(advance=1000)
    producer.append_told("c")
    producer.turn()
    assert producer.sequences_on_wire() == [(0, 1), (0, 3)]
    producer.answer_all(code=ErrorCode.MESSAGE_TOO_LARGE)
    producer.answer_all(code=ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    producer.client.is_ready_now = False
    producer.turn()
    producer.turn(advance=1000)
    assert [(name, producer.error_of(name).outcome) for name in producer.told_names()] == [
        ("a", "not_sent"), ("b", "not_sent")]
    producer.client.is_ready_now = True
    producer.turn()
    assert producer.batches_on_wire() == [(0, 0, 1, [b"c" * 40])]


def test_expiry_when_it_is_not_known_whether_a_batch_is_stored_then_what_follows_decides_whether_an_epoch_begins(
        ) -> None:
    producer = SteppedProducer()
    producer.start()
    producer.append_told("a")
    producer.turn()
    producer.turn(advance=1000)
    producer.append_told("b")
    producer.turn()
    producer.turn(advance=1000)
    producer.append_told("c")
    producer.turn()
    assert producer.sequences_on_wire() == [(0, 1), (0, 2)], "nothing new while it is open what the broker has"
    producer.lose()
    producer.answer_all(base_offset=2)
    producer.turn()
    assert producer.sequences_on_wire() == [(0, 3)], "the broker took the one behind it, so it expects the next number"
    producer.answer_all(base_offset=3)
    assert producer.told[1:] == [("b", 2, None), ("c", 3, None)]


# What a caller learns of the end.

def test_end_of_a_request_when_it_was_the_last_one_then_the_sender_has_nothing_to_wait_for() -> None:
    producer = started()
    producer.append()
    producer.turn()
    producer.answer_all(base_offset=1)
    assert producer.turn() > 1000
    assert producer.turn() <= NEVER_MS


def test_retries_run_out_when_the_last_error_tells_of_a_stale_leader_then_that_is_what_the_record_gets() -> None:
    producer = plain(retries=0)
    producer.append_told("a")
    producer.turn()
    producer.answer_all(code=ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert_failed(producer, "a", InvalidMetadataError, "unknown")
