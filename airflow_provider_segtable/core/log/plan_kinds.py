"""The kinds of plan, by name.

A kind to add is one type in a file of this folder, one module in ``planning.finders``, and one
entry in ``KINDS``. A kind that is not listed is refused by its name when a plan is decoded: a newer
segtable wrote it.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from airflow_provider_segtable.core.errors import UnsupportedFormat
from airflow_provider_segtable.core.log.group_plans import MinorPlan, SemiMajorPlan
from airflow_provider_segtable.core.log.index_plan import IndexPlan
from airflow_provider_segtable.core.log.major_plan import MajorPlan
from airflow_provider_segtable.core.log.plan import Plan

KINDS: tuple[type[Plan], ...] = (MinorPlan, SemiMajorPlan, MajorPlan, IndexPlan)


def kinds() -> tuple[type[Plan], ...]:
    """Return all kinds in the order of execution, smallest first."""
    return tuple(sorted(KINDS, key=lambda kind: kind.rank))


def smallest() -> type[Plan]:
    """Return the kind that is executed first."""
    return kinds()[0]


def kind_named(name: str) -> type[Plan] | None:
    """Return the kind of this name, if it is known."""
    return next((kind for kind in KINDS if kind.kind == name), None)


def named(some: Iterable[type[Plan]]) -> str:
    """Return the names of kinds for a message, at least one: ``minor, semi-major or major``."""
    *most, last = (kind.kind for kind in some)
    return f"{', '.join(most)} or {last}" if most else last


def with_option(option: str) -> str:
    """Return the names of the kinds whose requests may choose an option."""
    return named(kind for kind in kinds() if option in kind.options)


def decode_plan(body: Mapping[str, Any]) -> Plan:
    """Parse the output of ``Plan.encode``.

    Raises:
        UnsupportedFormat: the plan's kind is unknown.
    """
    kind = kind_named(body["kind"])
    if kind is None:
        raise UnsupportedFormat(
            f"plan {body['id']} is of kind {body['kind']!r}, which this segtable does not know: "
            "upgrade segtable"
        )
    return kind.decode(body)
