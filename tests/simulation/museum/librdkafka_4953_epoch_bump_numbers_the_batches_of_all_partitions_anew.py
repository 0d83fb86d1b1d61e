"""One partition asked for a new epoch, and the batches on their way to all others were numbered again.

Reference: Librdkafka #4953.
Seen:      Values written twice during changes of leaders, though the producer was idempotent.
Planted:   An epoch bump starts every partition at 0, with whatever is on its way.
"""

from __future__ import annotations

from tests.simulation.museum import Edit

PATCH = (
    Edit("transaction/transaction_manager.py", """
        for topic_partition in ready:
            self._partitions[topic_partition].start_at_beginning(self.producer_id_and_epoch)
            self._unresolved.pop(topic_partition, None)
            del self._bump_requested_for[topic_partition]
""", """
        for partition in self._partitions.values():
            partition.start_at_beginning(self.producer_id_and_epoch)
        self._unresolved.clear()
        self._bump_requested_for.clear()
"""),
)
