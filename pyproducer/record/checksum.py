"""CRC-32C, by the first package of a list that is here.

fastcrc is what an installation brings: it has wheels for every platform we run on, reads a bytearray where it lies, and
is the fastest of the three (README.md, "What is installed"). The others stand in where it cannot be loaded.

Road:    accumulator -> batch_writer -> [crc32c] -> sender
Thread:  any; fastcrc keeps the GIL up to a megabyte or so. To give it away for the 3 us of a batch would cost more: a
         busy caller holds it for its switch interval of 5 ms.
Source:  RFC 3720 B.4, by the packages; Java Crc32C (4.1).
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any, Protocol

from pyproducer.record.layout import Buffer


class Crc32c(Protocol):
    """What computes it."""

    def __call__(self, data: Buffer, crc: int = 0, /) -> int:
        """Return the CRC-32C of `data` behind bytes whose CRC is `crc`; that of no bytes is 0."""


GOOGLE_PIECE_BYTES = 64 * 1024  # it takes bytes only: a copy that the processor's cache holds


def _of_fastcrc(module: Any) -> Crc32c:
    compute: Crc32c = module.iscsi
    return compute


def _of_google(module: Any) -> Crc32c:
    extend = module.extend

    def compute(data: Buffer, crc: int = 0, /) -> int:
        with memoryview(data) as view:
            for start in range(0, len(view), GOOGLE_PIECE_BYTES):
                crc = extend(crc, bytes(view[start:start + GOOGLE_PIECE_BYTES]))
        return crc

    return compute


def _of_crc32c(module: Any) -> Crc32c:
    compute: Crc32c = module.crc32c
    return compute


PACKAGES: dict[str, Callable[[Any], Crc32c]] = {
    "fastcrc.crc32": _of_fastcrc,
    "google_crc32c": _of_google,
    "crc32c": _of_crc32c,
}
"""What is imported, in this order, and how it is called."""


def _choose() -> tuple[str, Crc32c]:
    """Return the name of the first package that can be loaded, and its function.

    Raises:
        ImportError: None can.
    """
    causes = []
    for name, adapt in PACKAGES.items():
        try:
            return name.partition(".")[0], adapt(importlib.import_module(name))
        except ImportError as cause:
            causes.append(str(cause))
    raise ImportError(f"no package for CRC-32C can be loaded: pip install fastcrc ({'; '.join(causes)})")


PACKAGE: str
crc32c: Crc32c
PACKAGE, crc32c = _choose()
