"""A published version, folded from the actions of a Delta log.

1. Actions of a version apply at once: first its removes, then its adds.
2. A version that segtable put names its event in ``commitInfo`` (``MARK``); an added file has the
   key of its hidden rows as a tag. The newest mark counts.
3. A version that another writer put on top has no mark. Then the commit is unknown, so that its
   publisher compares all files, and the files that the other writer added have no known key.
4. A table without segtable's property in its metadata is another writer's.
"""

from collections.abc import Iterable, Mapping
from dataclasses import field, replace
from typing import Any, NamedTuple
from urllib.parse import quote, unquote

from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.errors import CorruptTable, ForeignTable
from airflow_provider_segtable.core.time import Instant
from airflow_provider_segtable.formats.delta.log_files import LOG, Json, way_out
from airflow_provider_segtable.formats.format import Published, PublishedFile
from airflow_provider_segtable.formats.published_files import PublishedFiles

MARK = "segtable"
"""The name of the mark in ``commitInfo``, and of segtable among the writers of transactions."""
AFTER = "after"
"""The field of the mark with the id of the attempt that put the version before.

It is empty in the first version, and in a version with all files over a log that could not be read
as a whole: readers need the checkpoint of that version.
"""
RULES = "rules"
"""The field of the mark with the rules by which files were chosen; older segtables lack it."""
KEY = "segtable.key"
"""The tag of an added file."""
TABLE = "segtable.table"
"""The property that names the table."""
UNKNOWN = "unknown"
"""The key of a file that another writer added."""


class Placed(NamedTuple):
    """The facts of a file that its remove repeats: its size, and the descriptor of its vector."""

    size: int
    vector: Json | None


class Seen(NamedTuple):
    """The newest version's entry in a listing."""

    size: int
    modified: Instant


@dataclass(frozen=True, slots=True, kw_only=True)
class Own:
    """The private data of the target about a version.

    Attributes:
        protocol: the protocol.
        metadata: the metadata.
        stamp: its in-commit timestamp, in milliseconds.
        attempt: the id of the attempt that put the newest version.
        seen: its entry in a listing; None if this process put it, and has not listed it yet.
        checkpoint: the newest checkpoint; -1 if there is none.
        changes: the number of files that were added or removed since.
        sound: whether the whole log could be read, each version after the one before.
        before: the id of the attempt that put the version before; known only if this process put
            the version.
        vectors: whether this process put the version with a file of vectors.
    """

    protocol: Json
    metadata: Json
    stamp: int
    attempt: str
    seen: Seen | None
    checkpoint: int
    changes: int
    sound: bool = True
    before: str = field(default="", compare=False)
    vectors: bool = field(default=False, compare=False)


@dataclass(slots=True)
class Changes:
    """The changes of versions: the last protocol, metadata, mark and so on, if any.

    ``files`` has the last add of each file, None for a removed one.
    """

    files: dict[str, Json | None] = field(default_factory=dict)
    protocol: Json | None = None
    metadata: Json | None = None
    transactions: dict[str, Json] = field(default_factory=dict)
    mark: Json | None = None
    foreign: bool = False
    stamp: int = 0
    attempt: str = ""
    count: int = 0

    def apply(self, actions: Iterable[Json]) -> None:
        """Apply the actions of the next version."""
        by_kind: dict[str, list[Json]] = {}
        for action in actions:
            for kind, body in action.items():
                by_kind.setdefault(kind, []).append(body)
        for body in by_kind.get("remove", ()):
            self.files[unquote(body["path"])] = None
        for body in by_kind.get("add", ()):
            self.files[unquote(body["path"])] = body
        self.protocol = by_kind.get("protocol", [self.protocol])[-1]
        self.metadata = by_kind.get("metaData", [self.metadata])[-1]
        self.transactions |= {body["appId"]: body for body in by_kind.get("txn", ())}
        self.count += sum(len(by_kind.get(kind, ())) for kind in ("add", "remove"))
        self.note(by_kind.get("commitInfo", [{}])[0], {*by_kind} - {"commitInfo", "txn"})

    def note(self, info: Json, kinds: Iterable[str] = ()) -> None:
        """Apply the ``commitInfo`` of a version that has these kinds of other actions."""
        self.attempt = str(info.get("txnId", ""))
        stamp = info.get("inCommitTimestamp")
        self.stamp = max(self.stamp, stamp if isinstance(stamp, int) else 0)
        if found := marked(info):
            self.mark, self.foreign = found, False
        elif any(kinds):
            self.foreign = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Base:
    """The base of changes: nothing, a checkpoint, or a version that was read before."""

    files: Mapping[str, PublishedFile] = field(default_factory=dict)
    protocol: Json | None = None
    metadata: Json | None = None
    transactions: Mapping[str, Json] = field(default_factory=dict)
    mark: Json | None = None
    stamp: int = 0
    checkpoint: int = -1
    changes: int = 0

    @staticmethod
    def of(known: Published) -> "Base":
        """Return a version as the base of later changes."""
        own: Own = known.own
        return Base(
            files=known.files,
            protocol=own.protocol,
            metadata=own.metadata,
            mark={
                **mark(known.event, known.commit, known.time, known.table_id, known.schema),
                RULES: known.rules,
            },
            stamp=own.stamp,
            checkpoint=own.checkpoint,
            changes=own.changes,
        )


def mark(event: int, commit: str, time: Instant, table_id: str, schema: int) -> Json:
    """Return the mark in ``commitInfo`` of the event that a version shows."""
    return {"event": event, "commit": commit, "time": time, "table": table_id, "schema": schema}


def marked(info: Json) -> Json | None:
    """Return the mark in ``commitInfo``; None if segtable did not write one."""
    found = info.get(MARK)
    expected = mark(0, "", 0, "", 0).items()
    if not isinstance(found, dict):
        return None
    whole = all(isinstance(found.get(name), type(value)) for name, value in expected)
    return found if whole else None


def is_misplaced(actions: Iterable[Json], number: int, before: str) -> bool:
    """Return whether a version changes another one than that of the attempt ``before``.

    Either the target was removed and put anew while the version's publisher slept. Or the version
    was put over a damaged log, and its publisher died before its checkpoint, without which readers
    need the damaged part. If either id is unknown, the version is not misplaced.
    """
    infos = (action["commitInfo"] for action in actions if "commitInfo" in action)
    after = (marked(next(infos, {})) or {}).get(AFTER)
    if after == "":
        return number > 0
    return bool(after and before) and after != before


def published(
    base: Base, changes: Changes, number: int, seen: Seen | None, address: str
) -> Published:
    """Return a version: a base and the changes after it.

    Raises:
        ForeignTable: segtable did not write the table.
        CorruptTable: it lacks actions that every table has.
    """
    metadata = changes.metadata or base.metadata
    protocol = changes.protocol or base.protocol
    if metadata is not None and TABLE not in (metadata.get("configuration") or {}):
        raise ForeignTable(
            f"{address}/{LOG} is a Delta table that segtable did not write: move it away, or set "
            "publish.delta to off"
        )
    if metadata is None or protocol is None:
        raise CorruptTable(f"{address}/{LOG} has no metadata or no protocol: {way_out()}")
    found = changes.mark or base.mark or _unmarked(metadata, base.transactions)
    return Published(
        number=number,
        event=found["event"],
        commit="" if changes.foreign else found["commit"],
        time=found["time"],
        table_id=found["table"],
        schema=found["schema"],
        files=_files(base.files, changes.files),
        address=address,
        rules=found.get(RULES, 0),
        own=Own(
            protocol=protocol,
            metadata=metadata,
            stamp=max(base.stamp, changes.stamp),
            attempt=changes.attempt,
            seen=seen,
            checkpoint=base.checkpoint,
            changes=base.changes + changes.count,
        ),
    )


def is_segtables(base: Base, changes: Changes) -> bool:
    """Return whether anything in a base or in changes shows that segtable wrote it (rule 4)."""
    metadata = changes.metadata or base.metadata
    if metadata is not None:
        return TABLE in (metadata.get("configuration") or {})
    return bool(changes.mark or base.mark) or MARK in {**base.transactions, **changes.transactions}


def remains_of(found: Published) -> Published:
    """Return a readable version as remains, for a version with all files to follow."""
    own = replace(found.own, protocol={}, metadata={}, seen=None, checkpoint=-1, changes=0)
    return replace(found, commit="", table_id="", schema=-1, own=own)


def ruined(base: Base, changes: Changes, number: int, attempt: str, address: str) -> Published:
    """Return the decodable part of a damaged log as remains, for a version with all files.

    ``attempt`` is the id of the attempt that put the version of the highest number, if it is known.
    """
    found = changes.mark or base.mark or {}
    event = found.get("event", 0) if is_segtables(base, changes) else -1
    return Published(
        number=number,
        event=event,
        commit="",
        time=found.get("time", 0),
        table_id="",
        schema=-1,
        files=_files(base.files, changes.files),
        address=address,
        own=Own(
            protocol={},
            metadata={},
            stamp=max(base.stamp, changes.stamp),
            attempt=attempt,
            seen=None,
            checkpoint=-1,
            changes=0,
            sound=False,
        ),
    )


def encoded_path(path: str) -> str:
    """Return a path in the form of actions: a relative URI."""
    return quote(path, safe="/=")


def _files(
    before: Mapping[str, PublishedFile], changes: Mapping[str, Json | None]
) -> Mapping[str, PublishedFile]:
    return PublishedFiles.of(before).changed(
        {path: None if add is None else _file(path, add) for path, add in changes.items()}
    )


def _file(path: str, add: Json) -> PublishedFile:
    key = (add.get("tags") or {}).get(KEY, UNKNOWN)
    placed = Placed(add.get("size", 0), add.get("deletionVector"))
    return PublishedFile(path=path, key=key, own=placed)


def _unmarked(metadata: Json, transactions: Mapping[str, Json]) -> Json:
    """Return the mark that a checkpoint alone implies: its event's number, without the commit."""
    last: Mapping[str, Any] = transactions.get(MARK, {})
    return mark(last.get("version", -1), "", 0, metadata["configuration"][TABLE], 0)
