"""What a producer has around it: time, chance, threads, locks, names and sockets.

A test or a simulation gives others, and then nothing of a producer happens that it did not decide.

Road:    beside it: wiring hands each part what it uses of this.
Thread:  a value; what it makes belongs to whom it is made for.
Source:  ours; Java has Time and KafkaClient as arguments of its constructors, for its tests.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING, Protocol

from pyproducer.client.resolver import ThreadedResolver
from pyproducer.common.clock import Clock, SystemClock
from pyproducer.common.threads import StartThread, start_daemon
from pyproducer.common.waiting import SYSTEM_LOCKS, Locks
from pyproducer.network.selector import Selector
from pyproducer.network.wakeup import Wakeup

if TYPE_CHECKING:
    from pyproducer.network.channel_builder import ChannelBuilder


class MakeSelector(Protocol):
    """Makes the selector of each client; see network.Selector."""

    def __call__(self, *, max_receive_size_bytes: int | None, connections_max_idle_ms: int,
                 channel_builder: ChannelBuilder, wakeup: Wakeup) -> Selector:
        """Return one without connections, whose poll ends when `wakeup` says so."""


class Surroundings:
    """Those of one producer; unless given, the real ones.

    Attributes:
        clock: Tells the time, and is where callers sleep.
        random: Jitter, which node is asked, which partition comes first. No secret is drawn from it.
        locks: Makes the locks and the cells in which callers wait.
        start_thread: Starts the sender's thread and those that look names up.
        make_wakeup: Makes what ends the sender's sleep.
        make_selector: Makes the sockets of each client.
        make_resolver: Makes who is asked for names, of what wakes the sender and of `start_thread`.
    """

    def __init__(self, *, clock: Clock | None = None, random: Random | None = None, locks: Locks = SYSTEM_LOCKS,
                 start_thread: StartThread = start_daemon, make_wakeup: Callable[[], Wakeup] = Wakeup,
                 make_selector: MakeSelector = Selector,
                 make_resolver: Callable[[Callable[[], None], StartThread], ThreadedResolver] = (
                     lambda wakeup, start_thread: ThreadedResolver(wakeup, start_thread=start_thread))) -> None:
        self.clock: Clock = SystemClock() if clock is None else clock
        self.random: Random = Random() if random is None else random
        self.locks: Locks = locks
        self.start_thread: StartThread = start_thread
        self.make_wakeup: Callable[[], Wakeup] = make_wakeup
        self.make_selector: MakeSelector = make_selector
        self.make_resolver: Callable[[Callable[[], None], StartThread], ThreadedResolver] = make_resolver

    def next_random(self) -> int:
        """Return a number from 0 to 2**31 - 1. Thread: any."""
        return self.random.getrandbits(31)
