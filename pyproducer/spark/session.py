"""What this process has of Spark, and how a job is told in Spark's UI.

Road:    sink, wheels, driver account -> [session] -> SparkContext
Thread:  the driver's; properties of a job are those of the thread that starts it.
Source:  pyspark's SparkContext and traceback_utils (3.5 to 4.3). Nothing here loads pyspark.
"""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any
from weakref import WeakSet

_OURS = str(Path(__file__).resolve().parents[1])
_DESCRIPTION = "spark.job.description"
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")

log: logging.Logger = logging.getLogger(__name__)


def active_context() -> Any:
    """Return the SparkContext of this process; None in a worker, with Spark Connect, and where Spark is not."""
    return getattr(getattr(sys.modules.get("pyspark"), "SparkContext", None), "_active_spark_context", None)


def setting(owner: Any, name: str) -> str | None:
    """Return a setting of a SparkContext or session, "" where it is not set; None where Spark does not tell it."""
    def ask() -> str:
        conf = getattr(owner, "conf", None) or owner._conf  # getConf() makes a copy: a call for each setting
        return str(conf.get(name, ""))

    told: str | None = _asked(ask)
    return told


def is_local(master: str) -> bool:
    """Whether the tasks of a spark.master run in the driver's JVM; those of local-cluster do not."""
    return master == "local" or master.startswith("local[")


@contextmanager
def described(context: Any, description: str, *, overrules: bool) -> Iterator[None]:
    """Name the jobs that are started meanwhile, in Spark's UI: what they do, and the user's line that wanted it.

    Where a platform refuses that, jobs have no name.

    Args:
        context: The SparkContext; None does nothing.
        description: What they do.
        overrules: Whether a description that is there is not the user's but Spark's.
    """
    if context is None:
        yield
        return
    before = _asked(lambda: context.getLocalProperty(_DESCRIPTION))
    if before is None or overrules:
        _asked(lambda: context.setJobDescription(description))
    site = _entered_call_site(context)
    try:
        yield
    finally:
        if site is not None:
            _asked(lambda: site.__exit__(None, None, None))
        _asked(lambda: context.setJobDescription(before))


_ASKED: WeakSet[Any] = WeakSet()
"""The SparkContexts that told whether they start copies of tasks."""


def warn_of_copies(context: Any, *, is_exactly_once: bool = False) -> None:
    """Say, once, that Spark is set to run slow tasks twice at a time: what both copies send is stored, or they fail.

    In local mode it starts none, whatever is set; where a platform does not tell it, it is asked again.
    """
    if context is None or context in _ASKED:
        return
    told = setting(context, "spark.speculation")
    if told is None:
        return
    _ASKED.add(context)
    if told.strip().lower() == "true" and not is_local(setting(context, "spark.master") or ""):
        what = "the rows of both are stored, and one of them tells no numbers"
        if is_exactly_once:
            what = "with exactly.once.id each of them aborts the other's rows, and micro-batches fail"
        log.warning("spark.speculation=true: Spark starts a copy of a slow task beside it, %s: leave it off where a "
                    "job writes to Kafka", what)


def again_count(context: Any, stages: Iterable[int]) -> int:
    """Return how many times Spark ran stages again: what their tasks had stored before is stored again.

    0 where a platform does not tell it: the rows are stored by now, and who hears of an error writes them again.
    """
    if context is None:
        return 0
    found = [_asked(lambda stage=stage: context.statusTracker().getStageInfo(stage))  # type: ignore[misc]
             for stage in {*stages} if stage >= 0]
    return sum(info.currentAttemptId for info in found if info is not None)


def query_run(context: Any) -> str | None:
    """Return which run of a streaming query calls, on the driver: each start has another id; None where it is not told.

    Spark gives it to the jobs of a run as their group; a group that the user has given them is no UUID.
    """
    told = None if context is None else _asked(lambda: context.getLocalProperty("spark.jobGroup.id"))
    return told if isinstance(told, str) and _UUID.fullmatch(told) else None


def _asked(ask: Callable[[], Any]) -> Any:
    """Return what Spark answers; None where a platform refuses it, each in its own way."""
    try:
        return ask()
    except Exception as error:
        log.debug("Spark does not tell it, or does not take it: %r", error)
        return None


def _entered_call_site(context: Any) -> Any:
    """Give jobs the line of the user's program, and return what ends that; None where they have that of our call."""
    user: FrameType | None = sys._getframe(1)
    while user is not None and (user.f_code.co_filename.startswith(_OURS) or _is_contextlib(user)):
        user = user.f_back
    if user is None or {"pyspark", "py4j"} & {*Path(user.f_code.co_filename).parts}:  # foreachBatch: it is Spark's
        return None
    try:
        from pyspark.traceback_utils import SCCallSiteSync

        site = SCCallSiteSync(context)  # type: ignore[no-untyped-call]  # it has no types
        site._call_site = f"write at {user.f_code.co_filename}:{user.f_lineno}"
        site.__enter__()  # type: ignore[no-untyped-call]  # as above
    except Exception as error:  # it is not public, and another Spark may have it otherwise or refuse it
        log.debug("jobs do not show the line of the user's program: %r", error)
        return None
    return site  # the inner ones, of pyspark's own methods, leave an outer one as it is


def _is_contextlib(frame: FrameType) -> bool:
    return Path(frame.f_code.co_filename).name == "contextlib.py"
