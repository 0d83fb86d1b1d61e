"""A batch that many threads append to while one closes it: whole records, each with its own place, none after the end.

Under the GIL an append of the compiled twin is one step; without it, a lock of the batch's makes it one. The Python
text's owner holds the partition's lock, and so does this test there.
"""

from __future__ import annotations

import sys
import threading
from contextlib import nullcontext
from typing import Any

import pytest

from pyproducer import hotpath
from pyproducer.hotpath import MURMUR2, OpenBatch, Route, RouteTable, StickyPartition
from pyproducer.record.batch_reader import read_batches
from pyproducer.record.batch_writer import write_header
from tests.support.patience import GIVE_UP_S, PROGRAM_S

THREADS = 4
ROUNDS = 30


class Outcome:
    """What a batch knows its outcome by."""

    is_set = False


@pytest.fixture(autouse=True)
def switch_often() -> Any:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


def run_all(*works: Any) -> None:
    """Run each on a thread of its own, from one moment on."""
    start = threading.Barrier(len(works))
    raised: list[BaseException] = []

    def run(work: Any) -> None:
        try:
            start.wait(GIVE_UP_S)
            work()
        except BaseException as error:
            raised.append(error)

    threads = [threading.Thread(target=run, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not raised


def test_batch_when_threads_append_and_one_closes_it_then_it_has_what_was_accepted_and_nothing_else() -> None:
    lock: Any = nullcontext() if hotpath.IMPL == "native" else threading.Lock()
    for round_number in range(ROUNDS):
        batch = OpenBatch(Outcome(), 1 << 20)
        accepted: list[list[tuple[int, bytes]]] = [[] for _ in range(THREADS)]
        after_the_end: list[Any] = []

        def append(mine: list[tuple[int, bytes]], name: int, batch: OpenBatch = batch) -> None:
            for number in range(400):
                value = b"%d-%d-" % (name, number) + b"x" * (number % 60)
                with lock:
                    future = batch.try_append(1_700_000_000_000 + number, b"key", value, (("h", b"1"),), None)
                if future is None:
                    return
                mine.append((future._index, value))

        def close(batch: OpenBatch = batch, late: list[Any] = after_the_end, enough: int = 40 * round_number) -> None:
            while batch.record_count < enough:
                pass
            with lock:
                batch.is_closed = True
            count = batch.record_count
            late.append((batch.record_count - count, batch.try_append(0, None, b"late", (), None)))

        run_all(close, *(lambda mine=mine, name=name: append(mine, name) for name, mine in enumerate(accepted)))
        assert after_the_end == [(0, None)]
        by_place = dict(item for mine in accepted for item in mine)
        assert batch.record_count == len(batch.futures) == len(by_place) == sum(map(len, accepted))
        assert [future._index for future in batch.futures] == list(range(batch.record_count))
        if batch.record_count:
            write_header(batch.buffer, codec_id=0, record_count=batch.record_count,
                         base_timestamp=batch.base_timestamp, max_timestamp=batch.max_timestamp)
            (read,) = read_batches(batch.buffer)
            assert [record.value for record in read.records()] == [by_place[place] for place in sorted(by_place)]


def test_routes_when_they_are_renewed_while_others_look_then_nobody_finds_half_of_one() -> None:
    table = RouteTable()
    snapshots = [object() for _ in range(50)]
    is_over = threading.Event()

    def renew() -> None:
        try:
            for _ in range(40):
                for snapshot in snapshots:
                    table.renew(snapshot)
                    table.add(snapshot, "t", Route(3, MURMUR2, None, ()))
                    table.open_batch(snapshot, "t", 1, OpenBatch(Outcome(), 1 << 14))
                table.take_used()
                table.forget("t")
        finally:
            is_over.set()

    def look() -> None:
        while not is_over.is_set():
            route = table.routes.get("t")
            assert route is None or route.count == 3
            table.open_batch(table.cluster, "t", 2, OpenBatch(Outcome(), 1 << 14))
            table.take_used()

    run_all(renew, look, look)


def test_sticky_partition_when_threads_count_then_no_byte_is_lost() -> None:
    lock: Any = nullcontext() if hotpath.IMPL == "native" else threading.Lock()
    sticky = StickyPartition(1 << 60)
    sticky.switch_to(1)

    def count() -> None:
        for _ in range(5_000):
            with lock:
                sticky.add(1, 3, False)

    run_all(*[count] * THREADS)
    assert sticky.produced_bytes == 3 * 5_000 * THREADS


@pytest.mark.skipif(not hasattr(sys, "_is_gil_enabled") or hotpath.IMPL != "native",
                    reason="the compiled twin on a Python that may be without the GIL")
def test_gil_when_this_python_has_none_then_the_compiled_twin_does_not_bring_it_back() -> None:
    import subprocess
    import sysconfig
    if not sysconfig.get_config_var("Py_GIL_DISABLED"):
        pytest.skip("this Python has a GIL")
    code = ("import sys, pyproducer.hotpath as h; assert h.IMPL == 'native'; assert not sys._is_gil_enabled()")
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True, timeout=PROGRAM_S)
