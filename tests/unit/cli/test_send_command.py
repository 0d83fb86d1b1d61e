"""`pyproducer send` without a broker: what it refuses, and what it keeps of lines that fail on two threads at once."""

from __future__ import annotations

import io
import threading
from collections.abc import Callable
from typing import Any, cast

import pytest
from click.testing import CliRunner

from pyproducer.cli.main import main
from pyproducer.cli.progress import Progress
from pyproducer.cli.records_in import Format, records_of
from pyproducer.cli.send_command import _Sending
from pyproducer.common.errors import DisconnectedError
from pyproducer.testing import MockProducer
from tests.support.patience import GIVE_UP_S


class WatchedLock:
    """A lock that calls who finds it taken."""

    def __init__(self, on_taken: Callable[[], None]) -> None:
        self._lock = threading.RLock()
        self._on_taken = on_taken

    def __enter__(self) -> None:
        if not self._lock.acquire(blocking=False):
            self._on_taken()
            self._lock.acquire()

    def __exit__(self, *_error: object) -> None:
        self._lock.release()


class Disk(io.BytesIO):
    """A file of failed lines, before whose first something else happens."""

    before_first: Callable[[], None] | None = None

    def write(self, content: Any, /) -> int:
        before_first, self.before_first = self.before_first, None
        if before_first is not None:
            before_first()
        return super().write(content)


def test_failed_lines_when_the_producer_tells_of_one_while_another_is_kept_then_each_is_whole_and_names_come_first(
        capsys: pytest.CaptureFixture[str]) -> None:
    """With its fields' names below a line, a csv file could not be sent again."""
    producer = MockProducer(auto_complete=False)
    disk, waits_or_is_through = Disk(), threading.Event()
    run = _Sending(cast("Any", producer), "orders", None, disk)
    run._lock = cast("Any", WatchedLock(waits_or_is_through.set))

    def fail() -> None:
        producer.error_next(DisconnectedError("the broker is gone"))
        waits_or_is_through.set()

    teller = threading.Thread(target=fail)

    def fail_beside() -> None:
        teller.start()
        assert waits_or_is_through.wait(GIVE_UP_S)

    disk.before_first = fail_beside
    run.send_records(records_of([[b"id,name", b"1,one", b"2,two,many"]], Format("csv", key_field="id")), Progress())
    teller.join(GIVE_UP_S)
    assert disk.getvalue() == b"id,name\n2,two,many\n1,one\n"
    assert [line.partition(":")[0] for line in capsys.readouterr().err.splitlines()] == ["line 3", "line 2"]


@pytest.mark.parametrize(("kind", "option", "fits"), [
    ("lines", "--key-field", "json or csv"), ("lines", "--value-field", "json or csv"),
    *((kind, option, "lines") for kind in ("json", "csv")
      for option in ("--key-separator", "--headers-separator", "--null-marker"))])
def test_option_when_it_has_no_meaning_in_the_format_then_it_is_refused(kind: str, option: str, fits: str) -> None:
    """With --key-field and without --format every line was stored, and none had a key."""
    done = CliRunner().invoke(main, ["send", "-b", "x:1", "--format", kind, option, "id", "orders"], input="a\n")
    assert done.exit_code == 2, done.output
    assert f"{option} is an option of --format {fits}, and the format is {kind}" in done.output
