import pytest

from pyproducer.client.api_versions import ApiVersions, FinalizedFeatures, NodeApiVersions, VersionRange
from pyproducer.common.errors import UnsupportedVersionError
from pyproducer.protocol.apis import ApiKeys


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
    assert versions.feature_level("transaction.version") == 2
    assert versions.feature_level("other") == 0
    assert versions.finalized_features.epoch == 5
    versions.update(2, node(epoch=6, **{"transaction.version": 1}))
    assert versions.feature_level("transaction.version") == 1


def test_response_when_read_then_ranges_and_features_are_kept():
    versions = NodeApiVersions.from_response({
        "api_keys": [{"api_key": 0, "min_version": 3, "max_version": 9}],
        "supported_features": [{"name": "transaction.version", "min_version": 0, "max_version": 2}],
        "finalized_features": [{"name": "transaction.version", "min_version_level": 1, "max_version_level": 2}],
        "finalized_features_epoch": 7}, name="host:1")
    assert versions.ranges == {0: VersionRange(3, 9)}
    assert versions.supported_features == {"transaction.version": VersionRange(0, 2)}
    assert versions.finalized_features == FinalizedFeatures(7, {"transaction.version": 2})
    assert versions.name == "host:1"


def test_response_when_it_is_of_an_old_version_then_no_features():
    versions = NodeApiVersions.from_response({"api_keys": []})
    assert versions.supported_features == {}
    assert versions.finalized_features == FinalizedFeatures(-1, {})
