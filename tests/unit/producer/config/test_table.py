"""The table has every setting of Java's producer once, each row complete."""

from __future__ import annotations

import pytest

from pyproducer.producer.config import CONFIG_TABLE, Support, Type
from pyproducer.producer.config.parse import parse_value
from pyproducer.producer.config.table import KEY_OF_ATTRIBUTE, _by_key


def test_table_when_counted_then_it_has_all_settings_of_kafka_4_1() -> None:
    assert len(CONFIG_TABLE) == 112
    assert len(KEY_OF_ATTRIBUTE) == 112


def test_rows_when_read_then_every_one_has_a_doc_and_its_own_key() -> None:
    for key, setting in CONFIG_TABLE.items():
        assert setting.key == key
        assert setting.doc.endswith(".")
        assert setting.doc.isascii()


def test_rows_when_read_then_every_part_is_of_its_kind() -> None:
    kinds = {Type.BOOLEAN: bool, Type.STRING: str, Type.INT: int, Type.LONG: int, Type.LIST: tuple}
    for key, setting in CONFIG_TABLE.items():
        assert isinstance(setting.type, Type), key
        assert isinstance(setting.support, Support), key
        if setting.default is not None and setting.type in kinds:
            assert type(setting.default) is kinds[setting.type], key


def test_defaults_when_parsed_as_if_given_then_they_are_what_they_were() -> None:
    for setting in CONFIG_TABLE.values():
        if setting.default is None:
            continue
        assert parse_value(setting, setting.default) == setting.default, setting.key
        if setting.type is not Type.LIST:
            assert parse_value(setting, str(setting.default)) == setting.default, setting.key


def test_settings_when_only_a_jvm_or_a_broker_uses_them_then_they_are_marked() -> None:
    def keys(support: Support) -> set[str]:
        return {key for key, setting in CONFIG_TABLE.items() if setting.support is support}

    assert keys(Support.JVM_ONLY) == {
        "sasl.login.class", "security.providers", "ssl.keymanager.algorithm", "ssl.provider",
        "ssl.secure.random.implementation", "ssl.trustmanager.algorithm"}
    assert all(key.startswith("sasl.oauthbearer.") for key in keys(Support.VALIDATOR_ONLY))
    assert len(keys(Support.VALIDATOR_ONLY)) == 7


def test_two_rows_when_they_have_one_key_then_the_import_fails() -> None:
    row = CONFIG_TABLE["acks"]
    with pytest.raises(RuntimeError, match="two rows for the setting acks"):
        _by_key((row,), (row,))
