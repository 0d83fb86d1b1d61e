"""What is asked for in one Metadata request.

Road:    ProducerMetadata.next_request -> [MetadataRequest] -> metadata_updater -> ProducerMetadata.update
Thread:  a value.
Source:  Java Metadata.MetadataRequestAndVersion (4.1); KIP-526.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple


class MetadataRequest(NamedTuple):
    """What to ask for: the topics, and whether the answer replaces all or is merged into what is known."""

    topics: list[str]
    request_version: int
    is_partial: bool
    allow_auto_topic_creation: bool

    def body(self) -> Mapping[str, Any]:
        """Return the body of the request. No topics means none (from v1 on): brokers and controller only."""
        return {"topics": [{"name": topic} for topic in self.topics],
                "allow_auto_topic_creation": self.allow_auto_topic_creation}
