"""How much the tests notice: small bugs are planted one at a time, and the nearest tests must fail.

    python -m tests.mutants --seed 10 --count 300     generated bugs of the whole package, drawn from a seed
    python -m tests.mutants --kept                    the bugs of kept.py, which some version of the tests let pass
    python -m tests.mutants --native --count 40       generated bugs of the compiled twin, built some twenty at once
    python -m tests.mutants --tiers simulation        the score: which bugs seeds of tests.simulation find

Each may be stopped and gone on with: --report FILE, and --resume the next time.

Road:    generate, native, kept -> [coverage_map: which tests run the line] -> run, or score -> report
Thread:  the main process has one thread for each worker process; a worker forks one process for each run of tests.
Source:  ours. A soak of minutes to hours, no part of `make test`.
"""
