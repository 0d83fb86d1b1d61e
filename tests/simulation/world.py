"""One seed, from its first record to its last check.

Source:  ours.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import logging
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from pyproducer import (
    DeliveryFailedError,
    DeliverySummary,
    KafkaProducer,
    ProducerDeadError,
    TransactionCompleter,
    hotpath,
)
from pyproducer.accumulator.life import UNOWNED, Life, LifeState
from pyproducer.accumulator.partition_sequence import PartitionSequence
from pyproducer.accumulator.producer_batch import ProducerBatch
from pyproducer.accumulator.transaction_manager import TransactionManager
from pyproducer.client import connections
from pyproducer.common import sender_log
from pyproducer.common.errors import (
    NOT_SENT,
    ApiError,
    BufferExhaustedError,
    KafkaError,
    ProducerClosedError,
    UnknownTopicOrPartitionError,
)
from pyproducer.common.waiting import Locks
from pyproducer.hotpath import _python
from pyproducer.producer import process_life
from pyproducer.producer.surroundings import Surroundings
from pyproducer.producer.waiting_room import UNKNOWN_TOPIC_MS
from pyproducer.protocol.apis import ApiKeys
from pyproducer.record.compression import Compressor
from pyproducer.record.layout import MAX_SEQUENCE, Buffer, ProducerIdAndEpoch
from pyproducer.sender.turns import ASIDE_MS
from tests.simulation import circles, completer, lines, meetings
from tests.simulation.application import Application
from tests.simulation.broker_faults import BrokerFaults
from tests.simulation.checker import BY_KEY, Checker, murmur2
from tests.simulation.conversation import Conversation
from tests.simulation.error_facts import ErrorFacts
from tests.simulation.event_loop import AsyncCaller
from tests.simulation.faults import Faults
from tests.simulation.finale import Finale
from tests.simulation.ledger import Ledger
from tests.simulation.log_watch import LogWatch
from tests.simulation.manners import HOPS, LATE_MS, Manners
from tests.simulation.model_broker import ModelCluster
from tests.simulation.model_parameters import ModelClient, ModelParameters
from tests.simulation.names import name_of
from tests.simulation.network import Network
from tests.simulation.opening import Opening
from tests.simulation.patience import LATE_CALLER
from tests.simulation.plan import Parameters, Plan, draw
from tests.simulation.powers import OPENINGS
from tests.simulation.schedule import Scheduler, SimClock, SimLock, SimRLock, SimThread, SimulationFailed
from tests.simulation.totals import Totals
from tests.simulation.transactional import LONGEST_REQUEST_BYTES, TRANSACTIONAL_ID, TransactionalCaller
from tests.simulation.workload import (
    FEWEST_ACKNOWLEDGED,
    FEWEST_FAULTS,
    IN_LOOP,
    NO_TOPIC,
    Sent,
    Workload,
    is_acknowledged,
    numbers_of,
)

# Ten turns that fail, with a pause of 100 ms behind each, and one in a long sleep before.
_DYING_MS = 5000
# No sooner a broker takes a new proof; and from that part of its life on a session carries no more, at the earliest.
_LEAST_SESSION_MS, _LEAST_PART = 1000, 0.85
# Who asks for metadata that often knows of new partitions soon.
_SHORT_AGE_MS = 5000
_ADDS_IN_EVERY = 3  # seeds
_OWN_TURNS = 40  # the thread may be the first of many a time
_CALLERS_TURNS = 0.5  # of the seeds
# None is larger than that.
_LARGEST_PUSH_BYTES = 1_000_000
# Above that one record alone does not fill a batch.
_LARGE_BATCH_BYTES = 300


@dataclass
class Report:
    """What became of a seed.

    Attributes:
        wrong: What must not be; empty when all is well.
        fates: Records by what became of them.
        fired: Faults by kind.
        checks: How many records, or other things, each check judged.
        powers: What the seed has of powers.py, and the state it begins with.
        story: What happened, if it was to be told.
        fault_count: How many faults there were to be spared.
        trace: A hash of all that was sent, and when.
    """

    plan: Plan
    wrong: list[str] = field(default_factory=list)
    fates: Counter[str] = field(default_factory=Counter)
    fired: Counter[str] = field(default_factory=Counter)
    checks: Counter[str] = field(default_factory=Counter)
    powers: list[str] = field(default_factory=list)
    story: list[str] = field(default_factory=list)
    fault_count: int = 0
    request_count: int = 0
    unanswered_count: int = 0
    trace: int = 0
    simulated_ms: int = 0
    pauses: int = 0
    switches: int = 0
    took_s: float = 0.0

    @property
    def is_empty(self) -> bool:
        """Whether too little happened to prove anything."""
        return self.fates["acknowledged"] < FEWEST_ACKNOWLEDGED or sum(self.fired.values()) < FEWEST_FAULTS


def run(plan: Plan) -> Report:
    """Run a seed."""
    report = Report(plan)
    began = time.perf_counter()
    watch = LogWatch()
    logger = logging.getLogger("pyproducer")
    before = logger.level, logger.propagate
    logger.setLevel(logging.WARNING)
    logger.propagate = False
    logger.addHandler(watch)
    _python._murmur2_remembered.cache_clear()  # what an earlier seed left there would change where lines fall
    gc.disable()
    world = World(plan, report, watch)
    try:
        with (circles.found(world.scheduler), meetings.simulated(world.scheduler), world.odd_requests(),
              world.lines_at_once(), completer.names_known(world.network.address_count)):
            world.run()
    except SimulationFailed as failed:
        report.wrong.append(str(failed))
        world.abandon()
    except Exception as error:  # what the producer raises where the run itself asks it, in a world that is well again
        report.wrong.append(f"{error!r} ended the run")
        world.abandon()
    finally:
        world.fill_report()
        world.let_go()
        logger.removeHandler(watch)
        logger.setLevel(before[0])
        logger.propagate = before[1]
        gc.enable()
    report.took_s = time.perf_counter() - began
    return report


class LateSequence(PartitionSequence):
    """The numbers of a partition that are nearly used up when it begins."""

    __slots__ = ("_has_begun",)

    def __init__(self, batches: list[ProducerBatch], manager: TransactionManager) -> None:
        super().__init__(batches, manager)
        self._has_begun = False

    def begin(self, owner: ProducerIdAndEpoch) -> None:
        super().begin(owner)
        if not self._has_begun:
            self.next_sequence = MAX_SEQUENCE - 7
        self._has_begun = True


class ForgetfulCompressor:
    """A codec that has no memory now and then."""

    def __init__(self, codec: Compressor, faults: Faults) -> None:
        self.codec_id = codec.codec_id
        self.name = codec.name
        self._codec = codec
        self._faults = faults

    def compress(self, data: Buffer) -> bytes:
        self._faults.on_compress()
        return self._codec.compress(data)


class World:
    """A producer and all that is around it."""

    def __init__(self, plan: Plan, report: Report, watch: LogWatch) -> None:
        self.plan = plan
        self.report = report
        self.parameters: Parameters = draw(plan)
        parameters = self.parameters
        self.scheduler = Scheduler(
            plan.stream("scheduler"), switch_rate=0.0 if plan.calm else parameters.switch_rate,
            tick_rate=0.0 if plan.calm else parameters.tick_rate, longest_tick_ms=parameters.longest_tick_ms,
            hold_rate=0.0 if plan.calm else parameters.hold_rate, is_telling=plan.is_telling)
        self.clock = SimClock(self.scheduler)
        self.faults = Faults(plan, parameters, self.scheduler)
        broker_faults = BrokerFaults(self.faults, plan.stream("brokers"), parameters)
        self.ledger = Ledger(self._is_told, self._is_awaited)
        topics = {name: count for name, count in parameters.topics.items() if name != parameters.missing_topic}
        self.cluster = ModelCluster(
            node_count=parameters.node_count, topics=topics, parameters=ModelParameters(
                produce_version=parameters.produce_version, metadata_version=parameters.metadata_version,
                init_producer_id_version=parameters.init_producer_id_version,
                api_versions_version=parameters.api_versions_version, idempotence=parameters.idempotence,
                first_producer_epoch=parameters.first_producer_epoch,
                log_append_time_topics=parameters.log_append_time_topics,
                auto_create_partitions=parameters.topics.get(parameters.missing_topic or "", 0),
                producer_expiration_ms=parameters.producer_expiration_ms, witness=self.ledger,
                has_topic_ids=parameters.has_topic_ids,
                max_message_bytes=parameters.longest_message_bytes, interference=broker_faults,
                required_acks=-1 if parameters.props["acks"] == "all" else int(parameters.props["acks"]),
                client=self._client(), may_want_login="wants_login" in parameters.fault_rates,
                listener=parameters.listener, authenticate_version=parameters.authenticate_version,
                transactions=parameters.transactions, telemetry=parameters.telemetry,
                addresses={node_id: (name_of(node_id), 9092) for node_id in range(parameters.node_count)}))
        broker_faults.cluster = self.cluster
        self.network = Network(self.scheduler, plan.stream("network order"), self.cluster, self.faults, self.ledger)
        self.network.address_count = parameters.address_count
        self.manners: list[Manners] = []
        watch.clients = self.manners
        self.ledger.cluster = self.cluster
        self.faults.ledger = self.ledger
        self.faults.clock = self.clock
        self.faults.cluster, self.faults.network = self.cluster, self.network
        self.faults.is_settled = self._is_settled
        self.application = Application(parameters.powers, plan.stream("application"))
        self._watch = watch
        watch.scheduler, watch.faults, watch.parameters = self.scheduler, self.faults, parameters
        self.producer: KafkaProducer | None = None
        self.producers: list[KafkaProducer] = []
        self.workload: Workload | None = None
        self.transactional: TransactionalCaller | None = None
        self.summary: DeliverySummary | None = None
        if plan.swarm:
            tracer = lines.LineTracer(plan.stream("lines"), self.scheduler, self.faults, parameters)
            self.scheduler.trace = tracer.install

    @staticmethod
    @contextlib.contextmanager
    def lines_at_once() -> Iterator[None]:
        """Have each line of the log be written where it comes from: it is compared with what was there then."""
        module: Any = sender_log
        owner = module._owner_of_this_turn
        module._owner_of_this_turn = lambda: None
        try:
            yield
        finally:
            module._owner_of_this_turn = owner

    @contextlib.contextmanager
    def odd_requests(self) -> Iterator[None]:
        """Have some Produce requests be such that they cannot be encoded, as a bug in a schema would."""
        module: Any = connections
        build_request = module.build_request

        def build(api_key: ApiKeys, *arguments: Any) -> Any:
            if api_key is ApiKeys.PRODUCE:
                self.faults.on_encode()
            return build_request(api_key, *arguments)

        if "unencodable" in self.parameters.fault_rates:
            module.build_request = build
        try:
            yield
        finally:
            module.build_request = build_request

    def _client(self) -> ModelClient:
        """Return what a broker may expect of this producer."""
        parameters = self.parameters
        newest = {ApiKeys.METADATA: 13, ApiKeys.INIT_PRODUCER_ID: 5}
        if not parameters.node_versions and "odd_versions" not in parameters.powers:  # else some tell no topic ids
            newest[ApiKeys.PRODUCE] = 13 if parameters.has_topic_ids else 12
        return ModelClient("simulated", "pyproducer", parameters.props["request.timeout.ms"], newest,
                           parameters.transaction_timeout_ms)

    def _is_told(self, record: bytes) -> bool:
        """Whether the application was told what became of a record, by what tells it from all others."""
        return self.workload is not None and self.workload.is_told(record)

    def _is_awaited(self, record: bytes) -> bool:
        """Whether the application has a future for this one record alone, and nothing was told of it."""
        return self.workload is not None and self.workload.is_awaited(record)

    def _is_settled(self, topic: str, partition: int) -> bool:
        """Whether nothing of a partition's is on its way: no record undecided, no bytes of it in a wire."""
        workload = self.workload
        assert workload is not None
        if self.faults.late_count or any(connection.has_bytes_on_the_way for connection in self.network.connections):
            return False
        return all(record.refused is not None or (record.future is not None and record.future.done())
                   for record in workload.records if record.topic == topic)

    @property
    def _servers(self) -> str:
        return ",".join(f"{name_of(node_id)}:9092" for node_id in range(self.parameters.node_count))

    def _make_producer(self, stream: str, props: Mapping[str, Any] | None = None) -> KafkaProducer:
        scheduler = self.scheduler
        manners = Manners(scheduler, self.faults, self.parameters, self.report.checks, self._watch.talking)
        self.manners.append(manners)
        make: Any = SimLock, SimRLock  # what stands for the C types
        make_lock, make_rlock = make
        surroundings = Surroundings(
            clock=self.clock, random=self.plan.stream(stream),
            locks=Locks(lock=lambda: make_lock(scheduler), rlock=lambda: make_rlock(scheduler),
                        cell=lambda: make_lock(scheduler, is_locked=True)),
            start_thread=scheduler.start, make_wakeup=self.network.make_wakeup,
            make_selector=partial(self.network.make_selector, manners),
            make_resolver=partial(self.network.make_resolver, manners))

        class SimulatedProducer(KafkaProducer):
            _surroundings = surroundings

        module: Any = hotpath
        is_safe = module.ROLE_IS_SAFE
        # The text's role does not survive an exception at any line; they come where threads wait, except in a swarm.
        module.ROLE_IS_SAFE = is_safe or (not self.plan.swarm and self.plan.stream("turns").random() < _CALLERS_TURNS)
        application = self.application
        producer = SimulatedProducer(
            {"bootstrap.servers": self._servers, "client.id": "simulated", **self.parameters.props,
             **application.props(), **(props or {})}, value_serializer=application.value_serializer)
        module.ROLE_IS_SAFE = is_safe
        accumulator = producer._runtime.accumulator
        manners.producer = producer
        manners.error_of = lambda node_id: getattr(producer._runtime.wire.client._states.get(node_id), "error", None)
        manners.is_starting_over = lambda: bool(
            producer._runtime.wire.client._updater.rebootstrap_ms < scheduler.now_ms)
        manners.left_to_do = lambda: len(accumulator.batches()) + len(accumulator.waiting.outcomes())
        accumulator.largest_batch_bytes = self.parameters.batch_growth * self.parameters.props["batch.size"]
        accumulator._compressor = ForgetfulCompressor(accumulator._compressor, self.faults)
        sender: Any = producer._runtime.io_thread._sender
        if self.parameters.first_sequence_near_end and sender._transaction_manager is not None and props is None:
            accumulator._make_sequence = functools.partial(LateSequence, manager=sender._transaction_manager)
        self.producers.append(producer)
        return producer

    # -- the run, on the main thread

    def run(self) -> None:
        scheduler, parameters, report = self.scheduler, self.parameters, self.report
        self.producer = producer = self._make_producer("producer")
        if "two_producers" in parameters.powers:
            self._make_producer("second producer")
        if "asyncio" in parameters.powers:
            self._make_producer("producer of the loop")
        self.workload = workload = Workload(self.plan, parameters, scheduler, self.clock, self.faults, self.producers,
                                            self.application)
        self.network.look_at_memory = workload.look_at_held
        workload.is_endless = (parameters.close_kind in ("while_sending", "death")
                               and self.plan.record_limit is None)
        if parameters.opening in OPENINGS:
            Opening(parameters, workload, self.faults, self.clock, producer).play()
        self._heal_later(10)
        threads = workload.start()
        if "asyncio" in parameters.powers:
            caller = AsyncCaller(workload, scheduler, self.producers[-1], self.plan.stream("event loop"), report.checks)
            threads.append(scheduler.start(caller.run, "event loop"))
        if parameters.transactions is not None:
            self.transactional = TransactionalCaller(workload, self.cluster, self.plan.stream("transactions"),
                                                     self._make_transactional, self._close_one,
                                                     self._make_completer if parameters.listener is None else None,
                                                     self._watch.counts)
            threads.append(scheduler.start(self.transactional.run, "transactional caller", is_interruptible=True))
        if workload.is_endless:
            self._close_while_sending(threads)
        for thread in threads:
            scheduler.join(thread)
        workload.is_closing = True
        self.application.is_calm = True
        self.faults.heal()
        if self.summary is None:
            if parameters.close_kind not in ("close_soon", "callback", "death"):
                self._settle()
            self._close()
        for name, error in scheduler.thread_errors:
            report.wrong.append(f"{name} ended by {error!r}")
        if self.transactional is not None:
            report.wrong += self.transactional.check()
        checker = Checker(workload, self.cluster, parameters, self.faults, self.ledger, report.checks)
        report.fates = checker.check()
        report.wrong += checker.wrong
        for manners in self.manners:
            report.wrong += manners.complaints
        self._check_summary()
        self._check_fatal()
        self._check_telemetry()
        self._check_times()
        self._check_totals()

    def _make_completer(self) -> TransactionCompleter:
        return completer.SimulatedCompleter({
            "bootstrap.servers": self._servers, "client.id": "simulated",
            **{key: self.parameters.props[key] for key in ("max.block.ms", "request.timeout.ms", "linger.ms",
                                                           "delivery.timeout.ms")}}, self.network, self.clock)

    def _make_transactional(self) -> KafkaProducer:
        return self._make_producer(f"transactional producer {len(self.producers)}", {
            "transactional.id": TRANSACTIONAL_ID, "max.request.size": min(
                LONGEST_REQUEST_BYTES, self.parameters.props.get("max.request.size", LONGEST_REQUEST_BYTES)),
            "transaction.timeout.ms": self.parameters.transaction_timeout_ms})

    def _close_while_sending(self, threads: list[SimThread]) -> None:
        """Close when enough happened, while the application goes on to send; later sends are refused, none is lost."""
        assert self.workload is not None
        while not self.workload.is_enough() and not all(thread.is_over for thread in threads):
            self.clock.sleep(10)
        if self.parameters.close_kind == "death":
            self.faults.ends_turns = True
            if self.plan.seed % 2:  # the other half closes what is dying
                frozen_ms = self.faults.frozen_ms
                self.clock.sleep(_DYING_MS)
                while frozen_ms != self.faults.frozen_ms:  # meanwhile nobody had the time to die
                    frozen_ms = self.faults.frozen_ms
                    self.clock.sleep(_DYING_MS)
        self._close()

    def _heal_later(self, times: int) -> None:
        """Have the world heal after its time, or some times that, until enough went wrong to prove something."""
        def heal() -> None:
            if times and self.faults.fired.total() < FEWEST_FAULTS:
                self._heal_later(times - 1)
            elif not self.faults.is_healed:
                self.faults.heal()

        self.scheduler.at(self.scheduler.now_ms + self.parameters.faults_last_ms, heal)

    def _longest_ms(self) -> int:
        """How long a record may take, whatever happens."""
        props = self.parameters.props
        return int(props["delivery.timeout.ms"] + props["max.block.ms"]) + LATE_MS + self.faults.frozen_ms

    def _settle(self) -> None:
        """Everything must have an outcome by itself within its time; and memory comes back to the byte."""
        assert self.producer is not None
        assert self.workload is not None
        began_ms = self.scheduler.now_ms
        for producer in self.producers:
            if producer._runtime.life.is_open:  # its event loop may have closed it
                self._flush(producer)
        if self.scheduler.now_ms - began_ms > self._longest_ms():
            self.report.wrong.append(f"flush() took {self.scheduler.now_ms - began_ms} ms")
        finale = Finale(self.plan.seed, self.parameters, self.workload, self.faults, self.clock, self.cluster,
                        self.report.checks, self._probe)
        if not self._manager_is_dead() and self.producer._runtime.life.is_open:
            finale.confuse(self.producer)
        self._check_life()
        self._check_absence()
        self._check_added_partitions()
        if not self._manager_is_dead() and self.producer._runtime.life.is_open:
            finale.play(self.producers)
        self._check_linger()
        self._check_own_turn()
        self.report.wrong += finale.wrong
        if self.transactional is not None and not self.transactional.last():
            self.report.wrong.append("in a world that is well again no transaction was committed")
        before = [manners.now() for manners in self.manners]
        are_due = self._pushes_are_due()
        self.clock.sleep(int(self.parameters.props["request.timeout.ms"]) + LATE_MS)  # for late answers
        if are_due is not None and are_due == self.cluster.telemetry.request_count:
            self.report.wrong.append("metrics were due, and none came")
        self._check_markers()
        listener = self.parameters.listener
        if listener is None or not listener.session_lifetime_ms:  # else sessions are renewed
            for manners, since in zip(self.manners, before, strict=True):
                manners.check_rest(since)
        for record in self.workload.records:
            if record.future is not None and not record.future.done():
                self.report.wrong.append(f"{record} has no outcome after flush()")
                return
        self._check_memory("flush()")
        self._check_rest()

    def _probe(self, producer: KafkaProducer, record: Sent, **named: Any) -> None:
        """Send a record of the watcher's own.

        It may wait for memory as a caller does: behind those who were interrupted twice, the second time as they left
        their place in the line.
        """
        assert self.workload is not None
        began_ms = self.scheduler.now_ms
        try:
            record.future = producer.send(record.topic, record.value, **named)
            record.is_at_once = record.future.done() and not is_acknowledged(record)
        finally:
            self.workload.sending_ms += self.scheduler.now_ms - began_ms

    def _flush(self, producer: KafkaProducer) -> None:
        assert self.workload is not None
        try:
            producer.flush()
        except DeliveryFailedError as error:
            self.workload.look_at_failure(error, producer)
            if not self._raises:
                self.report.wrong.append(f"flush() raised {error!r}, and nobody wanted that")

    @property
    def _raises(self) -> bool:
        """Whether flush() and close() raise for records that failed, and at whose outcome nobody looked."""
        return "raises" in self.parameters.powers

    def _close_one(self, producer: KafkaProducer, timeout_s: float | None = None) -> DeliverySummary:
        assert self.workload is not None
        try:
            summary = producer.close(timeout_s)
            if self._raises:
                self.report.checks["raises"] += 1
                unseen = self.workload.unseen(producer)
                if unseen and not self.workload.flushes:  # another thread is being told
                    self.report.wrong.append(f"close() raised nothing, and nobody was told that {unseen} failed")
            return summary
        except DeliveryFailedError as error:
            self.workload.look_at_failure(error, producer)
            if not self._raises:
                self.report.wrong.append(f"close() raised {error!r}, and nobody wanted that")
        return producer.close(timeout_s)

    def _check_memory(self, after: str) -> None:
        assert self.workload is not None
        total = self.parameters.props["buffer.memory"]
        for producer in self.producers:
            self.report.checks["memory back"] += 1
            free = self.workload.look_at_metrics(producer)["buffer-available-bytes"]
            if free != total:
                self.report.wrong.append(f"{total - free} bytes of buffer.memory are still taken after {after}")

    def _check_life(self) -> None:
        """In a world that is well again every partition takes records."""
        assert self.producer is not None
        assert self.workload is not None
        props = self.parameters.props
        if props["delivery.timeout.ms"] < 20_000 or props["max.block.ms"] < 5_000 or self._manager_is_dead():
            return
        places = [(topic, partition) for topic, partitions in self.cluster.topics.items()
                  for partition in range(len(partitions))]
        self.report.checks["life"] += len(places)
        number = 0
        # What is still late of the bad times may come once more. Of a topic that was created again, without ids, five
        # answers in a row are believed, of which each refusal brings one where nothing is tried again.
        for _ in range(7 if props.get("retries") == 0 else 3):
            records = []
            for topic, partition in places:
                number += 1
                record = self.workload.new_record(-3, number, topic, partition, 5)
                self._probe(self.producer, record, partition=partition)
                records.append(record)
            self._flush(self.producer)
            places = [(record.topic, record.partition) for record in records
                      if record.partition is not None and record.future.exception(0) is not None]
            if not places:
                return
            self.clock.sleep(1000)  # without retries a leader's word only brings news of who leads
        if not self._manager_is_dead():
            self.report.wrong.append(f"in a world that is well again {places} take no records: "
                                     f"{[record.future.exception(0) for record in records]}")

    def _check_absence(self) -> None:
        """A topic that is nowhere is told so, once brokers have said for long enough that they do not know it."""
        assert self.producer is not None
        assert self.workload is not None
        props = self.parameters.props
        if ("no_topic" not in self.parameters.powers or self._manager_is_dead()
                or min(props["delivery.timeout.ms"], props["max.block.ms"]) < 2 * UNKNOWN_TOPIC_MS):
            return
        # Two brokers say so. One that is not connected, and once was not reached, is not asked for that.
        needed = min(2, len(self.cluster.nodes))
        before = self._conversations_with_brokers()
        if len(before) < needed:
            return
        record = self.workload.new_record(-6, 1, NO_TOPIC, None, 5)
        began_ms = self.scheduler.now_ms
        self._probe(self.producer, record)
        error = record.future.exception()
        took_ms = self.scheduler.now_ms - began_ms
        if len(before & self._conversations_with_brokers()) < needed:
            return  # the connection to one of them ended meanwhile
        self.report.checks["absence"] += 1
        if not isinstance(error, UnknownTopicOrPartitionError) or NO_TOPIC not in str(error) or not (
                UNKNOWN_TOPIC_MS <= took_ms <= UNKNOWN_TOPIC_MS + 2 * LATE_MS):
            self.report.wrong.append(f"{record} for a topic that is nowhere failed with {error!r} after {took_ms} ms")

    def _conversations_with_brokers(self) -> set[Conversation]:
        """Return what goes on with brokers that can be asked."""
        return {talk for node, talk in self.manners[0].conversations.items() if int(node) >= 0 and talk.has_versions}

    def _check_added_partitions(self) -> None:
        """In a world that is well again a topic gets one more partition: soon keys are spread over all of them."""
        assert self.producer is not None
        assert self.workload is not None
        props = self.parameters.props
        if (self.plan.seed % _ADDS_IN_EVERY or props["partitioner.class"] not in BY_KEY or props["acks"] == "0"
                or props["metadata.max.age.ms"] > _SHORT_AGE_MS or "partitioner" in self.parameters.powers
                or self._manager_is_dead()):
            return
        topic, number = next(iter(self.parameters.topics)), 0
        count = len(self.cluster.topics[topic]) + 1
        self.cluster.add_partitions(topic, count)
        self.faults.partition_counts[topic].add(count)
        wrong: list[str] = []
        for _ in range(3):
            self.clock.sleep(props["metadata.max.age.ms"] + LATE_MS)
            wrong.clear()
            for _ in range(6):
                number += 1
                record = self.workload.new_record(-7, number, topic, None, 5)
                record.key = b"%d" % number
                self._probe(self.producer, record, key=record.key)
                own = murmur2(record.key) % 2**31 % count
                if record.future.exception() is None and record.future.result().partition != own:
                    wrong.append(f"{record} with the key {record.key!r} went to {record.future.result()}")
            self.report.checks["partition of the key, of all there are"] += 6
            if not wrong:
                return
        self.report.wrong.append(f"{topic} has {count} partitions for long, and {wrong}")

    def _check_own_turn(self) -> None:
        """Where nothing else is to be done who waits for his one record sends it himself, after the first."""
        assert self.producer is not None
        assert self.workload is not None
        parameters = self.parameters
        if (self._manager_is_dead() or parameters.props["acks"] == "0" or parameters.listener is not None
                or parameters.props["linger.ms"]
                or parameters.powers & {"two_producers", "asyncio", "interceptor"}):
            return
        life, topic = self.producer._runtime.life, next(iter(parameters.topics))
        role = life.role
        if life.take_turn is None:
            return
        self.clock.sleep(2 * ASIDE_MS)  # behind a step that was for several
        before = role.step_count
        for attempt in range(_OWN_TURNS):
            record = self.workload.new_record(-8, attempt + 1, topic, 0, 5)
            self._probe(self.producer, record, partition=0)
            if record.future.exception() is not None:
                return
            if role.step_count > before:
                break
        sender: Any = self.producer._runtime.io_thread._sender
        if not sender.has_nothing_under_way():
            return  # a name is looked up, or another node does not answer: the thread watches that
        self.report.checks["own turns"] += 1
        if role.step_count == before:
            self.report.wrong.append(f"of {_OWN_TURNS} callers who waited for their record none sent it himself")

    def _pushes_are_due(self) -> int | None:
        """Return how many requests about metrics came so far, where another one is due soon; else None."""
        props, telemetry = self.parameters.props, self.cluster.telemetry
        if (telemetry is None or telemetry.wanted.most_bytes < _LARGEST_PUSH_BYTES
                or len(self.producers) > 1 or not self.producers[0]._runtime.life.is_open
                or props["connections.max.idle.ms"] < 300_000 or self.parameters.listener is not None
                or not self._conversations_with_brokers()):
            return None
        own = self.producers[0]._runtime.telemetry
        assert own is not None
        if own._asked_by is own._wire.client:
            return None  # on its way, perhaps on a connection that nobody reads: until its time is over
        longest_ms = int(props["request.timeout.ms"]) + LATE_MS - 1000
        subscription = own._subscription
        is_soon = subscription is not None and subscription.interval_ms * 1.5 < longest_ms
        if not is_soon and own.due_ms > self.scheduler.now_ms + longest_ms:
            return None
        self.report.checks["telemetry in time"] += 1
        return telemetry.request_count

    def _check_telemetry(self) -> None:
        """What brokers were told of metrics is what was there, at most."""
        telemetry = self.cluster.telemetry
        if telemetry is None:
            return
        for producer in self.producers:
            own = producer._runtime.telemetry
            instance = None if own is None or own.instance_id is None else telemetry.instances.get(own.instance_id)
            if instance is None:
                continue
            self.report.checks["telemetry"] += instance.push_count
            sent = producer.metrics()["record-send-total"]
            if instance.sent_total > sent:
                self.report.wrong.append(f"brokers were told that {instance.sent_total} records were sent, of {sent}")
            if instance.has_ended and not telemetry.wanted.is_delta and instance.sent_total < sent:
                self.report.wrong.append(f"the last push told brokers of {instance.sent_total} records, of {sent}")

    def _check_markers(self) -> None:
        """With acks=0: of all that was written it is known at rest that its broker was so far."""
        if self.parameters.props["acks"] != "0" or self._manager_is_dead():
            return
        for manners in self.manners:
            for node, talk in manners.conversations.items():
                if talk.has_versions:
                    self.report.checks["markers at rest"] += 1
                    if talk.gone and not talk.unanswered:  # of a connection that fell silent nothing more is heard
                        self.report.wrong.append(f"at rest {len(talk.gone)} requests to node {node} are not known to "
                                                 "have come to it")

    def _check_rest(self) -> None:
        """At rest nothing is on its way, and nothing is kept of what was."""
        if UNOWNED.tally.is_busy:
            self.report.wrong.append("a record that no producer took is in a tally")
        if self._manager_is_dead():
            return
        for producer in self.producers:
            sender: Any = producer._runtime.io_thread._sender
            manager, accumulator = sender._transaction_manager, producer._runtime.accumulator
            self.report.checks["rest"] += 1
            if not producer._runtime.life.is_open:
                continue
            # Where nothing was sent since, nobody has looked whether those that were in doubt are.
            whole = [] if manager is None else [one for one in manager.disturbed if not one.is_disturbed]
            if whole:
                self.report.wrong.append(f"at rest {whole} are whole, and kept as if they were not")
            if accumulator.busy or accumulator.waiting.queues:
                self.report.wrong.append(f"at rest {list(accumulator.busy)} and {list(accumulator.waiting.queues)} "
                                         "hold something")

    def _check_linger(self) -> None:
        """Where nothing goes wrong a record lingers for linger.ms, and then goes at once, though nobody waits."""
        assert self.producer is not None
        assert self.workload is not None
        if self._manager_is_dead() or self.parameters.props["acks"] == "0":  # nobody says where a leader is, or was
            return
        parameters = self.parameters
        if parameters.listener is not None and parameters.listener.session_lifetime_ms and (
                parameters.authenticate_version == 0):  # nobody tells when a session ends, and each may do so just now
            return
        linger_ms, latency_ms = parameters.props["linger.ms"], parameters.latency_ms
        topic = next(iter(parameters.topics))
        self.scheduler.stop_ticks()
        for attempt in range(3):  # the first ones bring up what is idle
            record = self.workload.new_record(-4, attempt + 1, topic, 0, 5)
            began_ms = self.scheduler.now_ms
            self._probe(self.producer, record, partition=0)
            if attempt < 2:
                if record.future.exception() is not None:
                    return
                continue
            longest_ms = linger_ms + HOPS * latency_ms + self._longest_wait_for_a_session()
            if self._starts_over_by(began_ms + longest_ms):  # what went wrong before has not ended yet
                return
            while not record.future.done() and self.scheduler.now_ms - began_ms <= longest_ms:
                self.clock.sleep(1)
            took_ms = self.scheduler.now_ms - began_ms
            # A record that fills its batch is not late for it, and who waits for memory hurries all.
            batch_bytes = parameters.props["batch.size"]
            lingers = _LARGE_BATCH_BYTES < batch_bytes < parameters.props["buffer.memory"] // 3
            self.report.checks["linger"] += 1
            if took_ms > longest_ms or (took_ms < linger_ms and lingers):
                self.report.wrong.append(f"{record} took {took_ms} ms; linger.ms is {linger_ms}, and a way takes "
                                         f"{latency_ms} ms")

    def _longest_wait_for_a_session(self) -> int:
        """How long nothing goes by a session that is soon over and may not be renewed yet, in ms."""
        listener = self.parameters.listener
        lifetime_ms = 0 if listener is None else listener.session_lifetime_ms
        return max(0, _LEAST_SESSION_MS - int(lifetime_ms * _LEAST_PART)) if lifetime_ms else 0

    def _starts_over_by(self, time_ms: int) -> bool:
        """Whether metadata are asked for in vain for so long that all connections are closed by then (KIP-1102)."""
        assert self.producer is not None
        client: Any = self.producer._runtime.wire.client
        return bool(client._updater.rebootstrap_ms <= time_ms)

    def _manager_is_dead(self) -> bool:
        senders: list[Any] = [producer._runtime.io_thread._sender for producer in self.producers]
        managers = [sender._transaction_manager for sender in senders]
        return any(manager is not None and manager.fatal_error is not None for manager in managers)

    def _close(self) -> None:
        assert self.producer is not None
        assert self.workload is not None
        scheduler, producer = self.scheduler, self.producer
        life = producer._runtime.life
        kind = self.parameters.close_kind
        timeout_s = None
        if kind == "close_soon":
            timeout_s = (0.0, 0.05, 1.0)[self.plan.seed % 3]
            if self.plan.seed % 2 and life.is_open:
                self._leave_alone()
        elif kind == "callback" and life.is_open:
            record = self.workload.new_record(-2, 1, next(iter(self.parameters.topics)), None, 10)
            try:
                self._probe(producer, record, on_completion=lambda _metadata, _error: producer.close())
                if self.plan.seed % 2:  # the callback's comes first, and this one is the second
                    record.future.exception()
            except KafkaError as error:
                record.refused = error
        began_ms = scheduler.now_ms  # behind the sends, which may wait for memory
        late: SimThread | None = None
        asking: SimThread | None = None
        if kind in ("close", "flush_then_close") and life.is_open and not self.plan.calm:
            late = self._send_late()
            asking = self._ask_late()
        self.summary = self._close_one(producer, timeout_s)
        ended_ms = scheduler.now_ms
        took_ms = ended_ms - began_ms
        if late is not None and asking is not None:
            scheduler.join(late)
            scheduler.join(asking)
            self.report.checks["asked at the end"] += 1
            if scheduler.now_ms - ended_ms > LATE_MS:
                self.report.wrong.append(f"who asked for partitions went on to wait for {scheduler.now_ms - ended_ms} "
                                         "ms when the producer was closed")
        limit_ms = self._longest_ms() if timeout_s is None else int(timeout_s * 1000) + LATE_MS
        if took_ms > limit_ms:
            self.report.wrong.append(f"close({timeout_s}) took {took_ms} ms")
        if not life.is_over or not (life.state is LifeState.CLOSED if kind != "death" else self._is_dead_of_it(life)):
            self.report.wrong.append(f"after close(), {kind}, the producer is {life.state.value}"
                                     f"{'' if life.is_over else ', and its thread goes on'}")
        for other in self.producers[1:]:
            self._close_one(other)
        self._check_memory("close()")

    def _send_late(self) -> SimThread:
        """Begin to send one more record beside close(), where nothing else is on its way that would hold it up."""
        assert self.workload is not None
        workload = self.workload
        record = workload.new_record(LATE_CALLER, 1, next(iter(self.parameters.topics)), None, 5)
        self.scheduler.crowd()
        return self.scheduler.start(lambda: workload.send(record, None, None, with_callback=True), "late caller")

    def _ask_late(self) -> SimThread:
        """Begin to ask for the partitions of a topic that is nowhere, beside close(), which ends that wait."""
        assert self.workload is not None
        workload, producer = self.workload, self.producers[0]
        return self.scheduler.start(lambda: workload.ask_for_partitions(producer, NO_TOPIC), "late asker")

    def _leave_alone(self) -> None:
        """Stop all brokers while a record is on its way: only the timeout ends close() now."""
        assert self.producer is not None
        assert self.workload is not None
        self.faults.stop_all()
        record = self.workload.new_record(-2, 1, next(iter(self.parameters.topics)), None, 10)
        self.workload.send(record, None, None, with_callback=True)

    def _is_dead_of_it(self, life: Life) -> bool:
        """Whether a producer whose turns all fail died of that; who closed it before had nothing more to send."""
        assert self.workload is not None
        told = [record.told_error for record in self.workload.records
                if isinstance(record.told_error, ProducerDeadError)]
        if self.plan.seed % 2 and any(isinstance(record.told_error, ProducerClosedError)
                                      for record in self.workload.records):
            return False  # nobody had closed it
        if life.state is LifeState.CLOSED:
            return self.plan.seed % 2 == 0 and not told
        return (life.state is LifeState.DEAD and isinstance(life.cause, MemoryError)
                and all(isinstance(error.__cause__, (MemoryError, ProducerDeadError)) for error in told))

    def _check_summary(self) -> None:
        """What close() says of all records is what became of them."""
        assert self.workload is not None
        # Asked once more: a send() that went on beside the close() may have been refused after it had returned.
        fates, summaries = self.report.fates, [self._close_one(producer) for producer in self.producers]
        unsure = fates["cut off"]  # of which nobody knows whether they were taken
        # What send_nowait() raises for want of memory counts as a record that failed; what a cancelled task took back
        # does not.
        fates = fates + Counter({NOT_SENT: sum(
            record.caller == IN_LOOP and isinstance(record.refused, BufferExhaustedError)
            for record in self.workload.records)})
        fates[NOT_SENT] -= sum(record.is_withdrawn for record in self.workload.records)
        told: Counter[str] = Counter()
        for summary in summaries:
            told.update({"acknowledged": summary.delivered, **summary.failed})
        for fate, count in told.items():
            if not fates[fate] <= count <= fates[fate] + unsure:
                self.report.wrong.append(f"close() says {summaries!r}, and {fates[fate]} records are {fate}")
        for summary in summaries:
            self._check_topics(summary)

    def _check_topics(self, summary: DeliverySummary) -> None:
        topics = summary.topics.values()
        if sum(topic.delivered for topic in topics) != summary.delivered or any(
                sum(topic.failed[fate] for topic in topics) != count for fate, count in summary.failed.items()):
            self.report.wrong.append(f"close() says {summary!r}, and of its topics {summary.topics!r}")

    def _check_fatal(self) -> None:
        """Nobody is without a producer id for ever, but where a broker said what forbids it."""
        answered = self.cluster.answered
        for producer in self.producers:
            sender: Any = producer._runtime.io_thread._sender
            manager = sender._transaction_manager
            if manager is None:
                continue
            self.report.checks["fatal"] += 1
            error = manager.fatal_error
            if error is not None and not (isinstance(error, ApiError) and error.code and any(
                    answered.get((api_key, error.code)) for api_key in (ApiKeys.INIT_PRODUCER_ID, ApiKeys.PRODUCE))):
                self.report.wrong.append(f"no record is sent any more because of {error!r}, which no broker answered")

    def _check_totals(self) -> None:
        assert self.workload is not None
        report = self.report
        metrics: Counter[str] = Counter()
        for producer in self.producers:
            metrics.update(numbers_of(producer))
        facts = ErrorFacts(self.workload, self.parameters, self.ledger, self.cluster, report.checks)
        totals = Totals(self.workload, self.parameters, self.ledger, self.faults, self._watch, metrics, report.checks)
        if self.parameters.props["acks"] == "0":
            totals.check_gone([handed for manners in self.manners for handed in manners.gone],
                              [handed for manners in self.manners for handed in manners.perhaps_gone])
        report.wrong += self._watch.complaints + facts.check() + totals.check()

    def _check_times(self) -> None:
        assert self.workload is not None
        for record in self.workload.records:
            if record.told_count and record.told_ms - record.sent_ms > self._longest_ms():
                self.report.wrong.append(f"{record} was told after {record.told_ms - record.sent_ms} ms")

    def abandon(self) -> None:
        """Leave a producer whose threads stand still for ever."""
        for producer in self.producers:
            producer._finalizer.detach()
            process_life.forget(producer._runtime.life)

    def let_go(self) -> None:
        """Drop the futures: compiled ones are no matter of the garbage collector, and all here is a circle of them."""
        if self.workload is not None:
            for record in self.workload.records:
                record.future = None

    def fill_report(self) -> None:
        report, scheduler = self.report, self.scheduler
        report.fired = self.faults.fired
        report.powers = sorted(self.parameters.powers)
        if self.parameters.opening is not None:
            report.powers.append(f"opening {self.parameters.opening}")
        report.fault_count = self.faults.count
        report.request_count = self.network.request_count
        report.unanswered_count = self.network.unanswered_count
        report.trace = self.network.trace
        report.simulated_ms = scheduler.now_ms
        report.pauses = scheduler.pauses
        report.switches = scheduler.switches
        report.story = scheduler.story()
