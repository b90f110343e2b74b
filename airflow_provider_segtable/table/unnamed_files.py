"""Files that the log does not name, in little memory.

1. Files are listed before the log is read, so that files committed meanwhile are named.
2. A million entries and a million names need half a gigabyte. So entries that an earlier state
   names, nearly all, are dropped while they are listed; only hashes of its names are held. The
   newest state's names are then compared one at a time with the remaining entries.
3. Two names of equal hash make a file count as named, which keeps it. A named file never counts as
   unnamed.
4. A file that only the earlier state named counts as named, too; the next listing finds it.
5. A data file lies in a folder of its time (``data/<interval>/``), and only chunks that have this
   time name it. So of a part of the files, only these chunks need a look. A file is not deleted
   before all names were compared.
6. A file in the folder of an index counts as named if the state has the index: the log of the
   index's own table names its files.
"""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import chain, islice

import numpy as np

from airflow_provider_segtable.core.deletion import paths
from airflow_provider_segtable.core.errors import InvalidInput
from airflow_provider_segtable.core.indexes.index_state import folder
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.paths import DATA
from airflow_provider_segtable.core.settlement import vector_paths
from airflow_provider_segtable.core.time import Interval, united
from airflow_provider_segtable.ports.storage import Entry

BATCH = 8192


def unnamed_before(entries: Iterable[Entry], earlier: State) -> Iterator[Entry]:
    """Yield the entries that an earlier state does not name (rules 2 to 4)."""
    known = np.fromiter(map(hash, _named(earlier)), np.int64)
    known.sort()
    rest = _outside(entries, earlier)
    while batch := [*islice(rest, BATCH)]:
        hashes = np.fromiter((hash(entry.path) for entry in batch), np.int64, len(batch))
        first, after = (np.searchsorted(known, hashes, side) for side in ("left", "right"))
        yield from (entry for entry, new in zip(batch, first == after, strict=True) if new)


def unnamed(entries: Iterable[Entry], newest: State) -> list[Entry]:
    """Return the entries that a state does not name, in their order."""
    left = {entry.path: entry for entry in _outside(entries, newest)}
    for path in _named(newest) if left else ():
        left.pop(path, None)
    return [*left.values()]


def unnamed_nearby(entries: Iterable[Entry], state: State) -> list[Entry]:
    """Return the entries that neither chunks of their time nor others' deletions name (rule 5)."""
    left = {entry.path: entry for entry in _outside(entries, state)}
    for path in _beside_segments(state):
        left.pop(path, None)
    times = {_time(path) for path in left if path.startswith(f"{DATA}/")}
    regions = united(time for time in times if time) if None not in times else [None]
    for region in regions:
        for path in chain.from_iterable(each.paths() for each in state.timeline.chunks(region)):
            left.pop(path, None)
    return [*left.values()]


def _time(path: str) -> Interval | None:
    """Return the interval of the folder that a data file is in; None if it is in another one."""
    with suppress(InvalidInput, ValueError):
        return Interval.from_name(path.split("/")[1])
    return None


def _named(state: State) -> Iterator[str]:
    return chain(state.timeline.paths(), _beside_segments(state))


def _beside_segments(state: State) -> Iterator[str]:
    return chain(
        state.pending_delete,
        paths(state.vectors),
        vector_paths(state.settled),
        (each.path for each in state.replaced_vectors),
    )


def _outside(entries: Iterable[Entry], state: State) -> Iterator[Entry]:
    """Yield the entries that lie in no folder of an index of a state."""
    folders = tuple(f"{folder(each.definition.id)}/" for each in state.indexes.values())
    return (entry for entry in entries if not entry.path.startswith(folders))
