"""The same producer for an event loop, which it never holds up.

    async with AsyncKafkaProducer({"bootstrap.servers": ...}) as producer:
        metadata = await producer.send("topic", b"value")        # stored, or it raises why not
        future = producer.send_nowait("topic", b"value")         # handed over; await it, or do not
        await producer.flush()

What a thread would sleep for a task awaits: metadata in the waiting room, as everywhere; memory in a line of its own,
first come, first served, where records of a topic that is not known do not stop others (memory_lines.py); outcomes by
the loop's inbox, which wakes it once for all records of an answer. So it is with flush(), partitions_for() and what
waits for a transaction's coordinator: a task that is cancelled leaves nothing behind. send_batch(),
which encodes, runs on a thread, one call after the other; and close() on one of its own (threads.py).

Road:    task -> [AsyncKafkaProducer] -> KafkaProducer -> ...
Thread:  the event loop's, from the first use on; the sender thread puts what it tells into the loop's inbox.
Source:  ours; aiokafka's AIOKafkaProducer has the peers' interface.
"""

from __future__ import annotations

from pyproducer.aio.async_kafka_producer import AsyncKafkaProducer

__all__ = ["AsyncKafkaProducer"]

AsyncKafkaProducer.__module__ = __name__  # what tracebacks, reprs and pickles show
