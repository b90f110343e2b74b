"""JSON codec of fencing tokens."""

from collections.abc import Mapping
from typing import Any

from airflow_provider_segtable.core.locks.lock_types import FencingToken
from airflow_provider_segtable.core.segments.segment_codec import Json


def encode_token(token: FencingToken) -> Json:
    """Return a fencing token as JSON."""
    return {"epoch": token.epoch, "number": token.number}


def decode_token(body: Mapping[str, Any]) -> FencingToken:
    """Parse the output of ``encode_token``."""
    return FencingToken(**body)
