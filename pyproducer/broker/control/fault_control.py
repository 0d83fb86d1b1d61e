"""broker.faults: how a test says what goes wrong.

    broker.faults.on("Produce", topic="orders").close("after_apply")     the next one is stored, and nobody hears of it
    broker.faults.on(ApiKeys.PRODUCE, partition=2, times=3).error(ErrorCode.NOT_ENOUGH_REPLICAS)
    broker.faults.on("Metadata", node_id=2, times=None).delay(200)       from now on
    slow = broker.faults.on("Produce").delay(50).throttle(300)           both, for one request
    assert slow.count == 1
    broker.faults.on("Produce", topic="orders").swap()                    acknowledged in order, stored in another one
    broker.faults.on("Produce", after=2).error("NOT_LEADER_OR_FOLLOWER")  the third one
    broker.faults.on("SaslAuthenticate", times=None).error("SASL_AUTHENTICATION_FAILED")      nobody logs in
    both = broker.faults.on("JoinGroup", group="g", times=2).hold()       a race, in the order that the test wants
    both.await_held(2), both.release(2), both.release(1)

Road:    user -> [fault control] -> commands -> FaultRules
Thread:  any.
Source:  ours.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from pyproducer.broker.control.fault_actions import AFTER_APPLY, BEFORE_APPLY, code_of
from pyproducer.broker.network.request_channel import Request
from pyproducer.common.errors import ConfigError, KafkaTimeoutError
from pyproducer.protocol.apis import ApiKeys

Ask = Callable[..., Any]
"""Runs a command in the cluster, by its name and arguments."""

_POLL_S = 0.005


def api_id_of(api: ApiKeys | str | int) -> int:
    """Return the number of an API, given as itself, by its title ("Produce") or name ("PRODUCE"), or as a number.

    Raises:
        ConfigError: There is no such API.
    """
    for api_key in ApiKeys:
        if api == api_key or (isinstance(api, str) and api in (api_key.title, api_key.name)):
            return int(api_key)
    raise ConfigError("api", api, f"known are {', '.join(api_key.title for api_key in ApiKeys)}")


class Fault:
    """What happens to the requests that `Faults.on` named. Each method adds something and returns the same fault.

    A fault works from its first addition on; add everything before the requests come. `when` says whether the request
    takes effect: "before_apply" (it does not) or "after_apply" (it does, and the fault is in what the client hears).
    """

    def __init__(self, ask: Ask, rule_id: int) -> None:
        self._ask = ask
        self._rule_id = rule_id

    @property
    def number(self) -> int:
        """Which of the cluster's faults it is, counted from 1."""
        return self._rule_id

    def error(self, code: int | str, message: str | None = None, record_errors: Mapping[int, str] | None = None, *,
              when: str = BEFORE_APPLY) -> Fault:
        """Answer with an error code; only for the topic and partition named, if the API has some.

        A login is refused with it: SaslHandshake and SaslAuthenticate tell the code, and end the connection.

        Args:
            code: ErrorCode, its name, or any number of -32768 to 32767.
            message: The error's text, where the API has a place for it.
            record_errors: Index in the batch to text (Produce; KIP-467).
            when: See the class.

        Raises:
            ConfigError: There is no such code, or the API has no such errors.
        """
        return self._add("error", code=code_of(code), message=message, when=when, record_errors={
            str(index): text for index, text in (record_errors or {}).items()})

    def close(self, when: str = AFTER_APPLY) -> Fault:
        """Close the connection in place of answering."""
        return self._add("close", when=when)

    def delay(self, delay_ms: int, when: str = BEFORE_APPLY) -> Fault:
        """Wait, without a handler's thread: before the request is looked at, or before its answer goes out.

        The time is the broker's: `broker.clock.advance` ends it.
        """
        return self._add("delay", delay_ms=delay_ms, when=when)

    def hold(self, when: str = BEFORE_APPLY) -> Fault:
        """Keep each request until `release`, in no thread: what makes a race come out as the test wants it.

        A connection's further requests wait behind it, so that two that are to change places come over two. A client
        that hangs up meanwhile has asked all the same: the request takes effect when it is released.

        Args:
            when: Before it is looked at, or when it took effect and its answer is due.
        """
        return self._add("hold", when=when)

    def throttle(self, throttle_ms: int) -> Fault:
        """Answer at once with throttle_time_ms, and read nothing from the connection for that long (KIP-219).

        A Fetch is then answered with no topics, as brokers do, whatever else would be in its answer.
        """
        return self._add("throttle", throttle_ms=throttle_ms)

    def truncate(self, size_bytes: int, *, resize: bool = False) -> Fault:
        """Send only the first bytes of the response, its 4-byte size counted, and close the connection.

        Args:
            size_bytes: How many.
            resize: Cut the body behind the size instead, and announce the cut size: a whole frame of half a response.
        """
        return self._add("truncate", size_bytes=size_bytes, resize=resize)

    def wrong_correlation_id(self) -> Fault:
        """Answer with the number of another request."""
        return self._add("wrong_correlation_id")

    def drop(self, when: str = BEFORE_APPLY) -> Fault:
        """Never answer. The connection stays open, and nothing that follows on it is read."""
        return self._add("drop", when=when)

    def acknowledge_without_append(self) -> Fault:
        """Acknowledge what is produced, with the offset that it would have, and drop it. Produce only.

        As with the two below the producer cannot notice: whoever checks what was delivered must.
        """
        return self._add("acknowledge_without_append")

    def append_twice(self) -> Fault:
        """Store what is produced twice, one after the other, and acknowledge it once. Produce only."""
        return self._add("append_twice")

    def swap(self) -> Fault:
        """Store what is produced behind the next batch of its partition; both are told the offsets of their order.

        Until that comes it is acknowledged and not in the log. Produce only.
        """
        return self._add("swap")

    def call(self, function: Callable[[Request], Any]) -> Fault:
        """Call a function in place of the API's handler, on the handler's thread.

        Args:
            function: Gets the request; returns a response's body or an Outcome, or None to go on as usual. What it
                raises is answered like a handler's failure.

        Raises:
            ConfigError: The broker runs in a process of its own.
        """
        return self._add("call", function=function)

    @property
    def held(self) -> list[int]:
        """Which requests are held now, by their numbers: the first that was held is 1."""
        return [int(number) for number in self._ask("fault_held", rule_id=self._rule_id)]

    def await_held(self, count: int = 1, timeout_s: float = 10.0) -> None:
        """Wait until so many requests are held at the same time.

        Raises:
            KafkaTimeoutError: They were not, in this time.
        """
        deadline = time.monotonic() + timeout_s
        while len(found := self.held) < count:
            if time.monotonic() >= deadline:
                raise KafkaTimeoutError(f"Held were the requests {found} after {timeout_s} s, not {count} of them",
                                        phase="request")
            time.sleep(_POLL_S)

    def release(self, number: int | None = None) -> None:
        """Let one held request go on, by its number, or all that are held now, in the order in which they came.

        Those that come later are held, too, as often as `times` says. `remove` ends that, and lets all go on.

        Raises:
            ConfigError: No request of this number is held.
        """
        self._ask("fault_release", rule_id=self._rule_id, number=number)

    @property
    def count(self) -> int:
        """How many requests it was applied to so far."""
        return int(self._ask("fault_count", rule_id=self._rule_id))

    def await_count(self, count: int = 1, timeout_s: float = 10.0) -> None:
        """Wait until it was applied so often.

        Raises:
            KafkaTimeoutError: It was not, in this time.
        """
        deadline = time.monotonic() + timeout_s
        while (found := self.count) < count:
            if time.monotonic() >= deadline:
                raise KafkaTimeoutError(f"The fault was applied {found} times in {timeout_s} s, not {count} times",
                                        phase="request")
            time.sleep(_POLL_S)

    def remove(self) -> None:
        """End it; requests that it holds go on."""
        self._ask("fault_remove", rule_id=self._rule_id)

    def _add(self, kind: str, **arguments: Any) -> Fault:
        self._ask("fault_action", rule_id=self._rule_id, kind=kind, arguments=arguments)
        return self


class Faults:
    """The faults of a cluster. The first fault that fits a request is applied; it has others no more to look at."""

    def __init__(self, ask: Ask) -> None:
        self._ask = ask

    def on(self, api: ApiKeys | str | int | None = None, *, topic: str | None = None, partition: int | None = None,
           group: str | None = None, transactional_id: str | None = None, client_id: str | None = None,
           node_id: int | None = None, api_version: int | None = None, times: int | None = 1, after: int = 0,
           probability: float = 1.0, optional: bool = False) -> Fault:
        """Say which requests are meant: those that fit in all that is given.

        Args:
            api: Of this API; None for any.
            topic: That name this topic.
            partition: That name this partition.
            group: That name this group.
            transactional_id: That name this transactional id.
            client_id: Of this client.
            node_id: At this broker.
            api_version: Of this version.
            times: How many of them; None for all.
            after: How many that fit are let pass first: 2 is from the third on.
            probability: The part of them that is taken, at random (see `seed`).
            optional: It may be that none comes; `unused` does not tell it.

        Raises:
            ConfigError: No such API or node, an argument makes no sense, or no request of the API could fit: a
                Heartbeat names no topic.
        """
        return Fault(self._ask, self._ask(
            "fault_add", api=None if api is None else api_id_of(api), topic=topic, partition=partition, group=group,
            transactional_id=transactional_id, client_id=client_id, node_id=node_id, api_version=api_version,
            times=times, after=after, probability=probability, optional=optional))

    def fault(self, number: int) -> Fault:
        """Return a fault that was made, by its number; what it does not know any more it says when it is used."""
        return Fault(self._ask, number)

    def unused(self) -> list[str]:
        """Return the faults that no request met so far, each as it was written: a test that told no story.

        Faults that were removed, and those that are `optional`, are not told.
        """
        return [str(fault) for fault in self._ask("faults_unused")]

    @property
    def seed(self) -> int:
        """Where random choices begin. Set it, and make the same faults in the same order, to have a story again."""
        return int(self._ask("fault_seed"))

    @seed.setter
    def seed(self, seed: int) -> None:
        self._ask("set_fault_seed", seed=seed)

    def clear(self) -> None:
        """End all faults; requests that they hold go on."""
        self._ask("fault_remove", rule_id=None)
