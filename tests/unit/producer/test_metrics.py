"""All producers of a process in one view: who is in it, and under which name."""

from __future__ import annotations

import threading

import pytest

from pyproducer import all_metrics
from pyproducer.accumulator.life import Life
from pyproducer.producer import process_life
from pyproducer.producer.wiring import ProducerRuntime
from tests.support.patience import GIVE_UP_S
from tests.unit.producer.facade import Facade, Facades


def named(client_id: str) -> dict[str, float]:
    """Return how many records each producer of a client.id has sent, by the name that readers see."""
    return {metric.tags["client-id"]: metric.value for metric in all_metrics()
            if metric.name == "record-send-total" and metric.group == "producer-metrics"
            and metric.tags["client-id"].partition("#")[0] == client_id}


def twin(facades: Facades, count: int) -> Facade:
    """Make a producer of the one client.id, which has sent so many records."""
    facade = facades(**{"client.id": "twin"})
    for _ in range(count):
        facade.producer.send("t", b"v", partition=0).result(GIVE_UP_S)
    return facade


def test_names_when_the_first_of_a_client_id_is_closed_then_the_others_keep_theirs(facades: Facades) -> None:
    """They were counted anew at each look: the second's numbers went on in the series of the first."""
    first, _, _ = (twin(facades, count) for count in (1, 2, 3))
    assert named("twin") == {"twin": 1, "twin#2": 2, "twin#3": 3}
    first.producer.close()
    assert named("twin") == {"twin#2": 2, "twin#3": 3}
    twin(facades, 4)
    assert named("twin") == {"twin#2": 2, "twin#3": 3, "twin": 4}


def test_names_when_close_has_returned_and_the_thread_is_not_quite_gone_then_the_name_is_free(
        facades: Facades, monkeypatch: pytest.MonkeyPatch) -> None:
    forget, may_forget = process_life.forget, threading.Event()

    def forget_late(life: Life) -> None:
        assert may_forget.wait(GIVE_UP_S), "nobody let it go on"
        forget(life)

    monkeypatch.setattr(process_life, "forget", forget_late)
    try:
        twin(facades, 1).producer.close()
        assert named("twin") == {}
        twin(facades, 2)
    finally:
        may_forget.set()
    assert named("twin") == {"twin": 2}


def test_names_when_close_gave_up_on_a_callback_that_blocks_then_the_name_is_free(
        facades: Facades, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its numbers were there until the callback returned, perhaps never, and the next producer was twin#2."""
    monkeypatch.setattr(process_life, "_FORCED_CLOSE_SECONDS", 0)
    began, may_end = threading.Event(), threading.Event()

    def block(_metadata: object, _error: object) -> None:
        began.set()
        assert may_end.wait(GIVE_UP_S), "nobody let it go on"

    first = twin(facades, 1)
    try:
        first.producer.send("t", b"v", partition=0, on_completion=block)
        assert began.wait(GIVE_UP_S)
        first.producer.close(0)
        assert named("twin") == {}
        twin(facades, 3)
    finally:
        may_end.set()
    assert named("twin") == {"twin": 3}


def test_names_when_a_client_id_looks_like_one_with_a_number_then_each_has_its_own(facades: Facades) -> None:
    made = [facades(**{"client.id": client_id}) for client_id in ("like#2", "like", "like")]
    assert [one.producer._runtime.shown_as for one in made] == ["like#2", "like", "like#3"]


def test_names_when_producers_are_made_at_once_then_each_has_its_own(facades: Facades) -> None:
    runtimes = [facades(**{"client.id": "crowd"}).producer._runtime for _ in range(8)]
    for runtime in runtimes:
        process_life.hide(runtime)
    gate = threading.Barrier(len(runtimes))

    def show(runtime: ProducerRuntime) -> None:
        gate.wait(GIVE_UP_S)
        process_life.show(runtime)

    threads = [threading.Thread(target=show, args=(runtime,)) for runtime in runtimes]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(GIVE_UP_S)
    assert sorted(runtime.shown_as for runtime in runtimes) == ["crowd", *(f"crowd#{number}" for number in range(2, 9))]


def test_names_when_the_process_is_forked_then_the_parents_are_not_the_childs(
        facades: Facades, monkeypatch: pytest.MonkeyPatch) -> None:
    twin(facades, 1)
    for table in ("runtimes", "owners"):  # of whose producers a fork is told
        monkeypatch.setattr(process_life, table, {})
    monkeypatch.setattr(process_life, "_lives", set())
    before = dict(process_life.shown)
    assert named("twin")
    try:
        process_life.mark_forked()
        assert not named("twin")
    finally:
        process_life.shown.update(before)
