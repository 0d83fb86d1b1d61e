"""KafkaError and Message as programs of confluent-kafka ask them; which error of ours is which code."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

import pyproducer as ours
from pyproducer.compat.confluent_kafka import TIMESTAMP_NOT_AVAILABLE, KafkaError, KafkaException, Message
from pyproducer.compat.confluent_messages import error_of, raised_for


def test_codes_when_compared_with_theirs_then_each_name_has_the_same_number() -> None:
    theirs = pytest.importorskip("confluent_kafka").KafkaError
    codes = {name: code for name in dir(theirs) if isinstance(code := getattr(theirs, name), int)}
    assert len(codes) > 150
    # What a newer librdkafka knows of brokers' codes is not a mistake here.
    known = {name: code for name, code in codes.items() if code < 0 or code in set(map(int, ours.ErrorCode))}
    assert {name: getattr(KafkaError, name, None) for name in known} == known
    assert {code: KafkaError(code).name() for code in known.values()} == {code: name for name, code in known.items()}


def test_error_when_asked_then_it_says_what_it_was_made_of() -> None:
    error = KafkaError(KafkaError._MSG_TIMED_OUT, "gone", fatal=True, txn_requires_abort=True)
    assert (error.code(), error.name(), error.str()) == (-192, "_MSG_TIMED_OUT", "gone")
    assert (error.fatal(), error.retriable(), error.txn_requires_abort()) == (True, False, True)
    assert repr(error) == str(error) == 'KafkaError{FATAL,code=_MSG_TIMED_OUT,val=-192,str="gone"}'
    assert KafkaError(KafkaError._QUEUE_FULL).str() == "queue full"
    assert KafkaError(9999).name() == "ERR_9999?"


def test_error_when_compared_then_its_code_counts() -> None:
    error = KafkaError(KafkaError._QUEUE_FULL, "full")
    assert error == KafkaError._QUEUE_FULL == -184
    assert error == KafkaError(-184, "other words")
    assert error != KafkaError._FATAL
    assert error in {KafkaError(-184)}
    assert error < KafkaError.NO_ERROR <= KafkaError(0)
    assert error is not None
    assert error != "full"
    assert error


def test_exception_when_pickled_then_its_error_is_the_same() -> None:
    raised = KafkaException(KafkaError(KafkaError._STATE, "closed", fatal=True))
    again = pickle.loads(pickle.dumps(raised))
    assert str(again) == str(raised) == 'KafkaError{FATAL,code=_STATE,val=-172,str="closed"}'
    assert again.args[0].fatal()


def of_partition(error: ours.KafkaError, partition: int) -> ours.KafkaError:
    error.partition = partition
    return error


def with_outcome(error: ours.KafkaError, outcome: str) -> ours.KafkaError:
    error.outcome = outcome
    return error



@pytest.mark.parametrize(("cause", "of_record", "of_call"), [
    (ours.KafkaTimeoutError("t", phase="delivery"), "_MSG_TIMED_OUT", "_TIMED_OUT"),
    (ours.KafkaTimeoutError("the broker answered UNKNOWN_TOPIC_OR_PARTITION (3)", phase="metadata"), "_UNKNOWN_TOPIC",
     "_TIMED_OUT"),
    (ours.BufferExhaustedError("t"), "_QUEUE_FULL", "_QUEUE_FULL"),
    (ours.UnknownTopicOrPartitionError("t", code=3), "_UNKNOWN_TOPIC", "_UNKNOWN_TOPIC"),
    (of_partition(ours.UnknownTopicOrPartitionError("t", code=3), 7), "_UNKNOWN_PARTITION", "_UNKNOWN_PARTITION"),
    (ours.RecordTooLargeError("t", code=10), "MSG_SIZE_TOO_LARGE", "MSG_SIZE_TOO_LARGE"),
    (ours.UnknownApiError("t", code=999), "UNKNOWN", "UNKNOWN"),
    (ours.AuthenticationError("t"), "_AUTHENTICATION", "_AUTHENTICATION"),
    (ours.DisconnectedError("t"), "_TRANSPORT", "_TRANSPORT"),
    (ours.TransactionAbortedError("t"), "_PURGE_QUEUE", "_FAIL"),
    (with_outcome(ours.TransactionAbortedError("t"), "unknown"), "_PURGE_INFLIGHT", "_FAIL"),
    (ours.ProducerClosedError("t"), "_PURGE_QUEUE", "_STATE"),
    (ours.FatalProducerError("t", code=ours.ErrorCode.PRODUCER_FENCED), "_FENCED", "_FENCED"),
    (ours.FatalProducerError("t", code=53), "TRANSACTIONAL_ID_AUTHORIZATION_FAILED",
     "TRANSACTIONAL_ID_AUTHORIZATION_FAILED"),
    (ours.IllegalStateError("t"), "_STATE", "_STATE"),
    (ValueError("t"), "_INVALID_ARG", "_INVALID_ARG"),
])
def test_failure_when_it_is_told_then_librdkafkas_code_means_the_same(cause: Exception, of_record: str,
                                                                      of_call: str) -> None:
    told, raised = error_of(cause, is_of_record=True), error_of(cause)
    assert (told.name(), raised.name()) == (of_record, of_call)
    assert told.str() == raised.str() == str(cause)
    assert told.fatal() is raised.fatal() is isinstance(cause, ours.FatalProducerError)
    assert raised.retriable() is (of_call == "_TIMED_OUT")
    assert not told.retriable()


def test_transaction_when_it_can_only_be_aborted_then_the_error_says_so() -> None:
    error = error_of(ours.AbortableTransactionError("t", code=ours.ErrorCode.TRANSACTION_ABORTABLE))
    assert (error.name(), error.txn_requires_abort(), error.fatal()) == ("TRANSACTION_ABORTABLE", True, False)


def test_call_when_the_producer_is_closed_then_it_raises_what_theirs_does() -> None:
    raised = raised_for(ours.ProducerClosedError("by thread 7"))
    assert type(raised) is RuntimeError
    assert str(raised) == "Producer has been closed: by thread 7"


def test_message_when_nothing_is_known_then_none_is() -> None:
    message = Message()
    read: dict[str, Any] = {name: getattr(message, name)() for name in (
        "topic", "partition", "offset", "key", "value", "headers", "error", "latency", "leader_epoch")}
    assert read == dict.fromkeys(read)
    assert message.timestamp() == (TIMESTAMP_NOT_AVAILABLE, 0)
    assert len(message) == 0


def test_message_when_a_part_is_set_then_it_is_read() -> None:
    message = Message("t", value=b"four")
    assert len(message) == 4
    for name in ("topic", "key", "value", "headers", "error"):
        getattr(message, f"set_{name}")(name)
        assert getattr(message, name)() == name
