"""What goes wrong in a simulation: each place where something can asks here, with the kind of fault.

Each kind has a rate, drawn for the seed; what fires has a number and is told in the story. Nothing fires after `heal`:
a producer must come to rest when the world has.

Source:  ours.
"""

from __future__ import annotations

import enum
import errno
import math
import random
import socket
from collections import Counter, deque
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from pyproducer.common.errors import SchemaError
from tests.simulation.plan import Parameters, Plan
from tests.simulation.schedule import Scheduler, SimClock

if TYPE_CHECKING:
    from tests.simulation.ledger import Ledger
    from tests.simulation.manners import Manners
    from tests.simulation.model_broker import ModelCluster
    from tests.simulation.network import Connection, Network

_PRODUCE = 0
_ANOTHERS_ANSWER = 1  # draws, of the ways in which an answer makes no sense, that of another request

# How probable a kind is at each of its occasions, times the seed's own weight.
_BASE = {
    "cut_before": 0.03, "cut_after": 0.03, "late_apply": 0.03, "lose_answer": 0.01, "half_open": 0.01,
    "slow_answer": 0.02, "stall": 0.01, "refuse": 0.1, "lose_connect": 0.05, "error_before": 0.04,
    "error_after": 0.03, "too_large": 0.03, "throttle": 0.03, "stale_metadata": 0.1, "shrinking_metadata": 0.05,
    "sparse_metadata": 0.05, "topic_error": 0.05, "leader_move": 0.15, "leader_move_unhinted": 0.15,
    "node_stop": 0.06, "recreate_topic": 0.01, "forget_producer": 0.02, "no_id": 0.2, "slow_name": 0.2,
    "no_name": 0.1, "wall_jump": 0.05, "freeze": 0.02, "memory_error": 0.002, "interrupt": 0.3, "strike": 0.05,
    "suspend": 0.01, "send_memory": 0.005, "codec_memory": 0.02, "refuse_login": 0.3,
    "forget_any": 0.12, "stale_hint": 0.1, "wrong_hint": 0.1, "omit_partition": 0.15, "extra_partition": 0.1,
    "false_success": 0.02, "omit_topic": 0.2, "hide_node": 0.2, "metadata_error": 0.2, "odd_versions": 0.3,
    "add_partitions": 0.12, "fence": 0.08, "restart_replicas": 0.08, "strange_peer": 0.15,
    "coordinator_move": 0.2, "coordinator_error": 0.2, "slow_completion": 0.5, "other_producer": 0.04,
    "coordinator_refusal": 0.05, "partial_refusal": 0.3,
    "wants_login": 0.08, "garble": 0.03, "odd_name": 0.2, "unencodable": 0.02, "record_errors": 0.06,
    "telemetry_error": 0.3,
}

# What a broker may answer instead of appending: all of Produce's codes, the retriable ones more often. Not those about
# sequence numbers: they say something about the log, and the model gives them where they are true.
ERRORS_BEFORE = (5, 6, 6, 3, 7, 9, 14, 15, 16, 19, 19, 51, 56, 72, 74, 75, 76, 83, 89, 100, 2, -1, 8, 10, 17, 18, 21,
                 29, 31, 32, 35, 42, 43, 44, 47, 48, 53, 67, 87, 90, 97)
# ... and after it appended: not enough replicas had it in time, or the leader changed while it waited for them.
ERRORS_AFTER = (7, 20, 6, 56)


_TEARS = ("memory_error", "send_memory", "interrupt", "strike")
_MAX_EPOCH = 2**15 - 1
_MOST_PARTITIONS = 9

class Freeze(NamedTuple):
    """One time that the process stood still.

    Attributes:
        at_ms: When.
        ms: For how long beyond the sleep that was to be.
        sleeper: Whose sleep that was.
    """

    at_ms: int
    ms: int
    sleeper: Manners


# A TLS alert, a web server, a shell that speaks first, nobody who is known, and who hangs up at once.
STRANGERS = (b"\x15\x03\x03\x00\x02\x02\x46", b"HTTP/1.1 400 Bad Request\r\n\r\n", b"SSH-2.0-OpenSSH_9.6\r\n",
             b"\xff\xfe\xfd\xfc\xfb", b"")


class Scripted(NamedTuple):
    """What a broker does with one batch.

    Attributes:
        code: What it answers instead of storing it; 0: it is stored.
        is_lost: Its answer gets lost.
        forgets: The producer is forgotten then.
        breaks_codec: The next batch cannot be compressed.
        is_left_out: The answer says nothing of its partition.
        is_silenced: No answer comes by its connection any more, and what comes behind it is stored all the same.
        fences: The producer's next epoch begins then, without it.
        restarts: All replicas restart then, and know of each producer the last batch alone.
        hint: (node, leader epoch) of who leads instead, as the node believes.
    """

    code: int = 0
    is_lost: bool = False
    forgets: bool = False
    breaks_codec: bool = False
    is_left_out: bool = False
    is_silenced: bool = False
    fences: bool = False
    restarts: bool = False
    hint: tuple[int, int] | None = None


class Fate(enum.Enum):
    """What becomes of something."""

    FINE = "fine"
    CUT = "cut"
    LOST = "lost"


class Faults:
    """Decides.

    Args:
        plan: Which are spared.
        parameters: Rates and ranges.
        scheduler: Time, and the story.

    Attributes:
        fired: How often each kind did.
        upgraded: Nodes that stopped, and came back with the newest version.
        partition_counts: Of each topic, what any broker ever said or should have said.
        is_paused: Whether nothing happens by chance just now, only what is in the script.
        script: What brokers do with the next batches of a partition, one after another.
        loses_next_answer: Whether the answer to the request that is applied just now gets lost.
        silences_next: Whether it does, and the connection stays.
        failing_codecs, failing_sends: How many batches cannot be compressed, and how many requests cannot be handed to
            a connection, from the next one on.
        behind: What happens when the request is applied that comes just now.
        throttled_ms: How long the pauses were, in all, that each node wanted.
        frozen_ms: How long the process stood still in all.
        called_back_ms: For how long callbacks waited for another producer than their own, in all.
        late_requests: Of which APIs the next request is lost, by the script, and how many ms later it comes.
        refusals, place_refusals: What coordinators answer to the next requests of an API by the script, to all of it or
            to one of its partitions; 0: what is true.
        metadata_errors: What brokers answer to the next requests for metadata by the script, with nonsense beside it.
        version_errors: What brokers answer to the next requests for their versions by the script.
        lookups: How long the next lookups take by the script, in ms, and whether a name is found.
        lost_connects: How many of the next connections come to nothing by the script, without a word.
        garbled: Of which APIs the next answer makes no sense, by the script.
        freezes: Each time that the process stood still.
        felt: Those of them whose sleep came to its end: no exception ended it.
        recreated: Which topics were made anew, and when.
        is_completing: Whether another process ends a transaction: what coordinators say of it is true then.
        failed_codecs: How many batches could not be compressed.
        healed_ms: When the world was well again; None before.
        is_healed: Whether nothing goes wrong any more.
        is_nobody_there: Whether no node comes back before the world is well again.
        ends_turns: Whether every turn of the sender fails from now on, healed or not.
        may_tear: Whether anything happened that may end a turn half way.
        is_settled: Whether no batch of a partition is on its way: only then may a broker forget who wrote there.
    """

    clock: SimClock
    cluster: ModelCluster
    network: Network
    is_settled: Callable[[str, int], bool]
    ledger: Ledger

    def __init__(self, plan: Plan, parameters: Parameters, scheduler: Scheduler) -> None:
        self.fired: Counter[str] = Counter()
        self.upgraded: set[int] = set()
        self.partition_counts = {topic: {count} for topic, count in parameters.topics.items()}
        self.is_paused = False
        self.script: dict[tuple[str, int], deque[Scripted]] = {}
        self.loses_next_answer = False
        self.silences_next = False
        self.failing_codecs = 0
        self.failed_codecs = 0
        self.failing_sends = 0
        self.behind: list[Callable[[], None]] = []
        self.frozen_ms = 0
        self.called_back_ms = 0
        self.late_requests: dict[int, int] = {}
        self.refusals: dict[int, deque[int]] = {}
        self.place_refusals: dict[int, deque[int]] = {}
        self.metadata_errors: deque[int] = deque()
        self.version_errors: deque[int] = deque()
        self.lookups: deque[tuple[int, bool]] = deque()
        self.lost_connects = 0
        self.garbled: set[int] = set()
        self.throttled_ms: Counter[int] = Counter()
        self.freezes: list[Freeze] = []
        self.felt: list[Freeze] = []
        self._sleeping: dict[Manners, tuple[Freeze, int]] = {}  # and how many turns may have ended half way by then
        self.recreated: list[tuple[str, int]] = []
        self.is_completing = False
        self.healed_ms: int | None = None
        self.is_nobody_there = False
        self.is_healed = False
        self.ends_turns = False
        self.may_tear = plan.swarm
        self._plan = plan
        self._parameters = parameters
        self._scheduler = scheduler
        self._rates = {kind: _BASE[kind] * weight for kind, weight in parameters.fault_rates.items()
                       if kind not in plan.without}
        self._chance: random.Random = plan.stream("faults")
        self._network_chance: random.Random = plan.stream("network")
        self._count = 0
        self.late_count = 0

    def fires(self, kind: str) -> bool:
        """Whether a fault happens here and now."""
        rate = self._rates.get(kind)
        if rate is None or self.is_healed or self.is_paused or self._chance.random() >= rate:
            return False
        self._count += 1
        if self._count in self._plan.spared:
            return False
        self.fired[kind] += 1
        self.may_tear |= kind in _TEARS
        self._scheduler.tell(f"fault {self._count}: {kind}")
        return True

    @property
    def tear_count(self) -> float:
        """How many turns may have ended half way, at most."""
        return math.inf if self._plan.swarm else sum(self.fired[kind] for kind in _TEARS)

    @property
    def count(self) -> int:
        """How many faults happened, the spared ones included."""
        return self._count

    def heal(self) -> None:
        """Let nothing go wrong any more; what stands still stands up."""
        self.is_healed = True
        if self.healed_ms is None:
            self.healed_ms = self._scheduler.now_ms
        self.is_nobody_there = False
        self._stop_wanting()
        for node_id in self.cluster.nodes:
            self._start(node_id)

    def stop_all(self) -> None:
        """Have all nodes be away until `heal`: nothing else goes wrong meanwhile, and then all is well again."""
        self.healed_ms = None
        self.is_nobody_there = True
        for node_id in self.cluster.nodes:
            if self.cluster.is_alive(node_id):
                self.cluster.stop_node(node_id)
                self.network.cut_all_of(node_id)

    # -- the network

    def latency_ms(self) -> int:
        return int(self._network_chance.random() * self._parameters.latency_ms)

    def window_bytes(self) -> int:
        return self._parameters.window_bytes

    def cut(self, size: int) -> int:
        """How many of some bytes go together."""
        if size > 1 and self._parameters.cut_rate and self._network_chance.random() < self._parameters.cut_rate:
            return 1 + int(self._network_chance.random() * (size - 1))
        return size

    def on_connect(self, address_number: int) -> Fate:
        if self.lost_connects:
            self.lost_connects -= 1
            self.fired["lose_connect"] += 1
            return Fate.LOST
        if address_number in self._parameters.dead_addresses or self.fires("refuse"):
            return Fate.CUT
        return Fate.LOST if self.fires("lose_connect") else Fate.FINE

    def on_accepted(self) -> bytes | None:
        """Return what the peer says that is no broker; None where it is one."""
        return self._chance.choice(STRANGERS) if self.fires("strange_peer") else None

    def loses_last_words(self) -> bool:
        return self._chance.random() < 0.5

    def on_lookup(self) -> tuple[int, Exception | None]:
        if self.lookups:
            slow_ms, is_found = self.lookups.popleft()
            return slow_ms, None if is_found else socket.gaierror(socket.EAI_AGAIN, "simulated")
        delay_ms = int(self._chance.random() * 5000) if self.fires("slow_name") else 0
        error: Exception | None = socket.gaierror(socket.EAI_AGAIN, "simulated") if self.fires("no_name") else None
        if error is None and self.fires("odd_name"):
            error = self._chance.choice((ValueError, OverflowError, UnicodeError))("simulated")
        return delay_ms, error

    def on_encode(self) -> None:
        """A Produce request is about to be encoded."""
        if self.fires("unencodable"):
            raise SchemaError("simulated: it cannot be encoded")

    def on_request(self, connection: Connection, frame: bytes) -> None:
        """A whole request arrived at a node: decide what becomes of it and of its answer."""
        scheduler = self._scheduler
        api_key = int.from_bytes(frame[:2], "big")
        if api_key == _PRODUCE:
            self._move_world()
            if not self.cluster.is_alive(connection.node_id):
                return
        error = errno.ECONNRESET if self._chance.random() < 0.5 else 0
        if self.fires("cut_before"):
            connection.cut(error)
        elif self.fires("cut_after"):
            connection.apply(frame)
            connection.cut(error)
        elif self.late_requests.get(api_key) or self.fires("late_apply"):
            late_ms = self.late_requests.pop(api_key, None) or int(
                self._chance.random() * 2 * self._parameters.props["request.timeout.ms"])
            self.late_count += 1
            scheduler.at(scheduler.now_ms + late_ms, lambda: self._apply_late(connection, frame))
            connection.cut(error)
        elif self.fires("half_open"):
            connection.fall_silent()
        elif self.fires("lose_answer"):
            connection.apply(frame)
            connection.fall_silent()
        elif self.fires("slow_answer"):
            slow_ms = int(self._chance.random() * 2 * self._parameters.props["request.timeout.ms"])
            connection.answer(connection.apply(frame), slow_ms)
        else:
            if self.fires("stall"):
                connection.stall(self._parameters.props["request.timeout.ms"] // 2)
            answer = connection.apply(frame)
            if answer is not None and self.fires("garble"):
                answer = connection.garble(frame, answer, self._chance)
            if answer is not None and api_key in self.garbled:
                self.garbled.remove(api_key)
                answer = connection.garble(frame, answer, random.Random(_ANOTHERS_ANSWER))
            while self.behind:
                self.behind.pop()()
            if self.silences_next:  # the script says so
                self.silences_next = False
                connection.fall_silent()
            if self.loses_next_answer:
                self.loses_next_answer = False
                connection.cut(error)
            else:
                connection.answer(answer)

    def _apply_late(self, connection: Connection, frame: bytes) -> None:
        self.late_count -= 1
        if self.cluster.is_alive(connection.node_id):
            self._scheduler.tell("a request of an ended connection arrives")
            connection.apply(frame, is_in_order=False)

    # -- the cluster

    def _move_world(self) -> None:
        """What happens to the cluster by itself; asked at each Produce request that arrives."""
        chance, cluster = self._chance, self.cluster
        alive = [node_id for node_id in cluster.nodes if cluster.is_alive(node_id)]
        if self.fires("leader_move"):
            cluster.snapshot()
            topic, partition = self._some_partition()
            cluster.move_leader(topic, partition, chance.choice(alive))
        if len(alive) > 1 and self.fires("node_stop"):
            node_id = chance.choice(alive)
            cluster.snapshot()
            cluster.stop_node(node_id)
            self.network.cut_all_of(node_id)
            back_ms = self._scheduler.now_ms + int(chance.random() * 8000)
            self._scheduler.at(back_ms, lambda: self._start(node_id))
        if self.fires("recreate_topic"):
            cluster.snapshot()
            self.recreate(self._some_partition()[0])
        if self.fires("forget_producer"):
            topic, partition = self._some_partition()
            if self.is_settled(topic, partition):
                self.forget(topic, partition)
        if self.fires("wants_login"):
            cluster.wants_login = True
            back_ms = self._scheduler.now_ms + int(chance.random() * 5000)
            self._scheduler.at(back_ms, self._stop_wanting)
            for node_id in alive:
                self.network.cut_all_of(node_id)
        if self.fires("forget_any"):
            self.forget(*self._some_partition())
        if self.fires("fence"):
            self.fence(*self._some_partition())
        if self.fires("restart_replicas"):
            cluster.restart_replicas(*self._some_partition())
        if self.fires("add_partitions"):
            topic = self._some_partition()[0]
            count = len(cluster.topics[topic]) + 1
            if count <= _MOST_PARTITIONS:
                cluster.snapshot()
                cluster.add_partitions(topic, count)
                self.partition_counts[topic].add(count)

    def _stop_wanting(self) -> None:
        self.cluster.wants_login = False

    def recreate(self, topic: str) -> None:
        """Make a topic anew."""
        before = self.cluster.topics[topic]
        self.cluster.recreate_topic(topic)
        self.recreated.append((topic, self._scheduler.now_ms))
        self.ledger.on_recreated(topic, before)

    def fence(self, topic: str, partition: int) -> None:
        """Let the next epoch of all producers of a partition begin without them."""
        for producer_id, state in list(self.cluster.partition(topic, partition).producers.items()):
            if state.epoch < _MAX_EPOCH:
                self.cluster.fence_producer(topic, partition, producer_id)

    def forget(self, topic: str, partition: int) -> None:
        """Let a partition forget all producers, whatever is on its way; records may have been deleted meanwhile."""
        place = self.cluster.partition(topic, partition)
        for producer_id in list(place.producers):
            self.ledger.on_forget(topic, partition, producer_id)
            self.cluster.forget_producer(topic, partition, producer_id)
        if self._parameters.loses_old_records and self._chance.random() < 0.5:
            place.start_offset = place.end_offset

    def next_scripted(self, topic: str, partition: int) -> Scripted | None:
        """Return what becomes of a batch by the script, if it has anything for it."""
        steps = self.script.get((topic, partition))
        if not steps:
            return None
        step = steps.popleft()
        self._scheduler.tell(f"script: {step}")
        if not step.code:
            self.loses_next_answer = step.is_lost
            self.silences_next = step.is_silenced
        if step.breaks_codec:
            self.failing_codecs += 1
        for happens, what in ((step.forgets, self.forget), (step.fences, self.fence),
                              (step.restarts, self.cluster.restart_replicas)):
            if happens:
                self.behind.append(partial(what, topic, partition))
        return step

    def _start(self, node_id: int) -> None:
        if not self.is_nobody_there and not self.cluster.is_alive(node_id):
            self.upgraded.add(node_id)
            self.cluster.start_node(node_id)

    def _some_partition(self) -> tuple[str, int]:
        topic = self._chance.choice([name for name in self._parameters.topics if name in self.cluster.topics])
        return topic, int(self._chance.random() * self._parameters.topics[topic])

    # -- the process

    def on_select(self, longest_ms: int, sleeper: Manners) -> None:
        """The sender of a producer, or a caller in its place, is about to sleep for so long at most."""
        tears = sum(self.fired[kind] for kind in _TEARS)
        before = self._sleeping.pop(sleeper, None)
        if before is not None and before[1] == tears and not self.ends_turns:
            self.felt.append(before[0])
        if self.fires("freeze"):
            ms = int(self._chance.random() * 90_000)
            self.frozen_ms += ms
            # So much of it may have been its own sleep: nobody in the process can tell them apart.
            freeze = Freeze(self._scheduler.now_ms, max(0, ms - longest_ms), sleeper)
            self.freezes.append(freeze)
            if sleeper.producer is not None:
                self._sleeping[sleeper] = freeze, tears
            if self.cluster.telemetry is not None:
                self.cluster.telemetry.slack_ms += ms
            self._scheduler.jump(ms)
        if self.fires("suspend"):  # nobody behind the connections knows them any more, and nobody says so
            self.clock.slept_ms += int(self._chance.random() * 3_600_000)
            for connection in self.network.connections:
                connection.fall_silent()
        if self.fires("wall_jump"):
            self.clock.wall_offset_ms += int((self._chance.random() - 0.5) * 200_000_000)
        if self.ends_turns or self.fires("memory_error"):
            raise MemoryError("simulated")

    def on_send(self) -> None:
        """A request goes to its connection."""
        if self.failing_sends:
            self.failing_sends -= 1
            self.may_tear = True
            raise MemoryError("simulated")
        if self.ends_turns or self.fires("send_memory"):
            raise MemoryError("simulated")

    def on_make_selector(self) -> None:
        """A turn failed, or the process stood still, and connections are made anew; or for the first time."""
        if self.ends_turns and self._plan.seed % 3 == 0:
            raise MemoryError("simulated")  # the recovery fails, too

    def on_compress(self) -> None:
        """A codec is about to work."""
        if self.failing_codecs or self.fires("codec_memory"):
            self.failing_codecs = max(0, self.failing_codecs - 1)
            self.failed_codecs += 1
            raise MemoryError("simulated")
