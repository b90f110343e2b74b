"""Turn indexes into facts and words: what each keeps, how far it is, what its own table takes."""

from airflow_provider_segtable.cli.display.output import Facts
from airflow_provider_segtable.core.catch_up import catch_up
from airflow_provider_segtable.core.counted import counted
from airflow_provider_segtable.core.indexes.index_kind import IndexKind
from airflow_provider_segtable.core.indexes.index_state import IndexState
from airflow_provider_segtable.core.log.families.table_events import TableCreated
from airflow_provider_segtable.core.log.index_plan import pending_plan
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.time import Instant, iso


def index_facts(index: IndexState, state: State, now: Instant) -> Facts:
    """Return what the log knows of an index: what it keeps, and how far it is."""
    definition, kind = index.definition, index.definition.kind
    verdict, since = catch_up(state, definition.name, now=now), index.lacking_since
    plan = pending_plan(index.definition.id, state.pending_plans())
    return {
        "name": definition.name,
        "id": definition.id,
        "kind": kind.name,
        "columns": column_names(kind, state.table),
        "settings": {key: value for key, value in kind.encoded().items() if key != "columns"},
        "status": index.status.value,
        "current": index.current,
        "requested": index.requested_n,
        "requested_at": iso(index.requested_at),
        "available": index.available_n,
        "lag_commits": verdict.lag_commits,
        "lag_s": verdict.lag_s,
        "lacking_since": None if since is None else iso(since),
        "lacking": [str(each) for each in dict.fromkeys(lack.interval for lack in index.lacks)],
        "message": verdict.message,
        "waiting_feeds": len(index.feeds),
        "plan": None if plan is None else plan.plan.id,
        "plan_status": None if plan is None else plan.status.value,
        "plan_requested": None if plan is None else iso(plan.requested_at),
        "plan_age_s": None if plan is None else max(0, now - plan.requested_at) / 1_000_000,
    }


def column_names(kind: IndexKind, table: TableCreated) -> list[str]:
    """Return the present names of the indexed columns."""
    known = {column.id: column.name for column in table.schema.numbered}
    return [known.get(number, f"dropped column {number}") for number in kind.columns]


def index_line(facts: Facts) -> str:
    """Return an index in a line: what it keeps, and how far it is."""
    behind = f", {counted(facts['lag_commits'], 'commit')} behind" if facts["lag_commits"] else ""
    return f"{keeps(facts)}; {facts['status']}{behind}"


def keeps(facts: Facts) -> str:
    """Return the kind of an index with its columns and settings."""
    settings = (f"{key} {value:g}" for key, value in facts["settings"].items())
    on = f" on {', '.join(facts['columns'])}" if facts["columns"] else ""
    return ", ".join([f"{facts['kind']}{on}", *settings])
