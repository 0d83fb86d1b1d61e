"""The topics of coordinators, made a while after they were asked for. No connection, and a clock that tests move."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from pyproducer.common.error_codes import ErrorCode
from pyproducer.common.errors import ConfigError
from pyproducer.protocol.apis import ApiKeys
from tests.unit.broker.apis.stage import ApiStage

DELAY_MS = 500


SAVE_TOPICS = "pyproducer.broker.cluster.cluster_store.ClusterStore.save_topics"


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[ApiStage]:
    made = ApiStage(tmp_path, {"internal.topic.creation.delay.ms": DELAY_MS})
    yield made
    made.close()


@pytest.fixture
def prompt_stage(tmp_path: Path) -> Iterator[ApiStage]:
    made = ApiStage(tmp_path)
    yield made
    made.close()


def find(stage: ApiStage, key_type: int) -> int:
    (found,) = stage.ask(ApiKeys.FIND_COORDINATOR, 4, {"key_type": key_type, "coordinator_keys": ["g"]})["coordinators"]
    return int(found["error_code"])


def advance(stage: ApiStage, ms: int) -> None:
    stage.state.clock.advance(ms)  # type: ignore[attr-defined]  # the test's own
    stage.state.timer.run_due()


@pytest.mark.parametrize("key_type", [0, 1], ids=["groups", "transactions"])
def test_internal_topic_when_it_could_not_be_made_then_it_is_made_another_time(
        stage: ApiStage, key_type: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """It counted as one that is on its way, so that there was no coordinator any more, with space on the disk again."""
    def refuse(*_arguments: object, **_fields: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(SAVE_TOPICS, refuse)
        assert find(stage, key_type) == ErrorCode.COORDINATOR_NOT_AVAILABLE
        advance(stage, DELAY_MS)
    assert list(stage.state.topics) == []
    assert find(stage, key_type) == ErrorCode.COORDINATOR_NOT_AVAILABLE
    advance(stage, DELAY_MS - 1)
    assert find(stage, key_type) == ErrorCode.COORDINATOR_NOT_AVAILABLE, "one creation is on its way, and no more"
    advance(stage, 1)
    assert find(stage, key_type) == ErrorCode.NONE


@pytest.mark.parametrize(("key_type", "version"), [(0, 0), *((key_type, version) for key_type in (0, 1)
                                                               for version in range(1, 7))])
@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), OSError(24, "Too many open files"),
                                   ConfigError("replication.factor", 3, "there are 2 brokers")], ids=str)
def test_find_coordinator_when_the_internal_topic_cannot_be_made_then_it_is_not_available(
        prompt_stage: ApiStage, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, error: Exception,
        key_type: int, version: int) -> None:
    """Old versions had -1, and others a storage error: neither is one after which a client looks for it again."""
    def refuse(*_arguments: object, **_fields: object) -> None:
        raise error

    keys = {"coordinator_keys": ["g"]} if version >= 4 else {"key": "g"}
    body = {"key_type": key_type, **keys} if version else keys

    def ask() -> tuple[int, int]:
        answer = prompt_stage.ask(ApiKeys.FIND_COORDINATOR, version, body)
        found = answer["coordinators"][0] if version >= 4 else answer
        return int(found["error_code"]), int(found["node_id"])

    with monkeypatch.context() as patched:
        patched.setattr(SAVE_TOPICS, refuse)
        assert ask() == (ErrorCode.COORDINATOR_NOT_AVAILABLE, -1)
    assert str(error.args[-1]) in caplog.text
    assert ask() == (0, 1)
