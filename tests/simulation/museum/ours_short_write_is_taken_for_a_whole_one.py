"""A socket took some of a frame's bytes, and the rest was never written.

Reference: The oldest mistake with sockets.
Seen:      A broker that ends the connection, because the next request began in the middle of this one.
Planted:   A frame of which anything was written counts as written.
"""

from __future__ import annotations

from tests.simulation.museum import Edit

PATCH = (
    Edit("network/send.py", """
            if written == self._remaining_bytes:
""", """
            if written:
"""),
)
