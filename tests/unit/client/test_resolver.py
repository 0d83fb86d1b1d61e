"""Lookups beside the sender: begun, joined, ended, whatever becomes of them."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
from typing import Any

import pytest

from pyproducer.client.resolver import (
    ResolvedAddress,
    ThreadedResolver,
    canonical_names,
    resolve_host,
    resolve_literal,
)
from pyproducer.common.threads import start_daemon
from tests.support.patience import GIVE_UP_S
from tests.unit.client.stepped_threads import SteppedThreads

ADDRESS = ResolvedAddress(socket.AF_INET, ("10.0.0.1", 9092))


class Asked:
    """A resolver over stepped threads, and what it asked of the system."""

    def __init__(self, *held_hosts: str, answer: Any = None) -> None:
        self.hosts: list[str] = []
        self.wakeups = 0
        self.threads = SteppedThreads()
        self.threads.held_hosts = set(held_hosts)
        self._answer = answer or (lambda: [ADDRESS])
        self.resolver = ThreadedResolver(self.wakeup, resolve=self.resolve, name_of=lambda resolved: "one.example",
                                         start_thread=self.threads)

    def wakeup(self) -> None:
        self.wakeups += 1

    def resolve(self, host: str, port: int) -> Any:
        self.hosts.append(host)
        return self._answer()


def test_lookup_when_the_host_is_a_literal_then_answered_at_once_without_a_thread():
    asked = Asked()
    assert asked.resolver.lookup("10.0.0.1", 9092).outcome == [ADDRESS]
    assert (asked.hosts, asked.threads.names, asked.wakeups) == ([], [], 0)


def test_lookup_when_the_name_is_being_resolved_then_its_end_wakes_the_sender():
    asked = Asked("slow")
    lookup = asked.resolver.lookup("slow", 9092)
    assert (lookup.outcome, asked.hosts, asked.wakeups) == (None, [], 0)
    asked.threads.end_lookup("slow")
    assert (lookup.outcome, asked.hosts, asked.wakeups) == ([ADDRESS], ["slow"], 1)
    assert asked.threads.names == ["kafka-producer-resolver | slow"]


def test_lookup_when_the_host_is_being_looked_up_then_joined_whatever_the_port():
    asked = Asked("slow", "other")
    first = asked.resolver.lookup("slow", 9092)
    other = asked.resolver.lookup("other", 9092)
    assert asked.resolver.lookup("slow", 9093) is first
    assert asked.resolver.canonical_names("fast", 9092).outcome == ["one.example"]
    asked.threads.end_lookup("other")
    assert asked.resolver.lookup("slow", 9092) is first
    assert other.outcome == [ADDRESS]


def test_lookup_when_the_one_before_has_ended_then_the_system_is_asked_again():
    asked = Asked()
    first = asked.resolver.lookup("fast", 9092)
    assert asked.resolver.lookup("fast", 9092) is not first
    assert asked.hosts == ["fast", "fast"]


def test_canonical_names_when_the_host_is_a_literal_then_they_take_a_thread_too():
    asked = Asked()
    assert asked.resolver.canonical_names("10.0.0.1", 9092).outcome == ["one.example"]
    assert asked.threads.names == ["kafka-producer-resolver | 10.0.0.1"]


def test_lookup_when_the_name_does_not_resolve_then_the_outcome_is_the_error():
    error = socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    def fail() -> Any:
        raise error

    asked = Asked(answer=fail)
    assert asked.resolver.lookup("bad", 9092).outcome is error
    assert asked.wakeups == 1


@pytest.mark.parametrize("error", [ValueError("embedded null byte"), OverflowError("port must be 0-65535")])
def test_lookup_when_the_name_cannot_be_asked_for_then_told_as_a_failure_of_it(error: Exception):
    def fail() -> Any:
        raise error

    outcome = Asked(answer=fail).resolver.lookup("bad", 9092).outcome
    assert isinstance(outcome, OSError)
    assert str(outcome) == f"{type(error).__name__}: {error}"
    assert outcome.__cause__ is error


@pytest.mark.parametrize("raised", [SystemExit, ZeroDivisionError])
def test_lookup_when_its_thread_ends_by_anything_else_then_it_ends_and_can_be_asked_for_again(
        raised: type[BaseException]):
    def fail() -> Any:
        raise raised

    asked = Asked("bad", answer=fail)
    lookup = asked.resolver.lookup("bad", 9092)
    with pytest.raises(raised):
        asked.threads.end_lookup("bad")
    assert isinstance(lookup.outcome, OSError)
    assert asked.wakeups == 1


def test_lookup_when_no_thread_can_be_started_then_the_sender_resolves_by_itself():
    """From Python 3.12 on an interpreter that shuts down starts none, and close() in an exit handler has records."""
    asked = Asked()
    asked.threads.limit = 0
    assert asked.resolver.lookup("fast", 9092).outcome == [ADDRESS]
    assert asked.resolver.lookup("fast", 9092).outcome == [ADDRESS]
    assert asked.hosts == ["fast", "fast"]


def test_thread_when_started_then_it_is_a_daemon():
    seen: list[threading.Thread] = []
    ended = threading.Event()

    def run() -> None:
        seen.append(threading.current_thread())
        ended.set()

    start_daemon(run, "a name")
    assert ended.wait(GIVE_UP_S)
    assert (seen[0].daemon, seen[0].name) == (True, "a name")
    seen[0].join(GIVE_UP_S)


def test_resolve_when_the_address_is_literal_then_the_resolver_is_not_asked(monkeypatch):
    asked = []
    real = socket.getaddrinfo

    def getaddrinfo(host, port, **options):
        asked.append(options.get("flags", 0))
        return real(host, port, **options)

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    assert resolve_host("127.0.0.1", 9092) == [ResolvedAddress(socket.AF_INET, ("127.0.0.1", 9092))]
    assert resolve_host("::1", 9092)[0].family == socket.AF_INET6
    assert asked == [socket.AI_NUMERICHOST] * 2


def test_resolve_when_a_host_has_both_families_then_ipv4_first_and_each_once(monkeypatch):
    def getaddrinfo(host, port, *, type, flags=0):
        if flags & socket.AI_NUMERICHOST:
            raise socket.gaierror(socket.EAI_NONAME, "not numeric")
        six = (socket.AF_INET6, type, 6, "", ("fe80::1", port, 0, 0))
        four = (socket.AF_INET, type, 6, "", ("10.1.1.1", port))
        return [six, four, six, (socket.AF_UNIX, type, 0, "", "/x")]

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    assert [resolved.address[0] for resolved in resolve_host("both", 1)] == ["10.1.1.1", "fe80::1"]


@pytest.mark.parametrize("host", ["a..b", "x" * 64 + ".example"])
def test_resolve_when_the_name_is_malformed_then_gaierror(host):
    with pytest.raises(socket.gaierror):
        resolve_host(host, 9092)


@pytest.mark.parametrize("host", ["slow.example", "a..b", "", "localhost", "1.2.3.4.example"])
def test_literal_when_the_host_is_a_name_then_nothing_and_nobody_is_asked(monkeypatch, host):
    real = socket.getaddrinfo

    def getaddrinfo(host, port, *, type, flags):
        assert flags == socket.AI_NUMERICHOST
        return real(host, port, type=type, flags=flags)

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    assert resolve_literal(host, 9092) == []


def test_port_when_replaced_then_the_rest_of_an_ipv6_address_stays():
    assert ResolvedAddress(10, ("fe80::1", 1, 2, 3)).with_port(9) == ResolvedAddress(10, ("fe80::1", 9, 2, 3))
    assert ResolvedAddress(2, ("10.0.0.1", 1)).with_port(9) == ResolvedAddress(2, ("10.0.0.1", 9))


def test_canonical_names_when_an_address_has_none_then_it_stays_literal():
    names = {"10.0.0.1": "one.example", "10.0.0.2": "two.example"}

    def resolve(host, port):
        return [ResolvedAddress(2, (address, port)) for address in ("10.0.0.1", "10.0.0.2", "10.0.0.3")]

    assert canonical_names("alias", 9092, resolve=resolve, name_of=lambda resolved: names.get(
        str(resolved.address[0]))) == ["one.example", "two.example", "10.0.0.3"]


def test_codec_of_names_when_the_module_is_imported_then_no_thread_has_to_import_it() -> None:
    program = "import pyproducer.client.resolver, sys; print('encodings.idna' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], stdout=subprocess.PIPE, check=True).stdout == b"True\n"
