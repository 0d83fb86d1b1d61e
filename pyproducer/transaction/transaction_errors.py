"""What a transactional call raises, in three classes that say what to do next.

    FatalProducerError          close the producer: another one has its transactional id, or it may not be used
    AbortableTransactionError   call abort_transaction(), and begin again
    KafkaTimeoutError           call the same again: what was asked for goes on meanwhile (phase "transaction")

`__cause__` is what happened: for one the error of the record that failed. A call that does not fit what the producer is
doing raises IllegalStateError, and changes nothing.

Road:    a failure -> [errors] -> commit_transaction(), send(), ...
Thread:  pure functions.
Source:  ours; Java KafkaProducer.maybeFailWithError (4.1) has the first two, and raises KafkaException for the second.
"""

from __future__ import annotations

from typing import Final

from pyproducer.common.error_codes import ErrorCode
from pyproducer.common.errors import (
    AbortableTransactionError,
    ApiError,
    FatalProducerError,
    KafkaError,
    KafkaTimeoutError,
    UnsupportedVersionError,
)

FATAL_CODES: Final = frozenset({
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED, ErrorCode.INVALID_PRODUCER_ID_MAPPING, ErrorCode.PRODUCER_FENCED,
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED})
"""Of a record, or a request in a transaction: no abort helps."""

# Calls that wait for what an abort makes needless.
_GIVEN_UP_BY_ABORT = frozenset({"prepare_transaction()", "send_offsets_to_transaction()"})
# What a coordinator, or a leader, answers a producer whose transaction it has aborted, or whose id another one has.
_FENCINGS = frozenset({ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.INVALID_TXN_STATE, ErrorCode.PRODUCER_FENCED})


def is_fatal(error: KafkaError) -> bool:
    """Whether a failure ends all transactions of a producer."""
    return isinstance(error, UnsupportedVersionError) or (isinstance(error, ApiError) and error.code in FATAL_CODES)


def _code_of(error: KafkaError, otherwise: ErrorCode) -> int:
    return error.code if isinstance(error, ApiError) else otherwise


def _sentence(error: KafkaError) -> str:
    return f"{str(error).rstrip('.')}."


def why_fenced(error: KafkaError, open_ms: int, timeout_ms: int) -> str:
    """Say what is behind a refusal by epoch: too long a transaction, or another producer; "" where it is none.

    Args:
        error: The refusal.
        open_ms: How long the transaction has been open.
        timeout_ms: transaction.timeout.ms.
    """
    if not isinstance(error, ApiError) or error.code not in _FENCINGS:
        return ""
    if open_ms >= timeout_ms:
        return (f" It was open for {open_ms} ms, and its coordinator aborts what is open for longer than "
                f"transaction.timeout.ms = {timeout_ms}: send less in one transaction, or raise that setting.")
    return " Another producer was initialised with this transactional id, or somebody ended the transaction."


def abortable(error: KafkaError, transactional_id: str, hint: str = "") -> AbortableTransactionError:
    """Return the error of a call in a transaction that can only be aborted."""
    raised = AbortableTransactionError(
        f"The transaction of transactional.id {transactional_id!r} can only be aborted: call abort_transaction(), then "
        f"begin another one. It failed with: {_sentence(error)}{hint}",
        code=_code_of(error, ErrorCode.TRANSACTION_ABORTABLE),
        api=getattr(error, "api", None), node_id=getattr(error, "node_id", None))
    raised.outcome = error.outcome
    raised.__cause__ = error
    return raised


def fatal(error: KafkaError, transactional_id: str, hint: str = "") -> FatalProducerError:
    """Return the error of a call of a producer that can only be closed."""
    raised = FatalProducerError(
        f"The producer with transactional.id {transactional_id!r} cannot go on: close it. It failed with: "
        f"{_sentence(error)}{hint}", code=_code_of(error, ErrorCode.PRODUCER_FENCED),
        api=getattr(error, "api", None), node_id=getattr(error, "node_id", None))
    raised.outcome = error.outcome
    raised.__cause__ = error
    return raised


def timed_out(call: str, max_block_ms: int, transactional_id: str, why: str) -> KafkaTimeoutError:
    """Return the error of a call that did not come to its end in time."""
    instead = "or abort_transaction()" if call in _GIVEN_UP_BY_ABORT else "nothing else may come before"
    return KafkaTimeoutError(
        f"{call} with transactional.id {transactional_id!r} was not done within max.block.ms = {max_block_ms} ms, and "
        f"goes on: call it again to wait for it, {instead}{why}", phase="transaction", outcome="unknown")
