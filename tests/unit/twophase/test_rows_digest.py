"""pyproducer.twophase.RowsDigest: which rows it tells from which."""

from __future__ import annotations

from itertools import permutations

import pytest

from pyproducer.twophase import RowsDigest


def of_tasks(*rows: bytes) -> RowsDigest:
    """That of a batch whose tasks have one row each."""
    return RowsDigest.of_all(RowsDigest().plus(row) for row in rows)


@pytest.mark.parametrize("tasks", [2, 3, 4, 64])
def test_batch_when_its_tasks_have_equal_rows_then_others_in_their_place_are_others(tasks: int) -> None:
    """The checksums of an even number of tasks cancelled out: a second call for a batch passed for a repetition."""
    assert of_tasks(*[b"beat"] * tasks) != of_tasks(*[b"stop"] * tasks)
    assert of_tasks(*[b"beat"] * tasks, b"v") != of_tasks(*[b"stop"] * tasks, b"v")


def test_batch_when_its_tasks_come_in_another_order_then_it_is_the_same() -> None:
    rows = [b"a", b"b", b"b", b"\xff" * 100]
    assert len({of_tasks(*each) for each in permutations(rows)}) == 1
    assert 0 <= of_tasks(*rows).checksum < 2**32


def test_batch_when_two_tasks_have_exchanged_a_part_of_their_rows_then_they_are_others() -> None:
    """CRC-32C is linear: under XOR those were the same."""
    assert of_tasks(b"ax", b"by") != of_tasks(b"ay", b"bx")


def test_task_when_its_rows_come_in_another_order_then_they_are_others() -> None:
    assert RowsDigest().plus(b"a").plus(b"b") != RowsDigest().plus(b"b").plus(b"a")
