"""Why records take long: where their time went, by cause, and what to change.

A batch's story gives its time away piece by piece, and each piece is one cause's. What is healthy is no cause: below
LEAST_MS of a batch's time on average, or below a quarter of it, nothing stands out.

Road:    ledger, history -> [why] -> producer.why(), `python -m pyproducer why`
Thread:  any; works on copies.
Source:  ours.
"""

from __future__ import annotations

import datetime
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from pyproducer.common.clock import NEVER_MS
from pyproducer.common.public import public
from pyproducer.hotpath import CALLBACK, CODEC, CONNECTION, LATE, METADATA, NAME, ORDER, SLOT, THROTTLE
from pyproducer.observe.history import FIELDS, Span
from pyproducer.observe.registry import STORIES

LEAST_MS = 10
"""So much of a batch's time a cause must have on average: a switch of threads or two is no cause."""
LEAST_SHARE = 0.25
_HEALTHY_LINGER_MS = 20
_COMPUTING = 0.25
"""From this part of a processor on that other threads of the process use, they are what the sender waits for."""
_SWITCH_MS = 5
"""What another thread keeps the interpreter for when it is asked for: sys.getswitchinterval()."""
_SMALL_BYTES = 16_384
_FORMAT = 1

CAUSES: Mapping[str, str] = {
    "memory": "callers waited in send() for buffer.memory",
    "linger": "batches were kept open by linger.ms",
    "batches": "small batches waited for an in-flight slot",
    "slots": "all in-flight slots were taken",
    "far": "the way to the broker and back",
    "broker": "the broker took long to answer",
    "throttle": "the broker throttled this client",
    "dns": "names of brokers were being resolved",
    "metadata": "no metadata: the topic or its leader was not known",
    "connection": "connections were being built, logins included",
    "partition": "one partition was refused or held up, others were not",
    "retries": "batches were sent again after errors",
    "interpreter": "another thread kept the interpreter busy (the GIL)",
    "callback": "callbacks kept the sender thread",
    "codec": "compressing kept the sender thread",
    "machine": "the sender thread came late",
}
"""Each cause, and what it is."""


class Piece(NamedTuple):
    """A batch as `why` sees it: the columns of its story, and where it was to go.

    Attributes:
        ended_ms: When it ended, on the producer's clock.
        topic: Its topic.
        partition: Its partition.
        values: By column; see the ledger's COLUMNS.
    """

    ended_ms: int
    topic: str
    partition: int
    values: Mapping[str, int]


class Setting(NamedTuple):
    """What `why` must know of the settings, to say what to change."""

    batch_size: int
    linger_ms: int
    max_in_flight: int
    buffer_memory: int
    compression: str


class Material(NamedTuple):
    """All that an answer is made of; what `save` writes. There is no key, value or secret in it.

    Attributes:
        client_id: Whose it is.
        now_ms: The producer's clock when it was taken.
        timestamp_ms: The same moment, ms since 1970.
        window_ms: Of how long it is.
        pieces: Batches that ended in the window, and those that wait now as if they had ended now.
        waiting: How many of them wait now.
        forgotten: How many that ended in the window, of whatever partition, the ring has no more.
        spans: Sums by time, the whole history.
        setting: Settings.
        errors: Retries by error, of the last ones: since the window began, or one of its batches was first sent.
        nodes: Addresses by node id.
    """

    client_id: str
    now_ms: int
    timestamp_ms: int
    window_ms: int
    pieces: tuple[Piece, ...]
    waiting: int
    forgotten: int
    spans: tuple[Span, ...]
    setting: Setting
    errors: Mapping[str, int]
    nodes: Mapping[int, str]


@public
class Finding(NamedTuple):
    """One cause.

    Attributes:
        cause: A key of CAUSES.
        share: Which part of the batches' time it took, 0 to 1.
        mean_ms: How much of a batch's time that is.
        where: A broker or a partition, where one has most of it; else "".
        advice: What to change.
    """

    cause: str
    share: float
    mean_ms: float
    where: str
    advice: str


@public
class Why(NamedTuple):
    """The answer: print it.

    Attributes:
        findings: What stands out, the largest first; empty where nothing does.
        batches: How many batches it is about.
        mean_ms: How long one took.
        text: All of it in words.
    """

    findings: tuple[Finding, ...]
    batches: int
    mean_ms: float
    text: str

    def __str__(self) -> str:
        return self.text


class _Times:
    """Adds up time by cause, and by where it was spent."""

    def __init__(self) -> None:
        self.by_cause: defaultdict[str, float] = defaultdict(float)
        self.by_node: defaultdict[str, Counter[int]] = defaultdict(Counter)
        self.by_partition: defaultdict[str, Counter[tuple[str, int]]] = defaultdict(Counter)
        self.total_ms = 0.0

    def add(self, cause: str, time_ms: float, piece: Piece, node_id: int = -1) -> None:
        if time_ms > 0:
            self.by_cause[cause] += time_ms
            if node_id >= 0:
                self.by_node[cause][node_id] += int(time_ms)
            self.by_partition[cause][(piece.topic, piece.partition)] += int(time_ms)
            self.total_ms += time_ms


_CAUSE_OF_WAIT = {NAME: "dns", CONNECTION: "connection", METADATA: "metadata", THROTTLE: "throttle", ORDER: "retries",
                  CALLBACK: "callback", CODEC: "codec"}


def explain(material: Material) -> Why:
    """Say where the time of a window went."""
    pieces = material.pieces
    if not pieces:
        known = "no batch of that time is kept." if material.forgotten else (
            "no batch was on its way. Nothing stands out.")
        return Why((), 0, 0.0, f"{_window(material)}: {known}{_forgotten(material)}")
    times = _Times()
    computing = _others_compute(material)
    late_ms = _mean_late_ms(pieces)
    retried = {(piece.topic, piece.partition) for piece in pieces if piece.values["retry_ms"]}
    # Who tells of many small batches is busy all the time, and with each for no time.
    are_tiny = material.setting.batch_size < _SMALL_BYTES and (
        max(piece.values["busy_ms"] for piece in pieces) < len(pieces))
    for piece in pieces:
        _give_away(piece, material.setting, times, computing, late_ms, retried, are_tiny=are_tiny)
    batches = len(pieces)
    mean_ms = times.total_ms / batches
    _single_out_partition(times, pieces)
    found = []
    for cause, time_ms in sorted(times.by_cause.items(), key=lambda row: -row[1]):
        share, cause_ms = time_ms / times.total_ms, time_ms / batches
        least_ms = _HEALTHY_LINGER_MS if cause == "linger" else LEAST_MS
        if share >= LEAST_SHARE and cause_ms >= least_ms and cause != "machine":
            found.append(Finding(cause, share, cause_ms, _where(cause, times, material.nodes),
                                 _advice(cause, pieces, material)))
    return Why(tuple(found), batches, mean_ms, _text(material, found, times, mean_ms))


def _give_away(piece: Piece, setting: Setting, times: _Times, computing: float, late_ms: float,
               retried: set[tuple[str, int]], *, are_tiny: bool) -> None:
    """Give each part of a batch's time to a cause."""
    values = piece.values
    node_id = values["node_id"]
    place = (piece.topic, piece.partition)
    times.add("memory", values["memory_ms"], piece)
    if values["room_ms"]:
        times.add(_CAUSE_OF_WAIT.get(values["room_reason"], "metadata"), values["room_ms"], piece)
    times.add("linger", values["linger_ms"], piece)
    wait_ms, reason = values["wait_ms"], values["reason"]
    if reason == SLOT:
        # Whether more would go with fewer, larger batches, or with more requests: by how full the batches are, and how
        # large they may become.
        is_small = setting.batch_size < _SMALL_BYTES and setting.max_in_flight > 1
        times.add("batches" if is_small else "slots", wait_ms, piece, node_id)
    elif reason in (LATE, 0):
        # With one request at a time nothing of a partition is ready while one is on its way, and no node is held up.
        late = "retries" if place in retried else "slots" if setting.max_in_flight == 1 else (
            "interpreter" if computing >= _COMPUTING else "machine")
        times.add(late, wait_ms, piece, node_id)
    else:
        cause = "batches" if are_tiny and reason in (CALLBACK, CODEC) else _CAUSE_OF_WAIT[reason]
        times.add(cause, wait_ms, piece, node_id)
    codec_ms = values["codec_us"] / 1000
    times.add("codec", codec_ms, piece)
    wire_ms = values["wire_ms"]
    floor_ms = min(values["floor_ms"], wire_ms)
    rest_ms: float = wire_ms - floor_ms
    busy_ms = min(float(values["busy_ms"]), rest_ms)
    times.add("batches" if are_tiny else "callback" if values["tell_ms"] >= codec_ms else "codec", busy_ms, piece)
    rest_ms -= busy_ms
    if computing >= _COMPUTING:
        # An answer is read late by the same as a batch is sent late, which can be seen: twice that, for a turn has two
        # calls that give the interpreter away.
        read_late_ms = min(float(rest_ms), 2 * late_ms + _SWITCH_MS)
        times.add("interpreter", read_late_ms, piece)
        rest_ms -= read_late_ms
    times.add("far", floor_ms, piece, node_id)
    times.add("broker", rest_ms, piece, node_id)
    times.add("callback", values["tell_ms"], piece)
    times.add("retries", values["retry_ms"], piece, node_id)


def _mean_late_ms(pieces: Sequence[Piece]) -> float:
    """Return how late the sender thread came to a batch that nothing held up, on average."""
    late = [piece.values["wait_ms"] for piece in pieces
            if piece.values["node_id"] >= 0 and piece.values["reason"] in (0, LATE)]
    return sum(late) / len(late) if late else 0.0


def _others_compute(material: Material) -> float:
    """Return which part of a processor other threads than the sender used in the window."""
    begin_ms = material.now_ms - material.window_ms
    wall_ms = cpu_ms = 0
    for span in material.spans:
        if span.to_ms > begin_ms and span.sums["batches"]:
            wall_ms += span.to_ms - span.from_ms
            cpu_ms += span.sums["cpu_ms"] - span.sums["sender_cpu_ms"]
    return cpu_ms / wall_ms if wall_ms else 0.0


def _single_out_partition(times: _Times, pieces: Sequence[Piece]) -> None:
    """Where retries are one partition's, and others have been served meanwhile, the partition is the cause."""
    places = times.by_partition["retries"]
    all_ms = sum(places.values())
    served = {(piece.topic, piece.partition) for piece in pieces if not piece.values["retry_ms"]}
    if not all_ms:
        return
    place, most_ms = places.most_common(1)[0]
    if most_ms >= 0.8 * all_ms and served - {place}:
        times.by_cause["partition"] += times.by_cause.pop("retries")
        times.by_partition["partition"] = places
        times.by_node["partition"] = times.by_node["retries"]


def _where(cause: str, times: _Times, nodes: Mapping[int, str]) -> str:
    if cause in ("partition", "retries"):
        places = times.by_partition[cause]
        (topic, partition), most = places.most_common(1)[0]
        if most >= 0.8 * sum(places.values()):
            return f"{topic}-{partition}"
    by_node = times.by_node[cause]
    if by_node:
        node_id, most = by_node.most_common(1)[0]
        if most >= 0.6 * sum(by_node.values()):
            address = nodes.get(node_id)
            return f"broker {node_id}" + (f" ({address})" if address else "")
    return ""


def _mean(pieces: Iterable[Piece], column: str) -> float:
    values = [piece.values[column] for piece in pieces if piece.values["node_id"] >= 0]
    return sum(values) / len(values) if values else 0.0


def _advice(cause: str, pieces: Sequence[Piece], material: Material) -> str:
    setting = material.setting
    round_trip = f"round trip {_mean(pieces, 'floor_ms'):.0f} ms"
    errors = ", ".join(name for name, _ in Counter(material.errors).most_common(3)) or "none is known"
    return {
        "memory": f"raise buffer.memory ({setting.buffer_memory} bytes), or send more slowly",
        "linger": f"lower linger.ms ({setting.linger_ms})",
        "batches": f"{round_trip}, {_mean(pieces, 'raw_bytes'):.0f} bytes a batch: raise batch.size "
                   f"({setting.batch_size})",
        "slots": f"{round_trip}, {setting.max_in_flight} requests at a time: raise batch.size ({setting.batch_size})"
                 + (" or max.in.flight.requests.per.connection" if setting.max_in_flight < 5 else ""),
        "far": f"{round_trip}: nothing in the client shortens it; send from nearer, or let more be on its way at a "
               "time (batch.size, no waiting for each record)",
        "broker": f"the quickest answer took {_mean(pieces, 'floor_ms'):.0f} ms, but one takes "
                  f"{_mean(pieces, 'wire_ms'):.0f} ms: look at the broker's disks and followers (acks=all waits for "
                  "them), and at whether the way there has become longer",
        "throttle": "a quota is used up: raise the client's quota at the brokers, or send less",
        "dns": "look at the resolver of this machine; or name addresses that it knows",
        "metadata": "look at whether brokers are reachable, the topic exists and has a leader",
        "connection": "look at the network, at TLS and at the login",
        "partition": f"errors: {errors}; look at its leader and followers",
        "retries": f"errors: {errors}; look at the brokers",
        "interpreter": f"other threads of this process use {100 * _others_compute(material):.0f} % of a processor: "
                       "move what computes into another process",
        "callback": "keep callbacks short: hand the work to another thread",
        "codec": f"compression.type={setting.compression} is expensive: take lz4 or a lower level",
        "machine": "this process got no processor in time",
    }[cause]


def _text(material: Material, found: Sequence[Finding], times: _Times, mean_ms: float) -> str:
    lines = [f"{_window(material)}: {len(material.pieces)} batches, {mean_ms:.0f} ms each on average"
             + (f", {material.waiting} of them still on their way" if material.waiting else "")]
    for finding in found:
        where = f" ({finding.where})" if finding.where else ""
        lines.append(f"  {100 * finding.share:.0f} %  {CAUSES[finding.cause]}{where}: {finding.mean_ms:.0f} ms a "
                     f"batch. {finding.advice}")
    if not found:
        largest = max(times.by_cause, key=lambda cause: times.by_cause[cause], default=None)
        lines.append("  Nothing stands out." + ("" if largest is None else
                     f" Most of the time, {times.by_cause[largest] / len(material.pieces):.1f} ms a batch: "
                     f"{CAUSES[largest]}."))
    return "\n".join(lines) + _forgotten(material)


def _forgotten(material: Material) -> str:
    if not material.forgotten:
        return ""
    return (f"\n  {material.forgotten} batches of that time are forgotten: the ring holds {STORIES}, of all "
            "partitions.")


def _window(material: Material) -> str:
    if material.window_ms >= NEVER_MS:
        return f"{material.client_id}, all that is kept"
    return f"{material.client_id}, the last {material.window_ms / 1000:g} s"


# What `save` writes.

def to_json(material: Material) -> str:
    """Return all of it as text that `from_json` reads."""
    import json  # here: it takes longer to load than most producers ask why

    columns = list(material.pieces[0].values) if material.pieces else []
    return json.dumps({
        "format": _FORMAT, "client_id": material.client_id, "now_ms": material.now_ms,
        "timestamp_ms": material.timestamp_ms, "window_ms": material.window_ms, "waiting": material.waiting,
        "forgotten": material.forgotten, "setting": material.setting._asdict(), "errors": dict(material.errors),
        "nodes": {str(node_id): address for node_id, address in material.nodes.items()}, "columns": columns,
        "pieces": [[piece.ended_ms, piece.topic, piece.partition, *piece.values.values()] for piece in material.pieces],
        "fields": list(FIELDS),
        "spans": [[span.from_ms, span.to_ms, *span.sums.values()] for span in material.spans]})


def from_json(text: str) -> Material:
    """Return what `to_json` wrote.

    Raises:
        ValueError: It did not, or another version did.
    """
    import json  # as above

    try:
        read: Any = json.loads(text)
        if read["format"] != _FORMAT:
            raise ValueError(f"it has format {read['format']}, and this version reads {_FORMAT}")
        columns, fields = read["columns"], read["fields"]
        return Material(
            read["client_id"], read["now_ms"], read["timestamp_ms"], read["window_ms"],
            tuple(Piece(row[0], row[1], row[2], dict(zip(columns, row[3:], strict=True))) for row in read["pieces"]),
            read["waiting"], read["forgotten"],
            tuple(Span(row[0], row[1], dict(zip(fields, row[2:], strict=True))) for row in read["spans"]),
            Setting(**read["setting"]), read["errors"],
            {int(node_id): address for node_id, address in read["nodes"].items()})
    except (KeyError, TypeError, IndexError, AttributeError) as cause:
        raise ValueError(f"it was not written by why(save=...): {cause!r}") from cause


def at(material: Material, timestamp_ms: int) -> str:
    """Say what happened around a moment of the history: a line for each span within five minutes."""
    offset_ms = material.timestamp_ms - material.now_ms
    lines = []
    for span in material.spans:
        if span.to_ms + offset_ms < timestamp_ms - 300_000 or span.from_ms + offset_ms > timestamp_ms + 300_000:
            continue
        sums = span.sums
        waits = sorted(((name, sums[name]) for name in FIELDS if name.endswith("_ms") and sums[name] > 0
                        and name not in ("cpu_ms", "sender_cpu_ms", "floor_ms", "busy_ms")), key=lambda row: -row[1])
        most = ", ".join(f"{name.removesuffix('_ms').replace('_', ' ')} {value} ms" for name, value in waits[:3])
        lines.append((span.from_ms + offset_ms, span.to_ms - span.from_ms, f"{sums['batches']} batches, "
                      f"{sums['records']} records, {sums['errors']} failed, {sums['retries']} sent again"
                      f"{'; ' + most if most else ''}"))
    if not lines:
        return "Nothing is kept of that time."
    return "\n".join(f"{datetime.datetime.fromtimestamp(begin_ms / 1000).astimezone():%Y-%m-%d %H:%M:%S} "
                     f"({length_ms / 1000:.0f} s): {text}" for begin_ms, length_ms, text in lines)
