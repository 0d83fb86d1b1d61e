"""From an address to a connection that is ready for requests: names, TCP, TLS, SASL, ApiVersions, a line each.

Road:    examination -> [reach] -> BlockingClient -> Selector
Thread:  the main thread.
Source:  ours.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyproducer.cli.doctor.report import Report, Status
from pyproducer.client.failures import CONNECT, TLS, Failure
from pyproducer.client.resolver import RESOLVE_CANONICAL_BOOTSTRAP_SERVERS_ONLY, canonical_names, resolve_host
from pyproducer.common.cluster import address_text
from pyproducer.common.errors import (
    AuthenticationError,
    KafkaError,
    KafkaTimeoutError,
    TransportError,
    UnsupportedVersionError,
)
from pyproducer.network.ssl_transport import SslTransportLayer, TlsSession
from pyproducer.protocol.apis import ApiKeys

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyproducer.client.blocking_client import BlockingClient, Connection
    from pyproducer.client.resolver import ResolvedAddress
    from pyproducer.common.clock import Clock
    from pyproducer.producer.config import ProducerConfig

NAMES, TCP, TLS_STEP, SASL, API_VERSIONS = "names", "TCP", "TLS", "SASL", "ApiVersions"
_DAY_S = 24 * 60 * 60
_SOON_S = 30 * _DAY_S  # who renews once a month has the chance to do so

_CHANGES = {
    NAMES: "correct bootstrap.servers, /etc/hosts or the name servers of this machine",
    TCP: "correct host and port; see that the broker runs, and that no firewall is between",
    TLS_STEP: "",  # TLS failures say it themselves
    SASL: "correct sasl.mechanism and sasl.jaas.config, or the user's password or token on the broker",
    API_VERSIONS: "use the port of a Kafka listener, and the security.protocol that it has",
}
_SILENT_TLS = "see that this listener speaks TLS (security.protocol), and what is between that may hold packets back"
_ADVERTISED_CHANGES = {
    **_CHANGES,
    NAMES: "let advertised.listeners of the broker have a name that resolves here, or make this one resolve",
    TCP: "let advertised.listeners of the broker have an address that is reached from here",
}


class Reach:
    """Connects to brokers and writes what it finds into a report.

    Args:
        client: Connects.
        config: The producer's settings.
        clock: Read for times.
        report: Where the lines go.
    """

    def __init__(self, client: BlockingClient, config: ProducerConfig, clock: Clock, report: Report) -> None:
        self._client = client
        self._config = config
        self._clock = clock
        self._report = report
        protocol: str = config.security_protocol
        self._has_tls, self._has_sasl = protocol.endswith("SSL"), protocol.startswith("SASL_")

    def bootstrap(self, addresses: Sequence[tuple[str, int]]) -> Connection | None:
        """Connect to every bootstrap address, with a line for each step; return the first that can be used.

        What fails while another one can be used does not stop a producer, so it is a warning.
        """
        unknown = Report()
        if self._config.client_dns_lookup == RESOLVE_CANONICAL_BOOTSTRAP_SERVERS_ONLY:
            addresses = self._canonical(addresses, unknown)
        tried: list[tuple[Report, Connection | None]] = [(unknown, None)]
        is_only = len(addresses) + len(unknown.lines) == 1
        for host, port in addresses:
            found = self._report if is_only else Report()
            tried.append((found, self._reach(host, port, _CHANGES, found, is_advertised=False)))
        usable = [connection for _found, connection in tried if connection is not None]
        for found, _connection in tried:
            for line in found.lines if found is not self._report else ():
                status = Status.WARN if line.status is Status.FAIL and usable else line.status
                self._report.add(line.step, status, line.detail, line.change)
        return usable[0] if usable else None

    def _canonical(self, addresses: Sequence[tuple[str, int]], unknown: Report) -> list[tuple[str, int]]:
        """Return the canonical names of all addresses, each once; what does not resolve is told in `unknown`."""
        found: dict[tuple[str, int], None] = {}
        for host, port in addresses:
            where = address_text(host, port)
            try:
                names = dict.fromkeys(canonical_names(host, port, resolve=resolve_host))
            except OSError as error:
                self._tell_unknown(where, error, _CHANGES, unknown)
                continue
            self._report.ok(NAMES, f"{where}: by client.dns.lookup it is connected to as {', '.join(names)}")
            found.update(dict.fromkeys((name, port) for name in names))
        return list(found)

    def _tell_unknown(self, where: str, error: OSError, changes: dict[str, str], report: Report) -> None:
        report.fail(NAMES, f"{where}: the host name does not resolve ({error.strerror or error})", changes[NAMES])

    def advertised(self, step: str, host: str, port: int) -> Connection | None:
        """Connect to an address that a broker told, with one line for all steps."""
        where, found, began_ms = address_text(host, port), Report(), self._clock.now_ms()
        connection = self._reach(host, port, _ADVERTISED_CHANGES, found, is_advertised=True)
        told = {(line.step, line.detail) for line in self._report.lines}
        bad = [line for line in found.lines
               if line.status in (Status.FAIL, Status.WARN) and (line.step, line.detail) not in told]
        if connection is not None and not bad:
            self._report.ok(step, f"{where}: reached in {self._clock.now_ms() - began_ms} ms")
        for line in bad:
            self._report.add(step, line.status, f"{line.step}: {line.detail}", line.change)
        return connection

    def _reach(self, host: str, port: int, changes: dict[str, str], report: Report, *,
               is_advertised: bool) -> Connection | None:
        where = address_text(host, port)
        try:
            addresses = resolve_host(host, port)
        except OSError as error:
            self._tell_unknown(where, error, changes, report)
            return None
        report.ok(NAMES, f"{where}: {', '.join(str(each.address[0]) for each in addresses)}")
        connection_id = self._try_all(host, where, addresses, changes, report, is_advertised=is_advertised)
        if connection_id is None:
            return None
        channel = self._client.channel(connection_id)
        session = (channel.transport.session() if channel is not None
                   and isinstance(channel.transport, SslTransportLayer) else None)
        connection = self._negotiate(connection_id, where)
        if self._has_tls and isinstance(connection, AuthenticationError):
            # In TLS 1.3 a server looks at our certificate when our half of the handshake is done.
            report.fail(TLS_STEP, f"{where}: {without_place(where, connection)}", changes[TLS_STEP])
            return None
        if session is not None:
            self._on_session(where, session, report)
        elif not self._has_tls:
            report.skip(TLS_STEP, f"{where}: security.protocol is {self._config.security_protocol}")
        if self._has_sasl:
            report.ok(SASL, f"{where}: {self._config.sasl_mechanism}")
        else:
            report.skip(SASL, f"{where}: security.protocol is {self._config.security_protocol}")
        return self._versions(connection, where, changes, report)

    def _try_all(self, host: str, where: str, addresses: Sequence[ResolvedAddress], changes: dict[str, str],
                 report: Report, *, is_advertised: bool) -> str | None:
        """Return the connection to the first address that works; the failures of those before it are warnings."""
        failures: list[Failure] = []
        connection_id = None
        for address in addresses:
            attempt = self._client.attempt(host, where, address, is_advertised=is_advertised)
            if attempt.failure is None:
                connection_id = attempt.connection_id
                break
            failures.append(attempt.failure)
        status = Status.FAIL if connection_id is None else Status.WARN
        for failure in failures if connection_id is not None else failures[-1:]:
            step = TCP if failure.phase == CONNECT else TLS_STEP if failure.phase == TLS else SASL
            if step != TCP and connection_id is None:
                report.ok(TCP, f"{where}: connected")
                if step == SASL and self._has_tls:
                    report.ok(TLS_STEP, f"{where}: the handshake is done")
            report.add(step, status, f"{where}: {failure.text}", _change(step, failure.error, changes))
        if connection_id is not None:
            report.ok(TCP, f"{where}: connected")
        return connection_id

    def _on_session(self, where: str, session: TlsSession, report: Report) -> None:
        detail = f"{where}: {session.version}, {session.cipher}"
        if not session.path:
            report.ok(TLS_STEP, detail)
            return
        own = session.path[0]
        detail += f"; {own.subject}, signed by {own.issuer}, for {', '.join(own.names) or 'no host'}" + (
            f", until {own.not_after}" if own.not_after else "")
        now_s = self._clock.timestamp_ms() // 1000
        ending = min((one for one in session.path if one.not_after and one.ends_at_s - now_s < _SOON_S),
                     key=lambda one: one.ends_at_s, default=None)
        if ending is not None:
            days = (ending.ends_at_s - now_s) // _DAY_S
            report.warn(TLS_STEP, f"{detail}: the certificate of {ending.subject} ends in {days} days",
                        "renew it on the broker before that" if ending is own else
                        "have this authority's renewed before that, for the broker and for ssl.truststore.location")
        if not session.checks_name:
            report.warn(TLS_STEP, f"{detail if ending is None else where}; the name in it is not checked",
                        "leave out ssl.endpoint.identification.algorithm: without it anybody with a certificate of "
                        "this authority may be in between")
        elif ending is None:
            report.ok(TLS_STEP, detail)

    def _negotiate(self, connection_id: str, where: str) -> Connection | KafkaError:
        try:
            return self._client.negotiate(connection_id, where)
        except KafkaError as error:
            return error

    def _versions(self, connection: Connection | KafkaError, where: str, changes: dict[str, str],
                  report: Report) -> Connection | None:
        try:
            if isinstance(connection, KafkaError):
                raise connection
            needed = [ApiKeys.METADATA, ApiKeys.PRODUCE]
            if self._config.enable_idempotence:
                needed.append(ApiKeys.INIT_PRODUCER_ID)
            found = {api_key: connection.versions.latest_usable_version(api_key) for api_key in needed}
        except UnsupportedVersionError as error:
            report.fail(API_VERSIONS, f"{where}: {error}", "use a broker or a version of pyproducer that fits")
            return None
        except KafkaError as error:
            report.fail(API_VERSIONS, f"{where}: {without_place(where, error)}", changes[API_VERSIONS])
            return None
        report.ok(API_VERSIONS, f"{where}: " + ", ".join(
            f"{api_key.title} v{version}" for api_key, version in found.items()))
        return connection


def _change(step: str, error: KafkaError, changes: dict[str, str]) -> str:
    """Return what to change where a connection did not come about."""
    if step == TLS_STEP and isinstance(error, KafkaTimeoutError):
        return _SILENT_TLS
    if step == SASL and type(error.__cause__) is TransportError:
        return "see the broker's log, and try again"
    if step == SASL and not isinstance(error, AuthenticationError):
        return changes[API_VERSIONS]  # nobody has looked at the credentials
    return changes[step]


def without_place(where: str, error: KafkaError) -> str:
    """Return what an error says behind the place, which the line has already."""
    return str(error).removeprefix(where).removeprefix(":").lstrip()
