"""KafkaSink and the data source "pyproducer": write DataFrames to Kafka from their partitions.

Road:    Spark task -> [rows, arrow] -> producer
Thread:  one task at a time in a Spark Python worker; the pool may be shared by threads.
Source:  the column contract of Spark's own Kafka sink (spark-sql-kafka-0-10, 4.0); the rest is ours.
"""

from __future__ import annotations

from pyproducer.spark.errors import ColumnError, RowsFailedError
from pyproducer.spark.sink import KafkaSink
from pyproducer.spark.task_numbers import DeliveredNumbers, TaskNumbers, WriteNumbers

__all__ = ["ColumnError", "DeliveredNumbers", "KafkaSink", "RowsFailedError", "TaskNumbers", "WriteNumbers"]
