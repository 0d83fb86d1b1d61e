"""Sockets, names and polls of a simulation: bytes that take time, in pieces of any size, and arrive or do not.

    Selector, KafkaChannel, FrameReader (the real ones)
      SimSocket     what a socket is to them            SimPoller    what `selectors` is to them
        |  bytes, cut anywhere, in order per connection
      Connection    cuts frames, asks the faults what becomes of each, hands it to the model
      ModelCluster  applies and answers, in one step

What was written before a connection ended may still arrive, long after: then it meets its own retry, which came by
another connection.

Source:  ours.
"""

from __future__ import annotations

import errno
import math
import random
import selectors
import socket
import struct
import zlib
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any

from pyproducer.client.resolver import ResolvedAddress, ThreadedResolver
from pyproducer.network.wakeup import Wakeup
from tests.simulation import story
from tests.simulation.faults import Fate, Faults
from tests.simulation.ledger import Frame, Handed, Ledger
from tests.simulation.manners import Manners, WatchedSelector
from tests.simulation.model_broker import CLOSE_CONNECTION, ModelCluster
from tests.simulation.names import address_of, node_at, node_named, number_of
from tests.simulation.schedule import Scheduler

_SIZE = struct.Struct(">i")
_SPOKEN = {b"\x15\x03\x03\x00": "TLS", b"HTTP": "HTTP", b"SSH-": "SSH"}
_PRODUCE = b"\0\0"
_API_VERSIONS = b"\0\x12"
_MOST = 2**31 - 1
_LOOKS_EVERY = 3  # requests, at what producers hold of their memory
_READABLE, _WRITABLE = selectors.EVENT_READ, selectors.EVENT_WRITE


class SimPipe:
    """Both ends of what wakes a poll."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._count = 0
        self.poller: SimPoller | None = None

    def mask(self) -> int:
        return _READABLE if self._count else 0

    def send(self, data: bytes) -> int:
        self._count += len(data)
        if self.poller is not None:
            self._scheduler.wake(self.poller)
        self._scheduler.pause()
        return len(data)

    def recv(self, _size: int) -> bytes:
        self._scheduler.pause()
        if not self._count:
            raise BlockingIOError
        data, self._count = b"\0" * self._count, 0
        return data

    def close(self) -> None:
        self.poller = None


class SimWakeup(Wakeup):
    """The real flags over a simulated pipe."""

    __slots__ = ()

    def __init__(self, scheduler: Scheduler) -> None:
        pipe: Any = SimPipe(scheduler)
        self.receiver, self._sender = pipe, pipe
        self.is_requested = False
        self.is_sleeping = False


def addresses_of(host: str, port: int, count: int) -> list[ResolvedAddress]:
    """Return what a resolver says of a node's name, which has so many addresses."""
    return [ResolvedAddress(socket.AF_INET, (address_of(node_named(host), number), port)) for number in range(count)]


class SimPoller:
    """What `selectors.DefaultSelector` is to network/interest.py."""

    def __init__(self, network: Network, manners: Manners) -> None:
        self._network = network
        self._manners = manners
        self._scheduler = network.scheduler
        self._keys: dict[Any, selectors.SelectorKey] = {}

    def __repr__(self) -> str:
        return "its poll"

    def register(self, sock: Any, events: int, data: object) -> None:
        if sock in self._keys:
            raise KeyError(f"{sock!r} is already registered")
        self._keys[sock] = selectors.SelectorKey(sock, 0, events, data)
        sock.poller = self

    def modify(self, sock: Any, events: int, data: object) -> None:
        self._keys[sock] = self._keys[sock]._replace(events=events, data=data)

    def unregister(self, sock: Any) -> None:
        del self._keys[sock]
        sock.poller = None

    def _ready(self) -> list[tuple[selectors.SelectorKey, int]]:
        ready = []
        for sock, key in self._keys.items():
            mask = sock.mask() & key.events
            if mask:
                ready.append((key, mask))
        if len(ready) > 1:
            self._network.chance.shuffle(ready)
        return ready

    def select(self, timeout_s: float) -> list[tuple[selectors.SelectorKey, int]]:
        scheduler = self._scheduler
        self._network.ledger.on_poll(self)
        scheduler.pause()
        timeout_ms = None if timeout_s > 2**40 else math.ceil(timeout_s * 1000)
        self._network.faults.on_select(0 if timeout_ms is None else timeout_ms, self._manners)
        deadline_ms = None if timeout_ms is None else scheduler.now_ms + timeout_ms
        while True:
            ready = self._ready()
            if ready or (deadline_ms is not None and scheduler.now_ms >= deadline_ms):
                self._manners.has_found = bool(ready)
                return ready
            scheduler.block(self, deadline_ms)

    def close(self) -> None:
        for sock in self._keys:
            sock.poller = None
        self._keys.clear()


class SimSocket:
    """The client's end of a connection. It has no sendmsg: PlaintextTransportLayer joins what it gathers."""

    family = socket.AF_UNIX  # without options of TCP to set

    def __init__(self, network: Network) -> None:
        self._network = network
        self._scheduler = network.scheduler
        self._arrived = bytearray()
        self._error = 0
        self._is_up = False
        self._is_at_end = False
        self._is_closed = False
        self.read_bytes = 0
        self.connection: Connection | None = None
        self.poller: SimPoller | None = None
        network.numbers += 1
        self._number = network.numbers

    def __hash__(self) -> int:
        return self._number

    def __eq__(self, other: object) -> bool:
        return self is other

    # -- what the network does

    def on_connected(self, error: int) -> None:
        self._is_up = True
        self._error = error
        self._changed()

    def on_bytes(self, data: bytes) -> None:
        if not self._is_closed:
            self._arrived += data
            self._changed()

    def on_end(self, error: int) -> None:
        """End it as the peer does: in order (0), or by a reset."""
        self._is_up = True
        self._is_at_end = True
        self._error = self._error or error
        if error:
            self._arrived.clear()
        self._changed()

    def _changed(self) -> None:
        if self.poller is not None:
            self._scheduler.wake(self.poller)

    # -- what the selector asks

    def mask(self) -> int:
        """Return what it is ready for."""
        if not self._is_up:
            return _READABLE if self._arrived or self._is_at_end else 0
        if self._error or self._is_at_end:
            return _READABLE | _WRITABLE
        connection = self.connection
        mask = _WRITABLE if connection is not None and connection.has_room else 0
        return mask | _READABLE if self._arrived else mask

    # -- what channels call

    def setblocking(self, _flag: bool) -> None:
        """Do nothing: it never blocks."""

    def setsockopt(self, *_option: object) -> None:
        """Do nothing: it has no buffers."""

    def connect_ex(self, address: tuple[Any, ...]) -> int:
        self.connection = self._network.connect(self, address)
        return errno.EINPROGRESS

    def getsockopt(self, _level: int, _name: int) -> int:
        error, self._error = self._error, 0
        return error

    def getsockname(self) -> tuple[str, int]:
        return "10.0.1.1", self._number

    def getpeername(self) -> tuple[str, int]:
        return "10.0.0.1", 9092

    def send(self, data: bytes) -> int:
        self._scheduler.pause()
        connection = self.connection
        if self._error:
            raise OSError(self._error, "simulated")
        assert connection is not None
        assert not self._is_closed
        return connection.push(data)

    def recv_into(self, view: memoryview) -> int:
        self._scheduler.pause()
        assert not self._is_closed
        if self._error and not self._arrived:
            raise OSError(self._error, "simulated")
        if not self._arrived:
            if self._is_at_end:
                return 0
            raise BlockingIOError
        count = self._network.faults.cut(min(len(view), len(self._arrived)))
        view[:count] = self._arrived[:count]
        del self._arrived[:count]
        self.read_bytes += count
        if self.connection is not None:
            self.connection.on_read(self.poller, self.read_bytes)
        return count

    def close(self) -> None:
        if not self._is_closed:
            self._is_closed = True
            if self.connection is not None:
                self.connection.on_client_closed()


class Connection:
    """A connection's broker's side, and what is on its way.

    Args:
        network: Its network.
        sock: The client's end.
        node_id: Who is at the other.
    """

    def __init__(self, network: Network, sock: SimSocket, node_id: int) -> None:
        self.node_id = node_id
        network.numbers += 1
        self.number = network.numbers
        self._network = network
        self._scheduler = network.scheduler
        self._sock = sock
        self._received = bytearray()
        self._on_the_way_bytes = 0
        self._arrives_ms = 0
        self._answers_ms = 0
        self._is_broken = False    # nothing arrives any more, in either direction
        self._is_silent = False    # nothing comes back
        self._window_bytes = network.faults.window_bytes()
        self._latency_ms = network.faults.latency_ms
        # Produce requests: handed over and not written, written and not arrived; answers, by where they end.
        self._handed: list[Handed] = []
        self._unwritten: deque[Handed] = deque()
        self._unarrived: deque[Handed] = deque()
        self._unread: deque[tuple[int, Handed]] = deque()
        self._written = bytearray()
        self._answered_bytes = 0
        self.is_garbled = False  # an answer made no sense
        self._is_read_on = True  # what is answered behind it
        self.stranger: bytes | None = None  # what it says that is no broker

    @property
    def spoke(self) -> str:
        """What a stranger speaks, for a client that has read so much of it; "" where nobody can tell."""
        known = self.stranger is not None and self._sock.read_bytes >= _SIZE.size
        return _SPOKEN.get(self.stranger[:4], "") if known and self.stranger is not None else ""

    def welcome(self) -> None:
        """The connection was accepted, perhaps by a stranger; some speak first."""
        self.stranger = self._network.faults.on_accepted()
        if self.stranger is not None and (not self.stranger or self.stranger.startswith(b"SSH")):
            self._be_strange()

    def _be_strange(self) -> None:
        assert self.stranger is not None
        said = self.stranger
        self._is_broken = True
        at_ms = self._scheduler.now_ms + self._latency_ms()
        self._scheduler.at(at_ms, lambda: self._sock.on_bytes(said))
        self._scheduler.at(at_ms, lambda: self._sock.on_end(0))

    @property
    def has_bytes_on_the_way(self) -> bool:
        return self._on_the_way_bytes > 0 or bool(self._received)

    @property
    def has_room(self) -> bool:
        return self._on_the_way_bytes < self._window_bytes

    # -- from the client

    def on_handed(self, data: bytes, client: object) -> Handed:
        """A Produce request is handed over, to be written."""
        handed = self._network.ledger.on_handed(data, self.number, self.node_id, self._scheduler.now_ms, client)
        self._handed.append(handed)
        self._unwritten.append(handed)
        self._unarrived.append(handed)
        return handed

    def note_end(self, *how: str) -> None:
        """The client knows that it ended, in one of these ways."""
        for handed in self._handed:
            if not handed.read_number and not handed.ends:
                handed.ends = how

    def _note_written(self, piece: bytes) -> None:
        written = self._written
        written += piece
        while len(written) >= 6:
            size: int = 4 + _SIZE.unpack_from(written)[0]
            is_produce = written[4:6] == _PRODUCE
            if is_produce:
                self._unwritten[0].is_begun = True
            if len(written) < size:
                return
            if is_produce:
                self._unwritten.popleft().is_whole = True
            del written[:size]

    def on_read(self, reader: object, read_bytes: int) -> None:
        """The client has read so many bytes in all."""
        unread = self._unread
        while unread and unread[0][0] <= read_bytes:
            self._network.ledger.on_read(reader, unread.popleft()[1], self._scheduler.now_ms)

    def push(self, data: bytes) -> int:
        """Take some bytes on their way."""
        if self._is_broken:
            self._note_written(data)
            return len(data)  # into nothing, as into a cable that was pulled
        room = self._window_bytes - self._on_the_way_bytes
        if room <= 0:
            raise BlockingIOError
        piece = bytes(data[:self._network.faults.cut(min(room, len(data)))])
        self._on_the_way_bytes += len(piece)
        self._note_written(piece)
        scheduler = self._scheduler
        self._network.trace = zlib.crc32(piece, self._network.trace ^ scheduler.now_ms)
        self._arrives_ms = max(self._arrives_ms, scheduler.now_ms + self._latency_ms())
        scheduler.at(self._arrives_ms, lambda: self._arrive(piece))
        return len(piece)

    def _arrive(self, piece: bytes) -> None:
        was_full = not self.has_room
        self._on_the_way_bytes -= len(piece)
        if was_full:
            self._sock._changed()
        if self._is_broken or not self._network.cluster.is_alive(self.node_id):
            return
        if self.stranger is not None:
            self._be_strange()
            return
        received = self._received
        received += piece
        while len(received) >= 4:
            size: int = _SIZE.unpack_from(received)[0]
            if len(received) < 4 + size:
                return
            frame = Frame(received[4:4 + size])
            del received[:4 + size]
            if frame[:2] == _PRODUCE:
                frame.handed = self._unarrived.popleft()
                frame.handed.has_arrived = True
            self._network.faults.on_request(self, frame)
            if self._is_broken:
                return

    def on_client_closed(self) -> None:
        """The client hung up: what it wrote arrives all the same, sometimes much later, or not at all."""
        self._is_silent = True
        if self._on_the_way_bytes and self._network.faults.loses_last_words():
            self._is_broken = True

    # -- from the broker

    def apply(self, frame: bytes, *, is_in_order: bool = True) -> bytes | None:
        """Hand a request to the model; return its answer, with its length in front.

        Args:
            frame: The request.
            is_in_order: Whether it comes behind those before it, so that the model may check the order.
        """
        network = self._network
        network.request_count += 1
        if frame[:2] == _PRODUCE and network.request_count % _LOOKS_EVERY == 0:
            network.look_at_memory()
        if self._scheduler.is_telling:
            self._scheduler.tell(f"node {self.node_id} gets {story.request(frame)}")
        handed = frame.handed if isinstance(frame, Frame) else None
        network.ledger.arriving = handed
        answer = network.cluster.handle(self.node_id, frame, self._scheduler.now_ms,
                                        connection=self.number if is_in_order else None)
        network.ledger.arriving = None
        if self._scheduler.is_telling:
            self._scheduler.tell(f"node {self.node_id} answers {story.response(frame, answer)}")
        if answer == CLOSE_CONNECTION:
            self.cut(0)
        if not answer:
            return None
        framed = Frame(_SIZE.pack(len(answer)) + answer)
        framed.handed = handed
        return framed

    def garble(self, frame: bytes, answer: bytes, chance: random.Random) -> bytes:
        """Return an answer that makes no sense: of another request, or cut short.

        What was answered is not read from it, and nobody reads on behind it, but for who asks for versions: that is
        done once more, in the form that every broker knows.
        """
        self.is_garbled = True
        self._is_read_on = frame[:2] == _API_VERSIONS
        kind = chance.random()
        payload = answer[_SIZE.size:]
        if kind < 0.5:
            payload = _SIZE.pack((_SIZE.unpack_from(payload)[0] + 1) & _MOST) + payload[_SIZE.size:]
        else:
            payload = payload[:-1]
        return _SIZE.pack(len(payload)) + payload

    def answer(self, data: bytes | None, delay_ms: int = 0) -> None:
        """Send an answer back, in pieces, behind those before it."""
        if data is None:
            return
        if self._is_silent or self._is_broken:
            self._network.unanswered_count += 1
            return
        scheduler = self._scheduler
        self._answered_bytes += len(data)
        if isinstance(data, Frame) and data.handed is not None and self._is_read_on:
            self._unread.append((self._answered_bytes, data.handed))
        self._answers_ms = max(self._answers_ms, scheduler.now_ms + delay_ms + self._latency_ms())
        start = 0
        while start < len(data):
            piece = data[start:start + self._network.faults.cut(len(data) - start)]
            start += len(piece)
            scheduler.at(self._answers_ms, lambda piece=piece: self._deliver(piece))
            if start < len(data):
                self._answers_ms += self._latency_ms() // 4

    def _deliver(self, piece: bytes) -> None:
        if not (self._is_silent or self._is_broken):
            self._sock.on_bytes(piece)

    def cut(self, error: int) -> None:
        """End the connection, in order (0) or by a reset; what the client wrote and is on its way is lost."""
        if not self._is_broken:
            self._is_broken = True
            self._scheduler.at(self._scheduler.now_ms + self._latency_ms(), lambda: self._sock.on_end(error))

    def fall_silent(self) -> None:
        """Be half open from now on: nothing comes back, and nobody says so."""
        self._is_silent = True

    def stall(self, ms: int) -> None:
        """Hold back what comes back."""
        self._answers_ms = max(self._answers_ms, self._scheduler.now_ms + ms)


class Network:
    """All of it.

    Args:
        scheduler: Time.
        chance: Its own stream.
        cluster: Who answers.
        faults: What goes wrong.
        ledger: Notes what clients send and hear.

    Attributes:
        look_at_memory: Compares what producers hold with what is on its way.
        trace: A hash of all that clients sent, and when: that of two runs which are the same.
        address_count: How many addresses a name has.
    """

    look_at_memory: Callable[[], None]

    def __init__(self, scheduler: Scheduler, chance: random.Random, cluster: ModelCluster, faults: Faults,
                 ledger: Ledger) -> None:
        self.scheduler = scheduler
        self.ledger = ledger
        self.chance = chance
        self.cluster = cluster
        self.faults = faults
        self.numbers = 0
        self.request_count = 0
        self.unanswered_count = 0
        self.trace = 0
        self.address_count = 1
        self.connections: list[Connection] = []

    def connect(self, sock: SimSocket, address: tuple[Any, ...]) -> Connection:
        """Begin to connect a socket; how that ends it is told."""
        node_id = node_at(address[0])
        connection = Connection(self, sock, node_id)
        fate = self.faults.on_connect(number_of(address[0]))
        at_ms = self.scheduler.now_ms + self.faults.latency_ms()
        if fate is Fate.LOST:
            return connection

        def decide() -> None:
            refused = fate is Fate.CUT or not self.cluster.is_alive(node_id)
            if not refused:
                self.connections.append(connection)
            sock.on_connected(errno.ECONNREFUSED if refused else 0)
            if not refused:
                connection.welcome()

        self.scheduler.at(at_ms, decide)
        return connection

    def cut_all_of(self, node_id: int) -> None:
        """A node stopped: its connections end."""
        for connection in self.connections:
            if connection.node_id == node_id:
                connection.cut(errno.ECONNRESET)
        self.connections = [other for other in self.connections if other.node_id != node_id]

    # -- what Surroundings asks for

    def make_selector(self, manners: Manners, **settings: Any) -> WatchedSelector:
        """Make that of a client whose manners are watched."""
        self.ledger.on_renewed(manners)
        self.faults.on_make_selector()
        return WatchedSelector(manners, make_socket=lambda: SimSocket(self),
                               make_poller=lambda: SimPoller(self, manners), **settings)

    def make_wakeup(self) -> Wakeup:
        return SimWakeup(self.scheduler)

    def make_resolver(self, manners: Manners, wakeup: Callable[[], None], start_thread: Any) -> ThreadedResolver:
        return ThreadedResolver(wakeup, resolve=partial(self._resolve, manners), name_of=lambda _address: None,
                                start_thread=start_thread)

    def _resolve(self, manners: Manners, host: str, port: int) -> list[ResolvedAddress]:
        scheduler = self.scheduler
        manners.lookup_ms[host] = scheduler.now_ms
        delay_ms, error = self.faults.on_lookup()
        until_ms = scheduler.now_ms + delay_ms
        manners.lookups += 1
        while scheduler.now_ms < until_ms:
            scheduler.block(None, until_ms)
        manners.lookups -= 1
        manners.looked_up_ms = scheduler.now_ms
        if error is not None:
            manners.failed_lookups[host].add("simulated")
            raise error
        return addresses_of(host, port, self.address_count)
