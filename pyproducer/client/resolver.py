"""Host names are resolved beside the sender's thread, so that a slow name holds up nobody but its own broker.

    sender thread   lookup("slow", 9092) -> Lookup, no outcome ... turns for all others ... poll ends: outcome, connect
    lookup thread                           getaddrinfo .......................... outcome is set, wakeup

Each name that is asked for has a thread of its own while the question lasts, and whoever asks for the same name
meanwhile joins it. There is no bound on the threads but the number of names: behind one, slow names would starve the
others again. Nothing is cached: an answer belongs to those who hold its Lookup.

Road:    Connections, metadata_updater -> [resolver] -> addresses
Thread:  `lookup` and `canonical_names` are the sender's. A lookup's thread sets one field, once, and wakes the sender;
         so there is no lock, nothing that a forked child could find taken, and nobody ever waits for such a thread:
         it is a daemon, and what it finds after close() is dropped.
Source:  ours. Differs from Java, whose one network thread resolves: there a slow name stops all brokers.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

from pyproducer.client.addresses import (
    CanonicalNameResolver,
    HostResolver,
    ResolvedAddress,
    canonical_name,
    canonical_names,
    resolve_host,
    resolve_literal,
)
from pyproducer.common.threads import StartThread, start_daemon

_LOG = logging.getLogger("pyproducer.client")
AnswerT = TypeVar("AnswerT")


class Lookup(Generic[AnswerT]):
    """A question to the system's resolver.

    Attributes:
        outcome: The answer, never empty, or why there is none; None as long as the question lasts.
    """

    __slots__ = ("outcome",)

    def __init__(self, outcome: list[AnswerT] | OSError | None = None) -> None:
        self.outcome = outcome  # written once, by the lookup's thread


class Resolver(Protocol):
    """Who is asked for names. Never blocks; the poll that sleeps ends when a lookup does."""

    def lookup(self, host: str, port: int) -> Lookup[ResolvedAddress]:
        """Begin to resolve a host, or join the lookup of it that is under way. A literal address is known at once.

        Shape: the addresses have the port of whoever asked first; see `ResolvedAddress.with_port`.
        """

    def canonical_names(self, host: str, port: int) -> Lookup[str]:
        """Begin to look for the names that a host's addresses have in reverse DNS, or join who does."""


class ThreadedResolver:
    """The `Resolver` of a producer.

    Args:
        wakeup: Ends the sender's poll; called from the lookup's thread.
        resolve: From a name to its addresses; may block.
        name_of: From an address to its name; may block.
        start_thread: Starts a thread for a function, with a name; another one in tests.
    """

    def __init__(self, wakeup: Callable[[], None], *, resolve: HostResolver = resolve_host,
                 name_of: CanonicalNameResolver = canonical_name,
                 start_thread: StartThread = start_daemon) -> None:
        self._wakeup = wakeup
        self._resolve = resolve
        self._name_of = name_of
        self._start_thread = start_thread
        # By host; both are the sender thread's, which forgets what has ended when it asks for something else.
        self._lookups: dict[str, Lookup[ResolvedAddress]] = {}
        self._canonical_lookups: dict[str, Lookup[str]] = {}

    def lookup(self, host: str, port: int) -> Lookup[ResolvedAddress]:
        """Begin to resolve a host, or join the lookup of it that is under way. A literal address is known at once."""
        literal = resolve_literal(host, port)
        if literal:
            return Lookup(literal)
        return self._ask(self._lookups, host, lambda: self._resolve(host, port))

    def canonical_names(self, host: str, port: int) -> Lookup[str]:
        """Begin to look for the names that a host's addresses have in reverse DNS, or join who does."""
        return self._ask(self._canonical_lookups, host, lambda: canonical_names(
            host, port, resolve=self._resolve, name_of=self._name_of))

    def _ask(self, under_way: dict[str, Lookup[AnswerT]], host: str,
             ask: Callable[[], list[AnswerT]]) -> Lookup[AnswerT]:
        for ended in [other for other, lookup in under_way.items() if lookup.outcome is not None]:
            del under_way[ended]
        joined = under_way.get(host)
        if joined is not None:
            return joined
        lookup: Lookup[AnswerT] = Lookup()
        try:
            self._start_thread(lambda: self._run(lookup, ask), f"kafka-producer-resolver | {host}")
            under_way[host] = lookup
        except RuntimeError as error:
            # The process has as many threads as it may have, or the interpreter shuts down: from Python 3.12 on close()
            # in an exit handler can start none, and it has records to send. Better that all brokers wait for this name.
            _LOG.debug("%s is resolved on the sender's thread: %s", host, error)
            self._run(lookup, ask)
        return lookup

    def _run(self, lookup: Lookup[AnswerT], ask: Callable[[], list[AnswerT]]) -> None:
        outcome: list[AnswerT] | OSError = OSError("the lookup was broken off")  # by what is told by nobody else
        try:
            outcome = ask()
        except OSError as error:
            outcome = error
        except (ValueError, OverflowError) as error:  # a name that cannot be asked for, such as one with a null byte
            outcome = OSError(f"{type(error).__name__}: {error}")
            outcome.__cause__ = error
        finally:
            lookup.outcome = outcome
            self._wakeup()
