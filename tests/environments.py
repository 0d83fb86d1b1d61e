"""Runs tests where the project's own environment cannot: in the default install alone, and on other Pythons.

    python -m tests.environments default    # our wheel and its dependencies, nothing else: contract, embedded smoke
    python -m tests.environments pythons    # unit and contract on the oldest and on the newest Python of this machine
    python -m tests.environments prepare    # only build and install what both need
    python -m tests.environments sparks     # tests/spark on Spark 3.5, on 4.0, and on Spark Connect

The tests' own environment has every extra, so it hides what a user lacks who typed `pip install pyproducer`. Here the
wheel is built, installed into an empty environment, and the tests are copied away from the sources, so that nothing
but the wheel can be imported. pytest lies in a folder of its own beside the environment, not inside it.

Everything is kept in .cache/environments and made again when the sources of the wheel change.
Source:  ours.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
HOME = ROOT / ".cache" / "environments"
# What tests read beside the package. Not pyproducer/: it would be imported instead of the wheel.
COPIED = ("tests", "benchmarks", "examples", "docs", "README.md", "Makefile", "setup.cfg", "setup.py", "pyproject.toml")
WHEEL_SOURCES = ("setup.cfg", "setup.py", "pyproject.toml", "README.md", "LICENSE", "pyproducer")
GENERATED = ("*.so", "*.c")
RUNNER = ("pytest", "pytest-timeout", "pytest-xdist", "pytest-randomly")
# Of each test two examples: what is missing or another in an environment, a package or a function of Python, shows when
# a line runs, whatever the values are. All examples where they are the packages, or name what another Python changes.
NO_CODES = "--ignore=tests/contract/test_produce_codes.py"  # what a code means is the producer's to say, wherever it is
DEFAULT_INSTALL_TESTS = ("tests/contract", "tests/embedded/test_default_install.py", NO_CODES,
                         "--ends-but=tests/contract/test_compression,tests/embedded/test_default_install")
# Not what looks at our own tools or at the sources alone: mutants and museum plant bugs in sources that are not there,
# checkers of types are told of 3.10, and what the others show is the same on any Python. Nor what takes seconds because
# it does one thing at each line, or very often: the lines are the same, and others run them, too.
PYTHONS_TESTS = ("tests/unit", "tests/contract", NO_CODES,
                 "--ends-but=" + ",".join((
                     "tests/contract/test_compression",  # packages
                     "tests/unit/hotpath",  # C's side of Python
                     "tests/unit/record",  # packages, bytes
                     "tests/unit/network/test_ssl",  # another OpenSSL
                     "tests/unit/common/test_errors",  # how exceptions are pickled and shown
                     "tests/unit/test_public_namespace")),
                 *(f"--ignore=tests/unit/{name}.py" for name in (
                     "test_contributing", "test_design", "test_museum", "test_mutants", "test_model_broker",
                     "test_near", "test_readme", "test_skips", "test_type_checkers", "accumulator/test_delivery_tally",
                     "broker/apis/test_client_quotas", "broker/apis/test_large_answers", "producer/test_handlers")))
# The Python half of Spark 4.0 leaves sockets for the garbage collector to close.
SPARK_TESTS = ("tests/spark", "tests/unit/spark", "-W", "ignore::ResourceWarning")
SPARK_3_5_TESTS = (*(f"tests/spark/test_{name}.py" for name in ("write", "sink", "connector", "exactly_once")),
                   "tests/unit/spark", "-W", "ignore::ResourceWarning", "-W", "ignore::DeprecationWarning")
CONNECT_TESTS = ("tests/spark/test_connect.py",)
OLDEST_MINOR = 10
OLDEST_FREE_THREADED_MINOR = 13
NEWEST_MINOR = 20  # looked for; python3.20 is not there yet


class Python(NamedTuple):
    """An interpreter of this machine."""

    version: str
    path: str


def main(arguments: list[str]) -> int:
    """Run what is named; return the exit code of the first that fails."""
    command = arguments[0] if arguments else ""
    if command not in ("default", "pythons", "prepare", "sparks"):
        print(__doc__, file=sys.stderr)
        return 2
    if command == "sparks":
        chosen = _sparks()
    else:
        chosen = ([_default()] if command != "pythons" else []) + (_other_pythons() if command != "default" else [])
    with ThreadPoolExecutor(2) as pool:  # each waits for its own pip and compiler
        list(pool.map(Environment.prepare, chosen))
    if command == "prepare":
        return 0
    if command == "pythons" and not chosen:
        print(f"tests.environments: no other Python from 3.{OLDEST_MINOR} on is on this machine; "
              f"the tests ran on {_version(sys.executable)} alone")
    if command == "sparks":
        codes = [environment.run(arguments[1:]) for environment in chosen]
    else:  # one process for each: a worker more would read all tests once more
        with ThreadPoolExecutor(2) as pool:
            codes = list(pool.map(lambda environment: environment.run(arguments[1:], in_one_piece=True), chosen))
    return next((code for code in codes if code), 0)  # one that a signal ended is below zero


def _default() -> Environment:
    return Environment("default", sys.executable, extras="", tests=DEFAULT_INSTALL_TESTS)


def _other_pythons() -> list[Environment]:
    """The oldest and the newest Python that are here, without the one that runs the whole suite."""
    found = sorted(find_pythons(), key=lambda python: int(python.version.split(".")[1]))
    own = _version(sys.executable)
    ends = {python.version: python for python in (found[:1] + found[-1:])}
    return [Environment(f"python-{python.version}", python.path, extras="[unit]", tests=PYTHONS_TESTS)
            for python in ends.values() if python.version != own]


def _sparks() -> list[Environment]:
    """What differs from the Spark of the project's own environment: 3.5, the oldest with data sources, and Connect.

    Spark 3.5 starts on no Python above 3.11.
    """
    of_3_5 = [Environment("spark-3.5", python.path, extras="[spark,test]", pins=("pyspark == 3.5.*", "pandas < 3"),
                          tests=SPARK_3_5_TESTS, links_cache=True)
              for python in find_pythons() if python.version in ("3.10", "3.11")][-1:]
    if not of_3_5:
        print("tests.environments: neither Python 3.10 nor 3.11 is on this machine, and Spark 3.5 has no newer one")
    return [*of_3_5,
            Environment("spark-4.0", sys.executable, extras="[spark,test]", pins=("pyspark == 4.0.*",),
                        tests=SPARK_TESTS, links_cache=True),
            # PySpark warns of pandas 3 at each call; it is its client that needs pandas, not we.
            Environment("spark-connect", sys.executable, extras="[spark,test]",
                        pins=("pyspark[connect]", "pandas < 3"), tests=CONNECT_TESTS, links_cache=True)]


def find_pythons(*, free_threaded: bool = False) -> list[Python]:
    """Every CPython from 3.10 on that starts: those on PATH and those that pyenv keeps.

    Args:
        free_threaded: Whether those without the GIL count, too, as "3.13t".
    """
    versions = [f"3.{minor}" for minor in range(OLDEST_MINOR, NEWEST_MINOR)]
    if free_threaded:
        versions += [f"3.{minor}t" for minor in range(OLDEST_FREE_THREADED_MINOR, NEWEST_MINOR)]
    candidates: dict[str, list[str]] = {}
    for version in versions:
        on_path = shutil.which(f"python{version}")
        candidates[version] = [on_path] if on_path else []
    pyenv = shutil.which("pyenv")
    if pyenv:
        told = subprocess.run([pyenv, "root"], capture_output=True, text=True, check=False).stdout.strip()
        for path in sorted(Path(told or "/nonexistent").glob("versions/*/bin/python3.*")):
            version = path.name.removeprefix("python")
            if version in candidates:
                candidates[version].append(str(path))
    found = []
    for version, paths in candidates.items():
        # A name on PATH may be a shim that starts nothing.
        path = next((path for path in paths if _version(path) == version), None)
        if path is not None:
            found.append(Python(version, path))
    return found


def _version(path: str) -> str | None:
    """The "3.x" of an interpreter that starts and can make environments; None of any other."""
    code = ("import sys, sysconfig, venv, ensurepip; print('%d.%d' % sys.version_info[:2] "
            "+ 't' * bool(sysconfig.get_config_var('Py_GIL_DISABLED')), sys.implementation.name)")
    try:
        done = subprocess.run([path, "-c", code], capture_output=True, text=True, check=False)
    except OSError:
        return None
    version, _, implementation = done.stdout.strip().partition(" ")
    return version if done.returncode == 0 and implementation == "cpython" else None


class Environment:
    """One virtual environment with our wheel in it, and a copy of the tests beside it.

    Args:
        name: Of its folder, and in PYPRODUCER_TEST_ENVIRONMENT.
        python: Of which interpreter.
        extras: Of the wheel.
        tests: Arguments for pytest.
        pins: What pip is given beside the wheel.
        links_cache: Whether the tests use the jars that the project's own tests fetched.
    """

    def __init__(self, name: str, python: str, *, extras: str, tests: tuple[str, ...], pins: tuple[str, ...] = (),
                 links_cache: bool = False) -> None:
        self.name = name
        self._python = python
        self._extras = extras
        self._tests = tests
        self._pins = pins
        self._links_cache = links_cache
        self._home = HOME / name
        self._work = self._home / "work"
        self._bin = self._home / "venv" / "bin"
        self._runner = self._home / "runner"

    def prepare(self) -> None:
        """Build the wheel and install it, where the sources changed since the last time."""
        stamp = self._home / "stamp"
        version = _version(self._python)
        made_by = (version, self._extras, self._pins, RUNNER, self._missing_for_compiling())
        wanted = f"{made_by} {_digest(ROOT / name for name in WHEEL_SOURCES)}"
        # An interpreter that was removed since leaves an environment that does not start.
        if not (stamp.exists() and stamp.read_text(encoding="ascii") == wanted
                and _version(str(self._bin / "python")) == version):
            print(f"tests.environments: making {self.name}", flush=True)
            shutil.rmtree(self._home, ignore_errors=True)
            self._home.mkdir(parents=True)
            self._install()
            stamp.write_text(wanted, encoding="ascii")
        _remove_what_is_gone(self._work)
        _copy(COPIED, self._work)
        if self._links_cache and not (self._work / ".cache").is_symlink():
            (self._work / ".cache").symlink_to(ROOT / ".cache")

    def run(self, more: list[str], *, in_one_piece: bool = False) -> int:
        """Run the tests and return pytest's exit code.

        Args:
            more: Arguments for pytest.
            in_one_piece: Whether what it says is told at the end, as another may run beside.
        """
        variables = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "PYPRODUCER"))}
        variables |= {"PYPRODUCER_TEST_ENVIRONMENT": self.name, "PYPRODUCER_TEST_CLUSTERS": "embedded"}
        if self._runner.exists():
            variables["PYTHONPATH"] = str(self._runner)
        command = [str(self._bin / "python"), "-m", "pytest", "-q", "-p", "no:cacheprovider", *self._tests, *more]
        what = f"tests.environments: {' '.join(self._tests)} in {self.name}"
        if not in_one_piece:
            print(what, flush=True)
            return subprocess.run(command, cwd=self._work, env=variables, check=False).returncode
        ended = subprocess.run(command, cwd=self._work, env=variables, stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT, text=True, check=False)
        print(f"{what}\n{ended.stdout}", flush=True)
        return ended.returncode

    def _missing_for_compiling(self) -> str:
        """Why the compiled twin cannot be built for this Python; empty when it can."""
        return subprocess.run([self._python, str(ROOT / "tests" / "support" / "compiler.py")], check=True,
                              stdout=subprocess.PIPE, text=True).stdout.strip()

    def _install(self) -> None:
        _run(self._python, "-m", "venv", str(self._home / "venv"))
        # From a copy: builds that run beside each other in one folder would write the same files.
        sources, wheels = self._home / "sources", self._home / "wheels"
        _copy(WHEEL_SOURCES, sources)
        pip = (str(self._bin / "python"), "-m", "pip")
        quiet = ("--quiet", "--disable-pip-version-check", "--no-compile")
        # As in the Makefile: where it can be compiled, a twin that does not compile is an error and no fall-back.
        # What is asked here is whether it works and not how fast: an optimizing compiler takes twice the time.
        asked = {"CFLAGS": "-O0 -g0", **({} if self._missing_for_compiling() else {"PYPRODUCER_IMPL": "native"})}
        _run(*pip, "wheel", "--quiet", "--disable-pip-version-check", "--no-deps", "-w", str(wheels), str(sources),
             more=asked)
        (wheel,) = wheels.glob("pyproducer-*.whl")
        _run(*pip, "install", *quiet, f"{wheel}{self._extras}", *self._pins)
        if not self._extras:
            _run(*pip, "install", *quiet, "--target", str(self._runner), *RUNNER)


def _copy(names: tuple[str, ...], target: Path) -> None:
    target.mkdir(exist_ok=True)
    for name in names:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, target / name, dirs_exist_ok=True,
                            ignore=shutil.ignore_patterns("__pycache__", "results", *GENERATED))
        elif source.exists():
            shutil.copy(source, target / name)


def _remove_what_is_gone(copy: Path) -> None:
    """Remove the files of a copy that the sources no longer have.

    The others stay, with their times, and so does the byte code beside them: to compile all tests takes a quarter of
    a minute for each Python.
    """
    for path in copy.rglob("*"):
        if path.is_file() and path.suffix != ".pyc" and not (ROOT / path.relative_to(copy)).exists():
            path.unlink()


def _digest(paths: Iterable[Path]) -> str:
    digest = hashlib.sha256()
    for path in paths:
        files = sorted(path.rglob("*")) if path.is_dir() else [path]
        for file in files:
            if file.is_file() and file.suffix in {".py", ".pyx", ".pxd", ".cfg", ".toml", ".md", ".typed"}:
                digest.update(str(file.relative_to(ROOT)).encode())
                digest.update(file.read_bytes())
    return digest.hexdigest()


def _run(*command: str, more: dict[str, str] | None = None) -> None:
    variables = {name: value for name, value in os.environ.items() if name != "PYPRODUCER_IMPL"}
    subprocess.run(command, check=True, env={**variables, **(more or {})})


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit("tests.environments: interrupted")
    except subprocess.CalledProcessError as failed:
        sys.exit(f"tests.environments: {' '.join(map(str, failed.cmd))}: exit code {failed.returncode}")
