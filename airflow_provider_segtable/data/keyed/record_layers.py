"""Layers of records in memory: writes of one table in the order in which they count.

1. A layer is what one write did (``log_files.Records``): rows, and tombstones of keys.
2. Of equal keys the later layer wins, and within a layer the later row. A key whose last record is
   a tombstone is absent.
3. Layers may have a part of the table's columns, if the primary key is among them.
"""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from airflow_provider_segtable.core.tables.merge_rules import DELETE, OP, MergeRules
from airflow_provider_segtable.data.keyed.log_files import Records
from airflow_provider_segtable.data.merge.keyed_rows import log_rows


def layer_of(rows: pa.Table) -> Records:
    """Return rows as a layer without tombstones."""
    return Records(rows=rows, deleted=np.zeros(rows.num_rows, bool))


def joined_records(schema: pa.Schema, layers: Sequence[Records]) -> Records:
    """Return layers as one, in their order, with the columns of a schema."""
    parts = [_in_schema(layer.rows, schema) for layer in layers]
    flags = [np.zeros(0, bool), *(layer.deleted for layer in layers)]
    return Records(
        rows=pa.concat_tables([schema.empty_table(), *parts]), deleted=np.concatenate(flags)
    )


def _in_schema(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return rows with the columns of a schema; mostly they have them, and a cast costs much."""
    found = rows.select(schema.names)
    return found if found.schema.equals(schema) else found.cast(schema)


def rows_of_layers(schema: pa.Schema, layers: Sequence[Records], rules: MergeRules) -> pa.Table:
    """Return the row of each key, sorted by key, with the columns of a schema.

    Args:
        schema: the columns, with those of the primary key.
        layers: the lowest first.
        rules: the table's rules.
    """
    records = joined_records(schema, layers)
    rows = log_rows(records.rows, rules, records.deleted)
    kept = rows.filter(pc.not_equal(rows.column(OP), DELETE))
    return kept.select(schema.names).cast(schema)
