"""The archive for workers of another platform or Python than this one: out of wheels that pip finds for them.

    python -m pyproducer.spark pack dep.tar.gz --platform manylinux_2_17_x86_64 --python 3.11

Road:    packing -> [wheels for elsewhere] -> an archive -> Spark's workers
Thread:  the command's.
Source:  pip download; PyPA's binary distribution format, for what lies in a wheel where.
"""

from __future__ import annotations

import re
import subprocess
import sys
import zipfile
from collections.abc import Iterable
from pathlib import Path

from pyproducer.common.errors import ConfigError
from pyproducer.common.version import __version__

_PYTHON = re.compile(r"3\.\d+")
# What an installer puts beside the modules; scripts, headers and data of others are not for sys.path.
_OF_MODULES = re.compile(r"[^/]+\.data/(?:purelib|platlib)/(.+)")
_OF_OTHERS = re.compile(r"[^/]+\.data/")
_LAST_LINES = 5


def download(folder: Path, also: Iterable[str], platform: str | None, python: str | None,
             wheels: Path | None) -> list[Path]:
    """Fetch the wheels of pyproducer, of what it requires and of `also`, for another platform or Python.

    Args:
        folder: Where to put them.
        also: Names of other distributions.
        platform: As wheels name it, manylinux_2_17_x86_64 for instance; None for this one.
        python: 3.11 for instance; None for this one's.
        wheels: A folder with more wheels, our own for one; None for the index alone.

    Raises:
        ConfigError: A name makes no sense, or there is no wheel for what is wanted: the error has pip's words.
    """
    if python is not None and not _PYTHON.fullmatch(python):
        raise ConfigError("python", python, "it is a minor version of Python 3: 3.11")
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-input",
               "--only-binary", ":all:", "--dest", str(folder)]
    if platform is not None:
        command += ["--platform", platform]
    if python is not None:
        command += ["--python-version", python, "--implementation", "cp"]
    if wheels is not None:
        command += ["--find-links", str(wheels)]
    found = subprocess.run([*command, f"pyproducer=={__version__}", *also], capture_output=True, text=True, check=False)
    if found.returncode:
        said = " ".join(found.stderr.split("\n")[-_LAST_LINES - 1:]).strip()
        raise ConfigError("platform", platform or python, f"there is no wheel for it of everything that is needed. Our "
                          f"own come from `make wheels`, and --wheels names their folder. pip says: {said}")
    return sorted(folder.glob("*.whl"))


def unpack(wheels: Iterable[Path], folder: Path) -> dict[str, Path]:
    """Unpack wheels as an installer would, modules only; return the files by their names in the archive.

    Raises:
        ConfigError: A file in a wheel has a place outside of it.
    """
    files: dict[str, Path] = {}
    for wheel in wheels:
        with zipfile.ZipFile(wheel) as packed:
            for entry in packed.infolist():
                of_modules = _OF_MODULES.fullmatch(entry.filename)
                if entry.is_dir() or (of_modules is None and _OF_OTHERS.match(entry.filename)):
                    continue
                name = entry.filename if of_modules is None else of_modules[1]
                if ".." in name.split("/") or name.startswith("/"):
                    raise ConfigError("wheels", str(wheel), f"a file of it, {name!r}, would lie outside of the archive")
                files[name] = Path(packed.extract(entry, folder / wheel.name))
    return files


def title(wheel: Path) -> str:
    """Return name and version of a wheel, by its file's name."""
    return " ".join(wheel.name.split("-")[:2])
