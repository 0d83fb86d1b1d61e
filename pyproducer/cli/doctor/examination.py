"""The steps in their order, each on what the one before has reached; what cannot be tried is said to be left out.

    settings -> names -> TCP -> TLS -> SASL -> ApiVersions      for each of bootstrap.servers
             -> advertised                                      for each broker of the cluster
             -> clock -> topic -> partitions -> authorization -> transactional id -> quota -> round trip

Road:    doctor command -> [examination] -> reach, cluster steps, round trip -> report
Thread:  the main thread.
Source:  ours.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from typing import TYPE_CHECKING

from pyproducer.cli.doctor.cluster_steps import (
    ADVERTISED,
    AUTHORIZATION,
    CLOCK,
    PARTITIONS,
    QUOTA,
    TOPIC,
    TRANSACTIONAL_ID,
    ClusterSteps,
)
from pyproducer.cli.doctor.reach import SASL, Reach
from pyproducer.cli.doctor.report import Report, Status
from pyproducer.cli.doctor.round_trip import ROUND_TRIP, ask_only, write_one
from pyproducer.client.blocking_client import BlockingClient
from pyproducer.common.errors import ConfigError, KafkaError
from pyproducer.network.channel_builder import client_channel_builder
from pyproducer.network.sasl.patient_login import login_of
from pyproducer.producer.config import ProducerConfig

if TYPE_CHECKING:
    from pyproducer.client.blocking_client import Connection
    from pyproducer.common.clock import Clock

SETTINGS = "settings"
_BEHIND_METADATA = (ADVERTISED, CLOCK, TOPIC, PARTITIONS, AUTHORIZATION, TRANSACTIONAL_ID, QUOTA, ROUND_TRIP)
_NO_TOPIC = "give --topic to look"
_NOT_ASKED = "whether we may write by it is looked at with --write and --topic only"


def examine(props: Mapping[str, object], topic: str | None, *, writes: bool, timeout_ms: int, clock: Clock,
            report: Report) -> None:
    """Examine everything between these settings and a record in the topic.

    Args:
        props: The producer's settings, under Java's keys.
        topic: Which; None to look at the brokers alone.
        writes: Whether a record may be written.
        timeout_ms: Longest wait for each step, in ms.
        clock: This machine's.
        report: Where the lines go.
    """
    with ExitStack() as stack:
        try:
            config = ProducerConfig(props)
            with config.hiding_answers():
                login = stack.enter_context(login_of(config, timeout_ms / 1000))
                builder = client_channel_builder(config, login, clock)
        except ConfigError as error:
            report.fail(SETTINGS, str(error))
            return
        except KafkaError as error:
            report.fail(SASL, f"credentials: {error}", "see that the place that gives them is reached from here, and "
                                                       "knows what we show there")
            return
        acks = "all" if config.acks == "-1" else config.acks
        report.ok(SETTINGS, f"security.protocol {config.security_protocol}, acks {acks}, "
                            f"{len(config.bootstrap_servers)} bootstrap server(s)")
        client = stack.enter_context(BlockingClient(
            builder, client_id=config.client_id, timeout_s=timeout_ms / 1000, clock=clock,
            send_buffer_bytes=config.send_buffer_bytes, receive_buffer_bytes=config.receive_buffer_bytes,
            waits_for_bytes=False))
        _examine(config, client, topic, writes=writes, timeout_ms=timeout_ms, clock=clock, report=report)


def _examine(config: ProducerConfig, client: BlockingClient, topic: str | None, *, writes: bool, timeout_ms: int,
             clock: Clock, report: Report) -> None:
    has_id = config.transactional_id is not None
    behind_metadata = [step for step in _BEHIND_METADATA if has_id or step != TRANSACTIONAL_ID]
    reach = Reach(client, config, clock, report)
    broker = reach.bootstrap(config.bootstrap_servers)
    if broker is None:
        for step in behind_metadata:
            report.skip(step, "no broker was reached")
        return
    steps = ClusterSteps(client, broker, config, clock, report)
    metadata = steps.metadata(topic)
    if metadata is None:
        for step in behind_metadata:
            report.skip(step, "the brokers and topics are not known")
        return
    leaders = steps.advertised(metadata, reach, {host for host, _port in config.bootstrap_servers})
    steps.clock_skew(metadata, topic, leaders)
    described = None
    if topic is None:
        for step in (TOPIC, PARTITIONS, AUTHORIZATION):
            report.skip(step, _NO_TOPIC)
    else:
        described = steps.topic(metadata, topic, leaders)
        if described is not None:
            steps.partitions(metadata, described, topic)
            steps.authorization(described, topic)
        else:
            for step in (PARTITIONS, AUTHORIZATION):
                report.skip(step, f"{topic}: there is none that we know")
    if has_id and not writes:
        report.skip(TRANSACTIONAL_ID, f"{config.transactional_id}: {_NOT_ASKED}")
    elif has_id and topic is not None and described is not None and described["partitions"] and leaders:
        steps.transactional_id(metadata, described, topic, leaders, timeout_ms)
    elif has_id:
        report.skip(TRANSACTIONAL_ID, f"{config.transactional_id}: there is no partition to ask with")
    steps.quota()
    leader: Connection | None = next(iter(leaders.values()), None)
    if described is not None and described["partitions"]:
        leader = leaders.get(described["partitions"][0]["leader_id"])
    if any(line.status is Status.FAIL for line in report.lines):
        report.skip(ROUND_TRIP, "what failed comes first")
    elif writes and topic is not None and described is None:
        report.skip(ROUND_TRIP, f"{topic}: there is none, and the record would make it")
    elif writes and topic is not None:
        write_one(config, topic, timeout_ms, clock, report)
    elif leader is not None:
        ask_only(client, leader, clock, report)
    else:
        report.skip(ROUND_TRIP, "no leader was reached")
