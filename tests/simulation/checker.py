"""What must hold of a simulation when it is over, whatever went wrong in it; and how many records that was asked of.

    stored once       told as stored: once in the log of its partition (idempotence, or retries=0), at the offset that
                      was told; at least once without; acks=0: its whole request was written
    not_sent          never in any log
    rejected          never in any log, and a request with it began to be written
    unknown           at most once (idempotence), and a request with it began to be written; or all connections were
                      made anew before that, and nobody in the client knows how far it came; or the producer ended while
                      a connection had the request
    refused by send() never in any log
    in order          the records of a thread in each log, as it sent them (idempotence); those that were stored, by the
                      offsets that were told, also without, where one request is in flight
    as it was heard   who read that a record is stored, before anything was told of it, says that it is
    as it was sent    key, headers and timestamp in the log are those of the record; its partition is that of its key
    rows              each has an outcome, and those of a partition have offsets in their order
    callbacks         once for each record that was accepted, and what they say is what the future says; in a partition
                      in the order in which the answers came, done callbacks, too
    waits             with a limit end by it, not before it and hardly after it, and say `unknown`
    causes            an error code that a record failed with was answered by a broker, for it or for all
    failures          what flush() raises counts the records by outcome and by topic alike
    leader epochs     never step back, in the eyes of a producer that knows topic ids
    metrics           are not negative, and totals grow
    codec             one that fails costs no record: the batch goes as it is
    backoff           a batch is not sent again before retry.backoff.ms; where no time passes inside the client, since
                      the answer, else since it was sent
    memory            what is free of buffer.memory, and what is on its way, are not more than all of it, whenever the
                      application looks and at every third request (workload.py); at the end all of it is free
    retries           a batch is sent once and `retries` times at most
    (patience.py)     not given up too early, and not too late
    (error_facts.py)  errors name the API and the node that answered, the limit, what was tried and how it ended
    (totals.py)       metrics and the lines of the log come to what happened, at the end
    (log_watch.py)    each line at WARNING and above is known, and what it says is so
    (manners.py)      why a connection ended is said in the words of what happened; and what else is seen of connections
    (workload.py)     calls end within their limits; what futures say of themselves; who meets several futures
    (forks.py)        a child process hears at once that the producer is of no use there
    (circles.py)      nobody turns in a circle

What no client could have known is excused record by record; see ledger.py. Lies of brokers are, too: who is told that
a record is stored has done with it.

Source:  ours.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, NamedTuple

from pyproducer import ProducerClosedError, ProducerDeadError
from pyproducer.common.errors import NOT_SENT, REJECTED, UNKNOWN, ApiError, KafkaTimeoutError
from pyproducer.protocol.apis import ApiKeys
from tests.simulation.application import ADDED_IN_LOG, SimulatedFailure
from tests.simulation.faults import Faults
from tests.simulation.ledger import Append, Ledger, identities
from tests.simulation.model_broker import ModelCluster
from tests.simulation.model_topics import LogKey
from tests.simulation.model_transactions import APIS as COORDINATORS
from tests.simulation.patience import Patience
from tests.simulation.plan import Parameters
from tests.simulation.workload import IN_LOOP, OF_A_TRANSACTION, Sent, Workload, is_acknowledged

_FATES = (NOT_SENT, REJECTED, UNKNOWN)
BY_KEY = ("default", "uniform_sticky", "murmur2_random")
# What these answer concerns more than one batch.
_FOR_ALL = (ApiKeys.METADATA, ApiKeys.INIT_PRODUCER_ID, ApiKeys.SASL_AUTHENTICATE, *COORDINATORS)
_BY_NUMBERS = {45, 46, 47, 59}
_POSITIVE = 0x7FFF_FFFF
_SHORTEST = 0.8  # backoffs have a jitter of a fifth
_LONGEST_BACKOFF_MS = 1000  # retry.backoff.max.ms


class Place(NamedTuple):
    """Where a copy of a record is."""

    append: Append
    row: int

    @property
    def log(self) -> LogKey:
        return self.append.log

    @property
    def offset(self) -> int:
        return self.append.stored.base_offset + self.row

    def __repr__(self) -> str:
        topic, topic_id, partition = self.log
        return f"{topic}-{partition} ({str(topic_id)[-4:]}) at {self.offset}"


def _came_late(append: Append, before: Append) -> bool:
    """Whether a batch was sent first, and the network brought it behind another one, of an id that came after its own.

    Where epochs are used up there is another id, and no broker can tell what comes late of the one before.
    """
    return (append.handed is not None and before.handed is not None and append.handed.number < before.handed.number
            and append.stored.producer_id != before.stored.producer_id)


class Checker:
    """Compares what was told with what is in the logs.

    Args:
        workload: What was sent, and told.
        cluster: Whose logs.
        parameters: What was drawn.
        faults: What went wrong.
        ledger: Who could know what.
        checks: Is told how many records each check judged.

    Attributes:
        wrong: What must not be.
    """

    def __init__(self, workload: Workload, cluster: ModelCluster, parameters: Parameters, faults: Faults,
                 ledger: Ledger, checks: Counter[str]) -> None:
        props = parameters.props
        self.wrong = list(workload.complaints)
        self._workload = workload
        self._cluster = cluster
        self._parameters = parameters
        self._faults = faults
        self._ledger = ledger
        self._checks = checks
        self._is_idempotent: bool = props["enable.idempotence"]
        self._is_once = self._is_idempotent or props.get("retries") == 0
        self._acks: str = props["acks"]
        self._places: dict[bytes, list[Place]] = defaultdict(list)
        for append in ledger.appends:
            for index, record in enumerate(identities(append.stored)):
                self._places[record].append(Place(append, index))
        self._codes: dict[bytes, set[int]] = defaultdict(set)
        for handed in ledger.handed:
            for batch, code in [*((taken.batch, taken.code or 0) for taken in handed.taken), *handed.strangers]:
                for record in identities(batch):
                    self._codes[record].add(code)

    def check(self) -> Counter[str]:
        """Check everything; return how many records had which fate."""
        fates: Counter[str] = Counter()
        for record in self._workload.records:
            places = self._places.get(record.value, [])
            self._check_copies(record, places)
            for place in places:
                self._check_content(record, place)
            fates[self._check_fate(record, places)] += 1
            self._check_partition(record, places)
        sent = {record.value for record in self._workload.records}
        self.wrong += [f"{record!r} is in the log, and nobody sent it" for record in self._places if record not in sent]
        if self._is_idempotent:
            self._check_order()
        elif self._parameters.props["max.in.flight.requests.per.connection"] == 1 and self._acks != "0":
            self._check_told_order()
        self._checks.update(self._workload.judged)
        self._check_rows()
        self._check_callback_order("callback order", [
            (record, record.told_number, record.told_metadata) for record in self._workload.records
            if record.told_metadata is not None])
        self._check_callback_order("done callback order", [
            (record, record.done_number, record.future.result(0)) for record in self._workload.records
            if record.done_number and record.future.exception(0) is None])
        self._check_backoff()
        self._check_retries()
        self._check_epochs()
        self._checks["codec"] += self._faults.fired["codec_memory"]
        self._check_application()
        self._check_request_sizes()
        patience = Patience(self._workload, self._parameters, self._faults, self._ledger, self._checks)
        self.wrong += patience.check()
        return fates

    def _check_epochs(self) -> None:
        """Where nothing failed, and nothing was refused by its numbers, a producer has the one epoch it was given."""
        if not self._is_idempotent or any(codes & _BY_NUMBERS for codes in self._codes.values()) or any(
                record.is_cut_off or (record.future is not None and not is_acknowledged(record))
                for record in self._workload.records):
            return
        epochs: dict[int, set[tuple[int, int]]] = defaultdict(set)
        for handed in self._ledger.handed:
            epochs[id(handed.client)].update((taken.batch.producer_id, taken.batch.producer_epoch)
                                             for taken in handed.taken if not taken.batch.is_transactional)
        self._checks["epochs"] += len(epochs)
        self.wrong += [f"nothing failed, and a producer had the epochs {sorted(own)}" for own in epochs.values()
                       if len(own) > 1]

    # -- the logs

    def _check_copies(self, record: Sent, places: list[Place]) -> None:
        if not self._is_once or not places:
            return
        self._checks["stored once"] += 1
        more = len(places) - 1
        if not more:
            return
        excused = self._ledger.excused([place.append for place in places], record.value) if self._is_idempotent else 0
        self._checks["excused: stored twice"] += min(more, excused)
        if more > excused and not self._was_lied_about(record):
            self.wrong.append(f"{record} is {len(places)} times in the log: {places}")

    def _check_content(self, record: Sent, place: Place) -> None:
        stored, index = place.append.stored, place.row
        if record.is_cut_off:
            return
        self._checks["content" if record.row is None else "content of rows"] += 1
        headers = ADDED_IN_LOG if record.value in self._workload.application.added else record.headers
        if record.key != stored.keys[index] or headers != stored.headers[index]:
            self.wrong.append(f"{record} has key {record.key!r} and headers {headers!r}, and in the log "
                              f"{stored.keys[index]!r} and {stored.headers[index]!r}")
        timestamp = stored.timestamps[index]
        if record.timestamp is not None:
            self._checks["timestamp given"] += 1
            if record.timestamp != timestamp:
                self.wrong.append(f"{record} has the timestamp {timestamp} in the log, and was sent with "
                                  f"{record.timestamp}")

    def _lines(self) -> Iterator[tuple[LogKey, list[bytes]]]:
        """The records of each log, in order, each where it was stored first."""
        lines: dict[LogKey, list[bytes]] = defaultdict(list)
        for append in self._ledger.appends:
            for index, record in enumerate(identities(append.stored)):
                if self._places[record][0] == (append, index):
                    lines[append.log].append(record)
        yield from lines.items()

    def _check_order(self) -> None:
        for (topic, topic_id, partition), line in self._lines():
            late = self._ledger.passed((topic, topic_id, partition))
            last_of: dict[tuple[bytes, int], int] = {}
            appends: dict[tuple[bytes, int], Append] = {}  # of the last ones
            for record in line:
                caller, order = _caller_of(record)
                if caller == b"-1":
                    continue  # of callbacks, and nobody knows which of them was first
                # -1: in its place; else among those that the broker passed over when it had forgotten, the last time.
                group = max((number for number, passed in enumerate(late) if record in passed), default=-1)
                if group >= 0 and order > last_of.get((caller, -1), 0):
                    group = -1  # nothing came before it after all
                last = last_of.get((caller, group), 0)
                append = self._places[record][0].append
                is_late = order <= last and _came_late(append, appends[caller, group])
                self._checks["order"] += 1
                self._checks["excused: order"] += group >= 0 or is_late
                if is_late:
                    continue
                appends[caller, group] = append
                if order <= last:
                    self.wrong.append(f"out of order in {topic}-{partition} ({str(topic_id)[-4:]}): {caller.decode()}."
                                      f"{order} is behind {last}")
                last_of[caller, group] = order

    def _check_told_order(self) -> None:
        last_of: dict[tuple[int, LogKey], tuple[int, Sent]] = {}
        for record in self._workload.records:
            told = record.told_metadata
            if told is None or told.offset < 0 or record.caller < 0:
                continue
            logs = {place.log for place in self._places.get(record.value, [])
                    if (place.log[0], place.log[2], place.offset) == (told.topic, told.partition, told.offset)}
            if len(logs) != 1:
                continue  # in both incarnations of its topic, at the same offset
            key = record.caller, logs.pop()
            offset, last = last_of.get(key, (-1, record))
            self._checks["order without idempotence"] += 1
            if told.offset <= offset:
                self.wrong.append(f"{record} is at offset {told.offset} of {told.topic}-{told.partition}, and {last}, "
                                  f"which was sent before it, at {offset}")
            last_of[key] = told.offset, record

    def _check_partition(self, record: Sent, places: list[Place]) -> None:
        partitions = {place.log[2] for place in places}
        if len(partitions) > 1:
            self.wrong.append(f"{record} is in several partitions: {places}")
        if record.is_cut_off:
            return
        if record.partition is not None:
            self._checks["partition given"] += bool(partitions)
            if partitions - {record.partition}:
                self.wrong.append(f"{record} was for partition {record.partition}, and is at {places}")
        elif "partitioner" in self._parameters.powers:
            self._checks["partition chosen by the application"] += bool(partitions)
            if partitions - {self._workload.application.chosen.get(record.value)}:
                self.wrong.append(f"{record} is at {places}, and the application's partitioner chose "
                                  f"{self._workload.application.chosen.get(record.value)}")
        elif record.key is not None and partitions and self._parameters.props["partitioner.class"] in BY_KEY:
            self._checks["partition of the key"] += 1
            number = murmur2(record.key) & _POSITIVE
            counts = self._faults.partition_counts[record.topic]
            if not partitions <= {number % count for count in counts if count}:
                self.wrong.append(f"{record} with the key {record.key!r} is in partition {partitions}; of {counts} "
                                  f"partitions that is none of its")

    # -- what was told

    def _was_forgotten(self, record: Sent, places: list[Place]) -> bool:
        """Whether a broker forgot without a reason who had stored a record: then its answers say that it has not."""
        partitions = {(place.log[0], place.log[2]) for place in places}  # a topic that was made anew is another log
        forgotten = any(record.value in forgetting.doubtful for forgetting in self._ledger.forgettings
                        if (forgetting.topic, forgetting.partition) in partitions
                        and not (forgetting.is_topic_new and self._parameters.has_topic_ids))
        self._checks["excused: told"] += forgotten
        return forgotten

    def _was_lied_about(self, record: Sent) -> bool:
        """Whether a part of a batch that a record was in was called stored, and was not: then the rest was not, either.
        """
        lied = self._ledger.lied
        mates = self._ledger.mates.get(record.value, ()) if lied else ()
        is_lied = any(mate in lied for batch in mates for mate in batch)
        self._checks["excused: lies"] += is_lied
        return is_lied

    def _check_fate(self, record: Sent, places: list[Place]) -> str:
        wrong, checks = self.wrong, self._checks
        if record.refused is not None:
            checks["refused"] += 1
            if places:
                wrong.append(f"{record} was refused ({record.refused!r}), and is in the log: {places}")
            return "refused"
        if record.is_cut_off:
            return "cut off"
        error, offset, partition, timestamp = self._told(record)
        if error is None:
            self._check_acknowledged(record, places, offset, partition, timestamp)
            checks["told as heard"] += self._is_heard(record)
            return "acknowledged"
        outcome = getattr(error, "outcome", NOT_SENT if isinstance(error, SimulatedFailure) else None)
        if outcome not in _FATES:
            wrong.append(f"{record} failed with {error!r}, which says no outcome but {outcome!r}")
            return "failed"
        checks[f"told {outcome}"] += 1
        self._check_cause(record, error)
        if self._is_heard(record):
            wrong.append(f"{record} failed with {error!r}, and before that an answer was read that it is stored")
        if isinstance(error.__cause__, MemoryError) and not isinstance(error, ProducerDeadError):
            wrong.append(f"{record} failed with {error!r}: a codec that fails costs no record, its batch goes as it is")
        if outcome != UNKNOWN and places and not (self._was_forgotten(record, places) or self._was_lied_about(record)):
            wrong.append(f"{record} failed with {error!r}, outcome {outcome}, and is in the log: {places}")
        if outcome != NOT_SENT and record.value not in self._ledger.reached and not self._is_given_up(record, error):
            wrong.append(f"{record} failed with {error!r}, outcome {outcome}, and nothing of any request with it was "
                         "written")
        return str(outcome)

    def _check_cause(self, record: Sent, error: Any) -> None:
        """An error code that a record failed with was answered: for a batch with it, or for what all need.

        What is answered for one part of a batch that was split may decide the others, too.
        """
        if not isinstance(error, ApiError) or isinstance(error, OF_A_TRANSACTION):
            return  # or because another record of its transaction failed
        if error.node_id is None and "has no partition" in str(error):
            return  # nobody says so by a code; error_facts.py has when it may be said
        self._checks["error codes"] += 1
        own = {record.value}.union(*self._ledger.mates.get(record.value, ()))
        codes = {code for mate in own for code in self._codes[mate]}
        if error.code not in codes and not any(
                self._cluster.answered.get((api_key, error.code)) for api_key in _FOR_ALL):
            self.wrong.append(f"{record} failed with {error!r}, code {error.code}, and no broker answered that: for it "
                              f"and those that were with it {sorted(codes)}")

    def _is_given_up(self, record: Sent, error: Any) -> bool:
        """Whether the end of the producer came while a connection had the record's request, and wrote none of it.

        Who is closed, or dies, throws its connections away, and tells unknown of all that they have: it does not ask
        them how far each request came, as it does where a connection ends. And what expires while a connection has its
        request may be written yet: it is known for certain only when that ends.
        """
        is_over = isinstance(error, (ProducerClosedError, ProducerDeadError)) or (
            isinstance(error, KafkaTimeoutError) and "while its first request was not answered" in str(error))
        is_excused = is_over and record.value in self._ledger.mates
        self._checks["excused: given up unwritten"] += is_excused
        return is_excused

    def _is_heard(self, record: Sent) -> bool:
        """Whether the client read that a record is stored, in a turn that went on, before it told anything of it.

        Who is given up by close(timeout), or dies, is told of that by another thread, perhaps just then.
        """
        return record.value in self._ledger.in_time and self._parameters.close_kind not in ("close_soon", "death")

    def _check_acknowledged(self, record: Sent, places: list[Place], offset: int, partition: int,
                            timestamp: int | None) -> None:
        told = f"{record} was acknowledged at {record.topic}-{partition} offset {offset}"
        if self._acks == "0":
            self._checks["acks=0 written"] += 1
            if record.value not in self._ledger.written:
                self.wrong.append(f"{told}, and its request was never written to its end")
            return
        if record.value in self._ledger.lied:
            self._checks["excused: lies"] += 1
            return
        self._checks["told as stored"] += 1
        if not places:
            self.wrong.append(f"{told}, and is in no log")
            return
        at = [place for place in places
              if (place.log[0], place.log[2], place.offset) == (record.topic, partition, offset)]
        if not at and (offset >= 0 or not self._is_idempotent):
            self.wrong.append(f"{told}, and is at {places}")
        elif at and timestamp is not None:
            self._check_timestamp(record, at, timestamp)

    def _check_timestamp(self, record: Sent, at: list[Place], timestamp: int) -> None:
        own = {place.append.stored.timestamps[place.row] for place in at}
        lawful = own
        if record.topic in self._parameters.log_append_time_topics:
            self._checks["timestamp of the log"] += 1
            # A batch that was there before is answered with its own; where it was several times, nobody knows.
            lawful = {place.append.stored.now_ms for place in at}
            if self._was_answered_again(record):
                lawful |= own
        else:
            self._checks["timestamp"] += 1
        if timestamp not in lawful:
            self.wrong.append(f"{record} was told the timestamp {timestamp}, and in the log it has {lawful}")

    def _was_answered_again(self, record: Sent) -> bool:
        return record.value in self._ledger.repeated

    def _told(self, record: Sent) -> tuple[Any, int, int, int | None]:
        wrong = self.wrong
        future = record.future
        if not future.done():
            wrong.append(f"{record} has no outcome")
            return None, -1, -1, None
        if record.row is not None:
            self._checks["rows told"] += 1
            metadata = future._metadata
            row = record.row
            return metadata.errors.get(row), metadata.offsets[row], metadata.partitions[row], metadata.timestamps[row]
        error = future.exception(0)
        if record.done_count is not None:
            self._checks["done callback once"] += 1
            if record.done_count != 1:
                wrong.append(f"the done callback of {record} was called {record.done_count} times")
        if record.has_callback:
            self._checks["callback once"] += 1
            if record.told_count != 1:
                wrong.append(f"the callback of {record} was called {record.told_count} times")
        if error is not None:
            if record.has_callback and (record.told_metadata is not None
                                        or type(record.told_error) is not type(error)):
                wrong.append(f"{record}: its future says {error!r}, its callback was told {record.told_error!r}")
            return error, -1, -1, None
        metadata = future.result(0)
        if record.has_callback and record.told_metadata != metadata:
            wrong.append(f"{record}: its future says {metadata}, its callback was told {record.told_metadata}")
        if record.partition is not None and metadata.partition != record.partition:
            wrong.append(f"{record} was for partition {record.partition}, and went to {metadata.partition}")
        return None, metadata.offset, metadata.partition, metadata.timestamp

    def _check_rows(self) -> None:
        """Rows of one send_batch() have an outcome each, and offsets in their order, but where a broker forgot."""
        rows: dict[int, list[Sent]] = defaultdict(list)
        for record in self._workload.records:
            if record.row is not None and record.future.done():
                rows[id(record.future)].append(record)
        unsure = {(forgetting.topic, forgetting.partition) for forgetting in self._ledger.forgettings}
        for records in rows.values():
            metadata = records[0].future._metadata
            if len(metadata) != len(records) or not metadata.errors.keys() <= set(range(len(records))):
                self.wrong.append(f"{len(records)} rows from {records[0]} on were sent, and {metadata!r} says it of "
                                  f"{len(metadata)} and {list(metadata.errors)}")
                continue
            last_of: dict[int, int] = {}
            for record in records:
                assert record.row is not None
                offset, partition = metadata.offsets[record.row], metadata.partitions[record.row]
                if record.row in metadata.errors:
                    self._checks["rows failed"] += 1
                    if offset != -1:
                        self.wrong.append(f"{record} failed, and was told the offset {offset}")
                elif offset >= 0 and self._is_idempotent and (
                        (record.topic, partition) not in unsure and record.value not in self._ledger.lied):
                    self._checks["rows in order"] += 1
                    if offset <= last_of.get(partition, -1):
                        self.wrong.append(f"{record} was told the offset {offset}, and a row before it "
                                          f"{last_of[partition]}")
                    last_of[partition] = offset

    def _check_callback_order(self, check: str, calls: list[tuple[Sent, int, Any]]) -> None:
        """Callbacks come in the order of the answers, of those that came by one connection, in each partition."""
        last_of: dict[tuple[bool, int, str, int], tuple[int, Sent]] = {}
        heard = self._ledger.confirmed
        told = [call for call in calls if call[0].value in heard]
        told.sort(key=lambda call: (heard[call[0].value].read_number, call[2].offset))
        for record, own_number, metadata in told:
            # Those of an event loop are called in it, later.
            key = record.caller >= IN_LOOP, heard[record.value].connection, metadata.topic, metadata.partition
            number, last = last_of.get(key, (0, record))
            self._checks[check] += 1
            if own_number < number:
                self.wrong.append(f"{check}: that of {record} came before that of {last}, which was answered before it "
                                  f"in {metadata.topic}-{metadata.partition}")
            last_of[key] = own_number, record

    def _check_backoff(self) -> None:
        """Where no newer leader is a reason for haste, a batch is sent again after its backoff."""
        anew = {forgetting.topic for forgetting in self._ledger.forgettings if forgetting.is_topic_new}
        initial_ms = self._parameters.props["retry.backoff.ms"]
        # Where no time passes between what the client reads and what it does of it, its answer counts.
        is_exact = not (self._parameters.tick_rate or self._parameters.hold_rate)
        # By batch: how many attempts were seen (there may have been more), and when the last one was sent, or answered.
        attempts: dict[tuple[bytes, int], tuple[int, int]] = {}
        for handed in self._ledger.handed:
            for taken in handed.taken:
                if taken.topic in anew or taken.leader_epoch:
                    continue
                batch = taken.batch
                key = identities(batch)[0], batch.count
                count, before_ms = attempts.get(key, (0, 0))
                if count:
                    self._checks["backoff"] += 1
                    self._checks["backoff since the answer"] += is_exact
                    shortest_ms = int(min(initial_ms * 2 ** (count - 1), _LONGEST_BACKOFF_MS) * _SHORTEST)
                    if handed.now_ms - before_ms < shortest_ms:
                        self.wrong.append(f"a batch of {batch.count} records with {key[0].split(b' ')[0]!r} was sent "
                                          f"again after {handed.now_ms - before_ms} ms and {count} attempts, not "
                                          f"after {shortest_ms} ms")
                attempts[key] = count + 1, handed.read_ms if is_exact and handed.read_ms else handed.now_ms

    def _check_retries(self) -> None:
        """A batch is not sent more often than once and `retries` times."""
        retries = self._parameters.props.get("retries")
        if retries is None:
            return
        attempts = Counter((identities(batch)[0], batch.count) for handed in self._ledger.handed
                           for batch in self._ledger.batches_of(handed))
        for (first, count), times in attempts.items():
            self._checks["retries"] += times > 1
            if times > retries + 1:
                self.wrong.append(f"a batch of {count} records with {first.split(b' ')[0]!r} was sent {times} times, "
                                  f"and retries is {retries}")

    def _check_application(self) -> None:
        application, powers, checks = self._workload.application, self._parameters.powers, self._checks
        for record in self._workload.records:
            if record.value in application.broken:
                checks["serializer"] += 1
                if record.refused is None and not record.is_cut_off:
                    self.wrong.append(f"the serializer raised for {record}, which was not refused")
            if "interceptor" in powers and record.future is not None:
                checks["interceptor"] += 1
                if application.sent[record.value] != 1:
                    self.wrong.append(f"the interceptor saw {record} {application.sent[record.value]} times")
        if "interceptor" in powers:
            seen = application.sent.total()
            unsure = sum(record.is_cut_off for record in self._workload.records)  # whoever was ended in his send()
            if not seen - unsure <= application.acknowledged <= seen:
                self.wrong.append(f"the interceptor saw {seen} records, and {application.acknowledged} outcomes")

    def _check_request_sizes(self) -> None:
        """No request is larger than max.request.size, unless one batch alone is, or a codec made them larger."""
        if "small_requests" not in self._parameters.powers or self._parameters.props["compression.type"] != "none":
            return
        most_bytes = self._parameters.props["max.request.size"]
        for handed in self._ledger.handed:
            sizes = [len(taken.batch.data) for taken in handed.taken]
            self._checks["request size"] += len(sizes) > 1
            if len(sizes) > 1 and sum(sizes) > most_bytes:
                self.wrong.append(f"a request has batches of {sizes} bytes, and max.request.size is {most_bytes}")


def _caller_of(record: bytes) -> tuple[bytes, int]:
    caller, order = record.split(b" ", 1)[0].split(b".")
    return caller, int(order)


@lru_cache(maxsize=1000)
def murmur2(data: bytes) -> int:
    """Return Java's murmur2 of some bytes, as 32 bits without a sign; Kafka's seed.

    Source: Apache Kafka's Utils.murmur2, written down once more.
    """
    mask, m = 0xFFFF_FFFF, 0x5BD1_E995
    size = len(data)
    h = 0x9747_B28C ^ size
    for start in range(0, size - size % 4, 4):
        k = int.from_bytes(data[start:start + 4], "little") * m & mask
        k = (k ^ k >> 24) * m & mask
        h = (h * m & mask) ^ k
    rest = data[size - size % 4:]
    if rest:
        h = (h ^ int.from_bytes(rest, "little")) * m & mask
    h = (h ^ h >> 13) * m & mask
    return h ^ h >> 15
