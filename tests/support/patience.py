"""How long the tests wait for what must come: so long that only what never comes is not there by then.

No test may fail because a machine is busy, so a wait has no upper bound that says anything; it ends only so that a run
with a test that hangs ends, too, and says what did not come. A machine with ten times the work that it can do has been
seen to need a minute for what takes a second. Ten minutes are another ten times that, and cost nothing where all is
well. What is promised about time is tested by a clock that the test moves, or as a lower bound.

The bounds lie inside each other, so that the one that knows most speaks first:

    GIVE_UP_S        a wait for one thing                   "topic orders has no leaders"
    PROGRAM_S        a program that has such waits itself    what it printed until then
    setup.cfg        a test                                  the stacks of all its threads

No import of pytest: programs that tests start have these waits, too. Who waits for `make near` has less patience, and
sets it (tests/near/run.py).
"""

from __future__ import annotations

import os

GIVE_UP_S = float(os.environ.get("PYPRODUCER_TEST_PATIENCE_S", "600"))
PROGRAM_S = 3 * GIVE_UP_S
