"""What a call in a failed transaction raises: what failed, and what became of its record."""

from __future__ import annotations

import pytest

from pyproducer.common.error_codes import ErrorCode
from pyproducer.common.errors import (
    NOT_SENT,
    REJECTED,
    UNKNOWN,
    KafkaError,
    KafkaTimeoutError,
    RecordRejectedError,
    RecordTooLargeError,
)
from pyproducer.transaction.transaction_errors import abortable


@pytest.mark.parametrize(("error", "outcome", "code"), [
    (RecordTooLargeError("too large", code=ErrorCode.MESSAGE_TOO_LARGE), NOT_SENT, ErrorCode.MESSAGE_TOO_LARGE),
    (RecordRejectedError("no", code=ErrorCode.INVALID_RECORD), REJECTED, ErrorCode.INVALID_RECORD),
    (KafkaTimeoutError("late", phase="delivery"), UNKNOWN, ErrorCode.TRANSACTION_ABORTABLE)])
def test_abortable_when_a_record_failed_then_the_error_has_its_outcome_code_and_text(
        error: KafkaError, outcome: str, code: ErrorCode) -> None:
    error.outcome = outcome
    raised = abortable(error, "payments", " Look there.")
    assert (raised.outcome, raised.code, raised.__cause__) == (outcome, code, error)
    assert str(error) in str(raised)
    assert "'payments' can only be aborted" in str(raised)
    assert str(raised).endswith(" Look there.")
