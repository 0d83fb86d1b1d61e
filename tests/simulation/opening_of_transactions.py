"""Rare states for a transactional producer to begin in, made on purpose.

    late_end    before Transactions V2: an EndTxn is lost, and comes when the next transaction is open
    late_add    before Transactions V2: an AddPartitionsToTxn is lost, and comes when its transaction is over, the last
    fatal_fail  a batch has its producer fenced, and another one, on the way with it, is refused for good

Other faults go on meanwhile, so not each of these becomes what it was meant to be.

Source:  ours; KIP-890 and KAFKA-18957 are about the first two.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from pyproducer.protocol.apis import ApiKeys
from tests.simulation.faults import Faults, Scripted

if TYPE_CHECKING:
    from tests.simulation.transactional import Told, TransactionalCaller

_LATE_MS = 600  # long enough for a retry, and a transaction to begin
_FENCED, _NOT_ALLOWED = 90, 29

Fill = Callable[["Told"], None]


class OpeningOfTransactions:
    """Plays what a transactional producer begins with, and ends with.

    Args:
        name: Which one; see above.
        caller: Whose transactions they are.
        faults: Have the script.
    """

    def __init__(self, name: str, caller: TransactionalCaller, faults: Faults) -> None:
        self._name = name
        self._caller = caller
        self._faults = faults
        self._topic = next(iter(faults.cluster.topics))

    def play(self) -> bool:
        """Play it; return whether another transaction may follow."""
        self._faults.fired[f"opening {self._name}"] += 1
        if self._name == "late_end":
            return self._caller.one_of(self._late(ApiKeys.END_TXN)) and self._caller.one_of(self._wait_for_it)
        if self._name == "fatal_fail":
            return self._caller.one_of(self._fail_twice)
        return True

    def play_last(self) -> None:
        """Play what comes behind the last transaction of all."""
        if self._name == "late_add":
            self._caller.one_of(self._late(ApiKeys.ADD_PARTITIONS_TO_TXN))
            self._caller.sleep_ms(2 * _LATE_MS)

    def _late(self, api_key: ApiKeys) -> Fill:
        def fill(told: Told) -> None:
            self._faults.late_requests[api_key] = _LATE_MS
            self._caller.send_to(told, self._topic, 0)

        return fill

    def _wait_for_it(self, told: Told) -> None:
        self._caller.send_to(told, self._topic, 0)
        self._caller.sleep_ms(2 * _LATE_MS)
        self._caller.send_to(told, self._topic, 0)

    def _fail_twice(self, told: Told) -> None:
        script = self._faults.script
        places = [(self._topic, partition) for partition in range(len(self._faults.cluster.topics[self._topic]))]
        script[places[0]] = deque((Scripted(_FENCED), Scripted(_NOT_ALLOWED)))
        for place in places[1:]:
            script[place] = deque((Scripted(_NOT_ALLOWED),))
        try:
            for place in places:
                self._caller.send_to(told, *place)
            self._caller.sleep_ms(_LATE_MS)
        finally:
            for place in places:
                script.pop(place, None)
