"""The archive for a cluster that has not got us installed."""

from __future__ import annotations

import subprocess
import sys
import tarfile
from pathlib import Path, PurePosixPath
from types import SimpleNamespace

import pytest
from click.testing import CliRunner

from pyproducer.common.errors import ConfigError
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
        locate_file=lambda file: there.parent / file)
    monkeypatch.setattr(packing, "_own_files", list)
    monkeypatch.setattr(packing, "_required", lambda *_: [distribution])
    pack(tmp_path / "dep.tgz")
    with tarfile.open(tmp_path / "dep.tgz") as tar:
        assert [name for name in tar.getnames() if not name.endswith(".pyc")] == ["there.py", "PACKED.txt"]
