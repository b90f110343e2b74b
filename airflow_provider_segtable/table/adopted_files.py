"""The records of adoptions: what footers say of other files, for files that have no such entries.

::

    _segtable/adopted/00000000000000000007.json   descriptors and the table's definition
    _segtable/adopted/00000000000000000007.gone   the log names none of its files any more
    _segtable/adopted/copied/<digest>             a file whose rows were copied instead

1. A record is put before the event of its adoption, as a data file is, and under the next free
   number (put-if-absent). It has the commit id of the event, and the id of the table: a record that
   was put after its table was dropped is none of a later table's.
2. Before an author puts a record, it *finishes* the newest one: it commits its event, unless that
   is in the log. So a killed adoption is completed by the next one, two at once help each other,
   and of all records only the newest may be without an outcome.
3. A path is in one record at most: a later file of that name is copied. So no two events adopt one
   file, a recovery has no choice, and a cleaner that was paused does not delete the later file.
4. If the log is lost, the records are read in place of footers (``health.evidence``). A file that
   has another size or footer than its record is not the one that was adopted.
5. Adopted files are deleted only while they are the ones in their records: a user may have put
   another one in the place of a file that the table gave up.
6. Cleaning marks a record when the log names none of its files any more, and deletes it when the
   mark is old: a paused cleaner has ended by then. The newest record stays, so that no number comes
   twice.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import field
from typing import Any

from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.errors import (
    AlreadyExists,
    CorruptTable,
    NotFound,
    UnsupportedFormat,
)
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.paths import digest, is_adopted
from airflow_provider_segtable.core.segment import Segment
from airflow_provider_segtable.core.segment_codec import decode_segments, encode_segments
from airflow_provider_segtable.core.time import Instant
from airflow_provider_segtable.data.parquet.descriptor import SegmentFiles, decode_definition
from airflow_provider_segtable.ports.files import DataFiles
from airflow_provider_segtable.ports.storage import Entry, Storage

FOLDER = "_segtable/adopted"
COPIED = f"{FOLDER}/copied"
FORMAT = 1
_READERS = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class AdoptionRecord:
    """One record: the commit id of its event, the descriptors, the table's encoded definition."""

    commit_id: str
    segments: tuple[Segment, ...]
    definition: bytes = field(default=b"", repr=False)

    @property
    def table_id(self) -> str:
        """Return the id of the table that adopted these files."""
        return decode_definition(self.definition, f"the record of {self.commit_id}")[0].table_id

    def encoded(self) -> bytes:
        """Return the record as a file."""
        body = {
            "format": FORMAT,
            "commit": self.commit_id,
            "table": json.loads(self.definition),
            "segments": encode_segments(self.segments),
        }
        return _canonical({**body, "checksum": digest(_canonical(body))})


def decode_record(data: bytes, path: str) -> AdoptionRecord:
    """Parse the output of ``AdoptionRecord.encoded``.

    Raises:
        UnsupportedFormat: written by a newer segtable.
        CorruptTable: it is torn, changed, or no record.
    """
    try:
        body: dict[str, Any] = json.loads(data)
        found = body["format"]
        if found != FORMAT:
            raise UnsupportedFormat(
                f"{path}: the record of an adoption has format {found!r}, this segtable reads "
                f"{FORMAT}: upgrade segtable"
            )
        if body.pop("checksum") != digest(_canonical(body)):
            raise CorruptTable(f"{path} does not match its checksum: restore it")
        return AdoptionRecord(
            commit_id=body["commit"],
            segments=decode_segments(body["segments"]),
            definition=_canonical(body["table"]),
        )
    except (ValueError, KeyError, TypeError, IndexError, AttributeError) as error:
        raise CorruptTable(
            f"{path} is not a record of an adoption ({error!r}): restore it"
        ) from None


def _canonical(body: Mapping[str, Any]) -> bytes:
    return json.dumps(body, sort_keys=True, separators=(",", ":")).encode()


def record_path(n: int) -> str:
    """Return the path of a record."""
    return f"{FOLDER}/{n:020d}.json"


def copied_path(path: str) -> str:
    """Return the path of the mark of a file whose rows were copied."""
    return f"{COPIED}/{digest(path.encode())}"


def listed_records(storage: Storage) -> dict[int, Entry]:
    """Return the records that are there, by number, in order."""
    found = ((_number(entry.path), entry) for entry in storage.list(FOLDER))
    return {n: entry for n, entry in found if n is not None}


def _number(path: str, suffix: str = ".json") -> int | None:
    name = path.removeprefix(f"{FOLDER}/").removesuffix(suffix)
    return int(name) if len(name) == 20 and name.isdecimal() else None


def read_record(storage: Storage, n: int) -> AdoptionRecord:
    """Load a record; errors as ``decode_record``, and ``NotFound``."""
    return decode_record(storage.read(record_path(n)), record_path(n))


@dataclass(frozen=True, slots=True, kw_only=True)
class AdoptedFile:
    """The record of a path: the descriptor of its file, and the table's definition."""

    segment: Segment
    definition: bytes


def adopted_by_path(storage: Storage) -> dict[str, AdoptedFile]:
    """Return the record of each adopted file; a torn record counts as none."""
    found: dict[str, AdoptedFile] = {}
    with ThreadPoolExecutor(_READERS) as pool:
        for record in pool.map(lambda n: _read_or_none(storage, n), listed_records(storage)):
            if record is not None:
                definition = record.definition
                found |= {
                    each.path: AdoptedFile(segment=each, definition=definition)
                    for each in record.segments
                }
    return found


def _read_or_none(storage: Storage, n: int) -> AdoptionRecord | None:
    try:
        return read_record(storage, n)
    except (CorruptTable, NotFound):
        return None


def adopted_entries(storage: Storage, paths: Iterable[str]) -> Iterator[Entry]:
    """Yield the adopted files that are there, of some paths."""
    wanted = {*paths}
    if wanted:
        yield from (entry for entry in storage.list("") if entry.path in wanted)


def still_adopted(storage: Storage, files: DataFiles, paths: Iterable[str]) -> frozenset[str]:
    """Return the paths of files that are still the ones that were adopted, or are not there.

    Only these may be deleted: a user may have put another file in their place.
    """
    wanted = [path for path in paths if is_adopted(path)]
    if not wanted:
        return frozenset()
    records = adopted_by_path(storage)
    with ThreadPoolExecutor(_READERS) as pool:
        same = pool.map(lambda path: path in records and _same(files, records[path]), wanted)
        return frozenset(path for path, own in zip(wanted, same, strict=True) if own)


def _same(files: DataFiles, record: AdoptedFile) -> bool:
    try:
        with SegmentFiles(files, [record.segment]).open(record.segment.path):
            return True
    except NotFound:
        return True
    except CorruptTable:
        return False


def mark_obsolete(storage: Storage, state: State) -> None:
    """Mark the records of which the log names no file any more, except the newest one."""
    listed, marked = listed_records(storage), _marks(storage)
    named = {*state.timeline.paths(), *state.pending_delete}
    for n in [*listed][:-1]:
        record = None if n in marked else _read_or_none(storage, n)
        if record and not any(segment.path in named for segment in record.segments):
            with suppress(AlreadyExists):
                storage.create(_mark_path(n), b"")


def marked_records(storage: Storage, before: Instant) -> Iterator[str]:
    """Yield the paths of records that were marked so long ago, then those of their marks."""
    for n, entry in _marks(storage).items():
        if entry.modified <= before:
            yield record_path(n)
            yield entry.path


def _marks(storage: Storage) -> dict[int, Entry]:
    found = ((_number(entry.path, ".gone"), entry) for entry in storage.list(FOLDER))
    return {n: entry for n, entry in found if n is not None}


def _mark_path(n: int) -> str:
    return f"{FOLDER}/{n:020d}.gone"
