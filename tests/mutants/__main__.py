"""The command: draws mutants, runs them, prints what the tests did not notice.

Road:    arguments -> generate or kept -> coverage_map -> run -> report
Source:  ours.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from tests.mutants import coverage_map, equivalent, generate, kept, native, report, score
from tests.mutants.generate import OF_THE_SIMULATION, Mutant, candidates, target_files
from tests.mutants.run import EQUIVALENT, Verdict, copies, run

ROOT = Path(__file__).resolve().parents[2]
SIMULATION = "simulation"
UNUSABLE = 2  # the exit status when nothing can be said


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; 0 when every mutant was noticed or is no bug, 1 when one was not, 2 when there is no verdict."""
    options = _parser().parse_args(arguments)
    is_score = options.tiers == SIMULATION
    files = native.files(ROOT) if options.native else target_files(ROOT, OF_THE_SIMULATION if is_score else "")
    sources = {path: (ROOT / path).read_text() for path in files}
    try:
        mutants = _mutants(options, sources)
    except ValueError as error:
        print(error, file=sys.stderr)
        return UNUSABLE
    sources |= {mutant.path: (ROOT / mutant.path).read_text() for mutant in mutants}
    if options.list:
        for mutant in mutants:
            print(f"{mutant.mutant_id}   in {mutant.function}\n{mutant.diff(sources[mutant.path])}\n")
        return 0
    known = report.read_rows(options.report, mutants, sources) if options.report and options.resume else []
    if options.report and not options.resume:
        options.report.write_text("")

    def tell(verdict: Verdict) -> None:
        print(report.one_line(verdict), file=sys.stderr, flush=True)
        if options.report:
            report.write_row(options.report, verdict, sources[verdict.mutant.path])

    left = [mutant for mutant in mutants if mutant not in {verdict.mutant for verdict in known}]
    try:
        by_mutant = {verdict.mutant: verdict for verdict in [*known, *_judge(options, left, tell)]}
    except coverage_map.NotGreen as error:
        print(f"the tests are not green as they stand, so no mutant can be judged: {error}", file=sys.stderr)
        return UNUSABLE
    verdicts = [by_mutant[mutant] for mutant in mutants if mutant in by_mutant]  # but for what does not compile
    for verdict in verdicts:
        if verdict.outcome == EQUIVALENT:
            print(report.describe(verdict, sources[verdict.mutant.path]))
    unnoticed = report.unnoticed(verdicts)
    for verdict in unnoticed:
        print(f"\n{report.describe(verdict, sources[verdict.mutant.path])}")
    print(f"\n{report.totals(verdicts)}")
    if is_score:
        print(report.score(verdicts))
    return 1 if unnoticed else 0


def _judge(options: argparse.Namespace, mutants: Sequence[Mutant], tell: Callable[[Verdict], None]) -> list[Verdict]:
    with copies(ROOT, 1 if options.native else options.jobs) as made:
        if options.tiers == SIMULATION:
            baseline = score.measure(ROOT, made, options.seeds)
            seed_s = sum(baseline.cpu_s.values()) / max(1, len(baseline.cpu_s))
            print(f"{len(baseline.cpu_s)} seeds, {seed_s:.2f} CPU seconds each while they are watched; without any "
                  f"mutant {len(baseline.wrong)} find something", file=sys.stderr, flush=True)
            return score.run(mutants, made, baseline, equivalent.reasons(), tell=tell)
        if options.native:
            return native.run(mutants, ROOT, made[0], tell=tell)
        covering = coverage_map.load(ROOT, made, tiers=options.tiers.split(","), left_out=options.leave_out,
                                     anew=options.measure)
        return run(mutants, made, covering, equivalent.reasons(), far_budget_s=options.far_budget, tell=tell)


def _mutants(options: argparse.Namespace, sources: dict[str, str]) -> list[Mutant]:
    if options.kept:
        mutants = kept.mutants(ROOT)
    elif options.ids:
        wanted = {path for path in sources if any(name.startswith(path.split("/", 1)[1]) for name in options.ids)}
        mutants = [mutant for path in sorted(wanted) for mutant in candidates(path, sources[path])]
        mutants += kept.mutants(ROOT)
    else:
        drawn = (native if options.native else generate).draw(sources, seed=options.seed, count=options.count)
        if options.last:
            mutants = drawn[-options.last:]
        else:
            mutants = drawn[:len(drawn) - options.skip_last] if options.skip_last else drawn
    if options.ids:
        chosen = [mutant for mutant in mutants if mutant.mutant_id in options.ids or mutant.operator in options.ids]
        missing = [name for name in options.ids
                   if not any(name in (mutant.mutant_id, mutant.operator) for mutant in chosen)]
        if missing:
            raise ValueError(f"no such mutants: {', '.join(missing)}")
        return chosen
    return [mutant for mutant in mutants if mutant.path.split("/", 1)[1].startswith(options.only)]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=10, help="of the drawing (default 10)")
    parser.add_argument("--count", type=int, default=300, help="how many are drawn (default 300)")
    parser.add_argument("--skip-last", type=int, default=0, metavar="K", help="leave out the last K that are drawn: "
                        "whoever writes tests does not look at all of them")
    parser.add_argument("--last", type=int, default=0, metavar="K", help="run only the last K that are drawn")
    parser.add_argument("--kept", action="store_true", help="run the kept mutants instead of drawn ones")
    parser.add_argument("--native", action="store_true", help="of the compiled twin, built some twenty at once")
    parser.add_argument("--only", default="", metavar="PREFIX", help="only files whose path within the package "
                        "begins so")
    parser.add_argument("--ids", nargs="+", default=[], metavar="ID", help="these mutants, drawn or not; a kept one by "
                        "its name")
    parser.add_argument("--jobs", type=int, default=2, help="worker processes (default 2)")
    parser.add_argument("--tiers", default=",".join(coverage_map.TIERS), help="folders of tests/ to run (default all "
                        "of %(default)s); simulation alone: its score, by seeds, of what it sees")
    parser.add_argument("--seeds", type=int, default=300, help="of the simulation, for one mutant (default 300)")
    parser.add_argument("--leave-out", nargs="+", default=[], metavar="FILE", help="test files that are not to run, "
                        "because they fail without any mutant")
    parser.add_argument("--measure", action="store_true", help="measure first which lines tests run, for each test "
                        "file that ran a line which has changed since")
    parser.add_argument("--far-budget", type=float, default=60.0, metavar="SECONDS", help="of tests beyond the unit "
                        "tests, for one mutant (default 60)")
    parser.add_argument("--report", type=Path, metavar="FILE", help="also write one line of JSON for each mutant")
    parser.add_argument("--resume", action="store_true", help="go on with the report of a run that was stopped")
    parser.add_argument("--list", action="store_true", help="show the mutants and run nothing")
    return parser


if __name__ == "__main__":
    sys.exit(main())
