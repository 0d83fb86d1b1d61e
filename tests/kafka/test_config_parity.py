"""The settings table is Java's, row by row, and strings are taken or refused as Java does."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyproducer.common.errors import ConfigError
from pyproducer.common.jaas import parse_jaas
from pyproducer.common.settings.definition import NonEmpty, OneOf, Range, Setting, Support
from pyproducer.producer.config import CONFIG_TABLE, ProducerConfig
from tests.support.kafka_jars import ask_java

SOURCE = Path(__file__).resolve().parents[1] / "support" / "java" / "ConfigParity.java"
# Java has no default here; bytes pass through without a serializer, so ours is None.
OPTIONAL_HERE = {"key.serializer", "value.serializer"}
JAVA_TABLE = {key: setting for key, setting in CONFIG_TABLE.items()
              if setting.support is not Support.OURS and not setting.since}


def fields_of_java(*arguments: str, stdin: str = "") -> list[list[str]]:
    return [line.split("\t") for line in ask_java(SOURCE, *arguments, stdin=stdin)]


@pytest.fixture(scope="module")
def rows_of_java() -> dict[str, list[str]]:
    return {key: row for key, *row in fields_of_java()}


def shown_default(setting: Setting) -> str:
    value = setting.default
    if value is None:
        return "<null>"
    if isinstance(value, bool):
        return str(value).lower()
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)


def shown_rule(setting: Setting) -> object:
    """The rule as Java's validators show theirs; words of case-insensitive ones in no order."""
    rule = setting.allowed
    if rule is None:
        return "null"
    if isinstance(rule, NonEmpty):
        return "non-empty string"
    if isinstance(rule, OneOf):
        return frozenset(rule.words) if rule.is_case_insensitive else f"[{', '.join(rule.words)}]"
    assert isinstance(rule, Range)
    bounds = f"[{rule.low},...{'' if rule.high is None else f',{rule.high}'}]"
    return bounds + "".join(f" or {value}" for value in rule.also)


def rule_of_java(shown: str, setting: Setting) -> object:
    if shown.startswith("(case insensitive) ["):
        words = shown[len("(case insensitive) ["):-1].split(", ")
        # Java lists the recovery strategies in upper case and has the default in lower case.
        lower = isinstance(setting.default, str) and setting.default.islower()
        return frozenset(word.lower() if lower else word for word in words)
    # A list that must not be null: no list with a default may be None here (Setting.is_nullable).
    return "null" if shown == "non-null string" else shown


def test_keys_when_compared_with_java_then_the_same_112(rows_of_java: dict[str, list[str]]) -> None:
    assert set(JAVA_TABLE) == set(rows_of_java)
    assert len(rows_of_java) == 112


def test_types_when_compared_with_java_then_the_same(rows_of_java: dict[str, list[str]]) -> None:
    assert {key: setting.type.value for key, setting in JAVA_TABLE.items()} == {
        key: row[0] for key, row in rows_of_java.items()}


def test_defaults_when_compared_with_java_then_the_same(rows_of_java: dict[str, list[str]]) -> None:
    assert {key for key, row in rows_of_java.items() if row[1] == "<required>"} == OPTIONAL_HERE
    ours = {key: shown_default(setting) for key, setting in JAVA_TABLE.items() if key not in OPTIONAL_HERE}
    assert ours == {key: row[1] for key, row in rows_of_java.items() if key not in OPTIONAL_HERE}


def test_bounds_when_compared_with_java_then_the_same(rows_of_java: dict[str, list[str]]) -> None:
    assert {key: shown_rule(setting) for key, setting in JAVA_TABLE.items()} == {
        key: rule_of_java(row[2], CONFIG_TABLE[key]) for key, row in rows_of_java.items()}


IN_FLIGHT = "max.in.flight.requests.per.connection"
STRINGS = [
    "batch.size= 5 ", "batch.size=abc", "batch.size=-1", "batch.size=99999999999", "batch.size=", "batch.size=0x10",
    "linger.ms=5.0", "linger.ms=+7", "linger.ms=1_000", "linger.ms=9223372036854775807",
    "linger.ms=9223372036854775808",
    "enable.idempotence= TRUE ", "enable.idempotence=yes", "enable.idempotence=1", "partitioner.ignore.keys=True",
    "acks= 1 ", "acks=-1", "acks=all", "acks=ALL", "acks=2", "acks=0", "retries=0", "retries=-1", "retries=2147483648",
    "compression.type=zip", "compression.type=GZIP", "compression.type= lz4 ",
    "compression.gzip.level=0", "compression.gzip.level=-1", "compression.gzip.level=10", "compression.lz4.level=18",
    "compression.zstd.level=-131073", "compression.zstd.level=23", "client.id= x ", "transactional.id=",
    "transactional.id= ", "transactional.id=t", "transactional.id=t\tacks=1", "transactional.id=t\tretries=0",
    "transactional.id=t\tenable.idempotence=false", f"{IN_FLIGHT}=6", f"{IN_FLIGHT}=6\tacks=1",
    f"{IN_FLIGHT}=6\tenable.idempotence=false", f"{IN_FLIGHT}=0", f"{IN_FLIGHT}=5",
    "acks=1\tenable.idempotence=true", "retries=0\tenable.idempotence=true", "acks=0\tretries=0",
    "enable.idempotence=true\tacks=all\tretries=1", "security.protocol=ssl", "security.protocol=FOO",
    "security.protocol=SASL_SSL\tsasl.mechanism=", "security.protocol=SASL_SSL\tsasl.mechanism=GSSAPI",
    "client.dns.lookup=x", "metadata.max.idle.ms=4999", "metadata.max.idle.ms=5000",
    "metadata.recovery.strategy=NONE", "metadata.recovery.strategy=x", "metrics.recording.level=debug",
    "metrics.num.samples=0", "send.buffer.bytes=-1", "send.buffer.bytes=-2",
    "sasl.login.refresh.window.factor=0.4", "sasl.login.refresh.window.factor=0.5f",
    "sasl.login.refresh.window.factor=1.0", "sasl.login.refresh.window.jitter=0.26",
    "sasl.login.refresh.buffer.seconds=3601", "sasl.login.refresh.buffer.seconds=99999",
    "sasl.kerberos.ticket.renew.jitter=1d", "sasl.kerberos.ticket.renew.jitter=x",
    "sasl.oauthbearer.assertion.algorithm=es256", "sasl.oauthbearer.assertion.algorithm=HS256",
    "transaction.two.phase.commit.enable=true", "transaction.two.phase.commit.enable=true\ttransaction.timeout.ms=5",
    "transaction.timeout.ms=-5", "reconnect.backoff.ms=10", "reconnect.backoff.ms=5000",
    "reconnect.backoff.ms=5000\treconnect.backoff.max.ms=1000", "connections.max.idle.ms=-1",
]


def ours(line: str) -> list[str]:
    pairs = dict(pair.split("=", 1) for pair in line.split("\t"))
    try:
        config = ProducerConfig({"bootstrap.servers": "localhost:9092", **pairs})
    except ConfigError:
        return ["ERROR"]
    value = config[next(iter(pairs))]
    return ["OK", comparable(str(value)), str(config.enable_idempotence).lower(), config.acks,
            str(config.reconnect_backoff_max_ms)]


def comparable(value: str) -> str:
    """One spelling for what Java keeps as it was given: words of any case."""
    return value.lower()


def test_strings_when_parsed_by_both_then_taken_or_refused_alike() -> None:
    answers = fields_of_java("parse", stdin="\n".join(STRINGS) + "\n")
    assert len(answers) == len(STRINGS)
    for line, (verdict, *rest) in zip(STRINGS, answers, strict=True):
        expected = [verdict] if verdict == "ERROR" else [verdict, comparable(rest[0]), *rest[1:]]
        assert ours(line) == expected, (line, rest)


JAAS = [
    "M required;", "M REQUISITE a=b;", "M sufficient a = 'b' ;", 'M optional "a"="b";', "M required", "M", "",
    "M other;",
    r'M required a="\"\\\t\101\477\08\377\x";', "M required a=x-1_y$.z;", "M required a=1;", "M required a=-x;",
    "M required a=.x;", "M required a=x!;", "M required a=;", "M required a;", "M required a b;", "M required =b;",
    "M required a=/x/y;", "M required a='/x';", "M required // no\\u000aa=b;", "M required / no\\u000aa=b;",
    "M required /* a=b */ c=d;", "M required /* a=b; c=d;", "M required a=\u00fcber b='\u20ac';", "M required;;",
    "M required; N required;", "M required a=b; // end", "M required a='x' a='y';", "M required a='';",
    "M required a='x'b='y';", "'M' required;", "M 'required';", "a-b$c_d.E required x.y-z=1a;", "M required a==b;",
    "M required a=$ConnectionString;", "M required a#=b;", "M required a=b,c=d;", "1M required;",
    "M required a='x\\u000a';", "M required a='x\\u000a;",
]
# Java ends a quoted value at the end of its line.
STRICTER_HERE = {"M required a='x\\u000a;"}


def our_jaas(text: str) -> list[str]:
    try:
        entry = parse_jaas(text.replace(r"\u000a", "\n"))
    except ConfigError:
        return ["ERROR"]
    options = [part for name, value in sorted(entry.options.items()) for part in (name, value.encode().hex())]
    return ["OK", entry.login_module, entry.control_flag, *options]


def test_jaas_when_parsed_by_both_then_taken_or_refused_alike() -> None:
    answers = fields_of_java("jaas", stdin="\n".join(JAAS) + "\n")
    assert len(answers) == len(JAAS)
    for text, answer in zip(JAAS, answers, strict=True):
        expected = answer if answer[0] == "OK" else ["ERROR"]
        assert (our_jaas(text) == expected) != (text in STRICTER_HERE), (text, answer)


PROVIDERS = "org.apache.kafka.common.config.provider."
ENV = f"config.providers=env\tconfig.providers.env.class={PROVIDERS}EnvVarConfigProvider"
VARIABLES = [
    f"client.id=${{env:PARITY}}\t{ENV}", f"client.id=a${{env:PARITY}}b${{env::PARITY}}c\t{ENV}",
    f"client.id=${{other:PARITY}}\t{ENV}", f"client.id=${{PARITY}}\t{ENV}", f"client.id=${{a${{env:PARITY}}\t{ENV}",
    f"client.id=${{env:PARITY\t{ENV}", f"linger.ms=${{env:PARITY}}\t{ENV}", f"client.id=$${{env:PARITY}}}}\t{ENV}",
    f"client.id=${{env:a:PARITY}}\t{ENV}", "client.id=${env:PARITY}",
    f"client.id=${{env:PARITY}}\t{ENV}\tconfig.providers.env.param.allowlist.pattern=PAR.*",
    f"client.id=${{d:@:plain}}\tconfig.providers=d\tconfig.providers.d.class={PROVIDERS}DirectoryConfigProvider",
    f"client.id=${{f:@/p:a b}}x\tconfig.providers=e,f\tconfig.providers.f.class={PROVIDERS}FileConfigProvider"
    f"\tconfig.providers.e.class={PROVIDERS}EnvVarConfigProvider",
    f"client.id=${{d:@:plain}}\tconfig.providers=d\tconfig.providers.d.class={PROVIDERS}DirectoryConfigProvider"
    "\tconfig.providers.d.param.allowed.paths=@",
    f"client.id=x\tconfig.providers=d\tconfig.providers.d.class={PROVIDERS}DirectoryConfigProvider"
    "\tconfig.providers.d.param.allowed.paths=@/absent",
    f"client.id=x\tconfig.providers=d\tconfig.providers.d.class={PROVIDERS}NoProvider",
]


def test_variables_when_resolved_by_both_then_the_same_values(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PARITY", "7")
    (tmp_path / "plain").write_text("text of a file")
    (tmp_path / "p").write_text("a\\ b = value of a key")
    lines = [line.replace("@", str(tmp_path)) for line in VARIABLES]
    # Providers of Java log to where the answers go.
    said = fields_of_java("parse", stdin="\n".join(lines) + "\n")
    answers = [answer for answer in said if answer[0] in ("OK", "ERROR")]
    for line, (verdict, *rest) in zip(lines, answers, strict=True):
        expected = [verdict] if verdict == "ERROR" else [verdict, comparable(rest[0]), *rest[1:]]
        assert ours(line) == expected, (line, rest)
