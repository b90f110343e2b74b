"""Name the work of a DAG run: launches as runs, and plans or segments in rendered fields.

Launches as DAG runs (pure functions: equal launches always get equal run ids):

1. Launches of one kind are split into batches, in the planner's order. A batch is one DAG run,
   so Spark starts once for it. Smaller kinds go first: the smaller the kind, the sooner it helps.
2. A batch of one keeps its launch's run id. A larger batch is named by a hash of its run ids: a
   planner that finds the same work again names the same run, and nothing is emitted twice.
   (A batch that is split differently next time runs plans twice, which the log makes harmless.)
3. Airflow takes at most 250 of ``[A-Za-z0-9_.~:+-]``; other names are repaired with a hash.

Rendered fields of a task (plans, or segments chosen for a kind):

4. Lists come as lists (from an upstream task) or as their JSON text (from a template). Nothing, an
   empty text and an empty list are the same.
5. ``kind`` and ``segments`` go together, and exclude ``plans``.
"""

import hashlib
import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from airflow_provider_segtable.core.arguments import plain, plan_id_of, shown
from airflow_provider_segtable.core.counted import counted, describe_size
from airflow_provider_segtable.core.errors import InvalidInput
from airflow_provider_segtable.core.log.plan_kinds import kinds
from airflow_provider_segtable.core.time import Interval
from airflow_provider_segtable.services.planner import Launch

LONGEST_RUN_ID = 250
_FOREIGN = re.compile(r"[^A-Za-z0-9_.~:+-]")


# Launches as DAG runs
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
    what = counted(len(batch), f"{batch[0].kind} plan")
    spans = [launch.interval for launch in batch if launch.interval]
    if not spans:
        return f"{what}: {segments}, {size}"
    whole = Interval(min(span.start for span in spans), max(span.end for span in spans))
    return f"{what}: {segments}, {size}, {whole}"


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


# Work that rendered fields name
@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """The work of a task: ``plans`` (None: every pending one), or ``segments`` by a ``kind``."""

    plans: Sequence[str] | None = None
    kind: str = ""
    segments: Sequence[str] = ()


def asked_work(
    plans: Sequence[str] | str | None, kind: str | None, segments: Sequence[str] | str | None
) -> Asked:
    """Return the work that rendered templates name.

    Raises:
        InvalidInput: a value has another form, or plans and a kind are both given.
    """
    found = asked_plans(plans)
    chosen = listed("segments", segments, "segment ids", "20130101T000000_...")
    if not kind:
        if chosen:
            raise InvalidInput(
                f"segments = {shown(segments)} was given without a kind: give kind, too"
            )
        return Asked(plans=found)
    if found:
        raise InvalidInput(
            f"kind = {shown(kind)} and plans = {shown(plans)} exclude each other: leave out one"
        )
    return Asked(kind=plain("kind", kind), segments=[plain("segments", each) for each in chosen])


def asked_plans(plans: Sequence[str] | str | None) -> Sequence[str] | None:
    """Return plan ids from a rendered template; None means every pending plan.

    Raises:
        InvalidInput: it is not a list of plan ids, nor the JSON text of one.
    """
    found = listed("plans", plans, "plan ids", "minor-...")
    return [plan_id_of(each) for each in found] if found else None


def listed(what: str, given: Sequence[str] | str | None, of: str, example: str) -> Sequence[str]:
    """Return a list of texts from a rendered template, which may be its JSON text.

    Raises:
        InvalidInput: it is no list of texts.
    """
    found = _parsed(given)
    if not found:
        return ()
    if not isinstance(found, list | tuple) or not all(isinstance(each, str) for each in found):
        raise InvalidInput(
            f'{what} = {shown(given)} is not a JSON list of {of}: write e.g. ["{example}"]'
        )
    return found


def mapped(what: str, given: Mapping[str, Any] | str | None, example: str) -> Mapping[str, Any]:
    """Return values by name from a rendered template, which may be their JSON text.

    Raises:
        InvalidInput: it is no mapping.
    """
    found = _parsed(given)
    if not found:
        return {}
    if not isinstance(found, Mapping):
        raise InvalidInput(f"{what} = {shown(given)} is not a JSON object: write e.g. {example}")
    return found


def _parsed(given: object) -> Any:
    """Return a value, or that of its JSON text; a text that is no JSON as it is."""
    if not isinstance(given, str):
        return given
    try:
        return json.loads(given or "null")
    except (ValueError, RecursionError):
        return given
