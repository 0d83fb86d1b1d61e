"""Alterations of one resource's settings that come at the same time."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from pyproducer.protocol.apis import ApiKeys
from tests.unit.broker.apis.stage import ApiStage


class LockThatIsTakenLate:
    """Lets something else happen before it is taken for the first time."""

    def __init__(self, lock: threading.Lock, meanwhile: Callable[[], None]) -> None:
        self._lock = lock
        self._meanwhile: Callable[[], None] | None = meanwhile

    def __enter__(self) -> None:
        meanwhile, self._meanwhile = self._meanwhile, None
        if meanwhile is not None:
            meanwhile()
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()


@pytest.mark.parametrize(("kind", "name", "keys"), [
    (2, "orders", ("retention.ms", "retention.bytes")), (4, "", ("log.retention.ms", "log.retention.bytes")),
    (4, "1", ("log.retention.ms", "log.retention.bytes"))])
def test_incremental_when_two_alter_different_settings_at_once_then_none_is_lost(
        stage: ApiStage, kind: int, name: str, keys: tuple[str, str]) -> None:
    state = stage.state
    topic = state.topics.find("orders")
    assert topic is not None

    def alter(key: str) -> None:
        (answer,) = stage.ask(ApiKeys.INCREMENTAL_ALTER_CONFIGS, 1, {"validate_only": False, "resources": [
            {"resource_type": kind, "resource_name": name, "configs": [
                {"name": key, "config_operation": 0, "value": "1000000"}]}]})["responses"]
        assert answer["error_code"] == 0

    state.store.lock = LockThatIsTakenLate(state.store.lock, lambda: alter(keys[1]))  # type: ignore[assignment]
    alter(keys[0])
    assert (topic.config.overrides if kind == 2 else state.dynamic_configs.of(name)) == dict.fromkeys(keys, "1000000")
