from __future__ import annotations

import json
import os
import stat
import uuid
from pathlib import Path

import pytest

from pyproducer.broker.cluster import cluster_file
from pyproducer.broker.cluster.cluster_file import ClusterFile, LinesFile, TopicEntry
from pyproducer.broker.cluster.cluster_store import ClusterStore
from pyproducer.broker.cluster.sasl.scram_credential import ScramCredential
from pyproducer.broker.storage.file_handle import FileHandle

TOPIC = TopicEntry(uuid.UUID(int=7), [0, 3], {"retention.ms": "5"}, [(1, 2), (2,)])


def path_of(directory: Path) -> Path:
    return directory / "cluster.jsonl"


def new_store(directory: Path) -> ClusterStore:
    store = ClusterStore(directory)
    store.write_first()
    return store


def test_file_when_it_is_read_again_then_it_says_what_was_saved(tmp_path: Path) -> None:
    store = new_store(tmp_path)
    store.save_topics({"orders": TOPIC, "fruits": TOPIC})
    store.save_topics({"fruits": None, "consumed": TOPIC})
    store.save(next_producer_id=3000, broker_configs={"1": {"log.retention.bytes": "1000"}})
    store.save(scram_users={"alice": {"SCRAM-SHA-256": ScramCredential(b"\1", b"\2", b"\3", 4096)}},
               acls=((2, "orders", 3, "User:alice", "*", 3, 3),))
    expected = store.content
    store.close()
    assert ClusterStore(tmp_path).content == expected
    assert list(expected.topics) == ["orders", "consumed"]
    assert len(path_of(tmp_path).read_bytes().splitlines()) == 6


def test_save_when_one_of_many_topics_changes_then_one_line_of_it_is_written(tmp_path: Path) -> None:
    """All was written anew each time: 10,000 topics took minutes."""
    store = new_store(tmp_path)
    store.save_topics({f"topic-{number}": TOPIC for number in range(1000)})
    before = path_of(tmp_path).stat().st_size
    store.save_topics({"topic-5": TOPIC})
    assert path_of(tmp_path).stat().st_size - before < 200


def test_file_when_it_has_quotas_of_clients_then_they_are_passed_over(tmp_path: Path) -> None:
    """Directories whose file has that key, with or without quotas, were refused, although the version is the same."""
    store = new_store(tmp_path)
    store.save(next_producer_id=1000)
    store.close()
    with path_of(tmp_path).open("ab") as file:
        file.write(b'{"client_quotas":[],"acls":[]}\n')
    assert ClusterStore(tmp_path).content.next_producer_id == 1000


@pytest.mark.parametrize("cut", [1, 2, 20])
def test_file_when_it_ends_within_a_line_then_that_line_counts_for_nothing(tmp_path: Path, cut: int) -> None:
    store = new_store(tmp_path)
    store.save(next_producer_id=1000)
    before = path_of(tmp_path).read_bytes()
    store.save_topics({"orders": TOPIC})
    store.close()
    path_of(tmp_path).write_bytes(path_of(tmp_path).read_bytes()[:-cut])
    again = new_store(tmp_path)
    assert (again.content.next_producer_id, again.content.topics) == (1000, {})
    assert path_of(tmp_path).read_bytes() == before
    again.save_topics({"fruits": TOPIC})
    again.close()
    assert list(ClusterStore(tmp_path).content.topics) == ["fruits"]


@pytest.mark.parametrize("error", [ValueError("no JSON"), OSError(5, "Input/output error"), MemoryError(),
                                   KeyboardInterrupt(), SystemExit(1)], ids=repr)
def test_file_when_its_reading_ends_early_then_it_is_closed(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    new_store(tmp_path).close()
    opened: list[FileHandle] = []

    def open_file(path: Path, *, mode: int) -> FileHandle:
        opened.append(FileHandle(path, mode=mode))
        return opened[-1]

    def fail(_lines: list[bytes]) -> ClusterFile:
        raise error

    monkeypatch.setattr(cluster_file, "FileHandle", open_file)
    monkeypatch.setattr(cluster_file, "read_lines", fail)
    with pytest.raises(type(error)) as raised:
        LinesFile(path_of(tmp_path))
    assert raised.value is error
    (file,) = opened
    with pytest.raises(OSError, match="Bad file descriptor"):
        file.size_bytes()


def test_file_when_many_lines_say_little_then_it_is_written_anew(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_file, "_LEAST_LINES_BYTES", 1000)
    store = new_store(tmp_path)
    store.save_topics({"orders": TOPIC})
    for number in range(200):
        store.save(next_producer_id=number)
        assert path_of(tmp_path).stat().st_size < 1100
    store.close()
    content = ClusterStore(tmp_path).content
    assert (content.next_producer_id, content.topics) == (199, {"orders": TOPIC})


def test_file_when_it_cannot_be_written_anew_then_it_only_grows(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    store = new_store(tmp_path)
    monkeypatch.setattr(cluster_file, "_LEAST_LINES_BYTES", 100)

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", fail)
    for number in range(30):
        store.save(next_producer_id=number)
    store.close()
    assert "could not be shortened" in caplog.text
    assert ClusterStore(tmp_path).content.next_producer_id == 29


def test_file_when_it_has_passwords_then_its_owner_alone_may_read_it(tmp_path: Path) -> None:
    store = new_store(tmp_path)
    store.save(scram_users={})
    assert stat.S_IMODE(path_of(tmp_path).stat().st_mode) == 0o600


def test_file_when_a_link_is_in_the_way_then_what_it_names_stays_as_it_is(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("kept")
    directory = tmp_path / "data"
    directory.mkdir()
    (directory / "cluster.jsonl.tmp").symlink_to(victim)
    new_store(directory).close()
    assert victim.read_text() == "kept"
    assert json.loads(path_of(directory).read_text().splitlines()[0])["version"] == 2


def test_save_when_the_store_is_closed_then_nothing_is_written(tmp_path: Path) -> None:
    """The directory may be another broker's by then."""
    store = new_store(tmp_path)
    store.close()
    before = path_of(tmp_path).read_bytes()
    with pytest.raises(OSError, match="Bad file descriptor"):
        store.save(next_producer_id=1)
    assert path_of(tmp_path).read_bytes() == before
    assert store.content.next_producer_id == 0


def test_add_when_a_write_failed_and_its_rest_could_not_be_cut_then_the_next_line_is_whole(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = new_store(tmp_path)
    write = os.write

    def fail_half_way(fd: int, chunks: tuple[bytes]) -> int:
        write(fd, chunks[0][:5])
        raise OSError(28, "No space left on device")

    def fail(*_: object) -> None:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(os, "writev", fail_half_way)
        patch.setattr(os, "ftruncate", fail)
        with pytest.raises(OSError, match="No space"):
            store.save(next_producer_id=1)
    store.save(next_producer_id=2)
    store.close()
    found = LinesFile(path_of(tmp_path))
    found.close()
    assert found.content.next_producer_id == 2
