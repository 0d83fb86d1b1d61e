"""docs/metrics.md has every name that metrics() has."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import pytest

from pyproducer import KafkaProducer
from pyproducer.observe.catalog import OF_NODE, OF_PRODUCER, OF_TOPIC, Definition

PAGE = Path(__file__).resolve().parents[3] / "docs" / "metrics.md"


def named(title: str) -> dict[str, str]:
    """Return what the page says of each name."""
    text = PAGE.read_text("ascii")
    section = text.partition(f"### {title}")[2].partition("\n### ")[0]
    return dict(re.findall(r"^\| `([a-z0-9-]+)` \| (.+) \|$", section, re.MULTILINE))


@pytest.mark.skipif(not PAGE.exists(), reason="docs are not in an installed package")
def test_page_when_compared_with_metrics_then_each_name_is_there_and_no_other() -> None:
    with KafkaProducer({"bootstrap.servers": "127.0.0.1:1"}) as producer:
        of_producer = set(producer.metrics())
    said_to_come_later = re.search(r"Every name is there from the start, 0 where nothing happened, but (.+?):",
                                   PAGE.read_text("ascii"), re.DOTALL)
    assert said_to_come_later is not None
    later = set(re.findall("`([a-z-]+)`", said_to_come_later[1]))
    assert named("The whole producer").keys() - later == of_producer
    assert later == {"certificate-expiry-time-ms", "broker-certificate-expiry-time-ms", "token-expiry-time-ms"}
    assert named("A broker").keys() == {definition.name for definition in OF_NODE}
    assert named("A topic").keys() == {definition.name for definition in OF_TOPIC}


@pytest.mark.skipif(not PAGE.exists(), reason="docs are not in an installed package")
@pytest.mark.parametrize(("title", "definitions"), [
    ("The whole producer", OF_PRODUCER), ("A broker", OF_NODE), ("A topic", OF_TOPIC)])
def test_page_when_compared_with_the_catalog_then_each_name_means_what_the_page_says(
        title: str, definitions: Sequence[Definition]) -> None:
    said = named(title)
    assert [(definition.name, definition.text) for definition in definitions] == [
        (definition.name, said.get(definition.name)) for definition in definitions]
