"""The one place that constructs a producer's parts and hands each what it uses.

Road:    KafkaProducer -> [wiring] -> every stretch
Thread:  the constructor's; starts nothing, touches no network.
Source:  Java KafkaProducer's constructor (4.1).
"""

from __future__ import annotations

import contextlib
import functools
import logging
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass

from pyproducer import hotpath
from pyproducer.accumulator.buffer_pool import BufferPool
from pyproducer.accumulator.delivery_tally import DeliveryTally
from pyproducer.accumulator.life import Life
from pyproducer.accumulator.record_accumulator import RecordAccumulator
from pyproducer.accumulator.transaction_manager import TransactionManager
from pyproducer.client.credentials import Credentials
from pyproducer.client.metadata import ProducerMetadata
from pyproducer.client.network_client import NetworkClient
from pyproducer.client.unconfirmed_writes import UnconfirmedRecords
from pyproducer.client.wire import Wire
from pyproducer.common.backoff import ExponentialBackoff
from pyproducer.common.class_names import close_parts
from pyproducer.common.clock import Clock
from pyproducer.common.delivery_summary import DeliverySummary
from pyproducer.common.printable import LONGEST_NAME, printable
from pyproducer.common.sender_log import SenderLog, sender_log, watch
from pyproducer.common.waiting import Locks
from pyproducer.hotpath import Road, RouteTable
from pyproducer.network.channel_builder import client_channel_builder
from pyproducer.network.sasl.login import login_for
from pyproducer.observe import otlp
from pyproducer.observe.registry import STORIES, Registry, count_error
from pyproducer.observe.why import to_json
from pyproducer.producer.application_parts import application_parts
from pyproducer.producer.config import ProducerConfig
from pyproducer.producer.config.rows_client import REBUILD
from pyproducer.producer.do_send import RecordSender
from pyproducer.producer.gauges import register_gauges
from pyproducer.producer.live_view import failing_addresses, last_attempt, why_not_done
from pyproducer.producer.partitioning import Partitioning
from pyproducer.producer.reporters import reporters_of
from pyproducer.producer.send_batch import LARGE_BATCH_BYTES, BatchSender
from pyproducer.producer.surroundings import Surroundings
from pyproducer.producer.transaction_calls import TransactionCalls
from pyproducer.producer.waiting_room import WaitingRoom
from pyproducer.producer.why import WINDOW_MS, gather
from pyproducer.producer.why_door import WhyDoor, open_door
from pyproducer.protocol.apis import ApiKeys
from pyproducer.record.compression import Compressor, compressor_for
from pyproducer.sender.completion import Completion
from pyproducer.sender.freeze import Freeze, longest_pause_ms
from pyproducer.sender.io_thread import IoThread
from pyproducer.sender.partition_load import PartitionLoad
from pyproducer.sender.requests.add_partitions import next_add_partitions
from pyproducer.sender.requests.commit_offsets import next_offsets
from pyproducer.sender.requests.end_txn import next_end
from pyproducer.sender.requests.init_producer_id import next_init
from pyproducer.sender.requests.own_request import NextRequest
from pyproducer.sender.requests.own_requests import OwnRequests
from pyproducer.sender.requests.prepared_check import next_check
from pyproducer.sender.sender import Sender
from pyproducer.sender.stuck_log import StuckLog
from pyproducer.sender.telemetry import Telemetry
from pyproducer.sender.turns import SenderTurns
from pyproducer.transaction.transactions import Transactions

log: SenderLog = sender_log(__name__)

# A broker's answer is small; anything near this is not Kafka's protocol. Java sets no limit here.
_MAX_RESPONSE_BYTES = 100 * 1024 * 1024
_MOST_TOPICS = 5  # that a line names
# To which a batch that is compressed grows, however small that makes it. zstd's tables grow with what it is given: of
# twice as much each byte takes it 1.15 of the CPU, and the other codecs gain nothing that is worth its memory.
_COMPRESSED_TOGETHER_BYTES = 128 * 1024


@dataclass(eq=False, repr=False)
class ProducerRuntime:
    """The parts that KafkaProducer talks to.

    Attributes:
        shown_as: Under which name readers of the process's numbers see it; "" before it has one.
    """

    client_id: str
    config: ProducerConfig
    clock: Clock
    life: Life
    metadata: ProducerMetadata
    wire: Wire
    accumulator: RecordAccumulator
    record_sender: RecordSender
    batch_sender: BatchSender
    io_thread: IoThread
    registry: Registry
    telemetry: Telemetry | None
    transaction_calls: TransactionCalls
    why_door: WhyDoor | None = None
    shown_as: str = ""

    def on_forked(self, successor: Callable[[], Road]) -> None:
        """In a child process: refuse what is done with it, in the middle of a call, too, and let no lock stop that.

        Its descriptors are closed where it is made anew; else they stay open, unless the thread that forked would go on
        to use them, because it takes a turn of the sender.

        Args:
            successor: Gives the road of the producer that takes its place here, with pyproducer.fork=rebuild.
        """
        life = self.life
        is_in_turn, rebuilds = life.is_on_sender_thread, self.config.pyproducer_fork == REBUILD
        life.mark_forked(rebuilds=rebuilds)
        self.record_sender.on_forked(successor if rebuilds else life.ensure_open)
        self.metadata.on_forked(life.refusal)
        self.registry.on_forked()
        self.accumulator.on_forked()
        life.wake_in_child()
        if self.why_door is not None:
            self.why_door.abandon()
        if rebuilds or is_in_turn:
            self.wire.abandon()

    def begin_close(self, by: str, timeout_s: float | None) -> None:
        """Begin to close where no lock may be taken: in a callback, a finalizer, a signal's handler during send()."""
        self.record_sender.refuse()
        self.io_thread.begin_close(by, timeout_s)


def build_runtime(config: ProducerConfig, key_serializer: object, value_serializer: object,
                  on_end: Callable[[Life], None], surroundings: Surroundings | None = None, *,
                  name: str | None = None,
                  on_end_in_child: Callable[[], None] = lambda: None) -> ProducerRuntime:
    """Construct all parts of a producer.

    Args:
        config: Its settings.
        key_serializer: What KafkaProducer was given.
        value_serializer: The same.
        on_end: Told when the sender thread did everything else.
        surroundings: Time, chance, threads, locks, names and sockets; the real ones unless given.
        name: What logs, errors and the thread call it; the client.id, which brokers are told, unless given.
        on_end_in_child: See IoThread.

    Raises:
        ConfigError: What a setting names cannot be made. Nothing was started; what was made before it is closed.
    """
    with contextlib.ExitStack() as made:
        runtime = _build(config, key_serializer, value_serializer, on_end, surroundings or Surroundings(), name,
                         on_end_in_child, made)
        made.pop_all()  # it is whole, and closes them at its end
    return runtime


def _build(config: ProducerConfig, key_serializer: object, value_serializer: object, on_end: Callable[[Life], None],
           surroundings: Surroundings, name: str | None, on_end_in_child: Callable[[], None],
           made: contextlib.ExitStack) -> ProducerRuntime:
    # Here, on the constructor's thread. The sender's would load it with the second request, and a process that forks in
    # the middle of that has children in which the module's lock is held for ever.
    from pyproducer.protocol import straight_line  # noqa: F401 - loaded for protocol/schema.py
    if config.transactional_id is not None:
        for api in (ApiKeys.FIND_COORDINATOR, ApiKeys.DESCRIBE_TRANSACTIONS):
            api.row.load()

    clock, locks, start_thread = surroundings.clock, surroundings.locks, surroundings.start_thread
    client_id = config.client_id
    registry = Registry(
        client_id if name is None else name, linger_ms=config.linger_ms, num_samples=config.metrics_num_samples,
        window_ms=config.metrics_sample_window_ms, now_ms=clock.now_ms(), capacity=STORIES, locks=locks)
    # Of a fork the child's futures go, too: nobody is to be woken for them.
    tally = DeliveryTally(raises=config.pyproducer_on_unretrieved == "raise", locks=locks,
                          wake=lambda: None if life.is_forked or life.is_on_sender_thread else wire.wakeup(),
                          # A future that the application keeps has the tally, and shall keep nothing of the producer.
                          count=functools.partial(count_error, registry.errors, registry.producer,
                                                  registry.ledger))
    life = Life(name or client_id, clock, locks, tally=tally)
    watch(life)
    is_first = name is None  # else it is a child's, and another may be made of the same parts
    parts = application_parts(config, key_serializer, value_serializer, closes=is_first,
                              next_random=surroundings.next_random, make_lock=locks.rlock)
    if is_first:
        made.callback(close_parts, *parts)
    partitioning = Partitioning(parts.partitioner, life)
    compressor = _compressor(config, locks)
    login = login_for(config)
    made.callback(close_parts, login)
    channel_builder = client_channel_builder(config, login, clock)

    backoff = functools.partial(ExponentialBackoff, uniform=surroundings.random.uniform)
    retry_backoff = backoff(config.retry_backoff_ms, config.retry_backoff_max_ms)
    routes = RouteTable()
    metadata = ProducerMetadata(
        refresh_backoff=retry_backoff, metadata_max_age_ms=config.metadata_max_age_ms,
        metadata_max_idle_ms=config.metadata_max_idle_ms, clock=clock, bootstrap=config.bootstrap_servers,
        locks=locks, on_snapshot=routes.renew, take_used=routes.take_used)
    for topic in config.pyproducer_prefetch_topics:
        metadata.add(topic, clock.now_ms())
    credentials = None if login is None else Credentials(login, metadata, lambda: wire.wakeup())
    unconfirmed = UnconfirmedRecords()
    wakeup = surroundings.make_wakeup()
    make_selector = functools.partial(
        surroundings.make_selector, max_receive_size_bytes=_MAX_RESPONSE_BYTES,
        connections_max_idle_ms=config.connections_max_idle_ms, channel_builder=channel_builder, wakeup=wakeup)
    make_client = functools.partial(
        NetworkClient, metadata=metadata, resolver=surroundings.make_resolver(lambda: wire.wakeup(), start_thread),
        client_id=client_id, clock=clock, next_random=surroundings.next_random,
        max_in_flight_requests_per_connection=config.max_in_flight_requests_per_connection,
        reconnect_backoff=backoff(config.reconnect_backoff_ms, config.reconnect_backoff_max_ms),
        connection_setup_timeout=backoff(config.socket_connection_setup_timeout_ms,
                                         config.socket_connection_setup_timeout_max_ms),
        request_timeout_ms=config.request_timeout_ms, send_buffer_bytes=config.send_buffer_bytes,
        receive_buffer_bytes=config.receive_buffer_bytes, dns_lookup=config.client_dns_lookup,
        metadata_recovery_strategy=config.metadata_recovery_strategy,
        metadata_recovery_rebootstrap_trigger_ms=config.metadata_recovery_rebootstrap_trigger_ms,
        has_credentials=None if credentials is None else credentials.are_there, on_unconfirmed=unconfirmed.on_end,
        on_throttle=lambda *throttle: stuck_log.on_throttle(*throttle),
        longest_pause_ms=longest_pause_ms(config.request_timeout_ms), on_pause=lambda *pause: freeze.on_pause(*pause),
        registry=registry)
    wire = Wire(lambda: make_client(make_selector()), wakeup, life.role.ring)
    made.callback(wire.abandon)
    pool = BufferPool(config.buffer_memory, clock, life, count_held=lambda: accumulator.count_held(),
                      on_exhausted=wire.wakeup, max_block_ms=config.max_block_ms,
                      why=lambda: last_attempt(accumulator) + failing_addresses(metadata))
    transactions = None if config.transactional_id is None else Transactions(
        config.transactional_id, timeout_ms=config.transaction_timeout_ms,
        two_phase=config.transaction_two_phase_commit_enable, clock=clock, locks=locks)
    transaction_manager = TransactionManager(transactions=transactions) if config.enable_idempotence else None
    # With acks=0 nobody would say that a batch is too large for its topic.
    large_batch_bytes = (min(_COMPRESSED_TOGETHER_BYTES if config.compression_type == "zstd" else LARGE_BATCH_BYTES,
                             config.max_request_size // 4)
                         if config.is_default("batch.size") and config.required_acks else config.batch_size)
    # Below max.request.size also where the estimate turns out to be wrong.
    uncompressed_bytes = max(config.batch_size, min(_COMPRESSED_TOGETHER_BYTES, config.max_request_size)
                             if config.required_acks else 0)
    accumulator = RecordAccumulator(
        batch_size_bytes=config.batch_size, linger_ms=config.linger_ms,
        delivery_timeout_ms=config.delivery_timeout_ms, pool=pool, compressor=compressor,
        retry_backoff=retry_backoff, clock=clock, life=life,
        sends_one_at_a_time=config.max_in_flight_requests_per_connection == 1,
        # A caller who waits for a record does not wait for linger.ms too, unless it was set on purpose.
        lingers_for_waiters=not config.is_default("linger.ms"), on_linger_ended=lambda: turns.on_opened(),
        transaction_manager=transaction_manager, largest_batch_bytes=large_batch_bytes,
        largest_uncompressed_bytes=uncompressed_bytes,
        in_flight_bytes=config.max_in_flight_requests_per_connection * config.max_request_size, ledger=registry.ledger)
    completion = Completion(
        accumulator=accumulator, metadata=metadata, transaction_manager=transaction_manager, retries=config.retries,
        delivery_timeout_ms=config.delivery_timeout_ms, registry=registry, clock=clock)
    own_requests = None if transaction_manager is None else OwnRequests(
        wire=wire, kinds=request_kinds(wire, metadata, transaction_manager, accumulator),
        request_timeout_ms=config.request_timeout_ms, retry_backoff=retry_backoff)
    room = WaitingRoom(
        metadata=metadata, accumulator=accumulator, clock=clock, life=life, wakeup_sender=wire.wakeup,
        choose_partition=partitioning.choose, on_append=partitioning.on_append, batch_size_bytes=config.batch_size,
        delivery_timeout_ms=config.delivery_timeout_ms, max_block_ms=config.max_block_ms,
        count_failed=completion.count_failed, on_failed=completion.on_failed)
    freeze: Freeze = Freeze(wire, metadata, accumulator, clock, config.request_timeout_ms)
    telemetry = _telemetry(config, wire, registry, clock, surroundings)
    stuck_log: StuckLog = StuckLog(accumulator, metadata, transaction_manager, linger_ms=config.linger_ms,
                                   delivery_timeout_ms=config.delivery_timeout_ms,
                                   floods=(accumulator.codec_lines, unconfirmed.lines))
    update_load = getattr(parts.partitioner, "update_load", None)
    sender = Sender(
        wire=wire, metadata=metadata, accumulator=accumulator, completion=completion,
        own_requests=own_requests, transaction_manager=transaction_manager, acks=config.required_acks,
        max_request_size_bytes=config.max_request_size, request_timeout_ms=config.request_timeout_ms,
        registry=registry,
        partition_load=None if update_load is None else PartitionLoad(accumulator, update_load), move_on=room.move_on,
        tally=tally, freeze=freeze, stuck_log=stuck_log, delivery_timeout_ms=config.delivery_timeout_ms,
        telemetry=telemetry)
    turns = SenderTurns(sender, accumulator, life, clock, wakeup, freeze)
    if hotpath.ROLE_IS_SAFE:
        life.take_turn = turns.take
    life.why_not_done = lambda topic_partition: why_not_done(
        accumulator, metadata, "" if own_requests is None else own_requests.trouble, topic_partition, room.limit)
    record_sender = RecordSender(
        metadata=metadata, routes=routes, accumulator=accumulator, room=room, partitioning=partitioning,
        key_serializer=parts.key_serializer, value_serializer=parts.value_serializer,
        interceptors=parts.interceptors, clock=clock, life=life,
        wakeup_sender=wire.wakeup, max_request_size_bytes=config.max_request_size,
        buffer_memory_bytes=config.buffer_memory, max_block_ms=config.max_block_ms, on_opened=turns.on_opened,
        transactions=transactions, count_raised=registry.count_raised)
    if transactions is not None:
        transactions.on_change, transactions.wakeup = record_sender.renew_gate, wire.wakeup
        life.on_not_taken = transactions.on_not_taken

    def refuse() -> None:
        record_sender.refuse()
        accumulator.close()
        metadata.close(life.refusal)
        if transactions is not None:
            transactions.begin_end_of_life()

    def end_parts() -> None:
        try:
            tally.end(clock.now_ms())  # every outcome is decided and told
            stuck_log.end()
            _say_what_failed(life.client_id, tally.summary())
        finally:
            close_parts(*parts, credentials, runtime.why_door, *reporters)

    io_thread = IoThread(sender, wire, accumulator, life, clock, refuse, end_parts, on_end, start_thread,
                         turns.stand_aside, on_end_in_child)
    batch_sender = BatchSender(record_sender=record_sender, metadata=metadata, accumulator=accumulator, clock=clock,
                               life=life, wakeup_sender=wire.wakeup, max_block_ms=config.max_block_ms,
                               batch_size_bytes=config.batch_size, large_batch_bytes=large_batch_bytes,
                               buffer_memory_bytes=config.buffer_memory)
    if hotpath.IS_FALLBACK:
        _say_fallback_once()
    runtime = ProducerRuntime(
        client_id, config, clock, life, metadata, wire, accumulator, record_sender, batch_sender, io_thread, registry,
        telemetry, TransactionCalls(life=life, transactions=transactions, own_requests=own_requests, metadata=metadata,
                                    max_block_ms=config.max_block_ms, registry=registry, clock=clock))
    register_gauges(runtime, login, channel_builder, unconfirmed)
    reporters = reporters_of(config, registry, clock)
    made.callback(close_parts, *reporters)
    if config.pyproducer_why_socket is not None:
        runtime.why_door = open_door(config.pyproducer_why_socket, lambda: to_json(gather(runtime, WINDOW_MS)),
                                     start_thread)
    return runtime


def _telemetry(config: ProducerConfig, wire: Wire, registry: Registry, clock: Clock,
               surroundings: Surroundings) -> Telemetry | None:
    """Return what pushes metrics to brokers; None where that is switched off, or its messages are not installed."""
    if not config.enable_metrics_push:
        return None
    if not otlp.is_available():
        if not config.is_default("enable.metrics.push"):
            log.warning("enable.metrics.push has no effect: opentelemetry-proto is not installed: "
                        "pip install 'pyproducer[telemetry]'")
        return None
    try:
        otlp.load()
    except Exception as error:  # a protobuf of another version, for one: what nobody asked for does not end a producer
        log.log(logging.INFO if config.is_default("enable.metrics.push") else logging.WARNING,
                "enable.metrics.push has no effect: opentelemetry-proto is installed and cannot be loaded: %r", error)
        return None
    for api in (ApiKeys.GET_TELEMETRY_SUBSCRIPTIONS, ApiKeys.PUSH_TELEMETRY):
        api.row.load()
    return Telemetry(wire=wire, registry=registry, clock=clock, request_timeout_ms=config.request_timeout_ms,
                     uniform=surroundings.random.uniform)


def request_kinds(wire: Wire, metadata: ProducerMetadata, manager: TransactionManager,
                  accumulator: RecordAccumulator) -> list[NextRequest]:
    """Return what a client may have to ask for itself, in the order of its priority."""
    init = functools.partial(next_init, wire, metadata, manager, accumulator.has_incomplete)
    transactions = manager.transactions
    if transactions is None:
        return [init]
    return [functools.partial(next_check, transactions), init,
            functools.partial(next_add_partitions, manager, transactions, accumulator.waiting_partitions),
            functools.partial(next_offsets, manager, transactions),
            functools.partial(next_end, wire, manager, transactions, lambda: not accumulator.is_empty())]


def _say_what_failed(client_id: str, summary: DeliverySummary) -> None:
    """Say at the end how many records were not delivered: the end of a `with` block hands the summary to nobody."""
    if summary:
        return
    outcomes = ", ".join(f"{count} {outcome}" for outcome, count in summary.failed.items() if count)
    by_topic = {topic: sum(row.failed.values()) for topic, row in summary.topics.items()}
    worst = sorted((topic for topic in by_topic if by_topic[topic]), key=lambda topic: -by_topic[topic])
    topics = ", ".join(f"{printable(topic, LONGEST_NAME)} {by_topic[topic]}" for topic in worst[:_MOST_TOPICS])
    more = f" and {len(worst) - _MOST_TOPICS} more topics" if len(worst) > _MOST_TOPICS else ""
    log.warning("%s is closed: %d record(s) were not delivered (%s), %d were; by topic: %s%s", client_id,
                sum(by_topic.values()), outcomes, summary.delivered, topics, more)


@functools.cache  # once in an interpreter
def _say_fallback_once() -> None:
    from pyproducer.common.reinstall import compiled_files, installed_elsewhere, reinstall_command  # some 50 ms

    folder = os.path.dirname(hotpath.__file__)
    if hotpath.REFUSAL is None and not os.path.isdir(folder):
        why = f"cannot be loaded out of an archive ({folder})"
        cure = ("Install pyproducer, or unpack the archive; for the workers of Spark: python -m pyproducer.spark pack "
                "dep.tar.gz")
    elif hotpath.REFUSAL is None and (others := compiled_files(folder)):
        why = f"is of another Python or platform than this one, {sys.implementation.cache_tag} ({', '.join(others)})"
        cure = "Install pyproducer with the Python that runs it"
    elif hotpath.REFUSAL is None:
        installed = installed_elsewhere(folder)
        why = ("is not there (no C compiler when it was installed, or a wheel for any platform)"
               if installed is None else
               f"is not in {os.path.dirname(folder)}, which hides the installed package, {installed}, that has it")
        cure = (f"{'' if installed is None else 'Start in another folder, or build it in this one. '}With a C compiler "
                f"(Debian: apt-get install gcc libc6-dev python3-dev): {reinstall_command()}")
    else:
        why = f"cannot be loaded ({hotpath.REFUSAL})"
        cure = "Use it in the first interpreter of a process only (mod_wsgi: WSGIApplicationGroup %{GLOBAL})"
    log.warning("The compiled build of pyproducer's per-record code %s: pure Python runs, which takes several times "
                "the CPU per record. %s, or set PYPRODUCER_IMPL=python to say that this is what you want", why, cure)


def _compressor(config: ProducerConfig, locks: Locks) -> Compressor:
    name = config.compression_type
    levels = {"gzip": config.compression_gzip_level, "lz4": config.compression_lz4_level,
              "zstd": config.compression_zstd_level}
    return compressor_for(name, levels.get(name), locks.lock)
