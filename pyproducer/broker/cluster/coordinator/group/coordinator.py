"""The group coordinator: all classic groups of a cluster, their time, and their records.

A cluster has one, which its brokers share: which broker may speak for a group is a question of who leads the group's
partition of __consumer_offsets (`check`), and moving that leadership moves nothing else.

Road:    group APIs -> [group coordinator] -> group step -> __consumer_offsets, answers
Thread:  any. One lock guards all groups and offsets, and is held while their records are appended, so that the log has
         them in the order in which they happened. Answers are given after it is released.
Source:  Java GroupCoordinatorService, GroupCoordinatorShard (4.1).
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from pyproducer.broker.cluster.config import BrokerConfig
from pyproducer.broker.cluster.coordinator.coordinator_log import KeyValue, append_batch, read_log
from pyproducer.broker.cluster.coordinator.group.classic_group import ClassicGroup
from pyproducer.broker.cluster.coordinator.group.group_records import (
    GroupKey,
    OffsetKey,
    group_record,
    group_tombstone,
    offset_record,
    parse_group,
    parse_key,
    parse_offset,
)
from pyproducer.broker.cluster.coordinator.group.group_step import GroupLimits, GroupStep
from pyproducer.broker.cluster.coordinator.group.member import (
    UNKNOWN_MEMBER_ID,
    JoinAnswer,
    JoinReply,
    JoinRequest,
    LeavingMember,
    SyncAnswer,
    SyncReply,
    SyncRequest,
)
from pyproducer.broker.cluster.coordinator.group.offsets import CommittedOffset, GroupOffsets, Offsets
from pyproducer.broker.cluster.coordinator.group.state import GroupState
from pyproducer.broker.cluster.coordinator.internal_topics import GROUP_METADATA_TOPIC_NAME, InternalTopics
from pyproducer.broker.cluster.coordinator.partition_for import partition_for
from pyproducer.broker.cluster.delayed_operation import DelayedFetches
from pyproducer.broker.cluster.timer import Timer, TimerTask
from pyproducer.broker.storage.descriptors import reason
from pyproducer.broker.storage.log import AppendResult
from pyproducer.common.clock import Clock
from pyproducer.common.cluster import TopicPartition
from pyproducer.common.error_codes import ErrorCode
from pyproducer.record.batch_reader import RecordBatch
from pyproducer.record.control import ControlRecordType, parse_control_record
from pyproducer.record.layout import NO_PRODUCER_EPOCH, NO_PRODUCER_ID

_logger = logging.getLogger(__name__)
_Answers = Sequence[Callable[[], None]]


class MemberView(NamedTuple):
    """A member as DescribeGroups shows it."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    metadata: bytes
    assignment: bytes


class GroupView(NamedTuple):
    """A group as DescribeGroups and ListGroups show it."""

    group_id: str
    state: GroupState
    protocol_type: str
    protocol_name: str
    members: tuple[MemberView, ...]


class GroupCoordinator:
    """Speaks for all groups.

    Args:
        config: Bounds of sessions and groups, retention of offsets.
        clock: The clocks.
        timer: For members that say nothing any more.
        internal_topics: Has the log of groups and offsets.
        delayed_fetches: Those that read this log are woken.
    """

    def __init__(self, config: BrokerConfig, clock: Clock, timer: Timer, internal_topics: InternalTopics,
                 delayed_fetches: DelayedFetches) -> None:
        self._config = config
        self._clock = clock
        self._timer = timer
        self._internal_topics = internal_topics
        self._delayed_fetches = delayed_fetches
        self._limits = GroupLimits(config.number("group.initial.rebalance.delay.ms"), config.number("group.max.size"))
        self._session_bounds_ms = (config.number("group.min.session.timeout.ms"),
                                   config.number("group.max.session.timeout.ms"))
        self._lock = threading.Lock()  # guards everything below
        self._groups: dict[str, ClassicGroup] = {}
        self._offsets = GroupOffsets()
        self._timer_tasks: dict[str, TimerTask] = {}

    def check(self, group_id: str, node_id: int) -> ErrorCode:
        """Return NONE when this broker speaks for the group, else NOT_COORDINATOR."""
        return self._internal_topics.check_coordinator(GROUP_METADATA_TOPIC_NAME, group_id, node_id)

    # ---- membership

    def join(self, request: JoinRequest, reply: JoinReply) -> None:
        """Take a JoinGroup; `reply` is called once, now or when the rebalance is over, on any thread."""
        group_id = request.group_id
        low_ms, high_ms = self._session_bounds_ms
        if not group_id or not low_ms <= request.session_timeout_ms <= high_ms:
            reply(JoinAnswer(ErrorCode.INVALID_SESSION_TIMEOUT if group_id else ErrorCode.INVALID_GROUP_ID,
                             request.member_id))
            return
        with self._lock:
            group = self._groups.get(group_id)
            is_new = group is None and request.member_id == UNKNOWN_MEMBER_ID
            if is_new:
                group = self._groups[group_id] = ClassicGroup(group_id)
            if group is None:
                answers: _Answers = [lambda: reply(JoinAnswer(ErrorCode.UNKNOWN_MEMBER_ID, request.member_id))]
            else:
                # An empty one is written: who joins is when it is stable.
                error_code = self._save(group) if is_new else ErrorCode.NONE
                if error_code is ErrorCode.NONE:
                    step = GroupStep(group, self._limits, self._clock.now_ms())
                    step.join(request, reply)
                    answers = self._finish(step)
                else:
                    self._forget(group_id)
                    answers = [lambda: reply(JoinAnswer(error_code, request.member_id))]
        _give(answers)

    def sync(self, request: SyncRequest, reply: SyncReply) -> None:
        """Take a SyncGroup; `reply` is called once, now or when the leader has assigned, on any thread."""
        if not request.group_id:
            reply(SyncAnswer(ErrorCode.INVALID_GROUP_ID))
            return
        with self._lock:
            group = self._groups.get(request.group_id)
            if group is None:
                answers: _Answers = [lambda: reply(SyncAnswer(ErrorCode.UNKNOWN_MEMBER_ID))]
            else:
                step = GroupStep(group, self._limits, self._clock.now_ms())
                step.sync(request, reply)
                answers = self._finish(step)
        _give(answers)

    def heartbeat(self, group_id: str, member_id: str, group_instance_id: str | None,
                  generation_id: int) -> ErrorCode:
        """Hear a member."""
        with self._lock:
            group = self._groups.get(group_id)
            if group is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
            step = GroupStep(group, self._limits, self._clock.now_ms())
            error_code = step.heartbeat(member_id, group_instance_id, generation_id)
            answers = self._finish(step)
        _give(answers)
        return error_code

    def leave(self, group_id: str, leaving: list[LeavingMember]) -> list[ErrorCode]:
        """Remove members; return a code for each."""
        with self._lock:
            group = self._groups.get(group_id)
            if group is None:
                return [ErrorCode.UNKNOWN_MEMBER_ID] * len(leaving)
            step = GroupStep(group, self._limits, self._clock.now_ms())
            codes = step.leave(leaving)
            answers = self._finish(step)
        _give(answers)
        return codes

    # ---- offsets

    def commit_offsets(self, group_id: str, member_id: str, group_instance_id: str | None, generation_id: int,
                       offsets: Offsets, *, without_group: ErrorCode = ErrorCode.ILLEGAL_GENERATION) -> ErrorCode:
        """Commit offsets of a member, or of one who manages a group without members (generation -1).

        Where a member commits and there is no such group, `without_group` is returned.
        """
        with self._lock:
            error_code = self._validate_commit(group_id, member_id, group_instance_id, generation_id,
                                               is_transactional=False, without_group=without_group)
            if error_code is not ErrorCode.NONE:
                return error_code
            group = self._groups.get(group_id)
            if group is not None:
                GroupStep(group, self._limits, self._clock.now_ms()).committed(member_id, generation_id)
            written = self._write_offsets(group_id, offsets)
            if isinstance(written, ErrorCode):
                return written
            self._offsets.commit(group_id, written)
        return ErrorCode.NONE

    def stage_offsets(self, group_id: str, member_id: str, group_instance_id: str | None, generation_id: int, *,
                      producer_id: int, producer_epoch: int, offsets: Offsets) -> ErrorCode:
        """Write offsets of a transaction, which count when it is committed: TxnOffsetCommit."""
        with self._lock:
            error_code = self._validate_commit(group_id, member_id, group_instance_id, generation_id,
                                               is_transactional=True)
            if error_code is not ErrorCode.NONE:
                return error_code
            written = self._write_offsets(group_id, offsets, producer_id, producer_epoch)
            if isinstance(written, ErrorCode):
                return written
            self._offsets.stage(group_id, producer_id, written)
        return ErrorCode.NONE

    def complete_transaction(self, producer_id: int, *, committed: bool) -> None:
        """End a producer's transaction; to be called when its marker is in __consumer_offsets."""
        with self._lock:
            self._offsets.complete(producer_id, committed)

    def fetch_offsets(self, group_id: str) -> tuple[Offsets, set[TopicPartition]]:
        """Return a group's offsets, and the partitions on which an open transaction has something to say."""
        with self._lock:
            return dict(self._offsets.committed(group_id)), self._offsets.pending_partitions(group_id)

    # ---- administration

    def describe(self, group_id: str) -> GroupView | None:
        """Return how a group is, or None."""
        with self._lock:
            group = self._groups.get(group_id)
            return None if group is None else _view(group)

    def list_groups(self) -> list[GroupView]:
        """Return all groups."""
        with self._lock:
            return [_view(group) for group in self._groups.values()]

    def delete(self, group_id: str) -> ErrorCode:
        """Remove a group without members, and its offsets."""
        with self._lock:
            group = self._groups.get(group_id)
            if group is None:
                return ErrorCode.GROUP_ID_NOT_FOUND
            if group.state is not GroupState.EMPTY:
                return ErrorCode.NON_EMPTY_GROUP
            # Those of open transactions too: a later start would find them, and the marker that commits them.
            records = [offset_record(group_id, topic_partition, None)
                       for topic_partition in self._offsets.partitions(group_id)]
            written = self._append(group_id, [*records, group_tombstone(group_id)])
            if isinstance(written, ErrorCode):
                return written
            self._forget(group_id)
        return ErrorCode.NONE

    def on_topic_deleted(self, topic: str) -> None:
        """Forget what groups have read of a topic that is no more."""
        with self._lock:
            for group_id, topic_partition in self._offsets.remove_topic(topic):
                self._append(group_id, [offset_record(group_id, topic_partition, None)])

    def expire_offsets(self, timestamp_ms: int) -> int:
        """Remove offsets that nobody has needed for offsets.retention.minutes; return how many.

        Those of a group that had members count from when the last one left; others from their commit. A group without
        members and offsets goes, too. Differs from Java: while a group has members, all its offsets stay, also those
        of topics that they do not read any more.

        Args:
            timestamp_ms: The wall clock.
        """
        retention_ms = self._config.number("offsets.retention.minutes") * 60_000
        count = 0
        with self._lock:
            for group in list(self._groups.values()):
                if group.state is not GroupState.EMPTY or group.pending_members:
                    continue
                since_ms = None if group.protocol_type is None else group.saved_at_ms
                committed = self._offsets.committed(group.group_id)
                pending = self._offsets.pending_partitions(group.group_id)
                expired = [topic_partition for topic_partition, offset in committed.items()
                           if topic_partition not in pending and timestamp_ms - (
                               offset.commit_timestamp_ms if since_ms is None else since_ms) >= retention_ms]
                is_unused = len(expired) == len(committed) and not pending
                records = [offset_record(group.group_id, topic_partition, None) for topic_partition in expired]
                if is_unused:
                    records.append(group_tombstone(group.group_id))
                if not records or isinstance(self._append(group.group_id, records), ErrorCode):
                    continue
                for topic_partition in expired:
                    self._offsets.forget(group.group_id, topic_partition)
                if is_unused:
                    self._forget(group.group_id)
                count += len(expired)
        return count

    # ---- memory

    def load(self) -> None:
        """Read __consumer_offsets: what groups and offsets there were. Before anybody asks."""
        partitions = self._internal_topics.partitions(GROUP_METADATA_TOPIC_NAME)
        with self._lock:
            for index, partition in enumerate(partitions):
                for batch in read_log(partition):
                    self._replay(batch, index, len(partitions))
            for group in self._groups.values():
                step = GroupStep(group, self._limits, self._clock.now_ms())
                step.rejoin_all()
                self._schedule(group)

    def _replay(self, batch: RecordBatch, partition_index: int, partition_count: int) -> None:
        for record in batch:
            if batch.is_control:
                marker = parse_control_record(record.key, record.value)
                if marker is not None:
                    self._offsets.complete(
                        batch.producer_id, marker.type is ControlRecordType.COMMIT,
                        covers=lambda group_id: partition_for(group_id, partition_count) == partition_index)
                continue
            key = None if record.key is None else parse_key(record.key)
            if isinstance(key, GroupKey):
                if record.value is None:
                    self._groups.pop(key.group_id, None)
                else:
                    self._groups[key.group_id] = parse_group(key.group_id, record.value)
            elif isinstance(key, OffsetKey):
                self._replay_offset(batch, key, record.value, record.offset)

    def _replay_offset(self, batch: RecordBatch, key: OffsetKey, value: bytes | None, record_offset: int) -> None:
        if value is None:
            self._offsets.forget(key.group_id, key.topic_partition)
            return
        self._groups.setdefault(key.group_id, ClassicGroup(key.group_id))
        offsets = {key.topic_partition: parse_offset(value, record_offset=record_offset)}
        if batch.is_transactional:
            self._offsets.stage(key.group_id, batch.producer_id, offsets)
        else:
            self._offsets.commit(key.group_id, offsets)

    # ---- parts, under the lock

    def _finish(self, step: GroupStep) -> _Answers:
        """Let what is due happen too, write the group when it must be, and set the next alarm."""
        step.expire()
        if step.must_save:
            error_code = self._save(step.group)
            if error_code is not ErrorCode.NONE:
                step.on_not_saved(error_code)
        self._schedule(step.group)
        return step.answers

    def _save(self, group: ClassicGroup) -> ErrorCode:
        group.saved_at_ms = self._clock.timestamp_ms()
        written = self._append(group.group_id, [group_record(group, timestamp_ms=group.saved_at_ms)])
        return written if isinstance(written, ErrorCode) else ErrorCode.NONE

    def _schedule(self, group: ClassicGroup) -> None:
        deadline_ms = group.next_deadline_ms()
        if deadline_ms is None:
            return
        task = self._timer_tasks.get(group.group_id)
        if task is not None and not task.is_cancelled:
            if task.deadline_ms <= deadline_ms:  # it comes early, and sets the next alarm then
                return
            task.cancel()
        self._timer_tasks[group.group_id] = self._timer.schedule(
            max(deadline_ms - self._clock.now_ms(), 1), lambda: self._on_time(group.group_id))

    def _on_time(self, group_id: str) -> None:
        with self._lock:
            group = self._groups.get(group_id)
            if group is None:
                return
            answers = self._finish(GroupStep(group, self._limits, self._clock.now_ms()))
        _give(answers)

    def _forget(self, group_id: str) -> None:
        """Remove a group with all that is kept under its name, which another group may have next."""
        del self._groups[group_id]
        self._offsets.remove_group(group_id)
        task = self._timer_tasks.pop(group_id, None)
        if task is not None:
            task.cancel()

    def _validate_commit(self, group_id: str, member_id: str, group_instance_id: str | None, generation_id: int, *,
                         is_transactional: bool,
                         without_group: ErrorCode = ErrorCode.ILLEGAL_GENERATION) -> ErrorCode:
        group = self._groups.get(group_id)
        if group is None:
            return without_group if generation_id >= 0 else ErrorCode.NONE
        return group.validate_offset_commit(member_id, group_instance_id, generation_id,
                                            is_transactional=is_transactional)

    def _write_offsets(self, group_id: str, offsets: Offsets, producer_id: int = NO_PRODUCER_ID,
                       producer_epoch: int = NO_PRODUCER_EPOCH) -> Mapping[TopicPartition, CommittedOffset] | ErrorCode:
        """Append offsets to the log; return them with their places. The first that are there make the group."""
        if not offsets:
            return offsets
        result = self._append(group_id, [offset_record(group_id, topic_partition, offset)
                                         for topic_partition, offset in offsets.items()], producer_id, producer_epoch)
        if isinstance(result, ErrorCode):
            return result
        if group_id not in self._groups:
            self._groups[group_id] = ClassicGroup(group_id)
        return {topic_partition: offset._replace(record_offset=result.base_offset + number)
                for number, (topic_partition, offset) in enumerate(offsets.items())}

    def _append(self, group_id: str, records: list[KeyValue], producer_id: int = NO_PRODUCER_ID,
                producer_epoch: int = NO_PRODUCER_EPOCH) -> AppendResult | ErrorCode:
        partition = self._internal_topics.partition_of(GROUP_METADATA_TOPIC_NAME, group_id)
        if partition is None:
            return ErrorCode.NOT_COORDINATOR
        try:
            result = append_batch(self._delayed_fetches, partition, records, timestamp_ms=self._clock.timestamp_ms(),
                                  producer_id=producer_id, producer_epoch=producer_epoch)
        except OSError as error:  # as Kafka: the client looks for a coordinator, and comes again
            _logger.error("The group %s was not written to %s: %s", group_id, partition.topic_partition, reason(error))
            return ErrorCode.NOT_COORDINATOR
        if isinstance(result, AppendResult):
            return result
        return (ErrorCode.COORDINATOR_NOT_AVAILABLE if result.error_code is ErrorCode.NOT_ENOUGH_REPLICAS
                else result.error_code)


def _give(answers: _Answers) -> None:
    for answer in answers:
        answer()


def _view(group: ClassicGroup) -> GroupView:
    """Copy what others may see. Before the group is stable, what members say is not settled; assigned is the last."""
    is_stable = group.state is GroupState.STABLE
    members = tuple(MemberView(
        member.member_id, member.group_instance_id, member.client_id, member.client_host,
        member.metadata(group.protocol_name) if is_stable else b"", member.assignment)
        for member in group.members.values())
    return GroupView(group.group_id, group.state, group.protocol_type or "",
                     (group.protocol_name or "") if is_stable else "", members)
