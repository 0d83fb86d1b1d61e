"""Files in the public shape of what vendors tell their users to write are taken as they are, and say what they need."""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path

import pytest
from click.testing import CliRunner

from pyproducer import ConfigError, KafkaProducer, ProducerConfig
from pyproducer.cli.main import main
from pyproducer.network import key_store
from pyproducer.producer.config.effective import Need, effective, read_given
from tests.support.certificates import make_certificates
from tests.support.secret_hunt import SecretHunt

FOLDER = Path(__file__).resolve().parents[2] / "client_properties"
FILES = {path.stem: path for path in sorted(FOLDER.glob("*.properties"))}
SECRETS = tuple(f"invented-secret-{number:02}" for number in range(1, 30))

# File -> protocol, mechanism (None: no SASL), and words of each need behind that of a connection, in order.
EXPECTED: dict[str, tuple[str, str | None, tuple[str, ...]]] = {
    "aiven_mtls": ("SSL", None, ("key.p12 (ssl.keystore.location, PKCS12)", "trust.jks (ssl.truststore.location, JKS)",
                                 "pyproducer[tls]", "pyproducer[jks]")),
    "aiven_sasl": ("SASL_SSL", "SCRAM-SHA-256", ("ca.pem (ssl.truststore.location, PEM)", "account")),
    "confluent_cloud_oauth": ("SASL_SSL", "OAUTHBEARER", ("system's trust store", "https://idp.example/oauth2/")),
    "confluent_cloud_plain": ("SASL_SSL", "PLAIN", ("system's trust store", "account")),
    "confluent_cloud_python": ("SASL_SSL", "PLAIN", ("system's trust store", "account")),
    "confluent_monitoring": ("SASL_SSL", "PLAIN", ("system's trust store", "account")),
    "databricks": ("SASL_SSL", "PLAIN", ("system's trust store", "account")),
    "event_hubs_oauth": ("SASL_SSL", "OAUTHBEARER", ("system's trust store", "of Azure", "pyproducer[azure]")),
    "event_hubs_plain": ("SASL_SSL", "PLAIN", ("system's trust store", "account")),
    "event_hubs_python": ("SASL_SSL", "PLAIN", ("ca.pem", "account")),
    "event_hubs_spring": ("SASL_SSL", "OAUTHBEARER", ("system's trust store", "of Azure", "pyproducer[azure]")),
    "google_managed_kafka": ("SASL_SSL", "OAUTHBEARER", ("system's trust store", "of Google", "pyproducer[google]")),
    "ibm_event_streams": ("SASL_SSL", "PLAIN", ("system's trust store", "account")),
    "instaclustr": ("SASL_SSL", "SCRAM-SHA-256", ("trust.jks", "pyproducer[jks]", "account")),
    "kerberos": ("SASL_SSL", "GSSAPI", ("trust.jks", "pyproducer[jks]", "client.keytab", "pyproducer[kerberos]")),
    "msk_iam": ("SASL_SSL", "AWS_MSK_IAM", ("system's trust store", "credentials of AWS", "pyproducer[aws]")),
    "msk_iam_oauthbearer": ("SASL_SSL", "OAUTHBEARER", ("system's trust store", "credentials of AWS",
                                                        "pyproducer[aws]")),
    "msk_mtls": ("SSL", None, ("key.jks", "trust.jks", "pyproducer[jks]")),
    "msk_scram": ("SASL_SSL", "SCRAM-SHA-512", ("system's trust store", "account")),
    "oracle_streaming": ("SASL_SSL", "PLAIN", ("system's trust store", "account")),
    "pem_text": ("SSL", None, ()),
    "redpanda_scram_256": ("SASL_SSL", "SCRAM-SHA-256", ("system's trust store", "account")),
    "redpanda_scram_512": ("SASL_SSL", "SCRAM-SHA-512", ("ca.pem", "account")),
    "strimzi_mtls": ("SSL", None, ("key.p12", "trust.p12", "pyproducer[tls]")),
    "strimzi_oauth": ("SASL_SSL", "OAUTHBEARER", ("ca.pem", "a token from https://keycloak")),
    "strimzi_pem": ("SASL_SSL", "SCRAM-SHA-512", ("ca.pem", "account")),
    "strimzi_scram": ("SASL_PLAINTEXT", "SCRAM-SHA-512", ("account",)),
    "upstash": ("SASL_SSL", "SCRAM-SHA-256", ("system's trust store", "account")),
    "warpstream": ("SASL_SSL", "PLAIN", ("system's trust store", "account")),
}

WITH_STORES = {"aiven_mtls", "instaclustr", "kerberos", "msk_mtls", "strimzi_mtls"}  # which do not open here


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with what the files name; stores that are not opened have their first bytes only."""
    folder = tmp_path_factory.mktemp("stores")
    certificates = make_certificates(folder)
    for name in ("trust.jks", "key.jks"):
        (folder / name).write_bytes(b"\xfe\xed\xfe\xed\0\0\0\2")
    for name in ("trust.p12", "key.p12"):
        (folder / name).write_bytes(b"\x30\x82\x04\xe2\x02\x01\x03")
    (folder / "client.keytab").write_bytes(b"\5\2")
    (folder / "secrets").mkdir()
    (folder / "secrets" / "ca.password").write_text("invented-secret-18")
    (folder / "secrets" / "user.password").write_text("invented-secret-19\n")
    (folder / "secrets" / "sasl.jaas.config").write_text(
        "org.apache.kafka.common.security.scram.ScramLoginModule required username=\"ada\" "
        "password=\"invented-secret-20\";")
    assert certificates.ca == folder / "ca.pem"
    return folder


@pytest.fixture
def write(stores: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Copy a file, with the stores' folder in the place of its mark."""
    monkeypatch.setenv("KAFKA_PASSWORD", "invented-secret-21")
    monkeypatch.setattr(key_store, "_is_installed", lambda package: True)  # nothing is opened here

    def write(name: str) -> Path:
        texts = {"@KEY@": "client.key", "@CHAIN@": "client.pem", "@CA@": "ca.pem"}
        text = FILES[name].read_text().replace("@FOLDER@", str(stores))
        for mark, file in texts.items():
            text = text.replace(mark, (stores / file).read_text().strip().replace("\n", "\\n\\\n"))
        copy = tmp_path / f"{name}.properties"
        copy.write_text(text)
        return copy

    return write


def test_files_when_counted_then_each_is_expected() -> None:
    assert set(FILES) == set(EXPECTED)
    assert len(FILES) >= 29


@pytest.mark.parametrize("name", EXPECTED)
def test_file_when_it_is_read_then_it_loads_and_says_what_it_needs(name: str, write) -> None:
    given = read_given(write(name), {})
    with SecretHunt(*SECRETS) as hunt:
        config = ProducerConfig(given.props)
        found = effective(config, given.origins)
        hunt.look("config", config)
        hunt.look("effective", found)
    protocol, mechanism, words = EXPECTED[name]
    assert config.security_protocol == protocol
    assert mechanism is None or config.sasl_mechanism == mechanism
    connection, *others = found.needs
    assert connection.what.startswith("a connection to ")
    assert len(others) == len(words), others
    for need, word in zip(others, words, strict=True):
        assert word in f"{need.what} {need.how}"
    assert {row.origin.partition(" ")[0] for row in found.settings} <= {"default", "line", "derived"}


@pytest.mark.parametrize("name", sorted(set(EXPECTED) - WITH_STORES))
@pytest.mark.parametrize("options", [(), ("--json",)], ids=str)
def test_command_when_given_a_file_then_its_status_is_whether_anything_is_missing(name: str, options: tuple[str, ...],
                                                                                 write) -> None:
    with SecretHunt(*SECRETS) as hunt:
        result = CliRunner().invoke(main, ["config", str(write(name)), *options])
        hunt.look_text("output", result.output)
        hunt.look_text("error", result.stderr)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    if options:
        answer = json.loads(result.stdout)
        assert answer["refused"] is None
        assert result.exit_code == int(any(need["is_there"] is False for need in answer["needs"]))
        assert len(answer["settings"]) == len(ProducerConfig({"bootstrap.servers": "b:1"}))
    else:
        assert "Needs:" in result.output
        assert result.exit_code == int("MISSING" in result.output)


def test_needs_when_a_provider_told_them_then_they_are_shown_as_they_were_written(
        stores: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAFKA_CA", str(stores / "ca.pem"))
    monkeypatch.setenv("KAFKA_URL", "https://idp.example/token")
    monkeypatch.setenv("KAFKA_SERVERS", "broker.example:9093")
    config = ProducerConfig({
        "config.providers": "env", "bootstrap.servers": "${env:KAFKA_SERVERS}", "security.protocol": "SASL_SSL",
        "config.providers.env.class": "org.apache.kafka.common.config.provider.EnvVarConfigProvider",
        "ssl.truststore.location": "${env:KAFKA_CA}", "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.token.endpoint.url": "${env:KAFKA_URL}"})
    with SecretHunt(str(stores), "idp.example", "broker.example") as hunt:
        found = effective(config, dict.fromkeys(config.originals, "line 1"))
        hunt.look("effective", found)
    assert [need.what for need in found.needs] == [
        "a connection to ${env:KAFKA_SERVERS}, and to the brokers they name",
        "the file ${env:KAFKA_CA} (ssl.truststore.location, PEM)", "a token from ${env:KAFKA_URL}"]


def test_needs_when_a_package_or_a_source_of_tokens_is_missing_then_how_to_get_it(write) -> None:
    config = ProducerConfig(read_given(write("msk_iam"), {}).props)
    package = effective(config, dict.fromkeys(config.originals, "")).needs[-1]
    assert package == Need("the packages of pyproducer[aws], for roles and profiles of AWS",
                           find_spec("botocore") is not None, "pip install 'pyproducer[aws]'")
    config = ProducerConfig({"bootstrap.servers": "b:1", "security.protocol": "SASL_PLAINTEXT",
                             "sasl.mechanism": "OAUTHBEARER"})
    need = effective(config, dict.fromkeys(config.originals, "")).needs[-1]
    assert (need.what, need.is_there) == ("a source of tokens", False)


def test_needs_when_it_is_kerberos_then_the_key_tab_is_named(tmp_path: Path) -> None:
    (tmp_path / "client.keytab").write_bytes(b"\5\2")
    props = {"bootstrap.servers": "b:1", "security.protocol": "SASL_PLAINTEXT", "sasl.jaas.config":
             f'com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true keyTab="{tmp_path}/client.keytab";'}
    config = ProducerConfig(props)
    assert effective(config, dict.fromkeys(props, "line 1")).needs[1] == Need(
        f"the file {tmp_path}/client.keytab (keyTab)", True, "it is not there, or not for this user")


@pytest.mark.parametrize(("line", "words"), [
    ("config.providers=s\n"
     "config.providers.s.class=io.strimzi.kafka.KubernetesSecretConfigProvider\n"
     "sasl.jaas.config=${s:kafka/user:sasl.jaas.config}", "no such provider here: .* or 'module:Class' with get"),
    ("value.serializer=io.confluent.kafka.serializers.KafkaAvroSerializer", "give the serializer of confluent-kafka"),
    ("interceptor.classes=io.opentelemetry.instrumentation.kafkaclients.TracingProducerInterceptor",
     "is a class of Java: leave it out, or name one in Python")])
def test_file_when_it_names_a_class_that_only_a_jvm_has_then_one_sentence_says_what_to_write(
        line: str, words: str, tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text(f"bootstrap.servers=kafka.example:9092\n{line}\n")
    with pytest.raises(ConfigError, match=words) as caught:
        KafkaProducer.from_file(file)
    assert "'io' is not a package" not in str(caught.value)
