"""What confluent-kafka's Producer tells, made of what ours does: KafkaError, KafkaException, Message.

A code below 0 is librdkafka's own, and stands here for what means the same: _MSG_TIMED_OUT for a record that
delivery.timeout.ms ended, _PURGE_QUEUE for one that an abort or purge() gave up. The words are ours.

Road:    KafkaProducer's errors, reports -> [these] -> on_delivery, whoever calls
Thread:  values.
Source:  ours; KafkaError and Message of confluent-kafka 2.16, codes of rdkafka.h (librdkafka 2.16).
"""

from __future__ import annotations

import builtins
from functools import total_ordering
from typing import TYPE_CHECKING, Any, Final

import pyproducer as ours
from pyproducer import ErrorCode

TIMESTAMP_NOT_AVAILABLE: Final = 0
TIMESTAMP_CREATE_TIME: Final = 1
TIMESTAMP_LOG_APPEND_TIME: Final = 2

_LOCAL = """_BAD_MSG _BAD_COMPRESSION _DESTROY _FAIL _TRANSPORT _CRIT_SYS_RESOURCE _RESOLVE _MSG_TIMED_OUT
    _PARTITION_EOF _UNKNOWN_PARTITION _FS _UNKNOWN_TOPIC _ALL_BROKERS_DOWN _INVALID_ARG _TIMED_OUT _QUEUE_FULL
    _ISR_INSUFF _NODE_UPDATE _SSL _WAIT_COORD _UNKNOWN_GROUP _IN_PROGRESS _PREV_IN_PROGRESS _EXISTING_SUBSCRIPTION
    _ASSIGN_PARTITIONS _REVOKE_PARTITIONS _CONFLICT _STATE _UNKNOWN_PROTOCOL _NOT_IMPLEMENTED _AUTHENTICATION _NO_OFFSET
    _OUTDATED _TIMED_OUT_QUEUE _UNSUPPORTED_FEATURE _WAIT_CACHE _INTR _KEY_SERIALIZATION _VALUE_SERIALIZATION
    _KEY_DESERIALIZATION _VALUE_DESERIALIZATION _PARTIAL _READ_ONLY _NOENT _UNDERFLOW _INVALID_TYPE _RETRY _PURGE_QUEUE
    _PURGE_INFLIGHT _FATAL _INCONSISTENT _GAPLESS_GUARANTEE _MAX_POLL_EXCEEDED _UNKNOWN_BROKER _NOT_CONFIGURED _FENCED
    _APPLICATION _ASSIGNMENT_LOST _NOOP _AUTO_OFFSET_RESET _LOG_TRUNCATION _INVALID_DIFFERENT_RECORD _DESTROY_BROKER"""
_THEIRS = {"UNKNOWN_SERVER_ERROR": "UNKNOWN", "NONE": "NO_ERROR", "CORRUPT_MESSAGE": "INVALID_MSG",
           "UNKNOWN_TOPIC_OR_PARTITION": "UNKNOWN_TOPIC_OR_PART", "INVALID_FETCH_SIZE": "INVALID_MSG_SIZE",
           "NOT_LEADER_OR_FOLLOWER": "NOT_LEADER_FOR_PARTITION", "MESSAGE_TOO_LARGE": "MSG_SIZE_TOO_LARGE",
           "STALE_CONTROLLER_EPOCH": "STALE_CTRL_EPOCH", "INVALID_TOPIC_EXCEPTION": "TOPIC_EXCEPTION"}
_NAMES: dict[int, str] = {**{int(code): _THEIRS.get(code.name, code.name) for code in ErrorCode},
                          **dict(enumerate(_LOCAL.split(), -199))}

if TYPE_CHECKING:

    class _Codes(type):
        def __getattr__(cls, name: str) -> int: ...
else:
    _Codes = type


@total_ordering
class KafkaError(metaclass=_Codes):
    """What went wrong: a broker's code, or one of librdkafka's own, which are below 0. No exception by itself.

    Each code is an attribute of the class: `KafkaError._MSG_TIMED_OUT`. The words are pyproducer's, and say what to do.
    """

    def __init__(self, error: int, reason: str | None = None, fatal: bool = False, retriable: bool = False,
                 txn_requires_abort: bool = False) -> None:
        self._code = int(error)
        self._reason = reason or self.name().strip("_").replace("_", " ").lower()
        self._fatal, self._retriable, self._aborts = bool(fatal), bool(retriable), bool(txn_requires_abort)

    def code(self) -> int:
        """Return the code."""
        return self._code

    def name(self) -> builtins.str:
        """Return the name of the code."""
        return _NAMES.get(self._code, f"ERR_{self._code}?")

    def str(self) -> builtins.str:
        """Return what happened, in words."""
        return self._reason

    def fatal(self) -> bool:
        """Whether the producer can only be closed."""
        return self._fatal

    def retriable(self) -> bool:
        """Whether the same call may be made again."""
        return self._retriable

    def txn_requires_abort(self) -> bool:
        """Whether the transaction can only be aborted."""
        return self._aborts

    def __int__(self) -> int:
        return self._code

    def __hash__(self) -> int:
        return self._code

    def __eq__(self, other: object) -> bool:
        return self._code == int(other) if isinstance(other, (KafkaError, int)) else NotImplemented

    def __lt__(self, other: KafkaError | int) -> bool:
        return self._code < int(other)

    def __repr__(self) -> builtins.str:
        return f'KafkaError{{{"FATAL," * self._fatal}code={self.name()},val={self._code},str="{self._reason}"}}'


for _code, _name in _NAMES.items():
    setattr(KafkaError, _name, _code)


class KafkaException(Exception):  # noqa: N818 - its name there
    """What is raised; `args[0]` is the KafkaError, and `__cause__` pyproducer's own."""


_KINDS: tuple[tuple[type[ours.KafkaError], str], ...] = (
    (ours.BufferExhaustedError, "_QUEUE_FULL"), (ours.KafkaTimeoutError, "_TIMED_OUT"),
    (ours.ConfigError, "_INVALID_ARG"), (ours.AuthenticationError, "_AUTHENTICATION"),
    (ours.ProducerDeadError, "_FATAL"), (ours.IllegalStateError, "_STATE"),
    (ours.UnsupportedVersionError, "_UNSUPPORTED_FEATURE"), (ours.TransportError, "_TRANSPORT"),
    (ours.ProtocolError, "_BAD_MSG"), (ours.KafkaError, "_FAIL"))


def error_of(cause: Exception, *, is_of_record: bool = False) -> KafkaError:
    """Return a failure as librdkafka calls it."""
    is_fatal = isinstance(cause, (ours.FatalProducerError, ours.ProducerDeadError))
    name = next((name for kind, name in _KINDS if isinstance(cause, kind)), "_INVALID_ARG")
    if isinstance(cause, ours.UnknownTopicOrPartitionError):
        name = "_UNKNOWN_TOPIC" if cause.partition is None else "_UNKNOWN_PARTITION"
    elif isinstance(cause, ours.ApiError):
        is_fenced = is_fatal and cause.code in (ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH)
        name = "_FENCED" if is_fenced else _NAMES.get(cause.code, "UNKNOWN")
    elif is_of_record and isinstance(cause, (ours.ProducerClosedError, ours.TransactionAbortedError)):
        name = "_PURGE_QUEUE" if cause.outcome == "not_sent" else "_PURGE_INFLIGHT"
    elif is_of_record and name == "_TIMED_OUT":
        # Where brokers do not know the topic the text says so; where none answers it is a timeout there, too.
        name = "_UNKNOWN_TOPIC" if ErrorCode.UNKNOWN_TOPIC_OR_PARTITION.name in str(cause) else "_MSG_TIMED_OUT"
    return KafkaError(getattr(KafkaError, name), str(cause), is_fatal, name == "_TIMED_OUT",
                      isinstance(cause, ours.AbortableTransactionError))


def raised_for(cause: Exception) -> Exception:
    """Return what a call raises where ours raised this."""
    if isinstance(cause, ours.ProducerClosedError):
        return RuntimeError(f"Producer has been closed: {cause}")
    return KafkaException(error_of(cause))


def refused(code: int, why: str, retriable: bool = False) -> KafkaException:
    """Return what a call raises that is refused here."""
    return KafkaException(KafkaError(code, why, retriable=retriable))


Fields = tuple["str | None", "int | None", "int | None", Any, Any, Any, "KafkaError | None", "tuple[int, int]",
               "float | None"]
"""Of a Message, in the order of its constructor."""


class Message:
    """A record of which on_delivery is told; its headers are not, as there.

    The timestamp is the broker's where the topic has LogAppendTime; its kind is TIMESTAMP_LOG_APPEND_TIME only where
    produce() was given another one, for no answer says which it is.
    """

    __slots__ = ("_fields",)

    def __init__(self, topic: str | None = None, partition: int | None = None, offset: int | None = None,
                 key: Any = None, value: Any = None, headers: Any = None, error: KafkaError | None = None,
                 timestamp: tuple[int, int] = (TIMESTAMP_NOT_AVAILABLE, 0), latency: float | None = None) -> None:
        # One field is set: of nine each would take as long, and there is a message for each record.
        self._fields: Fields = (topic, partition, offset, key, value, headers, error, timestamp, latency)

    def topic(self) -> str | None:
        """Return the topic."""
        return self._fields[0]

    def partition(self) -> int | None:
        """Return the partition; None where none was chosen."""
        return self._fields[1]

    def offset(self) -> int | None:
        """Return the offset; None where the record failed, and with acks=0."""
        return self._fields[2]

    def key(self) -> Any:
        """Return the key, bytes or None."""
        return self._fields[3]

    def value(self) -> Any:
        """Return the value, bytes or None."""
        return self._fields[4]

    def headers(self) -> Any:
        """Return what set_headers() was given."""
        return self._fields[5]

    def error(self) -> KafkaError | None:
        """Return why the record failed, or None."""
        return self._fields[6]

    def timestamp(self) -> tuple[int, int]:
        """Return the kind of the timestamp, and epoch ms."""
        return self._fields[7]

    def latency(self) -> float | None:
        """Return how long it took from produce() to the outcome, in seconds."""
        return self._fields[8]

    def leader_epoch(self) -> int | None:
        """Return None: no answer to a producer says it."""
        return None

    def set_topic(self, topic: str) -> None:
        """Replace the topic."""
        self._set(0, topic)

    def set_key(self, key: Any) -> None:
        """Replace the key."""
        self._set(3, key)

    def set_value(self, value: Any) -> None:
        """Replace the value."""
        self._set(4, value)

    def set_headers(self, headers: Any) -> None:
        """Replace the headers."""
        self._set(5, headers)

    def set_error(self, error: KafkaError | None) -> None:
        """Replace the error."""
        self._set(6, error)

    def _set(self, place: int, part: Any) -> None:
        fields: list[Any] = list(self._fields)
        fields[place] = part
        self._fields = tuple(fields)

    def __len__(self) -> int:
        return 0 if self._fields[4] is None else len(self._fields[4])
