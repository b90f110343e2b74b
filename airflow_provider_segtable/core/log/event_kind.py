"""A kind of event: its type, its name in the log, and its JSON, and its line for people."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from airflow_provider_segtable.core.segments.segment_codec import Json

A = TypeVar("A")


@dataclass(frozen=True, slots=True, kw_only=True)
class EventKind(Generic[A]):
    """One kind of event. ``name`` stands in the log and never changes.

    ``decode`` parses the output of ``encode``, and that of every earlier segtable. ``line`` says in
    one line what the event does, for people.
    """

    type: type[A]
    name: str
    encode: Callable[[A], Json]
    decode: Callable[[Mapping[str, Any]], A]
    line: Callable[[A], str]
