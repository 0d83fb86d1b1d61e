"""The archive for a cluster that has not got us installed."""

from __future__ import annotations

import pickle
import subprocess
import sys
import tarfile
from pathlib import Path, PurePosixPath
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner

from pyproducer.common.errors import ConfigError
from pyproducer.spark import KafkaSink, packing
from pyproducer.spark.__main__ import main
from pyproducer.spark.packing import pack, refuse_wheel, wheel_warning


def test_pack_when_unpacked_elsewhere_runs_without_anything_installed(tmp_path: Path) -> None:
    archive = tmp_path / "dep.tar.gz"
    answer = CliRunner().invoke(main, ["pack", str(archive)])
    assert answer.exit_code == 0, answer.output
    assert "--archives" in answer.output
    with tarfile.open(archive) as tar:
        tar.extractall(tmp_path / "dep", filter="data")
    assert not list((tmp_path / "dep").rglob("__pycache__"))
    code = ("import pyproducer, pyproducer.spark.sink, pyproducer.hotpath as h, pyproducer.record.checksum, mmh3;"
            "print(pyproducer.__file__, h.IMPL, mmh3.__file__)")
    # -I: no site-packages of ours, no working directory.
    code = f"import sys; sys.path.insert(0, {str(tmp_path / 'dep')!r}); {code}"
    found = subprocess.run([sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, timeout=60,
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
        assert tar.getnames() == ["there.py", "PACKED.txt"]


def session(master: str, files: str) -> SimpleNamespace:
    conf = {"spark.master": master, "spark.submit.pyFiles": files}
    return SimpleNamespace(conf=SimpleNamespace(get=conf.get))


def test_a_wheel_in_py_files_is_refused_with_what_to_do_instead() -> None:
    """It ended in each worker with "No module named 'pyproducer'"."""
    with pytest.raises(ConfigError, match=r"Python cannot import from a wheel.*python -m pyproducer\.spark pack"):
        refuse_wheel(session("spark://a:7077", "/x/app.zip,/x/pyproducer-0.1.0-cp311-cp311-linux_x86_64.whl"))
    refuse_wheel(session("spark://a:7077", "/x/app.zip"))
    refuse_wheel(session("local[2]", "/x/pyproducer-0.1.0-py3-none-any.whl"))
    refuse_wheel(session("local", "/x/pyproducer-0.1.0-py3-none-any.whl"))
    with pytest.raises(ConfigError, match="Python cannot import from a wheel"):
        refuse_wheel(session("local-cluster[1,1,1024]", "/x/pyproducer-0.1.0-py3-none-any.whl"))


class NoSession:
    """What Connect has where nobody made a session."""

    @staticmethod
    def getActiveSession() -> None:
        return None


@pytest.mark.parametrize("road", ["foreachPartition", "foreach", "Connect"])
def test_every_road_says_the_same_of_a_wheel_when_it_sends_the_sink(road: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only write() looked: by the others each worker said "No module named 'pyproducer'"."""
    given = session("spark://a:7077", "/x/pyproducer-0.1.0-cp311-cp311-linux_x86_64.whl")
    sink = KafkaSink({"bootstrap.servers": "a:9092"}, topic="orders")
    active: Any = SimpleNamespace(_conf=given.conf)
    connect = NoSession
    if road == "Connect":
        active, connect = None, SimpleNamespace(getActiveSession=lambda: given)  # type: ignore[assignment]  # a double
    monkeypatch.setitem(sys.modules, "pyspark", SimpleNamespace(  # type: ignore[arg-type]  # a double
        SparkContext=SimpleNamespace(_active_spark_context=active)))
    monkeypatch.setitem(sys.modules, "pyspark.sql.connect.session", SimpleNamespace(  # type: ignore[arg-type]
        SparkSession=connect))
    with pytest.raises(ConfigError) as caught:
        pickle.dumps(sink.foreach_writer() if road == "foreach" else sink)
    with pytest.raises(ConfigError) as of_write:
        refuse_wheel(given)
    assert str(caught.value) == str(of_write.value)
    told = wheel_warning(["app.zip", "pyproducer-0.1.0-cp311-cp311-linux_x86_64.whl"])
    assert told is not None
    assert told.endswith(str(caught.value).partition(": ")[2].rpartition("Python cannot import")[2])


def test_a_sink_travels_where_there_is_no_spark_and_from_a_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    sink = KafkaSink({"bootstrap.servers": "a:9092"}, topic="orders")
    for modules in ({}, {"pyspark": SimpleNamespace()},
                    {"pyspark": SimpleNamespace(SparkContext=SimpleNamespace(_active_spark_context=None))},
                    {"pyspark.sql.connect.session": SimpleNamespace(SparkSession=NoSession)}):
        with monkeypatch.context() as patch:
            for name in ("pyspark", "pyspark.sql.connect.session"):
                patch.delitem(sys.modules, name, raising=False)
            for name, module in modules.items():
                patch.setitem(sys.modules, name, module)  # type: ignore[arg-type]  # a double
            assert pickle.loads(pickle.dumps(sink)).topic == "orders"
    assert wheel_warning(["app.zip", "other-1.0-py3-none-any.whl"]) is None
