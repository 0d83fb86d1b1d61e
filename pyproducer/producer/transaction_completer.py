"""TransactionCompleter: commits or aborts transactions that other processes have prepared.

    with TransactionCompleter({"bootstrap.servers": ...}) as completer:
        if completer.commit(prepared) is not TransactionOutcome.COMMITTED:
            ...                                             # it was aborted meanwhile, or nobody can tell any more

Whoever has the decision, a driver or a service that starts again after a crash, calls it as often as it likes: to end a
transaction twice in the same way is harmless. A coordinator tells how the last transaction of an id ended until the id
is initialised again; from then on it answers PRODUCER_FENCED, whatever had become of the one before.

Road:    a decision -> [completer] -> CoordinatorClient
Thread:  the caller's, one at a time.
Source:  ours; Java KafkaProducer.completeTransaction (KIP-939) needs the producer itself, made anew.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Final

from pyproducer.client.coordinator_client import CoordinatorClient, EndRequest, KeptCoordinators
from pyproducer.common.clock import SystemClock
from pyproducer.common.error_codes import ErrorCode, error_for_code
from pyproducer.common.public import public
from pyproducer.producer.config import CONFIG_TABLE, ProducerConfig
from pyproducer.transaction.prepared_transaction import PreparedTransaction

_FENCINGS: Final = frozenset({ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.INVALID_PRODUCER_ID_MAPPING,
                              ErrorCode.PRODUCER_FENCED})


@public
class TransactionOutcome(enum.Enum):
    """What became of a prepared transaction."""

    COMMITTED = "committed"
    ABORTED = "aborted"
    UNDECIDABLE = "undecidable"
    """The id was initialised since, or the coordinator gave the transaction up: nobody can tell what it was before."""


@public
class TransactionCompleter:
    """Ends prepared transactions, from any process. A context manager; the constructor touches no network.

    Args:
        props: The producer's settings: bootstrap.servers, security.protocol, ssl.* and sasl.*; max.block.ms is the
            longest time of a call, and not 0. The others are checked, and not used.

    Raises:
        ConfigError: A setting is wrong.
    """

    def __init__(self, props: Mapping[str, object]) -> None:
        self._config = ProducerConfig(CONFIG_TABLE.guarded(props))
        self._clock = SystemClock()
        self._coordinators = KeptCoordinators(self._config, self._clock)

    def commit(self, prepared: PreparedTransaction) -> TransactionOutcome:
        """Commit a transaction, and say what became of it.

        Raises:
            KafkaTimeoutError: Not answered within max.block.ms. Unknown: call it again.
            AuthorizationError: The principal may not use the transactional id.
            ApiError: The coordinator refuses for another reason.
            AuthenticationError: TLS or SASL failed.
            TypeError: It is no PreparedTransaction; of its text `from_json` makes one.
        """
        return self.commit_all([prepared])[0]

    def abort(self, prepared: PreparedTransaction) -> TransactionOutcome:
        """Abort a transaction, and say what became of it: COMMITTED where that was done before.

        Raises:
            KafkaError: As `commit`.
        """
        return self.abort_all([prepared])[0]

    def commit_all(self, prepared: Sequence[PreparedTransaction]) -> list[TransactionOutcome]:
        """Commit several, those of one coordinator one behind the other; say of each what became of it, in order.

        Raises:
            KafkaError: As `commit`; each of them may be committed then.
        """
        return self._end_all(prepared, commit=True)

    def abort_all(self, prepared: Sequence[PreparedTransaction]) -> list[TransactionOutcome]:
        """Abort several; see `commit_all`."""
        return self._end_all(prepared, commit=False)

    def _end_all(self, prepared: Sequence[PreparedTransaction], *, commit: bool) -> list[TransactionOutcome]:
        asked = TransactionOutcome.COMMITTED if commit else TransactionOutcome.ABORTED
        if not isinstance(prepared, Sequence) or not all(isinstance(each, PreparedTransaction) for each in prepared):
            raise TypeError("what is ended is a PreparedTransaction, or a list of them, and of its text "
                            f"PreparedTransaction.from_json() makes one: got {repr(prepared)[:200]}")
        outcomes = [asked] * len(prepared)
        known = [index for index, each in enumerate(prepared) if not each.is_empty]
        if not known:
            return outcomes
        until_ms = self._clock.now_ms() + self._config.max_block_ms  # credentials are waited for, too
        client = self._client()
        client.until_ms = until_ms
        codes = client.end_transactions([
            EndRequest(prepared[index].transactional_id, prepared[index].producer_id, prepared[index].epoch, commit)
            for index in known])
        for index, code in zip(known, codes):  # noqa: B905 - one for each
            outcomes[index] = _outcome(code, asked, prepared[index])
        return outcomes

    def _client(self) -> CoordinatorClient:
        return self._coordinators.client()

    def close(self) -> None:
        """Close the connections; another call makes new ones."""
        self._coordinators.close()

    def __enter__(self) -> TransactionCompleter:
        return self

    def __exit__(self, exc_type: type[BaseException] | None, exc: BaseException | None,
                 traceback: TracebackType | None) -> None:
        self.close()


def _outcome(code: int, asked: TransactionOutcome, prepared: PreparedTransaction) -> TransactionOutcome:
    """Say what a coordinator's answer to EndTxn means for the transaction."""
    if code == ErrorCode.NONE:
        return asked  # now, or before: it knows the request again
    if code == ErrorCode.INVALID_TXN_STATE:  # it knows the transaction, and that it ended in the other way
        return (TransactionOutcome.ABORTED if asked is TransactionOutcome.COMMITTED else TransactionOutcome.COMMITTED)
    if code in _FENCINGS:
        return TransactionOutcome.UNDECIDABLE
    raise error_for_code(code, message=f"The prepared transaction of {prepared.transactional_id!r}:", api="EndTxn")
