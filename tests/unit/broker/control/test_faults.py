"""Errors of one partition, in the requests of every API that has partitions: the others are answered as ever."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pyproducer.broker.apis.kafka_apis import HANDLERS
from pyproducer.broker.control.fault_rules import FaultRules
from pyproducer.broker.control.faults import Faults
from pyproducer.broker.network.request_channel import RequestChannel
from pyproducer.common.error_codes import ErrorCode
from pyproducer.protocol.apis import ApiKeys
from pyproducer.record.batch_writer import build_batch
from tests.support.broker_request import broker_request
from tests.support.raw_client import fetch_body
from tests.unit.broker.apis.stage import ApiStage

PARTITIONS = (0, 1, 2)
BATCH = bytes(build_batch([(1_700_000_000_000, b"k", b"v", ())]))
# Version, body, and where the answer has its partitions and their numbers.
REQUESTS: dict[ApiKeys, tuple[int, dict[str, Any], tuple[str, str, str]]] = {
    ApiKeys.PRODUCE: (9, {"acks": -1, "timeout_ms": 5000, "topic_data": [{"name": "orders", "partition_data": [
        {"index": index, "records": BATCH} for index in PARTITIONS]}]}, ("responses", "partition_responses", "index")),
    ApiKeys.FETCH: (11, fetch_body(11, "orders", 0, 0, topics=[{"topic": "orders", "partitions": [
        {"partition": index, "fetch_offset": 0, "partition_max_bytes": 1000} for index in PARTITIONS]}]),
        ("responses", "partitions", "partition_index")),
    ApiKeys.LIST_OFFSETS: (1, {"replica_id": -1, "topics": [{"name": "orders", "partitions": [
        {"partition_index": index, "timestamp": -1} for index in PARTITIONS]}]},
        ("topics", "partitions", "partition_index")),
    ApiKeys.OFFSET_COMMIT: (8, {
        "group_id": "g", "generation_id_or_member_epoch": -1, "member_id": "", "group_instance_id": None, "topics": [
            {"name": "orders", "partitions": [
                {"partition_index": index, "committed_offset": 0, "committed_metadata": ""} for index in PARTITIONS]}]},
        ("topics", "partitions", "partition_index")),
    ApiKeys.OFFSET_FOR_LEADER_EPOCH: (4, {"replica_id": -1, "topics": [{"topic": "orders", "partitions": [
        {"partition": index, "current_leader_epoch": -1, "leader_epoch": 0} for index in PARTITIONS]}]},
        ("topics", "partitions", "partition")),
}


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[ApiStage]:
    made = ApiStage(tmp_path)
    made.state.topic_life.create_topic("orders", len(PARTITIONS), {})
    made.ask(ApiKeys.FIND_COORDINATOR, 4, {"key_type": 0, "coordinator_keys": ["g"]})
    yield made
    made.close()


@pytest.mark.parametrize("when", ["before_apply", "after_apply"])
@pytest.mark.parametrize("api", REQUESTS)
def test_error_when_it_is_of_one_partition_then_the_others_are_answered_as_ever(
        stage: ApiStage, api: ApiKeys, when: str) -> None:
    version, body, (topics, partitions, number) = REQUESTS[api]
    rules = FaultRules()
    faults = Faults(rules, 1, stage.state.topics, RequestChannel(1), stage.state.timer)
    rules.add_action(rules.add(api=int(api), topic="orders", partition=1), "error",
                     {"code": int(ErrorCode.KAFKA_STORAGE_ERROR), "when": when})
    answers: list[Any] = []
    request = broker_request(api, version, body, connection_id=stage.connection_id)
    faults.respond(HANDLERS[api], request, faults.handle(HANDLERS[api], stage.services, request),
                   lambda _request, answer: answers.append(answer))
    answers.append(faults.handle(HANDLERS[api], stage.services, broker_request(
        api, version, body, connection_id=stage.connection_id)))
    faulty, sound = (sorted((entry[number], int(entry["error_code"])) for topic in answer[topics]
                            for entry in topic[partitions]) for answer in answers)
    assert faulty == [(0, 0), (1, 56), (2, 0)]
    assert sound == [(0, 0), (1, 0), (2, 0)]
