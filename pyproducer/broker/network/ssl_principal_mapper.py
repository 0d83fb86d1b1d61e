r"""From the subject of a client's certificate to the name that rules know: ssl.principal.mapping.rules.

    RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/,RULE:^CN=(.*?),.*$/$1@example/L,DEFAULT

The first rule that matches the whole subject counts; L and U change the case. DEFAULT takes the subject as it is.

Road:    ServerSelector.register -> [ssl principal mapper] -> the listener's transport -> KafkaChannel
Thread:  the thread that polls the selector.
Source:  Java SslPrincipalMapper (4.1); KIP-371. Differs from Java: the patterns are Python's, which has all but
         possessive and a few Java-only forms.
"""

from __future__ import annotations

import re
import socket
from typing import NamedTuple

from pyproducer.common.errors import AuthenticationError, ConfigError
from pyproducer.network.channel import ANONYMOUS, KafkaChannel
from pyproducer.network.channel_builder import ChannelBuilder
from pyproducer.network.transport import TransportLayer

KEY = "ssl.principal.mapping.rules"
DEFAULT = "DEFAULT"
_RULE = re.compile(r"\s*(?:(?P<default>DEFAULT)|RULE:(?P<pattern>(?:\\.|[^\\/])*)/(?P<replacement>(?:\\.|[^\\/])*)/"
                   r"(?P<case>[LU]?))\s*(?:,\s*|$)")
_REFERENCE = re.compile(r"\$([0-9])")


class _Rule(NamedTuple):
    pattern: re.Pattern[str] | None
    template: str
    case: str

    def applied(self, subject: str) -> str | None:
        if self.pattern is None:
            return subject
        match = self.pattern.fullmatch(subject)
        if match is None:
            return None
        name = _REFERENCE.sub(lambda reference: match[int(reference[1])] or "", self.template)
        return name.lower() if self.case == "L" else name.upper() if self.case == "U" else name


class SslPrincipalMapper:
    """The rules of a listener.

    Raises:
        ConfigError: They are none.
    """

    def __init__(self, rules: str) -> None:
        self._rules: list[_Rule] = []
        at = 0
        while at < len(rules):
            match = _RULE.match(rules, at)
            if match is None:
                raise ConfigError(KEY, rules, f"character {at + 1}: write DEFAULT or RULE:pattern/replacement/[LU], "
                                  "with commas between them")
            self._rules.append(_rule(rules, match))
            at = match.end()

    def name_of(self, subject: str) -> str | None:
        """Return the name for a subject; None where no rule matches it."""
        return next((name for rule in self._rules if (name := rule.applied(subject)) is not None), None)


def _rule(rules: str, match: re.Match[str]) -> _Rule:
    if match["default"]:
        return _Rule(None, "", "")
    try:
        pattern = re.compile(match["pattern"])
    except re.error as error:
        raise ConfigError(KEY, rules, f"{match['pattern']} is no pattern: {error}") from error
    references = map(int, _REFERENCE.findall(match["replacement"]))
    if max(references, default=0) > pattern.groups:
        raise ConfigError(KEY, rules, f"{match['replacement']} names a group that {match['pattern']} has not")
    return _Rule(pattern, match["replacement"], match["case"])


class _MappingAuthenticator:
    """See Authenticator: the peer is who the rules say."""

    def __init__(self, transport: TransportLayer, mapper: SslPrincipalMapper) -> None:
        self.complete = False
        self.wants_write = False
        self.principal_name = ANONYMOUS
        self._transport = transport
        self._mapper = mapper

    def authenticate(self) -> None:
        """Look at the certificate.

        Raises:
            AuthenticationError: No rule matches it. Not sent.
        """
        subject = self._transport.principal_name
        if subject is not None:
            name = self._mapper.name_of(subject)
            if name is None:
                raise AuthenticationError(f"No rules apply to {subject}: see {KEY}")
            self.principal_name = f"User:{name}"
        self.complete = True

    def close(self) -> None:
        """Do nothing."""


class MappedPrincipalChannelBuilder:
    """`SSL`, of a broker with rules; see ChannelBuilder.

    Args:
        transports: Makes the channels of the same listener without rules.
        mapper: The rules.
    """

    def __init__(self, transports: ChannelBuilder, mapper: SslPrincipalMapper) -> None:
        self._transports = transports
        self._mapper = mapper

    def build(self, connection_id: str, sock: socket.socket, *, server_side: bool,
              server_hostname: str | None) -> KafkaChannel:
        """Return a channel whose principal the rules name."""
        transport = self._transports.build(connection_id, sock, server_side=server_side,
                                           server_hostname=server_hostname).transport
        return KafkaChannel(connection_id, transport, _MappingAuthenticator(transport, self._mapper))
