"""Committed records of a log store, read from files, against a list of what was committed.

Services replace each other, commit, repeat commits, and come back after they were replaced; the
table is compacted, restored and cleaned meanwhile.
"""

from contextlib import suppress
from dataclasses import dataclass, field
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_segtable.coordination.memory import MemoryService
from airflow_provider_segtable.core.errors import Fenced, InvalidInput, RestoreRefused
from airflow_provider_segtable.core.log.invariants import violations
from airflow_provider_segtable.core.log_store.manifest import Position
from airflow_provider_segtable.core.log_store.reading import Reset
from airflow_provider_segtable.planning.properties import Retention
from airflow_provider_segtable.ports.log_store import Cut
from airflow_provider_segtable.services.cleaning import clean
from airflow_provider_segtable.table.log_store.file_reader import Expired, read_committed
from tests.examples import examples
from tests.unit.table.conftest import new_table
from tests.unit.table.logged import Logged, numbers_in
from tests.unit.table.test_windows import compacted

BUCKETS = (0, 1)
Records = dict[int, list[int]]


@dataclass
class World:
    """A table, its services, and the records that are committed as of each step's version."""

    draw: Random
    service: Logged = field(default_factory=lambda: Logged(new_table(MemoryService())))
    records: Records = field(default_factory=lambda: {bucket: [] for bucket in BUCKETS})
    versions: dict[int, Records] = field(default_factory=dict)
    replaced: Logged | None = None
    last: tuple[Cut, int] | None = None
    readers: list[tuple[int, Position, list[int]]] = field(default_factory=list)

    def commit(self) -> None:
        """Commit new records of some buckets, and let a reader stop somewhere in them."""
        counts = {f"b{bucket}": self.draw.randint(0, 4) for bucket in BUCKETS}
        cut = self.service.cut(**{name: count for name, count in counts.items() if count})
        if cut.buckets:
            self.last = cut, self.service.commit(cut)
        for bucket in cut.buckets:
            self.records[bucket] += numbers_in(cut, bucket)
            read = self.draw.randint(0, len(self.records[bucket]))
            at = Position(epoch=self.service.epoch, offset=read)
            self.readers.append((bucket, at, self.records[bucket][:read]))

    def repeat(self) -> None:
        """Commit the last cut again: nothing changes, whatever has happened since."""
        if self.last is not None:
            cut, n = self.last
            ends = dict(self.service.ends)
            assert self.service.commit(cut) == n
            self.service.ends = ends

    def replace(self) -> None:
        """Let another service take the buckets."""
        self.replaced = self.service
        self.service = Logged(self.service.table, written=self.service.written + 1000)
        self.service.begin(*BUCKETS)
        assert self.service.ends == {bucket: len(self.records[bucket]) for bucket in BUCKETS}

    def wake(self) -> None:
        """Let the service that was replaced commit: it is refused."""
        if self.replaced is not None:
            with pytest.raises(Fenced):
                self.replaced.checkpoint(b0=1)

    def restore(self) -> None:
        """Restore a version, and let another service begin."""
        kept = [n for n in self.versions if n >= self.service.table.state().retained_from]
        version = self.draw.choice(kept)
        try:
            self.service.table.restore(version=version)
        except RestoreRefused:
            return
        self.records = {bucket: [*some] for bucket, some in self.versions[version].items()}
        self.replace()

    def compact(self) -> None:
        """Compact files."""
        with suppress(InvalidInput):  # there is nothing to compact
            compacted(self.service.table, self.draw.choice(["minor", "semi-major"]))

    def clean(self) -> None:
        """Clean all but the newest versions."""
        self.service.table.ports.clock.sleep(86_400)
        keep = Retention(hours=0, versions=self.draw.randint(1, 8), orphan_hours=0)
        clean(self.service.table.ports, retention=keep)

    def noted(self) -> None:
        """Remember the committed records of this version."""
        n = self.service.table.state().n
        self.versions[n] = {bucket: [*some] for bucket, some in self.records.items()}

    def check(self) -> None:
        """Read each bucket from some offsets, and from where readers are."""
        state = self.service.table.state()
        assert not [*violations(state)]
        for bucket, numbers in self.records.items():
            some = {0, len(numbers), *(self.draw.randint(0, len(numbers)) for _ in range(3))}
            for offset in some:
                self._check_tail(bucket, Position(epoch=self.service.epoch, offset=offset))
        for bucket, at, seen in self.readers:
            self._check_tail(bucket, at, seen)

    def _check_tail(self, bucket: int, at: Position, seen: list[int] | None = None) -> None:
        """Compare what a reader gets with the rest of the records; ``seen`` it has already."""
        numbers, found = self.records[bucket], []
        mine = numbers[: at.offset] if seen is None else seen
        for each in read_committed(self.service.table.ports, bucket, at):
            if isinstance(each, Reset):
                assert seen is not None
                mine = mine[: each.offset]
                break
            if isinstance(each, Expired):
                assert each.position.offset > at.offset
                self._check_tail(bucket, each.position)
                return
            found += each.rows.column("row").to_pylist()
        else:
            assert mine + found == numbers
            return
        assert mine == numbers[: len(mine)]
        self._check_tail(bucket, Position(epoch=self.service.epoch, offset=len(mine)))


STEPS = ("commit",) * 4 + ("repeat", "replace", "wake", "restore", "compact", "clean")


@examples(10)
@given(st.randoms(use_true_random=False))
def test_every_reader_gets_each_committed_record_once(draw: Random) -> None:
    """In order, from any offset on, or learns from where on it can; each offset has one record."""
    world = World(draw)
    world.service.begin(*BUCKETS)
    world.noted()
    for _ in range(12):
        getattr(world, draw.choice(STEPS))()
        world.noted()
    world.check()
