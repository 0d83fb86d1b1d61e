"""A small table for notebooks, of names and values.

Road:    beside it.
Thread:  pure.
Source:  ours.
"""

from __future__ import annotations

from collections.abc import Iterable


def html_table(title: str, rows: Iterable[tuple[object, object]]) -> str:
    """Return HTML with a title and a row for each pair; what is in them cannot be HTML."""
    from html import escape  # here: few programs are notebooks

    lines = "".join(f"<tr><td>{escape(str(name))}</td><td>{escape(str(value))}</td></tr>" for name, value in rows)
    return f"<b>{escape(title)}</b><table>{lines}</table>"
