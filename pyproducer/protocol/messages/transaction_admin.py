"""DescribeTransactions (key 65), ListTransactions (66): looking at transactions from outside.

Road:    protocol/apis.py -> [messages] -> Schema
Thread:  constants.
Source:  Apache Kafka common/message/*.json (4.3); KIP-664.
"""

from __future__ import annotations

from pyproducer.protocol.message import array, f, message
from pyproducer.protocol.types import INT16, INT32, INT64, STRING

DESCRIBE_TRANSACTIONS_REQUEST = message(
    "DescribeTransactionsRequest",
    array("transactional_ids", STRING),
)

DESCRIBE_TRANSACTIONS_RESPONSE = message(
    "DescribeTransactionsResponse",
    f("throttle_time_ms", INT32, default=0),
    array(
        "transaction_states",
        f("error_code", INT16),
        f("transactional_id", STRING),
        f("transaction_state", STRING),
        f("transaction_timeout_ms", INT32),
        f("transaction_start_time_ms", INT64),
        f("producer_id", INT64),
        f("producer_epoch", INT16),
        array(
            "topics",
            f("topic", STRING),
            array("partitions", INT32),
        ),
    ),
)

LIST_TRANSACTIONS_REQUEST = message(
    "ListTransactionsRequest",
    array("state_filters", STRING),
    array("producer_id_filters", INT64),
    f("duration_filter", INT64, "1+", default=-1),
    f("transactional_id_pattern", STRING, "2+", nullable="2+", default=None),
)

LIST_TRANSACTIONS_RESPONSE = message(
    "ListTransactionsResponse",
    f("throttle_time_ms", INT32, default=0),
    f("error_code", INT16),
    array("unknown_state_filters", STRING),
    array(
        "transaction_states",
        f("transactional_id", STRING),
        f("producer_id", INT64),
        f("transaction_state", STRING),
    ),
)
