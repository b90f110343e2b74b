"""A lake for the eyes: small real tables with a past of nine days, each with something to see.

1. ``sales/orders``: 3 March has 101 files. Its rows came late, and the policy leaves the last days
   alone. Rows were deleted yesterday. One of two indexes was never built, and the published
   version is old.
2. ``sales/returns``: tidy: compacted day by day, indexed, published, tagged.
3. ``billing/invoices``: a primary-key table with upserts and deletes.
4. ``iot/sensors``: some days of hours, with a few small files in each.
5. ``iot/broken``: its log cannot be read.
6. A table whose name, author and rows are markup.

The past is written with a clock that is moved, by one process and without ZooKeeper. Later writers
take their locks from ZooKeeper, as in a real lake.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa

from airflow_provider_segtable.coordination.memory import MemoryCoordinator, MemoryService
from airflow_provider_segtable.core.time import Interval, instant
from airflow_provider_segtable.data.open_files import open_files
from airflow_provider_segtable.library.table import Table
from airflow_provider_segtable.storage import open_storage
from airflow_provider_segtable.table.context import TableContext
from tests.support.clock import FakeClock, FakeRandomness

ORDERS, RETURNS, INVOICES = "sales/orders", "sales/returns", "billing/invoices"
SENSORS, BROKEN, MARKUP = "iot/sensors", "iot/broken", "odd/<img src=x onerror=alert(1)>"
LATE_DAY = datetime(2026, 3, 3, tzinfo=UTC)
AIRFLOW = "worker-3:812 segtable_minor__lake/fleet__sales.orders/compact"
FAR_S, TICK_S = 1e9, 1.5
SCHEMA = pa.schema(
    [
        pa.field("at", pa.timestamp("us", tz="UTC"), nullable=False),
        ("order_id", pa.int64()),
        ("customer", pa.int64()),
        ("country", pa.string()),
        ("amount", pa.float64()),
    ]
)
FLEET = """
[fleet]
name = "lake"

[budget]
plans = 6

[groups.sales]
tables = ["sales/*"]
objective = {files_read = 40}

[groups.rest]
tables = ["**"]
"""


class TickingClock(FakeClock):
    """A clock that goes on with each look at it."""

    def now(self) -> int:
        """Return the time, some seconds after the last look."""
        self.advance(TICK_S)
        return super().now()


@dataclass
class Lake:
    """A lake below a folder; its clock goes on with each look at it, so that work takes time."""

    root: Path
    random: Random = field(default_factory=lambda: Random(31))
    service: MemoryService = field(default_factory=MemoryService)

    def __post_init__(self) -> None:
        """Begin nine days ago."""
        self.now = datetime.now(UTC).replace(microsecond=0)
        self.clock = TickingClock(instant(self.now - timedelta(days=9)))

    def make(self) -> None:
        """Make all tables."""
        self.returns()
        self.invoices()
        self.sensors()
        self.markup()
        self.broken()
        self.orders()

    # ---- tables -----------------------------------------------------------------------------

    def orders(self) -> None:
        """Make the table that is ill."""
        properties = {
            "compaction.min_segments": "4",
            "compaction.clustering": "customer",
            "compaction.skip_offset_minutes": "11520",
            "publish.delta": "on",
            "publish.lag_seconds": "0",
        }
        self._days_ago(6.5)
        table = self._create(ORDERS, properties)
        table.create_index("by_customer", "column_stats", "customer")
        for day in range(-9, 8):
            for _ in range(6):
                self._append(table, LATE_DAY + timedelta(days=day), 300)
        self._compacted(table, "minor", LATE_DAY - timedelta(days=9), LATE_DAY)
        table.run_index("by_customer")
        self._days_ago(5)
        self._compacted(table, "major", LATE_DAY - timedelta(days=9), LATE_DAY - timedelta(days=5))
        self._days_ago(4)
        self._compacted(table, "semi-major", LATE_DAY - timedelta(days=5), LATE_DAY)
        table.publish()
        table.advance_consumer("billing", table.state().n)
        self._days_ago(3)
        for _ in range(94):
            self._append(table, LATE_DAY, 40)
        self._days_ago(1)
        self._by(table, "admin").delete("customer < 40")
        self._by(table, "nightly_fix").update(
            {"country": "AT"}, where="country = 'AU' and customer < 200"
        )
        table.create_index("by_country", "bloom_filter", "country")
        self._days_ago(0.2)
        for day in range(3, 8):
            self._append(table, LATE_DAY + timedelta(days=day), 300)

    def returns(self) -> None:
        """Make the tidy table."""
        properties = {"compaction.min_segments": "4", "publish.delta": "on"}
        properties["publish.lag_seconds"] = "0"
        self._days_ago(9)
        table = self._create(RETURNS, properties)
        table.create_index("by_customer", "column_stats", "customer")
        for day in range(6):
            self._days_ago(8 - day)
            for _ in range(5):
                self._append(table, LATE_DAY + timedelta(days=day), 200)
            self._compacted(table, "minor", LATE_DAY, LATE_DAY + timedelta(days=day + 1))
        table.run_index("by_customer")
        table.tag("quarter-end")
        table.publish()
        table.advance_consumer("bi", table.state().n)

    def invoices(self) -> None:
        """Make the table with a primary key."""
        self._days_ago(7.1)
        table = self._create(INVOICES, {}, primary_key="order_id", buckets=2)
        for n in range(8):
            self._days_ago(7 - n / 2)
            self._by(table, "billing:17").upsert(self._rows(LATE_DAY, 200, first=n * 50))
        self._days_ago(2)
        self._by(table, "admin").delete("order_id < 20")

    def sensors(self) -> None:
        """Make the table of hours."""
        self._days_ago(5)
        table = self._create(SENSORS, {"compaction.min_segments": "6"}, granularity="hour")
        for hour in range(72):
            for _ in range(2):
                self._append(table, LATE_DAY + timedelta(hours=hour), 60, hours=1)
        self._days_ago(2)
        for _ in range(7):
            self._append(table, LATE_DAY + timedelta(hours=70), 60, hours=1)

    def markup(self) -> None:
        """Make the table with hostile names."""
        self._days_ago(4)
        table = self._create(MARKUP, {})
        author = "<script>document.title='owned'</script>"
        self._append(self._by(table, author), LATE_DAY, 10)

    def broken(self) -> None:
        """Make the table that cannot be read."""
        timeline = self.root / BROKEN / "_segtable" / "timeline"
        timeline.mkdir(parents=True)
        (timeline / f"{0:020d}.json").write_text("no event")

    # ---- steps ------------------------------------------------------------------------------
    def _create(
        self,
        name: str,
        properties: Mapping[str, str],
        *,
        granularity: str = "day",
        **kind: Any,
    ) -> Table:
        ports = self._ports(self.root / name)

        class InThePast(Table):
            """Opens this table by the ports of the past."""

            @classmethod
            def connect(cls, *_: Any) -> TableContext:
                return ports

        return InThePast.create(
            ports.uri,
            schema=SCHEMA,
            time_column="at",
            granularity=granularity,
            properties=properties,
            **kind,
        )

    def _ports(self, place: Path) -> TableContext:
        place.parent.mkdir(parents=True, exist_ok=True)
        uri = str(place)
        return TableContext(
            uri=uri,
            storage=open_storage(uri, {}),
            files=open_files(uri, {}),
            clock=self.clock,
            randomness=FakeRandomness(self.random.randrange(2**31)),
            author="loader-1:7",
            optional_coordinator=MemoryCoordinator(self.clock, self.service),
            most_skew_s=FAR_S,
        )

    def _by(self, table: Table, author: str) -> Table:
        return Table(table.ports.by(author))

    def _days_ago(self, days: float) -> None:
        """Go on at a time, unless it is later already: time never goes back in a log."""
        self.clock.jump(instant(self.now - timedelta(days=days)))

    def _append(self, table: Table, day: datetime, rows: int, *, hours: float = 24) -> None:
        self.clock.advance(40)
        table.append(self._rows(day, rows, hours=hours))

    def _compacted(self, table: Table, kind: str, start: datetime, end: datetime) -> None:
        """Compact, as a task of Airflow."""
        self.clock.advance(300)
        interval = Interval(start=instant(start), end=instant(end))
        self._by(table, AIRFLOW).compact(kind, interval=interval)

    def _rows(self, day: datetime, count: int, *, first: int = 0, hours: float = 24) -> pa.Table:
        pick = self.random
        times = sorted(day + timedelta(hours=pick.random() * hours) for _ in range(count))
        return pa.table(
            {
                "at": times,
                "order_id": range(first, first + count),
                "customer": [pick.randrange(2000) for _ in range(count)],
                "country": [pick.choice(("AT", "AU", "DE", "FR")) for _ in range(count)],
                "amount": [round(pick.random() * 200, 2) for _ in range(count)],
            },
            schema=SCHEMA,
        )
