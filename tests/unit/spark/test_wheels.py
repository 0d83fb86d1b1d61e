"""A wheel of ours in --py-files: refused, or told of, with what to do instead."""

from __future__ import annotations

import pickle
import sys
from types import SimpleNamespace
from typing import Any

import pytest

from pyproducer.common.errors import ConfigError
from pyproducer.spark import KafkaSink
from pyproducer.spark.wheels import refuse_wheel, wheel_warning


class Session:
    """A double of Spark's, and of a SparkContext, whose settings are asked for one by one."""

    def __init__(self, settings: dict[str, str]) -> None:
        self.settings = settings
        self.asked: list[str] = []
        self.conf = self

    def get(self, name: str, default: str) -> str:
        self.asked.append(name)
        return self.settings.get(name, default)


class ServerlessSession(Session):
    """What Databricks' does for a setting that is none of the user's, default or not."""

    def get(self, name: str, default: str) -> str:
        raise RuntimeError(f"[CONFIG_NOT_AVAILABLE] Configuration {name} is not available.")


def session(master: str, files: str) -> Session:
    return Session({"spark.master": master, "spark.submit.pyFiles": files})


def test_what_a_platform_does_not_tell_is_no_wheel() -> None:
    """Every road but format("pyproducer") ended with CONFIG_NOT_AVAILABLE."""
    refuse_wheel(ServerlessSession({}))


def test_a_session_is_asked_once() -> None:
    """Each micro-batch asked a Connect server four times."""
    one = session("spark://a:7077", "/x/app.zip")
    for _ in range(3):
        refuse_wheel(one)
    assert one.asked == ["spark.master", "spark.submit.pyFiles"]


def test_a_wheel_in_py_files_is_refused_with_what_to_do_instead() -> None:
    """It ended in each worker with "No module named 'pyproducer'"."""
    with pytest.raises(ConfigError, match=r"Python cannot import from a wheel.*python -m pyproducer\.spark pack"):
        refuse_wheel(session("spark://a:7077", "/x/app.zip,/x/pyproducer-0.1.0-cp311-cp311-linux_x86_64.whl"))
    refuse_wheel(session("spark://a:7077", "/x/app.zip"))
    refuse_wheel(session("local[2]", "/x/pyproducer-0.1.0-py3-none-any.whl"))
    refuse_wheel(session("local", "/x/pyproducer-0.1.0-py3-none-any.whl"))
    with pytest.raises(ConfigError, match="Python cannot import from a wheel"):
        refuse_wheel(session("local-cluster[1,1,1024]", "/x/pyproducer-0.1.0-py3-none-any.whl"))


class NoSession:
    """What Connect has where nobody made a session."""

    @staticmethod
    def getActiveSession() -> None:
        return None


@pytest.mark.parametrize("road", ["foreachPartition", "foreach", "Connect"])
def test_every_road_says_the_same_of_a_wheel_when_it_sends_the_sink(road: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only write() looked: by the others each worker said "No module named 'pyproducer'"."""
    given = session("spark://a:7077", "/x/pyproducer-0.1.0-cp311-cp311-linux_x86_64.whl")
    sink = KafkaSink({"bootstrap.servers": "a:9092"}, topic="orders")
    active: Any = given
    connect = NoSession
    if road == "Connect":
        active, connect = None, SimpleNamespace(getActiveSession=lambda: given)  # type: ignore[assignment]  # a double
    monkeypatch.setitem(sys.modules, "pyspark", SimpleNamespace(  # type: ignore[arg-type]  # a double
        SparkContext=SimpleNamespace(_active_spark_context=active)))
    monkeypatch.setitem(sys.modules, "pyspark.sql.connect.session", SimpleNamespace(  # type: ignore[arg-type]
        SparkSession=connect))
    with pytest.raises(ConfigError) as caught:
        pickle.dumps(sink.foreach_writer() if road == "foreach" else sink)
    with pytest.raises(ConfigError) as of_write:
        refuse_wheel(given)
    assert str(caught.value) == str(of_write.value)
    told = wheel_warning(["app.zip", "pyproducer-0.1.0-cp311-cp311-linux_x86_64.whl"])
    assert told is not None
    assert told.endswith(str(caught.value).partition(": ")[2].rpartition("Python cannot import")[2])


def test_a_sink_travels_where_there_is_no_spark_and_from_a_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    sink = KafkaSink({"bootstrap.servers": "a:9092"}, topic="orders")
    for modules in ({}, {"pyspark": SimpleNamespace()},
                    {"pyspark": SimpleNamespace(SparkContext=SimpleNamespace(_active_spark_context=None))},
                    {"pyspark.sql.connect.session": SimpleNamespace(SparkSession=NoSession)}):
        with monkeypatch.context() as patch:
            for name in ("pyspark", "pyspark.sql.connect.session"):
                patch.delitem(sys.modules, name, raising=False)
            for name, module in modules.items():
                patch.setitem(sys.modules, name, module)  # type: ignore[arg-type]  # a double
            assert pickle.loads(pickle.dumps(sink)).topic == "orders"
    assert wheel_warning(["app.zip", "other-1.0-py3-none-any.whl"]) is None
