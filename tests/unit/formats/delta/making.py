"""Real data files and revisions of a table in a folder, published as Delta Lake."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyroaring import BitMap

from airflow_provider_segtable.core.publishing import ShownFile
from airflow_provider_segtable.core.schema import Column, Schema
from airflow_provider_segtable.core.tables.definition import TableDefinition
from airflow_provider_segtable.core.time import Interval
from airflow_provider_segtable.data.arrow_schema import to_arrow
from airflow_provider_segtable.data.local_files import LocalFiles
from airflow_provider_segtable.data.publishing import file_stats
from airflow_provider_segtable.formats.delta.delta_target import DeltaTarget
from airflow_provider_segtable.formats.format import (
    NewFile,
    Published,
    Revision,
)
from airflow_provider_segtable.storage import LocalStorage
from tests.support.builders import BASE, DEFINITION, JANUARY, first

START = datetime(2013, 1, 1, tzinfo=UTC)
COLUMNS = Schema(
    (
        Column(name="time_hour", type="timestamp[us, tz=UTC]", nullable=False),
        Column(name="carrier", type="string"),
        Column(name="delay", type="double"),
    )
)
TABLE = replace(DEFINITION, schema=COLUMNS)


@dataclass
class Lake:
    """A table's root with data files, and its target."""

    root: Path
    table: TableDefinition = TABLE
    known: Published | None = None
    event: int = -1
    rows: dict[int, pa.Table] = field(default_factory=dict)

    @property
    def storage(self) -> LocalStorage:
        """Return the storage of the root."""
        return LocalStorage(str(self.root))

    @property
    def target(self) -> DeltaTarget:
        """Return the target, opened anew."""
        return DeltaTarget(self.storage)

    def file(
        self, number: int, *, hidden: Iterable[int] = (), write: pa.Table | None = None
    ) -> NewFile:
        """Return a file, which is written unless it is there, and some hidden rows of it."""
        if number not in self.rows:
            self.rows[number] = rows_of(number) if write is None else write
        rows = self.rows[number]
        path = self.root / first(number).path
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            pq.write_table(rows, path)
        segment = replace(first(number), rows=len(rows), size=path.stat().st_size)
        hides = BitMap(hidden)
        clips = tuple(Interval(JANUARY.start, JANUARY.start + 1 + row) for row in hides)
        segment = replace(segment, schema=self.table.schema.number)
        shown = ShownFile(segment=segment, clips=clips)
        return NewFile(
            shown=shown,
            stats=file_stats(LocalFiles(str(self.root)), self.table, segment),
            hidden=hides,
        )

    def revision(self, *files: NewFile, gone: Iterable[int] = (), **other: Any) -> Revision:
        """Return the change of the next event."""
        return Revision(
            **{
                "event": self.event + 1,
                "time": BASE + 1_000_000 * (self.event + 1),
                "commit": f"c{self.event + 1}",
                "table": self.table,
                "gone": frozenset(first(number).path for number in gone),
                "shown": {each.shown.path: each for each in files},
                **other,
            }
        )

    def put(self, *files: NewFile, gone: Iterable[int] = (), **other: Any) -> Published:
        """Put the change of the next event."""
        found = self.target.put(self.known, self.revision(*files, gone=gone, **other))
        assert found is not None
        self.known, self.event = found, found.event
        return found


def rows_of(number: int) -> pa.Table:
    """Return ten rows, a second apart."""
    times = [START + timedelta(hours=number, seconds=n, microseconds=1234) for n in range(10)]
    carriers = [f"{number:02d}{'x' * 40}{n}" for n in range(10)]
    delays = [number + n / 8 for n in range(10)]
    return pa.table([times, carriers, delays], schema=to_arrow(COLUMNS))
