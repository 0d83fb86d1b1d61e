"""AlterConfigs 0-2: set settings of topics and brokers; all that were set before and are not given go.

Does:    topics (type 2), brokers (type 4, by id or "" for all), validate_only and all codes as IncrementalAlterConfigs
         does: 40 a topic's wrong value or name, 42 a broker's, twice the same resource or key, or no value, 29 and 31
         without the permission, 3 and 17 for topics.
Differs: of twice the same resource Kafka answers nothing; all brokers' min.insync.replicas may go, which it refuses.
Omits:   broker loggers (type 8), which Kafka has not got here either; client metrics (type 16), groups (type 32): 42.

Road:    KafkaApis -> [AlterConfigs] -> altered configs
Thread:  handler threads; one alteration at a time.
Source:  Java ConfigAdminManager, ConfigurationControlManager.legacyAlterConfigs (4.1); deprecated by KIP-339.
"""

from __future__ import annotations

from pyproducer.broker.apis.altered_configs import ASKS, Alteration, altered_resources, error_answer
from pyproducer.broker.apis.api_handler import Api
from pyproducer.broker.apis.services import Answer, Services
from pyproducer.broker.network.request_channel import Request
from pyproducer.common.error_codes import ErrorCode
from pyproducer.protocol.apis import ApiKeys

API = Api(ApiKeys.ALTER_CONFIGS, asks=ASKS)
_ALTERATION = Alteration(
    lambda resource, _defaults, _before: {config["name"]: config["value"] for config in resource["configs"]},
    needs_value=lambda _config: True)


def handle(services: Services, request: Request) -> Answer:
    """Answer one AlterConfigs request."""
    return altered_resources(services, request, _ALTERATION)


def error_response(request: Request, error_code: ErrorCode) -> Answer:
    """Say that the whole request failed."""
    return error_answer(request, error_code)
