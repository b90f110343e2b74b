"""The ledger of a primary-key table: its models know how its records are ordered.

The simulation moves it event by event; the stress run (``tests/stress/keyed``), whose processes
are real, replays the events that it saw.
"""

from collections.abc import Sequence

import pyarrow as pa

from airflow_provider_segtable.core.segment import Segment
from airflow_provider_segtable.core.tables.definition import TableDefinition
from airflow_provider_segtable.core.tables.keyed_kind import PrimaryKey
from airflow_provider_segtable.core.tables.merge_rules import OP, MergeEngine
from airflow_provider_segtable.core.tables.table_kind import TableKind
from airflow_provider_segtable.data.arrow_schema import parse_type, physical_schema
from airflow_provider_segtable.data.parquet.segment_scan import SegmentRead
from airflow_provider_segtable.ports.files import DataFiles
from tests.simulation.keyed.records import CHUNKS, SCHEMA, KeyedModel, Record
from tests.simulation.ledger import Ledger
from tests.simulation.model import Column


class KeyedLedger(Ledger):
    """The ledger of a primary-key table."""

    key = "row"

    def _model_of(self, table: TableDefinition) -> KeyedModel:
        kind = table.kind
        assert isinstance(kind, PrimaryKey)
        return KeyedModel(
            schemas=super()._model_of(table).schemas,
            properties=dict(table.properties),
            ordered=bool(kind.ordering),
            partial=kind.merge is MergeEngine.PARTIAL_UPDATE,
            chunks=CHUNKS,
        )


def written_records(
    files: DataFiles, kind: TableKind, segment: Segment, added: Sequence[Column] = ()
) -> Sequence[Record]:
    """Read the records of a log file, with columns that were added to the first ones."""
    fields = [pa.field(column.name, parse_type(column.type)) for column in added]
    schema = physical_schema(pa.schema([*SCHEMA, *fields]), kind)
    return [
        Record(
            key=row["row"],
            hour=int(row["at"].timestamp()) // 3600,
            seq=row["count"],
            **{name: row[name] for name in ("text", "note", "seen", "spot")},
            deletes=row[OP] == 1,
            more=tuple((c.id, row[c.name]) for c in added if row[c.name] is not None),
        )
        for rows in SegmentRead(files, segment, schema=schema, time_column="at").batches()
        for row in rows.to_pylist()
    ]
