"""Whether the compiled twin can be built here: a C compiler, and Python's headers.

`python tests/support/compiler.py` prints what is missing, for make; nothing when all is there. Imports nothing of ours.
"""

from __future__ import annotations

import os
import shlex
import shutil
import sysconfig


def missing_for_compiling() -> str | None:
    """What is missing, in one clause; None when the compiled twin can be built."""
    named = shlex.split(os.environ.get("CC") or str(sysconfig.get_config_var("CC") or "cc"))[0]
    if shutil.which(named) is None:
        return f"no C compiler ({named}) is installed (Debian: apt-get install gcc python3-dev)"
    if not os.path.exists(os.path.join(sysconfig.get_path("include"), "Python.h")):
        return "Python's headers are not installed (Debian: apt-get install python3-dev)"
    return None


def why_not_built() -> str:
    """The reason of a skip where the compiled twin is not there."""
    return missing_for_compiling() or "it could be, but nobody did: run `make lint`"


if __name__ == "__main__":
    print(missing_for_compiling() or "")
