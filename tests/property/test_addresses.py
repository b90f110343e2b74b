"""Any chain of compactions, any deletions on the way: each row left is read, by its old address."""

import random
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_segtable.core.segment import ROOT, ROW, Segment, SegmentId, Shard, roots_of
from airflow_provider_segtable.data.jobs.concat import Grain
from airflow_provider_segtable.data.jobs.minor_job import run_minor
from airflow_provider_segtable.data.open_files import MemoryFiles
from airflow_provider_segtable.data.parquet.descriptor import read_descriptor
from airflow_provider_segtable.data.parquet.segment_scan import SegmentRead
from airflow_provider_segtable.data.row_filter import RowFilter, bits_of
from airflow_provider_segtable.data.sort.sorting import run_stages, sort_stages
from tests.examples import examples
from tests.unit.data.making import MONTH, MOVE, REWRITE, job, segment_id
from tests.unit.data.sort_making import days, events, put_in, spec

Address = tuple[str, int]
KINDS = ("move", "rewrite", "semi", "major", "daily")
steps = st.lists(
    st.tuples(
        st.sampled_from(KINDS),
        st.sampled_from([0.0, 0.02, 0.5, 1.0]),  # how much is deleted before it
        st.booleans(),  # is all of a root deleted, too
        st.integers(1, 3),  # outputs, or how many segments to make of it about
        st.sampled_from([20_000, 512 << 20]),
    ),
    min_size=1,
    max_size=4,
)


@dataclass
class World:
    """A table played with kernels alone: its rows, what is deleted, and up to which event."""

    files: MemoryFiles
    randomness: random.Random
    oracle: dict[Address, dict[str, Any]]
    segments: list[Segment]
    schema: pa.Schema
    deleted: list[tuple[int, dict[str, set[int]]]] = field(default_factory=list)
    n: int = 1
    ids: int = 40_000

    def delete(self, share: float, *, whole: bool) -> None:
        """Delete some rows, of all roots, and perhaps all rows of one root."""
        self.n += 1
        chosen = [one for one in self.oracle if self.randomness.random() < share]
        if whole and self.oracle:
            root, _ = self.randomness.choice(sorted(self.oracle))
            chosen += [one for one in self.oracle if one[0] == root]
        vectors: dict[str, set[int]] = {}
        for root, row in set(chosen):
            vectors.setdefault(root, set()).add(row)
            del self.oracle[root, row]
        self.deleted.append((self.n, vectors))

    def row_filter(self, segment: Segment) -> RowFilter:
        """Return what is deleted of a segment since it was written."""
        rows: dict[str, set[int]] = {}
        for n, vectors in self.deleted:
            for root, some in vectors.items() if n > segment.deletes_applied_through else ():
                if segment.may_hold(SegmentId.parse(root)):
                    rows.setdefault(root, set()).update(some)
        bits = {root: bits_of(sorted(some)) for root, some in rows.items()}
        return RowFilter(runs=segment.runs, deleted=bits)

    def named(self, counts: dict) -> dict:
        """Name outputs as a major compaction does, in a version of their own."""
        return {
            place: tuple(
                (
                    SegmentId(place.interval, self.ids, p),
                    Shard.first_generation(p, core=count, base=count),
                )
                for p in range(count)
            )
            for place, count in counts.items()
        }

    def compact(self, kind: str, outputs: int, memory: int) -> None:
        """Compact all segments, or only some of them that follow one another."""
        some = sorted(self.randomness.sample(range(len(self.segments) + 1), 2))
        first, end = some if self.randomness.random() < 0.7 else (0, len(self.segments))
        given, self.ids = self.segments[first:end], self.ids + 10
        row_filters = {segment.id: self.row_filter(segment) for segment in given}
        if kind in ("move", "rewrite"):
            made = self._minor(given, row_filters, outputs, MOVE if kind == "move" else REWRITE)
        else:
            made = self._sort(given, row_filters, kind, outputs, memory)
        self.check_outputs(given, made, kind)
        self.segments[first:end] = made

    def _minor(
        self, given: Sequence[Segment], row_filters: dict, outputs: int, grain: Grain
    ) -> Sequence[Segment]:
        outputs = min(outputs, sum(segment.rows for segment in given) or 1)
        planned = job(given, outputs, grain)
        names = tuple(
            (segment_id(self.ids + at), replace(shard, partition=self.ids + at))
            for at, (_, shard) in enumerate(planned.outputs)
        )
        work = replace(
            planned,
            inputs=tuple(given),
            outputs=names,
            row_filters=row_filters,
            deletes_applied_through=self.n,
            attempt=f"{self.ids:016x}",
        )
        return run_minor(work, self.files)

    def _sort(
        self, given: Sequence[Segment], row_filters: dict, kind: str, outputs: int, memory: int
    ) -> Sequence[Segment]:
        what = spec(
            self.schema,
            self.randomness.choice(["", "carrier", "zorder(carrier,flight)"]),
            intervals=days(31) if kind == "daily" else (MONTH,),
            member=kind == "semi",
            target_size=100_000 // outputs**3,
            memory=memory,
            row_filters=row_filters,
            deletes_applied_through=self.n,
            attempt=f"{self.ids:016x}",
        )
        return run_stages(sort_stages(what, given, self.named, self.files), self.files)

    def check_outputs(self, given: Sequence[Segment], made: Sequence[Segment], kind: str) -> None:
        """Descriptors and footers agree, and outputs name the inputs' roots only."""
        assert made or kind in ("major", "daily")
        for segment in made:
            assert segment.deletes_applied_through == self.n
            if segment.rows:
                assert read_descriptor(self.files, segment.path) == segment
                assert segment.lineage or segment.roots == roots_of(given)
            else:
                assert (segment.path, segment.roots, segment.lineage) == ("", (), ())
        assert {s.path for s in made if s.path} <= self.files.store.keys()

    def read(self) -> dict[Address, dict[str, Any]]:
        """Return all rows by address, read with sieves."""
        found: dict[Address, dict[str, Any]] = {}
        for segment in (one for one in self.segments if one.rows):
            batches = SegmentRead(
                self.files,
                segment,
                schema=self.schema,
                time_column="at",
                row_filter=self.row_filter(segment),
                addressed=True,
            ).batches()
            for row in (row for batch in batches for row in batch.to_pylist()):
                address = (row.pop(ROOT), row.pop(ROW))
                assert address not in found
                found[address] = row
        return found


def world(sizes: Sequence[int], seed: int, grain: int) -> World:
    """Return a table of some appended segments."""
    files = MemoryFiles()
    tables = [events(size, seed * 10 + number) for number, size in enumerate(sizes)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("airflow_provider_segtable.data.jobs.segment_writer.GROUP_ROWS", grain)
        segments = put_in(files, tables)
    rows = {
        (str(segment.id), at): row
        for segment, table in zip(segments, tables, strict=True)
        for at, row in enumerate(table.to_pylist())
    }
    return World(files, random.Random(seed), rows, list(segments), tables[0].schema)


@examples(30)
@given(
    sizes=st.lists(st.integers(1, 300), min_size=1, max_size=4),
    seed=st.integers(0, 999),
    grain=st.sampled_from([37, 1 << 20]),
    chain=steps,
    last=st.sampled_from([0.0, 0.3, 1.0]),
)
def test_rows_keep_their_addresses(
    sizes: list[int],
    seed: int,
    grain: int,
    chain: list[tuple[str, float, bool, int, int]],
    last: float,
) -> None:
    """What compactions left out and what sieves hold back is what was deleted, and no row more."""
    played = world(sizes, seed, grain)
    for kind, share, whole, outputs, memory in chain:
        played.delete(share, whole=whole)
        played.compact(kind, outputs, memory)
        assert repr(sorted(played.read().items())) == repr(sorted(played.oracle.items()))
        if not played.segments:
            return
    played.delete(last, whole=False)
    assert repr(sorted(played.read().items())) == repr(sorted(played.oracle.items()))
