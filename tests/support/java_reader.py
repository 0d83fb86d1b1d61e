"""What a Java consumer sees of a topic that reads committed records.

No import of pytest.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from tests.support.kafka_jars import SHORT_RUN, compile_java, java, kafka_classpath
from tests.support.patience import PROGRAM_S

SOURCE = Path(__file__).resolve().parent / "java" / "ReadCommitted.java"


def read_committed(bootstrap_servers: str, topic: str) -> list[tuple[int, bytes]]:
    """Return (partition, value) of each committed record, in the order of each partition."""
    classpath = kafka_classpath()
    classes = compile_java(SOURCE, classpath)
    done = subprocess.run(
        [java(), *SHORT_RUN, "-cp", os.pathsep.join((str(classes), classpath)), "ReadCommitted",
         bootstrap_servers, topic], capture_output=True, timeout=PROGRAM_S, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    found = []
    for line in done.stdout.splitlines():
        partition, _, value = line.partition(b" ")
        found.append((int(partition), value))
    return found
