"""The cluster's memory on disk: ids, topics and the next producer id, in one small file.

Road:    create topic, producer ids -> [cluster file] -> data_dir/cluster.json; read at start
Thread:  under the cluster's lock.
Shape:   JSON: cluster_id, next_producer_id (all smaller ones may be in use), topics: name -> topic_id, partitions,
         configs, leader_epochs; broker_configs: broker id, or "" for all -> what was altered at runtime; scram_users:
         user -> mechanism -> what is kept of the password; acls: the parts of each rule. Written to a new file that
         then takes the old one's name.
Source:  ours; what Kafka keeps in its __cluster_metadata log. The segments themselves are Kafka's.
"""

from __future__ import annotations

import base64
import json
import os
import uuid
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyproducer.common.errors import ConfigError
from pyproducer.network.sasl.scram_formatter import ScramCredential

FILE_NAME = "cluster.json"
_FORMAT_VERSION = 1


# The fields of AclBinding: type, name and pattern of the resource, principal, host, operation, permission.
AclEntry = tuple[int, str, int, str, str, int, int]


@dataclass
class TopicEntry:
    """One topic as it is kept."""

    topic_id: uuid.UUID
    leader_epochs: list[int]
    configs: dict[str, str]


@dataclass
class ClusterFile:
    """Everything that is kept."""

    cluster_id: str
    next_producer_id: int = 0
    topics: dict[str, TopicEntry] = field(default_factory=dict)
    broker_configs: dict[str, dict[str, str]] = field(default_factory=dict)
    scram_users: dict[str, dict[str, ScramCredential]] = field(default_factory=dict)
    acls: tuple[AclEntry, ...] = ()

    def dynamic_config(self) -> dict[str, str]:
        """Return the settings altered at runtime: those of all brokers, and above them those of each.

        Differs from Java: the brokers of a cluster have one set of logs here, so a setting of one is every one's.
        """
        return {name: value for _, configs in sorted(self.broker_configs.items()) for name, value in configs.items()}


def new_cluster_id() -> str:
    """Return a random id in Kafka's form: 22 characters, a UUID in base64, never with "-" in front."""
    while (cluster_id := base64.urlsafe_b64encode(uuid.uuid4().bytes).decode("ascii").rstrip("=")).startswith("-"):
        pass
    return cluster_id


def read_cluster_file(data_dir: Path) -> ClusterFile:
    """Read the file; a new cluster when there is none.

    Raises:
        ConfigError: The file exists and cannot be read.
    """
    path = data_dir / FILE_NAME
    if not path.exists():
        return ClusterFile(new_cluster_id())
    try:
        content = json.loads(path.read_text("utf-8"))
        if content["version"] != _FORMAT_VERSION:
            raise ValueError(f"its version is {content['version']}, this is {_FORMAT_VERSION}")
        topics = {
            name: TopicEntry(uuid.UUID(entry["topic_id"]), [int(epoch) for epoch in entry["leader_epochs"]],
                             {str(key): str(value) for key, value in entry["configs"].items()})
            for name, entry in content["topics"].items()}
        broker_configs = {
            str(broker): {str(key): str(value) for key, value in configs.items()}
            for broker, configs in content.get("broker_configs", {}).items()}
        scram_users = {
            str(user): {str(mechanism): _credential(entry) for mechanism, entry in own.items()}
            for user, own in content.get("scram_users", {}).items()}
        return ClusterFile(str(content["cluster_id"]), int(content["next_producer_id"]), topics, broker_configs,
                           scram_users, tuple(map(_acl_entry, content.get("acls", []))))
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ConfigError("data_dir", str(data_dir), f"{path} cannot be read: {error}") from error


def _acl_entry(values: list[Any]) -> AclEntry:
    kind, name, pattern, principal, host, operation, permission = values
    return int(kind), str(name), int(pattern), str(principal), str(host), int(operation), int(permission)


def _credential(entry: dict[str, Any]) -> ScramCredential:
    salt, stored_key, server_key = (base64.b64decode(entry[name], validate=True)
                                    for name in ("salt", "stored_key", "server_key"))
    return ScramCredential(salt, stored_key, server_key, int(entry["iterations"]))


def _credential_entry(credential: ScramCredential) -> dict[str, Any]:
    return {name: base64.b64encode(value).decode("ascii") if isinstance(value, bytes) else value
            for name, value in credential._asdict().items()}


def write_cluster_file(data_dir: Path, content: ClusterFile) -> None:
    """Replace the file."""
    topics = {
        name: {"topic_id": str(entry.topic_id), "leader_epochs": entry.leader_epochs, "configs": entry.configs}
        for name, entry in content.topics.items()}
    scram_users = {user: {mechanism: _credential_entry(credential) for mechanism, credential in own.items()}
                   for user, own in content.scram_users.items()}
    text = json.dumps({"version": _FORMAT_VERSION, "cluster_id": content.cluster_id,
                       "next_producer_id": content.next_producer_id, "topics": topics,
                       "broker_configs": content.broker_configs, "scram_users": scram_users,
                       "acls": content.acls}, indent=1)
    temporary = data_dir / (FILE_NAME + ".tmp")
    temporary.write_text(text, "utf-8")
    os.replace(temporary, data_dir / FILE_NAME)
