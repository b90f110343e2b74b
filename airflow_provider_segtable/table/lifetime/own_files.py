"""The files below a table's root that segtable itself wrote, told by their names.

A drop deletes these and no others. The names are those of ``docs/FORMAT.md``: every writer makes
its files by them, so neither the log nor a footer has to be readable. The table of an index has
files of the same names below its own folder. What was published in other formats lies in folders
of its own (``table.publishing.targets``).
"""

import re
from collections.abc import Iterable, Iterator

from airflow_provider_segtable.core.indexes.index_table import INDEXES
from airflow_provider_segtable.core.paths import DATA, DELETES
from airflow_provider_segtable.ports.storage import Entry
from airflow_provider_segtable.table.context import TableContext
from airflow_provider_segtable.table.publishing.targets import target_files

LOG = "_segtable"

_NUMBER = r"[0-9]{20}"
_NAME = r"[A-Za-z0-9][A-Za-z0-9._-]*"
_OF_INDEX = rf"{INDEXES}/({_NAME})/"
_OWN = re.compile(
    rf"(?:{_OF_INDEX})?(?:"
    + "|".join(
        (
            rf"{DATA}/[^/]+/[0-9]{{5,}}-[A-Za-z0-9-]+\.parquet",
            rf"{DATA}/[^/]+/[0-9]+_[0-9]+\.log\.[0-9]+_[a-z0-9]+\.parquet",  # log files
            rf"{DATA}/[^/]+/[0-9]+_[0-9]+-[a-z0-9]+_[0-9]+\.parquet",  # base files
            rf"{DATA}/_runs/.+",
            rf"{DELETES}/[A-Za-z0-9-]+\.arrow",
            rf"{LOG}/timeline/{_NUMBER}\.json",
            rf"{LOG}/checkpoints/({_NUMBER}\.parquet|_last)",
            rf"{LOG}/expired/{_NUMBER}",
            rf"{LOG}/tags/{_NAME}-[0-9]+\.parquet",
            rf"{LOG}/(clock|results)/{_NAME}",
            rf"{LOG}/probe-{_NAME}",
            rf"{LOG}/lost/.+",
            rf"{LOG}/reserve/space",
        )
    )
    + ")"
)
_LOG_OF_INDEX = re.compile(rf"{_OF_INDEX}{LOG}/(?:timeline|checkpoints)/")
_MARKER = re.compile(rf"{_OF_INDEX}{LOG}/expired/{_NUMBER}")


def is_own(path: str) -> bool:
    """Return whether the name of a file is one that segtable gives."""
    return bool(_OWN.fullmatch(path))


def is_index_marker(path: str) -> bool:
    """Return whether a file is a marker in the log of an index's table."""
    return bool(_MARKER.fullmatch(path))


def indexes_with_logs(paths: Iterable[str]) -> frozenset[str]:
    """Return the ids of indexes whose tables have a log; of an ended one a marker stays."""
    found = (_LOG_OF_INDEX.match(path) for path in paths)
    return frozenset(match[1] for match in found if match)


def indexes_of(paths: Iterable[str]) -> frozenset[str]:
    """Return the ids of the indexes to whose tables segtable's own files belong."""
    found = (_OWN.fullmatch(path) for path in paths)
    return frozenset(match[1] for match in found if match and match[1])


def list_files(ports: TableContext) -> Iterator[tuple[Entry, bool]]:
    """Yield the files in the folders of a table, each with whether segtable wrote it."""
    for folder in (DATA, DELETES, LOG):
        yield from ((entry, is_own(entry.path)) for entry in ports.storage.list(folder))
    yield from target_files(ports)
