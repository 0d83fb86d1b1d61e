"""The profiles of hypothesis: `default` and `soak`, chosen by PYPRODUCER_TEST_PROFILE."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

PROFILE = os.environ.get("PYPRODUCER_TEST_PROFILE", "default")
SOAK_FACTOR = 50
# These look at the clock, or at how long an example is: a slow machine is not a defect.
SUPPRESSED = [HealthCheck.too_slow, HealthCheck.data_too_large]


def examples(count: int) -> int:
    """How many examples a test tries that tries so many by default."""
    return count * (SOAK_FACTOR if PROFILE == "soak" else 1)


def register_profiles() -> None:
    """No profile has a deadline, nor a folder of examples that makes one run depend on another."""
    settings.register_profile("default", derandomize=True, database=None, deadline=None, max_examples=100,
                              suppress_health_check=SUPPRESSED)
    settings.register_profile("soak", derandomize=False, database=None, deadline=None, max_examples=examples(100),
                              suppress_health_check=SUPPRESSED, print_blob=True)
