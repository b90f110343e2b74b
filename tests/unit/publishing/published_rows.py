"""What a reader finds who knows the files of a version, positions, and nothing else."""

from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.publishing import ShownFile, shown_files
from airflow_provider_segtable.data.parquet.source_file import SourceFile
from airflow_provider_segtable.data.publishing import hidden_rows
from airflow_provider_segtable.ports.files import DataFiles
from airflow_provider_segtable.services.attempt import in_process
from airflow_provider_segtable.services.compaction import compact
from airflow_provider_segtable.services.request import request
from airflow_provider_segtable.table.table import Table


def compacted(table: Table, kind: str) -> None:
    """Compact in this process."""
    plans = [known.plan.id for known in request(table.ports, kind)]
    compact(table.ports, plans, in_process(table.ports.files))


def stored(files: DataFiles, path: str) -> pa.Table:
    """Return all rows of a file, hidden ones and hidden columns too."""
    with files.open(path) as source:
        return pq.read_table(SourceFile(source))


def published_rows(
    files: DataFiles, state: State, shown: Iterable[ShownFile] | None = None
) -> pa.Table:
    """Return the rows of shown files, all of a version's if none are given, in its columns."""
    given = tuple(shown_files(state).values() if shown is None else shown)
    hidden = hidden_rows(files, state.table, given)
    names: list[Any] = list(state.table.schema.names)
    found = []
    for each in given:
        rows = stored(files, each.path)
        kept = np.ones(rows.num_rows, np.bool_)
        kept[list(hidden.get(each.path, ()))] = False
        found.append(rows.filter(pa.array(kept)).select(names))
    return pa.concat_tables(found) if found else pa.table({name: [] for name in names})
