"""Who could know what, and when: what the client handed to its connections, what brokers took of it, what it heard.

A checker that only compares outcomes with logs must excuse whatever a broker that forgets makes possible. This one
knows for each record whether any client could have told:

    twice      A copy of a record is excused where a broker had stored the record before it forgot the producer (or the
               topic was made anew), and no answer had said so to the client by then; or where the copy came with a
               request that had left the client before. Nothing else excuses one.
    order      A broker that forgot takes any number as the first, and so does one that lies about a producer's first
               batch. The records that it had not yet, and that were sent with lower numbers, may end behind what it
               took; they are named at that very moment.

A broker that forgets after a silence, longer than the client's own, excuses nothing: nothing of it is noted here.

Source:  ours; producer.id.expiration.ms and KIP-360 are why brokers forget.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple

from pyproducer.protocol.apis import ApiKeys
from tests.simulation.model_batch import MAX_SEQUENCE, NO_PRODUCER_ID, ProducedBatch
from tests.simulation.model_broker import ModelCluster, read_request
from tests.simulation.model_log import ModelPartition, StoredBatch, Witness
from tests.simulation.model_topics import LogKey

_BY_ID_FROM = 13  # of Produce
_REFUSED_BY_NUMBERS = frozenset({45, 47, 59})  # id and epoch included
_HALF_OF_ALL = 2**30
# Stored now, or before: what a client hears of a record that it need not send again.
_STORED_CODES = (0, 46)


def identity(value: bytes | None, key: bytes | None) -> bytes:
    """Return what tells a record from all others: its value; its key where that is null."""
    return value if value is not None else key or b""


def identities(batch: ProducedBatch | StoredBatch) -> list[bytes]:
    """Return those of a batch's records, in order."""
    if None in batch.values:
        return [identity(value, key) for value, key in zip(batch.values, batch.keys, strict=True)]
    values: Any = batch.values
    return list(values)


class Taken(NamedTuple):
    """One batch of a request that arrived.

    Attributes:
        code: What was answered; None for nothing.
        stored: The batch in the log, if it was not there before.
        leader_epoch: Of the partition, then.
    """

    topic: str
    partition: int
    batch: ProducedBatch
    code: int | None
    stored: StoredBatch | None
    leader_epoch: int


class Handed:
    """A Produce request that the client handed to a connection.

    Attributes:
        number: When, among all that is noted.
        now_ms: When.
        data: Its bytes, without the size.
        connection: By its number.
        node_id: Whose connection it was.
        client: Who did.
        is_begun, is_whole: Whether any of it was written, and all of it.
        is_torn: Whether all connections were made anew before that: nobody in the client knows how far it came.
        has_arrived: Whether a broker got it.
        taken: Its batches, as the broker saw them; but for those of partitions that it had not.
        strangers: These, and what was answered.
        read_number: When the client read its answer; 0 for never.
        read_ms: The time then.
        ends: How its connection ended before that, or may have: by the client, which had waited for request.timeout.ms
            ("late") or not ("closed"), or by the peer ("ended"); none where the answer came first.
    """

    __slots__ = ("_contents", "client", "connection", "data", "ends", "has_arrived", "is_begun", "is_torn", "is_whole",
                 "node_id", "now_ms", "number", "read_ms", "read_number", "strangers", "taken")

    def __init__(self, number: int, now_ms: int, data: bytes, connection: int, node_id: int, client: object) -> None:
        self.client = client
        self.is_begun = False
        self.is_torn = False
        self.number = number
        self.now_ms = now_ms
        self.data = data
        self.connection = connection
        self.node_id = node_id
        self.is_whole = False
        self.has_arrived = False
        self.taken: list[Taken] = []
        self.strangers: list[tuple[ProducedBatch, int]] = []
        self.read_number = 0
        self.read_ms = 0
        self.ends: tuple[str, ...] = ()
        self._contents: list[tuple[Any, int, ProducedBatch]] | None = None

    @property
    def version(self) -> int:
        """Of Produce."""
        return int.from_bytes(self.data[2:4], "big")

    def contents(self) -> list[tuple[Any, int, ProducedBatch]]:
        """Read what is in it: (topic or its id, partition, batch); also where no broker ever did."""
        if self._contents is None:
            version, body = read_request(ApiKeys.PRODUCE, self.data)
            self._contents = [(topic["topic_id"] if version >= _BY_ID_FROM else topic["name"], row["index"],
                               ProducedBatch(bytes(row["records"]), version,
                                             is_transactional=body["transactional_id"] is not None))
                              for topic in body["topic_data"] for row in topic["partition_data"]]
        return self._contents


class Frame(bytes):
    """A request on its way, or its answer, that knows as what the request was handed over."""

    handed: Handed | None = None


class Append(NamedTuple):
    """A batch that a log took.

    Attributes:
        number: When.
        log: Which.
        handed: As what it was sent; None where nobody noted it.
    """

    number: int
    log: LogKey
    stored: StoredBatch
    handed: Handed | None


class Forgetting:
    """A broker forgot a producer in a partition, or the topic was made anew, or it only said that it stored the first.

    Attributes:
        number: When.
        producer_id: Whom; None for all.
        log: Where producers are not known from then on.
        is_topic_new: Whether it is another log than before.
        is_lie: Whether the broker never knew the producer: no reason for a second copy.
        doubtful: Records that were stored by then, and nobody had told the client.
        passed: Records that were on their way and not stored, when the broker took later ones as its first; also those
            of an ended connection that it took as its first, in an epoch that was over.
    """

    __slots__ = ("begun", "doubtful", "is_lie", "is_topic_new", "log", "number", "partition", "passed", "producer_id",
                 "topic")

    def __init__(self, number: int, log: LogKey, producer_id: int | None, *, is_topic_new: bool = False,
                 is_lie: bool = False, doubtful: frozenset[bytes] = frozenset()) -> None:
        self.number = number
        self.topic, _, self.partition = log
        self.log = log
        self.producer_id = producer_id
        self.is_topic_new = is_topic_new
        self.is_lie = is_lie
        self.doubtful = doubtful
        self.passed: set[bytes] = set()
        self.begun: set[int] = set()  # producers of whom it has stored something since

    def concerns(self, producer_id: int) -> bool:
        """Whether it is a producer's."""
        return self.producer_id is None or self.producer_id == producer_id


class Ledger(Witness):
    """Notes it all.

    Args:
        is_told: Whether the application was told of a record, by its identity, that it is stored or failed.
        is_awaited: Whether it has the record's own future, and was told nothing.

    Attributes:
        handed: The Produce requests, in order.
        appends: What logs took, in order.
        forgettings: In order; lies about a producer's first batch among them.
        confirmed: Records of which the client heard that they are stored, and by which answer first.
        in_time: Those of which it did so before the application was told anything: that is what it must be told.
        lied: Records that a broker called stored, and did not store.
        is_lying: Whether it does so with the batch that comes now.
        repeated: Records that were there when they came again.
        blamed: Records of batches that were refused because of some: the code, and what was said of this one.
        arriving: The request that a broker gets just now.
    """

    cluster: ModelCluster

    def __init__(self, is_told: Callable[[bytes], bool], is_awaited: Callable[[bytes], bool]) -> None:
        self.handed: list[Handed] = []
        self.appends: list[Append] = []
        self.forgettings: list[Forgetting] = []
        self.confirmed: dict[bytes, Handed] = {}
        self.in_time: set[bytes] = set()
        self.lied: set[bytes] = set()
        self.is_lying = False
        self.repeated: set[bytes] = set()
        self.blamed: dict[bytes, tuple[int, str | None]] = {}
        self.arriving: Handed | None = None
        self._is_told = is_told
        self._is_awaited = is_awaited
        self._number = 0
        self._open: defaultdict[LogKey, list[Forgetting]] = defaultdict(list)
        self._read: defaultdict[object, list[tuple[Handed, list[bytes]]]] = defaultdict(list)

    def next_number(self) -> int:
        """Return when something happens, as a number: the next one."""
        self._number += 1
        return self._number

    # -- the client's side

    def on_handed(self, data: bytes, connection: int, node_id: int, now_ms: int, client: object = None) -> Handed:
        """Note a request that goes to a connection."""
        handed = Handed(self.next_number(), now_ms, data, connection, node_id, client)
        self.handed.append(handed)
        return handed

    def on_renewed(self, client: object) -> None:
        """All connections of a client are made anew."""
        for handed in self.handed:
            if handed.client is client and not handed.is_whole:
                handed.is_torn = True

    def on_read(self, reader: object, handed: Handed, now_ms: int) -> None:
        """The last byte of an answer was read; that it was handled as well is sure at the reader's next poll."""
        handed.read_number = self.next_number()
        handed.read_ms = now_ms
        stored = [record for taken in handed.taken if taken.code in _STORED_CODES
                  for record in identities(taken.batch)]
        self._read[reader].append((handed, [record for record in stored if self._is_awaited(record)]))

    def on_poll(self, reader: object) -> None:
        """Whoever read answers begins to poll again, so he handled them."""
        read = self._read.pop(reader, None)
        if read is not None:
            for handed, awaited in read:
                self.in_time.update(awaited)
                for taken in handed.taken:
                    if taken.code in _STORED_CODES:
                        for record in identities(taken.batch):
                            self.confirmed.setdefault(record, handed)

    # -- the brokers' side

    def on_batch(self, partition: ModelPartition, batch: ProducedBatch, stored: StoredBatch | None,
                 code: int | None) -> None:
        handed = self.arriving
        if handed is not None:
            handed.taken.append(Taken(partition.topic, partition.index, batch, code, stored, partition.leader_epoch))
        if self.is_lying:
            self.is_lying = False
            self.lied.update(identities(batch))
            if batch.producer_id not in partition.producers:  # what comes behind it is the first of this producer's
                self._add(Forgetting(self.next_number(), (partition.topic, partition.topic_id, partition.index),
                                     batch.producer_id, is_lie=True))
        elif stored is None and code == 0:
            self.repeated.update(identities(batch))
        if stored is None:
            return
        log = partition.topic, partition.topic_id, partition.index
        append = Append(self.next_number(), log, stored, handed)
        if batch.producer_id != NO_PRODUCER_ID:
            for forgetting in self._open.get(log, ()):
                if forgetting.concerns(batch.producer_id) and batch.producer_id not in forgetting.begun:
                    forgetting.begun.add(batch.producer_id)
                    passed = set(self._sent_before(append))
                    # By its id nobody sends to a new topic without having learned of it; but who waits for a new epoch,
                    # because one before it was refused for good, is passed by one in doubt, which keeps its numbers.
                    if forgetting.is_topic_new and handed is not None and handed.version >= _BY_ID_FROM:
                        passed &= self._refused_by_numbers
                    forgetting.passed.update(passed)
                    if handed is not None and handed.ends and self._has_later_epoch(append):
                        forgetting.passed.update(identities(batch))  # nobody there knows any more that it is too late
        self.appends.append(append)

    def on_blamed(self, batch: ProducedBatch, code: int, record_errors: Sequence[Mapping[str, Any]]) -> None:
        if self.arriving is not None and self.arriving.ends:
            return  # it came late, and nobody hears that
        said = {row["batch_index"]: row["batch_index_error_message"] for row in record_errors}
        for index, record in enumerate(identities(batch)):
            self.blamed[record] = code, said.get(index)

    def on_stranger(self, batch: ProducedBatch, code: int) -> None:
        if self.arriving is not None:
            self.arriving.strangers.append((batch, code))

    def on_forget(self, topic: str, partition: int, producer_id: int) -> None:
        """A broker is about to forget a producer."""
        self._forget((topic, self.cluster.topic_id(topic), partition), producer_id, None)

    def on_recreated(self, topic: str, before: Iterable[ModelPartition]) -> None:
        """A topic was made anew; its partitions were these before."""
        for partition in before:
            self._forget((topic, self.cluster.topic_id(topic), partition.index), None, partition)

    def _forget(self, log: LogKey, producer_id: int | None, before: ModelPartition | None) -> None:
        topic, _, index = log
        batches = (self.cluster.partition(topic, index) if before is None else before).batches
        doubtful = frozenset(record for stored in batches if producer_id in (None, stored.producer_id)
                             for record in self._undecided(stored))
        self._add(Forgetting(self.next_number(), log, producer_id, is_topic_new=before is not None, doubtful=doubtful))

    def _add(self, forgetting: Forgetting) -> None:
        self.forgettings.append(forgetting)
        self._open[forgetting.log].append(forgetting)

    def _undecided(self, batch: ProducedBatch | StoredBatch) -> Iterator[bytes]:
        for record in identities(batch):
            if record not in self.confirmed and not self._is_told(record):
                yield record

    @property
    def _refused_by_numbers(self) -> set[bytes]:
        """Those of which a broker said that some before them are missing, or that their epoch is none: they wait."""
        return {record for handed in self.handed for taken in handed.taken if taken.code in _REFUSED_BY_NUMBERS
                for record in identities(taken.batch)}

    def _sent_before(self, append: Append) -> Iterator[bytes]:
        """The records that have lower numbers than a batch that was taken, are not in its log, and are undecided."""
        first = append.stored
        topic, _, index = append.log
        in_log = {record for stored in self.cluster.logs[append.log] for record in identities(stored)}
        for handed in self.handed:
            for place, partition, batch in handed.contents():
                if (partition == index and batch.producer_id == first.producer_id
                        and batch.producer_epoch == first.producer_epoch
                        and 0 < ((first.base_sequence - batch.base_sequence) & MAX_SEQUENCE) < _HALF_OF_ALL
                        and self._names(place, topic)):
                    for record in self._undecided(batch):
                        if record not in in_log:
                            yield record

    def _has_later_epoch(self, append: Append) -> bool:
        """Whether its log has something in a later epoch of the same producer."""
        own = append.stored
        return any(stored.producer_id == own.producer_id and stored.producer_epoch > own.producer_epoch
                   for stored in self.cluster.logs[append.log])

    def _names(self, place: Any, topic: str) -> bool:
        return bool(place == topic) or any(name == topic and topic_id == place
                                           for name, topic_id, _ in self.cluster.logs)

    # -- afterwards

    @property
    def unheard(self) -> list[Handed]:
        """Those whose answer was read, and whose reader has not polled again: a torn turn lost it."""
        return [handed for read in self._read.values() for handed, _ in read]

    @cached_property
    def mates(self) -> dict[bytes, list[list[bytes]]]:
        """All records that were handed to a connection, each with the batches that it was in."""
        mates: dict[bytes, list[list[bytes]]] = defaultdict(list)
        for handed in self.handed:
            for batch in self.batches_of(handed):
                records = identities(batch)
                for record in records:
                    mates[record].append(records)
        return dict(mates)

    @cached_property
    def reached(self) -> set[bytes]:
        """All records whose request was written, or began to be, or nobody in the client knows how far it came."""
        return {record for handed in self.handed if handed.is_begun or handed.is_torn
                for batch in self.batches_of(handed) for record in identities(batch)}

    @cached_property
    def written(self) -> set[bytes]:
        """All records whose request was written to its end."""
        return {record for handed in self.handed if handed.is_whole
                for batch in self.batches_of(handed) for record in identities(batch)}

    @staticmethod
    def batches_of(handed: Handed) -> list[ProducedBatch]:
        """Return what is in a request, whether or not it arrived."""
        if handed.taken and not handed.strangers:
            return [taken.batch for taken in handed.taken]
        return [batch for _, _, batch in handed.contents()]

    @staticmethod
    def first_of(batch: ProducedBatch) -> bytes:
        """Return what tells a batch's first record from all others."""
        return identity(batch.values[0], batch.keys[0])

    def excused(self, copies: list[Append], record: bytes) -> int:
        """Return how many copies of a record beyond the first no client could have prevented."""
        topic, _, partition = copies[0].log
        forgettings = [forgetting for forgetting in self.forgettings
                       if (forgetting.topic, forgetting.partition) == (topic, partition) and not forgetting.is_lie]
        blind = sum(any(copy.handed is not None and copy.handed.number < forgetting.number < copy.number
                        for forgetting in forgettings if forgetting.concerns(copy.stored.producer_id))
                    for copy in copies[1:])
        return blind + sum(record in forgetting.doubtful for forgetting in forgettings)

    def passed(self, log: LogKey) -> list[set[bytes]]:
        """Return the records of a log that may be behind later ones, by the forgetting that makes it so."""
        return [forgetting.passed for forgetting in self.forgettings if forgetting.log == log and forgetting.passed]
