"""pyproducer.testing.read_topic: whom it asks in which versions, over what, how long it waits, and what it says."""

from __future__ import annotations

import socket
import struct
import threading
import time
from collections.abc import Callable, Generator
from typing import Any, Literal, cast

import pytest

from pyproducer import (
    ApiError,
    AuthenticationError,
    ConfigError,
    CorrelationIdMismatchError,
    CorruptRecordError,
    DisconnectedError,
    KafkaProducer,
    KafkaTimeoutError,
    RemoteProtocolError,
    UnknownTopicOrPartitionError,
    UnsupportedVersionError,
)
from pyproducer.broker import EmbeddedBroker
from pyproducer.broker.network.request_channel import Request
from pyproducer.client import blocking_client
from pyproducer.client.blocking_client import Answer, BlockingClient, Connection
from pyproducer.client.resolver import ResolvedAddress
from pyproducer.common.error_codes import ErrorCode
from pyproducer.common.records import Header
from pyproducer.protocol.apis import ApiKeys
from pyproducer.protocol.header import build_response
from pyproducer.record.batch_reader import RecordBatch
from pyproducer.testing import ConsumedRecord, read_topic, reader
from tests.embedded.conftest import WireTarget
from tests.support.bad_servers import (
    black_hole,
    closed_port,
    hanging_up_server,
    http_server,
    silent_server,
)
from tests.support.certificates import Certificates
from tests.support.raw_transactions import RawTransactions

StartBroker = Callable[..., EmbeddedBroker]
VALUES = [b"%d" % number for number in range(50)]


def filled(broker: EmbeddedBroker, **props: object) -> None:
    """Put VALUES into the topic `t`."""
    with KafkaProducer({"bootstrap.servers": broker.bootstrap_servers, **props}) as producer:
        for value in VALUES:
            producer.send("t", value)


def versions_asked(broker: EmbeddedBroker) -> list[set[int]]:
    """The versions of Metadata, ListOffsets and Fetch that the reader used."""
    return [{request.api_version for request in broker.requests(api) if request.client_id == "pyproducer-reader"}
            for api in (ApiKeys.METADATA, ApiKeys.LIST_OFFSETS, ApiKeys.FETCH)]


@pytest.mark.parametrize("timeout", [None, 60, 1e12, float("inf"), 10**400], ids=["None", "60", "1e12", "inf", "int"])
def test_read_when_the_timeout_is_huge_then_all_is_read(timeout: float | None) -> None:
    with EmbeddedBroker(topics={"t": 1}) as broker:
        with KafkaProducer({"bootstrap.servers": broker.bootstrap_servers}) as producer:
            producer.send("t", b"v")
        assert [record.value for record in read_topic(broker.bootstrap_servers, "t", timeout=timeout)] == [b"v"]


@pytest.mark.parametrize(("timeout", "error", "words"), [
    (0, ValueError, "timeout 0 is too short"), (-1, ValueError, "timeout -1 is too short"),
    (float("nan"), ValueError, "nan"), ("5", TypeError, "got str: '5'")])
def test_read_when_the_timeout_makes_no_sense_then_said_so(timeout: float, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        list(read_topic("127.0.0.1:1", "t", timeout=timeout))


# ---- what is read

def test_record_when_read_then_it_has_all_that_was_sent(start_broker: StartBroker) -> None:
    broker = start_broker(topics={"t": 3})
    with KafkaProducer({"bootstrap.servers": broker.bootstrap_servers}) as producer:
        for _ in range(2):
            producer.send("t", b"v", key=b"k", partition=2, timestamp=1234, headers=[("h", b"1"), ("h", None)])
        producer.send("t", None, partition=1, timestamp=5)
    assert list(read_topic(broker.bootstrap_servers, "t")) == [
        ConsumedRecord("t", 1, 0, 5, None, None, ()),
        *(ConsumedRecord("t", 2, offset, 1234, b"k", b"v", (Header("h", b"1"), Header("h", None)))
          for offset in range(2))]


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_batches_when_they_are_compressed_then_every_record_is_read(start_broker: StartBroker, codec: str) -> None:
    broker = start_broker(topics={"t": 1})
    filled(broker, **{"compression.type": codec})
    assert [record.value for record in read_topic(broker.bootstrap_servers, "t")] == VALUES


@pytest.mark.parametrize("codec", ["none", "gzip"])
def test_batch_when_it_is_above_the_limit_then_read_where_it_came_uncompressed(
        start_broker: StartBroker, monkeypatch: pytest.MonkeyPatch, codec: str) -> None:
    """The limit for what a few bytes may expand to was laid on what does not expand. It is made small here."""
    broker = start_broker(topics={"t": 1})
    with KafkaProducer({"bootstrap.servers": broker.bootstrap_servers, "compression.type": codec}) as producer:
        producer.send("t", b"v" * 1000)
    monkeypatch.setattr(reader, "DEFAULT_LIMIT_BYTES", 500)
    monkeypatch.setattr(RecordBatch.records, "__defaults__", (500,))
    records = read_topic(broker.bootstrap_servers, "t")
    if codec == "none":
        assert [record.value for record in records] == [b"v" * 1000]
    else:
        with pytest.raises(CorruptRecordError, match="gzip: the records expand beyond the limit of 500 bytes"):
            next(records)


def test_transactions_when_committed_aborted_or_open_then_their_records_are_read_and_control_records_not(
        wire: WireTarget, topic: str, begin: Callable[..., RawTransactions]) -> None:
    committed, aborted, opened = begin(), begin(), begin()
    for transaction, value in ((committed, b"c"), (aborted, b"a"), (opened, b"o")):
        transaction.add_partitions({topic: [0]})
        assert transaction.produce(topic, 0, 0, value=value)[0] == 0
    assert committed.end(commit=True) == aborted.end(commit=False) == 0
    servers = "{}:{}".format(*wire.address)
    assert [(record.offset, record.value) for record in read_topic(servers, topic)] == [
        (0, b"c"), (1, b"a"), (2, b"o")]
    assert [(record.offset, record.value) for record in read_topic(
        servers, topic, isolation_level="read_committed")] == [(0, b"c")]
    assert opened.end(commit=True) == 0
    assert [(record.offset, record.value) for record in read_topic(
        servers, topic, isolation_level="read_committed")] == [(0, b"c"), (2, b"o")]


def test_topic_when_it_has_several_leaders_then_each_is_asked_for_its_partitions(start_broker: StartBroker) -> None:
    broker = start_broker(brokers=3, topics={"t": 6}, log_requests=True)
    filled(broker)
    found = list(read_topic(broker.bootstrap_servers, "t"))
    assert sorted(record.value or b"" for record in found) == sorted(VALUES)
    assert [(record.partition, record.offset) for record in found] == sorted(
        (record.partition, record.offset) for record in found)
    assert {request.node_id for request in broker.requests("Fetch")} == {1, 2, 3}


def test_topic_when_records_come_while_it_is_read_then_it_ends_where_it_ended_at_the_call(
        start_broker: StartBroker) -> None:
    broker = start_broker(topics={"t": 1})
    filled(broker)
    untouched = read_topic(broker.bootstrap_servers, "t")
    records = read_topic(broker.bootstrap_servers, "t")
    first = next(records)
    filled(broker)
    assert [record.value for record in (first, *records)] == VALUES
    assert [record.value for record in untouched] == VALUES


def test_topic_when_it_is_not_there_then_said_so_and_it_is_not_made(start_broker: StartBroker) -> None:
    broker = start_broker(topics={"t": 1})
    with pytest.raises(UnknownTopicOrPartitionError, match="Metadata of missing"):
        list(read_topic(broker.bootstrap_servers, "missing"))
    assert broker.topics() == {"t": 1}


# ---- versions

@pytest.mark.parametrize(("release", "asked"), [
    (None, (13, 10, 18)), ("4.0", (13, 10, 17)), ("3.9", (12, 9, 17)), ("3.0", (11, 7, 12)), ("2.4", (9, 5, 11)),
    ("2.1", (7, 4, 10)), ("2.0", (6, 3, 8))])
def test_broker_when_it_is_older_then_it_is_asked_in_the_newest_versions_that_it_has(
        start_broker: StartBroker, release: str | None, asked: tuple[int, ...]) -> None:
    """Metadata 7, ListOffsets 4 and Fetch 10 were sent to everybody, and a broker before 2.1 closed the connection."""
    broker = start_broker(topics={"t": 2}, log_requests=True)
    filled(broker)
    broker.set_api_versions(release)
    assert len(list(read_topic(broker.bootstrap_servers, "t"))) == len(VALUES)
    assert versions_asked(broker) == [{version} for version in asked]


def test_broker_when_it_has_the_oldest_versions_that_can_be_read_then_they_are_used(start_broker: StartBroker) -> None:
    broker = start_broker(topics={"t": 1}, log_requests=True)
    filled(broker)
    broker.set_api_versions({ApiKeys.METADATA: (0, 4), ApiKeys.LIST_OFFSETS: (0, 1), ApiKeys.FETCH: (0, 4),
                             ApiKeys.API_VERSIONS: (0, 0)})
    assert [record.value for record in read_topic(broker.bootstrap_servers, "t")] == VALUES
    assert versions_asked(broker) == [{4}, {1}, {4}]


def test_broker_when_its_metadata_tell_no_topic_ids_then_it_is_fetched_by_name(start_broker: StartBroker) -> None:
    broker = start_broker(topics={"t": 1}, log_requests=True)
    filled(broker)
    broker.set_api_versions({ApiKeys.METADATA: (0, 9)})
    assert [record.value for record in read_topic(broker.bootstrap_servers, "t")] == VALUES
    assert versions_asked(broker)[-1] == {12}


@pytest.mark.parametrize(("versions", "words"), [
    ({ApiKeys.FETCH: None}, "does not support FETCH; we need version 4 to"),
    ({ApiKeys.FETCH: (0, 3)}, "supports FETCH in version 0 to 3, we in version 4 to"),
    ({ApiKeys.METADATA: (0, 3)}, "allow_auto_topic_creation")])
def test_broker_when_it_is_too_old_then_both_ranges_are_said(
        start_broker: StartBroker, versions: dict[ApiKeys, tuple[int, int] | None], words: str) -> None:
    broker = start_broker(topics={"t": 1})
    filled(broker)
    broker.set_api_versions(versions)
    with pytest.raises(UnsupportedVersionError, match=words):
        list(read_topic(broker.bootstrap_servers, "t"))


# ---- TLS

@pytest.fixture
def tls_broker(start_broker: StartBroker, certificates: Certificates) -> EmbeddedBroker:
    """The topic `t` with VALUES, behind a listener with TLS beside one without; TLS wants a client's certificate."""
    broker = start_broker(brokers=2, topics={"t": 4}, log_requests=True, config={
        "listeners": "PLAINTEXT://127.0.0.1:0,SSL://127.0.0.1:0", "ssl.client.auth": "required",
        "ssl.keystore.location": certificates.server.keystore, "ssl.truststore.location": certificates.ca})
    filled(broker)
    return broker


def settings_of(certificates: Certificates, **others: object) -> dict[str, object]:
    return {"security.protocol": "SSL", "ssl.truststore.location": str(certificates.ca),
            "ssl.keystore.location": str(certificates.client.keystore), **others}


def test_tls_when_the_producers_settings_are_given_then_all_is_read_over_it(
        tls_broker: EmbeddedBroker, certificates: Certificates) -> None:
    settings = settings_of(certificates, **{"client.id": "checker", "linger.ms": 5, "bootstrap.servers": "elsewhere:1"})
    found = list(read_topic(tls_broker.bootstrap_servers_of("SSL"), "t", settings=settings))
    assert sorted(record.value or b"" for record in found) == sorted(VALUES)
    fetches = tls_broker.requests("Fetch")
    assert {(request.listener_name, request.principal, request.client_id) for request in fetches} == {
        ("SSL", "User:CN=client", "checker")}
    assert {request.node_id for request in fetches} == {1, 2}


@pytest.mark.parametrize(("others", "words"), [
    ({"ssl.truststore.location": "other_ca"}, "certificate verify failed"),
    ({"ssl.keystore.location": "other_client"}, "TLS")])
def test_tls_when_one_end_does_not_trust_the_other_then_said_so(
        tls_broker: EmbeddedBroker, certificates: Certificates, others: dict[str, str], words: str) -> None:
    found = {"other_ca": certificates.other_ca, "other_client": certificates.other_client.keystore}
    settings = settings_of(certificates, **{key: str(found[name]) for key, name in others.items()})
    with pytest.raises(AuthenticationError, match=words):
        list(read_topic(tls_broker.bootstrap_servers_of("SSL").split(",")[0], "t", settings=settings))


def test_tls_when_only_one_end_speaks_it_then_the_error_names_the_setting(
        tls_broker: EmbeddedBroker, certificates: Certificates) -> None:
    with pytest.raises(AuthenticationError, match=r"the peer speaks TLS, not Kafka: set security\.protocol to SSL"):
        list(read_topic(tls_broker.bootstrap_servers_of("SSL").split(",")[0], "t"))
    with pytest.raises(AuthenticationError, match=r"its listener speaks Kafka without TLS"):
        list(read_topic(tls_broker.bootstrap_servers.split(",")[0], "t", settings=settings_of(certificates)))


@pytest.mark.parametrize(("servers", "settings", "words"), [
    ("127.0.0.1:1", {"security.protocl": "SSL"}, "did you mean 'security.protocol'"),
    ("127.0.0.1:1", {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN"}, "needs a user name and a password"),
    ("127.0.0.1:1", {"security.protocol": "SSL", "ssl.truststore.location": "/nowhere"}, "the file cannot be read"),
    ("127.0.0.1", None, "no port")])
def test_settings_when_one_is_wrong_then_it_is_the_producers_error(
        servers: str, settings: dict[str, object] | None, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        list(read_topic(servers, "t", settings=settings))


# ---- what goes wrong

def test_connection_when_cut_in_the_middle_of_an_answer_then_said_so(start_broker: StartBroker) -> None:
    broker = start_broker(topics={"t": 1})
    filled(broker)
    broker.faults.on("Fetch").truncate(104)
    with pytest.raises(DisconnectedError, match=r"closed the connection; .* FETCH v18, 104 bytes of"):
        list(read_topic(broker.bootstrap_servers, "t"))


@pytest.mark.parametrize(("api", "words"), [
    (ApiKeys.METADATA, "Metadata of t:"), (ApiKeys.LIST_OFFSETS, "ListOffsets of t-0:"),
    (ApiKeys.FETCH, "Fetch of t-0 at offset 0:")])
def test_answer_when_it_is_an_error_then_said_of_what(start_broker: StartBroker, api: ApiKeys, words: str) -> None:
    broker = start_broker(topics={"t": 1})
    filled(broker)
    broker.faults.on(api).error(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    with pytest.raises(ApiError, match=words) as caught:
        list(read_topic(broker.bootstrap_servers, "t"))
    assert caught.value.code == ErrorCode.NOT_LEADER_OR_FOLLOWER


@pytest.mark.parametrize(("isolation_level", "end"), [
    ("read_committed", "last_stable_offset"), ("read_uncommitted", "high_watermark")])
def test_answer_when_it_has_no_records_up_to_the_end_then_that_is_the_end_of_the_partition(
        start_broker: StartBroker, isolation_level: Literal["read_committed", "read_uncommitted"], end: str) -> None:
    """Compaction had left nothing there, as of a tombstone: read_topic waited for its timeout, and then raised it."""
    broker = start_broker(topics={"t": 1})
    filled(broker)
    fault = broker.faults.on("Fetch").call(without_records(**{end: len(VALUES)}))
    assert list(read_topic(broker.bootstrap_servers, "t", isolation_level=isolation_level)) == []
    assert fault.count == 1


def without_records(**ends: int) -> Callable[[Request], dict[str, Any]]:
    """Return what answers a Fetch of `t` with nothing."""
    def answer(request: Request) -> dict[str, Any]:
        (topic,) = request.data["topics"]
        partition = {"partition_index": 0, "error_code": 0, "high_watermark": -1, "last_stable_offset": -1,
                     "log_start_offset": 0, "aborted_transactions": [], "records": b"", **ends}
        return {"throttle_time_ms": 0, "error_code": 0, "session_id": 0, "responses": [
            {"topic_id": topic["topic_id"], "partitions": [partition]}]}

    return answer


def tiered_below(offset: int) -> Callable[[Request], dict[str, Any] | None]:
    """Return what answers a ListOffsets that asks where the local log of `t` begins, and no other."""
    def answer(request: Request) -> dict[str, Any] | None:
        if request.data["topics"][0]["partitions"][0]["timestamp"] != -4:
            return None
        return {"throttle_time_ms": 0, "topics": [{"name": "t", "partitions": [
            {"partition_index": 0, "error_code": 0, "timestamp": -1, "offset": offset, "leader_epoch": 0}]}]}

    return answer


@pytest.mark.parametrize("tiered", [1, len(VALUES)], ids=["in part", "all"])
def test_answer_when_tiered_storage_is_late_then_it_is_asked_again(start_broker: StartBroker, tiered: int) -> None:
    """A broker whose remote read is not back in time answers with no records and the usual high watermark (Java
    DelayedRemoteFetch): read_topic ended there without an error, though nothing was read yet."""
    broker = start_broker(topics={"t": 1})
    filled(broker)
    broker.faults.on("ListOffsets", times=None).call(tiered_below(tiered))
    late = broker.faults.on("Fetch", times=3).call(without_records(high_watermark=len(VALUES)))
    assert [record.value for record in read_topic(broker.bootstrap_servers, "t")] == VALUES
    assert late.count == 3


def test_answer_when_tiered_storage_never_answers_then_the_timeout_is_an_error(start_broker: StartBroker) -> None:
    broker = start_broker(topics={"t": 1})
    filled(broker)
    broker.faults.on("ListOffsets", times=None).call(tiered_below(1))
    broker.faults.on("Fetch", times=None).call(without_records(high_watermark=len(VALUES)))
    with pytest.raises(KafkaTimeoutError, match=r"t-0 gave nothing from offset 0 for 0\.2 s, although it ends at 50"):
        list(read_topic(broker.bootstrap_servers, "t", timeout=0.2))


def test_answer_when_the_broker_is_older_than_tiered_storage_then_it_is_not_asked_for_it(
        start_broker: StartBroker) -> None:
    broker = start_broker(topics={"t": 1})
    filled(broker)
    broker.set_api_versions({ApiKeys.LIST_OFFSETS: (0, 7)})
    asked = broker.faults.on("ListOffsets", times=None).delay(0)
    broker.faults.on("Fetch").call(without_records(high_watermark=len(VALUES)))
    assert list(read_topic(broker.bootstrap_servers, "t")) == []
    assert asked.count == 2, "for the start and the end"


@pytest.mark.parametrize("version", [4, 7, 12, 18])
def test_client_when_it_is_throttled_then_all_is_read_all_the_same(start_broker: StartBroker, version: int) -> None:
    """The answer has a throttle time and no topics, and read_topic() said that the broker leaves the partition out."""
    broker = start_broker(topics={"t": 1}, log_requests=True)
    filled(broker)
    broker.set_api_versions({ApiKeys.FETCH: (0, version)})
    throttled = broker.faults.on("Fetch", times=2).throttle(1)
    assert [record.value for record in read_topic(broker.bootstrap_servers, "t")] == VALUES
    assert throttled.count == 2
    assert versions_asked(broker)[-1] == {version}


def test_client_when_it_is_throttled_for_longer_than_the_timeout_then_said_so(start_broker: StartBroker) -> None:
    broker = start_broker(topics={"t": 1})
    filled(broker)
    broker.faults.on("Fetch", times=None).throttle(1)
    with pytest.raises(KafkaTimeoutError, match=r"t-0 gave nothing from offset 0 for 0\.2 s, .*: .*quota"):
        list(read_topic(broker.bootstrap_servers, "t", timeout=0.2))


@pytest.mark.parametrize(("api", "rows", "words"), [
    (ApiKeys.METADATA, {"topics": []}, "Metadata: the answer leaves t out"),
    (ApiKeys.LIST_OFFSETS, {"topics": []}, "ListOffsets: the answer leaves t-0 out"),
    (ApiKeys.LIST_OFFSETS, {"topics": [{"name": "t", "partitions": []}]}, "ListOffsets: the answer leaves t-0 out"),
    (ApiKeys.FETCH, {"throttle_time_ms": 0, "responses": []}, "Fetch: the answer leaves t-0 out"),
    (ApiKeys.FETCH, {"throttle_time_ms": 0, "responses": [{"topic": "t", "partitions": []}]},
     "Fetch: the answer leaves t-0 out")])
def test_answer_when_it_leaves_out_what_was_asked_for_then_said_so(
        start_broker: StartBroker, monkeypatch: pytest.MonkeyPatch, api: ApiKeys, rows: dict[str, object],
        words: str) -> None:
    """It was an IndexError, which is none of the errors that read_topic() tells of."""
    broker = start_broker(topics={"t": 1})
    filled(broker)
    ask = BlockingClient.ask

    def shortened(client: BlockingClient, connection: Connection, asked: ApiKeys, *body: Any, **how: Any) -> Answer:
        answer = ask(client, connection, asked, *body, **how)
        return Answer(answer.version, cast("Any", rows)) if asked is api else answer

    monkeypatch.setattr(BlockingClient, "ask", shortened)
    with pytest.raises(RemoteProtocolError, match=words):
        list(read_topic(broker.bootstrap_servers, "t"))


@pytest.mark.parametrize("api", [ApiKeys.LIST_OFFSETS, ApiKeys.FETCH])
@pytest.mark.parametrize("when", ["before_apply", "after_apply"])
def test_connection_when_closed_instead_of_an_answer_then_the_request_is_named(
        start_broker: StartBroker, api: ApiKeys, when: str) -> None:
    broker = start_broker(topics={"t": 1})
    filled(broker)
    broker.faults.on(api).close(when)
    with pytest.raises(DisconnectedError, match=rf"{api.name} v\d+, 0 bytes"):
        list(read_topic(broker.bootstrap_servers, "t"))


def test_connection_when_cut_while_the_records_are_looked_at_then_said_so(start_broker: StartBroker) -> None:
    broker = start_broker(topics={"t": 2})
    filled(broker)
    records = read_topic(broker.bootstrap_servers, "t")
    next(records)
    broker.stop()
    with pytest.raises(DisconnectedError, match="FETCH v18"):
        list(records)


def test_answer_when_it_is_another_requests_then_refused(start_broker: StartBroker) -> None:
    broker = start_broker(topics={"t": 1})
    broker.faults.on("Metadata").wrong_correlation_id()
    with pytest.raises(CorrelationIdMismatchError, match="instead of"):
        list(read_topic(broker.bootstrap_servers, "t"))


def test_answer_when_none_comes_then_given_up_after_the_timeout(start_broker: StartBroker) -> None:
    broker = start_broker(topics={"t": 1})
    filled(broker)
    broker.faults.on("Fetch").drop()
    with pytest.raises(KafkaTimeoutError, match=r"did not answer FETCH v18 within 0\.2 s") as caught:
        list(read_topic(broker.bootstrap_servers, "t", timeout=0.2))
    assert caught.value.phase == "request"


def test_answer_when_it_comes_slowly_then_each_byte_is_progress() -> None:
    """The timeout is one without progress, or nobody could read a large batch over a slow line."""
    def serve() -> None:
        connection, _ = listener.accept()
        with connection:
            (correlation_id,) = struct.unpack_from(">i", connection.recv(1 << 16), 8)
            answer = b"".join(build_response(ApiKeys.API_VERSIONS, 4, correlation_id, {
                "error_code": 0, "throttle_time_ms": 0,
                "api_keys": [{"api_key": 18, "min_version": 0, "max_version": 4}] * 4}))
            for byte in struct.pack(">i", len(answer)) + answer:
                connection.sendall(bytes([byte]))
                time.sleep(0.06)
            connection.recv(1)  # the client's end

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve)
        thread.start()
        with pytest.raises(UnsupportedVersionError, match="does not support METADATA"):
            list(read_topic(f"127.0.0.1:{listener.getsockname()[1]}", "t", timeout=1.5))
        thread.join()


def test_address_when_it_is_no_broker_then_said_what_it_is() -> None:
    with closed_port() as server, pytest.raises(DisconnectedError, match="nothing listens there"):
        list(read_topic(server, "t"))
    with hanging_up_server() as server, pytest.raises(DisconnectedError, match="right after the first request"):
        list(read_topic(server, "t"))
    with http_server() as server, pytest.raises(Exception, match="seems to speak HTTP"):
        list(read_topic(server, "t"))
    with silent_server() as server, pytest.raises(KafkaTimeoutError, match=r"API_VERSIONS v4 within 0\.2 s"):
        list(read_topic(server, "t", timeout=0.2))
    with black_hole() as server, pytest.raises(KafkaTimeoutError, match=r"no connection to 127\.0\.0\.1 within 0\.2 s"):
        list(read_topic(server, "t", timeout=0.2))


def test_addresses_when_the_first_ones_do_not_answer_then_the_next_is_asked(start_broker: StartBroker) -> None:
    broker = start_broker(topics={"t": 1})
    filled(broker)
    with closed_port() as closed, silent_server() as silent, hanging_up_server() as rude:
        servers = f"{closed},{rude},{silent},{broker.bootstrap_servers}"
        assert [record.value for record in read_topic(servers, "t", timeout=2)] == VALUES
        with pytest.raises(DisconnectedError, match=f"no broker could be reached: {closed}: .*; {rude}: "):
            list(read_topic(f"{closed},{rude}", "t"))


@pytest.mark.parametrize("hosts", [("127.0.0.2", "127.0.0.1"), ("127.0.0.1", "127.0.0.2")], ids=["second", "first"])
def test_name_when_one_of_its_addresses_refuses_then_the_other_is_tried(
        start_broker: StartBroker, monkeypatch: pytest.MonkeyPatch, hosts: tuple[str, ...]) -> None:
    broker = start_broker(topics={"t": 1})
    filled(broker)
    monkeypatch.setattr(blocking_client, "resolve_host", lambda name, port: [
        ResolvedAddress(socket.AF_INET, (host, port)) for host in hosts])
    assert [record.value for record in read_topic(f"broker:{broker.port}", "t")] == VALUES


def test_name_when_it_does_not_resolve_then_said_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def resolve_host(name: str, port: int) -> list[ResolvedAddress]:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(blocking_client, "resolve_host", resolve_host)
    with pytest.raises(DisconnectedError, match="broker:9092: DNS: the host name does not resolve"):
        list(read_topic("broker:9092", "t"))


def test_iterator_when_closed_early_then_no_connection_is_left(start_broker: StartBroker) -> None:
    broker = start_broker(topics={"t": 1})
    filled(broker)
    records = read_topic(broker.bootstrap_servers, "t")
    assert next(records).value == VALUES[0]
    assert isinstance(records, Generator)
    records.close()  # a socket left behind fails the test
    assert list(records) == []
    untouched = read_topic(broker.bootstrap_servers, "t")
    assert isinstance(untouched, Generator)
    untouched.close()
