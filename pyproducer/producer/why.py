"""producer.why(): takes what is known of a producer together, and has it explained.

Road:    registry, accumulator -> [why] -> observe/why.py
Thread:  any.
Source:  ours.
"""

from __future__ import annotations

import os
from collections import Counter
from typing import TYPE_CHECKING

from pyproducer.accumulator.batch_state import BatchState
from pyproducer.common.clock import NEVER_MS
from pyproducer.common.cluster import address_text
from pyproducer.hotpath import CALLBACK, CODEC, COLUMNS, CONNECTION, LATE, METADATA, NAME, SLOT
from pyproducer.observe.registry import STORIES
from pyproducer.observe.why import Material, Piece, Setting, Why, explain, to_json
from pyproducer.producer.live_view import NO_PARTITION

if TYPE_CHECKING:
    from pyproducer.accumulator.producer_batch import ProducerBatch
    from pyproducer.hotpath import FutureRecordMetadata
    from pyproducer.producer.wiring import ProducerRuntime

WINDOW_MS = 60_000
"""What is looked at where nobody says how long."""
_ON_ITS_WAY = 0
"""The outcome of a batch that has none yet."""


def why(runtime: ProducerRuntime, last_s: float, future: FutureRecordMetadata | None = None,
        save: str | os.PathLike[str] | None = None) -> Why:
    """Say where the time of the last seconds went; see KafkaProducer.why."""
    window_ms = to_window_ms(last_s)
    material = gather(runtime, window_ms) if future is None else _of_record(runtime, window_ms, future)
    if save is not None:
        save_to(material, save)
    return explain(material)


def to_window_ms(last_s: float) -> int:
    """Return a time that is above 0 in ms, also one without end."""
    return max(1, int(min(last_s * 1000, NEVER_MS)))


def save_to(material: Material, path: str | os.PathLike[str]) -> None:
    """Write all of it to a file that only this user may read; an old one is replaced in one step.

    Raises:
        OSError: It cannot be written.
    """
    part = f"{os.fspath(path)}.part"
    with open(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
        file.write(to_json(material))
    os.replace(part, path)


def gather(runtime: ProducerRuntime, window_ms: int, place: tuple[str, int] | None = None) -> Material:
    """Copy what is known of a window; with a place, of that partition's batches alone."""
    registry, now_ms, config = runtime.registry, runtime.clock.now_ms(), runtime.config
    ledger = registry.ledger
    stories = ledger.stories(now_ms - window_ms)
    pieces = [Piece(ended_ms, where[0], where[1], dict(zip(COLUMNS, values, strict=True)))
              for ended_ms, where, values in stories]
    spans = tuple(registry.history.spans(now_ms, ledger, registry.producer))
    forgotten = 0
    if len(stories) >= STORIES:
        in_window = sum(span.sums["batches"] for span in spans if span.to_ms > now_ms - window_ms)
        forgotten = max(0, in_window - len(stories))
    live = [*(_live_piece(batch, registry.ledger.linger_ms, now_ms, runtime) for batch in runtime.accumulator.batches()
              if not batch.is_done), *_room_pieces(runtime, now_ms)]
    if place is not None:
        pieces, live = ([piece for piece in found if (piece.topic, piece.partition) == place]
                        for found in (pieces, live))
    pieces.extend(live)
    since_ms = min([now_ms - window_ms, *(piece.ended_ms - piece.values["wire_ms"] - piece.values["retry_ms"]
                                          for piece in pieces if piece.values["retry_ms"])])
    errors = Counter[str]()
    for retry in registry.last_retries.copy():
        if retry.at_ms >= since_ms and place in (None, retry.place):
            errors[retry.error] += retry.record_count
    return Material(
        registry.client_id, now_ms, runtime.clock.timestamp_ms(), window_ms, tuple(pieces), len(live), forgotten, spans,
        Setting(config.batch_size, config.linger_ms, config.max_in_flight_requests_per_connection, config.buffer_memory,
                config.compression_type), errors,
        {node.node_id: address_text(node.host, node.port) for node in runtime.metadata.cluster.nodes.values()})


def _of_record(runtime: ProducerRuntime, window_ms: int, future: FutureRecordMetadata) -> Material:
    """Return the material of one record's batch while it is on its way, else that of its partition."""
    outcome = getattr(future, "_result", None)
    if outcome is None:
        raise TypeError(f"future={future!r} is not what send() returned for one record of this producer")
    place = (outcome.topic_partition.topic, outcome.topic_partition.partition)
    material = gather(runtime, window_ms, place)
    for batch in runtime.accumulator.batches():
        if batch.result is outcome and not batch.is_done:
            piece = _live_piece(batch, runtime.registry.ledger.linger_ms, runtime.clock.now_ms(), runtime)
            return material._replace(pieces=(piece,), waiting=1, forgotten=0)
    return material


def _live_piece(batch: ProducerBatch, linger_ms: int, now_ms: int, runtime: ProducerRuntime) -> Piece:
    """Return a batch that is on its way as if it ended now."""
    story = batch.story
    values = dict.fromkeys(COLUMNS, 0)
    values.update(memory_ms=story.memory_ms, room_ms=story.room_ms, room_reason=story.room_reason, node_id=-1,
                  records=batch.open.record_count, bytes=batch.size_bytes, raw_bytes=batch.open.size_bytes,
                  attempts=batch.attempts, codec_us=story.codec_us, outcome=_ON_ITS_WAY)
    node = story.node
    if story.first_sent_ms and node is not None:
        values.update(node_id=node.node_id, linger_ms=story.linger_ms, wait_ms=story.wait_ms, reason=story.reason,
                      retry_ms=story.sent_ms - story.first_sent_ms, floor_ms=max(node.floor_ms, 0))
        waits_again = batch.state in (BatchState.RETRY, BatchState.DRAINED)
        values["retry_ms" if waits_again else "wire_ms"] += max(0, now_ms - story.sent_ms)
        values["busy_ms"] = sum(_busy_ms(runtime, what, story.sent_ms, now_ms) for what in (CALLBACK, CODEC))
    else:
        begin_ms = story.opened_ms + story.room_ms
        lingers_ms = min(linger_ms, max(0, now_ms - begin_ms)) if not story.room_ms else 0
        values.update(linger_ms=lingers_ms, wait_ms=max(0, now_ms - begin_ms - lingers_ms))
        values["reason"] = _present_reason(batch, begin_ms + lingers_ms, now_ms, runtime)
    return Piece(now_ms, *batch.topic_partition, values)


def _present_reason(batch: ProducerBatch, from_ms: int, now_ms: int, runtime: ProducerRuntime) -> int:
    leader = runtime.metadata.cluster.leader_for(batch.topic_partition)
    if leader is None:
        return METADATA
    node = runtime.registry.nodes().get(leader.node_id)  # Registry.node makes rows, which is the sender's alone
    reason = LATE if node is None else node.held.main_reason(from_ms, now_ms)
    if reason in (LATE, SLOT):  # who is busy reads no answer, which frees a slot
        for busy_with in (CALLBACK, CODEC):
            if 2 * _busy_ms(runtime, busy_with, from_ms, now_ms) >= now_ms - from_ms:
                return busy_with
    return reason


def _busy_ms(runtime: ProducerRuntime, busy_with: int, from_ms: int, now_ms: int) -> int:
    """Return for how much of a time the sender thread was in callbacks, or compressed, as it may do now."""
    ledger = runtime.registry.ledger
    since_ms = ledger.tells_from_ms if busy_with == CALLBACK else ledger.compresses_from_ms
    return ledger.sender.overlap_ms(busy_with, from_ms, now_ms) + (
        max(0, now_ms - max(from_ms, since_ms)) if since_ms else 0)


def _room_pieces(runtime: ProducerRuntime, now_ms: int) -> list[Piece]:
    """Return the records that wait for their topic, a piece for each queue: they wait together."""
    pieces = []
    for queue in list(runtime.accumulator.waiting.queues.values()):
        records = list(queue.records)
        if records:
            since_ms = min(record.sent_ms for record in records)
            values = dict.fromkeys(COLUMNS, 0)
            values.update(node_id=-1, records=len(records), outcome=_ON_ITS_WAY, room_ms=now_ms - since_ms,
                          room_reason=_room_reason(runtime, since_ms, now_ms))
            pieces.append(Piece(now_ms, queue.topic, NO_PARTITION if queue.partition is None else queue.partition,
                                values))
    return pieces


def _room_reason(runtime: ProducerRuntime, since_ms: int, now_ms: int) -> int:
    reason = runtime.registry.ledger.metadata.main_reason(since_ms, now_ms)
    if reason in (NAME, CONNECTION, METADATA):
        return reason
    # The sender sleeps in the middle of what holds it up, and notes that when it wakes.
    return int(runtime.wire.client.waits_for)
