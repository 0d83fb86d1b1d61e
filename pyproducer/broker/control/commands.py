"""What a running cluster can be told: the same by a call in this process and by a line of JSON in a child.

Road:    EmbeddedBroker -> (pipe ->) [commands] -> InProcessCluster
Thread:  any; in a child its main thread.
Shape:   arguments and results are plain values: numbers, texts, bytes, UUIDs, lists, dicts.
Source:  ours.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pyproducer.broker.control.in_process import InProcessCluster
from pyproducer.broker.control.nodes import PartitionView
from pyproducer.broker.control.observations import LoggedRequest, RequestLog
from pyproducer.broker.network.socket_server import ConnectionInfo
from pyproducer.common.errors import ConfigError, IllegalStateError

_Cluster = InProcessCluster


def run_command(cluster: InProcessCluster, command: str, arguments: Mapping[str, Any]) -> Any:
    """Run one command.

    Raises:
        KafkaError: Whatever the command has to complain about.
    """
    return _COMMANDS[command](cluster, **arguments)


def _set_api_versions(cluster: _Cluster, versions: str | Mapping[str, Any] | None, node_id: int | None) -> None:
    cluster.scripted.api_versions.set(
        versions if versions is None or isinstance(versions, str) else
        {int(api_id): None if found is None else (found[0], found[1]) for api_id, found in versions.items()}, node_id)


def _log_requests(cluster: _Cluster, is_on: bool) -> None:
    scripted = cluster.scripted
    if not is_on:
        scripted.request_log = None
    elif scripted.request_log is None:
        scripted.request_log = RequestLog()


def _request_log(cluster: _Cluster) -> RequestLog:
    log = cluster.scripted.request_log
    if log is None:
        raise IllegalStateError("Requests are not logged: EmbeddedBroker(log_requests=True)")
    return log


def _requests(cluster: _Cluster, api: int | None) -> list[LoggedRequest]:
    return _request_log(cluster).entries(api)


def _clear_requests(cluster: _Cluster) -> None:
    _request_log(cluster).clear()


def _connections(cluster: _Cluster) -> list[ConnectionInfo]:
    return [connection for server in cluster.servers for connection in server.socket_server.connections()]


def _resize_processors(cluster: _Cluster, count: int, node_id: int | None) -> None:
    for server in cluster.servers:
        if node_id in (None, server.node_id):
            server.socket_server.resize_thread_pool(count)


def _nodes(cluster: _Cluster) -> list[int]:
    return [server.node_id for server in cluster.servers]


def _leader_of(cluster: _Cluster, topic: str, partition: int) -> list[int] | None:
    found = cluster.state.topics.partition(topic, partition)
    return None if found is None else list(found.leadership)


def _describe_partition(cluster: _Cluster, topic: str, partition: int) -> PartitionView | None:
    found = cluster.state.topics.partition(topic, partition)
    return None if found is None else PartitionView(*found.leadership, found.replicas.assigned, found.replicas.isr)


def _set_fault_seed(cluster: _Cluster, seed: int) -> None:
    cluster.scripted.fault_rules.seed = seed


def _fault_add(cluster: _Cluster, **arguments: Any) -> int:
    node_id = arguments.get("node_id")
    if node_id is not None and node_id not in cluster.nodes.end_points:
        raise ConfigError("node_id", node_id, f"there are {', '.join(map(str, cluster.nodes.end_points))}")
    return cluster.scripted.fault_rules.add(**arguments)


_COMMANDS: dict[str, Callable[..., Any]] = {
    "create_topic": _Cluster.create_topic,
    "topics": _Cluster.topics,
    "topic_sizes": _Cluster.topic_sizes,
    "log_end_offsets": _Cluster.log_end_offsets,
    "log_start_offsets": _Cluster.log_start_offsets,
    "add_scram_user": _Cluster.add_scram_user,
    "nodes": _nodes,
    "leader_of": _leader_of,
    "describe_partition": _describe_partition,
    "stop_following": lambda cluster, **arguments: cluster.nodes.stall(**arguments, is_stalled=True),
    "resume_following": lambda cluster, **arguments: cluster.nodes.stall(**arguments, is_stalled=False),
    "start_node": lambda cluster, **arguments: cluster.nodes.start(**arguments),
    "stop_node": lambda cluster, **arguments: cluster.nodes.stop(**arguments),
    "move_leader": lambda cluster, **arguments: cluster.nodes.move_leader(**arguments),
    "move_coordinator": lambda cluster, **arguments: cluster.nodes.move_coordinator(**arguments),
    "set_api_versions": _set_api_versions,
    "log_requests": _log_requests,
    "requests": _requests,
    "clear_requests": _clear_requests,
    "connections": _connections,
    "resize_processors": _resize_processors,
    "advance_clock": _Cluster.advance_clock,
    "timestamp_ms": _Cluster.timestamp_ms,
    "fault_seed": lambda cluster: cluster.scripted.fault_rules.seed,
    "set_fault_seed": _set_fault_seed,
    "fault_add": _fault_add,
    "fault_action": lambda cluster, **arguments: cluster.scripted.fault_rules.add_action(**arguments),
    "fault_remove": lambda cluster, **arguments: cluster.scripted.fault_rules.remove(**arguments),
    "fault_count": lambda cluster, **arguments: cluster.scripted.fault_rules.count(**arguments),
    "fault_held": lambda cluster, **arguments: cluster.scripted.fault_rules.held(**arguments),
    "fault_release": lambda cluster, **arguments: cluster.scripted.fault_rules.release(**arguments),
    "faults_unused": lambda cluster: cluster.scripted.fault_rules.unused(),
}
