"""Which tests may be skipped with CI=true, where, and why: one table. Any other skip there is a failure.

A test that is skipped says nothing, and nobody reads the lines that name it. So what cannot run in an environment
stands here with the reason; a tool that should be there and is not makes the run red (tests/conftest.py).
Source:  ours.
"""

from __future__ import annotations

import os
import re
import sysconfig
from collections import Counter
from collections.abc import Callable, Iterable
from typing import NamedTuple

from pyproducer import hotpath


def on_the_text() -> bool:
    """Whether the Python text of the compiled twin runs."""
    return hotpath.IMPL == "python"


def of_the_unit_extra() -> bool:
    """Whether the environment has what `[unit]` brings and no more: another Python (tests/environments.py), or
    "unit" (.github/workflows/test.yml)."""
    environment = os.environ.get("PYPRODUCER_TEST_ENVIRONMENT", "")
    return environment == "unit" or environment.startswith("python-")


def without_other_clients() -> bool:
    """Whether the environment has none of the clients that tests compare with (tests/environments.py)."""
    return os.environ.get("PYPRODUCER_TEST_ENVIRONMENT") == "default" or of_the_unit_extra()


def without_the_gil() -> bool:
    """Whether this is a free-threaded Python."""
    return bool(sysconfig.get_config_var("Py_GIL_DISABLED"))


def with_some_clusters() -> bool:
    """Whether the contract is asked of some of its clusters only."""
    return "PYPRODUCER_TEST_CLUSTERS" in os.environ


def anywhere() -> bool:
    """In each environment."""
    return True


class MaySkip(NamedTuple):
    """Tests that may be skipped.

    Attributes:
        where: Whether this is such an environment.
        tests: What their node ids begin with.
        says: A pattern that the reason of the skip matches.
        because: Why nothing is lost.
    """

    where: Callable[[], bool]
    tests: str
    says: str
    because: str


MAY_SKIP = (
    MaySkip(anywhere, "tests/strangers/test_prometheus_engine.py", "prometheus is not installed",
            "Prometheus is for the board and the rules in docs/grafana; what they query is tested without it"),
    MaySkip(on_the_text, "tests/unit/hotpath/", r"Python text|compiled (twin|socket calls)",
            "they are about what only compiled code has: the role, its socket calls, its storages, its types"),
    MaySkip(on_the_text, "tests/embedded/test_loop_turns.py", r"never stands aside on the text",
            "the role is compiled"),
    MaySkip(on_the_text, "tests/property/test_twins.py", r"batches are the Python text's",
            "the compiled road takes compiled batches"),
    MaySkip(with_some_clusters, "tests/contract/", r"^no cluster of \[.*\] can",
            "the run that asks every cluster has it"),
    MaySkip(anywhere, "tests/unit/hotpath/test_threads.py", r"has a GIL|may be without the GIL",
            "it runs on free-threaded Pythons (.github/workflows/test.yml)"),
    MaySkip(of_the_unit_extra, "tests/unit/", r"pyarrow|botocore|pyjks|jks|pyspark|mypy|jedi|pyright|is not here",
            "other packages' own code; the project's environment has it"),
    MaySkip(without_other_clients, "tests/", r"could not import '(confluent_kafka|aiokafka|kafka\.structs|trio)'",
            "the project's environment has it"),
    MaySkip(anywhere, "tests/embedded/test_acls.py", r"no IPv6",
            "unit/broker/request/test_peer_address.py says it, too"),
    MaySkip(without_the_gil, "tests/unit/hotpath/test_spare_storage.py", r"a Python without the GIL",
            "storages are kept where threads take turns"),
)


class Skip(NamedTuple):
    """One test, or one file of tests, that was skipped."""

    nodeid: str
    says: str

    @property
    def listed(self) -> MaySkip | None:
        """The row that allows it here."""
        return next((row for row in MAY_SKIP if self.nodeid.startswith(row.tests) and re.search(row.says, self.says)
                     and row.where()), None)


def told(skips: Iterable[Skip], *, is_ci: bool) -> list[str]:
    """Return the lines that say how many tests were skipped, and why; nothing when none was."""
    skips = list(skips)
    if not skips:
        return []
    listed = Counter(skip.listed.because for skip in skips if skip.listed is not None)
    others = [skip for skip in skips if skip.listed is None]
    lines = [f"{len(skips)} skipped, {len(others)} of them for a reason that tests/skips.py does not list:"]
    lines += [f"  {count}: {because}" for because, count in listed.most_common()]
    if is_ci:  # each by its name: each is to be mended, or listed
        return lines + [f"  NOT LISTED: {skip.nodeid}: {skip.says}" for skip in others]
    return lines + [f"  {count}: {says}" for says, count in Counter(skip.says for skip in others).most_common()]
