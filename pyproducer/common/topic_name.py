"""Which topic names are allowed.

Road:    send(), send_batch(), partitions_for(); the broker's Metadata, CreateTopics -> [topic name]
Thread:  pure functions.
Source:  Java org.apache.kafka.common.internals.Topic (4.1).
"""

from __future__ import annotations

import re

from pyproducer.common.error_codes import ErrorCode
from pyproducer.common.errors import NOT_SENT, InvalidTopicError
from pyproducer.common.kafka_string import beginning

MAX_NAME_LENGTH = 249
_LEGAL = re.compile(r"[a-zA-Z0-9._-]+")


def topic_name_fault(name: str) -> str | None:
    """Return why a name is not allowed, in Kafka's words, or None."""
    if not name:
        return "Topic name is invalid: the empty string is not allowed"
    if name in (".", ".."):
        return f"Topic name is invalid: '{name}' is not allowed"
    if len(name) > MAX_NAME_LENGTH:
        return (f"Topic name is invalid: the length of '{ascii(beginning(name))[1:-1]}' is {len(name)}, "
                f"longer than the max allowed length {MAX_NAME_LENGTH}")
    if _LEGAL.fullmatch(name) is None:
        return (f"Topic name is invalid: {name!a} contains one or more characters other than ASCII "
                "alphanumerics, '.', '_' and '-'")
    return None


def ensure_topic_name(name: str) -> None:
    """Refuse a name that no broker would take, before it gets into a request.

    A name that does not fit into a request at all would fail that request, and all topics are asked for in one.

    Raises:
        InvalidTopicError: The name is not allowed. Not sent.
    """
    fault = topic_name_fault(name)
    if fault is not None:
        error = InvalidTopicError(
            f"{fault}. Use a name of 1 to {MAX_NAME_LENGTH} characters out of a-z, A-Z, 0-9, '.', '_' and '-' that is "
            "not '.' or '..'", code=ErrorCode.INVALID_TOPIC_EXCEPTION)
        error.outcome = NOT_SENT
        raise error
