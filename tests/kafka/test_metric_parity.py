"""metrics() has Java's names; docs/metrics.md lists those that it has not."""

from __future__ import annotations

import fnmatch
import re
from pathlib import Path

from pyproducer import KafkaProducer
from tests.support.kafka_jars import ask_java

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "tests" / "support" / "java" / "ConfigParity.java"


def missing_by_the_page() -> list[str]:
    """Return the names, or patterns of them, in the paragraph about what is not here."""
    page = (ROOT / "docs" / "metrics.md").read_text("ascii")
    paragraph = re.search(r"^What Java has and is not here: (.+?)\n\n", page, re.DOTALL | re.MULTILINE)
    assert paragraph is not None
    return re.findall(r"`([a-z*-]+)`", paragraph[1])


def test_metrics_when_compared_with_java_then_what_is_missing_is_what_the_page_says() -> None:
    """A board that was made for Java's names showed nothing for a dozen of them, and no page said so."""
    lines = [line.split("\t") for line in ask_java(SOURCE, "metrics")]
    of_java = {name for kind, group, name in (line for line in lines if line[0] == "METRIC")
               if group == "producer-metrics"}
    assert len(of_java) > 70
    with KafkaProducer({"bootstrap.servers": "127.0.0.1:1", "transactional.id": "parity"}) as producer:
        missing = of_java - producer.metrics().keys()
    said = missing_by_the_page()
    assert {name for name in missing if not any(fnmatch.fnmatch(name, pattern) for pattern in said)} == set()
    assert {pattern for pattern in said if not fnmatch.filter(missing, pattern)} == set()
