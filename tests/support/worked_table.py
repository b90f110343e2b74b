"""A table of a shown lake with a past: appended, joined, changed, indexed and tagged."""

from typing import Any

from airflow_provider_segtable.library.table import Table
from airflow_provider_segtable.services.compact_table import compact_table
from tests.support.shown_lake import Browser, ShownLake

NAME = "a/flights"
AUTHOR = "host1:7 lake_minor/manual__2026-01-01T00:00:00+00:00/compact"


class WorkedTable:
    """A table whose 14 small files were joined into one, before three more were appended."""

    def __init__(self) -> None:
        self.lake = ShownLake(NAME)
        self.lake.append(NAME, 14)
        self.table = Table(self.lake.tables[NAME])
        self.table.create_index("words", "column_stats", ["word"])
        compact_table(self.table.ports, kind="minor")
        self.lake.append(NAME, 3, word="b")
        self.lake.clock.advance(120)
        self.table.delete("word = 'b'")
        self.table.tag("monday")
        self.browser: Browser = self.lake.browser()

    def ask(self, path: str, **query: Any) -> Any:
        """Return the data of an answer."""
        answer = self.browser.get(path, table=NAME, **query)
        assert answer.status_code == 200, answer.text
        self.lake.clock.advance(2)  # no answer is given twice
        return answer.json()["data"]

    def refused(self, path: str, **query: Any) -> tuple[int, str]:
        """Return the status and the message of a refusal."""
        answer = self.browser.get(path, table=NAME, **query)
        return answer.status_code, answer.json()["message"]
