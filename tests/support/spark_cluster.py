"""A standalone Spark cluster on loopback: a Master and Workers, each a JVM, that the tests start and end.

Thread:  one test thread; the JVMs are child processes.
Source:  ours; what is started is what Spark's sbin/start-master.sh and start-worker.sh start (4.0).

No import of pytest.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType

import psutil

from tests.support.kafka_jars import java
from tests.support.patience import GIVE_UP_S

STOP_TIMEOUT_S = 60
_HOSTS = "127.0.0.1", "localhost"  # two nodes to Spark, which starts a copy of a task on another one only


class SparkCluster:
    """One Master and Workers that have no Python package but what comes with an application.

    Args:
        folder: For logs and what executors unpack.
        worker_count: How many Workers.
        cores: Of each.

    Raises:
        MissingTool: There is no Java.
        TimeoutError: It did not come up; the text has what was printed.
    """

    def __init__(self, folder: Path, *, worker_count: int = 2, cores: int = 2) -> None:
        java()
        self._folder = folder
        self._worker_count = worker_count
        self._cores = cores
        self._processes: list[subprocess.Popen[bytes]] = []
        self.url = ""

    def __enter__(self) -> SparkCluster:
        with ExitStack() as undo:
            undo.callback(self.stop)
            master = self._start("master", "org.apache.spark.deploy.master.Master")
            self.url = self._await(master, r"Starting Spark master at (spark://\S+)", 1)[0]
            for number in range(self._worker_count):
                self._start_worker(str(number))
            self._await(master, "Registering worker", self._worker_count)
            undo.pop_all()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.stop()

    def stop(self) -> None:
        """End all of them, with the executors and Python processes that they have; again is no error."""
        below = [process for parent in self._processes for process in _below(parent.pid)]
        for parent in reversed(self._processes):
            parent.send_signal(signal.SIGTERM)  # a Worker ends its executors
        for parent in self._processes:
            try:
                parent.wait(STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                parent.kill()
                parent.wait()
        _gone, alive = psutil.wait_procs(below, STOP_TIMEOUT_S)
        for process in alive:
            process.kill()
        self._processes.clear()

    def executors(self) -> list[psutil.Process]:
        """Return the JVMs in which tasks of applications run."""
        found = []
        for parent in self._processes:
            for process in _below(parent.pid):
                try:
                    if any("CoarseGrainedExecutorBackend" in word for word in process.cmdline()):
                        found.append(process)
                except psutil.NoSuchProcess:
                    continue
        return found

    def kill_worker(self) -> None:
        """Kill the last Worker, which a supervisor of a node would be told of; its executors end by themselves."""
        worker = self._processes.pop()
        below = _below(worker.pid)
        worker.kill()
        worker.wait()
        psutil.wait_procs(below, STOP_TIMEOUT_S)

    def add_worker(self, name: str) -> None:
        """Start another Worker."""
        self._start_worker(name)

    def python_workers(self) -> Iterator[psutil.Process]:
        """Yield the processes in which tasks in Python run."""
        for parent in self._processes:
            for process in _below(parent.pid):
                try:
                    # The first daemon of an executor forks one process for each task slot.
                    if "pyspark.daemon" in process.cmdline() and "pyspark.daemon" in process.parent().cmdline():
                        yield process
                except (psutil.NoSuchProcess, AttributeError):
                    continue  # it ended meanwhile, or its parent did

    def _start_worker(self, name: str) -> None:
        host = _HOSTS[len(self._processes) % len(_HOSTS)]
        self._start(f"worker-{name}", "org.apache.spark.deploy.worker.Worker", "--cores", str(self._cores), "--memory",
                    "1g", "--work-dir", str(self._folder / f"work-{name}"), self.url, host=host)

    def _start(self, name: str, main_class: str, *arguments: str, host: str = _HOSTS[0]) -> Path:
        import pyspark

        home = Path(pyspark.__file__).parent
        # Nothing of this process's Python: what a node of a cluster has not got.
        variables = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
        output = self._folder / f"{name}.log"
        with output.open("wb") as file:
            self._processes.append(subprocess.Popen(
                [str(home / "bin" / "spark-class"), main_class, "--host", host, "--port", "0", "--webui-port",
                 "0", *arguments],
                cwd=self._folder, stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.STDOUT,
                env={**variables, "SPARK_HOME": str(home), "SPARK_LOCAL_IP": "127.0.0.1",
                     "SPARK_DAEMON_MEMORY": "256m"}))
        return output

    def _await(self, output: Path, pattern: str, count: int) -> list[str]:
        deadline = time.monotonic() + GIVE_UP_S
        while time.monotonic() < deadline:
            found = re.findall(pattern, output.read_text(errors="replace"))
            if len(found) >= count:
                return found
            if any(process.poll() is not None for process in self._processes):
                break
            time.sleep(0.1)
        said = "\n".join(path.read_text(errors="replace")[-2000:] for path in sorted(self._folder.glob("*.log")))
        raise TimeoutError(f"the cluster did not say {pattern!r} {count} times: {said}")


def _below(pid: int) -> list[psutil.Process]:
    try:
        return psutil.Process(pid).children(recursive=True)
    except psutil.NoSuchProcess:
        return []
