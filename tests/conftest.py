"""What holds for every test: tiers and their tools, both twins, no leaked thread or socket.

A tier is a folder of tests/. One whose tool is missing is skipped, with the reason in the summary; where CI=true it
is a failure, and so is any other skip that skips.py does not list: nothing is green because nothing ran. See README.md
beside this file.
"""

from __future__ import annotations

import gc
import importlib.util
import itertools
import os
import re
import socket
import ssl
import stat
import sysconfig
import threading
import time
from collections.abc import Callable, Generator, Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pyproducer import hotpath
from tests import skips
from tests.support.compiler import missing_for_compiling
from tests.support.kafka_jars import MissingTool, compile_java, java, kafka_classpath
from tests.support.kafka_server import NODE_SOURCE, KafkaServer, ServerCertificates

if TYPE_CHECKING:
    from tests.support.certificates import Certificates

TESTS = Path(__file__).resolve().parent
SOCKET_TYPES = frozenset({socket.socket, ssl.SSLSocket})
LEAK_GRACE_S = 120.0  # a thread that was told to end may still be on its way out; one that was not costs so much
DESCRIPTORS = "/proc/self/fd" if os.path.isdir("/proc/self/fd") else "/dev/fd"  # Linux, macOS
# Tiers whose tests open no sockets.
WITHOUT_SOCKETS = frozenset({"unit", "protocol", "property"})
# Spark's Python half opens connections and threads of its own when it likes; our producers live in its workers.
UNWATCHED = frozenset({"spark"})


def is_ci() -> bool:
    """Whether a missing tool is a failure."""
    return os.environ.get("CI", "").lower() == "true"


# Twins ---------------------------------------------------------------------------------------------------------------

def why_text() -> str | None:
    """Why the Python text runs and not the compiled twin; None when the compiled twin runs."""
    if hotpath.IMPL == "native":
        return None
    if os.environ.get("PYPRODUCER_IMPL"):
        return "PYPRODUCER_IMPL=python asked for it"
    return missing_for_compiling()


def pytest_report_header() -> str:
    why = why_text()
    return f"pyproducer.hotpath.IMPL: {hotpath.IMPL}" + (f" ({why})" if why else "")


def pytest_sessionstart() -> None:
    """Refuse to test something else than the sources: a twin that did not compile, or an older one."""
    environment = os.environ.get("PYPRODUCER_TEST_ENVIRONMENT")
    if hotpath.IMPL == "python" and why_text() is None:
        how = f"the wheel in {environment} has none: remove .cache/environments and look at what the build says" if (
            environment) else "run `make lint`, which builds it and shows why not"
        pytest.exit(f"a C compiler is here, but the compiled twin was not built: {how}, or ask for the Python text "
                    "with PYPRODUCER_IMPL=python", returncode=3)
    if environment:
        return  # an installed wheel, built where it lies
    if hotpath.IMPL == "python" and not os.environ.get("PYPRODUCER_IMPL") and is_ci():
        pytest.exit(f"CI=true, and the compiled twin cannot run: {why_text()}", returncode=3)
    sources = Path(hotpath.__file__).parent
    # Those of this Python: what another one built and nobody loads here may be as old as it likes.
    built = [path.stat().st_mtime for path in sources.glob(f"_native*{sysconfig.get_config_var('EXT_SUFFIX')}")]
    texts = [path for path in sources.glob("_native*.p*") if path.suffix != ".py"]
    # What has one text is compiled from the Python file.
    texts += [sources / f"_python_{name}.py" for name in ("ledger", "role")]
    newest = max((path.stat().st_mtime for path in texts), default=0)
    if hotpath.IMPL == "native" and built and min(built) < newest:
        pytest.exit("the compiled twin is older than its sources in pyproducer/hotpath: run `make lint`, which builds "
                    "it anew", returncode=3)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    seed = terminalreporter.config.getoption("randomly_seed", None)
    if isinstance(seed, int):  # with -q there is no header that tells it
        terminalreporter.write_line(f"The order was drawn with --randomly-seed={seed}.")
    why = why_text()
    if why:
        terminalreporter.write_line(f"The compiled twin did not run: {why}.")
    for line in skips.told(_skipped(terminalreporter), is_ci=is_ci()):
        terminalreporter.write_line(line)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail where CI=true and a test was skipped that skips.py does not list."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if reporter is None or not is_ci():  # a worker of pytest-xdist tells nobody; its reports come to who started it
        return
    if session.exitstatus == pytest.ExitCode.OK and any(skip.listed is None for skip in _skipped(reporter)):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def _skipped(terminalreporter: pytest.TerminalReporter) -> list[skips.Skip]:
    found = []
    for report in terminalreporter.stats.get("skipped", []):
        # Of what is skipped: the file, the line, and the reason.
        says = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        found.append(skips.Skip(report.nodeid, says.removeprefix("Skipped: ")))
    return found


# Which tests, in which order -----------------------------------------------------------------------------------------

# The slowest first, so that no worker is left alone at the end with a file of minutes; within a tier the order is
# drawn (pytest-randomly), and `-p no:randomly` leaves it as it is written.
SLOWEST_FIRST = ("spark", "kafka", "strangers", "contract", "embedded", "property", "protocol", "unit")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--ends-but", metavar="WHOLE,...", default=None,
                     help="of each test's examples run the first and the last alone, but for tests whose ids begin so")


@pytest.hookimpl(trylast=True)  # after the order was drawn
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what takes long, unless it is asked for by `-m soak` or by its own name."""
    by_tier = {tier: number for number, tier in enumerate(SLOWEST_FIRST)}
    items.sort(key=lambda item: by_tier.get(tier_of(item.path) or "", 0))
    ends_but: str | None = config.getoption("ends_but", None)
    if ends_but is not None:
        whole = tuple(ends_but.split(","))
        _leave_out(config, items, _between_the_ends([item for item in items if not item.nodeid.startswith(whole)]))
    is_named = any("::" in argument for argument in config.args)
    if config.option.markexpr or is_named:
        return
    _leave_out(config, items, [item for item in items if item.get_closest_marker("soak")])


def _between_the_ends(items: list[pytest.Item]) -> list[pytest.Item]:
    """Every example but the first and the last one of its test, by the order in which they are written."""
    examples: dict[str, list[tuple[tuple[int, ...], pytest.Item]]] = {}
    for item in items:
        callspec = getattr(item, "callspec", None)  # what a test without parameters has not
        if callspec is not None:
            name = f"{item.location[0]}::{getattr(item, 'originalname', item.name)}"
            examples.setdefault(name, []).append((tuple(callspec.indices.values()), item))
    return [item for rows in examples.values() for _, item in sorted(rows, key=lambda row: row[0])[1:-1]]


def _leave_out(config: pytest.Config, items: list[pytest.Item], others: list[pytest.Item]) -> None:
    if others:
        config.hook.pytest_deselected(items=others)
        left = set(others)
        items[:] = [item for item in items if item not in left]


@pytest.hookimpl(optionalhook=True)  # of pytest-xdist
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Give a worker a file at a time, and all of Spark: its start costs more than its tests."""
    from xdist.scheduler import LoadFileScheduling

    class ByFileAndSpark(LoadFileScheduling):  # type: ignore[misc]  # a class without types
        def _split_scope(self, nodeid: str) -> str:
            return "spark" if nodeid.startswith("tests/spark/") else str(super()._split_scope(nodeid))

    return ByFileAndSpark(config, log) if config.option.dist == "loadfile" else None


# Tiers ---------------------------------------------------------------------------------------------------------------

def _require_packages(*names: str) -> None:
    for name in names:
        if importlib.util.find_spec(name) is None:
            raise MissingTool(f"the package {name} is not installed: pip install -e '.[test]'")


def _require_kafka() -> None:
    _require_packages("confluent_kafka", "cryptography", "psutil")
    java()
    kafka_classpath()
    compile_java(NODE_SOURCE)


def _require_spark() -> None:
    for name in ("pyspark", "pyarrow"):
        if importlib.util.find_spec(name) is None:
            raise MissingTool(f"the package {name} is not installed: pip install -e '.[spark,test]'")
    java()


TIER_TOOLS: dict[str, Callable[[], None]] = {
    "unit": lambda: None,
    "protocol": lambda: None,
    "property": lambda: _require_packages("hypothesis"),
    "contract": lambda: None,  # its clusters are asked one by one: see contract/conftest.py
    "embedded": lambda: None,
    "strangers": lambda: _require_packages("confluent_kafka", "kafka", "aiokafka"),
    "kafka": _require_kafka,
    "spark": _require_spark,
}


def tier_of(path: Path) -> str | None:
    """The folder of tests/ that a test file lies in; None for files beside the tiers."""
    parts = path.relative_to(TESTS).parts if path.is_relative_to(TESTS) else ()
    return parts[0] if len(parts) > 1 and parts[0] in TIER_TOOLS else None


@cache
def missing_tool(tier: str) -> str | None:
    """What to install before a tier can run; None when it can."""
    try:
        TIER_TOOLS[tier]()
    except MissingTool as missing:
        return str(missing)
    return None


def refuse(reason: str, *, whole_module: bool = False) -> None:
    """Skip for a missing tool; fail where CI=true."""
    if is_ci():
        pytest.fail(f"CI=true, and a tool is missing: {reason}", pytrace=False)
    pytest.skip(reason, allow_module_level=whole_module)


class _MissingTierModule(pytest.Module):
    """A test file whose tier cannot run: it is not even imported."""

    def collect(self) -> list[pytest.Item | pytest.Collector]:
        tier = tier_of(self.path)
        refuse(f"tier {tier}: {missing_tool(tier or '')}", whole_module=True)
        return []


def pytest_pycollect_makemodule(module_path: Path, parent: pytest.Collector) -> pytest.Module | None:
    tier = tier_of(module_path)
    if tier is None or missing_tool(tier) is None:
        return None
    return _MissingTierModule.from_parent(parent, path=module_path)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None, None, None]:
    try:
        yield
    except MissingTool as missing:
        refuse(str(missing))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, None, None]:
    try:
        yield
    except MissingTool as missing:  # one test of a tier may need more than the tier does
        refuse(str(missing))


# Leaks ---------------------------------------------------------------------------------------------------------------

@pytest.fixture(autouse=True)
def no_leaks(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fail a test that leaves a thread running or a socket open.

    Fixtures of a wider scope are set up before this one, so what they hold counts as there before.
    """
    tier = tier_of(request.path)
    if tier in UNWATCHED:
        yield
        return
    threads_before = _python_threads()
    sockets_before = set() if tier in WITHOUT_SOCKETS else _open_sockets()
    yield
    leaked = _wait_until_ended(_python_threads() - threads_before)
    if leaked:
        pytest.fail(f"the test left threads running: {sorted(thread.name for thread in leaked)}", pytrace=False)
    if tier in WITHOUT_SOCKETS or not _open_sockets() - sockets_before:
        return
    gc.collect()  # a socket that nobody holds any more is closed here and warns, inside the test that lost it
    remaining = _open_sockets() - sockets_before
    ours = {thing.fileno(): thing for thing in gc.get_objects() if type(thing) in SOCKET_TYPES}
    # Of others, librdkafka's for one, which end when their threads get to it, there is no Python object.
    found = [(number, ours[number]) for number, _ in remaining if number in ours]
    time.sleep(0.1 if found else 0)  # who is just closing one, on a thread that was there before, has closed it then
    left_open = [thing for number, thing in found if thing.fileno() == number]
    if left_open:
        told = sorted(_describe(thing) for thing in left_open)
        for thing in left_open:
            thing.close()  # else some later test is blamed for it, too
        pytest.fail(f"the test left sockets open: {told}", pytrace=False)


def _python_threads() -> set[threading.Thread]:
    """The threads that Python started; librdkafka's own ones show up as dummies when they call back.

    Not those of py4j: Spark's JVM, which lives as long as this process, connects when it has something to say.
    """
    return {thread for thread in threading.enumerate() if not isinstance(thread, threading._DummyThread)
            and not str(getattr(getattr(thread, "_target", None), "__module__", "")).startswith("py4j.")}


def _wait_until_ended(threads: set[threading.Thread]) -> list[threading.Thread]:
    deadline = time.monotonic() + LEAK_GRACE_S
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))
    return [thread for thread in threads if thread.is_alive()]


def _open_sockets() -> set[tuple[int, int]]:
    """The descriptor and inode of every open socket of this process: of a number used again, the inode is another."""
    found = set()
    for name in os.listdir(DESCRIPTORS):
        try:
            status = os.fstat(int(name))
        except OSError:
            continue  # the descriptor of the listing itself, or one that another thread closed
        if stat.S_ISSOCK(status.st_mode):
            found.add((int(name), status.st_ino))
    return found


def _describe(sock: socket.socket) -> str:
    try:
        return f"{sock.getsockname()} -> {sock.getpeername()}"
    except OSError:
        return repr(sock)


# Brokers -------------------------------------------------------------------------------------------------------------

@pytest.fixture(scope="session")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    """Certificates of the session; see tests/support/certificates.py."""
    from tests.support.certificates import make_certificates  # needs a package that the unit tier does not

    return make_certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="session")
def kafka(certificates: Certificates) -> Iterator[KafkaServer]:
    """One Apache Kafka node for the whole session, with TLS listeners. A test must not stop it."""
    listeners = ServerCertificates(keystore=certificates.server.keystore, client_ca=certificates.ca,
                                   misnamed_keystore=certificates.misnamed_server.keystore)
    with KafkaServer(certificates=listeners) as server:
        yield server


@pytest.fixture
def own_kafka() -> Iterator[KafkaServer]:
    """An Apache Kafka node for one test, which may kill or pause it."""
    with KafkaServer() as server:
        yield server


_topic_numbers = itertools.count(1)


@pytest.fixture
def topic_name(request: pytest.FixtureRequest) -> str:
    """A topic name that no other test uses."""
    name = re.sub(r"[^A-Za-z0-9]+", "-", request.node.name).strip("-").lower()
    return f"{name[:100]}-{next(_topic_numbers)}"
