"""A producer that was fenced took a later failure for one that an abort mends, and went on.

Reference: aiokafka's transaction manager: from its fatal state a batch that fails leads to the abortable one.
Seen:      A fenced producer asks to abort, again and again, where only another producer helps.
Planted:   A failure leads out of FATAL_ERROR, as out of the other states.
"""

from __future__ import annotations

from tests.simulation.museum import Edit

PATCH = (
    Edit("transaction/transactions.py", """
_OPEN = frozenset({_S.IN_TRANSACTION,""", """
_OPEN = frozenset({_S.FATAL_ERROR, _S.IN_TRANSACTION,"""),
    Edit("transaction/transactions.py", """
        if transaction_errors.is_fatal(error) and (states is _OPEN or self._position[0] in states):
""", """
        if transaction_errors.is_fatal(error) and self._position[0] is not _S.FATAL_ERROR:
"""),
    Edit("transaction/transaction_state.py", """
    (_S.ABORTABLE_ERROR, _E.FAIL): _S.ABORTABLE_ERROR,
""", """
    (_S.ABORTABLE_ERROR, _E.FAIL): _S.ABORTABLE_ERROR,
    (_S.FATAL_ERROR, _E.FAIL): _S.ABORTABLE_ERROR,
"""),
)
