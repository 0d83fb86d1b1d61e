"""Topics that brokers say they do not know: for how long, and how many brokers.

Road:    Metadata answers -> [unknown topics] -> the waiting room, the choice of whom to ask
Thread:  any, with the lock of the metadata that it belongs to.
Source:  ours; Java waits for max.block.ms, whatever the brokers say.
"""

from __future__ import annotations

from collections.abc import Container, Iterable

# A topic that is being created is not known to every broker yet; so long nobody else is asked on purpose.
_SECOND_OPINION_AFTER_MS = 1000


class _Unknown:
    """Answers in a row that do not know a topic.

    Attributes:
        first_ms: When the first of them came.
        last_ms: When the last of them came.
        nodes: Which brokers gave them, and when each did so last; bootstrap addresses, which may be any broker, do not
            count.
    """

    __slots__ = ("first_ms", "last_ms", "nodes")

    def __init__(self, now_ms: int) -> None:
        self.first_ms = self.last_ms = now_ms
        self.nodes: dict[int, int] = {}


class UnknownTopics:
    """What the answers of brokers say of topics that they do not know."""

    def __init__(self) -> None:
        self._by_topic: dict[str, _Unknown] = {}

    def note(self, unknown: Iterable[str], known: Iterable[str], wanted: Container[str], node_id: int,
             now_ms: int) -> None:
        """Take in an answer.

        Args:
            unknown: Topics that it does not know.
            known: Topics that it does not say that of.
            wanted: Topics that are asked for; of others nothing is kept.
            node_id: Who answered; below 0 for a bootstrap address.
            now_ms: When it came.
        """
        for topic in known:
            self._by_topic.pop(topic, None)
        for topic in unknown:
            found = self._by_topic.setdefault(topic, _Unknown(now_ms))
            found.last_ms = now_ms
            if node_id >= 0:
                found.nodes[node_id] = now_ms
        for topic in [topic for topic in self._by_topic if topic not in wanted]:
            del self._by_topic[topic]

    def move(self, gap_ms: int) -> None:
        """Take every answer as so much later, in ms: nobody could ask meanwhile."""
        for found in self._by_topic.values():
            found.first_ms += gap_ms
            found.last_ms += gap_ms
            found.nodes = {node_id: last_ms + gap_ms for node_id, last_ms in found.nodes.items()}

    def witnesses(self, topic: str, since_ms: int, longest_ms: int) -> list[int] | None:
        """Return the nodes that said it, once there was no other answer for so long; None before.

        Args:
            topic: The topic.
            since_ms: From when on answers count.
            longest_ms: For how long.
        """
        found = self._by_topic.get(topic)
        if found is None or found.last_ms - max(found.first_ms, since_ms) < longest_ms:
            return None
        return [node_id for node_id, last_ms in found.nodes.items() if last_ms >= since_ms]

    def only_witness(self) -> int | None:
        """Return the node that alone said it for a while of some topic, so that another is asked."""
        for found in self._by_topic.values():
            recent_ms = found.last_ms - _SECOND_OPINION_AFTER_MS
            recent = [node_id for node_id, last_ms in found.nodes.items() if last_ms > recent_ms]
            if len(recent) == 1 and found.first_ms <= recent_ms:
                return recent[0]
        return None

    def __bool__(self) -> bool:
        return bool(self._by_topic)
