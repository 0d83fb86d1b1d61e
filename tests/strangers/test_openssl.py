"""TLS with a server that is neither ours nor Java's: `openssl s_server`, and what is said when it refuses us."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from pyproducer import AuthenticationError, KafkaProducer
from tests.support.certificates import Certificates
from tests.support.sending import error_of_send

PATIENT_MS = 3_600_000
OPENSSL = shutil.which("openssl")
pytestmark = pytest.mark.skipif(OPENSSL is None, reason="openssl is not installed: apt-get install openssl")


@contextmanager
def s_server(certificates: Certificates, *options: str) -> Iterator[int]:
    """Run one on a port that the system chooses; yields the port."""
    server = certificates.server
    command = [str(OPENSSL), "s_server", "-accept", "127.0.0.1:0", "-cert", str(server.certificate), "-key",
               str(server.key), "-CAfile", str(certificates.ca), *options]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        try:
            assert process.stdout is not None
            for line in process.stdout:
                if line.startswith(b"ACCEPT "):
                    yield int(line.rpartition(b":")[2])
                    break
        finally:
            process.kill()


@pytest.mark.parametrize(("options", "settings", "words"), [
    (["-Verify", "1", "-verify_return_error"], {},
     "the peer requires a certificate from us: set ssl.keystore.location"),
    (["-Verify", "1", "-verify_return_error"], {"ssl.keystore.location": "other_client"},
     "the peer does not trust the authority that signed our certificate"),
    (["-tls1_2"], {"ssl.enabled.protocols": "TLSv1.3"}, "no TLS version in common with the peer"),
    (["-tls1_2", "-cipher", "ECDHE-ECDSA-AES256-GCM-SHA384"],
     {"ssl.cipher.suites": "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"}, "no cipher suite in common"),
])
def test_server_when_it_refuses_us_then_the_error_says_why_and_comes_at_once(
        certificates: Certificates, options: list[str], settings: dict[str, str], words: str) -> None:
    named = {key: str(getattr(certificates, value).keystore) if key == "ssl.keystore.location" else value
             for key, value in settings.items()}
    with s_server(certificates, *options) as port, KafkaProducer({
            "bootstrap.servers": f"localhost:{port}", "security.protocol": "SSL", "max.block.ms": PATIENT_MS,
            "ssl.truststore.location": str(certificates.ca), **named}) as producer:
        error = error_of_send(producer, "orders", b"secret")
    assert isinstance(error, AuthenticationError), error
    assert words in str(error)
