"""How much a client may ask for, with a clock of the test's own."""

from __future__ import annotations

import pytest

from pyproducer.broker.apis.client_quotas import ClientQuotas, client_quotas
from pyproducer.broker.apis.services import Answer, Outcome
from pyproducer.broker.cluster.config import BrokerConfig
from pyproducer.broker.network.request_channel import Request
from pyproducer.protocol.apis import ApiKeys
from tests.support.broker_request import broker_request
from tests.support.raw_client import fetch_body, metadata_body, produce_body

NOTHING: Answer = {}


def request(client_id: str | None, api_key: ApiKeys = ApiKeys.METADATA, *, size_bytes: int = 0) -> Request:
    version, body = {
        ApiKeys.METADATA: (1, metadata_body()), ApiKeys.PRODUCE: (9, produce_body("orders", 0, b"")),
        ApiKeys.FETCH: (4, fetch_body(4, "orders", 0, 0)), ApiKeys.API_VERSIONS: (0, {})}[api_key]
    return broker_request(api_key, version, body, client_id=client_id, size_bytes=size_bytes)


def fetched(*sizes: int) -> Answer:
    return {"responses": [{"partitions": [{"records": bytes(size)} for size in sizes]}]}


def quotas(requests: int = 0, produced: int = 0, fetched: int = 0) -> ClientQuotas:
    return ClientQuotas(requests_per_s=requests, produced_bytes_per_s=produced, fetched_bytes_per_s=fetched)


def produce(quotas: ClientQuotas, client_id: str | None, size_bytes: int, now_ms: int) -> int:
    return quotas.throttle_ms(request(client_id, ApiKeys.PRODUCE, size_bytes=size_bytes), NOTHING, now_ms)


def test_produce_when_one_client_is_in_debt_then_no_other_pays_for_it() -> None:
    """One bucket for all clients throttled the quiet ones for what the loud one had sent."""
    limited = quotas(produced=1000)
    assert produce(limited, "loud", 3000, 0) == 2000
    assert produce(limited, "quiet", 1000, 0) == 0
    assert produce(limited, None, 1000, 0) == 0, "no name is a client of its own"
    assert produce(limited, "", 1000, 0) == 0, "an empty name too"
    assert produce(limited, "loud", 0, 500) == 1500
    assert produce(limited, "quiet", 0, 500) == 0


@pytest.mark.parametrize(("api_key", "answer"), [
    (ApiKeys.METADATA, NOTHING), (ApiKeys.PRODUCE, NOTHING), (ApiKeys.FETCH, fetched(2))])
def test_every_quota_when_one_client_is_in_debt_then_no_other_pays_for_it(api_key: ApiKeys, answer: Answer) -> None:
    limited = quotas(requests=1, produced=1, fetched=1)
    alone = [limited.throttle_ms(request("loud", api_key, size_bytes=2), answer, 0) for _ in range(3)]
    assert alone[-1] >= 1000
    beside = [limited.throttle_ms(request("quiet", api_key, size_bytes=2), answer, 0) for _ in range(3)]
    assert beside == alone, "as if it were there alone"


def test_debt_when_time_passes_then_it_is_paid_at_the_rate() -> None:
    limited = quotas(produced=1000)
    assert produce(limited, "c", 1500, 0) == 500
    assert produce(limited, "c", 0, 499) == 1
    assert produce(limited, "c", 0, 500) == 0
    assert produce(limited, "c", 100, 500) == 100


def test_silence_when_long_then_it_saves_one_second_and_no_more() -> None:
    limited = quotas(produced=1000)
    assert produce(limited, "c", 1000, 0) == 0
    assert produce(limited, "c", 1000, 3_600_000) == 0
    assert produce(limited, "c", 1, 3_600_000) == 1


def test_throttle_when_two_quotas_are_exceeded_then_it_is_the_longer_one() -> None:
    limited = quotas(requests=1, produced=1000)
    assert produce(limited, "c", 4000, 0) == 3000
    limited = quotas(requests=1, produced=1000)
    assert [limited.throttle_ms(request("c"), NOTHING, 0) for _ in range(3)] == [0, 1000, 2000]
    assert produce(limited, "c", 1500, 0) == 3000


def test_fetch_when_answered_then_the_records_of_all_partitions_count() -> None:
    limited = quotas(fetched=1000)
    asked = request("c", ApiKeys.FETCH, size_bytes=1_000_000)
    assert limited.throttle_ms(asked, fetched(600, 0, 600), 0) == 0, "it is given"
    assert limited.throttle_ms(asked, fetched(0), 0) == 200, "not the size of the request"
    assert limited.throttle_ms(asked, Outcome.CLOSE_CONNECTION, 0) == 0, "without records there is nothing to count"


def test_fetch_when_it_is_throttled_then_it_is_not_counted_and_the_next_one_in_time_is_given() -> None:
    """Nothing of it is given. Counted, a client that asks on at each end of a throttle would never get anything."""
    limited = quotas(requests=1, fetched=1000)
    asked = request("c", ApiKeys.FETCH)
    assert [limited.throttle_ms(asked, fetched(1000), 0) for _ in range(4)] == [0, 0, 1000, 1000]
    assert limited.throttle_ms(asked, fetched(5000), 1000) == 0
    assert limited.throttle_ms(asked, fetched(5000), 1000) == 5000, "the longer one"
    assert limited.throttle_ms(request("c"), NOTHING, 1000) == 2000, "for requests of other kinds"


def test_kinds_when_one_is_exceeded_then_requests_of_another_kind_are_free() -> None:
    limited = quotas(produced=10, fetched=10)
    assert produce(limited, "c", 1000, 0) > 0
    assert limited.throttle_ms(request("c", ApiKeys.FETCH), fetched(10), 0) == 0
    assert limited.throttle_ms(request("c"), NOTHING, 0) == 0


def test_api_versions_when_the_client_is_in_debt_then_it_is_exempt() -> None:
    limited = quotas(requests=1)
    throttles = [limited.throttle_ms(request("c", ApiKeys.API_VERSIONS), NOTHING, 0) for _ in range(5)]
    assert throttles == [0] * 5
    assert limited.throttle_ms(request("c"), NOTHING, 0) == 0, "and costs nothing"


@pytest.mark.parametrize(("setting", "limited_kinds"), [
    ("quota.requests.per.second", {ApiKeys.METADATA, ApiKeys.PRODUCE, ApiKeys.FETCH}),
    ("quota.producer.default", {ApiKeys.PRODUCE}), ("quota.consumer.default", {ApiKeys.FETCH})])
def test_each_setting_when_set_alone_then_it_limits_its_own_kind(setting: str, limited_kinds: set[ApiKeys]) -> None:
    for kind in (ApiKeys.METADATA, ApiKeys.PRODUCE, ApiKeys.FETCH):
        limited = client_quotas(BrokerConfig({setting: 1}))
        assert limited is not None
        throttles = [limited.throttle_ms(request("c", kind, size_bytes=1), fetched(1), 0) for _ in range(3)]
        expected = [0, 0, 1000] if kind is ApiKeys.FETCH else [0, 1000, 2000]
        assert throttles == (expected if kind in limited_kinds else [0, 0, 0])


MOST_MS = 2**31 - 1


def test_debt_when_it_is_beyond_what_an_answer_can_tell_then_it_is_bounded_by_that() -> None:
    """The answer could not be written, so the connection was closed, and the records were sent and stored once more."""
    limited = quotas(produced=1)
    assert [produce(limited, "c", 3_000_000, 0) for _ in range(3)] == [MOST_MS] * 3
    assert produce(limited, "c", 0, 1000) == MOST_MS - 1000, "that is all that is owed"


@pytest.mark.parametrize("in_debt", [0, 3, 6000])
def test_clients_when_there_were_thousands_then_those_that_owe_nothing_are_forgotten(in_debt: int) -> None:
    """A client whose id is a new one each time (a UUID, a random suffix) left a bucket behind, for ever."""
    limited = quotas(produced=10)
    for number in range(in_debt):
        assert produce(limited, f"loud-{number}", 10_000_010, 0) == 1_000_000_000
    for number in range(5000 + 2 * in_debt):  # more than are kept
        produce(limited, f"c-{number}", 10, 1000 * number)
        assert len(limited._buckets) <= 4096 + 2 * in_debt
    for number in range(in_debt):
        assert produce(limited, f"loud-{number}", 0, 0) == 1_000_000_000, "a debt is not forgotten"


def test_settings_when_none_is_set_then_nobody_counts() -> None:
    assert client_quotas(BrokerConfig()) is None
