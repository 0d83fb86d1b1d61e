"""What `python -m pyproducer config` says of a file."""

from __future__ import annotations

import json
import socket
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from pyproducer.cli.main import main
from pyproducer.producer.config import CONFIG_TABLE
from tests.support.secret_hunt import SecretHunt

PACKAGE = Path(__file__).resolve().parents[3] / "pyproducer"
SECRET = "Zx9-never-shown"
TEXT = r"""# a comment
bootstrap.servers=broker:9092,[::1]:9093
security.protocol=SASL_PLAINTEXT
sasl.mechanism=PLAIN
sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required \
  username="ada" password="${env:KAFKA_SECRET}";
config.providers=env
config.providers.env.class=org.apache.kafka.common.config.provider.EnvVarConfigProvider
config.providers.file.class=org.apache.kafka.common.config.provider.FileConfigProvider
linger.ms=100000
client.id=${env:KAFKA_ID}
group.id=g
schema.registry.basic.auth.user.info=ada:Zx9-never-shown
compression.gzip.level=3
ssl.truststore.location=/t.pem
"""


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("KAFKA_SECRET", SECRET)
    monkeypatch.setenv("KAFKA_ID", "from-the-environment")

    def run(text: str, *options: str) -> Result:
        file = tmp_path / "client.properties"
        file.write_text(text)
        with SecretHunt(SECRET, "from-the-environment") as hunt:
            result = CliRunner().invoke(main, ["config", str(file), *options])
            hunt.look_text("output", result.stdout + result.stderr)
        assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
        return result

    return run


LOGIN = f'org.apache.kafka.common.security.plain.PlainLoginModule required username="ada" pass="{SECRET}";'
ENV = "config.providers=env\nconfig.providers.env.class=org.apache.kafka.common.config.provider.EnvVarConfigProvider\n"


@pytest.mark.parametrize("text", [
    # Keys that nobody knows, and that have no word for a secret in them.
    f"pw={SECRET}", f"access.key={SECRET}", f"http.auth={SECRET}", f"={SECRET}",
    # Lines that lost their backslash or their key.
    f"sasl.jaas.config=\n{LOGIN}", f"sasl.jaas.config=org.apache \\\n\n{LOGIN}", f"/* {SECRET} */ {LOGIN}",
    # A secret where a class belongs.
    f'security.protocol=SASL_SSL\nsasl.mechanism=OAUTHBEARER\nsasl.login.callback.handler.class=x password="{SECRET}"',
    # What a provider answered, in what is made of it, and in what is found out by loading it.
    ENV + "transactional.id=${env:KAFKA_SECRET}",
    ENV + "security.protocol=SSL\nssl.cipher.suites=${env:KAFKA_SECRET}",
], ids=ascii)
@pytest.mark.parametrize("options", [(), ("--json",), ("--given",)], ids=str)
def test_secret_when_it_stands_where_nobody_expects_it_then_it_is_not_shown(
        run, text: str, options: tuple[str, ...]) -> None:
    run(f"bootstrap.servers=broker:9092\n{text}\n", *options)


@pytest.mark.parametrize("given", [LOGIN, f"={LOGIN}", f"pw={SECRET}"], ids=["login", "no key", "pw"])
def test_secret_when_it_is_on_the_command_line_then_it_is_not_shown(run, given: str) -> None:
    run("bootstrap.servers=broker:9092\n", "--property", given)


def test_settings_when_printed_then_each_has_its_value_and_origin(run) -> None:
    result = run(TEXT, "--given", "--property", "linger.ms=7")
    assert result.exit_code == 0
    assert run(TEXT, "--given", "-P", "linger.ms=7").stdout == result.stdout, "as the other commands have it"
    lines = {line.split()[0]: " ".join(line.split()[1:]) for line in result.stdout.partition("\n\n")[0].splitlines()}
    assert lines == {
        "bootstrap.servers": "broker:9092,[::1]:9093 (line 2)", "security.protocol": "SASL_PLAINTEXT (line 3)",
        "sasl.mechanism": "PLAIN (line 4)", "sasl.jaas.config": "[hidden] (line 5, provider env)",
        "config.providers": "env (line 7)", "linger.ms": "7 (--property)",
        "client.id": "${env:KAFKA_ID} (line 11, provider env)",
        "compression.gzip.level": "3 (line 14)", "ssl.truststore.location": "/t.pem (line 15)"}


def test_settings_when_defaults_are_not_left_out_then_all_of_the_table_is_there(run) -> None:
    answer = json.loads(run(TEXT, "--json").stdout)
    rows = {row["key"]: (row["value"], row["origin"]) for row in answer["settings"]}
    assert list(rows) == list(CONFIG_TABLE)
    assert rows["acks"] == ("all", "default")
    assert rows["enable.idempotence"] == ("true", "default")
    assert rows["delivery.timeout.ms"] == ("130000", "derived")
    assert rows["transactional.id"] == (None, "default")
    assert rows["ssl.enabled.protocols"] == ("TLSv1.2,TLSv1.3", "default")
    assert answer["warnings"] == ["delivery.timeout.ms is raised from its default 120000 to linger.ms + "
                                  "request.timeout.ms = 130000"]
    assert answer["refused"] is None


def test_settings_without_effect_when_given_then_each_says_why(run) -> None:
    answer = json.loads(run(TEXT + "ssl.provider=x\nsasl.login.refresh.window.factor=0.9\n"
                            "metrics.recording.level=DEBUG\npartitioner.availability.timeout.ms=7\n"
                            "transaction.timeout.ms=5\nbootstrap.controllers=c:1\n",
                            "--json").stdout)
    assert {row["key"]: (row["origin"], row["why"]) for row in answer["no_effect"]} == {
        "bootstrap.controllers": ("line 21", "an admin client's setting"),
        "compression.gzip.level": ("line 14", "compression.type = none does not use it"),
        "config.providers.file.class": ("line 9", "config.providers does not name it"),
        "group.id": ("line 12", "a consumer's setting"),
        "metrics.recording.level": ("line 18", "nothing here could act on it"),
        "partitioner.availability.timeout.ms": (
            "line 19", "only partitioner.class = UniformStickyPartitioner uses it"),
        "sasl.login.refresh.window.factor": ("line 17", "sasl.mechanism = PLAIN does not use it"),
        "schema.registry.basic.auth.user.info": (
            "line 13", "a setting of a schema registry's client, or of a vendor's own classes"),
        "ssl.provider": ("line 16", "only a JVM can use it"),
        "ssl.truststore.location": ("line 15", "security.protocol = SASL_PLAINTEXT does not use it"),
        "transaction.timeout.ms": ("line 20", "there is no transactional.id")}


def test_charsets_when_given_then_who_reads_them_and_whether_there_are_such(run) -> None:
    text = "bootstrap.servers=b:1\nvalue.serializer=string\nvalue.serializer.encoding=UTF-16\n"
    answer = json.loads(run(f"{text}key.serializer.encoding=UTF-16\n", "--json").stdout)
    assert answer["no_effect"] == [{"key": "key.serializer.encoding", "origin": "line 4",
                                    "why": "only StringSerializer reads it, and it is not named"}]
    answer = json.loads(run(text.replace("UTF-16", "UTF-17"), "--json").stdout)
    assert (answer["refused"]["key"], answer["refused"]["place"]) == ("value.serializer.encoding", "line 3")


@pytest.mark.parametrize(("text", "keys"), [
    ("partitioner.ignore.keys=true\npartitioner.availability.timeout.ms=7\n", set()),
    ("partitioner.ignore.keys=true\npartitioner.class=default\n", {"partitioner.ignore.keys"}),
    ("partitioner.rack.aware=true\nclient.rack=r1\npartitioner.class=murmur3\n", {"partitioner.rack.aware"}),
    ("partitioner.rack.aware=true\nclient.rack=r1\n", set())])
def test_settings_of_partitioners_when_the_partitioner_uses_them_then_they_have_an_effect(
        run, text: str, keys: set[str]) -> None:
    answer = json.loads(run(f"bootstrap.servers=b:1\n{text}", "--json").stdout)
    assert {row["key"] for row in answer["no_effect"]} == keys


@pytest.mark.parametrize(("text", "words"), [
    ("bootstrap.servers=b:1\nlinger.mss=5\n", "line 2: Invalid value '5' for configuration linger.mss: unknown set"),
    ("\n\nbootstrap.servers=b\n", "line 3: Invalid value 'b' for configuration bootstrap.servers: no port"),
    ("linger.ms=5\n", "client.properties: Invalid value None for configuration bootstrap.servers: it is required"),
    (TEXT.replace("KAFKA_SECRET", "KAFKA_ABSENT"), "line 5: Invalid value '${env:KAFKA_ABSENT}' for configuration"),
    (TEXT.replace(";\n", "\n"), "line 5: Invalid value '[hidden]' for configuration sasl.jaas.config"),
    ("a=\\u12\n", "cannot be read as Java properties: line 1"),
])
def test_file_when_it_is_refused_then_the_line_the_reason_and_status_1(run, text: str, words: str) -> None:
    result = run(text)
    assert result.exit_code == 1
    assert words in result.stderr
    assert words.rpartition(": ")[2] in json.loads(run(text, "--json").stdout)["refused"]["why"]


def test_file_when_the_system_does_not_open_it_then_its_words_and_status_1(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # a socket's path is short
    with socket.socket(socket.AF_UNIX) as no_file:
        no_file.bind("client.properties")
        with pytest.raises(OSError, match=r"\[Errno") as raised:
            Path("client.properties").read_bytes()
        plain, as_json = (CliRunner().invoke(main, ["config", "client.properties", *options])
                          for options in ((), ("--json",)))
    why = f"{raised.value.strerror}: client.properties"
    assert (plain.exit_code, plain.stdout) == (1, "")
    assert plain.stderr == f"pyproducer config: client.properties: {why}\n"
    assert as_json.exit_code == 1
    assert json.loads(as_json.stdout)["refused"] == {"key": "", "place": "", "why": why}


OWN = """bootstrap.servers=b:1
interceptor.classes=imported_by_config:X
metric.reporters=org.apache.kafka.common.metrics.JmxReporter,imported_by_config:Y
security.protocol=SASL_SSL
sasl.mechanism=OAUTHBEARER
sasl.login.callback.handler.class=imported_by_config:tokens
zzz=a key of its own
"""


def test_classes_when_the_file_names_some_then_they_are_imported_only_where_that_is_asked_for(
        run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`config FILE`, which says that it connects to nothing, ran the code of a module beside it."""
    (tmp_path / "imported_by_config.py").write_text(
        "class X:\n    def configure(self, props): pass\nclass Y(X): pass\ndef tokens(): pass\n"
        f"open({str(tmp_path / 'ran')!r}, 'w').close()\n")
    monkeypatch.syspath_prepend(tmp_path)
    result = run(OWN)
    assert result.exit_code == 0, result.stderr
    assert "imported_by_config:X, which was not imported: --load does" in result.stdout
    assert "imported_by_config:Y, which was not imported" in result.stdout
    assert "imported_by_config:tokens, which was not imported" in result.stdout
    assert not (tmp_path / "ran").exists()
    assert run(OWN, "--load").exit_code == 0
    assert (tmp_path / "ran").exists()
    result = run("bootstrap.servers=b:1\nkey.serializer=no_such_module:X\n", "--load")
    assert result.exit_code == 1
    assert "cannot be imported" in result.stderr
    result = run("bootstrap.servers=${p:x:y}\nconfig.providers=p\nconfig.providers.p.class=imported_by_config:X\n")
    assert result.exit_code == 1
    assert "only with --load" in " ".join(result.stderr.split())


def test_file_when_several_settings_are_wrong_then_each_has_its_line(run) -> None:
    result = run("bootstrap.servers=b\nlinger.mss=5\nacks=7\n")
    assert result.exit_code == 1
    assert "3 settings are wrong:\n  line 2: Invalid value '5' for configuration linger.mss" in result.stderr
    assert "\n  line 3: Invalid value '7' for configuration acks" in result.stderr
    assert "\n  line 1: Invalid value 'b' for configuration bootstrap.servers" in result.stderr


def test_needs_when_something_is_missing_then_status_1(run) -> None:
    result = run("bootstrap.servers=b:1\nsecurity.protocol=SASL_PLAINTEXT\nsasl.mechanism=OAUTHBEARER\n")
    assert result.exit_code == 1
    assert "a source of tokens: MISSING; set sasl.oauthbearer.token.endpoint.url" in result.stdout


def test_command_line_when_it_makes_no_sense_then_status_2_and_no_secret(run) -> None:
    result = run(TEXT, "--property", SECRET)
    assert result.exit_code == 2
    assert "it must be KEY=VALUE" in result.stderr
    assert CliRunner().invoke(main, ["config", "/nowhere/client.properties"]).exit_code == 2
