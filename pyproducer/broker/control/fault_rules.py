"""Which requests something is to go wrong with, and what: the rules that a test scripts.

Road:    broker.faults -> commands -> [fault rules] -> faults.py, login_faults.py
Thread:  any; one lock. `is_active` is read without it: while no rule is left, a request costs one look.
Source:  ours.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from pyproducer.broker.cluster.partition import Appender
from pyproducer.broker.cluster.topic_table import TopicTable
from pyproducer.broker.control.fault_actions import AFTER_APPLY, BEFORE_APPLY, WAITS, Action, checked_action
from pyproducer.broker.control.fault_lies import LIES, appender_of
from pyproducer.broker.control.request_subjects import groups_of, subjects_of, topics_of, transactional_ids_of
from pyproducer.broker.network.request_channel import Request
from pyproducer.common.errors import ConfigError
from pyproducer.common.topic_name import topic_name_fault
from pyproducer.protocol.apis import ApiKeys


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
    """Which requests are meant; None for any.

    Attributes:
        topic: That name this topic.
        partition: That name this partition.
        group: That name this group.
        transactional_id: That name this transactional id.
    """

    topic: str | None = None
    partition: int | None = None
    group: str | None = None
    transactional_id: str | None = None

    def matches_topic(self, topics: TopicTable, topic: Mapping[str, Any]) -> bool:
        """Return whether an entry of a request or response, with a name or an id, is of the topic."""
        return self._is_topic(topics, topic.get("name", topic.get("topic")), topic.get("topic_id"))

    def matches(self, topics: TopicTable, api_key: ApiKeys, body: Mapping[str, Any]) -> bool:
        """Return whether a request mentions all that is asked for."""
        if self.group is not None and self.group not in groups_of(api_key, body):
            return False
        if self.transactional_id is not None and self.transactional_id not in transactional_ids_of(api_key, body):
            return False
        if self.topic is None and self.partition is None:
            return True
        return any(self._is_topic(topics, found.name, found.topic_id) and (
            self.partition is None or self.partition in (found.partitions or ())) for found in topics_of(body))

    def _is_topic(self, topics: TopicTable, name: str | None, topic_id: Any) -> bool:
        if self.topic is None:
            return True
        if name is None and topic_id is not None:
            found = topics.find_by_id(topic_id)
            name = None if found is None else found.name
        return name == self.topic


class FaultRule:
    """A filter, what happens, and how often."""

    def __init__(self, rule_id: int, arguments: Mapping[str, Any], api_key: ApiKeys | None, filter_: Filter,
                 rng: random.Random) -> None:
        self.rule_id = rule_id
        self.api_key = api_key
        self.filter = filter_
        self.client_id: str | None = arguments["client_id"]
        self.node_id: int | None = arguments["node_id"]
        self.api_version: int | None = arguments["api_version"]
        self.times: int | None = arguments["times"]
        self.after: int = arguments["after"]
        self.probability: float = arguments["probability"]
        self.is_optional: bool = arguments["optional"]
        self.rng = rng
        self.actions: tuple[Action, ...] = ()
        self.seen = 0  # requests that fit, those that were let pass among them
        self.count = 0
        # Requests that wait until the test lets them go, by the order in which they came to wait.
        self.held: dict[int, Callable[[], None]] = {}
        self.held_count = 0
        self._words = ", ".join(
            ([] if api_key is None else [f'"{api_key.title}"'])
            + [f"{name}={value!r}" for name, value in arguments.items() if name != "api" and value != _DEFAULTS[name]])

    @property
    def is_open(self) -> bool:
        """Whether it may still happen."""
        return bool(self.actions) and (self.times is None or self.count < self.times)

    def matches(self, topics: TopicTable, node_id: int, request: Request) -> bool:
        """Return whether this request is meant."""
        return ((self.api_key is None or self.api_key is request.api_key)
                and (self.node_id is None or self.node_id == node_id)
                and (self.client_id is None or self.client_id == request.header.client_id)
                and (self.api_version is None or self.api_version == request.header.api_version)
                and (self.filter == _ANYTHING or self.filter.matches(topics, request.api_key, request.data)))

    def __str__(self) -> str:
        return f"on({self._words}){''.join(map(str, self.actions)) or ' without anything that happens'}"


_ANYTHING = Filter()
_DEFAULTS: Mapping[str, Any] = {
    "topic": None, "partition": None, "group": None, "transactional_id": None, "client_id": None, "node_id": None,
    "api_version": None, "times": 1, "after": 0, "probability": 1.0, "optional": False}


class Story:
    """What was chosen for one request."""

    def __init__(self, rule: FaultRule) -> None:
        self.rule_id: int = rule.rule_id
        self.filter: Filter = rule.filter
        self.actions: tuple[Action, ...] = rule.actions
        self.random_number: int = rule.rng.randint(1, 2**20)
        # Faults.respond puts these into the answer: partitions that were taken out of the request.
        self.error_topics: list[Mapping[str, Any]] = []
        self._waits = {when: [action for action in rule.actions if action.kind in WAITS and action.when == when]
                       for when in (BEFORE_APPLY, AFTER_APPLY)}

    def find(self, kind: str, when: str | None = None) -> Action | None:
        """Return the action of a kind, if the story has it (at that time)."""
        for action in self.actions:
            if action.kind == kind and (when is None or action.when == when):
                return action
        return None

    def next_wait(self, when: str) -> Action | None:
        """Return what is to be waited for next at a time, each once, in the order in which the test said it."""
        waits = self._waits[when]
        return waits.pop(0) if waits else None

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
        self._lock = threading.Lock()  # guards everything below, the rules' counts and what they hold
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

    def add(self, *, api: int | None = None, **arguments: Any) -> int:
        """Make a rule that does nothing yet; return its id.

        Raises:
            ConfigError: An argument makes no sense, or the API has nothing that could fit.
        """
        for name in arguments:
            if name not in _DEFAULTS:
                raise ConfigError("fault", name, f"known are {', '.join(_DEFAULTS)}")
        given = {**_DEFAULTS, **arguments}
        api_key = None if api is None else ApiKeys(api)
        filter_ = Filter(*(given[name] for name in Filter._fields))
        _ensure_sense(api_key, given, filter_)
        with self._lock:
            rule_id = self._next_id
            self._next_id += 1
            self._rules[rule_id] = FaultRule(rule_id, given, api_key, filter_, self._rng(rule_id))
            return rule_id

    def add_action(self, rule_id: int, kind: str, arguments: Mapping[str, Any]) -> None:
        """Add what happens.

        Raises:
            ConfigError: No such rule, action or time, or the API has no place for it.
        """
        with self._lock:
            rule = self._rules.get(rule_id)
            if rule is None:
                raise ConfigError("fault", rule_id, "this rule was removed")
            rule.actions += (checked_action(rule.api_key, kind, arguments),)
            self._look()

    def remove(self, rule_id: int | None = None) -> None:
        """Forget a rule, or all of them; what it holds goes on."""
        with self._lock:
            gone = list(self._rules) if rule_id is None else [rule_id]
            rules = [rule for key in gone if (rule := self._rules.pop(key, None)) is not None]
            self._look()
            held = [go_on for rule in rules for go_on in rule.held.values()]
        for go_on in held:
            go_on()

    def count(self, rule_id: int) -> int:
        """Return how often a rule was applied; 0 when it was removed."""
        rule = self._rules.get(rule_id)
        return 0 if rule is None else rule.count

    def unused(self) -> list[str]:
        """Return the rules that no request met, but for those that say that this may be."""
        with self._lock:
            return [str(rule) for rule in self._rules.values() if not rule.count and not rule.is_optional]

    def choose(self, topics: TopicTable, node_id: int, request: Request) -> Story | None:
        """Return what goes wrong with a request, and count it."""
        with self._lock:
            for rule in self._rules.values():
                if not rule.is_open or not rule.matches(topics, node_id, request):
                    continue
                rule.seen += 1
                if rule.seen > rule.after and (rule.probability == 1 or rule.rng.random() < rule.probability):
                    rule.count += 1
                    story = Story(rule)
                    self._look()
                    return story
        return None

    # ---- requests that wait until the test lets them go

    def hold(self, rule_id: int, go_on: Callable[[], None]) -> None:
        """Keep a request until `release`; one whose rule was removed meanwhile goes on at once."""
        with self._lock:
            rule = self._rules.get(rule_id)
            if rule is not None:
                rule.held_count += 1
                rule.held[rule.held_count] = go_on
        if rule is None:
            go_on()

    def held(self, rule_id: int) -> list[int]:
        """Return which requests of a rule are held now, by their numbers: the first that was held is 1."""
        rule = self._rules.get(rule_id)
        return [] if rule is None else list(rule.held)

    def release(self, rule_id: int, number: int | None = None) -> None:
        """Let one request go on, or all that are held now, in the order in which they came.

        Raises:
            ConfigError: No such rule, or no such request is held.
        """
        with self._lock:
            rule = self._rules.get(rule_id)
            if rule is None:
                raise ConfigError("fault", rule_id, "this rule was removed")
            if number is not None and number not in rule.held:
                raise ConfigError("number", number, f"held are {list(rule.held)}")
            going = [rule.held.pop(one) for one in ([number] if number is not None else list(rule.held))]
        for go_on in going:
            go_on()

    def _look(self) -> None:
        self.is_active = any(rule.is_open for rule in self._rules.values())

    def _rng(self, rule_id: int) -> random.Random:
        return random.Random(self._seed * 1_000_003 + rule_id)


def _ensure_sense(api_key: ApiKeys | None, given: Mapping[str, Any], filter_: Filter) -> None:
    """Raise where a rule could never fit.

    Raises:
        ConfigError: It could not.
    """
    for name, least in (("partition", 0), ("node_id", 0), ("api_version", 0), ("times", 1), ("after", 0)):
        value = given[name]
        if value is None and name != "after":
            continue
        if not isinstance(value, int) or isinstance(value, bool) or value < least:
            always = ", or None for always" if name == "times" else ""
            raise ConfigError(name, value, f"must be a whole number, at least {least}{always}")
    for name in ("topic", "group", "transactional_id", "client_id"):
        if given[name] is not None and not isinstance(given[name], str):
            raise ConfigError(name, given[name], "must be a text")
    probability = given["probability"]
    if not isinstance(probability, (int, float)) or isinstance(probability, bool) or not 0 < probability <= 1:
        raise ConfigError("probability", probability, "must be above 0 and at most 1")
    if filter_.topic is not None and (reason := topic_name_fault(filter_.topic)) is not None:
        raise ConfigError("topic", filter_.topic, reason)
    if api_key is None:
        return
    for name in Filter._fields:
        if given[name] is not None and name not in subjects_of(api_key):
            raise ConfigError(name, given[name], f"{api_key.title} names no {name.replace('_', ' ')}: it never fits")
    first, last = api_key.broker_range
    if given["api_version"] is not None and not first <= given["api_version"] <= last:
        raise ConfigError("api_version", given["api_version"], f"{api_key.title} has versions {first} to {last}")
