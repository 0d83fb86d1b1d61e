"""The comparison runs every client, and its table says what it claims to say."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import event_loop, tables
from benchmarks.back_pressure import PRESSED
from benchmarks.charts import draw_bars
from benchmarks.clients import CLIENTS, SLOW
from benchmarks.event_loop import MEASURES
from benchmarks.foreign_clients import FOREIGN
from benchmarks.loop_process import LOOP_CLIENTS
from benchmarks.matrix import AXES, every_combination, rows_of
from benchmarks.memory import press
from benchmarks.rounds import ALL_CLIENTS, ALL_LATENCY_CLIENTS, run_client, run_latency
from benchmarks.startup import FIRST_RECORD, run_once
from benchmarks.tables import report
from benchmarks.workload import Latency, Measurement, Workload
from tests.support.certificates import Certificates
from tests.support.kafka_jars import MissingTool
from tests.support.kafka_server import KafkaServer

ROOT = Path(__file__).resolve().parents[2]


def require(name: str) -> None:
    """Raise MissingTool, which the suite turns into a skip, for a program that cannot be built here."""
    if name in FOREIGN:
        FOREIGN[name]()


@pytest.mark.parametrize("name", [pytest.param(name, marks=() if name == "pyproducer" else pytest.mark.soak)
                                  for name in ALL_CLIENTS])
def test_client_in_a_process_of_its_own_stores_the_workload_and_measures(kafka: KafkaServer, name: str) -> None:
    require(name)
    measurement = run_client(name, kafka, 3, Workload(record_count=2000, warm_up_s=0))
    assert (measurement.client, measurement.record_count) == (name, 2000 // SLOW.get(name, 1))
    assert measurement.cpu_seconds >= 0  # the JVM counts hundredths of a second
    assert measurement.peak_memory_mib > 5


@pytest.mark.soak
@pytest.mark.parametrize("name", ALL_CLIENTS)
def test_client_out_of_the_box_without_keys_stores_the_workload(kafka: KafkaServer, name: str) -> None:
    require(name)
    workload = Workload(record_count=1000, keyed=False, out_of_the_box=True, warm_up_s=0)
    assert run_client(name, kafka, 3, workload).seconds > 0


@pytest.mark.parametrize("name", [pytest.param(name, marks=() if name == "pyproducer" else pytest.mark.soak)
                                  for name in CLIENTS])
def test_client_over_tls_stores_the_workload(kafka: KafkaServer, certificates: Certificates, name: str) -> None:
    workload = Workload(record_count=2000, trusted_file=str(certificates.ca))
    assert "TLS" in workload.describe()
    assert workload.slug().endswith("-tls")
    assert run_client(name, kafka, 3, workload).seconds > 0


@pytest.mark.soak
@pytest.mark.parametrize("name", ALL_LATENCY_CLIENTS)
def test_waiting_caller_gets_percentiles_in_order(kafka: KafkaServer, name: str) -> None:
    require(name)
    latency = run_latency(name, kafka, 3, Workload(record_count=50, linger_ms=0, warm_up_s=0), busy=False)
    assert (latency.client, latency.record_count) == (name, 50)
    assert 0 < latency.p50_us <= latency.p99_us <= latency.p999_us


@pytest.mark.soak
def test_waiting_caller_beside_a_busy_thread_is_measured(kafka: KafkaServer) -> None:
    workload = Workload(record_count=20, linger_ms=0)
    assert run_latency("pyproducer", kafka, 3, workload, busy=True).p50_us > 0


@pytest.mark.parametrize(("mode", "name"), [
    pytest.param(mode, name, marks=() if (mode, name) == ("watched", "pyproducer") else pytest.mark.soak)
    for mode in MEASURES for name in LOOP_CLIENTS])
def test_loop_client_in_a_process_of_its_own_stores_its_records_and_measures(
        kafka: KafkaServer, mode: str, name: str) -> None:
    run = event_loop.run_once(mode, name, kafka, 500)
    assert (run.client, run.record_count) == (name, 500)
    assert min(run.seconds, MEASURES[mode].figure(run)) > 0


@pytest.mark.soak
def test_web_app_is_asked_while_kafka_is_there_and_away(own_kafka: KafkaServer) -> None:
    if importlib.util.find_spec("uvicorn") is None:
        raise MissingTool("the package uvicorn is not installed: pip install -e '.[bench]'")
    there, killed, why_killed, stopped, why_stopped = event_loop.serve(own_kafka, 1)
    assert "5 x 200 stored" in there
    assert "503 KafkaTimeoutError" in killed
    assert "503 KafkaTimeoutError" in stopped
    assert all("delivery.timeout.ms is 10000" in why for why in (why_killed, why_stopped))


def test_percentiles_are_by_nearest_rank() -> None:
    latency = Latency.of("x", [number * 1000 for number in range(1000, 0, -1)])
    assert (latency.p50_us, latency.p99_us, latency.p999_us) == (501, 991, 1000)


def test_matrix_has_a_row_for_each_size_codec_key_partition_default_and_distance() -> None:
    rows = rows_of(AXES, 1_000_000, 5)
    assert {row.workload.value_size_bytes for row in rows} == {100, 1024, 10240}
    assert {row.workload.compression for row in rows} == {"none", "gzip", "snappy", "lz4", "zstd"}
    assert {row.workload.keyed for row in rows} == {row.workload.out_of_the_box for row in rows} == {False, True}
    assert {row.partitions for row in rows} == {1, 3, 50}
    assert {row.delay_ms for row in rows} == {0, 1, 10, 50}
    assert len({row.name for row in rows}) == len(rows)
    assert len(every_combination(1_000_000, 5)) == 3 * 5 * 2 * 3


def test_report_of_two_rounds_gives_medians_and_ratios_within_a_round() -> None:
    def measured(client: str, seconds: float) -> Measurement:
        return Measurement(client, 1000, seconds, seconds / 2, 2**20)

    text = report("title", [{"pyproducer": measured("pyproducer", 1), "java": measured("java", 4)},
                            {"pyproducer": measured("pyproducer", 2), "java": measured("java", 4)}])
    absolute, ratios = text.split("x java")
    assert ["pyproducer", "750", "750.00", "1"] in [line.split() for line in absolute.splitlines()]
    assert "3.00 (2.00-4.00)" in ratios
    assert "0.38 (0.25-0.50)" in ratios


@pytest.mark.soak
def test_batch_writer_benchmark_reads_back_every_codec() -> None:
    done = subprocess.run([sys.executable, "-m", "benchmarks.batch_writer", "--rounds", "1"], cwd=ROOT,
                          capture_output=True, text=True, timeout=120, check=True)
    for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
        assert f"\n{codec} " in done.stdout


@pytest.mark.soak
@pytest.mark.parametrize("name", sorted(PRESSED))
def test_memory_of_a_client_is_watched_while_the_broker_is_stopped(own_kafka: KafkaServer, name: str) -> None:
    resident = press(name, own_kafka, Workload(record_count=100), 0.5, stopped=True)
    assert 0 < resident.before_bytes <= resident.peak_bytes
    assert resident.record_count > 0


@pytest.mark.soak
@pytest.mark.parametrize("name", sorted(FIRST_RECORD))
def test_startup_is_import_and_then_the_first_acknowledgement(
        kafka: KafkaServer, name: str, tmp_path: Path) -> None:
    kafka.create_topic(f"startup-{name}")
    took = run_once(name, kafka.bootstrap_servers, f"startup-{name}", str(tmp_path))
    assert min(took) > 0
    assert took.total_ms >= took.import_ms + took.acknowledged_ms


def test_kept_table_names_its_command_and_its_chart_is_drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if importlib.util.find_spec("matplotlib") is None:
        raise MissingTool("the package matplotlib is not installed: pip install -e '.[bench]'")
    monkeypatch.setattr(tables, "RESULTS", tmp_path)
    monkeypatch.setattr(sys, "argv", ["compare.py", "--keep", "--rounds", "1"])
    tables.keep("x", "compare", "the table")
    assert (tmp_path / "x.txt").read_text().startswith("$ python -m benchmarks.compare --keep --rounds 1\n\nthe table")
    assert draw_bars(tmp_path / "x.svg", "title", [("records/s", {"100 B": {"pyproducer": 1.0, "java": 2.0}})])
    assert "<svg" in (tmp_path / "x.svg").read_text()
