"""Feeds: entries of indexes that an event brings, in the event or in files of the indexes' tables.

1. Whoever publishes data files writes the entries about them, too, for every index of the table,
   and brings both in one event. So no version shows files without the entries that it brought.
2. A small feed is *inline*: its entries are bytes in the event, and no file is written. A larger
   one is log files of the index's own table, applied there as they are (``forwarding``).
3. Inline feeds of neighbouring events are joined into log files later, all at once, by an event of
   their own (``FeedsJoined``). Files are never joined, so a copy of them is always the same.
4. An event without a feed for an index is no error, nor is one whose feed is about fewer files than
   it publishes. The log records that the index lacks it
   (``index_state.Lack``), and a later run of the index builds it.

Source of the idea: Hudi RFC-45, whose writers log entries for each index that is being built.
"""

import base64
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from airflow_provider_segtable.core.paths import known_name
from airflow_provider_segtable.core.segments.segment import Segment
from airflow_provider_segtable.core.segments.segment_codec import decode_segments, encode_segments


@dataclass(frozen=True, slots=True, kw_only=True)
class Feed:
    """What an event brings for an index; empty if there is nothing to say.

    Attributes:
        index: the id of the index.
        segments: log files with entries.
        entries: the entries themselves, as bytes; empty if they are in files.
        files: the number of new files of the event that the entries are about; None if its author
            does not say so: an older one, one that built entries, or one of facts about records.
    """

    index: str
    segments: tuple[Segment, ...] = ()
    entries: bytes = b""
    files: int | None = None

    def covers(self, files: int) -> bool:
        """Return whether it is about all of so many new files."""
        return self.files is None or self.files >= files

    @property
    def inline(self) -> bool:
        """Return whether the entries are in the event."""
        return bool(self.entries)

    @property
    def empty(self) -> bool:
        """Return whether it brings nothing."""
        return not self.entries and not self.segments


def encode_feeds(feeds: Iterable[Feed]) -> list[dict[str, Any]]:
    """Return feeds as JSON."""
    return [_encoded(each) for each in feeds]


def _encoded(feed: Feed) -> dict[str, Any]:
    told = {} if feed.files is None else {"files": feed.files}
    if feed.inline:
        return {"index": feed.index, "entries": base64.b64encode(feed.entries).decode(), **told}
    return {"index": feed.index, "segments": encode_segments(feed.segments), **told}


def decode_feeds(body: Iterable[Mapping[str, Any]]) -> tuple[Feed, ...]:
    """Parse the output of ``encode_feeds``."""
    return tuple(
        Feed(
            index=known_name(each["index"], "the folder of an index"),
            segments=decode_segments(each.get("segments", ())),
            entries=base64.b64decode(each.get("entries", "")),
            files=each.get("files"),
        )
        for each in body
    )
