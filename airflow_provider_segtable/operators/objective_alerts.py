"""Call an alert for tables of a fleet that have missed their objective for some time.

1. An alert is a callable with the task's context, as Airflow's own callbacks are: a function, or a
   notifier, whose templates may use ``missed``. That is a list of ``{"table", "since", "missed",
   "expected"}``, as ``segtable fleet status --json`` has the last two.
2. It is called once an episode (``planning.fleet.alerts``), for all tables together.
3. Planner runs share no process, so the episodes are kept in a variable of Airflow, one a fleet. It
   is there only while a table misses its objective. Planner runs of a fleet follow each other, so
   no two write it at once.
4. An alert never fails the planner: an error is logged, and the next run tries again.
"""

import json
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeAlias

from airflow.providers.common.compat.sdk import Context

from airflow_provider_segtable.core.facts import Facts
from airflow_provider_segtable.core.time import MICROSECOND, Instant, iso
from airflow_provider_segtable.planning.fleet.alerts import (
    Episode,
    Episodes,
    all_said,
    due,
    episodes,
)

if TYPE_CHECKING:
    from airflow_provider_segtable.services.fleet_run import FleetRun, TableReport

Alert: TypeAlias = Callable[[Mapping[str, Any]], object]
"""Called with the context of the planner's task and ``missed``."""

MISSED_FOR = timedelta(minutes=30)

_LOG = logging.getLogger(__name__)


def alert_of_misses(
    alerts: Sequence[Alert],
    *,
    after: timedelta,
    fleet: str,
    run: "FleetRun",
    context: Context,
    now: Instant,
) -> None:
    """Call the alerts for the tables that are due, and keep the episodes."""
    try:
        known = _known(fleet)
        found = _after(known, run, now)
        names = due(found, after // MICROSECOND, now)
        if names and _called(alerts, _missed(found, names, run), context):
            found = all_said(found, names)
        if found != known:
            _keep(fleet, found)
    except Exception:  # noqa: BLE001 - the plans are requested, whatever the alert meets
        _LOG.warning("missed objectives of fleet %s not said", fleet, exc_info=True)


def _after(known: Episodes, run: "FleetRun", now: Instant) -> Episodes:
    missing = {each.name for each in run.tables if each.misses and not each.error}
    return episodes(known, missing, {each.name for each in run.tables if each.error}, now)


def _missed(found: Episodes, names: Sequence[str], run: "FleetRun") -> list[Facts]:
    reports: Mapping[str, TableReport] = {each.name: each for each in run.tables}
    return [
        {
            "table": name,
            "since": iso(found[name].since),
            "missed": [miss.facts() for miss in reports[name].misses],
            "expected": str(reports[name].expected or reports[name].error),
        }
        for name in names
    ]


def _called(alerts: Sequence[Alert], missed: list[Facts], context: Context) -> bool:
    """Call each alert; return whether none failed."""
    failed = 0
    for alert in alerts:
        try:
            alert({**context, "missed": missed})
        except Exception:  # noqa: BLE001 - the next alert is called all the same
            failed += 1
            _LOG.warning("alert %r of missed objectives failed", alert, exc_info=True)
    return not failed


# The variable
def variable_of(fleet: str) -> str:
    """Return the name of the variable with a fleet's episodes."""
    return f"segtable_missed_objectives__{fleet}"


def _known(fleet: str) -> Episodes:
    from airflow.sdk import Variable

    text = Variable.get(variable_of(fleet), default=None)
    return {name: Episode(**each) for name, each in json.loads(text or "{}").items()}


def _keep(fleet: str, found: Episodes) -> None:
    from airflow.sdk import Variable

    if not found:
        Variable.delete(variable_of(fleet))
        return
    text = json.dumps({name: asdict(each) for name, each in found.items()})
    about = "Since when tables of a fleet miss their objective, for alerts; it may be deleted"
    Variable.set(variable_of(fleet), text, description=about)
