"""What publishing one commit costs beside 10^4 to 10^6 files that are published already.

1. A version with so many files is put by the format's own target; their data files do not exist,
   and their statistics are those of the log.
2. ``load`` reads it as another process does that publishes for the first time. ``publish`` is the
   median of versions that add one file each, with the look afterwards, in a process that goes on.
"""

import statistics
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.publishing import ShownFile
from airflow_provider_segtable.core.segment import ChunkKey
from airflow_provider_segtable.formats.format import NewFile, Published, Revision, Target
from airflow_provider_segtable.formats.formats import FORMATS
from airflow_provider_segtable.table.context import open_context
from benchmarks.scale_tables import FULL, hour, segment

EACH = 10
"""Files of an hour."""
COMMITS = 21


def measured(folder: Path, name: str, count: int) -> Mapping[str, Any]:
    """Return processor times in seconds, of a table that was created in a folder."""
    ports = open_context(str(folder))
    state = ports.log.load()
    files = [_file(state, at) for at in range(count)]
    FORMATS[name].target(ports.storage).put(None, _revision(state, 1, files))
    del files
    target = FORMATS[name].target(ports.storage)
    begin = time.process_time()
    head = target.load()
    load_s = time.process_time() - begin
    took = []
    for at in range(COMMITS):
        begin = time.process_time()
        head = _published(target, head, _revision(state, 2 + at, [_file(state, count + at)]))
        took.append(time.process_time() - begin)
    return {"load_s": load_s, "publish_s": statistics.median(took)}


def _published(target: Target, head: Published | None, revision: Revision) -> Published:
    put = target.put(head, revision)
    if put is None or not target.holds(put):
        raise RuntimeError(f"version {revision.event} was not put")
    return put


def _file(state: State, at: int) -> NewFile:
    key = ChunkKey(hour(at // EACH), state.base_version)
    return NewFile(shown=ShownFile(segment=segment(key, at % EACH, FULL)))


def _revision(state: State, n: int, files: list[NewFile]) -> Revision:
    return Revision(
        event=n,
        time=state.time + n,
        commit=f"scale-{n}",
        table=state.table,
        shown={each.shown.path: each for each in files},
        rules=1,
    )
