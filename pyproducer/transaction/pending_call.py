"""A call of the application that waits for the sender: its outcome, told once.

Road:    init_transactions(), commit_transaction(), ... -> [pending call] <- requests of the client's own
Thread:  the sender settles it once; callers wait in cells of their own.
Source:  Java TransactionalRequestResult, TransactionManager.PendingStateTransition (4.1).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyproducer.common.errors import KafkaError
from pyproducer.common.waiting import Cell, Waiters


class PendingCall:
    """The outcome of a call; see Transactions for which.

    Args:
        call: Its name.
        make_cell: Makes cells to wait in.

    Attributes:
        call: Its name.
        binds: The transactional id that init_transactions() asks for.
        leaves_prepared: Whether init_transactions() asks for the id whose transaction is prepared.
        gives_up: The prepare_transaction() in whose place an abort came.
        is_ended: Whether the transaction is ended, so that nothing that comes later can make the call fail.
        is_left: Whether its caller is gone and has no place to learn the outcome, as a block that is over: then nobody
            has to repeat it.
        is_told: Whether the call returned, or raised, with its outcome. Until then it is the only one that may be
            repeated.
        waiters: Who waits for the outcome.
    """

    __slots__ = ("_outcomes", "binds", "call", "gives_up", "is_ended", "is_left", "is_told",
                 "leaves_prepared", "waiters")

    def __init__(self, call: str, make_cell: Callable[[], Cell], binds: str = "",
                 gives_up: PendingCall | None = None) -> None:
        self.call: str = call
        self.binds: str = binds
        self.leaves_prepared: bool = False
        self.gives_up: PendingCall | None = gives_up
        self.is_ended: bool = False
        self.is_left: bool = False
        self.is_told: bool = False
        # The first one counts: two threads may settle at once, and none gets a part of the other's.
        self._outcomes: list[tuple[KafkaError | None, Any]] = []
        self.waiters: Waiters = Waiters(make_cell)

    @property
    def is_set(self) -> bool:
        """Whether the outcome is known."""
        return bool(self._outcomes)

    @property
    def error(self) -> KafkaError | None:
        """Why it failed, or None."""
        return self._outcomes[0][0] if self._outcomes else None

    @property
    def value(self) -> Any:
        """What it returns."""
        return self._outcomes[0][1] if self._outcomes else None

    def settle(self, error: KafkaError | None = None, value: Any = None) -> None:
        """Tell how it ended; the first time counts. Thread: the sender's, or a caller's whose record failed."""
        if not self._outcomes:
            self._outcomes.append((error, value))
        self.waiters.ring()

    def wait(self, sleep: Callable[[Cell], bool]) -> bool:
        """Wait for the outcome; False when the time is over first.

        Args:
            sleep: Sleeps until a cell opens; False when the time is over first.
        """
        while not self.is_set:
            cell = self.waiters.enter()
            if not self.is_set and not sleep(cell):
                return self.is_set
        return True
