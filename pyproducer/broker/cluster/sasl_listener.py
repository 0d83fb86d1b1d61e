"""Which mechanisms a listener speaks, and who its users are.

    PLAIN            user_NAME="password" of PlainLoginModule, in the listener's settings
    SCRAM-SHA-...    what AlterUserScramCredentials has stored, for all listeners of the cluster
    OAUTHBEARER      tokens: unsecured ones; with sasl.oauthbearer.jwks.endpoint.url, signed ones and no other; beside
                     AWS_MSK_IAM, those of Amazon's signer
    AWS_MSK_IAM      any access key

Road:    config -> [sasl listener] -> socket server -> server authenticator
Thread:  made and closed by one; what it makes belongs to the processors.
Source:  Java SaslChannelBuilder.configure, createServerCallbackHandlers, JaasContext.loadServerContext (4.1). Differs
         from Java: SCRAM, OAUTHBEARER and AWS_MSK_IAM need no sasl.jaas.config, which says little there; the address of
         keys alone is enough for signed tokens, where Java without a callback handler class takes unsecured ones.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from pyproducer.broker.cluster.config import BrokerConfig
from pyproducer.broker.cluster.listener import EndPoint
from pyproducer.broker.cluster.sasl.aws_msk_iam_server import AwsMskIamSaslServer, AwsMskIamTokenValidator
from pyproducer.broker.cluster.sasl.jwks_validator import URL_KEY, JwksSettings, JwksTokenValidator
from pyproducer.broker.cluster.sasl.oauthbearer_server import (
    OAuthBearerSaslServer,
    TokenValidator,
    UnsecuredTokenValidator,
)
from pyproducer.broker.cluster.sasl.plain_server import PlainSaslServer, PlainUsers
from pyproducer.broker.cluster.sasl.sasl_server import SaslServer
from pyproducer.broker.cluster.sasl.scram_server import ScramSaslServer
from pyproducer.broker.cluster.scram_credentials import CredentialOf
from pyproducer.broker.cluster.security_config import MECHANISMS
from pyproducer.common.clock import Clock
from pyproducer.common.errors import ConfigError
from pyproducer.common.jaas import KEY, MSK_IAM_MODULE, OAUTHBEARER_MODULE, PLAIN_MODULE, SCRAM_MODULE, parse_jaas
from pyproducer.network.sasl.scram_formatter import ScramMechanism

NewServer = Callable[[], SaslServer]
_LOGIN_MODULES = {
    "PLAIN": PLAIN_MODULE, "SCRAM-SHA-256": SCRAM_MODULE, "SCRAM-SHA-512": SCRAM_MODULE,
    "OAUTHBEARER": OAUTHBEARER_MODULE, "AWS_MSK_IAM": MSK_IAM_MODULE,
}
_ENABLED = "sasl.enabled.mechanisms"
_HANDLER = "sasl.server.callback.handler.class"
_VALIDATOR = "OAuthBearerValidatorCallbackHandler"


class SaslListener:
    """The mechanisms of one listener.

    Args:
        config: The broker's settings.
        end_point: The listener.
        credential_of: What is kept of the passwords of SCRAM.
        clock: The clocks.

    Attributes:
        servers: What makes the broker's half of each mechanism, in the order of sasl.enabled.mechanisms.
        max_reauth_ms: How long a session of each lasts; 0 for ever.

    Raises:
        ConfigError: A mechanism is not spoken here, or its settings make no sense.
    """

    def __init__(self, config: BrokerConfig, end_point: EndPoint, credential_of: CredentialOf, clock: Clock) -> None:
        self._config = config
        self._name = end_point.listener_name
        self._clock = clock
        self._jwks: list[JwksTokenValidator] = []
        enabled = config.listener_value(self._name, _ENABLED)
        assert isinstance(enabled, tuple)
        self.servers: dict[str, NewServer] = {}
        for mechanism in enabled:
            if mechanism not in MECHANISMS:
                raise ConfigError(_ENABLED, mechanism, f"listener {self._name} needs some of the mechanisms that this "
                                  f"broker speaks: {', '.join(MECHANISMS)}")
            self.servers[mechanism] = self._new_server(mechanism, enabled, credential_of)
        if not self.servers:
            raise ConfigError(_ENABLED, "", f"No SASL mechanisms are enabled for listener {self._name}")
        self.max_reauth_ms: dict[str, int] = {
            mechanism: self._number("connections.max.reauth.ms", mechanism) for mechanism in enabled}

    def start(self) -> None:
        """Fetch the keys of tokens, the first time here, and from then on on threads."""
        for validator in self._jwks:
            validator.start()

    def close(self) -> None:
        """End the threads; harmless when there are none."""
        for validator in self._jwks:
            validator.close()

    def _new_server(self, mechanism: str, enabled: Sequence[str], credential_of: CredentialOf) -> NewServer:
        options = self._options(mechanism)
        handler = self._text(_HANDLER, mechanism)
        if handler and not (mechanism == "OAUTHBEARER" and handler.endswith(f".{_VALIDATOR}")):
            raise ConfigError(_HANDLER, handler, "a class of Java cannot be loaded here; known is "
                              f"org.apache.kafka.common.security.oauthbearer.{_VALIDATOR}, for OAUTHBEARER")
        if mechanism == "PLAIN":
            return partial(PlainSaslServer, PlainUsers(options))
        if mechanism == "OAUTHBEARER":
            return partial(OAuthBearerSaslServer, self._token_validator(options, enabled, bool(handler)))
        if mechanism == "AWS_MSK_IAM":
            return partial(AwsMskIamSaslServer, self._clock.timestamp_ms)
        return partial(ScramSaslServer, ScramMechanism(mechanism), partial(credential_of, mechanism))

    def _options(self, mechanism: str) -> Mapping[str, str]:
        key = self._jaas_key(mechanism)
        module = _LOGIN_MODULES[mechanism]
        text = self._text(KEY, mechanism)
        if text is None or key not in self._config.given:
            if mechanism == "PLAIN":
                raise ConfigError(key, None, f"PLAIN has no users; write: {module} required user_NAME=\"password\";")
            return {}
        entry = parse_jaas(text, key)
        if entry.login_module != module:
            raise ConfigError(key, entry.login_module, f"the login module of {mechanism} is {module}")
        return entry.options

    def _token_validator(self, options: Mapping[str, str], enabled: Sequence[str], is_asked: bool) -> TokenValidator:
        url = self._text(URL_KEY, "OAUTHBEARER")
        if url is None:
            if is_asked:
                raise ConfigError(URL_KEY, None, f"{_VALIDATOR} needs the address of the keys")
            if "AWS_MSK_IAM" in enabled:
                return AwsMskIamTokenValidator(self._clock.timestamp_ms)
            try:
                return UnsecuredTokenValidator(options, self._clock.timestamp_ms)
            except ValueError as error:
                raise ConfigError(self._jaas_key("OAUTHBEARER"), None, str(error)) from error
        prefix = "sasl.oauthbearer."
        audience = self._config.listener_value(self._name, f"{prefix}expected.audience", "OAUTHBEARER")
        validator = JwksTokenValidator(JwksSettings(
            url,
            refresh_ms=self._number(f"{prefix}jwks.endpoint.refresh.ms"),
            retry_backoff_ms=self._number(f"{prefix}jwks.endpoint.retry.backoff.ms"),
            retry_backoff_max_ms=self._number(f"{prefix}jwks.endpoint.retry.backoff.max.ms"),
            expected_audience=audience if isinstance(audience, tuple) else (),
            expected_issuer=self._text(f"{prefix}expected.issuer", "OAUTHBEARER"),
            clock_skew_s=self._number(f"{prefix}clock.skew.seconds"),
            sub_claim_name=self._text(f"{prefix}sub.claim.name", "OAUTHBEARER") or "sub"), clock=self._clock)
        self._jwks.append(validator)
        return validator

    def _jaas_key(self, mechanism: str) -> str:
        return f"listener.name.{self._name.lower()}.{mechanism.lower()}.{KEY}"

    def _text(self, name: str, mechanism: str) -> str | None:
        value = self._config.listener_value(self._name, name, mechanism)
        return None if value is None else str(value)

    def _number(self, name: str, mechanism: str = "OAUTHBEARER") -> int:
        value = self._config.listener_value(self._name, name, mechanism)
        assert isinstance(value, int)
        return value


def is_sasl(end_point: EndPoint) -> bool:
    """Whether the clients of a listener log in with SASL."""
    return end_point.security_protocol.startswith("SASL_")
