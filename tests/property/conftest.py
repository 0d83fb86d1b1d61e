"""How many examples, and which: the same ones in every run of the suite, new ones in a soak.

A random search finds its counterexample on the machine of whoever happens to run it. So by default the examples follow
from the test alone, and PYPRODUCER_TEST_PROFILE=soak looks for new ones, many more. What a soak finds is pinned with
@example at its test, and never found again.
"""

from __future__ import annotations

from hypothesis import settings

from tests.property.profiles import PROFILE, register_profiles

register_profiles()
settings.load_profile(PROFILE)
