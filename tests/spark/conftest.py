"""One local Spark and two brokers for the tier."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.kafka_jars import MissingTool, spark_connector_jars

ROOT = Path(__file__).resolve().parents[2]
REGISTRATION = ROOT / "pyproducer" / "spark" / "registration"

# A process has a classic session or one of Connect, and Connect's packages are in no other environment: see
# tests/environments.py, which runs that file alone.
collect_ignore = [] if os.environ.get("PYPRODUCER_TEST_ENVIRONMENT") == "spark-connect" else ["test_connect.py"]

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from pyproducer.broker import EmbeddedBroker


def _connector_jars() -> str:
    """Spark takes jars when it starts only. Without them the connector's own tests say what is missing."""
    try:
        return ",".join(map(str, spark_connector_jars()))
    except MissingTool:
        return ""


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """Spark in this process's JVM, two task slots, workers with this interpreter.

    Spark's handler of Ctrl-C goes at once: it would stay in this worker of pytest, and a producer lets no caller in the
    main thread take the sender's turns beside a handler that it does not know.
    """
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    with pytest.MonkeyPatch.context() as patch:
        # As it lies in what is installed: Spark looks for data sources at the top level of sys.path.
        patch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), str(REGISTRATION)]))
        before = signal.getsignal(signal.SIGINT)
        session = _start(SparkSession.builder)
        signal.signal(signal.SIGINT, before)
    session.sparkContext.setLogLevel("OFF")
    # The first job starts the worker daemon and the driver's connections: they belong to the session, not to a test.
    assert session.range(10).rdd.map(lambda row: row.id).sum() == 45
    yield session
    session.stop()


def _start(builder: SparkSession.Builder) -> SparkSession:
    return (builder.master("local[2]").appName("tests")
            .config("spark.ui.enabled", "false")
            .config("spark.driver.host", "127.0.0.1")
            .config("spark.driver.bindAddress", "127.0.0.1")
            .config("spark.sql.shuffle.partitions", "2")
            .config("spark.driver.memory", "512m")
            # It lives for minutes, of which its second compiler and the threads of a parallel collector take a part.
            .config("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
            .config("spark.jars", _connector_jars())
            .getOrCreate())


@pytest.fixture(scope="session")
def embedded() -> Iterator[EmbeddedBroker]:
    """Our broker, in a process of its own."""
    from pyproducer.broker import EmbeddedBroker

    with EmbeddedBroker(separate_process=True) as broker:
        yield broker
