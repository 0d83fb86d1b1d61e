"""The text of sasl.jaas.config is read as Java reads it, and nothing of it is ever shown."""

import pickle
import traceback

import pytest

from pyproducer.common.errors import ConfigError
from pyproducer.common.jaas import parse_jaas

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"


def options_of(text):
    return dict(parse_jaas(f"{PLAIN} required {text};").options)


def test_entry_has_module_flag_and_options():
    entry = parse_jaas(f'{PLAIN} required username="ada" password="pa ss;word=1";')
    assert entry.login_module == PLAIN
    assert entry.control_flag == "required"
    assert dict(entry.options) == {"username": "ada", "password": "pa ss;word=1"}


@pytest.mark.parametrize("flag", ["required", "REQUISITE", "Sufficient", "optional"])
def test_control_flag_of_any_case_is_taken(flag):
    assert parse_jaas(f"{PLAIN} {flag};").control_flag == flag.lower()


def test_entry_over_several_lines_with_comments_is_read():
    entry = parse_jaas(f"""
        // who
        {PLAIN} required /* always
        */ username=ada   / one slash, too, begins a comment
        ;""")
    assert dict(entry.options) == {"username": "ada"}


# Each line was given to java.io.StreamTokenizer as JaasConfig sets it up.
@pytest.mark.parametrize(("text", "value"), [
    (r'a="b"', "b"),
    ("a='b'", "b"),
    ("a=b", "b"),
    ("a = b", "b"),
    ("a='say \"hi\"'", 'say "hi"'),
    (r'a="say \"hi\""', 'say "hi"'),
    (r'a="back\\slash"', r"back\slash"),
    (r'a="\t\n\r\f\b\a\v"', "\t\n\r\f\b\a\v"),
    (r'a="\x\y"', "xy"),
    (r'a="\101\1012"', "AA2"),
    (r'a="\477"', "'7"),
    (r'a="\08"', "\x008"),
    (r'a="\377"', "\xff"),
    ("a=x-1_y$.z", "x-1_y$.z"),
    ("a=\u00fcber", "\u00fcber"),
    ('a="\u20ac"', "\u20ac"),
    ('a=""', ""),
    ('a="x" a="y"', "y"),
    ('"a"="x"', "x"),
    ('a="//x/*y*/"', "//x/*y*/"),
    ("a=$ConnectionString", "$ConnectionString"),
    ('a="x"b="y"', "x"),
])
def test_value_is_what_java_reads(text, value):
    assert options_of(text)["a"] == value


def test_name_when_databricks_put_its_prefix_before_it_then_kafkas_own():
    assert parse_jaas(f"kafkashaded.{PLAIN} required;").login_module == PLAIN


SECRET = "Zx9-never-shown"


@pytest.mark.parametrize(("text", "place", "why"), [
    ("", "character 1 of 0", "no login module"),
    ("  // nothing", "character 13 of 12", "no login module"),
    ("= required;", "character 1 of 11", "name of a login module"),
    (PLAIN, "character 56 of 55", "control flag"),
    (f"{PLAIN} {SECRET};", "character 57 of 72", "required, requisite, sufficient, optional"),
    (f'{PLAIN} username="ada" password="{SECRET}";', "character 57", "required, requisite, sufficient, optional"),
    (f'{PLAIN} required password="{SECRET}"', "of 91", "semicolon"),
    (f'{PLAIN} required password="{SECRET};', "character 75 of 91", "not closed"),
    (f'{PLAIN} required password="{SECRET}\n";', "character 75 of 93", "not closed"),
    (f'{PLAIN} required password;', "character 74 of 74", "= and its value"),
    (f'{PLAIN} required password {SECRET};', "character 75", "= and its value"),
    (f'{PLAIN} required password=;', "character 75 of 75", "a value must stand here"),
    (f'{PLAIN} required password=9{SECRET};', "character 75", "must stand in quotes"),
    (f'{PLAIN} required password=-{SECRET};', "character 75", "must stand in quotes"),
    (f'{PLAIN} required password={SECRET}!;', "character 90", "name of an option"),
    (f'{PLAIN} required keyTab=/{SECRET};', "character 90", "must stand in quotes"),
    (f'{PLAIN} required password="{SECRET}"; {PLAIN} required;', "character 94", "behind the semicolon"),
    (f'{PLAIN} required password="{SECRET}";;', "character 93", "behind the semicolon"),
])
def test_error_says_what_and_where_and_nothing_of_the_text(text, place, why):
    with pytest.raises(ConfigError) as raised:
        parse_jaas(text, "listener.name.a.plain.sasl.jaas.config")
    message = str(raised.value)
    assert raised.value.key == "listener.name.a.plain.sasl.jaas.config"
    assert place in message
    assert why in message
    assert SECRET not in message


@pytest.mark.parametrize("text", [
    f'{PLAIN} required password="{SECRET}"', f'{PLAIN} required password="{SECRET}', f"{PLAIN} {SECRET};",
    f"{PLAIN} required password={SECRET}!;", f'{PLAIN} required password="{SECRET}" x;'])
def test_variables_of_the_frames_that_raise_show_no_secret(text):
    with pytest.raises(ConfigError) as raised:
        parse_jaas(text)
    shown = traceback.TracebackException.from_exception(raised.value, capture_locals=True)
    frames = [frame for frame in shown.stack if frame.filename.endswith("/common/jaas.py")]
    assert frames
    assert SECRET not in str([frame.locals for frame in frames])


def test_repr_hides_the_values():
    entry = parse_jaas(f'{PLAIN} required username="ada" password="{SECRET}";')
    assert repr(entry) == f"JaasEntry('{PLAIN}', 'required', {{'username': [hidden], 'password': [hidden]}})"
    assert SECRET not in f"{entry} {entry!s} {entry.options} {entry[2]!r}"


def test_pickle_is_refused():
    entry = parse_jaas(f'{PLAIN} required password="{SECRET}";')
    with pytest.raises(TypeError, match="secret"):
        pickle.dumps(entry)
