"""One namespace, and it is a list."""

from __future__ import annotations

import types

import pyproducer


def test_all_is_sorted_and_complete():
    public = {name for name, member in vars(pyproducer).items()
              if not name.startswith("_") and not isinstance(member, types.ModuleType) and name != "annotations"}
    assert sorted(pyproducer.__all__) == pyproducer.__all__
    assert set(pyproducer.__all__) == public


def test_members_show_the_public_name():
    for name in pyproducer.__all__:
        member = getattr(pyproducer, name)
        if isinstance(member, type):
            assert member.__module__ == "pyproducer", name
