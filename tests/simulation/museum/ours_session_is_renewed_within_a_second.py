"""A session so short that it was due within a second was renewed at once, which brokers refuse.

Reference: Ours; found by an attack on short sessions.
Seen:      With connections.max.reauth.ms at 1,000 ms, or a token that ends soon, nothing was ever sent.
Planted:   A session that is due is renewed, however young it is.
"""

from __future__ import annotations

from tests.simulation.museum import Edit

PATCH = (
    Edit("client/connections.py", """
            if may_ms > now_ms:
                wait_ms""", """
            if False:
                wait_ms"""),
)
