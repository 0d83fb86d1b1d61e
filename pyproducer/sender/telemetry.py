"""Metrics for brokers that ask for them (KIP-714): GetTelemetrySubscriptions, then PushTelemetry again and again.

    ask -> subscribed -> (interval) push -> ... ; an error that says so: ask again; one that forbids it: no more

Nothing is sent to brokers that do not advertise it, which is to say to those without a receiver of metrics.

Road:    registry -> [telemetry] -> NetworkClient
Thread:  sender thread only; `instance_id` is read by any.
Source:  KIP-714; Java ClientTelemetryReporter (4.1).
"""

from __future__ import annotations

import random
import uuid
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from pyproducer.client.request import ClientRequest, ClientResponse
from pyproducer.common.clock import NEVER_MS, Clock
from pyproducer.common.error_codes import ErrorCode
from pyproducer.common.errors import ConfigError, UnsupportedVersionError
from pyproducer.common.sender_log import SenderLog, sender_log
from pyproducer.observe.otlp import OtlpWriter, Told, Totals
from pyproducer.observe.registry import Registry
from pyproducer.protocol.apis import ApiKeys
from pyproducer.record.compression import Compressor, compressor_for

if TYPE_CHECKING:
    from pyproducer.client.network_client import NetworkClient
    from pyproducer.client.wire import Wire

log: SenderLog = sender_log(__name__)

_NO_ID = uuid.UUID(int=0)
_LOOK_AGAIN_MS = 60_000
"""How soon to look again for a broker that wants metrics, where those that are connected do not."""
_RETRY_MS = 30_000
"""How soon to ask again after something went wrong, where the broker gave no interval."""
_NAMES = {1: "gzip", 2: "snappy", 3: "lz4", 4: "zstd"}
_DEFAULT_INTERVAL_MS = 300_000
"""Java's ClientTelemetryReporter.DEFAULT_PUSH_INTERVAL_MS, where a broker names none that is above 0."""
_FOR_GOOD = (ErrorCode.UNSUPPORTED_VERSION, ErrorCode.INVALID_REQUEST, ErrorCode.INVALID_RECORD)


class Subscription:
    """What a broker wants."""

    def __init__(self, body: Mapping[str, Any], told: Told) -> None:
        self.subscription_id: int = body["subscription_id"]
        given_ms: int = body["push_interval_ms"]
        self.interval_ms: int = given_ms if given_ms > 0 else _DEFAULT_INTERVAL_MS
        self.max_bytes: int = body["telemetry_max_bytes"]
        self.compressions: tuple[int, ...] = tuple(body["accepted_compression_types"])
        self.wants_any: bool = bool(body["requested_metrics"])
        self.writer: OtlpWriter = OtlpWriter(body["requested_metrics"], is_delta=body["delta_temporality"],
                                             told=told)


class Telemetry:
    """Pushes the numbers of one producer.

    Args:
        wire: To the brokers.
        registry: The numbers.
        clock: The wall's, for the numbers' times.
        request_timeout_ms: request.timeout.ms.
        uniform: Draws a number of a range.

    Attributes:
        due_ms: When `step` is to be called next.
        instance_id: The id that a broker gave this producer; None before.
    """

    def __init__(self, *, wire: Wire, registry: Registry, clock: Clock, request_timeout_ms: int,
                 uniform: Callable[[float, float], float] = random.uniform) -> None:
        self.due_ms: int = 0
        self.instance_id: uuid.UUID | None = None
        self._wire = wire
        self._registry = registry
        self._clock = clock
        self._request_timeout_ms = request_timeout_ms
        self._uniform = uniform
        self._subscription: Subscription | None = None
        self._asked_by: NetworkClient | None = None  # the client that has a request on its way
        self._says_goodbye = False
        self._compressors = _compressors()
        self._told = Told(1_000_000 * clock.timestamp_ms())  # by all subscriptions together

    def step(self, now_ms: int) -> int:
        """Do what is due; return how long until this must be called again, in ms."""
        client = self._wire.client
        if self._asked_by is client:
            return NEVER_MS
        if now_ms < self.due_ms:
            return self.due_ms - now_ms
        node_id = self._node(client, now_ms)
        if node_id is None:
            return NEVER_MS  # for this alone nobody is woken; a turn for another reason looks
        if self._subscription is None:
            self._send(client, node_id, ApiKeys.GET_TELEMETRY_SUBSCRIPTIONS, self._ask_body(), now_ms)
        else:
            self._push(client, node_id, self._subscription, now_ms)
        return NEVER_MS

    def say_goodbye(self, now_ms: int) -> bool:
        """Push for the last time, where a broker wants pushes; whether there is an answer to poll for.

        It is called until it says no: the last push comes after the answer to one that is on its way, which told
        nothing of what came since.
        """
        client = self._wire.client
        subscription = self._subscription
        if subscription is None or not subscription.wants_any:
            return False
        if self._asked_by is client:
            return True
        if self._says_goodbye:
            return False
        node_id = self._node(client, now_ms)
        if node_id is None:
            return False
        self._says_goodbye = True
        self._push(client, node_id, subscription, now_ms)
        return self._asked_by is client  # it may be too large

    def _node(self, client: NetworkClient, now_ms: int) -> int | None:
        """Return a node that is connected, takes a request and wants telemetry."""
        for node_id in self._registry.nodes():
            if client.is_ready(node_id, now_ms):
                try:
                    if client.api_version(node_id, ApiKeys.GET_TELEMETRY_SUBSCRIPTIONS) is not None:
                        return node_id
                except UnsupportedVersionError:
                    self.due_ms = now_ms + _LOOK_AGAIN_MS
        return None

    def _ask_body(self) -> Mapping[str, Any]:
        return {"client_instance_id": self.instance_id or _NO_ID}

    def _push(self, client: NetworkClient, node_id: int, subscription: Subscription, now_ms: int) -> None:
        self.due_ms = now_ms + subscription.interval_ms  # also where its client is thrown away, and no answer comes
        payload, compression = b"", 0
        now_ns = 1_000_000 * self._clock.timestamp_ms()
        telling: Totals | None = None
        if subscription.wants_any:
            try:
                payload, telling = subscription.writer.write(self._registry.collect(now_ms), now_ns)
                payload, compression = self._compressed(payload, subscription.compressions)
            except Exception:  # a protobuf of another version, for one: records are not to stand still for metrics
                log.exception("Metrics for brokers cannot be written: no more are sent")
                self._subscription, self.due_ms = None, NEVER_MS
                return
            if len(payload) > subscription.max_bytes:
                log.warning("Metrics for brokers have %d bytes, and node %d takes %d at most: they are not sent",
                            len(payload), node_id, subscription.max_bytes)
                return
        body = {"client_instance_id": self.instance_id or _NO_ID, "subscription_id": subscription.subscription_id,
                "terminating": self._says_goodbye, "compression_type": compression, "metrics": payload}
        self._send(client, node_id, ApiKeys.PUSH_TELEMETRY, body, now_ms)
        if telling is not None:
            self._told.tell(telling, now_ns)  # last: who is interrupted before has told nothing

    def _compressed(self, payload: bytes, accepted: tuple[int, ...]) -> tuple[bytes, int]:
        """Return bytes in the first codec that the broker takes and that is here, and its number."""
        for number in accepted:
            compressor = self._compressors.get(number)
            if compressor is not None:
                return compressor.compress(payload), number
        return payload, 0

    def _send(self, client: NetworkClient, node_id: int, api_key: ApiKeys, body: Mapping[str, Any],
              now_ms: int) -> None:
        client.send(ClientRequest(node_id, api_key, lambda _version: body, timeout_ms=self._request_timeout_ms,
                                  on_complete=self._on_response), now_ms)
        self._asked_by = client

    def _on_response(self, response: ClientResponse) -> None:
        self._asked_by = None
        now_ms = response.received_ms
        body = response.body
        is_push = response.request.api_key is ApiKeys.PUSH_TELEMETRY
        if body is None:
            if is_push and not response.was_sent:
                self._told.take_back()  # nobody can have it
            self._again(now_ms, f"no answer: {response.error}")
            return
        code = ErrorCode.of(body["error_code"])
        if code is not ErrorCode.NONE:
            self._on_error(code, body["error_code"], response, now_ms)
        elif not is_push:
            self.instance_id = body["client_instance_id"]
            self._subscription = subscription = Subscription(body, self._told)
            # Java's: all clients of a cluster that starts would push at once.
            self.due_ms = now_ms + int(subscription.interval_ms * self._uniform(0.5, 1.5))
            if not subscription.wants_any:
                self._subscription, self.due_ms = None, now_ms + subscription.interval_ms
        elif self._subscription is not None:
            self.due_ms = now_ms + self._subscription.interval_ms

    def _on_error(self, code: ErrorCode, number: int, response: ClientResponse, now_ms: int) -> None:
        if response.request.api_key is ApiKeys.PUSH_TELEMETRY:
            self._told.take_back()
        if code in _FOR_GOOD:
            log.warning("Node %s refused metrics with %s (%d): no more are sent", response.destination, code.name,
                        number)
            self._subscription, self.due_ms = None, NEVER_MS
            return
        if (response.request.api_key is ApiKeys.PUSH_TELEMETRY
                and code in (ErrorCode.UNKNOWN_SUBSCRIPTION_ID, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)):
            self._subscription, self.due_ms = None, now_ms  # it changed: ask at once
            return
        self._again(now_ms, f"{code.name} ({number})")

    def _again(self, now_ms: int, why: str) -> None:
        interval_ms = _RETRY_MS if self._subscription is None else self._subscription.interval_ms
        self.due_ms = now_ms + interval_ms
        log.debug("Metrics for brokers are tried again in %d ms: %s", interval_ms, why)


def _compressors() -> dict[int, Compressor]:
    """Return the codecs that are here, by number; their packages are loaded then, by the caller's thread."""
    found: dict[int, Compressor] = {}
    for number, name in _NAMES.items():
        try:
            compressor = compressor_for(name, None)
            compressor.compress(b"")
        except ConfigError:
            continue  # its package is not here
        except Exception as error:  # it is here, and broken: nobody asked for it
            log.info("%s is not used for metrics: %r", name, error)
            continue
        found[number] = compressor
    return found
