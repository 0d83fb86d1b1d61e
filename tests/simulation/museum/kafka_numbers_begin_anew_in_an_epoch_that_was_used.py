"""Two attempts shared one producer id and epoch, and the second one numbered other records like the first.

Reference: A Spark sink whose tasks resume an epoch: Apache Kafka 4.1 answered the second attempt with the offsets of
           the first one's records, and its own are in no log.
Seen:      Records are acknowledged, their transaction is committed, and they are not there.
Planted:   init_transactions() for the id that the producer has asks nobody: numbers begin anew in the same epoch.
"""

from __future__ import annotations

from tests.simulation.museum import Edit

PATCH = (
    Edit("sender/requests/init_producer_id.py", """
    if pending.binds in transactions.prepared:
        return None  # what was prepared is looked at first, see prepared_check.py
""", """
    if pending.binds in transactions.prepared:
        return None  # what was prepared is looked at first, see prepared_check.py
    if manager.producer_id_and_epoch.is_valid and transactions.transactional_id == pending.binds:
        manager.on_producer_id(*manager.producer_id_and_epoch)
        transactions.on_initialized()
        return None
"""),
    Edit("accumulator/partition_sequence.py", """
        return (state is _FLOWING and self.owner == manager.producer_id_and_epoch
""", """
        return (state is _FLOWING and self.owner is manager.producer_id_and_epoch
"""),
    Edit("accumulator/partition_sequence.py", """
        if self.owner is not current and self.owner != current:
""", """
        if self.owner is not current:
"""),
)
