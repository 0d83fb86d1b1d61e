"""Makes format("pyproducer") known to Spark, which imports every top-level package named pyspark_*.

Road:    Spark's look-up of data sources -> [this] -> pyproducer.spark.datasource
Thread:  a process of Spark's own on the driver's machine.
Source:  pyspark.sql.worker.lookup_data_sources (4.0). setup.cfg maps this folder to the top level of what is installed.
"""

from __future__ import annotations

from pyproducer.spark.datasource import PyProducerDataSource as DefaultSource

__all__ = ["DefaultSource"]
