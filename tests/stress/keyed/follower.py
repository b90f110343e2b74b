"""A follower of the table: its copy is made of chained windows alone.

1. It begins with nothing, at the version that created the table, as a consumer: so cleaning keeps
   what it has yet to read.
2. Each window's *changes* are applied to the copy. An insert finds no row of its key, a delete and
   the image before an update find exactly the row that they name.
3. Each window's *rows added* are upserted into a second copy, in which deleted keys stay. Its rows
   of keys that the first copy has are those of the first copy.
4. The copies and the position are written in one step, then the consumer is advanced. After a kill
   the follower goes on from what it wrote.
"""

import json
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path

from airflow_provider_segtable.table.context import TableContext
from airflow_provider_segtable.table.table import Table
from tests.every_reader import tuples_of
from tests.stress.keyed.notes import note
from tests.stress.keyed.services import COLUMNS, Going, digest

NAME = "follower"
EVERY_S = 0.5
LONGEST = 32
"""Versions of a window: one that has to be read again after each kill must not grow meanwhile."""
CHANGE = "_segtable_change"
_KEY = COLUMNS.index("row")

Row = tuple[int | None, ...]


@dataclass(slots=True)
class Copy:
    """What a follower knows of the table: rows by key, as of a version."""

    version: int = 0
    rows: dict[str, Row] = field(default_factory=dict)
    added: dict[str, Row] = field(default_factory=dict)

    @staticmethod
    def read(path: Path) -> "Copy":
        """Return the copy that was written last."""
        if not path.exists():
            return Copy()
        found = json.loads(path.read_text())
        rows, added = ({k: tuple(row) for k, row in found[of].items()} for of in ("rows", "added"))
        return Copy(version=found["version"], rows=rows, added=added)

    def write(self, path: Path) -> None:
        """Write the copy in one step."""
        new = path.with_suffix(".new")
        new.write_text(json.dumps(asdict(self)))
        new.replace(path)

    def changed(self, change: str, row: Row) -> Iterator[str]:
        """Apply a change; yield what it contradicts."""
        key = str(row[_KEY])
        known = self.rows.get(key)
        if change == "insert" and known is not None:
            yield f"{row} is inserted over {known}"
        if change in ("delete", "update_before") and known != row:
            yield f"{change} of {row}, but the copy has {known}"
        if change in ("delete", "update_before"):
            self.rows.pop(key, None)
        else:
            self.rows[key] = row


def follow(ports: TableContext, name: str, folder: Path, going: Going) -> None:
    """Follow the table."""
    for _ in going:
        step(ports, name, folder)
        time.sleep(EVERY_S)


def step(ports: TableContext, name: str, folder: Path) -> int:
    """Read one window, at most ``LONGEST`` versions; return the version that it ends with."""
    table, path = Table(ports), folder / f"{name}.copy"
    copy = Copy.read(path)
    end = min(ports.log.load().n, copy.version + LONGEST)
    window = {"since_version": copy.version, "version": end}
    feed = table.scan(**window, changes=True, columns=[*COLUMNS, CHANGE]).to_arrow()  # type: ignore[arg-type]
    changes = feed.column(CHANGE).to_pylist()
    wrong = [
        problem
        for change, row in zip(changes, tuples_of(feed.select(COLUMNS)), strict=True)
        for problem in copy.changed(change, row)
    ]
    for row in tuples_of(table.scan(**window, columns=COLUMNS).to_arrow()):  # type: ignore[arg-type]
        copy.added[str(row[_KEY])] = row
    if odd := [key for key, row in copy.rows.items() if copy.added.get(key) != row]:
        wrong.append(f"rows added differ from changes at keys {odd[:5]}")
    copy.version = end
    copy.write(path)
    table.advance_consumer(NAME, copy.version)
    found = {**window, "digest": digest(copy.rows.values()), "changes": len(changes)}
    note(folder / f"{name}.windows", {**found, "wrong": wrong[:5]})
    return copy.version
