"""Installs packages for make: pip, with a line for each thing it does, and one sentence where it cannot go on.

    .venv/bin/python .ci/install.py -e '.[demo]'

pip alone is either silent for minutes or says hundreds of lines; without a network it tries five times and fails with
forty lines. Here each download and build is a line as it begins, and the first sign of no network ends it.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys

# What pip and the pip below it, which installs what builds need, say where no index answers.
NO_NETWORK = re.compile(r"Name or service not known|name resolution|nodename nor servname|getaddrinfo failed"
                        r"|Failed to resolve|Network is unreachable|No route to host|ConnectTimeoutError"
                        r"|Connection refused|ProxyError")
STEP = re.compile(r"\s*(Downloading (?!metadata)|Building wheel|Building editable|Installing build dependencies"
                  r"|Installing collected packages)(.*)")
LONGEST_LINE = 100


def main(arguments: list[str]) -> int:
    """Run pip; return its exit code."""
    command = [sys.executable, "-m", "pip", "install", "--disable-pip-version-check", "--progress-bar", "off",
               *arguments]
    told: list[str] = []
    variables = {"PIP_DEFAULT_TIMEOUT": "30", "PIP_RETRIES": "1", **os.environ, "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
                          env=variables) as pip:
        assert pip.stdout is not None
        try:
            for line in pip.stdout:
                told.append(line)
                if NO_NETWORK.search(line):
                    pip.terminate()
                    pip.wait()
                    print("make: no package index answers, and an install needs one, once: connect to the network, or "
                          "name a mirror with PIP_INDEX_URL", file=sys.stderr)
                    return 1
                step = STEP.match(line)
                if step and not line.rstrip().endswith(".metadata"):
                    print(f"  {line.strip()[:LONGEST_LINE]}", flush=True)
        except KeyboardInterrupt:
            # pip was interrupted, too, and ends by itself.
            pip.wait()
            print("make: interrupted; the next run goes on", file=sys.stderr)
            return 130
    if pip.returncode:
        print("".join(told), file=sys.stderr)
    return pip.returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
