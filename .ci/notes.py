"""Prints the part of CHANGES.md that is about one version: the notes of its release.

    python .ci/notes.py 0.1.0

A version that is not there, or is still called not released, is an error: then nothing is released.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def notes(changes: str, version: str) -> str:
    """Return the text below the heading of a version."""
    for part in re.split(r"^## ", changes, flags=re.MULTILINE)[1:]:
        heading, _, text = part.partition("\n")
        if heading.split()[0] == version:
            if "not released" in heading:
                sys.exit(f"CHANGES.md says that {version} is not released: write the day instead")
            return text.strip() + "\n"
    sys.exit(f"CHANGES.md has no part about {version}")


if __name__ == "__main__":
    sys.stdout.write(notes((ROOT / "CHANGES.md").read_text(encoding="utf-8"), sys.argv[1]))
