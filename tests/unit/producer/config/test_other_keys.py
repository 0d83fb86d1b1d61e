"""A key that nobody knows is an error that names the key that was meant."""

from __future__ import annotations

import logging

import pytest

from pyproducer.common.errors import ConfigError
from pyproducer.producer.config import CONFIG_TABLE, ProducerConfig
from pyproducer.producer.config.other_keys import ANSWERS, CONSUMER_KEYS, MEANT

SERVERS = {"bootstrap.servers": "localhost:9092"}


@pytest.mark.parametrize(("given", "meant"), [
    ("linger_ms", "linger.ms"), ("Linger.Ms", "linger.ms"), ("lingerms", "linger.ms"), ("batchsize", "batch.size"),
    ("bootstrap.server", "bootstrap.servers"), ("compression.typ", "compression.type"), ("ack", "acks"),
    ("max.in.flight.requests", "max.in.flight.requests.per.connection"),
    ("queue_buffering_max_ms", "linger.ms"), ("message_timeout_ms", "delivery.timeout.ms"),
    ("ssl_ca_location", "ssl.truststore.location"), ("security_protocol", "security.protocol"),
    ("enable-idempotence", "enable.idempotence"), ("sasl_username", "sasl.jaas.config"),
])
def test_key_when_nearly_right_then_the_error_names_the_right_one(given: str, meant: str) -> None:
    with pytest.raises(ConfigError) as caught:
        ProducerConfig({**SERVERS, given: "1"})
    assert caught.value.key == given
    assert f"did you mean {meant!r}?" in str(caught.value)


def test_key_when_far_from_all_then_no_guess() -> None:
    with pytest.raises(ConfigError, match=r"unknown setting$"):
        ProducerConfig({**SERVERS, "zzzzzzzz": "1"})
    assert CONFIG_TABLE.nearest("zzzzzzzz") is None


def test_key_when_it_is_no_string_then_said_so() -> None:
    with pytest.raises(ConfigError, match="a key must be a string, got a int"):
        ProducerConfig({**SERVERS, 5: "1"})  # type: ignore[dict-item]  # that is the test


@pytest.mark.parametrize("key", ["sasl.password", "ssl.key.pasword", "my.secret", "ssl_key_password"])
def test_value_when_the_key_sounds_secret_then_hidden(key: str) -> None:
    with pytest.raises(ConfigError) as caught:
        ProducerConfig({**SERVERS, key: "hunter2"})
    assert "hunter2" not in str(caught.value)


def test_other_clients_names_when_listed_then_they_lead_to_known_keys() -> None:
    assert set(MEANT.values()) <= set(CONFIG_TABLE)
    assert not set(MEANT) & set(CONFIG_TABLE)
    assert not CONSUMER_KEYS & set(CONFIG_TABLE)


def test_keys_when_only_a_consumer_or_jvm_uses_them_then_one_warning(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        config = ProducerConfig({**SERVERS, "group.id": "g", "ssl.provider": "SunJSSE",
                                 "auto.include.jmx.reporter": "true", "sasl.oauthbearer.clock.skew.seconds": 5})
    assert len(caplog.records) == 1
    assert ("auto.include.jmx.reporter, group.id, sasl.oauthbearer.clock.skew.seconds, ssl.provider"
            in caplog.records[0].getMessage())
    assert config.ssl_provider == "SunJSSE"
    assert "group.id" not in config
    assert config.originals["group.id"] == "g"


def test_keys_when_all_mean_something_then_no_warning(caplog: pytest.LogCaptureFixture) -> None:
    ProducerConfig({**SERVERS, "linger.ms": 5, "ssl.provider": None})
    assert caplog.records == []


def test_setting_when_nothing_reads_it_then_it_is_told(caplog: pytest.LogCaptureFixture) -> None:
    key = "metrics.recording.level"
    config = ProducerConfig({**SERVERS, key: "DEBUG"})
    assert [record.getMessage() for record in caplog.records] == [
        f"These settings have no effect on a producer in Python: {key}"]
    assert key in config.without_effect
    assert key in config.explicit


@pytest.mark.parametrize(("key", "value"), [
    ("enable.metrics.push", "false"), ("metric.reporters", "example:Reporter"), ("metrics.num.samples", 3),
    ("metrics.sample.window.ms", 1000)])
def test_setting_of_metrics_when_it_is_read_then_nothing_is_told(key: str, value: object,
                                                                 caplog: pytest.LogCaptureFixture) -> None:
    config = ProducerConfig({**SERVERS, key: value})
    assert caplog.records == []
    assert key not in config.without_effect


JMX = "org.apache.kafka.common.metrics.JmxReporter"
FOREIGN = {"schema.registry.url": "http://r:8081", "schema.registry.basic.auth.user.info": "key:hunter2",
           "basic.auth.credentials.source": "USER_INFO", "bearer.auth.token": "hunter2",
           "auto.register.schemas": "true", "metrics.context.cluster.name": "east",
           "bootstrap.controllers": "c:9093", "bootstrap.resolve.timeout.ms": "5", "group.id": "g"}


def test_keys_when_of_registries_consumers_admins_or_newer_releases_then_one_warning_without_values(
        caplog: pytest.LogCaptureFixture) -> None:
    config = ProducerConfig({**SERVERS, **FOREIGN})
    assert [record.getMessage() for record in caplog.records] == [
        f"These settings have no effect on a producer in Python: {', '.join(sorted(FOREIGN))}"]
    assert "hunter2" not in f"{config!r} {config.originals!r}"
    assert config.originals["bearer.auth.token"] == "hunter2"


def test_charsets_of_strings_when_given_then_they_are_known_and_no_warning_is_due(
        caplog: pytest.LogCaptureFixture) -> None:
    """unknown setting; did you mean 'value.serializer'?"""
    given = {"value.serializer": "org.apache.kafka.common.serialization.StringSerializer",
             "value.serializer.encoding": "UTF-16", "serializer.encoding": "UTF-8",
             "default.list.key.serde.inner": "org.apache.kafka.common.serialization.Serdes$StringSerde"}
    config = ProducerConfig({**SERVERS, **given})
    assert caplog.records == []
    assert config.originals == {**SERVERS, **given}
    consumers = {"value.deserializer.encoding": "UTF-16", "deserializer.encoding": "UTF-16",
                 "default.list.value.serde.type": "java.util.ArrayList"}
    assert ProducerConfig({**SERVERS, **consumers}).without_effect == set(consumers)


class Configurable:
    """A class of the user that takes settings of its own."""

    def __call__(self, topic: str, headers: object, data: object) -> bytes:
        return b""

    def on_send(self, record: object) -> object:
        return record

    def partition(self, *arguments: object) -> int:
        return 0

    def configure(self, props: dict[str, object], is_key: bool = False) -> None:
        self.props, self.is_key = props, is_key


class Plain:
    """One without `configure`."""

    def on_send(self, record: object) -> object:
        return record


@pytest.mark.parametrize("props", [
    {"interceptor.classes": [Configurable]}, {"interceptor.classes": [Plain, f"{__name__}:Configurable"]},
    {"interceptor.classes": f"{__name__}.Configurable"}, {"partitioner.class": Configurable},
    {"key.serializer": Configurable}, {"value.serializer": f"{__name__}:Configurable"},
    {"metric.reporters": f"{JMX},{__name__}:Configurable"}, {"metric.reporters": [Configurable()]},
    {"sasl.login.callback.handler.class": f"{__name__}:Configurable"},
    {"pyproducer.oauth.token.provider": Configurable()}])
def test_unknown_key_when_a_class_of_the_user_has_configure_then_it_is_taken_with_a_warning(
        props: dict[str, object], caplog: pytest.LogCaptureFixture) -> None:
    config = ProducerConfig({**SERVERS, **props, "zzz.tenant": "t"})
    assert "No setting is called zzz.tenant: only classes of your own with configure() get to see it" in caplog.text
    assert config.originals["zzz.tenant"] == "t"
    assert config.strangers == ("zzz.tenant",)


@pytest.mark.parametrize("props", [
    {}, {"interceptor.classes": [Plain]}, {"partitioner.class": "uniform_sticky", "key.serializer": "string"},
    {"value.serializer": "org.apache.kafka.common.serialization.StringSerializer"}, {"metric.reporters": [JMX, print]},
    {"sasl.login.callback.handler.class": "software.amazon.msk.auth.iam.IAMClientCallbackHandler"}])
def test_unknown_key_when_nobody_could_take_it_then_refused(props: dict[str, object]) -> None:
    with pytest.raises(ConfigError, match="unknown setting"):
        ProducerConfig({**SERVERS, **props, "zzz.tenant": "t"})


@pytest.mark.parametrize("key", ["my.reporter.url", "metrics.port", "metrics.prefix", "my.interceptor.topic",
                                 "partitioner.seed", "my.value.serializer.schema"])
def test_unknown_key_when_it_shares_words_with_a_known_one_then_a_class_of_the_user_gets_it(key: str) -> None:
    """One who names the setting after what it is for met "did you mean 'metric.reporters'?", and no way around."""
    assert ProducerConfig({**SERVERS, "metric.reporters": [Configurable()], key: "1"}).strangers == (key,)
    with pytest.raises(ConfigError, match="did you mean"):
        ProducerConfig({**SERVERS, key: "1"})


@pytest.mark.parametrize("key", ["linger.mss", "sasl_username", "debug", "bootstrap.server", "batchsize", "max.block"])
def test_unknown_key_when_something_known_is_near_then_refused_whatever_classes_there_are(key: str) -> None:
    with pytest.raises(ConfigError, match="unknown setting"):
        ProducerConfig({**SERVERS, "interceptor.classes": [Configurable], key: "1"})


def test_class_when_it_cannot_be_loaded_then_that_is_told_and_not_the_unknown_key() -> None:
    with pytest.raises(ConfigError, match="cannot be imported"):
        ProducerConfig({**SERVERS, "interceptor.classes": "no_such_module:X", "zzz.tenant": "t"})


@pytest.mark.parametrize(("key", "words"), [
    ("sasl_username", r'did you mean \'sasl.jaas.config\'\? Write sasl.jaas.config=.*username="\.\.\." password="'),
    ("ssl_ca_location", r"'ssl.truststore.location'\? Its value fits, with ssl.truststore.type=PEM"),
    ("enable.ssl.certificate.verification", r"'ssl.engine.factory.class'\? To check no certificate at all"),
    ("socket.nagle.disable", "unknown setting; Leave it out: that is always so here"),
    ("dr_msg_cb", "unknown setting; Leave it out: send.. takes a callback"),
    ("log_level", "Python's logging"), ("queue_buffering_max_kbytes", r"'buffer.memory'\? Its value times 1024")])
def test_name_of_another_client_when_given_then_the_error_says_what_to_write(key: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        ProducerConfig({**SERVERS, key: "1"})


def test_answers_when_listed_then_each_is_a_sentence_and_belongs_to_no_setting() -> None:
    assert not set(ANSWERS) & set(CONFIG_TABLE)
    assert all(text.endswith((".", ";")) or ");" in text for text in ANSWERS.values())


# What Kafka's documentation lists of consumers and admin clients that a producer does not have, up to 4.1.
CONSUMERS = """
    allow.auto.create.topics auto.commit.interval.ms auto.include.jmx.reporter auto.offset.reset bootstrap.controllers
    check.crcs default.api.timeout.ms enable.auto.commit exclude.internal.topics fetch.max.bytes fetch.max.wait.ms
    fetch.min.bytes group.id group.instance.id group.protocol group.remote.assignor heartbeat.interval.ms
    isolation.level key.deserializer max.partition.fetch.bytes max.poll.interval.ms max.poll.records
    partition.assignment.strategy session.timeout.ms share.acknowledgement.mode value.deserializer
"""

# What Confluent's documentation lists of its serializers.
SERIALIZERS = """
    auto.register.schemas avro.reflection.allow.null avro.remove.java.properties avro.use.logical.type.converters
    basic.auth.credentials.source basic.auth.user.info bearer.auth.credentials.source bearer.auth.token
    context.name.strategy http.connect.timeout.ms http.read.timeout.ms id.compatibility.strict
    json.default.property.inclusion json.fail.invalid.schema json.fail.unknown.properties json.indent.output
    json.oneof.for.nullables json.schema.spec.version json.write.dates.iso8601 key.schema.id.deserializer
    key.schema.id.serializer key.subject.name.strategy latest.cache.size latest.cache.ttl.sec
    latest.compatibility.strict max.schemas.per.subject normalize.schemas propagate.schema.tags proxy.host
    proxy.port reference.lookup.only reference.subject.name.strategy request.header.Authorization retries.max.wait.ms
    retries.wait.ms rule.actions rule.executors rule.executors._default_.param.secret.access.key
    rule.service.loader.enable schema.format schema.reflection schema.registry.basic.auth.user.info
    schema.registry.ssl.truststore.location schema.registry.url skip.known.types specific.avro.reader
    use.latest.version use.latest.with.metadata use.schema.id value.schema.id.deserializer value.schema.id.serializer
    value.subject.name.strategy
"""


@pytest.mark.parametrize("names", [CONSUMERS, SERIALIZERS])
def test_properties_of_others_when_a_producer_gets_them_too_then_it_is_made_and_names_each(
        names: str, caplog: pytest.LogCaptureFixture) -> None:
    """Applications give one file to all of their clients."""
    ProducerConfig({**SERVERS, **dict.fromkeys(names.split(), "1")})
    assert [record.getMessage() for record in caplog.records] == [
        f"These settings have no effect on a producer in Python: {', '.join(sorted(names.split()))}"]


# Every property of librdkafka 2.x that is not of consumers alone.
LIBRDKAFKA = """
    acks allow.auto.create.topics api.version.fallback.ms api.version.request api.version.request.timeout.ms
    background_event_cb batch.num.messages batch.size bootstrap.servers broker.address.family broker.address.ttl
    broker.version.fallback builtin.features client.dns.lookup client.id client.rack closesocket_cb
    compression.codec compression.level compression.type connect_cb connections.max.idle.ms debug default_topic_conf
    delivery.report.only.error delivery.timeout.ms dr_cb dr_msg_cb enable.gapless.guarantee enable.idempotence
    enable.metrics.push enable.random.seed enable.sasl.oauthbearer.unsecure.jwt enable.ssl.certificate.verification
    enabled_events error_cb https.ca.location https.ca.pem interceptors internal.termination.signal linger.ms
    log.connection.close log.queue log.thread.name log_cb log_level max.in.flight
    max.in.flight.requests.per.connection message.copy.max.bytes message.max.bytes message.send.max.retries
    message.timeout.ms metadata.broker.list metadata.max.age.ms metadata.recovery.rebootstrap.trigger.ms
    metadata.recovery.strategy msg_order_cmp oauthbearer_token_refresh_cb opaque open_cb partitioner partitioner_cb
    plugin.library.paths produce.offset.report queue.buffering.backpressure.threshold queue.buffering.max.kbytes
    queue.buffering.max.messages queue.buffering.max.ms queuing.strategy receive.message.max.bytes
    reconnect.backoff.jitter.ms reconnect.backoff.max.ms reconnect.backoff.ms request.required.acks
    request.timeout.ms resolve_cb retries retry.backoff.max.ms retry.backoff.ms sasl.kerberos.keytab
    sasl.kerberos.kinit.cmd sasl.kerberos.min.time.before.relogin sasl.kerberos.principal sasl.kerberos.service.name
    sasl.mechanism sasl.mechanisms sasl.oauthbearer.assertion.algorithm sasl.oauthbearer.assertion.claim.aud
    sasl.oauthbearer.assertion.claim.exp.seconds sasl.oauthbearer.assertion.claim.iss
    sasl.oauthbearer.assertion.claim.jti.include sasl.oauthbearer.assertion.claim.nbf.seconds
    sasl.oauthbearer.assertion.claim.sub sasl.oauthbearer.assertion.file
    sasl.oauthbearer.assertion.jwt.template.file sasl.oauthbearer.assertion.private.key.file
    sasl.oauthbearer.assertion.private.key.passphrase sasl.oauthbearer.assertion.private.key.pem
    sasl.oauthbearer.client.credentials.client.id sasl.oauthbearer.client.credentials.client.secret
    sasl.oauthbearer.client.id sasl.oauthbearer.client.secret sasl.oauthbearer.config sasl.oauthbearer.extensions
    sasl.oauthbearer.grant.type sasl.oauthbearer.metadata.authentication.type sasl.oauthbearer.method
    sasl.oauthbearer.scope sasl.oauthbearer.sub.claim.name sasl.oauthbearer.token.endpoint.url sasl.password
    sasl.username security.protocol socket.blocking.max.ms socket.connection.setup.timeout.ms
    socket.keepalive.enable socket.max.fails socket.nagle.disable socket.receive.buffer.bytes
    socket.send.buffer.bytes socket.timeout.ms socket_cb ssl.ca.certificate.stores ssl.ca.location ssl.ca.pem
    ssl.certificate.location ssl.certificate.pem ssl.certificate.verify_cb ssl.cipher.suites ssl.crl.location
    ssl.curves.list ssl.endpoint.identification.algorithm ssl.engine.id ssl.engine.location ssl.key.location
    ssl.key.password ssl.key.pem ssl.keystore.location ssl.keystore.password ssl.providers ssl.sigalgs.list ssl_ca
    ssl_certificate ssl_engine_callback_data ssl_key statistics.interval.ms stats_cb sticky.partitioning.linger.ms
    throttle_cb topic.blacklist topic.metadata.propagation.max.ms topic.metadata.refresh.fast.cnt
    topic.metadata.refresh.fast.interval.ms topic.metadata.refresh.interval.ms topic.metadata.refresh.sparse
    transaction.timeout.ms transactional.id
"""


def test_names_of_librdkafka_when_asked_for_then_each_is_javas_or_has_an_answer() -> None:
    for name in LIBRDKAFKA.split():
        if name in CONFIG_TABLE or CONFIG_TABLE.is_ignored(name):
            continue
        dotted = name.replace("_", ".")
        assert dotted in MEANT or dotted in ANSWERS, name
        error = CONFIG_TABLE.unknown_key_error(name, "1")
        assert f"did you mean {MEANT.get(dotted)!r}?" in str(error) or ANSWERS.get(dotted, "-") in str(error)


# What librdkafka's documentation and kafka-python's say of their settings; what Kafka's says of its own.
JAVAS = {("a key", "in a file"): "ssl.keystore.location", ("a certificate", "in a file"): "ssl.keystore.location",
         ("a key", "as it is"): "ssl.keystore.key", ("a certificate", "as it is"): "ssl.keystore.certificate.chain",
         ("an authority", "in a file"): "ssl.truststore.location",
         ("an authority", "as it is"): "ssl.truststore.certificates"}


@pytest.mark.parametrize(("name", "what", "how"), [
    ("ssl.key.location", "a key", "in a file"), ("ssl_keyfile", "a key", "in a file"),
    ("ssl.certificate.location", "a certificate", "in a file"), ("ssl_certfile", "a certificate", "in a file"),
    ("ssl.ca.location", "an authority", "in a file"), ("ssl_cafile", "an authority", "in a file"),
    ("ssl.key.pem", "a key", "as it is"), ("ssl_key", "a key", "as it is"),
    ("ssl.certificate.pem", "a certificate", "as it is"), ("ssl_certificate", "a certificate", "as it is"),
    ("ssl.ca.pem", "an authority", "as it is"), ("ssl_ca", "an authority", "as it is")])
def test_name_of_another_client_for_tls_when_given_then_the_setting_that_is_meant_takes_the_same(
        name: str, what: str, how: str) -> None:
    assert f"did you mean {JAVAS[what, how]!r}?" in str(CONFIG_TABLE.unknown_key_error(name, "1"))
