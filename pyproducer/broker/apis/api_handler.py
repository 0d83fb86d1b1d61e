"""What a file of this folder declares of its API, and the functions that answer it.

Road:    apis/*.py -> [Api, ApiHandler] -> KafkaApis
Thread:  values.
Source:  ours; what each API asks: Java KafkaApis, ControllerApis (4.1).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from pyproducer.broker.apis.services import Answer, Services
from pyproducer.broker.cluster.authorizer import AclOperation, ResourceType
from pyproducer.broker.network.request_channel import Request
from pyproducer.common.error_codes import ErrorCode
from pyproducer.protocol.apis import ApiKeys


class Question(NamedTuple):
    """What an authorizer is asked: may this be done with a resource of this type?"""

    operation: AclOperation
    resource_type: ResourceType


class Api(NamedTuple):
    """The head of an API's file; its versions are those of its row in protocol/apis.py.

    Attributes:
        key: Which API.
        asks: All that it may ask the authorizer, before it does or tells something; empty for what tells a client
            whether it may speak at all.
    """

    key: ApiKeys
    asks: tuple[Question, ...]


class ApiHandler(NamedTuple):
    """How one API is answered, and how it says that something went wrong for the whole request."""

    handle: Callable[[Services, Request], Answer]
    error_response: Callable[[Request, ErrorCode], Answer]
