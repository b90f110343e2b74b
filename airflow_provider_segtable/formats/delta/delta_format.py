"""Delta Lake as a format: a log of actions in the table's own root, and vectors beside it."""

from collections.abc import Collection, Mapping
from typing import ClassVar

from airflow_provider_segtable.core.log.families.table_events import TableCreated
from airflow_provider_segtable.formats.delta.delta_schema import refusal
from airflow_provider_segtable.formats.delta.delta_target import DeltaTarget
from airflow_provider_segtable.formats.delta.log_files import LOG, VECTORS, is_own
from airflow_provider_segtable.formats.format import Published, Target
from airflow_provider_segtable.ports.clock import Randomness
from airflow_provider_segtable.ports.storage import Storage


class DeltaFormat:
    """``formats.format.Format`` of Delta Lake."""

    name: ClassVar[str] = "delta"
    title: ClassVar[str] = "Delta Lake"
    folders: ClassVar[tuple[str, ...]] = (LOG, VECTORS)

    def target(self, storage: Storage, randomness: Randomness | None = None) -> Target:
        """Return the target in a table's root."""
        return DeltaTarget(storage, randomness)

    def refusal(self, table: TableCreated, schemas: Collection[int]) -> str:
        """Return why a version cannot be published, with the way out; empty if it can."""
        return refusal(table, schemas)

    def register(self, published: Published, properties: Mapping[str, str]) -> str:  # noqa: ARG002
        """Return nothing: readers open the table by its address."""
        return ""

    def is_own(self, path: str) -> bool:
        """Return whether the name of a file is one that a target gives."""
        return is_own(path)
