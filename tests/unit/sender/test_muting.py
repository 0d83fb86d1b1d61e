"""max.in.flight.requests.per.connection = 1 without idempotence: one batch of a partition at a time, so order holds.

The connection's own limit does not say so: the partition may have moved, and its new leader's connection is free.
"""

from __future__ import annotations

import pytest

from pyproducer.common.error_codes import ErrorCode
from tests.unit.sender.stepped_producer import SteppedProducer, metadata_response


def one_in_flight() -> SteppedProducer:
    """Records "1", "2", "3" of partition 0, the first of them on the wire, while the connections could take more."""
    producer = SteppedProducer(idempotent=False, max_in_flight=1)
    for name in "123":
        producer.append_told(name)
    producer.client.max_in_flight = 5
    producer.turn()
    return producer


def values_on_wire(producer: SteppedProducer) -> list[str]:
    return [str(values[0])[2] for _, _, _, values in producer.batches_on_wire()]


def test_second_batch_when_the_first_is_on_the_wire_then_it_waits_whatever_the_connection_could_take() -> None:
    producer = one_in_flight()
    assert values_on_wire(producer) == ["1"]
    for _ in range(3):
        producer.turn(advance=100)
        assert values_on_wire(producer) == ["1"]


def test_second_batch_when_the_partition_moves_then_it_waits_for_the_answer_of_the_old_leader() -> None:
    producer = one_in_flight()
    producer.metadata.update(metadata_response(leader=2, epoch=2), 13, producer.clock.now_ms())
    producer.turn()
    assert [request.destination for request in producer.client.in_flight] == [1]
    producer.answer_all(base_offset=0)
    producer.turn()
    assert [request.destination for request in producer.client.in_flight] == [2]
    assert values_on_wire(producer) == ["2"]


def test_other_partition_when_one_is_muted_then_it_is_sent() -> None:
    producer = one_in_flight()
    producer.append_told("x", 1)
    producer.turn()
    assert values_on_wire(producer) == ["1", "x"]


@pytest.mark.parametrize("end", ["stored", "refused", "lost"])
def test_next_batch_when_the_one_before_came_to_an_end_then_it_goes(end: str) -> None:
    producer = one_in_flight()
    told = []
    for offset, name in enumerate("123"):
        assert values_on_wire(producer) == [name]
        if end == "stored":
            producer.answer_all(base_offset=offset)
        elif end == "refused":
            producer.answer_all(code=ErrorCode.INVALID_RECORD)
        else:
            producer.clock.advance(2000)
            producer.lose()
        told.append(name)
        if end == "lost":
            break  # those behind it are as old as it is
        assert producer.told_names() == told
        producer.turn()
    assert producer.told_names() == told
    producer.append_told("4")
    producer.turn()
    assert values_on_wire(producer) == ["4"], "the partition is open again"


@pytest.mark.parametrize("end", ["refused for now", "lost", "left out"])
def test_second_batch_when_the_first_waits_for_a_retry_then_it_waits_behind_it(end: str) -> None:
    producer = one_in_flight()
    if end == "refused for now":
        producer.answer_all(code=ErrorCode.NOT_ENOUGH_REPLICAS)
    elif end == "lost":
        producer.lose()
    else:
        producer.client.answer({"responses": [], "throttle_time_ms": 0, "node_endpoints": []},
                               received_ms=producer.clock.now_ms())
    producer.turn(advance=99)
    assert values_on_wire(producer) == []
    producer.turn(advance=1)
    assert values_on_wire(producer) == ["1"]
    for offset, name in enumerate("123"):
        assert values_on_wire(producer) == [name]
        producer.answer_all(base_offset=offset)
        producer.turn()
    assert [told[:2] for told in producer.told] == [("1", 0), ("2", 1), ("3", 2)]
    assert producer.held_bytes == 0


def test_second_batch_when_the_first_expired_on_the_wire_then_it_waits_for_the_end_of_its_request() -> None:
    producer = one_in_flight()
    producer.clock.advance(1000)
    producer.append_told("4")
    producer.turn(advance=1000)
    assert producer.told_names() == list("123")
    producer.turn()
    assert values_on_wire(producer) == ["1"], "the broker may still store it: the next one must not overtake"
    producer.lose()
    producer.turn()
    assert values_on_wire(producer) == ["4"]


def test_too_large_when_the_batch_is_split_then_its_parts_go_one_at_a_time_before_what_follows() -> None:
    producer = SteppedProducer(idempotent=False, max_in_flight=1, batch_size=190)
    for name in "abc":
        producer.append_told(name)
    producer.client.max_in_flight = 5
    producer.turn()
    producer.answer_all(code=ErrorCode.MESSAGE_TOO_LARGE)
    seen = []
    for offset in range(3):
        producer.turn()
        seen.append(values_on_wire(producer))
        producer.answer_all(base_offset=offset)
    assert seen == [["a"], ["b"], ["c"]]
    assert producer.told_names() == list("abc")


def test_idempotent_producer_when_it_has_one_in_flight_then_order_holds_too() -> None:
    producer = SteppedProducer(max_in_flight=1)
    producer.start()
    for name in "12":
        producer.append_told(name)
    producer.turn()
    producer.answer_all(code=ErrorCode.NOT_ENOUGH_REPLICAS)
    for offset in range(2):
        producer.turn(advance=100)
        assert len(producer.client.in_flight) == 1
        producer.answer_all(base_offset=offset)
    assert [told[:2] for told in producer.told] == [("1", 0), ("2", 1)]
