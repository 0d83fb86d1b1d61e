"""Topics of the same names are made, deleted and made again by several clients at once, while others write to them.

What the broker says of a topic and what lies on the disk agree after every round: each partition writes to the file
that has its name, and there is no other directory. What was acknowledged last is there after a restart.
"""

from __future__ import annotations

import os
import random
import threading
import time
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from pyproducer.broker import EmbeddedBroker
from pyproducer.broker.cluster.cluster_state import ClusterState
from pyproducer.broker.control.in_process import InProcessCluster
from pyproducer.protocol.apis import ApiKeys
from pyproducer.record.batch_writer import build_batch
from tests.support.patience import GIVE_UP_S
from tests.support.raw_client import RawClient, metadata_body, produce_body, produced

NAMES = ("orders", "payments")
NO_ID = uuid.UUID(int=0)
BATCH = bytes(build_batch([(1_700_000_000_000, b"key", b"v" * 2000, ())]))
# What a client may be told while others make and delete the same topic: nothing, unknown, exists, too few partitions,
# unknown id.
USUAL = frozenset((0, 3, 36, 37, 100))


class Client:
    """One client, which does one thing in a round."""

    def __init__(self, port: int, seed: int) -> None:
        self._client = RawClient(("127.0.0.1", port))
        self._random = random.Random(seed)

    def close(self) -> None:
        self._client.close()

    def act(self, may: tuple[str, ...]) -> int:
        """Do something with a topic; return what the broker says."""
        name = self._random.choice(NAMES)
        code: int = getattr(self, "_" + self._random.choice(may))(name)
        assert code in USUAL, code
        return code

    def _create(self, name: str) -> int:
        answer = self._client.request(ApiKeys.CREATE_TOPICS, 7, {"timeout_ms": 10_000, "topics": [
            {"name": name, "num_partitions": self._random.randrange(1, 6), "replication_factor": 1, "assignments": [],
             "configs": [{"name": "segment.bytes", "value": "5000"}]}]})
        return int(answer["topics"][0]["error_code"])

    def _delete(self, name: str) -> int:
        answer = self._client.request(ApiKeys.DELETE_TOPICS, 6, {"timeout_ms": 10_000, "topics": [
            {"name": name, "topic_id": NO_ID}]})
        return int(answer["responses"][0]["error_code"])

    def _delete_by_id(self, name: str) -> int:
        (found,) = self._client.request(ApiKeys.METADATA, 12, metadata_body(
            name, allow_auto_topic_creation=False))["topics"]
        if found["error_code"]:
            return int(found["error_code"])
        answer = self._client.request(ApiKeys.DELETE_TOPICS, 6, {"timeout_ms": 10_000, "topics": [
            {"name": None, "topic_id": found["topic_id"]}]})
        return int(answer["responses"][0]["error_code"])

    def _grow(self, name: str) -> int:
        answer = self._client.request(ApiKeys.CREATE_PARTITIONS, 3, {
            "timeout_ms": 10_000, "validate_only": False,
            "topics": [{"name": name, "count": self._random.randrange(2, 9), "assignments": None}]})
        return int(answer["results"][0]["error_code"])

    def _make_by_asking(self, name: str) -> int:
        (found,) = self._client.request(ApiKeys.METADATA, 12, metadata_body(
            name, allow_auto_topic_creation=True))["topics"]
        return int(found["error_code"])

    def _produce(self, name: str) -> int:
        answer = self._client.request(ApiKeys.PRODUCE, 9, produce_body(name, self._random.randrange(6), BATCH))
        return int(produced(answer)["error_code"])

    def _truncate(self, name: str) -> int:
        answer = self._client.request(ApiKeys.DELETE_RECORDS, 2, {"timeout_ms": 10_000, "topics": [
            {"name": name, "partitions": [{"partition_index": 0, "offset": -1}]}]})
        return int(answer["topics"][0]["partitions"][0]["error_code"])


class Load:
    """Writes to whatever is there, all the time."""

    def __init__(self, port: int) -> None:
        self.acknowledged = 0
        self._client = Client(port, 99)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="load")
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()
        self._client.close()

    def _run(self) -> None:
        while not self._stop.is_set():
            self.acknowledged += self._client.act(("produce",)) == 0


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(data_dir=tmp_path / "data") as broker:
        yield broker


def state_of(broker: EmbeddedBroker) -> ClusterState:
    cluster = broker._cluster
    assert isinstance(cluster, InProcessCluster)
    return cluster.state


def ensure_files_agree(state: ClusterState) -> None:
    """Compare what is known of topics with what lies on the disk; nobody may be making or deleting one."""
    known = {str(partition.topic_partition): partition for topic in state.topics.values()
             for partition in topic.partitions}
    found = sorted(path.name for path in state.data_dir.path.iterdir() if path.is_dir())
    assert found == sorted(known)
    for name, partition in known.items():
        for segment in list(partition.log._view[0]):
            path = state.data_dir.path / name / f"{segment.base_offset:020d}.log"
            assert os.path.samestat(os.fstat(segment.file._fd), path.stat()), f"{path} is not what is written to"
    entries = {name: len(topic.partitions) for name, topic in state.topics.items()}
    assert {name: len(entry.leader_epochs) for name, entry in state.store.content.topics.items()} == entries


@pytest.mark.parametrize("rounds", [25, pytest.param(200, marks=pytest.mark.soak)])
def test_topics_when_three_clients_make_and_delete_them_under_load_then_files_and_metadata_agree(
        broker: EmbeddedBroker, rounds: int) -> None:
    """One client deleted a topic, another made it anew meanwhile, and the first one's broker removed its files."""
    admins = [Client(broker.port, number) for number in range(3)]
    may = (("create", "delete", "delete_by_id"), ("create", "delete", "grow", "truncate"),
           ("make_by_asking", "produce", "make_by_asking", "delete"))
    load = Load(broker.port)
    told: set[int] = set()
    try:
        with ThreadPoolExecutor(len(admins)) as pool:
            for _ in range(rounds):
                running = [pool.submit(lambda admin=admin, own=own: [admin.act(own) for _ in range(4)])
                           for admin, own in zip(admins, may, strict=True)]
                told.update(code for one in running for code in one.result(GIVE_UP_S))
                ensure_files_agree(state_of(broker))
        deadline = time.monotonic() + GIVE_UP_S
        before = load.acknowledged
        admins[0]._create(NAMES[0])
        while load.acknowledged < before + 20:
            assert time.monotonic() < deadline, "the load comes to nothing"
            time.sleep(0.01)
    finally:
        load.stop()
        for admin in admins:
            admin.close()
    assert {0, 3} <= told
    ends = {name: broker.log_end_offsets(name) for name in broker.topics()}
    assert sum(sum(offsets.values()) for offsets in ends.values()) >= 20
    broker.stop()
    broker.start()
    assert {name: broker.log_end_offsets(name) for name in broker.topics()} == ends
    ensure_files_agree(state_of(broker))
