"""metric.reporters: who is given a producer's numbers when it is made.

A reporter is a callable, an object with `init`, a class of one, or the name of any of these ("module:Class"). It is
called once, with a function that returns all numbers as a list of Metric; it may call that at any time, from any thread
(of its own, for there is none for it). What it returns, or it itself, is closed with the producer where it has `close`.

Road:    wiring -> [reporters] -> the application
Thread:  the constructor's; `close` the sender thread's.
Source:  Java MetricsReporter, CommonClientConfigs.metricsReporters (4.1). Differs from Java: told of no single metric,
         for all are there from the start; JmxReporter is nobody here, nor is Confluent's, with a warning.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from pyproducer.common.class_names import close_parts, closed_if_refused, import_object, is_left_out
from pyproducer.common.clock import Clock
from pyproducer.common.errors import ConfigError
from pyproducer.observe.registry import Metric, Registry
from pyproducer.producer.config import ProducerConfig

log: logging.Logger = logging.getLogger(__name__)

_JMX = "org.apache.kafka.common.metrics.JmxReporter"
_KEY = "metric.reporters"

Read = Callable[[], "list[Metric]"]
"""What a reporter is given."""


def reporters_of(config: ProducerConfig, registry: Registry, clock: Clock) -> tuple[object, ...]:
    """Make the reporters and give them what they read; return what is to be closed.

    Raises:
        ConfigError: One cannot be loaded, is no reporter, or raised. Those that had begun are closed.
    """
    made: list[object] = []
    try:
        for given in config.metric_reporters:
            if is_left_out(given):
                log.warning("%s has no effect: only a JVM can use %s", _KEY, given)
            elif given != _JMX:
                made.append(_begun(given, config, registry, clock))
    except BaseException:
        close_parts(*made)
        raise
    return tuple(made)


def _begun(given: object, config: ProducerConfig, registry: Registry, clock: Clock) -> object:
    """Make one and give it what it reads; return what is to be closed."""
    def read() -> list[Metric]:
        return list(registry.collect(clock.now_ms()))

    named = import_object(_KEY, given) if isinstance(given, str) else given
    try:
        reporter: Any = named() if isinstance(named, type) else named
        with closed_if_refused(named, reporter):
            configure = getattr(reporter, "configure", None)
            if callable(configure):
                configure(config.for_classes)
            begin = getattr(reporter, "init", reporter)
            if not callable(begin):
                raise ConfigError(_KEY, given, "it is neither callable nor has it init()")
            returned = begin(read)
    except ConfigError:
        raise
    except Exception as cause:
        raise ConfigError(_KEY, given, f"it raised {cause!r}") from cause
    return reporter if returned is None else returned
