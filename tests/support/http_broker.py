"""An embedded broker that is ruled over its control port, in the words of Python: for stories told in both.

No import of pytest.
"""

from __future__ import annotations

import inspect
import json
import urllib.error
import urllib.request
from collections.abc import Callable
from typing import Any

from pyproducer.broker import EmbeddedBroker, Fault, LoggedRequest, PartitionView
from pyproducer.broker.control.control_calls import ACTS, FAULT_ACTS, FAULT_LOOKS, FAULT_VALUES, LOOKS, ControlCalls
from pyproducer.broker.control.control_port import ControlPort
from pyproducer.broker.control.fault_control import api_id_of
from pyproducer.broker.control.observations import from_json
from pyproducer.common.errors import ConfigError, IllegalStateError, KafkaTimeoutError
from pyproducer.protocol.apis import ApiKeys
from tests.support.patience import PROGRAM_S

SEEN = {"leader_of": tuple, "describe_partition": lambda found: PartitionView(
    found["leader_id"], found["leader_epoch"], tuple(found["replicas"]), tuple(found["isr"])),
    "requests": lambda found: [LoggedRequest(**{**from_json(one), "api_key": ApiKeys(
        api_id_of(one["api_key"]))}) for one in found],
    "log_end_offsets": lambda found: {int(index): offset for index, offset in found.items()}}


class HttpError(Exception):
    """A call that was refused, of a kind that Python's words do not have."""


class HttpControl:
    """Calls of one control port.

    Args:
        address: Its host:port.
        headers: More headers for each request.
    """

    def __init__(self, address: str, headers: dict[str, str] | None = None) -> None:
        self.address = address
        self._headers = headers or {}

    def ask(self, method: str, path: str, body: bytes | None = None) -> tuple[int, dict[str, Any]]:
        """Send one request; return its status and what came."""
        request = urllib.request.Request(f"http://{self.address}/{path}", body, self._headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=PROGRAM_S) as response:
                return int(response.status), json.load(response)
        except urllib.error.HTTPError as error:
            with error:
                return int(error.code), json.load(error)

    def call(self, path: str, **arguments: Any) -> Any:
        """Make a call, and raise what Python's word would."""
        status, answer = self.ask("POST", path, json.dumps(arguments).encode())
        if status == 200:
            return answer["result"]
        if answer["error"] == "ConfigError":
            raise ConfigError(path, arguments, answer["message"])
        raise {"IllegalStateError": IllegalStateError, "KafkaTimeoutError": KafkaTimeoutError}.get(
            answer["error"], HttpError)(answer["message"])


class HttpFault:
    """A fault by its number."""

    def __init__(self, control: HttpControl, number: int) -> None:
        self._control = control
        self._number = number

    def __getattr__(self, word: str) -> Any:
        path = f"faults/{self._number}/{word}"
        if word in FAULT_VALUES:
            return self._control.call(path)
        if word not in FAULT_LOOKS | FAULT_ACTS:
            raise AttributeError(word)

        def act(*given: Any, **named: Any) -> HttpFault:
            self._control.call(path, **_named(getattr(Fault, word), given, named))
            return self

        return act


class HttpFaults:
    """broker.faults."""

    def __init__(self, control: HttpControl) -> None:
        self._control = control

    def on(self, api: str, **arguments: Any) -> HttpFault:
        return HttpFault(self._control, self._control.call("faults/on", api=api, **arguments)["fault"])

    def clear(self) -> None:
        self._control.call("faults/clear")

    def unused(self) -> list[str]:
        found: list[str] = self._control.call("faults/unused")
        return found


class HttpClock:
    """broker.clock."""

    def __init__(self, control: HttpControl) -> None:
        self._control = control

    def advance(self, **arguments: float) -> None:
        self._control.call("clock/advance", **arguments)

    @property
    def timestamp_ms(self) -> int:
        return int(self._control.call("clock/timestamp_ms"))


class HttpBroker(EmbeddedBroker):
    """The broker, and its words over HTTP; where it is, and what its files hold, are the broker's own."""

    def start(self) -> HttpBroker:
        super().start()
        self._port = ControlPort(ControlCalls(self._cluster), "127.0.0.1", 0)  # type: ignore[arg-type]  # in process
        self.control = HttpControl(f"127.0.0.1:{self._port.port}")
        return self

    def stop(self) -> None:
        self._port.stop()
        super().stop()

    @property
    def faults(self) -> Any:
        return HttpFaults(self.control)

    @property
    def clock(self) -> Any:
        return HttpClock(self.control)


def _named(method: Callable[..., Any], given: tuple[Any, ...], named: dict[str, Any]) -> dict[str, Any]:
    """Return arguments by their names."""
    bound = inspect.signature(method).bind(None, *given, **named).arguments
    bound.pop("self", None)
    return dict(bound)


def _over_http(word: str) -> Callable[..., Any]:
    method = getattr(EmbeddedBroker, word)

    def call(self: HttpBroker, *given: Any, **named: Any) -> Any:
        found = self.control.call(word, **_named(method, given, named))
        return SEEN.get(word, lambda same: same)(found)  # type: ignore[no-untyped-call, operator]  # a table of several

    return call


for _word in LOOKS | ACTS:
    setattr(HttpBroker, _word, _over_http(_word))
