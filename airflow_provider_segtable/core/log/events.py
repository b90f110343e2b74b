"""Events: all changes of a table, and their files.

1. An event is ``(n, time, commit, author, action)``. ``n`` counts from 0 without gaps; ``time``
   increases strictly along the log; ``commit`` is the author's own id for this change, by which
   the author recognises its event if the reply was lost.
2. The first event is the table's definition, called ``TableCreated`` in the log; ``TableAltered``
   changes it, and ``TableDropped`` is the last event.
3. A compaction is ``PlanRequested -> PlanInflight -> PlanCompleted``, or it ends in
   ``PlanAborted``. If its worker dies, another ``PlanInflight`` follows; if it loses its locks to
   a request of higher priority, ``PlanYielded`` comes first. The instant of a compaction is the
   time of its first event, its completion time that of ``PlanCompleted``.
4. An append is one event: its instant and completion time coincide. So is an adoption of files.
5. Ids are settled once: published by an append or completion, *voided* when their writer gave
   up, or burnt when the attempt that named them failed.
6. Cleaning is ``Cleaned`` (segments leave the timeline, their files are pending delete), then the
   files are deleted, then ``Swept`` records that. A version that is ``Tagged`` is kept.
7. A repair is one event, ``TableRepaired``: it restores to the log what the files prove.
8. A restore is one event, ``VersionRestored``: an earlier version is carried over to new ids.
9. A consumer's position is set by ``ConsumerAdvanced`` and ends with ``ConsumerDropped``.
10. A delete, an update or a merge is one event, ``RowsChanged``: it deletes and appends atomically.
11. An index begins with ``IndexRequested``. Any event that publishes files may feed it; what it
    lacks is built by runs of ``IndexBuilt``. ``FeedsJoined`` and ``IndexForwarded`` tidy up feeds.
12. A service of the log store takes buckets by ``LogEpochBegun``; its checkpoints are appends.
13. ``GroupsSettled`` records which rows of a primary-key table's files are shown.

On disk:

14. An event file is one JSON object with ``format`` (the number of this codec), ``checksum`` and
    the event's fields; the JSON of an action is that of its family (``core.log.families``).
    Unknown formats and kinds are refused by name, never guessed. Absent attributes of segments and
    plans are omitted, not written as null.
15. The checksum covers everything else, the event's number included, so a torn, flipped or
    misplaced file is detected. Encoding is canonical (sorted keys, no spaces): equal events have
    equal bytes.
16. ``feeds`` is there if the event brings entries of indexes. An older segtable that does not know
    ``feeds`` never gets so far: it refuses the event that requested the index.
17. An event file with a valid checksum may still be wrong: written by hand, or by a program with a
    fault. So each field is compared with its declared type, and ``misfit`` names the wrong field.
    Without it a reader would fail in the middle of a computation. These checks are made once per
    type. Abstract types (``TableKind``, ``Plan``) are checked as the value's own type.
17. Events that were committed together share a file of the kind ``Joined``, under the number of the
    first one (``core.log.joint_file``). It has the objects of its events, of consecutive numbers
    and increasing times. An older segtable refuses the kind by name.

Source of the idea: Hudi's timeline (RFC-66), as one log with put-if-absent.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import lru_cache
from itertools import pairwise
from operator import attrgetter
from types import NoneType, UnionType
from typing import Any, TypeAlias, Union, get_args, get_origin, get_type_hints

from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.errors import (
    CorruptTable,
    SegtableError,
    UnsupportedFormat,
)
from airflow_provider_segtable.core.indexes.index_state import Feed, decode_feeds, encode_feeds
from airflow_provider_segtable.core.log.event import Stamp
from airflow_provider_segtable.core.log.event_kind import Effect, EventKind
from airflow_provider_segtable.core.log.families import (
    append_events,
    change_events,
    cleaning_events,
    consumer_events,
    index_events,
    log_store_events,
    plan_events,
    repair_events,
    restore_events,
    settle_events,
    table_events,
    tag_events,
)
from airflow_provider_segtable.core.log.families.append_events import Adopted, Appended, Voided
from airflow_provider_segtable.core.log.families.change_events import RowsChanged
from airflow_provider_segtable.core.log.families.cleaning_events import (
    Cleaned,
    Swept,
)
from airflow_provider_segtable.core.log.families.consumer_events import (
    ConsumerAdvanced,
    ConsumerDropped,
)
from airflow_provider_segtable.core.log.families.index_events import (
    FeedsJoined,
    IndexBuilt,
    IndexDropped,
    IndexForwarded,
    IndexRequested,
)
from airflow_provider_segtable.core.log.families.log_store_events import LogEpochBegun
from airflow_provider_segtable.core.log.families.plan_events import (
    PlanAborted,
    PlanCompleted,
    PlanInflight,
    PlanRequested,
    PlanYielded,
)
from airflow_provider_segtable.core.log.families.repair_events import TableRepaired
from airflow_provider_segtable.core.log.families.restore_events import VersionRestored
from airflow_provider_segtable.core.log.families.settle_events import GroupsSettled
from airflow_provider_segtable.core.log.families.table_events import (
    TableAltered,
    TableDropped,
)
from airflow_provider_segtable.core.log.families.tag_events import Tagged, Untagged
from airflow_provider_segtable.core.paths import digest
from airflow_provider_segtable.core.segment import Segment
from airflow_provider_segtable.core.segment_codec import Json
from airflow_provider_segtable.core.tables.definition import TableDefinition
from airflow_provider_segtable.core.time import Interval, iso, parse_instant

Action: TypeAlias = (
    TableDefinition
    | TableAltered
    | TableDropped
    | Adopted
    | Appended
    | Voided
    | RowsChanged
    | PlanRequested
    | PlanInflight
    | PlanCompleted
    | PlanYielded
    | PlanAborted
    | Cleaned
    | Swept
    | Tagged
    | Untagged
    | TableRepaired
    | VersionRestored
    | ConsumerAdvanced
    | ConsumerDropped
    | IndexRequested
    | IndexBuilt
    | FeedsJoined
    | IndexForwarded
    | IndexDropped
    | LogEpochBegun
    | GroupsSettled
)

KINDS: tuple[EventKind[Any], ...] = (
    *table_events.KINDS,
    *append_events.KINDS,
    *change_events.KINDS,
    *plan_events.KINDS,
    *cleaning_events.KINDS,
    *tag_events.KINDS,
    *repair_events.KINDS,
    *restore_events.KINDS,
    *consumer_events.KINDS,
    *index_events.KINDS,
    *log_store_events.KINDS,
    *settle_events.KINDS,
)

KIND_OF: dict[type, EventKind[Any]] = {kind.type: kind for kind in KINDS}


# Answers of the kinds
def kind_of(action: Action) -> EventKind[Any]:
    """Return the kind of an action."""
    return KIND_OF[type(action)]


def line(action: Action) -> str:
    """Return in one line what an action does, for people."""
    return kind_of(action).line(action)


def touched(action: Action) -> frozenset[Interval] | None:
    """Return the intervals in which an action may change segments; None means all of them."""
    return kind_of(action).touches(action)


def segments_of(action: Action) -> tuple[Segment, ...]:
    """Return the segments that an action publishes."""
    return kind_of(action).segments(action)


def plans_of(action: Action) -> tuple[str, ...]:
    """Return the id of the plan that an action is about, if it is about one."""
    return kind_of(action).plans(action)


def effects(action: Action) -> tuple[Effect, ...]:
    """Return the changes of rows by an action, in order; none if it only moves them."""
    return kind_of(action).effects(action)


@dataclass(frozen=True, slots=True, kw_only=True)
class Event(Stamp):
    """One entry of the log; ``feeds`` are entries of indexes about the files that it publishes."""

    action: Action
    feeds: tuple[Feed, ...] = ()

    @property
    def kind(self) -> str:
        """Return the action's name in the log, which never changes."""
        return kind_of(self.action).name


# Sums over the events that published rows
@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """Sums over events: ``event`` is the newest one, ``events`` are all of them; in log order."""

    event: int
    events: tuple[int, ...]
    rows: int
    segments: int
    bytes: int
    plans: tuple[str, ...]


def published(events: Sequence[Event]) -> Published:
    """Return what events published; there is at least one."""
    found = [segment for event in events for segment in segments_of(event.action)]
    numbers = sorted(event.n for event in events)
    return Published(
        event=numbers[-1],
        events=tuple(numbers),
        rows=sum(segment.rows for segment in found),
        segments=len(found),
        bytes=sum(segment.size for segment in found),
        plans=tuple(dict.fromkeys(plan for event in events for plan in plans_of(event.action))),
    )


# Comparison of decoded fields with their declared types
Check = Callable[[Any], str]
"""Returns where a value does not have its type; empty if it has."""


def misfit(value: object) -> str:
    """Return the first field of a dataclass that has another type, and its value; empty if none."""
    kind: Any = type(value)
    return _of_type(kind)(value)


@lru_cache(maxsize=512)
def _of_type(kind: Any) -> Check:
    """Return the check of all fields of a dataclass."""
    hints = get_type_hints(kind)
    names = [each.name for each in fields(kind)]
    plain = [name for name in names if hints[name] in (int, str, bool, bytes)]
    wanted = tuple(hints[name] for name in plain)
    values = attrgetter(*plain, *plain[:1]) if plain else None  # always a tuple
    checks = [(name, _check(hints[name])) for name in names]
    others = [each for each in checks if each[0] not in plain]

    def check(value: Any) -> str:
        fit = values is None or tuple(map(type, values(value)))[:-1] == wanted
        for name, fits in others if fit else checks:
            if found := fits(getattr(value, name)):
                return f"{name}{found}"
        return ""

    return check


def _check(hint: Any) -> Check:
    """Return the check of values of a type."""
    origin, inside = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        return _any_of([_check(each) for each in inside])
    if origin is tuple:
        return _each(inside[0]) if inside[1:] == (...,) else _row(inside)
    if origin is frozenset:
        return _each(inside[0], frozenset)
    if origin is not None and issubclass(origin, Mapping):
        return _entries(*inside)
    return _plain(hint)


def _plain(hint: Any) -> Check:
    if hint is Any or not isinstance(hint, type):
        return lambda _: ""
    if is_dataclass(hint) or getattr(hint, "_is_protocol", False):
        return _dataclass(hint)
    if hint is float:
        return _one_of(int, float)
    return _one_of(hint)


def _dataclass(hint: type) -> Check:
    protocol = getattr(hint, "_is_protocol", False)
    concrete = hint if not protocol else object

    def check(value: Any) -> str:
        kind: Any = type(value)
        if not isinstance(value, concrete) or not hasattr(kind, "__dataclass_fields__"):
            return f" is a {kind.__name__}"  # no value: that of a whole segment says less
        found = _of_type(kind)(value)
        return f".{found}" if found else ""

    return check


def _one_of(*kinds: type) -> Check:
    exact = not any(issubclass(kind, Enum) for kind in kinds)

    def check(value: Any) -> str:
        fits = type(value) in kinds if exact else isinstance(value, kinds)
        return "" if fits or (value is None and NoneType in kinds) else f" = {value!r}"

    return check


def _any_of(checks: list[Check]) -> Check:
    def check(value: Any) -> str:
        wrong = ""
        for each in checks:
            found = each(value)
            if not found:
                return ""
            wrong = wrong or found
        return wrong

    return check


def _each(inside: Any, kind: Any = tuple) -> Check:
    one = _check(inside)

    def check(value: Any) -> str:
        if type(value) is not kind:
            return f" = {value!r}"
        for at, item in enumerate(value):
            if found := one(item):
                return f"[{at}]{found}"
        return ""

    return check


def _row(inside: tuple[Any, ...]) -> Check:
    checks = [_check(each) for each in inside]

    def check(value: Any) -> str:
        if type(value) is not tuple or len(value) != len(checks):
            return f" = {value!r}"
        return next((f for one, item in zip(checks, value, strict=True) if (f := one(item))), "")

    return check


def _entries(key: Any, item: Any) -> Check:
    keys, items = _check(key), _check(item)

    def check(value: Any) -> str:
        if not isinstance(value, Mapping):
            return f" = {value!r}"
        for name, each in value.items():
            if found := keys(name) or items(each):
                return f"[{name!r}]{found}"
        return ""

    return check


# Encoding and decoding of event files
FORMAT = 1

KIND_NAMED = {kind.name: kind for kind in KINDS}


JOINED = "Joined"
"""The kind of a file of several events."""
MOST_JOINED = 64
"""The most events in one file."""
JOINABLE = range(2, MOST_JOINED + 1)
"""The numbers of events that a file of several may have."""


def encode(event: Event) -> bytes:
    """Return the content of the file of an event that is alone in it."""
    return _sealed({"format": FORMAT, **_body(event)})


def encode_file(events: Sequence[Event]) -> bytes:
    """Return the content of the file of one or more events, of consecutive numbers."""
    if len(events) == 1:
        return encode(events[0])
    bodies = [_body(event) for event in events]
    return _sealed({"format": FORMAT, "n": events[0].n, "kind": JOINED, "events": bodies})


def _body(event: Event) -> Json:
    return {
        "n": event.n,
        "time": iso(event.time),
        "commit": event.commit,
        "author": event.author,
        "kind": event.kind,
        "action": KIND_OF[type(event.action)].encode(event.action),
        **({"feeds": encode_feeds(event.feeds)} if event.feeds else {}),
    }


def _sealed(body: Json) -> bytes:
    """Return an object with its checksum; each value is encoded once."""
    before = _canonical({key: body[key] for key in body if key < "checksum"})[:-1]
    after = _canonical({key: body[key] for key in body if key > "checksum"})[1:]
    comma = b"," if len(before) > 1 else b""
    checksum = f'"checksum":"{_checksum(before + comma + after)}",'.encode()
    return before + comma + checksum + after


def decode(data: bytes, where: str) -> Event:
    """Parse the file of one event; arguments and errors as ``decode_file``."""
    found = decode_file(data, where)
    if len(found) > 1:
        raise CorruptTable(f"{where} has {len(found)} events instead of one: restore it")
    return found[0]


def decode_file(data: bytes, where: str) -> tuple[Event, ...]:
    """Parse an event file; return its events in order.

    Args:
        data: the file's content.
        where: the file's name, for messages.

    Raises:
        UnsupportedFormat: if a newer segtable wrote the file.
        CorruptTable: if the file is torn, flipped, or no event.
    """
    try:
        body = json.loads(data)
        checksum = body.pop("checksum")
        found = body["format"]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise CorruptTable(
            f"{where} is not an event ({error}): restore it or repair the log"
        ) from None
    if found != FORMAT:
        raise UnsupportedFormat(
            f"{where} has format {found}, this segtable reads {FORMAT}: upgrade segtable"
        )
    # Without the checksum, these are the bytes that the author hashed; encoding again costs more.
    if checksum != _checksum(data.replace(f'"checksum":"{checksum}",'.encode(), b"", 1)):
        raise CorruptTable(f"{where} fails its checksum: restore it or repair the log")
    if body.get("kind") != JOINED:
        return (_parsed(body, where),)
    return _joined(body, where)


def _joined(body: Json, where: str) -> tuple[Event, ...]:
    """Return the events of a file of several; errors as ``decode_file``."""
    first, bodies = body.get("n"), body.get("events")
    if type(first) is not int or not isinstance(bodies, list) or len(bodies) not in JOINABLE:
        raise CorruptTable(f"{where} has no list of events: restore it or repair the log")
    last = first + len(bodies) - 1
    events = tuple(_parsed(each, where, (first, last)) for each in bodies)
    numbered = [event.n for event in events] == [*range(first, last + 1)]
    if not numbered or any(two.time <= one.time for one, two in pairwise(events)):
        raise CorruptTable(f"{where} has events out of order: restore it or repair the log")
    return events


def _parsed(body: Any, where: str, joined: tuple[int, int] | None = None) -> Event:
    """Return the event of an object; errors as ``decode_file``."""
    kind = body.get("kind") if isinstance(body, dict) else None
    if not isinstance(kind, str) or kind not in KIND_NAMED:
        raise UnsupportedFormat(f"{where} is a {kind!r} event: upgrade segtable")
    try:
        event = _decoded(body, joined)
    except UnsupportedFormat as error:
        raise UnsupportedFormat(f"{where}: {error}") from None
    except SegtableError as error:
        raise CorruptTable(f"{where}: {error}") from None
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        reason = f"{type(error).__name__}: {error}"
        raise CorruptTable(
            f"{where} is not a valid {body['kind']} event ({reason}): restore it or repair the log"
        ) from None
    if wrong := misfit(event):
        raise CorruptTable(
            f"{where} is not a valid {body['kind']} event: its field {wrong} has another type: "
            "restore it or repair the log"
        )
    return event


def _decoded(body: Json, joined: tuple[int, int] | None) -> Event:
    return Event(
        n=body["n"],
        time=parse_instant(body["time"]),
        commit=body["commit"],
        author=body["author"],
        action=KIND_NAMED[body["kind"]].decode(body["action"]),
        feeds=decode_feeds(body["feeds"]) if "feeds" in body else (),
        joined=joined,
    )


def _canonical(body: Json) -> bytes:
    return json.dumps(body, sort_keys=True, separators=(",", ":")).encode()


def _checksum(canonical: bytes) -> str:
    return digest(canonical)
