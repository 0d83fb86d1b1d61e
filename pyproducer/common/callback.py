"""What may be given as on_completion or done callback, said when it is given: later it would only fail in a log line.

Road:    send() -> [callback] -> the record's future, which looks at done callbacks; serializers are looked at, too
Thread:  any; no state.
Source:  ours. Java's compiler sees what is looked for here.
"""

from __future__ import annotations

import functools
import inspect
from types import CodeType, FunctionType, MethodType
from typing import Any

from pyproducer.common.records import ensure_callable

_NEVER_RUN = inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR
# confluent-kafka calls with the error first; a callback of that order would take each success for a failure.
_ERROR_NAMES = frozenset({"err", "error"})
_DEEPEST = 20  # partials, methods and objects with __call__ in each other; an object may be its own __call__


def ensure_on_completion(callback: Any, instead: str) -> bool:
    """Check what is given as on_completion.

    Nothing is called, and what has no Python code (builtins, classes, mocks) is taken as it is. Who has reason to name
    his first parameter as an error wraps it: `lambda metadata, exception: ...`.

    Args:
        callback: Anything.
        instead: What to do instead of giving a coroutine function.

    Returns:
        Whether the same holds of each other that has its code and as many arguments given, or its type, where the code
        is the type's.

    Raises:
        TypeError: It cannot be called, it is a coroutine function, or its first parameter is called err or error. Not
            sent.
    """
    ensure_callable(callback, "on_completion")
    code, given_count = _code_of(callback)
    if _is_never_run(code):
        raise TypeError(f"on_completion is a coroutine function, and nobody would await it: {instead}")
    if isinstance(code, CodeType):
        first = code.co_varnames[given_count:code.co_argcount][:1]
        if first and first[0].strip("_") in _ERROR_NAMES:
            raise TypeError(
                f"on_completion is called with (metadata, exception), one of them None, and the first parameter of "
                f"{callback!r} is {first[0]!r}: that is confluent-kafka's order. Turn the two round; metadata has "
                "topic, partition, offset and timestamp")
    if issubclass(type(callback), functools.partial):  # of a subclass the type is known, which says nothing of the rest
        return type(callback) is functools.partial
    return isinstance(callback, (FunctionType, MethodType)) or getattr(callback, "__code__", None) is None


def ensure_done_callback(callback: Any) -> None:
    """Check what is given to add_done_callback(): called as callback(future), and what it returns is thrown away.

    Raises:
        TypeError: It cannot be called, or it is a coroutine function. The record is on its way as before.
    """
    ensure_callable(callback, "a done callback")
    if is_coroutine_function(callback):
        raise TypeError("a done callback is called with the future, and this one is a coroutine function, which nobody "
                        "would await: pass a function, or await the future itself")


def is_coroutine_function(function: object) -> bool:
    """Whether a call would run nothing before somebody awaits it: through partials, methods, objects with __call__."""
    return _is_never_run(_code_of(function)[0])


def _is_never_run(code: Any) -> bool:
    """Whether code is a coroutine's, as far as is known; that of a mock (AsyncMock's says so) is a mock itself."""
    flags = getattr(code, "co_flags", None)
    return isinstance(flags, int) and bool(flags & _NEVER_RUN)


def _code_of(callback: Any) -> tuple[Any, int]:
    """Return the code that is run in the end, None if it is not Python's; and how many arguments it has before ours."""
    given_count = 0
    for _ in range(_DEEPEST):
        if issubclass(type(callback), functools.partial):  # a mock says of itself that it is one
            given_count += len(callback.args)
            callback = callback.func
        elif isinstance(callback, MethodType):
            given_count += 1
            callback = callback.__func__
        elif isinstance(callback, type):
            break
        else:
            code = getattr(callback, "__code__", None)
            if code is not None:
                return code, given_count
            call = inspect.getattr_static(type(callback), "__call__", None)
            if not isinstance(call, (FunctionType, staticmethod)):
                break  # a builtin's
            callback = call.__get__(callback, type(callback))
    return None, 0
