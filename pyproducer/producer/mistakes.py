"""What people try who know another client, and what it is here.

Road:    [application] -> KafkaProducer, RecordSender -> [these] -> an error that says it
Thread:  pure.
Source:  ours; confluent-kafka, kafka-python, aiokafka.
"""

from __future__ import annotations

import dis
import sys
from collections.abc import Callable, Mapping
from functools import wraps
from inspect import iscoroutinefunction
from typing import Any, TypeVar, cast

from pyproducer.common.secrets import shown

ELSEWHERE = {
    "produce": "send(topic, value, key=...) hands a record over; its callback is on_completion(metadata, exception)",
    "poll": "nothing has to be polled: callbacks run beside you, on the producer's own thread",
    "send_and_wait": "send(...).result(timeout) waits; in an event loop use pyproducer.aio.AsyncKafkaProducer",
    "start": "the constructor starts it; close() ends it",
    "stop": "close() ends it",
    "get": "send() returns a future: its result(timeout) waits",
    "list_topics": "partitions_for(topic) gives a topic's partitions; admin calls are an admin client's",
    "bootstrap_connected": "check(timeout) connects, and raises what is wrong",
    "purge": "close(0) fails what is not done",
    "produce_batch": "send_batch(topic, values, keys=...) takes many records as columns",
    "set_sasl_credentials": "credentials are settings: make another producer, or give tokens by "
                            "pyproducer.oauth.token.provider",
}
"""Methods of other clients' producers."""

_CONSUMER = ("there is no consumer here: confluent-kafka, kafka-python and aiokafka have one; a test reads a topic "
             "back by pyproducer.testing.read_topic")
_ADMIN = "there is no admin client here: confluent-kafka, kafka-python and aiokafka have one"
_SERIALIZING = "a KafkaProducer takes key.serializer and value.serializer"
NAMES = {
    "AsyncKafkaProducer": "it is in pyproducer.aio",
    "AIOKafkaProducer": "the producer for event loops is pyproducer.aio.AsyncKafkaProducer",
    "AIOProducer": "the producer for event loops is pyproducer.aio.AsyncKafkaProducer",
    "EmbeddedBroker": "it is in pyproducer.broker",
    "KafkaSink": "it is in pyproducer.spark",
    "KafkaException": "all errors are KafkaErrors; confluent-kafka's KafkaException is in "
                      "pyproducer.compat.confluent_kafka",
    "SerializingProducer": _SERIALIZING, "AvroProducer": _SERIALIZING,
    **dict.fromkeys(("MockProducer", "AsyncMockProducer", "read_topic", "ConsumedRecord"),
                    "it is in pyproducer.testing"),
    **dict.fromkeys(("KafkaConsumer", "Consumer", "AIOKafkaConsumer", "DeserializingConsumer"), _CONSUMER),
    **dict.fromkeys(("KafkaAdminClient", "AdminClient", "AIOKafkaAdminClient", "NewTopic"), _ADMIN),
}
"""Names that are looked for in the package, and are elsewhere or nowhere."""

BOUND = "max.block.ms bounds it (60 s unless it is set), and the same call may be made again"
"""What there is instead of a timeout."""

F = TypeVar("F", bound=Callable[..., Any])
_CALLBACK = "the callback is on_completion=, called with (metadata, exception), one of them None"
_ARGUMENTS = {"callback": _CALLBACK, "on_delivery": _CALLBACK,
              "timestamp_ms": "the time is timestamp=, in epoch milliseconds or a datetime"}


def no_attribute(owner: object, name: str, elsewhere: Mapping[str, str] = ELSEWHERE) -> AttributeError:
    """Return the error for an attribute that a producer does not have."""
    said, advice = f"{type(owner).__name__!r} object has no attribute {name!r}", elsewhere.get(name)
    return AttributeError(f"{said}: {advice}" if advice else said, name=name, obj=owner)


def no_name(module: str, name: str, elsewhere: Mapping[str, str]) -> AttributeError | ImportError:
    """Return the error for a name that a module does not have; to be called by the module's __getattr__.

    `from module import name` leaves nothing of an AttributeError's words, so that gets an ImportError.
    """
    advice = elsewhere.get(name)
    if advice is None:
        return AttributeError(f"module {module!r} has no attribute {name!r}")
    asker = sys._getframe(2)
    if asker.f_code.co_code[asker.f_lasti] == dis.opmap["IMPORT_FROM"]:
        return ImportError(f"cannot import name {name!r} from {module!r}: {advice}", name=module)
    return AttributeError(f"module {module!r} has no attribute {name!r}: {advice}")


def no_argument(count: int, name: str) -> TypeError:
    """Return the error for more than two arguments of send() by position, or for a name that it does not have."""
    if count > 2:
        return TypeError(f"send() takes topic and value by position, got {count} arguments: the others go by name, "
                         "key=, partition=, timestamp=, headers=, on_completion=")
    advice = _ARGUMENTS.get(name)
    return TypeError(f"send() got an unexpected keyword argument {name!r}{': ' + advice if advice else ''}")


def takes_no_timeout(method: F) -> F:
    """Have a call refuse confluent-kafka's timeout, which its like has there, and say what there is instead."""
    name, count = method.__name__, method.__code__.co_argcount

    def ensure(arguments: tuple[object, ...], named: Mapping[str, object]) -> None:
        if len(arguments) > count or "timeout" in named:
            raise TypeError(f"{name}() takes no timeout: {BOUND}")

    if iscoroutinefunction(method):
        @wraps(method)
        async def awaited(*arguments: Any, **named: Any) -> Any:
            ensure(arguments, named)
            return await method(*arguments, **named)

        return cast(F, awaited)

    @wraps(method)
    def call(*arguments: Any, **named: Any) -> Any:
        ensure(arguments, named)
        return method(*arguments, **named)

    return cast(F, call)


def not_settings(props: object, foreign: Mapping[str, object], name: str = "KafkaProducer") -> TypeError | None:
    """Return how settings are given here, to those who give something else; None to all others.

    Not raised here: a traceback shows the variables of its frames, and these may be secret.

    Args:
        props: What stands where the settings are expected.
        foreign: Arguments by name that there are none of.
        name: The producer's class.
    """
    how = "settings are a dict of Java's keys, with their dots"
    if isinstance(props, str):
        of_file = "" if name == "MockProducer" else f"; those of a file are read by {name}.from_file(path)"
        return TypeError(f"{how}: {name}({{'bootstrap.servers': {shown(props)!r}}}){of_file}")
    if foreign:
        key = next(iter(foreign))
        if key == "loop":  # asyncio's, and aiokafka's until 0.8
            return TypeError("loop= is no argument: an AsyncKafkaProducer belongs to the event loop that uses it first")
        return TypeError(f"{key}= is no argument: {how}: {name}({{'{key.replace('_', '.')}': ...}})")
    if not isinstance(props, Mapping):
        return TypeError(f"{how}: {name}({{'bootstrap.servers': 'host:9092'}}); got "
                         f"{'nothing' if props is None else type(props).__name__}")
    return None
