"""What the application gives a producer: serializers, interceptors, a partitioner; made, and closed again.

Road:    settings -> [parts] -> wiring, MockProducer; the sender's end closes them
Thread:  the constructor's makes them; whoever ends the producer closes them.
Source:  Java KafkaProducer's constructor, which closes what it made where it fails (4.1).
"""

from __future__ import annotations

import contextlib
import logging
from _thread import RLock
from collections.abc import Callable
from typing import NamedTuple

from pyproducer.common.class_names import close_parts
from pyproducer.producer.config import ProducerConfig
from pyproducer.producer.interceptors import ProducerInterceptors, resolve_interceptors
from pyproducer.producer.partitioners import Partitioner, resolve_partitioner
from pyproducer.producer.partitioners.partitioner import NextRandom, any_number
from pyproducer.producer.serializers import Serializer, encodings_not_read, resolve_serializer

log: logging.Logger = logging.getLogger(__name__)


class ApplicationParts(NamedTuple):
    """The parts. What needs no closing has no close(): see close_parts."""

    interceptors: ProducerInterceptors
    partitioner: Partitioner
    key_serializer: Serializer | None
    value_serializer: Serializer | None


def application_parts(config: ProducerConfig, key_serializer: object, value_serializer: object, *,
                      closes: bool = True, next_random: NextRandom = any_number,
                      make_lock: Callable[[], RLock] = RLock) -> ApplicationParts:
    """Make them.

    Args:
        config: Names them, but for serializers that were given.
        key_serializer: What the constructor was given.
        value_serializer: The same.
        closes: Whether those that are there are closed where another cannot be made.
        next_random: See resolve_partitioner.
        make_lock: See resolve_partitioner.

    Raises:
        ConfigError: One cannot be made.
    """
    given = config.for_classes
    key_serializer = config.key_serializer if key_serializer is None else key_serializer
    value_serializer = config.value_serializer if value_serializer is None else value_serializer
    with contextlib.ExitStack() as made:
        def keep(part: object) -> None:
            if closes:
                made.callback(close_parts, part)

        key = resolve_serializer(key_serializer, "key.serializer", given)
        keep(key)
        value = resolve_serializer(value_serializer, "value.serializer", given)
        keep(value)
        interceptors = resolve_interceptors(config.interceptor_classes, given)
        keep(interceptors)
        partitioner = resolve_partitioner(config.partitioner_class, config, next_random=next_random,
                                          make_lock=make_lock)
        made.pop_all()
    not_read = encodings_not_read(given, key_serializer, value_serializer)
    if not_read:
        log.warning("These settings have no effect, for only a StringSerializer that settings name reads them: %s",
                    ", ".join(not_read))
    return ApplicationParts(interceptors, partitioner, key, value)
