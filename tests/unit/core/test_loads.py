"""Loads: the parts of a file follow each other, and the log knows the last one."""

from dataclasses import replace

import pytest

from airflow_provider_segtable.core.errors import CommitConflict
from airflow_provider_segtable.core.log.families.append_events import Appended
from airflow_provider_segtable.core.log.fold import admit
from airflow_provider_segtable.core.log.state import LastPart, LoadPart, with_part
from airflow_provider_segtable.table.log.checkpoint import decode_head, encode_head
from tests.support.builders import after, created, first

FIRST = LoadPart(load="z/day.csv", start=0, end=2, total=5, checksum="00")
SECOND = replace(FIRST, start=2, end=5)


def _appended(partition: int, part: LoadPart) -> Appended:
    return Appended(segments=(first(partition),), load=part)


def test_the_state_has_the_last_part() -> None:
    """After each part the load ends there; a checkpoint keeps that."""
    state = after(created(), _appended(0, FIRST), _appended(1, SECOND))
    assert state.loads == {"z/day.csv": LastPart(2, SECOND)}
    assert SECOND.complete
    assert decode_head(encode_head(state), state.timeline, state.ids).loads == state.loads


@pytest.mark.parametrize("part", [FIRST, replace(SECOND, start=1), replace(SECOND, start=3)])
def test_a_part_that_does_not_follow_is_refused(part: LoadPart) -> None:
    """No part is appended twice, overlaps the last one, or leaves rows out."""
    state = after(created(), _appended(0, FIRST))
    with pytest.raises(CommitConflict, match="goes on after row 2"):
        admit(_appended(1, part), state)
    assert admit(_appended(1, SECOND), state) == _appended(1, SECOND)


def test_a_complete_load_has_no_more_parts() -> None:
    """Rows after the end are another load."""
    state = after(created(), _appended(0, FIRST), _appended(1, SECOND))
    with pytest.raises(CommitConflict):
        admit(_appended(2, replace(SECOND, start=5, end=6, total=6)), state)


def test_loads_leave_the_state_like_commit_ids() -> None:
    """The last parts of the newest events stay."""
    loads = with_part({"old": LastPart(3, FIRST), "new": LastPart(4, FIRST)}, SECOND, 13, keep=10)
    assert list(loads) == ["new", "z/day.csv"]
    again = with_part(loads, replace(FIRST, load="new"), 14, keep=11)
    assert list(again) == ["z/day.csv", "new"]
