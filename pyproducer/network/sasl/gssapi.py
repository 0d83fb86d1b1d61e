"""Kerberos: tickets, fetched and renewed beside the sender, and the client's half of the mechanism GSSAPI.

    client   token of the context (AP-REQ)              broker   its own (AP-REP); more of both, where the library wants
    client   nothing, when the context stands           broker   wrapped: layers that it offers, its largest message
    client   wrapped: no layer, no user but the ticket's

The package `gssapi` and MIT's or Heimdal's library under it do the work. A ticket for a broker is fetched by that
library when the first token for it is made. That is on the login's thread, before the connection is made; what follows
on the connection asks no KDC.

Road:    sasl.jaas.config, keytab or ticket cache -> [Ticket] -> GssapiSaslClient -> client authenticator
Thread:  TicketSource is the login's; a client is made on it and then belongs to the thread of the selector's poll.
Source:  RFC 4752 3.1, 3.3; Java KerberosLogin, SaslClientAuthenticator, Krb5LoginModule's options (4.1). Differs from
         Java: a ticket from a keytab is kept in memory and fetched anew at 80 % of its life; no password is asked for;
         no ticket is fetched on the sender's thread.
"""

from __future__ import annotations

import importlib.util
import itertools
import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn

from pyproducer.common.clock import Clock, SystemClock
from pyproducer.common.errors import AuthenticationError, ConfigError, KafkaError
from pyproducer.common.jaas import KERBEROS_MODULE, KEY, parse_jaas
from pyproducer.common.printable import printable
from pyproducer.common.sender_log import SenderLog, sender_log
from pyproducer.common.threads import StartThread, start_daemon
from pyproducer.network.sasl.mechanism import unavailable
from pyproducer.network.sasl.refreshing_login import RefreshingLogin, RefreshTimes

log: SenderLog = sender_log(__name__)

MECHANISM = "GSSAPI"
SERVICE_KEY = "sasl.kerberos.service.name"
_INSTALL = ("the package gssapi must be installed for it: pip install 'pyproducer[kerberos]', which needs a C compiler "
            "and Kerberos' headers (Debian: apt-get install gcc python3-dev libkrb5-dev)")
# RFC 4752 3.1: the layers, a bit each; the first means none.
_NO_LAYER = 1
_KINIT_TIMEOUT_S = 60
# MIT's minor codes of servers that are not there, and of clocks that differ (krb5.h).
_PASSING = frozenset({-1765328228, -1765328230, -1765328355})  # KDC_UNREACH, REALM_CANT_RESOLVE, SVC_UNAVAILABLE
_SKEW = frozenset({-1765328347, -1765328381})  # AP_ERR_SKEW, KDC_ERR_NEVER_VALID

_memory_caches = itertools.count(1)


@dataclass(frozen=True)
class Ticket:
    """A ticket-granting ticket, inside the library. It cannot be pickled.

    Attributes:
        expires_at_ms: When it ends, in ms since 1970; None for never.
        principal: Whose it is.
        credentials: gssapi's.
        started_at_ms: When it was fetched.
    """

    expires_at_ms: int | None
    principal: str
    credentials: Any = field(repr=False)
    started_at_ms: int | None = None

    def __reduce__(self) -> NoReturn:
        raise TypeError("a ticket cannot be pickled")


def gssapi_login(settings: Mapping[str, Any], *, clock: Clock | None = None,
                 start_thread: StartThread = start_daemon) -> RefreshingLogin[Ticket]:
    """Return the login of the mechanism GSSAPI.

    Args:
        settings: Parsed values under Java's keys.
        clock: Tells the time.
        start_thread: Starts the login's thread.

    Raises:
        ConfigError: gssapi is not installed, or settings and options say too little or contradict each other. Nothing
            was started.
    """
    text = settings[KEY]
    if not text:
        raise ConfigError("sasl.mechanism", MECHANISM, (
            "it is the default: set it to what the broker's listener has (PLAIN, SCRAM-SHA-512, OAUTHBEARER ...). "
            f'Kerberos needs {KEY}: {KERBEROS_MODULE} required useKeyTab=true keyTab="..." principal="...";, '
            f"or {KERBEROS_MODULE} required useTicketCache=true; for a ticket that kinit fetched"))
    if importlib.util.find_spec("gssapi") is None:
        raise ConfigError("sasl.mechanism", MECHANISM, _INSTALL)
    clock = clock or SystemClock()
    options = parse_jaas(text).options
    service = _service(settings, options)
    source = TicketSource(options, clock, kinit=settings["sasl.kerberos.kinit.cmd"])
    times = RefreshTimes(settings["sasl.kerberos.ticket.renew.window.factor"],
                         settings["sasl.kerberos.ticket.renew.jitter"],
                         settings["sasl.kerberos.min.time.before.relogin"], 0)
    return RefreshingLogin(
        MECHANISM, source.fetch, lambda ticket, host: GssapiSaslClient(ticket, service, host),
        f"the ticket {source.where}", prepares=True, times=times,
        retry_backoff_ms=settings["sasl.login.retry.backoff.ms"],
        retry_backoff_max_ms=settings["sasl.login.retry.backoff.max.ms"], clock=clock, start_thread=start_thread)


def _service(settings: Mapping[str, Any], options: Mapping[str, str]) -> str:
    names = {name for name in (settings[SERVICE_KEY], options.get("serviceName")) if name}
    if len(names) != 1:
        raise ConfigError(SERVICE_KEY, settings[SERVICE_KEY], (
            f"it contradicts the option serviceName of {KEY}" if names else
            "it is required: the first part of the brokers' principals, as in kafka/host@REALM"))
    return str(names.pop())


class TicketSource:
    """Fetches tickets by a keytab, or takes those that are in a cache.

    Args:
        options: Those of Krb5LoginModule in sasl.jaas.config.
        clock: Tells the time.
        kinit: The command that renews the ticket in a cache.

    Attributes:
        where: Where tickets come from, for messages.

    Raises:
        ConfigError: The options name neither. Nothing was started.
    """

    def __init__(self, options: Mapping[str, str], clock: Clock, *, kinit: str = "/usr/bin/kinit") -> None:
        def is_true(name: str) -> bool:
            return options.get(name, "").lower() == "true"

        self._clock = clock
        self._kinit = kinit
        self._principal = options.get("principal", "")
        self._keytab = options.get("keyTab", "").removeprefix("file:") if is_true("useKeyTab") else ""
        self._cache = options.get("ticketCache", "")
        self._has_fetched = False
        if is_true("useKeyTab"):
            if not self._keytab or not self._principal:
                raise ConfigError(KEY, None, "useKeyTab=true needs the options keyTab and principal")
            self.where: str = f"of {self._principal} by the keytab {self._keytab}"
        elif is_true("useTicketCache"):
            self.where = f"in the cache {self._cache or os.environ.get('KRB5CCNAME', 'of this user')}"
        else:
            raise ConfigError(KEY, None, "Kerberos' login needs useKeyTab=true with keyTab and principal, or "
                                         "useTicketCache=true: nobody is asked for a password")

    def fetch(self) -> Ticket:
        """Fetch a ticket by the keytab, or take the one in the cache, renewed where it can be.

        Raises:
            AuthenticationError: There is none, or it is refused. Not sent.
            TransportError: No KDC is reached; may pass. Not sent.
        """
        import gssapi

        if not self._keytab and self._has_fetched:
            self._renew_cache()
        self._has_fetched = True
        store: dict[bytes | str, bytes | str] = {}
        if self._keytab:
            if not os.access(self._keytab, os.R_OK):
                raise AuthenticationError(f"{KEY}: the keytab {self._keytab} cannot be read")
            # A cache of its own for each ticket: connections may hold the one before.
            store = {"client_keytab": self._keytab,
                     "ccache": f"MEMORY:pyproducer-{os.getpid()}-{next(_memory_caches)}"}
        elif self._cache:
            store = {"ccache": self._cache}
        try:
            name = gssapi.Name(self._principal, gssapi.NameType.kerberos_principal) if self._principal else None
            credentials = gssapi.Credentials(name=name, usage="initiate", store=store or None)
            # To look at them is what fetches them, here and not in the middle of an authentication.
            found = credentials.inquire(name=True, lifetime=True)
        except gssapi.exceptions.GSSError as error:
            raise failure_of(error, f"there is no ticket {self.where}") from None
        now_ms = self._clock.timestamp_ms()
        lifetime_s = found.lifetime
        return Ticket(None if lifetime_s is None else now_ms + int(lifetime_s) * 1000, str(found.name), credentials,
                      now_ms)

    def _renew_cache(self) -> None:
        """Have kinit renew the ticket, as Java does; where it cannot, what is in the cache counts: others renew it."""
        where = ["-c", self._cache] if self._cache else []
        try:
            ended = subprocess.run([self._kinit, "-R", *where], capture_output=True, text=True, check=False,
                                   timeout=_KINIT_TIMEOUT_S, stdin=subprocess.DEVNULL)
        except (OSError, subprocess.TimeoutExpired) as error:
            log.warning("%s -R failed: %s", self._kinit, printable(str(error)))
            return
        if ended.returncode:
            log.warning("%s -R failed: %s", self._kinit, printable(ended.stderr.strip()))


def failure_of(error: Any, what: str) -> KafkaError:
    """Return the error for one of the library's: a refusal, or one that may pass where a server is not there."""
    minor = int(error.min_code)
    minor -= (minor >> 31) << 32  # the library's numbers are negative, and come without their sign
    text = printable(str(error).replace("\n", " "))
    if minor in _PASSING:
        return unavailable(f"{what}: no KDC is reached ({text}): see krb5.conf")
    advice = ": compare this machine's clock with the KDC's" if minor in _SKEW else ""
    return AuthenticationError(f"{what}: {text}{advice}")


class GssapiSaslClient:
    """The client's half of GSSAPI; see SaslClient. To make one may ask a KDC; nothing else does.

    Args:
        ticket: Whose we are.
        service: The first part of the broker's principal.
        host: Its second part.

    Raises:
        AuthenticationError: There is no ticket for the broker. Not sent.
        TransportError: No KDC is reached; may pass. Not sent.
    """

    mechanism = MECHANISM

    def __init__(self, ticket: Ticket, service: str, host: str) -> None:
        import gssapi

        flags = gssapi.RequirementFlag.mutual_authentication | gssapi.RequirementFlag.integrity
        self._target = f"{service}@{host}"
        self._gss_error = gssapi.exceptions.GSSError
        self._principal = ticket.principal
        self._is_begun = False
        self.complete: bool = False
        try:
            self._context: Any = gssapi.SecurityContext(
                name=gssapi.Name(self._target, gssapi.NameType.hostbased_service), creds=ticket.credentials,
                mech=gssapi.MechType.kerberos, flags=flags, usage="initiate")
            self._first_token = bytes(self._context.step(None) or b"")
        except self._gss_error as error:
            raise self._failure(error) from None

    def evaluate_challenge(self, challenge: bytes) -> bytes | None:
        """Return the context's next token; nothing once it stands; then the choice of no layer.

        Raises:
            AuthenticationError: The broker is not who it should be, or offers layers only. Not sent.
        """
        if not self._is_begun:
            self._is_begun = True
            return self._first_token
        try:
            if not self._context.complete:
                return bytes(self._context.step(challenge) or b"")
            return self._choose_layer(challenge)
        except self._gss_error as error:
            raise self._failure(error) from None

    def _failure(self, error: Exception) -> KafkaError:
        return failure_of(error, f"GSSAPI, as {self._principal} with {self._target}")

    def _choose_layer(self, challenge: bytes) -> bytes:
        offer = bytes(self._context.unwrap(challenge).message)
        if len(offer) != 4:
            raise AuthenticationError(f"GSSAPI: {self._target} offers its layers in {len(offer)} bytes, not 4")
        if not offer[0] & _NO_LAYER:
            raise AuthenticationError(f"GSSAPI: {self._target} takes connections with a layer of Kerberos' own only; "
                                      "Kafka has none, use SASL_SSL to encrypt")
        # No largest message without a layer; and no other user than the ticket's.
        answer = bytes(self._context.wrap(bytes((_NO_LAYER, 0, 0, 0)), False).message)
        self.complete = True
        return answer
