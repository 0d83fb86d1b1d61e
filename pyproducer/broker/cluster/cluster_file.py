"""The cluster's memory on disk: ids, topics, settings, users and rules, a line of JSON for each change.

Road:    topic life, leaders, producer ids -> cluster store -> [cluster file] -> data_dir/cluster.jsonl; read at start
Thread:  under the store's lock.
Shape:   the first line has version and cluster_id; each line after it some of
             topics          name -> topic_id, configs, leader_epochs and replicas by partition; null of a deleted one
             next_producer_id   all smaller ones may be in use
             broker_configs  broker id, or "" for all -> what was altered at runtime
             scram_users     user -> mechanism -> what is kept of the password
             acls            the parts of each rule
         and what a later line says counts. A line without its end was never told to anybody, and is cut at the next
         start. When the lines are many more than what they say, all is written anew, to a file that takes the place of
         this one.
Source:  ours; what Kafka keeps in its __cluster_metadata log. The segments themselves are Kafka's.
"""

from __future__ import annotations

import base64
import json
import logging
import os
import uuid
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyproducer.broker.cluster.sasl.scram_credential import ScramCredential
from pyproducer.broker.storage.file_handle import FileHandle

FILE_NAME = "cluster.jsonl"
_FORMAT_VERSION = 2
# Lines are written until they have so many bytes, and twice as many as all that they say.
_LEAST_LINES_BYTES = 1 << 20


# The fields of AclBinding: type, name and pattern of the resource, principal, host, operation, permission.
AclEntry = tuple[int, str, int, str, str, int, int]
_logger = logging.getLogger(__name__)
_MODE = 0o600


@dataclass
class TopicEntry:
    """One topic as it is kept; `leader_epochs` and `replicas` by partition."""

    topic_id: uuid.UUID
    leader_epochs: list[int]
    configs: dict[str, str]
    replicas: list[tuple[int, ...]]


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


def read_lines(lines: Iterable[bytes]) -> ClusterFile:
    """Return what a file says, line by line.

    Raises:
        KeyError: Something is missing.
        TypeError: Something is of another kind.
        ValueError: A line is none, or of another version.
    """
    content: ClusterFile | None = None
    for number, line in enumerate(lines, 1):
        said = json.loads(line)
        if content is None:
            if said["version"] != _FORMAT_VERSION:
                raise ValueError(f"its version is {said['version']}, this is {_FORMAT_VERSION}")
            content = ClusterFile(str(said["cluster_id"]))
        else:
            _apply(content, said, number)
    if content is None:
        raise ValueError("it is empty")
    return content


def lines_of(content: ClusterFile) -> Iterator[bytes]:
    """Yield the lines that say all."""
    yield _line({"version": _FORMAT_VERSION, "cluster_id": content.cluster_id})
    for name, entry in content.topics.items():
        yield line_of({"topics": {name: entry}})
    yield line_of({name: getattr(content, name)
                   for name in ("next_producer_id", "broker_configs", "scram_users", "acls")})


def line_of(changes: Mapping[str, Any]) -> bytes:
    """Return the line that says some changes; of topics only those that have changed, None where one is deleted."""
    said = dict(changes)
    if "topics" in said:
        said["topics"] = {name: None if entry is None else {
            "topic_id": str(entry.topic_id), "leader_epochs": entry.leader_epochs, "configs": entry.configs,
            "replicas": entry.replicas} for name, entry in said["topics"].items()}
    if "scram_users" in said:
        said["scram_users"] = {user: {mechanism: _credential_entry(credential) for mechanism, credential in own.items()}
                               for user, own in said["scram_users"].items()}
    return _line(said)


def _line(said: Mapping[str, Any]) -> bytes:
    return json.dumps(said, separators=(",", ":")).encode("ascii") + b"\n"


def _apply(content: ClusterFile, said: Mapping[str, Any], number: int) -> None:
    for name, value in said.items():
        if name == "topics":
            for topic, entry in value.items():
                if entry is None:
                    content.topics.pop(topic, None)
                else:
                    content.topics[str(topic)] = _topic_entry(entry)
        elif name == "next_producer_id":
            content.next_producer_id = int(value)
        elif name == "broker_configs":
            content.broker_configs = {str(broker): {str(key): str(text) for key, text in configs.items()}
                                      for broker, configs in value.items()}
        elif name == "scram_users":
            content.scram_users = {str(user): {str(mechanism): _credential(entry) for mechanism, entry in own.items()}
                                   for user, own in value.items()}
        elif name == "acls":
            content.acls = tuple(map(_acl_entry, value))
        elif name != "client_quotas":  # which a file of this version may have, and nothing sets
            raise ValueError(f"line {number} says something of {name!r}, which is not known")


def _topic_entry(entry: dict[str, Any]) -> TopicEntry:
    leader_epochs = [int(epoch) for epoch in entry["leader_epochs"]]
    replicas = [tuple(map(int, replicas)) for replicas in entry["replicas"]]
    if len(replicas) != len(leader_epochs):
        raise ValueError("a topic has replicas of other partitions than it has")
    return TopicEntry(uuid.UUID(entry["topic_id"]), leader_epochs,
                      {str(key): str(value) for key, value in entry["configs"].items()}, replicas)


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


class LinesFile:
    """The file, open: lines are added, and all is written anew when they are too many.

    Args:
        path: Of the file.

    Raises:
        OSError: It cannot be opened.
        ValueError: It is none.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = FileHandle(path, mode=_MODE)
        data = self._file.read(0, self._file.size_bytes())
        self._size_bytes = data.rfind(b"\n") + 1
        try:
            self.content: ClusterFile = read_lines(data[:self._size_bytes].split(b"\n")[:-1])
            if self._size_bytes < len(data):  # a death in the middle of a line, or a disk that was full
                self._file.truncate(self._size_bytes)
        except BaseException:
            self._file.close()
            raise
        self._least_bytes = sum(map(len, lines_of(self.content)))

    @classmethod
    def write(cls, path: Path, content: ClusterFile) -> LinesFile:
        """Write a file that says all and nothing twice, in the place of one that may be there.

        Raises:
            OSError: It cannot be written; the old one is as it was.
        """
        temporary = path.with_name(path.name + ".tmp")
        temporary.unlink(missing_ok=True)
        # Nobody but its owner reads the salted passwords in it, and no link that somebody has put there is followed.
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0), _MODE)
        with open(descriptor, "wb") as file:
            file.writelines(lines_of(content))
        os.replace(temporary, path)
        return cls(path)

    @property
    def is_long(self) -> bool:
        """Whether there are so many lines that all should be written anew."""
        return self._size_bytes > max(2 * self._least_bytes, _LEAST_LINES_BYTES)

    def add(self, line: bytes) -> None:
        """Add a line.

        Raises:
            OSError: It cannot be written; nothing was.
        """
        self._file.write(self._size_bytes, (line,), len(line))
        self._size_bytes += len(line)

    def close(self) -> None:
        """Close it. What a failed write has left behind the last line is cut, here or at the next start."""
        try:
            self._file.cut_leftovers(self._size_bytes)
        except OSError as error:
            _logger.warning("What a failed write has left in %s could not be cut: %s", self.path, error)
        self._file.close()
