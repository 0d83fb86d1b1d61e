"""A proxy between a producer and any Kafka cluster that makes requests go wrong: the same faults whatever the cluster.

    with FaultProxy(cluster_address) as proxy:
        lost = proxy.on("Produce").swallow_answer()       the next one is stored, and nobody hears of it
        proxy.on("Produce", times=3).error(ErrorCode.NOT_ENOUGH_REPLICAS)
        proxy.on("Produce", times=None).swallow_request() from now on
        held = proxy.on("Produce").hold_request()
        held.await_count()                                the request is here
        held.release()                                    and goes on

Every broker that an answer names gets a listener of the proxy, and the answer names that one instead: a client that
bootstraps here never meets the cluster itself. Requests and answers keep their order on each connection, as Kafka
promises: what stands behind a held or swallowed answer waits.

Thread:  one thread owns every socket; the methods are for any thread.
Source:  ours. Frames are taken apart with pyproducer.protocol; the code under test shares only that.

No import of pytest.
"""

from __future__ import annotations

import collections
import contextlib
import enum
import selectors
import socket
import struct
import threading
import time
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any

from pyproducer.protocol.apis import ApiKeys
from pyproducer.protocol.buffer import ByteReader
from pyproducer.protocol.header import build_response, parse_response, read_request_header
from tests.support.patience import GIVE_UP_S
from tests.support.raw_client import RawClient

CHUNK_BYTES = 256 * 1024
POLL_S = 0.002
RESET_AT_CLOSE = struct.pack("ii", 1, 0)  # SO_LINGER of 0 s: close() sends RST, as a crashed peer does

Address = tuple[str, int]


class _Action(enum.Enum):
    PASS = "pass"
    ERROR = "error"
    ERROR_AFTER = "error after"
    CUT_BEFORE = "cut before"
    CUT_AFTER = "cut after"
    SWALLOW_REQUEST = "swallow request"
    SWALLOW_ANSWER = "swallow answer"
    DETOUR = "detour"


class Fault:
    """What happens to the requests that `FaultProxy.on` named. A hold may be followed by something else that happens
    on release: `proxy.on("Produce").hold_request().error(code)`.

    Attributes:
        count: To how many requests it has happened by now. Where the cluster sees the request, its answer has come by
            then, so what the request asks for is done.
    """

    def __init__(self, proxy: FaultProxy, api_key: ApiKeys, times: int | None, holding: bytes) -> None:
        self._proxy = proxy
        self._api_key = api_key
        self._holding = holding
        self._left = times  # guarded by the proxy's lock
        self._action = _Action.PASS
        self._code = 0
        self._holds_request = False
        self._holds_answer = False
        self._late: list[tuple[Address, bytes]] = []
        self._takes_s = 0.0
        self.count = 0

    def error(self, code: int) -> Fault:
        """Answer with an error code (Produce only: for each partition); the cluster does not see the request."""
        self._set_code(code)
        return self._begin(_Action.ERROR)

    def error_after(self, code: int) -> Fault:
        """Let the cluster do it, and put an error code in the place of its answer (Produce only)."""
        self._set_code(code)
        return self._begin(_Action.ERROR_AFTER)

    def pass_on(self) -> Fault:
        """Do nothing to them: what was named later happens to those that follow."""
        return self._begin(_Action.PASS)

    def cut_before(self) -> Fault:
        """Reset the connection; the cluster does not see the request."""
        return self._begin(_Action.CUT_BEFORE)

    def cut_after(self) -> Fault:
        """Reset the connection once the cluster has answered."""
        return self._begin(_Action.CUT_AFTER)

    def swallow_request(self) -> Fault:
        """Never answer; the cluster does not see the request. The connection stays open."""
        return self._begin(_Action.SWALLOW_REQUEST)

    def swallow_answer(self) -> Fault:
        """Let the cluster do it, and never answer. The connection stays open."""
        return self._begin(_Action.SWALLOW_ANSWER)

    def detour(self) -> Fault:
        """Reset the connection; the request is on its way all the same, and comes to the broker by `deliver`."""
        return self._begin(_Action.DETOUR)

    def deliver(self, is_too_early: Callable[[Mapping[str, Any]], bool] = lambda _answer: False
                ) -> list[Mapping[str, Any]]:
        """Let what made a detour come to its broker now, on a connection of its own; return the answers.

        Args:
            is_too_early: Of an answer, whether the request is to come once more: later.

        Raises:
            ConnectionEnded: The broker closes the connection in place of an answer.
        """
        answers: list[Mapping[str, Any]] = []
        while self._late:
            address, frame = self._late[0]
            exchange = _Exchange(frame, None)
            with RawClient(address) as client:
                client.send_frame(frame)
                _, answer = client.receive_response(exchange.api_key, exchange.api_version)
            if is_too_early(answer):
                time.sleep(POLL_S)
                continue
            del self._late[0]
            answers.append(answer)
        return answers

    def hold_request(self) -> Fault:
        """Keep the request, and what follows it on its connection, until `release`."""
        self._holds_request = True
        return self._begin(self._action)

    def hold_answer(self) -> Fault:
        """Let the cluster do it, and keep the answer until `release`."""
        self._holds_answer = True
        return self._begin(self._action)

    def take_ms(self, ms: int) -> Fault:
        """Take so long for each of them; what follows on its connection waits, as it does for a slow broker."""
        self._takes_s = ms / 1000
        return self._begin(self._action)

    def release(self) -> None:
        """Let go what is held, and hold nothing more."""
        with self._proxy._lock:
            self._left = 0
            self._holds_request = self._holds_answer = False
            self._takes_s = 0.0
        self._proxy._wake()

    def end(self) -> None:
        """It happens to no further request."""
        with self._proxy._lock:
            self._left = 0

    def await_count(self, count: int = 1) -> None:
        """Wait until it happened so often.

        Raises:
            TimeoutError: It did not, for GIVE_UP_S.
        """
        deadline = time.monotonic() + GIVE_UP_S
        while self.count < count:
            if time.monotonic() > deadline:
                raise TimeoutError(f"{self._action.value} happened to {self.count} requests, not to {count}")
            time.sleep(POLL_S)

    def _set_code(self, code: int) -> None:
        if self._api_key is not ApiKeys.PRODUCE:  # here: where the answer is made the proxy's thread would end
            raise ValueError(f"errors can be made for Produce only, not for {self._api_key.name}")
        self._code = int(code)

    def _begin(self, action: _Action) -> Fault:
        with self._proxy._lock:
            self._action = action
            if self not in self._proxy._faults:
                self._proxy._faults.append(self)
        return self

    def _take(self, api_key: ApiKeys, frame: bytes) -> bool:
        if self._api_key is not api_key or self._left == 0 or self._holding not in frame:
            return False
        if self._left is not None:
            self._left -= 1
        return True


class Seen:
    """A request that came, in the order of arrival at the proxy. `body` has its fields by their names."""

    def __init__(self, api_key: ApiKeys, api_version: int, frame: bytes) -> None:
        self.api_key = api_key
        self.api_version = api_version
        self._frame = frame

    def holds(self, data: bytes) -> bool:
        """Whether these bytes are in it, a value that is not compressed for one."""
        return data in self._frame

    @property
    def body(self) -> Mapping[str, Any]:
        reader = ByteReader(self._frame)
        read_request_header(reader)
        fields: Mapping[str, Any] = self.api_key.request_formats[self.api_version][0].read(reader)
        return fields


class _Exchange:
    """One request and its answer."""

    def __init__(self, frame: bytes, fault: Fault | None) -> None:
        api_id, self.api_version, self.correlation_id = struct.unpack_from(">hhi", frame)
        self.api_key = ApiKeys(api_id)
        self.frame = frame
        self.fault = fault
        self.answer: bytes | None = None
        self.is_silent = False  # never answered
        self.due: float | None = None  # when a slow broker is done with it
        self.is_counted = False

    @property
    def action(self) -> _Action:
        return _Action.PASS if self.fault is None else self.fault._action

    @property
    def seen(self) -> Seen:
        return Seen(self.api_key, self.api_version, self.frame)

    def count(self) -> None:
        if self.fault is not None and not self.is_counted:
            self.is_counted = True
            self.fault.count += 1

    def expects_answer(self) -> bool:
        return self.api_key is not ApiKeys.PRODUCE or self.seen.body["acks"] != 0

    def error_answer(self, code: int) -> bytes:
        topics = []
        for topic in self.seen.body["topic_data"]:
            names = {name: topic[name] for name in ("name", "topic_id") if name in topic}
            topics.append({**names, "partition_responses": [
                {"index": partition["index"], "error_code": code, "base_offset": -1, "log_append_time_ms": -1,
                 "log_start_offset": -1} for partition in topic["partition_data"]]})
        return b"".join(build_response(self.api_key, self.api_version, self.correlation_id,
                                       {"responses": topics, "throttle_time_ms": 0}))


class _Frames:
    """Bytes that come in pieces, as whole frames."""

    def __init__(self) -> None:
        self._data = bytearray()

    def feed(self, data: bytes) -> list[bytes]:
        self._data += data
        frames = []
        while len(self._data) >= 4:
            end = 4 + struct.unpack_from(">i", self._data)[0]
            if len(self._data) < end:
                break
            frames.append(bytes(self._data[4:end]))
            del self._data[:end]
        return frames


class _End:
    """A socket, what came from it and what is still to be written to it."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.frames = _Frames()
        self.out = bytearray()

    def put(self, frame: bytes) -> None:
        self.out += struct.pack(">i", len(frame)) + frame

    def read(self) -> list[bytes] | None:
        """Return whole frames; None at the end."""
        try:
            data = self.sock.recv(CHUNK_BYTES)
        except BlockingIOError:
            return []
        except OSError:
            return None
        return self.frames.feed(data) if data else None

    def write(self) -> bool:
        """Write what can be written; False when the connection broke."""
        try:
            while self.out:
                del self.out[:self.sock.send(self.out)]
        except BlockingIOError:
            pass
        except OSError:
            return False
        return True


class _Conversation:
    """One connection of the client, and ours to the broker behind it."""

    def __init__(self, proxy: FaultProxy, client: socket.socket, broker: socket.socket) -> None:
        self._proxy = proxy
        self.client = _End(client)
        self.broker = _End(broker)
        self._requests: collections.deque[_Exchange] = collections.deque()  # not sent on yet
        self._answers: collections.deque[_Exchange] = collections.deque()  # not answered yet, in order

    def on_request(self, frame: bytes) -> None:
        self._requests.append(self._proxy._begin_exchange(frame))

    def on_answer(self, frame: bytes) -> None:
        correlation_id = struct.unpack_from(">i", frame)[0]
        for exchange in self._answers:
            if exchange.correlation_id == correlation_id and exchange.answer is None and not exchange.is_silent:
                exchange.answer = self._proxy._renamed(exchange, frame)
                if exchange.action is _Action.SWALLOW_ANSWER:
                    exchange.is_silent = True
                if exchange.action is _Action.ERROR_AFTER and exchange.fault is not None:
                    exchange.answer = exchange.error_answer(exchange.fault._code)
                exchange.count()
                return

    @property
    def wait_s(self) -> float | None:
        """How long until it must be looked at although nothing comes."""
        due = self._requests[0].due if self._requests else None
        return None if due is None else max(due - time.monotonic(), 0)

    def advance(self) -> bool:
        """Pass on what may go; False when the connection is to be cut."""
        while self._requests:
            exchange = self._requests[0]
            if exchange.fault is not None and exchange.fault._holds_request:
                exchange.count()
                break
            if exchange.fault is not None and exchange.fault._takes_s:
                if exchange.due is None:
                    exchange.due = time.monotonic() + exchange.fault._takes_s
                if time.monotonic() < exchange.due:
                    break
            action = exchange.action
            self._requests.popleft()
            if action in (_Action.CUT_BEFORE, _Action.DETOUR):
                if exchange.fault is not None and action is _Action.DETOUR:
                    exchange.fault._late.append((self.broker.sock.getpeername(), exchange.frame))
                exchange.count()
                return False
            if action in (_Action.SWALLOW_REQUEST, _Action.ERROR):
                exchange.is_silent = action is _Action.SWALLOW_REQUEST
                if exchange.fault is not None and action is _Action.ERROR:
                    exchange.answer = exchange.error_answer(exchange.fault._code)
                self._answers.append(exchange)
                exchange.count()
                continue
            self.broker.put(exchange.frame)
            if exchange.expects_answer():
                self._answers.append(exchange)
        while self._answers:
            exchange = self._answers[0]
            if exchange.is_silent or exchange.answer is None:
                break
            if exchange.action is _Action.CUT_AFTER:
                return False
            if exchange.fault is not None and exchange.fault._holds_answer:
                break
            self.client.put(exchange.answer)
            self._answers.popleft()
        return self.client.write() and self.broker.write()


class FaultProxy:
    """A context manager; clients bootstrap from `bootstrap_servers`.

    Args:
        target: The cluster's bootstrap servers, `host:port` divided by commas.
    """

    def __init__(self, target: str) -> None:
        self._lock = threading.Lock()  # guards the faults and their fields, and the list of requests
        self._faults: list[Fault] = []
        self._seen: list[Seen] = []
        self._listeners: dict[Address, socket.socket] = {}  # by the broker behind it; the thread's, once it runs
        self._brokers: dict[socket.socket, Address] = {}
        self._conversations: set[_Conversation] = set()  # the thread's
        self._ends: dict[socket.socket, tuple[_Conversation, _End]] = {}  # the thread's
        self._is_stopping = False
        self._is_shut = False
        self._cut_all = False
        self._wake_reader, self._wake_writer = socket.socketpair()
        self._wake_reader.setblocking(False)
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._wake_reader, selectors.EVENT_READ)
        self._thread = threading.Thread(target=self._run, name="fault-proxy")
        self._bootstrap = [self._listen(_address(server)) for server in target.split(",")]

    @property
    def bootstrap_servers(self) -> str:
        """Where clients begin."""
        return ",".join(f"{host}:{port}" for host, port in self._bootstrap)

    def __enter__(self) -> FaultProxy:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Close every connection and end the thread."""
        self._is_stopping = True
        self._wake()
        self._thread.join()
        self._wake_writer.close()
        self._wake_reader.close()

    # ---- the script

    def on(self, api: str, *, times: int | None = 1, holding: bytes = b"") -> Fault:
        """Name the next requests of an API ("Produce"); `times` None means all of them.

        Only those that hold these bytes: a record's value, where nothing is compressed, is its first attempt and every
        retry, whatever is sent between them.
        """
        return Fault(self, ApiKeys[api.upper()], times, holding)

    def shut(self) -> None:
        """Cut every connection and let nobody in, until `heal`: the cluster is gone."""
        self._is_shut = True
        self._cut()

    def heal(self) -> None:
        """End all faults, let clients in, and cut the connections, some of which may wait for ever."""
        self._is_shut = False
        with self._lock:
            for fault in self._faults:
                fault._left = 0
                fault._holds_request = fault._holds_answer = False
                fault._takes_s = 0.0
            self._faults.clear()
        self._cut()

    def requests(self, api: str) -> list[Seen]:
        """Return the requests of an API that came, faulty ones too."""
        with self._lock:
            return [seen for seen in self._seen if seen.api_key is ApiKeys[api.upper()]]

    # ---- the thread

    def _cut(self) -> None:
        self._cut_all = True
        self._wake()
        deadline = time.monotonic() + GIVE_UP_S
        while self._cut_all:
            if time.monotonic() > deadline:
                raise TimeoutError("the proxy's thread does not answer")
            time.sleep(POLL_S)

    def _wake(self) -> None:
        self._wake_writer.send(b"w")

    def _run(self) -> None:
        try:
            while not self._is_stopping:
                self._step()
        finally:
            for conversation in list(self._conversations):
                self._drop(conversation)
            for listener in self._listeners.values():
                listener.close()
            self._selector.close()

    def _step(self) -> None:
        waits = [wait_s for conversation in self._conversations if (wait_s := conversation.wait_s) is not None]
        events = self._selector.select(min(waits, default=None))
        if self._cut_all:
            for conversation in list(self._conversations):
                self._drop(conversation)
            self._cut_all = False
        for key, mask in events:
            sock = key.fileobj
            assert isinstance(sock, socket.socket)
            if sock is self._wake_reader:
                with contextlib.suppress(BlockingIOError):
                    sock.recv(4096)
            elif sock in self._brokers:
                self._accept(sock)
            elif sock in self._ends and mask & selectors.EVENT_READ:
                self._read(*self._ends[sock])
        for conversation in list(self._conversations):
            if conversation.advance():
                self._register(conversation)
            else:
                self._drop(conversation)

    def _read(self, conversation: _Conversation, end: _End) -> None:
        frames = end.read()
        if frames is None:
            self._drop(conversation)
            return
        for frame in frames:
            if end is conversation.client:
                conversation.on_request(frame)
            else:
                conversation.on_answer(frame)

    def _register(self, conversation: _Conversation) -> None:
        for end in (conversation.client, conversation.broker):
            self._selector.modify(end.sock, selectors.EVENT_READ | (selectors.EVENT_WRITE if end.out else 0))

    def _accept(self, listener: socket.socket) -> None:
        client, _ = listener.accept()
        if self._is_shut:
            client.close()
            return
        try:
            broker = socket.create_connection(self._brokers[listener], timeout=GIVE_UP_S)
        except OSError:
            client.close()
            return
        conversation = _Conversation(self, client, broker)
        self._conversations.add(conversation)
        for end in (conversation.client, conversation.broker):
            end.sock.setblocking(False)
            end.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._ends[end.sock] = conversation, end
            self._selector.register(end.sock, selectors.EVENT_READ)

    def _drop(self, conversation: _Conversation) -> None:
        if conversation not in self._conversations:
            return
        self._conversations.discard(conversation)
        for end in (conversation.client, conversation.broker):
            self._selector.unregister(end.sock)
            del self._ends[end.sock]
            if end is conversation.client:
                end.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_AT_CLOSE)
            end.sock.close()

    def _listen(self, broker: Address) -> Address:
        if broker not in self._listeners:
            listener = socket.create_server(("127.0.0.1", 0), backlog=64)
            self._listeners[broker] = listener
            self._brokers[listener] = broker
            self._selector.register(listener, selectors.EVENT_READ)
        return "127.0.0.1", int(self._listeners[broker].getsockname()[1])

    def _begin_exchange(self, frame: bytes) -> _Exchange:
        with self._lock:
            api_key = ApiKeys(struct.unpack_from(">h", frame)[0])
            fault = next((fault for fault in self._faults if fault._take(api_key, frame)), None)
            exchange = _Exchange(frame, fault)
            self._seen.append(exchange.seen)
        return exchange

    def _renamed(self, exchange: _Exchange, frame: bytes) -> bytes:
        """Put our listeners in the place of the brokers that an answer names."""
        field = {ApiKeys.METADATA: "brokers", ApiKeys.PRODUCE: "node_endpoints",
                 ApiKeys.FIND_COORDINATOR: "coordinators"}.get(exchange.api_key)
        if field is None:
            return frame
        correlation_id, body = parse_response(exchange.api_key, exchange.api_version, frame)
        nodes = body.get(field)
        if exchange.api_key is ApiKeys.FIND_COORDINATOR and exchange.api_version < 4:
            nodes = [body]
        if not nodes:
            return frame
        for node in nodes:
            if node["port"] > 0:  # else none is known
                node["host"], node["port"] = self._listen((node["host"], node["port"]))
        return b"".join(build_response(exchange.api_key, exchange.api_version, correlation_id, body))


def _address(server: str) -> Address:
    host, _, port = server.rpartition(":")
    return host, int(port)
