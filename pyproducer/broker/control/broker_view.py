"""A broker in a line, for a debugger, and as a table, for a notebook.

Road:    EmbeddedBroker -> [broker view] -> repr, Jupyter
Thread:  pure.
Source:  ours.
"""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import NamedTuple

LINE_TOPICS = 5
TABLE_TOPICS = 20
_UNITS = ("KiB", "MiB", "GiB", "TiB")


class TopicSize(NamedTuple):
    """What a topic holds; `records` counts offsets from the start of each log to its end, markers included."""

    partitions: int
    records: int
    size_bytes: int


def size_text(size_bytes: int) -> str:
    """Return a size as people read it."""
    if size_bytes < 1024:
        return f"{size_bytes} B"
    size, steps = size_bytes / 1024, 0
    while size >= 1024 and steps < len(_UNITS) - 1:
        size, steps = size / 1024, steps + 1
    return f"{size:.1f} {_UNITS[steps]}"


def line(address: str | None, topics: Mapping[str, TopicSize]) -> str:
    """Return what repr shows; without an address the broker does not run."""
    if address is None:
        return "<EmbeddedBroker, not running>"
    shown = [f"{name} ({_count(topic.partitions, 'partition')}, {_count(topic.records, 'record')}, "
             f"{size_text(topic.size_bytes)})" for name, topic in sorted(topics.items())[:LINE_TOPICS]]
    if len(topics) > LINE_TOPICS:
        shown.append(f"{len(topics) - LINE_TOPICS} more topics")
    return f"<EmbeddedBroker at {address}: {', '.join(shown) or 'no topics'}>"


def table(address: str | None, topics: Mapping[str, TopicSize]) -> str:
    """Return what a notebook shows, as HTML."""
    if address is None:
        return "<b>EmbeddedBroker</b>, not running"
    rows = ["<tr><th>topic</th><th>partitions</th><th>records</th><th>size</th></tr>"]
    rows += [f"<tr><td>{escape(name)}</td><td>{topic.partitions}</td><td>{topic.records}</td>"
             f"<td>{size_text(topic.size_bytes)}</td></tr>" for name, topic in sorted(topics.items())[:TABLE_TOPICS]]
    if len(topics) > TABLE_TOPICS:
        rows.append(f'<tr><td colspan="4">{len(topics) - TABLE_TOPICS} more topics</td></tr>')
    return f"<b>EmbeddedBroker</b> at <code>{escape(address)}</code><table>{''.join(rows)}</table>"


def _count(number: int, thing: str) -> str:
    return f"{number} {thing}{'' if number == 1 else 's'}"
