"""Makes a failing seed smaller: fewer threads, records, kinds of faults, single faults, as long as it fails.

Source:  ours; delta debugging has the idea.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterator

from tests.simulation.plan import Plan
from tests.simulation.world import Report, run

LONGEST_S = 60.0


def shrink(failed: Report, longest_s: float = LONGEST_S) -> Report:
    """Return the report of the smallest plan that was found to fail, with its story."""
    best = run(dataclasses.replace(failed.plan, is_telling=True))
    if not best.wrong:
        failed.story = ["It does not fail again when its story is told: run it after the seeds before it."]
        return failed
    until = time.monotonic() + longest_s
    is_smaller = True
    while is_smaller and time.monotonic() < until:
        is_smaller = False
        for plan in _smaller(best):
            if time.monotonic() >= until:
                break
            report = run(plan)
            if report.wrong:
                best, is_smaller = report, True
                break
    return best


def _smaller(report: Report) -> Iterator[Plan]:
    plan = report.plan
    if not plan.calm:
        yield dataclasses.replace(plan, calm=True)
    if plan.caller_limit is None:
        yield dataclasses.replace(plan, caller_limit=1)
    count = sum(report.fates.values())
    for limit in (count // 8, count // 4, count // 2, count * 3 // 4):
        if limit > 0 and (plan.record_limit is None or limit < plan.record_limit):
            yield dataclasses.replace(plan, record_limit=limit)
    for kind in sorted(report.fired):
        if kind not in plan.without:
            yield dataclasses.replace(plan, without=plan.without | {kind})
    for number in range(1, min(report.fault_count, 40) + 1):
        if number not in plan.spared:
            yield dataclasses.replace(plan, spared=plan.spared | {number})
