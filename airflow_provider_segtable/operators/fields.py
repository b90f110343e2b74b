"""Read the work of a task from its rendered fields: plans, or segments chosen for a kind.

1. Lists come as lists (from an upstream task) or as their JSON text (from a template). Nothing, an
   empty text and an empty list are the same.
2. ``kind`` and ``segments`` go together, and exclude ``plans``.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from airflow_provider_segtable.core.arguments import plain, plan_id_of, shown
from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.errors import InvalidInput


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


def listed(name: str, given: Sequence[str] | str | None, of: str, example: str) -> Sequence[str]:
    """Return a list of texts from a rendered template, which may be its JSON text.

    Raises:
        InvalidInput: it is no list of texts.
    """
    found = parsed_value(given)
    if not found:
        return ()
    if not isinstance(found, list | tuple) or not all(isinstance(each, str) for each in found):
        raise InvalidInput(
            f'{name} = {shown(given)} is not a JSON list of {of}: write e.g. ["{example}"]'
        )
    return found


def mapped(name: str, given: Mapping[str, Any] | str | None, example: str) -> Mapping[str, Any]:
    """Return values by name from a rendered template, which may be their JSON text.

    Raises:
        InvalidInput: it is no mapping.
    """
    found = parsed_value(given)
    if not found:
        return {}
    if not isinstance(found, Mapping):
        raise InvalidInput(f"{name} = {shown(given)} is not a JSON object: write e.g. {example}")
    return found


def parsed_value(given: object) -> Any:
    """Return a value, or the value of its JSON text; any other text as it is."""
    if not isinstance(given, str):
        return given
    try:
        return json.loads(given or "null")
    except (ValueError, RecursionError):
        return given
