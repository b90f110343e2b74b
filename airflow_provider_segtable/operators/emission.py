"""Emit launches as DAG runs; pure functions: equal launches always get equal run ids.

1. Launches of one kind are split into batches, in the planner's order. A batch is one DAG run,
   so Spark starts once for it. Smaller kinds go first: the smaller the kind, the sooner it helps.
2. A batch of one keeps its launch's run id. A larger batch is named by a hash of its run ids: a
   planner that finds the same work again names the same run, and nothing is emitted twice.
   (A batch that is split differently next time runs plans twice, which the log makes harmless.)
3. Airflow takes at most 250 of ``[A-Za-z0-9_.~:+-]``; other names are repaired with a hash.
"""

import hashlib
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from airflow_provider_segtable.core.counted import counted, describe_size
from airflow_provider_segtable.core.errors import InvalidInput
from airflow_provider_segtable.core.log.plan_kinds import kinds
from airflow_provider_segtable.core.time import Interval
from airflow_provider_segtable.services.planner import Launch

LONGEST_RUN_ID = 250
MOST_NAMES = 5
"""Names of tables in the note of a run."""
_FOREIGN = re.compile(r"[^A-Za-z0-9_.~:+-]")


def emissions(
    launches: Sequence[Launch],
    *,
    trigger_dag_ids: Mapping[str, str],
    plans_per_run: int,
    conf: Mapping[str, Any],
    notes: bool = False,
) -> list[dict[str, Any]]:
    """Return arguments of ``TriggerDagRunOperator``, one set per run.

    Args:
        launches: in the planner's order.
        trigger_dag_ids: for each kind of plan, the DAG that carries it out.
        plans_per_run: the most plans that one run gets.
        conf: added to every run's conf.
        notes: whether the runs get a note, which Airflow shows beside a run.

    Raises:
        InvalidInput: as ``check_emission``.
    """
    check_emission({launch.kind for launch in launches}, trigger_dag_ids, plans_per_run)
    return [
        {
            "trigger_dag_id": trigger_dag_ids[batch[0].kind],
            "trigger_run_id": batch_run_id(batch),
            "conf": {
                **conf,
                "plans": [launch.plan_id for launch in batch],
                "reasons": {launch.plan_id: launch.reason for launch in batch},
            },
            **({"note": note_of(batch)} if notes else {}),
        }
        for batch in _batches(launches, plans_per_run)
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Located:
    """A launch with the name of its table."""

    table: str
    launch: Launch


def fleet_emissions(
    located: Sequence[Located],
    *,
    fleet: str,
    trigger_dag_ids: Mapping[str, str],
    plans_per_run: int,
    conf: Mapping[str, Any],
    notes: bool = False,
) -> list[dict[str, Any]]:
    """Return arguments of ``TriggerDagRunOperator`` for plans of many tables, one set per run.

    A run's conf has ``work``, the plans of each of its tables. Arguments as ``emissions``, and
    ``fleet``, the name in the ids of runs over several tables. A kind without a DAG is left out.

    Raises:
        InvalidInput: ``plans_per_run`` is below 1.
    """
    check_emission((), trigger_dag_ids, plans_per_run)
    tables = {each.launch.plan_id: each.table for each in located}
    launches = [each.launch for each in located if each.launch.kind in trigger_dag_ids]
    return [
        {
            "trigger_dag_id": trigger_dag_ids[batch[0].kind],
            "trigger_run_id": _run_id_of_tables(batch, fleet, tables),
            "conf": {
                **conf,
                "work": _work(batch, tables),
                "reasons": {launch.plan_id: launch.reason for launch in batch},
            },
            **({"note": _note_of_tables(batch, tables)} if notes else {}),
        }
        for batch in _batches(launches, plans_per_run)
    ]


def _work(batch: Sequence[Launch], tables: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return the plans of each table of a batch, in the order of their first ones."""
    found: dict[str, list[str]] = {}
    for launch in batch:
        found.setdefault(tables[launch.plan_id], []).append(launch.plan_id)
    return [{"table": table, "plans": plans} for table, plans in found.items()]


def _run_id_of_tables(batch: Sequence[Launch], fleet: str, tables: Mapping[str, str]) -> str:
    """Return a run id that names the table, or the fleet and the number of its tables."""
    names = {tables[launch.plan_id] for launch in batch}
    if len(names) == 1:
        return batch_run_id(batch)
    what = f"{batch[0].kind}__{fleet}__{len(names)}tables_{len(batch)}plans"
    return legal_run_id(f"{what}__{_hash(*(each.run_id for each in batch))}")


def _note_of_tables(batch: Sequence[Launch], tables: Mapping[str, str]) -> str:
    names = [*dict.fromkeys(tables[launch.plan_id] for launch in batch)]
    shown = ", ".join(names[:MOST_NAMES])
    more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
    return f"{shown}{more}: {note_of(batch)}"


def check_emission(
    kinds_to_run: Collection[str], trigger_dag_ids: Mapping[str, str], plans_per_run: int
) -> None:
    """Refuse runs that could not be made, before anything is planned.

    Raises:
        InvalidInput: a kind has no DAG, or ``plans_per_run`` is below 1.
    """
    if plans_per_run < 1:
        raise InvalidInput(f"plans_per_run = {plans_per_run} is too low: give at least 1")
    for kind in kinds_to_run:
        if kind not in trigger_dag_ids:
            known = ", ".join(trigger_dag_ids) or "none"
            raise InvalidInput(
                f"trigger_dag_ids names no DAG for {kind!r} plans, only for {known}: add one"
            )


def note_of(batch: Sequence[Launch]) -> str:
    """Return the work of a batch in one line."""
    segments = counted(sum(launch.segments for launch in batch), "segment")
    size = describe_size(sum(launch.size for launch in batch))
    plans = counted(len(batch), f"{batch[0].kind} plan")
    spans = [launch.interval for launch in batch if launch.interval]
    if not spans:
        return f"{plans}: {segments}, {size}"
    whole = Interval(min(span.start for span in spans), max(span.end for span in spans))
    return f"{plans}: {segments}, {size}, {whole}"


def batch_run_id(batch: Sequence[Launch]) -> str:
    """Return the run id of a batch."""
    if len(batch) == 1:
        return legal_run_id(batch[0].run_id)
    kind_and_table = batch[0].run_id.rsplit("__", 2)[0]
    return legal_run_id(f"{kind_and_table}__{len(batch)}plans__{_hash(*(b.run_id for b in batch))}")


def legal_run_id(text: str) -> str:
    """Return ``text`` as a legal run id, unchanged if it is one already."""
    legal = _FOREIGN.sub("_", text)
    if legal == text and len(text) <= LONGEST_RUN_ID:
        return text
    end = f"__{_hash(text)}"
    return f"{legal[: LONGEST_RUN_ID - len(end)]}{end}"


def _batches(launches: Sequence[Launch], size: int) -> Iterator[Sequence[Launch]]:
    present = {launch.kind for launch in launches}
    known = [kind.kind for kind in kinds()]
    for kind in (*(k for k in known if k in present), *sorted(present.difference(known))):
        alike = [launch for launch in launches if launch.kind == kind]
        for start in range(0, len(alike), size):
            yield alike[start : start + size]


def _hash(*texts: str) -> str:
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()[:16]
