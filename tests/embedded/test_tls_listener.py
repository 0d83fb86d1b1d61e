"""A listener with TLS beside one without: each tells its clients its own address."""

from __future__ import annotations

import ssl
from collections.abc import Callable

import pytest

from pyproducer.broker import EmbeddedBroker
from pyproducer.protocol.apis import ApiKeys
from pyproducer.record.batch_writer import build_batch
from tests.support.certificates import Certificates
from tests.support.patience import GIVE_UP_S
from tests.support.raw_client import RawClient, metadata_body, produce_body, produced

StartBroker = Callable[..., EmbeddedBroker]


def tls_broker(start_broker: StartBroker, certificates: Certificates, **config: object) -> EmbeddedBroker:
    return start_broker(topics={"orders": 1}, config={
        "listeners": "PLAINTEXT://127.0.0.1:0,SSL://127.0.0.1:0",
        "ssl.keystore.location": str(certificates.server.keystore),
        "ssl.truststore.location": str(certificates.ca), **config})


def tls_client(broker: EmbeddedBroker, certificates: Certificates, *, identity: bool = False) -> RawClient:
    context = ssl.create_default_context(cafile=str(certificates.ca))
    if identity:
        context.load_cert_chain(certificates.client.keystore)
    port = int(broker.bootstrap_servers_of("SSL").rpartition(":")[2])
    return RawClient(("127.0.0.1", port), ssl_context=context)


def test_tls_listener_serves_and_names_itself(start_broker: StartBroker, certificates: Certificates) -> None:
    broker = tls_broker(start_broker, certificates)
    big = build_batch([(1, b"k", bytes(500_000), ())])
    with tls_client(broker, certificates) as client:
        answer = client.request(ApiKeys.METADATA, 12, metadata_body("orders"))
        assert answer["brokers"][0]["port"] == int(broker.bootstrap_servers_of("SSL").rpartition(":")[2])
        for number in range(5):
            stored = produced(client.request(ApiKeys.PRODUCE, 9, produce_body("orders", 0, bytes(big))))
            assert (stored["error_code"], stored["base_offset"]) == (0, number)
    with RawClient(("127.0.0.1", broker.port)) as client:
        answer = client.request(ApiKeys.METADATA, 12, metadata_body("orders"))
        assert answer["brokers"][0]["port"] == broker.port


def test_tls_listener_that_wants_a_certificate(start_broker: StartBroker, certificates: Certificates) -> None:
    broker = tls_broker(start_broker, certificates, **{"ssl.client.auth": "required"})
    with tls_client(broker, certificates, identity=True) as client:
        assert client.request(ApiKeys.METADATA, 12, metadata_body("orders"))["topics"][0]["error_code"] == 0
    with pytest.raises((ssl.SSLError, ConnectionError)):  # noqa: SIM117 - what is raised where depends on timing
        with tls_client(broker, certificates) as client:
            client.request(ApiKeys.METADATA, 12, metadata_body("orders"))


def test_listeners_have_settings_of_their_own_and_the_principal_is_the_certificates(
        start_broker: StartBroker, certificates: Certificates) -> None:
    broker = start_broker(brokers=2, log_requests=True, config={
        "listeners": "PLAIN://127.0.0.1:0,OPEN://127.0.0.1:0,CLOSED://127.0.0.1:0",
        "listener.security.protocol.map": "PLAIN:PLAINTEXT,OPEN:SSL,CLOSED:SSL",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.key": certificates.server.key.read_text(),
        "ssl.keystore.certificate.chain": certificates.server.certificate.read_text(),
        "listener.name.closed.ssl.client.auth": "required",
        "listener.name.closed.ssl.enabled.protocols": "TLSv1.2",
        "listener.name.closed.ssl.truststore.certificates": certificates.ca.read_text()})
    context = ssl.create_default_context(cafile=str(certificates.ca))
    ports = {name: [int(server.rpartition(":")[2]) for server in broker.bootstrap_servers_of(name).split(",")]
             for name in ("PLAIN", "OPEN", "CLOSED")}
    with RawClient(("127.0.0.1", ports["OPEN"][0]), ssl_context=context) as client:
        answer = client.request(ApiKeys.METADATA, 12, metadata_body())
        assert [node["port"] for node in answer["brokers"]] == ports["OPEN"]
    context.load_cert_chain(certificates.client.keystore)
    with RawClient(("127.0.0.1", ports["CLOSED"][1]), ssl_context=context) as client:
        assert client._socket.version() == "TLSv1.2"
        answer = client.request(ApiKeys.METADATA, 12, metadata_body())
        assert [node["port"] for node in answer["brokers"]] == ports["CLOSED"]
    opened, closed = broker.requests(ApiKeys.METADATA)
    assert (opened.listener_name, opened.principal) == ("OPEN", "User:ANONYMOUS")
    assert (closed.listener_name, closed.principal, closed.node_id) == ("CLOSED", "User:CN=client", 2)


def test_plain_bytes_on_the_tls_listener_close_only_their_connection(
        start_broker: StartBroker, certificates: Certificates) -> None:
    broker = tls_broker(start_broker, certificates)
    with RawClient(("127.0.0.1", int(broker.bootstrap_servers_of("SSL").rpartition(":")[2]))) as plain:
        plain.send_request(ApiKeys.METADATA, 1, metadata_body())
        assert not plain.is_silent(for_s=GIVE_UP_S)
    with tls_client(broker, certificates) as client:
        assert client.request(ApiKeys.METADATA, 12, metadata_body("orders"))["topics"][0]["error_code"] == 0
