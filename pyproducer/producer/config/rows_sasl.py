"""Settings of SASL.

Road:    [rows] -> table -> ProducerConfig
Thread:  immutable.
Source:  Java SaslConfigs (4.1).
"""

from __future__ import annotations

from pyproducer.common.settings.definition import OneOf, Range, Setting, Support, Type

_JAVA_OAUTH = "org.apache.kafka.common.security.oauthbearer."

SASL: tuple[Setting, ...] = (
    Setting("sasl.mechanism", Type.STRING, "GSSAPI",
            "GSSAPI, PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER or AWS_MSK_IAM."),
    Setting("sasl.jaas.config", Type.PASSWORD, None, "One line of JAAS with user name and password."),
    Setting("sasl.client.callback.handler.class", Type.CLASS, None, "Supplies the client's answers."),
    Setting("sasl.login.callback.handler.class", Type.CLASS, None, "Fetches credentials or tokens."),
    Setting("sasl.login.class", Type.CLASS, None, "Replaces the JVM's Login.", support=Support.JVM_ONLY),
    # Kerberos.
    Setting("sasl.kerberos.kinit.cmd", Type.STRING, "/usr/bin/kinit", "Path of kinit."),
    Setting("sasl.kerberos.min.time.before.relogin", Type.LONG, 60000, "Shortest pause between refreshes, in ms."),
    Setting("sasl.kerberos.service.name", Type.STRING, None, "Service part of the broker's principal."),
    Setting("sasl.kerberos.ticket.renew.jitter", Type.DOUBLE, 0.05, "Random part added to the time of renewal."),
    Setting("sasl.kerberos.ticket.renew.window.factor", Type.DOUBLE, 0.8,
            "Fraction of a ticket's life after which it is renewed."),
    # Login.
    Setting("sasl.login.connect.timeout.ms", Type.INT, None, "Longest wait to connect to the identity provider."),
    Setting("sasl.login.read.timeout.ms", Type.INT, None, "Longest wait for the identity provider's answer."),
    Setting("sasl.login.refresh.buffer.seconds", Type.SHORT, 300, "Refresh so long before a token ends.",
            Range(0, 3600)),
    Setting("sasl.login.refresh.min.period.seconds", Type.SHORT, 60, "Do not refresh more often.", Range(0, 900)),
    Setting("sasl.login.refresh.window.factor", Type.DOUBLE, 0.8,
            "Fraction of a token's life after which it is refreshed.", Range(0.5, 1.0)),
    Setting("sasl.login.refresh.window.jitter", Type.DOUBLE, 0.05, "Random part of that time.", Range(0.0, 0.25)),
    Setting("sasl.login.retry.backoff.max.ms", Type.LONG, 10000, "Ceiling of the wait before asking again."),
    Setting("sasl.login.retry.backoff.ms", Type.LONG, 100, "First wait before asking again."),
    # OAuth: the assertion that this client signs.
    Setting("sasl.oauthbearer.assertion.algorithm", Type.STRING, "RS256", "Signature of the assertion.",
            OneOf(("ES256", "RS256"), is_case_insensitive=True)),
    Setting("sasl.oauthbearer.assertion.claim.aud", Type.STRING, None, "Audience of the assertion."),
    Setting("sasl.oauthbearer.assertion.claim.exp.seconds", Type.INT, 300, "Life of the assertion.",
            Range(0, 86400)),
    Setting("sasl.oauthbearer.assertion.claim.iss", Type.STRING, None, "Issuer of the assertion."),
    Setting("sasl.oauthbearer.assertion.claim.jti.include", Type.BOOLEAN, False, "Add a unique id."),
    Setting("sasl.oauthbearer.assertion.claim.nbf.seconds", Type.INT, 60, "Valid from so long before now.",
            Range(0, 3600)),
    Setting("sasl.oauthbearer.assertion.claim.sub", Type.STRING, None, "Subject of the assertion."),
    Setting("sasl.oauthbearer.assertion.file", Type.STRING, None, "A ready assertion, read again when it changes."),
    Setting("sasl.oauthbearer.assertion.private.key.file", Type.STRING, None, "PEM key that signs the assertion."),
    Setting("sasl.oauthbearer.assertion.private.key.passphrase", Type.PASSWORD, None, "Passphrase of that key."),
    Setting("sasl.oauthbearer.assertion.template.file", Type.STRING, None,
            "JSON with fixed headers and claims of the assertion."),
    # OAuth: the token.
    Setting("sasl.oauthbearer.client.credentials.client.id", Type.STRING, None, "Client id at the identity provider."),
    Setting("sasl.oauthbearer.client.credentials.client.secret", Type.PASSWORD, None, "Secret of that client."),
    Setting("sasl.oauthbearer.header.urlencode", Type.BOOLEAN, False, "Encode id and secret in the header."),
    Setting("sasl.oauthbearer.jwt.retriever.class", Type.CLASS, _JAVA_OAUTH + "DefaultJwtRetriever",
            "How a token is obtained."),
    Setting("sasl.oauthbearer.jwt.validator.class", Type.CLASS, _JAVA_OAUTH + "DefaultJwtValidator",
            "How a token is checked before use."),
    Setting("sasl.oauthbearer.scope", Type.STRING, None, "Scope that is asked for."),
    Setting("sasl.oauthbearer.scope.claim.name", Type.STRING, "scope", "Claim with the scope."),
    Setting("sasl.oauthbearer.sub.claim.name", Type.STRING, "sub", "Claim with the subject."),
    Setting("sasl.oauthbearer.token.endpoint.url", Type.STRING, None, "Where tokens are fetched."),
    Setting("pyproducer.oauth.token.provider", Type.CLASS, None,
            "A function, sync or async, that returns a token, or an object with token(); called on the login's "
            "thread. Differs from Java, which has sasl.login.callback.handler.class for it; that takes the same here.",
            support=Support.OURS),
    # OAuth: what only a broker does with a token.
    Setting("sasl.oauthbearer.clock.skew.seconds", Type.INT, 30, "Tolerated difference of clocks.",
            support=Support.VALIDATOR_ONLY),
    Setting("sasl.oauthbearer.expected.audience", Type.LIST, None, "Audiences that are accepted.",
            support=Support.VALIDATOR_ONLY),
    Setting("sasl.oauthbearer.expected.issuer", Type.STRING, None, "Issuer that is accepted.",
            support=Support.VALIDATOR_ONLY),
    Setting("sasl.oauthbearer.jwks.endpoint.refresh.ms", Type.LONG, 3600000, "Life of the cached keys.",
            support=Support.VALIDATOR_ONLY),
    Setting("sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms", Type.LONG, 10000,
            "Ceiling of the wait before fetching keys again.", support=Support.VALIDATOR_ONLY),
    Setting("sasl.oauthbearer.jwks.endpoint.retry.backoff.ms", Type.LONG, 100, "First such wait.",
            support=Support.VALIDATOR_ONLY),
    Setting("sasl.oauthbearer.jwks.endpoint.url", Type.STRING, None, "Where the keys are fetched.",
            support=Support.VALIDATOR_ONLY),
)
