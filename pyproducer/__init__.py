"""pyproducer: a Kafka producer for Python with the Java producer's guarantees and settings."""

from __future__ import annotations

__version__ = "0.1.0"
