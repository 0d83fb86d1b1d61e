"""Programs in Go: built once for each text of them, into .cache/; their modules lie in Go's own cache.

Source:  ours.

No import of pytest: benchmarks use this module too. What is absent is a MissingTool whose one sentence says what to
install.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path

from tests.support.kafka_jars import CACHE, MissingTool, only_one_process
from tests.support.patience import PROGRAM_S


@cache
def build_go(folder: Path) -> Path:
    """Return the program of a folder with main.go, go.mod and go.sum.

    Raises:
        MissingTool: There is no go, or it could not fetch the modules, or the program does not compile.
    """
    sources = sorted(folder.iterdir())
    digest = hashlib.sha256(b"".join(source.read_bytes() for source in sources)).hexdigest()[:16]
    program = CACHE / "go" / f"franz-go-{digest}"
    if program.is_file():
        return program
    go = shutil.which("go")
    if go is None:
        raise MissingTool("go is not installed: franz-go is left out (Debian: apt-get install golang)")
    program.parent.mkdir(parents=True, exist_ok=True)
    with only_one_process("go"), tempfile.TemporaryDirectory(dir=program.parent) as fresh:
        if program.is_file():
            return program  # another process was first
        answer = subprocess.run([go, "build", "-o", f"{fresh}/program", "."], cwd=folder, capture_output=True,
                                text=True, timeout=PROGRAM_S, check=False)
        if answer.returncode != 0:
            raise MissingTool("go could not build franz-go, it needs a network or a filled module cache: "
                              f"franz-go is left out ({(answer.stderr.splitlines() or ['no message'])[-1][:300]})")
        (Path(fresh) / "program").rename(program)
    return program
