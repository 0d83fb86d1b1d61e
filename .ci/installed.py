"""Installs what `make wheels` made into an empty environment, as a user without a compiler does, and uses it.

    python .ci/installed.py dist            # this Python, its wheel: the compiled twin must run
    python .ci/installed.py dist --pure     # the pure wheel: the Python text

Only wheels are taken, also of what we depend on. Every codec is written to an embedded broker and read back; then the
package is removed, and no file of it may be left.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

USE = """
import sys
import pyproducer
from pyproducer import KafkaProducer
from pyproducer.broker import EmbeddedBroker
from pyproducer.testing import read_topic
if __name__ == "__main__":
    assert pyproducer.IMPL == sys.argv[1], pyproducer.IMPL
    assert getattr(sys, "_is_gil_enabled", lambda: True)() or "t" in sys.abiflags
    codecs = ("none", "gzip", "snappy", "lz4", "zstd")
    with EmbeddedBroker(topics={"t": 3}, separate_process=True) as broker:
        for codec in codecs:
            with KafkaProducer({"bootstrap.servers": broker.bootstrap_servers, "compression.type": codec}) as producer:
                for number in range(100):
                    producer.send("t", b"%d " % number * 50, key=codec.encode())
        count = len(list(read_topic(broker.bootstrap_servers, "t")))
    assert count == 100 * len(codecs), count
"""


def main(arguments: list[str]) -> int:
    """Install, use, remove; 1 where something of it is wrong."""
    dist = Path(arguments[0]).resolve()
    is_pure = "--pure" in arguments
    with tempfile.TemporaryDirectory() as home:
        subprocess.run([sys.executable, "-m", "venv", home], check=True)
        python = str(Path(home, "bin", "python"))
        variables = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "PYPRODUCER"))}

        def run(*command: str) -> str:
            return subprocess.run([python, *command], check=True, env=variables, cwd=home, stdout=subprocess.PIPE,
                                  text=True).stdout

        (pure,) = dist.glob("*-none-any.whl")
        version = pure.name.split("-")[1]
        what = [str(pure)] if is_pure else ["--find-links", str(dist), f"pyproducer=={version}"]
        run("-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--only-binary", ":all:", *what)
        before = files(Path(home))
        run("-c", USE, "python" if is_pure else "native")
        told = run("-m", "pyproducer", "version")
        run("-m", "pip", "uninstall", "--quiet", "--disable-pip-version-check", "--yes", "pyproducer")
        left = {name for name in files(Path(home)) if "pyproducer" in name}
        if left or not any("pyproducer" in name for name in before):
            print(f"left behind: {sorted(left)}", file=sys.stderr)
            return 1
        print(told, end="")
    return 0


def files(home: Path) -> set[str]:
    """Every file of an environment."""
    return {str(path.relative_to(home)) for path in home.rglob("*")}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
