"""Bytes of others: made by Apache Kafka's own classes, or answered by its broker; never by our writer.

GENERATED rows were written by kafka-clients 4.3.0 (MessageUtil.toByteBufferAccessor of the generated *Data classes);
ANSWERS are what an Apache Kafka 4.1.0 broker sent (measured).
"""

from __future__ import annotations

import uuid

import pytest

from pyproducer.protocol.apis import ApiKeys
from pyproducer.protocol.buffer import ByteReader, ByteWriter
from pyproducer.protocol.header import (
    build_request,
    build_response,
    parse_response,
    read_request_header,
)
from pyproducer.protocol.types import ZERO_UUID
from tests.support.whole_request import parse_request

ID = uuid.UUID("01020304-0506-0708-090a-0b0c0d0e0f10")
P = ApiKeys.PRODUCE


def produce_request(transactional_id, topic):
    partitions = [{"index": 2, "records": b"\1\2\3"}, {"index": 0, "records": None}]
    return {"transactional_id": transactional_id, "acks": -1, "timeout_ms": 30000,
            "topic_data": [{**topic, "partition_data": partitions}]}


def produce_response(version, topic):
    first = {"index": 2, "error_code": 6, "base_offset": -1, "log_append_time_ms": -1}
    second = {"index": 0, "error_code": 0, "base_offset": 92, "log_append_time_ms": -1}
    body = {"responses": [{**topic, "partition_responses": [first, second]}], "throttle_time_ms": 5}
    if version >= 5:
        first["log_start_offset"] = -1
        second["log_start_offset"] = 0
    if version >= 8:
        first |= {"record_errors": [{"batch_index": 4, "batch_index_error_message": "bad"}], "error_message": "moved"}
        second |= {"record_errors": [], "error_message": None}
    if version >= 10:
        first["current_leader"] = {"leader_id": 3, "leader_epoch": 9}
        second["current_leader"] = {"leader_id": -1, "leader_epoch": -1}
        body["node_endpoints"] = [{"node_id": 3, "host": "b3", "port": 9094, "rack": None}]
    return body


METADATA_RESPONSE_13 = {
    "throttle_time_ms": 0,
    "brokers": [{"node_id": 1, "host": "127.0.0.1", "port": 19092, "rack": "r1"}],
    "cluster_id": "c1",
    "controller_id": 1,
    "topics": [{
        "error_code": 0, "name": "orders", "topic_id": ID, "is_internal": False,
        "partitions": [{"error_code": 0, "partition_index": 1, "leader_id": 1, "leader_epoch": 4,
                        "replica_nodes": [1, 2], "isr_nodes": [1], "offline_replicas": [2]}],
        "topic_authorized_operations": -2147483648,
    }],
    "error_code": 129,
}
API_VERSIONS_RESPONSE_4 = {
    "error_code": 0,
    "api_keys": [{"api_key": 0, "min_version": 0, "max_version": 13}],
    "throttle_time_ms": 0,
    "supported_features": [{"name": "transaction.version", "min_version": 0, "max_version": 2}],
    "finalized_features_epoch": 12,
    "finalized_features": [{"name": "transaction.version", "max_version_level": 2, "min_version_level": 2}],
    "zk_migration_ready": False,
}
TXN_OFFSET_COMMIT_5 = {
    "transactional_id": "tx", "group_id": "g", "producer_id": 1, "producer_epoch": 0, "generation_id": -1,
    "member_id": "", "group_instance_id": None,
    "topics": [{"name": "t", "partitions": [{"partition_index": 0, "committed_offset": 10,
                                             "committed_leader_epoch": -1, "committed_metadata": None}]}],
}
FETCH_18 = {
    "cluster_id": "c1", "replica_state": {"replica_id": 2, "replica_epoch": 8}, "max_wait_ms": 500, "min_bytes": 1,
    "max_bytes": 2**31 - 1, "isolation_level": 0, "session_id": 0, "session_epoch": -1,
    "topics": [{"topic_id": ID, "partitions": [{
        "partition": 1, "current_leader_epoch": -1, "fetch_offset": 10, "last_fetched_epoch": -1,
        "log_start_offset": -1, "partition_max_bytes": 1048576, "replica_directory_id": ZERO_UUID,
        "high_watermark": 5}]}],
    "forgotten_topics_data": [], "rack_id": "",
}
NAME, BY_ID = {"name": "orders"}, {"topic_id": ID}
CURSOR = {"topic_name": "orders", "partition_index": 3}

GENERATED = [
    (P, "request", 3, produce_request(None, NAME),
     "ffffffff000075300000000100066f726465727300000002000000020000000301020300000000ffffffff"),
    (P, "request", 9, produce_request("tx", NAME),
     "037478ffff0000753002076f7264657273030000000204010203000000000000000000"),
    (P, "request", 13, produce_request(None, BY_ID),
     "00ffff00007530020102030405060708090a0b0c0d0e0f10030000000204010203000000000000000000"),
    (P, "response", 3, produce_response(3, NAME),
     "0000000100066f726465727300000002000000020006ffffffffffffffffffffffffffffffff000000000000000000000000005c"
     "ffffffffffffffff00000005"),
    (P, "response", 8, produce_response(8, NAME),
     "0000000100066f726465727300000002000000020006ffffffffffffffffffffffffffffffffffffffffffffffff00000001"
     "00000004000362616400056d6f766564000000000000000000000000005cffffffffffffffff000000000000000000000000ffff"
     "00000005"),
    (P, "response", 10, produce_response(10, NAME),
     "02076f726465727303000000020006ffffffffffffffffffffffffffffffffffffffffffffffff02000000040462616400066d6f766564"
     "010009000000030000000900000000000000000000000000005cffffffffffffffff0000000000000000010000000000000501000e02"
     "00000003036233000023860000"),
    (P, "response", 13, produce_response(13, BY_ID),
     "020102030405060708090a0b0c0d0e0f1003000000020006ffffffffffffffffffffffffffffffffffffffffffffffff02000000040462"
     "616400066d6f766564010009000000030000000900000000000000000000000000005cffffffffffffffff000000000000000001000000"
     "0000000501000e0200000003036233000023860000"),
    (ApiKeys.METADATA, "request", 0, {"topics": []}, "00000000"),
    (ApiKeys.METADATA, "request", 4, {"topics": None, "allow_auto_topic_creation": True}, "ffffffff01"),
    (ApiKeys.METADATA, "request", 12,
     {"topics": [{"topic_id": ZERO_UUID, "name": "orders"}, {"topic_id": ID, "name": None}],
      "allow_auto_topic_creation": False, "include_topic_authorized_operations": False},
     "0300000000000000000000000000000000076f7264657273000102030405060708090a0b0c0d0e0f100000000000"),
    (ApiKeys.METADATA, "response", 13, METADATA_RESPONSE_13,
     "0000000002000000010a3132372e302e302e3100004a940372310003633100000001020000076f726465727301020304050607"
     "08090a0b0c0d0e0f100002000000000001000000010000000403000000010000000202000000010200000002008000000000008100"),
    (ApiKeys.API_VERSIONS, "response", 4, API_VERSIONS_RESPONSE_4,
     "00000200000000000d000000000003001a02147472616e73616374696f6e2e76657273696f6e00000002000108000000000000000c02"
     "1a02147472616e73616374696f6e2e76657273696f6e0002000200"),
    (ApiKeys.API_VERSIONS, "request", 4, {"client_software_name": "pyproducer", "client_software_version": "0.1"},
     "0b707970726f647563657204302e3100"),
    (ApiKeys.INIT_PRODUCER_ID, "request", 5,
     {"transactional_id": "tx", "transaction_timeout_ms": 60000, "producer_id": 1000, "producer_epoch": 3},
     "0374780000ea6000000000000003e8000300"),
    (ApiKeys.INIT_PRODUCER_ID, "response", 5,
     {"throttle_time_ms": 0, "error_code": 0, "producer_id": 1000, "producer_epoch": 4},
     "00000000000000000000000003e8000400"),
    (ApiKeys.FIND_COORDINATOR, "request", 6, {"key_type": 1, "coordinator_keys": ["tx"]}, "010203747800"),
    (ApiKeys.FIND_COORDINATOR, "response", 1,
     {"throttle_time_ms": 0, "error_code": 0, "error_message": "NONE", "node_id": 1, "host": "127.0.0.1",
      "port": 19092},
     "00000000000000044e4f4e450000000100093132372e302e302e3100004a94"),
    (ApiKeys.END_TXN, "response", 5,
     {"throttle_time_ms": 0, "error_code": 0, "producer_id": 1000, "producer_epoch": 5},
     "00000000000000000000000003e8000500"),
    (ApiKeys.TXN_OFFSET_COMMIT, "request", 5, TXN_OFFSET_COMMIT_5,
     "037478026700000000000000010000ffffffff01000202740200000000000000000000000affffffff00000000"),
    (ApiKeys.FETCH, "request", 18, FETCH_18,
     "000001f4000000017fffffff0000000000ffffffff020102030405060708090a0b0c0d0e0f100200000001ffffffff000000000000000a"
     "ffffffffffffffffffffffff001000000101080000000000000005000101020003036331010d00000002000000000000000800"),
    (ApiKeys.DESCRIBE_TOPIC_PARTITIONS, "request", 0,
     {"topics": [{"name": "orders"}], "response_partition_limit": 2000, "cursor": CURSOR},
     "02076f726465727300000007d001076f7264657273000000030000"),
    (ApiKeys.DESCRIBE_TOPIC_PARTITIONS, "request", 0,
     {"topics": [], "response_partition_limit": 2000, "cursor": None}, "01000007d0ff00"),
    (ApiKeys.SASL_HANDSHAKE, "request", 1, {"mechanism": "PLAIN"}, "0005504c41494e"),
    (ApiKeys.SASL_AUTHENTICATE, "response", 2,
     {"error_code": 0, "error_message": "", "auth_bytes": b"\1\2", "session_lifetime_ms": 3600000},
     "000001030102000000000036ee8000"),
]


@pytest.mark.parametrize(("api", "kind", "version", "value", "hex_text"), GENERATED,
                         ids=[f"{row[0].title}-{row[1]}-{row[2]}" for row in GENERATED])
def test_bytes_of_kafkas_generated_classes(api, kind, version, value, hex_text):
    schema = api.request_schema(version) if kind == "request" else api.response_schema(version)
    golden = bytes.fromhex(hex_text)
    writer = ByteWriter()
    schema.write(writer, value)
    assert writer.to_bytes().hex() == hex_text
    assert schema.read(ByteReader(golden)) == value


def test_request_header_bytes_of_kafkas_generated_classes():
    body = {"transactional_id": None, "acks": 1, "timeout_ms": 1, "topic_data": []}
    flexible = b"".join(build_request(P, 13, 7, "me", body))
    assert flexible.hex().startswith("0000000d0000000700026d6500")  # client_id keeps its INT16 length
    classic = b"".join(build_request(ApiKeys.METADATA, 1, 7, None, {"topics": []}))
    assert classic.hex() == "0003000100000007ffff" + "00000000"


# What Apache Kafka 4.1.0 answered ------------------------------------------------------------------------------------

def test_unsupported_api_versions_answer_of_a_real_broker():
    answer = bytes.fromhex("00000007002300000001001200000004")
    correlation_id, body = parse_response(ApiKeys.API_VERSIONS, 4, answer)
    assert correlation_id == 7
    assert body == {"error_code": 35, "api_keys": [{"api_key": 18, "min_version": 0, "max_version": 4}]}
    assert b"".join(build_response(ApiKeys.API_VERSIONS, 0, 7, body)) == answer


def test_unsupported_api_versions_answer_of_an_old_broker_is_an_empty_array():
    assert parse_response(ApiKeys.API_VERSIONS, 3, bytes.fromhex("00000001002300000000")) == (
        1, {"error_code": 35, "api_keys": []})


def test_metadata_v1_answer_of_a_real_broker():
    recorded = bytes.fromhex("00000005000000010000000100093132372e302e302e3100004a94ffff00")
    body = {"brokers": [{"node_id": 1, "host": "127.0.0.1", "port": 19092, "rack": None}], "controller_id": 1,
            "topics": []}
    ours = b"".join(build_response(ApiKeys.METADATA, 1, 5, body))
    assert ours.startswith(recorded)  # the recording ends after 30 bytes
    assert parse_response(ApiKeys.METADATA, 1, ours) == (5, body)


def test_metadata_v9_answer_of_a_real_broker():
    recorded = bytes.fromhex("00000005000000000002000000010a3132372e302e302e3100004a9400001759774f744479447154")
    body = {"throttle_time_ms": 0, "brokers": [{"node_id": 1, "host": "127.0.0.1", "port": 19092, "rack": None}],
            "cluster_id": "YwOtDyDqTWWxRGixpFtGMw", "controller_id": 1, "topics": []}
    ours = b"".join(build_response(ApiKeys.METADATA, 9, 5, body))
    assert ours.startswith(recorded)


def test_unknown_tags_in_header_and_body_and_trailing_bytes_are_passed_over():
    # Metadata v9 as a real broker accepted it: a tag 5 in the header, a tag 99 in the body, garbage behind.
    header = bytes.fromhex("0003" "0009" "00000005" "0001" "63" "01" "0502aabb")
    body = bytes.fromhex("00" "01" "00" "00" "01" "6301cc")
    assert read_request_header(ByteReader(header + body)) == (3, 9, 5, "c")
    parsed = parse_request(header + body + b"garbage")
    assert parsed.request.data["topics"] is None
    assert parsed.size_in_bytes == len(header + body)
