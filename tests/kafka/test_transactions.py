"""Java's transactional producer on our broker, and Kafka's own tool on the files that are left."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from pyproducer.broker import EmbeddedBroker
from pyproducer.protocol.apis import ApiKeys
from tests.kafka.test_segment_files import dump
from tests.support.kafka_jars import SHORT_RUN, compile_java, java, kafka_classpath
from tests.support.patience import PROGRAM_S

SOURCE = Path(__file__).resolve().parents[1] / "support" / "java" / "Transactions.java"
COMMITTED = sorted(["living", *(f"{number}-{index}" for number in (0, 2, 4) for index in range(10))])


def run_java(broker: EmbeddedBroker) -> list[str]:
    classpath = kafka_classpath()
    classes = compile_java(SOURCE, classpath)
    done = subprocess.run(
        [java(), *SHORT_RUN, "-cp", os.pathsep.join((str(classes), classpath)), "Transactions",
         broker.bootstrap_servers, "orders", "readers"], capture_output=True, text=True, timeout=PROGRAM_S, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout.splitlines()


@pytest.mark.parametrize("level", [pytest.param(0, marks=pytest.mark.soak), 2])
def test_java_commits_aborts_and_is_fenced(tmp_path: Path, level: int) -> None:
    with EmbeddedBroker(data_dir=tmp_path, topics={"orders": 2}, config={
            "transaction.version": level, "transaction.state.log.num.partitions": 1}) as broker:
        broker.log_requests()
        printed = run_java(broker)
        apis = {request.api_key for request in broker.requests()}
    assert "fenced" in printed
    assert "offset 104" in printed
    assert [line.removeprefix("committed ") for line in printed if line.startswith("committed ")] == COMMITTED
    # With Transactions V2 the client leaves these two to the broker.
    assert (ApiKeys.ADD_PARTITIONS_TO_TXN in apis) == (ApiKeys.ADD_OFFSETS_TO_TXN in apis) == (level < 2)
    states = dump("--transaction-log-decoder", "--files",
                  str(tmp_path / "__transaction_state-0" / "00000000000000000000.log"))
    assert '"transactionalId":"orders"' in states
    written = [int(status) for status in re.findall(r'"transactionStatus":(\d)', states)]
    empty, ongoing, prepare_commit, complete_commit = 0, 1, 2, 4
    assert written[:2] == [empty, ongoing]
    assert [status for status in written if status != ongoing][-2:] == [prepare_commit, complete_commit]
    assert written.count(complete_commit) == 4
    aborted = dump("--files", str(tmp_path / "orders-0" / "00000000000000000000.txnindex"))
    assert len(re.findall("producerId", aborted)) == 3
    records = dump("--print-data-log", "--files", str(tmp_path / "orders-0" / "00000000000000000000.log"))
    assert records.count("endTxnMarker: COMMIT") == 4
    assert records.count("endTxnMarker: ABORT") == 3
    assert "isvalid: false" not in records
