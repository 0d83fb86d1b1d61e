"""The compiled socket calls do what socket's own do, and let no other thread in meanwhile."""

import contextlib
import signal
import socket
import struct
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from pyproducer import hotpath

SocketPair = tuple[socket.socket, socket.socket]

pytestmark = pytest.mark.skipif(hotpath.PromptSocket is None, reason="the compiled socket calls are not there")
_LOADED = 20  # so often at most on a machine where others run


@pytest.fixture
def pair() -> Iterator[SocketPair]:
    near, far = socket.socketpair()
    with near, far:
        near.setblocking(False)
        yield near, far


@pytest.mark.parametrize("chunks", [[b"abc"], [b"", bytearray(b"ab"), memoryview(b"c")], [b"x" * 16_384],
                                    [b"x" * 10_000, b"y" * 6_384], [b"x" * 10_000, b"y" * 6_385], [b"x" * 40_000], []])
def test_sendmsg_when_chunks_are_short_or_long_then_all_arrive(
        pair: SocketPair, chunks: list[bytes]) -> None:
    near, far = pair
    whole = b"".join(chunks)
    assert hotpath.PromptSocket(near).sendmsg(chunks) == len(whole)
    near.close()
    received = b""
    while part := far.recv(65_536):
        received += part
    assert received == whole


@pytest.mark.parametrize("chunks", [[b"x"] * 63, [b"x"] * 64, [b"x"] * 65, [b"ab"] * 1024, [b"x" * 262_144],
                                    [b"x" * 262_145], [b"x" * 262_144, b"y"], [b"x" * 1000] * 300])
def test_sendmsg_when_chunks_are_many_or_very_long_then_as_much_as_it_says_arrives(
        pair: SocketPair, chunks: list[bytes]) -> None:
    near, far = pair
    whole = b"".join(chunks)
    sent = hotpath.PromptSocket(near).sendmsg(chunks)
    assert sent == len(whole) or sent > 100_000  # what the system's buffer has room for
    near.close()
    received = b""
    while part := far.recv(65_536):
        received += part
    assert received == whole[:sent]


@pytest.mark.parametrize("chunks", [[b"abc", 5], [b"abc", "text"], [memoryview(b"abcd")[::2]], 5])
def test_sendmsg_when_a_chunk_is_none_then_type_error_and_no_chunk_is_kept(pair: SocketPair, chunks: list[Any]) -> None:
    near, _ = pair
    data = bytearray(b"ab")
    chunks = [data, *chunks] if isinstance(chunks, list) else chunks
    with pytest.raises((TypeError, BufferError)):
        hotpath.PromptSocket(near).sendmsg(chunks)
    data.append(1)  # it is not exported any more


def test_sendmsg_when_the_socket_is_full_then_blocking_error_as_of_a_socket(
        pair: SocketPair) -> None:
    near, far = pair
    prompt = hotpath.PromptSocket(near)
    sent: list[int] = []

    def send_on() -> None:
        while True:
            sent.append(prompt.sendmsg([b"x" * 1000]))

    with pytest.raises(BlockingIOError):
        send_on()
    near.close()
    received = 0
    while part := far.recv(65_536):
        received += len(part)
    assert received == sum(sent)


def test_sendmsg_when_the_peer_is_gone_then_broken_pipe_and_no_signal(pair: SocketPair) -> None:
    near, far = pair
    far.close()
    with pytest.raises(BrokenPipeError):
        hotpath.PromptSocket(near).sendmsg([b"x"])


def test_calls_when_the_socket_was_closed_then_its_number_is_not_used(pair: SocketPair) -> None:
    near, _ = pair
    prompt = hotpath.PromptSocket(near)
    near.close()
    other, end = socket.socketpair()  # has the number now
    with other, end:
        end.setblocking(False)
        for call, argument in ((prompt.sendmsg, [b"x"]), (prompt.recv_into, bytearray(10))):
            with pytest.raises(OSError, match="Bad file descriptor"):
                call(argument)
        with pytest.raises(BlockingIOError):
            end.recv(1)


@pytest.mark.parametrize("space", [10, 65_536, 200_000])
def test_recv_into_when_there_are_bytes_nothing_or_the_end_then_as_a_socket(pair: SocketPair,
                                                                            space: int) -> None:
    near, far = pair
    prompt, view = hotpath.PromptSocket(near), memoryview(bytearray(space))
    with pytest.raises(BlockingIOError):
        prompt.recv_into(view)
    far.send(b"abc")
    assert prompt.recv_into(view) == 3
    assert bytes(view[:3]) == b"abc"
    far.close()
    assert prompt.recv_into(view) == 0


def test_arguments_when_they_are_no_buffers_then_type_errors(pair: SocketPair) -> None:
    prompt = hotpath.PromptSocket(pair[0])
    with pytest.raises(TypeError):
        prompt.sendmsg(["text"])
    with pytest.raises((TypeError, BufferError)):
        prompt.recv_into(b"read only")


def test_calls_when_another_thread_waits_for_the_interpreter_then_it_does_not_get_it(
        pair: SocketPair) -> None:
    near, far = pair
    far.setblocking(False)
    prompt, distant, view = hotpath.PromptSocket(near), hotpath.PromptSocket(far), memoryview(bytearray(65_536))
    turns = 0
    is_over = False

    def compute() -> None:
        nonlocal turns
        while not is_over:
            turns += 1

    turns_of_others: list[int] = []
    interval = sys.getswitchinterval()
    thread = threading.Thread(target=compute)
    try:
        thread.start()
        while not turns:
            pass
        sys.setswitchinterval(1)  # a thread keeps the interpreter for a second, or until it gives it up
        # On a machine that is busy a second may pass all the same. Calls that give it up do so in every round.
        while len(turns_of_others) < 10 and 0 not in turns_of_others:
            time.sleep(0.01)  # gives it up: once this thread has it back, the other one's second has just begun
            before = turns
            for _ in range(20):
                prompt.sendmsg([b"abc", b"def"])
                distant.recv_into(view)
                distant.sendmsg([b"answer"])
                prompt.recv_into(view)
            turns_of_others.append(turns - before)
    finally:
        sys.setswitchinterval(interval)
        is_over = True
        thread.join()
    assert 0 in turns_of_others


def test_sendmsg_on_when_the_peer_reads_then_a_long_write_is_whole_without_the_interpreter(pair: SocketPair) -> None:
    """Through the selector it went out in many pieces, each of which cost 5 ms beside a caller that computes.

    A socket has room for 200 KB; a write that goes on takes more at once, where the reader has a processor in time.
    """
    near, far = pair
    data = b"".join(bytes([number]) * 40_000 for number in range(100))
    prompt = hotpath.PromptSocket(near)
    pieces = [memoryview(data)[start:start + 40_000] for start in range(0, len(data), 40_000)]
    largest = 0
    for _ in range(_LOADED):
        received = bytearray()

        def read(received: bytearray = received) -> None:
            while len(received) < len(data):
                received.extend(far.recv(65_536))

        reader = threading.Thread(target=read)
        reader.start()
        sent = 0
        while sent < len(data):
            try:
                written = prompt.sendmsg_on([memoryview(data)[sent:]] if sent else pieces)
            except BlockingIOError:
                time.sleep(0.001)  # the reader had no processor
                continue
            sent, largest = sent + written, max(largest, written)
        reader.join()
        assert bytes(received) == data
        if largest > 400_000:
            return
    pytest.fail(f"of {_LOADED} long writes none took more than {largest} bytes at once")


@pytest.mark.parametrize("call", ["sendmsg", "sendmsg_on"])
def test_send_when_the_peer_reads_no_more_in_a_long_write_then_what_it_took_and_then_blocking_error(
        pair: SocketPair, call: str) -> None:
    near, far = pair
    send = getattr(hotpath.PromptSocket(near), call)
    data = bytearray(range(256)) * 4000
    sent = send([data[:1000], data[1000:]])
    assert 1000 < sent < len(data)
    for rest in (data[sent:], data[sent:sent + 10]):
        with pytest.raises(BlockingIOError):
            send([rest])
    data.append(1)  # it is not exported any more
    received = b""
    while len(received) < sent:
        received += far.recv(65_536)
    assert received == data[:sent]


def test_send_when_the_socket_was_closed_then_it_says_so_for_long_writes_too(pair: SocketPair) -> None:
    """poll() asks nobody about a negative number, and the socket was said to be full."""
    near, _ = pair
    prompt = hotpath.PromptSocket(near)
    near.close()
    for call in (prompt.sendmsg, prompt.sendmsg_on):
        for size in (10, 1_000_000):
            with pytest.raises(OSError, match="Bad file descriptor"):
                call([b"x" * size])


@pytest.mark.parametrize("is_read", [False, True])
def test_sendmsg_on_when_the_peer_resets_in_a_long_write_then_the_next_call_says_so(is_read: bool) -> None:
    """The system tells it once, and a write that had got somewhere kept it: what followed was a clean end."""
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as near:
        far, _ = server.accept()
        near.setblocking(False)
        prompt = hotpath.PromptSocket(near)
        far.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        has_begun = threading.Event()

        def reset() -> None:
            far.recv(1000)
            has_begun.set()
            for _ in range(20):
                far.recv(200_000)
            far.close()

        peer = threading.Thread(target=reset)
        peer.start()
        sent = 0

        def send_on() -> None:
            nonlocal sent
            while True:
                with contextlib.suppress(BlockingIOError):
                    sent += prompt.sendmsg_on([b"x" * 8_000_000])
                    if is_read:
                        prompt.recv_into(bytearray(100))

        with pytest.raises(ConnectionResetError):
            send_on()
        assert sent > 1000
        peer.join()


def test_sendmsg_on_when_a_signal_comes_meanwhile_then_the_peer_is_waited_for_all_the_same(pair: SocketPair) -> None:
    near, far = pair
    prompt = hotpath.PromptSocket(near)
    size = 2_000_000
    counts: list[int] = []

    def read() -> None:
        while counts.append(len(far.recv(100_000))) or sum(counts) < 20 * size:
            pass

    reader = threading.Thread(target=read)
    before = signal.signal(signal.SIGALRM, lambda *_: None)
    signal.setitimer(signal.ITIMER_REAL, 0.0002, 0.0002)
    largest = sent = 0
    try:
        reader.start()
        while sent < 20 * size:
            try:
                written = prompt.sendmsg_on([b"x" * (size - sent % size)])
            except BlockingIOError:
                time.sleep(0.001)
                continue
            sent, largest = sent + written, max(largest, written)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    reader.join()
    assert largest > 400_000, "a socket has room for 200 KB"
