"""The tests that an edit is most likely to break, within seconds: `make near`, or `python -m tests.near --help`.

Road:    git diff -> changes: places of the source -> choose: tests, nearest first -> run: both twins where it matters
         -> session: pytest, until one fails
Source:  ours. Which test runs which line is tests/mutants/coverage_map.py; without such a map the mirrored files run.
"""
