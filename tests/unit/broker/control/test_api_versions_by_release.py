"""A broker that pretends to be an older release has the APIs that it had."""

from __future__ import annotations

import pytest

from pyproducer.broker.control.api_version_overrides import AdvertisedApis, ApiVersionOverrides
from pyproducer.broker.control.api_versions_by_release import RELEASES, api_versions_of
from pyproducer.protocol.apis import ApiKeys

# What the Kafka Improvement Proposals say in which release they are.
CAME_WITH = {
    ApiKeys.ELECT_LEADERS: "2.2",  # KIP-183
    ApiKeys.INCREMENTAL_ALTER_CONFIGS: "2.3",  # KIP-339
    ApiKeys.ALTER_PARTITION_REASSIGNMENTS: "2.4", ApiKeys.LIST_PARTITION_REASSIGNMENTS: "2.4",  # KIP-455
    ApiKeys.DESCRIBE_CLIENT_QUOTAS: "2.6",  # KIP-546
    ApiKeys.DESCRIBE_USER_SCRAM_CREDENTIALS: "2.7", ApiKeys.ALTER_USER_SCRAM_CREDENTIALS: "2.7",  # KIP-554
    ApiKeys.DESCRIBE_CLUSTER: "2.8",  # KIP-700
    ApiKeys.DESCRIBE_PRODUCERS: "2.8",  # KIP-664, and the next two
    ApiKeys.DESCRIBE_TRANSACTIONS: "3.0", ApiKeys.LIST_TRANSACTIONS: "3.0",
}


@pytest.mark.parametrize("release", RELEASES)
def test_release_when_a_broker_pretends_to_be_it_then_it_has_no_api_that_came_later(release: str) -> None:
    overrides = ApiVersionOverrides()
    overrides.set(release, None)
    told = AdvertisedApis(1, {int(api): api.broker_range for api in ApiKeys}, overrides)
    expected = {api for api, since in CAME_WITH.items() if RELEASES.index(since) <= RELEASES.index(release)}
    assert {api for api in CAME_WITH if int(api) in told} == expected


def test_release_when_a_broker_pretends_to_be_one_then_the_table_knows_all_that_it_answers() -> None:
    """An API without a row would be told in the versions of today."""
    own = {int(api): api.broker_range for api in ApiKeys if api.broker_range is not None}
    assert own.keys() - api_versions_of(RELEASES[0]).keys() == set()
