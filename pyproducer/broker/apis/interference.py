"""What may stand between the requests of one broker and its APIs: nothing, or what a test has scripted.

Road:    KafkaApis -> [interference] -> apis/*.py; implemented in control/scripted.py
Thread:  handler threads.
Source:  ours.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from pyproducer.broker.apis.api_handler import ApiHandler
from pyproducer.broker.apis.services import Answer, Services
from pyproducer.broker.network.request_channel import Request
from pyproducer.protocol.apis import ApiKeys, VersionRange


class Interference(Protocol):
    """Asked at each step of a request."""

    def supports(self, api_key: ApiKeys, api_version: int) -> bool:
        """Return whether a version that the broker has is to be answered."""

    def advertised(self, own: Mapping[int, VersionRange]) -> Mapping[int, VersionRange]:
        """Return what ApiVersions tells in place of the broker's own versions, now and later."""

    def handle(self, handler: ApiHandler, services: Services, request: Request) -> Answer:
        """Run a handler, or do something else; what has a say in the answer is put into `request.story`."""

    def respond(self, handler: ApiHandler, request: Request, answer: Answer,
                send: Callable[[Request, Answer], None]) -> None:
        """Send the answer of a request that has a story."""
