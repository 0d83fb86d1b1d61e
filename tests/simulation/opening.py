"""Rare states to begin in, made on purpose: a broker that forgot its producer, then a refusal, then a lost answer.

    refused_lost    silence; the first of two batches is refused for good, the second is stored, its answer is lost
    passing         silence; the first is refused for a moment, the second is stored
    passing_lost    ... and its answer is lost
    split_codec     silence; a batch is to be split, its first part cannot be compressed, the other's answer is lost
    split_refused   silence; a batch is to be split, its first part is refused for good, the other's answer is lost
    first_split     as split_codec, without silence: the first batch of its partition
    forgotten_lost  the broker forgets the producer right after a batch whose answer is lost; no silence
    recreated_lost  the topic is made anew; the first of two batches is refused for good, the other's answer is lost
    torn_turn       a turn has batches for two nodes, and ends by an error between them
    fenced_lost     the answer to a batch is lost, and the producer's next epoch begins without it
    left_out        the answer says nothing of a batch that is stored; then it is refused for good
    restarted_lost  the answers to two batches are lost, and the brokers, old ones, restart: they know the second only

Nothing else goes wrong meanwhile. Then the seed goes on as any.

Source:  ours; each of these was a record stored twice, or behind a later one, by some client.
"""

from __future__ import annotations

from collections import deque
from typing import Any

from tests.simulation.faults import Faults, Scripted
from tests.simulation.plan import Parameters
from tests.simulation.schedule import SimClock
from tests.simulation.workload import Sent, Workload

CALLER = -6
_LOST = Scripted(is_lost=True)
_STORED = Scripted()
_INVALID_RECORD, _NOT_ENOUGH_REPLICAS, _TOO_LARGE = 87, 19, 10
_REFUSED = Scripted(_INVALID_RECORD)
_SPLIT = Scripted(_TOO_LARGE)
# What brokers do with the batches; and how many small records, which share a batch, and large ones are sent.
_SCRIPTS: dict[str, tuple[tuple[Scripted, ...], int, int]] = {
    "refused_lost": ((_REFUSED, _LOST), 0, 2),
    "passing": ((Scripted(_NOT_ENOUGH_REPLICAS), _STORED), 0, 2),
    "passing_lost": ((Scripted(_NOT_ENOUGH_REPLICAS), _LOST), 0, 3),
    "split_codec": ((Scripted(_TOO_LARGE, breaks_codec=True), _LOST), 3, 0),
    "split_refused": ((_SPLIT, _REFUSED, _LOST), 3, 1),
    "first_split": ((Scripted(_TOO_LARGE, breaks_codec=True), _LOST), 3, 0),
    "forgotten_lost": ((Scripted(is_lost=True, forgets=True),), 0, 2),
    "recreated_lost": ((_REFUSED, _LOST), 0, 2),
    "torn_turn": ((), 2, 0),
    "fenced_lost": ((Scripted(is_lost=True, fences=True),), 0, 2),
    "left_out": ((Scripted(is_left_out=True), _REFUSED), 0, 1),
    "restarted_lost": ((Scripted(is_silenced=True), Scripted(is_silenced=True, restarts=True)), 0, 2),
}
_WITHOUT_SILENCE = ("first_split", "forgotten_lost", "recreated_lost", "torn_turn", "fenced_lost", "left_out",
                    "restarted_lost")
_LARGE_BYTES = 380


class Opening:
    """Plays what a seed begins with, on its main thread.

    Args:
        parameters: Which one.
        workload: Sends.
        faults: Have the script.
        clock: Where it sleeps.
        producer: Flushed.
    """

    def __init__(self, parameters: Parameters, workload: Workload, faults: Faults, clock: SimClock,
                 producer: Any) -> None:
        self._parameters = parameters
        self._workload = workload
        self._faults = faults
        self._clock = clock
        self._producer = producer
        self._topic = next(iter(parameters.topics))
        self._order = 0

    def play(self) -> None:
        """Play it."""
        name, faults = self._parameters.opening, self._faults
        assert name is not None
        steps, small_count, large_count = _SCRIPTS[name]
        faults.is_paused = True
        if name != "first_split":
            _await(self._send(20))
        if name not in _WITHOUT_SILENCE:
            self._clock.sleep(self._parameters.silence_ms)
        if name == "recreated_lost":
            faults.recreate(self._topic)
        faults.script[self._topic, 0] = deque(steps)
        if name == "torn_turn":
            _await(self._send(20, 1))
            self._send(5, 1)
            faults.failing_sends = 1
        records = [self._send(5) for _ in range(small_count)] + [self._send(_LARGE_BYTES) for _ in range(large_count)]
        for record in records:
            _await(record)
        faults.script.clear()
        faults.failing_sends = 0
        faults.fired[f"opening {name}"] += 1
        faults.is_paused = False

    def _send(self, padding: int, partition: int = 0) -> Sent:
        self._order += 1
        record = self._workload.new_record(CALLER, self._order, self._topic, partition, padding)
        self._workload.send(record, None, None, with_callback=True)
        return record


def _await(record: Sent) -> None:
    """Wait until it is told what became of a record; there is nothing to wait for where send() refused it."""
    if record.future is not None:
        record.future.exception()
