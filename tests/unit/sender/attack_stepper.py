"""Random steps of a SteppedProducer against the model's partitions, judged exactly. Run: python -m ...attack_stepper.

Modes: `strict` (nobody forgets; brokers restart, leaders move, frames arrive late), `quiet` (forgets only while nothing
is undecided, and after silence or with another leader epoch or topic), `wild` (forgets at any time: only told outcomes).
"""
from __future__ import annotations

import linecache
import logging
import random
import sys
import uuid
import collections
from typing import Any

from pyproducer.common.errors import LocalProtocolError
from pyproducer.hotpath import record_size_upper_bound
from pyproducer.protocol.apis import ApiKeys
from pyproducer.record import layout
from tests.simulation.model_batch import ProducedBatch
from tests.simulation.model_log import KAFKA_4_1, ModelPartition
from tests.unit.sender.stepped_producer import SteppedProducer, metadata_response

PARTS = 2
TORN: collections.Counter = collections.Counter()
STATS: collections.Counter = collections.Counter()


class Case:
    def __init__(self, seed: int, mode: str) -> None:
        self.mode = mode
        r = self.r = random.Random(seed)
        self.version = r.choice([9, 12, 13])
        self.p = SteppedProducer(retries=r.choice([2**31 - 1] * 4 + [1, 0, 3]), version=self.version,
                                 max_in_flight=r.choice([5, 5, 5, 1, 2]),
                                 delivery_timeout=r.choice([700, 2000, 20000, 20000]), batch_size=r.choice([1, 120, 250]),
                                 partitions=PARTS)
        self.topic_id = uuid.UUID(int=77)
        self.leader, self.epoch = 1, 1
        self.models: list[list[ModelPartition]] = [[] for _ in range(PARTS)]
        for i in range(PARTS):
            self.models[i].append(ModelPartition("t", self.topic_id, i, 1))
        self.records: list[list[tuple[bytes, Any]]] = [[] for _ in range(PARTS)]
        self.queue: list[tuple[Any, Any, list]] = []  # (client, request, answers or None)
        self.seen: set[int] = set()
        self.zombies: list[tuple[int, Any]] = []  # (node, body)
        self.next_id = 10
        self.count = 0
        self.start_epoch = r.choice([0, 0, 0, 32764, 32765])
        self.fault = r.choice([0, 0.1, 0.3, 0.5])
        self.trace: list[str] = []
        self.lost_all = False
        self.stale_until = 0
        # The ring of numbers: the broker's and the client's are near its end.
        self.near_end = r.random() < 0.3

    def log(self, *what: Any) -> None:
        self.trace.append(" ".join(map(str, what)))

    def fetch(self) -> None:
        client = self.p.client
        for request in client.sent:
            if id(request) in self.seen:
                continue
            self.seen.add(id(request))
            if request in client.in_flight:
                body = client.body_of(request)
                if request.api_key is not ApiKeys.INIT_PRODUCER_ID:
                    self.log("  wire", [(pp['index'], (b := ProducedBatch(bytes(pp['records']), 12)).producer_id, b.producer_epoch, b.base_sequence, b.count, b.values[0][:6])
                                        for tt in body['topic_data'] for pp in tt['partition_data']])
                self.queue.append([client, request, None, body])

    # ---- broker

    def current(self, i: int) -> ModelPartition:
        return self.models[i][-1]

    def apply(self, node: int, topic: Any, part: Any, zombie: bool = False) -> dict[str, Any]:
        r = self.r
        i = part["index"]
        model = self.current(i)
        row = {"index": i, "error_code": 0, "base_offset": -1, "log_append_time_ms": -1, "log_start_offset": 0,
               "record_errors": [], "error_message": None, "current_leader": {"leader_id": -1, "leader_epoch": -1}}
        if topic.get("topic_id") is not None and topic["topic_id"] != model.topic_id:
            row["error_code"] = 100
            return row
        if node != self.leader:
            row["error_code"] = 6
            if r.random() < 0.5:
                row["current_leader"] = {"leader_id": self.leader, "leader_epoch": self.epoch}
            return row
        code_after = 0
        if r.random() < self.fault and not self.healed:
            code = r.choice([19, 19, 6, 10, 10, 87, 20, 7, 3, 2, 45 if self.mode == "wild" else 19, 29, 56])
            if code in (20, 7):
                code_after = code
            else:
                row["error_code"] = code
                self.log("   refuse", i, code)
                return row
        batch = ProducedBatch(bytes(part["records"]), self.version, may_name_leader_epoch=True)
        result = model.append(batch, node_id=node, now_ms=self.p.clock.timestamp_ms(), max_message_bytes=10**9,
                              idempotence=KAFKA_4_1)
        self.log("   apply", "Z" if zombie else "", i, batch.producer_id, batch.producer_epoch, batch.base_sequence,
                 batch.count, [v[:6] for v in batch.values], "->", result.error_code, result.base_offset, "dup" if result.is_duplicate else "", "after", code_after)
        row["error_code"] = result.error_code or code_after
        STATS[f"code{row['error_code']}"] += 1
        row["base_offset"] = result.base_offset if not row["error_code"] else -1
        row["log_append_time_ms"] = result.duplicate_timestamp
        return row

    healed = False

    def process(self, entry: list) -> None:
        client, request, answer, body = entry
        if answer is not None:
            return
        if request.api_key is ApiKeys.INIT_PRODUCER_ID:
            self.next_id += 1
            entry[2] = {"throttle_time_ms": 0, "error_code": 0 if self.healed or self.r.random() < 0.8 else 14, "producer_id": self.next_id,
                        "producer_epoch": self.start_epoch}
            self.start_epoch = 0 if self.r.random() < 0.5 else self.start_epoch
            return
        rows = []
        for topic in body["topic_data"]:
            answers = [self.apply(request.destination, topic, part) for part in topic["partition_data"]]
            if not self.healed and self.r.random() < 0.02:
                answers = answers[1:]
            rows.append({"name": topic.get("name"), "topic_id": topic.get("topic_id"), "partition_responses": answers})
        entry[2] = {"responses": rows, "throttle_time_ms": 0, "node_endpoints": []}

    def node_queue(self) -> list:
        """Oldest entries of one random node."""
        nodes = sorted({e[1].destination for e in self.queue if e[0] is self.p.client})
        node = self.r.choice(nodes)
        return [e for e in self.queue if e[1].destination == node and e[0] is self.p.client]

    def lose(self, entries: list, timed_out: bool) -> None:
        """The connection ends: a prefix was processed, more may be later."""
        keep = self.r.randrange(len(entries) + 1)
        for k, e in enumerate(entries):
            if e[2] is None:
                if k < keep:
                    self.process(e)
                elif self.mode != "quiet" and e[1].api_key is not ApiKeys.INIT_PRODUCER_ID and self.r.random() < 0.5:
                    self.zombies.append((e[1].destination, e[3]))
        for e in entries:
            self.queue.remove(e)
            if e[0] is self.p.client and e[1] in self.p.client.in_flight:
                self.p.client.answer(None, request=e[1], disconnected=True, timed_out=timed_out, was_sent=True,
                                     received_ms=self.p.clock.now_ms())

    def deliver(self, e: list) -> None:
        self.process(e)
        self.queue.remove(e)
        if e[1].api_key is not ApiKeys.INIT_PRODUCER_ID:
            self.log("  answer", [(pp['index'], pp['error_code']) for t in e[2]['responses'] for pp in t['partition_responses']])
        if self.tracer: sys.settrace(self.tracer)
        try:
            self.p.client.answer(e[2], request=e[1], received_ms=self.p.clock.now_ms())
        finally:
            sys.settrace(None)

    def tell_metadata(self, leader: int | None = None, epoch: int | None = None, topic_id: Any = None) -> None:
        self.p.metadata.update(metadata_response(PARTS, leader or self.leader, epoch or self.epoch,
                                                 topic_id or self.topic_id), 13, self.p.clock.now_ms())

    def forget(self, i: int) -> None:
        m = self.current(i)
        for pid in list(m.producers):
            m.forget(pid)

    def is_quiet(self, i: int) -> bool:
        parts = self.p.accumulator._partitions.get(("t", i))
        return parts is None or (not parts.sequence.undecided() and not parts.sequence.is_disturbed)

    # ---- one step

    def arrive(self, node: int, body: Any) -> None:
        for topic in body["topic_data"]:
            for part in topic["partition_data"]:
                # After the last epoch comes another id, and nothing keeps the old one's late frames out.
                batch = ProducedBatch(bytes(part["records"]), 12, may_name_leader_epoch=True)
                if batch.producer_id == self.p.manager.producer_id_and_epoch.producer_id:
                    self.apply(node, topic, part, True)

    def turn(self, advance: int = 0) -> None:
        self.p.clock.advance(advance)
        if self.tracer: sys.settrace(self.tracer)
        try:
            self.p.turn(0)
        finally:
            sys.settrace(None)
        self.fetch()

    def step(self) -> None:
        if self.mode != "torn" or self.r.random() < 0.7:
            return self._step()
        left = self.r.choice([3, 30, 100, 300, 600])
        left = self.r.randrange(left)
        self.hit = None

        def local(frame, event, _arg):
            nonlocal left
            if event == "line" and self.hit is None:
                # Tracing sees the end of a `with` before it lets its lock go; nothing else can end a turn there.
                if linecache.getline(frame.f_code.co_filename, frame.f_lineno).lstrip().startswith("with "):
                    return local
                left -= 1
                if left < 0:
                    self.hit = f"{frame.f_code.co_filename.rsplit('/', 1)[1]}:{frame.f_lineno}"
                    raise self.r.choice([KeyboardInterrupt, MemoryError])("torn")
            return local

        def tracer(frame, event, _arg):
            name = frame.f_code.co_filename
            if self.hit is not None or not ("pyproducer/sender/" in name or "accumulator/partition_sequence" in name or "transaction_manager" in name or "pyproducer/accumulator/producer_batch" in name or "pyproducer/accumulator/record_acc" in name):
                return None
            if frame.f_code.co_name in ("append", "_append_record", "_append_with_memory", "_create_partition", "_new_batch", "__init__", "seal", "__repr__", "step"):
                return None
            return local
        state = self.armed = True
        try:
            self.tracer = tracer
            self._step()
        except (KeyboardInterrupt, MemoryError) as e:
            sys.settrace(None)
            if "torn" not in str(e):
                raise
        finally:
            sys.settrace(None)
            self.tracer = None
        if self.hit is not None:
            self.log("TORN", self.hit)
            TORN[self.hit] += 1
            self.fetch()
            self.recover()

    tracer = None

    def _step(self) -> None:
        r = self.r
        k = r.random()
        p = self.p
        if k < 0.25:
            for _ in range(r.choice([1, 1, 2, 6])):
                i = r.randrange(PARTS)
                self.count += 1
                value = b"%05d" % self.count + b"x" * r.choice([1, 40, 100])
                try:
                    self.records[i].append((value, p.append(i, value)))
                except Exception as e:  # noqa
                    self.log("append failed", e)
        elif k < 0.5:
            self.log("turn", p.clock.now_ms())
            self.turn(r.choice([0, 0, 1, 10, 100, 100, 300]))
        elif k < 0.75:
            if self.queue:
                entries = self.node_queue()
                if r.random() < 0.3:
                    for e in entries:
                        if e[2] is None:
                            self.process(e)
                            break
                else:
                    self.deliver(entries[0])
        elif k < 0.80:
            if self.queue:
                self.log("lose")
                self.lose(self.node_queue(), r.random() < 0.5)
        elif k < 0.83:
            if self.zombies:
                self.arrive(*self.zombies.pop(r.randrange(len(self.zombies))))
        elif k < 0.86:
            self.log("restart")
            for i in range(PARTS):
                self.current(i).restart()
        elif k < 0.89:
            self.epoch += 1
            self.leader = r.choice([1, 2])
            self.log("leader", self.leader, self.epoch)
            if r.random() < 0.5:
                self.tell_metadata()
        elif k < 0.93:
            self.tell_metadata()
        elif k < 0.94:
            self.log("recover")
            self.recover()
        elif k < 0.95:
            self.turn(r.choice([700, 2500]))
        elif k < 0.96 and self.near_end:
            for i in range(PARTS):
                if self.is_quiet(i) and not self.zombies:
                    s = self.p.accumulator._partitions.get(("t", i))
                    if s is None or s.sequence.last_acked_sequence < 0 or s.sequence.next_sequence > 1000:
                        continue
                    s = s.sequence
                    st = self.current(i).producers.get(s.owner.producer_id)
                    if st is None or st.epoch != s.owner.epoch or not st.batches or st.batches[-1].last_sequence != s.last_acked_sequence:
                        continue
                    add = 2**31 - r.randrange(2, 9) - s.next_sequence
                    for b in st.batches:
                        b.base_sequence += add
                    s.next_sequence += add
                    s.last_acked_sequence += add
                    s._newest = tuple(n + add for n in s._newest)
                    self.log("near the end", i)
                    STATS["near_end"] += 1
        elif k < 0.98:
            self.forgetting()

    def recover(self) -> None:
        entries = [e for e in self.queue]
        p = self.p
        for e in entries:
            if e[2] is None and e[1].api_key is not ApiKeys.INIT_PRODUCER_ID:
                if self.r.random() < 0.5:
                    self.process(e)
                elif self.mode != "quiet":
                    self.zombies.append((e[1].destination, e[3]))
        self.queue.clear()
        p.sender.recover(p.clock.now_ms())
        STATS["recover"] += 1

    def forgetting(self) -> None:
        r = self.r
        if self.mode in ("strict", "torn"):
            return
        if self.mode == "wild":
            self.log("FORGET")
            self.forget(r.randrange(PARTS))
            return
        if self.zombies or any(not self.is_quiet(i) for i in range(PARTS)) or self.queue:
            return
        what = r.choice(["silence", "leader", "topic"])
        self.log("QUIET FORGET", what)
        STATS["quiet forget " + what] += 1
        if what == "silence":
            self.p.clock.advance(400_000)
            self.forget(0)
            self.forget(1)
        elif what == "leader":
            self.forget(0)
            self.forget(1)
            self.epoch += 1
            self.tell_metadata()
        else:
            self.topic_id = uuid.UUID(int=self.topic_id.int + 1)
            self.epoch = 1
            for i in range(PARTS):
                self.models[i].append(ModelPartition("t", self.topic_id, i, self.leader))
            self.tell_metadata()

    def run(self) -> None:
        for _ in range(self.r.choice([60, 200, 400])):
            self.step()
        self.healed = True
        self.log("HEALED")
        self.fault = 0
        turns = 0
        for _ in range(400):
            if not self.p.accumulator.has_incomplete() and not self.p.accumulator.batches():
                break
            turns += 1
            self.tell_metadata()
            self.turn(100)
            while self.queue:
                mine = [e for e in self.queue if e[0] is self.p.client]
                self.deliver(mine[0])
            if self.zombies and self.r.random() < 0.3:
                self.arrive(*self.zombies.pop())
        else:
            raise AssertionError(f"hang: {self.p.accumulator.batches()}")
        STATS["turns"] += turns
        self.turn(0)
        if self.p.held_bytes:
            raise AssertionError(f"memory {self.p.held_bytes}")
        # After that all is well: one more record goes, and at once.
        for i in range(PARTS):
            self.records[i].append((b"last%d" % i, self.p.append(i, b"last%d" % i)))
        for _ in range(10):
            self.turn(100)
            while self.queue:
                self.deliver([e for e in self.queue if e[0] is self.p.client][0])
        for i in range(PARTS):
            assert self.records[i][-1][1].exception(0) is None, "the last one failed"
        assert not self.p.manager.disturbed or not any(s.is_disturbed for s in self.p.manager.disturbed), "still disturbed"
        self.judge()

    def judge(self) -> None:
        for i in range(PARTS):
            where: dict[bytes, list[tuple[int, int]]] = {}
            for n, model in enumerate(self.models[i]):
                for b in model.batches:
                    for j, v in enumerate(b.values):
                        where.setdefault(v, []).append((n, b.base_offset + j))
            order = []
            for value, future in self.records[i]:
                assert future.done(), value
                at = where.get(value, [])
                exc = future.exception(0)
                out = "stored" if exc is None else exc.outcome
                STATS[out] += 1
                if exc is not None and "45" in repr(exc): STATS["err45"] += 1
                if out == "stored":
                    assert len(at) >= 1, f"lost {value!r}"
                    off = future.result(0).offset
                    assert off in (-1, *[a[1] for a in at]), f"offset {value!r}"
                elif out in ("not_sent", "rejected"):
                    assert not at, f"{out}, but in the log: {value!r} {exc!r}"
                if self.mode != "wild":
                    # In another topic of that name it is another log.
                    assert len(at) == len({n for n, _ in at}), f"twice {value!r} {at}"
                if at:
                    order.append((at[0] if self.mode != "quiet" else at[-1], value))
            if self.mode != "wild":
                assert order == sorted(order), f"order {[(a, v[:5]) for a, v in order]}"


def main() -> None:
    logging.disable(logging.CRITICAL)
    mode, start, n = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    bad = 0
    for seed in range(start, start + n):
        case = Case(seed, mode)
        try:
            case.run()
        except Exception as e:  # noqa: BLE001
            bad += 1
            if bad <= 12:
                print("seed", seed, type(e).__name__, str(e)[:300])
            if n == 1:
                print("\n".join(case.trace[-int(sys.argv[4]) if len(sys.argv) > 4 else -100:]))
                raise
    print(mode, n, "bad", bad, dict(STATS), len(TORN), sum(TORN.values()))


if __name__ == "__main__":
    main()
