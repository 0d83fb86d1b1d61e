"""close() in a callback, or in another thread, made every later close() return at once.

Reference: Ours, before the core was built anew.
Seen:      A with-block that ended with 84 of 3,001 records in the log.
Planted:   Close() returns where somebody has begun to close.
"""

from __future__ import annotations

from tests.simulation.museum import Edit

PATCH = (
    Edit("producer/kafka_producer.py", """
        if life.is_forked:
            return
        if life.is_on_sender_thread""", """
        if not life.is_open:
            return
        if life.is_on_sender_thread"""),
)
