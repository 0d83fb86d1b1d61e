"""How many files this process may open: each partition's log takes one at least.

Road:    InProcessCluster -> [descriptors]; unexpected -> [descriptors]
Thread:  any.
Source:  HotSpot's -XX:+MaxFDLimit, with which every Java broker starts.
"""

from __future__ import annotations

import contextlib
import errno
import sys

try:
    import resource
except ImportError:  # pragma: no cover - not on Windows, where there is no such limit
    resource = None  # type: ignore[assignment]  # asked for below

# macOS allows no more, whatever its hard limit says (OPEN_MAX).
MOST_OF_MACOS = 10_240
# Where there is no hard limit: Linux's fs.nr_open, above which nobody may set one.
MOST_WITHOUT_LIMIT = 1_048_576


def raise_descriptor_limit() -> None:
    """Raise the soft limit of open files as far as it goes without asking anybody; it is never lowered."""
    if resource is not None:
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        wanted = MOST_WITHOUT_LIMIT if hard == resource.RLIM_INFINITY else hard
        if sys.platform == "darwin":
            wanted = min(wanted, MOST_OF_MACOS)
        if soft != resource.RLIM_INFINITY and soft < wanted:
            with contextlib.suppress(OSError, ValueError):  # the system has another bound: it stays as it was
                resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def reason(error: OSError) -> str:
    """Return what the system says, and what to do about it where that is known."""
    text = error.strerror or str(error)
    if error.errno in (errno.EMFILE, errno.ENFILE) and resource is not None:
        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        return f"{text} (ulimit -n is {soft}, and each partition takes one)"
    return text
