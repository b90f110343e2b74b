"""Consumers of a table: readers of windows, whose positions are events of the log.

1. A consumer reads the window after its position, handles the rows, and then advances. If it dies
   in between, it reads the same window again: at least once. A consumer that writes its results and
   the end of the window in one transaction of its own handles each row once.
2. Two processes of one name notice each other if they name the position that they went on from.
"""

from airflow_provider_segtable.core.errors import (
    InvalidInput,
    InvalidName,
    VersionExpired,
)
from airflow_provider_segtable.core.log.events import ConsumerAdvanced, ConsumerDropped
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.paths import is_name
from airflow_provider_segtable.core.reads.consumer import Consumer
from airflow_provider_segtable.table.context import TableContext
from airflow_provider_segtable.table.log.committer import Change, commit_or_raise


def advance(
    ports: TableContext, name: str, version: int | None, *, before: int | None = None
) -> int:
    """Set a consumer's position; see ``Table.advance_consumer``."""
    if not is_name(name):
        raise InvalidName(
            f"{name!r} is not a consumer's name: use up to 100 letters, digits, '.', '_' and '-', "
            "beginning with a letter or digit"
        )
    newest = ports.log.load()
    wanted = newest.n if version is None else version
    if not 0 <= wanted <= newest.n:
        raise InvalidInput(f"{ports.uri} has no version {wanted}: the newest is {newest.n}")
    if wanted < newest.retained_from:
        raise VersionExpired(
            f"{ports.uri}: version {wanted} was cleaned, so consumer {name!r} cannot go on from "
            f"there: the oldest position is {newest.retained_from}"
        )
    known = newest.consumers.get(name)
    if known and known.version == wanted and before in (None, wanted):
        return wanted
    action = ConsumerAdvanced(name=name, version=wanted, before=before)
    commit_or_raise(ports, newest, Change(action=action, commit_id=ports.randomness.token()))
    return wanted


def drop_consumer(ports: TableContext, name: str) -> None:
    """Remove a consumer; see ``Table.drop_consumer``."""
    newest = ports.log.load()
    known_consumer(newest, name)
    change = Change(action=ConsumerDropped(name=name), commit_id=ports.randomness.token())
    commit_or_raise(ports, newest, change)


def known_consumer(state: State, name: str) -> Consumer:
    """Return a consumer.

    Raises:
        InvalidInput: it does not exist; the message lists the consumers.
    """
    if name not in state.consumers:
        known = ", ".join(sorted(state.consumers)) or "none"
        raise InvalidInput(
            f"there is no consumer {name!r}: known are {known}; `segtable consumers advance` "
            "makes one"
        )
    return state.consumers[name]
