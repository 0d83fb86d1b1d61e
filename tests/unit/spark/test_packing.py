"""The archive for a cluster that has not got us installed."""

from __future__ import annotations

import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path, PurePosixPath
from types import SimpleNamespace

import pytest
from click.testing import CliRunner

from pyproducer.common.errors import ConfigError
from pyproducer.common.version import __version__
from pyproducer.spark import packing
from pyproducer.spark.__main__ import main
from pyproducer.spark.packing import pack
from tests.support.archives import unpack
from tests.support.patience import PROGRAM_S


def test_pack_when_unpacked_elsewhere_runs_without_anything_installed(tmp_path: Path) -> None:
    archive = tmp_path / "dep.tar.gz"
    answer = CliRunner().invoke(main, ["pack", str(archive)])
    assert answer.exit_code == 0, answer.output
    assert "--archives" in answer.output
    unpack(archive, tmp_path / "dep")
    # Its own byte code, not what lay beside the sources here: valid whatever the time of the unpacked source is.
    cached = list((tmp_path / "dep" / "pyproducer").rglob("*.pyc"))
    assert {path.name for path in cached} >= {f"sink.{sys.implementation.cache_tag}.pyc"}
    assert {path.read_bytes()[4:8] for path in (tmp_path / "dep").rglob("*.pyc")} == {b"\x01\0\0\0"}
    code = ("import pyproducer, pyproducer.spark.sink, pyproducer.hotpath as h, pyproducer.record.checksum, mmh3;"
            "print(pyproducer.__file__, h.IMPL, mmh3.__file__)")
    # -I: no site-packages of ours, no working directory.
    code = f"import sys; sys.path.insert(0, {str(tmp_path / 'dep')!r}); {code}"
    found = subprocess.run([sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, timeout=PROGRAM_S,
                           check=False)
    assert found.returncode == 0, found.stderr
    where, implementation, dependency = found.stdout.split()
    assert Path(where).is_relative_to(tmp_path)
    assert Path(dependency).is_relative_to(tmp_path)
    from pyproducer import hotpath

    assert implementation == hotpath.IMPL
    assert (tmp_path / "dep" / "pyspark_pyproducer" / "__init__.py").is_file()
    assert (tmp_path / "dep" / "PACKED.txt").read_text().startswith("click ")


def test_pack_when_its_arguments_are_wrong_says_so(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"must end in \.tar\.gz"):
        pack(tmp_path / "dep.zip")
    with pytest.raises(ConfigError, match=r"write also=\['requests'\]"):
        pack(tmp_path / "dep.tgz", also="requests")
    answer = CliRunner().invoke(main, ["pack", str(tmp_path / "dep.tgz"), "--with", "no-such-package"])
    assert answer.exit_code == 1
    assert "it is not installed in" in answer.output
    assert not (tmp_path / "dep.tgz").exists()


def test_pack_when_an_installer_made_links_packs_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A symbolic link went into the archive as it was, and named nothing on a worker."""
    (tmp_path / "cache.py").write_text("there = True\n")
    (tmp_path / "linked.py").symlink_to(tmp_path / "cache.py")
    monkeypatch.setattr(packing, "_own_files", lambda: [("linked.py", tmp_path / "linked.py")])
    monkeypatch.setattr(packing, "_required", lambda *_: [])
    pack(tmp_path / "dep.tgz")
    with tarfile.open(tmp_path / "dep.tgz") as tar:
        assert tar.getmember("linked.py").isfile()


def test_pack_when_a_module_is_of_another_python_packs_it_without_byte_code(tmp_path: Path,
                                                                            monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "old.py").write_text("print 'old'\n")
    monkeypatch.setattr(packing, "_own_files", lambda: [("old.py", tmp_path / "old.py")])
    monkeypatch.setattr(packing, "_required", lambda *_: [])
    pack(tmp_path / "dep.tgz")
    with tarfile.open(tmp_path / "dep.tgz") as tar:
        assert tar.getnames() == ["old.py", "PACKED.txt"]


def test_pack_leaves_scripts_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They have the path of this Python in them, and their place is outside of what is unpacked."""
    there = tmp_path / "lib" / "there.py"
    script = tmp_path / "bin" / "script"
    for path in (there, script):
        path.parent.mkdir()
        path.touch()
    distribution = SimpleNamespace(
        metadata={"Name": "other"}, version="1", files=[PurePosixPath("there.py"), PurePosixPath("../bin/script")],
        locate_file=lambda file: there.parent / file, read_text=lambda name: None)
    monkeypatch.setattr(packing, "_own_files", list)
    monkeypatch.setattr(packing, "_required", lambda *_: [distribution])
    pack(tmp_path / "dep.tgz")
    with tarfile.open(tmp_path / "dep.tgz") as tar:
        assert [name for name in tar.getnames() if not name.endswith(".pyc")] == ["there.py", "PACKED.txt"]


def install(site: Path, name: str, *, record: bool = True, direct_url: str | None = None) -> None:
    """Make a distribution as installers leave it."""
    info = site / f"{name.replace('-', '_')}-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    if record:
        (info / "RECORD").write_text(f"{info.name}/METADATA,,\n{info.name}/RECORD,,\n")
    if direct_url is not None:
        (info / "direct_url.json").write_text(direct_url)


@pytest.mark.parametrize("kind", ["without RECORD", "editable"])
def test_pack_when_an_installer_kept_no_list_of_files_takes_what_python_would_import(
        kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its name was printed, and stood in PACKED.txt, and nothing of it was packed."""
    site = tmp_path / "site"
    for name in ("some-thing", "plain"):
        install(site, name, record=kind == "editable",
                direct_url='{"url":"file:///x","dir_info":{"editable":true}}' if kind == "editable" else None)
    (site / "some_thing" / "inner").mkdir(parents=True)
    (site / "some_thing" / "__init__.py").touch()
    (site / "some_thing" / "inner" / "data.json").touch()
    (site / "plain.py").touch()
    monkeypatch.syspath_prepend(str(site))
    monkeypatch.setattr(packing, "_own_files", list)
    names = pack(tmp_path / "dep.tgz", ["some-thing", "plain"])
    assert {"some-thing 1.0", "plain 1.0"} <= set(names)
    with tarfile.open(tmp_path / "dep.tgz") as tar:
        assert {"some_thing/__init__.py", "some_thing/inner/data.json", "plain.py"} <= set(tar.getnames())


def test_pack_when_files_of_a_distribution_are_not_known_refuses(tmp_path: Path,
                                                                 monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path / "site", "other-name", record=False)
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    with pytest.raises(ConfigError, match=r"other-name.*without a list of its files \(RECORD\).*no module other_name"):
        pack(tmp_path / "dep.tgz", ["other-name"])
    assert not (tmp_path / "dep.tgz").exists()


def make_wheel(folder: Path, name: str, version: str, tag: str, files: dict[str, str], requires: str = "") -> None:
    info = f"{name}-{version}.dist-info"
    with zipfile.ZipFile(folder / f"{name}-{version}-{tag}.whl", "w") as wheel:
        for path, text in files.items():
            wheel.writestr(path, text)
        wheel.writestr(f"{info}/METADATA",
                       f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{requires}")
        wheel.writestr(f"{info}/WHEEL", f"Wheel-Version: 1.0\nRoot-Is-Purelib: false\nTag: {tag}\n")
        wheel.writestr(f"{info}/RECORD", "")


def test_pack_for_other_workers_takes_their_wheels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From a laptop, without Docker: what is installed here is of another platform."""
    other = "3.11" if sys.version_info[:2] == (3, 10) else "3.10"
    tag = f"cp{other.replace('.', '')}"
    (dist := tmp_path / "dist").mkdir()
    make_wheel(dist, "pyproducer", __version__, f"{tag}-{tag}-manylinux_2_17_aarch64",
               {"pyproducer/__init__.py": "there = 1\n", "pyproducer/_native.so": "of aarch64"},
               "Requires-Dist: tiny\n")
    make_wheel(dist, "tiny", "2.0", "py3-none-any", {
        "tiny.py": "", "tiny-2.0.data/purelib/more.py": "", "tiny-2.0.data/scripts/run": "",
        "tiny-2.0.data/data/x": ""})
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    answer = CliRunner().invoke(main, ["pack", str(tmp_path / "dep.tgz"), "--platform", "manylinux_2_17_aarch64",
                                       "--python", other, "--wheels", str(dist)])
    assert answer.exit_code == 0, answer.output
    with tarfile.open(tmp_path / "dep.tgz") as tar:
        names = [name for name in tar.getnames() if ".dist-info/" not in name]
        assert names == ["more.py", "pyproducer/__init__.py", "pyproducer/_native.so", "tiny.py", "PACKED.txt"]
        listed = tar.extractfile("PACKED.txt")
        assert listed is not None
        assert listed.read().decode() == f"pyproducer {__version__}\ntiny 2.0\n"
    answer = CliRunner().invoke(main, ["pack", str(tmp_path / "none.tgz"), "--platform", "win_arm64",
                                       "--wheels", str(dist)])
    assert answer.exit_code == 1
    assert "`make wheels`" in answer.output
    assert "No matching distribution found for pyproducer" in answer.output
    assert not (tmp_path / "none.tgz").exists()
    make_wheel(dist, "tiny", "2.1", "py3-none-any", {"tiny-2.1.data/purelib/../../escaped.py": ""})
    with pytest.raises(ConfigError, match=r"'\.\./\.\./escaped\.py', would lie outside of the archive"):
        pack(tmp_path / "none.tgz", platform="manylinux_2_17_aarch64", python=other, wheels=dist)
    with pytest.raises(ConfigError, match=r"a minor version of Python 3: 3\.11"):
        pack(tmp_path / "dep.tgz", python="python3.11")
