"""The one place that constructs a producer's parts and hands each what it uses.

Road:    KafkaProducer -> [wiring] -> every stretch
Thread:  the constructor's; starts nothing, touches no network.
Source:  Java KafkaProducer's constructor (4.1).
"""

from __future__ import annotations

import functools
import logging
import os
import sys
from collections.abc import Callable

from pyproducer import hotpath
from pyproducer.accumulator.buffer_pool import BufferPool
from pyproducer.accumulator.delivery_tally import DeliveryTally
from pyproducer.accumulator.life import Life
from pyproducer.accumulator.record_accumulator import RecordAccumulator
from pyproducer.client.credentials import Credentials
from pyproducer.client.metadata import ProducerMetadata
from pyproducer.client.network_client import NetworkClient
from pyproducer.client.wire import Wire
from pyproducer.common.backoff import ExponentialBackoff
from pyproducer.common.clock import Clock
from pyproducer.common.errors import ConfigError
from pyproducer.common.metrics import Metrics
from pyproducer.common.waiting import Locks, lock_to_ask
from pyproducer.hotpath import Road, RouteTable
from pyproducer.network.channel_builder import client_channel_builder
from pyproducer.network.sasl.login import login_for
from pyproducer.producer.config import ProducerConfig
from pyproducer.producer.config.rows_client import REBUILD
from pyproducer.producer.do_send import RecordSender
from pyproducer.producer.interceptors import resolve_interceptors
from pyproducer.producer.partitioners import resolve_partitioner
from pyproducer.producer.send_batch import LARGE_BATCH_BYTES, BatchSender
from pyproducer.producer.serializers import resolve_serializer
from pyproducer.producer.surroundings import Surroundings
from pyproducer.producer.waiting_room import WaitingRoom
from pyproducer.record.compression import Compressor, compressor_for
from pyproducer.sender.completion import Completion
from pyproducer.sender.freeze import Freeze, longest_pause_ms
from pyproducer.sender.io_thread import IoThread
from pyproducer.sender.loop_watch import LoopWatch
from pyproducer.sender.partition_load import PartitionLoad
from pyproducer.sender.producer_id_request import ProducerIdRequest
from pyproducer.sender.sender import Sender
from pyproducer.sender.turns import SenderTurns
from pyproducer.transaction.transaction_manager import TransactionManager

log: logging.Logger = logging.getLogger(__name__)

# A broker's answer is small; anything near this is not Kafka's protocol. Java sets no limit here.
_MAX_RESPONSE_BYTES = 100 * 1024 * 1024


class ProducerRuntime:
    """The parts that KafkaProducer talks to."""

    __slots__ = ("__weakref__", "accumulator", "batch_sender", "client_id", "clock", "config", "io_thread", "life",
                 "metadata", "metrics", "record_sender", "wire")

    def __init__(self, client_id: str, config: ProducerConfig, clock: Clock, life: Life, metadata: ProducerMetadata,
                 wire: Wire, accumulator: RecordAccumulator, record_sender: RecordSender, batch_sender: BatchSender,
                 io_thread: IoThread, metrics: Metrics) -> None:
        self.client_id: str = client_id
        self.config: ProducerConfig = config
        self.clock: Clock = clock
        self.life: Life = life
        self.metadata: ProducerMetadata = metadata
        self.wire: Wire = wire
        self.accumulator: RecordAccumulator = accumulator
        self.record_sender: RecordSender = record_sender
        self.batch_sender: BatchSender = batch_sender
        self.io_thread: IoThread = io_thread
        self.metrics: Metrics = metrics

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
        self.accumulator.on_forked()
        life.wake_in_child()
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
        ConfigError: A setting asks for what this version does not do. Nothing was started.
    """
    _refuse_what_is_missing(config)
    # Here, on the constructor's thread. The sender's would load it with the second request, and a process that forks in
    # the middle of that has children in which the module's lock is held for ever.
    from pyproducer.protocol import straight_line  # noqa: F401 - loaded for protocol/schema.py

    surroundings = surroundings or Surroundings()
    clock, locks, start_thread = surroundings.clock, surroundings.locks, surroundings.start_thread
    metrics = Metrics()
    client_id = config.client_id
    # Of a fork the child's futures go, too: nobody is to be woken for them.
    tally = DeliveryTally(raises=config.pyproducer_on_unretrieved == "raise", locks=locks,
                          wake=lambda: None if life.is_forked or life.is_on_sender_thread else wire.wakeup())
    life = Life(name or client_id, clock, locks, tally=tally)
    key = resolve_serializer(key_serializer if key_serializer is not None else config.key_serializer, "key.serializer",
                             config.originals)
    value = resolve_serializer(value_serializer if value_serializer is not None else config.value_serializer,
                               "value.serializer", config.originals)
    interceptors = resolve_interceptors(config.interceptor_classes, config.originals)
    are_inside_partitioner: list[Callable[[], bool]] = []
    partitioner = resolve_partitioner(config.partitioner_class, config, next_random=surroundings.next_random,
                                      make_lock=functools.partial(lock_to_ask, locks.rlock, are_inside_partitioner))
    compressor = _compressor(config, locks)
    login = login_for(config)
    channel_builder = client_channel_builder(config, login)

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
        has_credentials=None if credentials is None else credentials.are_there,
        longest_pause_ms=longest_pause_ms(config.request_timeout_ms), on_pause=lambda *pause: freeze.on_pause(*pause))
    wire = Wire(lambda: make_client(make_selector()), wakeup, life.role.ring)
    pool = BufferPool(config.buffer_memory, clock, life, count_held=lambda: accumulator.count_held(),
                      on_exhausted=wire.wakeup)
    transaction_manager = TransactionManager() if config.enable_idempotence else None
    accumulator = RecordAccumulator(
        batch_size_bytes=config.batch_size, linger_ms=config.linger_ms,
        delivery_timeout_ms=config.delivery_timeout_ms, pool=pool, compressor=compressor,
        retry_backoff=retry_backoff, clock=clock, life=life,
        sends_one_at_a_time=config.max_in_flight_requests_per_connection == 1,
        # A caller who waits for a record does not wait for linger.ms too, unless it was set on purpose.
        lingers_for_waiters=not config.is_default("linger.ms"), on_linger_ended=lambda: turns.on_opened(),
        are_inside=(metadata.is_inside, tally.is_inside), are_inside_partitioner=are_inside_partitioner,
        transaction_manager=transaction_manager)
    life.is_inside_append = accumulator.is_inside_append
    life.is_inside_any_append = accumulator.is_inside_any_append
    completion = Completion(
        accumulator=accumulator, metadata=metadata, transaction_manager=transaction_manager, retries=config.retries,
        delivery_timeout_ms=config.delivery_timeout_ms, metrics=metrics, clock=clock)
    producer_id_request = None if transaction_manager is None else ProducerIdRequest(
        wire=wire, metadata=metadata, transaction_manager=transaction_manager,
        request_timeout_ms=config.request_timeout_ms, retry_backoff=retry_backoff)
    room = WaitingRoom(
        metadata=metadata, accumulator=accumulator, clock=clock, life=life, wakeup_sender=wire.wakeup,
        choose_partition=lambda *record: record_sender.choose_partition(*record),
        on_append=getattr(partitioner, "on_append", None), batch_size_bytes=config.batch_size,
        delivery_timeout_ms=config.delivery_timeout_ms, max_block_ms=config.max_block_ms,
        count_failed=completion.count_failed)
    freeze: Freeze = Freeze(wire, metadata, accumulator, clock, config.request_timeout_ms)
    update_load = getattr(partitioner, "update_load", None)
    sender = Sender(
        wire=wire, metadata=metadata, accumulator=accumulator, completion=completion,
        producer_id_request=producer_id_request, transaction_manager=transaction_manager, acks=config.required_acks,
        max_request_size_bytes=config.max_request_size, request_timeout_ms=config.request_timeout_ms,
        metrics=metrics,
        partition_load=None if update_load is None else PartitionLoad(accumulator, update_load), waiting_room=room,
        tally=tally, freeze=freeze, life=life)
    watch = LoopWatch(wire)
    turns = SenderTurns(sender, accumulator, life, clock, wakeup, freeze, watch)
    if hotpath.ROLE_IS_SAFE:
        life.take_turn = turns.take
        life.take_turn_in_loop = turns.take_in_loop
    record_sender = RecordSender(
        metadata=metadata, routes=routes, accumulator=accumulator, room=room, partitioner=partitioner,
        key_serializer=key, value_serializer=value, interceptors=interceptors, clock=clock, life=life,
        wakeup_sender=wire.wakeup, max_request_size_bytes=config.max_request_size,
        buffer_memory_bytes=config.buffer_memory, max_block_ms=config.max_block_ms, on_opened=turns.on_opened)

    def refuse() -> None:
        record_sender.refuse()
        accumulator.close()
        metadata.close(life.refusal)

    def close_parts() -> None:
        try:
            tally.end(clock.now_ms())  # every outcome is decided and told
        finally:
            watch.end()
            _close_parts(interceptors, partitioner, key, value, credentials)

    io_thread = IoThread(sender, wire, accumulator, life, clock, refuse, close_parts, on_end, start_thread,
                         turns.stand_aside, on_end_in_child, turns.wake_loop)
    large_batch_bytes = (min(LARGE_BATCH_BYTES, config.max_request_size // 4) if config.is_default("batch.size")
                         else config.batch_size)
    batch_sender = BatchSender(record_sender=record_sender, metadata=metadata, accumulator=accumulator, clock=clock,
                               life=life, wakeup_sender=wire.wakeup, max_block_ms=config.max_block_ms,
                               batch_size_bytes=config.batch_size, large_batch_bytes=large_batch_bytes,
                               buffer_memory_bytes=config.buffer_memory)
    if hotpath.IS_FALLBACK:
        _say_fallback_once()
    metrics.gauge("buffer-total-bytes", lambda: pool.total_bytes)
    metrics.gauge("buffer-available-bytes", lambda: pool.available_bytes)
    metrics.gauge("waiting-threads", lambda: pool.queued_count + accumulator.waiting.memory.queued_count)
    metrics.gauge("bufferpool-wait-time-ns-total",
                  lambda: 1_000_000 * (pool.waited_ms + accumulator.waiting.memory.waited_ms))
    metrics.gauge("record-send-total", lambda: tally.stored_count or None)  # as the totals, from the first one on
    metrics.gauge("record-unretrieved-error-total", lambda: tally.unretrieved_count)
    metrics.gauge("requests-in-flight", lambda: wire.client.in_flight_request_count())
    return ProducerRuntime(client_id, config, clock, life, metadata, wire, accumulator, record_sender, batch_sender,
                           io_thread, metrics)


def _close_parts(*parts: object) -> None:
    """Close what may be the application's: interceptors, partitioner, serializers, login. A failure is logged."""
    for part in parts:
        close = getattr(part, "close", None)
        if close is not None:
            try:
                close()
            except BaseException:  # the others are closed all the same, by the sender thread as its last act
                log.exception("close() of %r raised", part)


@functools.cache  # once in an interpreter
def _say_fallback_once() -> None:
    folder = os.path.dirname(hotpath.__file__)
    if hotpath.REFUSAL is None and not os.path.isdir(folder):
        why = f"cannot be loaded out of an archive ({folder})"
        cure = ("Install pyproducer, or unpack the archive; for the workers of Spark: python -m pyproducer.spark pack "
                "dep.tar.gz")
    elif hotpath.REFUSAL is None and (others := _built_for_others(folder)):
        why = f"is of another Python or platform than this one, {sys.implementation.cache_tag} ({', '.join(others)})"
        cure = "Install pyproducer with the Python that runs it"
    elif hotpath.REFUSAL is None:
        why = "is not there (no C compiler when it was installed)"
        cure = "Install a C compiler and install pyproducer again"
    else:
        why = f"cannot be loaded ({hotpath.REFUSAL})"
        cure = "Use it in the first interpreter of a process only (mod_wsgi: WSGIApplicationGroup %{GLOBAL})"
    log.warning("The compiled twin of pyproducer's per-record code %s: its Python text runs, which takes several times "
                "the CPU per record. %s, or set PYPRODUCER_IMPL=python to say that this is what you want", why, cure)


def _built_for_others(folder: str) -> list[str]:
    return sorted(name for name in os.listdir(folder) if name.startswith("_native.") and name.endswith((".so", ".pyd")))


def _refuse_what_is_missing(config: ProducerConfig) -> None:
    if config.transactional_id is not None:
        raise ConfigError("transactional.id", config.transactional_id,
                          "transactions are not in this version; leave it unset for an idempotent producer")


def _compressor(config: ProducerConfig, locks: Locks) -> Compressor:
    name = config.compression_type
    levels = {"gzip": config.compression_gzip_level, "lz4": config.compression_lz4_level,
              "zstd": config.compression_zstd_level}
    return compressor_for(name, levels.get(name), locks.lock)
