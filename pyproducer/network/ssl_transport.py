"""TLS over one socket, without ever blocking.

    recv -> incoming BIO -> SSLObject -> read_into
    write_chunks -> SSLObject -> outgoing BIO -> pending -> send

    [size 4][header 60][batch 16 k][header 60][batch 16 k]  ->  16 k + 16 k + ...   never a record of four bytes

Road:    KafkaChannel -> [TLS transport] -> socket
Thread:  the thread that polls the selector.
Source:  Java SslTransportLayer (4.1); RFC 8446 5.1: a record carries at most 2^14 bytes. Ours: over ssl.MemoryBIO,
         because one socket call then carries many records, the socket stays the selector's, and a peer that does not
         speak TLS is recognised by its first bytes.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, cast

from pyproducer.common.errors import TransportError
from pyproducer.network.certificates import CertificateFacts, certificate_facts, shown_chain, trusted_path
from pyproducer.network.receive import speaks_tls
from pyproducer.network.tls_failures import hung_up, not_tls, tls_failure
from pyproducer.network.transport import END_OF_STREAM, Buffer, hang_up, socket_address_text

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


# Four full records: what one recv usually brings, and what a channel with nothing to do does not keep.
READ_BYTES = 64 * 1024
# How much plaintext becomes ciphertext before the socket took the ciphertext before. The rest of a large frame stays
# where it is, uncopied, until a slow reader has taken this.
WRITE_AHEAD_BYTES = 256 * 1024


# TLS 1.2, two bytes: fatal, internal_error. It is what Apache Kafka's listener answers to a request without TLS.
_ALERT = b"\x15\x03\x03\x00\x02\x02\x50"


class TlsSession(NamedTuple):
    """What a handshake agreed on.

    Attributes:
        version: Of TLS.
        cipher: OpenSSL's name of the suite.
        path: The certificates by which the peer is trusted, its own first; none where it showed none.
        checks_name: Whether the peer's certificate had to have the name by which we came.
    """

    version: str
    cipher: str
    path: list[CertificateFacts]
    checks_name: bool


class SslTransportLayer:
    """A TLS connection.

    Args:
        sock: Non-blocking; may still be connecting.
        ssl_context: Certificates, trust, protocol versions.
        server_side: We answer the handshake.
        server_hostname: The name that the peer's certificate must show, when the context checks that.
        has_identity: Whether the context has a certificate of ours; None when that is not known.
        on_first_bytes: Told once whether the peer has said anything at all, when it first speaks or hangs up.
        subject_of: Names the subject of the peer's certificate, which comes in DER; None for a peer who needs no name.
    """

    __slots__ = ("_context", "_has_identity", "_has_principal", "_has_read", "_has_received", "_incoming", "_object",
                 "_on_first_bytes", "_outgoing", "_peer", "_pending", "_principal_name", "_server_hostname",
                 "_server_side", "_subject_of", "has_pending_reads", "ready", "sock")

    def __init__(self, sock: socket.socket, ssl_context: ssl.SSLContext, *, server_side: bool,
                 server_hostname: str | None, has_identity: bool | None,
                 on_first_bytes: Callable[[bool], None] | None,
                 subject_of: Callable[[bytes], str] | None = None) -> None:
        self.sock: socket.socket = sock
        self.ready: bool = False
        self.has_pending_reads: bool = False
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._object = ssl_context.wrap_bio(self._incoming, self._outgoing, server_side=server_side,
                                            server_hostname=server_hostname)
        self._server_side = server_side
        self._server_hostname = server_hostname
        self._peer = ""
        self._pending = memoryview(b"")  # ciphertext that the socket did not take yet
        self._context = ssl_context
        self._has_identity = has_identity
        self._on_first_bytes = on_first_bytes
        self._subject_of = subject_of
        self._has_received = False  # anything at all
        self._has_read = False  # any plaintext
        self._principal_name: str | None = None
        self._has_principal = False  # it was looked for, once for all requests

    @property
    def has_pending_writes(self) -> bool:
        """Whether ciphertext waits for the socket."""
        return len(self._pending) > 0 or self._outgoing.pending > 0

    @property
    def certificate_ends_at_s(self) -> int:
        """When the certificate that the peer showed ends, in seconds since 1970; 0 where that cannot be known."""
        chain = shown_chain(self._object)
        return chain[0].ends_at_s if chain and chain[0].not_after else 0

    @property
    def wants_write(self) -> bool:
        """Whether the handshake waits to write."""
        return self.has_pending_writes

    @property
    def principal_name(self) -> str | None:
        """Return the subject of the peer's certificate, as `subject_of` writes it, or None.

        Raises:
            ValueError: Its certificate makes no sense.
        """
        if not self._has_principal and self.ready:
            certificate = self._object.getpeercert(True)
            if certificate is not None and self._subject_of is not None:
                self._principal_name = self._subject_of(certificate)
            self._has_principal = True
        return self._principal_name

    def session(self) -> TlsSession:
        """Return what the handshake agreed on, once it is done."""
        cipher = self._object.cipher()
        return TlsSession(self._object.version() or "", cipher[0] if cipher else "", trusted_path(self._object),
                          self._context.check_hostname)

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
        except ConnectionResetError:
            # Who closes with our bytes unread sends a reset: a plaintext listener does when TLS is spoken to it.
            if self._has_received:
                raise
            data = b""
        if not self._has_received and self._on_first_bytes is not None:
            self._on_first_bytes(bool(data))
        if not data:
            raise hung_up(peer=self._peer, server_hostname=self._server_hostname, server_side=self._server_side)
        if not self._has_received and not speaks_tls(data):
            if self._server_side:
                self._send_alert()
            raise not_tls(data, peer=self._peer)
        self._has_received = True
        self._incoming.write(data)
        return True

    def _send_alert(self) -> None:
        """Tell a client that does not speak TLS that we do: it knows the first bytes of an alert."""
        try:
            self.sock.send(_ALERT)
        except OSError:
            pass  # it has gone already

    def _failure(self, error: ssl.SSLError) -> TransportError:
        is_ours = isinstance(error, ssl.SSLCertVerificationError)
        return tls_failure(error, peer=self._peer, server_hostname=self._server_hostname,
                           chain=shown_chain(self._object) if is_ours else (),
                           trusted=[certificate_facts(one) for one in self._context.get_ca_certs()] if is_ours else (),
                           has_identity=self._has_identity)

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
                # The answer to a new key. Behind a frame's bytes it waits for the frame's writer, who must see the end
                # of it before the peer can answer.
                if self._outgoing.pending and not self._pending:
                    self.flush()
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

    def write_on(self, chunks: Sequence[Buffer]) -> int:
        """Do as write_chunks: each piece that is encrypted takes the interpreter."""
        return self.write_chunks(chunks)

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
        if self._server_side:
            hang_up(self.sock)
        else:
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
