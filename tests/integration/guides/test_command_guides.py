"""Commands of guides work as they stand; those of deletes and overwrites have their own tests."""

import re
from pathlib import Path

import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from airflow_provider_segtable.library.table import Table
from tests.guides import GUIDES, blocks, commands
from tests.unit.cli.conftest import Facts, Run, trips


def well(run: Run, *found: list[str]) -> None:
    """Run commands; each must end well."""
    assert found
    for arguments in found:
        result = run(*arguments)
        assert result.exit_code == 0, f"{arguments}: {result.stdout}{result.stderr}"


@pytest.fixture
def flights(run: Run) -> str:
    """A table ``flights`` of 48 rows in 48 events."""
    pq.write_table(trips(48), "trips.parquet")
    assert (
        run("table", "create", "flights", "--like", "trips.parquet", "--time", "at").exit_code == 0
    )
    assert run("ingest", "flights", "trips.parquet", "--rows-per-append", "1").exit_code == 0
    return "flights"


def test_compaction(run: Run, facts: Facts) -> None:
    """The guide's table holds the rows that were sent, in one segment of a month."""
    pq.write_table(trips(48), "trips.parquet")
    pq.write_table(trips(24), "more.parquet")
    well(run, *commands("compaction.md"))
    assert facts("table", "scan", "./trips", "--count")["rows"] == 72
    described = facts("table", "describe", "./trips")
    assert [override["granularity"] for override in described["zones"]] == ["month"]
    assert described["counts"]["segments"] == 1


def test_a_fleet(run: Run, facts: Facts) -> None:
    """The guide's file has no fault, and its tables are found, planned and shown."""
    pq.write_table(trips(48), "trips.parquet")
    for table in ("events/orders", "events/test_1", "other/t"):
        well(run, ["table", "create", table, "--like", "trips.parquet", "--time", "at"])
        well(run, *[["ingest", table, "trips.parquet", "--commit-id", str(n)] for n in range(9)])
    text, grown = blocks("fleet.md", "toml")
    Path("fleet.toml").write_text(text)
    Path("grown.toml").write_text(grown)
    well(run, *commands("fleet.md"))
    planned = facts("fleet", "plan", "fleet.toml")
    assert {each["table"] for each in planned["chosen"]} == {"events/test_1", "other/t"}
    assert {(each["table"], each["code"]) for each in planned["left"]} == {
        ("events/orders", "frozen")
    }
    found = facts("fleet", "check", "grown.toml", "--root", ".")
    tables = {each["group"]: each["tables"] for each in found["groups"]}
    streams = ["events/orders", "events/test_1"]
    assert tables == {"streams": streams, "archive": [], "rest": ["other/t"]}


def test_publishing(run: Run, facts: Facts) -> None:
    """The published table is checked, described, and removed again."""
    pq.write_table(trips(48), "trips.parquet")
    well(run, ["table", "create", "trips", "--like", "trips.parquet", "--time", "at"])
    well(run, ["ingest", "trips", "trips.parquet"])
    *most, remove = commands("publishing.md")
    well(run, *most)
    (delta,) = facts("table", "describe", "./trips")["published"]
    assert (delta["format"], delta["lag_events"]) == ("delta", 0)
    well(run, remove)
    assert facts("table", "describe", "./trips")["published"] == []


def test_runbook(run: Run) -> None:
    """Every command ends well on a table that is well."""
    pq.write_table(trips(48), "trips.parquet")
    assert run("table", "create", "trips", "--like", "trips.parquet", "--time", "at").exit_code == 0
    assert run("ingest", "trips", "trips.parquet").exit_code == 0
    well(run, *commands("runbook.md"))


def test_cleaning(run: Run, facts: Facts, flights: str) -> None:
    """Cleaning, tags and a restore leave the rows of the tag."""
    well(run, *commands("cleaning.md"))
    assert facts("table", "scan", flights, "--count")["rows"] == 48
    assert [each["name"] for each in facts("tag", flights, "--list")["tags"]] == [
        "before-migration"
    ]


def test_change_feeds(run: Run, facts: Facts) -> None:
    """Windows are read, and a consumer comes and goes."""
    rows = trips(6).rename_columns(["at", "id", "n"])
    pq.write_table(rows, "orders.parquet")
    well(run, ["table", "create", "orders", "--like", "orders.parquet", "--time", "at"])
    well(run, *[["ingest", "orders", "orders.parquet", "--commit-id", str(n)] for n in range(5)])
    *most, drop = commands("change-feeds.md")
    well(run, *most)
    (consumer,) = facts("consumers", "list", "orders")["consumers"]
    assert (consumer["name"], consumer["version"], consumer["behind"]) == ("billing", 5, 1)
    since = ("table", "scan", "orders", "--since-version", "3", "--changes", "--count")
    assert facts(*since)["rows"] == 12
    well(run, drop)
    assert facts("consumers", "list", "orders")["consumers"] == []


def test_changing(run: Run, facts: Facts) -> None:
    """Properties and columns are as the guide says, by commands and in Python; drop ends it."""
    rows = trips(6).rename_columns(["at", "user", "amount"])
    pq.write_table(rows, "orders.parquet")
    for name in ("orders", "again"):
        given = ("--time", "at", "--property", "compaction.clustering=user")
        well(run, ["table", "create", name, "--like", "orders.parquet", *given])
        well(run, ["ingest", name, "orders.parquet"])
    *changes, would_drop, drop = commands("changing.md")
    well(run, *changes, would_drop)
    described = facts("table", "describe", "orders")
    assert [each["name"] for each in described["schema"]] == ["at", "user", "price", "items"]
    assert facts("table", "scan", "orders", "--where", "items = 1", "--count")["rows"] == 6
    well(run, drop)
    assert run("table", "describe", "orders").exit_code != 0
    again = Table.open("again")
    for block in blocks("changing.md", "python"):
        exec(block, {"table": again})  # noqa: S102 - ours
    assert again.schema.names == ["at", "user", "price", "items"]
    assert "compaction.clustering" not in again.properties


def test_reading(run: Run) -> None:
    """The guide's plan has the lines of a plan, whatever the numbers; its commands work."""
    rows = trips(48).rename_columns(["at", "who", "fare"])
    for n in range(3):
        fares = pc.add(rows["fare"], 20 * n)
        pq.write_table(rows.set_column(2, "fare", fares), "trips.parquet")
        if not n:
            well(run, ["table", "create", "trips", "--like", "trips.parquet", "--time", "at"])
        well(run, ["ingest", "trips", "trips.parquet", "--commit-id", str(n)])
    well(run, *commands("reading.md"))
    for block in blocks("reading.md", "python"):
        exec(block, {"trips": Table.open("trips")})  # noqa: S102 - ours
    lines = run(*commands("reading.md")[0]).stdout.splitlines()
    guide = (GUIDES / "reading.md").read_text().splitlines()
    assert {line.split("  ")[0] for line in lines[2:14]} <= {line.split("  ")[0] for line in guide}


def test_indexes(run: Run, facts: Facts) -> None:
    """The guide's indexes are made, built, begun anew and dropped; its policy is valid."""
    rows = trips(48).rename_columns(["time_hour", "tailnum", "dep_delay"])
    rows = rows.append_column("arr_delay", rows["dep_delay"])
    rows = rows.append_column("dest", rows["tailnum"])
    pq.write_table(rows, "flights.parquet")
    made = ("--like", "flights.parquet", "--time", "time_hour", "--granularity", "hour")
    well(run, ["table", "create", "flights", *made], ["ingest", "flights", "flights.parquet"])
    *most, drop = commands("indexes.md")
    well(run, *most)
    delays, tails = facts("index", "status", "flights")["indexes"]
    assert (delays["indexed"], tails["indexed"], tails["settings"]) == (48, 48, {"rate": 0.001})
    wanted = ("table", "scan", "flights", "--where", "dep_delay > 11.5", "--explain")
    assert facts(*wanted)["files_opened"] == 1
    well(run, drop)
    assert facts(*wanted)["files_opened"] == 48


def test_migration(run: Run, facts: Facts) -> None:
    """A folder of Parquet files is adopted, or moved by a pattern, once however often it is run."""
    for folder in ("landing", "lake"):
        Path(folder).mkdir()
        for n in (5, 6):
            rows = trips(24, 24 * n).rename_columns(["pickup", "zone", "fare"])
            pq.write_table(rows, f"{folder}/2026-01-0{n}.parquet")
    plan, adopt, compact, verify, create, load, *others = commands("migration.md")
    well(run, plan, adopt, adopt, compact, verify)
    assert facts("table", "scan", "./lake", "--count")["rows"] == 48
    files = sorted(str(path) for path in Path().glob(load[2]))
    load[2:3] = files  # as a shell does
    well(run, create, load, load, *others)
    assert facts("table", "scan", "./trips", "--count")["rows"] == 48


def test_tutorial(run: Run, facts: Facts) -> None:
    """The tutorial's numbers are those that its commands give, with ZooKeeper in memory."""
    for block in blocks("tutorial.md", "python"):
        exec(block, {})  # noqa: S102 - ours
    found = [each for each in commands("tutorial.md") if each[0] != "zookeeper"]
    create, load, segments, plan, compact, *others = found
    well(run, create, load, load, segments)
    assert facts("table", "describe", "./trips")["counts"]["segments"] == 72
    well(run, plan, compact)
    assert facts("table", "describe", "./trips")["counts"]["segments"] == 3
    now, then = others[1:3]
    assert facts(*now)["checksum"] == facts(*then)["checksum"]
    well(run, *others)
    assert facts("table", "scan", "./trips", "--version", "72", "--count")["rows"] == 21_600
    assert facts("table", "scan", "./trips", "--count")["rows"] < 21_600 + 900


def test_operating(run: Run, facts: Facts) -> None:
    """The numbers that the guide names are in the answer of ``describe``."""
    pq.write_table(trips(48), "trips.parquet")
    well(run, ["table", "create", "trips", "--like", "trips.parquet", "--time", "at"])
    well(run, ["ingest", "trips", "trips.parquet"], *commands("operating.md"))
    described = facts("table", "describe", "trips")
    named = re.findall(r"`(counts|health)\.(\w+)`", (GUIDES / "operating.md").read_text())
    assert named
    assert [key for family, key in named if key not in described[family]] == []


def test_rollup(run: Run, facts: Facts) -> None:
    """The command makes the table that the guide's Python makes (``test_rollup_guide``)."""
    well(run, *commands("rollup.md"))
    names = [each["name"] for each in facts("table", "describe", "visits")["schema"]]
    assert names == ["at", "page", "visits", "total_ms", "slowest", "latest"]


def test_upserts(run: Run, facts: Facts) -> None:
    """The shop of the guide is made, filled, compacted and read."""
    rows = trips(4).append_column("order_id", [[0, 1, 2, 3]])
    rows = rows.append_column("changed", [[1, 1, 1, 1]])
    rows = rows.rename_columns(["placed", "status", "amount", "order_id", "changed"])
    pq.write_table(rows.drop_columns(["amount"]), "orders.parquet")
    line = '{"order_id": %d, "placed": "2013-01-01T00:00:00Z", "changed": 2, "status": "new", '
    with open("changes.jsonl", "w") as file:  # noqa: PTH123 - the test's folder is current
        file.writelines((line + '"gone": %s}\n') % each for each in ((1, "true"), (9, "false")))
    well(run, *commands("upserts.md"))
    found = facts("table", "scan", "shop", "--columns", "order_id")["rows"]
    assert sorted(row["order_id"] for row in found) == [0, 2, 3]
