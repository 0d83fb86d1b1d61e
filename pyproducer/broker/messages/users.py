"""DescribeClientQuotas (48), DescribeUserScramCredentials (50), AlterUserScramCredentials (51): the cluster's users.

Road:    protocol/apis.py -> [messages] -> Schema
Thread:  constants.
Source:  Apache Kafka common/message/*.json (4.3).
"""

from __future__ import annotations

from pyproducer.protocol.message import array, f, message
from pyproducer.protocol.types import BOOLEAN, BYTES, FLOAT64, INT8, INT16, INT32, STRING

DESCRIBE_CLIENT_QUOTAS_REQUEST = message(
    "DescribeClientQuotasRequest",
    array(
        "components",
        f("entity_type", STRING),
        f("match_type", INT8),
        f("match", STRING, nullable="0+"),
    ),
    f("strict", BOOLEAN),
)

DESCRIBE_CLIENT_QUOTAS_RESPONSE = message(
    "DescribeClientQuotasResponse",
    f("throttle_time_ms", INT32),
    f("error_code", INT16),
    f("error_message", STRING, nullable="0+"),
    array(
        "entries",
        array(
            "entity",
            f("entity_type", STRING),
            f("entity_name", STRING, nullable="0+"),
        ),
        array(
            "values",
            f("key", STRING),
            f("value", FLOAT64),
        ),
        nullable="0+",
    ),
)

DESCRIBE_USER_SCRAM_CREDENTIALS_REQUEST = message(
    "DescribeUserScramCredentialsRequest",
    array(
        "users",
        f("name", STRING),
        nullable="0+",
    ),
)

DESCRIBE_USER_SCRAM_CREDENTIALS_RESPONSE = message(
    "DescribeUserScramCredentialsResponse",
    f("throttle_time_ms", INT32),
    f("error_code", INT16),
    f("error_message", STRING, nullable="0+"),
    array(
        "results",
        f("user", STRING),
        f("error_code", INT16),
        f("error_message", STRING, nullable="0+"),
        array(
            "credential_infos",
            f("mechanism", INT8),
            f("iterations", INT32),
        ),
    ),
)

ALTER_USER_SCRAM_CREDENTIALS_REQUEST = message(
    "AlterUserScramCredentialsRequest",
    array(
        "deletions",
        f("name", STRING),
        f("mechanism", INT8),
    ),
    array(
        "upsertions",
        f("name", STRING),
        f("mechanism", INT8),
        f("iterations", INT32),
        f("salt", BYTES),
        f("salted_password", BYTES),
    ),
)

ALTER_USER_SCRAM_CREDENTIALS_RESPONSE = message(
    "AlterUserScramCredentialsResponse",
    f("throttle_time_ms", INT32),
    array(
        "results",
        f("user", STRING),
        f("error_code", INT16),
        f("error_message", STRING, nullable="0+"),
    ),
)
