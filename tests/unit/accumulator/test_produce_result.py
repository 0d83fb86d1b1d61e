"""Futures: results, errors, callbacks, awaiting, and moves at a split."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import gc
import threading
import time
import traceback
from array import array
from functools import partial

import pytest

from pyproducer.accumulator import delivery_tally
from pyproducer.accumulator.batch_future import BatchFuture
from pyproducer.accumulator.produce_result import RowCallback, failed_future, own_copy
from pyproducer.accumulator.producer_batch import ProducerBatch
from pyproducer.common.cluster import TopicPartition
from pyproducer.common.errors import DisconnectedError, KafkaTimeoutError, RecordTooLargeError
from pyproducer.common.loop_inbox import LoopInbox
from pyproducer.hotpath import Acknowledgement
from pyproducer.record.batch_reader import RecordBatch
from pyproducer.record.compression import compressor_for
from pyproducer.record.record_reader import decode_open_batch
from tests.support.patience import GIVE_UP_S

TP = TopicPartition("orders", 2)


def make_batch(count=3, callbacks=None):
    batch = ProducerBatch(TP, created_ms=0, write_limit_bytes=10_000, reserved_bytes=10_000)
    futures = [batch.open.try_append(1000 + i, b"k%d" % i, b"value%d" % i, (), callbacks[i] if callbacks else None)
               for i in range(count)]
    return batch, futures


def test_result_when_stored_gives_offset_timestamp_and_sizes_of_each_record():
    batch, futures = make_batch()
    assert not futures[1].done()
    batch.complete(40)
    assert [future.result(0) for future in futures] == [
        ("orders", 2, 40, 1000, 2, 6), ("orders", 2, 41, 1001, 2, 6), ("orders", 2, 42, 1002, 2, 6)]
    assert futures[1].exception(0) is None


def test_result_when_the_topic_uses_log_append_time_gives_the_brokers_timestamp():
    batch, futures = make_batch(1)
    batch.complete(7, 555)
    assert futures[0].result(0).timestamp == 555


def test_result_when_acks_is_0_has_no_offset():
    batch, futures = make_batch(2)
    batch.complete(-1)
    assert [future.result(0).offset for future in futures] == [-1, -1]
    assert not futures[0].result(0).has_offset


def test_own_copy_when_an_exception_cannot_be_copied_then_it_is_the_same():
    class Odd(Exception):
        def __init__(self, *, why):
            super().__init__("odd", why)

    odd = Odd(why=1)
    assert own_copy(odd) is odd


@pytest.mark.parametrize("cause", [None, LookupError("why")])
def test_result_when_failed_then_it_raises_an_own_copy_and_its_traceback_says_it_once(cause):
    """Each traceback had the error twice, the second time as the direct cause of itself."""
    batch, futures = make_batch(2)
    original = RecordTooLargeError("too large", code=10)
    original.__cause__ = cause
    batch.fail(lambda index: original)
    seen = []
    for future in futures:
        with pytest.raises(RecordTooLargeError, match="too large") as raised:
            future.result(0)
        seen.append(raised.value)
        assert raised.value.__cause__ is cause
        assert "".join(traceback.format_exception(raised.value)).count("too large") == 1
        assert raised.value is not original
    assert seen[0] is not seen[1]
    assert seen[0].code == 10


def test_result_when_not_done_times_out_and_says_the_record_is_on_its_way():
    _, futures = make_batch(1)
    with pytest.raises(KafkaTimeoutError, match="still on its way") as raised:
        futures[0].result(0.01)
    assert raised.value.phase == "future"
    assert raised.value.outcome == "unknown"


def test_result_when_another_thread_completes_wakes_the_waiter():
    batch, futures = make_batch(1)
    results = []
    thread = threading.Thread(target=lambda: results.append(futures[0].result(GIVE_UP_S)))
    thread.start()
    batch.complete(1)
    thread.join(GIVE_UP_S)
    assert results[0].offset == 1


def test_wait_for_the_first_exception_when_one_record_fails_then_the_others_are_not_waited_for():
    (stored_batch, [stored]), (failed_batch, [failed]) = make_batch(1), make_batch(1)
    found = []
    waiting = threading.Thread(
        target=lambda: found.append(concurrent.futures.wait([stored, failed], return_when="FIRST_EXCEPTION")))
    waiting.start()
    give_up_s = time.monotonic() + GIVE_UP_S
    while not (stored._waiters and failed._waiters):
        assert time.monotonic() < give_up_s, "the thread does not wait"
        time.sleep(0.001)
    [waiter] = failed._waiters
    failed_batch.fail(lambda index: DisconnectedError("gone"))
    is_told = waiter.event.is_set()
    stored_batch.complete(0)  # the thread ends now, if it did not before
    waiting.join()
    assert is_told
    assert failed in found[0].done


def test_callbacks_run_once_in_order_of_the_records_and_an_exception_stops_nobody(caplog):
    seen = []

    def second(metadata, exception):
        seen.append(("second", metadata.offset, exception))
        raise RuntimeError("the user's bug")

    batch, _ = make_batch(3, [lambda m, e: seen.append(("first", m.offset, e)), second,
                              lambda m, e: seen.append(("third", m.offset, e))])
    batch.complete(10)
    assert not batch.complete(99)
    assert seen == [("first", 10, None), ("second", 11, None), ("third", 12, None)]
    assert "on_completion of a record for orders-2 raised" in caplog.text


def test_callback_may_ask_its_own_future():
    futures = []
    seen = []
    batch, futures = make_batch(1, [lambda m, e: seen.append(futures[0].result(0))])
    batch.complete(3)
    assert seen[0].offset == 3


def test_done_callback_before_and_after_completion():
    batch, futures = make_batch(1)
    seen = []
    futures[0].add_done_callback(lambda future: seen.append(("before", future.result(0).offset)))
    batch.complete(4)
    futures[0].add_done_callback(lambda future: seen.append(("after", future.result(0).offset)))
    assert seen == [("before", 4), ("after", 4)]


def test_done_callbacks_when_they_are_run_again_then_nobody_is_told_twice():
    batch, (future,) = make_batch(1)
    seen = []
    future.add_done_callback(seen.append)
    batch.complete(4)
    batch.result.run_done_callbacks(future)
    assert seen == [future]


class Once:
    """Something of ours that has no memory, once, and is there then."""

    def __init__(self, monkeypatch, owner, name):
        self.count = 0
        real = getattr(owner, name)

        def call(*arguments):
            self.count += 1
            if self.count == 1:
                raise MemoryError
            return real(*arguments)
        monkeypatch.setattr(owner, name, call)


def tell_twice(batch, error):
    """End a batch in a turn that ends half way, and go on in the next one."""
    with pytest.raises(MemoryError):
        batch.complete(4) if error is None else batch.fail(lambda index: error)
    batch.resume()


def test_failed_record_when_its_look_is_interrupted_then_its_callbacks_are_told_in_the_next_turn(monkeypatch):
    """They were forgotten first: nobody was told any more, and an await never ended."""
    told = []
    batch, (future,) = make_batch(1, [lambda metadata, error: told.append(type(error))])
    future.add_done_callback(told.append)
    once = Once(monkeypatch, delivery_tally.DeliveryTally, "look")
    tell_twice(batch, DisconnectedError("gone"))
    assert told == [DisconnectedError, future]
    assert once.count == 3


@pytest.mark.parametrize("error", [None, DisconnectedError("gone")], ids=["stored", "failed"])
def test_await_when_the_loop_cannot_be_woken_then_it_is_in_the_next_turn(monkeypatch, error):
    """What our own callback raised was logged as the application's, and the await never ended."""
    told = []
    batch, (future,) = make_batch(1)

    async def main():
        future.add_done_callback(lambda _: told.append("before"))
        task = asyncio.ensure_future(awaiting())
        await asyncio.sleep(0)
        future.add_done_callback(lambda _: told.append("behind"))
        Once(monkeypatch, LoopInbox, "put")
        tell_twice(batch, error)
        return (await asyncio.gather(asyncio.wait_for(task, GIVE_UP_S), return_exceptions=True))[0]

    async def awaiting():
        return await future

    ended = asyncio.run(main())
    assert ended.offset == 4 if error is None else type(ended) is DisconnectedError
    assert told == ["before", "behind"]


class Waiter:
    """One of concurrent.futures.wait()'s, which counts how many futures it was told of."""

    def __init__(self, failures):
        self.failures = failures
        self.told = 0

    def add_result(self, future):
        if self.failures:
            self.failures -= 1
            raise MemoryError
        self.told += 1


def test_wait_for_several_when_one_cannot_be_told_then_each_is_told_once_in_the_next_turn():
    """Whoever waited was forgotten first. Told twice, one would think that two records are done."""
    batch, (future,) = make_batch(1)
    waiters = [Waiter(0), Waiter(1), Waiter(0)]
    future._waiters.extend(waiters)
    tell_twice(batch, None)
    assert [waiter.told for waiter in waiters] == [1, 1, 1]
    assert future._state == "FINISHED"


@pytest.mark.parametrize("error", [None, DisconnectedError("gone")], ids=["stored", "failed"])
def test_row_when_its_call_cannot_be_told_then_it_is_in_the_next_turn(monkeypatch, error):
    """What our own callback raised was logged as the application's, and the future of the call was never done."""
    heard, told = [], []
    future = BatchFuture("orders", array("i", [2] * 3), array("q", [1000] * 3))
    batch, _ = make_batch(3, [Acknowledgement(lambda metadata, _: heard.append(metadata), RowCallback(future, row))
                              for row in range(3)])
    future.on_handed_over()
    future.add_done_callback(told.append)
    Once(monkeypatch, BatchFuture, "_count_done")
    tell_twice(batch, error)
    assert told == [future]
    assert len(heard) == 3
    if error is None:
        assert list(future.result(0).offsets) == [4, 5, 6]
    else:
        assert list(future.result(0).errors) == [0, 1, 2]


def test_callback_when_interceptors_cannot_be_told_then_it_is_all_the_same(caplog):
    told = []

    def tell(*_):
        raise MemoryError

    batch, _ = make_batch(1, [Acknowledgement(tell, lambda metadata, error: told.append(metadata.offset))])
    batch.complete(4)
    assert told == [4]
    assert "MemoryError" in caplog.text


@pytest.mark.parametrize("fails", [False, True])
@pytest.mark.parametrize("start", range(20))
def test_callbacks_when_an_allocation_fails_then_each_is_called_once_all_the_same(fails, start, caplog):
    """The compiled twin forgot a callback before there was memory for its metadata."""
    testcapi = pytest.importorskip("_testcapi")
    told, kept = [0] * 4, [None] * 4

    def on_completion(metadata, error, index):
        kept[index] = metadata  # else the next one gets the same tuple
        told[index] += 1

    batch, _ = make_batch(4, [partial(on_completion, index=index) for index in range(4)])
    end = partial(batch.fail, lambda index: DisconnectedError("gone")) if fails else partial(batch.complete, 10**12)
    gc.disable()
    with contextlib.suppress(MemoryError):
        testcapi.set_nomemory(start, start + 1)
        try:
            end()
        finally:
            testcapi.remove_mem_hooks()
    gc.enable()
    if not batch.resume():
        end()
    raised_count = caplog.text.count("on_completion of a record for orders-2 raised")  # the callback itself had none
    assert sorted(told) == [0] * raised_count + [1] * (4 - raised_count)


def test_await_gives_the_metadata_or_raises():
    batch, futures = make_batch(1)
    failing, failing_futures = make_batch(1)

    async def main():
        loop = asyncio.get_running_loop()
        loop.call_later(0.01, batch.complete, 8)
        loop.call_later(0.01, failing.fail, lambda index: DisconnectedError("gone"))
        metadata = await futures[0]
        with pytest.raises(DisconnectedError, match="gone"):
            await failing_futures[0]
        return metadata

    assert asyncio.run(main()).offset == 8


def test_failed_future_is_done_and_its_callback_ran():
    seen = []
    error = KafkaTimeoutError("no metadata", phase="metadata")
    future = failed_future(TP, error, lambda m, e: seen.append((m, str(e))))
    assert future.done()
    assert seen == [(None, "no metadata")]
    with pytest.raises(KafkaTimeoutError):
        future.result()


def test_split_moves_the_futures_and_a_waiter_sees_the_new_outcome():
    batch = ProducerBatch(TP, created_ms=0, write_limit_bytes=10_000, reserved_bytes=999)
    futures = [batch.open.try_append(i, None, b"x" * 50, (("h", b"1"), ("h", None)), None) for i in range(20)]
    batch.seal()
    batch.close(compressor_for("gzip", None))
    batch.set_producer_state(5, 1, 100)
    waiter_result = []
    thread = threading.Thread(target=lambda: waiter_result.append(futures[19].result(GIVE_UP_S)))
    thread.start()
    batch.may_be_in_log = True
    parts = batch.parts = batch.split(400)
    are_in_doubt = [part.may_be_in_log for part in parts]
    assert not futures[0].done()
    for _ in range(2):
        batch.move_futures()
    assert len(parts) > 2
    assert sum(part.record_count for part in parts) == 20
    shares = [part.reserved_bytes for part in parts]
    assert sum(shares) == 999
    assert 0 < min(shares) <= max(shares) < min(shares) + len(parts)
    assert [part.base_sequence for part in parts] == [
        100 + sum(p.record_count for p in parts[:i]) for i in range(len(parts))]
    offset = 0
    for part in parts:
        part.complete(offset)
        offset += part.record_count
    thread.join(GIVE_UP_S)
    assert waiter_result[0].offset == 19
    assert [future.result(0).offset for future in futures] == list(range(20))
    assert all(are_in_doubt), "what may be in the log of the whole may be there of each part"


@pytest.mark.parametrize("how", ["stored", "failed"])
def test_batch_when_it_is_done_then_takes_no_record_any_more(how):
    batch, _ = make_batch(1)
    if how == "stored":
        batch.complete(1)
    else:
        batch.fail(lambda index: DisconnectedError("gone"))
    assert batch.open.try_append(1, None, b"late", (), None) is None


@pytest.mark.parametrize("how", ["stored", "failed"])
def test_batch_when_it_is_done_then_it_lets_go_of_its_futures(how):
    """The road holds the last batch of each partition, however long nothing is sent there."""
    batch, futures = make_batch(3)
    assert len(batch.open.futures) == 3
    if how == "stored":
        batch.complete(1)
    else:
        batch.fail(lambda index: DisconnectedError("gone"))
    assert batch.open.futures == []
    assert batch.future_count == 3
    assert all(future.done() for future in futures)


def test_split_when_the_new_size_changes_nothing_halves_instead():
    batch = ProducerBatch(TP, created_ms=0, write_limit_bytes=10_000, reserved_bytes=0)
    for i in range(4):
        batch.open.try_append(i, None, b"x" * 50, (), None)
    batch.seal()
    batch.close(compressor_for("none", None))
    batch.write_header()
    parts = batch.split(100_000)
    assert len(parts) >= 2


@pytest.mark.parametrize("codec", ["none", "gzip"])
def test_split_when_the_records_expand_beyond_what_is_read_of_others_then_they_are_split_all_the_same(
        monkeypatch, codec):
    """Two rows of 150 MiB each, 150 KB compressed, are above the limit for what a peer sends, which is laid on no batch
    of ours: the error ended each turn of the sender, and all records expired. The limit is made small here."""
    monkeypatch.setattr(RecordBatch.records, "__defaults__", (100,))
    batch = ProducerBatch(TP, created_ms=0, write_limit_bytes=10_000, reserved_bytes=0)
    for i in range(4):
        batch.open.try_append(i, b"k", b"x" * 50, (("h", b"1"), ("h", None)), None)
    batch.seal()
    batch.close(compressor_for(codec, None))
    parts = batch.split(200)
    assert len(parts) > 1
    found = [record for part in parts for record in decode_open_batch(part.open)]
    assert [(record.timestamp, record.key, record.value, record.headers) for record in found] == [
        (i, b"k", b"x" * 50, (("h", b"1"), ("h", None))) for i in range(4)]
