"""Tags: names of versions, which are kept until the tag is removed.

1. ``Tagged`` gives version ``n`` a name; ``Untagged`` removes the name.
2. *Admission*: a tag is refused if its version is no longer kept, or the name is taken; the removal
   of a tag is refused if there is none of that name.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias, assert_never

from airflow_provider_segtable.core.log.event import Conflict, EventKind, no_interval
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.paths import known_name


@dataclass(frozen=True, slots=True, kw_only=True)
class Tagged:
    """Version ``n`` gets a name, and is kept until the tag is removed."""

    name: str
    n: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Untagged:
    """The name of a version is removed."""

    name: str


TagEvent: TypeAlias = Tagged | Untagged

KINDS = (
    EventKind(
        type=Tagged,
        name="Tagged",
        touches=no_interval,
        encode=lambda action: {"name": action.name, "n": action.n},
        decode=lambda body: Tagged(name=known_name(body["name"], "a tag"), n=body["n"]),
        line=lambda action: f"version {action.n} is {action.name}",
    ),
    EventKind(
        type=Untagged,
        name="Untagged",
        touches=no_interval,
        encode=lambda action: {"name": action.name},
        decode=lambda body: Untagged(name=known_name(body["name"], "a tag")),
        line=lambda action: f"tag {action.name} deleted",
    ),
)


def decode_tags(body: Mapping[str, int]) -> dict[str, int]:
    """Parse versions by tag, as cleanings and checkpoints record them."""
    return {known_name(name, "a tag"): n for name, n in body.items()}


def apply(state: State, action: TagEvent) -> State:
    """Return the state with the tag added or removed."""
    match action:
        case Tagged(name=name, n=n):
            return replace(state, tags={**state.tags, name: n})
        case Untagged(name=gone):
            return replace(state, tags={k: n for k, n in state.tags.items() if k != gone})
        case _:
            assert_never(action)


def admit(action: TagEvent, state: State) -> TagEvent | Conflict:
    """Return the action, or the conflict that forbids it."""
    known = state.tags.get(action.name)
    if isinstance(action, Untagged):
        return Conflict(reason=f"there is no tag {action.name!r}") if known is None else action
    if known is not None:
        return Conflict(reason=f"tag {action.name!r} is version {known} already; delete it first")
    if not state.keeps(action.n):
        kept = f"kept are {state.retained_from} to {state.n}"
        return Conflict(reason=f"version {action.n} cannot be tagged: {kept}")
    return action
