"""Producer ids that nobody has had in this data directory.

Road:    InitProducerId, transaction coordinator -> [producer ids] -> cluster file
Thread:  any; takes the store's lock.
Source:  Java ProducerIdControlManager, RPCProducerIdManager (4.1).
"""

from __future__ import annotations

from pyproducer.broker.cluster.cluster_store import ClusterStore

# Java ProducerIdsBlock.PRODUCER_ID_BLOCK_SIZE: ids are reserved on disk in blocks, and the rest of a block is lost
# when the broker stops.
PRODUCER_ID_BLOCK_SIZE = 1000


class ProducerIds:
    """Gives them out."""

    def __init__(self, store: ClusterStore) -> None:
        self._store = store
        self._next = store.content.next_producer_id  # guarded by the store's lock

    def next_producer_id(self) -> int:
        """Return the next one.

        Raises:
            OSError: No block of ids could be reserved; none was given.
        """
        with self._store.lock:
            producer_id = self._next
            if producer_id >= self._store.content.next_producer_id:
                self._store.save(next_producer_id=producer_id + PRODUCER_ID_BLOCK_SIZE)
            self._next = producer_id + 1
            return producer_id
