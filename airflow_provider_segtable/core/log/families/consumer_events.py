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
5. A consumer group of the log store stores marks, each for a bucket that a member has. They are
   admitted only if each bucket's mark is still where the member went on from: else ``Fenced``,
   because another member has the bucket now. Groups and readers of windows do not share a name.
6. A group needs the events from the first one on that has a record behind a mark. One that has read
   everything that is committed needs no old event.

Source of the idea: Paimon's consumer ids, Kafka's committed offsets and groups.
"""

from collections.abc import Mapping
from dataclasses import field, replace
from typing import Any

from airflow_provider_segtable.core.consumer import (
    Consumer,
    LogMark,
    decode_marks,
    encode_marks,
    known_consumer_name,
)
from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.errors import Fenced
from airflow_provider_segtable.core.log.event import Conflict, Stamp
from airflow_provider_segtable.core.log.event_kind import EventKind, no_interval, nothing
from airflow_provider_segtable.core.log.families.log_store_events import bucket_of
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.log_store.manifest import Position


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerAdvanced:
    """A consumer has read everything up to ``version``.

    ``before`` is the position that it went on from; None if that does not matter. Of a consumer
    group, ``log`` has marks of buckets, and ``log_before`` the positions that were stored before;
    buckets that had none are left out.
    """

    name: str
    version: int
    before: int | None = None
    log: Mapping[int, LogMark] = field(default_factory=dict)
    log_before: Mapping[int, Position] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerDropped:
    """A consumer is gone, and holds no versions any more."""

    name: str


def _encode_advanced(action: ConsumerAdvanced) -> dict[str, Any]:
    before = {} if action.before is None else {"before": action.before}
    log = {
        "log": encode_marks(action.log),
        "log_before": [[b, at.epoch, at.offset] for b, at in sorted(action.log_before.items())],
    }
    return {
        "name": action.name,
        "version": action.version,
        **before,
        **(log if action.log else {}),
    }


def _line_of_advance(action: ConsumerAdvanced) -> str:
    if not action.log:
        return f"consumer {action.name} has read version {action.version}"
    read = (f"bucket {b} up to {mark.position.offset}" for b, mark in sorted(action.log.items()))
    return f"consumer group {action.name} has read {', '.join(read)}"


def _advanced(state: State, action: ConsumerAdvanced, at: Stamp) -> State:
    known = state.consumers.get(action.name)
    marks = {**(known.log if known else {}), **action.log}
    advanced = Consumer(action.version, at.time, marks)
    return replace(state, consumers={**state.consumers, action.name: advanced})


def _dropped(state: State, action: ConsumerDropped, _: Stamp) -> State:
    left = {name: each for name, each in state.consumers.items() if name != action.name}
    return replace(state, consumers=left)


def _admit_end(action: ConsumerDropped, state: State) -> ConsumerDropped | Conflict:
    none = Conflict(reason=f"there is no consumer {action.name!r}")
    return action if action.name in state.consumers else none


def _admit(action: ConsumerAdvanced, state: State) -> ConsumerAdvanced | Conflict:
    known = state.consumers.get(action.name)
    at = known.version if known else None
    if action.before is not None and action.before != at:
        where = "does not exist" if at is None else f"is at version {at}"
        reason = f"consumer {action.name!r} {where}, not at version {action.before}"
        return Conflict(reason=f"{reason}: another process of this name reads, too")
    if not state.retained_from <= action.version <= state.n:
        kept = f"kept are {state.retained_from} to {state.n}"
        reason = f"consumer {action.name!r} cannot be set to version {action.version}: {kept}"
        return Conflict(reason=reason)
    if known and bool(known.log) != bool(action.log):
        reads = "the log store" if known.log else "windows of versions"
        return Conflict(reason=f"consumer {action.name!r} reads {reads}: use another name")
    _check_marks(action, known)
    return action


def _check_marks(action: ConsumerAdvanced, known: Consumer | None) -> None:
    """Refuse marks of buckets that another member has stored meanwhile.

    Raises:
        Fenced: a mark is not where the author went on from.
    """
    for bucket in action.log:
        mark = known.log.get(bucket) if known else None
        at, before = mark.position if mark else None, action.log_before.get(bucket)
        if at != before:
            raise Fenced(
                f"bucket {bucket} of consumer group {action.name!r} is at {at}, not at {before}: "
                "another member has read it since; go on from the stored position"
            )


def needed_from(state: State, consumer: Consumer) -> int:
    """Return the version after which the events begin that a consumer has yet to read.

    Of a bucket that is read up to the committed end, none of them is needed.
    """
    if not consumer.log:
        return consumer.version
    behind = (
        max(
            mark.through_in(bucket_of(state, bucket).epoch),
            _before_waypoint(state, bucket, mark.position),
        )
        for bucket, mark in consumer.log.items()
        if mark.position.offset < bucket_of(state, bucket).end
    )
    return min(behind, default=state.n)


def _before_waypoint(state: State, bucket: int, at: Position) -> int:
    """Return an event up to which, by the waypoints, no range has the position."""
    span = next(bucket_of(state, bucket).spans(at.offset, state.n), None)
    return -1 if span is None else span.first - 1


KINDS = (
    EventKind(
        type=ConsumerAdvanced,
        name="ConsumerAdvanced",
        apply=_advanced,
        admit=_admit,
        segments=nothing,
        effects=nothing,
        touches=no_interval,
        encode=_encode_advanced,
        decode=lambda body: ConsumerAdvanced(
            name=known_consumer_name(body["name"]),
            version=body["version"],
            before=body.get("before"),
            log=decode_marks(body.get("log", ())),
            log_before={
                bucket: Position(epoch=epoch, offset=offset)
                for bucket, epoch, offset in body.get("log_before", ())
            },
        ),
        line=_line_of_advance,
    ),
    EventKind(
        type=ConsumerDropped,
        name="ConsumerDropped",
        apply=_dropped,
        admit=_admit_end,
        segments=nothing,
        effects=nothing,
        touches=no_interval,
        encode=lambda action: {"name": action.name},
        decode=lambda body: ConsumerDropped(name=known_consumer_name(body["name"])),
        line=lambda action: f"consumer {action.name} dropped",
    ),
)
