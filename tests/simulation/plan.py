"""What a seed stands for: the streams of chance, the settings and the surroundings that are drawn from it.

Each concern has a stream of its own, made of the seed and the concern's name: what one of them draws more or less
changes nothing of the others. New draws are appended to a stream's, never put in between.

Source:  ours.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from tests.simulation import powers
from tests.simulation.model_log import KAFKA_4_1, Idempotence
from tests.simulation.model_sasl import ModelListener
from tests.simulation.model_telemetry import Wanted

FAULTS = (
    "cut_before", "cut_after", "late_apply", "lose_answer", "half_open", "slow_answer", "stall", "refuse",
    "lose_connect", "error_before", "error_after", "too_large", "throttle", "stale_metadata", "shrinking_metadata",
    "sparse_metadata", "topic_error", "leader_move", "leader_move_unhinted", "node_stop", "recreate_topic",
    "forget_producer", "no_id", "slow_name", "no_name", "wall_jump", "freeze", "memory_error", "interrupt",
    "strike", "suspend",
)
# Drawn behind all others.
LATER_FAULTS = ("send_memory", "codec_memory")
# Only where a mixture of powers.py has them.
POWER_FAULTS = ("forget_any", "stale_hint", "wrong_hint", "omit_partition", "extra_partition", "false_success",
                "omit_topic", "hide_node", "metadata_error", "odd_versions", "add_partitions", "fence",
                "restart_replicas", "strange_peer", "wants_login", "odd_name", "unencodable", "record_errors", "garble")
# Only where there is a transactional producer.
TRANSACTION_FAULTS = ("coordinator_move", "coordinator_error", "slow_completion", "other_producer",
                      "coordinator_refusal", "partial_refusal")
# Only where brokers want metrics.
TELEMETRY_FAULTS = ("telemetry_error",)
# Only where the brokers ask who is there.
LOGIN_FAULTS = ("refuse_login",)


@dataclass(frozen=True)
class Plan:
    """One run: a seed, and what shrinking took away from it.

    Attributes:
        seed: Where all chance comes from.
        swarm: Whether threads are switched, and exceptions raised, at any line.
        record_limit: How many records at most; None as drawn.
        caller_limit: How many threads send at most; None as drawn.
        without: Kinds of faults that do not happen.
        spared: Numbers of faults, in the order in which they would happen, that do not.
        calm: Threads are switched only where they wait.
        is_telling: Whether its story is told; that changes nothing of it.
    """

    seed: int
    swarm: bool = False
    record_limit: int | None = None
    caller_limit: int | None = None
    without: frozenset[str] = frozenset()
    spared: frozenset[int] = frozenset()
    calm: bool = False
    is_telling: bool = False

    def stream(self, concern: str) -> random.Random:
        """The chance of one concern."""
        return random.Random(f"{self.seed}:{concern}")


@dataclass(frozen=True)
class Parameters:
    """What was drawn.

    Attributes:
        powers: The mixture of powers.py that this seed has, if any.
        opening: The rare state with which it begins; see opening.py.
        loses_old_records: Whether brokers may have deleted records when they forget who wrote them.
        missing_topic: A topic that is made when Metadata asks for it.
        node_versions: The highest Produce and Metadata of nodes that are older than the others.
        producer_expiration_ms: After how long without a record a partition forgets its producers.
        silence_ms: For how long the application is silent now and then.
        address_count: How many addresses a name has.
        transactions: "v1" or "v2" where there is a transactional producer.
        transaction_timeout_ms: transaction.timeout.ms.
        dead_addresses: Numbers of those at which nobody listens.
        telemetry: What brokers want of metrics, if anything.
        batch_growth: How often batch.size a batch may grow to behind another one that waits; 1 where it was set.
    """

    node_count: int
    topics: dict[str, int]
    caller_count: int
    record_count: int
    props: dict[str, Any]
    fault_rates: dict[str, float]
    faults_last_ms: int
    switch_rate: float
    tick_rate: float
    longest_tick_ms: int
    latency_ms: int
    cut_rate: float
    window_bytes: int
    callback_rate: float
    wild_callback_rate: float
    pause_ms: int
    produce_version: int
    metadata_version: int
    longest_message_bytes: int
    first_sequence_near_end: bool
    trace_lines: tuple[int, int] = (200, 6000)
    close_kind: str = "close"
    hold_rate: float = 0.0
    listener: ModelListener | None = None
    authenticate_version: int = 2
    powers: frozenset[str] = frozenset()
    opening: str | None = None
    idempotence: Idempotence = KAFKA_4_1
    loses_old_records: bool = False
    first_producer_epoch: int = 0
    init_producer_id_version: int = 5
    api_versions_version: int = 4
    log_append_time_topics: frozenset[str] = frozenset()
    missing_topic: str | None = None
    node_versions: Mapping[int, tuple[int, int]] = field(default_factory=dict)
    producer_expiration_ms: int | None = None
    silence_ms: int = 0
    transactions: str | None = None
    transaction_timeout_ms: int = 60_000
    address_count: int = 1
    dead_addresses: frozenset[int] = frozenset()
    telemetry: Wanted | None = None
    batch_growth: int = 1

    @property
    def has_topic_ids(self) -> bool:
        """Whether brokers tell topic ids, and take them."""
        return self.metadata_version >= 10 and self.produce_version >= 13


def draw(plan: Plan) -> Parameters:
    """Draw the parameters of a seed."""
    chance = plan.stream("parameters")
    choice = chance.choice
    node_count = choice((1, 2, 3, 3))
    topics = {f"t{number}": choice((1, 2, 3, 6)) for number in range(choice((1, 1, 2, 3)))}
    request_ms = choice((200, 1000, 1000, 5000))
    linger_ms = choice((0, 0, 5, 50))
    delivery_ms = linger_ms + request_ms + choice((0, 2000, 20_000, 120_000, 120_000))
    is_idempotent = chance.random() < 0.85
    props: dict[str, Any] = {
        "linger.ms": linger_ms,
        "request.timeout.ms": request_ms,
        "delivery.timeout.ms": delivery_ms,
        "batch.size": choice((150, 401, 1001, 16_384)),
        "buffer.memory": choice((16_000, 60_000, 33_554_432, 33_554_432)),
        "max.in.flight.requests.per.connection": choice((1, 2, 5, 5)),
        "enable.idempotence": is_idempotent,
        "acks": "all" if is_idempotent else choice(("all", "all", "1", "0")),
        "max.block.ms": choice((300, 5000, 60_000)),
        "metadata.max.age.ms": choice((300, 5000, 300_000)),
        "retry.backoff.ms": choice((10, 100)),
        "reconnect.backoff.ms": choice((10, 50)),
        "reconnect.backoff.max.ms": choice((50, 1000)),
        "compression.type": choice(("none", "none", "none", "gzip", "lz4", "snappy", "zstd")),
        "partitioner.class": choice(("default", "default", "uniform_sticky", "round_robin", "murmur2_random")),
        "connections.max.idle.ms": choice((540_000, 540_000, 2000)),
        "metadata.recovery.rebootstrap.trigger.ms": choice((300_000, 3000)),
    }
    if not is_idempotent and chance.random() < 0.3:
        props["retries"] = choice((0, 3))
    produce_version = choice((3, 7, 9, 11, 12, 13, 13))
    if produce_version < 7 and props["compression.type"] == "zstd":
        props["compression.type"] = "lz4"  # those brokers refuse it
    share = choice((0.3, 0.6, 1.0))  # of the kinds: each seed has its own mixture
    weight = choice((0.3, 1.0, 1.0, 3.0))
    rates = {kind: chance.random() * weight for kind in FAULTS if chance.random() < share}
    latency_ms = choice((1, 5, 50))
    window_bytes = choice((64, 1000, 1_000_000, 1_000_000))
    if props["batch.size"] * latency_ms // window_bytes > request_ms // 4:
        window_bytes = 1_000_000  # else no batch would ever arrive in time
    parameters = Parameters(
        node_count=node_count, topics=topics, caller_count=choice((1, 2, 3)),
        record_count=choice((230, 260, 300)), props=props, fault_rates=rates,
        faults_last_ms=choice((2000, 20_000, 60_000)), switch_rate=choice((0.0, 0.01, 0.05, 0.2)),
        tick_rate=choice((0.0, 0.0005, 0.005)), longest_tick_ms=choice((2, 20)), latency_ms=latency_ms,
        cut_rate=choice((0.0, 0.05, 0.5)), window_bytes=window_bytes,
        callback_rate=choice((0.0, 0.3, 1.0)), wild_callback_rate=choice((0.0, 0.02, 0.1)),
        pause_ms=choice((5, 50, 500)), produce_version=produce_version,
        metadata_version=choice((4, 7, 9, 10, 12, 13)), longest_message_bytes=choice((300, 1_048_588, 1_048_588)),
        first_sequence_near_end=chance.random() < 0.25,
        close_kind=choice(("close", "close", "close_soon", "callback", "flush_then_close", "while_sending")))
    # Drawn behind all others, so that what was drawn before stays as it was.
    rates.update((kind, chance.random() * weight) for kind in LATER_FAULTS if chance.random() < share)
    if chance.random() < 0.05:
        parameters = replace(parameters, close_kind="death")
    parameters = replace(parameters, hold_rate=choice((0.0, 0.0005, 0.005)))
    if chance.random() < 0.1:
        # Answers are lost, and few are awaited twice: batches in doubt expire while those behind them are on their way.
        props["delivery.timeout.ms"] = linger_ms + int(request_ms * choice((1, 1.5, 2)))
        rates.update(lose_answer=10 * chance.random(), cut_after=3 * chance.random())
    elif chance.random() < 0.1:
        # Batches are in doubt, and those behind them are refused.
        rates.update(error_after=6 * chance.random(), error_before=4 * chance.random())
    if chance.random() < 0.25:
        # The brokers ask who is there, most of them again and again.
        lifetime_ms = choice((0, 1100, 2500, 5000, 20_000))
        if lifetime_ms and window_bytes < 1_000_000:  # else a request takes longer than a session, again and again
            lifetime_ms = max(lifetime_ms, 5000)
        listener = ModelListener(session_lifetime_ms=lifetime_ms)
        parameters = replace(parameters, listener=listener, authenticate_version=choice((0, 1, 2, 2)))
        rates.update((kind, chance.random() * weight) for kind in LOGIN_FAULTS if chance.random() < share)
        props.update({"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.jaas.config": (
            "org.apache.kafka.common.security.plain.PlainLoginModule required "
            f'username="{listener.user}" password="{listener.password}";')})
    if window_bytes == 1_000_000:  # else they would not arrive in time
        parameters = replace(parameters, batch_growth=plan.stream("growth").choice((1, 1, 4, 16)))
    return powers.draw(plan.seed, plan.stream("powers"), parameters)
