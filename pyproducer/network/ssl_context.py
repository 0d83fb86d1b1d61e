"""An `ssl.SSLContext` from Java's ssl.* settings: stores in files, read anew when they change; PEM as text.

`ssl.cipher.suites` has the JVM's (IANA's) names, or OpenSSL's:

    TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256  ->  ECDHE-RSA-AES128-GCM-SHA256   TLS 1.2: for SSLContext.set_ciphers
    TLS_AES_128_GCM_SHA256                 ->  the same                      TLS 1.3: all or none, see choose_ciphers

Road:    wiring, broker -> [ssl context] -> SslChannelBuilder
Thread:  reads files at start and, when they have changed, in the thread that connects.
Source:  Java DefaultSslEngineFactory, SslFactory (4.1); KIP-651 (PEM); IANA TLS parameters; openssl-ciphers(1), "CIPHER
         SUITE NAMES". Differs from Java: a truststore that is not given means the system's authorities, not the JVM's;
         a client reads files that change anew, where Java's never does.
"""

from __future__ import annotations

import os
import re
import ssl
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from pyproducer.common.clock import Clock, SystemClock
from pyproducer.common.errors import ConfigError
from pyproducer.common.sender_log import SenderLog, sender_log
from pyproducer.network.certificates import file_ends_at_s
from pyproducer.network.key_store import Identity, read_identity, read_trusted, store_kind
from pyproducer.network.pem import normalized_pem

_LOG: SenderLog = sender_log(__name__)

TLS_1_3_SUITES = frozenset({
    "TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256", "TLS_AES_128_CCM_SHA256",
    "TLS_AES_128_CCM_8_SHA256"})
_JVM_NAME = re.compile(
    r"(?:TLS|SSL)_(?P<exchange>[A-Z_0-9]+?)_WITH_"
    r"(?:(?P<block>AES|CAMELLIA|ARIA)_(?P<bits>128|256)_(?P<mode>GCM|CBC|CCM_8|CCM)|(?P<stream>CHACHA20_POLY1305))"
    r"(?:_(?P<digest>SHA(?:256|384)?))?")


class CipherChoice(NamedTuple):
    """What a list of suites means to OpenSSL."""

    tls_1_2: str  # for SSLContext.set_ciphers; "" when no suite of TLS 1.2 is allowed
    allows_tls_1_3: bool


def openssl_name(name: str) -> str:
    """Return OpenSSL's name of a suite of TLS 1.2; a name that is not the JVM's is returned as it is."""
    match = _JVM_NAME.fullmatch(name)
    if match is None:
        return name
    exchange = match["exchange"].replace("_", "-")
    parts = [] if exchange == "RSA" else [exchange]
    if match["stream"]:
        parts += ["CHACHA20", "POLY1305"]
    else:
        mode = (match["mode"] or "").replace("CCM_8", "CCM8")
        parts.append(f"{match['block']}{match['bits']}")
        if mode != "CBC":
            parts.append(mode)
        if match["digest"] and not mode.startswith("CCM"):
            parts.append(match["digest"])
    return "-".join(parts)


def choose_ciphers(suites: Sequence[str]) -> CipherChoice:
    """Split a list into what OpenSSL is told for TLS 1.2, and whether TLS 1.3 may be spoken at all.

    Python cannot choose among the suites of TLS 1.3: naming one allows OpenSSL's three, which are all sound. Naming
    none forbids TLS 1.3, as it does in Java.
    """
    names = [suite.strip() for suite in suites if suite.strip()]
    return CipherChoice(":".join(openssl_name(name) for name in names if name not in TLS_1_3_SUITES),
                        any(name in TLS_1_3_SUITES for name in names))


_VERSIONS = {
    "TLSv1.2": ssl.TLSVersion.TLSv1_2,
    "TLSv1.3": ssl.TLSVersion.TLSv1_3,
}
_CLIENT_AUTH = {"none": ssl.CERT_NONE, "requested": ssl.CERT_OPTIONAL, "required": ssl.CERT_REQUIRED}
_HIDDEN = "[hidden]"
_READ_BY_US = ("PKCS12", "JKS", "JCEKS")
# OpenSSL asks for a password only when the key is encrypted; without a callback it would ask at the terminal.
_NO_PASSWORD = ""


def build_client_ssl_context(settings: Mapping[str, Any]) -> ssl.SSLContext:
    """Return the context for connections to brokers.

    Args:
        settings: Java's keys, `ssl.*`; missing ones have Java's defaults. Lists are sequences of names.

    Raises:
        ConfigError: A file cannot be read, a key does not fit its certificate or password, a name is not known; or
            the settings cannot be fulfilled together. Not sent.
    """
    return _client_context(settings)[0]


def _client_context(settings: Mapping[str, Any]) -> tuple[ssl.SSLContext, int | None]:
    """Return the context, and when our certificate in it ends, in seconds since 1970; see _load_identity."""
    factory = settings.get("ssl.engine.factory.class")
    if factory is not None:
        return _from_factory(factory), None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    algorithm = settings.get("ssl.endpoint.identification.algorithm", "https")
    context.check_hostname = bool(algorithm)
    _set_versions(context, _names(settings.get("ssl.enabled.protocols")) or list(_VERSIONS),
                  newest=settings.get("ssl.protocol"))
    _set_ciphers(context, _names(settings.get("ssl.cipher.suites")))
    _load_trust(context, settings)
    return context, _load_identity(context, settings)


LOOK_AGAIN_MS = 10_000
"""So long after they could not be used files are tried again, although they look as they did."""

_Stamps = list["tuple[int, int, int, int] | None"]


class _InUse(NamedTuple):
    """A context, what its files looked like right before they were read, and when our certificate in it ends."""

    stamps: _Stamps
    context: ssl.SSLContext
    ends_at_s: int | None


class _Failure(NamedTuple):
    """Why files that look like this were not used, and when they are tried again, in monotonic ms."""

    stamps: _Stamps
    text: str
    again_ms: int


class ContextFromFiles:
    """The context of now: made anew when a file that the settings name has changed.

    A file that cannot be used (half written, not readable yet, a key that does not belong to the certificate beside it
    yet) leaves the context of before in use, with a warning for each reason. It is tried again when it has changed
    again, and LOOK_AGAIN_MS later in any case: why it failed may have been this process's, as without descriptors. What
    is connected stays.

    Args:
        settings: As for build_client_ssl_context.
        clock: Read where files could not be used.

    Attributes:
        has_identity: Whether there is a certificate of ours; None when a context of the user's own may have one.

    Raises:
        ConfigError: See build_client_ssl_context. Not sent.
    """

    def __init__(self, settings: Mapping[str, Any], clock: Clock | None = None) -> None:
        self._settings = settings
        self._clock: Clock = clock or SystemClock()
        own = settings.get("ssl.engine.factory.class") is not None  # what its maker reads is the maker's to read again
        named = () if own else (settings.get("ssl.keystore.location"), settings.get("ssl.truststore.location"))
        self.has_identity: bool | None = None if own else bool(
            settings.get("ssl.keystore.location") or settings.get("ssl.keystore.key"))
        self._paths = [str(path) for path in named if path]
        stamps = self._look()  # before they are read: what changes meanwhile is seen the next time
        self._in_use = _InUse(stamps, *_client_context(settings))
        self._failure: _Failure | None = None

    def __call__(self) -> ssl.SSLContext:
        """Return the context for a new connection. Asks the file system once for each file."""
        stamps, in_use, failure = self._look(), self._in_use, self._failure
        if stamps == in_use.stamps:
            self._failure = None
            return in_use.context
        now_ms = self._clock.now_ms()
        if failure is not None and failure.stamps == stamps and now_ms < failure.again_ms:
            return in_use.context
        try:
            made = _InUse(stamps, *_client_context(self._settings))
        except (ConfigError, OSError) as error:
            text = str(error)
            if failure is None or failure.text != text:
                _LOG.warning("Certificates changed but cannot be used, so those of before stay in use: %s", text)
            self._failure = _Failure(stamps, text, now_ms + LOOK_AGAIN_MS)
            return in_use.context
        self._in_use, self._failure = made, None
        _LOG.info("Certificates changed and were read anew: %s", ", ".join(self._paths))
        return made.context

    def identity_ends_at_s(self) -> int | None:
        """Return when our certificate ends that the next connection shows, in seconds since 1970.

        None where there is none, or nobody can tell. Reads files that have changed, as a connection does: who connects
        seldom knows of a new certificate, too.
        """
        self()
        return self._in_use.ends_at_s

    def _look(self) -> _Stamps:
        """Return what tells a file from the one before.

        Inode and size too, as times may be coarse; and when its inode changed, as who may read it is no change of what
        it holds.
        """
        stamps: _Stamps = []
        for path in self._paths:
            try:
                found = os.stat(path)
            except OSError:
                stamps.append(None)
            else:
                stamps.append((found.st_mtime_ns, found.st_ctime_ns, found.st_ino, found.st_size))
        return stamps


def build_server_ssl_context(*, keystore_location: str | None = None, key_password: str | None = None,
                             truststore_location: str | None = None, client_auth: str = "none",
                             keystore_key: str | None = None, keystore_certificate_chain: str | None = None,
                             truststore_certificates: str | None = None,
                             enabled_protocols: str = "TLSv1.2,TLSv1.3") -> ssl.SSLContext:
    """Return the context for a listener.

    Args:
        keystore_location: PEM file with the private key and the certificate chain.
        key_password: Of the private key.
        truststore_location: PEM file with the authorities that sign clients; None for the system's.
        client_auth: `none`, `requested` or `required`, as in Java's ssl.client.auth.
        keystore_key: The private key itself (PEM), in place of the file.
        keystore_certificate_chain: Its certificates (PEM).
        truststore_certificates: The authorities themselves (PEM), in place of the file.
        enabled_protocols: Versions of TLS, with commas.

    Raises:
        ConfigError: A file cannot be read, or a key does not fit its certificate or password. Not sent.
    """
    if client_auth not in _CLIENT_AUTH:
        raise ConfigError("ssl.client.auth", client_auth, f"it must be one of {', '.join(_CLIENT_AUTH)}")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    _set_versions(context, _names(enabled_protocols), newest=None)
    # Session tickets are two messages that a client reads after the handshake; nobody here resumes sessions.
    context.num_tickets = 0
    settings = _Unshown({
        "ssl.keystore.location": keystore_location, "ssl.key.password": key_password,
        "ssl.keystore.key": keystore_key or "\n", "ssl.keystore.certificate.chain": keystore_certificate_chain,
        "ssl.truststore.location": truststore_location, "ssl.truststore.certificates": truststore_certificates})
    _load_identity(context, settings)
    if client_auth != "none":
        _load_trust(context, settings)
    context.verify_mode = _CLIENT_AUTH[client_auth]
    return context


def _from_factory(factory: Any) -> ssl.SSLContext:
    made = factory if isinstance(factory, ssl.SSLContext) else factory() if callable(factory) else None
    if not isinstance(made, ssl.SSLContext):
        raise ConfigError("ssl.engine.factory.class", factory, "give an ssl.SSLContext or a callable that returns one")
    return made


def _names(value: Any) -> list[str]:
    if value is None:
        return []
    return [name.strip() for name in (value.split(",") if isinstance(value, str) else value) if name.strip()]


def _set_versions(context: ssl.SSLContext, names: Sequence[str], *, newest: str | None) -> None:
    for name in names:
        if name not in _VERSIONS:
            raise ConfigError("ssl.enabled.protocols", name, f"it must be one of {', '.join(_VERSIONS)}; older "
                                                             "versions of TLS are broken")
    versions = [_VERSIONS[name] for name in names]
    if newest in _VERSIONS:
        versions = [version for version in versions if version <= _VERSIONS[newest]]
        if not versions:
            raise ConfigError("ssl.protocol", newest, f"ssl.enabled.protocols has only newer ones: {', '.join(names)}")
    context.minimum_version = min(versions)
    context.maximum_version = max(versions)


def _set_ciphers(context: ssl.SSLContext, suites: Sequence[str]) -> None:
    if not suites:
        return
    choice = choose_ciphers(suites)
    if choice.tls_1_2:
        try:
            context.set_ciphers(choice.tls_1_2)
        except ssl.SSLError as cause:
            raise ConfigError("ssl.cipher.suites", list(suites), "OpenSSL knows none of these suites") from cause
    else:
        _restrict(context, suites, minimum=ssl.TLSVersion.TLSv1_3)
    if not choice.allows_tls_1_3:
        _restrict(context, suites, maximum=ssl.TLSVersion.TLSv1_2)


def _restrict(context: ssl.SSLContext, suites: Sequence[str], *, minimum: ssl.TLSVersion = ssl.TLSVersion.TLSv1_2,
              maximum: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3) -> None:
    minimum = max(minimum, context.minimum_version)
    maximum = min(maximum, context.maximum_version)
    if minimum > maximum:
        raise ConfigError("ssl.cipher.suites", list(suites), "no suite of a version in ssl.enabled.protocols")
    context.minimum_version, context.maximum_version = minimum, maximum


class _Unshown(dict[str, Any]):
    """Settings whose repr shows no secret."""

    def __repr__(self) -> str:
        return _HIDDEN


_HEAD_BYTES = 1 << 20  # a PEM file may begin with a long description in words


def _kind_of(key: str, location: str) -> str:
    try:
        with open(location, "rb") as file:
            return store_kind(file.read(_HEAD_BYTES))
    except (OSError, ValueError) as cause:
        raise ConfigError(key, location, f"it cannot be read: {getattr(cause, 'strerror', None) or cause}") from cause


def _load_trust(context: ssl.SSLContext, settings: Mapping[str, Any]) -> None:
    # A store's certificates are trusted as they are, roots or not: Java's rule.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    location, certificates = settings.get("ssl.truststore.location"), settings.get("ssl.truststore.certificates")
    key, shown = ("ssl.truststore.location", location) if location else ("ssl.truststore.certificates", _HIDDEN)
    kind = _kind_of(key, str(location)) if location else "PEM"
    if kind in _READ_BY_US:
        certificates, location = read_trusted(settings, kind), None
    try:
        if location:
            _load_authorities(context, str(location))
        elif certificates:
            context.load_verify_locations(cadata=normalized_pem(certificates))
        else:
            context.load_default_certs(ssl.Purpose.SERVER_AUTH)
    except ssl.SSLError as cause:
        said = f" ({cause.reason})" if cause.reason else ""
        raise ConfigError(key, shown, f"no certificates in PEM were found{said}") from cause
    except (OSError, ValueError) as cause:
        raise ConfigError(key, shown, f"it cannot be read: {getattr(cause, 'strerror', None) or cause}") from cause
    except TypeError:  # without a block, and not in ASCII
        raise ConfigError(key, shown, "no certificates in PEM were found") from None


def _load_authorities(context: ssl.SSLContext, path: str) -> None:
    """Load a file as OpenSSL reads it; or, where it finds nothing, as Java does."""
    try:
        context.load_verify_locations(cafile=path)
    except ssl.SSLError:
        with open(path, encoding="latin-1") as file:
            text = file.read()
        if (normalized := normalized_pem(text)) == text:
            raise
        context.load_verify_locations(cadata=normalized)


def _load_identity(context: ssl.SSLContext, settings: Mapping[str, Any]) -> int | None:
    """Load our certificate, if there is one; return when it ends, in seconds since 1970, or None."""
    location = settings.get("ssl.keystore.location")
    key, shown = ("ssl.keystore.location", str(location)) if location else ("ssl.keystore.key", _HIDDEN)
    try:
        if location:
            kind = _kind_of(key, str(location))
            if kind not in _READ_BY_US:
                return _load_pem_file(context, str(location), settings)
            identity = read_identity(settings, kind)
            with _as_file(lambda: identity.pem) as path:
                return _load_pem(context, key, path, settings, shown=shown)
        if settings.get("ssl.keystore.key"):
            with _as_file(lambda: normalized_pem(f"{settings['ssl.keystore.key']}\n"
                                                 f"{settings.get('ssl.keystore.certificate.chain') or ''}\n")) as path:
                return _load_pem(context, key, path, settings, shown=shown)
    except OSError as cause:  # what holds the key while it is loaded cannot be had
        raise ConfigError(key, shown, f"it cannot be loaded: {cause.strerror or cause}") from cause
    return None


def _load_pem_file(context: ssl.SSLContext, location: str, settings: Mapping[str, Any]) -> int | None:
    """Load a file as OpenSSL reads it; or, where its lines are not PEM's, as Java does."""
    try:
        return _load_pem(context, "ssl.keystore.location", location, settings)
    except ConfigError:
        try:
            with open(location, encoding="latin-1") as file:
                whole = Identity(file.read())
        except OSError:
            whole = Identity("")
        identity = Identity(normalized_pem(whole.pem))
        if identity.pem == whole.pem:
            raise
        with _as_file(lambda: identity.pem) as path:
            return _load_pem(context, "ssl.keystore.location", path, settings, shown=location)


def _load_pem(context: ssl.SSLContext, key: str, path: str, settings: Mapping[str, Any], *,
              shown: str | None = None) -> int | None:
    asked = []

    def answer() -> str:
        asked.append(True)
        return settings.get("ssl.key.password") or _NO_PASSWORD

    try:
        context.load_cert_chain(path, password=answer)
    except ssl.SSLError as cause:
        raise ConfigError(key, shown or path, _identity_reason(
            cause, has_password=bool(settings.get("ssl.key.password")), is_encrypted=bool(asked))) from cause
    except OSError as cause:
        raise ConfigError(key, shown or path, f"it cannot be read: {cause.strerror or cause}") from cause
    except ValueError:  # too long for OpenSSL, or no UTF-8; the cause holds it
        raise ConfigError(key, shown or path, "ssl.key.password does not open the private key") from None
    return file_ends_at_s(path)


def _identity_reason(cause: ssl.SSLError, *, has_password: bool, is_encrypted: bool) -> str:
    if "MISMATCH" in (cause.reason or "").upper():
        return "the private key does not belong to the first certificate of the chain"
    if is_encrypted:  # OpenSSL itself says no more than "PEM lib"
        return "ssl.key.password does not open the private key" if has_password else (
            "the private key is encrypted: set ssl.key.password")
    said = f" ({cause.reason})" if cause.reason else ""
    return f"it needs a private key and a certificate chain in PEM{said}"


@contextmanager
def _as_file(text: Callable[[], str]) -> Iterator[str]:
    """Give a text a path, because OpenSSL loads a private key from files only; in memory where Linux allows."""
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("pem")
        path = f"/proc/self/fd/{descriptor}"
    else:
        descriptor, path = tempfile.mkstemp(suffix=".pem")  # readable for us only, and gone in a moment
    try:
        with open(descriptor, "w", encoding="ascii", errors="replace") as file:
            file.write(text())
            file.flush()
            yield path
    finally:
        if not path.startswith("/proc/"):
            os.unlink(path)
