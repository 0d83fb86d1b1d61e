"""A client's selector and a broker's selector, connected over the loopback and stepped by the test."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from types import TracebackType

from pyproducer.broker.network.server_selector import ServerSelector
from pyproducer.network.channel import KafkaChannel
from pyproducer.network.channel_builder import ChannelBuilder, PlaintextChannelBuilder
from pyproducer.network.receive import NetworkReceive
from pyproducer.network.selector import Selector
from pyproducer.network.send import NetworkSend
from tests.support.patience import GIVE_UP_S

CLIENT = "client"
BROKER = "broker"


def make_selector(*, max_receive_size_bytes: int | None = 100 * 1024 * 1024,
                  connections_max_idle_ms: int = -1, channel_builder: ChannelBuilder | None = None) -> Selector:
    return Selector(max_receive_size_bytes=max_receive_size_bytes, connections_max_idle_ms=connections_max_idle_ms,
                    channel_builder=channel_builder or PlaintextChannelBuilder())


def make_server_selector(*, max_receive_size_bytes: int | None = 100 * 1024 * 1024, connections_max_idle_ms: int = -1,
                         channel_builder: ChannelBuilder | None = None) -> ServerSelector:
    return ServerSelector(
        max_receive_size_bytes=max_receive_size_bytes, connections_max_idle_ms=connections_max_idle_ms,
        channel_builder=channel_builder or PlaintextChannelBuilder())


def poll_until(selector: Selector, is_done: Callable[[], object], *, now_ms: int = 0,
               within_s: float = GIVE_UP_S) -> None:
    """Poll until something is true; the first look is before the first poll."""
    deadline = time.monotonic() + within_s
    while not is_done():
        assert time.monotonic() < deadline, "it did not happen in time"
        selector.poll(10, now_ms)


class SelectorPair:
    """Two selectors and one connection between them, whose id is CLIENT on one side and BROKER on the other."""

    def __init__(self, *, client: Selector | None = None, broker: ServerSelector | None = None,
                 server_hostname: str | None = None, wait: bool = True, receive_buffer_bytes: int = -1) -> None:
        self.client = client or make_selector()
        self.broker = broker or make_server_selector()
        with socket.create_server(("127.0.0.1", 0)) as listener:
            self.client.connect(CLIENT, listener.getsockname(), now_ms=0, server_hostname=server_hostname,
                                receive_buffer_bytes=receive_buffer_bytes)
            accepted, _ = listener.accept()
            self.broker.register(BROKER, accepted, 0)
        if wait:
            self.step_until(lambda: self.client.is_channel_ready(CLIENT) and self.broker.is_channel_ready(BROKER))

    def __enter__(self) -> SelectorPair:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.client.close_all()
        self.broker.close_all()

    @property
    def client_channel(self) -> KafkaChannel:
        channel = self.client.channel(CLIENT)
        assert channel is not None
        return channel

    @property
    def broker_channel(self) -> KafkaChannel:
        channel = self.broker.channel(BROKER)
        assert channel is not None
        return channel

    def step_until(self, is_done: Callable[[], object], *, within_s: float = GIVE_UP_S) -> None:
        """Poll both sides until something is true."""
        deadline = time.monotonic() + within_s
        while not is_done():
            assert time.monotonic() < deadline, "it did not happen in time"
            self.client.poll(1, 0)
            self.broker.poll(1, 0)

    def request(self, payload: bytes) -> None:
        self.client.send(NetworkSend(CLIENT, [payload]))

    def respond(self, payload: bytes) -> None:
        self.broker.send(NetworkSend(BROKER, [payload]))

    def next_at_broker(self) -> NetworkReceive:
        """Poll the broker until a frame is there; there must be one only."""
        poll_until(self.broker, lambda: self.broker.completed_receives)
        [receive] = self.broker.completed_receives
        self.broker.completed_receives = []
        return receive

    def next_at_client(self) -> list[bytes]:
        """Poll the client until frames are there."""
        poll_until(self.client, lambda: self.client.completed_receives)
        payloads = [bytes(receive.payload) for receive in self.client.completed_receives]
        self.client.completed_receives = []
        return payloads
