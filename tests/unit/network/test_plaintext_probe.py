"""A listener that hangs up on TLS is asked once, in plaintext, whether it is Kafka's."""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable, Sequence

import pytest

from pyproducer.common.errors import AuthenticationError, DisconnectedError
from pyproducer.network.plaintext_probe import PlaintextProbe, Suspicion
from pyproducer.network.transport import END_OF_STREAM


class Pipe:
    """A transport: what was written, and what is to be read, piece by piece; an exception is raised, b"" is the end."""

    ready = True
    has_pending_reads = has_pending_writes = wants_write = False
    principal_name = None

    def __init__(self, pieces: Sequence[bytes | Exception]) -> None:
        self.written = b""
        self.pieces = list(pieces)
        self.sock = socket.socket()

    def write_chunks(self, chunks: Sequence[bytes]) -> int:
        data = b"".join(bytes(chunk) for chunk in chunks)
        self.written += data
        return len(data)

    def read_into(self, view: memoryview) -> int:
        if not self.pieces:
            return 0
        piece = self.pieces.pop(0)
        if isinstance(piece, Exception):
            raise piece
        if len(piece) > len(view):
            self.pieces.insert(0, piece[len(view):])
            piece = piece[:len(view)]
        view[:len(piece)] = piece
        return len(piece) or END_OF_STREAM

    def flush(self) -> None:
        pass


def ended(pieces: Sequence[bytes | Exception], found: list[bool] | None = None) -> tuple[Pipe, Exception]:
    pipe = Pipe(pieces)
    probe = PlaintextProbe(pipe, server_hostname="kafka",  # type: ignore[arg-type]  # as much of one as is needed
                           on_asked=([] if found is None else found).append)
    try:
        for _ in range(1000):
            probe.authenticate()
            assert not probe.complete
    except (AuthenticationError, DisconnectedError) as error:
        return pipe, error
    finally:
        pipe.sock.close()
    raise AssertionError("the probe did not end")


def in_bytes(data: bytes) -> list[bytes]:
    return [bytes([byte]) for byte in data]


ANSWER = struct.pack(">i", 4) + b"kafk"


@pytest.mark.parametrize("cut", [lambda data: [data], in_bytes])
def test_peer_when_it_answers_as_kafka_then_trying_again_is_no_use(cut: Callable[[bytes], list[bytes]]) -> None:
    found: list[bool] = []
    pipe, error = ended(cut(ANSWER), found)
    assert isinstance(error, AuthenticationError)
    assert found[-1]
    assert "its listener speaks Kafka without TLS" in str(error)
    # ApiVersions v0: its key, its version, the correlation id, and no client id.
    assert pipe.written == struct.pack(">ihh4sh", 10, 18, 0, b"kafk", -1)


@pytest.mark.parametrize("pieces", [
    [b""], [b"\0\0", b""], [ConnectionResetError()], [b"\x15\x03\x03\x00\x02\x02\x50"], [b"HTTP/1.1 400"],
    [struct.pack(">i", 4) + b"none"], [struct.pack(">i", 2) + b"no"]])
def test_peer_when_it_does_anything_else_then_it_may_be_tried_again(pieces: list[bytes | Exception]) -> None:
    found: list[bool] = []
    error = ended(pieces, found)[1]
    assert type(error) is DisconnectedError
    assert found
    assert not any(found)
    assert "its listener may not speak TLS" in str(error)


def test_suspicion_when_a_peer_hangs_up_then_it_is_asked_once_until_it_speaks_tls() -> None:
    suspicion = Suspicion()
    assert not suspicion.take("1")
    suspicion.on_first_bytes("1", False)
    assert not suspicion.take("2")
    assert suspicion.take("1")
    suspicion.on_asked("1", False)
    assert not suspicion.take("1")
    suspicion.on_first_bytes("1", False)
    assert not suspicion.take("1")
    suspicion.on_first_bytes("1", True)
    suspicion.on_first_bytes("1", False)
    assert suspicion.take("1")


def test_suspicion_when_the_peer_turned_out_to_be_a_plaintext_one_then_it_is_asked_again_at_once() -> None:
    """The first record was told within a second, every later one only after max.block.ms, for the producer's life."""
    suspicion = Suspicion()
    suspicion.on_first_bytes("1", False)
    for _ in range(3):
        assert suspicion.take("1")
        suspicion.on_asked("1", True)
    assert suspicion.take("1")
    suspicion.on_asked("1", False)  # its listener was changed
    assert not suspicion.take("1"), "TLS has its turn"
    suspicion.on_first_bytes("1", True)
    assert not suspicion.take("1")


def test_suspicion_when_no_answer_made_it_sure_then_it_is_asked_again_after_some_connections() -> None:
    """A load balancer hangs up on everybody while its brokers are started, and they may have no TLS."""
    suspicion = Suspicion()
    asked = []
    for number in range(40):
        if suspicion.take("1"):
            asked.append(number)
            suspicion.on_asked("1", False)
        else:
            suspicion.on_first_bytes("1", False)
    assert asked == [1, 12, 23, 34]
