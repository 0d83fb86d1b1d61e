"""Logs under disks that fail, deaths in the middle of a write, and damaged files.

A record that was acknowledged is there when the broker starts again; or the broker does not start, and names the file
that is to blame; or readers see a wrong checksum. Nothing is ever gone without a word.
"""

from __future__ import annotations

import os
import random
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pyproducer.broker.cluster.cluster_state import ClusterState
from pyproducer.broker.cluster.config import BrokerConfig
from pyproducer.common.clock import SystemClock
from pyproducer.common.errors import ConfigError
from pyproducer.record.batch_reader import read_batches
from tests.support.patience import PROGRAM_S
from tests.support.storage_worker import PARTITIONS, SETTINGS, TOPIC, value_of

ROOT = Path(__file__).resolve().parents[2]
DISKS = ("well", "short", "failing", "failing")
ENDS = ("stop", "torn", "torn", "killed")
DAMAGES = ("none", "index missing", "index truncated", "index damaged", "byte", "byte", "byte")
ROUNDS_IN_A_DIRECTORY = 12
SMALL_DISK_BYTES = 1_500_000


class Acknowledged:
    """What the worker was told is stored: (partition, offset) to number; and where the logs begin."""

    def __init__(self) -> None:
        self.records: dict[tuple[int, int], int] = {}
        self.starts = [0] * PARTITIONS

    def take(self, line: str) -> None:
        kind, *words = line.split()
        numbers = [int(word) for word in words]
        if kind == "A":
            partition, offset, number = numbers
            assert self.records.setdefault((partition, offset), number) == number, "an offset was given twice"
        elif kind == "S":
            self.starts[numbers[0]] = numbers[1]


def run_worker(data_dir: Path, seed: int, disk: str, end: str, acknowledged: Acknowledged) -> None:
    """Let a worker do its part; kill the one that does not end by itself, in the middle of what it does."""
    stop_after = random.Random(seed).randrange(50, 400)
    worker = subprocess.Popen(
        [sys.executable, "-m", "tests.support.storage_worker", str(data_dir), str(seed), disk, end],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)})
    assert worker.stdout is not None
    assert worker.stderr is not None
    with worker.stdout, worker.stderr:
        try:
            lines = 0
            for line in worker.stdout:
                if line.endswith("\n") and line != "done\n":
                    acknowledged.take(line)
                    lines += 1
                if end == "killed" and lines == stop_after:
                    worker.send_signal(signal.SIGKILL)
            code = worker.wait(PROGRAM_S)
            assert code == (0 if end == "stop" else -signal.SIGKILL), worker.stderr.read()
        finally:
            worker.kill()
            worker.wait()


class Damage:
    """One thing that is wrong with the files, and how to put it right again."""

    def __init__(self, kind: str, data_dir: Path, seeded: random.Random) -> None:
        self.kind = kind
        self.path: Path | None = None
        self.position = -1
        if kind == "byte":
            self._flip(data_dir, seeded)
        for path in data_dir.glob(f"{TOPIC}-*/*index") if kind.startswith("index") else ():
            if kind == "index missing":
                path.unlink()
            elif kind == "index truncated":
                path.write_bytes(path.read_bytes()[:seeded.randrange(path.stat().st_size + 1)])
            else:
                path.write_bytes(seeded.randbytes(path.stat().st_size))

    def _flip(self, data_dir: Path, seeded: random.Random) -> None:
        paths = [path for path in sorted(data_dir.glob(f"{TOPIC}-*/*.log")) if path.stat().st_size]
        self.path = path = seeded.choice(paths)
        data = path.read_bytes()
        self.position = seeded.randrange(len(data))
        if seeded.random() < 0.5:  # most bytes are of records; most of what goes wrong is in the headers
            starts = [batch.data for batch in read_batches(data)]
            if starts:
                before = sum(len(batch) for batch in starts[:seeded.randrange(len(starts))])
                self.position = before + seeded.randrange(61)
        self._byte = data[self.position:self.position + 1]
        with path.open("r+b") as file:
            file.seek(self.position)
            file.write(bytes((self._byte[0] ^ 1 << seeded.randrange(8),)))

    def undo(self) -> None:
        if self.path is not None and self.path.stat().st_size > self.position:
            with self.path.open("r+b") as file:
                file.seek(self.position)
                file.write(self._byte)


def check(data_dir: Path, acknowledged: Acknowledged, *, may_be_damaged: bool) -> None:
    """Start and read everything.

    Raises:
        ConfigError: The start was refused.
    """
    state = ClusterState(data_dir, BrokerConfig(SETTINGS), SystemClock())
    try:
        for partition in range(PARTITIONS):
            found: dict[int, bytes | None] = {}
            damaged: set[int] = set()
            log = state.topics[TOPIC].partitions[partition].log
            assert log.log_start_offset <= max(acknowledged.starts[partition], 0)
            position = log.log_start_offset
            while position < log.log_end_offset:
                batch = next(read_batches(log.read(position, 1, at_least_one=True)))
                assert batch.base_offset <= position < batch.next_offset
                if batch.is_valid():
                    found.update({record.offset: record.value for record in batch})
                else:
                    damaged.update(range(position, batch.next_offset))
                position = batch.next_offset
            assert may_be_damaged or not damaged
            lost = [(offset, number) for (at, offset), number in acknowledged.records.items()
                    if at == partition and offset >= acknowledged.starts[partition] and offset not in damaged
                    and found.get(offset) != value_of(number)]
            assert not lost, f"{len(lost)} acknowledged records of partition {partition} are gone: {lost[:5]}"
    finally:
        state.close()


def refusal_of(data_dir: Path, acknowledged: Acknowledged, damage: Damage | None, story: str) -> str | None:
    """Check, and return why the start was refused; None when it was not."""
    try:
        check(data_dir, acknowledged, may_be_damaged=damage is not None and damage.kind == "byte")
    except ConfigError as error:
        return str(error)
    except AssertionError as error:
        where = "" if damage is None or damage.path is None else f", at {damage.position} of {damage.path}"
        raise AssertionError(f"{story}{where}: {error}") from error
    return None


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of its own that is soon full; where none can be mounted, the worker plays one."""
    folder = tmp_path / "small"
    folder.mkdir()
    mounted = sys.platform == "linux" and shutil.which("mount") is not None and subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={SMALL_DISK_BYTES}", "tmpfs", str(folder)], capture_output=True,
        check=False).returncode == 0
    yield folder
    if mounted:
        subprocess.run(["umount", str(folder)], check=True)


def copy_of(data_dir: Path, folder: Path) -> Path:
    """What a start does to files must not hide what it did from the next look at them."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(data_dir, folder)
    return folder


@pytest.mark.parametrize("rounds", [8, pytest.param(300, marks=pytest.mark.soak)])
def test_acknowledged_records_when_disks_fail_and_brokers_die_and_files_are_damaged_then_none_is_gone_without_a_word(
        tmp_path: Path, small_disk: Path, rounds: int) -> None:
    refused = 0
    data_dir, acknowledged = tmp_path / "data", Acknowledged()
    for number in range(rounds):
        seeded = random.Random(number)
        turn, first = divmod(number, min(ROUNDS_IN_A_DIRECTORY, rounds // 2))
        if not first:
            shutil.rmtree(data_dir, ignore_errors=True)
            data_dir, acknowledged = (small_disk if turn % 2 else tmp_path) / "data", Acknowledged()
        disk, end, damage_kind = seeded.choice(DISKS), seeded.choice(ENDS), seeded.choice(DAMAGES)
        story = f"round {number}: a disk that is {disk}, a worker that is {end}, damage: {damage_kind}"
        run_worker(data_dir, number, disk, end, acknowledged)
        examined = copy_of(data_dir, tmp_path / "examined")
        damage = Damage(damage_kind, examined, seeded)
        refusal = refusal_of(examined, acknowledged, damage, story)
        if refusal is None:
            continue
        refused += 1
        assert damage.path is not None, f"{story}: {refusal}"
        named = re.search(rf"{re.escape(str(examined))}/\S+\.log", refusal)
        assert named is not None, f"{story}: {refusal}"
        assert Path(named[0]).parent == damage.path.parent, f"{story}: {refusal}"
        damage.undo()
        assert refusal_of(examined, acknowledged, None, f"{story}, put right again") is None
    assert refused or rounds < 20, "a damaged byte was never noticed"
