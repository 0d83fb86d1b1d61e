# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
# cython: freethreading_compatible=True, annotation_typing=False
"""What is counted for each batch: the rows of nodes and topics, histograms of times, the ring of batch stories.

One text. Interpreted it is this file; compiled it is _native_ledger, made of the same file with the types that
_native_ledger.pxd declares. Each operation only writes numbers, calls nothing of the application's and raises nothing.

    ProducerBatch has a Story          opened, due, sent, and what it waited for
    Ledger.on_sent(node, batches)      a request has them
    Ledger.on_end(story, ...)          it left its list: its story goes into the ring, its numbers into the rows

Road:    accumulator, sender -> [ledger]; observe/ reads
Thread:  the sender's, but for what a Story is told by the caller who opened its batch. Any thread reads; a number may
         be one update old.
Source:  ours. Imports nothing of ours.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence, Sized

NO_WAIT = 0
NAME = 1            # of a broker, being resolved
CONNECTION = 2      # being built, TLS and SASL included
METADATA = 3        # asked for and not there: no leader, no topic, no answer
THROTTLE = 4        # the broker wants nothing from us (KIP-219)
SLOT = 5            # max.in.flight.requests.per.connection are unanswered
ORDER = 6           # an earlier batch of the partition is not decided
LATE = 7            # nothing held it up: the sender thread did not come
CALLBACK = 8        # the sender thread was in a callback
CODEC = 9           # ... or compressed
REASONS = 10

STORED, FAILED = 1, 2

BUCKETS = 168
# The same for the compiled ones, who have these as numbers of C.
_SLOT, _LATE, _ORDER, _CALLBACK, _CODEC = SLOT, LATE, ORDER, CALLBACK, CODEC
_REASON_COUNT, _BUCKET_COUNT = REASONS, BUCKETS
_TIMELINE_LENGTH = 64
_SAME_MS = 50       # a pause as short as this between two waits of one kind is part of the wait

# What a story in the ring says, each an int of 32 bits; times are in ms but for codec_us.
COLUMNS = ("memory_ms", "room_ms", "room_reason", "linger_ms", "wait_ms", "reason", "codec_us", "wire_ms", "tell_ms",
           "retry_ms", "attempts", "node_id", "records", "bytes", "raw_bytes", "outcome", "busy_ms", "floor_ms")
_WIDTH = len(COLUMNS)
_MOST = 2**31 - 1


class Histogram:
    """How often values were seen, in buckets of an eighth of an octave: 0 to 15 exactly, above that within 6 %.

    Attributes:
        count: How many values there were.
        total: Their sum.
        peak: The largest since somebody set it to 0.
    """

    __slots__ = ("_counts", "count", "peak", "total")

    def __init__(self) -> None:
        self._counts: array[int] = array("q", bytes(8 * _BUCKET_COUNT))
        self.count: int = 0
        self.total: int = 0
        self.peak: int = 0

    def add(self, value: int) -> None:
        """Count a value; one below 0 is 0, what is larger than 2**22 goes into the last bucket."""
        if value < 0:
            value = 0
        self.count += 1
        self.total += value
        if value > self.peak:
            self.peak = value
        shift = 0
        while value > 15:
            value >>= 1
            shift += 1
        index = 8 * shift + value
        if index >= _BUCKET_COUNT:
            index = _BUCKET_COUNT - 1
        self._counts[index] += 1

    def counts(self) -> list[int]:
        """Return how many values each bucket has."""
        return list(self._counts)


def bucket_end(index: int) -> int:
    """Return the largest value of a bucket."""
    if index < 16:
        return index
    shift = index // 8 - 1
    return ((index - 8 * shift + 1) << shift) - 1


class Timeline:
    """The last times in which something held others up: from when until when, and what."""

    __slots__ = ("_from", "_reason", "_to", "_used")

    def __init__(self) -> None:
        self._from: array[int] = array("q", bytes(8 * _TIMELINE_LENGTH))
        self._to: array[int] = array("q", bytes(8 * _TIMELINE_LENGTH))
        self._reason: array[int] = array("q", bytes(8 * _TIMELINE_LENGTH))
        self._used: int = 0

    def note(self, reason: int, from_ms: int, to_ms: int) -> None:
        """Add a time; one that goes on where the last of its kind ended prolongs it."""
        if self._used > 0:
            last = (self._used - 1) % _TIMELINE_LENGTH
            if self._reason[last] == reason and from_ms - self._to[last] <= _SAME_MS:
                if to_ms > self._to[last]:
                    self._to[last] = to_ms
                return
        last = self._used % _TIMELINE_LENGTH
        self._reason[last] = reason
        self._from[last] = from_ms
        self._to[last] = to_ms
        self._used += 1

    def main_reason(self, from_ms: int, to_ms: int) -> int:
        """Return what filled most of a time; LATE where nothing filled half of what is known of it."""
        if self._used == 0 or self._to[(self._used - 1) % _TIMELINE_LENGTH] <= from_ms:
            return _LATE
        best = _LATE
        best_ms = (to_ms - from_ms) // 2
        for reason in range(1, _REASON_COUNT):
            held_ms = self.overlap_ms(reason, from_ms, to_ms)
            if held_ms > 0 and held_ms >= best_ms:
                best = reason
                best_ms = held_ms
        if best == _LATE and self._used > _TIMELINE_LENGTH:
            oldest = self._used % _TIMELINE_LENGTH
            if self._from[oldest] > from_ms:  # the beginning is forgotten: judge by the rest
                return self.main_reason(self._from[oldest], to_ms) if self._from[oldest] < to_ms else _LATE
        return best

    def overlap_ms(self, reason: int, from_ms: int, to_ms: int) -> int:
        """Return for how much of a time a reason held others up."""
        held_ms = 0
        if self._used == 0 or self._to[(self._used - 1) % _TIMELINE_LENGTH] <= from_ms:
            return held_ms
        for back in range(min(self._used, _TIMELINE_LENGTH)):
            index = (self._used - 1 - back) % _TIMELINE_LENGTH
            if self._to[index] <= from_ms:
                break  # they are in order of their ends, as far as one thread notes them
            if self._reason[index] == reason:
                begin = max(self._from[index], from_ms)
                end = min(self._to[index], to_ms)
                if end > begin:
                    held_ms += end - begin
        return held_ms


class Story:
    """What happened to one batch, and when; times are those of the producer's clock, in ms.

    Attributes:
        opened_ms: Its first record came.
        due_ms: It was full, as far as that is known; 0 before.
        first_sent_ms: It was handed to a connection first; 0 before.
        sent_ms: ... and last.
        memory_ms: How long who opened it had waited for buffer.memory.
        room_ms: How long its records had waited for their topic or partition.
        linger_ms: From its first record until it was full or linger.ms had passed.
        wait_ms: From then until it was first sent.
        reason: What it waited for in that time, or most of it.
        node: The row of the node that has it, or had it last.
    """

    __slots__ = ("codec_us", "due_ms", "first_sent_ms", "is_told", "linger_ms", "memory_ms", "node", "opened_ms",
                 "reason", "room_ms", "room_reason", "sent_ms", "wait_ms")

    def __init__(self, opened_ms: int) -> None:
        self.opened_ms: int = opened_ms
        self.due_ms: int = 0
        self.first_sent_ms: int = 0
        self.sent_ms: int = 0
        self.memory_ms: int = 0
        self.room_ms: int = 0
        self.room_reason: int = 0
        self.linger_ms: int = 0
        self.wait_ms: int = 0
        self.reason: int = 0
        self.codec_us: int = 0
        self.is_told: bool = False
        self.node: NodeRow | None = None

    def follow(self, whole: Story) -> None:
        """Go on where that of a batch ended which was split: this is the story of a part."""
        self.first_sent_ms = whole.first_sent_ms
        self.memory_ms = whole.memory_ms
        self.room_ms = whole.room_ms
        self.room_reason = whole.room_reason
        self.linger_ms = whole.linger_ms
        self.wait_ms = whole.wait_ms
        self.reason = whole.reason


class NodeRow:
    """The numbers of one node. Java's producer-node-metrics; totals since the producer was made.

    Attributes:
        latency: Of answered Produce requests, in ms.
        produce_ended_total: Produce requests that were answered, or not in time.
        produce_ms_total: How long those took.
        floor_ms: The quickest answer to anything since it was connected, the way there and back; -1 before the first.
        held: What held up batches for this node.
        certificate_ends_s: When its certificate ends, in seconds since 1970; 0 where it has shown none.
    """

    __slots__ = ("certificate_ends_s", "connection_close_total", "connection_creation_total",
                 "connection_failed_total", "floor_ms", "held", "incoming_byte_total", "latency", "node_id",
                 "outgoing_byte_total", "produce_batch_total", "produce_ended_total", "produce_ms_total",
                 "produce_total", "request_size_max", "request_total", "response_total", "throttle_max",
                 "throttle_ms_total")

    def __init__(self, node_id: int) -> None:
        self.node_id: int = node_id
        self.request_total: int = 0
        self.response_total: int = 0
        self.produce_total: int = 0
        self.produce_batch_total: int = 0
        self.produce_ended_total: int = 0
        self.produce_ms_total: int = 0
        self.outgoing_byte_total: int = 0
        self.incoming_byte_total: int = 0
        self.request_size_max: int = 0
        self.connection_creation_total: int = 0
        self.connection_close_total: int = 0
        self.connection_failed_total: int = 0
        self.throttle_ms_total: int = 0
        self.throttle_max: int = 0
        self.floor_ms: int = -1
        self.certificate_ends_s: int = 0
        self.latency: Histogram = Histogram()
        self.held: Timeline = Timeline()

    def on_answer(self, latency_ms: int, size_bytes: int, throttle_ms: int) -> None:
        """A request was answered."""
        self.response_total += 1
        self.incoming_byte_total += size_bytes
        if self.floor_ms < 0 or latency_ms < self.floor_ms:
            self.floor_ms = latency_ms
        if throttle_ms > 0:
            self.throttle_ms_total += throttle_ms
            if throttle_ms > self.throttle_max:
                self.throttle_max = throttle_ms

    def on_request(self, size_bytes: int) -> None:
        """A request was handed to its connection."""
        self.request_total += 1
        self.outgoing_byte_total += size_bytes
        if size_bytes > self.request_size_max:
            self.request_size_max = size_bytes


_NOBODY = NodeRow(-1)


class TopicRow:
    """The numbers of one topic, or of all that share a row. Java's producer-topic-metrics.

    Attributes:
        delivery: From a batch's first record until it was told, in ms; its waits before that included.
    """

    __slots__ = ("batch_total", "byte_total", "delivery", "raw_byte_total", "record_error_total", "record_retry_total",
                 "record_send_total", "topic")

    def __init__(self, topic: str) -> None:
        self.topic: str = topic
        self.record_send_total: int = 0
        self.record_error_total: int = 0
        self.record_retry_total: int = 0
        self.byte_total: int = 0
        self.raw_byte_total: int = 0
        self.batch_total: int = 0
        self.delivery: Histogram = Histogram()


class Ledger:
    """The ring of batch stories, and what is summed up of them.

    Args:
        capacity: How many stories the ring keeps.
        linger_ms: linger.ms.
        most_topics: So many topics have rows of their own; the others share one.
        others: The name of the row that they share.

    Attributes:
        now_ms: The sender's time: when an answer came, or a turn began.
        tell_ms: How long telling the present answer's outcomes took.
        compresses_from_ms: Since when batches are drained and compressed; 0 while none is.
        tells_from_ms: Since when outcomes are told, callbacks included; 0 while none is.
        sender: What kept the sender thread itself.
        metadata: What records waited for that had no topic or partition yet.
        topics: The rows, by topic.
        delivery: See TopicRow; of all topics.
        queue: From a batch's first record until it was first sent, in ms.
        stored_batch_total: How many batches were stored.
        ended_total: How many stories there were in all; the ring has the last of them.
    """

    __slots__ = ("_capacity", "_columns", "_ended", "_most_topics", "_others", "compresses_from_ms", "delivery",
                 "ended_total", "linger_ms", "metadata", "now_ms", "places", "queue", "raw_byte_total", "sender",
                 "stage_ms", "stored_batch_total", "stored_byte_total", "stored_record_total", "tell_ms",
                 "tells_from_ms", "topics")

    def __init__(self, capacity: int = 1, linger_ms: int = 0, most_topics: int = 1, others: str = "") -> None:
        self._capacity: int = capacity
        self._most_topics: int = most_topics
        self._others: str = others
        self._columns: array[int] = array("i", bytes(4 * _WIDTH * capacity))
        self._ended: array[int] = array("q", bytes(8 * capacity))
        self.places: list[tuple[str, int] | None] = [None] * capacity
        self.linger_ms: int = min(linger_ms, _MOST)  # added to a time it must fit 64 bits
        self.now_ms: int = 0
        self.tell_ms: int = 0
        self.tells_from_ms: int = 0
        self.compresses_from_ms: int = 0
        self.ended_total: int = 0
        self.stored_batch_total: int = 0
        self.stored_record_total: int = 0
        self.stored_byte_total: int = 0
        self.raw_byte_total: int = 0
        self.sender: Timeline = Timeline()
        self.metadata: Timeline = Timeline()
        self.topics: dict[str, TopicRow] = {}
        self.delivery: Histogram = Histogram()
        self.queue: Histogram = Histogram()
        # The sum of all stories so far by column, for who takes a sample each second.
        self.stage_ms: array[int] = array("q", bytes(8 * (_WIDTH + _REASON_COUNT)))

    def topic_row(self, topic: str) -> TopicRow:
        """Return the row of a topic, made where there is room for it."""
        row = self.topics.get(topic)
        if row is None:
            if len(self.topics) >= self._most_topics:
                topic = self._others
                row = self.topics.get(topic)
            if row is None:
                row = self.topics[topic] = TopicRow(topic)
        return row

    def waited_outside(self, story: Story, now_ms: int) -> None:
        """The records of a batch had waited until now for their topic or partition."""
        story.room_ms = now_ms - story.opened_ms
        if story.room_ms > 0:
            story.room_reason = self.metadata.main_reason(story.opened_ms, now_ms)
        else:
            story.room_ms = 0

    def on_sent(self, node: NodeRow, batches: Sequence[object], now_ms: int, codec_ms: int) -> None:
        """A request with these batches was handed to a node's connection.

        Args:
            node: The node's row.
            batches: What has a `story`.
            now_ms: When the turn began that sends them.
            codec_ms: How long it compressed them.
        """
        count = len(batches)
        node.produce_total += 1
        node.produce_batch_total += count
        share_us = 1000 * codec_ms // count if codec_ms > 0 else 0
        sent_ms = now_ms + codec_ms
        for batch in batches:
            story: Story = batch.story  # type: ignore[attr-defined]  # ProducerBatch, which is not known here
            story.codec_us += share_us
            story.sent_ms = sent_ms
            story.node = node
            if story.first_sent_ms > 0:
                continue
            story.first_sent_ms = sent_ms
            begin_ms = story.opened_ms + story.room_ms
            due_ms = begin_ms
            if story.room_ms == 0:
                due_ms = story.opened_ms + self.linger_ms
                if 0 < story.due_ms < due_ms:
                    due_ms = story.due_ms
                if due_ms > now_ms:
                    due_ms = now_ms
            story.linger_ms = due_ms - begin_ms
            story.wait_ms = now_ms - due_ms
            held_by = story.reason
            story.reason = 0
            if story.wait_ms > 0:
                story.reason = node.held.main_reason(due_ms, now_ms)
                if story.reason == _LATE or story.reason == _SLOT:  # who is busy reads no answer, which frees a slot
                    busy_with = self.sender.main_reason(due_ms, now_ms)
                    if busy_with != _LATE:
                        story.reason = busy_with
                if story.reason == _LATE and held_by == _ORDER:
                    story.reason = _ORDER

    def on_end(self, story: Story, place: tuple[str, int], encoded: Sized | None, records: int, attempts: int,
               raw_bytes: int, is_stored: bool) -> None:
        """A batch left its partition's list: stored, failed, or given up. Again is no error; a split one has no end.

        What it has is given one by one: in compiled code, where nothing is known of a batch, each look costs 25 ns.
        """
        if story.is_told:
            return
        story.is_told = True
        size_bytes = 0 if encoded is None else len(encoded)
        ended_ms = self.now_ms
        node_id = -1
        floor_ms = 0
        wire_ms = 0
        busy_ms = 0
        retry_ms = 0
        wait_ms = story.wait_ms
        linger_ms = story.linger_ms
        if story.first_sent_ms > 0:
            wire_ms = ended_ms - story.sent_ms
            retry_ms = story.sent_ms - story.first_sent_ms
            node = story.node or _NOBODY
            node_id = node.node_id
            floor_ms = node.floor_ms if node.floor_ms > 0 else 0
            if wire_ms > floor_ms + 1:  # an answer that the sender thread did not read at once
                busy_ms = (self.sender.overlap_ms(_CALLBACK, story.sent_ms, ended_ms)
                           + self.sender.overlap_ms(_CODEC, story.sent_ms, ended_ms))
        else:
            wait_ms = ended_ms - story.opened_ms - story.room_ms
        life_ms = ended_ms - story.opened_ms + self.tell_ms
        if life_ms < 0:
            life_ms = 0
        slot = self.ended_total % self._capacity
        self._ended[slot] = ended_ms
        self.places[slot] = place
        base = slot * _WIDTH
        self._put(base, 0, story.memory_ms)
        self._put(base, 1, story.room_ms)
        self._put(base, 2, story.room_reason)
        self._put(base, 3, linger_ms)
        self._put(base, 4, wait_ms)
        self._put(base, 5, story.reason)
        self._put(base, 6, story.codec_us)
        self._put(base, 7, wire_ms)
        self._put(base, 8, self.tell_ms)
        self._put(base, 9, retry_ms)
        self._put(base, 10, attempts)
        self._put(base, 11, node_id)
        self._put(base, 12, records)
        self._put(base, 13, size_bytes)
        self._put(base, 14, raw_bytes)
        self._put(base, 15, STORED if is_stored else FAILED)
        self._put(base, 16, busy_ms)
        self._put(base, 17, floor_ms)
        self.ended_total += 1
        self.stage_ms[_WIDTH + story.reason] += wait_ms
        self.delivery.add(life_ms + story.memory_ms)
        topic = place[0]
        row = self.topics.get(topic)
        if row is None:
            row = self.topic_row(topic)
        if is_stored:
            self.queue.add(story.first_sent_ms - story.opened_ms)
            self.stored_batch_total += 1
            self.stored_record_total += records
            self.stored_byte_total += size_bytes
            self.raw_byte_total += raw_bytes
            row.record_send_total += records
            row.byte_total += size_bytes
            row.raw_byte_total += raw_bytes
            row.batch_total += 1
            row.delivery.add(life_ms + story.memory_ms)

    def _put(self, base: int, column: int, value: int) -> None:
        if value > _MOST:
            value = _MOST
        self._columns[base + column] = value
        self.stage_ms[column] += value

    def stories(self, since_ms: int) -> list[tuple[int, tuple[str, int], list[int]]]:
        """Return the stories that ended since then, newest first: when, where to, and a value for each of COLUMNS."""
        found = []
        ended_total = self.ended_total
        for back in range(min(ended_total, self._capacity)):
            slot = (ended_total - 1 - back) % self._capacity
            place = self.places[slot]
            if self._ended[slot] < since_ms or place is None:
                break
            base = slot * _WIDTH
            found.append((self._ended[slot], place, list(self._columns[base:base + _WIDTH])))
        return found

    def sums(self) -> list[int]:
        """Return the sums of all stories, by column, then waits by reason."""
        return list(self.stage_ms)
