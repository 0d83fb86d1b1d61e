"""A request of the client's own: what is sent, to whom, and what becomes of its answer.

Nothing is queued: each kind says by the state of things whether it is due, and makes its request then. So a request
that was lost with a turn that ended half way is due again, and one that nobody wants any more is not.

Road:    a kind -> [OwnRequest] -> OwnRequests -> NetworkClient
Thread:  sender thread only.
Source:  Java TransactionManager.TxnRequestHandler (4.1).
"""

from __future__ import annotations

import enum
import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, NamedTuple

from pyproducer.accumulator.transaction_manager import TransactionManager
from pyproducer.client.find_coordinator import COORDINATOR_MOVED, GROUP, TRANSACTION
from pyproducer.client.request import ClientResponse
from pyproducer.common.error_codes import ErrorCode, error_for_code
from pyproducer.common.errors import ApiError, KafkaError, RemoteProtocolError
from pyproducer.protocol.apis import ApiKeys
from pyproducer.transaction.transactions import OpenTransaction, Transactions


class CoordinatorKey(NamedTuple):
    """Whose coordinator: that of a group, or of a transactional id."""

    key_type: int
    key: str

    def __str__(self) -> str:
        return f"{'group' if self.key_type == GROUP else 'transactional id'} {self.key!r}"


class Reaction(enum.Enum):
    """What to do after an answer."""

    DONE = "go on with what is due next"
    AGAIN = "ask again, after a backoff"
    SOON = "ask again, after a short one: the last transaction is being completed"
    FIND_COORDINATOR = "find the coordinator anew, and ask it"


class OwnRequest(ABC):
    """One request.

    Attributes:
        api_key: The API.
        coordinator: Whom to ask; None for any broker.
        max_version: The highest version that may be used; None for any.
        last_error: What it was answered, where that is why it is repeated.
        log_level: How important it is that it is repeated.
    """

    api_key: ClassVar[ApiKeys]

    def __init__(self, coordinator: CoordinatorKey | None, max_version: int | None = None) -> None:
        self.coordinator: CoordinatorKey | None = coordinator
        self.max_version: int | None = max_version
        self.last_error: KafkaError | None = None
        self.log_level: int = logging.INFO

    @abstractmethod
    def build(self, version: int) -> Mapping[str, Any]:
        """Return the body in a version.

        Raises:
            UnsupportedVersionError: The version has no way to say it. Not sent.
        """

    @abstractmethod
    def on_answer(self, response: ClientResponse) -> Reaction:
        """Take the answer, which has a body."""

    @abstractmethod
    def on_hopeless(self, error: KafkaError) -> None:
        """It cannot be sent at all: no version in common, a value that does not fit, nobody who may answer."""

    def on_lost(self) -> None:  # noqa: B027 - most are just sent again
        """No answer will come, and the broker may have acted on it, or may do so yet."""

    def on_refused(self, error: KafkaError) -> None:  # noqa: B027 - most wait on
        """The brokers who could answer do not let us log in; it is tried on."""

    def error_of(self, code: int, response: ClientResponse, message: str | None = None) -> ApiError:
        """Return the error that an answer's code stands for."""
        return error_for_code(code, message=message, api=self.api_key.title, node_id=response.destination)

    def judge(self, error: ApiError) -> Reaction | None:
        """Return what makes the request succeed later; None where nothing does.

        Source: Java TransactionManager's handlers (4.1), which agree on these.
        """
        if error.code == ErrorCode.CONCURRENT_TRANSACTIONS:
            reaction = Reaction.SOON
        elif error.code in COORDINATOR_MOVED:
            reaction = Reaction.FIND_COORDINATOR
        elif error.retriable:
            reaction = Reaction.AGAIN
        else:
            return None
        self.note(error)
        return reaction

    def note(self, error: KafkaError) -> None:
        """Keep why it is repeated."""
        self.last_error = error

    def left_out(self, what: object) -> Reaction:
        """The answer says nothing of what was asked for: it is asked again, after a backoff."""
        self.note(RemoteProtocolError(f"it answered, and said nothing of {what}"))
        return Reaction.AGAIN

NextRequest = Callable[[], "OwnRequest | None"]
"""Returns what is to be sent now of one kind; None when nothing is due."""


class TransactionRequest(OwnRequest):
    """One of the transaction that is open.

    Attributes:
        makes_known: Whether its coordinator knows of the transaction by it, perhaps also where the answer is lost.

    Args:
        manager: Has the producer id.
        transactions: Has the transaction.
        coordinator: See OwnRequest; the transaction's, unless given.
        max_version: See OwnRequest.
    """

    makes_known: ClassVar[bool] = False

    def __init__(self, manager: TransactionManager, transactions: Transactions,
                 coordinator: CoordinatorKey | None = None, max_version: int | None = None) -> None:
        super().__init__(coordinator or CoordinatorKey(TRANSACTION, transactions.transactional_id), max_version)
        self._manager = manager
        self._transactions = transactions
        self._transaction: OpenTransaction = transactions.current

    def whose(self) -> dict[str, Any]:
        """Return the fields that say who asks."""
        producer_id, epoch = self._manager.producer_id_and_epoch
        return {"transactional_id": self._transactions.transactional_id, "producer_id": producer_id,
                "producer_epoch": epoch}

    def on_lost(self) -> None:
        """See OwnRequest."""
        self._transaction.is_known_there |= self.makes_known
        self._transaction.note_lost(self.api_key.title)

    def on_hopeless(self, error: KafkaError) -> None:
        """See OwnRequest."""
        self._transactions.on_fatal_error(error)
