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
from typing import Any, Union, get_args, get_origin, get_type_hints

from pyproducer.broker.control.cluster_control import ClusterControl
from pyproducer.broker.control.commands import run_command
from pyproducer.broker.control.fault_control import Fault, Faults
from pyproducer.broker.control.in_process import InProcessCluster
from pyproducer.broker.control.observations import LoggedRequest, to_json
from pyproducer.common.errors import ConfigError
from pyproducer.common.version import __version__

LOOKS = frozenset({"connections", "describe_partition", "leader_of", "log_end_offsets", "nodes", "requests", "topics",
                   "topic_sizes"})
ACTS = frozenset({"add_scram_user", "clear_requests", "create_topic", "log_requests", "move_coordinator", "move_leader",
                  "resize_processors", "resume_following", "set_api_versions", "start_node", "stop_following",
                  "stop_node"})
FAULT_LOOKS = frozenset({"await_count", "await_held", "count", "held"})
FAULT_ACTIONS = frozenset({"acknowledge_without_append", "append_twice", "close", "delay", "drop", "error", "hold",
                           "swap", "throttle", "truncate", "wrong_correlation_id"})
FAULT_ACTS = FAULT_ACTIONS | {"release", "remove"}
_MOST_DIGITS = 18
_DO = "do"
_JSON_NAMES = {bool: "true or false", int: "a whole number", float: "a number", str: "a text", dict: "an object",
               list: "a list"}


class NoSuchCallError(LookupError):
    """Nothing has this path."""


class _Control(ClusterControl):
    """The methods, for a cluster of this process."""

    def __init__(self, cluster: InProcessCluster) -> None:
        self._cluster = cluster

    def _ask(self, command: str, **arguments: Any) -> Any:
        return run_command(self._cluster, command, arguments)


class ControlCalls:
    """Runs what is asked for by its path.

    Args:
        cluster: What it is about.
    """

    def __init__(self, cluster: InProcessCluster) -> None:
        self._cluster = cluster
        self._control = _Control(cluster)

    def only_looks(self, path: str) -> bool:
        """Return whether a call changes nothing.

        Raises:
            NoSuchCallError: Nothing has this path.
        """
        return self._find(path)[1]

    def run(self, path: str, arguments: Mapping[str, Any]) -> Any:
        """Run a call; return what JSON can hold.

        Args:
            path: Which, without a slash at its ends.
            arguments: By the names of Python's.

        Raises:
            NoSuchCallError: Nothing has this path.
            ConfigError: An argument is unknown, missing, or makes no sense.
            KafkaError: As the method of Python.
        """
        return _shown(self._find(path)[0](arguments))

    def _find(self, path: str) -> tuple[Callable[[Mapping[str, Any]], Any], bool]:
        """Return what runs a call, and whether it only looks."""
        words = path.split("/")
        faults, clock = self._control.faults, self._control.clock
        if path == "health":
            return lambda arguments: _call(self._health, arguments), True
        if path in LOOKS | ACTS:
            return lambda arguments: _call(getattr(self._control, path), arguments), path in LOOKS
        if path == "clock/advance":
            return lambda arguments: _call(clock.advance, arguments), False
        if path == "clock/timestamp_ms":
            return lambda arguments: _call(lambda: clock.timestamp_ms, arguments), True
        if path == "faults/on":
            return lambda arguments: _on(faults, arguments), False
        if path in ("faults/unused", "faults/clear"):
            return lambda arguments: _call(getattr(faults, words[1]), arguments), words[1] == "unused"
        if path == "faults/seed":
            return lambda arguments: _call(_seeder(faults), arguments), False
        if len(words) == 3 and words[0] == "faults" and words[1].isascii() and words[1].isdigit() and (
                len(words[1]) <= _MOST_DIGITS):
            fault, word = faults.fault(int(words[1])), words[2]
            if word in ("count", "held"):
                return lambda arguments: _call(lambda: getattr(fault, word), arguments), True
            if word in FAULT_LOOKS | FAULT_ACTS:
                return lambda arguments: _call(getattr(fault, word), arguments), word in FAULT_LOOKS
        raise NoSuchCallError(f"nothing has the path /{path}; there are "
                         + ", ".join(f"/{name}" for name in sorted(
                             {"health", "clock/advance", "clock/timestamp_ms", "faults/on", "faults/unused",
                              "faults/clear", "faults/seed"} | LOOKS | ACTS))
                         + " and /faults/NUMBER/WORD with " + ", ".join(sorted(FAULT_LOOKS | FAULT_ACTS)))

    def _health(self) -> dict[str, Any]:
        return {"version": __version__, "nodes": self._control.nodes(),
                "bootstrap_servers": {name: [f"{host}:{port}" for host, port in found]
                                      for name, found in self._cluster.addresses().items()}}


def _on(faults: Faults, arguments: Mapping[str, Any]) -> dict[str, int]:
    """Make a fault and all that it does: none that does half of it stays."""
    actions = arguments.get(_DO, {})
    if not isinstance(actions, dict):
        raise ConfigError(_DO, actions, 'it must be an object, for instance {"delay": {"delay_ms": 50}}')
    for name, given in actions.items():
        if name not in FAULT_ACTIONS or not isinstance(given, dict):
            raise ConfigError(_DO, {name: given}, "each is a name and an object with its arguments; there are "
                              + ", ".join(sorted(FAULT_ACTIONS)))
    fault: Fault = _call(faults.on, {name: value for name, value in arguments.items() if name != _DO})
    try:
        for name, given in actions.items():
            _call(getattr(fault, name), given)
    except BaseException:
        fault.remove()
        raise
    return {"fault": fault.number}


def _seeder(faults: Faults) -> Callable[..., int]:
    def seed(seed: int) -> int:
        faults.seed = seed
        return seed

    return seed


def _call(method: Callable[..., Any], arguments: Mapping[str, Any]) -> Any:
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
