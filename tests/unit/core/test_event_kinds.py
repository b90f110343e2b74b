"""Event kinds: a kind of its own file is all that a new event needs."""

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from typing import get_type_hints

import pytest

from airflow_provider_segtable.core.errors import UnsupportedFormat
from airflow_provider_segtable.core.log import events
from airflow_provider_segtable.core.log.event import Conflict, Stamp
from airflow_provider_segtable.core.log.event_kind import (
    EventKind,
    RowEffect,
    RowsInserted,
    intervals_of_segments,
    own_segments,
)
from airflow_provider_segtable.core.log.events import (
    KINDS,
    Action,
    Event,
    decode,
    encode,
    line,
    published,
)
from airflow_provider_segtable.core.log.fold import admit, apply, fold
from airflow_provider_segtable.core.log.state import State, publish
from airflow_provider_segtable.core.reads.effects import Step
from airflow_provider_segtable.core.recovery.diagnosis import violations_since
from airflow_provider_segtable.core.segment import Segment
from airflow_provider_segtable.core.segment_codec import decode_segments, encode_segments
from tests.support.builders import BASE, created, first


@dataclass(frozen=True, slots=True, kw_only=True)
class Gift:
    """Segments that somebody gives to a table, under a tag."""

    tag: str
    segments: tuple[Segment, ...]


def _given(state: State, action: Gift, at: Stamp) -> State:
    return replace(publish(state, action.segments), tags={**state.tags, action.tag: at.n})


def _admit(action: Gift, state: State) -> Gift | Conflict:
    return Conflict(reason="given already") if action.tag in state.tags else action


GIFT = EventKind(
    type=Gift,
    name="Gift",
    encode=lambda action: {"tag": action.tag, "segments": encode_segments(action.segments)},
    decode=lambda body: Gift(tag=body["tag"], segments=decode_segments(body["segments"])),
    line=lambda action: f"a gift: {action.tag}",
    apply=_given,
    admit=_admit,
    touches=intervals_of_segments,
    segments=own_segments,
    effects=lambda action: (RowsInserted(action.segments, RowEffect.INSERT),),
)


def gift(n: int = 1) -> Event:
    """Return a gift of one segment."""
    action = Gift(tag="birthday", segments=(first(0),))
    return Event(n=n, time=BASE + n, commit=f"c{n}", author="test", action=action)  # type: ignore[arg-type]


@pytest.fixture
def listed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """List the kind: in the union of actions, and among the kinds."""
    monkeypatch.setitem(Event.__annotations__, "action", Action | Gift)
    monkeypatch.setitem(events.KIND_OF, Gift, GIFT)
    monkeypatch.setitem(events.KIND_NAMED, "Gift", GIFT)
    events._of_type.cache_clear()
    yield
    events._of_type.cache_clear()


@pytest.mark.usefixtures("listed")
def test_a_new_kind_works_everywhere_once_it_is_listed() -> None:
    """Codec, admission, fold, sums, feeds, checks and lines ask the kind, and know no list."""
    state, event = created(), gift()
    assert decode(encode(event), "event 1") == event
    assert admit(event.action, state) == event.action
    after = apply(state, event)
    assert (after.n, after.tags) == (1, {"birthday": 1})
    assert after.timeline.visible_segments() == (first(0),)
    assert fold(state, [event]) == after
    assert admit(event.action, after) == Conflict(reason="given already")
    assert list(violations_since(after, event)) == []
    assert published([event]).rows == first(0).rows
    assert Step.of(event, changes=False) == Step(n=1, files=1, size=first(0).size)
    assert line(event.action) == "a gift: birthday"


def test_a_kind_that_is_not_listed_does_not_exist() -> None:
    """The log has no event of it: neither written, nor read."""
    with pytest.raises(KeyError):
        encode(gift())
    known = created()
    with pytest.raises(KeyError):
        apply(known, gift())
    data = encode(Event(n=1, time=2, commit="c", author="a", action=events.Untagged(name="x")))
    body = data.replace(b'"kind":"Untagged"', b'"kind":"Gift"')
    with pytest.raises(UnsupportedFormat, match="is a 'Gift' event"):
        _ = decode(_with_checksum(body), "event 1")


def _with_checksum(data: bytes) -> bytes:
    """Return an event file with the checksum that its content has."""
    start = data.index(b'"checksum":"')
    end = data.index(b'",', start) + 2
    body = data[:start] + data[end:]
    return data[:start] + f'"checksum":"{events.digest(body)}",'.encode() + data[end:]


def test_kinds_that_name_segments_publish_them_or_say_why_not() -> None:
    """Of all events with segments, only feeds of an index are not the table's own."""
    silent = {
        kind.name
        for kind in KINDS
        for field in fields(kind.type)
        if get_type_hints(kind.type)[field.name] == tuple[Segment, ...]
        and kind.segments is not own_segments
    }
    assert silent == {"FeedsJoined"}
