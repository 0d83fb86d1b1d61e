"""Runs code in a process that has a second interpreter.

Source:  ours, over CPython's own module, which has another name and other arguments in each release.
"""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap

from tests.support.patience import PROGRAM_S

# A PYPRODUCER_IMPL=native of these tests would refuse the second interpreter, which is another test's matter.
AS_HERE = "python" if os.environ.get("PYPRODUCER_IMPL") == "python" else ""
RUN = """
import sys

def in_second_interpreter(code, kind="legacy"):
    code = f"import sys; sys.path[:] = {sys.path!r}\\n" + code
    try:
        import _interpreters  # from Python 3.13 on
    except ImportError:
        import _xxsubinterpreters
        _xxsubinterpreters.run_string(_xxsubinterpreters.create(isolated=kind == "isolated"), code)
    else:
        raised = _interpreters.exec(_interpreters.create(kind), code)
        assert raised is None, raised.formatted
    sys.stdout.flush()
"""


def run_with_second_interpreter(code: str, impl: str = AS_HERE) -> subprocess.CompletedProcess[str]:
    """Run code in a process of its own; it finds `in_second_interpreter`."""
    return subprocess.run([sys.executable, "-c", RUN + textwrap.dedent(code)], capture_output=True, text=True,
                          timeout=PROGRAM_S, check=False,
                          env={**os.environ, "PYPRODUCER_IMPL": impl, "PYTHONPATH": os.pathsep.join(sys.path)})
