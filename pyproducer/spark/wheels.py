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

from pyproducer.common.errors import ConfigError

_WHY = ("Python cannot import from a wheel. Pack what is installed here, python -m pyproducer.spark pack dep.tar.gz, "
        "and give it to the workers: --archives dep.tar.gz#dep --conf spark.executorEnv.PYTHONPATH=dep")


def refuse_wheel(session: Any = None) -> None:
    """Refuse on the driver what would fail in each worker with a ModuleNotFoundError.

    Every road comes by here: a write before it begins, the others when what they send to the workers is pickled.

    Args:
        session: The DataFrame's SparkSession; None for the one of this process, if there is one.

    Raises:
        ConfigError: The workers are to get pyproducer as a wheel in --py-files. Not sent.
    """
    conf = _conf_here() if session is None else session.conf
    if conf is None:
        return
    master = conf.get("spark.master", "")
    if master == "local" or master.startswith("local["):
        return  # the workers are this Python
    wheel = next(filter(_is_our_wheel, conf.get("spark.submit.pyFiles", "").split(",")), None)
    if wheel is not None:
        raise ConfigError("spark.submit.pyFiles", wheel, _WHY)


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


def _conf_here() -> Any:
    """Return what has get(name, default) of this process's Spark; None in a worker, and where Spark is not."""
    context = getattr(getattr(sys.modules.get("pyspark"), "SparkContext", None), "_active_spark_context", None)
    if context is not None:
        return context._conf  # getConf() makes a copy, a call of the JVM for each setting
    connect = sys.modules.get("pyspark.sql.connect.session")
    session = None if connect is None else connect.SparkSession.getActiveSession()
    return None if session is None else session.conf
