"""Consumers: named readers of a table's windows, whose positions the log keeps.

A position is the last version that a consumer has read. While it is not too old, cleaning keeps all
versions from it on, so that the window after it can be read.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from airflow_provider_segtable.core.paths import known_name
from airflow_provider_segtable.core.time.interval import Instant


@dataclass(frozen=True, slots=True)
class Consumer:
    """A consumer's position, and the time of the event that set it."""

    version: int
    advanced_at: Instant


def known_consumer_name(name: str) -> str:
    """Return a consumer's name as events and checkpoints record it, checked."""
    return known_name(name, "a consumer")


def encode_consumers(consumers: Mapping[str, Consumer]) -> dict[str, list[int]]:
    """Return consumers as checkpoints record them."""
    return {name: [each.version, each.advanced_at] for name, each in consumers.items()}


def decode_consumers(body: Mapping[str, Any]) -> dict[str, Consumer]:
    """Parse the output of ``encode_consumers``."""
    return {known_consumer_name(name): Consumer(*each) for name, each in body.items()}
