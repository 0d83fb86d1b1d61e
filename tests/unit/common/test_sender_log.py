"""What the sender has to say: written at once, by a thread or after the turn, and never a wait for anybody's lock."""

from __future__ import annotations

import io
import logging
import os
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pyproducer.common import sender_log as sender_log_module
from pyproducer.common.sender_log import (
    MOST_LINES,
    drain,
    has_kept,
    sender_log,
    watch,
    write_kept,
)
from tests.support.patience import GIVE_UP_S

NAME = "test_sender_log"


class Turns:
    """A producer whose turns the current thread takes, or not."""

    def __init__(self) -> None:
        self.is_on_sender_thread = False
        self.role: Any = self
        self.caller = 0


class Own(logging.Handler):
    """A handler of the application's, which waits for what it likes."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[tuple[str, str | None]] = []
        self.may_go_on = threading.Event()
        self.may_go_on.set()
        self.raising: Exception | None = None

    def emit(self, record: logging.LogRecord) -> None:
        self.may_go_on.wait(GIVE_UP_S)
        if self.raising is not None:
            raise self.raising
        self.lines.append((record.getMessage(), threading.current_thread().name))


class Disk(io.BytesIO):
    """What a log is written to, which knows who wrote there."""

    def __init__(self) -> None:
        super().__init__()
        self.writers: set[str] = set()

    def write(self, content: Any, /) -> int:
        self.writers.add(threading.current_thread().name)
        return super().write(content)

    def handler(self) -> logging.Handler:
        return logging.StreamHandler(io.TextIOWrapper(self, encoding="utf-8", newline="\n"))


@pytest.fixture
def turns() -> Iterator[Turns]:
    owner = Turns()
    watch(owner)
    yield owner
    owner.is_on_sender_thread = False


@pytest.fixture
def logger() -> Iterator[logging.Logger]:
    found = logging.getLogger(NAME)
    before = found.level, found.propagate, found.disabled
    yield found
    found.handlers.clear()
    found.filters.clear()
    found.setLevel(before[0])
    found.propagate, found.disabled = before[1:]
    assert drain(GIVE_UP_S)


def with_handler(logger: logging.Logger, handler: Any) -> Any:
    logger.addHandler(handler)
    logger.propagate = False
    return handler


LOG = sender_log(NAME)


def test_line_when_its_handlers_are_loggings_own_then_it_is_written_at_once_with_its_place(
        turns: Turns, logger: logging.Logger, caplog: pytest.LogCaptureFixture) -> None:
    turns.is_on_sender_thread = True
    LOG.warning("one of %d", 3)
    [record] = caplog.records
    assert (record.getMessage(), record.name, record.levelname) == ("one of 3", NAME, "WARNING")
    assert (record.filename, record.funcName) == (Path(__file__).name, sys._getframe().f_code.co_name)
    assert record.thread == threading.get_ident()


def test_line_when_logging_was_set_up_plainly_then_no_thread_begins(turns: Turns, logger: logging.Logger) -> None:
    disk = Disk()
    with_handler(logger, disk.handler()).setFormatter(logging.Formatter("%(levelname)s %(message)s"))
    turns.is_on_sender_thread = True
    LOG.error("plain")
    assert drain(GIVE_UP_S)
    assert disk.getvalue() == b"ERROR plain\n"
    assert disk.writers == {threading.current_thread().name}


@pytest.mark.parametrize("last_resort", [Own(), None], ids=["of the application", "none"])
def test_line_when_it_has_handlers_then_loggings_last_resort_has_no_part_in_it(
        turns: Turns, logger: logging.Logger, monkeypatch: pytest.MonkeyPatch, last_resort: Own | None) -> None:
    monkeypatch.setattr(logging, "lastResort", last_resort)
    disk = Disk()
    with_handler(logger, disk.handler())
    turns.is_on_sender_thread = True
    LOG.warning("plain")
    assert drain(GIVE_UP_S)
    assert disk.getvalue() == b"plain\n"
    assert disk.writers == {threading.current_thread().name}
    assert last_resort is None or not last_resort.lines


def test_line_when_there_is_no_handler_and_no_last_resort_then_it_is_lost_and_no_thread_begins(
        turns: Turns, logger: logging.Logger, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logging, "lastResort", None)
    started: list[str] = []

    def none(_target: object, name: str) -> None:
        started.append(name)
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(sender_log_module, "start_daemon", none)
    logger.propagate = False
    turns.is_on_sender_thread = True
    LOG.warning("nobody reads it")
    monkeypatch.undo()
    assert started == []


def test_line_when_its_handlers_lock_is_taken_then_nobody_waits_and_a_thread_writes_it(
        turns: Turns, logger: logging.Logger) -> None:
    stream = io.StringIO()
    handler = with_handler(logger, logging.StreamHandler(stream))
    turns.is_on_sender_thread = True
    taken, done = threading.Event(), threading.Event()

    def hold() -> None:
        with handler.lock:
            taken.set()
            done.wait(GIVE_UP_S)

    holder = threading.Thread(target=hold)
    holder.start()
    taken.wait(GIVE_UP_S)
    try:
        LOG.warning("first")
        LOG.warning("second")
        assert stream.getvalue() == ""
    finally:
        done.set()
        holder.join()
    assert drain(GIVE_UP_S)
    assert stream.getvalue() == "first\nsecond\n"
    LOG.warning("third")
    assert stream.getvalue().endswith("third\n"), "at once again"


def test_line_when_a_handler_is_the_applications_then_a_thread_writes_it_in_order(
        turns: Turns, logger: logging.Logger) -> None:
    own = with_handler(logger, Own())
    own.may_go_on.clear()
    turns.is_on_sender_thread = True
    for number in range(20):
        LOG.info("not enabled")
        LOG.warning("line %d", number)
    assert own.lines == []
    own.may_go_on.set()
    assert drain(GIVE_UP_S)
    assert own.lines == [(f"line {number}", "kafka-producer-log") for number in range(20)]


@pytest.mark.parametrize("what", ["filter of the logger", "filter of the handler", "formatter", "stream"])
def test_line_when_anything_of_the_applications_has_a_part_in_it_then_a_thread_writes_it(
        turns: Turns, logger: logging.Logger, what: str) -> None:
    writers: list[str] = []

    class OfTheApplication(logging.Formatter):
        def note(self, *_arguments: Any) -> bool:
            writers.append(threading.current_thread().name)
            return True

        filter = write = note

        def format(self, record: logging.LogRecord) -> str:
            self.note()
            return "formatted"

    own = OfTheApplication()
    handler = with_handler(logger, logging.StreamHandler(own if what == "stream" else io.StringIO()))  # type: ignore[type-var]
    if what == "filter of the logger":
        logger.addFilter(own.filter)
    elif what == "filter of the handler":
        handler.addFilter(own.filter)
    elif what == "formatter":
        handler.setFormatter(own)
    turns.is_on_sender_thread = True
    LOG.warning("a line")
    assert drain(GIVE_UP_S)
    assert set(writers) == {"kafka-producer-log"}


def test_caller_when_he_takes_a_turn_then_his_lines_are_written_by_himself_after_it(
        turns: Turns, logger: logging.Logger) -> None:
    own = with_handler(logger, Own())
    turns.is_on_sender_thread, turns.caller = True, threading.get_ident()
    LOG.warning("in the turn")
    assert own.lines == []
    assert has_kept()
    turns.is_on_sender_thread, turns.caller = False, 0
    write_kept()
    assert own.lines == [("in the turn", threading.current_thread().name)]
    assert not has_kept()


def test_line_when_nobody_takes_a_turn_then_it_is_written_at_once_whatever_the_handler_is(
        turns: Turns, logger: logging.Logger) -> None:
    own = with_handler(logger, Own())
    LOG.warning("at once")
    assert own.lines == [("at once", threading.current_thread().name)]


def test_level_when_loggings_own_lock_is_taken_then_nobody_waits_to_ask_for_it(
        turns: Turns, logger: logging.Logger, caplog: pytest.LogCaptureFixture) -> None:
    """A handler that makes a producer and checks it, inside dictConfig, which has that lock: both stood still."""
    turns.is_on_sender_thread = True
    logger.setLevel(logging.INFO)  # forgets what was asked before
    taken, done = threading.Event(), threading.Event()

    def hold() -> None:
        with logging._lock:  # type: ignore[attr-defined]  # typeshed has none
            taken.set()
            done.wait(GIVE_UP_S)

    holder = threading.Thread(target=hold)
    holder.start()
    taken.wait(GIVE_UP_S)
    try:
        LOG.debug("not enabled")
        LOG.info("told")
        assert caplog.messages == ["told"]
    finally:
        done.set()
        holder.join()


def test_level_when_it_is_asked_for_then_all_that_logging_knows_counts(logger: logging.Logger) -> None:
    logger.setLevel(logging.INFO)
    assert LOG.isEnabledFor(logging.INFO)
    assert not LOG.isEnabledFor(logging.DEBUG)
    logger.disabled = True
    assert not LOG.isEnabledFor(logging.ERROR)
    logger.disabled = False
    logging.disable(logging.WARNING)
    try:
        assert not LOG.isEnabledFor(logging.WARNING)
        assert LOG.isEnabledFor(logging.ERROR)
    finally:
        logging.disable(logging.NOTSET)
    logger.setLevel(logging.NOTSET)
    assert LOG.isEnabledFor(logging.WARNING) == logger.isEnabledFor(logging.WARNING)


def test_exception_when_a_thread_writes_it_then_it_has_its_traceback(turns: Turns, logger: logging.Logger) -> None:
    found: list[Any] = []

    class Keeping(Own):
        def emit(self, record: logging.LogRecord) -> None:
            found.append(record.exc_info)

    with_handler(logger, Keeping())
    turns.is_on_sender_thread = True
    error = ValueError("a bug")
    try:
        raise error
    except ValueError as caught:
        LOG.exception("handled")
        LOG.warning("given", exc_info=caught)
        LOG.error("handled, too", exc_info=True)
    LOG.log(logging.WARNING, "none")
    assert drain(GIVE_UP_S)
    assert [info and info[1] for info in found] == [error, error, error, None]
    assert all(info[2] is not None for info in found[:3])


def test_handler_when_it_raises_then_later_lines_are_written_and_somebody_is_told(
        turns: Turns, logger: logging.Logger, capsys: pytest.CaptureFixture[str]) -> None:
    own = with_handler(logger, Own())
    own.raising = RuntimeError("the application's bug")
    turns.is_on_sender_thread = True
    LOG.warning("lost")
    assert drain(GIVE_UP_S)
    own.raising = None
    LOG.warning("told")
    assert drain(GIVE_UP_S)
    assert [line for line, _ in own.lines] == ["told"]
    assert "the application's bug" in capsys.readouterr().err


def test_lines_when_more_come_than_are_kept_then_the_others_are_counted(turns: Turns, logger: logging.Logger) -> None:
    own = with_handler(logger, Own())
    logging.getLogger(sender_log_module.__name__).addHandler(own)
    try:
        own.may_go_on.clear()
        turns.is_on_sender_thread = True
        LOG.warning("line")
        deadline = time.monotonic() + GIVE_UP_S
        while sender_log_module._waiting and time.monotonic() < deadline:
            time.sleep(0.001)  # the thread has taken it
        for _ in range(MOST_LINES + 7):
            LOG.warning("line")
        own.may_go_on.set()
        assert drain(GIVE_UP_S)
    finally:
        logging.getLogger(sender_log_module.__name__).removeHandler(own)
    assert len(own.lines) == MOST_LINES + 2
    assert own.lines[-1][0] == "7 lines were left out here: the log's handlers took too long"


def test_thread_when_none_can_be_had_then_the_line_waits_for_the_next_or_the_exit(
        turns: Turns, logger: logging.Logger, monkeypatch: pytest.MonkeyPatch) -> None:
    own = with_handler(logger, Own())
    turns.is_on_sender_thread = True

    def none(*_arguments: object) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patched:
        patched.setattr(sender_log_module, "start_daemon", none)
        LOG.warning("first")
    assert own.lines == []
    LOG.warning("second")
    assert drain(GIVE_UP_S)
    assert [line for line, _ in own.lines] == ["first", "second"]
    with monkeypatch.context() as patched:
        patched.setattr(sender_log_module, "start_daemon", none)
        LOG.warning("third")
    turns.is_on_sender_thread = False
    assert drain(GIVE_UP_S)
    assert [line for line, _ in own.lines] == ["first", "second", "third"]


def test_drain_when_a_handler_never_comes_back_then_its_time_is_over(turns: Turns, logger: logging.Logger) -> None:
    own = with_handler(logger, Own())
    own.may_go_on.clear()
    turns.is_on_sender_thread = True
    LOG.warning("stuck")
    assert not drain(0.05)
    own.may_go_on.set()


def test_writers_when_several_put_lines_down_at_once_then_each_is_written_once(
        turns: Turns, logger: logging.Logger) -> None:
    own = with_handler(logger, Own())
    turns.is_on_sender_thread = True
    threads = [threading.Thread(target=lambda name=name: [LOG.warning("%s %d", name, number) for number in range(200)])
               for name in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert drain(GIVE_UP_S)
    lines = [line for line, _ in own.lines]
    assert len(lines) == 800
    for name in "abcd":
        assert [line for line in lines if line.startswith(name)] == [f"{name} {number}" for number in range(200)]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_child_when_the_parent_had_lines_to_write_then_they_are_the_parents(
        turns: Turns, logger: logging.Logger) -> None:
    own = with_handler(logger, Own())
    own.may_go_on.clear()
    turns.is_on_sender_thread = True
    LOG.warning("the parent's")

    child = os.fork()
    if not child:
        code = 1
        try:
            own.may_go_on = threading.Event()
            own.may_go_on.set()
            LOG.warning("the child's")
            if drain(GIVE_UP_S) and [line for line, _ in own.lines] == ["the child's"]:
                code = 0
        finally:
            os._exit(code)
    assert os.waitpid(child, 0)[1] == 0
    own.may_go_on.set()
    assert drain(GIVE_UP_S)
    assert [line for line, _ in own.lines] == ["the parent's"]
