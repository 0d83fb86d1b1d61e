"""Names in settings lead to objects, or to an error that says how to write them."""

from __future__ import annotations

import collections
import os
import sys
from pathlib import Path

import pytest

from pyproducer.common.class_names import import_object, make_instance
from pyproducer.common.errors import ConfigError

KEY = "partitioner.class"


@pytest.mark.parametrize(("name", "found"), [
    ("collections:OrderedDict", collections.OrderedDict), ("collections.OrderedDict", collections.OrderedDict),
    ("collections:OrderedDict.fromkeys", collections.OrderedDict.fromkeys), ("os.path.join", os.path.join),
])
def test_name_when_it_exists_then_the_object(name: str, found: object) -> None:
    assert import_object(KEY, name) == found


@pytest.mark.parametrize(("name", "why"), [
    ("nothing", "no such name"), (":Class", "no such name"), ("module:", "no such name"),
    ("no.such.module.Class", "cannot be imported"), ("collections:NoSuch", "has no 'NoSuch'"),
    ("com.example.MyInterceptor", "cannot be imported"), ("..x:y", "cannot be imported"),
])
def test_name_when_nothing_is_there_then_the_error_says_how_to_write_it(name: str, why: str) -> None:
    with pytest.raises(ConfigError, match="'module:Class'") as caught:
        import_object(KEY, name)
    assert why in caught.value.why
    assert (caught.value.key, caught.value.value) == (KEY, name)


def test_module_when_it_raises_on_import_then_its_exception_is_kept(tmp_path: Path,
                                                                    monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "broken_for_test.py").write_text("1 / 0\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(ConfigError, match="ZeroDivisionError") as caught:
        import_object(KEY, "broken_for_test:X")
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
    assert "broken_for_test" not in sys.modules


def test_instance_when_a_class_is_given_then_made_and_else_kept() -> None:
    class NeedsArgument:
        def __init__(self, needed: int) -> None:
            self.needed = needed

    instance = NeedsArgument(1)
    assert make_instance(KEY, dict) == {}
    assert make_instance(KEY, instance) is instance
    with pytest.raises(ConfigError, match="without arguments"):
        make_instance(KEY, NeedsArgument)
