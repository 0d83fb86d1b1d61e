"""Does each planted package work as long as nothing goes wrong?

    python -m tests.simulation.museum._smoke DIRECTORY...    one line for each: its name, and "ok" or what it did

A directory is what `plant` wrote. Each is run in a fork, so that what all of them import is imported once; nothing of
pyproducer is imported before.

Source:  ours.
"""

from __future__ import annotations

import contextlib
import os
import sys
import traceback
from importlib.machinery import (
    EXTENSION_SUFFIXES,
    SOURCE_SUFFIXES,
    ExtensionFileLoader,
    FileFinder,
    SourceFileLoader,
)
from pathlib import Path
from types import CodeType
from typing import Any, ClassVar

from tests.simulation.museum import PACKAGE, ROOT, TESTS

NOT_NEEDED = ("broker", "cli", "spark", "testing")
PRELOADED = ("asyncio", "fastcrc.crc32", "pytest", "ssl", "concurrent.futures", "importlib.metadata", "selectors")


def run(directory: Path) -> None:
    """Send some records with the package of a directory to a scripted cluster, in one thread and by a clock of its own.

    Raises:
        AssertionError: It is not the directory's package, or a record, callback or byte of memory is not where it
            belongs.
    """
    sys.path.insert(0, str(directory))
    import pyproducer
    from tests.unit.producer.test_surroundings import World

    assert Path(pyproducer.__file__).is_relative_to(directory), pyproducer.__file__
    assert pyproducer.IMPL == "python"
    world = World(**{"linger.ms": 0})
    told: list[tuple[int, Any]] = []
    futures = []
    for number in range(6):
        futures.append(world.runtime.record_sender.road.send(
            "t", b"%d" % number, partition=number % 2,
            on_completion=lambda metadata, error, number=number: told.append((number, error or metadata.offset))))
        assert futures[-1].result(30).offset == number // 2
    assert told == [(number, number // 2) for number in range(6)]
    assert world.stored == {part: [b"%d" % number for number in range(part, 6, 2)] for part in (0, 1)}
    metrics = world.runtime.registry.of_producer(world.runtime.clock.now_ms())
    assert metrics["buffer-available-bytes"] == metrics["buffer-total-bytes"]
    assert len(world.selectors) == 1, "a turn ended half way"
    world.close()


class CachingLoader(SourceFileLoader):
    """Compiles what it has compiled before once, wherever it lies."""

    codes: ClassVar[dict[bytes, CodeType]] = {}

    def source_to_code(self, data: Any, path: Any, **how: Any) -> Any:  # type: ignore[override]  # static there
        return self.codes.get(data) or super().source_to_code(data, path, **how)


def preload() -> None:
    """Import and compile here what every fork needs."""
    for name in PRELOADED:
        with contextlib.suppress(ImportError):
            __import__(name)
    needed = [path for path in (ROOT / PACKAGE).rglob("*.py")
              if path.relative_to(ROOT / PACKAGE).parts[0] not in NOT_NEEDED]
    for path in (*needed, *(TESTS / "unit").glob("*/*.py")):
        CachingLoader.codes[path.read_bytes()] = compile(path.read_bytes(), path, "exec", dont_inherit=True)
    sys.path_hooks.insert(0, FileFinder.path_hook((ExtensionFileLoader, EXTENSION_SUFFIXES),
                                                  (CachingLoader, SOURCE_SUFFIXES)))
    sys.path_importer_cache.clear()


def main() -> int:
    """Run each directory that is named; return how many failed."""
    preload()
    failed = 0
    for argument in sys.argv[1:]:
        directory = Path(argument).resolve()
        sys.stdout.flush()
        pid = os.fork()
        if not pid:
            code = 1
            try:
                run(directory)
                code = 0
            except BaseException:
                traceback.print_exc()
            finally:
                sys.stderr.flush()
                os._exit(code)
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        failed += code != 0
        print(f"{directory.name} {'ok' if code == 0 else f'failed with exit status {code}'}")
    return failed


if __name__ == "__main__":
    sys.exit(main())
