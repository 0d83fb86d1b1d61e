import threading
import uuid

import pytest

from pyproducer.client.metadata import ProducerMetadata
from pyproducer.common.backoff import ExponentialBackoff
from pyproducer.common.clock import SystemClock
from pyproducer.common.cluster import Node, TopicPartition
from pyproducer.common.error_codes import ErrorCode
from pyproducer.common.errors import (
    AuthenticationError,
    AuthorizationError,
    InvalidTopicError,
    KafkaError,
    ProducerClosedError,
    UnknownTopicOrPartitionError,
)
from tests.support.clock import ManualClock
from tests.support.patience import GIVE_UP_S
from tests.unit.client.scripted_cluster import ScriptedCluster, topic_row

BOOTSTRAP = [("boot-1", 9092), ("boot-2", 9093)]


def metadata(*, clock=None, max_age_ms=300_000, max_idle_ms=60_000, backoff_ms=100,
             on_snapshot=lambda _cluster: None) -> ProducerMetadata:
    return ProducerMetadata(refresh_backoff=ExponentialBackoff(backoff_ms, max(backoff_ms, 1000), jitter=0),
                            metadata_max_age_ms=max_age_ms, metadata_max_idle_ms=max_idle_ms,
                            clock=clock or ManualClock(), bootstrap=BOOTSTRAP, on_snapshot=on_snapshot)


def answer(md: ProducerMetadata, now_ms: int, *topics, version: int = 13) -> None:
    """Ask what is to be asked, and answer it."""
    cluster = ScriptedCluster()
    cluster.topics = {row["name"]: row for row in topics}
    request = md.next_request(now_ms)
    md.update(cluster.metadata(request.body()), version, now_ms, request=request)


def test_start_when_nothing_was_asked_then_due_at_once_from_the_bootstrap_nodes():
    md = metadata()
    assert md.time_to_next_update(0) == 0
    assert md.nodes_to_ask() == (Node(-1, "boot-1", 9092), Node(-2, "boot-2", 9093))
    assert md.is_bootstrap
    assert set(md.cluster.nodes) == {-1, -2}
    assert md.next_request(0).body() == {"topics": [], "allow_auto_topic_creation": True}


def test_update_when_answered_then_due_again_after_the_maximum_age():
    md = metadata()
    answer(md, 1000)
    assert md.version() == 1
    assert not md.is_bootstrap
    assert md.time_to_next_update(1000) == 300_000
    assert md.time_to_next_update(301_000) == 0


def test_request_update_when_just_answered_then_due_after_the_backoff():
    md = metadata()
    answer(md, 1000)
    assert md.request_update() == 1
    assert md.time_to_next_update(1000) == 100


def test_failed_update_when_repeated_then_the_backoff_grows_to_its_ceiling():
    md, waits = metadata(), []
    for _ in range(6):
        md.failed_update(0)
        waits.append(md.time_to_next_update(0))
    assert waits == [100, 200, 400, 800, 1000, 1000]
    answer(md, 0)
    md.request_update()
    assert md.time_to_next_update(0) == 100


def test_failed_update_when_answers_came_before_then_the_backoff_begins_and_grows_as_at_the_start():
    md, waits = metadata(), []
    md.failed_update(0)
    md.failed_update(0)
    answer(md, 0)
    for _ in range(3):
        md.request_update()
        md.failed_update(0)
        waits.append(md.time_to_next_update(0))
    assert waits == [100, 200, 400]


def test_add_when_a_topic_is_new_then_asked_alone_and_without_backoff():
    md = metadata()
    answer(md, 1000, topic_row("old", 1))
    assert md.add("new", 1000)
    assert not md.add("new", 1000)
    assert md.time_to_next_update(1000) == 0
    request = md.next_request(1000)
    assert (request.topics, request.is_partial) == (["new"], True)
    answer(md, 1000, topic_row("new", 1))
    assert md.cluster.topics == {"new"}
    assert md.time_to_next_update(1000) == 299_900 + 100


def test_add_when_the_answer_leaves_the_new_topic_out_then_asked_again_after_the_backoff():
    """It stayed new, and who waited for it asked again at once, after each such answer."""
    md, waits = metadata(), []
    md.add("u", 0)
    for _ in range(4):
        request = md.next_request(0)
        assert "u" in request.topics
        md.update(ScriptedCluster().metadata({"topics": []}), 13, 0, request=request)
        md.add("u", 0)
        md.request_update_for_topic("u", 0)
        waits.append(md.time_to_next_update(0))
    assert waits == [100, 200, 400, 800]
    answer(md, 0, topic_row("u", 1))
    assert md.cluster.topics == {"u"}


def test_add_when_a_request_is_under_way_then_asked_again():
    md = metadata()
    md.add("a", 0)
    request = md.next_request(0)
    md.add("b", 0)
    cluster = ScriptedCluster()
    cluster.topics = {"a": topic_row("a", 1)}
    md.update(cluster.metadata(request.body()), 13, 5, request=request)
    assert md.cluster.topics == {"a"}
    assert md.time_to_next_update(5) == 0
    following = md.next_request(5)
    assert (following.topics, following.is_partial) == (["b"], True)


def test_request_update_when_a_new_topic_is_asked_for_then_its_answer_does_not_stand_for_all():
    """A leader that moved would be looked for again only after metadata.max.age.ms."""
    md = metadata()
    md.add("old", 0)
    answer(md, 0, topic_row("old", 1))
    md.add("new", 1000)
    request = md.next_request(1000)
    assert request.is_partial
    md.request_update()
    cluster = ScriptedCluster()
    cluster.topics = {"new": topic_row("new", 1)}
    md.update(cluster.metadata(request.body()), 13, 1000, request=request)
    assert md.time_to_next_update(1000) == 100
    following = md.next_request(1100)
    assert (following.topics, following.is_partial) == (["new", "old"], False)


def test_answers_without_news_when_repeated_then_the_backoff_grows():
    md, now_ms, waits = metadata(), 0, []
    md.add("missing", 0)
    for _ in range(6):
        answer(md, now_ms)
        assert md._topic_errors["missing"] is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        waits.append(md.time_to_next_update(now_ms))
        now_ms += waits[-1]
    assert waits == [100, 200, 400, 800, 1000, 1000]


def test_idle_topics_when_not_used_for_the_maximum_idle_time_then_forgotten():
    md = metadata(max_idle_ms=10_000)
    md.add("idle", 0)
    md.add("used", 0)
    answer(md, 0, topic_row("idle", 1), topic_row("used", 1))
    md.add("used", 9_000)
    md.request_update()
    answer(md, 10_000, topic_row("idle", 1), topic_row("used", 1))
    assert md.topics() == {"used"}
    assert md.cluster.topics == {"used"}
    assert md.add("idle", 20_000)
    assert md.next_request(20_000).topics == ["idle"]


def test_idle_topics_when_never_answered_then_kept():
    md = metadata(max_idle_ms=10_000)
    md.add("waiting", 0)
    assert md.next_request(50_000).topics == ["waiting"]


def test_request_update_for_topic_when_the_topic_was_dropped_meanwhile_then_asked_again():
    md = metadata()
    answer(md, 0)
    assert md.request_update_for_topic("dropped", 5) == 1
    assert md.next_request(500).topics == ["dropped"]


def test_topic_errors_when_refused_for_good_then_raised():
    md = metadata()
    md.add("a/b", 0)
    md.add("secret", 0)
    md.add("fine", 0)
    answer(md, 0, topic_row("a/b", error=17), topic_row("secret", error=29), topic_row("fine", 1))
    with pytest.raises(InvalidTopicError, match="'a/b'"):
        md.ensure_topic_usable("a/b")
    with pytest.raises(AuthorizationError) as caught:
        md.ensure_topic_usable("secret")
    assert caught.value.outcome == "not_sent"
    md.ensure_topic_usable("fine")
    md.ensure_topic_usable("never heard of")


def absence_after(answers: list[tuple[int, int]], *, brokers: int = 2) -> KafkaError | None:
    """What is said of a topic after a row of answers that do not know it, each given by its time and who answered."""
    md, cluster = metadata(), ScriptedCluster(brokers)
    md.add("late", 0)
    for now_ms, node_id in answers:
        request = md.next_request(now_ms)
        md.update(cluster.metadata({"topics": [{"name": "late"}]}), 13, now_ms, request=request, node_id=node_id)
    return md.absence("late", 0, 10_000)


@pytest.mark.parametrize(("brokers", "asked"), [(1, [1]), (2, [1, 2]), (3, [1, 3]), (9, [1, 9])])
def test_absence_when_two_brokers_say_so_or_the_only_one_then_it_is_believed(brokers, asked):
    error = absence_after([(5000 * number, node_id) for node_id in asked for number in range(3)], brokers=brokers)
    assert isinstance(error, UnknownTopicOrPartitionError)
    assert (f"Topic 'late' was not known to {len(asked)} broker(s) for 10000 ms: create it, or correct its name; "
            "without Describe or Write on it, too, brokers say so.") in str(error)


def test_absence_when_one_broker_of_several_says_so_then_it_is_not_believed():
    assert absence_after([(0, 1), (10_000, 1), (20_000, 1)]) is None


def test_absence_when_bootstrap_addresses_say_so_then_they_do_not_count_for_each_may_be_any_broker():
    assert absence_after([(0, -1), (5000, -2), (10_000, -1)]) is None
    assert absence_after([(0, -1), (5000, 1), (10_000, -2)]) is None, "they may be broker 1"
    assert absence_after([(0, -1), (5000, 1), (10_000, 0)]) is not None, "Kafka's own examples begin with broker 0"


def test_await_update_when_the_time_passes_then_false():
    md = metadata(clock=SystemClock())
    assert not md.await_update(md.version(), 20, 0)
    assert not md.await_update(md.version(), 0, 0)


class Waiter:
    """A caller that waits for metadata in a thread of its own."""

    def __init__(self, md: ProducerMetadata, timeout_ms: int = 20_000) -> None:
        self.result: object = None
        self._started = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(md, timeout_ms))
        self._thread.start()
        assert self._started.wait(GIVE_UP_S)
        while not md.waiters._cells:
            if not self._thread.is_alive():
                break

    def _run(self, md: ProducerMetadata, timeout_ms: int) -> None:
        version, fatal_seen = md.version(), md.fatal_count
        self._started.set()
        try:
            self.result = md.await_update(version, timeout_ms, fatal_seen)
        except Exception as error:
            self.result = error

    def end(self) -> object:
        self._thread.join(GIVE_UP_S)
        assert not self._thread.is_alive()
        return self.result


def test_await_update_when_another_thread_updates_then_true():
    md = metadata(clock=SystemClock())
    waiter = Waiter(md)
    answer(md, 0)
    assert waiter.end() is True


def test_await_update_when_closed_then_raises():
    md = metadata(clock=SystemClock())
    waiter = Waiter(md)
    md.close(lambda: ProducerClosedError("closed"))
    assert isinstance(waiter.end(), ProducerClosedError)
    with pytest.raises(ProducerClosedError):
        md.await_update(0, 1000, 0)


def test_fatal_error_when_several_wait_then_each_gets_its_own_exception():
    md = metadata(clock=SystemClock())
    waiters = [Waiter(md), Waiter(md)]
    original = AuthenticationError("certificate unknown")
    md.fatal_error(original)
    errors = [waiter.end() for waiter in waiters]
    assert all(isinstance(error, AuthenticationError) and error.args == original.args for error in errors)
    assert len({id(error) for error in [*errors, original]}) == 3


def test_fatal_error_when_it_was_before_somebody_waited_then_it_says_nothing_of_now():
    md = metadata(clock=SystemClock())
    md.fatal_error(AuthenticationError("no"))
    assert not md.await_update(0, 1, md.fatal_count)
    with pytest.raises(AuthenticationError):
        md.await_update(0, 1000, 0)


def test_fatal_error_when_an_update_came_since_then_forgotten():
    md = metadata(clock=SystemClock())
    md.fatal_error(AuthenticationError("no"))
    answer(md, 0)
    assert not md.await_update(md.version(), 1, 0)


def test_update_leaders_when_newer_then_the_snapshot_has_them():
    md = metadata()
    md.add("t", 0)
    answer(md, 0, topic_row("t", 1, 2, epoch=4))
    before = md.cluster
    updated = md.update_leaders({TopicPartition("t", 0): (3, 5), TopicPartition("t", 1): (1, 4)},
                                [Node(3, "host-3", 9092)])
    assert updated == {TopicPartition("t", 0)}
    assert md.cluster.leader_for(TopicPartition("t", 0)) == Node(3, "host-3", 9092)
    assert before.leader_for(TopicPartition("t", 0)).node_id == 1
    assert Node(3, "host-3", 9092) in md.nodes_to_ask()
    md.request_update()
    answer(md, 1000, topic_row("t", 1, 2, epoch=4))
    assert md.cluster.partition(TopicPartition("t", 0)).leader_epoch == 5


def test_update_when_an_older_answer_comes_late_then_the_newer_leader_stays():
    md = metadata()
    md.add("t", 0)
    answer(md, 0, topic_row("t", 1, epoch=4))
    for epoch, leader in ((6, 2), (5, 1)):
        md.request_update()
        answer(md, 1000, topic_row("t", leader, epoch=epoch))
        assert md.cluster.leader_for(TopicPartition("t", 0)).node_id == 2
        assert md.update_leaders({TopicPartition("t", 0): (1, 6)}) == set()


def test_request_update_when_the_answers_had_no_news_then_the_backoff_begins_anew_only_if_asked_to():
    md = metadata()
    md.add("missing", 0)
    for _ in range(3):
        answer(md, 0)
    assert md.time_to_next_update(0) == 400
    md.request_update()
    answer(md, 0)
    assert md.time_to_next_update(0) == 800
    md.request_update(reset_equivalent_backoff=True)
    assert md.time_to_next_update(0) == 100  # at once, as in Java: a check() waited for what earlier answers had left
    answer(md, 0)
    assert md.time_to_next_update(0) == 100


def test_request_update_when_attempts_failed_then_their_backoff_stays_whoever_asks():
    md = metadata()
    md.add("missing", 0)
    for _ in range(3):
        answer(md, 0)
    for _ in range(2):
        md.failed_update(0)
    md.request_update(reset_equivalent_backoff=True)
    assert md.time_to_next_update(0) == 200


def test_request_update_for_topic_when_nobody_has_asked_for_it_yet_then_it_alone_and_without_backoff():
    md = metadata()
    answer(md, 1000, topic_row("old", 1))
    md.add("new", 1000)
    assert md.request_update_for_topic("new", 1000) == 1
    assert md.time_to_next_update(1000) == 0
    request = md.next_request(1000)
    assert (request.topics, request.is_partial) == (["new"], True)


def test_replace_bootstrap_when_the_cluster_is_known_then_only_later():
    md = metadata()
    md.replace_bootstrap([("canonical", 9092)])
    assert md.nodes_to_ask() == (Node(-1, "canonical", 9092),)
    answer(md, 0)
    known = md.nodes_to_ask()
    md.replace_bootstrap([("other", 9092)])
    assert md.nodes_to_ask() == known


def test_rebootstrap_when_soft_then_partitions_and_leaders_stay():
    md = metadata()
    md.add("t", 0)
    answer(md, 0, topic_row("t", 1))
    md.rebootstrap(forget_leaders=False)
    assert md.is_bootstrap
    assert [node.node_id for node in md.nodes_to_ask()] == [-1, -2, 1, 2]
    assert md.cluster.leader_for(TopicPartition("t", 0)) is not None
    assert md.time_to_next_update(200) == 0


def test_rebootstrap_when_soft_and_a_node_has_the_id_0_then_it_is_asked_as_well():
    """Kafka's own examples number brokers from 0 on."""
    md, cluster = metadata(), ScriptedCluster()
    cluster.nodes = [Node(0, "host-0", 9092), Node(1, "host-1", 9092)]
    request = md.next_request(0)
    md.update(cluster.metadata(request.body()), 13, 0, request=request)
    md.rebootstrap(forget_leaders=False)
    assert [node.node_id for node in md.nodes_to_ask()] == [-1, -2, 0, 1]


def test_rebootstrap_when_soft_and_another_cluster_answers_then_its_lower_epochs_count_at_once():
    """The bootstrap name was moved; its brokers tell no topic ids."""
    md = metadata()
    md.add("t", 0)
    answer(md, 0, rows(1, epoch=9))
    md.rebootstrap(forget_leaders=False)
    answer(md, 500, rows(2, epoch=1))
    assert md.cluster.leader_for(TopicPartition("t", 0)).node_id == 2
    again(md, rows(1, epoch=0))
    assert md.cluster.leader_for(TopicPartition("t", 0)).node_id == 2, "a broker that lags is not another cluster"


def rows(leader, *, epoch, other_leader=1, other_epoch=0):
    """Return a topic of two partitions from a broker that tells no topic ids."""
    row = topic_row("t", leader, other_leader, epoch=epoch, topic_id=uuid.UUID(int=0))
    row["partitions"][1]["leader_epoch"] = other_epoch
    return row


def again(md, row):
    """Ask again for all topics, and answer."""
    md.request_update()
    answer(md, 1000, row)


def test_update_when_answers_without_ids_tell_of_an_older_epoch_again_and_again_then_they_are_believed():
    """A topic was deleted and created again, and the cluster has no topic ids to tell.

    Its leader epochs begin at 0 again, each answer seemed to be of a broker that lags behind, and the old leader was
    asked for ever: no record of that partition was sent until the process was started anew.
    """
    md = metadata()
    md.add("t", 0)
    answer(md, 0, rows(1, epoch=4))
    for _ in range(4):
        again(md, rows(2, epoch=0, other_epoch=1))
        assert md.cluster.leader_for(TopicPartition("t", 0)).node_id == 1
    again(md, rows(2, epoch=0, other_epoch=1))
    assert md.cluster.leader_for(TopicPartition("t", 0)).node_id == 2
    again(md, rows(1, epoch=1, other_epoch=1))
    assert md.cluster.leader_for(TopicPartition("t", 0)).node_id == 1


def test_update_when_a_broker_that_lags_is_contradicted_meanwhile_then_it_is_not_believed():
    md = metadata()
    md.add("t", 0)
    answer(md, 0, rows(1, epoch=4))
    for _ in range(3):
        for _ in range(4):
            again(md, rows(2, epoch=3))
        again(md, rows(1, epoch=4))
        assert md.cluster.leader_for(TopicPartition("t", 0)).node_id == 1


def test_update_when_the_topic_has_the_same_id_then_an_older_epoch_is_never_believed():
    md = metadata()
    md.add("t", 0)
    answer(md, 0, topic_row("t", 1, epoch=4))
    for _ in range(20):
        again(md, topic_row("t", 2, epoch=3))
    assert md.cluster.leader_for(TopicPartition("t", 0)).node_id == 1


def test_rebootstrap_when_hard_then_partitions_stay_without_leaders_and_lower_epochs_count():
    md = metadata()
    md.add("t", 0)
    answer(md, 0, topic_row("t", 1, epoch=9))
    md.rebootstrap(forget_leaders=True)
    assert md.cluster.partition_count_for_topic("t") == 1
    assert md.cluster.leader_for(TopicPartition("t", 0)) is None
    assert set(md.cluster.nodes) == {-1, -2}
    answer(md, 500, topic_row("t", 2, epoch=1))
    assert md.cluster.leader_for(TopicPartition("t", 0)).node_id == 2


def test_rebootstrap_when_whoever_gets_the_snapshot_raises_then_the_start_is_answered_all_the_same():
    """The next answer, of a broker that lags behind, took an epoch back."""
    snapshots = []

    def take(cluster):
        snapshots.append(cluster)
        if len(snapshots) == 4:
            raise MemoryError

    md = metadata(on_snapshot=take)
    md.add("t", 0)
    answer(md, 0, topic_row("t", 1, epoch=5))
    md.rebootstrap(forget_leaders=True)
    with pytest.raises(MemoryError):
        answer(md, 500, topic_row("t", 1, epoch=7))
    answer(md, 1000, topic_row("t", 2, epoch=6))
    assert md.cluster.leader_for(TopicPartition("t", 0)).node_id == 1


def test_describe_failure_when_no_broker_answered_then_each_address_says_why():
    md = metadata()
    md.add("orders", 0)
    md.note_failure("boot-1:9092", "connect: Connection refused")
    md.note_failure("boot-2:9093", "DNS: the host name does not resolve")
    text = md.describe_failure("orders")
    assert text == ("no broker has answered a metadata request yet (bootstrap.servers: boot-1:9092, boot-2:9093); "
                    "boot-1:9092: connect: Connection refused; boot-2:9093: DNS: the host name does not resolve")
    md.forget_failure("boot-1:9092")
    assert md.last_errors() == {"boot-2:9093": "DNS: the host name does not resolve"}


def test_failures_when_brokers_change_their_addresses_then_those_that_left_are_forgotten():
    """Each address that a broker ever had, and that did not work once, was told in all timeouts and kept for ever."""
    md = metadata()
    md.note_failure("OAUTHBEARER", "login: the token endpoint does not answer")
    md.note_failure("boot-2:9093", "DNS: the host name does not resolve")
    cluster = ScriptedCluster()
    for host in ("10.0.0.1", "10.0.0.2", "10.0.0.3"):
        cluster.nodes = [Node(1, host, 9092)]
        request = md.next_request(0)
        md.update(cluster.metadata(request.body()), 13, 0, request=request)
        md.note_failure(f"{host}:9092", "connect: no route to that host")
    assert list(md.last_errors()) == ["OAUTHBEARER", "boot-2:9093", "10.0.0.3:9092"]


def test_describe_failure_when_the_topic_has_an_error_then_code_and_sentence():
    md = metadata()
    md.add("orders", 0)
    answer(md, 0)
    assert md.describe_failure("orders").startswith(
        "the broker answered UNKNOWN_TOPIC_OR_PARTITION (3) for topic 'orders': ")
    assert "no answer so far tells of topic 'other'" in md.describe_failure("other")


def test_describe_failure_when_the_topic_is_known():
    md = metadata()
    md.add("t", 0)
    answer(md, 0, topic_row("t", 1))
    assert "is known, with 1 partitions" in md.describe_failure("t")


def test_note_failure_when_repeated_then_no_news():
    md = metadata()
    assert md.note_failure("a:1", "refused")
    assert not md.note_failure("a:1", "refused")
    assert md.note_failure("a:1", "timeout")


def test_failure_when_another_node_of_its_address_answers_then_only_a_bootstrap_address_works_again():
    """The first connection, to a bootstrap address, may go on for long after new ones to its broker are refused."""
    md = metadata()
    for node_id, forgotten_by in ((1, {1}), (-1, {-1, 1, 2})):
        for other in (-1, 1, 2):
            md.note_failure("boot-1:9092", "TLS: refused", node_id)
            md.forget_failure("boot-1:9092", other)
            assert (md.last_errors() == {}) == (other in forgotten_by)
    md.note_failure("boot-1:9092", "TLS: refused", 1)
    md.forget_failure("boot-1:9092")
    assert md.last_errors() == {}


def test_failure_when_its_node_moved_away_then_it_is_forgotten_although_a_bootstrap_address_stays():
    md = metadata()
    cluster = ScriptedCluster()
    for host, told in (("boot-1", ["boot-1:9092"]), ("elsewhere", [])):
        cluster.nodes = [Node(1, host, 9092)]
        request = md.next_request(0)
        md.update(cluster.metadata(request.body()), 13, 0, request=request)
        if host == "boot-1":
            md.note_failure("boot-1:9092", "TLS: refused", 1)
        assert list(md.last_errors()) == told


@pytest.mark.parametrize("longest", [{"max_age_ms": 2**63 - 1}, {"max_idle_ms": 2**63 - 1}, {"backoff_ms": 2**63 - 1}],
                         ids=lambda options: next(iter(options)))
def test_settings_when_they_are_the_longest_time_then_a_new_topic_is_asked_for_at_once(longest):
    """With a backoff of Java's Long.MAX_VALUE the first topic was never asked for: "long ago" was not long enough."""
    md = metadata(**longest)
    assert md.time_to_next_update(0) == 0
    answer(md, 1000)
    md.add("t", 1001)
    assert md.time_to_next_update(1001) == 0
    answer(md, 1002, topic_row("t", 1))
    assert md.cluster.partition_count_for_topic("t") == 1
    assert md.time_to_next_update(1002) > 0


def test_await_update_when_the_time_is_the_longest_then_the_update_ends_it():
    md = metadata(clock=SystemClock())
    waiter = Waiter(md, 2**63 - 1)
    answer(md, 0)
    assert waiter.end() is True
