"""Consumers that ask for their group's coordinator again and again, and join nothing: told why they wait.

librdkafka with group.protocol=consumer (KIP-848) does so where ConsumerGroupHeartbeat is not announced:
it reads nothing, and says nothing, for ever.

Road:    FindCoordinator -> [homeless groups] -> log
Thread:  handler threads.
Source:  ours; measured on librdkafka 2.16.
"""

from __future__ import annotations

import logging
import threading

from pyproducer.common.printable import printable

_logger = logging.getLogger(__name__)
_TELLING = 4
"""So often it is asked for a group that nobody has joined before that is told; clients that wait for a coordinator ask
once or twice."""
_MOST = 1000


class HomelessGroups:
    """Counts who asks, and tells it once for each client and group."""

    def __init__(self) -> None:
        self._lock = threading.Lock()  # guards the counts
        self._counts: dict[tuple[str, str], int] = {}

    def note(self, group_id: str, client_id: str | None, *, is_known: bool) -> None:
        """A client was told who coordinates a group.

        Args:
            group_id: The group.
            client_id: The client.
            is_known: Whether the group has members, or offsets.
        """
        key = group_id, client_id or ""
        with self._lock:
            if is_known:
                self._counts.pop(key, None)
                return
            if len(self._counts) >= _MOST:
                self._counts.clear()
            count = self._counts[key] = self._counts.get(key, 0) + 1
        if count == _TELLING:
            _logger.warning("Client %s has asked %d times who coordinates group %s, and did not join it: with "
                            "group.protocol=consumer (KIP-848), which this broker does not have, it waits for ever: "
                            "set group.protocol=classic", printable(client_id or ""), count, printable(group_id))
