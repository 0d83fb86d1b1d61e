"""Producers without a network for the tests of this folder; see facade.py."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.unit.producer.facade import Facades


@pytest.fixture
def facades(monkeypatch: pytest.MonkeyPatch) -> Iterator[Facades]:
    """Makes producers over scripted brokers; they are closed when the test ends."""
    made = Facades(monkeypatch)
    yield made
    made.close()
