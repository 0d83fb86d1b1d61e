"""`pyproducer perf` without a broker: values that are large."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner

from pyproducer.cli import perf_command
from pyproducer.cli.main import main
from pyproducer.testing import MockProducer

LARGE = 50_000_000


@pytest.fixture
def producer(monkeypatch: pytest.MonkeyPatch) -> Iterator[MockProducer[Any, Any]]:
    """The producer of the command."""
    with MockProducer() as producer:
        monkeypatch.setattr(perf_command, "make_producer", lambda _settings: producer)
        yield producer


@pytest.mark.parametrize(("size", "count", "most"), [(100, 2_000, 1024), (100, 3, 3), (LARGE, 2_000, 2)])
def test_perf_when_values_are_large_then_few_are_made(
        producer: MockProducer[Any, Any], monkeypatch: pytest.MonkeyPatch, size: int, count: int, most: int) -> None:
    """A thousand were made before the first was sent, and refused: 10 GB of memory for records of 10 MB."""
    made: list[int] = []

    def urandom(size: int) -> bytes:
        made.append(size)
        return b"x"

    monkeypatch.setattr(perf_command, "os", SimpleNamespace(urandom=urandom))
    done = CliRunner().invoke(main, ["perf", "-b", "x:1", "--records", str(count), "--record-size", str(size),
                                     "orders"])
    assert done.exit_code == 0, done.output
    assert made == [size] * most
