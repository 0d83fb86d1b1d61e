"""The users of SCRAM, as admin clients see and change them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pyproducer.broker import EmbeddedBroker
from pyproducer.common.errors import ConfigError
from pyproducer.protocol.apis import ApiKeys
from tests.support.raw_client import RawClient


@pytest.fixture(scope="module")
def client() -> Iterator[RawClient]:
    with EmbeddedBroker(separate_process=True) as broker, RawClient(("127.0.0.1", broker.port)) as connected:
        yield connected


def upsertion(name: str, mechanism: int = 1, iterations: int = 4096) -> dict[str, Any]:
    return {"name": name, "mechanism": mechanism, "iterations": iterations, "salt": b"salt",
            "salted_password": b"salted"}


def alter(client: RawClient, *upsertions: dict[str, Any], delete: list[tuple[str, int]] | None = None) -> list[Any]:
    answer = client.request(ApiKeys.ALTER_USER_SCRAM_CREDENTIALS, 0, {
        "deletions": [{"name": name, "mechanism": mechanism} for name, mechanism in delete or ()],
        "upsertions": upsertions})
    return [(result["user"], result["error_code"], result["error_message"]) for result in answer["results"]]


def describe(client: RawClient, *names: str) -> dict[str, Any]:
    answer = client.request(ApiKeys.DESCRIBE_USER_SCRAM_CREDENTIALS, 0,
                            {"users": [{"name": name} for name in names] or None})
    assert answer["error_code"] == 0
    return {result["user"]: result["error_code"] or [
        (info["mechanism"], info["iterations"]) for info in result["credential_infos"]]
        for result in answer["results"]}


def test_users_when_they_are_made_changed_and_deleted_then_that_is_seen(client: RawClient) -> None:
    assert alter(client, upsertion("alice"), upsertion("bob")) == [("alice", 0, None), ("bob", 0, None)]
    assert alter(client, upsertion("alice", 2, 8192)) == [("alice", 0, None)]
    assert describe(client) == {"alice": [(1, 4096), (2, 8192)], "bob": [(1, 4096)]}
    assert alter(client, upsertion("bob", 1, 5000), delete=[("alice", 1)]) == [("alice", 0, None), ("bob", 0, None)]
    assert describe(client, "bob", "alice", "carol") == {"bob": [(1, 5000)], "alice": [(2, 8192)], "carol": 91}
    assert describe(client, "bob", "bob") == {"bob": 92}
    assert alter(client, delete=[("alice", 2), ("bob", 1)]) == [("alice", 0, None), ("bob", 0, None)]
    assert describe(client) == {}


@pytest.mark.parametrize(("upsertions", "deletions", "error_code", "message"), [
    ([upsertion("")], [], 93, "Username must not be empty"),
    ([upsertion("x", 7)], [], 33, "Unknown SCRAM mechanism"),
    ([upsertion("x", 0)], [], 33, "Unknown SCRAM mechanism"),
    ([upsertion("x", 1, 4095)], [], 93, "Too few iterations"),
    ([upsertion("x", 1, 16385)], [], 93, "Too many iterations"),
    ([], [("x", 1)], 91, "Attempt to delete a user credential that does not exist"),
    ([upsertion("x"), upsertion("x")], [], 92, "A user credential cannot be altered twice in the same request"),
    ([upsertion("x"), upsertion("x", 2)], [], 92, "A user credential cannot be altered twice in the same request"),
    ([upsertion("x")], [("x", 1)], 92, "A user credential cannot be altered twice in the same request")])
def test_user_when_what_is_asked_cannot_be_then_others_are_changed_all_the_same(
        client: RawClient, upsertions: list[Any], deletions: list[Any], error_code: int, message: str) -> None:
    results = {user: (code, said) for user, code, said in alter(
        client, *upsertions, upsertion("good"), delete=deletions)}
    wrong = (upsertions[0]["name"] if upsertions else deletions[0][0])
    assert results == {wrong: (error_code, message), "good": (0, None)}
    assert describe(client) == {"good": [(1, 4096)]}
    alter(client, delete=[("good", 1)])


def test_users_when_the_broker_starts_again_then_they_are_there(tmp_path: Path) -> None:
    with EmbeddedBroker(data_dir=tmp_path, separate_process=True) as broker:
        broker.add_scram_user("alice", "secret", 5000)
        with pytest.raises(ConfigError, match="between 4096 and 16384"):
            broker.add_scram_user("bob", "secret", 1)
        with pytest.raises(ConfigError, match="needs a name and a password") as raised:
            broker.add_scram_user("", "hush-hush")
        assert "hush" not in str(raised.value)
    assert "secret" not in (tmp_path / "cluster.jsonl").read_text()
    with EmbeddedBroker(data_dir=tmp_path) as broker, RawClient(("127.0.0.1", broker.port)) as client:
        assert describe(client) == {"alice": [(1, 5000), (2, 5000)]}
