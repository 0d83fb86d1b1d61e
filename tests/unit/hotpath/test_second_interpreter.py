"""A second interpreter of the process, as mod_wsgi runs one for each application.

A compiled module belongs to the first interpreter that imports it. In the second one `import pyproducer` raised
"Interpreter change detected", although the Python text was there.
"""

from __future__ import annotations

import pytest

from pyproducer import hotpath
from tests.support.second_interpreter import run_with_second_interpreter


@pytest.mark.parametrize("kind", ["legacy", "isolated"])
def test_import_when_another_interpreter_has_the_compiled_twin_then_the_python_text_runs(kind: str) -> None:
    """An isolated interpreter loads fewer modules: no codec and no hash that nobody asked for may be among ours."""
    done = run_with_second_interpreter(f"""
        import pyproducer
        print(pyproducer.IMPL, flush=True)
        in_second_interpreter("import pyproducer; print(pyproducer.IMPL, flush=True)", {kind!r})
        """)
    assert done.stdout.split() == [hotpath.IMPL, "python"], done.stderr


@pytest.mark.skipif(hotpath.IMPL != "native", reason="the compiled twin does not run here")
def test_import_when_the_compiled_twin_is_asked_for_then_the_error_says_what_to_do() -> None:
    done = run_with_second_interpreter("""
        import pyproducer
        in_second_interpreter("import pyproducer")
        """, impl="native")
    assert done.returncode != 0
    assert "PYPRODUCER_IMPL=native, but the compiled twin cannot be loaded: " in done.stderr
    assert "unset PYPRODUCER_IMPL to run the Python text there" in done.stderr


def test_import_when_the_python_text_is_asked_for_then_both_interpreters_have_it() -> None:
    done = run_with_second_interpreter("""
        import pyproducer
        print(pyproducer.IMPL, flush=True)
        in_second_interpreter("import pyproducer; print(pyproducer.IMPL, flush=True)")
        """, impl="python")
    assert done.stdout.split() == ["python", "python"], done.stderr
