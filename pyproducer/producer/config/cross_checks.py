"""Checks and adjustments that need more than one setting.

Road:    parsed values -> [cross checks] -> ProducerConfig
Thread:  pure functions on a dict that nobody else has yet.
Source:  Java ProducerConfig.postProcessParsedConfig, KafkaProducer.configureDeliveryTimeout, CommonClientConfigs (4.1),
         probed on the real producer.
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Set
from functools import partial
from typing import Any

from pyproducer.common.errors import ConfigError
from pyproducer.common.kafka_string import beginning, string_fault
from pyproducer.common.topic_name import topic_name_fault
from pyproducer.producer.config.rows_client import REBUILD
from pyproducer.producer.config.rows_delivery import MAX_INT

log: logging.Logger = logging.getLogger(__name__)

MAX_IN_FLIGHT_WITH_IDEMPOTENCE = 5
_client_numbers = itertools.count(1)


def cross_check(values: dict[str, Any], explicit: Set[str]) -> None:
    """Check settings against each other and adjust defaults, in place.

    Args:
        values: A value for every key of the table.
        explicit: The keys that the user gave.

    Raises:
        ConfigError: Settings contradict each other; it tells of all that do.
    """
    refusals: list[ConfigError] = []
    for step in (partial(_adjust_backoffs, values, explicit), partial(_check_idempotence, values, explicit),
                 partial(_check_two_phase_commit, values, explicit),
                 partial(_adjust_delivery_timeout, values, explicit), partial(_check_rack, values),
                 partial(_check_prefetched, values), partial(_check_fork, values), partial(_name, values)):
        refusals += ConfigError.raised_by(step)
    if refusals:
        raise ConfigError.of_all(refusals)


def _adjust_backoffs(values: dict[str, Any], explicit: Set[str]) -> None:
    # As in Java: who gives only the first wait wants that wait, not one that grows.
    if "reconnect.backoff.ms" in explicit and "reconnect.backoff.max.ms" not in explicit:
        values["reconnect.backoff.max.ms"] = values["reconnect.backoff.ms"]
    for first, ceiling in (("retry.backoff.ms", "retry.backoff.max.ms"),
                           ("reconnect.backoff.ms", "reconnect.backoff.max.ms"),
                           ("socket.connection.setup.timeout.ms", "socket.connection.setup.timeout.max.ms")):
        if values[first] > values[ceiling]:
            log.warning("%s = %d is above %s = %d: the wait will not grow", first, values[first], ceiling,
                        values[ceiling])


def _check_rack(values: dict[str, Any]) -> None:
    if values["partitioner.rack.aware"] and not values["client.rack"]:
        raise ConfigError("client.rack", values["client.rack"], "partitioner.rack.aware = true needs it: set it to the "
                          "rack of this client, as the brokers' broker.rack has it, or leave out both")


def _check_prefetched(values: dict[str, Any]) -> None:
    for topic in values["pyproducer.prefetch.topics"]:
        if topic_name_fault(topic) is not None:
            raise ConfigError("pyproducer.prefetch.topics", topic, "a topic's name has 1 to 249 characters out of a-z, "
                              "A-Z, 0-9, '.', '_' and '-', and is not '.' or '..'")


def _check_fork(values: dict[str, Any]) -> None:
    if values["pyproducer.fork"] == REBUILD and values["transactional.id"] is not None:
        raise ConfigError("pyproducer.fork", REBUILD, "a child with the parent's transactional.id would fence the "
                          "parent: leave one of the two out, or make a producer with an id of its own in the child")


def _check_idempotence(values: dict[str, Any], explicit: Set[str]) -> None:
    acks = "-1" if values["acks"] == "all" else values["acks"]
    values["acks"] = acks
    if values["enable.idempotence"]:
        is_wanted = "enable.idempotence" in explicit
        if values["retries"] == 0:
            if is_wanted:
                raise ConfigError("retries", 0, "enable.idempotence = true needs retries: set retries to 1 or more, or "
                                                "enable.idempotence to false")
            _switch_off_idempotence(values, "retries", "0")
        if acks != "-1":
            if is_wanted:
                raise ConfigError("acks", acks, "enable.idempotence = true needs acks = all: set acks to all, or "
                                                "enable.idempotence to false")
            _switch_off_idempotence(values, "acks", acks)
        # Also when idempotence was just switched off: Java does the same.
        in_flight = values["max.in.flight.requests.per.connection"]
        if in_flight > MAX_IN_FLIGHT_WITH_IDEMPOTENCE:
            raise ConfigError("max.in.flight.requests.per.connection", in_flight,
                              f"it must be at most {MAX_IN_FLIGHT_WITH_IDEMPOTENCE} with the idempotent producer: "
                              "lower it, or set enable.idempotence to false")
    if values["transactional.id"] is not None and not values["enable.idempotence"]:
        raise ConfigError("transactional.id", values["transactional.id"],
                          "transactions need idempotence: leave out enable.idempotence, acks and retries, or set them "
                          "to true, all and at least 1")


def _switch_off_idempotence(values: dict[str, Any], key: str, value: str) -> None:
    log.info("Idempotence is off because %s is set to %s", key, value)
    values["enable.idempotence"] = False


def _check_two_phase_commit(values: dict[str, Any], explicit: Set[str]) -> None:
    if values["transaction.two.phase.commit.enable"] and "transaction.timeout.ms" in explicit:
        raise ConfigError("transaction.timeout.ms", values["transaction.timeout.ms"],
                          "transactions do not time out when transaction.two.phase.commit.enable is true: leave out "
                          "one of the two")


def _adjust_delivery_timeout(values: dict[str, Any], explicit: Set[str]) -> None:
    delivery_ms = values["delivery.timeout.ms"]
    needed_ms = min(min(values["linger.ms"], MAX_INT) + values["request.timeout.ms"], MAX_INT)
    if delivery_ms >= needed_ms:
        return
    if "delivery.timeout.ms" in explicit:
        raise ConfigError("delivery.timeout.ms", delivery_ms,
                          f"it must be at least linger.ms + request.timeout.ms = {values['linger.ms']} + "
                          f"{values['request.timeout.ms']}: set it to {needed_ms} or more, or lower the others")
    log.warning("delivery.timeout.ms is raised from its default %d to linger.ms + request.timeout.ms = %d", delivery_ms,
                needed_ms)
    values["delivery.timeout.ms"] = needed_ms


def _name(values: dict[str, Any]) -> None:
    if not values["client.id"]:
        identity = values["transactional.id"] or next(_client_numbers)
        values["client.id"] = f"producer-{identity}"
    for key in ("transactional.id", "client.id"):  # the latter may be made of the former
        fault = string_fault(values[key] or "")
        if fault is not None:
            raise ConfigError(key, beginning(values[key]), fault)
