"""What a release is made of: notes out of CHANGES.md, and wheels that install without a compiler and go again."""

from __future__ import annotations

import platform
import subprocess
import sys
from pathlib import Path

import pytest

from tests.environments import Python, find_pythons
from tests.support.archives import unpack
from tests.support.compiler import missing_for_compiling

ROOT = Path(__file__).resolve().parents[2]
CI = ROOT / ".ci"
IS_CHECKOUT = (CI / "wheels.py").exists()
pytestmark = pytest.mark.skipif(not IS_CHECKOUT, reason="only what is installed is here: run it in the sources")


def notes(version: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, str(folder / ".ci" / "notes.py"), version], capture_output=True, text=True,
                          check=False)


def test_notes_are_the_versions_part_of_the_changes(tmp_path: Path) -> None:
    (tmp_path / ".ci").mkdir()
    (tmp_path / ".ci" / "notes.py").write_bytes((CI / "notes.py").read_bytes())
    (tmp_path / "CHANGES.md").write_text("# Changes\n\n## 0.3.0 (not released)\n\n* new\n\n## 0.2.0 (a day)\n\n* old\n"
                                         "* two\n\n## 0.1.0 (another)\n\n* first\n", encoding="ascii")
    assert notes("0.2.0", tmp_path).stdout == "* old\n* two\n"
    assert "is not released" in notes("0.3.0", tmp_path).stderr
    assert "no part about 0.4.0" in notes("0.4.0", tmp_path).stderr


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if sys.platform != "linux":
        pytest.skip("wheels are built on Linux")
    out = tmp_path_factory.mktemp("wheels") / "dist"
    processor = platform.machine()
    subprocess.run([sys.executable, str(CI / "wheels.py"), "--only", f"{processor}-manylinux", "--out", str(out)],
                   check=True)
    return out


@pytest.mark.soak
@pytest.mark.parametrize("python", find_pythons(), ids=lambda python: python.version)
@pytest.mark.parametrize("kind", ["", "--pure"])
def test_wheel_when_it_is_installed_without_a_compiler_then_it_works_and_goes_without_a_trace(
        dist: Path, python: Python, kind: str) -> None:
    subprocess.run([python.path, str(CI / "installed.py"), str(dist), *filter(None, [kind])], check=True)


@pytest.mark.soak
def test_sdist_when_it_is_unpacked_then_its_tests_run(dist: Path, tmp_path: Path) -> None:
    (sdist,) = dist.glob("*.tar.gz")
    unpack(sdist, tmp_path)
    (sources,) = tmp_path.iterdir()
    for name in ("Makefile", ".ci/run", "benchmarks/compare.py", "docs/design.md", "tests/kafka/test_wire.py",
                 "pyproducer/hotpath/_native.pyx", "pyproducer/hotpath/_native.pxd"):
        assert (sources / name).exists(), name
    if missing_for_compiling() is None:
        subprocess.run([sys.executable, "setup.py", "-q", "build_ext", "--inplace"], cwd=sources, check=True)
    subprocess.run([sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/unit/record",
                    "tests/unit/hotpath", "tests/unit/test_design.py"], cwd=sources, check=True)
