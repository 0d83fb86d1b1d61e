"""FindCoordinator: which broker speaks for a transactional id, or for a group.

Road:    OwnRequests -> [FindCoordinator] -> any broker
Thread:  sender thread only.
Source:  Java TransactionManager.FindCoordinatorHandler, lookupCoordinator (4.1); KIP-699 (version 4, several keys).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pyproducer.client.find_coordinator import find_coordinator_body, found_coordinators
from pyproducer.client.request import ClientResponse
from pyproducer.common.cluster import Node
from pyproducer.common.error_codes import ErrorCode
from pyproducer.common.errors import KafkaError
from pyproducer.common.sender_log import SenderLog, sender_log
from pyproducer.protocol.apis import ApiKeys
from pyproducer.sender.requests.own_request import CoordinatorKey, OwnRequest, Reaction

log: SenderLog = sender_log(__name__)


class FindCoordinator(OwnRequest):
    """One request for one key.

    Args:
        key: Whose coordinator.
        nodes: Those that are known, where this one is put.
        on_hopeless: Told when the brokers will not say.
    """

    api_key = ApiKeys.FIND_COORDINATOR

    def __init__(self, key: CoordinatorKey, nodes: dict[CoordinatorKey, Node],
                 on_hopeless: Callable[[KafkaError], None]) -> None:
        super().__init__(None)
        self._key = key
        self._nodes = nodes
        self._on_hopeless = on_hopeless

    def build(self, version: int) -> Mapping[str, Any]:
        """See OwnRequest."""
        return find_coordinator_body(version, self._key.key_type, [self._key.key])

    def on_answer(self, response: ClientResponse) -> Reaction:
        """See OwnRequest."""
        found = found_coordinators(response.body, response.api_version, self._key.key)
        for key, code, node, message in found:
            if key != self._key.key:
                continue
            if code == ErrorCode.NONE:
                self._nodes[self._key] = node
                log.info("The coordinator of %s is node %s", self._key, node)
                return Reaction.DONE
            error = self.error_of(code, response,
                                  f"The coordinator of {self._key} was not found: {message or ''}".strip())
            reaction = self.judge(error)
            if reaction is None:
                self._on_hopeless(error)
            return reaction or Reaction.DONE
        log.warning("Node %s was asked for the coordinator of %s, and answered for others", response.destination,
                    self._key)
        return self.left_out(self._key)

    def on_hopeless(self, error: KafkaError) -> None:
        """See OwnRequest."""
        self._on_hopeless(error)
