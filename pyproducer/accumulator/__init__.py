"""Records between send() and the wire: batches per partition, memory, futures."""
