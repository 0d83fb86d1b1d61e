"""A data source in Python that drops its rows: what PySpark alone takes, beside format("pyproducer").

Imports no more than a data source must: Spark loads it in processes whose start is measured.

Source:  ours.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource, DataSourceArrowWriter, WriterCommitMessage

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


@dataclass
class RowsCounted(WriterCommitMessage):
    """How many rows a task saw."""

    row_count: int


class DefaultSource(DataSource):
    """Writes to nowhere."""

    @classmethod
    def name(cls) -> str:
        """Return what format() takes."""
        return "nothing"

    def writer(self, schema: StructType, overwrite: bool) -> NothingWriter:
        """Take any columns."""
        return NothingWriter()


class NothingWriter(DataSourceArrowWriter):
    """Counts rows, by columns."""

    def write(self, iterator: Iterator[Any]) -> RowsCounted:
        """Count the rows of one task."""
        return RowsCounted(sum(batch.num_rows for batch in iterator))

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Do nothing."""
