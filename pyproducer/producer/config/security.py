"""Checks of the security settings against each other: protocol, mechanism, login module, what none of them uses.

Road:    parsed values -> [security] -> ProducerConfig
Thread:  pure functions.
Source:  Java JaasContext, SaslChannelBuilder, CommonClientConfigs.postValidateSaslMechanismConfig (4.1). Differs from
         Java: GSSAPI, OAUTHBEARER and AWS_MSK_IAM need no sasl.jaas.config where the rest says enough; settings that
         are not used are told.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Set
from typing import Any, NamedTuple

from pyproducer.common.errors import ConfigError
from pyproducer.common.jaas import (
    KERBEROS_MODULE,
    MSK_IAM_MODULE,
    OAUTHBEARER_MODULE,
    PLAIN_MODULE,
    SCRAM_MODULE,
    JaasEntry,
    parse_jaas,
)
from pyproducer.common.jaas import KEY as JAAS_KEY
from pyproducer.common.secrets import HIDDEN
from pyproducer.producer.config.table import CONFIG_TABLE

log: logging.Logger = logging.getLogger(__name__)


class _LoginModule(NamedTuple):
    mechanisms: tuple[str, ...]
    required: tuple[str, ...] = ()


LOGIN_MODULES = {
    PLAIN_MODULE: _LoginModule(("PLAIN",), ("username", "password")),
    SCRAM_MODULE: _LoginModule(("SCRAM-SHA-256", "SCRAM-SHA-512"), ("username", "password")),
    OAUTHBEARER_MODULE: _LoginModule(("OAUTHBEARER",)),
    MSK_IAM_MODULE: _LoginModule(("AWS_MSK_IAM",)),
    KERBEROS_MODULE: _LoginModule(("GSSAPI",)),
}
"""The login modules that are understood, by Java's name."""

MECHANISMS = tuple(mechanism for module in LOGIN_MODULES.values() for mechanism in module.mechanisms)
_TOKEN_URL = "sasl.oauthbearer.token.endpoint.url"
_LOOPBACK = ("localhost", "127.", "[::1]")
_FAMILIES = (("sasl.", "SASL_", "SASL_PLAINTEXT or SASL_SSL"), ("ssl.", "SSL", "SSL or SASL_SSL"))


def check_security(values: dict[str, Any], explicit: Set[str]) -> None:
    """Check what is said of security, without a file or a network; warn of what is not used.

    Raises:
        ConfigError: Nobody can log in with these settings.
    """
    protocol = values["security.protocol"]
    if protocol.startswith("SASL_"):
        _check_login(values, explicit)
    unused = settings_not_used(values, explicit)
    if unused:
        log.warning("%s", unused_text(protocol, unused))


def settings_not_used(values: dict[str, Any], explicit: Set[str]) -> tuple[str, ...]:
    """Return the security settings that were given and that the protocol has no use for."""
    protocol = values["security.protocol"]
    return tuple(sorted(key for key in explicit for family, part, _ in _FAMILIES
                        if key.startswith(family) and part not in protocol and values[key]
                        and CONFIG_TABLE[key].has_effect))


def unused_text(protocol: str, unused: tuple[str, ...]) -> str:
    """Return a sentence about what a protocol has no use for."""
    wanted = " and ".join(names for family, _, names in _FAMILIES if any(key.startswith(family) for key in unused))
    if unused[0].startswith("sasl.") and unused[-1].startswith("ssl."):
        wanted = "SASL_SSL"
    return (f"security.protocol = {protocol} does not use {', '.join(unused)}: set it to {wanted}, or leave these "
            "settings out")


def login_module(values: dict[str, Any]) -> JaasEntry | None:
    """Return the entry of sasl.jaas.config; None where there is none.

    Raises:
        ConfigError: It cannot be read, or names a login module that is not understood.
    """
    if not values[JAAS_KEY]:
        return None
    entry = parse_jaas(values[JAAS_KEY])
    name = entry.login_module
    if name in LOGIN_MODULES:
        return entry
    near = _nearest(name, LOGIN_MODULES, cutoff=0.8)
    hint = f"did you mean {near}?" if near else f"it must be one of {', '.join(LOGIN_MODULES)}"
    raise ConfigError(JAAS_KEY, HIDDEN, f"its login module is not known here: {hint}")


def _nearest(name: str, known: Iterable[str], *, cutoff: float) -> str | None:
    from difflib import get_close_matches  # here: only an error needs it

    return next(iter(get_close_matches(name, known, n=1, cutoff=cutoff)), None)


def _check_login(values: dict[str, Any], explicit: Set[str]) -> None:
    mechanism = values["sasl.mechanism"]
    if not mechanism:
        raise ConfigError("sasl.mechanism", mechanism,
                          f"security.protocol = {values['security.protocol']} needs a mechanism: set it to one of "
                          f"{', '.join(MECHANISMS)}")
    if mechanism not in MECHANISMS:
        near = _nearest(mechanism.upper().removeprefix("SASL_"), MECHANISMS, cutoff=0.6)
        hint = f"; did you mean {near}?" if near else ""
        raise ConfigError("sasl.mechanism", mechanism, f"it must be one of {', '.join(MECHANISMS)}{hint}")
    entry = login_module(values)
    if entry is not None:
        _check_entry(entry, mechanism, explicit)
    elif _has_password(mechanism) and values["sasl.client.callback.handler.class"] is None:
        raise ConfigError(JAAS_KEY, None, f"sasl.mechanism = {mechanism} needs a user name and a password: write "
                                          f"{jaas_line(mechanism)}")
    if mechanism == "OAUTHBEARER":
        _warn_of_plain_http(values)


def _has_password(mechanism: str) -> bool:
    return mechanism == "PLAIN" or mechanism.startswith("SCRAM-")


def jaas_line(mechanism: str) -> str:
    """Return the line of a properties file that names user and password for a mechanism."""
    module = next(name for name, module in LOGIN_MODULES.items() if mechanism in module.mechanisms)
    return f'{JAAS_KEY}={module} required username="..." password="...";'


def _check_entry(entry: JaasEntry, mechanism: str, explicit: Set[str]) -> None:
    module = LOGIN_MODULES[entry.login_module]
    if mechanism not in module.mechanisms:
        default = "" if "sasl.mechanism" in explicit else "it is the default, and "
        raise ConfigError("sasl.mechanism", mechanism,
                          f"{default}sasl.jaas.config has {entry.login_module}, which is for "
                          f"{' and '.join(module.mechanisms)}: set sasl.mechanism to {' or '.join(module.mechanisms)}, "
                          "or take another login module")
    for option in module.required:
        if not entry.options.get(option):
            raise ConfigError(JAAS_KEY, HIDDEN, f"{entry.login_module} needs {' and '.join(module.required)}, and "
                                                f"{option} is {'empty' if option in entry.options else 'missing'}")


def _warn_of_plain_http(values: dict[str, Any]) -> None:
    url = (values[_TOKEN_URL] or "").strip().lower()
    host = url.removeprefix("http://").partition("/")[0].rpartition("@")[2]
    if url.startswith("http://") and not host.startswith(_LOOPBACK):
        log.warning("%s is http and not https: the client's secret and the tokens go over the network as they are",
                    _TOKEN_URL)
