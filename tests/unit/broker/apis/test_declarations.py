"""Each API is one file whose head is true: its number, versions, error codes, and what it asks the authorizer."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Mapping
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import pyproducer
from pyproducer.broker import apis
from pyproducer.broker.apis import kafka_apis
from pyproducer.broker.apis.api_handler import Api
from pyproducer.broker.apis.services import Services
from pyproducer.broker.cluster.authorizer import ResourceType
from pyproducer.common.error_codes import ErrorCode
from pyproducer.protocol.apis import ApiKeys
from tests.unit.broker.apis.test_authorization import ASKED, Case, Stage, metadata_body

PACKAGE = Path(pyproducer.__file__).parent
APIS = PACKAGE / "broker" / "apis"
# Files of the folder that are no API; each says in its first lines what it is.
SHARED = {"altered_configs", "answer_size", "api_handler", "client_quotas", "interference", "kafka_apis",
          "homeless_groups", "refusal_log", "services", "unexpected"}
NAMES = sorted(path.stem for path in APIS.glob("*.py") if path.stem not in {"__init__", *SHARED})
# What a file of an API mentions, and where the codes come from that it answers then: files and folders of the package.
BEHIND = {
    r"\.group_coordinator\b": ("broker/cluster/coordinator/group", "broker/cluster/coordinator/internal_topics.py"),
    r"\.transactions\b": ("broker/cluster/coordinator/transaction/coordinator.py",
                          "broker/cluster/coordinator/transaction/metadata.py",
                          "broker/cluster/coordinator/transaction/state.py",
                          "broker/cluster/coordinator/internal_topics.py"),
    r"\bAppendGuard\b": ("broker/cluster/coordinator/transaction/append_guard.py",),
    r"\.check_leader\(": ("broker/cluster/partition.py",),
    r"\bpartition\.append\(": ("broker/cluster/partition.py", "broker/storage/validation.py", "broker/storage/log.py",
                               "broker/storage/producer_state.py"),
    r"\bconfigs_denial\b": ("broker/apis/describe_configs.py",),
    r"\baltered_resources\b": ("broker/apis/altered_configs.py", "broker/apis/describe_configs.py"),
}
_DENIAL = {ResourceType.TOPIC: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
           ResourceType.GROUP: ErrorCode.GROUP_AUTHORIZATION_FAILED,
           ResourceType.CLUSTER: ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
           ResourceType.TRANSACTIONAL_ID: ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED}
VERSIONS = re.compile(r"\bversions? (\d+(?:(?:-|, | and | to )\d+)*)", re.IGNORECASE)
# Names with a number, versions, types, values, signed numbers, and large ones.
NO_CODE = re.compile(VERSIONS.pattern + r"|\b(?:KIP|KAFKA)-\d+|\btypes? \d+|\w+=-?\d+|-\d+|\b\d+,\d{3}\b",
                     re.IGNORECASE)


def api_of(name: str) -> Api:
    found: Api = import_module(f"pyproducer.broker.apis.{name}").API
    return found


def docstring_of(name: str) -> str:
    return ast.get_docstring(parsed(APIS / f"{name}.py")) or ""


def entries_of(name: str) -> dict[str, str]:
    """The head of an API's docstring: its first line under "", and what stands behind Does, Differs and Omits."""
    entries = {"": ""}
    label = ""
    for line in docstring_of(name).partition("\nRoad:")[0].splitlines():
        found = re.match(r"(Does|Differs|Omits): +(.*)", line)
        label, text = (found[1], found[2]) if found else (label, line.strip())
        entries[label] = f"{entries.get(label, '')} {text}".strip()
    return entries


def versions_in(text: str) -> set[int]:
    return {int(number) for found in VERSIONS.findall(text) for number in re.findall(r"\d+", found)}


def codes_in(text: str) -> set[int]:
    return {int(number) for number in re.findall(r"(?<!\w)\d+", NO_CODE.sub("", text))}


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text("ascii"))


def code_behind(name: str) -> set[Path]:
    """The files that decide what an API answers: its own, and those of the parts that it asks."""
    own = APIS / f"{name}.py"
    text = own.read_text("ascii")
    places = [PACKAGE / place for pattern, found in BEHIND.items() if re.search(pattern, text) for place in found]
    return {own, *(file for place in places for file in (place.glob("*.py") if place.is_dir() else [place]))}


@cache
def codes_of(path: Path) -> frozenset[int]:
    """The error codes that stand in a file's code, not in its comments and docstrings."""
    return frozenset(int(ErrorCode[node.attr]) for node in ast.walk(parsed(path))
                     if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)
                     and node.value.id == "ErrorCode" and node.attr in ErrorCode.__members__)


# ---- what each file declares

def test_file_when_it_is_an_api_then_it_is_found_and_no_other_file_is() -> None:
    assert [int(api_of(name).key) for name in sorted(NAMES, key=lambda name: api_of(name).key)] == [
        int(key) for key in kafka_apis.HANDLERS]
    for name in NAMES:
        module = import_module(f"pyproducer.broker.apis.{name}")
        handler = kafka_apis.HANDLERS[module.API.key]
        assert (handler.handle, handler.error_response) == (module.handle, module.error_response)
    assert [name for name in sorted(SHARED) if "\ndef handle(" in (APIS / f"{name}.py").read_text("ascii")] == []


def test_api_when_its_file_is_put_into_the_folder_then_it_is_found(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """That, and what protocol/ says of it, is all that a new API takes."""
    (tmp_path / "push_telemetry.py").write_text(
        "from pyproducer.broker.apis.api_handler import Api\n"
        "from pyproducer.protocol.apis import ApiKeys\n\n"
        "API = Api(ApiKeys.PUSH_TELEMETRY, asks=())\n\n\n"
        "def handle(services, request):\n    return error_response(request, 0)\n\n\n"
        "def error_response(request, error_code):\n    return {'error_code': error_code}\n", "ascii")
    # All APIs of the table have a file; so one of those alone, in a folder of its own.
    monkeypatch.setattr(apis, "push_telemetry", apis.push_telemetry)
    monkeypatch.delitem(sys.modules, "pyproducer.broker.apis.push_telemetry")
    monkeypatch.setattr(apis, "__path__", [str(tmp_path)])
    found = kafka_apis._found_handlers()
    assert set(found) == {ApiKeys.PUSH_TELEMETRY}
    assert found[ApiKeys.PUSH_TELEMETRY].handle is not kafka_apis.HANDLERS[ApiKeys.PUSH_TELEMETRY].handle


def test_api_when_two_files_declare_it_then_the_broker_does_not_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(import_module("pyproducer.broker.apis.heartbeat"), "API", api_of("produce"))
    with pytest.raises(ImportError, match="declares Produce, which another file has declared"):
        kafka_apis._found_handlers()


@pytest.mark.parametrize("name", NAMES)
def test_first_line_when_compared_with_the_table_then_name_and_versions_are_the_same(name: str) -> None:
    key = api_of(name).key
    first, last = key.broker_range
    versions = str(first) if first == last else f"{first}-{last}"
    assert re.match(rf"{key.title} {versions}(?=:| on )", docstring_of(name))
    assert name == key.name.lower()


@pytest.mark.parametrize("name", NAMES)
def test_versions_when_the_docstring_names_them_then_there_are_such(name: str) -> None:
    """What is done is done in versions that are answered or advertised; what is left out may be of others."""
    key = api_of(name).key
    answered = {*range(key.broker_range[0], key.broker_range[1] + 1)}
    if key.advertised_range is not None:
        answered |= {*range(key.advertised_range[0], key.advertised_range[1] + 1)}
    for label, text in entries_of(name).items():
        known = answered | {*range(key.latest_version + 1)} if label == "Omits" else answered
        assert sorted(versions_in(text) - known) == [], f"{label}: {text}"


@pytest.mark.parametrize("name", NAMES)
def test_codes_when_the_docstring_names_them_then_the_code_behind_has_them(name: str) -> None:
    entries = entries_of(name)
    first_line = re.sub(r"^\w+ \d+(-\d+)?", "", entries.pop(""))
    # What Differs says of Kafka need not happen here.
    named = codes_in(first_line) | codes_in(entries.get("Does", "")) | codes_in(entries.get("Omits", ""))
    assert sorted(named - set().union(*map(codes_of, code_behind(name)))) == []
    assert sorted(codes_in(entries.get("Differs", "")) - {int(code) for code in ErrorCode}) == []


@pytest.mark.parametrize("name", NAMES)
def test_codes_when_they_stand_in_the_file_then_the_docstring_names_them(name: str) -> None:
    """But for those of a refused permission, which follow from what is asked, and of what nobody expected."""
    of_denials = {_DENIAL[question.resource_type] for question in api_of(name).asks}
    named = set().union(*map(codes_in, entries_of(name).values()))
    assert sorted(codes_of(APIS / f"{name}.py") - named - of_denials - {
        ErrorCode.NONE, ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.KAFKA_STORAGE_ERROR}) == []


def test_docstrings_when_all_are_read_then_codes_and_versions_are_found() -> None:
    """The tests above must not pass because nothing is recognized."""
    assert codes_in(entries_of("produce")["Does"]) == {6, 10, 17, 21, 29, 48, 53, 100, 120}
    assert versions_in(entries_of("produce")["Does"]) == {0, 2, 10, 11, 12, 13}
    assert codes_in(entries_of("incremental_alter_configs")["Does"]) == {3, 17, 29, 31, 40, 42}
    assert versions_in(entries_of("add_partitions_to_txn")["Does"]) == {2, 4, 5}
    assert sum(len(codes_in(entry)) for name in NAMES for entry in entries_of(name).values()) > 100


# ---- what it asks

# Requests that make an API ask what those of test_authorization.py do not.
MORE_REQUESTS: Mapping[ApiKeys, list[Case]] = {
    ApiKeys.METADATA: [Case(9, {**metadata_body("orders"), "include_cluster_authorized_operations": True}, {})],
}


@pytest.mark.parametrize("name", NAMES)
def test_authorizer_when_it_is_asked_then_the_file_has_declared_the_questions_and_no_others(
        name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    api = api_of(name)
    # What somebody may do with a thing is told by asking for all operations; that permits nothing.
    monkeypatch.setattr(Services, "authorized_operations", lambda *_: 0)
    stage = Stage(tmp_path)
    try:
        producer = stage.ask(ApiKeys.INIT_PRODUCER_ID, 4, {
            "transactional_id": "t", "transaction_timeout_ms": 1000, "producer_id": -1, "producer_epoch": -1})
        stage.ask(ApiKeys.ADD_PARTITIONS_TO_TXN, 3, {
            "v3_and_below_transactional_id": "t", "v3_and_below_producer_id": producer["producer_id"],
            "v3_and_below_producer_epoch": producer["producer_epoch"],
            "v3_and_below_topics": [{"name": "orders", "partitions": [0]}]})
        stage.questions.clear()
        for case in [*ASKED.get(api.key, ()), *MORE_REQUESTS.get(api.key, ())]:
            stage.deny_everything()
            stage.ask(api.key, case.version, case.body)
            for denied in [*case.denials, ()]:
                stage.deny(*denied)
                answer: Any = stage.ask(api.key, case.version, case.body)
                assert answer is not None
    finally:
        stage.close()
    assert {(operation, resource_type) for operation, resource_type, _ in stage.questions} == {
        (question.operation.value, question.resource_type.value) for question in api.asks}
    assert len(set(api.asks)) == len(api.asks)
