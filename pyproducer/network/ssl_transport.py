"""TLS over one socket, without ever blocking; who the peer is by its certificate, and why a handshake failed.

    recv -> incoming BIO -> SSLObject -> read_into
    write_chunks -> SSLObject -> outgoing BIO -> pending -> send

    [size 4][header 60][batch 16 k][header 60][batch 16 k]  ->  16 k + 16 k + ...   never a record of four bytes

Road:    KafkaChannel -> [TLS transport] -> socket
Thread:  the thread that polls the selector.
Source:  Java SslTransportLayer (4.1), maybeThrowSslAuthenticationException for which failures count as authentication;
         RFC 2253, Java X500Principal.getName() for names: most specific part first, `CN=client,OU=team,O=org`; RFC 8446
         5.1: a record carries at most 2^14 bytes. Ours: over ssl.MemoryBIO, because one socket call then carries many
         records, the socket stays the selector's, and a peer that does not speak TLS is recognised by its first bytes.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, cast

from pyproducer.common.errors import AuthenticationError, DisconnectedError, TransportError
from pyproducer.common.printable import LONGEST_NAME, printable
from pyproducer.network.receive import guess_protocol, speaks_tls
from pyproducer.network.transport import END_OF_STREAM, Buffer, socket_address_text

_SHORT = {
    "commonName": "CN", "organizationalUnitName": "OU", "organizationName": "O", "localityName": "L",
    "stateOrProvinceName": "ST", "countryName": "C", "streetAddress": "STREET", "domainComponent": "DC",
    "userId": "UID",
}
_SPECIAL = frozenset(',+"\\<>;')


def distinguished_name(subject: Iterable[Iterable[tuple[str, str]]]) -> str:
    """Return the name of a subject as `ssl.SSLSocket.getpeercert` gives it."""
    parts = ["+".join(f"{_SHORT.get(key, key)}={_escape(value)}" for key, value in part) for part in subject]
    return ",".join(reversed(parts))


def _escape(value: str) -> str:
    text = "".join(f"\\{char}" if char in _SPECIAL else char for char in value)
    if text.startswith(("#", " ")):
        text = "\\" + text
    return text[:-1] + "\\ " if text.endswith(" ") and len(text) > 1 else text


RECORD_BYTES = 16 * 1024


def coalesce(chunks: Sequence[Buffer], max_total_bytes: int) -> Iterator[Buffer]:
    """Yield the bytes of the chunks, at most so many, in pieces that fill a record where they can.

    Shape: a long chunk is passed on in slices, uncopied; short ones are joined, together with the beginning of a long
    one behind them. Every piece but the last has exactly RECORD_BYTES.
    """
    joined = bytearray()
    left = max_total_bytes
    for chunk in chunks:
        view = memoryview(chunk)[:left]
        left -= len(view)
        position = 0
        if joined:
            position = min(RECORD_BYTES - len(joined), len(view))
            joined += view[:position]
            if len(joined) == RECORD_BYTES:
                yield joined
                joined = bytearray()
        while len(view) - position >= RECORD_BYTES:
            yield view[position:position + RECORD_BYTES]
            position += RECORD_BYTES
        if position < len(view):
            joined += view[position:]
        if not left:
            break
    if joined:
        yield joined


# OpenSSL's X509_V_ERR_* that a setting of ours can cure.
_VERIFY_HINTS = {
    10: "renew it, or check this machine's clock",
    18: "put it into ssl.truststore.location or ssl.truststore.certificates",
    19: "put the authority's certificate into ssl.truststore.location or ssl.truststore.certificates",
    20: "put the authority's certificate into ssl.truststore.location or ssl.truststore.certificates",
    62: "connect by a name that it shows, or set ssl.endpoint.identification.algorithm= (empty) to trust any name",
    64: "connect by a name that it shows, or set ssl.endpoint.identification.algorithm= (empty) to trust any name",
}
# Parts of OpenSSL's reason, which is the name of the alert that the peer sent, or of what we found.
_REASONS = (
    ("CERTIFICATE_REQUIRED", "the peer requires a certificate from us: set ssl.keystore.location or ssl.keystore.key"),
    ("PEER_DID_NOT_RETURN_A_CERTIFICATE", "the peer shows no certificate, and ssl.client.auth=required"),
    ("ALERT_UNKNOWN_CA", "the peer does not trust the authority that signed our certificate"),
    ("ALERT_BAD_CERTIFICATE", "the peer refuses our certificate, or requires one and got none"),
    ("ALERT_CERTIFICATE_EXPIRED", "the peer says that our certificate has expired"),
    ("ALERT_CERTIFICATE_REVOKED", "the peer says that our certificate is revoked"),
    ("ALERT_CERTIFICATE_UNKNOWN", "the peer does not accept our certificate"),
    ("ALERT_ACCESS_DENIED", "the peer denies us access"),
    ("ALERT_PROTOCOL_VERSION", "no TLS version in common with the peer: see ssl.enabled.protocols"),
    ("UNSUPPORTED_PROTOCOL", "no TLS version in common with the peer: see ssl.enabled.protocols"),
    ("NO_SHARED_CIPHER", "no cipher suite in common with the peer: see ssl.cipher.suites"),
    ("ALERT_HANDSHAKE_FAILURE", "the peer refuses: no cipher suite in common (ssl.cipher.suites), or it requires a "
                                "certificate from us (ssl.keystore.location)"),
    ("UNRECOGNIZED_NAME", "the peer does not know the host name that we asked for"),
    ("WRONG_VERSION_NUMBER", "the peer does not answer in TLS: its listener may be a plaintext one"),
    ("HTTP_REQUEST", "the peer sends plain HTTP"),
)


def _where(peer: str, server_hostname: str | None) -> str:
    if server_hostname is None or server_hostname in peer:
        return peer
    return f"{printable(server_hostname, LONGEST_NAME)} ({peer})"


def tls_failure(error: ssl.SSLError, *, peer: str, server_hostname: str | None) -> AuthenticationError:
    """Return the error for a failed handshake, or for a refusal that came after ours was done (TLS 1.3)."""
    where = _where(peer, server_hostname)
    if isinstance(error, ssl.SSLCertVerificationError):
        hint = _VERIFY_HINTS.get(error.verify_code)
        found = printable(error.verify_message.rstrip("."))  # it repeats the name that a broker told
        why = f"certificate verify failed: {found}" + (f" ({hint})" if hint else "")
    else:
        reason = error.reason or str(error)
        sentence = next((sentence for part, sentence in _REASONS if part in reason.upper()), None)
        why = reason if sentence is None else f"{sentence} ({reason})"
    return AuthenticationError(f"TLS handshake with {where} failed: {why}")


def not_tls(first_bytes: bytes, *, peer: str) -> AuthenticationError:
    """Return the error for a peer whose first bytes are no TLS record."""
    protocol = guess_protocol(first_bytes)
    speaks = "does not speak TLS" if protocol is None else f"seems to speak {protocol}, not TLS"
    return AuthenticationError(f"TLS handshake failed: the peer at {peer} {speaks}; it began with {first_bytes[:8]!r}")


def hung_up(*, peer: str, server_hostname: str | None, server_side: bool) -> DisconnectedError:
    """Return the error for a peer that closed the connection during the handshake."""
    hint = "" if server_side else ("; its listener may not speak TLS (security.protocol), or it requires a certificate "
                                   "from us (ssl.keystore.location)")
    return DisconnectedError(f"{_where(peer, server_hostname)} closed the connection during the TLS handshake{hint}")


# Four full records: what one recv usually brings, and what a channel with nothing to do does not keep.
READ_BYTES = 64 * 1024
# How much plaintext becomes ciphertext before the socket took the ciphertext before. The rest of a large frame stays
# where it is, uncopied, until a slow reader has taken this.
WRITE_AHEAD_BYTES = 256 * 1024


class SslTransportLayer:
    """A TLS connection.

    Args:
        sock: Non-blocking; may still be connecting.
        ssl_context: Certificates, trust, protocol versions.
        server_side: We answer the handshake.
        server_hostname: The name that the peer's certificate must show, when the context checks that.
    """

    __slots__ = ("_has_read", "_has_received", "_incoming", "_object", "_outgoing", "_peer", "_pending",
                 "_server_hostname", "_server_side", "has_pending_reads", "ready", "sock")

    def __init__(self, sock: socket.socket, ssl_context: ssl.SSLContext, *, server_side: bool,
                 server_hostname: str | None) -> None:
        self.sock = sock
        self.ready = False
        self.has_pending_reads = False
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._object = ssl_context.wrap_bio(self._incoming, self._outgoing, server_side=server_side,
                                            server_hostname=server_hostname)
        self._server_side = server_side
        self._server_hostname = server_hostname
        self._peer = ""
        self._pending = memoryview(b"")  # ciphertext that the socket did not take yet
        self._has_received = False  # anything at all
        self._has_read = False  # any plaintext

    @property
    def has_pending_writes(self) -> bool:
        """Whether ciphertext waits for the socket."""
        return len(self._pending) > 0 or self._outgoing.pending > 0

    @property
    def wants_write(self) -> bool:
        """Whether the handshake waits to write."""
        return self.has_pending_writes

    @property
    def principal_name(self) -> str | None:
        """Return the subject of a client's certificate, or None."""
        certificate: Mapping[str, Any] | None = (
            self._object.getpeercert() if self.ready and self._server_side else None)
        return distinguished_name(certificate["subject"]) if certificate and "subject" in certificate else None

    # ---- handshake

    def handshake(self) -> None:
        """Go on with the handshake; see TransportLayer."""
        if not self._peer:
            self._peer = socket_address_text(self.sock.getpeername())
        while True:
            try:
                self._object.do_handshake()
                break
            except ssl.SSLWantReadError:
                # A peer that has hung up may have said why: what it wrote is read before the broken pipe counts.
                self._flush_quietly()
                if not self._receive_handshake():
                    return
            except ssl.SSLError as error:
                self._flush_quietly()  # the alert: it tells the peer what we do not like
                raise self._failure(error) from error
        # The peer's first frame may have come together with its last word of the handshake.
        self.has_pending_reads = self._incoming.pending > 0
        self.ready = True
        self._flush_quietly()

    def _receive_handshake(self) -> bool:
        try:
            data = self.sock.recv(READ_BYTES)
        except BlockingIOError:
            return False
        if not data:
            raise hung_up(peer=self._peer, server_hostname=self._server_hostname, server_side=self._server_side)
        if not self._has_received and not speaks_tls(data):
            raise not_tls(data, peer=self._peer)
        self._has_received = True
        self._incoming.write(data)
        return True

    def _failure(self, error: ssl.SSLError) -> TransportError:
        return tls_failure(error, peer=self._peer, server_hostname=self._server_hostname)

    # ---- in

    def read_into(self, view: memoryview) -> int:
        """Read the rest of a record or the next one; see TransportLayer.

        Raises:
            AuthenticationError: The peer's refusal came after our handshake was done, as TLS 1.3 has it. Not sent.
            OSError: The connection is broken, or a record was tampered with. Unknown.
        """
        while True:
            try:
                # With a buffer to fill, read returns a count; typeshed knows only the other form.
                count = cast(int, self._object.read(len(view), view))
            except ssl.SSLWantReadError:
                self.has_pending_reads = False
                if self._outgoing.pending:
                    self.flush()  # the answer to a new key
                try:
                    data = self.sock.recv(READ_BYTES)
                except BlockingIOError:
                    return 0
                if not data:  # without close_notify; the frames' own sizes tell whether something is missing
                    return END_OF_STREAM
                self._incoming.write(data)
            except (ssl.SSLZeroReturnError, ssl.SSLEOFError):
                self.has_pending_reads = False
                return END_OF_STREAM
            except ssl.SSLError as error:
                self.has_pending_reads = False
                self._flush_quietly()
                if self._has_read:
                    raise
                raise self._failure(error) from error
            else:
                if not count:  # close_notify
                    self.has_pending_reads = False
                    return END_OF_STREAM
                self._has_read = True
                # There may be more in here that the socket does not announce. Only the next read knows for sure: the
                # bytes may be half a record. It will say so, once, by not finding anything.
                self.has_pending_reads = self._incoming.pending > 0 or self._object.pending() > 0
                return count

    # ---- out

    def write_chunks(self, chunks: Sequence[Buffer]) -> int:
        """Encrypt and write; see TransportLayer. Takes nothing while earlier ciphertext waits."""
        accepted = 0
        self.flush()
        while not self.has_pending_writes:
            before = accepted
            for piece in coalesce(_behind(chunks, accepted), WRITE_AHEAD_BYTES):
                accepted += self._object.write(piece)  # one record; a memory BIO takes it whole
            if accepted == before:
                break
            self.flush()
        return accepted

    def flush(self) -> None:
        """Write the ciphertext that waits, as far as the socket takes it.

        Raises:
            OSError: The connection is broken. Unknown.
        """
        while True:
            if not self._pending:
                if not self._outgoing.pending:
                    return
                self._pending = memoryview(self._outgoing.read())
            try:
                sent = self.sock.send(self._pending)
            except BlockingIOError:
                return
            self._pending = self._pending[sent:]

    def _flush_quietly(self) -> None:
        try:
            self.flush()
        except OSError:
            pass  # the connection ends anyway, and the reason for it is known

    def close(self) -> None:
        """Say goodbye if that needs no waiting, and close the socket."""
        if self.ready and self.sock.fileno() >= 0 and not self.has_pending_writes:
            self.ready = False
            try:
                self._object.unwrap()
            except (ssl.SSLError, ValueError):
                pass  # it waits for the peer's goodbye, which we do not
            self._flush_quietly()
        self.sock.close()


def _behind(chunks: Sequence[Buffer], skip_bytes: int) -> Sequence[Buffer]:
    """Return the chunks without their first bytes."""
    if not skip_bytes:
        return chunks
    index = 0
    while index < len(chunks) and skip_bytes >= len(chunks[index]):
        skip_bytes -= len(chunks[index])
        index += 1
    rest = list(chunks[index:])
    if skip_bytes:
        rest[0] = memoryview(rest[0])[skip_bytes:]
    return rest
