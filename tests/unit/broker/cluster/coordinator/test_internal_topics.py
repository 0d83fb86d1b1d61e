"""The topics of coordinators, made a while after they were asked for. No connection, and a clock that tests move."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from pyproducer.common.error_codes import ErrorCode
from pyproducer.protocol.apis import ApiKeys
from tests.unit.broker.apis.stage import ApiStage

DELAY_MS = 500


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[ApiStage]:
    made = ApiStage(tmp_path, {"internal.topic.creation.delay.ms": DELAY_MS})
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
        patched.setattr("pyproducer.broker.cluster.cluster_store.ClusterStore.save_topics", refuse)
        assert find(stage, key_type) == ErrorCode.COORDINATOR_NOT_AVAILABLE
        advance(stage, DELAY_MS)
    assert list(stage.state.topics) == []
    assert find(stage, key_type) == ErrorCode.COORDINATOR_NOT_AVAILABLE
    advance(stage, DELAY_MS - 1)
    assert find(stage, key_type) == ErrorCode.COORDINATOR_NOT_AVAILABLE, "one creation is on its way, and no more"
    advance(stage, 1)
    assert find(stage, key_type) == ErrorCode.NONE
