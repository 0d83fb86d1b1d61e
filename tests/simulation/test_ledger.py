"""Who could know what: the ledger, against a model broker that is driven by hand."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

import pytest

from pyproducer.protocol.apis import ApiKeys
from pyproducer.record.batch_writer import build_batch
from tests.simulation.checker import murmur2
from tests.simulation.ledger import Handed, Ledger, identity
from tests.simulation.model_broker import ModelCluster, ModelParameters
from tests.support.raw_client import produce_body, request_bytes

PRODUCER_ID = 1000
READER = "reader"


class Story:
    """A client with one connection to the leader of t-0."""

    def __init__(self) -> None:
        self.told: set[bytes] = set()
        self.ledger = Ledger(self.told.__contains__, lambda record: record not in self.told)
        self.cluster = ModelCluster(node_count=1, topics={"t": 1}, parameters=ModelParameters(
            witness=self.ledger, knows_all_producers=False))
        self.ledger.cluster = self.cluster
        self._numbers = itertools.count(1)

    def hand(self, sequence: int, *values: bytes, by_id: bool = False) -> Handed:
        """Send a batch; nobody has it yet."""
        records = bytes(build_batch([(1, b"k", value, ()) for value in values], producer_id=PRODUCER_ID,
                                    producer_epoch=0, base_sequence=sequence))
        body: Mapping[str, Any] = produce_body("t", 0, records)
        if by_id:
            rows = body["topic_data"][0]["partition_data"]
            body = {**body, "topic_data": [{"topic_id": self.cluster.topic_id("t"), "partition_data": rows}]}
        frame = request_bytes(ApiKeys.PRODUCE, 13 if by_id else 9, body, correlation_id=next(self._numbers))
        return self.ledger.on_handed(frame, 1, 0, 0)

    def arrive(self, handed: Handed) -> int:
        """Let a request arrive; return what is answered."""
        self.ledger.arriving = handed
        assert self.cluster.handle(0, handed.data, 0) is not None
        self.ledger.arriving = None
        code = handed.taken[-1].code
        assert code is not None
        return code

    def hear(self, handed: Handed) -> None:
        self.ledger.on_read(READER, handed, 0)
        self.ledger.on_poll(READER)

    def lie(self, handed: Handed) -> None:
        """Say of a batch that it is stored, and do not store it."""
        self.ledger.is_lying = True
        (_, _, batch), = handed.contents()
        self.ledger.on_batch(self.cluster.partition("t", 0), batch, None, 0)

    def forget(self) -> None:
        self.ledger.on_forget("t", 0, PRODUCER_ID)
        self.cluster.forget_producer("t", 0, PRODUCER_ID)

    def recreate(self) -> None:
        before = self.cluster.topics["t"]
        self.cluster.recreate_topic("t")
        self.ledger.on_recreated("t", before)

    def excused(self, record: bytes) -> tuple[int, int]:
        """How many copies there are beyond the first, and how many of these nobody could prevent."""
        copies = [append for append in self.ledger.appends for value in append.stored.values if value == record]
        return len(copies) - 1, self.ledger.excused(copies, record)

    def passed(self) -> set[bytes]:
        return set().union(*(forgetting.passed for forgetting in self.ledger.forgettings))


@pytest.fixture
def story() -> Story:
    return Story()


def test_copy_when_the_first_one_was_in_doubt_as_the_broker_forgot_then_it_is_excused_once(story: Story) -> None:
    story.arrive(story.hand(0, b"0.1 a"))
    story.forget()
    story.arrive(story.hand(0, b"0.1 a"))
    assert story.excused(b"0.1 a") == (1, 1)
    story.cluster.forget_producer("t", 0, PRODUCER_ID)  # after a silence: nothing is noted of it
    story.arrive(story.hand(0, b"0.1 a"))
    assert story.excused(b"0.1 a") == (2, 1)


@pytest.mark.parametrize("way", ["heard", "told"])
def test_copy_when_the_client_knew_of_the_first_then_it_is_not_excused(story: Story, way: str) -> None:
    handed = story.hand(0, b"0.1 a")
    story.arrive(handed)
    if way == "heard":
        story.hear(handed)
    else:
        story.told.add(b"0.1 a")
    story.forget()
    story.arrive(story.hand(0, b"0.1 a"))
    assert story.excused(b"0.1 a") == (1, 0)


def test_answer_when_it_was_read_and_nobody_polled_again_then_it_may_not_have_been_handled(story: Story) -> None:
    handed = story.hand(0, b"0.1 a")
    story.arrive(handed)
    story.ledger.on_read(READER, handed, 0)
    story.ledger.on_poll("another reader")
    assert not story.ledger.confirmed
    story.ledger.on_poll(READER)
    assert story.ledger.confirmed == {b"0.1 a": handed}


def test_copy_when_it_left_before_the_broker_forgot_then_it_is_excused_whatever_was_heard(story: Story) -> None:
    late, handed = story.hand(0, b"0.1 a"), story.hand(0, b"0.1 a")
    story.arrive(handed)
    story.hear(handed)
    story.forget()
    story.arrive(late)
    assert story.excused(b"0.1 a") == (1, 1)


def test_topic_when_it_is_made_anew_then_records_in_doubt_may_be_in_both(story: Story) -> None:
    first, second = story.hand(0, b"0.1 a"), story.hand(1, b"0.2 b")
    for handed in (first, second):
        story.arrive(handed)
    story.hear(first)
    story.recreate()
    for sequence, value in ((0, b"0.1 a"), (1, b"0.2 b")):
        assert story.arrive(story.hand(sequence, value)) == 0
    assert story.excused(b"0.1 a") == (1, 0)
    assert story.excused(b"0.2 b") == (1, 1)


def test_order_when_the_broker_takes_a_later_batch_first_then_those_before_it_are_passed(story: Story) -> None:
    known = story.hand(0, b"0.1 a")
    story.arrive(known)
    story.hear(known)
    story.hand(1, b"0.2 b")
    story.told.add(b"0.3 c")
    story.hand(2, b"0.3 c")
    third, fourth = story.hand(3, b"0.4 d"), story.hand(4, b"0.5 e")
    story.forget()
    assert story.arrive(third) == 0
    assert story.passed() == {b"0.2 b"}
    assert story.arrive(fourth) == 0
    assert story.passed() == {b"0.2 b"}
    assert story.ledger.passed(("t", story.cluster.topic_id("t"), 0)) == [{b"0.2 b"}]


def test_order_when_a_broker_lied_about_the_first_batch_then_those_before_the_next_are_passed_and_no_copy_is_excused(
        story: Story) -> None:
    first, _, third = story.hand(0, b"0.1 a"), story.hand(1, b"0.2 b"), story.hand(2, b"0.3 c")
    story.lie(first)
    story.hear(first)
    story.told.add(b"0.1 a")
    assert story.arrive(third) == 0
    assert story.ledger.passed(("t", story.cluster.topic_id("t"), 0)) == [{b"0.2 b"}]
    story.cluster.forget_producer("t", 0, PRODUCER_ID)  # without a word: a model that is wrong
    assert story.arrive(story.hand(2, b"0.3 c")) == 0
    assert story.excused(b"0.3 c") == (1, 0)


@pytest.mark.parametrize(("by_id", "passed"), [(False, {b"0.1 a"}), (True, set())])
def test_order_when_a_topic_is_made_anew_then_who_names_it_by_its_id_knows(story: Story, by_id: bool,
                                                                           passed: set[bytes]) -> None:
    story.hand(0, b"0.1 a", by_id=by_id)
    story.recreate()
    assert story.arrive(story.hand(1, b"0.2 b", by_id=by_id)) == 0
    assert story.passed() == passed


def test_order_when_the_broker_forgot_nobody_then_nobody_is_passed(story: Story) -> None:
    story.hand(0, b"0.1 a")
    assert story.arrive(story.hand(1, b"0.2 b")) == 0
    assert story.passed() == set()


def test_mates_when_a_batch_was_split_then_its_parts_are_as_old_as_the_whole(story: Story) -> None:
    story.hand(0, b"0.1 a", b"0.2 b")
    whole = story.hand(0, b"0.1 a")
    assert story.ledger.mates == {b"0.1 a": [[b"0.1 a", b"0.2 b"], [b"0.1 a"]], b"0.2 b": [[b"0.1 a", b"0.2 b"]]}
    assert story.ledger.written == set()
    whole.is_whole = True
    del story.ledger.written
    assert story.ledger.written == {b"0.1 a"}


def test_request_when_connections_are_made_anew_then_nobody_knows_how_far_it_came(story: Story) -> None:
    mine, other, begun = story.hand(0, b"0.1 a"), story.hand(0, b"0.2 b"), story.hand(0, b"0.3 c")
    other.client = "another one"
    story.ledger.on_renewed(None)
    begun.is_torn, begun.is_begun = False, True
    assert (mine.is_torn, other.is_torn) == (True, False)
    assert story.ledger.reached == {b"0.1 a", b"0.3 c"}


def test_batch_when_its_partition_is_not_there_then_it_was_written_all_the_same(story: Story) -> None:
    handed = story.hand(0, b"0.1 a", by_id=True)
    story.recreate()
    story.ledger.arriving = handed
    assert story.cluster.handle(0, handed.data, 0)
    handed.is_whole = True
    assert (handed.taken, [code for _, code in handed.strangers]) == ([], [100])
    assert story.ledger.written == {b"0.1 a"}


def test_lie_when_a_broker_tells_one_then_it_is_noted(story: Story) -> None:
    story.ledger.is_lying = True
    story.arrive(story.hand(0, b"0.1 a"))
    story.arrive(story.hand(0, b"0.1 a"))
    assert (story.ledger.lied, story.ledger.repeated) == ({b"0.1 a"}, {b"0.1 a"})


def test_identity_when_a_value_is_null_then_it_is_the_key() -> None:
    assert (identity(b"v", b"k"), identity(b"", b"k"), identity(None, b"k")) == (b"v", b"", b"k")


@pytest.mark.parametrize(("data", "number"), [
    (b"21", -973932308), (b"foobar", -790332482), (b"a-little-bit-long-string", -985981536),
    (b"a-little-bit-longer-string", -1486304829), (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
    (b"abc", 479470107)])
def test_murmur2_when_asked_then_it_says_what_kafkas_own_tests_say(data: bytes, number: int) -> None:
    assert murmur2(data) == number & 0xFFFF_FFFF
