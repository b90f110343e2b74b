"""Checkpoints: a version of a Delta log as one Parquet file. Pure.

1. A checkpoint has a row for each action that still counts: protocol, metadata, transactions and
   added files. It has no removed files: who deletes files by these would delete what the table's
   own log still needs.
2. Files stay columns of Arrow all the way, from one checkpoint to the next one: only those that
   changed in between are Python values.
"""

import io
from collections.abc import Mapping
from itertools import repeat
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from airflow_provider_segtable.core.errors import CorruptTable
from airflow_provider_segtable.formats.delta.log_files import Json, way_out
from airflow_provider_segtable.formats.delta.published_version import (
    KEY,
    UNKNOWN,
    Base,
    Changes,
    Placed,
    encoded_path,
)
from airflow_provider_segtable.formats.format import PublishedFile

_TEXTS = pa.map_(pa.string(), pa.string())
_VECTOR = pa.struct(
    [
        ("storageType", pa.string()),
        ("pathOrInlineDv", pa.string()),
        ("offset", pa.int32()),
        ("sizeInBytes", pa.int32()),
        ("cardinality", pa.int64()),
    ]
)
_ADD = pa.struct(
    [
        ("path", pa.string()),
        ("partitionValues", _TEXTS),
        ("size", pa.int64()),
        ("modificationTime", pa.int64()),
        ("dataChange", pa.bool_()),
        ("stats", pa.string()),
        ("tags", _TEXTS),
        ("deletionVector", _VECTOR),
    ]
)
_OTHERS = {
    "protocol": pa.struct(
        [
            ("minReaderVersion", pa.int32()),
            ("minWriterVersion", pa.int32()),
            ("readerFeatures", pa.list_(pa.string())),
            ("writerFeatures", pa.list_(pa.string())),
        ]
    ),
    "metaData": pa.struct(
        [
            ("id", pa.string()),
            ("name", pa.string()),
            ("description", pa.string()),
            ("format", pa.struct([("provider", pa.string()), ("options", _TEXTS)])),
            ("schemaString", pa.string()),
            ("partitionColumns", pa.list_(pa.string())),
            ("configuration", _TEXTS),
            ("createdTime", pa.int64()),
        ]
    ),
    "txn": pa.struct(
        [("appId", pa.string()), ("version", pa.int64()), ("lastUpdated", pa.int64())]
    ),
}
_LOADED = [*_OTHERS, *(f"add.{name}" for name in ("path", "size", "tags", "deletionVector"))]
"""The columns that loading needs: the statistics of many files take long to read."""
_REMOVE = pa.struct(
    [
        ("path", pa.string()),
        ("deletionTimestamp", pa.int64()),
        ("dataChange", pa.bool_()),
        ("extendedFileMetadata", pa.bool_()),
        ("partitionValues", _TEXTS),
        ("size", pa.int64()),
        ("deletionVector", _VECTOR),
    ]
)


class Checkpoint:
    """A checkpoint that was read."""

    def __init__(self, data: bytes, number: int, where: str, *, whole: bool = False) -> None:
        """Read the checkpoint of version ``number``: what loading needs, or the whole of it.

        Raises:
            CorruptTable: it is not a checkpoint.
        """
        self.number = number
        try:
            with pq.ParquetFile(io.BytesIO(data), page_checksum_verification=True) as file:
                self._rows = file.read(columns=None if whole else _LOADED)
            self.rows = self._rows.num_rows
            self.adds = _adds(self._rows.column("add"))
        except (pa.ArrowException, OSError, KeyError) as error:
            raise CorruptTable(
                f"{where} is not a checkpoint of a Delta table ({error}): {way_out()}"
            ) from None

    @property
    def base(self) -> Base:
        """Return the version, as what later versions change."""
        return Base(
            files=self._files(),
            protocol=self.last("protocol"),
            metadata=self.last("metaData"),
            transactions={each["appId"]: each for each in self.all("txn")},
            checkpoint=self.number,
        )

    def last(self, kind: str) -> Json | None:
        """Return the only action of a kind; None if there is none."""
        found = self.all(kind)
        return found[-1] if found else None

    def all(self, kind: str) -> list[Json]:
        """Return the actions of a kind, as versions have them."""
        column = self._rows.column(kind).drop_null()
        return [_plain(each, column.type) for each in column.to_pylist()]

    @property
    def vectors(self) -> list[Json]:
        """Return the descriptors of the vectors."""
        return list(self.adds.field("deletionVector").drop_null().to_pylist())

    def _files(self) -> Mapping[str, PublishedFile]:
        keys = pc.map_lookup(self.adds.field("tags"), KEY, "first").fill_null(UNKNOWN)
        vectors = self.adds.field("deletionVector")
        files = zip(
            map(unquote, self.adds.field("path").to_pylist()),
            keys.to_pylist(),
            self.adds.field("size").to_pylist(),
            vectors.to_pylist() if vectors.null_count < len(vectors) else repeat(None),
            strict=False,
        )
        return {
            path: PublishedFile(path=path, key=key, own=Placed(size, vector))
            for path, key, size, vector in files
        }


def encoded_checkpoint(before: Checkpoint | None, changes: Changes) -> tuple[bytes, int]:
    """Return a checkpoint and its number of rows: an earlier one, and the changes since."""
    adds = _changed(before.adds if before else pa.array([], _ADD), changes)
    transactions = {each["appId"]: each for each in before.all("txn")} if before else {}
    others: dict[str, list[Json | None]] = {
        "protocol": [changes.protocol or (before.last("protocol") if before else None)],
        "metaData": [changes.metadata or (before.last("metaData") if before else None)],
        "txn": [*(transactions | changes.transactions).values()],
    }
    rows = sum(map(len, others.values())) + len(adds)
    columns: dict[str, Any] = {}
    at = 0
    for name, kind in _OTHERS.items():
        columns[name] = _placed(pa.array(others[name], kind), at, rows)
        at += len(others[name])
    columns["add"] = _placed(adds, at, rows)
    columns["remove"] = pa.nulls(rows, _REMOVE)
    held = io.BytesIO()
    pq.write_table(pa.table(columns), held, compression="zstd", write_page_checksum=True)
    return held.getvalue(), rows


def _changed(adds: pa.StructArray, changes: Changes) -> pa.StructArray:
    """Return the added files without those that changed, then the changed ones."""
    touched = pa.array([encoded_path(path) for path in changes.files], pa.string())
    kept = adds.filter(pc.invert(pc.is_in(adds.field("path"), touched)))
    new = pa.array([each for each in changes.files.values() if each is not None], _ADD)
    return pa.concat_arrays([kept, new])


def _placed(values: pa.Array, at: int, rows: int) -> pa.Array:
    """Return values as rows of a column that is null elsewhere."""
    after = rows - at - len(values)
    return pa.concat_arrays([pa.nulls(at, values.type), values, pa.nulls(after, values.type)])


def _adds(column: pa.ChunkedArray) -> pa.StructArray:
    """Return the added files of a checkpoint, which may be another writer's, in our columns."""
    found = column.drop_null().combine_chunks()
    names = {found.type.field(at).name for at in range(found.type.num_fields)}
    arrays = [
        found.field(field.name).cast(field.type)
        if field.name in names
        else pa.nulls(len(found), field.type)
        for field in _ADD.fields
    ]
    return pa.StructArray.from_arrays(arrays, fields=_ADD.fields)


def _plain(value: Any, kind: pa.DataType) -> Any:
    """Return a value as versions have it: maps as objects, without nulls."""
    if pa.types.is_map(kind):
        return dict(value)
    if pa.types.is_struct(kind):
        return {
            field.name: _plain(value[field.name], field.type)
            for field in kind.fields
            if value[field.name] is not None
        }
    return value
