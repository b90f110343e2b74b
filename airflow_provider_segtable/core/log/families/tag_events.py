"""Tags: names of versions, which are kept until the tag is removed.

1. ``Tagged`` gives version ``n`` a name; ``Untagged`` removes the name.
2. *Admission*: a tag is refused if its version is no longer kept, or the name is taken; the removal
   of a tag is refused if there is none of that name.
"""

from collections.abc import Mapping
from dataclasses import replace

from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.log.event import Conflict, Stamp
from airflow_provider_segtable.core.log.event_kind import EventKind, no_interval, nothing
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


def decode_tags(body: Mapping[str, int]) -> dict[str, int]:
    """Parse versions by tag, as cleanings and checkpoints record them."""
    return {known_name(name, "a tag"): n for name, n in body.items()}


def _tagged(state: State, action: Tagged, _: Stamp) -> State:
    return replace(state, tags={**state.tags, action.name: action.n})


def _untagged(state: State, action: Untagged, _: Stamp) -> State:
    left = {name: n for name, n in state.tags.items() if name != action.name}
    return replace(state, tags=left)


def _admit_tag(action: Tagged, state: State) -> Tagged | Conflict:
    known = state.tags.get(action.name)
    if known is not None:
        return Conflict(reason=f"tag {action.name!r} is version {known} already; delete it first")
    if not state.keeps(action.n):
        kept = f"kept are {state.retained_from} to {state.n}"
        return Conflict(reason=f"version {action.n} cannot be tagged: {kept}")
    return action


def _admit_removal(action: Untagged, state: State) -> Untagged | Conflict:
    if action.name not in state.tags:
        return Conflict(reason=f"there is no tag {action.name!r}")
    return action


KINDS = (
    EventKind(
        type=Tagged,
        name="Tagged",
        apply=_tagged,
        admit=_admit_tag,
        segments=nothing,
        effects=nothing,
        touches=no_interval,
        encode=lambda action: {"name": action.name, "n": action.n},
        decode=lambda body: Tagged(name=known_name(body["name"], "a tag"), n=body["n"]),
        line=lambda action: f"version {action.n} is {action.name}",
    ),
    EventKind(
        type=Untagged,
        name="Untagged",
        apply=_untagged,
        admit=_admit_removal,
        segments=nothing,
        effects=nothing,
        touches=no_interval,
        encode=lambda action: {"name": action.name},
        decode=lambda body: Untagged(name=known_name(body["name"], "a tag")),
        line=lambda action: f"tag {action.name} deleted",
    ),
)
