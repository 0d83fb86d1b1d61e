"""What a driver asks of coordinators: which they are, the ends of transactions, who has one open, what was consumed.

Each question is repeated, after the coordinator was found anew, until it is answered or the time is over. A driver's
work is many small questions to few brokers: those to one coordinator go one behind the other on one connection.

Road:    TransactionCompleter, TwoPhase, `txn` -> [CoordinatorClient] -> BlockingClient
Thread:  the caller's, which is the one that polls.
Source:  Java Admin's transaction calls (4.1: listTransactions, describeTransactions, fenceProducers,
         listConsumerGroupOffsets); ending a transaction of another process, and committing offsets in one, are ours.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar
from uuid import UUID

from pyproducer.client.blocking_client import Answer, BlockingClient, Connection
from pyproducer.client.find_coordinator import (
    COORDINATOR_MOVED,
    FIRST_VERSION_WITH_KEYS,
    GROUP,
    TRANSACTION,
    find_coordinator_body,
    found_coordinators,
)
from pyproducer.common.clock import Clock
from pyproducer.common.cluster import TopicPartition, address_text
from pyproducer.common.consumer_offsets import OffsetAndMetadata
from pyproducer.common.error_codes import ErrorCode, error_for_code
from pyproducer.common.errors import (
    ApiError,
    ConfigError,
    DisconnectedError,
    FatalProducerError,
    KafkaError,
    KafkaTimeoutError,
    RemoteProtocolError,
)
from pyproducer.common.waiting import new_cell
from pyproducer.network.sasl.patient_login import login_of
from pyproducer.protocol.apis import ApiKeys
from pyproducer.protocol.types import ZERO_UUID
from pyproducer.record.layout import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, ProducerIdAndEpoch
from pyproducer.transaction.transactions import TRANSACTIONS_V2

if TYPE_CHECKING:
    from pyproducer.protocol.schema import Struct

_LAST_END_TXN_BEFORE_V2 = 4
_LAST_TXN_OFFSET_COMMIT_BEFORE_V2 = 4
_LAST_OFFSET_FETCH_WITH_NAMES = 9
_FIRST_OFFSET_FETCH_WITH_GROUPS = 8
_LAST_ADD_PARTITIONS_OF_CLIENTS = 3
_PAUSE_S = 0.1
_MOVED = COORDINATOR_MOVED | {ErrorCode.REQUEST_TIMED_OUT}  # the latter of its own log: another one may lead that now
# Of a connection that is of no use any more; another one may be.
_NO_ANSWER = (DisconnectedError, KafkaTimeoutError, RemoteProtocolError)
_SHORT_PAUSE_S = 0.01  # a transaction is completed within milliseconds
_LOOKS_FOR_TOPIC = 5  # a broker that was started a moment ago, or did not hear of a new topic yet, does not know it

K = TypeVar("K")


class TransactionRow(NamedTuple):
    """A transactional id, as ListTransactions tells it.

    Attributes:
        transactional_id: The id.
        producer_id: Of its producer.
        state: Empty, Ongoing, PrepareCommit, PrepareAbort, CompleteCommit or CompleteAbort.
        node_id: Its coordinator.
    """

    transactional_id: str
    producer_id: int
    state: str
    node_id: int


class TransactionDescription(NamedTuple):
    """A transactional id, as its coordinator describes it.

    Attributes:
        transactional_id: The id.
        error_code: 0, or why there is nothing to tell: 105 where the coordinator does not know it.
        state: See TransactionRow.
        producer_id: Of its producer.
        epoch: Of its producer.
        timeout_ms: transaction.timeout.ms of its producer.
        start_ms: When its transaction began, in epoch ms; -1 where none is open.
        partitions: Those in its transaction, in order.
    """

    transactional_id: str
    error_code: int
    state: str = ""
    producer_id: int = -1
    epoch: int = -1
    timeout_ms: int = 0
    start_ms: int = -1
    partitions: tuple[TopicPartition, ...] = ()


class EndRequest(NamedTuple):
    """One transaction to be ended."""

    transactional_id: str
    producer_id: int
    epoch: int
    commit: bool


@contextlib.contextmanager
def coordinators_of(config: Any, *, timeout_s: float, request_timeout_s: float | None = None,
                    clock: Clock) -> Iterator[CoordinatorClient]:
    """Make a client of a producer's settings, and close its connections at the end.

    Args:
        config: A ProducerConfig.
        timeout_s: Longest time for a call, and for the login, in seconds.
        request_timeout_s: Longest time without a byte; `timeout_s` unless it is given.
        clock: For that.

    Raises:
        KafkaError: The login fails.
    """
    with login_of(config, timeout_s) as login, BlockingClient.of(
            config, login, timeout_s=request_timeout_s or timeout_s, clock=clock) as client:
        yield CoordinatorClient(client, config.bootstrap_servers, timeout_s=timeout_s, clock=clock)


class KeptCoordinators:
    """A client of a producer's settings that is made when it is needed, and kept until it is closed.

    Args:
        config: A ProducerConfig; max.block.ms is the longest time for a call, and for the login.
        clock: For that.

    Raises:
        ConfigError: max.block.ms is 0, a time in which no broker can answer.
    """

    def __init__(self, config: Any, clock: Clock) -> None:
        if config.max_block_ms == 0:
            raise ConfigError("max.block.ms", 0, "it is the longest time in which brokers are asked here and answer: "
                              "set it to 1 or more, or leave it out, which is 60000")
        self._config = config
        self._clock = clock
        self._kept: tuple[CoordinatorClient, contextlib.ExitStack] | None = None

    def client(self) -> CoordinatorClient:
        """Return it.

        Raises:
            KafkaError: The login fails.
        """
        if self._kept is None:
            config = self._config
            with contextlib.ExitStack() as end:
                client = end.enter_context(coordinators_of(
                    config, timeout_s=config.max_block_ms / 1000, request_timeout_s=config.request_timeout_ms / 1000,
                    clock=self._clock))
                self._kept = client, end.pop_all()
        return self._kept[0]

    def close(self) -> None:
        """Close its connections; another one is made when it is needed."""
        kept, self._kept = self._kept, None
        if kept is not None:
            kept[1].close()


class CoordinatorClient:
    """Asks coordinators. Keeps its connections until it is closed.

    Args:
        client: Makes the connections, and waits.
        bootstrap: Where to begin.
        timeout_s: Longest time for a call, repetitions included, in seconds.
        clock: For that.

    Attributes:
        until_ms: When calls end that are to end together, in monotonic ms; None gives each `timeout_s`.
    """

    def __init__(self, client: BlockingClient, bootstrap: Sequence[tuple[str, int]], *, timeout_s: float,
                 clock: Clock) -> None:
        self._client = client
        self._bootstrap = tuple(bootstrap)
        self._timeout_s = timeout_s
        self._clock = clock
        self.until_ms: int | None = None
        self._any: Connection | None = None
        self._connections: dict[tuple[str, int], Connection] = {}
        self._coordinators: dict[tuple[int, str], tuple[str, int]] = {}

    # ---- what is asked

    def end_transactions(self, requests: Sequence[EndRequest]) -> list[int]:
        """Ask for the end of each transaction; return the codes, in order: 0 where it is ended as it was asked.

        A code says nothing of the others. CONCURRENT_TRANSACTIONS is repeated.

        Raises:
            KafkaTimeoutError: Not all was answered in time. Unknown: each may be ended.
        """
        def body(request: EndRequest) -> Callable[[int], Mapping[str, Any]]:
            return lambda _version: {"transactional_id": request.transactional_id, "producer_id": request.producer_id,
                                     "producer_epoch": request.epoch, "committed": request.commit}

        answers = self._ask_each(
            TRANSACTION, [request.transactional_id for request in requests], ApiKeys.END_TXN,
            [body(request) for request in requests], lambda answer: int(answer.body["error_code"]),
            lambda connection: None if _is_v2(connection) else _LAST_END_TXN_BEFORE_V2)
        return [int(answer.body["error_code"]) for answer in answers]

    def abort_and_fence(self, found: Sequence[TransactionDescription]) -> None:
        """Abort transactions that are still the very ones that were described, and fence their producers.

        Raises:
            ApiError: A coordinator refuses.
            KafkaTimeoutError: Not all was answered in time. Unknown: each may be aborted.
        """
        codes = self.end_transactions([EndRequest(each.transactional_id, each.producer_id, each.epoch, False)
                                       for each in found])
        if not found or _is_v2(self._repeated(self._any_connection, self._deadline_ms())):
            return  # the end of a transaction has changed the epoch
        # Before that its producer could write on, outside of any transaction that a coordinator knows. An id that was
        # initialised by another one since the end keeps its epoch; only a transaction that this one has begun in these
        # milliseconds is aborted.
        for each, code in zip(found, codes):  # noqa: B905 - one for each
            if not code:
                with contextlib.suppress(FatalProducerError):
                    self.init_producer_id(each.transactional_id, max(each.timeout_ms, 1),
                                          ProducerIdAndEpoch(each.producer_id, each.epoch))

    def init_producer_id(self, transactional_id: str, timeout_ms: int, owner: ProducerIdAndEpoch | None = None
                         ) -> ProducerIdAndEpoch:
        """Initialise a transactional id: its producer is fenced, and what it has left open is aborted.

        Args:
            transactional_id: The id.
            timeout_ms: transaction.timeout.ms of its producer from now on.
            owner: Whose it must be, unless a transaction is open; None takes any.

        Raises:
            ApiError: The coordinator refuses.
            KafkaTimeoutError: Not answered in time. Unknown: the id may be initialised.
        """
        whose = {} if owner is None else {"producer_id": owner.producer_id, "producer_epoch": owner.epoch}
        (answer,) = self._ask_each(
            TRANSACTION, [transactional_id], ApiKeys.INIT_PRODUCER_ID,
            [lambda _version: {"transactional_id": transactional_id, "transaction_timeout_ms": timeout_ms, **whose}],
            lambda answer: int(answer.body["error_code"]))
        _ensure_no_error(answer.body["error_code"], "InitProducerId", transactional_id)
        return ProducerIdAndEpoch(answer.body["producer_id"], answer.body["producer_epoch"])

    def fetch_offsets(self, groups: Sequence[str], place: TopicPartition | None, *,
                      is_stable: bool = True) -> list[dict[TopicPartition, OffsetAndMetadata]]:
        """Return what each group has committed, in order.

        Args:
            groups: Their ids.
            place: The partition that is asked for; None for all of which the group has committed any.
            is_stable: While a transaction may change that, it is waited for; of `place` alone, for what is committed
                first is no partition of the group before.

        Raises:
            UnsupportedVersionError: A broker is older than 2.5.
            ApiError: A coordinator refuses.
            KafkaTimeoutError: Not answered in time, or a transaction stays open.
        """
        topics = None if place is None else [{"name": place.topic, "partition_indexes": [place.partition]}]

        def body(group: str) -> Callable[[int], Mapping[str, Any]]:
            def build(version: int) -> Mapping[str, Any]:
                asked = {"group_id": group, "topics": topics}
                return {**({"groups": [asked]} if version >= _FIRST_OFFSET_FETCH_WITH_GROUPS else asked),
                        "require_stable": is_stable}
            return build

        def found_in(answer: Answer) -> Struct:
            found: Struct = answer.body["groups"][0] if answer.version >= _FIRST_OFFSET_FETCH_WITH_GROUPS else (
                answer.body)
            return found

        def code_of(answer: Answer) -> int:
            found = found_in(answer)
            return int(found["error_code"] or next((row["error_code"] for topic in found["topics"]
                                                    for row in topic["partitions"] if row["error_code"]), 0))

        answers = self._ask_each(GROUP, groups, ApiKeys.OFFSET_FETCH, [body(group) for group in groups], code_of,
                                 lambda _connection: _LAST_OFFSET_FETCH_WITH_NAMES)
        for group, answer in zip(groups, answers):  # noqa: B905 - one for each
            _ensure_no_error(code_of(answer), "OffsetFetch", group)
        return [{TopicPartition(topic["name"], row["partition_index"]):
                 OffsetAndMetadata(row["committed_offset"], row["metadata"] or "")
                 for topic in found_in(answer)["topics"] for row in topic["partitions"] if row["committed_offset"] >= 0}
                for answer in answers]

    def commit_offsets(self, transactional_id: str, producer: ProducerIdAndEpoch, place: TopicPartition,
                       offsets: Mapping[str, OffsetAndMetadata]) -> None:
        """Have a transaction commit offsets of groups, each of the same partition; they count when it is committed.

        Raises:
            ApiError: A coordinator refuses. The transaction, if there is one, is open and has some of them at most.
            KafkaTimeoutError: Not answered in time. Unknown: the transaction may have any of them.
        """
        groups = list(offsets)
        whose = {"transactional_id": transactional_id, "producer_id": producer.producer_id,
                 "producer_epoch": producer.epoch}
        if not _is_v2(self._repeated(self._any_connection, self._deadline_ms())):
            answers = self._ask_each(
                TRANSACTION, [transactional_id] * len(groups), ApiKeys.ADD_OFFSETS_TO_TXN,
                [partial(lambda group, _version: {**whose, "group_id": group}, group) for group in groups],
                lambda answer: int(answer.body["error_code"]))
            for answer in answers:
                _ensure_no_error(answer.body["error_code"], "AddOffsetsToTxn", transactional_id)

        def body(group: str) -> Callable[[int], Mapping[str, Any]]:
            found = offsets[group]
            return lambda _version: {**whose, "group_id": group, "topics": [{"name": place.topic, "partitions": [{
                "partition_index": place.partition, "committed_offset": found.offset,
                "committed_metadata": found.metadata}]}]}

        def code_of(answer: Answer) -> int:
            return int(answer.body["topics"][0]["partitions"][0]["error_code"])

        for group, answer in zip(groups, self._ask_each(  # noqa: B905 - one for each
                GROUP, groups, ApiKeys.TXN_OFFSET_COMMIT, [body(group) for group in groups], code_of,
                lambda connection: None if _is_v2(connection) else _LAST_TXN_OFFSET_COMMIT_BEFORE_V2)):
            _ensure_no_error(code_of(answer), "TxnOffsetCommit", f"{place} for group {group!r}")

    def describe_transactions(self, transactional_ids: Sequence[str]) -> list[TransactionDescription]:
        """Return what each id's coordinator tells of it, in order.

        Raises:
            UnsupportedVersionError: A broker is older than 3.0.
            KafkaTimeoutError: Not answered in time.
        """
        def body(transactional_id: str) -> Callable[[int], Mapping[str, Any]]:
            return lambda _version: {"transactional_ids": [transactional_id]}

        answers = self._ask_each(
            TRANSACTION, transactional_ids, ApiKeys.DESCRIBE_TRANSACTIONS,
            [body(transactional_id) for transactional_id in transactional_ids],
            lambda answer: int(answer.body["transaction_states"][0]["error_code"]))
        return [_description(answer.body["transaction_states"][0]) for answer in answers]

    def ask_for_write(self, transactional_id: str, place: TopicPartition) -> int:
        """Ask whether we may write by a transactional id; return the code of AddPartitionsToTxn that says so.

        A partition is offered by a producer id that no producer has. The coordinator looks at what we may do first,
        then whose the transactional id is, and refuses: no transaction is begun or changed, and no producer is fenced,
        as InitProducerId does.

        Args:
            transactional_id: The id.
            place: Any partition that we may write to.

        Returns:
            TRANSACTIONAL_ID_AUTHORIZATION_FAILED where we may not; where we may INVALID_PRODUCER_ID_MAPPING, or
            CONCURRENT_TRANSACTIONS while a transaction is being ended.

        Raises:
            ApiError: The coordinator is not told to us: without Describe on the id, for one.
            KafkaTimeoutError: Not answered in time.
        """
        def code_of(answer: Answer) -> int:
            return next((int(row["partition_error_code"]) for topic in answer.body["results_by_topic_v3_and_below"]
                         for row in topic["results_by_partition"]), int(ErrorCode.UNKNOWN_SERVER_ERROR))

        (answer,) = self._ask_each(
            TRANSACTION, [transactional_id], ApiKeys.ADD_PARTITIONS_TO_TXN,
            [lambda _version: {
                "v3_and_below_transactional_id": transactional_id, "v3_and_below_producer_id": NO_PRODUCER_ID,
                "v3_and_below_producer_epoch": NO_PRODUCER_EPOCH,
                "v3_and_below_topics": [{"name": place.topic, "partitions": [place.partition]}]}],
            # It is an answer here, not a reason to ask again.
            lambda answer: 0 if code_of(answer) == ErrorCode.CONCURRENT_TRANSACTIONS else code_of(answer),
            lambda _connection: _LAST_ADD_PARTITIONS_OF_CLIENTS)
        return code_of(answer)

    def list_transactions(self, *, states: Sequence[str] = (), pattern: str | None = None) -> list[TransactionRow]:
        """Return the transactional ids that the brokers know, by id.

        Args:
            states: Only those in these; all where there are none.
            pattern: Only those that this regular expression matches as a whole: the brokers' RE2 where they can
                (Kafka 4.1 on), else Python's.

        Raises:
            UnsupportedVersionError: A broker is older than 3.0.
            KafkaTimeoutError: Not answered in time.
            ApiError: A broker refuses.
        """
        return sorted(self._repeated(lambda: [
            row for node_id, address in self._brokers().items()  # anew each time: one that has ended is none any more
            for row in self._list(address, node_id, states, pattern)], self._deadline_ms()))

    def topic_id(self, topic: str) -> UUID | None:
        """Return the id of a topic, zero of brokers before 2.8; None where there is no such topic. None is created.

        Raises:
            ApiError: The broker refuses.
            KafkaTimeoutError: Not answered in time.
        """
        deadline_ms = self._deadline_ms()
        for look in range(_LOOKS_FOR_TOPIC):
            if look and self._clock.now_ms() + _PAUSE_S * 1000 >= deadline_ms:
                break
            if look:
                self._clock.wait(new_cell(), _PAUSE_S)
            found = self._repeated(partial(self._topic_id, topic), deadline_ms)
            if found is not None:
                return found
        return None

    # ---- how

    def _ask_each(self, key_type: int, keys: Sequence[str], api_key: ApiKeys,
                  builds: Sequence[Callable[[int], Mapping[str, Any]]], code_of: Callable[[Answer], int],
                  max_version_of: Callable[[Connection], int | None] = lambda _connection: None) -> list[Answer]:
        """Ask the coordinator of each key one question, until each is answered by who may; return the answers."""
        answers: dict[int, Answer] = {}
        deadline_ms = self._deadline_ms()
        last: KafkaError | None = None
        while len(answers) < len(keys):
            pause_s = 0.0
            try:
                self._find(key_type, {keys[index] for index in range(len(keys)) if index not in answers})
            except (*_NO_ANSWER, ApiError) as error:
                if isinstance(error, ApiError) and not error.retriable:
                    raise
                last, pause_s = self._reason(error, last, deadline_ms), _PAUSE_S
            by_address: dict[tuple[str, int], list[int]] = {}
            for index, key in enumerate(keys):
                address = self._coordinators.get((key_type, key))
                if index not in answers and address is not None:
                    by_address.setdefault(address, []).append(index)
            for address, indexes in by_address.items():
                try:
                    connection = self._connection(address)
                    got = self._client.ask_all(connection, api_key, [builds[index] for index in indexes],
                                               max_version=max_version_of(connection))
                except _NO_ANSWER as error:
                    last, pause_s = self._reason(error, last, deadline_ms), _PAUSE_S
                    self._leave(address_text(*address))
                    for index in indexes:
                        self._coordinators.pop((key_type, keys[index]), None)
                    continue
                for index, answer in zip(indexes, got):  # noqa: B905 - one for each
                    try:
                        code = code_of(answer)
                    except IndexError:
                        last, pause_s = RemoteProtocolError(f"{api_key.title}: the answer of {address_text(*address)} "
                                                            f"leaves {keys[index]!r} out"), _PAUSE_S
                        self._coordinators.pop((key_type, keys[index]), None)
                        continue
                    if code in _MOVED:
                        self._coordinators.pop((key_type, keys[index]), None)
                    elif code not in (ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.UNSTABLE_OFFSET_COMMIT):
                        answers[index] = answer
                        continue
                    last = error_for_code(code, api=api_key.title)
                    pause_s = pause_s or (_PAUSE_S if code in _MOVED else _SHORT_PAUSE_S)
            if len(answers) < len(keys):
                what = f"{api_key.title} for {len(keys) - len(answers)} of {len(keys)} keys"
                # Nothing failed where the answer to FindCoordinator left a key out.
                self._pause(pause_s or _PAUSE_S, deadline_ms, what, last)
        return [answers[index] for index in range(len(keys))]

    def _find(self, key_type: int, keys: set[str]) -> None:
        """Find the coordinators of keys that are not known: of all at once where the broker takes several.

        One that there is not now keeps nobody from the others.
        """
        refusal: ApiError | None = None
        wanted = sorted(key for key in keys if (key_type, key) not in self._coordinators)
        while wanted:
            connection = self._any_connection()
            version = connection.versions.latest_usable_version(ApiKeys.FIND_COORDINATOR)
            asked = wanted if version >= FIRST_VERSION_WITH_KEYS else wanted[:1]
            answer = self._client.ask(connection, ApiKeys.FIND_COORDINATOR,
                                      partial(find_coordinator_body, key_type=key_type, keys=asked))
            for found in found_coordinators(answer.body, answer.version, asked[0]):
                if not found.error_code:
                    self._coordinators[key_type, found.key] = found.node.host, found.node.port
                elif refusal is None or refusal.retriable:
                    refusal = error_for_code(found.error_code, message=f"The coordinator of {found.key!r}:",
                                             api=ApiKeys.FIND_COORDINATOR.title)
            wanted = wanted[len(asked):]
        if refusal is not None:
            raise refusal

    def _list(self, address: tuple[str, int], node_id: int, states: Sequence[str],
              pattern: str | None) -> list[TransactionRow]:
        connection = self._connection(address)

        def body(version: int) -> Mapping[str, Any]:
            asked: dict[str, Any] = {"state_filters": list(states), "producer_id_filters": []}
            return {**asked, "transactional_id_pattern": pattern} if version >= 2 else asked

        answer = self._client.ask(connection, ApiKeys.LIST_TRANSACTIONS, body)
        _ensure_no_error(answer.body["error_code"], "ListTransactions", address_text(*address))
        rows = [TransactionRow(row["transactional_id"], row["producer_id"], row["transaction_state"], node_id)
                for row in answer.body["transaction_states"]]
        if pattern is None or answer.version >= 2:
            return rows
        return [row for row in rows if re.fullmatch(pattern, row.transactional_id)]

    def _brokers(self) -> dict[int, tuple[str, int]]:
        body = self._client.ask(self._any_connection(), ApiKeys.METADATA, lambda _version: {"topics": []}).body
        return {broker["node_id"]: (broker["host"], broker["port"]) for broker in body["brokers"]}

    def _topic_id(self, topic: str) -> UUID | None:
        """Return the id, or None, as one broker knows it."""
        answer = self._client.ask(self._any_connection(), ApiKeys.METADATA, lambda _version: {
            "topics": [{"name": topic}], "allow_auto_topic_creation": False})
        for found in answer.body["topics"]:
            code = found["error_code"]
            if code in (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.INVALID_TOPIC_EXCEPTION):
                return None
            if code != ErrorCode.LEADER_NOT_AVAILABLE:
                _ensure_no_error(code, "Metadata", f"topic {topic!r}")
            topic_id: UUID = found.get("topic_id", ZERO_UUID)
            return topic_id
        raise RemoteProtocolError(f"Metadata: the answer leaves the topic {topic!r} out")

    def _repeated(self, question: Callable[[], K], deadline_ms: int) -> K:
        """Ask until it is answered."""
        last: KafkaError | None = None
        while True:
            try:
                return question()
            except (*_NO_ANSWER, ApiError) as error:
                if isinstance(error, ApiError) and not error.retriable:
                    raise
                last = self._reason(error, last, deadline_ms)
                self._pause(_PAUSE_S, deadline_ms, "a question", last)

    def _any_connection(self) -> Connection:
        if self._any is not None and not self._client.is_open(self._any):
            self._leave(self._any.where)
        if self._any is None:
            self._any = self._client.connect_to_any(self._bootstrap)
        return self._any

    def _leave(self, where: str) -> None:
        """Ask others first from here on: a broker that did not answer once would take the time that is left."""
        self._bootstrap = tuple(sorted(self._bootstrap, key=lambda address: address_text(*address) == where))
        if self._any is not None and self._any.where == where:
            self._client.forget(self._any)
            self._any = None

    def _connection(self, address: tuple[str, int]) -> Connection:
        connection = self._connections.get(address)
        if connection is not None and not self._client.is_open(connection):
            self._client.forget(self._connections.pop(address))
            connection = None
        if connection is None:
            connection = self._connections[address] = self._client.connect(*address)
        return connection

    def _deadline_ms(self) -> int:
        """Return when the call that begins now ends; no step of it takes longer."""
        deadline_ms = self._clock.now_ms() + int(self._timeout_s * 1000) if self.until_ms is None else self.until_ms
        self._client.until_ms = deadline_ms
        return deadline_ms

    def _reason(self, error: KafkaError, last: KafkaError | None, deadline_ms: int) -> KafkaError:
        """Return why there is no answer yet: what the end of the time cut short does not say it."""
        return error if last is None or self._clock.now_ms() < deadline_ms else last

    def _pause(self, pause_s: float, deadline_ms: int, what: str, last: KafkaError | None) -> None:
        if deadline_ms - self._clock.now_ms() <= pause_s * 1000:  # nothing could be asked behind it
            raise KafkaTimeoutError(f"{what}: not answered within {self._timeout_s} s{f'; {last}' if last else ''}",
                                    phase="request", outcome="unknown") from last
        self._clock.wait(new_cell(), pause_s)


def _is_v2(connection: Connection) -> bool:
    return connection.versions.finalized_features.level_of("transaction.version") >= TRANSACTIONS_V2


def _description(row: Struct) -> TransactionDescription:
    return TransactionDescription(
        row["transactional_id"], row["error_code"], row["transaction_state"], row["producer_id"],
        row["producer_epoch"], row["transaction_timeout_ms"], row["transaction_start_time_ms"],
        tuple(sorted(TopicPartition(topic["topic"], partition) for topic in row["topics"]
                     for partition in topic["partitions"])))


def _ensure_no_error(code: int, api: str, what: str) -> None:
    if code:
        raise error_for_code(code, message=f"{api} of {what}:", api=api)
