"""What a notebook and a debugger show of a broker, a producer and a result: where, what, and how much."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pyproducer import KafkaProducer
from pyproducer.broker import EmbeddedBroker
from pyproducer.broker.control.broker_view import size_text
from tests.support.patience import GIVE_UP_S


@pytest.mark.parametrize("separate_process", [False, True], ids=["in process", "child"])
def test_broker_when_shown_then_it_says_where_it_is_and_what_it_holds(
        start_broker: Callable[..., EmbeddedBroker], separate_process: bool) -> None:
    broker = start_broker(topics={"orders": 3, "empty": 1}, separate_process=separate_process)
    with KafkaProducer({"bootstrap.servers": broker.bootstrap_servers}) as producer:
        for number in range(5):
            producer.send("orders", bytes(100), partition=number % 2)
    sizes = broker.topic_sizes()
    orders = sizes["orders"]
    assert (orders.partitions, orders.records, sizes["empty"]) == (3, 5, (1, 0, 0))
    assert 500 < orders.size_bytes < 1500
    assert repr(broker) == (f"<EmbeddedBroker at {broker.bootstrap_servers}: empty (1 partition, 0 records, 0 B), "
                            f"orders (3 partitions, 5 records, {orders.size_bytes} B)>")
    html = broker._repr_html_()
    assert broker.bootstrap_servers in html
    assert f"<tr><td>orders</td><td>3</td><td>5</td><td>{orders.size_bytes} B</td></tr>" in html


def test_broker_when_it_does_not_run_then_that_is_shown() -> None:
    broker = EmbeddedBroker()
    assert repr(broker) == "<EmbeddedBroker, not running>"
    assert "not running" in broker._repr_html_()


def test_broker_when_it_has_very_many_topics_then_some_are_shown_and_the_others_counted(
        start_broker: Callable[..., EmbeddedBroker]) -> None:
    broker = start_broker(topics={f"t{number:02}": 1 for number in range(25)})
    assert repr(broker).count("partition") == 5
    assert repr(broker).endswith(", 20 more topics>")
    assert broker._repr_html_().count("<tr>") == 22  # a heading, twenty topics, and how many more there are
    assert "5 more topics" in broker._repr_html_()


def test_address_when_it_has_signs_of_html_then_they_do_no_harm(
        start_broker: Callable[..., EmbeddedBroker], monkeypatch: pytest.MonkeyPatch) -> None:
    broker = start_broker()
    monkeypatch.setattr(EmbeddedBroker, "bootstrap_servers", property(lambda _: "<b>:1"))
    assert "&lt;b&gt;:1" in broker._repr_html_()


def test_size_when_it_is_large_then_it_is_told_in_larger_units() -> None:
    assert [size_text(size) for size in (0, 1023, 1024, 1_500_000, 5 * 1024**3)] == [
        "0 B", "1023 B", "1.0 KiB", "1.4 MiB", "5.0 GiB"]


def test_producer_when_shown_then_it_says_where_it_sends_and_what_became_of_records(
        start_broker: Callable[..., EmbeddedBroker]) -> None:
    broker = start_broker(topics={"t": 2})
    with KafkaProducer({"bootstrap.servers": broker.bootstrap_servers, "client.id": "<i>me</i>"}) as producer:
        assert repr(producer) == "<KafkaProducer <i>me</i> open>"
        producer.send("t", b"v").result(GIVE_UP_S)
        html = producer._repr_html_()
        for row in ("state</td><td>open", f"bootstrap.servers</td><td>{broker.bootstrap_servers}", "stored</td><td>1",
                    "failed</td><td>0", "on their way</td><td>0"):
            assert row in html
        assert "KafkaProducer &lt;i&gt;me&lt;/i&gt;" in html
    assert "closed" in producer._repr_html_()


def test_batch_metadata_when_shown_then_it_says_where_rows_are_and_why_others_are_not(
        start_broker: Callable[..., EmbeddedBroker]) -> None:
    broker = start_broker(topics={"t": 2})
    with KafkaProducer({"bootstrap.servers": broker.bootstrap_servers}) as producer:
        metadata = producer.send_batch("t", [b"v"] * 20, partitions=[0, 1, 1, *[7] * 17]).result(GIVE_UP_S)
    html = metadata._repr_html_()
    assert "<b>20 rows for t</b>" in html
    assert "<td>partition 0</td><td>1 rows, offsets 0 to 0</td>" in html
    assert "<td>partition 1</td><td>2 rows, offsets 0 to 1</td>" in html
    assert "row 3 failed</td><td>UnknownTopicOrPartitionError" in html
    assert "7 more rows failed" in html
    assert repr(metadata) == "<BatchMetadata t rows=20 errors=17>"
