"""An EndTxn whose answer was lost came late, and ended the transaction that was begun after it.

Reference: Found by Jepsen on Bufstream 0.1.0; below Transactions V2 Apache Kafka 4.1 with Java's client is torn, too.
Seen:      Half of a transaction is committed with the one before, records of a committed one are missing.
Planted:   An EndTxn without an answer does not have the next transaction get an epoch of its own.
"""

from __future__ import annotations

from tests.simulation.museum import Edit

PATCH = (
    Edit("sender/requests/end_txn.py", """
        self._transaction.is_end_lost = True
        super().on_lost()
""", """
        self._transaction.is_end_lost = True
"""),
)
