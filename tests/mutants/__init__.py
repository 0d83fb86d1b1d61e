"""How much the tests notice: small bugs are planted one at a time, and the nearest tests must fail.

    python -m tests.mutants --seed 10 --count 300     generated bugs, drawn from a seed
    python -m tests.mutants --kept                    the bugs of kept.py, which some version of the tests let pass

Road:    generate, kept -> [coverage_map: which tests run the line] -> run: one worker for each job -> report
Thread:  the main process has one thread for each worker process; a worker forks one process for each run of tests.
Source:  ours. A soak of minutes to hours, no part of `make test`.
"""
