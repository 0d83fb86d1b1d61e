"""What a producer logs at WARNING and above: each line is one that is known here, and what it says is so.

    a connection ended         in the words of what happened; see manners.py
    records failed             as many as failed, by topic and outcome, those that were left out included
    nobody looked at them      not more than nobody looked at
    a batch is split           of as many records as a broker refused as too large, in that partition
    nobody asked for that      as often as a broker answered for a partition that was in no request
    uncompressed               as often as a codec failed, and by its name
    a request has no encoding  as often as that happened
    a turn ended half way      only where something came from outside, a codec or a socket had no memory
    the process stood still    for as long as it did
    callbacks raised           as often as they did
    a partition is stuck       one that there is, within its limit, by a code that its node answered
    a node throttles           as long as it wanted pauses
    acks=0                     only there records may be gone
    close() gave up            on as many records as were told so

A line is known by a few of its words, and its arguments are compared. Of any other the seed fails: either it should not
be there, or it is new and gets a row here.

Source:  ours.
"""

from __future__ import annotations

import logging
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pyproducer.common.error_codes import ErrorCode
from pyproducer.common.sender_log import INLINE_HANDLERS
from pyproducer.protocol.apis import ApiKeys
from pyproducer.sender.freeze import longest_pause_ms
from pyproducer.sender.stuck_log import STUCK_AFTER_MS
from tests.simulation.faults import Faults
from tests.simulation.manners import LATE_MS, Manners
from tests.simulation.plan import Parameters
from tests.simulation.schedule import Scheduler, SimThread, SimulationFailed

LONGEST_TEXT = 60  # of an error that is looked for: a line may shorten it
_TOO_LARGE = 10
_MANY_TORN_TURNS = 20
_CODE = re.compile(r"([A-Z_]+) \(node (-?\d+)\)")
_QUIET = "pyproducer.producer"  # what it says of settings, before anything is sent


class LogWatch(logging.Handler):
    """Keeps what is logged, and compares it.

    Attributes:
        complaints: What must not be, as soon as it is logged.
        clients: All there are.
        talking: Which client's connections a thread sees to; written by manners.py.
        counts: How often, or of how many records, each line was that totals.py compares.
        failed, unseen: Records that failed, and of which nobody looked at the future: by topic and outcome.
        failed_texts: What the lines say why, and the outcome.
        splits: Batches that were split: by partition and number of records.
    """

    scheduler: Scheduler
    faults: Faults
    parameters: Parameters
    clients: Sequence[Manners]

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.complaints: list[str] = []
        self.talking: dict[SimThread, Manners] = {}
        self._kinds: dict[str, Callable[[Any], None]] = {}
        self.counts: Counter[str] = Counter()
        self.failed: Counter[tuple[str, str]] = Counter()
        self.failed_texts: set[tuple[str, str]] = set()
        self.unseen: Counter[tuple[str, str]] = Counter()
        self.splits: Counter[tuple[str, int]] = Counter()
        self._table: Mapping[str, Callable[[Any], None]] = {
            "%s: %s": self._on_explained,
            "%s": self._on_partitioner,
            "the oldest record waits": self._on_stuck,
            "%s: %s after %d s (%s)": lambda args: self._count("no longer stuck", 1),
            "throttles this producer no more": lambda args: self._on_throttle(args[0], args[1]),
            "throttles this producer: its quota": lambda args: self._on_throttle(args[0], args[2]),
            "may be gone: they were sent with acks=0": lambda args: self._count("may be gone", args[1]),
            "connections ended so, with": lambda args: self._count("may be gone", args[1]),
            "were not delivered": self._on_not_delivered,
            "nobody looked at their": self._on_unseen,
            "that nobody looked at, of": lambda args: self._count("unseen left out", args[1]),
            "failed, outcome": self._on_failed,
            "more failures, of": lambda args: self._count("failed left out", args[1]),
            "too large; it is split": self._on_split,
            "which was not asked for": lambda args: self._count("not asked for", 1),
            "could not compress": self._on_uncompressed,
            "went out uncompressed": lambda args: self._count("uncompressed", args[0]),
            "ended half way": self._on_torn_turn,
            "Uncaught error in": lambda args: self._count("errors", 1),
            "Cannot encode": lambda args: self._count("unencodable", 1),
            "with transactional.id %s cannot go on": lambda args: self._count("fatal transactions", 1),
            "The transaction of %s was not ended": lambda args: self._count("transactions left open", 1),
            "cannot go on": lambda args: self._count("deaths", 1),
            "could not run for": lambda args: self._on_pause(args[0]),
            "The machine slept": self._on_sleep,
            "Metrics for brokers have %d bytes": self._on_large_push,
            "refused metrics with": lambda args: self._on_refused_push(args[2]),
            "is repeated (attempt %d failed: %s)": self._on_repeated,
            "on_completion": lambda args: self._count("callbacks", 1),
            "a done callback of": lambda args: self._count("callbacks", 1),
            "executing interceptor": lambda args: self._count("interceptors", 1),
            "gave up on": lambda args: self._count("given up", args[0]),
            "did not end within": lambda args: self._count("late ends", 1),
        }

    def emit(self, record: logging.LogRecord) -> None:
        """Keep a line."""
        kind = self._kinds.get(record.msg)
        if kind is None:
            kind = self._kinds[record.msg] = self._kind_of(record)
        try:
            kind(record.args)
        except SimulationFailed:
            raise
        except Exception as error:  # of ours, and the producer is in the middle of something
            self.complaints.append(f"{record.getMessage()!r} could not be compared: {error!r}")

    def _kind_of(self, record: logging.LogRecord) -> Callable[[Any], None]:
        if record.msg in self._table:
            return self._table[record.msg]
        for words, kind in self._table.items():
            if not words.startswith("%s") and words in record.msg:
                return kind
        if record.name.startswith(_QUIET) and record.levelno == logging.WARNING:
            return lambda _args: None
        text = record.getMessage()
        if record.exc_info is not None:
            text += f" ({record.exc_info[1]!r})"
        return lambda _args: self.complaints.append(f"the producer logged, and no row is for that: {text}")

    def _count(self, what: str, count: int) -> None:
        self.counts[what] += count

    # -- lines

    def _on_explained(self, args: Any) -> None:
        node, text = args
        client = self.talking.get(self.scheduler.current)
        if client is None and len(self.clients) == 1:  # before its first poll
            client = self.clients[0]
        if client is not None:
            client.on_explained(str(node.node_id), node.host, text)

    def _on_failed(self, args: Any) -> None:
        count, place, outcome, words = args
        self.failed[_topic_of(place), outcome] += count
        self.failed_texts.add((words[:LONGEST_TEXT], outcome))

    def _on_unseen(self, args: Any) -> None:
        count, place, outcome, _words = args
        self.unseen[_topic_of(place), outcome] += count

    def _on_partitioner(self, args: Any) -> None:
        if "partitioner" not in self.parameters.powers or "artitioner" not in str(args[0]):
            self.complaints.append(f"the producer says {args[0]!r}, and no partitioner of the application's raised")

    def _on_stuck(self, args: Any) -> None:
        """A partition is stuck: it names one that there is, the limit, and a code that was answered by that node."""
        self._count("stuck", 1)
        places, cause, attempts, waiting_s, left_s, limit_ms = args
        topics = self.parameters.topics
        is_so = _topic_of(places.split(",")[0].split(" and ")[0]) in topics and attempts >= 0 and (
            limit_ms == self.parameters.props["delivery.timeout.ms"]) and (
            left_s == 0 or abs(waiting_s + left_s - limit_ms // 1000) <= 2) and waiting_s >= STUCK_AFTER_MS // 1000 - 1
        found = _CODE.fullmatch(cause)
        if found is not None:
            answered = {node for node, api, code in self.faults.cluster.refused_by
                        if api is ApiKeys.PRODUCE and ErrorCode.of(code).name == found[1]}
            is_so = is_so and int(found[2]) in answered and attempts >= 1
        if not is_so:
            self.complaints.append(f"the producer says {places} is stuck: {cause}, {attempts} attempts, for "
                                   f"{waiting_s} s, {left_s} s left of {limit_ms} ms")

    def _on_throttle(self, node_id: int, total_ms: int) -> None:
        self._count("throttled", 1)
        if not 0 < total_ms <= self.faults.throttled_ms[node_id]:
            self.complaints.append(f"the producer says that node {node_id} wanted pauses of {total_ms} ms, and those "
                                   f"were {self.faults.throttled_ms[node_id]} ms")

    def _on_not_delivered(self, args: Any) -> None:
        self._count("not delivered", args[1])
        self._count("delivered", args[3])

    def _on_split(self, args: Any) -> None:
        count, size_bytes, place, error = args
        self._count("splits", 1)
        self.splits[str(place), count] += 1
        if getattr(error, "code", None) != _TOO_LARGE or size_bytes <= 0:
            self.complaints.append(f"a batch of {count} records and {size_bytes} bytes for {place} is split for "
                                   f"{error!r}")

    def _on_torn_turn(self, _args: Any) -> None:
        """Where nothing comes from outside each turn may be torn: there is no end of that."""
        self._count("torn turns", 1)
        if self.counts["torn turns"] >= _MANY_TORN_TURNS and not (self.faults.may_tear or self.faults.ends_turns):
            self.scheduler.fail("turn after turn ends half way, and nothing came from outside")

    def _on_repeated(self, args: Any) -> None:
        self._count("odd ids", 1)
        if args[0] != ApiKeys.INIT_PRODUCER_ID.title or not self.faults.fired["no_id"] or "producer id" not in args[2]:
            self.complaints.append(f"the producer says that {args[0]} is repeated: {args[2]}")

    def _on_uncompressed(self, args: Any) -> None:
        self._count("uncompressed", 1)
        if args[0] != self.parameters.props["compression.type"] or not isinstance(args[3], MemoryError):
            self.complaints.append(f"{args[0]} could not compress {args[1]} records for {args[2]}: {args[3]!r}")

    def _on_large_push(self, args: Any) -> None:
        self._count("large pushes", 1)
        wanted = self.parameters.telemetry
        if wanted is None or not args[0] > args[2] == wanted.most_bytes:
            self.complaints.append(f"the producer says that metrics have {args[0]} bytes, and {args[2]} are taken")

    def _on_refused_push(self, code: int) -> None:
        self._count("refused pushes", 1)
        if not any(api in (ApiKeys.GET_TELEMETRY_SUBSCRIPTIONS, ApiKeys.PUSH_TELEMETRY) and answered == code
                   for _node, api, answered in self.faults.cluster.refused_by):
            self.complaints.append(f"the producer says that metrics were refused with {code}, which nobody answered")

    def _on_pause(self, ms: int) -> None:
        """It counts from the end of the sleep that was to be, or from that of the last turn."""
        self._count("pauses", 1)
        shortest_ms = longest_pause_ms(self.parameters.props["request.timeout.ms"])
        if not shortest_ms < ms <= self.faults.frozen_ms + LATE_MS:
            self.complaints.append(f"the producer says that it stood still for {ms} ms; in all that was "
                                   f"{self.faults.frozen_ms} ms, and {shortest_ms} is not long enough")

    def _on_sleep(self, args: Any) -> None:
        self._count("sleeps", 1)
        if not 0 < args[0] <= self.faults.clock.slept_ms:
            self.complaints.append(f"the producer says that the machine slept for {args[0]} ms, and in all that was "
                                   f"{self.faults.clock.slept_ms} ms")


INLINE_HANDLERS.add(LogWatch)  # at once, so that a seed's threads are the simulation's alone


def _topic_of(place: str) -> str:
    """Return the topic of a place, which is a partition's or a topic's."""
    return place[6:] if place.startswith("topic ") else place.rsplit("-", 1)[0]
