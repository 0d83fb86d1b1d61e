"""Brokers on real sockets that keep Kafka's rules for producer ids and do what a test says: they forget, refuse, lose.

    with ScriptedBroker({"orders": 1}) as broker:
        broker.on_batch("orders", holding=b"paid").refuse(ErrorCode.NOT_ENOUGH_REPLICAS)
        broker.on_batch("orders", nth=2).lose_answer()           it is stored, and the connection ends
        held = broker.on_batch("orders", times=None).hold()
        held.await_count()                                       the first one is here
        held.release()                                           and goes on, as all others
        with broker.gather("orders", count=2):                   what is sent here is handled when it is over, together
            producer.send("orders", b"a")
            producer.send("orders", b"b")
        broker.forget_producer("orders")
        assert broker.values("orders") == [b"paid", b"a", b"b"]

What is a right answer is ModelCluster's alone; here are sockets, and the script. What no correct client sends ends its
connection and the test: `complaints` has it, and so has the exit of the `with`.

Requests of a connection are handled in their order, as by Kafka; those that were read are handled though their
connection ended meanwhile, as by Kafka, too: a retry may meet them.

Thread:  one thread owns every socket; the methods are for any thread.
Source:  ours.

No import of pytest.
"""

from __future__ import annotations

import collections
import contextlib
import selectors
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from types import TracebackType
from typing import Any, NamedTuple

from pyproducer.protocol.apis import ApiKeys
from pyproducer.protocol.buffer import ByteReader
from pyproducer.protocol.header import read_request_header
from tests.simulation.model_batch import ClientBug, ProducedBatch
from tests.simulation.model_broker import CLOSE_CONNECTION, ModelCluster, ModelParameters, StoredBatch
from tests.simulation.model_faults import ApiVersionsVerdict, Interference, Verdict
from tests.simulation.model_log import KAFKA_BEFORE_2_4
from tests.support.patience import GIVE_UP_S

CHUNK_BYTES = 256 * 1024
POLL_S = 0.001
GATHER_S = 0.5  # how long `gather` waits for a batch that may never come, because a right client waits for an answer
TOPIC_IDS_IN_PRODUCE = 13


def kafka_2_3(**others: Any) -> ModelParameters:
    """A cluster of Kafka 2.3: its versions, and how it answers producers that it does not know."""
    return ModelParameters(produce_version=7, metadata_version=8, init_producer_id_version=1, api_versions_version=2,
                           has_topic_ids=False, hints_leaders=False, idempotence=KAFKA_BEFORE_2_4, **others)


class Stored(NamedTuple):
    """A record in a log, and the number by which its batch was stored."""

    value: bytes | None
    offset: int
    producer_id: int
    producer_epoch: int
    sequence: int
    codec: int
    timestamp: int


class Arrived(NamedTuple):
    """A batch as it came, whatever became of it."""

    node_id: int
    topic: str
    partition: int
    values: list[bytes | None]
    producer_id: int
    producer_epoch: int
    base_sequence: int


class Rule:
    """What happens to the batches that `ScriptedBroker.on_batch` named. A hold may be followed by something else, which
    happens on release: `broker.on_batch("orders").hold().lose_answer()`.

    Attributes:
        count: To how many batches it has happened by now.
    """

    def __init__(self, broker: ScriptedBroker, topic: str, partition: int, holding: bytes | None, skipped: int,
                 times: int | None) -> None:
        self._broker = broker
        self._topic = topic
        self._partition = partition
        self._holding = holding
        self._skipped = skipped  # guarded by the broker's lock, as all below
        self._left = times
        self._verdict: Verdict | None = None
        self._holds_request = False
        self._holds_answer = False
        self._loses_request = False
        self._loses_answer = False
        self._cuts = False
        self.count = 0

    def refuse(self, code: int) -> Rule:
        """Answer with a code in place of storing it."""
        self._verdict = Verdict(error_code=int(code), applies=False, message="so says the script")
        return self._begin()

    def refuse_after(self, code: int) -> Rule:
        """Store it, if that can be, and answer with a code."""
        self._verdict = Verdict(error_code=int(code), applies=True, message="so says the script")
        return self._begin()

    def lose_request(self, *, cut: bool = True) -> Rule:
        """End the connection in place of handling the request; without `cut`, never answer anything on it any more."""
        self._loses_request, self._cuts = True, cut
        return self._begin()

    def lose_answer(self, *, cut: bool = True) -> Rule:
        """Handle the request, and end the connection in place of answering, or without `cut` never answer again."""
        self._loses_answer, self._cuts = True, cut
        return self._begin()

    def hold(self) -> Rule:
        """Do not handle the request, nor what follows it on its connection, until `release`."""
        self._holds_request = True
        return self._begin()

    def hold_answer(self) -> Rule:
        """Handle the request, and keep the answer, and those that follow it, until `release`."""
        self._holds_answer = True
        return self._begin()

    def pass_on(self) -> Rule:
        """Do nothing to them: what was named later happens to those that follow."""
        return self._begin()

    def release(self) -> None:
        """Let go what is held, and hold nothing more."""
        with self._broker._lock:
            self._holds_request = self._holds_answer = False
            self._left = 0
        self._broker._wake()

    def end(self) -> None:
        """It happens to no further batch."""
        with self._broker._lock:
            self._left = 0

    def await_count(self, count: int = 1) -> None:
        """Wait until it happened so often.

        Raises:
            TimeoutError: It did not, for GIVE_UP_S.
        """
        self._broker.await_true(lambda: self.count >= count,
                                lambda: f"the rule's batch number {count}; there were {self.count}")

    def _begin(self) -> Rule:
        with self._broker._lock:
            if self not in self._broker._rules:
                self._broker._rules.append(self)
        return self

    def _takes(self, batch: Arrived) -> bool:
        if self._left == 0 or (batch.topic, batch.partition) != (self._topic, self._partition):
            return False
        if self._holding is not None and self._holding not in batch.values:
            return False
        if self._skipped:
            self._skipped -= 1
            return False
        if self._left is not None:
            self._left -= 1
        return True


class _Request:
    """A frame that was read, and which rules it falls under, once it is its turn."""

    def __init__(self, frame: bytes, batches: list[Arrived]) -> None:
        self.frame = frame
        self.is_produce = struct.unpack_from(">h", frame)[0] == ApiKeys.PRODUCE
        self.batches = batches
        self.rules: dict[tuple[str, int], Rule] | None = None
        self.held: list[Rule] = []  # those that were counted when it came

    def any(self, name: str) -> list[Rule]:
        return [rule for rule in (self.rules or {}).values() if getattr(rule, name)]


class _Conversation:
    """One connection of a client with one node."""

    def __init__(self, node_id: int, sock: socket.socket) -> None:
        self.node_id = node_id
        self.sock = sock
        self.data = bytearray()
        self.out = bytearray()
        self.requests: collections.deque[_Request] = collections.deque()
        self.answers: collections.deque[tuple[bytes, list[Rule]]] = collections.deque()  # that some rule may hold
        self.is_mute = False  # nothing is answered any more
        self.is_ending = False  # what is in `out` is the last; what comes is not looked at
        self.is_gone = False  # the client closed it; what it had asked for is done all the same


class _Script(Interference):
    """Hands the rules' verdicts to the model."""

    cluster: ModelCluster

    def __init__(self, *, announces_fetch: bool) -> None:
        self.request: _Request | None = None
        self._announces_fetch = announces_fetch

    def on_api_versions(self, node_id: int, now_ms: int) -> ApiVersionsVerdict | None:
        if not self._announces_fetch:
            return None
        return ApiVersionsVerdict(versions={**self.cluster.versions(), int(ApiKeys.FETCH): (4, 12)})

    def on_produce(self, node_id: int, topic: str, partition: int, now_ms: int) -> Verdict | None:
        rules = self.request.rules if self.request is not None else None
        rule = rules.get((topic, partition)) if rules else None
        return None if rule is None else rule._verdict


class ScriptedBroker:
    """A context manager; clients bootstrap from `bootstrap_servers`.

    Args:
        topics: Partition counts by name.
        node_count: Partition p of the n-th topic is led by node (p + n) % node_count.
        parameters: What differs between clusters; its addresses and interference are set here.
        is_for_librdkafka: It may send the leader epoch 0, and finds Fetch announced, by which it tells that brokers
            know record batches of today. It must not use it.

    Attributes:
        complaints: What clients did that no correct client does, or what failed here; the exit raises the first.
        arrived: Each batch that came, in the order in which it was read.
    """

    def __init__(self, topics: Mapping[str, int], *, node_count: int = 1,
                 parameters: ModelParameters | None = None, is_for_librdkafka: bool = False) -> None:
        # Guards the cluster, the rules, the list of what arrived, and what is queued on connections.
        self._lock = threading.RLock()
        self._rules: list[Rule] = []
        self._script = _Script(announces_fetch=is_for_librdkafka)
        self._listeners: dict[socket.socket, int] = {}
        self._conversations: set[_Conversation] = set()
        self._offset_ms = 0
        self._is_stopping = False
        self._is_paused = False
        self._is_cutting = False
        self._at_quiet: list[Callable[[], object]] = []
        self.complaints: list[BaseException] = []
        self.arrived: list[Arrived] = []
        self._selector = selectors.DefaultSelector()
        self._wake_reader, self._wake_writer = socket.socketpair()
        self._wake_reader.setblocking(False)
        self._wake_writer.setblocking(False)
        self._selector.register(self._wake_reader, selectors.EVENT_READ)
        addresses = {}
        for node_id in range(node_count):
            listener = socket.create_server(("127.0.0.1", 0), backlog=64)
            listener.setblocking(False)
            self._listeners[listener] = node_id
            addresses[node_id] = ("127.0.0.1", int(listener.getsockname()[1]))
            self._selector.register(listener, selectors.EVENT_READ)
        parameters = parameters or ModelParameters()
        parameters.addresses = addresses
        parameters.interference = self._script
        parameters.takes_leader_epochs |= is_for_librdkafka
        self._cluster = ModelCluster(node_count=node_count, topics=topics, parameters=parameters)
        self._script.cluster = self._cluster
        self.bootstrap_servers = ",".join(f"{host}:{port}" for host, port in addresses.values())
        self._thread = threading.Thread(target=self._run, name="scripted-broker")

    def __enter__(self) -> ScriptedBroker:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.close()
        self.check()

    def close(self) -> None:
        """Close every connection and end the thread."""
        self._is_stopping = True
        self._wake()
        self._thread.join()
        self._wake_writer.close()
        self._wake_reader.close()

    def check(self) -> None:
        """Raise what clients did wrong, if they did.

        Raises:
            ClientBug: Or whatever failed in the broker itself.
        """
        if self.complaints:
            raise self.complaints[0]

    # ---- the script

    def on_batch(self, topic: str, partition: int = 0, *, holding: bytes | None = None, nth: int = 1,
                 times: int | None = 1) -> Rule:
        """Name batches of a partition that come from now on, first attempts and retries alike.

        Args:
            topic: Its topic.
            partition: The partition.
            holding: Only those with a record of this value.
            nth: Begin with the n-th of them.
            times: So many; None means all that follow.
        """
        return Rule(self, topic, partition, holding, nth - 1, times)

    def pause(self) -> None:
        """Read Produce requests and do not handle them, nor what follows them on their connections."""
        with self._lock:
            self._is_paused = True

    def resume(self) -> None:
        """Handle them."""
        with self._lock:
            self._is_paused = False
        self._wake()

    @contextlib.contextmanager
    def gather(self, topic: str, partition: int = 0, *, count: int) -> Iterator[None]:
        """Handle what comes meanwhile only when so many batches of a partition are here.

        A client that waits for the answer of the first one sends no second: after a while, what is here is handled.
        """
        before = len(self.arrived_of(topic, partition))
        self.pause()
        try:
            yield
            self.await_true(lambda: len(self.arrived_of(topic, partition)) > before, "the first batch to gather")
            until = time.monotonic() + GATHER_S
            while len(self.arrived_of(topic, partition)) < before + count and time.monotonic() < until:
                time.sleep(POLL_S)
        finally:
            self.resume()

    def forget_producer(self, topic: str, partition: int = 0, *, node_id: int | None = None) -> bool:
        """Forget every producer of a partition, on all nodes or on one; return whether any was known."""
        with self._lock:
            known = {producer_id for node in (self._cluster.nodes if node_id is None else (node_id,))
                     for producer_id in self._cluster.partition(topic, partition).known_to(node)}
            return sum(self._cluster.forget_producer(topic, partition, producer_id, node_id)
                       for producer_id in known) > 0

    def restart(self, topic: str, partition: int = 0) -> None:
        """Let all brokers have restarted: connections end, and of each producer the last batch alone is known."""
        with self._lock:
            self._cluster.restart_replicas(topic, partition)
        self.cut()

    def recreate_topic(self, topic: str) -> None:
        """Delete a topic and make it anew, with another id."""
        with self._lock:
            self._cluster.recreate_topic(topic)

    def move_leader(self, topic: str, partition: int = 0, *, to: int) -> None:
        """Let another node, or the same one once more, lead a partition, in the next leader epoch."""
        with self._lock:
            self._cluster.move_leader(topic, partition, to)

    def leader_of(self, topic: str, partition: int = 0) -> int:
        """Return the node that leads a partition."""
        with self._lock:
            return self._cluster.partition(topic, partition).leader_id

    def delete_records(self, topic: str, partition: int = 0) -> None:
        """Let retention delete all that is in a partition, if anything is; `log` goes on to tell it."""
        with self._lock:
            found = self._cluster.partition(topic, partition)
            if found.start_offset < found.end_offset:
                self._cluster.delete_records(topic, partition, found.end_offset)

    def advance_time(self, ms: int) -> None:
        """Let the brokers' clock go on by so much."""
        with self._lock:
            self._offset_ms += ms

    def expire_producers(self, expiration_ms: int = 86_400_000) -> int:
        """Forget producers as producer.id.expiration.ms says, by their newest timestamps; return how many."""
        with self._lock:
            return self._cluster.expire_producers(self.now_ms, expiration_ms)

    def set_max_message_bytes(self, size_bytes: int) -> None:
        """Refuse larger batches from now on."""
        with self._lock:
            self._cluster.parameters.max_message_bytes = size_bytes

    def cut(self) -> None:
        """End every connection that there is; what was read from it is handled."""
        with self._lock:
            self._is_cutting = True
        self._wake()
        self.await_true(lambda: not self._is_cutting, "the end of all connections")

    @property
    def now_ms(self) -> int:
        """The brokers' clock, in epoch ms."""
        return int(time.time() * 1000) + self._offset_ms

    # ---- looks

    def batches(self, topic: str, partition: int = 0) -> list[StoredBatch]:
        """Return the stored batches of a partition that there is now."""
        with self._lock:
            return list(self._cluster.log(topic, partition))

    def log(self, topic: str, partition: int = 0) -> list[Stored]:
        """Return the records of a partition that there is now, deleted ones too."""
        return records_of(self.batches(topic, partition))

    def values(self, topic: str, partition: int = 0) -> list[bytes | None]:
        """Return their values."""
        return [record.value for record in self.log(topic, partition)]

    def all_logs(self, topic: str) -> list[tuple[int, list[Stored]]]:
        """Return (partition, records) of all that a topic ever was, those before it was made anew first."""
        with self._lock:
            logs = [(key[2], list(batches)) for key, batches in self._cluster.logs.items() if key[0] == topic]
        return [(partition, records_of(batches)) for partition, batches in logs]

    def epochs(self, topic: str, partition: int = 0) -> list[tuple[int, int]]:
        """Return the (producer id, epoch) pairs of a partition, each once, in the order in which they came."""
        return list(dict.fromkeys((record.producer_id, record.producer_epoch) for record in self.log(topic, partition)))

    def arrived_of(self, topic: str, partition: int = 0) -> list[Arrived]:
        """Return the batches that came for a partition."""
        with self._lock:
            return [batch for batch in self.arrived if (batch.topic, batch.partition) == (topic, partition)]

    def waiting_values(self) -> set[bytes | None]:
        """Return the values of what was read and is still to be handled."""
        with self._lock:
            return {value for conversation in self._conversations for request in conversation.requests
                    for batch in request.batches for value in batch.values}

    def await_quiet(self, then: Callable[[], object] = lambda: None) -> None:
        """Wait until all that clients wrote was read and handled, but for what is held or paused.

        Args:
            then: What to do at that moment, by the brokers' own thread: nothing is handled before it is done.

        Raises:
            TimeoutError: There is no end to it, for GIVE_UP_S.
        """
        done = threading.Event()

        def do() -> None:
            try:
                then()
            except BaseException as failure:
                self.complaints.append(failure)
            finally:
                done.set()

        with self._lock:
            self._at_quiet.append(do)
        self._wake()
        if not done.wait(GIVE_UP_S):
            self.check()
            raise TimeoutError("the brokers have no quiet moment")

    def await_true(self, condition: Callable[[], object], what: str | Callable[[], str]) -> None:
        """Wait for something, and fail with a client's bug if there is one.

        Raises:
            ClientBug: A client did what no correct client does.
            TimeoutError: It did not happen within GIVE_UP_S.
        """
        deadline = time.monotonic() + GIVE_UP_S
        while not condition():
            self.check()
            if time.monotonic() > deadline:
                raise TimeoutError(f"after {GIVE_UP_S:g} s, not yet: {what if isinstance(what, str) else what()}")
            time.sleep(POLL_S)

    # ---- the thread

    def _wake(self) -> None:
        with contextlib.suppress(BlockingIOError):
            self._wake_writer.send(b"w")

    def _run(self) -> None:
        try:
            while not self._is_stopping:
                self._step()
        except BaseException as failure:  # the test is to know
            self.complaints.append(failure)
        finally:
            for conversation in list(self._conversations):
                self._drop(conversation)
            for listener in self._listeners:
                listener.close()
            self._selector.close()

    def _step(self) -> None:
        events = self._selector.select(0 if self._at_quiet else None)
        with self._lock:
            is_quiet = True
            for key, mask in events:
                if key.fileobj is self._wake_reader:
                    with contextlib.suppress(BlockingIOError):
                        self._wake_reader.recv(4096)
                    continue
                is_quiet = False
                if key.fileobj in self._listeners:
                    self._accept(key.fileobj)
                elif mask & selectors.EVENT_READ:
                    self._read(key.data)
            for conversation in list(self._conversations):
                self._advance(conversation)
            if self._is_cutting:
                for conversation in self._conversations:
                    if not conversation.is_gone:
                        self._end(conversation)
                self._is_cutting = False
            if is_quiet:
                for do in self._at_quiet:
                    do()
                self._at_quiet.clear()

    def _accept(self, listener: Any) -> None:
        sock, _ = listener.accept()
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        conversation = _Conversation(self._listeners[listener], sock)
        self._conversations.add(conversation)
        self._selector.register(sock, selectors.EVENT_READ, conversation)

    def _read(self, conversation: _Conversation) -> None:
        try:
            data = conversation.sock.recv(CHUNK_BYTES)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._close_socket(conversation)
        if conversation.is_ending:
            return
        conversation.data += data
        while len(conversation.data) >= 4:
            end = 4 + struct.unpack_from(">i", conversation.data)[0]
            if len(conversation.data) < end:
                return
            frame = bytes(conversation.data[4:end])
            del conversation.data[:end]
            batches = self._batches_of(conversation.node_id, frame)
            self.arrived += batches
            conversation.requests.append(_Request(frame, batches))

    def _batches_of(self, node_id: int, frame: bytes) -> list[Arrived]:
        """Return what a Produce request brings to topics that there are; what is wrong with it, the model finds."""
        api_id, version = struct.unpack_from(">hh", frame.ljust(4, b"\xff"))
        if api_id != ApiKeys.PRODUCE:
            return []
        batches = []
        with contextlib.suppress(Exception):
            reader = ByteReader(frame)
            read_request_header(reader)
            body = ApiKeys.PRODUCE.request_formats[version][0].read(reader)
            names = {self._cluster.topic_id(name): name for name in self._cluster.topics}
            for topic in body["topic_data"]:
                name = names.get(topic["topic_id"]) if version >= TOPIC_IDS_IN_PRODUCE else topic["name"]
                for row in topic["partition_data"]:
                    batch = ProducedBatch(bytes(row["records"]), version, may_name_leader_epoch=True)
                    batches.append(Arrived(node_id, name or "", row["index"], batch.values, batch.producer_id,
                                           batch.producer_epoch, batch.base_sequence))
        return batches

    def _advance(self, conversation: _Conversation) -> None:
        while conversation.requests and not conversation.is_ending:
            request = conversation.requests[0]
            if request.is_produce and self._is_paused:
                break
            if request.rules is None:
                request.rules = {}
                for batch in request.batches:
                    if not self._leads(conversation.node_id, batch):
                        continue  # it says so before it looks at anything else
                    rule = next((rule for rule in self._rules if rule._takes(batch)), None)
                    if rule is not None:
                        request.rules[batch.topic, batch.partition] = rule
                        if rule._holds_request:
                            request.held.append(rule)
                            rule.count += 1
            if request.any("_holds_request"):
                break
            conversation.requests.popleft()
            self._handle(conversation, request)
        while conversation.answers and not any(rule._holds_answer for rule in conversation.answers[0][1]):
            answer = conversation.answers.popleft()[0]
            conversation.out += struct.pack(">i", len(answer)) + answer
        if conversation.is_gone:
            if not conversation.requests or conversation.is_ending:
                self._conversations.discard(conversation)
            return
        self._write(conversation)

    def _leads(self, node_id: int, batch: Arrived) -> bool:
        partitions = self._cluster.topics.get(batch.topic, [])
        return batch.partition < len(partitions) and partitions[batch.partition].leader_id == node_id

    def _handle(self, conversation: _Conversation, request: _Request) -> None:
        answer: bytes | None = None
        if not request.any("_loses_request"):
            self._script.request = request
            try:
                answer = self._cluster.handle(conversation.node_id, request.frame, self.now_ms, connection=conversation)
                if answer is None and not request.is_produce:
                    raise ClientBug(f"a request of API {request.frame[1]}, which has no answer here")
            except ClientBug as bug:
                self.complaints.append(bug)
                answer = CLOSE_CONNECTION
            finally:
                self._script.request = None
        for rule in (request.rules or {}).values():
            rule.count += rule not in request.held
        losing = request.any("_loses_request") + request.any("_loses_answer")
        if answer is CLOSE_CONNECTION or any(rule._cuts for rule in losing):
            self._end(conversation)
        elif losing:
            conversation.is_mute = True
        elif answer is not None and not conversation.is_mute:
            conversation.answers.append((answer, request.any("_holds_answer")))

    def _end(self, conversation: _Conversation) -> None:
        """Say nothing more than what was said; the client finds the end behind it."""
        conversation.is_ending = True
        conversation.answers = collections.deque((answer, []) for answer, _ in conversation.answers)

    def _write(self, conversation: _Conversation) -> None:
        try:
            while conversation.out:
                del conversation.out[:conversation.sock.send(conversation.out)]
            if conversation.is_ending and not conversation.answers:
                conversation.sock.shutdown(socket.SHUT_WR)
        except BlockingIOError:
            pass
        except OSError:
            self._close_socket(conversation)
            return
        events = selectors.EVENT_READ | (selectors.EVENT_WRITE if conversation.out else 0)
        self._selector.modify(conversation.sock, events, conversation)

    def _close_socket(self, conversation: _Conversation) -> None:
        if not conversation.is_gone:
            conversation.is_gone = True
            self._selector.unregister(conversation.sock)
            conversation.sock.close()

    def _drop(self, conversation: _Conversation) -> None:
        self._close_socket(conversation)
        self._conversations.discard(conversation)


def records_of(batches: list[StoredBatch]) -> list[Stored]:
    """Return the records of batches."""
    return [Stored(value, batch.base_offset + index, batch.producer_id, batch.producer_epoch,
                   batch.base_sequence + index if batch.base_sequence >= 0 else -1, batch.codec,
                   batch.timestamps[index]) for batch in batches for index, value in enumerate(batch.values)]
