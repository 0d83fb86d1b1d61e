"""Examples, the demonstration and the README's quickstart run as they are, with warnings as errors."""

from __future__ import annotations

import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from tests.support.patience import PROGRAM_S

ROOT = Path(__file__).resolve().parents[2]


def run_example(*arguments: str, warnings_are_errors: bool = True) -> str:
    """Run `python -m ...` and return what it printed."""
    strict = ["-W", "error"] if warnings_are_errors else []
    done = subprocess.run([sys.executable, *strict, "-m", *arguments], cwd=ROOT, capture_output=True, text=True,
                          timeout=PROGRAM_S, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Connection refused" not in done.stderr, f"a broker ended before its client: {done.stderr}"
    return done.stdout


def test_quickstart_prints_where_each_record_is() -> None:
    printed = run_example("examples.quickstart")
    assert len(re.findall(r"stored in orders-\d at offset \d", printed)) == 3
    assert "read b'43' -> b'paid' (Header(key='trace', value=b'1'),)" in printed


def test_callbacks_and_futures_prints_each_way() -> None:
    printed = run_example("examples.callbacks_and_futures")
    assert re.search(r"future: orders-\d at offset \d", printed)
    assert "callbacks: 1000 stored, 0 failed" in printed
    assert len(re.findall(r"await: orders-\d", printed)) == 3
    assert re.search(r"failed: InvalidTopicError \(outcome \w+, retriable False\)", printed)


def test_partitioning_prints_what_each_partitioner_does() -> None:
    printed = run_example("examples.partitioning")
    assert re.search(r"no keys, default \(round-robin\): +\[\(0, 100\), \(1, 100\), \(2, 100\)\]", printed)
    assert "an explicit partition wins over the key: 2" in printed
    assert len(printed.splitlines()) == 6


def test_interceptors_prints_what_it_added_and_counted() -> None:
    printed = run_example("examples.interceptors").splitlines()
    assert printed == ["interceptor: {'stored': 2}", "b'paid' [('service', b'shop')]",
                       "b'shipped' [('trace', b'1'), ('service', b'shop')]"]


def test_demo_with_fewer_records_finds_every_one_in_order() -> None:
    printed = run_example("examples.demo", "--records", "30000")
    assert "checked   30,000 records read back: none lost, none twice, in order for each key" in printed
    assert re.search(r"rate +[\d,]+ records/s", printed)


def test_consume_transform_produce_passes_every_record_on_once() -> None:
    pytest.importorskip("confluent_kafka")
    printed = run_example("examples.consume_transform_produce")
    assert "1000 records passed on, 1000 of them different" in printed


def test_database_and_kafka_when_a_process_is_killed_between_them_then_the_next_one_finishes() -> None:
    printed = run_example("examples.database_and_kafka").splitlines()
    assert printed[:2] == ["a process ended with -9, finished: 0", "a process ended with 0, finished: 1"]
    assert printed[2] == "the database has: [('tea',), ('cake',), ('tea',), ('cake',)]"
    assert printed[3] == "Kafka has:        [b'tea', b'cake', b'tea', b'cake']"


README_BLOCKS = re.findall(r"```python\n(.*?) *```", (ROOT / "README.md").read_text(encoding="ascii"), re.DOTALL)


@pytest.mark.parametrize(("number", "printed"), [
    (0, "RecordMetadata(topic='orders'"), (1, "0 1\n"), (2, "2 {}\n"), (3, "[b'40']\n"), (4, ""), (5, ""), (
    6, "1 {'not_sent': 0, 'rejected': 0, 'unknown': 0} {'orders': TopicDeliveries(delivered=1, "),
    (7, "all\n")])
def test_readme_blocks_run_as_they_are_printed(tmp_path: Path, number: int, printed: str) -> None:
    assert len(README_BLOCKS) == 8
    script = tmp_path / "block.py"
    script.write_text(textwrap.dedent(README_BLOCKS[number]), encoding="ascii")
    done = subprocess.run([sys.executable, "-W", "error", str(script)], cwd=ROOT, env={"PYTHONPATH": str(ROOT)},
                          capture_output=True, text=True, timeout=PROGRAM_S, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert printed in done.stdout
