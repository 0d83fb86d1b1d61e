"""The producers of this process: which there are, how they end with it, and what becomes of them in a forked child.

Road:    beside it.
Thread:  any; what a fork calls, and what the interpreter's exit calls, the main one as a rule.
Source:  ours; Java's producers end with their process, and no process forks there.
"""

from __future__ import annotations

import atexit
import logging
import os
import threading
import warnings
import weakref
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from pyproducer.accumulator.life import UNOWNED, Life, LifeState
from pyproducer.hotpath import Road
from pyproducer.producer.config import ProducerConfig
from pyproducer.producer.surroundings import Surroundings
from pyproducer.producer.wiring import ProducerRuntime, build_runtime

if TYPE_CHECKING:
    from pyproducer.producer.kafka_producer import KafkaProducer

log: logging.Logger = logging.getLogger(__name__)


# A producer that was dropped, or that lives at interpreter exit, gets this long to send what it accepted: long enough
# for a broker that answers, short enough that a program with a dead broker ends.
_EXIT_TIMEOUT_SECONDS = 10.0
# After a close that ran out of time the thread only has to leave one poll and to close its sockets. It takes longer
# when a callback or a part of the application's does.
_FORCED_CLOSE_SECONDS = 5.0

# Of all producers of this process whose sender thread may run. Of these, not of the producers: one that was dropped
# goes on sending for a while.
runtimes: dict[Life, ProducerRuntime] = {}
# The producers themselves, by the same lives, as long as somebody has them.
owners: dict[Life, weakref.ref[KafkaProducer[Any, Any]]] = {}
# Whose numbers readers see, and under which name: all of the above, and those that died, until they are closed or
# dropped, for who watches them looks once in a while. The name is chosen once: where it was counted anew at each look,
# the end of one producer made another's series go on in its own, lower or higher than it was. Changed in single steps.
shown: dict[str, weakref.ref[ProducerRuntime]] = {}
# All lives that anybody has, those that are over, too: futures ask for their locks. Changed in single steps.
_lives: set[weakref.ref[Life]] = {weakref.ref(UNOWNED)}
_fork_count = 0  # of this process and its parents, as far as they had this module
# Held while a producer of the parent is made anew; a child has its own. Reentrant only so that it can be asked who has
# it: a signal's handler may send in the middle.
rebuilding: threading.RLock = threading.RLock()


def build(config: ProducerConfig, key_serializer: object, value_serializer: object,
           surroundings: Surroundings | None, name: str | None = None) -> ProducerRuntime:
    """Make the parts of a producer of this process, and of no other, and know of them."""
    while True:
        fork_count = _fork_count
        runtime = build_runtime(config, key_serializer, value_serializer, forget, surroundings, name=name,
                                on_end_in_child=close_all_at_exit)
        _lives.add(weakref.ref(runtime.life, _lives.discard))
        runtimes[runtime.life] = runtime
        show(runtime)
        if _fork_count == fork_count:
            return runtime
        # A signal's handler forked in the middle, and this is the child: descriptors are shared with the parent's.
        forget(runtime.life)
        runtime.wire.abandon()


def show(runtime: ProducerRuntime) -> None:
    """Have readers see the numbers of a producer: under its client.id, or with a number behind that: "app#2"."""
    client_id = name = runtime.registry.client_id
    number = 1

    def on_gone(gone: weakref.ref[ProducerRuntime]) -> None:
        if shown.get(name) is gone:
            shown.pop(name, None)

    reference = weakref.ref(runtime, on_gone)
    while shown.setdefault(name, reference) is not reference:
        number += 1
        name = f"{client_id}#{number}"
    runtime.shown_as = name


def hide(runtime: ProducerRuntime) -> None:
    """Have readers see a producer's numbers no more; its name may be another's from now on. Again is no error."""
    reference = shown.get(runtime.shown_as)
    if reference is not None and reference() is runtime:
        shown.pop(runtime.shown_as, None)


def close_timeout_s(runtime: ProducerRuntime) -> float | None:
    """Return how long a close may take that was given no timeout, in seconds; None for no limit."""
    timeout_ms = runtime.config.pyproducer_close_timeout_ms
    return None if timeout_ms is None else timeout_ms / 1000


def _exit_timeout_s(runtime: ProducerRuntime) -> float:
    timeout_s = close_timeout_s(runtime)
    return _EXIT_TIMEOUT_SECONDS if timeout_s is None else min(timeout_s, _EXIT_TIMEOUT_SECONDS)


def await_end(runtime: ProducerRuntime, timeout: float | None) -> None:
    """Wait until the sender thread did its last act; it holds the deadline itself, and may be late by a callback."""
    if not runtime.life.await_end(None if timeout is None else timeout + _FORCED_CLOSE_SECONDS):
        log.warning("The sender thread of %s did not end within %s s after a forced close", runtime.life.client_id,
                    _FORCED_CLOSE_SECONDS)


def forget(life: Life) -> None:
    """The sender thread's very last act."""
    runtime = runtimes.pop(life, None)
    owners.pop(life, None)
    if runtime is not None and life.state is not LifeState.DEAD:
        hide(runtime)


def close_dropped(of: weakref.ref[ProducerRuntime]) -> None:
    """Close a producer whose last reference went: loudly, without losing its records, and without a wait for them.

    Weak, for who registers this is known to the interpreter as long as the producer lives: with the parts it would keep
    what the application gave them, a serializer for one, which may have the producer.
    """
    runtime = of()
    if runtime is None:
        return
    if runtime.life.is_open:
        count = runtime.accumulator.incomplete_record_count()
        runtime.begin_close("its last reference went", _exit_timeout_s(runtime))
        _warn_unclosed(runtime, count)
    elif runtime.life.state is LifeState.DEAD:
        hide(runtime)


def close_all_at_exit() -> None:
    """Close what nobody closed when the interpreter ends: the sender threads end with it."""
    left = list(runtimes.values())
    unclosed = [(runtime, runtime.accumulator.incomplete_record_count()) for runtime in left if runtime.life.is_open]
    for runtime in left:
        runtime.life.calls.run("close()", runtime.io_thread.close, "the interpreter ended", _exit_timeout_s(runtime))
    try:
        for runtime, count in unclosed:
            _warn_unclosed(runtime, count)
    finally:
        deadlines = [(runtime, runtime.clock.now_ms() + int(_exit_timeout_s(runtime) * 1000)) for runtime in left]
        for runtime, deadline_ms in deadlines:  # one for all: several that hang are waited for together
            await_end(runtime, (deadline_ms - runtime.clock.now_ms()) / 1000)


def _warn_unclosed(runtime: ProducerRuntime, count: int) -> None:
    """Say it when all that matters is done: with warnings as errors this raises."""
    warnings.warn(f"unclosed {runtime.life.client_id}: close() was not called, {count} records are on their way",
                  ResourceWarning, stacklevel=3)


def mark_forked() -> None:
    """In a child process: what the parent's producers consist of is unusable; those that were over stay what they were.

    The sender thread ends the life first, and then has it forgotten; close() may return, and its caller fork, between.
    The other way round a child that is forked between would neither know of the life nor find it over, and wait for it.
    """
    global _fork_count, rebuilding
    _fork_count += 1
    rebuilding = threading.RLock()
    left = {life: runtime for life, runtime in dict(runtimes).items() if not life.is_over}
    left_owners = dict(owners)
    runtimes.clear()
    owners.clear()
    shown.clear()
    for reference in list(_lives):
        life = reference()
        if life is None or life in left:
            continue
        life.release_locks_in_child()
        if life.is_over:
            life.end()  # whole: the thread that did so may have come to the middle
            life.wake_in_child()  # it may have had a cell in its hands
    for life, runtime in left.items():
        runtime.on_forked(partial(_successor, left_owners.get(life, _nobody), life))


def _successor(owner: Callable[[], KafkaProducer[Any, Any] | None], life: Life) -> Road:
    """Return the road of a producer that is made anew in a child process.

    Raises:
        IllegalStateError: It is closed here. Not sent.
        ConfigError: It cannot be made. Not sent.
    """
    producer = owner()
    runtime = None if producer is None else producer._present()
    if runtime is None or runtime.life is life:
        raise life.refusal()
    return runtime.record_sender.road


def _nobody() -> None:
    """The owner of a producer that was dropped."""


atexit.register(close_all_at_exit)
os.register_at_fork(after_in_child=mark_forked)
