"""A Kafka cluster as a state machine: requests in, answers out, nothing else happens.

Applying a request and answering it are one step. What a network does to frames, and when, is somebody else's: the same
frame may be handed in twice, and an answer may be thrown away. What no correct client sends raises ClientBug.

    ApiVersions     0-4     InitProducerId 0-5, without transactions
    Metadata        0-13    Produce 3-13, acks 0, 1, all
    SaslHandshake   1       SaslAuthenticate 0-2: where the listener asks for them
    GetTelemetrySubscriptions 0, PushTelemetry 0: where metrics are wanted

Thread:  whoever steps it. It reads no clock, draws nothing, waits for nothing.
Source:  Kafka's protocol and the answers of Kafka 4.1, as measured; not pyproducer's own broker, which
         tests/unit/test_model_broker.py compares with it.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable, Mapping
from struct import Struct
from struct import error as StructError
from typing import Any, Final, NamedTuple

from pyproducer.common.errors import ProtocolError
from pyproducer.protocol.apis import ApiKeys
from pyproducer.protocol.buffer import ByteReader
from pyproducer.protocol.header import build_response
from tests.simulation.model_batch import NO_PRODUCER_ID, ClientBug, ProducedBatch, bug
from tests.simulation.model_faults import (
    NOT_LEADER_OR_FOLLOWER,
    UNKNOWN_TOPIC_OR_PARTITION,
    ApiVersionsVerdict,
    Interference,
    LeaderHint,
    MetadataVerdict,
    Verdict,
)
from tests.simulation.model_log import NO_LEADER, ModelPartition, StoredBatch
from tests.simulation.model_parameters import ModelClient, ModelParameters
from tests.simulation.model_sasl import MECHANISMS, ModelSession
from tests.simulation.model_telemetry import ModelTelemetry
from tests.simulation.model_topics import ZERO_ID, ClusterState, ClusterView, LogKey, TopicView
from tests.simulation.model_transactions import PLACES_OF, ModelCoordinators, codes_of, refused
from tests.simulation.model_transactions import VERSIONS as VERSIONS_OF_COORDINATORS

__all__ = ["CLOSE_CONNECTION", "ApiVersionsVerdict", "ClientBug", "ClusterView", "Interference", "LeaderHint", "LogKey",
           "MetadataVerdict", "ModelCluster", "ModelParameters", "StoredBatch", "TopicView", "Verdict"]

CLOSE_CONNECTION: Final = b""
"""In place of an answer: the broker ends the connection, its only way to say that something went wrong at acks=0."""

LEADER_NOT_AVAILABLE = 5
INVALID_TOPIC_EXCEPTION = 17
UNSUPPORTED_SASL_MECHANISM = 33
ILLEGAL_SASL_STATE = 34
UNSUPPORTED_VERSION = 35
UNKNOWN_TOPIC_ID = 100

_FIXED_HEADER = Struct(">hhih")
_SHORTEST_HEADER_BYTES = 8
_PRODUCE, _METADATA, _API_VERSIONS, _INIT_PRODUCER_ID = (
    ApiKeys.PRODUCE, ApiKeys.METADATA, ApiKeys.API_VERSIONS, ApiKeys.INIT_PRODUCER_ID)
_SUBSCRIBE, _PUSH = ApiKeys.GET_TELEMETRY_SUBSCRIPTIONS, ApiKeys.PUSH_TELEMETRY
_HANDSHAKE, _PROOF = ApiKeys.SASL_HANDSHAKE, ApiKeys.SASL_AUTHENTICATE
_OLDEST_PRODUCE = 3  # 0 is announced all the same, as Kafka does: some clients take another minimum for no compression
_TOPIC_IDS_IN_PRODUCE = 13
_HINTS_FROM = 10
_BLAMES_FROM = 8
_LAST_PRODUCE_BEFORE_V2 = 11
_FAR_EPOCH = 1_000_000
_MOST_ASKED = 50
_MAX_CORRELATION_ID = 2**31 - 1
_TOPIC_NAME = re.compile(r"(?!\.\.?\Z)[A-Za-z0-9._-]{1,249}")
_SOFTWARE_NAME = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")
_NOTHING: tuple[()] = ()


class _Request(NamedTuple):
    """A request whose header was read."""

    node_id: int
    version: int
    correlation_id: int
    body: Any
    now_ms: int
    connection: Hashable


class ModelCluster(ClusterState):
    """The cluster.

    Args:
        node_count: The nodes are 0, 1, ...
        topics: Partition counts by name.
        parameters: What differs between clusters.

    Attributes:
        parameters: As given.
        answered: How often each (API, error code of the request, partition or topic) was answered.
        coordinators: Those of transactions.
        telemetry: The receiver of metrics, if there is one.
        wants_login: Whether the listener, which had none, wants a login just now: it hangs up on who has given none.
        asked_together: The names of topics that Metadata was asked for, request by request, of the first ones since it
            was cleared.
        refused_by: By whom each was that is no 0: (node, API, code).
    """

    def __init__(self, *, node_count: int, topics: Mapping[str, int], parameters: ModelParameters) -> None:
        super().__init__(node_count=node_count, topics=topics)
        self.parameters = parameters
        self.answered: dict[tuple[ApiKeys, int], int] = {}
        self.asked_together: list[set[str | None]] = []
        self.refused_by: set[tuple[int, ApiKeys, int]] = set()
        self.coordinators = ModelCoordinators(self, is_v2=parameters.transactions == "v2")
        self.telemetry = None if parameters.telemetry is None else ModelTelemetry(parameters.telemetry)
        self.wants_login = False
        self._node_id = -1  # who answers just now
        self._producer_ids_given = 0
        self._announced: dict[int, dict[int, tuple[int, int]]] = {}
        self._last_correlation_ids: dict[tuple[int, Hashable], int] = {}
        self._sessions: dict[tuple[int, Hashable], ModelSession] = {}
        self._told: dict[tuple[int, Hashable], Mapping[int, tuple[int, int]]] = {}  # on a connection, last

    def address_of(self, node_id: int) -> tuple[str, int]:
        """Return the host and port under which a node is announced."""
        return self.parameters.addresses.get(node_id) or (f"node-{node_id}", 9092 + node_id)

    def handle(self, node_id: int, frame: bytes, now_ms: int, *, connection: Hashable = None) -> bytes | None:
        """Apply a request and answer it.

        Args:
            node_id: The living node that was asked.
            frame: The request, without the four bytes of its size.
            now_ms: The time, for the log; never negative.
            connection: What the frame came by, if the order on it is to be checked: the first request is ApiVersions,
                and correlation ids ascend. Leave it out for a frame that a network repeats.

        Returns:
            The answer, without its size; None where a producer with acks=0 gets none; CLOSE_CONNECTION.

        Raises:
            ClientBug: No correct client sends this.
            ValueError: The node does not live; nobody can ask it.
        """
        if node_id not in self._alive:
            raise ValueError(f"node {node_id} does not live")
        if len(frame) < _SHORTEST_HEADER_BYTES:
            bug(f"a request of {len(frame)} bytes")
        self._node_id = node_id
        api_id, version, correlation_id, _ = _FIXED_HEADER.unpack(frame[:10].ljust(10, b"\xff"))
        try:
            api_key = ApiKeys(api_id)
        except ValueError:
            bug(f"a request of the unknown API {api_id}")
        session = self._session(node_id, connection)
        is_proving = session is not None and session.takes(api_key, correlation_id)
        if connection is not None and not is_proving:
            self._check_order(node_id, connection, api_key, correlation_id)
        if correlation_id < 0:
            bug(f"{api_key.title} {version} has the correlation id {correlation_id}")
        told = None if connection is None else self._told.get((node_id, connection))
        announced = (self._announced_by(node_id) if told is None or api_key is _API_VERSIONS else told).get(api_id)
        if announced is None:
            bug(f"{api_key.title} {version} was sent to node {node_id}, which did not announce it")
        if api_key is _API_VERSIONS and version > announced[1]:
            return self._unsupported_api_versions(correlation_id, announced)
        if not announced[0] <= version <= announced[1] or (api_key is _PRODUCE and version < _OLDEST_PRODUCE):
            bug(f"{api_key.title} {version} was sent to node {node_id}, which announced {announced[0]} to "
                f"{announced[1]}")
        body = _read_body(api_key, version, frame)
        if self.parameters.client is not None:
            self._check_client(self.parameters.client, api_key, version,
                               None if told is None else announced[1], frame, body, is_v2=self.coordinators.is_v2)
        request = _Request(node_id, version, correlation_id, body, now_ms, connection)
        if session is not None and not is_proving and session.has_ended(now_ms):
            return CLOSE_CONNECTION
        if self.wants_login and api_key not in (_API_VERSIONS, _HANDSHAKE):
            return CLOSE_CONNECTION
        if api_key is _PRODUCE:
            produced = self._produce(request)
            if produced is None or isinstance(produced, bytes):
                return produced
            answer = produced
        elif api_key is _METADATA:
            answer = self._metadata(request)
        elif api_key is _INIT_PRODUCER_ID:
            answer = self._init_producer_id(request)
        elif api_key in VERSIONS_OF_COORDINATORS:
            answer = self._coordinate(request, api_key)
        elif api_key in (_SUBSCRIBE, _PUSH) and self.telemetry is not None:
            refusal = self.parameters.interference.on_telemetry(node_id, api_key, now_ms) or 0
            handler = self.telemetry.subscribe if api_key is _SUBSCRIBE else self.telemetry.push
            answer = handler(body, refusal, connection, now_ms)
            self._count(api_key, answer["error_code"])
        elif api_key is _API_VERSIONS:
            answer = self._api_versions(request)
            if session is not None and is_proving:
                session.on_api_versions()
        elif api_key is _HANDSHAKE and self.parameters.listener is None:
            code = UNSUPPORTED_SASL_MECHANISM if self.wants_login else ILLEGAL_SASL_STATE
            self._count(_HANDSHAKE, code)
            answer = {"error_code": code, "mechanisms": MECHANISMS if self.wants_login else ()}
        elif session is None:
            return None  # a network repeats it, long after: there is nobody any more whom it could prove
        else:
            answer = self._authenticate(request, api_key, session)
        return b"".join(build_response(api_key, version, correlation_id, answer))

    # ---- who is there

    def _session(self, node_id: int, connection: Hashable) -> ModelSession | None:
        listener = self.parameters.listener
        if connection is None or listener is None:
            return None
        session = self._sessions.get((node_id, connection))
        if session is None:
            session = self._sessions[node_id, connection] = ModelSession(listener)
        return session

    def _authenticate(self, request: _Request, api_key: ApiKeys, session: ModelSession) -> Mapping[str, Any]:
        if api_key is _HANDSHAKE:
            self._count(_HANDSHAKE, 0)
            return session.on_handshake(request.body["mechanism"], request.now_ms)
        refusal = self.parameters.interference.on_proof(request.node_id, request.now_ms) or 0
        self._count(_PROOF, refusal)
        return session.on_proof(bytes(request.body["auth_bytes"]), refusal, request.now_ms)

    # ---- requests in general

    def _check_order(self, node_id: int, connection: Hashable, api_key: ApiKeys, correlation_id: int) -> None:
        key = node_id, connection
        last = self._last_correlation_ids.get(key)
        if last is None:
            if api_key is not _API_VERSIONS:
                bug(f"the first request on a connection is {api_key.title}")
        elif not 0 < ((correlation_id - last) & _MAX_CORRELATION_ID) < _MAX_CORRELATION_ID // 2:
            bug(f"on a connection the correlation id {correlation_id} follows {last}")
        self._last_correlation_ids[key] = correlation_id

    @staticmethod
    def _check_client(client: ModelClient, api_key: ApiKeys, version: int, announced: int | None, frame: bytes,
                      body: Any, *, is_v2: bool) -> None:
        """Compare a request with what is known of who sends it, and, where known, was told on its connection."""
        client_id = frame[_FIXED_HEADER.size:_FIXED_HEADER.size + _FIXED_HEADER.unpack_from(frame)[3]]
        if client_id != client.client_id.encode():
            bug(f"{api_key.title} has the client id {client_id!r}")
        newest = client.newest.get(api_key)
        is_in_transaction = api_key is _PRODUCE and body["transactional_id"] is not None
        if is_in_transaction and newest is not None and not is_v2:
            newest = min(newest, _LAST_PRODUCE_BEFORE_V2)
        if api_key is ApiKeys.TXN_OFFSET_COMMIT and not is_v2:
            newest = 4
        if api_key is ApiKeys.END_TXN and not is_v2:
            newest = 4
        if newest is not None and announced is not None and version != min(newest, announced):
            bug(f"{api_key.title} {version} was sent, where both know {min(newest, announced)}")
        if api_key is _API_VERSIONS:
            is_so = version < 3 or body["client_software_name"] == client.software_name
        elif api_key is _PRODUCE:
            is_so = body["timeout_ms"] == client.produce_timeout_ms
        elif api_key is _METADATA:
            is_so = not body.get("include_topic_authorized_operations") and not body.get(
                "include_cluster_authorized_operations") and body.get("allow_auto_topic_creation", True)
        elif api_key is _INIT_PRODUCER_ID:
            # As Java's, where there are no transactions.
            is_so = body["transaction_timeout_ms"] == (
                _MAX_CORRELATION_ID if body["transactional_id"] is None else client.transaction_timeout_ms)
        else:
            is_so = True
        if not is_so:
            bug(f"{api_key.title} {version} says {body!r}")

    def _announced_by(self, node_id: int) -> dict[int, tuple[int, int]]:
        announced = self._announced.get(node_id)
        if announced is None:
            announced = self._announced[node_id] = dict(self.versions())
        return announced

    def versions(self) -> dict[int, tuple[int, int]]:
        """Return what nodes announce: (lowest, highest) by number of the API."""
        parameters = self.parameters
        versions = {_PRODUCE: (0, parameters.produce_version), _METADATA: (0, parameters.metadata_version),
                    _API_VERSIONS: (0, parameters.api_versions_version)}
        if parameters.init_producer_id_version is not None:
            versions[_INIT_PRODUCER_ID] = (0, parameters.init_producer_id_version)
        if parameters.listener is not None or parameters.may_want_login:
            versions |= {_HANDSHAKE: (0, 1), _PROOF: (0, parameters.authenticate_version)}
        if parameters.telemetry is not None:
            versions |= {_SUBSCRIBE: (0, 0), _PUSH: (0, 0)}
        if parameters.transactions is not None:
            versions |= VERSIONS_OF_COORDINATORS
        return {int(api_key): span for api_key, span in versions.items()}

    def _count(self, api_key: ApiKeys, error_code: int) -> None:
        key = api_key, error_code
        self.answered[key] = self.answered.get(key, 0) + 1
        if error_code:
            self.refused_by.add((self._node_id, api_key, error_code))

    # ---- ApiVersions

    def _unsupported_api_versions(self, correlation_id: int, announced: tuple[int, int]) -> bytes:
        """Answer in version 0, whatever was asked: the one entry says which version to ask in."""
        self._count(_API_VERSIONS, UNSUPPORTED_VERSION)
        return b"".join(build_response(_API_VERSIONS, 0, correlation_id, {
            "error_code": UNSUPPORTED_VERSION, "api_keys": [
                {"api_key": int(_API_VERSIONS), "min_version": announced[0], "max_version": announced[1]}]}))

    def _api_versions(self, request: _Request) -> Mapping[str, Any]:
        if request.version >= 3:
            for name in ("client_software_name", "client_software_version"):
                if not _SOFTWARE_NAME.fullmatch(request.body[name]):
                    bug(f"ApiVersions has the {name} {request.body[name]!r}")
        verdict = self.parameters.interference.on_api_versions(request.node_id, request.now_ms) or ApiVersionsVerdict()
        versions = self.versions() if verdict.versions is None else verdict.versions
        told = self._told.get((request.node_id, request.connection))
        if told is not None:  # it asks again, only to see how far the broker has come
            verdict, versions = ApiVersionsVerdict(), told
        self._count(_API_VERSIONS, verdict.error_code)
        if verdict.error_code:
            versions = {}
        elif request.connection is not None:
            self._told[request.node_id, request.connection] = versions
        announced = self._announced_by(request.node_id)
        for api_id, (low, high) in versions.items():
            before = announced.get(api_id, (low, high))
            announced[api_id] = min(before[0], low), max(before[1], high)
        is_v2 = self.coordinators.is_v2 and not verdict.error_code
        features = [{"name": "transaction.version", "max_version_level": 2, "min_version_level": 2}] if is_v2 else []
        return {"error_code": verdict.error_code, "throttle_time_ms": verdict.throttle_ms, "api_keys": [
            {"api_key": api_id, "min_version": low, "max_version": high} for api_id, (low, high) in versions.items()],
            "finalized_features": features, "finalized_features_epoch": 1 if features else 0}

    # ---- transactions

    def _coordinate(self, request: _Request, api_key: ApiKeys) -> Mapping[str, Any]:
        refusal = self.parameters.interference.on_coordinator(request.node_id, api_key, request.now_ms) or 0
        self._count(api_key, refusal)
        if refusal:
            return refused(api_key, request.version, request.body, refusal)
        place_code = self.parameters.interference.on_place(request.node_id, api_key, request.now_ms) if (
            api_key in PLACES_OF) else None
        answer = self.coordinators.handle(api_key, request.version, request.node_id, request.body, request.now_ms,
                                          is_late=request.connection is None, place_code=place_code or 0)
        for code in codes_of(api_key, request.version, answer):
            self._count(api_key, code)
        return {"throttle_time_ms": 0, **answer}

    # ---- InitProducerId

    def _init_producer_id(self, request: _Request) -> Mapping[str, Any]:
        body = request.body
        if body["transactional_id"] is not None:
            return self._init_transactional(request)
        if request.version >= 3:
            producer_id, epoch = body["producer_id"], body["producer_epoch"]
            if (producer_id == NO_PRODUCER_ID) != (epoch == -1) or producer_id < -1 or epoch < -1:
                bug(f"InitProducerId has the producer id {producer_id} and the epoch {epoch}")
            if producer_id != NO_PRODUCER_ID:
                self._check_producer_id(producer_id)
        refusal = self.parameters.interference.on_init_producer_id(request.node_id, request.now_ms)
        if isinstance(refusal, tuple):
            producer_id, epoch = refusal
            return {"throttle_time_ms": 0, "error_code": 0, "producer_id": producer_id, "producer_epoch": epoch}
        self._count(_INIT_PRODUCER_ID, refusal or 0)
        if refusal:
            return {"throttle_time_ms": 0, "error_code": refusal, "producer_id": -1, "producer_epoch": -1}
        # Without a transactional id Kafka gives a new one, also to who brings his own: such a producer raises its
        # epoch by itself.
        producer_id = self.parameters.first_producer_id + self._producer_ids_given
        self._producer_ids_given += 1
        return {"throttle_time_ms": 0, "error_code": 0, "producer_id": producer_id,
                "producer_epoch": self.parameters.first_producer_epoch}

    def _init_transactional(self, request: _Request) -> Mapping[str, Any]:
        if self.parameters.transactions is None:
            bug(f"InitProducerId has the transactional id {request.body['transactional_id']!r}")
        refusal = self.parameters.interference.on_coordinator(request.node_id, _INIT_PRODUCER_ID, request.now_ms)
        answer = ({"error_code": refusal, "producer_id": -1, "producer_epoch": -1} if refusal else
                  self.coordinators.init(request.body, request.node_id, request.now_ms,
                                         self.parameters.first_producer_id + self._producer_ids_given,
                                         is_late=request.connection is None))
        self._producer_ids_given += answer["producer_id"] == (
            self.parameters.first_producer_id + self._producer_ids_given)
        self._count(_INIT_PRODUCER_ID, answer["error_code"])
        return {"throttle_time_ms": 0, **answer}

    def _check_producer_id(self, producer_id: int) -> None:
        first = self.parameters.first_producer_id
        if self.parameters.knows_all_producers and not first <= producer_id < first + self._producer_ids_given:
            bug(f"the producer id {producer_id} was never given to anybody")

    # ---- Metadata

    def _metadata(self, request: _Request) -> Mapping[str, Any]:
        version, asked = request.version, request.body["topics"]
        verdict = self.parameters.interference.on_metadata(request.node_id, request.now_ms) or MetadataVerdict()
        if verdict.error_code and version >= 13:
            self._count(_METADATA, verdict.error_code)
            beside = verdict.unlawful_nonsense
            return {"throttle_time_ms": verdict.throttle_ms, "cluster_id": None, "controller_id": -1,
                    "brokers": self._end_points(self.nodes) if beside else _NOTHING,
                    "topics": [self._nonsense(name) for name in self.topics] if beside else _NOTHING,
                    "error_code": verdict.error_code}
        view = self.view() if verdict.view is None else verdict.view
        if asked is None or (version == 0 and not asked):
            topics = [self._describe(name, topic, verdict, view) for name, topic in view.topics.items()
                      if name not in verdict.unlawful_omitted_topics]
        else:
            if len(self.asked_together) < _MOST_ASKED:
                self.asked_together.append({topic["name"] for topic in asked})
            topics = [answer for wanted in self._wanted(version, asked)
                      if (answer := self._answer_topic(request, wanted, verdict, view)) is not None]
        nodes = [node_id for node_id in view.nodes if node_id not in verdict.hidden_nodes]
        return {"throttle_time_ms": verdict.throttle_ms, "brokers": self._end_points(nodes), "cluster_id": "model",
                "controller_id": nodes[0] if nodes else -1, "topics": topics, "error_code": 0}

    @staticmethod
    def _wanted(version: int, asked: Iterable[Mapping[str, Any]]) -> Iterable[Mapping[str, Any]]:
        """Return what was asked for, each topic once."""
        wanted: dict[Any, Mapping[str, Any]] = {}
        for topic in asked:
            name, topic_id = topic["name"], topic.get("topic_id", ZERO_ID)
            if version < 12 and topic_id != ZERO_ID:
                bug(f"Metadata {version} asks by the id {topic_id}, which is answered from version 12 on")
            if name is None and (version < 12 or topic_id == ZERO_ID):
                bug(f"Metadata {version} asks for a topic without a name")
            if name is not None and topic_id != ZERO_ID:
                bug(f"Metadata {version} asks for {name!r} by its id, too")
            wanted[name or topic_id] = topic
        if len({topic["name"] is None for topic in wanted.values()}) > 1:
            bug(f"Metadata {version} asks by ids and by names; Kafka then answers for the ids alone")
        return wanted.values()

    def _answer_topic(self, request: _Request, wanted: Mapping[str, Any], verdict: MetadataVerdict,
                      view: ClusterView) -> dict[str, Any] | None:
        name = wanted["name"]
        if name is None:
            topic_id = wanted["topic_id"]
            name = next((name for name, topic in view.topics.items() if topic.topic_id == topic_id), None)
            if name is None:
                return self._topic_error(UNKNOWN_TOPIC_ID, None, topic_id)
        if name in verdict.unlawful_omitted_topics:
            return None
        topic = view.topics.get(name)
        if topic is not None:
            return self._describe(name, topic, verdict, view)
        if verdict.topic_errors is not None and name in verdict.topic_errors:
            return self._topic_error(verdict.topic_errors[name], name)
        if not _TOPIC_NAME.fullmatch(name):
            return self._topic_error(INVALID_TOPIC_EXCEPTION, name)
        partition_count = self.parameters.auto_create_partitions
        if partition_count and request.body.get("allow_auto_topic_creation", True) and name not in self.topics:
            self.create_topic(name, partition_count)
        return self._topic_error(UNKNOWN_TOPIC_OR_PARTITION, name)

    def _topic_error(self, error_code: int, name: str | None, topic_id: Any = ZERO_ID) -> dict[str, Any]:
        self._count(_METADATA, error_code)
        return {"error_code": error_code, "name": name, "topic_id": topic_id, "is_internal": False,
                "partitions": _NOTHING}

    def _describe(self, name: str, topic: TopicView, verdict: MetadataVerdict, view: ClusterView) -> dict[str, Any]:
        topic_id = topic.topic_id if self.parameters.has_topic_ids else ZERO_ID
        if verdict.topic_errors is not None and verdict.topic_errors.get(name):
            return self._topic_error(verdict.topic_errors[name], name, topic_id)
        self._count(_METADATA, 0)
        leaders = topic.leaders
        if verdict.partition_counts is not None and name in verdict.partition_counts:
            leaders = leaders[:verdict.partition_counts[name]]
        hidden, errors = verdict.hidden_partitions, verdict.partition_errors
        replicas, isr = list(self.nodes), list(view.nodes)
        offline = [node_id for node_id in replicas if node_id not in view.nodes]
        partitions = []
        for index, (leader_id, leader_epoch) in enumerate(leaders):
            if hidden and (name, index) in hidden:
                continue
            error_code = LEADER_NOT_AVAILABLE if leader_id == NO_LEADER else 0
            if errors is not None:
                error_code = errors.get((name, index), error_code)
            if error_code:
                self._count(_METADATA, error_code)
            partitions.append({
                "error_code": error_code, "partition_index": index, "leader_epoch": leader_epoch,
                "leader_id": NO_LEADER if error_code == LEADER_NOT_AVAILABLE else leader_id,
                "replica_nodes": replicas, "isr_nodes": isr, "offline_replicas": offline})
        return {"error_code": 0, "name": name, "topic_id": topic_id, "is_internal": False, "partitions": partitions}

    def _nonsense(self, name: str) -> dict[str, Any]:
        """Say of a topic what is not so, and would be believed for long."""
        topic_id = self.topic_id(name) if self.parameters.has_topic_ids else ZERO_ID
        return {"error_code": 0, "name": name, "topic_id": topic_id, "is_internal": False, "partitions": [
            {"error_code": 0, "partition_index": 0, "leader_epoch": _FAR_EPOCH, "leader_id": self.nodes[-1],
             "replica_nodes": [], "isr_nodes": [], "offline_replicas": []}]}

    def _end_points(self, nodes: Iterable[int]) -> list[dict[str, Any]]:
        end_points = []
        for node_id in nodes:
            host, port = self.address_of(node_id)
            end_points.append({"node_id": node_id, "host": host, "port": port, "rack": None})
        return end_points

    # ---- Produce

    def _produce(self, request: _Request) -> Mapping[str, Any] | bytes | None:
        body, version = request.body, request.version
        acks = body["acks"]
        if acks not in (-1, 0, 1) or self.parameters.required_acks not in (None, acks):
            bug(f"Produce has acks={acks}")
        if body["timeout_ms"] < 0:
            bug(f"Produce has the timeout {body['timeout_ms']} ms")
        if body["transactional_id"] is not None and self.parameters.transactions is None:
            bug(f"Produce has the transactional id {body['transactional_id']!r}")
        answer = _ProduceAnswer(version)
        seen: set[tuple[Any, int]] = set()
        for topic_data in body["topic_data"]:
            name, topic_id, partitions = self._topic_of(topic_data, version)
            rows: list[dict[str, Any]] = []
            for partition_data in topic_data["partition_data"]:
                index = partition_data["index"]
                if index < 0 or (name or topic_id, index) in seen:
                    bug(f"a Produce request has a batch for {name or topic_id}-{index}"
                        f"{' twice' if index >= 0 else ''}")
                seen.add((name or topic_id, index))
                batch = self._batch_of(partition_data["records"], version, acks, body["transactional_id"])
                if partitions is None or index >= len(partitions):
                    is_id_unknown = partitions is None and version >= _TOPIC_IDS_IN_PRODUCE
                    code = UNKNOWN_TOPIC_ID if is_id_unknown else UNKNOWN_TOPIC_OR_PARTITION
                    self.parameters.witness.on_stranger(batch, code)
                    rows.append(_row(index, code))
                else:
                    self._produce_one(request, partitions[index], batch, answer, rows)
            answer.topics.append({"topic_id": topic_id, "partition_responses": rows}
                                 if version >= _TOPIC_IDS_IN_PRODUCE else {"name": name, "partition_responses": rows})
            for row in rows:
                self._count(_PRODUCE, row["error_code"])
                answer.has_failed |= row["error_code"] != 0
        if not seen:
            bug("a Produce request has no batch")
        if acks == 0:
            return CLOSE_CONNECTION if answer.has_failed else None
        fields: dict[str, Any] = {"responses": answer.topics, "throttle_time_ms": answer.throttle_ms}
        if answer.nodes:
            fields["node_endpoints"] = self._end_points(sorted(answer.nodes))
        return fields

    def _topic_of(self, topic_data: Mapping[str, Any], version: int) -> tuple[
            str | None, Any, list[ModelPartition] | None]:
        """Return the name, the id and the partitions of a topic, as far as the request names it and it is there."""
        if version >= _TOPIC_IDS_IN_PRODUCE:
            topic_id = topic_data["topic_id"]
            if topic_id == ZERO_ID:
                bug(f"Produce {version} names a topic by the id of zeros")
            return None, topic_id, self._topic_by_id.get(topic_id) if self.parameters.has_topic_ids else None
        name = topic_data["name"]
        return name, None, self.topics.get(name)

    def _batch_of(self, records: memoryview | None, version: int, acks: int,
                  transactional_id: str | None) -> ProducedBatch:
        if records is None:
            bug("a partition of a Produce request has no records")
        batch = ProducedBatch(bytes(records), version, may_name_leader_epoch=self.parameters.takes_leader_epochs,
                              is_transactional=transactional_id is not None)
        if transactional_id is not None and batch.producer_id == NO_PRODUCER_ID:
            bug(f"a batch of the transactional id {transactional_id!r} has no producer id")
        if batch.producer_id != NO_PRODUCER_ID:
            self._check_producer_id(batch.producer_id)
            if acks != -1:
                bug(f"a batch of an idempotent producer was sent with acks={acks}")
        return batch

    def _produce_one(self, request: _Request, partition: ModelPartition, batch: ProducedBatch, answer: _ProduceAnswer,
                     rows: list[dict[str, Any]]) -> None:
        count = len(partition.batches)
        own: list[dict[str, Any]] = []
        self._take(request, partition, batch, answer, own)
        rows += own
        for row in own:
            if row["record_errors"] and request.version >= _BLAMES_FROM:
                self.parameters.witness.on_blamed(batch, row["error_code"], row["record_errors"])
        self.parameters.witness.on_batch(
            partition, batch, partition.batches[-1] if len(partition.batches) > count else None,
            next((row["error_code"] for row in own if row["index"] == partition.index), None))

    def _take(self, request: _Request, partition: ModelPartition, batch: ProducedBatch, answer: _ProduceAnswer,
              rows: list[dict[str, Any]]) -> None:
        node_id, index = request.node_id, partition.index
        verdict = self.parameters.interference.on_produce(node_id, partition.topic, index, request.now_ms)
        if verdict is not None:
            answer.throttle_ms = max(answer.throttle_ms, verdict.throttle_ms)
            if verdict.unlawful_extra_index is not None:
                rows.append(_row(verdict.unlawful_extra_index, 0, 0))
            if verdict.unlawful_success:
                rows.append(_row(index, 0, 0))
                return
            if verdict.error_code and not verdict.applies:
                self._overrule(verdict, partition, answer, rows, -1)
                return
        if partition.leader_id != node_id:
            row = _row(index, NOT_LEADER_OR_FOLLOWER)
            if self.parameters.hints_leaders:
                answer.hint(row, partition.leader_id, partition.leader_epoch)
        elif batch.is_transactional and (refusal := self._refusal_of(request, batch, partition)):
            row = _row(index, refusal)
        else:
            parameters = self.parameters
            has_log_time = partition.topic in parameters.log_append_time_topics
            appended = partition.append(
                batch, node_id=node_id, now_ms=request.now_ms, idempotence=parameters.idempotence,
                max_message_bytes=parameters.max_message_bytes, blames_reuse=parameters.blames_reused_numbers,
                has_log_time=has_log_time, producer_expiration_ms=parameters.producer_expiration_ms)
            if not appended.error_code and verdict is not None and verdict.error_code:
                self._overrule(verdict, partition, answer, rows, appended.base_offset)
                return
            row = _row(index, appended.error_code, appended.base_offset)
            row["log_start_offset"] = appended.log_start_offset if appended.error_code else partition.start_offset
            if appended.is_duplicate:
                row["log_append_time_ms"] = appended.duplicate_timestamp
            elif not appended.error_code and has_log_time:
                row["log_append_time_ms"] = request.now_ms
        if verdict is None or not verdict.unlawful_omitted:
            rows.append(row)

    def _refusal_of(self, request: _Request, batch: ProducedBatch, partition: ModelPartition) -> int:
        """Return why a batch of a transaction is not taken; what is there already is told so, whatever it belongs to.
        """
        state = partition.known_to(request.node_id).get(batch.producer_id)
        is_known = state is not None and state.epoch == batch.producer_epoch and any(
            stored.base_sequence == batch.base_sequence for stored in state.batches)
        return 0 if is_known else self.coordinators.refusal_of(
            request.body["transactional_id"], batch, partition, request.now_ms)

    def _overrule(self, verdict: Verdict, partition: ModelPartition, answer: _ProduceAnswer,
                  rows: list[dict[str, Any]], base_offset: int) -> None:
        """Answer the code of a verdict, whatever became of the batch; as Kafka, with its offset if it was stored."""
        if verdict.unlawful_omitted:
            return
        row = _row(partition.index, verdict.error_code, base_offset)
        row["error_message"] = verdict.message
        row["record_errors"] = [{"batch_index": index, "batch_index_error_message": text}
                                for index, text in verdict.record_errors]
        hint = verdict.leader_hint
        if isinstance(hint, LeaderHint):
            answer.hint(row, hint.leader_id, hint.leader_epoch)
        elif hint:
            answer.hint(row, partition.leader_id, partition.leader_epoch)
        rows.append(row)


class _ProduceAnswer:
    """What gathers while the partitions of a Produce request are handled one after another."""

    __slots__ = ("has_failed", "nodes", "throttle_ms", "topics", "version")

    def __init__(self, version: int) -> None:
        self.version = version
        self.topics: list[dict[str, Any]] = []
        self.nodes: set[int] = set()
        self.throttle_ms = 0
        self.has_failed = False

    def hint(self, row: dict[str, Any], leader_id: int, leader_epoch: int) -> None:
        """Name the leader in a partition's row, where the version has a place for it and there is one."""
        if self.version >= _HINTS_FROM and leader_id != NO_LEADER:
            row["current_leader"] = {"leader_id": leader_id, "leader_epoch": leader_epoch}
            self.nodes.add(leader_id)


def _row(index: int, error_code: int, base_offset: int = -1) -> dict[str, Any]:
    return {"index": index, "error_code": error_code, "base_offset": base_offset, "log_append_time_ms": -1,
            "log_start_offset": -1 if error_code else 0, "record_errors": _NOTHING, "error_message": None}


def read_request(api_key: ApiKeys, frame: bytes) -> tuple[int, Any]:
    """Read a whole request of a known API: its version and its body.

    Raises:
        ClientBug: It is malformed, or not all of it was read.
    """
    version = _FIXED_HEADER.unpack_from(frame)[1]
    return version, _read_body(api_key, version, frame)


def _read_body(api_key: ApiKeys, version: int, frame: bytes) -> Any:
    """Read what follows a request's fixed header, to the last byte.

    Raises:
        ClientBug: It is malformed, or not all of it was read.
    """
    try:
        schema, header_version = api_key.request_formats[version]
        client_id_length = _FIXED_HEADER.unpack_from(frame)[3]
        position = _FIXED_HEADER.size + max(client_id_length, 0)
        if client_id_length < -1 or position > len(frame):
            bug(f"{api_key.title} {version}: a client id of {client_id_length} bytes")
        frame[_FIXED_HEADER.size:position].decode()
        if header_version == 2:
            if frame[position] != 0:
                bug(f"{api_key.title} {version}: its header has {frame[position]} tags, none is known")
            position += 1
        reader = ByteReader(frame)
        reader.position = position
        body = schema.read(reader)
    except ClientBug:
        raise
    except (StructError, IndexError, ValueError, ProtocolError) as cause:
        raise ClientBug(f"{api_key.title} {version} cannot be read: {cause}") from cause
    if reader.remaining:
        bug(f"{api_key.title} {version}: {reader.remaining} bytes are left behind it")
    return body
