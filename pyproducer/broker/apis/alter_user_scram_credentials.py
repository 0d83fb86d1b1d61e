"""AlterUserScramCredentials 0: let users log in with SCRAM, change their passwords, shut them out.

Does:    credentials of the salted password that the client has made; kept in the data directory, for all brokers. 33
         for an unknown mechanism, 91 where nothing is to be deleted, 92 for a user named twice, 93
         without a name or with too few or too many iterations, 31 without the permission. What is wrong for one user
         changes nothing for others.

Road:    KafkaApis -> [AlterUserScramCredentials] -> scram credentials
Thread:  handler threads.
Source:  Java ControllerApis.handleAlterUserScramCredentials, ScramControlManager.alterCredentials (4.1).
"""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from pyproducer.broker.apis.api_handler import Api, Question
from pyproducer.broker.apis.services import Answer, Services
from pyproducer.broker.apis.unexpected import unexpected
from pyproducer.broker.cluster.authorizer import AclOperation, ResourceType
from pyproducer.broker.cluster.sasl.scram_credential import MAX_ITERATIONS, MECHANISMS, ScramCredential, credential_of
from pyproducer.broker.cluster.scram_credentials import Credentials
from pyproducer.broker.network.request_channel import Request
from pyproducer.common.error_codes import ErrorCode
from pyproducer.network.sasl.scram_formatter import FORMATTERS, MIN_ITERATIONS, ScramMechanism
from pyproducer.protocol.apis import ApiKeys
from pyproducer.protocol.schema import Struct

API = Api(ApiKeys.ALTER_USER_SCRAM_CREDENTIALS, asks=(Question(AclOperation.ALTER, ResourceType.CLUSTER),))


class _Refusal(NamedTuple):
    error_code: ErrorCode
    message: str | None


def handle(services: Services, request: Request) -> Answer:
    """Answer one AlterUserScramCredentials request."""
    if not services.authorize_cluster(request, AclOperation.ALTER):
        return error_response(request, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    data = request.body(ApiKeys.ALTER_USER_SCRAM_CREDENTIALS).data
    named = Counter(entry["name"] for entry in (*data["deletions"], *data["upsertions"]))
    known = services.cluster.scram_credentials.users
    refusals: dict[str, _Refusal | None] = {}
    changes: dict[tuple[str, str], ScramCredential | None] = {}
    for entry, is_deletion in (*((entry, True) for entry in data["deletions"]),
                               *((entry, False) for entry in data["upsertions"])):
        user = entry["name"]
        refusals.setdefault(user, None)
        mechanism = MECHANISMS.get(entry["mechanism"])
        refusal = _refusal(entry, mechanism, named[user], known, is_deletion=is_deletion)
        if refusal is not None or mechanism is None:
            refusals[user] = refusals[user] or refusal
        else:
            changes[user, mechanism.value] = None if is_deletion else credential_of(
                FORMATTERS[mechanism.value], bytes(entry["salted_password"]), bytes(entry["salt"]), entry["iterations"])
    changes = {key: credential for key, credential in changes.items() if refusals[key[0]] is None}
    if changes:
        try:
            services.cluster.scram_credentials.alter(changes)
        except OSError as error:
            failed = _Refusal(unexpected(request, "users", error), None)
            refusals.update((user, failed) for user, _ in changes)
    return {"throttle_time_ms": 0, "results": [
        {"user": user, "error_code": ErrorCode.NONE if refusal is None else refusal.error_code,
         "error_message": None if refusal is None else refusal.message} for user, refusal in refusals.items()]}


def error_response(request: Request, error_code: ErrorCode) -> Answer:
    """Say that the whole request failed."""
    data = request.body(ApiKeys.ALTER_USER_SCRAM_CREDENTIALS).data
    users = dict.fromkeys(entry["name"] for entry in (*data["deletions"], *data["upsertions"]))
    return {"throttle_time_ms": 0, "results": [
        {"user": user, "error_code": error_code, "error_message": error_code.sentence} for user in users]}


def _refusal(entry: Struct, mechanism: ScramMechanism | None, count: int, known: Credentials, *,
             is_deletion: bool) -> _Refusal | None:
    if not entry["name"]:
        return _Refusal(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty")
    if mechanism is None:
        return _Refusal(ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism")
    if count > 1:
        return _Refusal(ErrorCode.DUPLICATE_RESOURCE, "A user credential cannot be altered twice in the same request")
    if is_deletion:
        if mechanism.value not in known.get(entry["name"], {}):
            return _Refusal(ErrorCode.RESOURCE_NOT_FOUND, "Attempt to delete a user credential that does not exist")
    elif entry["iterations"] < MIN_ITERATIONS:
        return _Refusal(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too few iterations")
    elif entry["iterations"] > MAX_ITERATIONS:
        return _Refusal(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too many iterations")
    return None
