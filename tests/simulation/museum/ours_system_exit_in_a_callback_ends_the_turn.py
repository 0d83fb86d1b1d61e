"""A callback that raised SystemExit or CancelledError ended what it was called by.

Reference: Ours, before the core was built anew.
Seen:      A sender thread that was gone without a word, and futures that never ended.
Planted:   What is no Exception gets through.
"""

from __future__ import annotations

from tests.simulation.museum import Edit

PATCH = (
    Edit("hotpath/_python.py", """
            except BaseException as error:  # whatever a callback raises""", """
            except Exception as error:  # whatever a callback raises"""),
)
