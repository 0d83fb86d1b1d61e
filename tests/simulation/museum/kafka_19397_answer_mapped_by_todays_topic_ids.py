"""The topic ids of a Produce answer were looked up in metadata, which had others by then.

Reference: KAFKA-19397 (apache/kafka#19964), Kafka 4.1.
Seen:      An exception in the sender's thread, and batches that nobody completed, when a topic was created anew or a
           broker that told no ids had answered for metadata.
Planted:   The answer is read with the snapshot of now instead of the request's own table.
"""

from __future__ import annotations

from tests.simulation.museum import Edit

PATCH = (
    Edit("sender/completion.py", """
            name = topic_names.get(topic["topic_id"]) if has_topic_ids else topic["name"]
""", """
            name = self._metadata.cluster.topic_name(topic["topic_id"]) if has_topic_ids else topic["name"]
"""),
    Edit("sender/completion.py", """
                batch = None if name is None else left.pop((name, partition["index"]), None)
""", """
                batch = left.pop((str(name), partition["index"]))
"""),
)
