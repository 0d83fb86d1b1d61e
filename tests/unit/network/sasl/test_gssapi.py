"""Kerberos without Kerberos: the package gssapi is a stand-in here. With a KDC: tests/kafka/test_kerberos.py."""

from __future__ import annotations

import contextlib
import pickle
import sys
import threading
import types
from pathlib import Path
from typing import Any

import pytest

from pyproducer.common.errors import AuthenticationError, ConfigError, TransportError
from pyproducer.network.sasl import gssapi as ours
from pyproducer.network.sasl.gssapi import GssapiSaslClient, Ticket, TicketSource, gssapi_login
from pyproducer.producer.config import ProducerConfig
from tests.support.clock import ManualClock
from tests.support.patience import GIVE_UP_S
from tests.unit.network.sasl.logins import NoThread

MODULE = "com.sun.security.auth.module.Krb5LoginModule"


class GSSError(Exception):
    def __init__(self, text: str, minor: int) -> None:
        super().__init__(text)
        self.min_code = minor & 0xFFFFFFFF  # as the library tells it


class Wrapped:
    def __init__(self, message: bytes) -> None:
        self.message = message


class Context:
    """A context that stands after the broker's first answer; wrapping puts a letter in front."""

    def __init__(self, **made_with: Any) -> None:
        if made_with["name"].endswith("@refused"):
            raise GSSError("Invalid credential was supplied", 0)
        self.made_with = made_with
        self.stepped: list[bytes | None] = []
        self.threads: list[str] = []
        self.complete = False

    def step(self, token: bytes | None) -> bytes | None:
        self.stepped.append(token)
        self.threads.append(threading.current_thread().name)
        if token is None and self.made_with["name"].endswith("@unknown"):
            raise GSSError("Server not found in Kerberos database", -1765328377)
        if token is None and self.made_with["name"].endswith("@unreached"):
            raise GSSError("Cannot contact any KDC", -1765328228)
        if token == b"forged":
            raise GSSError("Token was replayed", 0)
        self.complete = token is not None
        return b"AP-REQ" if token is None else None

    def wrap(self, message: bytes, encrypt: bool) -> Wrapped:
        assert not encrypt
        return Wrapped(b"W" + message)

    def unwrap(self, message: bytes) -> Wrapped:
        if not message.startswith(b"W"):
            raise GSSError("A token had an invalid MIC", 0)
        return Wrapped(message[1:])


@pytest.fixture
def stand_in(monkeypatch: pytest.MonkeyPatch) -> Any:
    module: Any = types.ModuleType("gssapi")
    module.exceptions = types.SimpleNamespace(GSSError=GSSError)
    module.NameType = types.SimpleNamespace(kerberos_principal="principal", hostbased_service="service")
    module.MechType = types.SimpleNamespace(kerberos="krb5")
    module.RequirementFlag = types.SimpleNamespace(mutual_authentication=2, integrity=32)
    module.Name = lambda text, kind: f"{kind}:{text}"
    module.SecurityContext = Context
    module.made = []
    module.outcome = types.SimpleNamespace(name="ada@REALM", lifetime=3600)

    def credentials(**made_with: Any) -> Any:
        module.made.append(made_with)
        if isinstance(module.outcome, Exception):
            raise module.outcome
        return types.SimpleNamespace(inquire=lambda **_: module.outcome)

    module.Credentials = credentials
    monkeypatch.setitem(sys.modules, "gssapi", module)
    monkeypatch.setattr(ours.importlib.util, "find_spec", lambda name: object())
    return module


# The mechanism --------------------------------------------------------------------------------------------------------

def client_of(stand_in: Any, host: str = "broker-1") -> GssapiSaslClient:
    return GssapiSaslClient(Ticket(None, "ada@REALM", "credentials"), "kafka", host)


def test_exchange_when_the_broker_offers_no_layer_then_that_is_chosen_and_it_is_complete(stand_in):
    client = client_of(stand_in)
    context = client._context
    assert context.made_with["name"] == "service:kafka@broker-1"
    assert context.made_with["creds"] == "credentials"
    assert context.made_with["usage"] == "initiate"
    assert context.stepped == [None], "what asks the KDC is done before the exchange begins"
    assert client.evaluate_challenge(b"") == b"AP-REQ"
    assert client.evaluate_challenge(b"AP-REP") == b""
    assert context.stepped == [None, b"AP-REP"]
    assert not client.complete
    assert client.evaluate_challenge(b"W\x07\x00\xff\xff") == b"W\x01\x00\x00\x00"
    assert client.complete


@pytest.mark.parametrize(("offer", "why"), [
    (b"W\x06\x00\xff\xff", "takes connections with a layer"),
    (b"W\x01", "in 1 bytes, not 4"),
    (b"W", "in 0 bytes, not 4"),
    (b"forged", "invalid MIC"),
])
def test_exchange_when_the_offer_is_not_good_then_it_is_refused(stand_in, offer, why):
    client = client_of(stand_in)
    client.evaluate_challenge(b"")
    client.evaluate_challenge(b"AP-REP")
    with pytest.raises(AuthenticationError, match=why):
        client.evaluate_challenge(offer)
    assert not client.complete


@pytest.mark.parametrize(("host", "kind", "why"), [
    ("unknown", AuthenticationError, "as ada@REALM with kafka@unknown: Server not found"),
    ("unreached", TransportError, "as ada@REALM with kafka@unreached: no KDC is reached"),
    ("refused", AuthenticationError, "as ada@REALM with kafka@refused: Invalid credential"),
])
def test_client_when_the_library_cannot_make_it_then_the_error_is_ours_and_names_the_broker(stand_in, host, kind, why):
    """What the making of a context raised ended the sender's turn as an error that nobody knows."""
    with pytest.raises(kind, match=why) as caught:
        client_of(stand_in, host)
    assert type(caught.value) is kind


def test_exchange_when_the_library_refuses_the_brokers_token_then_the_error_is_ours(stand_in):
    client = client_of(stand_in)
    client.evaluate_challenge(b"")
    with pytest.raises(AuthenticationError, match="as ada@REALM with kafka@broker-1: Token was replayed"):
        client.evaluate_challenge(b"forged")


@pytest.mark.parametrize(("minor", "kind", "word"), [
    (-1765328228, TransportError, "no KDC is reached"),
    (-1765328347, AuthenticationError, "compare this machine's clock"),
    (-1765328378, AuthenticationError, "the text"),
    (0, AuthenticationError, "the text"),
])
def test_failure_when_the_library_tells_one_then_only_a_kdc_that_is_away_may_pass(minor, kind, word):
    error = ours.failure_of(GSSError("the text\nof it", minor), "no ticket")
    assert type(error) is kind
    assert word in str(error)
    assert "\n" not in str(error)


# Tickets --------------------------------------------------------------------------------------------------------------

@pytest.fixture
def keytab(tmp_path: Path) -> Path:
    path = tmp_path / "keytab"
    path.write_bytes(b"key")
    return path


def test_ticket_when_it_comes_by_a_keytab_then_each_has_a_cache_of_its_own(stand_in, keytab):
    source = TicketSource({"useKeyTab": "true", "keyTab": f"file:{keytab}", "principal": "ada@REALM"},
                          ManualClock())
    ticket = source.fetch()
    assert (ticket.principal, ticket.expires_at_ms) == ("ada@REALM", 1_700_003_600_000)
    source.fetch()
    stores = [made["store"] for made in stand_in.made]
    assert {store["client_keytab"] for store in stores} == {str(keytab)}
    assert len({store["ccache"] for store in stores}) == 2
    assert stand_in.made[0]["name"] == "principal:ada@REALM"
    with pytest.raises(TypeError, match="pickled"):
        pickle.dumps(ticket)


def test_ticket_when_it_lies_in_a_cache_then_kinit_renews_it_from_the_second_time_on(stand_in, tmp_path, caplog):
    kinit = tmp_path / "kinit"
    kinit.write_text(f"#!/bin/sh\necho \"$@\" >> {tmp_path}/asked\necho no >&2\nexit 1\n")
    kinit.chmod(0o700)
    source = TicketSource({"useTicketCache": "true", "ticketCache": "FILE:/cache"}, ManualClock(), kinit=str(kinit))
    source.fetch()
    assert not (tmp_path / "asked").exists()
    source.fetch()
    assert (tmp_path / "asked").read_text() == "-R -c FILE:/cache\n"
    assert "kinit -R failed: no" in caplog.text
    assert stand_in.made[0]["store"] == {"ccache": "FILE:/cache"}


def test_ticket_when_there_is_none_then_the_error_says_where_it_was_looked_for(stand_in, keytab):
    stand_in.outcome = GSSError("No credentials cache found", -1765328189)
    with pytest.raises(AuthenticationError, match="no ticket in the cache FILE:/cache: No credentials"):
        TicketSource({"useTicketCache": "true", "ticketCache": "FILE:/cache"}, ManualClock()).fetch()
    with pytest.raises(AuthenticationError, match="the keytab /nowhere cannot be read"):
        TicketSource({"useKeyTab": "true", "keyTab": "/nowhere", "principal": "ada"}, ManualClock()).fetch()


# Settings -------------------------------------------------------------------------------------------------------------

def settings(options: str | None, **more: Any) -> ProducerConfig:
    jaas = {} if options is None else {"sasl.jaas.config": f"{MODULE} required {options};"}
    return ProducerConfig({"bootstrap.servers": "localhost:9092", "security.protocol": "SASL_SSL", **jaas, **more})


def test_login_when_the_settings_are_whole_then_it_fetches_a_ticket_and_shows_it(stand_in, keytab):
    login = gssapi_login(settings(f'useKeyTab=true keyTab="{keytab}" principal="ada@REALM" serviceName=kafka'),
                         clock=ManualClock(), start_thread=NoThread())
    login.start(lambda: None)
    assert login.run_once() > 0
    assert not login.is_ready_for("broker-1")
    login.run_once()
    assert login.new_client("broker-1").evaluate_challenge(b"") == b"AP-REQ"
    assert login.mechanism == "GSSAPI"


def test_ticket_for_a_broker_when_it_is_fetched_then_on_the_logins_thread(stand_in, keytab):
    """The sender waited for the KDC, and with it every record to every other broker."""
    changed = threading.Event()
    with contextlib.closing(gssapi_login(settings(
            f'useKeyTab=true keyTab="{keytab}" principal="ada@REALM" serviceName=kafka'))) as login:
        login.start(changed.set)
        while not login.is_ready_for("broker-1"):
            assert changed.wait(GIVE_UP_S)
            changed.clear()
        client = login.new_client("broker-1")
        assert client.evaluate_challenge(b"") == b"AP-REQ"
        assert client._context.threads == ["kafka-producer-login | GSSAPI"]


@pytest.mark.parametrize(("options", "more", "why"), [
    (None, {"sasl.kerberos.service.name": "kafka"}, "it is the default: .*Krb5LoginModule"),
    ("useTicketCache=true", {}, r"service\.name: it is required"),
    ("useTicketCache=true serviceName=a", {"sasl.kerberos.service.name": "b"}, "contradicts the option serviceName"),
    ("serviceName=kafka", {}, "nobody is asked for a password"),
    ("serviceName=kafka useKeyTab=true", {}, "needs the options keyTab and principal"),
])
def test_settings_when_they_say_too_little_then_it_is_said_at_once(stand_in, options, more, why):
    with pytest.raises(ConfigError, match=why):
        gssapi_login(settings(options, **more))


def test_package_when_it_is_not_installed_then_it_is_said_what_to_install(monkeypatch):
    monkeypatch.setattr(ours.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"pip install 'pyproducer\[kerberos\]'.*libkrb5-dev"):
        gssapi_login(settings("useTicketCache=true serviceName=kafka"))
