"""A partition that an answer left out was sent again as if no attempt could have stored it.

Reference: Ours, planted by a review; 132 seeds of this simulation did not find it.
Seen:      Records in the log that the application was told are not: the next attempt was refused, or none came in time.
Planted:   A batch of which the answer says nothing is not in doubt.
"""

from __future__ import annotations

from tests.simulation.museum import Edit

PATCH = (
    Edit("sender/completion.py", """
        for batch in left.values():
            batch.may_be_in_log = True
""", """
        for batch in left.values():
"""),
)
