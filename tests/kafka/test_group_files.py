"""Kafka's own tool reads what our group coordinator writes to __consumer_offsets."""

from __future__ import annotations

from pathlib import Path

from pyproducer.broker import EmbeddedBroker
from pyproducer.protocol.apis import ApiKeys
from tests.kafka.test_segment_files import dump
from tests.support.group_member import GroupMember
from tests.support.raw_client import RawClient


def test_dump_log_segments_decodes_groups_and_offsets(tmp_path: Path) -> None:
    with EmbeddedBroker(data_dir=tmp_path, topics={"orders": 1},
                        config={"offsets.topic.num.partitions": 1}) as broker, \
            GroupMember(RawClient(("127.0.0.1", broker.port)), "readers", instance_id="i") as member:
        assert member.client.request(ApiKeys.FIND_COORDINATOR, 3, {"key": "readers"})["error_code"] == 0
        # A subscription to "orders" and an assignment of its partition 0, as consumers write them: the tool looks in.
        member.join(("range", bytes.fromhex("0000" "00000001" "00066f7264657273" "ffffffff")))
        member.sync({member.member_id: bytes.fromhex("0000" "00000001" "00066f7264657273" "00000001" "00000000"
                                                     "ffffffff")})
        assert member.commit("orders", 42) == [0]
        member.leave()
        deleted = member.client.request(ApiKeys.DELETE_GROUPS, 2, {"groups_names": ["readers"]})
        assert deleted["results"][0]["error_code"] == 0
    (log,) = (tmp_path / "__consumer_offsets-0").glob("*.log")
    lines = [line for line in dump("--offsets-decoder", "--files", str(log)).splitlines() if "key:" in line]
    empty, stable, offset, left, offset_gone, group_gone = lines
    assert '"type":"2","data":{"group":"readers"}' in empty
    assert '"generation":0' in empty
    assert f'"leader":"{member.member_id}"' in stable
    assert '"groupInstanceId":"i"' in stable
    assert '"type":"1","data":{"group":"readers","topic":"orders","partition":0}' in offset
    assert '"offset":42,"leaderEpoch":-1,"metadata":""' in offset
    assert '"generation":2' in left
    assert '"members":[]' in left
    assert '"topic":"orders"' in offset_gone
    assert '"group":"readers"' in group_gone
    for line in (offset_gone, group_gone):
        assert line.endswith("payload: <DELETE>") or line.endswith("payload: null"), line
