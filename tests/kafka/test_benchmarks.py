"""The comparison runs every client, and its table says what it claims to say."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.clients import CLIENTS
from benchmarks.compare import report, run_client
from benchmarks.workload import Measurement, Workload
from tests.support.kafka_server import KafkaServer

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("name", sorted(CLIENTS))
def test_client_in_a_process_of_its_own_stores_the_workload_and_measures(kafka: KafkaServer, name: str) -> None:
    measurement = run_client(name, kafka, 3, Workload(record_count=2000))
    assert (measurement.client, measurement.record_count) == (name, 2000)
    assert measurement.cpu_seconds > 0
    assert measurement.peak_memory_mib > 10


def test_report_of_two_rounds_gives_medians_and_ratios_within_a_round() -> None:
    def measured(client: str, seconds: float) -> Measurement:
        return Measurement(client, 1000, seconds, seconds / 2, 2**20)

    text = report("title", [{"pyproducer": measured("pyproducer", 1), "kafka-python": measured("kafka-python", 4)},
                            {"pyproducer": measured("pyproducer", 2), "kafka-python": measured("kafka-python", 4)}])
    absolute, ratios = text.split("x kafka-python")
    assert ["pyproducer", "750", "750.00", "1"] in [line.split() for line in absolute.splitlines()]
    assert "3.00 (2.00-4.00)" in ratios
    assert "0.38 (0.25-0.50)" in ratios


def test_batch_writer_benchmark_reads_back_every_codec() -> None:
    done = subprocess.run([sys.executable, "-m", "benchmarks.batch_writer", "--rounds", "1"], cwd=ROOT,
                          capture_output=True, text=True, timeout=120, check=True)
    for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
        assert f"\n{codec} " in done.stdout
