"""What only some seeds have: old, mixed and odd clusters, brokers that forget at any time, and rare states to begin in.

One seed in three has a mixture of some of these, the first in turn, so that some dozen seeds have them all; the others
stay what they are, whatever is added here. One in eight begins in a rare state, made on purpose and in turn, too:
three rare things together are too rare for chance.

    old_brokers      before 2.4: 59 for who is not known, 46 for old
    late_epoch       producer epochs end after some bumps
    init_version     InitProducerId in another version
    api_versions     ApiVersions in another version; 35 for a newer one
    mixed_versions   nodes of several releases; who restarts is upgraded
    append_time      topics that keep the broker's time
    auto_create      a topic that is made when it is asked for
    expiry           producers forgotten after a silence, as Kafka does
    many_addresses   names have several addresses, and at some of them nobody listens
    (each of plan.POWER_FAULTS)

Another third has an application of its own kind:

    done_callbacks, interceptor, serializer, partitioner, null_values    see application.py
    small_requests   max.request.size is small
    two_producers    on one cluster; each caller has one of them
    asyncio          an event loop with an AsyncKafkaProducer of its own, see event_loop.py
    no_topic         some records are for a topic that there is not
    raises           pyproducer.on.unretrieved is "raise"
    few_retries      retries is small
    meetings         callers wait for several futures at once, see meetings.py
    forks            the process forks in the middle of it, see forks.py
    transactions     a thread has a transactional producer of its own, see transactional.py

And one in six, of all, has brokers that want metrics:

    telemetry        see model_telemetry.py

judges() says which checks judge each; `python -m tests.simulation --powers` says how often they did.

Source:  ours; producer.id.expiration.ms, KIP-360, KIP-951, KIP-1102 (129).
"""

from __future__ import annotations

import random
from dataclasses import replace
from typing import TYPE_CHECKING

from pyproducer.accumulator import transaction_manager
from tests.simulation.model_log import KAFKA_BEFORE_2_4
from tests.simulation.model_telemetry import Wanted

if TYPE_CHECKING:
    from tests.simulation.plan import Parameters

CLUSTERS = ("old_brokers", "late_epoch", "init_version", "api_versions", "mixed_versions", "append_time",
            "auto_create", "expiry", "many_addresses")
APPLICATIONS = ("done_callbacks", "interceptor", "serializer", "partitioner", "null_values", "small_requests",
                "two_producers", "asyncio", "no_topic", "raises", "few_retries", "meetings", "forks", "transactions")
EVERYWHERE = ("telemetry",)
_CLOSED_AT_THE_END = ("two_producers", "asyncio", "transactions")
OPENINGS = ("refused_lost", "passing", "passing_lost", "split_codec", "split_refused", "first_split",
            "forgotten_lost", "recreated_lost", "torn_turn", "fenced_lost", "left_out", "restarted_lost")
OPENINGS_OF_TRANSACTIONS = ("late_end", "late_add", "fatal_fail")
_BEFORE_V2 = ("late_end", "late_add")
_ONCE = ("stored once", "order")
_JUDGED_BY = {
    "old_brokers": (*_ONCE, "told as heard"), "late_epoch": _ONCE, "init_version": ("told as stored",),
    "api_versions": ("told as stored",), "mixed_versions": ("told as stored",),
    "append_time": ("timestamp of the log",), "auto_create": ("life",), "expiry": (*_ONCE, "patience"),
    "forget_any": _ONCE, "stale_hint": _ONCE, "wrong_hint": _ONCE, "omit_partition": ("stored once", "told unknown"),
    "extra_partition": ("told as stored",),
    "false_success": ("excused: lies",), "omit_topic": ("life",), "hide_node": ("told as stored",),
    "metadata_error": ("life",),
    "odd_versions": ("told as stored",),
    "add_partitions": ("partition of the key",),
    "many_addresses": ("life", "explanations"), "strange_peer": ("explanations",), "wants_login": ("explanations",),
    "odd_name": ("explanations",), "unencodable": ("told not_sent",), "record_errors": ("blame",),
    "garble": ("explanations",),
    "no_topic": ("absence",), "raises": ("raises",), "few_retries": ("retries",), "meetings": ("meetings",),
    "telemetry": ("telemetry",), "telemetry_error": ("telemetry",),
    "forks": ("forks",), "transactions": ("transactions", "in a transaction"),
    "coordinator_move": ("transactions",), "coordinator_error": ("transactions",),
    "slow_completion": ("transactions",), "other_producer": ("transactions",),
    "coordinator_refusal": ("transactions",), "partial_refusal": ("transactions",),
    "opening late_end": ("transactions committed",), "opening late_add": ("transactions committed",),
    "opening fatal_fail": ("stays fatal",),
    "fence": ("stored once", "told unknown"), "restart_replicas": (*_ONCE, "told as heard"),
    "done_callbacks": ("done callback once", "done callback order"), "interceptor": ("interceptor",),
    "serializer": ("serializer",), "partitioner": ("partition chosen by the application",), "null_values": ("content",),
    "small_requests": ("request size",), "two_producers": _ONCE,
    "asyncio": ("await says what the future says", "await of another's", "cancelled", "withdrawn"),
    "codec_memory": ("codec",),
    "freeze": ("patience",), "suspend": ("patience",), "wall_jump": ("patience",), "throttle": ("told as stored",),
}
MOST_SILENCES = 2
_EVERY = 3
_EVERY_OPENING = 8
_METRICS_WANTED = 1 / 6
_LAST_EPOCH = 2**15 - 1  # which no broker gives
# What shows whether a client knows what it cannot know: batches in doubt when their numbers are refused, or they are.
_SHOWN_BY = {"old_brokers": {"restart_replicas": 1.0, "half_open": 3.0}, "fence": {"cut_after": 4.0},
             "omit_partition": {"error_before": 4.0}, "restart_replicas": {"half_open": 3.0, "lose_answer": 5.0}}
# What a silence must not be mixed with: time in which the process stands still, while its records wait.
_STANDING_STILL = ("freeze", "suspend")


def silence_limit_ms() -> int:
    """Return how long the client may be silent before it takes itself for forgotten."""
    return int(getattr(transaction_manager, "SILENCE_LIMIT_MS", 300_000))


def judges() -> dict[str, tuple[str, ...]]:
    """Return all powers, openings and faults, each with the checks that judge it."""
    from tests.simulation.plan import (
        FAULTS,
        LATER_FAULTS,
        LOGIN_FAULTS,
        POWER_FAULTS,
        TELEMETRY_FAULTS,
        TRANSACTION_FAULTS,
    )

    names = (*CLUSTERS, *APPLICATIONS, *EVERYWHERE, *POWER_FAULTS, *(f"opening {name}" for name in OPENINGS),
             *(f"opening {name}" for name in OPENINGS_OF_TRANSACTIONS), *FAULTS,
             *LATER_FAULTS, *LOGIN_FAULTS, *TRANSACTION_FAULTS, *TELEMETRY_FAULTS)
    return {name: _JUDGED_BY.get(name, _ONCE) for name in names if name != "strike"}  # which is the swarm's


def draw(seed: int, chance: random.Random, parameters: Parameters) -> Parameters:
    """Draw the mixture of a seed, if it has one, and the state with which it begins."""
    from tests.simulation.plan import POWER_FAULTS

    if seed % _EVERY == 0:
        all_of_them = (*CLUSTERS, *POWER_FAULTS)
        names = {all_of_them[seed // _EVERY % len(all_of_them)]: None}
        names.update(dict.fromkeys(chance.sample(all_of_them, chance.choice((0, 1, 1, 2, 3)))))
        weight = chance.choice((0.5, 1.0, 2.0))
        parameters = replace(parameters, powers=frozenset(names))
        for name in names:
            if name in POWER_FAULTS:
                parameters.fault_rates[name] = (0.2 + chance.random()) * weight
            else:
                parameters = _CLUSTERS[name](chance, parameters)
        if parameters.listener is not None:
            parameters.fault_rates.pop("wants_login", None)  # it has one
        if "metadata_error" in names:
            parameters = replace(parameters, metadata_version=13)
        for name in names:
            for kind, least in _SHOWN_BY.get(name, {}).items():
                parameters.fault_rates[kind] = max(least, parameters.fault_rates.get(kind, 0.0))
        if "record_errors" in names:
            parameters = replace(parameters, produce_version=max(9, parameters.produce_version))
        if "wrong_hint" in names or "stale_hint" in names:
            parameters = replace(parameters, produce_version=max(10, parameters.produce_version))
    if seed % _EVERY == 1:
        parameters = _with_application(chance, parameters, seed // _EVERY)
    if seed % _EVERY_OPENING == 7:
        parameters = _with_opening(chance, parameters, OPENINGS[seed // _EVERY_OPENING % len(OPENINGS)])
    if chance.random() < _METRICS_WANTED:
        parameters = _telemetry(chance, parameters)
    return parameters


def _telemetry(chance: random.Random, parameters: Parameters) -> Parameters:
    from tests.simulation.plan import TELEMETRY_FAULTS

    wanted = Wanted(
        interval_ms=chance.choice((200, 1000, 1000, 5000)), most_bytes=chance.choice((1_048_576, 1_048_576, 1500)),
        accepted=chance.choice(((4, 3, 1, 2), (9, 3), (1,), (2, 1), (9,), ())),
        prefixes=chance.choice((("*",), ("",), ("org.apache.kafka.producer.record.", "other."), ())),
        is_delta=chance.random() < 0.5, slack_ms=parameters.props["request.timeout.ms"] + parameters.latency_ms)
    weight = chance.choice((0.0, 0.0, 0.5, 1.0))
    parameters.fault_rates.update((kind, weight * chance.random()) for kind in TELEMETRY_FAULTS if weight)
    # Pushes are large, and would come piece by piece.
    return replace(parameters, telemetry=wanted, powers=parameters.powers | {"telemetry"}, window_bytes=1_000_000)


def _with_application(chance: random.Random, parameters: Parameters, turn: int) -> Parameters:
    turns = (*APPLICATIONS, *["transactions"] * 2)  # of which there is most to get wrong
    names = {turns[turn % len(turns)], *chance.sample(APPLICATIONS, chance.choice((0, 1, 1, 2)))}
    if "small_requests" in names:
        parameters.props["max.request.size"] = chance.choice((250, 500, 2000))
    if "raises" in names:
        names.discard("asyncio")  # whose loop has no place where it could be raised
        parameters.props["pyproducer.on.unretrieved"] = "raise"
    if "transactions" in names:
        names -= {"asyncio", "two_producers", "interceptor", "serializer", "partitioner", "null_values", "few_retries"}
        parameters = _with_transactions(chance, parameters)
    if "few_retries" in names:
        parameters.props["retries"] = chance.choice((1, 2, 3) if parameters.props["enable.idempotence"] else (0, 1, 3))
    if "no_topic" in names:
        # Brokers are asked for it again and again; and where they tell no leader epochs, without a longer backoff.
        parameters.props.update({"max.block.ms": max(5000, parameters.props["max.block.ms"]), "retry.backoff.ms": 100})
    if "asyncio" in names and chance.random() < 0.6:  # its tasks wait for memory, and for each other
        parameters.props.update({"buffer.memory": 5000, "batch.size": min(1000, parameters.props["batch.size"])})
    if names & set(_CLOSED_AT_THE_END):
        parameters = replace(parameters, close_kind="flush_then_close", caller_count=max(2, parameters.caller_count))
    return replace(parameters, powers=frozenset(names))


def _with_transactions(chance: random.Random, parameters: Parameters) -> Parameters:
    """Have a transactional producer, and what may happen to it; brokers forget nobody, and lie to nobody."""
    from tests.simulation.plan import TRANSACTION_FAULTS

    parameters.props.update({"enable.idempotence": True, "acks": "all",
                             "max.block.ms": chance.choice((5000, 60_000, 60_000))})
    parameters.props.pop("retries", None)
    for kind in ("forget_producer", "recreate_topic", "error_after", "memory_error", "strike"):
        parameters.fault_rates.pop(kind, None)
    weight = chance.choice((0.0, 0.5, 1.0, 2.0))
    parameters.fault_rates.update((kind, weight * chance.random()) for kind in TRANSACTION_FAULTS)
    is_v2 = chance.random() < 0.5
    openings = [name for name in OPENINGS_OF_TRANSACTIONS if not is_v2 or name not in _BEFORE_V2]
    parameters = replace(parameters, opening=chance.choice((None, *openings)))
    return replace(parameters, transactions="v2" if is_v2 else "v1", produce_version=13 if is_v2 else chance.choice(
        (9, 11, 12, 13)), metadata_version=13 if is_v2 else chance.choice((9, 12, 13)),
        transaction_timeout_ms=chance.choice((10_000, 60_000, 60_000)))


def _old_brokers(chance: random.Random, parameters: Parameters) -> Parameters:
    produce = chance.choice((3, 5, 7, 7))
    if produce < 7 and parameters.props["compression.type"] == "zstd":
        parameters.props["compression.type"] = "lz4"
    return replace(parameters, idempotence=KAFKA_BEFORE_2_4, produce_version=produce, metadata_version=chance.choice(
        (4, 7, 8)), init_producer_id_version=chance.choice((0, 1)), api_versions_version=chance.choice((0, 1, 2)),
        authenticate_version=min(1, parameters.authenticate_version), loses_old_records=chance.random() < 0.5,
        node_versions={})


def _late_epoch(chance: random.Random, parameters: Parameters) -> Parameters:
    return replace(parameters, first_producer_epoch=_LAST_EPOCH - chance.choice((1, 2, 4)))


def _init_version(chance: random.Random, parameters: Parameters) -> Parameters:
    return replace(parameters, init_producer_id_version=chance.choice((0, 1, 2, 3, 4)))


def _api_versions(chance: random.Random, parameters: Parameters) -> Parameters:
    return replace(parameters, api_versions_version=chance.choice((0, 1, 2, 3)))


def _mixed_versions(chance: random.Random, parameters: Parameters) -> Parameters:
    produce, metadata = parameters.produce_version, parameters.metadata_version
    lowest = 7 if parameters.props["compression.type"] == "zstd" else 3
    return replace(parameters, node_versions={
        node_id: (max(lowest, produce - chance.choice((0, 1, 3, 6))), max(4, metadata - chance.choice((0, 1, 3, 6))))
        for node_id in range(parameters.node_count) if chance.random() < 0.7})


def _append_time(chance: random.Random, parameters: Parameters) -> Parameters:
    topics = list(parameters.topics)
    return replace(parameters, log_append_time_topics=frozenset(chance.sample(topics, chance.randint(1, len(topics)))))


def _many_addresses(chance: random.Random, parameters: Parameters) -> Parameters:
    count = chance.choice((2, 3))
    return replace(parameters, address_count=count, dead_addresses=frozenset(
        chance.sample(range(count), chance.randint(1, count - 1))))


def _auto_create(chance: random.Random, parameters: Parameters) -> Parameters:
    return replace(parameters, missing_topic="made", topics={**parameters.topics, "made": chance.choice((1, 2, 3))})


def _expiry(chance: random.Random, parameters: Parameters) -> Parameters:
    props = parameters.props
    # Simulated silence is not for free: the sender looks around once in request.timeout.ms.
    props["delivery.timeout.ms"] = min(props["delivery.timeout.ms"], 30_000)
    props["request.timeout.ms"] = max(props["request.timeout.ms"], 5000)
    props["delivery.timeout.ms"] = max(props["delivery.timeout.ms"], props["request.timeout.ms"] + props["linger.ms"])
    props["metadata.max.age.ms"] = 300_000
    for kind in _STANDING_STILL:
        parameters.fault_rates.pop(kind, None)
    expiration_ms = silence_limit_ms() + 2 * (props["delivery.timeout.ms"] + props["request.timeout.ms"])
    silence_ms = expiration_ms + chance.choice((1000, 5000, 20_000))
    return replace(parameters, producer_expiration_ms=expiration_ms, silence_ms=silence_ms,
                   faults_last_ms=parameters.faults_last_ms + MOST_SILENCES * silence_ms)


_CLUSTERS = {"old_brokers": _old_brokers, "late_epoch": _late_epoch, "init_version": _init_version,
             "api_versions": _api_versions, "mixed_versions": _mixed_versions, "append_time": _append_time,
             "auto_create": _auto_create, "expiry": _expiry, "many_addresses": _many_addresses}


def _with_opening(chance: random.Random, parameters: Parameters, opening: str) -> Parameters:
    from tests.simulation.plan import TRANSACTION_FAULTS

    for kind in TRANSACTION_FAULTS:
        parameters.fault_rates.pop(kind, None)
    parameters = replace(parameters, opening=None, transactions=None, powers=parameters.powers - {"transactions"})
    faults_last_ms, has_silences = parameters.faults_last_ms, bool(parameters.silence_ms)
    parameters.props.update({
        "enable.idempotence": True, "acks": "all", "max.in.flight.requests.per.connection": 5, "batch.size": 400,
        "buffer.memory": 33_554_432, "linger.ms": 50, "request.timeout.ms": 5000, "delivery.timeout.ms": 30_000,
        "max.block.ms": 60_000})
    parameters.props.pop("retries", None)
    first, count = next(iter(parameters.topics.items()))
    if opening == "restarted_lost":  # only these brokers tell that they have it
        parameters = _old_brokers(chance, parameters)
    if opening == "torn_turn":  # two partitions, led by two nodes
        parameters = replace(parameters, node_count=max(2, parameters.node_count),
                             topics={**parameters.topics, first: max(2, count)})
    if not has_silences:
        parameters = replace(_expiry(chance, parameters), faults_last_ms=faults_last_ms)
    return replace(parameters, opening=opening, longest_message_bytes=1_048_588,
                   window_bytes=1_000_000)
