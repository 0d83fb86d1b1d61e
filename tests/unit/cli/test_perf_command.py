"""`pyproducer perf` without a broker: a producer that takes nothing, values that are large."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner

from pyproducer.cli import perf_command
from pyproducer.cli.main import main
from pyproducer.common.error_codes import ErrorCode, error_for_code
from pyproducer.common.errors import KafkaTimeoutError
from pyproducer.testing import MockProducer

LARGE = 50_000_000


@pytest.fixture
def producer(monkeypatch: pytest.MonkeyPatch) -> Iterator[MockProducer[Any, Any]]:
    """The producer of the command."""
    with MockProducer() as producer:
        monkeypatch.setattr(perf_command, "make_producer", lambda _settings: producer)
        yield producer


def test_perf_when_the_producer_takes_no_more_then_it_says_why_and_what_went_through(
        producer: MockProducer[Any, Any]) -> None:
    """It ended with a traceback and no numbers, as after a producer that is dead."""
    producer.close()
    done = CliRunner().invoke(main, ["perf", "-b", "x:1", "--records", "5", "orders"])
    assert done.exit_code == 1, done.output
    assert "pyproducer perf: Cannot perform the operation: the producer " in done.output
    assert "0 records of 100 bytes stored, 0 failed" in done.output


def test_perf_when_records_fail_then_it_says_why_by_kind_of_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """A number was all: "990 failed", of a topic that nobody may write to for one."""
    refused = [error_for_code(ErrorCode.NOT_ENOUGH_REPLICAS, message="orders-0:"),
               KafkaTimeoutError("1 record(s) for orders-0 expired\x1b", phase="delivery"),
               KafkaTimeoutError("3 record(s) for orders-0 expired", phase="delivery")]

    class Refusing(MockProducer[Any, Any]):
        def send(self, *arguments: Any, **named: Any) -> Any:
            self._error_of_all = refused.pop(0) if refused else None
            return super().send(*arguments, **named)

    with Refusing() as producer:
        monkeypatch.setattr(perf_command, "make_producer", lambda _settings: producer)
        done = CliRunner().invoke(main, ["perf", "-b", "x:1", "--records", "5", "orders"])
    assert done.exit_code == 1, done.output
    assert "2 records of 100 bytes stored, 3 failed" in done.output
    _, _, told = done.output.partition("failed, by kind of error, with the first of each:\n")
    lines = told.splitlines()
    assert lines[0] == r"          2 KafkaTimeoutError: 1 record(s) for orders-0 expired\x1b"
    assert lines[1].startswith("          1 NOT_ENOUGH_REPLICAS: orders-0: ")
    assert lines[2].startswith("latency")


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
