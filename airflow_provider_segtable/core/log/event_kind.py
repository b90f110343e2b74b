"""A kind of event: its type, its name in the log, and its JSON."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from airflow_provider_segtable.core.segments.segment_codec import Json

A = TypeVar("A")


@dataclass(frozen=True, slots=True, kw_only=True)
class EventKind(Generic[A]):
    """One kind of event. ``name`` stands in the log and never changes.

    ``decode`` parses the output of ``encode``, and that of every earlier segtable.
    """

    type: type[A]
    name: str
    encode: Callable[[A], Json]
    decode: Callable[[Mapping[str, Any]], A]
