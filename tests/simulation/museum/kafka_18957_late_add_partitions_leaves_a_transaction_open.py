"""An AddPartitionsToTxn whose answer was lost came when its transaction had ended, and began another one.

Reference: KAFKA-18957.
Seen:      A transaction that nobody ends hangs until transaction.timeout.ms: who reads what is committed stands still.
Planted:   An AddPartitionsToTxn without an answer does not have the next transaction get an epoch of its own.
"""

from __future__ import annotations

from tests.simulation.museum import Edit

PATCH = (
    Edit("sender/requests/own_request.py", """
        self._transaction.note_lost(self.api_key.title)
""", """
        if self.api_key is not ApiKeys.ADD_PARTITIONS_TO_TXN:
            self._transaction.note_lost(self.api_key.title)
"""),
)
