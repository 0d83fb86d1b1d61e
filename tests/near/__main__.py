"""The command: what changed, which tests that asks for, and whether they pass.

Road:    arguments -> changes -> choose -> run
Source:  ours.
"""

from __future__ import annotations

import argparse
import resource
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from tests.mutants import coverage_map
from tests.mutants.coverage_map import file_of
from tests.mutants.measured import Measured
from tests.near.changes import Change, NoRepository, changes, earlier, merge_base
from tests.near.choose import Choice, Chooser
from tests.near.run import run

ROOT = Path(__file__).resolve().parents[2]
MEASURE = "python -m tests.near --measure"
UNUSABLE = 2  # the exit status when nothing can be said
MOST_NAMED = 4  # of a list


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; 0 when what ran passed, 1 when something failed, 2 when there is nothing to compare with."""
    options = _parser().parse_args(arguments)
    started = time.monotonic()
    if options.measure:
        _measure(options.jobs)
    try:
        found = _changes(options)
    except NoRepository as error:
        print(f"near: nothing to compare with: {error}", file=sys.stderr)
        return UNUSABLE
    if found is None:
        print("near: there is no earlier commit here, so nothing is known to have changed")
        return 0
    if not found:
        print("near: nothing changed")
        return 0
    tiers = tuple(options.tiers.split(","))
    covering = coverage_map.load(ROOT, (), tiers=tiers)
    choice = Chooser(ROOT, covering, tiers).choose(found, seconds=options.seconds, count=options.count)
    for sentence in choice.said:
        print(f"near: {sentence}")
    if choice.unread:
        print(f"near: no file of tests is known to import or read {_some(choice.unread)}")
    if choice.slow:
        print(f"near: changed and left out, because they may take long: {_some(choice.slow)}; run them by name")
    if choice.broken:
        print("near: does not parse: " + "; ".join(choice.broken), file=sys.stderr)
        return 1
    _tell(found, choice, has_map=bool(covering.seconds))
    if options.list:
        print("\n".join(choice.entries))
        return 0
    if not choice.entries:
        return 0
    ended = run(ROOT, choice, seconds=options.seconds, to_the_end=options.all_failures)
    for each in ended:
        left = f", {len(each.not_run)} were not begun because the time was over" if each.not_run else ""
        print(f"near: {each.twin}: {each.ran} tests ran, {len(each.failed)} failed{left}")
    if choice.left_out:
        files = list(dict.fromkeys(file_of(entry) for entry in choice.left_out))
        print(f"near: left out: {len(choice.left_out)} tests of {_some(files)}; --seconds and --count take more")
    if not covering.seconds:
        print(f"near: these are the files that mirror the change: `{MEASURE}` makes the map of which test runs which "
              "line, once (a quarter of an hour of CPU)")
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    print(f"near: {time.monotonic() - started:.1f} s, {sum(each.ru_utime + each.ru_stime for each in used):.1f} of CPU")
    return 1 if any(each.status for each in ended) else 0


def _changes(options: argparse.Namespace) -> list[Change] | None:
    if options.commits:
        base = earlier(ROOT, options.commits)
        return None if base is None else changes(ROOT, base)
    return changes(ROOT, merge_base(ROOT, options.since) if options.since else "HEAD")


def _tell(found: Sequence[Change], choice: Choice, *, has_map: bool) -> None:
    print(f"near: changed: {_some([change.path for change in found])}")
    print(f"near: to run: {len(choice.changed)} changed tests or files of them, {len(choice.covering)} "
          f"{'that run what changed' if has_map else 'files that mirror what changed'}", flush=True)


def _some(names: Sequence[str]) -> str:
    more = len(names) - MOST_NAMED
    return ", ".join(names[:MOST_NAMED]) + (f" and {more} more" if more > 0 else "")


def _measure(jobs: int) -> None:
    from tests.mutants.run import copies  # not where tests only run: it is a start of its own

    known = Measured(ROOT)
    stale = coverage_map.stale_files(known, coverage_map.files_of_tiers(ROOT, coverage_map.TIERS), anew=True)
    if stale:
        with copies(ROOT, jobs) as made:
            failed = coverage_map.measure(known, made, stale)
        if failed:
            print(f"near: these failed while they were measured: {_some(sorted(failed))}", file=sys.stderr)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.near", description=__doc__.splitlines()[0])
    parser.add_argument("--since", metavar="REF", help="what changed since this branch left REF (default: since HEAD)")
    parser.add_argument("--commits", type=int, default=0, metavar="N", help="what changed in the last N commits")
    parser.add_argument("--all-failures", action="store_true", help="go on after the first failure")
    parser.add_argument("--seconds", type=float, default=30.0, help="run tests for so long and begin none after it, "
                        "on both twins together (default %(default)s)")
    parser.add_argument("--count", type=int, default=400, help="run no more covering tests than this (default "
                        "%(default)s)")
    parser.add_argument("--tiers", default=",".join(coverage_map.TIERS), help="folders of tests/ (default %(default)s)")
    parser.add_argument("--list", action="store_true", help="show what would run")
    parser.add_argument("--measure", action="store_true", help="measure first what the map does not know, or not as it "
                        "is now")
    parser.add_argument("--jobs", type=int, default=2, help="processes that measure (default 2)")
    return parser


if __name__ == "__main__":
    sys.exit(main())
