"""``segtable table alter``: columns by the command line, and what is refused."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.unit.cli.conftest import Facts


def test_columns_are_changed_in_one_event(facts: Facts, table: str, tmp_path: Any) -> None:
    """A name that is given up is free for another column; old rows have the default."""
    facts("ingest", table, _file(tmp_path))
    changed = facts(
        *("table", "alter", table, "--drop", "who", "--rename", "amount=who"),
        *("--add", "stops int default 0", "--add", "note string default 'a b'"),
        *("--order", "stops,at", "--set", "retention.hours=1"),
    )
    assert [column["name"] for column in changed["schema"]] == ["stops", "at", "who", "note"]
    assert [column["id"] for column in changed["schema"]] == [4, 1, 3, 5]
    rows = facts("table", "scan", table)["rows"]
    assert {(row["stops"], row["note"]) for row in rows} == {(0, "a b")}
    assert all(isinstance(row["who"], float) for row in rows)
    before = facts("table", "scan", table, "--version", str(changed["version"] - 1))["rows"]
    assert list(before[0]) == ["at", "who", "amount"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ((), "nothing to change"),
        (("--add", "n int not null"), "cannot be not null"),
        (("--add", "n whatever"), "column 'n' has type 'whatever', which is unknown"),
        (("--add", "n int default x"), "default of column 'n' is not of type int64"),
        (("--add", "who int"), "there is a column 'who'"),
        (("--add", "__segtable_x int"), "reserved"),
        (("--drop", "nobody"), "no column 'nobody': the table has at, who, amount"),
        (("--drop", "at"), "'at' is the event time"),
        (("--rename", "at=time"), "'at' is the event time"),
        (("--rename", "who"), "is not OLD=NEW"),
        (("--type", "amount=int"), "cannot become int64"),
        (("--order", "who,who"), "occurs 2 times"),
    ],
)
def test_wrong_changes_are_refused(
    run: Callable[..., Any], facts: Facts, table: str, options: tuple[str, ...], words: str
) -> None:
    """The message names the column and the way out, and nothing is written."""
    result = run("table", "alter", table, *options)
    assert result.exit_code == 2
    assert words in " ".join(result.stderr.split())
    assert facts("table", "describe", table)["version"] == 0


def test_a_clustered_column_goes_only_with_its_clustering(
    run: Callable[..., Any], facts: Facts, table: str
) -> None:
    """Dropping it would leave a clustering that no plan can sort by."""
    facts("table", "set", table, "compaction.clustering=who")
    result = run("table", "alter", table, "--drop", "who")
    assert "'who' is in compaction.clustering" in " ".join(result.stderr.split())
    facts("table", "alter", table, "--drop", "who", "--unset", "compaction.clustering")


def _file(folder: Any) -> str:
    import pyarrow.parquet as pq

    from tests.unit.cli.conftest import trips

    path = folder / "some.parquet"
    pq.write_table(trips(), path)
    return str(path)
