"""The order of roots: what a record's author adds to record order, and when it completed.

1. A root is the partition that a commit gave to a log file. Rows keep it through all compactions.
2. Of records with equal ordering values, the one with the later instant is higher, then the one
   with the greater log version, then the one with the greater write token.
3. A file holds rows of few roots, so what is known of them is a small table beside the rows. It may
   be an Arrow table (``SCHEMA``), as a footer keeps it.
"""

from collections.abc import Iterable
from dataclasses import asdict, dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from airflow_provider_segtable.core.errors import CorruptTable
from airflow_provider_segtable.data.sort.sort_keys import Indices, Numbers

SCHEMA = pa.schema(
    [
        ("partition", pa.int64()),
        ("instant", pa.int64()),
        ("log_version", pa.int32()),
        ("write_token", pa.string()),
        ("completed", pa.int64()),
    ]
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Root:
    """One root.

    Attributes:
        partition: its number.
        instant: when its author began, in µs.
        log_version: the version in the log file's name.
        write_token: the write token in the log file's name.
        completed: the completion time of its commit, in µs.
    """

    partition: int
    instant: int
    log_version: int
    write_token: str
    completed: int


@dataclass(frozen=True, slots=True)
class RootOrders:
    """Roots by number, with the rank of each (from 0), its instant and its completion time."""

    partitions: Indices
    ranks: Numbers
    instants: Indices
    completions: Indices

    @staticmethod
    def of(roots: Iterable[Root]) -> "RootOrders":
        """Return the order of some roots."""
        return RootOrders.of_table(pa.Table.from_pylist([*map(asdict, roots)], schema=SCHEMA))

    @staticmethod
    def of_table(table: pa.Table) -> "RootOrders":
        """Return the order of the roots in a table; a root counts once.

        A repair publishes log files anew, while compacted files have the times of before: of
        several completion times of one root, the latest counts.

        Raises:
            CorruptTable: two rows describe one root differently.
        """
        author = [name for name in SCHEMA.names if name != "completed"]
        table = table.group_by(author).aggregate([("completed", "max")])
        table = table.rename_columns([*author, "completed"])
        partitions = np.asarray(table.column("partition"))
        order = np.argsort(partitions)
        twice = np.flatnonzero(np.diff(partitions[order]) == 0)
        if len(twice):
            raise CorruptTable(
                f"root {partitions[order][twice[0]]} has two descriptions: run segtable verify"
            )
        by_rank = pc.sort_indices(
            table,
            [(name, "ascending") for name in ("instant", "log_version", "write_token")]
            + [("partition", "ascending")],
        )
        ranks = np.empty(len(order), np.uint64)
        ranks[np.asarray(by_rank)] = np.arange(len(order), dtype=np.uint64)
        instants, completions = (np.asarray(table.column(n)) for n in ("instant", "completed"))
        return RootOrders(partitions[order], ranks[order], instants[order], completions[order])

    def ranks_of(self, partitions: Indices) -> Numbers:
        """Return the rank of each root.

        Raises:
            CorruptTable: a root is unknown.
        """
        return self.ranks[self._places(partitions)]

    def instants_of(self, partitions: Indices) -> Indices:
        """Return when the author of each root began.

        Raises:
            CorruptTable: a root is unknown.
        """
        return self.instants[self._places(partitions)]

    def completions_of(self, partitions: Indices) -> Indices:
        """Return the completion time of each root.

        Raises:
            CorruptTable: a root is unknown.
        """
        return self.completions[self._places(partitions)]

    def _places(self, partitions: Indices) -> npt.NDArray[np.int64]:
        if not len(partitions):
            return np.zeros(0, np.int64)
        last = max(len(self.partitions) - 1, 0)
        places = np.searchsorted(self.partitions, partitions).clip(max=last)
        known = np.zeros(len(partitions), bool)
        if len(self.partitions):
            known = self.partitions[places] == partitions
        if not known.all():
            raise CorruptTable(
                f"a row has root {partitions[np.argmin(known)]}, which is not among the "
                f"{len(self.partitions)} known roots: run segtable verify"
            )
        return places
