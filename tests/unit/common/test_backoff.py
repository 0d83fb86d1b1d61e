"""Waits double up to a ceiling, spread by jitter."""

from __future__ import annotations

from pyproducer.common.backoff import ExponentialBackoff


def test_backoff_doubles_up_to_the_ceiling():
    backoff = ExponentialBackoff(100, 1000, jitter=0)
    assert [backoff.backoff_ms(attempts) for attempts in range(6)] == [100, 200, 400, 800, 1000, 1000]
    assert backoff.backoff_ms(10_000) == 1000


def test_backoff_stays_within_the_jitter_and_the_ceiling():
    backoff = ExponentialBackoff(100, 1000)
    assert all(80 <= backoff.backoff_ms(0) <= 120 for _ in range(200))
    assert all(800 <= backoff.backoff_ms(9) <= 1000 for _ in range(200))
    assert len({backoff.backoff_ms(0) for _ in range(200)}) > 5


def test_backoff_of_zero_does_not_wait():
    assert ExponentialBackoff(0, 1000).backoff_ms(5) == 0
