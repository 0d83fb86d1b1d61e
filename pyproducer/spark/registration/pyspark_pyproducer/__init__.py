"""Makes format("pyproducer") known to Spark, which imports every top-level package named pyspark_*.

Spark does that in a process of its own when a session first asks for any data source in Python, ours or not. So it is
only a name here; what the name stands for is loaded where a write is planned.

Road:    Spark's look-up of data sources -> [this] -> pyproducer.spark.datasource
Thread:  processes of Spark's own on the driver's machine.
Source:  pyspark.sql.worker.lookup_data_sources (4.0). setup.cfg maps this folder to the top level of what is installed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from pyspark.sql.datasource import DataSource

if TYPE_CHECKING:
    from pyspark.sql.datasource import DataSourceStreamWriter, DataSourceWriter
    from pyspark.sql.types import StructType

    from pyproducer.spark.datasource import PyProducerDataSource

__all__ = ["DefaultSource"]


class DefaultSource(DataSource):
    """The data source "pyproducer", by its name; see pyproducer.spark.datasource.PyProducerDataSource."""

    @classmethod
    def name(cls) -> str:
        """Return what format() takes."""
        return "pyproducer"

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """Check options and columns; see PyProducerDataSource."""
        return self._loaded().writer(schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802 - Spark's name
        """Check options and columns; see PyProducerDataSource."""
        return self._loaded().streamWriter(schema, overwrite)

    def schema(self) -> NoReturn:
        """Refuse to be read; see PyProducerDataSource."""
        self._loaded().schema()

    def _loaded(self) -> PyProducerDataSource:
        # Here: most sessions that look for data sources want another.
        from pyproducer.spark.datasource import PyProducerDataSource

        return PyProducerDataSource(self.options)
