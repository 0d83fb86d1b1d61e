from __future__ import annotations

import socket
import struct

import pytest

from pyproducer.network.send import NetworkSend
from pyproducer.network.transport import IOV_MAX, Buffer, PlaintextTransportLayer
from tests.support.patience import GIVE_UP_S
from tests.support.transports import ScriptedTransport


def test_send_when_taken_whole_then_size_and_chunks_are_one_write() -> None:
    transport = ScriptedTransport()
    send = NetworkSend("7", [b"ab", memoryview(b"cde"), bytearray(b"f")])
    assert (send.destination, send.size_bytes, send.completed) == ("7", 10, False)
    assert send.write_to(transport) == 10
    assert send.completed
    assert transport.written == struct.pack(">i", 6) + b"abcdef"
    assert transport.write_calls == 1


@pytest.mark.parametrize("step", [1, 2, 3, 4, 5, 9, 100])
def test_send_when_taken_in_parts_then_the_bytes_are_the_same(step: int) -> None:
    chunks: list[Buffer] = [b"", b"abc", b"", memoryview(b"defgh"), b"i", b""]
    transport = ScriptedTransport(write_sizes=[step] * 20)
    send = NetworkSend("7", chunks)
    while not send.completed:
        assert 0 < send.write_to(transport) <= step
    assert transport.written == struct.pack(">i", 9) + b"abcdefghi"


def test_send_when_the_socket_takes_nothing_then_nothing_is_lost() -> None:
    transport = ScriptedTransport(write_sizes=[0, 3, 0])
    send = NetworkSend("7", [b"abc"])
    assert [send.write_to(transport) for _ in range(4)] == [0, 3, 0, 4]
    assert send.completed
    assert transport.written == b"\0\0\0\x03abc"


def test_send_when_empty_then_it_is_a_size_of_zero() -> None:
    transport = ScriptedTransport()
    send = NetworkSend("7", [])
    send.write_to(transport)
    assert transport.written == bytes(4)
    assert send.completed


def test_send_when_the_transport_still_holds_bytes_then_it_is_completed_by_the_flush() -> None:
    transport = ScriptedTransport()
    transport.has_pending_writes = True
    send = NetworkSend("7", [b"abc"])
    assert (send.write_to(transport), send.completed) == (7, False)
    assert (send.write_to(transport), send.completed) == (0, True)
    assert transport.flush_calls == 1


def test_send_when_completed_then_it_lets_go_of_the_chunks() -> None:
    chunk = bytearray(b"abc")
    send = NetworkSend("7", [memoryview(chunk)])
    send.write_to(ScriptedTransport())
    chunk += b"d"  # a bytearray that is still viewed refuses this


def test_send_when_there_are_more_chunks_than_one_call_gathers_then_all_go_out() -> None:
    near, far = socket.socketpair()
    with near, far:
        near.setblocking(False)
        far.settimeout(GIVE_UP_S)
        count = IOV_MAX * 2 + 10
        send = NetworkSend("7", [b"%04d" % (index % 10_000) for index in range(count)])
        expected = struct.pack(">i", 4 * count) + b"".join(b"%04d" % (index % 10_000) for index in range(count))
        received = bytearray()
        while len(received) < len(expected):
            if not send.completed:
                send.write_to(PlaintextTransportLayer(near))
            received += far.recv(1 << 16)
        assert received == expected
        assert send.completed
