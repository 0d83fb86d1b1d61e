"""The process forks while a producer is at work: by itself, and by a signal's handler in the middle of a call.

In the child no other thread runs, and nobody rings anybody: whoever would wait there for ever has found a bug. What is
handed over, is the parent's; the child hears at once that its producer is of no use, and keeps what was decided before.

    send(), flush(), partitions_for()    ForkedProducerError, and no record is sent
    result()                             what it was; or ForkedProducerError, of an outcome that is not known
    close()                              returns, and knows of no record
    the interrupted call                 one of these

The parent goes on as if nothing had happened.

Source:  ours.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn

from pyproducer import ForkedProducerError, ProducerClosedError, ProducerDeadError
from pyproducer.common.errors import NOT_SENT, UNKNOWN
from tests.simulation.schedule import Scheduler

if TYPE_CHECKING:
    from tests.simulation.workload import Sent

lines_of_child: Callable[[], Any] | None = None
"""Says which lines a child ran, where somebody measures that."""
lines_of_children: list[Any] = []
"""What children said of it."""

_MOST_LOOKED_AT = 8
_LONGEST_S = 60
_LONGEST_CPU_S = 5.0


class Forks:
    """Forks, and judges the child in the child.

    Args:
        complaints: Is told what children complain of.

    Attributes:
        count: How many children there were.
        is_child: Whether this is one.
    """

    def __init__(self, complaints: list[str]) -> None:
        self._complaints = complaints
        self.count = 0
        self.is_child = False
        self._to_parent = -1

    def fork(self) -> bool:
        """Fork; whether this is the child. In the parent it returns when that has ended."""
        from_child, self._to_parent = os.pipe()
        Scheduler.is_alone = True  # in the child, and nobody else goes on while there are two of us
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DeprecationWarning)  # several threads, one of which runs
                pid = os.fork()
        except BaseException:
            Scheduler.is_alone = False
            raise
        if not pid:
            signal.alarm(_LONGEST_S)  # whose signal ends it; and so does that of a circle
            signal.setitimer(signal.ITIMER_VIRTUAL, _LONGEST_CPU_S)
            os.close(from_child)
            self.is_child = True
            return True
        Scheduler.is_alone = False
        os.close(self._to_parent)
        self.count += 1
        self._hear(pid, from_child)
        return False

    def _hear(self, pid: int, from_child: int) -> None:
        with open(from_child, "rb") as told:
            said = told.read()
        _, status = os.waitpid(pid, 0)
        try:
            wrong, lines = json.loads(said)
        except ValueError:
            wrong, lines = [f"a child ended with status {status}, and said {said!r}"], None
        self._complaints += wrong
        if lines is not None:
            lines_of_children.append(lines)

    def end_child(self, producer: Any, records: list[Sent], wrong: list[str]) -> NoReturn:
        """Look at everything in the child, tell the parent, and end."""
        status = 70
        try:
            try:
                sys.settrace(None)  # of a swarm: nothing strikes who looks
                wrong += _look(producer, records)
            except BaseException as error:
                wrong.append(f"in a child {error!r} was raised")
            lines = None if lines_of_child is None else lines_of_child()
            with open(self._to_parent, "wb") as parent:
                parent.write(json.dumps([wrong, lines]).encode())
            status = 0
        finally:
            os._exit(status)


def _look(producer: Any, records: list[Sent]) -> list[str]:
    if not producer._runtime.life.is_forked:  # it was closed or dead before, and says so here, too
        is_told = isinstance(producer._runtime.life.refusal(), (ProducerClosedError, ProducerDeadError))
        return [] if is_told else ["a child has the producer"]
    wrong: list[str] = []

    def refuses(call: Callable[[], object], name: str, outcome: str) -> None:
        try:
            said = call()
        except ForkedProducerError as error:
            if error.outcome != outcome:
                wrong.append(f"in a child {name} raised {error!r} with outcome {error.outcome}")
        else:
            wrong.append(f"in a child {name} returned {said!r}")

    topic = records[-1].topic if records else "t0"
    refuses(lambda: producer.send(topic, b"of a child"), "send()", NOT_SENT)
    refuses(lambda: producer.send(topic, b"of a child", partition=0), "send()", NOT_SENT)
    refuses(lambda: producer.send_batch(topic, [b"of a child"]), "send_batch()", NOT_SENT)
    refuses(lambda: producer.partitions_for(topic), "partitions_for()", NOT_SENT)
    refuses(producer.flush, "flush()", UNKNOWN)
    for record in [record for record in reversed(records) if record.future is not None][:_MOST_LOOKED_AT]:
        future = record.future
        if future.done():
            future.exception(0)
            future.add_done_callback(lambda _future: None)
            continue
        refuses(lambda future=future: future.result(1), f"result() of {record}", UNKNOWN)
        refuses(lambda future=future: future.add_done_callback(print), f"a done callback of {record}", UNKNOWN)
        refuses(lambda future=future: future._state, f"the state of {record}", UNKNOWN)
    summary = producer.close()
    if summary.delivered or any(summary.failed.values()):
        wrong.append(f"in a child close() says {summary!r}")
    producer.close(1)
    producer.metrics()
    return wrong
