from __future__ import annotations

import re

import pytest

from pyproducer.client.api_versions import (
    CLIENT_SOFTWARE_VERSION,
    ApiVersions,
    FinalizedFeatures,
    NodeApiVersions,
    VersionRange,
    api_versions_body,
    read_api_versions,
    software_version,
)
from pyproducer.common.errors import UnsupportedVersionError
from pyproducer.protocol.apis import ApiKeys
from tests.unit.client.scripted_cluster import Setup


def node(*, produce: tuple[int, int] = (0, 11), epoch: int = -1, **levels: int) -> NodeApiVersions:
    return NodeApiVersions({0: VersionRange(*produce), 999: VersionRange(0, 1)},
                           finalized_features=FinalizedFeatures(epoch, levels), name="host:1 (node 1)")


def test_latest_usable_version_when_both_know_then_the_lower_maximum():
    assert node().latest_usable_version(ApiKeys.PRODUCE) == 11
    assert node(produce=(0, 99)).latest_usable_version(ApiKeys.PRODUCE) == 13
    assert node(produce=(0, 99)).latest_usable_version(ApiKeys.PRODUCE, 12) == 12
    assert node().latest_usable_version(ApiKeys.PRODUCE, 12) == 11


def test_latest_usable_version_when_nothing_is_in_common_then_both_ranges_are_named():
    with pytest.raises(UnsupportedVersionError) as caught:
        node(produce=(14, 15)).latest_usable_version(ApiKeys.PRODUCE)
    assert str(caught.value) == ("host:1 (node 1) supports PRODUCE in version 14 to 15, we in version 3 to 13: there "
                                 "is no version in common")
    with pytest.raises(UnsupportedVersionError, match="in version 12 to 13, we in version 3 to 11"):
        node(produce=(12, 13)).latest_usable_version(ApiKeys.PRODUCE, 11)
    with pytest.raises(UnsupportedVersionError, match="does not support METADATA"):
        node().latest_usable_version(ApiKeys.METADATA)


def test_negotiate_when_the_node_is_unknown_or_gone_then_none():
    versions = ApiVersions()
    assert versions.negotiate(1, ApiKeys.PRODUCE) is None
    versions.update(1, node())
    assert versions.negotiate(1, ApiKeys.PRODUCE) == 11
    versions.remove(1)
    assert versions.negotiate(1, ApiKeys.PRODUCE) is None


def test_finalized_features_when_epochs_differ_then_the_highest_wins_and_outlives_its_node():
    versions = ApiVersions()
    versions.update(1, node(epoch=5, **{"transaction.version": 2}))
    versions.update(2, node(epoch=4, **{"transaction.version": 1}))
    versions.update(3, node())
    versions.remove(1)
    assert versions.finalized_features.level_of("transaction.version") == 2
    assert versions.finalized_features.level_of("other") == 0
    assert versions.finalized_features.epoch == 5
    versions.update(2, node(epoch=6, **{"transaction.version": 1}))
    assert versions.finalized_features.level_of("transaction.version") == 1


def test_response_when_read_then_ranges_and_features_are_kept():
    versions = NodeApiVersions.from_response({
        "api_keys": [{"api_key": 0, "min_version": 3, "max_version": 9}],
        "supported_features": [{"name": "transaction.version", "min_version": 0, "max_version": 2}],
        "finalized_features": [{"name": "transaction.version", "min_version_level": 1, "max_version_level": 2}],
        "finalized_features_epoch": 7}, name="host:1")
    assert versions.ranges == {0: VersionRange(3, 9)}
    assert versions.finalized_features == FinalizedFeatures(7, {"transaction.version": 2})
    assert versions.name == "host:1"


def test_response_when_it_is_of_an_old_version_then_no_features():
    versions = NodeApiVersions.from_response({"api_keys": []})
    assert versions.finalized_features == FinalizedFeatures(-1, {})


# Apache Kafka releases -> Produce, Metadata, InitProducerId, FindCoordinator, AddPartitionsToTxn, AddOffsetsToTxn,
# TxnOffsetCommit, EndTxn and ApiVersions: the broker's maxima, then what a client of Kafka 4.1 ends up using.
APIS = (ApiKeys.PRODUCE, ApiKeys.METADATA, ApiKeys.INIT_PRODUCER_ID, ApiKeys.FIND_COORDINATOR,
        ApiKeys.ADD_PARTITIONS_TO_TXN, ApiKeys.ADD_OFFSETS_TO_TXN, ApiKeys.TXN_OFFSET_COMMIT, ApiKeys.END_TXN,
        ApiKeys.API_VERSIONS)
RELEASES = {
    "2.1": ((7, 7, 1, 2, 1, 1, 2, 1, 2), (7, 7, 1, 2, 1, 1, 2, 1, 0)),
    "2.2": ((7, 7, 1, 2, 1, 1, 2, 1, 2), (7, 7, 1, 2, 1, 1, 2, 1, 0)),
    "2.3": ((7, 8, 1, 2, 1, 1, 2, 1, 2), (7, 8, 1, 2, 1, 1, 2, 1, 0)),
    "2.4": ((8, 9, 2, 3, 1, 1, 2, 1, 3), (8, 9, 2, 3, 1, 1, 2, 1, 3)),
    "2.5": ((8, 9, 3, 3, 1, 1, 3, 1, 3), (8, 9, 3, 3, 1, 1, 3, 1, 3)),
    "2.6": ((8, 9, 3, 3, 1, 1, 3, 1, 3), (8, 9, 3, 3, 1, 1, 3, 1, 3)),
    "2.7": ((8, 9, 4, 3, 2, 2, 3, 2, 3), (8, 9, 4, 3, 2, 2, 3, 2, 3)),
    "2.8": ((9, 11, 4, 3, 3, 3, 3, 3, 3), (9, 11, 4, 3, 3, 3, 3, 3, 3)),
    "3.0": ((9, 11, 4, 4, 3, 3, 3, 3, 3), (9, 11, 4, 4, 3, 3, 3, 3, 3)),
    "3.2": ((9, 12, 4, 4, 3, 3, 3, 3, 3), (9, 12, 4, 4, 3, 3, 3, 3, 3)),
    "3.6": ((9, 12, 4, 4, 4, 3, 3, 3, 3), (9, 12, 4, 4, 3, 3, 3, 3, 3)),
    "3.7": ((10, 12, 4, 4, 4, 3, 3, 3, 3), (10, 12, 4, 4, 3, 3, 3, 3, 3)),
    "3.8": ((11, 12, 5, 5, 5, 4, 4, 4, 3), (11, 12, 5, 5, 3, 4, 4, 4, 3)),
    "3.9": ((11, 12, 5, 6, 5, 4, 4, 4, 4), (11, 12, 5, 6, 3, 4, 4, 4, 4)),
    "4.0": ((12, 13, 5, 6, 5, 4, 5, 5, 4), (12, 13, 5, 6, 3, 4, 5, 5, 4)),
    "4.1": ((13, 13, 6, 6, 5, 4, 5, 5, 4), (13, 13, 5, 6, 3, 4, 5, 5, 4)),
    "4.3": ((13, 13, 6, 6, 5, 4, 5, 5, 5), (13, 13, 5, 6, 3, 4, 5, 5, 4)),
}


@pytest.mark.parametrize("release", RELEASES)
def test_negotiation_when_the_broker_is_of_a_release_then_the_versions_of_the_table_are_reached(release):
    maxima, reached = RELEASES[release]
    setup = Setup()
    setup.cluster.versions = {api: (0, maximum) for api, maximum in zip(APIS, maxima, strict=True)}
    setup.bring_up()
    setup.make_ready(1)
    fetches = [request.version for request in setup.selector.asked(ApiKeys.API_VERSIONS)
               if request.connection_id == "1"]
    usable = tuple(setup.client.api_version(1, api) for api in APIS[:-1])
    assert (*usable, fetches[-1]) == reached
    assert len(fetches) == (1 if maxima[-1] >= 4 else 2)
    assert setup.selector.asked(ApiKeys.METADATA)[0].version == reached[1]


def test_body_when_the_version_is_old_then_empty():
    assert api_versions_body(2) == {}
    assert api_versions_body(3)["client_software_name"] == "pyproducer"
    assert re.fullmatch(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?", CLIENT_SOFTWARE_VERSION)


@pytest.mark.parametrize(("version", "told"), [
    ("1.2.3", "1.2.3"), ("1.2.3.dev4+g1a2b", "1.2.3.dev4-g1a2b"), ("+1.0-", "1.0"), ("+", "0"), ("", "0"),
])
def test_software_version_when_told_then_only_what_brokers_accept(version, told):
    assert software_version(version) == told


@pytest.mark.parametrize(("sent", "offered", "retry"), [(4, 3, 3), (4, 4, 0), (4, 99, 0), (4, None, 0), (3, 2, 2),
                                                        (3, -1, 0)])
def test_unsupported_version_when_answered_then_the_next_try_is_strictly_lower(sent, offered, retry):
    rows = [] if offered is None else [{"api_key": 18, "min_version": 0, "max_version": offered}]
    result = read_api_versions({"error_code": 35, "api_keys": rows}, sent, "host:1")
    assert result.retry_version == retry
    assert result.error is None


def test_unsupported_version_when_answered_to_version_0_then_an_error():
    result = read_api_versions({"error_code": 35, "api_keys": []}, 0, "host:1")
    assert isinstance(result.error, UnsupportedVersionError)
    assert str(result.error) == "host:1 answered ApiVersions v0 with error UNSUPPORTED_VERSION (35)"


def test_other_error_when_answered_then_an_error():
    result = read_api_versions({"error_code": 42, "api_keys": []}, 4, "host:1")
    assert "INVALID_REQUEST (42)" in str(result.error)


def test_peer_that_answers_35_for_ever_when_connected_then_given_up():
    setup = Setup(bootstrap=(("boot-1", 9092),))
    setup.cluster.api_versions = lambda version: {"error_code": 35, "api_keys": []}  # type: ignore[method-assign]
    setup.poll(times=8)
    assert [request.version for request in setup.selector.requests] == [4, 0]
    assert "UNSUPPORTED_VERSION" in setup.metadata.last_errors()["boot-1:9092"]
    assert setup.selector.closed == ["-1"]
