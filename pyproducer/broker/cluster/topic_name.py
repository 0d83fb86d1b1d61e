"""Which topics are the cluster's own, and which names can not stand beside each other.

Road:    Metadata, CreateTopics -> [topic name]; what a name may consist of is in common/topic_name.py
Thread:  pure functions.
Source:  Java org.apache.kafka.common.internals.Topic (4.1).
"""

from __future__ import annotations

INTERNAL_TOPICS = frozenset(("__consumer_offsets", "__transaction_state", "__share_group_state"))


def collides(name: str, other: str) -> bool:
    """Return whether two names differ only in '.' and '_', which metric names can not tell apart."""
    return name.replace(".", "_") == other.replace(".", "_")
