"""What README.md says of settings, and of what is not there yet, is so."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest

import pyproducer
from pyproducer import ConfigError, KafkaProducer, ProducerConfig
from pyproducer.producer.partitioners import resolve_partitioner
from pyproducer.producer.serializers import resolve_serializer
from tests.unit.test_design import paths_in

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="ascii")
BOOTSTRAP = {"bootstrap.servers": "127.0.0.1:1"}


def table_row(first_cell: str) -> str:
    """The row of a table of the README that begins with this cell."""
    return next(line for line in README.splitlines() if line.startswith(f"| {first_cell}"))


def names_in(row: str) -> list[str]:
    return re.findall(r"`([^`]+)`", row.split("|")[2])


def test_serializer_names_in_readme_are_accepted() -> None:
    names = [name for name in names_in(table_row("`key.serializer`")) if name.isalpha()]
    assert len(names) == 11
    for name in names:
        assert resolve_serializer(name, "key.serializer") is not None


def test_partitioner_names_in_readme_are_accepted_and_exported() -> None:
    names = names_in(table_row("`partitioner.class`"))
    assert len(names) == 5
    for name in names:
        assert type(resolve_partitioner(name, ProducerConfig(BOOTSTRAP))).__name__ == name
        assert name in pyproducer.__all__


def test_compression_names_in_readme_are_accepted() -> None:
    names = [name for name in names_in(table_row("`compression.type`")) if name.isalnum()]
    assert sorted(names) == ["gzip", "lz4", "none", "snappy", "zstd"]
    for name in names:
        assert ProducerConfig({**BOOTSTRAP, "compression.type": name}).compression_type == name


def test_defaults_in_readme_are_those_of_the_table() -> None:
    assert "(Kafka 4.1: acks all, idempotence on, linger 5 ms)" in README.replace("\n", " ")
    config = ProducerConfig(BOOTSTRAP)
    assert (str(config.acks), config.enable_idempotence, config.linger_ms) in {("all", True, 5), ("-1", True, 5)}


@pytest.mark.parametrize(("row", "is_missing"), [
    ("transactions", lambda: not hasattr(KafkaProducer, "init_transactions")),
    ("SASL", lambda: refuses({
        "security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.jaas.config":
        'org.apache.kafka.common.security.plain.PlainLoginModule required username="u" password="p";'})),
    ("`send_batch`", lambda: not hasattr(KafkaProducer, "send_batch")),
    ("Spark 3.5", lambda: importlib.util.find_spec("pyproducer.spark.datasource") is None),
    ("Spark: exactly-once", lambda: importlib.util.find_spec("pyproducer.spark.exactly_once") is None),
    ("`pyproducer.aio.AsyncKafkaProducer`", lambda: importlib.util.find_spec("pyproducer.aio") is None),
])
def test_rows_that_say_not_yet_are_not_there(row: str, is_missing: object) -> None:
    assert callable(is_missing)
    assert ("not yet" in table_row(row)) == is_missing()


def refuses(props: dict[str, object]) -> bool:
    try:
        KafkaProducer({**BOOTSTRAP, **props}).close()
    except ConfigError:
        return True
    return False


def test_pages_of_docs_when_they_are_for_users_then_readme_lists_each_once() -> None:
    listed = re.findall(r"^\d+\. `docs/(\w+\.md)`: ", README, re.MULTILINE)
    of_users = {page.name for page in (ROOT / "docs").glob("*.md")} - {"design.md", "words_of_kafka.md"}
    assert sorted(listed) == sorted(of_users)


def test_path_when_readme_or_a_page_for_first_looks_names_it_then_it_is_there() -> None:
    texts = [README, *((ROOT / "docs" / name).read_text("ascii") for name in ("errors.md", "incidents.md"))]
    paths = {path for text in texts for path in paths_in(text)}
    assert "benchmarks/results/" in paths
    assert [path for path in sorted(paths) if not (ROOT / path).exists()] == []
