"""Looks for the secrets of a configuration in everything that may be shown: logs, reprs, errors, pickles, metrics.

    with SecretHunt("hunter2", token) as hunt:
        hunt.look("config", config)
        with hunt.errors():
            producer.partitions_for("orders")
        hunt.look("metrics", producer.metrics())

At the end of the block it fails for each place that showed one. Log records of every logger and warnings that come
while the block runs are looked at, too: their texts, their arguments, their tracebacks.

Of tracebacks the variables of the package's own frames are looked at as a crash reporter would show them, by `repr`.

Source:  ours.
"""

from __future__ import annotations

import base64
import contextlib
import logging
import pickle
import traceback
import warnings
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any

import pyproducer
from pyproducer.common.sender_log import drain
from tests.support.patience import GIVE_UP_S

_OURS = str(Path(pyproducer.__file__).parent)
_DEEPEST = 20  # causes and contexts that are followed


class _Collector(logging.Handler):
    def __init__(self, hunt: SecretHunt) -> None:
        super().__init__(logging.NOTSET)
        self._hunt = hunt

    def emit(self, record: logging.LogRecord) -> None:
        self._hunt.look_text(f"log {record.name}", f"{record.getMessage()} {record.args!r}")
        if record.exc_info and record.exc_info[1] is not None:
            self._hunt.look_error(f"log {record.name}", record.exc_info[1])


class SecretHunt:
    """Looks for secrets, and for what they look like in base64 and in hexadecimal.

    Args:
        secrets: Each of at least four characters, and found nowhere by chance.
    """

    def __init__(self, *secrets: str) -> None:
        if min(map(len, secrets)) < 4:
            raise ValueError("a secret this short is found everywhere")
        self._spellings = {spelling: secret for secret in secrets for spelling in _spellings(secret)}
        self._collector = _Collector(self)
        self._warned: Any = None
        self.found: list[str] = []
        self.looked_at: set[str] = set()

    def __enter__(self) -> SecretHunt:
        self._level = logging.getLogger("pyproducer").level
        logging.getLogger().addHandler(self._collector)
        logging.getLogger("pyproducer").setLevel(logging.DEBUG)
        self._warned = warnings.catch_warnings(record=True)
        self._warnings = self._warned.__enter__()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        drain(GIVE_UP_S)  # what a thread is still to write
        self._warned.__exit__(kind, error, trace)
        logging.getLogger().removeHandler(self._collector)
        logging.getLogger("pyproducer").setLevel(self._level)
        for warning in self._warnings:
            self.look_text("warning", str(warning.message))
        if error is None and self.found:
            raise AssertionError("\n".join(self.found))

    def look(self, place: str, value: object) -> None:
        """Look at what a value shows of itself, and what a pickle of it holds, where it lets itself be pickled."""
        self.look_text(place, f"{value!r} {value!s}")
        try:
            pickled = pickle.dumps(value)
        except Exception:  # it refuses, as it should, or has parts that no pickle takes
            return
        self.look_text(f"pickle of {place}", pickled.decode("latin-1"))

    def look_text(self, place: str, text: str) -> None:
        """Look at a text."""
        self.looked_at.add(place)
        for spelling, secret in self._spellings.items():
            if spelling in text:
                at = text.index(spelling)
                self.found.append(f"{place} shows {secret!r}: ...{text[max(0, at - 60):at + len(spelling) + 20]}...")

    def look_error(self, place: str, error: BaseException) -> None:
        """Look at an error: text, arguments, attributes, causes, tracebacks with our frames' variables."""
        chain: list[BaseException] = []
        following: BaseException | None = error
        while following is not None and following not in chain and len(chain) < _DEEPEST:
            chain.append(following)
            following = following.__cause__ or (None if following.__suppress_context__ else following.__context__)
        for one in chain:
            self.look(place, one)
            self.look_text(place, f"{one.args!r} {vars(one)!r}")
            for frame, _ in traceback.walk_tb(one.__traceback__):
                if frame.f_code.co_filename.startswith(_OURS):
                    where = f"{place}, variables of {frame.f_code.co_name}"
                    # `self` and other objects show what their repr shows, as they do to a crash reporter.
                    self.look_text(where, " ".join(f"{name}={value!r}" for name, value in frame.f_locals.items()
                                                   if not _is_half_made(value)))

    @contextlib.contextmanager
    def errors(self, kind: type[BaseException] = Exception) -> Iterator[None]:
        """Look at what the block raises; without an error, nothing was tested, and that fails."""
        try:
            yield
        except kind as error:
            self.look_error(type(error).__name__, error)
        else:
            raise AssertionError("nothing was raised, so nothing was looked at")


def _is_half_made(value: object) -> bool:
    try:
        repr(value)
    except AttributeError:  # its constructor is what raised
        return True
    return False


def _spellings(secret: str) -> set[str]:
    raw = secret.encode()
    # Of a text in base64, what does not depend on what stands before and behind it.
    inner = {base64.b64encode(b"\0" * skip + raw)[4 if skip else 0:-4].decode() for skip in range(3)}
    return {secret, repr(secret)[1:-1], raw.hex(), *(text for text in inner if len(text) >= 8)}
