"""All settings of the producer, by key.

Road:    rows by section -> [table] -> ProducerConfig
Thread:  immutable.
Source:  Java ProducerConfig.configDef() (4.1), compared row by row by tests/kafka/test_config_parity.py.
"""

from __future__ import annotations

from pyproducer.common.settings.table import SettingTable
from pyproducer.producer.config.other_keys import OTHER_KEYS
from pyproducer.producer.config.rows_client import CLIENT
from pyproducer.producer.config.rows_delivery import DELIVERY
from pyproducer.producer.config.rows_sasl import SASL
from pyproducer.producer.config.rows_tls import TLS

CONFIG_TABLE = SettingTable((*DELIVERY, *CLIENT, *TLS, *SASL), OTHER_KEYS)
