"""Actions that are one event at once: tags, restores, requests of indexes, released locks.

1. What they would do comes from the checks and dry runs of the services that they call.
2. A tag without a version is of the version that was shown, whatever has been committed since.
3. A restore is bound to what it brings back. So later appends to a time that it replaces anyway do
   not change it; an append to another time does, as it would be undone unseen.
4. A lock is bound to its holder. So a lock that was taken meanwhile is not released for another.
"""

from collections.abc import Iterator
from typing import Annotated, ClassVar

from pydantic import Field

from airflow_provider_segtable.core.counted import counted, describe_size
from airflow_provider_segtable.core.errors import InvalidInput
from airflow_provider_segtable.core.indexes.index_kind import ColumnStats, IndexKind
from airflow_provider_segtable.core.indexes.index_state import chosen_kind, in_words
from airflow_provider_segtable.core.locks import Lock
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.requests.read_request import ReadRequest, read_request
from airflow_provider_segtable.core.time import iso
from airflow_provider_segtable.library.growth import GrowthPoint, point_of
from airflow_provider_segtable.page.action_kind import Action, Done, Foreseen, Pin, Text
from airflow_provider_segtable.page.lake import Seen
from airflow_provider_segtable.services.unlocking import claims, held_by, release_lock
from airflow_provider_segtable.table.index_lifecycle import check_index, index_named, request_index
from airflow_provider_segtable.table.kept_versions import known_tag, put_tag, remove_tag, taggable
from airflow_provider_segtable.table.restoration import RestoreResult, restore

Version = Annotated[int, Field(ge=0, lt=2**62)]


# Tags
class TagVersion(Action):
    """Name a version, which keeps it."""

    name: ClassVar[str] = "tag"
    tag: Text = Field(alias="name")
    version: Version | None = None

    def foresee(self, seen: Seen, pin: Pin) -> Foreseen:
        """Return the version that gets the name, and its size."""
        state = taggable(seen.ports.log, seen.state, self.tag, self._version(pin))
        return Foreseen(
            sentence=f"Version {state.n} of {iso(state.time)} gets the tag {self.tag!r}.",
            effects=(
                _size_of(point_of(state)),
                "It stays readable, and cleaning keeps its files, until the tag is removed.",
            ),
            command=("tag", seen.ports.uri, self.tag, "--version", str(state.n)),
            confirm=f"Tag version {state.n} as {self.tag!r}?",
            essence={"version": state.n},
        )

    def do(self, seen: Seen, pin: Pin, key: str) -> Done:
        """Tag the version."""
        del key
        n = put_tag(seen.ports, self.tag, self._version(pin))
        return Done(sentence=f"Version {n} has the tag {self.tag!r}.")

    def _version(self, pin: Pin) -> int:
        return pin.n if self.version is None else self.version


class RemoveTag(Action):
    """Remove the name of a version."""

    name: ClassVar[str] = "untag"
    tag: Text = Field(alias="name")

    def foresee(self, seen: Seen, pin: Pin) -> Foreseen:
        """Return the version that loses the name, and what keeps it then."""
        del pin
        n = known_tag(seen.state, self.tag)
        return Foreseen(
            sentence=f"Version {n} loses the tag {self.tag!r}.",
            effects=(_kept_without(self.tag, n, seen.state),),
            command=("tag", seen.ports.uri, self.tag, "--delete"),
            confirm=f"Remove the tag {self.tag!r} of version {n}?",
            essence={"version": n},
        )

    def do(self, seen: Seen, pin: Pin, key: str) -> Done:
        """Remove the tag."""
        del pin, key
        remove_tag(seen.ports, self.tag)
        return Done(sentence=f"The tag {self.tag!r} was removed.")


def _kept_without(tag: str, n: int, state: State) -> str:
    others = sorted(name for name, known in state.tags.items() if known == n and name != tag)
    if others:
        return f"The version stays: it has the tag {others[0]!r}, too."
    if n >= state.retained_from:
        return "The version stays until its retention ends."
    return "Nothing else keeps the version: the next cleaning deletes the files that only it has."


# Restores
class RestoreVersion(Action):
    """Show the rows of an earlier version again."""

    name: ClassVar[str] = "restore"
    version: Version | None = None
    as_of: Text | None = None
    tag: Text | None = None
    columns: bool = False

    def foresee(self, seen: Seen, pin: Pin) -> Foreseen:
        """Return the rows that come back, and what is undone."""
        del pin
        found = self._restore(seen, "", dry_run=True)
        nothing = not found.regions and not (self.columns and found.columns)
        n, confirm = found.version, f"Restore version {found.version}?"
        return Foreseen(
            sentence=f"Version {n} shows the same rows as now: nothing would change."
            if nothing
            else f"The table shows the rows of version {n} again.",
            effects=() if nothing else tuple(self._effects(found, seen.state)),
            command=("table", "restore", seen.ports.uri, *self._options()),
            confirm="Restore it all the same?" if nothing else confirm,
            essence={**found.facts(), "columns_event": None},
        )

    def do(self, seen: Seen, pin: Pin, key: str) -> Done:
        """Restore the version, once for one preview."""
        del pin
        found = self._restore(seen, key, dry_run=False)
        if found.n is None and found.columns_n is None:
            return Done(sentence=f"Nothing changed: version {found.version} shows the same rows.")
        rows = counted(found.rows, "row")
        undone = counted((found.n or found.state.n) - 1 - found.version, "later event")
        restored = f"Version {found.version} was restored: {rows} came back"
        return Done(sentence=f"{restored}; {undone} no longer count there.")

    def _restore(self, seen: Seen, key: str, *, dry_run: bool) -> RestoreResult:
        return restore(
            seen.ports, self._asked(), commit_id=key, dry_run=dry_run, columns=self.columns
        )

    def _asked(self) -> ReadRequest:
        given = [self.version, self.as_of, self.tag]
        if sum(each is not None for each in given) != 1:
            raise InvalidInput("restore: give version, as_of or tag, and one of them alone")
        return read_request(version=self.version, as_of=self.as_of, tag=self.tag)

    def _options(self) -> Iterator[str]:
        options = {"--version": self.version, "--as-of": self.as_of, "--tag": self.tag}
        for option, value in options.items():
            if value is not None:
                yield from (option, str(value))
        yield from ("--columns",) if self.columns else ()

    def _effects(self, found: RestoreResult, now: State) -> Iterator[str]:
        regions = counted(len(found.regions), "region")
        back = f"{counted(found.rows, 'row')} in {counted(found.segments, 'segment')}"
        shown = [each for region in found.regions for each in _visible(now, region)]
        there = f"{counted(sum(shown), 'row')} in {counted(len(shown), 'segment')}"
        yield f"{regions} of time: {back} instead of {there}."
        undone = counted(now.n - found.version, "later event")
        yield f"{undone} no longer count there; version {now.n} stays readable until its cleaning."
        aborted = [
            known
            for known in now.pending_plans()
            if any(known.plan.interval.overlaps(region) for region in found.regions)
        ]
        if aborted:
            yield f"{counted(len(aborted), 'pending plan')} of this time are aborted."
        if found.columns:
            yield (
                f"{found.columns}."
                if self.columns
                else f"Columns stay as they are: {found.columns}."
            )


def _visible(state: State, region: object) -> Iterator[int]:
    """Yield the rows of each visible segment of a region; tombstones have none."""
    return (each.rows for each in state.timeline.each_visible(region) if each.rows)  # type: ignore[arg-type]


# Indexes
class RequestIndex(Action):
    """Add an index."""

    name: ClassVar[str] = "index"
    index: Text = Field(alias="name")
    kind: Text = ColumnStats.name
    columns: Annotated[tuple[Text, ...], Field(max_length=1000)] = ()

    def foresee(self, seen: Seen, pin: Pin) -> Foreseen:
        """Return the index, and the files that it lacks at first."""
        del pin
        kind, state = self._kind(seen), seen.state
        check_index(state, self.index, kind, seen.ports.uri)
        size = point_of(state)
        files = f"{counted(size.files, 'file')} of {describe_size(size.bytes)}"
        columns = ("--columns", ",".join(self.columns)) if self.columns else ()
        words = in_words(kind, state.table)
        return Foreseen(
            sentence=f"The table gets an index {self.index!r}: {words}.",
            effects=(
                "Writers feed it from now on.",
                f"{files} are there already: a plan builds their entries.",
            ),
            command=(
                *("index", "create", seen.ports.uri, self.index),
                *("--kind", self.kind, *columns),
            ),
            confirm=f"Request the index {self.index!r}?",
        )

    def do(self, seen: Seen, pin: Pin, key: str) -> Done:
        """Request the index."""
        del pin
        request_index(seen.ports, self.index, self._kind(seen), commit_id=key)
        return Done(sentence=f"The index {self.index!r} was requested.")

    def _kind(self, seen: Seen) -> IndexKind:
        return chosen_kind(self.kind, seen.state.table, columns=self.columns)


class RebuildIndex(Action):
    """Begin an index anew."""

    name: ClassVar[str] = "rebuild_index"
    index: Text = Field(alias="name")

    def foresee(self, seen: Seen, pin: Pin) -> Foreseen:
        """Return what reads lack until it is built."""
        del pin
        known = index_named(seen.state, self.index, seen.ports.uri).definition
        check_index(seen.state, self.index, known.kind, seen.ports.uri, replaces=known.id)
        files = counted(point_of(seen.state).files, "file")
        return Foreseen(
            sentence=f"An empty index takes the place of {self.index!r} at once.",
            effects=(f"Reads go without it until a plan has built the entries of {files}.",),
            command=("index", "rebuild", seen.ports.uri, self.index),
            confirm=f"Begin the index {self.index!r} anew?",
            essence={"replaces": known.id},
        )

    def do(self, seen: Seen, pin: Pin, key: str) -> Done:
        """Replace the index."""
        del pin
        known = index_named(seen.state, self.index, seen.ports.uri).definition
        request_index(seen.ports, self.index, known.kind, replaces=known.id, commit_id=key)
        return Done(sentence=f"The index {self.index!r} begins anew.")


# Locks
class ReleaseLock(Action):
    """Release a lock of a holder that hangs."""

    name: ClassVar[str] = "unlock"
    group: Text

    def foresee(self, seen: Seen, pin: Pin) -> Foreseen:
        """Return what the holder loses."""
        del pin
        found = held_by(seen.ports, seen.state, self.group)
        command = ("locks", seen.ports.uri, "--release", self.group)
        if not isinstance(found, Lock):
            return Foreseen(
                sentence=f"The unreadable node {self.group!r} is removed: {found.why}.",
                command=command,
                confirm="Remove it?",
            )
        return Foreseen(
            sentence=f"{found.holder} loses its lock for {found.purpose}.",
            effects=tuple(_consequences(found)),
            command=command,
            confirm=f"Release the lock of {found.holder}?",
            essence={"holder": found.holder, "purpose": found.purpose, "since": found.since},
        )

    def do(self, seen: Seen, pin: Pin, key: str) -> Done:
        """Release the lock."""
        del pin, key
        found = held_by(seen.ports, seen.state, self.group)
        if not release_lock(seen.ports, seen.state, found):
            return Done(sentence="The lock had ended by itself.")
        return Done(sentence=f"The lock of {self.group} was released.")


def _consequences(lock: Lock) -> Iterator[str]:
    yield f"It holds {claims(lock)}, since {iso(lock.since)}."
    yield "It cannot commit its running work any more, and has to begin it again."
    if lock.irrevocable:
        yield "It is publishing: its commit may be under way, and may still succeed."
    yield "Workers that wait for the lock go on."


def _size_of(size: GrowthPoint) -> str:
    return (
        f"It has {counted(size.rows, 'row')} in {counted(size.files, 'file')}, "
        f"{describe_size(size.bytes)}."
    )
