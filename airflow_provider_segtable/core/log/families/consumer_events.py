"""Consumers: readers that follow a table by windows, and record how far they have read.

1. ``ConsumerAdvanced`` sets a consumer's position; the first one makes the consumer.
   ``ConsumerDropped`` ends it, and its hold on old versions.
2. A position is a kept version: the next window begins after it. It may also be set back.
3. *Admission*: refused if the version is not kept, or if the author names the position that it went
   on from and another process of this name has moved it since. The removal of a consumer is refused
   if there is none of that name.
4. Cleaning keeps the versions from a position on for a bounded time (``retention.consumer_hours``).
   A cleaning is refused if a consumer would lose its position by it that its author had not read
   (``cleaning_events``).

Source of the idea: Paimon's consumer ids, Kafka's committed offsets.
"""

from dataclasses import dataclass, replace
from typing import Any, TypeAlias, assert_never

from airflow_provider_segtable.core.log.conflict import Conflict
from airflow_provider_segtable.core.log.event_kind import EventKind
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.reads.consumer import Consumer, known_consumer_name
from airflow_provider_segtable.core.time.interval import Instant


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerAdvanced:
    """A consumer has read everything up to ``version``.

    ``before`` is the position that it went on from; None if that does not matter.
    """

    name: str
    version: int
    before: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerDropped:
    """A consumer is gone, and holds no versions any more."""

    name: str


ConsumerEvent: TypeAlias = ConsumerAdvanced | ConsumerDropped


def _encode_advanced(action: ConsumerAdvanced) -> dict[str, Any]:
    before = {} if action.before is None else {"before": action.before}
    return {"name": action.name, "version": action.version, **before}


KINDS = (
    EventKind(
        type=ConsumerAdvanced,
        name="ConsumerAdvanced",
        encode=_encode_advanced,
        decode=lambda body: ConsumerAdvanced(
            name=known_consumer_name(body["name"]),
            version=body["version"],
            before=body.get("before"),
        ),
        line=lambda action: f"consumer {action.name} has read version {action.version}",
    ),
    EventKind(
        type=ConsumerDropped,
        name="ConsumerDropped",
        encode=lambda action: {"name": action.name},
        decode=lambda body: ConsumerDropped(name=known_consumer_name(body["name"])),
        line=lambda action: f"consumer {action.name} dropped",
    ),
)


def apply(state: State, action: ConsumerEvent, time: Instant) -> State:
    """Return the state with the consumer's position, or without the consumer."""
    match action:
        case ConsumerAdvanced(name=name, version=version):
            return replace(state, consumers={**state.consumers, name: Consumer(version, time)})
        case ConsumerDropped(name=gone):
            left = {name: each for name, each in state.consumers.items() if name != gone}
            return replace(state, consumers=left)
        case _:
            assert_never(action)


def admit(action: ConsumerEvent, state: State) -> ConsumerEvent | Conflict:
    """Return the action, or the conflict that forbids it."""
    known = state.consumers.get(action.name)
    if isinstance(action, ConsumerDropped):
        none = Conflict(reason=f"there is no consumer {action.name!r}")
        return none if known is None else action
    at = known.version if known else None
    if action.before is not None and action.before != at:
        where = "does not exist" if at is None else f"is at version {at}"
        reason = f"consumer {action.name!r} {where}, not at version {action.before}"
        return Conflict(reason=f"{reason}: another process of this name reads, too")
    if not state.retained_from <= action.version <= state.n:
        kept = f"kept are {state.retained_from} to {state.n}"
        reason = f"consumer {action.name!r} cannot be set to version {action.version}: {kept}"
        return Conflict(reason=reason)
    return action
