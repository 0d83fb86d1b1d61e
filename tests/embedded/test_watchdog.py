"""No request holds the interpreter: while any API looks at the worst that can be sent, others have their turns.

The broker's threads share one interpreter with each other, and in a test with the program that started the broker. A
call into C that takes long, a pattern, a sort, a number of a million digits, holds them all.
"""

from __future__ import annotations

import random
import socket
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from pyproducer.protocol.apis import ApiKeys
from pyproducer.protocol.schema import NullableStruct, Schema
from pyproducer.protocol.types import ArrayOf, Type
from pyproducer.record.batch_writer import build_batch
from tests.support.patience import GIVE_UP_S
from tests.support.random_messages import random_value
from tests.support.raw_client import framed, request_bytes
from tests.support.watched_broker import WatchedBroker

MOST_HELD_S = 0.05
# What holds the interpreter does so each time; where the machine does not let the watchdog run, it is another time.
TRIES = 8
NAMES = ("orders", "fruits")
# What a request may have in all, less what its outer arrays take.
MANY = 18_000
LONG = 32_767
PATTERN = "a*" * 400 + "x"

Make = Callable[[Type, str, random.Random], Any]


def body(type_: Type, make: Make, source: random.Random, *, name: str = "", depth: int = 0,
         widths: tuple[int, ...]) -> Any:
    """Return a value of a type: arrays of these lengths from the outside in, and what `make` says for the rest."""
    if isinstance(type_, NullableStruct):
        type_ = type_.schema
    if isinstance(type_, Schema):
        return {key: body(field.type, make, source, name=key, depth=depth, widths=widths)
                for key, field in type_.fields_by_name.items()}
    if isinstance(type_, ArrayOf):
        width = widths[min(depth, len(widths) - 1)]
        # Fifty that differ, again and again: the broker reads each anew, and the test is quicker.
        made = width if make is distinct else min(width, 50)
        inner = [body(type_.element, make, source, name=name, depth=depth + 1, widths=widths) for _ in range(made)]
        return [inner[number % made] for number in range(width)]
    return make(type_, name, source)


def filled(text: str | None = None, number: int | None = None, data: bytes | None = None) -> Make:
    """Return what fills a body with one text, one number, the same bytes; the rest is drawn."""
    def make(type_: Type, name: str, source: random.Random) -> Any:
        kind = type_.name
        if "STRING" in kind and text is not None:
            return text
        if kind.startswith("INT") and number is not None:
            bits = int(kind[3:]) - 1
            return max(min(number, (1 << bits) - 1), -1 << bits)
        if ("BYTES" in kind or "RECORDS" in kind) and data is not None:
            return data
        return random_value(type_, source, names=NAMES)
    return make


def distinct(type_: Type, name: str, source: random.Random) -> Any:
    if "STRING" in type_.name:
        return f"{name}-{source.getrandbits(64):x}"
    return uuid.UUID(int=source.getrandbits(128)) if type_.name == "UUID" else random_value(type_, source, names=NAMES)


def bomb(codec: str, size_bytes: int) -> bytes:
    records = [(1, None, bytes(size_bytes), ())]
    return bytes(build_batch(records, compression=codec))


def tiny_records(count: int) -> bytes:
    return bytes(build_batch([(1, None, b"", ())] * count, compression="gzip"))


SHAPES: dict[str, Callable[[Type, random.Random], Any]] = {
    "outer arrays": lambda schema, source: body(schema, filled("orders", 0, b""), source, widths=(MANY, 0)),
    "middle arrays": lambda schema, source: body(schema, filled("orders", 0, b""), source, widths=(1, MANY, 0)),
    "inner arrays": lambda schema, source: body(schema, filled("orders", 0, b""), source, widths=(1, 1, MANY)),
    "arrays of arrays": lambda schema, source: body(schema, filled("orders", 0, b""), source, widths=(200, 200)),
    "arrays of arrays of arrays": lambda schema, source: body(schema, filled("x", 1, b"x"), source, widths=(30,)),
    "distinct names": lambda schema, source: body(schema, distinct, source, widths=(MANY, 0)),
    "long texts": lambda schema, source: body(schema, filled("a" * LONG), source, widths=(50, 3)),
    "texts beyond ASCII": lambda schema, source: body(schema, filled("\u6d88" * (LONG // 3)), source, widths=(50, 3)),
    "digits": lambda schema, source: body(schema, filled("9" * LONG), source, widths=(50, 3)),
    "digits of another script": lambda schema, source: body(schema, filled("\u00b2" * 9), source, widths=(50, 3)),
    "signs": lambda schema, source: body(schema, filled("-" * LONG), source, widths=(50, 3)),
    "patterns": lambda schema, source: body(schema, filled(PATTERN), source, widths=(50, 3)),
    "almost words": lambda schema, source: body(schema, filled("a" * (LONG - 1) + "!"), source, widths=(50, 3)),
    "separators": lambda schema, source: body(schema, filled(",:=;/" * 6000), source, widths=(50, 3)),
    "braces": lambda schema, source: body(schema, filled("{[(\"" * 8000), source, widths=(50, 3)),
    "largest numbers": lambda schema, source: body(schema, filled("orders", 2**63 - 1), source, widths=(3000, 3)),
    "least numbers": lambda schema, source: body(schema, filled("orders", -(2**63)), source, widths=(3000, 3)),
    "zeros of 16 MB": lambda schema, source: body(schema, filled("orders", 0, bytes(1 << 24)), source, widths=(1, 1)),
    "what expands": lambda schema, source: body(
        schema, filled("orders", 0, bomb("zstd", 1 << 27)), source, widths=(1, 1)),
    "a million records": lambda schema, source: body(
        schema, filled("orders", 0, tiny_records(1_000_000)), source, widths=(1, 1)),
}
APIS = [api for api in ApiKeys if api.title not in ("GetTelemetrySubscriptions", "PushTelemetry")]


@pytest.fixture(scope="module")
def watched() -> Iterator[WatchedBroker]:
    plain = 'org.apache.kafka.common.security.plain.PlainLoginModule required user_alice="secret";'
    with WatchedBroker(topics={"orders": 3, "fruits": 1}, auto_create_topics=False, config={
            "listeners": "PLAINTEXT://127.0.0.1:0,SASL_PLAINTEXT://127.0.0.1:0",
            "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,OAUTHBEARER",
            "listener.name.sasl_plaintext.plain.sasl.jaas.config": plain}) as broker:
        yield broker


def ask(address: tuple[str, int], payload: bytes) -> None:
    """Send a request, and wait for what comes: an answer, or the connection's end."""
    with socket.create_connection(address, timeout=GIVE_UP_S) as connection:
        try:
            connection.sendall(framed(payload))
            connection.shutdown(socket.SHUT_WR)
            while connection.recv(1 << 20):
                pass
        except ConnectionError:
            pass  # it was closed before it was read to the end


def assert_nobody_waits(watched: WatchedBroker, api: ApiKeys, version: int, shape: str) -> None:
    source = random.Random(f"{api} {version} {shape}")
    payload = request_bytes(api, version, SHAPES[shape](api.request_schema(version), source))
    least_s = 1e9
    for _ in range(TRIES):
        for address in watched.addresses.values():
            ask(address, payload)
        least_s = min(least_s, watched.take_longest_s())
        if least_s < MOST_HELD_S:
            return
    pytest.fail(f"{api.title} {version} with {shape} held the interpreter for {least_s:.3f} s of CPU")


@pytest.mark.soak
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("api", APIS, ids=lambda api: api.title)
def test_request_when_it_is_hostile_then_it_does_not_hold_the_interpreter(
        watched: WatchedBroker, api: ApiKeys, shape: str) -> None:
    for version in {api.oldest_version, api.latest_version}:
        assert_nobody_waits(watched, api, version, shape)
