"""What a platform refuses of Spark's UI and status: nothing of a write depends on it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from pyproducer.spark.session import again_count, described, warn_of_copies


class RefusingContext:
    """A SparkContext on a platform that lets Python use little of it."""

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(f"{name} is not allowed here")


def test_what_a_platform_refuses_is_not_told() -> None:
    """The rows were stored, and the write failed: who hears of that writes them again."""
    ran = []
    with described(RefusingContext(), "pyproducer: orders", overrules=False):
        ran.append(True)
    assert ran
    assert again_count(RefusingContext(), [3]) == 0
    with pytest.raises(KeyError), described(RefusingContext(), "pyproducer: orders", overrules=True):
        raise KeyError("the write's own")


def test_stages_that_ran_again_are_counted_once_each() -> None:
    infos = {3: SimpleNamespace(currentAttemptId=2), 4: SimpleNamespace(currentAttemptId=0), 5: None}
    context = SimpleNamespace(statusTracker=lambda: SimpleNamespace(getStageInfo=infos.get))
    assert again_count(context, [3, 3, 4, 5, -1]) == 2
    assert again_count(None, [3]) == 0


class SetContext:
    """A SparkContext with some settings."""

    def __init__(self, speculation: str | None, master: str = "spark://127.0.0.1:7077") -> None:
        self._settings = {"spark.master": master, **({} if speculation is None else {"spark.speculation": speculation})}
        self.refusal_count = 0

    @property
    def _conf(self) -> dict[str, str]:
        if self.refusal_count:
            self.refusal_count -= 1
            raise ConnectionError("the gateway does not answer")
        return self._settings


@pytest.mark.parametrize("value", ["true", "True", " TRUE"])  # SparkConf.set() keeps Python's own text
def test_copies_of_slow_tasks_when_spark_may_start_them_then_one_warning_tells(
        value: str, caplog: pytest.LogCaptureFixture) -> None:
    context = SetContext(value)
    context.refusal_count = 1
    for _ in range(2):  # what a context does not tell once it may tell later
        warn_of_copies(context)
    warn_of_copies(context)
    (told,) = caplog.messages
    assert "spark.speculation=true" in told


@pytest.mark.parametrize("context", [
    SetContext("false"), SetContext(None), SetContext("true", "local[4]"), RefusingContext(), None],
    ids=["off", "unset", "local", "not told", "no context"])
def test_copies_of_slow_tasks_when_spark_starts_none_or_does_not_tell_then_no_warning(
        context: Any, caplog: pytest.LogCaptureFixture) -> None:
    warn_of_copies(context)
    assert caplog.messages == []
