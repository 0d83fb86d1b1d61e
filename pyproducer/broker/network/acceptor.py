"""One thread per listener: accepts connections and hands them to the processors in turn.

Road:    client -> [Acceptor] -> Processor
Thread:  its own loops here; processors are added and removed by the thread that configures the broker.
Source:  Java kafka.network.Acceptor, DataPlaneAcceptor (4.1).
"""

from __future__ import annotations

import logging
import selectors
import socket
import threading
from collections.abc import Callable
from typing import Any

from pyproducer.broker.cluster.listener import EndPoint
from pyproducer.broker.network.connection_quotas import ConnectionQuotas
from pyproducer.broker.network.processor import Processor
from pyproducer.broker.request.peer_address import host_of
from pyproducer.common.errors import ConfigError
from pyproducer.network.transport import hang_up

_logger = logging.getLogger(__name__)
# Without descriptors accept fails at once, again and again: do not spin on it.
_PAUSE_AFTER_ERROR_S = 0.1


def open_server_socket(end_point: EndPoint, *, backlog: int, receive_buffer_bytes: int) -> socket.socket:
    """Listen on a listener's address.

    Raises:
        ConfigError: The address cannot be used (taken, not ours, not permitted); says which and why.
    """
    family = socket.AF_INET6 if ":" in end_point.host else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)  # [::] is all addresses, as in Java
        if receive_buffer_bytes >= 0:
            # Before listen: accepted sockets inherit it, and the window scale is agreed on in the handshake.
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer_bytes)
        sock.bind((end_point.host, end_point.port))
        sock.listen(backlog)
        sock.setblocking(False)
    except OSError as error:
        sock.close()
        raise ConfigError("listeners", f"{end_point.listener_name}://{end_point.host}:{end_point.port}",
                          f"the socket server could not bind: {error.strerror or error}") from error
    return sock


class Acceptor:
    """Accepts the connections of one listener.

    Args:
        end_point: The listener; `end_point.port` of the instance is the port really used.
        sock: The listening socket; closed here.
        new_processor: Makes a processor of this listener, not yet started.
        name: Of the thread.
        quotas: Limits of connections; None for none.
    """

    def __init__(self, end_point: EndPoint, sock: socket.socket, *, new_processor: Callable[[EndPoint], Processor],
                 name: str, quotas: ConnectionQuotas | None = None) -> None:
        self.end_point: EndPoint = end_point._replace(port=sock.getsockname()[1])
        self._sock = sock
        self._new_processor = new_processor
        self._quotas = quotas
        self._selector = selectors.DefaultSelector()
        self._wakeup_receiver, self._wakeup_sender = socket.socketpair()
        self._selector.register(sock, selectors.EVENT_READ)
        self._selector.register(self._wakeup_receiver, selectors.EVENT_READ)
        # Replaced, never changed: the acceptor's thread reads it without a lock.
        self._processors: tuple[Processor, ...] = ()
        self._current = 0
        self._stop_requested = threading.Event()
        self._thread = threading.Thread(target=self.run, name=name, daemon=True)

    @property
    def processors(self) -> tuple[Processor, ...]:
        """The processors that get connections now."""
        return self._processors

    def add_processors(self, count: int) -> tuple[Processor, ...]:
        """Make and start more processors; return the new ones."""
        fresh = tuple(self._new_processor(self.end_point) for _ in range(count))
        for processor in fresh:
            processor.start()
        self._processors += fresh
        return fresh

    def remove_processors(self, count: int) -> tuple[Processor, ...]:
        """Stop the newest processors, which closes their connections; return them."""
        gone = self._processors[len(self._processors) - count:]
        self._processors = self._processors[:len(self._processors) - count]
        for processor in gone:
            processor.initiate_shutdown()
        for processor in gone:
            processor.await_shutdown()
        return gone

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop_accepting(self) -> None:
        """End the thread and close the listening socket; the processors go on."""
        if self._stop_requested.is_set():
            return
        self._stop_requested.set()
        self._wakeup_sender.send(b"x")
        if self._thread.is_alive():
            self._thread.join()
        self._selector.close()
        hang_up(self._sock)
        self._wakeup_receiver.close()
        self._wakeup_sender.close()

    def run(self) -> None:
        """Accept until stopped."""
        while not self._stop_requested.is_set():
            for key, _ in self._selector.select():
                if key.fileobj is self._sock and not self._stop_requested.is_set():
                    self._accept_new_connections()

    def _accept_new_connections(self) -> None:
        """Take all that wait: a backlog that runs over costs the peer a second, until its SYN is sent again."""
        while not self._stop_requested.is_set():
            try:
                sock, address = self._sock.accept()
            except BlockingIOError:
                return
            except OSError as error:  # the peer gave up, or there are no descriptors left
                _logger.error("Error while accepting connection: %s", error)
                self._stop_requested.wait(_PAUSE_AFTER_ERROR_S)
                return
            self._admit(sock, address)

    def _admit(self, sock: socket.socket, address: tuple[Any, ...]) -> None:
        host = host_of(address)
        if self._quotas is not None and not self._quotas.try_add(host, sock):
            _logger.info("Rejected connection from %s, address already has the configured maximum of %d connections.",
                         host, self._quotas.limit_of(host))
            hang_up(sock)
            return
        sock.setblocking(False)
        self._assign_new_connection(sock)

    def _assign_new_connection(self, sock: socket.socket) -> None:
        """Offer the connection to each processor in turn; wait for the last one when all queues are full."""
        retries_left = len(self._processors)
        while True:
            retries_left -= 1
            processors = self._processors
            self._current = (self._current + 1) % len(processors)
            if processors[self._current].accept(sock, may_block=retries_left <= 0):
                return
