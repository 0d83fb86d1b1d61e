"""Key stores and trust stores as Java's tools write them, turned into PEM: PKCS12, JKS and JCEKS.

    file -> store_kind -> PEM              OpenSSL reads it itself
                          PKCS12           the package `cryptography`
                          JKS, JCEKS       the package `pyjks`
                          DER, anything    refused, with the command that converts it

Road:    ssl.keystore.location, ssl.truststore.location -> [key store] -> ProducerConfig (checks), ssl context (reads)
Thread:  reads files; no state.
Source:  Java DefaultSslEngineFactory.FileBasedStore (4.1); the JDK's DualFormatJKS and DualFormatPKCS12, which is why a
         type of JKS or PKCS12 opens either; sun.security.validator.TrustStoreUtil. Differs from Java: where no type is
         given, PEM is recognised by its content; every certificate in a trust store is trusted, those too that have no
         attribute of Java's (trustedKeyUsage), which openssl does not write; of several private keys the first that
         opens is used; without ssl.key.password a key opens with its store's.
"""

from __future__ import annotations

import base64
import importlib.util
from collections.abc import Mapping
from pathlib import Path
from shlex import quote
from typing import Any

from pyproducer.common.errors import ConfigError

PEM_MARK = b"-----BEGIN "
STORE_TYPES = ("JKS", "JCEKS", "PKCS12", "PEM")
_JKS_MAGIC = b"\xfe\xed\xfe\xed"
_JCEKS_MAGIC = b"\xce\xce\xce\xce"
_DER_SEQUENCE = b"\x30"
_PKCS12_VERSION = b"\x02\x01\x03"  # PKCS12 is a DER SEQUENCE that begins with INTEGER 3; a bare certificate does not
# That of a JDK, with the authorities of all the world, has 200 KiB.
_LARGEST_STORE_BYTES = 64 * 1024 * 1024
_PACKAGES = {"PKCS12": ("cryptography", "pyproducer[tls]"), "JKS": ("jks", "pyproducer[jks]"),
             "JCEKS": ("jks", "pyproducer[jks]")}


def store_kind(head: bytes) -> str:
    """Return what a file is by how it begins: PEM, PKCS12, JKS, JCEKS, DER, empty or unknown."""
    if not head:
        return "empty"
    if head.startswith(_JKS_MAGIC):
        return "JKS"
    if head.startswith(_JCEKS_MAGIC):
        return "JCEKS"
    if PEM_MARK in head:
        return "PEM"
    if head.startswith(_DER_SEQUENCE):
        return "PKCS12" if _PKCS12_VERSION in head[:10] else "DER"
    return "unknown"


def check_store(prefix: str, location: str, kind: str, declared: str | None) -> None:
    """Check that a store can be read, and is what its type says.

    Args:
        prefix: `ssl.keystore` or `ssl.truststore`.
        location: The file.
        kind: What it is.
        declared: What ssl.*.type says; None where it is not set.

    Raises:
        ConfigError: It is something else, or what reads it is not installed; with what to do. Not sent.
    """
    wanted = None if declared is None else declared.upper()
    if wanted is not None and wanted not in STORE_TYPES:
        raise ConfigError(f"{prefix}.type", declared, f"it must be one of {', '.join(STORE_TYPES)}")
    if kind in ("DER", "empty", "unknown"):
        named = {"DER": "a bare certificate (DER)", "empty": "empty"}.get(kind, "neither PEM nor PKCS12 nor JKS")
        raise ConfigError(f"{prefix}.location", location,
                          f"the file is {named}" if kind == "empty" else
                          f"the file is {named}. {_conversion(prefix, location, kind)}")
    if kind == "PEM":
        if wanted not in (None, "PEM"):
            raise ConfigError(f"{prefix}.location", location,
                              f"the file is PEM: set {prefix}.type to PEM, or leave it out")
        return
    if wanted == "PEM":
        raise ConfigError(f"{prefix}.location", location, f"the file is a {kind} store: set {prefix}.type to {kind}")
    package, extra = _PACKAGES[kind]
    if not _is_installed(package):
        raise ConfigError(f"{prefix}.location", location, f"to read a {kind} store, install the package that does: "
                          f"pip install '{extra}'. {_conversion(prefix, location, kind)}")


def _is_installed(package: str) -> bool:
    return importlib.util.find_spec(package) is not None


def _conversion(prefix: str, location: str, kind: str) -> str:
    """Return the command that converts a store into what can be read here, and the settings that follow."""
    either = "Or convert it" if kind in _PACKAGES else "Convert it"
    stem = str(Path(location).with_suffix(""))
    target, steps, source = f"{stem}.pem", list[str](), quote(location)
    if kind == "DER":
        steps.append(f"openssl x509 -inform der -in {source} -out {quote(target)}")
    else:
        if kind != "PKCS12":
            p12 = f"{stem}.p12"
            steps.append(f"keytool -importkeystore -srckeystore {source} -destkeystore {quote(p12)} "
                         "-deststoretype PKCS12")
            source = quote(p12)
            if _is_installed("cryptography"):
                return f"{either} with `{steps[0]}`, then set {prefix}.location to {p12} and {prefix}.type to PKCS12"
        which = "" if prefix == "ssl.keystore" else " -nokeys"
        steps.append(f"openssl pkcs12 -in {source}{which} -out {quote(target)}")
    key_password = "; ssl.key.password is the pass phrase that openssl asks for" if prefix == "ssl.keystore" else ""
    return (f"{either} with `{' && '.join(steps)}`, then set {prefix}.location to {target} and {prefix}.type to "
            f"PEM, and leave out {prefix}.password{key_password}")


class Passwords:
    """The passwords of one store, for as long as it is read. Not shown by repr.

    Args:
        settings: Java's keys.
        prefix: `ssl.keystore` or `ssl.truststore`.
    """

    __slots__ = ("_prefix", "_settings")

    def __init__(self, settings: Mapping[str, Any], prefix: str) -> None:
        self._settings = settings
        self._prefix = prefix

    @property
    def of_store(self) -> str | None:
        """Return the store's, or None."""
        return self._settings.get(f"{self._prefix}.password") or None

    @property
    def of_key(self) -> str | None:
        """Return the private key's, which is the store's where it has none of its own, or None."""
        return self._settings.get("ssl.key.password") or self.of_store

    def encoded(self) -> bytes | None:
        """Return the store's in UTF-8, or None."""
        return None if self.of_store is None else self.of_store.encode()

    def __repr__(self) -> str:
        return f"Passwords({self._prefix})"


class Identity:
    """A private key and its certificates, in PEM. Not shown by repr."""

    __slots__ = ("pem",)

    def __init__(self, pem: str) -> None:
        self.pem: str = pem

    def __repr__(self) -> str:
        return "Identity()"


def read_identity(settings: Mapping[str, Any], kind: str) -> Identity:
    """Read the private key and the certificate chain of the key store.

    Args:
        settings: Java's keys; ssl.keystore.location names the file.
        kind: PKCS12, JKS or JCEKS.

    Raises:
        ConfigError: The file cannot be read, or the package that reads it is not installed; a password does not open
            it, or it has no private key. Not sent.
    """
    prefix, location = "ssl.keystore", str(settings["ssl.keystore.location"])
    check_store(prefix, location, kind, None)
    data, passwords = _read(prefix, location), Passwords(settings, prefix)
    if kind == "PKCS12":
        return _pkcs12_identity(data, location, passwords)
    return _jks_identity(data, location, passwords)


def read_trusted(settings: Mapping[str, Any], kind: str) -> str:
    """Read the certificates of the trust store, as PEM; the arguments and errors are read_identity's."""
    prefix, location = "ssl.truststore", str(settings["ssl.truststore.location"])
    check_store(prefix, location, kind, None)
    data, passwords = _read(prefix, location), Passwords(settings, prefix)
    certificates = (_pkcs12_trusted if kind == "PKCS12" else _jks_trusted)(data, location, passwords)
    if not certificates:
        raise ConfigError(f"{prefix}.location", location, "the store has no certificate in it")
    return "".join(_pem("CERTIFICATE", certificate) for certificate in certificates)


def _read(prefix: str, location: str) -> bytes:
    try:
        with open(location, "rb") as file:
            data = file.read(_LARGEST_STORE_BYTES + 1)
    except OSError as cause:
        raise ConfigError(f"{prefix}.location", location, f"it cannot be read: {cause.strerror or cause}") from cause
    if len(data) > _LARGEST_STORE_BYTES:
        raise ConfigError(f"{prefix}.location", location, f"the file is larger than {_LARGEST_STORE_BYTES} bytes, and "
                                                          "no store is")
    return data


def _pem(label: str, der: bytes) -> str:
    return f"-----BEGIN {label}-----\n{base64.encodebytes(der).decode()}-----END {label}-----\n"


def _not_opened(prefix: str, location: str, passwords: Passwords) -> ConfigError:
    if passwords.of_store is None:
        return ConfigError(f"{prefix}.password", None, f"it is needed to open {location}")
    return ConfigError(f"{prefix}.location", location, f"{prefix}.password does not open the store, or the file is "
                                                       "damaged")


# The causes of the errors below are not kept: the frames of other people's code in them hold the passwords. That code
# meets a damaged file with whatever comes to it: UnicodeDecodeError, AttributeError, RuntimeError, PyAsn1Error.


def _load_pkcs12(prefix: str, data: bytes, location: str, passwords: Passwords) -> Any:
    from cryptography.hazmat.primitives.serialization import pkcs12  # here: only who has such a store needs it

    if "\0" in (passwords.of_store or ""):  # it panics, with what is no Exception
        raise _not_opened(prefix, location, passwords)
    try:
        return pkcs12.load_pkcs12(data, passwords.encoded())
    except Exception:
        raise _not_opened(prefix, location, passwords) from None


def _pkcs12_identity(data: bytes, location: str, passwords: Passwords) -> Identity:
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    store = _load_pkcs12("ssl.keystore", data, location, passwords)
    if store.key is None or store.cert is None:
        raise ConfigError("ssl.keystore.location", location, "the store has no private key with a certificate in it")
    chain = [store.cert, *store.additional_certs]
    return Identity(store.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
                    + "".join(_pem("CERTIFICATE", one.certificate.public_bytes(Encoding.DER)) for one in chain))


def _pkcs12_trusted(data: bytes, location: str, passwords: Passwords) -> list[bytes]:
    from cryptography.hazmat.primitives.serialization import Encoding

    store = _load_pkcs12("ssl.truststore", data, location, passwords)
    found = [*([] if store.cert is None else [store.cert]), *store.additional_certs]
    return [one.certificate.public_bytes(Encoding.DER) for one in found]


def _load_jks(prefix: str, data: bytes, location: str, passwords: Passwords) -> Any:
    import jks  # here: only who has such a store needs it

    try:
        # Without a password the store's own checksum is not looked at: as in Java.
        return jks.KeyStore.loads(data, passwords.of_store, try_decrypt_keys=False)
    except Exception:
        raise _not_opened(prefix, location, passwords) from None


def _jks_identity(data: bytes, location: str, passwords: Passwords) -> Identity:
    store = _load_jks("ssl.keystore", data, location, passwords)
    if store.private_keys and passwords.of_key is None:
        raise ConfigError("ssl.keystore.password", None, f"it is needed to open the private key in {location}")
    for entry in store.private_keys.values():
        try:
            entry.decrypt(passwords.of_key)
        except Exception:  # another password, or damaged
            continue
        return Identity(_pem("PRIVATE KEY", entry.pkey_pkcs8)
                        + "".join(_pem("CERTIFICATE", der) for _kind, der in entry.cert_chain))
    why = ("ssl.key.password (or, without it, ssl.keystore.password) does not open its private key"
           if store.private_keys else "the store has no private key in it")
    raise ConfigError("ssl.keystore.location", location, why)


def _jks_trusted(data: bytes, location: str, passwords: Passwords) -> list[bytes]:
    store = _load_jks("ssl.truststore", data, location, passwords)
    # Of a private key's chain the first certificate is trusted, too: Java's rule.
    return [*(entry.cert for entry in store.certs.values()),
            *(entry.cert_chain[0][1] for entry in store.private_keys.values() if entry.cert_chain)]
