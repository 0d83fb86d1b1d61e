"""What nobody expected while one of the things of a request was done: logged, and answered for that thing alone.

A request names many partitions, topics or groups. When one of them fails by a bug, or by the disk, the others may have
taken effect already; an error for the whole request would have its client do them again.

Road:    apis -> [unexpected] -> the answer of one partition, topic or group
Thread:  handler threads.
Source:  Java ApiError.fromThrowable, UnifiedLog.maybeHandleIOException (4.1).
"""

from __future__ import annotations

import logging

from pyproducer.broker.network.request_channel import Request
from pyproducer.broker.storage.descriptors import reason
from pyproducer.common.error_codes import ErrorCode

_logger = logging.getLogger(__name__)


def unexpected(request: Request, thing: object, error: Exception) -> ErrorCode:
    """Log an exception with its traceback; return the code to answer for the thing that it came from.

    Args:
        request: In which it was asked for.
        thing: The partition, topic or group, as the log is to name it.
        error: What was raised. Of the operating system it is a storage error, as in Kafka: another time it may work.
    """
    _logger.error("Error when handling %s of a request: clientId=%s, correlationId=%d, api=%s, version=%d", thing,
                  request.header.client_id, request.header.correlation_id, request.api_key.title,
                  request.header.api_version, exc_info=error)
    if not isinstance(error, OSError):
        return ErrorCode.UNKNOWN_SERVER_ERROR
    _logger.error("The cause is: %s", reason(error))
    return ErrorCode.KAFKA_STORAGE_ERROR


def message_of(error_code: ErrorCode, error: Exception) -> str:
    """Return a code's sentence, with what the operating system said."""
    sentence = error_code.sentence
    return f"{sentence} {reason(error)}" if isinstance(error, OSError) else sentence
