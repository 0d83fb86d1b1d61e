"""What one client can do to the embedded broker and to everybody else who uses it: time, memory, others' round trips.

`python -m benchmarks.broker_limits [--rounds 5] [--only NAME] [--keep]`

Each run is a broker of its own in its own process. One or more clients send what a broker does not like (bombs,
requests with very many elements, answers that are never read), while another connection asks for metadata every
10 ms. `time` is until the last client has its answer, or its connection is closed; `cpu` what the broker computed
meanwhile, which is what `time` would be on a quiet machine; `peak` the largest resident size of the broker; `other` the
slowest round trip of the other connection. What is printed is the median of the rounds, with the largest value behind
it, and first the same for a broker that nobody bothers: where that is not far below the limits, the machine is too
busy for a verdict.
"""

from __future__ import annotations

import argparse
import statistics
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import psutil
import zstandard
from crc32c import crc32c

from benchmarks.tables import keep, machine
from pyproducer.broker import EmbeddedBroker
from pyproducer.protocol.apis import ApiKeys
from pyproducer.record.batch_writer import build_batch
from pyproducer.record.layout import ATTRIBUTES_OFFSET, HEADER, LOG_OVERHEAD_BYTES
from tests.support.raw_client import (
    ConnectionEnded,
    RawClient,
    fetch_body,
    header_bytes,
    metadata_body,
    produce_body,
    request_bytes,
)

MIB = 1024 * 1024
TOPIC = "orders"
PAUSE_S = 0.01
QUIET_S = 1.0
TIMEOUT_S = 300.0
NOW_MS = 1_700_000_000_000
ZSTD = 4
LIMIT_TIME_S, LIMIT_PEAK_MIB, LIMIT_OTHER_S = 2.0, 400, 0.2


class Case(NamedTuple):
    """What a client does: `payload` is a request without its size, sent by `clients` at once."""

    name: str
    payload: Callable[[], bytes]
    clients: int = 1
    reads: bool = True
    warm_up: Callable[[EmbeddedBroker], None] | None = None


class Run(NamedTuple):
    """What one run showed."""

    time_s: float
    cpu_s: float
    peak_mib: float
    other_s: float
    outcome: str


# ---- what is sent

def zstd_batch(records: bytes, record_count: int) -> bytes:
    """Return a batch of encoded records; its header says what it is told to."""
    compressed = zstandard.ZstdCompressor(level=19).compress(records)
    length = HEADER.size - LOG_OVERHEAD_BYTES + len(compressed)
    header = bytearray(HEADER.pack(0, length, -1, 2, 0, ZSTD, record_count - 1, NOW_MS, NOW_MS, -1, -1, -1,
                                   record_count))
    crc = crc32c(bytes(header[ATTRIBUTES_OFFSET:]) + compressed)
    header[ATTRIBUTES_OFFSET - 4:ATTRIBUTES_OFFSET] = crc.to_bytes(4, "big")
    return bytes(header) + compressed


def zigzag(value: int) -> bytes:
    """Return a zigzag varint."""
    raw, found = value << 1, bytearray()
    while raw > 0x7F:
        found.append(raw & 0x7F | 0x80)
        raw >>= 7
    return bytes(found) + bytes((raw,))


def one_record(value_bytes: int) -> bytes:
    """Return one encoded record without a key, its value being zeros."""
    content = b"\x00\x00\x00\x01" + zigzag(value_bytes) + bytes(value_bytes) + b"\x00"
    return zigzag(len(content)) + content


def tiny_records(count: int) -> bytes:
    """Return so many records of seven bytes; each says that it is the batch's first."""
    return b"\x0c\x00\x00\x00\x01\x01\x00" * count


def produce(*batches: bytes) -> bytes:
    """Return a Produce request with one batch for each partition from 0 on."""
    body = produce_body(TOPIC, 0, None)
    body["topic_data"][0]["partition_data"] = [
        {"index": index, "records": batch} for index, batch in enumerate(batches)]
    return request_bytes(ApiKeys.PRODUCE, 9, body)


def uvarint(value: int) -> bytes:
    """Return an unsigned varint."""
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes(found) + bytes((value,))


def flexible(api_key: ApiKeys, version: int, body: bytes) -> bytes:
    """Return a request with a flexible header."""
    return header_bytes(api_key, version) + b"\x00" + body


def find_coordinator(count: int) -> bytes:
    """Return FindCoordinator 4 for so many empty keys."""
    return flexible(ApiKeys.FIND_COORDINATOR, 4, b"\x00" + uvarint(count + 1) + b"\x01" * count + b"\x00")


def describe_groups(count: int) -> bytes:
    """Return DescribeGroups 5 for so many empty ids."""
    return flexible(ApiKeys.DESCRIBE_GROUPS, 5, uvarint(count + 1) + b"\x01" * count + b"\x00\x00")


def metadata(count: int) -> bytes:
    """Return Metadata 9 for so many topics without a name."""
    return flexible(ApiKeys.METADATA, 9, uvarint(count + 1) + b"\x01\x00" * count + b"\x00\x00\x00\x00")


def produce_partitions(count: int) -> bytes:
    """Return a Produce request for so many partitions, without records."""
    body = produce_body(TOPIC, 0, None)
    body["topic_data"][0]["partition_data"] = [{"index": index, "records": None} for index in range(count)]
    return request_bytes(ApiKeys.PRODUCE, 9, body)


def create_topics(count: int) -> bytes:
    """Return CreateTopics 5 for so many names."""
    return request_bytes(ApiKeys.CREATE_TOPICS, 5, {"timeout_ms": 1000, "topics": [
        {"name": f"t{number}", "num_partitions": 1, "replication_factor": 1, "assignments": [], "configs": []}
        for number in range(count)]})


def offset_fetch(count: int) -> bytes:
    """Return OffsetFetch 8 for so many groups, all their topics."""
    return flexible(ApiKeys.OFFSET_FETCH, 8, uvarint(count + 1) + b"\x01\x00\x00" * count + b"\x00\x00")


def describe_configs(count: int) -> bytes:
    """Return DescribeConfigs 4 for the same topic so often, with all there is to tell."""
    return request_bytes(ApiKeys.DESCRIBE_CONFIGS, 4, {
        "include_synonyms": True, "include_documentation": True, "resources": [
            {"resource_type": 2, "resource_name": TOPIC, "configuration_keys": None}] * count})


def elect_leaders(count: int) -> bytes:
    """Return ElectLeaders 2 for the same partition so often."""
    return request_bytes(ApiKeys.ELECT_LEADERS, 2, {"election_type": 0, "timeout_ms": 1000, "topic_partitions": [
        {"topic": TOPIC, "partitions": [0] * count}]})


def reassign(count: int) -> bytes:
    """Return AlterPartitionReassignments 0 for the same partition so often."""
    return request_bytes(ApiKeys.ALTER_PARTITION_REASSIGNMENTS, 0, {"timeout_ms": 1000, "topics": [
        {"name": TOPIC, "partitions": [{"partition_index": 0, "replicas": [1]}] * (count // 2)}]})


def header_tags(count: int) -> bytes:
    """Return a request whose header has so many tags that nobody knows."""
    return header_bytes(ApiKeys.METADATA, 9) + uvarint(count) + b"\x63\x00" * count + b"\x01\x00\x00\x00\x00"


def list_transactions_pattern() -> bytes:
    """Return a pattern that a backtracking matcher does not finish."""
    return request_bytes(ApiKeys.LIST_TRANSACTIONS, 2, {
        "state_filters": [], "producer_id_filters": [], "duration_filter": -1,
        "transactional_id_pattern": "(a|a)*(a|a)*(a|a)*b"})


def add_transaction(broker: EmbeddedBroker) -> None:
    """Make the transactional id that the pattern is for."""
    with RawClient(("127.0.0.1", broker.port)) as client:
        client.request(ApiKeys.FIND_COORDINATOR, 4, {"key_type": 1, "coordinator_keys": ["a" * 60]})
        client.request(ApiKeys.INIT_PRODUCER_ID, 4, {"transactional_id": "a" * 60, "transaction_timeout_ms": 60_000,
                                                     "producer_id": -1, "producer_epoch": -1})


def fill(broker: EmbeddedBroker) -> None:
    """Store 60 MiB in one partition."""
    batch = bytes(build_batch([(NOW_MS, None, bytes(1_000_000), ())]))
    with RawClient(("127.0.0.1", broker.port)) as client:
        for _ in range(60):
            client.request(ApiKeys.PRODUCE, 9, produce_body(TOPIC, 0, batch))


def fetch_all() -> bytes:
    """Return a Fetch of up to 55 MiB."""
    return request_bytes(ApiKeys.FETCH, 12, fetch_body(12, TOPIC, 0, 0, max_bytes=55 * MIB,
                                                       partition_max_bytes=55 * MIB))


CASES = (
    Case("zstd bomb of 8 KB", lambda: produce(zstd_batch(one_record(250 * MIB), 1))),
    Case("8 of them at once", lambda: produce(zstd_batch(one_record(250 * MIB), 1)), clients=8),
    Case("20 M records, wrong deltas", lambda: produce(zstd_batch(tiny_records(20_000_000), 20_000_000))),
    Case("FindCoordinator, 2 MiB", lambda: find_coordinator(2 * MIB)),
    Case("FindCoordinator, 10 MiB", lambda: find_coordinator(10 * MIB)),
    Case("DescribeGroups, 2 MiB", lambda: describe_groups(2 * MIB)),
    Case("Metadata, 2 MiB", lambda: metadata(MIB)),
    Case("40 readers that read nothing", fetch_all, clients=40, reads=False, warm_up=fill),
    # Three more.
    Case("Produce, 100,000 partitions", lambda: produce_partitions(100_000)),
    Case("CreateTopics, 100,000 names", lambda: create_topics(100_000)),
    Case("OffsetFetch, 2 MiB", lambda: offset_fetch(2 * MIB // 3)),
    # As much as is allowed, so that it is answered and not refused.
    Case("bombs of 99 MiB, 8 at once", lambda: produce(zstd_batch(one_record(99 * MIB), 1)), clients=8),
    Case("499,000 records, wrong deltas", lambda: produce(zstd_batch(tiny_records(499_000), 499_000))),
    Case("FindCoordinator, 99,000 keys", lambda: find_coordinator(99_000)),
    Case("DescribeGroups, 99,000 groups", lambda: describe_groups(99_000)),
    Case("Metadata, 99,000 names", lambda: metadata(99_000)),
    Case("Produce, 99,000 partitions", lambda: produce_partitions(99_000)),
    Case("CreateTopics, 99,000 names", lambda: create_topics(99_000)),
    Case("OffsetFetch, 99,000 groups", lambda: offset_fetch(99_000)),
    Case("DescribeConfigs, 99,000 times", lambda: describe_configs(99_000)),
    Case("ElectLeaders, 99,000 partitions", lambda: elect_leaders(99_000)),
    Case("reassignments of 49,500", lambda: reassign(99_000)),
    Case("a million tags in a header", lambda: header_tags(1_000_000)),
    Case("a pattern that backtracks", list_transactions_pattern, warm_up=add_transaction),
)


# ---- a run

class Other(threading.Thread):
    """Another connection, which asks for metadata all the time."""

    def __init__(self, address: tuple[str, int]) -> None:
        super().__init__(daemon=True)
        self._address = address
        self._stop_requested = threading.Event()
        self._failure: Exception | None = None
        self.slowest_s = 0.0

    def run(self) -> None:
        """Ask until stopped."""
        try:
            with RawClient(self._address, timeout_s=TIMEOUT_S) as client:
                while not self._stop_requested.wait(PAUSE_S):
                    begin = time.perf_counter()
                    client.request(ApiKeys.METADATA, 1, metadata_body(TOPIC))
                    self.slowest_s = max(self.slowest_s, time.perf_counter() - begin)
        except Exception as failure:
            self._failure = failure

    def stop(self) -> None:
        """End after the request under way.

        Raises:
            RuntimeError: It could not ask all the time: the slowest of the answers that came says nothing.
        """
        self._stop_requested.set()
        self.join()
        if self._failure is not None:
            raise RuntimeError(f"the other connection was not served: {self._failure!r}") from self._failure


def run_once(case: Case | None, payload: bytes) -> Run:
    """Start a broker, let the clients do it, look at what it cost; without a case nothing is done for a second."""
    before = set(psutil.Process().children())
    with EmbeddedBroker(separate_process=True, topics={TOPIC: 8}) as broker:
        address = ("127.0.0.1", broker.port)
        (process,) = set(psutil.Process().children()) - before
        if case is not None and case.warm_up is not None:
            case.warm_up(broker)
        other = Other(address)
        other.start()
        cpu_before, begin = cpu_seconds(process), time.perf_counter()
        outcome = "quiet"
        if case is None:
            time.sleep(QUIET_S)
        else:
            outcome = attack(address, case, payload)
        time_s, cpu_s = time.perf_counter() - begin, cpu_seconds(process) - cpu_before
        other.stop()
        return Run(time_s, cpu_s, peak_bytes(process) / MIB, other.slowest_s, outcome)


def attack(address: tuple[str, int], case: Case, payload: bytes) -> str:
    """Send the request over all connections; return what came back."""
    clients = [RawClient(address, timeout_s=TIMEOUT_S) for _ in range(case.clients)]
    try:
        for client in clients:
            client.send_frame(payload)
        if not case.reads:
            with RawClient(address, timeout_s=TIMEOUT_S) as reader:  # one more, which reads
                reader.send_frame(payload)
                return f"one more reads {len(reader.receive_frame()) / MIB:.0f} MiB"
        found = [receive(client) for client in clients]
        return ", ".join(f"{found.count(one)} {one}" if len(found) > 1 else one for one in sorted(set(found)))
    finally:
        for client in clients:
            client.close()


def receive(client: RawClient) -> str:
    """Wait for the answer or for the end of the connection."""
    try:
        client.receive_frame()
    except (ConnectionEnded, BrokenPipeError):
        return "refused"
    return "answered"


def cpu_seconds(process: psutil.Process) -> float:
    """Return what a process has computed so far."""
    times = process.cpu_times()
    return float(times.user + times.system)


def peak_bytes(process: psutil.Process) -> int:
    """Return the largest resident size so far, or where the system does not tell it the present one."""
    status = Path(f"/proc/{process.pid}/status")
    if status.exists():
        for line in status.read_text(encoding="ascii", errors="replace").splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    size: int = process.memory_info().rss
    return size


# ---- all of them

def report(name: str, runs: Sequence[Run]) -> tuple[str, bool]:
    """Return a row of the table, and whether the medians keep within the limits."""
    def cell(values: Sequence[float], form: str) -> str:
        return f"{format(statistics.median(values), form)} ({format(max(values), form)})"

    times, cpus = [run.time_s for run in runs], [run.cpu_s for run in runs]
    peaks, others = [run.peak_mib for run in runs], [run.other_s for run in runs]
    kept = (statistics.median(times) <= LIMIT_TIME_S and statistics.median(peaks) <= LIMIT_PEAK_MIB
            and statistics.median(others) <= LIMIT_OTHER_S)
    row = (f"{name:32}{cell(times, '.2f'):>14}{cell(cpus, '.2f'):>14}{cell(peaks, '.0f'):>14}{cell(others, '.3f'):>17}"
           f"{'' if kept else '  over'}  {runs[0].outcome}")
    return row, kept


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the cases; the exit code says whether all kept within the limits."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", help="cases whose name contains this")
    parser.add_argument("--keep", action="store_true", help="keep the table in benchmarks/results")
    options = parser.parse_args(arguments)
    title = f"median (largest) of {options.rounds}"
    lines = [f"{title:32}{'time s':>14}{'cpu s':>14}{'peak MiB':>14}{'other s':>17}"]
    print(lines[0], flush=True)
    all_kept = True
    chosen: list[tuple[str, Case | None]] = [("quiet", None), *((case.name, case) for case in CASES)]
    for name, case in chosen:
        if options.only is not None and options.only not in name:
            continue
        payload = b"" if case is None else case.payload()
        row, kept = report(name, [run_once(case, payload) for _ in range(options.rounds)])
        all_kept &= kept
        lines.append(row)
        print(row, flush=True)
    limits = f"limits: {LIMIT_TIME_S:.0f} s, {LIMIT_PEAK_MIB} MiB, {LIMIT_OTHER_S} s"
    print(limits)
    if options.keep:
        keep("broker-limits", "broker_limits", "\n".join([*lines, limits, "", machine()]))
    return 0 if all_kept else 1


if __name__ == "__main__":
    raise SystemExit(main())
