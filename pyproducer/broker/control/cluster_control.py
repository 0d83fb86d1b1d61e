"""What can be done to a running cluster beyond starting and stopping it, the same in both kinds of process.

Road:    user -> [control] -> commands -> Nodes, FaultRules, SocketServer
Thread:  any.
Source:  ours.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyproducer.broker.control.broker_view import TopicSize
from pyproducer.broker.control.clock_control import BrokerClock
from pyproducer.broker.control.fault_control import Faults, api_id_of
from pyproducer.broker.control.nodes import PartitionView
from pyproducer.broker.control.observations import LoggedRequest
from pyproducer.broker.network.socket_server import ConnectionInfo
from pyproducer.common.errors import ConfigError
from pyproducer.network.sasl.scram_formatter import MIN_ITERATIONS
from pyproducer.protocol.apis import ApiKeys


class ClusterControl:
    """The part of EmbeddedBroker that moves, breaks and watches. Every method raises IllegalStateError when stopped."""

    def _ask(self, command: str, **arguments: Any) -> Any:
        raise NotImplementedError

    # ---- topics and users

    def create_topic(self, name: str, partitions: int = 1, configs: Mapping[str, str] | None = None, *,
                     replication_factor: int | None = None) -> bool:
        """Create a topic; return False when it exists.

        Args:
            name: Its name.
            partitions: How many.
            configs: Its own settings, for instance `{"min.insync.replicas": "2"}`.
            replication_factor: How many brokers have each partition; None for default.replication.factor, which is 1.

        Raises:
            ConfigError: The name, a number or a setting is not allowed. Nothing was created.
            IllegalStateError: The broker is not running.
        """
        return bool(self._ask("create_topic", name=name, partition_count=partitions, configs=dict(configs or {}),
                              replication_factor=replication_factor))

    def topics(self) -> dict[str, int]:
        """Return all topics with their number of partitions.

        Raises:
            IllegalStateError: The broker is not running.
        """
        return {str(name): int(count) for name, count in self._ask("topics").items()}

    def topic_sizes(self) -> dict[str, TopicSize]:
        """Return how much each topic holds.

        Raises:
            IllegalStateError: The broker is not running.
        """
        return {str(name): TopicSize(*found) for name, found in self._ask("topic_sizes").items()}

    def log_end_offsets(self, topic: str) -> dict[int, int]:
        """Return the offset of the next record of each partition; empty when there is no such topic.

        Raises:
            IllegalStateError: The broker is not running.
        """
        return {int(index): int(offset) for index, offset in self._ask("log_end_offsets", topic=topic).items()}

    def add_scram_user(self, name: str, password: str, iterations: int = MIN_ITERATIONS) -> None:
        """Let a user log in with SCRAM-SHA-256 and SCRAM-SHA-512, on every listener that has them; kept in data_dir.

        What `kafka-storage.sh format --add-scram` and `kafka-configs.sh` do. A password of before is replaced.

        Raises:
            ConfigError: There is no name or no password, or the iterations are not between 4096 and 16384.
            IllegalStateError: The broker is not running.
        """
        self._ask("add_scram_user", name=name, password=password, iterations=iterations)

    # ---- nodes and leaders

    def nodes(self) -> list[int]:
        """Return the ids of the running nodes."""
        return [int(node_id) for node_id in self._ask("nodes")]

    def stop_node(self, node_id: int, *, move_leaders: bool = False, kill: bool = False) -> None:
        """Stop one broker; its ports stay its own.

        Args:
            node_id: Which.
            move_leaders: Let the others lead also those of its partitions that no other node has; without, they have no
                leader until it is back. Partitions with more replicas are led by another one in sync in any case.
            kill: As a crash: connections end first, so that requests in work take effect and are never answered.

        Raises:
            ConfigError: There is no such node.
            IllegalStateError: It is stopped already, or there is no other to lead.
        """
        self._ask("stop_node", node_id=node_id, move_leaders=move_leaders, kill=kill)

    def start_node(self, node_id: int) -> None:
        """Start a stopped broker where it was; it is in sync again, and leads what nobody else does, in a new epoch.

        Raises:
            ConfigError: There is no such node.
            IllegalStateError: It is running.
        """
        self._ask("start_node", node_id=node_id)

    def move_leader(self, topic: str, partition: int, node_id: int | None) -> None:
        """Make a broker lead a partition, or nobody (None), in a new leader epoch.

        Raises:
            ConfigError: There is no such partition or node.
        """
        self._ask("move_leader", topic=topic, index=partition, node_id=node_id)

    def move_coordinator(self, key: str, node_id: int | None, *, key_type: str = "group") -> None:
        """Make a broker coordinate a group or a transactional id, or nobody (None).

        It is the leader of the internal topic's partition that moves, with all keys that live there.

        Args:
            key: The group or transactional id.
            node_id: The broker.
            key_type: "group" or "transaction".

        Raises:
            ConfigError: There is no such node or type of key.
        """
        self._ask("move_coordinator", key=key, node_id=node_id, key_type=key_type)

    def stop_following(self, node_id: int, topic: str | None = None, partition: int | None = None) -> None:
        """Let a follower fetch no more: it leaves the ISR at once, and keeps what it has now.

        Where it is elected all the same (unclean.leader.election.enable, an unclean ElectLeaders, `move_leader`), what
        was written since is lost.

        Args:
            node_id: The follower.
            topic: Of this topic; None for all partitions that it has and does not lead.
            partition: Of this one; None for all.

        Raises:
            ConfigError: There is no such partition, the node has no replica of it, or leads it.
        """
        self._ask("stop_following", node_id=node_id, topic=topic, index=partition)

    def resume_following(self, node_id: int, topic: str | None = None, partition: int | None = None) -> None:
        """Let a follower fetch again: it has all at once, and is in sync.

        Raises:
            ConfigError: There is no such partition, or the node has no replica of it.
        """
        self._ask("resume_following", node_id=node_id, topic=topic, index=partition)

    def describe_partition(self, topic: str, partition: int) -> PartitionView | None:
        """Return who leads a partition, who has it and who is in sync; None when there is no such partition."""
        found = self._ask("describe_partition", topic=topic, partition=partition)
        return None if found is None else PartitionView(found[0], found[1], tuple(found[2]), tuple(found[3]))

    def leader_of(self, topic: str, partition: int) -> tuple[int, int] | None:
        """Return leader (-1: none) and leader epoch; None when there is no such partition."""
        found = self._ask("leader_of", topic=topic, partition=partition)
        return None if found is None else (found[0], found[1])

    # ---- what goes wrong, and what is pretended

    @property
    def faults(self) -> Faults:
        """What goes wrong; see Faults."""
        return Faults(self._ask)

    @property
    def clock(self) -> BrokerClock:
        """What time it is for the brokers; see BrokerClock."""
        return BrokerClock(self._ask)

    def set_api_versions(self, versions: str | Mapping[ApiKeys, tuple[int, int] | None] | None, *,
                         node_id: int | None = None) -> None:
        """Answer the API versions of another release, or those that are given; None for our own again.

        Only connections that come afterwards notice, as with a real upgrade.

        Args:
            versions: A release ("2.1" to "4.2"), or versions of single APIs, None for an API that is not there.
            node_id: One broker; None for all.

        Raises:
            ConfigError: Not a release that the table has.
        """
        if versions is not None and not isinstance(versions, str):
            for found in versions.values():
                if found is not None and not (isinstance(found, (tuple, list)) and len(found) == 2
                                              and all(isinstance(version, int) for version in found)):
                    raise ConfigError("versions", found, "of each API the first and the last: (0, 9), or None")
            versions_by_id: Any = {str(api_id_of(api)): None if found is None else list(found)
                                   for api, found in versions.items()}
        else:
            versions_by_id = versions
        self._ask("set_api_versions", versions=versions_by_id, node_id=node_id)

    def resize_processors(self, count: int, *, node_id: int | None = None) -> None:
        """Change num.network.threads of each listener while the broker runs; connections of removed ones are closed.

        Raises:
            ConfigError: Below 1, or not between half and twice of what there is.
        """
        self._ask("resize_processors", count=count, node_id=node_id)

    # ---- what was seen

    def log_requests(self, is_on: bool = True) -> None:
        """Keep the newest 10,000 requests for `requests`, from now on; or stop that and forget them."""
        self._ask("log_requests", is_on=is_on)

    def requests(self, api: ApiKeys | str | int | None = None) -> list[LoggedRequest]:
        """Return the requests that came, in the order of their handling: of one API, or all.

        Raises:
            ConfigError: There is no such API.
            IllegalStateError: They are not logged.
        """
        found = self._ask("requests", api=None if api is None else api_id_of(api))
        logged = [LoggedRequest(*entry) for entry in found]
        return [entry._replace(api_key=ApiKeys(entry.api_key)) for entry in logged]

    def clear_requests(self) -> None:
        """Forget the requests that came so far.

        Raises:
            IllegalStateError: They are not logged.
        """
        self._ask("clear_requests")

    def connections(self) -> list[ConnectionInfo]:
        """Return the open connections of all running brokers."""
        return [ConnectionInfo(*entry) for entry in self._ask("connections")]
