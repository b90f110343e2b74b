"""Check what the table's log says of its log store.

1. The ranges of a bucket that are within retention follow each other, up to the committed end; and
   each waypoint names the event with the range that begins there.
2. With ``files``: the footers of an event's own files have exactly the offsets of its ranges, each
   once. Of a primary-key table, whose records are merged, some file has the bucket.
3. That a checkpoint of the log has the same ranges as its events is checked with the log itself
   (``health.verify``).
"""

from collections.abc import Iterator, Mapping

import numpy as np

from airflow_provider_segtable.core.errors import CorruptTable, NotFound, StorageError
from airflow_provider_segtable.core.log.events import Appended, Event
from airflow_provider_segtable.core.log.families.append_events import published
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.log_store.manifest import BucketManifest, LogRange
from airflow_provider_segtable.core.recovery.diagnosis import Finding, broken_log_range, unread
from airflow_provider_segtable.table.context import TableContext
from airflow_provider_segtable.table.log.event_log import event_path
from airflow_provider_segtable.table.log_store.file_reader import files_of_bucket

MISPLACED = "misplaced-log-range"
WRONG_OFFSETS = "wrong-log-offsets"


def check_log_store(
    ports: TableContext, state: State, events: Mapping[int, Event], *, files: bool
) -> Iterator[Finding]:
    """Yield findings about the committed records of the log store.

    Args:
        ports: the table's ports.
        state: the version to verify.
        events: the retained events with ranges, by number.
        files: read the footers of their files, too.
    """
    for bucket, known in sorted(state.log_store.items()):
        ranges = [*_ranges(events, state, bucket, known)]
        yield from _misplaced(state, bucket, known, ranges)
        for event, found in ranges if files else ():
            yield from _wrong_files(ports, state, event, found)


def _ranges(
    events: Mapping[int, Event], state: State, bucket: int, known: BucketManifest
) -> Iterator[tuple[Event, LogRange]]:
    """Yield the ranges of a bucket that count, in order."""
    numbers = (n for span in known.spans(0, state.n) for n in range(span.first, span.last + 1))
    for event in (events[n] for n in numbers if n in events and n >= state.retained_from):
        action = event.action
        for each in action.log if isinstance(action, Appended) else ():
            if each.bucket == bucket:
                yield event, each


def _misplaced(
    state: State, bucket: int, known: BucketManifest, ranges: list[tuple[Event, LogRange]]
) -> Iterator[Finding]:
    at = ranges[0][1].start if ranges else known.end
    for event, found in ranges:
        if found.start != at:
            what = f"{found} follows {at}: its records are not where they should be"
            yield broken_log_range(event_path(event.n), MISPLACED, what)
        at = found.end
    if at != known.end:
        what = f"bucket {bucket} is committed up to {known.end}, its ranges up to {at}"
        yield broken_log_range(f"version {state.n}", MISPLACED, what)
    begins = {(event.n, found.start) for event, found in ranges}
    kept = (w for w in known.waypoints if w.undone_after is None and w.n >= state.retained_from)
    for each in kept:
        if (each.n, each.start) not in begins:
            what = f"bucket {bucket}: event {each.n} has no range that begins at {each.start}"
            yield broken_log_range(event_path(each.n), MISPLACED, what)


def _wrong_files(
    ports: TableContext, state: State, event: Event, found: LogRange
) -> Iterator[Finding]:
    """Yield what the footers of a range's files have otherwise."""
    action = event.action
    segments = published(state, action, event.time) if isinstance(action, Appended) else ()
    where = event_path(event.n)
    try:
        files = [*files_of_bucket(ports, segments, found.bucket)]
    except (NotFound, CorruptTable) as error:
        yield broken_log_range(where, WRONG_OFFSETS, f"the records of {found}: {error}")
        return
    except StorageError as error:
        yield unread(where, f"the files of {found} could not be read: {error}", code="unread")
        return
    mine = [each for _, some in files for each in some if each.bucket == found.bucket]
    if state.table.kind.rules is not None:
        if not mine:
            yield broken_log_range(where, WRONG_OFFSETS, f"no file has records of {found}")
        return
    offsets = np.concatenate(
        [np.empty(0, np.int64), *(each.offsets for each in mine if each.offsets is not None)]
    )
    if not np.array_equal(np.sort(offsets), np.arange(found.start, found.end)):
        what = f"the files of {found} have {len(offsets)} offsets, or other ones"
        yield broken_log_range(where, WRONG_OFFSETS, what)
