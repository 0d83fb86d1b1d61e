"""Stands for the threads of lookups: each runs to its end when it is started, or when the test says so."""

from __future__ import annotations

from collections.abc import Callable


class SteppedThreads:
    """A `StartThread`.

    Attributes:
        held_hosts: Lookups of these begin and wait for `end_lookup`.
        names: Of all that were started.
        limit: How many may be started; RuntimeError beyond, as when the process has no more.
    """

    def __init__(self) -> None:
        self.held_hosts: set[str] = set()
        self.names: list[str] = []
        self.limit = 2**31
        self._waiting: dict[str, Callable[[], None]] = {}

    def __call__(self, run: Callable[[], None], name: str) -> None:
        if len(self.names) >= self.limit:
            raise RuntimeError("can't start new thread")
        self.names.append(name)
        host = name.rpartition(" ")[2]
        if host in self.held_hosts:
            assert host not in self._waiting, f"a second lookup of {host}"
            self._waiting[host] = run
        else:
            run()

    def end_lookup(self, host: str) -> None:
        """Let a lookup that waits run, and no further one of that host wait."""
        self.held_hosts.discard(host)
        self._waiting.pop(host)()

    def waiting_hosts(self) -> list[str]:
        """Return the hosts that are being looked up."""
        return list(self._waiting)
