"""The manifests of a version, from those of the version before and what changed.

1. A data file that stays keeps its entry, also when other rows of it are hidden: only its key
   changes, in its manifest's header.
2. Then a new file of deleted positions has all hidden positions, and replaces the older one.
3. A manifest is of one partition spec. A file of deleted positions is in the partition of its data
   file, as that one's entry has it.
4. A version that widens a column writes all manifests anew, with bounds of the new type. So does
   one of another table, whose partitions may be others: what it deletes is in none.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Any

from airflow_provider_segtable.formats.iceberg.manifests.entries import (
    ADDED,
    DATA,
    DELETED,
    DELETES,
    Stamp,
    deleted,
    earliest,
    existing,
    live,
    uri_of,
    within,
)
from airflow_provider_segtable.formats.iceberg.manifests.manifest import (
    Manifest,
    Root,
    cut,
    divided,
)
from airflow_provider_segtable.formats.iceberg.manifests.partition import PLAIN, Spec

Json = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Changed:
    """What changes from one version to the next.

    Attributes:
        gone: paths of data files that the version no longer has.
        keys: the keys of files that it has anew, or with other hidden rows.
        data: entries of data files that it adds.
        deletes: entries of files of deleted positions that it adds.
        time_id: the id of the event time.
        spec: the table's partition spec.
        kinds: the types of columns, by id, if one was widened.
        anew: whether the version before was of another table.
    """

    gone: AbstractSet[str]
    keys: Mapping[str, str]
    data: Sequence[Json]
    deletes: Sequence[Json]
    time_id: int
    spec: Spec = PLAIN
    kinds: Mapping[int, str] | None = None
    anew: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A manifest to write: its entries, and the keys of its files."""

    content: int
    spec: Spec
    entries: Sequence[Json]
    keys: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Revised:
    """The manifests of a version: those that it keeps, and those to write."""

    kept: list[Manifest] = field(default_factory=list)
    parts: list[Part] = field(default_factory=list)


def revised(
    manifests: Sequence[Manifest],
    changed: Changed,
    stamp: Stamp,
    root: Root,
    read: Callable[[Manifest], list[Json]],
) -> Revised:
    """Return the manifests of the next version.

    Args:
        manifests: those of the version before.
        changed: what changes.
        stamp: marks the version's own entries.
        root: the table's root.
        read: reads the entries of a manifest.
    """
    found = Revised()
    touched = {*changed.gone, *changed.keys}
    removed = {DATA: changed.gone, DELETES: touched}
    added = {DATA: changed.data, DELETES: changed.deletes}
    places: dict[str, Json] = {}
    for content in (DATA, DELETES):
        mine = [each for each in manifests if each.content == content]
        kept, opened = divided(mine, touched, adds=bool(added[content]))
        if changed.kinds is not None and content == DATA:
            kept, opened = [], mine
        old = (entry for each in opened for entry in live(read(each)))
        carried = _carried(old, removed[content], changed, stamp, root)
        entries = [*carried, *(within(e, places.get(uri_of(e))) for e in added[content])]
        places = {uri_of(entry): entry["data_file"]["partition"] for entry in entries}
        known = {path: key for each in opened for path, key in each.keys.items()}
        known.update(changed.keys)
        found.kept.extend(kept)
        found.parts.extend(_parts(entries, content, known, changed, root))
    return found


def totals(manifests: Iterable[Json], parts: Iterable[Part], size: int) -> Mapping[str, int]:
    """Return the counts of a snapshot's summary.

    Args:
        manifests: the records of all manifests of the version.
        parts: those that it wrote.
        size: the bytes of all files of the version before.
    """
    counts = dict.fromkeys(_NAMES.values(), 0)
    rows = dict.fromkeys(_ROWS.values(), 0)
    for part in parts:
        for entry in part.entries:
            file, place = entry["data_file"], (part.content, entry["status"])
            if place in _NAMES:
                counts[_NAMES[place]] += 1
                rows[_ROWS[place]] += file["record_count"]
                size += file["file_size_in_bytes"] * (1 if entry["status"] == ADDED else -1)
    held = {DATA: [0, 0], DELETES: [0, 0]}
    for record in manifests:
        of = held[record["content"]]
        of[0] += record["added_files_count"] + record["existing_files_count"]
        of[1] += record["added_rows_count"] + record["existing_rows_count"]
    return {
        **counts,
        **rows,
        "total-data-files": held[DATA][0],
        "total-records": held[DATA][1],
        "total-delete-files": held[DELETES][0],
        "total-position-deletes": held[DELETES][1],
        "total-files-size": size,
    }


_NAMES = {
    (DATA, ADDED): "added-data-files",
    (DATA, DELETED): "deleted-data-files",
    (DELETES, ADDED): "added-delete-files",
    (DELETES, DELETED): "removed-delete-files",
}
_ROWS = {
    (DATA, ADDED): "added-records",
    (DATA, DELETED): "deleted-records",
    (DELETES, ADDED): "added-position-deletes",
    (DELETES, DELETED): "removed-position-deletes",
}


def _parts(
    entries: Iterable[Json], content: int, known: Mapping[str, str], changed: Changed, root: Root
) -> Iterator[Part]:
    """Yield the manifests that hold some entries, those of each partition spec for themselves."""
    held: dict[bool, list[Json]] = {True: [], False: []}
    for entry in entries:
        held[bool(entry["data_file"]["partition"])].append(entry)
    for partitioned, mine in held.items():
        mine.sort(key=lambda entry: (earliest(entry, changed.time_id), uri_of(entry)))
        for part in cut(mine):
            yield Part(
                content=content,
                spec=changed.spec if partitioned else PLAIN,
                entries=part,
                keys=_keys(part, known, content, root),
            )


def _carried(
    entries: Iterable[Json], removed: AbstractSet[str], changed: Changed, stamp: Stamp, root: Root
) -> Iterable[Json]:
    for entry in entries:
        if root.path(uri_of(entry)) in removed:
            gone = deleted(entry, stamp)
            yield within(gone, {}) if changed.anew else gone
        else:
            yield existing(entry, changed.kinds)


def _keys(
    entries: Sequence[Json], known: Mapping[str, str], content: int, root: Root
) -> Mapping[str, str]:
    paths = (root.path(uri_of(entry)) for entry in live(entries))
    return {path: known.get(path, "") if content == DATA else "" for path in paths}
