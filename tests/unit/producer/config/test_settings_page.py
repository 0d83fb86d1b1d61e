"""docs/settings_reference.md has every setting of the producer, as the table of settings says it.

To write its tables anew, after a row has changed: `python -m tests.unit.producer.config.test_settings_page`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

import pytest

from pyproducer.common.settings.definition import NonEmpty, Setting, Support
from pyproducer.producer.config import CONFIG_TABLE
from pyproducer.producer.config.rows_client import CLIENT
from pyproducer.producer.config.rows_delivery import DELIVERY
from pyproducer.producer.config.rows_sasl import SASL
from pyproducer.producer.config.rows_tls import TLS

PAGE = Path(__file__).resolve().parents[4] / "docs" / "settings_reference.md"
SECTIONS = {"Delivery, batches, memory, serializers, partitions, transactions": DELIVERY,
            "Client, connections, metadata, metrics": CLIENT,
            "TLS": TLS,
            "Logins (SASL)": SASL}
HEAD = "| setting | type | default | allowed | what |\n|---|---|---|---|---|\n"
WITHOUT_EFFECT = {Support.JVM_ONLY: "only a JVM can use it", Support.VALIDATOR_ONLY: "only brokers use it",
                  Support.INERT: "nothing here could act on it", Support.NOT_YET: "nothing reads it yet"}


def default_of(row: Setting) -> str:
    """Return the default as a properties file has it; nothing for Java's null."""
    if row.default is None or row.default in ("", ()):
        return ""
    if isinstance(row.default, tuple):
        return f"`{','.join(row.default)}`"
    return f"`{str(row.default).lower() if isinstance(row.default, bool) else row.default}`"


def allowed_of(row: Setting) -> str:
    """Return the rule for values, in the words of the error that tells of it."""
    if row.allowed is None:
        return ""
    if isinstance(row.allowed, NonEmpty):
        return "not empty"
    if hasattr(row.allowed, "words"):
        return ", ".join(f"`{word}`" for word in row.allowed.words)
    return getattr(row.allowed, "form", None) or str(row.allowed)


def line_of(row: Setting) -> str:
    """Return the line of a setting."""
    notes = [row.doc]
    if not row.has_effect:
        notes.append(f"No effect, but for a warning: {WITHOUT_EFFECT[row.support]}.")
    if row.since:
        notes.append(f"Kafka {row.since}.")
    if row.synonyms:
        notes.append("Also: " + ", ".join(f"`{synonym.key}`" for synonym in row.synonyms) + ".")
    return (f"| `{row.key}` | {row.type.value.lower()} | {default_of(row)} | {allowed_of(row)} | "
            f"{' '.join(notes)} |").replace("|  |", "| |").replace("|  |", "| |")


def table_of(rows: Iterable[Setting]) -> str:
    """Return the table of a section."""
    return HEAD + "".join(f"{line_of(row)}\n" for row in rows)


def page() -> str:
    """Return the page with tables of what the settings are now."""
    text = PAGE.read_text("ascii")
    for title, rows in SECTIONS.items():
        before, _, rest = text.partition(f"## {title}\n\n")
        assert rest, f"{PAGE.name} has no section {title!r}"
        behind = re.split(r"(?<=\n)(?!\|)", rest, maxsplit=1)[1]
        text = f"{before}## {title}\n\n{table_of(rows)}{behind}"
    return text


@pytest.mark.skipif(not PAGE.exists(), reason="docs are not in an installed package")
def test_page_when_compared_with_the_table_of_settings_then_each_row_is_there_as_it_is() -> None:
    assert PAGE.read_text("ascii").splitlines() == page().splitlines()


def test_sections_when_taken_together_then_they_are_all_settings() -> None:
    assert [row.key for rows in SECTIONS.values() for row in rows] == list(CONFIG_TABLE)


if __name__ == "__main__":
    PAGE.write_text(page(), "ascii")
