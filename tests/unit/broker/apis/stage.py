"""One broker of a cluster without connections: its APIs are called as KafkaApis calls them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pyproducer.broker.apis.kafka_apis import HANDLERS
from pyproducer.broker.apis.services import Answer, Outcome, Services
from pyproducer.broker.cluster.cluster_state import ClusterState
from pyproducer.broker.cluster.config import BrokerConfig
from pyproducer.broker.cluster.listener import EndPoint
from pyproducer.broker.cluster.living_brokers import BrokerInfo
from pyproducer.broker.network.request_channel import Request
from pyproducer.protocol.apis import ApiKeys
from tests.support.answer_check import as_read
from tests.support.broker_request import broker_request
from tests.support.clock import ManualClock

END_POINT = EndPoint("PLAINTEXT", "PLAINTEXT", "127.0.0.1", 9092)
# Each of the two has 50 partitions, and each of these a directory and files: most of the time of a short test.
FEW_LOGS = {"offsets.topic.num.partitions": 1, "transaction.state.log.num.partitions": 1}


class ApiStage:
    """A running cluster of one node, and what its APIs answered, at once or later."""

    def __init__(self, directory: Path, settings: Mapping[str, object] | None = None) -> None:
        self.state = ClusterState(directory, BrokerConfig({**FEW_LOGS, **(settings or {})}), ManualClock())
        self.state.start()
        self.state.brokers.register(BrokerInfo(1, {"PLAINTEXT": END_POINT}, None))
        self.later: list[Answer] = []
        self.connection_id = "127.0.0.1:9092-127.0.0.1:5000-0-0"
        advertised = {int(key): key.advertised_range for key in HANDLERS if key.advertised_range is not None}
        self.services = Services(1, self.state, self.state.config, self.state.clock, self._respond, advertised)

    def _respond(self, request: Request, answer: Answer) -> None:
        self.later.append(_readable(request, answer))

    def ask(self, api_key: ApiKeys, version: int, body: Mapping[str, Any], **fields: Any) -> Any:
        """Run an API's handler; return what it answers, which a client must be able to read."""
        request = broker_request(api_key, version, body, connection_id=self.connection_id, **fields)
        return _readable(request, HANDLERS[api_key].handle(self.services, request))

    def close(self) -> None:
        self.state.close()


def _readable(request: Request, answer: Answer) -> Answer:
    if not isinstance(answer, Outcome):
        as_read(request.api_key, request.header.api_version, answer)
    return answer
