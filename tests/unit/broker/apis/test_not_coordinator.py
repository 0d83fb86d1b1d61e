"""A broker that does not speak for a group or a transaction says so, and the client looks for the one that does."""

from __future__ import annotations

from typing import Any

import pytest

from pyproducer.protocol.apis import ApiKeys
from tests.unit.broker.apis.stage import ApiStage

NOT_COORDINATOR = 16
MEMBER = {"group_id": "g", "generation_id": 1, "member_id": "m", "group_instance_id": None}
PRODUCER = {"transactional_id": "t", "producer_id": 1, "producer_epoch": 0}

CASES: list[tuple[ApiKeys, int, dict[str, Any]]] = [
    (ApiKeys.JOIN_GROUP, 7, {
        "group_id": "g", "session_timeout_ms": 10_000, "rebalance_timeout_ms": 10_000, "member_id": "",
        "group_instance_id": None, "protocol_type": "consumer", "protocols": [{"name": "range", "metadata": b""}]}),
    (ApiKeys.SYNC_GROUP, 5, {**MEMBER, "protocol_type": "consumer", "protocol_name": "range", "assignments": []}),
    (ApiKeys.HEARTBEAT, 4, MEMBER),
    (ApiKeys.LEAVE_GROUP, 4, {"group_id": "g", "members": [{"member_id": "m", "group_instance_id": None}]}),
    (ApiKeys.OFFSET_COMMIT, 8, {
        "group_id": "g", "generation_id_or_member_epoch": -1, "member_id": "", "group_instance_id": None, "topics": [
            {"name": "orders", "partitions": [{"partition_index": 0, "committed_offset": 1,
                                               "committed_leader_epoch": -1, "committed_metadata": ""}]}]}),
    (ApiKeys.OFFSET_FETCH, 8, {"require_stable": False, "groups": [{"group_id": "g", "topics": None}]}),
    (ApiKeys.DESCRIBE_GROUPS, 5, {"groups": ["g"], "include_authorized_operations": True}),
    (ApiKeys.DELETE_GROUPS, 2, {"groups_names": ["g"]}),
    (ApiKeys.TXN_OFFSET_COMMIT, 3, {
        **PRODUCER, "group_id": "g", "generation_id": -1, "member_id": "", "group_instance_id": None, "topics": [
            {"name": "orders", "partitions": [{"partition_index": 0, "committed_offset": 1,
                                               "committed_leader_epoch": -1, "committed_metadata": ""}]}]}),
    (ApiKeys.INIT_PRODUCER_ID, 4, {**PRODUCER, "producer_id": -1, "producer_epoch": -1,
                                   "transaction_timeout_ms": 1000}),
    (ApiKeys.ADD_PARTITIONS_TO_TXN, 3, {"v3_and_below_transactional_id": "t", "v3_and_below_producer_id": 1,
                                        "v3_and_below_producer_epoch": 0, "v3_and_below_topics": [
                                            {"name": "orders", "partitions": [0]}]}),
    (ApiKeys.ADD_OFFSETS_TO_TXN, 3, {**PRODUCER, "group_id": "g"}),
    (ApiKeys.END_TXN, 3, {**PRODUCER, "committed": True}),
    (ApiKeys.DESCRIBE_TRANSACTIONS, 0, {"transactional_ids": ["t"]}),
]


def error_codes(answer: Any) -> list[int]:
    """Return the error codes of an answer, however deep they stand; one that has others below it is left out."""
    if isinstance(answer, list):
        return [code for item in answer for code in error_codes(item)]
    if not isinstance(answer, dict):
        return []
    own = [int(value) for key, value in answer.items() if key in ("error_code", "partition_error_code")]
    below = [code for value in answer.values() for code in error_codes(value)]
    return below or own


@pytest.mark.parametrize(("api_key", "version", "body"), CASES, ids=[case[0].title for case in CASES])
def test_request_when_another_broker_speaks_for_its_group_or_transaction_then_it_says_so_of_each(
        stage: ApiStage, api_key: ApiKeys, version: int, body: dict[str, Any]) -> None:
    answer = stage.ask(api_key, version, body)
    assert error_codes(stage.later[-1] if stage.later else answer) == [NOT_COORDINATOR]


def test_described_group_when_another_broker_speaks_for_it_then_nothing_is_told_of_it(stage: ApiStage) -> None:
    answer = stage.ask(ApiKeys.DESCRIBE_GROUPS, 5, {"groups": ["g", "h"], "include_authorized_operations": True})
    assert answer == {"throttle_time_ms": 0, "groups": [
        {"error_code": NOT_COORDINATOR, "error_message": None, "group_id": group_id, "group_state": "",
         "protocol_type": "", "protocol_data": "", "members": []} for group_id in ("g", "h")]}
