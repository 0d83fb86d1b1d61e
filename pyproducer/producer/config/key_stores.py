"""Checks of files and stores that need no network: TLS stores can be read here, and what is named exists.

Road:    parsed values -> [key stores] -> ProducerConfig
Thread:  reads the first bytes of files; no state.
Source:  Java DefaultSslEngineFactory.createKeystore/createTruststore (4.1); network/key_store.py says what can be read.
"""

from __future__ import annotations

import logging
import ssl
from collections.abc import Set
from typing import Any

from pyproducer.common.errors import ConfigError
from pyproducer.common.secrets import HIDDEN, shown
from pyproducer.network.key_store import PEM_MARK, check_store, store_kind
from pyproducer.network.pem import pem_fault

log: logging.Logger = logging.getLogger(__name__)

_HEAD_BYTES = 1 << 20  # a PEM file may begin with a long description in words
_TLS_VERSIONS = ("TLSv1.2", "TLSv1.3")  # those of network/ssl_context.py
_OLD_TLS_VERSIONS = ("TLSv1", "TLSv1.1")
_PLACE_OF_TEXT = {
    "ssl.keystore.location": ": the text goes to ssl.keystore.key and ssl.keystore.certificate.chain",
    "ssl.truststore.location": ": the text goes to ssl.truststore.certificates",
}
_ANY_TLS_VERSION = "TLS"  # Java's name for a context that is not bound to one


def check_security_files(values: dict[str, Any], explicit: Set[str], *, reads_files: bool) -> None:
    """Check what the security settings name, as far as no broker is needed; without `reads_files`, no file either.

    Raises:
        ConfigError: A store has a format that cannot be read, a file is missing, or settings contradict each other.
    """
    protocol = values["security.protocol"]
    if protocol in ("SSL", "SASL_SSL"):
        _check_tls(values, explicit, reads_files)
    if reads_files and protocol in ("SASL_PLAINTEXT", "SASL_SSL") and values["sasl.mechanism"] == "OAUTHBEARER":
        for key in ("sasl.oauthbearer.assertion.file", "sasl.oauthbearer.assertion.private.key.file",
                    "sasl.oauthbearer.assertion.template.file"):
            if values[key]:
                _read_head(key, values[key])


def _check_tls(values: dict[str, Any], explicit: Set[str], reads_files: bool) -> None:
    factory = values["ssl.engine.factory.class"]
    if factory is not None:
        if not isinstance(factory, ssl.SSLContext) and not callable(factory):
            raise ConfigError("ssl.engine.factory.class", factory,
                              "give an ssl.SSLContext, or a callable that returns one; Java classes cannot be loaded")
        return
    _check_versions(values)
    _check_endpoint_identification(values)
    _check_key_store(values, explicit, reads_files)
    _check_trust_store(values, explicit, reads_files)


def _check_versions(values: dict[str, Any]) -> None:
    # Differs from Java: TLS 1.0 and 1.1 are refused here, or left out beside newer ones; a JVM takes the names and, as
    # it comes, fails later or leaves them out, too.
    given = values["ssl.enabled.protocols"]
    kept = tuple(version for version in given if version not in _OLD_TLS_VERSIONS)
    if kept and kept != given:
        log.warning("ssl.enabled.protocols = %s: only %s can be used", ",".join(given), ",".join(kept))
        values["ssl.enabled.protocols"] = kept
    advice = "Older versions are broken and cannot be used: leave this out, and let the broker's listener offer TLSv1.2"
    for version in values["ssl.enabled.protocols"]:
        if version not in _TLS_VERSIONS:
            raise ConfigError("ssl.enabled.protocols", version,
                              f"every item must be one of {', '.join(_TLS_VERSIONS)}. {advice}")
    newest, allowed = values["ssl.protocol"], (_ANY_TLS_VERSION, *_TLS_VERSIONS)
    if newest and newest not in allowed:
        raise ConfigError("ssl.protocol", newest, f"it must be one of {', '.join(allowed)}. {advice}")


def _check_endpoint_identification(values: dict[str, Any]) -> None:
    algorithm = values["ssl.endpoint.identification.algorithm"]
    if algorithm and algorithm.lower() != "https":
        raise ConfigError("ssl.endpoint.identification.algorithm", algorithm,
                          "it must be https (check that the certificate names the host) or empty (do not check)")


def _check_key_store(values: dict[str, Any], explicit: Set[str], reads_files: bool) -> None:
    location, key, chain = (values[name] for name in ("ssl.keystore.location", "ssl.keystore.key",
                                                      "ssl.keystore.certificate.chain"))
    if key and location:
        raise ConfigError("ssl.keystore.location", location, "the private key is given twice: leave out this, or "
                                                             "ssl.keystore.key and ssl.keystore.certificate.chain")
    if bool(key) != bool(chain):
        given, missing = (("ssl.keystore.key", "ssl.keystore.certificate.chain") if key else
                          ("ssl.keystore.certificate.chain", "ssl.keystore.key"))
        raise ConfigError(given, HIDDEN, f"it needs {missing} beside it, both as PEM text")
    _check_store(values, explicit, "ssl.keystore", location, reads_files)
    for name in ("ssl.keystore.key", "ssl.keystore.certificate.chain"):
        _check_pem_text(values, explicit, name, "ssl.keystore.type")


def _check_trust_store(values: dict[str, Any], explicit: Set[str], reads_files: bool) -> None:
    location = values["ssl.truststore.location"]
    if values["ssl.truststore.certificates"] and location:
        raise ConfigError("ssl.truststore.location", location, "the trusted certificates are given twice: leave out "
                                                               "this or ssl.truststore.certificates")
    _check_store(values, explicit, "ssl.truststore", location, reads_files)
    _check_pem_text(values, explicit, "ssl.truststore.certificates", "ssl.truststore.type")


def _check_store(values: dict[str, Any], explicit: Set[str], prefix: str, location: str | None,
                 reads_files: bool) -> None:
    password = values[f"{prefix}.password"]
    if not location:
        if password:
            raise ConfigError(f"{prefix}.password", HIDDEN, f"there is no {prefix}.location that it could open")
        return
    if not reads_files:
        return
    head = _read_head(f"{prefix}.location", location)
    kind = store_kind(head)
    check_store(prefix, location, kind, values[f"{prefix}.type"] if f"{prefix}.type" in explicit else None)
    if kind == "PEM" and password:
        raise ConfigError(f"{prefix}.password", HIDDEN, "a PEM file has no store password: leave it out (the private "
                                                        "key's own password is ssl.key.password)")


def _check_pem_text(values: dict[str, Any], explicit: Set[str], key: str, type_key: str) -> None:
    text = values[key]
    if not text:
        return
    if type_key in explicit and (values[type_key] or "").upper() != "PEM":
        raise ConfigError(type_key, values[type_key], f"{key} holds PEM text: set {type_key} to PEM, or leave it out")
    if PEM_MARK.decode() not in text:
        raise ConfigError(key, HIDDEN, f"no PEM text: it must contain a line '{PEM_MARK.decode()}...'. A path belongs "
                                       f"into {type_key.replace('.type', '.location')}")
    fault = pem_fault(text)
    if fault is not None:
        raise ConfigError(key, HIDDEN, f"its PEM text is damaged: {fault}")


def _read_head(key: str, path: str) -> bytes:
    if PEM_MARK.decode() in path:
        raise ConfigError(key, HIDDEN, f"it is PEM text, where the path of a file belongs{_PLACE_OF_TEXT.get(key, '')}")
    try:
        with open(path, "rb") as file:
            return file.read(_HEAD_BYTES)
    except (OSError, ValueError) as cause:  # ValueError: a zero byte in the path
        why = getattr(cause, "strerror", None) or cause
        # The system's own error repeats the path.
        raise ConfigError(key, path, f"the file cannot be read: {why}") from (cause if shown(path) == path else None)
