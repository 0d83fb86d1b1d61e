"""The chain of interceptors: they see each record before it is serialized, and its outcome.

Road:    send() -> [interceptors] -> serializers ... completion -> [interceptors]
Thread:  on_send and on_send_error: any caller. on_acknowledgement: the sender thread, or the caller of a send() that
         failed at once. close: who closes the producer.
Source:  Java ProducerInterceptor, ProducerInterceptors (4.1), KIP-512; seed 001.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from typing import Any

from pyproducer.common.class_names import (
    closed_if_refused,
    configure_instance,
    import_object,
    is_left_out,
    make_instance,
)
from pyproducer.common.cluster import UNKNOWN_PARTITION, TopicPartition
from pyproducer.common.errors import ConfigError
from pyproducer.common.public import public
from pyproducer.common.records import NO_HEADERS, Header, ProducerRecord, RecordMetadata, ensure_made
from pyproducer.common.sender_log import SenderLog, sender_log
from pyproducer.record.layout import NO_TIMESTAMP

log: SenderLog = sender_log(__name__)

KEY = "interceptor.classes"


@public
class ProducerInterceptor:
    """What an interceptor may do; override what you need. What it raises is logged and ignored.

    An interceptor need not derive from this class: the methods that it has are called.
    """

    def configure(self, props: Mapping[str, object]) -> None:
        """Take what it needs from the producer's properties, once, before anything else. May raise."""

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        """Return the record to go on with: the same, or another. Keep it quick: the caller of send() waits."""
        return record

    def on_acknowledgement(self, metadata: RecordMetadata | None, exception: BaseException | None) -> None:
        """See the outcome of a record, before its callback.

        One that is written with a third parameter, `headers`, gets the record's, too, as on_send() left them.

        Args:
            metadata: Where it is; with an exception, where it was to go: the offset is -1, and so is the partition
                where none was chosen.
            exception: Why it failed, or None.
        """

    def close(self) -> None:
        """Release what it holds; the producer is closing."""


class Telling:
    """Tells interceptors what became of one record, which it does not keep, once.

    An exception from outside (an alarm's handler) may end send() after the record was accepted: they hear of that, as
    the caller does, or of the record's end if that came first.

    Args:
        interceptors: They.
        headers: The record's.
    """

    __slots__ = ("_headers", "_interceptors", "_is_told")

    def __init__(self, interceptors: ProducerInterceptors, headers: tuple[Header, ...]) -> None:
        self._interceptors = interceptors
        self._is_told = False
        self._headers = headers

    def __call__(self, metadata: RecordMetadata | None, exception: BaseException | None) -> None:
        """Tell them how the record ended."""
        if not self._is_told:
            self._interceptors.on_acknowledgement(metadata, exception, self._headers)
            self._is_told = True

    def on_send_error(self, topic_partition: TopicPartition, error: Exception) -> None:
        """Tell them that send() ended with an error."""
        if not self._is_told:
            self._interceptors.on_send_error(topic_partition, error, self._headers)
            self._is_told = True


class ProducerInterceptors:
    """Calls interceptors in order; none of its methods raises.

    Args:
        interceptors: In the order in which they see a record.
    """

    def __init__(self, interceptors: Iterable[Any] = ()) -> None:
        self._interceptors = tuple(interceptors)
        self._on_send = tuple((interceptor, interceptor.on_send) for interceptor in self._interceptors
                              if getattr(interceptor, "on_send", None) is not None)
        self._on_acknowledgement = tuple(
            (on_acknowledgement, _takes_headers(on_acknowledgement)) for interceptor in self._interceptors
            if (on_acknowledgement := getattr(interceptor, "on_acknowledgement", None)) is not None)

    def __len__(self) -> int:
        return len(self._interceptors)

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        """Pass a record through the chain and return what comes out.

        An interceptor that raises, or returns something that is no record, is skipped: the next one gets the record of
        the last that did well.
        """
        intercepted = record
        for interceptor, on_send in self._on_send:
            try:
                result = on_send(intercepted)
                if not isinstance(result, ProducerRecord):
                    raise TypeError(f"on_send of {interceptor!r} must return a ProducerRecord, got "
                                    f"{type(result).__name__}")
                ensure_made(result)
            except Exception:
                log.warning("Error executing interceptor on_send callback for topic: %s, partition: %s", record.topic,
                            record.partition, exc_info=True)
            else:
                intercepted = result
        return intercepted

    def on_acknowledgement(self, metadata: RecordMetadata | None, exception: BaseException | None,
                           headers: tuple[Header, ...] = NO_HEADERS) -> None:
        """Tell every interceptor the outcome of a record.

        Args:
            metadata: Where the record is; None where it failed.
            exception: Why it failed, or None; it knows where the record was to go.
            headers: The record's.
        """
        topic = getattr(exception, "topic", None)
        if metadata is None and topic is not None:
            partition = getattr(exception, "partition", None)
            metadata = _nowhere(topic, UNKNOWN_PARTITION if partition is None else partition)
        # Whatever one raises changes nothing: this is the sender thread, where no signal arrives.
        self._tell(metadata, exception, headers, BaseException)

    def on_send_error(self, topic_partition: TopicPartition, exception: BaseException,
                      headers: tuple[Header, ...] = NO_HEADERS) -> None:
        """Tell every interceptor that send() itself failed.

        Args:
            topic_partition: Where the record was going, as far as known; -1 is an unknown partition.
            exception: Why.
            headers: The record's.
        """
        # In the caller's thread what is no Exception may come from outside, as Ctrl-C does, and is the caller's.
        self._tell(_nowhere(*topic_partition), exception, headers, Exception)

    def _tell(self, metadata: RecordMetadata | None, exception: BaseException | None, headers: tuple[Header, ...],
              caught: type[BaseException]) -> None:
        for on_acknowledgement, takes_headers in self._on_acknowledgement:
            try:
                if takes_headers:
                    on_acknowledgement(metadata, exception, headers)
                else:
                    on_acknowledgement(metadata, exception)
            except caught:
                log.warning("Error executing interceptor on_acknowledgement callback", exc_info=True)

    def close(self) -> None:
        """Close every interceptor, whatever the others do."""
        for interceptor in self._interceptors:
            close = getattr(interceptor, "close", None)
            if close is None:
                continue
            try:
                close()
            except BaseException:  # the others are closed all the same, by the sender thread as its last act
                log.error("Failed to close producer interceptor %r", interceptor, exc_info=True)


def _nowhere(topic: str, partition: int) -> RecordMetadata:
    """Return what is told of a record that is in no log, as far as it is known."""
    return RecordMetadata(topic, partition, -1, NO_TIMESTAMP, -1, -1)


def _takes_headers(on_acknowledgement: Any) -> bool:
    """Whether it has a third parameter that is called headers, or must be given (KIP-512)."""
    try:
        parameters = inspect.signature(on_acknowledgement).parameters.values()
    except (TypeError, ValueError):  # there is none, or a builtin's, which has no signature
        return False
    third = [parameter for parameter in parameters
             if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)][2:3]
    return any(parameter.name == "headers" or parameter.default is parameter.empty for parameter in third)


def resolve_interceptors(values: Iterable[object],
                         props: Mapping[str, object] | None = None) -> ProducerInterceptors:
    """Return the chain that `interceptor.classes` means.

    Args:
        values: Instances, classes, and names ("module:Class" or dotted), in order.
        props: The producer's properties, for `configure`.

    Raises:
        ConfigError: A name or class cannot be used, or `configure` failed; those made so far are closed.
    """
    interceptors: list[Any] = []
    try:
        for value in values:
            if is_left_out(value):
                log.warning("%s has no effect: only a JVM can use %s", KEY, value)
                continue
            found = import_object(KEY, value) if isinstance(value, str) else value
            interceptor: Any = make_instance(KEY, found)
            with closed_if_refused(found, interceptor):
                if not any(callable(getattr(interceptor, name, None)) for name in ("on_send", "on_acknowledgement")):
                    raise ConfigError(KEY, value, "an interceptor must have on_send(record) or "
                                                  "on_acknowledgement(metadata, exception)")
            interceptors.append(interceptor)
            configure_instance(KEY, value, interceptor, props or {})
    except BaseException:
        ProducerInterceptors(interceptors).close()
        raise
    return ProducerInterceptors(interceptors)
