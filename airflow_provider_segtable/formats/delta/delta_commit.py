"""The next version of a Delta target: a revision as actions, with statistics of files. Pure.

Actions:

1. ``commitInfo`` is first, with a timestamp that is later than the last one's: the time of the
   event, so that travelling in time agrees with the table's own log.
2. Protocol and metadata are there if they differ from the last ones. Readers need no feature before
   the first vector, except for times without a zone. ``FENCE`` is a feature that no writer knows:
   they all refuse to write, and to delete files, and readers have to ignore it. ``invariants`` is
   there because Delta Lake on Spark refuses, also to read, a table that has a column without nulls
   and does not list it.
3. A file whose vector changes is removed, with its old vector, and added in the same version.
4. The first version, or one after another table's, removes all other files, and has protocol and
   metadata: its checkpoint is made of it alone.

Statistics, by which readers skip files:

5. ``numRecords`` is the number of rows in the file, hidden ones included.
6. A minimum is a lower bound, a maximum an upper one. Texts are cut to 32 characters, the last one
   of a cut maximum raised. Times have milliseconds: a minimum is rounded down, a maximum up.
7. No bounds have nested columns, bytes, truth values, columns that may have NaN (readers order it
   in several ways), decimals that a double cannot hold, and times outside of the years 1 to 9998.
8. Columns that a file lacks are null in all its rows.
9. ``tightBounds`` is false if rows are hidden: bounds and nulls are those of all rows.
"""

import math
from collections.abc import Iterator, Mapping
from decimal import Decimal
from functools import cached_property
from typing import Any
from uuid import UUID, uuid5

from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.predicate import text_above
from airflow_provider_segtable.core.publishing import ColumnStats
from airflow_provider_segtable.core.schema import Column
from airflow_provider_segtable.core.tables.definition import TableDefinition
from airflow_provider_segtable.core.time import DAY_US, MAX_INSTANT, MIN_INSTANT, Instant, moment
from airflow_provider_segtable.formats.delta.log_files import (
    Json,
    encoded_vectors,
    has_naive_times,
    schema_json,
    written,
)
from airflow_provider_segtable.formats.delta.published_version import (
    AFTER,
    KEY,
    MARK,
    RULES,
    TABLE,
    Own,
    encoded_path,
    mark,
)
from airflow_provider_segtable.formats.format import NewFile, Published, PublishedFile, Revision

TEXT = 32
"""Characters of a bound."""
_DIGITS = 15
"""The digits that a double holds exactly: readers may parse numbers as such."""
_NO_STATS = ColumnStats()
_NESTED = ("struct<", "list<", "large_list<", "map<")


# Statistics of a file
class Statistics:
    """The statistics of files of one version."""

    def __init__(self, table: TableDefinition) -> None:
        """Take the columns that the version shows."""
        self._columns = [c for c in table.schema.numbered if not c.type.startswith(_NESTED)]
        schemas = (*table.earlier, table.schema)
        self._present = [frozenset(c.id for c in each.numbered) for each in schemas]

    def of(self, file: NewFile) -> str:
        """Return the statistics of a file, as JSON."""
        rows = file.shown.segment.rows
        present = self._present[file.shown.segment.schema]
        low: Json = {}
        high: Json = {}
        nulls: Json = {}
        for column in self._columns:
            stats = file.stats.columns.get(column.id, _NO_STATS)
            if not stats.nan:
                _put(low, column, _bound(column.type, stats.low, up=False))
                _put(high, column, _bound(column.type, stats.high, up=True))
            _put(nulls, column, stats.nulls if column.id in present else rows)
        loose = {"tightBounds": False} if file.hidden else {}
        made = {"numRecords": rows, "minValues": low, "maxValues": high, "nullCount": nulls}
        return written({**made, **loose})


def _put(values: Json, column: Column, value: Any) -> None:
    if value is not None:
        values[column.name] = value


def _bound(kind: str, value: Any, *, up: bool) -> Any:
    """Return a bound as JSON; None if there is none."""
    match value:
        case None | bool() | bytes():
            return None
        case float():
            return value if math.isfinite(value) else None
        case str():
            return text_above(value, TEXT) if up else value[:TEXT]
        case Decimal():
            return _number(value)
    if kind.startswith("date32"):
        return _day(value)
    if kind.startswith("timestamp["):
        return _time(value, "Z" if "tz=" in kind else "", up=up)
    return value


def _number(value: Decimal) -> float | int | None:
    """Return a decimal as a number whose shortest text is the decimal's own."""
    if len(value.as_tuple().digits) > _DIGITS:
        return None
    if value == value.to_integral_value():
        return int(value)
    return float(value) if "e" not in repr(float(value)) else None


def _time(at: Instant, zone: str, *, up: bool) -> str | None:
    whole = -(-at // 1000) if up else at // 1000
    if not MIN_INSTANT <= whole * 1000 < MAX_INSTANT:
        return None
    return moment(whole * 1000).replace(tzinfo=None).isoformat(timespec="milliseconds") + zone


def _day(number: int) -> str | None:
    at = number * DAY_US
    return moment(at).date().isoformat() if MIN_INSTANT <= at < MAX_INSTANT else None


FENCE = "segtablePublished"
VECTORS = "deletionVectors"
_STAMPS = "inCommitTimestamp"
_NAIVE = "timestampNtz"
_INVARIANTS = "invariants"
_TABLES = UUID("6c0b1d3a-7f0e-5a0e-9a62-0a3c5d9f8b11")
"""The name space of the ids of tables."""
_FOR_EVER = "interval 36500 days"


# Actions of a version
@dataclass(frozen=True, slots=True)
class Commit:
    """A version to put: its actions, and the file of the vectors that they name."""

    number: int
    attempt: UUID
    actions: tuple[Json, ...]
    vectors: bytes

    @property
    def data(self) -> bytes:
        """Return the bytes of the version."""
        lines = map(written, self.actions)
        return ("\n".join(lines) + "\n").encode()


def commit_of(known: Published | None, revision: Revision, attempt: UUID) -> Commit:
    """Return the version after ``known``; ``attempt`` is a fresh id."""
    return _Commit(known, revision, attempt).made()


@dataclass(frozen=True)
class _Commit:
    known: Published | None
    revision: Revision
    attempt: UUID

    def made(self) -> Commit:
        """Return the commit."""
        hidden = {path: file.hidden for path, file in self.revision.shown.items()}
        data, vectors = encoded_vectors(hidden, self.attempt)
        removes = [self._remove(path, file) for path, file in self._replaced(vectors)]
        adds = [self._add(f, vectors.get(path)) for path, f in self.revision.shown.items()]
        head = self._head(bool(vectors))
        info = self._info(len(adds), len(removes), changed=bool(head))
        actions = ({"commitInfo": info}, *head, {"txn": self._transaction()}, *removes, *adds)
        number = self.known.number + 1 if self.known else 0
        return Commit(number, self.attempt, actions, data)

    @cached_property
    def _all(self) -> bool:
        """Return whether the revision has all files of its version."""
        return self.known is None or self.known.table_id != self.revision.table.table_id

    @cached_property
    def _statistics(self) -> Statistics:
        return Statistics(self.revision.table)

    @property
    def _before(self) -> Mapping[str, PublishedFile]:
        return self.known.files if self.known else {}

    @property
    def _stamp(self) -> int:
        """Return the in-commit timestamp."""
        at = _milliseconds(self.revision.time)
        return max(at, self.known.own.stamp + 1) if self.known else at

    def _replaced(self, vectors: Mapping[str, Json]) -> Iterator[tuple[str, PublishedFile]]:
        """Yield files to remove: not shown any more, or with another vector."""
        shown = self.revision.shown
        gone = self._before.keys() - shown.keys() if self._all else self.revision.gone
        for path in sorted(gone - shown.keys()):
            if path in self._before:
                yield path, self._before[path]
        for path in shown:
            file = self._before.get(path)
            if file and file.own.vector != vectors.get(path):
                yield path, file

    def _remove(self, path: str, file: PublishedFile) -> Json:
        vector = {"deletionVector": file.own.vector} if file.own.vector else {}
        return {
            "remove": {
                "path": encoded_path(path),
                "deletionTimestamp": _milliseconds(self.revision.time),
                "dataChange": self.revision.data_change,
                "extendedFileMetadata": True,
                "partitionValues": {},
                "size": file.own.size,
                **vector,
            }
        }

    def _add(self, file: NewFile, vector: Json | None) -> Json:
        segment = file.shown.segment
        return {
            "add": {
                "path": encoded_path(segment.path),
                "partitionValues": {},
                "size": segment.size,
                "modificationTime": _milliseconds(segment.created),
                "dataChange": self.revision.data_change,
                "stats": self._statistics.of(file),
                "tags": {KEY: file.shown.key},
                **({"deletionVector": vector} if vector else {}),
            }
        }

    def _head(self, vectors: bool) -> list[Json]:  # noqa: FBT001
        """Return the protocol and metadata if they differ from the last ones."""
        own: Own | None = self.known.own if self.known else None
        last: Json = own.protocol if own else {}
        needed = {*(last.get("readerFeatures") or ())} | ({VECTORS} if vectors else set())
        if has_naive_times(self.revision.table.schema):
            needed.add(_NAIVE)
        protocol = protocol_with(needed)
        metadata = self._metadata(own, vectors=VECTORS in needed)
        return [
            {name: body}
            for name, body, before in (
                ("protocol", protocol, last),
                ("metaData", metadata, own.metadata if own else {}),
            )
            if self._all or body != before
        ]

    def _metadata(self, own: Own | None, *, vectors: bool) -> Json:
        table = self.revision.table
        same = own.metadata if own and not self._all else {}
        return {
            "id": same.get("id", str(uuid5(_TABLES, table.table_id))),
            "name": table.name,
            "format": {"provider": "parquet", "options": {}},
            "schemaString": schema_json(table.schema),
            "partitionColumns": [],
            "configuration": configuration(table, vectors=vectors),
            "createdTime": same.get("createdTime", _milliseconds(self.revision.time)),
        }

    def _transaction(self) -> Json:
        at = _milliseconds(self.revision.time)
        return {"appId": MARK, "version": self.revision.event, "lastUpdated": at}

    def _info(self, adds: int, removes: int, *, changed: bool) -> Json:
        revision = self.revision
        table = revision.table
        return {
            "inCommitTimestamp": self._stamp,
            "timestamp": _milliseconds(revision.time),
            "operation": self._operation(changed=changed),
            "operationParameters": {"event": str(revision.event)},
            "operationMetrics": {"numAddedFiles": str(adds), "numRemovedFiles": str(removes)},
            "engineInfo": MARK,
            "isBlindAppend": not removes and not self._all,
            "txnId": str(self.attempt),
            MARK: {
                **mark(
                    revision.event,
                    revision.commit,
                    revision.time,
                    table.table_id,
                    table.schema.number,
                ),
                RULES: revision.rules,
                **self._after(),
            },
        }

    def _after(self) -> Json:
        """Return the mark's field about the version that this one changes."""
        known: Own | None = self.known.own if self.known else None
        if known and known.attempt and known.sound:
            return {AFTER: known.attempt}
        return {AFTER: ""} if self._all else {}

    def _operation(self, *, changed: bool) -> str:
        """Return the name of the change, as Delta's own writers name theirs."""
        if self._all:
            return "CREATE OR REPLACE TABLE AS SELECT" if self.known else "CREATE TABLE"
        if not self.revision.data_change:
            return "OPTIMIZE"
        known = [path in self._before for path in self.revision.shown]
        new = not all(known)
        if self.revision.gone or any(known):
            return "MERGE" if new else "DELETE"
        return "WRITE" if new or not changed else "CHANGE COLUMNS"


def protocol_with(needed: set[str]) -> Json:
    """Return the protocol of a table that needs these features of its readers."""
    readers = {"readerFeatures": sorted(needed)} if needed else {}
    return {
        "minReaderVersion": 3 if needed else 1,
        "minWriterVersion": 7,
        **readers,
        "writerFeatures": sorted({*needed, FENCE, _STAMPS, _INVARIANTS}),
    }


def configuration(table: TableDefinition, *, vectors: bool) -> Mapping[str, str]:
    """Return the properties of the published table.

    Only segtable decides how long files and versions are kept; no other writer deletes them by age.
    """
    return {
        "delta.deletedFileRetentionDuration": _FOR_EVER,
        "delta.logRetentionDuration": _FOR_EVER,
        "delta.enableExpiredLogCleanup": "false",
        "delta.enableInCommitTimestamps": "true",
        **({"delta.enableDeletionVectors": "true"} if vectors else {}),
        TABLE: table.table_id,
    }


def _milliseconds(time: Instant) -> int:
    return time // 1000
