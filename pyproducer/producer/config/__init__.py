"""The producer's settings: one table, Java's keys, types, defaults and cross-checks.

Road:    [application's properties] -> ProducerConfig -> wiring
Thread:  immutable values.
Source:  Java ProducerConfig (4.1).
"""

from __future__ import annotations

from pyproducer.producer.config.producer_config import ProducerConfig
from pyproducer.producer.config.table import CONFIG_TABLE

__all__ = ["CONFIG_TABLE", "ProducerConfig"]
