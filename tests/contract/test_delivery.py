"""What became of all records, as close(), flush() and the log tell, also where nobody looked at a future."""

from __future__ import annotations

import logging
import os
import pickle
import signal
from collections import Counter
from typing import Any

import pytest

from pyproducer import DeliveryFailedError, DeliverySummary, ErrorCode, KafkaProducer
from tests.contract.clusters import Can, Cluster
from tests.contract.conftest import Connect
from tests.contract.witness import Witness, await_known, numbers_of, wait_until
from tests.support.fault_proxy import FaultProxy
from tests.support.patience import GIVE_UP_S

UNRETRIEVED = "record-unretrieved-error-total"
SHORT: dict[str, Any] = {"delivery_timeout_ms": 400, "request_timeout_ms": 150}


def fail_one(producer: KafkaProducer, topic: str, proxy: FaultProxy, count: int = 1) -> Any:
    """Have the cluster refuse a batch; return the future of its first record, which nobody looked at."""
    proxy.on("Produce").error(ErrorCode.INVALID_RECORD)
    futures = [producer.send(topic, b"v", partition=0) for _ in range(count)]
    wait_until(lambda: all(future.done() for future in futures), "the records are refused")
    return futures[0]


@pytest.mark.parametrize("idempotent", [True, False])
def test_summary_when_records_were_stored_refused_and_lost_then_it_agrees_with_the_callbacks_and_the_log(
        cluster: Cluster, topic: str, connect: Connect, proxy: FaultProxy, idempotent: bool) -> None:
    producer = connect(through=proxy, batch_size=0, enable_idempotence=idempotent, retries=2)
    await_known(producer, topic)
    for _ in range(3):
        proxy.on("Produce", times=2).pass_on()
        proxy.on("Produce").error(ErrorCode.INVALID_RECORD)
    witness = Witness(producer, topic)
    for number in range(30):
        witness.send(number, partition=number % 4)
    witness.await_all()
    proxy.on("Produce", times=None).swallow_request()
    witness.send(30)
    summary = producer.close(0.2)
    witness.await_all()
    told = Counter(getattr(error, "outcome", None) for error in witness.errors.values())
    assert summary.delivered == len(witness.metadata)
    assert {outcome: count for outcome, count in summary.failed.items() if count} == told
    assert told["rejected"] >= 3, "a request may hold several batches"
    assert list(summary.topics) == [topic]
    assert (summary.topics[topic].delivered, summary.topics[topic].failed) == (summary.delivered, summary.failed)
    assert not summary
    assert producer.close() == summary
    proxy.heal()
    stored = numbers_of(cluster.log(topic))
    assert summary.delivered <= len(stored) <= summary.delivered + summary.failed["unknown"]


@pytest.mark.needs(Can.CONFIGURE_TOPICS)
def test_summary_when_a_batch_was_split_then_each_record_counts_once(
        cluster: Cluster, topic_name: str, connect: Connect) -> None:
    topic = cluster.create_topic(topic_name, {"max.message.bytes": "2000"})
    producer = connect(batch_size=100_000, linger_ms=20_000)
    witness = Witness(producer, topic)
    witness.send(range(20), padding=500)
    witness.send(20, padding=5000)
    summary = producer.close()
    assert (summary.delivered, summary.failed["rejected"]) == (20, 1)


def test_flush_when_records_failed_then_it_raises_for_all_of_them_once(
        topic: str, connect: Connect, proxy: FaultProxy) -> None:
    producer = connect(through=proxy, linger_ms=20_000)
    await_known(producer, topic)
    proxy.on("Produce").error(ErrorCode.INVALID_RECORD)
    futures = [producer.send(topic, b"v", partition=1) for _ in range(3)]
    rows = producer.send_batch(topic, [b"a", b"b"], partitions=[1, 1])
    with pytest.raises(DeliveryFailedError) as caught:
        producer.flush(GIVE_UP_S, raise_on_error=True)
    for error in (caught.value, pickle.loads(pickle.dumps(caught.value))):
        assert error.failed == {"not_sent": 0, "rejected": 5, "unknown": 0}
        assert error.topics == {topic: error.failed}
        assert [(one.topic, one.partition, one.count, one.outcome) for one in error.errors] == [
            (topic, 1, 5, "rejected")]
        assert error.outcome == "rejected"
        assert "INVALID_RECORD" in str(error)
    producer.flush(GIVE_UP_S, raise_on_error=True)
    producer.send(topic, b"v", partition=1)
    producer.flush(GIVE_UP_S, raise_on_error=True)
    summary = producer.close()
    assert (summary.delivered, summary.failed["rejected"]) == (1, 5)
    assert producer.metrics()[UNRETRIEVED] == 0, "the flush told"
    assert all(one.done() for one in (*futures, rows))


def test_flush_when_a_record_may_be_in_the_log_then_that_is_the_worst_outcome(
        topic: str, connect: Connect, proxy: FaultProxy) -> None:
    # Long enough for a busy machine to write the record: what never left is in no log.
    producer = connect(through=proxy, batch_size=0, **SHORT | {"delivery_timeout_ms": 2500})
    await_known(producer, topic)
    proxy.on("Produce").error(ErrorCode.INVALID_RECORD)
    producer.send(topic, b"v", partition=0)
    producer.flush(GIVE_UP_S)
    fail_one(producer, topic, proxy)
    proxy.on("Produce", times=None).swallow_answer()
    producer.send(topic, b"v", partition=1)
    with pytest.raises(DeliveryFailedError) as caught:
        producer.flush(GIVE_UP_S, raise_on_error=True)
    assert caught.value.outcome == "unknown"
    assert caught.value.failed == {"not_sent": 0, "rejected": 1, "unknown": 1}, "and not that of before"


def test_log_when_a_batch_fails_then_one_warning_says_which_and_why(
        topic: str, connect: Connect, proxy: FaultProxy, caplog: pytest.LogCaptureFixture) -> None:
    producer = connect(through=proxy, linger_ms=50)
    await_known(producer, topic)
    fail_one(producer, topic, proxy, 3).exception(0)
    producer.close()
    lines = [record for record in caplog.records if f"for {topic}-0 failed, outcome rejected: " in record.getMessage()]
    assert {record.levelno for record in lines} == {logging.WARNING}
    assert sum(int(record.getMessage().split(" ", 1)[0]) for record in lines
               if "nobody looked" not in record.getMessage()) == 3


def test_futures_when_nobody_looked_at_them_then_they_are_counted_and_logged(
        topic: str, connect: Connect, proxy: FaultProxy, caplog: pytest.LogCaptureFixture) -> None:
    producer = connect(through=proxy)
    await_known(producer, topic)
    kept = fail_one(producer, topic, proxy)
    fail_one(producer, topic, proxy)
    producer.flush(GIVE_UP_S)
    wait_until(lambda: producer.metrics()[UNRETRIEVED] == 1, "the one that is gone is counted")
    fail_one(producer, topic, proxy).exception(0)
    producer.close()
    assert producer.metrics()[UNRETRIEVED] == 2
    assert f"for {topic}-0 failed, outcome rejected, and nobody looked at their futures" in caplog.text
    assert kept.exception(0) is not None


def test_unretrieved_when_it_is_to_raise_then_flush_and_close_do_after_their_work(
        cluster: Cluster, topic: str, connect: Connect, proxy: FaultProxy) -> None:
    producer = connect(through=proxy, pyproducer_on_unretrieved="raise")
    await_known(producer, topic)
    fail_one(producer, topic, proxy)
    producer.send(topic, b"stored", partition=1)
    with pytest.raises(DeliveryFailedError, match="nobody looked at their futures") as caught:
        producer.flush(GIVE_UP_S)
    assert caught.value.failed == {"not_sent": 0, "rejected": 1, "unknown": 0}
    producer.flush(GIVE_UP_S)
    assert fail_one(producer, topic, proxy).exception(0) is not None
    producer.flush(GIVE_UP_S)
    fail_one(producer, topic, proxy)
    producer.send(topic, b"stored", partition=1)
    with pytest.raises(DeliveryFailedError, match="nobody looked at their futures"):
        producer.close()
    assert producer.close().delivered == 2
    assert [record.value for record in cluster.log(topic)] == [b"stored"] * 2


@pytest.mark.parametrize("raised", [None, ZeroDivisionError])
def test_with_block_when_nobody_looked_then_it_raises_unless_its_body_did(
        topic: str, connect: Connect, proxy: FaultProxy, raised: type[Exception] | None) -> None:
    producer = connect(through=proxy, pyproducer_on_unretrieved="raise")
    await_known(producer, topic)
    fail_one(producer, topic, proxy)

    def body() -> None:
        with producer:
            if raised is not None:
                raise raised

    with pytest.raises(raised or DeliveryFailedError):
        body()
    assert producer.close().failed["rejected"] == 1


def test_summary_when_the_process_was_forked_then_the_childs_is_empty(
        topic: str, connect: Connect, proxy: FaultProxy) -> None:
    """Nor does the child raise for the parent's failures, or wake the parent's thread when its futures go."""
    producer = connect(through=proxy, pyproducer_on_unretrieved="raise")
    await_known(producer, topic)
    future = fail_one(producer, topic, proxy)
    child = os.fork()
    if not child:
        end = signal.SIGTERM  # nothing of the test's process may run in the child
        try:
            del future
            if producer.close() == DeliverySummary():
                end = signal.SIGKILL
        finally:
            os.kill(os.getpid(), end)
    assert os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGKILL
    with pytest.raises(DeliveryFailedError):
        producer.flush(GIVE_UP_S)
    assert producer.close().failed["rejected"] == 1
    assert future.done()
