"""How much a client may ask for in a second before its connection is throttled.

Road:    KafkaApis -> [quotas] -> throttled channel
Thread:  handler threads; one lock.
Source:  Java ClientQuotaManager, ClientRequestQuotaManager (4.1); KIP-219. Differs from Java: a bucket of one second in
         place of eleven sampled windows, one quota for each client id, and requests are counted, not their CPU time. A
         Fetch is throttled where its client was in debt before: in Java one is for its own bytes, too, and a batch that
         is above the quota of all windows is never given.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

from pyproducer.broker.apis.services import Answer, Outcome
from pyproducer.broker.cluster.config import BrokerConfig
from pyproducer.broker.cluster.timer import Timer
from pyproducer.broker.network.request_channel import (
    EndThrottlingResponse,
    Request,
    RequestChannel,
    StartThrottlingResponse,
)
from pyproducer.protocol.apis import ApiKeys

# throttle_time_ms is an INT32.
_MOST_MS = 2**31 - 1
# With so many clients those are forgotten that owe nothing: a client may come under another id each time.
_MANY_BUCKETS = 4096
# Kafka exempts what brokers ask each other, and what a client needs to be told that it is throttled.
_EXEMPT = frozenset({ApiKeys.API_VERSIONS, ApiKeys.SASL_HANDSHAKE, ApiKeys.SASL_AUTHENTICATE})


class _Bucket:
    """Refilled at `rate_per_s`, up to one second's worth; it may go into debt, which is what must be waited for."""

    def __init__(self, rate_per_s: int, now_ms: int) -> None:
        self._rate_per_s = rate_per_s
        self._level = float(rate_per_s)
        self._filled_ms = now_ms

    def take(self, amount: int, now_ms: int) -> int:
        """Take, and return how long the taker must wait, in ms."""
        self._level = max(self._level_at(now_ms) - amount, -_MOST_MS * self._rate_per_s / 1000)
        self._filled_ms = now_ms
        return 0 if self._level >= 0 else max(1, round(-self._level * 1000 / self._rate_per_s))

    def is_full(self, now_ms: int) -> bool:
        """Whether it is as a new one would be."""
        return self._level_at(now_ms) >= self._rate_per_s

    def _level_at(self, now_ms: int) -> float:
        return min(self._level + (now_ms - self._filled_ms) * self._rate_per_s / 1000, self._rate_per_s)


class ClientQuotas:
    """The quotas of one broker; a rate of 0 is no quota."""

    def __init__(self, *, requests_per_s: int, produced_bytes_per_s: int, fetched_bytes_per_s: int) -> None:
        self._rates = {"requests": requests_per_s, "produce": produced_bytes_per_s, "fetch": fetched_bytes_per_s}
        self._lock = threading.Lock()  # guards the buckets
        self._buckets: dict[tuple[str, str | None], _Bucket] = {}
        self._clean_from = _MANY_BUCKETS

    def throttle_ms(self, request: Request, answer: Answer, now_ms: int) -> int:
        """Count a request that is answered now; return how long its client is to be throttled, in ms.

        A Fetch that is throttled is not counted: see `throttled`.
        """
        api_key = request.api_key
        if api_key in _EXEMPT:
            return 0
        client_id = request.header.client_id
        with self._lock:
            if api_key is ApiKeys.FETCH and isinstance(answer, Mapping):
                owed_ms = max(self._take(kind, client_id, 0, now_ms) for kind in ("requests", "fetch"))
                if not owed_ms:
                    self._take("requests", client_id, 1, now_ms)
                    self._take("fetch", client_id, _fetched_bytes(answer), now_ms)
                return owed_ms
            throttle_ms = self._take("requests", client_id, 1, now_ms)
            if api_key is ApiKeys.PRODUCE:
                throttle_ms = max(throttle_ms, self._take("produce", client_id, request.size_bytes, now_ms))
        return throttle_ms

    def _take(self, what: str, client_id: str | None, amount: int, now_ms: int) -> int:
        rate_per_s = self._rates[what]
        if not rate_per_s:
            return 0
        bucket = self._buckets.get((what, client_id))
        if bucket is None:
            if len(self._buckets) >= self._clean_from:
                self._buckets = {key: kept for key, kept in self._buckets.items() if not kept.is_full(now_ms)}
                self._clean_from = max(_MANY_BUCKETS, 2 * len(self._buckets))
            bucket = self._buckets[what, client_id] = _Bucket(rate_per_s, now_ms)
        return bucket.take(amount, now_ms)


def client_quotas(config: BrokerConfig) -> ClientQuotas | None:
    """Return the quotas of a broker; None when it has none."""
    requests_per_s = config.number("quota.requests.per.second")
    produced_bytes_per_s = config.number("quota.producer.default")
    fetched_bytes_per_s = config.number("quota.consumer.default")
    if not (requests_per_s or produced_bytes_per_s or fetched_bytes_per_s):
        return None
    return ClientQuotas(requests_per_s=requests_per_s, produced_bytes_per_s=produced_bytes_per_s,
                        fetched_bytes_per_s=fetched_bytes_per_s)


def start_throttling(channel: RequestChannel, timer: Timer, request: Request, throttle_ms: int) -> None:
    """Keep a connection muted for a time from now on; the response goes out meanwhile (KIP-219)."""
    channel.send_response(StartThrottlingResponse(request))
    timer.schedule(throttle_ms, lambda: channel.send_response(EndThrottlingResponse(request)))


def throttled(request: Request, answer: Answer, throttle_ms: int) -> Answer:
    """Return an answer as a client gets it that is throttled; a Fetch is answered with nothing, not even an error."""
    if isinstance(answer, Outcome) or not throttle_ms:
        return answer
    if request.api_key is ApiKeys.FETCH:  # Java FetchContext.getThrottledResponse
        return {"throttle_time_ms": throttle_ms, "error_code": 0, "responses": []}
    return {**answer, "throttle_time_ms": throttle_ms}


def _fetched_bytes(answer: Mapping[str, Any]) -> int:
    return sum(len(partition["records"] or b"") for topic in answer["responses"] for partition in topic["partitions"])
