"""What is absent is said in one sentence that names what to install."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from tests.support.patience import PROGRAM_S

ROOT = Path(__file__).resolve().parents[2]


NEEDS_MAKE = pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed: apt-get install make")


def checkout(home: Path) -> None:
    """Copy what make reads before anything is installed."""
    for name in ("Makefile", "setup.cfg", "setup.py", "pyproject.toml", "README.md"):
        shutil.copy(ROOT / name, home)
    shutil.copytree(ROOT / ".ci", home / ".ci")


def make(home: Path, *arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
    # As from a shell, also when these tests are run by make: it tells its children of itself.
    outer = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS", "PIP_"))}
    return subprocess.run(["make", *arguments], cwd=home, capture_output=True, text=True, timeout=PROGRAM_S,
                          check=False, env={**outer, **more})


@NEEDS_MAKE
@pytest.mark.parametrize(("script", "sentence"), [
    (None, "is not installed: install Python 3.10 or newer"),
    ("exit 1", "is older than 3.10: install Python 3.10 or newer"),
    ('test "$1" = -c', "cannot make a virtual environment: install its venv module"),
])
def test_make_demo_without_a_usable_python_says_what_to_install(tmp_path: Path, script: str | None,
                                                                sentence: str) -> None:
    checkout(tmp_path)
    python = tmp_path / "python"
    if script is not None:
        python.write_text(f"#!/bin/sh\n{script}\n", encoding="ascii")
        python.chmod(0o755)
    done = make(tmp_path, "demo", f"PYTHON={python}")
    assert done.returncode != 0
    told = [line for line in done.stderr.splitlines() if not line.startswith("make: ***")]
    assert len(told) == 1
    assert sentence in told[0]
    assert not (tmp_path / ".venv").exists()


@NEEDS_MAKE
@pytest.mark.parametrize("is_link", [True, False])
def test_make_demo_when_the_environments_name_is_taken_then_it_says_so_and_leaves_it_alone(
        tmp_path: Path, is_link: bool) -> None:
    """It said that Python's venv module is to be installed, and removed what was there."""
    checkout(tmp_path)
    environment = tmp_path / ".venv"
    if is_link:
        environment.symlink_to(tmp_path / "nowhere")
    else:
        environment.touch()
    done = make(tmp_path, "demo", f"PYTHON={sys.executable}")
    assert done.returncode != 0
    told = [line for line in done.stderr.splitlines() if not line.startswith("make: ***")]
    assert told == ["make: .venv is there and is no folder, but a file or a link that leads nowhere: remove it"]
    assert environment.is_symlink() == is_link
    assert is_link or environment.is_file()


@NEEDS_MAKE
def test_make_demo_when_no_package_index_answers_then_one_sentence_says_so(tmp_path: Path) -> None:
    checkout(tmp_path)
    nobody = "http://127.0.0.1:1/simple"  # refuses at once
    done = make(tmp_path, "demo", f"PYTHON={sys.executable}", PIP_INDEX_URL=nobody, PIP_CONFIG_FILE=os.devnull)
    told = [line for line in done.stderr.splitlines() if not line.startswith("make: ***")]
    assert done.returncode != 0
    assert len(told) == 1
    assert told[0].startswith("make: no package index answers")
    assert not (tmp_path / ".venv" / ".core").exists()


@NEEDS_MAKE
@pytest.mark.parametrize("is_ours", [True, False])
def test_make_when_another_python_is_named_than_the_environments_then_it_is_made_anew_or_left_alone(
        tmp_path: Path, is_ours: bool) -> None:
    checkout(tmp_path)
    environment = tmp_path / ".venv"
    (environment / "bin").mkdir(parents=True)
    for path, version in ((environment / "bin" / "python", "3.10.1"), (tmp_path / "python", "3.12.2")):
        path.write_text(f"#!/bin/sh\ncase \"$2\" in *base_prefix*) echo {version} linux /usr;; *) exit 1;; esac\n",
                        encoding="ascii")
        path.chmod(0o755)
    if is_ours:
        (environment / ".made").touch()
    named = f"PYTHON={tmp_path / 'python'}"
    assert "made anew" not in make(tmp_path, "help", named).stdout
    done = make(tmp_path, "lint", named)
    if is_ours:
        assert f"make: .venv is of Python 3.10.1 and {tmp_path / 'python'} is 3.12.2: .venv is made anew" in done.stdout
        assert not environment.exists()
    else:
        assert ".venv is of Python 3.10.1 and was not made by make: remove it" in done.stderr
        assert environment.exists()
    assert done.returncode != 0


def test_install_when_it_is_interrupted_then_one_line_says_so_and_no_traceback(tmp_path: Path) -> None:
    hanging = tmp_path / "pip" / "__main__.py"
    hanging.parent.mkdir()
    (hanging.parent / "__init__.py").touch()
    hanging.write_text("import time\nprint('Downloading x.whl (1 MB)', flush=True)\ntime.sleep(600)\n",
                       encoding="ascii")
    with subprocess.Popen([sys.executable, str(ROOT / ".ci" / "install.py"), "x"], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True, start_new_session=True,
                          # A shell that starts the suite in the background has it ignore Ctrl-C, children included.
                          preexec_fn=partial(signal.signal, signal.SIGINT, signal.SIG_DFL),
                          env={**os.environ, "PYTHONPATH": str(tmp_path)}) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "  Downloading x.whl (1 MB)\n"
            os.killpg(process.pid, signal.SIGINT)
            _, told = process.communicate(timeout=PROGRAM_S)
        finally:
            process.kill()
    assert (process.returncode, told) == (130, "make: interrupted; the next run goes on\n")
