"""How long a producer that nobody closed may hold up the end of its process."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from pyproducer.producer import process_life


@pytest.mark.parametrize(("setting_ms", "expected_s"), [(None, 10), (300, 0.3), (10_000, 10), (60_000, 10), (0, 0)])
def test_exit_when_nobody_closed_it_then_the_setting_shortens_the_ten_seconds_and_never_lengthens_them(
        setting_ms: int | None, expected_s: float) -> None:
    runtime: Any = SimpleNamespace(config=SimpleNamespace(pyproducer_close_timeout_ms=setting_ms))
    assert process_life._exit_timeout_s(runtime) == expected_s
