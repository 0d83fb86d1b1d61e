"""The command that installs the package again where a C compiler can be used: pip alone would do the same again.

And whether it is installed compiled, and something else is loaded: Python takes a checkout that it stands in first.

pip takes a wheel for any platform where none fits, though a compiler is there, and keeps what it built without one.

Road:    wiring: the compiled twin is not there -> [reinstall] -> the log
Thread:  reads the metadata of the installed package.
Source:  pip 24: --no-binary, --no-cache-dir; PEP 610 (direct_url.json).
"""

from __future__ import annotations

import json
import os
import sys
from importlib.metadata import PackageNotFoundError, distribution, distributions
from shlex import quote
from urllib.parse import urlsplit
from urllib.request import url2pathname

_PIP = "pip install --force-reinstall --no-deps --no-cache-dir"
_FROM_SOURCE = "--no-binary pyproducer pyproducer"


def installed_elsewhere(folder: str) -> str | None:
    """Return where the package is installed with compiled files, and not loaded from; None where it is not.

    Args:
        folder: The folder hotpath, as it is loaded. In a checkout it is the checkout's, whatever is installed.
    """
    for found in distributions(name="pyproducer"):
        package = str(found.locate_file("pyproducer"))
        other = os.path.join(package, "hotpath")
        if os.path.isdir(other) and not os.path.samefile(other, folder) and compiled_files(other):
            return package
    return None


def compiled_files(folder: str) -> list[str]:
    """Return the names of the compiled files in a folder hotpath, for whatever Pythons and platforms: one for each."""
    return sorted(name for name in os.listdir(folder) if name.startswith("_native.") and name.endswith((".so", ".pyd")))


def reinstall_command(file: str = __file__) -> str:
    """Return the command, for an index, a folder of sources or a file, by where the package came from.

    Args:
        file: This file: sources that it is loaded from win over what is installed besides, which PYTHONPATH hides.
    """
    python = "" if not sys.executable else f"{quote(sys.executable)} -m "
    folder = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(file))))
    if os.path.exists(os.path.join(folder, "setup.py")):
        return f"{python}{_PIP} -e {quote(folder)}"
    try:
        text = distribution("pyproducer").read_text("direct_url.json")
        origin = json.loads(text) if text else {}
        url = str(origin.get("url", ""))
        is_editable = bool(origin.get("dir_info", {}).get("editable"))
    except (PackageNotFoundError, OSError, ValueError, AttributeError):
        url, is_editable = "", False  # nothing says where it came from
    if urlsplit(url).scheme != "file":
        return f"{python}{_PIP} {_FROM_SOURCE}"
    path = url2pathname(urlsplit(url).path)
    if path.endswith(".whl"):  # a folder of wheels has the sources beside them
        return f"{python}{_PIP} --find-links {quote(os.path.dirname(path))} {_FROM_SOURCE}"
    return f"{python}{_PIP} {'-e ' if is_editable else ''}{quote(path)}"
