"""The checker that holds what is published against the table's plain model.

Each version is decoded from the bytes of its format as it becomes visible (``decoders``). Then:

1. *exact*: its files without the hidden rows have the rows that its event promises, which its kind
   of table decides (``kinds``);
2. *forward*: a later version shows a later event, or the same one if it has all files anew;
3. *whole*: while a version is the newest one, and for the retention after it was replaced, none of
   its files is deleted. The exception is a version whose event the log did not keep any more when
   it was put: its publisher was slower than the retention.
4. *found*: in the end the newest version is whole, and has the newest rows, unless the format
   cannot show these.

A version is the newest one until its file is deleted: then that is the one which its format's
readers find, and which was checked when it came. Two kinds of versions are *misplaced*, and are not
checked: one that changes another version than the one that its readers find before it, because what
was published was removed and put anew meanwhile; and one of a dropped table in the folder of the
next one. Whatever follows them is checked. In the end, if the newest version is misplaced, or none
can be read, because its publisher died, whoever publishes next makes it good (``is_broken``).

What is wrong is noted, not raised: a publisher that follows a commit swallows every error.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from io import BytesIO
from typing import Any

import pyarrow.parquet as pq

from airflow_provider_segtable.core.errors import NotFound
from airflow_provider_segtable.core.time import Instant
from airflow_provider_segtable.formats.formats import FORMATS
from airflow_provider_segtable.storage.memory_storage import MemoryStorage
from airflow_provider_segtable.table.publishing.refusing import refusal
from tests.every_reader import tuples_of
from tests.simulation.publishing.decoders import Decoder, Version
from tests.simulation.publishing.kinds import PublishedLedger
from tests.simulation.simulator import Actor
from tests.simulation.world import World


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """A version as it was when it became visible; ``late`` if the log did not keep its event."""

    version: Version
    late: bool
    misplaced: bool = False
    until: Instant | None = None


def _is_put_over(version: Version, before: Seen | None) -> bool:
    """Return whether a version took the file of another one that is still there."""
    known = before.version if before else None
    return known is not None and known.path == version.path and known.mark != version.mark


@dataclass(slots=True)
class PublishedOracle:
    """Follows everything that is created and deleted below a table's root.

    ``kept_us`` is the retention of cleaners; ``versions``, ``late`` and ``misplaced`` count what
    was published, and ``removed`` the newest versions that were deleted. ``marks`` has all by mark.
    """

    world: World
    decoders: Mapping[str, Decoder]
    kept_us: int
    heads: dict[str, Seen] = field(default_factory=dict)
    replaced: dict[str, list[Seen]] = field(default_factory=dict)
    marks: dict[tuple[str, str], Seen] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    versions: int = 0
    late: int = 0
    misplaced: int = 0
    removed: int = 0

    def created(self, path: str) -> None:
        """Note a new file; check the version that it makes visible."""
        for name in [n for n, decoder in self.decoders.items() if decoder.concerns(path)]:
            version, known = self._newest(name, path), self.heads.get(name)
            if version is None or (known and known.version == version):
                continue
            if known is None or known.version.number <= version.number:
                self._took(name, version)

    def _newest(self, name: str, path: str) -> Version | None:
        try:
            return self.decoders[name].newest(self.world.storage)
        except Exception as error:  # noqa: BLE001 - whatever a reader would fail with
            self.problems.append(f"{name}: {path} cannot be read: {error!r}")
            return None

    def deleting(self, path: str) -> None:
        """Check that no reader needs a file that is about to be deleted."""
        now = self.world.simulation.now
        if self.world.newest.ended:
            return
        recent = [each for some in self.replaced.values() for each in some]
        recent = [each for each in recent if each.until and each.until > now]
        for seen in (*self.heads.values(), *recent):
            if path in seen.version.files and not seen.late:
                which = "the newest" if seen.until is None else "a recent"
                n = seen.version.number
                self.problems.append(f"{path} is deleted, but {which} version {n} shows it")

    def deleted(self, path: str) -> None:
        """Note that a file is gone: another version may be the newest one."""
        now = self.world.simulation.now
        for name, some in self.replaced.items():
            self.replaced[name] = [each for each in some if each.version.path != path]
        for name in [n for n, head in self.heads.items() if head.version.path == path]:
            del self.heads[name]
            self.removed += 1
            found = self._newest(name, path)
            known = None if found is None else self.marks.get((name, found.mark))
            if known is None:
                continue
            again = [
                each for each in self.replaced[name] if each.version.mark == known.version.mark
            ]
            late = known.late or any(each.until and each.until < now for each in again)
            self.replaced[name] = [each for each in self.replaced[name] if each not in again]
            self.heads[name] = replace(known, late=late)

    def is_broken(self, name: str) -> bool:
        """Return whether readers find no version in the end, or a misplaced one."""
        head = self.heads.get(name)
        return head is None or head.misplaced or head.version != self._newest(name, "it")

    def conclude(self) -> None:
        """Check rule 4, and that nothing was wrong.

        Raises:
            AssertionError: naming what was.
        """
        self.check_newest(() if self.world.newest.ended else self.decoders)

    def check_newest(self, names: Iterable[str]) -> None:
        """Check that some formats are not behind, and that nothing was wrong.

        Raises:
            AssertionError: naming what was.
        """
        assert not self.problems, "\n".join(self.problems)
        for name in names:
            if name not in self.heads and self._refused(name):
                continue
            assert name in self.heads, f"{name}: nothing was published"
            version = self.heads[name].version
            assert version == self._newest(name, "it"), f"{name}: version {version.number} is lost"
            assert not self._is_old(version), f"{name}: a dropped table's version is the newest"
            event = version.event if self._refused(name) else self.newest
            wrong = [*self._lost(version), *self._differences(version, event)]
            assert not wrong, f"{name}: at last, version {version.number}: {wrong}"

    @property
    def newest(self) -> int:
        """Return the newest event of the log."""
        return max(self.world.newest.ledger.models)

    def is_newest(self, names: Collection[str] | None = None) -> bool:
        """Return whether formats, by default all, show files of the newest version alone.

        A version with the same rows in files that were compacted since is not the newest.
        """
        state = self.ledger.checked
        assert state is not None
        visible = {segment.path for segment in state.timeline.visible_segments()}
        return all(
            seen.version.files.keys() <= visible
            for name, seen in self.heads.items()
            if names is None or (name in names and not self._refused(name))
        )

    @property
    def ledger(self) -> PublishedLedger:
        """Return the ledger of the last table in this place."""
        ledger = self.world.newest.ledger
        assert isinstance(ledger, PublishedLedger)
        return ledger

    def _refused(self, name: str) -> bool:
        """Return whether a format cannot show the newest version."""
        state = self.world.newest.ledger.checked
        return name in FORMATS and state is not None and bool(refusal(FORMATS[name], state))

    def _is_old(self, version: Version) -> bool:
        """Return whether a version is that of a table that was dropped."""
        return version.event < self.world.newest.ledger.first

    def _took(self, name: str, version: Version) -> None:
        state, before = self.world.newest.ledger.checked, self.heads.get(name)
        assert state is not None
        late = version.event < state.retained_from or state.dropped
        misplaced = self._is_misplaced(version, before) and not _is_put_over(version, before)
        self.versions += 1
        self.late += late
        self.misplaced += misplaced
        seen = Seen(version=version, late=late or misplaced, misplaced=misplaced)
        self.heads[name] = self.marks[name, version.mark] = seen
        if before is not None and before.version.mark != version.mark:
            until = self.world.simulation.now + self.kept_us
            self.replaced.setdefault(name, []).append(replace(before, until=until))
        if misplaced:
            return
        wrong = [*self._differences(version, version.event), *self._back(version, before)]
        if not late:
            wrong += self._lost(version)
        where = f"{name}: version {version.number} of event {version.event}"
        self.problems += [f"{where}: {each}" for each in wrong]

    def _is_misplaced(self, version: Version, before: Seen | None) -> bool:
        """Return whether a version is another table's, or changes another one than is there."""
        found = before.version.mark if before else ""
        checked = before is not None and version.mark == found and not before.misplaced
        other = version.after not in ("", found) and not checked
        return other or self._is_old(version)

    def _back(self, version: Version, before: Seen | None) -> Iterator[str]:
        """Yield what is wrong with the order of events (rule 2)."""
        if before is None or before.version.mark == version.mark:
            return
        event = before.version.event
        if _is_put_over(version, before):
            yield f"it was put over that of event {event}"
        if version.event < event or (version.event == event and not version.whole):
            yield f"event {version.event} follows {event}"

    def _lost(self, version: Version) -> Iterator[str]:
        there = {entry.path for entry in self.world.storage.list("data")}
        if gone := sorted(version.files.keys() - there):
            yield f"there is no {gone}"

    def _differences(self, version: Version, event: int) -> Iterator[str]:
        ledger = self.ledger
        outside = Actor(name="outside", run=lambda _: None, simulation=self.world.simulation)
        ports = self.world.newest.raw_ports(outside)
        if event not in ledger.models:
            try:
                ledger.check(ports)  # its author publishes before anybody has looked at it
            except AssertionError as error:
                yield f"{error}"
        if event not in ledger.models:
            yield f"the log has no event {event}"
            return
        try:
            found = Counter(each for path in version.files for each in self._rows(version, path))
        except NotFound:
            return  # a file is gone, which a late version may miss
        yield from ledger.unkept(ports, event, found)

    def _rows(self, version: Version, path: str) -> Iterator[tuple[Any, ...]]:
        hidden = version.files[path]
        rows = _rows_in(self.world.storage.read(path), self.ledger.names)
        return (row for at, row in enumerate(rows) if at not in hidden)


@cache
def _rows_in(data: bytes, names: tuple[str, ...]) -> tuple[tuple[Any, ...], ...]:
    return tuple(tuples_of(pq.read_table(BytesIO(data), columns=[*names])))


class WatchedStorage(MemoryStorage):
    """A storage whose oracle sees every file come and go."""

    oracle: PublishedOracle | None = None

    def create(self, path: str, data: bytes, **given: Any) -> None:
        """Create an object, and show it to the oracle."""
        super().create(path, data, **given)
        if self.oracle:
            self.oracle.created(path)

    def replace(self, path: str, data: bytes) -> None:
        """Overwrite an object, and show it to the oracle as a new one."""
        super().replace(path, data)
        if self.oracle:
            self.oracle.created(path)

    def delete(self, path: str) -> None:
        """Delete an object, after the oracle has judged that; show it what is left."""
        if self.oracle:
            self.oracle.deleting(path)
        super().delete(path)
        if self.oracle:
            self.oracle.deleted(path)
