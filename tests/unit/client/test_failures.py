"""Why a connection ended, in words: what the peer's bytes say of it comes before what its silence may mean."""

import socket
import ssl

import pytest

from pyproducer.client.failures import (
    AUTHENTICATION,
    TLS,
    authentication_failure,
    connect_failure,
    dns_failure,
    early_end,
    negotiation_failure,
    request_failure,
)
from pyproducer.common.errors import DisconnectedError, InvalidReceiveError

HTTP = InvalidReceiveError("size 1213486160 is above the limit: the peer seems to speak HTTP")
ENDS = {
    "early": lambda cause: early_end("host:1", cause),
    "negotiation": lambda cause: negotiation_failure("host:1", cause),
    "request": lambda cause: request_failure("host:1", cause, in_flight="", first_metadata=False),
}


@pytest.mark.parametrize("end", ENDS)
def test_end_when_the_peer_spoke_another_protocol_then_that_is_said(end):
    failure = ENDS[end](HTTP)
    assert failure.text.startswith("the peer speaks HTTP, not Kafka: it is a web server or a proxy")
    assert failure.error is HTTP, "bytes that made no sense say more than a connection that ended"


@pytest.mark.parametrize(("end", "words"), [
    ("early", "the peer accepted the connection and closed it at once"),
    ("negotiation", "the peer closed the connection right after the first request (ApiVersions)"),
    ("request", "the peer closed the connection"),
])
def test_end_when_the_peer_said_nothing_then_what_that_may_mean(end, words):
    failure = ENDS[end](None)
    assert words in failure.text
    assert isinstance(failure.error, DisconnectedError)
    assert str(failure.error).startswith("host:1: ")


@pytest.mark.parametrize(("cause", "words"), [
    (ConnectionRefusedError(111, "Connection refused"), "Connection refused (nothing listens there"),
    (OSError("no reason"), "could not be connected: no reason"), (None, "could not be connected"),
])
def test_connect_when_it_fails_then_the_systems_words_or_what_there_is(cause, words):
    failure = connect_failure("host:1", None, cause)
    assert failure.text.startswith(words)
    assert failure.error.outcome == "not_sent"


@pytest.mark.parametrize(("cause", "words"), [
    (socket.gaierror(socket.EAI_AGAIN, "Temporary failure"), "the host name does not resolve (Temporary failure)"),
    (OSError("no words of the system"), "the host name does not resolve (no words of the system)"),
    (None, "the host name was not resolved within 300 ms (socket.connection.setup.timeout.ms); the name servers"),
])
def test_name_when_it_does_not_resolve_or_not_in_time_then_said_and_nothing_was_sent(cause, words):
    failure = dns_failure("host:1", cause, waited_ms=300)
    assert failure.summary.startswith(f"DNS: {words}")
    assert str(failure.error).startswith(f"host:1: DNS: {words}")
    assert failure.error.__cause__ is cause
    assert failure.error.outcome == "not_sent"


def test_cause_when_it_leads_in_a_circle_then_the_search_ends():
    """The sender's thread searched for ever; the authenticator made such an error of an answer that was not Kafka's."""
    first, second = DisconnectedError("no credentials"), ValueError("of the application")
    first.__cause__, second.__cause__ = second, first
    assert authentication_failure("host:1", first, is_advertised=True).phase == AUTHENTICATION


@pytest.mark.parametrize(("verify_code", "is_told"), [
    (62, True),    # X509_V_ERR_HOSTNAME_MISMATCH
    (64, True),    # X509_V_ERR_IP_ADDRESS_MISMATCH
    (10, False),   # X509_V_ERR_CERT_HAS_EXPIRED
    (20, False),   # X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY
    (63, False),   # X509_V_ERR_EMAIL_MISMATCH
])
@pytest.mark.parametrize("is_advertised", [False, True])
def test_certificate_when_it_is_for_another_name_that_a_broker_told_then_that_is_said(
        verify_code, is_told, is_advertised):
    error = ssl.SSLCertVerificationError("refused")
    error.verify_code = verify_code
    failure = authentication_failure("host:1", error, is_advertised=is_advertised)
    assert ("in its advertised.listeners" in failure.text) == (is_told and is_advertised)


@pytest.mark.parametrize("error", [
    ssl.SSLError(1, "no shared cipher"), ssl.SSLCertVerificationError("refused"), ssl.SSLEOFError(8, "cut off"),
], ids=repr)
def test_phase_when_the_error_is_one_of_tls_then_it_is_named(error):
    assert authentication_failure("host:1", error).phase == TLS


def test_phase_when_an_http_library_of_the_logins_failed_with_tls_then_it_is_authentication():
    """`requests` has an SSLError of its own: the TLS of the token's server is not that of the broker."""
    error = type("SSLError", (OSError,), {"__module__": "requests.exceptions"})("HTTPSConnectionPool(host='idp')")
    assert authentication_failure("host:1", error).phase == AUTHENTICATION
