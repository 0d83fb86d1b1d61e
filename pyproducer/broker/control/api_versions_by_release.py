"""Which versions of which API each release of Apache Kafka answers: the faces that this broker can put on.

Road:    set_api_versions("2.8") -> [table] -> api_version_overrides.py
Thread:  constants.
Shape:   one row per API: `release:first-last`, from that release on until the next entry; `-` where it does not exist.
         Releases before 4.0 are those that run with ZooKeeper, but for 71, 72 and 75, which only KRaft brokers have.
Source:  franz-go pkg/kversion (2.0 to 4.2), checked against a live 4.1.0.
"""

from __future__ import annotations

from pyproducer.common.errors import ConfigError

VersionRange = tuple[int, int]

RELEASES = ("2.0", "2.1", "2.2", "2.3", "2.4", "2.5", "2.6", "2.7", "2.8", "3.0", "3.2", "3.3", "3.5", "3.6", "3.7",
            "3.8", "3.9", "4.0", "4.1", "4.2")

_ROWS: dict[int, str] = {
    0: "2.0:0-6 2.1:0-7 2.4:0-8 2.8:0-9 3.7:0-10 3.8:0-11 4.0:0-12 4.1:0-13",  # Produce
    1: "2.0:0-8 2.1:0-10 2.3:0-11 2.7:0-12 3.2:0-13 3.5:0-15 3.7:0-16 3.9:0-17 4.0:4-17 4.1:4-18",  # Fetch
    2: "2.0:0-3 2.1:0-4 2.2:0-5 2.8:0-6 3.0:0-7 3.5:0-8 3.9:0-9 4.0:1-10 4.2:1-11",  # ListOffsets
    3: "2.0:0-6 2.1:0-7 2.3:0-8 2.4:0-9 2.8:0-11 3.2:0-12 4.0:0-13",  # Metadata
    8: "2.0:0-4 2.1:0-6 2.3:0-7 2.4:0-8 3.7:0-9 4.0:2-9 4.2:2-10",  # OffsetCommit
    9: "2.0:0-4 2.1:0-5 2.4:0-6 2.5:0-7 3.0:0-8 3.7:0-9 4.0:1-9 4.2:1-10",  # OffsetFetch
    10: "2.0:0-2 2.4:0-3 3.0:0-4 3.8:0-5 3.9:0-6",  # FindCoordinator
    11: "2.0:0-3 2.2:0-4 2.3:0-5 2.4:0-6 2.5:0-7 3.2:0-9 4.0:2-9 4.1:0-9",  # JoinGroup
    12: "2.0:0-2 2.3:0-3 2.4:0-4",  # Heartbeat
    13: "2.0:0-2 2.4:0-4 3.2:0-5",  # LeaveGroup
    14: "2.0:0-2 2.3:0-3 2.4:0-4 2.5:0-5",  # SyncGroup
    15: "2.0:0-2 2.3:0-3 2.4:0-5 4.0:0-6",  # DescribeGroups
    16: "2.0:0-2 2.4:0-3 2.6:0-4 3.8:0-5",  # ListGroups
    17: "2.0:0-1",  # SaslHandshake
    18: "2.0:0-2 2.4:0-3 3.9:0-4",  # ApiVersions
    19: "2.0:0-3 2.4:0-5 2.7:0-6 2.8:0-7 4.0:2-7",  # CreateTopics
    20: "2.0:0-2 2.1:0-3 2.4:0-4 2.7:0-5 2.8:0-6 4.0:1-6",  # DeleteTopics
    21: "2.0:0-1 2.6:0-2",  # DeleteRecords
    22: "2.0:0-1 2.4:0-2 2.5:0-3 2.7:0-4 3.8:0-5",  # InitProducerId
    23: "2.0:0-1 2.1:0-2 2.3:0-3 2.8:0-4 4.0:2-4",  # OffsetForLeaderEpoch
    24: "2.0:0-1 2.7:0-2 2.8:0-3 3.6:0-4 3.8:0-5",  # AddPartitionsToTxn
    25: "2.0:0-1 2.7:0-2 2.8:0-3 3.8:0-4",  # AddOffsetsToTxn
    26: "2.0:0-1 2.7:0-2 2.8:0-3 3.8:0-4 4.0:0-5",  # EndTxn
    27: "2.0:0-0 2.8:0-1 4.0:1-1 4.2:1-2",  # WriteTxnMarkers
    28: "2.0:0-1 2.1:0-2 2.5:0-3 3.8:0-4 4.0:0-5",  # TxnOffsetCommit
    29: "2.0:0-1 2.5:0-2 3.3:0-3 4.0:1-3",  # DescribeAcls
    30: "2.0:0-1 2.5:0-2 3.3:0-3 4.0:1-3",  # CreateAcls
    31: "2.0:0-1 2.5:0-2 3.3:0-3 4.0:1-3",  # DeleteAcls
    32: "2.0:0-2 2.6:0-3 2.8:0-4 4.0:1-4",  # DescribeConfigs
    33: "2.0:0-1 2.8:0-2",  # AlterConfigs
    35: "2.0:0-1 2.6:0-2 3.2:0-3 3.3:0-4 4.0:1-4",  # DescribeLogDirs
    36: "2.0:0-0 2.2:0-1 2.5:0-2",  # SaslAuthenticate
    37: "2.0:0-1 2.5:0-2 2.7:0-3",  # CreatePartitions
    42: "2.0:0-1 2.4:0-2",  # DeleteGroups
    43: "2.0:- 2.2:0-0 2.4:0-2",  # ElectLeaders
    44: "2.0:- 2.3:0-0 2.4:0-1",  # IncrementalAlterConfigs
    45: "2.0:- 2.4:0-0 4.1:0-1",  # AlterPartitionReassignments
    46: "2.0:- 2.4:0-0",  # ListPartitionReassignments
    48: "2.0:- 2.6:0-0 2.8:0-1",  # DescribeClientQuotas
    50: "2.0:- 2.7:0-0",  # DescribeUserScramCredentials
    51: "2.0:- 2.7:0-0",  # AlterUserScramCredentials
    55: "2.0:- 4.0:0-2",  # DescribeQuorum
    60: "2.0:- 2.8:0-0 3.7:0-1 4.0:0-2",  # DescribeCluster
    61: "2.0:- 2.8:0-0",  # DescribeProducers
    65: "2.0:- 3.0:0-0",  # DescribeTransactions
    66: "2.0:- 3.0:0-0 3.8:0-1 4.1:0-2",  # ListTransactions
    68: "2.0:- 3.7:0-0 4.0:0-1",  # ConsumerGroupHeartbeat
    71: "2.0:- 3.7:0-0",  # GetTelemetrySubscriptions
    72: "2.0:- 3.7:0-0",  # PushTelemetry
    74: "2.0:- 4.0:0-0 4.1:0-1",  # ListConfigResources
    75: "2.0:- 3.9:0-0",  # DescribeTopicPartitions
}


def api_versions_of(release: str) -> dict[int, VersionRange | None]:
    """Return what a release answers: API number to its versions, None where it has no such API.

    Raises:
        ConfigError: The table does not have this release.
    """
    if release not in RELEASES:
        raise ConfigError("release", release, f"known are {', '.join(RELEASES)}")
    wanted = RELEASES.index(release)
    versions: dict[int, VersionRange | None] = {}
    for api_id, row in _ROWS.items():
        for entry in row.split():
            since, _, text = entry.partition(":")
            if RELEASES.index(since) <= wanted:
                first, _, last = text.partition("-")
                versions[api_id] = (int(first), int(last)) if first else None
    return versions
