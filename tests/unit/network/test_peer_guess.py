from __future__ import annotations

import pytest

from pyproducer.network.peer_guess import guess_protocol, guess_sentence, speaks_tls


@pytest.mark.parametrize(("first_bytes", "protocol"), [
    (b"\x15\x03\x01\x00\x02", "TLS"), (b"\x16\x03\x03", "TLS"), (b"HTTP/1.1", "HTTP"), (b"POST /", "HTTP"),
    (b"PRI * HTTP/2.0", "HTTP"), (b"SSH-2.0", "SSH"), (b"\x00\x00\x00\x10", None), (b"", None), (b"\x16", None)])
def test_guess_when_the_bytes_tell_then_the_protocol(first_bytes: bytes, protocol: str | None) -> None:
    assert guess_protocol(first_bytes) == protocol
    assert speaks_tls(first_bytes) == (protocol == "TLS")


def test_sentence_when_the_size_is_the_famous_one_then_it_names_the_peer() -> None:
    assert "broker:9093 seems to speak TLS" in guess_sentence(352518912, "broker:9093")
    assert guess_sentence(16, "broker:9093") == ""
    assert guess_sentence(-1, "broker:9093") == ""
