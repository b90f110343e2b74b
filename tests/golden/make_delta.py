"""Writes the golden table that is published as Delta Lake; run it only with an ADR for that."""

from pathlib import Path

from airflow_provider_segtable.formats.delta.delta_target import DeltaFormat
from airflow_provider_segtable.table.publishing.publisher import publish
from airflow_provider_segtable.table.table import Table
from tests.golden.golden_table import batch, golden_table, write_files

PLACE = Path(__file__).parent / "delta"


def main() -> None:
    """Append, delete and publish so often that versions lie on both sides of a checkpoint."""
    table = Table(golden_table(5))
    form = DeltaFormat()
    for turn in range(4):
        table.append(batch(turn))
        publish(table.ports, form)
    table.delete("carrier = 'AA'")
    for _ in range(6):
        publish(table.ports, form, full=True)
    table.delete("carrier = 'B6'")
    publish(table.ports, form)
    write_files(table.ports.storage, PLACE, form.folders)


if __name__ == "__main__":
    main()
