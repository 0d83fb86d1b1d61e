"""What was measured of each test file, kept in .cache/mutants: a record for each, and the texts that its tests ran.

Shape:   map/<test file>.json: its tests, their seconds, and for each source file the hash of its text then and rows of
         (lines, tests), both as ranges, "1-5,8"; texts/<hash>: a source file as it was.
         A record is valid as long as the test file is what it was, and what it imports of tests/ and the conftest.py of
         its folders; not so tests/conftest.py, which says who runs and who leaks, and of which every file would depend.
         Edits of the package do not end it: lines are followed to their place in today's text (drift.py).
         A further work tree of git begins with the records of the first.
Source:  ours.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from tests.mutants.drift import Drift

CACHE = Path(".cache", "mutants")
FORMAT = 2  # of the records
IMPORTS = re.compile(r"^\s*(?:from (tests[\w.]*) import (\([^)]*\)|[^\n]*)|import (tests[\w.]*))", re.MULTILINE)


class Measured:
    """The records of a tree."""

    def __init__(self, root: Path, sources: Path | None = None) -> None:
        """Sources are those of a copy of the tree, where one is: a tree may be edited while mutants run."""
        self._root = root
        self._sources = sources or root
        self._caches = [root / CACHE, *(tree / CACHE for tree in _main_tree(root))]
        self._drifts: dict[tuple[str, str], Drift | None] = {}
        self._imported: dict[str, frozenset[str]] = {}
        self._hashes: dict[str, str] = {}

    def record(self, file: str) -> dict[str, Any] | None:
        """Return what was measured of a test file, valid or not."""
        place = self._find("map", _name(file))
        found: dict[str, Any] | None = None if place is None else json.loads(place.read_text())
        return None if found is None or found["format"] != FORMAT else found

    def is_valid(self, file: str, record: Mapping[str, Any]) -> bool:
        """Whether the test file is what it was."""
        return bool(record["of"] == self._hash_of(file))

    def keep(self, file: str, measured: Mapping[str, Any], copy: Measured) -> None:
        """Keep what was measured of a test file, in a copy of the tree."""
        texts = {path: self._keep_text(copy._root / path) for path in measured["lines"]}
        rows = {path: {"text": texts[path], "ran": _rows(lines)} for path, lines in measured["lines"].items()}
        _write(self._root / CACHE / "map" / _name(file), json.dumps({
            "format": FORMAT, "of": copy._hash_of(file), "tests": measured["tests"],
            "seconds": measured["seconds"], "failed": measured["failed"], "lines": rows}))

    def drift(self, path: str, text: str) -> Drift | None:
        """Return what became of a source file since it had a text; None when it is gone, or its old text is."""
        key = path, text
        if key not in self._drifts:
            now, then = self._sources / path, self._find("texts", text)
            self._drifts[key] = Drift(then.read_text(), now.read_text()) if then and now.exists() else None
        return self._drifts[key]

    def is_as_measured(self, path: str, text: str) -> bool:
        """Whether a source file has the text that was measured."""
        if path not in self._hashes:
            now = self._sources / path
            self._hashes[path] = _hash(now.read_bytes()) if now.exists() else ""
        return self._hashes[path] == text

    def share_gone(self, record: Mapping[str, Any]) -> float:
        """Return how many of the lines that a test file ran are others today: 0.0 none, 1.0 all."""
        ran = gone = 0
        for path, rows in record["lines"].items():
            lines = frozenset().union(*(numbers(row[0]) for row in rows["ran"]))
            ran += len(lines)
            if not self.is_as_measured(path, rows["text"]):
                drift = self.drift(path, rows["text"])
                gone += len(lines) if drift is None else len(lines & drift.gone)
        return gone / ran if ran else 0.0

    def forget_texts(self) -> None:
        """Remove the texts that no record needs any more."""
        records = (json.loads(place.read_text()) for place in (self._root / CACHE / "map").glob("*.json"))
        needed = {rows["text"] for record in records for rows in record["lines"].values()}
        for place in (self._root / CACHE / "texts").iterdir():
            if place.name not in needed:
                place.unlink()

    def imports(self, file: str) -> frozenset[str]:
        """Return the files of tests/ that one imports, and those that they import; conftest.py of its folders too."""
        found: set[str] = set()
        left = [file, *self._conftests(file)]
        while left:
            name = left.pop()
            if name not in found:
                found.add(name)
                left += self._imports_of(name)
        return frozenset(found)

    def _imports_of(self, file: str) -> frozenset[str]:
        if file not in self._imported:
            found: set[Path] = set()
            for module, names, alone in IMPORTS.findall((self._root / file).read_text()):
                place = Path(*(module or alone).split("."))
                found |= {place.with_suffix(".py"), place / "__init__.py"}
                found |= {place / f"{name}.py" for name in re.findall(r"\w+", names)}
            self._imported[file] = frozenset(path.as_posix() for path in found if (self._root / path).is_file())
        return self._imported[file]

    def _conftests(self, file: str) -> list[str]:
        folders = [folder for folder in Path(file).parents if len(folder.parts) > 1]
        return [(folder / "conftest.py").as_posix() for folder in folders
                if (self._root / folder / "conftest.py").exists()]

    def _hash_of(self, file: str) -> str:
        return _hash(*((self._root / name).read_bytes() for name in sorted(self.imports(file))))

    def _keep_text(self, place: Path) -> str:
        text = place.read_bytes()
        kept = self._root / CACHE / "texts" / _hash(text)
        if not kept.exists():
            _write(kept, text.decode())
        return kept.name

    def _find(self, folder: str, name: str) -> Path | None:
        return next((place for cache in self._caches if (place := cache / folder / name).exists()), None)


@cache
def numbers(ranges: str) -> frozenset[int]:
    """Return the numbers of "1-5,8"."""
    found: set[int] = set()
    for part in ranges.split(","):
        begin, _, end = part.partition("-")
        found.update(range(int(begin), int(end or begin) + 1))
    return frozenset(found)


def ranges(those: Iterable[int]) -> str:
    """Return numbers as "1-5,8"."""
    found: list[list[int]] = []
    for number in sorted(those):
        if found and found[-1][1] == number - 1:
            found[-1][1] = number
        else:
            found.append([number, number])
    return ",".join(str(begin) if begin == end else f"{begin}-{end}" for begin, end in found)


def _rows(lines: Mapping[str, Iterable[int]]) -> list[tuple[str, str]]:
    """Put the lines together that the same tests ran."""
    by_tests: dict[str, set[int]] = {}
    for line, tests in lines.items():
        by_tests.setdefault(ranges(tests), set()).add(int(line))
    return [(ranges(those), tests) for tests, those in by_tests.items()]


def _main_tree(root: Path) -> Iterator[Path]:
    """Return the tree that a further work tree of git was made of: its map is ours, until we measure."""
    pointer = root / ".git"
    if pointer.is_file():
        folder = Path(pointer.read_text().partition("gitdir:")[2].strip())
        if folder.parent.name == "worktrees":
            yield folder.parents[2]


def _name(file: str) -> str:
    return f"{file.removesuffix('.py').replace('/', '.')}.json"


def _write(place: Path, text: str) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    part = place.with_suffix(".part")
    part.write_text(text)
    part.replace(place)


def _hash(*parts: bytes) -> str:
    whole = hashlib.sha256()
    for part in parts:
        whole.update(b"%d:" % len(part) + part)
    return whole.hexdigest()[:24]
