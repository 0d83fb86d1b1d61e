"""Bugs that shipped somewhere, or nearly did: one file each, which plants it again, in our code and by its own means.

    exhibits()                   all of them, by name
    plant(exhibit, directory)    makes `directory`/pyproducer, the package with that one bug

A file's docstring says where the bug was, what users saw, and how it is planted; its PATCH is text for text, on the
Python text of the package only: run the copy with PYPRODUCER_IMPL=python, and `directory` as the working directory or
first on the path, before anything of pyproducer is imported. What a patch changes must stand in its file exactly once;
where it does not, `plant` fails: a bug that silently vanished would count as found.

Each is a bug under trouble only. tests/unit/test_museum.py shows that all apply and that a record is stored with each.

Source:  ours.
"""

from __future__ import annotations

import importlib.util
import pkgutil
from collections.abc import Collection
from pathlib import Path
from typing import NamedTuple

_FOUND = importlib.util.find_spec("pyproducer")  # not imported: what is planted is to be
assert _FOUND is not None
assert _FOUND.origin is not None
ROOT = Path(_FOUND.origin).resolve().parents[1]
"""Where the package is: beside the tests, but where it was installed without its sources."""
TESTS = Path(__file__).resolve().parents[2]
PACKAGE = "pyproducer"
_WITH_COMPILED_TWIN = Path("hotpath")
_LEFT_OUT = (".so", ".pyd", ".pyx", ".pxd", ".c")  # a package with a bug has no compiled twin


class Edit(NamedTuple):
    """One place of a patch.

    Attributes:
        path: The file, within the package.
        old: What stands there, exactly once.
        new: What stands there in the copy.
    """

    path: str
    old: str
    new: str


class Exhibit(NamedTuple):
    """One bug.

    Attributes:
        name: Its file's.
        story: Its file's docstring.
        patch: What plants it.
    """

    name: str
    story: str
    patch: tuple[Edit, ...]

    @property
    def title(self) -> str:
        """The bug in one sentence."""
        return self.story.splitlines()[0]


def exhibits() -> list[Exhibit]:
    """Return all bugs, by name."""
    found = []
    for module_info in pkgutil.iter_modules(__path__):
        if not module_info.name.startswith("_"):
            module = importlib.import_module(f"{__name__}.{module_info.name}")
            found.append(Exhibit(module_info.name, module.__doc__ or "", module.PATCH))
    return sorted(found)


def patched(exhibit: Exhibit, root: Path = ROOT) -> dict[str, str]:
    """Return the text of each file that a bug changes, by its path within the package.

    Args:
        exhibit: The bug.
        root: Where the package's directory is.

    Raises:
        ValueError: The patch no longer applies, or what it makes does not compile.
    """
    texts: dict[str, str] = {}
    for edit in exhibit.patch:
        source = texts.get(edit.path) or (root / PACKAGE / edit.path).read_text()
        if source.count(edit.old) != 1:
            raise ValueError(f"{exhibit.name} no longer applies: what it changes in {edit.path} is there "
                             f"{source.count(edit.old)} times, not once:{edit.old}")
        texts[edit.path] = source.replace(edit.old, edit.new)
    for path, text in texts.items():
        try:
            compile(text, path, "exec")
        except SyntaxError as error:
            raise ValueError(f"{exhibit.name} does not compile: {error}") from error
    return texts


def plant(exhibit: Exhibit, directory: Path, root: Path = ROOT) -> Path:
    """Make the package with a bug in it; return its directory.

    What is not patched is a link to what it is in `root`, so that this is quick, and bytecode is shared.

    Args:
        exhibit: The bug.
        directory: Gets the package's directory, and a link to the tests, so that `python -m tests.simulation` there
            runs these tests on that package.
        root: Where the package's directory is.

    Raises:
        ValueError: The patch no longer applies, or what it makes does not compile. Nothing was written.
    """
    texts = {Path(path): text for path, text in patched(exhibit, root).items()}
    package = directory / PACKAGE
    real = {_WITH_COMPILED_TWIN, *(parent for path in texts for parent in path.parents)}
    _link(root / PACKAGE, package, Path(), real)
    for path, text in texts.items():
        (package / path).unlink()
        (package / path).write_text(text)
    (directory / "tests").symlink_to(TESTS)
    return package


def _link(source: Path, target: Path, inside: Path, real: Collection[Path]) -> None:
    """Make a directory of the package, with links to what is in it but for directories that are real, too."""
    target.mkdir()
    for entry in source.iterdir():
        if inside / entry.name in real:
            _link(entry, target / entry.name, inside / entry.name, real)
        elif entry.suffix not in _LEFT_OUT and entry.name != "__pycache__":
            (target / entry.name).symlink_to(entry)
