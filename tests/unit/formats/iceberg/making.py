"""A real table in a folder, each of whose versions can be published as Apache Iceberg."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa

from airflow_provider_segtable.core.publishing import ShownFile, difference, shown_files
from airflow_provider_segtable.core.time import Granularity
from airflow_provider_segtable.data.publishing import hidden_rows, stats_of
from airflow_provider_segtable.formats.format import NewFile, Published, Revision
from airflow_provider_segtable.formats.iceberg.iceberg_target import IcebergTarget
from airflow_provider_segtable.services.attempt import in_process
from airflow_provider_segtable.services.compaction import compact
from airflow_provider_segtable.services.request import request
from airflow_provider_segtable.table.table import Table, create_table
from tests.support.in_memory import defined_by
from tests.unit.services.repairing import ports_at

EPOCH = datetime(2013, 1, 1, tzinfo=UTC)
SCHEMA = pa.schema(
    [
        pa.field("at", pa.timestamp("us", tz="UTC"), nullable=False),
        pa.field("row", pa.int64(), nullable=False),
        ("small", pa.int8()),
        ("short", pa.float32()),
        ("name", pa.string()),
        ("flag", pa.bool_()),
        ("day", pa.date32()),
        ("price", pa.decimal128(20, 3)),
        ("local", pa.timestamp("us")),
        ("clock", pa.time64("us")),
        ("bytes", pa.binary()),
        ("code", pa.binary(3)),
        ("tags", pa.list_(pa.string())),
        ("deep", pa.struct([("x", pa.int64()), ("m", pa.map_(pa.string(), pa.float64()))])),
    ]
)


@dataclass
class Lake:
    """A table, and the version of it that is published."""

    table: Table
    known: Published | None = None
    shown: dict[str, ShownFile] = field(default_factory=dict)

    @property
    def target(self) -> IcebergTarget:
        """Return the target, opened anew."""
        return IcebergTarget(self.table.ports.storage)

    def revision(self) -> Revision:
        """Return the change from the published version to the newest one."""
        state, files = self.table.state(), self.table.ports.files
        changes = difference(self.shown, shown_files(state))
        stats = stats_of(files, state.table, [each.segment for each in changes.shown.values()])
        hidden = hidden_rows(files, state.table, changes.shown.values())
        return Revision(
            event=state.n,
            time=state.time,
            commit=f"c{state.n}",
            table=state.table,
            gone=changes.gone,
            shown={
                path: NewFile(
                    shown=each,
                    stats=stats[path],
                    hidden=hidden.get(path, NewFile(shown=each).hidden),
                )
                for path, each in changes.shown.items()
            },
        )

    def publish(self) -> Published:
        """Publish the newest version."""
        found = self.target.put(self.known, self.revision())
        assert found is not None
        self.known, self.shown = found, shown_files(self.table.state())
        return found

    def compact(self, kind: str, **options: Any) -> None:
        """Ask for a compaction and carry it out."""
        ports = self.table.ports
        plans = [known.plan.id for known in request(ports, kind, **options)]
        compact(ports, plans, in_process(ports.files))


def lake_at(
    folder: Path, schema: pa.Schema = SCHEMA, granularity: Granularity = Granularity.DAY
) -> Lake:
    """Return an empty table."""
    return Lake(create_table(ports_at(folder), defined_by(schema, granularity)))


def rows(numbers: Iterable[int], schema: pa.Schema = SCHEMA) -> pa.Table:
    """Return rows six hours apart, with values of all types, every seventh mostly null."""
    return pa.Table.from_pylist([_row(n, schema) for n in numbers], schema=schema)


def _row(n: int, schema: pa.Schema) -> dict[str, Any]:
    values = {
        "at": EPOCH + timedelta(hours=6 * n, microseconds=n),
        "row": n,
        "small": n % 100 - 50,
        "short": float("nan") if n % 5 == 3 else n / 2 - 7,
        "name": f"a long name that is cut, {n:04d} \U0001f984",
        "flag": n % 2 == 0,
        "day": date(1960, 1, 1) + timedelta(days=1000 * n),
        "price": Decimal(n * n - 100) / 8,
        "local": (EPOCH + timedelta(days=n - 15_700, seconds=n)).replace(tzinfo=None),
        "clock": (EPOCH + timedelta(seconds=61 * n)).time(),
        "bytes": b"\xff" * 20 + bytes([n]),
        "code": bytes([n, 255, 255]),
        "tags": [f"t{n}", None, "x"][: n % 4],
        "deep": {"x": n, "m": [(f"k{each}", each / 2) for each in range(n % 3)]},
    }
    if n % 7 == 6:
        values = {name: value if name in {"at", "row"} else None for name, value in values.items()}
    return {name: values[name] for name in schema.names}
