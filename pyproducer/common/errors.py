"""Every exception that pyproducer raises; spark/errors.py and twophase/errors.py draw what is added below KafkaError.

    KafkaError                          base; picklable
      ConfigError (ValueError)          key, value, why; raised before any thread starts
      IllegalStateError (RuntimeError)  the caller's misuse: closed, forked, out of order
        ProducerClosedError
        ForkedProducerError
        ProducerDeadError               its sender thread ended by an error; __cause__ is that
      SerializationError                the user's serializer failed; __cause__ is kept
      PartitionerError                  the user's partitioner failed, or gave no partition; __cause__ is kept
      DeliveryFailedError               records failed, as flush() and close() tell: counts, and the first errors
      TransactionAbortedError           the record's transaction is not committed; __cause__ is why, where it failed
      KafkaTimeoutError (TimeoutError)  phase = "metadata" | "buffer" | "delivery" | "request" | "flush" | "future" |
                                        "transaction"
        BufferExhaustedError
      TransportError                    the conversation broke
        DisconnectedError
        AuthenticationError             never retried
      ProtocolError                     bytes that make no sense
        LocalProtocolError              we tried to write nonsense: a bug
          SchemaError                   (also for reading: names the field)
        RemoteProtocolError             the peer sent nonsense: close the connection
          InvalidReceiveError           size not positive or above the limit
          InvalidRequestError           a request that cannot be parsed (the broker's side)
          CorrelationIdMismatchError
          CorruptRecordError            a record batch that cannot be read
            ExpansionLimitError         its records expand beyond the limit (the broker's side)
        UnsupportedVersionError         no common version of an API
      ApiError                          the broker answered with a code: .code, .api, .node_id
        RetriableError                  may pass with time
          InvalidMetadataError          also refresh metadata
            UnknownTopicOrPartitionError
        AuthorizationError              topic, cluster, transactional id
        InvalidTopicError               the name is not allowed, or the topic is internal
        RecordRejectedError             invalid, corrupt, unsupported compression
          RecordTooLargeError
        FatalProducerError              fenced, invalid epoch: close the producer
        OutOfOrderSequenceError         the log does not continue where this producer thinks it does
        AbortableTransactionError       abort and go on
        UnknownApiError                 a code that this version does not know; the number is kept

Every error answers three questions as attributes: `retriable` (may the same call succeed later?),
`refresh_metadata` (is our picture of the cluster wrong?) and `outcome`, what became of the record:
`not_sent` (certainly not in the log), `unknown` (it may be in the log), `rejected` (the broker refused it, and it is
not in the log).

Thread:  values.
Source:  Java org.apache.kafka.common.errors (4.1), in another tree.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from pyproducer.common.secrets import shown, shown_text

NOT_SENT = "not_sent"
UNKNOWN = "unknown"
REJECTED = "rejected"
OUTCOMES = (NOT_SENT, REJECTED, UNKNOWN)
"""All of them, the worst last."""


def _rebuild(cls: type[KafkaError], args: tuple[Any, ...], state: dict[str, Any]) -> KafkaError:
    """Make an exception again from its message and attributes, for pickle."""
    error = cls.__new__(cls)
    Exception.__init__(error, *args)
    error.__dict__.update(state)
    return error


class KafkaError(Exception):
    """Base of all errors of pyproducer.

    Attributes:
        retriable: Whether the same may succeed later.
        refresh_metadata: Whether metadata are to be asked for.
        outcome: What became of the record.
        topic: Of a record that failed: its topic. None for all else.
        partition: Its partition; None where none was chosen.
    """

    retriable: bool = False
    refresh_metadata: bool = False
    outcome: str = NOT_SENT
    topic: str | None = None
    partition: int | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), self.args, self.__dict__)


class ConfigError(KafkaError, ValueError):
    """A setting is unknown, has a wrong value, or contradicts another. Nothing was started.

    What looks like a secret is hidden in all of it, whoever makes the error: such texts end in logs and tickets.

    Attributes:
        key: The setting.
        value: Its value, as it may be shown.
        why: What is wrong with it, and what to do.
        others: The errors of the other settings that are wrong, too; the text tells of all.
    """

    def __init__(self, key: str, value: object, why: str) -> None:
        key, value, why = shown_text(key), shown(value), shown_text(why)
        super().__init__(f"Invalid value {value!r} for configuration {key}: {why}")
        self.key = key
        self.value = value
        self.why = why
        self.others: tuple[ConfigError, ...] = ()

    @classmethod
    def of_all(cls, errors: Sequence[ConfigError]) -> ConfigError:
        """Return one error for several, at least one: with the fields of the first, and a text that tells of all."""
        first = errors[0]
        if len(errors) == 1:
            return first
        own = cls(first.key, first.value, first.why)
        own.args = ("\n".join([f"{len(errors)} settings are wrong:", *(f"  {error}" for error in errors)]),)
        own.others = tuple(errors[1:])
        own.__cause__ = first.__cause__
        return own

    @classmethod
    def raised_by(cls, check: Callable[[], object]) -> list[ConfigError]:
        """Return the errors that a check raises, each by itself; none where it finds nothing wrong."""
        try:
            check()
        except ConfigError as refusal:
            return [error.without_frames() for error in (refusal, *refusal.others)]
        return []

    def without_frames(self) -> ConfigError:
        """Return the error without the frames that led to it: settings are among their variables, and may be secret."""
        following = self.__cause__
        while following is not None and following.__traceback__ is not None:
            following.__traceback__ = None
            following = following.__cause__ or following.__context__
        return self.in_place(lambda _key: "")

    def in_place(self, place_of: Callable[[str], str]) -> ConfigError:
        """Return the error with the place of each key before its text; `place_of` gives "" where there is none."""
        errors = []
        for error in (self, *self.others):
            own = ConfigError(error.key, error.value, error.why)
            place = place_of(error.key)
            own.args = (f"{place}: {own}",) if place else own.args
            own.__cause__ = error.__cause__
            errors.append(own)
        return self.of_all(errors)


class IllegalStateError(KafkaError, RuntimeError):
    """The call is not allowed now; nothing was done."""


class ProducerClosedError(IllegalStateError):
    """The producer is closed, or was closed before the record could be sent."""


class ForkedProducerError(IllegalStateError):
    """The producer was made in another process: its sender thread does not exist here."""


class ProducerDeadError(IllegalStateError):
    """The producer's sender thread could not go on and ended; `__cause__` is why. Make a new producer."""


class SerializationError(KafkaError):
    """A serializer failed or gave something that is not bytes; `__cause__` is its exception."""


class PartitionerError(KafkaError):
    """A partitioner of the application's raised, and `__cause__` is its exception; or it gave no partition."""


class FailedRecords(NamedTuple):
    """Records that failed together: of one batch, or one alone.

    Attributes:
        topic: Their topic.
        partition: Their partition, -1 where none was chosen.
        count: How many.
        outcome: What became of them.
        error: That of the first of them, without its traceback and causes.
    """

    topic: str
    partition: int
    count: int  # type: ignore[assignment]  # a tuple's own count() is of no use here
    outcome: str
    error: KafkaError


class DeliveryFailedError(KafkaError):
    """Records failed: raised by flush(raise_on_error=True), and where `pyproducer.on.unretrieved` is "raise".

    Args:
        message: How many records, and the first errors, for a person.
        failed: How many records, by outcome.
        topics: The same for each topic; "(others)" as in DeliverySummary.
        errors: The first of them, 16 at most.

    Its own `outcome` is the worst of all: "unknown", else "rejected", else "not_sent".
    """

    def __init__(self, message: str, *, failed: Mapping[str, int] | None = None,
                 topics: Mapping[str, Mapping[str, int]] | None = None,
                 errors: tuple[FailedRecords, ...] = ()) -> None:
        super().__init__(message)
        self.failed: dict[str, int] = {**dict.fromkeys(OUTCOMES, 0), **(failed or {})}
        self.topics: dict[str, dict[str, int]] = {topic: dict(counts) for topic, counts in (topics or {}).items()}
        self.errors = errors
        self.outcome: str = next((outcome for outcome in reversed(OUTCOMES) if self.failed[outcome]), NOT_SENT)


class TransactionAbortedError(KafkaError):
    """The record was given up because its transaction is not committed; who reads committed ones never sees it."""


class KafkaTimeoutError(KafkaError, TimeoutError):
    """Something took longer than allowed; `phase` names the step that waited."""

    retriable = True

    def __init__(self, message: str, *, phase: str, outcome: str = NOT_SENT) -> None:
        super().__init__(message)
        self.phase = phase
        self.outcome = outcome


class BufferExhaustedError(KafkaTimeoutError):
    """No memory of buffer.memory became free within max.block.ms."""

    def __init__(self, message: str) -> None:
        super().__init__(message, phase="buffer")


class TransportError(KafkaError):
    """The conversation with a broker broke."""

    retriable = True
    refresh_metadata = True
    outcome = UNKNOWN


class DisconnectedError(TransportError):
    """The connection ended before the answer came."""


class AuthenticationError(TransportError):
    """The broker and we could not prove to each other who we are (TLS, SASL); never retried."""

    retriable = False
    refresh_metadata = False
    outcome = NOT_SENT


class ProtocolError(KafkaError):
    """Bytes that make no sense."""


class LocalProtocolError(ProtocolError):
    """We tried to write nonsense: a bug in pyproducer or in the values given to it."""


class SchemaError(LocalProtocolError):
    """A value does not fit its schema; the message names the field, outermost first."""


class RemoteProtocolError(ProtocolError):
    """The peer sent nonsense; the connection is closed."""

    outcome = UNKNOWN


class InvalidReceiveError(RemoteProtocolError):
    """A frame's size is not positive, or above the limit."""


class InvalidRequestError(RemoteProtocolError):
    """A request that cannot be parsed."""


class CorrelationIdMismatchError(RemoteProtocolError):
    """The answer belongs to another request than the oldest one in flight."""


class CorruptRecordError(RemoteProtocolError):
    """A record batch whose bytes cannot be read: checksum, length or count do not fit."""


class ExpansionLimitError(CorruptRecordError):
    """The records of a batch expand beyond the limit; they may be sound."""


class UnsupportedVersionError(ProtocolError):
    """The broker and we have no version of an API in common."""


class ApiError(KafkaError):
    """The broker answered with an error code.

    Args:
        message: What happened, for a person.
        code: The code on the wire.
        api: Name of the API that was called, if known.
        node_id: The broker that answered, if known.
    """

    outcome = REJECTED

    def __init__(self, message: str, *, code: int, api: str | None = None, node_id: int | None = None) -> None:
        super().__init__(message)
        self.code: int = int(code)
        self.api = api
        self.node_id = node_id


class RetriableError(ApiError):
    """The same request may succeed later."""

    retriable = True


class InvalidMetadataError(RetriableError):
    """The request went to the wrong place: metadata must be refreshed."""

    refresh_metadata = True


class UnknownTopicOrPartitionError(InvalidMetadataError):
    """No broker that was asked knows the topic or partition."""


class AuthorizationError(ApiError):
    """The principal may not do this: topic, cluster, group or transactional id."""


class InvalidTopicError(ApiError):
    """The topic's name is not allowed, or the topic is internal."""


class RecordRejectedError(ApiError):
    """The broker examined the record batch and refused it."""


class RecordTooLargeError(RecordRejectedError):
    """A record or batch is above a limit: ours (max.request.size, buffer.memory) or the broker's."""


class FatalProducerError(ApiError):
    """This producer can not go on (fenced, invalid epoch): close it."""


class OutOfOrderSequenceError(ApiError):
    """The broker's log does not continue where this producer thinks it does: records may have been lost."""

    outcome = UNKNOWN


class AbortableTransactionError(ApiError):
    """The transaction must be aborted; the producer can go on."""


class UnknownApiError(ApiError):
    """A code that this version does not know; `code` keeps the number."""

    outcome = UNKNOWN


def with_outcome(error: KafkaError, outcome: str) -> KafkaError:
    """Return an error as the fate of a record of which more is known: with this outcome, whatever else it would say."""
    if error.outcome == outcome:
        return error
    own = copy.copy(error)  # it is that of others, too: a topic's refusal for one
    own.__cause__ = error.__cause__
    own.outcome = outcome
    return own
