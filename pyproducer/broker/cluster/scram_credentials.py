"""What the cluster keeps of its users' passwords, for SCRAM.

Road:    AlterUserScramCredentials, EmbeddedBroker -> [scram credentials] -> cluster file; asked by scram server
Thread:  any; a change takes the store's lock, a question takes none.
Source:  Java ScramControlManager, ScramImage (4.1).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pyproducer.broker.cluster.cluster_store import ClusterStore
from pyproducer.broker.cluster.sasl.scram_credential import ScramCredential

CredentialOf = Callable[[str, str], ScramCredential | None]
"""Returns what is kept for a mechanism and a user; None where nothing is."""
Credentials = Mapping[str, Mapping[str, ScramCredential]]
"""By user and mechanism."""


class ScramCredentials:
    """The users of one cluster.

    Args:
        store: Where they are kept.
    """

    def __init__(self, store: ClusterStore) -> None:
        self._store = store

    @property
    def users(self) -> Credentials:
        """Who there is, and with which mechanisms."""
        return self._store.content.scram_users

    def of(self, mechanism: str, user: str) -> ScramCredential | None:
        """Return what is kept for a mechanism and a user; None where nothing is."""
        return self.users.get(user, {}).get(mechanism)

    def alter(self, changes: Mapping[tuple[str, str], ScramCredential | None]) -> None:
        """Set, or with None remove, what is kept for users and mechanisms.

        Raises:
            OSError: The cluster file could not be written; nothing was changed.
        """
        with self._store.lock:
            users = {user: dict(own) for user, own in self.users.items()}
            for (user, mechanism), credential in changes.items():
                own = users.setdefault(user, {})
                if credential is None:
                    own.pop(mechanism, None)
                else:
                    own[mechanism] = credential
            self._store.save(scram_users={user: own for user, own in users.items() if own})
