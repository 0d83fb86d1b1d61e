"""Which login a client's settings ask for; and the login of those whose secrets stand in the settings.

Road:    sasl.mechanism, sasl.jaas.config -> [login] -> channel builder -> client authenticator
Thread:  pure; a login is its channel builder's.
Source:  Java LoginManager, JaasContext, AbstractLogin (4.1).
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import Any

from pyproducer.common.errors import ConfigError
from pyproducer.common.jaas import KEY, PLAIN_MODULE, SCRAM_MODULE, JaasEntry, parse_jaas
from pyproducer.network.sasl.mechanism import Login, SaslClient, unavailable
from pyproducer.network.sasl.password import PasswordCredentials
from pyproducer.network.sasl.plain import PlainSaslClient

PLAIN = "PLAIN"
SCRAM = ("SCRAM-SHA-256", "SCRAM-SHA-512")
_PASSWORD_MODULES = {PLAIN: PLAIN_MODULE, **dict.fromkeys(SCRAM, SCRAM_MODULE)}
# Logins that take time, and have files of their own, which only their users need: the module, and what makes it.
_ELSEWHERE = {
    "OAUTHBEARER": ("pyproducer.network.sasl.token_login", "token_login"),
    "AWS_MSK_IAM": ("pyproducer.network.sasl.aws_msk_iam", "msk_iam_login"),
    "GSSAPI": ("pyproducer.network.sasl.gssapi", "gssapi_login"),
}


class StaticLogin:
    """A login whose credentials stand in the settings: they are there at once, and do not change.

    Args:
        mechanism: Their mechanism.
        credentials: User name and password.
        new_client: Makes the client's half of one authentication.
    """

    def __init__(self, mechanism: str, credentials: PasswordCredentials,
                 new_client: Callable[[PasswordCredentials], SaslClient]) -> None:
        self.mechanism = mechanism
        self._credentials: PasswordCredentials | None = credentials
        self._new_client = new_client

    @property
    def error(self) -> Exception | None:
        """They are always there."""
        return None

    @property
    def is_ready(self) -> bool:
        """Whether it is open."""
        return self._credentials is not None

    def start(self, on_change: Callable[[], None]) -> bool:
        """Do nothing: there is nothing to fetch."""
        return True

    def is_ready_for(self, host: str) -> bool:
        """Whether it is open."""
        return self._credentials is not None

    def new_client(self, host: str) -> SaslClient:
        """Return the client's half for one authentication; see Login."""
        if self._credentials is None:
            raise unavailable("the login is closed")
        return self._new_client(self._credentials)

    def close(self) -> None:
        """Forget the secrets."""
        if self._credentials is not None:
            self._credentials.forget()
            self._credentials = None

    def __repr__(self) -> str:
        return f"StaticLogin({self.mechanism!r})"


def login_for(settings: Mapping[str, Any]) -> Login | None:
    """Return the login that the settings ask for; None where they ask for no SASL.

    Args:
        settings: Parsed values under Java's keys: security.protocol, and the sasl.* ones.

    Raises:
        ConfigError: The mechanism is unknown, or its credentials are missing or another mechanism's. Nothing was
            started.

    Source: Java ChannelBuilders.create, LoginManager.acquireLoginManager (4.1).
    """
    if not settings["security.protocol"].startswith("SASL_"):
        return None
    mechanism: str = settings["sasl.mechanism"]
    if mechanism in _PASSWORD_MODULES:
        credentials = PasswordCredentials(_entry(settings, mechanism).options)
        if mechanism == PLAIN:
            return StaticLogin(mechanism, credentials, PlainSaslClient)
        from pyproducer.network.sasl.scram import ScramSaslClient  # here: hashlib and hmac, for nobody else

        return StaticLogin(mechanism, credentials, lambda credentials: ScramSaslClient(mechanism, credentials))
    _refuse_password(settings, mechanism)
    if mechanism not in _ELSEWHERE:
        raise ConfigError("sasl.mechanism", mechanism, "there is no such mechanism here: set it to one of "
                                                       f"{', '.join(sorted((*_PASSWORD_MODULES, *_ELSEWHERE)))}")
    module, function = _ELSEWHERE[mechanism]
    login: Login = getattr(importlib.import_module(module), function)(settings)
    return login


def _refuse_password(settings: Mapping[str, Any], mechanism: str) -> None:
    """Say which mechanism a login module with user name and password is for: GSSAPI is the default, not a wish."""
    if settings[KEY]:
        module = parse_jaas(settings[KEY]).login_module
        mechanisms = [name for name, own in _PASSWORD_MODULES.items() if own == module]
        if mechanisms:
            raise ConfigError("sasl.mechanism", mechanism, f"the login module of sasl.jaas.config, {module}, is for "
                                                           f"{' or '.join(mechanisms)}: set sasl.mechanism to that")


def _entry(settings: Mapping[str, Any], mechanism: str) -> JaasEntry:
    """Return the login module of the settings, which must be the mechanism's."""
    wanted = _PASSWORD_MODULES[mechanism]
    form = f"{wanted} required username=\"...\" password=\"...\";"
    if not settings[KEY]:
        raise ConfigError(KEY, None, f"sasl.mechanism = {mechanism} needs user name and password: set it to {form}")
    entry = parse_jaas(settings[KEY])
    if entry.login_module != wanted:
        raise ConfigError(KEY, entry.login_module, f"the login module of sasl.mechanism = {mechanism} is {wanted}: set "
                                                   "one of the two to what the broker's listener has")
    return entry
