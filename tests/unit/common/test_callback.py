"""What is refused as on_completion, and what is taken."""

from __future__ import annotations

import functools
from typing import Any
from unittest import mock

import pytest

from pyproducer.common.callback import ensure_on_completion


def told(metadata: object, exception: object) -> None:
    """As it should be."""


def of_confluent(err: object, msg: object) -> None:
    """As confluent-kafka calls."""


def with_an_argument(order: object, error: object, metadata: object) -> None:
    """The same for a partial."""


async def awaited(metadata: object, exception: object) -> None:
    """Nobody would."""


async def yielding(metadata: object, exception: object) -> Any:
    yield metadata


class Methods:
    def told(self, metadata: object, exception: object) -> None: ...

    def of_confluent(self, err: object, msg: object) -> None: ...

    @classmethod
    def of_class(cls, error: object, metadata: object) -> None: ...

    @staticmethod
    def static(error: object, metadata: object) -> None: ...

    async def awaited(self, metadata: object, exception: object) -> None: ...


class Told:
    def __call__(self, metadata: object, exception: object) -> None: ...


class OfConfluent:
    def __call__(self, err: object, msg: object) -> None: ...


class Static:
    @staticmethod
    def __call__(_error: object, metadata: object) -> None: ...


class Awaited:
    async def __call__(self, metadata: object, exception: object) -> None: ...


class OwnCall:
    """An object that is its own __call__, which nothing but a mistake makes."""

    @property
    def __call__(self) -> Any:
        return self


@functools.wraps(of_confluent)
def turned_round(*outcome: object) -> None:
    of_confluent(*reversed(outcome))


@pytest.mark.parametrize("callback", [
    told, Methods().told, Told(), Told, functools.partial(told), functools.partial(with_an_argument, "o", "e"),
    functools.partial(functools.partial(with_an_argument, "o"), "e"), turned_round, lambda *_: None, lambda: None,
    lambda *, error: None, lambda metadata, error: None, lambda errors, _: None, print, [].append, {}.__setitem__, dict,
    mock.Mock(), mock.MagicMock(), mock.Mock(spec=of_confluent), OwnCall(),
    mock.Mock(spec=functools.partial(told)), functools.partial(print, 1),
])
def test_callback_when_it_can_be_called_with_metadata_first_then_taken(callback: Any) -> None:
    ensure_on_completion(callback, "instead")


@pytest.mark.parametrize(("callback", "name"), [
    (of_confluent, "err"), (Methods().of_confluent, "err"), (Methods.of_class, "error"), (Methods.static, "error"),
    (OfConfluent(), "err"), (Static(), "_error"), (functools.partial(with_an_argument, "o"), "error"),
    (functools.partial(Methods().of_confluent), "err"), (lambda _err, _msg: None, "_err"),
    (functools.partial(OfConfluent()), "err"),
])
def test_callback_when_its_first_parameter_is_an_error_then_refused(callback: Any, name: str) -> None:
    """confluent-kafka's delivery reports were taken as they are, and took what was stored for failed."""
    with pytest.raises(TypeError, match=rf"\(metadata, exception\), .* is '{name}': that is confluent-kafka's order"):
        ensure_on_completion(callback, "instead")


@pytest.mark.parametrize("callback", [
    awaited, yielding, Methods().awaited, Awaited(), functools.partial(awaited), functools.partial(Awaited()),
    mock.AsyncMock()])
def test_callback_when_it_is_a_coroutine_function_then_refused_with_what_to_do(callback: Any) -> None:
    with pytest.raises(TypeError, match="coroutine function, and nobody would await it: do this instead"):
        ensure_on_completion(callback, "do this instead")


@pytest.mark.parametrize("callback", [5, None, "told", b""])
def test_callback_when_it_cannot_be_called_then_refused(callback: Any) -> None:
    with pytest.raises(TypeError, match="on_completion must be callable"):
        ensure_on_completion(callback, "")
