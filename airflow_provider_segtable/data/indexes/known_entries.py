"""All entries of an index of records in memory, so that a writer looks its keys up without reading.

1. Entries lie in *runs*, each sorted by the hash of the table's key. A look-up finds the hashes by
   bisection, and compares the keys of what it found, because keys may share a hash.
2. A feed is a layer above (``data.keyed.log_files``): its entries are a new run, and entries that
   it replaces or deletes are marked as gone in the others. So the cost of a feed is its own rows.
3. A run that is not twice as large as the next one is merged with it, without gone entries. So
   there are few runs, and an entry is moved a few times.
4. A value is never changed: threads may look keys up while another one adds a layer.
5. The same layers again, from any of them on, leave the same entries: the last layer that names an
   entry decides.

Source of the idea: log-structured merge trees (O'Neil and others, 1996), with Hudi's record-level
index (RFC-54) as their content.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.data.keyed.key_groups import Flags
from airflow_provider_segtable.data.keyed.keyed_rows import Buckets, key_hashes
from airflow_provider_segtable.data.keyed.log_files import Records
from airflow_provider_segtable.data.rows import Keys

Places = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class _Run:
    """Entries by the hash of their key, ascending, and which of them are not gone."""

    rows: pa.Table
    hashes: Buckets
    live: Flags

    @staticmethod
    def of(rows: pa.Table, hashes: Buckets) -> "_Run":
        """Return entries in any order as a run."""
        order = np.argsort(hashes, kind="stable")
        sorted_rows = rows.take(pa.array(order)).combine_chunks()
        return _Run(sorted_rows, hashes[order], np.ones(len(order), np.bool_))

    def places(self, hashes: Buckets) -> Places:
        """Return the places of entries with some hashes; each hash is given once."""
        first = np.searchsorted(self.hashes, hashes, side="left")
        counts = np.searchsorted(self.hashes, hashes, side="right") - first
        within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
        found: Places = np.repeat(first, counts) + within
        return found[self.live[found]]

    def but(self, gone: Places) -> "_Run":
        """Return the run without the entries of some places."""
        if not len(gone):
            return self
        live = self.live.copy()
        live[gone] = False
        return replace(self, live=live)

    def merged(self, other: "_Run") -> "_Run":
        """Return the entries of both runs that are not gone."""
        rows = [run.rows.filter(pa.array(run.live)) for run in (self, other)]
        hashes = [run.hashes[run.live] for run in (self, other)]
        return _Run.of(pa.concat_tables(rows), np.concatenate(hashes))


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownEntries:
    """The entries of an index as of a version of the indexed table.

    Attributes:
        n: the version.
        key: the columns of the table's key.
        entry_key: the primary key of entries.
        schema: the columns of entries.
        runs: the entries, the largest run first.
    """

    n: int
    key: tuple[str, ...]
    entry_key: tuple[str, ...]
    schema: pa.Schema
    runs: tuple[_Run, ...] = ()

    @property
    def nbytes(self) -> int:
        """Return the bytes in memory."""
        return sum(r.rows.nbytes + r.hashes.nbytes + r.live.nbytes for r in self.runs)

    def of_keys(self, wanted: pa.Table) -> pa.Table:
        """Return all entries of the keys of some rows, in all columns."""
        hashes = np.unique(key_hashes(wanted, self.key))
        found = [run.rows.take(pa.array(run.places(hashes))) for run in self.runs]
        rows = pa.concat_tables([self.schema.empty_table(), *found]).combine_chunks()
        if not rows.num_rows:
            return rows
        keys = Keys.of(wanted, self.key, nulls=False)
        return rows.filter(pa.array(keys.find(rows) >= 0))

    def after(self, n: int, layers: Iterable[Records]) -> "KnownEntries":
        """Return the entries as of a later version, whose layers since this one are given."""
        known = self
        for layer in layers:
            known = known._with(layer)
        return replace(known, n=n)

    def _with(self, layer: Records) -> "KnownEntries":
        if not layer.rows.num_rows:
            return self
        rows, deleted = layer.rows.combine_chunks(), layer.deleted
        hashes = key_hashes(rows, self.key)
        some = np.unique(hashes)
        places = [run.places(some) for run in self.runs]
        runs = list(self.runs)
        if len(some) < len(hashes) or any(map(len, places)):
            keys, numbers = Keys.numbered(rows, self.entry_key, nulls=False)
            runs = self._without(places, keys)
            last = _last_of_each(numbers)
            kept = last[~deleted[last]]
        else:
            kept = np.flatnonzero(~deleted)
        new = [_Run.of(rows.take(pa.array(kept)), hashes[kept])] if len(kept) else []
        return replace(self, runs=_few([*runs, *new]))

    def _without(self, places: Sequence[Places], keys: Keys) -> list[_Run]:
        """Return the runs without the entries of some places of each that have one of the keys."""
        some = [
            run.rows.select(self.entry_key).take(pa.array(each))
            for run, each in zip(self.runs, places, strict=True)
        ]
        none = self.schema.empty_table().select(self.entry_key)
        known = keys.find(pa.concat_tables([none, *some]).combine_chunks()) >= 0
        ends = np.cumsum([len(each) for each in places])
        gone = np.split(known, ends[:-1]) if places else []
        return [run.but(a[b]) for run, a, b in zip(self.runs, places, gone, strict=True)]


def _last_of_each(numbers: Places) -> Places:
    """Return the last place of each number, ascending."""
    _, from_end = np.unique(numbers[::-1], return_index=True)
    return np.sort(len(numbers) - 1 - from_end)


def _few(runs: Sequence[_Run]) -> tuple[_Run, ...]:
    """Return runs of which each is more than twice as large as the next one."""
    if not runs:
        return ()
    *left, last = runs
    while left and len(left[-1].hashes) <= 2 * len(last.hashes):
        last = left.pop().merged(last)
    return (*left, last)
