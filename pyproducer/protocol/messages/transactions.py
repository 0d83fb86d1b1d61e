"""InitProducerId (22), AddPartitionsToTxn (24), AddOffsetsToTxn (25), EndTxn (26), TxnOffsetCommit (28).

AddPartitionsToTxn 4 and 5 are spoken between brokers only. EndTxn 5 and TxnOffsetCommit 5 belong to transactions V2
(KIP-890): EndTxn 5 answers the producer id and epoch to go on with. InitProducerId 6 (KIP-939) is
not stable: never sent.

Road:    protocol/apis.py -> [messages] -> Schema
Thread:  constants.
Source:  Apache Kafka common/message/*.json (4.3).
"""

from __future__ import annotations

from pyproducer.protocol.message import array, f, message
from pyproducer.protocol.types import BOOLEAN, INT16, INT32, INT64, STRING

INIT_PRODUCER_ID_REQUEST = message(
    "InitProducerIdRequest",
    f("transactional_id", STRING, nullable="0+"),
    f("transaction_timeout_ms", INT32),
    f("producer_id", INT64, "3+", default=-1),
    f("producer_epoch", INT16, "3+", default=-1),
    f("enable2_pc", BOOLEAN, "6+", default=False),
    f("keep_prepared_txn", BOOLEAN, "6+", default=False),
)

INIT_PRODUCER_ID_RESPONSE = message(
    "InitProducerIdResponse",
    f("throttle_time_ms", INT32, default=0, ignorable=True),
    f("error_code", INT16),
    f("producer_id", INT64, default=-1),
    f("producer_epoch", INT16),
    f("ongoing_txn_producer_id", INT64, "6+", default=-1),
    f("ongoing_txn_producer_epoch", INT16, "6+", default=-1),
)

ADD_PARTITIONS_TO_TXN_REQUEST = message(
    "AddPartitionsToTxnRequest",
    array(
        "transactions",
        f("transactional_id", STRING),
        f("producer_id", INT64),
        f("producer_epoch", INT16),
        f("verify_only", BOOLEAN, default=False),
        array(
            "topics",
            f("name", STRING),
            array("partitions", INT32),
        ),
        versions="4+",
    ),
    f("v3_and_below_transactional_id", STRING, "0-3"),
    f("v3_and_below_producer_id", INT64, "0-3"),
    f("v3_and_below_producer_epoch", INT16, "0-3"),
    array(
        "v3_and_below_topics",
        f("name", STRING),
        array("partitions", INT32),
        versions="0-3",
    ),
)

ADD_PARTITIONS_TO_TXN_RESPONSE = message(
    "AddPartitionsToTxnResponse",
    f("throttle_time_ms", INT32, default=0),
    f("error_code", INT16, "4+", ignorable=True),
    array(
        "results_by_transaction",
        f("transactional_id", STRING),
        array(
            "topic_results",
            f("name", STRING),
            array(
                "results_by_partition",
                f("partition_index", INT32),
                f("partition_error_code", INT16),
            ),
        ),
        versions="4+",
    ),
    array(
        "results_by_topic_v3_and_below",
        f("name", STRING),
        array(
            "results_by_partition",
            f("partition_index", INT32),
            f("partition_error_code", INT16),
        ),
        versions="0-3",
    ),
)

ADD_OFFSETS_TO_TXN_REQUEST = message(
    "AddOffsetsToTxnRequest",
    f("transactional_id", STRING),
    f("producer_id", INT64),
    f("producer_epoch", INT16),
    f("group_id", STRING),
)

ADD_OFFSETS_TO_TXN_RESPONSE = message(
    "AddOffsetsToTxnResponse",
    f("throttle_time_ms", INT32, default=0),
    f("error_code", INT16),
)

END_TXN_REQUEST = message(
    "EndTxnRequest",
    f("transactional_id", STRING),
    f("producer_id", INT64),
    f("producer_epoch", INT16),
    f("committed", BOOLEAN),
)

END_TXN_RESPONSE = message(
    "EndTxnResponse",
    f("throttle_time_ms", INT32, default=0),
    f("error_code", INT16),
    f("producer_id", INT64, "5+", default=-1, ignorable=True),
    f("producer_epoch", INT16, "5+", default=-1, ignorable=True),
)

TXN_OFFSET_COMMIT_REQUEST = message(
    "TxnOffsetCommitRequest",
    f("transactional_id", STRING),
    f("group_id", STRING),
    f("producer_id", INT64),
    f("producer_epoch", INT16),
    f("generation_id", INT32, "3+", default=-1),
    f("member_id", STRING, "3+", default=""),
    f("group_instance_id", STRING, "3+", nullable="3+", default=None),
    array(
        "topics",
        f("name", STRING),
        array(
            "partitions",
            f("partition_index", INT32),
            f("committed_offset", INT64),
            f("committed_leader_epoch", INT32, "2+", default=-1, ignorable=True),
            f("committed_metadata", STRING, nullable="0+"),
        ),
    ),
)

TXN_OFFSET_COMMIT_RESPONSE = message(
    "TxnOffsetCommitResponse",
    f("throttle_time_ms", INT32, default=0),
    array(
        "topics",
        f("name", STRING),
        array(
            "partitions",
            f("partition_index", INT32),
            f("error_code", INT16),
        ),
    ),
)
