"""The producers of other languages: Apache Kafka's own (Java) and franz-go; each a program of ours that is built here.

Java comes with the broker's jars; the Go module is fetched by `go build` and kept in its own cache. A program is built
once for each text of it, into .cache/. What is absent is one sentence (MissingTool), and that client is left out.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path

from benchmarks.workload import Workload
from tests.support.go_program import build_go
from tests.support.kafka_jars import CACHE, compile_java, java, kafka_classpath

HERE = Path(__file__).resolve().parent
JAVA_SOURCE = HERE / "java" / "JavaClient.java"
GO_FOLDER = HERE / "go"
LOG_SETTINGS = HERE.parent / "tests" / "support" / "kafka" / "log4j2.xml"


@cache
def java_command() -> list[str]:
    """Return how the Java program is started: the JVM's own defaults, as a service has them.

    Raises:
        MissingTool: Java, Maven or Kafka's jars are absent.
    """
    classpath = kafka_classpath()
    return [java(), "-Dkafka.log.level=WARN", f"-Dlog4j2.configurationFile={LOG_SETTINGS}", "-Dlog4j2.disableJmx=true",
            "-cp", os.pathsep.join([str(compile_java(JAVA_SOURCE, classpath)), classpath]), JAVA_SOURCE.stem]


@cache
def go_command() -> list[str]:
    """Return how the Go program is started.

    Raises:
        MissingTool: There is no go, or it could not fetch the module.
    """
    return [str(build_go(GO_FOLDER))]


FOREIGN: dict[str, Callable[[], list[str]]] = {"java": java_command, "franz-go": go_command}
"""Each client's command, built when it is first asked for."""


def foreign_arguments(mode: str, bootstrap_servers: str, topic: str, workload: Workload) -> list[str]:
    """Return the arguments that both programs take; the values lie in a file, so that all clients send the same."""
    options: dict[str, object] = {
        "mode": mode,
        "bootstrap-servers": bootstrap_servers,
        "topic": topic,
        "record-count": workload.record_count,
        "value-size-bytes": workload.value_size_bytes,
        "key-count": workload.key_count,
        "keyed": int(workload.keyed),
        "has-header": int(workload.has_header),
        "compression": workload.compression,
        "linger-ms": workload.linger_ms,
        "batch-size-bytes": workload.batch_size_bytes,
        "out-of-the-box": int(workload.out_of_the_box),
        "warm-up-s": workload.warm_up_s,
        "values-file": values_file(workload),
    }
    if workload.per_transaction:
        options["per-transaction"] = workload.per_transaction
    return [text for name, value in options.items() for text in (f"--{name}", str(value))]


def values_file(workload: Workload) -> Path:
    """Return a file of all the workload's values, one after the other; kept for the next run."""
    path = CACHE / "values" / f"{workload.value_size_bytes}B-{workload.key_count}.bin"
    values = b"".join(workload.values())
    if not path.is_file() or path.read_bytes() != values:  # it may be of another commit, which made others
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as fresh:
            fresh.write(values)
        Path(fresh.name).rename(path)
    return path
