"""The functions that answer one API.

Road:    apis/*.py -> [ApiHandler] -> KafkaApis
Thread:  values.
Source:  ours.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from pyproducer.broker.apis.services import Answer, Services
from pyproducer.broker.network.request_channel import Request
from pyproducer.common.error_codes import ErrorCode


class ApiHandler(NamedTuple):
    """How one API is answered, and how it says that something went wrong for the whole request."""

    handle: Callable[[Services, Request], Answer]
    error_response: Callable[[Request, ErrorCode], Answer]
