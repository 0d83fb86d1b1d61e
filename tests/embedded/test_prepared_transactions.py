"""Transactions that one process prepares and another ends; and `txn`, which looks at those that are open."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from pyproducer import (
    FatalProducerError,
    IllegalStateError,
    KafkaProducer,
    KafkaTimeoutError,
    PreparedTransaction,
    TopicPartition,
    TransactionCompleter,
    TransactionOutcome,
)
from pyproducer.broker import EmbeddedBroker
from pyproducer.cli.main import main
from pyproducer.protocol.apis import ApiKeys
from tests.support.late_requests import PROPS
from tests.support.log_checker import read_topic
from tests.support.patience import GIVE_UP_S, PROGRAM_S

pytest.importorskip("confluent_kafka")

StartBroker = Callable[..., EmbeddedBroker]
COMMITTED, ABORTED, UNDECIDABLE = TransactionOutcome
LEVELS = pytest.mark.parametrize("level", [0, 1, 2])


def connect(broker: EmbeddedBroker, transactional_id: str = "shop", **props: Any) -> KafkaProducer:
    producer = KafkaProducer({**PROPS, "bootstrap.servers": broker.bootstrap_servers,
                              "transactional.id": transactional_id,
                              **{name.replace("_", "."): value for name, value in props.items()}})
    producer.init_transactions()
    return producer


def prepare(producer: KafkaProducer, value: bytes = b"1") -> PreparedTransaction:
    producer.begin_transaction()
    producer.send("orders", value)
    return producer.prepare_transaction()


def completer_of(broker: EmbeddedBroker, **props: Any) -> TransactionCompleter:
    return TransactionCompleter({"bootstrap.servers": broker.bootstrap_servers,
                                 **{name.replace("_", "."): value for name, value in props.items()}})


def committed(broker: EmbeddedBroker) -> list[bytes]:
    return [record.value or b"" for record in read_topic(
        broker.bootstrap_servers, "orders", consumer_settings={"isolation.level": "read_committed"})]


PREPARE = """
import sys
from pyproducer import KafkaProducer
producer = KafkaProducer({"bootstrap.servers": sys.argv[1], "transactional.id": "shop"})
producer.init_transactions()
producer.begin_transaction()
producer.send("orders", b"of a process that is dead")
print(producer.prepare_transaction().to_json(), flush=True)
sys.stdin.read()
"""


@LEVELS
@pytest.mark.parametrize("commit", [True, False])
def test_prepared_transaction_when_its_process_was_killed_then_another_one_ends_it(
        start_broker: StartBroker, level: int, commit: bool) -> None:
    broker = start_broker(topics={"orders": 1}, config={"transaction.version": level})
    process = subprocess.Popen([sys.executable, "-c", PREPARE, broker.bootstrap_servers], stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    prepared = PreparedTransaction.from_json(process.stdout.readline())
    process.kill()
    process.communicate(timeout=PROGRAM_S)
    assert committed(broker) == []
    with completer_of(broker) as completer:
        for _ in range(2):  # twice is harmless
            outcome = completer.commit(prepared) if commit else completer.abort(prepared)
            assert outcome is (COMMITTED if commit else ABORTED)
        # And who asks for the other end is told what it was.
        other = completer.abort(prepared) if commit else completer.commit(prepared)
        assert other is (COMMITTED if commit else ABORTED)
        assert committed(broker) == ([b"of a process that is dead"] if commit else [])
        connect(broker).close()
        assert completer.commit(prepared) is completer.abort(prepared) is UNDECIDABLE


@pytest.mark.parametrize("code", ["INVALID_PRODUCER_EPOCH", "INVALID_PRODUCER_ID_MAPPING", "PRODUCER_FENCED"])
def test_completer_when_the_coordinator_does_not_know_the_id_or_its_epoch_then_nobody_can_decide(
        start_broker: StartBroker, code: str) -> None:
    broker = start_broker(topics={"orders": 1})
    with connect(broker) as producer, completer_of(broker) as completer:
        prepared = prepare(producer)
        broker.faults.on("EndTxn", times=1).error(code)
        assert completer.commit(prepared) is UNDECIDABLE
        producer.commit_transaction()
    assert committed(broker) == [b"1"]


@LEVELS
def test_prepared_transaction_when_it_is_ended_elsewhere_then_its_producer_goes_on_after_ending_it_too(
        start_broker: StartBroker, level: int) -> None:
    broker = start_broker(topics={"orders": 1}, config={"transaction.version": level})
    with connect(broker) as producer, completer_of(broker) as completer:
        prepared = prepare(producer)
        assert completer.commit(prepared) is COMMITTED
        for call in (producer.begin_transaction, lambda: producer.send("orders", b"no")):
            with pytest.raises(IllegalStateError, match="prepared transaction"):
                call()
        producer.commit_transaction()
        producer.begin_transaction()
        producer.send("orders", b"2").result(60)
        # A completer that comes late must not end the next transaction.
        assert completer.commit(prepared) is UNDECIDABLE
        assert completer.abort(prepared) is UNDECIDABLE
        producer.abort_transaction()
    assert committed(broker) == [b"1"]


@LEVELS
def test_prepared_transaction_when_it_is_ended_elsewhere_then_its_producer_initialises_the_same_id_again(
        start_broker: StartBroker, level: int) -> None:
    broker = start_broker(topics={"orders": 1}, config={"transaction.version": level})
    with connect(broker) as producer, completer_of(broker) as completer:
        for number in range(3):
            prepared = prepare(producer, b"%d" % number)
            with pytest.raises(IllegalStateError, match="which is still open: end it first"):
                producer.init_transactions()
            assert completer.commit(prepared) is COMMITTED
            producer.init_transactions()
        assert completer.commit(prepared) is UNDECIDABLE
        prepare(producer, b"3")
        with pytest.raises(IllegalStateError):
            producer.init_transactions()
        producer.commit_transaction()
    assert committed(broker) == [b"0", b"1", b"2", b"3"]


def test_prepared_transaction_when_its_producer_binds_other_ids_then_the_first_is_bound_again_once_it_has_ended(
        start_broker: StartBroker) -> None:
    broker = start_broker(topics={"orders": 1})
    with connect(broker, "task-0") as producer, completer_of(broker) as completer:
        first = prepare(producer, b"0")
        producer.init_transactions("task-1")
        second = prepare(producer, b"1")
        producer.init_transactions("task-2")
        with pytest.raises(IllegalStateError, match="still open: end it first by a TransactionCompleter"):
            producer.init_transactions("task-0")
        assert completer.commit_all([first, second]) == [COMMITTED, COMMITTED]
        for number in (0, 1):
            producer.init_transactions(f"task-{number}")
            with producer.transaction():
                producer.send("orders", b"%d again" % number)
    assert sorted(committed(broker)) == [b"0", b"0 again", b"1", b"1 again"]


def test_prepared_transaction_when_its_coordinator_has_forgotten_the_id_then_it_is_bound_anew(
        start_broker: StartBroker) -> None:
    """What a coordinator has forgotten is not open: nothing is in the way of the id's next transaction."""
    broker = start_broker(topics={"orders": 1}, config={
        "transactional.id.expiration.ms": 100, "transaction.remove.expired.transaction.cleanup.interval.ms": 50})
    with connect(broker, "task-0") as producer, completer_of(broker) as completer:
        first = prepare(producer)
        producer.init_transactions("task-1")
        assert completer.commit(first) is COMMITTED
        give_up_s = time.monotonic() + GIVE_UP_S
        while "TRANSACTIONAL_ID_NOT_FOUND" not in txn(broker, "describe", "task-0", "--json")[1]:
            assert time.monotonic() < give_up_s, "the coordinator does not forget"
        producer.init_transactions("task-0")
        with producer.transaction():
            producer.send("orders", b"2")
    assert committed(broker) == [b"1", b"2"]


@LEVELS
def test_close_when_a_transaction_is_prepared_then_it_stays_open(start_broker: StartBroker, level: int) -> None:
    broker = start_broker(topics={"orders": 1}, config={"transaction.version": level})
    with connect(broker) as producer:
        prepared = prepare(producer)
    with completer_of(broker) as completer:
        assert completer.commit(prepared) is COMMITTED
    assert committed(broker) == [b"1"]


def test_empty_prepared_transaction_when_it_is_ended_then_no_broker_is_asked(start_broker: StartBroker) -> None:
    broker = start_broker(topics={"orders": 1})
    with connect(broker) as producer:
        producer.begin_transaction()
        prepared = producer.prepare_transaction()
        assert prepared.is_empty
        producer.init_transactions("other")
    with TransactionCompleter({"bootstrap.servers": "127.0.0.1:1"}) as completer:
        assert completer.commit_all([prepared, prepared]) == [COMMITTED, COMMITTED]
        assert completer.abort(prepared) is ABORTED


def test_many_prepared_transactions_when_they_are_ended_then_each_is_though_coordinators_move_and_answers_are_lost(
        start_broker: StartBroker) -> None:
    broker = start_broker(brokers=3, topics={"orders": 1})
    with connect(broker, "task-0") as producer:
        prepared = [prepare(producer, b"0")]
        for number in range(1, 20):
            producer.init_transactions(f"task-{number}")
            prepared.append(prepare(producer, b"%d" % number))
    for number in range(0, 20, 3):
        broker.move_coordinator(f"task-{number}", number % 3 + 1, key_type="transaction")
    broker.faults.on("EndTxn").close("before_apply")
    broker.faults.on("EndTxn").close("after_apply")
    broker.faults.on("FindCoordinator").error(15)
    with completer_of(broker) as completer:
        assert completer.commit_all(prepared[:15]) == [COMMITTED] * 15
        assert completer.abort_all(prepared[15:]) == [ABORTED] * 5
    assert sorted(committed(broker), key=int) == [b"%d" % number for number in range(15)]


def test_completer_when_nobody_answers_then_it_says_so() -> None:
    prepared = PreparedTransaction("shop", 1, 0, (TopicPartition("t", 0),))
    with (TransactionCompleter({"bootstrap.servers": "127.0.0.1:1", "max.block.ms": 200}) as completer,
          pytest.raises(KafkaTimeoutError, match=r"not answered within 0\.2 s; .*127\.0\.0\.1:1")):
        completer.commit(prepared)


def txn(broker: EmbeddedBroker, *arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(main, ["txn", *arguments, "--bootstrap-server", broker.bootstrap_servers])
    return result.exit_code, result.output


def test_txn_when_transactions_are_open_then_it_lists_describes_and_aborts_them(start_broker: StartBroker) -> None:
    broker = start_broker(brokers=3, topics={"orders": 1})
    with connect(broker, "shop-1") as producer:
        producer.begin_transaction()
        producer.send("orders", b"1").result(60)
        connect(broker, "other").close()
        code, text = txn(broker, "list")
        assert (code, len(text.splitlines())) == (0, 2)
        code, text = txn(broker, "list", "--state", "Ongoing", "--json")
        (row,) = json.loads(text)
        assert (code, row["transactional_id"], row["state"]) == (0, "shop-1", "Ongoing")
        assert [row["transactional_id"] for row in json.loads(txn(broker, "list", "--json", "--pattern", "shop-.*")[1])
                ] == ["shop-1"]
        code, text = txn(broker, "describe", "shop-1")
        assert code == 0
        assert "shop-1: Ongoing, producer id" in text
        assert text.rstrip().endswith(": orders-0")
        code, text = txn(broker, "describe", "shop-1", "nobody", "--json")
        assert (code, [each["error"] for each in json.loads(text)]) == (1, [None, "TRANSACTIONAL_ID_NOT_FOUND"])
        assert txn(broker, "abort", "shop-1") == (0, "shop-1: its transaction is aborted\n")
        code, text = txn(broker, "abort", "shop-1")
        assert (code, text) == (0, "shop-1: no transaction is open (CompleteAbort)\n")
        assert ", begun at " in txn(broker, "describe", "shop-1")[1]
        with pytest.raises(FatalProducerError):
            producer.commit_transaction()
        assert txn(broker, "abort", "nobody")[0] == 1
        code, text = txn(broker, "abort", "shop-1", "--fence")
        assert code == 0
        assert "the producer is fenced, no transaction was open (CompleteAbort); the epoch is" in text
    assert committed(broker) == []


@pytest.mark.parametrize("last_version", [1, 2])
def test_txn_list_when_it_is_given_a_pattern_then_it_is_of_the_whole_id_whoever_looks(
        start_broker: StartBroker, last_version: int) -> None:
    """A broker before 4.1 takes no pattern: the client looks, and must find what the broker would."""
    broker = start_broker(topics={"orders": 1})
    broker.set_api_versions({ApiKeys.LIST_TRANSACTIONS: (0, last_version)})
    for transactional_id in ("shop", "shop-2", "a-shop"):
        connect(broker, transactional_id).close()
    for pattern, found in (("shop", ["shop"]), ("shop.*", ["shop", "shop-2"]), ("sho", [])):
        rows = json.loads(txn(broker, "list", "--json", "--pattern", pattern)[1])
        assert sorted(row["transactional_id"] for row in rows) == found


def test_txn_when_it_is_called_wrongly_then_it_says_how(tmp_path: Path) -> None:
    runner = CliRunner()
    for arguments, words in ((["list"], "give --bootstrap-server"), (["describe"], "Missing argument"),
                             (["list", "--config", str(tmp_path / "none")], "cannot be read"),
                             (["list", "--property", "x"], "KEY=VALUE"),
                             (["list", "--bootstrap-server", "h:1", "--property", "acks=7"], "acks")):
        result = runner.invoke(main, ["txn", *arguments])
        assert (result.exit_code, words in result.output) == (2, True), result.output
    result = runner.invoke(main, ["txn", "list", "--bootstrap-server", "127.0.0.1:1", "--timeout", "0.2"])
    assert (result.exit_code, result.stdout) == (1, ""), "what reads the output gets no error for an id"
    assert "127.0.0.1:1" in result.stderr
