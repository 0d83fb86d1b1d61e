"""IncrementalAlterConfigs 0-1: set, remove, extend and shorten settings of topics and brokers while they are in use.

Does:    topics (type 2), all settings; brokers (type 4, by id or "" for all), the defaults of topics: other settings of
         a broker need a restart and are refused with 42. Kept in the data directory. 40 a topic's wrong value or name,
         42 a broker's, twice the same resource or key, or no value, 29 and 31 without the permission, 3 and 17 for
         topics; validate_only.
Omits:   broker loggers (type 8), client metrics (type 16), groups (type 32): 42.

Road:    KafkaApis -> [IncrementalAlterConfigs] -> altered configs
Thread:  handler threads; one alteration at a time.
Source:  Java ConfigAdminManager, ConfigurationControlManager (4.1), and its measured answers.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyproducer.broker.apis.altered_configs import (
    ASKS,
    Alteration,
    RefusedAlterationError,
    altered_resources,
    error_answer,
)
from pyproducer.broker.apis.api_handler import Api
from pyproducer.broker.apis.services import Answer, Services
from pyproducer.broker.network.request_channel import Request
from pyproducer.common.error_codes import ErrorCode
from pyproducer.protocol.apis import ApiKeys
from pyproducer.protocol.schema import Struct

API = Api(ApiKeys.INCREMENTAL_ALTER_CONFIGS, asks=ASKS)
_SET, _DELETE, _APPEND, _SUBTRACT = range(4)


def handle(services: Services, request: Request) -> Answer:
    """Answer one IncrementalAlterConfigs request."""
    return altered_resources(services, request, _ALTERATION)


def error_response(request: Request, error_code: ErrorCode) -> Answer:
    """Say that the whole request failed."""
    return error_answer(request, error_code)


def _altered(resource: Struct, defaults: Mapping[str, str], before: Mapping[str, str]) -> dict[str, str]:
    """Return the settings as they would be; they are not checked yet.

    Raises:
        RefusedAlterationError: That cannot be done with a setting.
    """
    configs = dict(before)
    for config in resource["configs"]:
        name, operation, value = config["name"], config["config_operation"], config["value"]
        if operation == _SET:
            configs[name] = value
        elif operation == _DELETE:
            configs.pop(name, None)
        elif operation in (_APPEND, _SUBTRACT):
            if name not in defaults:
                word = "APPEND" if operation == _APPEND else "SUBTRACT"
                raise RefusedAlterationError(
                    ErrorCode.INVALID_CONFIG, f"Can't {word} to key {name} because its type is not LIST.")
            parts = configs.get(name, defaults[name]).split(",")
            given = value.split(",")
            kept = ([*parts, *(part for part in given if part not in parts)] if operation == _APPEND
                    else [part for part in parts if part not in given])
            configs[name] = ",".join(part for part in kept if part)
        else:
            raise RefusedAlterationError(ErrorCode.UNKNOWN_SERVER_ERROR, None)
    return configs


_ALTERATION = Alteration(_altered, lambda config: bool(config["config_operation"] != _DELETE))
