"""What is said of a certificate that was refused, made of facts that the peer may have chosen."""

from __future__ import annotations

import ssl

import pytest

from pyproducer.network.certificates import CertificateFacts, certificate_facts
from pyproducer.network.tls_failures import tls_failure

EXPIRED, NOT_YET, SELF_SIGNED, UNKNOWN, WRONG_NAME, WRONG_ADDRESS = 10, 9, 18, 20, 62, 64
LEAF = CertificateFacts("CN=kafka", "CN=middle", "Jan  1 00:00:00 2026 GMT", "Jan  1 00:00:00 2027 GMT", ("kafka",))
MIDDLE = CertificateFacts("CN=middle", "CN=root", "Jan  1 00:00:00 2025 GMT", "Jan  1 00:00:00 2028 GMT", ())
ROOT = CertificateFacts("CN=root", "CN=root", "Jan  1 00:00:00 2016 GMT", "Jan  1 00:00:00 2026 GMT", ())


def said(code: int, chain: list[CertificateFacts], trusted: list[CertificateFacts] | None = None) -> str:
    error = ssl.SSLCertVerificationError("x")
    error.verify_code, error.verify_message = code, "no good."
    return str(tls_failure(error, peer="10.0.0.1:9093", server_hostname="kafka", chain=chain, trusted=trusted or []))


def test_date_when_it_is_the_trusted_authoritys_then_it_is_named_although_the_peer_did_not_show_it() -> None:
    assert "that of CN=root has been so since Jan  1 00:00:00 2026 GMT" in said(EXPIRED, [LEAF, MIDDLE], [ROOT])
    other = ROOT._replace(subject="CN=other", not_after="Jan  1 00:00:00 2000 GMT")  # of no concern to this chain
    assert "that of CN=kafka has been so since" in said(EXPIRED, [LEAF, MIDDLE], [other])
    assert "that of CN=kafka counts from Jan  1 00:00:00 2026 GMT on" in said(NOT_YET, [LEAF, MIDDLE])


def test_date_when_the_peer_shows_what_is_not_on_the_path_then_that_is_not_named() -> None:
    """Servers often show an old certificate that nobody needs any more. It was named, and the one to renew was not."""
    old = CertificateFacts("CN=old", "CN=older", "Jan  1 00:00:00 2000 GMT", "Jan  1 00:00:00 2001 GMT", ())
    future = old._replace(not_before="Jan  1 00:00:00 2090 GMT", not_after="Jan  1 00:00:00 2091 GMT")
    assert "that of CN=kafka has been so since Jan  1 00:00:00 2027 GMT" in said(EXPIRED, [LEAF, old, MIDDLE])
    assert "that of CN=kafka counts from Jan  1 00:00:00 2026 GMT on" in said(NOT_YET, [LEAF, MIDDLE, future])
    # The same authority, signed by an older one: who trusts it looks no further.
    crossed = ROOT._replace(issuer="CN=older", not_after="Jan  1 00:00:00 2001 GMT")
    ours = ROOT._replace(not_after="Jan  1 00:00:00 2040 GMT")
    assert "that of CN=kafka has been" in said(EXPIRED, [LEAF, MIDDLE, crossed], [ours])
    assert "that of CN=root has been so since Jan  1 00:00:00 2001 GMT" in said(EXPIRED, [LEAF, MIDDLE, crossed])


def test_date_when_two_authorities_have_one_name_then_the_one_that_lasts_longer_counts() -> None:
    """So OpenSSL takes it, where an authority was renewed under its name and both are trusted."""
    renewed = ROOT._replace(not_after="Jan  1 00:00:00 2040 GMT")
    for trusted in ([ROOT, renewed], [renewed, ROOT]):
        assert "that of CN=kafka has been so since" in said(EXPIRED, [LEAF, MIDDLE], trusted)


def test_date_when_certificates_sign_each_other_then_each_is_looked_at_once() -> None:
    chain = [LEAF, MIDDLE, ROOT._replace(issuer="CN=middle")]
    assert "that of CN=root has been so since" in said(EXPIRED, chain)


def test_authority_when_it_is_not_known_then_who_signed_is_told_up_to_the_last() -> None:
    assert "CN=kafka is signed by CN=middle, and that in the end by CN=root" in said(UNKNOWN, [LEAF, MIDDLE])
    assert "CN=root is signed by CN=root (put it into ssl.truststore.location" in said(SELF_SIGNED, [ROOT])


def test_names_when_there_are_none_or_many_then_so_it_is_told() -> None:
    assert "that of CN=middle is for no host at all" in said(WRONG_NAME, [MIDDLE])
    organization = ((("organizationName", "Example"),),)
    assert "that of O=Example is for no host at all" in said(WRONG_NAME, [certificate_facts({"subject": organization})])
    many = LEAF._replace(names=tuple(f"host-{number}" for number in range(50)))
    assert "host-9, ... (connect" in said(WRONG_NAME, [many])
    assert "host-10" not in said(WRONG_NAME, [many])


@pytest.mark.parametrize("code", [EXPIRED, NOT_YET, UNKNOWN, WRONG_NAME, 99])
def test_chain_when_it_is_not_known_then_the_reason_stands_alone(code: int) -> None:
    assert "certificate verify failed: no good" in said(code, [])


@pytest.mark.parametrize("code", [EXPIRED, NOT_YET])
def test_date_when_it_makes_no_sense_then_it_is_not_told(code: int) -> None:
    facts = certificate_facts({"subject": ((("commonName", "kafka"),),), "notBefore": "Bad time value",
                               "notAfter": "Bad time value"})
    assert (facts.not_before, facts.not_after, facts.issuer) == ("", "", "(no name)")
    assert "Bad time" not in said(code, [facts])


def test_facts_when_the_peer_chose_them_then_printable() -> None:
    facts = certificate_facts({
        "subject": ((("commonName", "a\nWARNING b"),),), "issuer": ((("commonName", "\x1b[31m"),),),
        "subjectAltName": (("DNS", "evil\u2028name"), ("email", "x@y"), ("IP Address", "1.2.3.4"))})
    assert facts.subject == "CN=a\\nWARNING b"
    assert facts.issuer == "CN=\\x1b[31m"
    assert facts.names == ("evil\\u2028name", "1.2.3.4")


def test_names_when_no_dns_name_is_shown_then_the_common_name_counts_as_for_openssl_and_java() -> None:
    subject = ((("organizationName", "Example"),), (("commonName", "kafka.example.org"),))
    facts = certificate_facts({"subject": subject})
    assert facts.names == ("kafka.example.org",)
    assert "that of CN=kafka.example.org,O=Example is for kafka.example.org (" in said(WRONG_NAME, [facts])
    assert certificate_facts({"subject": subject, "subjectAltName": (("IP Address", "10.0.0.1"),)}).names == (
        "10.0.0.1", "kafka.example.org")
    assert certificate_facts({"subject": subject, "subjectAltName": (("DNS", "other"),)}).names == ("other",)


@pytest.mark.parametrize("address", ["127.0.0.1", "::1", "fe80::1"])
def test_names_when_the_common_name_is_an_address_then_it_counts_for_nothing_as_for_openssl_and_java(
        address: str) -> None:
    """It was told to be what the certificate is for, beside the error that it is not."""
    facts = certificate_facts({"subject": ((("commonName", address),),)})
    assert facts.names == ()
    assert f"that of CN={address} is for no host at all" in said(WRONG_ADDRESS, [facts])
    assert "needs this address in subjectAltName" in said(WRONG_ADDRESS, [facts])
    assert "subjectAltName" not in said(WRONG_NAME, [facts])


@pytest.mark.parametrize(("has_identity", "reason", "words"), [
    (False, "SSLV3_ALERT_BAD_CERTIFICATE", "the peer requires a certificate from us: set ssl.keystore.location"),
    (True, "SSLV3_ALERT_BAD_CERTIFICATE", "the peer refuses our certificate ("),
    (None, "SSLV3_ALERT_BAD_CERTIFICATE", "the peer refuses our certificate, or requires one and got none"),
    (True, "SSLV3_ALERT_HANDSHAKE_FAILURE", "or our certificate is none that it takes"),
    (False, "SSLV3_ALERT_HANDSHAKE_FAILURE", "or it requires a certificate from us (ssl.keystore.location)"),
])
def test_alert_when_it_may_mean_two_things_then_what_we_have_decides(has_identity: bool | None, reason: str,
                                                                     words: str) -> None:
    error = ssl.SSLError(1, "x")
    error.reason = reason
    assert words in str(tls_failure(error, peer="p", server_hostname="kafka", has_identity=has_identity))
