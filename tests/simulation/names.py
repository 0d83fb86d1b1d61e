"""Names and addresses of the nodes: what a broker tells, what a resolver says, and where a socket goes.

Source:  ours.
"""

from __future__ import annotations


def address_of(node_id: int, number: int = 0) -> str:
    """Return an address at which a node listens; it may have several."""
    return f"10.0.{number}.{node_id}"


def node_at(address: str) -> int:
    """Return who listens at an address."""
    return int(address.rsplit(".", 1)[1])


def number_of(address: str) -> int:
    """Return which one of its node's addresses this is, from 0."""
    return int(address.split(".")[2])


def name_of(node_id: int) -> str:
    """Return the name under which the model names a node."""
    return f"broker-{node_id}"


def node_named(name: str) -> int:
    """Return whose name it is."""
    return int(name.rsplit("-", 1)[1])
