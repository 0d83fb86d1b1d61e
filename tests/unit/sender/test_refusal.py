"""A node refuses us, by TLS or SASL: what waits for it fails at once; nothing else does."""

from __future__ import annotations

import pytest

from pyproducer.common.errors import AuthenticationError
from tests.unit.sender.stepped_producer import SteppedProducer, metadata_response

REFUSAL = AuthenticationError("127.0.0.1:9092: authentication: Invalid username or password")


def refuse(producer: SteppedProducer, node_id: int | None) -> None:
    """The connection to a node ends in a refusal, in the middle of a poll; None: credentials are refused to us."""
    producer.client.is_ready_now = False
    if node_id is None:
        producer.metadata.refused_credentials(REFUSAL)
    else:
        producer.metadata.refused(node_id, REFUSAL)
    producer.turn()


@pytest.mark.parametrize("node_id", [1, None])
def test_batches_when_their_leader_refuses_us_then_they_fail_at_once_and_the_next_ones_try_again(
        node_id: int | None) -> None:
    """With a wrong password on one listener records waited for delivery.timeout.ms, two minutes, and then said so."""
    producer = SteppedProducer()
    producer.start()
    futures = [producer.append(), producer.append(1), producer.append(1)]
    refuse(producer, node_id)
    for future in futures:
        error = future.exception(0)
        assert type(error) is AuthenticationError
        assert str(error) == str(REFUSAL)
        assert (error.retriable, error.outcome) == (False, "not_sent")
    assert producer.held_bytes == 0
    assert producer.metadata.refusals == []
    later = producer.append()
    producer.turn()
    assert not later.done(), "that refusal was told"
    producer.client.is_ready_now = True
    producer.turn()
    producer.answer_all(base_offset=5)
    assert later.result(0).offset == 5


@pytest.mark.parametrize("node_id", [2, None])
def test_batches_when_another_node_refuses_us_or_all_others_then_they_go_on(node_id: int | None) -> None:
    producer = SteppedProducer()
    producer.start()
    future = producer.append()
    if node_id is None:
        producer.metadata.refused_by_all(REFUSAL)
    else:
        producer.metadata.refused(node_id, REFUSAL)
    producer.turn()
    producer.answer_all()
    assert future.result(0)


def test_batches_when_nobody_leads_them_and_nobody_takes_us_then_they_fail() -> None:
    producer = SteppedProducer()
    future = producer.append()
    producer.metadata.rebootstrap(forget_leaders=True)
    producer.client.is_ready_now = False
    producer.metadata.refused_by_all(REFUSAL)
    producer.turn()
    assert type(future.exception(0)) is AuthenticationError


def test_batch_when_it_was_sent_before_and_may_be_in_the_log_then_unknown_and_a_new_epoch_follows() -> None:
    producer = SteppedProducer()
    producer.start()
    sent = producer.append()
    producer.turn()
    unsent = producer.append()
    producer.lose()
    before = producer.manager.producer_id_and_epoch
    refuse(producer, 1)
    assert [future.exception(0).outcome for future in (sent, unsent)] == ["unknown", "not_sent"]
    assert type(sent.exception(0)) is AuthenticationError
    producer.client.is_ready_now = True
    later = producer.append()
    producer.turn()
    producer.turn()
    assert producer.manager.producer_id_and_epoch != before
    producer.answer_all()
    assert later.done()


def test_batch_when_it_is_on_its_way_to_another_node_then_its_answer_counts() -> None:
    producer = SteppedProducer()
    producer.start()
    future = producer.append()
    producer.turn()
    producer.metadata.refused(1, REFUSAL)
    producer.turn()
    assert not future.done()
    producer.answer_all()
    assert future.result(0)


def test_leader_when_it_changed_then_only_what_the_refusing_node_leads_now_fails() -> None:
    producer = SteppedProducer()
    future = producer.append()
    producer.metadata.update(metadata_response(leader=2, epoch=2), 13, 0)
    producer.client.is_ready_now = False
    producer.metadata.refused(1, REFUSAL)
    producer.turn()
    assert not future.done()
    producer.metadata.refused(2, REFUSAL)
    producer.turn()
    assert type(future.exception(0)) is AuthenticationError
