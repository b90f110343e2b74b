"""The result of a delete, update, merge or overwrite as facts."""

from time import monotonic
from typing import Any

from airflow_provider_segtable.cli.display.output import Facts
from airflow_provider_segtable.planning.engine import Engine


def change_facts(
    uri: str, result: Any, *, kind: str, engine: Engine, before: bool, start: float
) -> Facts:
    """Return the result of one change of rows.

    Args:
        uri: the table, as the user named it.
        result: a ``ChangeResult``.
        kind: the change in one word.
        engine: what carried it out.
        before: whether its commit id had landed before.
        start: when it began, by the monotonic clock.
    """
    return {
        "table": uri,
        "version": result.state.n,
        "kind": kind,
        "dry_run": result.dry_run,
        "engine": engine.value,
        "event": result.n,
        "matched": result.matched,
        "deleted": result.deleted,
        "inserted": result.inserted,
        "changed_before": before,
        "seconds": round(monotonic() - start, 3),
    }
