"""The cluster's methods by path and JSON: the words of Python, for any language.

    stop_node            {"node_id": 2, "kill": true}
    clock/advance        {"minutes": 15}
    faults/on            {"api": "Produce", "times": 3, "do": {"error": {"code": "NOT_LEADER_OR_FOLLOWER"}}}
    faults/1/await_count {"count": 3}

Road:    control port -> [control calls] -> ClusterControl, Faults, BrokerClock
Thread:  any.
Source:  ours.
"""

from __future__ import annotations

import inspect
import math
import types
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Union, get_args, get_origin, get_type_hints

from pyproducer.broker.control.cluster_control import ClusterControl
from pyproducer.broker.control.commands import run_command
from pyproducer.broker.control.fault_control import Fault, Faults
from pyproducer.broker.control.in_process import InProcessCluster
from pyproducer.broker.control.observations import LoggedRequest, to_json
from pyproducer.common.cluster import address_text
from pyproducer.common.errors import ConfigError
from pyproducer.common.version import __version__

LOOKS = frozenset({"connections", "describe_partition", "leader_of", "log_end_offsets", "nodes", "requests", "topics",
                   "topic_sizes"})
ACTS = frozenset({"add_scram_user", "clear_requests", "create_topic", "log_requests", "move_coordinator", "move_leader",
                  "resize_processors", "resume_following", "set_api_versions", "start_node", "stop_following",
                  "stop_node"})
FAULT_VALUES = frozenset({"count", "held"})
FAULT_LOOKS = FAULT_VALUES | {"await_count", "await_held"}
FAULT_ACTIONS = frozenset({"acknowledge_without_append", "append_twice", "close", "delay", "drop", "error", "hold",
                           "swap", "throttle", "truncate", "wrong_correlation_id"})
FAULT_ACTS = FAULT_ACTIONS | {"release", "remove"}
MOST_DIGITS = 18
"""Of a number that is taken for one: Python does not read thousands of them."""
_DO = "do"
_JSON_NAMES = {bool: "true or false", int: "a whole number", float: "a number", str: "a text", dict: "an object"}


class NoSuchCallError(LookupError):
    """Nothing has this path."""


class _Control(ClusterControl):
    """The methods, for a cluster of this process."""

    def __init__(self, cluster: InProcessCluster) -> None:
        self._cluster = cluster

    def _ask(self, command: str, **arguments: Any) -> Any:
        return run_command(self._cluster, command, arguments)


class Call(NamedTuple):
    """What a path stands for.

    Attributes:
        run: Takes the arguments by the names of Python's; returns what JSON can hold. Raises ConfigError where an
            argument is unknown, missing, or makes no sense, and else what the method of Python raises.
        only_looks: It changes nothing.
    """

    run: Callable[[Mapping[str, Any]], Any]
    only_looks: bool


class ControlCalls:
    """The calls by their paths.

    Args:
        cluster: What they are about.
    """

    def __init__(self, cluster: InProcessCluster) -> None:
        self._cluster = cluster
        self._control = control = _Control(cluster)
        clock, faults = control.clock, control.faults
        self._calls = {
            "health": _call_of(self._health, only_looks=True),
            "clock/advance": _call_of(clock.advance, only_looks=False),
            "clock/timestamp_ms": _call_of(lambda: clock.timestamp_ms, only_looks=True),
            "faults/on": Call(lambda arguments: _on(faults, arguments), only_looks=False),
            "faults/unused": _call_of(faults.unused, only_looks=True),
            "faults/clear": _call_of(faults.clear, only_looks=False),
            "faults/seed": _call_of(_seeder(faults), only_looks=False),
            **{name: _call_of(getattr(control, name), only_looks=name in LOOKS) for name in LOOKS | ACTS},
        }

    def find(self, path: str) -> Call:
        """Return the call that has a path.

        Args:
            path: Without a slash at its ends.

        Raises:
            NoSuchCallError: Nothing has this path.
            ConfigError: It is of a fault that was never made.
        """
        call = self._calls.get(path) or self._call_of_fault(path)
        if call is None:
            raise NoSuchCallError(f"nothing has the path /{path}; there are "
                                  + ", ".join(f"/{name}" for name in sorted(self._calls))
                                  + " and /faults/NUMBER/WORD with " + ", ".join(sorted(FAULT_LOOKS | FAULT_ACTS)))
        return call

    def _call_of_fault(self, path: str) -> Call | None:
        of_what, _, rest = path.partition("/")
        number, _, word = rest.partition("/")
        if not (of_what == "faults" and number.isascii() and number.isdigit() and len(number) <= MOST_DIGITS
                and word in FAULT_LOOKS | FAULT_ACTS):
            return None
        fault = self._control.faults.fault(int(number))
        method = (lambda: getattr(fault, word)) if word in FAULT_VALUES else getattr(fault, word)
        return _call_of(method, only_looks=word in FAULT_LOOKS)

    def _health(self) -> dict[str, Any]:
        return {"version": __version__, "nodes": self._control.nodes(),
                "bootstrap_servers": {name: [address_text(*address) for address in found]
                                      for name, found in self._cluster.addresses().items()}}


def _call_of(method: Callable[..., Any], *, only_looks: bool) -> Call:
    return Call(lambda arguments: _shown(_checked(method, arguments)), only_looks)


def _on(faults: Faults, arguments: Mapping[str, Any]) -> dict[str, int]:
    """Make a fault and all that it does: none that does half of it stays."""
    actions = arguments.get(_DO, {})
    if not isinstance(actions, dict):
        raise ConfigError(_DO, actions, 'it must be an object, for instance {"delay": {"delay_ms": 50}}')
    for name, given in actions.items():
        if name not in FAULT_ACTIONS or not isinstance(given, dict):
            raise ConfigError(_DO, {name: given}, "each is a name and an object with its arguments; there are "
                              + ", ".join(sorted(FAULT_ACTIONS)))
    fault: Fault = _checked(faults.on, {name: value for name, value in arguments.items() if name != _DO})
    try:
        for name, given in actions.items():
            _checked(getattr(fault, name), given)
    except BaseException:
        fault.remove()
        raise
    return {"fault": fault.number}


def _seeder(faults: Faults) -> Callable[..., int]:
    def seed(seed: int) -> int:
        faults.seed = seed
        return seed

    return seed


def _checked(method: Callable[..., Any], arguments: Mapping[str, Any]) -> Any:
    """Call a method with arguments by name, once each is known to be one of its own and of its kind."""
    signature = inspect.signature(method)
    unknown = [name for name in arguments if name not in signature.parameters]
    if unknown:
        raise ConfigError(unknown[0], arguments[unknown[0]], "no argument is called so; there are "
                          + (", ".join(signature.parameters) or "none"))
    for name, parameter in signature.parameters.items():
        if parameter.default is parameter.empty and name not in arguments:
            raise ConfigError(name, None, "this argument is needed")
    hints = get_type_hints(method)
    for name, value in arguments.items():
        kinds = _kinds(hints[name])
        if not any(_is_of(value, kind) for kind in kinds):
            raise ConfigError(name, value, "it must be " + " or ".join(
                _JSON_NAMES[kind] for kind in kinds if kind in _JSON_NAMES) + (
                    " or null" if type(None) in kinds else ""))
    return method(**arguments)


def _kinds(hint: Any) -> list[type]:
    """Return the kinds of JSON's values that an argument takes."""
    if get_origin(hint) in (Union, types.UnionType):
        return list(dict.fromkeys(kind for part in get_args(hint) for kind in _kinds(part)))
    origin = get_origin(hint) or hint
    if origin is Mapping:
        return [dict]
    return [float, int] if origin is float else [origin]


def _is_of(value: Any, kind: type) -> bool:
    if isinstance(value, float) and not math.isfinite(value):
        return False  # no JSON has it, though Python reads it: a wait of NaN seconds would never end
    return isinstance(value, kind) and (kind is bool or not isinstance(value, bool))


def _shown(value: Any) -> Any:
    """Return a result as JSON: what has names is an object; bytes as in the pipe of a child process."""
    if isinstance(value, LoggedRequest):
        return {**to_json(value._asdict()), "api_key": value.api_key.title}
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return {name: _shown(part) for name, part in value._asdict().items()}
    if isinstance(value, dict):
        return {str(name): _shown(part) for name, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [_shown(part) for part in value]
    return None if isinstance(value, Fault) else to_json(value)
