"""Which topic names are allowed.

Road:    Metadata, CreateTopics -> [topic name]
Thread:  pure functions.
Source:  Java org.apache.kafka.common.internals.Topic (4.1).
"""

from __future__ import annotations

import re

MAX_NAME_LENGTH = 249
INTERNAL_TOPICS = frozenset(("__consumer_offsets", "__transaction_state", "__share_group_state"))
_LEGAL = re.compile(r"[a-zA-Z0-9._-]+")


def topic_name_fault(name: str) -> str | None:
    """Return why a name is not allowed, in Kafka's words, or None."""
    if not name:
        return "Topic name is invalid: the empty string is not allowed"
    if name in (".", ".."):
        return f"Topic name is invalid: '{name}' is not allowed"
    if len(name) > MAX_NAME_LENGTH:
        return f"Topic name is invalid: the length of '{name}' is longer than the max allowed length {MAX_NAME_LENGTH}"
    if _LEGAL.fullmatch(name) is None:
        return (f"Topic name is invalid: '{name}' contains one or more characters other than ASCII alphanumerics, "
                "'.', '_' and '-'")
    return None


def collides(name: str, other: str) -> bool:
    """Return whether two names differ only in '.' and '_', which metric names can not tell apart."""
    return name.replace(".", "_") == other.replace(".", "_")
