"""A signal's handler that forks before any line of a call: in the child, which has one thread, the call comes back."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pyproducer.common.waiting import Cell
from tests.support.patience import GIVE_UP_S, PROGRAM_S
from tests.unit.producer.facade import Facades
from tests.unit.producer.forking_call import CAME_BACK, WRONG_END

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="processes do not fork here")
ROOT = Path(__file__).resolve().parents[3]


def cases() -> Iterator[Any]:
    """Yield names of calls and what a fork makes of the producer; a child's millisecond is one of the system's."""
    for name in ("result", "rows' result", "flush", "send", "close"):
        yield name, "refuse"
    for name in ("exception", "rows' exceptions", "send_batch", "send to an unknown topic", "partitions_for",
                 "add_done_callback"):
        yield pytest.param(name, "refuse", marks=pytest.mark.soak)
    yield "close", "rebuild"
    for name in ("result", "rows' result", "flush", "send", "send_batch"):
        yield pytest.param(name, "rebuild", marks=pytest.mark.soak)


@pytest.mark.parametrize(("name", "fork"), list(cases()))
def test_call_when_the_process_is_forked_before_any_of_its_lines_then_it_comes_back_in_the_child(
        name: str, fork: str) -> None:
    """One that was about to wait, and had seen that this is no child, waited there for a thread of the parent's."""
    ended = subprocess.run([sys.executable, "-m", "tests.unit.producer.forking_call", name, fork], cwd=ROOT,
                           stdout=subprocess.PIPE, text=True, timeout=PROGRAM_S, check=True)
    told = json.loads(ended.stdout)
    assert told["wrong"] == []
    assert told["lines"] > 5


@pytest.mark.parametrize("is_over", [False, True])
def test_wait_for_the_end_when_forked_as_the_sender_thread_rings_then_the_child_goes_on(
        facades: Facades, is_over: bool) -> None:
    """The sender's thread had taken the cell out, and was to open it: in the child it is not there any more."""
    facade = facades()
    life, wait = facade.producer._runtime.life, facade.producer._runtime.clock.wait
    children: list[int] = []

    def forking_wait(cell: Cell, timeout_s: float | None) -> bool:
        life._over._cells.clear()
        life.is_over = is_over
        children.append(os.fork())
        if not children[0]:
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.alarm(int(GIVE_UP_S))
            os._exit(CAME_BACK if wait(cell, timeout_s) else WRONG_END)
        life.is_over = False
        return True

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(life._clock, "wait", forking_wait)
        assert life.await_end(None)
    _, status = os.waitpid(children[0], 0)
    assert os.waitstatus_to_exitcode(status) == CAME_BACK
