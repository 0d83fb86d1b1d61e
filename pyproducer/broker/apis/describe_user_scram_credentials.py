"""DescribeUserScramCredentials 0: which users log in with which mechanisms of SCRAM.

Does:    the users that are named, or all; 91 for one that there is not, 92 for one named twice, 31 without the
         permission. Nothing of a password is told, but its iterations.

Road:    KafkaApis -> [DescribeUserScramCredentials] -> scram credentials
Thread:  handler threads.
Source:  Java KafkaApis.handleDescribeUserScramCredentialsRequest, ScramImage.describe (4.1).
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from pyproducer.broker.apis.api_handler import Api, Question
from pyproducer.broker.apis.services import Answer, Services
from pyproducer.broker.cluster.authorizer import AclOperation, ResourceType
from pyproducer.broker.cluster.sasl.scram_credential import TYPE_CODES
from pyproducer.broker.cluster.scram_credentials import Credentials
from pyproducer.broker.network.request_channel import Request
from pyproducer.common.error_codes import ErrorCode
from pyproducer.network.sasl.scram_formatter import ScramMechanism
from pyproducer.protocol.apis import ApiKeys

API = Api(ApiKeys.DESCRIBE_USER_SCRAM_CREDENTIALS, asks=(Question(AclOperation.DESCRIBE, ResourceType.CLUSTER),))


def handle(services: Services, request: Request) -> Answer:
    """Answer one DescribeUserScramCredentials request."""
    if not services.authorize_cluster(request, AclOperation.DESCRIBE):
        return error_response(request, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    asked = request.body(ApiKeys.DESCRIBE_USER_SCRAM_CREDENTIALS).data["users"]
    known = services.cluster.scram_credentials.users
    counts = Counter(user["name"] for user in asked or ()) or dict.fromkeys(known, 1)
    return {"throttle_time_ms": 0, "error_code": 0, "error_message": "",
            "results": [_result(user, count, known) for user, count in counts.items()]}


def error_response(request: Request, error_code: ErrorCode) -> Answer:
    """Say that the whole request failed."""
    return {"throttle_time_ms": 0, "error_code": error_code, "error_message": error_code.sentence,
            "results": []}


def _result(user: str, count: int, known: Credentials) -> dict[str, Any]:
    error_code, message = ErrorCode.NONE, ""
    if count > 1:
        error_code = ErrorCode.DUPLICATE_RESOURCE
        message = f"Cannot describe SCRAM credentials for the same user twice in a single request: {user}"
    elif user not in known:
        error_code = ErrorCode.RESOURCE_NOT_FOUND
        message = f"Attempt to describe a user credential that does not exist: {user}"
    infos = [] if error_code else [
        {"mechanism": TYPE_CODES[ScramMechanism(mechanism)], "iterations": credential.iterations}
        for mechanism, credential in sorted(known[user].items())]
    return {"user": user, "error_code": error_code, "error_message": message, "credential_infos": infos}
