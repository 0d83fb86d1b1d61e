"""Requests and answers in a line each, for the story of a seed.

Source:  ours.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyproducer.protocol.apis import ApiKeys
from pyproducer.protocol.buffer import ByteReader
from pyproducer.protocol.header import parse_response, read_request_header
from pyproducer.record.batch_reader import read_batches


def request(frame: bytes) -> str:
    """Say what a request asks for."""
    reader = ByteReader(frame)
    header = read_request_header(reader)
    api_key = ApiKeys(header.api_key)
    body = api_key.request_formats[header.api_version][0].read(reader)
    if api_key is not ApiKeys.PRODUCE:
        return f"{api_key.title} v{header.api_version} #{header.correlation_id}"
    rows = []
    for topic in body["topic_data"]:
        for row in topic["partition_data"]:
            for batch in read_batches(bytes(row["records"])):
                values = [(record.value or record.key or b"").split(b" ")[0].decode() for record in batch]
                rows.append(f"{topic.get('name') or topic.get('topic_id')}-{row['index']} "
                            f"{batch.producer_id}/{batch.producer_epoch}:{batch.base_sequence} "
                            f"[{values[0]}..{values[-1]}] ({len(values)})")
    return f"Produce v{header.api_version} #{header.correlation_id}: {'; '.join(rows)}"


def response(frame: bytes, answer: bytes | None) -> str:
    """Say what is answered."""
    if not answer:
        return "nothing"
    header = read_request_header(ByteReader(frame))
    api_key = ApiKeys(header.api_key)
    if api_key is not ApiKeys.PRODUCE:
        return f"{api_key.title} #{header.correlation_id}"
    body: Mapping[str, Any] = parse_response(api_key, header.api_version, answer)[1]
    rows = [f"{row['index']}: {row['error_code']} at {row['base_offset']}" for topic in body["responses"]
            for row in topic["partition_responses"]]
    return f"Produce #{header.correlation_id}: {'; '.join(rows)}"
