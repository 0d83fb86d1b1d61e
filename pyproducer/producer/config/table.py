"""All settings of the producer, by key.

Road:    rows by section -> [table] -> ProducerConfig
Thread:  immutable.
Source:  Java ProducerConfig.configDef() (4.1), compared row by row by tests/kafka/test_config_parity.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from pyproducer.producer.config.definition import Setting
from pyproducer.producer.config.rows_client import CLIENT
from pyproducer.producer.config.rows_delivery import DELIVERY
from pyproducer.producer.config.rows_sasl import SASL
from pyproducer.producer.config.rows_tls import TLS


def _by_key(*sections: tuple[Setting, ...]) -> Mapping[str, Setting]:
    """Join sections; a key that has two rows is a bug and fails the import."""
    table: dict[str, Setting] = {}
    for setting in (setting for section in sections for setting in section):
        if setting.key in table:
            raise RuntimeError(f"two rows for the setting {setting.key}")
        table[setting.key] = setting
    return MappingProxyType(table)


CONFIG_TABLE: Mapping[str, Setting] = _by_key(DELIVERY, CLIENT, TLS, SASL)
KEY_OF_ATTRIBUTE: Mapping[str, str] = MappingProxyType(
    {setting.attribute: setting.key for setting in CONFIG_TABLE.values()})
