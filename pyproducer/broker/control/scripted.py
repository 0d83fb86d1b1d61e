"""What a test scripts and looks at: pretended versions, faults, and the requests that came.

Road:    commands -> [scripted] -> KafkaApis, as the Interference of each broker
Thread:  any. Nothing of it costs more than a look until it is used.
Source:  ours.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pyproducer.broker.apis.api_handler import ApiHandler
from pyproducer.broker.apis.interference import Interference
from pyproducer.broker.apis.services import Answer, Services
from pyproducer.broker.cluster.cluster_state import ClusterState
from pyproducer.broker.control.api_version_overrides import AdvertisedApis, ApiVersionOverrides
from pyproducer.broker.control.fault_rules import FaultRules
from pyproducer.broker.control.faults import Faults
from pyproducer.broker.control.login_faults import LoginFaults
from pyproducer.broker.control.observations import RequestLog
from pyproducer.broker.network.request_channel import Request, RequestChannel
from pyproducer.common.clock import SystemClock
from pyproducer.protocol.apis import ApiKeys, VersionRange


class Scripted:
    """The script of a cluster.

    Attributes:
        api_versions: Which versions its nodes pretend to have.
        fault_rules: What goes wrong.
        request_log: Keeps the newest requests; None to keep none.
    """

    def __init__(self) -> None:
        self.api_versions: ApiVersionOverrides = ApiVersionOverrides()
        self.fault_rules: FaultRules = FaultRules()
        self.request_log: RequestLog | None = None


class ScriptedBroker(Interference):
    """The script at one broker.

    Args:
        node_id: Which.
        scripted: The cluster's script.
        cluster: Has the names of topics, and the timer for delays.
        channel: Where responses go.

    Attributes:
        logins: The script at its logins.
    """

    def __init__(self, node_id: int, scripted: Scripted, cluster: ClusterState, channel: RequestChannel) -> None:
        self._node_id = node_id
        self._scripted = scripted
        self._rules = scripted.fault_rules
        self._faults = Faults(scripted.fault_rules, node_id, cluster.topics, channel, cluster.timer)
        self.logins: LoginFaults = LoginFaults(
            scripted.fault_rules, self._faults, node_id, cluster.topics, lambda: scripted.request_log,
            SystemClock().now_ms)

    def supports(self, api_key: ApiKeys, api_version: int) -> bool:
        """Return whether the versions that the broker pretends to have include this one."""
        overrides = self._scripted.api_versions
        return not overrides.is_active or overrides.allows(self._node_id, api_key, api_version)

    def advertised(self, own: Mapping[int, VersionRange]) -> Mapping[int, VersionRange]:
        """Return what ApiVersions tells, which follows what is pretended."""
        return AdvertisedApis(self._node_id, own, self._scripted.api_versions)

    def handle(self, handler: ApiHandler, services: Services, request: Request) -> Answer:
        """Keep the request for who looks later; run the handler, or what a rule says in its place."""
        if self._scripted.request_log is not None and request.story is None:
            self._scripted.request_log.append(self._node_id, request)
        if self._rules.is_active or request.story is not None:
            return self._faults.handle(handler, services, request)
        return handler.handle(services, request)

    def respond(self, handler: ApiHandler, request: Request, answer: Answer,
                send: Callable[[Request, Answer], None]) -> None:
        """Send the answer of a request that a rule was chosen for, with what goes wrong after it took effect."""
        self._faults.respond(handler, request, answer, send)
