"""A table reads what was given, by the keys of its rows and their synonyms, and tells mistakes."""

from __future__ import annotations

import pytest

from pyproducer.common.errors import ConfigError
from pyproducer.common.settings.definition import Range, Setting, Support, Synonym, Type
from pyproducer.common.settings.table import OtherKeys, SettingTable

ROWS = (
    Setting("keep.ms", Type.LONG, 1000, "How long.", Range(-1),
            synonyms=(Synonym("keep.minutes", 60_000), Synonym("keep.hours", 3_600_000), Synonym("keep"))),
    Setting("jvm.only", Type.STRING, None, "Nothing.", support=Support.JVM_ONLY),
    Setting("kept.only", Type.INT, 5, "Nothing.", support=Support.INERT),
    Setting("pass.phrase", Type.PASSWORD, None, "Hidden."),
    Setting("names", Type.LIST, (), "Some."),
)
TABLE = SettingTable(ROWS, OtherKeys(frozenset({"old"}), ("family.",), meant={"elsewhere": "names"}),
                     unknown="nobody knows {key}")


def test_table_when_nothing_is_given_then_every_row_has_its_default() -> None:
    given = TABLE.read({})
    assert given.values == {"keep.ms": 1000, "jvm.only": None, "kept.only": 5, "pass.phrase": None, "names": ()}
    assert list(given.values) == list(TABLE) == [row.key for row in ROWS]
    assert (given.explicit, given.without_effect) == (frozenset(), frozenset())
    assert TABLE.key_of_attribute["keep_ms"] == "keep.ms"


@pytest.mark.parametrize(("props", "value"), [
    ({"keep.minutes": "2"}, 120_000), ({"keep.hours": 1}, 3_600_000), ({"keep": "7"}, 7),
    ({"keep.minutes": "-1"}, -1), ({"keep.hours": "0"}, 0),
    ({"keep.ms": 5, "keep.minutes": 2}, 5), ({"keep.minutes": 2, "keep.ms": 5}, 5),
    ({"keep.hours": 1, "keep.minutes": 2}, 120_000), ({"keep": 7, "keep.hours": 1}, 3_600_000)])
def test_synonym_when_given_then_it_counts_where_no_better_name_is(props: dict[str, object], value: int) -> None:
    given = TABLE.read(props)
    assert given.values["keep.ms"] == value
    assert given.explicit == {"keep.ms"}


@pytest.mark.parametrize(("key", "value", "why"), [
    ("keep.minutes", "-2", "the value must be at least -1; the default is 1000"),
    ("keep.minutes", 2**31, "must fit 32 bits"), ("keep", "x", "not a whole number; the default is 1000"),
    ("keep.hours", None, "None is not allowed")])
def test_synonym_when_its_value_is_wrong_then_the_error_names_what_was_given(key: str, value: object, why: str) -> None:
    for props in ({key: value}, {"keep.ms": 1, key: value}):
        with pytest.raises(ConfigError) as caught:
            TABLE.read(props)
        assert caught.value.key == key
        assert why in caught.value.why


def test_key_when_it_has_no_effect_then_it_is_told_and_kept_where_there_is_a_row() -> None:
    given = TABLE.read({"jvm.only": "x", "kept.only": 6, "old": 1, "family.any": 2, "names": "a"})
    assert given.without_effect == {"jvm.only", "kept.only", "old", "family.any"}
    assert given.explicit == {"jvm.only", "kept.only", "names"}
    assert (given.values["jvm.only"], given.values["kept.only"]) == ("x", 6)
    assert "old" not in given.values


def test_null_when_given_for_what_has_no_default_then_it_is_as_if_it_were_not_given() -> None:
    given = TABLE.read({"jvm.only": None})
    assert (given.explicit, given.without_effect) == (frozenset(), frozenset())


@pytest.mark.parametrize(("key", "said"), [
    ("keep_ms", "nobody knows keep_ms; did you mean 'keep.ms'?"), ("elsewhere", "did you mean 'names'?"),
    ("zzzzz", "nobody knows zzzzz"), ("pass.frase", "did you mean 'pass.phrase'?"),
    ("config.providers", "KIP-297"), ("A" * 64, "a line of PEM text"), (b"keep.ms", "a key must be a string")])
def test_key_when_nobody_knows_it_then_the_error_names_the_nearest_and_no_secret(key: str, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        TABLE.read({key: "hunter2"})  # one key is of bytes, as a careless caller's
    assert said in caught.value.why
    assert ("hunter2" in str(caught.value)) == (key in ("keep_ms", "elsewhere", b"keep.ms"))


def test_rows_when_two_have_one_key_then_the_table_cannot_be_made() -> None:
    for rows in ((ROWS[0], ROWS[0]), (ROWS[0], Setting("keep.hours", Type.INT, 1, "")),
                 (Setting("keep.hours", Type.INT, 1, ""), ROWS[0])):
        with pytest.raises(RuntimeError, match="two rows for the setting keep"):
            SettingTable(rows)
