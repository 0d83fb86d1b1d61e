"""A wheel of ours in --py-files, which brings pyproducer to no worker: what says so, and what to do instead.

Road:    KafkaSink, datasource -> [wheels] -> refused on the driver, or warned of in the planner
Thread:  the driver's, the planner's.
Source:  Spark's Python package management (4.0). `--py-files` puts a file on sys.path as it is: no wheel is one for
         that, and out of a zip no compiled module can be loaded.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any
from weakref import WeakSet

from pyproducer.common.errors import ConfigError
from pyproducer.spark.session import active_context, is_local, setting

_WHY = ("Python cannot import from a wheel. Pack what is installed here, python -m pyproducer.spark pack dep.tar.gz, "
        "and give it to the workers: --archives dep.tar.gz#dep --conf spark.executorEnv.PYTHONPATH=dep")


_CLEAR: WeakSet[Any] = WeakSet()
"""Sessions and contexts in which there is no such wheel: Connect asks a server for each setting, each time."""


def refuse_wheel(session: Any = None) -> None:
    """Refuse on the driver what would fail in each worker with a ModuleNotFoundError.

    Every road comes by here: a write before it begins, the others when what they send to the workers is pickled.

    Args:
        session: The DataFrame's SparkSession; None for the one of this process, if there is one. It is asked once. What
            it does not tell, as on serverless platforms, counts as no wheel.

    Raises:
        ConfigError: The workers are to get pyproducer as a wheel in --py-files. Not sent.
    """
    owner = _owner_here() if session is None else session
    if owner is None or owner in _CLEAR:
        return
    master = setting(owner, "spark.master")
    # In local mode the workers are this Python.
    files = "" if master is None or is_local(master) else setting(owner, "spark.submit.pyFiles") or ""
    wheel = next(filter(_is_our_wheel, files.split(",")), None)
    if wheel is not None:
        raise ConfigError("spark.submit.pyFiles", wheel, _WHY)
    _CLEAR.add(owner)


def wheel_warning(files: Iterable[str]) -> str | None:
    """Return the same sentence where all that is known is which files Spark sends; None without such a wheel.

    A process that plans or commits a write knows neither the master nor the settings: in local mode the file is only
    useless there.
    """
    wheel = next(filter(_is_our_wheel, files), None)
    return None if wheel is None else f"{wheel} in --py-files does not bring pyproducer to the workers: {_WHY}"


def _is_our_wheel(path: str) -> bool:
    name = path.strip().rpartition("/")[2]
    return name.startswith("pyproducer-") and name.endswith(".whl")


def _owner_here() -> Any:
    """Return the SparkContext or Connect session of this process; None in a worker, and where Spark is not."""
    context = active_context()
    if context is not None:
        return context
    connect = sys.modules.get("pyspark.sql.connect.session")
    return None if connect is None else connect.SparkSession.getActiveSession()
