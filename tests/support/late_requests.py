"""Requests of a transaction that come late, behind the begin of the next one: a story for any cluster.

    first transaction    its EndTxn, or AddPartitionsToTxn, loses its way; the client repeats it, and goes on
    next transaction     one record is stored; then the first request comes to the coordinator after all
                         another record is sent, and the transaction is aborted

Below Transactions V2 both have one epoch, unless the client asks for another. Then the late EndTxn commits what is
there of the next transaction, and half of it is seen by everybody.

No import of pytest.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from pyproducer import ErrorCode, KafkaError, KafkaProducer
from tests.support.fault_proxy import FaultProxy

PROPS: Mapping[str, object] = {"linger.ms": 0, "retry.backoff.ms": 20, "retry.backoff.max.ms": 50,
                               "reconnect.backoff.ms": 20, "reconnect.backoff.max.ms": 50}


class Told(NamedTuple):
    """What became of the story.

    Attributes:
        late: The answers to the requests that came late.
        error: What the second transaction raised, if anything.
    """

    late: list[Mapping[str, Any]]
    error: KafkaError | None


def late_end_txn(bootstrap_servers: str, topic: str, transactional_id: str) -> Told:
    """Commit "first"; begin, send "second", let the EndTxn of the first come, send "third", abort."""
    with FaultProxy(bootstrap_servers) as proxy, KafkaProducer({
            **PROPS, "bootstrap.servers": proxy.bootstrap_servers, "transactional.id": transactional_id}) as producer:
        producer.init_transactions()
        lost = proxy.on("END_TXN").detour()
        producer.begin_transaction()
        producer.send(topic, b"first")
        producer.commit_transaction()
        assert lost.count == 1
        producer.begin_transaction()
        producer.send(topic, b"second").result(60)
        late = lost.deliver()
        error = None
        try:
            producer.send(topic, b"third").exception(60)
            producer.abort_transaction()
        except KafkaError as raised:
            error = raised
        return Told(late, error)


def late_add_partitions(bootstrap_servers: str, topic: str, transactional_id: str) -> Told:
    """Commit "first", whose AddPartitionsToTxn lost its way at first; then let that come."""
    with FaultProxy(bootstrap_servers) as proxy, KafkaProducer({
            **PROPS, "bootstrap.servers": proxy.bootstrap_servers, "transactional.id": transactional_id}) as producer:
        producer.init_transactions()
        lost = proxy.on("ADD_PARTITIONS_TO_TXN").detour()
        with producer.transaction():
            producer.send(topic, b"first")
        assert lost.count == 1
        # Not while the markers of the first transaction are being written.
        return Told(lost.deliver(lambda answer: answer["results_by_topic_v3_and_below"][0]["results_by_partition"][0][
            "partition_error_code"] == ErrorCode.CONCURRENT_TRANSACTIONS), None)
