"""From host names to addresses, beside the sender's thread, so that a slow name holds up nobody but its own broker.

    sender thread   lookup("slow", 9092) -> Lookup, no outcome ... turns for all others ... poll ends: outcome, connect
    lookup thread                           getaddrinfo .......................... outcome is set, wakeup

The operating system offers no call that can be polled. Each name that is asked for has a thread of its own while the
question lasts, and whoever asks for the same name meanwhile joins it. There is no bound on the threads but the number
of names: behind one, slow names would starve the others again. Nothing is cached: an answer belongs to those who hold
its Lookup.

Road:    Connections, metadata_updater -> [resolver] -> the system's resolver
Thread:  `lookup` and `canonical_names` are the sender's. A lookup's thread sets one field, once, and wakes the sender;
         so there is no lock, nothing that a forked child could find taken, and nobody ever waits for such a thread:
         it is a daemon, and what it finds after close() is dropped. Functions are any thread's.
Source:  Java ClientUtils.resolve, DefaultHostResolver, ClientDnsLookup (4.1); KIP-235, KIP-302, KIP-602. Differs from
         Java, whose one network thread resolves: there a slow name stops all brokers.
"""

from __future__ import annotations

import codecs
import socket
from collections.abc import Callable
from typing import Any, Generic, NamedTuple, TypeVar

from pyproducer.common.printable import LONGEST_NAME, printable
from pyproducer.common.sender_log import SenderLog, sender_log
from pyproducer.common.threads import StartThread, start_daemon

USE_ALL_DNS_IPS = "use_all_dns_ips"
RESOLVE_CANONICAL_BOOTSTRAP_SERVERS_ONLY = "resolve_canonical_bootstrap_servers_only"


class ResolvedAddress(NamedTuple):
    """One address of a host: the socket family, and what `socket.connect` takes."""

    family: int
    address: tuple[Any, ...]

    def with_port(self, port: int) -> ResolvedAddress:
        """Return the same address with another port."""
        return ResolvedAddress(self.family, (self.address[0], port, *self.address[2:]))


# What getaddrinfo looks up for every str, here and not at first use, in a thread: a fork in the middle of that import
# would leave a child in which no name and no address can be resolved any more, by anybody.
codecs.lookup("idna")

HostResolver = Callable[[str, int], "list[ResolvedAddress]"]
CanonicalNameResolver = Callable[[ResolvedAddress], "str | None"]


def resolve_literal(host: str, port: int) -> list[ResolvedAddress]:
    """Return the address that an IP literal names, without asking anybody; empty when the host is a name."""
    try:
        return _unique(socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST))
    except (OSError, UnicodeError):
        return []


def resolve_host(host: str, port: int) -> list[ResolvedAddress]:
    """Return all addresses of a host, at least one, IPv4 first, each once.

    Differs from Java, which keeps only the addresses of the first one's family: here IPv6 addresses follow, so that a
    host with both is reached while one family is broken.

    Raises:
        OSError: The name does not resolve (socket.gaierror). Not sent.
    """
    literal = resolve_literal(host, port)
    if literal:
        return literal
    try:
        resolved = _unique(socket.getaddrinfo(host, port, type=socket.SOCK_STREAM))
    except UnicodeError as cause:  # A label that is empty or too long fails in the idna codec, before any query.
        raise socket.gaierror(socket.EAI_NONAME, f"'{printable(host, LONGEST_NAME)}' is not a valid host name: "
                              f"{printable(str(cause))}") from cause
    if not resolved:
        raise socket.gaierror(socket.EAI_NONAME, f"'{printable(host, LONGEST_NAME)}' has no IPv4 or IPv6 address")
    return resolved


def _unique(found: list[tuple[Any, ...]]) -> list[ResolvedAddress]:
    unique = dict.fromkeys(ResolvedAddress(int(family), tuple(address)) for family, _, _, _, address in found
                           if family in (socket.AF_INET, socket.AF_INET6))
    return sorted(unique, key=lambda resolved: resolved.family != socket.AF_INET)


def canonical_name(resolved: ResolvedAddress) -> str | None:
    """Return the name that an address has in reverse DNS, or None when it has none."""
    try:
        return socket.getnameinfo(resolved.address, socket.NI_NAMEREQD)[0]
    except OSError:
        return None


def canonical_names(host: str, port: int, *, resolve: HostResolver = resolve_host,
                    name_of: CanonicalNameResolver = canonical_name) -> list[str]:
    """Return the canonical names of all addresses of a host (Kerberos needs those names).

    An address without a name in reverse DNS stays a literal address.

    Raises:
        OSError: The host does not resolve. Not sent.

    Source: Java ClientUtils.parseAndValidateAddresses with RESOLVE_CANONICAL_BOOTSTRAP_SERVERS_ONLY.
    """
    return [name_of(resolved) or str(resolved.address[0]) for resolved in resolve(host, port)]


_LOG: SenderLog = sender_log("pyproducer.client")
AnswerT = TypeVar("AnswerT")


class Lookup(Generic[AnswerT]):
    """A question to the system's resolver.

    Attributes:
        outcome: The answer, never empty, or why there is none; None as long as the question lasts.
    """

    __slots__ = ("outcome",)

    def __init__(self, outcome: list[AnswerT] | OSError | None = None) -> None:
        self.outcome: list[AnswerT] | OSError | None = outcome  # written once, by the lookup's thread


class ThreadedResolver:
    """Who is asked for names. Never blocks; the poll that sleeps ends when a lookup does.

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
        """Begin to resolve a host, or join the lookup of it that is under way. A literal address is known at once.

        Shape: the addresses have the port of whoever asked first; see `ResolvedAddress.with_port`.
        """
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
