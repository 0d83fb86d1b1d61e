"""JWTs for tests, with a signature that nobody checks."""

from __future__ import annotations

import base64
import json
from typing import Any

CLAIMS: dict[str, Any] = {"sub": "ada", "exp": 1_800_000_000, "iat": 1_799_990_000, "scope": "produce describe"}


def jwt(claims: object = CLAIMS, header: object = {"alg": "none"}, signature: str = "c2lnbmVk") -> str:
    """Return a JWT with these claims."""
    return f"{_part(header)}.{_part(claims)}.{signature}"


def _part(value: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()
