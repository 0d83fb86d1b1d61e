"""The thread that accepts, played by the test: real connections over the loopback, a processor that notes them."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from typing import cast

import pytest

from pyproducer.broker.cluster.listener import EndPoint
from pyproducer.broker.network.acceptor import Acceptor, open_server_socket
from pyproducer.broker.network.processor import Processor

ANY = EndPoint("PLAINTEXT", "PLAINTEXT", "127.0.0.1", 0)


class NotingProcessor:
    """Keeps what it is given."""

    def __init__(self) -> None:
        self.accepted: list[socket.socket] = []

    def start(self) -> None:
        pass

    def accept(self, sock: socket.socket, *, may_block: bool) -> bool:
        self.accepted.append(sock)
        return True


@pytest.fixture
def processor() -> Iterator[NotingProcessor]:
    made = NotingProcessor()
    yield made
    for sock in made.accepted:
        sock.close()


def test_acceptor_when_many_connections_wait_then_it_takes_all_of_them_at_once(
        processor: NotingProcessor, monkeypatch: pytest.MonkeyPatch) -> None:
    """One for each look at the selector: 2,000 connects in a row took 35 seconds, because the backlog ran over."""
    listening = open_server_socket(ANY, backlog=50, receive_buffer_bytes=-1)
    acceptor = Acceptor(ANY, listening, new_processor=lambda _: cast(Processor, processor), name="test-acceptor")
    acceptor.add_processors(1)
    clients = [socket.create_connection(listening.getsockname()) for _ in range(40)]
    looks: list[int] = []
    select = acceptor._selector.select

    def look_once() -> object:
        looks.append(len(processor.accepted))
        if len(looks) > 1:
            acceptor._stop_requested.set()
            return []
        return select()

    monkeypatch.setattr(acceptor._selector, "select", look_once)
    acceptor.run()
    assert looks == [0, 40]
    acceptor._stop_requested.clear()
    acceptor.stop_accepting()
    for client in clients:
        client.close()
