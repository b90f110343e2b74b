"""Feeds: entries of indexes that an event brings, in files of the indexes' own tables.

1. Whoever publishes data files writes the entries about them, too, for every index of the table,
   and names both in one event. So no version shows files without the entries that it brought.
2. A feed is an append to the table of an index: it is applied there as it is (``forwarding``).
3. An event without a feed for an index is no error. The log records that the index lacks it
   (``index_state.Lack``), and a later run of the index builds it.

Source of the idea: Hudi RFC-45, whose writers log entries for each index that is being built.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from airflow_provider_segtable.core.paths import known_name
from airflow_provider_segtable.core.segments.segment import Segment
from airflow_provider_segtable.core.segments.segment_codec import decode_segments, encode_segments


@dataclass(frozen=True, slots=True, kw_only=True)
class Feed:
    """The log files with entries for an index, by its id; none if there is nothing to say."""

    index: str
    segments: tuple[Segment, ...] = ()


def encode_feeds(feeds: Iterable[Feed]) -> list[dict[str, Any]]:
    """Return feeds as JSON."""
    return [{"index": each.index, "segments": encode_segments(each.segments)} for each in feeds]


def decode_feeds(body: Iterable[Mapping[str, Any]]) -> tuple[Feed, ...]:
    """Parse the output of ``encode_feeds``."""
    return tuple(
        Feed(
            index=known_name(each["index"], "the folder of an index"),
            segments=decode_segments(each["segments"]),
        )
        for each in body
    )
