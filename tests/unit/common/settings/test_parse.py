"""Strings and Python values become values of the setting's type, as the real Java producer parses them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from pyproducer.common.errors import ConfigError
from pyproducer.common.secrets import SecretText
from pyproducer.common.settings.definition import (
    EachMatches,
    EachOneOf,
    OneOf,
    Range,
    Setting,
    Type,
)
from pyproducer.common.settings.parse import INTEGER_BITS, parse_value, split_list, value_text
from pyproducer.producer.config import CONFIG_TABLE

NUMBERS = (Type.SHORT, Type.INT, Type.LONG)
BOUNDED = sorted(key for key, setting in CONFIG_TABLE.items() if isinstance(setting.allowed, Range))
WORDS = sorted(key for key, setting in CONFIG_TABLE.items() if isinstance(setting.allowed, OneOf))


def parse(key: str, value: object) -> Any:
    return parse_value(CONFIG_TABLE[key], value)


@pytest.mark.parametrize(("key", "given", "parsed"), [
    ("batch.size", " 5 ", 5), ("linger.ms", " 7", 7), ("linger.ms", "+7", 7), ("batch.size", 5, 5),
    ("compression.zstd.level", "-131072", -131072),
    ("enable.idempotence", " TRUE ", True), ("enable.idempotence", "false", False), ("enable.idempotence", True, True),
    ("acks", " 1 ", "1"), ("acks", 1, "1"), ("acks", -1, "-1"), ("acks", "all", "all"),
    ("client.id", " x ", "x"), ("client.id", None, None), ("ssl.endpoint.identification.algorithm", "", ""),
    ("interceptor.classes", "", ()), ("interceptor.classes", " a , b ", ("a", "b")),
    ("interceptor.classes", "a,,b", ("a", "", "b")), ("ssl.cipher.suites", "", ()), ("ssl.cipher.suites", None, None),
    ("ssl.enabled.protocols", [" TLSv1.2 "], ("TLSv1.2",)),
    ("sasl.login.refresh.window.factor", "0.5f", 0.5), ("sasl.kerberos.ticket.renew.jitter", 1, 1.0),
    ("sasl.kerberos.ticket.renew.jitter", "1d", 1.0), ("sasl.kerberos.ticket.renew.jitter", " 1e-2 ", 0.01),
    ("security.protocol", "ssl", "SSL"), ("metadata.recovery.strategy", "REBOOTSTRAP", "rebootstrap"),
    ("sasl.oauthbearer.assertion.algorithm", "es256", "ES256"),
    ("ssl.key.password", " s ", SecretText("s")), ("transactional.id", None, None), ("sasl.mechanism", None, None),
    ("sasl.login.connect.timeout.ms", None, None), ("compression.gzip.level", -1, -1),
    ("transaction.timeout.ms", -5, -5),
])
def test_value_when_java_accepts_it_then_it_is_parsed_alike(key: str, given: object, parsed: object) -> None:
    value = parse(key, given)
    assert value == parsed
    assert type(value) is type(parsed)


@pytest.mark.parametrize(("key", "given", "why"), [
    ("batch.size", "abc", "not a whole number; the default is 16384"), ("linger.ms", "5.0", "not a whole number"),
    ("linger.ms", "1_000", "not a whole number"), ("linger.ms", "9" * 5000, "not a whole number"),
    ("sasl.kerberos.ticket.renew.jitter", "1_0", "not a number"), ("linger.ms", "", "not a whole number"),
    ("batch.size", 5.0, "got a float"), ("batch.size", True, "got a bool"), ("batch.size", None, "None is not allowed"),
    ("batch.size", "99999999999", "fit 32 bits: at most 2147483647"),
    ("sasl.login.refresh.buffer.seconds", "99999", "fit 16 bits"), ("linger.ms", 2**63, "fit 64 bits"),
    ("enable.idempotence", "yes", "true or false"), ("enable.idempotence", 1, "true or false"),
    ("enable.idempotence", None, "None is not allowed"),
    ("acks", "ALL", "one of all, -1, 0, 1"), ("acks", 2, "one of all, -1, 0, 1"), ("acks", True, "got a bool"),
    ("compression.type", "zip", "one of none, gzip, snappy, lz4, zstd"), ("compression.type", "GZIP", "one of none"),
    ("compression.type", None, "None is not allowed"), ("client.id", 5, "expected a string"),
    ("security.protocol", "FOO", "one of PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL"),
    ("client.dns.lookup", "x", "use_all_dns_ips"), ("metrics.recording.level", "debug", "one of INFO, DEBUG, TRACE"),
    ("transactional.id", " ", "must not be empty"), ("sasl.login.refresh.window.factor", "0.4", "between 0.5 and 1.0"),
    ("sasl.login.refresh.window.factor", "nan", "not a number"),
    ("sasl.kerberos.ticket.renew.jitter", "infinity", "not a number"),
    ("sasl.kerberos.ticket.renew.window.factor", float("-inf"), "not a number"),
    ("sasl.kerberos.ticket.renew.jitter", "x", "not a n"),
    ("sasl.kerberos.ticket.renew.jitter", True, "expected a number, got a bool"),
    ("interceptor.classes", None, "None is not allowed"), ("bootstrap.servers", 5, "expected a list of strings"),
    ("bootstrap.servers", b"a:1", "expected a list of strings"), ("bootstrap.servers", ["a:1", 5], "5 is a int"),
    ("partitioner.class", "", "must not be empty"), ("ssl.keystore.location", b"/x", "expected a string"),
])
def test_value_when_it_is_wrong_then_the_error_names_key_value_and_limit(key: str, given: object, why: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse(key, given)
    assert caught.value.key == key
    assert why in caught.value.why
    assert key in str(caught.value)


@pytest.mark.parametrize("given", [10**5000, -10**5000, ["a", 10**5000]], ids=["large", "small", "list"])
def test_value_when_it_is_an_int_that_python_itself_does_not_write_then_the_error_names_the_setting(
        given: object) -> None:
    """What was raised was Python's own ValueError, about its limit of 4,300 digits."""
    for key, setting in CONFIG_TABLE.items():
        if not (setting.type is Type.CLASS or setting.holds_objects):
            with pytest.raises(ConfigError, match=re.escape(key)):
                parse(key, given)


@pytest.mark.parametrize("key", BOUNDED)
def test_bounds_when_met_then_accepted_and_when_passed_then_refused(key: str) -> None:
    setting = CONFIG_TABLE[key]
    bounds = setting.allowed
    assert isinstance(bounds, Range)
    step = 1 if setting.type in NUMBERS else 0.001
    for edge, outside in ((bounds.low, -step), (bounds.high, step)):
        if edge is None:
            continue
        assert parse(key, edge) == edge
        assert parse(key, str(edge)) == edge
        beyond = edge + outside
        if beyond in bounds.also or (setting.type in NUMBERS and abs(beyond) >= 1 << INTEGER_BITS[setting.type] - 1):
            continue
        with pytest.raises(ConfigError, match=str(edge)) as caught:
            parse(key, beyond)
        assert caught.value.value == beyond
    for special in bounds.also:
        assert parse(key, special) == special


@pytest.mark.parametrize(("kind", "low", "high"), [
    (Type.SHORT, -32_768, 32_767), (Type.INT, -2_147_483_648, 2_147_483_647),
    (Type.LONG, -9_223_372_036_854_775_808, 9_223_372_036_854_775_807)])
def test_integer_when_it_is_the_smallest_or_largest_of_javas_type_then_taken_and_beyond_that_refused(
        kind: Type, low: int, high: int) -> None:
    row = Setting("number", kind, 0, "A number.")
    for edge in (low, high):
        assert parse_value(row, edge) == edge
        assert parse_value(row, str(edge)) == edge
    for beyond in (low - 1, high + 1):
        with pytest.raises(ConfigError, match=f"at most {high}"):
            parse_value(row, beyond)


@pytest.mark.parametrize("key", WORDS)
def test_words_when_listed_then_accepted_and_when_not_then_all_are_named(key: str) -> None:
    words = CONFIG_TABLE[key].allowed
    assert isinstance(words, OneOf)
    for word in words.words:
        assert parse(key, f" {word} ") == word
        if words.is_case_insensitive:
            assert parse(key, word.swapcase()) == word
    with pytest.raises(ConfigError) as caught:
        parse(key, "no-such-word")
    assert all(word in caught.value.why for word in words.words)


def test_secret_when_it_is_wrong_then_the_message_does_not_show_it() -> None:
    with pytest.raises(ConfigError) as caught:
        parse("ssl.key.password", 123456)
    assert "123456" not in str(caught.value)
    assert "[hidden]" in str(caught.value)


def test_objects_when_given_for_classes_then_they_stay_as_they_are() -> None:
    interceptor = object()
    assert parse("interceptor.classes", [interceptor, " a "]) == (interceptor, "a")
    assert parse("interceptor.classes", interceptor) == (interceptor,)
    assert parse("partitioner.class", len) is len


def test_integers_when_they_are_no_int_but_act_as_one_then_they_are_taken() -> None:
    class Seven:
        def __index__(self) -> int:
            return 7

    assert parse("linger.ms", Seven()) == 7


def test_list_when_split_then_blanks_go_and_empty_items_stay() -> None:
    assert split_list("  ") == ()
    assert split_list("a ,\tb,") == ("a", "b", "")


@pytest.mark.parametrize(("value", "text"), [
    (None, None), (True, "true"), (False, "false"), (5, "5"), (0.5, "0.5"), ("x", "x"), ((), ""), (("a", "b"), "a,b")])
def test_value_when_written_then_as_kafka_writes_it(value: object, text: str | None) -> None:
    assert value_text(value) == text


@pytest.mark.parametrize("rule", [EachOneOf(("a", "b")), EachMatches("[ab]", "a or b")], ids=["words", "pattern"])
def test_list_when_one_item_is_wrong_then_what_every_item_must_be_is_said(rule: EachOneOf | EachMatches) -> None:
    row = Setting("list", Type.LIST, ("a",), "Letters.", rule)
    for given, parsed in (("a , b", ("a", "b")), ("", ()), (["b"], ("b",))):
        assert parse_value(row, given) == parsed
    for wrong in ("a,c", "a,", ["ab"]):
        with pytest.raises(ConfigError, match=r"every item must be (one of a, b|a or b); the default is 'a'"):
            parse_value(row, wrong)
    with pytest.raises(ConfigError, match=r"every item must be (one of a, b|a or b)$"):
        parse_value(Setting("list", Type.LIST, (), "Letters.", rule), "c")


def test_path_when_given_for_a_string_then_it_is_its_text_and_for_a_password_refused() -> None:
    assert parse("ssl.keystore.location", Path("/x") / "key.pem") == "/x/key.pem"
    with pytest.raises(ConfigError, match=r"'?\[hidden\]'?.*expected a string"):
        parse("ssl.key.password", Path("/x"))


def test_rules_when_shown_then_they_read_as_words() -> None:
    assert str(Range(1, 9, also=(-1,))) == "between 1 and 9, or -1"
    assert str(Range(None, 5)) == "at most 5"
    assert Range(None, 5).refusal(6) == "the value must be at most 5"
