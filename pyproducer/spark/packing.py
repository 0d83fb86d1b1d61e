"""How pyproducer gets to a cluster that has not got it: what is installed here, in one archive.

    python -m pyproducer.spark pack dep.tar.gz
    spark-submit --archives dep.tar.gz#dep --conf spark.executorEnv.PYTHONPATH=dep app.py

Road:    [packing] -> an archive -> Spark's workers
Thread:  the command's, or the driver's.
Source:  Spark's Python package management (4.0): archives are unpacked on the workers, compiled modules and all.
         `--py-files`, which cannot do it, is wheels.py's.
"""

from __future__ import annotations

import io
import py_compile
import re
import sys
import tarfile
import tempfile
from collections.abc import Iterable, Iterator
from importlib import metadata
from importlib.util import cache_from_source, find_spec
from pathlib import Path

from pyproducer.common.errors import ConfigError
from pyproducer.common.version import __version__

_PACKAGE = Path(__file__).resolve().parents[1]
_REGISTRATION = "pyspark_pyproducer"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_LEFT_OUT = ("__pycache__", ".pyc", ".pyx", ".pxd", ".c")


def pack(archive: Path, also: Iterable[str] = ()) -> list[str]:
    """Write pyproducer, as it is installed here, and all that it requires into a .tar.gz.

    The workers need the same minor version of Python and the same platform, as compiled modules are among the files.
    Byte code is among them, too: else each worker process would make its own where images forbid to write it.

    Args:
        archive: The file to write.
        also: Names of other installed distributions: codecs, what logins need. What these require comes along.

    Returns:
        Names and versions of what is in the archive, sorted.

    Raises:
        ConfigError: The name is not that of a .tar.gz or .tgz, or a distribution is not installed here.
        OSError: The archive cannot be written.
    """
    if not archive.name.endswith((".tar.gz", ".tgz")):
        raise ConfigError("archive", str(archive), "its name must end in .tar.gz or .tgz: Spark unpacks it by its name")
    if isinstance(also, str):
        raise ConfigError("also", also, f"each letter would be a distribution: write also=[{also!r}]")
    files = dict(_own_files())
    names = {f"pyproducer {__version__}"}
    for distribution in _required(["pyproducer"], also):
        names.add(f"{distribution.metadata['Name']} {distribution.version}")
        for file in distribution.files or ():
            path = Path(str(distribution.locate_file(file)))
            # ".." leads to scripts, which have the path of this Python in them.
            if ".." not in file.parts and path.is_file() and not path.name.endswith(_LEFT_OUT):
                files[str(file)] = path
    # An installer may have linked files: what a symbolic link names is not there on a worker.
    with (tempfile.TemporaryDirectory() as folder,
          tarfile.open(archive, "w:gz", compresslevel=6, dereference=True) as tar):
        compiled = Path(folder, "module.pyc")
        for name, path in sorted(files.items()):
            tar.add(path, name, recursive=False)
            if name.endswith(".py") and _compile(path, name, compiled):
                tar.add(compiled, cache_from_source(name), recursive=False)
        listed = "".join(f"{name}\n" for name in sorted(names)).encode()
        entry = tarfile.TarInfo("PACKED.txt")
        entry.size = len(listed)
        tar.addfile(entry, io.BytesIO(listed))
    return sorted(names)


def _compile(path: Path, name: str, to: Path) -> bool:
    """Write the byte code of a module; False for what is no Python of this version, as some packages' templates are."""
    try:
        # Not checked against the time of the source, which is another one where it is unpacked.
        py_compile.compile(str(path), str(to), dfile=name, doraise=True, quiet=1,
                           invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)
    except py_compile.PyCompileError:
        return False
    return True


def _own_files() -> Iterator[tuple[str, Path]]:
    """Yield our own modules, also where they are not installed but lie in a source tree."""
    # Installed, it lies at the top level; in a source tree below us, where setup.py finds it.
    spec = find_spec(_REGISTRATION)
    registration = (Path(spec.origin).parent if spec is not None and spec.origin is not None
                    else _PACKAGE / "spark" / "registration" / _REGISTRATION)
    for folder, name in ((_PACKAGE, "pyproducer"), (registration, _REGISTRATION)):
        for path in folder.rglob("*"):
            if path.is_file() and not any(part.endswith(_LEFT_OUT) for part in path.relative_to(folder).parts):
                yield f"{name}/{path.relative_to(folder).as_posix()}", path


def _required(roots: Iterable[str], also: Iterable[str]) -> Iterator[metadata.Distribution]:
    """Yield the distributions that `roots` require, and those of `also` with what they require."""
    must = {*roots, *also}
    waiting = list(must)
    seen = set()
    while waiting:
        name = waiting.pop()
        plain = re.sub(r"[-_.]+", "-", name).lower()
        if plain in seen:
            continue
        seen.add(plain)
        try:
            distribution = metadata.distribution(name)
        except metadata.PackageNotFoundError as cause:
            if name in must:
                raise ConfigError("with", name, f"it is not installed in {sys.prefix}") from cause
            continue  # a requirement of other platforms or Pythons: what runs here runs without it
        if plain != "pyproducer":
            yield distribution
        for requirement in distribution.requires or ():
            found = _NAME.match(requirement)
            if found and "extra ==" not in requirement.replace("'", '"'):
                waiting.append(found[0])
