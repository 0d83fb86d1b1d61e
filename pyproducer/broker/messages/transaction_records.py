"""What the transaction coordinator writes to __transaction_state: keys and values of its records.

On disk an INT16 comes first: 0 before a key, before a value its version.

Road:    broker/cluster/coordinator/transaction/transaction_records.py -> [messages] -> Schema
Thread:  constants.
Source:  Apache Kafka common/message/TransactionLog{Key,Value}.json of kafka-transaction-coordinator (4.1).
"""

from __future__ import annotations

from pyproducer.protocol.message import array, f, message
from pyproducer.protocol.types import INT8, INT16, INT32, INT64, STRING

TRANSACTION_LOG_KEY = message(
    "TransactionLogKey",
    f("transactional_id", STRING),
)

# Version 1 is flexible; what Transactions V2 added are tagged fields of it.
TRANSACTION_LOG_VALUE = message(
    "TransactionLogValue",
    f("producer_id", INT64),
    f("previous_producer_id", INT64, "1+", tag=0, default=-1, ignorable=True),
    f("next_producer_id", INT64, "1+", tag=1, default=-1, ignorable=True),
    f("producer_epoch", INT16),
    f("next_producer_epoch", INT16, "1+", tag=3, default=-1, ignorable=True),
    f("transaction_timeout_ms", INT32),
    f("transaction_status", INT8),
    array(
        "transaction_partitions",
        f("topic", STRING),
        array("partition_ids", INT32),
        nullable="0+",
    ),
    f("transaction_last_update_timestamp_ms", INT64),
    f("transaction_start_timestamp_ms", INT64),
    f("client_transaction_version", INT16, "1+", tag=2, default=0, ignorable=True),
)
