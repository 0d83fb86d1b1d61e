"""confluent-kafka's Producer over KafkaProducer: a program that migrates changes one import.

    from pyproducer.compat.confluent_kafka import KafkaError, KafkaException, Producer

    produce()   takes a record at once, or raises BufferError: queue.buffering.max.messages and .kbytes bound what waits
    poll()      calls on_delivery(error, message) in the caller's thread, as flush(), close(), commit and abort do
    settings    librdkafka's names, with its defaults where they decide where keys go and how long is tried; Java's, too

What is missing is said when the producer is made: an error where records would go another way, else a warning.

Road:    [application] -> produce() -> KafkaProducer.send() ... on_completion -> [queue of reports] -> poll()
Thread:  any. The sender thread puts reports into the queue; it calls nothing of the application's.
Source:  ours; interface of confluent-kafka 2.16, codes of rdkafka.h and names of CONFIGURATION.md (librdkafka 2.16).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from concurrent.futures import Future, wait
from contextlib import suppress
from functools import partial
from itertools import chain, repeat
from queue import Empty, SimpleQueue
from threading import Thread
from time import monotonic
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import pyproducer as ours
from pyproducer.compat.confluent_messages import (
    TIMESTAMP_CREATE_TIME,
    TIMESTAMP_LOG_APPEND_TIME,
    TIMESTAMP_NOT_AVAILABLE,
    KafkaError,
    KafkaException,
    Message,
    error_of,
    raised_for,
    refused,
)
from pyproducer.compat.librdkafka_settings import MOST, number_of, translate
from pyproducer.producer.mistakes import no_name

__all__ = ["TIMESTAMP_CREATE_TIME", "TIMESTAMP_LOG_APPEND_TIME", "TIMESTAMP_NOT_AVAILABLE", "KafkaError",
           "KafkaException", "Message", "OnDelivery", "Producer"]

_CONSUMER = "it is no producer's: keep confluent_kafka's, beside this Producer"
_SERIALIZING = ("call the serializers yourself, produce(topic, value=serialize(value, context)), or use "
                "pyproducer.KafkaProducer with key.serializer and value.serializer")
_NAMES = {
    "SerializingProducer": _SERIALIZING, "avro": _SERIALIZING,
    **dict.fromkeys((
        "Consumer", "DeserializingConsumer", "TopicPartition", "ConsumerGroupTopicPartitions", "admin",
        "schema_registry", "serialization", "OFFSET_BEGINNING", "OFFSET_END", "OFFSET_INVALID", "OFFSET_STORED"),
        _CONSUMER),
}

_log: logging.Logger = logging.getLogger(__name__)

_T = TypeVar("_T")
_SLICE_S = 0.1  # flush() calls on_delivery so often while it waits
_SAID_AGAIN_S = 10
_CLOSED = ("Producer has been closed, or was never made, where a subclass does not call its __init__: make another. "
           "Nothing was done")

OnDelivery = Callable[["KafkaError | None", Message], object]
"""What may be given as on_delivery."""

if not TYPE_CHECKING:  # which would take any name for one of ours

    def __getattr__(name: str) -> NoReturn:
        raise no_name(__name__, name, _NAMES)


class _Told:
    """on_completion of a record with on_delivery, and of another one after that.

    The garbage collector follows objects with methods, and where 100,000 records waited with one made for each it took
    four times as long as all else. It does not follow tuples of bytes and numbers, which records and reports are.
    """

    __slots__ = ("_free", "_put", "record")

    def __init__(self, put: Callable[[Any], None], free: list[_Told]) -> None:
        self._put = put
        self._free = free
        self.record: tuple[Any, ...] = ()

    def __call__(self, metadata: ours.RecordMetadata | None, exception: ours.KafkaError | None) -> None:
        record, self.record = self.record, ()  # what waits for another record keeps none
        if metadata is None:
            self._put((record, -1, -1, 0, monotonic(), exception))
        else:
            _, partition, offset, stored_ms, _, _ = metadata
            self._put((record, partition, offset, stored_ms, monotonic(), None))
        self._free.append(self)  # its future has forgotten it before the call


def _report_outcome(put: Callable[[Any], None], _metadata: object, exception: ours.KafkaError | None) -> None:
    put(exception)


def _bytes_of(part: Any, name: str) -> bytes:
    if isinstance(part, str):
        return part.encode()
    if isinstance(part, (bytes, bytearray, memoryview)):
        return bytes(part)
    raise TypeError(f"{name} must be bytes, str or None, got {type(part).__name__}. Not sent")


def _pairs_of(headers: Any) -> list[tuple[Any, Any]]:
    pairs = list(headers.items()) if isinstance(headers, dict) else headers
    if not isinstance(pairs, list) or not all(isinstance(pair, tuple) and len(pair) == 2 for pair in pairs):
        raise TypeError(f"headers must be a dict or a list of pairs, of str and bytes, str or None, got {headers!r}. "
                        "Not sent")
    return [(key, value.encode() if isinstance(value, str) else value) for key, value in pairs]


class Producer:
    """confluent-kafka's Producer.

    Args:
        conf: Settings, a dict; librdkafka's names and Java's.
        named: The same by name, and `logger`, `on_delivery`, `error_cb`, ...; these win.

    Raises:
        KafkaException: _INVALID_ARG: a setting is unknown or wrong; the text says what to write. Nothing was started.

    Differs from there: error_cb is called when records fail of what is no record's fault, once in ten seconds for each
    code, and not when a connection breaks; a record that failed and has no on_delivery is logged; purge() takes all or
    nothing; list_topics() wants a topic. close() it, or use a `with` block.
    """

    _producer: ours.KafkaProducer[bytes, bytes] | None = None
    _usual: Any = None  # the first on_delivery that there is; None in a record stands for it

    def __init__(self, *conf: Mapping[str, Any], **named: Any) -> None:
        if len(conf) > 1 or not (conf or named) or not all(isinstance(one, dict) for one in conf):
            raise TypeError("one argument is the expected configuration dict: "
                            "Producer({'bootstrap.servers': 'host:9092'})")
        refusal = self._begin({**(conf[0] if conf else {}), **named})
        del conf, named  # they may hold secrets, and a traceback shows variables
        if refusal is not None:
            raise refusal

    def _begin(self, props: dict[str, Any]) -> KafkaException | None:
        """Start; or return why not, without the frames that have the settings among their variables."""
        try:
            props.update(props.pop("default.topic.config", None) or {})
            for name in ("on_delivery", "error_cb"):
                if not callable(props.get(name) or print):
                    raise ours.ConfigError(name, props[name], "it must be a function")
            self._on_delivery: OnDelivery | None = props.pop("on_delivery", None)
            self._error_cb: Callable[[KafkaError], object] | None = props.pop("error_cb", None)
            only_errors = str(props.get("delivery.report.only.error", False)).lower()
            if only_errors not in ("true", "false"):
                raise ours.ConfigError("delivery.report.only.error", props["delivery.report.only.error"],
                                       "it must be True or False")
            props.pop("delivery.report.only.error", None)
            self._tells_failures_only = only_errors == "true"
            oauth_cb, of_oauth_cb = props.pop("oauth_cb", None), props.get("sasl.oauthbearer.config", "")
            if oauth_cb is not None:
                props.pop("sasl.oauthbearer.config", None)
                props["sasl.login.callback.handler.class"] = partial(oauth_cb, of_oauth_cb)
            self._most = number_of(props, 100_000, "queue.buffering.max.messages") or MOST
            self._most_bytes = 1024 * number_of(props, 2**20, "queue.buffering.max.kbytes", least=1)
            for name in ("queue.buffering.max.messages", "queue.buffering.max.kbytes"):
                props.pop(name, None)
            # Batches and futures take more than values do, and BufferError is to come before send() waits for memory:
            # also for records of a topic that is not known yet, which have a quarter of it.
            props.setdefault("buffer.memory", 4 * (2 * self._most_bytes + 1024 * self._most))
            translate(props)
            self._anew: Callable[[], ours.KafkaProducer[bytes, bytes]] = lambda: ours.KafkaProducer(props)
            producer = self._anew()
        except (ours.ConfigError, OSError) as cause:
            refusal = refused(KafkaError._INVALID_ARG, str(cause))
            refusal.__cause__ = cause.with_traceback(None)
            return refusal
        self._is_transactional = props.get("transactional.id") is not None
        self._reports: SimpleQueue[Any] = SimpleQueue()
        self._put = self._reports.put
        self._bare = partial(_report_outcome, self._put)  # of records without on_delivery
        self._free: list[_Told] = []
        if self._on_delivery is not None:
            self._usual = self._on_delivery
        # How many records, and bytes, may come before somebody counts anew; and how many that were at the last count.
        self._granted = self._room, self._free_bytes = self._most, self._most_bytes
        self._said_at: dict[int, float] = {}
        self._answers: dict[str, Future[Any]] = {}
        self._producer, self._send = producer, producer.send
        return None

    @property
    def kafka_producer(self) -> ours.KafkaProducer[bytes, bytes]:
        """What sends: metrics(), why(), check() and all else that is not there.

        Raises:
            RuntimeError: The producer is closed.
        """
        if self._producer is None:
            raise RuntimeError(_CLOSED)
        return self._producer

    # Records in.

    def produce(self, topic: str, value: Any = None, key: Any = None, partition: int = -1,
                callback: OnDelivery | None = None, on_delivery: OnDelivery | None = None, timestamp: int = 0,
                headers: Any = None) -> None:
        """Take a record; what becomes of it is told by a later poll() or flush().

        Raises:
            BufferError: So much waits already, for brokers or for poll(). Call poll(), and this again. Not sent.
            KafkaException: It cannot be sent at all: too large, no transaction open, ... Not sent.
            RuntimeError: The producer is closed. Not sent.
            TypeError: A part has the wrong type. Not sent.
        """
        if self._producer is None:
            raise RuntimeError(_CLOSED)
        if type(value) is not bytes and value is not None:
            value = _bytes_of(value, "value")
        if type(key) is not bytes and key is not None:
            key = _bytes_of(key, "key")
        self._room -= 1
        self._free_bytes -= 0 if value is None else len(value)
        if self._room < 0 or self._free_bytes < 0:
            self._make_room(0 if value is None else len(value))
        if callback is None:
            callback = self._on_delivery if on_delivery is None else on_delivery
        told: Any = self._bare
        if callback is not None:
            if self._usual is None:
                vars(self).setdefault("_usual", callback)  # one step: another thread's may be the first
            try:
                told = self._free.pop()
            except IndexError:
                told = _Told(self._put, self._free)
            told.record = (None if callback is self._usual else callback, topic, partition, key, value, timestamp,
                           monotonic())
        try:
            if partition == -1 and not timestamp and headers is None:
                self._send(topic, value, key=key, on_completion=told)
            else:
                self._send(topic, value, key=key, partition=None if partition == -1 else partition,
                           timestamp=timestamp or None, headers=None if headers is None else _pairs_of(headers),
                           on_completion=told)
        except (ours.KafkaError, ValueError) as cause:
            raise raised_for(cause) from cause

    def produce_batch(self, topic: str, messages: list[dict[str, Any]], partition: int = -1,
                      callback: OnDelivery | None = None, on_delivery: OnDelivery | None = None) -> int:
        """Take records of one topic, each a dict; return how many were taken. The others have an `_error`."""
        if not isinstance(messages, list):
            raise TypeError(f"messages must be a list of dicts, got {type(messages).__name__}. Not sent")
        count = 0
        for index, message in enumerate(messages):
            if not isinstance(message, dict):
                raise TypeError(f"Message at index {index} must be a dict, got {type(message).__name__}; those before "
                                "it were taken")
            try:
                self.produce(topic, message.get("value"), message.get("key"), message.get("partition", partition),
                             message.get("callback") or callback or on_delivery, None, message.get("timestamp", 0),
                             message.get("headers"))
                count += 1
            except TypeError as wrong:
                raise TypeError(f"Message at index {index}: {wrong}; those before it were taken") from wrong
            except BufferError as full:
                message["_error"] = KafkaError(KafkaError._QUEUE_FULL, str(full))
            except KafkaException as refusal:
                message["_error"] = refusal.args[0]
        return count

    def _make_room(self, size_bytes: int) -> None:
        """Count what waits, for brokers and for poll(), and how much more may; nobody counts for each record.

        A report's value is held, too, and is taken to be as large as those since the last count were.
        """
        states = self.kafka_producer.waiting()
        told = self._reports.qsize()  # after those: a record is told before it is none that waits
        # Another thread may have counted just now: then nothing has come since.
        mean_bytes = max(0, self._granted[1] - self._free_bytes) // max(1, self._granted[0] - self._room)
        count = sum(state.records for state in states) + told
        held_bytes = sum(state.bytes for state in states) + told * mean_bytes
        self._granted = self._room, self._free_bytes = self._most - count, self._most_bytes - held_bytes
        self._room -= 1
        self._free_bytes -= size_bytes
        if self._room < 0 or self._free_bytes < 0:
            raise BufferError(f"{count} records, {told} of them for poll(), and {held_bytes} bytes wait, and no more "
                              f"may: queue.buffering.max.messages = {self._most}, queue.buffering.max.kbytes = "
                              f"{self._most_bytes // 1024}. Call poll(), and produce() again. Not sent")

    # Reports out.

    def poll(self, timeout: float = -1) -> int:
        """Call on_delivery for what is known; where nothing is, wait for it.

        Args:
            timeout: Longest wait in seconds; below 0 there is no end.

        Returns:
            How many records were told of, those without on_delivery included.
        """
        if self._producer is None:
            raise RuntimeError(_CLOSED)
        if not timeout or not self._reports.empty():
            return self._serve()
        try:
            first = self._reports.get(timeout=None if timeout < 0 else timeout)
        except Empty:
            return 0
        return self._serve(first)

    def flush(self, timeout: float = -1) -> int:
        """Send all and call on_delivery for it; return how many records are left when the time is over."""
        producer, until = self.kafka_producer, None if timeout < 0 else monotonic() + timeout
        while True:
            try:
                producer.flush(_SLICE_S if until is None else min(_SLICE_S, max(0.0, until - monotonic())))
            except ours.KafkaTimeoutError:
                pass  # what is left is counted below
            except ours.KafkaError as cause:
                raise raised_for(cause) from cause
            self._serve()
            left = len(self)
            if not left or (until is not None and monotonic() >= until):
                return left

    def close(self) -> bool:
        """Give up a transaction that takes records still, do as flush(), then end the producer."""
        producer = self._producer
        if producer is not None:
            try:
                with suppress(ours.KafkaError):  # what is left of it is the coordinator's to end
                    if producer._present().transaction_calls.take_records:
                        producer.abort_transaction()
                self.flush()
            finally:
                self._producer = None
                producer.close()
                self._put(None)  # for who waits in poll()
        return True

    def purge(self, in_queue: bool = True, in_flight: bool = True, blocking: bool = True) -> None:
        """Give up all that waits; on_delivery is told _PURGE_QUEUE, or _PURGE_INFLIGHT of what may be in the log.

        It ends the connections and makes new ones. Only a part of the records cannot be given up.
        """
        producer = self.kafka_producer
        if self._is_transactional:
            raise refused(KafkaError._STATE, "abort_transaction() gives up what a transaction has. Nothing was done")
        if in_flight and not in_queue:
            in_flight = any(state.in_flight for state in producer.waiting())
        if in_queue != in_flight:
            raise refused(KafkaError._NOT_IMPLEMENTED, "purge() gives up what is queued and what is in flight, and not "
                                                        "one alone. Nothing was done")
        if in_queue:
            self._producer = anew = self._anew()
            self._send = anew.send
            producer.close(0)

    def _serve(self, *taken: Any) -> int:
        """Call on_delivery for what is in the queue now, and was taken out of it."""
        get, count, tells_all = self._reports.get_nowait, 0, not self._tells_failures_only
        for report in chain(taken, repeat(self, self._reports.qsize())):
            if report is self:
                try:
                    report = get()
                except Empty:  # another thread was faster
                    break
            count += 1
            if type(report) is not tuple:
                if report is not None:
                    self._tell_all(error_of(report, is_of_record=True), is_told=False)
            elif report[5] is not None:
                self._tell_failure(*report)
            elif tells_all:
                (callback, topic, _, key, value, given_ms, began), partition, offset, stored_ms, ended, _ = report
                kind = TIMESTAMP_LOG_APPEND_TIME if given_ms and given_ms != stored_ms else TIMESTAMP_CREATE_TIME
                message = Message.__new__(Message)  # half the time of a call with nine arguments
                message._fields = (topic, partition, offset if offset >= 0 else None, key, value, None, None,
                                   (kind, stored_ms), ended - began)
                (callback or self._usual)(None, message)
        return count

    def _tell_failure(self, record: tuple[Any, ...], _partition: int, _offset: int, _stored_ms: int, ended: float,
                      exception: ours.KafkaError) -> None:
        callback, topic, partition, key, value, _, began = record
        error = error_of(exception, is_of_record=True)
        if partition < 0 or exception.partition is not None:
            partition = exception.partition
        message = Message(topic, partition, None, key, value, None, error, (TIMESTAMP_NOT_AVAILABLE, -1), ended - began)
        try:
            self._tell_all(error, is_told=True)
        finally:  # error_cb may raise, and the record's report is told once
            (callback or self._usual)(error, message)

    def _tell_all(self, error: KafkaError, *, is_told: bool) -> None:
        """Call error_cb where a record failed of what concerns all; log where nobody else is told."""
        now, code = monotonic(), error.code()
        if now < self._said_at.get(code, -_SAID_AGAIN_S) + _SAID_AGAIN_S:
            return
        self._said_at[code] = now
        if not is_told:
            _log.warning("A record failed that has no on_delivery, and so may others in the next %d s: %s",
                         _SAID_AGAIN_S, error)
        if self._error_cb is not None:
            if code == KafkaError._MSG_TIMED_OUT:
                self._error_cb(KafkaError(KafkaError._TRANSPORT, error.str()))
            elif error.fatal() or code in (KafkaError._AUTHENTICATION, KafkaError._TRANSPORT):
                self._error_cb(error)

    # What is asked of brokers.

    def list_topics(self, topic: str | None = None, timeout: float = -1) -> SimpleNamespace:
        """Return `topics[topic]` with its `partitions` and its `error`, and the `brokers` that hold it.

        Raises:
            KafkaException: _TIMED_OUT where no broker answers, or none knows the topic in time; where no topic is
                named, _NOT_IMPLEMENTED.
        """
        producer, error = self.kafka_producer, None
        infos: list[ours.PartitionInfo] = []
        if topic is None:
            self._within("check()", -1, partial(producer.check, None if timeout < 0 else timeout))
            raise refused(KafkaError._NOT_IMPLEMENTED, "all topics are an admin client's to ask for: name one; "
                                                        "kafka_producer.check(timeout) says whether brokers answer")
        asked = f"list_topics({topic!r})"
        if asked in self._answers and self._answers[asked].done():
            del self._answers[asked]  # it is old
        try:
            infos = self._within(asked, timeout, partial(producer.partitions_for, topic))
        except KafkaException as refusal:
            error = refusal.args[0]
            if error.code() < 0:
                raise
        return SimpleNamespace(
            cluster_id=None, controller_id=-1,
            brokers={node.node_id: SimpleNamespace(id=node.node_id, host=node.host, port=node.port)
                     for info in infos for node in info.replicas},
            topics={topic: SimpleNamespace(topic=topic, error=error, partitions={
                info.partition: SimpleNamespace(
                    id=info.partition, leader=-1 if info.leader is None else info.leader.node_id, error=None,
                    replicas=[node.node_id for node in info.replicas],
                    isrs=[node.node_id for node in info.in_sync_replicas]) for info in infos})})

    def set_sasl_credentials(self, username: str, password: str) -> NoReturn:
        """Raise _NOT_IMPLEMENTED: a producer keeps its credentials."""
        raise refused(KafkaError._NOT_IMPLEMENTED, "credentials cannot be changed: make another Producer with them, "
                                                    "then close this one")

    def init_transactions(self, timeout: float = -1) -> None:
        """Fence earlier producers with this transactional.id, and abort what they left open."""
        self._transactional("init_transactions()", timeout, self.kafka_producer.init_transactions)

    def begin_transaction(self) -> None:
        """Begin a transaction."""
        self._transactional("begin_transaction()", -1, self.kafka_producer.begin_transaction)

    def send_offsets_to_transaction(self, positions: list[Any], group_metadata: Any, timeout: float = -1) -> None:
        """Commit what a consumer has consumed with the transaction: its positions, and consumer_group_metadata()."""
        valid = [position for position in positions if position.offset >= 0]
        ask = partial(self.kafka_producer.send_offsets_to_transaction, valid, group_metadata)
        self._transactional("send_offsets_to_transaction()", timeout, ask if valid else bool)

    def commit_transaction(self, timeout: float = -1) -> None:
        """Send what is left of the transaction, commit it, and call on_delivery."""
        self._transactional("commit_transaction()", timeout, self.kafka_producer.commit_transaction)

    def abort_transaction(self, timeout: float = -1) -> None:
        """Give up the transaction, and call on_delivery."""
        self._transactional("abort_transaction()", timeout, self.kafka_producer.abort_transaction)

    def _transactional(self, call: str, timeout: float, ask: Callable[[], object]) -> None:
        if not self._is_transactional:
            raise refused(KafkaError._NOT_CONFIGURED, f"{call} needs a transactional producer: set transactional.id. "
                                                      "Nothing was done")
        for other, answer in list(self._answers.items()):
            if other.endswith("()") and other != call:
                if not answer.done():
                    raise refused(KafkaError._CONFLICT, f"{other} is still on its way: call that again, to wait for "
                                                        "it. Nothing was done", retriable=True)
                del self._answers[other]  # of this transaction; the next one's is another
        try:
            self._within(call, timeout, ask)
        finally:  # a commit that failed is told after the records that it failed of
            self._serve()

    def _within(self, call: str, timeout: float, ask: Callable[[], _T]) -> _T:
        """Wait so long for an answer: on a thread, for ours wait for max.block.ms; the same call finds it again."""
        answer = self._answers.get(call)
        try:
            if answer is None:
                if timeout < 0:
                    return ask()
                answer = self._answers[call] = Future()
                Thread(target=_answer, args=(answer, ask), name=f"pyproducer-{call}", daemon=True).start()
            wait([answer], None if timeout < 0 else timeout)
            if answer.done():
                self._answers.pop(call, None)
                found: _T = answer.result()
                return found
        except (ours.KafkaError, ValueError) as cause:
            raise raised_for(cause) from cause
        raise refused(KafkaError._TIMED_OUT, f"{call} was not done within {timeout} s, and goes on: call it again to "
                                              "wait for it", retriable=True)

    def __len__(self) -> int:
        if self._producer is None:
            return 0
        count = sum(state.records for state in self._producer.waiting())
        return count + self._reports.qsize()  # in this order: see _make_room

    def __bool__(self) -> bool:
        return True

    def __reduce__(self) -> NoReturn:
        raise TypeError("a Producer cannot be pickled or copied: pass its settings, and make one in each process")

    def __enter__(self) -> Producer:
        return self

    def __exit__(self, *_raised: object) -> None:
        self.close()


def _answer(answer: Future[Any], ask: Callable[[], Any]) -> None:
    try:
        answer.set_result(ask())
    except BaseException as raised:  # whoever waits raises it
        answer.set_exception(raised)
