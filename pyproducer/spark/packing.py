"""How pyproducer gets to a cluster that has not got it: what is installed here, or wheels, in one archive.

    python -m pyproducer.spark pack dep.tar.gz
    spark-submit --archives dep.tar.gz#dep --conf spark.executorEnv.PYTHONPATH=dep app.py

Road:    [packing] -> an archive -> Spark's workers
Thread:  the command's, or the driver's.
Source:  Spark's Python package management (4.0): archives are unpacked on the workers, compiled modules and all.
         `--py-files`, which cannot do it, is wheels.py's.
"""

from __future__ import annotations

import io
import json
import py_compile
import re
import sys
import tarfile
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from importlib import metadata
from importlib.util import cache_from_source, find_spec
from pathlib import Path

from pyproducer.common.errors import ConfigError
from pyproducer.common.version import __version__
from pyproducer.spark.packing_elsewhere import download, title, unpack

_PACKAGE = Path(__file__).resolve().parents[1]
_REGISTRATION = "pyspark_pyproducer"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_LEFT_OUT = ("__pycache__", ".pyc", ".pyx", ".pxd", ".c")


def pack(archive: Path, also: Iterable[str] = (), *, platform: str | None = None, python: str | None = None,
         wheels: Path | None = None) -> list[str]:
    """Write pyproducer and all that it requires into a .tar.gz: as installed here, or for other workers.

    Without `platform` and `python` the workers need the same minor version of Python and the same platform as this
    process, as compiled modules are among the files. Byte code is among them, too, where it is of this Python: else
    each worker process would make its own where images forbid to write it.

    Args:
        archive: The file to write.
        also: Names of other distributions: codecs, what logins need. What these require comes along.
        platform: Of the workers, as wheels name it: manylinux_2_17_x86_64. pip fetches the wheels.
        python: Of the workers: 3.11. pip fetches the wheels.
        wheels: A folder with more wheels for these, as `make wheels` fills one with ours.

    Returns:
        Names and versions of what is in the archive, sorted.

    Raises:
        ConfigError: The name is not that of a .tar.gz or .tgz, or a distribution is not installed here, or in such a
            way that its files are not known, or there is no wheel of it for the workers.
        OSError: The archive cannot be written.
    """
    if not archive.name.endswith((".tar.gz", ".tgz")):
        raise ConfigError("archive", str(archive), "its name must end in .tar.gz or .tgz: Spark unpacks it by its name")
    if isinstance(also, str):
        raise ConfigError("also", also, f"each letter would be a distribution: write also=[{also!r}]")
    with tempfile.TemporaryDirectory() as folder:
        if platform is None and python is None and wheels is None:
            files, names = _installed(also)
        else:
            (fetched := Path(folder, "wheels")).mkdir()
            found = download(fetched, also, platform, python, wheels)
            files, names = unpack(found, Path(folder, "unpacked")), {title(wheel) for wheel in found}
        is_of_this_python = python is None or python == "{}.{}".format(*sys.version_info)
        _write(archive, files, names, Path(folder, "module.pyc") if is_of_this_python else None)
    return sorted(names)


def _installed(also: Iterable[str]) -> tuple[dict[str, Path], set[str]]:
    """Return what is installed here: the files by their names in the archive; names and versions."""
    files = dict(_own_files())
    names = {f"pyproducer {__version__}"}
    for distribution in _required(["pyproducer"], also):
        names.add(f"{distribution.metadata['Name']} {distribution.version}")
        files.update(_files_of(distribution))
    return files, names


def _write(archive: Path, files: Mapping[str, Path], names: Iterable[str], compiled: Path | None) -> None:
    """Write the archive, with byte code where there is a place to make it in."""
    # An installer may have linked files: what a symbolic link names is not there on a worker.
    with tarfile.open(archive, "w:gz", compresslevel=6, dereference=True) as tar:
        for name, path in sorted(files.items()):
            tar.add(path, name, recursive=False)
            if compiled is not None and name.endswith(".py") and _compile(path, name, compiled):
                tar.add(compiled, cache_from_source(name), recursive=False)
        listed = "".join(f"{name}\n" for name in sorted(names)).encode()
        entry = tarfile.TarInfo("PACKED.txt")
        entry.size = len(listed)
        tar.addfile(entry, io.BytesIO(listed))


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
        yield from _files_below(folder, name)


def _files_of(distribution: metadata.Distribution) -> Iterator[tuple[str, Path]]:
    """Yield what belongs to a distribution.

    Raises:
        ConfigError: Its installer did not write down what it installed, and its modules are not found by its name.
    """
    files = distribution.files
    origin = json.loads(distribution.read_text("direct_url.json") or "{}")
    if files is None or origin.get("dir_info", {}).get("editable"):
        # No RECORD, as of some systems' packages; or one of a finder, which leads to a source tree.
        yield from _modules_of(distribution)
        return
    for file in files:
        path = Path(str(distribution.locate_file(file)))
        # ".." leads to scripts, which have the path of this Python in them.
        if ".." not in file.parts and path.is_file() and not path.name.endswith(_LEFT_OUT):
            yield str(file), path


def _modules_of(distribution: metadata.Distribution) -> Iterator[tuple[str, Path]]:
    """Yield the files of a distribution's top-level modules, as Python would import them."""
    name = distribution.metadata["Name"]
    for module in (distribution.read_text("top_level.txt") or re.sub(r"[-.]+", "_", name)).split():
        spec = find_spec(module)
        if spec is None or (spec.origin is None and not spec.submodule_search_locations):
            raise ConfigError("with", name, f"it is installed without a list of its files (RECORD), or editable, and "
                              f"there is no module {module}: install it with pip, as a wheel")
        if not spec.submodule_search_locations:
            assert spec.origin is not None  # looked at above
            yield Path(spec.origin).name, Path(spec.origin)
            continue
        for folder in map(Path, spec.submodule_search_locations):
            yield from _files_below(folder, module)


def _files_below(folder: Path, name: str) -> Iterator[tuple[str, Path]]:
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
