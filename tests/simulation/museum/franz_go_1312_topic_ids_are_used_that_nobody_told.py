"""Produce requests named topics by id where metadata had told no ids.

Reference: Franz-go, 'cap Produce at v12 when any partition lacks a TopicID' (its #1312 for another API).
Seen:      No record could be sent to brokers whose Metadata is older than their Produce, as proxies have it.
Planted:   The highest version is used whether the ids are known or not.
"""

from __future__ import annotations

from tests.simulation.museum import Edit

PATCH = (
    Edit("sender/produce_request.py", """
        highest_version = FIRST_VERSION_WITH_TOPIC_IDS - 1
    return""", """
        highest_version = None
    return"""),
)
