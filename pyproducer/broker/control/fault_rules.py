"""Which requests something is to go wrong with, and what: the rules that a test scripts.

Road:    broker.faults -> commands -> [fault rules] -> faults.py
Thread:  any; one lock. `is_active` is read without it: while no rule is left, a request costs one look.
Source:  ours.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from pyproducer.broker.cluster.partition import Appender
from pyproducer.broker.cluster.topic_table import TopicTable
from pyproducer.broker.control.fault_lies import LIES, appender_of
from pyproducer.broker.network.request_channel import Request
from pyproducer.common.errors import ConfigError
from pyproducer.protocol.apis import ApiKeys

BEFORE_APPLY = "before_apply"
AFTER_APPLY = "after_apply"
ACTIONS = ("error", "close", "delay", "throttle", "truncate", "wrong_correlation_id", "drop", "call", *LIES)


class RequestShape(NamedTuple):
    """Where an API has its topics and partitions: in the request, and in the response."""

    topics: str
    topic_keys: tuple[str, ...]
    partitions: str | None
    partition_key: str
    answer_topics: str
    answer_partitions: str | None
    answer_partition_key: str


SHAPES: dict[ApiKeys, RequestShape] = {
    ApiKeys.PRODUCE: RequestShape("topic_data", ("name", "topic_id"), "partition_data", "index",
                                  "responses", "partition_responses", "index"),
    ApiKeys.FETCH: RequestShape("topics", ("topic", "topic_id"), "partitions", "partition",
                                "responses", "partitions", "partition_index"),
    ApiKeys.LIST_OFFSETS: RequestShape("topics", ("name",), "partitions", "partition_index",
                                       "topics", "partitions", "partition_index"),
    ApiKeys.OFFSET_COMMIT: RequestShape("topics", ("name",), "partitions", "partition_index",
                                        "topics", "partitions", "partition_index"),
    ApiKeys.OFFSET_FOR_LEADER_EPOCH: RequestShape("topics", ("topic",), "partitions", "partition",
                                                  "topics", "partitions", "partition"),
    ApiKeys.METADATA: RequestShape("topics", ("name", "topic_id"), None, "", "topics", None, ""),
}


class Filter(NamedTuple):
    """Which topic and partition; None for any."""

    topic: str | None
    partition: int | None

    def matches_topic(self, topics: TopicTable, topic: Mapping[str, Any]) -> bool:
        """Return whether an entry of a request or response, with a name or an id, is of the topic."""
        if self.topic is None:
            return True
        name = topic.get("name", topic.get("topic"))
        if name is None and topic.get("topic_id") is not None:
            found = topics.find_by_id(topic["topic_id"])
            name = None if found is None else found.name
        return bool(name == self.topic)

    def matches(self, topics: TopicTable, api_key: ApiKeys, body: Mapping[str, Any]) -> bool:
        """Return whether a request mentions the topic and partition; where the API has none, a filter never fits."""
        if self.topic is None and self.partition is None:
            return True
        shape = SHAPES.get(api_key)
        if shape is None:
            return self.partition is None and self.topic in set(_names(body))
        for topic in body.get(shape.topics) or ():
            if self.matches_topic(topics, topic) and (
                    self.partition is None or shape.partitions is None
                    or any(entry[shape.partition_key] == self.partition for entry in topic[shape.partitions])):
                return True
        return False


class Action(NamedTuple):
    """One thing that goes wrong; `arguments` are those of the method of broker.faults."""

    kind: str
    arguments: Mapping[str, Any]

    @property
    def when(self) -> str:
        """Before or after the request took effect."""
        when: str = self.arguments.get("when", BEFORE_APPLY)
        return when


class FaultRule:
    """A filter, what happens, and how often."""

    def __init__(self, rule_id: int, api_key: ApiKeys | None, filter_: Filter, client_id: str | None,
                 node_id: int | None, times: int | None, probability: float, rng: random.Random) -> None:
        self.rule_id = rule_id
        self.api_key = api_key
        self.filter = filter_
        self.client_id = client_id
        self.node_id = node_id
        self.times = times
        self.probability = probability
        self.rng = rng
        self.actions: tuple[Action, ...] = ()
        self.count = 0

    @property
    def is_open(self) -> bool:
        """Whether it may still happen."""
        return bool(self.actions) and (self.times is None or self.count < self.times)

    def matches(self, topics: TopicTable, node_id: int, request: Request) -> bool:
        """Return whether this request is meant."""
        return ((self.api_key is None or self.api_key is request.api_key)
                and (self.node_id is None or self.node_id == node_id)
                and (self.client_id is None or self.client_id == request.header.client_id)
                and self.filter.matches(topics, request.api_key, request.data))


class Story:
    """What was chosen for one request."""

    def __init__(self, rule: FaultRule) -> None:
        self.filter: Filter = rule.filter
        self.actions: tuple[Action, ...] = rule.actions
        self.random_number: int = rule.rng.randint(1, 2**20)
        # Faults.respond puts these into the answer: partitions that were taken out of the request.
        self.error_topics: list[Mapping[str, Any]] = []

    def find(self, kind: str, when: str | None = None) -> Action | None:
        """Return the action of a kind, if the story has it (at that time)."""
        for action in self.actions:
            if action.kind == kind and (when is None or action.when == when):
                return action
        return None

    def appender_of(self, topic: str, partition: int) -> Appender | None:
        """Return how a batch for a partition is appended while there is a lie about it, or None."""
        if self.filter.topic not in (None, topic) or self.filter.partition not in (None, partition):
            return None
        return next((appender_of(action.kind) for action in self.actions if action.kind in LIES), None)


class FaultRules:
    """All rules of a cluster, in the order in which they were made; the first that matches a request is applied.

    Attributes:
        is_active: Whether any rule may still happen.
    """

    def __init__(self) -> None:
        self.is_active: bool = False
        self._lock = threading.Lock()  # guards everything below, and the counts of the rules
        self._seed = random.SystemRandom().randrange(2**32)
        self._next_id = 1
        self._rules: dict[int, FaultRule] = {}

    @property
    def seed(self) -> int:
        """Where the random numbers of the rules begin: the same seed and rules make the same choices."""
        return self._seed

    @seed.setter
    def seed(self, seed: int) -> None:
        with self._lock:
            self._seed = seed
            for rule in self._rules.values():
                rule.rng = self._rng(rule.rule_id)

    def add(self, *, api: int | None = None, topic: str | None = None, partition: int | None = None,
            client_id: str | None = None, node_id: int | None = None, times: int | None = 1,
            probability: float = 1.0) -> int:
        """Make a rule that does nothing yet; return its id.

        Raises:
            ConfigError: The numbers make no sense.
        """
        if times is not None and times < 1:
            raise ConfigError("times", times, "must be at least 1, or None for always")
        if not 0 < probability <= 1:
            raise ConfigError("probability", probability, "must be above 0 and at most 1")
        with self._lock:
            rule_id = self._next_id
            self._next_id += 1
            self._rules[rule_id] = FaultRule(
                rule_id, None if api is None else ApiKeys(api), Filter(topic, partition), client_id, node_id, times,
                probability, self._rng(rule_id))
            return rule_id

    def add_action(self, rule_id: int, kind: str, arguments: Mapping[str, Any]) -> None:
        """Add what happens.

        Raises:
            ConfigError: No such rule, action or time.
        """
        action = Action(kind, arguments)
        if kind not in ACTIONS or action.when not in (BEFORE_APPLY, AFTER_APPLY):
            raise ConfigError("fault", f"{kind} {action.when}", f"known are {', '.join(ACTIONS)}, "
                                                                f"{BEFORE_APPLY}, {AFTER_APPLY}")
        with self._lock:
            rule = self._rules.get(rule_id)
            if rule is None:
                raise ConfigError("fault", rule_id, "this rule was removed")
            if kind in LIES and rule.api_key is not ApiKeys.PRODUCE:
                raise ConfigError("fault", kind, 'only Produce can be lied about: on("Produce")')
            rule.actions += (action,)
            self._look()

    def remove(self, rule_id: int | None = None) -> None:
        """Forget a rule, or all of them."""
        with self._lock:
            if rule_id is None:
                self._rules.clear()
            else:
                self._rules.pop(rule_id, None)
            self._look()

    def count(self, rule_id: int) -> int:
        """Return how often a rule was applied; 0 when it was removed."""
        rule = self._rules.get(rule_id)
        return 0 if rule is None else rule.count

    def choose(self, topics: TopicTable, node_id: int, request: Request) -> Story | None:
        """Return what goes wrong with a request, and count it."""
        with self._lock:
            for rule in self._rules.values():
                if rule.is_open and rule.matches(topics, node_id, request) and (
                        rule.probability == 1 or rule.rng.random() < rule.probability):
                    rule.count += 1
                    story = Story(rule)
                    self._look()
                    return story
        return None

    def _look(self) -> None:
        self.is_active = any(rule.is_open for rule in self._rules.values())

    def _rng(self, rule_id: int) -> random.Random:
        return random.Random(self._seed * 1_000_003 + rule_id)


def _names(value: Any) -> Iterator[str]:
    """Yield every topic name somewhere in a body whose shape is not known here."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            if isinstance(inner, str) and key in ("name", "topic", "topic_name"):
                yield inner
            elif isinstance(inner, list):
                if key in ("topic_names", "topics"):
                    yield from (item for item in inner if isinstance(item, str))
                yield from _names(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _names(inner)
