"""Whether there are credentials to connect with; while there are none, nobody connects, and who waits is told why.

    none yet, or ended     connections wait; why stands in the message of whatever runs out of time meanwhile
    refused where they     who waits fails at once, as by a broker's refusal
    are fetched

Road:    ClusterConnectionStates (may a node be connected?) -> [credentials] -> Login, ProducerMetadata
Thread:  sender thread; what it hands to the login is called by any.
Source:  ours. In Java a login that cannot get its first token fails the constructor.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from pyproducer.client.failures import LOGIN
from pyproducer.common.errors import AuthenticationError
from pyproducer.common.sender_log import SenderLog, sender_log

if TYPE_CHECKING:
    from pyproducer.client.metadata import ProducerMetadata
    from pyproducer.network.sasl.mechanism import Login

_LOG: SenderLog = sender_log("pyproducer.client")


class Credentials:
    """Those of one client, for all its connections. It outlives them.

    Args:
        login: Where they come from.
        metadata: Told why there are none.
        on_change: Called by any thread when there may be some, or none any more.
    """

    def __init__(self, login: Login, metadata: ProducerMetadata, on_change: Callable[[], None]) -> None:
        self._login = login
        self._metadata = metadata
        self._on_change = on_change
        self._has_started = False
        self._told: Exception | None = None

    def are_there(self, host: str) -> bool:
        """Whether a connection to this host may be made now. The first call begins to fetch, where that takes time."""
        login = self._login
        if not self._has_started:
            self._has_started = login.start(self._on_change)
        if login.is_ready:
            if self._told is not None:
                self._told = None
                self._metadata.forget_failure(login.mechanism)
            return login.is_ready_for(host)
        error = login.error
        if error is not None and error is not self._told:
            self._told = error
            summary = f"{LOGIN}: {error}"
            is_new = self._metadata.note_failure(login.mechanism, summary)
            _LOG.log(logging.WARNING if is_new else logging.DEBUG, "%s: %s", login.mechanism, summary)
            if isinstance(error, AuthenticationError):
                self._metadata.refused_credentials(error)
        return False

    def close(self) -> None:
        """Forget them."""
        self._login.close()
