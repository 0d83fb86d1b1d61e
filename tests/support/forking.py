"""A program that forks with a producer in hand: `python -m tests.support.forking SCENARIO BOOTSTRAP TOPIC [CA]`.

Each scenario forks where it hurts and prints, as JSON, the payloads that must be in the log, each once. A child that
does what it must not, or hangs, ends by a signal or with another exit code than 0, and so does the program.

Source:  ours.
"""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import os
import random
import signal
import sys
import threading
import time
from collections.abc import Callable
from typing import Any, NoReturn

from pyproducer import DeliverySummary, ForkedProducerError, IllegalStateError, KafkaProducer, ProducerClosedError
from pyproducer.aio import AsyncKafkaProducer
from tests.support.patience import GIVE_UP_S

TOPIC = sys.argv[3] if len(sys.argv) > 3 else ""
CHILD_ALARM_S = int(2 * GIVE_UP_S)
REBUILD: dict[str, object] = {"pyproducer.fork": "rebuild", "linger.ms": 0}


def connect(**props: object) -> KafkaProducer:
    tls: dict[str, object] = {} if len(sys.argv) < 5 else {"security.protocol": "SSL",
                                                           "ssl.truststore.location": sys.argv[4],
                                                           "ssl.truststore.type": "PEM"}
    return KafkaProducer({"bootstrap.servers": sys.argv[2], **REBUILD, **tls, **props})


def store(producer: KafkaProducer, value: bytes | str) -> None:
    assert producer.send(TOPIC, value, partition=0).result(GIVE_UP_S).offset >= 0


def expect(error: type[BaseException], call: Callable[[], object]) -> None:
    try:
        call()
    except error:
        return
    raise AssertionError(f"no {error.__name__}")


def fork(run: Callable[[], object]) -> int:
    """Run something in a child, which ends there; return its pid."""
    child = os.fork()
    if not child:
        end_child(run)
    return child


def end_child(run: Callable[[], object]) -> NoReturn:
    signal.alarm(CHILD_ALARM_S)
    code = 1
    try:
        run()
        code = 0
    except BaseException:
        sys.excepthook(*sys.exc_info())  # type: ignore[arg-type]
    finally:
        sys.stderr.flush()
        os._exit(code)


def reap(child: int) -> None:
    _, status = os.waitpid(child, 0)
    assert status == 0, f"the child ended with {os.waitstatus_to_exitcode(status)}"


def connections(producer: KafkaProducer) -> list[Any]:
    return producer._runtime.wire.client._selector.channels()  # type: ignore[attr-defined]


def generations() -> list[bytes]:
    """The child, its child, and what is on its way in the parent meanwhile."""
    producer = connect(**{"client.id": "the one"})
    store(producer, b"parent")
    before = connections(producer)
    pending = [producer.send(TOPIC, b"pending %d" % number, partition=0) for number in range(50)]
    old = pending[0]

    def grandchild() -> None:
        store(producer, b"grandchild")
        producer.send(TOPIC, b"grandchild's last", partition=0)
        producer.close()
        expect(ProducerClosedError, lambda: producer.send(TOPIC, b"never"))

    def child() -> None:
        for call in (old.result, lambda: old.add_done_callback(id)):
            if not old.done():
                expect(ForkedProducerError, call)
        assert producer.client_id == "the one"
        store(producer, b"child")
        assert len(producer.partitions_for(TOPIC)) == 1
        late = producer.send_batch(TOPIC, [b"child's rows"], partitions=[0])
        last = producer.send(TOPIC, b"child's last", partition=0)
        reap(fork(grandchild))
        assert len(late.result(GIVE_UP_S)) == 1
        assert last.result(GIVE_UP_S).offset >= 0
        producer.flush(GIVE_UP_S)
        producer.close()

    reap(fork(child))
    store(producer, b"parent again")
    assert [future.result(GIVE_UP_S).offset >= 0 for future in pending] == [True] * 50
    assert connections(producer) == before, "the child left the parent's connections alone"
    producer.close()
    return [b"parent", *(b"pending %d" % number for number in range(50)), b"child", b"child's rows", b"child's last",
            b"grandchild", b"grandchild's last", b"parent again"]


def exits() -> list[bytes]:
    """The child ends as programs do, and nobody closes: what it accepted is sent at its exit, and no more than that."""
    producer = connect()
    store(producer, b"parent")
    child = os.fork()
    if not child:
        signal.alarm(CHILD_ALARM_S)
        producer.send(TOPIC, b"child", partition=0)
        sys.exit(0)
    reap(child)
    store(producer, b"parent again")
    producer.close()
    return [b"parent", b"child", b"parent again"]


def unused() -> list[bytes]:
    """Children that never use it, close it, or have it closed by a with block."""
    producer = connect(**{"interceptor.classes": [Parts()]})
    store(producer, b"parent")
    threads = threading.active_count()

    def close() -> None:
        with producer:
            pass
        producer.close()
        assert Parts.closed == 0, "it was not used here, so nothing of it is closed here"
        assert threading.active_count() == 1
        expect(ProducerClosedError, lambda: producer.send(TOPIC, b"never"))

    reap(fork(lambda: None))
    reap(fork(close))
    assert threading.active_count() == threads
    store(producer, b"parent again")
    producer.close()
    assert Parts.closed == 1
    return [b"parent", b"parent again"]


class Parts:
    """An interceptor that counts how often it was closed."""

    closed = 0

    def on_send(self, record: object) -> object:
        return record

    def close(self) -> None:
        Parts.closed += 1


def callback() -> list[bytes]:
    """A callback forks, sends in the child and comes back there: that child ends, its record is sent."""
    producer = connect(**{"linger.ms": 200})
    store(producer, b"parent")
    children: list[int] = []
    told: list[int] = []

    def fork_here(_metadata: object, _exception: object) -> None:
        child = os.fork()
        if child:
            children.append(child)
            return
        signal.alarm(CHILD_ALARM_S)
        producer.send(TOPIC, b"child", partition=0)

    def beside(_metadata: object, _exception: object) -> None:
        told.append(1)
        if len(children) == 0 or os.getpid() != parent:
            os._exit(3)  # the parent's record, told in the child

    parent = os.getpid()
    futures = [producer.send(TOPIC, b"forks", partition=0, on_completion=fork_here)]
    futures += [producer.send(TOPIC, b"beside %d" % number, partition=0, on_completion=beside) for number in range(5)]
    for future in futures:
        assert future.result(GIVE_UP_S).offset >= 0
    reap(children[0])
    assert len(told) == 5
    store(producer, b"parent again")
    producer.close()
    return [b"parent", b"forks", *(b"beside %d" % number for number in range(5)), b"child", b"parent again"]


def thread() -> list[bytes]:
    """Another thread than the main one forks, while others send."""
    producer = connect()
    store(producer, b"parent")
    is_over = threading.Event()
    sent: list[bytes] = []
    failures: list[BaseException] = []

    def send_on() -> None:
        while not is_over.is_set():
            value = b"beside %d" % len(sent)
            producer.send(TOPIC, value, partition=0)
            sent.append(value)
            time.sleep(0.0005)

    def fork_often() -> None:
        try:
            for number in range(10):
                value = b"child %d" % number
                reap(fork(lambda value=value: (store(producer, value), producer.close())))  # type: ignore[misc]
        except BaseException as error:
            failures.append(error)

    sending, forking = threading.Thread(target=send_on), threading.Thread(target=fork_often)
    sending.start()
    forking.start()
    forking.join()
    is_over.set()
    sending.join()
    assert failures == []
    producer.close()
    return [b"parent", *sent, *(b"child %d" % number for number in range(10))]


def handler() -> list[bytes]:
    """A signal's handler forks at any line of send(), result() and flush(); the child comes back into the middle."""
    producer = connect(**{"buffer.memory": 100_000, "batch.size": 2000})
    store(producer, b"parent")
    parent = os.getpid()
    children: list[int] = []
    sent: list[bytes] = []
    told = os.pipe()

    def fork_here(_number: int, _frame: object) -> None:
        child = os.fork()
        if child:
            children.append(child)
            return
        signal.alarm(CHILD_ALARM_S)
        if random.random() < 0.5:
            store(producer, b"handler %d" % len(children))
        else:
            store(producer, b"later %d" % len(children))

    signal.signal(signal.SIGUSR1, fork_here)

    def ring() -> None:
        while len(children) < 40:
            time.sleep(random.uniform(0.001, 0.01))
            count = len(children)
            os.kill(parent, signal.SIGUSR1)
            while len(children) == count and not is_over.is_set():
                time.sleep(0.001)

    is_over = threading.Event()
    ringing = threading.Thread(target=ring, daemon=True)
    ringing.start()

    def goes_on() -> None:
        """What the main program does; in the child whatever was begun before is refused there, and nothing hangs."""
        number = 0
        while len(children) < 40 and os.getpid() == parent:
            value = b"main %d" % number
            number += 1
            future = producer.send(TOPIC, value, partition=0)
            if os.getpid() == parent:
                sent.append(value)
            elif future._result._life is producer._runtime.life:
                # The fork came at the very entry of send(), before that had asked whose producer it is: then there are
                # two calls, and the child's is like any other of its.
                os.write(told[1], value + b"\n")
            if number % 3 == 0:
                future.result(GIVE_UP_S)
            if number % 50 == 0:
                producer.flush(GIVE_UP_S)

    try:
        goes_on()
    except ForkedProducerError:
        if os.getpid() == parent:
            raise
    if os.getpid() != parent:
        end_child(lambda: (store(producer, b"child %d" % len(children)), producer.close()))
    is_over.set()
    for child in children:
        reap(child)
    producer.close()
    os.close(told[1])
    with os.fdopen(told[0], "rb") as heard:
        of_children = heard.read().splitlines()
    return [b"parent", *sent, *of_children, *(b"child %d" % number for number in range(40))]


def rows() -> list[bytes]:
    """A signal's handler forks while the main program waits for a send_batch, whose rows go one by one."""
    producer = KafkaProducer({"bootstrap.servers": sys.argv[2], **REBUILD, "linger.ms": 2000, "max.block.ms": 2000},
                             value_serializer="string")
    parent = os.getpid()
    children: list[int] = []

    def fork_here(_number: int, _frame: object) -> None:
        child = os.fork()
        if child:
            children.append(child)
        else:
            signal.alarm(CHILD_ALARM_S)

    signal.signal(signal.SIGUSR1, fork_here)
    store(producer, "parent")
    for partition in (0, 99):  # in a batch that lingers; in the waiting room
        future = producer.send_batch(TOPIC, ["row"], partitions=[partition])
        threading.Timer(0.2, os.kill, (parent, signal.SIGUSR1)).start()
        try:
            assert bool(future.result().errors) == (partition == 99)
        except ForkedProducerError:
            if os.getpid() == parent:
                raise
        if os.getpid() != parent:
            expect(ForkedProducerError, future.result)
            end_child(producer.close)
    for child in children:
        reap(child)
    producer.close()
    return [b"parent", b"row"]


def closing() -> list[bytes]:
    """A producer that is closing, closed or dead stays so in the child."""
    closed, slow = connect(), connect(**{"linger.ms": 2000, "request.timeout.ms": 10_000})
    store(closed, b"parent")
    closed.close()
    slow.partitions_for(TOPIC)
    slow.send(TOPIC, b"slow", partition=0)
    slow._runtime.begin_close("the test", None)
    for producer in (closed, slow):
        reap(fork(lambda producer=producer: (  # type: ignore[misc]
            expect(ProducerClosedError, lambda: producer.send(TOPIC, b"never")), producer.close())))
    slow.close()
    return [b"parent", b"slow"]


def locks() -> list[bytes]:
    """Other threads held every lock that there is when the process was forked."""
    producer = connect(**{"partitioner.class": "uniform_sticky"})
    store(producer, b"parent")
    producer.send(TOPIC, b"sticky").result(GIVE_UP_S)
    runtime = producer._runtime
    accumulator = runtime.accumulator
    held = [*(partition.lock for partition in accumulator._partitions.values()), accumulator.waiting.lock,
            accumulator.pool.lock, runtime.metadata._lock, runtime.life._lock,
            *(built_in._lock for built_in in runtime.record_sender.partitioning.partitioner._by_topic.values())]  # type: ignore[attr-defined]
    are_held, may_go = threading.Event(), threading.Event()

    def hold() -> None:
        for lock in held:
            lock.acquire()
        are_held.set()
        may_go.wait()
        for lock in held:
            lock.release()

    holding = threading.Thread(target=hold)
    holding.start()
    are_held.wait()

    def child() -> None:
        for lock in held:
            assert lock.acquire(blocking=False), "nobody has it here"
            lock.release()
        store(producer, b"child")
        producer.close()

    forked = fork(child)
    may_go.set()
    holding.join()
    reap(forked)
    store(producer, b"parent again")
    producer.close()
    return [b"parent", b"sticky", b"child", b"parent again"]


def use_in_child(value: bytes) -> None:
    store(SHARED[0], value)
    SHARED[0].flush(GIVE_UP_S)


SHARED: list[KafkaProducer] = []


def pool() -> list[bytes]:
    """multiprocessing's pool, and its processes."""
    SHARED.append(connect())
    store(SHARED[0], b"parent")
    forks = multiprocessing.get_context("fork")
    with forks.Pool(3) as workers:
        workers.map(use_in_child, [b"task %d" % number for number in range(30)])
        workers.close()
        workers.join()
    process = forks.Process(target=use_in_child, args=(b"process",))
    process.start()
    process.join()
    assert process.exitcode == 0
    store(SHARED[0], b"parent again")
    SHARED[0].close()
    return [b"parent", *(b"task %d" % number for number in range(30)), b"process", b"parent again"]


def event_loop() -> list[bytes]:
    """A child of a running loop is in no loop; one of a process that has used none yet begins a loop of its own."""
    own, unused = (AsyncKafkaProducer({"bootstrap.servers": sys.argv[2], "linger.ms": 0, "pyproducer.fork": mode})
                   for mode in ("refuse", "rebuild"))

    def in_child() -> None:
        expect(ForkedProducerError, lambda: own.send_nowait(TOPIC, b"never"))
        expect(RuntimeError, lambda: unused.send_nowait(TOPIC, b"never"))
        assert asyncio.run(own.close()) == DeliverySummary()

    def child_that_closes() -> None:
        for producer, error in ((own, ForkedProducerError), (unused, ProducerClosedError)):
            assert asyncio.run(producer.close()) == DeliverySummary()
            expect(error, lambda: asyncio.run(producer.send(TOPIC, b"never")))  # noqa: B023 - it is called at once
        assert threading.active_count() == 1, "nothing is made anew to be closed"

    async def child_of_its_own() -> None:
        async with unused:
            await unused.send(TOPIC, b"child", partition=0)
            assert (await unused.send_nowait(TOPIC, b"child's last", partition=0)).offset >= 0

    async def main() -> None:
        async with own:
            await own.send(TOPIC, b"parent", partition=0)
            future = own.send_nowait(TOPIC, b"parent's last", partition=0)
            reap(fork(in_child))
            assert (await future).offset >= 0

    reap(fork(child_that_closes))
    reap(fork(lambda: asyncio.run(child_of_its_own())))
    asyncio.run(main())
    return [b"child", b"child's last", b"parent", b"parent's last"]


def event_loop_before() -> list[bytes]:
    """What the parent's loop has used belongs to no loop in a child, whose first one may have it."""
    producer = AsyncKafkaProducer({"bootstrap.servers": sys.argv[2], **REBUILD})

    async def send(value: bytes) -> None:
        await producer.send(TOPIC, value, partition=0)
        assert (await producer.send_nowait(TOPIC, value + b" again", partition=0)).offset >= 0

    async def in_child() -> None:
        async with producer:
            await send(b"child")

    def child() -> None:
        asyncio.run(in_child())
        expect(IllegalStateError, lambda: asyncio.run(send(b"never")))

    async def main() -> None:
        async with producer:
            await send(b"parent")
            await asyncio.get_running_loop().run_in_executor(None, lambda: reap(fork(child)))
            await send(b"parent at last")

    asyncio.run(main())
    return [value + end for value in (b"parent", b"child", b"parent at last") for end in (b"", b" again")]


SCENARIOS = {run.__name__: run for run in (generations, exits, unused, callback, thread, handler, rows, closing, locks,
                                        pool, event_loop, event_loop_before)}

if __name__ == "__main__":
    print(json.dumps([value.decode() for value in SCENARIOS[sys.argv[1]]()]))
