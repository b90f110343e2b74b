"""The actions of a page that acts in its own process."""

from collections.abc import Mapping
from typing import Any

import pytest

from airflow_provider_segtable.core.secret import Secret
from airflow_provider_segtable.page.actions_here import ActionsHere
from airflow_provider_segtable.page.app import page_app
from airflow_provider_segtable.page.rights import COOKIE, OnLoopback
from airflow_provider_segtable.table.context import TableContext
from tests.support.action_contract import USER, ActionContract, World
from tests.support.shown_lake import Browser, ShownLake

TOKEN = "let-me-in"


class Here(World):
    """A table in memory; plans are carried out by a thread of the page."""

    def __init__(self) -> None:
        self.made, self.actions = ShownLake(self.name), ActionsHere()
        app = page_app(self.made.lake, OnLoopback(USER, Secret(TOKEN)), self.actions)
        self.browser = Browser(app, cookies={COOKIE: TOKEN})
        self.append(4)

    @property
    def ports(self) -> TableContext:
        """Return the table's ports."""
        return self.made.tables[self.name]

    def finish(self, outcome: Mapping[str, Any]) -> None:
        """Wait for the only thread that works."""
        del outcome
        self.actions.work.submit(lambda: None).result(20)


@pytest.fixture
def world() -> World:
    """A table of four files, and a user with the token."""
    return Here()


class TestHere(ActionContract):
    """The contract."""
