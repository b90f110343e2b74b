"""Tables that a driver keeps open show what a table shows that is opened anew."""

import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from airflow_provider_segtable.core.errors import SegtableError
from airflow_provider_segtable.core.requests.read_request import ReadRequest
from airflow_provider_segtable.library.table import Table
from airflow_provider_segtable.ports.storage import Entry
from airflow_provider_segtable.spark.source import kept_tables
from airflow_provider_segtable.spark.source.kept_tables import MOST, KeptTables
from airflow_provider_segtable.spark.source.source_options import Place
from airflow_provider_segtable.storage.local import LocalStorage
from airflow_provider_segtable.table.context import TableContext
from airflow_provider_segtable.table.windows import version_read

SCHEMA = pa.schema([("at", pa.timestamp("us", "UTC")), ("n", pa.int64())])


class Noted(LocalStorage):
    """A folder that notes which objects are read, and which folders are listed."""

    def __init__(self, root: str, read: list[str]) -> None:
        super().__init__(root)
        self.noted = read

    def read(self, path: str) -> bytes:
        """Read an object, and note its path."""
        self.noted.append(path)
        return super().read(path)

    def list(self, prefix: str, *, after: str | None = None) -> Iterator[Entry]:
        """List a folder, and note its path."""
        self.noted.append(prefix)
        return super().list(prefix, after=after)


class Kept(KeptTables):
    """Kept tables that note what is read of their logs, and how many were opened."""

    def __init__(self) -> None:
        self.read_of: list[str] = []
        self.opened_now = 0
        super().__init__(self._noted)

    def _noted(self, place: Place) -> TableContext:
        self.opened_now += 1
        found = Table.connect(place.uri, None, place.storage_options, None)
        return replace(found, storage=Noted(place.uri, self.read_of))

    def rows(self, uri: str, request: ReadRequest | None = None) -> list[int]:
        """Return the rows by a read, which are those of a table that is opened anew."""

        def look(ports: TableContext) -> list[int]:
            state = version_read(ports.log, request or ReadRequest())
            found = Table(ports).snapshot(version=state.n).to_arrow().column("n")
            return sorted(found.to_pylist())

        kept = self.read(Place(uri=uri), look)
        assert kept == look(Table.connect(uri, None, None, None))
        return kept


def rows(first: int, count: int) -> pa.Table:
    at = pa.array([1356998400000000 + n for n in range(first, first + count)], SCHEMA[0].type)
    return pa.table([at, pa.array(range(first, first + count), pa.int64())], schema=SCHEMA)


def made(uri: str, first: int = 0, *, keyed: bool = False) -> Table:
    more = {"primary_key": "n", "buckets": 1} if keyed else {}
    table = Table.create(uri, schema=SCHEMA, time_column="at", zookeeper=f"memory://{uri}", **more)
    table.upsert(rows(first, 20)) if keyed else table.append(rows(first, 20))
    return table


@pytest.fixture
def uri(tmp_path: Path) -> str:
    return str(tmp_path / "table")


@pytest.mark.parametrize("keyed", [False, True])
def test_commits_of_others_are_seen(uri: str, keyed: bool) -> None:  # noqa: FBT001
    """Rows, deletes, settlements, compactions and restores, by one opening."""
    table, kept = made(uri, keyed=keyed), Kept()
    assert kept.rows(uri) == [*range(20)]
    table.delete("n % 5 = 0")
    deleted = kept.rows(uri)
    assert deleted == [n for n in range(20) if n % 5]
    (table.upsert if keyed else table.append)(rows(20, 5))
    assert kept.rows(uri) == [*deleted, *range(20, 25)]
    if keyed:
        table.settle()
        assert kept.rows(uri) == [*deleted, *range(20, 25)]
    table.compact("semi-major")
    assert kept.rows(uri) == [*deleted, *range(20, 25)]
    table.restore(version=1)
    assert kept.rows(uri) == [*range(20)]
    assert kept.rows(uri, ReadRequest(version=2)) == deleted
    assert kept.opened_now == 1


def test_the_second_read_reads_new_events_alone(uri: str) -> None:
    """No checkpoint, no earlier event; without new ones the last event and the markers."""
    table, kept = made(uri), Kept()
    for first in range(20, 80, 20):
        table.append(rows(first, 20))

    def read() -> tuple[int, list[str]]:
        kept.read_of.clear()
        place = Place(uri=uri)
        state = kept.read(place, lambda ports: version_read(ports.log, ReadRequest()))
        return state.n, [each.rpartition("/")[2] for each in kept.read_of]

    event = "{:020}.json".format
    n, opening = read()
    assert n == 4
    assert event(1) in opening
    ends = [event(n), event(n + 1), "expired"]
    assert read() == (n, ends)
    table.append(rows(100, 1))
    table.append(rows(200, 1))
    assert read() == (n + 2, [*(event(n + more) for more in range(4)), "expired"])


def drop(table: Table) -> None:
    uri = table.ports.uri
    Table.drop(uri, zookeeper=f"memory://{uri}", force=True)


def forget(table: Table) -> None:
    shutil.rmtree(table.ports.uri)


@pytest.mark.parametrize("end", [drop, forget])
def test_a_table_that_took_the_place_of_another(uri: str, end: Callable[[Table], None]) -> None:
    """As many events, other rows: it is opened anew, and then kept."""
    kept, table = Kept(), made(uri)
    table.delete("n < 5")
    assert kept.rows(uri) == [*range(5, 20)]
    end(table)
    with pytest.raises(SegtableError) as fresh:
        Table.open(uri)
    with pytest.raises(SegtableError) as found:
        kept.rows(uri)
    assert (type(found.value), str(found.value)) == (type(fresh.value), str(fresh.value))
    made(uri, 100).delete("n < 110")
    opened = kept.opened_now
    assert kept.rows(uri) == kept.rows(uri) == [*range(110, 120)]
    assert kept.opened_now == opened + 1


@pytest.mark.parametrize("commits", [0, 1, 2])
def test_a_table_that_was_copied_back(uri: str, tmp_path: Path, commits: int) -> None:
    """Its numbers may stand for other events by then, so nothing that is known is used."""
    kept, table, copy = Kept(), made(uri), str(tmp_path / "copy")
    shutil.copytree(uri, copy)
    table.append(rows(20, 5))
    assert len(kept.rows(uri)) == 25
    shutil.rmtree(uri)
    shutil.copytree(copy, uri)
    again = Table.open(uri, zookeeper=f"memory://{uri}/again")
    for number in range(commits):
        again.append(rows(50 + number, 1))
    assert kept.rows(uri) == [*range(20), *range(50, 50 + commits)]
    assert kept.opened_now == 2


def test_a_link_to_another_table(tmp_path: Path) -> None:
    """The place is a symbolic link, which is changed."""
    for number in range(2):
        made(str(tmp_path / str(number)), 100 * number)
    link, kept = tmp_path / "link", Kept()
    for number in range(2):
        link.unlink(missing_ok=True)
        link.symlink_to(tmp_path / str(number), target_is_directory=True)
        assert kept.rows(str(link)) == [*range(100 * number, 100 * number + 20)]


def test_other_options_are_another_table(uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """So are other variables of the environment, in which stores look for credentials."""
    made(uri)
    kept = Kept()

    def read(**options: str) -> TableContext:
        place = Place(uri=uri, storage_options=options)
        return kept.read(place, lambda ports: (ports.log.load(), ports)[1])

    plain, one, two = read(), read(key="one"), read(key="two")
    assert len({id(each) for each in (plain, one, two)}) == 3
    assert (read(), read(key="one"), read(key="two")) == (plain, one, two)
    assert read(key="one") is one
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "another")
    assert read(key="one") is not one
    monkeypatch.undo()
    assert read(key="one") is one


def test_few_tables_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The least recently read ones are closed, by number or by what is known of their files."""
    uris = [str(tmp_path / str(number)) for number in range(MOST + 1)]
    for uri in uris:
        made(uri)
    kept = Kept()
    for uri in [*uris[:MOST], uris[0], uris[MOST], uris[0]]:
        kept.rows(uri)
    assert kept.opened_now == MOST + 1
    kept.rows(uris[1])
    assert kept.opened_now == MOST + 2
    monkeypatch.setattr(kept_tables, "MOST_BYTES", 0)
    large = Kept()

    def look(ports: TableContext) -> int:
        ports.entries.view("rows", lambda: (ports, 1000))
        return ports.log.load().n

    for uri in (uris[0], uris[0], uris[1], uris[0]):
        large.read(Place(uri=uri), look)
    assert large.opened_now == 3


def test_tables_that_grew_are_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Most is known of a table after it was opened, so each read looks at all that are kept."""
    monkeypatch.setattr(kept_tables, "MOST_BYTES", 1500)
    uris, kept = [str(tmp_path / str(number)) for number in range(2)], Kept()

    def read(uri: str) -> None:
        ports = kept.read(Place(uri=uri), lambda ports: (ports.log.load(), ports)[1])
        ports.entries.view("rows", lambda: (ports, 1000))

    for uri in uris:
        made(uri)
        read(uri)
    assert kept.opened_now == 2
    read(uris[1])
    read(uris[0])
    assert kept.opened_now == 3
