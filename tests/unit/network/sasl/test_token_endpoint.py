"""What a token endpoint may answer, from a real one on loopback; each wrong answer has an error of its own."""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
import traceback
from collections.abc import Iterator

import pytest

from pyproducer.common.errors import NOT_SENT, AuthenticationError, ConfigError, KafkaError, TransportError
from pyproducer.network.sasl.client_credentials import ClientCredentials
from pyproducer.network.sasl.token_endpoint import MOST_BYTES, Timeouts, TokenEndpoint, checked_url
from tests.support.bad_servers import closed_port
from tests.support.certificates import Certificates
from tests.support.clock import ManualClock
from tests.support.issuer import Answer, Issuer, json_answer
from tests.support.patience import GIVE_UP_S

SECRET = "hunter2+/="
REQUEST = ClientCredentials("the-client", SECRET, "produce describe")
PATIENT = Timeouts(30, 30)


@pytest.fixture
def issuer(monkeypatch: pytest.MonkeyPatch) -> Iterator[Issuer]:
    monkeypatch.setenv("no_proxy", "localhost,127.0.0.1")
    with Issuer() as running:
        yield running


def asked(issuer: Issuer, request: ClientCredentials = REQUEST, timeouts: Timeouts = PATIENT) -> str:
    return TokenEndpoint(issuer.token_url, request, timeouts=timeouts).jwt()


def error_of(issuer: Issuer, answer: Answer, timeouts: Timeouts = PATIENT) -> KafkaError:
    issuer.answer = lambda asked: answer
    with pytest.raises(KafkaError) as raised:
        asked(issuer, timeouts=timeouts)
    told = traceback.TracebackException.from_exception(raised.value)
    assert SECRET not in "".join(told.format())
    assert raised.value.outcome == NOT_SENT
    return raised.value


def test_request_when_a_token_is_asked_for_then_it_is_rfc_6749s(issuer):
    token = asked(issuer)
    assert token.count(".") == 2
    (request,) = issuer.asked
    assert request.form == {"grant_type": "client_credentials", "scope": "produce describe"}
    assert request.basic == f"the-client:{SECRET}"
    assert request.headers["accept"] == "application/json"
    assert request.headers["content-type"] == "application/x-www-form-urlencoded"


def test_request_when_the_header_is_urlencoded_then_id_and_secret_are(issuer):
    asked(issuer, ClientCredentials("the client", SECRET, urlencodes_header=True))
    assert issuer.asked[0].basic == "the+client:hunter2%2B%2F%3D"
    assert issuer.asked[0].form == {"grant_type": "client_credentials"}


def test_answer_when_it_has_an_id_token_only_then_that_is_taken(issuer):
    issuer.answer = lambda asked: json_answer(201, {"id_token": " a.b.c "})
    assert asked(issuer) == "a.b.c"


@pytest.mark.parametrize(("status", "kind", "why"), [
    (400, AuthenticationError, "sasl.oauthbearer.scope"),
    (401, AuthenticationError, "Client id or secret are wrong"),
    (403, AuthenticationError, "ask who runs the issuer"),
    (404, AuthenticationError, "It is not there"),
    (405, AuthenticationError, "no token endpoint"),
    (501, AuthenticationError, "HTTP 501"),
    (408, TransportError, "HTTP 408"),
    (429, TransportError, "HTTP 429"),
    (500, TransportError, "fails with HTTP 500"),
    (503, TransportError, "fails with HTTP 503"),
])
def test_answer_when_it_is_an_error_then_4xx_are_refusals_and_5xx_may_pass(issuer, status, kind, why):
    error = error_of(issuer, json_answer(status, {"error": "invalid_thing", "error_description": "so it is"}))
    assert type(error) is kind
    assert error.retriable == (kind is TransportError)
    assert why in str(error)
    assert "invalid_thing: so it is" in str(error)


def test_answer_when_the_issuer_repeats_the_secret_then_the_error_does_not(issuer):
    error = error_of(issuer, json_answer(401, {"error": f"client_secret {SECRET} is wrong\n\x1b[31m"}))
    assert "client_secret [hidden] is wrong\\n\\x1b" in str(error)


@pytest.mark.parametrize("body", [b"", b"<html>login</html>", b"[1]", b"[" * 100_000, b"\xff\xfe"])
def test_answer_when_it_is_no_json_object_then_it_may_pass_and_a_proxy_is_suspected(issuer, body):
    error = error_of(issuer, Answer(200, body))
    assert isinstance(error, TransportError)
    assert "something else than a JSON object" in str(error)


def test_answer_when_it_has_no_token_then_the_error_says_what_it_has(issuer):
    error = error_of(issuer, json_answer(200, {"accessToken": "a.b.c", "access_token": "  ", "id_token": 5}))
    assert "it has accessToken, access_token, id_token" in str(error)
    assert "a.b.c" not in str(error)


def test_answer_when_it_is_huge_then_it_is_not_read_to_its_end(issuer):
    error = error_of(issuer, Answer(200, b"{" + b" " * (2 * MOST_BYTES)))
    assert isinstance(error, TransportError)
    assert f"more than {MOST_BYTES} bytes" in str(error)


def test_answer_when_it_is_a_redirection_then_the_secret_does_not_go_there(issuer):
    error = error_of(issuer, Answer(307, headers={"Location": issuer.token_url + "?elsewhere"}))
    assert "redirection" in str(error)
    assert isinstance(error, AuthenticationError)
    assert len(issuer.asked) == 1


def test_issuer_when_it_is_slow_then_the_error_names_the_timeouts(issuer):
    let_go = threading.Event()
    error = error_of(issuer, Answer(200, before=lambda: let_go.wait(GIVE_UP_S)), Timeouts(30, 0.05))
    let_go.set()
    assert "sasl.login.read.timeout.ms is 50" in str(error)
    assert isinstance(error, TransportError)


class Running(ManualClock):
    """A clock that goes on whenever it is looked at: once when an answer begins, and before each piece of it."""

    def __init__(self, step_ms: int) -> None:
        super().__init__()
        self._step_ms = step_ms

    def now_ms(self) -> int:
        self.advance(self._step_ms)
        return super().now_ms()


@contextlib.contextmanager
def endless(begin: bytes, piece: bytes) -> Iterator[str]:
    """The address of who answers, and never comes to an end."""
    def serve() -> None:
        connection, _ = listener.accept()
        with connection, contextlib.suppress(OSError):
            connection.recv(65_536)
            connection.sendall(begin)
            while True:
                connection.sendall(piece)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve)
        thread.start()
        yield f"127.0.0.1:{listener.getsockname()[1]}"
        thread.join(GIVE_UP_S)


@pytest.mark.parametrize(("begin", "piece"), [
    (b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
    (b"HTTP/1.1 200 OK\r\nX: ", b"a"),
    (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"0"),
    (b"HTTP/1.1 200 OK\r\n\r\n", b" "),
], ids=["100 Continue", "a header", "the size of a chunk", "a body"])
def test_answer_when_it_does_not_end_then_it_is_given_up_in_time_wherever_it_is(monkeypatch, begin, piece):
    """The time of the body alone was limited: behind an endless header the login never tried again."""
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with endless(begin, piece) as address, pytest.raises(TransportError, match="does not answer in time"):
        TokenEndpoint(f"http://{address}/token", REQUEST, timeouts=PATIENT, clock=Running(30_000)).jwt()


def test_answer_when_a_proxys_does_not_end_then_it_is_given_up_in_time(monkeypatch):
    with endless(b"", b"HTTP/1.1 100 Continue\r\n\r\n") as address:
        monkeypatch.setenv("no_proxy", "")
        monkeypatch.setenv("https_proxy", f"http://{address}")
        with pytest.raises(TransportError, match="does not answer in time"):
            TokenEndpoint("https://issuer.invalid/token", REQUEST, timeouts=PATIENT, clock=Running(30_000)).jwt()


def test_answer_when_it_takes_as_long_as_it_may_then_it_is_read(issuer):
    issuer.answer = lambda asked: json_answer(200, {"access_token": "a.b.c"})
    assert TokenEndpoint(issuer.token_url, REQUEST, timeouts=PATIENT, clock=Running(1_000)).jwt() == "a.b.c"


def test_issuer_when_nobody_listens_then_the_error_says_so_and_may_pass():
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with pytest.raises(TransportError, match="cannot be reached: ConnectionRefusedError"):
        TokenEndpoint(f"http://127.0.0.1:{port}/token", REQUEST).jwt()


def test_issuer_when_it_hangs_up_then_it_may_pass(issuer):
    def hang_up() -> None:
        raise ConnectionAbortedError

    error = error_of(issuer, Answer(200, before=hang_up))
    assert isinstance(error, TransportError)
    assert "cannot be reached" in str(error)


@pytest.mark.parametrize(("answer", "step_ms"), [
    (Answer(401, b"{", {"Content-Length": "100"}), 0), (Answer(401, b"x" * (MOST_BYTES + 1)), 0),
    (Answer(401, b"x" * MOST_BYTES), 1_000)], ids=["breaks off", "huge", "slow"])
def test_answer_when_a_refusal_is_not_read_to_its_end_then_its_status_says_enough(issuer, answer, step_ms):
    issuer.answer = lambda asked: answer
    with pytest.raises(AuthenticationError, match="Client id or secret are wrong"):
        TokenEndpoint(issuer.token_url, REQUEST, timeouts=PATIENT, clock=Running(step_ms)).jwt()


def test_request_when_it_cannot_be_written_then_no_frame_with_the_secret_goes_with_the_error():
    """The host's name could not be encoded below urllib, whose frames hold the header with the secret."""
    with pytest.raises(TransportError, match=r"cannot be reached: Unicode(Encode)?Error") as raised:
        TokenEndpoint(f"http://{'x' * 64}/token", REQUEST).jwt()
    assert raised.value.__cause__ is None


def test_close_when_an_answer_is_awaited_then_the_request_is_broken_off(issuer):
    reached, let_go = threading.Event(), threading.Event()
    issuer.answer = lambda asked: Answer(200, before=lambda: reached.set() or let_go.wait(GIVE_UP_S))
    endpoint = TokenEndpoint(issuer.token_url, REQUEST, timeouts=Timeouts(60, 600))
    errors: list[Exception] = []

    def ask() -> None:
        try:
            endpoint.jwt()
        except KafkaError as error:
            errors.append(error)

    thread = threading.Thread(target=ask)
    thread.start()
    assert reached.wait(GIVE_UP_S)
    endpoint.close()
    thread.join(GIVE_UP_S)
    let_go.set()
    assert isinstance(errors[0], TransportError)


def test_proxy_when_the_environment_names_one_then_it_is_asked(issuer, monkeypatch):
    monkeypatch.setenv("no_proxy", "")
    monkeypatch.setenv("http_proxy", issuer.token_url.removesuffix("/token"))
    token = TokenEndpoint("http://issuer.invalid/token", REQUEST).jwt()
    assert token.count(".") == 2


@contextlib.contextmanager
def proxy(answer: bytes) -> Iterator[str]:
    """The address of a proxy that says the same to everybody."""
    def serve() -> None:
        connection, _ = listener.accept()
        with connection:
            connection.recv(65_536)
            connection.sendall(answer)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve)
        thread.start()
        yield f"127.0.0.1:{listener.getsockname()[1]}"
        thread.join(GIVE_UP_S)


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_proxy_when_it_wants_to_know_who_asks_then_the_issuer_has_refused_nobody(monkeypatch, scheme):
    """Over http it counted as the issuer's refusal, and failed what waited; over https it did not."""
    with proxy(b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n") as address:
        monkeypatch.setenv("no_proxy", "")
        monkeypatch.setenv(f"{scheme}_proxy", f"http://ada:{SECRET}@{address}")
        with pytest.raises(TransportError, match="407") as raised:
            TokenEndpoint(f"{scheme}://issuer.invalid/token", REQUEST, timeouts=PATIENT).jwt()
    assert type(raised.value) is TransportError
    assert f"{scheme}://issuer.invalid/token (asked through the proxy {address})" in str(raised.value)
    assert "hunter2" not in str(raised.value)


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_proxy_when_it_is_not_there_then_it_is_named(monkeypatch, scheme):
    """The issuer was told not to be reached, whom nobody had tried to reach."""
    with closed_port() as address:
        monkeypatch.setenv("no_proxy", "")
        monkeypatch.setenv(f"{scheme}_proxy", f"http://ada:hunter2@{address}")
        with pytest.raises(TransportError, match="ConnectionRefusedError") as raised:
            TokenEndpoint(f"{scheme}://issuer.invalid/token", REQUEST, timeouts=PATIENT).jwt()
    assert f"(asked through the proxy {address})" in str(raised.value)


@pytest.mark.parametrize("address", [
    "http://ada:hunter2", "http:/ada:hunter2", "http:x:hunter2", "http://ada:hunter2@127.0.0.1:port"])
def test_proxy_when_its_address_makes_no_sense_then_no_part_of_it_is_in_the_error(monkeypatch, address):
    monkeypatch.setenv("no_proxy", "")
    monkeypatch.setenv("http_proxy", address)
    with pytest.raises(TransportError, match="HTTP_PROXY") as raised:
        TokenEndpoint("http://issuer.invalid/token", REQUEST, timeouts=PATIENT).jwt()
    assert "hun" not in str(raised.value)


# TLS ------------------------------------------------------------------------------------------------------------------

@pytest.fixture
def secure_issuer(certificates: Certificates, monkeypatch: pytest.MonkeyPatch) -> Iterator[Issuer]:
    monkeypatch.setenv("no_proxy", "localhost,127.0.0.1")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificates.server.certificate, certificates.server.key)
    with Issuer(context) as running:
        yield running


def test_tls_when_the_authority_is_given_then_the_issuer_is_trusted(secure_issuer, certificates):
    settings = {"ssl.truststore.location": str(certificates.ca), "ssl.truststore.type": "PEM"}
    assert TokenEndpoint(secure_issuer.token_url, REQUEST, settings, PATIENT).jwt().count(".") == 2


def test_tls_when_the_authority_is_not_known_then_it_is_a_refusal_that_says_where_to_put_it(secure_issuer):
    with pytest.raises(AuthenticationError, match=r"did not prove who it is.*ssl\.truststore\.location among"):
        TokenEndpoint(secure_issuer.token_url, REQUEST, timeouts=PATIENT).jwt()


@pytest.mark.parametrize(("identity", "truststore", "words"), [
    ("misnamed_server", "ca", "certificate is not valid for 'localhost' (connect by a name that it shows"),
    ("expired_server", "ca", "certificate has expired (renew it, or check this machine's clock)"),
    ("server", "other_ca", "(put the authority's certificate into ssl.truststore.location"),
])
def test_tls_when_a_truststore_is_given_then_the_advice_is_another(
        certificates, monkeypatch, identity, truststore, words):
    """Whatever was wrong, it was said that the authorities are the system's, and that a truststore may be given."""
    monkeypatch.setenv("no_proxy", "localhost")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(getattr(certificates, identity).keystore)
    settings = {"ssl.truststore.location": str(getattr(certificates, truststore))}
    with Issuer(context) as running, pytest.raises(AuthenticationError, match="did not prove who it is") as raised:
        TokenEndpoint(running.token_url, REQUEST, settings, PATIENT).jwt()
    assert words in str(raised.value)
    assert "system's" not in str(raised.value)
    assert ".." not in str(raised.value)


def test_tls_when_the_settings_are_wrong_then_it_is_said_before_anybody_is_asked(tmp_path):
    with pytest.raises(ConfigError, match="cannot be read"):
        TokenEndpoint("https://localhost/token", REQUEST, {"ssl.truststore.location": str(tmp_path / "none.pem")})


# Settings -------------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize(("url", "why"), [
    ("ftp://issuer/token", "must begin with https://"),
    ("issuer/token", "must begin with https://"),
    ("https:///token", "names no host"),
    ("https://issuer:port/token", "no URL"),
    ("https://ada:hunter2@issuer/token", "user and password have no place"),
    ("file://elsewhere/token", "three slashes"),
    ("https://issuer..example/token", "no name of a host"),
    (f"https://{'x' * 64}/token", "no name of a host"),
    ("https://issuer/t\N{LATIN SMALL LETTER O WITH DIAERESIS}ken", "%-escapes"),
    ("https://issuer/a token", "%-escapes"),
])
def test_url_when_it_cannot_be_used_then_it_is_refused_at_once_without_its_secret(url, why):
    with pytest.raises(ConfigError, match=why) as raised:
        checked_url(url)
    assert "hunter2" not in str(raised.value)


@pytest.mark.parametrize(("client_id", "secret", "key"), [
    (" ", "x", "client.id"), ("x", " ", "client.secret")])
def test_credentials_when_one_is_missing_then_it_is_named(client_id, secret, key):
    with pytest.raises(ConfigError, match=key):
        ClientCredentials(client_id, secret)


@pytest.mark.parametrize("answer", [
    json_answer(401, {}), json_answer(503, {}), json_answer(200, {}), Answer(200, b"?"), Answer(307)])
def test_url_when_a_secret_is_in_its_query_then_no_message_has_it(issuer, answer):
    issuer.answer = lambda asked: answer
    endpoint = TokenEndpoint(f"{issuer.token_url}?code=hunter2", REQUEST, timeouts=PATIENT)
    with pytest.raises(KafkaError) as raised:
        endpoint.jwt()
    assert issuer.token_url in str(raised.value)
    assert "hunter2" not in f"{raised.value} {endpoint!r}"


def test_credentials_when_they_are_shown_then_the_secret_is_not():
    assert SECRET not in f"{REQUEST!r} {TokenEndpoint('https://localhost/token', REQUEST)!r}"
