"""Names that a broker tells go into logs and messages as one printable line each, whatever they are.

An advertised host with a newline wrote a line of its own into the log, `2026-01-01 CRITICAL root fake` for one; an ESC
painted the terminal.
"""

from __future__ import annotations

import logging
import socket
import ssl
from typing import Any

import pytest

from pyproducer.client.resolver import ResolvedAddress, resolve_host
from pyproducer.common.cluster import Node
from pyproducer.network.tls_failures import hung_up, tls_failure
from tests.unit.client.scripted_cluster import Setup, resolve_test_name, topic_row

EVIL = "evil\n2026-01-01 CRITICAL root fake\x1b[31m"


def resolve(host: str, port: int) -> list[ResolvedAddress]:
    if host.startswith("boot"):
        return resolve_test_name(host, port)
    if "unknown" in host:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
    return [ResolvedAddress(2, ("10.0.0.9", port))]


def setup_with(host: str) -> Setup:
    setup = Setup(resolve=resolve)
    setup.cluster.nodes = [Node(1, host, 9092), Node(2, host + "2", 9092)]
    setup.cluster.topics["t"] = topic_row("t", 1, 2)
    setup.bring_up("t")
    return setup


def everything_said(setup: Setup, caplog: pytest.LogCaptureFixture) -> list[str]:
    """What the client says of its nodes: log lines, errors, and the explanation for a timeout."""
    nodes = setup.metadata.cluster.nodes.values()
    errors = [setup.error_of(node) for node in nodes]
    return [*(record.getMessage() for record in caplog.records), *map(str, errors), *map(str, nodes),
            *setup.metadata.last_errors(), *setup.metadata.last_errors().values(),
            setup.metadata.describe_failure("t"), setup.metadata.describe_failure("other")]


def ends_by_dns(setup: Setup) -> None:
    assert not setup.client.ready(setup.metadata.cluster.nodes[1], setup.now_ms)


def ends_by_no_answer(setup: Setup) -> None:
    node = setup.make_ready(1)
    setup.cluster.answers_metadata = False
    setup.metadata.request_update()
    setup.clock.advance(1000)
    setup.poll(times=3)
    setup.clock.advance(40_000)
    setup.poll(times=3)
    assert setup.error_of(node) is not None


def ends_by_version(setup: Setup) -> None:
    setup.cluster.versions.clear()
    from pyproducer.protocol.apis import ApiKeys
    setup.cluster.versions[ApiKeys.API_VERSIONS] = (0, 4)
    node = setup.make_ready(1)
    setup.metadata.request_update()
    setup.clock.advance(1000)
    setup.poll(times=3)
    with pytest.raises(Exception, match="does not support METADATA"):
        setup.client.api_version(node.node_id, ApiKeys.METADATA)


@pytest.mark.parametrize(("host", "end"), [
    (f"unknown {EVIL}", ends_by_dns), (EVIL, ends_by_no_answer), (EVIL, ends_by_version)],
    ids=["dns", "no answer", "version"])
def test_host_when_it_holds_control_characters_then_no_line_of_the_log_or_of_an_error_does(
        host: str, end: Any, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    setup = setup_with(host)
    end(setup)
    said = everything_said(setup, caplog)
    assert any("CRITICAL root fake" in text for text in said)
    for text in said:
        assert text.isprintable()


def test_host_when_it_is_very_long_then_what_is_said_is_short(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    setup = setup_with("unknown" * 4000)
    ends_by_dns(setup)
    assert max(map(len, everything_said(setup, caplog))) < 1000


@pytest.mark.parametrize("host", ["a..b", "x" * 70, f"{EVIL}..", "h\u00f6st." * 80])
def test_resolve_when_no_name_can_be_so_then_the_error_is_short_and_printable(host: str) -> None:
    with pytest.raises(socket.gaierror) as caught:
        resolve_host(host, 9092)
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 600


def test_tls_when_the_name_does_not_fit_then_the_error_is_printable() -> None:
    error = ssl.SSLCertVerificationError()
    error.verify_code = 62
    error.verify_message = f"Hostname mismatch, certificate is not valid for '{EVIL}'."
    for said in (tls_failure(error, peer="10.0.0.1:9093", server_hostname=EVIL),
                 hung_up(peer="10.0.0.1:9093", server_hostname=EVIL, server_side=False)):
        assert str(said).isprintable()
        assert "CRITICAL root fake" in str(said)
