"""The broker's settings of SASL and of permissions, and which of them a listener or a mechanism may have for itself.

    sasl.enabled.mechanisms                                        of all listeners
    listener.name.{listener}.sasl.enabled.mechanisms               of one
    listener.name.{listener}.{mechanism}.sasl.jaas.config          of one mechanism of one; in small letters

Road:    [security config] -> config
Thread:  constants.
Source:  Java BrokerSecurityConfigs, SaslConfigs, SocketServerConfigs, ListenerName, StandardAuthorizer (4.1).
"""

from __future__ import annotations

import re

from pyproducer.common.settings.definition import OneOf, Range, Setting, Type

MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "AWS_MSK_IAM")
"""What the broker speaks."""

OF_LISTENER = re.compile(
    r"listener\.name\.[a-z0-9_-]+\.(?:(?:plain|scram-sha-256|scram-sha-512|oauthbearer|aws_msk_iam|gssapi)\.)?"
    r"(?P<setting>(?:ssl|sasl|connections)\..+)", re.IGNORECASE)
"""The name of a setting that one listener, or one mechanism of it, has for itself."""

_OAUTH = "sasl.oauthbearer."
# The second is that of clusters with ZooKeeper, whose rules are the same.
AUTHORIZERS = ("org.apache.kafka.metadata.authorizer.StandardAuthorizer", "kafka.security.authorizer.AclAuthorizer")
SECURITY_ROWS = (
    Setting("authorizer.class.name", Type.STRING, "",
            "Who may do what: StandardAuthorizer asks the rules of kafka-acls.sh; nothing allows everything.",
            OneOf(("", *AUTHORIZERS))),
    Setting("super.users", Type.STRING, "", "Who may do everything: User:name;User:name."),
    Setting("allow.everyone.if.no.acl.found", Type.BOOLEAN, False,
            "Whether everybody may do everything with what there is no rule for."),
    Setting("sasl.enabled.mechanisms", Type.LIST, ("GSSAPI",),
            f"What clients may log in with: {', '.join(MECHANISMS)}."),
    Setting("sasl.jaas.config", Type.PASSWORD, None,
            "The users or options of a mechanism; only as listener.name.{listener}.{mechanism}.sasl.jaas.config."),
    Setting("sasl.server.callback.handler.class", Type.CLASS, None,
            "OAuthBearerValidatorCallbackHandler checks tokens with sasl.oauthbearer.*; no other class can be loaded."),
    Setting("sasl.server.max.receive.size", Type.INT, 512 * 1024, "Largest request before a client has logged in."),
    Setting("connections.max.reauth.ms", Type.LONG, 0,
            "How long a client may use a connection before it logs in again; 0 for ever."),
    Setting("connection.failed.authentication.delay.ms", Type.INT, 100,
            "How long a client waits that could not log in.", Range(0)),
    Setting(f"{_OAUTH}jwks.endpoint.url", Type.STRING, None,
            "Where the keys are that sign tokens: a file: or http(s): address."),
    Setting(f"{_OAUTH}jwks.endpoint.refresh.ms", Type.LONG, 3_600_000, "How often the keys are fetched."),
    Setting(f"{_OAUTH}jwks.endpoint.retry.backoff.ms", Type.LONG, 100, "First wait before they are fetched again."),
    Setting(f"{_OAUTH}jwks.endpoint.retry.backoff.max.ms", Type.LONG, 10_000, "Longest such wait."),
    Setting(f"{_OAUTH}clock.skew.seconds", Type.INT, 30, "How far apart the clocks may be."),
    Setting(f"{_OAUTH}expected.audience", Type.LIST, None, "A token must be for one of them."),
    Setting(f"{_OAUTH}expected.issuer", Type.STRING, None, "A token must be from it."),
    Setting(f"{_OAUTH}sub.claim.name", Type.STRING, "sub", "The claim that says whose a token is."),
)
