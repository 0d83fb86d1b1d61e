"""A broker's handlers without a network; tests that need other topics make their own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.broker.apis.stage import ApiStage


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[ApiStage]:
    made = ApiStage(tmp_path)
    made.state.topic_life.create_topic("orders", 1, {})
    yield made
    made.close()
