"""Keys that a producer does not have and that people give it: those of consumers, of the JVM, of other clients.

Road:    other names -> [other keys] -> table
Thread:  constants.
Source:  Java ConsumerConfig, AdminClientConfig, ProducerConfig (4.3, and what is merged for 4.4), StringSerializer,
         StringDeserializer (4.1); Confluent's serializers and interceptors; other clients' names: librdkafka
         CONFIGURATION.md (2.x), kafka-python, aiokafka.
"""

from __future__ import annotations

from pyproducer.common.jaas import KERBEROS_MODULE, PLAIN_MODULE, SCRAM_MODULE
from pyproducer.common.settings.table import OtherKeys
from pyproducer.producer.config.other_names import JAVAS

CONSUMER_KEYS = frozenset({
    "allow.auto.create.topics", "auto.commit.interval.ms", "auto.offset.reset", "check.crcs",
    "default.api.timeout.ms", "enable.auto.commit", "exclude.internal.topics", "fetch.max.bytes", "fetch.max.wait.ms",
    "fetch.min.bytes", "group.id", "group.instance.id", "group.protocol", "group.remote.assignor",
    "heartbeat.interval.ms", "isolation.level", "key.deserializer", "max.partition.fetch.bytes",
    "max.poll.interval.ms", "max.poll.records", "partition.assignment.strategy", "session.timeout.ms",
    "share.acknowledgement.mode", "share.acquire.mode", "value.deserializer",
})
"""Keys of Java's ConsumerConfig (4.3) that a producer does not have: shared property files hold them."""

ADMIN_KEYS = frozenset({"bootstrap.controllers"})
"""Keys of Java's AdminClientConfig (4.3) that neither a producer nor a consumer has."""

JVM_KEYS = frozenset({"auto.include.jmx.reporter"})
"""Keys of older Java producers that only a JVM can use."""

NEWER_KEYS = frozenset({"bootstrap.resolve.timeout.ms", "buffer.memory.allocation.strategy",
                        "metadata.cluster.check.enable"})
"""Keys of Java's producer that came after 4.1 and do nothing here; those that do are rows with a `since`."""

SERIALIZER_KEYS = frozenset({
    "auto.register.schemas", "avro.reflection.allow.null", "avro.remove.java.properties",
    "avro.use.logical.type.converters", "context.name.strategy", "http.connect.timeout.ms", "http.read.timeout.ms",
    "id.compatibility.strict", "json.default.property.inclusion", "json.fail.invalid.schema",
    "json.fail.unknown.properties", "json.indent.output", "json.oneof.for.nullables", "json.schema.spec.version",
    "json.write.dates.iso8601", "key.schema.id.deserializer", "key.schema.id.serializer", "key.subject.name.strategy",
    "latest.cache.size", "latest.cache.ttl.sec", "latest.compatibility.strict", "max.schemas.per.subject",
    "normalize.schemas", "propagate.schema.tags", "proxy.host", "proxy.port",
    "reference.lookup.only", "reference.subject.name.strategy", "retries.max.wait.ms", "retries.wait.ms",
    "rule.actions", "rule.executors", "rule.service.loader.enable", "schema.format", "schema.reflection",
    "skip.known.types", "specific.avro.reader", "use.latest.version", "use.latest.with.metadata", "use.schema.id",
    "value.schema.id.deserializer", "value.schema.id.serializer", "value.subject.name.strategy",
})
"""Keys of Confluent's serializers that begin with no word of their own."""

STRING_SERIALIZER_KEYS = ("key.serializer.encoding", "value.serializer.encoding", "serializer.encoding")
"""Keys of Java's StringSerializer, which ours reads."""

LIST_SERDE_KEYS = ("default.list.key.serde.inner", "default.list.value.serde.inner")
"""Keys of Java's ListSerializer, which ours reads."""

LIST_DESERIALIZER_KEYS = frozenset({"default.list.key.serde.type", "default.list.value.serde.type"})
"""Keys of Java's ListDeserializer, which is a consumer's."""

STRING_DESERIALIZER_KEYS = frozenset({"key.deserializer.encoding", "value.deserializer.encoding",
                                      "deserializer.encoding"})
"""Keys of Java's StringDeserializer, which is a consumer's."""

FOREIGN_PREFIXES = ("schema.registry.", "basic.auth.", "bearer.auth.", "request.header.", "rule.executors.",
                    "rule.actions.", "apicurio.registry.",
                    "confluent.metrics.reporter.", "confluent.monitoring.interceptor.", "metrics.context.")
"""Families of schema registries' clients, of Confluent's interceptors and of Java's metrics reporters (KIP-606)."""

MEANT = {
    # These by any spelling; by librdkafka's own they have become Java's before the table is asked.
    **{name: javas[0] for name, javas in JAVAS.items()},
    "queue.buffering.max.messages": "buffer.memory",
    "compression.level": "compression.zstd.level",
    "batch.num.messages": "batch.size",
    "max.batch.size": "batch.size",
    "topic.metadata.refresh.interval.ms": "metadata.max.age.ms",
    "socket.timeout.ms": "request.timeout.ms",
    "sasl.plain.username": "sasl.jaas.config",
    "sasl.plain.password": "sasl.jaas.config",
    "sasl.kerberos.domain.name": "sasl.kerberos.service.name",
    "sasl.oauth.token.provider": "sasl.login.callback.handler.class",
    "oauthbearer.token.refresh.cb": "sasl.login.callback.handler.class",
    "oauth.cb": "sasl.login.callback.handler.class",
    "sasl.oauthbearer.method": "sasl.oauthbearer.jwt.retriever.class",
    "sasl.oauthbearer.metadata.authentication.type": "sasl.login.callback.handler.class",
    "ssl.providers": "ssl.engine.factory.class",
    "ssl.engine.location": "ssl.engine.factory.class",
    "partitioner.cb": "partitioner.class",
    "sasl.oauthbearer.config": "sasl.jaas.config",
    "enable.sasl.oauthbearer.unsecure.jwt": "sasl.jaas.config",
    "sasl.oauthbearer.assertion.private.key.pem": "sasl.oauthbearer.assertion.private.key.file",
    "sasl.oauthbearer.assertion.jwt.template.file": "sasl.oauthbearer.assertion.template.file",
    "sasl.oauthbearer.assertion.claim.subject": "sasl.oauthbearer.assertion.claim.sub",
    "sasl.oauthbearer.assertion.claim.issuer": "sasl.oauthbearer.assertion.claim.iss",
    "sasl.oauthbearer.assertion.claim.audience": "sasl.oauthbearer.assertion.claim.aud",
    "ssl.cafile": "ssl.truststore.location",
    "ssl.ca": "ssl.truststore.certificates",
    "ssl.certificate": "ssl.keystore.certificate.chain",
    "ssl.certificate.location": "ssl.keystore.location",
    "ssl.certfile": "ssl.keystore.location",
    "ssl.key": "ssl.keystore.key",
    "ssl.key.location": "ssl.keystore.location",
    "ssl.keyfile": "ssl.keystore.location",
    "ssl.password": "ssl.key.password",
    "ssl.ciphers": "ssl.cipher.suites",
    "ssl.context": "ssl.engine.factory.class",
    "ssl.crl.location": "ssl.engine.factory.class",
    "ssl.crlfile": "ssl.engine.factory.class",
    "ssl.curves.list": "ssl.engine.factory.class",
    "ssl.sigalgs.list": "ssl.engine.factory.class",
    "ssl.certificate.verify.cb": "ssl.engine.factory.class",
    "enable.ssl.certificate.verification": "ssl.engine.factory.class",
    "ssl.check.hostname": "ssl.endpoint.identification.algorithm",
    "sticky.partitioning.linger.ms": "partitioner.class",
    "interceptors": "interceptor.classes",
}
"""Other clients' names, and what they are here."""

_PEM_PAIR = ("Put key and certificate into one PEM file and name that, with ssl.keystore.type=PEM; or give their text "
             "in ssl.keystore.key and ssl.keystore.certificate.chain.")
_USER = (f'Write sasl.jaas.config={PLAIN_MODULE} required username="..." password="..."; '
         f"(SCRAM: {SCRAM_MODULE}).")
_CONTEXT = "Give an ssl.SSLContext that is set up so."
_CALLBACK = "Give the callable that returns a token."
_KRB5 = f'Write sasl.jaas.config={KERBEROS_MODULE} required useKeyTab=true keyTab="..." principal="...";'
_LOGGING = "Leave it out: Python's logging is used, under the name 'pyproducer'."
_METRICS = "Leave it out: producer.metrics() has the numbers when you ask."
_CALL = "Leave it out: send() takes a callback for each record, and returns a future."
_ALWAYS = "Leave it out: that is always so here."
_NOT_HERE = "Leave it out: there is nothing like it here."

ANSWERS = {
    "sasl.username": _USER, "sasl.password": _USER, "sasl.plain.username": _USER, "sasl.plain.password": _USER,
    "sasl.kerberos.keytab": _KRB5, "sasl.kerberos.principal": _KRB5,
    "sasl.oauthbearer.config": "Write its pairs as options of the login module OAuthBearerLoginModule.",
    "sasl.oauthbearer.extensions": "Write each as an option extension_NAME=\"...\" of OAuthBearerLoginModule.",
    "enable.sasl.oauthbearer.unsecure.jwt": "Write the option unsecuredLoginStringClaim_sub=\"...\" of "
                                            "OAuthBearerLoginModule.",
    "sasl.oauthbearer.method": "With sasl.oauthbearer.token.endpoint.url the token is fetched from there (oidc).",
    "sasl.oauth.token.provider": _CALLBACK, "oauthbearer.token.refresh.cb": _CALLBACK, "oauth.cb": _CALLBACK,
    "ssl.ca.location": "Its value fits, with ssl.truststore.type=PEM.",
    "ssl.cafile": "Its value fits, with ssl.truststore.type=PEM.",
    "ssl.certificate.location": _PEM_PAIR, "ssl.certfile": _PEM_PAIR, "ssl.key.location": _PEM_PAIR,
    "ssl.keyfile": _PEM_PAIR,
    "ssl.crl.location": _CONTEXT, "ssl.crlfile": _CONTEXT, "ssl.curves.list": _CONTEXT, "ssl.sigalgs.list": _CONTEXT,
    "ssl.certificate.verify.cb": _CONTEXT,
    "enable.ssl.certificate.verification": "To check no certificate at all, give an ssl.SSLContext that does not; to "
                                           "trust one of your own, name it in ssl.truststore.location.",
    "ssl.check.hostname": "False is the empty value here.",
    "queue.buffering.max.kbytes": "Its value times 1024: buffer.memory counts bytes.",
    "queue.buffering.max.messages": "It counts bytes, and send() waits when they are used up.",
    "batch.num.messages": "It counts bytes.",
    "compression.level": "Or compression.gzip.level, compression.lz4.level: each codec has its own.",
    "partitioner": "'consistent_random', 'murmur2_random' and 'fnv1a_random' are known there; unset is murmur2 or "
                   "round-robin.",
    "sticky.partitioning.linger.ms": "'uniform_sticky' stays at a partition for batch.size bytes.",
    "debug": "Leave it out: logging.getLogger('pyproducer').setLevel(logging.DEBUG) says more.",
    "log.level": _LOGGING, "log.queue": _LOGGING, "log.thread.name": _LOGGING, "log.cb": _LOGGING, "logger": _LOGGING,
    "log.connection.close": _LOGGING,
    "statistics.interval.ms": _METRICS, "stats.cb": _METRICS,
    "dr.cb": _CALL, "dr.msg.cb": _CALL, "on.delivery": _CALL, "delivery.report.only.error": _CALL, "error.cb": _CALL,
    "throttle.cb": _NOT_HERE, "opaque": _CALL, "default.topic.config": "Write its settings beside the others.",
    "socket.keepalive.enable": _ALWAYS, "socket.nagle.disable": _ALWAYS, "api.version.request": _ALWAYS,
    "topic.metadata.refresh.sparse": _ALWAYS, "produce.offset.report": _ALWAYS, "queuing.strategy": _ALWAYS,
    "api.version": _ALWAYS, "api.version.request.timeout.ms": _ALWAYS, "api.version.fallback.ms": _ALWAYS,
    "broker.version.fallback": _ALWAYS, "broker.address.ttl": _NOT_HERE, "broker.address.family": _NOT_HERE,
    "socket.max.fails": _NOT_HERE, "enable.gapless.guarantee": _NOT_HERE, "plugin.library.paths": _NOT_HERE,
    "topic.metadata.refresh.fast.interval.ms": _NOT_HERE, "topic.metadata.propagation.max.ms": _NOT_HERE,
    "queue.buffering.backpressure.threshold": _NOT_HERE, "message.copy.max.bytes": _NOT_HERE,
    "receive.message.max.bytes": _NOT_HERE, "topic.blacklist": _NOT_HERE, "reconnect.backoff.jitter.ms": _ALWAYS,
    "topic.metadata.refresh.fast.cnt": _NOT_HERE, "socket.blocking.max.ms": _NOT_HERE, "builtin.features": _NOT_HERE,
    "enable.random.seed": _NOT_HERE, "internal.termination.signal": _NOT_HERE, "msg.order.cmp": _NOT_HERE,
    "socket.cb": _NOT_HERE, "connect.cb": _NOT_HERE, "closesocket.cb": _NOT_HERE, "open.cb": _NOT_HERE,
    "resolve.cb": _NOT_HERE, "enabled.events": _CALL, "background.event.cb": _CALL,
    "default.topic.conf": "Write its settings beside the others.",
    "ssl.providers": _CONTEXT, "ssl.engine.location": _CONTEXT, "ssl.engine.id": _CONTEXT,
    "ssl.engine.callback.data": _CONTEXT,
    "sasl.oauthbearer.metadata.authentication.type": "Give the callable that asks the instance's metadata for a token.",
    "ssl.ca.certificate.stores": "Leave it out: unset, the system's certificates are trusted.",
    "https.ca.location": "Leave it out: the identity provider is trusted as the brokers are.",
    "https.ca.pem": "Leave it out: the identity provider is trusted as the brokers are.",
}
"""What to say to names of other clients besides, or where nothing here is meant by them."""

OTHER_KEYS = OtherKeys(ignored=(CONSUMER_KEYS | ADMIN_KEYS | JVM_KEYS | NEWER_KEYS | SERIALIZER_KEYS
                                | STRING_DESERIALIZER_KEYS | LIST_DESERIALIZER_KEYS),
                       ignored_prefixes=FOREIGN_PREFIXES, meant=MEANT, answers=ANSWERS,
                       read_elsewhere=frozenset((*STRING_SERIALIZER_KEYS, *LIST_SERDE_KEYS)))
